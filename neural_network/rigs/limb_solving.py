# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact two-bone IK for one limb in all frames of a motion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.rotations import rotation_between
from .bone_tree import ancestors
from .rig_body import RigBody, descendants
from .t_pose import unit

MAX_REACH = 0.9995  # share of the limb's length that its end may be away; the rest keeps the plane of the hinge defined


def solve_limb(
    body: RigBody, turned: np.ndarray, heads: np.ndarray, bones: Sequence[int], target: np.ndarray, hinge: np.ndarray
) -> None:
    """Bend and swing one limb, in place, so that its end is at ``target``; the end keeps its rotation.

    The angle of the hinge follows from the law of cosines, about the axis that the limb already bends about, on the side
    of ``hinge``; then the limb swings the shortest way to the target.

    Args:
        body: the skeleton.
        turned: (F, J, 3, 3) rotations since rest in world axes; changed.
        heads: (F, J, 3) heads [m], of which only the limb's first is used.
        bones: the limb: upper bone, lower bone, end.
        target: (F, 3) [m].
        hinge: (F, 3) expected axis of the hinge.
    """
    first, second, end = bones
    start = heads[:, first]
    upper = turned[:, first] @ (body.heads[second] - body.heads[first])
    lower = turned[:, second] @ (body.heads[end] - body.heads[second])
    a, b = np.linalg.norm(upper, axis=-1), np.linalg.norm(lower, axis=-1)
    distance = np.clip(np.linalg.norm(target - start, axis=-1), np.abs(a - b) * 1.01 + 1e-6, (a + b) * MAX_REACH)
    axis = np.cross(upper / a[:, None], lower / b[:, None])
    axis = unit(np.where(np.einsum("fa,fa->f", axis, hinge)[:, None] < 0, 0, axis) + 0.05 * hinge)
    axis = unit(axis - np.einsum("fa,fa->f", axis, upper)[:, None] * upper / (a * a)[:, None])
    # the lower bone, perpendicular to the axis, at the angle that gives the distance
    bend = np.arccos(np.clip((distance**2 - a * a - b * b) / (2 * a * b), -1, 1))
    across = np.cross(axis, upper / a[:, None])
    bent_lower = b[:, None] * (np.cos(bend)[:, None] * upper / a[:, None] + np.sin(bend)[:, None] * across)
    bent = rotation_between(lower, bent_lower)
    swing = rotation_between(upper + bent_lower, target - start)
    unchanged = {end, *descendants(body.parents, end)}
    turned_first = swing @ turned[:, first]
    for j in descendants(body.parents, first):
        if j in unchanged:
            continue
        below_hinge = j == second or second in ancestors(body.parents, j)
        turned[:, j] = swing @ (bent if below_hinge else np.eye(3)) @ turned[:, j]
    turned[:, first] = turned_first
