# SPDX-License-Identifier: GPL-3.0-or-later
"""What an extraction samples: the chosen actions, NLA strips and the timeline as takes, and how each has to be sampled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...motion.tasks import guess_task
from ..host import actions as blender_actions
from ..host import dependencies
from ..host.rig import Rig
from ..host.runtime import CHANNELS

PATHS = ("auto", "fast", "evaluated")
ACTION, STRIP, TIMELINE = "action", "strip", "timeline"
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
Movers = dict[bpy.types.Object, set[str]]


@dataclass(frozen=True)
class Sampled:
    """The poses of one take, and how far they are from what Blender shows."""

    rot: np.ndarray
    """(F, J, 3) rot_local [rad]."""
    root: np.ndarray
    """(F, 3) root_pos [m]."""
    lost: np.ndarray
    """(J) the largest distance of each bone's head in these poses from where it is shown [m]."""
    turned: float = 0.0
    """The largest angle [rad] between a bone's axes in these poses and as shown, where scale shears them."""


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
    timeline: bool = False
    """Sample the scene's frames as the timeline shows them, with NLA and everything else, in place of single actions."""
    path: str = "auto"
    """One of PATHS."""


@dataclass(frozen=True)
class Take:
    """One thing to sample. It holds no F-Curve and no slot, which may vanish while an extraction waits."""

    name: str
    task: str
    kind: str
    """ACTION, STRIP or TIMELINE."""
    start: float
    end: float
    fps: float
    action: bpy.types.Action | None = None
    plays: tuple[tuple[bpy.types.Object, int], ...] = ()
    """Where an action is played: objects, and the handles of their slots."""

    def slot(self, ob: bpy.types.Object) -> Any:
        """The slot of the action for ``ob``. Raises ValueError where it was removed."""
        return next(blender_actions.slot_of(self.action, handle) for who, handle in self.plays if who == ob)


@dataclass(frozen=True)
class Curves:
    """The curves of a take that move one object, sorted; to be used at once."""

    own: dict[tuple[int, str], dict[int, bpy.types.FCurve]]
    """(bone, channel) -> component -> the curve that moves it."""
    others: list[bpy.types.FCurve]
    """Curves that animate anything else of the object."""


def curves_of(take: Take, ob: bpy.types.Object, paths: dict[str, tuple[int, str]]) -> Curves:
    """The curves by which a take moves ``ob``, whose channels are ``paths``; none if it does not play on it."""
    out = Curves({}, [])
    if take.action is None or all(who != ob for who, _ in take.plays):
        return out
    for curve in blender_actions.curves(take.action, take.slot(ob)):
        if not blender_actions.plays(curve):
            continue
        if curve.data_path in paths and curve.array_index < CHANNELS[paths[curve.data_path][1]]:
            out.own.setdefault(paths[curve.data_path], {})[curve.array_index] = curve
        else:
            out.others.append(curve)
    return out


def moving_actions(ob: bpy.types.Object) -> list[bpy.types.Action]:
    """The actions in the file that may move bones of ``ob``, on itself or on what its bones follow, in order of their names."""
    if not ob.pose:
        return []
    found = dependencies.movers(ob, [pb.name for pb in ob.pose.bones])
    return [
        action
        for action in bpy.data.actions
        if any(_moves(action, who, bones, who != ob, muted=True) is not None for who, bones in found.items())
    ]


def _moves(
    action: bpy.types.Action, who: bpy.types.Object, bones: set[str], foreign: bool, muted: bool = False
) -> int | None:
    """The handle of the first slot of an action that moves one of ``bones`` of ``who``, also by ``muted`` curves; or None."""
    for slot in blender_actions.slots_for(action, who):
        for curve in blender_actions.curves(action, slot):
            bone = dependencies.bone_of(curve.data_path)
            own = bone is None and foreign and "" in bones and curve.data_path in OBJECT_CHANNELS
            if (own or (bone is not None and bone in bones)) and (muted or blender_actions.plays(curve)):
                return blender_actions.handle_of(slot)
    return None


def rate_of(action: bpy.types.Action, scene: bpy.types.Scene) -> float:
    """Frames a second of an action: its custom property FPS_KEY if that is a sensible number, else the scene's."""
    own: Any = action.get(FPS_KEY)
    if isinstance(own, int | float) and 0 < own < 1e6:
        return float(own)
    return scene.render.fps / scene.render.fps_base


def find_takes(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    movers: Movers,
    chosen: list[bpy.types.Action],
    options: Options,
    tasks: dict[str, str],
    notes: list[str],
) -> list[list[Take]]:
    """The takes of the ``chosen`` actions, NLA strips or timeline, each with the ways to play it, the likeliest first.

    What is left out is added to ``notes``. ``tasks`` maps names of actions and strips to task types. Raises ValueError for
    a take of more than MAX_FRAMES.
    """
    if options.timeline:
        found = [[_of_timeline(scene, ob, tasks)]]
    else:
        found = [_of_action(scene, ob, movers, action, tasks, notes) for action in chosen]
        found += [[take] for take in _of_strips(scene, ob, tasks)] if options.nla else []
    out = []
    for ways in found:
        kept = [take for take in ways if len(take_frames(take, options))]
        if kept:
            out.append(kept)
        elif ways:
            notes.append(f"{ways[0].name} was left out: it has no frame in the chosen range.")
    return out


def _of_action(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    movers: Movers,
    action: bpy.types.Action,
    tasks: dict[str, str],
    notes: list[str],
) -> list[Take]:
    """The ways to play an action: on what it was made for, else on each that it could move; none, with a note, if none."""
    found = {who: _moves(action, who, bones, who != ob) for who, bones in movers.items()}
    plays = [(who, handle) for who, handle in found.items() if handle is not None]
    if not plays:
        if not any(blender_actions.slots_for(action, who) for who in movers):
            notes.append(f"{action.name} was left out: it has no slot for an object.")
        else:
            reason = _unplayed(action, ob, movers)
            notes.append(f"{action.name} was left out: nothing in it moves the controlled bones of {ob.name}{reason}.")
        return []
    named = [(who, handle) for who, handle in plays if _is_own(action, who, handle)]
    ways = [tuple(named)] if len(named) > 1 else []
    ways += [(play,) for play in named or plays]
    task = tasks.get(action.name) or guess_task(action.name)
    out = []
    for way in ways:
        start, end = _range(action, way)
        out.append(Take(action.name, task, ACTION, start, end, rate_of(action, scene), action, way))
    return out


def _is_own(action: Any, who: bpy.types.Object, handle: int) -> bool:
    """Whether a slot of an action was made for ``who`` or is in use by it."""
    data: Any = who.animation_data
    if not blender_actions.SLOTTED:
        return data is not None and data.action == action
    slot = blender_actions.slot_of(action, handle)
    used = data is not None and data.action == action and data.action_slot == slot
    return used or slot.name_display == who.name


def _unplayed(action: bpy.types.Action, ob: bpy.types.Object, movers: Movers) -> str:
    """Why curves of controlled bones do not play, as the end of a sentence; empty if there are none."""
    for slot in blender_actions.slots_for(action, ob):
        bones = [dependencies.bone_of(curve.data_path) for curve in blender_actions.curves(action, slot)]
        if any(bone in movers[ob] for bone in bones):
            return ", because its curves are muted or empty"
    return ""


def _range(action: bpy.types.Action, plays: Iterable[tuple[bpy.types.Object, int]]) -> tuple[float, float]:
    """First and last frame of an action as it is played."""
    if action.use_frame_range:
        return action.frame_start, action.frame_end
    live = [curve for _, handle in plays for curve in _live(action, handle)]
    ranges = np.array([curve.range() for curve in live])
    return float(ranges[:, 0].min()), float(ranges[:, 1].max())


def _live(action: bpy.types.Action, handle: int) -> Iterator[bpy.types.FCurve]:
    slot = blender_actions.slot_of(action, handle)
    return (curve for curve in blender_actions.curves(action, slot) if blender_actions.plays(curve))


def _of_strips(scene: bpy.types.Scene, ob: bpy.types.Object, tasks: dict[str, str]) -> list[Take]:
    """The NLA strips of ``ob`` that play: not muted, and those of the soloed track alone if there is one."""
    data = ob.animation_data
    fps = scene.render.fps / scene.render.fps_base
    out = []
    tracks = list(data.nla_tracks) if data is not None else []
    for track in [track for track in tracks if track.is_solo] or tracks:
        for strip in track.strips:
            if not track.mute and not strip.mute:
                task = tasks.get(strip.name) or guess_task(strip.name)
                name = f"{track.name}/{strip.name}"
                out.append(Take(name, task, STRIP, strip.frame_start, strip.frame_end, fps))
    return out


def _of_timeline(scene: bpy.types.Scene, ob: bpy.types.Object, tasks: dict[str, str]) -> Take:
    """The scene's frame range, or its preview range, with everything that plays in it."""
    name = f"{scene.name} {ob.name}"
    data = ob.animation_data
    action = data.action if data is not None else None
    task = (tasks.get(action.name) or guess_task(action.name)) if action is not None else guess_task(name)
    first, last = scene.frame_start, scene.frame_end
    if scene.use_preview_range:
        first, last = scene.frame_preview_start, scene.frame_preview_end
    return Take(name, task, TIMELINE, first, last, scene.render.fps / scene.render.fps_base)


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


def why_evaluated(ob: bpy.types.Object, rig: Rig, movers: Movers) -> str:
    """Why Blender must evaluate this rig frame by frame; empty if the curves say it all."""
    bones = ob.pose.bones
    for i in rig.needed:
        pb = bones[i]
        live = [c.name for c in pb.constraints if not c.mute]
        if live:
            return f"{pb.name} has the constraint {live[0]}"
        if not rig.plain[i]:
            return f"{pb.name} does not inherit its parent's rotation as usual"
    for pb in bones:
        for constraint in pb.constraints:
            if not constraint.mute and constraint.type in ("IK", "SPLINE_IK"):
                moved = set(dependencies.ik_chain(ob, pb, constraint)) & {rig.bones[i] for i in rig.needed}
                if moved:
                    return f"{pb.name} has the constraint {constraint.name}, which moves {min(moved)}"
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
    if take.kind == TIMELINE:
        return "the timeline is taken as it is shown"
    if take.kind == STRIP:
        return "the NLA mixes it"
    if [who for who, _ in take.plays] != [ob]:
        return f"it is played on {' and '.join(who.name for who, _ in take.plays)}"
    needed = set(rig.needed)
    curves = curves_of(take, ob, channel_paths(rig.bones))
    scales = [own for (bone, channel), own in curves.own.items() if channel == "scale" and bone in needed]
    if any(not _is_one(curve) for own in scales for curve in own.values()):
        return "it scales bones"
    for curve in curves.others:
        if curve.data_path in OBJECT_CHANNELS:
            return "it moves the object itself"
        if curve.data_path.endswith(".rotation_mode"):
            return "it changes rotation modes"
        if dependencies.bone_of(curve.data_path) is not None and ".constraints[" in curve.data_path:
            return "it switches constraints"  # which may be muted now
    return ""


def _is_one(curve: bpy.types.FCurve) -> bool:
    """Whether a curve is 1 throughout, like the scale curves that exporters write for every bone."""
    keys = np.empty((len(curve.keyframe_points), 2), np.float32)
    curve.keyframe_points.foreach_get("co", keys.reshape(-1))
    return not len(curve.modifiers) and len(keys) > 0 and float(np.abs(keys[:, 1] - 1).max()) < 1e-4
