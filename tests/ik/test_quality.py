# SPDX-License-Identifier: GPL-3.0-or-later
"""The quality suite and the honest card: what passes, what must fail, and that every figure is what it is called."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from conftest import make_poses, make_rig

from neural_network.core import forward_kinematics, rotations
from neural_network.core.skeleton import SkeletonMismatch
from neural_network.ik import baselines, batches, context, network, quality, task
from neural_network.ik.context import Samples
from neural_network.ik.losses import Truth
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.motion import pose_set, splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST, TRAIN, UNUSED, VALIDATION


@cache
def learned() -> tuple[Network, PoseSet, Samples, np.ndarray]:
    """A network that has learned its small body's motion well."""
    poses = make_poses(make_rig("tentacle"))
    samples, parts = context.prepare(poses), splits.split(poses)
    config = Training(hidden=(64,), epochs=80, augment=10, lr=0.01)
    net = task.fit(poses.skeleton, samples, parts, config)
    return replace(net, meta={"data": quality.describe_split(poses, parts, "block")}), poses, samples, parts


def suite_of(net: Network) -> dict[str, quality.Result]:
    _, poses, samples, parts = learned()
    return {r.name: r for r in quality.suite(net, samples, np.flatnonzero(parts == TEST), poses)}


# ---------------------------------------------------------------- the suite


def test_the_thresholds_are_those_of_the_contract() -> None:
    assert (quality.HOLDOUT_MOST, quality.INTERPOLATION_MOST, quality.NOISE_MOST, quality.NOISE) == (
        0.25,
        0.30,
        0.50,
        0.1,
    )
    assert (quality.FOLLOW_NOISE, quality.FOLLOW_ALL, quality.FOLLOW_EACH, quality.REFINE_STEPS) == (0.1, 0.8, 0.6, 3)


def test_a_network_that_has_learned_passes_all_five() -> None:
    found = suite_of(learned()[0])
    assert list(found) == ["Holdout (FK)", "Interpolation (FK)", "Consistency", "Noise robustness", "Follow"]
    assert all(r.passed for r in found.values()), found
    assert found == suite_of(learned()[0])  # the same figures twice
    assert found["Consistency"].score == 0


def test_zeroed_weights_fail() -> None:
    net = learned()[0]
    found = suite_of(replace(net, parameters=0 * net.parameters))
    assert not found["Follow"].passed
    assert found["Follow"].score == pytest.approx(0, abs=1e-6)
    assert found["Holdout (FK)"].score > 3 * suite_of(net)["Holdout (FK)"].score


def test_an_answer_that_ignores_its_question_fails_however_good_it_is() -> None:
    """The mean pose alone is within a quarter of a metre here: only Follow finds it out."""
    net = learned()[0]
    parameters = net.parameters.copy()
    (weights, _), (last, _) = network.layers(parameters, network.sizes(net.skeleton, net.layout, net.hidden))
    weights[...] = 0
    last[...] = 0
    found = suite_of(replace(net, parameters=parameters))
    assert not found["Follow"].passed
    assert found["Consistency"].passed
    assert found["Noise robustness"].score == 0


def test_one_effector_that_does_not_follow_fails_alone() -> None:
    """Both bounds count: the gain of all together, and of each."""
    poses = make_poses(make_rig("reference"), frames=30)
    samples, parts = context.prepare(poses), splits.split(poses)
    net = task.begin(poses.skeleton, samples, np.flatnonzero(parts == TRAIN), Training(hidden=(8,)))
    result = quality.suite(net, samples, np.flatnonzero(parts == TEST), poses)[-1]
    assert not result.passed
    assert any(name in result.sentence for name in ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head"))


def test_a_nervous_network_fails_the_noise_test() -> None:
    net = learned()[0]
    parameters = net.parameters.copy()
    (weights, _), (last, _) = network.layers(parameters, network.sizes(net.skeleton, net.layout, net.hidden))
    weights[...] *= 30
    last[...] *= 10
    assert not suite_of(replace(net, parameters=parameters))["Noise robustness"].passed


def test_a_network_that_changes_its_mind_fails_consistency(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(quality, "forward", lambda n, x: network.forward(n, x) + 1e-7 * rng.random())
    assert not suite_of(learned()[0])["Consistency"].passed


def test_a_card_without_pairs_to_go_between_is_still_json() -> None:
    """One test frame: nothing to interpolate, which counts as failed, and no NaN in a file."""
    net, poses, samples, parts = learned()
    alone = parts.copy()
    alone[np.flatnonzero(parts == TEST)[1:]] = UNUSED
    card = quality.figures([quality.measure(net, poses, alone, samples)], poses, "block")
    assert not card["tests"][1]["passed"]
    json.dumps(card, allow_nan=False)
    assert any("FAIL  Interpolation" in line for line in quality.text(card))


# ---------------------------------------------------------------- whose frames


def test_frames_are_recognised_by_content_wherever_they_stand() -> None:
    net, poses, _, parts = learned()
    np.testing.assert_array_equal(quality.parts_for(net, poses), parts)
    rows = np.concatenate([np.arange(poses.frames)[poses.rows(c)] for c in (2, 0)])
    other = pose_set.make(poses.skeleton, poses.rot[rows], poses.root_pos[rows], np.repeat([0, 1], 40), ["a", "b"])
    np.testing.assert_array_equal(quality.parts_for(net, other), parts[rows])
    fresh = make_poses(poses.skeleton, seed=99)
    np.testing.assert_array_equal(quality.parts_for(net, fresh), TEST)
    both = quality.parts_for(net, pose_set.join([poses, fresh]))
    np.testing.assert_array_equal(both, np.concatenate([parts, np.full(fresh.frames, TEST)]))


def test_nothing_unseen_and_another_rig_are_refused() -> None:
    net, poses, _, parts = learned()
    everything = np.where(parts == TEST, TRAIN, parts)
    trained = replace(net, meta={"data": quality.describe_split(poses, everything, "all")})
    with pytest.raises(ValueError, match="trained on every frame of this data: nothing unseen is left to test on"):
        quality.parts_for(trained, poses)
    with pytest.raises(SkeletonMismatch, match="the training data belongs to another skeleton"):
        quality.parts_for(net, make_poses(make_rig("creature")))


def test_a_split_is_remembered_as_runs() -> None:
    _, poses, _, parts = learned()
    found = quality.describe_split(poses, parts, "block")
    assert found["hash"] == poses.content_hash()
    assert found["split"] == "block"
    assert [c["name"] for c in found["clips"]] == list(poses.clip_names)
    runs = found["clips"][0]["parts"]
    assert runs == [[26, TRAIN], [3, UNUSED], [4, VALIDATION], [3, UNUSED], [4, TEST]]
    assert json.loads(json.dumps(found)) == found


# ---------------------------------------------------------------- the figures


def test_errors_are_what_they_are_called() -> None:
    """One elbow bent by 30 degrees: the hand moves by a chord, one bone of 22 is wrong, nothing else is."""
    rig = make_rig("reference")
    truth_rot = np.zeros((3, rig.count, 1))
    turns = rotations.matrix_components(truth_rot)
    turned, heads = forward_kinematics.forward_matrices(rig, turns, rig.offsets / rig.leg_length)
    zeros = np.zeros(1)
    targets = context.targets_of(rig, turned, heads, zeros, np.zeros((1, 2)), np.zeros((1, 2)), zeros, zeros)
    rot = truth_rot.copy()
    rot[2, rig.names.index("LeftForeArm")] = np.radians(30)
    found = quality.errors_of(rig, rot, targets, Truth(turns, heads)).figures()
    forearm = rig.offsets[rig.names.index("LeftHand")]
    chord = 2 * np.sin(np.radians(15)) * np.hypot(forearm[0], forearm[1])
    assert found["effector_mm"]["mean"] == pytest.approx(chord * 1000 / 5, rel=1e-6)
    assert found["effector_mm"]["p95"] == pytest.approx(np.percentile([chord * 1000, 0, 0, 0, 0], 95), rel=1e-6)
    assert found["mpjpe_mm"] == pytest.approx(chord * 1000 / 22, rel=1e-6)
    assert found["rotation_deg"] == pytest.approx(30 / 22, rel=1e-6)


def test_the_card_pools_the_frames_of_all_folds() -> None:
    net, poses, samples, parts = learned()
    test = np.flatnonzero(parts == TEST)
    first, second = parts.copy(), parts.copy()
    first[test[5:]] = UNUSED
    second[test[:5]] = UNUSED
    poor = replace(net, parameters=0.9 * net.parameters)
    measured = [quality.measure(n, poses, p, samples) for n, p in ((net, first), (poor, second))]
    card = quality.figures(measured, poses, "clip")
    parts_of = [m.errors["holdout"] for m in measured]
    every = np.concatenate([p.effector for p in parts_of if p is not None], axis=1)
    assert every.shape == (1, len(test))
    assert card["holdout"]["effector_mm"]["mean"] == pytest.approx(every.mean() * 1000)
    assert card["holdout"]["effector_mm"]["p95"] == pytest.approx(np.percentile(every, 95) * 1000)
    assert card["samples"]["test"] == len(test)
    assert card["samples"]["folds"] == 2
    by_name = {t["name"]: t for t in card["tests"]}
    for name in ("Holdout (FK)", "Noise robustness", "Follow"):
        scores = [next(r.score for r in m.tests if r.name == name) for m in measured]
        assert by_name[name]["score"] == (min if name == "Follow" else max)(scores)
        assert by_name[name]["passed"] == all(next(r.passed for r in m.tests if r.name == name) for m in measured)


def test_the_card_is_complete_and_reads_well() -> None:
    net, poses, samples, parts = learned()
    card = quality.figures([quality.measure(net, poses, parts, samples)], poses, "frame")
    json.dumps(card, allow_nan=False)
    rows = ("rest", "mean_pose", "nearest", "ridge", "classical_rest", "classical_mean")
    for figures in (card["holdout"], card["refined"], card["without_context"], *(card["baselines"][r] for r in rows)):
        assert {"effector_mm", "mpjpe_mm", "rotation_deg"} <= set(figures)
    assert card["refined"]["effector_mm"]["mean"] < 0.2 * card["holdout"]["effector_mm"]["mean"]
    assert card["holdout"]["effector_mm"]["mean"] < card["baselines"]["mean_pose"]["effector_mm"]["mean"] / 3
    lines = quality.text(card)
    assert sum(line.startswith(("PASS", "FAIL")) for line in lines) == 5
    assert any(line == "5 of 5 tests passed" for line in lines)
    assert any("LEAKY" in line for line in lines)


def test_frames_that_were_learned_are_never_scored() -> None:
    net, poses, samples, parts = learned()
    measured = quality.measure(net, poses, parts, samples)
    errors = measured.errors["holdout"]
    assert errors is not None
    assert errors.effector.shape[1] == np.sum(parts == TEST) == len(measured.clip)
    rot = samples.rot.copy()
    rot[parts != TEST] += 0.5
    again = quality.measure(net, poses, parts, replace(samples, rot=rot)).errors["holdout"]
    assert again is not None
    np.testing.assert_array_equal(again.effector, errors.effector)


def test_without_training_frames_the_baselines_that_need_them_are_missing() -> None:
    net, poses, samples, _ = learned()
    card = quality.figures([quality.measure(net, poses, np.full(poses.frames, TEST, np.int8), samples)], poses, "clip")
    assert card["baselines"]["nearest"] is None
    assert card["baselines"]["rest"]["effector_mm"]["mean"] > 0
    assert any("needs training frames" in line for line in quality.table(card))


def test_blinding_ground_phase_and_task_is_what_the_row_says() -> None:
    """A network that reads none of the three loses nothing without them."""
    net, _, samples, parts = learned()
    rows = np.flatnonzero(parts == TEST)
    columns = net.layout.columns(net.skeleton)
    blind = np.concatenate([columns["ground"], columns["phase"], columns["task"]])
    parameters = net.parameters.copy()
    (weights, _), _ = network.layers(parameters, network.sizes(net.skeleton, net.layout, net.hidden))
    weights[blind] = 0
    deaf = replace(net, parameters=parameters)
    targets, truth = batches.asked(net.layout, net.skeleton, samples, rows)
    expected = quality.predicted(deaf, targets, truth).effector
    np.testing.assert_allclose(quality.without_context(deaf, samples, rows).effector, expected, atol=1e-6)
    np.testing.assert_allclose(quality.without_context(net, samples, rows).effector, expected, atol=1e-6)


# ---------------------------------------------------------------- the plain answers


def test_the_nearest_frame_of_a_known_pose_is_itself() -> None:
    _, poses, samples, parts = learned()
    rows = np.flatnonzero(parts == TRAIN)
    posed, _, targets = batches.true_batch(poses.skeleton, samples, rows)
    rot, found = baselines.nearest(poses.skeleton, samples, rows, targets)
    np.testing.assert_array_equal(found, rows)
    apart = rotations.matrix_components(rot) - rotations.matrix_components(posed)
    assert np.abs(apart).max() < 1e-5


def test_the_plain_answers_take_the_hips_as_given() -> None:
    _, poses, samples, parts = learned()
    rig, rows = poses.skeleton, np.flatnonzero(parts == TEST)
    train, held = np.flatnonzero(parts == TRAIN), np.flatnonzero(parts == VALIDATION)
    _, _, targets = batches.true_batch(rig, samples, rows)
    model = baselines.fit_ridge(rig, samples, train, held)
    for rot in (
        baselines.rest(rig, targets),
        baselines.with_root(batches.mean_pose(samples, train), targets),
        baselines.nearest(rig, samples, train, targets)[0],
        baselines.ridge(rig, model, targets),
        baselines.classical(rig, baselines.rest(rig, targets), targets),
    ):
        assert rot.shape == (3, rig.count, len(rows))
        np.testing.assert_allclose(rotations.matrix_components(rot)[:, :, 0], targets.root, atol=1e-5)


def test_the_classical_solver_reaches_what_can_be_reached() -> None:
    _, poses, samples, parts = learned()
    rig = poses.skeleton
    _, _, targets = batches.true_batch(rig, samples, np.flatnonzero(parts == TEST))
    rot = baselines.classical(rig, baselines.rest(rig, targets), targets)
    assert np.median(batches.effector_distances(rig, rot, targets)) < 1e-4


def test_ridge_finds_a_linear_answer_that_is_there() -> None:
    """Small turns about the T-pose are nearly linear in the targets: ridge must then be nearly right."""
    poses = make_poses(make_rig("tentacle"), frames=60)
    rig = poses.skeleton
    samples = context.prepare(poses)
    small = replace(samples, rot=samples.rot * np.float32(0.05))
    rows = np.arange(poses.frames)
    _, _, targets = batches.true_batch(rig, small, rows[::7])
    ridge = baselines.ridge(rig, baselines.fit_ridge(rig, small, rows, rows[:0]), targets)
    errors = [batches.effector_distances(rig, r, targets).mean() for r in (ridge, baselines.rest(rig, targets))]
    assert errors[0] < 0.1 * errors[1]
