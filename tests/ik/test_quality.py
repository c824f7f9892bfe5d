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
from neural_network.ik import baselines, batches, context, errors, network, quality, task
from neural_network.ik.context import LAYOUTS, Samples
from neural_network.ik.errors import Errors
from neural_network.ik.losses import Truth
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.learning import card as cards
from neural_network.learning.card import Verdict
from neural_network.motion import pose_set, splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST, TRAIN, UNUSED, VALIDATION


@cache
def learned() -> tuple[Network, PoseSet, Samples, np.ndarray]:
    """A network that has learned its small body's motion well."""
    poses = make_poses(make_rig("tentacle"))
    samples, parts = context.prepare(poses), splits.split(poses)
    config = Training(hidden=(64,), epochs=40, augment=10, lr=0.01)
    net = task.fit(poses.skeleton, samples, parts, config)
    return replace(net, meta={"data": quality.describe_split(poses, parts, "block")}), poses, samples, parts


def measured() -> quality.Measured:
    """All of the card, for :func:`learned`."""
    net, poses, samples, parts = learned()
    return quality.measure(net, poses, parts, samples)


def suite_of(net: Network) -> dict[str, Verdict]:
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


@pytest.mark.slow
def test_a_network_that_has_learned_passes_all_six() -> None:
    found = {r.name: r for r in measured().tests}
    assert list(found) == ["Holdout (FK)", "Interpolation (FK)", "Consistency", "Noise robustness", "Follow", "Natural"]
    assert all(r.passed for r in found.values()), found
    assert list(found.values()) == measured().tests  # the same figures twice
    assert found["Consistency"].score == 0


@pytest.mark.slow
def test_zeroed_weights_fail() -> None:
    net = learned()[0]
    found = suite_of(replace(net, parameters=0 * net.parameters))
    assert not found["Follow"].passed
    assert found["Follow"].score == pytest.approx(0, abs=1e-6)
    assert found["Holdout (FK)"].score > 3 * suite_of(net)["Holdout (FK)"].score


@pytest.mark.slow
def test_an_answer_that_ignores_its_question_fails_however_good_it_is() -> None:
    """The mean pose alone is within a quarter of a metre here: only Follow finds it out."""
    net = learned()[0]
    parameters = net.parameters.copy()
    (weights, _), (last, _) = network.stack(replace(net, parameters=parameters)).layers
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


@pytest.mark.slow
def test_a_nervous_network_fails_the_noise_test() -> None:
    net = learned()[0]
    parameters = net.parameters.copy()
    (weights, _), (last, _) = network.stack(replace(net, parameters=parameters)).layers
    weights[...] *= 30
    last[...] *= 10
    assert not suite_of(replace(net, parameters=parameters))["Noise robustness"].passed


def test_a_network_that_changes_its_mind_fails_consistency(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(quality, "forward", lambda n, x: network.forward(n, x) + 1e-7 * rng.random())
    assert not suite_of(learned()[0])["Consistency"].passed


@pytest.mark.slow
def test_a_card_without_pairs_to_go_between_is_still_json() -> None:
    """One test frame: nothing to interpolate, which counts as failed, and no NaN in a file."""
    net, poses, samples, parts = learned()
    alone = parts.copy()
    alone[np.flatnonzero(parts == TEST)[1:]] = UNUSED
    card = quality.figures([quality.measure(net, poses, alone, samples)], poses, "block")
    assert not card["tests"][1]["passed"]
    json.dumps(card, allow_nan=False)
    assert any("FAIL  Interpolation" in line for line in quality.text(card))


# ---------------------------------------------------------------- the sixth test


def off(mm: float, frames: int = 4) -> Errors:
    """Errors whose joints are off by ``mm`` in every frame."""
    return Errors(np.zeros((1, frames)), np.full(frames, mm / 1000), np.zeros(frames), np.zeros(frames))


@pytest.mark.parametrize(
    ("own", "nearest", "classical", "passed"),
    [
        (5, 6, 11, True),
        (6, 5, 11, False),
        (6, 11, 5, False),
        (5, 5, 11, False),
        (0.001, 0, 3, True),
        (0.1, 0, 3, False),
    ],
)
def test_natural_means_nearer_than_both_rivals(own: float, nearest: float, classical: float, passed: bool) -> None:
    """A tie is no win, except where all are exact."""
    result = quality.natural(off(own), {"nearest_steps": off(nearest), "classical_mean": off(classical)})
    assert result.passed == passed
    assert passed == (result.score < result.threshold == 1)
    assert ("needs more motion" in result.sentence) != passed
    assert f"{own:.1f} mm" in result.sentence
    assert f"{nearest:.1f} mm nearest" in result.sentence
    assert f"{classical:.1f} mm classical" in result.sentence


@cache
def untrained(layout: str = "reference") -> tuple[Network, PoseSet, Samples, np.ndarray]:
    poses = make_poses(make_rig("reference"), clips=2, frames=40)
    samples, parts = context.prepare(poses), splits.split(poses)
    config = Training(hidden=(8,), layout=layout)
    return task.begin(poses.skeleton, samples, np.flatnonzero(parts == TRAIN), config), poses, samples, parts


@cache
def measured_untrained(layout: str = "reference") -> quality.Measured:
    net, poses, samples, parts = untrained(layout)
    return quality.measure(net, poses, parts, samples)


@pytest.mark.slow
def test_a_network_that_has_not_learned_needs_more_motion() -> None:
    card = quality.figures([measured_untrained()], untrained()[1], "block")
    result = card["tests"][-1]
    assert (result["name"], result["passed"]) == ("Natural", False)
    assert "needs more motion" in result["sentence"]
    assert "Natural" in quality.failed(card)
    rivals = [card["baselines"][name]["mpjpe_mm"] for name in ("nearest_steps", "classical_mean")]
    assert result["score"] == pytest.approx(card["refined"]["mpjpe_mm"] / min(rivals))


def test_natural_is_not_measured_where_there_is_nothing_to_copy_and_counts_neither_way() -> None:
    net, poses, samples, _ = learned()
    everything = np.full(poses.frames, TEST, np.int8)
    card = quality.figures([quality.measure(net, poses, everything, samples)], poses, "unseen clips")
    result = card["tests"][-1]
    assert (result["passed"], result["score"]) == (None, None)
    assert "no training frames" in result["sentence"]
    assert quality.failed(card) == []
    assert "5 of 5 tests passed; not measured: Natural" in quality.text(card)
    assert card["figures"][1]["bar"] is None
    json.dumps(card, allow_nan=False)


@pytest.mark.slow
def test_one_fold_that_fails_fails_natural_for_all() -> None:
    _, poses, _, _ = learned()
    good = measured()
    for verdicts, expected in (
        ((True, False), False),
        ((None, False), False),
        ((True, None), None),
        ((True, True), True),
    ):
        folds = [replace(good, tests=[*good.tests[:-1], replace(good.tests[-1], passed=passed)]) for passed in verdicts]
        assert quality.figures(folds, poses, "clip")["tests"][-1]["passed"] is expected


# ---------------------------------------------------------------- rivals know what the network knows


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        pytest.param("reference", "orientations too", marks=pytest.mark.slow),
        ("positions", "positions only"),
    ],
)
def test_answers_with_steps_get_orientations_where_the_network_does(layout: str, told: str) -> None:
    _, poses, samples, parts = untrained()
    rig, rows, train = poses.skeleton, np.flatnonzero(parts == TEST), np.flatnonzero(parts == TRAIN)
    targets, truth = batches.asked(LAYOUTS[layout], rig, samples, rows)
    frames = baselines.frames_of(LAYOUTS[layout], rig, samples, train)
    start = baselines.with_root(batches.mean_pose(samples, train), targets)
    answers = {
        "classical_mean": baselines.classical(LAYOUTS[layout], rig, start, targets).rot,
        "nearest_steps": baselines.converged(LAYOUTS[layout], rig, baselines.nearest(frames, targets)[0], targets).rot,
    }
    found = measured_untrained(layout).errors
    for name, rot in answers.items():
        turned, _ = forward_kinematics.forward_components(rig, rot, rig.offsets / rig.leg_length)
        between = np.einsum("abin,cbin->acin", turned[:, :, list(rig.effectors)], targets.turned)
        trace = between[0, 0] + between[1, 1] + between[2, 2]
        median = np.degrees(np.median(np.arccos(np.clip((trace - 1) / 2, -1, 1))))
        assert (median < 0.1) == (layout == "reference")
        expected = errors.errors_of(rig, rot, targets, truth)
        mine = found[name]
        assert mine is not None
        np.testing.assert_allclose(mine.joints, expected.joints, atol=1e-6)
    card = quality.figures([measured_untrained(layout)], poses, "block")
    labelled = [line for line in quality.table(card) if told in line]
    assert len(labelled) == 3
    assert any(line.startswith(f"classical solver from mean pose, {told}") for line in labelled)
    assert any(line.startswith("nearest training frame by positions") for line in quality.table(card))


@pytest.mark.slow
def test_answers_with_steps_find_the_hips_where_the_network_has_to() -> None:
    found = measured_untrained("free")
    for name in ("classical_mean", "nearest_steps", "refined"):
        e = found.errors[name]
        assert e is not None
        assert e.hips.mean() > 1e-3
    assert found.errors["mean_pose"] is not None
    assert not np.any(found.errors["mean_pose"].hips)
    lines = quality.table(quality.figures([found], untrained("free")[1], "block"))
    assert sum("Hips not given" in line for line in lines) == 3


def test_a_known_pose_is_found_again_where_the_hips_are_free() -> None:
    _, poses, samples, parts = untrained("free")
    rig, rows = poses.skeleton, np.flatnonzero(parts == TRAIN)
    targets, truth = batches.asked(LAYOUTS["free"], rig, samples, rows)
    rot, shift, found = baselines.nearest(baselines.frames_of(LAYOUTS["free"], rig, samples, rows), targets)
    np.testing.assert_array_equal(found, rows)
    e = errors.errors_of(rig, rot, targets, truth, shift)
    assert max(e.effector.max(), e.joints.max(), e.hips.max()) < 1e-5


def brute_force_nearest(
    poses: PoseSet, samples: Samples, train: np.ndarray, test: np.ndarray, turn_weight: float
) -> np.ndarray:
    """For each test frame the training frame with the nearest effectors, one by one."""
    rig, chosen = poses.skeleton, []
    _, _, known = batches.true_batch(rig, samples, train)
    _, _, asked = batches.true_batch(rig, samples, test)

    def vector(targets: context.Targets, n: int) -> np.ndarray:
        turns = rotations.axis_angle_from_matrix(targets.turned[..., n].transpose(2, 0, 1)) * turn_weight
        return np.concatenate([targets.positions[:, :, n].T.ravel(), turns.ravel()])

    for n in range(len(test)):
        apart = [np.linalg.norm(vector(known, k) - vector(asked, n)) for k in range(len(train))]
        chosen.append(train[int(np.argmin(apart))])
    return np.array(chosen)


def test_the_nearest_frame_is_a_training_frame() -> None:
    """No test frame may serve as its own nearest: the row is compared with a search among the training frames alone."""
    net, poses, samples, parts = untrained()
    rig, test, train = poses.skeleton, np.flatnonzero(parts == TEST), np.flatnonzero(parts == TRAIN)
    found = measured_untrained().errors
    _, heads, targets = batches.true_batch(rig, samples, test)
    truth = Truth(rotations.matrix_components(batches.components(samples.rot[test])), heads)
    for name, turn_weight in (("nearest", 0.0), ("nearest_steps", baselines.TURN_WEIGHT)):
        chosen = brute_force_nearest(poses, samples, train, test, turn_weight)
        assert set(chosen) <= set(train)
        rot = baselines.with_root(batches.components(samples.rot[chosen]), targets)
        if name == "nearest_steps":
            rot = baselines.converged(net.layout, rig, rot, targets).rot
        expected, mine = errors.errors_of(rig, rot, targets, truth), found[name]
        assert mine is not None
        assert mine.joints.min() > 1e-3
        np.testing.assert_allclose(mine.joints, expected.joints, atol=1e-5)
        np.testing.assert_allclose(mine.effector, expected.effector, atol=1e-5)


# ---------------------------------------------------------------- whose frames


@pytest.mark.slow
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
    found = errors.errors_of(rig, rot, targets, Truth(turns, heads)).figures()
    forearm = rig.offsets[rig.names.index("LeftHand")]
    chord = 2 * np.sin(np.radians(15)) * np.hypot(forearm[0], forearm[1])
    assert found["effector_mm"]["mean"] == pytest.approx(chord * 1000 / 5, rel=1e-6)
    assert found["effector_mm"]["p95"] == pytest.approx(np.percentile([chord * 1000, 0, 0, 0, 0], 95), rel=1e-6)
    assert found["mpjpe_mm"] == pytest.approx(chord * 1000 / 22, rel=1e-6)
    assert found["rotation_deg"] == pytest.approx(30 / 22, rel=1e-6)


@pytest.mark.slow
def test_the_card_pools_the_frames_of_all_folds() -> None:
    net, poses, samples, parts = learned()
    test = np.flatnonzero(parts == TEST)
    first, second = parts.copy(), parts.copy()
    first[test[5:]] = UNUSED
    second[test[:5]] = UNUSED
    poor = replace(net, parameters=0.9 * net.parameters)
    folds = [quality.measure(n, poses, p, samples) for n, p in ((net, first), (poor, second))]
    card = quality.figures(folds, poses, "clip")
    parts_of = [m.errors["holdout"] for m in folds]
    every = np.concatenate([p.effector for p in parts_of if p is not None], axis=1)
    assert every.shape == (1, len(test))
    assert card["holdout"]["effector_mm"]["mean"] == pytest.approx(every.mean() * 1000)
    assert card["holdout"]["effector_mm"]["p95"] == pytest.approx(np.percentile(every, 95) * 1000)
    assert card["samples"]["test"] == len(test)
    assert card["samples"]["folds"] == 2
    by_name = {t["name"]: t for t in card["tests"]}
    for name in ("Holdout (FK)", "Noise robustness", "Follow"):
        scores = [next(r.score for r in m.tests if r.name == name) for m in folds]
        assert by_name[name]["score"] == (min if name == "Follow" else max)(scores)
        assert by_name[name]["passed"] == all(next(r.passed for r in m.tests if r.name == name) for m in folds)


def test_the_card_is_complete_and_reads_well() -> None:
    net, poses, samples, parts = learned()
    card = quality.figures([quality.measure(net, poses, parts, samples)], poses, "frame")
    json.dumps(card, allow_nan=False)
    rows = ("rest", "mean_pose", "nearest", "ridge", "classical_rest", "classical_mean", "nearest_steps")
    for figures in (card["holdout"], card["refined"], card["without_context"], *(card["baselines"][r] for r in rows)):
        assert {"effector_mm", "mpjpe_mm", "rotation_deg"} <= set(figures)
    assert card["refined"]["effector_mm"]["mean"] < 0.2 * card["holdout"]["effector_mm"]["mean"]
    assert card["holdout"]["effector_mm"]["mean"] < card["baselines"]["mean_pose"]["effector_mm"]["mean"] / 3
    lines = quality.text(card)
    assert sum(line.startswith(("PASS", "FAIL")) for line in lines) == 6
    assert any(line == "6 of 6 tests passed" for line in lines)
    assert any("LEAKY" in line for line in lines)


def test_frames_that_were_learned_are_never_scored() -> None:
    net, poses, samples, parts = learned()
    found = quality.measure(net, poses, parts, samples)
    holdout = found.errors["holdout"]
    assert holdout is not None
    assert holdout.effector.shape[1] == np.sum(parts == TEST) == len(found.clip)
    rot = samples.rot.copy()
    rot[parts != TEST] += 0.5
    again = quality.measure(net, poses, parts, replace(samples, rot=rot)).errors["holdout"]
    assert again is not None
    np.testing.assert_array_equal(again.effector, holdout.effector)


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
    (weights, _), _ = network.stack(replace(net, parameters=parameters)).layers
    weights[blind] = 0
    deaf = replace(net, parameters=parameters)
    targets, truth = batches.asked(net.layout, net.skeleton, samples, rows)
    expected = errors.predicted(deaf, targets, truth).effector
    np.testing.assert_allclose(errors.without_context(deaf, samples, rows).effector, expected, atol=1e-6)
    np.testing.assert_allclose(errors.without_context(net, samples, rows).effector, expected, atol=1e-6)


def test_the_card_holds_the_document_that_all_wings_share() -> None:
    net, poses, samples, parts = learned()
    card = quality.figures(
        [quality.measure(net, poses, parts, samples)], poses, "block", files=["a.npz"], seed=7, trained_s=100.0
    )
    keys = ("wing", "version", "data", "seed", "cpu_s", "figures", "not_reached", "tests")
    common = cards.from_json({key: card[key] for key in keys})
    assert (common.wing, common.seed, common.data.files, common.data.frames) == ("ik", 7, ("a.npz",), poses.frames)
    assert common.cpu_s > 100
    assert common.exit_code == 0
    alone, joints, turns, ahead = common.figures
    assert ahead.ci95 is None or ahead.ci95[0] <= ahead.value <= ahead.ci95[1]
    nearest = card["baselines"]["nearest_steps"]["mpjpe_mm"]
    assert ahead.value == pytest.approx(nearest - card["refined"]["mpjpe_mm"], abs=1e-6)  # float32 in another order
    assert alone.value == pytest.approx(card["holdout"]["effector_mm"]["mean"])
    assert alone.rivals["mean pose"] == pytest.approx(card["baselines"]["mean_pose"]["effector_mm"]["mean"])
    assert joints.value == pytest.approx(card["refined"]["mpjpe_mm"])
    rivals = [card["baselines"][name]["mpjpe_mm"] for name in ("nearest_steps", "classical_mean")]
    assert joints.bar == pytest.approx(max(min(rivals), quality.EXACT))
    assert turns.value == pytest.approx(card["refined"]["rotation_deg"])
    assert alone.ci95 is not None
    assert alone.ci95[0] <= alone.value <= alone.ci95[1]
    assert alone.n == np.sum(parts == TEST)


# ---------------------------------------------------------------- the plain answers


def test_the_nearest_frame_of_a_known_pose_is_itself() -> None:
    _, poses, samples, parts = learned()
    rows = np.flatnonzero(parts == TRAIN)
    posed, _, targets = batches.true_batch(poses.skeleton, samples, rows)
    rot, _, found = baselines.nearest(baselines.frames_of(LAYOUTS["positions"], poses.skeleton, samples, rows), targets)
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
        baselines.nearest(baselines.frames_of(LAYOUTS["positions"], rig, samples, train), targets)[0],
        baselines.ridge(rig, model, targets),
        baselines.classical(LAYOUTS["positions"], rig, baselines.rest(rig, targets), targets).rot,
    ):
        assert rot.shape == (3, rig.count, len(rows))
        np.testing.assert_allclose(rotations.matrix_components(rot)[:, :, 0], targets.root, atol=1e-5)


def test_the_classical_solver_reaches_what_can_be_reached() -> None:
    _, poses, samples, parts = learned()
    rig = poses.skeleton
    _, _, targets = batches.true_batch(rig, samples, np.flatnonzero(parts == TEST))
    rot = baselines.classical(LAYOUTS["positions"], rig, baselines.rest(rig, targets), targets).rot
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
