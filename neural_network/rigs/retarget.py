# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion from any skeleton to any other: through a common T-pose, with feet that stay where they stand.

Both skeletons are brought, bone by bone, into one imagined T-pose: the reference rig's, facing -Y, left +X, Z up.
What a bone has turned since *its* T-pose, seen in world axes, is what the other skeleton's bone turns too; rest poses,
bone axes, rolls and names then no longer matter. Lengths differ, so the legs are solved a last time: ankles follow the
source's, scaled to the leg, and a foot that stands is pinned to its spot.
Frames here are armature axes throughout: metres, Z up.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core import tree
from ..core.contacts import GROUND, central_speed, ground_height, grounded, runs, without_short_runs
from ..core.reference_rig import reference, rest_orientation
from ..core.rotations import (
    axis_angle_from_matrix,
    matrix_from_axis_angle,
    matrix_from_quaternion,
    rotation_between,
    slerp,
    twist_about,
)
from ..core.skeleton import Skeleton
from ..motion.clip import Clip, moving_offsets
from .bone_tree import ancestors
from .roles import ROLE_NAMES, Roles, find_roles

UP = np.array([0.0, 0.0, 1.0])
REST_IS_A_POSE = np.radians(
    40.0
)  # mean angle of the limbs to the T-pose above which a rest is no pose; an A-pose has 20
BLEND_SECONDS = 0.2  # a foot's correction fades in and out over this long beside a contact
PIN_DRIFT = 0.08  # [m at a leg of 0.945 m] a contact that slides further than this is no pin: the slide is kept
HINGE_FRAMES = 10  # bent frames from which on a hinge's axis is believed
HINGE_TWIST = np.radians(60)  # more than this is a mistake rather than a roll
WRIST_TWIST_LEFT = 1 / 3  # of a hand's twist against the forearm stays at the wrist: the forearm turns with the hand
EVIDENCE_FRAMES = 80  # frames of a take that are looked at to find the roles
STRAIGHT = 0.9995  # share of the leg's length that an ankle may be away; the rest keeps the knee's plane defined

_CHAINS = (
    ("Thigh", "Shin", "Foot", "ToeBase"),
    ("Arm", "ForeArm", "Hand"),
)
_T_DIRECTION = {  # role without side -> direction of the left bone in the T-pose, right mirrored in x
    "Arm": (1.0, 0.0, 0.0),
    "ForeArm": (1.0, 0.0, 0.0),
    "Hand": (1.0, 0.0, 0.0),
    "Thigh": (0.0, 0.0, -1.0),
    "Shin": (0.0, 0.0, -1.0),
    "Foot": (0.0, -1.0, 0.0),
    "ToeBase": (0.0, -1.0, 0.0),
}
_TRUNK = ("Spine", "Spine1", "Spine2")
_NECK = ("NeckLower", "NeckUpper")


@dataclass(frozen=True)
class Body:
    """A skeleton as retargeting sees it: rest heads, tips and the bones that play a role."""

    parents: np.ndarray
    """(J) int, -1 for a root."""
    heads: np.ndarray
    """(J, 3) rest heads [m, Z up]."""
    tails: np.ndarray
    """(J, 3) where each bone points to at rest [m, Z up]; equal to the head where nobody knows."""
    bones: Mapping[str, int]
    """Role -> bone index, only roles that are played."""


@dataclass(frozen=True)
class Motion:
    """World motion of a skeleton [m, Z up]."""

    turned: np.ndarray
    """(F, J, 3, 3) rotation of each bone since its rest, in world axes."""
    heads: np.ndarray
    """(F, J, 3) heads."""
    fps: float


def to_reference(clip: Clip, roles: Roles | None = None) -> tuple[Skeleton, np.ndarray, np.ndarray]:
    """Carry a clip of any humanoid onto the built-in reference rig.

    ``roles`` are found from names, structure and motion where they are not given.
    Returns the reference skeleton, rot_local (F, 23, 3) [rad] and the Hips' head (F, 3) [m, armature]; floor at z = 0.
    A clip without frames gives arrays of length 0; one without legs or hips is refused with a ValueError.
    """
    skeleton = reference()
    own = {name: i for i, name in enumerate(skeleton.names) if name in ROLE_NAMES}
    rot, root_pos = retarget(clip, skeleton, own, roles)
    return skeleton, rot, root_pos


def to_proportioned_reference(clip: Clip, roles: Roles | None = None) -> tuple[Skeleton, np.ndarray, np.ndarray]:
    """As :func:`to_reference`, but onto the reference's bones in this body's own lengths: nothing is scaled.

    This is how one network serves many rigs: the names and the tree are always the reference's, only proportions differ.
    Bones that the body lacks stand between their neighbours and follow them.
    """
    if roles is None:
        roles = clip_roles(clip)
    source, motion = clip_motion(clip, roles)
    require_legs(source.bones, "clip")
    stand = _standing_pose(source, motion)
    skeleton = proportioned_reference(source, _to_t_pose(source, motion, stand, _contacts(source, motion)))
    played = {name: j for j, name in enumerate(skeleton.names) if name in source.bones}
    rot, root_pos = retarget(clip, skeleton, played, roles)
    return skeleton, rot, root_pos


def proportioned_reference(body: Body, to_t: Mapping[str, np.ndarray] | None = None) -> Skeleton:
    """The reference rig with the lengths of another body, T-posed; soles at z = 0.

    ``to_t`` are the rotations since rest of the body's T-pose per role, found from its rest where they are not given.
    """
    require_legs(body.bones, "body")
    to_t = _rest_to_t_pose(body) if to_t is None else to_t
    turned = np.empty((len(body.parents), 3, 3))
    by_bone = {j: role for role, j in body.bones.items()}
    heads = np.zeros((len(body.parents), 3))
    for j in _parents_first(body.parents):
        p = body.parents[j]
        turned[j] = to_t[by_bone[j]] if j in by_bone else (turned[p] if p >= 0 else np.eye(3))
        heads[j] = 0 if p < 0 else heads[p] + turned[p] @ (body.heads[j] - body.heads[p])
    own = reference()
    at = {role: heads[j] for role, j in body.bones.items()}
    scale = _leg_length(body) / own.leg_length
    rest = {name: own.rest_arm[j, :3, 3] for j, name in enumerate(own.names)}
    _fill_places(at, rest, scale)
    middle = 0.5 * (at["LeftThigh"] + at["RightThigh"])
    feet = [r for r in ("LeftFoot", "RightFoot", "LeftToeBase", "RightToeBase") if r in body.bones]
    known = _rest_soles(body, to_t)
    soles = {r: max(known[r], 0.3 * scale * rest[r][2]) for r in feet if r.endswith("Foot") and r in known}
    if not any(r.endswith("ToeBase") for r in feet):  # nobody knows how high such ankles stand
        soles = {r: max(known[r], scale * rest[r][2]) for r in soles}
    lift = float(np.mean([soles[r] - at[r][2] for r in soles])) if soles else 0.0
    places = np.array([at[name] for name in own.names]) - middle * [1, 1, 0] + [0, 0, lift]
    matrices = own.rest_arm.copy()
    for j in range(own.count):
        along = _onward(own, j, places)
        matrices[j, :3, :3] = own.rest_arm[j, :3, :3] if along is None else rest_orientation(along)
        matrices[j, :3, 3] = places[j]
    return replace(own, rest_arm=matrices)


def _fill_places(at: dict[str, np.ndarray], rest: Mapping[str, np.ndarray], scale: float) -> None:
    """Give every role that a body lacks a place in its T-pose, in place: between its neighbours, else as the reference has it."""
    shoulders = [at[s + "Arm"] for s in ("Left", "Right") if s + "Arm" in at]
    base = at.get("NeckLower", at.get("Head", np.mean(shoulders, axis=0) if shoulders else None))
    if base is None:
        base = at["Hips"] + scale * (rest["NeckLower"] - rest["Hips"])
    at.setdefault("Head", base + scale * (rest["Head"] - rest["NeckLower"]))
    for chain, top in ((("Hips", *_TRUNK), base), (("NeckLower", "NeckUpper"), at["Head"])):
        at.setdefault(chain[0], base)
        last = [r for r in chain if r in at][-1]
        missing = chain[chain.index(last) + 1 :]
        at.update({r: at[last] + (top - at[last]) * (i + 1) / (len(missing) + 1) for i, r in enumerate(missing)})
    for side in ("Left", "Right"):
        at.setdefault(side + "Arm", at["Spine2"] + scale * (rest[side + "Arm"] - rest["Spine2"]))
        at.setdefault(side + "Shoulder", at[side + "Arm"] + 0.7 * (base - at[side + "Arm"]))
        for above, role in (("Arm", "ForeArm"), ("ForeArm", "Hand"), ("Shin", "Foot"), ("Foot", "ToeBase")):
            at.setdefault(side + role, at[side + above] + scale * (rest[side + role] - rest[side + above]))


def _onward(skeleton: Skeleton, j: int, places: np.ndarray) -> np.ndarray | None:
    """Where a bone of the reference points to: the next bone of its chain; None at the ends."""
    ahead = {"Hips": "Spine", "Spine2": "NeckLower"}.get(skeleton.names[j])
    children = np.flatnonzero(skeleton.parents == j)
    if ahead is None and not len(children):
        return None
    along = places[skeleton.names.index(ahead) if ahead else children[0]] - places[j]
    return along if np.linalg.norm(along) > 1e-6 else None


def retarget(
    clip: Clip, target: Skeleton, target_roles: Roles | Mapping[str, int], roles: Roles | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Carry a clip onto ``target``, whose bones play ``target_roles`` (role -> bone index).

    Returns rot_local (F, J, 3) [rad], relative to the target's own rest, and the root's head (F, 3) [m, armature].
    Bones without a role keep their rest; bones above the Hips carry what the Hips turn, so that one root moves all.
    A role the source lacks follows its neighbours; ValueError where source or target lack Hips or a thigh.
    """
    if roles is None:
        roles = clip_roles(clip)
    source, motion = clip_motion(clip, roles)
    body = skeleton_body(target, target_roles)
    require_legs(source.bones, "clip")
    require_legs(body.bones, "target")
    turned, root_pos = carry(source, motion, body)
    return local_rotations(target, turned), root_pos


def require_legs(bones: Mapping[str, int], what: str) -> None:
    """ValueError, naming what is missing, unless ``bones`` (by role) have hips and two legs."""
    missing = [r for r in ("Hips", "LeftThigh", "RightThigh", "LeftShin", "RightShin") if r not in bones]
    if missing:
        raise ValueError(
            f"retarget: expected a {what} with hips and two legs, got no bone for {', '.join(missing)}; "
            "name them in a roles file (--roles FILE)"
        )


def clip_roles(clip: Clip) -> Roles:
    """Roles of a clip's joints, by names, rest and motion together."""
    names, parents, heads, evidence = clip_evidence(clip)
    return find_roles(names, parents, heads, **evidence)


def clip_evidence(clip: Clip) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, dict[str, Any]]:
    """What a clip tells about its roles: names, parents, rest heads (J, 3) [m, Z up], and find_roles' further arguments."""
    axes = _armature_axes(clip)
    heads = tree.sums(clip.parents, clip.offsets * clip.unit @ axes.T)
    own_tips = {j: np.asarray(tip) * clip.unit @ axes.T for j, tip in clip.tips.items()}
    evidence: dict[str, Any] = {"tips": {j: heads[j] + tip for j, tip in own_tips.items()}}
    if clip.frames > 1:
        every = np.unique(np.linspace(0, clip.frames - 1, min(clip.frames, EVIDENCE_FRAMES)).astype(int))
        turned, positions = _forward(clip, axes, every)
        evidence["motion"] = positions
        evidence["motion_tips"] = {j: positions[:, j] + turned[:, j] @ tip for j, tip in own_tips.items()}
        likeness = np.abs(np.einsum("fjc,jc->fj", clip.rotations[every], clip.rotations[every[0]]))
        evidence["turning"] = 2 * np.arccos(np.clip(likeness, 0, 1)).max(axis=0)
    return clip.names, clip.parents, heads, evidence


def clip_motion(clip: Clip, roles: Roles) -> tuple[Body, Motion]:
    """The clip's skeleton and world motion in metres, Z up; zero frames give empty arrays."""
    axes = _armature_axes(clip)
    heads = tree.sums(clip.parents, clip.offsets * clip.unit @ axes.T)
    bones = {role: j for role, j in roles.bones.items() if j is not None}
    for side in ("Left", "Right"):
        if side + "Hand" in bones:
            bones[side + "Hand"] = _bending_joint(clip, bones[side + "Hand"])
    tips = {j: heads[j] + tip * clip.unit @ axes.T for j, tip in clip.tips.items()}
    body = Body(clip.parents, heads, _tails(clip.parents, heads, tips, bones), bones)
    turned, positions = _forward(clip, axes, np.arange(clip.frames))
    return body, Motion(turned, positions, clip.fps)


def skeleton_body(skeleton: Skeleton, roles: Roles | Mapping[str, int]) -> Body:
    """A Blender-like skeleton as retargeting sees it, at its own rest."""
    table = roles.bones if isinstance(roles, Roles) else roles
    bones = {role: j for role, j in table.items() if j is not None}
    parents, rest = np.asarray(skeleton.parents), np.asarray(skeleton.rest_arm, float)
    heads = rest[:, :3, 3]
    tips = {}
    for j in range(len(parents)):
        if not np.any(parents == j):
            length = np.linalg.norm(heads[j] - heads[parents[j]]) if parents[j] >= 0 else 1.0
            tips[j] = heads[j] + rest[j, :3, 1] * length
    return Body(parents, heads, _tails(parents, heads, tips, bones), bones)


def local_rotations(target: Skeleton, turned: np.ndarray) -> np.ndarray:
    """World rotations since rest (F, J, 3, 3) to rot_local (F, J, 3) [rad] in each bone's own rest axes."""
    rest, parents = np.asarray(target.rest_arm, float)[:, :3, :3], np.asarray(target.parents)
    above = np.where((parents >= 0)[:, None, None], turned[:, parents], np.eye(3))
    since_parent = np.swapaxes(above, -1, -2) @ turned
    return axis_angle_from_matrix(np.swapaxes(rest, -1, -2) @ since_parent @ rest)


def carry(source: Body, motion: Motion, target: Body) -> tuple[np.ndarray, np.ndarray]:
    """Carry a world motion onto ``target``: its bones' rotations since rest (F, J, 3, 3) in world axes and root (F, 3).

    The floor of the result lies at z = 0: the 2nd percentile of the lower foot's height above its own rest.
    """
    stand = _standing_pose(source, motion)
    contact = _contacts(source, motion)
    to_t = _to_t_pose(source, motion, stand, contact)
    at_t = _rest_to_t_pose(target)
    since_t = {role: motion.turned[:, j] @ np.swapaxes(to_t[role], -1, -2) for role, j in source.bones.items()}
    since_t = _fill_roles(since_t, target.bones)
    for side in ("Left", "Right"):
        if {side + "ForeArm", side + "Hand"} <= set(source.bones):
            since_t[side + "ForeArm"] = _pronated(since_t[side + "ForeArm"], since_t[side + "Hand"], side)
    frames, count = len(motion.turned), len(target.parents)
    turned = np.empty((frames, count, 3, 3))
    by_bone = {j: role for role, j in target.bones.items()}
    hips = target.bones["Hips"]
    above_hips = set(ancestors(target.parents, hips))
    for j in range(count):
        if j in by_bone:
            turned[:, j] = since_t[by_bone[j]] @ at_t[by_bone[j]]
        elif j in above_hips:
            turned[:, j] = since_t["Hips"] @ at_t["Hips"]
        else:
            turned[:, j] = turned[:, target.parents[j]] if target.parents[j] >= 0 else np.eye(3)
    turned, heads = _place(source, motion, contact, target, turned, since_t, at_t)
    root = int(np.flatnonzero(target.parents < 0)[0]) if hips not in np.flatnonzero(target.parents < 0) else hips
    return turned, heads[:, root]


# ---- the common T-pose ----------------------------------------------------------------------------------------------


def _t_direction(role: str) -> np.ndarray | None:
    side, part = _split_side(role)
    if part not in _T_DIRECTION or not side:
        return None
    return np.array(_T_DIRECTION[part]) * (1.0 if side == "Left" else np.array([-1.0, 1.0, 1.0]))


def _split_side(role: str) -> tuple[str, str]:
    for side in ("Left", "Right"):
        if role.startswith(side):
            return side, role[len(side) :]
    return "", role


def _standing_pose(body: Body, motion: Motion) -> int:
    """Which pose shows best how the body stands: -1 for the rest pose, else a frame."""
    if _misfit(body, body.heads[None], body.tails[None])[0] < REST_IS_A_POSE or not len(motion.turned):
        return -1
    every = np.unique(np.linspace(0, len(motion.turned) - 1, min(len(motion.turned), 400)).astype(int))
    heads = motion.heads[every]
    tails = heads + np.einsum("fjab,jb->fja", motion.turned[every], body.tails - body.heads)
    return int(every[np.argmin(_misfit(body, heads, tails))])


def _misfit(body: Body, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Mean angle (F) [rad] of limbs and trunk to the T-pose, after facing; arms count half: they may hang."""
    face = _facing(body, heads)
    total = np.zeros(len(heads))
    weight = 0.0
    for role, j in body.bones.items():
        wanted = _t_direction(role)
        if wanted is None or role.endswith(("Hand", "ToeBase", "Foot")):
            continue
        share = 0.5 if "Arm" in role else 1.0
        total += share * _angle(np.einsum("fab,fb->fa", face, tails[:, j] - heads[:, j]), wanted)
        weight += share
    top = next((body.bones[r] for r in ("Head", "NeckLower", "Spine2", "Spine1") if r in body.bones), None)
    if top is not None:
        total += 2 * _angle(np.einsum("fab,fb->fa", face, heads[:, top] - heads[:, body.bones["Hips"]]), UP)
        weight += 2
    return total / max(weight, 1.0)


def _facing(body: Body, heads: np.ndarray) -> np.ndarray:
    """Rotation about up (F, 3, 3) that turns each pose's left to +X."""
    left = np.zeros((len(heads), 3))
    for part in ("Thigh", "Arm", "Shoulder"):
        pair = body.bones.get("Left" + part), body.bones.get("Right" + part)
        if pair[0] is not None and pair[1] is not None:
            left += heads[:, pair[0]] - heads[:, pair[1]]
    angle = -np.arctan2(left[:, 1], left[:, 0])
    return _turn_about_up(angle)


def _rest_to_t_pose(body: Body) -> dict[str, np.ndarray]:
    """Per role the rotation (3, 3) from the rest to the T-pose, for a skeleton of which only the rest is known."""
    still = Motion(np.empty((0, len(body.parents), 3, 3)), np.empty((0, len(body.parents), 3)), 30.0)
    return _to_t_pose(body, still, -1, {})


def _to_t_pose(body: Body, motion: Motion, stand: int, contact: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Per role the world rotation since rest (3, 3) that the bone has in the T-pose.

    Trunk, neck, head and collar bones are neutral as they stand; limbs turn the shortest way from where the parent's
    turn has brought them. Soles are known best from the frames in which the foot stands.
    """
    count = len(body.parents)
    posed = np.broadcast_to(np.eye(3), (count, 3, 3)) if stand < 0 else motion.turned[stand]
    heads = body.heads if stand < 0 else motion.heads[stand]
    face = _facing(body, heads[None])[0]
    turn: dict[str, np.ndarray] = dict.fromkeys(body.bones, face)
    for side in ("Left", "Right"):
        for chain in _CHAINS:
            before = face
            for part in chain:
                role = side + part
                if role not in body.bones:
                    continue
                j = body.bones[role]
                direction = before @ posed[j] @ (body.tails[j] - body.heads[j])
                wanted = _t_direction(role)
                assert wanted is not None
                if part in ("Foot", "ToeBase"):
                    direction = face @ posed[j] @ (body.tails[j] - body.heads[j])
                    turn[role] = _level(direction, wanted) @ face
                elif np.linalg.norm(direction) > 1e-9:
                    turn[role] = rotation_between(direction, wanted) @ before
                else:
                    turn[role] = before
                before = turn[role]
    out = {role: turn[role] @ posed[j] for role, j in body.bones.items()}
    for side in ("Left", "Right"):
        for upper, lower, end in (("Arm", "ForeArm", "Hand"), ("Thigh", "Shin", "Foot")):
            twist = _hinge_twist(body, motion, side + upper, side + lower, side + end, out)
            out[side + upper] = twist @ out[side + upper] if side + upper in out else np.eye(3)
            if upper == "Thigh":
                out[side + lower] = twist @ out[side + lower]
        for part in ("Foot", "ToeBase"):
            role = side + part
            if role in body.bones and role in contact:
                out[role] = _sole(body, motion, role, contact[role], out)
    return out


def _hinge_twist(
    body: Body, motion: Motion, upper: str, lower: str, end: str, known: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Turn (3, 3) about the limb's T-direction that brings the axis its hinge really bends about to where a hinge's is.

    A T-pose seen only as joints says nothing of how upper arms are rolled; the elbow's axis in the frames does. The
    identity where the hinge bends too little to tell, or about no one axis.
    """
    if not {upper, lower, end} <= set(body.bones) or len(motion.turned) < HINGE_FRAMES:
        return np.eye(3)
    j, k, e = (body.bones[r] for r in (upper, lower, end))
    above, below = motion.heads[:, k] - motion.heads[:, j], motion.heads[:, e] - motion.heads[:, k]
    axis = np.cross(_unit(above), _unit(below))
    axis = np.einsum("fba,fb->fa", motion.turned[:, j], axis) @ known[upper].T
    bent = np.linalg.norm(axis, axis=1) > np.sin(np.radians(15))
    total = axis[bent].sum(axis=0)
    if np.count_nonzero(bent) < HINGE_FRAMES or np.linalg.norm(total) < 0.9 * np.linalg.norm(axis[bent], axis=1).sum():
        return np.eye(3)
    along = _t_direction(upper)
    assert along is not None
    wanted = np.array([1.0, 0, 0]) if upper.endswith("Thigh") else np.array([0, 0, -np.sign(along[0])])
    angle = np.arctan2(np.cross(total, wanted) @ along, total @ wanted)
    return matrix_from_axis_angle(along * np.clip(angle, -HINGE_TWIST, HINGE_TWIST))


def _level(direction: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Turn about up that brings a direction's heading to the wanted one; a vertical direction stays."""
    if np.linalg.norm(direction[:2]) < 1e-6 + 0.2 * np.linalg.norm(direction):
        return np.eye(3)
    angle = np.arctan2(wanted[1], wanted[0]) - np.arctan2(direction[1], direction[0])
    return _turn_about_up(np.array([angle]))[0]


def _sole(body: Body, motion: Motion, role: str, flat: np.ndarray, known: Mapping[str, np.ndarray]) -> np.ndarray:
    """The foot's rotation in the T-pose such that its sole, as the frames of standing show it, lies level."""
    j, fallback = body.bones[role], known[role]
    if np.count_nonzero(flat) < 5:
        return fallback
    up = np.median(np.einsum("fba,b->fa", motion.turned[flat, j], UP), axis=0)
    if _angle(fallback @ up, UP) > np.radians(50):
        return fallback
    level = rotation_between(fallback @ up, UP) @ fallback
    along = level @ (body.tails[j] - body.heads[j])
    wanted = _t_direction(role)
    assert wanted is not None
    return _level(along, wanted) @ level


def _fill_roles(since_t: dict[str, np.ndarray], wanted: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Rotations for every wanted role, spread along trunk and neck where the two rigs count differently."""
    out = dict(since_t)
    hips = out["Hips"]
    trunk = [r for r in _TRUNK if r in since_t]
    out.update(_spread([hips] + [since_t[r] for r in trunk], [r for r in _TRUNK if r in wanted]))
    wanted_trunk = [r for r in _TRUNK if r in wanted]
    chest = out[wanted_trunk[-1]] if wanted_trunk else (since_t[trunk[-1]] if trunk else hips)
    head = since_t.get("Head")
    neck = [since_t[r] for r in _NECK if r in since_t]
    wanted_neck = [r for r in _NECK if r in wanted]
    if neck:
        out.update(_spread([chest, *neck], wanted_neck))
    else:
        top = chest if head is None else head
        out.update({r: _between(chest, top, (i + 1) / (len(wanted_neck) + 1)) for i, r in enumerate(wanted_neck)})
    out.setdefault("Head", out[wanted_neck[-1]] if wanted_neck else chest)
    for side in ("Left", "Right"):
        for chain in (("Shoulder", "Arm", "ForeArm", "Hand"), ("Thigh", "Shin", "Foot", "ToeBase")):
            before = chest if chain[0] == "Shoulder" else hips
            for part in chain:
                before = out.setdefault(side + part, before)
    return out


def _spread(have: list[np.ndarray], wanted: list[str]) -> dict[str, np.ndarray]:
    """Rotations along a chain that starts at have[0] and ends at have[-1], one for each wanted bone."""
    if len(have) == 1:
        return dict.fromkeys(wanted, have[0])
    out = {}
    for i, role in enumerate(wanted):
        place = (i + 1) / len(wanted) * (len(have) - 1)
        low = min(int(np.floor(place + 1e-9)), len(have) - 2)
        share = place - low
        out[role] = have[low + 1] if share > 1 - 1e-9 else _between(have[low], have[low + 1], share)
    return out


def _pronated(forearm: np.ndarray, hand: np.ndarray, side: str) -> np.ndarray:
    """Forearms (F, 3, 3) that turn with the hand: many files twist the wrist alone, which wraps the skin like a sweet."""
    along = np.array([1.0 if side == "Left" else -1.0, 0, 0])
    twist = twist_about(axis_angle_from_matrix(np.swapaxes(forearm, -1, -2) @ hand), along)
    return np.asarray(forearm @ matrix_from_axis_angle((1 - WRIST_TWIST_LEFT) * twist[:, None] * along))


def _between(a: np.ndarray, b: np.ndarray, share: float) -> np.ndarray:
    return matrix_from_axis_angle(slerp(axis_angle_from_matrix(a), axis_angle_from_matrix(b), share))


# ---- feet on the floor ----------------------------------------------------------------------------------------------


def _contacts(body: Body, motion: Motion) -> dict[str, np.ndarray]:
    """Per foot role the frames (F) bool in which the whole foot stands still on the floor."""
    if len(motion.turned) < 2 or "LeftFoot" not in body.bones or "RightFoot" not in body.bones:
        return {}
    scale = _leg_length(body) / GROUND.reference_leg
    lowest = ground_height(np.minimum(*(motion.heads[:, body.bones[s + "Foot"], 2] for s in ("Left", "Right"))))
    out = {}
    for side in ("Left", "Right"):
        ankle = motion.heads[:, body.bones[side + "Foot"]]
        end = motion.heads[:, body.bones.get(side + "ToeBase", body.bones[side + "Foot"])]
        flat = ankle[:, 2] < lowest + GROUND.near * scale
        for point in (ankle, end):
            flat &= central_speed(point, motion.fps) < 0.5 * GROUND.slow * scale
        out[side + "Foot"] = out[side + "ToeBase"] = flat
    return out


def _place(
    source: Body,
    motion: Motion,
    flat: Mapping[str, np.ndarray],
    target: Body,
    turned: np.ndarray,
    since_t: Mapping[str, np.ndarray],
    at_t: Mapping[str, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Hips height, stride and feet: the target's rotations with solved legs (F, J, 3, 3) and its heads (F, J, 3)."""
    scale = _leg_length(target) / _leg_length(source)
    turned = turned.copy()
    heads = _heads_since_rest(target, turned)
    thighs = [target.bones["LeftThigh"], target.bones["RightThigh"]]
    source_thighs = [source.bones["LeftThigh"], source.bones["RightThigh"]]
    shift = scale * motion.heads[:, source_thighs].mean(1) - heads[:, thighs].mean(1)
    heads = heads + shift[:, None]
    if not all(f"{s}Foot" in b.bones for s in ("Left", "Right") for b in (source, target)) or not len(turned):
        return turned, heads
    soles = _rest_soles(target, at_t)
    legs = {}
    for side in ("Left", "Right"):
        thigh, ankle = source.bones[side + "Thigh"], source.bones[side + "Foot"]
        legs[side] = heads[:, target.bones[side + "Thigh"]] + scale * (motion.heads[:, ankle] - motion.heads[:, thigh])
    low = np.minimum(*(_sole_height(target, turned, side, legs[side], soles) for side in ("Left", "Right")))
    floor = ground_height(low)
    heads = heads - floor * UP
    for side in ("Left", "Right"):
        goal = legs[side] - floor * UP
        stands = _grounded(source, motion, side)
        goal = goal + _pins(target, turned, side, goal, soles, stands, motion.fps, scale)
        goal[:, 2] += np.maximum(0, -_sole_height(target, turned, side, goal, soles))
        hinge = since_t[side + "Thigh"] @ np.array([1.0, 0, 0])
        _solve_limb(target, turned, heads, [target.bones[side + p] for p in ("Thigh", "Shin", "Foot")], goal, hinge)
        _lift_hand(source, motion, target, turned, heads, side, scale, float(floor), since_t)
    solved = _heads_since_rest(target, turned)
    return turned, solved + (heads - solved)[:, [thighs[0]]]


def _rest_soles(body: Body, at_t: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Height [m] of ankle and toe heads above the sole, per role, feet flat as in the T-pose."""
    out = {}
    floor = _rest_floor(body)
    for side in ("Left", "Right"):
        ankle = body.bones[side + "Foot"]
        out[side + "Foot"] = float(body.heads[ankle, 2] - floor)
        if side + "ToeBase" in body.bones:
            along = at_t[side + "Foot"] @ (body.heads[body.bones[side + "ToeBase"]] - body.heads[ankle])
            out[side + "ToeBase"] = out[side + "Foot"] + float(along[2])
    return out


def _rest_floor(body: Body) -> float:
    """[m] height on which the rest stands: zero where its feet are about there, else its lowest foot or toe."""
    lowest = min(
        float(body.heads[body.bones[s + p], 2])
        for s in ("Left", "Right")
        for p in ("Foot", "ToeBase")
        if s + p in body.bones
    )
    return 0.0 if -0.02 * _leg_length(body) <= lowest <= 0.3 * _leg_length(body) else lowest


def _toe(body: Body, turned: np.ndarray, side: str, ankle: np.ndarray) -> np.ndarray | None:
    if side + "ToeBase" not in body.bones:
        return None
    foot, toe = body.bones[side + "Foot"], body.bones[side + "ToeBase"]
    return np.asarray(ankle + turned[:, foot] @ (body.heads[toe] - body.heads[foot]))


def _sole_height(
    body: Body, turned: np.ndarray, side: str, ankle: np.ndarray, soles: Mapping[str, float]
) -> np.ndarray:
    """Height (F) [m] of the lower of ankle and toe above where it is when the foot stands flat on z = 0."""
    height = ankle[:, 2] - soles[side + "Foot"]
    toe = _toe(body, turned, side, ankle)
    return height if toe is None else np.minimum(height, toe[:, 2] - soles[side + "ToeBase"])


def _grounded(body: Body, motion: Motion, side: str) -> np.ndarray:
    """Frames (F) bool in which the source's foot carries: low, and its toe slow; gaps of a few frames are closed."""
    low = []
    for s in ("Left", "Right"):
        points = [motion.heads[:, body.bones[s + p], 2] for p in ("Foot", "ToeBase") if s + p in body.bones]
        low.append(np.min([p - ground_height(p) for p in points], axis=0))
    height = low[0 if side == "Left" else 1] - ground_height(np.minimum(*low))
    end = motion.heads[:, body.bones.get(side + "ToeBase", body.bones[side + "Foot"])]
    stands = grounded(height, central_speed(end, motion.fps), _leg_length(body))
    return without_short_runs(stands, max(1, round(0.05 * motion.fps)))


def _pins(
    body: Body,
    turned: np.ndarray,
    side: str,
    ankle: np.ndarray,
    soles: Mapping[str, float],
    stands: np.ndarray,
    fps: float,
    scale: float,
) -> np.ndarray:
    """Corrections (F, 3) [m] that hold a standing foot on its spot and fade out between contacts."""
    toe = _toe(body, turned, side, ankle)
    point = ankle if toe is None else toe
    height = _sole_height(body, turned, side, ankle, soles)
    limit = PIN_DRIFT * _leg_length(body) / GROUND.reference_leg
    wanted = np.zeros_like(ankle)
    known = np.zeros(len(ankle), bool)
    for first, last in runs(stands):
        path = point[first:last, :2]
        middle = np.median(path, axis=0)
        drift = np.linalg.norm(path - middle, axis=1).max()
        keep = 0.0 if drift <= limit else 1 - limit / drift
        wanted[first:last, :2] = (middle - path) * (1 - keep)
        wanted[first:last, 2] = -height[first:last]
        known[first:last] = True
    if not known.any():
        return wanted
    fade = BLEND_SECONDS * fps
    index = np.arange(len(ankle))
    spots = np.flatnonzero(known)
    after = np.clip(np.searchsorted(spots, index), 0, len(spots) - 1)
    before = np.clip(after - 1, 0, len(spots) - 1)
    for near in (before, after):
        reach = np.abs(spots[near] - index) / fade
        share = np.where(known, 0, np.clip(1 - reach, 0, 1))
        share = share * share * (3 - 2 * share)
        wanted += np.where(known[:, None], 0, share[:, None] * wanted[spots[near]] * 1.0)
    return wanted


def _lift_hand(
    source: Body,
    motion: Motion,
    target: Body,
    turned: np.ndarray,
    heads: np.ndarray,
    side: str,
    scale: float,
    floor: float,
    since_t: Mapping[str, np.ndarray],
) -> None:
    """Keep a hand and its fingers above the floor, in place, where the source's wrist is: long arms on short legs reach through it.

    ``heads`` (F, J, 3) are those of the target on the floor z = 0, ``floor`` what was taken off the source's scaled heights.
    """
    parts = [side + p for p in ("Arm", "ForeArm", "Hand")]
    if not all(part in body.bones for part in parts for body in (source, target)):
        return
    arm, forearm, hand = (target.bones[part] for part in parts)
    near = 1.5 * float(np.linalg.norm(target.heads[hand] - target.heads[forearm]))  # props reach further
    points = [heads[:, hand]]
    for j in (hand, *_descendants(target.parents, hand)):
        for end in (target.heads[j], target.tails[j]):
            if np.linalg.norm(end - target.heads[hand]) < near:
                head = heads[:, j] + turned[:, j] @ (end - target.heads[j])
                points.append(head)
    low = np.min([point[:, 2] for point in points], axis=0)
    deepest = np.minimum(0, scale * motion.heads[:, source.bones[parts[2]], 2] - floor)
    lift = np.maximum(0, deepest - low)
    if not lift.any():
        return
    hinge = since_t[parts[0]] @ np.array([0, 0, -1.0 if side == "Left" else 1.0])
    solved = turned.copy()
    _solve_limb(target, solved, heads, [arm, forearm, hand], heads[:, hand] + lift[:, None] * UP, hinge)
    turned[lift > 0] = solved[lift > 0]


def _solve_limb(
    body: Body, turned: np.ndarray, heads: np.ndarray, bones: Sequence[int], goal: np.ndarray, hinge: np.ndarray
) -> None:
    """Bend and swing one limb (upper, lower, end), in place, so that its end is at ``goal`` (F, 3); the end keeps its rotation.

    Two bones: the joint's angle by the law of cosines about the limb's own bending axis, which lies on the side of ``hinge``
    (F, 3), then the shortest swing.
    """
    thigh, shin, foot = bones
    hip = heads[:, thigh]
    upper = turned[:, thigh] @ (body.heads[shin] - body.heads[thigh])
    lower = turned[:, shin] @ (body.heads[foot] - body.heads[shin])
    a, b = np.linalg.norm(upper, axis=-1), np.linalg.norm(lower, axis=-1)
    wanted = np.clip(np.linalg.norm(goal - hip, axis=-1), np.abs(a - b) * 1.01 + 1e-6, (a + b) * STRAIGHT)
    axis = np.cross(upper / a[:, None], lower / b[:, None])
    axis = _unit(np.where(np.einsum("fa,fa->f", axis, hinge)[:, None] < 0, 0, axis) + 0.05 * hinge)
    axis = _unit(axis - np.einsum("fa,fa->f", axis, upper)[:, None] * upper / (a * a)[:, None])
    # the shin in the plane at right angles to the axis, at the angle that gives the wanted distance
    bend = np.arccos(np.clip((wanted**2 - a * a - b * b) / (2 * a * b), -1, 1))
    across = np.cross(axis, upper / a[:, None])
    lower_now = b[:, None] * (np.cos(bend)[:, None] * upper / a[:, None] + np.sin(bend)[:, None] * across)
    bent = rotation_between(lower, lower_now)
    swing = rotation_between(upper + lower_now, goal - hip)
    before_thigh = turned[:, thigh].copy()
    keep = [j for j in range(len(body.parents)) if j in (foot, *_descendants(body.parents, foot))]
    for j in _descendants(body.parents, thigh):
        if j in keep:
            continue
        under_shin = j == shin or shin in ancestors(body.parents, j)
        turned[:, j] = swing @ (bent if under_shin else np.eye(3)) @ turned[:, j]
    turned[:, thigh] = swing @ before_thigh


# ---- small tools ----------------------------------------------------------------------------------------------------


def _armature_axes(clip: Clip) -> np.ndarray:
    """Matrix (3, 3) from file axes to armature axes (Z up)."""
    if clip.up_axis.upper() == "Z":
        return np.eye(3)
    return np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])


def _forward(clip: Clip, axes: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """World rotations since rest (F, J, 3, 3) and heads (F, J, 3) [m, Z up] of the chosen frames."""
    local = axes @ matrix_from_quaternion(np.asarray(clip.rotations, float)[frames]) @ axes.T
    offsets = moving_offsets(clip, frames) * clip.unit @ axes.T
    return fk.walk(clip.parents, local, offsets, clip.root_pos[frames] * clip.unit @ axes.T)


def _heads_since_rest(body: Body, turned: np.ndarray) -> np.ndarray:
    """Heads (F, J, 3) of a body whose bones have turned (F, J, 3, 3) since rest, root at its rest head."""
    below = body.parents >= 0
    offsets = np.where(below[:, None], body.heads - body.heads[np.maximum(body.parents, 0)], body.heads)
    return fk.heads_of(body.parents, turned, offsets)


def _tails(
    parents: np.ndarray, heads: np.ndarray, tips: Mapping[int, np.ndarray], bones: Mapping[str, int]
) -> np.ndarray:
    """Where each bone points to (J, 3): the next role of its limb, else the farthest child, else its tip."""
    tails = np.array(heads)
    for j in range(len(heads)):
        children = np.flatnonzero(parents == j)
        if len(children):
            tails[j] = heads[children[np.argmax(np.linalg.norm(heads[children] - heads[j], axis=1))]]
        if j in tips and np.allclose(tails[j], heads[j]):
            tails[j] = tips[j]
    for side in ("Left", "Right"):
        for chain in (("Shoulder", "Arm", "ForeArm", "Hand"), ("Thigh", "Shin", "Foot", "ToeBase")):
            present = [bones[side + p] for p in chain if side + p in bones]
            for j, child in itertools.pairwise(present):
                tails[j] = heads[child]
    return tails


def _bending_joint(clip: Clip, hand: int) -> int:
    """The joint that carries the hand: some files split the wrist into joints that lie on one point (twist, then bend)."""
    while True:
        children = np.flatnonzero(clip.parents == hand)
        same = [int(c) for c in children if np.linalg.norm(clip.offsets[c]) < 1e-6 and np.any(clip.parents == c)]
        if len(same) != 1:
            return hand
        hand = same[0]


def _leg_length(body: Body) -> float:
    """Mean over legs of thigh to shin plus shin to foot [m]; without feet, of thigh to shin twice."""
    total = []
    for side in ("Left", "Right"):
        thigh, shin = body.heads[body.bones[side + "Thigh"]], body.heads[body.bones[side + "Shin"]]
        upper = float(np.linalg.norm(shin - thigh))
        foot = body.bones.get(side + "Foot")
        total.append(upper + (upper if foot is None else float(np.linalg.norm(body.heads[foot] - shin))))
    return float(np.mean(total))


def _descendants(parents: np.ndarray, j: int) -> list[int]:
    return [k for k in range(len(parents)) if j in ancestors(parents, k)]


def _parents_first(parents: np.ndarray) -> list[int]:
    depth = [len(ancestors(parents, j)) for j in range(len(parents))]
    return [int(j) for j in np.argsort(depth, kind="stable")]


def _turn_about_up(angle: np.ndarray) -> np.ndarray:
    c, s, zero, one = np.cos(angle), np.sin(angle), np.zeros_like(angle), np.ones_like(angle)
    return np.stack([np.stack([c, -s, zero], -1), np.stack([s, c, zero], -1), np.stack([zero, zero, one], -1)], axis=-2)


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(
        np.arctan2(np.linalg.norm(np.cross(a, np.broadcast_to(b, a.shape)), axis=-1), np.sum(a * b, axis=-1))
    )


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector / np.maximum(np.linalg.norm(vector, axis=-1, keepdims=True), 1e-12))
