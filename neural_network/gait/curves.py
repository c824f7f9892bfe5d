# SPDX-License-Identifier: GPL-3.0-or-later
"""A statistical model of captured cycles: Fourier coefficients of all joints along the phase, regressed on step and cadence.

What a model holds are means and slopes over many takes of several performers, never a take: see :func:`fit`. Rotations are in
six numbers each (the first two columns), the Hips' offset in leg lengths. Left and right are made alike: every cycle counts
once as it is and once in a mirror.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton
from .cycles import SAMPLES, Cycle, mirrored

HARMONICS = 8
"""Of a cycle that are kept; captured walks have nothing above."""
RIDGE = 2.0  # weight of no slope at all, in takes
FEWEST_TAKES, FEWEST_SUBJECTS = 10, 3
"""A model of fewer takes or performers could play one of them back."""


@dataclass(frozen=True)
class Curves:
    """A model of one kind of gait."""

    mean: np.ndarray
    """(2 HARMONICS + 1, D) Fourier coefficients at the mean step and cadence; D = 6 J + 3."""
    slopes: np.ndarray
    """(2, 2 HARMONICS + 1, D) their change with the step [leg lengths] and the cadence [sqrt(g / L)]."""
    centre: np.ndarray
    """(2) mean step [leg lengths] and cadence [sqrt(g / L)]."""
    least: np.ndarray
    """(2) the range that was seen, beyond which the model says what it says at the edge."""
    most: np.ndarray
    takes: int
    subjects: int


def basis(phase: np.ndarray, harmonics: int = HARMONICS) -> np.ndarray:
    """(N, 2 harmonics + 1) 1, cos and sin of each harmonic at phases (N) in cycles."""
    angle = 2 * np.pi * np.outer(phase, np.arange(1, harmonics + 1))
    return np.concatenate([np.ones((len(phase), 1)), np.cos(angle), np.sin(angle)], axis=1)


def coefficients(values: np.ndarray, harmonics: int = HARMONICS) -> np.ndarray:
    """Fourier coefficients (2 harmonics + 1, ...) of values (N, ...) at evenly spaced phases, for :func:`basis`."""
    count = len(values)
    system = basis(np.arange(count) / count, harmonics)
    weights = np.full(system.shape[1], 2 / count)
    weights[0] = 1 / count
    return np.einsum("nk,n...->k...", system * weights, values)


def _features(rig: Skeleton, cycle: Cycle) -> np.ndarray:
    numbers = rotations.sixd_from_matrix(cycle.turns).reshape(SAMPLES, -1)
    return np.concatenate([numbers, cycle.root / rig.leg_length], axis=1)


def pace_of(rig: Skeleton, cycle: Cycle) -> np.ndarray:
    """(2) step [leg lengths] and cadence [sqrt(g / L)] of a cycle."""
    leg = rig.leg_length
    return np.array([cycle.measured.step_length / leg, cycle.measured.cadence * np.sqrt(leg / 9.81)])


def fit(
    rig: Skeleton, cycles: Sequence[Cycle], takes: Sequence[str], subjects: Sequence[str], strict: bool = True
) -> Curves:
    """Fit a model to cycles; ``takes`` and ``subjects`` name the take and the performer of each.

    Every performer counts alike, and so does every take of one. With ``strict``, ValueError for fewer than 10 takes of 3
    performers: such a model could play a take back.
    """
    many, people = len(set(takes)), len(set(subjects))
    if strict and (many < FEWEST_TAKES or people < FEWEST_SUBJECTS):
        raise ValueError(
            f"cycles: expected at least {FEWEST_TAKES} takes of {FEWEST_SUBJECTS} performers, got {many} of {people}; "
            "add captured walks"
        )
    if not cycles:
        raise ValueError("cycles: expected at least one cycle, got none; nobody walks in this motion")
    weights = []
    for take, subject in zip(takes, subjects, strict=True):
        own = {t for t, s in zip(takes, subjects, strict=True) if s == subject}
        weights.append(1 / (people * len(own) * sum(t == take for t in takes)))
    weight = np.array(weights)
    both = [coefficients((_features(rig, c) + _features(rig, mirrored(rig, c))) / 2) for c in cycles]
    found = np.array(both)  # (C, K, D)
    pace = np.array([pace_of(rig, c) for c in cycles])
    centre = weight @ pace
    away = pace - centre
    mean = np.einsum("c,ckd->kd", weight, found)
    spread = np.maximum(np.sqrt(weight @ away**2), 1e-6)
    scaled = away / spread
    system = np.einsum("c,ci,cj->ij", weight, scaled, scaled) + RIDGE / max(many, 1) * np.eye(2)
    right = np.einsum("c,ci,ckd->ikd", weight, scaled, found - mean)
    slopes = np.linalg.solve(system, right.reshape(2, -1)).reshape(right.shape) / spread[:, None, None]
    return Curves(mean, slopes, centre, pace.min(axis=0), pace.max(axis=0), many, people)


def evaluate(model: Curves, phase: np.ndarray, step: float, cadence: float) -> tuple[np.ndarray, np.ndarray]:
    """Local core rotations (N, J, 3, 3) and the Hips' offset (N, 3) [leg lengths] at phases (N).

    ``step`` [leg lengths] and ``cadence`` [sqrt(g / L)] beyond what was seen count as the nearest that was.
    """
    pace = np.clip([step, cadence], model.least, model.most) - model.centre
    numbers = basis(phase) @ (model.mean + np.einsum("i,ikd->kd", pace, model.slopes))
    turns = rotations.matrix_from_sixd(numbers[:, :-3].reshape(len(phase), -1, 6))
    return turns, numbers[:, -3:]


def to_tensors(model: Curves, name: str) -> dict[str, np.ndarray]:
    """The model as arrays of a model file, each named ``name``.FIELD."""
    arrays = {key: np.asarray(getattr(model, key), np.float32) for key in ("mean", "slopes", "centre", "least", "most")}
    arrays["seen"] = np.array([model.takes, model.subjects], np.float32)
    return {f"{name}.{key}": value for key, value in arrays.items()}


def from_tensors(tensors: dict[str, np.ndarray], name: str) -> Curves:
    """The model that :func:`to_tensors` wrote; ValueError where one of its arrays is missing or misshapen."""
    try:
        arrays = {key: np.asarray(tensors[f"{name}.{key}"], np.float64) for key in _ARRAYS}
    except KeyError as error:
        raise ValueError(f"expected the array {error} of a gait model; it is missing") from None
    mean = arrays["mean"]
    if mean.ndim != 2 or len(mean) != 2 * HARMONICS + 1 or arrays["slopes"].shape != (2, *mean.shape):
        raise ValueError(f"{name}: expected curves of {HARMONICS} harmonics, got {mean.shape}")
    takes, subjects = (int(n) for n in arrays.pop("seen"))
    return Curves(**arrays, takes=takes, subjects=subjects)


_ARRAYS = ("mean", "slopes", "centre", "least", "most", "seen")
