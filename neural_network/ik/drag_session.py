# SPDX-License-Identifier: GPL-3.0-or-later
"""Drags for continuous control: what :class:`.solver.Session` is for a network, with the same calls."""

from __future__ import annotations

import time

import numpy as np

from ..core import quick_rotations as quick
from ..core import rotations
from ..core.skeleton import Skeleton
from . import density
from .drag import Drag, Hips
from .drag_conditions import DragSettings
from .goals import Goals, checked
from .solver import REACHED, Solution

STRICT = 1e-5  # [rad^2] variance of joint limits that are asked for
AGAIN = 4  # answers to the same goals at most, until a pose that jumped is settled


def knows(skeleton: Skeleton) -> bool:
    """Whether pose changes of people are known for a rig: drags suit it better than the network alone."""
    return density.shipped(skeleton) is not None


class DragSession:
    """Changes one pose, the anchor, so that goals are met and a person could take the pose; see :mod:`.drag`.

    Of the goals it takes places, orientations, weights, the Hips where they are not free, and the floor.
    """

    def __init__(self, skeleton: Skeleton) -> None:
        """A session of a rig, without an anchor yet."""
        self.skeleton = skeleton
        self._anchor: tuple[np.ndarray, np.ndarray] | None = None
        self._drag: Drag | None = None
        self._kept: tuple[float, bool] = (0.0, False)
        self._rotations: np.ndarray | None = None

    def anchor(self, goals: Goals, rot_local: np.ndarray) -> None:
        """From now on change the pose ``rot_local`` (J, 3) [rad] whose Hips are at ``goals.root_pos``.

        An answer that is under way goes on from there, so that nothing jumps while an animation plays. Raises ValueError for
        wrong shapes, NaN and infinity.
        """
        rot, root = np.asarray(rot_local, np.float64), np.asarray(goals.root_pos, np.float64)
        if rot.shape != (self.skeleton.count, 3) or not np.isfinite(rot).all():
            raise ValueError(f"rot_local: expected finite ({self.skeleton.count}, 3), got shape {rot.shape}")
        self._anchor = rot, root
        if self._drag is not None:
            change = self._drag.change
            self._drag.begin(rot, root, self._kept[0])
            self._drag.change = change

    def solve(self, goals: Goals, steps: int = 0, limits: bool = False, free_root: bool | None = None) -> Solution:
        """The pose for ``goals``; ``limits`` makes joint limits strict, ``free_root`` False holds the Hips at the goals' root.

        ``steps`` is there for the sake of :meth:`.solver.Session.solve` and ignored: an answer takes the steps that it needs.
        Without an anchor the rest pose is changed. Raises ValueError for goals of wrong shapes, NaN and infinity.
        """
        began = time.perf_counter()
        goals = checked(goals, self.skeleton, many=False)
        if self._anchor is None:
            self._anchor = np.zeros((self.skeleton.count, 3)), self.skeleton.rest_arm[0, :3, 3]
        ground = float(goals.ground)
        if self._drag is None or self._kept != (ground, limits):
            change = None if self._drag is None else self._drag.change
            settings = DragSettings(limits=STRICT, strict=True) if limits else DragSettings()
            rot, root = self._anchor
            self._drag, self._kept = Drag(self.skeleton, rot, root, None, ground, settings), (ground, limits)
            if change is not None:
                self._drag.change = change
        drag, hips = self._drag, None
        if free_root is False:
            hips = Hips(goals.root_pos, self._hips_orientation(goals.root_rot))
        turn_weights = goals.orientation_weights if goals.orientation_weights is not None else goals.weights
        for _ in range(AGAIN):
            rot, root, missed = drag.solve(goals.positions, goals.weights, goals.rotations, turn_weights, hips)
            if drag.settled:
                break
        quaternions = rotations.quaternion_from_axis_angle(rot)
        return Solution(quaternions, root, missed, missed < REACHED, steps, time.perf_counter() - began)

    def ends(self, goals: Goals) -> tuple[np.ndarray, np.ndarray]:
        """Where the last answer put the effectors: positions (E, 3) [m] and R R_rest^T as quaternions (E, 4), armature space.

        Raises ValueError if nothing has been solved yet.
        """
        if self._drag is None:
            raise ValueError("nothing was solved yet: call solve first")
        positions, turned = self._drag.ends()
        return positions, quick.quaternion_from_matrix(turned)

    def reset(self) -> None:
        """Forget the anchor and the answer: after a cut, a teleport, or for another character."""
        self._anchor = self._drag = None

    def _hips_orientation(self, root_rot: np.ndarray) -> np.ndarray:
        """rot_local (3) of the Hips to their log(R R_rest^T) (3), armature."""
        rest = self.skeleton.rest_arm[0, :3, :3]
        turn = rest @ quick.matrix_of_one(*root_rot.tolist()) @ rest.T
        return np.asarray(rotations.axis_angle_from_matrix(turn))
