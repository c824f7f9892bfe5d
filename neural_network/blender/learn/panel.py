# SPDX-License-Identifier: GPL-3.0-or-later
"""The panels Learn and More."""

from __future__ import annotations

from typing import Any

import bpy

from ...core.messages import counted
from ...learning.loop import state_path
from ..data import chosen
from ..host import characters, jobs, main_panel, memory
from ..host.panels import LEARN, MORE, Panel, paragraph, posing, running
from . import card, training


class NEURAL_IK_PT_learn(Panel, bpy.types.Panel):
    """One button from actions to weights, what it takes, and what is in memory."""

    bl_label = "Learn"
    bl_order = LEARN

    def draw(self, context: bpy.types.Context) -> None:
        """Learn; or, while it runs, its progress."""
        layout: Any = self.layout
        scene: Any = context.scene
        if not running(layout, context, jobs.LEARN):
            big = layout.column()
            big.scale_y = 1.4
            big.operator("neural_ik.learn", icon="PLAY")
            actions, poses = chosen.expected_soon(context)
            if actions and not posing(context):
                takes = training.in_words(training.seconds(poses, scene.neural_ik.epochs))
                text = f"{counted(actions, 'action')}, {counted(poses, 'pose')}: {takes}"
                layout.label(text=text, icon="TIME")
            elif (
                characters.active_object(context) is not None
                and not posing(context)
                and training.NEURAL_IK_OT_learn.why_not(context)
            ):
                paragraph(layout.column(align=True), "No action moves it yet. Live IK works at once", context, "INFO")
            if memory.memory.training.startswith(("Failed", "Ended early", "Cancelled")):
                paragraph(layout.column(align=True), memory.memory.training, context, "INFO")
        card.draw_line(layout)
        if posing(context):
            return
        main_panel.in_memory(layout, context)
        column = layout.column(align=True)
        column.operator("neural_ik.import_mocap", icon="FILE_MOVIE")
        if sum(ob.type == "ARMATURE" for ob in context.selected_objects) > 1:
            column.operator("neural_ik.carry_armature", icon="COPYDOWN")


class NEURAL_IK_PT_more(Panel, bpy.types.Panel):
    """The steps of Learn one by one, files, tests and the terminal."""

    bl_label = "More"
    bl_order = MORE

    def draw(self, context: bpy.types.Context) -> None:
        """Every button of the way from actions to tested weights."""
        layout: Any = self.layout
        scene: Any = context.scene
        steps = layout.column(align=True)
        steps.operator("neural_ik.extract_data", icon="ARMATURE_DATA")
        steps.operator("neural_ik.save_data", icon="FILE_TICK")
        row = steps.row(align=True)
        row.operator("neural_ik.train", icon="PLAY")
        subject = characters.drawn(context)
        if subject is not None and state_path(characters.kept(subject).weights(characters.IK)).exists():
            row.operator("neural_ik.train", text="Resume", icon="FILE_REFRESH").resume = True
        steps.prop(scene.neural_ik, "epochs")
        files = layout.column(align=True)
        for name in ("load_data", "load_weights"):
            row = files.row(align=True)
            row.operator(f"neural_ik.{name}", icon="IMPORT")
            row.operator(f"neural_ik.{name}", text="", icon="FILE_FOLDER").choose = True
        files.operator("neural_ik.run_tests", icon="CHECKMARK")
        files.operator("neural_ik.show_path", icon="CONSOLE")
        files.operator("neural_ik.reset_weights", icon="TRASH")
        saved = main_panel.on_disk(context)
        if saved:
            paragraph(layout.column(align=True), f"Saved: {saved}", context, "FILE_FOLDER")


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_PT_learn,
        NEURAL_IK_PT_more,
    )
)
