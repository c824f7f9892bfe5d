# SPDX-License-Identifier: GPL-3.0-or-later
"""A body with masses, two ways to the wrench that moves it, and its slopes."""

from __future__ import annotations

import numpy as np
import pytest
from physics_data import BODY, body, still

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.physics import dynamics, edits, unknowns
from neural_network.physics.banded import Normal, solve
from neural_network.physics.masses import GRAVITY, masses


def moving(fps: float, rng: np.random.Generator, frames: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Rotations since the T-pose and heads of a body that tumbles."""
    t = np.arange(frames) / fps
    a = rng.normal(size=(3, BODY.count, 3)) * 0.5
    rot = a[0] + a[1] * np.sin(3 * t)[:, None, None] + a[2] * np.cos(2 * t)[:, None, None]
    root = np.stack([np.sin(t), t**2, np.cos(2 * t)], axis=1)
    return fk.walk(BODY.parents, rotations.matrix_from_axis_angle(rot), BODY.offsets, root)


def test_a_body_weighs_what_the_table_says_whatever_its_lengths() -> None:
    for skeleton in (BODY, edits.legs_scaled(BODY, 1.2)):
        found = masses(skeleton)
        assert found.total == pytest.approx(75 * (skeleton.leg_length / 0.945) ** 3, rel=1e-9)
        side = [found.mass[skeleton.names.index(name)] / found.total for name in ("LeftThigh", "Head", "RightHand")]
        np.testing.assert_allclose(side, [0.1416, 0.0694, 0.0061], rtol=0.003)  # the table adds up to 0.9999
        for inertia in found.inertia[found.mass > 0]:
            low, middle, high = np.linalg.eigvalsh(inertia)
            assert 0 < low <= high < low + middle  # or no mass is spread like this
    turns, root = still(1)
    turned, heads = fk.walk(BODY.parents, turns, BODY.offsets, root)
    height = dynamics.centre_of_mass(body(), turned, heads)[0, 2]
    assert 0.55 < height / 1.889 < 0.6  # of its height; people's is at 0.56 or so, with arms that hang
    with pytest.raises(ValueError, match="found no LeftHand"):
        masses(edits.replace(BODY, names=tuple(name.replace("LeftHand", "Paw") for name in BODY.names)))


def test_second_differences_of_momenta_and_newton_euler_agree_as_steps_get_smaller() -> None:
    off = []
    for fps in (500.0, 2000.0):
        turned, heads = moving(fps, np.random.default_rng(1))
        wrench = dynamics.root_wrench(body(), turned, heads, fps, heads[:, 0])
        found = dynamics.of_clip(body(), turned, heads, fps)
        off.append(np.abs(np.concatenate([found.force[:, 0], found.joint[:, 0]], axis=1) - wrench).max())
    assert np.abs(wrench).max() > 100
    assert off[0] < 1e-2
    assert off[1] < off[0] / 12  # of second order


def test_stillness_needs_the_weight_and_flight_needs_nothing() -> None:
    turns, root = still(9)
    turned, heads = fk.walk(BODY.parents, turns, BODY.offsets, root)
    centre = dynamics.centre_of_mass(body(), turned, heads)
    wrench = dynamics.root_wrench(body(), turned, heads, 30.0, centre)
    np.testing.assert_allclose(wrench, np.tile([0, 0, body().weight, 0, 0, 0], (7, 1)), atol=1e-8)
    t = np.arange(9)[:, None] / 30.0
    flying = heads + (np.array([1.0, 2, 3]) * t + 0.5 * GRAVITY * t**2)[:, None]
    np.testing.assert_allclose(
        dynamics.root_wrench(body(), turned, flying, 30.0, centre + flying[:, 0] - heads[:, 0]), 0, atol=1e-8
    )


def test_slopes_of_the_wrench_are_those_of_finite_differences(rng: np.random.Generator) -> None:
    t = np.arange(5)[:, None, None] / 30.0
    turns = rotations.matrix_from_axis_angle(rng.normal(size=(BODY.count, 3)) * 0.5 * np.sin(3 * t + 1))
    root, values = rng.normal(size=(5, 3)), rng.normal(size=(5, unknowns.SIZE)) * 0.2
    posed = unknowns.pose(body(), turns, root, values)
    about = posed.heads[:, 0] + 0.5
    slopes = posed.wrench_slopes(30.0, about)
    change, at = rng.normal(size=values.shape), 2

    def wrench(share: float) -> np.ndarray:
        made = unknowns.pose(body(), turns, root, values + share * change)
        return dynamics.root_wrench(body(), made.turned, made.heads, 30.0, about)

    numeric = (wrench(1e-6) - wrench(-1e-6)) / 2e-6
    exact = sum((slopes[k] @ change[k : k + 3, :, None])[..., 0] for k in range(3))
    np.testing.assert_allclose(exact, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())
    toe = BODY.names.index("RightToeBase")

    def point(share: float) -> np.ndarray:
        return unknowns.pose(body(), turns, root, values + share * change).heads[at, toe]

    slope = posed.point_slopes(posed.heads[:, [toe]], toe)[at, 0] @ change[at]
    np.testing.assert_allclose(slope, (point(1e-6) - point(-1e-6)) / 2e-6, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("frames", [1, 2, 5, 6])
def test_the_banded_system_is_the_whole_one(frames: int, rng: np.random.Generator) -> None:
    size = 3
    normal, whole = Normal(frames, size), np.zeros((frames * size, frames * size))
    for reach in range(min(3, frames)):
        count = frames - reach
        slopes = tuple(rng.normal(size=(count, 2, size)) for _ in range(reach + 1))
        normal.add(slice(0, count), slopes, np.tile(np.diag([1.0, 3]), (count, 1, 1)), np.ones((count, 2)))
        for t in range(count):
            row = np.zeros((2, frames * size))
            row[:, t * size : (t + reach + 1) * size] = np.concatenate([s[t] for s in slopes], axis=1)
            whole += row.T @ np.diag([1.0, 3]) @ row
    for order in range(min(3, frames)):
        normal.add_differences(rng.normal(size=(frames, size)), np.full(size, 2.0), order)
        steps = np.diff(np.eye(frames), order, axis=0) if order else np.eye(frames)
        whole += 2 * np.kron(steps.T @ steps, np.eye(size))
    right = rng.normal(size=(frames, size))
    np.testing.assert_allclose(solve(normal.blocks, right).ravel(), np.linalg.solve(whole, right.ravel()), atol=1e-10)
    np.testing.assert_allclose(normal.step(), -solve(normal.blocks, normal.slope), atol=0)
