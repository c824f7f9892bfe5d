# SPDX-License-Identifier: GPL-3.0-or-later
"""The Motion panel: Fill, Continue, the ghost of what they made, and Check."""

from __future__ import annotations

from typing import Any

import bpy

from ..host import curve, ghost, jobs, rig
from ..host.panels import MOTION, CharacterPanel, paragraph, running
from . import making


class NEURAL_IK_PT_motion(CharacterPanel, bpy.types.Panel):
    """Motion between keys and from the playhead on."""

    bl_label = "Motion"
    bl_order = MOTION

    def draw(self, context: bpy.types.Context) -> None:
        """A job's progress, the ghost, and the settings of each button above it."""
        ob: Any = rig.find(context)
        own = ob.neural_ik_motion
        layout: Any = self.layout
        if running(layout, context, jobs.MOTION):
            return
        ghost.draw_panel(layout, context, jobs.MOTION)
        box = layout.box().column(align=True)
        box.row(align=True).prop(own, "between", expand=True)
        box.operator("neural_ik.motion_fill", icon="IPO_EASE_IN_OUT")
        box = layout.box().column(align=True)
        box.prop(own, "frames")
        box.prop(own, "target")
        row = box.row(align=True)
        row.enabled = own.target is None
        row.prop(own, "use_turn", text="")
        row.prop(own, "turn")
        box.operator("neural_ik.motion_continue", icon="FORWARD")
        column = layout.column(align=True)
        column.prop(own, "variation")
        column.prop(own, "detail", slider=True)
        column.prop(own, "shipped")
        self.draw_check(layout, context, ob)

    def draw_check(self, layout: Any, context: bpy.types.Context, ob: Any) -> None:
        """How far all that can be trusted: the button, and what it measured last."""
        box = layout.box().column(align=True)
        box.operator("neural_ik.motion_check", icon="CHECKMARK")
        found = making.checked(ob)
        if found is None:
            return
        for line in found.words:
            if line.startswith(("Fill", "Continue")):  # the figures behind them are in the text block
                paragraph(box, line, context, "INFO")
        drawn = curve.icon(found.curve, "motion")
        if drawn:
            box.template_icon(icon_value=drawn, scale=3)


register, unregister = bpy.utils.register_classes_factory((NEURAL_IK_PT_motion,))
