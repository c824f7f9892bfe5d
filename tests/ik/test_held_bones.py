# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands that stay where they are held."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_rig

from neural_network.core import rotations
from neural_network.ik import held_bones
from neural_network.ik.foot_pins import forward

RIG = make_rig("reference")
HANDS = [RIG.names.index(f"{side}Hand") for side in ("Left", "Right")]


def leaning() -> tuple[np.ndarray, np.ndarray]:
    """A body that rocks to and fro with bent elbows, 50 frames."""
    rot = np.zeros((50, RIG.count, 3))
    time = np.linspace(0, 2 * np.pi, 50)
    rot[:, RIG.names.index("Spine"), 0] = 0.12 * np.sin(time)
    for side, sign in (("Left", -1), ("Right", 1)):
        rot[:, RIG.names.index(f"{side}ForeArm"), 2] = sign * 1.4
    return rotations.matrix_from_axis_angle(rot), np.stack([0.1 * np.sin(time), 0 * time, 1 + 0 * time], axis=1)


def test_a_held_hand_stays_and_keeps_its_turn_and_the_rest_of_the_body_stays_to_the_bit() -> None:
    turns, root = leaning()
    held = np.zeros((50, 2), bool)
    held[18:30, 0] = True
    out, missing = held_bones.hold_ends(RIG, turns, root, HANDS, held, 30.0)
    turned, heads = forward(RIG, out, root)
    was, before = forward(RIG, turns, root)
    assert np.ptp(before[18:30, HANDS[0]], axis=0).max() > 0.05
    assert np.ptp(heads[18:30, HANDS[0]], axis=0).max() < 1e-6
    assert missing.max() == 0
    np.testing.assert_allclose(turned[:, HANDS[0]], was[:, HANDS[0]], atol=1e-9)
    far = np.r_[0:12, 36:50]
    np.testing.assert_array_equal(out[far], turns[far])
    arm = [RIG.names.index(f"Left{part}") for part in ("Arm", "ForeArm", "Hand")]
    others = np.delete(np.arange(RIG.count), arm)
    np.testing.assert_array_equal(out[:, others], turns[:, others])
    assert np.linalg.norm(np.diff(heads[:, HANDS[0]], axis=0), axis=1).max() < 0.04


def test_a_place_out_of_reach_is_missed_by_what_is_said_and_other_shapes_are_refused() -> None:
    turns, root = leaning()
    held = np.ones((50, 1), bool)
    places = np.broadcast_to(np.array([3.0, 0, 1.5]), (50, 1, 3))
    out, missing = held_bones.hold_ends(RIG, turns, root, HANDS[:1], held, 30.0, places)
    off = np.linalg.norm(forward(RIG, out, root)[1][:, HANDS[0]] - places[:, 0], axis=1)
    np.testing.assert_allclose(off, missing[:, 0], atol=1e-6)
    assert off.min() > 1
    with pytest.raises(ValueError, match="expected 50 frames of 1 ends, got"):
        held_bones.hold_ends(RIG, turns, root, HANDS[:1], held[:20], 30.0)
    with pytest.raises(ValueError, match="expected two bones between the root and Spine"):
        held_bones.hold_ends(RIG, turns, root, [1], held, 30.0)
