# SPDX-License-Identifier: GPL-3.0-or-later
"""The built-in character: 23 bones, T-pose, Z up, facing -Y, its left at +X."""

from __future__ import annotations

import functools

import numpy as np

from .skeleton import Skeleton, make

# name: (parent, rest head [m], tail: the bone it points to, or the tail itself [m]); the right side is mirrored from the left
_BONES: dict[str, tuple[str, tuple[float, float, float], str | tuple[float, float, float]]] = {
    "Hips": ("", (0, -0.046, 1.015), "Spine"),
    "Spine": ("Hips", (0, -0.056, 1.159), "Spine1"),
    "Spine1": ("Spine", (0, -0.077, 1.306), "Spine2"),
    "Spine2": ("Spine1", (0, -0.073, 1.474), "NeckLower"),
    "NeckLower": ("Spine2", (0, -0.047, 1.623), "NeckUpper"),
    "NeckUpper": ("NeckLower", (0, -0.055, 1.661), "Head"),
    "Head": ("NeckUpper", (0, -0.060, 1.702), (0, -0.060, 1.973)),
    "LeftShoulder": ("Spine2", (0.045, -0.047, 1.605), "LeftArm"),
    "LeftArm": ("LeftShoulder", (0.136, -0.047, 1.570), "LeftForeArm"),
    "LeftForeArm": ("LeftArm", (0.414, -0.044, 1.557), "LeftHand"),
    "LeftHand": ("LeftForeArm", (0.700, -0.044, 1.557), (0.772, -0.044, 1.557)),
    "LeftThigh": ("Hips", (0.097, -0.046, 1.018), "LeftShin"),
    "LeftShin": ("LeftThigh", (0.106, -0.054, 0.571), "LeftFoot"),
    "LeftFoot": ("LeftShin", (0.110, 0.026, 0.080), "LeftToeBase"),
    "LeftToeBase": ("LeftFoot", (0.111, -0.125, 0.021), (0.111, -0.196, 0.021)),
}
_ORDER = [
    "Hips",
    "Spine",
    "Spine1",
    "Spine2",
    "NeckLower",
    "NeckUpper",
    "Head",
    "LeftShoulder",
    "LeftArm",
    "LeftForeArm",
    "LeftHand",
    "RightShoulder",
    "RightArm",
    "RightForeArm",
    "RightHand",
    "LeftThigh",
    "LeftShin",
    "LeftFoot",
    "LeftToeBase",
    "RightThigh",
    "RightShin",
    "RightFoot",
    "RightToeBase",
]
EFFECTORS = ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head")
FEET = ("LeftFoot", "RightFoot")

# Degrees: swing about bone X, twist about bone Y, swing about bone Z, each lower and upper, seen from the T-pose; left side.
# Bone Z points forward (up for foot and toe), so X bends forward and back and Z to the sides. Ranges follow the American
# Academy of Orthopaedic Surgeons' "Joint Motion" (1965) as tabulated in Norkin & White, "Measurement of Joint Motion",
# with the shoulder and hip opened by the share that the girdle adds; single spine segments take their part of the
# thoracolumbar and cervical totals (flexion 80 + 60, extension 25 + 75, side bend 35 + 45, rotation 45 + 80).
_LIMITS: dict[str, tuple[float, float, float, float, float, float]] = {
    "Spine": (-20, 40, -20, 20, -20, 20),
    "Spine1": (-20, 40, -25, 25, -20, 20),
    "Spine2": (-20, 35, -25, 25, -20, 20),
    "NeckLower": (-35, 35, -35, 35, -25, 25),
    "NeckUpper": (-35, 35, -35, 35, -25, 25),
    "Head": (-40, 40, -45, 45, -30, 30),
    "LeftShoulder": (-25, 35, -20, 20, -15, 45),
    "LeftArm": (-60, 140, -100, 100, -100, 110),
    "LeftForeArm": (-10, 150, -95, 95, -10, 10),
    "LeftHand": (-30, 35, -30, 30, -80, 80),
    "LeftThigh": (-35, 130, -50, 50, -35, 55),
    "LeftShin": (-150, 10, -15, 15, -8, 8),
    "LeftFoot": (-55, 30, -20, 20, -35, 35),
    "LeftToeBase": (-45, 65, -10, 10, -10, 10),
}


@functools.cache
def reference() -> Skeleton:
    """The reference rig as a :class:`.Skeleton`, with anatomical joint limits; the Hips are free."""
    heads, tails, parents = [], [], []
    for name in _ORDER:
        parent, head, tail = _BONES[_left(name)]
        points = [np.array(head, float), np.array(_BONES[tail][1] if isinstance(tail, str) else tail, float)]
        mirror = np.array([-1.0, 1, 1]) if name.startswith("Right") else np.ones(3)
        heads.append(points[0] * mirror)
        tails.append(points[1] * mirror)
        parents.append(_ORDER.index(_side(name, parent)) if parent else -1)
    rest = np.tile(np.eye(4), (len(_ORDER), 1, 1))
    for j, (head, tail) in enumerate(zip(heads, tails, strict=True)):
        rest[j, :3, :3] = rest_orientation(tail - head)
        rest[j, :3, 3] = head
    limits = np.full((len(_ORDER), 6), np.nan)
    for j, name in enumerate(_ORDER[1:], 1):
        degrees = np.array(_LIMITS[_left(name)], float)
        if name.startswith("Right"):  # mirroring turns twist and sideways swing around
            degrees = degrees[[0, 1, 3, 2, 5, 4]] * [1, 1, -1, -1, -1, -1]
        limits[j] = np.radians(degrees)
    return make(_ORDER, np.array(parents), rest, EFFECTORS, FEET, t_pose=np.zeros((len(_ORDER), 3)), limits=limits)


def rest_orientation(
    direction: np.ndarray, forward: np.ndarray | None = None, up: np.ndarray | None = None
) -> np.ndarray:
    """Rest orientation (3, 3) of a bone along ``direction`` (3) by the one roll convention of this project.

    Bone Y runs along the bone; bone Z points as nearly ``forward`` (-Y) as it can, or ``up`` (+Z) for a bone that itself
    runs within 45 degrees of forward or back (feet, toes). A zero direction is taken as up.
    """
    forward = np.array([0.0, -1, 0]) if forward is None else forward
    up = np.array([0.0, 0, 1]) if up is None else up
    length = np.linalg.norm(direction)
    y = direction / length if length > 1e-12 else up
    aim = up if abs(y @ forward) > np.cos(np.radians(45)) else forward
    z = aim - y * (aim @ y)
    z = z / np.linalg.norm(z)
    return np.stack([np.cross(y, z), y, z], axis=1)


def _left(name: str) -> str:
    return "Left" + name[5:] if name.startswith("Right") else name


def _side(like: str, name: str) -> str:
    return "Right" + name[4:] if like.startswith("Right") and name.startswith("Left") else name
