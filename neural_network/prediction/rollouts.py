# SPDX-License-Identifier: GPL-3.0-or-later
"""How good predictors are: the next frame, many frames each from those said before, and free runs, judged from outside.

Distances are of joints in millimetres. What the source document measures, mean square errors of the 56 degrees of freedom and of their
velocities, R2, and how errors grow, is computed for every predictor alike, from its motion, whatever states it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..core import forward_kinematics as fk
from ..core import metrics
from ..core.skeleton import Skeleton
from ..motion import features, states
from . import gaps
from .gaps import HISTORY, Gaps
from .library import FPS, Take
from .predictor import Predictor

AHEAD = 60
EVERY = 5  # frames between starts
AT_ONCE = 256
HOLD = "hold the pose"


@dataclass(frozen=True)
class Judged:
    """Motion that follows a beginning, beside what truly follows."""

    local: np.ndarray
    """(G, F) [mm] mean distance of joints, Hips at the origin."""
    distance: np.ndarray
    """(G, F) [mm] mean distance of joints where they are."""
    speed: np.ndarray
    """(G, F) [m/s] of the Hips along the ground."""
    places: np.ndarray
    """(F) mean square error of the 56 degrees of freedom [m^2, rad^2]."""
    speeds: np.ndarray
    """(F) of their velocities [m^2/s^2, rad^2/s^2]."""
    explained: np.ndarray
    """(F) R2: the share of the variance of both over all starts that is explained."""


def starts(takes: Sequence[Take], frames: int = AHEAD, every: int = EVERY) -> Gaps | None:
    """Beginnings of ten frames and what follows them, from every so many frames of takes; seen from their last known frames."""
    turns, root = [], []
    for take in takes:
        for first in range(0, len(take.root) - HISTORY - frames + 1, every):
            rows = slice(first, first + HISTORY + frames)
            turns.append(take.turns[rows])
            root.append(take.root[rows])
    return gaps.local(Gaps(np.array(turns), np.array(root), HISTORY, 0))[0] if turns else None


def said(found: Predictor, body: Skeleton, true: Gaps) -> np.ndarray:
    """Rows (G, F, R) that a predictor says follow the known frames."""
    known, frames = slice(0, true.before), true.root.shape[1] - true.before
    parts = [
        found.rows(body, true.turns[g : g + AT_ONCE, known], true.root[g : g + AT_ONCE, known], frames)
        for g in range(0, len(true.root), AT_ONCE)
    ]
    return np.concatenate(parts)


def held(body: Skeleton, true: Gaps) -> np.ndarray:
    """Rows (G, F, R): the last pose, gliding on."""
    rows = gaps.interpolated(true, features.to_rows(true.turns, true.root, body.leg_length), body.leg_length)
    return rows[:, true.before :]


def judge(body: Skeleton, rows: np.ndarray, true: Gaps) -> Judged:
    """What is wrong with rows (G, F, R)."""
    turns, root = features.from_rows(np.asarray(rows, float), body.leg_length)
    made = fk.walk(body.parents, turns, body.offsets, root)[1]
    ahead = slice(true.before, None)
    heads = fk.walk(body.parents, true.turns, body.offsets, true.root)[1][:, ahead]
    local = (made - made[:, :, :1]) - (heads - heads[:, :, :1])
    last = true.root[:, true.before - 1]
    steps = np.diff(np.concatenate([last[:, None], root], axis=1)[..., :2], axis=1)
    known = slice(true.before - 1, true.before)
    numbers = []
    for own_turns, own_root in ((turns, root), (true.turns[:, ahead], true.root[:, ahead])):
        whole = np.concatenate([true.turns[:, known], own_turns], axis=1)
        ways = np.concatenate([true.root[:, known], own_root], axis=1)
        numbers.append(states.of_windows("dof56", body, whole, ways)[:, 1:])
    off = (numbers[0] - numbers[1]) ** 2
    spread = ((numbers[1] - numbers[1].mean(axis=0)) ** 2).sum(axis=(0, 2))
    return Judged(
        np.linalg.norm(local[:, :, 1:], axis=-1).mean(axis=-1) * metrics.MM,
        np.linalg.norm(made - heads, axis=-1).mean(axis=-1) * metrics.MM,
        np.linalg.norm(steps, axis=-1) * FPS,
        off[..., :56].mean(axis=(0, 2)),
        off[..., 56:].mean(axis=(0, 2)),
        1 - off.sum(axis=(0, 2)) / np.maximum(spread, 1e-12),
    )


def alive(body: Skeleton, found: Predictor, takes: Sequence[Take], frames: int) -> tuple[float, int]:
    """Share of free runs of ``frames`` frames whose poses differ, in their last hundred, by more than half of the takes' own, and how
    many there were: from every thirtieth frame, of long takes from some."""
    living = []
    for take in takes:
        heads = fk.walk(body.parents, take.turns, body.offsets, take.root)[1]
        own = float((heads - heads[:, :1]).std(axis=0).mean())
        begins = np.arange(0, len(take.root) - HISTORY, 30)[:: 1 + len(take.root) // 300]
        if not len(begins):
            continue
        known = [slice(b, b + HISTORY) for b in begins]
        turns, root = np.array([take.turns[k] for k in known]), np.array([take.root[k] for k in known])
        local = gaps.local(Gaps(turns, root, HISTORY, 0))[0]
        rows = found.rows(body, local.turns, local.root, frames)[:, -100:]
        made_turns, made_root = features.from_rows(rows, body.leg_length)
        made = fk.walk(body.parents, made_turns, body.offsets, made_root)[1]
        spread = (made - made[:, :, :1]).std(axis=1).mean(axis=(1, 2))
        living += ((spread > 0.5 * own) & (spread < 2 * own)).tolist()
    return (float(np.mean(living)) if living else float("nan")), len(living)


def summary(judged: Judged) -> dict[str, float]:
    """The figures of one predictor, by name."""
    local, mean = judged.local, judged.local.mean(axis=0)
    rmse = np.sqrt((local**2).mean(axis=0))
    at = [n for n in (1, 10, 30, 60) if n <= local.shape[1]]
    return {
        **{f"MPJPE after {n} [mm]": float(mean[n - 1]) for n in at},
        "mean MPJPE [mm]": float(mean.mean()),
        "global error at the end [mm]": float(judged.distance[:, -1].mean()),
        "next frame: position MSE": float(judged.places[0]),
        "next frame: velocity MSE": float(judged.speeds[0]),
        "next frame: R2": float(judged.explained[0]),
        "all frames: position MSE": float(judged.places.mean()),
        "all frames: velocity MSE": float(judged.speeds.mean()),
        "all frames: R2": float(judged.explained.mean()),
        "RMSE at the end over RMSE of the next frame": float(rmse[-1] / rmse[0]),
        "growth exponent": growth(mean),
    }


def growth(mean: np.ndarray) -> float:
    """The exponent of frames ahead by which errors (F) grow, fitted on a logarithmic scale; below 1 is sublinear."""
    frames = np.log(np.arange(1, len(mean) + 1))
    return float(np.polyfit(frames, np.log(np.maximum(mean, 1e-9)), 1)[0])


def measured(found: Mapping[str, Predictor], body: Skeleton, takes: Sequence[Take]) -> dict[str, Judged]:
    """Predictors by name, and the held pose; empty where no take is long enough."""
    true = starts(takes)
    if true is None:
        return {}
    out = {name: judge(body, said(one, body, true), true) for name, one in found.items()}
    return {**out, HOLD: judge(body, held(body, true), true)}
