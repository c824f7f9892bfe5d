# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion seen from one of its frames, mirrored, resampled, and as rows."""

import numpy as np
import pytest

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.core.reference_rig import reference
from neural_network.core.skeleton import mirrored_bones
from neural_network.motion import features

BODY = reference()


@pytest.fixture(scope="module")
def motion() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    turns = rotations.matrix_from_axis_angle(0.4 * rng.standard_normal((20, BODY.count, 3)))
    turns[:, 0] = features.yaw(np.linspace(2.5, 4.5, 20)) @ turns[:, 0]  # across half a turn
    return turns, np.cumsum(0.05 * rng.standard_normal((20, 3)), axis=0) + [1, 2, 1]


def heads(turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    return fk.walk(BODY.parents, turns, BODY.offsets, root)[1]


def test_headings_are_continuous_and_interpolated_where_the_body_lies_on_its_side(motion):
    turns, _ = motion
    plain = features.headings(turns[:, 0])
    assert np.abs(np.diff(plain)).max() < np.pi / 2
    side = turns[:, 0].copy()
    side[5] = rotations.matrix_from_axis_angle(np.array([0, np.pi / 2, 0]))  # its left axis points down
    found = features.headings(side)
    assert found[5] == pytest.approx((plain[4] + plain[6]) / 2, abs=1e-6)


def test_seen_from_a_frame_stands_at_the_origin_and_put_at_leads_back(motion):
    turns, root = motion
    place = features.place_at(turns, root, 7)
    seen = features.seen_from(place, turns, root)
    assert np.allclose(seen[1][7, :2], 0)
    assert np.sin(features.headings(seen[0][:, 0])[7]) == pytest.approx(0, abs=1e-6)
    again = features.put_at(place, *seen)
    assert np.allclose(again[0], turns)
    assert np.allclose(again[1], root)


def test_a_mirrored_motion_has_mirrored_heads(motion):
    mirrored = heads(*features.mirrored(BODY, *motion))
    assert np.allclose(mirrored, heads(*motion)[:, mirrored_bones(BODY)] * [-1, 1, 1], atol=1e-9)


def test_resampling_keeps_frames_and_goes_the_short_way_between(motion):
    turns, root = motion
    times = np.array([0, 3, 3.5, 19, 25.0])
    out = features.resampled(turns, root, times)
    assert np.allclose(out[0][[0, 1, 3, 4]], turns[[0, 3, 19, 19]])
    half = rotations.geodesic_angle(turns[3], out[0][2])
    assert np.allclose(half, rotations.geodesic_angle(turns[3], turns[4]) / 2, atol=1e-6)
    assert np.allclose(out[1][2], (root[3] + root[4]) / 2)


def test_between_keys_keeps_keys_and_interpolates_evenly(motion):
    turns, root = motion
    out = features.between_keys(turns, root, [2, 6, 11])
    kept = [0, 1, 2, 6, 11, 15]
    assert np.array_equal(out[0][kept], turns[kept])
    assert np.allclose(np.diff(out[1][2:7], 2, axis=0), 0, atol=1e-12)
    steps = rotations.geodesic_angle(out[0][6:11], out[0][7:12])
    assert np.allclose(steps, steps[:1], atol=1e-6)


def test_rows_and_back(motion):
    rows = features.to_rows(*motion, BODY.leg_length)
    assert rows.shape == (20, 3 + 6 * BODY.count)
    turns, root = features.from_rows(rows, BODY.leg_length)
    assert np.allclose(turns, motion[0])
    assert np.allclose(root, motion[1])
