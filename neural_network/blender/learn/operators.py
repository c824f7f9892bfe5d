# SPDX-License-Identifier: GPL-3.0-or-later
"""The buttons: each reads its inputs, calls one function and says what came of it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, StringProperty

from ...core.skeleton import SkeletonMismatch
from ...ik import network
from ...ik import quality as suite
from ...ik.context import prepare
from ...ik.training import state_path
from ...motion import pose_set
from ..data import demo, extract
from ..host import jobs, memory, rig
from ..host.buttons import Button, no_character, write_text
from ..host.jobs import Progress
from ..host.memory import Line
from . import trainer

REPORT = "Neural IK Tests"  # the text block


class NEURAL_IK_OT_load_data(Button, bpy.types.Operator):
    """Load the saved poses into memory: yours, or the ones that came along where you have none yet"""

    bl_idname = "neural_ik.load_data"
    bl_label = "Load Saved Data"
    bl_options = {"REGISTER"}

    filepath: StringProperty(
        name="File", description="Another file than the usual one", subtype="FILE_PATH", options={"SKIP_SAVE"}
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Read the file."""
        path, shipped = (Path(bpy.path.abspath(self.filepath)), False) if self.filepath else memory.data_to_load()
        try:
            poses = pose_set.load(path)
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        keep = memory.memory
        keep.poses, keep.unsaved, keep.results = poses, False, ()
        keep.poses_from = "came with Neural IK" if shipped else f"{path.name}, {memory.written(path)}"
        jobs.redraw()
        self.report({"INFO"}, f"{poses.frames} poses of {len(poses.clip_names)} actions ({keep.poses_from})")
        return {"FINISHED"}


class NEURAL_IK_OT_load_weights(Button, bpy.types.Operator):
    """Load what was learned: your own weights, or the ones that came along where you have none yet"""

    bl_idname = "neural_ik.load_weights"
    bl_label = "Load Weights"
    bl_options = {"REGISTER"}

    filepath: StringProperty(
        name="File", description="Another file than the usual one", subtype="FILE_PATH", options={"SKIP_SAVE"}
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Read the file."""
        path, shipped = (Path(bpy.path.abspath(self.filepath)), False) if self.filepath else memory.weights_to_load()
        try:
            self.report({"INFO"}, load_weights(path, shipped))
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


def load_weights(path: Path, shipped: bool) -> str:
    """Weights into memory; returns a sentence about them."""
    loaded = network.load(path)
    keep = memory.memory
    keep.network, keep.results = loaded, ()
    keep.network_from = "came with Neural IK" if shipped else path.name
    keep.trained = "" if shipped else memory.written(path)
    jobs.redraw()
    return f"Weights for {loaded.skeleton.count} bones ({keep.network_from})"


class NEURAL_IK_OT_run_tests(jobs.Pumped, Button, bpy.types.Operator):
    """Test the weights in memory on poses that they never saw: five tests, and the honest card"""

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
        """Find out what was never seen, then test on it, figure by figure."""
        net, poses = memory.memory.network, memory.memory.poses
        assert net is not None  # see why_not
        assert poses is not None
        return self._measure(net, poses)

    def _measure(self, net: network.Network, poses: pose_set.PoseSet) -> Generator[Progress, None, dict[str, Any]]:
        yield Progress(0, 3, "what was never seen")
        parts = suite.parts_for(net, poses)
        yield Progress(1, 3, "laying out")
        samples = prepare(poses)
        yield Progress(2, 3, "measuring")
        measured = suite.measure(net, poses, parts, samples)
        return suite.figures([measured], poses, net.meta.get("data", {}).get("split", "unknown"))

    def finish(self, context: bpy.types.Context, result: dict[str, Any]) -> str:
        """Into the panel and the text block; tests that fail are an error, so that scripts notice."""
        keep = memory.memory
        lines = suite.text(result)
        write_text(REPORT, lines)
        keep.results = tuple(
            Line(f"{test['name']}: {suite.score_text(test)} ({test['threshold']:g})", test["passed"])
            for test in result["tests"]
        )
        keep.results += tuple(Line(text) for text in _card_lines(result))
        failed = [test["name"] for test in result["tests"] if not test["passed"]]
        if failed:
            raise ValueError(f"{len(failed)} of {len(result['tests'])} tests failed: {', '.join(failed)}")
        return f"All {len(result['tests'])} tests pass; details in the text block {REPORT}"


def _card_lines(figures: dict[str, Any]) -> list[str]:
    """The card in a few lines: effector error on unseen poses, alone, refined, and what it must beat."""
    rows = [("Network", figures["holdout"]), ("+ 3 exact steps", figures.get("refined"))]
    rows += [("Nearest frame", figures["baselines"]["nearest"]), ("Ridge", figures["baselines"]["ridge"])]
    found = [(label, values["effector_mm"]) for label, values in rows if values is not None]
    lines = [f"{figures['samples']['test']} unseen poses, effector error:"]
    share = 100 / figures["body_length_mm"]
    return lines + [
        f"{label}: {mm['mean']:.1f} mm, p95 {mm['p95']:.1f}, {mm['mean'] * share:.1f} % of the body"
        for label, mm in found
    ]


class NEURAL_IK_OT_extract_data(jobs.Pumped, Button, bpy.types.Operator):
    """Sample the ticked actions of the character into memory"""

    bl_idname = "neural_ik.extract_data"
    bl_label = "Extract Data"
    bl_options = {"REGISTER"}

    actions: StringProperty(
        name="Actions",
        description="Names of the actions, one a line; empty: all that are ticked",
        options={"SKIP_SAVE"},
    )
    path: EnumProperty(
        name="Path",
        items=[
            ("auto", "Automatic", "From the curves where they say it all, else evaluated"),
            ("fast", "Fast", "From the curves only"),
            ("evaluated", "Evaluated", "Frame by frame, by Blender"),
        ],
        options={"SKIP_SAVE"},
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No character, or it is being edited."""
        return no_character(context)

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Prepare now, so that what cannot work is said at once; sample later."""
        ob = rig.find(context)
        scene: Any = context.scene
        settings = scene.neural_ik
        file: Any = bpy.data
        named = [line for line in self.actions.split("\n") if line]
        missing = [name for name in named if name not in file.actions]
        if missing:
            raise ValueError(f"no action called {', '.join(missing)}")
        if named:
            chosen = [file.actions[name] for name in named]
        else:
            moving: list[Any] = extract.moving_actions(ob)
            chosen = [action for action in moving if action.neural_ik.use]
            if moving and not chosen and not settings.nla:
                raise ValueError(f"none of the {len(moving)} actions of {ob.name} is ticked")
            if not moving and not settings.nla:
                raise ValueError(f"no actions: nothing in this file moves the bones of {ob.name}")
        options = extract.Options(
            step=settings.step,
            start=settings.first if settings.use_range else None,
            end=settings.last if settings.use_range else None,
            root_motion=settings.root_motion,
            nla=settings.nla,
            path=self.path,
        )
        tasks = {a.name: a.neural_ik.task for a in file.actions if a.neural_ik.task != "GUESS"}
        self.source = ob.name
        return extract.extract(scene, ob, chosen, options, tasks)

    def finish(self, context: bpy.types.Context, result: extract.Extraction) -> str:
        """Into memory."""
        keep = memory.memory
        keep.poses, keep.unsaved, keep.results = result.poses, True, ()
        keep.poses_from = f"extracted from {self.source}"
        for note in result.notes:
            print(f"Neural IK: {note}")
        more = f"; {len(result.notes)} notes in the console: {result.notes[0]}" if result.notes else ""
        return f"{result.poses.frames} poses of {len(result.poses.clip_names)} actions in memory{more}"


class NEURAL_IK_OT_save_data(Button, bpy.types.Operator):
    """Write the poses in memory to training_data.npz in your folder"""

    bl_idname = "neural_ik.save_data"
    bl_label = "Save to Disk"
    bl_options = {"REGISTER"}

    filepath: StringProperty(
        name="File", description="Another file than the usual one", subtype="FILE_PATH", options={"SKIP_SAVE"}
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Nothing to save."""
        return "" if memory.memory.poses is not None else "no poses in memory: extract them first"

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Write the file, whole or not at all."""
        path = Path(bpy.path.abspath(self.filepath)) if self.filepath else memory.data_path()
        poses = memory.memory.poses
        assert poses is not None  # see why_not
        try:
            pose_set.save(path, poses)
        except OSError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        memory.memory.unsaved = False
        self.report({"INFO"}, f"{poses.frames} poses saved to {path}")
        return {"FINISHED"}


class NEURAL_IK_OT_show_path(Button, bpy.types.Operator):
    """Show the exact commands that train in a terminal; they are copied and printed too"""

    bl_idname = "neural_ik.show_path"
    bl_label = "Show Full Path"
    bl_options = {"REGISTER"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Print and copy."""
        self.lines = commands()
        print("\n".join(self.lines))
        if not bpy.app.background:
            context.window_manager.clipboard = "\n".join(self.lines)
        self.report(
            {"INFO"}, "The commands were printed to the console" + ("" if bpy.app.background else " and copied")
        )
        return {"FINISHED"}

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Print, copy and show."""
        self.execute(context)
        if bpy.app.background:
            return {"FINISHED"}
        return context.window_manager.invoke_popup(self, width=700)

    def draw(self, context: bpy.types.Context) -> None:
        """The dialog."""
        column = self.layout.column(align=True)
        column.label(text="Copied: paste it into a terminal", icon="COPYDOWN")
        for line in self.lines:
            for part in wrapped(line, 100):
                column.label(text=part)


def commands() -> list[str]:
    """The terminal commands to train on what Train would use, each under a line that says what it is for."""
    path, weights = memory.data_to_load()[0], memory.weights_path()
    words = trainer.command(path, weights)
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
    """Forget all that was learned: the weights in memory and your best.npy on disk"""

    bl_idname = "neural_ik.reset_weights"
    bl_label = "Reset Weights"
    bl_options = {"REGISTER"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Nothing was learned yet."""
        known = memory.memory.network is not None or memory.weights_path().exists()
        return "" if known else "there are no weights to forget"

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask first."""
        return context.window_manager.invoke_confirm(self, event)

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Forget."""
        try:
            for path in (memory.weights_path(), state_path(memory.weights_path())):
                path.unlink(missing_ok=True)
        except OSError as error:
            self.report({"ERROR"}, f"cannot remove {path}: {error.strerror or error}")
            return {"CANCELLED"}
        keep = memory.memory
        keep.network, keep.network_from, keep.trained, keep.results, keep.curve = None, "", "", (), []
        keep.training = ""
        jobs.redraw()
        self.report({"INFO"}, "All weights of your own are forgotten")
        return {"FINISHED"}


class NEURAL_IK_OT_train(jobs.Pumped, Button, bpy.types.Operator):
    """Train on the saved poses in a process of its own; go on working meanwhile, Esc cancels"""

    bl_idname = "neural_ik.train"
    bl_label = "Train"
    bl_options = {"REGISTER"}
    interval = 0.1
    passes_events = True
    survives_undo = True

    epochs: IntProperty(
        name="Epochs", description="At most so many; 0: as the scene says", default=0, min=0, options={"SKIP_SAVE"}
    )
    time_limit: FloatProperty(
        name="Time Limit", description="Seconds of computing at most; 0: none", default=0, min=0, options={"SKIP_SAVE"}
    )

    resume: BoolProperty(
        name="Resume",
        description="Go on with the training that was cancelled, with the settings it had",
        default=False,
        options={"SKIP_SAVE"},
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No data on disk, or other data in memory."""
        if memory.memory.unsaved:
            return "the poses in memory are not on disk yet: Save to Disk first"
        if not memory.data_to_load()[0].exists():
            return f"no poses at {memory.data_path()}: extract and save them first"
        return ""

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Start the trainer and pass its epochs on."""
        epochs = self.epochs or context.scene.neural_ik.epochs
        extra = ["--no-beside"]  # the panel shows one card
        extra += ["--epochs", str(epochs)] if epochs else []
        extra += ["--time-limit", f"{self.time_limit:g}"] if self.time_limit else []
        extra += ["--resume"] if self.resume else []
        path, self.shipped = memory.data_to_load()
        self.cancel_file = Path(tempfile.gettempdir()) / f"neural_ik_cancel_{os.getpid()}_{time.time_ns()}"
        words = trainer.command(path, memory.weights_path(), extra)
        print(f"Neural IK: {trainer.quoted(words)}")
        memory.memory.curve = memory.memory.curve if self.resume else []
        memory.memory.training = "Starting"
        return self._watch(trainer.train(words, self.cancel_file))

    def _watch(
        self, training: Generator[trainer.Epoch | None, None, tuple[int, str]]
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
                keep.training = "Ended early; your weights are as they were"

    def _read(self, values: dict[str, Any], before: Progress) -> Progress:
        """Progress from the trainer's own JSON object; its last one is about the end and has no epoch."""
        if "epoch" not in values:
            return before
        error, best = values["validation_mm"], values["best_mm"]
        memory.memory.curve.append((values["share"], error))
        text = f"Epoch {values['epoch']} of {values['of']}: {error:.1f} mm, best {best:.1f} mm"
        return Progress(int(values["epoch"]), int(values["of"]), text)

    def ask_to_stop(self) -> bool:
        """The trainer ends after its epoch and keeps its best."""
        try:
            self.cancel_file.touch()
        except OSError:
            return False
        memory.memory.training = "Stopping after this epoch"
        return True

    def finish(self, context: bpy.types.Context, result: tuple[int, str]) -> str:
        """Load what was learned."""
        code, said = result
        last = [line for line in said.splitlines() if line.strip()][-3:]
        keep = memory.memory
        if code not in (0, 1, 130):
            keep.training = f"Failed: {last[-1] if last else f'exit code {code}'}"
            raise ValueError("the trainer ended: " + (" / ".join(last) or f"exit code {code}"))
        print(said)
        trained = "Trained on the shipped poses" if self.shipped else "Trained"
        text = {
            0: f"{trained}, and all tests pass",
            1: f"{trained}, but a test fails: press Run Tests",
            130: "Cancelled; Resume goes on with it",
        }[code]
        if memory.weights_path().exists():
            text += ". " + load_weights(memory.weights_path(), shipped=False)
        keep.training = text
        return text


class NEURAL_IK_OT_stop(bpy.types.Operator):
    """End what runs now, as Esc does"""

    bl_idname = "neural_ik.stop"
    bl_label = "Cancel"
    bl_options = {"INTERNAL"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Something runs."""
        return jobs.running is not None

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Leave it to the job's next tick, which knows how to end itself."""
        if jobs.running is not None:
            jobs.running.asked_to_stop = True
        return {"FINISHED"}


class NEURAL_IK_OT_add_demo_character(Button, bpy.types.Operator):
    """Add a character with a body and motion, to try everything on"""

    bl_idname = "neural_ik.add_demo_character"
    bl_label = "Add Demo Character"
    bl_options = {"REGISTER", "UNDO"}

    motion: BoolProperty(name="Motion", description="With the clips that come along, as actions", default=True)
    set_frame_rate: BoolProperty(
        name="Set Frame Rate", description="Give the scene the frame rate of the action that plays first", default=True
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Add it."""
        try:
            poses = pose_set.load(memory.SHIPPED_DATA) if self.motion else None
            character = demo.add(context, poses)
        except (SkeletonMismatch, ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        action = character.animation_data.action
        if self.set_frame_rate and action is not None:
            context.scene.render.fps = round(action[extract.FPS_KEY])
            context.scene.render.fps_base = 1.0
        count = len(poses.clip_names) if poses is not None else 0
        self.report({"INFO"}, f"{character.name} with {count} actions; press Extract Data")
        return {"FINISHED"}


_classes = (
    NEURAL_IK_OT_load_data,
    NEURAL_IK_OT_load_weights,
    NEURAL_IK_OT_run_tests,
    NEURAL_IK_OT_extract_data,
    NEURAL_IK_OT_save_data,
    NEURAL_IK_OT_show_path,
    NEURAL_IK_OT_reset_weights,
    NEURAL_IK_OT_train,
    NEURAL_IK_OT_stop,
    NEURAL_IK_OT_add_demo_character,
)


def register() -> None:
    """Register the buttons."""
    for cls in _classes:
        bpy.utils.register_class(cls)


def unregister() -> None:
    """Take them out."""
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
