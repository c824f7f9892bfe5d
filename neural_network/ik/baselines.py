# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain answers that a learned one must beat: each maps targets to a pose, from the same training frames.

Poses are core rotations (3, J, N), with the Hips as given unless a layout leaves them free. Only the ridge regression is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton
from . import batches, refinement
from .context import LAYOUTS, Layout, Samples, Targets, features

CONVERGED_STEPS = 50  # after 10 of them nearly all poses stand still
TURN_WEIGHT = 0.2  # [leg lengths / rad] of orientations, where the nearest frame is looked up by them too
RIDGE_STRENGTHS = (1e-4, 1e-2, 1.0, 10.0, 100.0)  # the best one on the validation part is kept
NEAREST_CHUNK = 256


@dataclass(frozen=True)
class Ridge:
    """Linear map from standardised reference inputs to core rotations."""

    mean: np.ndarray
    deviation: np.ndarray
    weights: np.ndarray  # (I + 1, 3 J)


def with_root(rot: np.ndarray, targets: Targets) -> np.ndarray:
    """``rot`` (J, 3) or (3, J, N) with the Hips' rotation as given in ``targets``, as (3, J, N)."""
    root = rotations.axis_angle_components(targets.root)
    if rot.ndim == 2:
        rot = np.broadcast_to(rot.T[:, :, None], (3, len(rot), root.shape[-1]))
    out = rot.astype(root.dtype)
    out[:, 0] = root
    return out


def rest(skeleton: Skeleton, targets: Targets) -> np.ndarray:
    """The T-pose."""
    return with_root(np.zeros((skeleton.count, 3)), targets)


def converged(
    layout: Layout,
    skeleton: Skeleton,
    start: np.ndarray,
    targets: Targets,
    shift: np.ndarray | None = None,
    damping_share: float = refinement.DAMPING_SHARE,
) -> refinement.Refined:
    """Exact steps from the pose ``start`` (3, J, N) until nothing changes any more (50 at most).

    They are asked for what a network of this ``layout`` is asked for: positions, orientations where it takes them, and with
    free Hips the Hips may move, from ``shift`` (3, N) [leg lengths] on.
    """
    asked = refinement.EffectorTargets(targets.positions, targets.turned if layout.orientations else None)
    return refinement.refine(
        skeleton,
        start,
        asked,
        CONVERGED_STEPS,
        shift=shift,
        free_root=layout.free_root,
        damping_share=damping_share,
    )


def classical(layout: Layout, skeleton: Skeleton, start: np.ndarray, targets: Targets) -> refinement.Refined:
    """The classical solver: damped least squares from a pose that knows nothing of the targets, asked as :func:`converged`."""
    return converged(layout, skeleton, start, targets, damping_share=refinement.DAMPING_COLD)


@dataclass(frozen=True)
class KnownFrames:
    """Training frames as targets, to look the nearest one up in. Made by :func:`frames_of`."""

    rows: np.ndarray
    """(F) rows of the samples."""
    table: np.ndarray
    """(F, D) what they are compared by: effector positions [leg lengths], and orientations where they count."""
    orientations: bool
    rot: np.ndarray
    """(3, J, F) core rotations."""
    shift: np.ndarray | None
    """(3, F) the Hips' head [leg lengths], where the Hips are not given."""


def frames_of(layout: Layout, skeleton: Skeleton, samples: Samples, rows: np.ndarray) -> KnownFrames:
    """The frames ``rows``, compared by what a network of this ``layout`` is asked: orientations count where it takes them."""
    tables, rots, shifts = [], [], []
    for at in range(0, len(rows), batches.CHUNK):
        part = rows[at : at + batches.CHUNK]
        targets, truth = batches.asked(layout, skeleton, samples, part)
        tables.append(_compared(targets, layout.orientations))
        rot = batches.components(samples.rot[part])
        rot[:, 0] = rotations.axis_angle_components(truth.turns[:, :, 0])
        rots.append(rot)
        shifts.append(truth.shift)
    shift = np.concatenate([s for s in shifts if s is not None], axis=1) if layout.free_root else None
    return KnownFrames(rows, np.concatenate(tables), layout.orientations, np.concatenate(rots, axis=2), shift)


def nearest(
    frames: KnownFrames, targets: Targets, given: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """The frame whose effectors are nearest to ``targets``: its pose (3, J, N), the Hips' shift (3, N) if free, its row (N).

    Distance is the root of the summed squares over all effectors; a turn by 1 rad counts as 0.2 leg lengths. ``given`` (E, N)
    0/1 says which effectors are compared; all where absent.
    """
    wanted = _compared(targets, frames.orientations)
    seen = (
        np.ones_like(wanted)
        if given is None
        else np.tile(np.repeat(given.T, 3, axis=1), wanted.shape[1] // (3 * len(given)))
    )
    best = np.empty(len(wanted), int)
    for at in range(0, len(wanted), NEAREST_CHUNK):
        part, mask = wanted[at : at + NEAREST_CHUNK], seen[at : at + NEAREST_CHUNK]
        apart = mask @ (frames.table * frames.table).T - 2 * (part * mask) @ frames.table.T
        best[at : at + NEAREST_CHUNK] = np.argmin(apart, axis=1)
    rot = frames.rot[:, :, best]
    if frames.shift is not None:
        return rot, frames.shift[:, best], frames.rows[best]
    return with_root(rot, targets), None, frames.rows[best]


def _compared(targets: Targets, orientations: bool) -> np.ndarray:
    """(N, D) the targets as one vector for each pose, every effector's positions first."""
    count = targets.positions.shape[-1]
    out = targets.positions.transpose(2, 1, 0).reshape(count, -1)
    if not orientations:
        return out
    turned = rotations.axis_angle_components(targets.turned) * TURN_WEIGHT
    return np.concatenate([out, turned.transpose(2, 1, 0).reshape(count, -1)], axis=1)


def fit_ridge(skeleton: Skeleton, samples: Samples, rows: np.ndarray, held: np.ndarray) -> Ridge:
    """Ridge regression on the frames ``rows``, its strength chosen by effector distance on the frames ``held``."""
    inputs = _inputs(skeleton, samples, rows)
    mean, deviation = inputs.mean(axis=0), inputs.std(axis=0)
    deviation[deviation < 1e-3] = 1
    x = np.concatenate([(inputs - mean) / deviation, np.ones((len(rows), 1))], axis=1).astype(np.float64)
    y = samples.rot[rows].reshape(len(rows), -1).astype(np.float64)
    gram, right = x.T @ x / len(rows), x.T @ y / len(rows)
    penalty = np.eye(len(gram))
    penalty[-1, -1] = 1e-9
    found = [Ridge(mean, deviation, np.linalg.solve(gram + strength * penalty, right)) for strength in RIDGE_STRENGTHS]
    if not len(held):
        return found[1]
    _, _, targets = batches.true_batch(skeleton, samples, held)
    errors = [
        float(batches.effector_distances(skeleton, ridge(skeleton, model, targets), targets).mean()) for model in found
    ]
    return found[int(np.argmin(errors))]


def ridge(skeleton: Skeleton, model: Ridge, targets: Targets) -> np.ndarray:
    """The pose that a fitted ridge regression gives."""
    x = (features(LAYOUTS["reference"], skeleton, targets) - model.mean) / model.deviation
    y = np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1) @ model.weights
    return with_root(batches.components(y.reshape(len(x), skeleton.count, 3)), targets)


def _inputs(skeleton: Skeleton, samples: Samples, rows: np.ndarray) -> np.ndarray:
    out = []
    for at in range(0, len(rows), batches.CHUNK):
        _, _, targets = batches.true_batch(skeleton, samples, rows[at : at + batches.CHUNK])
        out.append(features(LAYOUTS["reference"], skeleton, targets))
    return np.concatenate(out)
