# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel Effectors: what can be pulled on a creature, what of it stands, and which bone is its body."""

from __future__ import annotations

from typing import Any

import bpy

from ..host import rig
from ..host.panels import Panel, paragraph
from . import ends


class NEURAL_IK_PT_ends(Panel, bpy.types.Panel):
    """Effectors of a creature."""

    bl_label = "Effectors"
    bl_parent_id = "NEURAL_IK_PT_main"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """There is a character."""
        try:
            rig.find(context)
        except ValueError:
            return False
        return True

    def draw(self, context: bpy.types.Context) -> None:
        """The list, and how to change it."""
        ob: Any = rig.find(context)
        own = ob.neural_ik_ends
        layout: Any = self.layout
        row = layout.row(align=True)
        row.operator("neural_ik.ends_propose", icon="VIEWZOOM")
        row.operator("neural_ik.ends_clear", text="", icon="X")
        names, feet = ends.lines(own.effectors), ends.lines(own.feet)
        if not names:
            paragraph(layout, "For creatures. People need none: their roles are known", context, "INFO")
        box = layout.box().column(align=True)
        for name in names:
            row = box.row(align=True)
            lost = name not in ob.data.bones
            row.label(text=f"{name} (no such bone)" if lost else name, icon="ERROR" if lost else "BONE_DATA")
            stands = name in feet
            row.operator(
                "neural_ik.ends_stand", text="stands" if stands else "", icon="PINNED" if stands else "UNPINNED"
            ).bone = name
            row.operator("neural_ik.ends_remove", text="", icon="X").bone = name
        box.prop_search(own, "pick", ob.data, "bones", icon="ADD")
        layout.operator("neural_ik.ends_add", icon="RESTRICT_SELECT_OFF")
        layout.prop_search(own, "body", ob.data, "bones")


def register() -> None:
    """Register the panel."""
    bpy.utils.register_class(NEURAL_IK_PT_ends)


def unregister() -> None:
    """Take it out."""
    bpy.utils.unregister_class(NEURAL_IK_PT_ends)
