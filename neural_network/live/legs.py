# SPDX-License-Identifier: GPL-3.0-or-later
"""A skeleton's own legs in the legs layout: poses to rows to learn from, and answers back to poses.

Everything is in core axes (left +X, facing -Y, up +Z) with rotations relative to the T-pose, as ``body.wire_pose`` returns
them, so rows do not depend on a rig's rolls, rest pose or facing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import forward_kinematics
from ..core import quick_rotations as quick
from ..core.skeleton import Skeleton
from .body import wire_pose
from .layouts import LEG_BONES, SIDES
from .tasks import LegMotion

AXES = ("-X", "+Z", "-Y")
"""Core axes as a handshake names them: right, up and forward of the character."""
_NAMES = tuple(side + bone for side in SIDES for bone in LEG_BONES)


def leg_bones(skeleton: Skeleton) -> tuple[int, ...]:
    """The layout's bones: left thigh, calf, foot, right thigh, calf, foot. Raises ValueError for a rig without two legs."""
    if len(skeleton.feet) != 2:
        raise ValueError(f"legs: expected a skeleton with two feet, got {len(skeleton.feet)}")
    sides = sorted(range(2), key=lambda i: -float(skeleton.rest_core[skeleton.feet[i], 0, 3]))  # left is +X
    return tuple(bone for i in sides for bone in skeleton.legs[i])


def handshake(name: str, skeleton: Skeleton) -> dict[str, Any]:
    """The handshake with which a client would teach this rig's legs; its fingerprint names the weights."""
    bones = [skeleton.names[0], *(skeleton.names[b] for b in leg_bones(skeleton))]
    return {"rig": name[:63], "bones": [bone[:63] for bone in bones], "axes": list(AXES), "layout": "legs"}


def skeleton_pose(skeleton: Skeleton, rotations: np.ndarray, root_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heads (..., J, 3) [m] and orientations (..., J, 4) in the world, of rotations (..., J, 4) relative to the parents."""
    turned, heads = forward_kinematics.walk_quaternions(skeleton.parents, rotations, skeleton.offsets, root_pos)
    return heads, turned


def leg_motion(name: str, skeleton: Skeleton, rot_local: np.ndarray, root_pos: np.ndarray, fps: float) -> LegMotion:
    """A clip of poses (F, J, 3) [rad] with root heads (F, 3) [m, armature] as ``tasks.task_rows`` takes it."""
    root, turns = wire_pose(skeleton, rot_local, root_pos)
    heads, turned = skeleton_pose(skeleton, turns, root)
    found = dict(zip(("Pelvis", *_NAMES), (0, *leg_bones(skeleton)), strict=True))
    rest = skeleton.rest_core[:, :3, 3] - skeleton.rest_core[0, :3, 3]
    return LegMotion(
        name,
        {bone: heads[:, j] for bone, j in found.items()},
        {bone: turned[:, j] for bone, j in found.items()},
        {bone: rest[j] for bone, j in found.items()},
        (0.0, 0.0, 1.0),
        float(fps),
    )


def leg_turns(skeleton: Skeleton, turned: np.ndarray) -> np.ndarray:
    """(6, 4) leg rotations relative to pelvis, thigh and calf, from a pose's orientations (J, 4) in the world."""
    bones, above = _chains(skeleton)
    return quick.quaternion_multiply(turned[above] * quick.CONJUGATE, turned[bones])


def leg_row(
    skeleton: Skeleton,
    heads: np.ndarray,
    turned: np.ndarray,
    previous: np.ndarray,
    targets: np.ndarray,
    normals: np.ndarray,
    hits: np.ndarray,
) -> np.ndarray:
    """The 63 wire inputs of a pose.

    ``heads`` (J, 3) [m] and ``turned`` (J, 4) in the world, ``previous`` (6, 4) the legs one frame ago, and for each foot
    ``targets`` (2, 3) of its head [m], ``normals`` (2, 3) under its sole, and ``hits`` (2), 1 where there is ground.
    """
    bones, above = _chains(skeleton)
    offsets = quick.quaternion_rotate(turned[above] * quick.CONJUGATE, heads[bones] - heads[above])
    legs = np.concatenate([offsets, previous], axis=1).ravel()
    feet = np.concatenate([targets, normals, np.asarray(hits, np.float64)[:, None]], axis=1).ravel()
    return np.concatenate([heads[0], turned[0], legs, feet])


def with_legs(skeleton: Skeleton, rotations: np.ndarray, turned: np.ndarray, legs: np.ndarray) -> np.ndarray:
    """``rotations`` (J, 4) relative to the parents with the legs replaced by an answer (6, 4).

    ``turned`` (J, 4): the orientations of ``rotations`` in the world, from ``skeleton_pose``.
    """
    out = np.array(rotations, np.float64)
    above = frame = turned[0]
    for at, bone in enumerate(leg_bones(skeleton)):
        if at % 3 == 0:  # a thigh's parent need not be the root itself
            above, frame = turned[0], turned[int(skeleton.parents[bone])]
        world = quick.quaternion_multiply(above, legs[at])
        out[bone] = quick.quaternion_multiply(frame * quick.CONJUGATE, world)
        above = frame = world
    return out


def _chains(skeleton: Skeleton) -> tuple[list[int], list[int]]:
    """The six leg bones, and for each the bone that its row is relative to."""
    bones = list(leg_bones(skeleton))
    return bones, [0, bones[0], bones[1], 0, bones[3], bones[4]]
