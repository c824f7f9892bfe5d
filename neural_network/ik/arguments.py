# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer's command line for the IK network: its flags, its presets, and the settings they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ..core.files import keep_apart
from ..learning.arguments import Help, add_files, add_training, number, positive, share, widths
from ..learning.loop import state_path
from ..motion import splits
from .context import LAYOUTS
from .settings import Losses, Training
from .task import loop_settings

SHIPPED = Path(__file__).resolve().parents[2] / "training_data"
"""The poses and weights that come with Neural IK."""
FINE_TUNING_LR = 0.0015  # with --init: larger steps forget what the weights know before the new poses are learned
UNLIMITED = 1_000_000  # epochs, where the time limit ends the training

CONTRACT = {
    "layout": "reference",
    "lr": 0.001,
    "augment": 2,
    "joint_noise": 0.1,
    "pose_weight": 0.3,
    "joints_weight": 0.0,
}
PRESETS: dict[str, dict[str, Any]] = {
    "reference": CONTRACT,
    "older": {
        **CONTRACT,
        "mix": 0.0,
        "without_rotations": 0.0,
        "fk_every": 16,
        "contact_every": 8,
        "fk_off_below": 0.02,
        "older_ground": True,
    },
    "quality": {"hidden": (512, 512, 512), "lr": 0.0015},
    "positions": {"layout": "positions", "mix": 0.3, "joint_noise": 0.2},
}
"""Named settings: the reference recipe, its older schedule, a larger network that still answers in real time, and one
without orientation inputs, trained on less unusual poses."""

_PRESET_HELP = (
    "named settings, which single flags override: reference trains as the shipped weights were trained, older as the first "
    "versions did, quality three layers of 512, positions a network that is given no rotations of the targets"
)
_LAYOUT_HELP = (
    "what the network is given and answers: reference takes positions and rotations of the targets in an upright frame at "
    "the Hips, hips in the Hips' own axes; positions leaves the rotations out; masked may lack targets; free may too, and "
    "answers where the Hips are; bodies is given the lengths of the limbs, for many proportions; people also where limbs begin and "
    "end, for many rigs"
)


def parser(data: Path, weights: Path) -> argparse.ArgumentParser:
    """The command line; ``data`` and ``weights`` are the default files."""
    out = argparse.ArgumentParser(
        prog="standalone_trainer.py",
        description="Train a network for full-body inverse kinematics on extracted poses, then test it on motion it never saw.",
        formatter_class=Help,
        allow_abbrev=False,  # --threads is read before NumPy comes in, and must be spelled out
        epilog="Exit codes: 0 trained and all tests pass, 1 trained and a test fails, 2 bad input or a file that could "
        "not be written, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.",
    )
    files = add_files(out, data, weights)
    files.add_argument(
        "--init",
        type=Path,
        metavar="WEIGHTS",
        help=f"start from these weights (fine-tuning), with --lr {FINE_TUNING_LR:g} unless another is given",
    )
    files.add_argument(
        "--also",
        type=Path,
        metavar="POSES",
        help="other characters' poses (.npz, same bones), put on this body: for characters with little motion of their own",
    )
    training = Training()
    _add_network(add_training(out, loop_settings(training), training.batch_size), training)
    _add_older(out.add_argument_group("the older schedule"), training)
    _add_held_out(out.add_argument_group("what is held out"))
    return out


def _add_network(how: argparse._ArgumentGroup, d: Training) -> None:
    how.add_argument("--hidden", type=widths, default=d.hidden, metavar="N,N", help="widths of the hidden layers")
    how.add_argument("--preset", choices=sorted(PRESETS), help=_PRESET_HELP)
    how.add_argument("--layout", choices=sorted(LAYOUTS), default=d.layout, help=_LAYOUT_HELP)
    how.add_argument(
        "--augment",
        type=positive(int, zero=True),
        default=d.augment,
        help=f"times each pose is presented per epoch; 0: twice, or more until there are {d.epoch_least}",
    )
    how.add_argument(
        "--mix", type=share, default=d.mix, help="pose-mix: probability of another pose's limb; 0 turns it off"
    )
    how.add_argument(
        "--joint-noise",
        type=positive(float, zero=True),
        default=d.joint_noise,
        metavar="RAD",
        help="largest noise on every joint in pose-mix",
    )
    how.add_argument(
        "--without-rotations",
        type=share,
        default=d.without_rotations,
        help="share of batches that are given no rotations of the targets, so that the network can do without; 0: none",
    )
    how.add_argument("--proportions", type=share, default=d.proportions, help="spread of random body proportions")
    how.add_argument(
        "--drop-effectors",
        type=share,
        default=d.drop_effectors,
        help="share of poses that lose targets (layouts with a mask)",
    )
    how.add_argument("--pose-weight", type=share, default=d.losses.pose, help="weight of the pose loss")
    how.add_argument(
        "--joints-weight", type=share, default=d.losses.joints, help="weight of the distance of all joints"
    )
    how.add_argument(
        "--max-frames",
        type=positive(int, zero=True),
        default=0,
        help="train on at most this many evenly spaced frames; 0: all",
    )


def _add_older(older: argparse._ArgumentGroup, d: Training) -> None:
    older.add_argument(
        "--fk-every",
        type=positive(int),
        default=d.fk_every,
        help="FK gradient on every n-th batch; the first versions used 16",
    )
    older.add_argument(
        "--contact-every",
        type=positive(int),
        default=d.contact_every,
        help="contact gradient on every n-th batch; the first versions used 8",
    )
    older.add_argument(
        "--fk-off-below",
        type=positive(float, zero=True),
        default=0.0,
        metavar="M2",
        help="no FK gradient below this mean square; the first versions used 0.02",
    )
    older.add_argument("--older-ground", action="store_true", help="a foot is grounded when its head is below 0.1 m")


def _add_held_out(held: argparse._ArgumentGroup) -> None:
    held.add_argument(
        "--split",
        choices=splits.SPLITS,
        default="block",
        help="hold out blocks of every clip, whole clips, or (leaky) random frames",
    )
    held.add_argument(
        "--holdout",
        type=number(float, 0, 0.5, above=True),
        default=splits.SPLIT_SHARE,
        metavar="SHARE",
        help="share of the frames (of the clips, with --split clip) held out for test, and as much again for validation; "
        "less than 0.5",
    )
    held.add_argument(
        "--folds", type=positive(int), metavar="K", help="cross-validate over K folds of whole clips, then fit on all"
    )
    held.add_argument(
        "--no-beside", action="store_true", help="skip the second, shorter training that shows the clip split's figure"
    )


def parse(words: Sequence[str], data: Path, weights: Path) -> argparse.Namespace:
    """The arguments of a command line; a preset's values stand where no flag overrides them."""
    cli = parser(data, weights)
    first, _ = cli.parse_known_args(words)
    if first.init is not None:
        cli.set_defaults(lr=FINE_TUNING_LR)
    cli.set_defaults(**PRESETS.get(first.preset or "", {}))
    return cli.parse_args(words)


def config_of(args: argparse.Namespace) -> Training:
    """The settings that parsed arguments stand for; ValueError where they contradict each other."""
    if args.folds and args.resume:
        raise ValueError("--resume cannot continue a training with --folds; leave one of the two out")
    names = {f.name for f in fields(Training)} & set(vars(args))
    kept = {name: getattr(args, name) for name in names}
    if args.epochs is None:
        kept["epochs"] = UNLIMITED if args.time_limit else Training().epochs
    if not LAYOUTS[args.layout].mask and args.drop_effectors:
        raise ValueError(
            f"--drop-effectors: expected a layout with a mask, got --layout {args.layout}; use masked or free"
        )
    return Training(**kept, losses=replace(Losses(), pose=args.pose_weight, joints=args.joints_weight))


def require_separate_files(args: argparse.Namespace) -> None:
    """ValueError where a file is both read and written; fine-tuning in place (--init and --weights the same) is allowed."""
    read = {"--data": args.data, "--also": args.also, "--init": None if args.init == args.weights else args.init}
    written = {"--weights": args.weights, "the stopped training": state_path(args.weights)}
    written |= {"--json": args.json, "--report": args.report, "--progress": args.progress}
    keep_apart(read, {**written, "--cancel-file": args.cancel_file})
