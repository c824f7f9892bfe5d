# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators of Motion: Fill and Continue, each of which shows its result as a ghost."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy

from ..host import ghost, jobs
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


_classes: tuple[Any, ...] = (NEURAL_IK_OT_motion_fill, NEURAL_IK_OT_motion_continue)


def register() -> None:
    """Register the operators."""
    for cls in _classes:
        bpy.utils.register_class(cls)


def unregister() -> None:
    """Unregister them."""
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
