# SPDX-License-Identifier: GPL-3.0-or-later
"""The button Import Mocap: it asks for files and passes them to an operator that works without freezing the window."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import bpy
from bpy.props import BoolProperty, CollectionProperty, EnumProperty, FloatProperty, StringProperty

from ...core.messages import counted
from ...formats import importing
from ...motion import pose_set
from ...motion.clip import UP_AXES
from ..host import jobs, memory, rig
from ..host.buttons import Button, write_text
from ..host.jobs import Progress
from . import mocap

REPORT = "Neural IK Import"  # the text block
_CLEANING = ("clean", "leave_out_faults")


class NEURAL_IK_OT_import_mocap(Button, bpy.types.Operator):
    """Carry motion capture (.bvh, .amc) onto the character: the chosen files, or all in the folder if none is chosen"""

    bl_idname = "neural_ik.import_mocap"
    bl_label = "Import Mocap"
    bl_options = {"REGISTER"}

    files: CollectionProperty(type=bpy.types.OperatorFileListElement, options={"HIDDEN", "SKIP_SAVE"})
    directory: StringProperty(subtype="DIR_PATH", options={"HIDDEN", "SKIP_SAVE"})
    filepath: StringProperty(subtype="FILE_PATH", options={"HIDDEN", "SKIP_SAVE"})
    filter_glob: StringProperty(default="*.bvh;*.amc", options={"HIDDEN"})
    into: EnumProperty(
        name="Into",
        items=(
            ("ACTIONS", "Actions", "Make an action for every clip; without a character, also make armatures"),
            ("MEMORY", "Memory", "Add the poses to those of this character in memory, to train on"),
        ),
        default="ACTIONS",
    )
    fps: FloatProperty(
        name="Frame Rate", description="Frames per second of the result; 0 uses the scene's", default=0, min=0, max=1000
    )
    low_pass: FloatProperty(
        name="Low-Pass",
        description="Cutoff in Hz of a filter against jitter (6 to 10 is usual; it softens foot strikes); 0 turns it off",
        default=0,
        min=0,
        max=100,
    )
    up_axis: EnumProperty(
        name="Up",
        items=(
            ("AUTO", "Automatic", "Detect it from the motion"),
            *((axis, axis, f"{axis} is up") for axis in UP_AXES),
        ),
        default="AUTO",
    )
    clean: BoolProperty(
        name="Clean", description="Remove inserted T-poses, frozen starts and jumps of the capture", default=True
    )
    leave_out_faults: BoolProperty(
        name="Leave Out Faults",
        description="Leave out frames with faults of the capture: feet turned around, bones that turn over between frames",
        default=False,
    )

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask for files."""
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Pass the files to the operator that does the work."""
        names = [file.name for file in self.files if file.name]
        paths = [str(Path(self.directory) / name) for name in names] or [self.filepath or self.directory]
        call = "EXEC_DEFAULT" if bpy.app.background or context.window is None else "INVOKE_DEFAULT"
        told = {name: getattr(self, name) for name in ("into", "fps", "low_pass", "up_axis", *_CLEANING)}
        ops: Any = bpy.ops
        try:
            return set(ops.neural_ik.carry_mocap(call, paths=json.dumps(paths), **told))
        except RuntimeError as error:  # an error that the other operator reports
            self.report({"ERROR"}, str(error).strip().removeprefix("Error: "))
            return {"CANCELLED"}


class NEURAL_IK_OT_carry_mocap(jobs.Pumped, bpy.types.Operator):
    """The work of Import Mocap"""

    bl_idname = "neural_ik.carry_mocap"
    bl_label = "Import Mocap"
    bl_options = {"INTERNAL", "UNDO"}

    paths: StringProperty(description="JSON list of files and folders", options={"SKIP_SAVE"})
    into: StringProperty(default="ACTIONS", options={"SKIP_SAVE"})
    fps: FloatProperty(default=0, options={"SKIP_SAVE"})
    low_pass: FloatProperty(default=0, options={"SKIP_SAVE"})
    up_axis: StringProperty(default="AUTO", options={"SKIP_SAVE"})
    clean: BoolProperty(default=True, options={"SKIP_SAVE"})
    leave_out_faults: BoolProperty(default=False, options={"SKIP_SAVE"})

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, mocap.Imported]:
        """Read the files, carry the motion and key it."""
        files = importing.find_files([bpy.path.abspath(path) for path in json.loads(self.paths)])
        render = context.scene.render
        options = importing.ImportOptions(
            fps=self.fps or render.fps / render.fps_base,
            low_pass=self.low_pass or None,
            up_axis=None if self.up_axis == "AUTO" else self.up_axis,
            clean=self.clean,
            leave_out_faults=self.leave_out_faults,
        )
        importing.check(options)
        there = any(ob.type == "ARMATURE" for ob in context.view_layer.objects)
        ob = rig.find(context) if there else None
        if ob is None and self.into == "MEMORY":
            raise ValueError("no character to carry the motion onto: select its armature, or import as actions")
        self.character = ob.name if ob is not None else ""
        return mocap.import_files(context, ob, files, options, self.into == "ACTIONS")

    def finish(self, context: bpy.types.Context, result: mocap.Imported) -> str:
        """Report, and keep the poses if they are meant for memory."""
        words = f"{counted(len(result.poses), 'clip')} from {result.read} of {counted(len(result.rows), 'file')}"
        write_text(REPORT, [words, *result.lines()])
        keep = memory.memory
        if self.into == "MEMORY":
            found = list(result.poses)
            if keep.poses is not None and keep.poses.skeleton.fingerprint == found[0].skeleton.fingerprint:
                found.insert(0, keep.poses)
            elif keep.unsaved:
                raise ValueError(
                    "the poses in memory belong to another character and are not on disk: Save to Disk first, then import"
                )
            source = f"imported from {counted(result.read, 'file')}" + (
                ", added to what was in memory" if len(found) > 1 else ""
            )
            keep.take_poses(pose_set.join(found), self.character, source, unsaved=True)
        jobs.redraw()
        refused = [row for row in result.rows if not row.kept]
        more = f"; {len(refused)} not taken, the first: {refused[0].reason}" if refused else ""
        return f"{words}{more}. Details in the text block {REPORT}"


_classes = (NEURAL_IK_OT_import_mocap, NEURAL_IK_OT_carry_mocap)


def register() -> None:
    """Register the button."""
    for cls in _classes:
        bpy.utils.register_class(cls)


def unregister() -> None:
    """Unregister it."""
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
