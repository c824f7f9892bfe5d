# SPDX-License-Identifier: GPL-3.0-or-later
"""A motion as values to key, on any character: its own bones, or the FK controls of a control rig."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import bpy
import numpy as np

from ...core import rotations
from . import control_rigs, fk_presets, rig_checks, runtime
from .control_rigs import ControlRig
from .fk_presets import FkRig
from .keyframes import Channels
from .rig import Rig

Named = dict[tuple[str, str], np.ndarray]
"""(bone name, channel) -> values (F, n); a channel that stays may have one row."""


def rig_of(ob: bpy.types.Object) -> Rig:
    """The rig that motion is written to: the FK controls of a control rig, or the bones themselves.

    Raises ValueError, in words, for an armature that cannot be read.
    """
    controls = fk_presets.read(ob)
    return control_rigs.read_any(ob) if controls is None else controls


def refusal(ob: bpy.types.Object, rig: Rig, who: str) -> str:
    """Why keys of ``who`` would not show on this rig, and what to do; empty if they would."""
    if ob.library is not None:
        return f"{ob.name} is linked from a library: make a library override first (Object > Relations)"
    if isinstance(rig, ControlRig) or (isinstance(rig, FkRig) and fk_presets.needs_blender(ob, rig)):
        return ""
    reason = rig_checks.control_rig(ob) or rig_checks.refusal(ob, rig, who)
    follows = reason and "has the constraint" in reason
    return reason + (
        "; or choose the FK controls of this rig in the panel Roles: motion goes onto them" if follows else ""
    )


def from_rest(
    ob: bpy.types.Object,
    rig: Rig,
    rot_local: np.ndarray,
    root_pos: np.ndarray,
    moved: Mapping[int, np.ndarray] | None = None,
) -> Generator[int, None, Named]:
    """All channels of a motion of its own, as for a new action; yields the number of frames done.

    Uncontrolled bones that it depends on are at rest, unless ``moved`` gives their basis matrices (F, 4, 4), for rigs without
    controls. ``rot_local`` (F, J, 3) [rad], ``root_pos`` (F, 3) [m, rig space].
    """
    if isinstance(rig, ControlRig):
        return (yield from control_rigs.channels(ob, rig, rot_local, root_pos))
    if isinstance(rig, FkRig) and fk_presets.needs_blender(ob, rig):
        found = yield from fk_presets.evaluated_channels(ob, rig, rot_local, root_pos)
    else:
        found = runtime.channels(ob, rig, rot_local, root_pos, moved)
    return _by_name(rig, found) | _switches(rig, 1)


def as_shown(
    scene: Any, ob: bpy.types.Object, rig: Rig, frames: np.ndarray, rot_local: np.ndarray, root_pos: np.ndarray
) -> Generator[int, None, Named]:
    """The channels of the controlled bones alone, with all other bones as the scene shows them on each of the ``frames`` (F).

    Yields the number of frames done. Shows other frames of the scene: the caller puts frame and pose back.
    """
    if isinstance(rig, FkRig) and fk_presets.needs_blender(ob, rig):
        found = yield from fk_presets.evaluated_channels(ob, rig, rot_local, root_pos)
        return _by_name(rig, found) | _switches(rig, len(frames))
    if rig.simple and not isinstance(rig, ControlRig):
        return _by_name(rig, runtime.channels(ob, rig, rot_local, root_pos)) | _switches(rig, len(frames))
    bones: Any = ob.pose.bones
    written = control_rigs.written(rig)
    turns = np.empty((len(frames), len(written), 4))
    located = control_rigs.with_location(rig)
    places = np.empty((len(frames), len(located), 3))
    for i, frame in enumerate(frames.tolist()):
        scene.frame_set(frame)
        if isinstance(rig, ControlRig):
            quaternions = rotations.quaternion_from_axis_angle(np.asarray(rot_local[i], np.float64))
            control_rigs.apply(ob, rig, quaternions, root_pos[i])
        else:
            runtime.apply(ob, rig, rot_local[i], root_pos[i])
        turns[i] = rig_checks.own_quaternions(rig, runtime.snapshot(ob), written)
        places[i] = [tuple(bones[b].location) for b in located]
        yield i + 1
    turns = rotations.continuous_quaternions(turns)
    out: Named = {}
    for k, bone in enumerate(written):
        mode = rig.modes[bone]
        out[rig.bones[bone], runtime.rotation_channel(mode)] = runtime.in_mode(turns[:, k], mode)
    for k, bone in enumerate(located):
        out[rig.bones[bone], "location"] = places[:, k]
    return out | _switches(rig, len(frames))


def _by_name(rig: Rig, channels: Mapping[tuple[int, str], np.ndarray]) -> Named:
    return {(rig.bones[bone], channel): values for (bone, channel), values in channels.items()}


def _switches(rig: Rig, rows: int) -> Named:
    """The switches of a control rig at FK, (rows, 1) each; none for any other rig."""
    if isinstance(rig, ControlRig):
        return {(name, f'["{control_rigs.SWITCH}"]'): np.ones((rows, 1)) for name in rig.switches}
    if isinstance(rig, FkRig):
        return {
            (name, f'["{bpy.utils.escape_identifier(prop)}"]'): np.full((rows, 1), value)
            for name, prop, value in rig.switches
        }
    return {}


def key_of(ob: bpy.types.Object) -> tuple[Any, ...]:
    """What the keys of a motion depend on: the bones, their rest and rotation modes, and the object's turn and scale."""
    if ob.pose is None:
        return ()
    data: Any = ob.data
    rest = np.empty(16 * len(data.bones), np.float32)
    data.bones.foreach_get("matrix_local", rest)
    bones = tuple((pb.name, pb.rotation_mode, pb.bone.use_connect) for pb in ob.pose.bones)
    return bones, rest.tobytes(), tuple(np.array(ob.matrix_world)[:3, :3].round(6).ravel().tolist())


def now(ob: bpy.types.Object, keys: Channels) -> Named:
    """(1, n) what each of the channels of ``keys`` is now."""
    bones: Any = ob.pose.bones
    out: Named = {}
    for bone, channel in keys:
        value = bones[bone].path_resolve(channel)
        out[bone, channel] = np.array(value, np.float64).reshape(1, -1)
    return out
