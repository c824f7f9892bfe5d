# SPDX-License-Identifier: GPL-3.0-or-later
"""A clip on its own skeleton, from the hips down: rest pose, rotations and effectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core import skeleton as skeletons
from ...core import tree
from ...core.messages import counted
from ...core.rotations import axis_angle_from_quaternion, quaternion_from_matrix
from ...core.skeleton import Skeleton
from ...motion import pose_set
from ...motion.clip import Clip, body_joints, body_top, joint_motion, rest_positions, to_z_up
from ...motion.pose_set import PoseSet
from ...rigs import rig_body
from ...rigs.roles import Roles

EFFECTORS = ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head")


@dataclass(frozen=True)
class OwnPoses:
    """A clip on its own skeleton, still in file units and file axes, so that several clips can agree on them later."""

    names: tuple[str, ...]
    parents: np.ndarray
    heads: np.ndarray
    """(J, 3) rest heads."""
    directions: np.ndarray
    """(J, 3) unit directions of the bones at rest."""
    rot: np.ndarray
    """(F, J, 3) axis-angle [rad] since rest, relative to the parent, in file axes; float32."""
    root_pos: np.ndarray
    """(F, 3) the root's head."""
    effectors: tuple[str, ...]
    feet: tuple[str, ...]
    notes: tuple[str, ...] = ()


def clip_to_poses(clip: Clip, name: str | None = None, roles: Roles | None = None) -> PoseSet:
    """A clip as a PoseSet on its own rig: armature space [m, Z up], bones along Y, effectors by roles.

    ``roles`` are found if they are not given. Raises ValueError for a clip without frames and for a skeleton that cannot be used.
    """
    own = own_poses(clip, roles)
    rig = own_skeleton(own, clip.up_axis, clip.unit)
    return on_skeleton(own, rig, clip.up_axis, clip.unit, name or clip.name, clip.fps)


def own_skeleton(own: OwnPoses, up_axis: str, unit: float) -> Skeleton:
    """The Skeleton of ``own`` in armature space [m, Z up].

    Roll: each bone's Z is as close as possible to the front axis (Y) or the up axis (Z), whichever is closer to
    perpendicular to the bone, so that left and right bones mirror each other.
    """
    z_up = to_z_up(up_axis)
    rest = np.tile(np.eye(4), (len(own.names), 1, 1))
    rest[:, :3, 3] = own.heads @ z_up.T * unit
    y = own.directions @ z_up.T
    reference_axis = np.eye(3)[1 + np.argmin(np.round(np.abs(y[:, 1:]), 6), axis=1)]
    z = reference_axis - np.sum(reference_axis * y, axis=1, keepdims=True) * y
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    rest[:, :3, :3] = np.stack([np.cross(y, z), y, z], axis=-1)
    return skeletons.make(own.names, own.parents, rest, own.effectors, own.feet)


def on_skeleton(own: OwnPoses, rig: Skeleton, up_axis: str, unit: float, name: str, fps: float) -> PoseSet:
    """The poses of ``own`` as one clip called ``name`` on ``rig``, its skeleton in armature space."""
    z_up = to_z_up(up_axis)
    to_bone = np.swapaxes(rig.rest_arm[:, :3, :3], -1, -2) @ z_up
    rot = np.einsum("jab,fjb->fja", to_bone, own.rot)
    return pose_set.make(rig, rot, own.root_pos @ z_up.T * unit, np.zeros(len(rot), int), [name], clip_fps=fps)


def own_poses(clip: Clip, roles: Roles | None = None) -> OwnPoses:
    """A clip on its own skeleton, from the hips down.

    Joints above the hips (a "root" or "Armature") are merged into the motion of the hips. Joints beside the hips, such as
    the targets of a control rig, are left out and named in the notes. So are positions of joints below the hips that
    move, because bones keep their length.
    """
    roles = rig_body.clip_roles(clip) if roles is None else roles
    hips = roles.bones.get("Hips")
    top = hips if hips is not None else body_top(clip)
    keep = np.zeros(len(clip.parents), bool)
    for i, parent in enumerate(clip.parents):
        keep[i] = i == top or (parent >= 0 and keep[parent])
    index = np.flatnonzero(keep)
    place = np.cumsum(keep) - 1
    parents = np.where(index == top, -1, place[np.maximum(clip.parents[index], 0)])
    offsets, moving = _rig_offsets(clip)
    quaternions = clip.rotations[:, index]
    root_pos = clip.root_pos
    if top != 0:
        rotation, root_pos = joint_motion(clip, top)
        quaternions = np.concatenate([quaternion_from_matrix(rotation)[:, None], quaternions[:, 1:]], axis=1)
    tips = {int(place[i]): tip for i, tip in clip.tips.items() if keep[i]}
    heads = np.array(offsets[index])
    heads[0] = rest_positions(clip)[top]
    heads = tree.sums(parents, heads)
    names = tuple(clip.names[i] for i in index)
    effectors, feet = _effectors(clip, roles, keep, names, parents)
    return OwnPoses(
        names=names,
        parents=parents,
        heads=heads,
        directions=_directions(parents, heads, tips),
        rot=axis_angle_from_quaternion(quaternions).astype(np.float32),
        root_pos=root_pos,
        effectors=effectors,
        feet=feet,
        notes=_notes(clip, top, keep, offsets, [i for i in moving if keep[i] and i != top]),
    )


def renamed(own: OwnPoses, names: tuple[str, ...]) -> OwnPoses:
    """The same poses with other bone names (J), which must all differ."""
    other = dict(zip(own.names, names, strict=True))
    effectors, feet = tuple(other[name] for name in own.effectors), tuple(other[name] for name in own.feet)
    return replace(own, names=names, effectors=effectors, feet=feet)


def _notes(clip: Clip, top: int, keep: np.ndarray, offsets: np.ndarray, moving: Sequence[int]) -> tuple[str, ...]:
    """Sentences about the joints that were left out and about those whose positions were ignored."""
    notes = []
    dropped = [clip.names[i] for i in np.flatnonzero(~keep)]
    if dropped:
        listed = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
        notes.append(
            f"not part of the skeleton: {counted(len(dropped), 'joint')} above or beside {clip.names[top]!r}: {listed}"
        )
    if moving:
        farthest = max(float(np.linalg.norm(clip.translations[i] - offsets[i], axis=-1).max()) for i in moving)
        notes.append(
            f"length or position changes in {counted(len(moving), 'bone')}, by up to {farthest * clip.unit * 1000:.0f} mm "
            f"({clip.names[moving[0]]!r} first); this was ignored"
        )
    return tuple(notes)


def _rig_offsets(clip: Clip) -> tuple[np.ndarray, list[int]]:
    """Offsets (J, 3) of the rig, and the joints whose positions in the frames differ from them.

    The OFFSETs are used, so that all clips of a rig agree. Constant positions replace them for joints whose OFFSET is
    zero, and for all joints if most of them have constant positions.
    """
    offsets, moving = np.array(clip.offsets, dtype=np.float64), []
    size = float(np.abs(offsets).sum()) or 1.0
    constant = [i for i, positions in clip.translations.items() if np.ptp(positions, axis=0).max() <= 1e-6 * size]
    use_positions = 2 * len(constant) > len(offsets) - 1
    for i, positions in clip.translations.items():
        if np.linalg.norm(offsets[i]) < 1e-6 * size or (use_positions and i in constant):
            offsets[i] = np.median(positions, axis=0)
        if i not in constant or not np.allclose(offsets[i], positions[0]):
            moving.append(i)
    return offsets, moving


def _directions(parents: np.ndarray, heads: np.ndarray, tips: dict[int, np.ndarray]) -> np.ndarray:
    """Unit directions (J, 3) of bones: to the mean of the children, else to the tip, else the direction from the parent."""
    size = float(np.ptp(heads, axis=0).max()) or 1.0
    count = np.bincount(parents[1:], minlength=len(parents))
    total = np.zeros_like(heads)
    np.add.at(total, parents[1:], heads[1:])
    out = np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None] - heads, 0.0)
    for i, parent in enumerate(parents):
        if not count[i] and i in tips:
            out[i] = tips[i]
        if np.linalg.norm(out[i]) < 1e-4 * size and parent >= 0:
            out[i] = heads[i] - heads[parent]
        if np.linalg.norm(out[i]) < 1e-4 * size:
            out[i] = out[parent] if parent >= 0 else (0.0, 1.0, 0.0)
        out[i] /= np.linalg.norm(out[i])
    return out


def _effectors(
    clip: Clip, roles: Roles, keep: np.ndarray, names: tuple[str, ...], parents: np.ndarray
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of effectors and feet: by role, else the ends of the longest limbs and no feet."""
    found = {role: roles.bones.get(role) for role in EFFECTORS}
    by_role = {role: clip.names[i] for role, i in found.items() if i is not None and keep[i]}
    if len(set(by_role.values())) == len(by_role) and len(by_role) >= 2:
        return tuple(by_role.values()), tuple(by_role[role] for role in by_role if role.endswith("Foot"))
    body = body_joints(clip)[keep]
    leaves = [i for i in range(len(names)) if not np.any(parents == i) and body[i]] or [len(names) - 1]
    leaves.sort(key=lambda i: -len(tree.chain(parents, i)))
    return tuple(names[i] for i in sorted(leaves[:5])), ()
