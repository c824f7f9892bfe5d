# SPDX-License-Identifier: GPL-3.0-or-later
"""The detached trainer: learn from extracted poses in a terminal, with NumPy alone.

``python standalone_trainer.py`` trains the IK network on ``training_data/training_data.npz`` and writes
``training_data/weights/best.npy``; ``--help`` lists the options. A first word names another task: ``standalone_trainer.py ik``
is the same as no word, ``standalone_trainer.py gait`` distils the walks of a teacher into
``training_data/weights/gait.npz``. Inside Blender's own Python:
``blender --background --python-exit-code 1 --python standalone_trainer.py -- --epochs 10``.
Exit codes: 0 trained and every test passed, 1 trained but a test failed, 2 bad input or a file that could not be written,
130 stopped by Ctrl-C or the cancel file, 143 by SIGTERM and 129 by SIGHUP (128 and the number of the signal).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    # Threads must be set before NumPy comes in. One is fastest at these sizes, and gives the same bytes twice.
    _words = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else sys.argv[1:]
    _count = next((b for a, b in itertools.pairwise(_words) if a == "--threads"), None)
    _count = next((w.split("=", 1)[1] for w in _words if w.startswith("--threads=")), _count) or "1"
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ[_name] = _count
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    _ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if _ours:  # Ctrl-C before there is anything to keep ends at once and without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)

from neural_network.core import messages

if __name__ == "__main__":
    messages.require("numpy", messages.GET_NUMPY)
from neural_network.formats import importing
from neural_network.formats.command import report_events
from neural_network.gait import arguments as gait_arguments
from neural_network.gait import trainer as gait_trainer
from neural_network.ik import arguments, trainer
from neural_network.learning.arguments import append_record
from neural_network.learning.stopping import ended_by_signals, exit_code
from neural_network.prediction import modes as motion_modes
from neural_network.repair import arguments as repair_arguments
from neural_network.repair import trainer as repair_trainer

TASKS: dict[str, tuple[Any, Any]] = {
    "ik": (arguments, trainer),
    "gait": (gait_arguments, gait_trainer),
    "motion": (motion_modes, motion_modes),
    "repair": (repair_arguments, repair_trainer),
}
"""Word -> (its arguments: parse and require_separate_files; its trainer: run). A wing adds one line here."""

DATA = HERE / "training_data" / "training_data.npz"
WEIGHTS = HERE / "training_data" / "weights" / "best.npy"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trainer with the words of a command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and "--" in words:  # blender ... --python standalone_trainer.py -- OUR WORDS
        words = words[words.index("--") + 1 :]
    elif argv is None and "bpy" in sys.modules and sys.argv[0] != __file__:
        words = []
    task = "ik"
    if words and not words[0].startswith("-"):
        task = words.pop(0)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the console cannot show must not stop a training
            stream.reconfigure(errors="backslashreplace")
    if task not in TASKS:
        return _refuse(f"unknown task {task!r}: expected one of {', '.join(TASKS)}; without a word it is ik")
    cli, learner = TASKS[task]
    args = cli.parse(words, DATA, WEIGHTS)
    try:
        cli.require_separate_files(args)
    except (ValueError, OSError) as error:  # said here alone: the file for the progress may be the very one to be kept
        return _refuse(str(error))
    say: Callable[[str], None] = (lambda _: None) if args.quiet else _print
    try:
        with ended_by_signals(), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            if getattr(args, "bvh_dir", None) is not None:
                args.data = read_folder(args.bvh_dir, Path(temporary) / "poses.npz", say)
            return learner.run(args, say, _print, _complain)
    except trainer.Cancelled as stop:
        _print(str(stop))
        record: dict[str, Any] = {"done": True, "exit": stop.code, "weights": str(args.weights), "saved": stop.saved}
    except KeyboardInterrupt as stop:
        _print("Stopped at once; the weights on disk are unchanged.")
        record = {"done": True, "exit": exit_code(stop), "weights": str(args.weights), "saved": False}
    except (ValueError, OSError) as error:
        record = {"done": True, "exit": _refuse(str(error)), "error": str(error)}
    except MemoryError as error:
        sentence = f"not enough memory ({error}); choose smaller --hidden, --batch-size or --max-frames"
        record = {"done": True, "exit": _refuse(sentence), "error": sentence}
    with contextlib.suppress(OSError):  # it may be the very file that cannot be written
        append_record(args.progress, record)
    return int(record["exit"])


def read_folder(folder: Path, into: Path, say: Callable[[str], None]) -> Path:
    """Import the BVH and AMC files of a folder on the reference rig at 30 frames a second; returns the file of poses, ``into``.

    Raises ValueError where there is no such folder or nothing in it can be read.
    """
    if not folder.is_dir():
        raise ValueError(f"--bvh_dir: expected a folder of BVH files, got {folder}")
    files = importing.find_files([folder])
    events = importing.run(files, into, importing.ImportOptions(rig="reference", fps=30.0), 1)
    report_events(events, len(files), say, None, 30.0)
    return into


def _refuse(sentence: str) -> int:
    _complain(sentence)
    return 2


def _print(line: str) -> None:
    messages.show(line)


def _complain(line: str) -> None:
    messages.show(f"standalone_trainer.py: {line}", error=True)


if __name__ == "__main__":
    if _ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(main())
    finally:
        messages.flush()
