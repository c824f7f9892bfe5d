# SPDX-License-Identifier: GPL-3.0-or-later
"""The buttons for weights: load, test, train and reset them. Each reads its inputs, calls one function and reports."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import bpy
from bpy.props import BoolProperty, FloatProperty, IntProperty, StringProperty

from ...core.messages import counted, show
from ...ik import network
from ...ik import quality as suite
from ...ik.context import prepare
from ...learning.card import score_text, summary, tests_from_json
from ...learning.loop import state_path
from ...live.kept_file import contents
from ...motion import pose_set
from ..host import characters, jobs, memory
from ..host.buttons import Button, write_text
from ..host.jobs import Progress
from ..host.memory import Line
from . import trainer

STOPPED = (130, 143, 129)  # exit codes of a training that was stopped: by Cancel, or from outside by SIGTERM or SIGHUP
REPORT = "Neural IK Tests"  # the text block


class NEURAL_IK_OT_load_weights(Button, bpy.types.Operator):
    """Load the character's own weights, or the ones that came with Neural IK if it has none"""

    bl_idname = "neural_ik.load_weights"
    bl_label = "Load Weights"
    bl_options = {"REGISTER"}

    filepath: StringProperty(
        name="File",
        description="A file to load in place of the character's own",
        subtype="FILE_PATH",
        options={"SKIP_SAVE"},
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Read the file."""
        try:
            if self.filepath:
                path = Path(bpy.path.abspath(self.filepath))
                found = characters.Found(path, network.load(path), path.name)
            else:
                found = characters.weights_to_load(characters.active_object(context))
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        text = characters.take_weights(found, chosen=bool(self.filepath))
        self.report({"WARNING"} if found.note else {"INFO"}, text)
        return {"FINISHED"}


class NEURAL_IK_OT_run_tests(jobs.Pumped, Button, bpy.types.Operator):
    """Test the weights in memory on poses that they were not trained on, beside simpler methods"""

    bl_idname = "neural_ik.run_tests"
    bl_label = "Run Tests"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Something to test, or to test on, is missing."""
        if memory.memory.network is None:
            return "no weights in memory: Load Weights or Train first"
        return "" if memory.memory.poses is not None else "no poses in memory: Load Saved Data first"

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Find the poses that were held out, then measure on them."""
        net, poses = memory.memory.network, memory.memory.poses
        assert net is not None  # see why_not
        assert poses is not None
        return self._measure(net, poses)

    def _measure(self, net: network.Network, poses: pose_set.PoseSet) -> Generator[Progress, None, dict[str, Any]]:
        yield Progress(0, 3, "Finding held-out poses")
        parts = suite.parts_for(net, poses)
        yield Progress(1, 3, "Preparing")
        samples = prepare(poses)
        yield Progress(2, 3, "Measuring")
        measured = suite.measure(net, poses, parts, samples)
        return suite.figures([measured], poses, net.meta.get("data", {}).get("split", "unknown"))

    def finish(self, context: bpy.types.Context, result: dict[str, Any]) -> str:
        """Show the results in the panel and the text block. Raises ValueError where a test fails, so that scripts notice."""
        keep = memory.memory
        lines = suite.text(result)
        write_text(REPORT, lines)
        keep.results = tuple(
            Line(f"{test.name}: {score_text(test)} ({test.threshold:g})", test.passed)
            for test in tests_from_json(result["tests"])
        )
        keep.results += tuple(Line(text) for text in _card_lines(result))
        failed = suite.failed(result)
        if failed:
            raise ValueError(f"{len(failed)} of {len(result['tests'])} tests failed: {', '.join(failed)}")
        return f"{summary(tests_from_json(result['tests']))}; details in the text block {REPORT}"


def _card_lines(figures: dict[str, Any]) -> list[str]:
    """The card in a few lines: effector error on unseen poses, of the network alone, refined, and of the baselines."""
    rows = [("Network", figures["holdout"]), ("+ 3 exact steps", figures.get("refined"))]
    rows += [("Nearest frame", figures["baselines"]["nearest"]), ("Ridge", figures["baselines"]["ridge"])]
    found = [(label, values["effector_mm"]) for label, values in rows if values is not None]
    lines = [f"{counted(figures['samples']['test'], 'unseen pose')}, effector error:"]
    share = 100 / figures["body_length_mm"]
    return lines + [
        f"{label}: {mm['mean']:.1f} mm, p95 {mm['p95']:.1f}, {mm['mean'] * share:.1f} % of the body"
        for label, mm in found
    ]


class NEURAL_IK_OT_show_path(Button, bpy.types.Operator):
    """Show the commands that train in a terminal, copy them and print them"""

    bl_idname = "neural_ik.show_path"
    bl_label = "Show Full Path"
    bl_options = {"REGISTER"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Print and copy them."""
        try:
            self.lines = commands(characters.training(context))
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        show("\n".join(self.lines))
        if not bpy.app.background:
            context.window_manager.clipboard = "\n".join(self.lines)
        self.report(
            {"INFO"}, "The commands were printed to the console" + ("" if bpy.app.background else " and copied")
        )
        return {"FINISHED"}

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Print, copy and show them."""
        done = self.execute(context)
        if bpy.app.background or done == {"CANCELLED"}:
            return done
        return context.window_manager.invoke_popup(self, width=700)

    def draw(self, context: bpy.types.Context) -> None:
        """The dialog."""
        column = self.layout.column(align=True)
        column.label(text="Copied: paste it into a terminal", icon="COPYDOWN")
        for line in self.lines:
            for part in wrapped(line, 100):
                column.label(text=part)


def commands(files: characters.TrainingFiles) -> list[str]:
    """The terminal commands that train as Train would, each below a line that says what it is for."""
    words = trainer.command(files.poses, files.character.weights(characters.IK))
    blender = [bpy.app.binary_path or "blender", "--background", "--python-exit-code", "1", "--python"]
    return [
        "# Train with Blender's own Python:",
        trainer.quoted(words),
        "# The same inside Blender:",
        trainer.quoted([*blender, str(memory.TRAINER), "--", *words[words.index("--data") :]]),
        "# All options:",
        trainer.quoted([*words[: words.index("--data")], "--help"]),
    ]


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in pieces of at most ``width`` characters, broken anywhere: paths have no spaces."""
    return [text[i : i + width] for i in range(0, len(text), width)] or [""]


class NEURAL_IK_OT_reset_weights(Button, bpy.types.Operator):
    """Forget the weights in memory and delete the ones saved for this character; other characters keep theirs"""

    bl_idname = "neural_ik.reset_weights"
    bl_label = "Reset Weights"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """There is nothing to forget."""
        if memory.memory.network is not None:
            return ""
        subject = characters.drawn(context)
        known = subject is not None and characters.kept(subject).weights(characters.IK).exists()
        return "" if known else "there are no weights to forget"

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask first."""
        return context.window_manager.invoke_confirm(self, event)

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Forget them."""
        subject = characters.active(context)
        text = "The weights in memory are forgotten"
        try:
            if subject is not None:
                weights = characters.kept(subject).weights(characters.IK)
                seen = memory.memory.network_seen if memory.memory.network_file == weights else contents(weights)
                if contents(weights) not in ("", seen):
                    text += f", those of {subject.name} were saved anew since they were read here, and are left: reset again"
                    text += " to delete these too"
                else:
                    if weights.exists():
                        text += f", those of {subject.name} are deleted"
                    for path in (weights, state_path(weights)):
                        path.unlink(missing_ok=True)
        except OSError as error:
            self.report({"ERROR"}, f"cannot remove {path}: {error.strerror or error}")
            return {"CANCELLED"}
        memory.memory.forget_weights()
        jobs.redraw()
        if characters.earlier_weights().exists():
            text += f"; {characters.earlier_weights()} of an earlier version is left alone"
        self.report({"INFO"}, text)
        return {"FINISHED"}


class NEURAL_IK_OT_train(jobs.Pumped, Button, bpy.types.Operator):
    """Train on the character's saved poses in a separate process. Keep working meanwhile; Esc cancels"""

    bl_idname = "neural_ik.train"
    bl_label = "Train"
    bl_options = {"REGISTER"}
    interval = 0.1
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
        epochs = self.epochs or context.scene.neural_ik.epochs
        extra = ["--no-beside"]  # the panel shows one card
        extra += ["--epochs", str(epochs)] if epochs else []
        extra += ["--time-limit", f"{self.time_limit:g}"] if self.time_limit else []
        extra += ["--resume"] if self.resume else []
        self.files = characters.training(context)
        self.cancel_file = trainer.cancel_path()
        words = trainer.command(self.files.poses, self.files.character.weights(characters.IK), extra)
        show(f"Neural IK: {trainer.quoted(words)}")
        memory.memory.curve = memory.memory.curve if self.resume else []
        memory.memory.training = "Starting"
        return self._watch(trainer.train(words, self.cancel_file))

    def _watch(
        self, training: Generator[trainer.EpochMessage | None, None, tuple[int, str]]
    ) -> Generator[Progress, None, Any]:
        keep = memory.memory
        progress = Progress(0, 1, "Starting")
        ended = False
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
        error, best = values["validation_mm"], values["best_mm"]
        memory.memory.curve.append((values["share"], error))
        text = f"Epoch {values['epoch']} of {values['of']}: {error:.1f} mm, best {best:.1f} mm"
        return Progress(int(values["epoch"]), int(values["of"]), text)

    def ask_to_stop(self) -> bool:
        """Let the trainer end after this epoch and keep its best weights."""
        try:
            self.cancel_file.touch()
        except OSError:
            return False
        memory.memory.training = "Stopping after this epoch"
        return True

    def finish(self, context: bpy.types.Context, result: tuple[int, str]) -> str:
        """Load the weights."""
        code, said = result
        last = [line for line in said.splitlines() if line.strip()][-3:]
        keep = memory.memory
        if code not in (0, 1, *STOPPED):
            keep.training = f"Failed: {last[-1] if last else f'exit code {code}'}"
            raise ValueError("the trainer ended: " + (" / ".join(last) or f"exit code {code}"))
        show(said.rstrip("\n"))
        character = self.files.character
        trained = "Trained on the shipped poses" if self.files.shipped else f"Trained {character.name}"
        text = {
            0: f"{trained}, and all tests pass",
            1: f"{trained}, but a test fails: press Run Tests",
        }.get(code, "Cancelled; Resume continues it")
        weights = character.weights(characters.IK)
        if weights.exists():
            found = characters.Found(weights, network.load(weights), character.name, self.files.note)
            text += ". " + characters.take_weights(found)
        keep.training = text
        return text


_classes = (
    NEURAL_IK_OT_load_weights,
    NEURAL_IK_OT_run_tests,
    NEURAL_IK_OT_show_path,
    NEURAL_IK_OT_reset_weights,
    NEURAL_IK_OT_train,
)


def register() -> None:
    """Register the buttons."""
    for cls in _classes:
        bpy.utils.register_class(cls)


def unregister() -> None:
    """Unregister them."""
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
