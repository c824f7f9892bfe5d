# SPDX-License-Identifier: GPL-3.0-or-later
"""A skeleton and its motion as retargeting sees them, whether they come from a file or from an armature.

All frames are armature axes: metres, Z up.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core import tree
from ..core.contacts import foot_tremble
from ..core.rotations import matrix_from_quaternion
from ..core.skeleton import Skeleton
from ..motion.clip import Clip, clip_tremble, moving_offsets, to_z_up
from .bone_tree import ancestors
from .roles import Roles, find_roles

UP = np.array([0.0, 0.0, 1.0])
KNUCKLES = (
    0.7  # of the farthest finger's distance from the wrist: those that begin nearer are thumbs, metacarpals and props
)
SIDEWAYS = 0.5  # cosine: hands of rigs whose Y runs along the bone are bent less against the forearm at rest
EVIDENCE_FRAMES = 80  # frames of a take that are used to find roles


@dataclass(frozen=True)
class RigBody:
    """A skeleton at rest, and which of its bones have a role."""

    parents: np.ndarray
    """(J) int, -1 for a root."""
    heads: np.ndarray
    """(J, 3) rest heads [m, Z up]."""
    tails: np.ndarray
    """(J, 3) rest tails [m, Z up]; equal to the head if unknown."""
    bones: Mapping[str, int]
    """Role -> bone index, only for roles that the skeleton has."""


@dataclass(frozen=True)
class RigMotion:
    """World motion of a skeleton [m, Z up]."""

    turned: np.ndarray
    """(F, J, 3, 3) rotation of each bone since its rest, in world axes."""
    heads: np.ndarray
    """(F, J, 3) heads."""
    fps: float
    tremble: float | None = None
    """[deg] how much the joints tremble, if that is so much that contacts are sought in smoothed motion, else 0; None if
    that was not measured."""


# ---------------------------------------------------------------- from clips


def clip_roles(clip: Clip) -> Roles:
    """Roles of a clip's joints, by names, rest and motion together."""
    names, parents, heads, evidence = clip_evidence(clip)
    return find_roles(names, parents, heads, **evidence)


def clip_evidence(clip: Clip) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, dict[str, Any]]:
    """The arguments of ``find_roles`` for a clip: names, parents, rest heads (J, 3) [m, Z up] and the keyword arguments."""
    axes = to_z_up(clip.up_axis)
    heads = tree.sums(clip.parents, clip.offsets * clip.unit @ axes.T)
    own_tips = {j: np.asarray(tip) * clip.unit @ axes.T for j, tip in clip.tips.items()}
    evidence: dict[str, Any] = {"tips": {j: heads[j] + tip for j, tip in own_tips.items()}}
    if clip.frames > 1:
        frames = np.unique(np.linspace(0, clip.frames - 1, min(clip.frames, EVIDENCE_FRAMES)).astype(int))
        turned, positions = _world_motion(clip, axes, frames)
        evidence["motion"] = positions
        evidence["motion_tips"] = {j: positions[:, j] + turned[:, j] @ tip for j, tip in own_tips.items()}
        likeness = np.abs(np.einsum("fjc,jc->fj", clip.rotations[frames], clip.rotations[frames[0]]))
        evidence["turning"] = 2 * np.arccos(np.clip(likeness, 0, 1)).max(axis=0)
    return clip.names, clip.parents, heads, evidence


def clip_motion(clip: Clip, roles: Roles) -> tuple[RigBody, RigMotion]:
    """The clip's skeleton and world motion [m, Z up]; a clip without frames gives empty arrays."""
    axes = to_z_up(clip.up_axis)
    heads = tree.sums(clip.parents, clip.offsets * clip.unit @ axes.T)
    bones = {role: j for role, j in roles.bones.items() if j is not None}
    for side in ("Left", "Right"):
        if side + "Hand" in bones:
            bones[side + "Hand"] = _last_wrist_joint(clip, bones[side + "Hand"])
    tips = {j: heads[j] + tip * clip.unit @ axes.T for j, tip in clip.tips.items()}
    body = RigBody(clip.parents, heads, _tails(clip.parents, heads, tips, bones), bones)
    turned, positions = _world_motion(clip, axes, np.arange(clip.frames))
    motion = RigMotion(turned, positions, clip.fps, clip_tremble(clip) or None)
    known = clip.tremble is not None or not {"LeftThigh", "RightThigh", "LeftShin", "RightShin"} <= bones.keys()
    return body, replace(motion, tremble=motion.tremble or 0.0) if known else with_tremble(body, motion)


def _world_motion(clip: Clip, axes: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """World rotations since rest (F, J, 3, 3) and heads (F, J, 3) [m, Z up] in ``frames``."""
    local = axes @ matrix_from_quaternion(np.asarray(clip.rotations, float)[frames]) @ axes.T
    offsets = moving_offsets(clip, frames) * clip.unit @ axes.T
    return fk.walk(clip.parents, local, offsets, clip.root_pos[frames] * clip.unit @ axes.T)


def _last_wrist_joint(clip: Clip, hand: int) -> int:
    """The joint that carries the hand: some files split the wrist into several joints at one point (twist, then bend)."""
    while True:
        children = np.flatnonzero(clip.parents == hand)
        same = [int(c) for c in children if np.linalg.norm(clip.offsets[c]) < 1e-6 and np.any(clip.parents == c)]
        if len(same) != 1:
            return hand
        hand = same[0]


# ---------------------------------------------------------------- from skeletons


def skeleton_body(
    skeleton: Skeleton, roles: Roles | Mapping[str, int], hand_tails: Mapping[str, np.ndarray] | None = None
) -> RigBody:
    """A Skeleton at rest as retargeting sees it; ``hand_tails`` [m, armature], by role, of hands whose fingers are no bones of it."""
    table = roles.bones if isinstance(roles, Roles) else roles
    bones = {role: j for role, j in table.items() if j is not None}
    parents, rest = np.asarray(skeleton.parents), np.asarray(skeleton.rest_arm, float)
    heads = rest[:, :3, 3]
    tips = {}
    hands = [bones[side + "Hand"] for side in ("Left", "Right") if side + "Hand" in bones]
    for j in range(len(parents)):
        if not np.any(parents == j):
            above = heads[j] - heads[parents[j]] if parents[j] >= 0 else rest[j, :3, 1]
            length = float(np.linalg.norm(above))
            along = rest[j, :3, 1] * length
            if j in hands and along @ above < SIDEWAYS * length * length:  # its Y does not run along the bone
                along = above
            tips[j] = heads[j] + along
    tips |= {bones[role]: tail for role, tail in (hand_tails or {}).items() if role in bones}
    return RigBody(parents, heads, _tails(parents, heads, tips, bones), bones)


def hand_tail(head: np.ndarray, fingers: np.ndarray) -> np.ndarray:
    """(3) where a hand points, from where its children (N, 3) begin: the middle of those that are far, without the thumb."""
    far = np.linalg.norm(fingers - head, axis=1)
    return np.asarray(fingers[far >= KNUCKLES * far.max()].mean(axis=0))


def _tails(
    parents: np.ndarray, heads: np.ndarray, tips: Mapping[int, np.ndarray], bones: Mapping[str, int]
) -> np.ndarray:
    """Rest tails (J, 3): the head of the limb's next role, else of the farthest child, else the tip."""
    tails = np.array(heads)
    for j in range(len(heads)):
        children = np.flatnonzero(parents == j)
        if len(children) == 1:
            tails[j] = heads[children[0]]
        elif len(children):
            tails[j] = heads[children[np.argmax(np.linalg.norm(heads[children] - heads[j], axis=1))]]
        if j in tips and (not len(children) or np.allclose(tails[j], heads[j])):
            tails[j] = tips[j]
    for side in ("Left", "Right"):
        hand = bones.get(side + "Hand")
        if hand is not None and np.count_nonzero(parents == hand) > 1:
            tails[hand] = hand_tail(heads[hand], heads[parents == hand])
        for chain in (("Shoulder", "Arm", "ForeArm", "Hand"), ("Thigh", "Shin", "Foot", "ToeBase")):
            present = [bones[side + p] for p in chain if side + p in bones]
            for j, child in itertools.pairwise(present):
                tails[j] = heads[child]
    return tails


# ---------------------------------------------------------------- bodies


def with_tremble(body: RigBody, motion: RigMotion) -> RigMotion:
    """The motion with its tremble measured at the feet, where it is not known."""
    if motion.tremble is not None:
        return motion
    feet = [body.bones[s + p] for s in ("Left", "Right") for p in ("Foot", "ToeBase") if s + p in body.bones]
    return replace(motion, tremble=foot_tremble(motion.heads[:, feet], motion.fps, leg_length(body)))


def require_legs(bones: Mapping[str, int], what: str, notes: Sequence[str] = ()) -> None:
    """Raise ValueError, with the roles that are missing and the ``notes`` why, unless ``bones`` (by role) have hips and two legs."""
    missing = [r for r in ("Hips", "LeftThigh", "RightThigh", "LeftShin", "RightShin") if r not in bones]
    if missing:
        raise ValueError(
            f"retarget: expected a {what} with hips and two legs, found no bone for {', '.join(missing)}"
            f"{f' ({notes[0]})' if notes else ''}; assign them in a roles file (--roles FILE)"
        )


def leg_length(body: RigBody) -> float:
    """Mean length of the legs [m]: thigh to shin plus shin to foot; without feet, twice thigh to shin."""
    total = []
    for side in ("Left", "Right"):
        thigh, shin = body.heads[body.bones[side + "Thigh"]], body.heads[body.bones[side + "Shin"]]
        upper = float(np.linalg.norm(shin - thigh))
        foot = body.bones.get(side + "Foot")
        total.append(upper + (upper if foot is None else float(np.linalg.norm(body.heads[foot] - shin))))
    return float(np.mean(total))


def posed_heads(body: RigBody, turned: np.ndarray) -> np.ndarray:
    """Heads (F, J, 3) of a body whose bones have turned (F, J, 3, 3) since rest, with the root at its rest head."""
    has_parent = body.parents >= 0
    offsets = np.where(has_parent[:, None], body.heads - body.heads[np.maximum(body.parents, 0)], body.heads)
    return fk.heads_of(body.parents, turned, offsets)


def descendants(parents: np.ndarray, j: int) -> list[int]:
    """All bones below bone ``j``."""
    return [k for k in range(len(parents)) if j in ancestors(parents, k)]
