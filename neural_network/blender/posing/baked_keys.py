# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a bake: whether they may be written, into an action, a layer or an NLA track, and whether they play what was solved."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core import rotations
from ..host import actions, control_rigs, evaluating, keyframes, nla, rig_checks, runtime
from ..host.control_rigs import ControlRig
from ..host.jobs import Progress
from . import changes, keying, pose_writing, solving
from .state import LiveCharacter, paused

PLAYED = (
    1e-3,
    0.02,
)  # [m] and [rad, nearly]: keys that show bones farther than this from the solved pose are taken back

SAMPLES = 16  # frames outside the range on which what else plays is compared


@dataclass(frozen=True)
class Take:
    """The solved frames; filled frame by frame."""

    frames: list[int]
    quaternions: np.ndarray
    """(F, N, 4) rotations of all bones."""
    locations: np.ndarray
    """(F, N, 3) locations of all bones."""
    posed: np.ndarray
    """(F, J, 4, 4) pose matrices [object space] of the controlled bones, as Blender shows them."""
    feet_before: np.ndarray
    """(F, feet, 2, 3) ankles and toes [m, core axes] without Live IK."""
    feet_after: np.ndarray
    """(F, feet, 2, 3) the same in the solved pose."""
    outside: dict[int, dict[str, np.ndarray]]
    """Frames outside the range, where nothing must change -> the channels of all bones without Live IK."""
    rest: dict[str, np.ndarray]
    """The channels of all bones without Live IK on the frame that was shown at first."""


def posed(ob: Any, live: LiveCharacter) -> np.ndarray:
    """(J, 4, 4) pose matrices [object space] of the controlled bones as Blender shows them now."""
    buffer = np.empty(len(live.rig.bones) * 16, np.float32)
    ob.pose.bones.foreach_get("matrix", buffer)
    return buffer.reshape(-1, 4, 4)[live.rig.index].transpose(0, 2, 1)  # Blender stores matrices by columns


# ---- what else plays


def frames_outside(scene: Any, ob: Any, into: str, frames: list[int]) -> list[int]:
    """Frames before and after the range on which what else plays is compared; none where the action alone plays."""
    data = ob.animation_data
    if data is None or not (into == "NLA" or data.use_tweak_mode or (data.use_nla and len(data.nla_tracks))):
        return []
    tracks = [strip for track in data.nla_tracks for strip in actions.every_strip(track.strips)]
    spans = [(strip.frame_start, strip.frame_end) for strip in tracks]
    ranges: list[Any] = [curve.range() for curve in actions.playing(data) if len(curve.keyframe_points)]
    spans += [(found[0], found[1]) for found in ranges]
    start, end = min([scene.frame_start, *(span[0] for span in spans)]), max([scene.frame_end, *(s[1] for s in spans)])
    strip = keyframes.tweaked(data)
    if strip is not None:
        start, end = strip.frame_start, strip.frame_end
    samples = np.linspace(max(start, -nla.ENDLESS), min(end, nla.ENDLESS), SAMPLES).astype(int).tolist()
    beside = [f for f in (frames[0] - 1, frames[-1] + 1) if into == "NLA" or start <= f <= end]
    return [f for f in dict.fromkeys(beside + samples) if not frames[0] <= f <= frames[-1]]


def _unchanged(ob: Any, live: LiveCharacter, into: str, take: Take) -> dict[int, list[tuple[str, str]]]:
    """Frame outside the range -> the (bone name, channel) that the keys must not change there; before they are written.

    Between the range and the next keys of a curve, it leads over; and beyond all keys of the action the curves that it has hold
    their last values, as in any action.
    """
    data, keyed = ob.animation_data, _keyed(live)
    if into == "NLA":
        return dict.fromkeys(take.outside, keyed)
    action, slot = _assigned(data)
    curves: dict[str, list[float]] = {}
    for curve in actions.curves(action, slot) if action is not None else ():
        keys = curves.setdefault(curve.data_path, [])
        keys += [_to_scene(data, key.co[0]) for key in curve.keyframe_points]
    every = [key for keys in curves.values() for key in keys]
    out: dict[int, list[tuple[str, str]]] = {}
    for frame in take.outside:
        within = keyframes.is_layered(data) and bool(every) and min(every) <= frame <= max(every)
        out[frame] = []
        for bone, channel in keyed:
            keys = curves.get(keyframes.bone_path(bone, channel), [])
            if frame < take.frames[0]:
                leads = any(frame < key < take.frames[0] for key in keys) or not any(k < take.frames[0] for k in keys)
            else:
                leads = any(take.frames[-1] < key < frame for key in keys) or not any(k > take.frames[-1] for k in keys)
            if not keys or (within and leads):
                out[frame].append((bone, channel))
    return out


def _to_scene(data: Any, frame: float) -> float:
    return float(data.nla_tweak_strip_time_to_scene(frame)) if data.use_tweak_mode else float(frame)


# ---- keys


def _channels(live: LiveCharacter) -> list[tuple[int, str]]:
    """(bone, channel) that a bake keys: rotations, and locations of the bones that carry the body."""
    rig = live.rig
    rows = keying.bones_to_key(rig, keying.selection_mask(live))
    out = [(bone, runtime.rotation_channel(rig.modes[bone])) for bone in rows]
    return out + [(bone, "location") for bone in control_rigs.located(rig, rows)]


def _switches(live: LiveCharacter) -> list[tuple[str, str]]:
    switches = live.rig.switches if isinstance(live.rig, ControlRig) else ()
    return [(name, f'["{control_rigs.SWITCH}"]') for name in switches]


def _keyed(live: LiveCharacter) -> list[tuple[str, str]]:
    """(bone name, channel) of all that a bake keys."""
    return [(live.rig.bones[bone], channel) for bone, channel in _channels(live)] + _switches(live)


def check(ob: Any, live: LiveCharacter, into: str, frames: list[int]) -> None:
    """Raise ValueError if the keys of a bake would not play, not be saved or change more than the range."""
    data = ob.animation_data
    if data is not None and data.use_tweak_mode and into != "ACTION":
        raise ValueError(
            "an NLA strip is being tweaked: bake to the Current Action, or leave Tweak Mode first (Tab in the NLA editor)"
        )
    if into == "NLA" and data is not None and not data.use_nla and len(data.nla_tracks):
        raise ValueError(f"the NLA of {ob.name} is switched off: switch it on in the NLA editor, or bake to an action")
    action, slot = _assigned(data)
    paths = {keyframes.bone_path(bone, channel) for bone, channel in _keyed(live)}
    reason = keyframes.refusal(ob, action if into != "NLA" else None, slot, paths, frames, "bake", into == "NEW")
    if not reason and action is not None:
        reason = _modes_animated(action, slot, {bone for bone, _ in _keyed(live)})
    muted = [group.name for group in actions.groups(action, slot) if group.mute] if action is not None else []
    if not reason and into == "NLA" and muted and not actions.GROUPS_MUTE:
        reason = (
            f"the channel group {muted[0]} of {action.name} is muted, which this Blender ignores in an assigned action and heeds"
            " in an NLA strip: unmute it in the Graph Editor"
        )
    if reason:
        raise ValueError(reason)


def _modes_animated(action: Any, slot: Any, bones: set[str]) -> str:
    """Which bone cannot be baked, because an action animates its rotation mode; or empty."""
    modes = {keyframes.bone_path(bone, "rotation_mode"): bone for bone in bones}
    for curve in actions.curves(action, slot):
        if curve.data_path in modes and not curve.mute:
            return f"{action.name} animates the rotation mode of {modes[curve.data_path]}: mute or delete that channel first"
    return ""


def _assigned(data: Any) -> tuple[Any, Any]:
    """The assigned action and its slot; (None, None) if nothing is animated by it."""
    action = data.action if data is not None else None
    slot = data.action_slot if actions.SLOTTED and action is not None else None
    return (None, None) if action is None or (actions.SLOTTED and slot is None) else (action, slot)


def write(
    scene: Any, ob: Any, live: LiveCharacter, take: Take, into: str, total: int, watch: changes.Watch
) -> Generator[Progress, None, None]:
    """Write the keys, play them, and take them back if they do not show what was solved or change what is outside."""
    check(ob, live, into, take.frames)
    frame, held = (scene.frame_current, scene.frame_subframe), runtime.snapshot(ob)
    names = live.rig.bones
    kept = False
    back: list[Callable[[], object]] = []
    with paused(), evaluating.undeformed(scene, ob):
        try:
            unchanged = _unchanged(ob, live, into, take)
            _write_keys(ob, live, take, into, back)
            watch.renew()
            worst, where = 0.0, 0
            for i, number in enumerate(take.frames):
                scene.frame_set(number)
                off = _difference(live, posed(ob, live), take.posed[i])
                worst, where = max((worst, where), (off, number))
                yield Progress(total - len(take.frames) + i + 1, total, f"checking frame {number}")
            if worst > 1:
                raise ValueError(
                    f"nothing was baked: on frame {where} the keys would show a pose {worst * PLAYED[0] * 1000:.0f} mm from the"
                    " solved one, because something else changes what they show (the time or repeats of an NLA strip, other"
                    " tracks, drivers, handlers of other add-ons). Bake to an NLA Track"
                )
            for number, channels in unchanged.items():
                scene.frame_set(number)
                bone = _changed(live, runtime.snapshot(ob), take.outside[number], channels)
                if bone:
                    raise ValueError(
                        f"nothing was baked: the keys would also change {bone} on frame {number}, outside the range, where they"
                        f" hold their value over what NLA tracks play. {_ELSEWHERE[into == 'NLA']}"
                    )
            kept = True
        finally:
            if not kept:
                nla.take_back(list(reversed(back)))
            nla.take_back([lambda: scene.frame_set(frame[0], subframe=frame[1])])
            if not kept:
                nla.take_back(
                    [lambda: pose_writing.restore_named(ob, names, held), lambda: bpy.context.view_layer.update()]
                )
        if not isinstance(live.rig, ControlRig):
            solving.take_keyed(live, ob)


_ELSEWHERE = ("Bake to an NLA Track", "Bake to the Current Action")


def _changed(
    live: LiveCharacter, now: dict[str, np.ndarray], was: dict[str, np.ndarray], channels: list[tuple[str, str]]
) -> str:
    """The first bone whose ``channels`` differ between two snapshots; empty if none does."""
    row = {name: i for i, name in enumerate(live.rig.bones)}
    places = [row[bone] for bone, channel in channels if channel == "location"]
    turned = [row[bone] for bone, channel in channels if channel.startswith("rotation")]
    shifts = np.abs(now["location"] - was["location"]).reshape(-1, 3)[places].max(axis=1) * live.rig.unit / PLAYED[0]
    turns = [rotations.matrix_from_quaternion(rig_checks.own_quaternions(live.rig, c, turned)) for c in (now, was)]
    angles = np.abs(turns[0] - turns[1]).max(axis=(1, 2), initial=0) / PLAYED[1]
    for bone, off in zip([*places, *turned], [*shifts.tolist(), *angles.tolist()], strict=True):
        if not off <= 1:
            return live.rig.bones[bone]
    return ""


def _difference(live: LiveCharacter, played: np.ndarray, solved: np.ndarray) -> float:
    """How far two poses (J, 4, 4) [object space] are apart, in units of ``PLAYED``."""
    heads = float(np.linalg.norm(played[:, :3, 3] - solved[:, :3, 3], axis=1).max()) * live.rig.unit
    size = 1e-6 * float(np.abs(solved[:, :3, 3]).max()) * live.rig.unit
    axes = [runtime.orthonormal(pose[:, :3, :3].astype(np.float64)) for pose in (played, solved)]
    off = max((heads - size) / PLAYED[0], float(np.abs(axes[0] - axes[1]).max()) / PLAYED[1])
    return off if np.isfinite([heads, off]).all() else np.inf


def _write_keys(ob: Any, live: LiveCharacter, take: Take, into: str, back: list[Callable[[], object]]) -> None:
    """Write the keys and let them play; appends to ``back`` what undoes it, step by step.

    The steps look the animation data up again: once its object is deleted, a reference to it would end Blender.
    """
    data = ob.animation_data or ob.animation_data_create()
    old, old_slot = data.action, data.action_slot if actions.SLOTTED and data.action is not None else None
    action, slot, is_new = _action_for(ob, data, into)
    if is_new:
        back.append(lambda: bpy.data.actions.remove(action))
        if into != "NLA":
            back.append(lambda: nla.assign_back(ob, action, old, old_slot))
            actions.assign(data, action, slot)
            if old is None and data.use_nla and len(data.nla_tracks):  # outside its keys the tracks play on
                held = data.action_extrapolation
                back.append(lambda: setattr(ob.animation_data, "action_extrapolation", held))
                data.action_extrapolation = "NOTHING"
            if old is not None:
                had = old.use_fake_user
                back.append(lambda: setattr(old, "use_fake_user", had))
                actions.keep(old)
    channels = _values(live, take)
    if not is_new:
        back.append(keyframes.Saved(action, slot, list(channels)).restore)
    edges = (False, False)
    times = np.array(take.frames, np.float32)
    if into != "NLA" and keyframes.is_layered(data):
        edges = take.frames[0] - 1 in take.outside, take.frames[-1] + 1 in take.outside
        frames, shown = _with_edges(live, take, channels, edges)
        times, channels = keyframes.layer_values(ob, frames, shown)
    elif into != "NLA" and old is None and len(times) == 1 and times[0] + 1 in take.outside:
        edges = False, True  # an action that ends with its only key would also play on the next frame
        frames, channels = _with_edges(live, take, channels, edges)
        times = np.array(frames, np.float32)
    keyframes.write_bones(action, slot, times, channels, edges)
    if into == "NLA":
        before = {key: _channel_of(live, take.rest, *key)[None] for key in _keyed(live)}
        nla.push(ob, action, slot, (old, old_slot), take.frames[0], before, back)


def _with_edges(
    live: LiveCharacter, take: Take, channels: dict[tuple[str, str], np.ndarray], edges: tuple[bool, bool]
) -> tuple[list[int], dict[tuple[str, str], np.ndarray]]:
    """Frames and values with those of the ``edges`` added, the frames beside the range, where everything stays as it was."""
    beside = [frame for frame, edge in ((take.frames[0] - 1, edges[0]), (take.frames[-1] + 1, edges[1])) if edge]
    out = {}
    for (bone, channel), values in channels.items():
        there = [_channel_of(live, take.outside[frame], bone, channel) for frame in beside]
        rows = [*there[: int(edges[0])], *values, *there[int(edges[0]) :]]
        out[bone, channel] = np.array(rows)
    first, last = beside[: int(edges[0])], beside[int(edges[0]) :]
    return [*first, *take.frames, *last], out


def _channel_of(live: LiveCharacter, channels: dict[str, np.ndarray], bone: str, channel: str) -> np.ndarray:
    """(n) the value of a channel of a bone in a snapshot; of a switch, what it was before Live IK."""
    if channel not in runtime.CHANNELS:
        return np.array([pose_writing.switches(bpy.data.collections[live.collection]).get(bone, 1.0)])
    return channels[channel].reshape(len(live.rig.bones), -1)[live.rig.bones.index(bone)]


def _values(live: LiveCharacter, take: Take) -> dict[tuple[str, str], np.ndarray]:
    """What to key: (bone, channel) -> values (F, n)."""
    out: dict[tuple[str, str], np.ndarray] = {}
    for bone, channel in _channels(live):
        name, mode = live.rig.bones[bone], live.rig.modes[bone]
        if channel == "location":
            out[name, channel] = take.locations[:, bone]
        else:
            quaternions = rotations.continuous_quaternions(take.quaternions[:, bone])
            out[name, channel] = runtime.in_mode(quaternions, mode)
    for name, channel in _switches(live):
        out[name, channel] = np.ones((len(take.frames), 1))
    return out


def _action_for(ob: Any, data: Any, into: str) -> tuple[Any, Any, bool]:
    """The action to write to, its slot, and whether it was just made; see :func:`bake`."""
    old, slot = _assigned(data)
    if into == "NLA":
        return *actions.new(f"{old.name if old is not None else ob.name} Live IK", ob.name), True
    if old is None:
        return *actions.new(f"{ob.name} Live IK", ob.name), True
    if into != "NEW":
        return old, slot, False
    place = list(old.slots).index(slot) if actions.SLOTTED else 0
    copy = old.copy()
    if copy.override_library is not None:
        copy = copy.make_local(clear_liboverride=True)
    copy.name = f"{old.name} Live IK"
    return copy, copy.slots[place] if actions.SLOTTED else None, True
