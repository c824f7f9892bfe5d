# SPDX-License-Identifier: GPL-3.0-or-later
"""Random parameters to learn from and to be measured on: walks and runs of all speeds, with a few sliders moved and few styles."""

from __future__ import annotations

import numpy as np

from . import parameters
from .parameters import INDEX, LEAST, MOST, STYLES, TABLE

RUNS = 0.22  # share of cycles that run
STYLED = 0.55  # share of walks with a style
TWO = 0.15  # share of these with two
MOVED = 0.25  # probability of each slider to be moved
BUILT = 0.5  # probability of another body
WALKS, RUNNING = (0.4, 2.3), (1.8, 4.1)  # [m/s at a leg of 0.945 m]


def draw(rng: np.random.Generator, count: int) -> np.ndarray:
    """Parameters (count, P)."""
    return np.stack([_one(rng) for _ in range(count)])


def _one(rng: np.random.Generator) -> np.ndarray:
    out = parameters.DEFAULT.copy()
    if rng.random() < BUILT:
        for name in parameters.PROPORTIONS:
            out[INDEX[name]] = rng.uniform(LEAST[INDEX[name]], MOST[INDEX[name]])
    run = rng.random() < RUNS
    if run:
        out[INDEX["run"]] = 1.0 if rng.random() < 0.7 else rng.random()
    elif rng.random() < STYLED:
        names = [name for name in STYLES if name != "run"]
        for name in rng.choice(names, 2 if rng.random() < TWO else 1, replace=False):
            out[INDEX[name]] = 1.0 if rng.random() < 0.4 else rng.random()
    for entry in TABLE:
        if entry.group in ("walk", "body") and entry.name not in ("step_length", "cadence") and rng.random() < MOVED:
            out[INDEX[entry.name]] = _slider(rng, entry.least, entry.most, entry.default, run)
    if run:
        out[INDEX["turn"]] *= 0.5
    leg = float(parameters.leg_of(out))
    low, high = RUNNING if out[INDEX["run"]] > 0.5 else WALKS
    pace = rng.uniform(low, high) * np.sqrt(leg / parameters.LEG)
    step = float(parameters.usual_step(pace, leg, float(out[INDEX["run"]]))) * float(np.exp(rng.normal(0, 0.13)))
    most = (1.75 if run else 1.12) * leg
    step = float(np.clip(step, 0.32 * leg, min(most, MOST[INDEX["step_length"]])))
    out[INDEX["step_length"]], out[INDEX["cadence"]] = step, pace / step
    return np.asarray(np.clip(out, LEAST, MOST))


def _slider(rng: np.random.Generator, least: float, most: float, default: float, run: bool) -> float:
    """Half of the draws near the default, the others anywhere."""
    if rng.random() < 0.5:
        return float(np.clip(rng.normal(default, 0.2 * (most - least)), least, most))
    return float(rng.uniform(least, most))
