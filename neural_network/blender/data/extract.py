# SPDX-License-Identifier: GPL-3.0-or-later
"""Extract Data: a character's actions sampled into a PoseSet.

Two ways lead to the same numbers. The *fast* one reads the F-Curves and composes the rotations itself. The *evaluated*
one lets Blender evaluate frame by frame; it is taken where constraints, drivers, scale or unusual bone settings shape
the pose. What an action does not move stands at rest in both, so that no action leaks into the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

import bpy
import numpy as np

from ...core import rotations
from ...motion import pose_set
from ...motion.pose_set import PoseSet
from ...motion.tasks import guess_task
from ..host import actions as blender_actions
from ..host import runtime
from ..host.jobs import Progress
from ..host.rig import Rig, metres, read
from ..host.runtime import CHANNELS

PATHS = ("auto", "fast", "evaluated")
FPS_KEY = "neural_ik_fps"  # custom property of an action: its own frame rate, where it differs from the scene's
OBJECT_CHANNELS = (*CHANNELS, "delta_location", "delta_rotation_euler", "delta_rotation_quaternion", "delta_scale")
AT_REST = {
    "location": (0.0, 0, 0),
    "rotation_quaternion": (1.0, 0, 0, 0),
    "rotation_euler": (0.0, 0, 0),
    "rotation_axis_angle": (0.0, 0, 1, 0),
    "scale": (1.0, 1, 1),
}
LOOSE = 0.002  # of the body's size: a bone that leaves its place by more is spoken of
DIGITS = 6  # decimals kept [rad, m]
MOST_FRAMES = 1_000_000  # of one take: more is a mistyped range, and would fill the memory


@dataclass(frozen=True)
class Options:
    """How to sample."""

    step: float = 1.0
    """Frames from one sample to the next."""
    start: float | None = None
    """First frame taken; None: each action's own first."""
    end: float | None = None
    """Last frame taken; None: each action's own last."""
    root_motion: bool = True
    """Keep the travel over the ground; without it the root stays above its rest place."""
    nla: bool = False
    """Take the strips of the NLA tracks too, each as the tracks play it."""
    path: str = "auto"
    """One of PATHS."""


@dataclass(frozen=True)
class Extraction:
    """What came out."""

    poses: PoseSet
    notes: tuple[str, ...]
    """What was left out and why, what took the slow way and why: one sentence each."""


@dataclass(frozen=True)
class _Take:
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
    """Curves that move something else of the object."""


def moving_actions(ob: bpy.types.Object) -> list[bpy.types.Action]:
    """The actions in the file that move at least one bone of ``ob``, by name."""
    names = _paths([pb.name for pb in ob.pose.bones]) if ob.pose else {}
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
    """Frames a second of an action: its own custom property where that is a sensible number, else the scene's."""
    own: Any = action.get(FPS_KEY)
    if isinstance(own, int | float) and 0 < own < 1e6:
        return float(own)
    return scene.render.fps / scene.render.fps_base


def extract(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    chosen: Iterable[bpy.types.Action],
    options: Options = Options(),
    tasks: dict[str, str] | None = None,
) -> Generator[Progress, None, Extraction]:
    """Sample ``chosen`` actions of the armature ``ob``; yields Progress, returns the Extraction.

    ``tasks`` maps names of actions to task types, guessed from the name where absent. Frame, action, slot, NLA flags,
    pose and modifiers are put back when the generator ends, is closed, or fails. Raises ValueError in words for what
    cannot work.
    """
    if options.path not in PATHS:
        raise ValueError(f"path: expected one of {', '.join(PATHS)}, got {options.path!r}")
    if not options.step > 0:
        raise ValueError(f"step: expected a positive number of frames, got {options.step}")
    rig = read(ob)
    notes = list(rig.notes)
    takes = _takes(scene, ob, rig, list(chosen), options, tasks or {}, notes)
    if not takes:
        raise ValueError("nothing to extract: " + (" ".join(notes) or f"no action moves the bones of {ob.name}"))
    frames = [_frames(take, options) for take in takes]
    total = sum(map(len, frames))
    rot = np.empty((total, rig.skeleton.count, 3), np.float32)
    root = np.empty((total, 3), np.float32)
    slow = _why_evaluated(ob, rig)
    done, clip = 0, np.repeat(np.arange(len(takes)), list(map(len, frames)))
    with contextlib.ExitStack() as stack:
        kept: _Kept | None = None
        for number, (take, own) in enumerate(zip(takes, frames, strict=True)):
            reason = slow or _why_take_evaluated(ob, rig, take)
            if reason and options.path == "fast":
                raise ValueError(f"{take.name} cannot take the fast path: {reason}")
            text = f"{take.name} ({number + 1} of {len(takes)})"
            if reason or options.path == "evaluated":
                if kept is None:
                    kept = _Kept(scene, ob, rig, takes)
                    stack.callback(kept.put_back)
                    kept.prepare()
                if reason and options.path == "auto":
                    notes.append(f"{take.name} was evaluated frame by frame: {reason}.")
                sampler = _evaluated(scene, ob, rig, take, own, kept)
            else:
                sampler = _fast(rig, take, own)
            while True:
                try:
                    part = next(sampler)
                except StopIteration as end:
                    rot[done : done + len(own)], root[done : done + len(own)], apart = end.value
                    notes += _loose(rig, take, apart)
                    break
                yield Progress(done + part, total, text)
            done += len(own)
            yield Progress(done, total, text)
    if not options.root_motion:
        root = _stay(rig, root)
    poses = pose_set.make(
        rig.skeleton,
        # Float32 keys leave noise of a few 1e-7. Without it, clips keep the content hash by which weights know them again.
        np.round(rot.astype(np.float64), DIGITS),
        np.round(root.astype(np.float64), DIGITS),
        clip,
        [take.name for take in takes],
        [take.task for take in takes],
        np.array([take.fps / options.step for take in takes]),
    )
    return Extraction(poses, tuple(notes))


# ---- what to take


def _takes(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    rig: Rig,
    chosen: list[bpy.types.Action],
    options: Options,
    tasks: dict[str, str],
    notes: list[str],
) -> list[_Take]:
    paths = _paths(rig.bones)
    controlled = set(rig.needed)
    scene_fps = scene.render.fps / scene.render.fps_base
    takes = []
    for action in chosen:
        slots = blender_actions.slots_for(action, ob)
        if not slots:
            notes.append(f"{action.name} was left out: it has no slot for an object.")
            continue
        found: tuple[Any, list[bpy.types.FCurve]] | None = None
        for slot in slots:
            live = [c for c in blender_actions.curves(action, slot) if _plays(c)]
            if any(c.data_path in paths and paths[c.data_path][0] in controlled for c in live):
                found = slot, live
                break
        if found is None:
            notes.append(f"{action.name} was left out: nothing in it moves the controlled bones of {ob.name}.")
            continue
        slot, live = found
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
        fps = rate_of(action, scene)
        task = tasks.get(action.name) or guess_task(action.name)
        takes.append(_Take(action.name, task, action, slot, start, end, fps, own, tuple(others)))
    data = ob.animation_data
    if options.nla and data is not None:
        for track in data.nla_tracks:
            for strip in track.strips:
                if not track.mute and not strip.mute:
                    name = f"{track.name}/{strip.name}"
                    guess = tasks.get(strip.name) or guess_task(strip.name)
                    takes.append(_Take(name, guess, None, None, strip.frame_start, strip.frame_end, scene_fps))
    return [take for take in takes if _in_range(take, options, notes)]


def _in_range(take: _Take, options: Options, notes: list[str]) -> bool:
    count = len(_frames(take, options))
    if count == 0:
        notes.append(f"{take.name} was left out: it has no frame in the chosen range.")
    return count > 0


def _frames(take: _Take, options: Options) -> np.ndarray:
    start = take.start if options.start is None else max(take.start, options.start)
    end = take.end if options.end is None else min(take.end, options.end)
    count = int(np.floor((end - start) / options.step + 1e-6)) + 1
    if count > MOST_FRAMES:
        raise ValueError(f"{take.name} is {count} samples long: choose a range or a larger step")
    return start + options.step * np.arange(max(0, count))


def _paths(bones: Iterable[str]) -> dict[str, tuple[int, str]]:
    """data_path of every transform channel of every bone -> (bone, channel)."""
    return {
        f'pose.bones["{bpy.utils.escape_identifier(name)}"].{channel}': (i, channel)
        for i, name in enumerate(bones)
        for channel in CHANNELS
    }


def _plays(curve: bpy.types.FCurve) -> bool:
    muted = curve.mute or (curve.group is not None and curve.group.mute)
    return not muted and not curve.is_empty


def _why_evaluated(ob: bpy.types.Object, rig: Rig) -> str:
    """Why Blender itself must evaluate this rig; empty where it need not."""
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


def _why_take_evaluated(ob: bpy.types.Object, rig: Rig, take: _Take) -> str:
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
    """Whether a curve is 1 all the way, as those that exporters write for every bone."""
    keys = np.empty((len(curve.keyframe_points), 2), np.float32)
    curve.keyframe_points.foreach_get("co", keys.reshape(-1))
    return not len(curve.modifiers) and len(keys) > 0 and float(np.abs(keys[:, 1] - 1).max()) < 1e-4


# ---- the fast path


_Sampled = tuple[np.ndarray, np.ndarray, np.ndarray]
"""rot_local (F, J, 3) [rad], root_pos (F, 3) [m], and how far each bone leaves its place on its parent (J) [m] at most."""


def _loose(rig: Rig, take: _Take, apart: np.ndarray) -> list[str]:
    """What is lost where bones leave their places on their parents: poses keep every bone's length."""
    limit = LOOSE * float(np.ptp(rig.skeleton.rest_arm[:, :3, 3], axis=0).max())
    moved = np.flatnonzero(apart > limit)
    if not len(moved):
        return []
    worst = int(np.argmax(apart))
    return [
        f"{take.name} moves {len(moved)} bones from their places on their parents, {rig.skeleton.names[worst]} most, by "
        f"{apart[worst] * 1000:.0f} mm; that was left out, for bones keep their length."
    ]


def _fast(rig: Rig, take: _Take, frames: np.ndarray) -> Generator[int, None, _Sampled]:
    """What the curves alone say; yields the frames done, in shares."""
    assert take.action is not None
    count = len(frames)
    keys = _Keys(frames)
    turns: dict[int, np.ndarray] = {}
    needed = rig.needed
    for step, bone in enumerate(needed):
        quaternion = _rotation(take, bone, rig.modes[bone], keys)
        if quaternion is not None:
            turns[bone] = quaternion
        yield count * step // len(needed)
    rest = rotations.quaternion_from_matrix(rig.rest[:, :3, :3])
    own = np.tile(np.array([1.0, 0, 0, 0]), (count, rig.skeleton.count, 1))
    for j, bone in enumerate(rig.index.tolist()):
        line = rig.between(bone)
        if j == 0 or not any(b in turns for b in line):
            continue
        if line == [bone]:
            own[:, j] = turns[bone]
            continue
        # Uncontrolled bones stand between: what they turn counts as turned by the controlled bone below them.
        first = int(rig.parents[line[0]])
        total = np.broadcast_to(np.array([1.0, 0, 0, 0]), (count, 4))
        above = first
        for b in line:
            total = rotations.quaternion_multiply(total, np.broadcast_to(_relative(rest[above], rest[b]), total.shape))
            if b in turns:
                total = rotations.quaternion_multiply(total, turns[b])
            above = b
        back = np.broadcast_to(_relative(rest[bone], rest[first]), total.shape)
        own[:, j] = rotations.quaternion_multiply(back, total)
    rot = rotations.axis_angle_from_quaternion(own)
    world = np.eye(4)
    for bone in rig.between(int(rig.index[0])):
        parent = int(rig.parents[bone])
        step_matrix = np.linalg.inv(rig.rest[parent]) @ rig.rest[bone] if parent >= 0 else rig.rest[bone]
        basis = np.tile(np.eye(4), (count, 1, 1))
        if bone in turns:
            basis[:, :3, :3] = rotations.matrix_from_quaternion(turns[bone])
        if not rig.connected[bone]:
            for axis, curve in take.curves.get((bone, "location"), {}).items():
                basis[:, axis, 3] = keys.sample(curve)
        world = world @ step_matrix @ basis
    rot[:, 0] = _root_basis(rig, rig.turn @ world[:, :3, :3])
    apart = np.zeros(rig.skeleton.count)
    for j, bone in enumerate(rig.index.tolist()):
        for b in rig.between(bone) if j else ():
            for curve in take.curves.get((b, "location"), {}).values() if not rig.connected[b] else ():
                apart[j] = max(apart[j], float(np.abs(keys.sample(curve)).max()) * rig.unit)
    return rot, world[:, :3, 3] @ rig.turn.T * rig.unit, apart


def _relative(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return rotations.quaternion_multiply(rotations.quaternion_conjugate(a), b)


def _root_basis(rig: Rig, turned: np.ndarray) -> np.ndarray:
    """rot_local (F, 3) of the root from its orientation (F, 3, 3) in rig space."""
    return rotations.axis_angle_from_matrix(rig.skeleton.rest_arm[0, :3, :3].T @ turned)


def _rotation(take: _Take, bone: int, mode: str, keys: _Keys) -> np.ndarray | None:
    """Quaternions (F, 4) of a bone's own rotation channels; None where no curve moves them."""
    channel = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(mode, "rotation_euler")
    found = take.curves.get((bone, channel))
    if not found:
        return None
    values = np.tile(np.array(AT_REST[channel], np.float64), (len(keys.frames), 1))
    for component, curve in found.items():
        values[:, component] = keys.sample(curve)
    if mode == "QUATERNION":
        length = np.linalg.norm(values, axis=1, keepdims=True)
        return np.where(length > 1e-12, values / np.maximum(length, 1e-12), [1.0, 0, 0, 0])
    if mode == "AXIS_ANGLE":
        axis = values[:, 1:]
        length = np.linalg.norm(axis, axis=1, keepdims=True)
        return rotations.quaternion_from_axis_angle(values[:, :1] * axis / np.maximum(length, 1e-12))
    # Blender names the axes in the order in which they turn, the last one outermost.
    order = mode[::-1]
    angles = values[:, ["XYZ".index(letter) for letter in order]]
    return rotations.quaternion_from_matrix(rotations.matrix_from_euler(angles, order))


class _Keys:
    """Samples curves at one set of frames; a curve whose keys stand where those of the last one stood is quick."""

    def __init__(self, frames: np.ndarray) -> None:
        self.frames = frames
        self.times = np.empty(0, np.float32)
        self.at: np.ndarray | None = None

    def sample(self, curve: bpy.types.FCurve) -> np.ndarray:
        """Values (F) of a curve: its keys themselves where one stands on every frame, else Blender's evaluation."""
        count = len(curve.keyframe_points)
        if count >= len(self.frames) and not len(curve.modifiers):
            keys = np.empty((count, 2), np.float32)
            curve.keyframe_points.foreach_get("co", keys.reshape(-1))
            if not np.array_equal(keys[:, 0], self.times):
                self.times = keys[:, 0]
                at = np.minimum(np.searchsorted(self.times, self.frames - 1e-4), count - 1)
                self.at = at if np.abs(self.times[at] - self.frames).max() < 1e-4 else None
            if self.at is not None:
                return keys[self.at, 1]
        return np.fromiter((curve.evaluate(f) for f in self.frames.tolist()), np.float64, len(self.frames))


# ---- the evaluated path


def _evaluated(
    scene: bpy.types.Scene, ob: bpy.types.Object, rig: Rig, take: _Take, frames: np.ndarray, kept: _Kept
) -> Generator[int, None, _Sampled]:
    """What Blender evaluates; yields the frames done."""
    kept.play(take)
    buffer = np.empty(len(rig.bones) * 16, np.float32)
    matrices = buffer.reshape(-1, 4, 4)
    columns = np.empty((len(frames), rig.skeleton.count, 4, 4), np.float32)  # Blender hands matrices out by columns
    worlds = np.empty((len(frames), 4, 4))
    last = None
    for i, frame in enumerate(frames.tolist()):
        whole = int(frame // 1)
        scene.frame_set(whole, subframe=frame - whole)
        ob.pose.bones.foreach_get("matrix", buffer)
        np.take(matrices, rig.index, axis=0, out=columns[i], mode="clip")
        if ob.matrix_world != last:  # it seldom moves, and converting it costs more than comparing
            last = ob.matrix_world.copy()
            world = np.array(last)
        worlds[i] = world
        yield i + 1
    poses = columns.transpose(0, 1, 3, 2)
    if not np.isfinite(poses).all():
        raise ValueError(f"{take.name}: Blender evaluates {ob.name} to poses that are not numbers")
    turned = runtime.orthonormal(worlds[:, None, :3, :3] @ runtime.orthonormal(poses[..., :3, :3].astype(np.float64)))
    rot = runtime.local_rotations(rig, turned)
    heads = np.einsum("fab,fb->fa", worlds[:, :3, :3], poses[:, 0, :3, 3]) + worlds[:, :3, 3]
    parents, rest = rig.skeleton.parents[1:], rig.skeleton.rest_arm
    places = np.einsum("fab,fjb->fja", worlds[:, :3, :3], poses[:, :, :3, 3]) * metres(ob)
    offsets = (rest[1:, :3, 3] - rest[parents, :3, 3])[:, None] @ rest[parents, :3, :3]  # in the parents' own axes
    shown = (places[:, 1:] - places[:, parents])[..., None, :] @ turned[:, parents]
    apart = np.concatenate([[0.0], np.linalg.norm(shown - offsets, axis=-1)[..., 0].max(axis=0)])
    return rot, (heads - kept.location) * metres(ob), apart


class _Kept:
    """What evaluating changes in the file, remembered; lives only as long as one extraction."""

    scene: bpy.types.Scene
    ob: bpy.types.Object
    rig: Rig
    location: np.ndarray
    frame: tuple[int, float]
    bare: bool
    pose: dict[str, np.ndarray]
    pose_position: Any

    def __init__(self, scene: bpy.types.Scene, ob: bpy.types.Object, rig: Rig, takes: list[_Take]) -> None:
        data = ob.animation_data
        if ob.library is not None:
            raise ValueError(f"{ob.name} is linked from a library: make a library override first (Object > Relations)")
        if data is not None and data.use_tweak_mode:
            raise ValueError(
                f"an NLA strip of {ob.name} is being tweaked: leave tweak mode first (Tab in the NLA editor)"
            )
        if not ob.visible_get():
            raise ValueError(f"{ob.name} is hidden: Blender evaluates its constraints only while it is shown")
        self.scene = scene
        self.ob = ob
        self.rig = rig
        self.location = np.array(ob.matrix_world.translation, np.float64)
        self.frame = scene.frame_current, scene.frame_subframe
        self.bare = data is None
        self.animation: dict[str, Any] = {}
        self.action: tuple[bpy.types.Action | None, Any] = (None, None)
        if data is not None:
            self.animation = {
                name: getattr(data, name)
                for name in ("use_nla", "action_influence", "action_blend_type", "action_extrapolation")
            }
            self.action = data.action, data.action_slot if blender_actions.SLOTTED else None
        self.pose = runtime.snapshot(ob)
        self.pose_position = ob.data.pose_position
        self.others: dict[tuple[str, int], Any] = {}
        for take in takes:
            for curve in take.others:
                with contextlib.suppress(ValueError, TypeError, IndexError):  # a path that leads nowhere moves nothing
                    value = ob.path_resolve(curve.data_path)
                    self.others[curve.data_path, curve.array_index] = (
                        value[curve.array_index]
                        if hasattr(value, "__getitem__") and not isinstance(value, str)
                        else value
                    )
        self.modifiers: list[tuple[str, str]] = []
        self.copies: list[bpy.types.Action] = []

    def prepare(self) -> None:
        """Take meshes off the rig while it runs through its frames: skinning them is most of the time."""
        for other in self.scene.objects:
            modifiers: Any = other.modifiers
            for modifier in modifiers:
                if modifier.type == "ARMATURE" and modifier.object == self.ob and modifier.show_viewport:
                    modifier.show_viewport = False
                    self.modifiers.append((other.name, modifier.name))
        self.ob.data.pose_position = "POSE"

    def play(self, take: _Take) -> None:
        """Let a take alone move the rig, from rest."""
        data = self.ob.animation_data or self.ob.animation_data_create()
        runtime.restore(
            self.ob, {name: np.tile(np.array(value), len(self.rig.bones)) for name, value in AT_REST.items()}
        )
        self._put_others_back()
        if take.action is None:
            blender_actions.assign(data, None, None)
            data.use_nla = True
            return
        action, slot = take.action, take.slot
        if slot is not None and slot.target_id_type == "UNSPECIFIED":
            # Playing it would bind the slot to objects for good, so a copy plays.
            place = list(action.slots).index(slot)
            action = action.copy()
            self.copies.append(action)
            slot = action.slots[place]
        blender_actions.assign(data, action, slot)
        data.use_nla = False
        data.action_influence, data.action_blend_type, data.action_extrapolation = 1.0, "REPLACE", "HOLD"

    def put_back(self) -> None:
        """Everything as it was; what was deleted meanwhile stays deleted."""
        with contextlib.suppress(ReferenceError):
            data = self.ob.animation_data
            if data is not None:
                blender_actions.assign(data, *self.action)
                for name, value in self.animation.items():
                    setattr(data, name, value)
                if self.bare:
                    self.ob.animation_data_clear()
            self._put_others_back()
            self.ob.data.pose_position = self.pose_position
        for name, modifier in self.modifiers:
            other = bpy.data.objects.get(name)
            if other is not None and modifier in other.modifiers:
                other.modifiers[modifier].show_viewport = True
        with contextlib.suppress(ReferenceError):
            self.scene.frame_set(self.frame[0], subframe=self.frame[1])
            runtime.restore(self.ob, self.pose)  # a pose that was not keyed survives too
            for layer in self.scene.view_layers:
                layer.update()
        for action in self.copies:
            with contextlib.suppress(ReferenceError):
                bpy.data.actions.remove(action)

    def _put_others_back(self) -> None:
        for (path, component), value in self.others.items():
            with contextlib.suppress(ValueError, TypeError, AttributeError, IndexError, KeyError):
                _set_at(self.ob, path, component, value)


def _set_at(ob: bpy.types.Object, path: str, component: int, value: Any) -> None:
    """Set what an F-Curve's path and index name."""
    if path.endswith("]"):  # a custom property: ...["name"]
        owner_path, _, name = path.rpartition("[")
        owner = ob.path_resolve(owner_path) if owner_path else ob
        owner[name[1:-2]] = value
        return
    owner_path, _, name = path.rpartition(".")
    owner = ob.path_resolve(owner_path) if owner_path else ob
    current = getattr(owner, name)
    if hasattr(current, "__setitem__"):
        current[component] = value
    else:
        setattr(owner, name, value)


def _stay(rig: Rig, root: np.ndarray) -> np.ndarray:
    """Root positions (F, 3) without the travel over the ground: only the height is kept."""
    axes = rig.skeleton.axes
    core = root @ axes.T
    core[:, :2] = rig.skeleton.rest_core[0, :2, 3]
    return core @ axes


__all__ = ["Extraction", "Options", "extract", "moving_actions"]
