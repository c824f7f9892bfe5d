# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that everything which mends the current action has: which frames, and on which ground."""

from __future__ import annotations

import bpy
from bpy.props import EnumProperty, PointerProperty


class MendedSettings:
    """Mixin for a PropertyGroup on an armature object."""

    frames: EnumProperty(
        name="Frames",
        description="Which frames are read and mended",
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
