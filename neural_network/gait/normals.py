# SPDX-License-Identifier: GPL-3.0-or-later
"""Published healthy walking: hip, knee and ankle flexion over the cycle at five speeds, and what follows for other speeds.

Source: Schwartz, Rozumalski and Trost, "The effect of walking speed on the gait of typically developing children", Journal of
Biomechanics 41 (2008) 1639-1650, supplementary tables (about 80 subjects in each speed group); the numbers are in
``training_data/gait_normals.csv``. The slow, free and fast groups are what curves are fitted to; very slow and very fast are
for judging and are never fitted to.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.files import read_text

FILE = Path(__file__).resolve().parents[2] / "training_data" / "gait_normals.csv"
GROUPS = ("very_slow", "slow", "free", "fast", "very_fast")
JOINTS = ("hip", "knee", "ankle")
SPEEDS = np.array([0.172, 0.290, 0.429, 0.560, 0.694])
"""Speed / sqrt(g L) of each group."""
STEPS = np.array([0.510, 0.640, 0.760, 0.850, 0.922])
"""Step length / L."""
FOOT_OFF = np.array([0.68, 0.62, 0.59, 0.58, 0.56])
"""Share of the cycle at which the own foot leaves the floor."""
FITTED = (1, 2, 3)
JUDGED = (0, 4)
PHASES = np.linspace(0, 1, 51)
STANDARD_OFF = 0.6
"""Foot-off on the common phase on which curves of different speeds are compared."""


@dataclass(frozen=True)
class Normals:
    """Flexion [deg] of hip, knee and ankle (dorsiflexion positive)."""

    mean: np.ndarray
    """(5, 3, 51) of each group and joint at :data:`PHASES`."""
    deviation: np.ndarray
    """(5, 3, 51) between subjects."""
    tilt: np.ndarray
    """(5) [deg] by how much the pelvis is tilted forward, on average over the cycle."""


@functools.cache
def published() -> Normals:
    """The published curves; ValueError where the file is damaged."""
    rows = list(csv.reader(read_text(FILE, "published gait curves").splitlines()))[1:]
    table = {(r[0], r[1], float(r[2])): (float(r[3]), float(r[4])) for r in rows}
    try:
        names = (*JOINTS, "pelvis_tilt")
        values = np.array([[[table[g, j, 2.0 * i] for i in range(51)] for j in names] for g in GROUPS])
    except KeyError as error:
        raise ValueError(f"{FILE.name}: expected 51 rows for each group and joint, missing {error}") from None
    return Normals(values[:, :3, :, 0], values[:, :3, :, 1], values[:, 3, :, 0].mean(axis=1))


def warped(phase: np.ndarray, off: np.ndarray | float) -> np.ndarray:
    """Phases of a cycle whose foot leaves at ``off`` as phases of one whose foot leaves at :data:`STANDARD_OFF`."""
    phase = np.mod(phase, 1.0)
    swing = STANDARD_OFF + (phase - off) / (1 - off) * (1 - STANDARD_OFF)
    return np.where(phase < off, phase / off * STANDARD_OFF, swing)


@functools.cache
def _fit() -> np.ndarray:
    """(2, 3, 121) constant and slope over the step length of each joint's curve, on the common phase."""
    phases = np.linspace(0, 1, 121)
    curves = []
    for g in FITTED:
        x = warped(np.minimum(PHASES, 1 - 1e-9), FOOT_OFF[g])
        curves.append([np.interp(phases, x, curve) for curve in published().mean[g]])
    system = np.stack([np.ones(len(FITTED)), STEPS[list(FITTED)]], axis=1)
    solved = np.linalg.lstsq(system, np.array(curves).reshape(len(FITTED), -1), rcond=None)[0]
    return np.asarray(solved.reshape(2, 3, -1))


def flexion(phase: np.ndarray, step: float, off: float) -> np.ndarray:
    """(3, N) [deg] flexion of hip, knee and ankle at phases (N) since the foot's own strike.

    A straight line through the slow, free and fast groups over the step length ``step`` [leg lengths], on the phase that puts
    every group's foot-off in one place, then laid on a cycle whose foot leaves at ``off``.
    """
    constant, slope = _fit()
    x = warped(phase, off)
    grid = np.linspace(0, 1, constant.shape[1])
    return np.array([np.interp(x, grid, c + step * s) for c, s in zip(constant, slope, strict=True)])


def tilt(step: float) -> float:
    """[deg] forward tilt of the pelvis for a step [leg lengths]: a straight line through the slow, free and fast groups."""
    slope, constant = np.polyfit(STEPS[list(FITTED)], published().tilt[list(FITTED)], 1)
    return float(constant + slope * step)
