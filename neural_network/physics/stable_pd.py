# SPDX-License-Identifier: GPL-3.0-or-later
"""One body whose joints are driven towards a pose: stable PD control (Tan, Liu and Turk, "Stable Proportional-Derivative
Controllers", IEEE CG&A 31(4), 2011), beside the explicit kind, without contacts and limits.

The root is held in the air. Every other joint turns freely; its numbers are angular velocities in world axes. Stable PD takes the
error of the next time step, so that its gains count as inertia and damping: where explicit control has to take steps far below the
joints' own periods, it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..ik.foot_pins import forward
from . import dynamics
from .masses import GRAVITY, Masses

ARMATURE = 0.01  # [kg m^2] of every joint: inertia of what drives it


@dataclass(frozen=True)
class State:
    """A body whose root is held."""

    turns: np.ndarray
    """(J, 3, 3) local core rotations."""
    velocity: np.ndarray
    """(J, 3) [rad/s, world] of each bone relative to its parent; the root's is 0."""


@dataclass(frozen=True)
class Gains:
    """Of all joints."""

    stiff: np.ndarray
    """(J) [N m/rad]."""
    damping: np.ndarray
    """(J) [N m s/rad]."""


KP = {
    "Spine": 500, "Spine1": 550, "Spine2": 600, "NeckLower": 100, "NeckUpper": 80, "Head": 60, "Shoulder": 300, "Arm": 200,
    "ForeArm": 120, "Hand": 40, "Thigh": 500, "Shin": 500, "Foot": 300, "ToeBase": 40,
}  # fmt: skip
"""[N m/rad] by bone, without its side."""


def gains(body: Masses) -> Gains:
    """Stiffness by bone, and a tenth of it as damping."""
    names = [name.removeprefix("Left").removeprefix("Right") for name in body.skeleton.names]
    stiff = np.array([float(KP.get(name, 0)) for name in names])
    return Gains(stiff, stiff / 10)


def inertia_and_bias(body: Masses, state: State, gravity: np.ndarray = GRAVITY) -> tuple[np.ndarray, np.ndarray]:
    """The joints' inertia (3 J - 3, 3 J - 3) with armature, and the torques (3 J - 3) that hold them without acceleration.

    By recursive Newton-Euler: one column for each unit acceleration at rest, all at once, and one for the state as it is.
    """
    count = body.skeleton.count
    turned, heads = forward(body.skeleton, state.turns[None], np.zeros((1, 3)))
    size = 3 * (count - 1)
    share = body.skeleton.subtree.T  # a bone turns with all joints above it
    unit = np.zeros((size, count, 3))
    unit[np.arange(size), 1 + np.arange(size) // 3, np.arange(size) % 3] = 1
    still = np.zeros((size, count, 3))
    many = np.repeat(turned, size, 0), np.repeat(heads, size, 0)
    held = np.zeros(3)
    columns = dynamics.inverse_dynamics(body, *many, still, share @ unit, np.zeros((size, 3)), held)
    inertia = columns.joint[:, 1:].reshape(size, size).T + ARMATURE * np.eye(size)
    velocity = share @ state.velocity
    carried = _carried_acceleration(body, state, velocity)
    bias = dynamics.inverse_dynamics(body, turned, heads, velocity[None], carried[None], np.zeros((1, 3)), gravity)
    return inertia, bias.joint[0, 1:].reshape(size)


def _carried_acceleration(body: Masses, state: State, velocity: np.ndarray) -> np.ndarray:
    """(J, 3) angular accelerations of bones whose joints' velocities stay as they are in the axes of their parents."""
    out = np.zeros_like(velocity)
    for j, parent in enumerate(body.skeleton.parents.tolist()):
        if parent >= 0:
            out[j] = out[parent] + np.cross(velocity[parent], state.velocity[j])
    return out


def step(body: Masses, state: State, target: np.ndarray, of: Gains, dt: float, stable: bool = True) -> State:
    """The state ``dt`` [s] later, driven towards local rotations ``target`` (J, 3, 3); semi-implicit Euler.

    ``stable``: the torque is that of the error and the velocity at the end of the step, for which the acceleration is solved
    together with the body's; else of those at its beginning.
    """
    inertia, bias = inertia_and_bias(body, state)
    turned, _ = forward(body.skeleton, state.turns[None], np.zeros((1, 3)))
    above = turned[0][np.maximum(body.skeleton.parents, 0)]
    error = rotations.axis_angle_from_matrix(target @ np.swapaxes(state.turns, -1, -2))  # in the parent's axes
    error = np.einsum("jab,jb->ja", above, error)[1:].reshape(-1)
    speed = state.velocity[1:].reshape(-1)
    stiff, damping = np.repeat(of.stiff[1:], 3), np.repeat(of.damping[1:], 3)
    if stable:
        torque = stiff * (error - dt * speed) - damping * speed
        change = np.linalg.solve(inertia + dt * np.diag(damping), torque - bias)
    else:
        change = np.linalg.solve(inertia, stiff * error - damping * speed - bias)
    return advanced(body, state, change, dt)


def advanced(body: Masses, state: State, acceleration: np.ndarray, dt: float) -> State:
    """The state ``dt`` [s] later with accelerations (3 J - 3) [rad/s^2] of the joints; semi-implicit Euler."""
    turned, _ = forward(body.skeleton, state.turns[None], np.zeros((1, 3)))
    parents = np.maximum(body.skeleton.parents, 0)
    above = turned[0][parents]
    velocity = state.velocity.copy()
    velocity[1:] += dt * acceleration.reshape(-1, 3)
    by = np.einsum("jba,jb->ja", above, velocity)
    turns = rotations.matrix_from_axis_angle(by * dt) @ state.turns
    moved, _ = forward(body.skeleton, turns[None], np.zeros((1, 3)))
    carried = np.einsum("jab,jb->ja", moved[0][parents], by)  # the parents' axes have turned
    carried[0] = 0
    return State(turns, carried)


def held(
    body: Masses, start: np.ndarray, target: np.ndarray, of: Gains, dt: float, seconds: float, stable: bool
) -> np.ndarray:
    """(N) largest error [rad] of any joint after each step of a body that starts at rest in local rotations ``start`` (J, 3, 3).

    What explodes ends with infinity.
    """
    state = State(start, np.zeros((body.skeleton.count, 3)))
    out = []
    for _ in range(round(seconds / dt)):
        state = step(body, state, target, of, dt, stable)
        if not np.isfinite(state.velocity).all() or np.abs(state.velocity).max() > 1e4:
            out.append(np.inf)
            break
        out.append(float(rotations.geodesic_angle(state.turns, target).max()))
    return np.array(out)
