# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Fill and Continue, stored on the armature object."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, PointerProperty

from ..host import registering


def _holder(side: str) -> Any:
    return PointerProperty(
        name=f"{side.capitalize()} Hand",
        description=f"Object at whose place the {side} hand is while markers say that it holds; without one it stays where it is then",
        type=bpy.types.Object,
        poll=lambda self, ob: ob != self.id_data,
    )


class NEURAL_IK_MotionSettings(bpy.types.PropertyGroup):
    """How one armature object's motion is filled and continued."""

    between: EnumProperty(
        name="Between",
        description="Between which keys frames are filled in",
        items=(
            ("AROUND", "Playhead", "Between the last keyed frame up to the playhead and the next one"),
            ("SELECTED", "Selected Keys", "Between all keyed frames that are selected in the Timeline"),
        ),
    )
    variation: IntProperty(
        name="Variation",
        description="Another number gives another motion; the same number the same one",
        default=0,
        min=0,
    )
    detail: FloatProperty(
        name="Detail",
        description="0: the likeliest motion, which is smoother. 1: with all the movement of the nearest clip, which is rougher",
        default=0.0,
        min=0.0,
        max=1.0,
        subtype="FACTOR",
    )
    frames: IntProperty(
        name="Frames", description="How many frames go on from the playhead", default=60, min=1, max=2000, soft_max=500
    )
    target: PointerProperty(
        name="Towards",
        description="Object whose place the character heads for",
        type=bpy.types.Object,
        poll=lambda self, ob: ob != self.id_data,
    )
    use_turn: BoolProperty(name="Turn", description="Turn by this angle on the way; without, the motion decides")
    turn: FloatProperty(
        name="Turn",
        description="How far to turn to the character's left, from where it looks now",
        default=0.0,
        soft_min=-3.1415927,
        soft_max=3.1415927,
        subtype="ANGLE",
    )
    left_hand: _holder("left")
    right_hand: _holder("right")
    shipped: BoolProperty(
        name="Shipped Clips",
        description="Draw on the clips that came with Neural IK too, beside the character's own ticked actions",
        default=True,
    )


register, unregister = registering.settings(
    NEURAL_IK_MotionSettings, on={"Object.neural_ik_motion": NEURAL_IK_MotionSettings}
)
