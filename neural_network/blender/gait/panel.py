# SPDX-License-Identifier: GPL-3.0-or-later
"""The Gait panel: presets, sliders, a live preview, and what makes actions of them."""

from __future__ import annotations

from typing import Any

import bpy

from ..host import jobs, rig
from ..host.panels import GAIT, CharacterPanel, Panel, running
from .sliders import SLIDERS


class NEURAL_IK_PT_gait(CharacterPanel, bpy.types.Panel):
    """Walks and runs from sliders."""

    bl_label = "Gait"
    bl_order = GAIT

    def draw(self, context: bpy.types.Context) -> None:
        """Presets, pace, preview and buttons; body and style have panels of their own."""
        ob: Any = rig.find(context)
        own = ob.neural_ik_gait
        layout: Any = self.layout
        running(layout, context, jobs.GAIT)
        row = layout.row(align=True)
        row.operator_menu_enum("neural_ik.gait_preset", "preset", icon="PRESET")
        row.prop(own, "preview", text="", icon="GHOST_ENABLED")
        column = layout.column(align=True)
        column.prop(own, "speed")
        for entry in SLIDERS:
            if entry.group == "walk":
                column.prop(own, entry.name)
        box = layout.box().column(align=True)
        row = box.row(align=True)
        row.prop(own, "cycles")
        row.prop(own, "in_place", toggle=True)
        box.operator("neural_ik.gait_bake", icon="ACTION")
        box = layout.box().column(align=True)
        box.prop(own, "way")
        box.prop(own, "ground")
        box.prop(own, "pace")
        box.operator("neural_ik.gait_along", icon="CURVE_PATH")
        box = layout.box().column(align=True)
        box.operator("neural_ik.gait_match", icon="VIEWZOOM")
        box.operator("neural_ik.gait_learn", icon="USER")
        box.prop(own, "own_style")


class _Part(Panel):
    bl_parent_id = "NEURAL_IK_PT_gait"
    bl_options = {"DEFAULT_CLOSED"}
    group = ""

    def draw(self, context: bpy.types.Context) -> None:
        """The sliders of a group."""
        found: Any = rig.find(context)
        layout: Any = self.layout  # type: ignore[attr-defined]
        column = layout.column(align=True)
        for entry in SLIDERS:
            if entry.group == self.group:
                column.prop(found.neural_ik_gait, entry.name, slider=True)


class NEURAL_IK_PT_gait_body(_Part, bpy.types.Panel):
    """How the body moves."""

    bl_label = "Body"
    group = "body"


class NEURAL_IK_PT_gait_style(_Part, bpy.types.Panel):
    """Named ways to walk, as much of each as wanted."""

    bl_label = "Style"
    group = "style"


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_PT_gait,
        NEURAL_IK_PT_gait_body,
        NEURAL_IK_PT_gait_style,
    )
)
