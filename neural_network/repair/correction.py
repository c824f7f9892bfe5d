# SPDX-License-Identifier: GPL-3.0-or-later
"""Corrections: what leads from one motion to another of the same length, as numbers for each frame.

Each bone's turn after its own (axis-angle, J x 3), the change of the root's velocity along the level axes of the frame's heading
(2) [m/s] and of its height (1) [m]. Where the root goes is the sum of its velocity, about the middle of the way it went.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..motion import features

RATE = 30.0
"""Frames a second that networks see."""


@dataclass(frozen=True)
class Correction:
    """What leads from one motion to another."""

    turns: np.ndarray
    """(F, J, 3) [rad] by how much each bone turns after its own turn, in its own axes."""
    velocity: np.ndarray
    """(F, 2) [m/s] of the root, in level axes turned to the heading of the input; of the way to the next frame."""
    height: np.ndarray
    """(F) [m] of the root."""


def between(
    turns: np.ndarray, root: np.ndarray, to_turns: np.ndarray, to_root: np.ndarray, fps: float = RATE
) -> Correction:
    """What leads from motion ``turns`` (F, J, 3, 3) and ``root`` (F, 3) [m] to the other."""
    by = rotations.axis_angle_from_matrix(np.swapaxes(turns, -1, -2) @ to_turns)
    level = features.yaw(features.headings(turns[:, 0]))[:, :2, :2]
    return Correction(by, velocity_of(level, to_root - root, fps), (to_root - root)[:, 2])


def velocity_of(level: np.ndarray, move: np.ndarray, fps: float = RATE) -> np.ndarray:
    """(F, 2) [m/s] at which moves (F, 3) [m] change, in level axes (F, 2, 2)."""
    velocity = np.zeros_like(move[:, :2])
    velocity[:-1] = np.diff(move[:, :2], axis=0) * fps
    return np.asarray(np.einsum("fba,fb->fa", level, velocity))


def moves(velocity: np.ndarray, fps: float = RATE) -> np.ndarray:
    """(F, 2) [m] along the level axes that velocities (F, 2) [m/s] add up to, 0 on average."""
    way = np.concatenate([np.zeros((1, 2)), np.cumsum(velocity[:-1], axis=0)]) / fps
    return np.asarray(way - way.mean(axis=0))


def level_velocity(turns: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """(F, 2) [m/s] in core axes of velocities (F, 2) in the heading of motion ``turns``."""
    return np.einsum("fab,fb->fa", features.yaw(features.headings(turns[:, 0]))[:, :2, :2], velocity)


def applied(
    correction: Correction, turns: np.ndarray, root: np.ndarray, fps: float = RATE
) -> tuple[np.ndarray, np.ndarray]:
    """The motion with the correction; of the way along the level axes what :func:`moves` says."""
    out = root.copy()
    out[:, :2] += moves(level_velocity(turns, correction.velocity), fps)
    out[:, 2] += correction.height
    return turns @ rotations.matrix_from_axis_angle(correction.turns), out


def numbers_of(correction: Correction) -> np.ndarray:
    """(F, 3 J + 3) of a correction: turns [rad], velocity [m/s], height [m]."""
    by = correction.turns.reshape(len(correction.turns), -1)
    return np.concatenate([by, correction.velocity, correction.height[:, None]], axis=1)
