# SPDX-License-Identifier: GPL-3.0-or-later
"""Two-bone limbs: from the end's position the joint lies on a circle, so only its angle on that circle is learned.

``scene`` is what ``channels.encode_inputs`` keeps of a frame, for L limbs: ``limb.middle`` (..., L, 3) and ``limb.radius``
(..., L) [m] of each circle, ``limb.frame`` (..., L, 3, 3) whose Y axis points from the root to the end, and ``limb.end``
(..., L, 3, 3) the end's orientation where it is an input. All are in the reference bone's space.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..core import quick_rotations as quick
from ..core.rotations import rotation_between
from .layouts import ChannelLayout, TwoBoneLimb, end_rotation
from .vectors import into_frame, length, out_of_frame, smallest_turn


def add_circles(layout: ChannelLayout, scene: dict[str, np.ndarray], ends: np.ndarray) -> None:
    """Put each limb's circle into ``scene``, from the positions of the ends (..., L, 3) [m].

    The frame is the smallest rotation from the rest direction; it is singular only for a limb opposite to its rest.
    """
    root, upper, lower, rest, base = _limb_numbers(layout.limbs)
    to = ends - root
    far = length(to)
    axis = to / np.maximum(far, 1e-12)
    # an end out of reach straightens the limb, one that is too near folds it
    far = np.clip(far, np.abs(upper - lower) + 1e-6, upper + lower)
    along = (upper**2 - lower**2 + far**2) / (2 * far)
    scene["limb.frame"] = quick.matrix_from_quaternion(smallest_turn(rest, axis)) @ base
    scene["limb.middle"] = root + axis * along
    scene["limb.radius"] = np.sqrt(np.maximum(upper**2 - along**2, 0))[..., 0]


def encode_joint(scene: dict[str, np.ndarray], limb: int, position: np.ndarray, rotated: bool) -> np.ndarray:
    """What is learned for a joint at ``position`` (..., 3): its hinge (..., 3) where the end's rotation is an input
    (``rotated``), else its direction on the circle (..., 2), both [m]."""
    frame = scene["limb.frame"][..., limb, :, :]
    off = position - scene["limb.middle"][..., limb, :]
    if rotated:
        return into_frame(scene["limb.end"][..., limb, :, :], quick.cross(frame[..., :, 1], off))
    return into_frame(frame, off)[..., [0, 2]]


def decode_joint(scene: dict[str, np.ndarray], limb: int, value: np.ndarray, rotated: bool) -> np.ndarray:
    """Position (..., 3) of a joint, always on its circle, from a guess of what ``encode_joint`` returns."""
    frame = scene["limb.frame"][..., limb, :, :]
    if rotated:
        hinge = out_of_frame(scene["limb.end"][..., limb, :, :], value)
        value = into_frame(frame, quick.cross(hinge, frame[..., :, 1]))[..., [0, 2]]
    size = np.linalg.norm(value, axis=-1, keepdims=True)
    value = np.where(size > 1e-9, value / np.maximum(size, 1e-30), np.array([0.0, 1.0]))
    offset = out_of_frame(frame[..., [0, 2]], value) * scene["limb.radius"][..., limb : limb + 1]
    out: np.ndarray = scene["limb.middle"][..., limb, :] + offset
    return out


@lru_cache(maxsize=64)
def limb_indices(layout: ChannelLayout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices among the inputs without the reference: the limbs' ends among positions (L); the ends' rotations among
    rotations (K), and the limbs they belong to (K)."""
    index = layout.input_index
    positions, rotations = index.names[0][1:], index.names[1][1:]
    ends = np.array([positions.index(limb.end) for limb in layout.limbs], int)
    names = [end_rotation(limb) for limb in layout.limbs]
    pairs = [(rotations.index(name), i) for i, name in enumerate(names) if name in rotations]
    return ends, np.array([a for a, _ in pairs], int), np.array([b for _, b in pairs], int)


@lru_cache(maxsize=64)
def _limb_numbers(
    limbs: tuple[TwoBoneLimb, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Roots (L, 3), lengths (L, 1) and (L, 1) [m], unit rest directions (L, 3), rotations from Y to them (L, 3, 3)."""
    rest = np.array([limb.rest for limb in limbs])
    rest = rest / np.linalg.norm(rest, axis=-1, keepdims=True)
    base = rotation_between(np.array([0.0, 1.0, 0.0]), rest)
    upper, lower = (np.array([getattr(limb, k) for limb in limbs])[:, None] for k in ("upper", "lower"))
    return np.array([limb.root for limb in limbs]), upper, lower, rest, base
