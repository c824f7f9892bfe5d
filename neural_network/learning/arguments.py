# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments: the flags that every training command shares, and checks of what stands on a command line."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.files import make_folder, remove_leftovers, temporary_path
from .loop import LoopSettings


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults there are; "None" and "False" say nothing."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None or action.default is False else super()._get_help_string(action)


def add_files(parser: argparse.ArgumentParser, data: Path, weights: Path) -> argparse._ArgumentGroup:
    """The files every training reads and writes; ``data`` and ``weights`` are the defaults."""
    files = parser.add_argument_group("files")
    files.add_argument("--data", type=Path, default=data, help="poses to learn from")
    files.add_argument(
        "--weights", type=Path, default=weights, help="where the trained network is written; .npy or .npz"
    )
    files.add_argument("--resume", action="store_true", help="continue the training that was stopped here")
    files.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    files.add_argument("--report", type=Path, metavar="FILE", help="write a report with pictures as one HTML file")
    files.add_argument("--progress", type=Path, metavar="FILE", help="append one JSON object per epoch")
    files.add_argument("--cancel-file", type=Path, metavar="FILE", help="stop, as Ctrl-C does, when this file appears")
    files.add_argument(
        "--end-with-input",
        action="store_true",
        help="stop, as Ctrl-C does, when standard input ends: for a program that starts this one and may be killed",
    )
    files.add_argument("--quiet", action="store_true", help="print only the results")
    return files


def add_training(parser: argparse.ArgumentParser, defaults: LoopSettings, batch: int) -> argparse._ArgumentGroup:
    """How long and how fast every network is trained; ``batch`` is the default batch size."""
    how = parser.add_argument_group("training")
    how.add_argument(
        "--epochs",
        type=positive(int),
        default=None,
        help=f"maximum epochs (default: {defaults.epochs}; unlimited with --time-limit)",
    )
    how.add_argument("--batch-size", type=positive(int), default=batch, help="samples per step")
    how.add_argument("--lr", type=positive(float), default=defaults.lr, help="Adam's step size at the start")
    how.add_argument(
        "--patience",
        type=positive(int),
        default=defaults.patience,
        help="epochs without a better figure before the step size is lowered early, and as many again before stopping",
    )
    how.add_argument(
        "--seed",
        type=positive(int, zero=True),
        default=defaults.seed,
        help="seed of weights, order, augmentation and splits",
    )
    how.add_argument(
        "--time-limit",
        type=positive(float, zero=True),
        default=defaults.time_limit,
        metavar="CPU_S",
        help="CPU seconds per training (per fold); 0: no limit",
    )
    how.add_argument("--threads", type=positive(int), default=1, help="BLAS threads of NumPy")
    return how


def number(kind: type, least: float, most: float = math.inf, above: bool = False) -> Callable[[str], Any]:
    """A type for argparse, for every number on a command line: a finite ``kind`` from ``least`` (``above`` it) to ``most``."""
    words = f"above {least:g}" if above else f"from {least:g}"
    words += f" {'and up ' * above}to {most:,.12g}" if most < math.inf else " up" * (not above)

    def convert(text: str) -> Any:
        value = kind(text)
        low = value > least or (value == least and not above)  # False for NaN
        if not (low and value <= most) or value == math.inf:
            raise argparse.ArgumentTypeError(f"expected a number {words}, got {text}")
        return value

    convert.__name__ = kind.__name__  # argparse says "invalid int value" where it is no number at all
    return convert


def positive(kind: type, zero: bool = False) -> Callable[[str], Any]:
    """A type for argparse: a number above 0, or from 0 with ``zero``."""
    return number(kind, 0, above=not zero)


share = number(float, 0, 1)
"""A type for argparse: a number from 0 to 1."""


def widths(text: str) -> tuple[int, ...]:
    """A type for argparse: widths of hidden layers, 128,96."""
    try:
        found = tuple(int(w) for w in text.replace("-", ",").split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1 or max(found) > 8192 or len(found) > 8:
        raise argparse.ArgumentTypeError(f"expected widths such as 128,96, got {text}")
    return found


def require_writable(path: Path | None, *suffixes: str) -> None:
    """Find out before the work, not after it, that a file cannot be written: ValueError or OSError in words.

    ``suffixes``: with one of which its name has to end. Every program takes names as they are given and never adds to one.
    """
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"expected a file name, got the folder {path}")
    if path.exists() and not path.is_file():  # a device or pipe
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"expected a file name that ends in {' or '.join(suffixes)}, got {path}; add it")
    try:
        make_folder(path.parent)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error}") from None
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "it is write-protected")
        remove_leftovers(path)
        probe = temporary_path(path)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}; choose another place") from None


def require_torch() -> None:
    """ValueError, in one sentence, where PyTorch is not installed. Call it before a module named ``torch_...`` is imported."""
    if importlib.util.find_spec("torch") is None:
        raise ValueError(
            "this needs PyTorch, which is not installed: python -m pip install -r requirements/learning.txt"
        )


def append_record(path: Path | None, record: dict[str, Any]) -> None:
    """Append one JSON object as a line to the progress file; nothing where there is none.

    OSError, in words, where it cannot be written, also where nobody reads a pipe.
    """
    if path is None:
        return
    try:
        with open(path, "a", encoding="utf-8", opener=_opener) as file:
            file.write(json.dumps(record) + "\n")
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from None


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
