# SPDX-License-Identifier: GPL-3.0-or-later
"""Standing feet in a bake: when they stand, how far they slide, and by how much each is moved so that it does not."""

from __future__ import annotations

from dataclasses import dataclass

import bpy
import numpy as np

from ...core import rotations
from ...core.contacts import GROUND
from ...core.skeleton import Skeleton
from ..host import rig_checks
from .state import Live, pose_matrices

UNSEEN = 1e-5  # [m] a foot that is moved by less is not solved again
BLEND = 0.1  # [s] before and after standing, in which a foot goes to the place that it is held at


@dataclass(frozen=True)
class Skate:
    """How far feet slide while they stand, before and after."""

    before: float
    after: float
    """[m] mean way of a standing toe in one frame."""
    worst: float
    """[m] the longest such way after."""
    frames: int
    """Pairs of frames in which a foot stood."""


def places(live: Live, ob: bpy.types.Object, channels: dict[str, np.ndarray]) -> np.ndarray:
    """(feet, 2, 3) ankles and toes [m, core axes] of the pose that transform channels stand for."""
    skeleton = live.rig.skeleton
    rot, root = rig_checks.pose_of(ob, live.rig, channels)
    posed = pose_matrices(live, rotations.matrix_from_axis_angle(rot), root)
    bones = [[f, t] for f, t in zip(skeleton.feet, skeleton.toes, strict=True)]
    return posed[np.array(bones, int).reshape(-1, 2), :3, 3] @ skeleton.axes.T


def standing(skeleton: Skeleton, feet: np.ndarray, seconds: float) -> np.ndarray:
    """(F, feet) bool: in which frames, ``seconds`` apart, feet (F, feet, 2, 3) stand: low, and the toe slow, as in the training data."""
    if len(feet) < 2 or not skeleton.feet:
        return np.zeros(feet.shape[:2], bool)
    size = skeleton.leg_length / GROUND.reference_leg
    heights = (feet[..., 2] - skeleton.foot_rest).min(axis=-1)
    floor = np.percentile(heights.min(axis=1), GROUND.percentile)
    speed = np.linalg.norm(np.gradient(feet[:, :, 1], axis=0), axis=-1) / seconds
    return (heights - floor < GROUND.near * size) & (speed < GROUND.slow * size)


def skate(stands: np.ndarray, before: np.ndarray, after: np.ndarray) -> Skate:
    """How far toes slide on the floor from one frame to the next while they stand (F, feet); feet (F, feet, 2, 3)."""
    both = stands[1:] & stands[:-1]
    if not both.any():
        return Skate(0.0, 0.0, 0.0, 0)
    old, new = (np.linalg.norm(np.diff(f[:, :, 1, :2], axis=0), axis=-1)[both] for f in (before, after))
    return Skate(float(old.mean()), float(new.mean()), float(new.max()), int(both.sum()))


def shifts(stands: np.ndarray, feet: np.ndarray, seconds: float) -> np.ndarray:
    """(F, feet, 3) [m, core axes] along the floor, by which each foot is moved so that its toe stays while it stands.

    It stays where it is on the average of that time; before and after, the way there is taken in ``BLEND`` seconds.
    """
    count, many = stands.shape
    reach = max(1, round(BLEND / seconds))
    out = np.zeros((count, many, 3))
    frames = np.arange(count)
    for foot in range(many):
        toe = feet[:, foot, 1, :2]
        edges = np.flatnonzero(np.diff(np.concatenate([[0], stands[:, foot].astype(int), [0]])))
        total, shares = np.zeros((count, 2)), np.zeros(count)
        for begin, end in edges.reshape(-1, 2).tolist():
            way = toe[begin:end].mean(axis=0) - toe
            away = np.maximum(np.maximum(begin - frames, frames - (end - 1)), 0)
            way = way[np.clip(frames, begin, end - 1)]  # beyond the time of standing, as at its edge
            share = np.clip(1 - away / (reach + 1), 0, 1)
            share = np.where(stands[:, foot] & (away > 0), 0, share)
            total += share[:, None] * way
            shares += share
        out[:, foot, :2] = total / np.maximum(shares, 1)[:, None]
    return out
