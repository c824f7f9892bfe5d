# SPDX-License-Identifier: GPL-3.0-or-later
"""The out-of-range meter: how far targets lie from everything learned, and which learned frame is nearest.

best.npy keeps a few hundred training frames, spread as evenly as possible, as a sample of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..motion.pose_set import PoseSet
from ..motion.splits import TEST, TRAIN
from . import batches
from .context import Samples, features
from .network import Network

CENTRES = 512
CALIBRATION = 99  # percentile of the test part that reads 1.0
CANDIDATES = 8000  # frames considered when spreading centres: more only take longer


@dataclass(frozen=True)
class Explanation:
    """How familiar the targets are, and the learned frame behind the pose."""

    out_of_range: float
    """0 on a learned frame, 1.0 at the 99th percentile of held-out motion; NaN where the weights have no centres."""
    clip: str
    """Name of the action that holds the nearest learned frame."""
    frame: int
    """Frame of that action, counted from 0 in the training data."""


def with_centres(net: Network, poses: PoseSet, samples: Samples, parts: np.ndarray) -> Network:
    """``net`` with at most 512 training frames as centres, calibrated on the test part, or on the training part if there is none."""
    rows = np.flatnonzero(parts == TRAIN)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), CANDIDATES)).round().astype(int)]
    known = _inputs(net, samples, rows)
    chosen = spread(known, CENTRES)
    centres = known[chosen]
    judge = np.flatnonzero(parts == TEST)
    far = _distance(centres, _inputs(net, samples, judge if len(judge) else rows)).min(axis=1)
    scale = float(np.percentile(far, CALIBRATION))
    starts = np.array([poses.rows(c).start for c in range(len(poses.clip_names))])
    clips = poses.clip[rows[chosen]]
    where = [[int(c), int(r - starts[c])] for c, r in zip(clips, rows[chosen], strict=True)]
    meter = {"scale": max(scale, 1e-6), "frames": where, "clips": list(poses.clip_names)}
    return replace(net, centres=centres.astype(np.float32), meta={**net.meta, "meter": meter})


def explain(net: Network, inputs: np.ndarray) -> Explanation:
    """The meter for one pose's network inputs (I)."""
    meter = net.meta.get("meter")
    if meter is None or not len(net.centres):
        return Explanation(float("nan"), "", 0)
    apart = _distance(net.centres, _judged(net, inputs[None]))[0]
    best = int(np.argmin(apart))
    clip, frame = meter["frames"][best]
    return Explanation(float(apart[best]) / meter["scale"], meter["clips"][clip], frame)


def spread(points: np.ndarray, count: int) -> np.ndarray:
    """Indices of at most ``count`` of ``points`` (N, D), each the farthest from those already chosen (Gonzalez 1985)."""
    chosen = [0]
    apart = np.sum((points - points[0]) ** 2, axis=1)
    while len(chosen) < min(count, len(points)):
        chosen.append(int(np.argmax(apart)))
        if apart[chosen[-1]] == 0:
            return np.array(chosen[:-1])
        apart = np.minimum(apart, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return np.array(chosen)


def _judged(net: Network, inputs: np.ndarray) -> np.ndarray:
    """Standardised target and root inputs (N, D); ground, phase and task do not count."""
    columns = net.layout.columns(net.skeleton)
    kept = np.concatenate([columns["targets"], columns["root"]])
    return (inputs[:, kept] - net.mean[kept]) / net.deviation[kept]


def _inputs(net: Network, samples: Samples, rows: np.ndarray) -> np.ndarray:
    out = []
    for at in range(0, len(rows), batches.CHUNK):
        _, _, targets = batches.true_batch(net.skeleton, samples, rows[at : at + batches.CHUNK])
        out.append(_judged(net, features(net.layout, net.skeleton, targets)))
    return np.concatenate(out)


def _distance(centres: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(N, C) distance of ``points`` (N, D) from ``centres`` (C, D)."""
    square = np.sum(points**2, axis=1)[:, None] + np.sum(centres**2, axis=1) - 2 * points @ centres.T
    return np.sqrt(np.maximum(square, 0))
