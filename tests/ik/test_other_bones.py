# SPDX-License-Identifier: GPL-3.0-or-later
"""What was learned on the reference rig serves people with other bones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neural_network.core import forward_kinematics as fk
from neural_network.core.reference_rig import EFFECTORS, reference
from neural_network.core.rotations import matrix_from_axis_angle
from neural_network.core.skeleton import Skeleton, make
from neural_network.ik import density, network, other_bones
from neural_network.ik.context import LAYOUTS
from neural_network.ik.drag import Drag
from neural_network.ik.pose_judge import PoseJudge
from neural_network.ik.solver import Goals, Solver

WEIGHTS = density.SHIPPED
NEAR = 25.0
"""[degrees] that a limb's direction may differ from that on the reference rig, after the same drag."""


def without(*roles: str) -> tuple[Skeleton, list[str]]:
    """The reference rig without bones, under other names, and the roles of those that are left."""
    rig = reference()
    kept = [j for j, name in enumerate(rig.names) if name not in roles]
    parents = []
    for j in kept:
        above = int(rig.parents[j])
        while above >= 0 and above not in kept:
            above = int(rig.parents[above])
        parents.append(kept.index(above) if above >= 0 else -1)
    names = [f"bone {n}" for n in range(len(kept))]
    left = [rig.names[j] for j in kept]
    ends = [names[left.index(role)] for role in EFFECTORS if role in left]
    feet = [names[left.index(role)] for role in ("LeftFoot", "RightFoot")]
    return make(names, np.array(parents), rig.rest_arm[kept], ends, feet), left


FEWER = [
    ("NeckUpper",),
    ("NeckUpper", "Spine2"),
    ("NeckUpper", "LeftShoulder", "RightShoulder", "Spine2"),
    ("NeckUpper", "NeckLower", "Spine1", "Spine2", "LeftShoulder", "RightShoulder", "LeftToeBase", "RightToeBase"),
]


def drag_of(rig: Skeleton, roles: list[str], way: tuple[float, float, float]) -> np.ndarray:
    """(4, 3) directions of arms and legs after the right hand was dragged that way, on ``rig``, and what was missed is nothing."""
    rest = rig.rest_arm[:, :3, 3]
    drag = Drag(rig, np.zeros((rig.count, 3)), rest[0], other_bones.people(rig, roles))
    begin = rest[list(rig.effectors)]
    hand = [roles[e] for e in rig.effectors].index("RightHand")
    weights = [float(roles[e] in ("RightHand", "LeftFoot", "RightFoot")) for e in rig.effectors]
    for share in np.linspace(0.1, 1, 10):
        targets = begin.copy()
        targets[hand] += np.array(way) * share
        rot, root, missed = drag.solve(targets, weights)
    assert missed.max() < 1e-3
    heads = fk.armature_matrices(rig, rot, root)[:, :3, 3]
    ways = [("RightArm", "RightForeArm"), ("RightForeArm", "RightHand"), ("LeftThigh", "LeftShin"), ("Hips", "Head")]
    found = np.array([heads[roles.index(b)] - heads[roles.index(a)] for a, b in ways])
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


@pytest.mark.parametrize("lacking", FEWER)
def test_every_turn_of_a_bone_that_is_missing_is_made_by_another(lacking: tuple[str, ...]) -> None:
    _, roles = without(*lacking)
    share = other_bones.shares(reference().names, roles)
    sums = dict(zip(reference().names, share.sum(axis=0), strict=True))
    assert all(total == pytest.approx(1) for role, total in sums.items() if not role.endswith("ToeBase"))
    assert sums["LeftToeBase"] == (0 if "LeftToeBase" in lacking else 1)


def test_merged_turns_end_where_the_separate_ones_did() -> None:
    _, roles = without("NeckUpper", "Spine1")
    rot = np.random.default_rng(0).normal(0, 0.4, (23, 3))
    found = other_bones.carried(other_bones.shares(reference().names, roles), rot)
    names = reference().names
    neck = [matrix_from_axis_angle(rot[names.index(n)]) for n in ("NeckLower", "NeckUpper")]
    assert np.allclose(matrix_from_axis_angle(found[roles.index("NeckLower")]), neck[0] @ neck[1])


@pytest.mark.parametrize("lacking", FEWER)
def test_the_first_drag_on_fewer_bones_is_exact_and_much_like_that_on_all(lacking: tuple[str, ...]) -> None:
    way = (0.2, -0.35, -0.4)
    full = drag_of(reference(), list(reference().names), way)
    fewer = drag_of(*without(*lacking), way)
    assert np.degrees(np.arccos(np.clip(np.sum(full * fewer, axis=1), -1, 1))).max() < NEAR


@pytest.mark.parametrize("lacking", FEWER)
def test_the_shipped_weights_solve_for_fewer_bones(lacking: tuple[str, ...]) -> None:
    rig, roles = without(*lacking)
    net = other_bones.onto(network.load(WEIGHTS), rig, roles)
    solver = Solver(net, rig)
    rest = rig.rest_arm[:, :3, 3]
    positions = rest[list(rig.effectors)].copy()
    hand = [roles[e] for e in rig.effectors].index("LeftHand")
    positions[hand] += [-0.2, -0.35, -0.3]
    weights = np.array([float(roles[e] not in ("RightHand", "Head")) for e in rig.effectors])
    goals = Goals(positions, rest[0], np.zeros(3), weights=weights)
    assert solver.solve(goals).reached.all()
    assert solver.solve_batch([goals]).reached.all()
    assert 0 <= solver.explain(goals).out_of_range < 20


def test_saved_weights_for_fewer_bones_read_back(tmp_path: Path) -> None:
    rig, roles = without("NeckUpper")
    net = other_bones.onto(network.load(WEIGHTS), rig, roles)
    network.save(tmp_path / "best.npy", net)
    again = network.load(tmp_path / "best.npy")
    assert again.skeleton.names == rig.names
    assert np.array_equal(again.parameters, net.parameters)


def test_without_a_head_the_other_targets_are_met() -> None:
    rig, roles = without("NeckUpper", "NeckLower", "Head")
    net = other_bones.onto(network.load(WEIGHTS), rig, roles)
    rest = rig.rest_arm[:, :3, 3]
    positions = rest[list(rig.effectors)].copy()
    positions[0] += [-0.2, -0.3, -0.3]
    assert Solver(net, rig).solve(Goals(positions, rest[0], np.zeros(3))).reached.all()


def test_what_these_weights_cannot_move_is_said() -> None:
    rig, roles = without("NeckUpper")
    with pytest.raises(ValueError, match="this rig has LeftPaw"):
        other_bones.onto(network.load(WEIGHTS), rig, ["LeftPaw" if r == "LeftHand" else r for r in roles])


def test_limits_are_about_the_axes_that_they_were_learned_on_whatever_the_rolls() -> None:
    own = reference()
    turn = matrix_from_axis_angle(np.random.default_rng(1).normal(0, 1.5, (23, 3)))
    rest = own.rest_arm.copy()
    rest[:, :3, :3] = rest[:, :3, :3] @ turn
    ends = [own.names[e] for e in own.effectors], [own.names[f] for f in own.feet]
    rolled = make(own.names, own.parents, rest, *ends, t_pose=np.zeros((23, 3)), limits=own.limits)
    rolled = replace(rolled, limits_about=own.limit_axes)
    bent = np.zeros((23, 3))
    bent[own.names.index("LeftForeArm"), 2] = -2.0
    found = []
    for rig in (own, rolled):
        judge = PoseJudge(rig)
        found.append(judge.judge(rig.from_core(bent), np.zeros((23, 3))).beyond)
    assert found[0] == pytest.approx(found[1])
    assert np.allclose(density.anatomy(own), density.anatomy(rolled))


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_networks_of_every_layout_serve_fewer_bones(name: str) -> None:
    own, layout = reference(), LAYOUTS[name]
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(20, layout.input_count(own)))
    net = network.init(own, layout, (8,), inputs, np.zeros(layout.output_count(own)), rng)
    rig, roles = without("NeckUpper", "LeftToeBase", "RightToeBase")
    fitted = other_bones.onto(net, rig, roles)
    assert len(fitted.mean) == layout.input_count(rig)
    rest = rig.rest_arm[:, :3, 3]
    goals = Goals(rest[list(rig.effectors)], rest[0], np.zeros(3))
    assert Solver(fitted, rig).solve(goals, steps=10).reached.all()
    three, left = without("NeckUpper", "NeckLower", "Head", "RightShoulder")
    assert len(other_bones.onto(net, three, left).mean) == layout.input_count(three)
