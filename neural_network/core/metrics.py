# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics: how far poses and motion are from the truth, and what is wrong with motion whatever the truth.

Inputs are in metres, arrays of rotations are matrices; figures come in the units of the field: millimetres, degrees and
m/s^3. A function whose figure may be a mean, a percentile or a maximum returns every value; the others return a mean.
Motion of several clips stands together in the rows; ``clip`` (F) says which rows belong to one, so that nothing is
measured across a cut. Points of feet and contacts come from :mod:`.contacts`. Where there is nothing to measure, means
are NaN.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from . import rotations

MM = 1000.0
"""Millimetres in a metre."""


# ---------------------------------------------------------------- distances from the truth


def mpjpe(heads: np.ndarray, truth: np.ndarray) -> float:
    """Mean per-joint position error [mm]: mean Euclidean distance of heads (..., 3) from the true ones.

    Source: Ionescu et al., "Human3.6M", PAMI 2014, section 5 (protocol without alignment).
    """
    return _mean(np.linalg.norm(heads - truth, axis=-1) * MM)


def mpjpe_local(heads: np.ndarray, truth: np.ndarray) -> float:
    """MPJPE [mm] of heads (..., J, 3) with the root's head, the first, at the origin; the root itself is left out."""
    return mpjpe(heads[..., 1:, :] - heads[..., :1, :], truth[..., 1:, :] - truth[..., :1, :])


def mpjpe_global(heads: np.ndarray, truth: np.ndarray, clip: np.ndarray | None = None) -> float:
    """MPJPE [mm] of heads (F, J, 3), Z up, after each clip's mean horizontal difference of the roots was taken out."""
    shift = np.zeros((len(heads), 1, 3))
    for rows in _clips(len(heads), clip):
        shift[rows, 0, :2] = (heads[rows, 0, :2] - truth[rows, 0, :2]).mean(axis=0)
    return mpjpe(heads - shift, truth)


def l2p(heads: np.ndarray, truth: np.ndarray, generated: np.ndarray | None = None) -> float:
    """L2P [mm]: mean distance of all heads (F, J, 3) from the true ones over the frames ``generated`` (F) bool, or all.

    Not the normalised figure of the same name in Harvey et al., "Robust motion in-betweening", 2020: that one divides by
    each position's deviation over the training data.
    """
    rows = slice(None) if generated is None else np.asarray(generated, bool)
    return mpjpe(heads[rows], truth[rows])


def rotation_error(turns: np.ndarray, truth: np.ndarray) -> float:
    """Mean geodesic angle [degrees] between rotation matrices (..., 3, 3).

    The angle of the rotation that leads from one to the other, in [0, 180]: Huynh, "Metrics for 3D rotations", 2009, the
    metric called phi_6.
    """
    return _mean(np.degrees(rotations.geodesic_angle(turns, truth)))


# ---------------------------------------------------------------- feet


def slides(points: np.ndarray, contact: np.ndarray, clip: np.ndarray | None = None) -> np.ndarray:
    """(n) how far each standing foot slides from one frame to the next [mm per frame].

    ``points`` (F, feet, P, 3) are points of every foot, Z up, ``contact`` (F, feet) says where feet stand. Only pairs of
    standing frames count, and of a foot's points the one that moves least along the ground: a clean stance rolls over
    heel, ball and tip.
    """
    ways = np.linalg.norm(np.diff(points[..., :2], axis=0), axis=-1).min(axis=-1) * MM
    pairs = contact[1:] & contact[:-1]
    if clip is not None:
        pairs = pairs & (np.diff(clip) == 0)[:, None]
    return ways[pairs]


def slide(points: np.ndarray, contact: np.ndarray, clip: np.ndarray | None = None) -> float:
    """Mean of :func:`slides` [mm per frame]."""
    return _mean(slides(points, contact, clip))


def floating(points: np.ndarray, contact: np.ndarray, ground: float | np.ndarray = 0.0) -> np.ndarray:
    """(n) height [mm] of the lowest point of each standing foot above ``ground`` [m], one or (F); 0 where it is below."""
    return np.maximum(_lowest(points, ground)[contact], 0) * MM


def penetration(points: np.ndarray, ground: float | np.ndarray = 0.0) -> np.ndarray:
    """(F) depth [mm] of the lowest point of all feet below ``ground`` [m], one or (F); 0 where none is below."""
    return np.maximum(-_lowest(points, ground).min(axis=-1), 0) * MM


def _lowest(points: np.ndarray, ground: float | np.ndarray) -> np.ndarray:
    """(F, feet) height [m] of the lowest point of each foot."""
    return points[..., 2].min(axis=-1) - np.broadcast_to(ground, len(points))[:, None]


# ---------------------------------------------------------------- smoothness


def jerk(heads: np.ndarray, fps: float = 30.0, clip: np.ndarray | None = None) -> float:
    """Mean jerk [m/s^3] of heads (F, J, 3): mean length of their third differences times ``fps`` cubed.

    Clips of fewer than four frames have none; every other clip counts alike. Compare it with the clean motion's: the aim
    is the same jerk, not less (the measure of Flash and Hogan, 1985, as third finite differences).
    """
    means = [
        float(np.linalg.norm(np.diff(heads[rows], 3, axis=0), axis=-1).mean())
        for rows in _clips(len(heads), clip)
        if rows.stop - rows.start > 3
    ]
    return _mean(np.array(means)) * fps**3


def _clips(frames: int, clip: np.ndarray | None) -> list[slice]:
    """The rows of each clip; the rows of one stand together."""
    if clip is None:
        return [slice(0, frames)]
    edges = [0, *(np.flatnonzero(np.diff(clip)) + 1).tolist(), frames]
    return [slice(first, last) for first, last in pairwise(edges) if last > first]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")
