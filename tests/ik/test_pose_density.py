# SPDX-License-Identifier: GPL-3.0-or-later
"""How likely poses are: statistics, what is fused, steps in their metric, hypotheses, and answers with few targets."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GRADIENT, make_poses, make_rig, run_cli

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.ik import (
    batches,
    context,
    density,
    errors,
    likely_steps,
    network,
    pose_density,
    pose_statistics,
    quality,
    refinement,
    subsets,
    targets_file,
    task,
)
from neural_network.ik.drag_session import DragSession
from neural_network.ik.network import Network
from neural_network.ik.pose_density import PoseDensity
from neural_network.ik.pose_prior import BLOCK, NearFrames, Prior, key_of_one, keys, known_keys
from neural_network.ik.refinement import EffectorTargets
from neural_network.ik.settings import Training
from neural_network.ik.solver import Goals, Solver
from neural_network.learning import model_file
from neural_network.motion import splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST, TRAIN, VALIDATION


@cache
def learned(layout: str = "hips", **changes: Any) -> tuple[Network, PoseSet, context.Samples, np.ndarray]:
    """A network that has learned a made-up body's motion a little, with the statistics of its poses."""
    poses = make_poses(make_rig("reference"), frames=60)
    samples, parts = context.prepare(poses), splits.split(poses)
    config = Training(hidden=(48,), epochs=20, batch_size=32, augment=4, lr=0.01, layout=layout, **changes)
    return task.fit(poses.skeleton, samples, parts, config), poses, samples, parts


def made(bones: int = 5, frames: int = 40, seed: int = 0) -> PoseDensity:
    """A density of a body of so many bones, out of thin air."""
    rng = np.random.default_rng(seed)
    size = 3 * bones - 3

    def covariance() -> np.ndarray:
        root = rng.normal(0, 0.2, (size, size))
        return root @ root.T + 0.01 * np.eye(size)

    mean = rng.normal(0, 0.3, (bones, 3))
    mean[0] = 0
    pair = np.stack([covariance(), covariance()])
    return PoseDensity(mean, covariance(), pair, rng.normal(0, 0.3, (frames, bones, 3)), pair[::-1])


def asked(net: Network, samples: context.Samples, rows: np.ndarray) -> tuple[EffectorTargets, np.ndarray, np.ndarray]:
    """Targets of the frames ``rows``, the network's answers, and the true heads."""
    targets, truth = batches.asked(net.layout, net.skeleton, samples, rows)
    return EffectorTargets(targets.positions, targets.turned), batches.predict(net, targets)[0], truth.heads


# ---------------------------------------------------------------- statistics


def test_statistics_are_those_of_the_training_frames() -> None:
    net, _, samples, parts = learned()
    stats = net.density
    assert stats is not None
    train = np.flatnonzero(parts == TRAIN)
    turns = rotations.matrix_from_axis_angle(samples.rot[train].astype(np.float64))
    found = pose_density.deviations(turns, rotations.matrix_from_axis_angle(stats.mean))
    np.testing.assert_allclose(stats.mean[1:], batches.mean_pose(samples, train)[1:], atol=1e-6)
    takes = task.take_count(samples, train)
    anatomy = density.anatomy(net.skeleton)[3:, 3:] * pose_statistics.FEW / (pose_statistics.FEW + takes)
    expected = found.T @ found / len(found) + np.eye(found.shape[1]) * pose_statistics.LEAST**2 + anatomy
    np.testing.assert_allclose(stats.covariance, expected, atol=1e-6)
    assert len(stats.frames) == len(train)
    assert np.abs(stats.frames - samples.rot[train]).max() < 2e-3  # kept with eleven binary digits


def test_errors_are_measured_where_the_network_did_not_learn() -> None:
    net, _, samples, parts = learned()
    stats, held = net.density, np.flatnonzero(parts == VALIDATION)
    assert stats is not None
    targets, _ = batches.asked(net.layout, net.skeleton, samples, held)
    centre = rotations.matrix_from_axis_angle(stats.mean)
    truth = pose_density.deviations(rotations.matrix_from_axis_angle(samples.rot[held].astype(np.float64)), centre)
    for given, told in enumerate((batches.without_rotations(net.skeleton, targets), targets)):
        rot, _ = batches.predict(net, told, bool(given))
        answers = rotations.matrix_from_axis_angle(np.moveaxis(rot, (2, 1), (0, 1)).astype(np.float64))
        off = truth - pose_density.deviations(answers, centre)
        expected = off.T @ off / len(off) + np.eye(off.shape[1]) * pose_statistics.LEAST_ERROR**2
        np.testing.assert_allclose(stats.network_error[given], expected, atol=1e-5)


def test_few_takes_make_what_was_not_seen_possible() -> None:
    net, _, samples, parts = learned()
    train, held = (np.flatnonzero(parts == part) for part in (TRAIN, VALIDATION))
    one, many = (pose_statistics.fit(net, samples, train, held, takes) for takes in (1, 1000))
    added = np.linalg.eigvalsh(one.covariance - many.covariance)
    assert added.min() > 0  # every joint may do more


def test_a_network_of_free_hips_has_no_density() -> None:
    assert learned("free")[0].density is None


def test_a_model_file_holds_the_density_and_solves_alike(tmp_path: Path) -> None:
    net, _, samples, parts = learned()
    network.save(tmp_path / "a.npy", net)
    again = network.load(tmp_path / "a.npy")
    assert net.density is not None
    assert again.density is not None
    for name, array in vars(net.density).items():
        np.testing.assert_array_equal(getattr(again.density, name), array, err_msg=name)
    rows = np.flatnonzero(parts == TEST)
    for hypotheses in (1, 8, None):
        found = [
            errors.refined_errors(n, *batches.asked(n.layout, n.skeleton, samples, rows), hypotheses=hypotheses).joints
            for n in (net, again)
        ]
        np.testing.assert_allclose(found[0], found[1], atol=1e-7)


def test_weights_without_a_density_still_load_and_solve(tmp_path: Path) -> None:
    net, poses, samples, parts = learned()
    network.save(tmp_path / "older.npy", replace(net, density=None))
    older = Solver.load(tmp_path / "older.npy")
    assert older.net.density is None
    goals = targets_file.of_poses(poses, samples, np.flatnonzero(parts == TEST))
    assert older.solve_batch(goals, hypotheses=8).reached.mean() > 0.9


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("pose_covariance", lambda a: -a, "not symmetric, or not positive"),
        ("pose_covariance", lambda a: a + np.triu(np.ones_like(a), 1), "not symmetric, or not positive"),
        ("pose_network_error", lambda a: a[:1], "expected (2, 66, 66), got (1, 66, 66)"),
        ("pose_frames", lambda a: a[:, :3], "expected (36, 23, 3)"),
        ("pose_mean", lambda a: a * np.nan, "expected finite rotations"),
        ("pose_frames_error", lambda a: a * np.inf, "expected finite rotations"),
    ],
)
def test_a_damaged_density_is_refused_in_words(tmp_path: Path, name: str, change: Any, words: str) -> None:
    net, _, _, parts = learned()
    network.save(tmp_path / "a.npy", net)
    model = model_file.read(tmp_path / "a.npy", network.KIND)
    tensors = dict(model.tensors)
    tensors[name] = change(np.array(tensors[name], np.float32))
    model_file.write(tmp_path / "a.npy", replace(model, tensors=tensors))
    with pytest.raises(ValueError, match="not a sound weights file") as caught:
        network.load(tmp_path / "a.npy")
    assert words.replace("36", str(int(np.sum(parts == TRAIN)))) in str(caught.value)


def test_a_character_changes_pose_as_people_do_and_more_and_more_as_itself() -> None:
    net, poses, _, parts = learned()
    rig, people = net.skeleton, density.shipped(net.skeleton)
    assert people is not None
    assert net.density is not None
    own = density.changes_of(poses, np.flatnonzero(parts == TRAIN))
    assert own is not None
    for takes, share in ((1, 1 / 21), (20, 0.5), (980, 0.98)):
        found = density.of_character(rig, replace(net.density, takes=takes, changes=own))
        assert found is not None
        np.testing.assert_allclose(found, (1 - share) * people + share * own, atol=1e-12)
    unknown = density.of_character(rig, net.density)
    assert unknown is not None
    np.testing.assert_array_equal(unknown, people)
    assert density.of_character(make_rig("tentacle"), None) is None
    assert density.changes_of(poses, np.flatnonzero(parts == TRAIN)[:3]) is None  # no take is long enough


def test_drags_of_a_character_that_never_bends_its_spine_do_not() -> None:
    rig = make_rig("reference")
    stiff = density.shipped(rig)
    assert stiff is not None
    spine = [rig.names.index(name) for name in ("Spine", "Spine1", "Spine2")]
    rows = np.array([3 * j + c for j in spine for c in range(3)])
    stiff = stiff.copy()
    stiff[rows], stiff[:, rows] = 0, 0
    rest = rig.rest_arm[:, :3, 3]
    positions = rest[list(rig.effectors)].copy()
    positions[0] += [-0.2, -0.5, -0.5]
    bent = []
    for covariance in (None, stiff):
        session = DragSession(rig, covariance)
        for share in np.linspace(0.1, 1, 10):
            at = rest[list(rig.effectors)] + share * (positions - rest[list(rig.effectors)])
            found = session.solve(Goals(at, rest[0], np.zeros(3), weights=np.array([1.0, 0, 1, 1, 0])))
        bent.append(np.linalg.norm(found.rotations[spine], axis=1).sum())
    assert bent[1] < 0.7 * bent[0]


# ---------------------------------------------------------------- the prior


@pytest.mark.parametrize("sure", [1e-6, 1e6])
def test_a_sure_network_is_believed_and_an_unsure_one_is_not(sure: float) -> None:
    made_up = replace(made(), network_error=np.stack([np.eye(12) * sure] * 2))
    rig = make_rig("tentacle")
    prior = Prior(rig, made_up)
    answers = np.random.default_rng(1).normal(0, 0.2, (4, 12))
    off = prior.unlikely(answers, 1)  # from the likely pose, which is the answer itself or the mean
    np.testing.assert_allclose(off, 0 * answers if sure < 1 else answers, atol=1e-3)


def test_the_likely_pose_is_the_most_probable_one() -> None:
    """Bayes by hand: the pose that maximises the product of both normal densities."""
    made_up = made()
    prior, size = Prior(make_rig("tentacle"), made_up), 12
    answers = np.random.default_rng(1).normal(0, 0.2, (3, size))
    for given in (0, 1):
        a, b = np.linalg.inv(made_up.covariance), 0.3 * np.linalg.inv(made_up.network_error[given])
        likely = np.linalg.solve(a + b, b @ answers.T).T
        np.testing.assert_allclose(prior.unlikely(answers, given), answers - likely, atol=1e-10)
        np.testing.assert_allclose(prior.metric[given], np.linalg.inv(a + b), atol=1e-10)


def test_the_nearest_frame_of_a_kept_frame_is_itself() -> None:
    net, _, samples, parts = learned()
    assert net.prior is not None
    frames = net.prior.frames
    assert frames is not None
    rows = np.flatnonzero(parts == TRAIN)
    targets, _ = batches.asked(net.layout, net.skeleton, samples, rows)
    key = keys(targets.positions, targets.turned, targets.root)
    known = known_keys(np.ones((2, 5, len(rows))))
    alone = frames.mean_of(key, known, 1)
    np.testing.assert_allclose(alone, frames.deviations, atol=1e-9)
    several = frames.mean_of(key, known, 8)
    assert np.abs(several - alone).max() < np.abs(frames.deviations).max()  # the others weigh less the farther they are


def test_what_is_not_known_does_not_choose_frames() -> None:
    net, _, samples, parts = learned()
    assert net.prior is not None
    frames = net.prior.frames
    assert frames is not None
    rows = np.flatnonzero(parts == TEST)
    targets, _ = batches.asked(net.layout, net.skeleton, samples, rows)
    given = np.ones((2, 5, len(rows)))
    given[0, 1], given[1] = 0, 0
    key, known = keys(targets.positions, targets.turned, targets.root), known_keys(given)
    other = key.copy()
    other[:, 3:6] += 7
    other[:, 15:30] -= 3
    np.testing.assert_allclose(frames.mean_of(key, known, 4), frames.mean_of(other, known, 4), atol=1e-9)


def test_one_frame_of_a_block_at_most_is_a_hypothesis() -> None:
    net, _, samples, parts = learned()
    assert net.density is not None
    still = np.repeat(net.density.frames[:1], 3 * BLOCK, axis=0)  # a character that stands, then one pose elsewhere
    far = net.density.frames[-1:]
    frames = NearFrames(net.skeleton, replace(net.density, frames=np.concatenate([still, far])))
    rows = np.flatnonzero(parts == TRAIN)[:1]
    targets, _ = batches.asked(net.layout, net.skeleton, samples, rows)
    key, known = keys(targets.positions, targets.turned, targets.root), known_keys(np.ones((2, 5, 1)))
    np.testing.assert_allclose(frames.mean_of(key, known, 3), frames.deviations[:1], atol=1e-9)
    assert np.isfinite(frames.mean_of(key, known, 99)).all()  # more than there are


def test_keys_of_one_pose_are_those_of_many() -> None:
    net, _, samples, parts = learned()
    targets, _ = batches.asked(net.layout, net.skeleton, samples, np.flatnonzero(parts == TEST))
    many = keys(targets.positions, targets.turned, targets.root)
    for i, row in enumerate(many):
        turned = np.ascontiguousarray(targets.turned[..., i].transpose(2, 0, 1)).astype(np.float64)
        alone = key_of_one(
            targets.positions[..., i].astype(np.float64), turned, targets.root[..., i].astype(np.float64)
        )
        np.testing.assert_allclose(alone[0], row, atol=1e-5)


# ---------------------------------------------------------------- steps


@pytest.mark.parametrize("case", ["all", "positions", "some", "plane"])
def test_slopes_are_the_derivative_of_the_residual(case: str) -> None:
    rig = make_rig("turned")
    rng = np.random.default_rng(3)
    rot = rng.normal(0, 0.4, (3, rig.count, 2))
    own, bones = rig.offsets / rig.leg_length, list(rig.effectors)
    turns = rotations.matrix_components(rot)

    def ends(turns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        turned, heads = fk.forward_matrices(rig, turns, own)
        return turned, heads, heads[:, bones], turned[:, :, bones]

    turned, heads, places, sides = ends(turns)
    weight = np.ones((len(bones), 2))
    weight[1] = case != "some"
    normals = np.zeros_like(places)
    normals[:, 0] = np.array([0, 0.6, 0.8])[:, None]
    targets = EffectorTargets(  # at the pose itself: there the residual of a rotation is its rotation vector
        places,
        None if case == "positions" else sides,
        weight,
        weight,
        normals if case == "plane" else None,
    )
    aims = refinement.weighted_targets(targets, places, sides)
    slopes = likely_steps._slopes(rig, turned, heads, aims)
    step = 1e-3
    for k in range(0, slopes.shape[2], 5):
        found = []
        for way in (-2, -1, 1, 2):
            change = np.zeros_like(rot)
            change[:, 1:].transpose(2, 1, 0).reshape(2, -1)[:, k] = 0
            flat = np.zeros((2, slopes.shape[2]))
            flat[:, k] = way * step
            change[:, 1:] = flat.reshape(2, -1, 3).transpose(2, 1, 0)
            _, _, there, sides_there = ends(fk.compose_components(turns, rotations.matrix_components(change)))
            found.append(refinement.residual_of(aims, there, sides_there).transpose(2, 0, 1).reshape(2, -1))
        fourth = (found[0] - 8 * found[1] + 8 * found[2] - found[3]) / (12 * step)
        scale = np.abs(slopes).max()
        np.testing.assert_allclose(-slopes[:, :, k] / scale, fourth / scale, atol=50 * GRADIENT)


def test_a_step_leads_to_the_most_likely_pose_that_meets_the_targets_as_far_as_slopes_tell() -> None:
    """The constrained optimum: what is missing is made up, and the deviation is P J^T l for some l, so no other is likelier."""
    net, _, samples, parts = learned()
    rig = net.skeleton
    assert net.prior is not None
    targets, rot, _ = asked(net, samples, np.flatnonzero(parts == TEST)[:4])
    rot = rot.astype(np.float64)
    turns = rotations.matrix_components(rot)
    turned, heads = fk.forward_matrices(rig, turns, rig.offsets / rig.leg_length)
    bones = list(rig.effectors)
    near = heads[:, bones] + 0.01 * (targets.positions - heads[:, bones])
    asked_for = EffectorTargets(near)
    likely = likely_steps.proposal(net.prior, rot, asked_for, 1)
    likely = likely._replace(off=1e-3 * likely.off, most=9.0)
    found, _ = likely_steps._approach(rig, rot, asked_for, 1, likely, False)
    aims = refinement.weighted_targets(asked_for, heads[:, bones], turned[:, :, bones])
    slopes = likely_steps._slopes(rig, turned, heads, aims)
    missing = (near - heads[:, bones]).transpose(2, 1, 0).reshape(4, -1)
    apart = fk.compose_components(turns.swapaxes(0, 1), rotations.matrix_components(found))
    turn = rotations.axis_angle_components(apart)[:, 1:].transpose(2, 1, 0).reshape(4, -1, 3)
    angle = np.linalg.norm(turn, axis=2, keepdims=True)
    turn *= 2 * np.tan(0.5 * angle) / np.maximum(angle, 1e-12)  # of Cayley's rotation
    step = turn.reshape(4, -1)
    for i in range(4):
        np.testing.assert_allclose(slopes[i] @ step[i], missing[i], atol=3e-3 * np.abs(missing[i]).max())
        off, ways = likely.off[i] + step[i], likely.metric @ slopes[i].T
        force, *_ = np.linalg.lstsq(ways, off, rcond=None)
        np.testing.assert_allclose(ways @ force, off, atol=1e-6 * np.abs(off).max())


def test_steps_towards_the_likely_pose_end_nearer_to_the_truth() -> None:
    net, _, samples, parts = learned()
    rows = np.flatnonzero(parts == TEST)
    targets, truth = batches.asked(net.layout, net.skeleton, samples, rows)
    for told in (True, False):
        plain, ours = (errors.refined_errors(n, targets, truth, told) for n in (replace(net, density=None), net))
        assert ours.joints.mean() < plain.joints.mean()
        assert ours.effector.mean() < 1e-3


def test_near_frames_as_hypotheses_help_where_the_body_moves_as_it_did() -> None:
    net, _, samples, parts = learned()
    targets, truth = batches.asked(net.layout, net.skeleton, samples, np.flatnonzero(parts == TEST))
    one, eight = (errors.refined_errors(net, targets, truth, hypotheses=h) for h in (1, 8))
    assert eight.joints.mean() < one.joints.mean()


def test_few_takes_make_several_hypotheses_the_default() -> None:
    net, _, samples, parts = learned()
    assert net.density is not None
    targets, truth = batches.asked(net.layout, net.skeleton, samples, np.flatnonzero(parts == TEST))
    for takes, alike in ((3, 8), (300, 1)):
        own = replace(net, density=replace(net.density, takes=takes))
        found = [errors.refined_errors(own, targets, truth, hypotheses=h).joints for h in (None, alike)]
        np.testing.assert_array_equal(found[0], found[1])


def test_a_body_of_other_proportions_is_posed_without_the_network() -> None:
    """The same rotations on a body with arms and legs of other lengths: the network's guess would be of its own body."""
    net, poses, samples, parts = learned()
    rig, rows = net.skeleton, np.flatnonzero(parts == TEST)
    rest = rig.rest_arm.copy()
    for j in range(1, rig.count):
        longer = {"LeftForeArm": 1.2, "LeftHand": 1.2, "RightForeArm": 1.2, "RightHand": 1.2}.get(rig.names[j], 1.0)
        parent = rig.parents[j]
        rest[j, :3, 3] = rest[parent, :3, 3] + longer * (rig.rest_arm[j, :3, 3] - rig.rest_arm[parent, :3, 3])
    body = replace(rig, rest_arm=rest)
    goals = targets_file.of_poses(replace(poses, skeleton=body), samples, rows)
    true = fk.armature_matrices(body, poses.rot[rows].astype(float), poses.root_pos[rows].astype(float))[..., :3, 3]
    off = []
    for weights in (net, replace(net, density=None)):
        solver = Solver(weights, body)
        assert ("the network is not" in solver.warning) == (weights.density is not None)
        answer = solver.solve_batch(goals)
        heads = fk.armature_matrices(body, answer.rotations, answer.root_pos)[..., :3, 3]
        off.append(np.linalg.norm(heads - true, axis=-1).mean())
        alone = solver.solve(Goals(**{n: v[0] if isinstance(v, np.ndarray) else v for n, v in vars(goals).items()}))
        assert np.abs(np.sum(alone.quaternions * answer.quaternions[0], axis=-1)).min() > np.cos(1e-3)
    assert off[0] < off[1]


def test_a_step_that_would_lead_away_is_not_taken() -> None:
    net, _, samples, parts = learned()
    assert net.prior is not None
    targets, rot, _ = asked(net, samples, np.flatnonzero(parts == TEST))
    wrong = likely_steps.proposal(net.prior, rot, targets)._replace(metric=1e-9 * np.eye(66))  # a body that cannot move
    wrong = wrong._replace(off=wrong.off + 1.0)
    found, _ = likely_steps._approach(net.skeleton, rot, targets, 2, wrong, False)
    costs = []
    for pose in (rot, found):
        turned, heads = fk.forward_components(net.skeleton, pose, net.skeleton.offsets / net.skeleton.leg_length)
        ends = heads[:, list(net.skeleton.effectors)], turned[:, :, list(net.skeleton.effectors)]
        costs.append(refinement.cost_of(refinement.residual_of(refinement.weighted_targets(targets, *ends), *ends)))
    assert np.all(costs[1] <= costs[0] + 1e-6)


def test_joint_limits_hold_on_the_way_to_the_likely_pose() -> None:
    net, poses, samples, parts = learned()
    tight = np.tile(np.radians([-5.0, 5.0]), (net.skeleton.count, 3))
    rig = replace(net.skeleton, limits=tight)
    goals = targets_file.of_poses(poses, samples, np.flatnonzero(parts == TEST))
    found = Solver(replace(net, skeleton=rig), rig).solve_batch(goals, limits=True)
    core = rig.to_core(found.rotations)[:, 1:]
    assert np.degrees(np.linalg.norm(core, axis=2)).max() < 5.01 * np.sqrt(2)


# ---------------------------------------------------------------- few targets


def test_a_network_asked_without_rotations_takes_none() -> None:
    net, poses, samples, parts = learned()
    rows = np.flatnonzero(parts == TEST)
    targets, _ = batches.asked(net.layout, net.skeleton, samples, rows)
    other = replace(targets, turned=np.roll(targets.turned, 1, axis=-1))
    feet = [net.skeleton.effectors.index(f) for f in net.skeleton.feet]
    rot, _ = batches.predict(net, batches.without_rotations(net.skeleton, targets), False)
    flat = replace(other, heights=batches.without_rotations(net.skeleton, targets).heights)
    again, _ = batches.predict(net, flat, False)
    np.testing.assert_array_equal(rot, again)
    assert len(feet) == 2
    goals = replace(targets_file.of_poses(poses, samples, rows), rotations=None)
    turned = replace(
        goals, rotations=np.ones_like(goals.positions), orientation_weights=np.zeros(goals.positions.shape[:2])
    )
    a, b = (Solver(net).solve_batch(g, steps=0).quaternions for g in (goals, turned))
    assert np.abs(np.abs(np.sum(a * b, axis=-1)) - 1).max() < 1e-6  # of weight 0, a rotation is not given


def test_batches_without_rotations_are_what_makes_the_network_do_without() -> None:
    with_, without = learned(), learned(without_rotations=0.0)
    found = []
    for net, _, samples, parts in (with_, without):
        targets, truth = batches.asked(net.layout, net.skeleton, samples, np.flatnonzero(parts == TEST))
        told = batches.without_rotations(net.skeleton, targets)
        rot, _ = batches.predict(net, told, False)
        found.append(errors.errors_of(net.skeleton, rot, targets, truth).joints.mean())
    assert found[0] < found[1]


def test_with_some_targets_near_frames_answer_better_than_guesses_for_the_network() -> None:
    net, poses, samples, parts = learned()
    rows = np.flatnonzero(parts == TEST)
    goals = replace(targets_file.of_poses(poses, samples, rows), rotations=None)
    weights = np.zeros(goals.positions.shape[:2])
    weights[:, 0] = 1
    true = fk.armature_matrices(poses.skeleton, poses.rot[rows].astype(float), poses.root_pos[rows].astype(float))
    found = []
    for solver in (Solver(net), Solver(replace(net, density=None))):
        answer = solver.solve_batch(replace(goals, weights=weights), steps=6)
        heads = fk.armature_matrices(poses.skeleton, answer.rotations, answer.root_pos)
        assert answer.error.max() < 2e-3
        found.append(np.linalg.norm(heads[..., :3, 3] - true[..., :3, 3], axis=-1).mean())
    assert found[0] < found[1]


def test_mixed_goals_are_answered_as_each_alone() -> None:
    """Poses with all targets, without rotations, with some of them and with some positions, in one call."""
    net, poses, samples, parts = learned()
    rows = np.flatnonzero(parts == TEST)[:8]
    goals = targets_file.of_poses(poses, samples, rows)
    weights, turns = np.ones((2, *goals.positions.shape[:2]))
    turns[1::4], turns[2::4, :2], weights[3::4, 1:3] = 0, 0, 0
    goals = replace(goals, weights=weights, orientation_weights=turns)
    solver = Solver(net)
    for hypotheses in (1, 8):
        many = solver.solve_batch(goals, hypotheses=hypotheses)
        for i in range(len(rows)):
            alone = solver.solve(
                Goals(**{n: v[i] if isinstance(v, np.ndarray) else v for n, v in vars(goals).items()}),
                hypotheses=hypotheses,
                tolerance=0.0,
            )
            close = np.abs(np.sum(alone.quaternions * many.quaternions[i], axis=-1))
            assert close.min() > np.cos(1e-3), (hypotheses, i)


# ---------------------------------------------------------------- the card's rows, and the command


def test_rows_of_some_targets_say_what_was_given() -> None:
    net, poses, samples, parts = learned()
    train, test = (np.flatnonzero(parts == part) for part in (TRAIN, TEST))
    slow = replace(poses, clip_fps=np.full_like(poses.clip_fps, 4.0))  # half a second is two frames
    rows = subsets.measure(net, slow, samples, train, test)
    assert len(rows) == 6 * 4
    assert {row["given"] for row in rows} == {
        "one hand",
        "both hands",
        "hands + head",
        "feet + hand",
        "feet + hands",
        "all five",
    }
    for row in rows:
        values = row["mpjpe_mm"]
        assert (values["previous"] is None) == (row["start"] == "cold")
        assert all(np.isfinite(v) for v in values.values() if v is not None)
    by = {(r["given"], r["hips"], r["start"]): r["mpjpe_mm"]["ours"] for r in rows}
    assert by["all five", "given", "cold"] < by["one hand", "given", "cold"]
    assert by["one hand", "given", "cold"] < by["one hand", "free", "cold"]
    assert len(subsets.lines(rows)) == 2 + len(rows) + 1


def test_rows_of_some_targets_are_left_out_where_one_frame_could_be_judged() -> None:
    net, poses, samples, parts = learned()
    train, test = (np.flatnonzero(parts == part) for part in (TRAIN, TEST))
    slow = replace(poses, clip_fps=np.full_like(poses.clip_fps, 4.0))
    assert len(subsets._judged(slow, test[:3])[0]) == 1
    assert subsets.measure(net, slow, samples, train, test[:3]) == []


def test_rows_of_some_targets_of_several_folds_are_means_over_their_frames() -> None:
    row = {"given": "one hand", "hips": "given", "start": "cold"}
    folds = [
        [{**row, "frames": frames, "mpjpe_mm": {"ours": mm, "previous": None}}] for frames, mm in ((3, 10.0), (1, 30.0))
    ]
    (found,) = quality._pooled_subsets([folds[0], [], folds[1]])
    assert found == {**row, "frames": 4, "mpjpe_mm": {"ours": 15.0, "previous": None}}


def test_rows_of_some_targets_are_left_out_where_there_are_no_hands() -> None:
    poses = make_poses(make_rig("tentacle"), frames=60)
    samples, parts = context.prepare(poses), splits.split(poses)
    net = task.fit(poses.skeleton, samples, parts, Training(hidden=(8,), epochs=1))
    assert subsets.measure(net, poses, samples, np.flatnonzero(parts == TRAIN), np.flatnonzero(parts == TEST)) == []


def test_the_command_takes_hypotheses(tmp_path: Path) -> None:
    net, poses, samples, parts = learned()
    network.save(tmp_path / "w.npy", net)
    goals = targets_file.of_poses(poses, samples, np.flatnonzero(parts == TEST))
    np.savez(tmp_path / "in.npz", **{n: v for n, v in vars(goals).items() if v is not None})
    words = ["-m", "neural_network", "solve", "--weights", tmp_path / "w.npy", "--targets", tmp_path / "in.npz", "-o"]
    found = []
    for hypotheses in ("1", "8"):
        done = run_cli(*words, tmp_path / f"{hypotheses}.npz", "--hypotheses", hypotheses)
        assert done.returncode == 0, done.stderr
        found.append(np.load(tmp_path / f"{hypotheses}.npz")["rot"])
    expected = Solver(net).solve_batch(goals, hypotheses=8).rotations
    np.testing.assert_allclose(found[1], expected, atol=1e-6)
    assert np.abs(found[1] - found[0]).max() > 1e-3
    done = run_cli(*words, tmp_path / "x.npz", "--hypotheses", "0")
    assert done.returncode == 2
    done = run_cli(*words, tmp_path / "x.npz", "--session", "--hypotheses", "2")
    assert done.returncode == 2
    assert "--hypotheses: not with --session" in done.stderr
