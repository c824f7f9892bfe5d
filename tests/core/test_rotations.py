# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotations: round trips, independent formulas, derivatives, and the odd places (zero, half a turn, no direction)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from conftest import EXACT, FLOAT32, GRADIENT, ROUND_TRIP, numeric_gradient, relative_error

from neural_network.core import rotations

SHAPES = [(), (7,), (4, 3), (0,), (2, 0, 3)]
ODD_ANGLES = [0.0, 1e-300, 1e-12, 1e-7, 1e-4, 0.049, 0.051, 1.0, math.pi - 1e-4, math.pi - 1e-7, math.pi - 1e-12]


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector, axis=-1, keepdims=True)


def axis_angles(rng: np.random.Generator, *shape: int, below: float = math.pi) -> np.ndarray:
    return unit(rng.normal(size=(*shape, 3))) * rng.uniform(0, below, (*shape, 1))


def odd_axis_angles(rng: np.random.Generator) -> np.ndarray:
    axes = np.concatenate([np.eye(3), -np.eye(3), unit(rng.normal(size=(20, 3)))])
    return axes * np.array(ODD_ANGLES)[:, None, None]


def series_exponential(rot: np.ndarray) -> np.ndarray:
    """exp([rot]) of one axis-angle, from the definition: halved ten times, summed, squared ten times."""
    x, y, z = rot
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) / 1024
    total, term = np.eye(3), np.eye(3)
    for n in range(1, 12):
        term = term @ skew / n
        total = total + term
    return np.linalg.matrix_power(total, 1024)


def assert_rotations(matrix: np.ndarray, within: float) -> None:
    assert_close(matrix @ np.swapaxes(matrix, -1, -2), np.broadcast_to(np.eye(3), matrix.shape), within=within)
    assert_close(np.linalg.det(matrix), 1, within=within)


def assert_close(found: np.ndarray, expected: np.ndarray, *, within: float = 0, relative: float = 0) -> None:
    """Unlike NumPy's own, with no relative tolerance that nobody asked for."""
    np.testing.assert_allclose(found, expected, rtol=relative, atol=within)


def up_to_sign(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.minimum(np.abs(a - b).max(axis=-1), np.abs(a + b).max(axis=-1))


def test_a_quarter_turn_about_z_takes_x_to_y() -> None:
    turned = rotations.matrix_from_axis_angle(np.array([0, 0, math.pi / 2])) @ [1, 0, 0]
    assert_close(turned, [0, 1, 0], within=EXACT)


def test_the_matrix_is_the_exponential_of_the_axis_angle(rng: np.random.Generator) -> None:
    for rot in np.concatenate([axis_angles(rng, 50, below=7.0), odd_axis_angles(rng).reshape(-1, 3)[::9]]):
        assert_close(rotations.matrix_from_axis_angle(rot), series_exponential(rot), within=EXACT)


def test_zero_rotation_is_exactly_the_identity_everywhere() -> None:
    zero = np.zeros((2, 3))
    np.testing.assert_array_equal(rotations.matrix_from_axis_angle(zero), np.broadcast_to(np.eye(3), (2, 3, 3)))
    np.testing.assert_array_equal(rotations.quaternion_from_axis_angle(zero), [[1, 0, 0, 0]] * 2)
    np.testing.assert_array_equal(rotations.axis_angle_from_quaternion(np.array([[1.0, 0, 0, 0], [-1, 0, 0, 0]])), zero)
    np.testing.assert_array_equal(rotations.axis_angle_from_matrix(np.broadcast_to(np.eye(3), (2, 3, 3))), zero)


def test_axis_angle_survives_matrix_and_quaternion(rng: np.random.Generator) -> None:
    for rot in (axis_angles(rng, 500), odd_axis_angles(rng)):
        through_matrix = rotations.axis_angle_from_matrix(rotations.matrix_from_axis_angle(rot))
        through_quaternion = rotations.axis_angle_from_quaternion(rotations.quaternion_from_axis_angle(rot))
        assert_close(through_matrix, rot, within=ROUND_TRIP)
        assert_close(through_quaternion, rot, within=ROUND_TRIP)


def test_one_large_turn_among_small_ones_changes_none_of_them(rng: np.random.Generator) -> None:
    """The way through the quaternion's largest component must give what the short way gives."""
    small = axis_angles(rng, 40, below=1.5)
    mixed = np.concatenate([small, [[3.1, 0, 0]]])
    alone = rotations.axis_angle_from_matrix(rotations.matrix_from_axis_angle(small))
    among = rotations.axis_angle_from_matrix(rotations.matrix_from_axis_angle(mixed))
    assert_close(among[:-1], alone, within=EXACT)


def test_tiny_rotations_keep_their_relative_precision_through_quaternions() -> None:
    rot = np.array([[3e-9, -4e-9, 0], [0, 0, 1e-13], [1e-20, 0, 0]])
    back = rotations.axis_angle_from_quaternion(rotations.quaternion_from_axis_angle(rot))
    assert_close(back, rot, relative=EXACT)


def test_at_half_a_turn_the_angle_is_pi_and_the_axis_may_have_either_sign(rng: np.random.Generator) -> None:
    axis = np.concatenate([np.eye(3), unit(rng.normal(size=(50, 3)))])
    half_turns = 2 * axis[:, :, None] * axis[:, None, :] - np.eye(3)
    found = rotations.axis_angle_from_matrix(half_turns)
    assert np.all(up_to_sign(found, math.pi * axis) < ROUND_TRIP)


def test_rotations_beyond_half_a_turn_come_back_the_short_way(rng: np.random.Generator) -> None:
    axis = unit(rng.normal(size=(50, 3)))
    found = rotations.axis_angle_from_matrix(rotations.matrix_from_axis_angle(axis * 4.0))
    assert_close(found, axis * (4.0 - 2 * math.pi), within=ROUND_TRIP)


def test_matrix_and_quaternion_agree_for_every_largest_component(rng: np.random.Generator) -> None:
    quaternion = unit(rng.normal(size=(400, 4)) + 5 * np.repeat(np.eye(4), 100, axis=0))
    matrix = rotations.matrix_from_quaternion(quaternion)
    assert_rotations(matrix, EXACT)
    found = rotations.quaternion_from_matrix(matrix)
    assert np.all(up_to_sign(found, quaternion) < EXACT)
    assert np.all(found[:, 0] >= 0)
    assert_close(
        matrix, rotations.matrix_from_axis_angle(rotations.axis_angle_from_quaternion(quaternion)), within=EXACT
    )


def test_quaternions_need_not_be_unit_and_a_zero_one_is_no_rotation(rng: np.random.Generator) -> None:
    quaternion = unit(rng.normal(size=(20, 4)))
    assert_close(
        rotations.matrix_from_quaternion(quaternion * 7), rotations.matrix_from_quaternion(quaternion), within=EXACT
    )
    assert_close(
        rotations.axis_angle_from_quaternion(quaternion * 7),
        rotations.axis_angle_from_quaternion(quaternion),
        within=EXACT,
    )
    np.testing.assert_array_equal(rotations.matrix_from_quaternion(np.zeros(4)), np.eye(3))
    np.testing.assert_array_equal(rotations.axis_angle_from_quaternion(np.zeros(4)), np.zeros(3))


def test_the_quaternion_product_turns_by_the_right_factor_first(rng: np.random.Generator) -> None:
    a, b = unit(rng.normal(size=(2, 30, 4)))
    product = rotations.matrix_from_quaternion(rotations.quaternion_multiply(a, b))
    assert_close(product, rotations.matrix_from_quaternion(a) @ rotations.matrix_from_quaternion(b), within=EXACT)
    undone = rotations.quaternion_multiply(a, rotations.quaternion_conjugate(a))
    assert_close(undone, np.broadcast_to([1, 0, 0, 0], a.shape), within=EXACT)


@pytest.mark.parametrize("angle", [*ODD_ANGLES[1:], 4.0, 2 * math.pi - 1e-3])
def test_the_backward_pass_agrees_with_central_differences(angle: float, rng: np.random.Generator) -> None:
    for axis in unit(rng.normal(size=(5, 3))):
        rot, weights = axis * angle, rng.normal(size=(3, 3))

        def value(at: np.ndarray, weights: np.ndarray = weights) -> float:
            return float(np.sum(weights * rotations.matrix_from_axis_angle(at)))

        # value's gradient for R -> exp(d) R: the axial vector of weights R^T
        moment = weights @ rotations.matrix_from_axis_angle(rot).T
        torque = np.array([moment[2, 1] - moment[1, 2], moment[0, 2] - moment[2, 0], moment[1, 0] - moment[0, 1]])
        found = rotations.axis_angle_backward(rot, torque)
        assert relative_error(found, numeric_gradient(value, rot)) <= GRADIENT


def test_the_backward_pass_at_zero_hands_the_torque_through(rng: np.random.Generator) -> None:
    torque = rng.normal(size=(4, 3))
    np.testing.assert_array_equal(rotations.axis_angle_backward(np.zeros((4, 3)), torque), torque)


def test_the_backward_pass_does_not_jump_where_series_and_formula_meet(rng: np.random.Generator) -> None:
    axis, torque = unit(rng.normal(size=3)), rng.normal(size=3)
    below, above = (rotations.axis_angle_backward(axis * 0.05 * (1 + e), torque) for e in (-1e-13, 1e-13))
    assert_close(below, above, within=EXACT)


def test_float32_kernels_agree_with_float64(rng: np.random.Generator) -> None:
    rot = np.concatenate([axis_angles(rng, 300), odd_axis_angles(rng).reshape(-1, 3)]).astype(np.float32)
    torque = rng.normal(size=rot.shape).astype(np.float32)
    wide_rot, wide_torque = rot.astype(np.float64), torque.astype(np.float64)
    assert_close(rotations.matrix_from_axis_angle(rot), rotations.matrix_from_axis_angle(wide_rot), within=FLOAT32)
    assert_close(
        rotations.axis_angle_backward(rot, torque), rotations.axis_angle_backward(wide_rot, wide_torque), within=FLOAT32
    )


Function = Callable[[np.ndarray], np.ndarray]
FUNCTIONS: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {
    # name: the function of axis-angles (..., 3), the shape one input row gives
    "matrix_from_axis_angle": (rotations.matrix_from_axis_angle, (3,), (3, 3)),
    "axis_angle_backward": (lambda a: rotations.axis_angle_backward(a, a[..., ::-1] + 1), (3,), (3,)),
    "quaternion_from_axis_angle": (rotations.quaternion_from_axis_angle, (3,), (4,)),
    "axis_angle_from_quaternion": (rotations.axis_angle_from_quaternion, (4,), (3,)),
    "matrix_from_quaternion": (rotations.matrix_from_quaternion, (4,), (3, 3)),
    "quaternion_conjugate": (rotations.quaternion_conjugate, (4,), (4,)),
    "quaternion_multiply": (lambda q: rotations.quaternion_multiply(q, q[..., ::-1]), (4,), (4,)),
    "quaternion_from_matrix": (lambda a: rotations.quaternion_from_matrix(_matrices(a)), (3,), (4,)),
    "axis_angle_from_matrix": (lambda a: rotations.axis_angle_from_matrix(_matrices(a)), (3,), (3,)),
    "sixd_from_matrix": (lambda a: rotations.sixd_from_matrix(_matrices(a)), (3,), (6,)),
    "matrix_from_sixd": (rotations.matrix_from_sixd, (6,), (3, 3)),
    "slerp": (lambda a: rotations.slerp(a, a[..., ::-1], 0.3), (3,), (3,)),
    "slerp_by_array": (lambda a: rotations.slerp(a, a[..., ::-1], np.full((*a.shape[:-1], 1), 0.3)), (3,), (3,)),
    "quaternion_slerp": (lambda q: rotations.quaternion_slerp(unit(q), unit(q[..., ::-1]), 0.3), (4,), (4,)),
    "rotation_between": (lambda a: rotations.rotation_between(a, a[..., ::-1]), (3,), (3, 3)),
    "geodesic_angle": (lambda a: rotations.geodesic_angle(_matrices(a), _matrices(a[..., ::-1])), (3,), ()),
    "twist_about": (lambda a: rotations.twist_about(a, np.array([0, 0.6, 0.8])), (3,), ()),
    "matrix_from_euler": (lambda a: rotations.matrix_from_euler(a, "ZXY"), (3,), (3, 3)),
}


def _matrices(rot: np.ndarray) -> np.ndarray:
    return rotations.matrix_from_axis_angle(rot)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leading_axes_are_free_and_the_floating_type_is_kept(name: str, dtype: type, rng: np.random.Generator) -> None:
    function, row_in, row_out = FUNCTIONS[name]
    for shape in SHAPES:
        argument = rng.normal(size=(*shape, *row_in)).astype(dtype)
        before = argument.copy()
        result = function(argument)
        assert result.shape == (*shape, *row_out), shape
        assert result.dtype == dtype, shape
        np.testing.assert_array_equal(argument, before, err_msg="the argument was changed")
        for index in np.ndindex(shape):
            assert_close(result[index], function(argument[index]), within=1e-5 if dtype is np.float32 else EXACT)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_numbers_are_taken_as_float64(name: str) -> None:
    function, row_in, _ = FUNCTIONS[name]
    argument = np.arange(1, row_in[0] + 1) ** 2
    result = function(argument)
    assert result.dtype == np.float64
    assert_close(result, function(argument.astype(np.float64)), within=EXACT)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_results_are_close_to_the_float64_ones(name: str, rng: np.random.Generator) -> None:
    function, row_in, _ = FUNCTIONS[name]
    argument = rng.uniform(0.3, 1.2, size=(40, *row_in)).astype(np.float32)
    if row_in == (4,):
        argument = unit(argument)
    assert_close(function(argument), function(argument.astype(np.float64)), within=FLOAT32)


def test_component_kernels_agree_with_the_row_functions(rng: np.random.Generator) -> None:
    rot, torque = axis_angles(rng, 5, 4), rng.normal(size=(5, 4, 3))
    first = np.moveaxis(rotations.matrix_components(np.moveaxis(rot, -1, 0)), (0, 1), (-2, -1))
    np.testing.assert_array_equal(first, rotations.matrix_from_axis_angle(rot))
    back = rotations.axis_angle_components(np.moveaxis(first, (-2, -1), (0, 1)))
    assert_close(np.moveaxis(back, 0, -1), rot, within=ROUND_TRIP)
    assert_close(
        np.moveaxis(rotations.cross_components(np.moveaxis(rot, -1, 0), np.moveaxis(torque, -1, 0)), 0, -1),
        np.cross(rot, torque),
        within=EXACT,
    )


def euler_by_hand(angles: np.ndarray, order: str) -> np.ndarray:
    total = np.eye(3)
    for angle, letter in zip(angles, order, strict=True):
        c, s = math.cos(angle), math.sin(angle)
        plain = {
            "X": [[1, 0, 0], [0, c, -s], [0, s, c]],
            "Y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
            "Z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
        }
        total = total @ np.array(plain[letter])
    return total


@pytest.mark.parametrize("order", ["XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX", "ZXZ", "XZ", "Y", ""])
def test_euler_angles_compose_left_to_right_in_any_order(order: str, rng: np.random.Generator) -> None:
    angles = rng.uniform(-4, 4, (20, len(order)))
    found = rotations.matrix_from_euler(angles, order)
    assert_close(found, [euler_by_hand(row, order) for row in angles], within=EXACT)
    np.testing.assert_array_equal(found, rotations.matrix_from_euler(angles, order.lower()))
    found += 1  # the result belongs to the caller, also where it is the identity


def test_wrong_euler_orders_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="letters of X, Y and Z, got 'XYW'"):
        rotations.matrix_from_euler(np.zeros(3), "XYW")
    with pytest.raises(ValueError, match="expected 2 angles, got 3"):
        rotations.matrix_from_euler(np.zeros(3), "XY")


def test_continuous_quaternions_never_flip_and_stay_the_same_rotations(rng: np.random.Generator) -> None:
    time = np.linspace(0, 1, 200)[:, None, None]
    smooth = rotations.quaternion_from_axis_angle(axis_angles(rng, 1, 5) * 0.2 + time * rng.normal(size=(1, 5, 3)) * 9)
    flipped = smooth * rng.choice([-1.0, 1.0], (200, 5, 1))
    found = rotations.continuous_quaternions(flipped)
    assert np.all(np.sum(found[1:] * found[:-1], axis=-1) > 0)
    assert np.all(up_to_sign(found, flipped) == 0)
    np.testing.assert_array_equal(found[0], flipped[0])
    assert rotations.continuous_quaternions(flipped.astype(np.float32)).dtype == np.float32


def test_continuous_quaternions_of_one_or_no_frame_are_themselves() -> None:
    for frames in (0, 1):
        quaternion = np.ones((frames, 2, 4)) / 2
        np.testing.assert_array_equal(rotations.continuous_quaternions(quaternion), quaternion)


def test_slerp_starts_at_a_ends_at_b_and_moves_evenly(rng: np.random.Generator) -> None:
    a, b = axis_angles(rng, 50), axis_angles(rng, 50)
    matrices = [rotations.matrix_from_axis_angle(rotations.slerp(a, b, t)) for t in (0, 0.25, 0.5, 0.75, 1)]
    assert_close(matrices[0], rotations.matrix_from_axis_angle(a), within=ROUND_TRIP)
    assert_close(matrices[-1], rotations.matrix_from_axis_angle(b), within=ROUND_TRIP)
    steps = [rotations.geodesic_angle(p, q) for p, q in itertools.pairwise(matrices)]
    whole = rotations.geodesic_angle(matrices[0], matrices[-1])
    assert_close(steps, np.broadcast_to(whole / 4, (4, 50)), within=ROUND_TRIP)


def test_slerp_takes_the_short_way_round() -> None:
    middle = rotations.slerp(np.array([0, 0, 3.0]), np.array([0, 0, -3.0]), 0.5)
    assert_close(np.abs(middle), [0, 0, math.pi], within=ROUND_TRIP)


def test_slerp_of_quaternions_is_that_of_axis_angles(rng: np.random.Generator) -> None:
    a, b = axis_angles(rng, 50), axis_angles(rng, 50)
    b[:5] = a[:5] + 1e-6  # hardly apart
    quaternions = [rotations.quaternion_from_axis_angle(r) for r in (a, b)]
    for fraction in (0.0, 0.3, 1.0):
        found = rotations.quaternion_slerp(*quaternions, fraction)
        expected = rotations.matrix_from_axis_angle(rotations.slerp(a, b, fraction))
        assert_close(rotations.matrix_from_quaternion(found), expected, within=ROUND_TRIP)
        assert_close(np.linalg.norm(found, axis=-1), np.ones(50), within=EXACT)
    np.testing.assert_array_equal(rotations.quaternion_slerp(*quaternions, 0.0), quaternions[0])
    nearer = rotations.quaternion_slerp(quaternions[0], -quaternions[0], np.linspace(0, 1, 50)[:, None])
    assert_close(nearer, quaternions[0], within=ROUND_TRIP)


def test_slerp_takes_a_fraction_for_each_row() -> None:
    a, b = np.zeros((3, 3)), np.tile([0, 1.0, 0], (3, 1))
    found = rotations.slerp(a, b, np.array([[0.0], [0.25], [2.0]]))
    assert_close(found, [[0, 0, 0], [0, 0.25, 0], [0, 2, 0]], within=EXACT)


def test_sixd_survives_and_repairs_skewed_columns(rng: np.random.Generator) -> None:
    matrix = rotations.matrix_from_axis_angle(axis_angles(rng, 50))
    sixd = rotations.sixd_from_matrix(matrix)
    np.testing.assert_array_equal(sixd[:, :3], matrix[:, :, 0])
    np.testing.assert_array_equal(sixd[:, 3:], matrix[:, :, 1])
    assert_close(rotations.matrix_from_sixd(sixd), matrix, within=EXACT)
    skewed = np.concatenate([3 * sixd[:, :3], 0.1 * sixd[:, 3:] + 5 * sixd[:, :3]], axis=-1)
    assert_close(rotations.matrix_from_sixd(skewed), matrix, within=ROUND_TRIP)
    assert_close(rotations.matrix_from_sixd(1e-9 * sixd), matrix, within=EXACT)
    assert_rotations(rotations.matrix_from_sixd(rng.normal(size=(100, 6))), ROUND_TRIP)


@pytest.mark.parametrize(
    "sixd", [[0, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0], [1, 2, 3, -2, -4, -6], [0.1, 0.7, 0.3, 0.11, 0.77, 0.33]]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sixd_without_two_directions_is_refused(sixd: list[float], dtype: type) -> None:
    with pytest.raises(ValueError, match="two independent columns"):
        rotations.matrix_from_sixd(np.array(sixd, dtype))


def test_rotation_between_turns_one_direction_into_the_other_by_the_angle_between_them(
    rng: np.random.Generator,
) -> None:
    a, b = rng.normal(size=(2, 200, 3)) * rng.uniform(0.01, 100, (2, 200, 1))
    matrix = rotations.rotation_between(a, b)
    assert_rotations(matrix, EXACT)
    assert_close((matrix @ unit(a)[..., None])[..., 0], unit(b), within=EXACT)
    between = np.arctan2(np.linalg.norm(np.cross(unit(a), unit(b)), axis=-1), np.sum(unit(a) * unit(b), axis=-1))
    assert_close(rotations.geodesic_angle(matrix, np.eye(3)), between, within=ROUND_TRIP)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-9, 1e-7, 1e-5, 4e-5, 1e-3])
def test_rotation_between_is_exact_near_equal_and_near_opposite_directions(
    angle: float, dtype: type, rng: np.random.Generator
) -> None:
    a = np.concatenate([np.eye(3), -np.eye(3), unit(rng.normal(size=(50, 3)))])
    aside = unit(np.cross(a, unit(rng.normal(size=a.shape))))
    within = 1e-6 if dtype is np.float32 else EXACT
    for sign in (1, -1):
        b = sign * (a * math.cos(angle) + aside * math.sin(angle))
        matrix = rotations.rotation_between(a.astype(dtype), b.astype(dtype))
        assert_rotations(matrix, within)
        assert_close((matrix @ a[..., None])[..., 0], b, within=within)


def test_rotation_between_with_no_direction_is_no_rotation() -> None:
    for a, b in (
        (np.zeros(3), np.array([0, 1.0, 0])),
        (np.array([0, 1.0, 0]), np.zeros(3)),
        (np.zeros(3), np.zeros(3)),
    ):
        np.testing.assert_array_equal(rotations.rotation_between(a, b), np.eye(3))


def test_rotation_between_broadcasts_one_direction_over_many(rng: np.random.Generator) -> None:
    up, many = np.array([0, 0, 1.0]), rng.normal(size=(4, 5, 3))
    assert_close(
        rotations.rotation_between(many, up) @ unit(many)[..., None],
        np.broadcast_to(up[:, None], (4, 5, 3, 1)),
        within=EXACT,
    )


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-5, 1.0, math.pi - 1e-6, math.pi])
def test_the_geodesic_angle_is_the_angle_turned(angle: float, rng: np.random.Generator) -> None:
    start = rotations.matrix_from_axis_angle(axis_angles(rng, 30))
    turn = rotations.matrix_from_axis_angle(unit(rng.normal(size=(30, 3))) * angle)
    assert_close(rotations.geodesic_angle(start, turn @ start), angle, within=ROUND_TRIP)


def test_the_twist_of_swing_times_twist_is_the_twist(rng: np.random.Generator) -> None:
    axis = unit(rng.normal(size=3))
    sideways = unit(np.cross(axis, rng.normal(size=(100, 3))))
    swing = rotations.quaternion_from_axis_angle(sideways * rng.uniform(0, 3, (100, 1)))
    angle = rng.uniform(-math.pi, math.pi, 100)
    twist = rotations.quaternion_from_axis_angle(angle[:, None] * axis)
    rot = rotations.axis_angle_from_quaternion(rotations.quaternion_multiply(swing, twist))
    assert_close(rotations.twist_about(rot, axis), angle, within=ROUND_TRIP)


def test_a_pure_twist_is_signed_and_a_pure_swing_has_none() -> None:
    y = np.array([0, 1.0, 0])
    assert_close(rotations.twist_about(np.array([[0, 0.7, 0], [0, -0.7, 0]]), y), [0.7, -0.7], within=EXACT)
    assert_close(rotations.twist_about(np.array([[2.0, 0, 1], [math.pi, 0, 0], [0, 0, -3]]), y), 0, within=EXACT)
    assert_close(np.abs(rotations.twist_about(np.array([0, math.pi, 0]), y)), math.pi, within=EXACT)


def test_the_twist_of_a_turn_beyond_half_a_circle_is_the_short_one() -> None:
    y = np.array([0, 1.0, 0])
    assert_close(
        rotations.twist_about(np.array([[0, 4.0, 0], [0, -5.0, 0]]), y), [4 - math.tau, math.tau - 5], within=EXACT
    )


def test_a_half_turn_swing_has_no_twist_whatever_was_twisted_before() -> None:
    """There the twist is undefined; rounding must not make it a random angle."""
    swing = rotations.quaternion_from_axis_angle(np.array([math.pi, 0, 0]))
    twist = rotations.quaternion_from_axis_angle(np.array([0, 0.5, 0]))
    rot = rotations.axis_angle_from_quaternion(rotations.quaternion_multiply(swing, twist))
    assert rotations.twist_about(rot, np.array([0, 1.0, 0])) == 0
