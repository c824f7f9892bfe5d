# SPDX-License-Identifier: GPL-3.0-or-later
"""Feet that stand where contacts say so."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_rig

from neural_network.core import contacts, metrics, rotations
from neural_network.ik import foot_pins, held_feet

RIG = make_rig("reference")
FPS = 30.0


def skating() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A body that bends its knees, turns its left foot and drifts, 60 frames; its left foot is said to stand in 20 to 39."""
    time = np.arange(60) / FPS
    rot = np.zeros((60, RIG.count, 3))
    for thigh, shin, foot in RIG.legs:
        rot[:, thigh, 0], rot[:, shin, 0], rot[:, foot, 0] = -0.4, 0.8, -0.4
    rot[:, RIG.feet[0], 0] += 0.3 * np.sin(5 * time)
    turns = rotations.matrix_from_axis_angle(rot)
    feet = foot_pins.forward(RIG, turns, np.zeros((60, 3)))
    root = np.stack([0.1 * time, -0.2 * time, 0.02 - contacts.foot_points(RIG, *feet)[..., 2].min(axis=(1, 2))], axis=1)
    contact = np.zeros((60, 2), bool)
    contact[20:40, 0] = True
    return turns, root, contact


def points_of(turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    return contacts.foot_points(RIG, *foot_pins.forward(RIG, turns, root))


def test_a_foot_said_to_stand_neither_slides_nor_floats_and_keeps_its_turns() -> None:
    turns, root, contact = skating()
    before = points_of(turns, root)
    assert metrics.slide(before, contact) > 4
    assert metrics.floating(before, contact).mean() > 10
    held = held_feet.hold(RIG, turns, root, contact, FPS, slack=0.0)
    after = points_of(held.turns, held.root)
    assert metrics.slides(after, contact).max() < 1e-3
    assert metrics.floating(after, contact).max() < 1e-3
    assert metrics.penetration(after).max() < 1e-6
    now, was = (foot_pins.forward(RIG, *m)[0][:, RIG.feet[0]] for m in ((held.turns, held.root), (turns, root)))
    np.testing.assert_allclose(now, was, atol=1e-9)
    assert metrics.slide(points_of(*(lambda h: (h.turns, h.root))(held_feet.hold(RIG, turns, root, contact, FPS))),
                         contact) < 1000 * held_feet.SLACK / FPS + 1e-3  # fmt: skip


def test_frames_far_from_a_contact_and_the_other_leg_stay_to_the_bit() -> None:
    turns, root, contact = skating()
    held = held_feet.hold(RIG, turns, root, contact, FPS)
    far = np.r_[0:14, 46:60]
    np.testing.assert_array_equal(held.turns[far], turns[far])
    np.testing.assert_array_equal(held.root, root)
    right = list(RIG.legs[1])
    np.testing.assert_allclose(held.turns[:, right], turns[:, right], atol=1e-9)
    way = np.linalg.norm(np.diff(held.moved[:, 0], axis=0), axis=-1)
    steepest = 1.875 * np.linalg.norm(held.moved[:, 0], axis=-1).max() / round(held_feet.BLEND * FPS)
    assert way.max() < steepest + 1e-3  # the blend's own speed, and no jump where it begins


def test_the_hips_give_way_where_a_leg_would_not_reach() -> None:
    turns, root, contact = skating()
    straight = np.broadcast_to(np.eye(3), turns.shape).copy()
    high = root.copy()
    high[:, 2] = RIG.rest_core[0, 2, 3] - RIG.floor + 0.03
    held = held_feet.hold(RIG, straight, high, contact, FPS)
    floats = metrics.floating(points_of(held.turns, held.root), contact)
    assert floats.max() < 1000 * held_feet.SHORT + 1
    assert (foot_pins.knee_flexion(RIG, held.turns) > -1e-6).all()
    np.testing.assert_array_equal(held.root[[0, -1]], high[[0, -1]])


def test_feet_stand_on_the_ground_that_is_there() -> None:
    turns, root, contact = skating()

    def slope(points: np.ndarray) -> np.ndarray:
        return np.asarray(0.1 * points[..., 1])

    held = held_feet.hold(RIG, turns, root, contact, FPS, slope)
    points = points_of(held.turns, held.root)
    above = (points[..., 2] - slope(points[..., :2])).min(axis=-1)
    np.testing.assert_allclose(above[contact], 0, atol=2e-4)
    assert above.min() > -2e-3  # beside a slope the blend is not exact


def test_contacts_of_another_clip_are_refused() -> None:
    turns, root, contact = skating()
    with pytest.raises(ValueError, match="expected 60 frames of 2 feet, got"):
        held_feet.hold(RIG, turns, root, contact[:30], FPS)
