# SPDX-License-Identifier: GPL-3.0-or-later
"""The served body: clients see the pose that the rig has, and a solve over the wire is the solver's own."""

from __future__ import annotations

import numpy as np
import pytest

from neural_network.core.forward_kinematics import armature_matrices
from neural_network.core.reference_rig import reference
from neural_network.core.rotations import (
    axis_angle_from_matrix,
    geodesic_angle,
    matrix_from_axis_angle,
    matrix_from_quaternion,
    quaternion_from_matrix,
)
from neural_network.core.skeleton import Skeleton, make
from neural_network.ik import network
from neural_network.ik.context import LAYOUTS
from neural_network.ik.goals import Goals
from neural_network.ik.solver import Solver
from neural_network.live import vmc
from neural_network.live.body import served_body, solving_body, wire_pose


def turned_rig() -> Skeleton:
    """The reference rig facing +X, its arms hanging down at rest, its bones rolled: nothing is where core axes have it."""
    rig = reference()
    pose = np.zeros((rig.count, 3))
    pose[rig.names.index("LeftArm")] = [1.0, 0, 0]
    pose[rig.names.index("RightArm")] = [1.0, 0, 0]
    rest = armature_matrices(rig, pose, rig.rest_arm[0, :3, 3])
    face = np.eye(4)
    face[:3, :3] = matrix_from_axis_angle(np.array([0, 0, np.pi / 2]))
    roll = matrix_from_axis_angle(np.array([0, 0.4, 0]))
    rest = face @ rest
    rest[:, :3, :3] = rest[:, :3, :3] @ roll
    names = [rig.names[e] for e in rig.effectors]
    return make(rig.names, rig.parents, rest, names, [rig.names[f] for f in rig.feet])


RIGS = {"reference": reference, "turned": turned_rig}


def chain(parents: tuple[int, ...], offsets: np.ndarray, root: np.ndarray, turns: np.ndarray) -> tuple:
    """Orientations relative to the T-pose and heads, in core axes, as a client computes them."""
    whole, heads = matrix_from_quaternion(turns), np.zeros((len(parents), 3))
    for j, parent in enumerate(parents):
        if parent < 0:
            heads[j] = root
        else:
            heads[j] = heads[parent] + whole[parent] @ offsets[j]
            whole[j] = whole[parent] @ whole[j]
    return whole, heads


@pytest.mark.parametrize("which", sorted(RIGS))
def test_clients_see_the_pose_that_the_rig_has(which: str, rng) -> None:
    rig = RIGS[which]()
    rot, root = 0.4 * rng.standard_normal((rig.count, 3)), rng.standard_normal(3)
    body = served_body(rig)
    whole, heads = chain(body.parents, body.offsets, *wire_pose(rig, rot, root))
    true = armature_matrices(rig, rot, root)
    assert np.abs(heads @ rig.axes - true[:, :3, 3]).max() < 1e-9
    assert np.abs(rig.axes.T @ whole @ rig.basis - true[:, :3, :3]).max() < 1e-9


def test_the_t_pose_has_no_rotation_on_the_wire() -> None:
    rig = turned_rig()
    _, turns = wire_pose(rig, rig.t_pose, np.zeros(3))
    assert geodesic_angle(matrix_from_quaternion(turns), np.eye(3)).max() < 1e-6


@pytest.mark.parametrize("which", sorted(RIGS))
def test_a_solve_over_the_wire_is_the_solvers_own(which: str, rng) -> None:
    rig = RIGS[which]()
    layout = LAYOUTS["reference"]
    inputs = rng.standard_normal((10, layout.input_count(rig)))
    net = network.init(rig, layout, (8,), inputs, np.zeros(layout.output_count(rig)), rng)
    solver = Solver(net)
    body = solving_body(solver)
    assert body.solve is not None
    rot, root = 0.2 * rng.standard_normal((rig.count, 3)), rng.standard_normal(3)
    ends = list(rig.effectors)
    true = armature_matrices(rig, rot, root)[ends]
    relative = true[:, :3, :3] @ np.swapaxes(rig.rest_arm[ends, :3, :3], -1, -2)
    direct = solver.solve(Goals(true[:, :3, 3], root, rot[0], axis_angle_from_matrix(relative), np.ones(len(ends))))

    whole, heads = chain(body.parents, body.offsets, *wire_pose(rig, rot, root))
    root_core, turns = wire_pose(rig, rot, root)
    found = body.solve(heads[ends], quaternion_from_matrix(whole[ends]), np.ones(len(ends)), root_core, turns[0])
    expected = wire_pose(rig, direct.rotations, direct.root_pos)
    assert np.abs(found[0] - expected[0]).max() < 1e-9
    assert geodesic_angle(matrix_from_quaternion(found[1]), matrix_from_quaternion(expected[1])).max() < 1e-4
    assert np.abs(found[2] - direct.error).max() < 1e-5
    _, reached = chain(body.parents, body.offsets, found[0], found[1])
    assert np.abs(np.linalg.norm(reached[ends] - heads[ends], axis=1) - found[2]).max() < 1e-4


def test_a_pose_sent_as_vmc_is_received_again(rng) -> None:
    rig = turned_rig()
    body = served_body(rig)
    rot, root = 0.4 * rng.standard_normal((rig.count, 3)), rng.standard_normal(3)
    rot[rig.names.index("NeckUpper")] = rig.t_pose[rig.names.index("NeckUpper")]
    root_core, turns = wire_pose(rig, rot, root)
    parts = vmc.vmc_messages(body.names, body.parents, body.offsets, root_core, turns, 0.0)
    bones = vmc.read_bones(vmc.osc_read(vmc.osc_bundle(parts)))
    assert len(bones) == rig.count  # with the root, and without the upper neck
    got_root, got = vmc.pose_from_bones(bones, body.names, body.parents)
    assert got_root is not None
    assert np.abs(got_root - root_core).max() < 1e-5
    assert geodesic_angle(matrix_from_quaternion(got), matrix_from_quaternion(turns)).max() < 1e-4
