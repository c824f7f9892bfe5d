# SPDX-License-Identifier: GPL-3.0-or-later
"""What an extraction samples: the chosen actions and NLA strips as takes, and how each of them has to be sampled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import bpy
import numpy as np

from ...motion.tasks import guess_task
from ..host import actions as blender_actions
from ..host.rig import Rig
from ..host.runtime import CHANNELS

PATHS = ("auto", "fast", "evaluated")
FPS_KEY = "neural_ik_fps"  # custom property of an action: its own frame rate, if it differs from the scene's
OBJECT_CHANNELS = (*CHANNELS, "delta_location", "delta_rotation_euler", "delta_rotation_quaternion", "delta_scale")
AT_REST = {
    "location": (0.0, 0, 0),
    "rotation_quaternion": (1.0, 0, 0, 0),
    "rotation_euler": (0.0, 0, 0),
    "rotation_axis_angle": (0.0, 0, 1, 0),
    "scale": (1.0, 1, 1),
}
MAX_FRAMES = 1_000_000  # of one take: more is a mistyped range, and would fill the memory
Sampled = tuple[np.ndarray, np.ndarray, np.ndarray]
"""rot_local (F, J, 3) [rad], root_pos (F, 3) [m], and how far each bone moves from its place on its parent (J) [m] at most."""


@dataclass(frozen=True)
class Options:
    """How to sample."""

    step: float = 1.0
    """Frames from one sample to the next."""
    start: float | None = None
    """First frame; None uses each action's own first."""
    end: float | None = None
    """Last frame; None uses each action's own last."""
    root_motion: bool = True
    """Keep the travel over the ground; without it the root stays above its rest position."""
    nla: bool = False
    """Also sample the strips of the NLA tracks, each as the tracks play it."""
    path: str = "auto"
    """One of PATHS."""


@dataclass(frozen=True)
class Take:
    """One thing to sample: an action's slot, or an NLA strip (then ``action`` is None)."""

    name: str
    task: str
    action: bpy.types.Action | None
    slot: Any
    start: float
    end: float
    fps: float
    curves: dict[tuple[int, str], dict[int, bpy.types.FCurve]] = field(default_factory=dict)
    """(bone, channel) -> component -> the curve that moves it."""
    others: tuple[bpy.types.FCurve, ...] = ()
    """Curves that animate anything else of the object."""


def moving_actions(ob: bpy.types.Object) -> list[bpy.types.Action]:
    """The actions in the file that move at least one bone of ``ob``, in order of their names."""
    names = channel_paths([pb.name for pb in ob.pose.bones]) if ob.pose else {}
    return [
        action
        for action in bpy.data.actions
        if any(
            c.data_path in names
            for slot in blender_actions.slots_for(action, ob)
            for c in blender_actions.curves(action, slot)
        )
    ]


def rate_of(action: bpy.types.Action, scene: bpy.types.Scene) -> float:
    """Frames a second of an action: its custom property FPS_KEY if that is a sensible number, else the scene's."""
    own: Any = action.get(FPS_KEY)
    if isinstance(own, int | float) and 0 < own < 1e6:
        return float(own)
    return scene.render.fps / scene.render.fps_base


def find_takes(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    rig: Rig,
    chosen: list[bpy.types.Action],
    options: Options,
    tasks: dict[str, str],
    notes: list[str],
) -> list[Take]:
    """The takes of the ``chosen`` actions and, on request, of the NLA strips; what is left out is added to ``notes``.

    ``tasks`` maps names of actions and strips to task types. Raises ValueError for a take of more than MAX_FRAMES.
    """
    paths = channel_paths(rig.bones)
    found = [_of_action(scene, ob, rig, action, paths, tasks, notes) for action in chosen]
    takes = [take for take in found if take is not None]
    if options.nla:
        takes += _of_strips(scene, ob, tasks)
    out = []
    for take in takes:
        if len(take_frames(take, options)):
            out.append(take)
        else:
            notes.append(f"{take.name} was left out: it has no frame in the chosen range.")
    return out


def _of_action(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    rig: Rig,
    action: bpy.types.Action,
    paths: dict[str, tuple[int, str]],
    tasks: dict[str, str],
    notes: list[str],
) -> Take | None:
    """The first slot of an action that moves controlled bones; None, with a note, if there is none."""
    controlled = set(rig.needed)
    slots = blender_actions.slots_for(action, ob)
    if not slots:
        notes.append(f"{action.name} was left out: it has no slot for an object.")
        return None
    for slot in slots:
        live = [c for c in blender_actions.curves(action, slot) if _plays(c)]
        if any(c.data_path in paths and paths[c.data_path][0] in controlled for c in live):
            break
    else:
        notes.append(f"{action.name} was left out: nothing in it moves the controlled bones of {ob.name}.")
        return None
    own: dict[tuple[int, str], dict[int, bpy.types.FCurve]] = {}
    others = []
    for curve in live:
        if curve.data_path in paths:
            own.setdefault(paths[curve.data_path], {})[curve.array_index] = curve
        else:
            others.append(curve)
    if action.use_frame_range:
        start, end = action.frame_start, action.frame_end
    else:
        ranges = np.array([c.range() for c in live])
        start, end = float(ranges[:, 0].min()), float(ranges[:, 1].max())
    task = tasks.get(action.name) or guess_task(action.name)
    return Take(action.name, task, action, slot, start, end, rate_of(action, scene), own, tuple(others))


def _of_strips(scene: bpy.types.Scene, ob: bpy.types.Object, tasks: dict[str, str]) -> list[Take]:
    """The NLA strips of ``ob`` that are not muted."""
    data = ob.animation_data
    fps = scene.render.fps / scene.render.fps_base
    out = []
    for track in data.nla_tracks if data is not None else ():
        for strip in track.strips:
            if not track.mute and not strip.mute:
                task = tasks.get(strip.name) or guess_task(strip.name)
                name = f"{track.name}/{strip.name}"
                out.append(Take(name, task, None, None, strip.frame_start, strip.frame_end, fps))
    return out


def take_frames(take: Take, options: Options) -> np.ndarray:
    """(F) the frames of a take to sample; none if it lies outside the chosen range. Raises ValueError for too many."""
    start = take.start if options.start is None else max(take.start, options.start)
    end = take.end if options.end is None else min(take.end, options.end)
    count = int(np.floor((end - start) / options.step + 1e-6)) + 1
    if count > MAX_FRAMES:
        raise ValueError(f"{take.name} is {count} samples long: choose a range or a larger step")
    return start + options.step * np.arange(max(0, count))


def channel_paths(bones: Iterable[str]) -> dict[str, tuple[int, str]]:
    """data_path of every transform channel of every bone -> (bone's index, channel)."""
    return {
        f'pose.bones["{bpy.utils.escape_identifier(name)}"].{channel}': (i, channel)
        for i, name in enumerate(bones)
        for channel in CHANNELS
    }


def _plays(curve: bpy.types.FCurve) -> bool:
    muted = curve.mute or (curve.group is not None and curve.group.mute)
    return not muted and not curve.is_empty


def why_evaluated(ob: bpy.types.Object, rig: Rig) -> str:
    """Why Blender must evaluate this rig frame by frame; empty if the curves say it all."""
    bones = ob.pose.bones
    for i in rig.needed:
        pb = bones[i]
        live = [c.name for c in pb.constraints if not c.mute]
        if live:
            return f"{pb.name} has the constraint {live[0]}"
        if not rig.plain[i]:
            return f"{pb.name} does not inherit its parent's rotation as usual"
    for holder in (ob, ob.data):
        data = holder.animation_data
        if data is not None and any(not d.mute for d in data.drivers):
            return f"{holder.name} has drivers"
    if ob.data.animation_data is not None and ob.data.animation_data.action is not None:
        return f"the armature data of {ob.name} is animated"
    if any(not c.mute for c in ob.constraints):
        return f"{ob.name} has a constraint"
    if ob.parent is not None:
        return f"{ob.name} has a parent"
    return ""


def why_take_evaluated(ob: bpy.types.Object, rig: Rig, take: Take) -> str:
    """Why Blender must evaluate this take frame by frame; empty if the curves say it all."""
    if take.action is None:
        return "the NLA mixes it"
    needed = set(rig.needed)
    scales = [curves for (bone, channel), curves in take.curves.items() if channel == "scale" and bone in needed]
    if any(not _is_one(curve) for curves in scales for curve in curves.values()):
        return "it scales bones"
    for curve in take.others:
        if curve.data_path in OBJECT_CHANNELS:
            return "it moves the object itself"
        if curve.data_path.endswith(".rotation_mode"):
            return "it changes rotation modes"
    return ""


def _is_one(curve: bpy.types.FCurve) -> bool:
    """Whether a curve is 1 throughout, like the scale curves that exporters write for every bone."""
    keys = np.empty((len(curve.keyframe_points), 2), np.float32)
    curve.keyframe_points.foreach_get("co", keys.reshape(-1))
    return not len(curve.modifiers) and len(keys) > 0 and float(np.abs(keys[:, 1] - 1).max()) < 1e-4
