# SPDX-License-Identifier: GPL-3.0-or-later
"""The buttons of Live IK: start, apply, cancel, key, bake, and what helps while it is on."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
import numpy as np
from bpy.props import BoolProperty, EnumProperty, IntProperty, StringProperty

from ...core import rotations
from ...core.skeleton import mirrored_bones
from ..host import jobs, rig, rig_checks, runtime
from ..host.buttons import Button
from ..host.jobs import Progress
from . import baking, live_ik, pose_writing, scene_targets
from .properties import BAKE_INTO, HOLD_FEET
from .standing_feet import Skate
from .state import settings_of

NOTHING_LIVE = "Live IK is not on: press Live IK first"


class _Living(Button):
    """A button that needs a character under Live IK."""

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """None is live, or it cannot be told which is meant."""
        if live_ik.chosen(context) is not None:
            return ""
        return (
            "several characters are live: click a target of the one you mean" if live_ik.collections() else NOTHING_LIVE
        )


class NEURAL_IK_OT_live_start(Button, bpy.types.Operator):
    """Put targets on hands, feet, head and hips: drag one, and the whole body follows"""

    bl_idname = "neural_ik.live_start"
    bl_label = "Live IK"
    bl_options = {"REGISTER", "UNDO"}

    all_on: BoolProperty(
        name="All Targets On",
        description="Every target holds the body from the start; else the feet do, and others once they are moved",
    )
    mode: EnumProperty(
        name="Over the Action",
        items=[
            ("OFFSET", "On Top", "Targets ride on the animation and change it"),
            ("INSTEAD", "Instead", "Targets stay where they are, whatever the animation does"),
        ],
    )

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No character, or it is live."""
        try:
            ob = rig.find(context)
        except ValueError as error:
            chosen = live_ik.chosen(context)
            return f"{settings_of(chosen).armature.name} is live already" if chosen is not None else str(error)
        return f"{ob.name} is live already: Apply or Cancel first" if live_ik.collection_of(ob) is not None else ""

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Start."""
        try:
            ob = rig.find(context)
            collection = live_ik.start(context, ob, self.all_on, self.mode)
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        live = live_ik.live_of(collection)
        notes = live.notes if live is not None else []
        self.report({"WARNING" if notes else "INFO"}, "; ".join(notes) or f"{ob.name} is live: move a target (G)")
        jobs.redraw()
        return {"FINISHED"}


class NEURAL_IK_OT_live_apply(_Living, bpy.types.Operator):
    """Keep the pose and remove the targets; with auto-keying on, it is keyed too"""

    bl_idname = "neural_ik.live_apply"
    bl_label = "Apply"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Keep the pose."""
        collection = live_ik.chosen(context)
        assert collection is not None  # see why_not
        ob, live = settings_of(collection).armature, live_ik.live_of(collection)
        keyed = ""
        if context.scene.tool_settings.use_keyframe_insert_auto and live is not None:
            keyed = f", {baking.key(context, ob, live.rig, _mask(collection, live))} channels keyed"
        live_ik.end(context, collection, keep=True)
        self.report({"INFO"}, f"The pose is kept{keyed}")
        jobs.redraw()
        return {"FINISHED"}


class NEURAL_IK_OT_live_cancel(_Living, bpy.types.Operator):
    """Put every bone back as it was before Live IK, and remove the targets"""

    bl_idname = "neural_ik.live_cancel"
    bl_label = "Cancel"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """Esc stops a playing animation first."""
        if context.screen is not None and context.screen.is_animation_playing:
            return "the animation plays: stop it first"
        return super().why_not(context)

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Go back."""
        collection = live_ik.chosen(context)
        assert collection is not None  # see why_not
        live_ik.end(context, collection, keep=False)
        self.report({"INFO"}, "Every bone is as it was before Live IK")
        jobs.redraw()
        return {"FINISHED"}


class NEURAL_IK_OT_live_key(_Living, bpy.types.Operator):
    """Key the pose on this frame, as the active keying set says; go on from there"""

    bl_idname = "neural_ik.live_key"
    bl_label = "Key"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Key; Cancel then goes back to the keyed pose."""
        collection = live_ik.chosen(context)
        assert collection is not None  # see why_not
        live = live_ik.live_of(collection)
        if live is None:
            self.report({"ERROR"}, "this character cannot be solved any more: Cancel, and start again")
            return {"CANCELLED"}
        ob = settings_of(collection).armature
        try:
            done = baking.key(context, ob, live.rig, _mask(collection, live))
        except (RuntimeError, TypeError) as error:  # what Blender says of a keying set whose paths lead nowhere
            self.report({"ERROR"}, f"the keying set cannot be keyed: {error}")
            return {"CANCELLED"}
        if not done:
            self.report({"WARNING"}, "the active keying set keys nothing of these bones")
            return {"CANCELLED"}
        live_ik.rebase(live, collection, ob, also_before=True)
        self.report({"INFO"}, f"{done} channels keyed on frame {context.scene.frame_current}")
        return {"FINISHED"}


class NEURAL_IK_OT_live_bake(jobs.Pumped, _Living, bpy.types.Operator):
    """Solve every frame of a range and write it as keys; the targets are then removed"""

    bl_idname = "neural_ik.live_bake"
    bl_label = "Bake"
    bl_options = {"REGISTER", "UNDO"}

    first: IntProperty(name="First", description="First frame; the scene's where both are 0", options={"SKIP_SAVE"})
    last: IntProperty(name="Last", description="Last frame; the scene's where both are 0", options={"SKIP_SAVE"})
    step: IntProperty(name="Step", description="Frames from one key to the next", default=1, min=1)
    into: EnumProperty(name="Into", items=BAKE_INTO)
    hold_feet: BoolProperty(name="Hold Standing Feet", description=HOLD_FEET)
    keep_live: BoolProperty(name="Stay Live", description="Leave the targets as they are")

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Bake."""
        collection = live_ik.chosen(context)
        assert collection is not None  # see why_not
        self.target = collection.name
        scene = context.scene
        first, last = (self.first, self.last) if self.first or self.last else (scene.frame_start, scene.frame_end)
        return baking.bake(context, collection, first, last, self.step, self.into, self.hold_feet)

    def finish(self, context: bpy.types.Context, result: Skate) -> str:
        """Say what came of it."""
        collection = bpy.data.collections.get(self.target)
        if collection is not None and not self.keep_live:
            live_ik.end(context, collection, keep=True)
            scene = context.scene
            scene.frame_set(scene.frame_current, subframe=scene.frame_subframe)  # now the keys show
        elif collection is not None:
            live = live_ik.live_of(collection)
            if live is not None:
                live_ik.rebase(live, collection, settings_of(collection).armature, also_before=True)
        if not result.frames:
            return "Baked; no foot stood on the floor"
        before, after = result.before * 1000, result.after * 1000
        return f"Baked; standing feet slide {after:.2f} mm a frame (before: {before:.2f} mm)"


class NEURAL_IK_OT_live_reset(_Living, bpy.types.Operator):
    """Put all targets back on the body as it was, and make deleted ones again"""

    bl_idname = "neural_ik.live_reset"
    bl_label = "Reset Targets"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Put them back."""
        collection = live_ik.chosen(context)
        assert collection is not None  # see why_not
        live, ob = live_ik.live_of(collection), settings_of(collection).armature
        if live is None:
            self.report({"ERROR"}, "this character cannot be solved any more: Cancel, and start again")
            return {"CANCELLED"}
        scene_targets.add_targets(context, collection, live, ob)
        scene_targets.refresh(live, collection)
        scene_targets.put_back_targets(live, ob)
        live.seen = None
        live.dirty = True
        context.view_layer.update()
        return {"FINISHED"}


class NEURAL_IK_OT_live_flip(_Living, bpy.types.Operator):
    """Mirror the pose, left for right; or carry one side over to the other"""

    bl_idname = "neural_ik.live_flip"
    bl_label = "Flip Pose"
    bl_options = {"REGISTER", "UNDO"}

    side: EnumProperty(
        name="Side",
        items=[
            ("FLIP", "Flip", "Left and right change places"),
            ("LEFT", "Left to Right", "The right side does as the left one"),
            ("RIGHT", "Right to Left", "The left side does as the right one"),
        ],
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Flip, and go on from there."""
        collection = live_ik.chosen(context)
        assert collection is not None  # see why_not
        live, ob = live_ik.live_of(collection), settings_of(collection).armature
        if live is None:
            self.report({"ERROR"}, "this character cannot be solved any more: Cancel, and start again")
            return {"CANCELLED"}
        skeleton = live.rig.skeleton
        partner = mirrored_bones(skeleton)
        rot, root = rig_checks.pose_of(ob, live.rig, runtime.snapshot(ob))
        core = skeleton.to_core(rot)
        mirrored = core[partner] * [1, -1, -1]
        place = root @ skeleton.axes.T * [-1, 1, 1] @ skeleton.axes
        if self.side != "FLIP":
            names = [name.lower() for name in live.rig.roles or skeleton.names]
            taken = "right" if self.side == "LEFT" else "left"
            other = np.array([name.startswith(taken) for name in names])
            mirrored, place = np.where(other[:, None], mirrored, core), root
        flipped = rotations.quaternion_from_axis_angle(skeleton.from_core(mirrored))
        pose_writing.write(ob, live.rig, flipped, place, plain=live.plain)
        live_ik.rebase(live, collection, ob, also_before=False)
        scene_targets.put_back_targets(live, ob)
        context.view_layer.update()
        scene_targets.take_as_they_are(live, ob)
        return {"FINISHED"}


class NEURAL_IK_OT_live_jump(_Living, bpy.types.Operator):
    """Go to the learned frame that this pose comes nearest to: its action is assigned, and the timeline set"""

    bl_idname = "neural_ik.live_jump"
    bl_label = "Show Nearest Learned Frame"
    bl_options = {"REGISTER", "UNDO"}

    keep_action: BoolProperty(name="Keep Action", description="Only say which frame it is", options={"SKIP_SAVE"})
    found: StringProperty(name="Found", options={"HIDDEN", "SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Jump."""
        collection = live_ik.chosen(context)
        assert collection is not None  # see why_not
        live, ob = live_ik.live_of(collection), settings_of(collection).armature
        why = live_ik.explain(live) if live is not None else None
        if why is None or not why.clip:
            self.report({"WARNING"}, "nothing to show: move a target first, with weights that remember their frames")
            return {"CANCELLED"}
        from ..host import actions as blender_actions

        file: Any = bpy.data
        action = file.actions.get(why.clip)
        self.found = f"{why.clip}, frame {why.frame}"
        if action is None:
            self.report({"WARNING"}, f"the nearest frame is {self.found}, but no such action is in this file")
            return {"CANCELLED"}
        if not self.keep_action:
            slots = blender_actions.slots_for(action, ob)
            data = ob.animation_data or ob.animation_data_create()
            blender_actions.assign(data, action, slots[0] if slots else None)
            context.scene.frame_set(int(action.frame_range[0]) + why.frame)
        self.report({"INFO"}, f"Nearest learned frame: {self.found}")
        return {"FINISHED"}


def _mask(collection: Any, live: live_ik.Live) -> np.ndarray | None:
    settings = settings_of(collection)
    return pose_writing.selected(settings.armature, live.rig) if settings.selected_only else None


_classes = (
    NEURAL_IK_OT_live_start,
    NEURAL_IK_OT_live_apply,
    NEURAL_IK_OT_live_cancel,
    NEURAL_IK_OT_live_key,
    NEURAL_IK_OT_live_bake,
    NEURAL_IK_OT_live_reset,
    NEURAL_IK_OT_live_flip,
    NEURAL_IK_OT_live_jump,
)
_keymaps: list[tuple[Any, Any]] = []


def register() -> None:
    """Register the buttons, and Esc in the 3D view."""
    for cls in _classes:
        bpy.utils.register_class(cls)
    keys = bpy.context.window_manager.keyconfigs.addon
    if keys is not None:  # there is none in the background
        keymap = keys.keymaps.new(name="3D View", space_type="VIEW_3D")
        _keymaps.append((keymap, keymap.keymap_items.new("neural_ik.live_cancel", "ESC", "PRESS")))


def unregister() -> None:
    """Take them out."""
    for keymap, item in _keymaps:
        keymap.keymap_items.remove(item)
    _keymaps.clear()
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
