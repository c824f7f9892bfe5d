# SPDX-License-Identifier: GPL-3.0-or-later
"""Posing a character from the core's numbers: Blender shows what NumPy says, on plain and on awkward rigs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import HOST

from neural_network.core import forward_kinematics

from .conftest import wing

TURN = 1e-4
"""[rad] Blender's float32 pose matrices lose some orthogonality down a chain."""


def complicate(ob: Any) -> None:
    """A root bone above the Hips, a turned helper above the shin, every rotation mode, a turned and scaled object."""
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")
    edit = ob.data.edit_bones
    root = edit.new("root")
    root.head, root.tail = (0, 0, 0), (0, 0.3, 0)
    edit["Hips"].parent = root
    helper = edit.new("helper.L")
    helper.head, helper.tail = edit["LeftThigh"].tail, edit["LeftThigh"].tail
    helper.tail.z += 0.1
    helper.parent = edit["LeftThigh"]
    edit["LeftShin"].parent = helper
    bpy.ops.object.mode_set(mode="OBJECT")
    for pb, mode in zip(ob.pose.bones, ["XYZ", "ZYX", "YXZ", "AXIS_ANGLE", "QUATERNION", "XZY"] * 9, strict=False):
        pb.rotation_mode = mode
    for name, turn in (("root", 0.4), ("helper.L", 0.3)):
        ob.pose.bones[name].rotation_mode = "XYZ"
        ob.pose.bones[name].rotation_euler = (turn, -0.2, 0.1)
    ob.pose.bones["root"].location = (0.3, 0.2, 0.1)
    ob.rotation_euler = (1.2, 0.3, -0.5)
    ob.scale = (0.01, 0.01, 0.01)
    ob.location = (3, 4, 5)
    bpy.context.view_layer.update()


@pytest.mark.parametrize("awkward", [False, True])
def test_blender_shows_the_pose_that_was_applied(demo: Any, rng: np.random.Generator, awkward: bool) -> None:
    import bpy

    demo.animation_data.action = None
    if awkward:
        complicate(demo)
    runtime, rig = wing("blender.host.runtime"), wing("blender.host.rig").read(demo)
    assert rig.simple != awkward
    for _ in range(5):
        rot = rng.normal(0, 0.5, (23, 3))
        root = rng.normal(0, 1, 3)
        runtime.apply(demo, rig, rot, root)
        bpy.context.view_layer.update()
        expected = forward_kinematics.armature_matrices(rig.skeleton, rot, root)
        shown = np.array([demo.pose.bones[int(i)].matrix for i in rig.index])
        heads = shown[:, :3, 3] @ rig.turn.T * rig.unit
        # below the helper the shin's head turns with it, which is no part of the contract
        free = [
            j
            for j, name in enumerate(rig.skeleton.names)
            if not (awkward and name in ("LeftShin", "LeftFoot", "LeftToeBase"))
        ]
        assert np.abs(heads - expected[:, :3, 3])[free].max() <= HOST
        assert np.abs(rig.turn @ runtime.orthonormal(shown[:, :3, :3]) - expected[:, :3, :3]).max() <= TURN
        again, where = runtime.read_pose(demo, rig)
        assert np.abs(where - root).max() <= HOST
        again = forward_kinematics.armature_matrices(rig.skeleton, again, where)
        assert np.abs(again[:, :3, :3] - expected[:, :3, :3]).max() <= TURN


def test_a_snapshot_puts_the_pose_back(demo: Any, rng: np.random.Generator) -> None:
    import bpy

    runtime, rig = wing("blender.host.runtime"), wing("blender.host.rig").read(demo)
    before = np.array([pb.matrix_basis for pb in demo.pose.bones])
    kept = runtime.snapshot(demo)
    runtime.apply(demo, rig, rng.normal(0, 0.5, (23, 3)), np.ones(3))
    bpy.context.view_layer.update()
    assert np.abs(np.array([pb.matrix_basis for pb in demo.pose.bones]) - before).max() > 0.1
    runtime.restore(demo, kept)
    bpy.context.view_layer.update()
    assert np.abs(np.array([pb.matrix_basis for pb in demo.pose.bones]) - before).max() <= HOST


def test_connected_hips_are_carried_by_the_nearest_bone_above_that_may_move(
    demo: Any, rng: np.random.Generator
) -> None:
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")
    bones = demo.data.edit_bones
    root, middle = bones.new("root"), bones.new("middle")
    root.head, root.tail = (0, 0.2, 0), (0, 0, 0.3)
    middle.head, middle.tail, middle.parent, middle.use_connect = root.tail, bones["Hips"].head, root, True
    bones["Hips"].parent, bones["Hips"].use_connect = middle, True
    bpy.ops.object.mode_set(mode="OBJECT")
    demo.animation_data.action = None
    demo.pose.bones["middle"].rotation_quaternion = (0.9, 0.3, 0.1, 0.2)
    demo.pose.bones["root"].scale = (1.5, 1.5, 1.5)
    bpy.context.view_layer.update()
    runtime, rig = wing("blender.host.runtime"), wing("blender.host.rig").read(demo)
    assert rig.bones[rig.carrier] == "root"
    for _ in range(3):
        root_pos = rng.normal(0, 1, 3)
        runtime.apply(demo, rig, rng.normal(0, 0.5, (23, 3)), root_pos)
        bpy.context.view_layer.update()
        assert np.abs(np.array(demo.pose.bones["Hips"].head) @ rig.turn.T * rig.unit - root_pos).max() <= HOST
