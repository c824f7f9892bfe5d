# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: ``python -m neural_network COMMAND``.

Each room in COMMANDS has a ``command.py`` whose ``add_parsers(commands, say)`` adds that room's commands. A command sets
``run``, a function that takes the parsed arguments and returns the exit code: 0, or 1 where a test fails. A ValueError or
OSError is bad input: one sentence on standard error and exit code 2. Ctrl-C is 130, SIGTERM 143 and SIGHUP 129: these are
handled as Ctrl-C is. Rooms do not print: ``say`` does, and where nobody reads it any more the command goes on.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    # Must be set before NumPy is imported. One thread is fastest at these sizes; a number already set is kept.
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(_name, "1")
    _own_handler = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if _own_handler:  # while importing, Ctrl-C ends at once and without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)

from .core.messages import GET_NUMPY, flush, in_words, require

if __name__ == "__main__":
    require("numpy", GET_NUMPY)
from .core.messages import show as say
from .formats import command as formats
from .formats import convert
from .gait import command as gait
from .ik import command as ik
from .learning.stopping import ended_by_signals, exit_code
from .live import command as live
from .physics import command as physics
from .prediction import command as prediction
from .repair import command as repair
from .repair import fixing

COMMANDS = (formats, ik, live, gait, repair)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file name that the console cannot show must not stop a run
            stream.reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(
        prog="python -m neural_network",
        description="Learn how a character moves and solve full-body inverse kinematics with it.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for room in COMMANDS:
        room.add_parsers(commands, say)
    physics.add_parsers(commands, say, fixing.by_shipped)
    convert.add_parser(prediction.add_parsers(commands, say), say)
    args = parser.parse_args(argv)
    try:
        with ended_by_signals():
            code: int = args.run(args)
    except KeyboardInterrupt as stop:
        say("stopped", error=True)
        return exit_code(stop)
    except (ValueError, OSError) as error:
        say(f"{parser.prog}: {in_words(error)}", error=True)
        return 2
    except MemoryError as error:
        say(f"{parser.prog}: not enough memory ({error}); try a smaller input", error=True)
        return 2
    return code


if __name__ == "__main__":
    if _own_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(main())
    finally:
        flush()
