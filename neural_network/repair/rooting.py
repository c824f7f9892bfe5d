# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the root belongs, by least squares: drift, a speed that was changed, a floor that is too high or too low.

Velocities say by how much the root has to move otherwise: those of standing feet, which should not move. Fitted to them are a
constant velocity and a factor of the root's own velocity (drift and speed), robustly, and a slow rest.
"""

from __future__ import annotations

import numpy as np

from ..core.contacts import foot_points
from ..core.skeleton import Skeleton
from ..ik.foot_pins import Ground, flat_ground, forward
from .corruption import gaussian

ROUNDS = 12  # of reweighting
TYPICAL = 0.05  # [m/s] residuals up to this size count in full (Huber)
LIKELY = (0.1, 0.15)  # [m/s] and share of the speed: sizes of what goes wrong; larger corrections need more evidence
ALIKE = 6.0  # [frames at 30 a second] over which the noise of standing feet says the same
SLOW = 15.0  # [frames at 30 a second] of the Gaussian that gives the slow rest
TRUST = 6.0  # [frames] of evidence that weigh as much as the guess that there is no slow rest
QUICK = 4.0  # [frames at 30 a second] of the Gaussian that parts quick changes of the root from slow ones


def standing_velocity(
    skeleton: Skeleton, turns: np.ndarray, root: np.ndarray, contact: np.ndarray, fps: float
) -> tuple[np.ndarray, np.ndarray]:
    """Velocities (F, 2) [m/s] that keep the standing feet still, of the way to the next frame, and how many feet say so (F).

    Of heel, ball and tip the median counts: the slowest one hides how fast a foot slides that rolls against it.
    """
    points = foot_points(skeleton, *forward(skeleton, turns, root))
    ways = np.diff(points[..., :2], axis=0)
    chosen = np.median(ways, axis=2)
    both = (contact[1:] & contact[:-1]).astype(float)
    count = both.sum(axis=1)
    mean = -(chosen * both[..., None]).sum(axis=1) / np.maximum(count, 1)[:, None] * fps
    return np.concatenate([mean, np.zeros((1, 2))]), np.append(count, 0.0)


def fitted(root: np.ndarray, wanted: np.ndarray, weight: np.ndarray, fps: float) -> np.ndarray:
    """(F, 2) [m/s] by how much the root's velocity changes, fitted to ``wanted`` (F, 2) with weights (F); 0 without weights."""
    if weight.sum() < 2:
        return np.zeros_like(wanted)
    own = np.zeros_like(wanted)
    own[:-1] = np.diff(root[:, :2], axis=0) * fps
    own = gaussian(own, 2.0)
    rows = np.zeros((2 * len(own), 3))
    rows[0::2, 0], rows[1::2, 1] = 1, 1
    rows[0::2, 2], rows[1::2, 2] = own[:, 0], own[:, 1]
    values, each = wanted.reshape(-1), np.repeat(weight, 2)
    robust, noise = np.ones(len(own)), TYPICAL**2
    found = np.zeros(3)
    for _ in range(ROUNDS):
        w = each * np.repeat(robust, 2)
        keep = np.diag(np.r_[LIKELY[0], LIKELY[0], LIKELY[1]] ** -2.0) * noise * ALIKE * fps / 30
        found = np.linalg.solve(rows.T @ (rows * w[:, None]) + keep, rows.T @ (values * w))
        off = np.linalg.norm((values - rows @ found).reshape(-1, 2), axis=1)
        robust = TYPICAL / np.maximum(off, TYPICAL)
        noise = float((weight * robust * off**2).sum() / (2 * weight.sum()))
    model = (rows @ found).reshape(-1, 2)
    width = SLOW * fps / 30
    w = weight * robust
    rest = gaussian((wanted - model) * w[:, None], width)
    share = gaussian(w, width) + TRUST / (np.sqrt(2 * np.pi) * width)
    return np.asarray(model + rest / share[:, None])


def floor_height(
    skeleton: Skeleton, turns: np.ndarray, root: np.ndarray, contact: np.ndarray, ground: Ground = flat_ground
) -> float:
    """[m] by how much the standing feet are above the ground, the median; 0 where none stands."""
    points = foot_points(skeleton, *forward(skeleton, turns, root))
    low = (points[..., 2] - ground(points[..., :2])).min(axis=-1)
    return float(np.median(low[contact])) if contact.any() else 0.0
