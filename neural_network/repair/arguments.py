# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer's command line for repairs: ``standalone_trainer.py repair``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..core.files import keep_apart
from ..learning.arguments import Help, add_files, positive, share
from ..learning.loop import state_path
from ..learning.optimizer import AdamSettings
from ..learning.steps import StepSettings, add_steps
from .network import SHIPPED, SIZES

DEFAULTS = StepSettings(steps=4000, lr=1e-3, adam=AdamSettings(beta2=0.99, decay=0.01, clip=1.0, average=0.998))
HELD_OUT = ("07", "16", "49")


def parser(data: Path, weights: Path) -> argparse.ArgumentParser:
    """The command line; ``data`` and ``weights`` are the default files."""
    out = argparse.ArgumentParser(
        prog="standalone_trainer.py repair",
        description="Learn to repair motion: clean takes are corrupted by chance, and networks learn what makes them clean again. "
        "Needs PyTorch (requirements/learning.txt); what is learned runs with NumPy.",
        formatter_class=Help,
        allow_abbrev=False,
        epilog="Then measure: python -m neural_network repair eval --data POSES --weights WEIGHTS. Exit codes: 0 trained, 2 bad "
        "input or a file that could not be written, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.",
    )
    add_files(out, data, weights)
    how = add_steps(out, DEFAULTS)
    how.add_argument("--batch-size", type=positive(int), default=64, help="windows of up to 160 frames per step")
    how.add_argument("--dropout", type=share, default=0.1, help="share of what a layer adds that is left out")
    how.add_argument("--pool", type=positive(int), default=150, help="batches that the gated network learns from")
    how.add_argument("--jobs", type=positive(int), default=1, help="processes that make these")
    how.add_argument("--lambda-physics", type=positive(float, zero=True), default=0.1, help="weight of slide and depth")
    how.add_argument(
        "--networks",
        type=lambda text: tuple(text.split(",")),
        default=tuple(SIZES),
        metavar="N,N",
        help=f"which of {', '.join(SIZES)} are trained",
    )
    out.add_argument(
        "--more",
        type=Path,
        action="append",
        default=[],
        metavar="POSES",
        help="clean motion beside --data; may be repeated",
    )
    out.add_argument("--begin", type=Path, metavar="WEIGHTS", help="begin with the networks of this file")
    out.add_argument(
        "--feet", action="store_true", help="learn nothing but when feet stand, on bodies of their own lengths"
    )
    out.add_argument(
        "--judge",
        type=lambda text: tuple(t for t in text.split(",") if t),
        default=(),
        metavar="S,S",
        help="subjects that choose the best weights and are not learned from; without it every ninth take does",
    )
    out.add_argument(
        "--leave-out",
        type=lambda text: tuple(t for t in text.split(",") if t),
        default=HELD_OUT,
        metavar="S,S",
        help="subjects that are not learned from: clips whose names begin with S and an underscore",
    )
    return out


def parse(words: Sequence[str], data: Path, weights: Path) -> argparse.Namespace:
    """The arguments of a command line."""
    return parser(data, weights.with_name(SHIPPED.name)).parse_args(words)


def rivals_path(weights: Path) -> Path:
    """Where the networks that the shipped one is compared with are."""
    return weights.with_name(f"{weights.stem}_rivals.npz")


def require_separate_files(args: argparse.Namespace) -> None:
    """ValueError where a file is both read and written."""
    written = {
        "--weights": args.weights,
        "the rivals": rivals_path(args.weights),
        "the stopped training": state_path(args.weights),
        "--json": args.json,
        "--progress": args.progress,
        "--cancel-file": args.cancel_file,
    }
    keep_apart(
        {"--data": args.data, "--begin": args.begin, **{f"--more {path.name}": path for path in args.more}}, written
    )
