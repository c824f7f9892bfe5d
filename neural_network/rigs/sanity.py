# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheap checks of a clip against what bodies do: is the head above the feet, do feet and thighs turn as joints can?

An axis that points down is turned over. Faults of the capture are named, and their frames can be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..core import rotations
from ..motion.clip import (
    DOUBTFUL_AXIS,
    UP_AXES,
    Clip,
    body_height,
    clip_tremble,
    global_pose,
    guess_unit,
    rest_positions,
    to_z_up,
    with_joints,
)
from .bone_names import read_names
from .bone_tree import ancestors, angle_between
from .foot_placement import floor_drop
from .rig_body import RigBody, RigMotion, clip_evidence, clip_motion, clip_roles
from .roles import Roles, find_roles
from .t_pose import MAX_REST_ERROR, t_pose_error

MOST_JOINTS = 1000  # of a clip that is checked: beyond it, finding roles would take longer than reading
GLANCE_FRAMES = 16  # of a clip whose bones are named, to see whether it needs a closer look
UPRIGHT_SHARE = 0.75  # of them in which the head is above the feet
DOWN = 0.5  # share of the way from feet to head that leads down in a figure that hangs head first
ALONG = 0.9  # cosine: the way from feet to head leads along an axis of the file
WALKED = 0.5  # heights: who goes farther along the floor does not only stand or lie there
FLOOR_NEAR = 0.15  # heights: the lowest joints of somebody who stands on the floor, in all frames
STANDING_SHARE = 0.5  # of the longest extent of the rest pose: a figure that is lower may lie
HANDSTAND = 1.05  # hands this far along the way from feet to head are stretched beyond the head
CARRIED = 1.15  # times as tall as the body: then what somebody carries must not count
SKULL = 1.15  # times the way from the ankles to the base of the skull: a body
FOOT_TURN = np.radians(140)  # against the shin since a standing rest pose; feet turn by 70 degrees at most
FOOT_SHARE = 0.3  # of the frames in which a foot has to be turned that far
FLIP = np.radians(90)  # about a bone's own length, from one frame to the next
FLIP_SPEED = np.radians(2500)  # [rad/s] and faster than any joint turns about its own length
FLIP_SWING = np.radians(
    30
)  # while the bone itself points nearly where it did; a leg may swing, if it turns by FLIP more
FLIP_RATIO = 5.0  # and so many times the median of the frames around
FLIP_AROUND = 4  # frames before and after

_WORDS = {"Thigh": "thigh", "Foot": "foot", "Arm": "upper arm", "Hand": "hand"}


# ---------------------------------------------------------------- which way is up


def upright(clip: Clip, given: bool = False) -> tuple[Clip, str]:
    """The clip with its head above its feet, and a sentence about what was doubted; unchanged and "" where nothing was.

    A figure whose head is below its feet in most frames, as in the axes of a camera, is turned over, except if its hands are
    beyond its head: that is a handstand, and only doubted. A rest pose that stands or lies along another axis than the frames is turned
    to them, which moves no joint in any frame. A figure that stands along a third axis gets that one, also where only its
    frames do and it walks there on a floor. With ``given`` the up axis was chosen by the user and stays.
    """
    if not clip.frames or len(clip.names) > MOST_JOINTS or _named_upright(clip):
        return clip, ""
    names, parents, heads, evidence = clip_evidence(clip)
    roles = find_roles(names, parents, heads, **evidence)
    ends = _ends(roles)
    if ends is None:
        return clip, ""
    if not given and (axis := _lies_along(clip, heads, ends, evidence)):
        said = f"the figure stands along {axis}, at rest and in most frames; {axis} was taken as the up axis, set it if that is wrong"
        return replace(clip, up_axis=axis), said
    if not given and (axis := _walks_along(clip, ends, evidence)):
        said = f"the figure walks upright along {axis}, though its rest pose is not; {axis} was taken as the up axis, "
        said += "set it if that is wrong"
        return replace(clip, up_axis=axis), said
    posed = evidence["motion"] if "motion" in evidence else clip_motion(clip, roles)[1].heads
    way, rest = _way_up(posed, ends), _way_up(heads[None], ends)[0]
    lengths = np.maximum(np.linalg.norm(way, axis=1), 1e-9)
    said = ""
    doubtful = DOUBTFUL_AXIS in " ".join(clip.warnings)  # then nobody knows whether the figure hangs or lies
    if not given and not doubtful and np.median(way[:, 2] / lengths) < -DOWN:
        hangs = rest[2] < -DOWN * np.linalg.norm(rest)  # a rest pose is no handstand
        if not hangs and _stretched_hands(posed, roles, ends, way, lengths):
            said = "the head is below the feet in most frames, as in a handstand; set the up axis if it is not one"
        else:
            up = _opposite(clip.up_axis)
            said = f"the figure stood upside down, its head below its feet; {up} was taken as the up axis, set it if that is wrong"
            clip = replace(clip, up_axis=up)
            rest, way = rest @ _TURN, way @ _TURN
    stood = _nearest_axis(rest @ to_z_up(clip.up_axis))
    if stood != clip.up_axis and np.median(way[:, 2] / lengths) > DOWN:
        clip = _with_rest_turned(clip, to_z_up(clip.up_axis).T @ to_z_up(stood))
    return clip, said


def _lies_along(clip: Clip, heads: np.ndarray, ends: tuple[int, int, int], evidence: Mapping[str, Any]) -> str:
    """The file axis along which the figure stands, at rest and in most frames, though another one was taken to point up; else ""."""
    if "motion" not in evidence:
        return ""
    rest, way = _way_up(heads[None], ends), _way_up(evidence["motion"], ends)
    shares = [
        one @ to_z_up(clip.up_axis) / np.maximum(np.linalg.norm(one, axis=1, keepdims=True), 1e-9)
        for one in (rest, way)
    ]
    for axis in UP_AXES:
        along = [share @ to_z_up(axis)[2] for share in shares]
        if axis[-1] != clip.up_axis[-1] and along[0][0] > ALONG and np.mean(along[1] > ALONG) > UPRIGHT_SHARE:
            return axis
    return ""


def _walks_along(clip: Clip, ends: tuple[int, int, int], evidence: Mapping[str, Any]) -> str:
    """The file axis along which only the frames stand, and the figure walks on a floor at height 0 of that axis; else "".

    Without the floor and the way that it goes, a figure that stands along an axis is one that lies.
    """
    if "motion" not in evidence:
        return ""
    posed = np.asarray(evidence["motion"]) @ to_z_up(clip.up_axis)  # file axes [m]
    way = _way_up(posed, ends)
    size = float(np.median(np.linalg.norm(way, axis=1)))
    path = posed[:, ends].mean(axis=1)
    now = float(np.median((posed @ to_z_up(clip.up_axis)[2]).min(axis=1)))
    if abs(now) < FLOOR_NEAR * size:  # it lies on the floor
        return ""
    for axis in UP_AXES:
        up = to_z_up(axis)[2]
        along = way @ up / np.maximum(np.linalg.norm(way, axis=1), 1e-9)
        lowest = (posed @ up).min(axis=1)
        gone = np.linalg.norm(np.ptp(path - (path @ up)[:, None] * up, axis=0))
        stands = axis[-1] != clip.up_axis[-1] and np.mean(along > ALONG) > UPRIGHT_SHARE
        if stands and gone > WALKED * size and np.ptp(lowest) + abs(np.median(lowest)) < FLOOR_NEAR * size:
            return axis
    return ""


def _nearest_axis(way: np.ndarray) -> str:
    """The axis of the file that points most along ``way`` (3), in file axes."""
    return max(UP_AXES, key=lambda axis: float(way @ to_z_up(axis)[2]))


def _named_upright(clip: Clip) -> bool:
    """Whether all that is called a head is above all that is called a foot, at rest and in most frames; False without names.

    A glance that spares most files the search for roles.
    """
    info = read_names(clip.names)
    heads = [j for j, bone in enumerate(info) if "Head" in bone.parts and not bone.excluded]
    feet = [j for j, bone in enumerate(info) if "Foot" in bone.parts and not bone.excluded]
    if not heads or not {"Left", "Right"} <= {info[j].side for j in feet}:
        return False
    frames = np.unique(np.linspace(0, clip.frames - 1, min(clip.frames, GLANCE_FRAMES)).astype(int))
    posed = np.concatenate([rest_positions(clip)[None], global_pose(clip, frames)[1]]) @ to_z_up(clip.up_axis)[2]
    above = posed[:, heads].min(axis=1) > posed[:, feet].max(axis=1)
    above &= np.ptp(posed, axis=1) > STANDING_SHARE * _rest_size(clip)  # and does not lie
    return bool(above[0] and above[1:].mean() > UPRIGHT_SHARE)


def _rest_size(clip: Clip) -> float:
    """The longest extent of the rest pose along an axis of the file [file units]."""
    return float(np.ptp(rest_positions(clip), axis=0).max())


_TURN = np.diag([1.0, -1.0, -1.0])  # armature axes of one up axis to those of the opposite one


def _opposite(up_axis: str) -> str:
    return up_axis[1:] if up_axis.startswith("-") else f"-{up_axis}"


def _ends(roles: Roles) -> tuple[int, int, int] | None:
    """Bones of head (else of neck or chest), left foot and right foot (else shins); None if the roles do not have them."""
    bones = roles.bones
    top = next(
        (bones[r] for r in ("Head", "NeckUpper", "NeckLower", "Spine2", "Spine1") if bones.get(r) is not None), None
    )
    feet = [
        next((bones[s + p] for p in ("Foot", "Shin") if bones.get(s + p) is not None), None) for s in ("Left", "Right")
    ]
    if top is None or feet[0] is None or feet[1] is None:
        return None
    return top, feet[0], feet[1]


def _way_up(heads: np.ndarray, ends: tuple[int, int, int]) -> np.ndarray:
    """Vectors (F, 3) from the middle of the feet to the head in poses (F, J, 3)."""
    top, left, right = ends
    return np.asarray(heads[:, top] - 0.5 * (heads[:, left] + heads[:, right]))


def _stretched_hands(
    posed: np.ndarray, roles: Roles, ends: tuple[int, int, int], way: np.ndarray, lengths: np.ndarray
) -> bool:
    """Whether the hands are beyond the head in most of the poses."""
    hands = [j for side in ("Left", "Right") if (j := roles.bones.get(side + "Hand")) is not None]
    if not hands:
        return False
    feet = 0.5 * (posed[:, ends[1]] + posed[:, ends[2]])
    along = [np.sum((posed[:, j] - feet) * way, axis=1) / lengths**2 for j in hands]
    return bool(np.median(np.mean(along, axis=0)) > HANDSTAND)


def _with_rest_turned(clip: Clip, turn: np.ndarray) -> Clip:
    """The clip with another rest pose, turned by ``turn`` (3, 3) in file axes, in which no joint moves in any frame."""
    quaternion = rotations.quaternion_from_matrix(turn)
    back = rotations.quaternion_conjugate(quaternion)
    roots = clip.parents < 0
    others = roots & (np.arange(len(roots)) > 0)  # where they stand is part of the motion
    turned = rotations.quaternion_multiply(clip.rotations, np.broadcast_to(back, clip.rotations.shape))
    below = rotations.quaternion_multiply(np.broadcast_to(quaternion, turned.shape), turned)
    return replace(
        clip,
        offsets=np.where(others[:, None], clip.offsets, clip.offsets @ turn.T),
        tips={i: tip @ turn.T for i, tip in clip.tips.items()},
        rotations=np.where(roots[:, None], turned, below),
        translations={i: moved if clip.parents[i] < 0 else moved @ turn.T for i, moved in clip.translations.items()},
    )


# ---------------------------------------------------------------- how large is the body?


def unit_of_body(clip: Clip) -> tuple[Clip, str]:
    """The clip with its unit guessed from the person alone, and a sentence if that is a guess; unchanged and "" for most.

    Without this, somebody who holds up a staff, a lance or a banner would be taken for a giant, and scaled down.
    """
    height = body_height(clip)
    if len(clip.names) > MOST_JOINTS or height < CARRIED * _named_height(clip):
        return clip, ""
    roles = clip_roles(clip)
    if not roles.humanoid:
        return clip, ""
    person = with_joints(clip, _body_joints(clip, roles))
    if height < CARRIED * body_height(person):
        return clip, ""
    unit, note = guess_unit(person)
    said = tuple(words for words in clip.warnings if "set the unit" not in words)
    return replace(clip, unit=unit, warnings=said), note


def _named_height(clip: Clip) -> float:
    """From the lowest foot to the highest head at rest, by their names, with what a skull adds [file units]; 0 without names."""
    info = read_names(clip.names)
    up = rest_positions(clip) @ to_z_up(clip.up_axis)[2]
    heads, feet = (
        [up[j] for j, bone in enumerate(info) if part in bone.parts and not bone.excluded] for part in ("Head", "Foot")
    )
    return SKULL * (max(heads) - min(feet)) if heads and feet else 0.0


def _body_joints(clip: Clip, roles: Roles) -> np.ndarray:
    """The joints with roles, those above them, and all of the head and of the feet."""
    kept = np.zeros(len(clip.parents), bool)
    for j in (j for j in roles.bones.values() if j is not None):
        kept[[j, *ancestors(clip.parents, j)]] = True
    ends = {roles.bones.get(role) for role in ("Head", "LeftFoot", "RightFoot", "LeftToeBase", "RightToeBase")}
    for j, parent in enumerate(clip.parents):
        kept[j] |= j in ends or (parent in ends)
        if parent in ends:
            ends.add(j)
    return np.flatnonzero(kept)


# ---------------------------------------------------------------- faults of the capture


@dataclass(frozen=True)
class Faults:
    """What no body does in one clip."""

    turned_feet: Mapping[str, float]
    """Role of a foot that is turned around -> share of the frames."""
    flips: Mapping[str, np.ndarray]
    """Role of a bone -> frames (n) before which it turns over about its own length."""
    frames: int
    tremble: float = 0.0
    """[deg] How much the joints or the feet tremble, see :class:`.RigMotion`."""
    floor: str = ""
    """What is doubtful about the height of the floor, a sentence; empty where somebody stands on it."""

    def sentences(self) -> list[str]:
        """One sentence for each fault."""
        out = [
            f"the {_named(role)} is turned around against the shin for {share:.0%} of the clip"
            for role, share in self.turned_feet.items()
        ]
        for role, at in self.flips.items():
            times = f"{len(at)} times" if len(at) > 1 else "once"
            out.append(f"the {_named(role)} turns over from one frame to the next {times}, first at frame {at[0] + 1}")
        return out

    def bad(self) -> np.ndarray:
        """Mask (F) of the frames to leave out: all where a foot is turned around, else those between a flip and the next."""
        out = np.full(self.frames, bool(self.turned_feet))
        for at in self.flips.values():
            edges = [0, *at.tolist(), self.frames]
            sides = np.zeros(self.frames, bool)
            for n, (first, last) in enumerate(pairwise(edges)):
                sides[first:last] = n % 2 == 1
            out |= sides if sides.mean() <= 0.5 else ~sides
        return out


def _named(role: str) -> str:
    """A role in words, such as "left upper arm"."""
    side = "Left" if role.startswith("Left") else "Right"
    return f"{side.lower()} {_WORDS[role.removeprefix(side)]}"


def find_faults(clip: Clip, roles: Roles) -> Faults:
    """Feet that are turned around and bones that turn over from one frame to the next, in a clip of a person."""
    if clip.frames < 3 or not roles.humanoid or len(clip.names) > MOST_JOINTS:
        return Faults({}, {}, clip.frames, clip_tremble(clip))
    body, motion = clip_motion(clip, roles)
    flips: dict[str, np.ndarray] = {}
    for side in ("Left", "Right"):
        for parts in (("Thigh", "Shin"), ("Foot",), ("Arm", "ForeArm"), ("Hand",)):  # a shin turns over with its thigh
            at = [_flips(body, motion, side + part) for part in parts if side + part in body.bones]
            if any(len(frames) for frames in at):
                flips[side + parts[0]] = np.unique(np.concatenate(at))
    return Faults(_turned_feet(body, motion), flips, clip.frames, motion.tremble or 0.0, _floor_doubt(body, motion))


def _floor_doubt(body: RigBody, motion: RigMotion) -> str:
    if "LeftFoot" not in body.bones or "RightFoot" not in body.bones:
        return ""
    drop = floor_drop(body, motion)
    if not drop:
        return ""
    return f"nobody stands in this clip, so the floor was taken to be {drop:.2f} m below the feet, not at them"


def _turned_feet(body: RigBody, motion: RigMotion) -> dict[str, float]:
    out = {}
    for side in ("Left", "Right"):
        if side + "Foot" not in body.bones:
            continue
        shin, foot = body.bones[side + "Shin"], body.bones[side + "Foot"]
        share = float(np.mean(_angles(motion.turned[:, shin], motion.turned[:, foot]) > FOOT_TURN))
        if share > FOOT_SHARE:
            out[side + "Foot"] = share
    if out and t_pose_error(body, body.heads[None], body.tails[None])[0] > MAX_REST_ERROR:
        return {}  # a rest pose that is no pose does not tell how feet are turned
    return out


def _flips(body: RigBody, motion: RigMotion, role: str) -> np.ndarray:
    """Frames (n) before which a bone turns over about its own length, while it points about where it did."""
    j = body.bones[role]
    turned = motion.turned[:, j]
    steps = _angles(turned[1:], turned[:-1])
    fast = steps > max(FLIP, FLIP_SPEED / motion.fps)
    if not fast.any():
        return np.zeros(0, int)
    along = turned @ (body.tails[j] - body.heads[j])
    swings = angle_between(along[1:], along[:-1])
    reach = min(FLIP_AROUND, len(steps) // 2)
    around = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(steps, reach, "reflect"), 2 * reach + 1), axis=1)
    over = swings < FLIP_SWING
    if role.endswith(("Thigh", "Shin")):  # the hands and feet of tumblers do both
        over |= steps - swings > FLIP
    return np.flatnonzero(fast & over & (steps > FLIP_RATIO * around)) + 1


def _angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angles (F) [rad] between rotations (F, 3, 3), exact to a thousandth."""
    return np.asarray(np.arccos(np.clip((np.einsum("fab,fab->f", a, b) - 1) / 2, -1, 1)))
