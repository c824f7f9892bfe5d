# SPDX-License-Identifier: GPL-3.0-or-later
"""Import Mocap: motion files carried onto a character by the roles of its bones, as actions or straight into memory."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...core import forward_kinematics as fk
from ...core import rotations
from ...core.messages import counted
from ...core.reference_rig import reference
from ...core.skeleton import Skeleton
from ...formats import importing
from ...formats.importing import FileReport, ImportOptions, floors
from ...motion import cleaning, pose_set
from ...motion.clip import Clip
from ...motion.pose_set import PoseSet
from ...rigs import fingers, retarget, rig_body, sanity
from ...rigs import t_pose as t_pose_rules
from ...rigs.roles import Roles
from ..host import actions as blender_actions
from ..host import armature, control_rigs, fk_presets, keyframes, motion_channels, runtime
from ..host.control_rigs import ControlRig
from ..host.fk_presets import FkRig
from ..host.jobs import Progress
from ..host.rig import SAME, Rig, read
from . import foreign, uncontrolled
from .extract import FPS_KEY
from .foreign import Found

Fingers = dict[str, np.ndarray]
"""What :func:`.fingers.finger_turns` gives."""
SAID_EVERY = 64  # frames of a control rig that are computed from one sign of progress to the next


@dataclass(frozen=True)
class Imported:
    """The result of :func:`import_files`."""

    rows: tuple[FileReport, ...]
    """One for each file, in order."""
    poses: tuple[PoseSet, ...]
    """One clip each."""
    actions: tuple[str, ...] = ()
    """Names of the new actions, one for each clip; none if the poses go to memory."""
    lifted: tuple[str, ...] = ()
    """Clips in which nobody stands, whose floor is that of the other files of the same body."""

    @property
    def read(self) -> int:
        """Number of files that gave a clip."""
        return sum(bool(row.kept) for row in self.rows)

    def lines(self) -> list[str]:
        """A report: one line for each file, followed by its warnings."""
        out = []
        for row in self.rows:
            name = Path(row.path).name
            if not row.kept:
                out.append(f"{name}: not taken. {row.reason}")
                continue
            out.append(
                f"{name}: {counted(len(row.clips), 'clip')}, {row.kept} of {counted(row.frames, 'frame')} at {row.fps:g} a second, "
                f"{row.seconds:.1f} s, {row.height:.2f} m tall, {row.up_axis} up"
            )
            out += [f"    {warning}" for warning in row.warnings]
        return [*out, floors.SAID.format(", ".join(self.lifted))] if self.lifted else out


def import_files(
    context: bpy.types.Context,
    ob: bpy.types.Object | None,
    files: Sequence[Path],
    options: ImportOptions,
    as_actions: bool = True,
) -> Generator[Progress, None, Imported]:
    """Read ``files``, carry their motion onto the armature ``ob`` and key it; yields Progress, returns Imported.

    Without ``ob`` an armature is made for every skeleton among the files. Nothing in the scene changes before all files are
    read, and everything made is removed again if the generator is closed or fails. Raises ValueError, in words, if ``ob`` is
    not a human or no file gave a clip; a file that cannot be read is only reported with the reason.
    """
    readers = [(path, _reader(context, path, options)) for path in files]
    return (yield from import_clips(context, ob, readers, options, as_actions))


def import_clips(
    context: bpy.types.Context,
    ob: bpy.types.Object | None,
    readers: Sequence[tuple[Path, Reader]],
    options: ImportOptions,
    as_actions: bool,
) -> Generator[Progress, None, Imported]:
    """The same for whatever gives clips, under the name that the report calls it by."""
    own = None if ob is None else motion_channels.rig_of(ob) if as_actions else control_rigs.read_any(ob)
    if own is not None and not set(own.roles) <= set(reference().names):
        raise ValueError(
            f"{own.bones[own.index[0]]} and the bones below it play no roles of a human: choose them in the panel Roles; "
            "motion of other creatures comes with their own files"
        )
    if ob is not None and own is not None and as_actions:
        reason = motion_channels.refusal(ob, own, "an imported action")
        if reason:
            raise ValueError(reason)
    name, key = (ob.name, motion_channels.key_of(ob)) if ob is not None else ("", ())
    rows: list[FileReport] = []
    poses: list[PoseSet] = []
    taken: list[floors.TakeFloor] = []
    hands: list[Fingers] = []
    total = len(readers) + 1
    for n, (path, reader) in enumerate(readers):
        yield Progress(n, total, path.name)
        steps = _convert(path, reader, options, own)
        row, found, below, turns = yield from _within(steps, n, total)
        rows.append(row)
        poses += found
        hands += turns
        taken += below
    if not poses:
        raise ValueError(f"no clip in {counted(len(readers), 'file')}; the first reason: {rows[0].reason}")
    poses = [replace(p, clip_names=(name,)) for p, name in zip(poses, _unique_names(poses), strict=True)]
    lifts = floors.lifts(taken)
    lifted = tuple(p.clip_names[0] for p, lift in zip(poses, lifts, strict=True) if lift)
    poses = [_lifted(p, lift) for p, lift in zip(poses, lifts, strict=True)]
    names: list[str] = []
    if as_actions:
        start = (ob, own) if ob is not None and own is not None else None
        if ob is not None:
            _require_unchanged(ob, name, key)
        names = yield from _key_all(context, start, poses, hands, options.root_bone, Progress(len(readers), total, ""))
    return Imported(tuple(rows), tuple(poses), tuple(names), lifted)


def import_armature(
    context: bpy.types.Context,
    ob: bpy.types.Object,
    source: bpy.types.Object,
    frames: tuple[int, int],
    options: ImportOptions,
    as_actions: bool = True,
) -> Generator[Progress, None, Imported]:
    """As :func:`import_files`, from what another armature of the scene shows in ``frames``, first and last."""
    if source == ob:
        raise ValueError(
            f"{ob.name} cannot be carried onto itself: select another armature too, and make the character active"
        )
    reader = foreign.clip_of_armature(context, source, *frames)
    return (yield from import_clips(context, ob, [(Path(source.name), reader)], options, as_actions))


def _within(steps: Generator[Progress, None, Read], done: int, total: int) -> Generator[Progress, None, Read]:
    """The progress of one file as that of all."""
    while True:
        try:
            part = next(steps)
        except StopIteration as end:
            found: Read = end.value
            return found
        yield Progress(done * part.total + part.done, total * part.total, part.text)


def _reader(context: bpy.types.Context, path: Path, options: ImportOptions) -> Reader:
    """What reads a file."""
    if path.suffix.lower() not in foreign.SUFFIXES:
        return _own_reader(path, options)
    fps = options.source_fps or options.fps or 30.0
    return _blender_reader(foreign.clips_of_file(context, path, fps), options, path.name)


def _key_all(
    context: bpy.types.Context,
    start: tuple[bpy.types.Object, Rig] | None,
    poses: Sequence[PoseSet],
    hands: Sequence[Fingers],
    travels: bool,
    progress: Progress,
) -> Generator[Progress, None, list[str]]:
    """Key every clip as an action, on the armature of ``start`` or on one made for its skeleton; returns the actions' names.

    Yields ``progress`` with a text. If the generator is closed or fails, everything made is removed again.
    """
    ob = start[0] if start is not None else None
    bodies = [(start[1].skeleton, *start)] if start is not None else []
    made: list[bpy.types.ID] = []
    names: list[str] = []
    done = False
    chosen = context.view_layer.objects.active, list(context.selected_objects)
    mode = chosen[0].mode if chosen[0] is not None else "OBJECT"
    bare = ob is not None and ob.animation_data is None
    known = {ob.name: motion_channels.key_of(ob)} if ob is not None else {}
    try:
        for n, clip in enumerate(poses):
            yield replace(progress, text=f"keys of {clip.clip_names[0]} ({n + 1} of {len(poses)})")
            _require_alive([*made, *(body for _, body, _ in bodies)])
            _, other, rig = _body_for(context, bodies, clip, made)
            _require_unchanged(other, other.name, known.setdefault(other.name, motion_channels.key_of(other)))
            steps = write(other, rig, clip, hands[n], True, travels)
            while True:
                try:
                    done_frames = next(steps)
                except StopIteration as end:
                    action, slot = end.value
                    break
                if done_frames % SAID_EVERY == 0:
                    yield replace(progress, text=f"keys of {clip.clip_names[0]}, {done_frames} of {clip.frames} frames")
                    _require_unchanged(other, other.name, known[other.name])
            made.append(action)
            data = other.animation_data or other.animation_data_create()
            if data.action is None:
                blender_actions.assign(data, action, slot)
            names.append(action.name)
        done = True
        return names
    finally:
        if not done:
            bpy.data.batch_remove([thing for thing in made if _is_alive(thing)])
            if ob is not None and bare and _is_alive(ob):
                ob.animation_data_clear()
            _choose_again(context, chosen, mode)


def _choose_again(
    context: bpy.types.Context, chosen: tuple[bpy.types.Object | None, list[bpy.types.Object]], mode: str
) -> None:
    """Make what was active and selected before so again, in the mode it had."""
    active, selected = chosen
    layer = context.view_layer
    there = [ob for ob in selected if _is_alive(ob) and ob.name in layer.objects]
    for ob in there:
        ob.select_set(True)
    if active is None or (_is_alive(active) and active.name in layer.objects):
        layer.objects.active = active
        if active is not None and mode != active.mode == "OBJECT":  # else the user has changed it meanwhile
            ops: Any = bpy.ops
            ops.object.mode_set(mode=mode)


def _is_alive(thing: bpy.types.ID) -> bool:
    """Whether a reference is still valid: what it refers to may have been deleted meanwhile."""
    try:
        return bool(thing.name)
    except ReferenceError:
        return False


def _require_alive(made: Sequence[bpy.types.ID]) -> None:
    if not all(map(_is_alive, made)):
        raise ValueError(
            "the character or something imported was deleted meanwhile: the import has stopped, and nothing is kept"
        )


def _require_unchanged(ob: bpy.types.Object, name: str, key: tuple[Any, ...]) -> None:
    """Raise ValueError if an armature is not as it was when its motion was computed."""
    if not _is_alive(ob):
        raise ValueError(f"{name} was deleted meanwhile: nothing was imported")
    if ob.mode == "EDIT":
        raise ValueError(f"{name} was put into Edit Mode meanwhile: nothing was imported")
    if motion_channels.key_of(ob) != key:
        raise ValueError(f"the bones of {name} or their rotation modes were changed meanwhile: nothing was imported")


def _lifted(poses: PoseSet, lift: float) -> PoseSet:
    """The poses, ``lift`` leg lengths higher."""
    if not lift:
        return poses
    up = poses.skeleton.axes.T @ np.array([0.0, 0.0, lift * poses.skeleton.leg_length])
    return replace(poses, root_pos=poses.root_pos + up.astype(poses.root_pos.dtype))


def poses_of(path: Path, options: ImportOptions, rig: Rig | None) -> tuple[FileReport, list[PoseSet]]:
    """The clips of a file that is read without Blender, on the skeleton of ``rig`` or as ``options`` say, with a report."""
    work = _convert(path, _own_reader(path, options), options, rig)
    while True:
        try:
            next(work)
        except StopIteration as end:
            report, poses, _, _ = end.value
            return report, poses


Reader = Generator[Progress, None, list[Found]]
Read = tuple[FileReport, list[PoseSet], list[floors.TakeFloor], list[Fingers]]


def _own_reader(path: Path, options: ImportOptions) -> Reader:
    """The clip of a BVH or AMC file."""
    yield from ()
    return [Found(importing.read_clip(path, up_axis=options.up_axis, unit=options.unit, fps=options.source_fps))]


def _blender_reader(reader: Reader, options: ImportOptions, name: str) -> Reader:
    """The clips that Blender shows, upright."""
    out = []
    for one in (yield from reader):
        clip = one.clip if options.up_axis is None else replace(one.clip, up_axis=options.up_axis)
        clip, doubt = sanity.upright(clip, given=options.up_axis is not None)
        out.append(replace(one, clip=replace(clip, warnings=(f"{name}: {doubt}",) if doubt else ())))
    return out


def _convert(path: Path, reader: Reader, options: ImportOptions, rig: Rig | None) -> Generator[Progress, None, Read]:
    """What ``reader`` gives as a report, clips and their floors; clips on their own skeleton keep their heights: they have none."""
    out: list[PoseSet] = []
    taken: list[floors.TakeFloor] = []
    warnings: list[str] = []
    findings: list[cleaning.Findings] = []
    refused: list[str] = []
    hands: list[Fingers] = []
    try:
        everyone = yield from reader
    except (ValueError, OSError, MemoryError) as error:
        return FileReport(str(path), False, reason=_one_line(error)), [], [], []
    for one in everyone:
        asked = options
        if one.roles is not None:
            named = tuple((role, one.clip.names[j]) for role, j in one.roles.bones.items() if j is not None)
            asked = replace(options, roles=named)
        try:
            pieces, found, doubts = importing.pieces_with_roles(path, one.clip, asked)
            findings += found
            warnings += doubts
            for piece, roles in pieces:
                piece, doubts = importing.smoothed(path, piece, options)
                warnings += doubts
                if rig is None and options.rig == "own":
                    out.append(importing.clip_to_poses(piece, roles=roles))
                    taken.append(floors.NO_FLOOR)
                    hands.append({})
                    continue
                taken.append(floors.floor_of(piece, roles))
                out.append(_carried(piece, roles, rig, options.plant_feet))
                hands.append(fingers.finger_turns(piece, roles) if rig is not None and _fingers_of(rig) else {})
        except (ValueError, MemoryError) as error:  # other takes of the file may be sound
            refused.append(_one_line(error))
            warnings += [f"{one.clip.name}: not taken. {refused[-1]}"] if len(everyone) > 1 else []
        if len(everyone) > 1:
            yield Progress(1, 1, f"{path.name}: {one.clip.name}")
    if refused and not out:
        return FileReport(str(path), False, reason=refused[0]), [], [], []
    clip, frames = everyone[-1].clip, sum(one.clip.frames for one in everyone)
    kept = sum(p.frames for p in out)
    report = FileReport(
        path=str(path),
        read=True,
        reason="" if kept else importing.why_nothing(frames),
        clips=tuple(name for p in out for name in p.clip_names),
        joints=len(clip.names),
        frames=frames,
        fps=float(clip.fps),
        kept=kept,
        seconds=float(sum(f.seconds for f in findings)),
        height=float(findings[0].height) if findings else 0.0,
        up_axis=clip.up_axis,
        warnings=tuple(dict.fromkeys(warnings)),
    )
    return report, out, taken, hands


def _carried(piece: Clip, roles: Roles, rig: Rig | None, plant: bool) -> PoseSet:
    """A piece on the skeleton of ``rig``, or on the reference rig."""
    target = reference() if rig is None else rig.skeleton
    played = {role: j for j, role in enumerate(target.names if rig is None else rig.roles)}
    rot, root = retarget.retarget(piece, target, played, roles, plant, {} if rig is None else _hand_tails(rig))
    return pose_set.make(target, rot, root, np.zeros(len(rot), int), [piece.name], clip_fps=piece.fps)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _fingers_of(rig: Rig) -> dict[str, int]:
    """The fingers of a rig that may be keyed: finger bone -> bone; of a generated control rig, its controls."""
    names = [
        "" if isinstance(rig, ControlRig) and name.startswith(("MCH-", "ORG-", "DEF-")) else name for name in rig.bones
    ]
    return fingers.find_fingers(names, rig.parents, rig.rest[:, :3, 3], _finger_roots(rig))


def _hands(rig: Rig) -> dict[str, int]:
    """Side -> the hand."""
    own = {role: int(rig.index[j]) for j, role in enumerate(rig.roles)}
    return {side: own[side + "Hand"] for side in ("Left", "Right") if side + "Hand" in own}


def _finger_roots(rig: Rig) -> dict[str, int]:
    """Side -> the bone that fingers hang on: the hand, or in a generated control rig the deforming bone that follows it."""
    out = _hands(rig)
    for side, hand in out.items() if isinstance(rig, ControlRig) else ():
        twin = rig.bones[hand].replace("ORG-", "DEF-", 1)
        if twin in rig.bones:
            out[side] = rig.bones.index(twin)
    return out


def _hand_tails(rig: Rig) -> dict[str, np.ndarray]:
    """Role -> (3) [m, rig space] where a hand with fingers points."""
    heads = rig.rest[:, :3, 3] @ rig.turn.T * rig.unit
    out = {}
    for side, hand in _finger_roots(rig).items():
        below = [j for j in range(len(rig.bones)) if rig.parents[j] == hand]
        if len(below) > 1:
            out[side + "Hand"] = rig_body.hand_tail(heads[hand], heads[below])
    return out


def _finger_channels(
    ob: bpy.types.Object, rig: Rig, poses: PoseSet, turns: Fingers
) -> dict[tuple[str, str], np.ndarray]:
    """The rotations of fingers as values to key."""
    found = _fingers_of(rig) if turns else {}
    if not found:
        return {}
    rest = rig.rest.copy()
    rest[:, :3, :3] = rig.turn @ rest[:, :3, :3]
    rest[:, :3, 3] = rest[:, :3, 3] @ rig.turn.T * rig.unit
    tails = np.array([pb.bone.tail_local for pb in ob.pose.bones]) @ rig.turn.T * rig.unit
    body = rig_body.skeleton_body(rig.skeleton, {role: j for j, role in enumerate(rig.roles)}, _hand_tails(rig))
    t_pose = t_pose_rules.rest_to_t_pose(body)
    posed = fk.armature_matrices(rig.skeleton, poses.rot.astype(np.float64), poses.root_pos.astype(np.float64))
    turned = posed[..., :3, :3] @ rig.skeleton.rest_arm[:, :3, :3].transpose(0, 2, 1)
    hands = _hands(rig)
    place = {side: rig.index.tolist().index(bone) for side, bone in hands.items()}
    own = fingers.on_rig(
        turns,
        found,
        rig.parents,
        rest,
        tails,
        _finger_roots(rig),
        {side: t_pose[side + "Hand"] for side in hands},
        {side: turned[:, j] for side, j in place.items()},
    )
    out = {}
    for bone, matrices in own.items():
        values = rotations.continuous_quaternions(rotations.quaternion_from_matrix(matrices))
        out[rig.bones[bone], runtime.rotation_channel(rig.modes[bone])] = runtime.in_mode(values, rig.modes[bone])
    return out


def write(
    ob: bpy.types.Object,
    rig: Rig,
    poses: PoseSet,
    turns: Fingers | None = None,
    bends: bool = False,
    travels: bool = False,
) -> Generator[int, None, tuple[bpy.types.Action, object]]:
    """One clip as a new action of ``ob``, with a key on every frame from frame 1 on; returns the action and its slot.

    ``turns`` of fingers go onto those that the rig has. ``bends``: bones between those of the trunk turn too. ``travels``: a root
    bone on the floor carries the body over the ground. Yields the number of frames done, before the action is made.
    """
    moved: dict[int, np.ndarray] = {}
    if not isinstance(rig, (ControlRig, FkRig)):
        moved |= uncontrolled.trunk_shares(rig, poses) if bends else {}
        moved |= uncontrolled.root_motion(rig, poses) if travels else {}
    named = yield from motion_channels.from_rest(ob, rig, poses.rot, poses.root_pos, moved)
    if not (isinstance(rig, FkRig) and fk_presets.needs_blender(ob, rig)):
        named |= _finger_channels(ob, rig, poses, turns or {})
    action, slot = blender_actions.new(poses.clip_names[0], ob.name)
    action.use_fake_user = True
    action[FPS_KEY] = float(poses.clip_fps[0])
    frames = np.arange(1, poses.frames + 1)
    keyframes.write_bones(action, slot, frames, named)
    return action, slot


def _body_for(
    context: bpy.types.Context,
    bodies: list[tuple[Skeleton, bpy.types.Object, Rig]],
    clip: PoseSet,
    made: list[bpy.types.ID],
) -> tuple[Skeleton, bpy.types.Object, Rig]:
    """The armature for a clip: one with its skeleton, else a new one, which is added to ``bodies`` and ``made``."""
    for body in bodies:
        own, other = body[0], clip.skeleton
        if own.fingerprint == other.fingerprint and np.abs(own.rest_arm - other.rest_arm).max() < SAME:
            return body
    ob = armature.add(context, clip.clip_names[0], clip.skeleton)
    made += [ob, bpy.data.armatures[ob.data.name]]
    context.view_layer.update()
    rig = read(ob, clip.skeleton)
    bodies.append((clip.skeleton, ob, rig))
    return bodies[-1]


def _unique_names(poses: Sequence[PoseSet]) -> list[str]:
    """The clips' names, with a number added to repeated ones."""
    out: list[str] = []
    for name in (p.clip_names[0] for p in poses):
        number, best = 1, name
        while best in out:
            number += 1
            best = f"{name} {number}"
        out.append(best)
    return out
