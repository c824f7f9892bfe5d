# SPDX-License-Identifier: GPL-3.0-or-later
"""Stable PD against the explicit kind, on the body of the tables."""

from __future__ import annotations

import numpy as np
from physics_data import BODY, body

from neural_network.core import rotations
from neural_network.ik.foot_pins import forward
from neural_network.physics import dynamics, stable_pd
from neural_network.physics.stable_pd import State


def poses(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    start = np.tile(np.eye(3), (BODY.count, 1, 1))
    target = rotations.matrix_from_axis_angle(0.1 * rng.normal(size=(BODY.count, 3)))
    target[0] = np.eye(3)
    return start, target


def test_stable_pd_holds_at_60_steps_a_second_where_explicit_pd_explodes_at_480(rng: np.random.Generator) -> None:
    start, target = poses(rng)
    of = stable_pd.gains(body())
    stable = stable_pd.held(body(), start, target, of, 1 / 60, 0.5, True)
    assert stable.max() < 0.7
    assert stable[-1] < 0.1  # what gravity leaves
    explicit = stable_pd.held(body(), start, target, of, 1 / 480, 0.5, False)
    assert explicit[-1] == np.inf
    assert len(explicit) < 20


def test_the_inertia_of_the_joints_is_symmetric_and_the_bias_is_newton_eulers(rng: np.random.Generator) -> None:
    turns = rotations.matrix_from_axis_angle(0.4 * rng.normal(size=(BODY.count, 3)))
    state = State(turns, 0.0 * rng.normal(size=(BODY.count, 3)))
    inertia, bias = stable_pd.inertia_and_bias(body(), state)
    np.testing.assert_allclose(inertia, inertia.T, atol=1e-12)
    assert np.linalg.eigvalsh(inertia)[0] >= stable_pd.ARMATURE * (1 - 1e-9)
    posed = forward(BODY, np.repeat(turns[None], 3, 0), np.zeros((3, 3)))
    np.testing.assert_allclose(bias, dynamics.of_clip(body(), *posed, 30.0).joint[0, 1:].ravel(), atol=1e-9)


def test_without_gravity_and_drive_energy_stays(rng: np.random.Generator) -> None:
    """What only turns on keeps its energy, to the first order of the step: the bias holds what turning itself needs."""
    turns = rotations.matrix_from_axis_angle(0.4 * rng.normal(size=(BODY.count, 3)))
    velocity = rng.normal(size=(BODY.count, 3))
    velocity[0] = 0
    lost = []
    for dt in (1e-3, 5e-4):
        state, energies = State(turns, velocity), []
        for _ in range(2):
            inertia, bias = stable_pd.inertia_and_bias(body(), state, np.zeros(3))
            speed = state.velocity[1:].ravel()
            energies.append(0.5 * speed @ inertia @ speed)
            state = stable_pd.advanced(body(), state, np.linalg.solve(inertia, -bias), dt)
        lost.append(abs(energies[1] - energies[0]) / energies[0])
    assert lost[0] < 1e-2
    assert lost[1] < 0.35 * lost[0]
