# SPDX-License-Identifier: GPL-3.0-or-later
"""Keyframes of pose bones, written in bulk: the only code of the extension that fills F-Curves.

Keys outside the written range stay as they are, byte for byte: Blender's own recalculation, which would change their handles,
is not called. :func:`refusal` says before the first key why keys would not play or not be saved, and :class:`Saved` restores
what was there. On a layer that is blended with others, and in tweak mode, :func:`layer_values` finds the values and times with
which the whole stack shows the wanted ones.

A single frame is keyed by Blender itself (``keyframe_insert``), which follows the user's keying preferences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import bpy
import numpy as np

from . import actions

LINEAR = 1  # Keyframe.interpolation as a number, for foreach_set
VECTOR = 2  # Keyframe.handle_left_type as a number: straight to the neighbours
SAME_FRAME = 1e-3  # [frames]: keys nearer than this are on the same frame
_FIELDS: dict[str, tuple[int, Any]] = {
    "co": (2, np.float32),
    "handle_left": (2, np.float32),
    "handle_right": (2, np.float32),
    "handle_left_type": (1, np.uint8),
    "handle_right_type": (1, np.uint8),
    "interpolation": (1, np.uint8),
    "easing": (1, np.uint8),
    "type": (1, np.uint8),
    "back": (1, np.float32),
    "amplitude": (1, np.float32),
    "period": (1, np.float32),
    "select_control_point": (1, np.bool_),
    "select_left_handle": (1, np.bool_),
    "select_right_handle": (1, np.bool_),
}

Keys = dict[str, np.ndarray]
"""All keys of a curve: field -> (K, n)."""
Channels = Mapping[tuple[str, str], np.ndarray]
"""(bone name, channel) -> values (F, n), one column per array element."""


def bone_path(bone: str, channel: str) -> str:
    """Data path of a pose bone's channel: ``location``, or ``["name"]`` for a custom property."""
    dot = "" if channel.startswith("[") else "."
    return f'pose.bones["{bpy.utils.escape_identifier(bone)}"]{dot}{channel}'


def read_keys(curve: bpy.types.FCurve) -> Keys:
    """All keys of a curve."""
    points = curve.keyframe_points
    out = {name: np.zeros((len(points), size), kind) for name, (size, kind) in _FIELDS.items()}
    for name, values in out.items():
        points.foreach_get(name, values.reshape(-1))
    return out


def write_keys(curve: bpy.types.FCurve, keys: Keys) -> None:
    """Replace all keys of a curve by ``keys``, in the order of their frames, without changing any handle."""
    points = curve.keyframe_points
    points.clear()
    points.add(len(keys["co"]))
    for name in _FIELDS:
        points.foreach_set(name, np.ascontiguousarray(keys[name]).reshape(-1))
    for name in ("co", "handle_left", "handle_right"):  # setting a type of handle may move it
        points.foreach_set(name, np.ascontiguousarray(keys[name]).reshape(-1))


def write_bones(action: Any, slot: Any, frames: np.ndarray, channels: Channels) -> None:
    """Write linear keys for pose bones, in one channel group per bone.

    Keys between the first and the last frame are replaced; others stay.

    Args:
        action: the action to write to.
        slot: its slot for the armature object, from :func:`actions.new` or in use; None before Blender 4.4.
        frames: (F) ascending frames.
        channels: the values. A constant channel may have one row: it gets one key, on the first frame.
    """
    existing = {(curve.data_path, curve.array_index): curve for curve in actions.curves(action, slot)}
    for (bone, channel), values in channels.items():
        path = bone_path(bone, channel)
        for index in range(values.shape[1]):
            curve = existing.get((path, index))
            if curve is None:
                curve = actions.new_curve(action, slot, path, index, bone)
            write_curve(curve, frames[: len(values)], values[:, index])
    action.update_tag()


def write_curve(curve: bpy.types.FCurve, frames: np.ndarray, values: np.ndarray) -> None:
    """Write linear keys with ``values`` (F) on ``frames`` (F, ascending), replacing those from the first to the last frame."""
    old = read_keys(curve)
    at = old["co"][:, 0]
    before, after = at < frames[0] - SAME_FRAME, at > frames[-1] + SAME_FRAME
    new = _linear(np.stack([frames, values], axis=1).astype(np.float32), old["co"][before], old["co"][after])
    write_keys(curve, {name: np.concatenate([old[name][before], new[name], old[name][after]]) for name in _FIELDS})


def _linear(co: np.ndarray, before: np.ndarray, after: np.ndarray) -> Keys:
    """Linear keys at ``co`` (F, 2) whose handles point straight at their neighbours, keys (K, 2) ``before`` and ``after`` included."""
    left = np.diff(co, axis=0, prepend=before[-1:] if len(before) else co[:1]) / 3
    right = np.diff(co, axis=0, append=after[:1] if len(after) else co[-1:]) / 3
    if not len(before):
        left[0] = right[0]
    if not len(after):
        right[-1] = left[-1]
    for ends in (left, right):
        ends[ends[:, 0] <= 0] = (1 / 3, 0)
    out = {name: np.zeros((len(co), size), kind) for name, (size, kind) in _FIELDS.items()}
    out["co"], out["handle_left"], out["handle_right"] = co, co - left, co + right
    out["handle_left_type"][:] = out["handle_right_type"][:] = VECTOR
    out["interpolation"][:] = LINEAR
    out["back"][:], out["amplitude"][:], out["period"][:] = 1.70158, 0.8, 4.1  # Blender's own for new keys
    return out


# ---- before the first key


def refusal(data: Any, action: Any, slot: Any, channels: Sequence[tuple[str, str]], copied: bool = False) -> str:
    """Why keys of ``channels`` in an action would not play or would be lost, and what to do; empty if they would do neither.

    ``data`` is the animation data the action is or will be assigned to; None or no action: a new one, which has no curves yet.
    With ``copied`` they are written to a copy of the action, which belongs to this file.
    """
    if data is not None and data.use_nla and any(track.is_solo for track in data.nla_tracks):
        return "An NLA track is soloed, so that no keys play: switch off its star in the NLA editor"
    if action is None:
        return ""
    if data is not None and data.action == action and data.action_influence == 0 and is_layered(data):
        return f"{action.name} has an influence of 0, so that its keys change nothing: raise it in the NLA editor"
    other = "assign an action of this file, or bake to a New Action"
    if copied:
        pass
    elif action.library is not None:
        return f"{action.name} is linked from {action.library.filepath}, and keys written here would be lost: {other}"
    elif action.override_library is not None:
        return f"{action.name} is a library override, whose keys are not saved: {other}"
    paths = {bone_path(*channel) for channel in channels}
    for curve in actions.curves(action, slot):
        if curve.data_path in paths:
            reason = _curve_refusal(curve)
            if reason:
                return f"{curve.data_path} of {action.name} {reason}"
    return ""


def _curve_refusal(curve: Any) -> str:
    if len(curve.sampled_points):
        return "has baked samples in place of keys, which would be lost: convert them first (Graph Editor, Samples to Keys)"
    group = curve.group
    for what in (curve, group) if group is not None else (curve,):
        whose = "is" if what is curve else f"is in the channel group {group.name}, which is"
        if what.mute:
            return f"{whose} muted, so that its keys do not play: unmute it in the Graph Editor"
        if what.lock:
            return f"{whose} locked: unlock it in the Graph Editor"
    for modifier in curve.modifiers:
        if not modifier.mute and modifier.type != "CYCLES":  # which repeats the keys, and leaves them as they are
            kind = modifier.type.replace("FNGENERATOR", "BUILT-IN FUNCTION").title()
            return f"has the modifier {kind}, which changes what its keys show: mute it or bake it in the Graph Editor"
    return ""


def is_layered(data: Any) -> bool:
    """Whether the assigned action is blended with NLA tracks below it, or is the strip that is being tweaked."""
    if data is None or data.action is None:
        return False
    blended = data.action_blend_type != "REPLACE" or data.action_influence < 1
    return bool(data.use_tweak_mode or (data.use_nla and len(data.nla_tracks) and blended))


def tweaked(data: Any) -> Any:
    """The NLA strip that is being tweaked; None outside tweak mode."""
    if data is None or not data.use_tweak_mode:
        return None
    strips = [strip for track in data.nla_tracks for strip in track.strips if strip.action == data.action]
    return next((strip for strip in strips if strip.active), strips[0] if strips else None)


class Saved:
    """The curves of some channels as they are now, to restore."""

    def __init__(self, action: Any, slot: Any, channels: Sequence[tuple[str, str]]) -> None:
        """Read them."""
        self._action, self._slot = action, slot
        self._paths = {bone_path(*channel) for channel in channels}
        self._keys = {(c.data_path, c.array_index): read_keys(c) for c in self._curves()}
        self._groups = {group.name for group in actions.groups(action, slot)}

    def _curves(self) -> list[Any]:
        return [c for c in actions.curves(self._action, self._slot) if c.data_path in self._paths]

    def restore(self) -> None:
        """Put their keys back, and remove curves and groups that were added."""
        for curve in self._curves():
            keys = self._keys.get((curve.data_path, curve.array_index))
            if keys is None:
                actions.remove_curve(self._action, self._slot, curve)
            else:
                write_keys(curve, keys)
        actions.remove_groups(self._action, self._slot, keep=self._groups)
        self._action.update_tag()


def layer_values(
    ob: Any, frames: Sequence[int], channels: Channels
) -> tuple[np.ndarray, dict[tuple[str, str], np.ndarray]]:
    """Times (F, ascending) and values with which the assigned action makes the NLA stack show ``channels`` on ``frames``.

    Blender itself is asked, by keying every frame and restoring the action afterwards. The pose of the bones is changed.
    Raises ValueError for values that the layer cannot show.
    """
    data = ob.animation_data
    action = data.action
    slot = data.action_slot if actions.SLOTTED else None
    times = np.array(
        [data.nla_tweak_strip_time_to_scene(f, invert=True) for f in frames] if data.use_tweak_mode else frames
    )
    saved = Saved(action, slot, list(channels))
    try:
        for row, frame in enumerate(frames):
            for (bone, channel), values in channels.items():
                _key_on_layer(ob, bone, channel, values[min(row, len(values) - 1)], frame, action.name)
        order = np.argsort(times, kind="stable")
        found = {(c.data_path, c.array_index): read_keys(c)["co"] for c in actions.curves(action, slot)}
        out = {}
        for (bone, channel), values in channels.items():
            columns = [_values_at(found, bone_path(bone, channel), i, times[order]) for i in range(values.shape[1])]
            out[bone, channel] = np.stack(columns, axis=1)
    finally:
        saved.restore()
    return times[order].astype(np.float32), out


def _key_on_layer(ob: Any, bone: str, channel: str, value: np.ndarray, frame: int, action: str) -> None:
    pb = ob.pose.bones[bone]
    if channel.startswith("["):
        pb[channel[2:-2]] = float(value[0])
    else:
        setattr(pb, channel, value.tolist())
    try:
        done = pb.keyframe_insert(channel, frame=frame, group=bone)
    except RuntimeError as error:
        raise ValueError(f"{channel} of {bone} cannot be keyed on frame {frame}: {error}") from error
    if not done:
        raise ValueError(
            f"{channel} of {bone} cannot be shown by {action} on frame {frame}, as it is blended: bake to an NLA Track"
        )


def _values_at(found: dict[tuple[str, int], np.ndarray], path: str, index: int, times: np.ndarray) -> np.ndarray:
    """(F) values of the keys on ``times`` (F), which were just inserted."""
    co = found[path, index]
    nearest = np.abs(co[:, 0][None] - times[:, None]).argmin(axis=1)
    return co[nearest, 1]
