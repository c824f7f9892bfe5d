# SPDX-License-Identifier: GPL-3.0-or-later
"""When feet stand in motion that may be corrupt, by rule: the plain method beside the learned one, and what there is without weights."""

from __future__ import annotations

import numpy as np

from ..core.contacts import foot_heights, ground_height, runs, size_of, truth_contacts, without_short_runs
from ..core.skeleton import Skeleton
from ..ik.foot_pins import Ground, flat_ground, forward

SHORTEST = 3  # [frames] at 30 a second


def by_rule(
    skeleton: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, ground: Ground = flat_ground
) -> np.ndarray:
    """(F, feet) bool: feet that are low and slow, by the rule that clean motion is judged by, above the floor that the lowest
    feet of the clip stand on."""
    heads = forward(skeleton, turns, root)[1]
    ankles, toes = heads[:, list(skeleton.feet)], heads[:, list(skeleton.toes)]
    for points in (ankles, toes):
        points[..., 2] -= ground(points[..., :2])
    floor = ground_height(foot_heights(ankles, toes, skeleton.foot_rest))
    return truth_contacts(ankles, toes, skeleton.foot_rest, floor, fps, size_of(skeleton.leg_length))


def decided(chances: np.ndarray, fps: float) -> np.ndarray:
    """(F, feet) bool of the chances (F, feet) that feet stand: runs and gaps shorter than a tenth of a second are taken out."""
    least = max(1, round(SHORTEST / 30 * fps))
    out = np.stack([without_short_runs(chance > 0.5, least) for chance in chances.T], axis=1)
    for k in range(out.shape[1]):
        for first, last in runs(out[:, k]):
            out[first:last, k] = last - first >= min(least, len(out))
    return out
