# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: ``python -m neural_network COMMAND``, each command's face in a section of its own.

A command adds its arguments in ``add_NAME`` and does its work in ``run_NAME``, which returns the exit code. Bad input
is a ValueError or OSError from below: one sentence, exit code 2. Ctrl-C is 130.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TextIO

if __name__ == "__main__":
    # Threads must be set before NumPy comes in. One is fastest at these sizes; whoever has set another number keeps it.
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(_name, "1")
    _ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if _ours:  # Ctrl-C before there is anything to keep ends at once and without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)

import numpy as np

from .core.files import keep_apart, write_whole
from .formats import importing
from .ik import bench, network, quality, report, targets_file
from .ik.context import prepare
from .ik.network import Network
from .ik.solver import Solver
from .live import command as live
from .motion import pose_set, splits
from .rigs.roles import read_table

SHIPPED = Path(__file__).resolve().parent.parent / "training_data"
DATA, WEIGHTS = SHIPPED / "training_data.npz", SHIPPED / "weights" / "best.npy"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file name that the console cannot show must not stop a run
            stream.reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(
        prog="python -m neural_network",
        description="Learn a character's own way of moving and solve full-body inverse kinematics with it.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (add_import, add_test, add_solve, add_bench):
        add(commands)
    live.add_parsers(commands, partial(print, flush=True))
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
    except MemoryError as error:
        print(f"{parser.prog}: not enough memory ({error}); give less at a time", file=sys.stderr)
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
    parser.add_argument(
        "--roles",
        type=Path,
        metavar="FILE",
        help='JSON that says which bone plays which role, {"Hips": "pelvis", ...} (found)',
    )
    parser.add_argument("--strip-prefix", action="store_true", help='bone names without their prefix ("mixamorig:")')
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
        roles=tuple(sorted(read_table(args.roles).items())) if args.roles else (),
        low_pass=args.low_pass,
        strip_prefix=args.strip_prefix,
        mirror=args.mirror,
        clean=not args.raw,
    )
    importing.check(options)
    files = importing.find_files(paths)
    others = importing.passed_over(paths)
    say = sys.stderr if args.json == "-" else sys.stdout
    lines = None
    rows = None if args.json in (None, "-") else Path(args.json)
    read = {str(path): path for path in (*files, *others)} | {"--roles": args.roles}
    keep_apart(read, {"output": args.output, "--json": rows})
    if rows is not None:
        rows.parent.mkdir(parents=True, exist_ok=True)
        lines = open(rows, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed below
    if others:
        kinds = ", ".join(sorted({path.suffix.lower() for path in others}))
        print(f"{len(others)} files of other kinds ({kinds}) are passed over: import them in Blender", file=say)
    try:
        print(f"{len(files)} files, {options.rig} rig, to {args.output}", file=say)
        events = importing.run(files, args.output, options, args.jobs)
        show_import(events, len(files), say, sys.stdout if args.json == "-" else lines)
        return 0
    finally:
        if lines is not None:
            lines.close()


def show_import(
    events: Iterable[importing.Progress | importing.Written], files: int, say: TextIO, rows_to: TextIO | None
) -> list[importing.Written]:
    """Loop over the events of an import of so many files: a line each, a summary, a JSON row each; returns what was written."""
    done: list[importing.Row] = []
    written: list[importing.Written] = []
    again = 0
    print(f"{'':9} {'file':28} joints frames   fps   used      s     m    m/s  notes", file=say)
    try:
        for event in events:
            if isinstance(event, importing.Written):
                written.append(event)
                continue
            done.append(event.row)
            again += event.again
            print(f"{event.done:4}/{files:<4} {_row_line(event.row)}", file=say, flush=True)
            if rows_to is not None:
                print(json.dumps(_row_json(event.row)), file=rows_to, flush=True)
    finally:
        if done:
            for line in _summary(done, again, files):
                print(line, file=say)
    for file in written:
        print(f"{file.path}: {file.clips} clips, {file.frames} frames, {file.joints} bones", file=say)
        if file.outvoted:
            print(f"  the up axis of {file.outvoted} clips was taken from the other files with this skeleton", file=say)
    if len(written) > 1:
        print(f"{len(written)} skeletons, so one file each; --rig reference brings people to one rig", file=say)
    return written


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


def _summary(rows: list[importing.Row], again: int, files: int) -> list[str]:
    """What was read, and what was left out and why; ``files`` were to be read."""
    read = [row for row in rows if row.read]
    used, kept = sum(row.frames for row in read), sum(row.kept for row in read)
    lines = ["", f"read {len(read)} of {len(rows)} files, {kept} frames kept of {used}"]
    if len(rows) < files:
        lines.append(f"stopped before {files - len(rows)} files; the same command goes on from here")
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


# ---------------------------------------------------------------- test


def add_test(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Arguments of ``test``."""
    parser = commands.add_parser(
        "test",
        help="the quality suite and the honest card for trained weights",
        description="Score weights on the frames of the data that they never saw: clips they were trained on keep the "
        "part they had, clips they do not know count as test. Nothing is trained or changed.",
        epilog="Exit code 0: every test passes; 1: a test fails; 2: bad input, or nothing unseen to test on.",
    )
    parser.add_argument("--weights", type=Path, default=WEIGHTS, metavar="BEST.npy", help="(%(default)s)")
    parser.add_argument("--data", type=Path, default=DATA, metavar="DATA.npz", help="(%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write a report with pictures")
    parser.set_defaults(run=run_test)


def run_test(args: argparse.Namespace) -> int:
    """Run the suite, print the card, write JSON and report where asked for; 0 where every test passes, else 1."""
    keep_apart({"--weights": args.weights, "--data": args.data}, {"--json": args.json, "--report": args.report})
    if args.report is not None:
        report.check()
    net, poses = network.load(args.weights), pose_set.load(args.data)
    solver = Solver(net, poses.skeleton)
    net = solver.net
    if solver.warning:
        print(f"note: {solver.warning}", file=sys.stderr)
    parts = quality.parts_for(net, poses)
    samples = prepare(poses)
    print(f"{args.weights.name} on {args.data.name}: {poses.frames} frames, {int(np.sum(parts == splits.TEST))} unseen")
    card = quality.figures([quality.measure(net, poses, parts, samples)], poses, _split_name(net, poses, parts))
    card["train"] = {
        "seconds": None,  # weights hold no times, so that the same training gives the same bytes
        "cpu_seconds": None,
        "epochs": net.meta.get("epochs"),
        "best_epoch": net.meta.get("best_epoch"),
        "samples_per_second": None,
    }
    print("\n".join(quality.text(card)))
    if args.json is not None:
        write_whole(args.json, (json.dumps(_finite(card), indent=1, allow_nan=False) + "\n").encode())
    if args.report is not None:
        write_whole(args.report, report.html(net, poses, samples, card, ()).encode())
    return 0 if all(test["passed"] for test in card["tests"]) else 1


def _split_name(net: Network, poses: pose_set.PoseSet, parts: np.ndarray) -> str:
    """The split of the test frames: the one these weights were trained with, or that they come from other clips."""
    data = net.meta.get("data", {})
    known = {clip["hash"] for clip in data.get("clips", [])}
    ours = [poses.clip_hash(int(c)) in known for c in np.unique(poses.clip[parts == splits.TEST])]
    if not any(ours):
        return "unseen clips"
    kind = str(data.get("split"))
    return kind if all(ours) or kind == "frame" else f"{kind} and unseen clips"


def _finite(value: Any) -> Any:
    """A JSON value without NaN and infinity, which JSON has no word for: they become null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, np.generic):
        return _finite(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------- solve


def add_solve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Arguments of ``solve``."""
    parser = commands.add_parser(
        "solve",
        help="a file of targets to a file of poses",
        description="Solve many poses at once. IN.npz: positions (N,E,3) [m, armature space] in the order of the weights' "
        "effectors, root_pos (N,3), root_rot (N,3) [rad, rot_local of the Hips], and optionally rotations (N,E,3) [rad, of "
        "the effectors in armature space relative to their rest], weights and orientation_weights (N,E), normals (N,E,3), "
        "phase, task, ground (N), grounded, desired (N,feet). OUT.npz: rot (N,J,3) [rad, rot_local], root_pos (N,3), "
        "effector_error (N,E) [m].",
        epilog="Exit code 0: written; 2: bad input. Targets out of reach are no error: effector_error tells.",
    )
    parser.add_argument("--weights", type=Path, default=WEIGHTS, metavar="BEST.npy", help="(%(default)s)")
    parser.add_argument("--targets", type=Path, required=True, metavar="IN.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.npz")
    parser.add_argument(
        "--steps",
        type=int,
        default=3,
        metavar="N",
        help="exact steps after the network; 0: the network alone (%(default)s)",
    )
    parser.add_argument("--limits", action="store_true", help="keep every joint inside its limits")
    parser.add_argument("--free-root", action="store_true", help="let the Hips follow, the given ones are a hint")
    parser.set_defaults(run=run_solve)


def run_solve(args: argparse.Namespace) -> int:
    """Solve every row of the targets and write the poses; returns 0."""
    if not 0 <= args.steps <= 1000:
        raise ValueError(f"steps: expected 0 to 1000, got {args.steps}")
    if args.output.is_dir():
        raise ValueError(f"output: expected a file name, got the folder {args.output}")
    keep_apart({"the targets": args.targets, "--weights": args.weights}, {"output": args.output})
    solver = Solver.load(args.weights)
    goals, ignored = targets_file.load(args.targets, solver.skeleton)
    if ignored:
        print(f"note: {args.targets.name}: not used: {', '.join(ignored)}", file=sys.stderr)
    solution = solver.solve_batch(goals, args.steps, args.limits, True if args.free_root else None)
    targets_file.save(args.output, solution, solver.skeleton)
    asked = solution.error if goals.weights is None else solution.error[goals.weights > 0]
    far = (
        f"mean {asked.mean() * 1000:.3g} mm, p95 {np.percentile(asked, 95) * 1000:.3g} mm"
        if asked.size
        else "none asked"
    )
    every = solution.reached.all(axis=1).mean() * 100
    if asked.size and np.median(asked) > solver.skeleton.leg_length:
        print(
            "note: most targets lie more than a leg out of reach; are they metres, in armature space?", file=sys.stderr
        )
    print(
        f"{args.output}: {len(solution.error)} poses in {solution.seconds:.2f} s, {args.steps} steps; "
        f"effector error {far}, {every:.1f} % with all targets within 1 mm"
    )
    return 0


# ---------------------------------------------------------------- bench


def add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Arguments of ``bench``."""
    parser = commands.add_parser(
        "bench",
        help="how fast training and solving are on this machine",
        description="Medians of many repetitions, in CPU time, on one thread unless OPENBLAS_NUM_THREADS says otherwise (then "
        "in wall time). Run it on a machine that does nothing else: the best repetition beside the median shows how quiet it was.",
    )
    parser.add_argument(
        "--weights", type=Path, metavar="BEST.npy", help="(the shipped ones; untrained where there are none)"
    )
    parser.add_argument("--data", type=Path, metavar="DATA.npz", help="(the shipped; random poses for another rig)")
    parser.add_argument("--seconds", type=float, default=bench.SECONDS, help="spent on each row at least (%(default)s)")
    parser.add_argument(
        "--epoch",
        type=int,
        default=bench.EPOCH,
        metavar="N",
        help="poses in the epoch that is timed; the figure is for 50,000 (%(default)s)",
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="as JSON, to this file or, without a name, to standard output",
    )
    parser.set_defaults(run=run_bench)


def run_bench(args: argparse.Namespace) -> int:
    """Measure, a line for each row, and JSON where asked for; returns 0."""
    if not 0 < args.seconds <= 600:
        raise ValueError(f"seconds: expected a number above 0 and up to 600, got {args.seconds:g}")
    if not 1 <= args.epoch <= 10_000_000:
        raise ValueError(f"epoch: expected 1 to 10,000,000 poses, got {args.epoch}")
    if args.json not in (None, "-"):
        keep_apart({"--weights": args.weights, "--data": args.data}, {"--json": Path(args.json)})
    weights = args.weights or (WEIGHTS if WEIGHTS.exists() else None)
    net = None if weights is None else network.load(weights)
    poses = pose_set.load(args.data) if args.data is not None else None
    if poses is None and DATA.exists():
        shipped = pose_set.load(DATA)
        if net is None or net.skeleton.fingerprint == shipped.skeleton.fingerprint:
            poses = shipped
    say = sys.stderr if args.json == "-" else sys.stdout
    about = bench.machine()
    words = "untrained network (times do not depend on it)" if weights is None else str(weights)
    load = "" if about["load"] is None else f", load {about['load']:g}"
    print(f"{about['cpu']}, {about['cores']} cores, {about['system']}{load}", file=say)
    print(
        f"Python {about['python']}, NumPy {about['numpy']}, {about['blas']}, {about['threads']} thread(s), {about['clock']}",
        file=say,
    )
    print(f"{words}\n\n{'':44}{'median':>12}{'best':>12}", file=say)
    figures: dict[str, Any] = {}
    best: dict[str, float] = {}
    for row in bench.run(net, poses, args.seconds, args.epoch):
        figures[row.name], best[row.name] = row.value, row.best
        print(
            f"{row.name:44}{_digits(row.value):>12}{_digits(row.best):>12} {row.unit:8} {row.sentence}",
            file=say,
            flush=True,
        )
    found = json.dumps({**figures, "best": best, "machine": about}, indent=1) + "\n"
    if args.json == "-":
        print(found, end="")
    elif args.json is not None:
        write_whole(args.json, found.encode())
    return 0


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    if _ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
