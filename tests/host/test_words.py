# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors tell the user what to do, and unusual rigs and files work."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import HOST

from neural_network.core import forward_kinematics
from neural_network.motion import pose_set

from .conftest import kept, wing
from .test_extract import difference, run, snapshot


def says(words: str, operator: Callable[..., Any], **options: Any) -> None:
    """Expect the operator to report this error, which a script sees as a RuntimeError."""
    with pytest.raises(RuntimeError, match=words) as caught:
        operator(**options)
    assert "Traceback" not in str(caught.value)


def edit(ob: Any, change: Callable[[Any], None]) -> None:
    """Edit an armature's bones in Edit Mode."""
    import bpy

    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    change(ob.data.edit_bones)
    bpy.ops.object.mode_set(mode="OBJECT")


def keep_actions(*names: str) -> list[Any]:
    """Remove all other actions, so that the test is fast."""
    import bpy

    for action in list(bpy.data.actions):
        if action.name not in names:
            bpy.data.actions.remove(action)
    return [bpy.data.actions[name] for name in names]


# ---- no character, no actions


def test_without_an_armature_the_error_says_so(empty: ModuleType) -> None:
    says("[Nn]o armature", empty.ops.neural_ik.extract_data)


def test_with_several_armatures_and_none_active_the_error_lists_them(empty: ModuleType) -> None:
    for name in "AB":
        ob = empty.data.objects.new(name, empty.data.armatures.new(name))
        empty.context.collection.objects.link(ob)
    empty.context.view_layer.objects.active = None
    says("[Ss]everal armatures", empty.ops.neural_ik.extract_data)


def test_the_active_mesh_stands_for_its_armature(demo: Any) -> None:
    import bpy

    bpy.context.view_layer.objects.active = bpy.data.objects["Neural IK Demo Body"]
    assert wing("blender.host.rig").find(bpy.context) == demo


def test_an_armature_without_bones_is_an_error(empty: ModuleType) -> None:
    ob = empty.data.objects.new("Bare", empty.data.armatures.new("Bare"))
    empty.context.collection.objects.link(ob)
    empty.context.view_layer.objects.active = ob
    says("no actions", empty.ops.neural_ik.extract_data)


def test_a_character_without_actions_is_an_error(empty: ModuleType) -> None:
    empty.ops.neural_ik.add_demo_character(motion=False)
    says("no actions", empty.ops.neural_ik.extract_data)


def test_with_no_action_enabled_the_error_says_so(demo: Any) -> None:
    import bpy

    for action in bpy.data.actions:
        action.neural_ik.use = False
    says("ticked", bpy.ops.neural_ik.extract_data)


def test_an_unknown_action_is_named(demo: Any) -> None:
    import bpy

    says("no action called nonsense", bpy.ops.neural_ik.extract_data, actions="nonsense")


def test_enabled_actions_and_their_tasks_are_used(demo: Any) -> None:
    import bpy

    for action in bpy.data.actions:
        action.neural_ik.use = action.name in ("walk", "kick")
    assert bpy.data.actions["kick"].neural_ik.task == "GUESS"
    bpy.data.actions["kick"].neural_ik.task = "dance"
    bpy.ops.neural_ik.extract_data()
    poses = wing("blender.host.memory").memory.poses
    assert dict(zip(poses.clip_names, poses.clip_tasks, strict=True)) == {"kick": "dance", "walk": "locomotion"}


def test_empty_actions_and_actions_for_other_objects_are_skipped_with_a_note(demo: Any) -> None:

    actions = wing("blender.host.actions")
    (walk,) = keep_actions("walk")
    nothing, _ = actions.new("nothing", demo.name)
    other, slot = actions.new("other", "Cube")
    actions.new_curve(other, slot, "location", 0, "Object").keyframe_points.insert(1, 2.0)
    result = run(demo, [walk, nothing, other])
    assert result.poses.clip_names == ("walk",)
    assert len(result.notes) == 2
    assert "nothing" in result.notes[0]
    with pytest.raises(ValueError, match="nothing to extract: nothing was left out"):
        run(demo, [nothing])


def test_the_slot_that_moves_this_rig_is_found_among_others(demo: Any) -> None:
    import bpy

    actions = wing("blender.host.actions")
    if not actions.SLOTTED:
        pytest.skip("before Blender 4.4 actions have no slots")
    (walk,) = keep_actions("walk")
    before = run(demo, [walk]).poses
    demo.animation_data.action = None
    walk.slots[0].name_display = "Somebody else"
    walk.slots.new("MATERIAL", "Skin")
    walk.slots.new("OBJECT", demo.name)  # of the right name, but empty
    for path in ("fast", "evaluated"):
        angle, distance = difference(before, run(demo, [walk], path=path).poses)
        assert max(angle, distance) <= 1e-4
    only = bpy.data.actions.new("materials")
    only.slots.new("MATERIAL", "Skin")
    assert "no slot for an object" in run(demo, [walk, only]).notes[0]


def test_range_and_step_choose_the_sampled_frames(demo: Any) -> None:
    (walk,) = keep_actions("walk")
    whole = run(demo, [walk]).poses
    part = run(demo, [walk], start=5, end=15, step=2).poses
    assert np.array_equal(part.rot, whole.rot[4:15:2])
    assert part.clip_fps[0] == whole.clip_fps[0] / 2
    half = [run(demo, [walk], step=0.5, path=path).poses for path in ("fast", "evaluated")]
    assert half[0].frames == 2 * whole.frames - 1
    assert max(difference(*half)) <= 1e-4
    with pytest.raises(ValueError, match="no frame in the chosen range"):
        run(demo, [walk], start=5000)
    with pytest.raises(ValueError, match="step"):
        run(demo, [walk], step=0.0)


def test_without_root_motion_only_the_height_is_kept(demo: Any) -> None:
    (walk,) = keep_actions("walk")
    moving, staying = (run(demo, [walk], root_motion=keep).poses for keep in (True, False))
    assert np.ptp(moving.root_pos[:, :2], axis=0).max() > 0.3
    assert np.allclose(staying.root_pos[:, :2], staying.skeleton.rest_arm[0, :2, 3], atol=1e-6)
    assert np.allclose(staying.root_pos[:, 2], moving.root_pos[:, 2], atol=1e-6)


def test_nla_strips_are_extracted_on_request(demo: Any) -> None:
    (walk,) = keep_actions("walk")
    direct = run(demo, [walk]).poses
    strip = demo.animation_data.nla_tracks.new().strips.new("stride", 101, walk)
    if wing("blender.host.actions").SLOTTED:
        strip.action_slot = walk.slots[0]
    before = snapshot(demo)
    poses = run(demo, [walk], nla=True).poses
    assert poses.clip_names == ("walk", f"{demo.animation_data.nla_tracks[0].name}/stride")
    assert np.abs(poses.rot[poses.rows(1)] - direct.rot).max() <= 1e-4
    assert snapshot(demo) == before


# ---- awkward rigs


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ((0, 0, 0), "scale of zero"),
        ((-1, 1, 1), "negative scale"),
        ((-1, -1, -1), "negative scale"),
        ((1, 1, 2), "uneven"),
    ],
)
def test_an_unsupported_scale_is_named(demo: Any, scale: tuple[float, ...], words: str) -> None:
    import bpy

    demo.scale = scale
    bpy.context.view_layer.update()
    says(words, bpy.ops.neural_ik.extract_data)


@pytest.mark.parametrize("path", ["fast", "evaluated"])
def test_a_moved_rotated_and_scaled_object_gives_the_same_motion(demo: Any, path: str) -> None:
    import bpy

    (walk,) = keep_actions("walk")
    plain = run(demo, [walk], path=path).poses
    demo.location, demo.rotation_euler, demo.scale = (5, -3, 2), (0, 0, 1.1), (2.5, 2.5, 2.5)
    bpy.context.view_layer.update()
    moved = run(demo, [walk], path=path).poses
    assert np.abs(moved.rot[:, 1:] - plain.rot[:, 1:]).max() <= 1e-4
    own, other = (
        forward_kinematics.armature_matrices(p.skeleton, p.rot, p.root_pos)[..., :3, 3] for p in (plain, moved)
    )
    turn = np.array(demo.matrix_world)[:3, :3]
    assert np.abs(own @ turn.T - other).max() <= 10 * HOST
    assert moved.skeleton.leg_length == pytest.approx(2.5 * plain.skeleton.leg_length, rel=1e-5)


def test_motion_of_the_object_itself_counts_as_root_motion(demo: Any) -> None:
    import bpy

    actions = wing("blender.host.actions")
    (walk,) = keep_actions("walk")
    before = run(demo, [walk]).poses
    slot = actions.slots_for(walk, demo)[0]
    curve = actions.new_curve(walk, slot, "location", 0, "Object")
    curve.keyframe_points.insert(1, 0.0)
    curve.keyframe_points.insert(38, 3.7)
    demo.location = (0, 0, 0)
    bpy.context.scene.frame_set(20)
    state = snapshot(demo)
    bpy.context.scene.frame_set(1)
    after = run(demo, [walk])
    assert "moves the object" in after.notes[0]
    assert after.poses.root_pos[-1, 0] - before.root_pos[-1, 0] == pytest.approx(3.7, abs=1e-3)
    bpy.context.scene.frame_set(20)
    assert snapshot(demo) == state


def test_constraints_need_the_evaluated_path_which_hidden_rigs_do_not_have(demo: Any) -> None:

    (walk,) = keep_actions("walk")
    plain = run(demo, [walk]).poses
    limit = demo.pose.bones["LeftShin"].constraints.new("COPY_ROTATION")
    limit.target, limit.subtarget = demo, "RightShin"
    result = run(demo, [walk])
    assert "LeftShin has the constraint" in result.notes[0]
    shin = plain.skeleton.names.index("LeftShin")
    assert np.abs(result.poses.rot[:, shin] - plain.rot[:, shin]).max() > 0.1
    others = [j for j in range(plain.skeleton.count) if j not in (shin, shin + 1)]
    assert np.abs(result.poses.rot[:, others] - plain.rot[:, others]).max() <= 1e-4
    demo.hide_set(True)
    with pytest.raises(ValueError, match="hidden"):
        run(demo, [walk])
    limit.mute = True
    assert max(difference(run(demo, [walk]).poses, plain)) <= 1e-6


def test_every_rotation_mode_agrees_on_both_paths(demo: Any) -> None:
    actions = wing("blender.host.actions")
    keep_actions("walk")
    action, slot = actions.new("turns", demo.name)
    rng = np.random.default_rng(3)
    modes = ["QUATERNION", "AXIS_ANGLE", "XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX"]
    for pb, mode in zip(demo.pose.bones, modes * 3, strict=False):
        pb.rotation_mode = mode
        channel = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}.get(mode, "rotation_euler")
        for component in range(4 if mode in ("QUATERNION", "AXIS_ANGLE") else 3):
            curve = actions.new_curve(action, slot, f'pose.bones["{pb.name}"].{channel}', component, pb.name)
            for frame in (1, 5, 9):  # between the keys Blender interpolates
                curve.keyframe_points.insert(frame, rng.normal(0, 0.7))
    fast, evaluated = (run(demo, [action], path=path).poses for path in ("fast", "evaluated"))
    assert max(difference(fast, evaluated)) <= 1e-4
    assert np.abs(fast.rot).max() > 0.5


def test_bones_above_the_hips_and_between_thigh_and_shin_are_accounted_for(demo: Any) -> None:
    actions = wing("blender.host.actions")
    (walk,) = keep_actions("walk")

    def insert(bones: Any) -> None:
        root, helper = bones.new("root"), bones.new("helper")
        root.head, root.tail = (0, 0, 0), (0, 0.3, 0)
        bones["Hips"].parent = root
        helper.head, helper.tail = bones["LeftThigh"].tail, bones["LeftThigh"].tail + bones["LeftThigh"].vector
        helper.parent = bones["LeftThigh"]
        bones["LeftShin"].parent = helper

    edit(demo, insert)
    slot = actions.slots_for(walk, demo)[0]
    for path, value in (('pose.bones["root"].location', 2.0), ('pose.bones["helper"].rotation_euler', 0.5)):
        curve = actions.new_curve(walk, slot, path, 1, "more")
        curve.keyframe_points.insert(1, 0.0)
        curve.keyframe_points.insert(30, value)
    demo.pose.bones["helper"].rotation_mode = "XYZ"
    fast, evaluated = (run(demo, [walk], path=path).poses for path in ("fast", "evaluated"))
    assert fast.skeleton.count == 23
    assert max(difference(fast, evaluated)) <= 1e-4


def test_missing_feet_are_named(demo: Any) -> None:
    import bpy

    def behead(bones: Any) -> None:
        for side in ("Left", "Right"):
            for name in ("Shin", "Foot", "ToeBase"):
                bones.remove(bones[side + name])

    edit(demo, behead)
    says("LeftFoot", bpy.ops.neural_ik.extract_data)


AWKWARD = {
    "Hips": 'hips.01:"root"',
    "LeftArm": "mixamorig:Left Arm",
    "LeftFoot": "Fuß links ä.L",
    "Head": "頭",
    "RightHand": "back\\slash]",
}


def test_names_with_dots_colons_spaces_quotes_and_unicode_survive(demo: Any, tmp_path: Path) -> None:
    rig = wing("blender.host.rig")
    (walk,) = keep_actions("walk")
    before = run(demo, [walk]).poses
    paths = [f'pose.bones["{bone}"]' for bone in AWKWARD]
    for old, new in AWKWARD.items():
        demo.data.bones[old].name = new  # Blender follows in the curves of the actions it plays
    import bpy

    for curve in wing("blender.host.actions").curves(walk, wing("blender.host.actions").slots_for(walk, demo)[0]):
        for path, new in zip(paths, AWKWARD.values(), strict=True):
            if curve.data_path.startswith(path):
                curve.data_path = f'pose.bones["{bpy.utils.escape_identifier(new)}"]' + curve.data_path[len(path) :]
    named = [AWKWARD.get(name, name) for name in before.skeleton.names]
    found = rig.read(demo)
    assert set(found.skeleton.names) <= set(named)
    for path in ("fast", "evaluated"):
        poses = run(demo, [walk], path=path).poses
        for j, name in enumerate(poses.skeleton.names):
            assert np.abs(poses.rot[:, j] - before.rot[:, named.index(name)]).max() <= 1e-4
    pose_set.save(tmp_path / "awkward.npz", poses)
    assert pose_set.load(tmp_path / "awkward.npz").skeleton.names == poses.skeleton.names


def test_three_hundred_bones_change_nothing(demo: Any) -> None:
    (walk,) = keep_actions("walk")
    before = run(demo, [walk]).poses

    def crowd(bones: Any) -> None:
        above = bones["Spine2"]
        for i in range(277):
            bone = bones.new(f"extra.{i:03d}")
            bone.head, bone.tail = (0, 0.1 + i * 0.001, 1.5), (0, 0.1 + i * 0.001, 1.6)
            bone.parent = above if i % 9 == 0 else bones[f"extra.{i - 1:03d}"]

    edit(demo, crowd)
    assert len(demo.pose.bones) == 300
    for path in ("fast", "evaluated"):
        assert max(difference(before, run(demo, [walk], path=path).poses)) <= 1e-4


def test_two_objects_that_share_an_armature_are_kept_apart(demo: Any) -> None:
    import bpy

    actions = wing("blender.host.actions")
    walk, kick = keep_actions("walk", "kick")
    twin = bpy.data.objects.new("Twin", demo.data)
    bpy.context.collection.objects.link(twin)
    bpy.context.view_layer.update()
    actions.assign(twin.animation_data_create(), kick, actions.slots_for(kick, twin)[0])
    bpy.context.scene.frame_set(3)
    before = snapshot(twin)
    for path in ("fast", "evaluated"):
        assert max(difference(run(demo, [walk], path=path).poses, run(twin, [walk], path=path).poses)) <= 1e-4
    assert snapshot(twin) == before


def test_an_armature_linked_from_a_library_is_read_but_not_evaluated(demo: Any, tmp_path: Path) -> None:
    import bpy

    keep_actions("walk")
    name = demo.name
    own = run(demo).poses
    path = tmp_path / "library.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path), copy=True)
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    with bpy.data.libraries.load(str(path), link=True) as (_, into):
        into.objects, into.actions = [name], ["walk"]
    linked = into.objects[0]
    bpy.context.collection.objects.link(linked)
    bpy.context.view_layer.objects.active = linked
    assert max(difference(own, run(linked).poses)) <= 1e-6
    with pytest.raises(ValueError, match="linked from a library"):
        run(linked, path="evaluated")
    says("linked from a library", bpy.ops.neural_ik.extract_data, path="evaluated")


def test_edit_mode_is_named(demo: Any) -> None:
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")
    says("Edit Mode", bpy.ops.neural_ik.extract_data)
    bpy.ops.object.mode_set(mode="OBJECT")


# ---- files


def test_a_folder_that_cannot_be_created_is_named(demo: Any, tmp_path: Path) -> None:
    import bpy

    keep_actions("walk")
    bpy.ops.neural_ik.extract_data()
    (tmp_path / "file").write_text("in the way")
    bpy.context.preferences.addons[wing("blender.host.memory").memory.package].preferences.folder = str(
        tmp_path / "file" / "sub"
    )
    says("cannot make the folder", bpy.ops.neural_ik.save_data)
    assert wing("blender.host.memory").memory.unsaved


def test_a_full_disk_is_named_and_the_older_file_survives(demo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import bpy

    keep_actions("walk")
    bpy.ops.neural_ik.extract_data()
    bpy.ops.neural_ik.save_data()
    path = kept().poses
    before = path.read_bytes()
    beside = sorted(path.parent.iterdir())

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    says("No space left", bpy.ops.neural_ik.save_data)
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == beside


def test_a_damaged_file_is_named(empty: ModuleType) -> None:
    path = wing("blender.host.characters").earlier_poses()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not an archive")
    says("expected training data", empty.ops.neural_ik.load_data)
    says("best.npy", empty.ops.neural_ik.load_weights, filepath=str(path.with_name("best.npy")))


def test_unavailable_operators_give_the_reason(empty: ModuleType) -> None:
    says("[Ee]xtract them first", empty.ops.neural_ik.save_data)
    says("[Nn]o weights", empty.ops.neural_ik.run_tests)
    says("no weights to forget", empty.ops.neural_ik.reset_weights)
    wing("blender.host.memory").memory.unsaved = True
    says("Save to Disk first", empty.ops.neural_ik.train)
