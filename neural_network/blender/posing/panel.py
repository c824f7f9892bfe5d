# SPDX-License-Identifier: GPL-3.0-or-later
"""The panels of Live IK in the sidebar."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import bpy

from ...ik.solver import REACHED
from ..host import jobs, rig_checks
from ..host.panels import POSE, Panel, paragraph, running
from . import live_ik
from .state import LiveCharacter, linked_note, settings_of, unsolvable, verdict

NAME_SHARE = 0.42  # of a target's row for its name
NUMBER_SHARE = 0.37  # of the rest for each of its two numbers
UNUSUAL = 1.5  # out_of_range above which the panel warns; 1 is the edge of the training data


class NEURAL_IK_PT_live(Panel, bpy.types.Panel):
    """Start, end, key and bake, and the state of the solve."""

    bl_label = "Pose"
    bl_order = POSE

    def draw(self, context: bpy.types.Context) -> None:
        """The Live IK button, or while it is on the others."""
        layout: Any = self.layout
        running(layout, context, jobs.POSE)
        collection = live_ik.active_collection(context)
        if collection is None:
            big = layout.column()
            big.scale_y = 1.4
            big.operator("neural_ik.live_start", icon="CON_KINEMATIC")
            note = linked_note()
            if note:
                paragraph(layout.column(), note, context, "LIBRARY_DATA_DIRECT")
            return
        row = layout.row(align=True)
        row.operator("neural_ik.live_apply", icon="CHECKMARK")
        row.operator("neural_ik.live_cancel", icon="X")
        row = layout.row(align=True)
        row.operator("neural_ik.live_key", icon="KEY_HLT")
        settings = settings_of(collection)
        bake = row.operator("neural_ik.live_bake", icon="ACTION")
        bake.into, bake.step, bake.hold_feet = settings.bake_into, settings.bake_step, settings.hold_feet
        live = live_ik.characters.get(collection.name)
        box = layout.box().column(align=True)
        if live is None:
            why = unsolvable.get(collection.name, "no weights fit it, or its bones changed")
            paragraph(box, f"This character cannot be solved: {why}", context, "ERROR")
            return
        _readouts(box, live, context)


def _readouts(box: Any, live: LiveCharacter, context: bpy.types.Context) -> None:
    """Whether the targets are reached, the time per update, and how unusual the pose is."""
    for text in (live.suspended, live.problem, live.overridden, *live.notes):
        if text:
            paragraph(box, text, context, "ERROR")
    if live.errors is None or live.suspended:
        box.label(text="Move a target (G)", icon="EMPTY_AXIS")
        return
    missed = [
        f"{target.bone} {error * 1000:.0f} mm"
        for target, error in zip(live.targets, live.errors.tolist(), strict=False)
        if target.use and error >= REACHED
    ]
    used = [error for target, error in zip(live.targets, live.errors.tolist(), strict=False) if target.use]
    worst = max(used, default=0.0) * 1000
    if missed:
        paragraph(box, "Out of reach: " + ", ".join(missed), context, "ERROR")
    else:
        box.label(text=f"All reached within {worst:.2f} mm", icon="CHECKMARK")
    box.label(text=f"{live.latency * 1000:.2f} ms per update", icon="TIME")
    broken = verdict(live)
    if broken:
        paragraph(box, broken, context, "ERROR")
    explanation = live_ik.explain(live)
    if explanation is None or math.isnan(explanation.out_of_range):
        return
    unusual = explanation.out_of_range
    box.progress(factor=min(unusual / (2 * UNUSUAL), 1.0), text=f"Unusual: {unusual:.1f}")
    if unusual > UNUSUAL:
        paragraph(box, "Far from all training poses: the result may look unnatural", context, "ERROR")
    row = box.row(align=True)
    row.label(text=f"Nearest: {explanation.clip}, frame {explanation.frame}", icon="ACTION")
    row.operator("neural_ik.live_jump", text="", icon="FRAME_NEXT")


Cell = Callable[[Any], Any]
COLUMNS = ("Move", "Turn", "")


def spaced(name: str) -> str:
    """A role or bone name as words: LeftHand is "Left Hand"; names with other signs stay as they are."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def _target_row(column: Any, first: Cell, *cells: Cell | None) -> None:
    """A row whose cells stand below each other: the name, two numbers and an icon; or the name alone."""
    if not any(cells):
        first(column.row(align=True))
        return
    split = column.split(factor=NAME_SHARE, align=True)
    first(split.row(align=True))
    left = split.split(factor=NUMBER_SHARE, align=True)
    right = left
    for place, cell in enumerate(cells):
        if place == 1:
            right = left.split(factor=NUMBER_SHARE / (1 - NUMBER_SHARE), align=True)
        (cell or _heading(""))((left if place == 0 else right).row(align=True))


def _heading(word: str) -> Cell:
    return lambda row: row.label(text=word)


def _value(own: Any, name: str, **look: Any) -> Cell:
    return lambda row: row.prop(own, name, **({"text": ""} | look))


class NEURAL_IK_PT_live_targets(Panel, bpy.types.Panel):
    """The targets and their weights."""

    bl_label = "Targets"
    bl_parent_id = "NEURAL_IK_PT_live"

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Only while a character is live."""
        return live_ik.active_collection(context) is not None

    def draw(self, context: bpy.types.Context) -> None:
        """One row per target, below the names of its columns."""
        collection: Any = live_ik.active_collection(context)
        found = live_ik.target_objects(collection)
        column = self.layout.column(align=True)
        live = live_ik.characters.get(collection.name)
        body = live.rig.roles[0] if live is not None and live.rig.roles else "Hips"
        natural = settings_of(collection).posing == "NATURAL"
        targets: Any = found
        shown = [(k, ob.neural_ik_target) for k, ob in targets.items() if natural or k[0] not in ("CHEST", "LOOK")]
        if any(own.use for (kind, _), own in shown if kind != "HINT"):
            _target_row(column, lambda row: row.label(text=""), *(_heading(word) for word in COLUMNS))
        for (kind, role), own in shown:
            hint = f"{role[: -len('Hand')]} {rig_checks.LIMBS[role].title()}" if role in rig_checks.LIMBS else role
            label = {"HINT": hint, "ROOT": body, "LOOK": "Look At"}.get(kind, role)
            cells = [_value(own, "weight") if own.use and kind != "HINT" else None]
            cells.append(_value(own, "turn_weight") if own.use and kind in ("EFFECTOR", "ROOT") else None)
            cells.append(_value(own, "pin", icon_only=True) if own.use and kind == "EFFECTOR" else None)
            _target_row(column, _value(own, "use", text=spaced(label)), *cells)
        row = self.layout.row(align=True)
        row.operator("neural_ik.live_flip", icon="MOD_MIRROR")
        row.operator("neural_ik.live_reset", icon="LOOP_BACK")


class NEURAL_IK_PT_live_settings(Panel, bpy.types.Panel):
    """How the character is solved."""

    bl_label = "Settings"
    bl_parent_id = "NEURAL_IK_PT_live"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Only while a character is live."""
        return live_ik.active_collection(context) is not None

    def draw(self, context: bpy.types.Context) -> None:
        """The settings."""
        settings = settings_of(live_ik.active_collection(context))
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
        layout.prop(settings, "posing")
        if settings.posing == "NATURAL":
            layout.prop(settings, "balance")
            layout.prop(settings, "solid")
        else:
            layout.prop(settings, "motion")
        if settings.posing == "LEARNED" and settings.motion == "MANUAL":
            layout.prop(settings, "phase")
            layout.prop(settings, "task")


class NEURAL_IK_PT_live_bake(Panel, bpy.types.Panel):
    """The settings of Bake."""

    bl_label = "Bake"
    bl_parent_id = "NEURAL_IK_PT_live"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Only while a character is live."""
        return live_ik.active_collection(context) is not None

    def draw(self, context: bpy.types.Context) -> None:
        """Destination, step and planted feet; the range is the scene's."""
        settings = settings_of(live_ik.active_collection(context))
        layout = self.layout
        layout.use_property_split = True
        layout.use_property_decorate = False
        layout.prop(settings, "bake_into")
        layout.prop(settings, "bake_step")
        layout.prop(settings, "hold_feet")


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_PT_live,
        NEURAL_IK_PT_live_targets,
        NEURAL_IK_PT_live_settings,
        NEURAL_IK_PT_live_bake,
    )
)
