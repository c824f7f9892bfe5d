# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinematic teacher: its four calls, published angles, commanded speeds, and sliders that do what they say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gait_data import RIG, model

from neural_network.core import rotations
from neural_network.gait import cycles, figures, normals, parameters, representation, styles, teacher, walks
from neural_network.gait.teacher import KinematicTeacher
from neural_network.ik import foot_pins

LEVELS = 5


def taught() -> KinematicTeacher:
    return KinematicTeacher(model())


def seen(values: np.ndarray, count: int = 3, fps: float = 30.0) -> dict[str, np.ndarray]:
    """What somebody outside sees of some cycles, see :func:`.styles.look`."""
    frames = round(count * float(parameters.cycle_seconds(values)) * fps)
    walk = walks.walk(walks.Taught(taught()), values, frames, fps)
    found = styles.look(teacher.body(values), walk.turns, walk.root, fps)
    return {**found, "root": walk.root, "turns": walk.turns}


# ---------------------------------------------------------------- what it is


def test_the_four_calls_of_a_teacher() -> None:
    who = taught()
    assert who.known() == len(parameters.NAMES)
    np.testing.assert_allclose(who.normalised(parameters.MOST), 1)
    motion = who.motion(parameters.DEFAULT)
    assert motion.shape == (60, 101)
    np.testing.assert_array_equal(motion[:30], motion[30:])
    pose = representation.decode(RIG, motion)
    np.testing.assert_allclose(who.encoded(RIG, pose), motion, atol=0.02)
    about = json.loads(json.dumps(who.metadata()))
    assert [row["name"] for row in about["parameters"]] == list(parameters.NAMES)


def test_the_published_curves_are_interpolated_where_they_were_fitted() -> None:
    found = normals.published()
    for g in normals.FITTED:
        curve = normals.flexion(normals.PHASES[:-1], float(normals.STEPS[g]), float(normals.FOOT_OFF[g]))
        assert np.abs(curve - found.mean[g][:, :-1]).max() < 4
        assert (np.abs(curve - found.mean[g][:, :-1]) < found.deviation[g][:, :-1]).mean() > 0.98


def test_speeds_that_were_never_fitted_are_within_the_published_deviation() -> None:
    found = normals.published()
    for g in normals.JUDGED:
        curve = normals.flexion(normals.PHASES[:-1], float(normals.STEPS[g]), float(normals.FOOT_OFF[g]))
        for j in range(3):
            within = np.abs(curve[j] - found.mean[g, j, :-1]) < found.deviation[g, j, :-1]
            assert within.mean() >= 0.85
            assert np.corrcoef(curve[j], found.mean[g, j, :-1])[0, 1] >= 0.95


# ---------------------------------------------------------------- commanded speeds


@pytest.mark.parametrize(("step", "cadence"), [(0.4, 1.2), (0.4, 2.4), (0.7, 1.8), (0.95, 1.3), (0.95, 2.3)])
def test_steps_are_as_long_and_as_many_as_they_are_told_to_be(step: float, cadence: float) -> None:
    values = parameters.vector({"step_length": step, "cadence": cadence})
    walk = walks.walk(walks.Taught(taught()), values, round(4 * 60 * 2 / cadence), 60.0)
    found = cycles.cut_motion(RIG, walk.turns, walk.root, 60.0)
    assert found
    for cycle in found:
        assert cycle.measured.step_length == pytest.approx(step, rel=0.03)
        assert cycle.measured.cadence == pytest.approx(cadence, rel=0.03)
        assert cycle.measured.speed == pytest.approx(step * cadence, rel=0.03)


@pytest.mark.parametrize("turn", [-0.5, 0.7])
def test_a_walk_turns_by_as_much_a_metre_as_it_is_told_to(turn: float) -> None:
    values = parameters.vector({"speed": 1.2, "turn": turn})
    walk = walks.walk(walks.Taught(taught()), values, 240, 60.0)
    found = cycles.cut_motion(RIG, walk.turns, walk.root, 60.0)
    assert found
    for cycle in found:
        assert cycle.measured.turn == pytest.approx(turn, rel=0.08)


@pytest.mark.parametrize("turn", [-1.0, -0.15, 0.0, 0.3, 1.0])
def test_the_floor_of_a_road_rises_along_it_whichever_way_it_turns(turn: float) -> None:
    road = teacher.Road(parameters.vector({"speed": 1.3, "turn": turn, "slope": 8.0}))
    far = np.linspace(-1.2, 2.4, 9)
    points, heading = road.at(far)
    np.testing.assert_allclose(road.height(points), road.rise * far, atol=1e-9)
    np.testing.assert_allclose(heading, turn * far)


def test_the_floor_rises_by_the_slope() -> None:
    values = parameters.vector({"speed": 1.2, "slope": 10.0})
    walk = walks.walk(walks.Taught(taught()), values, 120, 30.0)
    way = walk.root[-1] - walk.root[0]
    assert np.degrees(np.arctan2(way[2], -way[1])) == pytest.approx(10, abs=0.4)


# ---------------------------------------------------------------- sliders


MEASURES = {
    **dict.fromkeys(("elbow", "arm_out", "head", "pelvis_tilt")),
    "step_width": lambda s: s["width"],
    "trunk_lean": lambda s: s["lean"].mean(),
    "bounce": lambda s: np.ptp(s["root"][:, 2]),
    "arm_swing": lambda s: np.ptp(s["arm"], axis=0).mean(),
    "hip_sway": lambda s: np.ptp(s["root"][:, 0]),
    "knee_lift": lambda s: s["thigh"].max(axis=0).min(),
    "toe_out": lambda s: s["out"],
    "asymmetry": lambda s: s["stance"][1] - s["stance"][0],
    "crouch": lambda s: s["knee"].min(),
    "waddle": lambda s: np.ptp(s["roll"]),
    "limp_left": lambda s: -s["stance"][0],
    "limp_right": lambda s: -s["stance"][1],
    "foot_drop_left": lambda s: s["hip"][:, 0].mean(),
    "foot_drop_right": lambda s: s["hip"][:, 1].mean(),
    "tiptoe": lambda s: s["heel"].min(),
    "tired": lambda s: s["lean"].mean(),
    "proud": lambda s: np.ptp(s["arm"], axis=0).mean(),
    "sneak": lambda s: -s["pelvis"].mean(),
    "march": lambda s: s["thigh"].max(axis=0).min(),
    "run": lambda s: -s["contact"].any(axis=1).mean(),
}
TIMES = ("asymmetry", "limp_left", "limp_right", "run")
"""Told by shares of frames, which come in steps of a frame: seen at 60 frames a second."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MEASURES))
def test_more_of_a_slider_is_more_of_what_it_is_called(name: str) -> None:
    entry = parameters.TABLE[parameters.INDEX[name]]
    found = []
    for level in np.linspace(entry.least, entry.most, LEVELS):
        values = parameters.vector({"speed": 2.4 if name == "run" else 1.2, name: float(level)})  # as the figures do
        look = seen(values, *((6, 60.0) if name in TIMES else (2, 30.0)))
        turned, heads = foot_pins.forward(RIG, look["turns"], look["root"])
        stands = look["contact"]
        ahead = turned[:, list(RIG.feet)][..., :2, 1]
        out = np.degrees(np.arctan2(-ahead[..., 0], ahead[..., 1])) * [1, -1]
        look["out"] = np.mean([out[stands[:, k], k].mean() for k in (0, 1)])
        ankles = heads[:, list(RIG.feet), 0]
        look["width"] = ankles[stands[:, 0], 0].mean() - ankles[stands[:, 1], 1].mean()
        measure = MEASURES[name]
        source = walks.Taught(taught())
        found.append(figures.slider_measure(source, name, values) if measure is None else float(measure(look)))
    slack = 0.02 if name in TIMES else 1e-6
    assert (np.diff(found) > -slack).all(), found
    assert found[-1] > found[0] + slack, found


@pytest.mark.slow
@pytest.mark.parametrize("speed", [0.8, 1.2, 1.6])
@pytest.mark.parametrize("name", parameters.STYLES)
def test_a_style_has_the_sign_by_which_it_is_known(name: str, speed: float) -> None:
    pace = speed * 1.7 if name == "run" else speed
    healthy = parameters.vector({"speed": pace, "run": 0.0} if name == "run" else {"speed": pace})
    values = parameters.vector({"speed": pace}, style={name: 1.0})
    usual, now = (float(parameters.cycle_seconds(v)) for v in (healthy, values))
    found = styles.signs(RIG, seen(values, 10), seen(healthy, 10), now, usual)[name]
    assert found[0] >= found[1], found
    without = styles.signs(RIG, seen(healthy, 4), seen(healthy, 4), usual, usual)[name]
    assert without[0] < without[1], without


def test_a_limp_of_the_right_foot_is_that_of_the_left_in_a_mirror() -> None:
    left = seen(parameters.vector({"speed": 1.2}, style={"limp_left": 1.0}), 5)
    right = seen(parameters.vector({"speed": 1.2}, style={"limp_right": 1.0}), 5)
    np.testing.assert_allclose(left["stance"], right["stance"][::-1], atol=0.03)
    assert left["knee"].max() == pytest.approx(right["knee"].max(), abs=2)


def test_proportions_reach_the_body() -> None:
    rig = teacher.body(parameters.vector({}, {"thigh": 1.2, "shank": 0.9, "arm": 1.1, "torso": 0.85}))
    own, new = RIG, rig
    length = lambda r, name: float(np.linalg.norm(r.offsets[r.names.index(name)]))  # noqa: E731
    for name, factor in (
        ("LeftShin", 1.2),
        ("RightFoot", 0.9),
        ("LeftHand", 1.1),
        ("Spine1", 0.85),
        ("LeftToeBase", 1.0),
    ):
        assert length(new, name) == pytest.approx(factor * length(own, name))
    np.testing.assert_allclose(new.foot_rest, own.foot_rest, atol=1e-9)
    assert rotations.geodesic_angle(new.basis, own.basis).max() < 1e-9
