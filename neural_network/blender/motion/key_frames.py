# SPDX-License-Identifier: GPL-3.0-or-later
"""Which frames of a character are keyed, and between which of them Fill works."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import bpy
import numpy as np

from ...prediction import filling
from ..host import actions, control_rigs, dependencies, keyframes, motion_channels
from ..host.control_rigs import ControlRig
from ..host.fk_presets import FkRig
from ..host.rig import Rig
from ..host.shown_motion import fps_of

LONGEST = 20_000  # [frames] from the first to the last key of one Fill
DENSE = 4.0  # [frames] between keys of motion that somebody captured or baked
NEAR = 0.02  # [frames] a key this near to a whole frame is on it


def of(ob: Any, rig: Rig) -> tuple[np.ndarray, np.ndarray]:
    """Times (K) [frames, ascending] at which the assigned action has keys of the character's bones, and which are selected (K) bool.

    Of a control rig the keys of all its bones count, of any other those of the bones that are written.
    """
    data = ob.animation_data
    if data is None or data.action is None:
        return np.zeros(0), np.zeros(0, bool)
    slot = data.action_slot if actions.SLOTTED else None
    every = isinstance(rig, (ControlRig, FkRig))
    own = {rig.bones[bone] for bone in control_rigs.written(rig)}
    times: list[np.ndarray] = []
    chosen: list[np.ndarray] = []
    for curve in actions.curves(data.action, slot):
        bone = dependencies.bone_of(curve.data_path)
        if bone is not None and (every or bone in own) and actions.plays(curve):
            keys = keyframes.read_keys(curve)
            times.append(keys["co"][:, 0].astype(np.float64))
            chosen.append(keys["select_control_point"][:, 0])
    if not times:
        return np.zeros(0), np.zeros(0, bool)
    at, row = np.unique(np.concatenate(times).round(3), return_inverse=True)
    selected = np.zeros(len(at), bool)
    np.logical_or.at(selected, row, np.concatenate(chosen))
    return at, selected


def to_fill(context: bpy.types.Context, ob: Any, between: str) -> list[int]:
    """The keyed frames (ascending, two at least) between which Fill makes frames.

    ``between``: AROUND the playhead, or SELECTED keys. Raises ValueError, in words, where there are none such.
    """
    at, selected = of(ob, motion_channels.rig_of(ob))
    if len(at) < 2:
        raise ValueError(
            f"Fill needs two keyed poses, {ob.name} has {'one' if len(at) else 'none'}: pose it and insert keys (I) on two frames"
        )
    scene: Any = context.scene
    if between == "SELECTED":
        found = at[selected]
        if len(found) < 2:
            raise ValueError(
                f"{'one keyed frame is' if len(found) else 'no keys are'} selected: select the keys of two or more frames in the"
                " Timeline, or fill around the playhead"
            )
    else:
        before = np.flatnonzero(at <= scene.frame_current + NEAR)
        low = min(int(before[-1]) if len(before) else 0, len(at) - 2)
        found = at[low : low + 2]
    frames = np.round(found)
    off = np.abs(found - frames)
    if off.max() > NEAR:
        raise ValueError(
            f"the key at frame {found[int(off.argmax())]:g} is between two frames: snap keys to whole frames (Shift S in the"
            " Timeline), then fill"
        )
    out = [int(frame) for frame in frames]
    most = round(filling.MOST_SECONDS * fps_of(scene))
    for a, b in pairwise(out):
        if b - a > most:
            raise ValueError(
                f"keys {b - a} frames apart (frames {a} to {b}) are too far: Fill takes {most} frames ({filling.MOST_SECONDS:g} s)"
                " between two keys; pose a key between them"
            )
    if out[-1] - out[0] > LONGEST:
        raise ValueError(f"frames {out[0]} to {out[-1]}: one Fill takes {LONGEST} frames; select fewer keys")
    if all(b - a < 2 for a, b in pairwise(out)):
        raise ValueError(
            f"there is no frame between the keys of frames {out[0]} to {out[-1]}: delete keys where motion is to be filled in, or"
            " move them apart"
        )
    return out


def dense(at: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """(F) bool: the frames on which motion was captured or baked, with keys (K, ascending) close enough before and after."""
    if not len(at):
        return np.zeros(len(frames), bool)
    after = np.searchsorted(at, frames - NEAR)
    high, low = at[np.minimum(after, len(at) - 1)], at[np.maximum(after - 1, 0)]
    on = np.abs(high - frames) <= NEAR
    return ((high - low <= DENSE) | on) & (frames >= at[0] - NEAR) & (frames <= at[-1] + NEAR)


def around(ob: Any, keys: list[int], beside: int) -> list[int]:
    """Consecutive frames from the first key to the last one, with up to ``beside`` more at each end where keys are dense: how the
    body moves there is known, while between poses Blender only interpolates."""
    at, _ = of(ob, motion_channels.rig_of(ob))
    before = keys[0] - np.arange(1, beside + 1)
    after = keys[-1] + np.arange(1, beside + 1)
    counts = [int(np.argmin(np.append(dense(at, frames), False))) for frames in (before, after)]
    return list(range(keys[0] - counts[0], keys[-1] + counts[1] + 1))


def up_to(ob: Any, frame: int, most: int) -> list[int]:
    """Consecutive frames up to ``frame``, at most ``most``, from the first key on where it is in keyed motion."""
    at, _ = of(ob, motion_channels.rig_of(ob))
    first = max(frame - most + 1, int(np.ceil(at[0] - NEAR))) if len(at) else frame
    return list(range(min(first, frame), frame + 1))
