# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel: 3D View, sidebar, tab "Neural IK"."""

from __future__ import annotations

from typing import Any

import bpy

from ...ik.training import state_path
from ..data import extract
from ..host import curve, jobs, memory, rig
from ..host.panels import Panel, paragraph


class NEURAL_IK_PT_main(Panel, bpy.types.Panel):
    """The buttons of every day."""

    bl_label = "Neural IK"

    def draw(self, context: bpy.types.Context) -> None:
        """What is where, and the way from data to tests."""
        layout = self.layout
        buttons = layout.column()
        buttons.operator("neural_ik.load_data", icon="IMPORT")
        buttons.operator("neural_ik.load_weights", icon="IMPORT")
        buttons.operator("neural_ik.run_tests", icon="CHECKMARK")
        _running(layout, context)
        _in_memory(layout, context)
        _results(layout)


class NEURAL_IK_PT_data(Panel, bpy.types.Panel):
    """From actions to poses on disk."""

    bl_label = "New Data"
    bl_parent_id = "NEURAL_IK_PT_main"

    def draw(self, context: bpy.types.Context) -> None:
        """Extract and save."""
        column = self.layout.column()
        column.operator("neural_ik.import_mocap", icon="FILE_MOVIE")
        column.operator("neural_ik.extract_data", icon="ARMATURE_DATA")
        column.operator("neural_ik.save_data", icon="FILE_TICK")
        column.operator("neural_ik.add_demo_character", icon="OUTLINER_OB_ARMATURE")


class NEURAL_IK_PT_actions(Panel, bpy.types.Panel):
    """Which actions, and how they are sampled."""

    bl_label = "Actions"
    bl_parent_id = "NEURAL_IK_PT_data"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: bpy.types.Context) -> None:
        """The list and the options."""
        settings = context.scene.neural_ik
        layout = self.layout
        layout.template_list("NEURAL_IK_UL_actions", "", bpy.data, "actions", settings, "action_index", rows=4)
        layout.use_property_split = True
        layout.use_property_decorate = False
        column = layout.column()
        column.prop(settings, "step")
        column.prop(settings, "use_range")
        if settings.use_range:
            column.prop(settings, "first")
            column.prop(settings, "last")
        column.prop(settings, "root_motion")
        column.prop(settings, "nla")


class NEURAL_IK_UL_actions(bpy.types.UIList):
    """The character's actions with their ticks and task types."""

    def draw_item(self, context, layout, data, item, icon, active_data, active_property, index=0, flt_flag=0):  # type: ignore[no-untyped-def]
        """One action."""
        row = layout.row(align=True)
        row.prop(item.neural_ik, "use", text="")
        row.label(text=item.name)
        row.prop(item.neural_ik, "task", text="")

    def filter_items(self, context, source, property):  # type: ignore[no-untyped-def]
        """Only what moves the character."""
        actions = getattr(source, property)
        try:
            own = {a.name for a in extract.moving_actions(rig.find(context))}
        except ValueError:
            own = set()
        word = self.filter_name.lower()
        shown = [self.bitflag_filter_item if a.name in own and word in a.name.lower() else 0 for a in actions]
        return shown, []


class NEURAL_IK_PT_training(Panel, bpy.types.Panel):
    """From poses on disk to weights."""

    bl_label = "Training"
    bl_parent_id = "NEURAL_IK_PT_main"

    def draw(self, context: bpy.types.Context) -> None:
        """Train here, or in a terminal."""
        layout = self.layout
        column = layout.column()
        row = column.row(align=True)
        row.operator("neural_ik.train", icon="PLAY")
        if state_path(memory.weights_path()).exists():
            row.operator("neural_ik.train", text="Resume", icon="FILE_REFRESH").resume = True
        column.operator("neural_ik.show_path", icon="CONSOLE")
        column.operator("neural_ik.reset_weights", icon="TRASH")
        layout.prop(context.scene.neural_ik, "epochs")
        if memory.memory.training and jobs.running is None:
            _training(layout.box().column(align=True), context)


def _running(layout: Any, context: bpy.types.Context) -> None:
    job = jobs.running
    if job is None:
        return
    box = layout.box().column(align=True)
    done = job.progress.done / max(1, job.progress.total)
    box.progress(factor=done, text=f"{job.label}: {job.progress.done} of {job.progress.total}")
    row = box.row()
    row.label(text="Stopping" if job.cancelling else "cancels", icon="EVENT_ESC")
    if job.passes_events:  # else the mouse is not listened to
        row.operator("neural_ik.stop", icon="X")
    if job.passes_events:
        _training(box, context)
    elif job.progress.text:
        box.label(text=job.progress.text, icon="BLANK1")


def _training(box: Any, context: bpy.types.Context) -> None:
    """What the trainer said last, and its curve."""
    paragraph(box, memory.memory.training, context)
    drawn = curve.icon(memory.memory.curve)
    if drawn:
        box.template_icon(icon_value=drawn, scale=5)


def _in_memory(layout: Any, context: bpy.types.Context) -> None:
    keep = memory.memory
    box = layout.box().column(align=True)
    try:
        box.label(text=f"Character: {rig.find(context).name}", icon="ARMATURE_DATA")
    except ValueError as error:
        paragraph(box, f"Character: {error}", context)
    if keep.poses is None:
        box.label(text="No poses in memory", icon="ACTION")
    else:
        star = " (not saved)" if keep.unsaved else ""
        box.label(text=f"{keep.poses.frames} poses, {len(keep.poses.clip_names)} actions{star}", icon="ACTION")
        paragraph(box, keep.poses_from, context, "BLANK1")
    if keep.network is None:
        box.label(text="No weights in memory", icon="NETWORK_DRIVE")
    else:
        box.label(text=f"Weights: {keep.network_from}", icon="NETWORK_DRIVE")
        if keep.trained:
            box.label(text=f"trained {keep.trained}", icon="BLANK1")


def _results(layout: Any) -> None:
    if not memory.memory.results:
        return
    box = layout.box().column(align=True)
    for line in memory.memory.results:
        box.label(text=line.text, icon="BLANK1" if line.passed is None else "CHECKMARK" if line.passed else "X")


_classes = (NEURAL_IK_UL_actions, NEURAL_IK_PT_main, NEURAL_IK_PT_data, NEURAL_IK_PT_actions, NEURAL_IK_PT_training)


def register() -> None:
    """Register the panels."""
    for cls in _classes:
        bpy.utils.register_class(cls)


def unregister() -> None:
    """Take them out."""
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
