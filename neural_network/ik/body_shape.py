# SPDX-License-Identifier: GPL-3.0-or-later
"""The rough shape of a body: points that stay above the floor, parts that stay out of each other, and where its mass is.

Everything is made from the skeleton alone. Lengths are in leg lengths, core axes (Z up, facing -Y); sizes are those of the
reference rig in metres, divided by its leg length. Parts are capsules: a segment and a radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core.skeleton import Skeleton
from ..core.tree import chain, limb

METRE = 1 / 0.945
"""[leg lengths] a metre on the reference rig."""
FINGERS = 0.15 * METRE  # from the wrist to the fingertips
HALF_SOLE = 0.015 * METRE  # half the width of the part of a foot that carries
HEEL = 0.75  # of the height of the ankle above the sole that is kept above the floor
TOES = 0.07 * METRE  # from the toe's head to its tip
CLEARANCE = {"wrist": 0.03, "elbow": 0.04, "knee": 0.05, "hips": 0.1}  # [m] half the thickness above the floor
RADIUS = {
    "trunk": 0.105,
    "head": 0.085,
    "forearm": 0.035,
    "thigh": 0.06,
    "shin": 0.045,
}  # [m] slim, so that clothes may touch
MASS = {"hips": 0.14, "spine": 0.38, "head": 0.08, "upper arm": 0.03, "forearm": 0.02, "thigh": 0.10, "shin": 0.05}
"""Shares of the body's mass, hands with forearms and feet with shins; each is put at the head of its bone, the spine's at its bones.

Near those of Winter, "Biomechanics and Motor Control of Human Movement", 4th ed., table 4.1 (trunk 0.497, head 0.081, upper arm
0.028, forearm and hand 0.022, thigh 0.100, shin and foot 0.061), with a little more in the trunk.
"""
_APART = {
    ("trunk", "head"),
    ("trunk", "forearm"),
    ("head", "forearm"),
    ("head", "thigh"),
    ("head", "shin"),
    ("forearm", "thigh"),
    ("forearm", "shin"),
    ("forearm", "forearm"),
    ("thigh", "thigh"),
    ("shin", "shin"),
}
"""Kinds of parts that must not enter each other."""


@dataclass(frozen=True)
class Hinge:
    """An elbow or a knee."""

    upper: int
    lower: int
    end: int
    axis: np.ndarray
    """(3) unit vector, core axes of the T-pose: turning the lower bone about it by a positive angle flexes the joint."""
    along: np.ndarray
    """(3) unit vector along the lower bone in the T-pose."""
    is_leg: bool


@dataclass(frozen=True)
class BodyShape:
    """The shape of a rig; see the module. K points, C parts, M pairs of parts."""

    point_bones: np.ndarray  # (K)
    point_offsets: np.ndarray  # (K, 3) from the bone's head, T-pose
    point_clearance: np.ndarray  # (K) least height above the floor
    soles: np.ndarray  # (feet, 2) points: heel and tip of the toe
    fingertips: np.ndarray  # (hands) points
    part_bones: np.ndarray  # (C, 2) bones that carry the ends of the segment
    part_offsets: np.ndarray  # (C, 2, 3)
    part_radius: np.ndarray  # (C)
    pairs: np.ndarray  # (M, 2) parts that must not enter each other
    mass: np.ndarray  # (J) sums to 1
    hinges: tuple[Hinge, ...]
    chest: int  # the bone from which arms and head branch off; -1 where that is the Hips, or there are none

    def places(self, orientations: np.ndarray, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The points (K, 3) and the ends of the parts' segments (C, 2, 3) in a pose.

        ``orientations`` (J, 3, 3) are relative to the T-pose, ``heads`` (J, 3).
        """
        bones, offsets = self._carried
        every = heads[bones] + np.matmul(orientations[bones], offsets)[:, :, 0]
        count = len(self.point_bones)
        return every[:count], every[count:].reshape(-1, 2, 3)

    def gaps(self, parts: np.ndarray) -> Gaps:
        """How far apart the pairs of parts are whose segments end at ``parts`` (C, 2, 3)."""
        i, j = self.pairs.T
        a, b = parts[i], parts[j]
        first, second = closest_points(a[:, 0], a[:, 1], b[:, 0], b[:, 1])
        between = first - second
        distance = np.sqrt(np.einsum("mc,mc->m", between, between))
        normal = between / np.maximum(distance, 1e-6)[:, None]
        gap = distance - self.part_radius[i] - self.part_radius[j]
        return Gaps(gap, first, second, normal, self.part_bones[i, 1], self.part_bones[j, 1])

    @cached_property
    def _carried(self) -> tuple[np.ndarray, np.ndarray]:
        """Bones (K + 2 C) and offsets (K + 2 C, 3, 1) of the points and the parts' ends."""
        bones = np.concatenate([self.point_bones, self.part_bones.reshape(-1)])
        return bones, np.concatenate([self.point_offsets, self.part_offsets.reshape(-1, 3)])[:, :, None]

    @cached_property
    def _ankles(self) -> list[float]:
        """Heights of the ankles above the soles."""
        return [clearance / HEEL for clearance in self.point_clearance[self.soles[:, 0]].tolist()]

    def balance(self, points: np.ndarray, heads: np.ndarray, ground: float) -> Outside:
        """How far the centre of mass is outside what the body stands on.

        ``points`` (K, 3) and ``heads`` (J, 3) are those of a pose. A foot counts less the higher it is lifted, and a hand more
        the nearer it comes to the floor at height ``ground``, so that nothing jumps.
        """
        x, y = (self.mass @ heads)[:2].tolist()
        soles = points[self.soles].tolist()  # [foot][heel, tip][x, y, z]; in plain arithmetic: there are few
        shares = [
            _fade(min(heel[2] - ankle, tip[2]) - ground) for (heel, tip), ankle in zip(soles, self._ankles, strict=True)
        ]
        most = max(shares)
        lowest = shares.index(most)
        heel, tip = soles[lowest]
        at_x, at_y = 0.5 * (heel[0] + tip[0]), 0.5 * (heel[1] + tip[1])
        stands = []
        for share, sole in zip(shares, soles, strict=True):
            share = share / most if most > 0.05 else 1.0
            stands += [(at_x + share * (a - at_x), at_y + share * (b - at_y)) for a, b in _corners(*sole)]
        at_x, at_y = sum(a for a, _ in stands) / len(stands), sum(b for _, b in stands) / len(stands)
        for hand in points[self.fingertips].tolist():
            share = _fade(hand[2] - ground - 0.03)
            if share > 0:
                stands.append((at_x + share * (hand[0] - at_x), at_y + share * (hand[1] - at_y)))
        return outside_hull((x, y), stands)


@dataclass(frozen=True)
class Gaps:
    """How far apart pairs of parts (M) are."""

    gap: np.ndarray  # (M) [leg lengths] between the surfaces; negative inside
    first: np.ndarray  # (M, 3) nearest point on the first part's segment
    second: np.ndarray  # (M, 3) likewise
    normal: np.ndarray  # (M, 3) unit vector from the second to the first
    first_bone: np.ndarray  # (M) the bone that moves the first point
    second_bone: np.ndarray  # (M)


def make_shape(skeleton: Skeleton) -> BodyShape:
    """The shape of ``skeleton``. Effectors that are no feet are hands, but for the highest near the middle, the head.

    Rigs with another number of hands and feet get points and mass alike; parts of kinds they do not have are left out.
    """
    rest = skeleton.rest_core[:, :3, 3] / skeleton.leg_length
    ends = list(skeleton.effectors)
    others = [e for e in ends if e not in skeleton.feet]
    width = max(float(np.abs(rest[ends, 0] - rest[0, 0]).max()), 1e-9)
    middle = [e for e in others if abs(rest[e, 0] - rest[0, 0]) < 0.1 * width]
    head = max(middle, key=lambda e: rest[e, 2]) if middle else -1
    build = _Build(skeleton, rest)
    soles = [build.leg(k) for k in range(len(skeleton.feet))]
    fingertips = [build.arm(e) for e in others if e != head]
    build.point(0, np.zeros(3), CLEARANCE["hips"] * METRE)
    build.mass[0] += MASS["hips"]
    chest = build.trunk(head, [e for e in others if e != head]) if head >= 0 else -1
    return build.done(soles, fingertips, chest)


class _Build:
    """Collects points, parts and masses."""

    def __init__(self, skeleton: Skeleton, rest: np.ndarray) -> None:
        self.skeleton, self.rest = skeleton, rest
        self.mass = np.zeros(skeleton.count)
        self.points: list[tuple[int, np.ndarray, float]] = []
        self.parts: list[tuple[str, tuple[int, np.ndarray], tuple[int, np.ndarray]]] = []
        self.hinges: list[Hinge] = []

    def point(self, bone: int, offset: np.ndarray, clearance: float) -> int:
        self.points.append((bone, offset, clearance))
        return len(self.points) - 1

    def leg(self, k: int) -> tuple[int, int]:
        rig, rest = self.skeleton, self.rest
        (upper, lower, foot), toe, none = rig.legs[k], rig.toes[k], np.zeros(3)
        ankle = rest[foot, 2] - rig.floor / rig.leg_length
        heel = self.point(foot, none, HEEL * max(ankle, 0.0))
        tip = self.point(toe, np.array([0, -TOES, 0]), 0.0)
        self.point(lower, none, CLEARANCE["knee"] * METRE)
        thigh, shin = rest[lower] - rest[upper], rest[foot] - rest[lower]
        self.parts.append(("thigh", (upper, 0.4 * thigh), (upper, thigh)))  # thighs meet at the hips
        self.parts.append(("shin", (lower, none), (lower, shin)))
        self.mass[upper] += MASS["thigh"]
        self.mass[lower] += MASS["shin"]
        self._hinge(upper, lower, foot, np.array([1.0, 0, 0]), is_leg=True)
        return heel, tip

    def arm(self, hand: int) -> int:
        rig, rest = self.skeleton, self.rest
        upper, lower, _ = limb(rig.parents, rig.rest_arm[:, :3, 3], hand)
        along = _unit(rest[hand] - rest[lower])
        tip = self.point(hand, FINGERS * along, 0.0)
        self.point(hand, np.zeros(3), CLEARANCE["wrist"] * METRE)
        self.point(lower, np.zeros(3), CLEARANCE["elbow"] * METRE)
        self.parts.append(("forearm", (lower, np.zeros(3)), (hand, FINGERS * along)))
        self.mass[upper] += MASS["upper arm"]
        self.mass[lower] += MASS["forearm"]
        self._hinge(upper, lower, hand, np.cross(along, [0, -1.0, 0]), is_leg=False)
        return tip

    def trunk(self, head: int, hands: list[int]) -> int:
        rig, up = self.skeleton, np.array([0, 0, 1.0])
        way = chain(rig.parents, head)[::-1]
        arms = [set(chain(rig.parents, hand)) for hand in hands]
        shared = [bone for bone in way[:-1] if all(bone in arm for arm in arms)]
        chest = shared[-1] if shared else 0
        spine = [bone for bone in way[1:] if bone != head and way.index(bone) <= way.index(chest)] or [0]
        self.mass[spine] += MASS["spine"] / len(spine)
        self.mass[head] += MASS["head"]
        self.point(head, 0.2 * METRE * up, 0.0)
        self.parts.append(("trunk", (0, np.zeros(3)), (chest, 0.05 * METRE * up)))
        self.parts.append(("head", (head, 0.05 * METRE * up), (head, 0.2 * METRE * up)))
        return chest or -1

    def _hinge(self, upper: int, lower: int, end: int, axis: np.ndarray, is_leg: bool) -> None:
        length = float(np.linalg.norm(axis))
        if upper != lower and length > 0.5:
            self.hinges.append(
                Hinge(upper, lower, end, axis / length, _unit(self.rest[end] - self.rest[lower]), is_leg)
            )

    def done(self, soles: list[tuple[int, int]], fingertips: list[int], chest: int) -> BodyShape:
        kinds = [kind for kind, _, _ in self.parts]
        pairs = [
            (i, j)
            for i, a in enumerate(kinds)
            for j, b in enumerate(kinds[i + 1 :], i + 1)
            if (a, b) in _APART or (b, a) in _APART
        ]
        return BodyShape(
            np.array([bone for bone, _, _ in self.points]),
            np.array([offset for _, offset, _ in self.points]),
            np.array([clearance for _, _, clearance in self.points]),
            np.array(soles, int).reshape(-1, 2),
            np.array(fingertips, int),
            np.array([[a[0], b[0]] for _, a, b in self.parts], int).reshape(-1, 2),
            np.array([[a[1], b[1]] for _, a, b in self.parts]).reshape(-1, 2, 3),
            np.array([RADIUS[kind] * METRE for kind in kinds]),
            np.array(pairs, int).reshape(-1, 2),
            self.mass / self.mass.sum(),
            tuple(self.hinges),
            chest,
        )


def closest_points(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest points (M, 3) of the segments a-b and c-d, each (M, 3).

    Method: Ericson, "Real-Time Collision Detection" (2005), section 5.1.9. Of parallel segments, points beside each other.
    """
    u, v, w = b - a, d - c, a - c
    uu, uv, vv = (np.einsum("mc,mc->m", x, y) for x, y in ((u, u), (u, v), (v, v)))
    uw, vw = np.einsum("mc,mc->m", u, w), np.einsum("mc,mc->m", v, w)
    across = uu * vv - uv * uv
    s = np.clip(np.where(across > 1e-9, (uv * vw - vv * uw) / np.maximum(across, 1e-9), 0.5), 0, 1)
    t = np.clip((uv * s + vw) / np.maximum(vv, 1e-12), 0, 1)
    s = np.clip((uv * t - uw) / np.maximum(uu, 1e-12), 0, 1)
    return a + s[:, None] * u, c + t[:, None] * v


class Outside(NamedTuple):
    """Where a point is, seen from a convex hull in the plane."""

    distance: float  # outside, negative inside
    way: tuple[float, float]  # the way back, a unit vector; inside, from the nearest edge inwards
    at_corner: bool  # whether the nearest place is a corner
    edges: list[
        tuple[float, float, float]
    ]  # of the other edges: distance beyond them, negative within, and the way back


def outside_hull(point: tuple[float, float], corners: list[tuple[float, float]]) -> Outside:
    """Where ``point`` is, seen from the convex hull of ``corners`` (K). Without corners: 0 and no way.

    In plain arithmetic: there are few.
    """
    hull = convex_hull(corners)
    if not hull:
        return Outside(0.0, (0.0, 0.0), False, [])
    x, y = point
    nearest, way, inside, at_corner, best = math.inf, (0.0, 0.0), len(hull) > 2, False, -1
    edges: list[tuple[float, float, float]] = []
    ax, ay = hull[-1]
    for bx, by in hull:
        ex, ey, px, py = bx - ax, by - ay, x - ax, y - ay
        square = max(ex * ex + ey * ey, 1e-12)
        share = min(max((px * ex + py * ey) / square, 0.0), 1.0)
        to = share * ex - px, share * ey - py
        distance = math.hypot(*to)
        beyond = ey * px - ex * py
        inside = inside and beyond <= 0
        if distance < nearest:
            nearest, way, at_corner, best = distance, to, share in (0.0, 1.0), len(edges)
        length = math.sqrt(square)
        edges.append((beyond / length, -ey / length, ex / length))
        ax, ay = bx, by
    sign = -1.0 if inside else 1.0
    scale = sign / max(nearest, 1e-9)
    del edges[best]
    if len(hull) < 3:  # a line has no inside
        edges = []
    return Outside(sign * nearest, (way[0] * scale, way[1] * scale), at_corner and not inside, edges)


def convex_hull(corners: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the convex hull of points (K), counter-clockwise (Andrew's monotone chain)."""
    points = sorted(set(corners))
    if len(points) < 3:
        return points
    hull: list[tuple[float, float]] = []
    for part in (points, points[::-1]):
        line: list[tuple[float, float]] = []
        for x, y in part:
            while len(line) > 1:
                (ax, ay), (bx, by) = line[-2:]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                    break
                line.pop()
            line.append((x, y))
        hull += line[:-1]
    return hull


def _corners(heel: list[float], tip: list[float]) -> list[tuple[float, float]]:
    """The corners of a sole on the floor, from the middle of its heel and toe."""
    across_x, across_y = heel[1] - tip[1], tip[0] - heel[0]
    scale = HALF_SOLE / max(math.hypot(across_x, across_y), 1e-6)
    across_x, across_y = scale * across_x, scale * across_y
    return [(x + sign * across_x, y + sign * across_y) for sign in (1, -1) for x, y, _ in (heel, tip)]


def _fade(height: float) -> float:
    """1 on the floor, 0 from 0.16 m (of the reference rig) above it on, smooth between."""
    t = min(max(height / (0.16 * METRE), 0.0), 1.0)
    return 1 - t * t * (3 - 2 * t)


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12))
