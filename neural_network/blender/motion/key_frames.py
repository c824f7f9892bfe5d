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


def with_known(ob: Any, keys: list[int], beside: int, after: bool = True) -> list[int]:
    """Consecutive frames from the first key to the last one, and up to ``beside`` more at each end that the action has motion on.

    ``after``: also behind the last one.
    """
    at, _ = of(ob, motion_channels.rig_of(ob))
    first, last = keys[0], keys[-1]
    if len(at):
        first = min(first, max(first - beside, int(np.ceil(at[0] - NEAR))))
        last = max(last, min(last + beside, int(np.floor(at[-1] + NEAR)))) if after else last
    return list(range(first, last + 1))
