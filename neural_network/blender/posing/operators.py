# SPDX-License-Identifier: GPL-3.0-or-later
"""The operators of Live IK."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
import numpy as np
from bpy.props import BoolProperty, EnumProperty, IntProperty, StringProperty

from ...core import rotations
from ...core.messages import counted
from ...core.skeleton import mirrored_bones
from ..host import actions, jobs, rig, rig_checks, runtime
from ..host.buttons import Button
from ..host.jobs import Progress
from . import baking, keying, live_ik, pose_writing, scene_targets, solving
from .planted_feet import Skate
from .properties import BAKE_INTO, HOLD_FEET, MODES
from .state import LiveCharacter, linked_note, settings_of, unsolvable

NOT_LIVE = "no character is live: press Live IK first"
CANNOT_SOLVE = "this character can no longer be solved: Cancel, then start Live IK again"


class _NeedsLive(Button):
    """An operator on a character under Live IK."""

    beside_training = True

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No character is live, or several are and none is active."""
        if live_ik.active_collection(context) is not None:
            return ""
        if live_ik.collections():
            return "several characters are live: select a target of one of them"
        return linked_note() or NOT_LIVE

    @staticmethod
    def character(context: bpy.types.Context) -> tuple[bpy.types.Collection, Any, LiveCharacter]:
        """The collection, armature object and character. Raises ValueError if it can no longer be solved."""
        collection = live_ik.active_collection(context)
        assert collection is not None  # see why_not
        live = live_ik.live_of(collection)
        if live is None or live.suspended:
            raise ValueError(live.suspended if live is not None else unsolvable.get(collection.name, CANNOT_SOLVE))
        return collection, settings_of(collection).armature, live


class NEURAL_IK_OT_live_start(Button, bpy.types.Operator):
    """Add targets at the hands, feet, head and hips. Drag one, and the whole body follows"""

    bl_idname = "neural_ik.live_start"
    bl_label = "Live IK"
    bl_options = {"REGISTER", "UNDO"}
    beside_training = True

    all_on: BoolProperty(
        name="All Targets On",
        description="Switch every target on from the start, instead of only the feet",
    )
    mode: EnumProperty(name="Animation", description="How Live IK combines with the action", items=MODES)

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """No character is active, or it is live already."""
        try:
            ob = rig.find(context)
        except ValueError as error:
            active = live_ik.active_collection(context)
            live = settings_of(active).armature if active is not None else None
            return f"{live.name} is live already" if live is not None else str(error)
        return f"{ob.name} is live already: Apply or Cancel first" if live_ik.collection_of(ob) is not None else ""

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Start Live IK."""
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


class NEURAL_IK_OT_live_apply(_NeedsLive, bpy.types.Operator):
    """Keep the pose and remove the targets. With Auto Keying on, the pose is keyed too"""

    bl_idname = "neural_ik.live_apply"
    bl_label = "Apply"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Keep the pose."""
        collection = live_ik.active_collection(context)
        assert collection is not None  # see why_not
        ob, live = settings_of(collection).armature, live_ik.live_of(collection)
        keyed, failed = "", False
        if context.scene.tool_settings.use_keyframe_insert_auto and live is not None and not live.suspended:
            try:
                if live.problem:
                    raise ValueError(live.problem)
                keyed = f"; {counted(keying.key(context, ob, live.rig, keying.selection_mask(live)), 'channel')} keyed"
            except (ValueError, RuntimeError, TypeError) as error:
                keyed, failed = f", but not keyed: {error}", True
        live_ik.end(context, collection, keep=True)
        self.report({"WARNING" if failed else "INFO"}, f"Pose applied{keyed}")
        jobs.redraw()
        return {"FINISHED"}


class NEURAL_IK_OT_live_cancel(_NeedsLive, bpy.types.Operator):
    """Restore every bone to its pose before Live IK, and remove the targets"""

    bl_idname = "neural_ik.live_cancel"
    bl_label = "Cancel"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def why_not(cls, context: bpy.types.Context) -> str:
        """The animation is playing, which Esc stops first."""
        if context.screen is not None and context.screen.is_animation_playing:
            return "the animation is playing: stop it first"
        return super().why_not(context)

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Restore the pose."""
        collection = live_ik.active_collection(context)
        assert collection is not None  # see why_not
        live_ik.end(context, collection, keep=False)
        self.report({"INFO"}, "Pose restored")
        jobs.redraw()
        return {"FINISHED"}


class NEURAL_IK_OT_live_key(_NeedsLive, bpy.types.Operator):
    """Key the pose on the current frame with the active keying set. Live IK stays on"""

    bl_idname = "neural_ik.live_key"
    bl_label = "Key"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Key the pose; Cancel then restores the keyed pose, and other frames stay corrected by the targets."""
        try:
            collection, ob, live = self.character(context)
            if live.problem:
                raise ValueError(f"the pose is not solved, so that nothing was keyed: {live.problem}")
            done = keying.key(context, ob, live.rig, keying.selection_mask(live))
        except ValueError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        except (RuntimeError, TypeError) as error:  # raised by Blender for keying sets with invalid paths
            self.report({"ERROR"}, f"the keying set cannot be keyed: {error}")
            return {"CANCELLED"}
        if not done:
            self.report({"WARNING"}, "the active keying set has no channels of these bones")
            return {"CANCELLED"}
        solving.key_frame(live, collection, ob)
        self.report({"INFO"}, f"{counted(done, 'channel')} keyed on frame {context.scene.frame_current}")
        return {"FINISHED"}


class NEURAL_IK_OT_live_bake(jobs.Pumped, _NeedsLive, bpy.types.Operator):
    """Solve every frame of a range, write the poses as keys, and remove the targets"""

    bl_idname = "neural_ik.live_bake"
    bl_label = "Bake"
    beside_training = False
    bl_options = {"REGISTER", "UNDO"}

    first: IntProperty(
        name="Start", description="First frame. If both are 0, the scene's range is baked", options={"SKIP_SAVE"}
    )
    last: IntProperty(
        name="End", description="Last frame. If both are 0, the scene's range is baked", options={"SKIP_SAVE"}
    )
    step: IntProperty(name="Step", description="Number of frames from one key to the next", default=1, min=1)
    into: EnumProperty(name="Bake To", description="Where the keys are written", items=BAKE_INTO)
    hold_feet: BoolProperty(name="Lock Planted Feet", description=HOLD_FEET)
    keep_live: BoolProperty(name="Keep Targets", description="Keep Live IK on after baking")
    panel = jobs.POSE

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """Bake the range."""
        collection = live_ik.active_collection(context)
        assert collection is not None  # see why_not
        self.target = collection.name
        scene = context.scene
        first, last = (self.first, self.last) if self.first or self.last else (scene.frame_start, scene.frame_end)
        return baking.bake(context, collection, first, last, self.step, self.into, self.hold_feet)

    def finish(self, context: bpy.types.Context, result: Skate) -> str:
        """Remove the targets; returns how far planted feet slide."""
        collection = bpy.data.collections.get(self.target)
        if collection is not None and not self.keep_live:
            live_ik.end(context, collection, keep=True)
            scene = context.scene
            scene.frame_set(scene.frame_current, subframe=scene.frame_subframe)  # show the keys
        elif collection is not None:
            live = live_ik.live_of(collection)
            if live is not None:
                solving.rebase(live, collection, settings_of(collection).armature, also_before=True)
        if not result.frames:
            return "Baked; no foot is planted in this range"
        before, after = result.before * 1000, result.after * 1000
        return f"Baked; planted feet slide {after:.2f} mm per frame (before: {before:.2f} mm)"


class NEURAL_IK_OT_live_reset(_NeedsLive, bpy.types.Operator):
    """Move all targets back to the pose before Live IK, and add deleted ones again"""

    bl_idname = "neural_ik.live_reset"
    bl_label = "Reset Targets"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Move them back."""
        try:
            collection, ob, live = self.character(context)
        except ValueError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        scene_targets.add_targets(context, collection, live, ob)
        scene_targets.read_settings(live, collection)
        scene_targets.reset(live, ob)
        live.solved_for = None
        live.dirty = True
        context.view_layer.update()
        return {"FINISHED"}


class NEURAL_IK_OT_live_flip(_NeedsLive, bpy.types.Operator):
    """Mirror the pose, or copy one side of it to the other"""

    bl_idname = "neural_ik.live_flip"
    bl_label = "Flip Pose"
    bl_options = {"REGISTER", "UNDO"}

    side: EnumProperty(
        name="Side",
        items=[
            ("FLIP", "Flip", "Swap left and right"),
            ("LEFT", "Left to Right", "Copy the left side, mirrored, to the right"),
            ("RIGHT", "Right to Left", "Copy the right side, mirrored, to the left"),
        ],
    )

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Flip the pose, and make the flipped pose the base pose."""
        try:
            collection, ob, live = self.character(context)
        except ValueError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        skeleton = live.rig.skeleton
        partner = mirrored_bones(skeleton)
        rot, root = rig_checks.pose_of(ob, live.rig, runtime.snapshot(ob))
        core = skeleton.to_core(rot)
        mirrored = core[partner] * [1, -1, -1]
        position = root @ skeleton.axes.T * [-1, 1, 1] @ skeleton.axes
        if self.side != "FLIP":
            names = [name.lower() for name in live.rig.roles or skeleton.names]
            replaced = "right" if self.side == "LEFT" else "left"
            mask = np.array([name.startswith(replaced) for name in names])
            mirrored, position = np.where(mask[:, None], mirrored, core), root
        flipped = rotations.quaternion_from_axis_angle(skeleton.from_core(mirrored))
        pose_writing.write(ob, live.rig, flipped, position, direct=live.direct)
        solving.rebase(live, collection, ob, also_before=False)
        scene_targets.reset(live, ob)
        context.view_layer.update()
        scene_targets.accept_current(live, ob)
        return {"FINISHED"}


class NEURAL_IK_OT_live_jump(_NeedsLive, bpy.types.Operator):
    """Go to the training frame nearest to this pose: assign its action and set the current frame"""

    bl_idname = "neural_ik.live_jump"
    bl_label = "Go to Nearest Training Frame"
    bl_options = {"REGISTER", "UNDO"}

    keep_action: BoolProperty(
        name="Keep Action", description="Only report the frame, without going there", options={"SKIP_SAVE"}
    )
    found: StringProperty(name="Nearest Frame", options={"HIDDEN", "SKIP_SAVE"})

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Report the frame, and go there."""
        try:
            _, ob, live = self.character(context)
        except ValueError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        nearest = live_ik.explain(live)
        if nearest is None or not nearest.clip:
            self.report({"WARNING"}, "no nearest frame: move a target first, with weights that store training frames")
            return {"CANCELLED"}
        file: Any = bpy.data
        action = file.actions.get(nearest.clip)
        self.found = f"{nearest.clip}, frame {nearest.frame}"
        if action is None:
            self.report({"WARNING"}, f"the nearest frame is {self.found}, but this file has no such action")
            return {"CANCELLED"}
        if not self.keep_action:
            slots = actions.slots_for(action, ob)
            data = ob.animation_data or ob.animation_data_create()
            if data.use_tweak_mode:
                self.report({"ERROR"}, "an NLA strip is being tweaked: leave Tweak Mode first (Tab in the NLA editor)")
                return {"CANCELLED"}
            old = data.action
            actions.assign(data, action, slots[0] if slots else None)
            if old != action:
                actions.keep(old)
            context.scene.frame_set(int(action.frame_range[0]) + nearest.frame)
        self.report({"INFO"}, f"Nearest training frame: {self.found}")
        return {"FINISHED"}


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
    """Register the operators, and Esc in the 3D Viewport as Cancel."""
    for cls in _classes:
        bpy.utils.register_class(cls)
    keys = bpy.context.window_manager.keyconfigs.addon
    if keys is not None:  # None in background mode
        keymap = keys.keymaps.new(name="3D View", space_type="VIEW_3D")
        _keymaps.append((keymap, keymap.keymap_items.new("neural_ik.live_cancel", "ESC", "PRESS")))


def unregister() -> None:
    """Unregister them."""
    for keymap, item in _keymaps:
        keymap.keymap_items.remove(item)
    _keymaps.clear()
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
