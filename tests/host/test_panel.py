# SPDX-License-Identifier: GPL-3.0-or-later
"""The tab in the order of the work: one press learns, the card speaks, handles are told apart."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from .conftest import kept, wing

ORIGINAL = {
    "load_data": "Load Saved Data",
    "load_weights": "Load Weights",
    "run_tests": "Run Tests",
    "extract_data": "Extract Data",
    "save_data": "Save to Disk",
    "show_path": "Show Full Path",
    "reset_weights": "Reset Weights",
}


def test_the_panels_stand_in_the_order_of_the_work_and_live_learning_is_not_called_live_ik(
    extension: ModuleType,
) -> None:
    import bpy

    found = [cls for cls in bpy.types.Panel.__subclasses__() if getattr(cls, "bl_category", "") == "Neural IK"]
    top = sorted((cls for cls in found if not getattr(cls, "bl_parent_id", "")), key=lambda cls: cls.bl_order)
    assert [cls.bl_label for cls in top] == [
        "Character",
        "Learn",
        "Pose",
        "More",
        "Motion",
        "Fix Feet",
        "Physics",
        "Gait",
        "Live Learning",
    ]


def test_the_seven_original_buttons_keep_their_names(extension: ModuleType) -> None:
    import bpy

    for name, label in ORIGINAL.items():
        assert getattr(bpy.ops.neural_ik, name).get_rna_type().name == label


def test_one_press_extracts_saves_trains_and_judges(demo: Any) -> None:
    import bpy

    memory = wing("blender.host.memory").memory
    for action in list(bpy.data.actions):
        action.neural_ik.use = action.name in ("walk", "kick")
    assert bpy.ops.neural_ik.learn(epochs=2) == {"FINISHED"}
    assert kept().poses.exists()
    assert not memory.unsaved
    assert set(memory.poses.clip_names) == {"walk", "kick"}
    assert memory.network_file == kept().weights("ik")
    assert wing("ik.opinion").of(memory.card).level in ("good", "usable", "needs more motion")
    assert len(memory.results) == 6
    assert "the weights in memory" not in wing("blender.learn.operators").consequence(bpy.context)
    assert "ik.npy of Neural IK Demo" in wing("blender.learn.operators").consequence(bpy.context)


def test_without_actions_learn_says_what_to_do(extension: ModuleType, empty: ModuleType) -> None:
    import bpy

    empty.ops.neural_ik.add_demo_character(motion=False)
    assert not bpy.ops.neural_ik.learn.poll()
    why = bpy.types.NEURAL_IK_OT_learn.why_not(bpy.context)
    assert "no action moves Neural IK Demo" in why
    assert "Live IK works at once" in why


def test_poses_imported_into_memory_are_learned_in_place_of_actions(demo: Any) -> None:
    import bpy

    memory = wing("blender.host.memory").memory
    for action in list(bpy.data.actions):
        action.neural_ik.use = action.name == "walk"
    bpy.ops.neural_ik.extract_data()
    assert not wing("blender.learn.training")._imported(bpy.context), "those come from the actions"
    memory.poses_from = "imported from 1 file"
    assert wing("blender.learn.training")._imported(bpy.context)


def test_how_long_it_takes_is_said_before(extension: ModuleType) -> None:
    training = wing("blender.learn.training")
    assert training.seconds(1810, 300) > 10 * training.seconds(1810, 20)
    assert training.seconds(50_000, 0) > 5 * training.seconds(1810, 0)
    words = [training.in_words(s) for s in (1.0, 42.0, 59.0, 120.0, 7200.0)]
    assert words == ["5 s", "40 s", "1 min", "2 min", "2 h"]


def test_a_second_demo_character_stands_beside_the_first(demo: Any) -> None:
    import bpy

    bpy.ops.neural_ik.add_demo_character(motion=False)
    assert abs(bpy.context.active_object.location.x - demo.location.x) >= 1.0


def test_bones_selected_in_pose_mode_choose_the_targets(demo: Any) -> None:
    import bpy

    bpy.ops.object.mode_set(mode="POSE")
    for pb in demo.pose.bones:
        (pb if hasattr(pb, "select") else pb.bone).select = pb.name in ("LeftForeArm", "RightShin")
    demo.data.bones.active = demo.data.bones["LeftForeArm"]
    bpy.ops.neural_ik.live_start()
    live_ik = wing("blender.posing.live_ik")
    found = live_ik.target_objects(live_ik.collections()[0])
    assert {ob for ob in found.values() if ob.select_get()} == {
        found["EFFECTOR", "LeftHand"],
        found["EFFECTOR", "RightFoot"],
    }
    assert bpy.context.active_object == found["EFFECTOR", "LeftHand"]
    assert wing("blender.host.rig").find(bpy.context) == demo, "a target stands for its character"
    bpy.ops.neural_ik.live_cancel()
    assert demo.mode == "POSE"


def test_handles_have_the_colour_of_their_side_and_those_of_others_are_dim(demo: Any) -> None:
    import bpy

    overlay = wing("blender.posing.overlay")
    bpy.ops.neural_ik.live_start(all_on=True)
    assert overlay.names(bpy.context.view_layer) == []
    points, colors = overlay.handles(bpy.context)
    assert len(points) == len(colors)
    assert {c[:3] for c in colors} == {overlay.LEFT, overlay.RIGHT, overlay.MIDDLE}
    assert max(c[3] for c in colors) == 1.0
    bpy.context.view_layer.objects.active = None
    bpy.ops.neural_ik.add_demo_character(motion=False)
    other = bpy.context.active_object
    bpy.ops.neural_ik.live_start(all_on=True)
    _, colors = overlay.handles(bpy.context)
    assert min(c[3] for c in colors) < 0.31, "the other character is dim"
    assert max(c[3] for c in colors) == 1.0
    assert {name for name, _ in overlay.names(bpy.context.view_layer)} == {demo.name, other.name}
    for kind in ("CUBE", "SPHERE", "CIRCLE", "PLAIN_AXES"):
        ends = overlay.shape(kind)
        assert ends.shape[1] == 3
        assert len(ends) % 2 == 0
        assert np.abs(ends).max() == pytest.approx(1.0)
