# SPDX-License-Identifier: GPL-3.0-or-later
"""Panels: what every panel of the extension begins with."""

from __future__ import annotations

from typing import Any

import bpy

TAB = "Neural IK"


class Panel:
    """Where every panel of the extension stands."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = TAB


def paragraph(layout: bpy.types.UILayout, text: str, context: bpy.types.Context, icon: Any = "NONE") -> None:
    """Text over as many lines as the sidebar's width asks for."""
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
