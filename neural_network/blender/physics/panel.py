# SPDX-License-Identifier: GPL-3.0-or-later
"""The Physics panel: Make Physical, the ghost of what it made, and the balance score."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ...core.messages import counted
from ..host import contact_markers, curve, ghost, jobs, rig
from ..host.panels import PHYSICS, CharacterPanel, paragraph, running
from . import scores, weighing
from .scores import Scores


class NEURAL_IK_PT_physics(CharacterPanel, bpy.types.Panel):
    """Motion that the ground can carry."""

    bl_label = "Physics"
    bl_order = PHYSICS

    def draw(self, context: bpy.types.Context) -> None:
        """A job's progress, the ghost, and the buttons with their settings."""
        ob: Any = rig.find(context)
        own = ob.neural_ik_physics
        layout: Any = self.layout
        if running(layout, context, jobs.PHYSICS):
            return
        ghost.draw_panel(layout, context, jobs.PHYSICS)
        column = layout.column(align=True)
        column.row(align=True).prop(own, "frames", expand=True)
        column.prop(own, "ground")
        action = ob.animation_data.action if ob.animation_data is not None else None
        marked = len(contact_markers.own(action)) if action is not None else 0
        if marked:
            column.label(text=f"Contacts: {counted(marked, 'marker')} on {action.name}", icon="PMARKER_ACT")
        big = layout.row()
        big.scale_y = 1.4
        big.operator("neural_ik.physics_mend", icon="PHYSICS")
        self.draw_balance(layout, context, scores.of(ob))

    def draw_balance(self, layout: Any, context: bpy.types.Context, found: Scores | None) -> None:
        """The balance score: its buttons, and what was measured last."""
        box = layout.box().column(align=True)
        row = box.row(align=True)
        row.operator("neural_ik.physics_balance", icon="IPO_SINE")
        if found is None:
            return
        row.operator("neural_ik.physics_worst", text="", icon="VIEWZOOM")
        row.operator("neural_ik.physics_hide", text="", icon="X")
        for line in weighing.words(found):
            paragraph(box, line, context, "INFO")
        shares = np.linspace(0, 1, len(found.score))
        drawn = curve.icon(list(zip(shares.tolist(), found.score.tolist(), strict=True)), "physics")
        if drawn:
            box.template_icon(icon_value=drawn, scale=3)


register, unregister = bpy.utils.register_classes_factory((NEURAL_IK_PT_physics,))
