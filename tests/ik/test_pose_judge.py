# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge of poses: what people do passes, and what is broken is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import REPO
from test_drag import RIG, standing

from neural_network.ik.pose_judge import PoseJudge
from neural_network.motion import pose_set

AT = {name: j for j, name in enumerate(RIG.names)}


def with_core(rot: np.ndarray, **turns: list[float]) -> np.ndarray:
    core = RIG.to_core(rot)
    for name, turn in turns.items():
        core[AT[name]] = turn
    return np.asarray(RIG.from_core(core))


def test_the_pose_it_began_with_and_a_usual_change_pass() -> None:
    rot, _ = standing()
    judge = PoseJudge(RIG)
    for other in (rot, with_core(rot, LeftArm=[0, 0.2, 0], LeftForeArm=[0, 0, -1.0])):
        found = judge.judge(other, rot)
        assert not found.broken
        assert found.sentence(RIG.names) == ""


def test_a_knee_bent_backwards_is_named_with_its_angle() -> None:
    rot, _ = standing()
    found = PoseJudge(RIG).judge(with_core(rot, LeftShin=[-0.8, 0, 0]), rot)
    assert found.broken
    assert set(found.beyond) == {AT["LeftShin"]}
    assert found.sentence(RIG.names) == "Looks broken: LeftShin is 36° beyond the range of its joint"
    both = PoseJudge(RIG).judge(with_core(rot, LeftShin=[-0.8, 0, 0], RightShin=[-0.6, 0, 0]), rot)
    assert both.sentence(RIG.names).endswith("are LeftShin by 36°, RightShin by 24°")


def test_what_was_beyond_its_limit_before_is_taken_as_it_is() -> None:
    rot, _ = standing()
    knee = with_core(rot, LeftShin=[-0.8, 0, 0])
    assert not PoseJudge(RIG).judge(knee, knee).broken


def test_a_change_that_nobody_makes_is_unlikely_even_within_all_limits() -> None:
    rot, _ = standing()
    odd = with_core(
        rot,
        LeftShoulder=[0, 0.3, 0],
        RightShoulder=[0, 0.3, 0],
        LeftHand=[0.4, 0.4, 1.2],
        RightHand=[0.4, -0.4, 1.2],
        NeckLower=[0.5, 0.5, 0.4],
        NeckUpper=[0.5, -0.5, -0.4],
        Spine=[0.3, 0.3, 0.3],
        Spine1=[0.3, -0.4, -0.3],
        LeftFoot=[0.4, 0.3, 0.5],
        RightFoot=[0.4, 0.3, 0.5],
        LeftToeBase=[1.0, 0.1, 0.1],
        RightToeBase=[-0.7, 0.1, 0.1],
    )
    found = PoseJudge(RIG).judge(odd, rot)
    assert found.unlikely > 1.5
    assert "unlikely" in found.sentence(RIG.names) or found.beyond


def test_turning_round_is_likely() -> None:
    rot, _ = standing()
    core = RIG.to_core(rot)
    core[0] = [0, 0, 2.5]
    assert PoseJudge(RIG).judge(RIG.from_core(core), rot).unlikely < 0.2


def test_changes_in_the_shipped_clips_are_likely() -> None:
    poses = pose_set.load(REPO / "training_data" / "training_data.npz")
    judge, rng = PoseJudge(RIG), np.random.default_rng(0)
    rows = rng.integers(0, poses.frames - 20, 200)
    pairs = [(a, a + 20) for a in rows.tolist() if poses.clip[a] == poses.clip[a + 20]]
    found = [judge.judge(poses.rot[b], poses.rot[a]).unlikely for a, b in pairs]
    assert max(found) < 1.5


def test_rigs_of_other_bones_are_judged_by_their_limits_alone() -> None:
    other = replace(RIG, names=tuple(f"b{j}" for j in range(RIG.count)))
    rot, _ = standing()
    found = PoseJudge(other).judge(with_core(rot, LeftShin=[-0.8, 0, 0]), rot)
    assert np.isnan(found.unlikely)
    assert found.beyond
    none = PoseJudge(replace(other, limits=None)).judge(with_core(rot, LeftShin=[-0.8, 0, 0]), rot)
    assert not none.broken


@pytest.mark.parametrize("bone", ["Hips", "Spine"])
def test_a_body_that_is_tilted_counts_and_one_that_turns_does_not(bone: str) -> None:
    rot, _ = standing()
    leaned, turned = (
        PoseJudge(RIG).judge(with_core(rot, **{bone: turn}), rot).unlikely for turn in ([0.5, 0, 0], [0, 0, 0.5])
    )
    assert leaned > 0.05
    assert (turned < 0.01) == (bone == "Hips")
