# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ``import``: its arguments and its report. It passes lines to ``say``; the program prints them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from io import FileIO
from pathlib import Path

from ..core.files import keep_apart, make_folder, require_name
from ..core.messages import Say, counted, shown
from ..learning.arguments import number, positive, require_writable
from ..motion.clip import UP_AXES
from ..rigs.roles import read_table
from . import importing
from .text import THROUGH_BLENDER

UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "dm": 0.1, "in": 0.0254, "inch": 0.0254, "ft": 0.3048}
"""[m] length of one unit, by name."""
NAME_WIDTH = 28  # characters of a file name in the table
MOST_WARNINGS = 40  # warnings listed in the summary


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    """Add ``import`` to the command line; lines of output go to ``say``."""
    parser = commands.add_parser(
        "import",
        help="convert motion files, or folders of them, to training data",
        description="Read BVH and ASF/AMC files, clean them and write training data. Unreadable files are reported and "
        "skipped; an interrupted run continues where it stopped.",
        epilog="Several skeletons in one call give one file each, DATA-CLIP.npz, named after its first clip. "
        "Exit code 0: data was written; 2: bad input, or no file contained a clip; 130: stopped by Ctrl-C, 143: by SIGTERM, "
        "129: by SIGHUP (a closed terminal); the same command then goes on where it stopped.",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE|FOLDER", help="folders are searched recursively")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("data.npz"),
        metavar="DATA.npz",
        help="file to write; its name ends in .npz (%(default)s)",
    )
    parser.add_argument(
        "--rig",
        choices=importing.RIGS,
        default="own",
        help="own: keep each file's skeleton; reference: retarget to the built-in rig (%(default)s)",
    )
    parser.add_argument(
        "--fps",
        type=number(float, 0, importing.MAX_FPS, above=True),
        help="resample to this frame rate (default: the rate of each file)",
    )
    parser.add_argument(
        "--skip",
        type=positive(int, zero=True),
        default=0,
        metavar="N",
        help="drop the first N frames of every file (%(default)s)",
    )
    parser.add_argument(
        "--jobs", type=positive(int), default=1, metavar="N", help="number of worker processes (%(default)s)"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="ROWS.json",
        help="write one JSON object per file, one a line, to ROWS.json, or to standard output if no name is given",
    )
    parser.add_argument(
        "--source-fps",
        type=number(float, 0, 1e6, above=True),
        metavar="FPS",
        help="assume this frame rate instead of the one in the files",
    )
    add_up_argument(parser)
    add_unit_argument(parser)
    parser.add_argument(
        "--low-pass",
        type=number(float, 0, 1000, above=True),
        metavar="HZ",
        help="cut-off of a fourth-order zero-phase Butterworth filter; 6 to 10 is usual, but softens foot strikes "
        "(default: off)",
    )
    parser.add_argument(
        "--roles",
        type=Path,
        metavar="FILE",
        help='JSON file that gives bones their roles, {"Hips": "pelvis", ...} (default: detected)',
    )
    parser.add_argument(
        "--strip-prefix", action="store_true", help='remove prefixes such as "mixamorig:" from bone names'
    )
    parser.add_argument("--mirror", action="store_true", help="add a mirrored copy of every clip")
    parser.add_argument(
        "--level",
        action="store_true",
        help="turn a tilted floor level and take out a drift of height, where standing feet show them",
    )
    parser.add_argument(
        "--leave-out-faults",
        action="store_true",
        help="leave out frames with faults of the capture: feet turned around, bones that turn over between frames",
    )
    parser.add_argument("--raw", action="store_true", help="do not clean: keep T-poses, jumps and frozen frames")
    parser.set_defaults(run=lambda args: run_import(args, say))


def add_unit_argument(parser: argparse.ArgumentParser) -> None:
    """Add --unit: the length of one file unit [m]."""
    parser.add_argument(
        "--unit",
        type=_unit,
        metavar="M",
        help="length of one file unit: metres, or m, cm, mm, in or ft (default: detected)",
    )


_NO_AXIS = object()  # --up without an axis


def add_up_argument(parser: argparse.ArgumentParser) -> None:
    """Add --up; its negative axes are options of their own as well, because argparse takes the -Y of "--up -Y" for one."""
    axes = ", ".join(UP_AXES)
    parser.add_argument(
        "--up",
        nargs="?",
        const=_NO_AXIS,
        type=_up_axis,
        metavar="AXIS",
        help=f"the axis that points up: {axes} (detected)",
    )
    for axis in UP_AXES:
        if axis.startswith("-"):
            parser.add_argument(axis, axis.lower(), dest="up", action="store_const", const=axis, help=argparse.SUPPRESS)


def given_up_axis(args: argparse.Namespace) -> str | None:
    """The axis given to --up, None if it was not used; ValueError if nothing was given to it."""
    if args.up is _NO_AXIS:
        raise ValueError(f"--up: expected one of {', '.join(UP_AXES)}, got nothing")
    return args.up


def _up_axis(text: str) -> str:
    """An axis of ``UP_AXES`` in capitals; argparse.ArgumentTypeError for anything else."""
    if text.upper() not in UP_AXES:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(UP_AXES)}, got {text!r}")
    return text.upper()


def run_import(args: argparse.Namespace, say: Say) -> int:
    """Import the files and report each; returns 0. Raises ValueError or OSError for bad input."""
    paths: list[Path] = list(args.paths)
    to_stdout, rows_path = args.json == "-", None
    if args.json is not None and not to_stdout:
        rows_path = Path(args.json)
        if rows_path.is_dir() or not paths:  # "--json FOLDER": the folder is input, the rows go to standard output
            paths.insert(0, rows_path)
            to_stdout, rows_path = True, None
    if not paths:
        raise ValueError("import: expected at least one file or folder of motion")
    for path in (args.output, rows_path):
        if path is not None:
            require_name(path)
    options = _options(args)
    importing.check(options)
    files = importing.find_files(paths)
    others = importing.files_for_blender(paths)
    inputs = {str(path): path for path in (*files, *others)} | {"--roles": args.roles}
    keep_apart(inputs, {"output": args.output, "--json": rows_path})
    require_writable(args.output, ".npz")

    def report(line: str) -> None:
        say(shown(line), error=to_stdout)  # JSON rows on standard output: the table goes to standard error

    with ExitStack() as opened:
        write_row: Callable[[str], object] | None = say if to_stdout else None
        if rows_path is not None:
            make_folder(rows_path.parent)
            try:
                rows = opened.enter_context(open(rows_path, "wb", buffering=0))
            except OSError as error:
                raise OSError(f"cannot write {rows_path}: {error.strerror or error}; choose another place") from None
            write_row = partial(_write_row, rows, rows_path, report)
        if others:
            kinds = ", ".join(sorted({path.suffix.lower() for path in others}))
            report(f"{counted(len(others), 'file')} of other kinds ({kinds}) skipped: for each, {THROUGH_BLENDER}")
        report(f"{counted(len(files), 'file')}, {options.rig} rig, to {args.output}")
        events = importing.run(files, args.output, options, args.jobs)
        report_events(events, len(files), report, write_row, options.fps)
    return 0


def _write_row(rows: FileIO, path: Path, report: Callable[[str], object], row: str) -> None:
    """Write one row; hours of converting do not end where the disk is full: it is reported and no more are written."""
    try:
        if not rows.closed:
            rows.write(f"{row}\n".encode())
    except OSError as error:
        rows.close()
        report(f"cannot write {path}: {error.strerror or error}; the import continues without it")


def _options(args: argparse.Namespace) -> importing.ImportOptions:
    return importing.ImportOptions(
        rig=args.rig,
        fps=args.fps,
        skip=args.skip,
        source_fps=args.source_fps,
        up_axis=given_up_axis(args),
        unit=args.unit,
        roles=tuple(sorted(read_table(args.roles).items())) if args.roles else (),
        low_pass=args.low_pass,
        strip_prefix=args.strip_prefix,
        mirror=args.mirror,
        clean=not args.raw,
        leave_out_faults=args.leave_out_faults,
        level=args.level,
    )


def report_events(
    events: Iterable[importing.ImportProgress | importing.WrittenFile],
    files: int,
    report: Callable[[str], object],
    write_row: Callable[[str], object] | None,
    fps: float | None = None,
) -> list[importing.WrittenFile]:
    """Consume the ``events`` of an import of ``files`` files: report a line for each and a summary; returns what was written.

    ``write_row``, where given, receives one JSON object per file; ``fps`` is the rate that was asked for. The summary is
    reported even where an exception ends the import.
    """
    done: list[importing.FileReport] = []
    written: list[importing.WrittenFile] = []
    cached = 0
    report(f"{'':9} {'file':{NAME_WIDTH}} joints frames   fps   used      s     m    m/s  notes")
    try:
        for event in events:
            if isinstance(event, importing.WrittenFile):
                written.append(event)
                continue
            done.append(event.report)
            cached += event.cached
            report(f"{event.done:4}/{files:<4} {_row_line(event.report, fps)}")
            if write_row is not None:
                write_row(json.dumps(_row_json(event.report)))
    finally:
        if done:
            for line in _summary(done, cached, files, fps):
                report(line)
    for file in written:
        counts = counted(file.clips, "clip"), counted(file.frames, "frame"), counted(file.joints, "bone")
        report(f"{file.path}: {', '.join(counts)}")
        if file.outvoted:
            report(f"  the up axis of {counted(file.outvoted, 'clip')} is that of the other files with this skeleton")
        if file.lifted:
            names = ", ".join(file.lifted[:5]) + (", ..." if len(file.lifted) > 5 else "")
            report(f"  {importing.floors.SAID.format(names)}")
    if len(written) > 1:
        report(f"{len(written)} skeletons, so one file each; --rig reference retargets people to one rig")
    return written


def _row_line(row: importing.FileReport, fps: float | None) -> str:
    name = Path(row.path).name
    name = name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 3] + "..."
    if not row.read:
        return f"{name:{NAME_WIDTH}} refused: {row.reason}"
    counts = (
        (row.t_poses, "T-pose"),
        (row.teleports, "teleport"),
        (row.glitches, "glitch frame"),
        (row.frozen, "frozen frame"),
        (row.held, "held frame"),
        (row.repaired, "frame with NaN"),
        (len(row.warnings), "warning"),
    )
    notes = row.reason or ", ".join(
        counted(count, what).replace("frame with NaNs", "frames with NaN") for count, what in counts if count
    )
    if _resampled(row, fps):
        notes = f"resampled to {fps:g} a second{notes and f', {notes}'}"
    return (
        f"{name:{NAME_WIDTH}} {row.joints:6} {row.frames:6} {row.fps:5.4g} {row.kept:6} {row.seconds:6.1f} "
        f"{row.height:5.2f} {row.speed:6.2f}  {notes}"
    )


def _resampled(row: importing.FileReport, fps: float | None) -> bool:
    """Whether the rate that was asked for is another than the file's, so that other frames are kept than are in it."""
    return fps is not None and row.kept > 0 and abs(row.fps - fps) > 1e-3 * fps


def _row_json(row: importing.FileReport) -> dict[str, object]:
    return {"path": row.path, "status": "read" if row.read else "refused", **asdict(row)}


def _summary(rows: list[importing.FileReport], cached: int, files: int, fps: float | None) -> list[str]:
    """Lines that say how many of ``files`` files were read, and what was removed from them and why."""
    read = [row for row in rows if row.read]
    used, kept = sum(row.frames for row in read), sum(row.kept for row in read)
    lines = ["", f"read {len(read)} of {counted(len(rows), 'file')}, kept {kept} of {counted(used, 'frame')}"]
    if resampled := sum(_resampled(row, fps) for row in read):
        lines[-1] += f"; {counted(resampled, 'file')} resampled to {fps:g} frames a second"
    if len(rows) < files:
        lines.append(f"stopped before {counted(files - len(rows), 'file')}; run the same command again to continue")
    if cached:
        lines.append(f"{cached} of them {'was' if cached == 1 else 'were'} ready from an earlier run")
    for what, count in (
        ("T-pose frames removed", sum(row.t_poses for row in read)),
        ("jumps of the whole body, at which the clip was cut or repaired", sum(row.teleports for row in read)),
        ("glitch frames between jumps removed", sum(row.glitches for row in read)),
        ("frozen frames at the start or end removed", sum(row.frozen for row in read)),
        ("frames that only repeat the one before removed, for the true rate", sum(row.held for row in read)),
        ("frames with missing numbers filled in or removed", sum(row.repaired for row in read)),
    ):
        if count:
            lines.append(f"  {count} {what}")
    for row in rows:
        if row.reason:
            lines.append(f"  {Path(row.path).name}: {row.reason}")
    warnings = [warning for row in read for warning in row.warnings]
    lines += [f"  {warning}" for warning in warnings[:MOST_WARNINGS]]
    if len(warnings) > MOST_WARNINGS:
        lines.append(f"  and {counted(len(warnings) - MOST_WARNINGS, 'more warning')} (--json lists all of them)")
    return lines


def _unit(text: str) -> float:
    """[m] length of one file unit, from its name or a number; argparse.ArgumentTypeError for anything else."""
    try:
        value = UNITS.get(text.lower()) or float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(
            f"expected metres in one file unit, or one of {', '.join(UNITS)}, got {text!r}"
        )
    return value
