# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer's command line for prediction: ``standalone_trainer.py motion``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..core.files import keep_apart
from ..learning import steps
from ..learning.arguments import Help, add_files, positive, share
from ..learning.loop import state_path
from ..learning.optimizer import AdamSettings
from ..learning.steps import StepSettings
from .network import SHIPPED

DEFAULTS = StepSettings(
    steps=40_000, round=500, lr=1e-3, adam=AdamSettings(beta2=0.99, decay=0.05, clip=1.0, average=0.999)
)


def parser(data: Path, weights: Path) -> argparse.ArgumentParser:
    """The command line; ``data`` and ``weights`` are the default files."""
    out = argparse.ArgumentParser(
        prog="standalone_trainer.py motion",
        description="Train the network that fills gaps between poses, and write it for the Motion panel. Needs PyTorch.",
        formatter_class=Help,
        allow_abbrev=False,
        epilog="Exit codes: 0 trained, 2 bad input or a file that could not be written, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 "
        "by SIGHUP. `python -m neural_network motion eval` measures every figure.",
    )
    out.add_argument(
        "--mode",
        default="fill",
        metavar="MODE",
        help="fill, or a predictor of steps: mlp, gru, transformer_reg, transformer, direct; --mode mlp --help has their flags",
    )
    files = add_files(out, data, weights)
    files.add_argument(
        "--more", type=Path, nargs="+", default=[], metavar="POSES", help="further files of poses on the same rig"
    )
    files.add_argument("--tensorboard", type=Path, metavar="FOLDER", help="write curves for TensorBoard")
    files.add_argument("--leave-out", type=names, default=(), metavar="S,S", help="subjects that are not looked at")
    files.add_argument(
        "--validate",
        type=names,
        default=(),
        metavar="S,S",
        help="subjects to validate on (default: every twelfth take)",
    )
    steps.add_steps(out, DEFAULTS)
    files.add_argument(
        "--train-on-all", action="store_true", help="train on the takes to validate on, too: the last weights are kept"
    )
    files.add_argument(
        "--beside",
        type=Path,
        metavar="NPZ",
        help="weights whose answers are to be averaged with these: both are written",
    )
    shape = out.add_argument_group("network and examples")
    shape.add_argument("--width", type=positive(int), default=144, help="channels")
    shape.add_argument("--depth", type=positive(int), default=4, help="Transformer blocks")
    shape.add_argument("--heads", type=positive(int), default=6, help="of attention")
    shape.add_argument("--wide", type=positive(int), default=288, help="channels inside a block")
    shape.add_argument("--dropout", type=share, default=0.2, help="share of what a block adds that is left out")
    shape.add_argument("--batch-size", type=positive(int), default=256, help="gaps in a step")
    people = out.add_argument_group("how much the people differ that gaps are made of (standard deviations)")
    amount = positive(float, zero=True)
    people.add_argument("--off", type=amount, default=7.0, help="[degrees] by which every joint is turned")
    people.add_argument("--wider", type=amount, default=0.2, help="share by which a joint moves more or less")
    people.add_argument(
        "--stride", type=amount, default=0.2, help="share by which legs move and the body travels more or less"
    )
    people.add_argument("--bend", type=amount, default=30.0, help="[degrees a second] by which a way bends")
    people.add_argument(
        "--taller", type=amount, default=0.03, help="[leg lengths] by which the Hips are higher or lower"
    )
    return out


def names(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(part for part in text.split(",") if part)


def parse(argv: Sequence[str], data: Path, weights: Path) -> argparse.Namespace:
    """The arguments of a command line; the weights' default is the shipped file's place."""
    return parser(data, SHIPPED).parse_args(argv)


def require_separate_files(args: argparse.Namespace) -> None:
    """Raise ValueError if a file that would be written is read, or written twice."""
    read = {"--data": args.data, **{f"--more {path.name}": path for path in args.more}, "--beside": args.beside}
    written = {"--weights": args.weights, "--json": args.json, "--report": args.report, "--progress": args.progress}
    keep_apart(read, {**written, "the state to resume from": state_path(args.weights)})
