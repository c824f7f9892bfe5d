# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operators of the extension share: reports, and a reason while they are disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bpy

from ...core.messages import show
from . import jobs, rig


def write_text(name: str, lines: list[str]) -> None:
    """Write a report into the text block of that name, and print it."""
    block = bpy.data.texts.get(name) or bpy.data.texts.new(name)
    block.from_string("\n".join(lines) + "\n")
    show("\n".join(lines))


def no_character(context: bpy.types.Context) -> str:
    """Why there is no character to work with; empty if there is one."""
    try:
        rig.find(context)
    except ValueError as error:
        return str(error)
    return ""


class Button(bpy.types.Operator if TYPE_CHECKING else object):
    """An operator that is disabled with the reason in its tooltip while it cannot work."""

    beside_training = False
    """It can be pressed while another process trains."""

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether the button can be pressed."""
        blocked = jobs.busy(beside=cls.beside_training)
        reason = f"{blocked} is running: wait, or press Esc" if blocked else cls.why_not(context)
        if reason:
            cls.poll_message_set(reason[0].upper() + reason[1:] + ".")
        return not reason

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Why it cannot be pressed, in words; empty if it can."""
        return ""


class CharacterButton(Button):
    """A button about the active character."""

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Why it cannot be pressed, in words; empty if it can."""
        return no_character(context)


class Deed(CharacterButton):
    """A button about the active character whose work is done at once."""

    def act(self, context: bpy.types.Context, ob: Any) -> str:
        """Do it for the armature object; returns what to report. ValueError and OSError are reported in their words."""
        raise NotImplementedError

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Find the character, do it, report."""
        try:
            words = self.act(context, rig.find(context))
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.report({"INFO"}, words)
        return {"FINISHED"}
