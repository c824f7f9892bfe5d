# SPDX-License-Identifier: GPL-3.0-or-later
"""The rotations of a few poses give what the batched ones give."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import EXACT, random_turns

from neural_network.core import quick_rotations as quick
from neural_network.core import rotations


@pytest.fixture
def turns(rng: np.random.Generator) -> np.ndarray:
    """Axis-angles (203, 3): none, any, half a turn and hardly any."""
    return np.concatenate([np.zeros((1, 3)), random_turns(rng, 200), [[np.pi, 0, 0], [0, 0, 1e-9]]])


def test_quick_conversions_are_the_batched_ones(turns: np.ndarray) -> None:
    quaternions = rotations.quaternion_from_axis_angle(turns)
    matrices = rotations.matrix_from_axis_angle(turns)
    np.testing.assert_allclose(quick.quaternion_from_axis_angle(turns), quaternions, atol=EXACT)
    np.testing.assert_allclose(quick.matrix_from_quaternion(quaternions), matrices, atol=EXACT)
    np.testing.assert_allclose(quick.matrix_from_axis_angle(turns), matrices, atol=EXACT)
    for part in (matrices, matrices[1:4]):  # with half turns, and without
        found = quick.quaternion_from_matrix(part)
        np.testing.assert_allclose(rotations.matrix_from_quaternion(found), part, atol=EXACT)
        back = rotations.matrix_from_axis_angle(quick.axis_angle_from_matrix(part))
        np.testing.assert_allclose(back, part, atol=EXACT)
        assert found[:, 0].min() >= 0


def test_quick_conversions_take_leading_axes(turns: np.ndarray) -> None:
    quaternions = rotations.quaternion_from_axis_angle(turns[:12].reshape(3, 4, 3))
    expected = rotations.matrix_from_quaternion(quaternions)
    np.testing.assert_allclose(quick.matrix_from_quaternion(quaternions), expected, atol=EXACT)
    np.testing.assert_allclose(quick.matrix_from_quaternion(quaternions[0, 0]), expected[0, 0], atol=EXACT)


def test_quick_products_are_the_batched_ones(turns: np.ndarray, rng: np.random.Generator) -> None:
    a = rotations.quaternion_from_axis_angle(turns)
    b, vectors = a[::-1], rng.normal(size=(len(a), 3))
    product = rotations.quaternion_multiply(a, b)
    np.testing.assert_allclose(quick.quaternion_multiply(a, b), product, atol=EXACT)
    np.testing.assert_allclose(quick.quaternion_multiply(a[0], b[0]), product[0], atol=EXACT)
    np.testing.assert_allclose([quick.left_product(p) @ q for p, q in zip(a, b, strict=True)], product, atol=EXACT)
    np.testing.assert_allclose([p @ quick.right_product(q) for p, q in zip(a, b, strict=True)], product, atol=EXACT)
    np.testing.assert_allclose(a * quick.CONJUGATE, rotations.quaternion_conjugate(a), atol=0)
    np.testing.assert_allclose(quick.cross(turns, vectors), np.cross(turns, vectors), atol=10 * EXACT)
    turned = np.einsum("nab,nb->na", rotations.matrix_from_axis_angle(turns), vectors)
    np.testing.assert_allclose(quick.quaternion_rotate(a, vectors), turned, atol=10 * EXACT)


@pytest.mark.slow
def test_a_single_rotation_in_plain_numbers_is_the_batched_one(turns: np.ndarray) -> None:
    for row, quaternion, matrix in zip(
        turns, rotations.quaternion_from_axis_angle(turns), rotations.matrix_from_axis_angle(turns), strict=True
    ):
        np.testing.assert_allclose(quick.matrix_of_one(*row), matrix, atol=EXACT)
        np.testing.assert_allclose(quick.quaternion_of_one(*row), quaternion, atol=EXACT)
        np.testing.assert_allclose(quick.axis_angle_of_one(*quaternion), row, atol=1e-7)
        np.testing.assert_allclose(quick.axis_angle_of_one(*-quaternion), quick.axis_angle_of_one(*quaternion), atol=0)
