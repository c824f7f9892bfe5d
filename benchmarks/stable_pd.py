# SPDX-License-Identifier: GPL-3.0-or-later
"""Stable PD against explicit PD on the body of the tables: ``python -m benchmarks.stable_pd [OUT.svg]``.

The root is held; all other joints are driven from the T-pose to a pose a tenth of a radian away, at several numbers of steps a second.
Prints how long each control holds; with a file it draws the largest error of any joint over time (needs matplotlib).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neural_network.core import rotations
from neural_network.core.messages import require
from neural_network.core.reference_rig import reference
from neural_network.physics import stable_pd
from neural_network.physics.masses import masses

RATES = (60, 120, 240, 480)
SECONDS = 0.5
STABLE, EXPLICIT = "#1f5fa8", "#c8102e"
ARROW = {"arrowstyle": "-", "lw": 0.4, "relpos": (0, 0.5)}


def measured() -> dict[tuple[int, bool], np.ndarray]:
    """Largest errors [rad] after each step, by steps a second and whether control is stable."""
    body = masses(reference())
    start = np.tile(np.eye(3), (body.skeleton.count, 1, 1))
    turn = 0.1 * np.random.default_rng(0).normal(size=(body.skeleton.count, 3))
    turn[0] = 0
    target, of = rotations.matrix_from_axis_angle(turn), stable_pd.gains(body)
    return {
        (rate, stable): stable_pd.held(body, start, target, of, 1 / rate, SECONDS, stable)
        for rate in RATES
        for stable in (True, False)
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, draw."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words:
        require("matplotlib", "uv run --group report python -m benchmarks.stable_pd installs it; leave the picture out")
    found = measured()
    for (rate, stable), errors in found.items():
        kind = "stable" if stable else "explicit"
        if np.isfinite(errors[-1]):
            print(f"{rate} Hz, {kind}: holds, {np.degrees(errors[-1]):.1f} degrees left at the worst joint")
        else:
            print(f"{rate} Hz, {kind}: explodes after {1000 * len(errors) / rate:.1f} ms")
    if words:
        draw(found, Path(words[0]))
    return 0


def draw(found: dict[tuple[int, bool], np.ndarray], path: Path) -> None:
    """Errors over time, one line for each rate and kind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.4))
    for (rate, stable), errors in found.items():
        shown = np.degrees(np.minimum(errors, np.pi))
        color = STABLE if stable else EXPLICIT
        label = f"{'stable' if stable else 'explicit'} PD" if rate == RATES[0] else None
        axes.plot(1000 * np.arange(1, len(shown) + 1) / rate, shown, color=color, lw=1, label=label)
        if not np.isfinite(errors[-1]):
            end = 1000 * len(shown) / rate
            axes.plot(end, 180, "x", color=color)
            words = f"{rate} Hz: explodes after {end:.3g} ms"
            place = (75, 168 - 17 * RATES.index(rate))
            axes.annotate(words, (end, 180), place, fontsize=8, va="center", arrowprops=ARROW)
    axes.set(xlabel="ms", ylabel="largest joint error [degrees]", xlim=(0, 200), ylim=(0, 190))
    axes.legend(frameon=False, loc="center right")
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    raise SystemExit(main())
