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

CONSTANT, LINEAR, BEZIER = range(3)  # Keyframe.interpolation as a number, for foreach_set
FREE = 0
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


def write_bones(
    action: Any, slot: Any, frames: np.ndarray, channels: Channels, edges: tuple[bool, bool] = (False, False)
) -> None:
    """Write linear keys for pose bones, in one channel group per bone.

    Keys between the first and the last frame are replaced; others stay.

    Args:
        action: the action to write to.
        slot: its slot for the armature object, from :func:`actions.new` or in use; None before Blender 4.4.
        frames: (F) ascending frames.
        channels: the values. A constant channel may have one row: it gets one key, on the first frame.
        edges: the first frame, or the last, only keeps a curve from holding its next value beyond it. It is keyed in new
            curves, and in those whose keys end in the range while other keys of the action go on.
    """
    existing = {(curve.data_path, curve.array_index): curve for curve in actions.curves(action, slot)}
    ranges: list[Any] = (
        [curve.range() for curve in existing.values() if len(curve.keyframe_points)] if any(edges) else []
    )
    spans = (
        any(found[0] < frames[int(edges[0])] - SAME_FRAME for found in ranges),
        any(found[1] > frames[-1 - int(edges[1])] + SAME_FRAME for found in ranges),
    )
    for (bone, channel), values in channels.items():
        path = bone_path(bone, channel)
        for index in range(values.shape[1]):
            curve = existing.get((path, index))
            if curve is None:
                curve = actions.new_curve(action, slot, path, index, bone)
            rows = _rows(curve, frames, edges, spans) if any(edges) else slice(len(values))
            write_curve(curve, frames[rows], values[rows, index])
    action.update_tag()


def _rows(curve: Any, frames: np.ndarray, edges: tuple[bool, bool], spans: tuple[bool, bool]) -> slice:
    """The frames to key in a curve: all but the edges that it does not need."""
    at = read_keys(curve)["co"][:, 0]
    first, last = frames[int(edges[0])], frames[-1 - int(edges[1])]
    beyond = bool((at < first - SAME_FRAME).any()), bool((at > last + SAME_FRAME).any())
    drop = [edges[k] and len(at) > 0 and (beyond[k] or not spans[k]) for k in range(2)]
    return slice(int(drop[0]), len(frames) - int(drop[1]))


def write_curve(
    curve: bpy.types.FCurve, frames: np.ndarray, values: np.ndarray, slopes: np.ndarray | None = None
) -> None:
    """Write keys with ``values`` (F) on ``frames`` (F, ascending), replacing those from the first to the last frame.

    They are linear, or with ``slopes`` (F) [per frame] smooth: cubic from key to key, leaving each key at its slope.
    Raises ValueError for values that are not finite.
    """
    if not np.isfinite(values).all():
        raise ValueError(f"{curve.data_path}: expected finite numbers to key, got NaN or infinity")
    old = read_keys(curve)
    at = old["co"][:, 0]
    before, after = at < frames[0] - SAME_FRAME, at > frames[-1] + SAME_FRAME
    new = _linear(np.stack([frames, values], axis=1).astype(np.float32), old["co"][before], old["co"][after])
    if slopes is not None:
        _bend(new, np.asarray(slopes, np.float32))
    write_keys(curve, {name: np.concatenate([old[name][before], new[name], old[name][after]]) for name in _FIELDS})


def _bend(keys: Keys, slopes: np.ndarray) -> None:
    """Make linear keys smooth: their handles, a third of the way to the neighbours, get a slope (K) [per frame]."""
    for name in ("handle_left", "handle_right"):
        way = keys[name][:, 0] - keys["co"][:, 0]
        keys[name][:, 1] = keys["co"][:, 1] + way * slopes
        keys[name + "_type"][:] = FREE
    keys["interpolation"][:] = BEZIER


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


def refusal(
    ob: Any,
    action: Any,
    slot: Any,
    paths: set[str],
    frames: Sequence[float],
    verb: str,
    copied: bool = False,
    into_cycles: bool = False,
) -> str:
    """Why keys would not play, would be lost or would change more than was meant, and what to do; empty if none of that.

    Args:
        ob: the object, or other data-block, that the keys are for.
        action: the action that they are written to, assigned to ``ob`` or to be; None: a new one, which has no curves yet.
        slot: its slot; None before Blender 4.4.
        paths: the data paths that are keyed.
        frames: ascending frames of the scene.
        verb: what is done, such as "bake".
        copied: they are written to a copy of the action, which belongs to this file and to ``ob`` alone.
        into_cycles: Blender itself moves keys beyond a cycle into it.
    """
    data = ob.animation_data
    if data is not None and data.use_nla and any(track.is_solo for track in data.nla_tracks):
        return "An NLA track is soloed, so that no keys play: switch off its star in the NLA editor"
    if action is None:
        return ""
    if data is not None and data.action == action and data.action_influence == 0 and is_layered(data):
        return f"{action.name} has an influence of 0, so that its keys change nothing: raise it in the NLA editor"
    strip = tweaked(data)
    other = f"assign an action of this file, or {_elsewhere(verb, 'a New Action')}"
    if strip is not None:
        other = f"leave Tweak Mode (Tab in the NLA editor) and {_elsewhere(verb, 'an NLA Track')}"
    if copied:
        pass
    elif action.library is not None:
        return f"{action.name} is linked from {action.library.filepath}, and keys written here would be lost: {other}"
    elif action.override_library is not None:
        return f"{action.name} is a library override, whose keys are not saved: {other}"
    else:
        who = _other_player(ob, action, slot, paths, strip)
        if who:
            if strip is None:
                elsewhere = _elsewhere(verb, "a New Action")
                other = f"make it a single user first (the number beside its name in the Action editor), or {elsewhere}"
            return f"{action.name} also plays on {who}, which these keys would change too: {other}"
    if strip is not None and (strip.repeat != 1 or not strip.frame_start <= frames[0] <= frames[-1] <= strip.frame_end):
        return (
            f"the strip {strip.name}, which is being tweaked, plays frames {strip.frame_start:.5g} to {strip.frame_end:.5g}"
            f"{', and repeats' if strip.repeat != 1 else ''}: {verb} within them, or leave Tweak Mode (Tab in the NLA editor)"
            f" and {_elsewhere(verb, 'an NLA Track')}"
        )
    for curve in actions.curves(action, slot):
        if curve.data_path in paths:
            reason = _curve_refusal(curve) or (
                "" if strip is not None or into_cycles else _cycle_refusal(curve, frames, verb)
            )
            if reason:
                return f"{curve.data_path} of {action.name} {reason}"
    return ""


def _other_player(ob: Any, action: Any, slot: Any, paths: set[str], strip: Any) -> str:
    """What else plays the channels of an action: other objects, their strips, other strips of ``ob`` that are seen, constraints."""
    for other in [*bpy.data.objects, *(() if isinstance(ob, bpy.types.Object) else (ob,))]:
        for pb in other.pose.bones if isinstance(other, bpy.types.Object) and other.pose is not None else ():
            for constraint in pb.constraints:
                if constraint.type == "ACTION" and actions.is_on(constraint, action, slot):
                    return f"{pb.name} of {other.name}, through its constraint {constraint.name}"
        data: Any = other.animation_data
        if data is None or not (other == ob or any(_leads_somewhere(other, path) for path in paths)):
            continue
        if other != ob and actions.is_on(data, action, slot):
            return str(other.name)
        covered = strip is None and data.action_extrapolation == "HOLD" and not is_layered(data)
        if other == ob and (covered or not data.use_nla):
            continue
        for track in data.nla_tracks:
            own = [] if track.mute else actions.heard_strips(track.strips)  # of its own, what is muted is not seen
            for found in own if other == ob else actions.every_strip(track.strips):
                if found != strip and actions.is_on(found, action, slot):
                    return f"{other.name}, in its NLA strip {found.name}"
    return ""


def _leads_somewhere(ob: Any, path: str) -> bool:
    try:
        ob.path_resolve(path)
    except ValueError:
        return False
    return True


def _elsewhere(verb: str, place: str) -> str:
    """What else can be done, as the button that asks calls it: a ghost becomes a strip, what is baked goes to another ``place``."""
    return "accept as an NLA Strip" if verb == "write" else f"bake to {place}"


def _cycle_refusal(curve: Any, frames: Sequence[float], verb: str) -> str:
    """Why keys beyond the cycle of a curve would change all of it; empty if it has none or they are within."""
    cyclic = any(modifier.type == "CYCLES" and not modifier.mute for modifier in curve.modifiers)
    if not cyclic or not len(curve.keyframe_points):
        return ""
    first, last = np.array(curve.range()).tolist()
    if first - SAME_FRAME <= frames[0] and frames[-1] <= last + SAME_FRAME:
        return ""
    return (
        f"repeats frames {first:.5g} to {last:.5g} (modifier Cycles), and keys outside them would change every repetition:"
        f" {verb} within them, or {_elsewhere(verb, 'an NLA Track')}"
    )


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
    every = (strip for track in data.nla_tracks for strip in actions.every_strip(track.strips))
    strips = [strip for strip in every if strip.action == data.action]
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
            paths = [(bone_path(bone, channel), i) for i in range(values.shape[1])]
            if not all(path in found for path in paths):
                raise _unshown(channel, bone, action.name, frames[0])
            columns = [_values_at(found[path], times[order]) for path in paths]
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
        raise _unshown(channel, bone, action, frame)


def _unshown(channel: str, bone: str, action: str, frame: float) -> ValueError:
    return ValueError(
        f"{channel} of {bone} cannot be shown by {action} on frame {frame}, as it is blended: bake to an NLA Track"
    )


def _values_at(co: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(F) values of those of the keys (K, 2) that were just inserted on ``times`` (F)."""
    nearest = np.abs(co[:, 0][None] - times[:, None]).argmin(axis=1)
    return co[nearest, 1]
