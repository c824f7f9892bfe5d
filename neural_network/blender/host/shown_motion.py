# SPDX-License-Identifier: GPL-3.0-or-later
"""What a character shows on frames of the scene, as the wings take it: a motion of the reference rig in its lengths."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from ...core import rotations
from ...rigs import on_body
from ...rigs.on_body import Character
from . import control_rigs, evaluating, motion_channels, runtime
from .accepting import Motion
from .jobs import Progress
from .rig import Rig, metres

SAME = 1e-6  # [rad, m] a smaller difference is none
STILL = 1e-4  # [object's units, axes] by which an armature object may move while its bones are read


@dataclass(frozen=True)
class Shown:
    """The motion of a character on consecutive frames."""

    name: str
    """The armature object."""
    rig: Rig
    """The bones that were read."""
    who: Character
    frames: np.ndarray
    """(F)."""
    rot: np.ndarray
    """(F, J, 3) rot_local [rad]."""
    root_pos: np.ndarray
    """(F, 3) the root's head [m, rig space]."""
    turns: np.ndarray
    """(F, 23, 3, 3) local core rotations on the character's body."""
    root: np.ndarray
    """(F, 3) its Hips' heads [m, core axes]."""
    fps: float
    others: np.ndarray
    """(F, N, 3) [m, rig space] places of the other objects that were asked for."""

    def rows(self, first: int, last: int) -> slice:
        """The rows of the frames from ``first`` to ``last``, both included."""
        start = int(self.frames[0])
        return slice(first - start, last - start + 1)


def fps_of(scene: Any) -> float:
    """Frames a second of a scene."""
    return float(scene.render.fps / scene.render.fps_base)


def character_of(ob: bpy.types.Object) -> tuple[Rig, Character]:
    """The bones of an armature that are read, and the character it is.

    Raises ValueError, in words, for one that is no person with hips, legs and feet.
    """
    rig = control_rigs.read_any(ob)
    try:
        return rig, on_body.character(rig.skeleton, rig.roles)
    except ValueError as error:
        raise ValueError(f"{ob.name}: {error}; choose its bones in the panel Roles") from None


def refusal(ob: bpy.types.Object) -> str:
    """Why a character cannot be read as it is shown, and what to do; empty if it can."""
    every: Any = bpy.data.collections
    if any(c.neural_ik_live.live and c.neural_ik_live.armature == ob for c in every):
        return f"{ob.name} is under Live IK: apply or cancel that first"
    if not ob.visible_get():
        return f"{ob.name} is hidden: show it first"
    if not np.isfinite(np.array(ob.matrix_world)).all():
        return f"{ob.name} is at a place that is no number: check its location, rotation and scale"
    data: Any = ob.data
    if data.pose_position == "REST":
        return f"{ob.name} is in Rest Position: switch it to Pose Position (armature data)"
    return ""


def read(
    context: bpy.types.Context, ob: bpy.types.Object, frames: Sequence[int], others: Sequence[bpy.types.Object] = ()
) -> Generator[Progress, None, Shown]:
    """Let Blender show consecutive ``frames`` one after another and read the character, and where other objects are; yields
    Progress, returns Shown.

    Frame and pose are put back at the end, and where the generator is closed. Raises ValueError, in words, for a character that
    cannot be read, one whose object itself moves, and where something ended it.
    """
    reason = refusal(ob)
    if reason:
        raise ValueError(reason)
    rig, who = character_of(ob)
    scene: Any = context.scene
    frame, pose = (scene.frame_current, scene.frame_subframe), runtime.snapshot(ob)

    def restore() -> None:
        scene.frame_set(frame[0], subframe=frame[1])
        runtime.restore(ob, pose)

    evaluation = evaluating.begin()
    evaluation.restore = restore
    rot = np.empty((len(frames), rig.skeleton.count, 3))
    root_pos = np.empty((len(frames), 3))
    world, unit = np.array(ob.matrix_world), metres(ob)
    places = np.empty((len(frames), len(others), 3))
    try:
        with evaluating.undeformed(scene, ob):
            for i, number in enumerate(frames):
                if evaluation.ended:
                    raise ValueError(f"stopped, because {evaluation.ended}")
                scene.frame_set(number)
                rot[i], root_pos[i] = runtime.read_pose(ob, rig)
                if np.abs(np.array(ob.matrix_world) - world).max() > STILL:
                    raise ValueError(
                        f"{ob.name} itself moves (frame {number}): its motion has to be in its bones. Parent or key its root bone"
                        " instead, or mute the object's own channels"
                    )
                for k, other in enumerate(others):
                    places[i, k] = (np.array(other.matrix_world.translation) - world[:3, 3]) * unit
                yield Progress(i + 1, len(frames), f"reading frame {number}")
    finally:
        evaluating.end(evaluation)
    if not (np.isfinite(rot).all() and np.isfinite(root_pos).all()):
        raise ValueError(f"{ob.name} has poses that are not numbers from frame {frames[0]} to {frames[-1]}")
    turns, root = on_body.to_body(who, rot, root_pos)
    return Shown(ob.name, rig, who, np.array(frames), rot, root_pos, turns, root, fps_of(scene), places)


def motion(
    ob: bpy.types.Object, shown: Shown, frames: np.ndarray, turns: np.ndarray, root: np.ndarray, generated: np.ndarray
) -> Motion:
    """A motion on the character's body as one of what is keyed, on frames (F) of which those in ``shown`` begin.

    ``turns`` (F, 23, 3, 3) and ``root`` (F, 3) as :class:`Shown` has them, ``generated`` (F) bool. Frames that are not generated
    are as they were read. What the body does not know of the character (a difference that the way to the body and back leaves)
    is taken from the frames beside, so that generated frames go on from them.
    """
    rig = motion_channels.rig_of(ob)
    same = rig.skeleton.names == shown.rig.skeleton.names
    who = shown.who if same else on_body.character(rig.skeleton, rig.roles)
    rot, place = on_body.from_body(who, turns, root)
    rot = np.asarray(rot, np.float64)
    if same:
        count = len(shown.frames)
        kept = np.flatnonzero(~generated[:count])
        left = _leftover(rot, place, shown, kept)
        rot, place = _with_leftover(rot, place, kept, *left)
        rot[kept], place[kept] = shown.rot[kept], shown.root_pos[kept]
    return Motion(rig, frames, rot, place, generated)


def own_motion(ob: bpy.types.Object, shown: Shown, rot: np.ndarray, root_pos: np.ndarray) -> Motion:
    """The bones that were read in another motion, ``rot`` (F, J, 3) [rad] and ``root_pos`` (F, 3) [m, rig space], as what is keyed.

    Frames that differ from what was read are the generated ones.
    """
    off = np.abs(rot - shown.rot).max(axis=(1, 2)), np.abs(root_pos - shown.root_pos).max(axis=1)
    generated = np.maximum(*off) > SAME
    rig = motion_channels.rig_of(ob)
    if rig.skeleton.names == shown.rig.skeleton.names:
        return Motion(rig, shown.frames, np.asarray(rot, np.float64), np.asarray(root_pos, np.float64), generated)
    turns, root = on_body.to_body(shown.who, rot, root_pos)
    return motion(ob, shown, shown.frames, turns, root, generated)


def _leftover(rot: np.ndarray, place: np.ndarray, shown: Shown, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(K, J, 3) rotation vectors and (K, 3) shifts from the motion that came back to what was read, on the rows ``kept`` (K)."""
    back, read_ = (rotations.matrix_from_axis_angle(np.asarray(r, np.float64)) for r in (rot[kept], shown.rot[kept]))
    return rotations.axis_angle_from_matrix(np.swapaxes(back, -1, -2) @ read_), shown.root_pos[kept] - place[kept]


def _with_leftover(
    rot: np.ndarray, place: np.ndarray, kept: np.ndarray, turn: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The motion with the differences on the rows ``kept`` interpolated over all rows."""
    if not len(kept):
        return rot, place
    rows = np.arange(len(rot))
    high = np.clip(np.searchsorted(kept, rows), 0, len(kept) - 1)
    low = np.clip(high - 1, 0, None)
    span = np.maximum(kept[high] - kept[low], 1)
    share = np.clip((rows - kept[low]) / span, 0, 1)
    turns = turn[low] + share[:, None, None] * (turn[high] - turn[low])
    moved = rotations.matrix_from_axis_angle(rot) @ rotations.matrix_from_axis_angle(turns)
    return rotations.axis_angle_from_matrix(moved), place + shift[low] + share[:, None] * (shift[high] - shift[low])
