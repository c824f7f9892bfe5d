# SPDX-License-Identifier: GPL-3.0-or-later
"""The solve for one pose at a time, as games and Live IK call it: the mathematics of refinement.py without its waiting.

For a single pose NumPy's calls cost more than its arithmetic, so this room does in few calls what the batched one does in
many: joints are walked by doubling (parent, grandparent, ...) in three products, the Jacobian stands in one array made
beforehand, and in a NumPy without BLAS matrix-vector products go through einsum, which is fast there too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from . import rotations
from .config import GROUND, HEADING_WEAK
from .context import limb_lengths
from .goals import Goals
from .network import Network, layers, sizes
from .refinement import (
    BACK_OFF,
    DAMPING_FLOOR,
    DAMPING_SHARE,
    DISTANCE_SPARE,
    HALF_TURN,
    ROOT_SHIFT,
    STEP_MOST,
    TRUNK_FIRST,
    clamp,
)
from .skeleton import Skeleton

ENOUGH = 1e-10
"""Squared error [leg lengths, rad] at which a solve stops early: a hundredth of a millimetre. Nobody sees the next step."""
ENOUGH_LIVE = 1e-9
"""The same for an anchored solve, three hundredths: a drag waits for it."""

_LEVI = np.zeros((3, 3, 3), np.float32)
for _i, _j, _k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    _LEVI[_i, _j, _k], _LEVI[_i, _k, _j] = -1, 1  # (v @ LEVI) is the matrix of v x
_LEVI_FLAT = _LEVI.reshape(3, 9)
_EYE = np.eye(3, dtype=np.float32)


@dataclass(frozen=True)
class Plan:
    """What never changes between two solves of one rig; made by :func:`plan`."""

    count: int
    bones: np.ndarray  # (E) effectors
    ancestors: tuple[np.ndarray, ...]  # (J + 1) each: the bone 1, 2, 4, ... above, J where there is none
    parents: np.ndarray  # (J) the bone above, the root's being itself
    rest: np.ndarray  # (J + 1, 4, 4) unturned bones: identity and offset [leg lengths]; the last is the world
    moves: np.ndarray  # (E, J, 1) 1 where turning the joint moves the effector's head or turns it
    turns: np.ndarray  # (E, 3, J, 3) the orientation rows of the Jacobian, constant in world axes


def plan(skeleton: Skeleton, free_root: bool = False) -> Plan:
    """Lay out a rig for :func:`refine_one`; with ``free_root`` its Hips may follow."""
    count = skeleton.count
    above = np.append(np.where(skeleton.parents < 0, count, skeleton.parents), count)
    steps, reach = [], above
    while np.any(reach < count):
        steps.append(reach)
        reach = reach[reach]
    share = skeleton.subtree[:, list(skeleton.effectors)].T.astype(np.float32)  # (E, J)
    share[:, 0] = np.sqrt(TRUNK_FIRST) if free_root else 0
    turns = share[:, None, :, None] * _EYE[:, None, :]
    rest = np.tile(np.eye(4, dtype=np.float32), (count + 1, 1, 1))
    rest[:-1, :3, 3] = skeleton.offsets / skeleton.leg_length
    parents = np.maximum(skeleton.parents, 0)
    bones = np.array(skeleton.effectors)
    return Plan(count, bones, tuple(steps), parents, rest, share[:, :, None], np.ascontiguousarray(turns))


def forward_one(layout: Plan, turns: np.ndarray) -> np.ndarray:
    """Own rotations (J, 3, 3) to poses (J, 4, 4): rotation ``D`` and head [leg lengths] in the root frame."""
    pose = layout.rest.copy()
    pose[:-1, :3, :3] = turns
    # A head's offset is turned by its parent alone, so a bone's transform is: move, then turn; that is what stands here.
    for ancestor in layout.ancestors:
        pose = np.matmul(pose.take(ancestor, axis=0), pose)
    return pose[:-1]


def quaternions(rot: np.ndarray) -> np.ndarray:
    """Axis-angle (N, 3) [rad] to quaternions (N, 4)."""
    out = np.empty((len(rot), 4), rot.dtype)
    half = np.sqrt(np.einsum("nc,nc->n", rot, rot) + 1e-30) * 0.5
    np.cos(half, out=out[:, 0])
    np.multiply(rot, (np.sin(half) / (2 * half))[:, None], out=out[:, 1:])
    return out


def matrices(quaternion: np.ndarray) -> np.ndarray:
    """Unit quaternions (N, 4) to matrices (N, 3, 3): every entry is a sum of products of two components."""
    products = (quaternion[:, :, None] * quaternion[:, None, :]).reshape(-1, 16)
    return (products @ _QUADRATIC.astype(quaternion.dtype, copy=False)).reshape(-1, 3, 3)


def quaternions_of(turns: np.ndarray) -> np.ndarray:
    """Matrices (N, 3, 3) to unit quaternions (N, 4), w >= 0."""
    out = turns.reshape(-1, 9) @ _LINEAR
    out[:, 0] += 1
    if out[:, 0].min() < 0.1:  # a turn near half a circle: the slower way that loses no digits
        return rotations.quaternion_from_matrix(turns)
    out /= np.sqrt(np.einsum("nc,nc->n", out, out))[:, None]
    return out


def _quadratic() -> np.ndarray:
    out = np.zeros((4, 4, 3, 3), np.float32)
    for a in range(3):
        out[0, 0, a, a] = 1
        for b in range(3):
            out[1 + b, 1 + b, a, a] += 1 if a == b else -1
            if a != b:
                out[1 + a, 1 + b, a, b] += 2
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[0, 1 + k, j, i] += 2
        out[0, 1 + k, i, j] -= 2
    return out.reshape(16, 9)


def _linear() -> np.ndarray:
    out = np.zeros((3, 3, 4), np.float32)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[i, i, 0] = 1
        out[k, j, 1 + i], out[j, k, 1 + i] = 1, -1
    return out.reshape(9, 4)


_QUADRATIC = _quadratic()
_LINEAR = _linear()


def refine_one(
    layout: Plan,
    turns: np.ndarray,
    goals: np.ndarray,
    goal_turns: np.ndarray | None,
    steps: int,
    active: np.ndarray | None = None,
    shift: np.ndarray | None = None,
    free_root: bool = False,
    normals: np.ndarray | None = None,
    inside: Callable[[np.ndarray], np.ndarray] | None = None,
    enough: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At most ``steps`` steps from own rotations ``turns`` (J, 3, 3) towards ``goals`` (E, 3) [leg lengths] and ``goal_turns`` (E, 3, 3).

    ``active`` (E, 2) bool says which positions and orientations count; ``normals`` (E, 3), where not zero, the only
    direction that does; ``inside`` brings rotations into the joint limits after each step; ``enough`` is the squared error
    (leg lengths, radians) that needs no further step. Returns own rotations,
    poses (J, 4, 4) and the root's shift (3). Never worse than the start.
    """
    bones, moves = layout.bones, layout.moves
    effectors = len(bones)
    width = 3 if goal_turns is None else 6
    rows = None
    if active is not None and not np.all(active[:, : width // 3]):
        rows = np.flatnonzero(np.repeat(active[:, : width // 3], 3, axis=1).ravel())
        if not len(rows):
            steps = 0
    jacobian = np.zeros((effectors, width, layout.count, 3), np.float32)
    if width == 6:
        jacobian[:, 3:] = layout.turns
    flat = jacobian.reshape(effectors * width, -1)
    shift = np.zeros(3, np.float32) if shift is None else shift
    residual = np.zeros((effectors, width), np.float32)
    pose = forward_one(layout, turns)
    cost = _missing(pose, bones, shift, goals, goal_turns, normals, residual, rows)
    near = slice(None) if rows is None or active is None else active[:, 0]
    allowed = max(_square(residual[near, :3]), DISTANCE_SPARE)  # orientations may not be bought with distance
    damping = 1.0
    if free_root and steps:
        carry = _carry(rows, effectors, width, normals)
        carried = carry @ carry.T * np.float32(TRUNK_FIRST * ROOT_SHIFT**2)  # what moving the root adds to J J^T
    for _ in range(steps):
        if cost < enough:
            break
        heads = pose[:, :3, 3]
        arm = heads.take(bones, axis=0)[:, None] - heads
        arm *= moves
        # a turn d moves the head by d x arm
        jacobian[:, :3] = (arm.reshape(-1, 3) @ _LEVI_FLAT).reshape(effectors, -1, 3, 3).transpose(0, 3, 1, 2)
        if normals is not None:
            _along(jacobian, normals)
        used = flat if rows is None else flat[rows]
        wanted = residual.reshape(-1) if rows is None else residual.reshape(-1)[rows]
        system = used @ used.T
        if free_root:
            system += carried
        system.flat[:: len(system) + 1] += damping * (DAMPING_FLOOR + DAMPING_SHARE * cost)
        multipliers = np.linalg.solve(system, wanted)
        delta = (multipliers @ used).reshape(-1, 3)
        moved = shift
        if free_root:
            delta[0] *= np.sqrt(TRUNK_FIRST)
            moved = shift + (multipliers @ carry) * np.float32(TRUNK_FIRST * ROOT_SHIFT**2)
        square = np.einsum("jc,jc->j", delta, delta)
        largest = float(square.max()) ** 0.5
        if largest > STEP_MOST:
            delta *= STEP_MOST / largest
            square *= (STEP_MOST / largest) ** 2
        # world axes to the parent's: a left increment of each joint's own rotation
        local = np.matmul(delta[:, None, :], pose[:, :3, :3].take(layout.parents, axis=0))[:, 0]
        local[0] = delta[0]
        new_turns = np.matmul(_cayley(local, square), turns)
        if inside is not None:
            new_turns = inside(new_turns)
        new_pose = forward_one(layout, new_turns)
        new_residual = np.zeros_like(residual)
        new_cost = _missing(new_pose, bones, moved, goals, goal_turns, normals, new_residual, rows)
        if new_cost < cost and _square(new_residual[near, :3]) <= allowed:
            turns, pose, shift, residual, cost = new_turns, new_pose, moved, new_residual, new_cost
            damping = max(damping / BACK_OFF, 1.0)
        else:
            damping = min(damping * BACK_OFF, 1e6)
    return turns, pose, shift


@cache
def _has_blas() -> bool:
    """Whether this NumPy multiplies matrices well; a build without BLAS takes ten times as long as einsum for the same."""
    x, weights = np.ones(256, np.float32), np.ones((256, 256), np.float32)

    def least(product: Callable[..., np.ndarray]) -> float:
        spent = []
        for _ in range(5):
            began = time.perf_counter()
            product()
            spent.append(time.perf_counter() - began)
        return min(spent)

    return least(partial(np.matmul, x, weights)) < 3 * least(partial(np.einsum, "i,ij->j", x, weights))


def _square(vectors: np.ndarray) -> float:
    return float(np.vdot(vectors, vectors))


def _cayley(rot: np.ndarray, square: np.ndarray) -> np.ndarray:
    """Nearly exp of small turns (N, 3): exactly a rotation about the same axis, by 2 atan(|rot| / 2)."""
    across = (rot @ _LEVI_FLAT).reshape(-1, 3, 3)
    out = np.matmul(across, across)
    out *= 0.5
    out += across
    out *= (1 / (1 + 0.25 * square))[:, None, None]
    out += _EYE
    return out


def _missing(
    pose: np.ndarray,
    bones: np.ndarray,
    shift: np.ndarray,
    goals: np.ndarray,
    goal_turns: np.ndarray | None,
    normals: np.ndarray | None,
    into: np.ndarray,
    rows: np.ndarray | None,
) -> float:
    ends = pose.take(bones, axis=0)
    np.subtract(goals, ends[:, :3, 3] + shift, out=into[:, :3])
    if normals is not None:
        plane = np.any(normals, axis=1)
        into[plane, :3] = np.sum(into[plane, :3] * normals[plane], axis=1, keepdims=True) * normals[plane]
    if goal_turns is not None:
        # the axis times 2 sin(t/2), from R = goal D^T: zero only where R is the identity, and never wraps
        apart = np.matmul(goal_turns, ends[:, :3, :3].transpose(0, 2, 1)).reshape(-1, 9) @ _LINEAR
        scale = 1 / np.sqrt(np.maximum(1 + apart[:, 0], HALF_TURN))
        np.multiply(apart[:, 1:], scale[:, None], out=into[:, 3:])
    if rows is None:
        return float(np.vdot(into, into))
    used = into.reshape(-1)[rows]
    return float(np.vdot(used, used))


def _along(jacobian: np.ndarray, normals: np.ndarray) -> None:
    for e in np.flatnonzero(np.any(normals, axis=1)):
        n = normals[e]
        jacobian[e, :3] = np.einsum("a,b,bjc->ajc", n, n, jacobian[e, :3])


def _carry(rows: np.ndarray | None, effectors: int, width: int, normals: np.ndarray | None) -> np.ndarray:
    """(R, 3) how the rows of the residual change when the root moves: every position goes with it."""
    step = np.zeros((effectors, width, 3), np.float32)
    step[:, :3] = _EYE
    if normals is not None:
        for e in np.flatnonzero(np.any(normals, axis=1)):
            step[e, :3] = np.outer(normals[e], normals[e])
    flat = step.reshape(-1, 3)
    return flat if rows is None else flat[rows]


def toe_arms(skeleton: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    """For each foot the vector (feet, 3) from its head to its toe's in the T-pose, and both rest heights (feet, 2) [leg lengths]."""
    feet, toes = np.array(skeleton.feet, int), np.array(skeleton.toes, int)
    arm = np.where((feet == toes)[:, None], 0, skeleton.offsets[toes]) / skeleton.leg_length
    return arm.reshape(-1, 3), skeleton.foot_rest / skeleton.leg_length


@dataclass(frozen=True)
class Memory:
    """What a session keeps of the pose before."""

    heading: float
    """[rad]"""
    positions: np.ndarray
    """(E, 3) [leg lengths], root frame."""
    turns: np.ndarray
    """(E, 3, 3) orientations, root frame."""


@dataclass(frozen=True)
class Anchor:
    """What a pose differs from the network's own answer, and what is remembered of that pose; made by :meth:`Machine.anchor`."""

    memory: Memory
    turns: np.ndarray
    """(J, 3, 3) what each bone's own rotation has on its right."""
    shift: np.ndarray
    """(3) [leg lengths] likewise for the root of a network that moves it."""


class Machine:
    """Everything about one network that a solve needs, laid out beforehand."""

    def __init__(self, net: Network) -> None:
        """Lay ``net`` out; its skeleton is the rig that will be solved."""
        rig = net.skeleton
        self.net, self.rig = net, rig
        self.length = float(rig.leg_length)
        self.plans = {free: plan(rig, free) for free in (False, True)}
        self.stack = layers(net.parameters, sizes(rig, net.layout, net.hidden))
        self.scale = (1 / net.deviation).astype(np.float32)
        self.product = np.matmul if _has_blas() else partial(np.einsum, "i,ij->j")
        bones = list(rig.effectors)
        self.bones = np.array(bones)
        self.feet = [bones.index(f) for f in rig.feet]
        arms, heights = toe_arms(rig)
        self.arm, self.foot_rest = arms.tolist(), heights.tolist()
        self.near = GROUND.near / GROUND.reference_leg
        self.width = 6 if net.layout.orientations else 3
        self.inputs = np.zeros(net.layout.input_count(rig), np.float32)
        if net.layout.lengths:
            own = limb_lengths(rig, rig.offsets.T[:, :, None] / rig.leg_length)[:, 0]
            self.inputs[-len(own) :] = own
        turns = rotations.matrix_from_axis_angle(rig.t_pose[0])
        self.root_before, self.root_after = rig.basis[0] @ turns.T, rig.basis[0].T
        self.axes = rig.axes
        self.straight = bool(np.array_equal(rig.axes, np.eye(3)))
        self.axes_product = _left_product(rotations.quaternion_from_matrix(rig.axes)).T
        # q -> q t with t what the T-pose and the core axes add on the right of each effector's orientation
        right = rig.rest_arm[bones, :3, :3] @ rig.basis[bones].transpose(0, 2, 1)
        self.right = np.stack([right_product(q) for q in rotations.quaternion_from_matrix(right)])
        self.right_plain = bool(np.allclose(self.right, np.eye(4), atol=1e-9))
        # core quaternion of a bone -> rot_local: into bone axes, then the T-pose in front
        spin = np.tile(np.eye(4), (rig.count, 1, 1))
        spin[:, 1:, 1:] = rig.basis.transpose(0, 2, 1)
        front = np.stack([_left_product(q) for q in rotations.quaternion_from_axis_angle(rig.t_pose)])
        self.home = (front @ spin).astype(np.float32)

    def network(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs (I) to outputs (O)."""
        product = self.product
        x = (inputs - self.net.mean) * self.scale
        for weights, bias in self.stack[:-1]:
            x = product(x, weights)
            x += bias
            np.tanh(x, out=x)
        weights, bias = self.stack[-1]
        return product(x, weights) + bias

    def solve(
        self,
        goals: Goals,
        steps: int,
        limits: bool,
        free: bool,
        memory: Memory | None,
        anchor: Anchor | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Memory]:
        """rot_local (J, 4), the Hips' head (3) [m], errors (E) [m] and the memory for the next pose, for checked goals.

        With an ``anchor`` the network's pose is changed by what the anchor holds before it is refined.
        """
        rig, layout = self.rig, self.net.layout
        root = self.root_before @ _turn(*goals.root_rot.tolist()) @ self.root_after
        heading = _heading(root, memory)
        cosine, sine = math.cos(heading), math.sin(heading)
        unheading = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        frame = unheading if self.straight else unheading @ self.axes
        hips = unheading @ root
        positions = (((goals.positions - goals.root_pos) @ frame.T) / self.length).astype(np.float32)
        effectors = len(positions)
        turn_goals = None
        if goals.rotations is not None:
            q = quaternions(goals.rotations)
            if not self.right_plain:
                q = np.matmul(q[:, None, :], self.right)[:, 0]
            q = q @ self._frame_product(heading)
            turn_goals = matrices(q.astype(np.float32))

        weights, turn_weights = goals.weights, goals.orientation_weights
        if turn_weights is None:
            turn_weights = weights
        active = None
        if weights is not None or turn_weights is not None or turn_goals is None:
            active = np.ones((effectors, 2), bool)
            if weights is not None:
                active[:, 0] = weights > 0
            if turn_weights is not None:
                active[:, 1] = turn_weights > 0
            if turn_goals is None:
                active[:, 1] = False
            elif goals.orientation_weights is None and weights is not None:
                active[:, 1] = active[:, 0]
        ground = float((goals.root_pos @ self.axes[2]) - goals.ground) / self.length
        outputs = self._answer(goals, positions, turn_goals, hips, ground, active, memory)
        rot = outputs[: 3 * rig.count].reshape(-1, 3)
        turns = matrices(quaternions(rot))
        shift = np.zeros(3, np.float32)
        if layout.free_root:
            turns[0] = turns[0] @ hips.astype(np.float32)
            shift = outputs[3 * rig.count :].copy()
        else:
            turns[0] = hips
        if anchor is not None:
            turns = np.matmul(turns, anchor.turns)
            shift = shift + anchor.shift
        inside = self._inside if limits else None
        if inside is not None:
            turns = inside(turns)
        normals = None
        if goals.normals is not None and np.any(goals.normals):
            normals = (goals.normals @ frame.T).astype(np.float32)
        layout_plan = self.plans[free]
        aim, aim_turns = positions, turn_goals
        if weights is not None or turn_weights is not None:
            aim, aim_turns = self._partial(layout_plan, turns, shift, positions, turn_goals, weights, turn_weights)
        enough = ENOUGH if anchor is None else ENOUGH_LIVE
        turns, pose, shift = refine_one(
            layout_plan, turns, aim, aim_turns, steps, active, shift, free, normals, inside, enough
        )
        ends = pose.take(self.bones, axis=0)
        reached = ends[:, :3, 3] + shift
        apart = reached - positions
        if normals is not None:
            plane = np.any(normals, axis=1)
            apart[plane] = np.sum(apart[plane] * normals[plane], axis=1, keepdims=True) * normals[plane]
        error = np.sqrt(np.einsum("ec,ec->e", apart, apart)).astype(np.float64) * self.length
        if weights is not None:
            error[weights == 0] = 0.0
        out = np.matmul(self.home, quaternions_of(turns)[:, :, None])[:, :, 0].astype(np.float64)
        root_pos = goals.root_pos
        if free:
            root_pos = root_pos + (shift @ frame) * self.length
            turned = self.root_before.T @ (unheading.T @ turns[0].astype(np.float64)) @ self.root_after.T
            out[0] = quaternions_of(turned[None])[0]
        else:
            out[0] = _quaternion(*goals.root_rot.tolist())
        if out[:, 0].min() < 0:
            out[out[:, 0] < 0] *= -1
        return out, root_pos, error, Memory(heading, reached, ends[:, :3, :3])

    def anchor(self, goals: Goals, rot_local: np.ndarray) -> Anchor:
        """What the pose ``rot_local`` (J, 4) differs from the network's answer to the checked ``goals`` that it fulfils."""
        hips = self.root_before @ _turn(*goals.root_rot.tolist()) @ self.root_after
        heading = _heading(hips, None)
        cosine, sine = math.cos(heading), math.sin(heading)
        unheading = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        turns = self._own(rot_local, unheading)
        ends = forward_one(self.plans[False], turns.astype(np.float32))[self.bones]
        memory = Memory(heading, ends[:, :3, 3], ends[:, :3, :3])
        out, root_pos, _, _ = self.solve(goals, 0, False, self.net.layout.free_root, memory)
        frame = unheading @ self.axes
        shift = (frame @ (goals.root_pos - root_pos) / self.length).astype(np.float32)
        natural = self._own(out, unheading)
        return Anchor(memory, np.matmul(natural.transpose(0, 2, 1), turns).astype(np.float32), shift)

    def ends(self, goals: Goals, memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """Positions (E, 3) [m] and R R_rest^T as quaternions (E, 4) of the effectors that ``memory`` holds, in armature space."""
        cosine, sine = math.cos(memory.heading), math.sin(memory.heading)
        unheading = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        frame = unheading if self.straight else unheading @ self.axes
        turned = quaternions_of(memory.turns).astype(np.float64) @ self._frame_product(memory.heading).T
        if not self.right_plain:
            turned = np.matmul(turned[:, None, :], self.right.transpose(0, 2, 1))[:, 0]
        return goals.root_pos + (memory.positions @ frame) * self.length, turned

    def _own(self, rot_local: np.ndarray, unheading: np.ndarray) -> np.ndarray:
        """rot_local (J, 4) as the own rotations (J, 3, 3) that refinement works on."""
        core = np.matmul(self.home.transpose(0, 2, 1).astype(np.float64), rot_local[:, :, None])[:, :, 0]
        turns = rotations.matrix_from_quaternion(core)
        root = rotations.matrix_from_quaternion(rot_local[0])
        turns[0] = unheading @ self.root_before @ root @ self.root_after
        return turns

    def _frame_product(self, heading: float) -> np.ndarray:
        """(4, 4) that takes quaternions (N, 4), as rows, from armature axes into the root frame, from the left."""
        c, s = math.cos(0.5 * heading), math.sin(0.5 * heading)
        unturn = np.array([[c, 0, 0, -s], [0, c, -s, 0], [0, s, c, 0], [s, 0, 0, c]])
        return unturn if self.straight else self.axes_product @ unturn

    def _answer(
        self,
        goals: Goals,
        positions: np.ndarray,
        turn_goals: np.ndarray | None,
        hips: np.ndarray,
        ground: float,
        active: np.ndarray | None,
        memory: Memory | None,
    ) -> np.ndarray:
        """The network's outputs; what is not given is guessed from the pose before, or else from the pose a first guess led to."""
        layout = self.net.layout
        asked = None if active is None else active[:, : self.width // 3]
        if asked is None or layout.mask or np.all(asked):
            return self.network(self._fill(goals, positions, turn_goals, hips, ground, active))
        assert active is not None
        free, loose = ~active[:, 0], ~active[:, 1]
        known, known_turns = positions.copy(), np.tile(_EYE, (len(positions), 1, 1))
        if turn_goals is not None:
            known_turns[:] = turn_goals
        if memory is not None:
            known[free], known_turns[loose] = memory.positions[free], memory.turns[loose]
            return self.network(self._fill(goals, known, known_turns, hips, ground, None))
        mean = self.net.mean[: self.width * len(positions)].reshape(-1, self.width)
        seen = hips if layout.hips_frame else _EYE
        known[free] = mean[free, :3] @ seen.T
        if self.width == 6:
            known_turns[loose] = np.matmul(seen, matrices(quaternions(mean[loose, 3:])))
        outputs = self.network(self._fill(goals, known, known_turns, hips, ground, None))
        turns = matrices(quaternions(outputs[: 3 * self.rig.count].reshape(-1, 3)))
        turns[0] = hips
        ends = forward_one(self.plans[False], turns)[self.bones]
        known[free], known_turns[loose] = ends[free, :3, 3], ends[loose, :3, :3]
        return self.network(self._fill(goals, known, known_turns, hips, ground, None))

    def _fill(
        self,
        goals: Goals,
        positions: np.ndarray,
        turned: np.ndarray | None,
        hips: np.ndarray,
        ground: float,
        active: np.ndarray | None,
    ) -> np.ndarray:
        """The inputs of one pose, in the order of context.features; ``turned`` (E, 3, 3), ``active`` (E, 2) for layouts with a mask."""
        x, layout = self.inputs, self.net.layout
        effectors = len(positions)
        block = x[: self.width * effectors].reshape(effectors, self.width)
        block[:, :3] = positions @ hips if layout.hips_frame else positions
        if self.width == 6:
            if turned is None:
                block[:, 3:] = 0
            else:
                q = quaternions_of(np.matmul(hips.T, turned) if layout.hips_frame else turned)
                lean = np.sqrt(np.maximum(np.einsum("nc,nc->n", q[:, 1:], q[:, 1:]), 1e-20))
                np.multiply(q[:, 1:], (2 * np.arctan2(lean, q[:, 0]) / lean)[:, None], out=block[:, 3:])
        at = self.width * effectors
        x[at : at + 3] = -hips[:, 1]
        x[at + 3 : at + 6] = hips[:, 2]
        at += 6
        for k, foot in enumerate(self.feet):
            z = float(positions[foot, 2])
            a, b, c = (0.0, 0.0, 1.0) if turned is None else turned[foot, 2].tolist()
            (u, v, w), (ankle, toe) = self.arm[k], self.foot_rest[k]
            height = min(z - ankle, z + a * u + b * v + c * w - toe) + ground
            grounded = height < self.near if goals.grounded is None else goals.grounded[k]
            desired = grounded if goals.desired is None else goals.desired[k]
            known = active is None or bool(active[foot, 0])
            x[at : at + 6] = (height * known, 0, 0, 1, grounded * known, desired * known)
            at += 6
        x[at], x[at + 1] = goals.phase, goals.task
        if layout.mask:
            given = np.ones((effectors, 2), np.float32) if active is None else active.astype(np.float32)
            x[at + 2 : at + 2 + 2 * effectors] = given.ravel()
            block[:, :3] *= given[:, :1]
            block[:, 3:] *= given[:, 1:]
        return x

    def _partial(
        self,
        layout_plan: Plan,
        turns: np.ndarray,
        shift: np.ndarray,
        positions: np.ndarray,
        turn_goals: np.ndarray | None,
        weights: np.ndarray | None,
        turn_weights: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Targets as far on the way from the natural pose as their weights say."""
        given = [w for listed in (weights, turn_weights) if listed is not None for w in listed.tolist()]
        partial = any(0 < w < 1 for w in given)
        if not partial:
            return positions, turn_goals
        ends = forward_one(layout_plan, turns)[self.bones]
        now = ends[:, :3, 3] + shift
        aim = positions if weights is None else now + weights.astype(np.float32)[:, None] * (positions - now)
        if turn_goals is None or turn_weights is None:
            return aim, turn_goals
        way = rotations.axis_angle_from_matrix(np.matmul(turn_goals, ends[:, :3, :3].transpose(0, 2, 1)))
        step = matrices(quaternions(way * turn_weights.astype(np.float32)[:, None]))
        return aim, np.matmul(step, ends[:, :3, :3])

    def _inside(self, turns: np.ndarray) -> np.ndarray:
        rot = rotations.axis_angle_from_matrix(turns)
        kept = clamp(self.rig, np.ascontiguousarray(rot.T)[:, :, None])[:, :, 0].T
        return matrices(quaternions(np.ascontiguousarray(kept, np.float32)))


def _turn(x: float, y: float, z: float) -> np.ndarray:
    """One axis-angle [rad] to a matrix (3, 3) in plain arithmetic: for nine numbers that is fastest."""
    square = x * x + y * y + z * z + 1e-30
    angle = math.sqrt(square)
    s, half = math.sin(angle) / angle, math.sin(0.5 * angle)
    c = 2 * half * half / square
    return np.array(
        [
            [1 - c * (y * y + z * z), c * x * y - s * z, c * x * z + s * y],
            [c * x * y + s * z, 1 - c * (x * x + z * z), c * y * z - s * x],
            [c * x * z - s * y, c * y * z + s * x, 1 - c * (x * x + y * y)],
        ]
    )


def _quaternion(x: float, y: float, z: float) -> tuple[float, float, float, float]:
    """One axis-angle [rad] to a quaternion."""
    half = 0.5 * math.sqrt(x * x + y * y + z * z + 1e-30)
    s = math.sin(half) / (2 * half)
    return math.cos(half), s * x, s * y, s * z


def _heading(root: np.ndarray, memory: Memory | None) -> float:
    """As context.headings, for one pose: weak directions keep the heading of the pose before."""
    x, y = float(root[0, 0]), float(root[1, 0])
    if math.hypot(x, y) >= HEADING_WEAK:
        return math.atan2(y, x)
    if memory is not None:
        return memory.heading
    return float(rotations.twist_about(rotations.axis_angle_from_matrix(root), np.array([0.0, 0, 1])))


def _left_product(q: np.ndarray) -> np.ndarray:
    """(4, 4) matrix of p -> q p on column quaternions."""
    w, x, y, z = q
    return np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])


def right_product(q: np.ndarray) -> np.ndarray:
    """(4, 4) matrix of p -> p q on row quaternions."""
    w, x, y, z = q
    return np.array([[w, x, y, z], [-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])
