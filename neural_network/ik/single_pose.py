# SPDX-License-Identifier: GPL-3.0-or-later
"""The solve for one pose at a time, as games and Live IK call it: the mathematics of refinement.py without its waiting.

For a single pose NumPy's calls cost more than its arithmetic, so this room does in few calls, in float64, what the batched
one does in many: all heads are one product of all orientations, the Jacobian is picked row by row into one array made
beforehand, what a step turns is one rotation a bone, and a few numbers are worked out sooner in plain Python. In a NumPy
without BLAS the network's products go through einsum, which is fast there too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial

import numpy as np

from ..core import quick_rotations as quick
from ..core import rotations
from ..core.contacts import GROUND
from ..core.skeleton import Skeleton
from .context import HEADING_WEAK, limb_lengths
from .goals import Goals
from .network import Network, stack
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

ENOUGH = 1e-10
"""Squared error [leg lengths, rad] at which a solve stops early: a hundredth of a millimetre. Nobody sees the next step."""
ENOUGH_LIVE = 1e-9
"""The same for an anchored solve, three hundredths: a drag waits for it."""

_EYE = np.eye(3)
_NOTHING = [0.0, 0.0, 0.0]


@dataclass(frozen=True)
class Plan:
    """What never changes between two solves of one rig, and room to work in; made by :func:`plan`."""

    count: int
    bones: np.ndarray  # (E) effectors
    ancestors: tuple[np.ndarray, ...]  # (J + 1) each: the bone 1, 2, 4, ... above, J where there is none
    parents: np.ndarray  # (J) the bone above, the root's being itself
    offsets: np.ndarray  # (3 J, J) orientations (3, 3 J) times this are the heads [leg lengths]
    signs: np.ndarray  # (2, 1, E, J) where turning the joint moves the effector's head or turns it, and the negative
    signed: np.ndarray  # (7 E, J) room: zeros, arms, negative arms
    pick: np.ndarray  # (9 E) which of those rows stand where in the Jacobian
    jacobian: np.ndarray  # (6 E, 3 J) room: position rows, then those of orientations, which are constant in world axes
    step: np.ndarray  # (4, J) room: a step's turns [rad, root frame] below a row of 2, which makes them quaternions
    squares: np.ndarray  # (4, 4, J) room
    turn: np.ndarray  # (J + 1, 3, 3) room: what a step turns, transposed; the last is the world


def plan(skeleton: Skeleton, free_root: bool = False) -> Plan:
    """Lay out a rig for :func:`refine_one`; with ``free_root`` its Hips may follow."""
    count, effectors = skeleton.count, len(skeleton.effectors)
    up = np.append(np.where(skeleton.parents < 0, count, skeleton.parents), count)
    steps, reach = [], up
    while np.any(reach < count):
        steps.append(reach)
        reach = reach[reach]
    share = skeleton.subtree[:, list(skeleton.effectors)].T.copy()  # (E, J)
    share[:, 0] = np.sqrt(TRUNK_FIRST) if free_root else 0
    parents = np.maximum(skeleton.parents, 0)
    offsets = np.zeros((count, 3, count))
    for j in range(1, count):  # what hangs below a joint is carried by its offset, turned by its parent
        offsets[parents[j]] += np.outer(skeleton.offsets[j] / skeleton.leg_length, skeleton.subtree[j])
    block = np.array([[0, 3, 5], [6, 0, 1], [2, 4, 0]])  # a turn d moves the head by d x arm: rows of the cross product
    pick = block[:, None, :] * effectors + np.arange(effectors)[:, None]
    jacobian = np.zeros((2, 3, effectors, 3, count))
    for c in range(3):
        jacobian[1, c, :, c] = share
    return Plan(
        count,
        np.array(skeleton.effectors),
        tuple(steps),
        parents,
        offsets.reshape(3 * count, count),
        np.stack([share, -share])[:, None],
        np.zeros((7 * effectors, count)),
        pick.ravel(),
        jacobian.reshape(6 * effectors, 3 * count),
        np.full((4, count), 2.0),
        np.zeros((4, 4, count)),
        np.tile(_EYE, (count + 1, 1, 1)),
    )


def forward_one(layout: Plan, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Own rotations (J, 3, 3) to ``back``, the transposed ``D`` (J, 3, 3), and heads (3, J) [leg lengths] in the root frame."""
    back = np.empty((layout.count + 1, 3, 3))
    back[:-1] = turns.transpose(0, 2, 1)
    back[-1] = _EYE
    for ancestor in layout.ancestors:
        back = np.matmul(back, back.take(ancestor, axis=0))
    return back[:-1], heads_one(layout, back[:-1])


def heads_one(layout: Plan, back: np.ndarray) -> np.ndarray:
    """Heads (3, J) [leg lengths] of bones turned by the transposed of ``back`` (J, 3, 3): one product of all that is in it."""
    return np.dot(back.reshape(-1, 3).T, layout.offsets)


def own_one(layout: Plan, back: np.ndarray) -> np.ndarray:
    """``back`` (J, 3, 3) to each joint's own rotation (J, 3, 3)."""
    out = np.matmul(back.take(layout.parents, axis=0), back.transpose(0, 2, 1))
    out[0] = back[0].T
    return out


_BACK = np.append(quick.MATRIX.reshape(16, 3, 3).transpose(2, 1, 0).reshape(9, 16), np.eye(4).reshape(1, 16), axis=0)
"""(10, 16) nine entries of the transposed matrix, unscaled, and the squared length of the quaternion."""
_AIM = np.ascontiguousarray(quick.AXIS.reshape(3, 3, 4).transpose(2, 1, 0)).reshape(12, 3)


def refine_one(
    layout: Plan,
    back: np.ndarray,
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
    """At most ``steps`` steps from a pose, the transposed ``D`` (J, 3, 3), towards its targets: ``goals`` (3, E) [leg lengths]
    and ``goal_turns`` (E, 3, 3).

    ``active`` (2, E) bool says which positions and orientations count; ``normals`` (3, E), where not zero, the only
    direction that does; ``inside`` brings a pose into the joint limits after each step; ``enough`` is the squared error
    (leg lengths, radians) that needs no further step. Returns the pose, heads (3, J) without the root's shift, and that
    shift (3). Never worse than the start.
    """
    bones, effectors = layout.bones, len(layout.bones)
    parts = 3 if goal_turns is None else 6
    count = parts * effectors
    counts = None if active is None else active.tobytes()
    rows, near = (None, 3 * effectors) if counts is None else _rows(counts, effectors, parts)
    if rows is not None and not len(rows):
        steps = 0
    aim = None if goal_turns is None else _aim(goal_turns)
    shift = np.zeros(3) if shift is None else shift
    moves = free_root or bool(shift.any())
    jacobian, arms = layout.jacobian[:count], layout.signed[effectors:].reshape(2, 3, effectors, -1)
    delta = layout.step[1:]
    places, signed, pick = layout.jacobian[: 3 * effectors].reshape(9 * effectors, -1), layout.signed, layout.pick

    def missing(back: np.ndarray, heads: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is missing of a pose (R), positions first, and where its effectors' heads are but for the shift (3, E)."""
        ends = heads.take(bones, axis=1)
        out = np.empty((parts, effectors))
        np.subtract(goals, ends, out=out[:3])
        if moves:
            out[:3] -= shift[:, None]
        if normals is not None:
            _along(out[:3], normals)
        if aim is not None:
            # the axis times 2 sin(t/2), from R = goal D^T: zero only where R is the identity, and never wraps
            apart = np.dot(aim, back.take(bones, axis=0).reshape(-1)).reshape(4, -1)
            np.multiply(apart[1:], 1 / np.sqrt(np.maximum(1 + apart[0], HALF_TURN)), out=out[3:])
        flat = out.reshape(-1)
        return (flat if rows is None else flat.take(rows)), ends

    heads, moved = heads_one(layout, back), shift
    wanted, ends = missing(back, heads, shift)
    cost = float(np.vdot(wanted, wanted))
    allowed = max(_square(wanted[:near]), DISTANCE_SPARE)  # orientations may not be bought with distance
    damping = 1.0
    if free_root and steps:
        carry = _carry(counts, effectors, parts) if normals is None else _carry_along(rows, effectors, parts, normals)
        carried = _carried(counts, effectors, parts) if normals is None else _outer(carry)
    for _ in range(steps):
        if cost < enough:
            break
        np.multiply(ends[:, :, None] - heads[:, None], layout.signs, out=arms)
        signed.take(pick, axis=0, out=places, mode="clip")
        if normals is not None:
            _along(layout.jacobian[: 3 * effectors].reshape(3, effectors, -1), normals)
        used = jacobian if rows is None else jacobian.take(rows, axis=0)
        system = np.dot(used, used.T)
        if free_root:
            system += carried
        diagonal = system.reshape(-1)[:: len(system) + 1]
        diagonal += damping * (DAMPING_FLOOR + DAMPING_SHARE * cost)
        multipliers = np.linalg.solve(system, wanted)
        np.dot(multipliers, used, out=delta.reshape(-1))
        if free_root:
            delta[:, 0] *= TRUNK_FIRST**0.5
            moved = shift + np.dot(multipliers, carry) * (TRUNK_FIRST * ROOT_SHIFT**2)
        if np.vdot(delta, delta) > STEP_MOST**2:
            delta *= min(1.0, STEP_MOST / float(np.einsum("cj,cj->j", delta, delta).max()) ** 0.5)
        new_back = _turn_on(layout, back)
        if inside is not None:
            new_back = inside(new_back)
        new_heads = heads_one(layout, new_back)
        new_wanted, new_ends = missing(new_back, new_heads, moved)
        new_cost = float(np.vdot(new_wanted, new_wanted))
        if new_cost < cost and _square(new_wanted[:near]) <= allowed:
            back, heads, shift, wanted, ends, cost = new_back, new_heads, moved, new_wanted, new_ends, new_cost
            damping = max(damping / BACK_OFF, 1.0)
        else:
            damping = min(damping * BACK_OFF, 1e6)
    return back, heads, shift


def _turn_on(layout: Plan, back: np.ndarray) -> np.ndarray:
    """``back`` (J, 3, 3) after every joint turned by ``layout.step``, by 2 atan(t/2) instead of t.

    A turn in the root frame carries all that hangs below: the turns are multiplied down the tree, and then take the bones along.
    """
    step, turn = layout.step, layout.turn
    np.multiply(step[:, None], step, out=layout.squares)
    entries = np.dot(_BACK, layout.squares.reshape(16, -1))
    np.divide(entries[:9], entries[9], out=turn[:-1].reshape(-1, 9).T)
    for ancestor in layout.ancestors:
        turn = np.matmul(turn, turn.take(ancestor, axis=0))
    return np.matmul(back, turn[:-1])


def _aim(goal_turns: np.ndarray) -> np.ndarray:
    """(4 E, 9 E) that takes the effectors' ``back`` (9 E) to trace and axis of goal D^T (4, E); blocks of one effector each."""
    effectors = len(goal_turns)
    out = np.zeros((4, effectors, effectors, 3, 3))
    found = np.dot(_AIM, goal_turns.transpose(1, 2, 0).reshape(3, -1)).reshape(4, 3, 3, effectors)
    np.einsum("ieecb->iecb", out)[...] = found.transpose(0, 3, 2, 1)
    return out.reshape(4 * effectors, 9 * effectors)


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


def _dot(a: list[float], b: list[float]) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _along(vectors: np.ndarray, normals: np.ndarray) -> None:
    """Keep of ``vectors`` (3, E, ...) only what lies along the normals (3, E), where there is one."""
    for e in np.flatnonzero(np.any(normals, axis=0)):
        n = normals[:, e]
        vectors[:, e] = np.outer(n, n) @ vectors[:, e]


@lru_cache(maxsize=256)
def _rows(active: bytes, effectors: int, parts: int) -> tuple[np.ndarray | None, int]:
    """Which rows (R) of the residual count, of those that are active (2, E), None for all; and how many are of positions."""
    every = np.frombuffer(active, bool).reshape(2, effectors)[: parts // 3]
    rows = None if every.all() else np.flatnonzero(np.repeat(every, 3, axis=0))
    return rows, 3 * int(np.count_nonzero(every[0]))


@lru_cache(maxsize=256)
def _carry(active: bytes | None, effectors: int, parts: int) -> np.ndarray:
    """(R, 3) how the rows of the residual change when the root moves: every position goes with it."""
    rows = None if active is None else _rows(active, effectors, parts)[0]
    return _carry_along(rows, effectors, parts, np.zeros((3, effectors)))


@lru_cache(maxsize=256)
def _carried(active: bytes | None, effectors: int, parts: int) -> np.ndarray:
    return _outer(_carry(active, effectors, parts))


def _carry_along(rows: np.ndarray | None, effectors: int, parts: int, normals: np.ndarray) -> np.ndarray:
    """The same where some positions count along their normals (3, E) alone."""
    step = np.zeros((parts, effectors, 3))
    step[:3] = _EYE[:, None]
    _along(step[:3], normals)
    flat = step.reshape(-1, 3)
    return flat if rows is None else flat[rows]


def _outer(carry: np.ndarray) -> np.ndarray:
    """(R, R) what moving the root adds to J J^T."""
    return np.dot(carry, carry.T) * (TRUNK_FIRST * ROOT_SHIFT**2)


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
    """(3, E) [leg lengths], root frame."""
    back: np.ndarray
    """(E, 3, 3) transposed orientations, root frame."""


@dataclass(frozen=True)
class Anchor:
    """What a pose differs from the network's own answer, and what is remembered of that pose; made by :meth:`SinglePoseSolver.anchor`."""

    memory: Memory
    turns: np.ndarray
    """(J, 3, 3) what each bone's own rotation has on its right."""
    shift: np.ndarray
    """(3) [leg lengths] likewise for the root of a network that moves it."""


class SinglePoseSolver:
    """Everything about one network that a solve needs, laid out beforehand."""

    def __init__(self, net: Network) -> None:
        """Lay ``net`` out; its skeleton is the rig that will be solved."""
        rig = net.skeleton
        self.net, self.rig = net, rig
        self.length = float(rig.leg_length)
        self.plans = {free: plan(rig, free) for free in (False, True)}
        self.stack = _standardised(net)
        self.product = np.dot if _has_blas() else partial(np.einsum, "i,ij->j")
        bones = list(rig.effectors)
        self.bones = np.array(bones)
        self.feet = [bones.index(f) for f in rig.feet]
        arms, heights = toe_arms(rig)
        self.arm, self.foot_rest = arms.tolist(), heights.tolist()
        self.near = GROUND.near / GROUND.reference_leg
        self.width = 6 if net.layout.orientations else 3
        self.lengths: list[float] = []
        if net.layout.lengths:
            self.lengths = limb_lengths(rig, rig.offsets.T[:, :, None] / rig.leg_length)[:, 0].tolist()
        turns = rotations.matrix_from_axis_angle(rig.t_pose[0])
        self.root_before, self.root_after = rig.basis[0] @ turns.T, rig.basis[0].T
        self.axes = rig.axes
        self.up = rig.axes[2].tolist()
        self.straight = bool(np.array_equal(rig.axes, np.eye(3)))
        self.axes_product = quick.left_product(rotations.quaternion_from_matrix(rig.axes)).T
        # q -> q t with t what the T-pose and the core axes add on the right of each effector's orientation
        right = rig.rest_arm[bones, :3, :3] @ rig.basis[bones].transpose(0, 2, 1)
        self.right = np.stack([quick.right_product(q) for q in rotations.quaternion_from_matrix(right)])
        self.right_plain = bool(np.allclose(self.right, np.eye(4), atol=1e-9))
        # core quaternion of a bone -> rot_local: into bone axes, then the T-pose in front
        spin = np.tile(np.eye(4), (rig.count, 1, 1))
        spin[:, 1:, 1:] = rig.basis.transpose(0, 2, 1)
        front = np.stack([quick.left_product(q) for q in rotations.quaternion_from_axis_angle(rig.t_pose)])
        self.home = front @ spin

    def network(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs (I) to outputs (O)."""
        product = self.product
        x = inputs
        for weights, bias in self.stack[:-1]:
            x = product(x, weights)
            x += bias
            np.tanh(x, out=x)
        weights, bias = self.stack[-1]
        x = product(x, weights)
        x += bias
        return x

    def solve(
        self,
        goals: Goals,
        steps: int,
        limits: bool,
        free: bool,
        memory: Memory | None,
        anchor: Anchor | None = None,
        enough: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Memory]:
        """rot_local (J, 4), the Hips' head (3) [m], errors (E) [m] and the memory for the next pose, for checked goals.

        With an ``anchor`` the network's pose is changed by what the anchor holds before it is refined. ``enough``: the
        squared error that needs no further step, where it is not :data:`ENOUGH` or :data:`ENOUGH_LIVE`.
        """
        rig, layout = self.rig, self.net.layout
        hips, frame, heading, unheading = self._seat(goals, memory)
        positions = np.dot(frame, (goals.positions - goals.root_pos).T)
        positions /= self.length
        turned = None
        if goals.rotations is not None:
            q = np.array([quick.quaternion_of_one(*row) for row in goals.rotations.tolist()])
            if not self.right_plain:
                q = np.matmul(q[:, None, :], self.right)[:, 0]
            q = np.dot(q, self._frame_product(heading))
            turned = quick.matrix_from_quaternion(q)
        weights, turn_weights, active = _asked(goals)
        ground = (_dot(goals.root_pos.tolist(), self.up) - float(goals.ground)) / self.length
        outputs = self._answer(goals, positions, turned, hips, ground, active, memory)
        turns = quick.matrix_from_axis_angle(outputs[: 3 * rig.count].reshape(-1, 3))
        shift = np.zeros(3)
        if layout.free_root:
            turns[0] = turns[0] @ hips
            shift = outputs[3 * rig.count :].astype(np.float64)
        else:
            turns[0] = hips
        if anchor is not None:
            turns = np.matmul(turns, anchor.turns)
            shift = shift + anchor.shift
        layout_plan = self.plans[free]
        back, heads = forward_one(layout_plan, turns)
        inside = self._inside if limits else None
        if inside is not None:
            back = inside(back)
            heads = heads_one(layout_plan, back)
        normals = None
        if goals.normals is not None and goals.normals.any():
            normals = np.dot(frame, goals.normals.T)
        aim, aim_turned = self._partial(back, heads, shift, positions, turned, weights, turn_weights)
        if active is not None and not active[1].any():
            aim_turned = None
        if enough is None:
            enough = ENOUGH if anchor is None else ENOUGH_LIVE
        back, heads, shift = refine_one(
            layout_plan, back, aim, aim_turned, steps, active, shift, free, normals, inside, enough
        )
        reached = heads.take(self.bones, axis=1)
        reached += shift[:, None]
        apart = reached - positions
        if normals is not None:
            _along(apart, normals)
        error = np.sqrt(np.einsum("ce,ce->e", apart, apart))
        error *= self.length
        if weights is not None:
            error[weights == 0] = 0.0
        root_pos = goals.root_pos
        out = np.matmul(self.home, quick.quaternion_from_matrix(own_one(layout_plan, back))[:, :, None])[:, :, 0]
        if free:
            root_pos = root_pos + np.dot(shift, frame) * self.length
            turn = np.dot(np.dot(self.root_before.T, np.dot(back[0], unheading).T), self.root_after.T)
            out[0] = quick.quaternion_from_matrix(turn[None])[0]
        else:
            out[0] = quick.quaternion_of_one(*goals.root_rot.tolist())
        if out[:, 0].min() < 0:
            out[out[:, 0] < 0] *= -1
        return out, root_pos, error, Memory(heading, reached, back.take(self.bones, axis=0))

    def anchor(self, goals: Goals, rot_local: np.ndarray) -> Anchor:
        """What the pose ``rot_local`` (J, 4) differs from the network's answer to the checked ``goals`` that it fulfils."""
        _, frame, heading, unheading = self._seat(goals, None)
        turns = self._own(rot_local, unheading)
        back, heads = forward_one(self.plans[False], turns)
        memory = Memory(heading, heads.take(self.bones, axis=1), back.take(self.bones, axis=0))
        out, root_pos, _, _ = self.solve(goals, 0, False, self.net.layout.free_root, memory)
        shift = frame @ (goals.root_pos - root_pos) / self.length
        natural = self._own(out, unheading)
        return Anchor(memory, np.matmul(natural.transpose(0, 2, 1), turns), shift)

    def ends(self, goals: Goals, memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """Positions (E, 3) [m] and R R_rest^T as quaternions (E, 4) of the effectors that ``memory`` holds, in armature space."""
        cosine, sine = math.cos(memory.heading), math.sin(memory.heading)
        unheading = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        frame = unheading if self.straight else unheading @ self.axes
        turned = np.dot(quick.quaternion_from_matrix(memory.back.transpose(0, 2, 1)), self._frame_product(memory.heading).T)
        if not self.right_plain:
            turned = np.matmul(turned[:, None, :], self.right.transpose(0, 2, 1))[:, 0]
        return goals.root_pos + np.dot(memory.positions.T, frame) * self.length, turned

    def _seat(self, goals: Goals, memory: Memory | None) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        """How the Hips are turned in the root frame, the way from armature axes into it, and its heading [rad] and turn."""
        root = np.dot(np.dot(self.root_before, quick.matrix_of_one(*goals.root_rot.tolist())), self.root_after)
        heading = _heading(root, memory)
        cosine, sine = math.cos(heading), math.sin(heading)
        unheading = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        frame = unheading if self.straight else np.dot(unheading, self.axes)
        return np.dot(unheading, root), frame, heading, unheading

    def _own(self, rot_local: np.ndarray, unheading: np.ndarray) -> np.ndarray:
        """rot_local (J, 4) as the own rotations (J, 3, 3) that refinement works on."""
        core = np.matmul(self.home.transpose(0, 2, 1), rot_local[:, :, None])[:, :, 0]
        turns = rotations.matrix_from_quaternion(core)
        root = rotations.matrix_from_quaternion(rot_local[0])
        turns[0] = unheading @ self.root_before @ root @ self.root_after
        return turns

    def _frame_product(self, heading: float) -> np.ndarray:
        """(4, 4) that takes quaternions (N, 4), as rows, from armature axes into the root frame, from the left."""
        c, s = math.cos(0.5 * heading), math.sin(0.5 * heading)
        unturn = np.array([[c, 0, 0, -s], [0, c, -s, 0], [0, s, c, 0], [s, 0, 0, c]])
        return unturn if self.straight else np.dot(self.axes_product, unturn)

    def _answer(
        self,
        goals: Goals,
        positions: np.ndarray,
        turned: np.ndarray | None,
        hips: np.ndarray,
        ground: float,
        active: np.ndarray | None,
        memory: Memory | None,
    ) -> np.ndarray:
        """The network's outputs; what is not given is guessed from the pose before, or else from the pose a first guess led to."""
        layout = self.net.layout
        asked = None if active is None else active[: self.width // 3]
        if asked is None or layout.mask or asked.all():
            return self.network(self._fill(goals, positions, turned, hips, ground, active))
        assert active is not None
        if memory is not None:
            known = np.where(active[0], positions, memory.positions)
            known_turned = memory.back.transpose(0, 2, 1)
            if turned is not None:
                known_turned = np.where(active[1, :, None, None], turned, known_turned)
            return self.network(self._fill(goals, known, known_turned, hips, ground, None))
        free, loose = ~active[0], ~active[1]
        known = positions.copy()
        known_turned = np.tile(_EYE, (len(free), 1, 1)) if turned is None else turned.copy()
        mean = self.net.mean[: self.width * len(free)].reshape(-1, self.width).astype(np.float64)
        seen = hips if layout.hips_frame else _EYE
        known[:, free] = seen @ mean[free, :3].T
        if self.width == 6:
            known_turned[loose] = np.matmul(seen, quick.matrix_from_axis_angle(mean[loose, 3:]))
        outputs = self.network(self._fill(goals, known, known_turned, hips, ground, None))
        turns = quick.matrix_from_axis_angle(outputs[: 3 * self.rig.count].reshape(-1, 3))
        turns[0] = hips
        back, heads = forward_one(self.plans[False], turns)
        known[:, free], known_turned[loose] = heads[:, self.bones[free]], back[self.bones[loose]].transpose(0, 2, 1)
        return self.network(self._fill(goals, known, known_turned, hips, ground, None))

    def _fill(
        self,
        goals: Goals,
        positions: np.ndarray,
        turned: np.ndarray | None,
        hips: np.ndarray,
        ground: float,
        active: np.ndarray | None,
    ) -> np.ndarray:
        """The inputs of one pose, in the order of context.features; ``turned`` (E, 3, 3), ``active`` (2, E) for layouts with a mask.

        So few numbers are worked out soonest one by one.
        """
        layout = self.net.layout
        seen, seen_turned = positions, turned
        if layout.hips_frame:
            seen = np.dot(hips.T, positions)
            if turned is not None and self.width == 6:
                seen_turned = np.matmul(hips.T, turned)
        places = seen.T.tolist()
        given = [(True, True)] * len(places) if active is None else active.T.tolist()
        leans: list[list[float]] = [[0.0, 0.0, 0.0]] * len(places)
        if seen_turned is not None and self.width == 6:
            leans = [quick.axis_angle_of_one(*q) for q in quick.quaternion_from_matrix(seen_turned).tolist()]
        x: list[float] = []
        for place, lean, (known, known_turn) in zip(places, leans, given, strict=True):
            x += place if known or not layout.mask else _NOTHING
            if self.width == 6:
                x += lean if known_turn or not layout.mask else _NOTHING
        (a, d, g), (b, e, h), (c, f, i) = hips.tolist()
        x += (-d, -e, -f, g, h, i)
        del a, b, c
        for k, foot in enumerate(self.feet):
            z = float(positions[2, foot])
            p, q, r = (0.0, 0.0, 1.0) if turned is None else turned[foot, 2].tolist()
            (u, v, w), (ankle, toe) = self.arm[k], self.foot_rest[k]
            height = min(z - ankle, z + p * u + q * v + r * w - toe) + ground
            grounded = height < self.near if goals.grounded is None else float(goals.grounded[k])
            desired = grounded if goals.desired is None else float(goals.desired[k])
            if not given[foot][0]:
                height, grounded, desired = 0.0, 0.0, 0.0
            x += (height, 0.0, 0.0, 1.0, grounded, desired)
        x += (float(goals.phase), float(goals.task))
        if layout.mask:
            x += [float(one) for pair in given for one in pair]
        return np.array(x + self.lengths, np.float32)

    def _partial(
        self,
        back: np.ndarray,
        heads: np.ndarray,
        shift: np.ndarray,
        positions: np.ndarray,
        turned: np.ndarray | None,
        weights: np.ndarray | None,
        turn_weights: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Targets as far on the way from the natural pose as their weights say."""
        if not any(0 < w < 1 for listed in (weights, turn_weights) if listed is not None for w in listed.tolist()):
            return positions, turned
        now = heads.take(self.bones, axis=1) + shift[:, None]
        aim = positions if weights is None else now + weights * (positions - now)
        if turned is None or turn_weights is None:
            return aim, turned
        ends = back.take(self.bones, axis=0)
        way = rotations.axis_angle_from_matrix(np.matmul(turned, ends))
        step = quick.matrix_from_axis_angle(way * turn_weights[:, None])
        return aim, np.matmul(step, ends.transpose(0, 2, 1))

    def _inside(self, back: np.ndarray) -> np.ndarray:
        """A pose, the transposed ``D`` (J, 3, 3), brought into the joint limits."""
        layout = self.plans[False]
        rot = rotations.axis_angle_from_matrix(own_one(layout, back))
        kept = clamp(self.rig, np.ascontiguousarray(rot.T)[:, :, None])[:, :, 0]
        return forward_one(layout, quick.matrix_from_axis_angle(kept.T))[0]


def _asked(goals: Goals) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Weights of positions and orientations (E), and which count (2, E); None where all do in full."""
    weights, turn_weights = goals.weights, goals.orientation_weights
    if turn_weights is None:
        turn_weights = weights
    if weights is None and turn_weights is None and goals.rotations is not None:
        return None, None, None
    active = np.ones((2, len(goals.positions)), bool)
    if weights is not None:
        active[0] = weights > 0
    if goals.rotations is None:
        active[1] = False
    elif turn_weights is not None:
        active[1] = turn_weights > 0
    return weights, turn_weights, active


def _standardised(net: Network) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers of ``net`` with the inputs' mean and deviation worked into the first one."""
    (first, bias), *others = stack(net).layers
    scaled = first / net.deviation.astype(np.float64)[:, None]
    return [(scaled.astype(np.float32), (bias - net.mean @ scaled).astype(np.float32)), *others]


def _heading(root: np.ndarray, memory: Memory | None) -> float:
    """As context.headings, for one pose: weak directions keep the heading of the pose before."""
    x, y = float(root[0, 0]), float(root[1, 0])
    if math.hypot(x, y) >= HEADING_WEAK:
        return math.atan2(y, x)
    if memory is not None:
        return memory.heading
    return float(rotations.twist_about(rotations.axis_angle_from_matrix(root), np.array([0.0, 0, 1])))
