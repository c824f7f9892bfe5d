# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages: how rooms and programs report, and helpers for messages of one line."""

from __future__ import annotations

import importlib.util
import os
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TextIO

GET_NUMPY = "python -m pip install numpy, or run with uv as the README says"
"""What to do where NumPy is missing."""


class Say(Protocol):
    """A function that shows one line to the user. A program passes it to the rooms, which never print."""

    def __call__(self, line: str, *, error: bool = False) -> None:
        """Show ``line``, on standard error if ``error``."""


def short(name: str, most: int = 60) -> str:
    """A name cut to at most ``most`` letters, for messages of one line: what cannot be printed becomes "?"."""
    cut = name if len(name) <= most else name[:most] + "..."
    return cut if cut.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in cut)


def shown(text: object) -> str:
    """A text of one line in which everything that would move the cursor, colour the terminal or turn the reading is escaped.

    Names of files and bones are other people's: an escape code, a line feed or a mark that turns the direction of writing in
    one of them must not change what the line says. Letters of all languages stay.
    """
    return "".join(letter if _is_harmless(letter) else ascii(letter)[1:-1] for letter in str(text))


def in_words(error: Exception) -> str:
    """What is wrong, in one line: the system's own errors without their number, and with the file they are about."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return shown(f"cannot use {os.fsdecode(error.filename)}: {error.strerror}")
    return shown(error)


def _is_harmless(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) == "Zs"  # wide spaces move nothing


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun: "1 file", "2,000 files"; ``plural`` where it is not the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def require(module: str, advice: str) -> None:
    """End the program with exit code 2 and one sentence where ``module`` is missing; ``advice`` says what to do."""
    if importlib.util.find_spec(module) is None:
        show(f"{Path(sys.argv[0]).name}: this Python has no {module}: {advice}", error=True)
        sys.exit(2)


def show(line: str, *, error: bool = False) -> None:
    """Write one line at once to standard output, or to standard error: the programs' own :class:`Say`.

    What is not text is escaped (:func:`shown`), except for line feeds, because some reports are several lines.
    Work does not end because nobody can read about it any more (``| head``, a closed terminal, a log on a full disk): that
    line and all later ones are dropped, and the exit code stays as it is.
    """
    stream = sys.stderr if error else sys.stdout
    if stream is None:  # a program without a console
        return
    line = "\n".join(map(shown, line.split("\n")))
    try:
        stream.write(line + "\n")  # print() writes the end of the line on its own, and Ctrl-C may come in between
        stream.flush()
    except UnicodeEncodeError:
        stream.write(ascii(line) + "\n")
    except (OSError, ValueError):  # ValueError: closed
        _drop(stream)


def flush() -> None:
    """Write out what is buffered, before the program ends; nothing where it cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            _drop(stream)


def _drop(stream: TextIO) -> None:
    """From now on ``stream`` leads nowhere, so that Python can flush it at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
