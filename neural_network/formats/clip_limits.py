# SPDX-License-Identifier: GPL-3.0-or-later
"""What all readers share: limits that keep damaged files from filling the memory, and filling in of missing rotations."""

from __future__ import annotations

import numpy as np

MAX_JOINTS = 5_000  # five times the largest face rig
MAX_VALUE = 1e9  # a larger value in a file is damage, in any unit
MAX_CLIP_SIZE = 8  # times the size of the file
MIN_CLIP_SIZE = 1 << 18  # [bytes] allowed for any file


def max_joints(frames: int, size: int, moving: int = 0) -> int:
    """How many joints a clip read from ``size`` bytes may have, if ``moving`` of them have positions as well as rotations."""
    return (max(MAX_CLIP_SIZE * size, MIN_CLIP_SIZE) - 24 * frames * moving) // (32 * max(frames, 1))


def interpolate_rotations(quaternions: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Quaternions (F, 4) of one joint with those at ``missing`` (F) interpolated from the frames around them.

    Before the first and after the last known frame that frame is repeated; without any the joint does not rotate.
    """
    known, gaps = np.flatnonzero(~missing), np.flatnonzero(missing)
    if not len(known):
        return np.broadcast_to(np.array([1.0, 0, 0, 0]), quaternions.shape)
    filled = np.array(quaternions)
    after = np.searchsorted(known, gaps)
    before, after = known[np.maximum(after - 1, 0)], known[np.minimum(after, len(known) - 1)]
    share = np.clip((gaps - before) / np.maximum(after - before, 1), 0, 1)[:, None]
    a, b = quaternions[before], quaternions[after]
    blended = (1 - share) * a + share * np.where(np.sum(a * b, axis=1, keepdims=True) < 0, -b, b)
    filled[gaps] = blended / np.maximum(np.linalg.norm(blended, axis=1, keepdims=True), 1e-12)
    return filled
