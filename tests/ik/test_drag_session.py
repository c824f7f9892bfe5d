# SPDX-License-Identifier: GPL-3.0-or-later
"""Drags for continuous control: orientations, weights, Hips that are held, and a pose to begin with that changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_drag import ENDS, FEET, LEFT_FOOT, LEFT_HAND, RIG, RIGHT_HAND, pose, standing, turned

from neural_network.core import rotations
from neural_network.core.reference_rig import reference
from neural_network.ik.drag_session import DragSession, knows
from neural_network.ik.goals import Goals
from neural_network.ik.losses import limit_excess
from neural_network.ik.solver import Solution

WEIGHTS = np.array([1.0, 0, 1, 1, 0])  # the left hand and the feet


def goals_of(rot: np.ndarray, root: np.ndarray, **changes: Any) -> Goals:
    """The goals that a pose meets; the right hand and the head are free."""
    matrices = pose(rot, root)
    rest = RIG.rest_arm[ENDS, :3, :3]
    turns = rotations.axis_angle_from_matrix(matrices[ENDS, :3, :3] @ rest.transpose(0, 2, 1))
    return replace(Goals(matrices[ENDS, :3, 3], root, rot[0], turns, weights=WEIGHTS), **changes)


def shown(solution: Solution) -> np.ndarray:
    """(J, 4, 4) bone matrices of an answer."""
    return pose(solution.rotations, solution.root_pos)


def begun() -> tuple[DragSession, Goals]:
    rot, root = standing()
    session = DragSession(RIG)
    goals = goals_of(rot, root)
    session.anchor(goals, rot)
    return session, goals


def moved(goals: Goals, effector: int, way: list[float], **changes: Any) -> Goals:
    positions = goals.positions.copy()
    positions[effector] += way
    return replace(goals, positions=positions, **changes)


def test_people_are_known_and_other_rigs_are_not() -> None:
    assert knows(RIG)
    assert not knows(replace(RIG, names=tuple(f"b{j}" for j in range(RIG.count))))


def test_goals_of_the_anchor_give_it_also_after_a_drag() -> None:
    session, goals = begun()
    rot, root = standing()
    for effector, way in ((LEFT_HAND, [0.0, -0.3, 0.2]), (LEFT_HAND, [0.0, 0, 0])):
        for _ in range(8):
            answer = session.solve(moved(goals, effector, way), free_root=True)
    assert turned(shown(answer), pose(rot, root)) < 2
    assert np.abs(answer.root_pos - root).max() < 0.01


def test_a_target_that_jumps_is_met_at_once_in_much_the_pose_of_a_slow_drag() -> None:
    way = np.array([-0.1, -0.5, 0.4])
    session, goals = begun()
    at_once = session.solve(moved(goals, LEFT_HAND, way.tolist()), free_root=True)
    session, goals = begun()
    for share in np.linspace(0, 1, 40):
        slowly = session.solve(moved(goals, LEFT_HAND, (share * way).tolist()), free_root=True)
    for answer in (at_once, slowly):
        assert answer.error.max() < 1e-3
        assert answer.reached.all()
    assert turned(shown(at_once), shown(slowly)) < 12


def test_a_dragged_hand_turns_only_with_its_target() -> None:
    session, goals = begun()
    turn = rotations.matrix_from_axis_angle(np.array([0.0, 0, 0.6]))
    assert goals.rotations is not None
    turns = goals.rotations.copy()
    turns[LEFT_HAND] = rotations.axis_angle_from_matrix(turn @ rotations.matrix_from_axis_angle(turns[LEFT_HAND]))
    wanted = turn @ pose(*standing())[ENDS[LEFT_HAND], :3, :3]
    for rots, weights, most, least in ((turns, None, 0.3, 0), (turns, [0, 0, 1, 1, 0], 90, 10)):
        session, goals = begun()
        given = None if weights is None else np.array(weights, float)
        for share in np.linspace(0, 1, 10):
            ahead = moved(goals, LEFT_HAND, [0, -0.2 * share, 0.1 * share], rotations=rots, orientation_weights=given)
            answer = session.solve(ahead, free_root=True)
        off = np.degrees(rotations.geodesic_angle(shown(answer)[ENDS[LEFT_HAND], :3, :3], wanted))
        assert least <= off <= most
        assert answer.error.max() < 1e-3
        feet = list(RIG.feet)
        assert turned(shown(answer)[feet], pose(*standing())[feet]) < 0.5


def test_a_lower_weight_draws_less() -> None:
    missed = []
    for weight in (1.0, 0.5, 0.1):
        session, goals = begun()
        weights = np.where(np.arange(5) == LEFT_HAND, weight, WEIGHTS)
        for _ in range(5):
            answer = session.solve(moved(goals, LEFT_HAND, [0, -0.4, 0.2], weights=weights), free_root=True)
        missed.append(answer.error[LEFT_HAND])
    assert missed[0] < 1e-3 < missed[1] < missed[2] < np.hypot(0.4, 0.2)


def test_hips_that_are_not_free_go_where_they_are_put() -> None:
    session, goals = begun()
    lower = replace(goals, root_pos=goals.root_pos - [0, 0, 0.15])
    for _ in range(5):
        answer = session.solve(lower, free_root=False)
    np.testing.assert_allclose(answer.root_pos, lower.root_pos, atol=1e-3)
    assert np.degrees(rotations.geodesic_angle(shown(answer)[0, :3, :3], pose(*standing())[0, :3, :3])) < 0.3
    np.testing.assert_allclose(shown(answer)[list(RIG.feet), :3, 3], goals.positions[list(FEET)], atol=1e-3)
    free = session.solve(lower, free_root=True)
    assert np.linalg.norm(free.root_pos - lower.root_pos) > 0.01


def test_another_anchor_goes_on_from_the_answer() -> None:
    session, goals = begun()
    ahead = [0.0, -0.35, 0.3]
    for _ in range(5):
        before = session.solve(moved(goals, LEFT_HAND, ahead), free_root=True)
    rot, root = standing(knee=0.2)
    other = goals_of(rot, root)
    session.anchor(other, rot)
    after = session.solve(moved(other, LEFT_HAND, ahead), free_root=True)
    assert after.error.max() < 1e-3
    assert turned(shown(before), shown(after)) < 6


def test_ends_are_those_of_the_answer() -> None:
    session, goals = begun()
    answer = session.solve(
        moved(goals, RIGHT_HAND, [0.1, -0.2, 0.3], weights=np.array([0.0, 1, 1, 1, 0])), free_root=True
    )
    positions, quaternions = session.ends(goals)
    matrices = shown(answer)[ENDS]
    np.testing.assert_allclose(positions, matrices[:, :3, 3], atol=1e-6)
    relative = matrices[:, :3, :3] @ RIG.rest_arm[ENDS, :3, :3].transpose(0, 2, 1)
    np.testing.assert_allclose(rotations.matrix_from_quaternion(quaternions), relative, atol=1e-6)


@pytest.mark.slow
def test_strict_limits_are_kept_where_soft_ones_give_way() -> None:
    assert RIG.limits is not None
    bones = np.flatnonzero(np.isfinite(RIG.limits).all(axis=1))
    most = []
    for limits in (True, False):
        session, goals = begun()
        for share in np.linspace(0, 1, 30):
            way = moved(goals, LEFT_FOOT, [0.0, -0.2 * share, 1.2 * share], weights=np.array([0.0, 0, 1, 1, 0]))
            answer = session.solve(way, limits=limits, free_root=True)
        core = RIG.to_core(answer.rotations)[bones].T[:, :, None]
        local = np.einsum("jba,bjn->ajn", RIG.basis[bones], core)
        swing, twist, _, _ = limit_excess(local, RIG.limits[bones])
        most.append(max(swing.max(), twist.max()))
    assert np.degrees(most[0]) < 1
    assert most[0] < most[1] or np.degrees(most[1]) < 1


def test_what_is_wrong_with_the_goals_is_said() -> None:
    session, goals = begun()
    with pytest.raises(ValueError, match="positions: expected shape"):
        session.solve(replace(goals, positions=np.zeros((4, 3))))
    with pytest.raises(ValueError, match="NaN"):
        session.solve(replace(goals, positions=np.full((5, 3), np.nan)))
    with pytest.raises(ValueError, match="rot_local: expected finite"):
        session.anchor(goals, np.zeros((3, 3)))
    with pytest.raises(ValueError, match="nothing was solved yet"):
        DragSession(reference()).ends(goals)
