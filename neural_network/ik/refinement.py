# SPDX-License-Identifier: GPL-3.0-or-later
"""Refinement: a few damped least squares steps that bring the effectors of a pose exactly to their targets.

From a good pose, the smallest change that reaches the targets keeps most of what makes it natural: each step is the
minimum-norm solution of J d = e, with damping that grows with the error (Sugihara, "Solvability-unconcerned inverse kinematics
by the Levenberg-Marquardt method", IEEE T-RO 2011), so that nothing oscillates at full stretch and targets out of reach give
the closest pose. The Jacobian of a tree is so regular that it is never built: J J^T follows from sums over the joints that two
effectors share, and J^T l is the torque that forces l on the effectors exert on the joints, as in statics.

Lengths are leg lengths, angles radians, poses on the last axis, all in the root frame. J bones, E effectors, N poses.
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
DAMPING_SHARE = 0.01  # share of the squared error added to the floor: near a good pose little damping is needed
DAMPING_COLD = 0.5  # the same when starting far away (rest or mean pose): smaller steps, which keep a classical solver's pose calmer
STEP_MOST = 1.2  # [rad] most that a joint turns in one step
DISTANCE_SPARE = 1e-6  # [leg lengths^2] squared distance, about a millimetre, that a step may always leave
BACK_OFF = 10.0  # the damping is multiplied by this after a step that made the pose worse
MOST_DAMPING = 1e6  # times the usual damping
ROOT_SHIFT = 0.5  # [leg lengths / rad] how much a free root moves rather than turns
HALF_TURN = 0.05  # floor of 1 + trace: near half a turn the residual keeps its direction and loses some length
APPROACH_DAMPING = 0.001  # DAMPING_SHARE of the steps in the metric of the poses, see likely_steps
TRUNK_FIRST = 0.05  # weight of a free root against a joint: it follows only as far as the joints do not reach


@dataclass(frozen=True)
class EffectorTargets:
    """Where the effectors should be, components first."""

    positions: np.ndarray
    """(3, E, N) [leg lengths], root frame."""
    orientations: np.ndarray | None = None
    """(3, 3, E, N) rotations from the T-posed rest; None leaves orientations free."""
    position_weight: np.ndarray | None = None
    """(E, N) 0 free, 1 exact, between: that far from the starting pose to the target. None: all 1."""
    orientation_weight: np.ndarray | None = None
    """(E, N) the same for orientations."""
    normals: np.ndarray | None = None
    """(3, E, N) unit vectors; where not zero, only the distance along it counts: a foot on a plane may slide."""


@dataclass(frozen=True)
class Refined:
    """The result of :func:`refine`."""

    rot: np.ndarray
    """(3, J, N) core rotations [rad]."""
    shift: np.ndarray
    """(3, N) the root's head [leg lengths]; as given unless the root is free."""
    heads: np.ndarray
    """(3, J, N) [leg lengths], root frame, shift included."""
    orientations: np.ndarray
    """(3, 3, J, N) rotation of each bone from the T-posed rest, root frame."""
    distance: np.ndarray
    """(E, N) distance of each effector from its target [leg lengths], weights ignored."""


def refine(
    skeleton: Skeleton,
    rot: np.ndarray,
    targets: EffectorTargets,
    steps: int,
    *,
    shift: np.ndarray | None = None,
    offsets: np.ndarray | None = None,
    limits: bool = False,
    free_root: bool = False,
    damping_share: float = DAMPING_SHARE,
) -> Refined:
    """At most ``steps`` damped least squares steps from core rotations ``rot`` (3, J, N) [rad] towards ``targets``.

    The Hips stay as given unless ``free_root``; ``shift`` (3, N) [leg lengths] is where their head begins, zero if None. With
    ``limits`` each step ends inside the joint limits. The error of a pose never grows, except by what the limits cost at the
    start, and no result is NaN unless an argument is. ``offsets`` (J, 3) or (3, J, N) [leg lengths] replace the skeleton's own.
    """
    own = skeleton.offsets / skeleton.leg_length if offsets is None else offsets
    bones = np.array(skeleton.effectors)
    turns = rotations.matrix_components(rot)
    shift = np.zeros_like(rot[:, 0]) if shift is None else shift
    if limits:
        turns = rotations.matrix_components(clamp(skeleton, rot))
    orientations, heads = fk.forward_matrices(skeleton, turns, own)
    aims = weighted_targets(targets, heads[:, bones] + shift[:, None], orientations[:, :, bones])
    groups = _groups(skeleton, free_root)
    damping = np.ones(rot.shape[-1], rot.dtype)
    residual = residual_of(aims, heads[:, bones] + shift[:, None], orientations[:, :, bones])
    best = (turns, shift, orientations, heads, residual, cost_of(residual))
    allowed = np.maximum(cost_of(residual[:, :3]), DISTANCE_SPARE)  # no better orientation may be bought with distance
    for _ in range(steps):
        turns, shift, orientations, heads, residual, cost = best
        scale = damping * (DAMPING_FLOOR + damping_share * cost)
        force, torque = _multipliers(aims, groups, heads, bones, residual, scale, free_root)
        delta = fk.joint_torques(skeleton, orientations, heads, bones, force, torque)
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
        new_orientations, new_heads = fk.forward_matrices(skeleton, new_turns, own)
        new_residual = residual_of(aims, new_heads[:, bones] + moved[:, None], new_orientations[:, :, bones])
        new_cost = cost_of(new_residual)
        better = (new_cost < cost) & (cost_of(new_residual[:, :3]) <= allowed)
        damping = np.where(better, np.maximum(damping / BACK_OFF, 1), np.minimum(damping * BACK_OFF, MOST_DAMPING))
        new = (new_turns, moved, new_orientations, new_heads, new_residual, new_cost)
        best = new if np.all(better) else _choose(better, new, best)
    turns, shift, orientations, heads, _, _ = best
    out = rotations.axis_angle_components(turns)
    reached = heads + shift[:, None]
    distance = np.sqrt(np.sum((reached[:, bones] - targets.positions) ** 2, axis=0))
    return Refined(out, shift, reached, orientations, distance)


def clamp(skeleton: Skeleton, rot: np.ndarray) -> np.ndarray:
    """Core rotations (3, J, N) [rad] brought inside the joint limits: twist clipped to its range, swing to its elliptic cone.

    A skeleton without limits, and bones with NaN limits, are returned unchanged. The limits are those of
    :func:`.losses.limit_excess`.
    """
    if skeleton.limits is None:
        return rot
    bones = np.flatnonzero(np.isfinite(skeleton.limits).all(axis=1))
    limits = skeleton.limits[bones]
    basis = skeleton.limit_axes[bones].astype(rot.dtype)
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
    clipped = np.clip(twist, limits[:, 2:3].astype(rot.dtype), limits[:, 3:4].astype(rot.dtype))
    cosine, sine = w / upright, y / upright
    swing_x, swing_z = x * cosine + z * sine, z * cosine - x * sine
    lean = np.sqrt(swing_x * swing_x + swing_z * swing_z) + 1e-20
    half_swing = np.arctan2(lean, upright) - 0.5 * over_swing
    swing_x, swing_z = swing_x / lean * np.sin(half_swing), swing_z / lean * np.sin(half_swing)
    c, s, a = np.cos(0.5 * clipped), np.sin(0.5 * clipped), np.cos(half_swing)
    # swing (a, sx, 0, sz) times twist (c, 0, s, 0)
    w, x, y, z = a * c, swing_x * c - swing_z * s, a * s, swing_z * c + swing_x * s
    length = np.sqrt(x * x + y * y + z * z) + 1e-20
    inside = np.stack([x, y, z]) * (2 * np.arctan2(length, w) / length)
    outside = (over_swing > 0) | (over_twist > 0)
    out = rot.copy()
    out[:, bones] = np.where(outside, np.einsum("jab,bjn->ajn", basis, inside), rot[:, bones])
    return out


@dataclass(frozen=True)
class Aims:
    """What a solve aims at, with partial weights worked in."""

    positions: np.ndarray
    """(3, E, N)"""
    orientations: np.ndarray | None
    """(3, 3, E, N)"""
    active: np.ndarray
    """(E, 2, N) 0/1: position, orientation."""
    all_active: bool
    normals: np.ndarray | None
    """(3, E, N)"""


def weighted_targets(targets: EffectorTargets, positions: np.ndarray, orientations: np.ndarray) -> Aims:
    """``targets`` moved towards the starting ``positions`` (3, E, N) and ``orientations`` (3, 3, E, N) by their weights."""
    count = positions.shape[-1]
    active = np.ones((positions.shape[1], 2, count), positions.dtype)
    goal, goal_orientations = targets.positions, targets.orientations
    if targets.position_weight is not None:
        weight = targets.position_weight.astype(positions.dtype)
        active[:, 0] = weight > 0
        goal = positions + weight * (goal - positions)
    if goal_orientations is None:
        active[:, 1] = 0
    elif targets.orientation_weight is not None:
        weight = targets.orientation_weight.astype(positions.dtype)
        active[:, 1] = weight > 0
        way = rotations.axis_angle_components(fk.compose_components(goal_orientations, orientations.swapaxes(0, 1)))
        goal_orientations = fk.compose_components(rotations.matrix_components(way * weight), orientations)
    normals = targets.normals
    if normals is not None and not np.any(normals):
        normals = None
    return Aims(goal, goal_orientations, active, bool(np.all(active)), normals)


def residual_of(aims: Aims, positions: np.ndarray, orientations: np.ndarray) -> np.ndarray:
    """(E, 6, N) or (E, 3, N): what is missing in position and orientation; zero where an effector is free."""
    missing = aims.positions - positions
    if aims.normals is not None:
        along = np.sum(missing * aims.normals, axis=0) * aims.normals
        missing = np.where(np.any(aims.normals, axis=0), along, missing)
    if aims.orientations is None:
        return missing.swapaxes(0, 1) * aims.active[:, :1]
    # the axis times 2 sin(t/2), from R = aim D^T: zero only where R is the identity, and it never wraps
    way = fk.compose_components(aims.orientations, orientations.swapaxes(0, 1))
    scale = 1 / np.sqrt(np.maximum(1 + way[0, 0] + way[1, 1] + way[2, 2], HALF_TURN))
    out = np.empty((missing.shape[1], 6, missing.shape[-1]), missing.dtype)
    out[:, :3] = missing.swapaxes(0, 1)
    np.multiply(way[2, 1] - way[1, 2], scale, out=out[:, 3])
    np.multiply(way[0, 2] - way[2, 0], scale, out=out[:, 4])
    np.multiply(way[1, 0] - way[0, 1], scale, out=out[:, 5])
    if not aims.all_active:
        out = out * np.repeat(aims.active, 3, axis=1)
    return out


def cost_of(residual: np.ndarray) -> np.ndarray:
    """(N) sum of squares of each pose's residual."""
    return np.einsum("ecn,ecn->n", residual, residual)


def _choose(better: np.ndarray, new: _Poses, old: _Poses) -> _Poses:
    """The new pose where ``better`` (N), the old one elsewhere."""
    a, b, c, d, e, f = (np.where(better, one, other) for one, other in zip(new, old, strict=True))
    return a, b, c, d, e, f


_Poses = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Rotations relative to the parent, root's shift, orientations, heads, residual and cost of a batch."""


@dataclass(frozen=True)
class _Group:
    """Effectors coupled through joints they share, which need one linear system."""

    members: np.ndarray  # indices of effectors
    shared: np.ndarray  # (pairs, J) 0/1: joints that move both effectors of a pair; a free root counts TRUNK_FIRST
    pairs: tuple[tuple[int, int], ...]  # within the group, a <= b


def _groups(skeleton: Skeleton, free_root: bool) -> list[_Group]:
    """The groups of effectors that can be solved independently; a free root couples all of them."""
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
    aims: Aims,
    groups: list[_Group],
    heads: np.ndarray,
    bones: np.ndarray,
    residual: np.ndarray,
    scale: np.ndarray,
    free_root: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve (J J^T + scale) l = residual for l, as forces and torques (3, E, N) on the effectors."""
    effectors, width, count = residual.shape
    force = np.zeros((3, effectors, count), residual.dtype)
    torque = np.zeros_like(force)
    products = heads[[0, 0, 0, 1, 1, 2]] * heads[[0, 1, 2, 1, 2, 2]]
    moments = np.concatenate([heads, products])  # (9, J, N): p and the six different entries of p p^T
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
            if not aims.all_active:
                rows = np.repeat(aims.active[group.members[i]], 3, axis=0)[:width]
                columns = np.repeat(aims.active[group.members[k]], 3, axis=0)[:width]
                block *= rows[:, None] * columns
            if aims.normals is not None:
                block = _project(block, aims.normals[:, group.members[i]], aims.normals[:, group.members[k]])
            system[width * i : width * (i + 1), width * k : width * (k + 1)] = block
            if i != k:
                system[width * k : width * (k + 1), width * i : width * (i + 1)] = block.swapaxes(0, 1)
        found = _solve(system, residual[group.members].reshape(size, count), scale)
        found = found.reshape(len(group.members), width, count)
        force[:, group.members] = found[:, :3].swapaxes(0, 1)
        if width == 6:
            torque[:, group.members] = found[:, 3:].swapaxes(0, 1)
    if aims.normals is not None:  # what the solve leaves across a normal is rounding error
        along = np.sum(force * aims.normals, axis=0) * aims.normals
        force = np.where(np.any(aims.normals, axis=0), along, force)
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

    Overwrites ``system``. All N at once, one column after the other: faster than LAPACK for these sizes, and the same in every
    build of NumPy. Pivots below 1e-12 are raised to it, so that a singular system gives finite numbers.
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
