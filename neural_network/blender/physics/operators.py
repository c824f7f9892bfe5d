# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators: Make Physical, which shows its result as a ghost, and the balance score."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy

from ..host import ghost, jobs, rig, shown_motion
from ..host.buttons import Button, Deed, no_character
from ..host.ghost import Made
from ..host.jobs import Progress
from . import scores, weighing


class NEURAL_IK_OT_physics_mend(ghost.Maker, bpy.types.Operator):
    """Make feet stand and shift the body until the ground can carry its weight; shown as a ghost first"""

    bl_idname = "neural_ik.physics_mend"
    bl_label = "Make Physical"
    panel = jobs.PHYSICS

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Made]:
        """Mend the motion."""
        return weighing.mend(context)


class NEURAL_IK_OT_physics_balance(jobs.Pumped, Button, bpy.types.Operator):
    """Measure on every frame what the motion would need beyond what the ground gives, and draw it over the timeline"""

    bl_idname = "neural_ik.physics_balance"
    bl_label = "Balance"
    panel = jobs.PHYSICS

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Why it cannot be pressed, in words; empty if it can."""
        return no_character(context) or shown_motion.refusal(rig.find(context))

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, tuple[str, scores.Scores]]:
        """Measure."""
        return weighing.weigh(context)

    def finish(self, context: bpy.types.Context, result: tuple[str, scores.Scores]) -> str:
        """Keep the scores, which are drawn until the action changes."""
        name, found = result
        ob = bpy.data.objects.get((name, None))
        if ob is None:
            raise ValueError(f"{name} was deleted meanwhile")
        scores.keep(ob, found)
        return ". ".join(weighing.words(found))


class NEURAL_IK_OT_physics_worst(Deed, bpy.types.Operator):
    """Set the playhead to the frame with the worst balance score"""

    bl_idname = "neural_ik.physics_worst"
    bl_label = "Go to Worst Frame"

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Why it cannot be pressed, in words; empty if it can."""
        why = no_character(context)
        return why or ("" if scores.of(rig.find(context)) is not None else "no score is shown: press Balance first")

    def act(self, context: bpy.types.Context, ob: Any) -> str:
        """Go there."""
        found = scores.of(ob)
        if found is None:
            raise ValueError("no score is shown: press Balance first")
        scene: Any = context.scene
        scene.frame_set(found.first + int(found.score.argmax()))
        return f"Frame {scene.frame_current}: balance score {found.score.max():.2f} body weights"


class NEURAL_IK_OT_physics_hide(Deed, bpy.types.Operator):
    """Take the balance score away from the timeline"""

    bl_idname = "neural_ik.physics_hide"
    bl_label = "Hide Balance"

    def act(self, context: bpy.types.Context, ob: Any) -> str:
        """Forget it."""
        scores.forget()
        return "The balance score is hidden"


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_physics_mend,
        NEURAL_IK_OT_physics_balance,
        NEURAL_IK_OT_physics_worst,
        NEURAL_IK_OT_physics_hide,
    )
)
