# SPDX-License-Identifier: GPL-3.0-or-later
"""The film strip of docs/gait.md: ``python -m tools.gait_picture docs/pictures/gait.png``. It needs matplotlib."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from neural_network.core.contacts import foot_points
from neural_network.core.messages import require
from neural_network.gait import network, parameters, teacher, walks
from neural_network.ik import foot_pins

ROWS: tuple[tuple[str, dict[str, float]], ...] = (
    ("walk, 1.3 m/s", {"speed": 1.3}),
    ("limp left", {"speed": 0.9, "limp_left": 1.0}),
    ("sneak", {"speed": 0.8, "sneak": 1.0}),
    ("run, 3.2 m/s", {"speed": 3.2}),
    ("12 degrees uphill, along an arc", {"speed": 1.1, "slope": 12.0, "turn": 0.15}),
)
LEFT, RIGHT, MIDDLE = "#1c7ed6", "#d0620a", "#444444"
FIGURES, APART = 16, 0.5  # of a row, and the distance between them [m]


def main(argv: Sequence[str] | None = None) -> int:
    """Draw every row as figures from the side, left limbs blue, right ones orange."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output")
    args = parser.parse_args(argv)
    require("matplotlib", "uv run --group report python -m tools.gait_picture installs it")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    gait = network.load()
    figure, axes = plt.subplots(len(ROWS), 1, figsize=(11, 9))
    for ax, (name, given) in zip(axes, ROWS, strict=True):
        values = parameters.vector(given)
        rig = teacher.body(values)
        frames = round(2 * float(parameters.cycle_seconds(values)) * 60)
        walk = walks.walk(gait, values, frames, 60.0)
        turned, heads = foot_pins.forward(rig, walk.turns, walk.root)
        points = foot_points(rig, turned, heads)
        for number, i in enumerate(np.linspace(0, frames - 1, FIGURES).astype(int)):
            shift = np.array([0, heads[i, 0, 1] + number * APART, 0])
            _draw(ax, rig, heads[i] - shift, points[i] - shift)
        ax.set_aspect("equal")
        ax.set_xlim(-0.8, FIGURES * APART + 0.2)
        ax.set_title(name, fontsize=9, loc="left", pad=2)
        ax.axis("off")
    figure.tight_layout(pad=0.3)
    figure.savefig(args.output, dpi=80)
    return 0


def _draw(ax: object, rig: object, heads: np.ndarray, points: np.ndarray) -> None:
    for j, parent in enumerate(rig.parents.tolist()):  # type: ignore[attr-defined]
        name = rig.names[j]  # type: ignore[attr-defined]
        color = LEFT if name.startswith("Left") else RIGHT if name.startswith("Right") else MIDDLE
        if parent >= 0:
            ends = heads[[parent, j]]
            ax.plot(-ends[:, 1], ends[:, 2], color=color, lw=1.3)  # type: ignore[attr-defined]
    head = heads[rig.names.index("Head")]  # type: ignore[attr-defined]
    ax.plot(-head[1], head[2] + 0.09, "o", color=MIDDLE, ms=6)  # type: ignore[attr-defined]
    for foot, color in ((0, LEFT), (1, RIGHT)):
        ax.plot(-points[foot, :, 1], points[foot, :, 2], color=color, lw=2)  # type: ignore[attr-defined]


if __name__ == "__main__":
    raise SystemExit(main())
