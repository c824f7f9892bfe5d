# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands ``gait params|sample|match|rollout|refine|eval``: their arguments and reports."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import keep_apart, read_archive, write_whole
from ..core.messages import Say, counted
from ..learning import card
from ..learning.arguments import number, positive, require_writable
from ..learning.evaluation import Commands, add_command, add_eval, evaluate, require_files
from ..motion import pose_set
from . import captured, cycles, figures, matching, motion_files, network, parameters, walks
from .network import SHIPPED
from .teacher import KinematicTeacher, body
from .trainer import VERSION
from .walks import Taught


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    """Add ``gait`` to the command line; lines of output go to ``say``."""
    gait = commands.add_parser(
        "gait",
        help="walks and runs from parameters, and the parameters of walks that exist",
        description="Walks and runs from parameters, and the parameters of walks that exist.",
    )
    words = gait.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _params(words, say)
    _sample(words, say)
    _match(words, say)
    _rollout(words, say)
    _refine(words, say)
    _eval(words, say)


def _weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", type=Path, default=SHIPPED, metavar="GAIT.npz", help="(%(default)s)")
    parser.add_argument("--seed", type=positive(int, zero=True), default=0, help="of everything that is drawn (0)")


def _write_json(value: Any, path: Path) -> None:
    write_whole(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


# ---------------------------------------------------------------- params


def _params(words: Commands, say: Say) -> None:
    parser = add_command(words, say, run_params, "params", help="list every parameter: name, unit, range, default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the list as JSON")


def run_params(args: argparse.Namespace, say: Say) -> int:
    """List the parameters."""
    require_writable(args.json)
    rows = [
        {
            "name": p.name,
            "unit": p.unit,
            "min": p.least,
            "max": p.most,
            "default": p.default,
            "words": p.words,
            "group": p.group,
        }
        for p in (parameters.SPEED, *parameters.TABLE)
    ]
    if args.json is not None:
        _write_json(rows, args.json)
        return 0
    for p in (parameters.SPEED, *parameters.TABLE):
        say(f"{p.name:16s} {p.least:6g} to {p.most:<6g} {p.unit:8s} {p.default:6g}  {p.words}")
    return 0


# ---------------------------------------------------------------- sample


def _sample(words: Commands, say: Say) -> None:
    parser = add_command(
        words,
        say,
        run_sample,
        "sample",
        help="make a walk with parameters from a JSON file",
        description='Make a walk on the reference rig in the parameters\' proportions. P.json: {"schema": 1, "params": {}, '
        '"proportions": {}, "style": {}}; what is left out has its default, and speed stands for step length and cadence.',
    )
    parser.add_argument("--params", type=Path, metavar="P.json", help="parameters (default: a healthy walk)")
    parser.add_argument("--frames", type=number(int, 1, 1_000_000), default=240, help="(%(default)s)")
    parser.add_argument("--fps", type=number(float, 1, 1000), default=30.0, help="frames a second (%(default)g)")
    parser.add_argument("--loop", action="store_true", help="the frames are whole cycles, to be played for ever")
    parser.add_argument("--teacher", action="store_true", help="ask the teacher instead of the network")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.npz", help="clip to write")
    _weights(parser)


def run_sample(args: argparse.Namespace, say: Say) -> int:
    """Make a walk and write it as a clip with ``contact`` and ``cycle_seconds``."""
    keep_apart({"--weights": args.weights, "--params": args.params}, {"-o": args.output})
    require_writable(args.output, ".npz")
    gait = network.load(args.weights)
    values = parameters.DEFAULT.copy() if args.params is None else parameters.read(args.params)
    source: walks.Source = Taught(KinematicTeacher(gait.model)) if args.teacher else gait
    rig = body(values)
    walk = walks.walk(source, values, args.frames, args.fps, loop=args.loop)
    rot, root = walks.to_local(rig, walk.turns, walk.root)
    poses = pose_set.make(rig, rot, root, np.zeros(len(rot), np.int32), ["gait"], ["locomotion"], args.fps, np.zeros(1))
    pose_set.save(args.output, poses, {"contact": walk.contact, "cycle_seconds": np.array([walk.cycle_seconds])})
    say(
        f"{args.output}: {counted(args.frames, 'frame')} at {args.fps:g} a second, {float(parameters.speed(values)):.2f} m/s, "
        f"{walk.cycle_seconds:.3f} s a cycle"
    )
    if walk.missing > 0.005:
        say(f"note: legs do not reach by up to {1000 * walk.missing:.0f} mm; shorten the step", error=True)
    return 0


# ---------------------------------------------------------------- match


def _match(words: Commands, say: Say) -> None:
    parser = add_command(
        words,
        say,
        run_match,
        "match",
        help="find the parameters of walks that exist",
        description="Find the parameters of the walks in a clip file on the reference rig (import --rig reference).",
    )
    parser.add_argument("clip", type=Path, metavar="IN.npz")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the parameters as JSON")
    _weights(parser)


def run_match(args: argparse.Namespace, say: Say) -> int:
    """Find and show the parameters of each clip in which somebody walks."""
    keep_apart({"the clip": args.clip, "--weights": args.weights}, {"--json": args.json})
    require_writable(args.json)
    gait, poses = network.load(args.weights), pose_set.load(args.clip)
    rows: list[dict[str, Any]] = []
    for clip, name in enumerate(poses.clip_names):
        found = cycles.cut(poses, clip)
        if not found:
            say(f"{name}: nobody walks a whole cycle")
            continue
        match = matching.match(gait, poses.skeleton, found)
        document = json.loads(parameters.to_json(match.values))
        row: dict[str, Any] = {"clip": name, "cycles": match.cycles, "error_deg": match.error, **document}
        row["speed"] = float(parameters.speed(match.values))
        row["measured"] = {
            key: float(np.mean([getattr(c.measured, key) for c in found]))
            for key in ("speed", "cadence", "step_length")
        }
        rows.append(row)
        say(
            f"{name}: {counted(match.cycles, 'cycle')}, {row['speed']:.2f} m/s, steps of {row['params']['step_length']:.3f} m, "
            f"{row['params']['cadence']:.2f} a second; joints {match.error:.1f} degrees off"
        )
    if not rows:
        raise ValueError(
            f"{args.clip.name}: expected a walk of at least one cycle, left strike to left strike, got none"
        )
    if args.json is not None:
        _write_json({"schema": 1, "clips": rows}, args.json)
    return 0


# ---------------------------------------------------------------- rollout and refine


def _rollout(words: Commands, say: Say) -> None:
    parser = add_command(
        words,
        say,
        run_rollout,
        "rollout",
        help="let the teacher make motion files to learn from",
        description="Write files of motions (N, 60, 101) and params (N, P), random parameters by the seed, into a folder.",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--count", type=number(int, 1, 10_000_000), default=motion_files.PER_FILE, help="cycles (%(default)s)"
    )
    parser.add_argument("--jobs", type=positive(int), default=1, help="processes (1)")
    _weights(parser)


def run_rollout(args: argparse.Namespace, say: Say) -> int:
    """Write the motion files that are missing."""
    gait = network.load(args.weights)
    if args.output.exists() and not args.output.is_dir():
        raise ValueError(f"-o: expected a folder, got the file {args.output}")
    args.output.mkdir(parents=True, exist_ok=True)
    for done, of in motion_files.generate(args.output, gait.model, args.count, args.seed, args.jobs):
        say(f"file {done} of {of}")
    return 0


def _refine(words: Commands, say: Say) -> None:
    parser = add_command(
        words,
        say,
        run_refine,
        "refine",
        help="put raw motions on 60 samples of two cycles",
        description="Read raw motions (N, F, 101), lengths (N), phases (N, F) [rad] and params (N, P); write those that have "
        "two whole cycles as a motion file, and say how many were left out for which reason.",
    )
    parser.add_argument("raw", type=Path, nargs="+", metavar="RAW.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.npz")


def run_refine(args: argparse.Namespace, say: Say) -> int:
    """Refine raw motion files into one."""
    keep_apart({path.name: path for path in args.raw}, {"-o": args.output})
    require_writable(args.output, ".npz")
    kept, params = [], []
    total = {"load failed": 0, "too short": 0, "not 60": 0}
    wanted = ("motions", "lengths", "phases", "params")
    for path in sorted(args.raw):
        try:
            found = read_archive(path, "raw gait motions", wanted)
            if set(found) != set(wanted):
                raise ValueError(f"{path.name}: expected {', '.join(wanted)}, got {', '.join(found) or 'none of them'}")
            motions, rows, counts = motion_files.refined(found["motions"], found["lengths"], found["phases"])
        except (ValueError, OSError, IndexError) as error:
            say(f"{path.name}: {error}", error=True)
            total["load failed"] += 1
            continue
        kept.append(motions)
        params.append(found["params"][rows])
        for key, value in counts.items():
            total[key] += value
    count = sum(len(m) for m in kept)
    say(f"kept {counted(count, 'motion')}; left out: " + ", ".join(f"{value} {key}" for key, value in total.items()))
    if not count:
        raise ValueError("refine: expected at least one motion of two whole cycles, got none")
    motions = np.concatenate(kept).astype(np.float32)
    motion_files.save(args.output, motions, np.concatenate(params).astype(np.float32), {"teacher": "raw"})
    return 0


# ---------------------------------------------------------------- eval


def _eval(words: Commands, say: Say) -> None:
    parser = add_eval(
        words,
        say,
        run_eval,
        help="measure every figure of the gait network",
        description="Measure the network against its teacher, published walking, commanded speeds and captured walks held out.",
    )
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        metavar="POSES",
        help="captured motion on the reference rig, clips named SUBJECT_TAKE; without, its figures are not measured",
    )
    parser.add_argument(
        "--cycles", type=number(int, 10, 100_000), default=300, help="parameters to judge on (%(default)s)"
    )
    _weights(parser)


def run_eval(args: argparse.Namespace, say: Say) -> int:
    """Measure, show, and write what was asked for; 1 where a bar is missed."""
    data = args.data or []
    require_files(args, {"--weights": args.weights, **{f"--data {path.name}": path for path in data}})
    gait = network.load(args.weights)
    about = card.Data(
        tuple(path.name for path in data), args.cycles * 30, "random parameters; subjects 07 and 16", 30.0
    )
    return evaluate(args, say, "gait", VERSION, about, _measured(gait, data, args.cycles, args.seed), WHY)


def _measured(gait: network.Gait, data: list[Path], count: int, seed: int) -> Iterator[card.Figure]:
    """Every figure; those of captured motion, where there is any, in place of those without."""
    names = []
    if data:
        for figure in captured.captured_figures(gait, data, seed):
            names.append(figure.name)
            yield figure
    for figure in figures.measured(gait, count, seed):
        if figure.name not in names:
            yield figure
    yield captured.synthetic(gait, 20, seed)


WHY: dict[str, tuple[str, str]] = {
    "held-out parameters": (
        "whole cycles along each foot's own phase instead of poses, a teacher without jumps, more cycles, cycles in a mirror",
        "time: the error still falls with more cycles and longer training",
    ),
    "range of joints, very slow and very fast": (
        "a straight line over step length through the slow, free and fast groups, on a common foot-off",
        "the published ankle range falls by 8 degrees from slow to very slow; the three fitted groups say 2",
    ),
    "captured walks held out": (
        "sliders for elbows, arms, head and hips; damped steps on all sliders and styles, drawn to their defaults",
        "a performer's own ankles and feet, which no slider says; Learn from my Walks does",
    ),
    "jerk beside captured takes of the same speed": (
        "8 harmonics of the captured curves and all 12 that the network says",
        "means over takes have none of a take's own small movements; an earlier network had as much by trembling",
    ),
}
"""What was tried for a figure that is missed, and what holds it back, by the first words of its name."""
