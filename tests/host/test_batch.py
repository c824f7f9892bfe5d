# SPDX-License-Identifier: GPL-3.0-or-later
"""Batch extraction as it is typed: a folder of files in, poses out, and nothing stops at a bad file."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import HOST, hear_hangups

from benchmarks import rigs
from neural_network.formats import bvh
from neural_network.motion import pose_set

from .conftest import wing
from .test_extract import run
from .test_extract_movers import control_rig
from .test_words import keep_actions


def batch(extension: ModuleType, *words: Any) -> subprocess.CompletedProcess[str]:
    """The program from the installed zip, in a Blender of its own."""
    return subprocess.run(
        command(extension, *words), capture_output=True, text=True, encoding="utf-8", timeout=600, check=False
    )


def command(extension: ModuleType, *words: Any) -> list[str]:
    """The words with which :func:`batch` starts the program."""
    program = Path(extension.__file__ or "").with_name("batch_extract.py")
    import bpy

    inside = [bpy.app.binary_path, "--background", "--python-exit-code", "1", "--python"]
    start = [*inside, str(program), "--"] if bpy.app.binary_path else [sys.executable, "-B", str(program)]
    return [*start, *map(str, words)]


@pytest.fixture
def folder(demo: Any, tmp_path: Path) -> Path:
    """The demo character as a .blend, twice over; a walk as a BVH; and files that hold nothing."""
    import bpy

    out = tmp_path / "takes"
    (out / "deeper").mkdir(parents=True)
    for action in list(bpy.data.actions)[3:]:
        bpy.data.actions.remove(action)
    bpy.ops.wm.save_as_mainfile(filepath=str(out / "a.blend"), copy=True)
    bpy.ops.wm.save_as_mainfile(filepath=str(out / "deeper" / "ä b.blend"), copy=True)
    bvh.write(out / "walk.bvh", rigs.walk(rigs.all_rigs()["mixamo"]))
    (out / "broken.bvh").write_text("HIERARCHY\nROOT Hips\n{\n")
    (out / "broken.blend").write_bytes(b"BLENDER but not really")
    (out / "broken.glb").write_bytes(b"glTF")
    (out / "empty.fbx").write_bytes(b"")
    (out / "notes.txt").write_text("not motion")
    return out


def test_a_folder_becomes_one_file_for_each_skeleton(
    extension: ModuleType, demo: Any, folder: Path, tmp_path: Path
) -> None:
    import bpy

    names = sorted(a.name for a in wing("blender.data.extract").moving_actions(demo))
    bpy.ops.neural_ik.extract_data()
    expected = wing("blender.host.memory").memory.poses
    done = batch(extension, folder, "-o", tmp_path / "out" / "data.npz", "--json", tmp_path / "rows.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(["data-walk.npz", f"data-{names[0]}.npz"])
    both = pose_set.load(tmp_path / "out" / f"data-{names[0]}.npz")
    assert sorted(both.clip_names) == sorted(names * 2)
    assert np.abs(both.rot[: expected.frames] - expected.rot).max() < HOST
    assert both.skeleton.fingerprint == expected.skeleton.fingerprint
    assert pose_set.load(tmp_path / "out" / "data-walk.npz").clip_names == ("walk",)
    rows = [json.loads(line) for line in (tmp_path / "rows.json").read_text("utf-8").splitlines()]
    refused = {Path(row["path"]).name for row in rows if row["reason"]}
    assert refused == {"broken.bvh", "broken.blend", "broken.glb", "empty.fbx"}
    assert all("Traceback" not in row["reason"] for row in rows)
    told = [line for line in done.stdout.splitlines() if "/7 broken" in line]
    assert len(told) == 3
    assert all("not taken." in line for line in told)


def test_everything_comes_onto_the_reference_rig_if_asked(extension: ModuleType, folder: Path, tmp_path: Path) -> None:
    done = batch(extension, folder, "-o", tmp_path / "data.npz", "--rig", "reference", "--fps", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    poses = pose_set.load(tmp_path / "data.npz")
    assert poses.skeleton.count == 23
    assert len(poses.clip_names) == 7
    assert np.allclose(poses.clip_fps, 20)


def test_what_the_user_got_wrong_is_said_with_exit_code_2(extension: ModuleType, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    for words, said in (
        ((tmp_path / "nowhere", "-o", tmp_path / "d.npz"), "no such file or folder"),
        ((tmp_path / "none", "-o", tmp_path / "d.npz"), "file in"),
        ((folder, "-o", tmp_path / "d.txt"), ".npz"),
        ((folder, "-o", tmp_path / "d.npz", "--fps", "0"), "--fps"),
        ((folder, "-o", folder / "walk.bvh" / "d.npz"), "cannot write"),
        ((folder, "-o", tmp_path / "d.npz", "--json", tmp_path / "none"), "expected a file name, got the folder"),
    ):
        done = batch(extension, *words)
        assert done.returncode == 2, done.stdout + done.stderr
        assert said in done.stderr
    done = batch(extension, folder / "broken.bvh", "-o", tmp_path / "d.npz")
    assert done.returncode == 1
    assert "no poses in 1 file; the first reason: " in done.stderr
    assert not list(tmp_path.glob("*.npz"))


def test_real_glb_and_fbx_files_pose_as_blender_shows_them(
    extension: ModuleType, empty: ModuleType, mocap: Path
) -> None:
    files = sorted([*(mocap / "glb").glob("*.glb"), *(mocap / "fbx").glob("*.fbx")])
    if not files:
        pytest.skip(f"no GLB and FBX files in {mocap}")
    module, rig, fk = wing("blender.data.batch"), wing("blender.host.rig"), wing("core.forward_kinematics")
    actions = wing("blender.host.actions")
    read = 0
    for path in files:
        for row, poses in module.extract_file(path, None, "own"):
            if "cannot import" in row.reason:
                pytest.skip(row.reason)
            assert (poses is None) == ("noanim" in path.name), row.reason
            if poses is None:
                continue
            read += 1
            ob = empty.data.objects[row.armature]
            own = rig.read(ob)
            scene, data = empty.context.scene, ob.animation_data
            data.use_nla = False
            height = float(np.ptp(own.skeleton.rest_arm[:, 2, 3]))
            loose = {w.split(" moves ")[0] for w in row.warnings if "from their places" in w}
            steady = [clip for clip, name in enumerate(poses.clip_names) if name not in loose]
            assert steady, path.name
            for clip in (steady[0], steady[-1]):
                rows = poses.rows(clip)
                action = empty.data.actions[poses.clip_names[clip]]
                actions.assign(data, action, actions.slots_for(action, ob)[0] if actions.SLOTTED else None)
                for frame in (rows.start, rows.stop - 1):
                    moment = action.frame_range[0] + frame - rows.start
                    scene.frame_set(int(moment // 1), subframe=moment % 1)
                    shown = np.array([ob.pose.bones[int(b)].matrix.translation for b in own.index])
                    shown = shown @ own.turn.T * own.unit
                    one = poses.rot[frame].astype(float), poses.root_pos[frame].astype(float)
                    ours = fk.armature_matrices(own.skeleton, *one)[:, :3, 3]
                    error = np.linalg.norm((ours - ours[0]) - (shown - shown[0]), axis=1).max()
                    assert error < 1e-4 * height, (path.name, poses.clip_names[clip], frame, error / height)
    assert read >= 3


def from_batch(path: Path, **more: Any) -> list[tuple[Any, Any]]:
    """What the program finds in one file, in this Blender."""
    return list(wing("blender.data.batch").extract_file(path, None, "own", **more))


def test_a_light_beside_the_character_does_not_matter(demo: Any, tmp_path: Path) -> None:
    import bpy

    walk = bpy.data.actions["walk"]
    for other in list(bpy.data.actions):
        if other != walk:
            bpy.data.actions.remove(other)
    actions = wing("blender.host.actions")
    actions.assign(demo.animation_data, walk, actions.slots_for(walk, demo)[0])
    before = run(demo).poses
    lamp = bpy.data.objects.new("Light", bpy.data.lights.new("Light", "POINT"))
    bpy.context.scene.collection.objects.link(lamp)
    bpy.ops.export_scene.fbx(filepath=str(tmp_path / "scene.fbx"), add_leaf_bones=False)
    ((row, poses),) = from_batch(tmp_path / "scene.fbx")
    assert row.reason == ""
    assert poses.frames == before.frames
    swing = [p.rot[:, p.skeleton.names.index("LeftArm")].std(axis=0).max() for p in (poses, before)]
    assert abs(swing[0] - swing[1]) < 0.05


def test_an_importer_that_fails_is_said_in_words(demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = wing("blender.data.batch")

    def fail(filepath: str) -> None:
        raise RuntimeError(
            'Error: Python: Traceback (most recent call last):\n  File "x"\nAttributeError: cast_shadow\nLocation: y'
        )

    monkeypatch.setattr(module, "importers", lambda suffix: [fail, fail])
    ((row, poses),) = from_batch(tmp_path / "scene.fbx")
    assert poses is None
    assert "Blender's own importer fails on it" in row.reason
    assert "Traceback" not in row.reason


def _hide(demo: Any) -> None:
    demo.hide_set(True)


def _disable(demo: Any) -> None:
    demo.hide_viewport = True


def _hide_collection(demo: Any) -> None:
    import bpy

    inner = bpy.data.collections.new("Inner")
    bpy.context.scene.collection.children.link(inner)
    inner.objects.link(demo)
    for other in list(demo.users_collection):
        if other != inner:
            other.objects.unlink(demo)
    inner.hide_viewport = True


def _exclude(demo: Any) -> None:
    import bpy

    _hide_collection(demo)
    bpy.data.collections["Inner"].hide_viewport = False
    bpy.context.view_layer.layer_collection.children["Inner"].exclude = True


def _instance(demo: Any) -> None:
    import bpy

    _hide_collection(demo)
    inner = bpy.data.collections["Inner"]
    inner.hide_viewport = False
    bpy.context.scene.collection.children.unlink(inner)
    empty = bpy.data.objects.new("Instance", None)
    empty.instance_type, empty.instance_collection = "COLLECTION", inner
    bpy.context.scene.collection.objects.link(empty)


def _edit(demo: Any) -> None:
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")


def _tweak(demo: Any) -> None:
    import bpy

    data = demo.animation_data
    strip = data.nla_tracks.new().strips.new("walk", 1, bpy.data.actions["walk"])
    if wing("blender.host.actions").SLOTTED:
        strip.action_slot = bpy.data.actions["walk"].slots[0]
    data.action = None
    data.use_tweak_mode = True


@pytest.mark.parametrize("hide", [_hide, _disable, _hide_collection, _exclude, _instance, _edit, _tweak])
def test_a_rig_that_cannot_be_seen_is_extracted_all_the_same(demo: Any, tmp_path: Path, hide: Any) -> None:
    import bpy

    (walk,) = keep_actions("walk")
    walk.use_fake_user = True
    twist = demo.pose.bones["LeftShin"].constraints.new("COPY_ROTATION")
    twist.target, twist.subtarget = demo, "RightShin"
    before = run(demo).poses
    bpy.context.view_layer.objects.active = demo
    hide(demo)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "hidden.blend"))
    ((row, poses),) = from_batch(tmp_path / "hidden.blend")
    assert row.reason == ""
    assert poses.clip_names == ("walk",)
    assert np.abs(poses.rot - before.rot).max() < 1e-4


@pytest.mark.parametrize("instanced", [False, True])
def test_a_linked_rig_is_extracted_and_a_missing_library_is_said(demo: Any, tmp_path: Path, instanced: bool) -> None:
    import bpy

    (walk,) = keep_actions("walk")
    walk.use_fake_user = True
    twist = demo.pose.bones["LeftShin"].constraints.new("COPY_ROTATION")
    twist.target, twist.subtarget = demo, "RightShin"
    before = run(demo).poses
    shelf = bpy.data.collections.new("Shelf")
    bpy.context.scene.collection.children.link(shelf)
    shelf.objects.link(demo)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    bpy.ops.wm.read_homefile(use_empty=True)
    with bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True) as (_, into):
        into.collections, into.actions = ["Shelf"], ["walk"]
    if instanced:
        empty = bpy.data.objects.new("Instance", None)
        empty.instance_type, empty.instance_collection = "COLLECTION", into.collections[0]
        bpy.context.scene.collection.objects.link(empty)
    else:
        bpy.context.scene.collection.children.link(into.collections[0])
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    ((row, poses),) = from_batch(tmp_path / "shot.blend")
    assert row.reason == ""
    assert np.abs(poses.rot - before.rot).max() < 1e-4
    (tmp_path / "library.blend").unlink()
    ((row, poses),) = from_batch(tmp_path / "shot.blend")
    assert poses is None
    assert "library.blend, which cannot be found" in row.reason


def test_actions_of_the_armature_that_bones_follow_are_its_own_too(demo: Any, tmp_path: Path) -> None:
    import bpy

    demo.animation_data.action = None
    controls, new, _ = control_rig(demo, other=True)
    actions = wing("blender.host.actions")
    actions.assign(controls.animation_data, new, actions.slots_for(new, controls)[0])
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "follows.blend"))
    name = demo.name
    found = {row.armature: poses for row, poses in from_batch(tmp_path / "follows.blend")}
    assert "walk on controls" in found[name].clip_names
    assert found[name].rot.std(axis=0).max() > 0.1


def test_the_timeline_is_taken_on_request(demo: Any, tmp_path: Path) -> None:
    import bpy

    keep_actions("walk")
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 3, 9
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    ((row, poses),) = from_batch(tmp_path / "shot.blend", timeline=True)
    assert row.reason == ""
    assert poses.frames == 7


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT that can be sent to one process")
def test_ctrl_c_stops_even_where_an_importer_takes_it_for_its_own_error(
    extension: ModuleType, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = wing("blender.data.batch")
    opened = []

    def interrupted(path: Path, fps: float) -> None:
        opened.append(path)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Error: KeyboardInterrupt") from None

    monkeypatch.setattr(module, "_open", interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert module.main([str(folder / "a.blend"), str(folder / "broken.glb"), "-o", str(tmp_path / "d.npz")]) == 130
    assert len(opened) == 1
    assert signal.getsignal(signal.SIGINT) == before
    assert not (tmp_path / "d.npz").exists()


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_that_ends_programs_says_what_is_done_and_leaves_no_half_of_a_file(
    extension: ModuleType, folder: Path, tmp_path: Path, name: str, code: int
) -> None:
    if not hasattr(signal, name) or sys.platform == "win32":
        pytest.skip("this system has no such signal")
    out = tmp_path / "out"
    words = command(extension, folder / "a.blend", folder / "deeper", "-o", out / "d.npz", "--json", out / "rows")
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_hangups
    )
    assert process.stdout is not None
    while "1/2" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(getattr(signal, name))
    process.send_signal(getattr(signal, name))
    _, error = process.communicate(timeout=300)
    assert process.returncode == code, error
    # Blender itself may report before it where it was: a handler of its own
    assert re.search(r"^Stopped after [01] of 2 files; nothing was written to .*d\.npz\.$", error, re.MULTILINE)
    assert list(out.iterdir()) == []


def test_a_signal_between_two_files_keeps_the_one_that_is_written_and_names_it(
    extension: ModuleType, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    module = wing("blender.data.batch")
    save = module.pose_set.save

    def terminated(path: Path, poses: Any) -> None:
        save(path, poses)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(module.pose_set, "save", terminated)
    words = [folder / "a.blend", folder / "walk.bvh", "-o", tmp_path / "d.npz"]
    before = signal.getsignal(signal.SIGTERM)
    assert module.main([str(word) for word in words]) == 143
    assert signal.getsignal(signal.SIGTERM) == before
    first, *others = tmp_path.glob("*.npz")
    assert others == []
    assert f"Stopped after 2 of 2 files; written: {first}." in capsys.readouterr().err
    pose_set.load(first)
