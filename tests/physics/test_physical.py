# SPDX-License-Identifier: GPL-3.0-or-later
"""Make Physical: what is mended, what stays, and what is told in words."""

from __future__ import annotations

import numpy as np
import pytest
from physics_data import BODY, FPS, RIG, finished, rows, still, walk

from neural_network.core import metrics, rotations
from neural_network.core.contacts import foot_points
from neural_network.ik import held_feet
from neural_network.ik.foot_pins import forward
from neural_network.motion import features
from neural_network.physics import balance, edits, physical, standing
from neural_network.rigs import on_body


def contacts() -> np.ndarray:
    return standing.find(BODY, *walk(), FPS)


def edited(name: str) -> edits.Edited:
    return edits.EDITS[name](BODY, *walk(), np.random.default_rng(0))


@pytest.mark.parametrize("name", ["bent", "shake", "legs x 0.8"])
def test_an_edited_walk_is_carried_by_the_ground_again_and_hardly_changes(name: str) -> None:
    body, turns, root = edited(name)
    done = finished(physical.on_a_body(body, turns, root, FPS, contacts()))
    own = balance.balance(BODY, *walk(), FPS).score.mean()
    pinned = held_feet.hold(body, turns, root, contacts(), FPS)
    alone = balance.balance(body, pinned.turns, pinned.root, FPS).score.mean()
    assert not done.sound
    assert done.after.mean() < 1.5 * own
    assert done.after.mean() < alone  # or weighing brings nothing over pinning
    points = foot_points(body, *forward(body, *done.motion))
    assert metrics.slide(points, contacts()) < 1.0
    assert metrics.penetration(points).max() < 1.0
    by = physical.turned(body, turns, done.motion[0])
    assert by["legs_deg"] < 2.5
    assert by["rest_deg"] < 3


def test_contacts_are_found_where_it_floats_goes_too_far_or_shakes() -> None:
    truth = contacts()
    for name, least in (("float", 0.99), ("path", 0.85), ("legs x 1.2", 0.85), ("shake", 0.7)):
        found = standing.find(*edited(name), FPS)
        assert 2 * (found & truth).sum() / (found.sum() + truth.sum()) > least, name


def test_a_sound_action_comes_back_as_it_was_and_progress_is_told() -> None:
    who = on_body.found(RIG)
    rot, root = rows()
    work, steps = physical.make(who, rot, root, FPS), []
    while True:
        try:
            steps.append(next(work))
        except StopIteration as end:
            done = end.value
            break
    assert done.sound
    assert done.rot is rot
    assert done.root is root
    assert len({of for _, of in steps}) == 1
    assert [at for at, _ in steps] == sorted(at for at, _ in steps)
    assert done.score.mean() == pytest.approx(done.before["score"])


def test_standing_on_one_leg_and_a_handstand_stay() -> None:
    turns, root = still(30)
    one = turns.copy()
    one[:, BODY.names.index("LeftThigh")] = rotations.matrix_from_axis_angle(np.array([-1.0, 0, 0]))
    one[:, BODY.names.index("Spine")] = rotations.matrix_from_axis_angle(np.array([0, 0.8, 0]))
    contact = np.tile([False, True], (30, 1))
    falls = balance.balance(BODY, one, root, FPS).score
    assert falls.min() > physical.MEAN  # its weight is beside the right foot
    stands = finished(physical.on_a_body(BODY, one, root, FPS, contact))
    assert stands.after.max() < 0.1 * falls.min()  # and comes over it
    heads = forward(BODY, *stands.motion)[1]
    assert heads[:, BODY.names.index("LeftFoot"), 2].min() > 0.2
    upside = turns.copy()
    upside[:, 0] = rotations.matrix_from_axis_angle(np.array([np.pi, 0, 0]))
    for side, sign in (("Left", -1), ("Right", 1)):
        upside[:, BODY.names.index(f"{side}Arm")] = rotations.matrix_from_axis_angle(np.array([0, sign * np.pi / 2, 0]))
    heads = forward(BODY, upside, root)[1]
    hands = heads[0, [BODY.names.index(f"{side}Hand") for side in ("Left", "Right")]]
    palms = float(hands[:, 2].mean()) - balance.FINGERS - 0.02
    low = root - [0, 0, palms]
    score = balance.balance(BODY, upside, low, FPS).score
    assert score.max() < 0.1  # both hands carry it
    assert balance.balance(BODY, upside, low + [0, 0, 0.2], FPS).score.min() > 0.9


def test_what_hangs_in_the_air_is_not_made_to_fall_and_is_told() -> None:
    who = on_body.found(RIG)
    turns, root = still(80)
    at = np.arange(80)
    root = root + np.outer(0.6 * np.clip((at - 15) / 4, 0, 1) * np.clip((65 - at) / 4, 0, 1), [0, 0, 1])
    rot, place = on_body.from_body(who, turns, root)
    done = finished(physical.make(who, rot, place, FPS))
    assert done.notes[0].startswith(
        "Nothing carries the body from frame 17 to 65 of the action: it is not made to fall."
    )
    assert np.abs(done.root[20:60, 2] - place[20:60, 2]).max() < 0.05


def test_an_action_that_walks_in_place_stays_with_a_sentence() -> None:
    turns, root = walk()
    there = root.copy()
    there[:, :2] = root[0, :2]
    slow = finished(physical.on_a_body(BODY, turns, there, FPS * 0.4))  # feet go back at half a metre a second
    assert slow.notes == (physical.IN_PLACE,)
    assert slow.motion[0] is turns
    assert slow.motion[1] is there


def test_on_a_slope_and_on_steps_feet_stand_on_them() -> None:
    turns, root = walk()

    def uneven(points: np.ndarray) -> np.ndarray:
        return 0.08 * points[..., 0] - 0.05 * points[..., 1] + 0.1 * (points[..., 1] < -1.0)

    lifted = root + np.outer(uneven(root[:, :2]), [0, 0, 1])
    done = finished(physical.on_a_body(BODY, turns, lifted, FPS, contacts(), uneven))
    assert done.after.mean() < 0.6 * done.before.mean()
    points = foot_points(BODY, *forward(BODY, *done.motion))
    above = (points[..., 2] - uneven(points[..., :2])).min(axis=-1)
    assert above.min() > -0.005
    assert np.median(np.abs(above[contacts()])) < 0.005


def test_at_120_frames_a_second_it_comes_down_too() -> None:
    turns, root = features.resampled(*walk(), np.arange(0, 40, 0.25))
    done = finished(physical.on_a_body(BODY, turns, root + [0, 0, 0.05], 4 * FPS))
    assert len(done.after) == len(root)
    assert done.after.mean() < 0.1 * done.before.mean()
    assert metrics.penetration(foot_points(BODY, *forward(BODY, *done.motion))).max() < 1.0


def test_jumps_stay_ballistic() -> None:
    turns, root = still(40)
    for side in ("Left", "Right"):
        for part, angle in (("Thigh", -0.3), ("Shin", 0.6), ("Foot", -0.3)):  # straight legs could not give way
            by = rotations.matrix_from_axis_angle(np.array([angle, 0, 0]))
            turns[:, BODY.names.index(f"{side}{part}")] = by
    root = root - [0, 0, foot_points(BODY, *forward(BODY, turns, root))[..., 2].min()]
    t = np.arange(40) / FPS
    flight = slice(14, 27)
    height = np.zeros(40)
    own = t[flight] - t[13]
    length = t[27] - t[13]
    height[flight] = 0.5 * 9.81 * own * (length - own)
    done = finished(physical.on_a_body(BODY, turns, root + np.stack([0 * t, 0 * t, height + 0.05], axis=1), FPS))
    assert not done.contact[16:25].any()
    fall = np.diff(done.motion[1][16:25, 2], 2) * FPS**2
    np.testing.assert_allclose(fall, -9.81, atol=0.7)
    assert done.after[17:24].max() < 0.1


def test_bad_input_is_refused_in_words() -> None:
    who = on_body.found(RIG)
    rot, root = rows()
    with pytest.raises(ValueError, match="3 frames or more, got 2: fewer have no accelerations"):
        finished(physical.make(who, rot[:2], root[:2], FPS))
    with pytest.raises(ValueError, match="contacts: expected 60 frames of 2 feet"):
        finished(physical.make(who, rot, root, FPS, np.ones((5, 2), bool)))
    with pytest.raises(ValueError, match="finite"):
        finished(physical.make(who, rot * np.nan, root, FPS))
    with pytest.raises(ValueError, match="mend it in parts"):
        finished(physical.make(who, np.zeros((7000, RIG.count, 3)), np.zeros((7000, 3)), FPS))
