# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel Motion: frames between keys and from the playhead on, as a ghost, then as keys; what cannot be filled is told so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_extract import snapshot
from .test_ghost import curves, heads, keep_keys, keys_of, require_kept

KEYED = (1, 16, 37)


@pytest.fixture
def posed(demo: Any) -> Any:
    """The demo character, whose walk has three keyed poses left, and four other actions to draw on."""
    import bpy

    keep_keys(demo, KEYED)
    bpy.context.scene.frame_set(5)
    own = demo.neural_ik_motion
    own.shipped = False
    for action in bpy.data.actions:
        action.neural_ik.use = action.name in ("walk", "run", "kick", "jump", "0walk_forward")
    yield demo
    wing("blender.host.ghost").drop()


def fill_and_accept() -> Any:
    """Press Fill, then Accept; returns the motion of the ghost."""
    import bpy

    assert bpy.ops.neural_ik.motion_fill() == {"FINISHED"}
    motion = wing("blender.host.ghost").current("MOTION").motion
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    return motion


def test_fill_makes_the_frames_around_the_playhead_and_keeps_every_key_byte_for_byte(posed: Any) -> None:
    import bpy

    before, scene = keys_of(posed), snapshot(posed)
    assert bpy.ops.neural_ik.motion_fill() == {"FINISHED"}
    ghost = wing("blender.host.ghost").current("MOTION")
    motion = ghost.motion
    assert motion.frames[motion.generated].tolist() == list(range(2, 16))
    assert "slide" in ghost.figures[0]
    assert ghost.figures[-1].startswith("From ")
    assert "From walk" not in ghost.figures[-1]  # which is poses by now, and no motion
    assert snapshot(posed) == scene
    require_kept(posed, before, tuple(range(100)))
    straight = heads(posed, motion, range(1, 17))
    bpy.context.scene.frame_set(5)
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    require_kept(posed, before, KEYED)
    now = heads(posed, motion, range(1, 17))
    np.testing.assert_allclose(now[[0, -1]], straight[[0, -1]], atol=1e-5)
    assert np.abs(now[1:-1] - straight[1:-1]).max() > 0.01  # it is no interpolation
    jumps = np.linalg.norm(np.diff(now, axis=0), axis=-1).max(axis=1)
    assert jumps.max() < 0.2  # and arrives


def test_fill_between_selected_keys_is_repeatable_and_varies_with_its_number(posed: Any) -> None:
    own = posed.neural_ik_motion
    own.between = "SELECTED"
    for curve in curves(posed):
        for point in curve.keyframe_points:
            point.select_control_point = True
    before = keys_of(posed)
    made = [fill_and_accept() for _ in range(2)]
    assert sorted(set(range(1, 38)) - set(made[0].frames[made[0].generated].tolist())) == list(KEYED)
    require_kept(posed, before, KEYED)
    np.testing.assert_allclose(made[0].root, made[1].root, atol=1e-6)
    own.variation = 1
    assert np.abs(fill_and_accept().root - made[0].root).max() > 1e-3


def test_continue_goes_on_from_the_playhead_towards_an_object(posed: Any) -> None:
    import bpy

    keep_keys(posed, (1, 16))
    bpy.context.scene.frame_set(16)
    own = posed.neural_ik_motion
    own.frames = 40
    before = keys_of(posed)
    assert bpy.ops.neural_ik.motion_continue() == {"FINISHED"}
    motion = wing("blender.host.ghost").current("MOTION").motion
    assert motion.frames[motion.generated].tolist() == list(range(17, 57))
    steps = np.linalg.norm(np.diff(motion.heads, axis=0), axis=-1).max(axis=1)
    assert steps[15] < 0.2  # it goes on from the pose at the playhead
    target = bpy.data.objects.new("There", None)
    bpy.context.collection.objects.link(target)
    target.location = (2.0, -1.0, 0.0)
    bpy.context.view_layer.update()
    own.target = target
    assert bpy.ops.neural_ik.motion_continue() == {"FINISHED"}
    ghost = wing("blender.host.ghost").current("MOTION")
    assert any("of There, on frame" in line for line in ghost.figures)
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    require_kept(posed, before, (1, 16))
    assert max(keys["co"][:, 0].max() for keys in keys_of(posed).values()) == 56


def test_on_a_platform_the_same_poses_are_filled_with_the_same_motion_up_there(posed: Any) -> None:
    import bpy

    made = []
    for _ in range(2):
        assert bpy.ops.neural_ik.motion_fill() == {"FINISHED"}
        made.append(wing("blender.host.ghost").current("MOTION"))
        way = np.array(posed.data.bones["Hips"].matrix_local)[:3, :3].T @ [0, 0, 1.0]
        for curve in curves(posed):
            if curve.data_path.endswith("location"):
                for point in curve.keyframe_points:
                    point.co[1] += way[curve.array_index]
                curve.update()
    off = made[1].motion.heads - made[0].motion.heads
    np.testing.assert_allclose(off, np.broadcast_to([0, 0, 1.0], off.shape), atol=0.03)
    (height,) = (float(line.split()[2]) for line in made[1].figures if line.startswith("Floor at"))
    assert height == pytest.approx(1.0, abs=0.03)


def test_what_is_known_beside_the_keys_is_what_somebody_captured(extension: Any) -> None:
    key_frames = wing("blender.motion.key_frames")
    keys = np.array([1.0, 2, 3, 7, 20, 40, 41, 42])
    assert np.flatnonzero(key_frames.dense(keys, np.arange(50))).tolist() == [1, 2, 3, 4, 5, 6, 7, 20, 40, 41, 42]
    assert not key_frames.dense(np.zeros(0), np.arange(5)).any()


def test_what_cannot_be_filled_is_told_so_and_nothing_changes(posed: Any) -> None:
    import bpy

    scene = snapshot(posed)

    def says(words: str, keys: dict[tuple[str, int], Any]) -> None:
        with pytest.raises(RuntimeError, match=words) as caught:
            bpy.ops.neural_ik.motion_fill()
        assert "Traceback" not in str(caught.value)
        assert wing("blender.host.ghost").current() is None
        require_kept(posed, keys, tuple(range(5000)))

    own = posed.neural_ik_motion
    own.between = "SELECTED"
    says("no keys are selected", keys_of(posed))
    own.between = "AROUND"
    assert snapshot(posed) == scene
    for action in bpy.data.actions:
        action.neural_ik.use = False
    says("no action to take motion from", keys_of(posed))
    bpy.context.scene.frame_set(1)
    for frame, words in ((2000, "1999 frames apart.*takes 300"), (2, "no frame between"), (16.5, "between two frames")):
        for curve in curves(posed):
            curve.keyframe_points[1].co[0] = frame
            curve.keyframe_points[2].co[0] = frame + 3000
        says(words, keys_of(posed))
    keep_keys(posed, (1,))
    says("needs two keyed poses, Neural IK Demo has one", keys_of(posed))


def test_a_creature_and_a_character_under_live_ik_are_refused_in_words(posed: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    assert not bpy.ops.neural_ik.motion_fill.poll()
    assert "Live IK" in bpy.types.NEURAL_IK_OT_motion_fill.why_not(bpy.context)
    bpy.ops.neural_ik.live_cancel()
    ends = posed.neural_ik_ends
    ends.body, ends.effectors, ends.feet = "Hips", "LeftHand\nRightHand\nHead", ""
    with pytest.raises(RuntimeError, match="expected a character with hips, legs and feet"):
        bpy.ops.neural_ik.motion_fill()


def test_actions_are_sampled_once_until_their_keys_change(posed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import bpy

    own_clips = wing("blender.motion.own_clips")
    sampled: list[list[str]] = []
    real = own_clips.extract.extract

    def counted(scene: Any, ob: Any, chosen: Any) -> Any:
        sampled.append([action.name for action in chosen])
        return real(scene, ob, chosen)

    monkeypatch.setattr(own_clips.extract, "extract", counted)
    own_clips.forget()
    for _ in range(2):
        assert bpy.ops.neural_ik.motion_fill() == {"FINISHED"}
    assert [len(names) for names in sampled] == [5]
    bpy.data.actions["kick"].use_frame_range = True
    assert bpy.ops.neural_ik.motion_fill() == {"FINISHED"}
    assert sampled[1:] == [["kick"]]


def test_check_says_how_far_all_that_can_be_trusted(posed: Any) -> None:
    import bpy

    assert bpy.ops.neural_ik.motion_check() == {"FINISHED"}
    found = wing("blender.motion.making").checked(posed)
    assert found.counts[0] == 4  # the walk is poses by now
    assert found.words[0].startswith("Fill: ")
    assert found.words[0] in bpy.data.texts["Neural IK Motion Check"].as_string()
    for action in bpy.data.actions:
        action.neural_ik.use = action.name == "run"
    with pytest.raises(RuntimeError, match="two or more actions"):
        bpy.ops.neural_ik.motion_check()


def test_a_hand_that_markers_hold_is_at_its_object_and_actions_of_weight_0_are_not_taken_after(posed: Any) -> None:
    import bpy

    scene, own = bpy.context.scene, posed.neural_ik_motion
    prop = bpy.data.objects.new("cup", None)
    scene.collection.objects.link(prop)
    hand = posed.pose.bones["LeftHand"]
    scene.frame_set(9)
    bpy.context.view_layer.update()
    prop.location = (posed.matrix_world @ hand.matrix).translation
    prop.location.z += 0.06
    own.left_hand = prop
    markers, action = wing("blender.host.contact_markers"), posed.animation_data.action
    markers.add(action, "Left Hand down", 8)
    markers.add(action, "Left Hand up", 11)
    bpy.data.actions["run"].neural_ik.weight = 0.0
    scene.frame_set(5)
    before = keys_of(posed)
    assert bpy.ops.neural_ik.motion_fill() == {"FINISHED"}
    said = wing("blender.host.ghost").current("MOTION").figures
    assert not any("run" in line for line in said if line.startswith("From "))
    assert not any("does not reach" in line for line in said)
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    require_kept(posed, before, KEYED)
    for frame in (8, 9, 10):
        scene.frame_set(frame)
        bpy.context.view_layer.update()
        assert ((posed.matrix_world @ hand.matrix).translation - prop.matrix_world.translation).length < 2e-4
    for name in ("walk", "kick", "jump", "0walk_forward"):
        bpy.data.actions[name].neural_ik.weight = 0.0
    scene.frame_set(20)
    with pytest.raises(RuntimeError, match="nothing to take motion from"):
        bpy.ops.neural_ik.motion_fill()


def test_a_hand_is_not_held_at_what_moves_with_it_or_is_nowhere(posed: Any) -> None:
    import bpy

    prop = bpy.data.objects.new("ring", None)
    bpy.context.scene.collection.objects.link(prop)
    posed.neural_ik_motion.left_hand = prop
    prop.parent, prop.parent_type, prop.parent_bone = posed, "BONE", "LeftHand"
    before = keys_of(posed)
    with pytest.raises(RuntimeError, match=r"ring is parented to .* moves by itself"):
        bpy.ops.neural_ik.motion_fill()
    prop.parent = None
    prop.location = (float("nan"), 0, 0)
    bpy.context.view_layer.update()
    with pytest.raises(RuntimeError, match="ring is at a place that is no number"):
        bpy.ops.neural_ik.motion_fill()
    require_kept(posed, before, tuple(range(100)))


def test_continue_without_an_action_makes_one_and_a_stray_key_far_away_does_not_hold_fill_up(posed: Any) -> None:
    import bpy

    for curve in curves(posed):
        curve.keyframe_points.insert(1_000_000, curve.evaluate(37))
    assert bpy.ops.neural_ik.motion_fill() == {"FINISHED"}
    wing("blender.host.ghost").drop()
    own = posed.neural_ik_motion
    own.frames = 5
    wing("blender.host.actions").assign(posed.animation_data, None, None)
    assert bpy.ops.neural_ik.motion_continue() == {"FINISHED"}
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    assert posed.animation_data.action is not None
