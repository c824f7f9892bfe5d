# SPDX-License-Identifier: GPL-3.0-or-later
"""Damped least squares for one pose: the steps of :mod:`.refinement` in few NumPy calls, in float64.

Here the Jacobian is built, because for one pose it is small: its rows are picked from one array of lever arms. What a step
turns is one rotation per joint, multiplied down the tree like the pose itself.

Lengths are leg lengths, angles radians, in the root frame; E effectors, J bones, R rows of the residual that count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..core import quick_rotations as quick
from .refinement import (
    APPROACH_DAMPING,
    BACK_OFF,
    DAMPING_FLOOR,
    DAMPING_SHARE,
    DISTANCE_SPARE,
    HALF_TURN,
    MOST_DAMPING,
    ROOT_SHIFT,
    STEP_MOST,
    TRUNK_FIRST,
)
from .single_kinematics import IDENTITY, KinematicPlan, heads_one

_INVERSE_OF_PRODUCTS = np.append(
    quick.MATRIX.reshape(16, 3, 3).transpose(2, 1, 0).reshape(9, 16), np.eye(4).reshape(1, 16), axis=0
)
"""(10, 16) the products q_a q_b to the nine entries of the transposed matrix, unscaled, and the squared length of q."""
_TRACE_AND_AXIS = np.ascontiguousarray(quick.AXIS.reshape(3, 3, 4).transpose(2, 1, 0)).reshape(12, 3)

Residual = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def refine_one(
    plan: KinematicPlan,
    inverse: np.ndarray,
    targets: np.ndarray,
    target_rotations: np.ndarray | None,
    steps: int,
    active: np.ndarray | None = None,
    shift: np.ndarray | None = None,
    free_root: bool = False,
    normals: np.ndarray | None = None,
    clamp_pose: Callable[[np.ndarray], np.ndarray] | None = None,
    tolerance: float = 0.0,
    likely: LikelyOne | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At most ``steps`` damped least squares steps from the pose ``inverse`` (J, 3, 3) towards its targets.

    ``targets`` (3, E) [leg lengths] and ``target_rotations`` (E, 3, 3) are those of the effectors; ``active`` (2, E) bool says
    which positions and orientations count; along ``normals`` (3, E), where not zero, and only along them, distance counts.
    ``shift`` (3) is where the root's head begins. ``clamp_pose`` brings a pose into the joint limits after each step.
    ``tolerance`` is the squared error [leg lengths, rad] that needs no further step. With ``likely`` the first steps are those of
    :mod:`.likely_steps`. Returns the pose, its heads (3, J) without the root's shift, and that shift (3). The result is never
    worse than the start.
    """
    effectors = len(plan.effectors)
    parts = 3 if target_rotations is None else 6
    count = parts * effectors
    mask = None if active is None else active.tobytes()
    rows, near = (None, 3 * effectors) if mask is None else _active_rows(mask, effectors, parts)
    if rows is not None and not len(rows):
        steps = 0
    shift = np.zeros(3) if shift is None else shift
    moves = free_root or any(shift.tolist())
    residual_of = _residual_function(plan, targets, target_rotations, rows, normals, moves)
    jacobian, arms = plan.jacobian[:count], plan.signed[effectors:].reshape(2, 3, effectors, -1)
    places, signed, pick = plan.jacobian[: 3 * effectors].reshape(9 * effectors, -1), plan.signed, plan.pick
    delta = plan.step[1:]

    heads, moved = heads_one(plan, inverse), shift
    residual, ends = residual_of(inverse, heads, shift)
    cost = float(np.vdot(residual, residual))
    allowed = max(squared_norm(residual[:near]), DISTANCE_SPARE)  # no better orientation may be bought with distance
    damping = 1.0
    if free_root and steps:
        root_rows, root_term = _root_jacobian(mask, rows, effectors, parts, normals)
    approach = 0 if likely is None else min(likely.steps, steps)
    for number in range(steps):
        if cost < tolerance:
            break
        np.multiply(ends[:, :, None] - heads[:, None], plan.signs, out=arms)
        signed.take(pick, axis=0, out=places, mode="clip")
        if normals is not None:
            project_on_normals(plan.jacobian[: 3 * effectors].reshape(3, effectors, -1), normals)
        used = jacobian if rows is None else jacobian.take(rows, axis=0)
        if number < approach:
            assert likely is not None
            step = likely.step(used, inverse, residual, cost)
            delta[:, 0] = 0
            delta[:, 1:] = np.matmul(step[:, None], inverse[1:])[:, 0].T
        else:
            system = np.dot(used, used.T)
            if free_root:
                system += root_term
            diagonal = system.reshape(-1)[:: len(system) + 1]
            diagonal += damping * (DAMPING_FLOOR + DAMPING_SHARE * cost)
            multipliers = np.linalg.solve(system, residual)
            np.dot(multipliers, used, out=delta.reshape(-1))
            if free_root:
                delta[:, 0] *= TRUNK_FIRST**0.5
                moved = shift + np.dot(multipliers, root_rows) * (TRUNK_FIRST * ROOT_SHIFT**2)
            if np.vdot(delta, delta) > STEP_MOST**2:
                delta *= min(1.0, STEP_MOST / float(np.einsum("cj,cj->j", delta, delta).max()) ** 0.5)
        new_inverse = _apply_step(plan, inverse)
        if clamp_pose is not None:
            new_inverse = clamp_pose(new_inverse)
        new_heads = heads_one(plan, new_inverse)
        new_residual, new_ends = residual_of(new_inverse, new_heads, moved)
        new_cost = float(np.vdot(new_residual, new_residual))
        if number < approach:
            better = new_cost < cost
            if better:
                likely.off += step.reshape(-1)  # type: ignore[union-attr]
            if number == approach - 1:
                allowed = max(squared_norm((new_residual if better else residual)[:near]), DISTANCE_SPARE)
        else:
            better = new_cost < cost and squared_norm(new_residual[:near]) <= allowed
        if better:
            inverse, heads, shift, residual, ends, cost = (
                new_inverse,
                new_heads,
                moved,
                new_residual,
                new_ends,
                new_cost,
            )
            damping = max(damping / BACK_OFF, 1.0)
        elif number >= approach:
            damping = min(damping * BACK_OFF, MOST_DAMPING)
    return inverse, heads, shift


@dataclass
class LikelyOne:
    """What one pose's steps towards the likely one need, as :mod:`.likely_steps` takes them for many; ``off`` changes with them."""

    off: np.ndarray
    """(D) how far the pose is from the likely one."""
    metric: np.ndarray
    """(D, D) covariance of the pose."""
    steps: int
    more: int
    """How many of the steps are taken beyond those asked for."""
    most: float
    """[rad] most that a joint turns in one step."""
    scale: float
    """[rad^2] mean variance, by which the damping is multiplied."""

    def step(self, slopes: np.ndarray, inverse: np.ndarray, residual: np.ndarray, cost: float) -> np.ndarray:
        """(J - 1, 3) the next turns of the bones about their own core axes [rad].

        ``slopes`` (R, 3 J) are those with respect to turns in the root frame.
        """
        count = len(residual)
        local = np.matmul(slopes.reshape(count, 3, -1).transpose(2, 0, 1)[1:], inverse[1:].transpose(0, 2, 1))
        own = local.transpose(1, 0, 2).reshape(count, -1)
        spread = np.dot(own, self.metric)
        system = np.dot(spread, own.T)
        diagonal = system.reshape(-1)[:: count + 1]
        diagonal += self.scale * (DAMPING_FLOOR + APPROACH_DAMPING * cost)
        out = np.dot(np.linalg.solve(system, residual + np.dot(own, self.off)), spread) - self.off
        turns = out.reshape(-1, 3)
        if np.vdot(turns, turns) > self.most**2:
            turns *= min(1.0, self.most / float(np.einsum("jc,jc->j", turns, turns).max()) ** 0.5)
        return np.asarray(turns)


def squared_norm(vectors: np.ndarray) -> float:
    """Sum of the squares of all numbers."""
    return float(np.vdot(vectors, vectors))


def project_on_normals(vectors: np.ndarray, normals: np.ndarray) -> None:
    """Keep of ``vectors`` (3, E, ...), in place, only the component along ``normals`` (3, E), where those are not zero."""
    for e in np.flatnonzero(np.any(normals, axis=0)):
        n = normals[:, e]
        vectors[:, e] = np.outer(n, n) @ vectors[:, e]


def _residual_function(
    plan: KinematicPlan,
    targets: np.ndarray,
    target_rotations: np.ndarray | None,
    rows: np.ndarray | None,
    normals: np.ndarray | None,
    moves: bool,
) -> Residual:
    """The residual (R) of a pose, positions first, and its effectors' heads (3, E) without the root's shift.

    ``moves`` says that the root's shift may differ from zero.
    """
    bones, effectors = plan.effectors, len(plan.effectors)
    parts = 3 if target_rotations is None else 6
    error_matrix = None if target_rotations is None else _orientation_error_matrix(target_rotations)

    def residual(inverse: np.ndarray, heads: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ends = heads.take(bones, axis=1)
        out = np.empty((parts, effectors))
        np.subtract(targets, ends, out=out[:3])
        if moves:
            out[:3] -= shift[:, None]
        if normals is not None:
            project_on_normals(out[:3], normals)
        if error_matrix is not None:
            # the axis times 2 sin(t/2), from R = target D^T: zero only where R is the identity, and never wraps
            error = np.dot(error_matrix, inverse.take(bones, axis=0).reshape(-1)).reshape(4, -1)
            np.multiply(error[1:], 1 / np.sqrt(np.maximum(1 + error[0], HALF_TURN)), out=out[3:])
        flat = out.reshape(-1)
        return (flat if rows is None else flat.take(rows)), ends

    return residual


def _orientation_error_matrix(target_rotations: np.ndarray) -> np.ndarray:
    """(4 E, 9 E) that takes the effectors' ``inverse`` (9 E) to the trace and axis (4, E) of target D^T; one block each."""
    effectors = len(target_rotations)
    out = np.zeros((4, effectors, effectors, 3, 3))
    found = np.dot(_TRACE_AND_AXIS, target_rotations.transpose(1, 2, 0).reshape(3, -1)).reshape(4, 3, 3, effectors)
    np.einsum("ieecb->iecb", out)[...] = found.transpose(0, 3, 2, 1)
    return out.reshape(4 * effectors, 9 * effectors)


def _apply_step(plan: KinematicPlan, inverse: np.ndarray) -> np.ndarray:
    """The pose ``inverse`` (J, 3, 3) after every joint turned by ``plan.step``, by 2 atan(t/2) instead of t (Cayley).

    A turn in the root frame carries everything below it: the turns are multiplied down the tree, and then applied to the bones.
    """
    step, turn = plan.step, plan.turn
    np.multiply(step[:, None], step, out=plan.products)
    entries = np.dot(_INVERSE_OF_PRODUCTS, plan.products.reshape(16, -1))
    np.divide(entries[:9], entries[9], out=turn[:-1].reshape(-1, 9).T)
    for ancestor in plan.ancestors:
        turn = np.matmul(turn, turn.take(ancestor, axis=0))
    return np.matmul(inverse, turn[:-1])


@lru_cache(maxsize=256)
def _active_rows(active: bytes, effectors: int, parts: int) -> tuple[np.ndarray | None, int]:
    """Rows (R) of the residual that count, None for all, and how many of them are of positions; ``active`` is (2, E) bool."""
    mask = np.frombuffer(active, bool).reshape(2, effectors)[: parts // 3]
    rows = None if mask.all() else np.flatnonzero(np.repeat(mask, 3, axis=0))
    return rows, 3 * int(np.count_nonzero(mask[0]))


def _root_jacobian(
    active: bytes | None, rows: np.ndarray | None, effectors: int, parts: int, normals: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """(R, 3) derivative of the effectors with respect to the root's shift, and (R, R) what that adds to J J^T."""
    if normals is None:
        return _plain_root_jacobian(active, effectors, parts)
    return _root_terms(rows, effectors, parts, normals)


@lru_cache(maxsize=256)
def _plain_root_jacobian(active: bytes | None, effectors: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    rows = None if active is None else _active_rows(active, effectors, parts)[0]
    return _root_terms(rows, effectors, parts, np.zeros((3, effectors)))


def _root_terms(
    rows: np.ndarray | None, effectors: int, parts: int, normals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    moved = np.zeros((parts, effectors, 3))
    moved[:3] = IDENTITY[:, None]  # every position moves with the root, no orientation does
    project_on_normals(moved[:3], normals)
    flat = moved.reshape(-1, 3)
    flat = flat if rows is None else flat[rows]
    return flat, np.dot(flat, flat.T) * (TRUNK_FIRST * ROOT_SHIFT**2)
