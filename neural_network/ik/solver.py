# SPDX-License-Identifier: GPL-3.0-or-later
"""Solver: targets in, one natural pose out, exact to a fraction of a millimetre. What games, Blender and the server call.

Everything at this door is in armature space: metres, the rig's own axes, ``rot_local`` as pose bones hold it. ``solve``
answers one pose as fast as NumPy can, ``solve_batch`` many at once, and a :class:`Session` remembers the pose before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.contacts import GROUND
from ..core.skeleton import Skeleton
from . import batches, network, novelty, refinement, single_pose
from .context import Targets, features, headings
from .goals import Goals, checked, rows, stack
from .network import Network

__all__ = ["REACHED", "STEPS", "Goals", "Session", "Solution", "Solver"]

STEPS = 3
BATCH = (
    1024  # poses of a batch solved at once: fewer wait for NumPy's calls, more no longer stay in the processor's cache
)
REACHED = 1e-3  # [m] a target nearer than this counts as reached
PROPORTIONS_WARN = 0.05  # [leg lengths] another rig's bones may differ this much before a warning


@dataclass(frozen=True)
class Solution:
    """The pose found; from solve_batch every array has a leading axis (N)."""

    quaternions: np.ndarray
    """(J, 4) rot_local as unit quaternions (w, x, y, z), w >= 0."""
    root_pos: np.ndarray
    """(3) [m] head of the Hips: as given, unless the root was free."""
    error: np.ndarray
    """(E) [m] distance of each effector from its target; 0 where it is free."""
    reached: np.ndarray
    """(E) bool: nearer than a millimetre, or free."""
    steps: int
    """Refinement steps allowed."""
    seconds: float
    """Wall time of the call."""

    @cached_property
    def rotations(self) -> np.ndarray:
        """(J, 3) rot_local as axis-angle [rad]."""
        return rotations.axis_angle_from_quaternion(self.quaternions)


class Solver:
    """Full-body inverse kinematics with a trained network; made by :meth:`load`."""

    def __init__(self, net: Network, skeleton: Skeleton | None = None) -> None:
        """A solver for ``net``, on ``skeleton`` where a rig of other proportions uses its weights (SkeletonMismatch otherwise)."""
        rig = net.skeleton if skeleton is None else skeleton
        net.skeleton.require_same(rig, "the rig")
        difference = net.skeleton.proportion_difference(rig)
        self.warning = ""
        if difference > PROPORTIONS_WARN and not net.meta.get("config", {}).get("proportions"):
            self.warning = f"the rig's bones differ by up to {difference * 100:.0f} % of a leg from those trained on"
        self.net = replace(net, skeleton=rig)
        self.skeleton = rig
        self.effectors = tuple(rig.names[e] for e in rig.effectors)
        self._one = single_pose.SinglePoseSolver(self.net)
        bones = list(rig.effectors)
        self._bones = np.array(bones)
        self._feet = [bones.index(f) for f in rig.feet]
        # an orientation relative to the real rest, taken to one relative to the T-posed rest
        self._to_t = rig.rest_arm[bones, :3, :3] @ (rig.axes.T @ rig.basis[bones]).transpose(0, 2, 1)

    @classmethod
    def load(cls, path: str | os.PathLike[str], skeleton: Skeleton | None = None) -> Solver:
        """Read ``best.npy`` and be ready; errors as :func:`network.load`, SkeletonMismatch for another topology."""
        return cls(network.load(path), skeleton)

    def solve(
        self,
        goals: Goals,
        steps: int = STEPS,
        limits: bool = False,
        free_root: bool | None = None,
        enough: float = single_pose.ENOUGH,
    ) -> Solution:
        """The pose for one set of ``goals``: the network's, then at most ``steps`` exact steps.

        ``limits`` keeps every step inside the joint limits. ``free_root`` lets the Hips follow; by default only networks of the
        layout ``free`` do. ``enough`` is the squared error (leg lengths, radians) that needs no further step; 0 takes all of
        them. Targets out of reach give the closest pose, and ``reached`` says so. Raises ValueError for wrong shapes, NaN and
        infinity.
        """
        return self._solve_one(goals, steps, limits, free_root, None, enough=enough)[0]

    def solve_batch(
        self, goals: Goals | Sequence[Goals], steps: int = STEPS, limits: bool = False, free_root: bool | None = None
    ) -> Solution:
        """Many poses at once: ``goals`` with a leading axis on every array, or a sequence of single ones.

        Each pose is solved for itself, as :meth:`solve` would, to float32.
        """
        began = time.perf_counter()
        many = checked(stack(goals), self.skeleton, many=True)
        count = len(many.positions)
        free = self.net.layout.free_root if free_root is None else free_root
        parts = [self._solve_part(rows(many, at, at + BATCH), steps, limits, free) for at in range(0, count, BATCH)]
        quaternions, root_pos, error = (np.concatenate([p[i] for p in parts]) for i in range(3))
        return Solution(quaternions, root_pos, error, error < REACHED, steps, time.perf_counter() - began)

    def session(self) -> Session:
        """A solver that remembers the pose before, for continuous control."""
        return Session(self)

    def explain(self, goals: Goals) -> novelty.Explanation:
        """How far the goals lie from everything learned (1.0: the 99th percentile of the test part), and the nearest learned frame."""
        many = checked(stack([goals]), self.skeleton, many=True)
        targets, _ = self._root_frame(many)
        return novelty.explain(self.net, features(self.net.layout, self.skeleton, targets)[0])

    # ------------------------------------------------------------------ many poses

    def _root_frame(self, goals: Goals) -> tuple[Targets, np.ndarray]:
        """Goals (N) as the network sees them, and rotations (N, 3, 3) from armature axes into the root frame."""
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
        return self._standing(goals, targets), frame

    def _standing(self, goals: Goals, targets: Targets) -> Targets:
        """``targets`` with the height of each foot above the ground, and whether it stands, now and soon."""
        arm, rest = single_pose.toe_arms(self.skeleton)
        floor = ((goals.root_pos @ self.skeleton.axes[2]) - goals.ground) / self.skeleton.leg_length
        ankle = targets.positions[2, self._feet]
        toe = ankle + np.einsum("cfn,fc->fn", targets.turned[2][:, self._feet], arm)
        heights = (np.minimum(ankle - rest[:, :1], toe - rest[:, 1:]) + floor).astype(np.float32)
        near = heights < GROUND.near / GROUND.reference_leg
        grounded = np.asarray(near if goals.grounded is None else goals.grounded.T, np.float32)
        desired = grounded if goals.desired is None else goals.desired.T.astype(np.float32)
        return replace(targets, heights=heights, grounded=grounded, desired=desired)

    def _predict(self, goals: Goals, targets: Targets) -> tuple[np.ndarray, np.ndarray | None]:
        """The network's pose; what is not given is first guessed, then taken from the pose that the guess led to."""
        net, rig, given = self.net, self.skeleton, targets.given
        assert given is not None
        if net.layout.mask or np.all(given if net.layout.orientations else given[0]):
            return batches.predict(net, targets)
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
        for again in (True, False):
            positions = np.where(given[0] > 0, targets.positions, positions)
            turned = np.where(given[1] > 0, targets.turned, turned)
            rot, shift = batches.predict(
                net, self._standing(goals, replace(targets, positions=positions, turned=turned))
            )
            if again:
                turned, positions = fk.forward_components(rig, rot, rig.offsets / rig.leg_length)
                turned, positions = turned[:, :, self._bones], positions[:, self._bones]
        return rot, shift

    def _solve_part(
        self, goals: Goals, steps: int, limits: bool, free: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rig = self.skeleton
        targets, frame = self._root_frame(goals)
        rot, shift = self._predict(goals, targets)
        given = targets.given
        assert given is not None
        weight = given[0] if goals.weights is None else goals.weights.T.astype(np.float32)
        turn_weight = goals.orientation_weights if goals.orientation_weights is not None else goals.weights
        normals = None
        if goals.normals is not None:
            normals = np.ascontiguousarray((goals.normals @ frame.transpose(0, 2, 1)).transpose(2, 1, 0), np.float32)
        wish = refinement.Wish(
            targets.positions,
            None if goals.rotations is None else targets.turned,
            None if goals.weights is None else weight,
            None if turn_weight is None else turn_weight.T.astype(np.float32),
            normals,
        )
        done = refinement.refine(rig, rot, wish, steps, shift=shift, limits=limits, free_root=free)
        out = np.moveaxis(done.rot, (2, 1), (0, 1)).astype(np.float64)
        hips = rotations.matrix_from_axis_angle(out[:, 0])
        out[:, 0] = rotations.axis_angle_from_matrix(rig.axes @ frame.transpose(0, 2, 1) @ hips)
        local = rig.from_core(out)
        if not free:
            local[:, 0] = goals.root_rot
        moved = np.einsum("nba,bn->na", frame, done.shift) * rig.leg_length
        apart = done.heads[:, self._bones] - targets.positions
        if normals is not None:
            along = np.sum(apart * normals, axis=0) * normals
            apart = np.where(np.any(normals, axis=0), along, apart)
        error = np.sqrt(np.sum(apart * apart, axis=0)) * rig.leg_length * (weight > 0)
        return rotations.quaternion_from_axis_angle(local), goals.root_pos + moved, error.T.astype(np.float64)

    # ------------------------------------------------------------------ one pose

    def _solve_one(
        self,
        goals: Goals,
        steps: int,
        limits: bool,
        free_root: bool | None,
        memory: single_pose.Memory | None,
        anchor: single_pose.Anchor | None = None,
        enough: float | None = None,
    ) -> tuple[Solution, single_pose.Memory]:
        began = time.perf_counter()
        asked = checked(goals, self.skeleton, many=False)
        free = self.net.layout.free_root if free_root is None else free_root
        quaternions, root_pos, error, memory = self._one.solve(asked, steps, limits, free, memory, anchor, enough)
        return Solution(quaternions, root_pos, error, error < REACHED, steps, time.perf_counter() - began), memory


class Session:
    """One character under continuous control: the heading never jumps, and free limbs stay where the last pose had them."""

    def __init__(self, solver: Solver) -> None:
        """A session of ``solver`` that has no pose yet."""
        self.solver = solver
        self._memory: single_pose.Memory | None = None
        self._anchor: single_pose.Anchor | None = None

    def anchor(self, goals: Goals, rot_local: np.ndarray) -> None:
        """From now on build on a pose: ``goals`` that are its own give exactly it, others what the network changes about it.

        ``rot_local`` (J, 3) [rad] is the pose whose effectors and Hips are at ``goals``. Answers then no longer depend on the
        pose before, so that going back to old goals gives the old pose. Raises ValueError for wrong shapes, NaN and infinity.
        """
        rot = np.asarray(rot_local, np.float64)
        if rot.shape != (self.solver.skeleton.count, 3) or not np.isfinite(rot).all():
            raise ValueError(f"rot_local: expected finite ({self.solver.skeleton.count}, 3), got shape {rot.shape}")
        asked = checked(goals, self.solver.skeleton, many=False)
        self._anchor = self.solver._one.anchor(asked, rotations.quaternion_from_axis_angle(rot))

    def solve(self, goals: Goals, steps: int = STEPS, limits: bool = False, free_root: bool | None = None) -> Solution:
        """As :meth:`Solver.solve`, with the pose before in mind, or the one it is anchored to."""
        anchor = self._anchor
        memory = self._memory if anchor is None else anchor.memory
        solution, self._memory = self.solver._solve_one(goals, steps, limits, free_root, memory, anchor)
        return solution

    def ends(self, goals: Goals) -> tuple[np.ndarray, np.ndarray]:
        """Where the last answer, to ``goals``, put the effectors: positions (E, 3) [m] and R R_rest^T as quaternions (E, 4).

        Raises ValueError where nothing was solved yet.
        """
        if self._memory is None:
            raise ValueError("nothing was solved yet: call solve first")
        return self.solver._one.ends(goals, self._memory)

    def reset(self) -> None:
        """Forget the pose before, and any anchor: after a cut, a teleport or another character."""
        self._memory = self._anchor = None
