# SPDX-License-Identifier: GPL-3.0-or-later
"""Stopping: Ctrl-C and a cancel file ask a training to end after its epoch, with the best weights kept."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SAME_PRESS = 0.5  # [s] a second interrupt within this is the same key press, passed on by the program that started us


class Stopper:
    """While inside, the first Ctrl-C only asks to stop and the second raises KeyboardInterrupt; a cancel file asks as well.

    ``say`` is called with one sentence when Ctrl-C is pressed.
    """

    def __init__(self, say: Callable[[str], None] = lambda sentence: None, cancel_file: Path | None = None) -> None:
        self.say = say
        self.cancel_file = cancel_file
        self.interrupted = False
        self._before: Any = None
        self._at = 0.0

    def asked(self) -> bool:
        """True once somebody asked to stop."""
        return self.interrupted or (self.cancel_file is not None and self.cancel_file.exists())

    def __enter__(self) -> Stopper:
        try:
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        except ValueError:  # not the main thread: whoever runs us there has its own way to stop us
            self._before = None
        return self

    def _interrupt(self, number: int, frame: Any) -> None:
        if self.interrupted:
            if time.monotonic() - self._at < SAME_PRESS:
                return
            raise KeyboardInterrupt
        self.interrupted, self._at = True, time.monotonic()
        self.say("Stopping after this epoch (press Ctrl-C again to stop at once) ...")

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


def clear_cancel_file(path: Path | None) -> None:
    """Remove an empty cancel file that an earlier run left; ValueError where the name belongs to something else."""
    if path is None or not path.exists():
        return
    if not path.is_file() or path.stat().st_size:
        raise ValueError(f"--cancel-file: expected an unused name or an empty file, got {path}")
    path.unlink()
