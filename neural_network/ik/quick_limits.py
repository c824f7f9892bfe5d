# SPDX-License-Identifier: GPL-3.0-or-later
"""Joint limits of one pose in few NumPy calls; those of :func:`.losses.limit_excess`, which a test holds it to.

A bone's rotation is a swing, whose two angles are limited by an ellipse, after a twist about its own axis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core import quick_rotations as quick
from ..core.skeleton import Skeleton


class Excess(NamedTuple):
    """Bones (K) that a pose has outside their joint limits."""

    bones: np.ndarray  # (K)
    back: np.ndarray  # (K, 3) rotation vectors that bring them back inside, in the axes of the parent
    angle: np.ndarray  # (K) their lengths


class Beyond(NamedTuple):
    """How far limited bones (K) are beyond their limits, of swing and then of twist."""

    distance: np.ndarray  # (2 K) [rad] negative within
    angles: np.ndarray  # (2, K) [rad] of the swing, about the bone's X and Z
    toward: np.ndarray  # (2, K) unit vectors, in which the distance of the swing grows
    twist: (
        np.ndarray
    )  # (3, K) how a turn of the bone about each of its axes, before the swing, increases the distance of the twist


class JointLimits:
    """The joint limits of a rig."""

    def __init__(self, skeleton: Skeleton) -> None:
        """Take the limits of ``skeleton``; bones with NaN, or all where it has none, are free."""
        limits = np.zeros((0, 6)) if skeleton.limits is None else skeleton.limits
        self._bones = np.flatnonzero(np.isfinite(limits).all(axis=1))
        self._basis = skeleton.limit_axes[self._bones]
        self._low, self._high = limits[self._bones, ::2].T, limits[self._bones, 1::2].T
        self._wide_up, self._wide_down = np.maximum(self._high[::2], 1e-3), np.maximum(-self._low[::2], 1e-3)

    @property
    def bones(self) -> np.ndarray:
        """(2 K) the bones that have limits, once for swing and once for twist."""
        return np.append(self._bones, self._bones)

    def beyond(self, turns: np.ndarray) -> Beyond:
        """How far the bones, with rotations relative to the parent ``turns`` (J, 3, 3), core axes, are beyond their limits.

        The distance from the ellipse of the swing is to first order (Sampson, "Fitting conic sections to 'very scattered' data",
        1982): along the ray to its middle, a narrow joint that is flexed far would seem to be far outside at once.
        """
        if not len(self._bones):
            return _NOWHERE
        quaternion = quick.quaternion_from_matrix(turns.take(self._bones, axis=0))
        w = quaternion[:, 0]
        x, y, z = np.matmul(quaternion[:, None, 1:], self._basis)[:, 0].T
        upright = np.sqrt(np.maximum(w * w + y * y, 2.5e-3))
        swing = np.array([x * w + z * y, z * w - x * y]) / upright  # with the twist removed
        lean = np.sqrt(swing[0] * swing[0] + swing[1] * swing[1]) + 1e-12
        angles = swing * (2 * np.arctan2(lean, upright) / lean)
        wide = np.where(angles > 0, self._wide_up, self._wide_down)
        share = angles / wide
        size = np.sqrt(share[0] * share[0] + share[1] * share[1]) + 1e-12
        slope = share / (wide * size)
        steep = np.sqrt(slope[0] * slope[0] + slope[1] * slope[1]) + 1e-12
        twist = 2 * np.arctan2(y, w)
        above, below = twist - self._high[1], self._low[1] - twist
        sign = np.where(above > below, 1.0, -1.0)
        turn = np.array([-sign * swing[1] / upright, sign, sign * swing[0] / upright])
        return Beyond(np.concatenate([(size - 1) / steep, np.maximum(above, below)]), angles, slope / steep, turn)

    def outward(self, beyond: Beyond, which: np.ndarray) -> np.ndarray:
        """(N, 3) how a turn of the bone about each axis of its parent increases distances ``which`` (N).

        A swing by an angle t about n, which leads to u, changes by n.w along n and by t (u.w / tan t - y.w) along u.
        """
        count = len(self._bones)
        out = beyond.twist.T[which % count]
        swings = np.flatnonzero(which < count)
        x, z = beyond.angles[:, which[swings]]
        angle = np.sqrt(x * x + z * z) + 1e-9
        n_x, n_z = x / angle, z / angle
        g_x, g_z = beyond.toward[:, which[swings]]
        along, across = g_x * n_x + g_z * n_z, g_z * n_x - g_x * n_z
        turned = across * angle / np.tan(np.minimum(angle, WIDEST))
        out[swings, 0], out[swings, 1], out[swings, 2] = (
            along * n_x - turned * n_z,
            -across * angle,
            along * n_z + turned * n_x,
        )
        return np.asarray(np.matmul(self._basis[which % count], out[:, :, None])[:, :, 0])

    def excess(self, turns: np.ndarray) -> Excess:
        """The bones whose rotations relative to the parent ``turns`` (J, 3, 3), core axes, are outside their limits."""
        if not len(self._bones):
            return _NONE
        quaternion = quick.quaternion_from_matrix(turns[self._bones])
        w = quaternion[:, 0]
        x, y, z = np.matmul(quaternion[:, None, 1:], self._basis)[:, 0].T
        upright = np.sqrt(np.maximum(w * w + y * y, 1e-12))
        swing_x, swing_z = (x * w + z * y) / upright, (z * w - x * y) / upright  # with the twist removed
        lean = np.sqrt(swing_x * swing_x + swing_z * swing_z) + 1e-12
        twist, half_swing = 2 * np.arctan2(y, w), np.arctan2(lean, upright)
        wide_x = np.maximum(np.where(swing_x > 0, self._high[0], -self._low[0]), 1e-3)
        wide_z = np.maximum(np.where(swing_z > 0, self._high[2], -self._low[2]), 1e-3)
        widest = lean / np.sqrt((swing_x / wide_x) ** 2 + (swing_z / wide_z) ** 2 + 1e-24)
        clipped = np.minimum(np.maximum(twist, self._low[1]), self._high[1])
        outside = np.flatnonzero((2 * half_swing > widest + LEAST) | (np.abs(clipped - twist) > LEAST))
        if not len(outside):
            return _NONE
        half = np.minimum(half_swing, 0.5 * widest)[outside]
        size = np.sin(half) / lean[outside]
        a, sx, sz = np.cos(half), swing_x[outside] * size, swing_z[outside] * size
        c, s = np.cos(0.5 * clipped[outside]), np.sin(0.5 * clipped[outside])
        local = np.stack(
            [sx * c - sz * s, a * s, sz * c + sx * s], axis=1
        )  # swing (a, sx, 0, sz) times twist (c, 0, s, 0)
        inside = np.empty((len(outside), 4))
        inside[:, 0] = a * c
        inside[:, 1:] = np.matmul(self._basis[outside], local[:, :, None])[:, :, 0]
        back = quick.quaternion_multiply(inside, quaternion[outside] * quick.CONJUGATE)
        back *= np.where(back[:, :1] < 0, -1.0, 1.0)
        length = np.sqrt(np.einsum("kc,kc->k", back[:, 1:], back[:, 1:])) + 1e-30
        angle = 2 * np.arctan2(length, back[:, 0])
        return Excess(self._bones[outside], back[:, 1:] * (angle / length)[:, None], angle)


WIDEST = 2.6  # [rad] beyond this a swing turns too much with its direction
LEAST = 1e-7  # [rad] less is rounding
_NOWHERE = Beyond(np.zeros(0), np.zeros((2, 0)), np.zeros((2, 0)), np.zeros((3, 0)))
_NONE = Excess(np.zeros(0, int), np.zeros((0, 3)), np.zeros(0))
