# SPDX-License-Identifier: GPL-3.0-or-later
"""How a trunk is held: how far it leans back, is tilted and is folded, and the turns that lessen that.

``orientations`` (J, 3, 3) are those of a pose relative to the T-pose, core axes; ``chest`` is a bone. In plain arithmetic.
"""

from __future__ import annotations

import math

import numpy as np


def tilted_by(orientations: np.ndarray, chest: int) -> tuple[float, np.ndarray]:
    """By what angle the chest is tilted from upright [rad], and the axis (3) about which a turn of it lessens that."""
    x, y, z = orientations[chest, :, 2].tolist()
    sine = math.hypot(x, y)
    return math.atan2(sine, z), np.array([y, -x, 0.0]) / max(sine, 1e-9)


def turned_from(orientations: np.ndarray, chest: int) -> tuple[float, np.ndarray]:
    """By what angle the chest is turned from the Hips [rad], and the axis (3) about which a turn of it lessens that."""
    turn = orientations[chest] @ orientations[0].T
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = turn.tolist()
    axis = yz - zy, zx - xz, xy - yx  # against the turn, as long as twice the sine of its angle
    sine = math.sqrt(axis[0] ** 2 + axis[1] ** 2 + axis[2] ** 2)
    return math.atan2(sine, xx + yy + zz - 1), np.array(axis) / max(sine, 1e-9)


def leaning_back(orientations: np.ndarray, chest: int) -> tuple[float, np.ndarray]:
    """How far the chest leans back from upright, seen from the side [rad], and by how much a turn of it about each axis lessens that (3).

    The side is that of the Hips' facing, which counts as fixed.
    """
    up = orientations[chest, :, 2].tolist()
    x, y = (-orientations[0, :2, 1]).tolist()  # ahead
    length = max(math.hypot(x, y), 1e-6)
    x, y = x / length, y / length
    along, height = up[0] * x + up[1] * y, max(up[2], 0.1)
    turn = (height * x, height * y, -along if up[2] > 0.1 else 0.0)
    scale = 1 / (along**2 + height**2)
    slope = (
        scale * (up[1] * turn[2] - up[2] * turn[1]),
        scale * (up[2] * turn[0] - up[0] * turn[2]),
        scale * (up[0] * turn[1] - up[1] * turn[0]),
    )
    return -math.atan2(along, height), np.array(slope)
