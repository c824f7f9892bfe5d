# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of predictors on takes that they have not seen: the next frame, rollouts, free runs; and the curves of the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from ..core.skeleton import Skeleton
from ..learning import page
from ..learning.card import Figure
from . import material, predictor, rollouts
from .library import FPS, Take
from .predictor import Predictor
from .rollouts import HOLD, Judged

HIGHER = ("R2",)
AIMS = {
    "next frame: position MSE": "the source asks for less than 0.001",
    "next frame: velocity MSE": "the source asks for less than 0.5",
    "next frame: R2": "the source asks for more than 0.8",
    "RMSE at the end over RMSE of the next frame": "the source asks for less than 10, which a pose held still comes near to",
    "growth exponent": "the source asks for less than 1",
}
"""What the source document asks for, which is told and not aimed at: most of it, a motion that stands still passes too."""


def loaded(paths: Sequence[Path], left_out: Sequence[str]) -> dict[str, Predictor]:
    """Predictors by mode, or by file where two have the same mode; ValueError for one that has learned from what is judged on."""
    out: dict[str, Predictor] = {}
    for path in paths:
        found = predictor.load(path)
        require_unseen(found, path, left_out)
        out[found.mode if found.mode not in out else path.name] = found
    return out


def require_unseen(found: Predictor, path: Path, left_out: Sequence[str]) -> None:
    """Raise ValueError for a predictor that has learned from one of these subjects or takes."""
    seen = sorted(t for t in found.about.get("takes", []) if material.subject_of(t) in left_out or t in left_out)
    if seen:
        raise ValueError(
            f"{path.name}: expected a predictor that learned nothing from what it is judged on, got {', '.join(seen[:4])}"
        )


def held_out(path: Path, takes: Sequence[Take]) -> list[Take]:
    """The takes that a file of :mod:`.step_trainer` holds out for test; ValueError for another file, or where none is in the data."""
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["test"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"--split_file: expected a file that --split_file of the trainer wrote, got {path} ({error})"
        ) from None
    found = [take for take in takes if isinstance(names, list) and take.name in names]
    if not found:
        raise ValueError(f"--split_file: expected takes of the data held out for test in {path.name}, found none")
    return found


def measured(
    found: Mapping[str, Predictor], body: Skeleton, splits: Mapping[str, Sequence[Take]], frames: int
) -> Iterator[Figure]:
    """Every figure of predictors, each the first one's with the others and the held pose as rivals; none of them has a bar."""
    if not found:
        return
    for split, takes in splits.items():
        true = rollouts.starts(takes)
        if true is None:
            continue
        judged = {name: rollouts.summary(one) for name, one in rollouts.measured(found, body, takes).items()}
        first, *others = judged
        for key, value in judged[first].items():
            rivals = {name: judged[name][key] for name in others}
            aim = f" ({AIMS[key]})" if key in AIMS else ""
            unit = "mm" if key.endswith("[mm]") else "1"
            better: Literal["lower", "higher"] = "higher" if key.endswith(HIGHER) else "lower"
            name = f"{split}: {first} alone, {key.removesuffix(' [mm]')}{aim}"
            yield Figure(name, value, unit, better, len(true.root), None, None, rivals)
        living = {name: rollouts.alive(body, one, takes, frames) for name, one in found.items()}
        share, count = living.pop(first)
        rest = {name: value for name, (value, _) in living.items()}
        yield Figure(
            f"{split}: {first} alone, {frames} frames, alive", share, "share", "higher", count, None, None, rest
        )


def sections(found: Mapping[str, Predictor], body: Skeleton, splits: Mapping[str, Sequence[Take]]) -> list[str]:
    """Sections of the page: how errors grow, and how fast the Hips are, beside the captured ones."""
    parts = []
    for split, takes in splits.items():
        judged = rollouts.measured(found, body, takes) if found else {}
        if not judged:
            continue
        true = rollouts.starts(takes)
        assert true is not None
        rows = np.concatenate([true.root[:, true.before - 1 : true.before], true.root[:, true.before :]], axis=1)
        speed = np.linalg.norm(np.diff(rows[..., :2], axis=1), axis=-1) * FPS
        errors = {name: one.local.mean(axis=0) for name, one in judged.items()}
        speeds = {**{name: one.speed.mean(axis=0) for name, one in judged.items()}, "captured": speed.mean(axis=0)}
        title = f"{split}: predictors alone"
        parts.append(
            page.section(f"{title}, how errors grow", lines(errors, "mm", "MPJPE, Hips at the origin", f"{split}-grow"))
        )
        parts.append(
            page.section(f"{title}, speed of the root", lines(speeds, "m/s", "mean speed of the Hips", f"{split}-root"))
        )
        parts.append(page.section(f"{title}, one motion", _one(judged, true.root, true.before, f"{split}-one")))
    return parts


def lines(curves: Mapping[str, np.ndarray], unit: str, title: str, name: str) -> str:
    """One line (F) for each name over the frames ahead."""
    drawing, axes = page.figure(1, 1, 9.6, 3.6)
    ax = axes[0, 0]
    for method, values in curves.items():
        wide, style = (2.4, "-") if method == "captured" else (1.4, "--" if method == HOLD else "-")
        ax.plot(np.arange(1, len(values) + 1), values, lw=wide, ls=style, label=method)
    ax.set_xlabel("frames ahead (30 a second)")
    ax.set_ylabel(f"{title} [{unit}]")
    ax.legend(frameon=False, labelcolor=page.INK, fontsize=8)
    return page.picture(drawing, f"{title} over the frames ahead, by method", f"Means over all starts: {title}.", name)


def _one(judged: Mapping[str, Judged], root: np.ndarray, before: int, name: str) -> str:
    """The root's speed in one motion, the middle one of all, frame by frame: whether what is said lags behind."""
    middle = len(root) // 2
    true = np.linalg.norm(np.diff(root[middle, before - 1 :, :2], axis=0), axis=-1) * FPS
    curves = {**{method: one.speed[middle] for method, one in judged.items()}, "captured": true}
    return lines(curves, "m/s", "speed of the Hips in one motion", name)
