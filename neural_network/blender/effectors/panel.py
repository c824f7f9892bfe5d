# SPDX-License-Identifier: GPL-3.0-or-later
"""The Effectors panel: the bones of a creature that can be dragged, its feet, and its body bone."""

from __future__ import annotations

from typing import Any

import bpy

from ..host import rig
from ..host.panels import CharacterPanel, paragraph
from .properties import lines


class NEURAL_IK_PT_effectors(CharacterPanel, bpy.types.Panel):
    """Effectors of a creature."""

    bl_label = "Effectors"
    bl_parent_id = "NEURAL_IK_PT_main"
    bl_order = 1

    def draw(self, context: bpy.types.Context) -> None:
        """The list and the operators that edit it."""
        ob: Any = rig.find(context)
        own = ob.neural_ik_ends
        layout: Any = self.layout
        row = layout.row(align=True)
        row.operator("neural_ik.effectors_find", icon="VIEWZOOM")
        row.operator("neural_ik.effectors_clear", text="", icon="X")
        names, feet = lines(own.effectors), lines(own.feet)
        if not names:
            paragraph(layout, "For creatures. Humans do not need them: their roles are enough", context, "INFO")
        box = layout.box().column(align=True)
        for name in names:
            row = box.row(align=True)
            missing = name not in ob.data.bones
            row.label(text=f"{name} (missing)" if missing else name, icon="ERROR" if missing else "BONE_DATA")
            is_foot = name in feet
            row.operator(
                "neural_ik.effectors_toggle_foot",
                text="Foot" if is_foot else "",
                icon="PINNED" if is_foot else "UNPINNED",
            ).bone = name
            row.operator("neural_ik.effectors_remove", text="", icon="X").bone = name
        box.prop_search(own, "pick", ob.data, "bones", icon="ADD")
        layout.operator("neural_ik.effectors_add", icon="RESTRICT_SELECT_OFF")
        layout.prop_search(own, "body", ob.data, "bones")


register, unregister = bpy.utils.register_classes_factory((NEURAL_IK_PT_effectors,))
