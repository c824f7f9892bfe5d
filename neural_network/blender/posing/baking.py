# SPDX-License-Identifier: GPL-3.0-or-later
"""Baking Live IK over a range of frames: every frame is solved first, then all keys are written."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core import rotations
from ..host import actions, control_rigs, keyframes, rig_checks, runtime
from ..host.control_rigs import ControlRig
from ..host.jobs import Progress
from . import keying, live_ik, planted_feet
from .planted_feet import Skate
from .state import LiveCharacter, settings_of, unsolvable


@dataclass(frozen=True)
class _Take:
    """The solved frames; filled frame by frame."""

    frames: list[int]
    quaternions: np.ndarray
    """(F, N, 4) rotations of all bones."""
    locations: np.ndarray
    """(F, N, 3) locations of all bones."""
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

    Nothing is written before all frames are solved. Frame and pose are restored if the generator is closed before.

    Args:
        context: Blender's context.
        collection: the targets of the character.
        first: first frame.
        last: last frame, included if ``step`` reaches it.
        step: frames from one key to the next.
        into: ACTION writes to the assigned action, or a new one if there is none; NEW to a copy of it, which is then
            assigned; NLA to a new action on a track above all others.
        hold_feet: keep planted feet from sliding if their targets are on; frames are then solved twice.

    Raises ValueError for an empty range, a step below 1, and a character or frame that cannot be solved.
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
    total = (1 + hold_feet) * len(frames) + 1
    scene: Any = context.scene
    seconds = step * scene.render.fps_base / scene.render.fps
    count, bones, feet = len(frames), len(live.rig.bones), len(live.rig.skeleton.feet)
    take = _Take(
        frames,
        np.empty((count, bones, 4)),
        np.empty((count, bones, 3), np.float32),
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
    _write(ob, live, take, into)
    yield Progress(total, total, "keys written")
    return planted_feet.skate(is_planted, take.feet_before, take.feet_after)


def _solve(scene: Any, ob: Any, live: LiveCharacter, take: _Take, i: int) -> None:
    """Solve the frame ``take.frames[i]``: Live IK does so itself when the frame changes."""
    scene.frame_set(take.frames[i])
    if live.problem or live.suspended:
        raise ValueError(f"frame {take.frames[i]}: {live.problem or live.suspended}")
    channels = runtime.snapshot(ob)
    take.quaternions[i] = rig_checks.own_quaternions(live.rig, channels, list(range(len(live.rig.bones))))
    take.locations[i] = channels["location"].reshape(-1, 3)
    take.feet_before[i] = planted_feet.positions(live, ob, live.base)
    take.feet_after[i] = planted_feet.positions(live, ob, channels)


@contextmanager
def _restored(scene: Any, ob: Any, live: LiveCharacter) -> Iterator[None]:
    """Restore the frame afterwards. Meanwhile meshes are not deformed: that takes most of a frame's time."""
    frame, subframe = scene.frame_current, scene.frame_subframe
    hidden = _hide_deformation(scene, ob)
    try:
        yield
    finally:
        live.shift = None
        for name, modifier in hidden:
            other: Any = bpy.data.objects.get(name)
            if other is not None and modifier in other.modifiers:
                other.modifiers[modifier].show_viewport = True
        scene.frame_set(frame, subframe=subframe)


def _hide_deformation(scene: Any, ob: bpy.types.Object) -> list[tuple[str, str]]:
    """Hide the armature modifiers of ``ob`` that are shown; returns them as (object, modifier)."""
    hidden = []
    for other in scene.objects:
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


def _write(ob: Any, live: LiveCharacter, take: _Take, into: str) -> None:
    """Write the keys and let them play."""
    data = ob.animation_data or ob.animation_data_create()
    old = data.action
    action, slot = _action_for(ob, data, into)
    located = control_rigs.with_location(live.rig)
    channels = {}
    for bone in keying.bones_to_key(live.rig, keying.selection_mask(live)):
        name, mode = live.rig.bones[bone], live.rig.modes[bone]
        quaternions = rotations.continuous_quaternions(take.quaternions[:, bone])
        channels[name, runtime.rotation_channel(mode)] = runtime.in_mode(quaternions, mode)
        if bone in located:
            channels[name, "location"] = take.locations[:, bone]
    for name in live.rig.switches if isinstance(live.rig, ControlRig) else ():
        channels[name, f'["{control_rigs.SWITCH}"]'] = np.ones((len(take.frames), 1))
    keyframes.write_bones(action, slot, np.array(take.frames, np.float32), channels)
    if into == "NLA":
        _push_to_nla(data, old, action, slot)
    else:
        actions.assign(data, action, slot)


def _action_for(ob: Any, data: Any, into: str) -> tuple[Any, Any]:
    """The action to write to, and its slot; see :func:`bake`."""
    old = data.action
    slot = data.action_slot if actions.SLOTTED and old is not None else None
    if into == "NLA":
        return actions.new(f"{old.name if old is not None else ob.name} Live IK", ob.name)
    if old is None or (actions.SLOTTED and slot is None):
        return actions.new(f"{ob.name} Live IK", ob.name)
    if into != "NEW":
        return old, slot
    copy = old.copy()
    copy.name = f"{old.name} Live IK"
    return copy, copy.slots[list(old.slots).index(slot)] if actions.SLOTTED else None


def _push_to_nla(data: Any, old: Any, action: Any, slot: Any) -> None:
    """Turn the assigned action ``old`` into an NLA strip, if there is one, and add ``action`` as a strip above it."""
    if old is not None:
        old_slot = data.action_slot if actions.SLOTTED else None
        actions.assign(data, None, None)
        _add_strip(data, old, old_slot)
    _add_strip(data, action, slot)
    data.use_nla = True


def _add_strip(data: Any, action: Any, slot: Any) -> None:
    track = data.nla_tracks.new()
    track.name = action.name
    strip = track.strips.new(action.name, int(action.frame_range[0]), action)
    if actions.SLOTTED and slot is not None:
        strip.action_slot = slot
    strip.blend_type, strip.extrapolation = "REPLACE", "HOLD_FORWARD"
