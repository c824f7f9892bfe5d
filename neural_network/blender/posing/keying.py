# SPDX-License-Identifier: GPL-3.0-or-later
"""Keying the solved pose on the current frame, as the active keying set and the user's preferences say."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ..host import actions, control_rigs, keyframes, runtime
from ..host.control_rigs import ControlRig
from ..host.rig import Rig
from . import pose_writing
from .state import LiveCharacter, settings_of

_KINDS = {  # Blender's own keying sets -> the kinds of channels that they key
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
_DEFAULT = ("root", "rotation")  # without a keying set: all rotations, and the root's location


def key(context: bpy.types.Context, ob: bpy.types.Object, rig: Rig, mask: np.ndarray | None = None) -> int:
    """Key the controlled bones on the current frame; returns the number of channels keyed.

    The active keying set chooses the channels; one made by the user keys its own paths. Without a keying set, the rotation
    of every bone and the root's location are keyed. ``mask`` (J) limits this to some of the controlled bones. Raises ValueError
    for an action whose keys would not play or not be saved.
    """
    active = context.scene.keying_sets.active
    options = _options(context)
    if active is not None and active.is_path_absolute:
        return _key_paths(context, active, options)
    done = 0
    channels = _channels(ob, rig, active.bl_idname if active is not None else "", mask)
    _require_seen(context, ob, {keyframes.bone_path(ob.pose.bones[bone].name, channel) for bone, channel in channels})
    for bone, channel in channels:
        pb = ob.pose.bones[bone]
        done += bool(pb.keyframe_insert(channel, group=pb.name, options=options))
    for name in rig.switches if done and isinstance(rig, ControlRig) else ():
        done += bool(ob.pose.bones[name].keyframe_insert(f'["{control_rigs.SWITCH}"]', group=name, options=options))
    return done


def bones_to_key(rig: Rig, mask: np.ndarray | None) -> list[int]:
    """Indices of the bones to key, among all; ``mask`` (J) limits them to those of some controlled bones."""
    if mask is None:
        return control_rigs.written(rig)
    if isinstance(rig, ControlRig):
        return [control.bone for control in rig.controls if mask[control.joint]]
    return rig.index[mask].tolist()


def selection_mask(live: LiveCharacter) -> np.ndarray | None:
    """(J) bool: the selected bones if Selected Bones Only is on; None otherwise."""
    settings = settings_of(bpy.data.collections[live.collection])
    return pose_writing.selected(settings.armature, live.rig) if settings.selected_only else None


def _require_seen(context: bpy.types.Context, holder: Any, paths: set[str]) -> None:
    """Raise ValueError if keys of ``holder`` on the current frame would not play, not be saved or change more than that frame."""
    data: Any = holder.animation_data
    if data is None:
        return
    slot = data.action_slot if actions.SLOTTED and data.action is not None else None
    frames = [context.scene.frame_current_final]
    cycles = bool(getattr(context.scene.tool_settings, "use_keyframe_cycle_aware", False))
    reason = keyframes.refusal(holder, data.action, slot, paths, frames, "key", into_cycles=cycles)
    if reason:
        raise ValueError(reason)


def _key_paths(context: bpy.types.Context, keying_set: Any, options: set[Any]) -> int:
    done = 0
    paths: dict[Any, set[str]] = {}
    for path in keying_set.paths:
        if path.id is not None:
            paths.setdefault(path.id, set()).add(path.data_path)
    for holder, keyed in paths.items():
        _require_seen(context, holder, keyed)
    for path in keying_set.paths:
        if path.id is not None:
            index = -1 if path.use_entire_array else path.array_index
            done += bool(path.id.keyframe_insert(path.data_path, index=index, options=options))
    return done


def _channels(ob: bpy.types.Object, rig: Rig, keying_set: str, mask: np.ndarray | None) -> list[tuple[int, str]]:
    """(bone, channel) for everything that one of Blender's own keying sets keys; "Available" keys what has keys already."""
    kinds = _KINDS.get(keying_set, _KINDS.get(keying_set.removeprefix("BUILTIN_KSI_"), _DEFAULT))
    available = _keyed_paths(ob) if keying_set == "Available" else None
    rows = bones_to_key(rig, mask)
    located = control_rigs.located(rig, rows)
    out = []
    for bone in [*rows, *(b for b in located if b not in rows)]:
        pb = ob.pose.bones[bone]
        rotated = bone in rows and ("rotation" in kinds or available is not None)
        channels = [runtime.rotation_channel(pb.rotation_mode)] if rotated else []
        if "location" in kinds or (bone in located and ("root" in kinds or available is not None)):
            channels.append("location")
        if "scale" in kinds and bone in rows:
            channels.append("scale")
        for channel in channels:
            if channel == "location" and rig.connected[bone]:
                continue
            if available is None or keyframes.bone_path(pb.name, channel) in available:
                out.append((bone, channel))
    return out


def _options(context: bpy.types.Context) -> set[Any]:
    """The options of keyframe_insert that the user's preferences and tool settings ask for."""
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


def _keyed_paths(ob: bpy.types.Object) -> set[str]:
    data: Any = ob.animation_data
    if data is None or data.action is None:
        return set()
    slot = data.action_slot if actions.SLOTTED else None
    return {curve.data_path for curve in actions.curves(data.action, slot)}
