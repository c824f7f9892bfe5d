# SPDX-License-Identifier: GPL-3.0-or-later
"""Blending: how much of what a predictor says goes into the average of the library's windows, frame by frame.

Where the windows agree, somebody has moved like this before, and the library is right for seconds; where they differ, a predictor is
nearer. So its share grows with how much they differ (:attr:`.gaps.Guides.spread`). It changes with the frames ahead, too. The three
numbers are fitted on takes of subjects that neither the predictor nor the library knows (:func:`fit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from ..core.skeleton import Skeleton
from . import gaps, library, rollouts
from .library import Take
from .predictor import Predictor

Sharing = tuple[float, float, float]
"""Level at a spread of 0.1 ten frames ahead, slope by the logarithm of the spread, and by that of the frames ahead."""
SPREAD, FRAMES = 0.1, 10.0
SHARES = np.linspace(0, 1, 6)  # that are measured; between them errors are taken to be straight
LEVELS, BY_SPREAD, BY_FRAMES = np.linspace(-3, 3, 13), np.linspace(0, 6, 7), np.linspace(-2.5, 0.5, 13)
LEAST = 1e-4  # spread below which it makes no difference


def share(sharing: Sharing, spread: np.ndarray) -> np.ndarray:
    """(G, F) 0 to 1 for the frames ahead, in which windows differ by ``spread`` (G, F); 1 where there are none."""
    level, by_spread, by_frames = sharing
    known = np.isfinite(spread)
    size = np.log(np.maximum(np.where(known, spread, SPREAD), LEAST) / SPREAD)
    ahead = np.log(np.arange(1, spread.shape[1] + 1) / FRAMES)
    return np.where(known, 0.5 + 0.5 * np.tanh(0.5 * (level + by_spread * size + by_frames * ahead)), 1.0)


def sharing_of(found: Predictor) -> Sharing | None:
    """What was fitted for a predictor; None where nothing was, or what its file says is no such thing."""
    told = found.about.get("sharing")
    if not isinstance(told, list) or len(told) != 3 or not all(isinstance(v, float) and abs(v) < 100 for v in told):
        return None
    return told[0], told[1], told[2]


def fit(found: Predictor, body: Skeleton, known: Sequence[Take], held: Sequence[Take]) -> Sharing | None:
    """The sharing with the least error on the takes ``held``, with a library of the takes ``known``; every take counts alike, by its
    error relative to the library's. None where no take is long enough."""
    own = library.of_takes(body, known)
    cases: list[tuple[np.ndarray, np.ndarray]] = []
    for take in held:
        true = rollouts.starts([take])
        if true is None:
            continue
        guide = gaps.guides(own, true)
        mean, said = guide.mean[:, true.before :], rollouts.said(found, body, true)
        errors = np.stack([rollouts.judge(body, mean + w * (said - mean), true).local for w in SHARES])
        cases.append((errors / errors[0].mean(), guide.spread[:, true.before :]))
    if not cases:
        return None
    grid = [(float(a), float(b), float(c)) for a, b, c in product(LEVELS, BY_SPREAD, BY_FRAMES)]
    return min(grid, key=lambda one: sum(_error(errors, share(one, spread)) for errors, spread in cases))


def _error(errors: np.ndarray, shares: np.ndarray) -> float:
    """Mean of errors (S, G, F) at ``SHARES``, at shares (G, F)."""
    at = np.clip(shares, 0, 1) * (len(SHARES) - 1)
    low = np.minimum(at.astype(int), len(SHARES) - 2)
    g, f = np.indices(shares.shape)
    first, second = errors[low, g, f], errors[low + 1, g, f]
    return float((first + (at - low) * (second - first)).mean())
