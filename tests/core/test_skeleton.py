# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeleton: what is refused, the T-pose and the facing that are found, and the door between rig axes and core axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import EXACT, RIGS, ROUND_TRIP, make_rig, random_turns, restyled

from neural_network.core import forward_kinematics as fk
from neural_network.core import reference_rig, rotations, skeleton, tree
from neural_network.core.skeleton import Skeleton, SkeletonMismatch
from neural_network.ik.losses import limit_excess

TABLE = {  # rest heads of the reference rig [m], out of its table
    "Hips": (0, -0.046, 1.015),
    "Spine2": (0, -0.073, 1.474),
    "Head": (0, -0.060, 1.702),
    "LeftHand": (0.700, -0.044, 1.557),
    "RightHand": (-0.700, -0.044, 1.557),
    "LeftShin": (0.106, -0.054, 0.571),
    "RightToeBase": (-0.111, -0.125, 0.021),
}


def parts(rig: Skeleton, **changes: Any) -> dict[str, Any]:
    """The arguments of skeleton.make that give ``rig``, with some of them changed."""
    own = {
        "names": rig.names,
        "parents": rig.parents,
        "rest_arm": rig.rest_arm,
        "effectors": [rig.names[e] for e in rig.effectors],
        "feet": [rig.names[f] for f in rig.feet],
        "t_pose": rig.t_pose,
        "limits": rig.limits,
    }
    return {**own, **changes}


def chain_parents(count: int) -> np.ndarray:
    return np.arange(count) - 1


def test_the_reference_rig_is_the_table() -> None:
    rig = reference_rig.reference()
    assert rig.count == 23
    assert round(rig.leg_length, 3) == 0.945
    for name, head in TABLE.items():
        np.testing.assert_array_equal(rig.rest_arm[rig.names.index(name), :3, 3], head)
    assert [rig.names[e] for e in rig.effectors] == ["LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head"]
    assert [rig.names[f] for f in rig.feet] == ["LeftFoot", "RightFoot"]
    assert [rig.names[t] for t in rig.toes] == ["LeftToeBase", "RightToeBase"]
    assert [rig.names[b] for b in rig.legs[0]] == ["LeftThigh", "LeftShin", "LeftFoot"]
    np.testing.assert_array_equal(rig.axes, np.eye(3))
    for j, parent in enumerate(rig.parents):
        if parent >= 0 and np.flatnonzero(rig.parents == parent)[0] == j:  # the bone its parent points to
            along = rig.rest_arm[j, :3, 3] - rig.rest_arm[parent, :3, 3]
            np.testing.assert_allclose(rig.rest_arm[parent, :3, 1], along / np.linalg.norm(along), atol=EXACT)


def test_the_rest_of_the_reference_rig_is_mirrored() -> None:
    rig = reference_rig.reference()
    flip = np.diag([-1.0, 1, 1])
    for j, name in enumerate(rig.names):
        if name.startswith("Left"):
            other = rig.names.index("Right" + name[4:])
            mirrored = flip @ rig.rest_arm[j, :3, :3] @ flip  # mirroring in the world and in the bone's own X
            np.testing.assert_allclose(rig.rest_arm[other, :3, :3], mirrored, atol=EXACT)


def test_mirrored_poses_exceed_mirrored_limits_alike(rng: np.random.Generator) -> None:
    rig = reference_rig.reference()
    assert rig.limits is not None
    left = [j for j, n in enumerate(rig.names) if n.startswith("Left")]
    right = [rig.names.index("Right" + rig.names[j][4:]) for j in left]
    turns = random_turns(rng, len(left), 40, below=2.5)
    found = []
    for bones, rot in ((left, turns), (right, turns * [1, -1, -1])):  # a mirrored rotation in core axes
        local = np.einsum("jba,jnb->ajn", rig.basis[bones], rot)
        found.append(limit_excess(local, rig.limits[bones])[:2])
    np.testing.assert_allclose(found[0], found[1], atol=ROUND_TRIP)
    assert np.max(found[0]) > 0.5


@pytest.mark.parametrize(
    ("bone", "carried", "toward", "free", "stopped"),
    [
        ("LeftShin", "LeftFoot", 1, 120, 30),  # heel to the seat, never forward
        ("RightShin", "RightFoot", 1, 120, 30),
        ("LeftForeArm", "LeftHand", -1, 130, 30),  # hand to the shoulder in front
        ("RightForeArm", "RightHand", -1, 130, 30),
        ("LeftThigh", "LeftShin", -1, 115, 60),  # knee to the chest
        ("RightThigh", "RightShin", -1, 115, 60),
    ],
)
def test_joints_bend_the_way_people_do(bone: str, carried: str, toward: int, free: float, stopped: float) -> None:
    """``toward`` is the sign of y (-Y is forward) to which the bone below may swing by ``free`` degrees, the other way not ``stopped``."""
    rig = reference_rig.reference()
    assert rig.limits is not None
    j, end = rig.names.index(bone), rig.names.index(carried)
    hinge = np.array([0.0, 0, 1]) if "Arm" in bone else np.array([1.0, 0, 0])
    for sign in (1, -1):
        rot = np.zeros((rig.count, 3))
        rot[j] = hinge * sign * np.radians(20)
        way = fk.forward(rig, rot)[1][end, 1] - fk.forward(rig, 0 * rot)[1][end, 1]
        allowed = np.sign(way) == toward
        angle = np.radians(free if allowed else stopped) * sign
        local = (rig.basis[j].T @ (hinge * angle))[:, None, None]
        over, _, _, _ = limit_excess(local, rig.limits[j : j + 1])
        assert (over[0, 0] == 0) == allowed, f"{bone} {np.degrees(angle):.0f} degrees"


def test_the_hips_are_free() -> None:
    rig = reference_rig.reference()
    assert rig.limits is not None
    assert np.isnan(rig.limits[0]).all()
    assert np.isfinite(rig.limits[1:]).all()


@pytest.mark.parametrize("name", RIGS)
def test_core_and_rig_rotations_lead_back_to_each_other(name: str, rng: np.random.Generator) -> None:
    rig = make_rig(name)
    rot = random_turns(rng, 60, rig.count, below=3.1)
    np.testing.assert_allclose(rig.from_core(rig.to_core(rot)), rot, atol=ROUND_TRIP)
    np.testing.assert_allclose(rig.to_core(rig.from_core(rot)), rot, atol=ROUND_TRIP)
    np.testing.assert_allclose(rig.to_core(rig.t_pose), 0, atol=ROUND_TRIP)
    assert rig.to_core(rot[0]).shape == (rig.count, 3)


def test_an_a_pose_is_found_and_straightened() -> None:
    rig, straight = make_rig("a_pose"), reference_rig.reference()
    hand, arm = rig.names.index("LeftHand"), rig.names.index("LeftArm")
    fallen = rig.rest_arm[arm, 2, 3] - rig.rest_arm[hand, 2, 3]
    assert fallen > 0.4  # its hands do hang
    assert rig.rest_core[arm, 2, 3] - rig.rest_core[hand, 2, 3] == pytest.approx(0, abs=0.02)
    assert rig.rest_core[hand, 0, 3] == pytest.approx(straight.rest_core[hand, 0, 3], abs=0.02)
    moved = np.flatnonzero(np.any(rig.t_pose, axis=1))
    assert {rig.names[j] for j in moved} <= {"LeftArm", "RightArm", "LeftForeArm", "RightForeArm"}


def test_a_rest_near_the_t_pose_stays_as_it_is() -> None:
    rig = reference_rig.reference()
    found = skeleton.make(**parts(rig, t_pose=None))
    np.testing.assert_array_equal(found.t_pose, 0)


@pytest.mark.parametrize("degrees", [0, 30, 90, 137, 180, 270])
def test_the_facing_is_found_and_turned_away(degrees: float) -> None:
    body = reference_rig.reference()
    turn = rotations.matrix_from_axis_angle(np.array([0, 0, np.radians(degrees)]))
    rig = restyled(body, turn, np.tile(np.eye(3), (body.count, 1, 1)), body.t_pose)
    np.testing.assert_allclose(rig.axes, turn.T, atol=ROUND_TRIP)
    np.testing.assert_allclose(rig.offsets, body.offsets, atol=ROUND_TRIP)


def test_a_rig_with_y_up_is_turned_upright() -> None:
    body = reference_rig.reference()
    y_up = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    rig = restyled(body, y_up, np.tile(np.eye(3), (body.count, 1, 1)), body.t_pose)
    np.testing.assert_allclose(rig.offsets, body.offsets, atol=ROUND_TRIP)
    np.testing.assert_allclose(rig.foot_rest, body.foot_rest, atol=ROUND_TRIP)


def test_subtree_levels_and_chain_agree_with_the_parents() -> None:
    for rig in map(make_rig, RIGS):
        for j in range(rig.count):
            above = tree.chain(rig.parents, j)
            assert above[0] == j
            assert above[-1] == 0
            np.testing.assert_array_equal(np.flatnonzero(rig.subtree[:, j]), sorted(above))
        walked = np.concatenate([index for index, _ in rig.levels])
        assert sorted(walked) == list(range(1, rig.count))
        for index, parent in rig.levels:
            np.testing.assert_array_equal(rig.parents[index], parent)


def test_a_body_without_feet_is_measured_by_its_reach() -> None:
    rig = make_rig("tentacle")
    reach = np.linalg.norm([0.3, 0, 0.1]) + np.linalg.norm([0.2, 0, 0.3])
    assert rig.leg_length == pytest.approx(reach, abs=EXACT)
    assert rig.foot_rest.shape == (0, 2)


def test_the_fingerprint_knows_topology_and_not_proportions() -> None:
    rig = reference_rig.reference()
    longer = rig.rest_arm.copy()
    longer[:, :3, 3] *= 1.3
    assert skeleton.make(**parts(rig, rest_arm=longer)).fingerprint == rig.fingerprint
    effectors = [rig.names[e] for e in rig.effectors]
    for change in (
        {"effectors": effectors[::-1]},
        {"feet": ["RightFoot", "LeftFoot"]},
        {"names": ["Pelvis", *rig.names[1:]]},
    ):
        assert skeleton.make(**parts(rig, **change)).fingerprint != rig.fingerprint


def test_another_topology_is_refused_with_the_differences() -> None:
    rig, other = reference_rig.reference(), make_rig("creature")
    rig.require_same(make_rig("turned"), "the turned rig")
    with pytest.raises(SkeletonMismatch, match=r"expected 23 bones, got 15.*no bone .*Head.*Body") as found:
        rig.require_same(other, "the creature's data")
    assert "the creature's data" in str(found.value)
    swapped = skeleton.make(**parts(rig, feet=["RightFoot", "LeftFoot"]))
    with pytest.raises(SkeletonMismatch, match="feet differ"):
        rig.require_same(swapped, "swapped")


def test_proportions_differ_by_shape_and_not_by_size() -> None:
    rig = reference_rig.reference()
    big, arms = rig.rest_arm.copy(), rig.rest_arm.copy()
    big[:, :3, 3] *= 7
    arms[rig.names.index("LeftHand"), 0, 3] += 0.2
    assert rig.proportion_difference(skeleton.make(**parts(rig, rest_arm=big))) < ROUND_TRIP
    found = rig.proportion_difference(skeleton.make(**parts(rig, rest_arm=arms)))
    assert found == pytest.approx(0.2 / rig.leg_length, abs=1e-6)


def rest_with(change: str) -> np.ndarray:
    rest = reference_rig.reference().rest_arm.copy()
    if change == "nan":
        rest[3, 0, 3] = np.nan
    elif change == "scaled":
        rest[3, :3, :3] *= 2
    elif change == "mirrored":
        rest[3, :3, 0] *= -1
    elif change == "zero":
        rest[:, :3, 3] = 0
    elif change == "perspective":
        rest[3, 3] = [1, 2, 3, 4]
    elif change == "no legs":
        legs = [j for j, n in enumerate(reference_rig.reference().names) if "Thigh" in n or "Shin" in n or "Foot" in n]
        rest[legs, :3, 3] = rest[0, :3, 3]
    return rest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"names": ["Hips"] * 23}, "must differ, got Hips"),
        ({"names": []}, "expected 0 parents"),
        ({"parents": chain_parents(22)}, r"got \(22,\)"),
        ({"parents": np.zeros(23, int)}, "parents before children"),
        ({"parents": np.r_[-1, -1, chain_parents(23)[2:]]}, "one root first"),
        ({"parents": np.r_[-1, 5, chain_parents(23)[2:]]}, "parents before children"),
        ({"rest_arm": np.zeros((23, 3, 4))}, r"got .*\(23, 3, 4\)"),
        ({"rest_arm": rest_with("nan")}, "finite"),
        ({"rest_arm": rest_with("scaled")}, "without scale"),
        ({"rest_arm": rest_with("mirrored")}, "mirroring"),
        ({"rest_arm": rest_with("perspective")}, "last row"),
        ({"rest_arm": rest_with("zero")}, "zero size"),
        ({"rest_arm": rest_with("no legs")}, "legs have no length"),
        ({"effectors": []}, "at least one effector"),
        ({"effectors": ["LeftHand", "LeftHand", "LeftFoot", "RightFoot"]}, "LeftHand twice"),
        ({"effectors": ["Tail", "LeftFoot", "RightFoot"]}, "no bone called Tail; there are Hips"),
        ({"feet": ["LeftToeBase"]}, "feet must be effectors too, got LeftToeBase"),
        ({"limits": np.zeros((23, 4))}, r"expected limits \(23, 6\)"),
        ({"limits": np.tile([1.0, -1, 0, 0, 0, 0], (23, 1))}, "lower, upper"),
        ({"t_pose": np.zeros((22, 3))}, r"expected a finite T-pose \(23, 3\)"),
        ({"t_pose": np.full((23, 3), np.inf)}, "finite T-pose"),
    ],
)
def test_what_cannot_be_worked_with_is_refused_in_words(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        skeleton.make(**parts(reference_rig.reference(), **change))


def test_making_a_skeleton_leaves_its_arguments_alone() -> None:
    rest = make_rig("a_pose").rest_arm
    own = parts(make_rig("a_pose"), t_pose=None, rest_arm=rest.copy())
    rig = skeleton.make(**own)
    np.testing.assert_array_equal(own["rest_arm"], rest)
    own["rest_arm"][0] = 7
    np.testing.assert_array_equal(rig.rest_arm, rest)
