# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer's command line for gaits: ``standalone_trainer.py gait``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from ..core.files import keep_apart
from ..learning.arguments import Help, add_training, number, positive, widths
from ..learning.loop import state_path
from .network import OUTPUTS, SHIPPED
from .task import PRESETS, Training, loop_settings

ENDLESS = 1_000_000
"""Epochs of a training that a time limit ends."""
MOTIONS = "gait_motions"
"""Folder beside the weights where the teacher's cycles are kept."""


def parser(weights: Path) -> argparse.ArgumentParser:
    """The command line; ``weights`` is the default file."""
    d = Training()
    out = argparse.ArgumentParser(
        prog="standalone_trainer.py gait",
        description="Distil a teacher of walks and runs into one small network, then test it on parameters it never saw. The "
        "teacher is made of captured cycles (--data), published joint angles and exact feet.",
        formatter_class=Help,
        allow_abbrev=False,
        epilog="Exit codes: 0 trained and all bars met, 1 trained and a bar missed, 2 bad input or a file that could not be "
        "written, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.",
    )
    files = out.add_argument_group("files")
    files.add_argument(
        "--data",
        type=Path,
        nargs="+",
        metavar="POSES",
        help="captured walks and runs on the reference rig (.npz of import --rig reference) to make the teacher of; without, "
        "the teacher in --teacher is taken",
    )
    files.add_argument("--teacher", type=Path, default=SHIPPED, help="gait weights whose teacher is distilled again")
    files.add_argument(
        "--leave-out",
        type=lambda text: tuple(t for t in text.split(",") if t),
        default=(),
        metavar="S,S",
        help="performers of --data that are left out: clips whose names begin with S and an underscore",
    )
    files.add_argument("--init", type=Path, metavar="WEIGHTS", help="go on from these weights (fine-tuning)")
    files.add_argument("--weights", type=Path, default=weights, help="where the trained network is written, .npz")
    files.add_argument(
        "--motions",
        type=Path,
        metavar="FOLDER",
        help=f"where the teacher's cycles are kept (default: {MOTIONS} beside them)",
    )
    files.add_argument("--resume", action="store_true", help="continue the training that was stopped here")
    files.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    files.add_argument("--progress", type=Path, metavar="FILE", help="append one JSON object per epoch")
    files.add_argument(
        "--tensorboard", type=Path, metavar="FOLDER", help="write TensorBoard event files, too; needs that package"
    )
    files.add_argument("--cancel-file", type=Path, metavar="FILE", help="stop, as Ctrl-C does, when this file appears")
    files.add_argument("--end-with-input", action="store_true", help="stop, as Ctrl-C does, when standard input ends")
    files.add_argument("--quiet", action="store_true", help="print only the results")
    how = add_training(out, loop_settings(d), d.batch_size)
    how.add_argument(
        "--preset", choices=sorted(PRESETS), help="source: the published recipe; ours: the defaults shown here"
    )
    how.add_argument(
        "--output",
        choices=OUTPUTS,
        default=d.output,
        help="what the network says: one pose, with the phase as an input, or the Fourier coefficients of a cycle",
    )
    how.add_argument("--hidden", type=widths, default=d.hidden, metavar="N,N", help="widths of the hidden layers")
    how.add_argument("--activation", choices=("relu", "tanh"), default=d.activation, help="of the hidden layers")
    how.add_argument(
        "--harmonics",
        type=number(int, 1, 16),
        default=d.harmonics,
        help="multiples of the phase that are inputs, or said",
    )
    how.add_argument(
        "--clamp",
        type=positive(float, zero=True),
        default=d.clamp,
        help="largest size of every entry of the gradient; 0: no limit",
    )
    for part, weight in (("leg", d.leg_weight), ("arm", d.arm_weight)):
        words = f"how much more or less differences of the {'legs' if part == 'leg' else 'head and arms'} weigh"
        how.add_argument(f"--{part}-weight", type=positive(float), default=weight, help=words)
    how.add_argument("--cycles", type=positive(int), default=d.cycles, help="cycles of the teacher to learn from")
    how.add_argument("--jobs", type=positive(int), default=1, help="processes in which the teacher makes cycles")
    how.add_argument("--device", default="cpu", help="cpu; another one needs PyTorch")
    return out


def parse(words: Sequence[str], data: Path, weights: Path) -> argparse.Namespace:
    """The arguments of a command line; ``data``, poses of the IK network, is not used."""
    cli = parser(weights.with_name(SHIPPED.name))
    first, _ = cli.parse_known_args(words)
    chosen = asdict(PRESETS.get(first.preset or "", Training()))
    cli.set_defaults(**{name: value for name, value in chosen.items() if name not in ("time_limit", "seed", "epochs")})
    args = cli.parse_args(words)
    args.motions = args.weights.parent / MOTIONS if args.motions is None else args.motions
    return args


def training_of(args: argparse.Namespace) -> Training:
    """The settings that parsed arguments stand for; ValueError for a device that is not here."""
    if args.device != "cpu":
        raise ValueError(
            f"--device: expected cpu, got {args.device}; gaits are trained with NumPy, which knows no other"
        )
    names = {f.name for f in fields(Training)} & set(vars(args))
    kept = {name: getattr(args, name) for name in names}
    preset = PRESETS.get(args.preset or "", Training())
    if args.epochs is None:
        kept["epochs"] = ENDLESS if args.time_limit else preset.epochs
    return Training(**{**asdict(preset), **kept})


def require_separate_files(args: argparse.Namespace) -> None:
    """ValueError where a file is both read and written; training the teacher's own file again is allowed."""
    read: dict[str, Path | None] = {f"--data {path.name}": path for path in args.data or ()}
    read["--init"] = None if args.init == args.weights else args.init
    read["--teacher"] = None if args.teacher == args.weights else args.teacher
    written = {"--weights": args.weights, "the stopped training": state_path(args.weights), "--json": args.json}
    keep_apart(read, {**written, "--progress": args.progress, "--cancel-file": args.cancel_file})
