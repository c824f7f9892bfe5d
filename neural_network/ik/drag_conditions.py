# SPDX-License-Identifier: GPL-3.0-or-later
"""The conditions of a drag: what each pose misses of them, what that costs, and their slopes.

A condition is a row: a number that is missing, a variance, and lever arms (J, 3), so that a small turn w of each bone about its
head [rad, core axes] and a way t of the Hips change the number by the sum of arm . w, plus way . t. One-sided conditions press
while what is missing is positive. What the pose that a drag begins with violates may stay violated as much.

Leg lengths, radians, core axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core import quick_rotations as quick
from ..core.skeleton import Skeleton
from .body_shape import METRE, BodyShape, Gaps, Outside
from .extra_targets import PULLS, Extra, missed, slope
from .quick_limits import Beyond, JointLimits
from .trunk import leaning_back, tilted_by, turned_from

NEAR = 0.06  # one-sided conditions nearer than this may begin to press within a step
NEAR_LIMIT = 0.15  # [rad] as NEAR, of joint limits
FARTHEST = 0.12  # a step aims at most so far
SLACK = 1e-3  # [leg lengths] of a dragged target that costs nothing, as exact steps go it anyway
LITTLE = 2e-3  # [leg lengths, rad] what a step that hits a target leaves at most
FARTHEST_TURN = 0.3  # [rad]
TURN_FORCE, TURN_REACH = 60.0, 1.0  # of a dragged orientation, as DragSettings.force and reach
SOFT = 0.03  # variance of a place or an orientation of weight 0.5
HARD = 1e-5  # variance by which held effectors count in the cost; steps meet them exactly
HINGE, ANKLE = 0.15, 0.5  # shares of the variance of joint limits: elbows and knees hardly bend the wrong way
SOFT_FLOOR = 0.02  # variance of fingertips in the soft zone above the floor
UPRIGHT, FAR_OUT = 0.3, 0.15  # least height of the chest's up and most out of balance where a body is on its feet
FADE = 0.3  # way of a target after which a body that began out of balance is back in it by 1 - 1/e
_HALF_AXIS = 0.5 * quick.AXIS[:, 1:]  # (9, 3) a matrix to its rotation vector, if that is small
_AXES, _NO_WAYS = np.eye(3), np.zeros((3, 3))
_CROSS = np.stack([np.cross(row, np.eye(3)) for row in np.eye(3)])  # [c, k] = e_c x e_k
_NOWHERE = Outside(-math.inf, (0.0, 0.0), False, [])
_TO_AXES = _CROSS.reshape(3, 9)
_ABOUT = _CROSS.transpose(1, 0, 2).reshape(3, 9)


@dataclass(frozen=True)
class DragSettings:
    """How strong each condition is. Variances are in squared leg lengths or radians per unit of cost: smaller is stiffer."""

    limits: float | None = 0.02
    """Variance of joint limits; None turns the condition off, here and below."""
    strict: bool = False
    """Dragged targets are missed rather than joint limits left."""
    floor: float | None = 1e-4
    """Variance of points above the floor."""
    apart: float | None = 1e-3
    """Variance of parts of the body out of each other."""
    balance: float | None = 1.1e-4
    """Variance of the centre of mass over what stands."""
    sway: float = 0.016
    """How far it may be outside: people who reach lean on their toes."""
    upright: float | None = 0.01
    """Variance of the chest leaning back more than ``lean_back``; leaning ahead is free."""
    lean_back: float = 0.2
    folded: float | None = 0.005
    """Variance of the chest turned from the Hips by more than ``most_folded``: each joint of the spine has its limit, but they do
    not reach it all at once."""
    most_folded: float = 1.35
    tilted: float | None = 0.1
    """Variance of the chest tilted from upright by more than ``most_tilted``, in whatever direction."""
    most_tilted: float = 0.3
    planted: float = 0.003
    """Variance of the place of feet that stand and are neither held nor dragged."""
    planted_turn: float = 0.05
    force: float = 900.0
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
    """A pose."""

    turns: np.ndarray  # (J, 3, 3) relative to the parent
    orientations: np.ndarray  # (J, 3, 3) relative to the T-pose
    heads: np.ndarray  # (J, 3)


class Targets(NamedTuple):
    """Where the ends, the effectors and the Hips, were when the drag began."""

    positions: np.ndarray  # (E + 1, 3)
    orientations: np.ndarray  # (E + 1, 3, 3)


class Aims(NamedTuple):
    """What the ends, the effectors and then the Hips, are to do (E + 1)."""

    positions: np.ndarray  # (E + 1, 3)
    orientations: np.ndarray  # (E + 1, 3, 3)
    weights: np.ndarray  # (E + 1) 0 free, 1 exact
    orientation_weights: np.ndarray  # (E + 1)
    moved: np.ndarray  # (E + 1) bool: the place is dragged, else held
    turned: np.ndarray  # (E + 1) bool: the orientation is dragged; else held where the place is
    firm: np.ndarray  # (E + 1) bool: held wherever they are to be


class Measured(NamedTuple):
    """What a pose misses of each kind of condition, and what that costs; :meth:`Conditions.rows` makes rows of it."""

    cost: float
    balance: float  # the part of the cost that is being out of balance
    off: np.ndarray  # (E + 1, 3) from the ends to where they are kept or dragged to
    turned: np.ndarray  # (K, 3) rotation vectors to the orientations that ends are kept in, then of those dragged
    beyond: Beyond
    limits: np.ndarray  # (2 K) how far bones are beyond their limits and what is allowed
    points: np.ndarray  # (K, 3)
    height: np.ndarray  # (K) of the points above what is allowed
    gaps: Gaps
    inside: np.ndarray  # (M) how far parts are in each other, negative apart
    lean: float
    tilted: float
    tilt: np.ndarray  # (3) likewise
    folded: float
    fold: np.ndarray  # (3) a turn of the chest about it lessens that
    extras: list[np.ndarray]  # what other targets miss
    outside: float  # of balance
    stands: Outside


class Met(NamedTuple):
    """Ends that are to be hit."""

    placed: np.ndarray  # (K) whose places
    turned: np.ndarray  # (K) whose orientations

    def same(self, other: Met | None) -> bool:
        """Whether these are the same ends as ``other``."""
        return other is not None and all(np.array_equal(a, b) for a, b in zip(self, other, strict=True))


class Rows(NamedTuple):
    """Conditions (K) as rows of the system; see the module."""

    arms: np.ndarray  # (K, J, 3)
    ways: np.ndarray  # (K, 3)
    missing: np.ndarray  # (K)
    variances: np.ndarray  # (K)
    one_sided: np.ndarray  # (K) bool


def skew_products(arms: np.ndarray, ways: np.ndarray, carried: np.ndarray) -> np.ndarray:
    """Slopes (K, 3 J + 3) of rows with ``arms`` (K, J, 3) and ``ways`` (K, 3), bones' changes ``carried`` (J, 3, 3) by them."""
    turned = np.matmul(arms.transpose(1, 0, 2), carried).transpose(1, 0, 2)
    return np.concatenate([turned.reshape(len(arms), -1), ways], axis=1)


@dataclass
class Conditions:
    """The conditions of one drag; :meth:`begin` for each set of targets, :meth:`measure` for each pose, then :meth:`rows`."""

    skeleton: Skeleton
    shape: BodyShape
    settings: DragSettings
    ground: float
    ends: np.ndarray  # (E + 1) bones
    limits: JointLimits
    above: np.ndarray  # (J, J) row's bone is moved by column's
    standing: np.ndarray  # (E + 1) bool: feet that stand when the drag begins
    allowed_floor: np.ndarray  # (K) <= 0
    allowed_pairs: np.ndarray  # (M) >= 0
    allowed_limits: np.ndarray  # (2 K) >= 0
    limit_shares: np.ndarray  # (2 K) of the variance of joint limits: hinges are stiffer
    allowed_balance: float
    allowed_back: float
    allowed_tilt: float
    allowed_fold: float

    def begin(self, aims: Aims, start: Targets, travel: float, extras: tuple[Extra, ...] = ()) -> None:
        """Take what the ends are to do, and other bones; the farthest end has moved by ``travel`` since the start."""
        self._extras = extras
        settings, use, exact = self.settings, aims.weights > 0, aims.weights == 1
        turn, turn_exact = aims.orientation_weights > 0, aims.orientation_weights == 1
        planted = self.standing & ~use
        dragged = aims.moved & ~aims.firm
        soft, soft_turn = use & ~exact, turn & ~turn_exact & (aims.turned | (use & ~dragged))
        self._dragged, self._held = np.flatnonzero(exact & dragged), np.flatnonzero(exact & ~dragged)
        self._twisted = np.flatnonzero(turn_exact & aims.turned & ~aims.firm)
        self._still = np.flatnonzero(turn_exact & use & ((~aims.turned & ~aims.moved) | aims.firm))
        self._moved, self._start = aims.moved[:, None], start.positions
        self.move(aims.positions)
        self._turn_aims = np.where(aims.turned[:, None, None], aims.orientations, start.orientations)
        variances = np.zeros((2, len(use)))  # of the places and the turns that are kept
        variances[:, planted] = [[settings.planted], [settings.planted_turn]]
        for row, (which, weights) in enumerate(((soft, aims.weights), (soft_turn, aims.orientation_weights))):
            variances[row, which] = SOFT * (1 - weights[which]) / weights[which]
        self._kept = np.concatenate([self._held, np.flatnonzero(planted | soft)])
        self._kept_turns = np.concatenate([self._still, np.flatnonzero((planted & ~aims.turned) | soft_turn)])
        self._variances = [variances[0, self._kept], variances[1, self._kept_turns]]
        self._stiffness = [1 / np.maximum(v, HARD)[:, None] for v in self._variances]
        self._turns = np.concatenate([self._kept_turns, self._twisted])
        self._sway = settings.sway + max(self.allowed_balance, 0) * float(np.exp(-travel / FADE))

    def measure(self, pose: Pose) -> Measured:
        """Look at a pose."""
        settings, shape, kept = self.settings, self.shape, self._kept
        off = self._aims - pose.heads[self.ends]
        turned = self._turned(pose, self._turns)
        kept_off, kept_turned = off[kept], turned[: len(self._kept_turns)]
        cost = 0.5 * float(
            np.sum(self._stiffness[0] * kept_off * kept_off) + np.sum(self._stiffness[1] * kept_turned * kept_turned)
        )
        for e in self._dragged.tolist():
            cost += settings.force * settings.reach * math.log1p(max(_length(off[e]) - SLACK, 0.0) / settings.reach)
        for vector in turned[len(kept_turned) :]:
            cost += TURN_FORCE * TURN_REACH * math.log1p(_length(vector) / TURN_REACH)
        extras = [missed(extra, pose.orientations, pose.heads) for extra in self._extras]
        for extra, vector in zip(self._extras, extras, strict=True):
            force, reach, _, _ = PULLS[extra.kind]
            cost += extra.weight * force * reach * math.log1p(math.sqrt(float(vector @ vector)) / reach)
        points, parts = shape.places(pose.orientations, pose.heads)
        beyond = self.limits.beyond(pose.turns)
        limits = beyond.distance - self.allowed_limits
        if settings.limits is not None:
            cost += _pressing(limits, settings.limits * self.limit_shares)
        height = points[:, 2] - shape.point_clearance - (self.ground + settings.margin) - self.allowed_floor
        if settings.floor is not None:
            cost += _pressing(-height, settings.floor)
            cost += _pressing(settings.soft_floor - height[shape.fingertips], SOFT_FLOOR)
        gaps = shape.gaps(parts)
        inside = settings.margin - gaps.gap - self.allowed_pairs
        if settings.apart is not None:
            cost += _pressing(inside, settings.apart)
        lean = -np.inf
        if settings.upright is not None and shape.chest >= 0:
            lean = leaning_back(pose.orientations, shape.chest)[0] - max(self.allowed_back, settings.lean_back)
            cost += 0.5 * max(lean, 0.0) ** 2 / settings.upright
        tilted, tilt = -np.inf, np.zeros(3)
        if settings.tilted is not None and shape.chest >= 0:
            tilted, tilt = tilted_by(pose.orientations, shape.chest)
            tilted -= max(self.allowed_tilt, settings.most_tilted)
            cost += 0.5 * max(tilted, 0.0) ** 2 / settings.tilted
        folded, fold = -np.inf, np.zeros(3)
        if settings.folded is not None and shape.chest >= 0:
            folded, fold = turned_from(pose.orientations, shape.chest)
            folded -= max(self.allowed_fold, settings.most_folded)
            cost += 0.5 * max(folded, 0.0) ** 2 / settings.folded
        outside, stands, balance = -np.inf, _NOWHERE, 0.0
        if settings.balance is not None and self.skeleton.feet:
            stands = shape.balance(points, pose.heads, self.ground)
            outside = stands.distance - self._sway
            balance = 0.5 * max(outside, 0.0) ** 2 / settings.balance
            cost += balance
        return Measured(
            cost,
            balance,
            off,
            turned,
            beyond,
            limits,
            points,
            height,
            gaps,
            inside,
            lean,
            tilted,
            tilt,
            folded,
            fold,
            extras,
            outside,
            stands,
        )

    def misses(self, found: Measured, by: float = LITTLE) -> bool:
        """Whether a dragged target is missed by more than ``by``."""
        off = found.off[self._dragged]
        return bool((np.einsum("ec,ec->e", off, off) > by**2).any())

    def stretching(self, heads: np.ndarray, upper: list[int], end: list[int], length: np.ndarray) -> np.ndarray:
        """(H) whether limbs, from ``upper`` to ``end`` and ``length`` long, have a dragged end whose target is out of their reach."""
        out = np.zeros(len(end), bool)
        for e in self._dragged.tolist():
            for k in [k for k, bone in enumerate(end) if bone == self.ends[e]]:
                out[k] = _length(self._aims[e] - heads[upper[k]]) > length[k]
        return out

    def rows(self, pose: Pose, bent_heads: np.ndarray, found: Measured) -> Rows:
        """The conditions of a measured pose that press or may begin to, their arms at the bent pose with ``bent_heads`` (J, 3)."""
        settings, shape, build = self.settings, self.shape, _RowBuilder()
        kept, turns, count = self._kept, self._kept_turns, self.skeleton.count
        for which, arms, ways, missing, variances in (
            (kept, self._place_arms(bent_heads, self.ends[kept]), _AXES, found.off[kept], self._variances[0]),
            (turns, self._turn_arms(self.ends[turns]), _NO_WAYS, found.turned[: len(turns)], self._variances[1]),
        ):
            build.add(
                arms.reshape(-1, count, 3),
                np.tile(ways, (len(which), 1)),
                missing.reshape(-1),
                np.repeat(variances, 3),
                False,
            )
        for e in self._dragged.tolist():
            toward, variance = _pull(found.off[e], settings.force, settings.reach, FARTHEST, settings.exact)
            build.add(self._place_arms(bent_heads, self.ends[[e]])[0], _AXES, toward, variance, False)
        for e, turned in zip(self._twisted.tolist(), found.turned[len(turns) :], strict=True):
            toward, variance = _pull(turned, TURN_FORCE, TURN_REACH, FARTHEST_TURN, settings.exact)
            build.add(self._turn_arms(self.ends[[e]])[0], _NO_WAYS, toward, variance, False)
        for extra, vector in zip(self._extras, found.extras, strict=True):
            arms, ways = self._extra_arms(extra, pose, bent_heads)
            force, reach, farthest, exact = PULLS[extra.kind]
            build.add(arms, ways, *_pull(vector, extra.weight * force, reach, farthest, exact), False)
        self._add_limits(build, pose, found)
        self._add_points(build, pose.heads - bent_heads, bent_heads, found)
        if found.lean > 0:
            axis = leaning_back(pose.orientations, shape.chest)[1]
            arms = (axis * self.above[shape.chest][:, None])[None]
            build.add(arms, np.zeros((1, 3)), np.array([found.lean]), settings.upright, True)
        if found.tilted > -NEAR:
            arms = (found.tilt * self.above[shape.chest][:, None])[None]
            build.add(arms, np.zeros((1, 3)), np.array([found.tilted]), settings.tilted, True)
        if found.folded > -NEAR:
            below = self.above[shape.chest] * (np.arange(self.skeleton.count) > 0)
            build.add(
                (found.fold * below[:, None])[None], np.zeros((1, 3)), np.array([found.folded]), settings.folded, True
            )
        self._add_balance(build, pose.heads, found)
        return build.done()

    def move(self, positions: np.ndarray) -> None:
        """Take other places (E + 1, 3) of the dragged ends."""
        self._aims = np.where(self._moved, positions, self._start)

    def within(self, pose: Pose, near: float) -> tuple[Met, np.ndarray] | None:
        """Held ends, and dragged ones within ``near``, and what they miss (K); None where there are none."""
        off, turned = self._aims - pose.heads[self.ends], self._turned(pose, self._turns)
        distances = np.sqrt(np.einsum("ec,ec->e", off, off))
        placed = np.append(self._held, self._dragged[distances[self._dragged] <= near])
        turns = np.arange(len(self._turns))
        angles = np.sqrt(np.einsum("ec,ec->e", turned, turned))
        turns = turns[(turns < len(self._still)) | ((turns >= len(self._kept_turns)) & (angles <= near))]
        if not len(placed) and not len(turns):
            return None
        met = Met(placed, self._turns[turns])
        return met, np.concatenate([off[placed].reshape(-1), turned[turns].reshape(-1)])

    def all_of(self, met: Met) -> bool:
        """Whether these are all that are dragged and held."""
        placed, turns = len(self._held) + len(self._dragged), len(self._still) + len(self._twisted)
        return len(met.placed) == placed and len(met.turned) == turns

    def missing(self, pose: Pose, met: Met) -> np.ndarray:
        """(K) what ends miss; the angles count as small."""
        off = self._aims[met.placed] - pose.heads[self.ends[met.placed]]
        now = pose.orientations[self.ends[met.turned]]
        turn = np.matmul(self._turn_aims[met.turned], now.transpose(0, 2, 1)).reshape(-1, 9)
        return np.concatenate([off.reshape(-1), np.dot(turn, _HALF_AXIS).reshape(-1)])

    def to_hit(self, left: np.ndarray) -> Met | None:
        """Held ends, and dragged ones of which a step leaves little; ``left`` (K) is what it leaves of each row. None if none."""
        at = 3 * (len(self._kept) + len(self._kept_turns))
        count = len(self._dragged)
        off = left[at : at + 3 * (count + len(self._twisted))].reshape(-1, 3)
        little = np.einsum("ec,ec->e", off, off) < LITTLE**2
        placed = np.append(self._held, self._dragged[little[:count]])
        turned = np.append(self._still, self._twisted[little[count:]])
        return Met(placed, turned) if len(placed) or len(turned) else None

    def exactly(self, pose: Pose, met: Met) -> Rows:
        """Rows at the pose itself of ends."""
        arms = np.concatenate(
            [self._place_arms(pose.heads, self.ends[met.placed]), self._turn_arms(self.ends[met.turned])]
        )
        ways = np.zeros((len(arms), 3, 3))
        ways[: len(met.placed)] = _AXES
        count = 3 * len(arms)
        arms = arms.reshape(count, self.skeleton.count, 3)
        return Rows(arms, ways.reshape(-1, 3), np.zeros(count), np.full(count, 1e-8), np.zeros(count, bool))

    def balance_arms(self, heads: np.ndarray, ways: np.ndarray) -> np.ndarray:
        """(K, J, 3) arms of the centre of mass along ``ways`` (K, 3), at a pose's ``heads`` (J, 3)."""
        mass = self.shape.mass
        moved = mass @ self.above  # (J) mass that each bone carries
        lever = (mass * self.above.T) @ heads - moved[:, None] * heads
        return np.asarray(lever @ (ways @ _ABOUT).reshape(-1, 3, 3))

    # ------------------------------------------------------------------ parts

    def _add_balance(self, build: _RowBuilder, heads: np.ndarray, found: Measured) -> None:
        """The centre of mass within what the body stands on: back over the nearest place, and within the other edges."""
        variance, sway, (_, way, at_corner, edges) = self.settings.balance, self._sway, found.stands
        if variance is None or found.outside <= -NEAR:
            return
        near = [(found.outside, *way), *((beyond - sway, x, y) for beyond, x, y in edges if beyond - sway > -NEAR)]
        ways = np.array([(x, y, 0.0) for _, x, y in near])
        missing = np.array([beyond for beyond, _, _ in near])
        missing[1:] = np.minimum(missing[1:], 0)  # outside two edges, only the way to the nearest place counts
        build.add(self.balance_arms(heads, ways), ways, missing, variance, True)
        if at_corner and found.outside > 0:  # the distance curves about a corner
            across = np.array([[-way[1], way[0], 0.0]])
            curved = variance * (1 + sway / found.outside)
            build.add(self.balance_arms(heads, across), across, np.zeros(1), curved, False)

    def _add_limits(self, build: _RowBuilder, pose: Pose, found: Measured) -> None:
        if self.settings.limits is None:
            return
        near = np.flatnonzero(found.limits > -NEAR_LIMIT)
        if not len(near):
            return
        bones, count = self.limits.bones[near], len(near)
        arms = np.zeros((count, self.skeleton.count, 3))
        parents = pose.orientations[self.skeleton.parents[bones]]
        back = np.matmul(parents, self.limits.outward(found.beyond, near)[:, :, None])[:, :, 0]
        arms[np.arange(count), bones] = -back
        variances = self.settings.limits * self.limit_shares[near]
        build.add(arms, np.zeros((count, 3)), found.limits[near], variances, True)

    def _add_points(self, build: _RowBuilder, bent: np.ndarray, bent_heads: np.ndarray, found: Measured) -> None:
        """Points above the floor and parts out of each other; ``bent`` (J, 3) leads from the bent heads to the pose's."""
        settings, shape, gaps = self.settings, self.shape, found.gaps
        low = soft = near = np.zeros(0, int)
        if settings.floor is not None:
            low = np.flatnonzero(found.height < NEAR)
            soft = shape.fingertips[found.height[shape.fingertips] < settings.soft_floor]
        if settings.apart is not None:
            near = np.flatnonzero(found.inside > -NEAR)
        floor, pairs = np.append(low, soft), len(near)
        if not len(floor) and not pairs:
            return
        bones = np.concatenate([shape.point_bones[floor], gaps.first_bone[near], gaps.second_bone[near]])
        points = np.concatenate([found.points[floor], gaps.first[near], gaps.second[near]])
        up, normal = np.zeros((len(floor), 3)), gaps.normal[near]
        up[:, 2] = 1
        lever = (points - bent[bones])[:, None] - bent_heads
        lever *= self.above[bones][:, :, None]
        arms = np.matmul(lever, (np.concatenate([up, normal, -normal]) @ _ABOUT).reshape(-1, 3, 3))
        count = len(floor)
        if pairs:
            arms[count : count + pairs] += arms[count + pairs :]
        build.add(
            arms[: count + pairs],
            np.concatenate([up, np.zeros((pairs, 3))]),
            np.concatenate([-found.height[low], settings.soft_floor - found.height[soft], found.inside[near]]),
            np.repeat([settings.floor or 1.0, SOFT_FLOOR, settings.apart or 1.0], [len(low), len(soft), pairs]),
            True,
        )

    def _place_arms(self, heads: np.ndarray, bones: np.ndarray) -> np.ndarray:
        """(K, 3, J, 3) of the heads of ``bones`` (K) along the three axes, in a pose with ``heads`` (J, 3)."""
        lever = (heads[bones][:, None] - heads) * self.above[bones][:, :, None]
        return np.asarray((lever @ _TO_AXES).reshape(len(bones), len(heads), 3, 3).transpose(0, 2, 1, 3))

    def _turn_arms(self, bones: np.ndarray) -> np.ndarray:
        """(K, 3, J, 3) of the orientations of ``bones`` (K) about the three axes."""
        return np.asarray(_AXES[:, None, :] * self.above[bones][:, None, :, None])

    def _extra_arms(self, extra: Extra, pose: Pose, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Arms (K, J, 3) and ways (K, 3) of another target, at a pose with ``heads`` (J, 3)."""
        moves, turn = slope(extra, pose.orientations, heads)
        arms = sum(np.tensordot(way, self._place_arms(heads, np.array([bone]))[0], 1) for bone, way in moves)
        if turn is not None:
            arms = arms + turn[:, None, :] * self.above[extra.bone][:, None]
        return np.asarray(arms), np.asarray(sum(way for _, way in moves))

    def _turned(self, pose: Pose, ends: np.ndarray) -> np.ndarray:
        """(K, 3) rotation vectors to the orientations that ``ends`` (K) are kept in or dragged to."""
        if not len(ends):
            return np.zeros((0, 3))
        now = pose.orientations[self.ends[ends]]
        return np.asarray(quick.axis_angle_from_matrix(np.matmul(self._turn_aims[ends], now.transpose(0, 2, 1))))


class _RowBuilder:
    """Collects rows."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._variances: list[float] = []
        self._one_sided: list[bool] = []

    def add(
        self, arms: np.ndarray, ways: np.ndarray, missing: np.ndarray, variance: np.ndarray | float | None, one: bool
    ) -> None:
        """Rows of one kind; a number holds for all of them. A kind that is off adds none."""
        if variance is None:
            return
        self._parts.append((arms, ways, missing))
        self._variances += variance.tolist() if isinstance(variance, np.ndarray) else [variance] * len(missing)
        self._one_sided += [one] * len(missing)

    def done(self) -> Rows:
        """All of them."""
        arms, ways, missing = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return Rows(arms, ways, missing, np.array(self._variances, float), np.array(self._one_sided, bool))


def _pull(off: np.ndarray, force: float, reach: float, farthest: float, exact: float) -> tuple[np.ndarray, float]:
    """The part (3) of ``off`` (3) that a step aims at, and the variance that pulls by ``force / (1 + distance / reach)``."""
    distance = math.sqrt(float(off @ off))
    aimed = min(distance, farthest)
    return off * (aimed / max(distance, 1e-9)), max(exact, aimed / force * (1 + distance / reach))


def _pressing(missing: np.ndarray, variance: np.ndarray | float) -> float:
    """What one-sided conditions cost that miss ``missing`` (K)."""
    pressing = np.maximum(missing, 0)
    return 0.5 * float(np.sum(pressing * pressing / variance))


def _length(vector: np.ndarray) -> float:
    x, y, z = vector.tolist()
    return math.sqrt(x * x + y * y + z * z)


def make_conditions(
    skeleton: Skeleton, shape: BodyShape, settings: DragSettings, pose: Pose, ground: float
) -> Conditions:
    """The conditions of a drag that begins with ``pose``; ``ground`` is the height of the floor."""
    points, parts = shape.places(pose.orientations, pose.heads)
    limits = JointLimits(skeleton)
    over = np.maximum(limits.beyond(pose.turns).distance, 0)
    low = points[:, 2] - shape.point_clearance - ground
    ends = np.array([*skeleton.effectors, 0])
    standing = np.zeros(len(ends), bool)
    for (heel, toe), foot in zip(shape.soles, skeleton.feet, strict=True):
        standing[skeleton.effectors.index(foot)] = min(low[heel], low[toe]) < 0.04 * METRE
    pairs = np.maximum(-shape.gaps(parts).gap, 0)
    outside = shape.balance(points, pose.heads, ground).distance if skeleton.feet else 0.0
    upright = shape.chest < 0 or pose.orientations[shape.chest, 2, 2] > UPRIGHT
    if not standing.any() or not upright or outside > FAR_OUT:  # it lies, sits, crawls or flies
        settings = replace(settings, balance=None)
    back = leaning_back(pose.orientations, shape.chest)[0] if shape.chest >= 0 else 0.0
    shares = np.ones(len(limits.bones))
    shares[np.isin(limits.bones, skeleton.feet)] = ANKLE
    shares[np.isin(limits.bones, [hinge.lower for hinge in shape.hinges])] = HINGE
    return Conditions(
        skeleton,
        shape,
        settings,
        ground,
        ends,
        limits,
        skeleton.subtree.T.copy(),
        standing,
        np.minimum(low - settings.margin, 0),
        pairs,
        over,
        shares,
        outside,
        back,
        tilted_by(pose.orientations, shape.chest)[0] if shape.chest >= 0 else 0.0,
        turned_from(pose.orientations, shape.chest)[0] if shape.chest >= 0 else 0.0,
    )
