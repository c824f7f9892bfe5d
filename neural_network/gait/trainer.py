# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer of gaits: captured walks in, a network and its card out. It says what happens; its caller prints.

:func:`run` makes the teacher, lets it make cycles (kept in files, so that an interrupted run goes on), trains over
:mod:`..learning.loop`, judges the network once on parameters it never saw, and writes the weights.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core import reference_rig
from ..core.files import write_whole
from ..core.messages import counted
from ..ik.trainer import Cancelled
from ..learning import card, evaluation, events, loop
from ..learning.arguments import append_record, require_writable
from ..learning.loop import Epoch, State, load_state, save_state, state_path
from ..learning.stopping import Stopper, clear_cancel_file
from ..motion import pose_set
from . import curves, cycles, judging, motion_files, network, teacher
from .arguments import ENDLESS, training_of
from .task import PRESETS, GaitTask, Training, loop_settings, with_mirrors
from .teacher import KinematicTeacher, Model

Say = Callable[[str], None]

RUNS_FROM = 2.3  # [m/s at a leg of 0.945 m] captured cycles faster than this are runs
VERSION = "1"  # of what the card measures
HELD = 300  # cycles on which the network is judged
ACKNOWLEDGEMENT = """The data used in this project was obtained from mocap.cs.cmu.edu.
The database was created with funding from NSF EIA-0196217."""


@dataclass(frozen=True)
class Captured:
    """What the teacher was made of."""

    model: Model
    about: dict[str, Any]


def run(args: argparse.Namespace, say: Say, tell: Say, complain: Say) -> int:
    """Make, train, judge, save; returns the exit code: 0, or 1 where a bar is missed.

    Raises ValueError and OSError for bad input before anything is trained, Cancelled when asked to stop.
    """
    training = training_of(args)
    require_writable(args.weights, ".npz")
    for path in (state_path(args.weights), args.json, args.progress):
        require_writable(path)
    show = events.writer(args.tensorboard)
    clear_cancel_file(args.cancel_file)
    say("Neural IK gait trainer")
    say(f"Python {platform.python_version()}, NumPy {np.__version__}, threads {args.threads}")
    captured = _captured(args, say)
    model = captured.model
    for name, part in (("walk", model.walk), ("run", model.run)):
        say(f"Teacher: {name}s of {counted(part.takes, 'take')} by {counted(part.subjects, 'performer')}")
    stopper = Stopper(say, args.cancel_file, args.end_with_input)
    with stopper:
        _teach(args, training, model, say, stopper)
        files = motion_files.paths(args.motions, model, training.cycles, training.seed)
        samples = judging.samples_of(files, training.cycles)
        start = None if args.init is None else network.load(args.init)
        task = GaitTask(with_mirrors(samples) if training.mirror else samples, training, model, start)
        say(
            f"Samples: {len(task.train)} cycles of {samples.motions.shape[1]} to train on, {len(task.held)} to validate on"
        )
        settings = loop_settings(training)
        belongs_to = loop.identity(task, settings)
        state = load_state(state_path(args.weights), belongs_to) if args.resume else None
        if state is not None:
            say(f"Resuming after epoch {state.epoch}; best so far {state.best_value:.5f}.")
        began = time.process_time()

        def on_epoch(epoch: Epoch) -> None:
            say(loop.line(epoch))
            _try(partial(append_record, args.progress, loop.record(epoch)), complain)
            _try(partial(show, {"loss": epoch.value, "validation": epoch.validation}, epoch.number), complain)

        def keep(state: State) -> None:
            _try(partial(save_state, state_path(args.weights), state, belongs_to), complain)

        result = loop.run(task, settings, state, on_epoch, stopper.asked, keep)
    gait = task.network(result.state.best)
    if result.cancelled:
        meta = _meta(args, training, captured, samples.digest(), ())
        network.save(args.weights, replace(gait, meta=meta))
        code = 128 + (result.signal or signal.SIGINT)
        words = f"The best weights so far are in {args.weights}. To continue, add --resume to the same command."
        raise Cancelled(f"Stopped after epoch {result.state.epoch}. {words}", True, code)
    if result.last is not None and result.last.ended:
        say(f"Early stop: no better validation figure for {counted(training.patience, 'epoch')}.")
    say(f"\nJudging on {HELD} parameters that were never drawn ...")
    held = judging.held_out(KinematicTeacher(model), HELD)
    figures = judging.distilled(gait, held, samples)
    spent = time.process_time() - began
    meta = _meta(args, training, captured, samples.digest(), figures)
    network.save(args.weights, replace(gait, meta=meta))
    state_path(args.weights).unlink(missing_ok=True)
    for figure in figures:
        tell(evaluation.line(figure))
    say(f"{result.state.epoch} epochs, best {result.state.best_epoch}; {spent + result.earlier:.0f} CPU s of training")
    say(f"Weights: {args.weights}")
    document = card.Card(
        "gait",
        VERSION,
        card.Data(
            tuple(captured.about["files"]), len(samples.params) * samples.motions.shape[1], "random parameters", 30.0
        ),
        training.seed,
        spent + result.earlier,
        figures,
    )
    if args.json is not None:
        write_whole(args.json, card.dumps(document))
    _try(partial(append_record, args.progress, {"done": True, "exit": document.exit_code}), complain)
    return document.exit_code


def _captured(args: argparse.Namespace, say: Say) -> Captured:
    if args.data is None:
        older = network.load(args.teacher)
        about = older.meta.get("captured", {"files": [args.teacher.name]})
        return Captured(older.model, about)
    return of_motion(args.data, args.leave_out, say)


def of_motion(files: list[Path], leave_out: tuple[str, ...], say: Say, strict: bool = True) -> Captured:
    """The teacher's model of captured motion in files of poses on the reference rig.

    A clip is named PERFORMER_TAKE; ``leave_out`` names performers that are not looked at. Takes of one name count once.
    """
    rig = reference_rig.reference()
    walks: list[tuple[cycles.Cycle, str, str]] = []
    runs: list[tuple[cycles.Cycle, str, str]] = []
    seen: set[str] = set()
    for path in files:
        poses = pose_set.load(path)
        rig.require_same(poses.skeleton, f"the motion in {path.name}")
        for clip, name in enumerate(poses.clip_names):
            take = name.split("-")[0]
            performer = take.split("_")[0]
            if performer in leave_out or take in seen:
                continue
            seen.add(take)
            for cycle in cycles.cut(poses, clip, both=True):
                (runs if cycle.measured.speed > RUNS_FROM else walks).append((cycle, take, performer))
    parts = []
    for name, found in (("walks", walks), ("runs", runs)):
        say(f"Captured {name}: {counted(len(found), 'cycle')} of {counted(len({t for _, t, _ in found}), 'take')}")
        parts.append(
            curves.fit(rig, [c for c, _, _ in found], [t for _, t, _ in found], [p for _, _, p in found], strict)
        )
    takes = sorted({t for _, t, _ in (*walks, *runs)})
    about = {"files": [path.name for path in files], "takes": takes, "left_out": list(leave_out)}
    return Captured(teacher.learned(rig, parts[0], parts[1]), about)


def _teach(args: argparse.Namespace, training: Training, model: Model, say: Say, stopper: Stopper) -> None:
    """Let the teacher make the motion files that are missing."""
    args.motions.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    for done, of in motion_files.generate(args.motions, model, training.cycles, training.seed, args.jobs):
        say(f"Teacher's cycles: file {done} of {of} ({time.perf_counter() - began:.0f} s)")
        if stopper.asked() and done < of:
            raise Cancelled("Stopped; the cycles so far are kept, and the same command goes on from there.")


def _meta(
    args: argparse.Namespace, training: Training, captured: Captured, digest: str, figures: tuple[card.Figure, ...]
) -> dict[str, Any]:
    return {
        "captured": captured.about,
        "licence": "CMU Graphics Lab Motion Capture Database: free for research and commercial use, not to be resold directly",
        "acknowledgement": ACKNOWLEDGEMENT,
        "published_angles": "Schwartz et al., Journal of Biomechanics 41 (2008) 1639-1650: slow, free and fast",
        "training": json.loads(json.dumps(asdict(training))),
        "seed": training.seed,
        "command": _command(args.preset or "ours", training),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {args.threads} BLAS threads, Python "
        f"{platform.python_version()}, NumPy {np.__version__}",
        "samples": digest,
        "figures": {figure.name: round(figure.value, 6) for figure in figures},
    }


def _command(preset: str, training: Training) -> str:
    """The command that trains so, but for its files: every setting that is not the preset's."""
    out = ["standalone_trainer.py gait --preset", preset]
    for name, value in asdict(training).items():
        if value != asdict(PRESETS[preset])[name] and (name, value) != ("epochs", ENDLESS):
            out += ["--" + name.replace("_", "-"), ",".join(map(str, value)) if name == "hidden" else f"{value:g}"]
    return " ".join(out)


def _try(write: Callable[[], object], complain: Say) -> None:
    """A training does not end because a file beside it cannot be written now."""
    try:
        write()
    except OSError as error:
        complain(f"{error}; the training continues")
