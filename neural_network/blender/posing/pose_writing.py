# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing solved poses to pose bones, and restoring the poses from before Live IK."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ...core import forward_kinematics as fk
from ...core import rotations
from ...core.tree import limb
from ..host import control_rigs, rig_checks, runtime
from ..host.control_rigs import ControlRig
from ..host.rig import Rig
from ..host.runtime import CHANNELS
from .state import BEFORE, BONES, SWITCHES, LiveCharacter, Target, effector_roles, stored_channels


def write(
    ob: bpy.types.Object,
    rig: Rig,
    quaternions: np.ndarray,
    root_pos: np.ndarray,
    mask: np.ndarray | None = None,
    base: dict[str, np.ndarray] | None = None,
    direct: bool = False,
) -> np.ndarray | None:
    """Pose the controlled bones; Blender shows it at its next update.

    Returns where they will then be, by Blender's own rules: pose matrices (J, 4, 4) [object space]; None with ``direct``, where
    they are where forward kinematics puts them.

    Args:
        ob: the armature object.
        rig: its rig.
        quaternions: (J, 4) rot_local.
        root_pos: (3) [m, rig space] the root's head.
        mask: (J) bool, optional: the bones to pose; all others take the pose of the channels ``base``.
        base: channels; needed with ``mask``.
        direct: faster than runtime.apply, for rigs whose LiveCharacter.direct is true.
    """
    bones = ob.pose.bones
    if mask is not None and not mask.all():
        assert base is not None
        known, head = rig_checks.pose_of(ob, rig, base)
        quaternions = np.where(mask[:, None], quaternions, rotations.quaternion_from_axis_angle(known))
        root_pos = root_pos if mask[0] else head
    if isinstance(rig, ControlRig):
        control_rigs.apply(ob, rig, quaternions, root_pos)
        return posed_matrices(rig, quaternions, root_pos)
    if not direct:
        basis, location, posed = runtime.walk(ob, rig, rotations.axis_angle_from_quaternion(quaternions), root_pos)
        runtime.write_basis(ob, rig, basis, location)
        return posed
    written = np.empty(len(rig.bones) * 4, np.float32)
    bones.foreach_get("rotation_quaternion", written)
    rows = written.reshape(-1, 4)
    sign = np.copysign(1.0, np.einsum("jc,jc->j", rows.take(rig.index, axis=0), quaternions))
    rows[rig.index] = quaternions * sign[:, None]  # of q and -q the one nearer to the current value
    bones.foreach_set("rotation_quaternion", written)
    root = int(rig.index[0])
    if not rig.connected[root]:
        rest = rig.rest[root]
        bones[root].location = np.dot(np.dot(rig.turn.T, root_pos) / rig.unit - rest[:3, 3], rest[:3, :3]).tolist()
    ob.update_tag(refresh={"OBJECT", "DATA"})
    return posed_matrices(rig, quaternions, root_pos) if mask is not None else None


def posed_as_written(ob: bpy.types.Object, rig: Rig, quaternions: np.ndarray, root_pos: np.ndarray) -> np.ndarray:
    """What :func:`write` would return for all bones, without writing."""
    if isinstance(rig, ControlRig):
        return posed_matrices(rig, quaternions, root_pos)
    return runtime.walk(ob, rig, rotations.axis_angle_from_quaternion(quaternions), root_pos)[2]


def posed_matrices(rig: Rig, quaternions: np.ndarray, root_pos: np.ndarray) -> np.ndarray:
    """(J, 4, 4) pose matrices [object space] of rot_local (J, 4) and the root's head (3) [m, rig space], by forward kinematics."""
    posed = fk.pose_matrices(rig.skeleton, rotations.matrix_from_quaternion(quaternions), root_pos)
    posed[:, :3, :3] = rig.turn.T @ posed[:, :3, :3]
    posed[:, :3, 3] = posed[:, :3, 3] @ rig.turn / rig.unit
    return posed


def write_base(ob: bpy.types.Object, live: LiveCharacter) -> None:
    """Write the base pose to the controlled bones, bit for bit."""
    bones, rows = ob.pose.bones, control_rigs.written(live.rig)
    for name in ("rotation_quaternion", "rotation_euler", "rotation_axis_angle"):
        size = CHANNELS[name]
        now = np.empty(len(live.rig.bones) * size, np.float32)
        bones.foreach_get(name, now)
        now.reshape(-1, size)[rows] = live.base[name].reshape(-1, size)[rows]
        bones.foreach_set(name, now)
    for bone in control_rigs.with_location(live.rig):
        bones[bone].location = live.base["location"].reshape(-1, 3)[bone].tolist()
    ob.update_tag(refresh={"OBJECT", "DATA"})


def restore(ob: bpy.types.Object, collection: bpy.types.Collection) -> None:
    """Restore every bone to its pose before Live IK, except bones that were renamed or deleted meanwhile."""
    channels = stored_channels(collection, BEFORE)
    control_rigs.switch_back(ob, switches(collection))
    restore_named(ob, tuple(str(collection.get(BONES, "")).split("\n")), channels)


def restore_named(ob: bpy.types.Object, names: tuple[str, ...], channels: dict[str, np.ndarray]) -> None:
    """Write channels of bones that had these ``names`` to those that still have them."""
    if names == tuple(pb.name for pb in ob.pose.bones):
        runtime.restore(ob, channels)
        return
    for row, name in enumerate(names):
        pb = ob.pose.bones.get(name)
        for channel, size in CHANNELS.items() if pb is not None else ():
            setattr(pb, channel, channels[channel].reshape(-1, size)[row].tolist())
    ob.update_tag(refresh={"OBJECT", "DATA"})


def switches(collection: Any) -> dict[str, float]:
    """The IK/FK switches of a control rig before Live IK: bone -> value."""
    stored = collection.get(SWITCHES)
    return {name: float(value) for name, value in stored.items()} if stored is not None else {}


def selected(ob: bpy.types.Object, rig: Rig) -> np.ndarray:
    """(J) bool: the controlled bones that are selected; in a control rig those with a selected control."""
    bones: Any = ob.pose.bones
    old = not hasattr(bpy.types.PoseBone, "select") and "select" not in bpy.types.PoseBone.bl_rna.properties
    out = np.array([(bones[i].bone if old else bones[i]).select for i in rig.index.tolist()], bool)
    for control in rig.controls if isinstance(rig, ControlRig) else ():
        out[control.joint] |= (bones[control.bone].bone if old else bones[control.bone]).select
    return out


def swivel(
    live: LiveCharacter, quaternions: np.ndarray, root: np.ndarray, target: Target, hint: np.ndarray
) -> np.ndarray:
    """Turn a limb about the line from its first joint to its end, so that the elbow or knee points at ``hint`` (3) [m, rig space].

    The end keeps its position and orientation. Takes and returns rot_local (J, 4); a limb of no length stays as it is.
    """
    skeleton = live.rig.skeleton
    effector = skeleton.effectors[effector_roles(live).index(target.bone)]
    upper, lower, end = limb(skeleton.parents, skeleton.rest_arm[:, :3, 3], effector)
    turns = rotations.matrix_from_quaternion(quaternions)
    posed = fk.pose_matrices(live.rig.skeleton, turns, root)
    top = posed[upper, :3, 3]
    axis = posed[end, :3, 3] - top
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        return quaternions
    axis = axis / length
    now, wanted = (point - top - axis * (axis @ (point - top)) for point in (posed[lower, :3, 3], hint))
    angle = float(np.arctan2(axis @ np.cross(now, wanted), now @ wanted)) * target.weight
    turn = rotations.matrix_from_axis_angle(axis * angle)
    out = quaternions.copy()
    for bone, matrix in ((upper, turn @ posed[upper, :3, :3]), (end, turn.T @ posed[end, :3, :3])):
        frame = posed[bone, :3, :3] @ turns[bone].T  # the frame in which the bone rotates
        out[bone] = rotations.quaternion_from_matrix(frame.T @ matrix)
    return out
