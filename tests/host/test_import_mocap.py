# SPDX-License-Identifier: GPL-3.0-or-later
"""Import Mocap: files onto a character as actions, into memory, or as armatures of their own; and what goes wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import HOST

from benchmarks import rigs
from neural_network.formats import bvh
from tests.formats import figures

from .conftest import wing
from .test_words import edit, keep_actions, says


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two walks of two kinds of rigs, and two files that are none."""
    out = tmp_path / "takes"
    out.mkdir()
    made = rigs.all_rigs()
    for name, family in (("mixamo", "mixamo"), ("biped", "3ds max biped")):
        bvh.write(out / f"{name}_walk.bvh", rigs.walk(made[family]))
    (out / "broken.bvh").write_text("HIERARCHY\nROOT Hips\n{\n")
    (out / "notes.txt").write_text("not motion")
    return out


def import_mocap(folder: Path, **more: Any) -> set[str]:
    """As a script calls the button."""
    import bpy

    return set(bpy.ops.neural_ik.import_mocap(directory=str(folder), **more))


def written(work: Any) -> Any:
    """What a generator returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def armature_heads(ob: Any, rig: Any) -> np.ndarray:
    """(J, 3) [m] heads of the controlled bones as Blender shows them, in rig space."""
    heads = np.array([ob.pose.bones[int(b)].matrix.translation for b in rig.index])
    return heads @ rig.turn.T * rig.unit


def test_a_folder_becomes_actions_that_show_what_retargeting_says(demo: Any, folder: Path) -> None:
    import bpy

    before = set(bpy.data.actions)
    assert import_mocap(folder) == {"FINISHED"}
    made = sorted(set(bpy.data.actions) - before, key=lambda a: a.name)
    assert [a.name for a in made] == ["biped_walk", "mixamo_walk"]
    assert all(a.use_fake_user for a in made)
    report = bpy.data.texts["Neural IK Import"].as_string()
    assert "2 clips from 2 of 3 files" in report
    assert "broken.bvh: not taken." in report
    mocap, rig, actions = wing("blender.data.mocap"), wing("blender.host.rig"), wing("blender.host.actions")
    importing, fk = wing("formats.importing"), wing("core.forward_kinematics")
    own = rig.read(demo)
    fps = bpy.context.scene.render.fps / bpy.context.scene.render.fps_base
    row, (poses,) = mocap.poses_of(folder / "mixamo_walk.bvh", importing.ImportOptions(fps=fps), own)
    assert row.kept == poses.frames
    expected = fk.armature_matrices(own.skeleton, poses.rot.astype(float), poses.root_pos.astype(float))[..., :3, 3]
    action = made[1]
    actions.assign(demo.animation_data, action, action.slots[0] if actions.SLOTTED else None)
    for frame in (0, poses.frames // 2, poses.frames - 1):
        bpy.context.scene.frame_set(frame + 1)
        assert np.abs(armature_heads(demo, own) - expected[frame]).max() < HOST


def test_somebody_who_sits_gets_the_floor_on_which_the_other_takes_stand(demo: Any, tmp_path: Path) -> None:
    import bpy

    heights = {}
    for others in ([], ["stand"]):
        folder = tmp_path / f"with {len(others)}"
        folder.mkdir()
        figures.take(folder, "sit.bvh", -1.0, figures.SITTING)
        for name in others:
            figures.take(folder, f"{name}.bvh", -1.06, figures.STANDING)
        assert import_mocap(folder, into="MEMORY") == {"FINISHED"}
        memory = wing("blender.host.memory").memory
        poses = memory.poses
        heights |= {
            f"{name} of {1 + len(others)}": float(poses.root_pos[poses.rows(n), 2].mean())
            for n, name in enumerate(poses.clip_names)
        }
        memory.poses, memory.unsaved = None, False
    assert heights["sit of 2"] - heights["sit of 1"] > 0.3
    assert heights["sit of 2"] - heights["stand of 2"] == pytest.approx(0.07, abs=0.06)
    assert "nobody stands in sit" in bpy.data.texts["Neural IK Import"].as_string()


@pytest.mark.parametrize("up", ["AUTO", "-Y"])
def test_a_figure_in_the_axes_of_a_camera_stands_on_its_feet(demo: Any, tmp_path: Path, up: str) -> None:
    import bpy

    (tmp_path / "camera.bvh").write_text(figures.bvh(rest=-1))
    assert import_mocap(tmp_path, up_axis=up, leave_out_faults=True) == {"FINISHED"}
    report = bpy.data.texts["Neural IK Import"].as_string()
    assert "-Y up" in report
    assert ("upside down" in report) == (up == "AUTO")


def test_what_was_imported_extracts_as_what_was_carried(demo: Any, folder: Path) -> None:
    import bpy

    for action in list(bpy.data.actions):
        bpy.data.actions.remove(action)
    assert import_mocap(folder) == {"FINISHED"}
    assert bpy.ops.neural_ik.extract_data() == {"FINISHED"}
    extracted = wing("blender.host.memory").memory.poses
    assert import_mocap(folder, into="MEMORY") == {"FINISHED"}
    both = wing("blender.host.memory").memory.poses
    assert both.clip_names == ("biped_walk", "mixamo_walk") * 2
    assert both.clip_tasks == ("locomotion",) * 4
    half = extracted.frames
    assert both.frames == 2 * half
    turned = wing("core.rotations").matrix_from_axis_angle(both.rot.astype(float))
    assert np.abs(turned[:half] - turned[half:]).max() < 1e-5
    assert np.abs(both.root_pos[:half] - both.root_pos[half:]).max() < 1e-5
    assert wing("blender.host.memory").memory.unsaved


def test_other_rotation_modes_units_and_control_bones_above_the_hips(demo: Any, folder: Path) -> None:
    import bpy

    bpy.context.view_layer.objects.active = demo
    bpy.ops.object.mode_set(mode="EDIT")
    control = demo.data.edit_bones.new("root")
    control.head, control.tail = (0, 0, 0), (0, 0.3, 0)
    demo.data.edit_bones["Hips"].parent = control
    bpy.ops.object.mode_set(mode="OBJECT")
    demo.pose.bones["LeftArm"].rotation_mode = "ZXY"
    demo.pose.bones["RightArm"].rotation_mode = "AXIS_ANGLE"
    demo.pose.bones["root"].location = (1, 2, 3)  # a pose that the motion does not mean
    demo.scale = (0.01,) * 3
    demo.rotation_euler = (0.3, 0.2, 1.0)
    bpy.context.view_layer.update()
    mocap, rig, importing = wing("blender.data.mocap"), wing("blender.host.rig"), wing("formats.importing")
    own = rig.read(demo)
    row, (poses,) = mocap.poses_of(folder / "biped_walk.bvh", importing.ImportOptions(), own)
    assert row.read
    action, slot = written(mocap.write(demo, own, poses))
    wing("blender.host.actions").assign(demo.animation_data, action, slot)
    fk = wing("core.forward_kinematics")
    expected = fk.armature_matrices(own.skeleton, poses.rot.astype(float), poses.root_pos.astype(float))[..., :3, 3]
    for frame in (0, poses.frames - 1):
        bpy.context.scene.frame_set(frame + 1)
        assert np.abs(armature_heads(demo, own) - expected[frame]).max() < HOST


def test_without_a_character_each_skeleton_becomes_an_armature(empty: ModuleType, folder: Path) -> None:
    bvh.write(folder / "mixamo_again.bvh", rigs.walk(rigs.all_rigs()["mixamo"], frames=20))
    assert import_mocap(folder) == {"FINISHED"}
    made = [ob for ob in empty.data.objects if ob.type == "ARMATURE"]
    assert len(made) == 2
    assert len(empty.data.actions) == 3
    assert all(ob.animation_data.action is not None for ob in made)
    source = bvh.read(folder / "biped_walk.bvh")
    ob = next(ob for ob in made if ob.name.startswith("biped"))
    empty.context.scene.frame_set(1)
    hips = next(pb for pb in ob.pose.bones if pb.parent is None)
    assert hips.name in source.names
    assert 0.5 < hips.head.z < 1.5  # Z up, in metres


def test_a_closed_generator_leaves_the_file_as_it_was(demo: Any, folder: Path) -> None:
    import bpy

    mocap, importing = wing("blender.data.mocap"), wing("formats.importing")
    files = importing.find_files([folder])
    before = set(bpy.data.actions), set(bpy.data.objects), set(bpy.data.armatures)
    demo.animation_data_clear()
    for ob in (demo, None):
        work = mocap.import_files(bpy.context, ob, files, importing.ImportOptions(fps=30))
        for _ in range(len(files) + 2):  # all files, and the keys of the first clip
            next(work)
        assert set(bpy.data.actions) != before[0]
        work.close()
        assert (set(bpy.data.actions), set(bpy.data.objects), set(bpy.data.armatures)) == before
        assert demo.animation_data is None
        assert bpy.context.view_layer.objects.active == demo
        assert bpy.context.selected_objects == [demo]


def test_what_cannot_be_imported_is_said_in_words(demo: Any, folder: Path, tmp_path: Path) -> None:
    import bpy

    run = bpy.ops.neural_ik.carry_mocap
    says("no such file or folder", run, paths=json.dumps([str(tmp_path / "nowhere")]))
    says("no such file or folder", bpy.ops.neural_ik.import_mocap, directory=str(tmp_path / "nowhere"))
    (tmp_path / "none").mkdir()
    says("file in", run, paths=json.dumps([str(tmp_path / "none")]))
    says("no clip in 1 file", run, paths=json.dumps([str(folder / "broken.bvh")]))
    bpy.data.objects.remove(demo)
    for ob in list(bpy.data.objects):
        bpy.data.objects.remove(ob)
    says("no character to carry", run, paths=json.dumps([str(folder)]), into="MEMORY")


def test_a_creature_is_refused_in_words(empty: ModuleType, folder: Path) -> None:
    empty.ops.object.armature_add()
    ob = empty.context.active_object
    empty.ops.object.mode_set(mode="EDIT")
    for name in ("a", "b", "c"):
        bone = ob.data.edit_bones.new(name)
        bone.head, bone.tail = (0, 0, 1), (0.3 if name == "a" else -0.3, 0.2 if name == "b" else 0, 1.4)
        bone.parent = ob.data.edit_bones[0]
    empty.ops.object.mode_set(mode="OBJECT")
    says("no roles of a human", empty.ops.neural_ik.carry_mocap, paths=json.dumps([str(folder)]))


def test_poses_of_another_character_are_not_lost(demo: Any, folder: Path) -> None:
    import bpy

    memory = wing("blender.host.memory").memory
    bpy.ops.neural_ik.extract_data()
    held = memory.poses
    bpy.context.view_layer.objects.active = demo
    bpy.ops.object.mode_set(mode="EDIT")
    for side in ("Left", "Right"):
        demo.data.edit_bones.remove(demo.data.edit_bones[f"{side}ToeBase"])
    bpy.ops.object.mode_set(mode="OBJECT")
    paths = json.dumps([str(folder)])
    says("Save to Disk first", bpy.ops.neural_ik.carry_mocap, paths=paths, into="MEMORY")
    assert memory.poses is held
    bpy.ops.neural_ik.save_data()
    assert bpy.ops.neural_ik.carry_mocap(paths=paths, into="MEMORY") == {"FINISHED"}
    assert memory.poses.skeleton.count == 21


@pytest.mark.parametrize("name", ["bvh", "asfamc"])
def test_real_captures_come_onto_the_demo_character(demo: Any, mocap: Path, name: str) -> None:
    files = sorted((mocap / name).rglob("*.[ba][vm][hc]"))[:: 12 if name == "bvh" else 3]
    if not files:
        pytest.skip(f"no files in {mocap / name}")
    import bpy

    assert bpy.ops.neural_ik.carry_mocap(paths=json.dumps(list(map(str, files)))) == {"FINISHED"}
    assert "not taken" not in bpy.data.texts["Neural IK Import"].as_string()


def test_bones_that_something_else_moves_are_refused_before_keys_are_lost_on_them(demo: Any, folder: Path) -> None:
    import bpy

    constraint = demo.pose.bones["LeftShin"].constraints.new("IK")
    paths = json.dumps([str(folder)])
    before = set(bpy.data.actions)
    says("would override an imported action", bpy.ops.neural_ik.carry_mocap, paths=paths)
    assert set(bpy.data.actions) == before
    assert bpy.ops.neural_ik.carry_mocap(paths=paths, into="MEMORY") == {"FINISHED"}
    constraint.mute = True
    assert bpy.ops.neural_ik.carry_mocap(paths=paths) == {"FINISHED"}


def test_names_that_blender_cannot_hold_leave_nothing_behind(empty: ModuleType, tmp_path: Path) -> None:
    walk = rigs.walk(rigs.all_rigs()["mixamo"])
    long = tuple(f"{name}_{'x' * 60}" for name in walk.names)
    bvh.write(tmp_path / "long.bvh", replace(walk, names=long))
    says("too long", empty.ops.neural_ik.carry_mocap, paths=json.dumps([str(tmp_path / "long.bvh")]))
    assert not len(empty.data.objects)
    assert not len(empty.data.armatures)
    assert not len(empty.data.actions)


def connect(demo: Any, bones_between: int) -> None:
    """Extrude the Hips from a root bone, or from the last of several: Blender then ignores the location of the Hips."""

    def extrude(bones: Any) -> None:
        above, start, end = None, np.zeros(3), np.array(bones["Hips"].head)
        for i in range(bones_between + 1):
            bone = bones.new(f"root{i}")
            bone.head = (start + (end - start) * i / (bones_between + 1)).tolist()
            bone.tail = (start + (end - start) * (i + 1) / (bones_between + 1)).tolist()
            bone.parent, bone.use_connect = above, above is not None
            above = bone
        bones["Hips"].parent, bones["Hips"].use_connect = above, True

    edit(demo, extrude)


@pytest.mark.parametrize("bones_between", [0, 2])
def test_connected_hips_walk_by_the_bone_above_that_may_move(demo: Any, folder: Path, bones_between: int) -> None:
    import bpy

    keep_actions()
    connect(demo, bones_between)
    assert import_mocap(folder) == {"FINISHED"}
    mocap, rig, importing = wing("blender.data.mocap"), wing("blender.host.rig"), wing("formats.importing")
    fk, actions = wing("core.forward_kinematics"), wing("blender.host.actions")
    own = rig.read(demo)
    fps = bpy.context.scene.render.fps / bpy.context.scene.render.fps_base
    _, (poses,) = mocap.poses_of(folder / "mixamo_walk.bvh", importing.ImportOptions(fps=fps), own)
    expected = fk.armature_matrices(own.skeleton, poses.rot.astype(float), poses.root_pos.astype(float))[..., :3, 3]
    assert np.linalg.norm(expected[-1, 0] - expected[0, 0]) > 0.5
    action = bpy.data.actions["mixamo_walk"]
    actions.assign(demo.animation_data, action, actions.slots_for(action, demo)[0])
    for frame in (0, poses.frames // 2, poses.frames - 1):
        bpy.context.scene.frame_set(frame + 1)
        assert np.abs(armature_heads(demo, own) - expected[frame]).max() < HOST


def _delete(demo: Any) -> None:
    import bpy

    bpy.data.objects.remove(demo)


def _shorten(demo: Any) -> None:
    edit(demo, lambda bones: bones.remove(bones["LeftToeBase"]))


def _into_edit_mode(demo: Any) -> None:
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")


def _delete_made(demo: Any) -> None:
    import bpy

    bpy.data.actions.remove(next(action for action in bpy.data.actions if "walk" in action.name))


@pytest.mark.parametrize(
    ("steps", "change", "words"),
    [
        (2, _delete, "was deleted meanwhile"),
        (2, _shorten, "were changed meanwhile"),
        (2, _into_edit_mode, "Edit Mode"),
        (4, _delete, "deleted meanwhile"),
        (4, _into_edit_mode, "Edit Mode"),
        (5, _delete_made, "deleted meanwhile"),
        (5, _shorten, "changed meanwhile"),
    ],
)
def test_what_changes_meanwhile_stops_an_import_in_words(
    demo: Any, folder: Path, steps: int, change: Any, words: str
) -> None:
    import bpy

    keep_actions()
    mocap, importing = wing("blender.data.mocap"), wing("formats.importing")
    files = sorted(folder.glob("*.bvh"))
    work = mocap.import_files(bpy.context, demo, files, importing.ImportOptions(fps=30.0))
    for _ in range(steps):
        next(work)
    change(demo)
    with pytest.raises(ValueError, match=words):
        list(work)
    if change is _into_edit_mode:
        assert demo.mode == "EDIT"
        bpy.ops.object.mode_set(mode="OBJECT")
    assert list(bpy.data.actions) == []


def test_a_cancelled_import_leaves_mode_and_selection_as_they_were(empty: ModuleType, folder: Path) -> None:
    mocap, importing = wing("blender.data.mocap"), wing("formats.importing")
    empty.ops.mesh.primitive_cube_add()
    cube = empty.context.active_object
    empty.ops.object.mode_set(mode="EDIT")
    files = sorted(folder.glob("*.bvh"))
    for steps in range(1, 6):
        work = mocap.import_files(empty.context, None, files, importing.ImportOptions(fps=30.0))
        for _ in range(steps):
            next(work)
        work.close()
        assert (cube.mode, empty.context.active_object) == ("EDIT", cube)
        assert [ob.name for ob in empty.data.objects] == [cube.name]
        assert not len(empty.data.actions)
        assert not len(empty.data.armatures)
