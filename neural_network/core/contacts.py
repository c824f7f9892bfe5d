# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts: when a foot counts as standing on the ground, and where its sole is.

Two rules are used, for two purposes:

- :func:`grounded`, scaled with the leg, is what the IK network is told and what imported and baked feet are held by;
- :func:`truth_contacts`, in fixed lengths, is what motion is measured by, whoever made it (see :mod:`.metrics`).

All heights are along the last axis (up) of the points given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .skeleton import Skeleton


@dataclass(frozen=True)
class Ground:
    """When a foot counts as standing. Lengths are for legs of 0.945 m and scale with the leg."""

    reference_leg: float = 0.945  # [m] leg length of the reference rig, to which the lengths below belong
    percentile: float = 2.0  # of a clip's lowest foot height: single frames below the floor do not matter
    near: float = 0.03  # [m] the lower of ankle and toe is below this
    slow: float = 0.3  # [m/s] and the toe is slower than this, if time is known
    ahead: float = 0.1  # [s] the desired contact is the contact this much later
    older_below: float = 0.1  # [m] the older rule: the foot's head is below this


@dataclass(frozen=True)
class TruthContact:
    """The rule of :func:`truth_contacts`; lengths are not scaled."""

    near: float = 0.03  # [m]
    slow: float = 0.45  # [m/s]
    shortest: int = 3  # [frames] shorter contacts are dropped
    heel: float = 0.04  # [m] the heel lies this far behind the ankle
    tip: float = 0.07  # [m] the tip lies this far ahead of the ball


@dataclass(frozen=True)
class Tremble:
    """When motion trembles, see :func:`tremble`; measured on 107 captured and keyed takes, at their own rates and at 24 to 60."""

    most: float = (
        0.35  # [deg] at 30 frames a second: captured motion stays below 0.25, half a degree of noise above 0.48
    )
    fps: float = 30.0  # [1/s] the rate to which it belongs; it falls with the root of the rate
    slowest: float = 20.0  # [1/s]
    fewest: int = 12  # [frames]
    turning: float = 1.0  # [deg] a joint that turns less in the whole clip does not count
    quiet: float = 10.0  # percentile over frames
    of_chi: float = 0.764  # that percentile of the length of three normal numbers
    joints: float = 25.0  # percentile over joints
    fewest_at_foot: int = 30  # [frames] from which one foot alone tells
    at_feet: float = 0.018  # [m at a leg of 0.945 m] by which feet move for each degree
    window: float = 0.25  # [s] per degree over which standing feet are sought in motion that trembles
    windows: tuple[float, float] = (0.15, 0.25)  # [s] the shortest and the longest: a running foot stands for 0.15


GROUND = Ground()
TREMBLE = Tremble()
TRUTH = TruthContact()
PEOPLE = (0.4, 1.8)  # [m] legs
POINTS = ("heel", "ball", "tip")
"""Points of a foot's sole, in the order of :func:`foot_points`."""


# ---------------------------------------------------------------- heights and speeds


def foot_heights(ankles: np.ndarray, toes: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Height (..., feet) [m] of the lower of ankle and toe, each above its own height in the rest pose.

    ``ankles`` and ``toes`` (..., feet, 3) [m]; ``rest`` (feet, 2) [m] as :attr:`.Skeleton.foot_rest`.
    """
    return np.minimum(ankles[..., 2] - rest[:, 0], toes[..., 2] - rest[:, 1])


def ground_height(heights: np.ndarray) -> float:
    """Height [m] of the floor under a clip, from its foot heights (F, feet) or the lowest ones (F)."""
    lowest = heights.min(axis=1) if heights.ndim == 2 else heights
    return float(np.percentile(lowest, GROUND.percentile))


def backward_speed(points: np.ndarray, fps: float) -> np.ndarray:
    """Speed (F, ...) [m/s] of points (F, ..., 3) since the frame before; the first frame has the second's, a single one 0."""
    if len(points) < 2:
        return np.zeros(points.shape[:-1])
    speed = np.linalg.norm(np.diff(points, axis=0), axis=-1) * fps
    return np.concatenate([speed[:1], speed])


def central_speed(points: np.ndarray, fps: float) -> np.ndarray:
    """Speed (F, ...) [m/s] of points (F, ..., 3) by central differences, one-sided at the ends; 0 for a single frame."""
    if len(points) < 2:
        return np.zeros(points.shape[:-1])
    return np.linalg.norm(np.gradient(points, axis=0), axis=-1) * fps


# ---------------------------------------------------------------- motion that trembles


def tremble(rotations: np.ndarray) -> float:
    """How much most joints tremble from frame to frame [deg], from their local rotations (F, J, 4), unit quaternions.

    Fourth differences of a tremble add up to sqrt(70) of it, while those of motion vanish where a joint is briefly quiet.
    So a low percentile over the frames and over the joints that ever turn is near zero for captured and keyed motion,
    however fast, and close to the standard deviation of a tremble that is everywhere, as in motion estimated from video.
    0 for fewer than 12 frames, and where no joint turns.
    """
    if len(rotations) < TREMBLE.fewest:
        return 0.0
    likeness = np.abs(np.einsum("fjc,jc->fj", rotations, rotations[0]))
    q = rotations[:, likeness.min(axis=0) < np.cos(np.radians(TREMBLE.turning / 2))]
    if not q.shape[1]:
        return 0.0
    flips = np.where(np.sum(q[1:] * q[:-1], axis=-1) < 0, -1.0, 1.0)
    q = q * np.cumprod(np.concatenate([np.ones((1, q.shape[1])), flips]), axis=0)[..., None]
    fourth = q[:-4] - 4 * q[1:-3] + 6 * q[2:-2] - 4 * q[3:-1] + q[4:]
    sizes = np.linalg.norm(fourth, axis=-1) * (2 / np.sqrt(70) / TREMBLE.of_chi)
    return float(np.degrees(np.percentile(np.percentile(sizes, TREMBLE.quiet, axis=0), TREMBLE.joints)))


def foot_tremble(points: np.ndarray, fps: float, leg_length: float) -> float:
    """The tremble [deg] by which points (F, n, 3) [m] of the feet would move as they do; 0 where contacts need no smoothing.

    See :func:`tremble`. Points that tremble together count in any clip, a single one, such as a foot that was solved apart
    from the body, in one of a second or so: a short fast run would look like it. ``fps`` may be unknown (NaN): then 0.
    """
    if len(points) < TREMBLE.fewest or not points.shape[1] or not np.isfinite(fps):
        return 0.0
    fourth = points[:-4] - 4 * points[1:-3] + 6 * points[2:-2] - 4 * points[3:-1] + points[4:]
    sizes = np.linalg.norm(fourth, axis=-1) / (np.sqrt(70) * TREMBLE.of_chi)
    size = np.percentile(sizes, TREMBLE.quiet, axis=0) / (TREMBLE.at_feet * leg_length / GROUND.reference_leg)
    together, alone = float(np.percentile(size, TREMBLE.joints)), float(size.max())
    if trembles(together, fps):
        return together
    limit = TREMBLE.most * TREMBLE.fps / fps  # by which a standing point is as fast as a walking one
    return alone if fps >= TREMBLE.slowest and len(points) >= TREMBLE.fewest_at_foot and alone > limit else 0.0


def trembles(degrees: float, fps: float) -> bool:
    """Whether a :func:`tremble` at this frame rate makes standing feet look as if they moved; never at low rates.

    At fewer than 20 frames a second fast motion looks like a tremble.
    """
    return bool(fps >= TREMBLE.slowest and degrees > TREMBLE.most * np.sqrt(TREMBLE.fps / fps))


def steadied(points: np.ndarray, heights: np.ndarray, fps: float, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Speeds (F, ...) [m/s] of points (F, ..., 3) [m], and heights (F, ...) [m], without a tremble of ``degrees``.

    A line is fitted to a window before, around and after each frame, and the slowest of the three counts: so a foot is
    still from its first frame on the floor to its last, although the window is long. Heights are means of the window around.
    """
    reach = _reach(len(points), fps, degrees)
    if reach < 1:
        return central_speed(points, fps), heights
    kernel = np.arange(-reach, reach + 1.0)
    speeds = np.linalg.norm(_windows(points, kernel / np.sum(kernel**2) * fps), axis=-1)
    centres = np.clip(np.arange(len(points)) + np.array([[-reach], [0], [reach]]), reach, len(points) - 1 - reach)
    return speeds[centres - reach].min(axis=0), averaged(heights, fps, degrees)


def averaged(values: np.ndarray, fps: float, degrees: float) -> np.ndarray:
    """Means of values (F, ...) in a window around each frame that is long enough for a tremble of ``degrees``."""
    reach = _reach(len(values), fps, degrees)
    means = _windows(values, np.full(2 * reach + 1, 1 / (2 * reach + 1)))
    return np.asarray(means[np.clip(np.arange(len(values)) - reach, 0, len(means) - 1)])


def _reach(frames: int, fps: float, degrees: float) -> int:
    """Frames to each side of a window."""
    window = float(np.clip(TREMBLE.window * degrees, *TREMBLE.windows))
    return min(max(1, round(window * fps / 2)), (frames - 1) // 2)


def _windows(values: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Sums (F - K + 1, ...) of values (F, ...) weighted with a kernel (K) in every window that lies inside."""
    views = np.lib.stride_tricks.sliding_window_view(values, len(kernel), axis=0)
    return np.asarray(views @ kernel)


# ---------------------------------------------------------------- the scaled rule


def grounded(heights: np.ndarray, speeds: np.ndarray, leg_length: float) -> np.ndarray:
    """(...) bool: feet that stand, from their heights above the ground [m] and the speeds of their toes [m/s]."""
    scale = leg_length / GROUND.reference_leg
    return (heights < GROUND.near * scale) & (speeds < GROUND.slow * scale)


def older_grounded(ankles: np.ndarray, leg_length: float) -> np.ndarray:
    """(...) bool: feet that stand by the older rule, from the heights of their ankles above the ground [m]."""
    return ankles < GROUND.older_below * (leg_length / GROUND.reference_leg)


def desired(contact: np.ndarray, fps: float) -> np.ndarray:
    """(F, feet) the contact 0.1 s later; at the end of the clip, that of its last frame."""
    last = len(contact) - 1
    return contact[np.minimum(np.arange(len(contact)) + round(GROUND.ahead * fps), last)]


# ---------------------------------------------------------------- runs of frames


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """First frame and the one after the last of each run of True in ``flags`` (F)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def without_short_runs(flags: np.ndarray, least: int) -> np.ndarray:
    """``flags`` (F) bool with gaps, and then contacts, shorter than ``least`` frames taken out; those at the ends stay."""
    out = flags.copy()
    for value in (True, False):
        for first, last in runs(out == (not value)):
            if last - first < least and first > 0 and last < len(out):
                out[first:last] = value
    return out


# ---------------------------------------------------------------- the rule that motion is measured by


def truth_contacts(
    ankles: np.ndarray,
    toes: np.ndarray,
    rest: np.ndarray,
    ground: float = 0.0,
    fps: float = 30.0,
    scale: float = 1.0,
) -> np.ndarray:
    """(F, feet) bool: feet that stand in one clip of clean motion, the truth that made motion is measured by.

    The lower of ankle and toe, each above its rest height, is at most 0.03 m above ``ground`` [m], and that point moves at
    most 0.45 m/s, counting the slower of the ways from the frame before and to the frame after. Where the lower point
    changes between two frames, the way between them leads from one point to the other. Gaps of one frame are closed,
    contacts of fewer than three frames dropped; a single frame has none. The thresholds belong to 30 frames a second.

    ``ankles`` and ``toes`` (F, feet, 3) [m]; ``rest`` (feet, 2) [m] as :attr:`.Skeleton.foot_rest`; ``scale`` is that of
    :func:`size_of`, where not people's motion is judged but any character's.
    """
    frames, feet = ankles.shape[:2]
    if frames < 2:
        return np.zeros((frames, feet), bool)
    toe_is_lower = (toes[..., 2] - rest[:, 1]) < (ankles[..., 2] - rest[:, 0])
    lower = np.where(toe_is_lower[..., None], toes, ankles)
    ways = np.linalg.norm(np.diff(lower, axis=0), axis=-1) * fps
    speed = np.minimum(np.concatenate([ways[:1], ways]), np.concatenate([ways, ways[-1:]]))
    touching = (foot_heights(ankles, toes, rest) - ground <= scale * TRUTH.near) & (speed <= scale * TRUTH.slow)
    touching[1:-1] |= touching[:-2] & touching[2:]
    for foot in range(feet):
        for first, last in runs(touching[:, foot]):
            touching[first:last, foot] = last - first >= TRUTH.shortest
    return touching


def size_of(leg_length: float) -> float:
    """By how much lengths of :data:`TRUTH` grow for a character: 1 with legs as people have, children and giants included, else as
    much as its legs [m] are longer or shorter than the reference rig's."""
    least, most = PEOPLE
    return 1.0 if least <= leg_length <= most else leg_length / GROUND.reference_leg


def foot_points(skeleton: Skeleton, turned: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Heel, ball and tip (..., feet, 3, 3) [m] under every foot, on the floor in the T-pose.

    The heel lies below and 0.04 m behind the ankle, the ball below the toe's head, the tip 0.07 m ahead of the ball; the
    heel moves with the foot, the others with the toe. Without a toe bone the foot carries all three and looks along -Y.
    ``turned`` (..., J, 3, 3) and ``heads`` (..., J, 3) [m] in core axes, as forward kinematics gives them.
    """
    rest = skeleton.rest_core[:, :3, 3]
    out = np.empty((*heads.shape[:-2], len(skeleton.feet), 3, 3), heads.dtype)
    for k, (foot, toe) in enumerate(zip(skeleton.feet, skeleton.toes, strict=True)):
        ahead = (rest[toe] - rest[foot]) * [1.0, 1, 0]
        length = np.linalg.norm(ahead)
        ahead = ahead / length if length > 1e-9 else np.array([0.0, -1, 0])
        ball = rest[toe]
        for i, (bone, point) in enumerate(
            ((foot, rest[foot] - TRUTH.heel * ahead), (toe, ball), (toe, ball + TRUTH.tip * ahead))
        ):
            arm = np.array([*point[:2], skeleton.floor]) - rest[bone]
            out[..., k, i, :] = heads[..., bone, :] + turned[..., bone, :, :] @ arm
    return out
