# SPDX-License-Identifier: GPL-3.0-or-later
"""Train: run the trainer as a separate process, in Blender's own Python, and follow it through files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy

from ...core.files import is_running
from ..host.memory import TRAINER

PATIENCE = 3.0  # [s] to wait for the trainer to save and end before it is killed
TEMPORARY = "neural_ik_{process}_"  # begins the names of a Blender's files in the temporary folder


@dataclass(frozen=True)
class EpochMessage:
    """The JSON object that the trainer writes after an epoch."""

    values: dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """How a training ended."""

    code: int
    """The trainer's exit code."""
    said: str
    """What it printed."""
    card: dict[str, Any] | None
    """Its figures as JSON values; None where it measured nothing."""


def python() -> list[str]:
    """The command that runs a script in Blender's Python: its interpreter, or Blender itself where there is none."""
    name = Path(sys.executable).stem.lower() if sys.executable else ""
    if name.startswith(("python", "pypy")):
        return [sys.executable, "-s", "-B"]
    return [bpy.app.binary_path, "--background", "--python-exit-code", "1", "--python"]


def command(data: Path, weights: Path, extra: Sequence[str] = (), init: Path | None = None) -> list[str]:
    """The command that trains on ``data`` and writes ``weights``, starting from the weights ``init`` where there are some."""
    start = python()
    words = [*start, str(TRAINER), *(["--"] if start[-1] == "--python" else [])]
    begin = [] if init is None else ["--init", str(init)]
    return [*words, "--data", str(data), "--weights", str(weights), *begin, *extra]


def quoted(words: Sequence[str], system: str = os.name) -> str:
    """A command as one line for the user's terminal: a POSIX shell, or cmd on Windows ("nt")."""
    return subprocess.list2cmdline(words) if system == "nt" else shlex.join(words)


def train(words: Sequence[str], cancel_file: Path) -> Generator[EpochMessage | None, None, Ended]:
    """Run the trainer; yields an EpochMessage after each epoch and None otherwise, returns how it ended.

    Creating ``cancel_file`` asks it to end after the epoch; closing the generator ends it now. It also ends, and saves what
    was learned, when this process ends in any way: it holds the other end of the trainer's standard input.
    Raises ValueError if the process cannot be started.
    """
    clear_leftovers()
    prefix = TEMPORARY.format(process=os.getpid())
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        progress, log, card = (Path(name) / file for file in ("progress.jsonl", "log.txt", "card.json"))
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
        full = [*words, "--progress", str(progress), "--cancel-file", str(cancel_file), "--end-with-input"]
        full += ["--json", str(card)]
        with open(log, "wb") as out:
            try:
                process = subprocess.Popen(
                    full,
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                )
            except OSError as error:
                raise ValueError(f"cannot start {words[0]}: {error.strerror or error}") from None
        try:
            read = 0
            while True:
                ended = process.poll() is not None  # checked before reading, so that the last line is not missed
                with contextlib.suppress(FileNotFoundError), open(progress, "rb") as file:
                    file.seek(read)
                    for line in file.read().splitlines(keepends=True):
                        if not line.endswith(b"\n"):
                            break
                        read += len(line)
                        with contextlib.suppress(ValueError):
                            yield EpochMessage(json.loads(line))
                if ended:
                    return Ended(process.returncode, log.read_text("utf-8", "replace"), _figures(card))
                yield None
        finally:
            _end(process, cancel_file)


def _figures(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def cancel_path() -> Path:
    """A new name for a cancel file of this Blender."""
    return Path(tempfile.gettempdir()) / f"{TEMPORARY.format(process=os.getpid())}cancel_{time.time_ns()}"


def clear_leftovers() -> None:
    """Remove the temporary files and folders of Blenders that were killed. Other files are left alone."""
    for path in Path(tempfile.gettempdir()).glob(TEMPORARY.format(process="*") + "*"):
        found = re.fullmatch(TEMPORARY.format(process=r"(\d+)") + r"(cancel_\d+|[a-z0-9_]{8})", path.name)
        if found and not is_running(int(found[1])):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()


def _end(process: subprocess.Popen[bytes], cancel_file: Path) -> None:
    """End the process: terminate it, upon which it saves (not on Windows), then kill it. It leaves no damaged file."""
    assert process.stdin is not None
    process.stdin.close()
    if process.poll() is None:
        for act in (process.terminate, process.kill):
            act()
            end = time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            if process.returncode is not None:
                break
    with contextlib.suppress(OSError):
        cancel_file.unlink(missing_ok=True)
