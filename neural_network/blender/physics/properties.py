# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Make Physical, stored on the armature object."""

from __future__ import annotations

import bpy
from bpy.props import EnumProperty, PointerProperty

from ..host import registering


class NEURAL_IK_PhysicsSettings(bpy.types.PropertyGroup):
    """What of one armature object's motion is weighed, and on which ground."""

    frames: EnumProperty(
        name="Frames",
        description="Which frames are weighed and mended",
        items=(
            ("ACTION", "Whole Action", "From the first to the last key of the current action"),
            ("SCENE", "Scene Range", "The frame range of the scene, or its preview range"),
        ),
    )
    ground: PointerProperty(
        name="Ground",
        description="Mesh that carries the character. Without one the floor is at the height of the character's origin",
        type=bpy.types.Object,
        poll=lambda self, ob: ob.type == "MESH",
    )


register, unregister = registering.settings(
    NEURAL_IK_PhysicsSettings, on={"Object.neural_ik_physics": NEURAL_IK_PhysicsSettings}
)
