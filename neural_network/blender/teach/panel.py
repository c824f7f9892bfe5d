# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel Live Learning: learn while a rig moves, and let it drive."""

from __future__ import annotations

from typing import Any

import bpy

from ...core.messages import counted
from ..host import curve, jobs
from ..host.panels import TAB, TEACH, paragraph, running
from . import lessons
from .operators import STATUS_TEXTS
from .properties import settings
from .session import state

STATUS_ICONS = {
    "new": "RADIOBUT_OFF",
    "learning": "COLORSET_09_VEC",  # yellow
    "solving": "COLORSET_03_VEC",  # green
    "lost": "COLORSET_01_VEC",  # red
}


class NEURAL_IK_PT_teach(bpy.types.Panel):
    """Teach, listen, send, drive and record."""

    bl_label = "Live Learning"
    bl_order = TEACH
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = TAB
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context: bpy.types.Context) -> None:
        """Draw the panel, from top to bottom in the order of use."""
        layout, asked = self.layout, settings(context)
        running(layout, context, jobs.TEACH)
        _draw_teaching(layout, asked)
        _draw_lesson(layout, context)
        _draw_listening(layout, asked)
        _draw_sending(layout, asked)
        _draw_driving(layout, asked)
        _draw_recording(layout)
        if state.problem:
            paragraph(layout.box().column(align=True), state.problem, context, "ERROR")


def _draw_teaching(layout: Any, asked: Any) -> None:
    column = layout.column(align=True)
    column.operator("neural_ik.teach", icon="OUTLINER_OB_ARMATURE")
    row = column.row(align=True)
    row.prop(asked, "which", expand=True)
    column.prop(asked, "passes")
    column.prop(asked, "threshold")
    row = column.row(align=True)
    row.prop(asked, "go_on")
    row.operator("neural_ik.teach_forget", text="Forget", icon="TRASH")


def _draw_lesson(layout: Any, context: bpy.types.Context) -> None:
    """Status, error and curve of the lesson taught last."""
    lesson = state.lessons.get(state.latest)
    if lesson is None:
        return
    box = layout.box().column(align=True)
    status = lesson.status
    box.label(text=STATUS_TEXTS[status], icon=STATUS_ICONS[status])
    paragraph(box, f"{lesson.name}: {lessons.describe(lesson)}", context)
    last = lesson.curve[-1][0] if lesson.curve else 0.0
    points = [(frames / last, error) for frames, error in lesson.curve] if last else []
    drawn = curve.icon(points, "live")
    if drawn:
        box.template_icon(icon_value=drawn, scale=5)
    if lesson.trainee.poisoned:
        row = box.row(align=True)
        row.operator("neural_ik.lesson_undo", icon="LOOP_BACK")
        row.operator("neural_ik.lesson_accept", icon="CHECKMARK")


def _draw_listening(layout: Any, asked: Any) -> None:
    """The port, clients and last events."""
    column = layout.column(align=True)
    if state.server is None:
        column.operator("neural_ik.listen", icon="LINKED")
        column.prop(asked, "port")
        column.prop(asked, "local")
        row = column.row(align=True)
        row.prop(asked, "token")
        row.operator("neural_ik.new_token", text="", icon="FILE_REFRESH")
        return
    server = state.server
    column.operator("neural_ik.listen_stop", icon="UNLINKED")
    where = "any computer" if state.everywhere else "this computer"
    column.label(text=f"Port {server.port}, {where}, {counted(server.clients(), 'client')}")
    counts = counted(server.frames, "frame"), counted(server.predictions, "prediction"), counted(server.solves, "solve")
    column.label(text=", ".join(counts))
    for line in state.lines:
        column.label(text=line[:60])


def _draw_sending(layout: Any, asked: Any) -> None:
    column = layout.column(align=True)
    if state.send is None:
        column.operator("neural_ik.send_pose", icon="EXPORT")
        row = column.row(align=True)
        row.prop(asked, "vmc_host")
        row.prop(asked, "vmc_port")
        return
    column.operator("neural_ik.send_pose_stop", icon="CANCEL")
    column.label(text=f"{state.send.ob} to {state.send.address}")


def _draw_driving(layout: Any, asked: Any) -> None:
    column = layout.column(align=True)
    if state.drive is None:
        column.row(align=True).prop(asked, "source", expand=True)
        column.operator("neural_ik.drive", icon="PLAY")
        return
    column.operator("neural_ik.drive_stop", icon="PAUSE")
    waits = "Waiting for a client" if state.drive.source == "CLIENT" else "Waiting until the error is low enough"
    column.label(text=f"Driving {state.drive.ob}" if state.drive.in_control else waits)


def _draw_recording(layout: Any) -> None:
    if state.unwritten is not None:
        layout.operator("neural_ik.record_stop", text="Write Recording", icon="FILE_TICK")
        layout.label(text=f"{state.unwritten.ob}: not written yet: {counted(len(state.unwritten.frames), 'frame')}")
        return
    if state.record is None:
        layout.operator("neural_ik.record", icon="REC")
        return
    layout.operator("neural_ik.record_stop", icon="SNAP_FACE")
    layout.label(text=f"{counted(len(state.record.frames), 'frame')}")


register, unregister = bpy.utils.register_classes_factory((NEURAL_IK_PT_teach,))
