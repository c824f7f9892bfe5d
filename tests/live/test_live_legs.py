# SPDX-License-Identifier: GPL-3.0-or-later
"""A skeleton's legs in the legs layout: rows agree with forward kinematics, and answers with the pose they are put into."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import EXACT, REPO

from neural_network.core import forward_kinematics
from neural_network.core.reference_rig import reference
from neural_network.core.rotations import geodesic_angle, matrix_from_quaternion
from neural_network.live import legs, tasks
from neural_network.live.body import wire_pose
from neural_network.live.channels import decode, encode_inputs
from neural_network.live.handshake import layout_fields, read_hello
from neural_network.live.layouts import TwoBoneLimb, legs_layout, positions_layout
from neural_network.motion import pose_set


@pytest.fixture(scope="module")
def poses() -> pose_set.PoseSet:
    return pose_set.load(REPO / "training_data" / "training_data.npz")


def test_places_agree_with_forward_kinematics(poses: pose_set.PoseSet) -> None:
    skeleton, rows = poses.skeleton, slice(0, 400, 20)
    rot, root = poses.rot[rows].astype(np.float64), poses.root_pos[rows].astype(np.float64)
    at, turns = wire_pose(skeleton, rot, root)
    place, _ = legs.skeleton_pose(skeleton, turns, at)
    heads = forward_kinematics.armature_matrices(skeleton, rot, root)[..., :3, 3]
    assert np.abs(place - heads @ skeleton.axes.T).max() < 1e-9


def test_a_row_is_the_same_as_the_one_of_a_replayed_clip(poses: pose_set.PoseSet) -> None:
    skeleton, rows = poses.skeleton, poses.rows(poses.clip_names.index("walk"))
    rot, root = poses.rot[rows].astype(np.float64), poses.root_pos[rows].astype(np.float64)
    inputs, outputs = tasks.task_rows("legs", legs.leg_motion("walk", skeleton, rot, root, 30))
    at, turns = wire_pose(skeleton, rot, root)
    place, turn = legs.skeleton_pose(skeleton, turns, at)
    for frame in (1, 7, 20):
        bones = legs.leg_bones(skeleton)
        feet = [bones[2], bones[5]]
        normals = matrix_from_quaternion(turn[frame, feet])[..., 2]
        before = legs.leg_turns(skeleton, turn[frame - 1])
        hits = inputs[frame - 1][[55, 62]]
        row = legs.leg_row(skeleton, place[frame], turn[frame], before, place[frame, feet], normals, hits)
        assert np.abs(row - inputs[frame - 1]).max() < 1e-6
        now = legs.leg_turns(skeleton, turn[frame])
        assert geodesic_angle(*map(matrix_from_quaternion, (now, outputs[frame - 1].reshape(6, 4)))).max() < 1e-6


def test_replacing_the_legs_of_a_pose_changes_nothing_else(poses: pose_set.PoseSet) -> None:
    skeleton = poses.skeleton
    at, turns = wire_pose(
        skeleton, poses.rot[[300, 310]].astype(np.float64), poses.root_pos[[300, 310]].astype(np.float64)
    )
    _, turn = legs.skeleton_pose(skeleton, turns, at)
    wanted = legs.leg_turns(skeleton, turn[1])
    mixed = legs.with_legs(skeleton, turns[0], turn[0], wanted)
    _, after = legs.skeleton_pose(skeleton, mixed, at[0])
    found = legs.leg_turns(skeleton, after)
    assert geodesic_angle(*map(matrix_from_quaternion, (found, wanted))).max() < 1e-6
    others = [j for j in range(skeleton.count) if j not in legs.leg_bones(skeleton)]
    assert np.abs(mixed[others] - turns[0][others]).max() <= EXACT


def test_an_exact_answer_puts_the_feet_of_the_pose_on_their_targets(poses: pose_set.PoseSet) -> None:
    skeleton, layout = poses.skeleton, legs_layout()
    at, turns = wire_pose(skeleton, poses.rot[300].astype(np.float64), poses.root_pos[300].astype(np.float64))
    place, turn = legs.skeleton_pose(skeleton, turns, at)
    bones = legs.leg_bones(skeleton)
    targets = place[[bones[2], bones[5]]] + np.array([[0.0, -0.02, 0.06], [0.03, 0.0, 0.04]])
    row = legs.leg_row(
        skeleton, place, turn, legs.leg_turns(skeleton, turn), targets, np.tile([0.0, 0, 1], (2, 1)), np.ones(2)
    )
    _, scene = encode_inputs(layout, row)
    answer = decode(layout, np.zeros(24), scene, exact=True).reshape(6, 4)
    after, _ = legs.skeleton_pose(skeleton, legs.with_legs(skeleton, turns, turn, answer), at)
    assert np.abs(after[[bones[2], bones[5]]] - targets).max() < 1e-6


def test_fingerprints_never_change_or_saved_weights_would_not_be_found() -> None:
    limb = TwoBoneLimb("LeftFoot.position", "LeftCalf.position", (0.1, -0.05, 0.0), 0.44, 0.47, (0.02, -1.0, 0.1))
    layout = positions_layout("Pelvis", ["LeftFoot"], ["LeftCalf"], [limb], unit=0.01)
    free = {"rig": "hero", "axes": ["+X", "+Y", "+Z"], "units": 0.01, **layout_fields(layout)}
    assert read_hello(free).fingerprint == "4cde2b96e2ce644743d8e57254c90778"
    assert read_hello(legs.handshake("hero", reference())).fingerprint == "335736aab978ea62bd62bd2bff94be25"


def test_the_handshake_of_a_rig_is_one_that_the_server_accepts(poses: pose_set.PoseSet) -> None:
    hello = read_hello(legs.handshake("x" * 200, poses.skeleton))
    assert hello.layout is not None
    assert (hello.layout.input_size, hello.layout.output_size) == (63, 24)
    assert np.array_equal(hello.matrix, np.eye(3))
    assert hello.fingerprint != read_hello(legs.handshake("other", poses.skeleton)).fingerprint
