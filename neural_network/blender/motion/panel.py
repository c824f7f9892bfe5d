# SPDX-License-Identifier: GPL-3.0-or-later
"""The Motion panel: Fill, Continue, the ghost of what they made, and Check."""

from __future__ import annotations

from typing import Any

import bpy

from ...core.messages import counted
from ..data.panel import ActionList
from ..host import contact_markers, curve, ghost, jobs, rig
from ..host.panels import MOTION, CharacterPanel, Panel, paragraph, running
from . import making


class NEURAL_IK_UL_motion_actions(ActionList, bpy.types.UIList):
    """The character's actions, and how much is taken after each."""

    def draw_item(self, context, layout, data, item, icon, active_data, active_property, index=0, flt_flag=0):  # type: ignore[no-untyped-def]
        """One action."""
        row = layout.row(align=True)
        row.active = item.neural_ik.use
        row.label(text=item.name)
        row.prop(item.neural_ik, "weight", text="", slider=True)


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


class NEURAL_IK_PT_motion_holds(Panel, bpy.types.Panel):
    """What hands hold while Fill makes motion, as markers say."""

    bl_label = "Holds"
    bl_parent_id = "NEURAL_IK_PT_motion"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: bpy.types.Context) -> None:
        """Where hands are to be, and the markers that say when."""
        ob: Any = rig.find(context)
        own = ob.neural_ik_motion
        layout: Any = self.layout
        column = layout.column(align=True)
        column.prop(own, "left_hand")
        column.prop(own, "right_hand")
        column.operator_menu_enum("neural_ik.feet_mark", "what", text="Mark at Playhead", icon="PMARKER_ACT")
        action = ob.animation_data.action if ob.animation_data is not None else None
        marked = contact_markers.own(action) if action is not None else []
        hands = sum(marker.name.startswith(contact_markers.HANDS) for marker in marked)
        words = f"{counted(hands, 'marker')} of hands, {len(marked) - hands} of feet"
        column.label(text=words, icon="BLANK1")


class NEURAL_IK_PT_motion_weights(Panel, bpy.types.Panel):
    """How much Fill and Continue take after each action."""

    bl_label = "Weights of Actions"
    bl_parent_id = "NEURAL_IK_PT_motion"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: bpy.types.Context) -> None:
        """The list."""
        scene: Any = context.scene
        layout: Any = self.layout
        layout.template_list(
            "NEURAL_IK_UL_motion_actions", "", bpy.data, "actions", scene.neural_ik, "action_index", rows=4
        )


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_UL_motion_actions,
        NEURAL_IK_PT_motion,
        NEURAL_IK_PT_motion_holds,
        NEURAL_IK_PT_motion_weights,
    )
)
