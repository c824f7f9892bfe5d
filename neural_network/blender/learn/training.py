# SPDX-License-Identifier: GPL-3.0-or-later
"""Learn and Train: from a character's motion, or from its saved poses, to weights, in a process beside Blender."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import bpy
from bpy.props import BoolProperty, FloatProperty, IntProperty

from ...core.messages import counted, show
from ...ik import network
from ...ik.settings import Training
from ...ik.task import presentations
from ...learning.loop import state_path
from ...motion import pose_set
from ..data import chosen
from ..host import characters, jobs, memory, rig
from ..host.buttons import Button, no_character
from ..host.jobs import Progress
from . import card, trainer

STOPPED = (130, 143, 129)  # exit codes of a training that was stopped: by Cancel, or from outside by SIGTERM or SIGHUP
RATE = 17_000.0  # [poses/s] of a person's training on a desktop's one core; replaced by what this machine does once it has trained
EXTRACTED = "extracted from "  # how the source of poses from actions begins

_rate = RATE


def seconds(poses: int, epochs: int) -> float:
    """About how long a training on so many poses takes at most [s]; it ends earlier where it stops getting better."""
    config = Training()
    kept = max(1, round(0.78 * poses))  # what the split leaves to train on
    return (epochs or config.epochs) * kept * presentations(config, kept) / _rate


def in_words(duration: float) -> str:
    """A duration [s] as people say it: "10 s", "2 min", "3 h"."""
    if duration < 55:
        return f"{max(5, 5 * round(duration / 5))} s"
    return f"{duration / 60:.0f} min" if duration < 5400 else f"{duration / 3600:.0f} h"


class _Trains(jobs.Pumped, Button):
    """What Learn and Train share: follow the trainer, take its weights and its card."""

    files: characters.TrainingFiles

    def _begin(self, files: characters.TrainingFiles, extra: list[str], resume: bool) -> Generator[Progress, None, Any]:
        """Start the trainer and report its epochs."""
        self.files, self.cancel_file = files, trainer.cancel_path()
        words = trainer.command(
            files.poses, files.character.weights(characters.IK), ["--no-beside", *extra], files.init
        )
        show(f"Neural IK: {trainer.quoted(words)}")
        memory.memory.curve = memory.memory.curve if resume else []
        memory.memory.training = "Starting"
        return self._watch(trainer.train(words, self.cancel_file))

    def _watch(
        self, training: Generator[trainer.EpochMessage | None, None, trainer.Ended]
    ) -> Generator[Progress, None, Any]:
        keep = memory.memory
        progress = Progress(0, 1, "Starting")
        ended = False
        self.began: tuple[float, float] | None = None
        try:
            while True:
                try:
                    epoch = next(training)
                except StopIteration as end:
                    ended = True
                    return end.value
                if epoch is not None:
                    progress = self._read(epoch.values, progress)
                    keep.training = progress.text
                yield progress
        finally:
            training.close()
            if not ended:
                waiting = state_path(self.files.character.weights(characters.IK)).exists()
                keep.training = "Ended early; " + ("Resume continues it" if waiting else "the weights are unchanged")

    def _read(self, values: dict[str, Any], before: Progress) -> Progress:
        """Progress from the trainer's JSON object; the last one reports the end and has no epoch."""
        if "epoch" not in values:
            return before
        memory.memory.curve.append((values["share"], values["validation_mm"]))
        now, share = time.monotonic(), float(values["share"])
        left = ""
        if self.began is None:
            self.began = now, share
        elif share > self.began[1]:
            left = f", {in_words((now - self.began[0]) * (1 - share) / (share - self.began[1]))} left"
        text = f"Epoch {values['epoch']} of {values['of']}: best {values['best_mm']:.1f} mm{left}"
        return Progress(int(values["epoch"]), int(values["of"]), text)

    def ask_to_stop(self) -> bool:
        """Let the trainer end after this epoch and keep its best weights; before it runs there is nothing to keep."""
        if not self.passes_events:
            return False
        try:
            self.cancel_file.touch()
        except OSError:
            return False
        memory.memory.training = "Stopping after this epoch"
        return True

    def finish(self, context: bpy.types.Context, result: trainer.Ended) -> str:
        """Load the weights, and show how good they are."""
        global _rate
        last = [line for line in result.said.splitlines() if line.strip()][-3:]
        keep = memory.memory
        if result.code not in (0, 1, *STOPPED):
            keep.training = f"Failed: {last[-1] if last else f'exit code {result.code}'}"
            raise ValueError("the trainer ended: " + (" / ".join(last) or f"exit code {result.code}"))
        show(result.said.rstrip("\n"))
        character = self.files.character
        trained = "Trained on the shipped poses" if self.files.shipped else f"Trained {character.name}"
        text = {
            0: f"{trained}, and all tests pass",
            1: f"{trained}, but a test fails: see the card",
        }.get(result.code, "Cancelled; Resume continues it")
        weights = character.weights(characters.IK)
        if weights.exists():
            found = characters.Found(weights, network.load(weights), character.name, self.files.note)
            text += ". " + characters.take_weights(found)
        if result.card is not None:
            _rate = float(result.card.get("train", {}).get("samples_per_second") or _rate)
            card.keep(result.card)
        keep.training = text
        return text


class NEURAL_IK_OT_train(_Trains, bpy.types.Operator):
    """Train on the character's saved poses in a separate process. Keep working meanwhile; Esc cancels"""

    bl_idname = "neural_ik.train"
    bl_label = "Train"
    bl_options = {"REGISTER"}
    interval = jobs.BESIDE
    passes_events = True
    survives_undo = True

    epochs: IntProperty(
        name="Epochs", description="Maximum epochs; 0 uses the scene setting", default=0, min=0, options={"SKIP_SAVE"}
    )
    time_limit: FloatProperty(
        name="Time Limit",
        description="Maximum seconds of computing; 0 sets no limit",
        default=0,
        min=0,
        options={"SKIP_SAVE"},
    )

    resume: BoolProperty(
        name="Resume",
        description="Continue the training that was cancelled, with the settings it had",
        default=False,
        options={"SKIP_SAVE"},
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No poses on disk, or newer ones in memory."""
        return characters.why_no_training(context)

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Start the trainer and report its epochs."""
        extra = _epochs(context, self.epochs)
        extra += ["--time-limit", f"{self.time_limit:g}"] if self.time_limit else []
        extra += ["--resume"] if self.resume else []
        return self._begin(characters.training(context), extra, self.resume)


class NEURAL_IK_OT_learn(_Trains, bpy.types.Operator):
    """Learn how this character moves: extract its actions, save the poses and train, in one go. Keep working while it trains"""

    bl_idname = "neural_ik.learn"
    bl_label = "Learn from My Actions"
    bl_options = {"REGISTER"}

    epochs: IntProperty(
        name="Epochs", description="Maximum epochs; 0 uses the scene setting", default=0, min=0, options={"SKIP_SAVE"}
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No character, or none that anything moves."""
        reason = no_character(context)
        if reason or _imported(context) or chosen.expected_soon(context)[0] or context.scene.neural_ik.nla:
            return reason
        return (
            f"no action moves {rig.find(context).name} yet: animate it or Import Motion. "
            "Live IK works at once, with weights that came with Neural IK"
        )

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Prepare now, so that what cannot work is reported at once; the rest later."""
        self.passes_events = False
        self.source = rig.find(context).name
        extracting = None if _imported(context) else chosen.extraction(context)
        return self._all(extracting, _epochs(context, self.epochs))

    def _all(
        self, extracting: Generator[Progress, None, Any] | None, extra: list[str]
    ) -> Generator[Progress, None, Any]:
        """Extract, save, train."""
        keep = memory.memory
        if extracting is not None:
            result = yield from extracting
            for note in result.notes:
                show(f"Neural IK: {note}")
            keep.take_poses(result.poses, self.source, EXTRACTED + self.source, unsaved=True)
        poses = keep.poses
        assert poses is not None  # just extracted, or see _imported
        yield Progress(1, 1, f"{counted(poses.frames, 'pose')}: saving")
        character = characters.keep_poses_of(poses.skeleton, bpy.context, keep.poses_name)
        pose_set.save(character.poses, poses)
        keep.unsaved = False
        training = self._begin(characters.TrainingFiles(character.poses, False, character, ""), extra, False)
        self.go_on_beside()
        return (yield from training)


def _epochs(context: bpy.types.Context, own: int) -> list[str]:
    scene: Any = context.scene
    epochs = own or scene.neural_ik.epochs
    return ["--epochs", str(epochs)] if epochs else []


def _imported(context: bpy.types.Context) -> bool:
    """Whether memory holds poses of this character that came from elsewhere than its actions and are not on disk yet."""
    keep, subject = memory.memory, characters.drawn(context)
    if keep.poses is None or not keep.unsaved or keep.poses_from.startswith(EXTRACTED) or subject is None:
        return False
    return keep.poses.skeleton.fingerprint == subject.skeleton.fingerprint


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_train,
        NEURAL_IK_OT_learn,
    )
)
