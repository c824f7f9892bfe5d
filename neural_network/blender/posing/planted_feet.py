# SPDX-License-Identifier: GPL-3.0-or-later
"""Planted feet in a bake: when feet are planted, how far they slide, and the offsets that stop them from sliding."""

from __future__ import annotations

from dataclasses import dataclass

import bpy
import numpy as np

from ...core import contacts, rotations
from ...core import forward_kinematics as fk
from ...core.skeleton import Skeleton
from ..host import rig_checks
from ..host.control_rigs import ControlRig
from .state import LiveCharacter

NEGLIGIBLE = 1e-5  # [m]: a frame whose feet move by less is not solved again
BLEND = 0.1  # [s] in which a foot moves to its fixed position before it is planted, and away from it afterwards


@dataclass(frozen=True)
class Skate:
    """How far planted feet slide, before and after."""

    before: float
    after: float
    """[m] mean distance that a planted toe slides per frame."""
    worst: float
    """[m] the longest such distance afterwards."""
    frames: int
    """Number of pairs of neighbouring frames in which a foot is planted; 0 if there are none to measure."""


def positions(live: LiveCharacter, ob: bpy.types.Object, channels: dict[str, np.ndarray]) -> np.ndarray:
    """(feet, 2, 3) ankles and toes [m, core axes] of the pose in transform channels."""
    if not isinstance(live.rig, ControlRig) and not live.rig.simple:
        return positions_in(live, rig_checks.posed_of(ob, live.rig, channels))
    rot, root = rig_checks.pose_of(ob, live.rig, channels)
    posed = fk.pose_matrices(live.rig.skeleton, rotations.matrix_from_axis_angle(rot), root)
    return _feet(live.rig.skeleton, posed[:, :3, 3])


def positions_in(live: LiveCharacter, posed: np.ndarray) -> np.ndarray:
    """(feet, 2, 3) ankles and toes [m, core axes] of a pose (J, 4, 4) [object space], such as Blender's own."""
    return _feet(live.rig.skeleton, posed[:, :3, 3] @ live.rig.turn.T * live.rig.unit)


def _feet(skeleton: Skeleton, heads: np.ndarray) -> np.ndarray:
    bones = [[f, t] for f, t in zip(skeleton.feet, skeleton.toes, strict=True)]
    return heads[np.array(bones, int).reshape(-1, 2)] @ skeleton.axes.T


def planted(skeleton: Skeleton, feet: np.ndarray, seconds: float) -> np.ndarray:
    """(F, feet) bool: in which frames, ``seconds`` apart, feet (F, feet, 2, 3) are planted: near the floor, with a slow toe.

    The thresholds are those of the training data (contacts.GROUND). In motion that trembles they are applied to smoothed
    heights and speeds.
    """
    if len(feet) < 2 or not skeleton.feet:
        return np.zeros(feet.shape[:2], bool)
    heights = contacts.foot_heights(feet[:, :, 0], feet[:, :, 1], skeleton.foot_rest)
    speeds = contacts.central_speed(feet[:, :, 1], 1 / seconds)
    trembling = contacts.foot_tremble(feet.reshape(len(feet), -1, 3), 1 / seconds, skeleton.leg_length)
    if trembling:
        speeds, heights = contacts.steadied(feet[:, :, 1], heights, 1 / seconds, trembling)
    return contacts.grounded(heights - contacts.ground_height(heights), speeds, skeleton.leg_length)


def skate(is_planted: np.ndarray, before: np.ndarray, after: np.ndarray) -> Skate:
    """How far toes slide along the floor per frame while they are planted (F, feet); feet (F, feet, 2, 3) [m]."""
    both = is_planted[1:] & is_planted[:-1]
    if not both.any():
        return Skate(0.0, 0.0, 0.0, 0)
    old, new = (np.linalg.norm(np.diff(f[:, :, 1, :2], axis=0), axis=-1)[both] for f in (before, after))
    return Skate(float(old.mean()), float(new.mean()), float(new.max()), int(both.sum()))


def shifts(is_planted: np.ndarray, feet: np.ndarray, seconds: float) -> np.ndarray:
    """Offsets (F, feet, 3) [m, core axes] along the floor that keep each toe in one place while its foot is planted (F, feet).

    That place is the toe's mean position meanwhile; the offset is blended in and out over ``BLEND`` seconds.
    """
    count, many = is_planted.shape
    reach = max(1, round(BLEND / seconds))
    out = np.zeros((count, many, 3))
    frames = np.arange(count)
    for foot in range(many):
        toe = feet[:, foot, 1, :2]
        total, weights = np.zeros((count, 2)), np.zeros(count)
        for begin, end in contacts.runs(is_planted[:, foot]):
            offset = toe[begin:end].mean(axis=0) - toe
            offset = offset[np.clip(frames, begin, end - 1)]  # outside the interval as at its nearer end
            away = np.maximum(np.maximum(begin - frames, frames - (end - 1)), 0)
            weight = np.clip(1 - away / (reach + 1), 0, 1)
            weight = np.where(is_planted[:, foot] & (away > 0), 0, weight)
            total += weight[:, None] * offset
            weights += weight
        out[:, foot, :2] = total / np.maximum(weights, 1)[:, None]
    return out
