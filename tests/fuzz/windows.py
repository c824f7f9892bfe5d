# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases of ``interruptions.py`` in a real Blender with a window: ``python -m tests.fuzz window``.

There undo has its steps, screens are redrawn between the cases, and the extension's timers and handlers run. It takes the
Blender in $BLENDER or on the PATH, and else what ``tests/window/launch.py`` says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.window import launch

from . import interruptions

COUNT = 200
SCRIPT = Path(__file__).with_name("in_window.py")
missing = launch.missing
"""Why no window can be had here; empty where one can."""


def run(count: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Interrupt ``count`` times; returns the failures in words."""
    return interruptions.run_in(_window, count, seed, say)


def _window(seed: int, first: int, stop: int) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="nik_window_") as folder:
        words = ["cases", *map(str, (seed, first, stop))]
        done = launch.run_script(SCRIPT, words, Path(folder), interruptions.PATIENCE)
    return done.returncode, done.stdout + done.stderr
