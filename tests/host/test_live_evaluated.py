# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK is about the bones as Blender evaluates them: bent, scaled, connected and moved ones too, and colors tell the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_live_ik import BACK, HIT, channels, character, live, settings, target, update, weights

__all__ = ["character", "weights"]  # fixtures


def insert(ob: Any, above: str, below: str) -> str:
    """A bone called between, half-way between two of them; returns its name."""
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")
    bones = ob.data.edit_bones
    new = bones.new("between")
    new.head = (bones[above].head + bones[below].head) / 2
    new.tail, new.roll = bones[below].head, bones[above].roll
    new.parent, bones[below].use_connect, bones[below].parent = bones[above], False, new
    bpy.ops.object.mode_set(mode="OBJECT")
    return "between"


def add_root(ob: Any, connected: bool = False) -> None:
    """A bone called root above the Hips."""
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")
    bones = ob.data.edit_bones
    root = bones.new("root")
    root.head, root.tail = (0, 0, 0), bones["Hips"].head if connected else (0, 0.5, 0)
    bones["Hips"].parent, bones["Hips"].use_connect = root, connected
    bpy.ops.object.mode_set(mode="OBJECT")


def turned(ob: Any, bone: str, degrees: float) -> Any:
    """The rotation of ``bone`` about the X axis of the armature."""
    from mathutils import Quaternion, Vector

    axis = ob.data.bones[bone].matrix_local.to_3x3().inverted() @ Vector((1, 0, 0))
    return Quaternion(axis, np.radians(degrees))


def off(ob: Any, bone: str, goal: Any) -> float:
    """[m] distance of a bone's head, as the depsgraph evaluates it, from a target."""
    import bpy

    shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    at = np.array(shown.matrix_world @ shown.pose.bones[bone].matrix)[:3, 3]
    return float(np.linalg.norm(at - np.array(goal.matrix_world)[:3, 3]))


def is_green(goal: Any) -> bool:
    return bool(goal.color[1] > 0.85 and goal.color[0] < 0.5)


def drag(role: str, by: tuple[float, float, float], kind: str = "EFFECTOR") -> Any:
    from mathutils import Matrix

    goal = target(role, kind)
    goal.neural_ik_target.use = True
    goal.matrix_world = Matrix.Translation(by) @ goal.matrix_world
    update()
    update()
    return goal


def all_met(ob: Any, *roles: str) -> None:
    """The bones are at their targets on Blender's own matrices, and the targets are green."""
    for role in roles or ("LeftHand", "LeftFoot", "RightFoot"):
        assert off(ob, role, target(role)) <= HIT, f"{role} is {off(ob, role, target(role)) * 1000:.1f} mm off"
        assert is_green(target(role)), f"{role} is not green"


def none_lies(ob: Any) -> None:
    """No green target is missed."""
    for kind, roles in (("EFFECTOR", ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head")), ("ROOT", ("Hips",))):
        for role in roles:
            goal = target(role, kind)
            if goal.neural_ik_target.use:
                assert off(ob, role, goal) <= 2e-3 or not is_green(goal), f"{role} is green and missed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("above", "below", "hand"), [("Spine", "Spine1", "LeftHand"), ("LeftThigh", "LeftShin", "LeftFoot")]
)
def test_a_bent_bone_between_two_controlled_ones_is_taken_into_account(
    character: Any, above: str, below: str, hand: str
) -> None:
    import bpy

    insert(character, above, below)
    character.animation_data.action = None
    character.pose.bones["between"].rotation_quaternion = turned(character, "between", 40)
    update()
    before = np.array([pb.matrix for pb in character.pose.bones])
    bpy.ops.neural_ik.live_start()
    assert np.abs(np.array([pb.matrix for pb in character.pose.bones]) - before).max() <= 1e-4
    drag(hand, (0.2, -0.1, 0.15))
    all_met(character, hand, "RightFoot")


@pytest.mark.slow
def test_a_bone_bent_while_it_is_live_is_taken_into_account(character: Any) -> None:
    import bpy

    insert(character, "Spine", "Spine1")
    bpy.ops.neural_ik.live_start()
    drag("LeftHand", (0.1, -0.1, 0.1))
    character.pose.bones["between"].rotation_quaternion = turned(character, "between", 30)
    update()
    update()
    all_met(character)
    bpy.context.scene.frame_set(23)
    all_met(character)


@pytest.mark.slow
def test_an_animated_bone_between_is_baked_as_it_was_seen(character: Any) -> None:
    import bpy

    insert(character, "Spine", "Spine1")
    between = character.pose.bones["between"]
    for frame, degrees in ((15, 0), (25, 40)):
        between.rotation_quaternion = turned(character, "between", degrees)
        between.keyframe_insert("rotation_quaternion", frame=frame)
    bpy.context.scene.frame_set(18)
    bpy.ops.neural_ik.live_start()
    drag("LeftHand", (0.1, -0.1, 0.1))
    seen = {}
    for frame in (16, 24):
        bpy.context.scene.frame_set(frame)
        all_met(character)
        seen[frame] = np.array([pb.matrix for pb in character.pose.bones])
    assert bpy.ops.neural_ik.live_bake(first=15, last=25) == {"FINISHED"}
    for frame, pose in seen.items():
        bpy.context.scene.frame_set(frame)
        assert np.abs(np.array([pb.matrix for pb in character.pose.bones]) - pose).max() <= 1e-3


SCALES = [
    ("root", (2, 2, 2)),
    ("LeftForeArm", (1, 0.5, 1)),
    ("Hips", (1.5, 1.5, 1.5)),
    ("Spine", (1.3, 1, 1)),
    ("LeftThigh", (1, 1.2, 0.8)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bone", "scale"), SCALES)
@pytest.mark.parametrize("while_live", [False, True])
def test_scaled_bones_are_taken_into_account(
    character: Any, bone: str, scale: tuple[float, float, float], while_live: bool
) -> None:
    import bpy

    add_root(character)
    character.animation_data.action = None
    before = channels(character)
    if while_live:
        bpy.ops.neural_ik.live_start()
    character.pose.bones[bone].scale = scale
    update()
    if not while_live:
        before = channels(character)
        shown = np.array([pb.head for pb in character.pose.bones])
        bpy.ops.neural_ik.live_start()
        assert np.abs(np.array([pb.head for pb in character.pose.bones]) - shown).max() <= 1e-3
    drag("LeftHand", (0.05, -0.05, 0.1))
    drag("LeftFoot", (0.03, -0.05, 0.1))
    if bone == "root" and while_live:
        none_lies(character)  # the feet stay on the ground, and the hands of a giant are far above
    else:
        all_met(character)
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(character) - before).max() <= BACK


@pytest.mark.slow
def test_a_stretched_bone_that_was_moved_is_taken_into_account(character: Any) -> None:
    import bpy

    character.animation_data.action = None
    bpy.ops.object.mode_set(mode="EDIT")
    for bone in character.data.edit_bones:
        bone.use_connect = False
    bpy.ops.object.mode_set(mode="OBJECT")
    character.pose.bones["LeftForeArm"].location = (0, 0.1, 0)
    character.pose.bones["Spine1"].location = (0.02, 0.03, 0)
    update()
    bpy.ops.neural_ik.live_start()
    drag("LeftHand", (0.05, -0.05, 0.1))
    all_met(character)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "kind", "by"), [("Hips", "ROOT", (0, 0, -0.2)), ("LeftHand", "EFFECTOR", (0.6, -0.6, -0.6))]
)
def test_connected_hips_are_moved_by_the_bone_above(
    character: Any, role: str, kind: str, by: tuple[float, float, float]
) -> None:
    import bpy

    add_root(character, connected=True)
    before = channels(character)
    bpy.ops.neural_ik.live_start()
    drag(role, by, kind)
    none_lies(character)
    if kind == "ROOT":
        assert off(character, "Hips", target("Hips", "ROOT")) <= HIT
        all_met(character, "LeftFoot", "RightFoot")
    shown = np.array([pb.matrix for pb in character.pose.bones])
    assert bpy.ops.neural_ik.live_key() == {"FINISHED"}
    assert bpy.ops.neural_ik.live_apply() == {"FINISHED"}
    bpy.context.scene.frame_set(21)
    bpy.context.scene.frame_set(20)
    assert np.abs(np.array([pb.matrix for pb in character.pose.bones]) - shown).max() <= 1e-4, "the key shows the pose"
    assert np.abs(channels(character) - before).max() > 0.01


def test_with_less_than_full_strength_a_missed_target_is_not_green(character: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    settings().strength = 0.5
    drag("LeftHand", (0.1, -0.1, 0.1))
    assert off(character, "LeftHand", target("LeftHand")) > 0.02
    none_lies(character)
    settings().strength = 1.0
    update()
    all_met(character)


def test_a_bone_that_was_turned_by_hand_is_shown_as_missing_its_target(character: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag("LeftHand", (0.05, -0.05, 0.1))
    character.pose.bones["LeftArm"].rotation_quaternion = (0.7, 0.7, 0, 0)
    update()
    assert not is_green(target("LeftHand"))
    assert "something else moved the bones" in live().overridden
    drag("LeftHand", (0, 0, 0.01))
    all_met(character)
    assert not live().overridden


def constrain(ob: Any) -> Any:
    made = ob.pose.bones["LeftForeArm"].constraints.new("LIMIT_ROTATION")
    made.use_limit_x = made.use_limit_y = made.use_limit_z = True
    made.owner_space = "LOCAL"
    return lambda: setattr(made, "mute", True)


def rest_position(ob: Any) -> Any:
    ob.data.pose_position = "REST"
    return lambda: setattr(ob.data, "pose_position", "POSE")


def drive(ob: Any) -> Any:
    driver = ob.pose.bones["LeftArm"].driver_add("rotation_quaternion", 1)
    driver.driver.expression = "0.5"
    return lambda: ob.pose.bones["LeftArm"].driver_remove("rotation_quaternion", 1)


def edit_mode(ob: Any) -> Any:
    import bpy

    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    return lambda: bpy.ops.object.mode_set(mode="OBJECT")


def unlink(ob: Any) -> Any:
    import bpy

    bpy.context.scene.collection.objects.unlink(ob)
    return lambda: bpy.context.scene.collection.objects.link(ob)


WAITS: list[tuple[Callable[[Any], Any], str]] = [
    (constrain, "LeftForeArm of Neural IK Demo has the constraint"),
    (drive, "LeftArm of Neural IK Demo has a driver"),
    (rest_position, "shown in Rest Position"),
    (edit_mode, "in Edit Mode"),
    (unlink, "no longer in this scene"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "words"), WAITS)
def test_what_stops_it_is_said_and_it_goes_on_afterwards(character: Any, change: Any, words: str) -> None:
    import bpy

    before = channels(character)
    bpy.ops.neural_ik.live_start()
    drag("LeftHand", (0.05, -0.05, 0.1))
    undo = change(character)
    update()
    target("LeftHand").location.x += 0.1
    update()
    assert words in live().suspended
    if change is not edit_mode:  # its button is grey there
        with pytest.raises(RuntimeError, match=words):
            bpy.ops.neural_ik.live_bake(first=18, last=22)
    if change in (constrain, drive, rest_position):
        none_lies(character)
    undo()
    update()
    update()
    assert not live().suspended
    drag("LeftHand", (-0.05, 0, 0))
    all_met(character)
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(character) - before).max() <= BACK


@pytest.mark.slow
def test_a_changed_rest_pose_is_read_again(character: Any) -> None:
    import bpy

    character.animation_data.action = None
    bpy.ops.neural_ik.live_start()
    bpy.context.view_layer.objects.active = character
    bpy.ops.object.mode_set(mode="EDIT")
    arm = character.data.edit_bones["LeftForeArm"]
    for bone in (arm, *arm.children_recursive):
        bone.use_connect = False
    for bone in (arm, *arm.children_recursive):
        bone.head.x += 0.08
        bone.tail.x += 0.08
    bpy.ops.object.mode_set(mode="OBJECT")
    update()
    drag("LeftHand", (-0.05, -0.05, 0.1))
    all_met(character)


@pytest.mark.slow
@pytest.mark.parametrize("replace", [False, True])
def test_after_a_bone_was_deleted_cancel_restores_the_others(character: Any, replace: bool) -> None:
    import bpy

    before = channels(character)
    engine = wing("blender.posing.live_ik")
    bpy.ops.neural_ik.live_start()
    drag("LeftHand", (0.05, -0.05, 0.1))
    bpy.context.view_layer.objects.active = character
    bpy.ops.object.mode_set(mode="EDIT")
    bones = character.data.edit_bones
    bones.remove(bones["RightToeBase"])
    if replace:
        new = bones.new("Tail")
        new.head, new.tail, new.parent = (0, 0, 1), (0, 0.3, 1), bones["Hips"]
    bpy.ops.object.mode_set(mode="OBJECT")
    update()
    collection = engine.collections()[0]
    target("LeftHand").location.x += 0.1
    update()
    assert engine.live_of(collection) is None
    words = wing("blender.posing.state").unsolvable[collection.name]
    assert "Cancel" in words or "Train" in words, words
    with pytest.raises(RuntimeError, match="Cancel"):
        bpy.ops.neural_ik.live_bake(first=18, last=22)
    bpy.ops.neural_ik.live_cancel()
    names = [pb.name for pb in character.pose.bones]
    left = names.index("LeftArm")
    now = wing("blender.host.runtime").snapshot(character)["rotation_quaternion"].reshape(-1, 4)[left]
    assert np.abs(now - before_of(character, before, "LeftArm")).max() <= BACK


def before_of(ob: Any, before: np.ndarray, bone: str) -> np.ndarray:
    """The quaternion of a bone above the deleted one in the channels from before."""
    sizes = wing("blender.host.runtime").CHANNELS
    count = len(before) // sum(sizes.values())
    start = sum(sizes[name] for name in sorted(sizes) if name < "rotation_quaternion") * count
    row = [pb.name for pb in ob.pose.bones].index(bone)
    return before[start : start + 4 * count].reshape(-1, 4)[row]


def test_a_rotation_mode_that_was_changed_is_written_and_restored(character: Any) -> None:
    import bpy

    character.animation_data.action = None
    update()
    shown = np.array([pb.matrix for pb in character.pose.bones])
    bpy.ops.neural_ik.live_start()
    drag("LeftHand", (0.05, -0.05, 0.1))
    character.pose.bones["LeftArm"].rotation_mode = "XYZ"
    update()
    drag("LeftHand", (0.05, -0.05, 0.1))
    all_met(character)
    bpy.ops.neural_ik.live_cancel()
    update()
    assert np.abs(np.array([pb.matrix for pb in character.pose.bones]) - shown).max() <= 1e-5


@pytest.mark.slow
def test_a_game_body_meets_its_goals_with_bent_and_scaled_bones(character: Any) -> None:
    insert(character, "Spine", "Spine1")
    character.animation_data.action = None
    character.pose.bones["between"].rotation_quaternion = turned(character, "between", 40)
    character.pose.bones["LeftThigh"].scale = (1.2, 1.2, 1.2)
    update()
    body = wing("blender.posing.game").Body(character)

    def step() -> None:
        goal = np.array(character.matrix_world @ character.pose.bones["LeftHand"].head) + [0.1, -0.1, 0.1]
        body.aim("LeftHand", goal)
        assert body.step().reached.all()
        update()
        now = np.array(character.matrix_world @ character.pose.bones["LeftHand"].head)
        assert np.linalg.norm(now - goal) <= HIT
        assert max(body.missed().values()) <= HIT

    step()
    character.pose.bones["between"].rotation_quaternion = turned(character, "between", -20)
    step()
    character.pose.bones["LeftArm"].rotation_quaternion = (0.7, 0.7, 0, 0)
    update()
    assert body.missed()["LeftHand"] > 0.01, "measured on Blender's own matrices"


@pytest.mark.slow
def test_a_character_that_is_scaled_while_it_is_live_meets_its_targets(character: Any) -> None:
    import bpy

    character.animation_data.action = None
    bpy.ops.neural_ik.live_start()
    drag("LeftHand", (0.05, -0.05, 0.1))
    character.scale = (20, 20, 20)
    update()
    for name in ("LeftHand", "LeftFoot", "RightFoot"):
        target(name).matrix_world.translation = character.matrix_world @ character.pose.bones[name].head
    update()
    drag("LeftHand", (0.5, -1, 0.5))
    all_met(character)
    assert wing("blender.posing.state").characters[live().collection].rig.unit == pytest.approx(20)


@pytest.mark.slow
def test_a_character_that_is_mirrored_while_it_is_live_is_refused_in_words(character: Any) -> None:
    import bpy

    before = channels(character)
    engine = wing("blender.posing.live_ik")
    bpy.ops.neural_ik.live_start()
    character.scale = (-1, 1, 1)
    update()
    (collection,) = engine.collections()
    assert engine.live_of(collection) is None
    assert "negative scale" in wing("blender.posing.state").unsolvable[collection.name]
    character.scale = (1, 1, 1)
    update()
    assert engine.characters, "it goes on by itself"
    drag("LeftHand", (0.05, -0.05, 0.1))
    all_met(character)
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(character) - before).max() <= BACK


@pytest.mark.slow
def test_the_slide_of_feet_is_measured_on_the_bones_as_they_are(character: Any) -> None:
    import bpy

    insert(character, "LeftThigh", "LeftShin")
    between = character.pose.bones["between"]
    between.rotation_quaternion = turned(character, "between", 25)
    update()
    bpy.ops.neural_ik.live_start()
    planted = wing("blender.posing.planted_feet")
    feet = planted.positions(live(), character, live().base)
    axes, rig = live().rig.skeleton.axes, live().rig
    shown = [np.array(character.pose.bones[b].head) for b in ("LeftFoot", "LeftToeBase")]
    assert np.abs(feet[0] - np.array(shown) @ rig.turn.T * rig.unit @ axes.T).max() <= 1e-4
    drag("LeftFoot", (0, -0.05, 0.1))
    pose = wing("blender.posing.baked_keys").posed(character, live())
    shown = [np.array(character.pose.bones[b].head) for b in ("LeftFoot", "LeftToeBase")]
    assert (
        np.abs(planted.positions_in(live(), pose)[0] - np.array(shown) @ rig.turn.T * rig.unit @ axes.T).max() <= 1e-4
    )
