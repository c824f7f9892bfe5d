# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Fix Feet, stored on the armature object."""

from __future__ import annotations

import bpy
from bpy.props import EnumProperty, PointerProperty

from ..host import registering


class NEURAL_IK_FeetSettings(bpy.types.PropertyGroup):
    """What of one armature object's motion is repaired, and on which ground."""

    frames: EnumProperty(
        name="Frames",
        description="Which frames are repaired",
        items=(
            ("ACTION", "Whole Action", "From the first to the last key of the current action"),
            ("SCENE", "Scene Range", "The frame range of the scene, or its preview range"),
        ),
    )
    ground: PointerProperty(
        name="Ground",
        description="Mesh that the feet stand on. Without one the floor is at the height of the character's origin",
        type=bpy.types.Object,
        poll=lambda self, ob: ob.type == "MESH",
    )


register, unregister = registering.settings(
    NEURAL_IK_FeetSettings, on={"Object.neural_ik_feet": NEURAL_IK_FeetSettings}
)
