# SPDX-License-Identifier: GPL-3.0-or-later
"""The common T-pose: how each bone of a skeleton is rotated when the body stands like the reference rig.

In the T-pose the body faces -Y, its left is +X and Z is up. The bones of a skeleton may have any rest pose; motion that is
measured since the T-pose can be copied between skeletons. All frames are armature axes: metres, Z up.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.rotations import matrix_from_axis_angle, rotation_between
from .rig_body import UP, RigBody, RigMotion

MAX_REST_ERROR = np.radians(40.0)  # mean angle of the limbs to the T-pose up to which the rest is a pose; A-pose: 20
HINGE_FRAMES = 10  # frames with a bent hinge that are needed to measure its axis
MAX_HINGE_TWIST = np.radians(60)  # a larger twist is an error rather than the roll of a bone
STANDING_FRAMES = 400  # frames searched for a standing pose

_CHAINS = (
    ("Thigh", "Shin", "Foot", "ToeBase"),
    ("Arm", "ForeArm", "Hand"),
)
_DIRECTIONS = {  # role without side -> direction of the left bone in the T-pose; the right one is mirrored in x
    "Arm": (1.0, 0.0, 0.0),
    "ForeArm": (1.0, 0.0, 0.0),
    "Hand": (1.0, 0.0, 0.0),
    "Thigh": (0.0, 0.0, -1.0),
    "Shin": (0.0, 0.0, -1.0),
    "Foot": (0.0, -1.0, 0.0),
    "ToeBase": (0.0, -1.0, 0.0),
}


def rest_to_t_pose(body: RigBody) -> dict[str, np.ndarray]:
    """Per role, the world rotation (3, 3) from the rest pose to the T-pose, if only the rest pose is known."""
    still = RigMotion(np.empty((0, len(body.parents), 3, 3)), np.empty((0, len(body.parents), 3)), 30.0)
    return t_pose_rotations(body, still, {})


def t_pose_rotations(body: RigBody, motion: RigMotion, planted: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Per role, the world rotation since rest (3, 3) that the bone has in the T-pose.

    Spine, neck, head and shoulders are taken as they are in the pose that is closest to standing; limbs turn the shortest
    way to their direction in the T-pose, from where their parents have brought them. The roll of upper arms and thighs
    comes from the axis that elbows and knees really bend about, and the soles are level in the frames (F) bool in which
    the foot is ``planted`` (by role).
    """
    standing = _standing_frame(body, motion)
    posed = np.broadcast_to(np.eye(3), (len(body.parents), 3, 3)) if standing is None else motion.turned[standing]
    heads = body.heads if standing is None else motion.heads[standing]
    facing = _facing(body, heads[None])[0]
    turn = _limb_turns(body, posed, facing)
    out = {role: turn[role] @ posed[j] for role, j in body.bones.items()}
    for side in ("Left", "Right"):
        for upper, lower, end in (("Arm", "ForeArm", "Hand"), ("Thigh", "Shin", "Foot")):
            twist = _hinge_twist(body, motion, side + upper, side + lower, side + end, out)
            out[side + upper] = twist @ out[side + upper] if side + upper in out else np.eye(3)
            if upper == "Thigh":
                out[side + lower] = twist @ out[side + lower]
        for part in ("Foot", "ToeBase"):
            role = side + part
            if role in body.bones and role in planted:
                out[role] = _level_sole(body, motion, role, planted[role], out[role])
    return out


def _direction(role: str) -> np.ndarray | None:
    """Unit direction (3) of a limb bone in the T-pose; None for other roles."""
    for side, mirror in (("Left", 1.0), ("Right", -1.0)):
        part = role.removeprefix(side)
        if part != role and part in _DIRECTIONS:
            return np.array(_DIRECTIONS[part]) * np.array([mirror, 1.0, 1.0])
    return None


def _known_direction(role: str) -> np.ndarray:
    direction = _direction(role)
    assert direction is not None
    return direction


def _standing_frame(body: RigBody, motion: RigMotion) -> int | None:
    """The frame in which the body is closest to the T-pose; None if the rest pose is close enough, or without frames."""
    if t_pose_error(body, body.heads[None], body.tails[None])[0] < MAX_REST_ERROR or not len(motion.turned):
        return None
    count = len(motion.turned)
    frames = np.unique(np.linspace(0, count - 1, min(count, STANDING_FRAMES)).astype(int))
    heads = motion.heads[frames]
    tails = heads + np.einsum("fjab,jb->fja", motion.turned[frames], body.tails - body.heads)
    return int(frames[np.argmin(t_pose_error(body, heads, tails))])


def t_pose_error(body: RigBody, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Mean angle (F) [rad] of limbs and spine to the T-pose, whichever way the body faces.

    Arms count half, because they may hang down.
    """
    facing = _facing(body, heads)
    total = np.zeros(len(heads))
    weight = 0.0
    for role, j in body.bones.items():
        wanted = _direction(role)
        if wanted is None or role.endswith(("Hand", "ToeBase", "Foot")):
            continue
        share = 0.5 if "Arm" in role else 1.0
        total += share * _angle(np.einsum("fab,fb->fa", facing, tails[:, j] - heads[:, j]), wanted)
        weight += share
    top = next((body.bones[r] for r in ("Head", "NeckLower", "Spine2", "Spine1") if r in body.bones), None)
    if top is not None:
        total += 2 * _angle(np.einsum("fab,fb->fa", facing, heads[:, top] - heads[:, body.bones["Hips"]]), UP)
        weight += 2
    return total / max(weight, 1.0)


def _facing(body: RigBody, heads: np.ndarray) -> np.ndarray:
    """Rotation about up (F, 3, 3) that turns the left of each pose to +X."""
    left = np.zeros((len(heads), 3))
    for part in ("Thigh", "Arm", "Shoulder"):
        pair = body.bones.get("Left" + part), body.bones.get("Right" + part)
        if pair[0] is not None and pair[1] is not None:
            left += heads[:, pair[0]] - heads[:, pair[1]]
    return _about_up(-np.arctan2(left[:, 1], left[:, 0]))


def _limb_turns(body: RigBody, posed: np.ndarray, facing: np.ndarray) -> dict[str, np.ndarray]:
    """Per role, the world rotation (3, 3) from the pose ``posed`` (J, 3, 3) to the T-pose; ``facing`` for all but limbs."""
    turn: dict[str, np.ndarray] = dict.fromkeys(body.bones, facing)
    for side in ("Left", "Right"):
        for chain in _CHAINS:
            above = facing
            for part in chain:
                role = side + part
                if role not in body.bones:
                    continue
                j = body.bones[role]
                bone = body.tails[j] - body.heads[j]
                direction = above @ posed[j] @ bone
                if part in ("Foot", "ToeBase"):
                    turn[role] = _turn_heading(facing @ posed[j] @ bone, _known_direction(role)) @ facing
                elif np.linalg.norm(direction) > 1e-9:
                    turn[role] = rotation_between(direction, _known_direction(role)) @ above
                else:
                    turn[role] = above
                above = turn[role]
    return turn


def _hinge_twist(
    body: RigBody, motion: RigMotion, upper: str, lower: str, end: str, t_pose: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Rotation (3, 3) about the limb that turns the axis its hinge really bends about to the axis of the reference.

    Joint positions alone do not show how an upper arm is rolled; the axis of the elbow in the frames does. The identity if
    the hinge bends too little, or about changing axes.
    """
    if not {upper, lower, end} <= set(body.bones) or len(motion.turned) < HINGE_FRAMES:
        return np.eye(3)
    j, k, e = (body.bones[r] for r in (upper, lower, end))
    first, second = motion.heads[:, k] - motion.heads[:, j], motion.heads[:, e] - motion.heads[:, k]
    axis = np.cross(unit(first), unit(second))
    axis = np.einsum("fba,fb->fa", motion.turned[:, j], axis) @ t_pose[upper].T
    bent = np.linalg.norm(axis, axis=1) > np.sin(np.radians(15))
    total = axis[bent].sum(axis=0)
    if np.count_nonzero(bent) < HINGE_FRAMES or np.linalg.norm(total) < 0.9 * np.linalg.norm(axis[bent], axis=1).sum():
        return np.eye(3)
    along = _known_direction(upper)
    wanted = np.array([1.0, 0, 0]) if upper.endswith("Thigh") else np.array([0, 0, -np.sign(along[0])])
    angle = np.arctan2(np.cross(total, wanted) @ along, total @ wanted)
    return matrix_from_axis_angle(along * np.clip(angle, -MAX_HINGE_TWIST, MAX_HINGE_TWIST))


def _level_sole(body: RigBody, motion: RigMotion, role: str, planted: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """The ``rotation`` of a foot in the T-pose, corrected so that its sole is level as it is in the ``planted`` frames."""
    j = body.bones[role]
    if np.count_nonzero(planted) < 5:
        return rotation
    up = np.median(np.einsum("fba,b->fa", motion.turned[planted, j], UP), axis=0)
    if _angle(rotation @ up, UP) > np.radians(50):
        return rotation
    level = rotation_between(rotation @ up, UP) @ rotation
    return _turn_heading(level @ (body.tails[j] - body.heads[j]), _known_direction(role)) @ level


def _turn_heading(direction: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Rotation about up (3, 3) from a direction's heading to the wanted heading; the identity if it is nearly vertical."""
    if np.linalg.norm(direction[:2]) < 1e-6 + 0.2 * np.linalg.norm(direction):
        return np.eye(3)
    angle = np.arctan2(wanted[1], wanted[0]) - np.arctan2(direction[1], direction[0])
    return _about_up(np.array([angle]))[0]


def _about_up(angle: np.ndarray) -> np.ndarray:
    """Rotations (..., 3, 3) about Z by angles (...) [rad]."""
    c, s, zero, one = np.cos(angle), np.sin(angle), np.zeros_like(angle), np.ones_like(angle)
    return np.stack([np.stack([c, -s, zero], -1), np.stack([s, c, zero], -1), np.stack([zero, zero, one], -1)], axis=-2)


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(
        np.arctan2(np.linalg.norm(np.cross(a, np.broadcast_to(b, a.shape)), axis=-1), np.sum(a * b, axis=-1))
    )


def unit(vector: np.ndarray) -> np.ndarray:
    """Vectors (..., 3) scaled to length 1; zero vectors stay zero."""
    return np.asarray(vector / np.maximum(np.linalg.norm(vector, axis=-1, keepdims=True), 1e-12))
