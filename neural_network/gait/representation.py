# SPDX-License-Identifier: GPL-3.0-or-later
"""The 101 numbers of a pose in a gait, as gait networks are trained on, and the reference rig's pose they stand for.

| numbers | hold |
|---|---|
| 0:6 | pelvis, relative to the heading |
| 6, 7, 8 | forward velocity [m/s / 30], height of the Hips over the floor [m], velocity to the left [m/s / 30] |
| 9:24, 24:39 | right and left leg: femur 6, tibia 1 [rad], talus 6, toes 1 + 1 [rad] |
| 39, 45, 51, 57 | spine, torso, neck, head: 6 each |
| 63:82, 82:101 | right and left arm: shoulder 6, arm 6, forearm 1 [rad], hand 6 |

Six numbers are the first two rows of a rotation matrix, brought back by Gram-Schmidt. Torso and neck are two bones each on the
reference rig, which share their rotation; both toes are its one. Elbows are hinges here: the upper arm is turned about itself
until its hinge fits, so that elbows and hands stay where they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton

SIZE = 101
ROWS = 60
"""Of a motion file: two cycles of 30 samples."""
CYCLE = 30
"""Samples of one cycle."""
CONTROL_RATE = 30.0
"""[1/s] velocities are for this long."""
ROOT = slice(6, 9)
ARMS = slice(57, 101)
"""Head and arms, which count less in the loss."""
_SIXES = {
    "Hips": 0,
    "RightThigh": 9,
    "RightFoot": 16,
    "LeftThigh": 24,
    "LeftFoot": 31,
    "Spine": 39,
    "torso": 45,
    "neck": 51,
    "Head": 57,
    "RightShoulder": 63,
    "RightArm": 69,
    "RightHand": 76,
    "LeftShoulder": 82,
    "LeftArm": 88,
    "LeftHand": 95,
}
_ONES = {"RightShin": 15, "LeftShin": 30, "RightForeArm": 75, "LeftForeArm": 94}
_TOES = {"RightToeBase": (22, 23), "LeftToeBase": (37, 38)}
_PAIRS = {"torso": ("Spine1", "Spine2"), "neck": ("NeckLower", "NeckUpper")}
RIGHT_LEG, LEFT_LEG = tuple(range(9, 24)), tuple(range(24, 39))
LEGS = RIGHT_LEG + LEFT_LEG
"""The numbers of both legs."""
STRAIGHT = 0.1
"""Sine of an elbow's flexion below which the arm's own direction of the hinge counts beside the plane of its bones."""
DAMPING = 0.01
SIXES = tuple(_SIXES.values())
"""Where the rotations of six numbers begin."""


class Pose(NamedTuple):
    """Poses without their way."""

    turns: np.ndarray
    """(N, J, 3, 3) local core rotations; those of the Hips relative to the heading."""
    velocity: np.ndarray
    """(N, 2) of the Hips, forward and to the left [m/s]."""
    height: np.ndarray
    """(N) of the Hips' head over the floor [m]."""


def require_rig(rig: Skeleton) -> dict[str, int]:
    """Index of each bone by name; ValueError unless the bones are those of the reference rig."""
    index = {name: j for j, name in enumerate(rig.names)}
    needed = (set(_SIXES) - set(_PAIRS)) | set(_ONES) | set(_TOES) | {n for pair in _PAIRS.values() for n in pair}
    missing = sorted(needed - set(index))
    if missing:
        raise ValueError(
            f"gait: expected the bones of the reference rig, missing {', '.join(missing[:6])}; assign roles"
        )
    return index


def encode(rig: Skeleton, pose: Pose) -> np.ndarray:
    """The 101 numbers (N, 101) of poses."""
    index, turns = require_rig(rig), pose.turns
    out = np.zeros((len(turns), SIZE))
    out[:, 6] = pose.velocity[:, 0] / CONTROL_RATE
    out[:, 7] = pose.height
    out[:, 8] = pose.velocity[:, 1] / CONTROL_RATE
    joints = {name: turns[:, j] for name, j in index.items()}
    for name, (first, second) in _PAIRS.items():
        joints[name] = joints[first] @ joints[second]
    for side in ("Left", "Right"):
        names = (f"{side}Arm", f"{side}ForeArm", f"{side}Hand")
        arm, flexion, hand = hinged(rig, index, side, *(joints[name] for name in names))
        joints[names[0]], joints[names[2]] = arm, hand
        out[:, _ONES[names[1]]] = flexion
    for name, at in _SIXES.items():
        out[:, at : at + 6] = joints[name][:, :2].reshape(-1, 6)
    for side in ("Left", "Right"):
        out[:, _ONES[f"{side}Shin"]] = _about(joints[f"{side}Shin"], 0)
        out[:, _TOES[f"{side}ToeBase"]] = _about(joints[f"{side}ToeBase"], 0)[:, None]
    return out


def decode(rig: Skeleton, numbers: np.ndarray) -> Pose:
    """The poses of 101 numbers (N, 101); degenerate rotations count as none."""
    index = require_rig(rig)
    numbers = np.asarray(numbers, np.float64)
    turns = np.broadcast_to(np.eye(3), (len(numbers), rig.count, 3, 3)).copy()
    columns = np.array(SIXES)[:, None] + np.arange(6)
    matrices = rows_to_matrix(numbers[:, columns])  # (N, 15, 3, 3)
    order = list(_SIXES)
    single = [name for name in order if name not in _PAIRS]
    turns[:, [index[name] for name in single]] = matrices[:, [order.index(name) for name in single]]
    pairs = matrices[:, [order.index(name) for name in _PAIRS]]
    half = rotations.matrix_from_axis_angle(0.5 * rotations.axis_angle_from_matrix(pairs))
    for bones, turned in zip(_PAIRS.values(), np.moveaxis(half, 1, 0), strict=True):
        turns[:, [index[bone] for bone in bones]] = turned[:, None]
    bends = {name: numbers[:, at] for name, at in _ONES.items()}
    bends["LeftForeArm"] = -bends["LeftForeArm"]
    for name, pair in _TOES.items():
        bends[name] = numbers[:, list(pair)].mean(axis=1)
    axes = np.array([np.eye(3)[2 if name.endswith("ForeArm") else 0] for name in bends])
    bent = rotations.matrix_from_axis_angle(np.stack(list(bends.values()), axis=1)[..., None] * axes)
    turns[:, [index[name] for name in bends]] = bent
    return Pose(turns, numbers[:, [6, 8]] * CONTROL_RATE, numbers[:, 7])


def mirrored(numbers: np.ndarray) -> np.ndarray:
    """The numbers (..., 101) of poses seen in a mirror."""
    out = np.array(numbers)
    signs = np.array([1.0, -1, -1, -1, 1, 1])
    for at in SIXES:
        out[..., at : at + 6] *= signs
    out[..., 8] *= -1
    for left, right in (((24, 39), (9, 24)), ((82, 101), (63, 82))):
        a, b = out[..., slice(*left)].copy(), out[..., slice(*right)].copy()
        out[..., slice(*left)], out[..., slice(*right)] = b, a
    return out


def rows_to_matrix(six: np.ndarray) -> np.ndarray:
    """Rotations (..., 3, 3) of their first two rows (..., 6), by Gram-Schmidt; the identity where these say nothing."""
    first, second = six[..., :3], six[..., 3:]
    size = np.linalg.norm(first, axis=-1, keepdims=True)
    first = np.where(size > 1e-6, first / np.maximum(size, 1e-12), [1.0, 0, 0])
    third = np.cross(first, second)
    area = np.linalg.norm(third, axis=-1, keepdims=True)
    sound = (area > 1e-6) & (size > 1e-6)
    third = np.where(sound, third / np.maximum(area, 1e-12), [0.0, 0, 1])
    first = np.where(sound, first, [1.0, 0, 0])
    return np.stack([first, np.cross(third, first), third], axis=-2)


def hinged(
    rig: Skeleton, index: dict[str, int], side: str, arm: np.ndarray, forearm: np.ndarray, hand: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arm with an elbow that is a hinge: rotations of the upper arm (N, 3, 3), flexion (N) [rad], those of the hand.

    The directions of both bones and the rotation of the hand stay. Where the arm is nearly straight the hinge stays where it was.
    """
    sign = 1.0 if side == "Left" else -1.0
    first, second = (_unit(rig.offsets[index[f"{side}{part}"]]) for part in ("ForeArm", "Hand"))
    upper = arm @ first
    lower = arm @ forearm @ second
    across = -sign * np.cross(upper, lower)
    bent = np.sum(across**2, axis=1, keepdims=True)
    # the hinge's axis stands on both bones as the T-pose's vertical does on them at rest
    cosine = np.sum(upper * lower, axis=1, keepdims=True)
    size = (1 + DAMPING) ** 2 - cosine**2
    a = ((1 + DAMPING) * first[2] - cosine * second[2]) / size
    b = ((1 + DAMPING) * second[2] - cosine * first[2]) / size
    hinge = across + np.sqrt(bent) * (a * upper + b * lower)
    normal = hinge + STRAIGHT**2 / (bent + STRAIGHT**2) * 0.3 * arm[:, :, 2]
    normal = _unit(normal - np.sum(normal * upper, axis=1, keepdims=True) * upper)
    rest = _unit(np.array([0.0, 0, 1]) - first[2] * first)
    new = _frame(upper, normal) @ _frame(first, rest).T
    wanted = np.einsum("nba,nb->na", new, lower)
    bend = np.arctan2(wanted[:, 1], wanted[:, 0]) - np.arctan2(second[1], second[0])
    bend = -sign * ((bend + np.pi) % (2 * np.pi) - np.pi)
    world = arm @ forearm @ hand
    return new, bend, np.swapaxes(new @ _turn(-sign * bend, 2), -1, -2) @ world


def _frame(along: np.ndarray, normal: np.ndarray) -> np.ndarray:
    return np.stack([along, np.cross(normal, along), normal], axis=-1)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.maximum(np.linalg.norm(vector, axis=-1, keepdims=True), 1e-12)


def _about(turns: np.ndarray, axis: int) -> np.ndarray:
    """Twist (N) [rad] of rotations (N, 3, 3) about a core axis."""
    return rotations.twist_about(rotations.axis_angle_from_matrix(turns), np.eye(3)[axis])


def _turn(angle: np.ndarray, axis: int) -> np.ndarray:
    """Rotations (N, 3, 3) about a core axis."""
    return rotations.matrix_from_axis_angle(angle[:, None] * np.eye(3)[axis])
