# SPDX-License-Identifier: GPL-3.0-or-later
"""What contacts can give: of all forces within the friction cones of the points on the ground, those that come nearest to a wrench.

Each point pushes along the edges of a pyramid in its friction cone, never pulls, and gives the less the higher it is above the
ground. With edges g and their shares, the wrench w that is asked for leaves a rest r for which r + sum of g max(0, g.r) / rho = w:
a piecewise linear equation in six numbers, solved for all frames at once by a semismooth Newton method (Qi and Sun 1993).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FRICTION = 0.8  # shoes or bare feet on a floor
EDGES = 4  # of a pyramid
EASY = 1e-4  # what a force of one body weight costs at a point on the ground, against a rest of one body weight
REACH = 0.03  # [m] a point this high gives half of what it is asked for
POWER = 8  # of how that falls with height
HELD = 1e-3  # what a force costs that a held hand gives
STEPS = 30
CLOSE = 1e-9


@dataclass(frozen=True)
class Contacts:
    """Points that may push, with what pushing costs."""

    points: np.ndarray
    """(F, P, 3) [m]."""
    normals: np.ndarray
    """(F, P, 3)."""
    cost: np.ndarray
    """(F, P) see :func:`cost_at`; infinite where a point gives nothing."""
    held: np.ndarray
    """(F, P) bool, points that may pull too, such as a hand at a rail."""
    height: np.ndarray
    """(F, P) [m] above the ground."""
    bones: np.ndarray
    """(P) int, that the points move with."""

    def some(self, rows: slice, columns: np.ndarray | slice = slice(None)) -> Contacts:
        """Those of some frames, of some points."""
        five = (self.points, self.normals, self.cost, self.held, self.height)
        points, normals, cost, held, height = (part[rows][:, columns] for part in five)
        return Contacts(points, normals, cost, held, height, self.bones[columns])


@dataclass(frozen=True)
class Nearest:
    """The wrench that contacts come nearest to; numbers in body weights, moments over the body's length."""

    rest: np.ndarray
    """(F, 6) what they do not give."""
    cost: np.ndarray
    """(F) half of the rest's square and of what the forces cost."""
    slope: np.ndarray
    """(F, 6, 6) the second derivative of the cost with respect to the wrench; the first is the rest."""
    force: np.ndarray
    """(F, P, 3) [body weights] at each point."""


def cost_at(height: np.ndarray) -> np.ndarray:
    """What a force costs at points ``height`` (...) [m] above the ground: next to nothing on it, everything above 5 cm."""
    return np.asarray(EASY + np.minimum((np.maximum(height, 0) / REACH) ** POWER, 1e9))


def edges_of(contacts: Contacts, about: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Directions (F, E, 3) in which points push, their wrenches (F, E, 6) about points (F, 3), over ``length`` [m], and costs (F, E)."""
    n = contacts.normals
    side = np.where(np.abs(n[..., :1]) < 0.9, [1.0, 0, 0], [0.0, 1, 0])
    side = side - n * np.sum(n * side, axis=-1, keepdims=True)
    side /= np.linalg.norm(side, axis=-1, keepdims=True)
    other = np.cross(n, side)
    angle = 2 * np.pi * np.arange(EDGES) / EDGES
    around = np.cos(angle)[:, None] * side[..., None, :] + np.sin(angle)[:, None] * other[..., None, :]
    free = contacts.held[..., None, None]
    push = np.where(free, 0.0, 1.0) * n[..., None, :] + np.where(free, 1.0, FRICTION) * around
    more = np.where(free[..., 0], 1.0, 0.0) * n
    ways = np.concatenate([push, more[..., None, :], -more[..., None, :]], axis=2)  # held points push along six axes
    arm = (contacts.points - about[:, None])[:, :, None]
    wrench = np.concatenate([ways, np.cross(arm, ways) / length], axis=-1)
    cost = np.repeat(contacts.cost[:, :, None], ways.shape[2], axis=2)
    frames = len(ways)
    return ways.reshape(frames, -1, 3), wrench.reshape(frames, -1, 6), cost.reshape(frames, -1)


def nearest(contacts: Contacts, wrench: np.ndarray, about: np.ndarray, length: float) -> Nearest:
    """The wrench that contacts come nearest to, of wrenches (F, 6) [body weights; moments about points (F, 3), over ``length``]."""
    ways, edge, cost = edges_of(contacts, about, length)
    scaled = edge / np.sqrt(cost)[..., None]
    rest = wrench.copy()
    eye = np.eye(6)
    open_rows = np.arange(len(wrench))
    for _ in range(STEPS):
        e, r, w = scaled[open_rows], rest[open_rows], wrench[open_rows]
        along = np.einsum("fec,fc->fe", e, r)
        pushing = np.maximum(along, 0)
        off = r + np.einsum("fec,fe->fc", e, pushing) - w
        far = np.abs(off).max(axis=1) > CLOSE
        if not far.any():
            break
        open_rows = open_rows[far]
        e, r, w, along, off = e[far], r[far], w[far], along[far], off[far]
        active = e * (along > 0)[..., None]
        system = eye + np.einsum("fec,fed->fcd", active, e)
        step = -np.linalg.solve(system, off[..., None])[..., 0]
        size, value = np.ones(len(r)), _value(e, r, w)
        for _ in range(12):  # the equation is the slope of a convex function: go down it
            new = r + size[:, None] * step
            worse = _value(e, new, w) > value + 1e-4 * size * np.einsum("fc,fc->f", step, off)
            if not worse.any():
                break
            size[worse] *= 0.5
        rest[open_rows] = r + size[:, None] * step
    along = np.einsum("fec,fc->fe", scaled, rest)
    share = np.maximum(along, 0)
    active = scaled * (along > 0)[..., None]
    slope = np.linalg.inv(eye + np.einsum("fec,fed->fcd", active, scaled))
    force = (ways * (share / np.sqrt(cost))[..., None]).reshape(*contacts.cost.shape, EDGES + 2, 3).sum(axis=2)
    return Nearest(rest, 0.5 * np.einsum("fc,fc->f", rest, rest) + 0.5 * np.sum(share**2, axis=1), slope, force)


def _value(edge: np.ndarray, rest: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """(F) the convex function whose slope is to be 0."""
    pushing = np.maximum(np.einsum("fec,fc->fe", edge, rest), 0)
    return np.asarray(0.5 * np.sum(rest**2, axis=1) + 0.5 * np.sum(pushing**2, axis=1) - np.sum(rest * wrench, axis=1))
