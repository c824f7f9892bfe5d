# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion of any character whose bones have roles, on a body with the reference rig's bones in its own lengths, and back.

Whatever learns or makes motion works on such bodies (:func:`.proportions.proportioned_reference`): names, tree and axes are
always the same, only lengths differ. The way back turns the character's own bones and places nothing anew. The axes of a body's
motion are those of the character's armature space, Z up: it is where the character is, and turns where it turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton
from . import retarget, roles
from .proportions import proportioned_reference
from .rig_body import skeleton_body
from .roles import ROLE_NAMES
from .t_pose import rest_to_t_pose

NEEDED = ("Hips", "LeftFoot", "RightFoot", "LeftThigh", "RightThigh")
"""Roles without which there is no such body."""
HANDS = ("LeftHand", "RightHand")


@dataclass(frozen=True)
class Character:
    """A character and the body that motion is made on."""

    skeleton: Skeleton
    """Its own controlled bones."""
    roles: dict[str, int]
    """Role -> bone."""
    body: Skeleton
    """The reference rig in its lengths."""


def character(skeleton: Skeleton, roles: Sequence[str]) -> Character:
    """A character of bones (J) with ``roles`` (J), some of which may be none; ValueError for one without hips, legs or feet."""
    table = {role: j for j, role in enumerate(roles) if role in ROLE_NAMES}
    missing = [r for r in NEEDED if r not in table]
    if missing:
        raise ValueError(f"expected a character with hips, legs and feet, found no bone for {', '.join(missing)}")
    return Character(skeleton, table, proportioned_reference(skeleton_body(skeleton, table)))


def found(skeleton: Skeleton) -> Character:
    """Whose skeleton this is: roles by the bones' names where they are the reference rig's, else as :mod:`.roles` finds them.

    Raises ValueError for one without hips, legs or feet.
    """
    if set(NEEDED) <= set(skeleton.names):
        return character(skeleton, skeleton.names)
    bones = roles.find_roles(skeleton.names, skeleton.parents, skeleton.rest_arm[:, :3, 3]).bones
    by_bone = {bone: role for role, bone in bones.items() if bone is not None}
    return character(skeleton, [by_bone.get(j, "") for j in range(skeleton.count)])


def from_body(who: Character, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """rot_local (F, J, 3) [rad] and the root's head (F, 3) [m, armature] of the character, from motion on its body.

    ``turns`` (F, 23, 3, 3) are local core rotations, ``root`` (F, 3) [m] the Hips' heads.
    """
    turned, _ = fk.walk(who.body.parents, turns, who.body.offsets, root)
    return retarget.carry_exactly(who.body, turned, root, who.skeleton, who.roles)


def to_body(who: Character, rot_local: np.ndarray, root_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Local core rotations (F, 23, 3, 3) and Hips' heads (F, 3) [m] on the character's body, from its own motion.

    ``rot_local`` (F, J, 3) [rad] and ``root_pos`` (F, 3) [m, armature] are what :func:`from_body` returns: on bones that play a role
    one undoes the other. The body's bones point where the character's do, whatever rest pose it has and wherever it faces.
    """
    rig, body = who.skeleton, who.body
    t_pose = rest_to_t_pose(skeleton_body(rig, who.roles))
    posed = fk.armature_matrices(rig, np.asarray(rot_local, np.float64), np.asarray(root_pos, np.float64))
    turned = posed[..., :3, :3] @ np.swapaxes(rig.rest_arm[:, :3, :3], -1, -2)
    world = np.empty((len(turned), body.count, 3, 3))
    for j, name in enumerate(body.names):
        bone = who.roles.get(name)
        parent = int(body.parents[j])
        world[:, j] = turned[:, bone] @ t_pose[name].T if bone is not None else world[:, max(parent, 0)]
    out = world.copy()
    for j, parent in enumerate(body.parents.tolist()):
        if parent >= 0:
            out[:, j] = np.swapaxes(world[:, parent], -1, -2) @ world[:, j]
    thighs = 0.5 * (posed[:, who.roles["LeftThigh"], :3, 3] + posed[:, who.roles["RightThigh"], :3, 3])
    middle = 0.5 * (body.offsets[body.names.index("LeftThigh")] + body.offsets[body.names.index("RightThigh")])
    return out, thighs - world[:, 0] @ middle


def require_hands(who: Character) -> None:
    """Raise ValueError, in words, for a character without hands."""
    missing = [role for role in HANDS if role not in who.roles]
    if missing:
        raise ValueError(f"expected a character with hands, found no bone for {' and '.join(missing)}")


def hands_of(who: Character, rot_local: np.ndarray, root_pos: np.ndarray) -> np.ndarray:
    """(F, 2, 3) [m, armature] heads of the character's left and right hand in its own motion, as :func:`to_body` takes it.

    Raises ValueError, in words, for a character without hands.
    """
    require_hands(who)
    posed = fk.armature_matrices(who.skeleton, np.asarray(rot_local, np.float64), np.asarray(root_pos, np.float64))
    return np.asarray(posed[..., :3, 3][:, [who.roles[role] for role in HANDS]])


def carried_back(
    who: Character,
    rot: np.ndarray,
    root: np.ndarray,
    before: tuple[np.ndarray, np.ndarray],
    after: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """rot_local (F, J, 3) [rad] and the root's head (F, 3) [m] of a character whose body's motion changed from one to another.

    What the body knows nothing of, such as fingers, stays; frames that did not change stay to the bit.
    """
    was, was_root = from_body(who, *before)
    now, now_root = from_body(who, *after)
    by = np.swapaxes(rotations.matrix_from_axis_angle(was), -1, -2) @ rotations.matrix_from_axis_angle(now)
    own = rotations.matrix_from_axis_angle(np.asarray(rot, np.float64))
    out = rotations.axis_angle_from_matrix(own @ by)
    same = (before[0] == after[0]).all(axis=(1, 2, 3)) & (before[1] == after[1]).all(axis=1)
    place = np.asarray(root, np.float64) + (now_root - was_root)
    out[same], place[same] = rot[same], root[same]
    return out, place


def require_motion(who: Character, rot: np.ndarray, root: np.ndarray, fps: float, fewest: int, why: str) -> None:
    """ValueError, in words, for motion that is none, or has fewer than ``fewest`` frames, with ``why`` these are too few."""
    count = who.skeleton.count
    if rot.ndim != 3 or rot.shape[1:] != (count, 3) or root.shape != (len(rot), 3):
        raise ValueError(
            f"motion: expected (F, {count}, 3) rotations and (F, 3) places, got {rot.shape} and {root.shape}"
        )
    if len(rot) < fewest:
        raise ValueError(f"expected an action of {fewest} frames or more, got {len(rot)}: {why}")
    if not (np.isfinite(rot).all() and np.isfinite(root).all()):
        raise ValueError("motion: expected finite numbers, got NaN or infinity")
    if not (np.isfinite(fps) and fps > 0):
        raise ValueError(f"frame rate: expected a positive number of frames a second, got {fps}")
