# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators of Gait: presets, Bake Loop, Walk Along Curve, Match This Walk."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
import numpy as np
from bpy.props import EnumProperty

from ...core.messages import counted
from ...gait import matching, parameters
from ..host import jobs, rig
from ..host.buttons import CharacterButton, Deed, no_character
from ..host.jobs import Progress
from . import preview, properties, walking
from .sliders import values_of

PRESETS: dict[str, tuple[str, dict[str, float]]] = {
    "HEALTHY": ("Walk", {"speed": 1.3}),
    "STROLL": ("Stroll", {"speed": 0.8, "arm_swing": 0.8}),
    "BRISK": ("Brisk", {"speed": 1.8, "arm_swing": 1.2}),
    "RUN": ("Run", {"speed": 3.2}),
    "SNEAK": ("Sneak", {"speed": 0.8, "sneak": 1.0}),
    "MARCH": ("March", {"speed": 1.4, "march": 1.0}),
    "TIPTOE": ("Tiptoe", {"speed": 0.9, "tiptoe": 1.0}),
    "TIRED": ("Tired", {"speed": 0.9, "tired": 1.0}),
    "PROUD": ("Proud", {"speed": 1.4, "proud": 1.0}),
    "CROUCH": ("Crouch", {"speed": 1.0, "crouch": 1.0}),
    "WADDLE": ("Waddle", {"speed": 0.9, "waddle": 1.0}),
    "LIMP": ("Limp", {"speed": 0.9, "limp_left": 1.0}),
}


class NEURAL_IK_OT_gait_preset(Deed, bpy.types.Operator):
    """Set all sliders to a named walk"""

    bl_idname = "neural_ik.gait_preset"
    bl_label = "Walk Preset"
    bl_options = {"REGISTER", "UNDO"}

    preset: EnumProperty(name="Preset", items=[(key, name, f"{name}") for key, (name, _) in PRESETS.items()])

    def act(self, context: bpy.types.Context, ob: Any) -> str:
        """Set the sliders."""
        name, given = PRESETS[self.preset]
        properties.set_values(ob.neural_ik_gait, parameters.vector(given))
        preview.refresh(context)
        return f"{name}: {ob.neural_ik_gait.speed:.1f} m/s"


class NEURAL_IK_OT_gait_bake(Deed, bpy.types.Operator):
    """Make an action that walks for ever, as the sliders say"""

    bl_idname = "neural_ik.gait_bake"
    bl_label = "Bake Loop"
    bl_options = {"REGISTER", "UNDO"}

    def act(self, context: bpy.types.Context, ob: Any) -> str:
        """Make it, and let the character play it."""
        own = ob.neural_ik_gait
        action, frames = walking.bake_loop(context, ob, values_of(own), own.cycles, own.in_place)
        own.preview = False
        return f"{action.name}: {frames} frames, repeated for ever"


class NEURAL_IK_OT_gait_along(Deed, bpy.types.Operator):
    """Walk along the curve, feet planted on the ground, from standing to standing"""

    bl_idname = "neural_ik.gait_along"
    bl_label = "Walk Along Curve"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Why it cannot be pressed, in words; empty if it can."""
        reason = no_character(context)
        if reason:
            return reason
        found: Any = rig.find(context)
        return "" if found.neural_ik_gait.way is not None else "choose a curve to walk along"

    def act(self, context: bpy.types.Context, ob: Any) -> str:
        """Make it, and let the character play it."""
        own = ob.neural_ik_gait
        action, first, last = walking.walk_along(context, ob)
        own.preview = False
        return f"{action.name}: frames {first} to {last}"


class NEURAL_IK_OT_gait_match(jobs.Pumped, CharacterButton, bpy.types.Operator):
    """Set the sliders to the walk that the character shows in the scene's frame range"""

    bl_idname = "neural_ik.gait_match"
    bl_label = "Match This Walk"
    bl_options = {"REGISTER", "UNDO"}
    panel = jobs.GAIT

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, matching.Match]:
        """Read the walk, find its parameters."""
        ob = rig.find(context)
        who, found = yield from walking.own_cycles(context, ob)
        if not found:
            raise ValueError(
                f"{walking.no_cycle(context, ob)}: expected both feet to strike twice; set the frame range to the walk"
            )
        return matching.match(preview.gait(), who.body, found)

    def finish(self, context: bpy.types.Context, result: matching.Match) -> str:
        """Set the sliders."""
        ob: Any = rig.find(context)
        properties.set_values(ob.neural_ik_gait, np.asarray(result.values))
        preview.refresh(context)
        speed = ob.neural_ik_gait.speed
        return f"{counted(result.cycles, 'cycle')} at {speed:.2f} m/s; joints {result.error:.0f} degrees off on average"


class NEURAL_IK_OT_gait_learn(jobs.Pumped, CharacterButton, bpy.types.Operator):
    """Learn the character's own way to walk from what it shows in the scene's frame range"""

    bl_idname = "neural_ik.gait_learn"
    bl_label = "Learn from my Walks"
    bl_options = {"REGISTER", "UNDO"}
    panel = jobs.GAIT

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, tuple[int, float, float]]:
        """Learn, and keep it with the character's files."""
        return walking.learn_style(context, rig.find(context))

    def finish(self, context: bpy.types.Context, result: tuple[int, float, float]) -> str:
        """Use it."""
        ob: Any = rig.find(context)
        count, plain, styled = result
        ob.neural_ik_gait.own_style = 1.0
        preview.refresh(context)
        return f"learned from {counted(count, 'cycle')}: joints {styled:.0f} degrees off instead of {plain:.0f}"


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_gait_preset,
        NEURAL_IK_OT_gait_bake,
        NEURAL_IK_OT_gait_along,
        NEURAL_IK_OT_gait_match,
        NEURAL_IK_OT_gait_learn,
    )
)
