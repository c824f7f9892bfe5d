# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer's command line for predictors: ``standalone_trainer.py motion --mode mlp|gru|transformer_reg|transformer|direct``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ..core.files import keep_apart
from ..learning import steps
from ..learning.arguments import Help, add_files, number, positive, share
from ..learning.loop import state_path
from ..learning.optimizer import AdamSettings
from ..learning.steps import StepSettings
from ..motion.states import LAYOUTS
from .arguments import names
from .predictor import KINDS
from .step_windows import SOURCE, VELOCITY, Learning

DEFAULTS = StepSettings(
    steps=6000, round=250, lr=1e-3, adam=AdamSettings(beta2=0.99, decay=0.01, clip=1.0, average=0.995)
)
SIZES = {"mlp": (512, 3), "gru": (384, 2), "transformer_reg": (192, 3), "transformer": (192, 3), "direct": (192, 4)}
"""Mode -> default width and depth."""
TEST_RATIO = 0.15  # of the source, where takes are split by activity


def parser(data: Path, weights: Path) -> argparse.ArgumentParser:
    """The command line; ``data`` and ``weights`` are the default files."""
    out = argparse.ArgumentParser(
        prog="standalone_trainer.py motion",
        description="Train a network that predicts motion: the next state of a body from its states so far, over and over. Needs PyTorch.",
        formatter_class=Help,
        allow_abbrev=False,
        epilog="Exit codes: 0 trained, 2 bad input or a file that could not be written, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 "
        "by SIGHUP. `python -m neural_network motion eval --predictors FILE` measures what was trained.",
    )
    out.add_argument("--mode", choices=tuple(KINDS), required=True, help="the network")
    out.add_argument(
        "--preset",
        choices=("own", "source"),
        default="own",
        help="source: layout dof56, mean square errors alone, a fifth of the batches roll out 5 steps, detached",
    )
    files = add_files(out, data, weights)
    files.add_argument(
        "--more", type=Path, nargs="+", default=[], metavar="POSES", help="further files of poses on the same rig"
    )
    files.add_argument(
        "--bvh_dir", "--bvh-dir", type=Path, metavar="FOLDER",
        help="read the BVH and AMC files of a folder instead of --data, on the reference rig at 30 frames a second",
    )  # fmt: skip
    files.add_argument("--tensorboard", type=Path, metavar="FOLDER", help="write curves for TensorBoard")
    files.add_argument("--leave-out", type=names, default=(), metavar="S,S", help="subjects that are not looked at")
    files.add_argument(
        "--validate",
        type=names,
        default=(),
        metavar="S,S",
        help="subjects to validate on (default: every twelfth take)",
    )
    files.add_argument(
        "--activity_split", "--activity-split", action="store_true",
        help="hold out for test a share of the takes of every activity, walks, runs, jumps and others alike",
    )  # fmt: skip
    files.add_argument(
        "--test_ratio", "--test-ratio", type=number(float, 0, 0.5),
        help=f"share of takes that are held out for test, whole takes (default: {TEST_RATIO} with --activity_split, else 0)",
    )  # fmt: skip
    files.add_argument(
        "--split_file",
        "--split-file",
        type=Path,
        metavar="FILE.json",
        help="write which takes train, validate and test",
    )
    how = steps.add_steps(out, DEFAULTS)
    how.add_argument("--epochs", type=positive(int), help="passes over all windows, instead of --steps")
    shape = out.add_argument_group("network")
    shape.add_argument("--layout", choices=tuple(LAYOUTS), help="of states (default: pose; dof56 with --preset source)")
    shape.add_argument("--width", type=positive(int), help="channels (default by mode)")
    shape.add_argument("--depth", type=positive(int), help="layers (default by mode)")
    shape.add_argument("--heads", type=positive(int), default=4, help="of attention")
    shape.add_argument("--dropout", type=share, default=0.1, help="share of what a layer adds that is left out")
    shape.add_argument(
        "--seq_len", "--seq-len", dest="seen", type=number(int, 2), default=None,
        help="frames in a window where the next one alone is learned, and the most that a Transformer looks at (default: 64)",
    )  # fmt: skip
    what = out.add_argument_group("what is learned (defaults by --preset)")
    what.add_argument("--horizons", type=_horizons, metavar="N,N", help="frames ahead, one after another (1,8,30,60)")
    what.add_argument(
        "--rollouts", choices=("through", "detached", "off"), help="whether gradients go through them (through)"
    )
    what.add_argument("--rollout-share", type=share, help="share of batches that roll out (1)")
    what.add_argument("--position", type=positive(float, zero=True), help="weight of places (1)")
    what.add_argument("--velocity", type=_velocity, help="of speeds, or adaptive: by the variances of both (0.1)")
    what.add_argument("--smooth", type=positive(float, zero=True), help="of squared second differences (0)")
    what.add_argument("--joints", type=positive(float, zero=True), help="of distances of joints (1)")
    what.add_argument("--path", type=positive(float, zero=True), help="of distances of the Hips along the ground (0.3)")
    what.add_argument("--contact", type=positive(float, zero=True), help="of contacts (0.01)")
    what.add_argument("--noise", type=positive(float, zero=True), help="on known states, in their spreads (0)")
    what.add_argument(
        "--curriculum", action="store_true", default=None, help="walks first, then runs, then jumps, then all"
    )
    what.add_argument("--batch-size", dest="batch", type=positive(int), help="windows in a step (512)")
    what.add_argument(
        "--sharing", action="store_true",
        help="find out on the validation takes how much of it Continue is to take, beside a library of the others",
    )  # fmt: skip
    what.add_argument("--as-captured", action="store_true", help="no mirror images, no other speeds")
    return out


def _horizons(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(1 <= n <= 240 for n in found):
        raise argparse.ArgumentTypeError(f"expected frames from 1 to 240 between commas, got {text!r}")
    return found


def _velocity(text: str) -> float | str:
    return VELOCITY if text == VELOCITY else float(positive(float, zero=True)(text))


def learning_of(args: argparse.Namespace) -> Learning:
    """What the flags ask for, over the preset."""
    base = SOURCE if args.preset == "source" else Learning()
    given: dict[str, Any] = {
        f.name: getattr(args, f.name) for f in fields(Learning) if getattr(args, f.name) is not None
    }
    if given.get("velocity") == VELOCITY:
        given["velocity"] = None
    return replace(base, **given)


def parse(argv: Sequence[str], data: Path, weights: Path) -> argparse.Namespace:
    """The arguments of a command line; the weights' default is a file of the mode beside the shipped ones."""
    out = parser(data, weights.with_name("motion_MODE.npz"))
    args = out.parse_args(argv)
    if args.weights.name == "motion_MODE.npz":
        args.weights = args.weights.with_name(f"motion_{args.mode}.npz")
    args.layout = args.layout or ("dof56" if args.preset == "source" else "pose")
    width, depth = SIZES[args.mode]
    args.width, args.depth = args.width or width, args.depth or depth
    if args.test_ratio is None:
        args.test_ratio = TEST_RATIO if args.activity_split else 0.0
    if args.mode not in ("mlp", "gru") and args.width % args.heads:
        out.error(f"--heads: expected a divisor of --width {args.width}, got {args.heads}")
    if args.mode == "direct" and max(learning_of(args).horizons) > 60:
        out.error("--horizons: direct says 60 frames at most")
    return args


def require_separate_files(args: argparse.Namespace) -> None:
    """Raise ValueError if a file that would be written is read, or written twice."""
    read = {"--data": args.data, **{f"--more {path.name}": path for path in args.more}}
    written = {"--weights": args.weights, "--json": args.json, "--report": args.report, "--progress": args.progress}
    written["--split_file"] = args.split_file
    keep_apart(read, {**written, "the state to resume from": state_path(args.weights)})
