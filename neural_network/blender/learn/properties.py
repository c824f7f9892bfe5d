# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings: the folder in the preferences, the ticks on actions, how to extract and train."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, PointerProperty, StringProperty

from ...motion.tasks import TASKS, guess_task
from ..host.memory import folder, memory

# Blender keeps no reference to the strings of a dynamic enum, so every list that can be needed lives here.
_GUESSED = {
    guess: [("GUESS", f"{guess} (guessed)", "As the action's name suggests")]
    + [(task, task, f"This action is: {task}") for task in TASKS]
    for guess in TASKS
}


def _task_items(self: bpy.types.PropertyGroup, context: bpy.types.Context | None) -> list[tuple[str, str, str]]:
    return _GUESSED[guess_task(self.id_data.name)]


class NEURAL_IK_Action(bpy.types.PropertyGroup):
    """What the extension keeps on every action."""

    use: BoolProperty(name="Extract", description="Take this action when extracting", default=True)
    task: EnumProperty(name="Task", description="What kind of motion this is; the network is told", items=_task_items)


class NEURAL_IK_Settings(bpy.types.PropertyGroup):
    """What the extension keeps in a scene."""

    action_index: IntProperty(name="Active Action", options={"SKIP_SAVE"})
    step: FloatProperty(
        name="Step", description="Frames from one sample to the next", default=1, min=0.01, soft_min=1, soft_max=10
    )
    use_range: BoolProperty(name="Range", description="Take only frames between First and Last of every action")
    first: IntProperty(name="First", description="First frame that is taken", default=1)
    last: IntProperty(name="Last", description="Last frame that is taken", default=250)
    root_motion: BoolProperty(
        name="Root Motion",
        description="Keep the travel over the ground; else the Hips stay above their rest place",
        default=True,
    )
    nla: BoolProperty(
        name="NLA Strips", description="Take the strips of the character's NLA tracks too, as the tracks play them"
    )
    epochs: IntProperty(
        name="Epochs", description="Epochs at most; 0: as many as the trainer finds right", default=0, min=0, max=100000
    )


class NEURAL_IK_Preferences(bpy.types.AddonPreferences):
    """The extension's page in the preferences."""

    bl_idname = __package__  # set to the extension's own name before it is registered

    folder: StringProperty(
        name="Folder",
        description="Where poses and weights are kept. Empty: one of your Blender user files that outlives upgrades",
        subtype="DIR_PATH",
    )

    def draw(self, context: bpy.types.Context) -> None:
        """The page."""
        self.layout.prop(self, "folder")
        self.layout.label(text=f"In use: {folder()}", icon="FILE_FOLDER")


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
    """Take them out."""
    types: Any = bpy.types
    del types.Scene.neural_ik
    del types.Action.neural_ik
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
