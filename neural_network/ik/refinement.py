# SPDX-License-Identifier: GPL-3.0-or-later
"""Refinement: a few damped least squares steps that carry a pose exactly onto its targets.

From a good pose the shortest way to the targets changes least of what makes it natural: each step is the minimum-norm
solution of J d = e, damped by the error itself (Sugihara, "Solvability-unconcerned inverse kinematics by the
Levenberg-Marquardt method", IEEE T-RO 2011), so that nothing oscillates at full stretch and unreachable targets end in
the closest pose. The Jacobian of a tree is so regular that it is never built: J J^T follows from sums over the joints
that two effectors share, and J^T l is what the joints feel of forces l, as in statics.

Lengths are leg lengths, angles radians, poses on the last axis, all in the root frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton
from ..core.tree import chain
from .losses import limit_excess

DAMPING_FLOOR = 1e-5  # [leg lengths^2] keeps the system solvable in float32 when a limb is straight
DAMPING_SHARE = 0.01  # of the squared error, added to the floor: near a good pose little is enough
DAMPING_COLD = 0.5  # the same from afar (rest, mean pose): keeps a classical solver's pose calmer
STEP_MOST = 1.2  # [rad] no joint turns further in one step
DISTANCE_SPARE = 1e-6  # [leg lengths^2] but for about a millimetre, on the way
BACK_OFF = 10.0  # damping is multiplied by this after a step that made it worse
ROOT_SHIFT = 0.5  # [leg lengths / rad] how readily a free root moves rather than turns
HALF_TURN = 0.05  # floor of 1 + trace: near half a turn the residual keeps its direction and loses some length
TRUNK_FIRST = 0.05  # the root follows only what the joints leave over


@dataclass(frozen=True)
class Wish:
    """Where the effectors should be. Made once for a solve; components first."""

    positions: np.ndarray
    """(3, E, N) [leg lengths], root frame."""
    turned: np.ndarray | None = None
    """(3, 3, E, N) rotations from the T-posed rest; None asks for positions alone."""
    position_weight: np.ndarray | None = None
    """(E, N) 0 free, 1 exact, between: that far from the starting pose to the target. All 1 where absent."""
    orientation_weight: np.ndarray | None = None
    """(E, N) the same for orientations."""
    normals: np.ndarray | None = None
    """(3, E, N) where not zero, only the distance along this unit vector counts: a foot on a plane may slide."""


@dataclass(frozen=True)
class Refined:
    """What :func:`refine` came to."""

    rot: np.ndarray
    """(3, J, N) core rotations [rad]."""
    shift: np.ndarray
    """(3, N) the root's head [leg lengths]; zeros unless it is free."""
    heads: np.ndarray
    """(3, J, N) [leg lengths], root frame, shift included."""
    turned: np.ndarray
    """(3, 3, J, N)"""
    distance: np.ndarray
    """(E, N) distance of each effector from its target [leg lengths], weights ignored."""


def refine(
    skeleton: Skeleton,
    rot: np.ndarray,
    wish: Wish,
    steps: int,
    *,
    shift: np.ndarray | None = None,
    offsets: np.ndarray | None = None,
    limits: bool = False,
    free_root: bool = False,
    damping_share: float = DAMPING_SHARE,
) -> Refined:
    """At most ``steps`` damped least squares steps from core rotations ``rot`` (3, J, N) towards ``wish``.

    The Hips stay as given unless ``free_root``. With ``limits`` each step ends inside the joint limits. No pose comes out
    with a larger error than it went in with (but for what the limits cost), and none with NaN if none went in.
    ``offsets`` (J, 3) or (3, J, N) [leg lengths] stand in for the skeleton's own.
    """
    own = skeleton.offsets / skeleton.leg_length if offsets is None else offsets
    bones = np.array(skeleton.effectors)
    turns = rotations.matrix_components(rot)
    shift = np.zeros_like(rot[:, 0]) if shift is None else shift
    if limits:
        turns = rotations.matrix_components(clamp(skeleton, rot))
    turned, heads = fk.forward_matrices(skeleton, turns, own)
    aim = _aim(wish, heads[:, bones] + shift[:, None], turned[:, :, bones])
    groups = _groups(skeleton, free_root)
    damping = np.ones(rot.shape[-1], rot.dtype)
    residual = _residual(aim, heads[:, bones] + shift[:, None], turned[:, :, bones])
    best = (turns, shift, turned, heads, residual, _cost(residual))
    allowed = np.maximum(_cost(residual[:, :3]), DISTANCE_SPARE)  # orientations may not be bought with distance
    for _ in range(steps):
        turns, shift, turned, heads, residual, cost = best
        scale = damping * (DAMPING_FLOOR + damping_share * cost)
        force, torque = _multipliers(aim, groups, heads, bones, residual, scale, free_root)
        delta = fk.joint_torques(skeleton, turned, heads, bones, force, torque)
        moved = shift
        if free_root:
            delta[:, 0] *= TRUNK_FIRST
            moved = shift + np.sum(force, axis=1) * (TRUNK_FIRST * ROOT_SHIFT**2)
        else:
            delta[:, 0] = 0
        largest = np.sqrt(np.max(np.sum(delta * delta, axis=0), axis=0))
        delta *= np.minimum(1, STEP_MOST / np.maximum(largest, 1e-12))
        new_turns = fk.compose_components(rotations.cayley_components(delta), turns)
        if limits:
            new_turns = rotations.matrix_components(clamp(skeleton, rotations.axis_angle_components(new_turns)))
        new_turned, new_heads = fk.forward_matrices(skeleton, new_turns, own)
        new_residual = _residual(aim, new_heads[:, bones] + moved[:, None], new_turned[:, :, bones])
        new_cost = _cost(new_residual)
        better = (new_cost < cost) & (_cost(new_residual[:, :3]) <= allowed)
        damping = np.where(better, np.maximum(damping / BACK_OFF, 1), np.minimum(damping * BACK_OFF, 1e6))
        fresh = (new_turns, moved, new_turned, new_heads, new_residual, new_cost)
        best = fresh if np.all(better) else _choose(better, fresh, best)
    turns, shift, turned, heads, _, _ = best
    out = rotations.axis_angle_components(turns)
    reached = heads + shift[:, None]
    distance = np.sqrt(np.sum((reached[:, bones] - wish.positions) ** 2, axis=0))
    return Refined(out, shift, reached, turned, distance)


def clamp(skeleton: Skeleton, rot: np.ndarray) -> np.ndarray:
    """Core rotations (3, J, N) brought inside the joint limits: twist cut to its range, swing to its elliptic cone.

    A skeleton without limits, and bones with NaN limits, stay as they are.
    """
    if skeleton.limits is None:
        return rot
    bones = np.flatnonzero(np.isfinite(skeleton.limits).all(axis=1))
    limits = skeleton.limits[bones]
    basis = skeleton.basis[bones].astype(rot.dtype)
    local = np.einsum("jba,bjn->ajn", basis, rot[:, bones])
    over_swing, over_twist, _, _ = limit_excess(local, limits)
    if not np.any(over_swing) and not np.any(over_twist):
        return rot
    half = 0.5 * np.sqrt(np.sum(local * local, axis=0) + 1e-30)
    w, vector = np.cos(half), local * (0.5 * np.sin(half) / half)
    sign = np.where(w < 0, -1, 1).astype(rot.dtype)
    w, (x, y, z) = w * sign, vector * sign
    upright = np.sqrt(np.maximum(w * w + y * y, 1e-20))
    twist = 2 * np.arctan2(y, w)
    cut = np.clip(twist, limits[:, 2:3].astype(rot.dtype), limits[:, 3:4].astype(rot.dtype))
    cosine, sine = w / upright, y / upright
    swing_x, swing_z = x * cosine + z * sine, z * cosine - x * sine
    lean = np.sqrt(swing_x * swing_x + swing_z * swing_z) + 1e-20
    half_swing = np.arctan2(lean, upright) - 0.5 * over_swing
    swing_x, swing_z = swing_x / lean * np.sin(half_swing), swing_z / lean * np.sin(half_swing)
    c, s, a = np.cos(0.5 * cut), np.sin(0.5 * cut), np.cos(half_swing)
    # swing (a, sx, 0, sz) times twist (c, 0, s, 0)
    w, x, y, z = a * c, swing_x * c - swing_z * s, a * s, swing_z * c + swing_x * s
    length = np.sqrt(x * x + y * y + z * z) + 1e-20
    turned = np.stack([x, y, z]) * (2 * np.arctan2(length, w) / length)
    outside = (over_swing > 0) | (over_twist > 0)
    out = rot.copy()
    out[:, bones] = np.where(outside, np.einsum("jab,bjn->ajn", basis, turned), rot[:, bones])
    return out


@dataclass(frozen=True)
class _Aim:
    positions: np.ndarray
    turned: np.ndarray | None
    active: np.ndarray  # (E, 2, N) 0/1: position, orientation
    everything: bool
    normals: np.ndarray | None


def _aim(wish: Wish, positions: np.ndarray, turned: np.ndarray) -> _Aim:
    """The wish with its partial weights turned into targets on the way from where the pose starts."""
    count = positions.shape[-1]
    active = np.ones((positions.shape[1], 2, count), positions.dtype)
    goal, goal_turned = wish.positions, wish.turned
    if wish.position_weight is not None:
        weight = wish.position_weight.astype(positions.dtype)
        active[:, 0] = weight > 0
        goal = positions + weight * (goal - positions)
    if goal_turned is None:
        active[:, 1] = 0
    elif wish.orientation_weight is not None:
        weight = wish.orientation_weight.astype(positions.dtype)
        active[:, 1] = weight > 0
        way = rotations.axis_angle_components(fk.compose_components(goal_turned, turned.swapaxes(0, 1)))
        goal_turned = fk.compose_components(rotations.matrix_components(way * weight), turned)
    normals = wish.normals
    if normals is not None and not np.any(normals):
        normals = None
    return _Aim(goal, goal_turned, active, bool(np.all(active)), normals)


def _residual(aim: _Aim, positions: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """(E, 6, N) or (E, 3, N): what is missing, in position and in orientation, zero where nothing is asked."""
    apart = aim.positions - positions
    if aim.normals is not None:
        along = np.sum(apart * aim.normals, axis=0) * aim.normals
        apart = np.where(np.any(aim.normals, axis=0), along, apart)
    if aim.turned is None:
        return apart.swapaxes(0, 1) * aim.active[:, :1]
    # the axis times 2 sin(t/2), from R = aim D^T: zero only where R is the identity, and it never wraps
    way = fk.compose_components(aim.turned, turned.swapaxes(0, 1))
    scale = 1 / np.sqrt(np.maximum(1 + way[0, 0] + way[1, 1] + way[2, 2], HALF_TURN))
    out = np.empty((apart.shape[1], 6, apart.shape[-1]), apart.dtype)
    out[:, :3] = apart.swapaxes(0, 1)
    np.multiply(way[2, 1] - way[1, 2], scale, out=out[:, 3])
    np.multiply(way[0, 2] - way[2, 0], scale, out=out[:, 4])
    np.multiply(way[1, 0] - way[0, 1], scale, out=out[:, 5])
    if not aim.everything:
        out = out * np.repeat(aim.active, 3, axis=1)
    return out


def _cost(residual: np.ndarray) -> np.ndarray:
    return np.einsum("ecn,ecn->n", residual, residual)


def _choose(better: np.ndarray, fresh: _Pose, kept: _Pose) -> _Pose:
    """The fresh pose where it is better, the kept one elsewhere."""
    a, b, c, d, e, f = (np.where(better, new, old) for new, old in zip(fresh, kept, strict=True))
    return a, b, c, d, e, f


_Pose = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Own rotations, root's shift, D, heads, residual and cost of a batch."""


@dataclass(frozen=True)
class _Group:
    """Effectors coupled through joints they share: one linear system."""

    members: np.ndarray  # indices of effectors
    shared: np.ndarray  # (pairs, J) 0/1: joints that both move
    pairs: tuple[tuple[int, int], ...]  # within the group, a <= b


def _groups(skeleton: Skeleton, free_root: bool) -> list[_Group]:
    moving = np.ones(skeleton.count)
    moving[0] = 0.0
    above = np.zeros((len(skeleton.effectors), skeleton.count))
    for row, effector in enumerate(skeleton.effectors):
        above[row, chain(skeleton.parents, effector)] = 1
    touch = (above * moving) @ (above * moving).T > 0
    if free_root:
        moving[0] = TRUNK_FIRST
        touch[:] = True
    left = set(range(len(above)))
    out = []
    while left:
        members = {min(left)}
        while True:
            grown = {b for a in members for b in np.flatnonzero(touch[a]).tolist()} | members
            if grown == members:
                break
            members = grown
        left -= members
        found = np.array(sorted(members))
        pairs = tuple((i, k) for i in range(len(found)) for k in range(i, len(found)))
        shared = np.array([above[found[i]] * above[found[k]] * moving for i, k in pairs])
        out.append(_Group(found, shared, pairs))
    return out


def _multipliers(
    aim: _Aim,
    groups: list[_Group],
    heads: np.ndarray,
    bones: np.ndarray,
    residual: np.ndarray,
    scale: np.ndarray,
    free_root: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve (J J^T + scale) l = residual; l as forces and torques (3, E, N) on the effectors."""
    effectors, width, count = residual.shape
    force = np.zeros((3, effectors, count), residual.dtype)
    torque = np.zeros_like(force)
    xs = heads
    moments = np.concatenate([xs, xs[[0, 0, 0, 1, 1, 2]] * xs[[0, 1, 2, 1, 2, 2]]])  # (9, J, N): p and p p^T
    for group in groups:
        size = width * len(group.members)
        system = np.zeros((size, size, count), residual.dtype)
        shared = group.shared.astype(residual.dtype)
        number = shared.sum(axis=1)
        sums = np.matmul(shared, moments)  # (9, pairs, N)
        for index, (i, k) in enumerate(group.pairs):
            a, b = heads[:, bones[group.members[i]]], heads[:, bones[group.members[k]]]
            block = _block(a, b, number[index], sums[:, index], width)
            if free_root:
                for c in range(3):
                    block[c, c] += TRUNK_FIRST * ROOT_SHIFT**2
            if not aim.everything:
                rows = np.repeat(aim.active[group.members[i]], 3, axis=0)[:width]
                columns = np.repeat(aim.active[group.members[k]], 3, axis=0)[:width]
                block *= rows[:, None] * columns
            if aim.normals is not None:
                block = _project(block, aim.normals[:, group.members[i]], aim.normals[:, group.members[k]])
            system[width * i : width * (i + 1), width * k : width * (k + 1)] = block
            if i != k:
                system[width * k : width * (k + 1), width * i : width * (i + 1)] = block.swapaxes(0, 1)
        found = _solve(system, residual[group.members].reshape(size, count), scale)
        found = found.reshape(len(group.members), width, count)
        force[:, group.members] = found[:, :3].swapaxes(0, 1)
        if width == 6:
            torque[:, group.members] = found[:, 3:].swapaxes(0, 1)
    if aim.normals is not None:  # across a normal nothing is asked, and what the solve leaves there is rounding
        along = np.sum(force * aim.normals, axis=0) * aim.normals
        force = np.where(np.any(aim.normals, axis=0), along, force)
    return force, torque


def _block(a: np.ndarray, b: np.ndarray, number: float, sums: np.ndarray, width: int) -> np.ndarray:
    """J_a J_b^T (width, width, N) of effectors at ``a`` and ``b`` (3, N) over joints with the given sums of p and p p^T.

    With r = effector - joint, the sum over joints of (r_a . r_b) I - r_b r_a^T; with orientations also -[sum r_a], [sum r_b]
    and the number of joints.
    """
    first, second = sums[:3], sums[[3, 4, 5, 4, 6, 7, 5, 7, 8]].reshape(3, 3, -1)
    outer = number * b[:, None] * a - b[:, None] * first - first[:, None] * a + second
    out = np.zeros((width, width, a.shape[-1]), a.dtype)
    np.negative(outer, out=out[:3, :3])
    trace = outer[0, 0] + outer[1, 1] + outer[2, 2]
    for c in range(3):
        out[c, c] += trace
    if width == 6:
        for block, (x, y, z) in ((out[:3, 3:], number * a - first), (out[3:, :3], first - number * b)):
            block[0, 1], block[1, 0] = z, -z
            block[0, 2], block[2, 0] = -y, y
            block[1, 2], block[2, 1] = x, -x
        for c in range(3, 6):
            out[c, c] = number
    return out


def _project(block: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Keep only the component along the normals (3, N) of a block's position rows and columns, where there is a normal."""
    for axis, normal in ((0, rows), (1, columns)):
        plane = np.any(normal, axis=0)
        if np.any(plane):
            part = np.moveaxis(block, axis, 0)[:3]
            along = normal[:, None] * np.sum(part * normal[:, None], axis=0)
            kept = np.where(plane, along, part)
            block = block.copy()
            np.moveaxis(block, axis, 0)[:3] = kept
    return block


def _solve(system: np.ndarray, right: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Solve N symmetric positive systems (n, n, N) + scale (N) on the diagonal for ``right`` (n, N), by Cholesky.

    All N at once, one column after the other: faster than LAPACK for these sizes, and the same in every build of NumPy.
    """
    size = len(system)
    lower = system
    x = right.copy()
    for k in range(size):
        pivot = 1 / np.sqrt(np.maximum(lower[k, k] + scale, 1e-12))
        column = lower[k + 1 :, k] * pivot
        lower[k, k] = pivot
        lower[k + 1 :, k] = column
        x[k] *= pivot
        if k + 1 < size:
            x[k + 1 :] -= column * x[k]
            for row in range(k + 1, size):  # the lower triangle only
                lower[row, k + 1 : row + 1] -= column[row - k - 1] * column[: row - k]
    for k in range(size - 1, -1, -1):
        if k + 1 < size:
            x[k] -= np.einsum("rn,rn->n", lower[k + 1 :, k], x[k + 1 :])
        x[k] *= lower[k, k]
    return x
