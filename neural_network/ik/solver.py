# SPDX-License-Identifier: GPL-3.0-or-later
"""The solver: goals in, a natural pose out whose effectors are at their targets to a fraction of a millimetre.

Games, scripts, Blender and the server all call this. Goals and Solutions are in armature space: metres, the rig's own axes,
``rot_local`` as pose bones hold it. :meth:`Solver.solve` solves one pose as fast as NumPy can, :meth:`Solver.solve_batch` many
at once, and a :class:`Session` follows one character from pose to pose.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.contacts import GROUND
from ..core.skeleton import Skeleton
from . import batches, likely_steps, network, novelty, refinement, single_pose
from .context import Targets, features, headings
from .goals import Goals, alone, checked, rows, stack
from .network import Network
from .single_kinematics import rest_to_t

__all__ = ["REACHED", "STEPS", "Goals", "Session", "Solution", "Solver"]

STEPS = 3  # refinement steps after the network
STEPS_AT_NEED = 12  # where these do not reach the targets
BATCH = 1024  # poses solved at once: fewer spend their time in NumPy's calls, more no longer fit the processor's cache
REACHED = 1e-3  # [m] a target nearer than this counts as reached
PROPORTIONS_WARN = 0.05  # [leg lengths] bones of another rig may differ this much without a warning
LENGTHS_ALIKE = 0.08  # a bone may be longer or shorter by this share before the network is not trusted on that body
SHORT_BONE = 0.05  # [leg lengths] bones shorter than this do not count there


@dataclass(frozen=True)
class Solution:
    """A solved pose; from :meth:`Solver.solve_batch` every array has a leading axis (N)."""

    quaternions: np.ndarray
    """(J, 4) rot_local as unit quaternions (w, x, y, z), w >= 0."""
    root_pos: np.ndarray
    """(3) [m] head of the Hips, armature space: as given, unless the root was free."""
    error: np.ndarray
    """(E) [m] distance of each effector from its target; 0 where it is free."""
    reached: np.ndarray
    """(E) bool: nearer than a millimetre to its target, or free."""
    steps: int
    """Most refinement steps that were allowed."""
    seconds: float
    """Wall time of the call."""

    @cached_property
    def rotations(self) -> np.ndarray:
        """(J, 3) rot_local as axis-angle [rad]."""
        return rotations.axis_angle_from_quaternion(self.quaternions)


class Solver:
    """Full-body inverse kinematics with a trained network; made by :meth:`load`.

    Attributes:
        effectors: names of the controlled bones, in the order of the rows of :class:`Goals`.
        skeleton: the rig that is solved.
        net: the network, on that rig.
        warning: a sentence if the rig's proportions differ much from those the network was trained on, else empty.
    """

    def __init__(self, net: Network, skeleton: Skeleton | None = None) -> None:
        """A solver for ``net``, on ``skeleton`` if another rig uses its weights.

        Raises SkeletonMismatch unless that rig has the same bones; its proportions may differ.
        """
        rig = net.skeleton if skeleton is None else skeleton
        net.skeleton.require_same(rig, "the rig")
        difference = net.skeleton.proportion_difference(rig)
        self.warning = ""
        one_body = not net.meta.get("config", {}).get("proportions")
        trusted = not one_body or _longest_change(net.skeleton, rig) < LENGTHS_ALIKE
        if one_body and difference > PROPORTIONS_WARN:
            self.warning = f"the rig's bones differ by up to {difference * 100:.0f} % of a leg from those trained on"
            if net.density is not None and not trusted:
                self.warning += "; the poses learned are used, the network is not"
        self.net = replace(net, skeleton=rig)
        self.skeleton = rig
        self.effectors = tuple(rig.names[e] for e in rig.effectors)
        self._single = single_pose.SinglePoseSolver(self.net, trusted)
        bones = list(rig.effectors)
        self._bones = np.array(bones)
        self._feet = [bones.index(f) for f in rig.feet]
        self._to_t = rest_to_t(rig, bones)

    @classmethod
    def load(cls, path: str | os.PathLike[str], skeleton: Skeleton | None = None) -> Solver:
        """A solver from trained weights (``best.npy``), on ``skeleton`` if another rig with the same bones uses them.

        >>> from neural_network import Solver
        >>> solver = Solver.load("training_data/weights/best.npy")
        >>> solver.effectors
        ('LeftHand', 'RightHand', 'LeftFoot', 'RightFoot', 'Head')

        Raises FileNotFoundError if there is no such file, ValueError if it is damaged or not a weights file, and SkeletonMismatch
        (a ValueError) if ``skeleton`` has other bones than the weights.
        """
        return cls(network.load(path), skeleton)

    def solve(
        self,
        goals: Goals,
        steps: int | None = None,
        limits: bool = False,
        free_root: bool | None = None,
        tolerance: float = single_pose.TOLERANCE,
        hypotheses: int | None = None,
    ) -> Solution:
        """The pose for one set of ``goals``: the network's, then refinement steps.

        Weights that hold statistics of the character's poses make the first of them steps towards the likely pose.

        >>> import numpy as np
        >>> from neural_network import Goals, Solver
        >>> solver = Solver.load("training_data/weights/best.npy")
        >>> rest = solver.skeleton.rest_arm  # (J, 4, 4) bone matrices of the rest pose
        >>> positions = rest[list(solver.skeleton.effectors), :3, 3]
        >>> positions[solver.effectors.index("LeftHand")] = [0.3, -0.4, 1.2]
        >>> solution = solver.solve(Goals(positions, root_pos=rest[0, :3, 3], root_rot=np.zeros(3)), steps=10)
        >>> solution.quaternions.shape, bool(solution.reached.all())
        ((23, 4), True)

        Args:
            goals: the targets of one pose, armature space.
            steps: most refinement steps; 0 gives the network's own pose. None takes 3, and up to 12 where these do not bring
                the targets within a thousandth of a leg.
            limits: keep every step inside the joint limits.
            free_root: let the Hips turn and move; None does so for networks of the layout ``free`` only.
            tolerance: squared error [leg lengths, rad] that needs no further step; 0 takes all steps.
            hypotheses: so many of the nearest training frames propose poses too, beside the network; nearer to how the
                character moves, in about twice the time. Nothing changes where the weights hold no frames, or the Hips are free.
                None takes 1, or 8 for weights that were learned from fewer than 16 takes.

        Targets out of reach give the closest pose, and ``reached`` is False for them. Raises ValueError for wrong shapes, NaN
        and infinity.
        """
        found, _ = self._solve_one(goals, steps, limits, free_root, None, tolerance=tolerance, hypotheses=hypotheses)
        return found

    def solve_batch(
        self,
        goals: Goals | Sequence[Goals],
        steps: int | None = None,
        limits: bool = False,
        free_root: bool | None = None,
        hypotheses: int | None = None,
    ) -> Solution:
        """Many poses at once: ``goals`` with a leading axis (N) on every array, or a sequence of single ones.

        >>> import numpy as np
        >>> from neural_network import Goals, Solver
        >>> solver = Solver.load("training_data/weights/best.npy")
        >>> rest = solver.skeleton.rest_arm
        >>> positions = np.tile(rest[list(solver.skeleton.effectors), :3, 3], (100, 1, 1))
        >>> positions[:, 0, 1] -= np.linspace(0, 0.3, 100)  # the left hand moves forward
        >>> solution = solver.solve_batch(Goals(positions, np.tile(rest[0, :3, 3], (100, 1)), np.zeros((100, 3))))
        >>> solution.quaternions.shape, solution.error.shape
        ((100, 23, 4), (100, 5))

        Each pose is solved on its own, as :meth:`solve` would, in float32. Every step is taken. Arguments and errors are those
        of :meth:`solve`.
        """
        began = time.perf_counter()
        many = checked(stack(goals), self.skeleton, many=True)
        free = self.net.layout.free_root if free_root is None else free_root
        allowed = STEPS if steps is None else steps
        quaternions, root_pos, error = self._solve_alike(many, allowed, limits, free, hypotheses)
        missed = self._missed(many, error).any(axis=1) & (steps is None)
        for i in np.flatnonzero(
            missed
        ).tolist():  # these are few, and float32 would lose the way where a target is out of reach
            allowed = STEPS_AT_NEED
            again = self._single.solve(alone(many, i), allowed, limits, free, None, hypotheses=hypotheses)
            quaternions[i], root_pos[i], error[i], _ = again
        return Solution(quaternions, root_pos, error, error < REACHED, allowed, time.perf_counter() - began)

    def session(self) -> Session:
        """A solver that remembers the previous pose, for continuous control of one character.

        >>> import numpy as np
        >>> from neural_network import Goals, Solver
        >>> solver = Solver.load("training_data/weights/best.npy")
        >>> session, rest = solver.session(), solver.skeleton.rest_arm
        >>> positions = rest[list(solver.skeleton.effectors), :3, 3]
        >>> weights = np.array([1.0, 0.0, 1.0, 1.0, 0.0])  # the right hand and the head are free
        >>> for frame in range(3):
        ...     positions[0] += [0.0, -0.05, 0.0]
        ...     solution = session.solve(Goals(positions, rest[0, :3, 3], np.zeros(3), weights=weights))
        >>> float(solution.error[1])  # of a free effector
        0.0
        """
        return Session(self)

    def explain(self, goals: Goals) -> novelty.Explanation:
        """How far the goals are from the training data (1.0: the 99th percentile of the test part), and the nearest learned frame."""
        many = checked(stack([goals]), self.skeleton, many=True)
        targets, _ = self._root_frame(many)
        return novelty.explain(self.net, features(self.net.layout, self.skeleton, targets)[0])

    # ------------------------------------------------------------------ many poses

    def _root_frame(self, goals: Goals) -> tuple[Targets, np.ndarray]:
        """Goals (N) in the root frame, and rotations (N, 3, 3) from armature axes into it."""
        rig = self.skeleton
        turns = rotations.matrix_from_axis_angle(np.asarray(goals.root_rot, np.float64))
        t_root = rotations.matrix_from_axis_angle(rig.t_pose[0])
        root = rig.basis[0] @ t_root.T @ turns @ rig.basis[0].T
        every = np.arange(len(root))
        heading = headings(root, every)
        zero = np.zeros_like(heading)
        unheading = rotations.matrix_from_axis_angle(np.stack([zero, zero, -heading], axis=1))
        frame = unheading @ rig.axes
        positions = (goals.positions - goals.root_pos[:, None]) @ frame.transpose(0, 2, 1) / rig.leg_length
        if goals.rotations is None:
            turned = np.broadcast_to(np.eye(3), (*positions.shape, 3))
        else:
            turned = rotations.matrix_from_axis_angle(goals.rotations) @ self._to_t
            turned = frame[:, None] @ turned @ rig.axes.T
        given = np.ones((2, *positions.shape[:2]), np.float32)
        if goals.weights is not None:
            given *= goals.weights > 0
        if goals.rotations is None:
            given[1] = 0
        elif goals.orientation_weights is not None:
            given[1] = goals.orientation_weights > 0
        count = len(positions)
        nothing = np.zeros((len(rig.feet), count), np.float32)
        targets = Targets(
            np.ascontiguousarray(positions.transpose(2, 1, 0), np.float32),
            np.ascontiguousarray(turned.transpose(2, 3, 1, 0), np.float32),
            np.ascontiguousarray((unheading @ root).transpose(1, 2, 0), np.float32),
            nothing,
            nothing,
            nothing,
            np.broadcast_to(np.asarray(goals.phase, np.float32), (count,)),
            np.broadcast_to(np.asarray(goals.task, np.float32), (count,)),
            given=given.transpose(0, 2, 1),
        )
        return self._with_contacts(goals, targets), frame

    def _with_contacts(self, goals: Goals, targets: Targets) -> Targets:
        """``targets`` with the height of each foot above the ground, and its contact now and 0.1 s later, as given or by height."""
        arm, rest = batches.toe_arms(self.skeleton)
        floor = ((goals.root_pos @ self.skeleton.axes[2]) - goals.ground) / self.skeleton.leg_length
        ankle = targets.positions[2, self._feet]
        toe = ankle + np.einsum("cfn,fc->fn", targets.turned[2][:, self._feet], arm)
        heights = (np.minimum(ankle - rest[:, :1], toe - rest[:, 1:]) + floor).astype(np.float32)
        near = heights < GROUND.near / GROUND.reference_leg
        grounded = np.asarray(near if goals.grounded is None else goals.grounded.T, np.float32)
        desired = grounded if goals.desired is None else goals.desired.T.astype(np.float32)
        return replace(targets, heights=heights, grounded=grounded, desired=desired)

    def _predict(self, goals: Goals, targets: Targets) -> tuple[np.ndarray, np.ndarray | None]:
        """The network's pose: core rotations (3, J, N) and, with a free root, its shift (3, N).

        For a layout without a mask, targets that are not given are first set to their mean in training, then to where the
        network's pose for that mean has them.
        """
        net, rig, given = self.net, self.skeleton, targets.given
        assert given is not None
        if net.layout.mask or np.all(given if net.layout.orientations else given[0]):
            return batches.predict(net, targets)
        if net.density is not None and np.all(given[0]) and not np.any(given[1]):  # it has learned to do without
            return batches.predict(net, batches.without_rotations(rig, targets), False)
        width, count = 6 if net.layout.orientations else 3, targets.positions.shape[-1]
        mean = net.mean[: width * len(self.effectors)].reshape(-1, width).T
        positions = np.repeat(mean[:3, :, None], count, axis=-1)
        turned = (
            np.repeat(rotations.matrix_components(mean[3:])[..., None], count, axis=-1)
            if width == 6
            else targets.turned
        )
        if net.layout.hips_frame:
            positions = np.einsum("abn,ben->aen", targets.root, positions)
            turned = np.einsum("abn,bcen->acen", targets.root, turned) if width == 6 else turned
        for is_last in (False, True):
            positions = np.where(given[0] > 0, targets.positions, positions)
            turned = np.where(given[1] > 0, targets.turned, turned)
            rot, shift = batches.predict(
                net, self._with_contacts(goals, replace(targets, positions=positions, turned=turned))
            )
            if not is_last:
                turned, positions = fk.forward_components(rig, rot, rig.offsets / rig.leg_length)
                turned, positions = turned[:, :, self._bones], positions[:, self._bones]
        return rot, shift

    def _solve_alike(
        self, goals: Goals, steps: int, limits: bool, free: bool, hypotheses: int | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As :meth:`_solve_part`, for any number of goals, those together that are asked alike."""
        kinds = _kinds(goals)
        order = np.argsort(kinds, kind="stable")
        ends = [0, *(np.flatnonzero(np.diff(kinds[order])) + 1).tolist(), len(kinds)]
        parts = [
            self._solve_part(rows(goals, order[at : min(at + BATCH, end)]), steps, limits, free, hypotheses)
            for begin, end in pairwise(ends)
            for at in range(begin, end, BATCH)
        ]
        back = np.argsort(order)
        quaternions, root_pos, error = (np.concatenate([p[i] for p in parts])[back] for i in range(3))
        return quaternions, root_pos, error

    def _solve_part(
        self, goals: Goals, steps: int, limits: bool, free: bool, hypotheses: int | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """rot_local (N, J, 4), the Hips' heads (N, 3) [m] and errors (N, E) [m] of checked goals."""
        rig = self.skeleton
        targets, frame = self._root_frame(goals)
        given = targets.given
        assert given is not None
        weight = given[0] if goals.weights is None else goals.weights.T.astype(np.float32)
        turn_weight = goals.orientation_weights if goals.orientation_weights is not None else goals.weights
        normals = None
        if goals.normals is not None:
            normals = np.ascontiguousarray((goals.normals @ frame.transpose(0, 2, 1)).transpose(2, 1, 0), np.float32)
        effector_targets = refinement.EffectorTargets(
            targets.positions,
            None if goals.rotations is None else targets.turned,
            None if goals.weights is None else weight,
            None if turn_weight is None else turn_weight.T.astype(np.float32),
            normals,
        )
        prior = None if free else self._single.prior
        likely = shift = None
        some = not np.all(given[0])
        if prior is not None and steps and (self._single.needs_all if some else not self._single.trusted):
            rot, likely = likely_steps.without_network(prior, effector_targets, targets.root)
        else:
            rot, shift = self._predict(goals, targets)
            if prior is not None and steps:
                likely = likely_steps.proposal(prior, rot, effector_targets, hypotheses)
        refined = likely_steps.refine(
            rig, rot, effector_targets, steps, likely, shift=shift, limits=limits, free_root=free
        )
        out = np.moveaxis(refined.rot, (2, 1), (0, 1)).astype(np.float64)
        hips = rotations.matrix_from_axis_angle(out[:, 0])
        out[:, 0] = rotations.axis_angle_from_matrix(rig.axes @ frame.transpose(0, 2, 1) @ hips)
        local = rig.from_core(out)
        if not free:
            local[:, 0] = goals.root_rot
        moved = np.einsum("nba,bn->na", frame, refined.shift) * rig.leg_length
        missed = refined.heads[:, self._bones] - targets.positions
        if normals is not None:
            along = np.sum(missed * normals, axis=0) * normals
            missed = np.where(np.any(normals, axis=0), along, missed)
        error = np.sqrt(np.sum(missed * missed, axis=0)) * rig.leg_length * (weight > 0)
        return rotations.quaternion_from_axis_angle(local), goals.root_pos + moved, error.T.astype(np.float64)

    # ------------------------------------------------------------------ one pose

    def _missed(self, goals: Goals, error: np.ndarray) -> np.ndarray:
        """(..., E) bool: the target counts in full, and is not reached; ``error`` [m], whatever the size of the rig."""
        missed = error >= REACHED * self.skeleton.leg_length
        return missed if goals.weights is None else missed & (goals.weights == 1)

    def _solve_one(
        self,
        goals: Goals,
        steps: int | None,
        limits: bool,
        free_root: bool | None,
        previous: single_pose.PreviousPose | None,
        anchor: single_pose.AnchorPose | None = None,
        tolerance: float | None = None,
        hypotheses: int | None = None,
    ) -> tuple[Solution, single_pose.PreviousPose]:
        began = time.perf_counter()
        goals = checked(goals, self.skeleton, many=False)
        free = self.net.layout.free_root if free_root is None else free_root
        allowed = STEPS if steps is None else steps
        found = self._single.solve(goals, allowed, limits, free, previous, anchor, tolerance, hypotheses)
        if steps is None and self._missed(goals, found[2]).any():
            allowed = STEPS_AT_NEED
            found = self._single.solve(goals, allowed, limits, free, previous, anchor, tolerance, hypotheses)
        quaternions, root_pos, error, pose = found
        return Solution(quaternions, root_pos, error, error < REACHED, allowed, time.perf_counter() - began), pose


def _longest_change(learned: Skeleton, rig: Skeleton) -> float:
    """By which share of its length, both in leg lengths, some bone of ``rig`` differs from that of ``learned``."""
    one, other = (np.linalg.norm(s.offsets, axis=1) / s.leg_length for s in (learned, rig))
    long = one > SHORT_BONE
    return float(np.abs(other[long] / one[long] - 1).max(initial=0))


def _kinds(goals: Goals) -> np.ndarray:
    """(N) which targets count: 0 all, 1 all positions and no rotation, 2 all positions and some rotations, 3 some positions."""
    positions = np.ones(goals.positions.shape[:2], bool) if goals.weights is None else goals.weights > 0
    turns = np.zeros_like(positions)
    if goals.rotations is not None:
        turns = positions if goals.orientation_weights is None else goals.orientation_weights > 0
    whole = positions.all(axis=1)
    return np.where(whole, np.where(turns.all(axis=1), 0, np.where(turns.any(axis=1), 2, 1)), 3)


class Session:
    """Continuous control of one character: its heading never jumps, and free limbs stay where the previous pose had them.

    Made by :meth:`Solver.session`.
    """

    def __init__(self, solver: Solver) -> None:
        """A session of ``solver`` that has not solved a pose yet."""
        self.solver = solver
        self._previous: single_pose.PreviousPose | None = None
        self._anchor: single_pose.AnchorPose | None = None

    def anchor(self, goals: Goals, rot_local: np.ndarray) -> None:
        """From now on change the pose ``rot_local`` (J, 3) [rad], which meets ``goals``, instead of making new poses.

        The goals of that pose give exactly it; other goals give what the network changes about it. Answers no longer depend on
        the previous pose, so going back to earlier goals gives the earlier pose. Raises ValueError for wrong shapes, NaN and
        infinity.
        """
        rot = np.asarray(rot_local, np.float64)
        if rot.shape != (self.solver.skeleton.count, 3) or not np.isfinite(rot).all():
            raise ValueError(f"rot_local: expected finite ({self.solver.skeleton.count}, 3), got shape {rot.shape}")
        goals = checked(goals, self.solver.skeleton, many=False)
        self._anchor = self.solver._single.anchor(goals, rotations.quaternion_from_axis_angle(rot))

    def solve(
        self, goals: Goals, steps: int | None = None, limits: bool = False, free_root: bool | None = None
    ) -> Solution:
        """As :meth:`Solver.solve`, continuing from the previous pose, or from the anchor if there is one."""
        anchor = self._anchor
        previous = self._previous if anchor is None else anchor.pose
        solution, self._previous = self.solver._solve_one(goals, steps, limits, free_root, previous, anchor)
        return solution

    def ends(self, goals: Goals) -> tuple[np.ndarray, np.ndarray]:
        """Where the last answer, to ``goals``, put the effectors: positions (E, 3) [m] and R R_rest^T as quaternions (E, 4).

        Both in armature space. Raises ValueError if nothing has been solved yet.
        """
        if self._previous is None:
            raise ValueError("nothing was solved yet: call solve first")
        return self.solver._single.ends(goals, self._previous)

    def reset(self) -> None:
        """Forget the previous pose and any anchor: after a cut, a teleport, or for another character."""
        self._previous = self._anchor = None
