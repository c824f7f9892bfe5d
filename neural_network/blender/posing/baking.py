# SPDX-License-Identifier: GPL-3.0-or-later
"""Baking Live IK over a range of frames: every frame is solved first, then all keys are written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core import rotations
from ..host import actions, control_rigs, keyframes, rig_checks, runtime
from ..host.control_rigs import ControlRig
from ..host.jobs import Progress
from . import keying, live_ik, planted_feet, solving
from .planted_feet import Skate
from .state import LiveCharacter, local, paused, settings_of, unsolvable

PLAYED = (
    1e-3,
    0.02,
)  # [m] and [rad, nearly]: keys that show bones farther than this from the solved pose are taken back

ENDLESS = 100_000  # [frames] as far from 0 as this the strip of an action plays that goes on beyond its keys


@dataclass(frozen=True)
class _Take:
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


def bake(
    context: bpy.types.Context,
    collection: bpy.types.Collection,
    first: int,
    last: int,
    step: int = 1,
    into: str = "ACTION",
    hold_feet: bool = False,
) -> Generator[Progress, None, Skate]:
    """Solve the frames of a range and write them as keys; yields Progress and returns how far planted feet slide.

    Whether keys can be written is checked first; nothing is written before all frames are solved; and what was written is
    played and compared with what was solved. Frame, pose and action are restored if it differs or the generator is closed.

    Args:
        context: Blender's context.
        collection: the targets of the character.
        first: first frame.
        last: last frame, included if ``step`` reaches it.
        step: frames from one key to the next.
        into: ACTION writes to the assigned action, or a new one if there is none; NEW to a copy of it, which is then
            assigned; NLA to a new action on a track above all others.
        hold_feet: keep planted feet from sliding if their targets are on; frames are then solved twice.

    Raises ValueError for an empty range, a step below 1, a character or frame that cannot be solved, an action whose keys would
    not be saved or not play, and keys that do not show the solved poses.
    """
    if last < first:
        raise ValueError(f"range: the last frame, {last}, is before the first, {first}")
    if step < 1:
        raise ValueError(f"step: expected a whole number of frames of at least 1, got {step}")
    live = live_ik.live_of(collection)
    ob: Any = settings_of(collection).armature
    if live is None or ob is None:
        raise ValueError(unsolvable.get(collection.name, "nothing to bake: press Live IK first"))
    if live.suspended:
        raise ValueError(live.suspended)
    frames = list(range(first, last + 1, step))
    _check(ob, live, into, frames)
    began = _assigned(ob.animation_data)
    total = (2 + hold_feet) * len(frames)
    scene: Any = context.scene
    seconds = step * scene.render.fps_base / scene.render.fps
    count, bones, feet = len(frames), len(live.rig.bones), len(live.rig.skeleton.feet)
    take = _Take(
        frames,
        np.empty((count, bones, 4)),
        np.empty((count, bones, 3), np.float32),
        np.empty((count, len(live.rig.index), 4, 4), np.float32),
        np.empty((count, feet, 2, 3)),
        np.empty((count, feet, 2, 3)),
    )
    with _restored(scene, ob, live):
        for i, frame in enumerate(frames):
            _solve(scene, ob, live, take, i)
            yield Progress(i + 1, total, f"frame {frame}")
        is_planted = planted_feet.planted(live.rig.skeleton, take.feet_before, seconds)
        if hold_feet:
            shifts = planted_feet.shifts(is_planted, take.feet_after, seconds)
            sliding = np.abs(shifts).max(axis=(1, 2), initial=0) > planted_feet.NEGLIGIBLE
            for i in np.flatnonzero(sliding).tolist():
                live.shift = _effector_shift(live, shifts[i])
                _solve(scene, ob, live, take, i)
                yield Progress(count + i + 1, total, f"frame {frames[i]}, planted feet")
    if _assigned(ob.animation_data) != began:
        raise ValueError(f"nothing was baked, because another action was assigned to {ob.name} meanwhile: bake again")
    yield from _write(scene, ob, live, take, into, total)
    return planted_feet.skate(is_planted, take.feet_before, take.feet_after)


def _solve(scene: Any, ob: Any, live: LiveCharacter, take: _Take, i: int) -> None:
    """Solve the frame ``take.frames[i]``: Live IK does so itself when the frame changes."""
    scene.frame_set(take.frames[i])
    if live.problem or live.suspended:
        raise ValueError(f"frame {take.frames[i]}: {live.problem or live.suspended}")
    channels = runtime.snapshot(ob)
    take.quaternions[i] = rig_checks.own_quaternions(live.rig, channels, list(range(len(live.rig.bones))))
    take.locations[i] = channels["location"].reshape(-1, 3)
    take.posed[i] = _posed(ob, live)
    take.feet_before[i] = planted_feet.positions(live, ob, live.base)
    take.feet_after[i] = planted_feet.positions_in(live, take.posed[i])


def _posed(ob: Any, live: LiveCharacter) -> np.ndarray:
    """(J, 4, 4) pose matrices [object space] of the controlled bones as Blender shows them now."""
    buffer = np.empty(len(live.rig.bones) * 16, np.float32)
    ob.pose.bones.foreach_get("matrix", buffer)
    return buffer.reshape(-1, 4, 4)[live.rig.index].transpose(0, 2, 1)  # Blender stores matrices by columns


@contextmanager
def _restored(scene: Any, ob: Any, live: LiveCharacter) -> Iterator[None]:
    """Restore the frame afterwards. Meanwhile meshes are not deformed: that takes most of a frame's time."""
    frame, subframe = scene.frame_current, scene.frame_subframe
    try:
        with _undeformed(scene, ob):
            yield
    finally:
        live.shift = None
        scene.frame_set(frame, subframe=subframe)


@contextmanager
def _undeformed(scene: Any, ob: Any) -> Iterator[None]:
    """Meanwhile no mesh is deformed by ``ob``."""
    hidden = _hide_deformation(scene, ob)
    try:
        yield
    finally:
        for name, modifier in hidden:
            other: Any = local(bpy.data.objects, name)
            if other is not None and modifier in other.modifiers:
                other.modifiers[modifier].show_viewport = True


def _hide_deformation(scene: Any, ob: bpy.types.Object) -> list[tuple[str, str]]:
    """Hide the armature modifiers of ``ob`` that are shown; returns them as (object, modifier)."""
    hidden = []
    for other in scene.objects:
        if other.library is not None:
            continue
        for modifier in other.modifiers:
            if modifier.type == "ARMATURE" and modifier.object == ob and modifier.show_viewport:
                modifier.show_viewport = False
                hidden.append((other.name, modifier.name))
    return hidden


def _effector_shift(live: LiveCharacter, shifts: np.ndarray) -> np.ndarray:
    """Offsets (E, 3) [m, rig space] of the effectors from those of the feet (feet, 3) [m, core axes]."""
    skeleton = live.rig.skeleton
    out = np.zeros((len(skeleton.effectors), 3))
    for foot, shift in zip(skeleton.feet, shifts @ skeleton.axes, strict=True):
        out[skeleton.effectors.index(foot)] = shift
    return out


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


def _check(ob: Any, live: LiveCharacter, into: str, frames: list[int]) -> None:
    """Raise ValueError if the keys of a bake would not play or not be saved."""
    data = ob.animation_data
    if data is not None and data.use_tweak_mode and into != "ACTION":
        raise ValueError(
            "an NLA strip is being tweaked: bake to the Current Action, or leave Tweak Mode first (Tab in the NLA editor)"
        )
    strip = keyframes.tweaked(data)
    if strip is not None and (strip.repeat != 1 or frames[0] < strip.frame_start or frames[-1] > strip.frame_end):
        raise ValueError(
            f"the strip {strip.name}, which is being tweaked, plays frames {strip.frame_start:.5g} to {strip.frame_end:.5g}"
            f"{', and repeats' if strip.repeat != 1 else ''}: bake within them, or leave Tweak Mode and bake to an NLA Track"
        )
    if into == "NLA" and data is not None and not data.use_nla and len(data.nla_tracks):
        raise ValueError(f"the NLA of {ob.name} is switched off: switch it on in the NLA editor, or bake to an action")
    action, slot = _assigned(data)
    names = live.rig.bones
    channels = [(names[bone], channel) for bone, channel in _channels(live)] + _switches(live)
    reason = keyframes.refusal(data, action if into != "NLA" else None, slot, channels, copied=into == "NEW")
    if not reason and action is not None:
        reason = _repeats_or_switches(action, slot, channels, frames if into != "NLA" and strip is None else [])
    if reason:
        raise ValueError(reason)


def _repeats_or_switches(action: Any, slot: Any, channels: list[tuple[str, str]], frames: list[int]) -> str:
    """Why keys on ``frames`` would change a cycle of an action, or bones whose rotation mode it animates cannot be baked; or empty."""
    paths = {keyframes.bone_path(bone, channel) for bone, channel in channels}
    modes = {keyframes.bone_path(bone, "rotation_mode"): bone for bone, _ in channels}
    for curve in actions.curves(action, slot):
        if curve.data_path in modes and not curve.mute:
            return f"{action.name} animates the rotation mode of {modes[curve.data_path]}: mute or delete that channel first"
        cyclic = any(modifier.type == "CYCLES" and not modifier.mute for modifier in curve.modifiers)
        if frames and cyclic and curve.data_path in paths and len(curve.keyframe_points):
            first, last = np.array(curve.range()).tolist()
            if frames[0] < first - keyframes.SAME_FRAME or frames[-1] > last + keyframes.SAME_FRAME:
                return (
                    f"{curve.data_path} of {action.name} repeats frames {first:.5g} to {last:.5g} (modifier Cycles), and keys"
                    " outside them would change every repetition: bake within them, or to an NLA Track"
                )
    return ""


def _assigned(data: Any) -> tuple[Any, Any]:
    """The assigned action and its slot; (None, None) if nothing is animated by it."""
    action = data.action if data is not None else None
    slot = data.action_slot if actions.SLOTTED and action is not None else None
    return (None, None) if action is None or (actions.SLOTTED and slot is None) else (action, slot)


def _write(
    scene: Any, ob: Any, live: LiveCharacter, take: _Take, into: str, total: int
) -> Generator[Progress, None, None]:
    """Write the keys, play them, and take them back if they do not show what was solved."""
    _check(ob, live, into, take.frames)
    frame, held = (scene.frame_current, scene.frame_subframe), runtime.snapshot(ob)
    kept = False
    back: list[Callable[[], object]] = []
    with paused(), _undeformed(scene, ob):
        try:
            _write_keys(ob, live, take, into, back)
            worst, where = 0.0, 0
            for i, number in enumerate(take.frames):
                scene.frame_set(number)
                off = _difference(live, _posed(ob, live), take.posed[i])
                worst, where = max((worst, where), (off, number))
                yield Progress(total - len(take.frames) + i + 1, total, f"checking frame {number}")
            if worst > 1:
                raise ValueError(
                    f"nothing was baked: on frame {where} the keys would show a pose {worst * PLAYED[0] * 1000:.0f} mm from the"
                    " solved one, because something else changes what they show (the time or repeats of an NLA strip, other"
                    " tracks, drivers). Bake to an NLA Track"
                )
            kept = True
        finally:
            if not kept:
                for step in reversed(back):
                    with suppress(ReferenceError, AttributeError, KeyError):  # deleted meanwhile: needs no undoing
                        step()
            scene.frame_set(frame[0], subframe=frame[1])
            if not kept:
                runtime.restore(ob, held)
                bpy.context.view_layer.update()
        if not isinstance(live.rig, ControlRig):
            solving.take_keyed(live, ob)


def _difference(live: LiveCharacter, played: np.ndarray, solved: np.ndarray) -> float:
    """How far two poses (J, 4, 4) [object space] are apart, in units of ``PLAYED``."""
    heads = float(np.linalg.norm(played[:, :3, 3] - solved[:, :3, 3], axis=1).max()) * live.rig.unit
    size = 1e-6 * float(np.abs(solved[:, :3, 3]).max()) * live.rig.unit
    axes = [runtime.orthonormal(pose[:, :3, :3].astype(np.float64)) for pose in (played, solved)]
    return max((heads - size) / PLAYED[0], float(np.abs(axes[0] - axes[1]).max()) / PLAYED[1])


def _write_keys(ob: Any, live: LiveCharacter, take: _Take, into: str, back: list[Callable[[], object]]) -> None:
    """Write the keys and let them play; appends to ``back`` what undoes it, step by step.

    The steps look the animation data up again: once its object is deleted, a reference to it would end Blender.
    """
    data = ob.animation_data or ob.animation_data_create()
    old, old_slot = data.action, data.action_slot if actions.SLOTTED and data.action is not None else None
    action, slot, is_new = _action_for(ob, data, into)
    if is_new:
        back.append(lambda: bpy.data.actions.remove(action))
        if into != "NLA":
            back.append(lambda: actions.assign(ob.animation_data, old, old_slot))
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
    times = np.array(take.frames, np.float32)
    if into != "NLA" and keyframes.is_layered(data):
        times, channels = keyframes.layer_values(ob, take.frames, channels)
    keyframes.write_bones(action, slot, times, channels)
    if into == "NLA":
        _push_to_nla(ob, old, old_slot, action, slot, back)


def _values(live: LiveCharacter, take: _Take) -> dict[tuple[str, str], np.ndarray]:
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


def _push_to_nla(ob: Any, old: Any, old_slot: Any, action: Any, slot: Any, back: list[Callable[[], object]]) -> None:
    """Turn the assigned action ``old`` into an NLA strip, if there is one, and add ``action`` as a strip above it.

    The strip of ``old`` is blended as the action was. That of ``action`` lasts as long as its keys, if anything else is
    animated: outside the baked range everything stays as it was.
    """
    data = ob.animation_data
    alone = old is None and not len(data.nla_tracks)
    if old is not None:
        how = data.action_blend_type, data.action_extrapolation, data.action_influence
        used = data.use_nla
        back.append(lambda: actions.assign(ob.animation_data, old, old_slot))
        back.append(lambda: setattr(ob.animation_data, "use_nla", used))
        actions.assign(data, None, None)
        strip = _add_strip(ob, old, old_slot, back)
        strip.blend_type, strip.extrapolation = how[:2]
        if how[2] < 1:
            strip.use_animated_influence, strip.influence = True, how[2]
    strip = _add_strip(ob, action, slot, back)
    strip.blend_type, strip.extrapolation = "REPLACE", "HOLD" if alone else "NOTHING"
    data.use_nla = True


def _add_strip(ob: Any, action: Any, slot: Any, back: list[Callable[[], object]]) -> Any:
    """Add a track with a strip of an action at its own frames: all those in which it is not held, whatever its manual range."""
    track = ob.animation_data.nla_tracks.new()
    track.name = action.name
    name = track.name
    back.append(lambda: ob.animation_data.nla_tracks.remove(ob.animation_data.nla_tracks[name]))
    start, end = action.curve_frame_range
    if any(c.extrapolation == "LINEAR" or len(c.modifiers) for c in actions.curves(action, slot)):
        start, end = min(start, -ENDLESS), max(end, ENDLESS)
    strip = track.strips.new(action.name, int(np.floor(start)), action)
    if actions.SLOTTED and slot is not None:
        strip.action_slot = slot
    if tuple(action.frame_range) != (start, end):
        strip.action_frame_start, strip.action_frame_end = start, end
    if (strip.frame_start, strip.frame_end) != (start, max(end, start + 1)):
        strip.frame_end_raw, strip.frame_start_raw = end, start
    return strip
