# SPDX-License-Identifier: GPL-3.0-or-later
"""Buttons: what every operator of the extension does before and after its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bpy

from . import jobs, rig


def write_text(name: str, lines: list[str]) -> None:
    """A report for people: into the text block of that name, and printed."""
    block = bpy.data.texts.get(name) or bpy.data.texts.new(name)
    block.from_string("\n".join(lines) + "\n")
    print("\n".join(lines))


def no_character(context: bpy.types.Context) -> str:
    """Why no character can be worked with; empty where one can."""
    try:
        rig.find(context)
    except ValueError as error:
        return str(error)
    return ""


class Button(bpy.types.Operator if TYPE_CHECKING else object):
    """An operator that is disabled with the reason in its tooltip while it cannot work."""

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Blender asks whether the button can be pressed."""
        reason = f"{jobs.busy()} is running: wait, or press Esc" if jobs.busy() else cls.why_not(context)
        if reason:
            cls.poll_message_set(reason[0].upper() + reason[1:] + ".")
        return not reason

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """The reason, in words; empty where there is none."""
        return ""
