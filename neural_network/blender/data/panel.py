# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel Actions."""

from __future__ import annotations

import bpy

from ..host import rig
from ..host.panels import Panel
from . import extract


class NEURAL_IK_PT_actions(Panel, bpy.types.Panel):
    """Which actions are extracted, and how they are sampled."""

    bl_label = "Actions"
    bl_parent_id = "NEURAL_IK_PT_learn"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: bpy.types.Context) -> None:
        """The list and the options."""
        settings = context.scene.neural_ik
        layout = self.layout
        actions = layout.column()
        actions.enabled = not settings.timeline
        actions.template_list("NEURAL_IK_UL_actions", "", bpy.data, "actions", settings, "action_index", rows=4)
        layout.use_property_split = True
        layout.use_property_decorate = False
        column = layout.column()
        column.prop(settings, "step")
        column.prop(settings, "use_range")
        if settings.use_range:
            column.prop(settings, "first")
            column.prop(settings, "last")
        column.prop(settings, "root_motion")
        row = column.row()
        row.enabled = not settings.timeline
        row.prop(settings, "nla")
        column.prop(settings, "timeline")


class ActionList:
    """Mixin for a list of the character's actions."""

    filter_name: str
    bitflag_filter_item: int

    def filter_items(self, context, source, property):  # type: ignore[no-untyped-def]
        """Only actions that move the character."""
        actions = getattr(source, property)
        try:
            own = {a.name for a in extract.moving_actions(rig.find(context))}
        except ValueError:
            own = set()
        word = self.filter_name.lower()
        shown = [self.bitflag_filter_item if a.name in own and word in a.name.lower() else 0 for a in actions]
        return shown, []


class NEURAL_IK_UL_actions(ActionList, bpy.types.UIList):
    """The character's actions with their ticks and task types."""

    def draw_item(self, context, layout, data, item, icon, active_data, active_property, index=0, flt_flag=0):  # type: ignore[no-untyped-def]
        """One action."""
        row = layout.row(align=True)
        row.prop(item.neural_ik, "use", text="")
        row.label(text=item.name)
        row.prop(item.neural_ik, "task", text="")


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_UL_actions,
        NEURAL_IK_PT_actions,
    )
)
