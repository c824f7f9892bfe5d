# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands ``test``, ``solve`` and ``bench``: their arguments and reports. They pass lines to ``say``; the program prints them."""

from __future__ import annotations

import argparse
import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import keep_apart, write_whole
from ..core.messages import Say, counted
from ..learning.arguments import number, require_writable
from ..motion import pose_set, splits
from ..motion.pose_set import PoseSet
from . import bench, density, drag_file, network, quality, report, targets_file
from .arguments import SHIPPED
from .context import prepare
from .goals import Goals
from .network import Network
from .solver import REACHED, STEPS, STEPS_AT_NEED, Solution, Solver

DATA, WEIGHTS = SHIPPED / "training_data.npz", SHIPPED / "weights" / "best.npy"
MOST_STEPS = 1000
MOST_HYPOTHESES = 64
PROGRESS_ROWS = 1000  # a line of progress after so many rows of drags


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    """Add ``test``, ``solve`` and ``bench`` to the command line; lines of output go to ``say``."""
    _add_test(commands, say)
    _add_solve(commands, say)
    _add_bench(commands, say)


# ---------------------------------------------------------------- test


def _add_test(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    parser = commands.add_parser(
        "test",
        help="run the quality tests on trained weights and show their card",
        description="Score weights on the frames of the data that they were not trained on: of clips used in training, the "
        "test part; of all other clips, every frame. Nothing is trained or changed.",
        epilog="Exit code 0: no test fails; 1: a test fails; 2: bad input, or no unseen frames to test on. Data without frames "
        "that the weights were trained on cannot show whether they beat copying those frames: Natural is then not measured.",
    )
    parser.add_argument("--weights", type=Path, default=WEIGHTS, metavar="BEST.npy", help="(%(default)s)")
    parser.add_argument("--data", type=Path, default=DATA, metavar="DATA.npz", help="(%(default)s)")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the figures as JSON to FILE, or to standard output if no name is given",
    )
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write a report with pictures")
    parser.set_defaults(run=lambda args: run_test(args, say))


def run_test(args: argparse.Namespace, say: Say) -> int:
    """Run the quality tests, show the card, write JSON and report if asked for; returns 1 if a test fails, else 0.

    Raises ValueError or OSError for bad input.
    """
    to_stdout, json_path = args.json == "-", _file(args.json)
    keep_apart({"--weights": args.weights, "--data": args.data}, {"--json": json_path, "--report": args.report})
    if args.report is not None:
        report.check("python -m neural_network test")
    for path in (json_path, args.report):
        require_writable(path)
    table = partial(say, error=to_stdout)  # the card stands beside JSON on standard output, not in front of it
    net, poses = network.load(args.weights), pose_set.load(args.data)
    solver = Solver(net, poses.skeleton)
    net = solver.net
    if solver.warning:
        say(f"note: {solver.warning}", error=True)
    parts = quality.parts_for(net, poses)
    samples = prepare(poses)
    unseen = int(np.sum(parts == splits.TEST))
    table(f"{args.weights.name} on {args.data.name}: {counted(poses.frames, 'frame')}, {unseen:,} unseen")
    measured = quality.measure(net, poses, parts, samples)
    seed = int(net.meta.get("config", {}).get("seed", 0))
    card = quality.figures([measured], poses, _split_name(net, poses, parts), files=[args.data.name], seed=seed)
    card["train"] = {
        "seconds": None,  # weights hold no times, so that the same training gives the same bytes
        "cpu_seconds": None,
        "epochs": net.meta.get("epochs"),
        "best_epoch": net.meta.get("best_epoch"),
        "samples_per_second": None,
    }
    for line in quality.text(card):
        table(line)
    if args.json is not None:
        _write_json(json.dumps(_finite(card), indent=1, allow_nan=False), json_path, say)
    if args.report is not None:
        write_whole(args.report, report.html(net, poses, samples, card, ()).encode("utf-8", "backslashreplace"))
        say(f"Report: {args.report.resolve()}")
    return 1 if quality.failed(card) else 0


def _file(name: str | None) -> Path | None:
    """The file that the word after --json names, None for standard output."""
    return None if name in (None, "-") else Path(str(name))


def _write_json(text: str, path: Path | None, say: Say) -> None:
    """Write JSON to a file, or to standard output for None."""
    if path is None:
        say(text)
    else:
        write_whole(path, f"{text}\n".encode())


def _split_name(net: Network, poses: PoseSet, parts: np.ndarray) -> str:
    """Name of the split that the test frames come from: that of the training, or clips the weights have not seen, or both."""
    data = net.meta.get("data", {})
    known = {clip["hash"] for clip in data.get("clips", [])}
    trained = [poses.clip_hash(int(c)) in known for c in np.unique(poses.clip[parts == splits.TEST])]
    if not any(trained):
        return "unseen clips"
    kind = str(data.get("split"))
    return kind if all(trained) or kind == "frame" else f"{kind} and unseen clips"


def _finite(value: Any) -> Any:
    """A JSON value with NaN and infinity, which JSON does not have, replaced by null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, np.generic):
        return _finite(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------- solve


def _add_solve(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    parser = commands.add_parser(
        "solve",
        help="solve a file of targets and write a file of poses",
        description="Solve many poses at once. IN.npz: positions (N,E,3) [m, armature space] in the order of the weights' "
        "effectors, root_pos (N,3), root_rot (N,3) [rad, rot_local of the Hips], and optionally rotations (N,E,3) [rad, of "
        "the effectors in armature space relative to their rest], weights and orientation_weights (N,E), normals (N,E,3), "
        "phase, task, ground (N), grounded, desired (N,feet). OUT.npz: rot (N,J,3) [rad, rot_local], root_pos (N,3), "
        "effector_error (N,E) [m]. With --session, IN.npz holds drags: positions (N,E,3), drag (N) which drag a row belongs "
        "to, start_rot (D,J,3) and start_root_pos (D,3) the pose that each begins with, and optionally weights (N,E), ground, "
        "targets of other bones: extra_bones (K names), extra_kinds (K: place, aim for what a chest faces or a head looks at, pole "
        "for where an elbow or a knee points), extra_points (N,K,3) and extra_weights (N,K), "
        "and a rig other than the reference rig: bone_names, parents, rest_arm, effectors, feet. The hips are free.",
        epilog="Exit code 0: written; 2: bad input. Targets out of reach are not an error: see effector_error.",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help=f"trained weights ({WEIGHTS}); with --session, people's, whose pose changes say what is natural ({density.SHIPPED})",
    )
    parser.add_argument(
        "--session",
        action="store_true",
        help="answer the rows in order as drags, each from the pose before: what is not dragged is held or follows",
    )
    parser.add_argument(
        "--targets", type=Path, required=True, metavar="IN.npz", help="file of targets, described above"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT.npz", help="file to write; its name ends in .npz"
    )
    parser.add_argument(
        "--steps",
        type=number(int, 0, MOST_STEPS),
        metavar="N",
        help=f"refinement steps after the network; 0 uses the network alone ({STEPS}, and {STEPS_AT_NEED} for what they do not reach)",
    )
    parser.add_argument(
        "--hypotheses",
        type=number(int, 1, MOST_HYPOTHESES),
        metavar="N",
        help="so many near training frames propose poses too, where the weights hold some: nearer to how the character "
        "moves, in about twice the time (1, or 8 where the weights come from fewer than 16 takes)",
    )
    parser.add_argument("--limits", action="store_true", help="keep every joint inside its limits")
    parser.add_argument(
        "--free-root", action="store_true", help="let the Hips move; the given root is only a starting point"
    )
    parser.set_defaults(run=lambda args: run_solve(args, say))


def run_solve(args: argparse.Namespace, say: Say) -> int:
    """Solve every row of the targets file and write the poses; returns 0. Raises ValueError or OSError for bad input."""
    if args.output.is_dir():
        raise ValueError(f"output: expected a file name, got the folder {args.output}")
    weights = args.weights or (density.SHIPPED if args.session else WEIGHTS)
    keep_apart({"the targets": args.targets, "--weights": weights}, {"output": args.output})
    require_writable(args.output, ".npz")
    if args.session:
        return _run_session(args, weights, say)
    solver = Solver.load(weights)
    goals, ignored = targets_file.load(args.targets, solver.skeleton)
    if ignored:
        say(f"note: {args.targets.name}: not used: {', '.join(ignored)}", error=True)
    solution = solver.solve_batch(goals, args.steps, args.limits, True if args.free_root else None, args.hypotheses)
    targets_file.save(args.output, solution, solver.skeleton)
    for line, error in _solve_summary(goals, solution, solver.skeleton.leg_length):
        say(line if error else f"{args.output}: {line}", error=error)
    return 0


def _run_session(args: argparse.Namespace, weights: Path, say: Say) -> int:
    """Answer drags and write the poses; returns 0. Raises ValueError or OSError for bad input."""
    given = [name for name in ("steps", "hypotheses", "limits", "free_root") if getattr(args, name)]
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ValueError(f"{names}: not with --session, where steps are taken as needed, with limits and free hips")
    targets, ignored = drag_file.load(args.targets)
    if ignored:
        say(f"note: {args.targets.name}: not used: {', '.join(ignored)}", error=True)
    net, covariance = network.load(weights), None
    if net.skeleton.fingerprint == targets.skeleton.fingerprint:
        covariance = density.of_character(targets.skeleton, net.density)
    elif args.weights is not None:
        net.skeleton.require_same(targets.skeleton, f"the rig of {args.targets.name}")
    if covariance is None:
        say(f"note: {weights.name} belongs to a rig of other bones: joint limits alone say what is natural", error=True)
    count, began = len(targets.positions), time.perf_counter()
    answers = []
    for answer in drag_file.solve(targets, covariance):
        answers.append(answer)
        done = len(answers)
        if done % PROGRESS_ROWS == 0 and done < count:
            say(f"{done:,} of {counted(count, 'pose')}", error=True)
    rot, root_pos, error = (np.stack(part) for part in zip(*answers, strict=True))
    drag_file.save(args.output, targets.skeleton, rot, root_pos, error)
    seconds = time.perf_counter() - began
    reached = float((error.max(axis=1) < REACHED).mean() * 100)
    say(
        f"{args.output}: {counted(len(targets.start_rot), 'drag')}, {counted(count, 'pose')} in {seconds:.2f} s; "
        f"{reached:.1f} % with all targets within 1 mm"
    )
    return 0


def _solve_summary(goals: Goals, solution: Solution, leg_length: float) -> list[tuple[str, bool]]:
    """Lines that say how near to their targets (within which ``leg_length`` [m] is far) the effectors came; True for warnings."""
    errors = solution.error if goals.weights is None else solution.error[goals.weights > 0]
    text = "no targets"
    lines = []
    if errors.size:
        text = f"mean {errors.mean() * 1000:.3g} mm, p95 {np.percentile(errors, 95) * 1000:.3g} mm"
        if np.median(errors) > leg_length:
            note = "note: most targets are more than a leg length out of reach; are they metres, in armature space?"
            lines.append((note, True))
    reached = solution.reached.all(axis=1).mean() * 100
    lines.append(
        (
            f"{counted(len(solution.error), 'pose')} in {solution.seconds:.2f} s, {counted(solution.steps, 'step')}; "
            f"effector error {text}, {reached:.1f} % with all targets within 1 mm",
            False,
        )
    )
    return lines


# ---------------------------------------------------------------- bench


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    parser = commands.add_parser(
        "bench",
        help="measure how fast training and solving are on this machine",
        description="Medians of many repetitions, in CPU time on one thread, or in wall time if OPENBLAS_NUM_THREADS asks for "
        "more. Run it on an idle machine: the nearer the best repetition is to the median, the less disturbed it was.",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="BEST.npy",
        help="(the shipped weights; an untrained network if they are missing)",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DATA.npz", help="(the shipped data; random poses if the rig is another)"
    )
    parser.add_argument(
        "--seconds",
        type=number(float, 0, 600, above=True),
        default=bench.SECONDS,
        metavar="S",
        help="minimum time for each row (%(default)s)",
    )
    parser.add_argument(
        "--epoch",
        type=number(int, 1, 10_000_000),
        default=bench.EPOCH,
        metavar="N",
        help="poses in the timed epoch; the figure is scaled to 50,000 (%(default)s)",
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write JSON to FILE, or to standard output if no name is given",
    )
    parser.set_defaults(run=lambda args: run_bench(args, say))


def run_bench(args: argparse.Namespace, say: Say) -> int:
    """Measure, with a line for each row, and write JSON if asked for; returns 0. Raises ValueError or OSError for bad input."""
    to_stdout = args.json == "-"
    json_path = _file(args.json)
    keep_apart({"--weights": args.weights, "--data": args.data}, {"--json": json_path})
    require_writable(json_path)
    table = partial(say, error=to_stdout)  # the table stands beside JSON on standard output, not in front of it
    weights = args.weights or (WEIGHTS if WEIGHTS.exists() else None)
    net = None if weights is None else network.load(weights)
    poses = _bench_poses(args.data, net)
    machine = bench.machine()
    load = "" if machine["load"] is None else f", load {machine['load']:g}"
    table(f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}{load}")
    table(
        f"Python {machine['python']}, NumPy {machine['numpy']}, {machine['blas']}, {counted(machine['threads'], 'thread')}, "
        f"{machine['clock']}"
    )
    table("untrained network (times do not depend on training)" if weights is None else str(weights))
    table(f"\n{'':44}{'median':>12}{'best':>12}")
    medians: dict[str, Any] = {}
    best: dict[str, float] = {}
    for row in bench.run(net, poses, args.seconds, args.epoch):
        medians[row.name], best[row.name] = row.value, row.best
        table(f"{row.name:44}{_digits(row.value):>12}{_digits(row.best):>12} {row.unit:8} {row.sentence}")
    if args.json is not None:
        _write_json(json.dumps({**medians, "best": best, "machine": machine}, indent=1), json_path, say)
    return 0


def _bench_poses(path: Path | None, net: Network | None) -> PoseSet | None:
    """The poses to measure with: those of ``path``, or the shipped ones if they fit ``net``, or None for random ones."""
    if path is not None:
        return pose_set.load(path)
    if not DATA.exists():
        return None
    shipped = pose_set.load(DATA)
    return shipped if net is None or net.skeleton.fingerprint == shipped.skeleton.fingerprint else None


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
