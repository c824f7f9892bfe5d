# SPDX-License-Identifier: GPL-3.0-or-later
"""The solve for one pose at a time, as games and Live IK call it.

It gives the same answer as :meth:`.solver.Solver.solve_batch` for one pose (a test compares them), in float64 and much faster:
for a single pose NumPy's calls cost more than its arithmetic, so everything about a network and its rig is prepared once, and
a few numbers are computed faster in plain Python. In a NumPy without BLAS the network's products go through einsum, which is
fast there too. The kinematics are in :mod:`.single_kinematics`, the refinement in :mod:`.single_refinement`.

Unless said otherwise, lengths are in leg lengths, angles in radians, in the root frame (see :mod:`.context`); E effectors, J
bones. A pose is its ``inverse`` (J, 3, 3), the transposed orientations ``D``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ..core import quick_rotations as quick
from ..core import rotations
from ..core.contacts import GROUND
from . import likely_steps
from .batches import toe_arms
from .context import SHORTEST_HEADING, own_body
from .goals import Goals
from .network import Network, stack
from .pose_prior import key_of_one, known_keys
from .refinement import clamp
from .single_kinematics import IDENTITY, forward_one, heads_one, local_products, make_plan, relative_one
from .single_refinement import LikelyOne, project_on_normals, refine_one

TOLERANCE = 1e-10
"""Squared error [leg lengths, rad] below which a solve takes no further step: a hundredth of a millimetre, which nobody sees."""
TOLERANCE_ANCHORED = 1e-9
"""The same for an anchored solve: three hundredths of a millimetre, because a drag waits for it."""

_ZEROS = [0.0, 0.0, 0.0]


@dataclass(frozen=True)
class PreviousPose:
    """What a session keeps of the pose it solved before."""

    heading: float
    """[rad] about core up."""
    positions: np.ndarray
    """(3, E) heads of the effectors."""
    inverse: np.ndarray
    """(E, 3, 3) their transposed orientations."""


@dataclass(frozen=True)
class AnchorPose:
    """A pose that answers are built on, as its difference from the network's own; made by :meth:`SinglePoseSolver.anchor`."""

    pose: PreviousPose
    """The pose itself, in place of the one solved before."""
    corrections: np.ndarray
    """(J, 3, 3) rotations multiplied on the right of the network's rotations relative to the parent."""
    shift: np.ndarray
    """(3) added to the root's shift."""


class RootFrame(NamedTuple):
    """The root frame of one pose."""

    hips: np.ndarray
    """(3, 3) rotation of the Hips from the T-posed rest, in the root frame."""
    heading: float
    """[rad] the heading that was removed, about core up."""
    unheading: np.ndarray
    """(3, 3) from core axes into the root frame: the turn that removes the heading."""
    axes: np.ndarray
    """(3, 3) from armature axes into the root frame."""


class SinglePoseSolver:
    """A network and its rig, prepared for solving one pose at a time."""

    def __init__(self, net: Network, trusted: bool = True) -> None:
        """Prepare ``net``; its skeleton is the rig that will be solved.

        Not ``trusted``, because it learned on another body, it proposes no poses where its density can.
        """
        rig = net.skeleton
        self.net, self.rig = net, rig
        self.leg_length = float(rig.leg_length)
        self.plans = {free: make_plan(rig, free) for free in (False, True)}
        self.layers = _standardised_layers(net)
        self.product = np.dot if _has_blas() else partial(np.einsum, "i,ij->j")
        bones = list(rig.effectors)
        self.bones = np.array(bones)
        self.feet = [bones.index(f) for f in rig.feet]
        arms, heights = toe_arms(rig)
        self.toe_arms, self.foot_rest = arms.tolist(), heights.tolist()
        self.contact_height = GROUND.near / GROUND.reference_leg
        self.width = 6 if net.layout.orientations else 3  # inputs of an effector
        self.body_inputs: list[float] = own_body(net.layout, rig)[:, 0].tolist()
        # rot_local of the Hips as a matrix R -> their rotation from the T-posed rest in core axes: before R after
        t_root = rotations.matrix_from_axis_angle(rig.t_pose[0])
        self.root_before, self.root_after = rig.basis[0] @ t_root.T, rig.basis[0].T
        self.axes = rig.axes
        self.up = rig.axes[2].tolist()
        self.axes_are_core = bool(np.array_equal(rig.axes, np.eye(3)))
        self.axes_product = quick.left_product(rotations.quaternion_from_matrix(rig.axes)).T
        # q -> q r, with r what the T-pose and the core axes add on the right of each effector's orientation
        right = rig.rest_arm[bones, :3, :3] @ rig.basis[bones].transpose(0, 2, 1)
        self.rest_products = np.stack([quick.right_product(q) for q in rotations.quaternion_from_matrix(right)])
        self.rest_is_plain = bool(np.allclose(self.rest_products, np.eye(4), atol=1e-9))
        self.local_products = local_products(rig)
        self.prior = net.prior
        self.needs_all = not net.layout.mask
        """Whether the network can do nothing with some of the targets alone."""
        self.trusted = trusted
        self.unknown = net.layout.rotation_columns(rig)

    # ------------------------------------------------------------------ the three calls

    def solve(
        self,
        goals: Goals,
        steps: int,
        limits: bool,
        free: bool,
        previous: PreviousPose | None,
        anchor: AnchorPose | None = None,
        tolerance: float | None = None,
        hypotheses: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, PreviousPose]:
        """Solve checked goals: rot_local (J, 4), the Hips' head (3) [m], errors (E) [m], and the pose for the next call.

        With several ``hypotheses`` as many near frames propose too (see :mod:`.likely_steps`). With an ``anchor`` the network's
        pose is corrected by it before it is refined. ``tolerance`` is the squared error that needs no further step; None takes
        :data:`TOLERANCE`, or :data:`TOLERANCE_ANCHORED` with an anchor.
        """
        frame = self._root_frame(goals, previous)
        positions = np.dot(frame.axes, (goals.positions - goals.root_pos).T)
        positions /= self.leg_length
        target_rotations = self._target_rotations(goals, frame)
        weights, orientation_weights, active = _weights_and_mask(goals)
        likely = None
        alone = self.prior is None or anchor is not None or free or not steps
        few = active is not None and not active[0].all()
        if not alone and (self.needs_all and previous is None if few else not self.trusted):
            turns, likely = self._without_network(positions, target_rotations, active, frame.hips)
            shift = np.zeros(3)
        else:
            quaternions, turns, shift = self._network_pose(
                goals, positions, target_rotations, frame.hips, active, previous
            )
            if not alone:
                likely = self._likely(quaternions, turns[0], positions, target_rotations, active, hypotheses)
        if likely is not None:
            steps += likely.more
        if anchor is not None:
            turns = np.matmul(turns, anchor.corrections)
            shift = shift + anchor.shift
        plan = self.plans[free]
        inverse, heads = forward_one(plan, turns)
        clamp_pose = self._clamp if limits else None
        if clamp_pose is not None:
            inverse = clamp_pose(inverse)
            heads = heads_one(plan, inverse)
        normals = None
        if goals.normals is not None and goals.normals.any():
            normals = np.dot(frame.axes, goals.normals.T)
        aims, aim_rotations = self._weighted_targets(
            inverse, heads, shift, positions, target_rotations, weights, orientation_weights
        )
        if active is not None and not active[1].any():
            aim_rotations = None
        if tolerance is None:
            tolerance = TOLERANCE if anchor is None else TOLERANCE_ANCHORED
        inverse, heads, shift = refine_one(
            plan, inverse, aims, aim_rotations, steps, active, shift, free, normals, clamp_pose, tolerance, likely
        )
        reached = heads.take(self.bones, axis=1)
        reached += shift[:, None]
        missed = reached - positions
        if normals is not None:
            project_on_normals(missed, normals)
        error = np.sqrt(np.einsum("ce,ce->e", missed, missed))
        error *= self.leg_length
        if weights is not None:
            error[weights == 0] = 0.0
        root_pos = goals.root_pos
        out = np.matmul(self.local_products, quick.quaternion_from_matrix(relative_one(plan, inverse))[:, :, None])[
            :, :, 0
        ]
        if free:
            root_pos = root_pos + np.dot(shift, frame.axes) * self.leg_length
            turn = np.dot(np.dot(self.root_before.T, np.dot(inverse[0], frame.unheading).T), self.root_after.T)
            out[0] = quick.quaternion_from_matrix(turn[None])[0]
        else:
            out[0] = quick.quaternion_of_one(*goals.root_rot.tolist())
        if out[:, 0].min() < 0:
            out[out[:, 0] < 0] *= -1
        return out, root_pos, error, PreviousPose(frame.heading, reached, inverse.take(self.bones, axis=0))

    def _likely(
        self,
        quaternions: np.ndarray,
        hips: np.ndarray,
        positions: np.ndarray,
        target_rotations: np.ndarray | None,
        active: np.ndarray | None,
        hypotheses: int | None,
    ) -> LikelyOne:
        """What the first steps from the network's pose ``quaternions`` (J, 4) need: the metric, and how far from the likely pose it is."""
        prior = self.prior
        assert prior is not None
        given = int(active is None or bool(active.all()))
        hypotheses = prior.hypotheses if hypotheses is None else hypotheses
        apart = np.matmul(prior.unmean, quaternions[1:, :, None])[:, :, 0]
        answers = quick.axis_angle_from_quaternion(apart).reshape(-1)
        if hypotheses > 1 and prior.frames is not None:
            key, known = self._key(positions, target_rotations, active, hips)
            off, metric = prior.together(answers[None], key, known, given, hypotheses)
            return LikelyOne(off[0], metric[0], *likely_steps.TOGETHER, float(np.trace(metric[0])) / len(off[0]))
        steps, most = likely_steps.STEPS, likely_steps.MOST
        return LikelyOne(prior.unlikely(answers, given), prior.metric[given], steps, 0, most, float(prior.scale[given]))

    def _without_network(
        self, positions: np.ndarray, target_rotations: np.ndarray | None, active: np.ndarray | None, hips: np.ndarray
    ) -> tuple[np.ndarray, LikelyOne]:
        """The likely pose (J, 3, 3) where the network does not propose one, and how the targets are met from it."""
        prior = self.prior
        assert prior is not None
        key, known = self._key(positions, target_rotations, active, hips)
        centre, metric = prior.around(key, known)
        turns = np.empty((self.rig.count, 3, 3))
        turns[1:] = np.matmul(prior.mean[1:], quick.matrix_from_axis_angle(centre.reshape(-1, 3)))
        turns[0] = hips
        scale = float(np.trace(metric[0])) / metric.shape[1]
        return turns, LikelyOne(np.zeros(metric.shape[1]), metric[0], *likely_steps.FEW, scale)

    def _key(
        self,
        positions: np.ndarray,
        target_rotations: np.ndarray | None,
        active: np.ndarray | None,
        hips: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(1, K) the key that near frames are looked up by, and which of its numbers are known."""
        given = np.ones((2, len(self.bones), 1)) if active is None else active[:, :, None].astype(np.float64)
        rotations_known = None if active is not None and not active[1].any() else target_rotations
        given[1] *= rotations_known is not None
        return key_of_one(positions, rotations_known, hips), known_keys(given)

    def anchor(self, goals: Goals, rot_local: np.ndarray) -> AnchorPose:
        """The anchor of a pose ``rot_local`` (J, 4) that meets the checked ``goals``: its difference from the network's answer."""
        frame = self._root_frame(goals, None)
        turns = self._relative(rot_local, frame)
        inverse, heads = forward_one(self.plans[False], turns)
        pose = PreviousPose(frame.heading, heads.take(self.bones, axis=1), inverse.take(self.bones, axis=0))
        out, root_pos, _, _ = self.solve(goals, 0, False, self.net.layout.free_root, pose)
        shift = frame.axes @ (goals.root_pos - root_pos) / self.leg_length
        natural = self._relative(out, frame)
        return AnchorPose(pose, np.matmul(natural.transpose(0, 2, 1), turns), shift)

    def ends(self, goals: Goals, pose: PreviousPose) -> tuple[np.ndarray, np.ndarray]:
        """Effectors of a pose solved for ``goals``, in armature space: positions (E, 3) [m] and R R_rest^T as quaternions (E, 4)."""
        cosine, sine = math.cos(pose.heading), math.sin(pose.heading)
        unheading = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        axes = unheading if self.axes_are_core else unheading @ self.axes
        turned = np.dot(
            quick.quaternion_from_matrix(pose.inverse.transpose(0, 2, 1)), self._frame_product(pose.heading).T
        )
        if not self.rest_is_plain:
            turned = np.matmul(turned[:, None, :], self.rest_products.transpose(0, 2, 1))[:, 0]
        return goals.root_pos + np.dot(pose.positions.T, axes) * self.leg_length, turned

    # ------------------------------------------------------------------ frames

    def _root_frame(self, goals: Goals, previous: PreviousPose | None) -> RootFrame:
        root = np.dot(np.dot(self.root_before, quick.matrix_of_one(*goals.root_rot.tolist())), self.root_after)
        heading = _heading(root, previous)
        cosine, sine = math.cos(heading), math.sin(heading)
        unheading = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        axes = unheading if self.axes_are_core else np.dot(unheading, self.axes)
        return RootFrame(np.dot(unheading, root), heading, unheading, axes)

    def _frame_product(self, heading: float) -> np.ndarray:
        """(4, 4) that takes quaternions (N, 4), as rows, from armature axes into the root frame, from the left."""
        c, s = math.cos(0.5 * heading), math.sin(0.5 * heading)
        unheading = np.array([[c, 0, 0, -s], [0, c, -s, 0], [0, s, c, 0], [s, 0, 0, c]])
        return unheading if self.axes_are_core else np.dot(self.axes_product, unheading)

    def _target_rotations(self, goals: Goals, frame: RootFrame) -> np.ndarray | None:
        """(E, 3, 3) the goals' rotations, from the T-posed rest in the root frame."""
        if goals.rotations is None:
            return None
        q = np.array([quick.quaternion_of_one(*row) for row in goals.rotations.tolist()])
        if not self.rest_is_plain:
            q = np.matmul(q[:, None, :], self.rest_products)[:, 0]
        return quick.matrix_from_quaternion(np.dot(q, self._frame_product(frame.heading)))

    def _relative(self, rot_local: np.ndarray, frame: RootFrame) -> np.ndarray:
        """rot_local (J, 4) to rotations relative to the parent (J, 3, 3), the root's to the root frame."""
        core = np.matmul(self.local_products.transpose(0, 2, 1), rot_local[:, :, None])[:, :, 0]
        turns = rotations.matrix_from_quaternion(core)
        root = rotations.matrix_from_quaternion(rot_local[0])
        turns[0] = frame.unheading @ self.root_before @ root @ self.root_after
        return turns

    # ------------------------------------------------------------------ the network

    def network(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs (I) to outputs (O), float32."""
        product = self.product
        x = inputs
        for weights, bias in self.layers[:-1]:
            x = product(x, weights)
            x += bias
            np.tanh(x, out=x)
        weights, bias = self.layers[-1]
        x = product(x, weights)
        x += bias
        return x

    def _network_pose(
        self,
        goals: Goals,
        positions: np.ndarray,
        target_rotations: np.ndarray | None,
        hips: np.ndarray,
        active: np.ndarray | None,
        previous: PreviousPose | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The network's answer: rotations relative to the parent as quaternions (J, 4), the root's not the given one, and as
        matrices (J, 3, 3), and the root's shift (3).
        """
        up, root = self.up, goals.root_pos.tolist()
        height = root[0] * up[0] + root[1] * up[1] + root[2] * up[2]
        ground = (height - float(goals.ground)) / self.leg_length
        outputs = self._outputs(goals, positions, target_rotations, hips, ground, active, previous)
        quaternions = quick.quaternion_from_axis_angle(outputs[: 3 * self.rig.count].reshape(-1, 3))
        turns = quick.matrix_from_quaternion(quaternions)
        if self.net.layout.free_root:
            turns[0] = turns[0] @ hips
            return quaternions, turns, outputs[3 * self.rig.count :].astype(np.float64)
        turns[0] = hips
        return quaternions, turns, np.zeros(3)

    def _outputs(
        self,
        goals: Goals,
        positions: np.ndarray,
        target_rotations: np.ndarray | None,
        hips: np.ndarray,
        ground: float,
        active: np.ndarray | None,
        previous: PreviousPose | None,
    ) -> np.ndarray:
        """The network's outputs. Targets that are not given are taken from the previous pose; without one, from the pose that
        the network gives for their means in training.
        """
        layout = self.net.layout
        asked = None if active is None else active[: self.width // 3]
        if asked is None or layout.mask or asked.all():
            return self.network(self._inputs(goals, positions, target_rotations, hips, ground, active))
        if (
            self.prior is not None and previous is None and asked[0].all() and not asked[1:].any()
        ):  # it has learned to do without
            inputs = self._inputs(goals, positions, None, hips, ground, None)
            inputs[self.unknown] = self.net.mean[self.unknown]
            return self.network(inputs)
        assert active is not None
        if previous is not None:
            known = np.where(active[0], positions, previous.positions)
            known_rotations = previous.inverse.transpose(0, 2, 1)
            if target_rotations is not None:
                known_rotations = np.where(active[1, :, None, None], target_rotations, known_rotations)
            return self.network(self._inputs(goals, known, known_rotations, hips, ground, None))
        free, free_rotations = ~active[0], ~active[1]
        known = positions.copy()
        known_rotations = np.tile(IDENTITY, (len(free), 1, 1)) if target_rotations is None else target_rotations.copy()
        mean = self.net.mean[: self.width * len(free)].reshape(-1, self.width).astype(np.float64)
        seen_from = hips if layout.hips_frame else IDENTITY
        known[:, free] = seen_from @ mean[free, :3].T
        if self.width == 6:
            known_rotations[free_rotations] = np.matmul(
                seen_from, quick.matrix_from_axis_angle(mean[free_rotations, 3:])
            )
        outputs = self.network(self._inputs(goals, known, known_rotations, hips, ground, None))
        turns = quick.matrix_from_axis_angle(outputs[: 3 * self.rig.count].reshape(-1, 3))
        turns[0] = hips
        inverse, heads = forward_one(self.plans[False], turns)
        known[:, free] = heads[:, self.bones[free]]
        known_rotations[free_rotations] = inverse[self.bones[free_rotations]].transpose(0, 2, 1)
        return self.network(self._inputs(goals, known, known_rotations, hips, ground, None))

    def _inputs(
        self,
        goals: Goals,
        positions: np.ndarray,
        target_rotations: np.ndarray | None,
        hips: np.ndarray,
        ground: float,
        active: np.ndarray | None,
    ) -> np.ndarray:
        """(I) the network's inputs for one pose, in the order of :func:`.context.features`, in plain Python numbers.

        ``positions`` (3, E), ``target_rotations`` (E, 3, 3); ``ground`` is the height of the root's head above the floor;
        ``active`` (2, E) is for layouts with a mask.
        """
        layout = self.net.layout
        seen, seen_rotations = positions, target_rotations
        if layout.hips_frame:
            seen = np.dot(hips.T, positions)
            if target_rotations is not None and self.width == 6:
                seen_rotations = np.matmul(hips.T, target_rotations)
        places = seen.T.tolist()
        no_log: list[float] = _ZEROS if self.width == 6 else []
        logs = [no_log] * len(places)
        if seen_rotations is not None and self.width == 6:
            logs = [quick.axis_angle_of_one(*q) for q in quick.quaternion_from_matrix(seen_rotations).tolist()]
        given: list[list[bool]] = []
        if layout.mask:
            given = [[True, True]] * len(places) if active is None else active.T.tolist()
            places = [place if known else _ZEROS for place, (known, _) in zip(places, given, strict=True)]
            logs = [log if known else no_log for log, (_, known) in zip(logs, given, strict=True)]
        x: list[float] = []
        for place, log in zip(places, logs, strict=True):
            x += place
            x += log
        (_, y0, z0), (_, y1, z1), (_, y2, z2) = hips.tolist()
        x += (-y0, -y1, -y2, z0, z1, z2)  # the Hips' forward and up; the rest faces -Y
        for k, foot in enumerate(self.feet):
            z = float(positions[2, foot])
            p, q, r = (0.0, 0.0, 1.0) if target_rotations is None else target_rotations[foot, 2].tolist()
            (u, v, w), (ankle, toe) = self.toe_arms[k], self.foot_rest[k]
            height = min(z - ankle, z + p * u + q * v + r * w - toe) + ground
            grounded = height < self.contact_height if goals.grounded is None else float(goals.grounded[k])
            desired = grounded if goals.desired is None else float(goals.desired[k])
            if given and not given[foot][0]:  # without a target, height and contact are not known either
                height, grounded, desired = 0.0, 0.0, 0.0
            x += (height, 0.0, 0.0, 1.0, grounded, desired)
        x += (float(goals.phase), float(goals.task))
        if layout.mask:
            x += [float(known) for pair in given for known in pair]
        return np.array(x + self.body_inputs, np.float32)

    # ------------------------------------------------------------------ targets and limits

    def _weighted_targets(
        self,
        inverse: np.ndarray,
        heads: np.ndarray,
        shift: np.ndarray,
        positions: np.ndarray,
        target_rotations: np.ndarray | None,
        weights: np.ndarray | None,
        orientation_weights: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Targets (3, E), (E, 3, 3) moved from the network's pose towards the goals by weights (E) between 0 and 1."""
        if weights is None and orientation_weights is None:
            return positions, target_rotations
        if not any(0 < w < 1 for some in (weights, orientation_weights) if some is not None for w in some.tolist()):
            return positions, target_rotations
        now = heads.take(self.bones, axis=1) + shift[:, None]
        aims = positions if weights is None else now + weights * (positions - now)
        if target_rotations is None or orientation_weights is None:
            return aims, target_rotations
        ends = inverse.take(self.bones, axis=0)
        way = rotations.axis_angle_from_matrix(np.matmul(target_rotations, ends))
        step = quick.matrix_from_axis_angle(way * orientation_weights[:, None])
        return aims, np.matmul(step, ends.transpose(0, 2, 1))

    def _clamp(self, inverse: np.ndarray) -> np.ndarray:
        """A pose (J, 3, 3) brought inside the joint limits."""
        plan = self.plans[False]
        rot = rotations.axis_angle_from_matrix(relative_one(plan, inverse))
        kept = clamp(self.rig, np.ascontiguousarray(rot.T)[:, :, None])[:, :, 0]
        return forward_one(plan, quick.matrix_from_axis_angle(kept.T))[0]


def _weights_and_mask(goals: Goals) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Weights of positions and orientations (E), and which of them count (2, E); None where all count in full."""
    weights, orientation_weights = goals.weights, goals.orientation_weights
    if orientation_weights is None:
        orientation_weights = weights
    if weights is None and orientation_weights is None and goals.rotations is not None:
        return None, None, None
    active = np.ones((2, len(goals.positions)), bool)
    if weights is not None:
        active[0] = weights > 0
    if goals.rotations is None:
        active[1] = False
    elif orientation_weights is not None:
        active[1] = orientation_weights > 0
    return weights, orientation_weights, active


def _heading(root: np.ndarray, previous: PreviousPose | None) -> float:
    """[rad] as :func:`.context.headings`, for one root rotation (3, 3); a weak direction keeps the previous heading."""
    x, y = float(root[0, 0]), float(root[1, 0])
    if math.hypot(x, y) >= SHORTEST_HEADING:
        return math.atan2(y, x)
    if previous is not None:
        return previous.heading
    return float(rotations.twist_about(rotations.axis_angle_from_matrix(root), np.array([0.0, 0, 1])))


def _standardised_layers(net: Network) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers (weights, bias) of ``net``, with the inputs' mean and deviation folded into the first."""
    (first, bias), *others = stack(net).layers
    scaled = first / net.deviation.astype(np.float64)[:, None]
    return [(scaled.astype(np.float32), (bias - net.mean @ scaled).astype(np.float32)), *others]


@cache
def _has_blas() -> bool:
    """Whether np.dot is fast in this NumPy: in a build without BLAS it takes ten times as long as einsum."""
    x, weights = np.ones(256, np.float32), np.ones((256, 256), np.float32)

    def shortest(product: Callable[..., np.ndarray]) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            product()
            times.append(time.perf_counter() - began)
        return min(times)

    return shortest(partial(np.matmul, x, weights)) < 3 * shortest(partial(np.einsum, "i,ij->j", x, weights))
