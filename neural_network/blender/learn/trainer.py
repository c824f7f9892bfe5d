# SPDX-License-Identifier: GPL-3.0-or-later
"""Train: the trainer as a process of its own, in Blender's own Python, watched through files."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy

from ..host.memory import TRAINER

PATIENCE = 3.0  # [s] for the trainer to end by itself before it is ended


@dataclass(frozen=True)
class Epoch:
    """What the trainer says after an epoch: its own JSON object."""

    values: dict[str, Any]


def python() -> list[str]:
    """The words that start Blender's own Python on a script: its interpreter, or Blender itself where there is none."""
    name = Path(sys.executable).stem.lower() if sys.executable else ""
    if name.startswith(("python", "pypy")):
        return [sys.executable, "-s", "-B"]
    return [bpy.app.binary_path, "--background", "--python-exit-code", "1", "--python"]


def command(data: Path, weights: Path, extra: Sequence[str] = ()) -> list[str]:
    """The words that train on ``data`` into ``weights``."""
    start = python()
    words = [*start, str(TRAINER), *(["--"] if start[-1] == "--python" else [])]
    return [*words, "--data", str(data), "--weights", str(weights), *extra]


def quoted(words: Sequence[str], system: str = os.name) -> str:
    """One line for the user's terminal: POSIX shells, or Windows' cmd ("nt")."""
    return subprocess.list2cmdline(words) if system == "nt" else shlex.join(words)


def train(words: Sequence[str], cancel_file: Path) -> Generator[Epoch | None, None, tuple[int, str]]:
    """Run the trainer; yields an Epoch when one is done and None otherwise, returns the exit code and what it printed.

    Touching ``cancel_file`` asks it to end after the epoch; closing the generator ends it now.
    Raises ValueError where the process cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="neural_ik_", ignore_cleanup_errors=True) as name:
        progress, log = Path(name) / "progress.jsonl", Path(name) / "log.txt"
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
        full = [*words, "--progress", str(progress), "--cancel-file", str(cancel_file)]
        with open(log, "wb") as out:
            try:
                process = subprocess.Popen(
                    full,
                    stdin=subprocess.DEVNULL,
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
                ended = process.poll() is not None  # before reading, so that the last line is not missed
                with contextlib.suppress(FileNotFoundError), open(progress, "rb") as file:
                    file.seek(read)
                    for line in file.read().splitlines(keepends=True):
                        if not line.endswith(b"\n"):
                            break
                        read += len(line)
                        with contextlib.suppress(ValueError):
                            yield Epoch(json.loads(line))
                if ended:
                    return process.returncode, log.read_text("utf-8", "replace")
                yield None
        finally:
            _end(process, cancel_file)


def _end(process: subprocess.Popen[bytes], cancel_file: Path) -> None:
    """Leave no process behind: a nudge, then force. What it writes is whole or not there, so nothing is damaged."""
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
