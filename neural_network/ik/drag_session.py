# SPDX-License-Identifier: GPL-3.0-or-later
"""Drags for continuous control: what :class:`.solver.Session` is for a network, with the same calls."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ..core import quick_rotations as quick
from ..core import rotations
from ..core.skeleton import Skeleton
from . import other_bones
from .body_shape import make_shape
from .drag import Drag, Hips
from .drag_conditions import DragSettings
from .extra_targets import KINDS, ExtraTarget
from .goals import Goals, checked
from .solver import REACHED, Solution

STRICT = 1e-5  # [rad^2] variance of joint limits that are asked for
SETTLED = 0.004  # [rad] a pose that jumped is answered again until it changes less
AGAIN, AGAIN_MOVED = 16, 4  # answers to the same goals at most, until the pose of another frame or of a jump is settled
STRIDE_STEPS = 3  # of an answer on the way
STRIDE, STRIDES = (
    0.1,
    12,
)  # [leg lengths] a target that jumped farther is followed in steps so long, and at most so many
REMEMBERED = 8192  # answers to goals that may come again, as when a drag is cancelled
FRAMES = 256  # answers to frames that were shown since the last drag
BEGINS = 32  # poses of other frames from which drags began
SAME = 1e-5  # goals that differ less are the same: what float32 and other units leave of them


def knows(skeleton: Skeleton, roles: Sequence[str] | None = None) -> bool:
    """Whether pose changes of people are known for a rig: drags suit it better than the network alone.

    ``roles`` (J) are those of its bones; None where they are named by their roles.
    """
    return other_bones.people(skeleton, roles) is not None


class DragSession:
    """Changes one pose, the anchor, so that goals are met and a person could take the pose; see :mod:`.drag`.

    Of the goals it takes places, orientations, weights, the Hips where they are not free, and the floor. An answer goes on from
    the one before; the same goals give the same pose again.

    Attributes:
        settings: how strong the conditions are; may be changed at any time.
    """

    def __init__(self, skeleton: Skeleton, covariance: np.ndarray | None = None) -> None:
        """A session of a rig, without an anchor yet; ``covariance`` of its pose changes as for :class:`.Drag`."""
        self.skeleton, self.settings = skeleton, DragSettings()
        self._covariance = covariance
        self._bounds = np.zeros(0) if skeleton.limits is None else np.nan_to_num(skeleton.limits).reshape(-1)
        self._anchor: tuple[np.ndarray, np.ndarray] | None = None
        self._drag: Drag | None = None
        self._kept: tuple[float, bool, DragSettings] = (0.0, False, self.settings)
        self._change: np.ndarray | None = None
        self._goals = np.zeros(0)
        self._shown: tuple[np.ndarray, np.ndarray] | None = None
        self._begins: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=BEGINS)
        self._answers: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self._frames: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=FRAMES)

    @cached_property
    def chest(self) -> int:
        """The bone from which arms and head branch off; -1 where there is none."""
        return make_shape(self.skeleton).chest

    def anchor(self, goals: Goals, rot_local: np.ndarray) -> None:
        """From now on change the pose ``rot_local`` (J, 3) [rad] whose Hips are at ``goals.root_pos``.

        The next answer goes on from the change that the last one was, so that nothing jumps while an animation plays. Raises
        ValueError for wrong shapes, NaN and infinity.
        """
        rot, root = np.asarray(rot_local, np.float64), np.asarray(goals.root_pos, np.float64)
        if rot.shape != (self.skeleton.count, 3) or not np.isfinite(rot).all():
            raise ValueError(f"rot_local: expected finite ({self.skeleton.count}, 3), got shape {rot.shape}")
        self._anchor = rot, root
        if self._drag is not None:
            self._drag.begin(rot, root, self._kept[0])

    def start_over(self) -> None:
        """Go on from the anchor itself, since it is the last answer; goals that were answered before are answered anew."""
        self._change, self._shown, self._goals = None, None, np.zeros(0)
        self._begins.clear()
        self._answers.clear()
        self._frames.clear()

    def on(self, skeleton: Skeleton) -> DragSession:
        """A session of the same bones in other proportions that goes on from this one's answer, once it has an anchor."""
        out = DragSession(skeleton, self._covariance)
        out.settings = self.settings
        out._change, out._goals, out._shown = self._change, self._goals, self._shown
        out.remember(self)
        return out

    def solve(
        self,
        goals: Goals,
        steps: int = 0,
        limits: bool = False,
        free_root: bool | None = None,
        turned: np.ndarray | None = None,
        firm: np.ndarray | None = None,
        goes_on: bool = True,
        extras: Sequence[ExtraTarget] = (),
    ) -> Solution:
        """The pose for ``goals``; ``limits`` makes joint limits strict, ``free_root`` False holds the Hips at the goals' root.

        ``turned`` (E, bool) says whose orientations in the goals count and ``firm`` (E, bool) who is held wherever the goals are,
        as in :meth:`.Drag.solve`; so do ``extras`` say what other bones should do.
        The next answer goes on from this one, unless ``goes_on`` is false: then it goes on from where this one did, as for other
        frames of an animation, whose poses must not depend on the order in which they are shown.
        ``steps`` is there for the sake of :meth:`.solver.Session.solve` and ignored: an answer takes the steps that it needs.
        Without an anchor the rest pose is changed. Raises ValueError for goals of wrong shapes, NaN and infinity.
        """
        began = time.perf_counter()
        goals = checked(goals, self.skeleton, many=False)
        weights = np.ones(len(goals.positions)) if goals.weights is None else goals.weights
        turn_weights = weights if goals.orientation_weights is None else goals.orientation_weights
        hips = None if free_root is not False else Hips(goals.root_pos, self._hips_orientation(goals.root_rot))
        drag = self._ready(float(goals.ground), limits)
        counts = turn_weights if turned is None else np.where(turned, turn_weights, 0.0)
        asked = self._asked(
            goals, weights, counts, np.zeros(len(weights)) if firm is None else firm, hips, limits, extras
        )
        begin, begin_goals = (self._change, self._goals) if self._shown is None or not goes_on else self._shown
        if goes_on and self._shown is not None and self._shown[1] is not self._goals:
            self._begins.append(self._shown)  # it comes back where what begins now is cancelled
        digest = _digest(asked)
        known = self._answers.get(digest)
        if not goes_on and known is None:  # a frame that was shown since the last drag
            alike = [c for c, then in self._frames if len(then) == len(asked) and np.abs(asked - then).max() < SAME]
            known = alike[-1] if alike else None
        for change, goals_then in ([] if begin is None else [(begin, begin_goals)]) + list(self._begins):
            if known is None and len(asked) == len(goals_then) and np.abs(asked - goals_then).max() < SAME:
                known = change
        drag.change = np.zeros(3 * self.skeleton.count + 3) if begin is None else begin
        if known is not None:
            drag.change = known
            _, root, missed = drag.again(goals.positions, weights)
        else:
            jumps = not goes_on or begin is None
            for positions in self._way(drag, goals.positions, weights, begin_goals):
                jumps |= positions is not goals.positions
                drag.most_steps = drag.settings.steps if positions is goals.positions else STRIDE_STEPS
                _, root, missed = drag.solve(
                    positions, weights, goals.rotations, turn_weights, hips, turned, firm, extras
                )
            before = None
            for _ in range(AGAIN_MOVED if goes_on else AGAIN):
                still = before is not None and np.abs(drag.change - before).max() < SETTLED
                if (still or not jumps) and (drag.settled or missed.max() < REACHED):
                    break
                before = drag.change
                _, root, missed = drag.solve(
                    goals.positions, weights, goals.rotations, turn_weights, hips, turned, firm, extras
                )
        if not (np.isfinite(drag.change).all() and np.isfinite(root).all()):
            self.start_over()
            raise ValueError("the pose has numbers that are not finite: move the targets nearer to the character")
        self._shown = drag.change, asked
        if not goes_on:
            self._frames.append(self._shown)
        else:
            if self._change is not drag.change:
                self._frames.clear()  # frames go on from where this one did
            self._change, self._goals = self._shown
            self._remember(digest, drag.change)
        return Solution(drag.quaternions, root, missed, missed < REACHED, steps, time.perf_counter() - began)

    def remember(self, other: DragSession) -> None:
        """Give the goals that ``other`` answered the same answers."""
        self._answers, self._begins = other._answers, other._begins

    def state(self) -> np.ndarray:
        """What :meth:`restore` needs to go on from this session's answer; empty before the first."""
        return np.zeros(0) if self._change is None else np.concatenate([self._change, self._goals])

    def restore(self, state: np.ndarray) -> None:
        """Go on from the answer of a session that had this :meth:`state`; one of another rig is ignored."""
        size = 3 * self.skeleton.count + 3
        if len(state) > size and np.isfinite(state).all():
            self._change, self._goals = state[:size].copy(), state[size:].copy()
            self._shown = None

    def ends(self, goals: Goals) -> tuple[np.ndarray, np.ndarray]:
        """Where the last answer put the effectors: positions (E, 3) [m] and R R_rest^T as quaternions (E, 4), armature space.

        Raises ValueError if nothing has been solved yet.
        """
        if self._drag is None:
            raise ValueError("nothing was solved yet: call solve first")
        positions, turned = self._drag.ends()
        return positions, quick.quaternion_from_matrix(turned)

    def reset(self) -> None:
        """Forget the anchor and all answers: after a cut, a teleport, or for another character."""
        self._anchor = self._drag = None
        self.start_over()

    def _remember(self, digest: bytes, change: np.ndarray) -> None:
        self._answers[digest] = change
        if len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)

    def _way(
        self, drag: Drag, positions: np.ndarray, weights: np.ndarray, begin_goals: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Targets (E, 3) [m] on the way to ``positions`` (E, 3), which end with them: one that jumps is followed in short steps.

        It has not jumped if it is near the target before or near where its effector is.
        """
        count, leg = len(positions), self.skeleton.leg_length
        far, strides, here = weights > 0, 0, positions
        if len(begin_goals):
            before = begin_goals[: 3 * count].reshape(-1, 3) * leg
            far = far & (np.linalg.norm(positions - before, axis=1) > STRIDE * leg)
        if far.any():
            drag.show()
            here = drag.ends()[0]
            jump = np.linalg.norm(positions - here, axis=1)
            far &= jump > STRIDE * leg
            strides = int(min(np.ceil(np.where(far, jump, 0).max() / (STRIDE * leg)), STRIDES))
        for number in range(1, strides):
            yield np.where(far[:, None], here + (positions - here) * (number / strides), positions)
        yield positions

    def _ready(self, ground: float, limits: bool) -> Drag:
        """The drag from the anchor, with a floor at ``ground`` [m]."""
        if self._anchor is None:
            self._anchor = np.zeros((self.skeleton.count, 3)), self.skeleton.rest_arm[0, :3, 3]
        wanted = ground, limits, self.settings
        if self._drag is None or self._kept != wanted:
            if self._drag is not None and self._kept[1] != limits:
                self._change = self._shown = None  # what one kind of limits led to holds back the other
            settings = replace(self.settings, limits=STRICT, strict=True) if limits else self.settings
            rot, root = self._anchor
            self._drag, self._kept = Drag(self.skeleton, rot, root, self._covariance, ground, settings), wanted
        return self._drag

    def _asked(
        self,
        goals: Goals,
        weights: np.ndarray,
        turn_weights: np.ndarray,
        firm: np.ndarray,
        hips: Hips | None,
        limits: bool,
        extras: Sequence[ExtraTarget],
    ) -> np.ndarray:
        """Everything that an answer depends on, besides where it goes on from, in one row; lengths in leg lengths."""
        rig, own, use = self.skeleton, self.settings, weights > 0
        assert self._anchor is not None
        rot, root = self._anchor
        turns = np.zeros_like(goals.positions) if goals.rotations is None else goals.rotations
        bounds = self._bounds
        held = np.zeros(6) if hips is None else np.concatenate([hips.position / rig.leg_length, hips.orientation])
        return np.concatenate(
            [
                (goals.positions * use[:, None] / rig.leg_length).reshape(-1),
                (turns * (turn_weights > 0)[:, None]).reshape(-1),
                weights,
                turn_weights,
                firm,
                held,
                [hips is not None, limits, float(goals.ground) / rig.leg_length],
                rot.reshape(-1),
                root / rig.leg_length,
                (rig.offsets / rig.leg_length).reshape(-1),
                bounds,
                *(
                    [KINDS.index(e.kind), e.bone, e.weight, *np.asarray(e.point) / rig.leg_length]
                    for e in extras
                    if e.weight > 0
                ),
                [-1.0 if value is None else value for value in (own.balance, own.floor, own.apart)],
            ]
        )

    def _hips_orientation(self, root_rot: np.ndarray) -> np.ndarray:
        """rot_local (3) of the Hips to their log(R R_rest^T) (3), armature."""
        rest = self.skeleton.rest_arm[0, :3, :3]
        turn = rest @ quick.matrix_of_one(*root_rot.tolist()) @ rest.T
        return np.asarray(rotations.axis_angle_from_matrix(turn))


def _digest(asked: np.ndarray) -> bytes:
    return hashlib.blake2b((asked + 0.0).tobytes(), digest_size=16).digest()  # without negative zeros
