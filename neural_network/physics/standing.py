# SPDX-License-Identifier: GPL-3.0-or-later
"""When feet stand in motion that may float, slide or shake: the rule that motion is measured by, above the floor that slow feet are on.

Where motion shakes, hardly any foot is ever slow. Then speeds are those of lines fitted over a third of a second, before, around or after
each frame, whichever is slowest, and heights are means.
"""

from __future__ import annotations

import numpy as np

from ..core.contacts import TRUTH, runs
from ..core.skeleton import Skeleton
from ..ik.foot_pins import Ground, flat_ground, forward

WINDOW = 5  # [frames at 30 a second] to each side, over which lines are fitted where motion shakes
NEAR = (0.03, 0.045)  # [m] above the floor, of steady motion and of motion that shakes
SPEED = 0.6  # [m/s] faster feet do not stand; motion is measured by 0.45, and what slides is faster
SHAKES = 0.15  # [m/s] by which the feet that stand are faster from frame to frame than over that window, in the median
SLOW = 40.0  # [%] of frames, the slowest, tell where the floor is
LOW = 30.0  # percentile of the height of their lowest foot


def find(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    ground: Ground = flat_ground,
    fastest: float = SPEED,
) -> np.ndarray:
    """(F, feet) bool: feet that stand, of motion ``turns`` (F, J, 3, 3), ``root`` (F, 3) [m] of a body; core axes.

    ``fastest`` [m/s]: faster feet do not stand.
    """
    heads = forward(skeleton, turns, root)[1]
    points = np.stack([heads[:, list(skeleton.feet)], heads[:, list(skeleton.toes)]], axis=2)  # (F, feet, 2, 3)
    heights = points[..., 2] - ground(points[..., :2]) - skeleton.foot_rest
    plain, speed = _touching(points, heights, fps, 0, NEAR[0], fastest)
    reach = min(round(WINDOW * fps / 30), (len(root) - 1) // 2)
    if reach < 1:
        return plain
    steadied, slower = _touching(points, heights, fps, reach, NEAR[1], fastest)
    shakes = steadied.any() and float(np.median((speed - slower)[steadied])) > SHAKES
    return steadied if shakes else plain


def _touching(
    points: np.ndarray, heights: np.ndarray, fps: float, reach: int, near: float, fastest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Contacts and speeds (F, feet), with speeds and heights over ``reach`` frames to each side; 0: from one frame to the next."""
    toe = heights[..., 1] < heights[..., 0]
    low = heights.min(axis=-1)
    if reach < 1:
        lower = np.take_along_axis(points, toe[..., None, None].astype(int), axis=2)[:, :, 0]
        ways = np.linalg.norm(np.diff(lower, axis=0), axis=-1) * fps
        ways = np.concatenate([ways[:1], ways, ways[-1:]]) if len(ways) else np.full((2, low.shape[1]), np.inf)
        speed = np.minimum(ways[:-1], ways[1:])
    else:
        line = np.arange(-reach, reach + 1.0)
        speeds = np.linalg.norm(_windows(points, line / np.sum(line**2) * fps), axis=-1)
        speed = _least(speeds, reach, reach).min(axis=-1)
        low = _least(_windows(low, np.full(2 * reach + 1, 1 / (2 * reach + 1))), reach, reach // 2)
    lowest = np.take_along_axis(speed, low.argmin(axis=1)[:, None], axis=1)[:, 0]
    slow = lowest <= np.percentile(lowest, SLOW)
    floor = float(np.percentile(low.min(axis=1)[slow], LOW))
    out = (low - floor <= near) & (speed <= fastest)
    out[1:-1] |= out[:-2] & out[2:]
    for foot in range(out.shape[1]):
        for first, last in runs(out[:, foot]):
            out[first:last, foot] = last - first >= TRUTH.shortest
    return np.asarray(out), np.asarray(speed)


def _windows(values: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Weighted sums (F - K + 1, ...) of values (F, ...) in every window of K frames."""
    return np.asarray(np.lib.stride_tricks.sliding_window_view(values, len(kernel), axis=0) @ kernel)


def _least(windowed: np.ndarray, reach: int, shift: int) -> np.ndarray:
    """(F, ...) the least of the windows before, around and after each frame, whose centres are ``shift`` frames away."""
    frames = len(windowed) + 2 * reach
    centres = np.arange(frames) + np.array([[-shift], [0], [shift]])
    return np.asarray(windowed[np.clip(centres - reach, 0, len(windowed) - 1)].min(axis=0))
