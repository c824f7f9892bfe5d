# SPDX-License-Identifier: GPL-3.0-or-later
"""Feet that stand: heel, ball and tip, and whole feet, where they belong, on any proportions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import make_rig

from neural_network.core import contacts, reference_rig, rotations
from neural_network.core.skeleton import Skeleton
from neural_network.ik import foot_pins

HIT = 1e-6
"""[m] what exact steps may leave."""


def body(legs: float = 1.0, shin: float = 1.0) -> Skeleton:
    """The reference rig with longer or shorter legs, its soles still on the floor."""
    rig = reference_rig.reference()
    rest = rig.rest_arm.copy()
    heads = rest[:, :3, 3].copy()
    for thigh, knee, foot in rig.legs:
        below = np.flatnonzero(rig.subtree[knee])
        heads[below] += (legs - 1) * (rest[knee, :3, 3] - rest[thigh, :3, 3])
        below = np.flatnonzero(rig.subtree[foot])
        heads[below] += (legs * shin - 1) * (rest[foot, :3, 3] - rest[knee, :3, 3])
    lift = rest[rig.legs[0][2], 2, 3] - heads[rig.legs[0][2], 2]
    rest[:, :3, 3] = heads + [0, 0, lift]
    return replace(rig, rest_arm=rest)


BODIES = [(0.8, 1.0), (1.0, 1.0), (1.2, 1.0), (1.0, 0.85), (1.1, 1.15)]


def poses(rig: Skeleton, rng: np.random.Generator, count: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Local rotations (N, J, 3, 3) of walking-like poses with bent knees, and the Hips' heads (N, 3)."""
    rot = rng.normal(0, 0.15, (count, rig.count, 3))
    for thigh, shin, _ in rig.legs:
        rot[:, thigh, 0] -= 0.3
        rot[:, shin] = [0.6, 0, 0]
        rot[:, rig.toes] *= [1, 0, 0]
    root = rig.rest_core[0, :3, 3] + rng.normal(0, 0.02, (count, 3)) - [0, 0, 0.06]
    return rotations.matrix_from_axis_angle(rot), root


def points_of(rig: Skeleton, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    return contacts.foot_points(rig, *foot_pins.forward(rig, turns, root))


@pytest.mark.parametrize(("legs", "shin"), BODIES)
def test_legs_go_where_ankles_and_feet_are_wanted(legs: float, shin: float, rng: np.random.Generator) -> None:
    rig = body(legs, shin)
    turns, _ = poses(rig, rng)
    wanted, there = poses(rig, rng)
    turns[:, 0] = wanted[:, 0]
    turned, heads = foot_pins.forward(rig, wanted, there)
    feet, toes = list(rig.feet), list(rig.toes)
    found, missing = foot_pins.legs_to(rig, turns, there, heads[:, feet], turned[:, feet], turned[:, toes])
    got, got_heads = foot_pins.forward(rig, found, there)
    assert missing.max() < HIT
    np.testing.assert_allclose(got_heads[:, feet], heads[:, feet], atol=HIT)
    np.testing.assert_allclose(got[:, [*feet, *toes]], turned[:, [*feet, *toes]], atol=HIT)
    upper = [b for b in range(rig.count) if not any(rig.subtree[leg[0], b] for leg in rig.legs)]
    np.testing.assert_array_equal(found[:, upper], turns[:, upper])


def test_an_ankle_out_of_reach_is_missed_with_a_straight_leg_and_by_what_is_said(rng: np.random.Generator) -> None:
    rig = body()
    turns, root = poses(rig, rng, 3)
    hips = foot_pins.forward(rig, turns, root)[1][:, [leg[0] for leg in rig.legs]]
    ankles = hips + [0.0, -0.3, -1.5]
    feet = np.broadcast_to(np.eye(3), (3, 2, 3, 3))
    found, missing = foot_pins.legs_to(rig, turns, root, ankles, feet)
    heads = foot_pins.forward(rig, found, root)[1]
    np.testing.assert_allclose(np.linalg.norm(ankles - heads[:, list(rig.feet)], axis=-1), missing, atol=HIT)
    assert (missing > 0.4).all()
    bent = foot_pins.knee_flexion(rig, found)
    assert (bent >= 0).all()
    assert (bent < np.radians(2)).all()


def test_a_knee_bends_as_far_as_its_bones_say(rng: np.random.Generator) -> None:
    rig = body()
    turns, root = poses(rig, rng, 5)
    heads = foot_pins.forward(rig, turns, root)[1]
    for k, (thigh, shin, foot) in enumerate(rig.legs):
        upper, lower = heads[:, shin] - heads[:, thigh], heads[:, foot] - heads[:, shin]
        cosine = np.sum(upper * lower, axis=1) / np.linalg.norm(upper, axis=1) / np.linalg.norm(lower, axis=1)
        np.testing.assert_allclose(foot_pins.knee_flexion(rig, turns)[:, k], np.arccos(cosine), atol=1e-3)


@pytest.mark.parametrize(("legs", "shin"), BODIES)
@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_pinned_points_are_met_and_others_are_left_alone(
    legs: float, shin: float, which: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Points of a pose that is near: a foot can be there."""
    rig = body(legs, shin)
    turns, root = poses(rig, rng)
    near = turns.copy()
    for bones in rig.legs:
        near[:, bones[0]] = near[:, bones[0]] @ rotations.matrix_from_axis_angle(rng.normal(0, 0.05, (20, 3)))
        near[:, bones[2]] = near[:, bones[2]] @ rotations.matrix_from_axis_angle(rng.normal(0, 0.05, (20, 3)))
    wanted = points_of(rig, near, root)
    pinned = np.zeros((20, 2, 3), bool)
    pinned[:, 0, list(which)] = True  # the right foot is free
    found, worst = foot_pins.pin_feet(rig, turns, root, wanted, pinned)
    got = points_of(rig, found, root)
    assert worst.max() < HIT
    np.testing.assert_allclose(got[:, 0, list(which)], wanted[:, 0, list(which)], atol=HIT)
    np.testing.assert_allclose(got[:, 1], points_of(rig, turns, root)[:, 1], atol=HIT)
    assert (foot_pins.knee_flexion(rig, found) >= -1e-9).all()


def test_a_foot_with_its_heel_pinned_goes_on_rolling_about_it(rng: np.random.Generator) -> None:
    rig = body()
    turns, root = poses(rig, rng, 8)
    wanted = points_of(rig, turns, root)
    wanted[:, :, 0] += [0.01, -0.02, 0.01]
    pinned = np.zeros((8, 2, 3), bool)
    pinned[:, :, 0] = True
    found, _ = foot_pins.pin_feet(rig, turns, root, wanted, pinned)
    feet = list(rig.feet)
    turned = rotations.geodesic_angle(
        foot_pins.forward(rig, found, root)[0][:, feet], foot_pins.forward(rig, turns, root)[0][:, feet]
    )
    assert turned.max() < np.radians(6)


def test_points_that_no_foot_can_have_are_missed_by_what_is_said(rng: np.random.Generator) -> None:
    rig = body()
    turns, root = poses(rig, rng, 4)
    wanted = points_of(rig, turns, root)
    wanted[:, 0, 2] += [0, -0.5, 0]  # a foot half a metre longer
    found, worst = foot_pins.pin_feet(rig, turns, root, wanted, np.ones((4, 2, 3), bool))
    miss = np.linalg.norm(points_of(rig, found, root) - wanted, axis=-1).max(axis=-1)
    np.testing.assert_allclose(worst, miss, atol=HIT)
    assert (worst[:, 0] > 0.05).all()


def test_a_foot_rolls_over_heel_ball_and_tip_without_sliding() -> None:
    """Heel down first, then flat, then the toe stays while the heel is lifted, then the tip alone."""
    rig = body()
    shape = foot_pins.soles(rig)
    pitch = np.radians([-20.0, -10, 0, 0, 20, 40, 55])  # heel up is positive
    toe_pitch = np.radians([-20.0, -10, 0, 0, 0, 0, 15])
    on_heel = np.array([True, True, True, False, False, False, False])
    yaw = rotations.matrix_from_axis_angle(np.array([0, 0, 0.2]))
    turned, toe_turned = (yaw @ foot_pins._about_left(p) for p in (pitch, toe_pitch))
    heel = np.tile([0.1, -0.3, 0.0], (7, 1))
    ankles = foot_pins.rolled(shape, 0, heel, turned, toe_turned, on_heel)
    head = ankles + np.einsum("nab,b->na", turned, shape.toe[0])
    points = np.stack([
        ankles - np.einsum("nab,b->na", turned, shape.ankle[0]),
        head + np.einsum("nab,b->na", toe_turned, [0, 0, -shape.height[0, 1]]),
        head + np.einsum("nab,b->na", toe_turned, shape.tip[0]),
    ], axis=1)  # fmt: skip
    np.testing.assert_allclose(points[:4, 0], heel[:4], atol=HIT)
    np.testing.assert_allclose(points[4:6, 1], np.tile(points[2, 1], (2, 1)), atol=HIT)
    np.testing.assert_allclose(points[2:, 2], np.tile(points[2, 2], (5, 1)), atol=HIT)
    assert points[..., 2].min() > -HIT
    assert points[6, 1, 2] > 0.01  # the ball has left the floor


def test_legs_that_are_none_are_named() -> None:
    with pytest.raises(ValueError, match="one below the other"):
        foot_pins.soles(replace(make_rig("reference"), feet=(make_rig("reference").effectors[0],)))
