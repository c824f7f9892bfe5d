# SPDX-License-Identifier: GPL-3.0-or-later
"""Stopping: Ctrl-C and a cancel file ask a training to end after its epoch; signals that end programs end it at once.

In either case what was learned is saved. :func:`ended_by_signals` is for the programs, :class:`Stopper` for a training.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SAME_PRESS = 0.5  # [s] a second interrupt within this is the same key press, passed on by the program that started us
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""Signals that ask a program to end: sent by ``kill`` and by services, by a terminal that closes, by Ctrl-Break."""


class Terminated(KeyboardInterrupt):
    """The program was asked to end by the signal ``number``. Whoever saves at Ctrl-C saves at this too."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(stop: KeyboardInterrupt) -> int:
    """128 and the number of the signal that ended the program: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (stop.number if isinstance(stop, Terminated) else int(signal.SIGINT))


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """While inside, the signals in :data:`ENDING` raise :class:`Terminated` in the main thread.

    A signal that is ignored stays so: ``nohup`` has asked for that. Repetitions within a second count as one.
    """
    before: dict[int, Any] = {}
    at = -1.0

    def end(number: int, frame: Any) -> None:
        nonlocal at
        if at < 0 or time.monotonic() - at > 1:
            at = time.monotonic()
            raise Terminated(number)

    with suppress(ValueError):  # not the main thread: whoever runs us there has its own way to stop us
        for number in ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def input_has_ended() -> bool:
    """Whether standard input, a pipe, has come to its end: the program that holds its other end is gone, however it ended."""
    try:
        if sys.platform == "win32":
            import _winapi
            import msvcrt

            _winapi.PeekNamedPipe(msvcrt.get_osfhandle(0), 0)
            return False
        return bool(select.select([0], [], [], 0)[0]) and not os.read(0, 4096)
    except OSError:
        return True


class Stopper:
    """While inside, the first Ctrl-C only asks to stop and the second raises KeyboardInterrupt; a cancel file asks as well.

    So does the end of standard input ``with_input``. ``say`` is called with one sentence when Ctrl-C is pressed.
    """

    def __init__(
        self,
        say: Callable[[str], None] = lambda sentence: None,
        cancel_file: Path | None = None,
        with_input: bool = False,
    ) -> None:
        self.say = say
        self.cancel_file = cancel_file
        self.with_input = with_input
        self.interrupted = False
        self._before: Any = None
        self._at = 0.0

    def asked(self) -> bool:
        """True once somebody asked to stop."""
        if self.with_input and input_has_ended():
            self.interrupted = True
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
