# SPDX-License-Identifier: GPL-3.0-or-later
"""TensorBoard: the curves of a training as event files, where the package tensorboard is installed. Our own are JSON lines."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path

Write = Callable[[Mapping[str, float], int], None]


def writer(folder: Path | None) -> Write:
    """A function that adds curves, name -> value, at a step to event files in ``folder``; nothing happens where that is None.

    Raises ValueError where TensorBoard is not installed, OSError where the folder cannot be written.
    """
    if folder is None:
        return lambda values, step: None
    try:
        summary = importlib.import_module("tensorboard.summary")
    except ImportError:
        raise ValueError("--tensorboard: the package tensorboard is not installed: pip install tensorboard") from None
    files = summary.Writer(str(folder))

    def write(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            files.add_scalar(name, value, step)
        files.flush()

    return write
