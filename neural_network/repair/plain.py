# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain methods: a Gaussian, least squares for the root, pins. They need no weights, and what is learned must beat them."""

from __future__ import annotations

import numpy as np

from ..core.skeleton import Skeleton
from ..ik import held_feet
from ..ik.foot_pins import Ground, flat_ground
from . import contacts, rooting
from .correction import moves
from .corruption import smoothed

WIDTH = 1.3  # [frames] of the Gaussian


def pinned(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray | None = None,
    ground: Ground = flat_ground,
) -> tuple[np.ndarray, np.ndarray]:
    """The motion with standing feet held, by the rule's contacts where none are given."""
    contact = contacts.by_rule(skeleton, turns, root, fps, ground) if contact is None else contact
    held = held_feet.hold(skeleton, turns, root, contact, fps, ground)
    return held.turns, held.root


def rooted(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray,
    ground: Ground = flat_ground,
) -> np.ndarray:
    """The root (F, 3) without drift, with the speed and on the floor that standing feet ask for."""
    out = root.copy()
    out[:, :2] += moves(rooting.asked(skeleton, turns, root, contact, fps), fps)
    out[:, 2] -= rooting.floor_height(skeleton, turns, out, contact, ground)
    return out


def analytic(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray | None = None,
    ground: Ground = flat_ground,
    pins: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """The motion smoothed by a Gaussian of 1.3 frames, with its root by least squares, and its standing feet held."""
    turns, root = smoothed(turns, root, WIDTH)
    contact = contacts.by_rule(skeleton, turns, root, fps, ground) if contact is None else contact
    root = rooted(skeleton, turns, root, fps, contact, ground)
    return pinned(skeleton, turns, root, fps, contact, ground) if pins else (turns, root)
