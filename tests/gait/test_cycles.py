# SPDX-License-Identifier: GPL-3.0-or-later
"""Cycles that are cut from motion: strikes, descriptions, mirrors, and what a statistical model of them says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gait_data import RIG, stride

from neural_network.core.rotations import geodesic_angle, matrix_from_axis_angle, matrix_from_sixd, sixd_from_matrix
from neural_network.gait import curves, cycles
from neural_network.gait.cycles import Cycle


def played(cycle: Cycle, count: int, fps: float, turn: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Local rotations and the Hips of a cycle played ``count`` times, along an arc of ``turn`` [rad/m]."""
    frames = np.arange(round(count * cycle.seconds * fps))
    phase = frames / fps / cycle.seconds
    six = sixd_from_matrix(cycle.turns).reshape(len(cycle.root), -1)
    model = curves.coefficients(np.concatenate([six, cycle.root], axis=1), 20)
    numbers = curves.basis(phase, 20) @ model
    turns = matrix_from_sixd(numbers[:, :-3].reshape(len(frames), -1, 6))
    far = phase * 2 * cycle.measured.step_length
    heading = turn * far
    yaw = matrix_from_axis_angle(np.stack([0 * heading, 0 * heading, heading], axis=1))
    root = np.einsum("nab,nb->na", yaw, numbers[:, -3:])
    root[:, :2] += _arc(turn, far) if turn else np.outer(far, [0, -1])
    turns[:, 0] = yaw @ turns[:, 0]
    return turns, root


def _arc(turn: float, far: np.ndarray) -> np.ndarray:
    return np.stack([(1 - np.cos(turn * far)) / turn, -np.sin(turn * far) / turn], axis=1)


@pytest.mark.parametrize("fps", [30.0, 120.0])
def test_a_walk_that_is_played_is_cut_into_the_cycles_it_was_made_of(fps: float) -> None:
    made = stride()
    found = cycles.cut_motion(RIG, *played(made, 4, fps), fps)
    assert 2 <= len(found) <= 4
    for cycle in found:
        assert cycle.seconds == pytest.approx(made.seconds, rel=0.01)
        assert cycle.measured.step_length == pytest.approx(made.measured.step_length, rel=0.01)
        assert cycle.measured.cadence == pytest.approx(made.measured.cadence, rel=0.01)
        assert abs(cycle.measured.turn) < 0.01
        assert cycle.measured.stance == pytest.approx(0.6, abs=0.05)
    turned = geodesic_angle(found[0].turns, found[1].turns)
    assert np.degrees(turned.max()) < 1.5


@pytest.mark.parametrize("turn", [-0.4, 0.4])
def test_a_walk_along_an_arc_has_its_turn_and_no_lean_of_its_own(turn: float) -> None:
    made = stride()
    found = cycles.cut_motion(RIG, *played(made, 4, 60.0, turn), 60.0)
    assert len(found) >= 2
    for cycle in found:
        assert cycle.measured.turn == pytest.approx(turn, rel=0.05)
        assert cycle.measured.speed == pytest.approx(made.measured.speed, rel=0.02)
        assert np.abs(cycle.root[:, :2] - cycle.root[:, :2].mean(0)).max() < 0.06


def test_nobody_walks_who_stands(rng: np.random.Generator) -> None:
    turns = matrix_from_axis_angle(rng.normal(0, 0.02, (200, RIG.count, 3)))
    root = np.tile([0, 0, 1.0], (200, 1)) + rng.normal(0, 0.002, (200, 3))
    assert cycles.cut_motion(RIG, turns, root, 30.0) == []
    assert cycles.cut_motion(RIG, turns[:5], root[:5], 30.0) == []


def test_a_cycle_mirrored_twice_is_itself() -> None:
    made = stride()
    twice = cycles.mirrored(RIG, cycles.mirrored(RIG, made))
    np.testing.assert_allclose(twice.turns, made.turns, atol=1e-12)
    np.testing.assert_allclose(twice.root, made.root, atol=1e-12)


# ---------------------------------------------------------------- the statistical model


def test_a_model_says_what_it_was_fitted_to_and_how_it_changes_with_the_step() -> None:
    steps = np.linspace(0.66, 0.94, 12)
    made = [stride(s, 0.3 + 0.35 * s) for s in steps]
    names = [str(i) for i in range(12)]
    model = curves.fit(RIG, made, names, [str(i % 3) for i in range(12)])
    phase = np.arange(cycles.SAMPLES) / cycles.SAMPLES
    for cycle, step in zip(made, steps, strict=True):
        turns, root = curves.evaluate(model, phase, step, 0.3 + 0.35 * step)
        assert np.degrees(geodesic_angle(turns, cycle.turns)).max() < 3
        np.testing.assert_allclose(root[:, 2], cycle.root[:, 2] / RIG.leg_length, atol=0.01)
    outside, _ = curves.evaluate(model, phase, 2.0, 0.3 + 0.35 * 0.94)
    edge, _ = curves.evaluate(model, phase, 0.94, 0.3 + 0.35 * 0.94)
    np.testing.assert_allclose(outside, edge, atol=1e-9)


def test_left_and_right_of_a_model_are_mirror_images() -> None:
    made = stride()
    bent = replace(made, turns=made.turns.copy())
    bent.turns[:, RIG.names.index("LeftShin")] = matrix_from_axis_angle(np.array([0.9, 0, 0]))
    model = curves.fit(RIG, [bent] * 2, ["a", "b"], ["a", "b"], strict=False)
    phase = np.arange(40) / 40
    turns, root = curves.evaluate(model, phase, *model.centre)
    flip = np.array([-1.0, 1, 1])
    other = [RIG.names.index(n.replace("Left", "#").replace("Right", "Left").replace("#", "Right")) for n in RIG.names]
    half = np.r_[20:40, 0:20]
    np.testing.assert_allclose(flip[:, None] * turns[half][:, other] * flip, turns, atol=1e-9)
    np.testing.assert_allclose(root[half] * flip, root, atol=1e-9)


def test_a_model_of_few_takes_is_refused_as_it_could_play_them_back() -> None:
    with pytest.raises(ValueError, match="at least 10 takes of 3 performers, got 9 of 3"):
        curves.fit(RIG, [stride()] * 9, [str(i) for i in range(9)], [str(i % 3) for i in range(9)])
    with pytest.raises(ValueError, match="got 12 of 2"):
        curves.fit(RIG, [stride()] * 12, [str(i) for i in range(12)], [str(i % 2) for i in range(12)])


def test_a_performer_with_many_takes_counts_as_much_as_one_with_few() -> None:
    short, long = stride(0.66, 0.5), stride(0.9, 0.5)
    model = curves.fit(RIG, [short] * 9 + [long], [str(i) for i in range(10)], ["a"] * 9 + ["b"], strict=False)
    assert model.centre[0] == pytest.approx((0.66 + 0.9) / 2)


def test_a_model_survives_its_file_form() -> None:
    model = curves.fit(RIG, [stride(0.7), stride(0.8)], ["a", "b"], ["a", "b"], strict=False)
    tensors = curves.to_tensors(model, "x")
    back = curves.from_tensors(tensors, "x")
    np.testing.assert_allclose(back.mean, model.mean, atol=1e-6)
    assert (back.takes, back.subjects) == (2, 2)
    del tensors["x.slopes"]
    with pytest.raises(ValueError, match=r"x\.slopes"):
        curves.from_tensors(tensors, "x")
