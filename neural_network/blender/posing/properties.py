# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Live IK: on the collection that holds the targets of one character, and on each target.

They lie in the file, so undo, redo, saving and loading carry them.
"""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, PointerProperty, StringProperty

from ...motion.tasks import TASKS

BAKE_INTO = [
    ("ACTION", "The Action", "Keys in the assigned action, in place of those in the range"),
    ("NEW", "A Copy", "Keys in a copy of the assigned action, which is then assigned"),
    ("NLA", "An NLA Track", "An action of its own on a track above the others"),
]
HOLD_FEET = "Feet whose targets are on do not slide while the action has them stand"
_TASK_ITEMS = [(task, task.capitalize(), f"The motion is: {task}") for task in TASKS]


def _changed(self: Any, context: bpy.types.Context | None) -> None:
    """Have Blender update, so that the body is solved anew."""
    from . import state

    state.changed(self.id_data)


def _other_limits(self: Any, context: bpy.types.Context | None) -> None:
    from . import live_ik

    live_ik.remake(self.id_data)


def _is_armature(self: Any, ob: bpy.types.Object) -> bool:
    return ob.type == "ARMATURE"


class NEURAL_IK_LiveTarget(bpy.types.PropertyGroup):
    """What a target asks of the body."""

    kind: EnumProperty(
        name="Kind",
        items=[
            ("NONE", "None", "No target of Live IK"),
            ("EFFECTOR", "Effector", "A hand, a foot or the head; on a creature, what was picked"),
            ("ROOT", "Hips", "The Hips, or a creature's body"),
            ("HINT", "Hint", "Where an elbow or a knee points"),
        ],
    )
    bone: StringProperty(name="Bone", description="The bone that it stands for, by its role on the reference rig")
    use: BoolProperty(
        name="On", description="The body goes to this target; off: the body moves as it likes here", update=_changed
    )
    weight: FloatProperty(
        name="Position", description="1: exactly there; 0: free", default=1, min=0, max=1, update=_changed
    )
    turn_weight: FloatProperty(
        name="Rotation", description="1: turned exactly so; 0: free", default=1, min=0, max=1, update=_changed
    )
    pin: EnumProperty(
        name="Pin",
        description="Hold it on the ground, where it stands in the world",
        items=[
            ("NONE", "Not Pinned", "Wherever the target is"),
            ("PLANE", "Floor", "On the floor at the height set for the character"),
            ("RAY", "Meshes", "On the meshes of the scene below it"),
        ],
        update=_changed,
    )


class NEURAL_IK_Live(bpy.types.PropertyGroup):
    """What Live IK does with one character."""

    armature: PointerProperty(type=bpy.types.Object, name="Character", poll=_is_armature)
    live: BoolProperty(name="Live", description="These are the targets of a character that is being moved")
    mode: EnumProperty(
        name="Over the Action",
        items=[
            ("OFFSET", "On Top", "Targets ride on the animation and change it by as much as you moved them"),
            ("INSTEAD", "Instead", "Targets stay where they are, whatever the animation does"),
        ],
        update=_changed,
    )
    strength: FloatProperty(
        name="Strength",
        description="0: the pose without Live IK, 1: the solved one",
        default=1,
        min=0,
        max=1,
        subtype="FACTOR",
        update=_changed,
    )
    touch: BoolProperty(
        name="On When Moved",
        description="A target that is off goes with the body, and is switched on when you move it",
        default=True,
    )
    selected_only: BoolProperty(
        name="Selected Bones Only", description="Move only the bones that are selected", update=_changed
    )
    limits: BoolProperty(name="Joint Limits", description="Never bend a joint further than it goes", update=_changed)
    limits_from: EnumProperty(
        name="Limits",
        items=[
            ("LEARNED", "Learned", "Anatomical for the demo's rig, else as far as the learned poses went"),
            ("OWN", "The Rig's", "The IK limits and locks of the bones (Bone properties, Inverse Kinematics)"),
        ],
        update=_other_limits,
    )
    motion: EnumProperty(
        name="Motion",
        items=[
            ("AUTO", "From the Action", "Phase from the timeline, task from the action"),
            ("MANUAL", "By Hand", "As set here"),
        ],
        update=_changed,
    )
    phase: FloatProperty(
        name="Phase", description="How far through the motion", min=0, max=1, subtype="FACTOR", update=_changed
    )
    task: EnumProperty(name="Task", description="What kind of motion it is", items=_TASK_ITEMS, update=_changed)
    ground: FloatProperty(
        name="Floor", description="Height of the floor in the world", subtype="DISTANCE", update=_changed
    )
    bake_into: EnumProperty(name="Into", items=BAKE_INTO)
    bake_step: IntProperty(name="Step", description="Frames from one key to the next", default=1, min=1)
    hold_feet: BoolProperty(name="Hold Standing Feet", description=HOLD_FEET)
    mode_before: StringProperty(description="The character's mode before Live IK")
    lead: StringProperty(description="The target that was selected first")


_classes = (NEURAL_IK_LiveTarget, NEURAL_IK_Live)


def register() -> None:
    """Register the settings."""
    for cls in _classes:
        bpy.utils.register_class(cls)
    types: Any = bpy.types
    types.Object.neural_ik_target = PointerProperty(type=NEURAL_IK_LiveTarget)
    types.Collection.neural_ik_live = PointerProperty(type=NEURAL_IK_Live)


def unregister() -> None:
    """Take them out."""
    types: Any = bpy.types
    del types.Collection.neural_ik_live
    del types.Object.neural_ik_target
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
