# SPDX-License-Identifier: GPL-3.0-or-later
"""Every loss, alone and together, through decode and forward kinematics, against central differences in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import EXACT, FLOAT32, GRADIENT, make_rig, numeric_gradient, random_turns, relative_error, slow_except

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.core.skeleton import Skeleton
from neural_network.ik import augmentation, batches, losses
from neural_network.ik.context import LAYOUTS, Targets, targets_of
from neural_network.ik.losses import Truth
from neural_network.ik.settings import Losses

NOTHING = Losses(fk=0, orientation=0, contact=0, pose=0, joints=0, limits=0)
ALONE = {
    "fk": replace(NOTHING, fk=1.0),
    "fk with orientation": replace(NOTHING, fk=1.0, orientation=0.7),
    "contact": replace(NOTHING, contact=0.5),
    "pose": replace(NOTHING, pose=0.3),
    "joints": replace(NOTHING, joints=0.4),
    "limits": replace(NOTHING, limits=0.1),
    "together": Losses(fk=1.0, orientation=0.1, contact=0.5, pose=0.3, joints=0.2, limits=0.1),
}
REGIMES = ("any", "zero", "near pi")


def turned_by(regime: str, rng: np.random.Generator, count: int, bones: int) -> np.ndarray:
    """Rotations (3, J, N) of one kind."""
    rot = random_turns(rng, count, bones, below=2.0)
    if regime == "zero":
        rot[:, ::2] = 0
    elif regime == "near pi":
        rot[:, ::2] *= (np.pi - 0.01) / np.linalg.norm(rot[:, ::2], axis=-1, keepdims=True)
    return batches.components(rot)


def problem(
    rig: Skeleton, layout: str, regime: str, rng: np.random.Generator, count: int = 1
) -> tuple[np.ndarray, Targets, Truth]:
    """Outputs (N, O), the targets asked for, and the true pose that meets them."""
    truth = true_pose(rig, batches.components(random_turns(rng, count, rig.count, below=1.0)))
    grounded = rng.integers(0, 2, (count, len(rig.feet))).astype(float)
    grounded[0] = 1
    outputs = turned_by(regime, rng, count, rig.count).transpose(2, 1, 0).reshape(count, -1)
    targets = met_by(rig, truth, grounded)
    if LAYOUTS[layout].free_root:
        outputs = np.concatenate([outputs, rng.normal(size=(count, 3))], axis=1)
        targets = replace(targets, root=rotations.matrix_components(rng.normal(size=(3, count))))
        truth = replace(truth, shift=rng.normal(size=(3, count)))
    return outputs, targets, truth


def true_pose(rig: Skeleton, rot: np.ndarray) -> Truth:
    return Truth(rotations.matrix_components(rot), fk.forward_components(rig, rot, rig.offsets / rig.leg_length)[1])


def met_by(rig: Skeleton, truth: Truth, grounded: np.ndarray) -> Targets:
    turned, heads = fk.forward_matrices(rig, truth.turns, rig.offsets / rig.leg_length)
    zeros = np.zeros(len(grounded))
    return targets_of(rig, turned, heads, zeros, grounded, grounded, zeros, zeros)


def weighted(values: dict[str, float], weights: Losses) -> float:
    """The sum whose gradient is taken: the orientation stands inside the FK term, the root's place inside the pose's."""
    scale = {**vars(weights), "orientation": weights.fk * weights.orientation, "root": weights.pose}
    return sum(scale[name] * value for name, value in values.items())


def cast(values: Targets | Truth, kind: type) -> dict[str, np.ndarray | None]:
    return {name: None if v is None else v.astype(kind) for name, v in vars(values).items()}


@pytest.mark.parametrize("layout", slow_except(["reference", "free"], "reference"))
@pytest.mark.parametrize("regime", slow_except(REGIMES, "any"))
@pytest.mark.parametrize("name", slow_except(ALONE, *list(ALONE)[:-1]))
def test_gradients_agree_with_central_differences(
    name: str, regime: str, layout: str, rng: np.random.Generator
) -> None:
    rig, weights = make_rig("reference"), ALONE[name]
    outputs, targets, truth = problem(rig, layout, regime, rng, count=2 if (name, regime) == ("together", "any") else 1)

    def value(at: np.ndarray) -> float:
        return weighted(losses.total(LAYOUTS[layout], rig, at, targets, truth, weights)[0], weights)

    _, gradient = losses.total(LAYOUTS[layout], rig, outputs, targets, truth, weights)
    assert np.any(gradient)
    assert relative_error(gradient, numeric_gradient(value, outputs, 3e-4)) <= GRADIENT


@pytest.mark.parametrize("name", slow_except(["a_pose", "turned", "creature", "tentacle"], "tentacle"))
def test_gradients_agree_on_every_rig(name: str, rng: np.random.Generator) -> None:
    rig, layout, weights = make_rig(name), LAYOUTS["free"], Losses(joints=0.2, orientation=1.0)
    outputs, targets, truth = problem(rig, "free", "any", rng)

    def value(at: np.ndarray) -> float:
        return weighted(losses.total(layout, rig, at, targets, truth, weights)[0], weights)

    _, gradient = losses.total(layout, rig, outputs, targets, truth, weights)
    assert relative_error(gradient, numeric_gradient(value, outputs, 3e-4)) <= GRADIENT


@pytest.mark.slow
def test_bodies_of_random_proportions_have_exact_gradients_too(rng: np.random.Generator) -> None:
    rig, layout = make_rig("reference"), LAYOUTS["reference"]
    weights = Losses(pose=0, limits=0, joints=0.3)
    outputs, targets, truth = problem(rig, "reference", "any", rng, count=2)
    other = replace(truth, offsets=augmentation.random_proportions(rig, 0.3, 2, rng).astype(np.float64))

    def value(at: np.ndarray) -> float:
        return weighted(losses.total(layout, rig, at, targets, other, weights)[0], weights)

    values, gradient = losses.total(layout, rig, outputs, targets, other, weights)
    assert relative_error(gradient, numeric_gradient(value, outputs, 3e-4)) <= GRADIENT
    assert values["fk"] != losses.total(layout, rig, outputs, targets, truth, weights)[0]["fk"]


@pytest.mark.parametrize("layout", ["reference", "free"])
@pytest.mark.parametrize("name", ALONE)
def test_float32_agrees_with_float64(name: str, layout: str, rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    outputs, targets, truth = problem(rig, layout, "any", rng, count=64)
    # poses as they are in training: an angle error of half a turn is a kink, where no digits are left
    near = rotations.axis_angle_components(truth.turns).transpose(2, 1, 0).reshape(64, -1)
    outputs = outputs.astype(np.float32)
    outputs[:, : 3 * rig.count] = near + rng.normal(size=near.shape) * 0.2
    targets, truth = Targets(**cast(targets, np.float32)), Truth(**cast(truth, np.float32))
    values, gradient = losses.total(LAYOUTS[layout], rig, outputs, targets, truth, ALONE[name])
    targets, truth = Targets(**cast(targets, np.float64)), Truth(**cast(truth, np.float64))
    wide_values, wide = losses.total(LAYOUTS[layout], rig, outputs.astype(np.float64), targets, truth, ALONE[name])
    assert gradient.dtype == np.float32
    assert relative_error(gradient, wide) <= FLOAT32
    for key, value in values.items():
        assert value == pytest.approx(wide_values[key], rel=FLOAT32)


def test_a_perfect_pose_costs_nothing_and_pulls_nowhere(rng: np.random.Generator) -> None:
    rig, layout = make_rig("reference"), LAYOUTS["reference"]
    rot = batches.components(random_turns(rng, 3, rig.count, below=0.05))
    truth = true_pose(rig, rot)
    outputs = rot.transpose(2, 1, 0).reshape(3, -1)
    values, gradient = losses.total(
        layout, rig, outputs, met_by(rig, truth, np.ones((3, 2))), truth, Losses(joints=1.0)
    )
    assert len(values) == 6
    assert all(v < 1e-9 for v in values.values()), values
    assert np.isfinite(gradient).all()  # a norm has no slope at zero: what rounding leaves there may be anything small
    smooth = Losses(fk=0.0, joints=0.0)
    assert (
        np.abs(losses.total(layout, rig, outputs, met_by(rig, truth, np.ones((3, 2))), truth, smooth)[1]).max() < 1e-9
    )


def test_the_values_are_what_their_names_say(rng: np.random.Generator) -> None:
    """Each figure again, pose by pose and bone by bone, in plain words."""
    rig, layout = make_rig("reference"), LAYOUTS["reference"]
    outputs, targets, truth = problem(rig, "reference", "any", rng, count=3)
    values, _ = losses.total(layout, rig, outputs, targets, truth, Losses(joints=1.0))
    true_rot = rotations.axis_angle_components(truth.turns)
    found: dict[str, list[float]] = {name: [] for name in values}
    for n in range(3):
        rot, true = outputs[n].reshape(-1, 3).copy(), true_rot[:, :, n].T
        rot[0] = true[0]  # the Hips are as given
        turned, heads = fk.forward(rig, rot)
        true_turned, true_heads = fk.forward(rig, true)
        length = rig.leg_length
        for e in rig.effectors:
            found["fk"].append(np.linalg.norm(heads[e] - true_heads[e]) / length)
            found["orientation"].append(rotations.geodesic_angle(turned[e], true_turned[e]))
        for k, foot in enumerate(rig.feet):
            apart = (heads[foot] - true_heads[foot]) / length
            found["contact"].append(targets.grounded[k, n] * (apart[2] ** 2 + apart @ apart))
        for j in range(1, rig.count):
            angle = rotations.geodesic_angle(*(rotations.matrix_from_axis_angle(r[j]) for r in (rot, true)))
            found["pose"].append(1 - np.cos(angle))
            found["joints"].append(np.linalg.norm(heads[j] - true_heads[j]) / length)
    for name in ("fk", "orientation", "contact", "pose", "joints"):
        assert values[name] == pytest.approx(np.mean(found[name]), rel=1e-9), name


def test_a_term_of_weight_zero_is_not_computed(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    outputs, targets, truth = problem(rig, "reference", "any", rng)
    values, gradient = losses.total(LAYOUTS["reference"], rig, outputs, targets, truth, NOTHING)
    assert values == {}
    np.testing.assert_array_equal(gradient, 0)
    only, _ = losses.total(LAYOUTS["reference"], rig, outputs, targets, truth, ALONE["pose"])
    assert list(only) == ["pose"]


def test_losses_change_none_of_their_arguments(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    outputs, targets, truth = problem(rig, "free", "any", rng, count=3)
    kept = outputs.copy(), cast(targets, np.float64), cast(truth, np.float64)
    losses.total(LAYOUTS["free"], rig, outputs, targets, truth, Losses(joints=1.0))
    np.testing.assert_array_equal(outputs, kept[0])
    for before, now in zip(kept[1:], (targets, truth), strict=True):
        for name, array in before.items():
            if array is not None:
                np.testing.assert_array_equal(getattr(now, name), array)


def test_the_hips_outputs_are_ignored_unless_the_root_is_free(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    outputs, targets, truth = problem(rig, "reference", "any", rng)
    other = outputs.copy()
    other[:, :3] += 1
    first, gradient = losses.total(LAYOUTS["reference"], rig, outputs, targets, truth, Losses())
    second, _ = losses.total(LAYOUTS["reference"], rig, other, targets, truth, Losses())
    assert first == second
    np.testing.assert_array_equal(gradient[:, :3], 0)


# ---------------------------------------------------------------- joint limits

CONE = np.radians([[-30.0, 60, -20, 40, -10, 25]])  # X swing, twist, Z swing


def excess(*rot: float) -> tuple[float, float]:
    over_swing, over_twist, _, _ = losses.limit_excess(np.radians(np.array(rot))[:, None, None], CONE)
    return float(np.degrees(over_swing[0, 0])), float(np.degrees(over_twist[0, 0]))


@pytest.mark.parametrize(
    ("rot", "swing", "twist"),
    [
        ((0, 0, 0), 0, 0),
        ((59, 0, 0), 0, 0),
        ((70, 0, 0), 10, 0),
        ((-29, 0, 0), 0, 0),
        ((-40, 0, 0), 10, 0),
        ((0, 0, 24), 0, 0),
        ((0, 0, 35), 10, 0),
        ((0, 0, -15), 5, 0),
        ((0, 39, 0), 0, 0),
        ((0, 55, 0), 0, 15),
        ((0, -50, 0), 0, 30),
    ],
)
def test_limits_are_a_swing_cone_and_a_twist_range(rot: tuple[float, ...], swing: float, twist: float) -> None:
    assert excess(*rot) == pytest.approx((swing, twist), abs=1e-6)


def test_between_two_axes_the_cone_is_an_ellipse() -> None:
    direction = np.array([60.0, 0, 25]) / np.sqrt(2)  # on the ellipse of half-widths 60 and 25
    assert excess(*direction * 0.999)[0] == 0
    assert excess(*direction * 1.1)[0] == pytest.approx(0.1 * np.linalg.norm(direction), rel=1e-6)


def test_swing_and_twist_are_told_apart(rng: np.random.Generator) -> None:
    """A swing inside the cone, turned further about the bone, exceeds by the twist alone."""
    swing = rotations.matrix_from_axis_angle(np.radians([40.0, 0, 5]))
    for degrees in (-100, -30, 50, 120):
        twist = rotations.matrix_from_axis_angle(np.radians([0.0, degrees, 0]))
        rot = np.degrees(rotations.axis_angle_from_matrix(swing @ twist))
        assert excess(*rot) == pytest.approx((0, max(degrees - 40, -20 - degrees)), abs=1e-6)


def test_a_long_way_round_is_judged_as_the_short_one(rng: np.random.Generator) -> None:
    axis = rng.normal(size=(3, 20, 1))
    axis /= np.linalg.norm(axis, axis=0)
    limits = np.tile(CONE, (20, 1))
    long, short = (losses.limit_excess(axis * angle, limits)[:2] for angle in (4.0, 4.0 - 2 * np.pi))
    np.testing.assert_allclose(long, short, atol=1e-9)


def test_bones_without_limits_cost_nothing(rng: np.random.Generator) -> None:
    creature, rig = make_rig("creature"), make_rig("reference")
    wild = batches.components(random_turns(rng, 3, creature.count))
    assert losses.joint_limits(creature, wild)[0] == 0
    rot = np.zeros((3, rig.count, 1))
    rot[:, 0] = 3.0  # the Hips have none
    value, gradient = losses.joint_limits(rig, rot)
    assert value == 0
    np.testing.assert_array_equal(gradient, 0)


def test_effector_shares_weight_the_distance() -> None:
    positions = np.zeros((3, 2, 1))
    targets = np.zeros((3, 2, 1))
    targets[0, 0], targets[1, 1] = 3, 4
    value, force = losses.effector_distance(positions, targets, np.array([[0.25], [0.75]]))
    assert value == pytest.approx(0.25 * 3 + 0.75 * 4, abs=EXACT)
    np.testing.assert_allclose(force[:, :, 0].T, [[-0.25, 0, 0], [0, -0.75, 0]], atol=EXACT)
