# SPDX-License-Identifier: GPL-3.0-or-later
"""How constants of repairs were chosen: ``python -m tools.repair_constants --data captured.npz --weights repair.npz --subjects 10,131``.

Every constant named below is tried at several values, the others as they are, on takes of subjects that the weights did not learn
from and that nothing is tested on; each line has what Fix Feet then scores. Takes are cut to five seconds.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neural_network.ik.foot_pins import forward
from neural_network.learning.arguments import positive
from neural_network.motion import pose_set
from neural_network.repair import draws, figures, fixing, network
from neural_network.repair.correction import RATE

TRIED: dict[str, tuple[Any, ...]] = {
    "repair.judging.SURE": (0.5, 0.6, 0.7),
    "repair.judging.EITHER": (0.5, 0.65, 0.8),
    "repair.judging.PERHAPS": (0.2, 0.35, 0.5, 0.65),
    "repair.judging.STILL": (0.0, 0.5, 0.7, 0.9),
    "repair.judging.SLIDES": ((2.5, 0.8), (3.0, 1.0), (3.5, 1.2)),
    "repair.rooting.LEFT": ((0.015, 0.02), (0.03, 0.04), (0.05, 0.08), (0.1, 0.15)),
    "ik.held_feet.SLACK": (0.0, 0.02, 0.04),
    "ik.held_feet.LOW": (0.1, 0.25, 0.5),
}
"""Constant, below ``neural_network``: values."""
LONGEST = 150  # [frames]
KINDS = ("mix", "noise", "drift", "speed")


def main(argv: Sequence[str] | None = None) -> int:
    """One line for each value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="captured motion, as for repair eval")
    parser.add_argument("--weights", type=Path, default=network.SHIPPED)
    parser.add_argument("--subjects", type=lambda text: tuple(text.split(",")), required=True, metavar="S,S")
    parser.add_argument("--only", nargs="+", choices=TRIED, default=list(TRIED), help="constants to try; all")
    parser.add_argument("--draws", type=positive(int), default=2, help="corruptions of each take (%(default)s)")
    args = parser.parse_args(argv)
    if set(args.subjects) & {*figures.WALKS, *figures.ACROBATICS}:
        parser.error("--subjects: expected none that figures are measured on")
    skeleton, takes = draws.takes_of(pose_set.load(args.data))
    takes = [t for t in takes if t.subject in args.subjects and len(t.root) >= draws.FEWEST]
    takes = [draws.Take(t.name, t.turns[:LONGEST], t.root[:LONGEST]) for t in takes]
    if not takes:
        parser.error(f"--subjects: expected some of whom {args.data.name} has takes")
    learned = network.load(args.weights)["convolution"]
    sys.stdout.write(
        f"{len(takes)} takes; slide / float / MPJPE local / global of {', '.join(KINDS)}; clean input moved: mean, p99\n"
    )
    for name in args.only:
        place, constant = name.rsplit(".", 1)
        module = importlib.import_module(f"neural_network.{place}")
        own = getattr(module, constant)
        for value in TRIED[name]:
            setattr(module, constant, value)
            words = "  ".join(scores(skeleton, takes, learned, args.draws))
            sys.stdout.write(f"{name} {value}{' (as it is)' if value == own else ''}: {words}\n")
            sys.stdout.flush()
        setattr(module, constant, own)
    return 0


def scores(skeleton: Any, takes: Sequence[draws.Take], learned: network.Network, count: int) -> Iterator[str]:
    """What Fix Feet scores."""

    def fixed(turns: np.ndarray, root: np.ndarray, contact: np.ndarray) -> figures.Motion:
        done = fixing.repair(skeleton, turns, root, RATE, learned)
        return done.turns, done.root

    for kind in KINDS:
        found, _ = figures.compared(skeleton, takes, kind, {figures.FIX: fixed}, 5, count)
        yield " / ".join(f"{found[figures.FIX][measure]:.3g}" for measure in ("slide", "float", "local", "global"))
    away = []
    for take in takes:
        done = fixing.repair(skeleton, take.turns, take.root, RATE, learned)
        moved = forward(skeleton, done.turns, done.root)[1] - forward(skeleton, take.turns, take.root)[1]
        away.append(np.linalg.norm(moved, axis=-1).ravel() * 1000)
    off = np.concatenate(away)
    yield f"{off.mean():.2f}, {np.percentile(off, 99):.1f} mm"


if __name__ == "__main__":
    raise SystemExit(main())
