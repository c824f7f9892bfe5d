# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer of the IK network: poses in, a tested ``best.npy`` and its card out. It says what happens; its caller prints.

:func:`run` loads and checks everything first, trains one split or several folds, tests the held-out part once, and writes the
weights. What it saves is the very network it measured.
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import write_whole
from ..core.messages import counted
from ..learning import loop
from ..learning.arguments import append_record, require_writable
from ..learning.loop import Epoch, Result, State, load_state, save_state, state_path
from ..learning.stopping import Stopper, clear_cancel_file, exit_code
from ..motion import characters, pose_set, splits
from ..motion.pose_set import PoseSet
from ..motion.splits import TEST, TRAIN, VALIDATION
from . import density, losses, network, novelty, quality, report
from .arguments import SHIPPED, UNLIMITED, config_of
from .batches import components
from .context import Samples, prepare
from .network import Network
from .settings import Training
from .task import PoseTask, adapted, balanced, loop_settings, presentations

BESIDE_SHARE = 0.4  # of the epochs go into the second network that shows what another split says

Say = Callable[[str], None]


class Cancelled(Exception):
    """The user asked to stop; everything worth keeping has been kept.

    ``saved``: the weights on disk are of this run. ``code``: exit code, 128 and the number of the signal.
    """

    def __init__(self, sentence: str, saved: bool = False, code: int = 128 + signal.SIGINT) -> None:
        super().__init__(sentence)
        self.saved, self.code = saved, int(code)


@dataclass(frozen=True)
class Job:
    """What one run of the trainer works on."""

    args: argparse.Namespace
    say: Say
    """Called with each line about the progress."""
    tell: Say
    """Called with each line of the results, which are printed even when the progress is not."""
    complain: Say
    """Called with what went wrong beside the training, which goes on."""
    poses: PoseSet
    samples: Samples
    config: Training
    start: Network | None
    """Weights to start from."""
    own: int | None
    """How many frames, the first ones, are the character's own; None: all."""
    stopper: Stopper
    reported: set[str] = field(default_factory=set)

    @property
    def own_poses(self) -> PoseSet:
        """The character's own poses, without those of --also: they are split, validated and tested on."""
        return self.poses if self.own is None else pose_set.first(self.poses, self.own)


@dataclass(frozen=True)
class Trained:
    """One training that has ended."""

    net: Network
    figures: dict[str, Any]
    """Seconds, epochs, the best one, samples a second."""
    history: tuple[tuple[float, float], ...]
    """(training value, validation figure) of every epoch [m]."""


def run(args: argparse.Namespace, say: Say, tell: Say, complain: Say) -> int:
    """Load, train, save, test and report, as the arguments say; returns the exit code: 0 or 1 where a test failed.

    Raises ValueError and OSError for bad input before anything is trained, Cancelled when asked to stop.
    """
    job = load(args, say, tell, complain)
    _say_header(job)
    card, trained = cross_validate(job) if args.folds else train_and_test(job)
    saved = save(job, trained.net, card)
    try:
        return _report(job, trained, card, saved)
    except KeyboardInterrupt as stop:
        kept = "are complete" if saved else "are unchanged"
        raise Cancelled(f"Stopped at once; the weights in {args.weights} {kept}.", saved, exit_code(stop)) from None


def load(args: argparse.Namespace, say: Say, tell: Say, complain: Say) -> Job:
    """Read and check everything that the arguments name."""
    if args.report is not None:
        report.check()  # before the work, not after it
    poses, config = pose_set.load(args.data), config_of(args)
    start = None if args.init is None else network.load(args.init)
    if start is not None:
        start.skeleton.require_same(poses.skeleton, f"the poses in {args.data.name}")
        config = replace(config, hidden=start.hidden, layout=start.layout.name)
    require_writable(args.weights, ".npy", ".npz")
    for path in (state_path(args.weights), args.json, args.report, args.progress):
        require_writable(path)
    clear_cancel_file(args.cancel_file)
    own = None
    if args.also is not None:
        own, poses = poses.frames, _with_others(poses, args.also, say)
    samples = prepare(poses, older_ground=args.older_ground)
    if poses.skeleton.limits is None:
        limits = losses.mine_limits(poses.skeleton, components(samples.rot))
        poses = replace(poses, skeleton=replace(poses.skeleton, limits=limits))
    stopper = Stopper(say, args.cancel_file, args.end_with_input)
    return Job(args, say, tell, complain, poses, samples, config, start, own, stopper)


def _with_others(poses: PoseSet, also: Path, say: Say) -> PoseSet:
    """``poses`` followed by those of the file ``also`` on the same body, without clips that both hold."""
    loaded = pose_set.load(also)
    others = pose_set.without_overlap(pose_set.on_body(loaded, poses.skeleton), poses)
    if others is None:
        raise ValueError(
            f"--also: all poses in {also.name} are this character's own; leave it out, or give other characters' poses"
        )
    if others.frames < loaded.frames:
        say(
            f"left out {counted(loaded.frames - others.frames, 'frame')} of {also.name}: their clips are this character's own"
        )
    say(
        f"Also {counted(others.frames, 'frame')} of others ({also.name}) on this body: half of each epoch, never tested on"
    )
    return pose_set.join([poses, others])


# ---- one split, or several


def train_and_test(job: Job) -> tuple[dict[str, Any], Trained]:
    """Train on one split and score its test part; returns the card and what was trained."""
    args = job.args
    parts = _with_others_parts(job, splits.split(job.own_poses, args.split, args.holdout, args.seed))
    _say_data(job, parts)
    trained = train(job, parts, job.config, resume=args.resume, keep=True)
    job.say("\nTesting on the held-out part ...")
    measured = quality.measure(trained.net, job.poses, parts, job.samples)
    card = quality.figures([measured], job.poses, args.split, **_origin(job, trained.figures))
    return {**card, "train": trained.figures}, complete(job, trained, parts, args.split)


def cross_validate(job: Job) -> tuple[dict[str, Any], Trained]:
    """Train once a fold, pool the figures over all test frames, and fit on all clips for the weights."""
    args, say = job.args, job.say
    measured, trains = [], []
    every = splits.folds(job.own_poses, args.folds, args.holdout, args.seed)
    for i, own_parts in enumerate(every):
        parts = _with_others_parts(job, own_parts)
        say(f"\nFold {i + 1} of {len(every)}")
        _say_data(job, parts)
        trained = train(job, parts, job.config)
        trains.append(trained.figures)
        measured.append(quality.measure(trained.net, job.poses, parts, job.samples))
        holdout = measured[-1].errors["holdout"]
        assert holdout is not None
        say(f"Fold {i + 1}: {holdout.effector.mean() * 1000:.1f} mm mean effector error on its test clips")
    card = quality.figures(measured, job.poses, "clip", **_origin(job, *trains))
    card["folds"] = [m.errors["holdout"].figures() for m in measured if m.errors["holdout"] is not None]
    say(f"Joint error (MPJPE) after steps, of the folds: {_beside_nearest(measured)}")
    means = ", ".join(f"{fold['effector_mm']['mean']:.1f}" for fold in card["folds"])
    say(f"Mean effector error of the folds: {means} mm. The scores below are those of the worst fold.")
    say("\nFit on all clips, for the weights")
    parts = _all_but_validation(job)
    trained = train(job, parts, job.config, keep=True)
    total = {k: float(np.sum([t[k] for t in trains])) for k in ("seconds", "cpu_seconds", "epochs")}
    total |= {k: float(np.mean([t[k] for t in trains])) for k in ("samples_per_second", "best_epoch")}
    return {**card, "train": total}, complete(job, trained, parts, "all")


def _beside_nearest(measured: list[quality.Measured]) -> str:
    """Each fold's joint error beside that of the nearest training frame with exact steps, on the same frames [mm]."""
    pairs = []
    for m in measured:
        refined, nearest = m.errors["refined"], m.errors["nearest_steps"]
        if refined is not None and nearest is not None:
            own = refined.joints[m.compared].mean() * 1000
            pairs.append(f"{own:.1f} (nearest frame {nearest.joints.mean() * 1000:.1f})")
    return ", ".join(pairs) + " mm"


def _all_but_validation(job: Job) -> np.ndarray:
    """Parts with a twentieth held out to choose the best weights by, and nothing to test on."""
    try:
        parts = splits.split(job.own_poses, "block", 0.05, job.args.seed)
    except ValueError:  # clips too short for blocks: hold out whole ones
        parts = splits.split(job.own_poses, "clip", 0.05, job.args.seed)
    parts[parts == TEST] = TRAIN
    return _with_others_parts(job, parts)


def train_beside(job: Job, card: dict[str, Any]) -> None:
    """What the same settings reach where whole clips are held out: told, and put into the card."""
    args, config = job.args, job.config
    try:
        parts = _with_others_parts(job, splits.split(job.own_poses, "clip", args.holdout, args.seed))
    except ValueError:
        return
    epochs = max(1, round(config.epochs * BESIDE_SHARE))
    config = replace(config, epochs=epochs, time_limit=config.time_limit * BESIDE_SHARE)
    bound = f"{config.time_limit:g} CPU s" if config.time_limit else f"{counted(config.epochs, 'epoch')}"
    job.say(f"\nBeside it, a second network with whole clips held out ({bound} at most) ...")
    trained = train(job, parts, config, show=False)
    measured = quality.measure(trained.net, job.poses, parts, job.samples)
    other = quality.figures([measured], job.poses, "clip", **_origin(job, trained.figures))
    for line in ["", *quality.table(other), f"(held-out clips: {', '.join(other['clips'])})"]:
        job.tell(line)
    card["beside"] = other


def _origin(job: Job, *trains: dict[str, Any]) -> dict[str, Any]:
    """What the card says of where its figures come from: files, seed, and CPU seconds of these trainings."""
    files = [path.name for path in (job.args.data, job.args.also) if path is not None]
    return {"files": files, "seed": job.args.seed, "trained_s": sum(float(t["cpu_seconds"]) for t in trains)}


def _with_others_parts(job: Job, own_parts: np.ndarray) -> np.ndarray:
    """Parts of all frames from those of the character's own: at most --max-frames of these train, all of the others' do."""
    others = np.full(job.poses.frames - len(own_parts), TRAIN, np.int8)
    return np.concatenate([splits.thin(own_parts, job.config.max_frames), others])


# ---- one training


def train(
    job: Job, parts: np.ndarray, config: Training, *, resume: bool = False, keep: bool = False, show: bool = True
) -> Trained:
    """Run one training to its end; with ``keep`` its state and best weights survive an interruption.

    Raises Cancelled when asked to stop.
    """
    args = job.args
    task, settings = (
        PoseTask(job.poses.skeleton, job.samples, parts, config, _start(job, parts), job.own),
        loop_settings(config),
    )
    belongs_to = {**loop.identity(task, settings), "data": quality.describe_split(job.poses, parts, args.split)}
    state = None
    if resume:
        state = load_state(state_path(args.weights), belongs_to)
        job.say(f"Resuming after epoch {state.epoch}; best so far {state.best_value * 1000:.1f} mm.")
    usage = _usage()
    if show:
        job.say(
            "share done  epoch  FK: effectors from their targets, in training  validation: on held-out poses  *: best so far"
        )

    def on_epoch(epoch: Epoch) -> None:
        if show:
            job.say(_epoch_line(epoch, usage))
            _try(job, partial(append_record, args.progress, _epoch_record(epoch)))

    def save_all(state: State) -> None:
        _try(job, partial(save_state, state_path(args.weights), state, belongs_to))

    with job.stopper:
        result = loop.run(task, settings, state, on_epoch, job.stopper.asked, save_all if keep else None)
    if result.cancelled:
        _stop(job, task, result, parts, keep)
    if show and result.last is not None and result.last.ended:
        job.say(f"Early stop: no better validation figure for {counted(config.patience, 'epoch')}.")
    figures = result.figures(config.batch_size) | {"best_validation_mm": result.state.best_value * 1000}
    return Trained(task.network(result.state), figures, result.state.history)


def _start(job: Job, parts: np.ndarray) -> Network | None:
    """The weights to start from, their inputs standardised for this body where others' poses show how it would move."""
    if job.start is None or job.own is None:
        return job.start
    rows = balanced(np.flatnonzero(parts == TRAIN), job.own)
    return adapted(job.start, job.poses.skeleton, job.samples, rows, job.config)


def _stop(job: Job, task: PoseTask, result: Result, parts: np.ndarray, keep: bool) -> None:
    """Raise Cancelled, after the best weights so far are saved where they may be."""
    state, path, code = result.state, job.args.weights, 128 + (result.signal or signal.SIGINT)
    if not keep:
        raise Cancelled(f"Stopped after epoch {state.epoch}. The weights on disk are unchanged.", code=code)
    figures = {
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "best_validation_mm": state.best_value * 1000,
    }
    kind = "all" if job.args.folds else job.args.split
    net = replace(task.network(state), meta=_meta(job, parts, kind, figures))
    older = _older_figure(path, net)
    saved = older is None or older > state.best_value * 1000
    if saved:
        network.save(path, net)
    where = f"The best weights so far ({state.best_value * 1000:.1f} mm) are in {path}."
    where = where if saved else f"{path} already holds better ones for the same data and split, which were kept."
    how = "" if job.args.folds or not state_path(path).exists() else " To continue, add --resume to the same command."
    raise Cancelled(f"Stopped after epoch {state.epoch}. {where}{how}", saved, code)


def _try(job: Job, write: Callable[[], None]) -> None:
    """Hours of training do not end because a file beside it cannot be written now; that is reported once."""
    try:
        write()
    except OSError as error:
        if str(error) not in job.reported:
            job.complain(f"{error}; the training continues")
        job.reported.add(str(error))


# ---- best.npy


def complete(job: Job, trained: Trained, parts: np.ndarray, kind: str) -> Trained:
    """The network with everything that best.npy holds beside its weights."""
    net = replace(trained.net, meta=_meta(job, parts, kind, trained.figures))
    # The shipped clips are of no character in particular: nobody's own way of moving.
    if net.density is not None and job.args.data.resolve() != (SHIPPED / "training_data.npz").resolve():
        changes = density.changes_of(job.own_poses, np.flatnonzero(parts[: job.own_poses.frames] == TRAIN))
        net = replace(net, density=replace(net.density, changes=changes))
    return replace(trained, net=novelty.with_centres(net, job.poses, job.samples, parts))


def save(job: Job, net: Network, card: dict[str, Any]) -> bool:
    """Write the weights, unless better ones for the very same data and split are there already; True where written."""
    path = job.args.weights
    figures = {k: card[k] for k in ("holdout", "refined")} | {"best_validation_mm": net.meta["best_validation_mm"]}
    net = replace(net, meta={**net.meta, "figures": figures})
    older = _older_figure(path, net)
    better = older is None or older >= net.meta["best_validation_mm"]
    if better:
        network.save(path, net)
    state_path(path).unlink(missing_ok=True)  # not before: if the disk is full, --resume saves the work
    return better


def _meta(job: Job, parts: np.ndarray, kind: str, figures: dict[str, Any]) -> dict[str, Any]:
    """What best.npy says of itself; no times, so that the same training gives the same bytes."""
    return {
        "config": asdict(job.config),
        "data": quality.describe_split(job.poses, parts, kind),
        **{name: figures[name] for name in ("epochs", "best_epoch", "best_validation_mm")},
    }


def _older_figure(path: Path, net: Network) -> float | None:
    """Validation figure of the weights at ``path`` where they are of this very data, split and layout; else None."""
    if not path.exists():
        return None
    try:
        older = network.load(path)
    except (ValueError, OSError):
        return None
    same = older.layout == net.layout and older.hidden == net.hidden and older.meta.get("data") == net.meta.get("data")
    return older.meta.get("best_validation_mm") if same else None


# ---- what is said


def _report(job: Job, trained: Trained, card: dict[str, Any], saved: bool) -> int:
    """Tell the results, and write what was asked for beside the weights, when these are safe; returns the exit code."""
    args, say = job.args, job.say
    say("")
    for line in quality.text(card):
        job.tell(line)
    stopped = 0
    if not args.folds and args.split == "block" and not args.no_beside:
        try:
            train_beside(job, card)
        except Cancelled as stop:
            stopped = stop.code
            say("Stopped; the figures above and the weights are complete.")
    _say_closing(job, card, saved)
    code = stopped or (1 if quality.failed(card) else 0)
    if not _write_beside(job, trained, card):
        code = 2
    record = {"done": True, "exit": code, "weights": str(args.weights), "saved": saved}
    _try(job, partial(append_record, args.progress, record))
    return code


def _write_beside(job: Job, trained: Trained, card: dict[str, Any]) -> bool:
    """Write the figures and the report where asked for; False where one could not be written, which is reported."""
    args = job.args
    complete = True

    def page() -> str:
        return report.html(trained.net, job.poses, job.samples, card, trained.history)

    def figures() -> str:
        return json.dumps(card, indent=1) + "\n"

    for path, text in ((args.json, figures), (args.report, page)):
        try:
            if path is not None:
                write_whole(path, text().encode("utf-8", "backslashreplace"))
                job.say(f"{'Report' if path == args.report else 'Figures'}: {path.resolve()}")
        except Exception as error:  # whatever is wrong with a page, the training is worth more
            words = str(error) if isinstance(error, OSError) else f"cannot make {path}: {error}"
            job.complain(f"{words}; the training is complete without it")
            complete = False
    return complete


def _say_header(job: Job) -> None:
    config, say = job.config, job.say
    say("Neural IK trainer")
    say(f"Python {platform.python_version()}, NumPy {np.__version__}, threads {job.args.threads}")
    say(
        f"Adam {config.lr:g} ({config.beta1}, {config.beta2}), batch {config.batch_size}, cosine to {config.lr_end:g} of it"
    )
    say(
        f"Network {' - '.join(map(str, config.hidden))} (layout {config.layout}), pose-mix {config.mix:g}, seed {config.seed}"
    )


def _say_data(job: Job, parts: np.ndarray) -> None:
    poses, args, say = job.poses, job.args, job.say
    train, held, test = (int(np.sum(parts == part)) for part in (TRAIN, VALIDATION, TEST))
    kind = "clip" if args.folds else args.split
    say(
        f"Data: {counted(poses.frames, 'frame')} in {counted(len(poses.clip_names), 'clip')}, "
        f"{counted(poses.skeleton.count, 'bone')} ({args.data.name})"
    )
    times = presentations(job.config, train)
    share = test / poses.frames * 100
    say(f"Samples: {train} train x{times}, {held} validation, {test} test ({share:.0f} % held out, split {kind})")
    if kind == "frame":
        say(
            "LEAKY: random frames are held out, so near-copies of the test frames are trained on. "
            "Do not quote these figures alone."
        )


def _epoch_line(epoch: Epoch, usage: Callable[[], str]) -> str:
    star = " *" if epoch.best else ""
    of = "" if epoch.of == UNLIMITED else f"/{epoch.of}"
    return (
        f"{epoch.share * 100:5.1f} %  epoch {epoch.number:4d}{of}  FK {epoch.value * 1000:7.2f} mm  "
        f"validation {epoch.validation * 1000:7.2f} mm{usage()}{star}"
    )


def _epoch_record(epoch: Epoch) -> dict[str, Any]:
    return {
        "epoch": epoch.number,
        "of": epoch.of,
        "share": epoch.share,
        "fk_mm": epoch.value * 1000,
        "validation_mm": epoch.validation * 1000,
        "best": epoch.best,
        "best_mm": epoch.best_value * 1000,
        "best_epoch": epoch.best_epoch,
    }


def _say_closing(job: Job, card: dict[str, Any], saved: bool) -> None:
    args, say, train = job.args, job.say, card["train"]
    say("")
    spent = f"{train['cpu_seconds']:.1f} CPU s, {train['samples_per_second']:.0f} samples/s"
    if args.folds:
        say(f"{counted(args.folds, 'training')} and {counted(round(train['epochs']), 'epoch')} in all; {spent}")
    else:
        say(f"Best validation figure at epoch {train['best_epoch']} of {train['epochs']}; {spent}")
    say(
        f"Weights: {args.weights}"
        + ("" if saved else " already holds better ones for the same data and split, which were kept.")
    )
    if saved:
        say(f"In Blender: 3D View, sidebar, tab Neural IK, {_how_to_load(args.weights)}; then Run Tests or Live IK.")
    else:
        say("To keep these as well, choose another file with --weights.")


def _how_to_load(path: Path) -> str:
    """The button that loads the weights at ``path``, and what to choose for it."""
    if (path.parent / characters.ABOUT).exists():
        return "Load Weights with this character selected"
    if path.resolve() == (SHIPPED / "weights" / "best.npy").resolve():
        return "Load Weights (characters with weights of their own use those)"
    return f"Load Weights, and as its File {path.resolve()}"


def _usage() -> Callable[[], str]:
    """A function that says how busy this process keeps its processor, where psutil is installed."""
    try:
        import psutil
    except ImportError:
        return lambda: ""
    process = psutil.Process()
    process.cpu_percent()
    return lambda: f"  CPU {process.cpu_percent():3.0f} %"
