# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands ``repair contacts|fix|clean|corrupt|eval``: their arguments and reports."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..core import rotations
from ..core.files import keep_apart
from ..core.messages import Say, counted
from ..ik import mended_clips
from ..learning import card
from ..learning.arguments import positive, require_writable
from ..learning.evaluation import Commands, add_command, add_eval, evaluate, require_files
from ..motion import contact_file, pose_set
from ..motion.pose_set import PoseSet
from ..rigs import on_body
from ..rigs.on_body import Character
from . import corruption, fixing, network
from .arguments import rivals_path
from .corruption import KINDS, MIX
from .draws import COLLARS
from .fixing import Fixed
from .judging import SURE
from .network import SHIPPED, Network

VERSION = "1"  # of what the card measures
USED = "convolution"  # of the networks that a file may hold


def add_parsers(commands: Commands, say: Say) -> None:
    """Add ``repair`` to the command line; lines of output go to ``say``."""
    repair = commands.add_parser(
        "repair",
        help="feet that stand, and motion without tremble, drops and drift",
        description="Feet that stand, and motion without tremble, drops and drift. Sound motion comes back as it was.",
    )
    words = repair.add_subparsers(title="commands", metavar="COMMAND", required=True)
    made = "write the clips again with `contact` (F, 2), `changed_mm` and `judged_sound` (C)"
    for name, run, text in (
        ("contacts", run_contacts, "find when feet stand; write the clips with `contact` (F, 2)"),
        ("fix", run_fix, f"hold standing feet, mend poses and the root where they are wrong; {made}"),
        ("clean", run_clean, f"mend poses and the root where they are wrong, hold no feet; {made}"),
    ):
        parser = add_command(words, say, run, name, help=text)
        _files(parser)
        if name == "fix":
            parser.add_argument(
                "--contacts",
                type=Path,
                metavar="C.npz",
                help="its `contact` is held instead; where it has `hands` (F, 2), these too, at `places` (F, 2, 3) [m]",
            )
        _weights(parser)
    parser = add_command(words, say, run_corrupt, "corrupt", help="spoil clean motion on purpose, to measure repairs")
    _files(parser)
    parser.add_argument("--kind", choices=(*KINDS, MIX), default=MIX, help="what goes wrong (%(default)s)")
    _weights(parser)
    parser = add_eval(words, say, run_eval, help="measure every figure of the repairs, beside plain methods")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="POSES",
        help="captured motion on the reference rig at 30 frames a second, clips named SUBJECT_TAKE (import --rig reference --fps 30)",
    )  # fmt: skip
    parser.add_argument("--draws", type=positive(int), default=3, help="corruptions of each take (%(default)s)")
    _weights(parser)


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("clips", type=Path, metavar="IN.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.npz", help="clips to write")


def _weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", type=Path, default=SHIPPED, metavar="REPAIR.npz", help="(%(default)s)")
    parser.add_argument("--seed", type=positive(int, zero=True), default=0, help="of everything that is drawn (0)")


# ---------------------------------------------------------------- clips in, clips out


def _loaded(args: argparse.Namespace, **also: Path | None) -> tuple[PoseSet, Character]:
    """The clips and who moves in them; ValueError, in words, where these have no hips, legs or feet."""
    keep_apart({"the clips": args.clips, "--weights": args.weights, **also}, {"-o": args.output})
    require_writable(args.output, ".npz")
    poses = pose_set.load(args.clips)
    return poses, on_body.found(poses.skeleton)


def _network(args: argparse.Namespace, say: Say) -> Network | None:
    """The network, or None, with a note, where the shipped weights are not there."""
    if args.weights == SHIPPED and not SHIPPED.exists():
        say("note: no weights for repairs are here; plain methods are used", error=True)
        return None
    found = network.load(args.weights)
    if USED not in found:
        raise ValueError(
            f"{args.weights.name}: expected weights of the {USED} network, got {', '.join(found)}; those are for repair eval"
        )
    return found[USED]


def run_contacts(args: argparse.Namespace, say: Say) -> int:
    """Find when feet stand."""
    poses, who = _loaded(args)
    learned = _network(args, say)
    contact = np.zeros((poses.frames, 2), bool)
    for clip, name in enumerate(poses.clip_names):
        rows = poses.rows(clip)
        if rows.stop - rows.start >= fixing.FEWEST:
            contact[rows] = fixing.find_contacts(
                who,
                poses.rot[rows],
                poses.root_pos[rows],
                float(poses.clip_fps[clip]),
                mended_clips.floor_of(poses, clip),
                learned,
            )
        share = contact[rows].mean(axis=0) * 100
        say(
            f"{name}: the left foot stands in {share[0]:.0f} %, the right one in {share[1]:.0f} % of {counted(len(contact[rows]), 'frame')}"
        )
    pose_set.save(args.output, poses, {"contact": contact})
    return 0


def run_fix(args: argparse.Namespace, say: Say) -> int:
    """Fix Feet."""
    poses, who = _loaded(args, **{"--contacts": args.contacts})
    given = contact_file.NOTHING if args.contacts is None else contact_file.read(args.contacts, poses.frames)

    def fix(clip: int, rows: slice, fps: float, learned: Network | None) -> Fixed:
        own = given.rows(rows)
        under, motion = mended_clips.floor_of(poses, clip), (poses.rot[rows], poses.root_pos[rows])
        return fixing.fix(who, *motion, fps, own.feet, under, learned, own.hands, own.places)

    return _all_clips(args, say, poses, fix)


def run_clean(args: argparse.Namespace, say: Say) -> int:
    """Clean."""
    poses, who = _loaded(args)

    def clean(clip: int, rows: slice, fps: float, learned: Network | None) -> Fixed:
        return fixing.clean(
            who, poses.rot[rows], poses.root_pos[rows], fps, learned, mended_clips.floor_of(poses, clip)
        )

    return _all_clips(args, say, poses, clean)


def _all_clips(
    args: argparse.Namespace, say: Say, poses: PoseSet, make: Callable[[int, slice, float, Network | None], Fixed]
) -> int:
    learned = _network(args, say)

    def moved(every: list[Fixed | None]) -> dict[str, np.ndarray]:
        return {"changed_mm": np.array([0.0 if done is None else done.changed_mm for done in every])}

    mended_clips.mend(poses, lambda clip, rows, fps: make(clip, rows, fps, learned), _line, say, args.output, moved)
    return 0


def _line(name: str, done: Fixed) -> str:
    if done.sound:
        return f"{name}: sound, left as it is"
    wrong = ", ".join(kind for kind, chance in done.kinds.items() if chance > SURE)
    told = ", ".join(mended_clips.before_and_after(done.before, done.after))
    return f"{name}: {f'{wrong}; ' if wrong else ''}moved by {done.changed_mm:.1f} mm; {told}"


def run_corrupt(args: argparse.Namespace, say: Say) -> int:
    """Spoil motion."""
    poses, who = _loaded(args)
    rig = poses.skeleton
    still = [who.roles[name] for name in COLLARS if name in who.roles]
    rot, root = poses.rot.astype(np.float64), poses.root_pos.astype(np.float64)
    for clip, name in enumerate(poses.clip_names):
        rows = poses.rows(clip)
        rng = np.random.default_rng([args.seed, clip])
        kinds = corruption.drawn(args.kind, rng)
        core = rotations.matrix_from_axis_angle(rig.to_core(rot[rows]))
        turns, way = corruption.corrupt(core, root[rows] @ rig.axes.T, kinds, rng, still)
        rot[rows], root[rows] = rig.from_core(rotations.axis_angle_from_matrix(turns)), way @ rig.axes
        say(f"{name}: {', '.join(kinds) or 'nothing'}")
    pose_set.save(args.output, replace(poses, rot=rot.astype(np.float32), root_pos=root.astype(np.float32)))
    return 0


# ---------------------------------------------------------------- eval


def run_eval(args: argparse.Namespace, say: Say) -> int:
    """Measure, show, and write what was asked for; 1 where a bar is missed."""
    from . import figures

    require_files(args, {"--weights": args.weights, "--data": args.data})
    learned = network.load(args.weights)
    others = rivals_path(args.weights)
    if others.exists():
        learned = {**learned, **network.load(others)}
    poses = pose_set.load(args.data)
    about = card.Data((args.data.name,), poses.frames, "subjects 07 and 16 (W), 49 (A)", 30.0)
    found = figures.measured(learned, poses, args.seed, args.draws)
    return evaluate(args, say, "repair", VERSION, about, found, figures.WHY)
