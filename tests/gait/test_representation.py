# SPDX-License-Identifier: GPL-3.0-or-later
"""The 101 numbers of a pose: where each stands, and that a pose comes back from them."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_rig
from gait_data import RIG, stride

from neural_network.core.rotations import geodesic_angle, matrix_from_axis_angle
from neural_network.gait import representation
from neural_network.gait.representation import Pose
from neural_network.ik import foot_pins


def poses() -> Pose:
    cycle = stride()
    count = len(cycle.root)
    way = np.stack([1.3 + 0.1 * np.sin(np.arange(count)), 0.05 * np.cos(np.arange(count))], axis=1)
    return Pose(cycle.turns, way, cycle.root[:, 2])


def test_numbers_stand_where_gait_networks_expect_them() -> None:
    pose = poses()
    numbers = representation.encode(RIG, pose)
    index = {name: j for j, name in enumerate(RIG.names)}
    assert numbers.shape == (60, 101)
    np.testing.assert_allclose(numbers[:, :3], pose.turns[:, 0, 0])  # the first row of the pelvis
    np.testing.assert_allclose(numbers[:, 3:6], pose.turns[:, 0, 1])
    np.testing.assert_allclose(numbers[:, 6] * 30, pose.velocity[:, 0])
    np.testing.assert_allclose(numbers[:, 7], pose.height)
    np.testing.assert_allclose(numbers[:, 8] * 30, pose.velocity[:, 1])
    np.testing.assert_allclose(numbers[:, 9:12], pose.turns[:, index["RightThigh"], 0])
    np.testing.assert_allclose(numbers[:, 24:27], pose.turns[:, index["LeftThigh"], 0])
    knee = np.arctan2(pose.turns[:, index["LeftShin"], 2, 1], pose.turns[:, index["LeftShin"], 1, 1])
    np.testing.assert_allclose(numbers[:, 30], knee, atol=1e-9)
    np.testing.assert_allclose(numbers[:, 57:60], pose.turns[:, index["Head"], 0])


def test_a_pose_comes_back_and_its_hands_stay_where_they_are() -> None:
    pose = poses()
    back = representation.decode(RIG, representation.encode(RIG, pose))
    np.testing.assert_allclose(back.velocity, pose.velocity, atol=1e-12)
    np.testing.assert_allclose(back.height, pose.height, atol=1e-12)
    zero = np.zeros((60, 3))
    before, after = foot_pins.forward(RIG, pose.turns, zero)[1], foot_pins.forward(RIG, back.turns, zero)[1]
    assert np.abs(before - after).max() < 0.004  # two spine bones share their turn
    again = representation.decode(RIG, representation.encode(RIG, back))
    assert np.degrees(geodesic_angle(again.turns, back.turns)).max() < 1  # the hinge of a nearly straight elbow


def test_an_elbow_becomes_a_hinge_without_moving_elbow_or_hand(rng: np.random.Generator) -> None:
    index = {name: j for j, name in enumerate(RIG.names)}
    for side in ("Left", "Right"):
        arm, hand = (matrix_from_axis_angle(rng.normal(0, 0.6, (30, 3))) for _ in range(2))
        bent = rng.uniform(0.2, 1.5, 30)
        sign = -1 if side == "Left" else 1
        forearm = matrix_from_axis_angle(np.stack([0.3 * bent, 0.2 * bent, sign * bent], axis=1))
        new, flexion, turned = representation.hinged(RIG, index, side, arm, forearm, hand)
        hinge = matrix_from_axis_angle(np.outer(sign * flexion, [0, 0, 1.0]))
        upper, lower = RIG.offsets[index[f"{side}ForeArm"]], RIG.offsets[index[f"{side}Hand"]]
        wanted = arm @ upper + (arm @ forearm) @ lower
        assert np.abs(new @ upper + (new @ hinge) @ lower - wanted).max() < 0.03
        np.testing.assert_allclose(new @ hinge @ turned, arm @ forearm @ hand, atol=1e-9)


def test_numbers_that_are_no_rotation_are_none() -> None:
    np.testing.assert_array_equal(representation.rows_to_matrix(np.zeros((2, 6))), np.tile(np.eye(3), (2, 1, 1)))
    same = np.tile([1.0, 0, 0, 1, 0, 0], (2, 1))
    np.testing.assert_array_equal(representation.rows_to_matrix(same), np.tile(np.eye(3), (2, 1, 1)))


def test_another_rig_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(ValueError, match="missing Head, "):
        representation.require_rig(make_rig("creature"))
