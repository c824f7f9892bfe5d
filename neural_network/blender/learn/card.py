# SPDX-License-Identifier: GPL-3.0-or-later
"""How good the weights in memory are: one line in the panel, and all of it one click away."""

from __future__ import annotations

from typing import Any

import bpy

from ...core.messages import counted
from ...ik import opinion
from ...ik import quality as suite
from ...learning.card import score_text, tests_from_json
from ..host import jobs, memory
from ..host.buttons import Button, write_text
from ..host.memory import Line
from ..host.panels import wrapped

REPORT = "Neural IK Tests"  # the text block
WIDTH = 560  # [pixels at scale 1] of the card
ICONS = {opinion.GOOD: "CHECKMARK", opinion.USABLE: "INFO", opinion.POOR: "ERROR"}
COLUMNS = ("On poses it never saw", "Targets [mm]", "Joints [mm]")


def keep(card: dict[str, Any]) -> None:
    """Hold a card: its opinion and its tests for the panel, and the full text in the text block, also printed."""
    write_text(REPORT, suite.text(card))
    memory.memory.card = card
    memory.memory.results = tuple(
        Line(f"{test.name}: {score_text(test)} ({test.threshold:g})", test.passed)
        for test in tests_from_json(card["tests"])
    )
    jobs.redraw()


def draw_line(layout: Any) -> None:
    """The opinion in one line, with the button that shows the rest; nothing where nothing was measured."""
    card = memory.memory.card
    if not card:
        return
    found = opinion.of(card)
    row = layout.row(align=True)
    row.alert = found.level == opinion.POOR
    row.label(text=found.line, icon=ICONS[found.level])
    row.operator("neural_ik.show_card", text="", icon="VIEWZOOM")


class NEURAL_IK_OT_show_card(Button, bpy.types.Operator):
    """Show how good the weights in memory are, why, and what to do; with all tests and figures"""

    bl_idname = "neural_ik.show_card"
    bl_label = "Show Card"
    bl_options = {"INTERNAL"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Nothing was measured."""
        return "" if memory.memory.card else "nothing was measured yet: Learn, or Run Tests"

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Say it in a script."""
        found = opinion.of(memory.memory.card)
        self.report(
            {"INFO"}, " ".join(part for part in (f"{found.level.capitalize()}.", found.reason, found.advice) if part)
        )
        return {"FINISHED"}

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Any:
        """Open the card."""
        if bpy.app.background:
            return self.execute(context)
        return context.window_manager.invoke_popup(self, width=WIDTH)

    def draw(self, context: bpy.types.Context) -> None:
        """The opinion, the tests, and the answers side by side."""
        card: dict[str, Any] = memory.memory.card
        found = opinion.of(card)
        layout: Any = self.layout
        column = layout.column(align=True)
        column.label(text=found.level.capitalize(), icon=ICONS[found.level])
        for text in (found.reason, found.advice):
            for line in wrapped(text, 80):
                column.label(text=line, icon="BLANK1")
        box = layout.box().column(align=True)
        for test in tests_from_json(card["tests"]):
            icon = {True: "CHECKMARK", False: "X", None: "REMOVE"}[test.passed]
            first, *rest = wrapped(f"{test.name}: {test.sentence}", 80)
            box.label(text=first, icon=icon)
            for line in rest:
                box.label(text=line, icon="BLANK1")
        box = layout.box().column(align=True)
        _row(box, *COLUMNS)
        for label, values in suite.rows_of(card):
            if values is not None:
                _row(box, label, f"{values['effector_mm']['mean']:.1f}", f"{values['mpjpe_mm']:.1f}")
        samples = card["samples"]
        layout.label(text=f"{counted(samples['test'], 'pose')} held out; everything is in the text block {REPORT}")


def _row(layout: Any, label: str, *values: str) -> None:
    split = layout.split(factor=0.68)
    split.label(text=label[0].upper() + label[1:])
    for value in values:
        cell = split.row()
        cell.alignment = "RIGHT"
        cell.label(text=value)


register, unregister = bpy.utils.register_classes_factory((NEURAL_IK_OT_show_card,))
