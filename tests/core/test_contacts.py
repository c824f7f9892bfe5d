# SPDX-License-Identifier: GPL-3.0-or-later
"""Contacts: the scaled rule of training and the truth that motion is measured by, on feet moved by hand."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import EXACT, make_rig, random_turns

from neural_network.core import contacts, rotations
from neural_network.core import forward_kinematics as fk
from neural_network.core.contacts import truth_contacts

REST = np.array([[0.08, 0.02]])
"""(1, 2) [m] rest heights of ankle and toe of one foot."""


def foot(frames: int, ankle: float = 0.08, toe: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """Ankles and toes (F, 1, 3) of a foot that stays where it is, at these heights [m]."""
    ankles, toes = np.zeros((frames, 1, 3)), np.tile([0.0, -0.15, 0.0], (frames, 1, 1))
    ankles[..., 2], toes[..., 2] = ankle, toe
    return ankles, toes


def stands(ankles: np.ndarray, toes: np.ndarray, ground: float = 0.0) -> str:
    return "".join("-x"[int(flag)] for flag in truth_contacts(ankles, toes, REST, ground)[:, 0])


# ---------------------------------------------------------------- the scaled rule


def test_a_foot_is_as_high_as_the_lower_of_ankle_and_toe_above_their_rest() -> None:
    ankles, toes = foot(1, ankle=0.10, toe=0.06)
    assert contacts.foot_heights(ankles, toes, REST)[0, 0] == pytest.approx(0.02)
    ankles, toes = foot(1, ankle=0.20, toe=0.01)
    assert contacts.foot_heights(ankles, toes, REST)[0, 0] == pytest.approx(-0.01)


def test_the_ground_is_the_second_percentile_of_the_lowest_foot() -> None:
    heights = np.stack([np.linspace(0, 1, 101), np.full(101, 5.0)], axis=1)
    assert contacts.ground_height(heights) == pytest.approx(0.02)
    assert contacts.ground_height(heights[:, 0]) == pytest.approx(0.02)


@pytest.mark.parametrize(("leg", "height", "speed", "expected"), [
    (0.945, 0.029, 0.29, True),
    (0.945, 0.031, 0.29, False),
    (0.945, 0.029, 0.31, False),
    (1.89, 0.059, 0.59, True),
    (1.89, 0.061, 0.59, False),
])  # fmt: skip
def test_a_foot_stands_where_it_is_low_and_slow_for_its_leg(
    leg: float, height: float, speed: float, expected: bool
) -> None:
    assert contacts.grounded(np.array([height]), np.array([speed]), leg)[0] == expected


def test_the_older_rule_asks_for_the_ankle_alone() -> None:
    assert contacts.older_grounded(np.array([0.099, 0.101]), 0.945).tolist() == [True, False]
    assert contacts.older_grounded(np.array([0.199, 0.201]), 1.89).tolist() == [True, False]


def test_speeds_are_those_since_the_frame_before_or_around_the_frame() -> None:
    points = np.zeros((4, 1, 3))
    points[:, 0, 0] = [0.0, 0.1, 0.3, 0.6]
    np.testing.assert_allclose(contacts.backward_speed(points, 10)[:, 0], [1, 1, 2, 3])
    np.testing.assert_allclose(contacts.central_speed(points, 10)[:, 0], [1, 1.5, 2.5, 3])
    for speed in (contacts.backward_speed, contacts.central_speed):
        assert speed(points[:1], 10).tolist() == [[0.0]]


def test_the_desired_contact_is_the_contact_a_tenth_of_a_second_later() -> None:
    contact = np.array([[0.0], [0], [0], [1], [1], [0]])
    assert contacts.desired(contact, 30)[:, 0].tolist() == [1, 1, 0, 0, 0, 0]
    assert contacts.desired(contact, 4)[:, 0].tolist() == contact[:, 0].tolist()


def test_short_gaps_and_spots_are_taken_out_but_not_at_the_ends() -> None:
    flags = np.array([c == "x" for c in "x-xxx--xx-x---x"])
    found = contacts.without_short_runs(flags, 2)
    assert "".join("-x"[int(f)] for f in found) == "xxxxx--xxxx---x"
    assert contacts.runs(flags)[:2] == [(0, 1), (2, 5)]
    assert contacts.runs(np.zeros(0, bool)) == []


# ---------------------------------------------------------------- truth


def test_a_foot_that_stays_on_the_floor_stands() -> None:
    assert stands(*foot(6)) == "xxxxxx"
    assert stands(*foot(1)) == "-"
    assert truth_contacts(*foot(0), REST).shape == (0, 1)


def test_truth_asks_for_at_most_three_centimetres_above_the_ground() -> None:
    assert stands(*foot(4, ankle=0.109, toe=0.06)) == "xxxx"  # the ankle 29 mm above its rest
    assert stands(*foot(4, ankle=0.20, toe=0.049)) == "xxxx"  # the toe
    assert stands(*foot(4, ankle=0.111, toe=0.051)) == "----"
    assert stands(*foot(4, ankle=0.111, toe=0.051), ground=0.01) == "xxxx"


def test_truth_takes_the_slower_of_the_ways_before_and_after() -> None:
    ankles, toes = foot(8)
    way = np.array([0, 0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3])  # 3 m/s, then still from the fourth frame on
    ankles[:, 0, 0] += way
    toes[:, 0, 0] += way
    assert stands(ankles, toes) == "---xxxxx"
    slow = np.arange(8) * 0.0149  # 0.447 m/s at 30 frames a second
    assert stands(ankles + slow[:, None, None] * [1, 0, 0], toes + slow[:, None, None] * [1, 0, 0]).endswith("xxxx")
    fast = np.arange(8) * 0.0151
    ankles, toes = foot(8)
    assert stands(ankles + fast[:, None, None] * [1, 0, 0], toes + fast[:, None, None] * [1, 0, 0]) == "--------"


def test_truth_looks_at_the_point_that_is_lower() -> None:
    ankles, toes = foot(6, ankle=0.15)
    ankles[:, 0, 1] += np.arange(6) * 0.1  # the heel is lifted and swings, the toe stays
    assert stands(ankles, toes) == "xxxxxx"
    assert stands(*foot(6, ankle=0.15, toe=0.12)) == "------"


def test_truth_closes_gaps_of_one_frame_and_drops_contacts_under_three() -> None:
    pattern = "xxx-xxx--xx---x"
    ankles, toes = foot(len(pattern))
    lift = np.array([0.0 if c == "x" else 0.2 for c in pattern])
    ankles[:, 0, 2] += lift
    toes[:, 0, 2] += lift
    # a lift of 0.2 m is fast on one side only: the frames beside it still stand
    assert stands(ankles, toes) == "xxxxxxx--------"


# ---------------------------------------------------------------- points of a foot


def test_heel_ball_and_tip_stand_on_the_floor_around_the_foot() -> None:
    rig = make_rig("reference")
    turned, heads = fk.forward(rig, np.zeros((rig.count, 3)))
    points = contacts.foot_points(rig, turned, heads + rig.rest_core[0, :3, 3])
    left = rig.rest_core[[rig.names.index("LeftFoot"), rig.names.index("LeftToeBase")], :3, 3]
    ahead = (left[1] - left[0]) * [1, 1, 0]
    ahead /= np.linalg.norm(ahead)
    assert points.shape == (2, 3, 3)
    np.testing.assert_allclose(points[..., 2], 0, atol=EXACT)
    np.testing.assert_allclose(points[0, 0, :2], (left[0] - 0.04 * ahead)[:2], atol=EXACT)
    np.testing.assert_allclose(points[0, 1, :2], left[1, :2], atol=EXACT)
    np.testing.assert_allclose(points[0, 2, :2], (left[1] + 0.07 * ahead)[:2], atol=EXACT)
    np.testing.assert_allclose(points[1], points[0] * [-1, 1, 1], atol=EXACT)


def test_the_heel_goes_with_the_foot_and_ball_and_tip_with_the_toe(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    rot = random_turns(rng, 5, rig.count, below=0.5)
    turned, heads = fk.forward(rig, rot)
    points = contacts.foot_points(rig, turned, heads)
    bent = rot.copy()
    bent[:, rig.names.index("LeftToeBase")] += [0.5, 0, 0]
    moved = contacts.foot_points(rig, *fk.forward(rig, bent))
    np.testing.assert_allclose(moved[:, 0, 0], points[:, 0, 0], atol=EXACT)
    np.testing.assert_allclose(moved[:, 1], points[:, 1], atol=EXACT)
    assert np.linalg.norm(moved[:, 0, 2] - points[:, 0, 2], axis=-1).min() > 0.02
    whole = rotations.matrix_from_axis_angle(
        np.array([0.3, -0.2, 0.9])
    )  # a body turned as a whole takes its soles along
    np.testing.assert_allclose(
        contacts.foot_points(rig, whole @ turned, heads @ whole.T), points @ whole.T, atol=10 * EXACT
    )


def test_a_foot_without_toes_carries_all_three_points() -> None:
    rig = make_rig("creature")
    turned, heads = fk.forward(rig, np.zeros((rig.count, 3)))
    points = contacts.foot_points(rig, turned, heads + rig.rest_core[0, :3, 3])
    paws = rig.rest_core[list(rig.feet), :3, 3]
    np.testing.assert_allclose(points[:, 0], paws * [1, 1, 0] + [0, 0.04, rig.floor], atol=EXACT)
    np.testing.assert_allclose(points[:, 2], paws * [1, 1, 0] + [0, -0.07, rig.floor], atol=EXACT)
