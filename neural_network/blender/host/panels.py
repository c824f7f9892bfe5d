# SPDX-License-Identifier: GPL-3.0-or-later
"""What the panels of the extension share."""

from __future__ import annotations

from typing import Any

import bpy

from . import curve, jobs, memory, rig

TAB = "Neural IK"
LETTER = 6.2  # [pixels at scale 1] a letter of a label takes at most, on average


class Panel:
    """Mixin that puts a panel into the extension's tab of the sidebar."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = TAB


CHARACTER, LEARN, POSE, MORE, MOTION, FEET, PHYSICS, GAIT, TEACH = range(9)
"""Order of the panels in the tab: that of the work."""


class CharacterPanel(Panel):
    """Mixin for a closed panel that is only there if there is a character."""

    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Only if there is a character."""
        try:
            rig.find(context)
        except ValueError:
            return False
        return True


def running(layout: Any, context: bpy.types.Context, place: str) -> bool:
    """Draw the progress of the job that runs, if it belongs to the panel ``place`` (of :mod:`.jobs`); True where drawn."""
    job = jobs.running
    if job is None or job.panel != place:
        return False
    box = layout.box().column(align=True)
    box.progress(factor=job.progress.done / max(1, job.progress.total), text=job.label)
    if job.passes_events:  # other jobs ignore the mouse
        training(box, context)
    elif job.progress.text:
        paragraph(box, job.progress.text, context)
    row = box.row()
    row.label(text="Stopping" if job.cancelling else "Esc cancels")
    if job.passes_events:
        row.operator("neural_ik.stop", icon="X")
    return True


def training(box: Any, context: bpy.types.Context) -> None:
    """Draw the trainer's last message and its curve."""
    paragraph(box, memory.memory.training, context)
    drawn = curve.icon(memory.memory.curve)
    if drawn:
        box.template_icon(icon_value=drawn, scale=3)


def posing(context: bpy.types.Context) -> bool:
    """Whether a character is under Live IK, so that the panels above that of posing keep short."""
    every: Any = bpy.data.collections
    return any(collection.neural_ik_live.live for collection in every)


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` characters, longer words in a line of their own; none for an empty one."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def paragraph(layout: bpy.types.UILayout, text: str, context: bpy.types.Context, icon: Any = "NONE") -> None:
    """Draw text over as many lines as it needs at the sidebar's width; nothing for an empty one. The icon stands in the first."""
    width = (
        max(20, int(context.region.width / (LETTER * context.preferences.system.ui_scale)) - 9)
        if context.region
        else 40
    )
    for line in wrapped(text, width):
        layout.label(text=line, icon=icon)
        icon = icon if icon == "NONE" else "BLANK1"
