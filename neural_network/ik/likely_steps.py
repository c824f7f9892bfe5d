# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps towards the targets in the metric of the poses: of all poses that meet the targets, towards the likely one.

With d the deviation of a pose from the likely one and P its covariance (:mod:`.pose_prior`), J the slopes of the effectors and
r what is missing, the most likely pose that meets the targets, as far as slopes tell, deviates by P J^T (J P J^T)^-1 (r + J d):
the constrained maximum a posteriori estimate, one Gauss-Newton step (Nocedal and Wright, "Numerical Optimization", 2nd ed.,
section 16.1). It is damped as in :mod:`.refinement`, whose exact steps follow. The Hips stay as given.

Lengths are leg lengths, angles radians, in the root frame. J bones, E effectors, N poses, D = 3 (J - 1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton
from . import refinement
from .pose_density import deviations
from .pose_prior import Prior, keys, known_keys
from .refinement import APPROACH_DAMPING, DAMPING_FLOOR, Aims, EffectorTargets, Refined

STEPS, MOST = 1, 1.0
"""Steps in the metric of the poses from the network's answer, and the most that a joint turns in one [rad]. A second step lessens the
joint error by a fiftieth, and takes a tenth of the time of a solve."""
TOGETHER = (2, 1, 0.5)
"""Where near frames propose too, which may be farther from the network's answer: steps, those beyond what was asked for, and the most
that a joint turns [rad]."""
FEW = (4, 4, 0.5)
"""The same where few targets are given and the network does not propose."""


class Proposal(NamedTuple):
    """Which pose is likely, and how it is approached."""

    off: np.ndarray
    """(N, D) how far the poses to start from are from the likely ones."""
    metric: np.ndarray
    """(D, D) or (N, D, D) covariance of the pose."""
    steps: int
    """Steps towards it."""
    more: int
    """How many of these are taken beyond the steps that were asked for."""
    most: float
    """[rad] most that a joint turns in one step."""


def proposal(prior: Prior, rot: np.ndarray, targets: EffectorTargets, hypotheses: int | None = None) -> Proposal:
    """What is likely given the network's answers ``rot`` (3, J, N), and as many near frames as there are ``hypotheses``, if several.

    None takes what suits the data, :attr:`.Prior.hypotheses`.
    """
    hypotheses = prior.hypotheses if hypotheses is None else hypotheses
    turns = rotations.matrix_components(rot)
    answers = deviations(np.ascontiguousarray(turns.transpose(3, 2, 0, 1)), prior.mean)
    given = int(_all_given(targets))
    if hypotheses > 1 and prior.frames is not None:
        key, known = _keys(targets, turns[:, :, 0])
        off, metric = prior.together(answers, key, known, given, hypotheses)
        return Proposal(off, metric, *TOGETHER)
    return Proposal(prior.unlikely(answers, given), prior.metric[given], STEPS, 0, MOST)


def without_network(prior: Prior, targets: EffectorTargets, root: np.ndarray) -> tuple[np.ndarray, Proposal]:
    """The likely poses (3, J, N), to start from, where too few targets are given for the network; Hips turned by ``root`` (3, 3, N)."""
    key, known = _keys(targets, root)
    centre, metric = prior.around(key, known)
    turns = rotations.matrix_from_axis_angle(centre.reshape(len(centre), -1, 3))
    rot = np.empty((3, len(prior.mean), len(centre)))
    rot[:, 1:] = rotations.axis_angle_from_matrix(prior.mean[1:] @ turns).transpose(2, 1, 0)
    rot[:, 0] = rotations.axis_angle_components(root)
    return rot, Proposal(np.zeros_like(centre), metric, *FEW)


def refine(
    skeleton: Skeleton,
    rot: np.ndarray,
    targets: EffectorTargets,
    steps: int,
    likely: Proposal | None = None,
    *,
    shift: np.ndarray | None = None,
    limits: bool = False,
    free_root: bool = False,
) -> Refined:
    """As :func:`.refinement.refine`, of whose ``steps`` the first go towards the ``likely`` pose; all are exact without one.

    With a free root there must be none.
    """
    if likely is None or steps < 1:
        return refinement.refine(skeleton, rot, targets, steps, shift=shift, limits=limits, free_root=free_root)
    steps += likely.more
    rot, aims = _approach(skeleton, rot, targets, min(steps, likely.steps), likely, limits)
    done = refinement.refine(skeleton, rot, aims, max(0, steps - likely.steps), limits=limits)
    off = done.heads[:, list(skeleton.effectors)] - targets.positions
    return replace(done, distance=np.sqrt(np.sum(off * off, axis=0)))


def _approach(
    skeleton: Skeleton, rot: np.ndarray, targets: EffectorTargets, steps: int, likely: Proposal, limits: bool
) -> tuple[np.ndarray, EffectorTargets]:
    """Core rotations (3, J, N) after ``steps`` steps from ``rot``, and what these and further ones aim at, partial weights worked in.

    A step that brings a pose no nearer to its targets is not taken.
    """
    own, bones = skeleton.offsets / skeleton.leg_length, np.array(skeleton.effectors)
    turns = rotations.matrix_components(refinement.clamp(skeleton, rot) if limits else rot)
    orientations, heads = fk.forward_matrices(skeleton, turns, own)
    aims = refinement.weighted_targets(targets, heads[:, bones], orientations[:, :, bones])
    residual = refinement.residual_of(aims, heads[:, bones], orientations[:, :, bones])
    cost = refinement.cost_of(residual)
    off, metric = likely.off.astype(rot.dtype), likely.metric.astype(rot.dtype)
    scale = np.trace(metric, axis1=-2, axis2=-1) / metric.shape[-1]
    for _ in range(steps):
        slopes = _slopes(skeleton, orientations, heads, aims)
        if metric.ndim == 3:
            spread = slopes @ metric
        else:
            spread = (slopes.reshape(-1, slopes.shape[2]) @ metric).reshape(slopes.shape)
        system = spread @ slopes.transpose(0, 2, 1)
        at = np.arange(system.shape[1])
        system[:, at, at] += (scale * (DAMPING_FLOOR + APPROACH_DAMPING * cost))[:, None]
        missing = residual.transpose(2, 0, 1).reshape(len(off), -1, 1) + slopes @ off[:, :, None]
        step = (spread.transpose(0, 2, 1) @ np.linalg.solve(system, missing))[:, :, 0] - off
        turn = step.reshape(len(step), -1, 3)
        largest = np.sqrt(np.max(np.sum(turn * turn, axis=2), axis=1))
        step *= np.minimum(1, likely.most / np.maximum(largest, 1e-12))[:, None]
        local = np.zeros_like(rot)
        local[:, 1:] = turn.transpose(2, 1, 0)
        new_turns = fk.compose_components(turns, rotations.cayley_components(local))
        if limits:
            new_turns = rotations.matrix_components(
                refinement.clamp(skeleton, rotations.axis_angle_components(new_turns))
            )
        new_orientations, new_heads = fk.forward_matrices(skeleton, new_turns, own)
        new_residual = refinement.residual_of(aims, new_heads[:, bones], new_orientations[:, :, bones])
        new_cost = refinement.cost_of(new_residual)
        better = new_cost < cost
        now = (new_turns, new_orientations, new_heads, new_residual, new_cost)
        turns, orientations, heads, residual, cost = (
            np.where(better, one, other)
            for one, other in zip(now, (turns, orientations, heads, residual, cost), strict=True)
        )
        off = np.where(better[:, None], off + step, off)
    further = EffectorTargets(aims.positions, aims.orientations, aims.active[:, 0], aims.active[:, 1], aims.normals)
    return rotations.axis_angle_components(turns), further


def _keys(targets: EffectorTargets, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys (N, K) of targets for Hips ``root`` (3, 3, N), and which of their numbers are known."""
    given = np.ones((2, *targets.positions.shape[1:]))
    for k, weight in enumerate((targets.position_weight, targets.orientation_weight)):
        if weight is not None:
            given[k] = weight > 0
    given[1] *= targets.orientations is not None
    return keys(targets.positions, targets.orientations, root), known_keys(given)


def _all_given(targets: EffectorTargets) -> bool:
    """Whether positions and rotations of all effectors count in all poses."""
    weights = (targets.position_weight, targets.orientation_weight)
    return targets.orientations is not None and all(w is None or bool(np.all(w > 0)) for w in weights)


def _slopes(skeleton: Skeleton, orientations: np.ndarray, heads: np.ndarray, aims: Aims) -> np.ndarray:
    """(N, R, D) how the residual's rows, effector by effector, fall with small turns about the bones' own core axes.

    Rows of free effectors are zero, and along a normal, where there is one, only distance counts.
    """
    bones = np.array(skeleton.effectors)
    count, width = heads.shape[-1], 3 if aims.orientations is None else 6
    share = skeleton.subtree[1:, bones].T.astype(heads.dtype)  # (E, J - 1)
    axes = np.ascontiguousarray(orientations[:, :, 1:].transpose(3, 1, 2, 0))  # (N, axis, J - 1, 3)
    arm = np.ascontiguousarray((heads[:, bones, None] - heads[:, None, 1:]).transpose(3, 1, 2, 0))  # (N, E, J - 1, 3)
    arm *= share[:, :, None]
    out = np.zeros((count, len(bones), width, skeleton.count - 1, 3), heads.dtype)
    for a in range(3):
        axis, way = axes[:, None, a], out[:, :, :, :, a]
        for c, (p, q) in enumerate(((1, 2), (2, 0), (0, 1))):
            np.multiply(axis[..., p], arm[..., q], out=way[:, :, c])
            way[:, :, c] -= axis[..., q] * arm[..., p]
            if width == 6:
                np.multiply(axis[..., c], share, out=way[:, :, 3 + c])
    if aims.normals is not None:
        normal = aims.normals.transpose(2, 1, 0)[:, :, :, None, None]
        plane = np.any(normal, axis=2, keepdims=True)
        along = normal * np.sum(out[:, :, :3] * normal, axis=2, keepdims=True)
        out[:, :, :3] = np.where(plane, along, out[:, :, :3])
    if not aims.all_active:
        active = np.repeat(aims.active.transpose(2, 0, 1), 3, axis=2)[:, :, :width]
        out *= active[:, :, :, None, None]
    return out.reshape(count, len(bones) * width, -1)
