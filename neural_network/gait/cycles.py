# SPDX-License-Identifier: GPL-3.0-or-later
"""Cycles of captured walks and runs: found from the feet, cut, laid on one phase and described.

A cycle begins when the left foot strikes. Strikes and lifts are found where an ankle is farthest ahead of and behind the
Hips (Zeni, Richards and Higginson, "Two simple methods for determining gait events", Gait & Posture 27, 2008): that needs no
level floor, which contacts do. A cycle is seen from a frame that moves with the body's mean velocity and looks along it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.contacts import foot_points
from ..core.skeleton import Skeleton, mirrored_bones
from ..motion.pose_set import PoseSet

SAMPLES = 60
"""Phases at which a cycle is kept."""
LEAST_SECONDS, MOST_SECONDS = 0.5, 2.4
SLOWEST = 0.25  # [m/s at a leg of 0.945 m] slower is no walk
MOST_TURN = 1.2  # [rad] of one cycle
FASTEST = 3.5  # [steps/s]
SHORTEST = 0.25  # leg lengths of a step
UNEVEN = 0.14  # share of the cycle by which the other foot may strike off the middle
MOST_MISMATCH = 0.35  # [rad] by which a joint may differ between beginning and end
SMOOTH = 0.25  # [s] deviation of the window over which the heading is averaged


@dataclass(frozen=True)
class Measured:
    """What a cycle is like; lengths in metres on the skeleton it is on."""

    speed: float
    """[m/s]"""
    cadence: float
    """[steps/s]"""
    step_length: float
    """[m]"""
    step_width: float
    """[m] from heel to heel across the way."""
    turn: float
    """[rad/m]"""
    stance: float
    """Share of the cycle from strike to lift, of both feet."""
    lean: float
    """[deg] of the trunk, forward."""
    arm_swing: float
    """[deg] range of the upper arms, forward and back."""
    sway: float
    """[m] range of the Hips across the way."""
    bounce: float
    """[m] range of the Hips' height."""
    thigh: float
    """[deg] highest thigh against the vertical, forward."""
    toe_out: float
    """[deg] of the feet while they stand."""
    asymmetry: float
    """Share of the cycle by which left stance is shorter than right."""


@dataclass(frozen=True)
class Cycle:
    """One cycle of one clip, without its way: it could be played for ever."""

    turns: np.ndarray
    """(SAMPLES, J, 3, 3) core rotations relative to the parent; those of the Hips relative to the heading."""
    root: np.ndarray
    """(SAMPLES, 3) the Hips' head [m]: to the left, back and up of a point that moves evenly on the floor."""
    seconds: float
    measured: Measured
    clip: int
    """Which clip of the data it is from."""
    first: float
    """Frame at which it begins."""


def cut(poses: PoseSet, clip: int, both: bool = False) -> list[Cycle]:
    """The cycles of one clip, left strike to left strike; none where nobody walks.

    With ``both`` also those from right strike to right strike, seen in a mirror.
    """
    rig = poses.skeleton
    if len(rig.feet) != 2:
        return []
    rows = poses.rows(clip)
    fps = float(poses.clip_fps[clip])
    turns = rotations.matrix_from_axis_angle(rig.to_core(poses.rot[rows].astype(np.float64)))
    root = poses.root_pos[rows].astype(np.float64) @ rig.axes.T
    found = cut_motion(rig, turns, root, fps, clip)
    if both:
        flip = np.array([-1.0, 1, 1])
        turns = flip[:, None] * turns[:, mirrored_bones(rig)] * flip
        found += cut_motion(rig, turns, root * flip, fps, clip)
    return found


def cut_motion(rig: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, clip: int = 0) -> list[Cycle]:
    """The cycles of local core rotations (F, J, 3, 3) and the Hips' head (F, 3) [m, core axes] at ``fps``."""
    if len(root) < LEAST_SECONDS * fps:
        return []
    turned, heads = fk.walk(rig.parents, turns, rig.offsets, root)
    heading = _heading(root, turned[:, 0], fps)
    strikes, lifts = zip(*(events(rig, heads, heading, k, fps) for k in (0, 1)), strict=True)
    out = []
    for first, last in zip(strikes[0][:-1], strikes[0][1:], strict=True):
        seconds = (last - first) / fps
        other = strikes[1][(strikes[1] > first) & (strikes[1] < last)]
        if not LEAST_SECONDS <= seconds <= MOST_SECONDS or len(other) != 1:
            continue
        if abs((other[0] - first) / (last - first) - 0.5) > UNEVEN:
            continue
        found = _cycle(rig, turns, root, turned, heads, heading, (first, float(other[0]), last), lifts, fps, clip)
        if found is not None:
            out.append(found)
    return out


def events(
    rig: Skeleton, heads: np.ndarray, heading: np.ndarray, foot: int, fps: float
) -> tuple[np.ndarray, np.ndarray]:
    """Strikes and lifts of a foot [frames, with fractions]: its ankle farthest ahead of and behind the Hips."""
    way = heads[:, rig.feet[foot], :2] - heads[:, 0, :2]
    ahead = way[:, 0] * np.sin(heading) - way[:, 1] * np.cos(heading)
    return _peaks(ahead, fps, 0.12 * rig.leg_length), _peaks(-ahead, fps, 0.12 * rig.leg_length)


def _peaks(signal: np.ndarray, fps: float, least: float) -> np.ndarray:
    """Frames, with fractions, of maxima that stand at least ``least`` above the deepest point towards the next higher one."""
    kernel = np.exp(-0.5 * (np.arange(-6, 7) / max(0.4, 0.02 * fps)) ** 2)
    padded = np.pad(signal, 6, mode="edge")
    smooth = np.convolve(padded, kernel / kernel.sum(), "valid")
    out = []
    for i in range(1, len(smooth) - 1):
        if not (smooth[i] > smooth[i - 1] and smooth[i] >= smooth[i + 1]):
            continue
        drops = []
        for side in (smooth[i::-1], smooth[i:]):
            higher = np.flatnonzero(side > smooth[i])
            drops.append(smooth[i] - side[: higher[0] if len(higher) else len(side)].min())
        if max(drops) >= least and min(drops) >= 0.25 * least:
            a, b, c = smooth[i - 1 : i + 2]
            out.append(i + 0.5 * (a - c) / min(a - 2 * b + c, -1e-12))
    return np.array(out)


def _heading(root: np.ndarray, hips: np.ndarray, fps: float) -> np.ndarray:
    """(F) [rad] where the body goes, 0 along -Y and positive to the left; where it stands still, where the Hips look."""
    reach = max(1, round(3 * SMOOTH * fps))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (SMOOTH * fps)) ** 2)
    kernel /= kernel.sum()
    way = np.gradient(root[:, :2], axis=0) * fps
    left = hips[:, :2, 0]
    look = np.stack([left[:, 1], -left[:, 0]], axis=1)  # forward of the Hips on the floor: left turned clockwise
    ways, looks = (
        np.stack([np.convolve(np.pad(v[:, i], reach, mode="edge"), kernel, "valid") for i in (0, 1)], axis=1)
        for v in (way, look)
    )
    speed = np.linalg.norm(ways, axis=1)
    forward = ways / np.maximum(speed, 1e-9)[:, None]
    share = np.clip(speed / 0.3 - 0.5, 0, 1)[:, None]
    looks = looks / np.maximum(np.linalg.norm(looks, axis=1), 1e-9)[:, None]
    mixed = share * forward + (1 - share) * looks
    return np.unwrap(np.arctan2(mixed[:, 0], -mixed[:, 1]))


def _cycle(
    rig: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    turned: np.ndarray,
    heads: np.ndarray,
    heading: np.ndarray,
    strikes: tuple[float, float, float],
    lifts: tuple[np.ndarray, ...],
    fps: float,
    clip: int,
) -> Cycle | None:
    first, other, last = strikes
    seconds = (last - first) / fps
    phase = np.arange(SAMPLES) / SAMPLES
    frames = first + (last - first) * phase
    begin, end = sampled(root, np.array([first, last]))
    turn = float(np.interp(last, np.arange(len(heading)), heading) - np.interp(first, np.arange(len(heading)), heading))
    if abs(turn) > MOST_TURN or not 2 / seconds <= FASTEST:
        return None
    # a way of constant bend: its chord looks along the mean heading
    chord = end[:2] - begin[:2]
    length = float(np.linalg.norm(chord))
    if length / seconds < SLOWEST * rig.leg_length / 0.945 or length < 2 * SHORTEST * rig.leg_length:
        return None
    middle = np.arctan2(chord[0], -chord[1])
    if (
        abs((middle - np.interp((first + last) / 2, np.arange(len(heading)), heading) + np.pi) % (2 * np.pi) - np.pi)
        > 0.5
    ):
        return None
    looks = middle + turn * (phase - 0.5)
    arc = length / max(np.sinc(turn / 2 / np.pi), 0.1)
    centre = arc_points(begin[:2], middle - turn / 2, turn, arc, phase)
    back = rotations.matrix_from_axis_angle(np.stack([0 * looks, 0 * looks, -looks], axis=1))
    local = interpolated(turns, frames)
    ends = interpolated(turns, np.array([first, last]))
    away = rotations.geodesic_angle(ends[0, 1:], ends[1, 1:])
    if away.max() > MOST_MISMATCH:
        return None
    local[:, 0] = back @ local[:, 0]
    for at, angle in ((0, -(middle - turn / 2)), (1, -(middle + turn / 2))):
        ends[at, 0] = rotations.matrix_from_axis_angle(np.array([0, 0, angle])) @ ends[at, 0]
    way = sampled(root, frames) - np.concatenate([centre, np.zeros((SAMPLES, 1))], axis=1)
    way = np.einsum("nab,nb->na", back, way)
    gap = np.einsum("ab,b->a", back[0], [0.0, 0, end[2] - begin[2]])
    way = way - (phase - 0.5)[:, None] * gap
    closed = rotations.sixd_from_matrix(local)
    closed = closed - (phase - 0.5)[:, None, None] * (
        rotations.sixd_from_matrix(ends[1]) - rotations.sixd_from_matrix(ends[0])
    )
    local = rotations.matrix_from_sixd(closed)
    stance = []
    for k, strike in ((0, first), (1, other)):
        after = lifts[k][lifts[k] > strike]
        stance.append((after[0] - strike) / (last - first) if len(after) else np.nan)
    measured = measure(rig, local, way, seconds, length if abs(turn) < 1e-3 else arc, turn, tuple(stance))
    return Cycle(local, way, seconds, measured, clip, float(first))


def arc_points(start: np.ndarray, heading: float, turn: float, length: float, share: np.ndarray) -> np.ndarray:
    """Points (N, 2) at ``share`` (N) of an arc that begins at ``start`` (2) along ``heading`` and turns by ``turn`` [rad]."""
    half = turn * share / 2
    chord = length * share * np.sinc(half / np.pi)
    return np.asarray(start + chord[:, None] * np.stack([np.sin(heading + half), -np.cos(heading + half)], axis=1))


def sampled(values: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Values (F, C) at frames with fractions (N), by Catmull-Rom splines."""
    at = np.clip(np.floor(frames).astype(int), 0, max(len(values) - 2, 0))
    t = (frames - at)[:, None]
    p0, p1, p2, p3 = (values[np.clip(at + d, 0, len(values) - 1)] for d in (-1, 0, 1, 2))
    slope1, slope2 = (p2 - p0) / 2, (p3 - p1) / 2
    return np.asarray(
        p1 + t * slope1 + t**2 * (3 * (p2 - p1) - 2 * slope1 - slope2) + t**3 * (2 * (p1 - p2) + slope1 + slope2)
    )


def interpolated(turns: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Rotations (F, J, 3, 3) at frames with fractions (N), through their first two columns."""
    flat = rotations.sixd_from_matrix(turns).reshape(len(turns), -1)
    return rotations.matrix_from_sixd(sampled(flat, frames).reshape(len(frames), *turns.shape[1:-2], 6))


def measure(
    rig: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    seconds: float,
    length: float,
    turn: float,
    stance: tuple[float, ...],
) -> Measured:
    """Describe a cycle: local core rotations (N, J, 3, 3) and the Hips' offset (N, 3) over evenly spaced phases."""
    turned, heads = fk.walk(rig.parents, turns, rig.offsets, root)
    points = foot_points(rig, turned, heads)
    count = len(root)
    widths, outs = [], []
    for k, side in ((0, 1.0), (1, -1.0)):
        middle = (np.arange(round(0.1 * count), round(0.4 * count)) + (0 if k == 0 else count // 2)) % count
        widths.append(points[middle, k, 0, 0].mean() * side)
        ahead = turned[middle, rig.feet[k], :2, 1]
        outs.append(np.degrees(np.arctan2(-ahead[:, 0], ahead[:, 1])).mean() * side)
    trunk = heads[:, _trunk_top(rig)] - heads[:, 0]
    lean = np.degrees(np.arctan2(-trunk[:, 1], trunk[:, 2]))
    thighs = [heads[:, leg[1]] - heads[:, leg[0]] for leg in rig.legs]
    lifted = [np.degrees(np.arctan2(-v[:, 1], -v[:, 2])).max() for v in thighs]
    arms = [np.ptp(arm_angles(rig, heads, turned, k)) for k in (0, 1)] if len(_arms(rig)) == 2 else [0.0]
    share = [s for s in stance if np.isfinite(s)]
    return Measured(
        speed=length / seconds,
        cadence=2 / seconds,
        step_length=length / 2,
        step_width=float(sum(widths)),
        turn=turn / max(length, 1e-6),
        stance=float(np.mean(share)) if share else float("nan"),
        lean=float(lean.mean()),
        arm_swing=float(np.mean(arms)),
        sway=float(np.ptp(root[:, 0])),
        bounce=float(np.ptp(root[:, 2])),
        thigh=float(np.mean(lifted)),
        toe_out=float(np.mean(outs)),
        asymmetry=float(stance[1] - stance[0]) if len(share) == 2 else 0.0,
    )


def _arms(rig: Skeleton) -> list[tuple[int, int]]:
    """(upper arm, forearm) of each hand, left first: effectors that are no feet and lie to a side."""
    out = []
    for end in rig.effectors:
        if end in rig.feet or abs(rig.rest_core[end, 0, 3]) < 0.2 * rig.leg_length:
            continue
        lower = int(rig.parents[end])
        out.append((int(rig.parents[lower]), lower))
    return sorted(out, key=lambda pair: -rig.rest_core[pair[1], 0, 3])


def arm_angles(rig: Skeleton, heads: np.ndarray, turned: np.ndarray, side: int) -> np.ndarray:
    """(N) [deg] of an upper arm, forward of the trunk's own direction, seen from the side."""
    upper, lower = _arms(rig)[side]
    way = np.einsum("nba,nb->na", turned[:, int(rig.parents[rig.parents[upper]])], heads[:, lower] - heads[:, upper])
    return np.degrees(np.arctan2(-way[:, 1], -way[:, 2]))


def _trunk_top(rig: Skeleton) -> int:
    """The bone at the top of the trunk: where the arms' chains meet, one above the other."""
    arms = _arms(rig)
    if len(arms) < 2:
        return rig.count - 1
    chains = []
    for upper, _ in arms:
        bones, at = [], upper
        while at >= 0:
            bones.append(at)
            at = int(rig.parents[at])
        chains.append(bones)
    return next(b for b in chains[0] if b in chains[1])


def mirrored(rig: Skeleton, cycle: Cycle) -> Cycle:
    """The cycle in a mirror, begun half a cycle later so that it is the left foot again that strikes at 0."""
    other = mirrored_bones(rig)
    flip = np.array([-1.0, 1, 1])
    turns = (flip[:, None] * cycle.turns[:, other] * flip)[np.r_[SAMPLES // 2 : SAMPLES, : SAMPLES // 2]]
    root = (cycle.root * flip)[np.r_[SAMPLES // 2 : SAMPLES, : SAMPLES // 2]]
    measured = {f.name: getattr(cycle.measured, f.name) for f in fields(Measured)}
    measured["turn"], measured["asymmetry"] = -measured["turn"], -measured["asymmetry"]
    return Cycle(turns, root, cycle.seconds, Measured(**measured), cycle.clip, cycle.first)
