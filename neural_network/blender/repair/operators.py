# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators of Fix Feet: contacts as markers, and two repairs that show their result as a ghost."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
import numpy as np
from bpy.props import EnumProperty

from ...core.messages import counted
from ..host import contact_markers, current_action, ghost, jobs, rig, shown_motion
from ..host.buttons import Button, Deed, no_character
from ..host.ghost import Made
from ..host.jobs import Progress
from . import mending


class NEURAL_IK_OT_feet_contacts(jobs.Pumped, Button, bpy.types.Operator):
    """Mark on the timeline where feet come down and leave the floor; move or delete the markers where that is wrong"""

    bl_idname = "neural_ik.feet_contacts"
    bl_label = "Find Contacts"
    bl_options = {"REGISTER", "UNDO"}
    panel = jobs.FEET

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Why it cannot be pressed, in words; empty if it can."""
        return no_character(context) or shown_motion.refusal(rig.find(context))

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, tuple[str, int, np.ndarray]]:
        """Find them."""
        return mending.find(context)

    def finish(self, context: bpy.types.Context, result: tuple[str, int, np.ndarray]) -> str:
        """Mark them."""
        name, first, contact = result
        action = current_action.to_mark(bpy.data.objects[name])
        count = contact_markers.write(action, first, contact)
        return f"{counted(count, 'contact')} marked in {action.name}: Action editor, Marker, Show Pose Markers"


class NEURAL_IK_OT_feet_mark(Deed, bpy.types.Operator):
    """Mark on the frame of the playhead that a foot comes down or leaves the floor, or that a hand holds or lets go"""

    bl_idname = "neural_ik.feet_mark"
    bl_label = "Mark at Playhead"
    bl_options = {"REGISTER", "UNDO"}

    what: EnumProperty(name="What", items=[(name, name, f"Add the marker {name}") for name in contact_markers.NAMES])

    def act(self, context: bpy.types.Context, ob: Any) -> str:
        """Add the marker."""
        scene: Any = context.scene
        action = current_action.to_mark(ob)
        contact_markers.add(action, self.what, scene.frame_current)
        return f"{self.what} on frame {scene.frame_current} of {action.name}"


class NEURAL_IK_OT_feet_forget(Deed, bpy.types.Operator):
    """Remove the markers of contacts from the current action; Fix Feet then finds contacts itself"""

    bl_idname = "neural_ik.feet_forget"
    bl_label = "Remove Contact Markers"
    bl_options = {"REGISTER", "UNDO"}

    def act(self, context: bpy.types.Context, ob: Any) -> str:
        """Remove them."""
        return f"{counted(contact_markers.forget(current_action.to_mark(ob)), 'marker')} removed"


class NEURAL_IK_OT_feet_fix(ghost.Maker, bpy.types.Operator):
    """Make standing feet stand, without changing what is sound; shown as a ghost first"""

    bl_idname = "neural_ik.feet_fix"
    bl_label = "Fix Feet"
    panel = jobs.FEET

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Made]:
        """Fix them."""
        return mending.fix(context)


class NEURAL_IK_OT_feet_clean(ghost.Maker, bpy.types.Operator):
    """Take out tremble, dropped frames and drift, without pinning feet; shown as a ghost first"""

    bl_idname = "neural_ik.feet_clean"
    bl_label = "Clean"
    panel = jobs.FEET

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Made]:
        """Clean the motion."""
        return mending.clean(context)


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_feet_contacts,
        NEURAL_IK_OT_feet_mark,
        NEURAL_IK_OT_feet_forget,
        NEURAL_IK_OT_feet_fix,
        NEURAL_IK_OT_feet_clean,
    )
)
