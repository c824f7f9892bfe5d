# SPDX-License-Identifier: GPL-3.0-or-later
"""Check: what was left out is not searched, and the words follow from the figures."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import REPO

from neural_network.motion import pose_set
from neural_network.prediction import checking, library
from neural_network.prediction.checking import Checked
from neural_network.prediction.library import Library, Take
from neural_network.rigs import on_body


@pytest.fixture(scope="module")
def walks() -> tuple[Library, list[Take]]:
    """A walk under two names, a kick, and a library of the three."""
    poses = pose_set.load(REPO / "training_data" / "training_data.npz")
    who = on_body.character(poses.skeleton, poses.skeleton.names)
    takes = []
    for name, called in (("walk", "walk"), ("walk", "again"), ("kick", "kick")):
        clip = poses.clip_names.index(name)
        rows = poses.rows(clip)
        motion = on_body.to_body(who, poses.rot[rows], poses.root_pos[rows])
        takes.append(Take(called, *motion, float(poses.clip_fps[clip])))
    return library.of_takes(who.body, takes), takes


def result(own: Library, takes: list[Take]) -> Checked:
    *progress, found = checking.check(own, takes)
    assert isinstance(found, Checked)
    assert progress == [(i, len(progress)) for i in range(len(progress))]
    return found


def test_what_is_left_out_is_gone_and_all_else_is_as_it_was(walks: tuple[Library, list[Take]]) -> None:
    own, _ = walks
    less = checking.left_out(own, "again")
    assert less.names == ("walk", "walk", "kick", "kick")
    kept = np.isin(own.clip, [0, 1, 4, 5])
    np.testing.assert_array_equal(less.root, own.root[kept])
    np.testing.assert_array_equal(less.left, own.left[kept])
    assert sorted(set(less.clip.tolist())) == [0, 1, 2, 3]
    assert less.clip[-1] == 3


def test_motion_that_is_there_twice_is_trusted_and_motion_that_is_like_no_other_is_not(
    walks: tuple[Library, list[Take]],
) -> None:
    own, takes = walks
    found = result(own, takes[:2])
    assert found.words[0].startswith("Fill: trust it with keys up to")
    assert found.fill[-1] < 0.5 * found.straight[-1]
    assert (found.fill < found.straight).all()
    alone = checking.left_out(own, "again")
    doubted = result(alone, [takes[0], takes[2]])
    assert not doubted.words[0].startswith("Fill: trust it")
    assert doubted.fill.mean() > 2 * found.fill.mean()
    assert len(found.curve) == len(found.ahead)


def test_one_action_cannot_be_checked(walks: tuple[Library, list[Take]]) -> None:
    own, takes = walks
    with pytest.raises(ValueError, match="two or more actions of 19 frames"):
        next(checking.check(own, takes[:1]))
