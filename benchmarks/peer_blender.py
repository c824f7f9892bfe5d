# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender's own inverse kinematics on our skeleton, through bpy: IK constraints with Blender's standard solver, and iTaSC.

The rig is built as a rigger would build it: an empty for every effector, IK on the bone whose tail is the effector's head
(forearm, shin, neck), and for orientations either a Copy Rotation on the hand, foot or head itself (what most rigs do) or a
chain that ends in that bone and includes its rotation. Legs have a chain of two; those of arms and neck reach down to the
lowest spine bone, because the Hips are given and only the spine can lean. The starting pose is set on the bones (FK), and the
result of the constraints is read back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neural_network.core import rotations
from neural_network.core.skeleton import Skeleton
from neural_network.core.tree import chain

from .peer_solvers import ITERATIONS, Ask, Peer


def blender(rig: Skeleton, prior: np.ndarray, itasc: bool = False, whole: bool = False) -> Peer:
    """Blender's IK constraints with its standard solver, or with iTaSC; ``whole``: the chain solves for rotations too."""
    import bpy
    from mathutils import Matrix, Quaternion

    armature, empties = build(rig, itasc, whole)
    bones = [armature.pose.bones[n] for n in rig.names]
    ends = [bones[e] for e in rig.effectors]
    layer = bpy.context.view_layer
    rest = np.array(
        [bone.bone.matrix_local for bone in bones]
    )  # Blender's own; it differs from ours in float32 and rolls
    basis = rest[:, :3, :3]
    rest_ends = rest[list(rig.effectors), :3, :3]
    inverse_rest = np.linalg.inv(rest)
    lengths = np.array([end.length for end in ends])

    def load(rot: np.ndarray) -> list[Any]:
        return [Quaternion(q) for q in rotations.quaternion_from_axis_angle(np.einsum("jba,jb->ja", basis, rot))]

    def solve(start: list[Any], ask: Ask) -> np.ndarray:
        for bone, quaternion in zip(bones, start, strict=True):
            bone.rotation_quaternion = quaternion
        matrices = np.tile(np.eye(4), (len(ends), 1, 1))
        matrices[:, :3, 3] = ask.positions
        if ask.turned is not None:
            matrices[:, :3, :3] = ask.turned @ rest_ends
            if whole:  # the tail of such a chain's last bone goes to the target
                matrices[:, :3, 3] += matrices[:, :3, 1] * lengths[:, None]
        for end, empty, matrix in zip(ends, empties, matrices, strict=True):
            empty.matrix_world = Matrix(matrix.tolist())
            if end.constraints["turn"].enabled != (ask.turned is not None):
                end.constraints["turn"].enabled = ask.turned is not None
                end.parent.constraints["reach"].enabled = ask.turned is None or not whole
        layer.update()
        return np.array([bone.matrix for bone in bones])

    def pose(matrices: np.ndarray) -> np.ndarray:
        turned = (matrices @ inverse_rest)[:, :3, :3]  # D of every bone
        turned = rotations.matrix_from_axis_angle(rotations.axis_angle_from_matrix(turned))
        above = turned[np.maximum(rig.parents, 0)]
        own = above.transpose(0, 2, 1) @ turned
        out = rotations.axis_angle_from_matrix(own)
        out[0] = 0
        return out

    if itasc:
        solver = f"iTaSC in animation mode, solver SDLS, precision 0.1 mm, {ITERATIONS * 2} iterations"
    else:
        solver = "the standard solver, 500 iterations (Blender's default)"
    turning = "a Copy Rotation on hands, feet and head"
    if whole:
        turning = "the chains end in hands, feet and head instead and include their rotation (weight 1)"
    how = (
        f"{solver}; IK constraints on forearms, shins and the upper neck to empties, chains: legs 2, arms and neck down to "
        f"the lowest spine bone, no stretch, no limits; with orientations, {turning}; timed with pose in and out"
    )
    return Peer(how, prior.size * 4, load, solve, pose)


def build(rig: Skeleton, itasc: bool, whole: bool) -> tuple[Any, list[Any]]:
    """The armature in an empty scene, and one empty for every effector."""
    import bpy
    from mathutils import Matrix

    bpy.ops.wm.read_factory_settings(use_empty=True)
    data = bpy.data.armatures.new("rig")
    armature = bpy.data.objects.new("rig", data)
    bpy.context.collection.objects.link(armature)
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode="EDIT")
    heads = rig.rest_core[:, :3, 3] - rig.rest_core[0, :3, 3]
    for j, name in enumerate(rig.names):
        bone = data.edit_bones.new(name)
        along = rig.basis[j][:, 1]
        below = [c for c in np.flatnonzero(rig.parents == j) if np.linalg.norm(heads[c] - heads[j]) > 1e-4]
        below = [c for c in below if (heads[c] - heads[j]) @ along > 0.999 * np.linalg.norm(heads[c] - heads[j])]
        length = np.linalg.norm(heads[below[0]] - heads[j]) if below else 0.07
        bone.head, bone.tail = heads[j], heads[j] + along * length
        bone.align_roll(Matrix(rig.basis[j].tolist()).col[2])
        if rig.parents[j] >= 0:
            bone.parent = data.edit_bones[rig.names[rig.parents[j]]]
    bpy.ops.object.mode_set(mode="OBJECT")
    empties = []
    for effector in rig.effectors:
        name = rig.names[effector]
        empty = bpy.data.objects.new("target " + name, None)
        bpy.context.collection.objects.link(empty)
        empties.append(empty)
        above = chain(rig.parents, effector)[1:-1]
        length = 2 if effector in rig.feet else len(above)
        reach = armature.pose.bones[rig.names[above[0]]].constraints.new("IK")
        reach.name, reach.target, reach.chain_count, reach.use_stretch = "reach", empty, length, False
        turn = armature.pose.bones[name].constraints.new("IK" if whole else "COPY_ROTATION")
        turn.name, turn.target, turn.enabled = "turn", empty, False
        if whole:
            turn.chain_count, turn.use_stretch, turn.use_rotation = length + 1, False, True
    for bone in armature.pose.bones:
        bone.rotation_mode = "QUATERNION"
    if itasc:
        armature.pose.ik_solver = "ITASC"
        settings = armature.pose.ik_param
        settings.mode, settings.solver = "ANIMATION", "SDLS"
        settings.precision, settings.iterations = 1e-4, ITERATIONS * 2
    return armature, empties
