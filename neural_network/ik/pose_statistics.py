# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding the statistics of a character's poses, and the errors of its network, from training data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core import rotations
from . import batches
from .context import Samples
from .density import anatomy
from .network import Network
from .pose_density import PoseDensity, deviations
from .pose_prior import SEVERAL, NearFrames, keys, known_keys

FRAMES_MOST = 3000  # training frames that are kept for hypotheses, evenly spaced
POSES_MOST = 20_000  # training frames that the statistics are made from, evenly spaced
JUDGED_MOST = 600  # held-out frames that the errors are measured on
LEAST = 0.01  # [rad] standard deviation added to every axis, so that none is frozen by data that never moved it
LEAST_ERROR = 0.06  # [rad] the same for the errors of the network and of near frames
FEW = 2.0  # takes at which half of what the joints' ranges of motion allow is added


def fit(
    net: Network,
    samples: Samples,
    train: np.ndarray,
    held: np.ndarray,
    takes: int,
    kept: np.ndarray | None = None,
) -> PoseDensity:
    """Statistics of the frames ``train`` of ``samples``, and the errors of ``net`` on the frames ``held``.

    ``takes`` is how many takes the training frames come from: where they are few, the joints' ranges of motion add to their
    spread, so that what was not seen is not impossible. ``kept``: the frames of which some are kept as near frames, where these
    are not those of ``train``.
    """
    rig = net.skeleton
    rows = _spaced(train, POSES_MOST)
    mean = batches.mean_pose(samples, rows).astype(np.float32).astype(np.float64)  # as the file will hold it
    mean[0] = 0
    centre = rotations.matrix_from_axis_angle(mean)
    found = deviations(_turns(samples, rows), centre)
    size = found.shape[1]
    covariance = found.T @ found / len(found) + np.eye(size) * LEAST**2
    covariance += anatomy(rig)[3:, 3:] * FEW / (FEW + takes)
    covariance = covariance.astype(np.float32).astype(np.float64)
    frames = samples.rot[_spaced(train if kept is None else kept, FRAMES_MOST)].astype(np.float16).astype(np.float64)
    judged = _spaced(held, JUDGED_MOST)
    truth = deviations(_turns(samples, judged), centre)
    targets, _ = batches.asked(net.layout, rig, samples, judged)
    unknown = np.zeros((2, size, size))
    density = PoseDensity(mean, covariance, unknown, frames, unknown, takes)
    near = NearFrames(rig, density)
    key = keys(targets.positions, targets.turned, targets.root)
    errors, near_errors = [], []
    for given in (False, True):
        rot, _ = batches.predict(net, targets if given else batches.without_rotations(rig, targets), given)
        turns = rotations.matrix_from_axis_angle(np.moveaxis(rot, (2, 1), (0, 1)).astype(np.float64))
        errors.append(_moments(truth - deviations(turns, centre)))
        known = np.ones((2, len(rig.effectors), len(judged)))
        known[1] = given
        near_errors.append(_moments(truth - near.mean_of(key, known_keys(known), SEVERAL)))
    return replace(density, network_error=np.stack(errors), frames_error=np.stack(near_errors))


def _moments(errors: np.ndarray) -> np.ndarray:
    found = errors.T @ errors / len(errors) + np.eye(errors.shape[1]) * LEAST_ERROR**2
    return np.asarray(found.astype(np.float32).astype(np.float64))


def _spaced(rows: np.ndarray, most: int) -> np.ndarray:
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(int)]


def _turns(samples: Samples, rows: np.ndarray) -> np.ndarray:
    return rotations.matrix_from_axis_angle(samples.rot[rows].astype(np.float64))
