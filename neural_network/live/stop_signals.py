# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals that ask a server to end: it is told so, and ends between two polls, with everything saved."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ..learning.stopping import ENDING

CONSOLE_SECONDS = 4.5
"""[s] that Windows gives a program whose console is closed, nearly."""


@dataclass
class Stop:
    """Whether a server should end."""

    asked: bool = False
    ended: bool = False


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """While inside, Ctrl-C, SIGTERM, SIGHUP, Ctrl-Break and a closing console set ``asked``, and interrupt nothing.

    So nothing is left half done, and a second Ctrl-C does not stop the saving that the first has begun. A signal that is
    ignored stays so: ``nohup`` has asked for that. Outside the main thread signals are left alone.
    """
    stop = Stop()
    before: dict[int, Any] = {}
    console: Any = None

    def ask(number: int, frame: Any) -> None:
        stop.asked = True

    with suppress(ValueError):  # not the main thread
        for number in (signal.SIGINT, *ENDING):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, ask)
        if sys.platform == "win32":
            console = _on_console_close(stop)
    try:
        yield stop
    finally:
        stop.ended = True
        for number, handler in before.items():
            signal.signal(number, handler)
        if sys.platform == "win32" and console is not None:
            import ctypes

            ctypes.windll.kernel32.SetConsoleCtrlHandler(console, False)


def _on_console_close(stop: Stop) -> Any:
    """Let Windows wait for the saving where the console is closed, or the user logs off; it kills the program after that."""
    if sys.platform != "win32":
        return None
    import ctypes
    from ctypes import wintypes

    def closing(event: int) -> bool:
        if event < 2:  # Ctrl-C and Ctrl-Break are signals
            return False
        stop.asked, end = True, time.monotonic() + CONSOLE_SECONDS
        while not stop.ended and time.monotonic() < end:
            time.sleep(0.02)
        return True

    handler = ctypes.WINFUNCTYPE(wintypes.BOOL, wintypes.DWORD)(closing)
    ctypes.windll.kernel32.SetConsoleCtrlHandler(handler, True)
    return handler
