# SPDX-License-Identifier: GPL-3.0-or-later
"""The plots of ``benchmarks.peers``: joint errors as bars, and drift over a track, of the network and six rivals, each with its name.

``python -m benchmarks.peers_plots [PAGE.md]`` draws them again from the tables of a page that was measured before.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neural_network.core.files import whole_file

OURS, RIVAL, PLAIN = "#c8102e", "#1f5fa8", "#8a8f98"
SHOWN = {  # label in the tables -> how it is called in the plots
    "network + 3 steps": ("Neural IK", OURS),
    "nearest training frame + 10 steps": ("nearest training frame + steps", PLAIN),
    "Blender IK": ("Blender IK", RIVAL),
    "Blender iTaSC": ("Blender iTaSC", RIVAL),
    "mink": ("mink", RIVAL),
    "pink": ("pink", RIVAL),
    "JAX (optimistix)": ("JAX (optimistix)", RIVAL),
    "SciPy least_squares": ("SciPy least_squares", RIVAL),
}
TITLES = ((False, "five positions given"), (True, "positions and rotations given"))


@dataclass(frozen=True)
class Bar:
    """One solver."""

    label: str
    mpjpe_mm: float
    early_mm: float
    """Joint error at frame 10 of a track."""
    late_mm: float
    """The same at its last frame."""


def draw(rows: Mapping[bool, Sequence[Bar]], folder: Path) -> list[str]:
    """Write both plots as PNG and SVG; returns the files. ``rows``: without and with orientations."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "peers", "font.size": 11, "axes.spines.top": False, "axes.spines.right": False}
    )
    folder.mkdir(parents=True, exist_ok=True)
    written = []

    def finish(figure: Any, name: str) -> None:
        for ending in ("png", "svg"):
            path = folder / f"{name}.{ending}"
            with whole_file(path) as out:
                figure.savefig(out, format=ending, dpi=110, metadata={"Date": None} if ending == "svg" else None)
            written.append(str(path))
        plt.close(figure)

    kept = {given: [row for row in rows[given] if row.label in SHOWN] for given, _ in TITLES}
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", sharey=True)
    for axis, (given, title) in zip(axes, TITLES, strict=True):
        for place, row in enumerate(kept[given]):
            name, color = SHOWN[row.label]
            axis.barh(place, row.mpjpe_mm, color=color, height=0.7)
            axis.text(row.mpjpe_mm + 0.3, place, f"{row.mpjpe_mm:.1f}", va="center")
        axis.set_yticks(range(len(kept[given])), [SHOWN[row.label][0] for row in kept[given]])
        axis.set(title=title, xlabel="joints from the captured pose, mean [mm]")
        axis.set_xlim(0, 1.12 * max((row.mpjpe_mm for row in kept[given]), default=1.0))
    if axes[0].patches:
        axes[0].invert_yaxis()
    finish(figure, "peers_error")

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
    top = max((max(row.early_mm, row.late_mm) for found in kept.values() for row in found), default=1.0)
    for axis, (given, title) in zip(axes, TITLES, strict=True):
        lowest = -1e9
        for row in sorted(kept[given], key=lambda r: r.late_mm):
            name, color = SHOWN[row.label]
            axis.plot((0, 1), (row.early_mm, row.late_mm), "o-", color=color, lw=2.5 if color == OURS else 1.5)
            lowest = max(row.late_mm, lowest + 0.055 * top)  # names do not cover each other
            axis.annotate(f"{name} {row.late_mm:.1f}", (1, row.late_mm), (1.06, lowest), va="center", color=color)
        axis.set(title=title, xlim=(-0.1, 2.0), ylim=(0, 1.25 * top))
        axis.set_xticks((0, 1), ("frame 10", "frame 119"))
        axis.spines["bottom"].set_visible(False)
    axes[0].set_ylabel("joints from the captured pose, mean [mm]")
    finish(figure, "peers_drift")
    return written


def read(page: str) -> dict[bool, list[Bar]]:
    """The rows of the two tables of a page that ``benchmarks.peers`` wrote."""
    out: dict[bool, list[Bar]] = {}
    for given, heading in ((False, "## Positions alone"), (True, "## With orientations")):
        out[given] = []
        for line in page.split(heading, 1)[1].split("\n## ", 1)[0].splitlines():
            cells = [cell.strip().strip("*") for cell in line.strip("|").split("|")]
            if len(cells) < 10 or "->" not in cells[9] or not cells[4].replace(".", "").isdigit():
                continue
            early, late = (float(word) for word in cells[9].split("->"))
            out[given].append(Bar(cells[0], float(cells[4]), early, late))
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the plots again; they go beside the page, in ``pictures``."""
    words = sys.argv[1:] if argv is None else argv
    page = Path(words[0]) if words else Path("docs/benchmarks.md")
    for path in draw(read(page.read_text("utf-8")), page.parent / "pictures"):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
