# SPDX-License-Identifier: GPL-3.0-or-later
"""Extract Data takes what Blender shows: actions on controls and other armatures, and what poses cannot hold."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from conftest import HOST

from neural_network.core import forward_kinematics

from .conftest import wing
from .test_extract import run, snapshot
from .test_words import edit, keep_actions

# ---- what moves a character


def control_rig(demo: Any, other: bool = False) -> tuple[Any, Any, Any]:
    """Let every bone follow a control by Copy Transforms: (the armature of the controls, their walk, the bones' own walk).

    The controls are bones of the same armature, or with ``other`` the bones of the same names of another one.
    """
    import bpy

    actions, keyframes = wing("blender.host.actions"), wing("blender.host.keyframes")
    (old,) = keep_actions("0walk_forward")
    names = [bone.name for bone in demo.data.bones]
    prefix = "" if other else "Ctrl_"
    if other:
        controls = bpy.data.objects.new("Controls", demo.data.copy())
        bpy.context.collection.objects.link(controls)
        controls.animation_data_create()
        bpy.context.view_layer.update()
    else:
        controls = demo

        def add(bones: Any) -> None:
            for name in names:
                bone = bones.new(prefix + name)
                bone.head, bone.tail, bone.roll = bones[name].head, bones[name].tail, bones[name].roll
                bone.use_deform = False
            for name in names:
                if bones[name].parent:
                    bones[prefix + name].parent = bones[prefix + bones[name].parent.name]

        edit(demo, add)
    for name in names:
        follow = demo.pose.bones[name].constraints.new("COPY_TRANSFORMS")
        follow.target, follow.subtarget = controls, prefix + name
    new, slot = actions.new("walk on controls", controls.name)
    for curve in actions.curves(old, actions.slots_for(old, demo)[0]):
        keys = np.array([k.co for k in curve.keyframe_points])
        path = curve.data_path.replace('bones["', f'bones["{prefix}')
        keyframes.write_curve(actions.new_curve(new, slot, path, curve.array_index, "c"), keys[:, 0], keys[:, 1])
    bpy.context.view_layer.objects.active = demo
    return controls, new, old


def shown(ob: Any, action: Any, on: Any, frames: Any) -> np.ndarray:
    """(F, N, 3) heads of all bones [object space] as Blender shows an action that is assigned to ``on``, from rest."""
    import bpy

    for pb in [*ob.pose.bones, *on.pose.bones]:
        pb.matrix_basis.identity()
    actions = wing("blender.host.actions")
    actions.assign(on.animation_data_create(), action, actions.slots_for(action, on)[0])
    heads = []
    for frame in frames:
        bpy.context.scene.frame_set(int(frame))
        heads.append([pb.head[:] for pb in ob.pose.bones])
    return np.array(heads)


def taken(poses: Any, clip: int) -> np.ndarray:
    """(F, J, 3) heads of the poses of a clip."""
    rows = poses.rows(clip)
    found = forward_kinematics.armature_matrices(poses.skeleton, poses.rot[rows].astype(float), poses.root_pos[rows])
    return found[..., :3, 3]


@pytest.mark.slow
@pytest.mark.parametrize("other", [False, True])
def test_the_action_on_controls_is_taken_as_shown_and_one_that_they_override_is_not(demo: Any, other: bool) -> None:
    import bpy

    demo.animation_data.action = None
    controls, new, old = control_rig(demo, other)
    actions = wing("blender.host.actions")
    actions.assign(controls.animation_data, new, actions.slots_for(new, controls)[0])
    assert bpy.ops.neural_ik.extract_data() == {"FINISHED"}
    poses = wing("blender.host.memory").memory.poses
    assert new.name in poses.clip_names
    clip = poses.clip_names.index(new.name)
    places = [pb.name for pb in demo.pose.bones]
    index = [places.index(name) for name in poses.skeleton.names]
    frames = range(int(new.frame_range[0]), int(new.frame_range[1]) + 1)
    assert np.abs(shown(demo, new, controls, frames)[:, index] - taken(poses, clip)).max() < 10 * HOST
    assert np.abs(poses.rot[poses.rows(clip)].std(axis=0)).max() > 0.1
    assert old.name not in poses.clip_names
    notes = " ".join(run(demo).notes)
    overridden = f"{old.name} was left out: playing it moves no controlled bone, because constraints override it"
    repeated = f"{old.name}: left out, because Blender shows the same motion for {new.name}"
    assert overridden in notes or (other and not actions.SLOTTED and repeated in notes)


@pytest.mark.slow
def test_a_rig_that_follows_another_armature_gives_each_of_its_motions_once(demo: Any) -> None:
    import bpy

    controls, new, old = control_rig(demo, other=True)
    copies = [new.copy() for _ in range(3)]
    actions = wing("blender.host.actions")
    for curve in actions.curves(copies[0], actions.slots_for(copies[0], controls)[0]):
        if "LeftArm" in curve.data_path:
            curve.mute = True
    bpy.data.actions.remove(old)
    actions.assign(controls.animation_data, new, actions.slots_for(new, controls)[0])  # what is shown all the time
    bpy.context.scene.frame_set(9)
    before = snapshot(demo), snapshot(controls)
    result = run(demo)
    assert (snapshot(demo), snapshot(controls)) == before
    assert sorted(result.poses.clip_names) == sorted([new.name, copies[0].name])
    assert any("left out, because Blender shows the same motion" in note for note in result.notes)
    arm = result.poses.skeleton.names.index("LeftArm")
    for clip, name in enumerate(result.poses.clip_names):
        swing = result.poses.rot[result.poses.rows(clip), arm].std(axis=0).max()
        assert (swing > 0.01) == (name == new.name)


@pytest.mark.slow
def test_the_action_of_an_empty_that_an_arm_reaches_for_is_a_few_bones_of_another_object(demo: Any) -> None:
    import bpy

    actions, keyframes = wing("blender.host.actions"), wing("blender.host.keyframes")
    (walk,) = keep_actions("walk")
    goal = bpy.data.objects.new("Goal", None)
    bpy.context.collection.objects.link(goal)
    reach = demo.pose.bones["LeftHand"].constraints.new("IK")
    reach.target, reach.chain_count = goal, 3
    wave, slot = actions.new("wave", "Goal")
    keyframes.write_curve(
        actions.new_curve(wave, slot, "location", 2, "Goal"), np.array([1.0, 20]), np.array([0.5, 1.8])
    )
    result = run(demo)
    assert result.poses.clip_names == (walk.name,)
    assert any("wave was left out: on Goal it moves only" in note for note in result.notes)


@pytest.mark.parametrize("path", ["auto", "evaluated"])
def test_an_action_in_another_rotation_mode_is_left_out_with_the_reason(demo: Any, path: str) -> None:
    import bpy

    walk = bpy.data.actions["walk"]
    for bone in demo.pose.bones:
        bone.rotation_mode = "XYZ"
    with pytest.raises(ValueError, match=r"walk was left out.*another rotation mode than that of the bones .XYZ."):
        run(demo, [walk], path=path)
    demo.pose.bones["LeftArm"].rotation_mode = "QUATERNION"
    result = run(demo, [walk], path=path)
    assert any("walk has rotation keys that do not play on 22 bones" in note for note in result.notes)


def test_a_pose_that_is_held_is_taken_and_said(demo: Any) -> None:
    actions, keyframes = wing("blender.host.actions"), wing("blender.host.keyframes")
    keep_actions()
    held, slot = actions.new("held", demo.name)
    demo.pose.bones["LeftArm"].rotation_mode = "XYZ"
    curve = actions.new_curve(held, slot, 'pose.bones["LeftArm"].rotation_euler', 0, "LeftArm")
    keyframes.write_curve(curve, np.array([1.0, 20]), np.array([0.5, 0.5]))
    for path in ("fast", "evaluated"):
        result = run(demo, [held], path=path)
        assert result.poses.frames == 20
        assert "held stands still: its 20 poses are equal." in result.notes


def test_a_muted_group_plays_as_in_this_blender(demo: Any) -> None:
    import bpy

    actions = wing("blender.host.actions")
    (action,) = keep_actions("walk")
    slot = actions.slots_for(action, demo)[0]
    group = next(c.group for c in actions.curves(action, slot) if c.group and c.group.name == "RightArm")
    group.mute = True
    actions.assign(demo.animation_data, action, slot)
    for bone in demo.pose.bones:
        bone.matrix_basis.identity()
    bpy.context.scene.frame_set(6)
    seen = demo.pose.bones["RightArm"].rotation_quaternion.angle
    for path in ("fast", "evaluated"):
        poses = run(demo, [action], path=path).poses
        row = poses.rot[6 - int(action.frame_range[0]), poses.skeleton.names.index("RightArm")]
        assert abs(float(np.linalg.norm(row)) - seen) < 1e-3


def test_what_the_timeline_shows_is_taken_on_request(demo: Any) -> None:
    import bpy

    actions = wing("blender.host.actions")
    walk, kick = keep_actions("walk", "kick")
    data, scene = demo.animation_data, bpy.context.scene
    strip = data.nla_tracks.new().strips.new("base", 1, walk)
    if actions.SLOTTED:
        strip.action_slot = walk.slots[0]
    actions.assign(data, kick, actions.slots_for(kick, demo)[0])
    data.action_blend_type, data.action_influence = "ADD", 0.4
    scene.frame_start, scene.frame_end = 4, 12
    scene.frame_set(6, subframe=0.5)
    before = snapshot(demo)
    result = run(demo, [walk], timeline=True)
    assert snapshot(demo) == before
    assert result.poses.frames == 9
    assert result.poses.clip_names == (f"{scene.name} {demo.name}",)
    index = [[pb.name for pb in demo.pose.bones].index(name) for name in result.poses.skeleton.names]
    for row, frame in enumerate(range(4, 13)):
        scene.frame_set(frame)
        heads = np.array([pb.head[:] for pb in demo.pose.bones])[index]
        assert np.abs(heads - taken(result.poses, 0)[row]).max() < 10 * HOST
    scene.neural_ik.timeline = True
    assert bpy.ops.neural_ik.extract_data() == {"FINISHED"}
    assert wing("blender.host.memory").memory.poses.frames == 9


# ---- what poses cannot hold


def millimetres(notes: Any) -> float:
    return max((float(n) for note in notes for n in re.findall(r"([\d.]+) mm", note)), default=0.0)


@pytest.mark.parametrize("path", ["auto", "evaluated"])
def test_shifts_that_add_up_along_a_chain_are_told_as_they_are(demo: Any, path: str) -> None:
    actions, keyframes = wing("blender.host.actions"), wing("blender.host.keyframes")
    keep_actions()
    action, slot = actions.new("stretch", demo.name)

    def loosen(bones: Any) -> None:
        for bone in ("LeftShin", "LeftFoot", "LeftToeBase"):
            bones[bone].use_connect = False

    edit(demo, loosen)
    for bone in ("LeftShin", "LeftFoot"):
        down = np.array(demo.data.bones[bone].matrix_local)[:3, :3].T @ [0, 0, -0.1]
        for k in range(3):
            curve = actions.new_curve(action, slot, f'pose.bones["{bone}"].location', k, bone)
            keyframes.write_curve(curve, np.array([1.0, 20]), np.array([0.0, down[k]]))
    assert 199 <= millimetres(run(demo, [action], path=path).notes) <= 201


@pytest.mark.parametrize("path", ["auto", "evaluated"])
def test_what_a_turned_bone_between_carries_away_is_told(demo: Any, path: str) -> None:
    actions, keyframes = wing("blender.host.actions"), wing("blender.host.keyframes")
    keep_actions()

    def insert(bones: Any) -> None:
        middle = bones.new("Between")
        head, tail = bones["Spine"].tail.copy(), bones["Spine1"].head.copy()
        middle.head, middle.tail = head - (tail - bones["Spine"].head) * 0.5, tail
        middle.parent = bones["Spine"]
        bones["Spine1"].parent = middle

    edit(demo, insert)
    action, slot = actions.new("bow", demo.name)
    for k, value in enumerate((np.cos(0.5), np.sin(0.5), 0, 0)):
        curve = actions.new_curve(action, slot, 'pose.bones["Between"].rotation_quaternion', k, "Between")
        keyframes.write_curve(curve, np.array([1.0, 20]), np.array([float(k == 0), value]))
    result = run(demo, [action], path=path)
    index = [[pb.name for pb in demo.pose.bones].index(name) for name in result.poses.skeleton.names]
    away = np.abs(shown(demo, action, demo, range(1, 21))[:, index] - taken(result.poses, 0))
    lost = 1000 * np.linalg.norm(away, axis=-1).max()
    assert lost > 20
    assert abs(millimetres(result.notes) - lost) < 1


def test_axes_that_uneven_scale_shears_are_told(demo: Any) -> None:
    actions, keyframes = wing("blender.host.actions"), wing("blender.host.keyframes")
    keep_actions()
    action, slot = actions.new("squash", demo.name)
    for path, k, value in (("Spine2", 1, 1.6), ("LeftArm", 0, None)):
        channel = "scale" if value else "rotation_quaternion"
        for c in range(3 if value else 4):
            end = (value if c == k else 1.0) if value else (np.cos(0.4), 0, np.sin(0.4), 0)[c]
            curve = actions.new_curve(action, slot, f'pose.bones["{path}"].{channel}', c, path)
            keyframes.write_curve(curve, np.array([1.0, 20]), np.array([1.0 if value or c == 0 else 0.0, end]))
    assert any("degrees from those shown" in note for note in run(demo, [action]).notes)


# ---- what does not play


def test_curves_of_array_elements_that_do_not_exist_are_left_out_as_in_blender(demo: Any) -> None:
    actions = wing("blender.host.actions")
    (walk,) = keep_actions("0walk_forward")
    slot = actions.slots_for(walk, demo)[0]
    before = run(demo).poses
    for path, index in (('pose.bones["Hips"].location', 3), ('pose.bones["LeftArm"].rotation_quaternion', 4)):
        curve = actions.new_curve(walk, slot, path, index, "odd")
        curve.keyframe_points.insert(1, 2.0)
    assert np.array_equal(run(demo).poses.rot, before.rot)


def test_strips_that_a_soloed_track_silences_are_left_out(demo: Any) -> None:
    actions = wing("blender.host.actions")
    (walk,) = keep_actions("0walk_forward")
    data = demo.animation_data
    data.action = None
    for name in ("below", "solo", "above"):
        track = data.nla_tracks.new()
        strip = track.strips.new(name, 1, walk)
        if hasattr(strip, "action_slot"):
            strip.action_slot = actions.slots_for(walk, demo)[0]
        track.name = name
    data.nla_tracks["solo"].is_solo = True
    assert run(demo, [], nla=True).poses.clip_names == ("solo/solo",)


@pytest.mark.slow
def test_a_constraint_that_an_action_switches_on_is_evaluated(demo: Any) -> None:

    actions = wing("blender.host.actions")
    (walk,) = keep_actions("0walk_forward")
    actions.assign(demo.animation_data, walk, actions.slots_for(walk, demo)[0])
    follow = demo.pose.bones["LeftArm"].constraints.new("COPY_ROTATION")
    follow.target, follow.subtarget = demo, "RightArm"
    for frame, muted in ((1, True), (15, False), (16, True)):
        follow.mute = muted
        path = "enabled" if hasattr(follow, "enabled") else "mute"
        follow.keyframe_insert(path, frame=frame)
    follow.mute = True
    frames = range(1, 39)
    poses = run(demo).poses
    places = [pb.name for pb in demo.pose.bones]
    index = [places.index(name) for name in poses.skeleton.names]
    assert np.abs(shown(demo, walk, demo, frames)[:, index] - taken(poses, 0)).max() < 10 * HOST


def moving_empty() -> Any:
    """An empty with an action of its own."""
    import bpy

    made = bpy.data.objects.new("Mover", None)
    bpy.context.scene.collection.objects.link(made)
    for frame in (1, 40):
        made.location.y = frame / 10
        made.keyframe_insert("location", frame=frame)
    return made


def extracted(ob: Any, **options: Any) -> Any:
    import bpy

    extract = wing("blender.data.extract")
    work = extract.extract(bpy.context.scene, ob, [ob.animation_data.action], extract.Options(**options))
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def test_what_an_empty_carries_along_is_left_out_with_the_option_that_takes_it(demo: Any) -> None:
    import bpy

    made = demo.pose.bones["Hips"].constraints.new("CHILD_OF")
    made.target = moving_empty()
    bpy.context.view_layer.update()
    notes = [note for note in extracted(demo).notes if "Mover" in note]
    assert len(notes) == 1
    assert "whose own animation single actions leave out: switch on Timeline" in notes[0]
    whole = extracted(demo, timeline=True)
    assert not any("Mover" in note for note in whole.notes)
    assert float(np.ptp(whole.poses.root_pos, axis=0).max()) > 1


def test_an_animated_rest_position_is_refused_and_nobody_is_blamed(demo: Any) -> None:
    demo.data.keyframe_insert("pose_position", frame=1)
    with pytest.raises(ValueError, match="Rest Position is animated on the armature"):
        extracted(demo)


def test_bones_driven_by_a_property_of_the_armature_follow_what_drives_that(demo: Any) -> None:
    demo.data["turn"] = 0.0
    mover = moving_empty()
    for owner, path, index, who, aim in (
        (demo.data, '["turn"]', -1, mover, "location.y"),
        (demo.pose.bones["LeftArm"], "rotation_quaternion", 1, demo.data, '["turn"]'),
    ):
        driver = owner.driver_add(path, index).driver
        variable = driver.variables.new()
        if who == demo.data:
            variable.targets[0].id_type = "ARMATURE"
        variable.targets[0].id, variable.targets[0].data_path = who, aim
        driver.expression = variable.name
    found = wing("blender.host.dependencies").movers(demo, [pb.name for pb in demo.pose.bones])
    assert mover in found
    assert mover.animation_data.action in wing("blender.data.extract").moving_actions(demo)
