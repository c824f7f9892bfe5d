# SPDX-License-Identifier: GPL-3.0-or-later
"""The motion that a character can draw on: its own ticked actions, and the clips that came with Neural IK, on its body.

Actions are sampled once and kept until their keys, or the character's bones, change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from typing import Any

import bpy
import numpy as np

from ...core.contacts import runs
from ...motion import pose_set
from ...prediction import library
from ...rigs import on_body
from ...rigs.on_body import Character
from ..data import extract
from ..host import actions, memory, motion_channels
from ..host.jobs import Progress
from . import key_frames

Sample = tuple[str, np.ndarray, np.ndarray, float]
"""A clip: its name, turns (F, 23, 3, 3) and Hips' heads (F, 3) [m] on the character's body, and frames a second."""
MOST = 1000  # actions that are kept
LONGEST = 20_000  # [frames] of an action whose keys may lie far apart
SHORTEST = 12  # [frames] of a clip that is of use

_sampled: dict[tuple[str, bytes], Sample | None] = {}
"""Action and what it is made of -> its clip, or None where it moves nothing."""


def forget() -> None:
    """Forget every sampled action, and the shipped clips."""
    _sampled.clear()
    _shipped.clear()


def chosen(ob: Any) -> list[Any]:
    """The ticked actions that move a character."""
    found: list[Any] = extract.moving_actions(ob)
    return [action for action in found if action.neural_ik.use]


def of_character(
    context: bpy.types.Context, ob: Any, who: Character, shipped: bool, left_out: tuple[int, int] | None = None
) -> Generator[Progress, None, list[Sample]]:
    """Every clip that may be drawn on; yields Progress while actions are sampled.

    ``shipped``: with the clips that came with Neural IK. ``left_out``: first and last frame that the assigned action is to
    get new motion between. Raises ValueError, in words, where there is none at all.
    """
    scene = context.scene
    assert scene is not None
    assigned = ob.animation_data.action if ob.animation_data is not None else None
    own = [action for action in chosen(ob) if not _is_sparse(action, ob)]
    rig = hashlib.sha1(repr(motion_channels.key_of(ob)).encode()).digest()
    keys = {action.name: (action.name, rig + actions.content(action, ob)) for action in own}
    missing = [action for action in own if keys[action.name] not in _sampled]
    if missing:
        try:
            poses = (yield from extract.extract(scene, ob, missing)).poses
        except ValueError as error:
            if not str(error).startswith(extract.NOTHING):
                raise
            poses = None
        while len(_sampled) > MOST:
            del _sampled[next(iter(_sampled))]
        _sampled.update({keys[action.name]: None for action in missing})
        for clip, name in enumerate(poses.clip_names if poses is not None else ()):
            rows = poses.rows(clip)
            turns, root = on_body.to_body(who, poses.rot[rows], poses.root_pos[rows])
            _sampled[keys[name]] = name, turns, root, float(poses.clip_fps[clip])
    found = [sample for action in own if (sample := _sampled[keys[action.name]]) is not None]
    if assigned is not None:
        found = [part for sample in found for part in _parts(sample, ob, assigned, left_out)]
    found = [sample for sample in found if len(sample[1]) >= SHORTEST]
    if shipped:
        names = {sample[0] for sample in found}
        found += [sample for sample in shipped_clips(who) if sample[0] not in names]
    if not found:
        raise ValueError(
            f"{ob.name} has no action to take motion from: give it some actions of at least {SHORTEST} frames (Import Mocap), tick"
            " them under Learn, or switch Shipped Clips on"
        )
    return found


def _is_sparse(action: Any, ob: Any) -> bool:
    """Whether an action is very long and mostly without keys, as where one lies far from the others by mistake."""
    first, last = action.curve_frame_range
    if last - first <= LONGEST:
        return False
    keys = [len(c.keyframe_points) for slot in actions.slots_for(action, ob) for c in actions.curves(action, slot)]
    return float(last - first) > key_frames.DENSE * max(keys, default=0)


def _parts(sample: Sample, ob: Any, assigned: Any, left_out: tuple[int, int] | None) -> list[Sample]:
    """A clip; if it is that of the assigned action, what of it is outside of ``left_out`` and densely keyed: the rest is only what
    Blender shows between poses."""
    name, turns, root, fps = sample
    if name != assigned.name:
        return [sample]
    start = assigned.frame_start if assigned.use_frame_range else assigned.curve_frame_range[0]
    frames = start + np.arange(len(turns))
    kept = key_frames.dense(key_frames.of(ob, motion_channels.rig_of(ob))[0], frames)
    if left_out is not None:
        kept &= (frames <= left_out[0]) | (frames >= left_out[1])
    return [(name, turns[first:last], root[first:last], fps) for first, last in runs(kept)]


_shipped: dict[bytes, list[Sample]] = {}
"""The lengths of a body -> the shipped clips on it, of the body that was asked for last."""


def shipped_clips(who: Character) -> list[Sample]:
    """The clips that came with Neural IK, with the travel of the character's own legs and with its feet on the same floor."""
    key = who.body.offsets.tobytes()
    if key not in _shipped:
        takes = library.takes_of(pose_set.load(memory.SHIPPED_DATA), who.body)
        _shipped.clear()
        _shipped[key] = [(take.name, take.turns, take.root, take.fps) for take in takes]
    return _shipped[key]
