# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks that a network makes: loops, changing parameters, other bodies; and the way back, Match."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gait_data import RIG, small

from neural_network.core import metrics
from neural_network.core.rotations import geodesic_angle
from neural_network.gait import cycles, figures, matching, parameters, teacher, walks
from neural_network.gait.parameters import get


@pytest.mark.parametrize("speed", [0.7, 1.3, 2.0])
def test_a_loop_of_ten_cycles_has_no_seam(speed: float) -> None:
    values = parameters.vector({"speed": speed})
    frames = round(10 * float(parameters.cycle_seconds(values)) * 30)
    walk = walks.walk(small(), values, frames, 30.0, loop=True)
    steps = np.degrees(geodesic_angle(walk.turns[1:, 1:], walk.turns[:-1, 1:])).max(axis=1)
    seam = np.degrees(geodesic_angle(walk.turns[0, 1:], walk.turns[-1, 1:])).max()
    assert seam <= steps.max() * 1.001


def test_feet_of_a_networks_walk_stand() -> None:
    values = parameters.vector({"speed": 1.3})
    walk = walks.walk(small(), values, 120, 30.0)
    seen = figures.look(RIG, walk.turns, walk.root)
    assert metrics.slide(seen.points, seen.contact) < 1.0
    assert metrics.penetration(seen.points).max() < 0.01
    assert metrics.floating(seen.points, seen.contact).mean() < 2.0


def test_a_walk_is_as_fast_as_it_is_told_while_its_parameters_change() -> None:
    rows = np.stack([parameters.vector({"speed": float(s)}) for s in np.linspace(0.8, 1.8, 150)])
    walk = walks.walk(small(), rows, 150, 30.0)
    speeds = -np.diff(walk.root[:, 1]) * 30
    window = np.convolve(speeds, np.ones(30) / 30, "valid")
    wanted = np.convolve(np.linspace(0.8, 1.8, 150)[:-1], np.ones(30) / 30, "valid")
    assert np.abs(window - wanted).max() < 0.12
    seen = figures.look(RIG, walk.turns, walk.root)
    assert metrics.slide(seen.points, seen.contact) < 2.0


def test_a_body_twice_as_large_takes_steps_twice_as_long_in_the_root_of_two_of_the_time() -> None:
    rest = RIG.rest_arm.copy()
    rest[:, :3, 3] *= 2
    large = replace(RIG, rest_arm=rest)
    values = parameters.vector({"speed": 1.3})
    walk = walks.walk(small(), values, 200, 30.0, rig=large)
    found = cycles.cut_motion(large, walk.turns, walk.root, 30.0)
    assert found
    assert found[0].measured.step_length == pytest.approx(2 * get(values, "step_length"), rel=0.03)
    assert found[0].seconds == pytest.approx(np.sqrt(2) * parameters.cycle_seconds(values), rel=0.03)
    seen = figures.look(large, walk.turns, walk.root)
    assert metrics.penetration(seen.points).max() < 0.01


def test_a_walk_along_a_way_stays_on_it() -> None:
    def way(far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([0.5 * np.sin(far / 2), -far], axis=1), 0.25 * np.cos(far / 2)

    walk = walks.walk(small(), parameters.vector({"speed": 1.2}), 150, 30.0, way=way)
    away = walk.root[:, 0] - 0.5 * np.sin(-walk.root[:, 1] / 2)
    assert np.abs(away).max() < 0.08
    seen = figures.look(RIG, walk.turns, walk.root)
    assert metrics.slide(seen.points, seen.contact) < 1.5


@pytest.mark.parametrize("speed", [0.8, 1.3, 2.0])
def test_a_walk_from_rest_to_rest_stands_walks_and_stands_again(speed: float) -> None:
    values = parameters.vector({"speed": speed})
    far = walks.ways_for(values, 5.0, 30.0)
    assert far[0] == 0
    assert far[-1] == pytest.approx(5.0)
    walk = walks.walk(small(), values, len(far), 30.0, far=far)
    assert -walk.root[-1, 1] == pytest.approx(5.0, abs=0.06)
    speeds = np.linalg.norm(np.diff(walk.root, axis=0), axis=1) * 30
    assert speeds[:6].max() < 0.05
    assert speeds[-6:].max() < 0.05
    assert np.median(speeds) == pytest.approx(speed, rel=0.12)
    assert walk.contact[:6].all()
    assert walk.contact[-6:].all()
    seen = figures.look(RIG, walk.turns, walk.root)
    assert metrics.slide(seen.points, seen.contact) < 2.0
    assert metrics.penetration(seen.points).max() < 0.01
    feet = seen.points[:, :, 0, 1]
    assert abs(feet[0, 0] - feet[0, 1]) < 0.12  # side by side
    assert walk.missing < 0.005


@pytest.mark.parametrize(("first", "last"), [(0.7, 1.9), (1.9, 0.8), (1.2, 3.2)])
def test_a_walk_goes_at_the_speeds_that_its_keys_say(first: float, last: float) -> None:
    speeds = np.interp(np.arange(240), [30, 150], [first, last])
    rows = parameters.at_speeds(parameters.vector({"speed": 1.0}), speeds)
    far = walks.ways_for(rows, 12.0, 30.0)
    values = rows[np.minimum(np.arange(len(far)), len(rows) - 1)]
    walk = walks.walk(small(), values, len(far), 30.0, far=far)
    assert -walk.root[-1, 1] == pytest.approx(12.0, abs=0.06)
    found = -np.gradient(walk.root[:, 1]) * 30
    second = np.convolve(found, np.ones(24) / 24, "same")
    middle = slice(60, min(len(far) - 60, 200))
    assert np.abs(second - speeds[np.minimum(np.arange(len(far)), 239)])[middle].max() < 0.25
    assert walk.contact[:6].all()
    assert walk.contact[-6:].all()
    assert walk.missing < 0.005
    seen = figures.look(RIG, walk.turns, walk.root)
    assert metrics.penetration(seen.points).max() < 0.01


def test_a_walk_stops_where_its_way_does_and_takes_a_first_and_a_last_step() -> None:
    far = np.interp(np.arange(240), [10, 100, 150, 239], [0.0, 3.0, 3.0, 6.0])
    values = parameters.at_speeds(parameters.DEFAULT, np.clip(np.gradient(far) * 30, 0.45, 4.0))
    walk = walks.walk(small(), values, len(far), 30.0, far=far)
    for rest, way in ((slice(0, 10), 0.0), (slice(102, 150), 3.0)):
        assert walk.contact[rest].all()
        np.testing.assert_allclose(-walk.root[rest, 1], way, atol=0.06)
    speeds = np.linalg.norm(np.diff(walk.root, axis=0), axis=1) * 30
    assert speeds[104:148].max() < 0.1
    assert speeds.max() < 2.4  # no jump, though the keys start and stop at once
    for k in (0, 1):  # each foot steps at least twice on both ways
        lifts = np.flatnonzero(np.diff(walk.contact[:, k].astype(int)) < 0)
        assert ((lifts > 5) & (lifts < 105)).sum() >= 2
        assert (lifts > 145).sum() >= 2
    assert walk.missing < 0.005
    with pytest.raises(ValueError, match="goes back at frame 11"):
        walks.walk(small(), values[:30], 30, 30.0, far=np.r_[np.linspace(0, 1, 12), np.linspace(0.9, 2, 18)])


def test_a_walk_at_another_speed_keeps_what_its_step_has_of_its_own() -> None:
    values = parameters.vector({"speed": 1.2}, style={"sneak": 0.5})
    values[parameters.INDEX["step_length"]] *= 1.1
    values[parameters.INDEX["cadence"]] /= 1.1
    found = parameters.at_speeds(values, np.array([0.7, 1.2, 1.8, 3.0]))
    np.testing.assert_allclose(parameters.speed(found), [0.7, 1.2, 1.8, 3.0], rtol=1e-9)
    np.testing.assert_allclose(found[1], values, atol=1e-9)
    usual = parameters.usual_step(np.array([0.7, 1.8]))
    np.testing.assert_allclose(get(found, "step_length")[[0, 2]], 1.1 * usual, rtol=1e-9)
    np.testing.assert_array_equal(get(found, "run"), [0, 0, 0, 1])
    np.testing.assert_array_equal(get(found, "sneak"), 0.5)


@pytest.mark.parametrize(("frames", "fps"), [(0, 30.0), (10, 0.0), (10, -1.0)])
def test_a_walk_of_no_frames_is_refused(frames: int, fps: float) -> None:
    with pytest.raises(ValueError, match="at least one frame"):
        walks.walk(small(), parameters.DEFAULT, frames, fps)


def test_match_finds_step_and_cadence_of_a_walk_that_was_made() -> None:
    values = parameters.vector({"speed": 1.5})
    values[parameters.INDEX["step_length"]] *= 1.04
    rig, walk = figures.walked(small(), values, 4)
    found = matching.match(small(), rig, cycles.cut_motion(rig, walk.turns, walk.root, 30.0))
    for name in ("step_length", "cadence"):
        assert get(found.values, name) == pytest.approx(get(values, name), rel=0.03)
    assert found.error < 8
    with pytest.raises(ValueError, match="at least one cycle"):
        matching.match(small(), rig, [])


def test_proportions_are_those_of_the_body() -> None:
    given = {"thigh": 1.1, "shank": 0.95, "arm": 1.15, "torso": 0.9}
    found = walks.proportions_of(teacher.body(parameters.vector({}, given)))
    legs = float(parameters.leg_of(parameters.vector({}, given))) / parameters.LEG
    for name, value in given.items():
        assert found[name] == pytest.approx(value / legs, rel=0.02)
