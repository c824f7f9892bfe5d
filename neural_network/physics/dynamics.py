# SPDX-License-Identifier: GPL-3.0-or-later
"""Inverse dynamics of whole clips: which forces and torques make a body with masses move as it does.

Two ways to the same wrench. :func:`root_wrench` takes second differences of the momenta of all parts and needs nothing but rotations
and places of three frames: Make Physical and the balance score use it, because its slopes are short. :func:`inverse_dynamics` is the
recursive Newton-Euler algorithm (Luh, Walker and Paul 1980; Featherstone 2008, chapter 5) in world axes from velocities and accelerations
that are given; it gives the joints' torques too. Frames on the first axis; world axes, Z up, metres, newtons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import rotations
from .masses import GRAVITY, Masses


@dataclass(frozen=True)
class Torques:
    """What moves a body, as :func:`inverse_dynamics` returns it."""

    joint: np.ndarray
    """(F, J, 3) [N m, world] torque of the parent on each bone at its head; of the world on the root."""
    force: np.ndarray
    """(F, J, 3) [N, world] force of the parent on each bone; of the world on the root."""


def centres(body: Masses, turned: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Centres of mass (F, J, 3) of all bones, from rotations since the T-pose (F, J, 3, 3) and heads (F, J, 3)."""
    return heads + np.einsum("fjab,jb->fja", turned, body.centre)


def centre_of_mass(body: Masses, turned: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """(F, 3) [m] the whole body's."""
    return np.einsum("j,fja->fa", body.mass, centres(body, turned, heads)) / body.total


def second_difference(values: np.ndarray, fps: float) -> np.ndarray:
    """Accelerations (F - 2, ...) of values (F, ...) on all frames but the first and the last."""
    return (values[2:] - 2 * values[1:-1] + values[:-2]) * fps**2


def root_wrench(
    body: Masses, turned: np.ndarray, heads: np.ndarray, fps: float, about: np.ndarray, gravity: np.ndarray = GRAVITY
) -> np.ndarray:
    """The force [N] and the moment [N m] about points that the world has to give for a body to move as it does.

    The rate of change of all momenta less gravity's part, as exact second differences of a body of point masses: it is 0 in flight,
    and the weight and its moment in stillness.

    Args:
        body: its masses.
        turned: (F, J, 3, 3) rotations since the T-pose.
        heads: (F, J, 3) [m].
        fps: frames a second.
        about: (F, 3) [m] points that moments are about.
        gravity: [m/s^2].

    Returns:
        (F - 2, 6), without the first and the last frame.
    """
    at = centres(body, turned, heads)
    force = body.mass[:, None] * (second_difference(at, fps) - gravity)
    moment = np.cross(at[1:-1] - about[1:-1, None], force).sum(axis=1)
    change = second_difference(turned, fps) @ body.spread @ np.swapaxes(turned[1:-1], -1, -2)
    return np.concatenate([force.sum(axis=1), moment + axial(change).sum(axis=1)], axis=1)


def axial(matrices: np.ndarray) -> np.ndarray:
    """(..., 3) such that for a sum of y x^T it is the sum of x cross y."""
    m = matrices
    return np.stack([m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]], axis=-1)


def inverse_dynamics(
    body: Masses,
    turned: np.ndarray,
    heads: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
    root_acceleration: np.ndarray,
    gravity: np.ndarray = GRAVITY,
) -> Torques:
    """Recursive Newton-Euler: from the motion of all bones to forces and torques at all joints, the root's from the world.

    Args:
        body: its masses.
        turned: (F, J, 3, 3) rotations since the T-pose.
        heads: (F, J, 3) [m].
        velocity: (F, J, 3) [rad/s] angular, world axes.
        acceleration: (F, J, 3) [rad/s^2] angular, world axes.
        root_acceleration: (F, 3) [m/s^2] of the root's head.
        gravity: [m/s^2].
    """
    parents = body.skeleton.parents
    linear = np.empty_like(heads)
    linear[:, 0] = root_acceleration
    for j in range(1, len(parents)):
        p = int(parents[j])
        linear[:, j] = linear[:, p] + _carried(heads[:, j] - heads[:, p], velocity[:, p], acceleration[:, p])
    arm = np.einsum("fjab,jb->fja", turned, body.centre)
    force = body.mass[:, None] * (linear + _carried(arm, velocity, acceleration) - gravity)
    inertia = turned @ body.inertia @ np.swapaxes(turned, -1, -2)
    spin = np.einsum("fjab,fjb->fja", inertia, velocity)
    torque = np.einsum("fjab,fjb->fja", inertia, acceleration) + np.cross(velocity, spin) + np.cross(arm, force)
    for j in range(len(parents) - 1, 0, -1):
        p = int(parents[j])
        torque[:, p] += torque[:, j] + np.cross(heads[:, j] - heads[:, p], force[:, j])
        force[:, p] += force[:, j]
    return Torques(torque, force)


def _carried(arm: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
    """Acceleration of a point on a turning body, relative to the point that it is ``arm`` away from."""
    return np.cross(acceleration, arm) + np.cross(velocity, np.cross(velocity, arm))


def of_clip(body: Masses, turned: np.ndarray, heads: np.ndarray, fps: float, gravity: np.ndarray = GRAVITY) -> Torques:
    """:func:`inverse_dynamics` of a clip by central differences, on all frames but the first and the last."""
    back = rotations.axis_angle_from_matrix(turned[1:-1] @ np.swapaxes(turned[:-2], -1, -2)) * fps
    ahead = rotations.axis_angle_from_matrix(turned[2:] @ np.swapaxes(turned[1:-1], -1, -2)) * fps
    root = second_difference(heads[:, 0], fps)
    inner = turned[1:-1], heads[1:-1]
    return inverse_dynamics(body, *inner, 0.5 * (back + ahead), (ahead - back) * fps, root, gravity)
