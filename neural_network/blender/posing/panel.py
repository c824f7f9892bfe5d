# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK's part of the sidebar: buttons, targets, and how well it goes."""

from __future__ import annotations

import math
from typing import Any

import bpy

from ...ik.solver import REACHED
from ..host.panels import TAB, paragraph
from . import live_ik
from .state import Live, settings_of

FAR_OFF = 1.5  # on the out-of-range meter: the warning


class _Panel:
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = TAB


class NEURAL_IK_PT_live(_Panel, bpy.types.Panel):
    """Start and end."""

    bl_label = "Live IK"

    def draw(self, context: bpy.types.Context) -> None:
        """One button, or those to end it."""
        layout = self.layout
        collection = live_ik.chosen(context)
        if collection is None:
            layout.operator("neural_ik.live_start", icon="CON_KINEMATIC")
            return
        row = layout.row(align=True)
        row.operator("neural_ik.live_apply", icon="CHECKMARK")
        row.operator("neural_ik.live_cancel", icon="X")
        row = layout.row(align=True)
        row.operator("neural_ik.live_key", icon="KEY_HLT")
        settings = settings_of(collection)
        bake = row.operator("neural_ik.live_bake", icon="ACTION")
        bake.into, bake.step, bake.hold_feet = settings.bake_into, settings.bake_step, settings.hold_feet
        live = live_ik.lives.get(collection.name)
        box = layout.box().column(align=True)
        if live is None:
            paragraph(
                box, "These targets cannot be solved now: no weights fit, or bones changed. Cancel works.", context
            )
            return
        _readouts(box, live, context)


def _readouts(box: Any, live: Live, context: bpy.types.Context) -> None:
    """Reached or not, how long it took, how unusual the pose is."""
    for text in (live.problem, *live.notes):
        if text:
            paragraph(box, text, context, "ERROR")
    if live.solution is None:
        box.label(text="Move a target (G)", icon="EMPTY_AXIS")
        return
    missed = [
        f"{target.bone} {error * 1000:.0f} mm"
        for target, error in zip(live.targets, live.solution.error.tolist(), strict=False)
        if target.use and error >= REACHED
    ]
    worst = float(live.solution.error.max()) * 1000
    if missed:
        paragraph(box, "Out of reach: " + ", ".join(missed), context, "ERROR")
    else:
        box.label(text=f"All reached, {worst:.2f} mm", icon="CHECKMARK")
    box.label(text=f"{live.latency * 1000:.2f} ms an update", icon="TIME")
    why = live_ik.explain(live)
    if why is None or math.isnan(why.out_of_range):
        return
    box.progress(factor=min(why.out_of_range / (2 * FAR_OFF), 1.0), text=f"Unusual: {why.out_of_range:.1f}")
    if why.out_of_range > FAR_OFF:
        paragraph(box, "Far from everything learned: the pose may look odd", context, "ERROR")
    row = box.row(align=True)
    row.label(text=f"as {why.clip}, {why.frame}", icon="ACTION")
    row.operator("neural_ik.live_jump", text="", icon="FRAME_NEXT")


class NEURAL_IK_PT_live_targets(_Panel, bpy.types.Panel):
    """What each target asks."""

    bl_label = "Targets"
    bl_parent_id = "NEURAL_IK_PT_live"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """While something is live."""
        return live_ik.chosen(context) is not None

    def draw(self, context: bpy.types.Context) -> None:
        """One line a target; the active one in full."""
        collection: Any = live_ik.chosen(context)
        found = live_ik.target_objects(collection)
        column = self.layout.column(align=True)
        live = live_ik.lives.get(collection.name)
        body = live.rig.roles[0] if live is not None and live.rig.roles else "Hips"
        for (kind, role), ob in found.items():
            own: Any = ob.neural_ik_target  # type: ignore[attr-defined]
            row = column.row(align=True)
            row.prop(own, "use", text=f"{role} hint" if kind == "HINT" else body if kind == "ROOT" else role)
            if kind != "HINT" and own.use:
                row.prop(own, "weight", text="")
                row.prop(own, "turn_weight", text="")
            if kind == "EFFECTOR" and own.use:
                row.prop(own, "pin", text="")
        row = self.layout.row(align=True)
        row.operator("neural_ik.live_flip", icon="MOD_MIRROR")
        row.operator("neural_ik.live_reset", icon="LOOP_BACK")


class NEURAL_IK_PT_live_settings(_Panel, bpy.types.Panel):
    """How the character is moved."""

    bl_label = "Settings"
    bl_parent_id = "NEURAL_IK_PT_live"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """While something is live."""
        return live_ik.chosen(context) is not None

    def draw(self, context: bpy.types.Context) -> None:
        """All of it."""
        settings = settings_of(live_ik.chosen(context))
        layout = self.layout
        layout.use_property_split = True
        layout.use_property_decorate = False
        layout.prop(settings, "strength")
        layout.prop(settings, "mode")
        layout.prop(settings, "touch")
        layout.prop(settings, "selected_only")
        layout.prop(settings, "limits")
        if settings.limits:
            layout.prop(settings, "limits_from")
        layout.prop(settings, "ground")
        layout.prop(settings, "motion")
        if settings.motion == "MANUAL":
            layout.prop(settings, "phase")
            layout.prop(settings, "task")


class NEURAL_IK_PT_live_bake(_Panel, bpy.types.Panel):
    """What Bake does."""

    bl_label = "Bake"
    bl_parent_id = "NEURAL_IK_PT_live"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """While something is live."""
        return live_ik.chosen(context) is not None

    def draw(self, context: bpy.types.Context) -> None:
        """Where the keys go, how many, and standing feet; the range is the scene's."""
        settings = settings_of(live_ik.chosen(context))
        layout = self.layout
        layout.use_property_split = True
        layout.use_property_decorate = False
        layout.prop(settings, "bake_into")
        layout.prop(settings, "bake_step")
        layout.prop(settings, "hold_feet")


_classes = (NEURAL_IK_PT_live, NEURAL_IK_PT_live_targets, NEURAL_IK_PT_live_settings, NEURAL_IK_PT_live_bake)


def register() -> None:
    """Register the panels."""
    for cls in _classes:
        bpy.utils.register_class(cls)


def unregister() -> None:
    """Take them out."""
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
