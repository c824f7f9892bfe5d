# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets of a drag beside its effectors: a place of a bone, what a bone faces, where an elbow or a knee points.

They are soft: hands, feet and head that are held or dragged come first, and none of them is hit exactly. Each misses a vector,
which pulls with a force that ends. Inside leg lengths, radians, core axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.skeleton import Skeleton
from .body_shape import METRE

KINDS = ("place", "aim", "pole")
EYES = 0.1 * METRE  # above the head of the head's bone, from where it looks


@dataclass(frozen=True)
class ExtraTarget:
    """A soft target of a drag.

    ``place``: the bone's head should be at the point. ``aim``: the bone's front, where the T-posed body faces, should be turned
    to it; the head then looks at it. ``pole``: the bone is a forearm or a shin, and its joint should point to it, seen along the limb.
    """

    kind: str
    bone: int
    point: np.ndarray
    """(3) [m, armature]."""
    weight: float = 1.0
    """From 0, no effect, to 1."""


class Pull(NamedTuple):
    """How a kind pulls."""

    force: float  # at the target, with weight 1
    reach: float  # where it has fallen to half
    farthest: float  # that a step aims
    exact: float  # least variance


PULLS = {"place": Pull(100, 0.3, 0.12, 1e-4), "aim": Pull(20, 1.0, 0.3, 1e-3), "pole": Pull(60, 0.3, 0.12, 1e-4)}


class Extra(NamedTuple):
    """A target, ready to be looked at."""

    kind: str
    bone: int
    point: np.ndarray  # (3)
    weight: float
    ends: tuple[int, int]  # of a pole: the bones where its limb begins and ends
    eyes: float


class Slope(NamedTuple):
    """How what is missed (K) falls with the ways of bones' heads and with a turn of one bone."""

    ways: list[tuple[int, np.ndarray]]  # bone, (K, 3)
    turn: np.ndarray | None  # (K, 3) of the target's bone


def prepare(targets: Sequence[ExtraTarget], skeleton: Skeleton) -> tuple[Extra, ...]:
    """The targets that have a weight. Raises ValueError for what they cannot be, with what was expected."""
    made = []
    for target in targets:
        point = np.asarray(target.point, np.float64)
        if target.kind not in KINDS:
            raise ValueError(f"extra target: expected one of {', '.join(KINDS)}, got {target.kind!r}")
        if not 0 <= target.bone < skeleton.count:
            raise ValueError(f"extra target: expected a bone from 0 to {skeleton.count - 1}, got {target.bone}")
        if point.shape != (3,) or not np.isfinite(point).all():
            raise ValueError(f"extra target: expected a point of 3 finite numbers, got {target.point}")
        if not 0 <= target.weight <= 1:
            raise ValueError(f"extra target: expected a weight from 0 to 1, got {target.weight:g}")
        bone, below = target.bone, np.flatnonzero(skeleton.parents == target.bone)
        ends = int(skeleton.parents[bone]), int(below[0]) if len(below) else -1
        if target.kind == "pole" and min(ends) < 0:
            raise ValueError(f"extra target: {skeleton.names[bone]} is no forearm or shin: it has no joint that points")
        if target.weight > 0:
            at = point @ skeleton.axes.T / skeleton.leg_length
            eyes = EYES if bone in skeleton.effectors else 0.0
            made.append(Extra(target.kind, bone, at, float(target.weight), ends, eyes))
    return tuple(made)


def missed(extra: Extra, orientations: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """(K) what a pose misses: the way of a place (3), the rotation vector of a turn (3), or the way of a joint about its limb (1)."""
    if extra.kind == "place":
        return np.asarray(extra.point - heads[extra.bone])
    if extra.kind == "aim":
        front, to, _ = _sight(extra, orientations, heads)
        axis = np.cross(front, to)
        sine = math.sqrt(float(axis @ axis))
        return np.asarray(axis * (math.atan2(sine, float(front @ to)) / max(sine, 1e-9)))
    _, out, to, axis = _limb(extra, heads)
    angle = math.atan2(float(axis @ np.cross(out, to)), float(out @ to))
    return np.array([angle * math.sqrt(float(out @ out))])


def slope(extra: Extra, orientations: np.ndarray, heads: np.ndarray) -> Slope:
    """The slopes where little is missed."""
    if extra.kind == "place":
        return Slope([(extra.bone, np.eye(3))], None)
    if extra.kind == "aim":
        front, _, distance = _sight(extra, orientations, heads)
        x, y, z = front
        across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) / max(distance, 1e-3)
        up = orientations[extra.bone, :, 2] * extra.eyes
        lever = np.array(
            [[0, up[2], -up[1]], [-up[2], 0, up[0]], [up[1], -up[0], 0]]
        )  # a turn w moves the eyes by w x up
        return Slope([(extra.bone, across)], np.eye(3) - np.outer(front, front) + across @ lever)
    share, out, to, axis = _limb(extra, heads)
    size = math.sqrt(float(out @ out))
    along = np.cross(axis, out)[None] / max(size, 1e-9)
    (top, end), pole = extra.ends, extra.point
    line = heads[end] - heads[top]
    at = float(line @ (pole - heads[top])) / max(float(line @ line), 1e-9)  # of the pole, along the limb
    ratio = size / max(math.sqrt(float(to @ to)), 1e-3)
    first, last = share - 1 + ratio * (1 - at), -share + ratio * at
    return Slope([(extra.bone, along), (top, first * along), (end, last * along)], None)


def _sight(extra: Extra, orientations: np.ndarray, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The bone's front, the way to what it should face, both unit vectors (3), and how far that is."""
    turn = orientations[extra.bone]
    to = extra.point - heads[extra.bone] - turn[:, 2] * extra.eyes
    distance = math.sqrt(float(to @ to))
    return -turn[:, 1], to / max(distance, 1e-9), distance


def _limb(extra: Extra, heads: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Where along the limb its joint is, the ways from the limb's line to the joint and to the pole (3), the line's unit vector."""
    top, end = heads[extra.ends[0]], heads[extra.ends[1]]
    line = end - top
    length = math.sqrt(float(line @ line))
    axis = line / max(length, 1e-9)
    joint, pole = heads[extra.bone] - top, extra.point - top
    along = float(axis @ joint)
    return along / max(length, 1e-9), joint - axis * along, pole - axis * float(axis @ pole), axis
