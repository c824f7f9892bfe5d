# SPDX-License-Identifier: GPL-3.0-or-later
"""The fast way to sample a take: read its F-Curves and compose the rotations here, without evaluating the scene."""

from __future__ import annotations

from collections.abc import Generator

import bpy
import numpy as np

from ...core import forward_kinematics as fk
from ...core import rotations
from ..host.rig import Rig
from .takes import AT_REST, Curves, Sampled, Take, channel_paths, curves_of

CHUNK = 2048  # frames whose matrices are held at once


def sample(ob: bpy.types.Object, rig: Rig, take: Take, frames: np.ndarray) -> Generator[int, None, Sampled]:
    """Sample a take from its curves alone; yields the number of frames done, estimated, and returns Sampled."""
    count = len(frames)
    keys = _Keys(frames)
    paths = channel_paths(rig.bones)
    turns: dict[int, np.ndarray] = {}
    places: dict[int, np.ndarray] = {}
    needed = rig.needed
    batch = min(8, max(1, 4000 // max(1, count)))
    curves = Curves({}, [])
    for step, bone in enumerate(needed):
        if step % batch == 0:
            yield count * step // len(needed)
            curves = curves_of(take, ob, paths)  # looked up again: meanwhile curves may have been added or removed
        quaternion = _rotation(curves, bone, rig.modes[bone], keys)
        if quaternion is not None:
            turns[bone] = quaternion
        if not rig.connected[bone]:
            place = np.zeros((count, 3))
            for axis, curve in curves.own.get((bone, "location"), {}).items():
                place[:, axis] = keys.sample(curve)
            if place.any():
                places[bone] = place
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
    world = np.broadcast_to(np.eye(4), (count, 4, 4))
    for bone in rig.between(int(rig.index[0])):
        world = _below(rig, bone, world, turns, places, slice(None))
    rot[:, 0] = _root_basis(rig, rig.turn @ world[:, :3, :3])
    root = world[:, :3, 3] @ rig.turn.T * rig.unit
    return Sampled(rot, root, _lost(rig, rot, root, turns, places))


def _below(
    rig: Rig,
    bone: int,
    above: np.ndarray,
    turns: dict[int, np.ndarray],
    places: dict[int, np.ndarray],
    rows: slice,
) -> np.ndarray:
    """(F, 4, 4) pose matrices of a bone [Blender units, object space] from those of its parent."""
    parent = int(rig.parents[bone])
    step = np.linalg.inv(rig.rest[parent]) @ rig.rest[bone] if parent >= 0 else rig.rest[bone]
    basis = np.tile(np.eye(4), (len(above), 1, 1))
    if bone in turns:
        basis[:, :3, :3] = rotations.matrix_from_quaternion(turns[bone][rows])
    if bone in places:
        basis[:, :3, 3] = places[bone][rows]
    return above @ step @ basis


def _lost(
    rig: Rig, rot: np.ndarray, root: np.ndarray, turns: dict[int, np.ndarray], places: dict[int, np.ndarray]
) -> np.ndarray:
    """(J) the largest distance [m] of each head in these poses from where the curves put it, in poses of fixed lengths."""
    lost = np.zeros(rig.skeleton.count)
    below = {b for bone in rig.index.tolist()[1:] for b in rig.between(bone)}
    controlled = set(rig.index.tolist())
    if not any(b in places or (b in turns and b not in controlled) for b in below):
        return lost  # nothing is moved from its place on its parent
    for start in range(0, len(rot), CHUNK):
        rows = slice(start, min(start + CHUNK, len(rot)))
        world = {-1: np.broadcast_to(np.eye(4), (rows.stop - rows.start, 4, 4))}
        for bone in rig.needed:
            world[bone] = _below(rig, bone, world[int(rig.parents[bone])], turns, places, rows)
        shown = np.stack([world[b][:, :3, 3] for b in rig.index.tolist()], axis=1) @ rig.turn.T * rig.unit
        taken = fk.armature_matrices(rig.skeleton, rot[rows], root[rows])[..., :3, 3]
        lost = np.maximum(lost, np.linalg.norm(shown - taken, axis=-1).max(axis=0))
    return lost


def _relative(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return rotations.quaternion_multiply(rotations.quaternion_conjugate(a), b)


def _root_basis(rig: Rig, turned: np.ndarray) -> np.ndarray:
    """rot_local (F, 3) of the root from its orientation (F, 3, 3) in rig space."""
    return rotations.axis_angle_from_matrix(rig.skeleton.rest_arm[0, :3, :3].T @ turned)


def _rotation(curves: Curves, bone: int, mode: str, keys: _Keys) -> np.ndarray | None:
    """Quaternions (F, 4) of a bone's own rotation channels; None where no curve moves them."""
    channel = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(mode, "rotation_euler")
    found = curves.own.get((bone, channel))
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
