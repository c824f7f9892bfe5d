# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a pose looks broken: by the joints that are beyond their limits, and by how unlikely its change from another pose is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core import quick_rotations as quick
from ..core import rotations
from ..core.skeleton import Skeleton
from . import density, other_bones
from .quick_limits import JointLimits

BROKEN = np.radians(20.0)  # beyond a limit, and farther than before: people are seldom so
UNLIKELY = 1.5  # of 4,000 changes in the shipped clips the largest is 1.14, of the drags in docs/drags.md 1.28
_LIMBS = 4  # bones named at most


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a pose."""

    beyond: dict[int, float]
    """Bones that are farther than 20 degrees beyond their limits, and not because they were before -> how far [rad]."""
    unlikely: float
    """Root mean square of the change in standard deviations of people's pose changes; NaN where none are known for the rig."""

    @property
    def broken(self) -> bool:
        """Whether a person would hardly take this pose."""
        return bool(self.beyond) or self.unlikely > UNLIKELY

    def sentence(self, names: Sequence[str]) -> str:
        """What is wrong in one sentence, with the ``names`` of the bones; empty where nothing is."""
        if self.beyond:
            worst = sorted(self.beyond, key=lambda bone: -self.beyond[bone])
            shown = ", ".join(f"{names[bone]} by {np.degrees(self.beyond[bone]):.0f}°" for bone in worst[:_LIMBS])
            return (
                f"Looks broken: beyond the range of the joint are {shown}"
                if len(worst) > 1
                else (
                    f"Looks broken: {names[worst[0]]} is {np.degrees(self.beyond[worst[0]]):.0f}° beyond the range of its joint"
                )
            )
        return "Looks unlikely: people do not change from pose to pose like this" if self.unlikely > UNLIKELY else ""


class PoseJudge:
    """Judges poses of one rig."""

    def __init__(self, skeleton: Skeleton, roles: Sequence[str] | None = None) -> None:
        """Take the joint limits of ``skeleton`` and, if it is a person's, how people change their pose.

        ``roles`` (J) are those of its bones; None where they are named by their roles.
        """
        self.skeleton, self._limits = skeleton, JointLimits(skeleton)
        covariance = other_bones.people(skeleton, roles)
        self._precision = None
        if covariance is not None:
            self._precision = np.linalg.inv(density.with_anatomy(skeleton, covariance)[:-3, :-3])

    def judge(self, rot_local: np.ndarray, begun_rot: np.ndarray) -> Verdict:
        """The verdict on the pose ``rot_local`` (J, 3) [rad], changed from ``begun_rot`` (J, 3), which is taken as it is.

        The change of the Hips counts by its tilt alone: people turn round and go anywhere.
        """
        now, before = (
            rotations.matrix_from_axis_angle(self.skeleton.to_core(np.asarray(rot, np.float64)))
            for rot in (rot_local, begun_rot)
        )
        beyond = self._limits.beyond(now).distance
        more = np.flatnonzero((beyond > BROKEN) & (beyond > self._limits.beyond(before).distance + 0.5 * BROKEN))
        found: dict[int, float] = {}
        for row in more.tolist():
            bone = int(self._limits.bones[row])
            found[bone] = max(found.get(bone, 0.0), float(beyond[row]))
        if self._precision is None:
            return Verdict(found, float("nan"))
        up = np.array([0.0, 0, 1])
        tilt = np.cross(before[0].T @ up, now[0].T @ up)
        change = quick.axis_angle_from_matrix(before.transpose(0, 2, 1) @ now)
        change[0] = -tilt
        flat = change.reshape(-1)
        return Verdict(found, float(np.sqrt(flat @ self._precision @ flat / len(flat))))
