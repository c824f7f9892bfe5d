# SPDX-License-Identifier: GPL-3.0-or-later
"""A body of one skin for pictures and films, made from an armature's bones alone: people in shirt and trousers, creatures in fur.

Nothing is loaded: rounded limbs around the bones, melted into one surface, with weights from the distance to the bones.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import bpy
import numpy as np

from neural_network.blender.host import rig as host
from neural_network.core.reference_rig import rest_orientation
from neural_network.rigs.roles import ROLE_NAMES

GIRTH = {  # half width and half depth at a bone's head, and the share of both at its end [m, of a person with 0.82 m of leg]
    "Hips": (0.150, 0.105, 0.95),
    "Spine": (0.135, 0.098, 1.0),
    "Spine1": (0.138, 0.102, 1.08),
    "Spine2": (0.150, 0.108, 0.82),
    "NeckLower": (0.060, 0.060, 0.9),
    "NeckUpper": (0.054, 0.054, 1.0),
    "Head": (0.074, 0.092, 1.0),
    "Shoulder": (0.062, 0.066, 1.0),
    "Arm": (0.058, 0.058, 0.72),
    "ForeArm": (0.046, 0.046, 0.62),
    "Hand": (0.040, 0.018, 0.9),
    "Thigh": (0.090, 0.092, 0.68),
    "Shin": (0.064, 0.066, 0.58),
    "Foot": (0.044, 0.044, 1.0),
    "ToeBase": (0.044, 0.026, 0.85),
}
VOXEL = 0.015  # [leg lengths] of the melted surface
SOFT = 0.022  # [leg lengths] over which weights go from one bone to the next
LIMB = 0.042  # of a creature's limb, as a share of two thirds of its length
SIDES = 16
COLORS = {
    "skin": (0.72, 0.47, 0.35, 1),
    "shirt": (0.12, 0.30, 0.48, 1),
    "trousers": (0.13, 0.14, 0.18, 1),
    "shoes": (0.35, 0.12, 0.08, 1),
    "hair": (0.10, 0.06, 0.04, 1),
    "fur": (0.42, 0.27, 0.15, 1),
}
PARTS = {"Hand": "skin", "Head": "skin", "Neck": "skin", "Foot": "shoes", "Toe": "shoes", "Thigh": "trousers"}
PARTS |= {"Shin": "trousers", "Hips": "trousers"}


def add(ob: Any, roles: dict[str, int] | None) -> Any:
    """Add a skinned body to the armature ``ob`` in its rest pose and return it.

    ``roles``: role -> index of its bone among ``ob.pose.bones``, for people; None for a creature.
    """
    bones = list(ob.pose.bones)
    heads = np.array([b.bone.head_local for b in bones], float)
    tails = np.array([b.bone.tail_local for b in bones], float)
    named = {int(j): role for role, j in (roles or {}).items() if j is not None}
    scale = _leg(heads, roles) / 0.82 if roles else float(np.ptp(heads, axis=0).max()) / 1.5
    own = host.read(ob).skeleton.names if roles is None else ()
    ends = _ends(bones, heads, tails, named)
    used, girths, parts = [], [], []
    for j, bone in enumerate(bones):
        if (roles is None and bone.name not in own) or (not bone.bone.use_deform and j not in named):
            continue
        above = _above(bone, bones, named)
        if roles is not None and above is None:
            continue
        length = float(np.linalg.norm(ends[j] - heads[j]))
        if length < 1e-6:
            continue
        if j in named:
            role = named[j]
            width, depth, share = GIRTH[role.removeprefix("Left").removeprefix("Right")]
            girth = (width * scale, depth * scale, share)
        elif roles is not None:
            role = named[above]
            hand = role.endswith("Hand")
            if not hand:  # twists, eyes, jaws and hair: the bones with a role have flesh enough
                continue
            girth = (0.0125 * scale, 0.0125 * scale, 0.85)
        else:
            role = ""
            girth = _of_creature(bone, scale)
        used.append(j)
        girths.append(girth)
        parts.append(next((part for word, part in PARTS.items() if word in role), "shirt") if roles else "fur")
    body = _melted(ob, heads[used], ends[used], girths, scale * 0.82 * VOXEL)
    _weigh(body, [bones[j].name for j in used], heads[used], ends[used], girths, parts, SOFT * 0.82 * scale)
    body.parent = ob
    modifier: Any = body.modifiers.new("Armature", "ARMATURE")
    modifier.object = ob
    body.hide_select = True
    return body


def _of_creature(bone: Any, scale: float) -> tuple[float, float, float]:
    """Girth of a creature's bone: the more ends hang from it, the thicker; limbs become thinner towards their ends."""
    leaves = sum(not below.children for below in [bone, *bone.children_recursive])
    steps, above = 0, bone
    while above.parent is not None and len(above.parent.children) == 1:
        above, steps = above.parent, steps + 1
    thick = LIMB * scale * (leaves**0.62 if leaves > 1 else 1.5 * 0.78**steps)
    return thick, thick, 0.8 if leaves == 1 else 1.0


def paint(ob: Any, color: tuple[float, ...]) -> None:
    """Give an object a material of one color."""
    material: Any = bpy.data.materials.new(ob.name)
    material.diffuse_color, material.roughness = color, 0.8
    ob.data.materials.append(material)


def _leg(heads: np.ndarray, roles: dict[str, int] | None) -> float:
    assert roles is not None
    thigh, shin, foot = (heads[roles[f"Left{name}"]] for name in ("Thigh", "Shin", "Foot"))
    return float(np.linalg.norm(thigh - shin) + np.linalg.norm(shin - foot))


def _above(bone: Any, bones: list[Any], named: dict[int, str]) -> int | None:
    """The nearest bone with a role, ``bone`` itself or above it."""
    index = {b.name: j for j, b in enumerate(bones)}
    while bone is not None:
        if index[bone.name] in named:
            return index[bone.name]
        bone = bone.parent
    return None


def _ends(bones: list[Any], heads: np.ndarray, tails: np.ndarray, named: dict[int, str]) -> np.ndarray:
    """(N, 3) where each bone's flesh ends: at the next role of its limb, else at its child, else at its tail."""
    follows = dict(pairwise(ROLE_NAMES))
    place = {role: j for j, role in named.items()}
    out = tails.copy()
    for j, bone in enumerate(bones):
        below = [b for b in range(len(bones)) if bones[b].parent == bone]
        role = named.get(j, "")
        side = role[:4] if role.startswith("Left") else role[:5] if role.startswith("Right") else ""
        after = {
            "Shoulder": "Arm",
            "Arm": "ForeArm",
            "ForeArm": "Hand",
            "Thigh": "Shin",
            "Shin": "Foot",
            "Foot": "ToeBase",
        }
        wanted = f"{side}{after[role[len(side) :]]}" if side and role[len(side) :] in after else ""
        if not side and role and role != "Head":
            wanted = follows.get(role, "")
            while wanted and wanted not in place and not wanted.startswith("Left"):
                wanted = follows.get(wanted, "")
        if wanted in place and not (wanted.startswith("Left") and not side):
            out[j] = heads[place[wanted]]
        elif role.endswith("Hand"):
            middle = [heads[b] for b in below] or [tails[j]]
            out[j] = heads[j] + 0.9 * (np.mean(middle, axis=0) - heads[j]) if below else tails[j]
        elif role == "Head":
            up = np.array([0.0, 0.0, 1.0])
            out[j] = heads[j] + 0.17 * (_leg(heads, {r: p for p, r in named.items()}) / 0.82) * _up(heads, named, up)
        elif below and not role:
            out[j] = heads[min(below, key=lambda b: float(np.linalg.norm(heads[b] - tails[j])))]
    return out


def _up(heads: np.ndarray, named: dict[int, str], otherwise: np.ndarray) -> np.ndarray:
    """Upwards in the armature's own axes: from the feet to the hips."""
    place = {role: j for j, role in named.items()}
    away = heads[place["Hips"]] - 0.5 * (heads[place["LeftFoot"]] + heads[place["RightFoot"]])
    length = float(np.linalg.norm(away))
    return away / length if length > 1e-9 else otherwise


def _melted(
    ob: Any, heads: np.ndarray, ends: np.ndarray, girths: list[tuple[float, float, float]], voxel: float
) -> Any:
    points: list[np.ndarray] = []
    faces: list[tuple[int, ...]] = []
    for head, end, (width, depth, share) in zip(heads, ends, girths, strict=True):
        frame = rest_orientation(end - head)
        length = float(np.linalg.norm(end - head))
        cap = min(width, depth)
        angles = np.radians([8, 30, 55, 80])
        cap_end = cap * share
        rings = [(0.35 * cap - cap * np.cos(a), np.sin(a)) for a in angles] + [(0.5 * length, 0.5 * (1 + share))]
        rings += [(length - 0.35 * cap_end + cap_end * np.cos(a), share * np.sin(a)) for a in reversed(angles)]
        base = len(points)
        for along, wide in rings:
            for side in range(SIDES):
                a = 2 * np.pi * side / SIDES
                points.append(head + frame @ np.array([width * wide * np.cos(a), along, depth * wide * np.sin(a)]))
        for ring in range(len(rings) - 1):
            for side in range(SIDES):
                a, b = base + ring * SIDES + side, base + ring * SIDES + (side + 1) % SIDES
                faces.append((a, b, b + SIDES, a + SIDES))
        faces.append(tuple(base + s for s in reversed(range(SIDES))))
        faces.append(tuple(base + (len(rings) - 1) * SIDES + s for s in range(SIDES)))
    mesh = bpy.data.meshes.new(f"{ob.name} Skin")
    mesh.from_pydata([tuple(p) for p in points], [], faces)
    rough: Any = bpy.data.objects.new(f"{ob.name} Rough", mesh)
    bpy.context.collection.objects.link(rough)
    remesh: Any = rough.modifiers.new("Melt", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", voxel
    smooth: Any = rough.modifiers.new("Smooth", "SMOOTH")
    smooth.factor, smooth.iterations = 0.5, 8
    melted = bpy.data.meshes.new_from_object(rough.evaluated_get(bpy.context.evaluated_depsgraph_get()))
    bpy.data.objects.remove(rough)
    melted.polygons.foreach_set("use_smooth", np.ones(len(melted.polygons), bool))
    body: Any = bpy.data.objects.new(f"{ob.name} Skin", melted)
    bpy.context.collection.objects.link(body)
    return body


def _weigh(
    body: Any,
    names: list[str],
    heads: np.ndarray,
    ends: np.ndarray,
    girths: list[tuple[float, float, float]],
    parts: list[str],
    soft: float,
) -> None:
    """Weights by distance to the flesh of each bone, and a material by the strongest."""
    points = np.empty(3 * len(body.data.vertices), np.float32)
    body.data.vertices.foreach_get("co", points)
    points = points.reshape(-1, 3)
    away = np.empty((len(points), len(names)))
    for j, (head, end, girth) in enumerate(zip(heads, ends, girths, strict=True)):
        along = end - head
        t = np.clip((points - head) @ along / (along @ along), 0, 1)
        away[:, j] = np.linalg.norm(points - head - t[:, None] * along, axis=1) - 0.5 * (girth[0] + girth[1])
    away -= away.min(axis=1, keepdims=True)
    weights = np.exp(-away / soft)
    weights[weights < 0.05] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    for j, name in enumerate(names):
        group = body.vertex_groups.new(name=name)
        for vertex in np.flatnonzero(weights[:, j]).tolist():
            group.add([vertex], float(weights[vertex, j]), "REPLACE")
    kinds = sorted(set(parts))
    for kind in kinds:
        material: Any = bpy.data.materials.get(f"Skin {kind}") or bpy.data.materials.new(f"Skin {kind}")
        material.diffuse_color = COLORS[kind]
        material.roughness = 0.8
        body.data.materials.append(material)
    strongest = np.argmax(weights, axis=1)
    of_point = np.array([kinds.index(parts[j]) for j in strongest])
    slots = [int(np.bincount(of_point[list(p.vertices)]).argmax()) for p in body.data.polygons]
    body.data.polygons.foreach_set("material_index", np.array(slots, np.int32))
