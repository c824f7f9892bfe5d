# SPDX-License-Identifier: GPL-3.0-or-later
"""Slopes of drag conditions against finite differences, the body's shape, and the covariance of pose changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neural_network.core import rotations
from neural_network.core import skeleton as skeletons
from neural_network.core.reference_rig import EFFECTORS, FEET, reference
from neural_network.ik import batches, density, hinges, network
from neural_network.ik import drag as drags
from neural_network.ik.body_shape import closest_points, convex_hull, make_shape, outside_hull
from neural_network.ik.command import DATA, WEIGHTS
from neural_network.ik.context import LAYOUTS, prepare
from neural_network.ik.drag import Drag
from neural_network.ik.drag_conditions import Aims, DragSettings, Rows, skew_products
from neural_network.ik.quick_limits import JointLimits
from neural_network.ik.refinement import clamp
from neural_network.ik.solver import Solver
from neural_network.motion import pose_set, splits

RIG = reference()


def moving(rng: np.random.Generator) -> pose_set.PoseSet:
    """Two clips of smooth random motion, and one of a single frame."""
    t = np.linspace(0, 4, 121)
    waves = rng.normal(0, 0.3, (2, RIG.count, 3))
    rot = np.concatenate(
        [np.sin(t[:, None, None] * 2 + n) * waves[n] for n in range(2)] + [np.zeros((1, RIG.count, 3))]
    )
    root = np.tile(RIG.rest_arm[0, :3, 3], (len(rot), 1))
    root[:121, 1] -= t
    return pose_set.make(RIG, rot, root, np.repeat([0, 1, 2], [121, 121, 1]), ["a", "b", "c"], clip_fps=[30, 30, 30])


# ---------------------------------------------------------------- slopes


@pytest.mark.parametrize("seed", range(4))
def test_slopes_agree_with_finite_differences(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of places, dragged targets, floor, parts and the trunk. What a body stands on counts as fixed, so balance has no exact slope;
    turns and joint limits have one where nothing is missing, see the tests after this."""
    monkeypatch.setattr(hinges, "FLEXED", -np.inf)  # slopes at the pose itself
    rng = np.random.default_rng(seed)
    settings = DragSettings(limits=None, balance=None, lean_back=-1.5, most_tilted=-1.5, most_folded=-1.5)
    root = RIG.rest_arm[0, :3, 3] - [0, 0, 0.25]
    drag = Drag(RIG, rng.normal(0, 0.2, (RIG.count, 3)), root, settings=settings)
    change = rng.normal(0, 0.1, 3 * RIG.count + 3)
    pose = drag._pose(change)
    bones = [*RIG.effectors, 0]
    targets = pose.heads[bones] + rng.normal(0, 0.02, (6, 3))
    weights, none = np.append(np.ones(5), 0), np.zeros(6)
    moved = np.array([True, False, False, True, False, False])
    aims = Aims(targets, pose.orientations[bones], weights, none, moved, none > 0, none > 0)
    drag._conditions.begin(aims, drag._start, 1.0)

    def rows(at: np.ndarray) -> Rows:
        there, found, _ = drag._look(drag._pose(at), at, np.zeros_like(at))
        return drag._conditions.rows(there, there.heads, found)

    base = rows(change)
    slopes = skew_products(base.arms, base.ways, drags._carried(pose.orientations, change))
    way, step = rng.normal(0, 1, len(change)), 1e-6
    way[:3] = 0  # the Hips' facing counts as fixed
    after, before = rows(change + step * way).missing, rows(change - step * way).missing
    assert len(after) == len(before) == len(base.missing)
    assert base.one_sided.sum() >= 4
    np.testing.assert_allclose(slopes @ way, -(after - before) / (2 * step), rtol=1e-4, atol=1e-5)


def test_slopes_of_orientations_agree_with_finite_differences_where_they_are_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hinges, "FLEXED", -np.inf)
    rng = np.random.default_rng(3)
    off = dict.fromkeys(("limits", "floor", "apart", "balance", "upright", "tilted", "folded"))
    drag = Drag(RIG, rng.normal(0, 0.2, (RIG.count, 3)), RIG.rest_arm[0, :3, 3], settings=DragSettings(**off))
    change = rng.normal(0, 0.1, 3 * RIG.count + 3)
    pose, bones, none = drag._pose(change), [*RIG.effectors, 0], np.zeros(6)
    kept = np.array([1.0, 0, 1, 0, 1, 1])
    aims = Aims(pose.heads[bones], pose.orientations[bones], none, kept, none > 0, kept > 0, none > 0)
    drag._conditions.begin(aims, drag._start, 0.0)

    def rows(at: np.ndarray) -> Rows:
        there, found, _ = drag._look(drag._pose(at), at, np.zeros_like(at))
        return drag._conditions.rows(there, there.heads, found)

    base, way, step = rows(change), rng.normal(0, 1, len(change)), 1e-5
    slopes = skew_products(base.arms, base.ways, drags._carried(pose.orientations, change))
    change_of = (rows(change + step * way).missing - rows(change - step * way).missing) / (2 * step)
    turns = np.flatnonzero(np.abs(base.ways).sum(axis=1) == 0)
    assert len(turns) == 12
    np.testing.assert_allclose((slopes @ way)[turns], -change_of[turns], rtol=1e-3, atol=1e-5)


def test_the_slope_of_balance_is_that_of_the_centre_of_mass() -> None:
    rng = np.random.default_rng(0)
    drag = Drag(RIG, rng.normal(0, 0.1, (RIG.count, 3)), RIG.rest_arm[0, :3, 3], settings=DragSettings(sway=-10.0))
    change = rng.normal(0, 0.1, 3 * RIG.count + 3)
    conditions, mass = drag._conditions, make_shape(RIG).mass
    none = np.zeros(6)
    conditions.begin(Aims(*drag._start, none, none, none > 0, none > 0, none > 0), drag._start, 1e3)
    pose, found, _ = drag._look(drag._pose(change), change, np.zeros_like(change))
    assert found.outside > 5  # it presses whatever the pose
    rows = conditions.rows(pose, pose.heads, found)
    ways = np.array([[*found.stands.way, 0.0]])
    arms = conditions.balance_arms(pose.heads, ways)
    assert any(np.array_equal(row, arms[0]) for row in rows.arms)
    slopes = skew_products(arms, ways, drags._carried(pose.orientations, change))
    way, step = rng.normal(0, 1, len(change)), 1e-6
    moved = [mass @ drag._pose(change + sign * step * way).heads for sign in (1, -1)]
    np.testing.assert_allclose(slopes[0] @ way, ways[0] @ (moved[0] - moved[1]) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_slopes_of_joint_limits_agree_with_finite_differences_at_the_limit(seed: int) -> None:
    """Where a bone is far within or beyond, its distance is to first order only, and so is the slope."""
    rng, limits = np.random.default_rng(seed), JointLimits(RIG)
    found = []
    for _ in range(400):
        turns = rotations.matrix_from_axis_angle(rng.normal(0, 0.6, (RIG.count, 3)))
        beyond = limits.beyond(turns)
        near = np.flatnonzero(np.abs(beyond.distance) < 0.004)
        way, step = rng.normal(0, 1, (RIG.count, 3)), 1e-6
        after, before = (
            limits.beyond(rotations.matrix_from_axis_angle(sign * step * way) @ turns).distance for sign in (1, -1)
        )
        slope = np.einsum("nc,nc->n", limits.outward(beyond, near), way[limits.bones[near]])
        found += list(slope - (after - before)[near] / (2 * step))
    assert len(found) > 100
    assert np.percentile(np.abs(found), 90) < 0.05
    assert np.median(np.abs(found)) < 1e-3


def test_a_flexed_elbow_a_little_out_of_its_plane_is_a_little_beyond_its_limit() -> None:
    """Along the ray to the middle of its range it would have to be stretched by many degrees."""
    elbow = RIG.names.index("LeftForeArm")
    bone = np.flatnonzero(JointLimits(RIG).bones == elbow)[0]
    assert RIG.limits is not None
    swing = RIG.basis[elbow] @ np.array([np.radians(60), 0, 1.3 * RIG.limits[elbow, 5]])
    turns = np.tile(np.eye(3), (RIG.count, 1, 1))
    turns[elbow] = rotations.matrix_from_axis_angle(swing)
    found = JointLimits(RIG)
    assert np.degrees(found.beyond(turns).distance[bone]) == pytest.approx(
        0.3 * np.degrees(RIG.limits[elbow, 5]), abs=1.5
    )
    assert np.degrees(found.excess(turns).angle.max()) > 10


@pytest.mark.parametrize("seed", range(3))
def test_quick_joint_limits_are_those_of_the_training(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rot = rng.normal(0, 0.8, (RIG.count, 3))
    turns = rotations.matrix_from_axis_angle(rot)
    excess = JointLimits(RIG).excess(turns)
    inside = clamp(RIG, rot.T[:, :, None])[:, :, 0].T
    bones = np.flatnonzero(rotations.geodesic_angle(rotations.matrix_from_axis_angle(inside), turns) > 1e-6)
    assert 5 < len(bones) < RIG.count
    np.testing.assert_array_equal(excess.bones, bones)
    back = rotations.matrix_from_axis_angle(excess.back) @ turns[bones]
    np.testing.assert_allclose(back, rotations.matrix_from_axis_angle(inside[bones]), atol=1e-6)
    np.testing.assert_allclose(excess.angle, np.linalg.norm(excess.back, axis=1), atol=1e-12)
    assert not len(JointLimits(replace(RIG, limits=None)).excess(turns).bones)


def test_the_step_that_changes_carry_is_the_right_jacobian() -> None:
    rng = np.random.default_rng(0)
    change = np.append(rng.normal(0, 1, 3 * RIG.count), np.zeros(3))
    carried = drags._carried(np.tile(np.eye(3), (RIG.count, 1, 1)), change)
    vectors, step = change[:-3].reshape(-1, 3), 1e-6
    way = rng.normal(0, 1, vectors.shape)
    now = rotations.matrix_from_axis_angle(vectors)
    later = rotations.matrix_from_axis_angle(vectors + step * way)
    turned = rotations.axis_angle_from_matrix(now.swapaxes(-1, -2) @ later) / step
    np.testing.assert_allclose(np.einsum("jab,jb->ja", carried, way), turned, atol=1e-4)


# ---------------------------------------------------------------- shape


def test_masses_add_up_and_sides_are_alike() -> None:
    shape = make_shape(RIG)
    assert shape.mass.sum() == pytest.approx(1)
    for left, right in (("LeftThigh", "RightThigh"), ("LeftArm", "RightArm")):
        assert shape.mass[RIG.names.index(left)] == shape.mass[RIG.names.index(right)] > 0
    assert RIG.names[shape.chest] == "Spine2"
    assert len(shape.hinges) == 4


def test_the_rest_pose_stands_on_its_floor_apart_and_in_balance() -> None:
    shape = make_shape(RIG)
    turns = np.tile(np.eye(3), (RIG.count, 1, 1))
    heads = RIG.rest_core[:, :3, 3] / RIG.leg_length
    points, parts = shape.places(turns, heads)
    assert (points[:, 2] - shape.point_clearance).min() > -0.001
    assert shape.gaps(parts).gap.min() > 0
    assert shape.balance(points, heads, 0.0)[0] < 0


def test_a_foot_with_its_toes_up_carries_as_much() -> None:
    shape = make_shape(RIG)
    heads = RIG.rest_core[:, :3, 3] / RIG.leg_length
    turns = np.tile(np.eye(3), (RIG.count, 1, 1))
    turns[RIG.names.index("RightToeBase")] = rotations.matrix_from_axis_angle(np.array([-0.6, 0, 0]))
    points, _ = shape.places(turns, heads)
    heel, tip = shape.soles[list(RIG.feet).index(RIG.names.index("RightFoot"))]
    raised = points.copy()
    raised[tip, 2] += 0.1
    over = heads - heads[RIG.names.index("Hips")] * [1, 0, 0] + [points[heel, 0], 0, 0]  # above the right foot
    assert shape.balance(raised, over, 0.0).distance == pytest.approx(
        shape.balance(points, over, 0.0).distance, abs=0.01
    )
    raised[heel, 2] += 0.15  # the whole foot
    assert shape.balance(raised, over, 0.0).distance > shape.balance(points, over, 0.0).distance + 0.05


def test_nearest_points_of_segments_are_nearer_than_any_sampled() -> None:
    rng = np.random.default_rng(1)
    a, b, c, d = rng.normal(0, 1, (4, 200, 3))
    first, second = closest_points(a, b, c, d)
    found = np.linalg.norm(first - second, axis=1)
    t = np.linspace(0, 1, 33)[:, None, None]
    x, y = a + t * (b - a), c + t * (d - c)
    sampled = np.linalg.norm(x[:, None] - y[None], axis=-1).min(axis=(0, 1))
    assert (found <= sampled + 1e-9).all()
    assert (found >= sampled - 0.1).all()


def test_a_hull_has_its_corners_only_and_knows_inside_from_outside() -> None:
    corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.5, 0.5), (0.5, 0.0)]
    assert len(convex_hull(corners)) == 4
    outside, way, at_corner, edges = outside_hull((2.0, 0.5), corners)
    assert outside == pytest.approx(1)
    assert way == pytest.approx((-1, 0))
    assert not at_corner
    assert sorted(beyond for beyond, _, _ in edges) == pytest.approx([-2, -0.5, -0.5])
    outside, way, at_corner, _ = outside_hull((2.0, 2.0), corners)
    assert outside == pytest.approx(np.sqrt(2))
    assert at_corner
    inside, way, at_corner, edges = outside_hull((0.9, 0.4), corners)
    assert inside == pytest.approx(-0.1)
    assert way == pytest.approx((-1, 0))
    assert not at_corner
    for beyond, x, y in edges:  # each way leads from its edge inwards
        assert outside_hull((0.9 + x * beyond, 0.4 + y * beyond), corners).distance == pytest.approx(0, abs=1e-9)
    assert outside_hull((0.5, 1.0), corners[:2]).distance == pytest.approx(1)  # a line
    assert outside_hull((0.5, 1.0), []) == (0.0, (0.0, 0.0), False, [])


# ---------------------------------------------------------------- density


def test_pose_changes_of_the_mirrored_motion_have_the_same_covariance() -> None:
    covariance = density.change_covariance(moving(np.random.default_rng(0)), np.random.default_rng(1))
    mirror = density.mirror_matrix(RIG)
    np.testing.assert_allclose(mirror @ covariance @ mirror.T, covariance, atol=1e-12)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9


def test_pose_changes_know_no_heading() -> None:
    poses = moving(np.random.default_rng(0))
    turn = rotations.matrix_from_axis_angle(np.array([0, 0, 1.1]))
    rest = RIG.rest_arm[0, :3, :3]
    hips = rotations.matrix_from_axis_angle(poses.rot[:, 0].astype(float))
    rot = poses.rot.astype(float)
    rot[:, 0] = rotations.axis_angle_from_matrix(rest.T @ turn @ rest @ hips)
    other = pose_set.make(RIG, rot, poses.root_pos @ turn.T, poses.clip, poses.clip_names, clip_fps=poses.clip_fps)
    a, b = (density.change_covariance(p, np.random.default_rng(1)) for p in (poses, other))
    np.testing.assert_allclose(a, b, atol=2e-5)


def test_motion_without_a_change_is_refused() -> None:
    still = pose_set.make(RIG, np.zeros((1, RIG.count, 3)), np.zeros((1, 3)), np.zeros(1, int), ["one"])
    with pytest.raises(ValueError, match="expected a clip longer"):
        density.change_covariance(still, np.random.default_rng(0))


def test_anatomy_leaves_no_joint_frozen() -> None:
    widened = density.with_anatomy(RIG, None)
    assert np.linalg.eigvalsh(widened).min() > np.radians(2) ** 2


def test_the_weights_for_people_hold_statistics_of_many_takes_and_acknowledge_them() -> None:
    net = network.load(density.SHIPPED)
    people = net.meta["people"]
    assert people["takes"] >= 10
    assert "mocap.cs.cmu.edu" in people["acknowledgement"]
    assert density.SHIPPED.stat().st_size < 5_000_000
    assert density.shipped(RIG) is not None


def test_the_weights_for_people_hold_no_pose_but_the_shipped_clips() -> None:
    net, ours = network.load(density.SHIPPED), prepare(pose_set.load(DATA))
    assert net.density is not None
    assert len(net.density.frames)
    known = {row.tobytes() for row in ours.rot.astype(np.float16)}
    assert all(row.tobytes() in known for row in net.density.frames.astype(np.float16))
    of_meter = {net.meta["meter"]["clips"][clip] for clip, _ in net.meta["meter"]["frames"]}
    assert of_meter <= set(pose_set.load(DATA).clip_names)


def test_bodies_of_other_proportions_are_posed_better_by_the_weights_for_people_than_by_those_of_one_body() -> None:
    rest = RIG.rest_arm.copy()
    for side in ("Left", "Right"):
        arm, hand = RIG.names.index(side + "ForeArm"), RIG.names.index(side + "Hand")
        rest[hand, :3, 3] += 0.3 * (rest[hand, :3, 3] - rest[arm, :3, 3])
    body = skeletons.make(RIG.names, RIG.parents, rest, EFFECTORS, FEET, RIG.t_pose, RIG.limits)
    poses = pose_set.load(DATA)
    samples = prepare(poses)
    rows = np.flatnonzero(splits.split(poses) == splits.TEST)[::4]
    asked, _ = batches.asked(LAYOUTS["hips"], body, samples, rows)
    errors = []
    for path in (density.SHIPPED, WEIGHTS):
        net = replace(network.load(path), skeleton=body)
        errors.append(batches.effector_distances(body, batches.predict(net, asked)[0], asked).mean())
    assert errors[0] < errors[1]
    assert not Solver(network.load(density.SHIPPED), body).warning
    assert "differ" in Solver(network.load(WEIGHTS), body).warning


@pytest.mark.parametrize("damage", ["shape", "asymmetric", "negative", "nan"])
def test_damaged_pose_changes_are_refused(tmp_path: Path, damage: str) -> None:
    changes = density.with_anatomy(RIG, None)
    if damage == "shape":
        changes = changes[:-1]
    elif damage == "asymmetric":
        changes[0, 1] += 1
    elif damage == "negative":
        changes -= np.eye(len(changes))
    else:
        changes[3, 3] = np.nan
    net, path = network.load(WEIGHTS), tmp_path / "damaged.npy"
    assert net.density is not None
    network.save(path, replace(net, density=replace(net.density, changes=changes)))
    with pytest.raises(ValueError, match=r"damaged\.npy.*(pose_changes|finite)"):
        network.load(path)
