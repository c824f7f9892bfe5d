# SPDX-License-Identifier: GPL-3.0-or-later
"""The buttons for poses: load them, extract them from actions, save them, and add a character to try everything on."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, StringProperty

from ...core.messages import counted, show
from ...core.skeleton import SkeletonMismatch
from ...motion import pose_set
from ..host import characters, jobs, memory, rig
from ..host.buttons import Button, no_character
from ..host.jobs import Progress
from . import chosen, demo, extract


class NEURAL_IK_OT_load_data(Button, bpy.types.Operator):
    """Load the character's saved poses into memory, or the ones that came with Neural IK if it has none"""

    bl_idname = "neural_ik.load_data"
    bl_label = "Load Saved Data"
    bl_options = {"REGISTER"}

    filepath: StringProperty(
        name="File",
        description="A file to load in place of the character's own",
        subtype="FILE_PATH",
        options={"SKIP_SAVE"},
    )
    choose: BoolProperty(name="Choose", description="Ask for the file", options={"HIDDEN", "SKIP_SAVE"})
    filter_glob: StringProperty(default="*.npz", options={"HIDDEN", "SKIP_SAVE"})

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Ask for a file where one is to be chosen."""
        if not self.choose or bpy.app.background:
            return self.execute(context)
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Read the file."""
        note = ""
        try:
            if self.filepath:
                path = Path(bpy.path.abspath(self.filepath))
                poses = pose_set.load(path)
                name = characters.name_for(poses.skeleton, context, path.stem)
                source = f"{path.name}, {memory.written(path)}"
            else:
                found = characters.poses_to_load(characters.active_object(context))
                poses, note = found.content, found.note
                name = characters.name_for(poses.skeleton, context, found.whose or characters.BUILT_IN)
                source = found.source if found.shipped else f"{found.source}, {memory.written(found.path)}"
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        memory.memory.take_poses(poses, name, source, note)
        jobs.redraw()
        text = f"{counted(poses.frames, 'pose')} of {counted(len(poses.clip_names), 'action')} ({source})"
        self.report({"WARNING"} if note else {"INFO"}, f"{text}. {note}" if note else text)
        return {"FINISHED"}


class NEURAL_IK_OT_extract_data(jobs.Pumped, Button, bpy.types.Operator):
    """Sample the ticked actions of the character into memory"""

    bl_idname = "neural_ik.extract_data"
    bl_label = "Extract Data"
    bl_options = {"REGISTER"}

    actions: StringProperty(
        name="Actions",
        description="Names of the actions, one per line; empty uses all that are ticked",
        options={"SKIP_SAVE"},
    )
    path: EnumProperty(
        name="Path",
        items=[
            ("auto", "Automatic", "Read the curves where that is exact, else evaluate"),
            ("fast", "Fast", "Read the curves only"),
            ("evaluated", "Evaluated", "Let Blender evaluate every frame"),
        ],
        options={"SKIP_SAVE"},
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No character, or it is being edited."""
        return no_character(context)

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Prepare now, so that what cannot work is reported at once; sample later."""
        self.source = rig.find(context).name
        return chosen.extraction(context, self.actions, self.path)

    def finish(self, context: bpy.types.Context, result: extract.Extraction) -> str:
        """Hold the poses in memory."""
        memory.memory.take_poses(result.poses, self.source, f"extracted from {self.source}", unsaved=True)
        for note in result.notes:
            show(f"Neural IK: {note}")
        more = f"; {counted(len(result.notes), 'note')} in the console: {result.notes[0]}" if result.notes else ""
        return f"{counted(result.poses.frames, 'pose')} of {counted(len(result.poses.clip_names), 'action')} in memory{more}"


class NEURAL_IK_OT_save_data(Button, bpy.types.Operator):
    """Write the poses in memory to the folder of the character they belong to"""

    bl_idname = "neural_ik.save_data"
    bl_label = "Save to Disk"
    bl_options = {"REGISTER"}

    filepath: StringProperty(
        name="File",
        description="A file to write in place of the character's own",
        subtype="FILE_PATH",
        options={"SKIP_SAVE"},
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Nothing to save."""
        return "" if memory.memory.poses is not None else "no poses in memory: extract them first"

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Write the file, whole or not at all."""
        keep = memory.memory
        poses = keep.poses
        assert poses is not None  # see why_not
        shared = ""
        try:
            if self.filepath:
                path = Path(bpy.path.abspath(self.filepath))
            else:
                character = characters.keep_poses_of(poses.skeleton, context, keep.poses_name)
                path = character.poses
                if keep.poses_name not in ("", character.name):
                    shared = f", where {character.name} is kept, which has the same rig"
            pose_set.save(path, poses)
        except OSError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        keep.unsaved = False
        self.report({"INFO"}, f"{counted(poses.frames, 'pose')} saved to {path}{shared}")
        return {"FINISHED"}


class NEURAL_IK_OT_add_demo_character(Button, bpy.types.Operator):
    """Add a character with a body and motion, to try everything on"""

    bl_idname = "neural_ik.add_demo_character"
    bl_label = "Add Demo Character"
    bl_options = {"REGISTER", "UNDO"}

    motion: BoolProperty(name="Motion", description="Add the clips that came with Neural IK, as actions", default=True)
    set_frame_rate: BoolProperty(
        name="Set Frame Rate",
        description="Set the scene's frame rate to that of the action that plays first",
        default=True,
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Add it."""
        try:
            poses = pose_set.load(memory.SHIPPED_DATA) if self.motion else None
            beside = demo.free_place(context)
            character = demo.add(context, poses)
            character.location.x = beside
        except (SkeletonMismatch, ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        action = character.animation_data.action
        if self.set_frame_rate and action is not None:
            context.scene.render.fps = round(action[extract.FPS_KEY])
            context.scene.render.fps_base = 1.0
        frame(context, character)
        count = len(poses.clip_names) if poses is not None else 0
        self.report(
            {"INFO"}, f"{character.name} with {counted(count, 'action')}: press Live IK, or Learn from My Actions"
        )
        return {"FINISHED"}


def frame(context: bpy.types.Context, ob: bpy.types.Object) -> None:
    """Turn the 3D Viewport that the button is in to ``ob``, so that all of it is seen; nothing in a script."""
    area = context.area
    if bpy.app.background or area is None or area.type != "VIEW_3D":
        return
    region = next(r for r in area.regions if r.type == "WINDOW")
    with context.temp_override(area=area, region=region, selected_objects=[ob], active_object=ob):
        bpy.ops.view3d.view_selected()


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_load_data,
        NEURAL_IK_OT_extract_data,
        NEURAL_IK_OT_save_data,
        NEURAL_IK_OT_add_demo_character,
    )
)
