# SPDX-License-Identifier: GPL-3.0-or-later
"""Import: files and folders to training data, by the command and by the functions."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import REPO, run_cli

from neural_network.__main__ import main
from neural_network.core import forward_kinematics
from neural_network.core.reference_rig import reference
from neural_network.formats import asf_amc, bvh, command, importing
from neural_network.formats.importing import FileReport, ImportOptions, ImportProgress, WrittenFile, conversion
from neural_network.ik import arguments, batches, context, losses, trainer
from neural_network.motion import pose_set
from neural_network.motion.clip import body_height, figures, global_pose
from neural_network.rigs import rig_body
from tests.formats.figures import SITTING, STANDING, take
from tests.fuzz import files as fuzz_files

ODD = Path(__file__).resolve().parents[1] / "odd"
POSITIONS = 1e-5
"""[body heights] by which joints of the poses, kept in float32, may differ from those of the clip."""


PLAIN = ImportOptions()


def imported(
    files: list[Path], output: Path, options: ImportOptions = PLAIN, jobs: int = 1
) -> tuple[list[FileReport], list[WrittenFile]]:
    events = list(importing.run(files, output, options, jobs))
    return [e.report for e in events if isinstance(e, ImportProgress)], [
        e for e in events if isinstance(e, WrittenFile)
    ]


def folder_of(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in names:
        shutil.copy(ODD / name, folder)
    return folder


# ---------------------------------------------------------------- a clip on its own rig


@pytest.mark.parametrize("name", ["01", "04", "08", "30", "32", "33", "34", "36", "37", "40", "42"])
def test_joints_of_the_own_rig_are_where_the_clip_has_them(name: str) -> None:
    clip = bvh.read(next(ODD.glob(f"{name}*.bvh")))
    poses = importing.clip_to_poses(replace(clip, translations={}))
    rig = poses.skeleton
    placed = global_pose(replace(clip, translations={}))[1] * clip.unit
    if clip.up_axis == "Y":
        placed = placed[..., [0, 2, 1]] * [1, -1, 1]
    heads = forward_kinematics.armature_matrices(rig, poses.rot, poses.root_pos)[:, :, :3, 3]
    index = [clip.names.index(bone) for bone in rig.names]
    assert np.abs(heads - placed[:, index]).max() < POSITIONS * body_height(clip) * clip.unit
    assert np.allclose(np.linalg.det(rig.rest_arm[:, :3, :3]), 1)


def test_bones_point_to_their_children_or_tips_and_roll_alike_on_both_sides() -> None:
    rig = importing.clip_to_poses(bvh.read(ODD / "13_crlf_tabs_trailing_blanks.bvh")).skeleton
    rest = {bone: rig.rest_arm[i] for i, bone in enumerate(rig.names)}
    assert np.allclose(rest["LLeg"][:3, 1], [0, 0, -1])
    assert np.allclose(rest["LArm"][:3, 1], [1, 0, 0])
    for left, right in (("LArm", "RArm"), ("LShin", "RShin"), ("LFoot", "RFoot"), ("LHand", "RHand")):
        assert np.allclose(rest[left][:3, 1:3], rest[right][:3, 1:3] * np.array([[-1], [1], [1]]))


def test_the_odd_figure_has_five_effectors_and_two_feet() -> None:
    rig = importing.clip_to_poses(bvh.read(ODD / "13_crlf_tabs_trailing_blanks.bvh")).skeleton
    assert [rig.names[e] for e in rig.effectors] == ["LHand", "RHand", "LFoot", "RFoot", "Head"]
    assert [rig.names[f] for f in rig.feet] == ["LFoot", "RFoot"]


def test_joints_above_the_hips_are_merged_into_their_motion() -> None:
    text = (ODD / "01_mixed_rotation_orders.bvh").read_text().replace("\r", "")
    head, rest = text.split("MOTION\n")
    rows = rest.split("0.0333333\n")[1].strip().split("\n")
    wrapped = "HIERARCHY\nROOT Armature\n{\nOFFSET 0 0 0\nCHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation\n"
    wrapped += (
        head.replace("HIERARCHY\n", "").replace("ROOT", "JOINT") + "}\nMOTION\nFrames: 6\nFrame Time: 0.0333333\n"
    )
    wrapped += "\n".join(f"3 4 5 10 20 30 {row}" for row in rows)
    clip = bvh.parse(wrapped.encode())
    poses = importing.clip_to_poses(clip)
    assert poses.skeleton.names[0] == "Hips"
    heads = forward_kinematics.armature_matrices(poses.skeleton, poses.rot, poses.root_pos)[:, :, :3, 3]
    placed = global_pose(clip)[1][:, 1:][..., [0, 2, 1]] * [1, -1, 1] * clip.unit
    assert np.abs(heads - placed).max() < POSITIONS * body_height(clip) * clip.unit


@pytest.mark.slow
def test_joints_of_motion_capture_poses_are_where_the_clip_has_them(mocap: Path) -> None:
    clips = [bvh.read(mocap / "bvh" / f"{name}.bvh") for name in ("cmu_mb/02_03", "cmu_daz/16_36", "fair1_zup/dab")]
    clips.append(asf_amc.read(None, mocap / "asfamc" / "09_06-run.amc"))
    for clip in clips:
        poses = importing.clip_to_poses(clip)
        placed = global_pose(clip)[1] * clip.unit
        placed = placed[..., [0, 2, 1]] * [1, -1, 1] if clip.up_axis == "Y" else placed
        heads = forward_kinematics.armature_matrices(poses.skeleton, poses.rot, poses.root_pos)[:, :, :3, 3]
        index = [clip.names.index(bone) for bone in poses.skeleton.names]
        assert np.abs(heads - placed[:, index]).max() < POSITIONS * 2


def test_two_figures_in_one_file_become_two_clips() -> None:
    text = (ODD / "01_mixed_rotation_orders.bvh").read_text()
    head, rest = text.split("MOTION\n")
    rows = rest.split("0.0333333\n")[1].strip().split("\n")
    twin = head.replace("HIERARCHY\n", "").replace("ROOT Hips", "ROOT Twin")
    both = head + twin + "MOTION\nFrames: 6\nFrame Time: 0.0333333\n" + "\n".join(f"{row} {row}" for row in rows)
    first, second = figures(bvh.parse(both.encode(), "duet"))
    assert (first.name, second.name) == ("duet.Hips", "duet.Twin")
    assert np.allclose(global_pose(first)[1], global_pose(second)[1])


# ---------------------------------------------------------------- folders


@pytest.mark.slow
def test_all_odd_files_are_read_in_one_run(tmp_path: Path) -> None:
    files = importing.find_files([ODD])
    rows, written = imported(files, tmp_path / "out.npz")
    assert len(rows) == 31
    assert all(row.read for row in rows)
    assert [Path(row.path).name for row in rows if row.reason] == ["21_zero_frames.bvh"]
    assert sum(row.kept for row in rows) == sum(file.frames for file in written)
    for file in written:
        poses = pose_set.load(file.path)
        assert poses.frames == file.frames
        assert len(poses.clip_names) == file.clips
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_one_skeleton_gives_the_output_itself_and_several_one_file_each(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "01_mixed_rotation_orders.bvh", "34_metres.bvh", "36_z_up_metres.bvh")
    _, written = imported(importing.find_files([folder]), tmp_path / "one.npz")
    assert [Path(file.path).name for file in written] == ["one.npz"]
    assert written[0].clips == 3  # in centimetres or metres and whichever way up: one and the same figure
    shutil.copy(ODD / "32_zero_length_bones.bvh", folder)
    _, written = imported(importing.find_files([folder]), tmp_path / "two.npz")
    assert [Path(file.path).name for file in written] == [
        "two-01_mixed_rotation_orders.npz",
        "two-32_zero_length_bones.npz",
    ]


@pytest.mark.slow
def test_the_same_take_in_metres_and_z_up_has_the_same_poses(tmp_path: Path) -> None:
    clip = bvh.read(ODD / "13_crlf_tabs_trailing_blanks.bvh")
    upright = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    lying = replace(
        clip,
        offsets=clip.offsets @ upright.T,
        root_pos=clip.root_pos @ upright.T,
        tips={i: upright @ tip for i, tip in clip.tips.items()},
        rotations=np.concatenate([clip.rotations[..., :1], clip.rotations[..., 1:] @ upright.T], axis=-1),
    )
    metres = replace(
        clip, offsets=clip.offsets / 100, root_pos=clip.root_pos / 100, tips={i: t / 100 for i, t in clip.tips.items()}
    )
    for name, made in (("a", clip), ("b", lying), ("c", metres)):
        bvh.write(tmp_path / f"{name}.bvh", made)
    _, written = imported(importing.find_files([tmp_path]), tmp_path / "one.npz")
    assert len(written) == 1
    poses = pose_set.load(written[0].path)
    for number in (1, 2):
        assert np.abs(poses.rot[poses.rows(number)] - poses.rot[poses.rows(0)]).max() < 1e-6
        assert np.abs(poses.root_pos[poses.rows(number)] - poses.root_pos[poses.rows(0)]).max() < 1e-5


@pytest.mark.slow
def test_a_file_with_a_doubtful_up_axis_uses_that_of_the_others(tmp_path: Path) -> None:
    walk = bvh.read(ODD / "01_mixed_rotation_orders.bvh")
    half = np.sqrt(0.5)
    lying = walk.rotations.copy()
    lying[:, 0] = (half, -half, 0, 0)
    for n in range(40):  # longer than all the others together
        lying[n % len(lying), 1] = (1, 0, 0, 0)
    long = np.concatenate([lying] * 20)
    level = np.tile([0.0, 8.0, 0.0], (len(long), 1))
    tilted = replace(walk, rotations=long, root_pos=level + np.linspace(0, 200, len(long))[:, None] * [0, 1, 0])
    for name, clip in (("a", walk), ("b", walk), ("lying", tilted)):
        bvh.write(tmp_path / f"{name}.bvh", clip)
    read = bvh.read(tmp_path / "lying.bvh")
    assert any("which axis points up" in warning for warning in read.warnings)
    assert read.up_axis == "Z"
    rows, written = imported(importing.find_files([tmp_path]), tmp_path / "out.npz")
    assert [row.up_axis for row in rows] == ["Y", "Y", "Z"]
    assert len(written) == 1
    assert written[0].outvoted == 1
    assert pose_set.load(written[0].path).skeleton.names[0] == "Hips"


def test_bad_files_are_skipped_with_a_reason(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "01_mixed_rotation_orders.bvh", "mini_radians.amc")
    (folder / "empty.bvh").write_bytes(b"")
    (folder / "noise.bvh").write_bytes(os.urandom(4000))
    rows, written = imported(importing.find_files([folder]), tmp_path / "out.npz")
    reasons = {Path(row.path).name: row.reason for row in rows if not row.read}
    assert set(reasons) == {"empty.bvh", "noise.bvh", "mini_radians.amc"}
    assert "empty" in reasons["empty.bvh"]
    assert "mini_radians.asf" in reasons["mini_radians.amc"]
    assert len(written) == 1


def test_a_bug_in_the_program_costs_only_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = importing.find_files(
        [folder_of(tmp_path, "01_mixed_rotation_orders.bvh", "13_crlf_tabs_trailing_blanks.bvh")]
    )
    sound = conversion.own_poses
    monkeypatch.setattr(
        conversion, "own_poses", lambda clip, *more: sound(clip, *more) if clip.name.startswith("13") else {}["x"]
    )
    rows, written = imported(files, tmp_path / "out.npz")
    assert [row.read for row in rows] == [False, True]
    assert "KeyError" in rows[0].reason
    assert written[0].clips == 1


def test_a_full_disk_is_reported_with_the_folder_and_leaves_no_incomplete_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    files = importing.find_files([folder_of(tmp_path, "13_crlf_tabs_trailing_blanks.bvh")])
    monkeypatch.setattr(conversion.np, "savez", full)
    with pytest.raises(
        OSError, match=r"cannot write .*out.npz.parts.*: No space left on device; nothing was changed there"
    ):
        imported(files, tmp_path / "out.npz")
    assert list((tmp_path / ".out.npz.parts").iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows file names are always text")
def test_a_file_name_that_no_console_can_show_does_not_stop_the_import(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "01_mixed_rotation_orders.bvh")
    shutil.copy(ODD / "13_crlf_tabs_trailing_blanks.bvh", os.fsencode(folder) + b"/\xff\xfe.bvh")
    done = run_cli(
        "-m", "neural_network", "import", folder, "-o", tmp_path / "d.npz", env={"PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0, done.stderr
    assert pose_set.load(tmp_path / "d.npz").frames == 10


def test_nothing_to_write_is_an_error_with_the_first_reason(tmp_path: Path) -> None:
    (tmp_path / "a.bvh").write_bytes(b"")
    with pytest.raises(ValueError, match="empty"):
        imported([tmp_path / "a.bvh"], tmp_path / "out.npz")
    assert sorted(os.listdir(tmp_path)) == ["a.bvh"]


def test_rates_skipped_frames_and_mirrored_copies(tmp_path: Path) -> None:
    files = [ODD / "40_wrong_frame_time.bvh"]
    _, written = imported(files, tmp_path / "a.npz", ImportOptions(source_fps=30, fps=15, skip=2, mirror=True))
    poses = pose_set.load(written[0].path)
    assert list(poses.clip_fps) == [15, 15]
    assert poses.clip_names == ("40_wrong_frame_time", "40_wrong_frame_time mirrored")
    assert [poses.rows(clip).stop - poses.rows(clip).start for clip in (0, 1)] == [4, 4]
    plain = importing.clip_to_poses(bvh.read(files[0]))
    assert np.abs(poses.rot[:4] - plain.rot[2::2]).max() < 1e-6


def test_name_prefixes_are_removed_on_request(tmp_path: Path) -> None:
    files = [ODD / "09_colon_and_dot_names.bvh"]
    for strip, name in ((False, "mixamorig:Hips"), (True, "Hips")):
        _, written = imported(files, tmp_path / "a.npz", ImportOptions(strip_prefix=strip))
        assert pose_set.load(written[0].path).skeleton.names[0] == name


def test_equal_file_names_are_told_apart_by_their_folder(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(ODD / "01_mixed_rotation_orders.bvh", tmp_path / folder / "walk.bvh")
    _, written = imported(importing.find_files([tmp_path]), tmp_path / "out.npz")
    assert pose_set.load(written[0].path).clip_names == ("a/walk", "b/walk")


@pytest.mark.slow
def test_people_are_retargeted_to_one_rig_on_request(tmp_path: Path) -> None:
    files = [ODD / name for name in ("01_mixed_rotation_orders.bvh", "10_names_with_spaces.bvh", "36_z_up_metres.bvh")]
    rows, written = imported(files, tmp_path / "out.npz", ImportOptions(rig="reference"))
    assert all(row.kept for row in rows)
    assert len(written) == 1
    assert pose_set.load(written[0].path).skeleton.names[0] == "Hips"
    assert written[0].joints == 23


@pytest.mark.parametrize("mirror", [False, True])
def test_the_joint_limits_of_the_reference_rig_come_with_the_data(tmp_path: Path, mirror: bool) -> None:
    options = ImportOptions(rig="reference", mirror=mirror)
    _, written = imported([ODD / "01_mixed_rotation_orders.bvh"], tmp_path / "out.npz", options)
    wanted, got = reference().limits, pose_set.load(written[0].path).skeleton.limits
    assert wanted is not None
    assert got is not None
    assert np.isfinite(wanted).any()
    np.testing.assert_array_equal(got, wanted)


def test_training_mines_the_joint_limits_of_a_rig_that_was_imported_without_any(tmp_path: Path) -> None:
    _, written = imported([ODD / "01_mixed_rotation_orders.bvh"], tmp_path / "own.npz")
    assert pose_set.load(written[0].path).skeleton.limits is None
    args = arguments.parse(["--data", written[0].path], tmp_path / "own.npz", tmp_path / "best.npy")
    job = trainer.load(args, *[lambda *_, **__: None] * 3)
    rig = job.poses.skeleton
    assert rig.limits is not None
    assert np.isnan(rig.limits[0]).all()  # the root may turn freely
    assert np.isfinite(rig.limits[1:]).all()
    assert losses.joint_limits(rig, batches.components(job.samples.rot))[0] < 1e-6  # the poses seen are allowed
    assert losses.joint_limits(rig, batches.components(np.full_like(job.samples.rot, 1.5)))[0] > 0.01  # others are not


@pytest.mark.slow
def test_roles_can_be_given_by_hand_and_their_bones_must_exist(tmp_path: Path) -> None:
    source = ODD / "01_mixed_rotation_orders.bvh"
    clip = importing.read_clip(source)
    found = rig_body.clip_roles(clip)
    table = {role: clip.names[j] for role, j in found.bones.items() if j is not None}
    swapped = {**table, "LeftHand": table["RightHand"], "RightHand": table["LeftHand"]}
    for name, roles in (("plain", table), ("swapped", swapped)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"roles": roles}), encoding="utf-8")
        done = run_cli(
            "-m",
            "neural_network",
            "import",
            source,
            "-o",
            tmp_path / f"{name}.npz",
            "--roles",
            tmp_path / f"{name}.json",
        )
        assert done.returncode == 0, done.stderr
    hands = [pose_set.load(tmp_path / f"{name}.npz").skeleton for name in ("plain", "swapped")]
    assert [h.names[h.effectors[0]] for h in hands] == [table["LeftHand"], table["RightHand"]]
    (tmp_path / "wrong.json").write_text(json.dumps({"Hips": "Nowhere"}), encoding="utf-8")
    done = run_cli(
        "-m", "neural_network", "import", source, "-o", tmp_path / "x.npz", "--roles", tmp_path / "wrong.json"
    )
    assert done.returncode == 2
    assert "no such bone" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ImportOptions(rig="x"),
        ImportOptions(fps=0),
        ImportOptions(fps=float("nan")),
        ImportOptions(fps=99999),
        ImportOptions(skip=-1),
        ImportOptions(unit=-1),
    ],
)
def test_options_out_of_range_are_refused(tmp_path: Path, options: ImportOptions) -> None:
    with pytest.raises(ValueError, match="expected"):
        imported([ODD / "01_mixed_rotation_orders.bvh"], tmp_path / "out.npz", options)


# ---------------------------------------------------------------- resuming


@pytest.mark.slow
def test_several_jobs_and_one_give_the_same_bytes(tmp_path: Path) -> None:
    files = importing.find_files([ODD])[:6]
    rows, written = imported(files, tmp_path / "one.npz")
    again, twice = imported(files, tmp_path / "two.npz", jobs=2)
    assert rows == again
    for a, b in zip(written, twice, strict=True):
        assert Path(a.path).read_bytes() == Path(b.path).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 4, 6])
def test_an_interrupted_run_is_resumed_with_the_same_bytes(tmp_path: Path, after: int) -> None:
    files = importing.find_files([ODD])[:6]
    _, written = imported(files, tmp_path / "whole.npz")
    events = importing.run(files, tmp_path / "stopped.npz")
    for _ in range(after):
        next(events)
    events.close()
    second = [event for event in importing.run(files, tmp_path / "stopped.npz") if isinstance(event, ImportProgress)]
    assert sum(event.cached for event in second) == after
    assert (tmp_path / "stopped.npz").read_bytes() == Path(written[0].path).read_bytes()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_a_damaged_part_is_made_again(tmp_path: Path) -> None:
    files = importing.find_files([ODD])[:3]
    imported(files, tmp_path / "whole.npz")
    events = importing.run(files, tmp_path / "out.npz")
    for _ in range(3):
        next(events)
    events.close()
    for part in (tmp_path / ".out.npz.parts").iterdir():
        part.write_bytes(part.read_bytes()[:700])
    list(importing.run(files, tmp_path / "out.npz"))
    assert (tmp_path / "out.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_after_a_change_of_file_or_options_the_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.bvh"
    shutil.copy(ODD / "01_mixed_rotation_orders.bvh", file)
    first = importing.run([file], tmp_path / "out.npz")
    next(first)
    first.close()
    file.write_bytes(file.read_bytes() + b"\n")
    event = next(importing.run([file], tmp_path / "out.npz"))
    assert isinstance(event, ImportProgress)
    assert not event.cached
    event = next(importing.run([file], tmp_path / "out.npz", ImportOptions(skip=1)))
    assert isinstance(event, ImportProgress)
    assert not event.cached


KILLED = """
import os, signal, sys
from neural_network import __main__ as command

say, lines = command.say, []

def say_and_die(line, **how):
    say(line, **how)
    lines.append(line)
    if len(lines) == 6:
        os.kill(os.getpid(), signal.SIGKILL)

command.say = say_and_die
sys.exit(command.main())
"""
"""The command, killed at the same moment on any machine: when it prints its sixth line."""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_command_leaves_no_output_and_is_resumed(tmp_path: Path) -> None:
    wanted = run_cli("-m", "neural_network", "import", ODD, "--jobs", "2", "-o", tmp_path / "whole" / "data.npz")
    assert wanted.returncode == 0
    output = tmp_path / "killed" / "data.npz"
    killed = run_cli("-c", KILLED, "import", ODD, "--jobs", "2", "-o", output)  # waits for its readers to end too
    assert killed.returncode == -signal.SIGKILL
    assert not list(output.parent.glob("*.npz"))
    second = run_cli("-m", "neural_network", "import", ODD, "--jobs", "2", "-o", output)
    assert second.returncode == 0
    assert "from an earlier run" in second.stdout
    for path in sorted((tmp_path / "whole").iterdir()):
        assert (output.parent / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_command_killed_again_and_again_ends_with_the_same_bytes(tmp_path: Path, rng: np.random.Generator) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    walk = bvh.read(ODD / "01_mixed_rotation_orders.bvh")
    other = bvh.read(ODD / "32_zero_length_bones.bvh")
    for n in range(60):
        clip = other if n % 7 == 3 else walk
        bvh.write(folder / f"{n:02}.bvh", replace(clip, root_pos=clip.root_pos + [n, 0, 0]))
    arguments = ["-m", "neural_network", "import", str(folder), "--jobs", "2"]
    assert run_cli(*arguments, "-o", tmp_path / "whole" / "data.npz").returncode == 0
    output = tmp_path / "killed" / "data.npz"
    env = {**os.environ, "PYTHONPATH": str(REPO), "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, *arguments, "-o", str(output)]
    moments = [*np.sort(rng.integers(0, 60, 6)).tolist(), 60, 60]  # the last two while the output is being written
    for turn, lines in enumerate(moments):
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, cwd=REPO, start_new_session=True) as process:
            assert process.stdout is not None
            for _ in range(lines + 1):  # the heading is a line
                process.stdout.readline()
            time.sleep(float(rng.uniform(0, 0.05)))
            os.killpg(process.pid, signal.SIGKILL) if turn % 2 else process.kill()  # with its readers, or without
    assert run_cli(*arguments, "-o", output).returncode == 0
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert len(names) == 2
    assert sorted(path.name for path in output.parent.iterdir()) == names
    for name in names:
        assert (output.parent / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


# ---------------------------------------------------------------- the command line


@pytest.mark.slow
def test_the_command_prints_a_table_a_summary_and_json_rows(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "01_mixed_rotation_orders.bvh", "26_nan_and_inf.bvh")
    (folder / "empty.bvh").write_bytes(b"")
    (folder / "hero.FBX").write_bytes(b"")
    done = run_cli("-m", "neural_network", "import", folder, "-o", tmp_path / "d.npz", "--json", tmp_path / "rows.json")
    assert done.returncode == 0, done.stderr
    assert "read 2 of 3 files" in done.stdout
    assert "1 file of other kinds (.fbx) skipped: for each, import it in Blender" in done.stdout
    assert "empty.bvh: " in done.stdout
    rows = [json.loads(line) for line in (tmp_path / "rows.json").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["read", "read", "refused"]
    assert {"path", "joints", "frames", "fps", "warnings", "reason"} <= set(rows[0])
    piped = run_cli("-m", "neural_network", "import", folder, "-o", tmp_path / "e.npz", "--json")
    assert [json.loads(line)["path"] for line in piped.stdout.splitlines()] == [row["path"] for row in rows]
    assert (tmp_path / "d.npz").read_bytes() == (tmp_path / "e.npz").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere.bvh"], "no such file"),
        ([], "at least one file"),
        ([str(ODD), "-o", "data.txt"], ".npz"),
        ([str(ODD), "--jobs", "0"], "jobs"),
        ([str(ODD), "--fps", "-3"], "fps"),
        ([str(ODD), "--unit", "furlong"], "unit"),
        ([str(ODD / "mini.asf")], ".amc"),
        ([str(ODD), "--rig", "mine"], "rig"),
    ],
)
def test_bad_input_gives_exit_code_2_and_a_message(tmp_path: Path, arguments: list[str], expected: str) -> None:
    output = [] if "-o" in arguments else ["-o", str(tmp_path / "out.npz")]
    done = run_cli("-m", "neural_network", "import", *arguments, *output, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.npz"))


def test_counts_of_one_and_of_many_read_well() -> None:
    row = FileReport("a.bvh", True, t_poses=1, teleports=2, repaired=1, warnings=("odd",))
    assert command._row_line(row, None).endswith("1 T-pose, 2 teleports, 1 frame with NaN, 1 warning")
    row = replace(row, repaired=3, warnings=("odd", "odder"), t_poses=0, teleports=1)
    assert command._row_line(row, None).endswith("1 teleport, 3 frames with NaN, 2 warnings")


def test_a_clip_that_is_resampled_says_why_other_frames_are_kept() -> None:
    row = FileReport("a.bvh", True, frames=120, fps=120.0, kept=30, t_poses=1)
    assert command._row_line(row, 30.0).endswith("resampled to 30 a second, 1 T-pose")
    assert command._row_line(row, 120.0).endswith("  1 T-pose")
    lines = command._summary([row, replace(row, fps=30.0, frames=30)], 0, 2, 30.0)
    assert "read 2 of 2 files, kept 60 of 150 frames; 1 file resampled to 30 frames a second" in lines


@pytest.mark.slow
def test_every_command_has_help() -> None:
    assert "import" in run_cli("-m", "neural_network", "--help").stdout
    text = run_cli("-m", "neural_network", "import", "--help").stdout
    for option in ("--fps", "--skip", "--jobs", "--json", "--rig", "--low-pass", "--mirror", "130: ", "143: ", "129: "):
        assert option in text


# ---------------------------------------------------------------- damage


@pytest.mark.slow
def test_a_few_hundred_damaged_files_are_read_or_refused_quickly() -> None:
    count = int(os.environ.get("NIK_FUZZ", "100"))
    outcome = fuzz_files.Outcome()
    for outcome in fuzz_files.outcomes(count, seed=5):  # noqa: B007 - the last one tells
        pass
    assert outcome.failures == []
    assert outcome.tried == count
    assert outcome.read > count // 10


# ---------------------------------------------------------------- outputs that cannot be written, names that would not print


def test_outputs_that_cannot_be_written_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, "13_crlf_tabs_trailing_blanks.bvh")
    (tmp_path / "file").write_text("x")
    places = [tmp_path / "file" / "a.npz", tmp_path / "file" / "b" / "a.npz", tmp_path / f"{'n' * 300}.npz"]
    places += [Path("/proc/x/a.npz")] if sys.platform == "linux" else []
    for place in places:
        for extra in ((), ("--json", str(place.with_suffix(".json")))):
            output = tmp_path / "good.npz" if extra else place
            assert main(["import", str(folder), "-o", str(output), *extra]) == 2
            said = capsys.readouterr().err.strip().splitlines()[-1]
            assert "cannot" in said
            assert "Errno" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed there")
def test_a_file_name_with_escape_codes_is_printed_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, "13_crlf_tabs_trailing_blanks.bvh", "40_wrong_frame_time.bvh")
    (folder / "40_wrong_frame_time.bvh").rename(folder / "a\x1b[2J\nb\u202e.bvh")
    (folder / "\x1b[31mempty.bvh").write_bytes(b"")
    assert main(["import", str(folder), "-o", str(tmp_path / "a.npz")]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert "\u202e" not in printed.out + printed.err
    assert "a\\x1b[2J\\nb\\u202e.bvh" in printed.out


# ---------------------------------------------------------------- one floor for one capture


def hips_of(
    tmp_path: Path, *takes: tuple[str, float, dict[str, tuple[float, float, float]] | None]
) -> dict[str, float]:
    """Mean heights of the hips on the reference rig by clip, of takes that are imported together."""
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    for one in takes:
        take(folder, *one)
    _, written = imported(importing.find_files([folder]), folder / "a.npz", ImportOptions(rig="reference"))
    poses = pose_set.load(written[0].path)
    return {name: float(poses.root_pos[poses.clip == n, 2].mean()) for n, name in enumerate(poses.clip_names)}


def test_somebody_who_sits_in_a_capture_gets_the_floor_on_which_the_others_stand(tmp_path: Path) -> None:
    low = -2.0  # the file's height 0 is far above the floor, so a clip alone shows nothing
    stands, sits = ("stand.bvh", low + 0.94, STANDING), ("sit.bvh", low + 1.0, SITTING)
    alone, together = hips_of(tmp_path, sits), hips_of(tmp_path, sits, stands)
    assert together["sit"] - alone["sit"] > 0.3
    assert together["sit"] - together["stand"] == pytest.approx(0.06 * 0.945 / 0.8, abs=0.05)
    assert together["stand"] == pytest.approx(hips_of(tmp_path, stands)["stand"], abs=1e-6)


def test_on_their_own_rig_those_who_sit_keep_their_height_above_the_floor_of_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "takes"
    folder.mkdir()
    for one in (("stand.bvh", -1.06, STANDING), ("sit.bvh", -1.0, SITTING)):
        take(folder, *one)
    _, written = imported(importing.find_files([folder]), folder / "a.npz", ImportOptions(rig="own", mirror=True))
    poses = pose_set.load(written[0].path)
    samples = context.prepare(poses)
    ground = {name: samples.ground[poses.rows(n).start] for n, name in enumerate(poses.clip_names)}
    assert ground["sit"] == pytest.approx(ground["stand"], abs=0.05)
    assert ground["sit mirrored"] == ground["sit"]
    rows = {name: poses.rows(n) for n, name in enumerate(poses.clip_names)}
    assert samples.grounded[rows["stand"]].mean() > 0.9
    assert samples.grounded[rows["sit"]].max() == 0
    assert written[0].lifted == ("sit",)


def test_where_all_stand_a_file_says_no_floor(tmp_path: Path) -> None:
    folder = tmp_path / "takes"
    folder.mkdir()
    take(folder, "stand.bvh", 0.94, STANDING)
    _, written = imported(importing.find_files([folder]), folder / "a.npz", ImportOptions(rig="own"))
    assert pose_set.load(written[0].path).ground is None


def test_floors_that_disagree_and_floors_inside_the_body_are_not_shared(tmp_path: Path) -> None:
    sits = ("sit.bvh", -1.0, SITTING)
    alone = hips_of(tmp_path, sits)["sit"]
    for others in ([-1.06, -1.56], [0.94]):
        stands = [(f"stand{n}.bvh", hips, STANDING) for n, hips in enumerate(others)]
        assert hips_of(tmp_path, sits, *stands)["sit"] == pytest.approx(alone, abs=1e-6)
