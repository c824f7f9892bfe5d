# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ``motion encoder``: what a predictor reads, as a model file of its own, for policies and whoever else learns from it."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..core.files import keep_apart
from ..core.messages import Say
from ..learning import encoder
from ..learning.arguments import require_writable
from ..learning.evaluation import Commands, add_command
from . import predictor


def add_parser(words: Commands, say: Say) -> None:
    """Add ``encoder`` to the commands of ``motion``."""
    parser = add_command(
        words, say, run_encoder, "encoder", help="write the encoder of a trained predictor as a model file for policies"
    )
    parser.add_argument("predictor", type=Path, metavar="PREDICTOR.npz")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="ENCODER.npz", help="the file to write")


def run_encoder(args: argparse.Namespace, say: Say) -> int:
    """Write the encoder; returns 0."""
    keep_apart({"the predictor": args.predictor}, {"-o": args.output})
    require_writable(args.output, ".npz")
    found = predictor.load(args.predictor)
    told = ("takes", "left_out", "licence", "acknowledgement", "command", "seed", "machine")
    about = {name: found.about[name] for name in told if name in found.about}
    encoder.save(args.output, found.encoder, {**about, "mode": found.mode, "layout": found.layout.name})
    design = found.encoder.design
    say(f"{args.output}: {design.states} numbers of a state of layout {found.layout.name} to {design.width}")
    return 0
