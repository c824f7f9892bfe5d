# SPDX-License-Identifier: GPL-3.0-or-later
"""How well a network says what its teacher does: on parameters that neither was trained on, beside ridge regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.rotations import geodesic_angle
from ..learning.card import Figure, ci95
from . import draws, motion_files, network, parameters, representation
from .network import Gait
from .representation import CYCLE, SIZE
from .task import Samples
from .teacher import KinematicTeacher, body

HELD_SEED = 90_001
"""Of the parameters that networks are judged on; trainings use other seeds."""
R2_BAR, LEGS_BAR, SPEED_BAR, STYLE_BAR = 0.99, 1.0, 0.02, 2.5
_LEG_JOINTS = tuple(f"{side}{part}" for side in ("Left", "Right") for part in ("Thigh", "Shin", "Foot"))


@dataclass(frozen=True)
class Held:
    """Parameters and the teacher's cycles of them."""

    values: np.ndarray
    """(N, P)"""
    motions: np.ndarray
    """(N, CYCLE, 101)"""


def held_out(teacher: KinematicTeacher, count: int, seed: int = HELD_SEED) -> Held:
    """Cycles of ``count`` random parameters that no training draws."""
    values = draws.draw(np.random.default_rng([seed, 11]), count)
    return Held(values, np.stack([teacher.motion(v)[:CYCLE] for v in values]))


def predicted(gait: Gait, values: np.ndarray) -> np.ndarray:
    """What the network says (N, CYCLE, 101) for parameters (N, P)."""
    return gait.cycles(values, np.arange(CYCLE) / CYCLE)


def r2(truth: np.ndarray, found: np.ndarray) -> float:
    """Share of the variance that is explained, over all outputs that vary, each by its variance."""
    flat = truth.reshape(-1, SIZE)
    spread = flat.var(axis=0)
    varies = spread > 1e-6
    off = ((found.reshape(-1, SIZE) - flat) ** 2).mean(axis=0)
    return float(1 - off[varies].sum() / spread[varies].sum())


def leg_errors(truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    """(N) mean angle [deg] between hips, knees and ankles of cycles (N, CYCLE, 101)."""
    out = np.empty(len(truth))
    rig = body(parameters.DEFAULT)
    index = representation.require_rig(rig)
    joints = [index[name] for name in _LEG_JOINTS]
    for i, (a, b) in enumerate(zip(truth, found, strict=True)):
        x, y = (representation.decode(rig, numbers).turns[:, joints] for numbers in (a, b))
        out[i] = np.degrees(geodesic_angle(x, y)).mean()
    return out


def speed_errors(values: np.ndarray, found: np.ndarray) -> np.ndarray:
    """(N) [m/s] how far the mean velocity of the Hips, as the network says it, is from the commanded speed."""
    forward = found[:, :, 6].mean(axis=1) * representation.CONTROL_RATE
    return np.abs(forward - parameters.step(values) * 2 / parameters.cycle_seconds(values))


RIDGE_HARMONICS = 4


def ridge(samples: Samples, held: np.ndarray, strength: float = 1e-3) -> np.ndarray:
    """What ridge regression on shares of parameters and harmonics of the phase says (N, CYCLE, 101) for parameters (N, P)."""
    phase = np.arange(CYCLE) / CYCLE

    def rows(values: np.ndarray) -> np.ndarray:
        x = network.inputs(np.repeat(values, CYCLE, axis=0), np.tile(phase, len(values)), RIDGE_HARMONICS)
        return np.concatenate([x, np.ones((len(x), 1), np.float32)], axis=1).astype(np.float64)

    x, y = rows(samples.params), samples.motions.reshape(-1, SIZE).astype(np.float64)
    solved = np.linalg.solve(x.T @ x + strength * len(x) * np.eye(x.shape[1]), x.T @ y)
    return np.asarray((rows(held) @ solved).reshape(len(held), CYCLE, SIZE))


def samples_of(files: list, cycles: int) -> Samples:
    """The first ``cycles`` cycles of motion files, one cycle of each motion."""
    motions, params = [], []
    for one, values in motion_files.stream(files):
        motions.append(one[:, :CYCLE])
        params.append(values)
    return Samples(np.concatenate(motions)[:cycles], np.concatenate(params)[:cycles])


def distilled(gait: Gait, held: Held, samples: Samples, seed: int = 0) -> tuple[Figure, ...]:
    """The figures of a network against its teacher, beside ridge regression fitted to ``samples``."""
    rng = np.random.default_rng([seed, 13])
    found = predicted(gait, held.values)
    rival = ridge(samples, held.values)
    count = len(held.values)
    groups = np.arange(count)
    legs, rival_legs = leg_errors(held.motions, found), leg_errors(held.motions, rival)
    speeds, rival_speeds = speed_errors(held.values, found), speed_errors(held.values, rival)
    r2_name = "held-out parameters: R2 of the network against the teacher"
    return (
        Figure(
            r2_name, r2(held.motions, found), "1", "higher", count, R2_BAR, None, {"ridge": r2(held.motions, rival)}
        ),
        Figure(
            "held-out parameters: leg joints",
            float(legs.mean()),
            "deg",
            "lower",
            count,
            LEGS_BAR,
            ci95(legs, groups, rng),
            {"ridge": float(rival_legs.mean())},
        ),
        Figure(
            "held-out parameters: speed error from the root",
            float(speeds.mean()),
            "m/s",
            "lower",
            count,
            SPEED_BAR,
            ci95(speeds, groups, rng),
            {"ridge": float(rival_speeds.mean())},
        ),
    )
