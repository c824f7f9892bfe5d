# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions anchored to a pose: its own goals give that pose, others change it, and the way there does not matter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import make_rig, random_turns

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.ik import network
from neural_network.ik.context import LAYOUTS
from neural_network.ik.solver import Goals, Solver

SAME = 1e-4
"""[rad] what nobody sees, and float32 keeps easily."""


def untrained(name: str, rng: np.random.Generator) -> Solver:
    """A solver whose network answers something or other: an anchor must hold with any."""
    rig, layout = make_rig(name), LAYOUTS["reference"]
    inputs = rng.normal(size=(50, layout.input_count(rig)))
    return Solver(network.init(rig, layout, (16,), inputs, rng.normal(0, 0.2, layout.output_count(rig)), rng))


def goals_of(solver: Solver, rot: np.ndarray, root: np.ndarray) -> Goals:
    """Goals that the pose itself fulfils."""
    rig, ends = solver.skeleton, list(solver.skeleton.effectors)
    posed = fk.armature_matrices(rig, rot, root)[ends]
    turned = posed[:, :3, :3] @ rig.rest_arm[ends, :3, :3].transpose(0, 2, 1)
    return Goals(posed[:, :3, 3], root, rot[0], rotations.axis_angle_from_matrix(turned))


def apart(quaternions: np.ndarray, rot: np.ndarray) -> float:
    """[rad] largest angle between two poses."""
    found, known = rotations.matrix_from_quaternion(quaternions), rotations.matrix_from_axis_angle(rot)
    return float(rotations.geodesic_angle(found, known).max())


@pytest.mark.parametrize("name", ["reference", "a_pose", "turned"])
@pytest.mark.parametrize("free_root", [False, True])
def test_the_goals_of_the_anchor_give_the_anchor(name: str, free_root: bool, rng: np.random.Generator) -> None:
    solver = untrained(name, rng)
    for _ in range(5):
        rot, root = random_turns(rng, solver.skeleton.count, below=0.6), rng.normal(size=3)
        goals = goals_of(solver, rot, root)
        session = solver.session()
        session.anchor(goals, rot)
        for asked in (goals, replace(goals, weights=np.zeros(5)), replace(goals, rotations=None)):
            found = session.solve(asked, free_root=free_root)
            assert apart(found.quaternions, rot) <= SAME
            assert np.abs(found.root_pos - root).max() <= SAME
        assert apart(solver.solve(goals, free_root=free_root).quaternions, rot) > 100 * SAME


def test_other_goals_are_reached_and_the_way_there_does_not_matter(rng: np.random.Generator) -> None:
    solver = untrained("reference", rng)
    rot, root = random_turns(rng, 23, below=0.3), np.array([0.1, 0.2, 1.0])
    goals = goals_of(solver, rot, root)
    session = solver.session()
    session.anchor(goals, rot)
    wish = goals.positions.copy()
    wish[0] += [-0.05, -0.05, 0.05]
    moved = replace(goals, positions=wish, orientation_weights=np.array([0, 0, 1, 1, 0.0]))
    first = session.solve(moved, steps=12, free_root=True)
    assert first.reached.all()
    session.solve(replace(goals, positions=goals.positions + 0.1), free_root=True)
    assert np.array_equal(session.solve(moved, steps=12, free_root=True).quaternions, first.quaternions)
    assert apart(session.solve(goals, free_root=True).quaternions, rot) <= SAME
    session.reset()
    assert apart(session.solve(goals, free_root=True).quaternions, rot) > 100 * SAME


@pytest.mark.parametrize("name", ["reference", "a_pose", "turned"])
def test_a_session_tells_where_the_effectors_came_to_be(name: str, rng: np.random.Generator) -> None:
    solver = untrained(name, rng)
    session = solver.session()
    rot = random_turns(rng, solver.skeleton.count, below=0.4)
    goals = goals_of(solver, rot, np.array([0.3, -0.2, 0.9]))
    with pytest.raises(ValueError, match="nothing was solved"):
        session.ends(goals)
    session.anchor(goals, rot)
    asked = replace(goals, positions=goals.positions + 0.02, weights=np.array([1, 0, 1, 1, 0.0]))
    found = session.solve(asked, steps=6, free_root=True)
    true = goals_of(solver, found.rotations, found.root_pos)
    positions, turned = session.ends(asked)
    assert true.rotations is not None
    assert np.abs(positions - true.positions).max() <= 1e-5
    between = rotations.geodesic_angle(
        rotations.matrix_from_quaternion(turned), rotations.matrix_from_axis_angle(true.rotations)
    )
    assert between.max() <= SAME


def test_an_anchor_of_another_shape_is_refused(rng: np.random.Generator) -> None:
    solver = untrained("reference", rng)
    rot = np.zeros((23, 3))
    with pytest.raises(ValueError, match=r"expected finite \(23, 3\)"):
        solver.session().anchor(goals_of(solver, rot, np.ones(3)), rot[:22])
