# SPDX-License-Identifier: GPL-3.0-or-later
"""Knees and elbows of one pose, and the same pose with them bent a little, at which a drag takes its slopes.

Core axes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core import quick_rotations as quick
from ..core.skeleton import Skeleton
from .body_shape import BodyShape

FLEXED = 0.2  # [rad] least flexion at which slopes are taken


class Hinges(NamedTuple):
    """Knees and elbows (H); see :class:`.body_shape.Hinge`."""

    upper: list[int]
    lower: list[int]
    end: list[int]
    is_leg: list[bool]
    axis: np.ndarray  # (H, 3)
    along: np.ndarray  # (H, 3)
    across: np.ndarray  # (H, 3) where the lower bone goes as the joint flexes
    length: np.ndarray  # (H) [leg lengths] from the upper bone's head to the end, the joint straight


def make_hinges(skeleton: Skeleton, shape: BodyShape) -> Hinges:
    """The knees and elbows of a rig that has ``shape``."""
    found, rest = shape.hinges, skeleton.rest_core[:, :3, 3] / skeleton.leg_length
    axis = np.array([hinge.axis for hinge in found]).reshape(-1, 3)
    along = np.array([hinge.along for hinge in found]).reshape(-1, 3)
    lengths = [
        float(np.linalg.norm(rest[h.lower] - rest[h.upper]) + np.linalg.norm(rest[h.end] - rest[h.lower]))
        for h in found
    ]
    return Hinges(
        [hinge.upper for hinge in found],
        [hinge.lower for hinge in found],
        [hinge.end for hinge in found],
        [hinge.is_leg for hinge in found],
        axis,
        along,
        np.cross(axis, along),
        np.array(lengths),
    )


def bend(hinges: Hinges, turns: np.ndarray, which: np.ndarray) -> np.ndarray | None:
    """``turns`` (J, 3, 3), relative to the parent, with hinges ``which`` (H, bool) flexed by at least :data:`FLEXED`; None where
    all are.

    The foot keeps its direction.
    """
    if not len(hinges.lower):
        return None
    now = np.matmul(turns[hinges.lower], hinges.along[:, :, None])[:, :, 0]
    flexed = np.arctan2(np.einsum("hc,hc->h", now, hinges.across), np.einsum("hc,hc->h", now, hinges.along))
    lacking = np.flatnonzero((flexed < FLEXED) & which)
    if not len(lacking):
        return None
    out = turns.copy()
    more = (FLEXED - flexed[lacking])[:, None] * hinges.axis[lacking]
    fold = quick.matrix_from_axis_angle(np.concatenate([more, -0.5 * more]))
    for k, ahead, back in zip(lacking.tolist(), fold[: len(lacking)], fold[len(lacking) :], strict=True):
        lower, upper, end = hinges.lower[k], hinges.upper[k], hinges.end[k]
        out[lower] = turns[lower] @ ahead
        out[upper] = out[upper] @ back
        if hinges.is_leg[k]:
            out[end] = back @ out[end]
    return out
