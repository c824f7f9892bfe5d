# SPDX-License-Identifier: GPL-3.0-or-later
"""The motion in the box: is it whole, does it stand on its feet, is left left, and can it be made again?"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import REPO

from neural_network.core import forward_kinematics
from neural_network.core.reference_rig import reference
from neural_network.motion import pose_set
from neural_network.motion.pose_set import PoseSet
from training_data import make_training_data as maker

SHIPPED = REPO / "training_data" / "training_data.npz"
ROUNDED = 2e-5  # [m] what six decimals of every joint along a leg may come to at its end
WALKS = ("walk", "0walk_forward", "turn_left0", "turn_left1", "turn_right0", "turn_right1")


@pytest.fixture(scope="module")
def poses() -> PoseSet:
    return pose_set.load(SHIPPED)


@pytest.fixture(scope="module")
def matrices(poses: PoseSet) -> dict[str, np.ndarray]:
    """Pose matrices (F, 4, 4) [m, armature space] by bone."""
    found = forward_kinematics.armature_matrices(poses.skeleton, poses.rot, poses.root_pos)
    return {name: found[:, j] for j, name in enumerate(poses.skeleton.names)}


@pytest.fixture(scope="module")
def heads(matrices: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: matrix[:, :3, 3] for name, matrix in matrices.items()}


@pytest.fixture(scope="module")
def hips(poses: PoseSet) -> np.ndarray:
    """(F, 3, 3) where left, back and up of the Hips point [armature space]."""
    turned, _ = forward_kinematics.forward(poses.skeleton, poses.skeleton.to_core(poses.rot))
    return turned[:, 0]


def rows(poses: PoseSet, name: str) -> slice:
    return poses.rows(poses.clip_names.index(name))


def along(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b, axis=-1)


def columns() -> dict[str, int]:
    """First column of each part, from the order in which DeepMimic's description of the format lists them."""
    order = "chest neck right_hip right_knee right_ankle right_shoulder right_elbow"
    order += " left_hip left_knee left_ankle left_shoulder left_elbow"
    found, at = {"root": 4}, 8
    for name in order.split():
        found[name] = at
        at += 1 if name.endswith(("knee", "elbow")) else 4
    return found


def source_frame(**parts: np.ndarray | float) -> np.ndarray:
    """One frame of the source at rest, standing, with the named joints turned: quaternions or angles."""
    frame = np.zeros((1, maker.WIDTH))
    frame[0, 0] = 1 / 30
    frame[0, 2] = maker.SOURCE_THIGH + maker.SOURCE_SHIN + 0.05
    for name, start in columns().items():
        frame[0, start] = 0 if name.endswith(("knee", "elbow")) else 1
    for name, value in parts.items():
        start = columns()[name]
        frame[0, start : start + np.size(value)] = value
    return frame


def carried(**parts: np.ndarray | float) -> dict[str, np.ndarray]:
    """Heads (3) of the reference rig in the pose of :func:`source_frame`."""
    rig = reference()
    found = forward_kinematics.armature_matrices(rig, *maker.carry(rig, source_frame(**parts)))
    return {name: found[0, j, :3, 3] for j, name in enumerate(rig.names)}


def test_the_box_holds_20_clips_of_1810_frames_at_their_own_rates(poses: PoseSet) -> None:
    assert len(poses.clip_names) == len(set(poses.clip_names)) == 20
    assert poses.frames == 1810
    assert np.isfinite(poses.rot).all()
    assert np.isfinite(poses.root_pos).all()
    assert set(poses.clip_fps) == {16, 24, 30, 60}
    assert dict(zip(poses.clip_names, poses.clip_tasks, strict=True))["getup_faceup"] == "crouch"
    assert set(poses.clip_tasks) == {"locomotion", "crouch", "jump", "combat", "acrobatics", "dance"}


def test_the_skeleton_is_the_reference_rig(poses: PoseSet) -> None:
    rig = reference()
    rig.require_same(poses.skeleton, "the shipped data")
    assert rig.proportion_difference(poses.skeleton) == 0
    assert np.array_equal(rig.limits, poses.skeleton.limits, equal_nan=True)


def test_no_foot_is_below_the_floor_and_the_lowest_rest_on_it(poses: PoseSet, heads: dict[str, np.ndarray]) -> None:
    rig = poses.skeleton
    assert np.array_equal(poses.ground, np.zeros(20))
    heights = np.stack(
        [
            heads[rig.names[b]][:, 2] - rest
            for pair, rests in zip(zip(rig.feet, rig.toes, strict=True), rig.foot_rest, strict=True)
            for b, rest in zip(pair, rests, strict=True)
        ]
    ).min(axis=0)
    assert heights.min() > -ROUNDED
    for i, name in enumerate(poses.clip_names):
        assert abs(np.percentile(heights[poses.rows(i)], 2)) < 0.005, name
    for name in (*WALKS, "run", "dance_a", "dance_b", "kick", "punch", "cartwheel"):
        assert np.percentile(heights[rows(poses, name)], 25) < 0.02, name


def test_knees_bend_back_only_and_elbows_forward_only(
    matrices: dict[str, np.ndarray], heads: dict[str, np.ndarray]
) -> None:
    for side in ("Left", "Right"):
        shin = heads[f"{side}Foot"] - heads[f"{side}Shin"]
        assert along(shin, matrices[f"{side}Thigh"][:, :3, 2]).max() < 0.01  # bone Z looks forward in the T-pose
        forearm = heads[f"{side}Hand"] - heads[f"{side}ForeArm"]
        assert along(forearm, matrices[f"{side}Arm"][:, :3, 2]).min() > -0.01


def test_left_is_left_in_every_walk(poses: PoseSet, heads: dict[str, np.ndarray], hips: np.ndarray) -> None:
    for name in WALKS:
        clip = rows(poses, name)
        left = hips[clip, :, 0]
        for part, least in (("Foot", -0.01), ("Thigh", 0.15), ("Hand", 0.2), ("Arm", 0.2)):
            apart = along(heads[f"Left{part}"][clip] - heads[f"Right{part}"][clip], left)
            assert apart.min() > least, (name, part)
            assert apart.mean() > 0.1, (name, part)


def test_walks_and_runs_go_where_the_body_looks(poses: PoseSet, hips: np.ndarray) -> None:
    for name in (*WALKS, "run"):
        clip = rows(poses, name)
        path = np.diff(poses.root_pos[clip].astype(float), axis=0)
        heading = np.cross(hips[clip, :, 0], [0, 0, 1])[:-1]
        ahead = along(path, heading / np.linalg.norm(heading, axis=1, keepdims=True))
        assert ahead.sum() > 0.9 * np.linalg.norm(path[:, :2], axis=1).sum(), name
    travelled = np.ptp(poses.root_pos[rows(poses, "walk")], axis=0)
    assert travelled[1] > 5 * travelled[0]
    assert poses.root_pos[rows(poses, "walk")][-1, 1] < -1  # heading zero is -Y


def test_left_turns_turn_left_and_right_turns_right(poses: PoseSet, hips: np.ndarray) -> None:
    for name in WALKS[2:]:
        left = hips[rows(poses, name), :, 0]
        turned = np.unwrap(np.arctan2(left[:, 1], left[:, 0]))
        assert (turned[-1] - turned[0]) * (1 if "left" in name else -1) > np.radians(15), name


def test_arms_hang_and_the_head_is_up_while_walking(poses: PoseSet, heads: dict[str, np.ndarray]) -> None:
    clip = rows(poses, "walk")
    for side in ("Left", "Right"):
        assert (heads[f"{side}Hand"] - heads[f"{side}Arm"])[clip, 2].max() < -0.25
    assert heads["Head"][clip, 2].min() > 1.55
    assert np.abs(heads["Hips"][clip, 2] - 1.0).max() < 0.05


def test_collar_bones_wrists_and_toes_never_turn(poses: PoseSet) -> None:
    still = [j for j, n in enumerate(poses.skeleton.names) if n.endswith(("Shoulder", "Hand", "ToeBase"))]
    assert len(still) == 6
    assert np.abs(poses.rot[:, still]).max() < 1e-6
    moving = np.setdiff1d(np.arange(poses.skeleton.count), still)
    assert np.linalg.norm(poses.rot[:, moving], axis=-1).max(axis=0).min() > 0.1


def test_no_pose_jumps(poses: PoseSet) -> None:
    """No joint turns faster than a fast limb can, also where source quaternions change sign or are not unit length."""
    for i, name in enumerate(poses.clip_names):
        core = poses.skeleton.to_core(poses.rot[poses.rows(i)])
        turned, _ = forward_kinematics.forward(poses.skeleton, core)
        cosine = (np.einsum("fjab,fjab->fj", turned[1:], turned[:-1]) - 1) / 2
        speed = np.arccos(np.clip(cosine, -1, 1)).max() * poses.clip_fps[i]
        assert speed < 45, name  # [rad/s]; the fastest is a punching forearm's


def test_the_source_at_rest_stands_with_hanging_arms() -> None:
    at = carried()
    for side, sign in (("Left", 1), ("Right", -1)):
        assert at[f"{side}Hand"][2] == pytest.approx(at[f"{side}Arm"][2] - 0.564, abs=0.01)
        assert np.abs((at[f"{side}Hand"] - at[f"{side}Arm"])[:2]).max() < 0.02
        leg = at[f"{side}Foot"] - at[f"{side}Thigh"]
        assert leg == pytest.approx([0, 0, -0.945], abs=1e-3)
        assert sign * at[f"{side}Foot"][0] > 0.09
    assert at["LeftFoot"][2] == pytest.approx(0.080, abs=1e-6)
    assert at["Head"] == pytest.approx(reference().rest_arm[6, :3, 3] + at["Hips"] - reference().rest_arm[0, :3, 3])


def test_each_source_joint_moves_the_same_joint_the_same_way() -> None:
    """Source axes: X forward, Y up, Z right. A knee's angle is negative, an elbow's positive when bent."""
    rest = carried()
    half = np.sqrt(0.5)

    def moved(bone: str, relative_to: str, **parts: np.ndarray | float) -> np.ndarray:
        at = carried(**parts)
        return (at[bone] - at[relative_to]) - (rest[bone] - rest[relative_to])

    assert moved("RightFoot", "RightShin", right_knee=-1.5)[1] > 0.4  # back
    assert moved("RightHand", "RightForeArm", right_elbow=1.5)[1] < -0.25  # to the front
    assert np.abs(moved("LeftFoot", "Hips", right_knee=-1.5)).max() < 0.01
    assert moved("LeftHand", "LeftForeArm", left_elbow=1.5)[1] < -0.25
    assert moved("LeftFoot", "LeftShin", left_knee=-1.5)[1] > 0.4
    about_forward = np.array([half, half, 0, 0])  # a quarter turn: what hangs goes to the left
    assert moved("LeftForeArm", "LeftArm", left_shoulder=about_forward)[0] > 0.25
    assert moved("RightForeArm", "RightArm", right_shoulder=about_forward)[0] > 0.25
    assert moved("RightShin", "RightThigh", right_hip=about_forward)[0] > 0.4
    assert moved("LeftShin", "LeftThigh", left_hip=about_forward)[0] > 0.4
    forward_bend = np.array([np.cos(0.25), 0, 0, -np.sin(0.25)])
    assert moved("Head", "Hips", chest=forward_bend)[1] < -0.1
    assert np.abs(moved("LeftFoot", "Hips", chest=forward_bend)).max() < 1e-5
    toes_down = np.array([np.cos(0.25), 0, 0, -np.sin(0.25)])
    assert moved("LeftToeBase", "LeftFoot", left_ankle=toes_down)[2] < -0.05
    assert moved("RightToeBase", "RightFoot", right_ankle=toes_down)[2] < -0.05
    look_left = np.array([half, 0, half, 0])
    rig = reference()
    rot, root_pos = maker.carry(rig, source_frame(neck=look_left))
    head = forward_kinematics.armature_matrices(rig, rot, root_pos)[0, rig.names.index("Head"), :3, 2]
    assert head == pytest.approx([1, 0, 0], abs=1e-4)


def test_chest_and_neck_are_shared_out_equally_and_come_out_whole() -> None:
    rig = reference()
    turn = np.array([np.cos(0.3), *(np.sin(0.3) * np.array([2.0, 3, 6]) / 7)])
    rot, _ = maker.carry(rig, source_frame(chest=turn, neck=turn))
    core = rig.to_core(rot)[0]
    for bones in (("Spine", "Spine1", "Spine2"), ("NeckLower", "NeckUpper", "Head")):
        for bone in bones:
            assert core[rig.names.index(bone)] == pytest.approx(maker.TO_CORE @ turn[1:] / np.sin(0.3) * 0.2, abs=2e-6)


def test_a_file_of_another_layout_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "laikago_walk.txt"
    path.write_text('{"Frames": [[0.1, 0, 0]]}')
    with pytest.raises(ValueError, match=r"laikago_walk.txt: expected finite frames of 44 numbers"):
        maker.read(path)


def test_without_the_package_it_says_so_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert maker.main(["-o", str(tmp_path / "out.npz")]) == 2
    assert "expected the package pybullet" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_making_it_again_gives_the_shipped_file(tmp_path: Path) -> None:
    if importlib.util.find_spec("pybullet_data") is None:
        pytest.skip("needs the package pybullet (group data), which carries the source clips")
    once, twice = tmp_path / "once.npz", tmp_path / "twice.npz"
    assert maker.main(["-o", str(once)]) == maker.main(["-o", str(twice)]) == 0
    assert once.read_bytes() == twice.read_bytes()
    with (
        zipfile.ZipFile(once) as made,
        zipfile.ZipFile(SHIPPED) as shipped,
    ):  # another zlib may pack the same bytes otherwise
        assert made.namelist() == shipped.namelist()
        for name in made.namelist():
            assert made.read(name) == shipped.read(name), name


def test_bullet_itself_poses_the_source_the_same_way(poses: PoseSet, matrices: dict[str, np.ndarray]) -> None:
    """Another program poses the same frames: copied turns agree exactly, directions of solved bones nearly."""
    bullet = pytest.importorskip("pybullet", reason="needs the package pybullet (group data)")
    data = maker.installed()
    world = bullet.connect(bullet.DIRECT)
    try:
        body = bullet.loadURDF(str(data / "humanoid" / "humanoid.urdf"), globalScaling=0.25, physicsClientId=world)
        links = {bullet.getJointInfo(body, j)[12].decode(): j for j in range(bullet.getNumJoints(body))}
        for i, path in enumerate(maker.sources(data)):
            frames, _ = maker.read(path)
            for k in (0, len(frames) // 3, len(frames) - 1):
                row = poses.rows(i).start + k

                def turn(column: int, frame: np.ndarray = frames[k]) -> list[float]:
                    w, x, y, z = frame[column : column + 4] / np.linalg.norm(frame[column : column + 4])
                    return [x, y, z, w]

                bullet.resetBasePositionAndOrientation(body, frames[k, 1:4], turn(4))
                for name, column in columns().items():
                    if name.endswith(("knee", "elbow")):
                        bullet.resetJointState(body, links[name], frames[k, column])
                    elif name != "root":
                        bullet.resetJointStateMultiDof(body, links[name], turn(column))
                state = {n: bullet.getLinkState(body, j, computeForwardKinematics=1)[4:6] for n, j in links.items()}
                for link, bone in (("root", "Hips"), ("chest", "Spine2"), ("neck", "Head"), ("left_ankle", "LeftFoot")):
                    theirs = np.reshape(bullet.getMatrixFromQuaternion(state[link][1]), (3, 3))
                    rest = poses.skeleton.rest_arm[poses.skeleton.names.index(bone), :3, :3]
                    ours = matrices[bone][row, :3, :3] @ rest.T
                    assert np.abs(maker.TO_CORE @ theirs @ maker.TO_CORE.T - ours).max() < 1e-4, (path.stem, k, bone)
                for upper, lower, bones, most in (
                    ("left_elbow", "left_wrist", ("LeftForeArm", "LeftHand"), 0.1),
                    ("right_shoulder", "right_elbow", ("RightArm", "RightForeArm"), 3),  # the rig's rest slopes by 2.7
                    (
                        "right_hip",
                        "right_ankle",
                        ("RightThigh", "RightFoot"),
                        8,
                    ),  # where an ankle was lifted: 5 cm in crawl
                ):
                    theirs = maker.TO_CORE @ np.subtract(state[lower][0], state[upper][0])
                    ours = matrices[bones[1]][row, :3, 3] - matrices[bones[0]][row, :3, 3]
                    cosine = theirs @ ours / np.linalg.norm(theirs) / np.linalg.norm(ours)
                    assert np.degrees(np.arccos(min(cosine, 1.0))) < most, (path.stem, k, bones)
    finally:
        bullet.disconnect(world)
