# SPDX-License-Identifier: GPL-3.0-or-later
"""The main panel in the sidebar, tab "Neural IK": the panels of the features hang below it."""

from __future__ import annotations

from typing import Any

import bpy

from ...core.messages import counted
from . import characters, curve, jobs, memory, rig
from .panels import Panel, paragraph


class NEURAL_IK_PT_main(Panel, bpy.types.Panel):
    """The most used buttons, what runs, what is loaded, and the results of the last test."""

    bl_label = "Neural IK"

    def draw(self, context: bpy.types.Context) -> None:
        """Draw the panel."""
        layout = self.layout
        buttons = layout.column()
        buttons.operator("neural_ik.load_data", icon="IMPORT")
        buttons.operator("neural_ik.load_weights", icon="IMPORT")
        buttons.operator("neural_ik.run_tests", icon="CHECKMARK")
        _running(layout, context)
        _in_memory(layout, context)
        _results(layout)


def training(box: Any, context: bpy.types.Context) -> None:
    """Draw the trainer's last message and its curve."""
    paragraph(box, memory.memory.training, context)
    drawn = curve.icon(memory.memory.curve)
    if drawn:
        box.template_icon(icon_value=drawn, scale=5)


def on_disk(context: bpy.types.Context) -> str:
    """What is saved for the active character, with dates; empty where nothing is, or there is no character."""
    subject = characters.drawn(context)
    if subject is None:
        return ""
    own = characters.kept(subject)
    found = [("poses", own.poses), ("weights", own.weights(characters.IK))]
    return ", ".join(f"{what} {date}" for what, path in found if (date := memory.written(path)))


def _running(layout: Any, context: bpy.types.Context) -> None:
    job = jobs.running
    if job is None:
        return
    box = layout.box().column(align=True)
    done = job.progress.done / max(1, job.progress.total)
    box.progress(factor=done, text=f"{job.label}: {job.progress.done} of {job.progress.total}")
    row = box.row()
    row.label(text="Stopping" if job.cancelling else "cancels", icon="EVENT_ESC")
    if job.passes_events:  # other jobs ignore the mouse
        row.operator("neural_ik.stop", icon="X")
        training(box, context)
    elif job.progress.text:
        box.label(text=job.progress.text, icon="BLANK1")


def _in_memory(layout: Any, context: bpy.types.Context) -> None:
    keep = memory.memory
    box = layout.box().column(align=True)
    try:
        box.label(text=f"Character: {rig.find(context).name}", icon="ARMATURE_DATA")
        saved = on_disk(context)
        if saved:
            paragraph(box, f"Saved: {saved}", context, "BLANK1")
    except ValueError as error:
        paragraph(box, f"Character: {error}", context)
    if keep.poses is None:
        box.label(text="No poses in memory", icon="ACTION")
    else:
        star = " (not saved)" if keep.unsaved else ""
        box.label(
            text=f"{counted(keep.poses.frames, 'pose')}, {counted(len(keep.poses.clip_names), 'action')}{star}",
            icon="ACTION",
        )
        for text in (keep.poses_from, keep.poses_note):
            paragraph(box, text, context, "BLANK1")
    if keep.network is None:
        box.label(text="No weights in memory", icon="NETWORK_DRIVE")
    else:
        paragraph(box, f"Weights: {keep.network_from}", context, "NETWORK_DRIVE")
        for text in (keep.trained and f"trained {keep.trained}", keep.network_note):
            paragraph(box, text, context, "BLANK1")


def _results(layout: Any) -> None:
    if not memory.memory.results:
        return
    box = layout.box().column(align=True)
    for line in memory.memory.results:
        box.label(text=line.text, icon="BLANK1" if line.passed is None else "CHECKMARK" if line.passed else "X")


def register() -> None:
    """Register the panel, before those that hang below it."""
    bpy.utils.register_class(NEURAL_IK_PT_main)


def unregister() -> None:
    """Unregister it."""
    bpy.utils.unregister_class(NEURAL_IK_PT_main)
