# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw docs/pictures/rooms.svg: the rooms of the package from top to bottom, as ``tests/test_walls.py`` has them.

``python -m tools.rooms_picture``, with matplotlib installed.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "rooms.svg"
HERE = Path(__file__).resolve().parents[1] / "neural_network"
COLORS = ("#e8eef7", "#dbe7f5", "#e5f2e5", "#e5f2e5", "#fdf1dc", "#fdf1dc", "#fbe4e0", "#eeeeee")


def table(name: str) -> tuple[tuple[str, ...], ...]:
    """LEVELS or FEATURES of the test of walls."""
    tree = ast.parse((OUT.parents[2] / "tests" / "test_walls.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return tuple(map(tuple, ast.literal_eval(node.value)))
    raise LookupError(f"tests/test_walls.py has no {name}")


def main() -> int:
    """Draw every row of rooms that exist, and the features of ``blender`` beside it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "rooms", "font.size": 11})
    there = [
        [name for name in row if (HERE / name).exists() or (HERE / f"{name}.py").exists()] for row in table("LEVELS")
    ]
    rows = [row for row in there if row]
    figure, axis = plt.subplots(figsize=(9, 0.75 * len(rows) + 0.6))
    for place, (row, color) in enumerate(zip(rows, COLORS, strict=False)):
        width = 10 / len(row)
        for number, name in enumerate(row):
            box = plt.Rectangle((number * width + 0.05, -place), width - 0.1, 0.8, fc=color, ec="#555555")
            axis.add_patch(box)
            words = f"{name}/" if name != "__main__" else name
            if name == "blender":
                words += "   " + " > ".join(", ".join(features) for features in table("FEATURES"))
            axis.text((number + 0.5) * width, -place + 0.4, words, ha="center", va="center")
    axis.annotate("imports", (10.3, -len(rows) + 1.1), (10.3, 0.6), arrowprops={"arrowstyle": "->"}, ha="center")
    axis.set(xlim=(-0.1, 10.8), ylim=(-len(rows) + 0.9, 1))
    axis.axis("off")
    figure.savefig(OUT, format="svg", metadata={"Date": None}, bbox_inches="tight")
    sys.stdout.write(f"{OUT}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
