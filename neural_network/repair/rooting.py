# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the root belongs, by least squares: drift, a speed that was changed, a floor that is too high or too low.

Velocities say by how much the root has to move otherwise: those of standing feet, which should not move. Fitted to them are a
constant velocity and a factor of the root's own velocity (drift and speed), robustly, and a slow rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.contacts import central_speed, foot_heights, foot_points, ground_height
from ..core.skeleton import Skeleton
from ..ik.foot_pins import Ground, flat_ground, forward
from .corruption import gaussian

ROUNDS = 8  # of reweighting
FEWEST = 2  # frames with a standing foot, without which nothing is fitted
SEEMS = (0.04, 0.5)  # [m] and [m/s] a foot higher or faster than that hardly seems to stand
TYPICAL = 0.05  # [m/s] residuals up to this size count in full (Huber)
LIKELY = (0.1, 0.15)  # [m/s] and share of the speed: sizes of what goes wrong; larger corrections need more evidence
LEAST = 1e-6  # keeps feet that do not move at all from asking for anything
LEFT = (0.03, 0.04)  # the same of what a network leaves
ALIKE = 6.0  # [frames at 30 a second] over which the noise of standing feet says the same
SLOW = 15.0  # [frames at 30 a second] of the Gaussian that gives the slow rest
TRUST = 6.0  # [frames] of evidence that weigh as much as the guess that there is no slow rest


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


@dataclass(frozen=True)
class Fit:
    """By how much a root's velocity should change."""

    model: np.ndarray
    """(F, 2) [m/s] a constant velocity and a factor of its own."""
    rest: np.ndarray
    """(F, 2) [m/s] what is slow beside it."""
    factor: float
    noise: float
    """[m/s] what standing feet say beside the model."""


def fitted(
    root: np.ndarray, wanted: np.ndarray, weight: np.ndarray, fps: float, likely: tuple[float, float] = LIKELY
) -> Fit:
    """What leads to the velocities ``wanted`` (F, 2) [m/s] with weights (F); zeros without weights. Sizes as ``likely`` says."""
    if weight.sum() < FEWEST:
        return Fit(np.zeros_like(wanted), np.zeros_like(wanted), 0.0, 0.0)
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
        keep = np.diag(np.r_[likely[0], likely[0], likely[1]] ** -2.0 * noise * ALIKE * fps / 30 + LEAST)
        found = np.linalg.solve(rows.T @ (rows * w[:, None]) + keep, rows.T @ (values * w))
        off = np.linalg.norm((values - rows @ found).reshape(-1, 2), axis=1)
        robust = TYPICAL / np.maximum(off, TYPICAL)
        noise = float((weight * robust * off**2).sum() / (2 * weight.sum()))
    model = (rows @ found).reshape(-1, 2)
    width = SLOW * fps / 30
    w = weight * robust
    rest = gaussian((wanted - model) * w[:, None], width)
    share = gaussian(w, width) + TRUST / (np.sqrt(2 * np.pi) * width)
    return Fit(model, rest / share[:, None], float(found[2]), float(np.sqrt(noise)))


def asked(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    contact: np.ndarray,
    fps: float,
    likely: tuple[float, float] = LIKELY,
) -> np.ndarray:
    """(F, 2) [m/s] by how much the root's velocity changes so that standing feet are still; see :func:`fitted`."""
    found = fitted(root, *standing_velocity(skeleton, turns, root, contact, fps), fps, likely)
    return found.model + found.rest


@dataclass(frozen=True)
class Standing:
    """What feet that seem to stand ask of the root, of motion that nobody knows the contacts of."""

    velocity: Fit
    height: float
    """[m] of their soles above the floor."""
    weight: np.ndarray
    """(F) how many feet seem to stand."""


def standing(skeleton: Skeleton, turns: np.ndarray, root: np.ndarray) -> Standing:
    """What feet that are low and slow ask for, the more the lower and slower, at 30 frames a second; the ball of each foot counts."""
    turned, heads = forward(skeleton, turns, root)
    points = foot_points(skeleton, turned, heads)
    height = foot_heights(heads[:, list(skeleton.feet)], heads[:, list(skeleton.toes)], skeleton.foot_rest)
    speed = central_speed(points, 30.0).min(axis=-1)
    weight = np.exp(-((np.maximum(height - ground_height(height), 0) / SEEMS[0]) ** 2) - (speed / SEEMS[1]) ** 2)
    both = np.sqrt(weight[1:] * weight[:-1])
    count = both.sum(axis=1)
    ways = np.diff(points[:, :, 1, :2], axis=0) * 30.0
    wanted = -(ways * both[..., None]).sum(axis=1) / np.maximum(count, 1e-6)[:, None]
    low = points[..., 2].min(axis=-1)
    found = fitted(root, np.concatenate([wanted, np.zeros((1, 2))]), np.append(count, 0.0), 30.0)
    return Standing(found, float((low * weight).sum() / max(weight.sum(), 1e-6)), weight.sum(axis=1))


def floor_height(
    skeleton: Skeleton, turns: np.ndarray, root: np.ndarray, contact: np.ndarray, ground: Ground = flat_ground
) -> float:
    """[m] by how much the standing feet are above the ground, the median; 0 where none stands."""
    points = foot_points(skeleton, *forward(skeleton, turns, root))
    low = (points[..., 2] - ground(points[..., :2])).min(axis=-1)
    return float(np.median(low[contact])) if contact.any() else 0.0
