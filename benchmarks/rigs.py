# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeletons of common rig families, for tests and benchmarks: real bone names and trees, invented proportions.

A family is a text with one bone per line, indented below its parent, with the place of its head and its role. ``*`` in a
name stands for the side and turns one line into two bones. Places are points of one invented body (T-pose, Z up, facing
-Y, left at +X, metres); ``a~b`` is the point halfway between two places, ``a~b~0.3`` the point at 30 %.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neural_network.core.reference_rig import rest_orientation
from neural_network.core.rotations import (
    matrix_from_axis_angle,
    matrix_from_quaternion,
    quaternion_from_matrix,
    rotation_between,
)
from neural_network.core.skeleton import Skeleton, make
from neural_network.motion.clip import Clip
from neural_network.rigs.roles import ROLE_NAMES

from .rig_families import families

PLACES = {
    "floor": (0, 0, 0),
    "hips": (0, 0.01, 0.98),
    "pelvis": (0, 0.01, 0.95),
    "spine": (0, 0.01, 1.07),
    "spine1": (0, 0.02, 1.18),
    "spine2": (0, 0.02, 1.30),
    "neck": (0, 0.01, 1.50),
    "neck1": (0, 0.0, 1.555),
    "head": (0, -0.01, 1.61),
    "crown": (0, -0.01, 1.80),
    "jaw": (0, -0.06, 1.60),
    "eye": (0.03, -0.09, 1.68),
    "brow": (0.03, -0.10, 1.71),
    "breast": (0.09, -0.11, 1.33),
    "collar": (0.03, 0.0, 1.45),
    "arm": (0.17, 0.01, 1.44),
    "elbow": (0.44, 0.015, 1.44),
    "wrist": (0.69, 0.01, 1.44),
    "thumb": (0.72, -0.03, 1.43),
    "thumbtip": (0.78, -0.09, 1.43),
    "index": (0.78, -0.03, 1.44),
    "middle": (0.785, 0.0, 1.44),
    "ring": (0.78, 0.025, 1.44),
    "little": (0.77, 0.045, 1.44),
    "fingertip": (0.87, 0.0, 1.44),
    "thigh": (0.09, 0.01, 0.93),
    "knee": (0.095, 0.0, 0.50),
    "ankle": (0.10, 0.03, 0.09),
    "heel": (0.10, 0.08, 0.0),
    "toe": (0.105, -0.10, 0.02),
    "toetip": (0.11, -0.18, 0.02),
    "kneepole": (0.095, -0.6, 0.50),
    "elbowpole": (0.44, 0.6, 1.44),
    "hock": (0.10, 0.22, 0.25),
    "paw": (0.10, 0.06, 0.05),
    "pawtip": (0.10, -0.06, 0.01),
    "prop": (0.76, -0.02, 1.40),
    "skirt": (0.14, 0.02, 0.9),
    "skirttip": (0.2, 0.03, 0.6),
    "hair": (0.0, 0.10, 1.75),
    "hairtip": (0.0, 0.16, 1.35),
}


@dataclass(frozen=True)
class FamilyRig:
    """One skeleton and its true roles."""

    family: str
    names: tuple[str, ...]
    parents: np.ndarray
    heads: np.ndarray
    roles: dict[str, tuple[str | None, ...]]
    """Role -> acceptable bone names, the preferred first."""


def build(family: str, text: str, sides: tuple[str, str]) -> FamilyRig:
    """The rig described by a family's text; ``sides`` are the words for left and right."""
    names: list[str] = []
    parents: list[int] = []
    heads: list[np.ndarray] = []
    roles: dict[str, list[str]] = {}
    open_bones: list[tuple[int, dict[int, int]]] = []
    for line in text.strip("\n").splitlines():
        depth = len(line) - len(line.lstrip())
        name, place, *role = line.split("|")[0].split() if "|" not in line else [w.strip() for w in line.split("|")]
        open_bones = [(d, made) for d, made in open_bones if d < depth]
        made: dict[int, int] = {}
        for k in (0, 1) if "*" in name else (-1,):
            above = open_bones[-1][1] if open_bones else {}
            parents.append(above.get(k, above.get(-1, -1)))
            made[k] = len(names)
            names.append(name.replace("*", sides[k]) if k >= 0 else name)
            heads.append(_place(place) * ([-1, 1, 1] if k == 1 else [1, 1, 1]))
            for r in role:
                key = r.lstrip("?=")
                key = key if k < 0 else ("Left", "Right")[k] + key
                roles.setdefault(key, []).append(names[-1])
        open_bones.append((depth, made))
    truth = {r: tuple(roles.get(r, [None])) for r in ROLE_NAMES}
    order = _parents_first(parents)
    back = {old: new for new, old in enumerate(order)}
    return FamilyRig(
        family,
        tuple(names[j] for j in order),
        np.array([-1 if parents[j] < 0 else back[parents[j]] for j in order]),
        np.array([heads[j] for j in order]),
        truth,
    )


def _place(text: str) -> np.ndarray:
    words = text.split("~")
    a = np.array(PLACES[words[0]], float)
    if len(words) == 1:
        return a
    return a + (np.array(PLACES[words[1]], float) - a) * (float(words[2]) if len(words) > 2 else 0.5)


def _parents_first(parents: list[int]) -> list[int]:
    depth = [0] * len(parents)
    for j, p in enumerate(parents):
        depth[j] = 0 if p < 0 else depth[p] + 1
    return sorted(range(len(parents)), key=lambda j: depth[j])


def all_rigs() -> dict[str, FamilyRig]:
    """Family -> rig, all in T-pose, Z up, facing -Y, metres."""
    return {family: build(family, text, sides) for family, (text, sides) in families().items()}


def skeleton(rig: FamilyRig) -> Skeleton:
    """The rig as a Skeleton: Y along each bone, effectors and feet by the true roles, without the bones above the hips."""
    index = {n: j for j, n in enumerate(rig.names)}
    hips = index[str(rig.roles["Hips"][0])]
    keep = [j for j in range(len(rig.names)) if hips in _line(rig.parents, j)]
    back = {j: i for i, j in enumerate(keep)}
    roles = {r: index[str(n[0])] for r, n in rig.roles.items() if n[0] is not None}
    rest = np.tile(np.eye(4), (len(keep), 1, 1))
    for i, j in enumerate(keep):
        children = [k for k in range(len(rig.names)) if rig.parents[k] == j]
        playing = [k for k in children if k in roles.values()] or children
        above = rig.heads[j] - rig.heads[rig.parents[j]] if rig.parents[j] >= 0 else np.array([0, 0, 0.1])
        along = np.mean([rig.heads[k] for k in playing], axis=0) - rig.heads[j] if playing else above
        rest[i, :3, :3] = rest_orientation(along)
        rest[i, :3, 3] = rig.heads[j]
    effectors = [rig.names[roles[r]] for r in ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head") if r in roles]
    feet = [rig.names[roles[r]] for r in ("LeftFoot", "RightFoot")]
    parents = np.array([back.get(int(rig.parents[j]), -1) for j in keep])
    return make([rig.names[j] for j in keep], parents, rest, effectors, feet)


def _line(parents: np.ndarray, j: int) -> list[int]:
    out = [j]
    while parents[out[-1]] >= 0:
        out.append(int(parents[out[-1]]))
    return out


def true_bones(rig: FamilyRig) -> dict[str, int]:
    """Role -> index in ``skeleton(rig)``."""
    names = skeleton(rig).names
    return {r: names.index(str(n[0])) for r, n in rig.roles.items() if n[0] is not None}


def proportioned(
    rig: FamilyRig, legs: float = 1.0, arms: float = 1.0, trunk: float = 1.0, width: float = 1.0
) -> FamilyRig:
    """The same rig with other lengths and its feet on the floor."""
    offsets = np.where(rig.parents[:, None] >= 0, rig.heads - rig.heads[np.maximum(rig.parents, 0)], 0.0)
    index = {n: j for j, n in enumerate(rig.names)}
    roles = {r: index[str(n[0])] for r, n in rig.roles.items() if n[0] is not None}
    heads = rig.heads.copy()
    for j, p in enumerate(rig.parents):
        if p < 0:
            continue
        above = set(_line(rig.parents, int(p)))
        factor = np.array([width, 1.0, trunk])
        if above & {roles["LeftArm"], roles["RightArm"]}:
            factor = np.full(3, arms)
        elif above & {roles["LeftThigh"], roles["RightThigh"]}:
            factor = np.full(3, legs)
        elif roles["Hips"] not in above:
            factor = np.ones(3)
        heads[j] = heads[p] + offsets[j] * factor
    lift = rig.heads[roles["LeftFoot"], 2] * legs - heads[roles["LeftFoot"], 2]
    below = np.array([roles["Hips"] in _line(rig.parents, j) for j in range(len(rig.names))])
    heads[below, 2] += lift
    return replace(rig, heads=heads)


def a_pose(rig: FamilyRig, degrees: float = 45.0) -> FamilyRig:
    """The same rig with lowered arms at rest."""
    index = {n: j for j, n in enumerate(rig.names)}
    heads = rig.heads.copy()
    for side, sign in (("Left", 1), ("Right", -1)):
        arm = index[str(rig.roles[side + "Arm"][0])]
        turn = matrix_from_axis_angle(np.array([0, sign * np.radians(degrees), 0]))
        for j in range(len(rig.names)):
            if arm in _line(rig.parents, j):
                heads[j] = rig.heads[arm] + turn @ (rig.heads[j] - rig.heads[arm])
    return replace(rig, heads=heads)


def carrying(
    rig: FamilyRig, role: str, start: tuple[float, ...], way: tuple[float, ...], bones: int, word: str
) -> FamilyRig:
    """The rig with a chain of ``bones`` that hangs ``start`` from the bone of a role and leads ``way`` [m]."""
    above = rig.names.index(str(rig.roles[role][0]))
    heads = rig.heads[above] + np.array(start) + np.linspace(0, 1, bones, endpoint=False)[:, None] * np.array(way)
    first = len(rig.names)
    return replace(
        rig,
        names=(*rig.names, *(f"{word}{n + 1}" for n in range(bones))),
        parents=np.array([*rig.parents, above, *range(first, first + bones - 1)]),
        heads=np.concatenate([rig.heads, heads]),
    )


def turned(rig: FamilyRig, degrees: float = 0.0, y_up: bool = False, unit: float = 1.0) -> FamilyRig:
    """The same rig facing another way, with Y up, or in another unit (``unit`` of them make a metre)."""
    heads = rig.heads @ matrix_from_axis_angle(np.array([0, 0, np.radians(degrees)])).T
    if y_up:
        heads = heads @ np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]).T
    return replace(rig, heads=heads * unit)


def walk(rig: FamilyRig, frames: int = 48, fps: float = 30.0) -> Clip:
    """A synthetic walk of a T-posed rig as a Y-up clip: legs and arms swing, knees and elbows bend, the body moves forward."""
    index = {n: j for j, n in enumerate(rig.names)}
    bone = {r: index[str(n[0])] for r, n in rig.roles.items() if n[0] is not None}
    phase = np.linspace(0, 4 * np.pi, frames, endpoint=False)
    angles = np.zeros((frames, len(rig.names), 3))  # armature axes, relative to the parent
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        swing = sign * np.sin(phase)
        angles[:, bone[side + "Thigh"], 0] = -0.45 * swing
        angles[:, bone[side + "Shin"], 0] = 0.2 + 0.5 * np.maximum(0, sign * np.cos(phase))
        if side + "ToeBase" in bone:
            angles[:, bone[side + "ToeBase"], 0] = -0.2 * np.maximum(0, -swing)
        angles[:, bone[side + "Arm"]] = np.array([0, sign * 1.2, 0]) + np.stack([0.3 * swing, 0 * swing, 0 * swing], 1)
        angles[:, bone[side + "ForeArm"], 2] = -sign * (0.4 + 0.2 * np.cos(phase))
        angles[:, bone[side + "Foot"], 0] = 0.15 * swing
    angles[:, bone["Spine"], 2] = 0.1 * np.sin(phase)
    angles[:, bone["Head"], 2] = -0.1 * np.sin(phase)
    if "NeckLower" in bone:
        angles[:, bone["NeckLower"], 0] = 0.05 * np.cos(phase)
    angles[:, bone["Hips"], 2] = 0.08 * np.sin(phase)
    axes = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # armature to Y up
    local = axes @ matrix_from_axis_angle(angles) @ axes.T
    offsets = np.where(rig.parents[:, None] >= 0, rig.heads - rig.heads[np.maximum(rig.parents, 0)], rig.heads)
    root = rig.heads[rig.parents < 0][:1] + np.stack([0 * phase, -0.1 * phase, 0.01 * np.cos(2 * phase)], 1)
    return Clip(
        "walk",
        rig.names,
        rig.parents,
        offsets @ axes.T,
        {},
        quaternion_from_matrix(local),
        root @ axes.T,
        fps,
        "Y",
        1.0,
    )


def heaped(clip: Clip) -> Clip:
    """The same motion with a meaningless rest pose: every bone points along +X, so that only the frames show a body."""
    count = len(clip.names)
    turn = np.tile(np.eye(3), (count, 1, 1))
    for j in range(count):
        children = np.flatnonzero(clip.parents == j)
        if len(children):
            far = children[np.argmax(np.linalg.norm(clip.offsets[children], axis=1))]
            turn[j] = rotation_between(np.array([1.0, 0, 0]), clip.offsets[far])
    local = matrix_from_quaternion(clip.rotations)
    above = np.where((clip.parents >= 0)[:, None, None], turn[clip.parents], np.eye(3))
    local = np.swapaxes(above, -1, -2) @ local @ turn
    offsets = np.einsum("jba,jb->ja", above, clip.offsets)
    tips = {j: turn[j].T @ tip for j, tip in clip.tips.items()}
    return replace(clip, offsets=offsets, rotations=quaternion_from_matrix(local), tips=tips)
