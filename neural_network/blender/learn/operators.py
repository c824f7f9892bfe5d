# SPDX-License-Identifier: GPL-3.0-or-later
"""The buttons for weights: load, test, train and reset them. Each reads its inputs, calls one function and reports."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import bpy
from bpy.props import BoolProperty, StringProperty

from ...core.messages import show
from ...ik import network, opinion
from ...ik import quality as suite
from ...ik.context import prepare
from ...learning.card import summary, tests_from_json
from ...learning.loop import state_path
from ...live.kept_file import contents
from ...motion import pose_set
from ..host import characters, jobs, memory
from ..host.buttons import Button
from ..host.jobs import Progress
from . import card, trainer


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
    choose: BoolProperty(name="Choose", description="Ask for the file", options={"HIDDEN", "SKIP_SAVE"})
    filter_glob: StringProperty(default="*.npy;*.npz", options={"HIDDEN", "SKIP_SAVE"})

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask for a file where one is to be chosen."""
        if not self.choose or bpy.app.background:
            return self.execute(context)
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}

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
        card.keep(result)
        failed = suite.failed(result)
        if failed:
            raise ValueError(f"{len(failed)} of {len(result['tests'])} tests failed: {', '.join(failed)}")
        return f"{opinion.of(result).line}; {summary(tests_from_json(result['tests']))}, details in the text block {card.REPORT}"


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
    words = trainer.command(files.poses, files.character.weights(characters.IK), init=files.init)
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


def consequence(context: bpy.types.Context) -> str:
    """What Reset Weights would delete now, in a sentence."""
    subject = characters.drawn(context)
    weights = characters.kept(subject).weights(characters.IK) if subject is not None else None
    if subject is None or weights is None or not weights.exists():
        return "The weights in memory are forgotten. No file is deleted"
    return f"Deletes {weights.name} of {subject.name}, of {memory.written(weights)}. Its poses and actions stay"


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
        """Say what would be deleted, and ask."""
        return context.window_manager.invoke_confirm(
            self, event, title="Reset Weights", message=consequence(context), confirm_text="Reset", icon="WARNING"
        )

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


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_load_weights,
        NEURAL_IK_OT_run_tests,
        NEURAL_IK_OT_show_path,
        NEURAL_IK_OT_reset_weights,
    )
)
