# SPDX-License-Identifier: GPL-3.0-or-later
"""The button Import Mocap: it asks for files and passes them to an operator that works without freezing the window."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import bpy
from bpy.props import BoolProperty, CollectionProperty, EnumProperty, FloatProperty, IntProperty, StringProperty

from ...core.messages import counted
from ...formats import importing
from ...motion import pose_set
from ...motion.clip import UP_AXES
from ..host import jobs, memory, rig
from ..host.buttons import Button, write_text
from ..host.jobs import Progress
from . import foreign, mocap

SUFFIXES = (*importing.SUFFIXES, *foreign.SUFFIXES)
REPORT = "Neural IK Import"  # the text block
INTO = (
    ("ACTIONS", "Actions", "Make an action for every clip; without a character, also make armatures"),
    ("MEMORY", "Memory", "Add the poses to those of this character in memory, to train on"),
)
LOW_PASS = "Cutoff in Hz of a filter against jitter (6 to 10 is usual; it softens foot strikes); 0 turns it off"
PLANT = "Feet that stand stay in place, whatever the length of the legs; off: legs point exactly as in the source, and feet slide"
ROOT_BONE = (
    "Travel over the ground goes onto the root bone on the floor, where the character has one; the hips keep the rest"
)
_CLEANING = ("clean", "leave_out_faults", "level", "plant_feet", "root_bone")


class NEURAL_IK_OT_import_mocap(Button, bpy.types.Operator):
    """Carry motion (.bvh, .amc, .fbx, .glb, .vrma) onto the character: the chosen files, or all in the folder if none is chosen"""

    bl_idname = "neural_ik.import_mocap"
    bl_label = "Import Mocap"
    bl_options = {"REGISTER"}

    files: CollectionProperty(type=bpy.types.OperatorFileListElement, options={"HIDDEN", "SKIP_SAVE"})
    directory: StringProperty(subtype="DIR_PATH", options={"HIDDEN", "SKIP_SAVE"})
    filepath: StringProperty(subtype="FILE_PATH", options={"HIDDEN", "SKIP_SAVE"})
    filter_glob: StringProperty(default=";".join(f"*{suffix}" for suffix in SUFFIXES), options={"HIDDEN"})
    into: EnumProperty(
        name="Into",
        items=INTO,
        default="ACTIONS",
    )
    fps: FloatProperty(
        name="Frame Rate", description="Frames per second of the result; 0 uses the scene's", default=0, min=0, max=1000
    )
    low_pass: FloatProperty(
        name="Low-Pass",
        description=LOW_PASS,
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
    plant_feet: BoolProperty(name="Plant Feet", description=PLANT, default=True)
    root_bone: BoolProperty(name="Root Bone", description=ROOT_BONE, default=True)
    level: BoolProperty(
        name="Level",
        description="Turn a tilted floor level and take out a drift of height, where standing feet show them; the report says where",
        default=False,
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


class NEURAL_IK_OT_carry_armature(jobs.Pumped, Button, bpy.types.Operator):
    """Carry what the other selected armature shows onto the active one, as Import Mocap does with files"""

    bl_idname = "neural_ik.carry_armature"
    bl_label = "Copy Motion from Selected"
    bl_options = {"REGISTER", "UNDO"}

    source: StringProperty(
        name="From", description="Armature to carry from; empty: the other selected one", options={"SKIP_SAVE"}
    )
    first: IntProperty(name="Start", description="First frame; if both are 0, the scene's range", options={"SKIP_SAVE"})
    last: IntProperty(name="End", description="Last frame; if both are 0, the scene's range", options={"SKIP_SAVE"})
    into: EnumProperty(name="Into", items=INTO, default="ACTIONS")
    low_pass: FloatProperty(name="Low-Pass", description=LOW_PASS, default=0, min=0, max=100)
    plant_feet: BoolProperty(name="Plant Feet", description=PLANT, default=True)
    root_bone: BoolProperty(name="Root Bone", description=ROOT_BONE, default=True)

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Two armatures are needed."""
        there = [ob for ob in context.view_layer.objects if ob.type == "ARMATURE"]
        return "" if len(there) > 1 else "there is no other armature in the scene to copy motion from"

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, mocap.Imported]:
        """Sample the other armature, carry the motion and key it."""
        ob = rig.find(context)
        scene = context.scene
        source = bpy.data.objects.get(self.source) if self.source else _other_selected(context, ob)
        if source is None or source.type != "ARMATURE":
            raise ValueError(f"there is no armature called {self.source}: choose one of the scene's")
        frames = (self.first, self.last) if self.first or self.last else (scene.frame_start, scene.frame_end)
        options = importing.ImportOptions(
            fps=scene.render.fps / scene.render.fps_base,
            low_pass=self.low_pass or None,
            clean=False,
            plant_feet=self.plant_feet,
            root_bone=self.root_bone,
        )
        importing.check(options)
        self.character = ob.name
        return mocap.import_armature(context, ob, source, frames, options, self.into == "ACTIONS")

    def finish(self, context: bpy.types.Context, result: mocap.Imported) -> str:
        """As Import Mocap does."""
        return _keep(result, self.character, self.into == "MEMORY", "armature")


def _other_selected(context: bpy.types.Context, ob: bpy.types.Object) -> bpy.types.Object:
    """The armature to carry from: the other selected one, or else the only other one."""
    others = [o for o in context.view_layer.objects if o.type == "ARMATURE" and o != ob]
    chosen = [o for o in others if o.select_get()] or others
    if len(chosen) != 1:
        names = ", ".join(o.name for o in chosen[:5])
        raise ValueError(
            f"several armatures to copy from ({names}): select one of them, then click the character with Shift held"
        )
    return chosen[0]


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
    level: BoolProperty(default=False, options={"SKIP_SAVE"})
    plant_feet: BoolProperty(default=True, options={"SKIP_SAVE"})
    root_bone: BoolProperty(default=True, options={"SKIP_SAVE"})

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, mocap.Imported]:
        """Read the files, carry the motion and key it."""
        files = importing.find_files([bpy.path.abspath(path) for path in json.loads(self.paths)], SUFFIXES)
        render = context.scene.render
        options = importing.ImportOptions(
            fps=self.fps or render.fps / render.fps_base,
            low_pass=self.low_pass or None,
            up_axis=None if self.up_axis == "AUTO" else self.up_axis,
            clean=self.clean,
            leave_out_faults=self.leave_out_faults,
            level=self.level,
            plant_feet=self.plant_feet,
            root_bone=self.root_bone,
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
        return _keep(result, self.character, self.into == "MEMORY", "file")


def _keep(result: mocap.Imported, character: str, into_memory: bool, what: str) -> str:
    """Report what was imported from files or an armature, and keep the poses if they are meant for memory; returns a sentence."""
    words = f"{counted(len(result.poses), 'clip')} from {result.read} of {counted(len(result.rows), what)}"
    write_text(REPORT, [words, *result.lines()])
    keep = memory.memory
    if into_memory:
        found = list(result.poses)
        if keep.poses is not None and keep.poses.skeleton.fingerprint == found[0].skeleton.fingerprint:
            found.insert(0, keep.poses)
        elif keep.unsaved:
            raise ValueError(
                "the poses in memory belong to another character and are not on disk: Save to Disk first, then import"
            )
        source = f"imported from {counted(result.read, what)}" + (
            ", added to what was in memory" if len(found) > 1 else ""
        )
        keep.take_poses(pose_set.join(found), character, source, unsaved=True)
    jobs.redraw()
    refused = [row for row in result.rows if not row.kept]
    more = f"; {len(refused)} not taken, the first: {refused[0].reason}" if refused else ""
    return f"{words}{more}. Details in the text block {REPORT}"


_classes = (NEURAL_IK_OT_import_mocap, NEURAL_IK_OT_carry_mocap, NEURAL_IK_OT_carry_armature)


def _draw_in_menu(menu: Any, context: bpy.types.Context) -> None:
    """The line in Blender's own menus Object > Animation and Pose > Animation."""
    menu.layout.separator()
    menu.layout.operator("neural_ik.carry_armature", icon="ARMATURE_DATA")


_MENUS = ("VIEW3D_MT_object_animation",)  # Pose > Animation is this menu too


def register() -> None:
    """Register the buttons, and the line in the menus."""
    for cls in _classes:
        bpy.utils.register_class(cls)
    for name in _MENUS:
        getattr(bpy.types, name).append(_draw_in_menu)


def unregister() -> None:
    """Unregister them."""
    for name in _MENUS:
        getattr(bpy.types, name).remove(_draw_in_menu)
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
