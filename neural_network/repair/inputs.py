# SPDX-License-Identifier: GPL-3.0-or-later
"""What networks see of motion: each frame in the level axes of its own heading, lengths in leg lengths, 30 frames a second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..core.contacts import foot_heights, foot_points, ground_height
from ..core.skeleton import Skeleton
from ..ik.foot_pins import forward
from ..motion import features
from . import contacts, rooting
from .correction import RATE, velocity_of
from .corruption import gaussian

BONES = 23
WIDTHS = (1.0, 2.5, 6.0)
"""[frames] of the Gaussians that give smoothed motions to choose from."""
PARTS = BONES + 2
"""What is chosen for: each bone's turn, the root's velocity, its height."""
PART = np.r_[np.repeat(np.arange(BONES), 3), BONES, BONES, BONES + 1]
"""Which part each number of a correction belongs to."""
STARTS = np.r_[np.arange(BONES) * 3, 3 * BONES, 3 * BONES + 2]
"""Where each part's numbers begin."""
SIZES = np.r_[np.full(BONES, 0.05), 0.3, 0.02]
"""Changes of the parts by smoothing [rad, m/s, m] that count as one."""
ASKED = 5
"""Numbers of what standing feet ask of the root: two velocities, a height."""
SEEN = 6 * BONES + 3 * (BONES - 1) + 24 + 6 + 5 + len(WIDTHS) * PARTS + ASKED + 3
"""Numbers of a frame."""
PHYSICS = 64
"""Numbers of a frame's physics state."""
MOST = 10.0  # numbers beyond it are taken as it
MASSES = {
    "Hips": 0.14, "Spine": 0.11, "Spine1": 0.11, "Spine2": 0.16, "Head": 0.08, "LeftArm": 0.03, "RightArm": 0.03,
    "LeftForeArm": 0.02, "RightForeArm": 0.02, "LeftThigh": 0.1, "RightThigh": 0.1, "LeftShin": 0.05, "RightShin": 0.05,
}  # fmt: skip
"""Shares of the body's mass at the heads of bones, roughly (after Winter, Biomechanics and Motor Control of Human Movement)."""


@dataclass(frozen=True)
class Seen:
    """Motion as networks see it."""

    numbers: np.ndarray
    """(F, SEEN) float32."""
    physics: np.ndarray
    """(F, PHYSICS) float32, the state that the gate sees beside the network."""
    smooth: np.ndarray
    """(F, widths, 72) float32, what the Gaussians of :data:`WIDTHS` would change, as numbers of corrections."""
    asked: np.ndarray
    """(F, ASKED) float32, what standing feet ask of the root, in level axes: the model's velocity and the rest's, and its height."""
    contact: np.ndarray
    """(F, 2) bool, by the rule."""


def seen(skeleton: Skeleton, turns: np.ndarray, root: np.ndarray) -> Seen:
    """The motion ``turns`` (F, J, 3, 3) and ``root`` (F, 3) [m] of a body with the reference rig's bones, as networks see it."""
    leg = skeleton.leg_length
    turned, heads = forward(skeleton, turns, root)
    points = foot_points(skeleton, turned, heads)
    level = features.yaw(-features.headings(turns[:, 0]))
    own = np.einsum("fab,fjb->fja", level, heads[:, 1:] - heads[:, :1])
    local = turns.copy()
    local[:, 0] = level @ turns[:, 0]
    floor = ground_height(
        foot_heights(heads[:, list(skeleton.feet)], heads[:, list(skeleton.toes)], skeleton.foot_rest)
    )
    flat = points.reshape(len(points), -1, 3)
    speeds = np.einsum("fab,fjb->fja", level, _rate(flat))
    velocity = np.einsum("fab,fb->fa", level, _rate(root))
    contact = contacts.by_rule(skeleton, turns, root, RATE)
    spin = np.einsum("fab,fb->fa", level, _spin(turns[:, 0]))
    smooth, steady = _smoothed(turns, root)
    asks = rooting.standing(skeleton, *steady)
    fit = asks.velocity
    asked = np.empty((len(root), ASKED))
    for k, way in enumerate((fit.model, fit.rest)):
        asked[:, 2 * k : 2 * k + 2] = np.einsum("fab,fb->fa", level[:, :2, :2], way)
    asked[:, 4] = -asks.height
    each = np.add.reduceat(smooth**2, STARTS, axis=-1)
    sizes = np.sqrt(each) / SIZES
    numbers = np.concatenate(
        [
            np.minimum(np.log1p(sizes), 3).reshape(len(root), -1),
            rotations.sixd_from_matrix(local).reshape(len(root), -1),
            own.reshape(len(root), -1) / leg,
            5 * flat[..., 2] / leg,
            speeds.reshape(len(root), -1) / leg,
            5 * (flat[..., 2] - floor) / leg,
            root[:, 2:] / leg,
            velocity / leg,
            spin[:, 2:],
            asked * [2, 2, 2, 2, 10],
            np.tile([5 * fit.factor, 10 * fit.noise, asks.weight.mean()], (len(root), 1)),
        ],
        axis=1,
    )
    physics = _physics(skeleton, turned, heads, root, contact, level, velocity, spin)
    numbers = np.clip(numbers, -MOST, MOST).astype(np.float32)
    return Seen(numbers, physics, smooth.astype(np.float32), asked.astype(np.float32), contact)


def _smoothed(turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """(F, widths, 72) what leads to the motion smoothed by each width, and the turns and the root of the least smoothed."""
    steady = turns, root
    own = rotations.continuous_quaternions(rotations.quaternion_from_matrix(turns))
    back = rotations.quaternion_conjugate(own)
    level = features.yaw(features.headings(turns[:, 0]))[:, :2, :2]
    out = np.empty((len(root), len(WIDTHS), len(PART)))
    for k, width in enumerate(WIDTHS):
        mean = gaussian(own, width)
        mean /= np.maximum(np.linalg.norm(mean, axis=-1, keepdims=True), 1e-12)
        by = rotations.axis_angle_from_quaternion(rotations.quaternion_multiply(back, mean))
        if not k:
            steady = rotations.matrix_from_quaternion(mean), gaussian(root, width)
        move = gaussian(root, width) - root
        out[:, k] = np.concatenate([by.reshape(len(root), -1), velocity_of(level, move), move[:, 2:]], axis=1)
    return out, steady


def _physics(
    skeleton: Skeleton,
    turned: np.ndarray,
    heads: np.ndarray,
    root: np.ndarray,
    contact: np.ndarray,
    level: np.ndarray,
    velocity: np.ndarray,
    spin: np.ndarray,
) -> np.ndarray:
    """(F, 64): gravity, the pelvis' height with its velocity and acceleration, the root's velocities, contacts, the velocity and
    acceleration of the centre of mass, the root's place, and the angular momentum for each unit of mass; zeros fill the rest."""
    at = [skeleton.names.index(name) for name in MASSES]
    share = np.array(list(MASSES.values()))
    share /= share.sum()
    centre = np.einsum("j,fja->fa", share, heads[:, at])
    motion = _rate(heads[:, at] - centre[:, None])
    momentum = np.einsum("j,fja->fa", share, np.cross(heads[:, at] - centre[:, None], motion))
    speed = _rate(centre)
    out = np.zeros((len(root), PHYSICS))
    out[:, 0] = -9.81
    out[:, 1], out[:, 2], out[:, 3] = root[:, 2], velocity[:, 2], _rate(_rate(root))[:, 2]
    out[:, 4:7], out[:, 7:10], out[:, 10:12] = velocity, spin, contact
    for column, values in ((12, speed), (15, _rate(speed)), (21, momentum)):
        out[:, column : column + 3] = np.einsum("fab,fb->fa", level, values)
    out[:, 18:21] = root - root.mean(axis=0) * [1.0, 1, 0]
    return np.clip(out, -MOST, MOST).astype(np.float32)


def _rate(values: np.ndarray) -> np.ndarray:
    """Central differences (F, ...) a second; zeros for a single frame."""
    return np.gradient(values, axis=0) * RATE if len(values) > 1 else np.zeros_like(values)


def _spin(turns: np.ndarray) -> np.ndarray:
    """(F, 3) [rad/s] angular velocity of rotations (F, 3, 3), in the axes they lead to."""
    out = np.zeros((len(turns), 3))
    if len(turns) > 1:
        out[:-1] = rotations.axis_angle_from_matrix(turns[1:] @ np.swapaxes(turns[:-1], -1, -2)) * RATE
        out[-1] = out[-2]
    return out
