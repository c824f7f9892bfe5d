# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK's pose as keys: on one frame as the keying set says, or baked over a range."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from .. import rotations
from ..config import GROUND
from . import actions as blender_actions
from . import live_controls, live_ik, live_pose, live_rig, live_state, runtime
from .data import Progress
from .live_controls import ControlRig
from .live_state import Live, settings_of
from .rig import Rig

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
    rooted = live_controls.with_place(rig)
    for bone in _chosen(rig, mask):
        pb = ob.pose.bones[bone]
        channels = [live_rig.rotation_channel(pb.rotation_mode)] if "rotation" in kinds or there is not None else []
        if "location" in kinds or (bone in rooted and ("root" in kinds or there is not None)):
            channels.append("location")
        if "scale" in kinds:
            channels.append("scale")
        for channel in channels:
            if channel == "location" and rig.connected[bone]:
                continue
            if there is not None and f'pose.bones["{bpy.utils.escape_identifier(pb.name)}"].{channel}' not in there:
                continue
            done += bool(pb.keyframe_insert(channel, group=pb.name, options=options))
    for name in rig.switches if done and isinstance(rig, ControlRig) else ():
        done += bool(ob.pose.bones[name].keyframe_insert(f'["{live_controls.SWITCH}"]', group=name, options=options))
    return done


def _chosen(rig: Rig, mask: np.ndarray | None) -> list[int]:
    """The bones to key, among all; with ``mask`` (J) those that belong to the controlled bones chosen."""
    if mask is None:
        return live_controls.written(rig)
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


@dataclass(frozen=True)
class Skate:
    """How far feet slide while they stand, before and after."""

    before: float
    after: float
    """[m] mean way of a standing foot in one frame."""
    worst: float
    """[m] the longest such way after."""
    frames: int
    """Pairs of frames in which a foot stood."""


def bake(
    context: bpy.types.Context,
    collection: bpy.types.Collection,
    first: int,
    last: int,
    step: int = 1,
    into: str = "ACTION",
) -> Generator[Progress, None, Skate]:
    """Solve every frame of a range and write it as keys; yields Progress, returns the foot skate.

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
    hidden = _take_off_meshes(scene, ob)
    try:
        for i, frame in enumerate(frames):
            scene.frame_set(frame)
            if live.problem:
                raise ValueError(f"frame {frame}: {live.problem}")
            channels = runtime.snapshot(ob)
            rows[i] = live_rig.own_quaternions(live.rig, channels, list(range(len(live.rig.bones))))
            places[i] = channels["location"].reshape(-1, 3)
            feet[0, i] = _feet(live, ob, live.base)
            feet[1, i] = _feet(live, ob, channels)
            yield Progress(i + 1, len(frames) + 1, f"frame {frame}")
    finally:
        for name, modifier in hidden:
            other: Any = bpy.data.objects.get(name)
            if other is not None and modifier in other.modifiers:
                other.modifiers[modifier].show_viewport = True
        scene.frame_set(back[0], subframe=back[1])
    _write(ob, live, np.array(frames, np.float32), rows, places, into)
    yield Progress(len(frames) + 1, len(frames) + 1, "keys written")
    return _skate(live, feet)


def _take_off_meshes(scene: Any, ob: bpy.types.Object) -> list[tuple[str, str]]:
    """Skinning is most of a frame's time, and no frame is shown."""
    hidden = []
    for other in scene.objects:
        for modifier in other.modifiers:
            if modifier.type == "ARMATURE" and modifier.object == ob and modifier.show_viewport:
                modifier.show_viewport = False
                hidden.append((other.name, modifier.name))
    return hidden


def _feet(live: Live, ob: bpy.types.Object, channels: dict[str, np.ndarray]) -> np.ndarray:
    """(feet, 2, 3) ankles and toes [m, core axes]."""
    skeleton = live.rig.skeleton
    rot, root = live_rig.pose_of(ob, live.rig, channels)
    posed = live_state.pose_matrices(live, rotations.matrix_from_axis_angle(rot), root)
    bones = [[f, t] for f, t in zip(skeleton.feet, skeleton.toes, strict=True)]
    return posed[np.array(bones, int), :3, 3] @ skeleton.axes.T


def _skate(live: Live, feet: np.ndarray) -> Skate:
    """Sliding on the floor of feet that stood on it before in two frames running."""
    skeleton = live.rig.skeleton
    if not skeleton.feet or feet.shape[1] < 2:
        return Skate(0.0, 0.0, 0.0, 0)
    rest = skeleton.foot_rest
    heights = (feet[0, ..., 2] - rest).min(axis=-1)  # (frames, feet)
    floor = np.percentile(heights.min(axis=1), GROUND.percentile)
    near = heights - floor < GROUND.near * skeleton.leg_length / GROUND.reference_leg
    stands = near[1:] & near[:-1]
    ways = np.linalg.norm(np.diff(feet[..., 0, :2], axis=1), axis=-1)  # (2, frames - 1, feet) of the ankle
    if not stands.any():
        return Skate(0.0, 0.0, 0.0, 0)
    before, after = ways[0][stands], ways[1][stands]
    return Skate(float(before.mean()), float(after.mean()), float(after.max()), int(stands.sum()))


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
        live_pose.selected(ob, live.rig) if settings_of(bpy.data.collections[live.collection]).selected_only else None
    )
    rooted = live_controls.with_place(live.rig)
    for bone in _chosen(live.rig, mask):
        name, mode = live.rig.bones[bone], live.rig.modes[bone]
        values = _in_mode(rotations.continuous_quaternions(rows[:, bone : bone + 1])[:, 0], mode)
        path = f'pose.bones["{bpy.utils.escape_identifier(name)}"].'
        _replace(action, slot, path + live_rig.rotation_channel(mode), values, frames, name)
        if bone in rooted:
            _replace(action, slot, path + "location", places[:, bone], frames, name)
    for name in live.rig.switches if isinstance(live.rig, ControlRig) else ():
        path = f'pose.bones["{bpy.utils.escape_identifier(name)}"]["{live_controls.SWITCH}"]'
        _replace(action, slot, path, np.ones((len(frames), 1)), frames, name)
    if into == "NLA":
        _as_track(data, old, action, slot)
    else:
        blender_actions.assign(data, action, slot)


def _in_mode(quaternions: np.ndarray, mode: Any) -> np.ndarray:
    """(F, 4) quaternions as the channel of that rotation mode holds them, without jumps."""
    from mathutils import Quaternion

    if mode == "QUATERNION":
        return quaternions
    if mode == "AXIS_ANGLE":
        found = [Quaternion(q).to_axis_angle() for q in quaternions.tolist()]
        return np.array([(angle, *axis) for axis, angle in found])
    out: list[Any] = []
    for q in quaternions.tolist():
        out.append(Quaternion(q).to_euler(mode, out[-1]) if out else Quaternion(q).to_euler(mode))
    return np.array([tuple(euler) for euler in out])


def _replace(action: Any, slot: Any, path: str, values: np.ndarray, frames: np.ndarray, group: str) -> None:
    """Keys (F, n) in place of those there are between the first and the last frame; others stay."""
    there = {c.array_index: c for c in blender_actions.curves(action, slot) if c.data_path == path}
    for component in range(values.shape[1]):
        curve: Any = there.get(component)
        kept = np.zeros((0, 2), np.float32)
        modes = np.zeros(0, np.uint8)
        if curve is None:
            curve = blender_actions.new_curve(action, slot, path, component, group)
        elif len(curve.keyframe_points):
            points = curve.keyframe_points
            old, modes = np.empty((len(points), 2), np.float32), np.empty(len(points), np.uint8)
            points.foreach_get("co", old.reshape(-1))
            points.foreach_get("interpolation", modes)
            outside = (old[:, 0] < frames[0] - 1e-3) | (old[:, 0] > frames[-1] + 1e-3)
            kept, modes = old[outside], modes[outside]
        new = np.stack([frames, values[:, component]], axis=1).astype(np.float32)
        every = np.concatenate([kept, new])
        kinds = np.concatenate([modes, np.ones(len(frames), np.uint8)])  # 1: LINEAR
        order = np.argsort(every[:, 0], kind="stable")
        curve.keyframe_points.clear()
        curve.keyframe_points.add(len(every))
        curve.keyframe_points.foreach_set("co", np.ascontiguousarray(every[order]).ravel())
        curve.keyframe_points.foreach_set("interpolation", np.ascontiguousarray(kinds[order]))
        curve.update()


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
