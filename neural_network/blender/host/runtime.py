# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses read from and written to a character's pose bones, and snapshots of them to restore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion

from ...core import forward_kinematics as fk
from ...core import rotations, tree
from .rig import Rig

CHANNELS = {"location": 3, "rotation_quaternion": 4, "rotation_euler": 3, "rotation_axis_angle": 4, "scale": 3}
"""The transform channels of a pose bone and their sizes."""


def snapshot(ob: bpy.types.Object) -> dict[str, np.ndarray]:
    """All transform channels of all pose bones, for :func:`restore`."""
    bones = ob.pose.bones
    values = {name: np.empty(len(bones) * size, np.float32) for name, size in CHANNELS.items()}
    for name, array in values.items():
        bones.foreach_get(name, array)
    return values


def restore(ob: bpy.types.Object, values: dict[str, np.ndarray]) -> None:
    """Write channels taken by :func:`snapshot` back; shown at Blender's next update."""
    for name, array in values.items():
        ob.pose.bones.foreach_set(name, np.ascontiguousarray(array, np.float32))
    ob.update_tag(refresh={"OBJECT", "DATA"})  # foreach_set alone tells Blender nothing


def read_pose(ob: bpy.types.Object, rig: Rig) -> tuple[np.ndarray, np.ndarray]:
    """The pose as Blender shows it now: rot_local (J, 3) [rad] and the root's head (3) [m, rig space]."""
    buffer = np.empty(len(rig.bones) * 16, np.float32)
    ob.pose.bones.foreach_get("matrix", buffer)
    # Blender stores matrices by columns
    poses = buffer.reshape(-1, 4, 4)[rig.index].transpose(0, 2, 1).astype(np.float64)
    rot = local_rotations(rig, (rig.turn @ orthonormal(poses[:, :3, :3]))[None])[0]
    return rot, rig.turn @ poses[0, :3, 3] * rig.unit


def local_rotations(rig: Rig, turned: np.ndarray) -> np.ndarray:
    """rot_local (F, J, 3) [rad] of bones that are turned to (F, J, 3, 3) in rig space."""
    skeleton = rig.skeleton
    rest = skeleton.rest_arm[:, :3, :3]
    parents = skeleton.parents[1:]
    rot = np.empty((*turned.shape[:2], 3), np.float32)
    rot[:, 0] = rotations.axis_angle_from_matrix(rest[0].T @ turned[:, 0])
    step = rest[parents].transpose(0, 2, 1) @ rest[1:]
    local = turned[:, parents].transpose(0, 1, 3, 2) @ turned[:, 1:]
    rot[:, 1:] = rotations.axis_angle_from_matrix(step.transpose(0, 2, 1) @ local)
    return rot


def apply(ob: bpy.types.Object, rig: Rig, rot_local: np.ndarray, root_pos: np.ndarray) -> None:
    """Pose the controlled bones: rot_local (J, 3) [rad], root's head (3) [m, rig space]; shown at Blender's update.

    Other bones keep their own rotation: below one between two controlled bones, the lower one compensates for it.
    Each bone is written in its own rotation mode. Where the root is connected, the bone that carries it is moved instead.
    """
    basis, location, _ = walk(ob, rig, np.asarray(rot_local, np.float64), np.asarray(root_pos, np.float64))
    write_basis(ob, rig, basis, location)


def write_basis(ob: bpy.types.Object, rig: Rig, basis: np.ndarray, location: np.ndarray) -> None:
    """Write basis matrices (J, 4, 4) and the location (3) of ``rig.carrier`` from :func:`walk` to the pose bones."""
    bones = ob.pose.bones
    quaternions = rotations.quaternion_from_matrix(basis[:, :3, :3])
    written = np.empty(len(rig.bones) * 4, np.float32)
    bones.foreach_get("rotation_quaternion", written)
    rows = written.reshape(-1, 4)
    for j, bone in enumerate(rig.index.tolist()):
        mode = rig.modes[bone]
        if mode == "QUATERNION":
            # the sign closer to the current rotation, so that keys do not flip
            rows[bone] = quaternions[j] if quaternions[j] @ rows[bone] >= 0 else -quaternions[j]
        elif mode == "AXIS_ANGLE":
            axis, angle = Quaternion(quaternions[j]).to_axis_angle()
            bones[bone].rotation_axis_angle = (angle, *axis)
        else:
            bones[bone].rotation_euler = Quaternion(quaternions[j]).to_euler(mode, bones[bone].rotation_euler)
    bones.foreach_set("rotation_quaternion", written)
    bones[rig.carrier].location = location.tolist()
    ob.update_tag(refresh={"OBJECT", "DATA"})


def channels(
    ob: bpy.types.Object,
    rig: Rig,
    rot_local: np.ndarray,
    root_pos: np.ndarray,
    moved: Mapping[int, np.ndarray] | None = None,
) -> dict[tuple[int, str], np.ndarray]:
    """A motion as values to key: (bone, channel) -> (F, n), with all uncontrolled bones that it depends on at rest.

    rot_local (F, J, 3) [rad], root_pos (F, 3) [m, rig space]; ``moved``: basis matrices (F, 4, 4) of uncontrolled bones above the
    controlled ones that are not at rest. Channels that stay at rest have one row.
    """
    moved = moved or {}
    if rig.simple:
        turns = rotations.quaternion_from_axis_angle(np.asarray(rot_local, np.float64))
        rest = rig.rest[rig.index[0]]
        places = (root_pos @ rig.turn / rig.unit - rest[:3, 3]) @ rest[:3, :3]
    else:
        walked = [
            walk(ob, rig, r, p, True, {bone: basis[f] for bone, basis in moved.items()})
            for f, (r, p) in enumerate(zip(rot_local, root_pos, strict=True))
        ]
        turns = rotations.quaternion_from_matrix(np.array([basis[:, :3, :3] for basis, _, _ in walked]))
        places = np.array([location for _, location, _ in walked])
    turns = rotations.continuous_quaternions(turns)
    out = {}
    controlled = rig.index.tolist()
    for bone in rig.needed:
        mode = rig.modes[bone]
        values = turns[:, controlled.index(bone)] if bone in controlled else np.array([[1.0, 0, 0, 0]])
        out[bone, rotation_channel(mode)] = in_mode(values, mode)
        if bone not in controlled:
            out[bone, "location"] = np.zeros((1, 3))
    for bone, basis in moved.items():
        mode = rig.modes[bone]
        values = rotations.continuous_quaternions(rotations.quaternion_from_matrix(basis[:, :3, :3]))
        out[bone, rotation_channel(mode)] = in_mode(values, mode)
        places_of = basis[:, :3, 3]
        out[bone, "location"] = places_of if places_of.any() else np.zeros((1, 3))
    out[rig.carrier, "location"] = places
    return out


_ROTATIONS = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}


def rotation_channel(mode: str) -> str:
    """The channel that holds a bone's rotation in that mode."""
    return _ROTATIONS.get(mode, "rotation_euler")


def in_mode(quaternions: np.ndarray, mode: Any) -> np.ndarray:
    """(F, 4) quaternions converted to the channel of that rotation mode, without jumps."""
    if mode == "QUATERNION":
        return quaternions
    if mode == "AXIS_ANGLE":
        found = [Quaternion(q).to_axis_angle() for q in quaternions.tolist()]
        return np.array([(angle, *axis) for axis, angle in found])
    out: list[Any] = []
    for q in quaternions.tolist():
        out.append(Quaternion(q).to_euler(mode, out[-1]) if out else Quaternion(q).to_euler(mode))
    return np.array([tuple(euler) for euler in out])


def walk(
    ob: bpy.types.Object,
    rig: Rig,
    rot: np.ndarray,
    root_pos: np.ndarray,
    rested: bool = False,
    moved: Mapping[int, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What to write for a pose, and where the bones will then be, by Blender's own rules of inheritance.

    Args:
        ob: the armature object.
        rig: its rig.
        rot: (J, 3) rot_local [rad].
        root_pos: (3) the root's head [m, rig space].
        rested: take the bones between, and all scales and other locations, as at rest instead of as posed now.
        moved: basis matrices (4, 4) of bones between that are neither.

    Returns:
        (J, 4, 4) basis matrices without scale, (3) the location of ``rig.carrier``, (J, 4, 4) pose matrices [object space].
    """
    turns = rotations.matrix_from_axis_angle(rot)
    out = np.tile(np.eye(4), (len(turns), 1, 1))
    place = {bone: j for j, bone in enumerate(rig.index.tolist())}
    root_head = rig.turn.T @ root_pos / rig.unit
    if rig.simple:
        out[:, :3, :3] = turns
        rest = rig.rest[rig.index[0]]
        out[0, :3, 3] = rest[:3, :3].T @ (root_head - rest[:3, 3])
        posed = fk.pose_matrices(rig.skeleton, turns, root_pos)
        posed[:, :3, 3] = posed[:, :3, 3] @ rig.turn / rig.unit
        posed[:, :3, :3] = rig.turn.T @ posed[:, :3, :3]
        return out, out[0, :3, 3], posed
    now = {b: np.eye(4) if rested else np.array(ob.pose.bones[b].matrix_basis, np.float64) for b in rig.needed}
    now |= {bone: np.asarray(basis, np.float64) for bone, basis in (moved or {}).items()}
    at = np.zeros(3)
    found: dict[int, np.ndarray] = {}  # pose matrices, parents first
    wanted: dict[int, np.ndarray] = {}  # orientation of the controlled bones in rig space
    rest_arm = rig.skeleton.rest_arm[:, :3, :3]
    for bone in rig.needed:
        pb, parent = ob.pose.bones[bone], int(rig.parents[bone])
        if bone == rig.carrier:
            now[bone] = own = now[bone].copy()
            own[:3, 3] = at = _carried(ob, rig, now, found, root_head)
        j = place.get(bone)
        if j is not None:
            above = int(rig.skeleton.parents[j])
            step = rest_arm[j] if above < 0 else wanted[above] @ rest_arm[above].T @ rest_arm[j]
            wanted[j] = step @ turns[j]
            target = np.eye(4)
            target[:3, :3] = rig.turn.T @ wanted[j]
            turn = orthonormal(_local_to_pose(pb, rig, bone, parent, found, target, True)[:3, :3])
            size = np.ones(3) if rested else np.array(pb.scale)
            out[j, :3, :3], out[j, :3, 3] = turn, 0 if rig.connected[bone] else now[bone][:3, 3]
            now[bone] = out[j].copy()
            now[bone][:3, :3] *= size
        found[bone] = _local_to_pose(pb, rig, bone, parent, found, now[bone], False)
    return out, at, np.array([found[b] for b in rig.index.tolist()])


def _carried(
    ob: bpy.types.Object, rig: Rig, now: dict[int, np.ndarray], found: dict[int, np.ndarray], root_head: np.ndarray
) -> np.ndarray:
    """(3) the location of ``rig.carrier`` that puts the root's head at ``root_head`` (3) [object space].

    ``now`` are the basis matrices of all needed bones, ``found`` the pose matrices of those above the carrier.
    """
    carrier = rig.carrier
    below = dict(found)
    for bone in reversed(tree.chain(rig.parents, int(rig.index[0]))):
        if bone in below:
            continue
        basis = now[bone]
        if rig.connected[bone]:
            basis = basis.copy()
            basis[:3, 3] = 0
        below[bone] = _local_to_pose(ob.pose.bones[bone], rig, bone, int(rig.parents[bone]), below, basis, False)
    moved = below[carrier].copy()
    moved[:3, 3] += root_head - below[int(rig.index[0])][:3, 3]
    return _local_to_pose(ob.pose.bones[carrier], rig, carrier, int(rig.parents[carrier]), found, moved, True)[:3, 3]


def _local_to_pose(
    pb: bpy.types.PoseBone,
    rig: Rig,
    bone: int,
    parent: int,
    posed: dict[int, np.ndarray],
    matrix: np.ndarray,
    invert: bool,
) -> np.ndarray:
    """Convert a basis matrix to object space, or back if ``invert``, by Blender's own rules of inheritance."""
    above: dict[str, Matrix] = {}
    if parent >= 0:
        above = {"parent_matrix": _matrix(posed[parent]), "parent_matrix_local": _matrix(rig.rest[parent])}
    return np.array(pb.bone.convert_local_to_pose(_matrix(matrix), _matrix(rig.rest[bone]), invert=invert, **above))


def _matrix(array: np.ndarray) -> Matrix:
    return Matrix(array.tolist())


def orthonormal(matrix: np.ndarray) -> np.ndarray:
    """Matrices (..., 3, 3) without the scale of their columns; of sheared ones the direction of Y, along the bone, is kept."""
    y = _unit(matrix[..., 1])
    z = _unit(np.cross(matrix[..., 0], y))
    return np.stack([np.cross(y, z), y, z], axis=-1)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.maximum(np.linalg.norm(vector, axis=-1, keepdims=True), 1e-20)
