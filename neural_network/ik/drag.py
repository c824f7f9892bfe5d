# SPDX-License-Identifier: GPL-3.0-or-later
"""Drags: a pose is changed so that targets are met and a person could still take it.

A drag begins with a pose. Each answer is the most likely change of that pose, by the covariance of pose changes (see
:mod:`.density`), that keeps held effectors where they are, brings dragged ones to their targets and costs little where the body
leaves its joint limits, goes below the floor, enters itself, loses its balance or leans back. Held effectors never give way. A
target out of reach pulls with a force that ends, so the body leans towards it and no farther.

It is a damped Gauss-Newton method in the dual: with d the change (3 J + 3), P its covariance, G the slopes of the conditions, V
their variances and r what is missing, the next change is P G^T (G P G^T + V)^-1 (r + G d), a system of one row for each
condition; one-sided conditions join it while they press (Nocedal and Wright, "Numerical Optimization", 2nd ed., sections 10.3
and 16.5). The slopes are taken at a pose whose knees and elbows are a little bent: a straight leg would otherwise not see that
bending lowers the hips. Held targets are hit exactly by a few steps on them alone at the end.

Unless said otherwise: leg lengths, radians, core axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core import quick_rotations as quick
from ..core import rotations
from ..core.skeleton import Skeleton
from . import density
from .body_shape import make_shape
from .context import headings
from .drag_conditions import (
    FARTHEST,
    Aims,
    Conditions,
    DragSettings,
    Measured,
    Met,
    Pose,
    Targets,
    make_conditions,
    skew_products,
)
from .extra_targets import Extra, ExtraTarget, prepare
from .hinges import bend, make_hinges
from .quick_limits import JointLimits
from .single_kinematics import forward_one, local_products, make_plan, rest_to_t


class Hips(NamedTuple):
    """Where the Hips should be, if they are not free."""

    position: np.ndarray
    """(3) [m, armature] head."""
    orientation: np.ndarray
    """(3) [rad] log(R R_rest^T), armature."""
    weight: float = 1.0
    orientation_weight: float = 1.0


class Drag:
    """A drag of one character from one pose.

    Attributes:
        moved: (E) bool, effectors whose target is away from the place where the drag began: they are dragged, others are held.
        change: (3 J + 3) the answer: rotation vectors [rad, core axes] after each bone's rotation in the pose that the drag
            began with, and the Hips' way [leg lengths, core axes]. Set it to go on from another answer.
        quaternions: (J, 4) rot_local of the last answer as unit quaternions (w, x, y, z), w >= 0.
        most_steps: of an answer.
        settled: whether the last answer ended because more steps would have changed little.
    """

    def __init__(
        self,
        skeleton: Skeleton,
        rot_local: np.ndarray,
        root_pos: np.ndarray,
        covariance: np.ndarray | None = None,
        ground: float = 0.0,
        settings: DragSettings | None = None,
    ) -> None:
        """Begin with the pose ``rot_local`` (J, 3) [rad], ``root_pos`` (3) [m, armature].

        ``covariance`` (3 J + 3, 3 J + 3) is that of the rig's pose changes; None takes the shipped one for the bones of the
        reference rig, and joint limits alone for other rigs. ``ground`` is the height of the floor [m].

        >>> import numpy as np
        >>> from neural_network import Drag
        >>> from neural_network.core.reference_rig import reference
        >>> rig = reference()
        >>> rest = rig.rest_arm[:, :3, 3]
        >>> drag = Drag(rig, np.zeros((23, 3)), rest[0])
        >>> positions = rest[list(rig.effectors)].copy()
        >>> positions[0] += [-0.1, -0.2, -0.1]  # the left hand, ahead and down; feet are held, right hand and head free
        >>> rot, root, missed = drag.solve(positions, weights=[1, 0, 1, 1, 0])
        >>> bool(missed.max() < 0.001)
        True

        Raises ValueError for wrong shapes, NaN and infinity.
        """
        covariance = density.shipped(skeleton) if covariance is None else covariance
        self.skeleton, self.settings = skeleton, settings or DragSettings()
        self.most_steps = self.settings.steps
        self._plan = make_plan(skeleton, True)
        self._shape = make_shape(skeleton)
        self._hinges = make_hinges(skeleton, self._shape)
        self._limits = JointLimits(skeleton)
        self._covariance = density.with_anatomy(skeleton, covariance)
        self._ends = np.array([*skeleton.effectors, 0])
        self._local, self._to_t = local_products(skeleton), rest_to_t(skeleton, self._ends.tolist())
        self.begin(rot_local, root_pos, ground)

    def begin(self, rot_local: np.ndarray, root_pos: np.ndarray, ground: float = 0.0) -> None:
        """Begin anew with another pose; as in :meth:`__init__`, but faster."""
        rig = self.skeleton
        rot, root = np.asarray(rot_local, np.float64), np.asarray(root_pos, np.float64)
        _check("rot_local", rot, (rig.count, 3))
        _check("root_pos", root, (3,))
        self._begin = rotations.matrix_from_axis_angle(rig.to_core(rot))
        self._begin_root = root @ rig.axes.T / rig.leg_length
        self._metric = _in_core_axes(self._covariance, self._begin[0])
        self._precision = np.linalg.inv(self._metric)
        self.change = np.zeros(3 * rig.count + 3)
        self.settled = True
        pose = self._pose(self.change)
        self._start = Targets(pose.heads[self._ends], pose.orientations[self._ends])
        self._shown = pose
        self._near: Near | None = None
        self._small = SMALL_WAY  # [leg lengths] farthest that targets move until all conditions are looked at again
        self._trust = STEP_MOST  # [rad] most that a step turns a joint about an axis
        self._hits: Hits | None = None
        self._met: Met | None = None
        self._pressed = np.zeros((0, len(self.change))), np.zeros(0)
        self._last: tuple[np.ndarray, np.ndarray, dict[tuple[str, int], np.ndarray]] | None = None
        self._moved, self._turned = np.zeros(len(self._ends), bool), np.zeros(len(self._ends), bool)
        self._conditions: Conditions = make_conditions(rig, self._shape, self.settings, pose, ground / rig.leg_length)

    @property
    def moved(self) -> np.ndarray:
        """(E) bool; see the class."""
        return self._moved[:-1]

    def solve(
        self,
        positions: np.ndarray,
        weights: np.ndarray | None = None,
        orientations: np.ndarray | None = None,
        orientation_weights: np.ndarray | None = None,
        hips: Hips | None = None,
        turned: np.ndarray | None = None,
        firm: np.ndarray | None = None,
        extras: Sequence[ExtraTarget] = (),
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pose for targets ``positions`` (E, 3) [m, armature]; ``weights`` (E): effectors of weight 0 are free, of a lower
        weight than 1 are drawn less the lower it is.

        Held effectors keep the orientation they had, dragged ones are free to turn, except those that are ``turned`` (E, bool):
        they are to have the one in ``orientations`` (E, 3) [rad, log(R R_rest^T), armature]. Without ``turned`` these are the ones
        whose orientation there is another than when the drag began. Of weight 0 in ``orientation_weights`` (E; None: as
        ``weights``) they are always free. ``firm`` (E, bool) are held wherever their target is: like planted feet they never give
        way, and keep the orientation given or that of the start. ``hips``: None leaves the Hips free. ``extras``: what elbows,
        knees, chest or head should do as well, if the effectors let them.

        Returns rot_local (J, 3) [rad], the Hips' head (3) [m, armature] and each effector's distance from its target (E) [m], 0
        where it is free. Raises ValueError for wrong shapes, NaN and infinity.
        """
        rig, count = self.skeleton, len(self._ends) - 1
        positions = np.asarray(positions, np.float64)
        _check("positions", positions, (count, 3))
        shares = np.ones(count) if weights is None else np.asarray(weights, np.float64)
        _check("weights", shares, (count,))
        turn_shares = shares if orientation_weights is None else np.asarray(orientation_weights, np.float64)
        _check("orientation_weights", turn_shares, (count,))
        hips = hips or Hips(np.zeros(3), np.zeros(3), 0.0, 0.0)
        shares, turn_shares = np.append(shares, hips.weight), np.append(turn_shares, hips.orientation_weight)
        targets = np.vstack([positions, hips.position]) @ rig.axes.T / rig.leg_length
        way = targets - self._start.positions
        off = np.sqrt(np.einsum("ec,ec->e", way, way))
        moved = (shares > 0) & (off > AT_START)
        asked = _asked(shares, turn_shares, moved, orientations, turned, firm, hips, extras)
        followed = self._follow(asked, targets, shares)
        if followed is not None:
            return self._answer(followed, targets, shares)
        led = self._led(targets)
        self._moved = moved
        self._turned, wanted = np.zeros(count + 1, bool), self._start.orientations
        if orientations is not None:
            _check("orientations", np.asarray(orientations), (count, 3))
            wanted = self._oriented(orientations, hips)
            off_by = quick.axis_angle_from_matrix(wanted @ self._start.orientations.transpose(0, 2, 1))
            self._turned = (turn_shares > 0) & (np.abs(off_by).max(axis=1) > TURNED)
            if turned is not None:
                self._turned[:-1] = turned
        elif hips.orientation_weight > 0:
            wanted = self._oriented(np.zeros((count, 3)), hips)
        self._turned[-1] = hips.orientation_weight > 0  # wherever the Hips are put
        travel = float(np.where(shares > 0, off, 0).max(initial=0))
        held = np.zeros(count, bool) if firm is None else firm
        aims = Aims(targets, wanted, shares, turn_shares, self._moved, self._turned, np.append(held, False))
        others = prepare(extras, rig)
        self._conditions.begin(aims, self._start, travel, others)
        most, before = self._most_turned(targets, wanted, shares > 0, others), self.change
        pose = self._improve()
        turned_by = np.sqrt(np.square((self.change - before)[:-3].reshape(-1, 3)).sum(axis=1).max())
        if turned_by > most:  # the rest comes with the next answers: nothing pops
            self.change, self.settled = before + (self.change - before) * (most / turned_by), False
            pose = self._pose(self.change)
        pose = self._hit_exactly(pose)
        self._near = None
        self._adapt(led)
        if self.settled and self._met is not None and self._conditions.all_of(self._met):
            self._near = Near(asked, targets, self.change, self.change, pose, self._met)
        return self._answer(self._within_limits(pose) if self.settings.strict else pose, targets, shares)

    def _follow(self, asked: tuple[object, ...], targets: np.ndarray, shares: np.ndarray) -> Pose | None:
        """The pose for targets (E + 1, 3) that came a small way since all conditions were looked at; None where it is not small."""
        near = self._near
        if near is None or near.change is not self.change or near.asked != asked or self.settings.strict:
            return None
        use = shares > 0
        if np.abs(targets - near.targets)[use].max(initial=0) > self._small:
            return None
        if self._last is None or np.abs(targets - self._last[0])[use].max(initial=0) > SMALL_STEP:
            return None  # else every second or third answer would look at all conditions, and bodies would tremble
        lead = self._lead(near.pose, near.met, near.change, self._pressed) if near.lead is None else near.lead
        change, pose = near.change, near.pose
        self._conditions.move(targets)
        for _ in range(FOLLOWS):
            missing = self._conditions.missing(pose, near.met)
            if np.abs(missing).max() < FOLLOWED:
                break
            change = change + lead @ missing
            pose = self._pose(change)
        else:
            return None
        if np.abs((change - near.begun)[:-3]).max(initial=0) > SMALL_TURN:
            return None
        self._last = targets, *self._last[1:]
        self.change, self._near = change, near._replace(change=change, pose=pose, lead=lead)
        return pose

    def _led(self, targets: np.ndarray) -> np.ndarray | None:
        """The change to which small moves would lead that led to the last answer; None where there were none."""
        near = self._near
        if near is None or near.change is not self.change or near.lead is None:
            return None
        self._conditions.move(targets)
        return near.change + near.lead @ self._conditions.missing(near.pose, near.met)

    def _adapt(self, led: np.ndarray | None) -> None:
        """Make small moves as small as needed: all conditions looked at, this answer should be near that to which they ``led``."""
        better = 1.5
        if led is not None:
            drift = float(np.abs((self.change - led)[:-3]).max())
            better = min(better, max(DRIFT / max(drift, 1e-9), 0.3))
        self._small = min(SMALL_WAY, max(self._small * better, SMALL_WAY / 64))

    def _lead(
        self, pose: Pose, met: Met, change: np.ndarray, pressed: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """(3 J + 3, K) the most likely change for each unit that the ends of ``met`` miss.

        The conditions ``pressed``, slopes and variances, go on pressing as much.
        """
        rows = self._conditions.exactly(pose, met)
        slopes = skew_products(rows.arms, rows.ways, _carried(pose.orientations, change))
        count, variances = len(slopes), rows.variances
        if pressed is not None:
            slopes, variances = np.concatenate([slopes, pressed[0]]), np.concatenate([variances, pressed[1]])
        spread = self._metric @ slopes.T
        system = slopes @ spread
        system.flat[:: len(system) + 1] += variances
        return np.asarray(spread @ np.linalg.inv(system)[:, :count])

    def _most_turned(
        self, targets: np.ndarray, wanted: np.ndarray, use: np.ndarray, extras: tuple[Extra, ...]
    ) -> float:
        """[rad] the most that this answer may turn a bone, by how far the targets have come since the one before."""
        others = {(extra.kind, extra.bone): extra.point for extra in extras}
        last, self._last = self._last, (targets, wanted, others)
        if last is None:
            return np.inf
        step = float(np.abs(targets - last[0])[use].max(initial=0))
        turn = float(np.abs(wanted - last[1])[self._turned].max(initial=0))
        step = max([step] + [float(np.abs(p - last[2].get(key, p)).max()) for key, p in others.items()])
        return TURN_MOST + TURN_RATE * (step + turn) if step + turn > AT_START else np.inf

    def show(self) -> None:
        """Make :attr:`change` what :meth:`ends` tells of."""
        self._shown = self._pose(self.change)

    def again(self, positions: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pose that :attr:`change` already is, as :meth:`solve` returns it, for targets (E, 3) [m, armature] with weights (E)."""
        targets = np.vstack([positions, np.zeros(3)]) @ self.skeleton.axes.T / self.skeleton.leg_length
        pose = self._pose(self.change)
        return self._answer(self._within_limits(pose) if self.settings.strict else pose, targets, np.append(weights, 0))

    def _answer(self, pose: Pose, targets: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rig = self.skeleton
        self._shown = pose
        off = pose.heads[self._ends[:-1]] - targets[:-1]
        missed = np.where(shares[:-1] > 0, np.sqrt(np.einsum("ec,ec->e", off, off)) * rig.leg_length, 0.0)
        local = np.matmul(self._local, quick.quaternion_from_matrix(pose.turns)[:, :, None])[:, :, 0]
        self.quaternions = local * np.where(local[:, :1] < 0, -1.0, 1.0)
        vector = self.quaternions[:, 1:]
        length = np.sqrt(np.einsum("jc,jc->j", vector, vector)) + 1e-30
        rot = vector * (2 * np.arctan2(length, self.quaternions[:, 0]) / length)[:, None]
        return rot, pose.heads[0] * rig.leg_length @ rig.axes, missed

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the last answer put the effectors: positions (E, 3) [m] and R R_rest^T (E, 3, 3), both armature space."""
        rig, bones = self.skeleton, self._ends[:-1]
        positions = self._shown.heads[bones] * rig.leg_length @ rig.axes
        turned = rig.axes.T @ self._shown.orientations[bones] @ rig.axes @ self._to_t[:-1].transpose(0, 2, 1)
        return positions, turned

    def _oriented(self, orientations: np.ndarray, hips: Hips) -> np.ndarray:
        """(E + 1, 3, 3) orientations of the ends relative to the T-pose, core axes, from log(R R_rest^T) [rad, armature]."""
        given = quick.matrix_from_axis_angle(np.vstack([orientations, hips.orientation]).astype(np.float64))
        return np.asarray(self.skeleton.axes @ given @ self._to_t @ self.skeleton.axes.T)

    # ------------------------------------------------------------------ steps

    def _improve(self) -> Pose:
        """Steps until the cost falls no more; returns the pose."""
        settings = self.settings
        share = settings.smooth / (1 + settings.smooth)
        centre, metric = self.change * share, self._metric / (1 + settings.smooth)
        pose, found, cost = self._look(self._pose(self.change), self.change, centre)
        self.settled, hills, straight = True, 0, False
        self._trust = max(self._trust, TRUST_LEAST)
        for number in range(self.most_steps):
            likely, met, bent = self._likely(pose, found, centre, metric, straight)
            step = centre + likely - self.change
            largest = float(np.abs(step[:-3]).max())
            size = min(1.0, self._trust / max(largest, 1e-9))
            tried = []
            for _ in range(BENT_TRIES if bent and self._conditions.misses(found, FARTHEST) else HALVINGS + 1):
                new, change = self._corrected(pose, self.change + size * step, met, 1 - size)
                new, new_found, new_cost = self._look(new, change, centre)
                if new_cost <= cost + 1e-6 * abs(cost):
                    break
                tried.append((new_cost - new_found.balance, size, change, new, new_found, new_cost))
                size *= SHORTER
                self._trust = max(size * largest, STEP_LEAST)
            else:
                if bent and self._conditions.misses(found):  # what slopes at bent joints promise is not so: as they are
                    straight = True
                    continue
                # Lifting a foot costs balance until the body has moved over the other: once over that hill it goes down again.
                over, size, change, new, new_found, new_cost = tried[0]
                if hills == HILLS or over >= cost - found.balance:
                    break
                hills += 1
            if not tried:
                self._trust = min(STEP_MOST, 2 * self._trust)
            saved, cost = cost - new_cost, new_cost
            self.change, pose, found = change, new, new_found
            if largest * size < STEP_LEAST or (number and 0 <= saved < COST_LEAST):
                break
        else:
            self.settled = False
        return pose

    def _corrected(self, pose: Pose, change: np.ndarray, met: Met | None, share: float) -> tuple[Pose, np.ndarray]:
        """The pose of ``change``, a step from ``pose``, and the change itself, both corrected so that ends of ``met`` miss ``share`` of
        what they missed: as far as slopes tell they do already, and what the slopes did not tell must not count against the step."""
        new = self._pose(change)
        if met is None:
            return new, change
        missing = self._conditions.missing(new, met) - share * self._conditions.missing(pose, met)
        change = change + self._leads(pose, met) @ missing
        return self._pose(change), change

    def _leads(self, pose: Pose, met: Met) -> np.ndarray:
        """(3 J + 3, K) the most likely change for each unit that the ends of ``met`` miss; kept while the pose changes little."""
        near = self._hits
        if near is None or not met.same(near.met) or np.abs((self.change - near.change)[:-3]).max() > SLOPES_KEPT:
            near = self._hits = Hits(met, self.change, self._lead(pose, met, self.change))
        return near.lead

    def _likely(
        self, pose: Pose, found: Measured, centre: np.ndarray, metric: np.ndarray, straight: bool
    ) -> tuple[np.ndarray, Met | None, bool]:
        """What to add to ``centre`` for the most likely change that meets the conditions, as far as slopes tell.

        Also the ends that are then where they should be, and whether the slopes are those of a pose with bent joints.
        """
        stretching = self._conditions.stretching(pose.heads, self._hinges.upper, self._hinges.end, self._hinges.length)
        bent = None if straight else bend(self._hinges, pose.turns, ~stretching)
        orientations, heads = (pose.orientations, pose.heads) if bent is None else self._placed(bent, pose.heads[0])
        rows = self._conditions.rows(pose, heads, found)
        slopes = skew_products(rows.arms, rows.ways, _carried(orientations, self.change))
        missing = rows.missing + slopes @ (self.change - centre)
        spread = metric @ slopes.T
        system = slopes @ spread
        system.flat[:: len(system) + 1] += rows.variances + 1e-9
        active = ~rows.one_sided | (rows.missing > 0)
        force = np.zeros(len(missing))
        for _ in range(EXCHANGES):
            pressed = np.flatnonzero(active)
            force[:] = 0
            force[pressed] = np.linalg.solve(system[pressed[:, None], pressed], missing[pressed])
            left = missing - system @ force
            presses = np.where(rows.one_sided, np.where(active, force > 0, left > 1e-5), True)
            if np.array_equal(presses, active):
                break
            active = presses
        soft = np.flatnonzero(active & (rows.one_sided | (rows.variances > SOFTER)))
        self._pressed = slopes[soft], rows.variances[soft]
        return spread @ force, self._conditions.to_hit(rows.variances * force), bent is not None

    def _hit_exactly(self, pose: Pose) -> Pose:
        """Steps on held effectors and on dragged ones that are near, until they are where they belong; held ones go first."""
        if self.settings.strict:
            return self._steps(pose, -1.0, HELD_STEPS)
        begin = self.change
        found = self._steps(pose, NEARLY, EXACT_STEPS)
        held = self._conditions.within(found, -1.0)
        if held is None or np.abs(held[1]).max() < GIVE:
            return found
        self.change = begin
        return self._steps(pose, -1.0, HELD_STEPS)

    def _steps(self, pose: Pose, near: float, most: int) -> Pose:
        """At most ``most`` steps of :meth:`_hit_exactly` on held effectors and dragged ones within ``near``.

        Slopes are taken anew where those kept do not lead there quickly.
        """
        self._met, worst = None, np.inf
        for _ in range(most):
            found = self._conditions.within(pose, near)
            if found is None:
                break
            (met, missing), before = found, worst
            worst = float(np.abs(missing).max())
            if worst < CLOSE:
                self._met = met
                break
            if worst > AGAIN_SLOPES * before:
                self._hits = None
            step = self._leads(pose, met) @ missing
            self.change = self.change + step * min(1.0, STEP_MOST / max(float(np.abs(step[:-3]).max()), 1e-9))
            pose = self._pose(self.change)
        return pose

    def _within_limits(self, pose: Pose) -> Pose:
        """The pose with every bone inside its joint limits; a bone that the drag began with outside comes inside too."""
        excess = self._limits.excess(pose.turns)
        if not len(excess.bones):
            return pose
        turns = pose.turns.copy()
        turns[excess.bones] = quick.matrix_from_axis_angle(excess.back) @ turns[excess.bones]
        return Pose(turns, *self._placed(turns, pose.heads[0]))

    # ------------------------------------------------------------------ poses

    def _look(self, pose: Pose, change: np.ndarray, centre: np.ndarray) -> tuple[Pose, Measured, float]:
        """The pose of a change, what it misses of the conditions, and its cost."""
        found = self._conditions.measure(pose)
        off = change - centre
        return pose, found, found.cost + 0.5 * (1 + self.settings.smooth) * float(off @ self._precision @ off)

    def _pose(self, change: np.ndarray) -> Pose:
        turns = np.matmul(self._begin, quick.matrix_from_axis_angle(change[:-3].reshape(-1, 3)))
        return Pose(turns, *self._placed(turns, self._begin_root + change[-3:]))

    def _placed(self, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Orientations (J, 3, 3) and heads (J, 3) of ``turns`` (J, 3, 3) with the Hips' head at ``root`` (3)."""
        inverse, heads = forward_one(self._plan, turns)
        return inverse.transpose(0, 2, 1), heads.T + root


class Hits(NamedTuple):
    """How ends are hit."""

    met: Met
    change: np.ndarray  # where the slopes were taken
    lead: np.ndarray  # (3 J + 3, K) see Drag._lead


class Near(NamedTuple):
    """An answer from which small moves of its targets are followed."""

    asked: tuple[object, ...]  # everything that it was asked for but the places of targets
    targets: np.ndarray  # (E + 1, 3) when all conditions were looked at last
    begun: np.ndarray  # the change then
    change: np.ndarray  # the change now
    pose: Pose
    met: Met
    lead: np.ndarray | None = None  # (3 J + 3, K) see Drag._lead


TURNED = 1e-3  # [rad] an orientation farther from where the drag began is dragged
AT_START = 1e-4  # [leg lengths] a target nearer than this to where the drag began is held
STEP_MOST = 0.15  # [rad] most that a step turns a joint about an axis
TRUST_LEAST = (
    0.03  # [rad] the same, of the first step of an answer: later ones learn from it how far slopes may be trusted
)
STEP_LEAST = 2e-3  # [rad] a smaller step is the last
COST_LEAST = 1e-3  # a step that saves less is the last
HILLS = 1  # of an answer, that steps may climb
BENT_TRIES = 2
HALVINGS, SHORTER = 3, 0.4  # a step that costs more is tried again, shorter
EXCHANGES = 4  # of the one-sided conditions that press, in one step
HELD_STEPS, GIVE = 25, 2e-4  # [leg lengths, rad] where dragged targets move held ones by more, held ones alone are hit
TURN_MOST, TURN_RATE = 0.12, 3.0  # [rad, rad per leg length of the targets' way] most that an answer turns a bone
EXACT_STEPS = 6
NEARLY = 0.02  # [leg lengths] a dragged target within this is hit exactly
CLOSE = 5e-7  # [leg lengths, rad]
SLOPES_KEPT = 0.1  # [rad] farthest from where slopes were taken that they serve to hit ends
AGAIN_SLOPES = 0.1  # share of what is missed that a step may leave with the slopes of the step before
SMALL_WAY, SMALL_TURN = 0.01, 0.05  # [leg lengths, rad] small moves of targets, and what they turn a bone about an axis
SMALL_STEP = 0.0025  # [leg lengths] of them, from one answer to the next
DRIFT = 0.01  # [rad] that small moves may lead away from the answer that looks at all conditions
FOLLOWS, FOLLOWED = 4, 1.5e-5  # steps of a small move, and [leg lengths, rad] what they may leave
SOFTER = 1e-5  # variance of conditions that are not to be hit


def _asked(
    shares: np.ndarray,
    turn_shares: np.ndarray,
    moved: np.ndarray,
    orientations: np.ndarray | None,
    turned: np.ndarray | None,
    firm: np.ndarray | None,
    hips: Hips,
    extras: Sequence[ExtraTarget],
) -> tuple[object, ...]:
    """Everything that :meth:`Drag.solve` is asked for but the places of targets, to be compared."""
    which = (
        () if orientations is None else np.asarray(orientations if turned is None else orientations[turned]).tobytes()
    )
    turning = hips.orientation.tobytes() if hips.orientation_weight > 0 else b""
    held = [None if given is None else given.tobytes() for given in (turned, firm)]
    others = [(extra.kind, extra.bone, extra.weight, *np.asarray(extra.point).tolist()) for extra in extras]
    return shares.tobytes(), turn_shares.tobytes(), moved.tobytes(), which, *held, turning, *others


def _carried(orientations: np.ndarray, change: np.ndarray) -> np.ndarray:
    """(J, 3, 3) that take a small change of each bone's rotation vector to its turn in core axes.

    The right Jacobian of SO(3) in front of which the bone's orientation stands (Chirikjian, "Stochastic Models, Information
    Theory, and Lie Groups" II, 2012, section 10.7.1).
    """
    vector = change[:-3].reshape(-1, 3)
    square = np.einsum("jc,jc->j", vector, vector) + 1e-12
    angle = np.sqrt(square)
    small = angle < 1e-3
    first = np.where(small, 0.5, (1 - np.cos(angle)) / square)
    second = np.where(small, 1 / 6, (angle - np.sin(angle)) / (square * angle))
    x, y, z = vector.T
    cross = np.zeros((len(vector), 3, 3))
    cross[:, 0, 1], cross[:, 0, 2], cross[:, 1, 2] = -z, y, -x
    cross[:, 1, 0], cross[:, 2, 0], cross[:, 2, 1] = z, -y, x
    jacobian = np.eye(3) - first[:, None, None] * cross + second[:, None, None] * (cross @ cross)
    return np.asarray(np.matmul(orientations, jacobian))


def _in_core_axes(covariance: np.ndarray, hips: np.ndarray) -> np.ndarray:
    """``covariance`` with the Hips' way along core axes instead of along the heading of ``hips`` (3, 3)."""
    heading = float(headings(hips[None])[0])
    turn = np.eye(len(covariance))
    turn[-3:, -3:] = rotations.matrix_from_axis_angle(np.array([0.0, 0, heading]))
    return np.asarray(turn @ covariance @ turn.T)


def _check(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite numbers of shape {shape}, got shape {array.shape}")
