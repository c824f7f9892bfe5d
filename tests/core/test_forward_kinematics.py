# SPDX-License-Identifier: GPL-3.0-or-later
"""Forward kinematics against its definition in armature space, its backward pass and Jacobian against differences."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import (
    EXACT,
    FLOAT32,
    GRADIENT,
    RIGS,
    make_rig,
    numeric_gradient,
    random_turns,
    relative_error,
    slow_except,
)

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.core.skeleton import Skeleton


def components(rot: np.ndarray) -> np.ndarray:
    """(N, J, 3) to (3, J, N)."""
    return np.ascontiguousarray(rot.transpose(2, 1, 0))


def plain(rig: Skeleton, rot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One pose (J, 3), bone after bone, as the definition in words says."""
    turned, heads = np.zeros((rig.count, 3, 3)), np.zeros((rig.count, 3))
    for j, parent in enumerate(rig.parents):
        own = rotations.matrix_from_axis_angle(rot[j])
        turned[j] = own if parent < 0 else turned[parent] @ own
        heads[j] = 0 if parent < 0 else heads[parent] + turned[parent] @ rig.offsets[j]
    return turned, heads


@pytest.mark.parametrize("name", RIGS)
def test_core_kinematics_is_what_the_armature_does(name: str, rng: np.random.Generator) -> None:
    rig = make_rig(name)
    rot_local, root_pos = random_turns(rng, 50, rig.count), rng.normal(size=(50, 3))
    matrices = fk.armature_matrices(rig, rot_local, root_pos)
    np.testing.assert_allclose(matrices[:, 0, :3, 3], root_pos, atol=0)
    turned, heads = fk.forward(rig, rig.to_core(rot_local))
    np.testing.assert_allclose(heads, (matrices[..., :3, 3] - root_pos[:, None]) @ rig.axes.T, atol=10 * EXACT)
    np.testing.assert_allclose(turned @ rig.basis, rig.axes @ matrices[..., :3, :3], atol=10 * EXACT)


@pytest.mark.parametrize("name", RIGS)
def test_the_rest_pose_of_the_armature_is_its_rest(name: str) -> None:
    rig = make_rig(name)
    matrices = fk.armature_matrices(rig, np.zeros((rig.count, 3)), rig.rest_arm[0, :3, 3])
    np.testing.assert_allclose(matrices, rig.rest_arm, atol=EXACT)


def test_the_batched_walk_is_the_bone_by_bone_one_whatever_the_leading_axes(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    rot = random_turns(rng, 2, 3, rig.count)
    turned, heads = fk.forward(rig, rot)
    assert turned.shape == (2, 3, rig.count, 3, 3)
    for index in np.ndindex(2, 3):
        one_turned, one_heads = plain(rig, rot[index])
        np.testing.assert_allclose(turned[index], one_turned, atol=EXACT)
        np.testing.assert_allclose(heads[index], one_heads, atol=EXACT)
        np.testing.assert_allclose(fk.forward(rig, rot[index])[1], one_heads, atol=EXACT)
    assert fk.forward(rig, rot[:0])[1].shape == (0, 3, rig.count, 3)


def test_offsets_stand_in_for_the_skeletons_own(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    rot = components(random_turns(rng, 4, rig.count))
    _, own = fk.forward_components(rig, rot)
    _, doubled = fk.forward_components(rig, rot, 2 * rig.offsets)
    np.testing.assert_allclose(doubled, 2 * own, atol=EXACT)
    each = rig.offsets.T[:, :, None] * np.array([1.0, 2, 3, 4])
    _, scaled = fk.forward_components(rig, rot, each)
    np.testing.assert_allclose(scaled, own * [1, 2, 3, 4], atol=EXACT)


def test_kinematics_changes_none_of_its_arguments(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    rot = components(random_turns(rng, 4, rig.count))
    kept = rot.copy()
    turned, heads = fk.forward_components(rig, rot)
    before = turned.copy(), heads.copy()
    force = rng.normal(size=(3, 5, 4))
    fk.backward_components(rig, rot, turned, heads, np.array(rig.effectors), force, force.copy())
    np.testing.assert_array_equal(rot, kept)
    np.testing.assert_array_equal(turned, before[0])
    np.testing.assert_array_equal(heads, before[1])


@pytest.mark.parametrize("name", slow_except(RIGS, "turned", "tentacle"))
@pytest.mark.parametrize("regime", slow_except(["any", "zero", "near pi"], "any", "near pi"))
def test_the_backward_pass_agrees_with_central_differences(name: str, regime: str, rng: np.random.Generator) -> None:
    rig = make_rig(name)
    rot = random_turns(rng, 2, rig.count)
    if regime == "zero":
        rot[:, ::2] = 0
    elif regime == "near pi":
        rot *= (np.pi - 1e-4) / np.linalg.norm(rot, axis=-1, keepdims=True)
    rot = components(rot)
    bones = np.array(rig.effectors)
    pull, twist = rng.normal(size=(3, len(bones), 2)), rng.normal(size=(3, 3, len(bones), 2))

    def value(at: np.ndarray) -> float:
        turned, heads = fk.forward_components(rig, at)
        return float(np.sum(pull * heads[:, bones]) + np.sum(twist * turned[:, :, bones]))

    turned, heads = fk.forward_components(rig, rot)
    moment = np.einsum("abkn,cbkn->ackn", twist, turned[:, :, bones])  # of R -> exp(d) R: the axial vector of twist R^T
    torque = np.stack([moment[2, 1] - moment[1, 2], moment[0, 2] - moment[2, 0], moment[1, 0] - moment[0, 1]])
    found = fk.backward_components(rig, rot, turned, heads, bones, pull, torque)
    assert relative_error(found, numeric_gradient(value, rot)) <= GRADIENT


@pytest.mark.parametrize("name", slow_except(RIGS, "tentacle"))
def test_joint_torques_are_the_gradient_of_turning_each_joint_in_its_parents_axes(
    name: str, rng: np.random.Generator
) -> None:
    rig = make_rig(name)
    turns = rotations.matrix_components(components(random_turns(rng, 2, rig.count)))
    bones = np.array(rig.effectors)
    pull = rng.normal(size=(3, len(bones), 2))

    def value(nudge: np.ndarray) -> float:
        moved = fk.compose_components(rotations.matrix_components(nudge), turns)
        return float(np.sum(pull * fk.forward_matrices(rig, moved)[1][:, bones]))

    turned, heads = fk.forward_matrices(rig, turns)
    found = fk.joint_torques(rig, turned, heads, bones, pull)
    assert relative_error(found, numeric_gradient(value, np.zeros_like(turns[0]))) <= GRADIENT


@pytest.mark.parametrize("name", slow_except(RIGS, "tentacle"))
def test_the_effector_jacobian_agrees_with_central_differences(name: str, rng: np.random.Generator) -> None:
    """Each joint is turned about the world's axes at its own head, the bones above it held still."""
    rig = make_rig(name)
    turns = rotations.matrix_from_axis_angle(random_turns(rng, rig.count))
    bones = np.array(rig.effectors)

    def pose(joint: int, nudge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turned, heads = np.zeros((rig.count, 3, 3)), np.zeros((rig.count, 3))
        for j, parent in enumerate(rig.parents):
            turned[j] = turns[j] if parent < 0 else turned[parent] @ turns[j]
            if parent >= 0:
                heads[j] = heads[parent] + turned[parent] @ rig.offsets[j]
            if j == joint:
                turned[j] = rotations.matrix_from_axis_angle(nudge) @ turned[j]
        return turned[bones], heads[bones]

    still, heads = pose(-1, np.zeros(3))
    found = fk.effector_jacobian(rig, plain_heads(rig, turns), bones)
    expected = np.zeros_like(found)
    for j in range(rig.count):
        for axis in range(3):
            for shift, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
                turned, heads = pose(j, np.eye(3)[axis] * shift * 1e-3)
                swept = rotations.axis_angle_from_matrix(turned @ still.transpose(0, 2, 1))
                expected[:, :3, j, axis] += weight * heads / 12e-3
                expected[:, 3:, j, axis] += weight * swept / 12e-3
    assert relative_error(found, expected) <= GRADIENT


def plain_heads(rig: Skeleton, turns: np.ndarray) -> np.ndarray:
    return plain(rig, rotations.axis_angle_from_matrix(turns))[1]


def test_float32_agrees_with_float64(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    rot = components(random_turns(rng, 200, rig.count)).astype(np.float32)
    force = rng.normal(size=(3, 5, 200)).astype(np.float32)
    bones = np.array(rig.effectors)
    found, expected = (
        (*fk.forward_components(rig, r), fk.backward_components(rig, r, *fk.forward_components(rig, r), bones, f, f))
        for r, f in ((rot, force), (rot.astype(np.float64), force.astype(np.float64)))
    )
    for narrow, wide in zip(found, expected, strict=True):
        assert narrow.dtype == np.float32
        assert relative_error(narrow, wide) <= FLOAT32
