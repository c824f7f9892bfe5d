# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of Live IK: on the collection that holds the targets of a character, and on each target.

They are stored in the .blend file, so undo, redo, saving and loading include them. Never rename a property: files would
lose its value.
"""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, PointerProperty, StringProperty

from ...motion.tasks import TASKS
from ..host import registering

BAKE_INTO = [
    ("ACTION", "Current Action", "Replace the keys of the assigned action within the range"),
    ("NEW", "New Action", "Write to a copy of the assigned action, and assign the copy"),
    ("NLA", "NLA Track", "Write to a new action, on an NLA track above all others"),
]
HOLD_FEET = "Keep feet whose targets are on from sliding while they are planted in the action"
MODES = [
    ("OFFSET", "Add to Action", "Targets move along with the animation and change it by as much as you moved them"),
    ("INSTEAD", "Replace Action", "Targets stay where they are, whatever the animation does"),
]
_TASK_ITEMS = [(task, task.capitalize(), f"Solve for {task} motion") for task in TASKS]


def _changed(self: Any, context: bpy.types.Context | None) -> None:
    """Solve again at Blender's next update."""
    from . import state

    state.mark_changed(self.id_data)


def _switched(self: Any, context: bpy.types.Context | None) -> None:
    """Show a target of another bone while it is on, and solve again. Not in an update of Blender: hiding in one can crash it."""
    from . import state

    if self.kind in state.BESIDE:
        self.id_data.hide_viewport = not self.use
    state.mark_changed(self.id_data)


def _rebuild(self: Any, context: bpy.types.Context | None) -> None:
    from . import live_ik

    live_ik.rebuild(self.id_data)


def _is_armature(self: Any, ob: bpy.types.Object) -> bool:
    return ob.type == "ARMATURE"


class NEURAL_IK_LiveTarget(bpy.types.PropertyGroup):
    """The settings of a target."""

    kind: EnumProperty(
        name="Kind",
        items=[
            ("NONE", "None", "Not a target of Live IK"),
            ("EFFECTOR", "Effector", "A hand, a foot or the head, or an effector of a creature"),
            ("ROOT", "Hips", "The hips, or the body bone of a creature"),
            ("HINT", "Hint", "The direction of an elbow or a knee"),
            ("CHEST", "Chest", "Where the chest is, as far as hands, feet and head let it"),
            ("LOOK", "Look At", "What the head looks at, unless its own target turns it"),
        ],
    )
    bone: StringProperty(name="Bone", description="Role of the target's bone on the reference rig")
    use: BoolProperty(
        name="On", description="Move the body to this target. Off: leave this limb free", update=_switched
    )
    weight: FloatProperty(
        name="Position",
        description="How closely the bone's position matches the target: 1 is exact, 0 is free",
        default=1,
        min=0,
        max=1,
        update=_changed,
    )
    turn_weight: FloatProperty(
        name="Rotation",
        description="How closely the bone's rotation matches the target: 1 is exact, 0 is free",
        default=1,
        min=0,
        max=1,
        update=_changed,
    )
    turned: BoolProperty(description="It was turned since it was switched on, so the bone turns with it")
    pin: EnumProperty(
        name="Pin",
        description="Keep the target on the ground, fixed in the world",
        items=[
            ("NONE", "Not Pinned", "Use the target's own height", "UNPINNED", 0),
            ("PLANE", "Floor", "Keep it on a plane at the character's floor height", "PINNED", 1),
            ("RAY", "Meshes", "Keep it on the meshes below it", "MESH_GRID", 2),
        ],
        update=_changed,
    )


class NEURAL_IK_Live(bpy.types.PropertyGroup):
    """The Live IK settings of a character."""

    armature: PointerProperty(type=bpy.types.Object, name="Character", poll=_is_armature)
    live: BoolProperty(
        name="LiveCharacter", description="Whether this collection holds the targets of a character under Live IK"
    )
    mode: EnumProperty(
        name="Animation", description="How Live IK combines with the action", items=MODES, update=_changed
    )
    strength: FloatProperty(
        name="Strength",
        description="Blend between the pose without Live IK (0) and the solved pose (1)",
        default=1,
        min=0,
        max=1,
        subtype="FACTOR",
        update=_changed,
    )
    touch: BoolProperty(
        name="Switch On When Moved",
        description="Switch a target on when you move it. Targets that are off move with the body",
        default=True,
    )
    selected_only: BoolProperty(name="Selected Bones Only", description="Move only selected bones", update=_changed)
    limits: BoolProperty(name="Joint Limits", description="Keep joints within their limits", update=_changed)
    limits_from: EnumProperty(
        name="Limits",
        description="Where the joint limits come from",
        items=[
            ("LEARNED", "Learned", "The range of the training poses; on the demo rig, anatomical limits"),
            ("OWN", "Bone Settings", "The IK limits and locks in the Bone properties, under Inverse Kinematics"),
        ],
        update=_rebuild,
    )
    posing: EnumProperty(
        name="Posing",
        description="How the body follows the targets",
        items=[
            (
                "NATURAL",
                "Natural",
                "As people change from pose to pose: the hips follow, the body keeps its balance and stays above the floor."
                " For people; other characters use Learned",
            ),
            ("LEARNED", "Learned", "As the loaded weights have learned from this character's motion; faster"),
        ],
        update=_rebuild,
    )
    balance: BoolProperty(
        name="Keep Balance",
        description="Keep the centre of mass over what the body stands on, as far as the targets allow",
        default=True,
        update=_changed,
    )
    solid: BoolProperty(
        name="Keep Out of Floor and Body",
        description="Keep the body above the floor, and hands and legs out of the rest of the body, as far as the targets allow",
        default=True,
        update=_changed,
    )
    motion: EnumProperty(
        name="Motion",
        description="Where the phase and the task come from",
        items=[
            ("AUTO", "From Action", "Take the phase from the timeline and the task from the action"),
            ("MANUAL", "Manual", "Set the phase and the task here"),
        ],
        update=_changed,
    )
    phase: FloatProperty(
        name="Phase",
        description="Position within the motion, from start to end",
        min=0,
        max=1,
        subtype="FACTOR",
        update=_changed,
    )
    task: EnumProperty(name="Task", description="The kind of motion", items=_TASK_ITEMS, update=_changed)
    ground: FloatProperty(
        name="Floor", description="Height of the floor in world space", subtype="DISTANCE", update=_changed
    )
    bake_into: EnumProperty(name="Bake To", description="Where the keys are written", items=BAKE_INTO)
    bake_step: IntProperty(name="Step", description="Number of frames from one key to the next", default=1, min=1)
    hold_feet: BoolProperty(name="Lock Planted Feet", description=HOLD_FEET)
    mode_before: StringProperty(description="The character's mode before Live IK")


register, unregister = registering.settings(
    NEURAL_IK_LiveTarget,
    NEURAL_IK_Live,
    on={"Object.neural_ik_target": NEURAL_IK_LiveTarget, "Collection.neural_ik_live": NEURAL_IK_Live},
)
