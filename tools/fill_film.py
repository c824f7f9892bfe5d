# SPDX-License-Identifier: GPL-3.0-or-later
"""A film of gaps filled between keys of a captured take: interpolation, the nearest window, Fill, and the capture, side by side.

``python -m tools.fill_film TAKES.npz OUT.gif --take 07_01 --keys 10,40,70``: the take's subject, and whoever figures are measured on,
are in no library and in no weights. OUT may also be a picture (.png): then every so many frames stand in a row. Captured poses are
in the film, so it is not for the repository. Needs matplotlib (``uv run --group report``).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from neural_network.core import metrics
from neural_network.core.contacts import foot_points
from neural_network.core.messages import require
from neural_network.core.skeleton import Skeleton
from neural_network.ik.foot_pins import forward
from neural_network.motion import features
from neural_network.prediction import figures, filling, gaps, library, material, network
from neural_network.prediction.gaps import Gaps
from neural_network.prediction.library import FPS, Library, Take

from .repair_picture import stick_figure

HELD = ("07", "16", "49")
"""Subjects that are judged on."""
APART = 1.5  # [m] between figures of a film
STRIP, NARROW = 12, 0.9  # figures in a row of a picture, and [m] between them
DPI = 80
Motion = tuple[np.ndarray, np.ndarray]
"""Turns (F, J, 3, 3) and root (F, 3)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Fill, and draw, with how far each answer is off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("takes", type=Path, help="captured motion on the reference rig, clips named SUBJECT_TAKE")
    parser.add_argument("output", type=Path, help="film (.gif) or picture (.png)")
    parser.add_argument("--take", required=True, help="the clip that is filled")
    parser.add_argument("--keys", required=True, help="frames at 30 a second that are known, between commas")
    args = parser.parse_args(argv)
    require("matplotlib", "uv run --group report python -m tools.fill_film installs it")
    body, takes = material.read([args.takes], only_numbered=True)
    take = next((one for one in takes if one.name == args.take), None)
    if take is None:
        parser.error(f"--take: expected one of {', '.join(sorted(one.name for one in takes))}, got {args.take}")
    subject = material.subject_of(take.name)
    own = library.of_takes(body, material.without(takes, (*HELD, subject)))
    learned = network.load()
    if any(material.subject_of(name) == subject for name in learned.about["takes"]):
        parser.error(f"--take: expected a take of a subject that the weights have not seen, got one of {subject}")
    keys = filling.checked_keys([int(word) for word in args.keys.split(",")], len(take.root), FPS).tolist()
    made = answers(own, learned, Take(take.name, *library.at_rate(take)), keys)
    seen = {name: figures.look(body, *motion).heads for name, motion in made.items()}
    missing = np.setdiff1d(np.arange(keys[0], keys[-1]), keys) - keys[0]
    for name, heads in seen.items():
        off = metrics.l2p(heads[missing], seen["captured"][missing])
        made[f"{name}, {off:.0f} mm off" if off else name] = made.pop(name)
    (strip if args.output.suffix == ".png" else film)(args.output, body, made, [key - keys[0] for key in keys])
    return 0


def answers(own: Library, learned: network.Network, take: Take, keys: list[int]) -> dict[str, Motion]:
    """From the first key to the last, by whom they are."""
    whole = slice(keys[0], keys[-1] + 1)
    straight = features.between_keys(take.turns, take.root, keys)
    near_turns, near_root = take.turns.copy(), take.root.copy()
    for a, b in pairwise(keys):
        first = max(0, a - gaps.HISTORY + 1)
        gap = Gaps(take.turns[None, first : b + 1], take.root[None, first : b + 1], a - first + 1, 1)
        local, place = gaps.local(gap)
        rows = figures.plain_nearest(own, local)
        turns, root = features.put_at(place, *features.from_rows(rows, own.body.leg_length))
        near_turns[a + 1 : b], near_root[a + 1 : b] = turns[0, a - first + 1 : -1], root[0, a - first + 1 : -1]
    filled = filling.fill(own.body, take.turns[: keys[-1] + 1], take.root[: keys[-1] + 1], keys, own, network=learned)
    every = {
        "interpolation": straight,
        "nearest window, ends blended": (near_turns, near_root),
        "Fill": (filled.turns, filled.root),
        "captured": (take.turns, take.root),
    }
    return {name: (turns[whole], root[whole]) for name, (turns, root) in every.items()}


def _sight(
    body: Skeleton, made: dict[str, Motion]
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray]:
    """Heads and points of the feet of every motion; the direction that is to the right; and where the captured Hips are along it."""
    posed = [forward(body, *motion) for motion in made.values()]
    looks = [(heads, foot_points(body, turned, heads)) for turned, heads in posed]
    root = looks[-1][0][:, 0, :2]
    way = root[-1] - root[0]
    ahead = way / np.linalg.norm(way) if np.linalg.norm(way) > 0.3 else np.array([1.0, 0.0])
    return looks, ahead, root @ ahead


def film(path: Path, body: Skeleton, made: dict[str, Motion], keys: list[int]) -> None:
    """One figure for each motion, side by side; the camera goes along with the captured one."""
    import matplotlib.pyplot as plt
    from matplotlib.animation import FuncAnimation, PillowWriter

    looks, ahead, middle = _sight(body, made)
    drawing, ax = plt.subplots(figsize=(11, 4.2))

    def draw(i: int) -> None:
        ax.clear()
        for place, ((heads, points), name) in enumerate(zip(looks, made, strict=True)):
            stick_figure(ax, body, heads[i], points[i], ahead, place * APART - middle[i])
            ax.text(place * APART, 1.95, name.replace(", ", "\n"), ha="center", fontsize=9)
        ticks = np.arange(-2, APART * len(made) + 1, 0.25) - (middle[i] - middle[0]) % 0.25
        ax.plot(ticks, np.zeros(len(ticks)), "|", color="#999999", ms=5)
        ax.text(-0.9, -0.25, f"frame {i}{', a key' if i in keys else ''}", fontsize=9)
        _bare(ax, APART * (len(made) - 0.4))

    FuncAnimation(drawing, draw, len(middle)).save(path, PillowWriter(fps=int(FPS) // 2), dpi=DPI)  # type: ignore[arg-type]
    plt.close(drawing)


def strip(path: Path, body: Skeleton, made: dict[str, Motion], keys: list[int]) -> None:
    """One row for each motion, figures of the same frames below each other; keys are marked."""
    import matplotlib.pyplot as plt

    looks, ahead, middle = _sight(body, made)
    drawing, axes = plt.subplots(len(made), 1, figsize=(13, 2.6 * len(made)))
    frames = np.linspace(0, len(middle) - 1, STRIP).astype(int)
    for ax, (heads, points), name in zip(axes, looks, made, strict=True):
        for place, i in enumerate(frames.tolist()):
            stick_figure(ax, body, heads[i], points[i], ahead, place * NARROW - middle[i])
            ax.text(place * NARROW, -0.2, f"{i}, key" if i in keys else str(i), ha="center", fontsize=7)
        ax.set_title(name, fontsize=9, loc="left", pad=1)
        _bare(ax, STRIP * NARROW - 0.4)
    drawing.tight_layout(pad=0.3)
    drawing.savefig(path, dpi=DPI)
    plt.close(drawing)


def _bare(ax: Any, right: float) -> None:
    ax.axhline(0, color="#999999", lw=0.6)
    ax.set_aspect("equal")
    ax.set_xlim(-0.9, right)
    ax.set_ylim(-0.3, 2.15)
    ax.axis("off")


if __name__ == "__main__":
    raise SystemExit(main())
