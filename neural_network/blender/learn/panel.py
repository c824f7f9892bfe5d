# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel Training."""

from __future__ import annotations

import bpy

from ...learning.loop import state_path
from ..host import characters, jobs, main_panel, memory
from ..host.panels import Panel


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
        subject = characters.drawn(context)
        if subject is not None and state_path(characters.kept(subject).weights(characters.IK)).exists():
            row.operator("neural_ik.train", text="Resume", icon="FILE_REFRESH").resume = True
        column.operator("neural_ik.show_path", icon="CONSOLE")
        column.operator("neural_ik.reset_weights", icon="TRASH")
        layout.prop(context.scene.neural_ik, "epochs")
        if memory.memory.training and jobs.running is None:
            main_panel.training(layout.box().column(align=True), context)


def register() -> None:
    """Register the panel."""
    bpy.utils.register_class(NEURAL_IK_PT_training)


def unregister() -> None:
    """Unregister it."""
    bpy.utils.unregister_class(NEURAL_IK_PT_training)
