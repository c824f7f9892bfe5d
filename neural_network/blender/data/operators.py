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
from . import demo, extract


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
        ob = rig.find(context)
        scene: Any = context.scene
        settings = scene.neural_ik
        file: Any = bpy.data
        options = extract.Options(
            step=settings.step,
            start=settings.first if settings.use_range else None,
            end=settings.last if settings.use_range else None,
            root_motion=settings.root_motion,
            nla=settings.nla,
            timeline=settings.timeline and not self.actions,
            path=self.path,
        )
        tasks = {a.name: a.neural_ik.task for a in file.actions if a.neural_ik.task != "GUESS"}
        self.source = ob.name
        return extract.extract(scene, ob, self._chosen(ob, settings.nla or options.timeline), options, tasks)

    def _chosen(self, ob: bpy.types.Object, more: bool) -> list[Any]:
        """The actions to extract. Raises ValueError, in words, where there is none and nothing ``more`` to extract."""
        file: Any = bpy.data
        named = [line for line in self.actions.split("\n") if line]
        missing = [name for name in named if name not in file.actions]
        if missing:
            raise ValueError(f"no action called {', '.join(missing)}")
        if named:
            return [file.actions[name] for name in named]
        moving: list[Any] = extract.moving_actions(ob)
        chosen = [action for action in moving if action.neural_ik.use]
        if moving and not chosen and not more:
            raise ValueError(f"nothing is ticked: {ob.name} has {counted(len(moving), 'action')}; tick at least one")
        if not moving and not more:
            raise ValueError(f"no actions: nothing in this file moves the bones of {ob.name}")
        return chosen

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
            character = demo.add(context, poses)
        except (SkeletonMismatch, ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        action = character.animation_data.action
        if self.set_frame_rate and action is not None:
            context.scene.render.fps = round(action[extract.FPS_KEY])
            context.scene.render.fps_base = 1.0
        count = len(poses.clip_names) if poses is not None else 0
        self.report({"INFO"}, f"{character.name} with {counted(count, 'action')}; press Extract Data")
        return {"FINISHED"}


_classes = (
    NEURAL_IK_OT_load_data,
    NEURAL_IK_OT_extract_data,
    NEURAL_IK_OT_save_data,
    NEURAL_IK_OT_add_demo_character,
)


def register() -> None:
    """Register the buttons."""
    for cls in _classes:
        bpy.utils.register_class(cls)


def unregister() -> None:
    """Unregister them."""
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
