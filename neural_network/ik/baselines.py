# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain answers that a learned one must beat: each maps targets to a pose, from the same training frames.

Poses come as core rotations (3, J, N), the Hips as given. Nothing here is trained but the ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton
from . import refinement, training
from .context import LAYOUTS, Samples, Targets, features

CLASSICAL_STEPS = 50
RIDGE_STRENGTHS = (1e-4, 1e-2, 1.0, 10.0, 100.0)  # the best on the validation part is taken
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


def classical(skeleton: Skeleton, start: np.ndarray, targets: Targets, orientations: bool = False) -> np.ndarray:
    """Damped least squares without a network, at most 50 steps from the pose ``start`` (3, J, N)."""
    wish = refinement.Wish(targets.positions, targets.turned if orientations else None)
    return refinement.refine(skeleton, start, wish, CLASSICAL_STEPS, damping_share=refinement.DAMPING_COLD).rot


def nearest(
    skeleton: Skeleton, samples: Samples, rows: np.ndarray, targets: Targets, given: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The training frame among ``rows`` whose effectors lie nearest in the root frame: its pose, and its row (N).

    ``given`` (E, N) 0/1 says which effectors are looked at; all where absent.
    """
    known = effector_rows(skeleton, samples, rows)
    wanted = targets.positions.transpose(2, 1, 0).reshape(targets.positions.shape[-1], -1)
    seen = np.ones_like(wanted) if given is None else np.repeat(given.T, 3, axis=1)
    best = np.empty(len(wanted), int)
    for at in range(0, len(wanted), NEAREST_CHUNK):
        part, mask = wanted[at : at + NEAREST_CHUNK], seen[at : at + NEAREST_CHUNK]
        best[at : at + NEAREST_CHUNK] = np.argmin(mask @ (known * known).T - 2 * (part * mask) @ known.T, axis=1)
    found = rows[best]
    return with_root(training.components(samples.rot[found]), targets), found


def effector_rows(skeleton: Skeleton, samples: Samples, rows: np.ndarray) -> np.ndarray:
    """(F, 3 E) effector positions of the frames ``rows`` in the root frame [leg lengths]."""
    out = []
    for at in range(0, len(rows), training.CHUNK):
        _, _, targets = training.true_batch(skeleton, samples, rows[at : at + training.CHUNK])
        out.append(targets.positions.transpose(2, 1, 0).reshape(targets.positions.shape[-1], -1))
    return np.concatenate(out)


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
    _, _, targets = training.true_batch(skeleton, samples, held)
    errors = [
        float(training.effector_distances(skeleton, ridge(skeleton, model, targets), targets).mean()) for model in found
    ]
    return found[int(np.argmin(errors))]


def ridge(skeleton: Skeleton, model: Ridge, targets: Targets) -> np.ndarray:
    """The pose that a fitted ridge regression gives."""
    x = (features(LAYOUTS["reference"], skeleton, targets) - model.mean) / model.deviation
    y = np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1) @ model.weights
    return with_root(training.components(y.reshape(len(x), skeleton.count, 3)), targets)


def _inputs(skeleton: Skeleton, samples: Samples, rows: np.ndarray) -> np.ndarray:
    out = []
    for at in range(0, len(rows), training.CHUNK):
        _, _, targets = training.true_batch(skeleton, samples, rows[at : at + training.CHUNK])
        out.append(features(LAYOUTS["reference"], skeleton, targets))
    return np.concatenate(out)
