# SPDX-License-Identifier: GPL-3.0-or-later
"""The detached trainer: learn full-body IK from extracted poses, in a terminal, with NumPy alone.

``python standalone_trainer.py`` trains on ``training_data/training_data.npz`` and writes ``training_data/weights/best.npy``;
``--help`` tells the rest. Inside Blender's own Python:
``blender --background --python-exit-code 1 --python standalone_trainer.py -- --epochs 10``.
Exit codes: 0 trained and every test passed, 1 trained but a test failed, 2 bad input, 130 stopped by Ctrl-C or the cancel file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    # Threads must be set before NumPy comes in. One is fastest at these sizes, and gives the same bytes twice.
    _words = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else sys.argv[1:]
    _count = next((b for a, b in itertools.pairwise(_words) if a == "--threads"), None)
    _count = next((w.split("=", 1)[1] for w in _words if w.startswith("--threads=")), _count) or "1"
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ[_name] = _count
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    _ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if _ours:  # Ctrl-C before there is anything to keep ends at once and without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)

import numpy as np

from neural_network.core.files import keep_apart, write_whole
from neural_network.ik import losses, network, novelty, quality, report, training
from neural_network.ik.context import LAYOUTS, Samples, prepare
from neural_network.ik.network import Network
from neural_network.ik.settings import Losses, Training
from neural_network.motion import pose_set, splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import SPLIT_SHARE, TEST, TRAIN, VALIDATION

ONE_PRESS = 0.5  # [s] a second interrupt within this is the same key press, passed on by the program that started us
SAVE_EVERY = 20.0  # [s] between saves of the state to resume from
NO_BOUND = 1_000_000  # epochs, where the time limit ends the training
BESIDE_SHARE = 0.4  # of the epochs go into the second network that shows what another split says


class Cancelled(Exception):
    """The user asked to stop; everything worth keeping has been kept. ``saved``: the weights on disk are of this run."""

    def __init__(self, sentence: str, saved: bool = False) -> None:
        super().__init__(sentence)
        self.saved = saved


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Names the defaults there are; "None" and "False" say nothing."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None or action.default is False else super()._get_help_string(action)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    d = Training()
    out = argparse.ArgumentParser(
        prog="standalone_trainer.py",
        description="Train a network for full-body inverse kinematics on extracted poses, then test it on motion it never saw.",
        formatter_class=_Help,
        epilog="Exit codes: 0 trained and all tests pass, 1 trained and a test fails, 2 bad input, 130 stopped.",
    )
    files = out.add_argument_group("files")
    data = HERE / "training_data"
    files.add_argument("--data", type=Path, default=data / "training_data.npz", help="poses to learn from")
    files.add_argument("--weights", type=Path, default=data / "weights" / "best.npy", help="where the network goes")
    files.add_argument("--init", type=Path, metavar="WEIGHTS", help="start from these weights (fine-tuning)")
    files.add_argument(
        "--also",
        type=Path,
        metavar="POSES",
        help="other people's poses (.npz, same bones) to learn from too, put on this body: for characters with little motion",
    )
    files.add_argument("--resume", action="store_true", help="go on with the training that was stopped here")
    files.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    files.add_argument("--report", type=Path, metavar="FILE", help="write a report with pictures as one HTML file")
    files.add_argument("--progress", type=Path, metavar="FILE", help="append one JSON object an epoch")
    files.add_argument("--cancel-file", type=Path, metavar="FILE", help="stop, as Ctrl-C does, when this file appears")
    files.add_argument("--quiet", action="store_true", help="print only the results")
    how = out.add_argument_group("training")
    how.add_argument(
        "--epochs",
        type=_positive(int),
        default=None,
        help=f"at most this many (default: {d.epochs}; no bound with --time-limit)",
    )
    how.add_argument("--batch-size", type=_positive(int), default=d.batch_size, help="poses in a step")
    how.add_argument("--lr", type=_positive(float), default=d.lr, help="Adam's step size at the start")
    how.add_argument("--hidden", type=_hidden, default=d.hidden, metavar="N,N", help="widths of the hidden layers")
    how.add_argument("--preset", choices=sorted(PRESETS), help="named settings; single flags still count")
    how.add_argument("--layout", choices=sorted(LAYOUTS), default=d.layout, help="which inputs and outputs")
    how.add_argument(
        "--patience",
        type=_positive(int),
        default=d.patience,
        help="epochs without a better figure before the step size falls early, and as many more before stopping",
    )
    how.add_argument(
        "--augment",
        type=_positive(int, zero=True),
        default=d.augment,
        help=f"times each pose is presented an epoch; 0: twice, or more until there are {d.epoch_least}",
    )
    how.add_argument(
        "--mix", type=_share, default=d.mix, help="pose-mix: probability of another pose's limb; 0 turns it off"
    )
    how.add_argument(
        "--joint-noise",
        type=_positive(float, zero=True),
        default=d.joint_noise,
        metavar="RAD",
        help="noise on every joint in pose-mix",
    )
    how.add_argument("--proportions", type=_share, default=d.proportions, help="spread of random body proportions")
    how.add_argument(
        "--drop-effectors",
        type=_share,
        default=d.drop_effectors,
        help="share of poses that lose targets (layouts with a mask)",
    )
    how.add_argument("--pose-weight", type=_share, default=d.losses.pose, help="weight of the pose loss")
    how.add_argument(
        "--joints-weight", type=_share, default=d.losses.joints, help="weight of the distance of all joints"
    )
    how.add_argument(
        "--max-frames",
        type=_positive(int, zero=True),
        default=0,
        help="train on this many evenly spaced frames; 0: all",
    )
    how.add_argument(
        "--seed", type=_positive(int, zero=True), default=d.seed, help="of weights, order, augmentation and splits"
    )
    how.add_argument(
        "--time-limit",
        type=_positive(float, zero=True),
        default=0.0,
        metavar="CPU_S",
        help="CPU seconds a training (a fold); 0: none",
    )
    how.add_argument("--threads", type=_positive(int), default=1, help="of NumPy's BLAS")
    older = out.add_argument_group("the older schedule")
    older.add_argument(
        "--fk-every", type=_positive(int), default=d.fk_every, help="FK gradient on every n-th batch (was 16)"
    )
    older.add_argument(
        "--contact-every",
        type=_positive(int),
        default=d.contact_every,
        help="contact gradient on every n-th batch (was 8)",
    )
    older.add_argument(
        "--fk-off-below",
        type=_positive(float, zero=True),
        default=0.0,
        metavar="M2",
        help="no FK gradient below this mean square (was 0.02)",
    )
    older.add_argument("--older-ground", action="store_true", help="a foot is grounded when its head is under 0.1 m")
    held = out.add_argument_group("what is held out")
    held.add_argument(
        "--split",
        choices=splits.SPLITS,
        default="block",
        help="blocks of every clip, whole clips, or (leaky) random frames",
    )
    held.add_argument(
        "--holdout", type=float, default=SPLIT_SHARE, help="share held out for test, and again for validation"
    )
    held.add_argument(
        "--folds", type=_positive(int), metavar="K", help="cross-validate over K folds of whole clips, then fit on all"
    )
    held.add_argument(
        "--no-beside", action="store_true", help="skip the second, shorter training that shows the clip split's figure"
    )
    return out


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
    "older": {**CONTRACT, "mix": 0.0, "fk_every": 16, "contact_every": 8, "fk_off_below": 0.02, "older_ground": True},
    "quality": {"hidden": (512, 512, 512), "lr": 0.0015},
    "positions": {"layout": "positions", "mix": 0.3, "joint_noise": 0.2},
}
"""Named settings: the contract's own, its older schedule, a larger network that still answers in real time, and one that sees
no orientations: strange poses would then only blur what it guesses."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trainer with the words of a command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and "--" in words:  # blender ... --python standalone_trainer.py -- OUR WORDS
        words = words[words.index("--") + 1 :]
    elif argv is None and "bpy" in sys.modules and sys.argv[0] != __file__:
        words = []
    cli = parser()
    first, _ = cli.parse_known_args(words)
    cli.set_defaults(**PRESETS.get(first.preset or "", {}))
    args = cli.parse_args(words)
    say: Callable[[str], None] = (lambda _: None) if args.quiet else _print
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the console cannot show must not stop a training
            stream.reconfigure(errors="backslashreplace")
    try:
        _keep_apart(args)
    except (ValueError, OSError) as error:  # said here alone: the file for the progress may be the very one to be kept
        print(f"standalone_trainer.py: {error}", file=sys.stderr, flush=True)
        return 2
    try:
        return run(args, say)
    except Cancelled as stop:
        print(stop, flush=True)
        record: dict[str, Any] = {"done": True, "exit": 130, "weights": str(args.weights), "saved": stop.saved}
    except KeyboardInterrupt:
        print("Stopped at once; the weights on disk are as they were.", flush=True)
        record = {"done": True, "exit": 130, "weights": str(args.weights), "saved": False}
    except (ValueError, OSError) as error:
        print(f"standalone_trainer.py: {error}", file=sys.stderr, flush=True)
        record = {"done": True, "exit": 2, "error": str(error)}
    except MemoryError as error:
        sentence = f"not enough memory ({error}); choose smaller --hidden, --batch-size or --max-frames"
        print(f"standalone_trainer.py: {sentence}", file=sys.stderr, flush=True)
        record = {"done": True, "exit": 2, "error": sentence}
    with contextlib.suppress(OSError):  # it may be the very file that cannot be written
        _progress(args.progress, record)
    return int(record["exit"])


def run(args: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Load, train, save, test and report, as the arguments say; returns the exit code."""
    if args.report is not None:
        report.check()  # before the work, not after it
    if args.folds and args.resume:
        raise ValueError("--resume: a training with --folds cannot go on where it stopped; leave one of the two out")
    poses = pose_set.load(args.data)
    config = _config(args)
    start = None if args.init is None else network.load(args.init)
    if start is not None:
        start.skeleton.require_same(poses.skeleton, f"the poses in {args.data.name}")
        config = replace(config, hidden=start.hidden, layout=start.layout.name)
    for path in (args.weights, args.json, args.report, args.progress):
        _writable(path)
    if args.cancel_file is not None and args.cancel_file.exists():  # one left over from an earlier run
        if not args.cancel_file.is_file() or args.cancel_file.stat().st_size:
            raise ValueError(f"--cancel-file: expected a name not in use, or an empty file, got {args.cancel_file}")
        args.cancel_file.unlink()
    own = None
    if args.also is not None:
        own, loaded = poses.frames, pose_set.load(args.also)
        others = pose_set.without_overlap(pose_set.on_body(loaded, poses.skeleton), poses)
        if others is None:
            raise ValueError(
                f"--also: all poses in {args.also.name} are this character's own; leave it out, or give others'"
            )
        if others.frames < loaded.frames:
            say(
                f"{loaded.frames - others.frames} frames of {args.also.name} were left out: their clips are this character's own"
            )
        poses = pose_set.join([poses, others])
        say(
            f"Also {others.frames} frames of others ({args.also.name}) on this body, half of what is learned; none is tested on"
        )
    samples = prepare(poses, older_ground=args.older_ground)
    if poses.skeleton.limits is None:
        limits = losses.mine_limits(poses.skeleton, training.components(samples.rot))
        poses = replace(poses, skeleton=replace(poses.skeleton, limits=limits))
    job = Job(args, say, poses, samples, config, start, own)
    _header(say, config, args)
    if args.folds:
        card, net = job.cross_validate()
    else:
        parts = job.with_others(splits.split(job.own_poses, args.split, args.holdout, args.seed))
        card, net = job.train_and_test(parts)
    saved = job.save(net, card)
    try:
        return _tell(job, net, card, saved)
    except KeyboardInterrupt:
        kept = "are complete" if saved else "are as they were"
        raise Cancelled(f"Stopped at once; the weights in {args.weights} {kept}.", saved) from None


def _tell(job: Job, net: Network, card: dict[str, Any], saved: bool) -> int:
    """Print, and write what was asked for beside the weights, when these are safe; returns the exit code."""
    args, say = job.args, job.say
    say("")
    for line in quality.text(card):
        print(line)
    stopped = False
    if not args.folds and args.split == "block" and not args.no_beside:
        try:
            job.beside(card)
        except Cancelled:
            stopped = True
            say("Stopped; the figures above and the weights are complete.")
    _closing(say, job, card, args, saved)
    if args.json is not None:
        write_whole(args.json, (json.dumps(card, indent=1) + "\n").encode())
    if args.report is not None:
        write_whole(args.report, report.html(net, job.poses, job.samples, card, job.history).encode())
    code = 130 if stopped else 0 if all(test["passed"] for test in card["tests"]) else 1
    _progress(args.progress, {"done": True, "exit": code, "weights": str(args.weights), "saved": saved})
    return code


class Job:
    """One run of the trainer: what it works on, and what it has come to."""

    def __init__(
        self,
        args: argparse.Namespace,
        say: Callable[[str], None],
        poses: PoseSet,
        samples: Samples,
        config: Training,
        start: Network | None,
        own: int | None = None,
    ) -> None:
        self.args, self.say, self.poses, self.samples, self.config, self.start = (
            args,
            say,
            poses,
            samples,
            config,
            start,
        )
        self.own = own
        self.history: tuple[tuple[float, float], ...] = ()
        self.stop_asked = False
        self.said: set[str] = set()

    @property
    def own_poses(self) -> PoseSet:
        """The character's own poses, without those of --also: what is split, tested and chosen by."""
        poses = self.poses
        if self.own is None:
            return poses
        clips = int(poses.clip[self.own - 1]) + 1
        return replace(
            poses,
            rot=poses.rot[: self.own],
            root_pos=poses.root_pos[: self.own],
            clip=poses.clip[: self.own],
            clip_names=poses.clip_names[:clips],
            clip_tasks=poses.clip_tasks[:clips],
            clip_fps=poses.clip_fps[:clips],
            ground=None if poses.ground is None else poses.ground[:clips],
        )

    def with_others(self, parts: np.ndarray) -> np.ndarray:
        """Parts of all frames from those of the own ones: of these at most --max-frames train, others' always do."""
        others = np.full(self.poses.frames - len(parts), TRAIN, np.int8)
        return np.concatenate([splits.thin(parts, self.config.max_frames), others])

    def begins_with(self, parts: np.ndarray) -> Network | None:
        """The weights to start from, their inputs standardised for this body where others' poses show how it would move."""
        if self.start is None or self.own is None:
            return self.start
        rows = training.balanced(np.flatnonzero(parts == TRAIN), self.own)
        return training.adapted(self.start, self.poses.skeleton, self.samples, rows, self.config)

    def train_and_test(self, parts: np.ndarray) -> tuple[dict[str, Any], Network]:
        """Train on one split and score its test part."""
        _data_lines(self.say, self.poses, parts, self.args, self.config)
        net, train = self.train(parts, self.config, self.args.resume, keep=True)
        self.say("\nTesting on the held-out part ...")
        measured = quality.measure(net, self.poses, parts, self.samples)
        card = quality.figures([measured], self.poses, self.args.split)
        return {**card, "train": train}, self.complete(net, parts, self.args.split, train)

    def cross_validate(self) -> tuple[dict[str, Any], Network]:
        """Train once a fold, pool the figures over all test frames, and fit on all clips for the weights."""
        measured, trains = [], []
        every = splits.folds(self.own_poses, self.args.folds, self.args.holdout, self.args.seed)
        for i, parts in enumerate(every):
            parts = self.with_others(parts)
            self.say(f"\nFold {i + 1} of {len(every)}")
            _data_lines(self.say, self.poses, parts, self.args, self.config)
            net, train = self.train(parts, self.config, False)
            trains.append(train)
            measured.append(quality.measure(net, self.poses, parts, self.samples))
            holdout = measured[-1].errors["holdout"]
            assert holdout is not None
            self.say(f"Fold {i + 1}: {holdout.effector.mean() * 1000:.1f} mm mean effector error on its test clips")
        card = quality.figures(measured, self.poses, "clip")
        card["folds"] = [m.errors["holdout"].figures() for m in measured if m.errors["holdout"] is not None]
        means = ", ".join(f"{fold['effector_mm']['mean']:.1f}" for fold in card["folds"])
        self.say(
            f"Mean effector error of the folds: {means} mm. A test's score below is that of the fold that did worst."
        )
        self.say("\nFit on all clips, for the weights")
        try:
            parts = splits.split(self.own_poses, "block", 0.05, self.args.seed)
        except ValueError:  # clips too short for blocks; whole ones are held out then
            parts = splits.split(self.own_poses, "clip", 0.05, self.args.seed)
        parts[parts == TEST] = TRAIN
        parts = self.with_others(parts)
        net, train = self.train(parts, self.config, False, keep=True)
        total = {k: float(np.sum([t[k] for t in trains])) for k in ("seconds", "cpu_seconds", "epochs")}
        total["samples_per_second"] = float(np.mean([t["samples_per_second"] for t in trains]))
        total["best_epoch"] = float(np.mean([t["best_epoch"] for t in trains]))
        return {**card, "train": total}, self.complete(net, parts, "all", train)

    def beside(self, card: dict[str, Any]) -> None:
        """What the same settings reach where whole clips are held out: printed, and put into the card."""
        try:
            parts = self.with_others(splits.split(self.own_poses, "clip", self.args.holdout, self.args.seed))
        except ValueError:
            return
        config = replace(
            self.config,
            epochs=max(1, round(self.config.epochs * BESIDE_SHARE)),
            time_limit=self.config.time_limit * BESIDE_SHARE,
        )
        bound = f"{config.time_limit:g} CPU s" if config.time_limit else f"{config.epochs} epochs"
        self.say(f"\nBeside it, a second network with whole clips held out ({bound} at most) ...")
        net, _ = self.train(parts, config, False, show=False)
        other = quality.figures([quality.measure(net, self.poses, parts, self.samples)], self.poses, "clip")
        clips = ", ".join(other["clips"])
        print("\n".join(["", *quality.table(other), f"(held-out clips: {clips})"]))
        card["beside"] = other

    def train(
        self, parts: np.ndarray, config: Training, resume: bool, keep: bool = False, show: bool = True
    ) -> tuple[Network, dict[str, Any]]:
        """Run one training to its end; with ``keep`` its state and best weights survive an interruption."""
        args = self.args
        state, identity = None, self._identity(parts)
        if resume:
            state = self._load_state(identity)
            self.say(f"Going on after epoch {state.epoch}; best so far {state.best_value * 1000:.1f} mm.")
        wall, cpu, saved_at = time.perf_counter(), time.process_time(), time.perf_counter()
        earlier, first_step = (state.spent, state.step) if state is not None else (0.0, 0)
        usage = _usage()
        start = self.begins_with(parts)
        epoch = None
        with _CtrlC(self):
            for epoch in training.train(self.poses.skeleton, self.samples, parts, config, start, state, self.own):
                if show:
                    self.say(_epoch_line(epoch, usage))
                    self._go_on(partial(_progress, args.progress, _epoch_record(epoch)))
                if keep:
                    self.history = epoch.state.history
                cancelled = self.stop_asked or (args.cancel_file is not None and args.cancel_file.exists())
                if keep and (cancelled or time.perf_counter() - saved_at > SAVE_EVERY):
                    saved_at = time.perf_counter()
                    self._go_on(partial(self._save_state, epoch.state, identity))
                if cancelled:
                    self._interrupted(epoch, parts, config, keep)
        last = state if epoch is None else epoch.state  # None: it was stopped after its very last epoch
        assert last is not None
        spent = time.process_time() - cpu
        if show and epoch is not None and epoch.ended:
            self.say(f"Early stop: no better validation figure for {config.patience} epochs.")
        train = {
            "seconds": time.perf_counter() - wall,
            "cpu_seconds": spent + earlier,
            "epochs": last.epoch,
            "best_epoch": last.best_epoch,
            "best_validation_mm": last.best_value * 1000,
            "samples_per_second": (last.step - first_step) * config.batch_size / max(spent, 1e-9),
        }
        net = training.finish(self.poses.skeleton, self.samples, parts, config, last, start)
        return net, train

    def save(self, net: Network, card: dict[str, Any]) -> bool:
        """Write the weights, unless better ones for the very same data and split are there already."""
        path = self.args.weights
        keys = ("holdout", "refined")
        figures = {k: card[k] for k in keys} | {"best_validation_mm": net.meta["best_validation_mm"]}
        net = replace(net, meta={**net.meta, "figures": figures})
        older = _older_value(path, net)
        better = older is None or older >= net.meta["best_validation_mm"]
        if better:
            network.save(path, net)
        self.state_path.unlink(missing_ok=True)  # not before: if the disk is full, --resume saves the work
        return better

    def complete(self, net: Network, parts: np.ndarray, kind: str, train: dict[str, Any]) -> Network:
        """The network with all that best.npy says beside its weights."""
        net = replace(net, meta=self.meta(parts, kind, train))
        return novelty.with_centres(net, self.poses, self.samples, parts)

    def meta(self, parts: np.ndarray, kind: str, train: dict[str, Any]) -> dict[str, Any]:
        """What best.npy says of itself; no times, so that the same training gives the same bytes."""
        return {
            "config": asdict(self.config),
            "data": quality.describe_split(self.poses, parts, kind),
            "epochs": train["epochs"],
            "best_epoch": train["best_epoch"],
            "best_validation_mm": train["best_validation_mm"],
        }

    @property
    def state_path(self) -> Path:
        """Where an interrupted training waits to be resumed."""
        return training.state_path(self.args.weights)

    def _identity(self, parts: np.ndarray) -> str:
        config = {f.name: getattr(self.config, f.name) for f in fields(self.config)}
        config["losses"] = asdict(self.config.losses)
        split = quality.describe_split(self.poses, parts, self.args.split)
        return json.dumps({"config": config, "data": split}, sort_keys=True)

    def _save_state(self, state: training.State, identity: str) -> None:
        buffer = io.BytesIO()
        text = np.frombuffer(identity.encode(), np.uint8)
        np.savez(buffer, identity=text, **training.pack(state))  # type: ignore[arg-type]
        write_whole(self.state_path, buffer.getvalue())

    def _go_on(self, write: Callable[[], None]) -> None:
        """Hours of training do not end because a file beside it cannot be written now; that is said once."""
        try:
            write()
        except OSError as error:
            if str(error) not in self.said:
                print(f"standalone_trainer.py: {error}; the training goes on", file=sys.stderr, flush=True)
            self.said.add(str(error))

    def _load_state(self, identity: str) -> training.State:
        path = self.state_path
        if not path.exists():
            raise ValueError(f"nothing to resume: no stopped training at {path}; train without --resume")
        try:
            with open(path, "rb") as file:  # NumPy itself leaves a damaged file open
                archive = np.load(file, allow_pickle=False)
                arrays = {name: archive[name] for name in archive.files}
            found = bytes(arrays.pop("identity")).decode()
            state = training.unpack(arrays)
        except Exception as error:  # a damaged file raises many kinds
            raise ValueError(f"{path.name}: not a stopped training ({error}); train without --resume") from None
        if found != identity:
            raise ValueError(
                f"{path.name}: the stopped training had other data or settings ({_first_difference(found, identity)}); "
                "resume with the same ones, or train without --resume"
            )
        return state

    def _interrupted(self, epoch: training.Epoch, parts: np.ndarray, config: Training, keep: bool) -> None:
        if not keep:
            raise Cancelled(f"Stopped after epoch {epoch.number}. The weights on disk are as they were.")
        net = training.finish(self.poses.skeleton, self.samples, parts, config, epoch.state, self.begins_with(parts))
        train = {
            "epochs": epoch.number,
            "best_epoch": epoch.best_epoch,
            "best_validation_mm": epoch.best_value * 1000,
        }
        net = replace(net, meta=self.meta(parts, "all" if self.args.folds else self.args.split, train))
        older = _older_value(self.args.weights, net)
        saved = older is None or older > epoch.best_value * 1000
        if saved:
            network.save(self.args.weights, net)
        where = f"Best weights so far ({epoch.best_value * 1000:.1f} mm) are in {self.args.weights}." if saved else ""
        how = "" if self.args.folds or not self.state_path.exists() else " Go on with the same command and --resume."
        raise Cancelled(f"Stopped after epoch {epoch.number}. {where}{how}", saved)


class _CtrlC:
    """While inside, the first Ctrl-C only asks the job to stop after its epoch; the second stops at once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.before: Any = None
        self.asked_at = 0.0

    def __enter__(self) -> None:
        try:
            self.before = signal.signal(signal.SIGINT, self._asked)
        except ValueError:  # not the main thread: whoever runs us there has its own way to stop us
            self.before = None

    def _asked(self, number: int, frame: Any) -> None:
        if self.job.stop_asked:
            if time.monotonic() - self.asked_at < ONE_PRESS:
                return
            raise KeyboardInterrupt
        self.job.stop_asked, self.asked_at = True, time.monotonic()
        self.job.say("Stopping after this epoch (Ctrl-C again: at once) ...")

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)


def _older_value(path: Path, net: Network) -> float | None:
    """Validation figure of the weights at ``path`` where they are of this very data, split and layout; else None."""
    if not path.exists():
        return None
    try:
        older = network.load(path)
    except (ValueError, OSError):
        return None
    same = older.layout == net.layout and older.hidden == net.hidden and older.meta.get("data") == net.meta.get("data")
    return older.meta.get("best_validation_mm") if same else None


def _config(args: argparse.Namespace) -> Training:
    names = {f.name for f in fields(Training)} & set(vars(args))
    kept = {name: getattr(args, name) for name in names}
    if args.epochs is None:
        kept["epochs"] = NO_BOUND if args.time_limit else Training().epochs
    if not LAYOUTS[args.layout].mask and args.drop_effectors:
        raise ValueError(
            f"--drop-effectors: expected a layout with a mask, got --layout {args.layout}; use masked or free"
        )
    return Training(**kept, losses=replace(Losses(), pose=args.pose_weight, joints=args.joints_weight))


def _header(say: Callable[[str], None], config: Training, args: argparse.Namespace) -> None:
    say("Neural IK trainer")
    say(f"Python {platform.python_version()}, NumPy {np.__version__}, threads {args.threads}")
    say(
        f"Adam {config.lr:g} ({config.beta1}, {config.beta2}), batch {config.batch_size}, cosine to {config.lr_end:g} of it"
    )
    say(
        f"Network {' - '.join(map(str, config.hidden))} (layout {config.layout}), pose-mix {config.mix:g}, seed {config.seed}"
    )


def _data_lines(
    say: Callable[[str], None], poses: PoseSet, parts: np.ndarray, args: argparse.Namespace, config: Training
) -> None:
    train, held, test = (int(np.sum(parts == part)) for part in (TRAIN, VALIDATION, TEST))
    kind = "clip" if args.folds else args.split
    say(
        f"Data: {poses.frames} frames in {len(poses.clip_names)} clips, {poses.skeleton.count} bones ({args.data.name})"
    )
    times = training.presentations(config, train)
    share = test / poses.frames * 100
    say(f"Samples: {train} train x{times}, {held} validation, {test} test ({share:.0f} % held out, split {kind})")
    if kind == "frame":
        say(
            "LEAKY: with random frames held out, near-copies of the test frames are trained on. Do not quote these figures alone."
        )


def _epoch_line(epoch: training.Epoch, usage: Callable[[], str]) -> str:
    star = " *" if epoch.best else ""
    of = "" if epoch.of == NO_BOUND else f"/{epoch.of}"
    return (
        f"{epoch.share * 100:5.1f} %  epoch {epoch.number:4d}{of}  FK {epoch.fk * 1000:7.2f} mm  "
        f"validation {epoch.validation * 1000:7.2f} mm{usage()}{star}"
    )


def _epoch_record(epoch: training.Epoch) -> dict[str, Any]:
    return {
        "epoch": epoch.number,
        "of": epoch.of,
        "share": epoch.share,
        "fk_mm": epoch.fk * 1000,
        "validation_mm": epoch.validation * 1000,
        "best": epoch.best,
        "best_mm": epoch.best_value * 1000,
        "best_epoch": epoch.best_epoch,
    }


def _closing(say: Callable[[str], None], job: Job, card: dict[str, Any], args: argparse.Namespace, saved: bool) -> None:
    train = card["train"]
    say("")
    spent = f"{train['cpu_seconds']:.1f} CPU s, {train['samples_per_second']:.0f} samples/s"
    if args.folds:
        say(f"{args.folds} trainings and {train['epochs']:.0f} epochs in all; {spent}")
    else:
        say(f"Best validation figure at epoch {train['best_epoch']} of {train['epochs']}; {spent}")
    if saved:
        say(f"Weights: {args.weights}")
        say("In Blender: 3D View, sidebar, tab Neural IK, Load Weights; then Run Tests or Live IK.")
    else:
        say(
            f"Weights: {args.weights} holds better ones of the same data and split and was kept. Choose another --weights to keep these."
        )


def _progress(path: Path | None, record: dict[str, Any]) -> None:
    if path is not None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _keep_apart(args: argparse.Namespace) -> None:
    """No file is written that is also read; fine-tuning in place, --init and --weights the same, is what some want."""
    read = {"--data": args.data, "--also": args.also, "--init": None if args.init == args.weights else args.init}
    written = {"--weights": args.weights, "the stopped training": training.state_path(args.weights)}
    written |= {"--json": args.json, "--report": args.report, "--progress": args.progress}
    keep_apart(read, {**written, "--cancel-file": args.cancel_file})


def _writable(path: Path | None) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"expected a file name, got the folder {path}")
    if path.exists() and not path.is_file():  # a device or pipe
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = path.with_name(f".{path.name}.{os.getpid()}.probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}; choose another place") from None


def _usage() -> Callable[[], str]:
    """A function that says how busy this process keeps its processor, where psutil is installed."""
    try:
        import psutil
    except ImportError:
        return lambda: ""
    process = psutil.Process()
    process.cpu_percent()
    return lambda: f"  CPU {process.cpu_percent():3.0f} %"


def _first_difference(a: str, b: str) -> str:
    x, y = json.loads(a), json.loads(b)
    for name, value in x["config"].items():
        if y["config"].get(name) != value:
            return f"{name} was {value}"
    return "other poses or another split"


def _positive(kind: type, zero: bool = False) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        value = kind(text)
        if not (value > 0 or (zero and value == 0)) or value == float("inf"):
            raise argparse.ArgumentTypeError(f"expected a number above 0{' (or 0)' if zero else ''}, got {text}")
        return value

    convert.__name__ = kind.__name__
    return convert


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, got {text}")
    return value


def _hidden(text: str) -> tuple[int, ...]:
    try:
        widths = tuple(int(w) for w in text.replace("-", ",").split(","))
    except ValueError:
        widths = ()
    if not widths or min(widths) < 1 or max(widths) > 8192 or len(widths) > 8:
        raise argparse.ArgumentTypeError(f"expected widths such as 128,96, got {text}")
    return widths


def _print(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    if _ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
