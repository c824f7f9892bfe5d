# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a creature is taken hold of: the user's effectors, feet and body bone, kept on the armature object.

Names stand in one text each, a line a bone: lists are empty in library overrides when a file is opened again.
"""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import PointerProperty, StringProperty

from ..host import jobs, rig
from ..host.buttons import Button, no_character

_OVERRIDE: Any = {"LIBRARY_OVERRIDABLE"}


def lines(text: str) -> list[str]:
    """The names in a text."""
    return [line for line in text.split("\n") if line]


def _picked(own: Any, context: Any) -> None:
    if own.pick:
        add(own, [own.pick])
        own["pick"] = ""
        own.pick = ""


class NEURAL_IK_Ends(bpy.types.PropertyGroup):
    """What the user chose on one armature object; without effectors they are found or proposed."""

    effectors: StringProperty(description="Names of the bones that can be pulled, one a line", override=_OVERRIDE)
    feet: StringProperty(description="Those of them that stand on the ground, one a line", override=_OVERRIDE)
    body: StringProperty(
        name="Body",
        description="The bone that all effectors hang below, and that is moved as the Hips are. Empty: where they meet",
        override=_OVERRIDE,
    )
    pick: StringProperty(name="Add", description="Choose a bone to add it", update=_picked, options={"SKIP_SAVE"})


def add(own: Any, names: list[str]) -> None:
    """More effectors, each once."""
    own.effectors = "\n".join(dict.fromkeys([*lines(own.effectors), *names]))


class _Ends(Button):
    """A button for a character whose file may be changed."""

    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No character, or a linked one."""
        reason = no_character(context)
        if not reason and rig.find(context).library is not None:
            return f"{rig.find(context).name} is linked: make a library override first (Object > Relations)"
        return reason


class NEURAL_IK_OT_ends_propose(_Ends, bpy.types.Operator):
    """Look for limbs, head, beak and tail, and list their ends: take out and add what you like"""

    bl_idname = "neural_ik.ends_propose"
    bl_label = "Propose"

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Fill the list."""
        ob: Any = rig.find(context)
        try:
            found = rig.find_ends(ob)
        except ValueError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        names = [pb.name for pb in ob.pose.bones]
        ends = [names[e] for e in found.effectors if e != found.body]
        if not ends:
            self.report(
                {"ERROR"}, f"nothing to take hold of was found among {len(names)} bones: add effectors yourself"
            )
            return {"CANCELLED"}
        own = ob.neural_ik_ends
        own.effectors, own.body = "\n".join(ends), names[found.body]
        own.feet = "\n".join(names[f] for f in found.feet)
        self.report({"INFO"}, f"{len(ends)} effectors, {len(found.feet)} of them feet; the body is {own.body}")
        return {"FINISHED"}


class NEURAL_IK_OT_ends_add(_Ends, bpy.types.Operator):
    """Add the bones that are selected in Pose Mode, or named, to the effectors"""

    bl_idname = "neural_ik.ends_add"
    bl_label = "Add Selected Bones"

    bones: StringProperty(
        name="Bones", description="Names, one a line; empty: the selected ones", options={"SKIP_SAVE"}
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Add them."""
        ob: Any = rig.find(context)
        chosen = lines(self.bones) or [pb.name for pb in (context.selected_pose_bones or ()) if pb.id_data == ob]
        unknown = [name for name in chosen if name not in ob.data.bones]
        if not chosen or unknown:
            what = (
                f"no bone called {', '.join(unknown)}" if unknown else "no bones selected: go to Pose Mode (Ctrl Tab)"
            )
            self.report({"ERROR"}, f"{ob.name}: {what}")
            return {"CANCELLED"}
        add(ob.neural_ik_ends, chosen)
        return {"FINISHED"}


class NEURAL_IK_OT_ends_remove(_Ends, bpy.types.Operator):
    """Take this effector out of the list"""

    bl_idname = "neural_ik.ends_remove"
    bl_label = "Remove Effector"

    bone: StringProperty(name="Bone", options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Take it out, as a foot too."""
        own: Any = rig.find(context).neural_ik_ends  # type: ignore[attr-defined]
        own.effectors, own.feet = (
            "\n".join(name for name in lines(text) if name != self.bone) for text in (own.effectors, own.feet)
        )
        return {"FINISHED"}


class NEURAL_IK_OT_ends_stand(_Ends, bpy.types.Operator):
    """Say that this effector stands on the ground, or that it does not"""

    bl_idname = "neural_ik.ends_stand"
    bl_label = "Stands on the Ground"

    bone: StringProperty(name="Bone", options={"SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Turn it over."""
        own: Any = rig.find(context).neural_ik_ends  # type: ignore[attr-defined]
        feet = lines(own.feet)
        feet = [name for name in feet if name != self.bone] if self.bone in feet else [*feet, self.bone]
        own.feet = "\n".join(feet)
        return {"FINISHED"}


class NEURAL_IK_OT_ends_clear(_Ends, bpy.types.Operator):
    """Forget the list: people are then known by their roles again, and creatures by what is proposed"""

    bl_idname = "neural_ik.ends_clear"
    bl_label = "Clear Effectors"

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Empty it."""
        own: Any = rig.find(context).neural_ik_ends  # type: ignore[attr-defined]
        own.effectors, own.feet, own.body = "", "", ""
        jobs.redraw()
        return {"FINISHED"}


_classes = (
    NEURAL_IK_Ends,
    NEURAL_IK_OT_ends_propose,
    NEURAL_IK_OT_ends_add,
    NEURAL_IK_OT_ends_remove,
    NEURAL_IK_OT_ends_stand,
    NEURAL_IK_OT_ends_clear,
)


def register() -> None:
    """Register the settings and buttons."""
    for cls in _classes:
        bpy.utils.register_class(cls)
    types: Any = bpy.types
    types.Object.neural_ik_ends = PointerProperty(type=NEURAL_IK_Ends, override=_OVERRIDE)


def unregister() -> None:
    """Take them out."""
    types: Any = bpy.types
    del types.Object.neural_ik_ends
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
