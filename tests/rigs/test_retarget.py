# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion retargeted from any skeleton to any other: same directions, feet on the floor, hinges bend the right way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import mocap_clip, slow_except

from benchmarks.retarget import SKATE, measure, without_first
from benchmarks.rigs import FamilyRig, a_pose, all_rigs, heaped, proportioned, skeleton, true_bones, turned, walk
from neural_network.core.forward_kinematics import armature_matrices
from neural_network.core.reference_rig import reference
from neural_network.core.rotations import (
    axis_angle_from_matrix,
    matrix_from_axis_angle,
    matrix_from_quaternion,
    quaternion_from_matrix,
    twist_about,
)
from neural_network.core.skeleton import Skeleton
from neural_network.motion.clip import Clip
from neural_network.rigs import proportions, retarget, rig_body
from neural_network.rigs.roles import ROLE_NAMES, Roles, mirrored

RIGS = all_rigs()
REFERENCE = reference()
OWN = {n: j for j, n in enumerate(REFERENCE.names)}
SAME_WAY = np.radians(1.0)
"""Tolerance for one motion written in two ways: feet are detected and solved in both."""


def heads_of(target: Skeleton, rot: np.ndarray, root_pos: np.ndarray) -> np.ndarray:
    return armature_matrices(target, rot, root_pos)[..., :3, 3]


def directions(heads: np.ndarray, bones: dict[str, int]) -> np.ndarray:
    """Unit directions (F, 8, 3) of the limbs' bones."""
    pairs = [
        (s + a, s + b)
        for s in ("Left", "Right")
        for a, b in (("Arm", "ForeArm"), ("ForeArm", "Hand"), ("Thigh", "Shin"), ("Shin", "Foot"))
    ]
    steps = np.stack([heads[:, bones[b]] - heads[:, bones[a]] for a, b in pairs], axis=1)
    return steps / np.linalg.norm(steps, axis=-1, keepdims=True)


def widest(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.arccos(np.clip(np.sum(a * b, axis=-1), -1, 1)).max())


def source_directions(clip: Clip) -> np.ndarray:
    body, motion = rig_body.clip_motion(clip, rig_body.clip_roles(clip))
    return directions(motion.heads, dict(body.bones))


@pytest.mark.parametrize(
    "family",
    slow_except(["mixamo", "vroid", "reallusion cc", "3ds max biped", "daz genesis 8", "smpl", "mmd"], "vroid", "mmd"),
)
def test_arms_of_the_reference_point_like_the_source_s(family: str) -> None:
    clip = walk(RIGS[family])
    heads = heads_of(*retarget.to_reference(clip))
    arms = [0, 1, 4, 5]
    assert widest(directions(heads, OWN)[:, arms], source_directions(clip)[:, arms]) < np.radians(0.01)


def test_the_body_s_left_and_front_are_kept() -> None:
    clip = walk(RIGS["mixamo"])
    heads = heads_of(*retarget.to_reference(clip))
    assert np.all(heads[:, OWN["LeftThigh"], 0] > heads[:, OWN["RightThigh"], 0])
    assert heads[-1, OWN["Hips"], 1] < heads[0, OWN["Hips"], 1] - 0.5  # it walks to where it faces
    assert np.all(heads[:, OWN["LeftToeBase"], 1] < heads[:, OWN["LeftFoot"], 1])


def test_a_file_with_a_meaningless_rest_pose_gives_the_same_motion() -> None:
    clip = walk(RIGS["lafan1"])
    plain, heap = (retarget.to_reference(c) for c in (clip, heaped(clip)))
    assert widest(directions(heads_of(*plain), OWN), directions(heads_of(*heap), OWN)) < np.radians(12)
    arms = [0, 1, 4, 5]
    assert widest(directions(heads_of(*plain), OWN)[:, arms], directions(heads_of(*heap), OWN)[:, arms]) < SAME_WAY


@pytest.mark.parametrize("degrees", slow_except([90.0, 180.0, -37.0], -37.0))
def test_a_source_that_faces_another_way_moves_the_same_that_way(degrees: float) -> None:
    rig = RIGS["unity humanoid"]
    clip = walk(rig)
    turn = matrix_from_axis_angle(np.array([0, np.radians(degrees), 0]))  # about the file's up
    other = replace(
        clip,
        offsets=clip.offsets @ turn.T,
        root_pos=clip.root_pos @ turn.T,
        rotations=quaternion_from_matrix(turn @ _matrices(clip) @ turn.T),
    )
    plain, heads = (heads_of(*retarget.to_reference(c)) for c in (clip, other))
    back = matrix_from_axis_angle(np.array([0, 0, np.radians(degrees)]))
    assert np.abs(heads - plain @ back.T).max() < 1e-3


def test_the_file_s_unit_and_up_axis_do_not_matter() -> None:
    clip = walk(RIGS["xsens mvn"])
    axes = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # Y up to Z up
    other = replace(
        clip,
        offsets=clip.offsets @ axes.T * 100,
        root_pos=clip.root_pos @ axes.T * 100,
        rotations=quaternion_from_matrix(axes @ _matrices(clip) @ axes.T),
        up_axis="Z",
        unit=0.01,
    )
    _, rot, root_pos = retarget.to_reference(clip)
    _, other_rot, other_pos = retarget.to_reference(other)
    assert np.allclose(rot, other_rot, atol=1e-6)
    assert np.allclose(root_pos, other_pos, atol=1e-6)


def _matrices(clip: Clip) -> np.ndarray:
    return matrix_from_quaternion(clip.rotations)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("rigify metarig", lambda r: a_pose(r, 50)),
        ("rokoko", lambda r: turned(r, 90)),
        ("unreal mannequin 5", lambda r: proportioned(r, legs=1.2, arms=0.8)),
        ("second life bento", lambda r: turned(r, 180, unit=3.0)),
    ],
)
def test_targets_with_other_rest_poses_point_their_arms_alike(
    family: str, change: Callable[[FamilyRig], FamilyRig]
) -> None:
    target_rig: FamilyRig = change(RIGS[family])
    target, bones = skeleton(target_rig), true_bones(target_rig)
    clip = walk(RIGS["mixamo"])
    rot, root_pos = retarget.retarget(clip, target, bones)
    heads = heads_of(target, rot, root_pos)
    arms = [0, 1, 4, 5]
    assert widest(directions(heads, bones)[:, arms], source_directions(clip)[:, arms]) < np.radians(0.01)


@pytest.mark.parametrize(
    "family", slow_except(["mixamo", "stylised, few bones", "daz genesis 9", "xsens mvn"], "daz genesis 9")
)
def test_standing_feet_stay_in_place_and_above_the_floor(family: str) -> None:
    rig = proportioned(RIGS[family], legs=0.9)
    figures = measure(walk(RIGS["unity humanoid"]), skeleton(rig), true_bones(rig))
    assert figures.penetration <= 0.01
    assert figures.skate <= SKATE * figures.source_skate
    assert figures.knees == 0
    assert figures.elbows == 0


@pytest.mark.slow
def test_rigs_without_shoulders_neck_toes_and_spine_bones_work_as_source_and_target() -> None:
    few, many = RIGS["stylised, few bones"], RIGS["unreal mannequin 5"]
    for source, target_rig in ((few, many), (many, few)):
        target, bones = skeleton(target_rig), true_bones(target_rig)
        rot, root_pos = retarget.retarget(walk(source), target, bones)
        assert np.isfinite(rot).all()
        assert np.isfinite(root_pos).all()
        heads = heads_of(target, rot, root_pos)
        assert widest(directions(heads, bones)[:, [0, 4]], source_directions(walk(source))[:, [0, 4]]) < np.radians(
            0.01
        )


def test_a_trunk_of_one_bone_bends_a_trunk_of_three_along_its_whole_length() -> None:
    clip = walk(RIGS["stylised, few bones"])
    _, rot, _ = retarget.to_reference(clip)
    turn = np.linalg.norm(rot[:, [OWN["Spine"], OWN["Spine1"], OWN["Spine2"]]], axis=-1)
    assert np.allclose(turn[:, 0], turn[:, 1], atol=1e-6)
    assert np.allclose(turn[:, 1], turn[:, 2], atol=1e-6)
    assert turn.max() > np.radians(1)


def test_a_twisting_wrist_turns_the_forearm_with_it() -> None:
    rig = RIGS["unity humanoid"]
    clip = walk(rig)
    hand = rig.names.index("LeftHand")
    rotations = clip.rotations.copy()
    rotations[:, hand] = [np.cos(np.radians(40)), np.sin(np.radians(40)), 0, 0]  # 80 degrees about the arm
    _, rot, _ = retarget.to_reference(replace(clip, rotations=rotations))
    along = REFERENCE.rest_arm[OWN["LeftForeArm"], :3, 1]
    wrist = np.abs(_twist(rot, "LeftHand", along))
    forearm = np.abs(_twist(rot, "LeftForeArm", along))
    assert wrist.max() < np.radians(30)
    assert forearm.max() > np.radians(50)


def _twist(rot: np.ndarray, name: str, along: np.ndarray) -> np.ndarray:
    rest = REFERENCE.rest_arm[OWN[name], :3, :3]
    turn = rest @ matrix_from_axis_angle(rot[:, OWN[name]]) @ rest.T
    return twist_about(axis_angle_from_matrix(turn), along)


def test_elbows_bend_about_their_hinge_for_any_roll_of_the_arms() -> None:
    """Upper arms rolled by 40 degrees in the file: the reference's elbow must still bend about one axis, its own."""
    rig = RIGS["unity humanoid"]
    clip = walk(rig)
    arm, fore = rig.names.index("LeftUpperArm"), rig.names.index("LeftLowerArm")
    roll = matrix_from_axis_angle(np.radians([40.0, 0, 0]))
    local = _matrices(clip).copy()
    local[:, arm] = local[:, arm] @ roll
    local[:, fore] = roll.T @ local[:, fore]  # the forearm moves as before; its hinge lies elsewhere in the upper arm
    _, rot, _ = retarget.to_reference(replace(clip, rotations=quaternion_from_matrix(local)))
    sideways = np.degrees(np.abs(rot[:, OWN["LeftForeArm"], 2]))
    assert sideways.max() < 4


def test_roles_that_are_given_are_used() -> None:
    clip = walk(RIGS["mixamo"])
    roles = rig_body.clip_roles(clip)
    _, rot, root_pos = retarget.to_reference(clip, mirrored(roles))
    heads = heads_of(REFERENCE, rot, root_pos)
    assert np.all(
        heads[:, OWN["LeftThigh"], 0] < heads[:, OWN["RightThigh"], 0]
    )  # what was called left is on the right


def test_the_clip_is_not_changed() -> None:
    clip = walk(RIGS["mixamo"])
    before = clip.rotations.copy(), clip.root_pos.copy(), clip.offsets.copy()
    retarget.to_reference(clip)
    assert all(np.array_equal(a, b) for a, b in zip(before, (clip.rotations, clip.root_pos, clip.offsets), strict=True))


def test_no_frames_give_no_frames() -> None:
    clip = walk(RIGS["mixamo"])
    _, rot, root_pos = retarget.to_reference(replace(clip, rotations=clip.rotations[:0], root_pos=clip.root_pos[:0]))
    assert rot.shape == (0, 23, 3)
    assert root_pos.shape == (0, 3)


def test_one_frame_is_a_pose() -> None:
    clip = walk(RIGS["mixamo"])
    _, rot, root_pos = retarget.to_reference(replace(clip, rotations=clip.rotations[:1], root_pos=clip.root_pos[:1]))
    assert rot.shape == (1, 23, 3)
    assert np.isfinite(rot).all()
    assert abs(root_pos[0, 2] - 0.98) < 0.1


def test_a_clip_without_legs_is_refused_and_told_what_to_do() -> None:
    clip = walk(RIGS["mixamo"])
    with pytest.raises(ValueError, match=r"no bone for Hips.*--roles"):
        retarget.to_reference(clip, Roles(dict.fromkeys(ROLE_NAMES)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "cmu_mb/02_01",
        "cmu_daz/05_14",
        "cmu_max/131_01",
        "kaykit_cc0/kaykit_PickUp",
        "makehuman_cc0/walk1",
        "fair1_zup/dab",
    ],
)
def test_motion_capture_stands_on_the_reference_s_feet(mocap: Path, name: str) -> None:
    clip = without_first(mocap_clip(mocap / "bvh" / f"{name}.bvh"))
    figures = measure(clip, REFERENCE, OWN)
    assert figures.penetration <= 0.01
    assert figures.skate <= SKATE * figures.source_skate + 1e-3
    assert figures.knees == 0
    assert figures.wrist < np.radians(90)


@pytest.mark.slow
@pytest.mark.parametrize("family", slow_except(["mixamo", "stylised, few bones", "unreal mannequin 5", "mmd"], "mmd"))
def test_the_reference_in_a_body_s_own_lengths_moves_exactly_as_the_body(family: str) -> None:
    clip = walk(proportioned(RIGS[family], legs=0.8, arms=1.2, width=1.3))
    skeleton_of_it, rot, root_pos = retarget.to_proportioned_reference(clip)
    assert skeleton_of_it.fingerprint == REFERENCE.fingerprint
    heads = heads_of(skeleton_of_it, rot, root_pos)
    body, motion = rig_body.clip_motion(clip, rig_body.clip_roles(clip))
    away = [heads[:, OWN[r]] - motion.heads[:, body.bones[r]] for r in ("LeftHand", "RightHand", "Head", "LeftArm")]
    lift = np.median(away[0][:, 2])  # the floor is put at z = 0
    assert max(np.abs(a - [0, 0, lift]).max() for a in away) < 1e-6


def test_the_reference_in_its_own_lengths_is_the_reference() -> None:
    again = proportions.proportioned_reference(rig_body.skeleton_body(REFERENCE, OWN))
    assert abs(again.leg_length - REFERENCE.leg_length) < 1e-6
    lengths = [np.linalg.norm(s.offsets, axis=1) for s in (REFERENCE, again)]
    assert np.allclose(
        *lengths, atol=1e-9
    )  # places differ a little: its rest limbs are not quite straight, a T-pose's are


def test_the_reference_in_a_body_s_own_lengths_keeps_its_joint_limits() -> None:
    skeleton_of_it, _, _ = retarget.to_proportioned_reference(walk(proportioned(RIGS["mixamo"], legs=0.8)))
    assert REFERENCE.limits is not None
    np.testing.assert_array_equal(skeleton_of_it.limits, REFERENCE.limits)


@pytest.mark.slow
def test_long_arms_on_short_legs_do_not_reach_through_the_floor() -> None:
    rig = RIGS["mixamo"]
    clip = walk(rig)
    bones = true_bones(rig)
    turned_down = clip.rotations.copy()
    turned_down[:, bones["Spine"]] = quaternion_from_matrix(matrix_from_axis_angle(np.radians([80.0, 0, 0])))
    hang = matrix_from_axis_angle(np.radians([-64.0, 0, 0]))
    for side in ("Left", "Right"):
        arm = turned_down[:, bones[side + "Arm"]]
        turned_down[:, bones[side + "Arm"]] = quaternion_from_matrix(hang @ matrix_from_quaternion(arm))
    stooped = replace(clip, rotations=turned_down)
    body, motion = rig_body.clip_motion(stooped, rig_body.clip_roles(stooped))
    assert motion.heads[:, [body.bones[s + "Hand"] for s in ("Left", "Right")], 2].min() > 0
    small = proportioned(RIGS["stylised, few bones"], legs=0.35, arms=1.2)
    target, own = skeleton(small), true_bones(small)
    heads = heads_of(target, *retarget.retarget(stooped, target, own))
    hands = heads[:, [own["LeftHand"], own["RightHand"]]]
    assert hands[..., 2].min() > -1e-6
    unbent = np.linalg.norm(heads[:, own["LeftHand"]] - heads[:, own["LeftForeArm"]], axis=-1)
    assert np.ptp(unbent) < 1e-9  # bones keep their lengths
    assert measure(stooped, target, own).elbows == 0
