# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators of Motion: Fill and Continue, each of which shows its result as a ghost, and Check."""

from __future__ import annotations

from collections.abc import Generator

import bpy

from ...core.messages import counted
from ...prediction.checking import Checked
from ..host import ghost, jobs
from ..host.buttons import CharacterButton, write_text
from ..host.ghost import Made
from ..host.jobs import Progress
from . import making


class NEURAL_IK_OT_motion_fill(ghost.Maker, bpy.types.Operator):
    """Fill in the frames between keyed poses, in the character's own way of moving; shown as a ghost first"""

    bl_idname = "neural_ik.motion_fill"
    bl_label = "Fill"
    panel = jobs.MOTION

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Made]:
        """Make the frames."""
        return making.fill(context)


class NEURAL_IK_OT_motion_continue(ghost.Maker, bpy.types.Operator):
    """Go on from the playhead, in the character's own way of moving; shown as a ghost first"""

    bl_idname = "neural_ik.motion_continue"
    bl_label = "Continue"
    panel = jobs.MOTION

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Made]:
        """Make the frames."""
        return making.go_on(context)


class NEURAL_IK_OT_motion_check(jobs.Pumped, CharacterButton, bpy.types.Operator):
    """Measure how far Fill and Continue can be trusted for this character: each of its own actions is left out in turn"""

    bl_idname = "neural_ik.motion_check"
    bl_label = "Check"
    panel = jobs.MOTION

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, tuple[str, Checked]]:
        """Measure."""
        return making.check(context)

    def finish(self, context: bpy.types.Context, result: tuple[str, Checked]) -> str:
        """Keep the figures for the panel, and write them into a text block."""
        name, found = result
        making.keep(name, found)
        actions, tries = found.counts
        head = f"{name}: {counted(tries, 'try', 'tries')} with {counted(actions, 'action')}, each left out in turn"
        write_text("Neural IK Motion Check", [head, *found.words])
        jobs.redraw()
        return ". ".join(word for word in found.words if word.startswith(("Fill", "Continue")))


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_motion_fill,
        NEURAL_IK_OT_motion_continue,
        NEURAL_IK_OT_motion_check,
    )
)
