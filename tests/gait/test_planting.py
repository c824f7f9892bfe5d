# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact feet: stances on level, sloping and bumpy floors, on bodies of many proportions."""

from __future__ import annotations

import numpy as np
import pytest
from gait_data import RIG, model

from neural_network.core import contacts, metrics
from neural_network.core.skeleton import Skeleton
from neural_network.gait import parameters, planting, teacher, walks
from neural_network.gait.planting import Stance
from neural_network.gait.teacher import KinematicTeacher
from neural_network.ik import foot_pins

HIT = 1e-6
"""[m]"""


def looks(rig: Skeleton, walk: walks.Walk) -> tuple[np.ndarray, np.ndarray]:
    """Heel, ball and tip (F, 2, 3, 3), and the feet that stand by the truth rule (F, 2)."""
    turned, heads = foot_pins.forward(rig, walk.turns, walk.root)
    feet, toes = list(rig.feet), list(rig.toes)
    contact = contacts.truth_contacts(heads[:, feet], heads[:, toes], rig.foot_rest)
    return contacts.foot_points(rig, turned, heads), contact


@pytest.mark.parametrize("legs", [0.8, 0.9, 1.0, 1.1, 1.2])
@pytest.mark.parametrize("speed", [0.7, 1.3, 2.0])
def test_feet_that_stand_do_not_slide_sink_or_float_whatever_the_legs(legs: float, speed: float) -> None:
    values = parameters.vector({"speed": speed}, {"thigh": legs, "shank": 2 - legs})
    rig = teacher.body(values)
    walk = walks.walk(walks.Taught(KinematicTeacher(model())), values, 60, 30.0)
    points, contact = looks(rig, walk)
    assert contact.any(axis=0).all()
    assert metrics.slide(points, contact) < 1.0
    assert metrics.penetration(points).max() < 0.01
    assert metrics.floating(points, contact).mean() < 2.0
    assert (np.degrees(foot_pins.knee_flexion(rig, walk.turns)) >= -1e-6).all()
    assert walk.missing < 0.002


def test_frames_that_stand_keep_a_point_of_the_sole_exactly_where_it_is() -> None:
    values = parameters.vector({"speed": 1.3})
    walk = walks.walk(walks.Taught(KinematicTeacher(model())), values, 90, 60.0)
    points, _ = looks(RIG, walk)
    both = walk.contact[1:] & walk.contact[:-1]
    assert both.any()
    still = np.linalg.norm(np.diff(points, axis=0), axis=-1).min(axis=-1)[both]
    # a roll from heel to ball within one frame moves both a little
    assert np.percentile(still, 90) < HIT
    assert points[..., 2].min() > -HIT


def test_stances_lie_where_they_are_told_to() -> None:
    """A body that hangs in the air is put on two given places."""
    frames = 40
    turns = np.broadcast_to(np.eye(3), (frames, RIG.count, 3, 3))
    root = RIG.rest_core[0, :3, 3] + np.zeros((frames, 3)) - [0, 0, 0.06]
    stances = [
        Stance(0, 0.0, 12.0, np.array([0.15, 0.10]), 0.3),
        Stance(0, 25.0, 39.0, np.array([0.10, -0.15]), 0.1),
        Stance(1, 0.0, 39.0, np.array([-0.12, 0.05]), -0.2),
    ]
    found = planting.plant(RIG, turns, root, stances)
    turned, heads = foot_pins.forward(RIG, found.turns, found.root)
    points = contacts.foot_points(RIG, turned, heads)
    for stance, rows in ((stances[0], slice(0, 13)), (stances[1], slice(25, 40)), (stances[2], slice(0, 40))):
        assert stance.heel is not None
        np.testing.assert_allclose(
            points[rows, stance.foot, 0], np.tile([*stance.heel, 0], (len(points[rows]), 1)), atol=HIT
        )
        heading = planting.heading_of(turned[rows, RIG.feet[stance.foot]])
        np.testing.assert_allclose(heading, stance.heading, atol=1e-6)
    assert found.contact[:, 1].all()
    assert not found.contact[13:25, 0].any()
    assert points[18, 0, :, 2].min() > 0.005  # in the middle of its swing


@pytest.mark.parametrize("name", ["slope", "bumps"])
def test_feet_stand_on_floors_that_are_not_level(name: str) -> None:
    def ground(points: np.ndarray) -> np.ndarray:
        if name == "slope":
            return -0.15 * points[..., 1] + 0.05 * points[..., 0]
        return 0.04 * np.sin(3.1 * points[..., 0] + 1) * np.cos(2.3 * points[..., 1])

    values = parameters.vector({"speed": 1.2})
    walk = walks.walk(walks.Taught(KinematicTeacher(model())), values, 120, 30.0, ground=ground)
    points, _ = looks(RIG, walk)
    above = points[..., 2] - ground(points[..., :2])
    both = walk.contact[1:] & walk.contact[:-1]
    slides = np.linalg.norm(np.diff(points[..., :2], axis=0), axis=-1).min(axis=-1)[both]
    assert slides.mean() < 0.001
    assert above.min() > -0.006  # a sole is flat, and bumps are not
    assert np.abs(above.min(axis=-1)[walk.contact]).mean() < 0.004
    swing = above.min(axis=-1)[~walk.contact]
    assert swing.max() > 0.02


def test_the_hips_go_down_where_a_leg_would_not_reach() -> None:
    frames = 30
    turns = np.broadcast_to(np.eye(3), (frames, RIG.count, 3, 3))
    root = RIG.rest_core[0, :3, 3] + np.zeros((frames, 3))
    stances = [Stance(0, 0.0, 29.0, np.array([0.1, -0.5]), 0.0), Stance(1, 0.0, 29.0, np.array([-0.1, 0.3]), 0.0)]
    found = planting.plant(RIG, turns, root, stances)
    assert found.missing < 1e-4
    assert (found.root[:, 2] < root[:, 2] - 0.03).all()
    np.testing.assert_array_equal(found.root[:, :2], root[:, :2])
