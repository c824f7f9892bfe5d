# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in Blender interrupted at any moment: ``python -m tests.fuzz blender``, with the ``bpy`` of this Python.

``windows.py`` runs the same cases in a window.

Each case does something in a small scene (Extract Data, Import Mocap, Bake, Live IK, Record, Train, Save to Disk) and interrupts
it: Esc, an error at the n-th call, undo, Edit Mode, a deleted bone, another file, a killed process. Afterwards the scene must
be as if only the interruption had happened (keys and actions byte for byte), files must be whole, and nothing may be lost.

Cases run in child processes, so that a crash of Blender is a failure of one case. To repeat one:
``python -m tests.fuzz.interruptions cases SEED FIRST STOP``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
COUNT = 200
KINDS = ("extract", "import", "bake", "extract", "live", "record", "save", "extract", "train", "kill")
"""What the cases do, in turn."""
IN_ONE_PROCESS = 20
PATIENCE = 600.0
"""[s] for the cases of one process."""
MARK = "@@ "
"""Begins the lines that are results, among all that Blender prints."""


def run(count: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """Interrupt ``count`` times; returns the failures in words."""
    return run_in(_module, count, seed, say)


def _module(seed: int, first: int, stop: int) -> tuple[int, str]:
    words = [sys.executable, "-m", "tests.fuzz.interruptions", "cases", *map(str, (seed, first, stop))]
    with tempfile.TemporaryDirectory(prefix="nik_interruptions_") as folder:
        return _child(words, folder, PATIENCE)


def run_in(
    blender: Callable[[int, int, int], tuple[int, str]], count: int, seed: int, say: Callable[[str], None]
) -> list[str]:
    """Interrupt ``count`` times; ``blender(seed, first, stop)`` runs some of the cases in a Blender of their own.

    It returns the exit code and what was printed.
    """
    failures: list[str] = []
    done: Counter[str] = Counter()
    first = 0
    while first < count:
        stop = min(count, first + IN_ONE_PROCESS)
        code, said = blender(seed, first, stop)
        finished = first
        for line in said.splitlines():
            if not line.startswith(MARK):
                continue
            row = json.loads(line[len(MARK) :])
            done[f"{row['kind']}: {row['outcome']}"] += 1
            repeat = f"(python -m tests.fuzz.interruptions cases {seed} {row['case']} {row['case'] + 1})"
            failures += [
                f"case {row['case']}, {row['kind']}, {row['what']}: {text} {repeat}" for text in row["failures"]
            ]
            finished = row["case"] + 1
        if finished < stop:
            last = " / ".join(line for line in said.splitlines()[-12:] if line.strip())
            failures.append(f"case {finished} of seed {seed} ended Blender with code {code}: {last}")
            finished += 1
        first = finished
        say(f"{first} of {count}, {len(failures)} failures")
    for name, number in sorted(done.items()):
        say(f"{name}: {number}")
    return failures


def surroundings(**more: str) -> dict[str, str]:
    """The environment of a process that imports this repository."""
    path = filter(None, [str(REPO), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **more}


def _child(words: list[str], folder: str, patience: float) -> tuple[int, str]:
    """Run a process of this module in a Blender of its own; returns its exit code and what it printed."""
    environment = surroundings(BLENDER_USER_RESOURCES=folder)
    log = Path(folder) / "log.txt"
    with open(log, "wb") as out:
        process = subprocess.Popen(words, cwd=REPO, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    return code, log.read_text("utf-8", "replace")


if __name__ == "__main__":
    from . import interrupted_cases

    if sys.argv[1] == "saver":
        interrupted_cases.saver(Path(sys.argv[2]), sys.argv[3])
    else:
        interrupted_cases.cases(*map(int, sys.argv[2:5]))
    sys.stdout.flush()
    os._exit(0)  # Blender 4.2 crashes at exit while classes are registered
