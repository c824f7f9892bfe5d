# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that are saved: the folder in the preferences, options of actions, and how a scene extracts and trains."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, PointerProperty, StringProperty

from ...motion import characters
from ...motion.tasks import TASKS, guess_task
from .memory import folder, memory

# Blender keeps no reference to the strings of a dynamic enum, so every list that can be needed is kept here.
_GUESSED = {
    guess: [("GUESS", f"{guess} (guessed)", "Guess from the action's name")]
    + [(task, task, f"This action is: {task}") for task in TASKS]
    for guess in TASKS
}


def _task_items(self: bpy.types.PropertyGroup, context: bpy.types.Context | None) -> list[tuple[str, str, str]]:
    return _GUESSED[guess_task(self.id_data.name)]


class NEURAL_IK_Action(bpy.types.PropertyGroup):
    """Settings of an action."""

    use: BoolProperty(name="Extract", description="Include this action when extracting", default=True)
    task: EnumProperty(
        name="Task", description="Kind of motion, which is one of the network's inputs", items=_task_items
    )
    weight: FloatProperty(
        name="Weight",
        description="How much Fill and Continue take after this action: 1 as after all others, 0 not at all",
        default=1.0,
        min=0.0,
        max=1.0,
        subtype="FACTOR",
    )


class NEURAL_IK_Settings(bpy.types.PropertyGroup):
    """Settings of a scene."""

    action_index: IntProperty(name="Active Action", options={"SKIP_SAVE"})
    step: FloatProperty(
        name="Step", description="Frames from one sample to the next", default=1, min=0.01, soft_min=1, soft_max=10
    )
    use_range: BoolProperty(name="Range", description="Only use frames between First and Last of every action")
    first: IntProperty(name="First", description="First frame to extract", default=1)
    last: IntProperty(name="Last", description="Last frame to extract", default=250)
    root_motion: BoolProperty(
        name="Root Motion",
        description="Keep the travel over the ground. Off: the Hips stay above their rest position",
        default=True,
    )
    nla: BoolProperty(
        name="NLA Strips", description="Also extract the strips of the character's NLA tracks, as the tracks play them"
    )
    timeline: BoolProperty(
        name="Timeline",
        description="In place of the actions, extract the scene's frames as they are shown, with NLA tracks and layers",
    )
    epochs: IntProperty(
        name="Epochs", description="Maximum epochs; 0 lets the trainer choose", default=0, min=0, max=100000
    )


class NEURAL_IK_Preferences(bpy.types.AddonPreferences):
    """The extension's page in the preferences."""

    bl_idname = __package__  # set to the extension's own name before it is registered

    folder: StringProperty(
        name="Folder",
        description="Where poses and weights are saved. Empty: a folder of your Blender user files that upgrades keep",
        subtype="DIR_PATH",
    )

    def draw(self, context: bpy.types.Context) -> None:
        """The folder, and the characters in it."""
        layout = self.layout
        layout.prop(self, "folder")
        layout.label(text=f"In use: {folder()}", icon="FILE_FOLDER")
        if not self.folder:
            layout.label(text="Uninstalling deletes this folder: choose one of your own to keep it", icon="INFO")
        found, problems = characters.stored(folder())
        for character in found:
            layout.label(text=f"{character.name} ({character.folder.name})", icon="ARMATURE_DATA")
        for problem in problems:
            layout.label(text=problem, icon="ERROR")


_classes = (NEURAL_IK_Action, NEURAL_IK_Settings, NEURAL_IK_Preferences)


def register() -> None:
    """Register the settings."""
    NEURAL_IK_Preferences.bl_idname = memory.package
    for cls in _classes:
        bpy.utils.register_class(cls)
    types: Any = bpy.types
    types.Action.neural_ik = PointerProperty(type=NEURAL_IK_Action)
    types.Scene.neural_ik = PointerProperty(type=NEURAL_IK_Settings)


def unregister() -> None:
    """Unregister them."""
    types: Any = bpy.types
    del types.Scene.neural_ik
    del types.Action.neural_ik
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
