# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK in Blender: targets start where the body is, the body reaches them, and everything can be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPO, run_cli

from .conftest import EXTENSION, wing

FIRST_PRESS = 1e-4
"""[rad] the most that any bone may turn when Live IK starts."""

BACK = 1e-6
"""Tolerance of restored channels."""

HIT = 1e-3
"""[m] tolerance of a target that can be reached."""


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped weights; if there are none yet, weights trained for a few epochs."""
    shipped = REPO / "training_data" / "weights" / "best.npy"
    if shipped.exists():
        return shipped
    path = tmp_path_factory.mktemp("weights") / "best.npy"
    done = run_cli("standalone_trainer.py", "--epochs", "5", "--quiet", "--weights", path)
    assert done.returncode in (0, 1), done.stderr
    return path


@pytest.fixture
def character(demo: Any, weights: Path) -> Any:
    """The demo character in the middle of a step, with weights in memory."""
    import bpy

    bpy.ops.neural_ik.load_weights(filepath=str(weights))
    bpy.context.scene.frame_set(20)
    return demo


@pytest.fixture
def began(character: Any) -> Any:
    """The demo character under Live IK."""
    import bpy

    assert bpy.ops.neural_ik.live_start() == {"FINISHED"}
    return character


def live() -> Any:
    engine = wing("blender.posing.live_ik")
    (collection,) = engine.collections()
    found = engine.live_of(collection)
    assert found is not None
    return found


def target(role: str, kind: str = "EFFECTOR") -> Any:
    engine = wing("blender.posing.live_ik")
    return engine.target_objects(engine.collections()[0])[kind, role]


def settings() -> Any:
    return wing("blender.posing.live_ik").collections()[0].neural_ik_live


def update() -> None:
    import bpy

    bpy.context.view_layer.update()


def channels(ob: Any) -> np.ndarray:
    values = wing("blender.host.runtime").snapshot(ob)
    return np.concatenate([values[name] for name in sorted(values)])


def matrices(ob: Any) -> np.ndarray:
    return np.array([pb.matrix for pb in ob.pose.bones])


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """[rad] the largest rotation between two sets of pose matrices; exact for small ones."""
    turn = np.einsum("nab,nac->nbc", a[:, :3, :3], b[:, :3, :3])
    return float(np.linalg.norm(turn - turn.transpose(0, 2, 1), axis=(1, 2)).max() / np.sqrt(8))


def missed(ob: Any, role: str, bone: str | None = None, kind: str = "EFFECTOR") -> float:
    """[m] distance from the bone's head, as Blender shows it, to its target."""
    head = ob.matrix_world @ ob.pose.bones[bone or role].head
    return float((head - target(role, kind).matrix_world.translation).length)


def census() -> dict[str, int]:
    """The number of data-blocks of each type and of handlers in each list."""
    import bpy

    found = {name: len(getattr(bpy.data, name)) for name in ("objects", "collections", "actions", "meshes", "texts")}
    for name in dir(bpy.app.handlers):
        handlers = getattr(bpy.app.handlers, name)
        if isinstance(handlers, list):
            found[name] = len(handlers)
    return found


def test_starting_moves_no_bone(character: Any) -> None:
    import bpy

    before = matrices(character)
    bpy.ops.neural_ik.live_start()
    assert apart(matrices(character), before) == 0
    live().dirty = True
    settings().strength = 1.0
    update()
    assert live().solves == 1
    assert apart(matrices(character), before) <= FIRST_PRESS
    for role in ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head"):
        assert missed(character, role) <= 1e-5


def test_a_dragged_hand_reaches_its_target_and_the_feet_stay(began: Any) -> None:
    hand = target("RightHand")
    assert not hand.neural_ik_target.use
    feet = [np.array(began.pose.bones[f].head) for f in ("LeftFoot", "RightFoot")]
    for _ in range(20):
        hand.location.y -= 0.02
        hand.location.z -= 0.01
        update()
        assert missed(began, "RightHand") <= HIT
    assert hand.neural_ik_target.use, "moving a target switches it on"
    assert live().solution.reached.all()
    for foot, before in zip(("LeftFoot", "RightFoot"), feet, strict=True):
        assert np.linalg.norm(np.array(began.pose.bones[foot].head) - before) <= HIT
    assert missed(began, "Head") <= 1e-4, "a target that is off moves with the body"
    assert missed(began, "Hips", kind="ROOT") <= 1e-4


def test_one_solve_for_each_update_and_no_recursion(began: Any) -> None:
    hand = target("LeftHand")
    for count in range(1, 6):
        hand.location.z += 0.01
        update()
        assert live().solves == count
        update()
        update()
        assert live().solves == count


def test_moving_a_target_back_restores_the_pose(began: Any) -> None:
    before = matrices(began)
    hand = target("LeftHand")
    place = hand.location.copy()
    for step in (0.3, -0.2, 0.1, 0.0):
        hand.location = place
        hand.location.z += step
        update()
    assert apart(matrices(began), before) <= FIRST_PRESS


def test_a_cancelled_drag_leaves_the_target_off(began: Any) -> None:
    target("RightHand").location.z += 0.2
    update()
    shown = channels(began)
    hand = target("LeftHand")
    place = hand.location.copy()
    for step in (0.1, 0.2, 0.0):
        hand.location = place
        hand.location.x += step
        update()
        assert hand.neural_ik_target.use == (step > 0)
    assert np.abs(channels(began) - shown).max() <= 1e-5


def test_cancel_restores_every_bone_and_leaves_nothing_behind(character: Any) -> None:
    import bpy

    before, held = channels(character), census()
    bpy.ops.neural_ik.live_start()
    target("LeftHand").location.x += 0.2
    target("Hips", "ROOT").location.z -= 0.2
    update()
    assert np.abs(channels(character) - before).max() > 0.01
    assert bpy.ops.neural_ik.live_cancel() == {"FINISHED"}
    assert np.abs(channels(character) - before).max() <= BACK
    assert census() == held


def test_apply_keeps_the_pose_and_leaves_nothing_behind(character: Any) -> None:
    import bpy

    held = census()
    bpy.ops.neural_ik.live_start()
    target("Head").location.z -= 0.1
    update()
    shown = channels(character)
    assert bpy.ops.neural_ik.live_apply() == {"FINISHED"}
    assert np.abs(channels(character) - shown).max() <= BACK
    assert census() == held


def test_starting_and_stopping_many_times_leaks_nothing(character: Any) -> None:
    import bpy

    before, held = channels(character), census()
    for turn in range(30):
        bpy.ops.neural_ik.live_start()
        target("RightHand").location.z += 0.05
        update()
        (bpy.ops.neural_ik.live_cancel if turn % 2 else bpy.ops.neural_ik.live_apply)()
        if not turn % 2:
            bpy.context.scene.frame_set(20)
    assert census() == held
    assert np.abs(channels(character) - before).max() <= 1e-5


def test_targets_follow_the_animation_when_scrubbing(began: Any) -> None:
    import bpy

    hand, scene = target("RightHand"), bpy.context.scene
    hand.location.z += 0.15
    update()
    place, shown = hand.location.copy(), matrices(began)
    for frame in (30, 36, 5):
        scene.frame_set(frame)
        assert missed(began, "RightHand") <= HIT
        assert (hand.location - place).length > 0.02
    scene.frame_set(20)
    assert (hand.location - place).length <= 1e-5
    assert apart(matrices(began), shown) <= FIRST_PRESS


def test_targets_that_replace_the_action_stay_where_they_are(began: Any) -> None:
    import bpy

    settings().mode = "INSTEAD"
    target("RightHand").location.z += 0.1
    update()
    shown = matrices(began)
    bpy.context.scene.frame_set(33)
    assert apart(matrices(began), shown) <= FIRST_PRESS
    assert bpy.ops.neural_ik.live_cancel() == {"FINISHED"}
    there = matrices(began)
    bpy.context.scene.frame_set(33)
    assert apart(matrices(began), there) <= FIRST_PRESS, "Cancel restores the action's pose"


def test_a_keyed_pose_is_still_there_after_scrubbing(began: Any) -> None:
    import bpy

    target("LeftHand").location.z += 0.2
    update()
    shown = channels(began)
    assert bpy.ops.neural_ik.live_key() == {"FINISHED"}
    for frame in (25, 20):
        bpy.context.scene.frame_set(frame)
    assert np.abs(channels(began) - shown).max() <= 1e-5
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(began) - shown).max() <= 1e-5


def test_apply_keys_the_pose_with_auto_keying_on(began: Any) -> None:
    import bpy

    target("LeftHand").location.z += 0.2
    update()
    shown = channels(began)
    bpy.context.scene.tool_settings.use_keyframe_insert_auto = True
    try:
        bpy.ops.neural_ik.live_apply()
    finally:
        bpy.context.scene.tool_settings.use_keyframe_insert_auto = False
    for frame in (25, 20):
        bpy.context.scene.frame_set(frame)
    assert np.abs(channels(began) - shown).max() <= 1e-5


def test_the_active_keying_set_chooses_the_channels(began: Any) -> None:
    import bpy

    scene = bpy.context.scene
    began.animation_data.action = None
    own = scene.keying_sets.new(idname="own", name="Own")
    own.paths.add(began, 'pose.bones["LeftHand"].rotation_quaternion', index=-1)
    scene.keying_sets.active = own
    target("LeftHand").location.z += 0.2
    update()
    bpy.ops.neural_ik.live_key()
    actions = wing("blender.host.actions")
    data = began.animation_data
    curves = actions.curves(data.action, getattr(data, "action_slot", None))
    assert {c.data_path for c in curves} == {'pose.bones["LeftHand"].rotation_quaternion'}


@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
def test_a_bake_plays_back_the_live_poses(began: Any, into: str) -> None:
    import bpy

    scene = bpy.context.scene
    target("RightHand").location.z += 0.15
    update()
    shown = {}
    for frame in (1, 15, 30):
        scene.frame_set(frame)
        shown[frame] = matrices(began)
    scene.frame_set(20)
    old = began.animation_data.action.name
    assert bpy.ops.neural_ik.live_bake(first=1, last=30, into=into) == {"FINISHED"}
    assert not wing("blender.posing.live_ik").collections()
    assert scene.frame_current == 20
    action = began.animation_data.action
    assert {"ACTION": action and action.name == old, "NEW": action and action.name != old, "NLA": action is None}[into]
    for frame, pose in shown.items():
        scene.frame_set(frame)
        assert apart(matrices(began), pose) <= FIRST_PRESS
        assert np.abs(matrices(began)[:, :3, 3] - pose[:, :3, 3]).max() <= 1e-4
    assert all(m.show_viewport for o in scene.objects for m in o.modifiers)


def test_a_cancelled_bake_does_not_change_the_action(began: Any) -> None:
    import bpy

    keys, engine, scene = wing("blender.posing.baking"), wing("blender.posing.live_ik"), bpy.context.scene
    target("RightHand").location.z += 0.15
    update()
    shown = matrices(began)
    work = keys.bake(bpy.context, engine.collections()[0], 1, 30)
    for _ in range(10):
        next(work)
    work.close()
    assert scene.frame_current == 20
    assert apart(matrices(began), shown) <= FIRST_PRESS
    bpy.ops.neural_ik.live_cancel()
    scene.frame_set(10)
    pose = matrices(began)
    scene.frame_set(20)
    scene.frame_set(10)
    assert apart(matrices(began), pose) == 0


@pytest.mark.parametrize("pin", ["PLANE", "RAY"])
def test_pinned_feet_do_not_slide_in_a_bake(began: Any, pin: str) -> None:
    import bpy

    scene = bpy.context.scene
    for foot in ("LeftFoot", "RightFoot"):
        target(foot).neural_ik_target.pin = pin
    update()
    assert bpy.ops.neural_ik.live_bake(first=15, last=25) == {"FINISHED"}
    places = []
    for frame in range(15, 26):
        scene.frame_set(frame)
        places.append([np.array(began.pose.bones[f].head) for f in ("LeftFoot", "RightFoot")])
    slide = np.linalg.norm(np.diff(np.array(places), axis=0), axis=-1)
    assert slide.max() <= 5e-4


def toes(ob: Any, first: int, last: int) -> np.ndarray:
    """(F, 2, 3) positions of the toes on every frame."""
    import bpy

    places = []
    for frame in range(first, last + 1):
        bpy.context.scene.frame_set(frame)
        places.append([np.array(ob.pose.bones[f"{side}ToeBase"].head) for side in ("Left", "Right")])
    return np.array(places)


def test_a_bake_locks_feet_while_they_are_planted_and_only_then(began: Any) -> None:
    import bpy

    feet, action = wing("blender.posing.planted_feet"), began.animation_data.action
    first, last = (int(v) for v in action.frame_range)
    before = toes(began, first, last)
    bpy.context.scene.frame_set(20)
    target("RightHand").location.z += 0.1
    update()
    work = wing("blender.posing.baking").bake(
        bpy.context, wing("blender.posing.live_ik").collections()[0], first, last, hold_feet=True
    )
    while True:
        try:
            next(work)
        except StopIteration as end:
            skate = end.value
            break
    assert live().shift is None
    bpy.ops.neural_ik.live_cancel()
    after = toes(began, first, last)
    ways = [np.linalg.norm(np.diff(t[..., :2], axis=0), axis=-1) for t in (before, after)]
    seconds = bpy.context.scene.render.fps_base / bpy.context.scene.render.fps
    both = np.stack([before, before], axis=2)  # toes are enough for a walk
    both[:, :, 0, 2] += 1
    stands = feet.planted(
        wing("blender.host.rig_checks").fit(began, wing("blender.host.memory").memory.network).skeleton, both, seconds
    )
    held = stands[1:] & stands[:-1]
    assert held.sum() >= 10
    assert ways[0][held].max() > 1e-3, "they slide in the action"
    assert np.median(ways[1][held]) <= 1e-5
    assert skate.worst <= 5e-4 < skate.before
    assert np.abs(after - before).max() <= 0.05, "no toe moves far from where it was"
    assert (ways[1] - ways[0]).max() <= 0.02, "or jumps"


def test_a_foot_pinned_to_meshes_stands_on_them(began: Any) -> None:
    import bpy

    foot = target("LeftFoot")
    place = foot.matrix_world.translation
    mesh = bpy.data.meshes.new("step")
    x, y, z = place.x, place.y, 0.25
    corners = [(x - 0.2, y - 0.2, z), (x + 0.2, y - 0.2, z), (x + 0.2, y + 0.2, z), (x - 0.2, y + 0.2, z)]
    mesh.from_pydata(corners, [], [(0, 1, 2, 3)])
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("step", mesh))
    update()
    foot.neural_ik_target.pin = "RAY"
    update()
    skeleton = live().rig.skeleton
    ankle = skeleton.foot_rest[0, 0]
    assert began.pose.bones["LeftFoot"].head.z == pytest.approx(0.25 + ankle, abs=HIT)
    foot.neural_ik_target.pin = "PLANE"
    update()
    assert began.pose.bones["LeftFoot"].head.z == pytest.approx(ankle, abs=HIT)


def test_hints_turn_elbow_and_knee_while_hand_and_foot_stay(began: Any) -> None:
    target("LeftHand").location.y -= 0.2
    update()
    for role, joint in (("LeftHand", "LeftForeArm"), ("RightFoot", "RightShin")):
        hint = target(role, "HINT")
        end, turned = np.array(began.pose.bones[role].head), np.array(began.pose.bones[role].matrix)[:3, :3]
        elbow = np.array(began.pose.bones[joint].head)
        hint.neural_ik_target.use = True
        hint.location.x += 0.5
        hint.location.z += 0.3
        update()
        assert np.linalg.norm(np.array(began.pose.bones[role].head) - end) <= 1e-4
        assert np.abs(np.array(began.pose.bones[role].matrix)[:3, :3] - turned).max() <= 1e-4
        assert np.linalg.norm(np.array(began.pose.bones[joint].head) - elbow) > 0.01


def test_strength_blends_between_the_base_pose_and_the_solved_pose(began: Any) -> None:
    before = matrices(began)
    target("LeftHand").location.z += 0.2
    update()
    full = matrices(began)
    settings().strength = 0.0
    update()
    assert apart(matrices(began), before) <= FIRST_PRESS
    settings().strength = 0.5
    update()
    half = matrices(began)
    assert 0.2 < apart(half, before) / apart(full, before) < 0.8


def test_with_selected_bones_only_no_other_bones_move(began: Any) -> None:
    bones = began.pose.bones
    for pb in bones:
        (pb if hasattr(pb, "select") else pb.bone).select = pb.name in ("LeftArm", "LeftForeArm")
    before = np.array([pb.matrix_basis for pb in bones])
    settings().selected_only = True
    target("LeftHand").location.z += 0.2
    update()
    moved = np.abs(np.array([pb.matrix_basis for pb in bones]) - before).max(axis=(1, 2)) > 1e-4
    assert {pb.name for pb, m in zip(bones, moved, strict=True) if m} == {"LeftArm", "LeftForeArm"}


def test_the_overlay_draws_dots_for_targets_and_lines_for_misses(began: Any) -> None:
    import bpy

    overlay = wing("blender.posing.overlay")
    target("RightHand").location.z += 0.05
    update()
    dots, lines = overlay.marks(bpy.context.view_layer)
    assert len(dots) == 3, "two feet and a hand"
    assert not lines
    target("RightHand").location.z += 5
    update()
    dots, lines = overlay.marks(bpy.context.view_layer)
    begin, end = max(lines, key=lambda line: line[0][0][2])  # feet may miss their targets too
    assert begin[0] == pytest.approx(target("RightHand").matrix_world.translation, abs=1e-6)
    assert end[0] == pytest.approx(began.matrix_world @ began.pose.bones["RightHand"].head, abs=1e-6)
    assert begin[1][0] > begin[1][1], "red"
    bpy.ops.neural_ik.live_cancel()
    assert overlay.marks(bpy.context.view_layer) == ([], [])


def test_rendering_without_a_bake_adds_one_note(began: Any) -> None:
    import bpy

    for handler in bpy.app.handlers.render_init * 2:
        handler(bpy.context.scene)
    assert live().notes.count("Renders show the action without Live IK") == 1


@pytest.mark.parametrize("source", ["LEARNED", "OWN"])
def test_joint_limits_hold_on_a_rig_with_other_names(character: Any, source: str) -> None:
    import bpy

    character.animation_data.action = None
    for pb in character.pose.bones:
        pb.rotation_quaternion = (1, 0, 0, 0)
    character.data.bones["LeftForeArm"].name = "forearm.L"
    elbow = character.pose.bones["forearm.L"]
    for axis in "xyz":
        setattr(elbow, f"use_ik_limit_{axis}", True)
        setattr(elbow, f"ik_min_{axis}", -0.2)
        setattr(elbow, f"ik_max_{axis}", 0.2)
    update()
    bpy.ops.neural_ik.live_start()
    hand = target("LeftHand")
    hand.neural_ik_target.turn_weight = 0
    hand.location.x -= 0.35
    update()
    bent = elbow.rotation_quaternion.angle
    assert bent > 0.5, "without limits it bends further"
    settings().limits, settings().limits_from = True, source
    update()
    limits = live().rig.skeleton.limits
    assert limits is not None
    if source == "OWN":
        assert elbow.rotation_quaternion.angle <= 0.35
        settings().limits_from = "LEARNED"
        update()
        assert elbow.rotation_quaternion.angle > 0.35
    settings().limits = False
    update()
    assert elbow.rotation_quaternion.angle == pytest.approx(bent, abs=1e-3)


def test_manual_phase_and_task_change_the_learned_pose(began: Any) -> None:
    settings().posing = "LEARNED"
    target("LeftHand").location.z += 0.2
    update()
    own, shown = live().goals, matrices(began)
    settings().motion = "MANUAL"
    settings().phase, settings().task = 0.9, "dance"
    update()
    assert live().goals.phase == pytest.approx(0.9)
    assert live().goals.task != own.task
    assert apart(matrices(began), shown) > 1e-4
    assert missed(began, "LeftHand") <= HIT
    settings().motion = "AUTO"
    update()
    assert (live().goals.phase, live().goals.task) == (own.phase, own.task)


def test_a_pose_far_from_the_training_data_is_unusual(began: Any) -> None:
    engine, panel = wing("blender.posing.live_ik"), wing("blender.posing.panel")
    target("LeftHand").location.z += 0.05
    update()
    near = engine.explain(live()).out_of_range
    if not near > 0:
        pytest.skip("these weights do not measure how unusual a pose is")
    target("Head").location.z -= 1.2
    target("LeftFoot").location.z += 1.0
    update()
    assert near < panel.UNUSUAL < engine.explain(live()).out_of_range


def test_a_flipped_pose_is_the_mirror_image(began: Any) -> None:
    import bpy

    target("LeftHand").location.z += 0.3
    update()
    before = {pb.name: np.array(pb.head) for pb in began.pose.bones}
    bpy.ops.neural_ik.live_flip()
    for name, head in before.items():
        partner = name.replace("Left", "*").replace("Right", "Left").replace("*", "Right")
        assert np.abs(np.array(began.pose.bones[partner].head) - head * [-1, 1, 1]).max() <= 1e-4
        if partner in ("LeftHand", "RightHand", "Head"):
            assert missed(began, partner) <= HIT
    bpy.ops.neural_ik.live_flip(side="LEFT")
    for name in ("Arm", "ForeArm", "Hand", "Thigh", "Shin"):
        left, right = (
            np.array(began.pose.bones[side + name].matrix_basis.to_quaternion()) for side in ("Left", "Right")
        )
        assert np.abs(np.abs(left) - np.abs(right)).max() <= 1e-3


def test_a_deleted_target_is_free_and_reset_adds_it_again(began: Any) -> None:
    import bpy

    target("RightHand").location.z += 0.1
    update()
    bpy.data.objects.remove(target("RightHand"))
    target("LeftHand").location.z += 0.1
    update()
    assert missed(began, "LeftHand") <= HIT
    bpy.ops.neural_ik.live_reset()
    target("RightHand").location.z += 0.1
    update()
    assert missed(began, "RightHand") <= HIT
    assert bpy.ops.neural_ik.live_cancel() == {"FINISHED"}


def test_after_deleting_the_character_cancel_removes_the_targets(began: Any) -> None:
    import bpy

    bpy.data.objects.remove(began)
    update()
    target("LeftHand").location.z += 0.1
    update()
    assert bpy.ops.neural_ik.live_cancel() == {"FINISHED"}
    assert not wing("blender.posing.live_ik").collections()
    assert not [o for o in bpy.data.objects if o.type == "EMPTY"]


def test_renaming_bones_and_the_character_does_not_stop_it(began: Any) -> None:
    import bpy

    before = channels(began)
    began.name = "Other"
    began.data.bones["LeftForeArm"].name = "Elbow.L"
    update()
    target("LeftHand").location.z += 0.1
    update()
    assert missed(began, "LeftHand") <= HIT
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(began) - before).max() <= BACK


def test_edit_mode_pauses_it(began: Any) -> None:
    import bpy

    bpy.context.view_layer.objects.active = began
    bpy.ops.object.mode_set(mode="EDIT")
    target("LeftHand").location.z += 0.1
    update()
    bpy.ops.object.mode_set(mode="OBJECT")
    update()
    target("LeftHand").location.z += 0.01
    update()
    assert missed(began, "LeftHand") <= HIT


def test_undo_and_redo_include_live_ik(character: Any) -> None:
    import bpy

    def armature() -> Any:
        return next(o for o in bpy.data.objects if o.type == "ARMATURE")

    undo = bpy.ops.ed.undo_push
    undo(message="before")
    before = channels(character)
    bpy.ops.neural_ik.live_start()
    undo(message="live")
    target("RightHand").location.z += 0.1
    update()
    undo(message="dragged")
    dragged = channels(armature())
    bpy.ops.ed.undo()
    update()
    assert np.abs(channels(armature()) - before).max() <= BACK
    assert not target("RightHand").neural_ik_target.use
    bpy.ops.ed.redo()
    update()
    assert np.abs(channels(armature()) - dragged).max() <= BACK
    bpy.ops.neural_ik.live_cancel()
    undo(message="cancelled")
    assert np.abs(channels(armature()) - before).max() <= BACK
    bpy.ops.ed.undo()
    update()
    assert np.abs(channels(armature()) - dragged).max() <= BACK, "undo restores a cancelled Live IK"
    target("RightHand").location.z += 0.05
    update()
    assert missed(armature(), "RightHand") <= HIT
    for _ in range(2):
        bpy.ops.ed.undo()
    update()
    assert not wing("blender.posing.live_ik").characters
    assert np.abs(channels(armature()) - before).max() <= BACK


def test_it_continues_after_saving_and_loading(began: Any, tmp_path: Path) -> None:
    import bpy

    before = live().before
    target("LeftHand").location.z += 0.1
    update()
    shown = channels(began)
    path = str(tmp_path / "live.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    ob = next(o for o in bpy.data.objects if o.type == "ARMATURE")
    update()
    assert np.abs(channels(ob) - shown).max() <= 1e-5
    target("LeftHand").location.z += 0.05
    update()
    assert missed(ob, "LeftHand") <= HIT
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(ob) - np.concatenate([before[k] for k in sorted(before)])).max() <= BACK


def test_loading_another_file_ends_it_silently(began: Any) -> None:
    import bpy

    bpy.ops.wm.read_homefile(use_empty=True)
    update()
    assert not wing("blender.posing.live_ik").characters


def test_disabling_the_extension_cancels_it(began: Any) -> None:
    import addon_utils
    import bpy

    before = live().before
    target("LeftHand").location.z += 0.1
    update()
    try:
        addon_utils.disable(EXTENSION)
        assert not [o for o in bpy.data.objects if o.type == "EMPTY"]
        kept = sys.modules[f"{EXTENSION}.neural_network.blender.host.runtime"].snapshot(began)
        assert max(np.abs(kept[k] - before[k]).max() for k in before) <= BACK
    finally:
        addon_utils.enable(EXTENSION, default_set=True)


def test_two_characters_are_moved_by_their_own_targets(character: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    bpy.ops.neural_ik.add_demo_character(motion=False)
    other = bpy.context.active_object
    other.location.x = 2
    update()
    bpy.ops.neural_ik.live_start()
    engine = wing("blender.posing.live_ik")
    first, second = sorted(engine.collections(), key=lambda c: c.name)
    still = matrices(character)
    hand = engine.target_objects(second)["EFFECTOR", "LeftHand"]
    hand.location.z += 0.1
    hand.location.x -= 0.1
    update()
    assert (engine.live_of(first).solves, engine.live_of(second).solves) == (0, 1)
    assert apart(matrices(character), still) == 0
    head = other.matrix_world @ other.pose.bones["LeftHand"].head
    assert (head - hand.matrix_world.translation).length <= HIT


def make_driven(ob: Any) -> None:
    curve = ob.pose.bones["LeftArm"].driver_add("rotation_quaternion", 1)
    curve.driver.expression = "0.1"


def make_constrained(ob: Any) -> None:
    ik = ob.pose.bones["LeftForeArm"].constraints.new("IK")
    ik.chain_count = 2


def make_rest(ob: Any) -> None:
    ob.data.pose_position = "REST"


def make_mirrored(ob: Any) -> None:
    ob.scale.x = -1


def make_controlled(ob: Any) -> None:
    """Bone names of a generated Rigify rig."""
    ob.data.bones["LeftHand"].name = "DEF-hand.L"
    ob.data.bones["RightHand"].name = "ORG-hand.R"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (make_driven, "has a driver, which would override Live IK: mute it"),
        (make_constrained, "has the constraint IK, which would override Live IK: mute it, or bake"),
        (make_controlled, "Rigify control rig, and not a complete human .* Use the metarig"),
        (make_rest, "Rest Position"),
        (make_mirrored, "negative scale"),
    ],
)
def test_unsupported_rigs_are_refused_with_the_reason(character: Any, spoil: Callable[[Any], None], words: str) -> None:
    import bpy

    spoil(character)
    update()
    held = census()
    with pytest.raises(RuntimeError, match=words):
        bpy.ops.neural_ik.live_start()
    assert census() == held


def test_a_rotated_and_scaled_character_works(character: Any) -> None:
    import bpy

    character.animation_data.action = None
    character.rotation_euler, character.scale, character.location = (1.2, 0.3, -0.5), (0.5, 0.5, 0.5), (3, 4, 5)
    update()
    before = matrices(character)
    bpy.ops.neural_ik.live_start()
    for role in ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head"):
        assert missed(character, role) <= 1e-5
    live().dirty = True
    settings().strength = 1
    update()
    assert apart(matrices(character), before) <= FIRST_PRESS
    target("LeftHand").location.z += 0.05
    update()
    assert missed(character, "LeftHand") <= HIT
    character.location.x += 1.0
    target("LeftHand").location.x += 1.0
    for foot in ("LeftFoot", "RightFoot"):
        target(foot).location.x += 1.0
    update()
    assert missed(character, "LeftHand") <= HIT


def test_bones_with_other_names_are_matched_by_role(character: Any) -> None:
    import bpy

    for bone in character.data.bones:
        side = {"Left": ".L", "Right": ".R"}
        for word, end in side.items():
            if bone.name.startswith(word):
                bone.name = bone.name.removeprefix(word).lower() + end
                break
        else:
            bone.name = bone.name.lower()
    update()
    bpy.ops.neural_ik.live_start()
    target("LeftHand").location.z += 0.1
    update()
    assert missed(character, "LeftHand", "hand.L") <= HIT


def test_for_a_creature_the_error_suggests_training(character: Any) -> None:
    import bpy

    character.data.bones["Spine2"].name = "middle"
    character.neural_ik_ends.effectors = "LeftHand\nHead"
    with pytest.raises(RuntimeError, match=r"another skeleton: .*Train for this rig"):
        bpy.ops.neural_ik.live_start()


def test_a_person_with_other_bones_is_moved_by_the_same_weights(character: Any) -> None:
    import bpy

    character.animation_data.action = None
    bpy.context.view_layer.objects.active = character
    bpy.ops.object.mode_set(mode="EDIT")
    for name in ("Spine2", "LeftToeBase", "RightToeBase"):
        character.data.edit_bones.remove(character.data.edit_bones[name])
    for name in ("NeckLower", "LeftShoulder", "RightShoulder"):
        character.data.edit_bones[name].parent = character.data.edit_bones["Spine1"]
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.ops.neural_ik.live_start()
    target("LeftHand").location.z += 0.1
    update()
    assert missed(character, "LeftHand") <= HIT


def test_every_rotation_mode_and_inheritance_setting_is_written_correctly(character: Any) -> None:
    import bpy

    from .test_runtime import complicate

    character.animation_data.action = None
    complicate(character)
    before, kept = matrices(character), channels(character)
    bpy.ops.neural_ik.live_start()
    live().dirty = True
    settings().strength = 1
    update()
    assert apart(matrices(character), before) <= FIRST_PRESS
    target("RightHand").location.z += 0.002
    update()
    assert missed(character, "RightHand") <= HIT * 0.01
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(character) - kept).max() <= BACK


def test_the_nearest_training_frame_is_shown(began: Any) -> None:
    import bpy

    target("LeftHand").location.z += 0.05
    update()
    why = wing("blender.posing.live_ik").explain(live())
    if not why.clip:
        pytest.skip("these weights store no training frames")
    assert why.clip in bpy.data.actions
    assert bpy.ops.neural_ik.live_jump() == {"FINISHED"}
    assert began.animation_data.action.name == why.clip
    assert bpy.context.scene.frame_current == int(bpy.data.actions[why.clip].frame_range[0]) + why.frame
