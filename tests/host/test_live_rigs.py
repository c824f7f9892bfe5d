# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK on other rigs than the demo character: fewer bones, other sizes, other units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_live_ik import BACK, FIRST_PRESS, HIT, apart, channels, character, live, matrices, missed, target, update

from .test_live_ik import settings, weights  # isort: skip

__all__ = ["character", "weights"]  # fixtures


def without_toes(ob: Any) -> None:
    """Reduce the rig to two spine bones, one neck bone and no toes."""
    import bpy

    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    bones = ob.data.edit_bones
    for name in ("Spine2", "NeckUpper", "LeftToeBase", "RightToeBase"):
        for child in bones[name].children:
            child.use_connect = False
            child.parent = bones[name].parent
        bones.remove(bones[name])
    bpy.ops.object.mode_set(mode="OBJECT")
    update()


def solved_anew() -> None:
    live().dirty = True
    settings().strength = 1.0
    update()


def test_a_rig_with_two_spine_bones_and_no_toes_is_trained_and_dragged(demo: Any) -> None:
    import bpy

    without_toes(demo)
    bpy.ops.neural_ik.extract_data()
    bpy.ops.neural_ik.save_data()
    assert bpy.ops.neural_ik.train(epochs=15) == {"FINISHED"}
    assert wing("blender.host.memory").memory.network.skeleton.count == 19
    bpy.context.view_layer.objects.active = demo
    bpy.context.scene.frame_set(20)
    before, shown = channels(demo), matrices(demo)
    bpy.ops.neural_ik.live_start()
    solved_anew()
    assert apart(matrices(demo), shown) <= FIRST_PRESS
    feet = [np.array(demo.pose.bones[f].head) for f in ("LeftFoot", "RightFoot")]
    for _ in range(10):
        target("RightHand").location.y -= 0.03
        target("RightHand").location.z -= 0.01
        update()
        assert missed(demo, "RightHand") <= HIT
    for foot, place in zip(("LeftFoot", "RightFoot"), feet, strict=True):
        assert np.linalg.norm(np.array(demo.pose.bones[foot].head) - place) <= HIT
    target("LeftFoot").neural_ik_target.pin = "PLANE"
    update()
    bpy.context.scene.frame_set(25)
    assert missed(demo, "RightHand") <= HIT
    bpy.context.scene.frame_set(20)
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(demo) - before).max() <= BACK


@pytest.mark.parametrize(("scale", "unit"), [(0.01, 1.0), (100.0, 0.01), (1.0, 0.001), (2.5, 1.0)])
def test_scale_and_units_make_no_difference(character: Any, scale: float, unit: float) -> None:
    import bpy

    scene = bpy.context.scene
    character.animation_data.action = None
    scene.unit_settings.scale_length = unit
    character.scale, character.rotation_euler, character.location = [scale] * 3, (0.3, -0.2, 2.0), (1, -2, 0.5)
    update()
    before, kept = matrices(character), channels(character)
    bpy.ops.neural_ik.live_start()
    solved_anew()
    assert apart(matrices(character), before) <= FIRST_PRESS
    assert missed(character, "RightHand") <= max(1e-5 * scale, 1e-6)
    target("RightHand").location.z -= 0.1 * scale
    update()
    assert missed(character, "RightHand") <= HIT * scale
    assert live().solution.reached.all()
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(character) - kept).max() <= BACK
