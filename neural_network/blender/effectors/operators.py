# SPDX-License-Identifier: GPL-3.0-or-later
"""The operators of the Effectors panel."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import StringProperty

from ...core.messages import counted
from ..host import jobs, rig
from ..host.buttons import Button, no_character
from .properties import add, lines


class _Edit(Button):
    """An operator that edits the effectors of the active character."""

    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """There is no character, or it is linked."""
        reason = no_character(context)
        if not reason and rig.find(context).library is not None:
            return (
                f"{rig.find(context).name} is linked: make a library override first (Object > Library Override > Make)"
            )
        return reason


class NEURAL_IK_OT_effectors_find(_Edit, bpy.types.Operator):
    """Find the ends of limbs, head, beak and tail, and fill the list with them"""

    bl_idname = "neural_ik.effectors_find"
    bl_label = "Find Effectors"

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Fill the list."""
        ob: Any = rig.find(context)
        try:
            found = rig.find_effectors(ob)
        except ValueError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        names = [pb.name for pb in ob.pose.bones]
        effectors = [names[e] for e in found.effectors if e != found.body]
        if not effectors:
            self.report({"ERROR"}, f"found no effectors among {counted(len(names), 'bone')}: add them yourself")
            return {"CANCELLED"}
        own = ob.neural_ik_ends
        own.effectors, own.body = "\n".join(effectors), names[found.body]
        own.feet = "\n".join(names[f] for f in found.feet)
        feet = counted(len(found.feet), "foot", "feet")
        self.report({"INFO"}, f"Found {counted(len(effectors), 'effector')}, among them {feet}; the body is {own.body}")
        return {"FINISHED"}


class NEURAL_IK_OT_effectors_add(_Edit, bpy.types.Operator):
    """Add the bones selected in Pose Mode to the effectors"""

    bl_idname = "neural_ik.effectors_add"
    bl_label = "Add Selected Bones"

    bones: StringProperty(
        name="Bones",
        description="Names of the bones to add, one per line. If empty, the selected bones",
        options={"SKIP_SAVE"},
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Add them."""
        ob: Any = rig.find(context)
        chosen = lines(self.bones) or [pb.name for pb in (context.selected_pose_bones or ()) if pb.id_data == ob]
        unknown = [name for name in chosen if name not in ob.data.bones]
        if not chosen or unknown:
            reason = (
                f"no bone called {', '.join(unknown)}" if unknown else "no bones selected: select some in Pose Mode"
            )
            self.report({"ERROR"}, f"{ob.name}: {reason}")
            return {"CANCELLED"}
        add(ob.neural_ik_ends, chosen)
        return {"FINISHED"}


class NEURAL_IK_OT_effectors_remove(_Edit, bpy.types.Operator):
    """Remove this effector from the list"""

    bl_idname = "neural_ik.effectors_remove"
    bl_label = "Remove Effector"

    bone: StringProperty(name="Bone", options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Remove it, from the feet too."""
        own: Any = rig.find(context).neural_ik_ends  # type: ignore[attr-defined]
        own.effectors, own.feet = (
            "\n".join(name for name in lines(text) if name != self.bone) for text in (own.effectors, own.feet)
        )
        return {"FINISHED"}


class NEURAL_IK_OT_effectors_toggle_foot(_Edit, bpy.types.Operator):
    """Toggle whether this effector is a foot, which stands on the ground"""

    bl_idname = "neural_ik.effectors_toggle_foot"
    bl_label = "Toggle Foot"

    bone: StringProperty(name="Bone", options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Toggle it."""
        own: Any = rig.find(context).neural_ik_ends  # type: ignore[attr-defined]
        feet = lines(own.feet)
        feet = [name for name in feet if name != self.bone] if self.bone in feet else [*feet, self.bone]
        own.feet = "\n".join(feet)
        return {"FINISHED"}


class NEURAL_IK_OT_effectors_clear(_Edit, bpy.types.Operator):
    """Clear the list, so that effectors are found automatically: by role for humans, by shape for creatures"""

    bl_idname = "neural_ik.effectors_clear"
    bl_label = "Clear Effectors"

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Clear it."""
        own: Any = rig.find(context).neural_ik_ends  # type: ignore[attr-defined]
        own.effectors, own.feet, own.body = "", "", ""
        jobs.redraw()
        return {"FINISHED"}


register, unregister = bpy.utils.register_classes_factory(
    (
        NEURAL_IK_OT_effectors_find,
        NEURAL_IK_OT_effectors_add,
        NEURAL_IK_OT_effectors_remove,
        NEURAL_IK_OT_effectors_toggle_foot,
        NEURAL_IK_OT_effectors_clear,
    )
)
