# SPDX-License-Identifier: GPL-3.0-or-later
"""Natural posing under Live IK: the hips follow, orientations are free until they are asked for, and poses come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_live_ik import apart, began, channels, character, live, matrices, missed, settings, target, update, weights

__all__ = ["began", "character", "weights"]  # fixtures

HIT = 1e-3


def drag(role: str, to: Any, frames: int = 10) -> Any:
    """Move a target to a place [m, world] within some updates."""
    goal = target(role)
    begin = np.array(goal.location)
    for share in np.linspace(0, 1, frames + 1)[1:]:
        goal.location = begin + share * (np.array(to) - begin)
        update()
    return goal


def head(ob: Any, bone: str) -> np.ndarray:
    return np.array(ob.matrix_world @ ob.pose.bones[bone].head)


def test_hips_go_down_when_hands_go_to_the_floor_and_feet_stay(began: Any) -> None:
    hips, feet = head(began, "Hips"), {foot: head(began, foot) for foot in ("LeftFoot", "RightFoot")}
    for hand in ("LeftHand", "RightHand"):
        place = head(began, hand)
        drag(hand, (place[0], place[1], 0.1))
    assert head(began, "Hips")[2] < hips[2] - 0.1
    for foot, place in feet.items():
        assert np.linalg.norm(head(began, foot) - place) < HIT
    assert missed(began, "LeftHand") < HIT
    assert missed(began, "RightHand") < HIT


def test_feet_stay_when_a_hand_is_out_of_reach(began: Any) -> None:
    feet = {foot: head(began, foot) for foot in ("LeftFoot", "RightFoot")}
    goal = drag("RightHand", head(began, "RightHand") + [0, -3, 1.5])
    for foot, place in feet.items():
        assert np.linalg.norm(head(began, foot) - place) < HIT
    assert goal.color[0] > 0.5, "the hand is missed, and that is shown"
    assert np.isfinite(matrices(began)).all()


def test_a_hand_turns_with_its_target_only_once_that_was_turned(began: Any) -> None:
    from mathutils import Quaternion

    goal = drag("RightHand", head(began, "RightHand") + [0, -0.2, 0.3])

    def off() -> float:
        bone = (began.matrix_world @ began.pose.bones["RightHand"].matrix).to_quaternion()
        return float(np.degrees(bone.rotation_difference(goal.matrix_world.to_quaternion()).angle))

    assert not goal.neural_ik_target.turned
    assert off() < 0.1, "the hand turns as the pose needs, and the target with it"
    before = matrices(began)
    own = goal.rotation_quaternion.copy()
    goal.rotation_quaternion = Quaternion((0, 0, 1), 0.5) @ goal.rotation_quaternion
    update()
    update()
    assert goal.neural_ik_target.turned
    assert off() < 0.5
    goal.rotation_quaternion = own
    update()
    assert not goal.neural_ik_target.turned, "as when the rotation is cancelled"
    assert apart(matrices(began), before) < 1e-3
    goal.rotation_quaternion = Quaternion((0, 0, 1), 0.5) @ goal.rotation_quaternion
    update()
    goal.location.z += 0.05
    update()
    assert off() < 0.5, "and goes on turning with it"
    goal.neural_ik_target.use = False
    update()
    assert not goal.neural_ik_target.turned, "a target that is off follows"


def test_the_same_targets_give_the_same_pose_whatever_was_shown_between(began: Any) -> None:
    import bpy

    drag("RightHand", head(began, "RightHand") + [0.1, -0.3, 0.4])
    shown = matrices(began)
    bpy.context.scene.frame_set(35)
    there = matrices(began)
    assert apart(there, shown) > 1e-2
    for frame in (5, 35):
        bpy.context.scene.frame_set(frame)
    assert apart(matrices(began), there) < 1e-5
    bpy.context.scene.frame_set(20)
    assert apart(matrices(began), shown) < 1e-5


def test_a_drag_that_was_slow_is_as_it_was_after_reopening(began: Any, tmp_path: Path) -> None:
    import bpy

    drag("RightHand", head(began, "RightHand") + [0.2, -0.3, 0.6], frames=30)
    shown, name = matrices(began), began.name
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "live.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "live.blend"))
    again = bpy.data.objects[name]
    update()
    assert apart(matrices(again), shown) < 1e-4
    goal = target("RightHand")
    goal.location.z += 0.001
    update()
    assert apart(matrices(again), shown) < 0.02, "and it goes on from there"


def test_learned_posing_is_that_of_the_weights(began: Any) -> None:
    drag("RightHand", head(began, "RightHand") + [0, -0.2, 0.4])
    natural = matrices(began)
    assert type(live().session).__name__ == "DragSession"
    settings().posing = "LEARNED"
    update()
    assert type(live().session).__name__ == "Session"
    assert apart(matrices(began), natural) > 1e-3
    assert missed(began, "RightHand") < HIT
    settings().posing = "NATURAL"
    update()
    assert missed(began, "RightHand") < HIT


def test_cancelling_after_everything_restores_every_bone(character: Any) -> None:
    import bpy

    before = channels(character)
    bpy.ops.neural_ik.live_start()
    drag("RightHand", head(character, "RightHand") + [0.3, -0.4, -0.5])
    drag("Head", head(character, "Head") + [0, -0.1, -0.3])
    settings().strength = 0.5
    update()
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(character) - before).max() <= 1e-6


def test_the_ring_holds_the_hips_and_turns_them(began: Any) -> None:
    ring = target("Hips", "ROOT")
    feet = {foot: head(began, foot) for foot in ("LeftFoot", "RightFoot")}
    ring.location.z -= 0.15
    update()
    update()
    assert np.linalg.norm(head(began, "Hips") - np.array(ring.location)) < HIT
    for foot, place in feet.items():
        assert np.linalg.norm(head(began, foot) - place) < HIT


@pytest.mark.parametrize("button", ["live_reset", "live_flip"])
def test_reset_and_flip_leave_targets_on_or_off_as_they_were(began: Any, button: str) -> None:
    import bpy

    def on() -> list[str]:
        found = wing("blender.posing.live_ik").target_objects(wing("blender.posing.live_ik").collections()[0])
        return sorted(role for (_, role), goal in found.items() if goal.neural_ik_target.use)

    assert on() == ["LeftFoot", "RightFoot"]
    drag("RightHand", head(began, "RightHand") + [0.1, -0.3, 0.2])
    assert on() == ["LeftFoot", "RightFoot", "RightHand"]
    assert getattr(bpy.ops.neural_ik, button)() == {"FINISHED"}
    for _ in range(3):
        update()
    assert on() == ["LeftFoot", "RightFoot", "RightHand"]
    before = head(began, "Hips")
    drag("Head", head(began, "Head") + [0, -0.05, -0.25])
    assert head(began, "Hips")[2] < before[2] - 0.05, "later drags still move the hips"


def heights(ob: Any, bone: str, frames: range) -> np.ndarray:
    import bpy

    out = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        out.append(head(ob, bone)[2])
    return np.array(out)


@pytest.mark.parametrize("posing", ["NATURAL", "LEARNED"])
def test_key_keeps_the_correction_on_the_other_frames(began: Any, posing: str) -> None:
    import bpy

    settings().posing = posing
    update()
    frames = range(16, 25)
    plain = heights(began, "RightHand", frames)
    bpy.context.scene.frame_set(20)
    drag("RightHand", head(began, "RightHand") + [0, 0, 0.15], frames=3)
    lifted = heights(began, "RightHand", frames)
    np.testing.assert_allclose(lifted - plain, 0.15, atol=2e-3)
    bpy.context.scene.frame_set(20)
    assert bpy.ops.neural_ik.live_key() == {"FINISHED"}
    np.testing.assert_allclose(heights(began, "RightHand", frames), lifted, atol=2e-3)
    bpy.context.scene.frame_set(20)
    assert bpy.ops.neural_ik.live_key() == {"FINISHED"}, "keyed again, nothing is lost"
    bpy.context.scene.frame_set(22)
    assert bpy.ops.neural_ik.live_key() == {"FINISHED"}, "and on another frame"
    np.testing.assert_allclose(heights(began, "RightHand", frames), lifted, atol=2e-3)
    bpy.context.scene.frame_set(20)
    drag("RightHand", head(began, "RightHand") + [0, 0, 0.05], frames=2)
    more = heights(began, "RightHand", frames)
    np.testing.assert_allclose((more - lifted)[[0, 3, 5, 8]], 0.05, atol=2e-3)
    assert bpy.ops.neural_ik.live_bake(first=16, last=24, into="NEW") == {"FINISHED"}
    baked = heights(began, "RightHand", frames)
    np.testing.assert_allclose(baked[[0, 3, 5, 8]], more[[0, 3, 5, 8]], atol=2e-3)
    assert np.abs(np.diff(baked - plain)).max() < 0.06, "no frame pops"


def test_undo_of_key_gives_the_correction_back_to_its_frame(began: Any) -> None:
    import bpy

    bpy.ops.ed.undo_push(message="began")
    drag("RightHand", head(began, "RightHand") + [0, 0, 0.15], frames=3)
    bpy.ops.ed.undo_push(message="dragged")
    lifted, name = head(began, "RightHand")[2], began.name
    assert bpy.ops.neural_ik.live_key() == {"FINISHED"}
    bpy.ops.ed.undo_push(message="keyed")
    bpy.ops.ed.undo()
    again = bpy.data.objects[name]
    bpy.context.scene.frame_set(24)
    bpy.context.scene.frame_set(20)
    assert head(again, "RightHand")[2] == pytest.approx(lifted, abs=2e-3)


def test_balance_and_the_floor_can_be_switched_off(began: Any) -> None:
    below = head(began, "RightHand")
    below = np.array([below[0], below[1] - 0.3, -0.05])
    drag("RightHand", below, frames=20)
    lowest = min(head(began, bone)[2] for bone in ("RightForeArm", "LeftForeArm", "LeftShin", "RightShin"))
    shown = matrices(began)
    settings().solid = False
    update()
    settings().balance = False
    update()
    assert apart(matrices(began), shown) > 1e-3
    settings().solid = settings().balance = True
    update()
    assert apart(matrices(began), shown) < 1e-5, "and on again, the same pose comes back"
    assert lowest > -0.02


def test_a_cancelled_drag_gives_the_pose_back_also_on_another_frame(began: Any) -> None:
    import bpy

    drag("RightHand", head(began, "RightHand") + [0.1, -0.4, 0.5], frames=20)
    bpy.context.scene.frame_set(30)
    shown, goal = matrices(began), target("LeftHand")
    begin, own = goal.location.copy(), goal.rotation_quaternion.copy()
    drag("LeftHand", head(began, "LeftHand") + [0.1, -0.3, 0.2], frames=600)
    goal.location, goal.rotation_quaternion = begin, own  # what Esc restores
    update()
    assert apart(matrices(began), shown) < 1e-4


def test_loading_a_file_on_another_frame_changes_no_frame(began: Any, tmp_path: Path) -> None:
    import bpy

    drag("RightHand", head(began, "RightHand") + [0.0, -0.3, -0.4], frames=20)
    bpy.context.scene.frame_set(30)
    shown, name = matrices(began), began.name
    bpy.context.scene.frame_set(35)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "live.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "live.blend"))
    bpy.context.scene.frame_set(30)
    assert apart(matrices(bpy.data.objects[name]), shown) < 1e-3


def test_standing_feet_hold_when_the_ring_is_out_of_reach(began: Any) -> None:
    feet = {foot: head(began, foot) for foot in ("LeftFoot", "RightFoot")}
    ring = target("Hips", "ROOT")
    ring.neural_ik_target.use = True
    for _ in range(12):
        ring.location.z += 0.03
        update()
        for foot, place in feet.items():
            assert np.linalg.norm(head(began, foot) - place) < HIT


@pytest.mark.parametrize("action", ["getup_faceup", "getup_facedown", "crawl"])
def test_a_body_that_lies_or_crawls_is_not_thrown_about(character: Any, action: str) -> None:
    import bpy

    found = [a for a in bpy.data.actions if action in a.name]
    assert found, [a.name for a in bpy.data.actions]
    character.animation_data.action = found[0]
    bpy.context.scene.frame_set(1)
    bpy.ops.neural_ik.live_start()
    goal, before = target("Head"), matrices(character)
    for _ in range(25):
        goal.location.z += 0.01
        update()
        now = matrices(character)
        assert apart(now, before) < np.radians(20)
        before = now
    assert missed(character, "Head") < 0.05


def test_lifting_a_foot_pops_no_other_bone(began: Any) -> None:
    goal, before = target("LeftFoot"), matrices(began)
    for _ in range(30):
        goal.location.y -= 0.005
        goal.location.z += 0.01
        update()
        now = matrices(began)
        assert apart(now, before) < np.radians(20)
        before = now


def test_a_hint_that_is_switched_on_turns_nothing_far(began: Any) -> None:
    before = matrices(began)
    target("LeftFoot", "HINT").neural_ik_target.use = True
    update()
    assert apart(matrices(began), before) < np.radians(10)


def test_a_broken_pose_is_named_and_a_usual_one_is_not(began: Any) -> None:
    verdict = wing("blender.posing.state").verdict
    assert verdict(live()) == ""
    drag("RightHand", head(began, "RightHand") + [0.1, -0.2, 0.2])
    assert verdict(live()) == ""
    settings().posing = "LEARNED"
    drag("RightHand", head(began, "LeftHand") + [0.3, 0.5, -0.3])
    drag("LeftHand", head(began, "Head") + [-0.4, 0.4, 0.2])
    assert verdict(live()).startswith("Looks ")


def test_a_kilometre_from_the_origin_the_pose_is_nearly_the_same(began: Any) -> None:
    import bpy

    shown = []
    for far in (0.0, 1000.0):
        bpy.ops.neural_ik.live_cancel()
        began.location = (far, 0.7 * far, 0)
        update()
        bpy.ops.neural_ik.live_start()
        drag("RightHand", head(began, "RightHand") + [0.05, -0.4, 0.2], frames=20)
        shown.append(matrices(began))
    assert apart(*shown) < np.radians(0.1)


def test_a_target_that_is_keyed_meanwhile_plays_its_keys_at_once(began: Any) -> None:
    import bpy

    goal = drag("RightHand", head(began, "RightHand") + [0, -0.2, 0.2])
    for frame, height in ((20, 1.2), (40, 1.6)):
        goal.location.z = height
        goal.keyframe_insert("location", frame=frame)
    for frame, height in ((40, 1.6), (20, 1.2)):
        bpy.context.scene.frame_set(frame)
        assert goal.matrix_world.translation.z == pytest.approx(height, abs=1e-4)
        assert missed(began, "RightHand") < HIT
