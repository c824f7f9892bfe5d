# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands ``physics mend|balance|eval``: their arguments and reports."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from ..core.files import keep_apart, write_whole
from ..core.messages import Say
from ..ik import mended_clips
from ..learning import card
from ..learning.arguments import positive, require_writable
from ..learning.evaluation import Commands, add_command, add_eval, evaluate, require_files
from ..motion import contact_file, pose_set
from ..rigs import on_body
from . import balance, figures, mending, physical
from .figures import Repaired
from .physical import Physical

VERSION = "1"  # of what the card measures


def add_parsers(commands: Commands, say: Say, repaired: Repaired) -> None:
    """Add ``physics`` to the command line; lines of output go to ``say``. ``repaired`` is the rival of ``eval``."""
    physics = commands.add_parser(
        "physics",
        help="motion that the ground can carry, and how well it is balanced",
        description="Motion that the ground can carry, and how well it is balanced. Sound motion comes back as it was.",
    )
    words = physics.add_subparsers(title="commands", metavar="COMMAND", required=True)
    what = "write the clips again, with feet that stand and weight that the ground carries, with `contact` (F, 2), `score` (F)"
    parser = add_command(words, say, run_mend, "mend", help=f"{what} and `judged_sound` (C)")
    parser.add_argument("clips", type=Path, metavar="IN.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.npz", help="clips to write")
    parser.add_argument(
        "--contacts",
        type=Path,
        metavar="C.npz",
        help="feet stand as its `contact` (F, 2) says; its `hands` (F, 2) hold, at its `places` (F, 2, 3)",
    )
    _seed(parser)
    parser = add_command(
        words, say, run_balance, "balance", help="how well contacts explain the clips: 0 well, 1 as if they floated"
    )
    parser.add_argument("clips", type=Path, metavar="IN.npz")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the score of every frame as JSON")
    parser.add_argument("--contacts", type=Path, metavar="C.npz", help="when its `hands` (F, 2) hold something")

    def judge(args: argparse.Namespace, say: Say) -> int:
        return run_eval(args, say, repaired)

    what = "measure every figure of Make Physical and of the balance score, beside plain methods"
    parser = add_eval(words, say, judge, help=what)
    parser.add_argument(
        "--data", type=Path, required=True, metavar="POSES",
        help="captured motion on the reference rig at 30 frames a second, clips named SUBJECT_TAKE (import --rig reference --fps 30)",
    )  # fmt: skip
    _seed(parser)


def _seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=positive(int, zero=True), default=0, help="of everything that is drawn (0)")


def run_mend(args: argparse.Namespace, say: Say) -> int:
    """Make Physical."""
    keep_apart({"the clips": args.clips, "--contacts": args.contacts}, {"-o": args.output})
    require_writable(args.output, ".npz")
    poses = pose_set.load(args.clips)
    who = on_body.found(poses.skeleton)
    given = (
        contact_file.NOTHING if args.contacts is None else contact_file.read(args.contacts, poses.frames, feet=False)
    )

    def make(clip: int, rows: slice, fps: float) -> Physical:
        own, motion = given.rows(rows), (poses.rot[rows], poses.root_pos[rows])
        floor = mended_clips.floor_of(poses, clip)
        return figures.finished(physical.make(who, *motion, fps, own.feet, floor, own.hands, own.places))

    def scores(every: list[Physical | None]) -> dict[str, np.ndarray]:
        score = np.zeros(poses.frames)
        for clip, done in enumerate(every):
            score[poses.rows(clip)] = 0.0 if done is None else done.score
        return {"score": score}

    mended_clips.mend(poses, make, _line, say, args.output, scores)
    return 0


def _line(name: str, done: Physical) -> str:
    was, now = done.before["score"], done.after["score"]
    if done.sound:
        return f"{name}: {'left' if done.notes else 'sound, left'} as it is; balance score {was:.2f}"
    told = ", ".join([f"balance score {was:.2f} to {now:.2f}", *mended_clips.before_and_after(done.before, done.after)])
    return f"{name}: {told}; legs turned {done.after['legs_deg']:.1f} degrees, the rest {done.after['rest_deg']:.1f}"


def run_balance(args: argparse.Namespace, say: Say) -> int:
    """The balance score of every frame."""
    keep_apart({"the clips": args.clips, "--contacts": args.contacts}, {"--json": args.json})
    require_writable(args.json)
    poses = pose_set.load(args.clips)
    who = on_body.found(poses.skeleton)
    given = (
        contact_file.NOTHING if args.contacts is None else contact_file.read(args.contacts, poses.frames, feet=False)
    )
    clips = []
    for clip, name in enumerate(poses.clip_names):
        rows, fps = poses.rows(clip), float(poses.clip_fps[clip])
        rot, root = poses.rot[rows], poses.root_pos[rows]
        on_body.require_motion(who, rot, root, fps, balance.FEWEST, f"{name}: {physical.FEW}")
        turns, way = on_body.to_body(who, rot, root)
        score = balance.balance(
            who.body, turns, way, fps, mended_clips.floor_of(poses, clip), given.rows(rows).hands
        ).score
        clips.append({"clip": name, "mean": float(score.mean()), "worst": float(score.max()), "score": score.tolist()})
        share = float((score > mending.HANGS).mean()) * 100
        say(
            f"{name}: balance score {score.mean():.2f}, at worst {score.max():.2f}; nothing carries {share:.0f} % of its frames"
        )
    if args.json is not None:
        write_whole(args.json, (json.dumps({"unit": "body weights", "clips": clips}, indent=1) + "\n").encode())
    return 0


def run_eval(args: argparse.Namespace, say: Say, repaired: Repaired) -> int:
    """Measure, show, and write what was asked for; 1 where a bar is missed."""
    require_files(args, {"--data": args.data})
    poses = pose_set.load(args.data)
    about = card.Data((args.data.name,), poses.frames, "20 takes of subjects 07 and 16 (W), 49 (A)", figures.RATE)
    return evaluate(args, say, "physics", VERSION, about, figures.measured(poses, args.seed, repaired), figures.WHY)
