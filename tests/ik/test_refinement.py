# SPDX-License-Identifier: GPL-3.0-or-later
"""Refinement: exact where it can be, closest where it cannot, never worse than where it began, and inside the limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import RIGS, make_rig, random_turns, slow_except

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.core.skeleton import Skeleton
from neural_network.ik import batches, refinement
from neural_network.ik.losses import limit_excess
from neural_network.ik.refinement import EffectorTargets, Refined

REACHED = 1e-5
"""[leg lengths] float32 over a chain of ten bones, a hundredth of a millimetre."""


def posed(rig: Skeleton, rot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotations (3, 3, E, N) and heads (3, E, N) [leg lengths] of the effectors."""
    turned, heads = fk.forward_components(rig, rot, rig.offsets / rig.leg_length)
    ends = list(rig.effectors)
    return turned[:, :, ends], heads[:, ends]


def problem(
    rig: Skeleton, rng: np.random.Generator, count: int = 40, apart: float = 0.3
) -> tuple[np.ndarray, EffectorTargets, np.ndarray]:
    """A start (3, J, N), targets that the pose nearby meets, and that pose; float32, the same Hips."""
    start = batches.components(random_turns(rng, count, rig.count, below=1.0))
    truth = start + apart * rng.normal(size=start.shape) / np.sqrt(3)
    truth[:, 0] = start[:, 0]
    turned, heads = posed(rig, truth.astype(np.float32))
    return start.astype(np.float32), EffectorTargets(heads, turned), truth.astype(np.float32)


def cost(rig: Skeleton, found: Refined, targets: EffectorTargets) -> np.ndarray:
    """(N) what refinement makes small: squared distances, and squared chords 2 sin(t/2) of orientations."""
    ends = list(rig.effectors)
    total = np.sum((found.heads[:, ends] - targets.positions) ** 2, axis=(0, 1))
    if targets.orientations is not None:
        trace = np.einsum("aben,aben->en", found.orientations[:, :, ends], targets.orientations)
        total = total + np.sum(np.maximum(3 - trace, 0), axis=0)
    return total


@pytest.mark.parametrize("orientations", [True, False])
@pytest.mark.parametrize("name", RIGS)
def test_a_pose_nearby_is_reached_exactly(name: str, orientations: bool, rng: np.random.Generator) -> None:
    rig = make_rig(name)
    start, targets, _ = problem(rig, rng)
    targets = targets if orientations else replace(targets, orientations=None)
    found = refinement.refine(rig, start, targets, 12)
    assert np.median(found.distance) < REACHED
    assert np.percentile(found.distance, 90) < 1e-3
    turned, heads = posed(rig, found.rot)
    np.testing.assert_allclose(heads, found.heads[:, list(rig.effectors)], atol=REACHED)
    np.testing.assert_allclose(turned, found.orientations[:, :, list(rig.effectors)], atol=REACHED)
    if orientations:
        angles = rotations.geodesic_angle(
            np.moveaxis(turned, (0, 1), (-2, -1)), np.moveaxis(targets.orientations, (0, 1), (-2, -1))
        )
        assert np.median(angles) < 1e-4


def test_one_step_is_the_damped_minimum_norm_solution(rng: np.random.Generator) -> None:
    """The Jacobian that is never built, built here: J^T (J J^T + damping)^-1 e, in float64, one pose at a time."""
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng, count=3, apart=0.02)
    start = start.astype(np.float64)
    targets = EffectorTargets(targets.positions.astype(np.float64), targets.orientations.astype(np.float64))
    found = refinement.refine(rig, start, targets, 1)
    offsets, ends = rig.offsets / rig.leg_length, np.array(rig.effectors)
    turned, heads = fk.forward_components(rig, start, offsets)
    for n in range(3):
        jacobian = fk.effector_jacobian(rig, heads[:, :, n].T, ends)
        jacobian[..., 0, :] = 0  # the Hips stay
        flat = jacobian.reshape(len(ends) * 6, -1)
        missing = np.zeros((len(ends), 6))
        missing[:, :3] = (targets.positions[:, :, n] - heads[:, ends, n]).T
        for k, end in enumerate(ends):
            log = rotations.axis_angle_from_matrix(targets.orientations[:, :, k, n] @ turned[:, :, end, n].T)
            angle = np.linalg.norm(log)
            missing[k, 3:] = log * 2 * np.sin(angle / 2) / angle
        damping = refinement.DAMPING_FLOOR + refinement.DAMPING_SHARE * np.sum(missing**2)
        delta = flat.T @ np.linalg.solve(flat @ flat.T + damping * np.eye(len(flat)), missing.ravel())
        moved = np.zeros((rig.count, 3, 3))
        for j, turn in enumerate(delta.reshape(-1, 3)):  # about the world's axes: into the parent's
            parent = np.eye(3) if rig.parents[j] < 0 else turned[:, :, rig.parents[j], n]
            own = rotations.matrix_from_axis_angle(start[:, j, n])
            moved[j] = rotations.matrix_from_axis_angle(parent.T @ turn) @ own
        expected = rotations.axis_angle_from_matrix(moved)
        step = np.abs(expected - start[:, :, n].T).max()
        assert step > 1e-3
        assert np.abs(found.rot[:, :, n].T - expected).max() < 1e-3 * step


@pytest.mark.slow
@pytest.mark.parametrize("free_root", [False, True])
@pytest.mark.parametrize("orientations", [True, False])
@pytest.mark.parametrize("name", slow_except(RIGS, "turned"))
def test_it_is_never_worse_than_where_it_began(
    name: str, orientations: bool, free_root: bool, rng: np.random.Generator
) -> None:
    rig = make_rig(name)
    # beyond some 165 degrees an orientation's residual grows shorter again, so those are left out
    start, targets, _ = problem(rig, rng, count=100, apart=0.4 if orientations else 1.5)
    scale = 10 ** rng.uniform(-1, 1.5, 100).astype(np.float32)  # from nearby to far out of reach
    targets = EffectorTargets(targets.positions * scale, targets.orientations if orientations else None)
    before = cost(rig, refinement.refine(rig, start, targets, 0, free_root=free_root), targets)
    for steps in (1, 2, 3, 20):
        after = cost(rig, refinement.refine(rig, start, targets, steps, free_root=free_root), targets)
        assert np.isfinite(after).all()
        assert np.all(after <= before * (1 + 1e-5) + 1e-6)
        before = after
    # and by a good deal better where there is something to be had
    first = cost(rig, refinement.refine(rig, start, targets, 0, free_root=free_root), targets)
    assert np.median(before / first) < 0.9


def test_no_steps_change_nothing(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng)
    found = refinement.refine(rig, start, targets, 0)
    turns = rotations.matrix_components(start)
    np.testing.assert_allclose(rotations.matrix_components(found.rot), turns, atol=REACHED)
    np.testing.assert_array_equal(found.shift, 0)


@pytest.mark.slow
def test_a_target_out_of_reach_ends_stretched_towards_it_without_trembling(rng: np.random.Generator) -> None:
    """The left hand is wanted three metres to the left of the shoulder; everything else is free."""
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng, count=10)
    hand = 0
    goal = targets.positions.copy()
    goal[:, hand] = np.array([3.0, 0, 0.5], np.float32)[:, None]
    only = np.zeros(goal.shape[1:], np.float32)
    only[hand] = 1
    far = EffectorTargets(goal, None, only)
    distances = np.array(
        [refinement.refine(rig, start, far, s).distance[hand] for s in (0, 1, 2, 4, 8, 16, 32, 64, 65)]
    )
    assert np.all(np.diff(distances, axis=0) <= 1e-6)
    np.testing.assert_allclose(distances[-1], distances[-2], atol=1e-3)  # it has come to rest
    found = refinement.refine(rig, start, far, 200)
    end = found.heads[:, [rig.names.index(n) for n in ("LeftArm", "LeftForeArm", "LeftHand")]]
    upper, lower = end[:, 1] - end[:, 0], end[:, 2] - end[:, 1]
    cosine = np.sum(upper * lower, axis=0) / np.linalg.norm(upper, axis=0) / np.linalg.norm(lower, axis=0)
    assert cosine.min() > 0.99  # a straight arm


def test_coincident_targets_and_targets_on_a_joint_give_no_nan(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng)
    for point in (np.zeros(3), np.array([0.2, 0.1, -0.4])):
        together = np.broadcast_to(point.astype(np.float32)[:, None, None], targets.positions.shape)
        found = refinement.refine(rig, start, EffectorTargets(together, targets.orientations), 10)
        for array in vars(found).values():
            assert np.isfinite(array).all()


@pytest.mark.slow
def test_the_hips_stay_unless_they_are_free(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng)
    fixed = refinement.refine(rig, start, targets, 5)
    np.testing.assert_allclose(fixed.rot[:, 0], start[:, 0], atol=REACHED)
    np.testing.assert_array_equal(fixed.shift, 0)
    higher = replace(targets, positions=targets.positions + np.float32([[[0]], [[0]], [[0.5]]]))
    free = refinement.refine(rig, start, higher, 30, free_root=True)
    assert free.shift[2].mean() > 0.2
    assert free.distance.mean() < 0.5 * refinement.refine(rig, start, higher, 30).distance.mean()


def test_a_shift_given_is_where_it_begins(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng, count=4)
    shift = np.full((3, 4), 0.25, np.float32)
    found = refinement.refine(rig, start, replace(targets, positions=targets.positions + 0.25), 12, shift=shift)
    np.testing.assert_array_equal(found.shift, shift)
    assert np.median(found.distance) < REACHED


def test_free_effectors_are_left_alone_and_half_weights_go_half_way(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng, apart=0.15)
    _, heads = posed(rig, start)
    weight = np.ones(targets.positions.shape[1:], np.float32)
    weight[0], weight[3] = 0.5, 0
    found = refinement.refine(rig, start, replace(targets, orientations=None, position_weight=weight), 20)
    _, reached = posed(rig, found.rot)
    half = heads[:, 0] + 0.5 * (targets.positions[:, 0] - heads[:, 0])
    assert np.median(np.linalg.norm(reached[:, 0] - half, axis=0)) < 10 * REACHED
    assert np.median(np.linalg.norm(reached[:, 1] - targets.positions[:, 1], axis=0)) < 10 * REACHED
    nobody = refinement.refine(
        rig, start, replace(targets, position_weight=0 * weight, orientation_weight=0 * weight), 5
    )
    np.testing.assert_allclose(posed(rig, nobody.rot)[1], heads, atol=REACHED)


def test_a_free_orientation_is_free(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng)
    zero = np.zeros(targets.positions.shape[1:], np.float32)
    with_none = refinement.refine(rig, start, replace(targets, orientations=None), 5)
    with_zero = refinement.refine(rig, start, replace(targets, orientation_weight=zero), 5)
    np.testing.assert_allclose(with_zero.rot, with_none.rot, atol=1e-3)


def test_a_foot_on_a_plane_may_slide(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng)
    foot = list(rig.effectors).index(rig.feet[0])
    normals = np.zeros_like(targets.positions)
    normal = np.array([0.0, 0.6, 0.8])
    normals[:, foot] = normal[:, None]
    goal = targets.positions.copy()
    goal[0, foot] += 0.4  # along the plane: costs nothing
    found = refinement.refine(rig, start, EffectorTargets(goal, None, normals=normals), 15)
    _, reached = posed(rig, found.rot)
    above = normal @ (reached[:, foot] - goal[:, foot])
    assert np.median(np.abs(above)) < REACHED
    assert np.median(np.linalg.norm(reached[:, foot] - goal[:, foot], axis=0)) > 0.2
    others = [k for k in range(5) if k != foot]
    assert np.median(np.linalg.norm(reached[:, others] - goal[:, others], axis=0)) < 10 * REACHED


# ---------------------------------------------------------------- limits


def excess(rig: Skeleton, rot: np.ndarray) -> np.ndarray:
    """(2, K, N) [rad] beyond swing and twist."""
    assert rig.limits is not None
    bones = np.flatnonzero(np.isfinite(rig.limits).all(axis=1))
    local = np.einsum("jba,bjn->ajn", rig.basis[bones], rot[:, bones].astype(np.float64))
    return np.array(limit_excess(local, rig.limits[bones])[:2])


def test_clamping_brings_every_joint_inside_and_leaves_the_rest(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    rot = batches.components(random_turns(rng, 200, rig.count)).astype(np.float32)
    assert excess(rig, rot).max() > 1
    inside = refinement.clamp(rig, rot)
    assert excess(rig, inside).max() <= 1e-3
    np.testing.assert_allclose(refinement.clamp(rig, inside), inside, atol=2e-3)
    np.testing.assert_array_equal(inside[:, 0], rot[:, 0])
    fine = np.all(excess(rig, rot) == 0, axis=0)
    np.testing.assert_array_equal(inside[:, 1:][:, fine], rot[:, 1:][:, fine])
    assert refinement.clamp(make_rig("creature"), rot[:, :15]) is not None  # without limits, as it is


def test_clamping_keeps_what_is_allowed_of_swing_and_twist() -> None:
    """A shin bent too far keeps its direction; one twisted too far keeps its bend."""
    rig = make_rig("reference")
    assert rig.limits is not None
    shin = rig.names.index("LeftShin")
    rot = np.zeros((3, rig.count, 2))
    too_far = rotations.matrix_from_axis_angle(np.radians([-100.0, 0, 0])) @ rotations.matrix_from_axis_angle(
        np.radians([0, 40.0, 0])
    )
    allowed = rotations.matrix_from_axis_angle(np.radians([-100.0, 0, 0])) @ rotations.matrix_from_axis_angle(
        np.array([0, rig.limits[shin, 3], 0])
    )
    rot[:, shin, 0] = rig.basis[shin] @ rotations.axis_angle_from_matrix(too_far)
    rot[:, shin, 1] = rig.basis[shin] @ np.radians([-175.0, 0, 0])
    found = refinement.clamp(rig, rot)
    np.testing.assert_allclose(
        rig.basis[shin].T @ found[:, shin, 0], rotations.axis_angle_from_matrix(allowed), atol=1e-6
    )
    np.testing.assert_allclose(rig.basis[shin].T @ found[:, shin, 1], [rig.limits[shin, 0], 0, 0], atol=1e-6)


@pytest.mark.parametrize("name", ["reference", "turned"])
def test_with_limits_every_step_ends_inside_them(name: str, rng: np.random.Generator) -> None:
    rig = make_rig(name)
    start, targets, _ = problem(rig, rng, count=60, apart=1.0)
    for steps in (0, 1, 3, 10):
        found = refinement.refine(rig, start, targets, steps, limits=True)
        assert excess(rig, found.rot).max() <= 1e-3
    free = refinement.refine(rig, start, targets, 10)
    assert excess(rig, free.rot).max() > 0.1


@pytest.mark.slow
def test_inside_the_limits_too_a_step_that_makes_it_worse_is_not_taken(rng: np.random.Generator) -> None:
    """Cutting a step back to the limits can undo more than the step gained."""
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng, count=200, apart=1.5)
    targets = replace(targets, orientations=None)
    before = cost(rig, refinement.refine(rig, start, targets, 0, limits=True), targets)
    for steps in (1, 2, 3, 5, 8):
        after = cost(rig, refinement.refine(rig, start, targets, steps, limits=True), targets)
        assert np.all(after <= before * (1 + 1e-5) + 1e-6)
        before = after


def test_refining_changes_none_of_its_arguments(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, targets, _ = problem(rig, rng)
    weight = np.full(targets.positions.shape[1:], 0.5, np.float32)
    targets = replace(
        targets, position_weight=weight, orientation_weight=weight, normals=np.zeros_like(targets.positions)
    )
    kept = start.copy(), {name: np.array(value) for name, value in vars(targets).items()}
    refinement.refine(rig, start, targets, 3, limits=True, free_root=True)
    np.testing.assert_array_equal(start, kept[0])
    for name, value in kept[1].items():
        np.testing.assert_array_equal(getattr(targets, name), value)


def test_offsets_stand_in_for_the_skeletons_own(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    start, _, truth = problem(rig, rng)
    longer = 1.2 * rig.offsets / rig.leg_length
    turned, heads = fk.forward_components(rig, truth, longer)
    ends = list(rig.effectors)
    found = refinement.refine(rig, start, EffectorTargets(heads[:, ends], turned[:, :, ends]), 12, offsets=longer)
    assert np.median(found.distance) < REACHED
