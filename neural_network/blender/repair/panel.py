# SPDX-License-Identifier: GPL-3.0-or-later
"""The Fix Feet panel: contacts, Fix Feet, Clean, and the ghost of what they made."""

from __future__ import annotations

from typing import Any

import bpy

from ...core.messages import counted
from ..host import contact_markers, ghost, jobs, rig
from ..host.panels import FEET, CharacterPanel, running


class NEURAL_IK_PT_feet(CharacterPanel, bpy.types.Panel):
    """Feet that stand, and motion that is clean."""

    bl_label = "Fix Feet"
    bl_order = FEET

    def draw(self, context: bpy.types.Context) -> None:
        """A job's progress, the ghost, and the buttons with their settings."""
        ob: Any = rig.find(context)
        own = ob.neural_ik_feet
        layout: Any = self.layout
        if running(layout, context, jobs.FEET):
            return
        ghost.draw_panel(layout, context, jobs.FEET)
        column = layout.column(align=True)
        column.row(align=True).prop(own, "frames", expand=True)
        column.prop(own, "ground")
        action = ob.animation_data.action if ob.animation_data is not None else None
        marked = len(contact_markers.own(action)) if action is not None else 0
        row = column.row(align=True)
        row.operator("neural_ik.feet_contacts", icon="PMARKER_ACT")
        row.operator_menu_enum("neural_ik.feet_mark", "what", text="", icon="ADD")
        if marked:
            row.operator("neural_ik.feet_forget", text="", icon="X")
            column.label(text=f"{counted(marked, 'marker')} on {action.name}", icon="BLANK1")
        column = layout.column(align=True)
        big = column.row()
        big.scale_y = 1.4
        big.operator("neural_ik.feet_fix", icon="CON_FLOOR")
        column.operator("neural_ik.feet_clean", icon="BRUSH_DATA")


register, unregister = bpy.utils.register_classes_factory((NEURAL_IK_PT_feet,))
