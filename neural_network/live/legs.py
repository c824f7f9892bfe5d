# SPDX-License-Identifier: GPL-3.0-or-later
"""A skeleton's own legs as the layout ``legs`` knows them: poses into rows to learn from, answers back into poses.

All in core axes (left +X, facing -Y, up +Z) with rotations since the T-pose, as ``body.shown`` gives them, so that
neither rolls nor rest poses nor facings of a rig can be seen in a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.rotations import matrix_from_quaternion, quaternion_conjugate, quaternion_multiply
from ..core.skeleton import Skeleton
from .body import shown
from .channels import LEG_BONES, SIDES
from .replay import Motion

AXES = ("-X", "+Z", "-Y")
"""Core axes in the words of a handshake: right, up and forward of the character."""


def leg_bones(skeleton: Skeleton) -> tuple[int, ...]:
    """The bones of the layout: left thigh, calf, foot, right thigh, calf, foot. Raises ValueError for a rig without two legs."""
    if len(skeleton.feet) != 2:
        raise ValueError(f"legs: expected a skeleton with two feet, got {len(skeleton.feet)}")
    sides = sorted(range(2), key=lambda i: -float(skeleton.rest_core[skeleton.feet[i], 0, 3]))  # left is +X
    return tuple(bone for i in sides for bone in skeleton.legs[i])


def handshake(name: str, skeleton: Skeleton) -> dict[str, Any]:
    """What a client would say to teach this rig's legs; its fingerprint names the weights, whoever taught them."""
    bones = [skeleton.names[0], *(skeleton.names[b] for b in leg_bones(skeleton))]
    return {"rig": name[:63], "bones": [bone[:63] for bone in bones], "axes": list(AXES), "layout": "legs"}


def placed(skeleton: Skeleton, rotations: np.ndarray, root_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heads (..., J, 3) [m] and orientations (..., J, 4) in the world, of rotations (..., J, 4) relative to the parents."""
    turn, place = np.array(rotations, np.float64), np.empty((*rotations.shape[:-1], 3))
    for j, p in enumerate(skeleton.parents.tolist()):
        if p < 0:
            place[..., j, :] = root_pos
            continue
        turn[..., j, :] = quaternion_multiply(turn[..., p, :], turn[..., j, :])
        place[..., j, :] = place[..., p, :] + _turned(turn[..., p, :], skeleton.offsets[j])
    return place, turn


def motion_of(name: str, skeleton: Skeleton, rot_local: np.ndarray, root_pos: np.ndarray, fps: float) -> Motion:
    """A clip of poses (F, J, 3) [rad] with root heads (F, 3) [m, armature] as ``replay.task_rows`` takes it."""
    root, turns = shown(skeleton, rot_local, root_pos)
    place, turn = placed(skeleton, turns, root)
    found = dict(zip(("Pelvis", *_NAMES), (0, *leg_bones(skeleton)), strict=True))
    rest = skeleton.rest_core[:, :3, 3] - skeleton.rest_core[0, :3, 3]
    return Motion(
        name,
        {bone: place[:, j] for bone, j in found.items()},
        {bone: turn[:, j] for bone, j in found.items()},
        {bone: rest[j] for bone, j in found.items()},
        (0.0, 0.0, 1.0),
        float(fps),
    )


def leg_turns(skeleton: Skeleton, turn: np.ndarray) -> np.ndarray:
    """(6, 4) rotations of the leg bones relative to pelvis, thigh, calf, of a pose's orientations (J, 4) in the world."""
    bones = leg_bones(skeleton)
    above = [0, bones[0], bones[1], 0, bones[3], bones[4]]
    out: np.ndarray = quaternion_multiply(quaternion_conjugate(turn[above]), turn[list(bones)])
    return out


def leg_row(
    skeleton: Skeleton,
    place: np.ndarray,
    turn: np.ndarray,
    previous: np.ndarray,
    targets: np.ndarray,
    normals: np.ndarray,
    hits: np.ndarray,
) -> np.ndarray:
    """The 63 inputs of a pose: heads (J, 3) and orientations (J, 4) in the world, the legs one frame ago (6, 4), and per
    foot the target of its head (2, 3), the normal under its sole (2, 3) and whether there is ground (2)."""
    bones = leg_bones(skeleton)
    above = [0, bones[0], bones[1], 0, bones[3], bones[4]]
    offsets = _turned(quaternion_conjugate(turn[above]), place[list(bones)] - place[above])
    legs = np.concatenate([offsets, previous], axis=1).ravel()
    feet = np.concatenate([targets, normals, np.asarray(hits, np.float64)[:, None]], axis=1).ravel()
    return np.concatenate([place[0], turn[0], legs, feet])


def with_legs(skeleton: Skeleton, rotations: np.ndarray, turn: np.ndarray, legs: np.ndarray) -> np.ndarray:
    """``rotations`` (J, 4) relative to the parents with the legs as answered (6, 4); ``turn`` (J, 4) as ``placed`` gave it."""
    out = np.array(rotations, np.float64)
    above = frame = turn[0]
    for at, bone in enumerate(leg_bones(skeleton)):
        if at % 3 == 0:  # a thigh need not hang on the root itself
            above, frame = turn[0], turn[int(skeleton.parents[bone])]
        world = quaternion_multiply(above, legs[at])
        out[bone] = quaternion_multiply(quaternion_conjugate(frame), world)
        above = frame = world
    return out


_NAMES = tuple(side + bone for side in SIDES for bone in LEG_BONES)


def _turned(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    out: np.ndarray = (matrix_from_quaternion(quaternion) @ np.asarray(vector)[..., None])[..., 0]
    return out
