# SPDX-License-Identifier: GPL-3.0-or-later
"""A made motion becomes keys: of the action that is assigned, on every frame or thinned, or of an NLA strip above everything.

Only the generated frames are written: every key outside of them stays byte for byte, and where a curve has none on the frame
beside them, what it shows there is keyed. What was written is played and compared with what was made, and taken back if it
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import bpy
import numpy as np
from mathutils import Euler

from ...core import forward_kinematics as fk
from ...core.contacts import runs
from . import actions, control_rigs, evaluating, keyframes, motion_channels, nla, rig_checks, runtime, thinning
from .jobs import Progress
from .motion_channels import Named
from .rig import Rig

INTO = (
    ("KEYS", "Keys", "Key every generated frame in the current action"),
    (
        "THIN",
        "Fewer Keys",
        "Key the current action where smooth curves need it, half a degree and 2 mm off between keys",
    ),
    ("NLA", "NLA Strip", "Make a new action, as a strip above everything else that plays"),
)
"""Ways to accept a motion, as items of an enum."""
PLAYED = 2e-3  # [leg lengths] keys that show a bone farther than this from the made motion are taken back
PLAYED_THIN = 0.03  # [leg lengths] the same where keys were thinned
CHECKED = 48  # frames that are played to compare, at most


@dataclass(frozen=True)
class Motion:
    """A motion of a rig on frames of the scene."""

    rig: Rig
    """What it is written to."""
    frames: np.ndarray
    """(F) consecutive frames."""
    rot: np.ndarray
    """(F, J, 3) rot_local [rad]."""
    root: np.ndarray
    """(F, 3) the root's head [m, rig space]."""
    generated: np.ndarray
    """(F) bool: the frames to write."""

    @property
    def heads(self) -> np.ndarray:
        """(F, J, 3) [object space] heads of the controlled bones."""
        posed = fk.armature_matrices(self.rig.skeleton, np.asarray(self.rot, np.float64), self.root)
        return np.asarray(posed[..., :3, 3] @ self.rig.turn / self.rig.unit)


def refusal(ob: Any, motion: Motion, into: str, title: str) -> str:
    """Why a motion cannot become keys, and what to do; empty if it can. Nothing is changed."""
    reason = rig_checks.linked(ob) or motion_channels.refusal(ob, motion.rig, title)
    if reason:
        return reason
    data = ob.animation_data
    if into == "NLA":
        reason = nla.refusal(ob)
    elif keyframes.is_layered(data):
        reason = f"the action of {ob.name} is blended with NLA tracks, or being tweaked: accept as an NLA Strip instead"
    action, slot = _assigned(data)
    bones = control_rigs.written(motion.rig)
    paths = {
        keyframes.bone_path(motion.rig.bones[bone], channel)
        for bone in bones
        for channel in (runtime.rotation_channel(motion.rig.modes[bone]), "location")
    }
    frames = motion.frames[motion.generated].tolist()
    return reason or keyframes.refusal(ob, action if into != "NLA" else None, slot, paths, frames, "write")


def accept(
    context: bpy.types.Context, ob: Any, motion: Motion, into: str, title: str
) -> Generator[Progress, None, str]:
    """Write a motion into one of ``INTO``; yields Progress and returns what was written, in a few words.

    Frame, pose, keys, action and NLA are as before if the generator is closed or fails. Raises ValueError, in words, where the
    motion cannot be written, or its keys do not show it.
    """
    reason = refusal(ob, motion, into, title)
    if reason:
        raise ValueError(reason)
    scene = context.scene
    assert scene is not None
    frame, held = (scene.frame_current, scene.frame_subframe), runtime.snapshot(ob)
    back: list[Callable[[], object]] = []
    done = False

    def undo() -> None:
        if not done:
            nla.take_back(list(reversed(back)))
        nla.take_back([lambda: scene.frame_set(frame[0], subframe=frame[1])])
        if not done:
            nla.take_back([lambda: runtime.restore(ob, held), lambda: bpy.context.view_layer.update()])

    evaluation = evaluating.begin()
    evaluation.restore = undo
    try:
        with evaluating.undeformed(scene, ob):
            made = _write(scene, ob, motion, into, title, held, back)
            while True:
                try:
                    progress = next(made)
                except StopIteration as end:
                    words: str = end.value
                    break
                yield progress
                if evaluation.ended:
                    raise ValueError(f"nothing was written, because {evaluation.ended}: accept again")
        done = True
        return words
    finally:
        evaluating.end(evaluation)


def _write(
    scene: Any,
    ob: Any,
    motion: Motion,
    into: str,
    title: str,
    held: dict[str, np.ndarray],
    back: list[Callable[[], object]],
) -> Generator[Progress, None, str]:
    rows = np.flatnonzero(motion.generated)
    if into == "NLA":
        rows = np.arange(rows[0], rows[-1] + 1)
    frames, rot, root = motion.frames[rows], motion.rot[rows], motion.root[rows]
    edges = {frame for first, last in _spans(frames) for frame in (first - 1, last + 1)}
    beside = yield from _shown(scene, ob, motion.rig, sorted(edges))
    work = motion_channels.as_shown(scene, ob, motion.rig, frames, rot, root)
    while True:
        try:
            number = next(work)
        except StopIteration as end:
            named: Named = end.value
            break
        yield Progress(number, 3 * len(frames), f"keys of frame {frames[number - 1]}")
    runtime.restore(ob, held)  # for channels that nothing animates
    scene.frame_set(int(frames[0]))
    data = ob.animation_data or ob.animation_data_create()
    old, old_slot = _assigned(data)
    own = old is not None and into != "NLA"
    action, slot = (old, old_slot) if own else actions.new(f"{title} of {ob.name}", ob.name)
    if own:
        back.append(keyframes.Saved(action, slot, list(named)).restore)
    else:
        back.append(lambda: bpy.data.actions.remove(action))
    before = motion_channels.now(ob, named)
    if into == "NLA":
        keyframes.write_bones(action, slot, frames.astype(np.float32), named)
        if old is None and not len(data.nla_tracks):
            beside.clear()  # nothing else plays
        nla.push(ob, action, slot, (old, old_slot), float(frames[0]), before, back)
        count = len(frames)
    else:
        if not own:
            back.append(lambda: nla.assign_back(ob, action, None, None))
            actions.assign(data, action, slot)
            if data.use_nla and len(data.nla_tracks):  # outside its keys the tracks play on
                extrapolation = data.action_extrapolation
                back.append(lambda: setattr(ob.animation_data, "action_extrapolation", extrapolation))
                data.action_extrapolation = "NOTHING"
        stay = _staying(action, slot, named, motion)
        beside = {frame: heads for frame, heads in beside.items() if frame in stay}
        count = _into_action(action, slot, frames, named, before, stay, motion.rig, into == "THIN")
    yield Progress(2 * len(frames), 3 * len(frames), "playing the keys")
    yield from _check(scene, ob, motion, rows, beside, into)
    where = f"a strip of {action.name}" if into == "NLA" else action.name
    return f"{count} keyed frames in {where}, {frames[0]} to {frames[-1]}"


def _assigned(data: Any) -> tuple[Any, Any]:
    """The assigned action and its slot; (None, None) if nothing is animated by it."""
    action = data.action if data is not None else None
    slot = data.action_slot if actions.SLOTTED and action is not None else None
    return (None, None) if action is None or (actions.SLOTTED and slot is None) else (action, slot)


def _spans(frames: np.ndarray) -> list[tuple[int, int]]:
    """First and last of each run of consecutive frames (F, ascending)."""
    there = np.zeros(int(frames[-1] - frames[0]) + 1, bool)
    there[frames - frames[0]] = True
    return [(int(frames[0]) + first, int(frames[0]) + last - 1) for first, last in runs(there)]


# ---- keys of the assigned action


def _into_action(
    action: Any, slot: Any, frames: np.ndarray, named: Named, before: Named, stay: set[int], rig: Rig, thin: bool
) -> int:
    """Write the generated ``frames`` (F) of every channel, beside which the frames ``stay``; returns how many were keyed."""
    curves = {(curve.data_path, curve.array_index): curve for curve in actions.curves(action, slot)}
    modes = dict(zip(rig.bones, rig.modes, strict=True))
    count = 0
    for first, last in _spans(frames):
        rows = np.flatnonzero((frames >= first) & (frames <= last))
        part = {key: values[rows] for key, values in named.items()}
        beside: dict[tuple[str, str], tuple[_Side, ...]] = {}
        for (bone, channel), value in before.items():
            path = keyframes.bone_path(bone, channel)
            own = [curves.get((path, index)) for index in range(value.shape[1])]
            sides = tuple(_side(c, float(v), first, last, stay) for c, v in zip(own, value[0], strict=True))
            beside[bone, channel] = sides
            part[bone, channel] = _aligned(
                part[bone, channel], channel, modes[bone], np.array([s.start for s in sides])
            )
        chosen = np.arange(len(rows))
        if thin:
            chosen = thinning.chosen(np.concatenate(list(part.values()), axis=1), _tolerances(part, rig))
        count += len(chosen)
        at = np.arange(first, last + 1, dtype=np.float32)
        for (bone, channel), values in part.items():
            path, slopes = keyframes.bone_path(bone, channel), thinning.slopes(values)
            for index, side in enumerate(beside[bone, channel]):
                curve = curves.get((path, index))
                if curve is None:
                    curve = curves[path, index] = actions.new_curve(action, slot, path, index, bone)
                for edge in (side.before, side.after):
                    if len(edge):
                        keyframes.write_curve(curve, edge[:, 0], edge[:, 1])
                keyframes.write_curve(curve, at[chosen], values[chosen, index], slopes[chosen, index] if thin else None)
    action.update_tag()
    return count


def _staying(action: Any, slot: Any, named: Named, motion: Motion) -> set[int]:
    """The frames beside generated ones that stay as they are: all but those beyond every key of the action and the motion.

    There an action holds its first or last pose, which may be a generated one.
    """
    keyed = {keyframes.bone_path(*key) for key in named}
    times = [keyframes.read_keys(c)["co"][:, 0] for c in actions.curves(action, slot) if c.data_path in keyed]
    every = np.concatenate([motion.frames[~motion.generated].astype(float), *times])
    least, most = every.min(initial=np.inf), every.max(initial=-np.inf)
    edges = {frame for first, last in _spans(motion.frames[motion.generated]) for frame in (first - 1, last + 1)}
    return {frame for frame in edges if least - keyframes.SAME_FRAME <= frame <= most + keyframes.SAME_FRAME}


@dataclass(frozen=True)
class _Side:
    """What keeps one curve as it is beside a span of new keys."""

    start: float
    """Its value on the frame before the span."""
    before: np.ndarray
    """(N, 2) frames and values to key before the span, up to the frame beside it."""
    after: np.ndarray
    """(N, 2) the same after it."""


def _side(curve: Any, value: float, first: int, last: int, stay: set[int]) -> _Side:
    """What has to be keyed beside a span: nothing where a curve has a key there; a curve that bends over the edge, every frame
    to its next key. ``value``: of a channel without a curve; ``stay``: the frames beside it that stay as they are."""
    none = np.zeros((0, 2), np.float32)
    if curve is None or not len(curve.keyframe_points):
        sides = (np.array([[frame, value]], np.float32) if frame in stay else none for frame in (first - 1, last + 1))
        return _Side(value, *sides)
    start = float(curve.evaluate(first - 1))
    keys = keyframes.read_keys(curve)
    at = keys["co"][:, 0]
    before = after = none
    if first - 1 in stay and np.abs(at - (first - 1)).min() > keyframes.SAME_FRAME:
        earlier = np.flatnonzero(at < first - 1)
        before = _filled(curve, keys, earlier[-1] if len(earlier) else None, first - 1, -1)
    if last + 1 in stay and np.abs(at - (last + 1)).min() > keyframes.SAME_FRAME:
        later = np.flatnonzero(at > last + 1)
        bends = np.flatnonzero(at < last + 1)
        if len(later):
            after = _filled(curve, keys, bends[-1] if len(bends) else None, last + 1, 1, float(at[later[0]]))
        else:
            after = np.array([[last + 1, curve.evaluate(last + 1)]], np.float32)
    return _Side(start, before, after)


def _filled(curve: Any, keys: Any, key: Any, edge: int, way: int, until: float = 0.0) -> np.ndarray:
    """(N, 2) what a curve shows on the frame ``edge``, and, where the key before it makes it bend, on all to its next key."""
    frames = [edge]
    if key is not None and keys["interpolation"][key, 0] not in (keyframes.CONSTANT, keyframes.LINEAR):
        frames = (
            list(range(int(np.floor(keys["co"][key, 0])) + 1, edge + 1))
            if way < 0
            else list(range(edge, int(np.ceil(until))))
        )
    return np.array([[frame, curve.evaluate(frame)] for frame in frames], np.float32)


def _aligned(values: np.ndarray, channel: str, mode: Any, start: np.ndarray) -> np.ndarray:
    """Values (F, n) of a rotation channel that go on from ``start`` (n) without a jump, as far as the same rotations can."""
    if channel == "rotation_quaternion":
        return -values if float(values[0] @ start) < 0 else values
    if channel == "rotation_euler":
        turned = [Euler(row, mode) for row in (start.tolist(), *values.tolist())]
        for last, euler in pairwise(turned):
            euler.make_compatible(last)
        return np.array([euler[:] for euler in turned[1:]])
    return values


def _tolerances(part: Named, rig: Rig) -> np.ndarray:
    """(C) how far every column of all channels may be off between keys."""
    out: list[float] = []
    for (_, channel), values in part.items():
        each = thinning.WAY / rig.unit if channel == "location" else thinning.TURN
        out += [each / 2 if channel == "rotation_quaternion" else each] * values.shape[1]
    return np.array(out)


# ---- whether the keys play


def _shown(scene: Any, ob: Any, rig: Rig, frames: list[int]) -> Generator[Progress, None, dict[int, np.ndarray]]:
    """Frame -> heads (J, 3) [object space] as the scene shows them."""
    out = {}
    for frame in frames:
        scene.frame_set(frame)
        out[frame] = _heads(ob, rig)
        yield Progress(0, 1, f"frame {frame}")
    return out


def _heads(ob: Any, rig: Rig) -> np.ndarray:
    """(J, 3) [object space] heads of the controlled bones as Blender shows them now."""
    buffer = np.empty(len(rig.bones) * 16, np.float32)
    ob.pose.bones.foreach_get("matrix", buffer)
    return buffer.reshape(-1, 4, 4)[rig.index, 3, :3].astype(np.float64)


def _check(
    scene: Any, ob: Any, motion: Motion, rows: np.ndarray, beside: dict[int, np.ndarray], into: str
) -> Generator[Progress, None, None]:
    """Raise ValueError where Blender does not show the motion, or shows something else than before beside it."""
    rig = motion.rig
    some = rows[np.unique(np.linspace(0, len(rows) - 1, CHECKED).astype(int))]
    wanted = motion.heads
    size = rig.unit / rig.skeleton.leg_length
    limit = PLAYED_THIN if into == "THIN" else PLAYED
    for i, row in enumerate(some.tolist()):
        scene.frame_set(int(motion.frames[row]))
        off = float(np.linalg.norm(_heads(ob, rig) - wanted[row], axis=1).max()) * size
        if not off <= limit:
            raise ValueError(
                f"nothing was written: on frame {motion.frames[row]} the keys would show a pose"
                f" {off * rig.skeleton.leg_length * 1000:.0f} mm from the ghost, because something else moves these bones (other"
                " tracks, drivers, constraints, or limbs in IK). Switch it off, or accept as an NLA Strip"
            )
        yield Progress(2 * len(some) + i, 3 * len(some), f"playing frame {motion.frames[row]}")
    for frame, heads in beside.items():
        scene.frame_set(frame)
        off = float(np.linalg.norm(_heads(ob, rig) - heads, axis=1).max()) * size
        if not off <= limit:
            raise ValueError(
                f"nothing was written: the keys would also change frame {frame}, which is not generated. Accept as an NLA Strip"
            )
