# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK's pose as keys: on one frame as the keying set says, or baked over a range."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
import numpy as np

from ...core import rotations
from ..host import actions as blender_actions
from ..host import control_rigs, keyframes, rig_checks, runtime
from ..host.control_rigs import ControlRig
from ..host.jobs import Progress
from ..host.rig import Rig
from . import live_ik, pose_writing, standing_feet
from .standing_feet import Skate
from .state import Live, settings_of

_KINDS = {  # what Blender's own keying sets key of a bone
    "Location": ("location",),
    "Rotation": ("rotation",),
    "Scaling": ("scale",),
    "LocRot": ("location", "rotation"),
    "LocRotScale": ("location", "rotation", "scale"),
    "LocScale": ("location", "scale"),
    "RotScale": ("rotation", "scale"),
    "BUILTIN_KSI_DeltaLocation": ("location",),
    "WholeCharacter": ("location", "rotation", "scale"),
    "WholeCharacterSelected": ("location", "rotation", "scale"),
}


def key(context: bpy.types.Context, ob: bpy.types.Object, rig: Rig, mask: np.ndarray | None = None) -> int:
    """Key the controlled bones on the current frame as the active keying set says; returns the number of channels keyed.

    Without a keying set: the rotation of every bone, and the root's place. A keying set made by hand keys its own paths.
    ``mask`` (J) leaves bones out.
    """
    scene: Any = context.scene
    active = scene.keying_sets.active
    options = _options(context)
    if active is not None and active.is_path_absolute:
        done = 0
        for path in active.paths:
            if path.id is not None:
                index = -1 if path.use_entire_array else path.array_index
                done += bool(path.id.keyframe_insert(path.data_path, index=index, options=options))
        return done
    name = active.bl_idname if active is not None else ""
    kinds = _KINDS.get(name, _KINDS.get(name.removeprefix("BUILTIN_KSI_"), ("root", "rotation")))
    there = _existing(ob) if name == "Available" else None
    done = 0
    rooted = control_rigs.with_place(rig)
    for bone in _chosen(rig, mask):
        pb = ob.pose.bones[bone]
        channels = [runtime.rotation_channel(pb.rotation_mode)] if "rotation" in kinds or there is not None else []
        if "location" in kinds or (bone in rooted and ("root" in kinds or there is not None)):
            channels.append("location")
        if "scale" in kinds:
            channels.append("scale")
        for channel in channels:
            if channel == "location" and rig.connected[bone]:
                continue
            if there is not None and keyframes.bone_path(pb.name, channel) not in there:
                continue
            done += bool(pb.keyframe_insert(channel, group=pb.name, options=options))
    for name in rig.switches if done and isinstance(rig, ControlRig) else ():
        done += bool(ob.pose.bones[name].keyframe_insert(f'["{control_rigs.SWITCH}"]', group=name, options=options))
    return done


def _chosen(rig: Rig, mask: np.ndarray | None) -> list[int]:
    """The bones to key, among all; with ``mask`` (J) those that belong to the controlled bones chosen."""
    if mask is None:
        return control_rigs.written(rig)
    if isinstance(rig, ControlRig):
        return [handle.bone for handle in rig.handles if mask[handle.joint]]
    return rig.index[mask].tolist()


def _options(context: bpy.types.Context) -> set[Any]:
    """As the user has set keying up."""
    edit: Any = context.preferences.edit
    tools: Any = context.scene.tool_settings
    out: set[Any] = set()
    if getattr(edit, "use_keyframe_insert_needed", False):
        out.add("INSERTKEY_NEEDED")
    if tools.use_keyframe_insert_auto and getattr(tools, "auto_keying_mode", "") == "REPLACE_KEYS":
        out.add("INSERTKEY_REPLACE")
    if getattr(tools, "use_keyframe_cycle_aware", False):
        out.add("INSERTKEY_CYCLE_AWARE")
    return out


def _existing(ob: bpy.types.Object) -> set[str]:
    data: Any = ob.animation_data
    if data is None or data.action is None:
        return set()
    slot = data.action_slot if blender_actions.SLOTTED else None
    return {curve.data_path for curve in blender_actions.curves(data.action, slot)}


# ---- baking


def bake(
    context: bpy.types.Context,
    collection: bpy.types.Collection,
    first: int,
    last: int,
    step: int = 1,
    into: str = "ACTION",
    hold_feet: bool = False,
) -> Generator[Progress, None, Skate]:
    """Solve every frame of a range and write it as keys; yields Progress, returns the foot skate.

    ``hold_feet``: feet whose targets are on do not slide while they stand; frames are then solved twice.

    ``into``: ACTION, keys in the assigned action (a new one where there is none); NEW, a copy of it, which is then
    assigned; NLA, an action of its own on a track above everything. Nothing is written before all frames are solved;
    frame and pose are put back if the generator is closed before. Raises ValueError in words.
    """
    if last < first:
        raise ValueError(f"the range ends at {last}, before it begins at {first}")
    if step < 1:
        raise ValueError(f"step: expected a whole number of frames from 1 on, got {step}")
    live = live_ik.live_of(collection)
    ob: Any = settings_of(collection).armature
    if live is None or ob is None:
        raise ValueError("nothing to bake: start Live IK first")
    frames = list(range(first, last + 1, step))
    scene: Any = context.scene
    back = scene.frame_current, scene.frame_subframe
    rows = np.empty((len(frames), len(live.rig.bones), 4))
    places = np.empty((len(frames), len(live.rig.bones), 3), np.float32)
    feet = np.empty((2, len(frames), len(live.rig.skeleton.feet), 2, 3))
    seconds = step * scene.render.fps_base / scene.render.fps
    hidden = _take_off_meshes(scene, ob)

    def solve(i: int) -> None:
        scene.frame_set(frames[i])
        if live.problem:
            raise ValueError(f"frame {frames[i]}: {live.problem}")
        channels = runtime.snapshot(ob)
        rows[i] = rig_checks.own_quaternions(live.rig, channels, list(range(len(live.rig.bones))))
        places[i] = channels["location"].reshape(-1, 3)
        feet[0, i] = standing_feet.places(live, ob, live.base)
        feet[1, i] = standing_feet.places(live, ob, channels)

    try:
        for i, frame in enumerate(frames):
            solve(i)
            yield Progress(i + 1, (1 + hold_feet) * len(frames) + 1, f"frame {frame}")
        stands = standing_feet.standing(live.rig.skeleton, feet[0], seconds)
        moves = standing_feet.shifts(stands, feet[1], seconds) if hold_feet else np.zeros((len(frames), 0, 3))
        for i in np.flatnonzero(np.abs(moves).max(axis=(1, 2), initial=0) > standing_feet.UNSEEN).tolist():
            live.shift = _for_effectors(live, moves[i])
            solve(i)
            yield Progress(len(frames) + i + 1, 2 * len(frames) + 1, f"frame {frames[i]}, standing feet")
    finally:
        live.shift = None
        for name, modifier in hidden:
            other: Any = bpy.data.objects.get(name)
            if other is not None and modifier in other.modifiers:
                other.modifiers[modifier].show_viewport = True
        scene.frame_set(back[0], subframe=back[1])
    _write(ob, live, np.array(frames, np.float32), rows, places, into)
    total = (1 + hold_feet) * len(frames) + 1
    yield Progress(total, total, "keys written")
    return standing_feet.skate(stands, feet[0], feet[1])


def _for_effectors(live: Live, moves: np.ndarray) -> np.ndarray:
    """(E, 3) [m, rig space] of how feet (feet, 3) [m, core axes] are moved."""
    skeleton = live.rig.skeleton
    out = np.zeros((len(skeleton.effectors), 3))
    for foot, move in zip(skeleton.feet, moves @ skeleton.axes, strict=True):
        out[skeleton.effectors.index(foot)] = move
    return out


def _take_off_meshes(scene: Any, ob: bpy.types.Object) -> list[tuple[str, str]]:
    """Skinning is most of a frame's time, and no frame is shown."""
    hidden = []
    for other in scene.objects:
        for modifier in other.modifiers:
            if modifier.type == "ARMATURE" and modifier.object == ob and modifier.show_viewport:
                modifier.show_viewport = False
                hidden.append((other.name, modifier.name))
    return hidden


def _write(ob: Any, live: Live, frames: np.ndarray, rows: np.ndarray, places: np.ndarray, into: str) -> None:
    """The keys."""
    data = ob.animation_data or ob.animation_data_create()
    old = data.action
    action, slot = old, data.action_slot if blender_actions.SLOTTED and old is not None else None
    if into == "NLA":
        action, slot = blender_actions.new(f"{old.name if old is not None else ob.name} Live IK", ob.name)
    elif into == "NEW" and old is not None:
        action = old.copy()
        action.name = f"{old.name} Live IK"
        if blender_actions.SLOTTED:
            slot = action.slots[list(old.slots).index(slot)] if slot is not None else None
    if action is None or (blender_actions.SLOTTED and slot is None):
        action, slot = blender_actions.new(f"{ob.name} Live IK", ob.name)
    mask = (
        pose_writing.selected(ob, live.rig)
        if settings_of(bpy.data.collections[live.collection]).selected_only
        else None
    )
    located = control_rigs.with_place(live.rig)
    channels = {}
    for bone in _chosen(live.rig, mask):
        name, mode = live.rig.bones[bone], live.rig.modes[bone]
        turns = rotations.continuous_quaternions(rows[:, bone : bone + 1])[:, 0]
        channels[name, runtime.rotation_channel(mode)] = runtime.in_mode(turns, mode)
        if bone in located:
            channels[name, "location"] = places[:, bone]
    for name in live.rig.switches if isinstance(live.rig, ControlRig) else ():
        channels[name, f'["{control_rigs.SWITCH}"]'] = np.ones((len(frames), 1))
    keyframes.write_bones(action, slot, frames, channels)
    if into == "NLA":
        _as_track(data, old, action, slot)
    else:
        blender_actions.assign(data, action, slot)


def _as_track(data: Any, old: Any, action: Any, slot: Any) -> None:
    """The assigned action becomes a strip, and the baked one a strip above it."""
    if old is not None:
        old_slot = data.action_slot if blender_actions.SLOTTED else None
        blender_actions.assign(data, None, None)
        _strip(data, old, old_slot)
    _strip(data, action, slot)
    data.use_nla = True


def _strip(data: Any, action: Any, slot: Any) -> None:
    track = data.nla_tracks.new()
    track.name = action.name
    strip = track.strips.new(action.name, int(action.frame_range[0]), action)
    if blender_actions.SLOTTED and slot is not None:
        strip.action_slot = slot
    strip.blend_type, strip.extrapolation = "REPLACE", "HOLD_FORWARD"
