# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer of predictors: takes in, a network that says the next state out. It says what happens; its caller prints."""

from __future__ import annotations

import argparse
import json
import platform
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.files import write_whole
from ..core.messages import counted
from ..core.skeleton import Skeleton
from ..ik.trainer import Cancelled
from ..learning import events
from ..learning.arguments import require_torch, require_writable
from ..learning.encoder import Design
from ..learning.loop import state_path
from ..learning.steps import steps_of
from ..learning.stopping import clear_cancel_file
from ..motion import states
from . import blending, material, predictor, rollouts, step_windows
from .gaps import HISTORY
from .library import Take
from .step_arguments import learning_of
from .trainer import ACKNOWLEDGEMENT, Say

HELD_EVERY = 12  # one take of so many validates where no subject does


def run(args: argparse.Namespace, say: Say, tell: Say, complain: Say) -> int:
    """Train and save; returns the exit code 0.

    Raises ValueError and OSError for bad input before anything is trained, and Cancelled when asked to stop.
    """
    require_torch()
    require_writable(args.weights, ".npz")
    for path in (state_path(args.weights), args.json, args.progress, args.split_file):
        require_writable(path)
    show = events.writer(args.tensorboard)
    clear_cancel_file(args.cancel_file)
    body, every = material.read([args.data, *args.more])
    every = material.without(every, args.leave_out)
    takes, held, test = parted(body, every, args)
    say(
        f"{counted(len(takes), 'take')} to train on, {counted(len(held), 'take')} to validate on, {len(test)} held out for test"
    )
    if args.split_file is not None:
        split = {"train": _names(takes), "validation": _names(held), "test": _names(test)}
        write_whole(args.split_file, (json.dumps({"schema": 1, **split}, indent=1) + "\n").encode())
    learning, own = learning_of(args), states.layout(args.layout)
    longest = HISTORY + max(learning.horizons)
    if args.mode in ("gru", "transformer"):
        longest = max(longest, learning.seen + 1)
    known = step_windows.windows(args.layout, body, takes, longest, not args.as_captured)
    judged = step_windows.windows(args.layout, body, held, HISTORY + rollouts.AHEAD, False)
    settings = steps_of(args)
    if args.epochs:
        settings = replace(settings, steps=args.epochs * -(-len(known.begin) // learning.batch))
    say(f"{counted(len(known.begin), 'window')} of up to {longest} frames, {settings.steps} steps of {learning.batch}")
    from ..learning import torch_training
    from ..learning.torch_layers import tensors_of
    from .torch_steps import StepsTask

    design = Design(predictor.KINDS[args.mode], own.width, args.width, args.depth, args.heads, learning.seen)
    task = StepsTask(args.mode, own, design, body, known, judged, learning, settings, args.dropout)
    result = torch_training.fit(task, settings, args, say, complain, show)
    module = torch_training.with_weights(task.module(), result.state.best)
    tensors = {n: a.astype(np.float32) for n, a in predictor.in_half(tensors_of(module)).items()}
    about: dict[str, Any] = {
        "takes": _names(takes),
        "validated_on": _names(held),
        "tested_on": _names(test),
        "left_out": list(args.leave_out),
        "training": task.describe(),
        "steps": result.state.step,
        "validation": result.state.best_value,
        "seed": args.seed,
        "command": _words(args),
        "machine": f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, {args.device}",
        "licence": "weights of this project; learned from CMU motion capture: free for all uses, not to be resold directly",
        "acknowledgement": ACKNOWLEDGEMENT,
    }
    found = predictor.make(args.mode, args.layout, design, tensors, about)
    sharing = blending.fit(found, body, takes, held) if args.sharing else None
    if sharing is not None:
        about["sharing"] = list(sharing)
    predictor.save(args.weights, found)
    figures = {name: rollouts.summary(one) for name, one in rollouts.measured({args.mode: found}, body, held).items()}
    if args.json is not None:
        document = {**about, "figures": figures, "history": [list(pair) for pair in result.state.history]}
        write_whole(args.json, (json.dumps(document, indent=1) + "\n").encode())
    if result.cancelled:
        words = f"The best weights so far are in {args.weights}. To continue, add --resume to the same command."
        raise Cancelled(
            f"Stopped after step {result.state.step}. {words}", True, 128 + (result.signal or signal.SIGINT)
        )
    state_path(args.weights).unlink(missing_ok=True)
    for name, values in figures.items():
        ends = ", ".join(f"{values[f'MPJPE after {n} [mm]']:.1f}" for n in (1, 10, 30, 60))
        tell(f"{name}: {ends} mm off after 1, 10, 30, 60 frames on validation takes")
    tell(f"Weights: {args.weights}")
    return 0


def parted(
    body: Skeleton, takes: Sequence[Take], args: argparse.Namespace
) -> tuple[list[Take], list[Take], list[Take]]:
    """Takes to train on, to validate on, and to test on. Raises ValueError where too few are left."""
    order = sorted(takes, key=lambda take: take.name)
    test: list[Take] = []
    if args.test_ratio:
        rng = np.random.default_rng(args.seed)
        kinds = [step_windows.activity(body, take) if args.activity_split else "" for take in order]
        for kind in sorted(set(kinds)):
            own = [take for take, about in zip(order, kinds, strict=True) if about == kind]
            some = rng.permutation(len(own))[: round(args.test_ratio * len(own))]
            test += [own[i] for i in sorted(some)]
        order = [take for take in order if take.name not in _names(test)]
    if args.validate:
        held = material.of(order, args.validate)
        if not held:
            raise ValueError(f"--validate: expected subjects of the data, found no take of {', '.join(args.validate)}")
    else:
        long = [take for take in order if len(take.root) * 30 / take.fps >= HISTORY + rollouts.AHEAD + 1] or order
        held = long[HELD_EVERY // 2 :: HELD_EVERY] or long[:1]
    names = set(_names(held))
    kept = [take for take in order if take.name not in names]
    if len(kept) < 2:
        raise ValueError(f"expected at least three takes, got {len(order)}; add motion")
    return kept, held, test


def _names(takes: Sequence[Take]) -> list[str]:
    return [take.name for take in takes]


def _words(args: argparse.Namespace) -> str:
    """The command line, without the folders of this machine."""
    out = ["standalone_trainer.py motion", f"--mode {args.mode}", f"--preset {args.preset}"]
    out.append(f"--bvh_dir {args.bvh_dir.name}" if args.bvh_dir else f"--data {args.data.name}")
    if args.more:
        out.append("--more " + " ".join(path.name for path in args.more))
    skipped = {"mode", "preset", "bvh_dir", "data", "more", "weights", "json", "progress", "split_file", "report"}
    skipped |= {"tensorboard", "cancel_file", "resume", "quiet", "end_with_input", "device", "threads"}
    flags = {"seen": "seq-len", "batch": "batch-size"}
    for name, value in sorted(vars(args).items()):
        if name in skipped or value is None or value is False or value == ():
            continue
        words = ",".join(map(str, value)) if isinstance(value, tuple) else f"{value}"
        flag = flags.get(name, name.replace("_", "-"))
        out.append(f"--{flag}" if value is True else f"--{flag} {words}")
    return " ".join(out)
