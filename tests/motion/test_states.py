# SPDX-License-Identifier: GPL-3.0-or-later
"""States: a motion comes back from its places and speeds, wherever it goes; 56 degrees of freedom lose little."""

from pathlib import Path

import numpy as np
import pytest

from neural_network.core import forward_kinematics as fk
from neural_network.motion import features, pose_set, states
from neural_network.rigs import on_body

DATA = Path(__file__).parents[2] / "training_data" / "training_data.npz"


@pytest.fixture(scope="module")
def motion():
    """A body and its longest shipped clip."""
    poses = pose_set.load(DATA)
    who = on_body.found(poses.skeleton)
    rows = max((poses.rows(c) for c in range(len(poses.clip_names))), key=lambda r: r.stop - r.start)
    return who.body, *on_body.to_body(who, poses.rot[rows], poses.root_pos[rows])


def heads(body, turns, root):
    return fk.walk(body.parents, turns, body.offsets, root)[1]


@pytest.mark.parametrize(("name", "mean", "most"), [("pose", 1e-9, 1e-9), ("dof56", 0.02, 0.1)])
def test_a_motion_comes_back_from_its_states(motion, name, mean, most):
    body, turns, root = motion
    place = features.place_at(turns, root, 9)
    found = states.of_motion(name, body, turns, root)
    assert found.shape == (len(root), states.layout(name).width)
    where = features.Place(place.point[None], np.asarray(place.heading)[None])
    rows = states.to_rows(name, body, found[None, 10:], where)
    back = features.from_rows(rows[0], body.leg_length)
    off = np.linalg.norm(heads(body, *back) - heads(body, turns[10:], root[10:]), axis=-1)
    assert off.mean() < mean
    assert off.max() < most


def test_states_of_a_pose_do_not_depend_on_where_it_stands_and_looks(motion):
    body, turns, root = motion
    there = features.Place(np.array([3.0, -2.0]), np.asarray(1.2))
    moved = states.of_motion("pose", body, *features.put_at(there, turns, root))
    assert np.abs(moved - states.of_motion("pose", body, turns, root)).max() < 1e-9


def test_speeds_are_of_a_second_and_an_unknown_layout_is_refused(motion):
    body, turns, root = motion
    found = states.of_motion("dof56", body, turns, root)
    assert np.allclose(np.diff(found[:, :56], axis=0) * states.FPS, found[1:, 56:])
    with pytest.raises(ValueError, match="pose, dof56"):
        states.of_motion("quaternions", body, turns, root)
