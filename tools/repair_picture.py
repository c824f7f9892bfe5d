# SPDX-License-Identifier: GPL-3.0-or-later
"""Film strips of clips before and after a repair: ``python -m tools.repair_picture BEFORE.npz AFTER.npz OUT.png``. Needs matplotlib."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neural_network.core.contacts import foot_points
from neural_network.core.files import read_archive
from neural_network.core.messages import require
from neural_network.core.skeleton import Skeleton
from neural_network.ik.foot_pins import forward
from neural_network.learning.arguments import number
from neural_network.motion import pose_set
from neural_network.rigs import on_body

LEFT, RIGHT, MIDDLE, FLOOR = "#1c7ed6", "#d0620a", "#444444", "#999999"
FIGURES = 12
"""Of a row."""
APART = 0.75  # [m] between them


def main(argv: Sequence[str] | None = None) -> int:
    """Each clip is two rows of figures, before and after, seen from the side they move along, and where heels, balls and tips of
    standing feet were on the floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("output")
    parser.add_argument(
        "--clips", type=number(int, 0, 100_000), nargs="+", help="numbers of the clips; all where it is left out"
    )
    args = parser.parse_args(argv)
    require("matplotlib", "uv run --group report python -m tools.repair_picture installs it")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = [pose_set.load(path) for path in (args.before, args.after)]
    contact = read_archive(args.after, "contacts", ("contact",))["contact"]
    who = on_body.found(sets[0].skeleton)
    clips = args.clips or range(len(sets[0].clip_names))
    figure, axes = plt.subplots(2 * len(clips), 2, figsize=(17, 3.4 * len(clips)), width_ratios=(5, 2), squeeze=False)
    for row, clip in enumerate(clips):
        rows = sets[0].rows(clip)
        for k, (poses, word) in enumerate(zip(sets, ("before", "after"), strict=True)):
            turns, root = on_body.to_body(who, poses.rot[rows], poses.root_pos[rows])
            side, floor = axes[2 * row + k]
            strip(side, who.body, turns, root)
            side.set_title(f"{poses.clip_names[clip]}, {word}", fontsize=9, loc="left", pad=2)
            _standing(floor, who.body, turns, root, contact[rows])
    figure.tight_layout(pad=0.3)
    figure.savefig(args.output, dpi=70)
    return 0


def strip(ax: Any, body: Skeleton, turns: np.ndarray, root: np.ndarray) -> None:
    """Draw figures of a motion, evenly spread over it, from the side that it moves along."""
    turned, heads = forward(body, turns, root)
    points = foot_points(body, turned, heads)
    way = root[-1, :2] - root[0, :2]
    ahead = way / np.linalg.norm(way) if np.linalg.norm(way) > 0.5 else np.array([0.0, -1])
    frames = np.linspace(0, len(root) - 1, min(FIGURES, len(root))).astype(int)
    for place, i in enumerate(frames):
        shift = place * APART - heads[i, 0, :2] @ ahead
        stick_figure(ax, body, heads[i], points[i], ahead, shift)
    ax.axhline(0, color=FLOOR, lw=0.6)
    ax.set_aspect("equal")
    ax.set_xlim(-0.8, FIGURES * APART)
    ax.axis("off")


def stick_figure(
    ax: Any, body: Skeleton, heads: np.ndarray, points: np.ndarray, ahead: np.ndarray, shift: float
) -> None:
    """Draw one pose on axes, seen from the side: along the ground, moved by ``shift``, and up."""
    along = heads[:, :2] @ ahead + shift
    for j, parent in enumerate(body.parents.tolist()):
        if parent >= 0:
            name = body.names[j]
            color = LEFT if name.startswith("Left") else RIGHT if name.startswith("Right") else MIDDLE
            ax.plot(along[[parent, j]], heads[[parent, j], 2], color=color, lw=1.2)
    head = body.names.index("Head")
    ax.plot(along[head], heads[head, 2] + 0.09, "o", color=MIDDLE, ms=5)
    for foot, color in ((0, LEFT), (1, RIGHT)):
        ax.plot(points[foot, :, :2] @ ahead + shift, points[foot, :, 2], color=color, lw=2)


def _standing(ax: Any, body: Skeleton, turns: np.ndarray, root: np.ndarray, contact: np.ndarray) -> None:
    points = foot_points(body, *forward(body, turns, root))
    for foot, color in ((0, LEFT), (1, RIGHT)):
        for k in range(3):
            there = points[contact[:, foot], foot, k]
            ax.plot(there[:, 0], there[:, 1], ".", color=color, ms=2 + k)
    ax.plot(root[:, 0], root[:, 1], color=MIDDLE, lw=0.6)
    ax.set_aspect("equal", adjustable="datalim")
    ax.tick_params(labelsize=6)


if __name__ == "__main__":
    raise SystemExit(main())
