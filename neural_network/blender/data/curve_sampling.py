# SPDX-License-Identifier: GPL-3.0-or-later
"""The fast way to sample a take: read its F-Curves and compose the rotations here, without evaluating the scene."""

from __future__ import annotations

from collections.abc import Generator

import bpy
import numpy as np

from ...core import rotations
from ..host.rig import Rig
from .takes import AT_REST, Sampled, Take


def sample(rig: Rig, take: Take, frames: np.ndarray) -> Generator[int, None, Sampled]:
    """Sample a take from its curves alone; yields the number of frames done, estimated, and returns Sampled."""
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


def _rotation(take: Take, bone: int, mode: str, keys: _Keys) -> np.ndarray | None:
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
