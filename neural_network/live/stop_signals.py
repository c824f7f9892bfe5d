# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals that ask a server to end: it is told so, and ends between two polls, with everything saved."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..learning.stopping import ENDING

CONSOLE_SECONDS = 4.5
"""[s] that Windows gives a program whose console is closed, nearly."""


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """While inside, Ctrl-C, SIGTERM, SIGHUP, Ctrl-Break and a closing console set the event, and interrupt nothing.

    So nothing is left half done, and a second Ctrl-C does not stop the saving that the first has begun. A signal that is
    ignored stays so: ``nohup`` has asked for that. Outside the main thread signals are left alone.
    """
    stop, saved = threading.Event(), threading.Event()
    before: dict[int, Any] = {}
    console: Any = None
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *ENDING):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, lambda *_: stop.set())
        if sys.platform == "win32":
            console = _on_console_close(stop, saved)
    try:
        yield stop
    finally:
        saved.set()
        for number, handler in before.items():
            signal.signal(number, handler)
        if sys.platform == "win32" and console is not None:
            import ctypes

            ctypes.windll.kernel32.SetConsoleCtrlHandler(console, False)


def _on_console_close(stop: threading.Event, saved: threading.Event) -> Any:
    """Let Windows wait for the saving where the console is closed, or the user logs off; it kills the program after that."""
    if sys.platform != "win32":
        return None
    import ctypes
    from ctypes import wintypes

    def closing(event: int) -> bool:
        if event < 2:  # Ctrl-C and Ctrl-Break are signals
            return False
        stop.set()
        saved.wait(CONSOLE_SECONDS)
        return True

    handler = ctypes.WINFUNCTYPE(wintypes.BOOL, wintypes.DWORD)(closing)
    ctypes.windll.kernel32.SetConsoleCtrlHandler(handler, True)
    return handler
