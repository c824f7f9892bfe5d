# SPDX-License-Identifier: GPL-3.0-or-later
"""Floors that are not level: a tilted camera, and heights that drift, found from feet that stand still and undone.

A foot that stands shows a point of the floor. Where the points of a take lie on a slope, the whole motion is tilted; where they rise or
sink with time, its height drifts. Both come from one fit of heights to places and times, in which points that are no floor (a foot on a
chair) count little (Huber's weights; Huber, "Robust Statistics", 1981). The constants below were chosen so that 137 of 139 captured takes
count as level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.contacts import GROUND, central_speed, runs
from ..core.rotations import quaternion_from_matrix, quaternion_multiply, rotation_between
from ..motion.clip import Clip, to_z_up
from .rig_body import UP, clip_motion, leg_length
from .roles import Roles

LEAST_TILT = np.radians(2.0)  # a floor that is tilted less is called level
MOST_TILT = np.radians(25.0)  # and one that is tilted more is a heap of something
LEAST_RISE = 0.12  # [leg lengths] that the floor must rise between the points
POINTS = 8  # standing feet that are needed
STANDS = 0.15  # [s] a foot that is still for so long
SPREAD, LASTS = 0.7, 2.0  # [leg lengths], [s] over which the points must extend to show a slope, or a drift
EXPLAINS = 0.5  # share of the heights' deviation that must be gone with them
NEAR = 0.02  # [leg lengths] deviations below this count in full


@dataclass(frozen=True)
class Slope:
    """What is not level in a take."""

    slope: np.ndarray
    """(2) rise of the floor along x and y; zero where it is level."""
    drift: float
    """[m/s] rise of the floor with time; 0 where there is none."""
    rises: float
    """[m] rise from the first to the last foot that stands."""

    @property
    def tilt(self) -> float:
        """[rad]"""
        return float(np.arctan(np.linalg.norm(self.slope)))

    def sentence(self) -> str:
        """What it is, in words; empty where all is level."""
        said = []
        if self.tilt:
            said.append(
                f"the floor under standing feet is tilted by {np.degrees(self.tilt):.0f} degrees, as of a tilted camera"
            )
        if self.drift:
            said.append(f"the height of standing feet drifts by {100 * abs(self.rises):.0f} cm over the take")
        return " and ".join(said)


LEVEL = Slope(np.zeros(2), 0.0, 0.0)


def find_slope(clip: Clip, roles: Roles) -> Slope:
    """How the floor under a clip is tilted and drifts; LEVEL where too few feet stand to say."""
    own = {role for role, j in roles.bones.items() if j is not None}
    if not {"LeftFoot", "RightFoot", "LeftThigh", "RightThigh", "LeftShin", "RightShin"} <= own or clip.frames < 8:
        return LEVEL
    body, motion = clip_motion(clip, roles)
    leg = leg_length(body)
    points, times, sides = [], [], []
    for side in ("Left", "Right"):
        point = body.bones.get(side + "ToeBase", body.bones[side + "Foot"])
        path = motion.heads[:, point]
        still = central_speed(path, clip.fps) < 0.5 * GROUND.slow * leg / GROUND.reference_leg
        for first, last in runs(still):
            if last - first >= max(2, STANDS * clip.fps):
                points.append(path[first:last].mean(axis=0))
                times.append((first + last) / (2 * clip.fps))
                sides.append(side == "Left")
    if len(points) < POINTS:
        return LEVEL
    places, at, left = np.array(points), np.array(times), np.array(sides, float)
    flat = _fit(places, at, left, leg, False, False)[1]
    best, rest_of_best = LEVEL, flat
    for tilted, drifting in ((True, False), (False, True), (True, True)):  # the simpler explanation first
        found, rest, rise = _fit(places, at, left, leg, tilted, drifting)
        clear = LEAST_TILT <= found.tilt <= MOST_TILT if tilted else abs(found.rises) >= LEAST_RISE * leg
        if drifting and abs(found.rises) < LEAST_RISE * leg:
            continue
        if clear and rise >= LEAST_RISE * leg and rest < min(EXPLAINS * flat, 0.8 * rest_of_best, NEAR * leg):
            best, rest_of_best = found, rest
    return best


def _fit(
    places: np.ndarray, times: np.ndarray, left: np.ndarray, leg: float, tilted: bool, drifting: bool
) -> tuple[Slope, float, float]:
    """The slope and drift that explain heights best, the deviation that is left, and how far they make the floor rise [m].

    Only directions in which the points (N, 3) extend far enough may slope. ``left`` (N) says whose foot it is: feet differ in height.
    """
    offsets = places[:, :2] - places[:, :2].mean(axis=0)
    columns = [np.ones((len(places), 1)), (left - left.mean())[:, None]]
    ways = np.linalg.svd(offsets, full_matrices=False)[2]
    ways = ways[[bool(np.ptp(offsets @ way) > SPREAD * leg) for way in ways]] if tilted else ways[:0]
    columns += [(offsets @ way)[:, None] for way in ways]
    drifting = drifting and bool(np.ptp(times) > LASTS)
    columns += [(times - times.mean())[:, None]] if drifting else []
    design = np.concatenate(columns, axis=1)
    weights = np.ones(len(places))
    for _ in range(20):
        root = np.sqrt(weights)[:, None]
        found = np.linalg.lstsq(design * root, places[:, 2] * root[:, 0], rcond=1e-3)[0]
        off = np.abs(places[:, 2] - design @ found)
        weights = np.minimum(1.0, max(NEAR * leg, float(np.median(off))) / np.maximum(off, 1e-9))
    slope = np.asarray(found[2 : 2 + len(ways)] @ ways) if len(ways) else np.zeros(2)
    drift = float(found[-1]) if drifting else 0.0
    rise = max(float(np.ptp(offsets @ slope)), abs(drift) * float(np.ptp(times)))
    return Slope(slope, drift, drift * float(np.ptp(times))), _deviation(places[:, 2] - design @ found), rise


def _deviation(values: np.ndarray) -> float:
    """A deviation that a few points far away do not change."""
    return float(np.median(np.abs(values))) + 1e-9


def levelled(clip: Clip, slope: Slope) -> Clip:
    """The clip on a level floor that stays at one height. Clips of one figure only: others roots are left as they are."""
    if not slope.tilt and not slope.drift:
        return clip
    axes = to_z_up(clip.up_axis)
    normal = np.array([-slope.slope[0], -slope.slope[1], 1.0])
    turn = rotation_between(normal / np.linalg.norm(normal), UP)
    own = axes.T @ turn @ axes
    rotations = np.array(clip.rotations, float)
    upright = quaternion_from_matrix(own)
    rotations[:, 0] = quaternion_multiply(np.broadcast_to(upright, rotations[:, 0].shape), rotations[:, 0])
    seconds = np.arange(clip.frames) / clip.fps
    sunk = (seconds[:, None] * slope.drift / clip.unit) * (axes.T @ UP)
    about = clip.root_pos.mean(axis=0)  # else a body far from the origin would be carried up or down by metres
    places = (clip.root_pos - about) @ own.T + about - sunk
    return replace(clip, rotations=rotations, root_pos=places)
