# SPDX-License-Identifier: GPL-3.0-or-later
"""The first panel of the tab "Neural IK": which character is meant, and what was understood of it."""

from __future__ import annotations

from typing import Any

import bpy

from ...core.messages import counted
from ...core.reference_rig import EFFECTORS
from ...rigs.roles import ROLE_NAMES
from . import characters, memory, rig
from .panels import CHARACTER, Panel, paragraph


class NEURAL_IK_PT_main(Panel, bpy.types.Panel):
    """The character in one line; the panels Roles and Effectors below it are for doubts."""

    bl_label = "Character"
    bl_order = CHARACTER

    def draw(self, context: bpy.types.Context) -> None:
        """Draw the panel."""
        layout: Any = self.layout
        column = layout.column(align=True)
        try:
            ob = rig.find(context)
        except ValueError as error:
            paragraph(column, str(error)[0].upper() + str(error)[1:], context, "INFO")
            if not any(o.type == "ARMATURE" for o in context.view_layer.objects):
                layout.operator("neural_ik.add_demo_character", icon="OUTLINER_OB_ARMATURE")
            return
        row = column.row(align=True)
        row.label(text=ob.name, icon="ARMATURE_DATA")
        row.operator("neural_ik.add_demo_character", text="", icon="OUTLINER_OB_ARMATURE", emboss=False)
        text, doubt = understood(context, ob)
        paragraph(column, text, context, "ERROR" if doubt else "BLANK1")


def understood(context: bpy.types.Context, ob: bpy.types.Object) -> tuple[str, bool]:
    """What is known of a character, in one line, and whether the user should look into Roles or Effectors."""
    subject = characters.drawn(context)
    if subject is None:
        try:
            rig.read(ob)
        except ValueError as error:
            return str(error), True
        return "Its bones are not known yet", False
    found = [role for role in ROLE_NAMES if role in subject.roles]
    skeleton = subject.skeleton
    if not set(rig.NEEDED) <= set(found):
        ends = counted(len(skeleton.effectors), "effector")
        return f"A creature: {ends}, {counted(len(skeleton.feet), 'foot', 'feet')}", False
    missing = [role for role in ROLE_NAMES if role not in found]
    if not missing:
        return f"A person: all {len(found)} roles found", False
    lost = [role for role in missing if role in EFFECTORS]
    if lost:
        return f"A person without {', '.join(lost)}: see Roles", True
    return f"A person: {len(found)} of {len(ROLE_NAMES)} roles, all it needs", False


def on_disk(context: bpy.types.Context) -> str:
    """What is saved for the active character, with dates; empty where nothing is, or there is no character."""
    subject = characters.drawn(context)
    if subject is None:
        return ""
    own = characters.kept(subject)
    found = [("poses", own.poses), ("weights", own.weights(characters.IK))]
    return ", ".join(f"{what} {date}" for what, path in found if (date := memory.written(path)))


def in_memory(layout: Any, context: bpy.types.Context) -> None:
    """Draw which poses and weights are in memory, and why not the character's own."""
    keep = memory.memory
    column = layout.column(align=True)
    ob = characters.active_object(context)
    own = keep.network is not None and ob is not None and keep.network_from == ob.name
    if keep.poses is not None:
        star = " (not saved)" if keep.unsaved else ", own weights" if own else ""
        paragraph(column, f"{counted(keep.poses.frames, 'pose')} in memory{star}", context, "ACTION")
        paragraph(column, keep.poses_note, context, "BLANK1")
    if keep.network is not None and not (own and keep.poses is not None and not keep.unsaved):
        paragraph(column, f"Weights: {'own' if own else keep.network_from}", context, "NETWORK_DRIVE")
        paragraph(column, keep.network_note, context, "BLANK1")


register, unregister = bpy.utils.register_classes_factory((NEURAL_IK_PT_main,))  # before those that hang below it
