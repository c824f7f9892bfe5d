# SPDX-License-Identifier: GPL-3.0-or-later
"""Hips height, stride, feet and hands of a retargeted motion: feet that stand stay in place, nothing goes below the floor.

All frames are armature axes: metres, Z up, the floor at z = 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.contacts import (
    GROUND,
    averaged,
    central_speed,
    ground_height,
    grounded,
    runs,
    steadied,
    without_short_runs,
)
from .limb_solving import solve_limb
from .rig_body import UP, RigBody, RigMotion, descendants, leg_length, posed_heads

BLEND_SECONDS = 0.2  # a foot's correction fades in and out over this long before and after a contact
STANDING = 0.75  # of the leg's length: thighs this high above a foot belong to a leg that stands
FLOOR_NEAR, FLOOR_FAR = (
    0.15,
    2.5,
)  # legs' lengths: feet between them above a file's height 0 are off the floor, and still near it
FLOOR_SAME = 0.05  # legs' lengths: floors of one capture differ by no more
MAX_SLIDE = 0.08  # [m at a leg of 0.945 m] a foot that slides further during a contact keeps the rest of its slide


def planted_frames(body: RigBody, motion: RigMotion) -> dict[str, np.ndarray]:
    """Per foot role, the frames (F) bool in which the whole foot is still and on the floor; empty without feet."""
    if len(motion.turned) < 2 or "LeftFoot" not in body.bones or "RightFoot" not in body.bones:
        return {}
    scale = leg_length(body) / GROUND.reference_leg
    heights = [_steady_height(motion, body.bones[side + "Foot"]) for side in ("Left", "Right")]
    lowest = ground_height(np.minimum(*heights))
    out = {}
    for side, height in zip(("Left", "Right"), heights, strict=True):
        planted = height < lowest + GROUND.near * scale
        for part in ("Foot", "ToeBase"):
            point = body.bones.get(side + part, body.bones[side + "Foot"])
            planted &= _steady_speed(motion, point) < 0.5 * GROUND.slow * scale
        out[side + "Foot"] = out[side + "ToeBase"] = planted
    return out


def place(
    source: RigBody,
    motion: RigMotion,
    target: RigBody,
    turned: np.ndarray,
    since_t: Mapping[str, np.ndarray],
    target_t_pose: Mapping[str, np.ndarray],
    plant: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """The target's rotations with solved legs and arms (F, J, 3, 3), and its heads (F, J, 3) [m].

    Without ``plant`` the rotations stay as they are, and only the whole motion is put onto the floor.

    Args:
        source: the skeleton that the motion comes from.
        motion: its motion.
        target: the skeleton that the motion goes to.
        turned: (F, J, 3, 3) the target's rotations since its rest, in world axes.
        since_t: per role, (F, 3, 3) rotations since the T-pose.
        target_t_pose: per role, (3, 3) the target's rotation since rest in its T-pose.
        plant: solve the legs, so that feet which stand stay in place, and hands that would go through the floor.
    """
    scale = leg_length(target) / leg_length(source)
    turned = turned.copy()
    heads = posed_heads(target, turned)
    thighs = [target.bones["LeftThigh"], target.bones["RightThigh"]]
    source_thighs = [source.bones["LeftThigh"], source.bones["RightThigh"]]
    shift = scale * motion.heads[:, source_thighs].mean(1) - heads[:, thighs].mean(1)
    heads = heads + shift[:, None]
    if not all(f"{s}Foot" in b.bones for s in ("Left", "Right") for b in (source, target)) or not len(turned):
        return turned, heads
    soles = rest_soles(target, target_t_pose)
    ankles = {}
    for side in ("Left", "Right"):
        thigh, ankle = source.bones[side + "Thigh"], source.bones[side + "Foot"]
        leg = motion.heads[:, ankle] - motion.heads[:, thigh]
        ankles[side] = heads[:, target.bones[side + "Thigh"]] + scale * leg
        if not plant:
            ankles[side] = heads[:, target.bones[side + "Foot"]]
    low = np.minimum(*(_sole_height(target, turned, side, ankles[side], soles) for side in ("Left", "Right")))
    floor = ground_height(averaged(low, motion.fps, motion.tremble) if motion.tremble else low)
    floor -= scale * floor_drop(source, motion)
    heads = heads - floor * UP
    for side in ("Left", "Right") if plant else ():
        ankle_target = ankles[side] - floor * UP
        stands = standing_frames(source, motion, side)
        ankle_target = ankle_target + _pin_corrections(target, turned, side, ankle_target, soles, stands, motion)
        ankle_target[:, 2] += np.maximum(0, -_sole_height(target, turned, side, ankle_target, soles))
        hinge = since_t[side + "Thigh"] @ np.array([1.0, 0, 0])
        bones = [target.bones[side + p] for p in ("Thigh", "Shin", "Foot")]
        solve_limb(target, turned, heads, bones, ankle_target, hinge)
        _lift_hand(source, motion, target, turned, heads, side, scale, float(floor), since_t)
    solved = posed_heads(target, turned)
    return turned, solved + (heads - solved)[:, [thighs[0]]]


# ---------------------------------------------------------------- the floor


def floor_drop(body: RigBody, motion: RigMotion) -> float:
    """How far [m] the floor lies below the lowest feet of a motion; 0 where somebody stands in it, because feet then show it.

    Feet of a body that only sits, lies or hangs do not: then the floor is at the height 0 of the file, if that lies below the
    feet and nothing reaches below it, or at the body itself where that lies lower than the feet.
    """
    if not len(motion.heads) or _stands_somewhere(body, motion):
        return 0.0
    leg = leg_length(body)
    ankles = [body.bones[side + "Foot"] for side in ("Left", "Right")]
    feet = ground_height(motion.heads[:, ankles, 2]) - _ankle_height(body)
    lowest = ground_height(motion.heads[:, list(body.bones.values()), 2])
    if lowest >= -FLOOR_NEAR * leg and FLOOR_NEAR * leg < feet < FLOOR_FAR * leg:
        return feet
    return max(0.0, feet - lowest) if lowest < feet - FLOOR_NEAR * leg else 0.0


@dataclass(frozen=True)
class FileFloor:
    """Where the floor of one clip was taken to be, for comparison with other clips of the same capture; heights as in the file."""

    height: float
    """[m]"""
    stands: bool
    """Whether somebody stands on it; else it is a guess."""
    lowest: float
    """[m] the lowest joint."""
    leg: float
    """[m] length of the legs."""
    drop: float = 0.0
    """[m] how far it is below the lowest feet."""


_LEGS = {side + part for side in ("Left", "Right") for part in ("Thigh", "Shin", "Foot")}


def file_floor(body: RigBody, motion: RigMotion) -> FileFloor | None:
    """The floor that :func:`place` takes for a motion; None without legs or frames."""
    if not len(motion.heads) or not body.bones.keys() >= _LEGS:
        return None
    ankles = [body.bones[side + "Foot"] for side in ("Left", "Right")]
    feet = ground_height(motion.heads[:, ankles, 2]) - _ankle_height(body)
    lowest = ground_height(motion.heads[:, list(body.bones.values()), 2])
    stands = _stands_somewhere(body, motion)
    drop = floor_drop(body, motion)
    return FileFloor(feet - drop, stands, lowest, leg_length(body), drop)


def lift_onto(floor: FileFloor, others: Sequence[FileFloor]) -> float:
    """How far [m] to lift a motion in which nobody stands, so that its floor is the one on which the ``others`` stand.

    0 where somebody stands in it, where the others disagree, where the floors are the same, and where it would be inside
    the body: then it is another floor.
    """
    known = [other.height for other in others if other.stands]
    if floor.stands or not known or max(known) - min(known) > FLOOR_NEAR * floor.leg:
        return 0.0
    shared = float(np.median(known))
    lift = floor.height - shared
    inside = shared > floor.lowest + FLOOR_NEAR * floor.leg
    return 0.0 if inside or not FLOOR_SAME * floor.leg < abs(lift) < FLOOR_FAR * floor.leg else lift


def _ankle_height(body: RigBody) -> float:
    """Height [m] of the lower ankle above the sole, at rest."""
    ankles = [body.bones[side + "Foot"] for side in ("Left", "Right")]
    return float(np.clip(body.heads[ankles, 2].min() - rest_floor(body), 0.0, 0.3 * leg_length(body)))


def _stands_somewhere(body: RigBody, motion: RigMotion) -> bool:
    """Whether a foot is still below a leg that is nearly straight down, for a tenth of a second."""
    leg = leg_length(body)
    slow = GROUND.slow * leg / GROUND.reference_leg
    least = max(2, round(0.1 * motion.fps))
    for side in ("Left", "Right"):
        foot = body.bones[side + "Foot"]
        down = motion.heads[:, body.bones[side + "Thigh"], 2] - motion.heads[:, foot, 2]
        stands = (down > STANDING * leg) & (_steady_speed(motion, foot) < slow)
        if len(stands) == 1 or np.count_nonzero(stands) >= min(least, len(stands)):
            return True
    return False


# ---------------------------------------------------------------- soles


def rest_soles(body: RigBody, t_pose: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Height [m] of the heads of ankle and toe above the sole, per role, for feet flat as in the T-pose."""
    out = {}
    floor = rest_floor(body)
    for side in ("Left", "Right"):
        ankle = body.bones[side + "Foot"]
        out[side + "Foot"] = float(body.heads[ankle, 2] - floor)
        if side + "ToeBase" in body.bones:
            foot = t_pose[side + "Foot"] @ (body.heads[body.bones[side + "ToeBase"]] - body.heads[ankle])
            out[side + "ToeBase"] = out[side + "Foot"] + float(foot[2])
    return out


def rest_floor(body: RigBody) -> float:
    """Height [m] of the floor at rest: 0 if the feet are about there, else the lowest ankle or toe."""
    lowest = min(
        float(body.heads[body.bones[s + p], 2])
        for s in ("Left", "Right")
        for p in ("Foot", "ToeBase")
        if s + p in body.bones
    )
    return 0.0 if -0.02 * leg_length(body) <= lowest <= 0.3 * leg_length(body) else lowest


def _toe_positions(body: RigBody, turned: np.ndarray, side: str, ankle: np.ndarray) -> np.ndarray | None:
    """Positions (F, 3) [m] of the toe for ankles at ``ankle`` (F, 3); None without a toe."""
    if side + "ToeBase" not in body.bones:
        return None
    foot, toe = body.bones[side + "Foot"], body.bones[side + "ToeBase"]
    return np.asarray(ankle + turned[:, foot] @ (body.heads[toe] - body.heads[foot]))


def _sole_height(
    body: RigBody, turned: np.ndarray, side: str, ankle: np.ndarray, soles: Mapping[str, float]
) -> np.ndarray:
    """Height (F) [m] of the lower of ankle and toe above where it is when the foot stands flat on the floor."""
    height = ankle[:, 2] - soles[side + "Foot"]
    toe = _toe_positions(body, turned, side, ankle)
    return height if toe is None else np.minimum(height, toe[:, 2] - soles[side + "ToeBase"])


# ---------------------------------------------------------------- contacts


def standing_frames(body: RigBody, motion: RigMotion, side: str) -> np.ndarray:
    """Frames (F) bool in which a foot of the source stands: low, and its toe slow. Gaps of a few frames are closed."""
    low = []
    for s in ("Left", "Right"):
        points = [_steady_height(motion, body.bones[s + p]) for p in ("Foot", "ToeBase") if s + p in body.bones]
        low.append(np.min([p - ground_height(p) for p in points], axis=0))
    height = low[0 if side == "Left" else 1] - ground_height(np.minimum(*low))
    toe = body.bones.get(side + "ToeBase", body.bones[side + "Foot"])
    stands = grounded(height, _steady_speed(motion, toe), leg_length(body))
    return without_short_runs(stands, max(1, round(0.05 * motion.fps)))


def _steady_height(motion: RigMotion, bone: int) -> np.ndarray:
    """Heights (F) [m] of a bone's head, smoothed where the motion trembles."""
    height = motion.heads[:, bone, 2]
    return averaged(height, motion.fps, motion.tremble) if motion.tremble else height


def _steady_speed(motion: RigMotion, bone: int) -> np.ndarray:
    """Speeds (F) [m/s] of a bone's head, of its smoothed way where the motion trembles."""
    head = motion.heads[:, bone]
    if motion.tremble:
        return steadied(head, head[:, 2], motion.fps, motion.tremble)[0]
    return central_speed(head, motion.fps)


def _pin_corrections(
    body: RigBody,
    turned: np.ndarray,
    side: str,
    ankle: np.ndarray,
    soles: Mapping[str, float],
    stands: np.ndarray,
    motion: RigMotion,
) -> np.ndarray:
    """Corrections (F, 3) [m] of the ankle that hold a standing foot in place, fading out before and after contacts.

    A foot that really slides keeps part of its slide, but none of a tremble.
    """
    toe = _toe_positions(body, turned, side, ankle)
    point = ankle if toe is None else toe
    height = _sole_height(body, turned, side, ankle, soles)
    limit = MAX_SLIDE * leg_length(body) / GROUND.reference_leg
    out = np.zeros_like(ankle)
    pinned = np.zeros(len(ankle), bool)
    for first, last in runs(stands):
        path = point[first:last, :2]
        middle = np.median(path, axis=0)
        way = averaged(path, motion.fps, motion.tremble) if motion.tremble else path
        slide = np.linalg.norm(way - middle, axis=1).max()
        keep = 0.0 if slide <= limit else 1 - limit / slide
        out[first:last, :2] = (middle - path) * (1 - keep) if way is path else middle - path + keep * (way - middle)
        out[first:last, 2] = -height[first:last]
        pinned[first:last] = True
    if not pinned.any():
        return out
    frames = np.arange(len(ankle))
    pins = np.flatnonzero(pinned)
    after = np.clip(np.searchsorted(pins, frames), 0, len(pins) - 1)
    before = np.clip(after - 1, 0, len(pins) - 1)
    for nearest in (before, after):
        distance = np.abs(pins[nearest] - frames) / (BLEND_SECONDS * motion.fps)
        share = np.where(pinned, 0, np.clip(1 - distance, 0, 1))
        share = share * share * (3 - 2 * share)
        out += np.where(pinned[:, None], 0, share[:, None] * out[pins[nearest]])
    return out


# ---------------------------------------------------------------- hands


def _lift_hand(
    source: RigBody,
    motion: RigMotion,
    target: RigBody,
    turned: np.ndarray,
    heads: np.ndarray,
    side: str,
    scale: float,
    floor: float,
    since_t: Mapping[str, np.ndarray],
) -> None:
    """Keep a hand and its fingers above the floor, in place: arms that are long for the legs would reach through it.

    The hand may go as low as the source's wrist. ``heads`` (F, J, 3) are the target's, on the floor at z = 0; ``floor`` was
    subtracted from the source's scaled heights.
    """
    parts = [side + p for p in ("Arm", "ForeArm", "Hand")]
    if not all(part in body.bones for part in parts for body in (source, target)):
        return
    arm, forearm, hand = (target.bones[part] for part in parts)
    near = 1.5 * float(np.linalg.norm(target.heads[hand] - target.heads[forearm]))  # props reach further
    points = [heads[:, hand]]
    for j in (hand, *descendants(target.parents, hand)):
        for end in (target.heads[j], target.tails[j]):
            if np.linalg.norm(end - target.heads[hand]) < near:
                points.append(heads[:, j] + turned[:, j] @ (end - target.heads[j]))
    low = np.min([point[:, 2] for point in points], axis=0)
    lowest_allowed = np.minimum(0, scale * motion.heads[:, source.bones[parts[2]], 2] - floor)
    lift = np.maximum(0, lowest_allowed - low)
    if not lift.any():
        return
    hinge = since_t[parts[0]] @ np.array([0, 0, -1.0 if side == "Left" else 1.0])
    solved = turned.copy()
    solve_limb(target, solved, heads, [arm, forearm, hand], heads[:, hand] + lift[:, None] * UP, hinge)
    turned[lift > 0] = solved[lift > 0]
