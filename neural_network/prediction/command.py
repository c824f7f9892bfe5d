# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands ``motion continue|fill|check|convert|eval``: their arguments and reports."""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import keep_apart, write_whole
from ..core.messages import Say, counted
from ..core.skeleton import Skeleton
from ..ik import held_bones
from ..learning import card, page
from ..learning.arguments import number, positive, require_writable, share
from ..learning.evaluation import Commands, add_command, add_eval, evaluate, require_files
from ..motion import contact_file, pose_set
from ..motion.contact_file import Contacts
from ..motion.pose_set import PoseSet
from ..rigs import on_body
from ..rigs.on_body import Character
from . import checking, continuing, figures, filling, library, material, network, predictor, step_command, step_figures
from .filling import Filled
from .library import Library, Take
from .network import SHIPPED, Network
from .predictor import Predictor

MOST_FRAMES = 10**9
FAR = 1.0  # [leg lengths] feet this far above the floor of the file stand on another one
VERSION = "1"  # of what the card measures
CLIPS = Path(__file__).resolve().parents[2] / "training_data" / "training_data.npz"
SPLITS = {"W": ("07", "16"), "A": ("49",)}
"""Subjects that are judged on: walks and runs, which have bars, and acrobatics."""


def add_parsers(commands: Commands, say: Say) -> Commands:
    """Add ``motion`` to the command line, and return its commands; lines of output go to ``say``."""
    motion = commands.add_parser(
        "motion",
        help="fill between poses, continue motion, check how far either can be trusted",
        description="Fill between poses, continue motion, check how far either can be trusted.",
    )
    words = motion.add_subparsers(title="commands", metavar="COMMAND", required=True)
    made = "written with `generated`, `source_frame` and `contact`"
    parser = add_command(words, say, run_continue, "continue", help=f"let every clip go on from a frame; {made}")
    _files(parser)
    parser.add_argument(
        "--from", dest="start", type=positive(int, zero=True), metavar="K", help="last frame that is kept (the last)"
    )
    parser.add_argument("--frames", type=positive(int), default=60, metavar="N", help="frames to make (%(default)s)")
    parser.add_argument("--goal", type=_point, metavar="X,Y", help="[m] a place on the floor to go to")
    parser.add_argument("--heading", type=number(float, -360, 360), metavar="DEGREES", help="to go in, 0 along -Y")
    _about(parser)
    parser = add_command(words, say, run_fill, "fill", help=f"make the frames between keys; {made}")
    _files(parser)
    parser.add_argument("--keys", type=_numbers, required=True, metavar="K,K", help="frames of each clip that stay")
    parser.add_argument(
        "--contacts", type=Path, metavar="C.npz",
        help="when feet stand: its `contact` (F, 2) bool; where it has `hands` (F, 2), hands hold then, at `places` (F, 2, 3) [m]",
    )  # fmt: skip
    _about(parser)
    parser = add_command(
        words, say, run_check, "check", help="how far Fill and Continue can be trusted, on a character's own clips"
    )
    parser.add_argument("clips", type=Path, metavar="IN.npz")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured as JSON")
    _library(parser)
    step_command.add_parser(words, say)
    _eval(words, say)
    return words


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("clips", type=Path, metavar="IN.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.npz", help="clips to write")


def _about(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=positive(int, zero=True), default=0, help="0: the likeliest motion; others vary (0)"
    )
    parser.add_argument(
        "--detail", type=share, default=0.0, help="0: likeliest and smoother, 1: the nearest clip's own movement (0)"
    )
    _library(parser)


def _library(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--own", type=Path, metavar="POSES", help="the character's own clips to search, on its skeleton"
    )
    parser.add_argument("--only-own", action="store_true", help="leave out the clips that are shipped")
    parser.add_argument(
        "--clip-weights", type=_shares, metavar="NAME=W,NAME=W", default={},
        help="clips of the library that are to be taken after less (0 to 1; 0 not at all)",
    )  # fmt: skip
    _weights(parser)


def _weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", type=Path, default=SHIPPED, metavar="MOTION.npz", help="(%(default)s)")
    parser.add_argument(
        "--steps", type=Path, default=predictor.SHIPPED, metavar="STEPS.npz",
        help="what predicts the first steps of Continue (%(default)s)",
    )  # fmt: skip


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or max(map(abs, found)) > MOST_FRAMES:
        raise argparse.ArgumentTypeError(f"expected frame numbers between commas, got {text!r}")
    return found


def _shares(text: str) -> dict[str, float]:
    try:
        parts = [part.rpartition("=") for part in text.split(",")]
        found = {name: share(value) for name, _, value in parts if name}
    except ValueError:
        found = {}
    if len(found) != len(text.split(",")):
        raise argparse.ArgumentTypeError(f"expected names and numbers as walk=0.5,run=0, got {text!r}")
    return found


def _point(text: str) -> np.ndarray:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 2 or not np.isfinite(values).all():
        raise argparse.ArgumentTypeError(f"expected two numbers between a comma, got {text!r}")
    return np.array(values)


# ---------------------------------------------------------------- clips in, clips out


def _network(path: Path, say: Say) -> Network | None:
    """The network, or None, with a note, where the shipped weights are not there."""
    if path == SHIPPED and not SHIPPED.exists():
        say("note: no weights for motion are here; the library alone is used", error=True)
        return None
    return network.load(path)


def _steps(path: Path) -> Predictor | None:
    """The predictor of steps, or None where the shipped one is not there."""
    return predictor.shipped() if path == predictor.SHIPPED else predictor.load(path)


def _floor(poses: PoseSet, clip: int) -> float:
    return 0.0 if poses.ground is None else float(poses.ground[clip])


def _searched(args: argparse.Namespace, who: Character, say: Say) -> Library:
    """The library: own clips where they are given, then the shipped ones."""
    parts = []
    if args.own is not None:
        own = pose_set.load(args.own)
        who.skeleton.require_same(own.skeleton, f"the clips in {args.own.name}")
        parts.append(library.of_takes(who.body, library.takes_of(own)))
    if not args.only_own:
        parts.append(library.of_takes(who.body, library.takes_of(pose_set.load(CLIPS), who.body)))
    if not parts:
        raise ValueError("--only-own: expected clips to search, got none; name them with --own")
    found = library.favouring(library.joined(parts), args.clip_weights)
    say(f"Library: {counted(len(set(found.names)), 'clip')}, {found.frames} frames with mirror images")
    return found


def _loaded(args: argparse.Namespace, **also: Path | None) -> tuple[PoseSet, Character]:
    keep_apart({"the clips": args.clips, "--own": args.own, "--weights": args.weights, **also}, {"-o": args.output})
    require_writable(args.output, ".npz")
    poses = pose_set.load(args.clips)
    return poses, on_body.found(poses.skeleton)


def _write(path: Path, poses: PoseSet, made: list[dict[str, np.ndarray]]) -> None:
    """Write clips with the keys that all wings share."""
    columns = {name: np.concatenate([one[name] for one in made]) for name in made[0]}
    clip = np.repeat(np.arange(len(made)), [len(one["rot"]) for one in made]).astype(np.int32)
    out = pose_set.make(
        poses.skeleton,
        columns.pop("rot"),
        columns.pop("root"),
        clip,
        poses.clip_names,
        poses.clip_tasks,
        poses.clip_fps,
        poses.ground,
    )
    pose_set.save(path, out, columns)


def run_fill(args: argparse.Namespace, say: Say) -> int:
    """Fill every clip between the same keys."""
    poses, who = _loaded(args, **{"--contacts": args.contacts})
    given = (
        contact_file.NOTHING if args.contacts is None else contact_file.read(args.contacts, poses.frames, feet=False)
    )
    found, learned = _searched(args, who, say), _network(args.weights, say)
    made = []
    for c, take in enumerate(library.takes_of(poses)):
        rows = poses.rows(c)
        held = given.rows(rows)
        try:
            keys = filling.checked_keys(np.array(args.keys), len(take.root), take.fps)
        except ValueError as error:
            raise ValueError(f"{take.name}: {error}") from None
        up = library.floor_under(who.body, take.turns[keys], take.root[keys], FAR)
        result = filling.fill(
            who.body,
            take.turns,
            take.root - [0, 0, up],
            keys,
            found,
            fps=take.fps,
            seed=args.seed,
            detail=args.detail,
            network=learned,
            stands=held.feet,
        )
        floor = _floor(poses, c) + up
        result, notes = _holding(who, result, held, take.fps, floor)
        if up:
            notes = (
                f"its feet are {abs(up):.2f} m {'above' if up > 0 else 'below'} the floor; one at their height is used",
                *notes,
            )
        rot, root = on_body.from_body(who, result.turns, result.root + [0, 0, floor])
        kept = ~result.generated
        rot[kept], root[kept] = poses.rot[rows][kept], poses.root_pos[rows][kept]
        made.append(
            {
                "rot": rot,
                "root": root,
                "contact": result.contact,
                "generated": result.generated,
                "source_frame": result.source,
            }
        )
        say(f"{take.name}: {counted(int(result.generated.sum()), 'frame')} made")
        for words in (*result.notes, *notes):
            say(f"note: {take.name}: {words}", error=True)
    _write(args.output, poses, made)
    return 0


def _holding(who: Character, made: Filled, held: Contacts, fps: float, floor: float) -> tuple[Filled, tuple[str, ...]]:
    """The motion with hands that hold, and notes on those that do not reach."""
    if held.hands is None or not held.hands.any():
        return made, ()
    on_body.require_hands(who)

    def own(turns: np.ndarray, root: np.ndarray) -> np.ndarray:
        return on_body.hands_of(who, *on_body.from_body(who, turns, root)) - [0, 0, floor]

    places = None if held.places is None else held.places - [0, 0, floor]
    fixed = ~made.generated
    turns, missing = held_bones.hold_hands(who.body, made.turns, made.root, held.hands, fps, places, fixed, own)
    return replace(made, turns=turns), held_bones.too_far(missing)


def run_continue(args: argparse.Namespace, say: Say) -> int:
    """Let every clip go on."""
    poses, who = _loaded(args)
    found, steps = _searched(args, who, say), _steps(args.steps)
    heading = None if args.heading is None else float(np.radians(args.heading))
    made = []
    for c, take in enumerate(library.takes_of(poses)):
        rows = poses.rows(c)
        last = len(take.root) - 1 if args.start is None else args.start
        if last >= len(take.root):
            raise ValueError(f"--from: expected frames from 0 to {len(take.root) - 1} in {take.name}, got {last}")
        kept = slice(0, last + 1)
        result = continuing.continue_(
            who.body, take.turns[kept], take.root[kept], args.frames, found,
            fps=take.fps, seed=args.seed, detail=args.detail, steps=steps, goal=args.goal, heading=heading,
        )  # fmt: skip
        rot, root = on_body.from_body(who, result.turns, result.root + [0, 0, _floor(poses, c)])
        before = np.zeros((last + 1, result.contact.shape[1]), bool)
        made.append(
            {
                "rot": np.concatenate([poses.rot[rows][kept], rot]),
                "root": np.concatenate([poses.root_pos[rows][kept], root]),
                "contact": np.concatenate([before, result.contact]),
                "generated": np.repeat([False, True], [last + 1, args.frames]),
                "source_frame": np.concatenate([np.full(last + 1, -1), result.source]),
            }
        )
        say(f"{take.name}: {counted(args.frames, 'frame')} after frame {last}")
    _write(args.output, poses, made)
    return 0


def run_check(args: argparse.Namespace, say: Say) -> int:
    """Measure on a character's own clips, and say it in words."""
    keep_apart({"the clips": args.clips, "--own": args.own, "--weights": args.weights}, {"--json": args.json})
    require_writable(args.json)
    poses = pose_set.load(args.clips)
    who = on_body.found(poses.skeleton)
    takes = library.takes_of(poses)
    parts = [library.of_takes(who.body, takes)]
    if args.own is not None:
        own = pose_set.load(args.own)
        who.skeleton.require_same(own.skeleton, f"the clips in {args.own.name}")
        more = [take for take in library.takes_of(own) if take.name not in poses.clip_names]
        if more:
            parts.append(library.of_takes(who.body, more))
    if not args.only_own:
        parts.append(library.of_takes(who.body, library.takes_of(pose_set.load(CLIPS), who.body)))
    *_, result = checking.check(
        library.favouring(library.joined(parts), args.clip_weights),
        takes,
        _network(args.weights, say),
        _steps(args.steps),
    )
    assert isinstance(result, checking.Checked)
    for words in result.words:
        say(words)
    if args.json is not None:
        document = {
            "schema": 1,
            "words": list(result.words),
            "fill_mm": dict(zip(map(str, result.lengths), result.fill.tolist(), strict=True)),
            "interpolation_mm": dict(zip(map(str, result.lengths), result.straight.tolist(), strict=True)),
            "continue_mm": result.ahead.tolist(),
            "hold_mm": result.hold.tolist(),
        }
        write_whole(args.json, (json.dumps(document, indent=1) + "\n").encode())
    return 0


# ---------------------------------------------------------------- eval


def _eval(words: Commands, say: Say) -> None:
    parser = add_eval(
        words,
        say,
        run_eval,
        help="measure every figure of Fill and Continue, beside plain rivals",
        description="Measure Fill and Continue on subjects 07 and 16 (walks and a run) and 49 (acrobatics, no bars but the best rival), "
        "from a library of the other subjects' takes.",
    )
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, metavar="POSES",
        help="captured motion on the reference rig, clips named SUBJECT_TAKE (import --rig reference --fps 30)",
    )  # fmt: skip
    parser.add_argument("--seed", type=positive(int, zero=True), default=0, help="of confidence intervals (0)")
    parser.add_argument("--no-network", action="store_true", help="judge the library alone")
    parser.add_argument(
        "--predictors", type=Path, nargs="+", default=[], metavar="STEPS.npz", help="judge these networks alone, too"
    )
    parser.add_argument("--only-predictors", action="store_true", help="judge nothing else")
    parser.add_argument(
        "--split_file",
        "--split-file",
        type=Path,
        metavar="FILE.json",
        help="that the trainer wrote, for --use_test_set",
    )
    parser.add_argument(
        "--use_test_set", "--use-test-set", action="store_true",
        help="judge predictors on the takes that the split file holds out for test, not on the subjects above",
    )  # fmt: skip
    parser.add_argument(
        "--num_frames",
        "--num-frames",
        type=positive(int),
        default=figures.LONG,
        help="of free runs of predictors (%(default)s)",
    )
    _weights(parser)


def run_eval(args: argparse.Namespace, say: Say) -> int:
    """Measure, show, and write what was asked for; 1 where a bar is missed."""
    require_files(args, {"--weights": args.weights, **{f"--data {path.name}": path for path in args.data}})
    if args.report is not None:
        page.check("uv run --group report python -m neural_network motion eval ...")
    learned = None if args.no_network else _network(args.weights, say)
    body, takes = material.read(args.data, only_numbered=True)
    held = [subject for subjects in SPLITS.values() for subject in subjects]
    if learned is not None:
        seen = sorted({t for t in learned.about.get("takes", []) if material.subject_of(t) in held})
        if seen:
            raise ValueError(
                f"{args.weights.name}: expected weights that learned nothing from subjects {', '.join(held)}, got {', '.join(seen[:4])};"
                f" train with --leave-out {','.join(held)}"
            )
    if args.use_test_set and args.split_file is None:
        raise ValueError("--use_test_set: expected --split_file, which names the takes")
    if args.use_test_set:
        parts = {"test": step_figures.held_out(args.split_file, takes)}
        held_takes = [take.name for take in parts["test"]]
    else:
        parts = {name: material.of(takes, subjects) for name, subjects in SPLITS.items()}
        held_takes = held
    judged = step_figures.loaded(args.predictors, held_takes)
    steps = None if args.no_network else _steps(args.steps)
    if steps is not None:
        step_figures.require_unseen(steps, args.steps, held)
    frames = sum(len(t.root) for t in takes)
    about = card.Data(tuple(path.name for path in args.data), frames, f"subjects {', '.join(held)}", library.FPS)
    found = itertools.chain(
        () if args.only_predictors else figures.measured(body, takes, learned, SPLITS, args.seed, steps),
        step_figures.measured(judged, body, parts, args.num_frames),
    )

    def sections() -> list[str]:
        own = [] if args.only_predictors else _growth(body, takes, steps)
        return [*own, *step_figures.sections(judged, body, parts)]

    return evaluate(args, say, "motion", VERSION, about, found, WHY, sections)


WHY = {
    "fill": (
        "twelve windows bent onto both ends and averaged, and that averaged with two Transformers that bend interpolation",
        "the networks' loss was still falling after 240 s; nine minutes of other people's motion do not say how this person moves",
    ),
    "500 frames": (
        "clips played up to 15 % faster, steps up to 15 % longer, the pace of whole steps, no clip that halts a walker",
        "a third of a second does not tell a take's mean speed, least of all where the body still stands",
    ),
}
"""What was tried for a figure that is missed, and what holds it back, by words of its name."""


def _growth(body: Skeleton, takes: list[Take], steps: Predictor | None) -> list[str]:
    """Sections of the page: how errors and speeds grow over the frames ahead."""
    parts = []
    held = [subject for subjects in SPLITS.values() for subject in subjects]
    own = library.of_takes(body, material.without(takes, held))
    for name, subjects in SPLITS.items():
        found = figures.cut(figures.Split(name, tuple(material.of(takes, subjects))), max(figures.AHEAD), 0)
        if found is not None:
            curves = figures.growth(own, found, steps)
            for part, unit, title in ((0, "mm", "MPJPE, Hips at the origin"), (2, "m/s", "speed of the Hips")):
                parts.append(page.section(f"{name}: {title}", _curves(curves, part, unit, title, f"{name}-{part}")))
    return parts


def _curves(curves: dict[str, Any], part: int, unit: str, title: str, name: str) -> str:
    """One line for each method over the frames ahead."""
    drawing, axes = page.figure(1, 1, 9.6, 3.6)
    ax = axes[0, 0]
    for method, values in curves.items():
        if part == 0 and method == "captured":
            continue
        line = values[part].mean(axis=0)
        ax.plot(np.arange(1, len(line) + 1), line, lw=2.2 if method in ("ours", "captured") else 1.2, label=method)
    ax.set_xlabel("frames ahead (30 a second)")
    ax.set_ylabel(f"{title} [{unit}]")
    ax.legend(frameon=False, labelcolor=page.INK, fontsize=8)
    return page.picture(drawing, f"{title} over the frames ahead, by method", f"Means over all starts: {title}.", name)
