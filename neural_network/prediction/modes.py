# SPDX-License-Identifier: GPL-3.0-or-later
"""``standalone_trainer.py motion --mode M``: which network is trained. Each mode has a command line and a trainer of its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from . import arguments, step_arguments, step_trainer, trainer
from .predictor import KINDS

Say = Callable[[str], None]

FILL = "fill"
MODES: dict[str, tuple[ModuleType, ModuleType]] = {
    FILL: (arguments, trainer),
    **dict.fromkeys(KINDS, (step_arguments, step_trainer)),
}
"""Mode -> (its arguments: parse and require_separate_files; its trainer: run)."""


def parse(argv: Sequence[str], data: Path, weights: Path) -> argparse.Namespace:
    """The arguments of a command line, by the mode that it names."""
    first = argparse.ArgumentParser(prog="standalone_trainer.py motion", add_help=False, allow_abbrev=False)
    first.add_argument("--mode", choices=tuple(MODES), default=FILL)
    mode = first.parse_known_args(list(argv))[0].mode
    found: argparse.Namespace = MODES[mode][0].parse(argv, data, weights)
    return found


def require_separate_files(args: argparse.Namespace) -> None:
    """Raise ValueError if a file that would be written is read, or written twice."""
    MODES[args.mode][0].require_separate_files(args)


def run(args: argparse.Namespace, say: Say, tell: Say, complain: Say) -> int:
    """Train what the mode says, and save; returns the exit code."""
    return int(MODES[args.mode][1].run(args, say, tell, complain))
