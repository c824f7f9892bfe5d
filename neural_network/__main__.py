# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: ``python -m neural_network COMMAND``, each command's face in a section of its own.

A command adds its arguments in ``add_NAME`` and does its work in ``run_NAME``, which returns the exit code. Bad input
is a ValueError or OSError from below: one sentence, exit code 2. Ctrl-C is 130.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from .formats import importing


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m neural_network",
        description="Learn a character's own way of moving and solve full-body inverse kinematics with it.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (add_import,):
        add(commands)
    args = parser.parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as with "| head"
        sys.stderr.close()
        return 0
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return code


# ---------------------------------------------------------------- import


def add_import(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Arguments of ``import``."""
    parser = commands.add_parser(
        "import",
        help="motion files or folders of them to training data",
        description="Read BVH and ASF/AMC files, clean them and write training data. No bad file stops the rest, "
        "a run that was interrupted goes on where it stopped.",
        epilog="Several skeletons in one call give one file each, DATA-CLIP.npz, named after its first clip. "
        "Exit code 0: something was written; 2: bad input, or no file gave a clip; 130: stopped by Ctrl-C.",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE|FOLDER", help="folders are searched to the bottom")
    parser.add_argument("-o", "--output", type=Path, default=Path("data.npz"), metavar="DATA.npz", help="(%(default)s)")
    parser.add_argument(
        "--rig",
        choices=importing.RIGS,
        default="own",
        help="own: each file's own skeleton; reference: carried onto the built-in rig (%(default)s)",
    )
    parser.add_argument("--fps", type=float, help="resample to this many frames a second (as the files are)")
    parser.add_argument(
        "--skip", type=int, default=0, metavar="N", help="leave out the first N frames of every file (%(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files read at the same time (%(default)s)")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="ROWS.json",
        help="one JSON object a line for every file, to this file or, without a name, to standard output",
    )
    parser.add_argument("--source-fps", type=float, metavar="FPS", help="trust this rate instead of the files' own")
    parser.add_argument("--up", choices=("Y", "Z", "y", "z"), help="the axis that points up (found)")
    parser.add_argument("--unit", type=_unit, metavar="M", help="metres in one file unit, or m, cm, mm, in, ft (found)")
    parser.add_argument(
        "--low-pass",
        type=float,
        metavar="HZ",
        help="Butterworth, fourth order, zero phase; 6 to 10 are usual, it softens foot strikes (off)",
    )
    parser.add_argument("--mirror", action="store_true", help="add a mirrored copy of every clip")
    parser.add_argument("--raw", action="store_true", help="do not clean: keep inserted poses, jumps and frozen frames")
    parser.set_defaults(run=run_import)


def run_import(args: argparse.Namespace) -> int:
    """Import, with a line for each file, a summary, and JSON where asked for."""
    paths: list[Path] = list(args.paths)
    if args.json not in (None, "-") and (Path(args.json).is_dir() or not paths):
        paths.insert(0, Path(args.json))  # "--json FOLDER": the folder is input, the rows go to standard output
        args.json = "-"
    if not paths:
        raise ValueError("import: expected at least one file or folder of motion")
    if args.jobs < 1:
        raise ValueError(f"jobs: expected 1 or more, got {args.jobs}")
    if args.output.is_dir() or args.output.suffix.lower() != ".npz":
        raise ValueError(f"output: expected a file name that ends in .npz, got {args.output}")
    options = importing.Options(
        rig=args.rig,
        fps=args.fps,
        skip=args.skip,
        source_fps=args.source_fps,
        up_axis=args.up.upper() if args.up else None,
        unit=args.unit,
        low_pass=args.low_pass,
        mirror=args.mirror,
        clean=not args.raw,
    )
    importing.check(options)
    files = importing.find_files(paths)
    say = sys.stderr if args.json == "-" else sys.stdout
    lines = None
    if args.json not in (None, "-"):
        Path(args.json).parent.mkdir(parents=True, exist_ok=True)
        lines = open(args.json, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed below
    try:
        return _import_files(files, args.output, options, args.jobs, say, sys.stdout if args.json == "-" else lines)
    finally:
        if lines is not None:
            lines.close()


def _import_files(
    files: list[Path], output: Path, options: importing.Options, jobs: int, say: TextIO, rows_to: TextIO | None
) -> int:
    done: list[importing.Row] = []
    written: list[importing.Written] = []
    again = 0
    print(f"{len(files)} files, {options.rig} rig, to {output}", file=say)
    print(f"{'':9} {'file':28} joints frames   fps   used      s     m    m/s  notes", file=say)
    try:
        for event in importing.run(files, output, options, jobs):
            if isinstance(event, importing.Written):
                written.append(event)
                continue
            done.append(event.row)
            again += event.again
            print(f"{event.done:4}/{len(files):<4} {_row_line(event.row)}", file=say, flush=True)
            if rows_to is not None:
                print(json.dumps(_row_json(event.row)), file=rows_to, flush=True)
    finally:
        if done:
            for line in _summary(done, again):
                print(line, file=say)
    for file in written:
        print(f"{file.path}: {file.clips} clips, {file.frames} frames, {file.joints} bones", file=say)
    if len(written) > 1:
        print(f"{len(written)} skeletons, so one file each; --rig reference brings people to one rig", file=say)
    return 0


def _row_line(row: importing.Row) -> str:
    name = Path(row.path).name
    name = name if len(name) <= 28 else name[:25] + "..."
    if not row.read:
        return f"{name:28} refused: {row.reason}"
    counts = [
        f"{count} {what}"
        for count, what in (
            (row.t_poses, "T-pose"),
            (row.teleports, "teleports"),
            (row.glitches, "glitch"),
            (row.frozen, "frozen"),
            (row.repaired, "NaN"),
            (len(row.warnings), "warnings"),
        )
        if count
    ]
    notes = row.reason or ", ".join(counts)
    return (
        f"{name:28} {row.joints:6} {row.frames:6} {row.fps:5.4g} {row.kept:6} {row.seconds:6.1f} "
        f"{row.height:5.2f} {row.speed:6.2f}  {notes}"
    )


def _row_json(row: importing.Row) -> dict[str, object]:
    return {"path": row.path, "status": "read" if row.read else "refused", **asdict(row)}


def _summary(rows: list[importing.Row], again: int) -> list[str]:
    """What was read, and what was left out and why."""
    read = [row for row in rows if row.read]
    used, kept = sum(row.frames for row in read), sum(row.kept for row in read)
    lines = ["", f"read {len(read)} of {len(rows)} files, {kept} frames kept of {used}"]
    if again:
        lines.append(f"{again} of them were ready from an earlier run")
    for what, count in (
        ("frames of inserted T-poses left out", sum(row.t_poses for row in read)),
        ("jumps of the whole body, at which a clip is cut or mended", sum(row.teleports for row in read)),
        ("glitch frames between jumps taken out", sum(row.glitches for row in read)),
        ("frozen frames at starts and ends left out", sum(row.frozen for row in read)),
        ("frames with missing numbers filled in or left out", sum(row.repaired for row in read)),
    ):
        if count:
            lines.append(f"  {count} {what}")
    for row in rows:
        if row.reason:
            lines.append(f"  {Path(row.path).name}: {row.reason}")
    doubts = [warning for row in read for warning in row.warnings]
    lines += [f"  {warning}" for warning in doubts[:40]]
    if len(doubts) > 40:
        lines.append(f"  and {len(doubts) - 40} more warnings (--json lists them all)")
    return lines


def _unit(text: str) -> float:
    known = {"m": 1.0, "cm": 0.01, "mm": 0.001, "dm": 0.1, "in": 0.0254, "inch": 0.0254, "ft": 0.3048}
    try:
        value = known.get(text.lower()) or float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(
            f"expected metres in one file unit, or one of {', '.join(known)}, got {text!r}"
        )
    return value


if __name__ == "__main__":
    sys.exit(main())
