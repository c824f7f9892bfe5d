# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer of prediction: takes in, the network that fills gaps out. It says what happens; its caller prints."""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.files import write_whole
from ..core.messages import counted
from ..ik.trainer import Cancelled
from ..learning import events
from ..learning.arguments import require_torch, require_writable
from ..learning.loop import state_path
from ..learning.steps import steps_of
from ..learning.stopping import clear_cancel_file
from . import gaps, material, network
from .inbetween import Shape
from .library import Take

Say = Callable[[str], None]
VERSION = "1"
HELD_EVERY = 12  # one take of so many validates where no subject does
ACKNOWLEDGEMENT = """The data used in this project was obtained from mocap.cs.cmu.edu.
The database was created with funding from NSF EIA-0196217."""


def run(args: argparse.Namespace, say: Say, tell: Say, complain: Say) -> int:
    """Train and save; returns the exit code 0.

    Raises ValueError and OSError for bad input before anything is trained, and Cancelled when asked to stop.
    """
    require_torch()
    require_writable(args.weights, ".npz")
    for path in (state_path(args.weights), args.json, args.progress):
        require_writable(path)
    show = events.writer(args.tensorboard)
    clear_cancel_file(args.cancel_file)
    body, every = material.read([args.data, *args.more])
    every = material.without(every, args.leave_out)
    takes, held = _parted(every, args.validate)
    if args.train_on_all:
        takes = every
    say(f"{counted(len(takes), 'take')} to train on, {counted(len(held), 'take')} to validate on")
    from ..learning import torch_training
    from ..learning.torch_layers import load_tensors, tensors_of
    from .torch_task import JUDGED, FillTask
    from .torch_windows import Variety

    rows = 3 + 6 * body.count
    shape = Shape(gaps.told_count(rows), rows, args.width, args.depth, args.heads, args.wide)
    beside = None if args.beside is None else network.load(args.beside)
    if beside is not None and beside.shape != shape:
        raise ValueError(f"--beside {args.beside.name}: expected a network of the same shape, got {beside.shape}")
    variety = Variety(args.off, args.wider, args.stride, args.bend, args.taller)
    task = FillTask(body, takes, held, shape, args.dropout, args.batch_size, variety)
    result = torch_training.fit(task, steps_of(args), args, say, complain, show)
    device = torch_training.device_of(args.device)
    module = torch_training.with_weights(task.module(), result.state.average)
    learned = network.of_one(shape, tensors_of(module), {})
    load_tensors(module, learned.members[0])
    about: dict[str, Any] = {
        "takes": [take.name for take in takes],
        "validated_on": [take.name for take in held],
        "left_out": list(args.leave_out),
        "training": task.describe(),
        "steps": result.state.step,
        "validation": result.state.history[-1][1],
        "by_length": dict(zip(map(str, JUDGED), task.shares(module), strict=False)),
        "seed": args.seed,
        "command": "standalone_trainer.py motion " + _words(args),
        "machine": f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, {device.type}",
        "licence": "weights of this project; learned from CMU motion capture: free for all uses, not to be resold directly",
        "acknowledgement": ACKNOWLEDGEMENT,
    }
    learned = replace(learned, about=about)
    network.save(args.weights, learned if beside is None else network.joined([beside, learned]))
    if args.json is not None:
        write_whole(args.json, (json.dumps(about, indent=1) + "\n").encode())
    if result.cancelled:
        words = f"The weights so far are in {args.weights}. To continue, add --resume to the same command."
        raise Cancelled(
            f"Stopped after step {result.state.step}. {words}", True, 128 + (result.signal or signal.SIGINT)
        )
    state_path(args.weights).unlink(missing_ok=True)
    digest = hashlib.sha256(args.weights.read_bytes()).hexdigest()[:16]
    tell(
        f"{result.state.step} steps; on validation takes {result.state.history[-1][1]:.3f} of the distance that interpolation has"
    )
    tell(f"Weights: {args.weights} ({digest})")
    return 0


def _parted(takes: list[Take], subjects: tuple[str, ...]) -> tuple[list[Take], list[Take]]:
    """Takes to train on and takes to validate on."""
    if subjects:
        held = material.of(takes, subjects)
        kept = material.without(takes, subjects)
        if not held:
            raise ValueError(f"--validate: expected subjects of the data, found no take of {', '.join(subjects)}")
    else:
        order = sorted(takes, key=lambda take: take.name)
        held = order[HELD_EVERY // 2 :: HELD_EVERY] or order[:1]
        names = {take.name for take in held}
        kept = [take for take in order if take.name not in names]
    if len(kept) < 2:
        raise ValueError(f"expected at least three takes, got {len(takes)}; add motion")
    return kept, held


def _words(args: argparse.Namespace) -> str:
    """The command line, without the folders of this machine."""
    out = [f"--data {args.data.name}"]
    if args.more:
        out.append("--more " + " ".join(path.name for path in args.more))
    for name in ("leave_out", "validate"):
        if getattr(args, name):
            out.append(f"--{name.replace('_', '-')} {','.join(getattr(args, name))}")
    for name in (
        "steps",
        "time_limit",
        "lr",
        "decay",
        "seed",
        "width",
        "depth",
        "heads",
        "wide",
        "dropout",
        "batch_size",
        "off",
        "wider",
        "stride",
        "bend",
        "taller",
    ):
        out.append(f"--{name.replace('_', '-')} {getattr(args, name):g}")
    return " ".join([*out, *(["--train-on-all"] if args.train_on_all else [])])
