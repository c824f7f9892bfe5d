# SPDX-License-Identifier: GPL-3.0-or-later
"""Fix Feet and Clean, with plain methods: sound motion stays, what slides or floats stands, contacts decide where."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_rig
from repair_data import FPS, RIG, network, rows, walk

from neural_network.core import metrics
from neural_network.core.contacts import foot_points
from neural_network.ik.foot_pins import forward
from neural_network.repair import correction, draws, fixing, judging
from neural_network.repair.network import Said
from neural_network.rigs import on_body

WHO = on_body.character(RIG, RIG.names)
CONTACT = draws.true_contacts(RIG, walk().turns, walk().root)


def slide(rot: np.ndarray, root: np.ndarray) -> float:
    turns, way = on_body.to_body(WHO, rot, root)
    return metrics.slide(foot_points(WHO.body, *forward(WHO.body, turns, way)), CONTACT)


def test_a_sound_walk_comes_back_as_the_very_arrays_given() -> None:
    rot, root = rows()
    for done in (fixing.fix(WHO, rot, root, FPS), fixing.clean(WHO, rot, root, FPS)):
        assert done.sound
        assert done.rot is rot
        assert done.root is root
        assert done.changed_mm == 0


def test_a_walk_that_skates_above_the_floor_is_put_right() -> None:
    rot, root = rows()
    wrong = root + (np.arange(90)[:, None] * [0.012, 0.0, 0] + [0, 0, 0.05]).astype(np.float32)
    done = fixing.fix(WHO, rot, wrong, FPS)
    assert not done.sound
    assert slide(rot, wrong) > 8
    assert slide(done.rot, done.root) < 2
    assert done.after["float_mm"] < 1 < 30 < done.before["float_mm"]
    assert np.abs((done.root - root)[:, 2]).mean() < 0.01


def test_a_walk_in_place_stays_and_is_told() -> None:
    rot, root = rows()
    there = root.copy()
    there[:, :2] -= np.linspace(0, 1, 90)[:, None] * (root[-1, :2] - root[0, :2])
    standing = [judging.in_place(WHO.body, *on_body.to_body(WHO, rot, way), FPS, CONTACT) for way in (there, root)]
    assert standing == [True, False]
    said = judging.by_rule(WHO.body, *on_body.to_body(WHO, rot, there), FPS, CONTACT)
    assert said.sound
    assert said.notes == (judging.IN_PLACE,)


def test_feet_too_fast_to_stand_stay_and_are_told_as_long_as_nothing_else_is_wrong() -> None:
    turns, fast = walk().turns, walk().root * [3.0, 3, 1]
    nothing = correction.between(turns, fast, turns, fast)
    found = []
    for drift in (0.1, 0.9):
        said = Said(nothing, CONTACT.astype(float), np.array([drift, 0, 0, 0, 0, 0]))
        found.append(judging.by_network(WHO.body, turns, fast, FPS, said, CONTACT))
    assert found[0].sound
    assert found[0].notes == (judging.WALKS_ON,)
    assert found[1].root


def test_a_contact_made_by_hand_changes_the_frames_around_it_alone() -> None:
    rot, root = rows()
    found = fixing.find_contacts(WHO, rot, root, FPS)
    swing = next(f for f in range(30, 80) if not found[f - 8 : f + 12, 0].any() or not found[f - 3 : f + 5, 0].any())
    edited = found.copy()
    edited[swing : swing + 3, 0] = True
    done = fixing.fix(WHO, rot, root, FPS, edited)
    np.testing.assert_array_equal(done.contact, edited)
    same = (done.rot == rot).all(axis=(1, 2)) & (done.root == root).all(axis=1)
    assert not same[swing : swing + 3].all()
    assert same[: max(0, swing - 40)].all()
    assert same[min(90, swing + 45) :].all()
    right = [RIG.names.index(name) for name in ("RightArm", "Head", "Spine1")]
    np.testing.assert_allclose(done.rot[:, right], rot[:, right], atol=1e-6)


def test_another_rig_keeps_what_the_body_knows_nothing_of() -> None:
    rig = make_rig("a_pose")
    who = on_body.character(rig, rig.names)
    rot, root = on_body.from_body(who, walk().turns, walk().root + [0, 0, 0.06])
    done = fixing.fix(who, rot, root, FPS)
    assert not done.sound
    assert done.after["float_mm"] < 2
    hands = [rig.names.index(f"{side}Hand") for side in ("Left", "Right")]
    np.testing.assert_allclose(done.rot[:, hands], rot[:, hands], atol=1e-5)


def test_hands_are_held_where_it_is_asked() -> None:
    rot, root = rows()
    hands = np.zeros((90, 2), bool)
    hands[40:46, 1] = True
    done = fixing.fix(WHO, rot, root, FPS, hands=hands)
    heads = forward(WHO.body, *on_body.to_body(WHO, done.rot, done.root))[1]
    assert np.ptp(heads[40:46, RIG.names.index("RightHand")], axis=0).max() < 0.002
    np.testing.assert_array_equal(done.rot[:30], rot[:30])


def test_on_a_ramp_feet_stand_on_the_ramp() -> None:
    rot, root = rows()

    def ramp(points: np.ndarray) -> np.ndarray:
        return np.asarray(-0.05 * points[..., 1])

    uphill = root.astype(np.float64)
    uphill[:, 2] += ramp(root[:, :2])
    wrong = uphill + np.arange(90)[:, None] * [0.012, 0, 0]
    done = fixing.fix(WHO, rot, wrong, FPS, ground=ramp)
    turns, way = on_body.to_body(WHO, done.rot, done.root)
    points = foot_points(WHO.body, *forward(WHO.body, turns, way))
    above = (points[..., 2] - ramp(points[..., :2])).min(axis=-1)
    assert np.abs(above[done.contact]).mean() < 0.002
    assert above.min() > -0.002


def test_other_frame_rates_are_seen_at_thirty_a_second() -> None:
    said = fixing.said_at(network(), RIG, walk().turns, walk().root, FPS)
    slow = fixing.said_at(network(), RIG, walk().turns[::2], walk().root[::2], FPS / 2)
    assert slow.contact.shape == (45, 2)
    np.testing.assert_allclose(slow.correction.height[5:-5], said.correction.height[::2][5:-5], atol=0.02)


@pytest.mark.parametrize(
    ("frames", "spoil", "words"),
    [
        (1, None, "expected an action of 2 frames or more, got 1"),
        (20, np.nan, "expected finite numbers"),
    ],
)
def test_bad_motion_is_refused_in_words(frames: int, spoil: float | None, words: str) -> None:
    rot, root = rows()[0][:frames].copy(), rows()[1][:frames].copy()
    if spoil is not None:
        rot[3, 2, 1] = spoil
    with pytest.raises(ValueError, match=words):
        fixing.fix(WHO, rot, root, FPS)


def test_who_has_no_feet_is_refused_and_who_flies_is_told() -> None:
    with pytest.raises(ValueError, match="found no bone for LeftFoot"):
        on_body.character(RIG, [name if name != "LeftFoot" else "" for name in RIG.names])
    rot, root = rows()
    high = root + np.array([0, 0, 3], np.float32) + np.arange(90, dtype=np.float32)[:, None] * [0, 0, 0.05]
    done = fixing.fix(WHO, np.tile(rot[:1], (90, 1, 1)), high.astype(np.float32), FPS)
    assert done.sound
    assert "No foot stands" in done.notes[0]
