# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.fuzz [files|messages|kills|blender|window|all] [--count N] [--seed N]``: exit code 1 where anything failed."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy: times are those of one processor
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests' own modules, such as conftest

MODULES = {
    "files": "files",
    "messages": "messages",
    "kills": "kills",
    "blender": "interruptions",
    "window": "windows",
}
"""Word on the command line -> module of this package."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for, one after the other, and print every failure."""
    from neural_network.core.messages import require
    from neural_network.learning.arguments import positive

    from . import windows

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Try to break Neural IK, at random.")
    parser.add_argument("what", nargs="?", choices=(*MODULES, "all"), default="all", help="what to try (%(default)s)")
    parser.add_argument("--count", type=positive(int), help="how many to try (each has a default of its own)")
    parser.add_argument(
        "--seed", type=positive(int, zero=True), default=0, help="the same seed tries the same (%(default)s)"
    )
    args = parser.parse_args(argv)
    failures: list[str] = []
    for word, name in MODULES.items():
        if args.what not in (word, "all"):
            continue
        if word == "blender" and args.what == "all" and importlib.util.find_spec("bpy") is None:
            say("blender: skipped, bpy is not installed in this Python")
            continue
        if word == "blender":
            require("bpy", "uv run --group test python -m tests.fuzz blender installs it")
        if word == "window" and (reason := windows.missing()):
            say(f"window: skipped, {reason}")
            if args.what == "all":
                continue
            return 2
        module = importlib.import_module(f"tests.fuzz.{name}")
        count, begin = module.COUNT if args.count is None else args.count, time.monotonic()
        say(f"== {word}: {count} with seed {args.seed}")
        found = module.run(count, args.seed, say)
        say(f"-- {word}: {len(found)} failures in {time.monotonic() - begin:.0f} s")
        failures += [f"{word}: {text}" for text in found]
    for text in failures:
        say(text)
    return 1 if failures else 0


def say(line: str) -> None:
    """Print one line at once."""
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
