# SPDX-License-Identifier: GPL-3.0-or-later
"""Keyframes written in bulk: values, interpolation, groups and slots, and keys outside the range."""

from __future__ import annotations

from typing import Any

import numpy as np

from .conftest import wing


def keys(curve: Any) -> list[tuple[float, float, str]]:
    return [(*point.co, point.interpolation) for point in curve.keyframe_points]


def written(ob: Any, frames: list[int], channels: dict[tuple[str, str], np.ndarray]) -> tuple[Any, Any]:
    actions = wing("blender.host.actions")
    action, slot = actions.new("test", ob.name)
    wing("blender.host.keyframes").write_bones(action, slot, np.array(frames), channels)
    return action, slot


def test_channels_are_keyed_on_every_frame_in_a_group_for_each_bone(demo: Any) -> None:
    actions = wing("blender.host.actions")
    values = np.arange(8.0).reshape(2, 4)
    channels = {
        ("Head", "rotation_quaternion"): values,
        ("Hips", "location"): np.array([[1.0, 2.0, 3.0]]),
        ("Hips", '["IK_FK"]'): np.ones((2, 1)),
    }
    action, slot = written(demo, [3, 7], channels)
    found = {(c.data_path, c.array_index): c for c in actions.curves(action, slot)}
    assert len(found) == 4 + 3 + 1
    for component in range(4):
        curve = found['pose.bones["Head"].rotation_quaternion', component]
        assert keys(curve) == [(3, component, "LINEAR"), (7, component + 4, "LINEAR")]
        assert curve.group.name == "Head"
    assert keys(found['pose.bones["Hips"].location', 2]) == [(3, 3, "LINEAR")], "a constant channel has one key"
    assert keys(found['pose.bones["Hips"]["IK_FK"]', 0]) == [(3, 1, "LINEAR"), (7, 1, "LINEAR")]
    assert {c.group.name for c in found.values()} == {"Head", "Hips"}


def test_what_was_written_plays_on_the_object_with_its_slot(demo: Any) -> None:
    import bpy

    actions = wing("blender.host.actions")
    name = 'odd "name" \\ 1'
    demo.data.bones["Hips"].name = name
    actions.assign(demo.animation_data, *written(demo, [1, 11], {(name, "location"): np.array([[0.0] * 3, [1.0] * 3])}))
    bpy.context.scene.frame_set(6)
    np.testing.assert_allclose(demo.pose.bones[name].location, [0.5] * 3, atol=1e-6)


def test_keys_within_the_range_are_replaced_and_others_keep_value_and_interpolation(demo: Any) -> None:
    actions, keyframes = wing("blender.host.actions"), wing("blender.host.keyframes")
    action, slot = actions.new("test", demo.name)
    curve = actions.new_curve(action, slot, 'pose.bones["Head"].location', 0, "Head")
    for frame in (1, 5, 6, 10):
        curve.keyframe_points.insert(frame, 10.0 * frame).interpolation = "CONSTANT"
    other = actions.new_curve(action, slot, 'pose.bones["Hips"].location', 0, "Hips")
    other.keyframe_points.insert(5, 1.0)
    keyframes.write_bones(action, slot, np.array([4, 6]), {("Head", "location"): np.array([[4.0], [6.0]])})
    assert keys(curve) == [(1, 10, "CONSTANT"), (4, 4, "LINEAR"), (6, 6, "LINEAR"), (10, 100, "CONSTANT")]
    assert len(list(actions.curves(action, slot))) == 2
    assert [tuple(point.co) for point in other.keyframe_points] == [(5, 1)], "other channels stay"
