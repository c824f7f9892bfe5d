# SPDX-License-Identifier: GPL-3.0-or-later
"""Moving bodies as numbers: motion seen from one of its frames, mirrored, at other rates, and as rows for networks.

A motion is ``turns`` (..., F, J, 3, 3), local core rotations with the root's first, and ``root`` (..., F, 3) [m], the Hips' head,
of a body with the reference rig's bones (:mod:`..rigs.on_body` gives any character one). Core axes: +X the character's left,
-Y where it faces at heading 0, +Z up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton, mirrored_bones

LEVEL = 0.2  # length of the left axis along the ground below which a heading means little, as in the IK network's root frame


SLOWEST = 1.0  # [1/s] frames farther apart are poses, and no motion


def require_rate(fps: float) -> None:
    """Raise ValueError, in words, for a frame rate [1/s] at which nothing is known of how a body moves."""
    if not (np.isfinite(fps) and fps >= SLOWEST):
        raise ValueError(f"frame rate: expected {SLOWEST:g} frame a second or more, got {fps:g}")


@dataclass(frozen=True)
class Place:
    """Where a body stands and looks."""

    point: np.ndarray
    """(..., 2) [m] of the Hips' head on the ground."""
    heading: np.ndarray
    """(...) [rad] about +Z, 0 along -Y."""


def headings(hips: np.ndarray) -> np.ndarray:
    """(F) [rad], continuous, where a body with Hips rotations (F, 3, 3) looks: along the projection of its left axis.

    Where that is shorter than 0.2 (a body on its side), the heading is interpolated between the frames around.
    """
    left = hips[:, :2, 0]
    clear = np.hypot(left[:, 0], left[:, 1]) >= LEVEL
    angle = np.arctan2(left[:, 1], left[:, 0])
    if not clear.any():
        return angle
    rows = np.flatnonzero(clear)
    return np.interp(np.arange(len(hips)), rows, np.unwrap(angle[rows]))


def yaw(angle: np.ndarray) -> np.ndarray:
    """Rotations (..., 3, 3) about +Z by ``angle`` (...) [rad]."""
    angle = np.asarray(angle)
    out = np.zeros((*angle.shape, 3, 3), np.result_type(angle, np.float32))
    out[..., 0, 0] = out[..., 1, 1] = np.cos(angle)
    out[..., 1, 0] = np.sin(angle)
    out[..., 0, 1] = -out[..., 1, 0]
    out[..., 2, 2] = 1
    return out


def place_at(turns: np.ndarray, root: np.ndarray, frame: int) -> Place:
    """The place of the body (F frames) at one of its frames."""
    return Place(root[frame, :2].copy(), np.asarray(headings(turns[:, 0])[frame]))


def seen_from(place: Place, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The motion moved and turned so that ``place`` is at the origin with heading 0; heights stay."""
    back = yaw(-place.heading)
    out_turns, out_root = turns.copy(), root.copy()
    out_root[..., :2] -= place.point[..., None, :]
    out_root = np.einsum("...ab,...fb->...fa", back, out_root)
    out_turns[..., 0, :, :] = back[..., None, :, :] @ turns[..., 0, :, :]
    return out_turns, out_root


def put_at(place: Place, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of :func:`seen_from`."""
    there = yaw(place.heading)
    out_turns, out_root = turns.copy(), np.einsum("...ab,...fb->...fa", there, root)
    out_root[..., :2] += place.point[..., None, :]
    out_turns[..., 0, :, :] = there[..., None, :, :] @ turns[..., 0, :, :]
    return out_turns, out_root


def mirrored(skeleton: Skeleton, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The motion with left and right exchanged."""
    flip = np.array([-1.0, 1, 1])
    partner = mirrored_bones(skeleton)
    return turns[..., partner, :, :] * np.outer(flip, flip).astype(turns.dtype), root * flip.astype(root.dtype)


def mirrored_rows(skeleton: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    """Order (R) and signs (R): ``rows[..., order] * signs`` are :func:`to_rows` of the motion with left and right exchanged."""
    partner = mirrored_bones(skeleton)
    order = 3 + 6 * partner[:, None] + np.arange(6)
    signs = np.tile([1.0, -1, -1, -1, 1, 1], skeleton.count)
    return np.concatenate([np.arange(3), order.ravel()]), np.concatenate([[-1.0, 1, 1], signs])


def resampled(turns: np.ndarray, root: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The motion (F frames) at ``times`` (N) [frames, fractions allowed]; beyond its ends it stands still.

    Rotations go the shortest way between two frames, the root straight.
    """
    times = np.clip(times, 0, len(root) - 1)
    low = np.minimum(times.astype(int), max(len(root) - 2, 0))
    high = np.minimum(low + 1, len(root) - 1)
    share = times - low
    step = rotations.axis_angle_from_matrix(np.swapaxes(turns[low], -1, -2) @ turns[high])
    part = rotations.matrix_from_axis_angle(step * share[:, None, None])
    return turns[low] @ part, root[low] + share[:, None] * (root[high] - root[low])


def between_keys(
    turns: np.ndarray, root: np.ndarray, keys: Sequence[int] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The motion with the frames between each two neighbouring ``keys`` (sorted) replaced by spherical interpolation (slerp)
    of the turns and a straight way of the root."""
    out_turns, out_root = turns.copy(), root.copy()
    for a, b in pairwise(keys):
        times = np.arange(1, b - a) / (b - a)
        pair = resampled(turns[[a, b]], root[[a, b]], times)
        out_turns[a + 1 : b], out_root[a + 1 : b] = pair
    return out_turns, out_root


def to_rows(turns: np.ndarray, root: np.ndarray, leg_length: float) -> np.ndarray:
    """(..., F, 3 + 6 J) numbers of a motion: the root in leg lengths, then each bone's turn as 6D (Zhou et al. 2019)."""
    six = rotations.sixd_from_matrix(turns)
    return np.concatenate([root / leg_length, six.reshape(*six.shape[:-2], -1)], axis=-1)


def from_rows(rows: np.ndarray, leg_length: float) -> tuple[np.ndarray, np.ndarray]:
    """Turns (..., F, J, 3, 3) and root (..., F, 3) [m] of what :func:`to_rows` gives, or of what a network made of it."""
    six = rows[..., 3:].reshape(*rows.shape[:-1], -1, 6)
    return rotations.matrix_from_sixd(six), rows[..., :3] * leg_length
