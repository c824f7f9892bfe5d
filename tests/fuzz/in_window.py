# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by a real Blender: ``--python in_window.py -- cases SEED FIRST STOP`` in a window, ``-- saver TARGET FILE`` without."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

bpy: Any = importlib.import_module("bpy")
REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO), str(REPO / "tests")]  # Blender runs this as a script
PAUSE = 0.05
"""[s] left to Blender's window after each case."""


def main(words: list[str]) -> None:
    """Do what the words after ``--`` say."""
    from tests.fuzz import interrupted_cases

    if words[0] == "saver":
        interrupted_cases.saver(Path(words[1]), words[2])
        return
    bpy.context.preferences.view.show_splash = False
    lines = interrupted_cases.each_case(*map(int, words[1:4]))
    bpy.app.timers.register(lambda: _next(lines), first_interval=0.5, persistent=True)


def _next(lines: Iterator[str]) -> float:
    """Run a case; ends Blender after the last one."""
    code = 0
    try:
        print(next(lines), flush=True)  # noqa: T201
        return PAUSE
    except StopIteration:
        pass
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # quitting Blender's own way always gives 0
    return PAUSE


main(sys.argv[sys.argv.index("--") + 1 :])
