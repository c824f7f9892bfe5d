# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo character: the reference rig with a simple skinned body, and clips as actions."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from mathutils import Vector

from ...core import rotations
from ...core.reference_rig import reference, rest_orientation
from ...core.skeleton import Skeleton
from ...motion.pose_set import PoseSet
from ..host import actions as blender_actions
from ..host import armature, keyframes
from .extract import FPS_KEY

NAME = "Neural IK Demo"
TIPS = {  # length of the bones without a child along them [m]
    "Head": 0.271,
    "Hand": 0.072,
    "ToeBase": 0.071,
}
GIRTH: dict[str, tuple[float, float]] = {  # half width and half depth of the body about a bone [m]
    "Hips": (0.135, 0.095),
    "Spine": (0.120, 0.085),
    "Spine1": (0.130, 0.090),
    "Spine2": (0.140, 0.095),
    "NeckLower": (0.052, 0.052),
    "NeckUpper": (0.050, 0.050),
    "Head": (0.078, 0.095),
    "Shoulder": (0.055, 0.055),
    "Arm": (0.048, 0.048),
    "ForeArm": (0.038, 0.038),
    "Hand": (0.042, 0.020),
    "Thigh": (0.078, 0.078),
    "Shin": (0.055, 0.055),
    "Foot": (0.045, 0.040),
    "ToeBase": (0.042, 0.022),
}
AWAY = 1.0  # [m] from the character's middle to what stands beside it
WIDEST = 5.0  # [m]: what is wider is a floor or a room, in which the character stands
SIDES = 12  # of the mesh around a bone
CAP = np.radians([10, 35, 60, 90])  # angles of the rings of a rounded end
RINGS = 2 * len(CAP) + 1
SKIN = 0.25  # share of a bone's length over which its vertices are also weighted to the parent


def add(context: bpy.types.Context, poses: PoseSet | None) -> bpy.types.Object:
    """Add the armature, its body and one action for each clip of ``poses`` to the scene; returns the armature, active.

    The clips must be of the reference rig's skeleton (else SkeletonMismatch). Each action holds a key on every frame
    and, as a custom property, the frame rate of its clip. A second character gets its own actions.
    """
    skeleton = reference()
    if poses is not None:
        skeleton.require_same(poses.skeleton, "the clips")
    rig = armature.add(context, NAME, skeleton, _tails(skeleton))
    _body(context, rig, skeleton)
    made = [_action(rig, skeleton, poses, clip) for clip in range(len(poses.clip_names))] if poses is not None else []
    data = rig.animation_data_create()
    if made:
        walk = next((m for m in made if "walk" in m[0].name.lower()), made[0])
        blender_actions.assign(data, *walk)
        span: Any = walk[0].frame_range
        context.scene.frame_start, context.scene.frame_end = int(span[0]), int(span[1])
        context.scene.frame_set(context.scene.frame_start)
    return rig


def free_place(context: bpy.types.Context) -> float:
    """Where along X the character has room beside what is shown there [Blender units]: 0 where nothing is."""
    taken = []
    for ob in context.view_layer.objects:
        if ob.type in ("CAMERA", "LIGHT", "EMPTY", "SPEAKER", "LIGHT_PROBE") or not ob.visible_get():
            continue
        corners = np.array([(ob.matrix_world @ Vector(corner))[:] for corner in ob.bound_box])
        low, high = corners.min(axis=0), corners.max(axis=0)
        if (low[1:] <= (AWAY, 2.0)).all() and (high[1:] >= (-AWAY, 0.0)).all() and high[0] - low[0] < WIDEST:
            taken.append((low[0], high[0]))
    x = 0.0
    for low, high in sorted(taken):
        if low - AWAY < x < high + AWAY:
            x = high + AWAY
    return x


def _tails(skeleton: Skeleton) -> np.ndarray:
    """(J, 3) [m] tails of the bones: along their own Y, as far as the child in that direction."""
    heads, along = skeleton.rest_arm[:, :3, 3], skeleton.rest_arm[:, :3, 1]
    out = np.empty_like(heads)
    for j, name in enumerate(skeleton.names):
        length = next((value for tip, value in TIPS.items() if name.endswith(tip)), 0.0)
        if not length:
            reach = [(heads[c] - heads[j]) @ along[j] for c in np.flatnonzero(skeleton.parents == j)]
            length = max(reach)
        out[j] = heads[j] + along[j] * length
    return out


def _body(context: bpy.types.Context, rig: bpy.types.Object, skeleton: Skeleton) -> bpy.types.Object:
    """A mannequin with a rounded limb for each bone, weighted to the parent too near the joint."""
    heads, tails = skeleton.rest_arm[:, :3, 3], _tails(skeleton)
    points: list[np.ndarray] = []
    faces: list[tuple[int, ...]] = []
    weights: list[tuple[int, int, float]] = []  # bone, vertex, weight
    for j, name in enumerate(skeleton.names):
        width, depth = GIRTH[name.removeprefix("Left").removeprefix("Right")]
        frame = rest_orientation(tails[j] - heads[j])
        length = float(np.linalg.norm(tails[j] - heads[j]))
        base = len(points)
        for along, girth in _profile(length, min(width, depth), name == "Head"):
            parent = int(skeleton.parents[j])
            shared = 0.5 * max(0.0, 1 - max(0.0, along) / (SKIN * length)) if parent >= 0 else 0.0
            for side in range(SIDES):
                angle = 2 * np.pi * side / SIDES
                local = np.array([width * girth * np.cos(angle), along, depth * girth * np.sin(angle)])
                weights.append((j, len(points), 1 - shared))
                if shared:
                    weights.append((parent, len(points), shared))
                points.append(heads[j] + frame @ local)
        for ring in range(RINGS - 1):
            for side in range(SIDES):
                a, b = base + ring * SIDES + side, base + ring * SIDES + (side + 1) % SIDES
                faces.append((a, b, b + SIDES, a + SIDES))
        faces.append(tuple(base + s for s in reversed(range(SIDES))))
        faces.append(tuple(base + (RINGS - 1) * SIDES + s for s in range(SIDES)))
    mesh = bpy.data.meshes.new(f"{NAME} Body")
    mesh.from_pydata([tuple(p) for p in points], [], faces)
    mesh.polygons.foreach_set("use_smooth", np.ones(len(mesh.polygons), bool))
    mesh.update()
    body = bpy.data.objects.new(f"{NAME} Body", mesh)
    context.collection.objects.link(body)
    groups = [body.vertex_groups.new(name=name) for name in skeleton.names]
    for bone, vertex, weight in weights:
        groups[bone].add([vertex], weight, "ADD")
    body.parent = rig
    modifier: Any = body.modifiers.new("Armature", "ARMATURE")
    modifier.object = rig
    body.hide_select = True  # a click on the body means the rig
    return body


def _profile(length: float, cap: float, inset: bool) -> list[tuple[float, float]]:
    """(position along the bone [m], share of the full girth) of every ring: two rounded ends and a middle.

    The ends reach half a cap beyond the bone, so that joints stay closed; ``inset``: they stay within it.
    """
    start, end = (cap, length - cap) if inset else (0.5 * cap, length - 0.5 * cap)
    if end < start:
        start = end = 0.5 * length
    below = [(start - cap * np.cos(a), np.sin(a)) for a in CAP]
    above = [(end + cap * np.cos(a), np.sin(a)) for a in reversed(CAP)]
    return [*below, (0.5 * (start + end), 1.0), *above]


def _action(rig: bpy.types.Object, skeleton: Skeleton, poses: PoseSet, clip: int) -> tuple[bpy.types.Action, object]:
    rows = poses.rows(clip)
    frames = np.arange(1, rows.stop - rows.start + 1, dtype=np.float32)
    action, slot = blender_actions.new(poses.clip_names[clip], rig.name)
    action.use_fake_user = True
    action[FPS_KEY] = float(poses.clip_fps[clip])
    quaternions = rotations.continuous_quaternions(
        rotations.quaternion_from_axis_angle(poses.rot[rows].astype(np.float64))
    )
    root = skeleton.rest_arm[0]
    locations = (poses.root_pos[rows] - root[:3, 3]) @ root[:3, :3]
    channels = {(name, "rotation_quaternion"): quaternions[:, j] for j, name in enumerate(skeleton.names)}
    channels[skeleton.names[0], "location"] = locations
    keyframes.write_bones(action, slot, frames, channels)
    return action, slot
