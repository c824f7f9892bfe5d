# SPDX-License-Identifier: GPL-3.0-or-later
"""The conditions of a drag: what each pose misses of them, what that costs, and their slopes.

A condition is a row: a number that is missing, a variance, and lever arms (J, 3), so that a small turn w of each bone about its
head [rad, core axes] and a way t of the Hips change the number by the sum of arm . w, plus way . t. One-sided conditions press
while what is missing is positive. What the pose that a drag begins with violates may stay violated as much.

Leg lengths, radians, core axes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..core import quick_rotations as quick
from ..core.skeleton import Skeleton
from .body_shape import METRE, BodyShape

NEAR = 0.06  # one-sided conditions nearer than this may begin to press within a step
FARTHEST = 0.12  # a step aims at most so far
HARD = 1e-5  # variance by which held effectors count in the cost; steps meet them exactly
SOFT_FLOOR = 0.02  # variance of fingertips in the soft zone above the floor
FADE = 0.3  # way of a target after which a body that began out of balance is back in it by 1 - 1/e
UP = np.array([0.0, 0, 1])
AHEAD = np.array([0.0, -1, 0])
_CROSS = np.stack([np.cross(row, np.eye(3)) for row in np.eye(3)])  # [c, k] = e_c x e_k
_TO_AXES = _CROSS.reshape(3, 9)
_ABOUT = _CROSS.transpose(1, 0, 2).reshape(3, 9)


@dataclass(frozen=True)
class DragSettings:
    """How strong each condition is. Variances are in squared leg lengths or radians per unit of cost: smaller is stiffer."""

    limits: float | None = 0.02
    """Variance of joint limits; None turns the condition off, here and below."""
    floor: float | None = 1e-4
    """Variance of points above the floor."""
    apart: float | None = 1e-3
    """Variance of parts of the body out of each other."""
    balance: float | None = 2.5e-4
    """Variance of the centre of mass over what stands."""
    sway: float = 0.02
    """How far it may be outside: people who reach lean on their toes."""
    upright: float | None = 0.01
    """Variance of the chest leaning back more than ``lean_back``; leaning ahead is free."""
    lean_back: float = 0.2
    planted: float = 0.003
    """Variance of the place of feet that stand and are neither held nor dragged."""
    planted_turn: float = 0.05
    force: float = 400.0
    """Most force of a dragged target, at the target; it falls to half at ``reach``."""
    reach: float = 0.8
    exact: float = 1e-6
    """Variance of a dragged target that is nearly reached."""
    smooth: float = 0.3
    """Weight of staying near the answer before, in the same metric."""
    margin: float = 0.005
    """Distance kept from the floor and between parts."""
    soft_floor: float = 0.06
    """Height at which fingertips begin to feel the floor, so that hands bend in time."""
    steps: int = 12
    """Most steps of one answer."""


class Pose(NamedTuple):
    """A pose, and the bent one at which slopes are taken."""

    turns: np.ndarray  # (J, 3, 3) relative to the parent
    orientations: np.ndarray  # (J, 3, 3) relative to the T-pose
    heads: np.ndarray  # (J, 3)
    slope_orientations: np.ndarray  # (J, 3, 3)
    slope_heads: np.ndarray  # (J, 3)


class Targets(NamedTuple):
    """Where effectors were when the drag began."""

    positions: np.ndarray  # (E, 3)
    orientations: np.ndarray  # (E, 3, 3)


def skew_products(arms: np.ndarray, ways: np.ndarray, carried: np.ndarray) -> np.ndarray:
    """Slopes (K, 3 J + 3) of rows with ``arms`` (K, J, 3) and ``ways`` (K, 3), bones' changes ``carried`` (J, 3, 3) by them."""
    turned = np.matmul(arms.transpose(1, 0, 2), carried).transpose(1, 0, 2)
    return np.concatenate([turned.reshape(len(arms), -1), ways], axis=1)


@dataclass
class Conditions:
    """The conditions of one drag; :meth:`begin` for each set of targets, :meth:`update` for each pose, then :meth:`slopes`."""

    skeleton: Skeleton
    shape: BodyShape
    settings: DragSettings
    ground: float
    ends: np.ndarray  # (E)
    above: np.ndarray  # (J, J) row's bone is moved by column's
    standing: np.ndarray  # (E) bool: feet that stand when the drag begins
    allowed_floor: np.ndarray  # (K) <= 0
    allowed_pairs: np.ndarray  # (M) >= 0
    allowed_limits: np.ndarray  # (J) >= 0
    allowed_balance: float
    allowed_back: float
    missing: np.ndarray = field(default_factory=lambda: np.zeros(0))
    variances: np.ndarray = field(default_factory=lambda: np.zeros(0))
    one_sided: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def begin(self, targets: np.ndarray, use: np.ndarray, moved: np.ndarray, start: Targets, travel: float) -> None:
        """Take targets (E, 3) for the effectors in ``use``, of which those ``moved`` are dragged and the others held."""
        self._targets, self._start, self._travel = targets, start, travel
        self._held, self._dragged = np.flatnonzero(use & ~moved), np.flatnonzero(use & moved)
        self._planted = np.flatnonzero(self.standing & ~use)

    def update(self, pose: Pose, back: np.ndarray, over: np.ndarray) -> float:
        """Look at a pose; returns its cost. ``back`` (J, 3) leads each bone into its limits, which it is ``over`` (J) by."""
        self._pose = pose
        self._rows: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]] = []
        cost = self._kept(self._held, 0.0, 0.0)
        cost += self._kept(self._planted, self.settings.planted, self.settings.planted_turn)
        cost += self._reached()
        self._inside_limits(back, over)
        self._above_floor()
        self._out_of_itself()
        self._not_leaning_back()
        self._balanced()
        self.missing = np.concatenate([row[2] for row in self._rows]) if self._rows else np.zeros(0)
        self.variances = np.concatenate([row[3] for row in self._rows]) if self._rows else np.zeros(0)
        self.one_sided = np.concatenate([np.full(len(row[2]), row[4]) for row in self._rows] or [np.zeros(0, bool)])
        pressing = np.maximum(self.missing[self.one_sided], 0)
        return cost + 0.5 * float(np.sum(pressing**2 / self.variances[self.one_sided]))

    def slopes(self, carried: np.ndarray) -> np.ndarray:
        """(K, 3 J + 3) by how much each condition's number grows with a change; ``carried`` as in :func:`skew_products`."""
        if not self._rows:
            return np.zeros((0, 3 * self.skeleton.count + 3))
        return skew_products(
            np.concatenate([r[0] for r in self._rows]), np.concatenate([r[1] for r in self._rows]), carried
        )

    def exactly(self, pose: Pose, near: float) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Arms, what is missing and ways of held effectors, and of dragged ones within ``near``; None where there are none."""
        rows = []
        for e in (*self._held, *self._dragged):
            bone, is_held = self.ends[e], e in self._held
            off = (self._start.positions[e] if is_held else self._targets[e]) - pose.heads[bone]
            if not is_held and np.linalg.norm(off) > near:
                continue
            lever = (pose.heads[bone] - pose.heads) * self.above[bone][:, None]
            rows.append((_along_axes(lever), off, np.eye(3)))
            if is_held:
                rows.append((self._turn_arms(bone), self._turned(pose, e), np.zeros((3, 3))))
        if not rows:
            return None
        arms, missing, ways = (np.concatenate(part) for part in zip(*rows, strict=True))
        return arms, missing, ways

    # ------------------------------------------------------------------ one kind each

    def _add(
        self, arms: np.ndarray, ways: np.ndarray, missing: np.ndarray, variance: np.ndarray | float, one: bool
    ) -> None:
        self._rows.append((arms, ways, missing, np.broadcast_to(np.asarray(variance, float), missing.shape), one))

    def _kept(self, effectors: np.ndarray, variance: float, turn_variance: float) -> float:
        """Effectors that keep their place and orientation."""
        cost = 0.0
        for e in effectors:
            bone = self.ends[e]
            off, turned = self._start.positions[e] - self._pose.heads[bone], self._turned(self._pose, e)
            self._add(self._place_arms(bone), np.eye(3), off, variance, False)
            self._add(self._turn_arms(bone), np.zeros((3, 3)), turned, turn_variance, False)
            cost += 0.5 * float(off @ off / max(variance, HARD) + turned @ turned / max(turn_variance, HARD))
        return cost

    def _reached(self) -> float:
        """Dragged effectors: a pull whose force is ``force / (1 + distance / reach)``."""
        settings, cost = self.settings, 0.0
        for e in self._dragged:
            bone = self.ends[e]
            off = self._targets[e] - self._pose.heads[bone]
            distance = float(np.linalg.norm(off))
            aimed = min(distance, FARTHEST)
            variance = max(settings.exact, aimed / settings.force * (1 + distance / settings.reach))
            self._add(self._place_arms(bone), np.eye(3), off * (aimed / max(distance, 1e-9)), variance, False)
            cost += settings.force * settings.reach * float(np.log1p(distance / settings.reach))
        return cost

    def _inside_limits(self, back: np.ndarray, over: np.ndarray) -> None:
        if self.settings.limits is None:
            return
        excess = over - self.allowed_limits
        bones = np.flatnonzero(excess > 1e-6)
        bones = bones[bones > 0]
        arms = np.zeros((len(bones), self.skeleton.count, 3))
        parents = self._pose.orientations[self.skeleton.parents[bones]]
        arms[np.arange(len(bones)), bones] = np.einsum("kab,kb->ka", parents, back[bones] / over[bones, None])
        self._add(arms, np.zeros((len(bones), 3)), excess[bones], self.settings.limits, True)

    def _above_floor(self) -> None:
        settings, shape = self.settings, self.shape
        if settings.floor is None:
            return
        points = shape.points(self._pose.orientations, self._pose.heads)
        gap = points[:, 2] - shape.point_clearance - self.ground - settings.margin - self.allowed_floor
        low = np.flatnonzero(gap < NEAR)
        self._add_up(points, low, -gap[low], settings.floor)
        soft = shape.fingertips[gap[shape.fingertips] < settings.soft_floor]
        self._add_up(points, soft, settings.soft_floor - gap[soft], SOFT_FLOOR)

    def _add_up(self, points: np.ndarray, which: np.ndarray, missing: np.ndarray, variance: float) -> None:
        up = np.tile(UP, (len(which), 1))
        self._add(self._point_arms(self.shape.point_bones[which], points[which], up), up, missing, variance, True)

    def _out_of_itself(self) -> None:
        if self.settings.apart is None or not len(self.shape.pairs):
            return
        gaps = self.shape.gaps(self._pose.orientations, self._pose.heads)
        missing = self.settings.margin - gaps.gap - self.allowed_pairs
        near = np.flatnonzero(missing > -NEAR)
        arms = self._point_arms(gaps.first_bone[near], gaps.first[near], gaps.normal[near])
        arms -= self._point_arms(gaps.second_bone[near], gaps.second[near], gaps.normal[near])
        self._add(arms, np.zeros((len(near), 3)), missing[near], self.settings.apart, True)

    def _not_leaning_back(self) -> None:
        settings, chest = self.settings, self.shape.chest
        if settings.upright is None or chest < 0:
            return
        lean, axis = leaning_back(self._pose, chest)
        excess = lean - max(self.allowed_back, settings.lean_back)
        if excess > 0:
            arms = (axis * self.above[chest][:, None])[None]
            self._add(arms, np.zeros((1, 3)), np.array([excess]), settings.upright, True)

    def _balanced(self) -> None:
        if self.settings.balance is None or not self.skeleton.feet:
            return
        pose, shape = self._pose, self.shape
        outside, way = shape.balance(pose.orientations, pose.heads, self.ground)
        excess = outside - self.settings.sway - max(self.allowed_balance, 0) * np.exp(-self._travel / FADE)
        if excess > -NEAR:
            moved = shape.mass @ self.above  # (J) mass that each bone carries
            lever = (shape.mass * self.above.T) @ pose.heads - moved[:, None] * pose.heads
            arms = lever @ (way @ _ABOUT).reshape(3, 3)
            self._add(arms[None], way[None], np.array([excess]), self.settings.balance, True)

    # ------------------------------------------------------------------ arms

    def _place_arms(self, bone: int) -> np.ndarray:
        """(3, J, 3) of a bone's head along the three axes, at the bent pose."""
        heads = self._pose.slope_heads
        return _along_axes((heads[bone] - heads) * self.above[bone][:, None])

    def _turn_arms(self, bone: int) -> np.ndarray:
        """(3, J, 3) of a bone's orientation about the three axes."""
        return np.asarray(np.eye(3)[:, None, :] * self.above[bone][None, :, None])

    def _point_arms(self, bones: np.ndarray, points: np.ndarray, ways: np.ndarray) -> np.ndarray:
        """(K, J, 3) of ``points`` (K, 3) that ``bones`` (K) carry along ``ways`` (K, 3), at the bent pose."""
        bent = self._pose.heads - self._pose.slope_heads
        lever = points[:, None] - bent[bones][:, None] - self._pose.slope_heads
        return np.asarray((lever * self.above[bones][:, :, None]) @ (ways @ _ABOUT).reshape(-1, 3, 3))

    def _turned(self, pose: Pose, effector: int) -> np.ndarray:
        """(3) rotation vector back to the orientation of the start."""
        back = self._start.orientations[effector] @ pose.orientations[self.ends[effector]].T
        return np.asarray(quick.axis_angle_from_matrix(back[None])[0])


def make_conditions(
    skeleton: Skeleton, shape: BodyShape, settings: DragSettings, pose: Pose, ground: float, over: np.ndarray
) -> Conditions:
    """The conditions of a drag that begins with ``pose``, whose bones are ``over`` (J) their limits; ``ground``: the floor."""
    points = shape.points(pose.orientations, pose.heads)
    low = points[:, 2] - shape.point_clearance - ground
    standing = np.zeros(len(skeleton.effectors), bool)
    for (heel, toe), foot in zip(shape.soles, skeleton.feet, strict=True):
        standing[skeleton.effectors.index(foot)] = min(low[heel], low[toe]) < 0.04 * METRE
    pairs = np.zeros(0)
    if len(shape.pairs):
        pairs = np.maximum(-shape.gaps(pose.orientations, pose.heads).gap, 0)
    outside = shape.balance(pose.orientations, pose.heads, ground)[0] if skeleton.feet else 0.0
    back = leaning_back(pose, shape.chest)[0] if shape.chest >= 0 else 0.0
    return Conditions(
        skeleton,
        shape,
        settings,
        ground,
        np.array(skeleton.effectors),
        skeleton.subtree.T.copy(),
        standing,
        np.minimum(low - settings.margin, 0),
        pairs,
        over,
        outside,
        back,
    )


def leaning_back(pose: Pose, chest: int) -> tuple[float, np.ndarray]:
    """How far the chest leans back from upright, seen from the side [rad], and by how much a turn of it about each axis lessens that (3).

    The side is that of the Hips' facing, which counts as fixed.
    """
    up = pose.orientations[chest] @ UP
    ahead = pose.orientations[0] @ AHEAD
    ahead[2] = 0
    ahead /= max(float(np.linalg.norm(ahead)), 1e-6)
    along, height = float(up @ ahead), max(float(up[2]), 0.1)
    turn = height * ahead - (along if up[2] > 0.1 else 0.0) * UP
    slope = quick.cross(up, turn) / (along**2 + height**2)
    return -float(np.arctan2(along, height)), slope


def _along_axes(lever: np.ndarray) -> np.ndarray:
    """(3, J, 3) arms along the three axes of lever (J, 3)."""
    return np.asarray((lever @ _TO_AXES).reshape(-1, 3, 3).transpose(1, 0, 2))
