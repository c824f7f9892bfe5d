# SPDX-License-Identifier: GPL-3.0-or-later
"""What the panels of the extension share."""

from __future__ import annotations

from typing import Any

import bpy

from . import rig

TAB = "Neural IK"


class Panel:
    """Mixin that puts a panel into the extension's tab of the sidebar."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = TAB


class CharacterPanel(Panel):
    """Mixin for a closed panel below the main one that is only there if there is a character."""

    bl_parent_id = "NEURAL_IK_PT_main"
    bl_options = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Only if there is a character."""
        try:
            rig.find(context)
        except ValueError:
            return False
        return True


def paragraph(layout: bpy.types.UILayout, text: str, context: bpy.types.Context, icon: Any = "NONE") -> None:
    """Draw text over as many lines as it needs at the sidebar's width; nothing for an empty one."""
    width = (
        max(20, int(context.region.width / (7.5 * context.preferences.system.ui_scale)) - 4) if context.region else 40
    )
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            layout.label(text=line, icon=icon)
            line = word
        else:
            line = f"{line} {word}".strip()
    if line:
        layout.label(text=line, icon=icon)
