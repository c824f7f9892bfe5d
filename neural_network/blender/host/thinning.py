# SPDX-License-Identifier: GPL-3.0-or-later
"""Fewer keys for a dense motion: frames between which smooth curves stay within a tolerance. NumPy alone."""

from __future__ import annotations

import numpy as np

TURN = np.radians(0.5)
"""[rad] that a rotation channel may be off between the keys; of a quaternion, half of it."""
WAY = 2e-3
"""[m] that a location may be off."""


def slopes(values: np.ndarray) -> np.ndarray:
    """Slopes (F, C) [per frame] of values (F, C) on consecutive frames: central differences, one-sided at the ends."""
    return np.gradient(values, axis=0) if len(values) > 1 else np.zeros_like(values)


def chosen(values: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Rows of values (F, C) to key so that cubics with :func:`slopes` stay within ``tolerance`` (C) of every row.

    The first and the last row always are; the row that is farthest off is added, until none is.
    """
    count = len(values)
    if count < 3:
        return np.arange(count)
    scaled = values / tolerance
    slope = slopes(scaled)
    keyed = np.zeros(count, bool)
    keyed[[0, -1]] = True
    waiting = [(0, count - 1)]
    while waiting:
        first, last = waiting.pop()
        if last - first < 2:
            continue
        off = np.abs(_cubic(scaled, slope, first, last) - scaled[first + 1 : last]).max(axis=1)
        if off.max() > 1:
            middle = first + 1 + int(off.argmax())
            keyed[middle] = True
            waiting += [(first, middle), (middle, last)]
    return np.flatnonzero(keyed)


def _cubic(values: np.ndarray, slope: np.ndarray, first: int, last: int) -> np.ndarray:
    """Values (N, C) of the Hermite cubic from row ``first`` to row ``last`` on the rows between them."""
    span = last - first
    t = (np.arange(1, span) / span)[:, None]
    return np.asarray(
        (1 + 2 * t) * (1 - t) ** 2 * values[first]
        + t**2 * (3 - 2 * t) * values[last]
        + span * t * (1 - t) * ((1 - t) * slope[first] - t * slope[last])
    )
