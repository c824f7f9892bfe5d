# SPDX-License-Identifier: GPL-3.0-or-later
"""Training on made-up motion: it learns, repeats itself to the byte, goes on where it stopped, and never tells untruths."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from conftest import FLOAT32, ROUND_TRIP, make_poses, make_rig, random_turns, slow_except

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations, skeleton
from neural_network.core.skeleton import Skeleton
from neural_network.ik import augmentation, batches, context, network, task
from neural_network.ik.context import LAYOUTS, Samples
from neural_network.ik.network import Network
from neural_network.ik.settings import Losses, Training
from neural_network.learning import loop
from neural_network.learning.loop import Epoch, State
from neural_network.motion import splits
from neural_network.motion.splits import TRAIN, VALIDATION

QUICK = Training(layout="reference", augment=2, hidden=(32, 24), epochs=4, batch_size=32, lr=0.005)


def laid_out(name: str = "reference", frames: int = 40) -> tuple[Skeleton, Samples, np.ndarray]:
    poses = make_poses(make_rig(name), frames=frames)
    return poses.skeleton, context.prepare(poses), splits.split(poses)


@pytest.fixture(scope="module")
def problem() -> tuple[Skeleton, Samples, np.ndarray]:
    return laid_out()


def run(
    problem: tuple[Skeleton, Samples, np.ndarray],
    config: Training,
    start: Network | None = None,
    state: State | None = None,
) -> tuple[Network, list[Epoch]]:
    learning = task.PoseTask(*problem, config, start)
    epochs = list(loop.train(learning, task.loop_settings(config), state))
    return learning.network(epochs[-1].state), epochs


def train(
    problem: tuple[Skeleton, Samples, np.ndarray], config: Training, start: Network | None = None
) -> Iterator[Epoch]:
    return loop.train(task.PoseTask(*problem, config, start), task.loop_settings(config))


def through_a_file(state: State) -> State:
    buffer = io.BytesIO()
    np.savez(buffer, **loop.pack(state))  # type: ignore[arg-type]
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as archive:
        return loop.unpack({name: archive[name] for name in archive.files})


def stopped_after(epochs: Iterator[Epoch], count: int) -> State:
    for epoch in epochs:
        if epoch.number == count:
            return epoch.state
    raise AssertionError


# ---------------------------------------------------------------- the loop


def test_it_learns_far_beyond_the_mean_pose(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    rig, samples, parts = problem
    net, epochs = run(problem, replace(QUICK, hidden=(64,), epochs=40, lr=0.01))
    rows, held = np.flatnonzero(parts == TRAIN), np.flatnonzero(parts == VALIDATION)
    _, _, targets = batches.true_batch(rig, samples, held)
    mean = batches.components(np.repeat(batches.mean_pose(samples, rows)[None], len(held), axis=0))
    mean[:, 0] = rotations.axis_angle_components(targets.root)
    plain = batches.effector_distances(rig, mean, targets).mean()
    learned = batches.error_of(net, samples, held)
    assert learned < plain / 2
    assert learned == pytest.approx(min(e.validation for e in epochs), abs=1e-6)
    assert learned < epochs[0].validation / 2


@pytest.mark.parametrize("layout", slow_except(LAYOUTS, "hips"))
@pytest.mark.parametrize("name", slow_except(["reference", "creature", "tentacle"], "reference"))
def test_every_layout_and_every_body_can_be_trained(name: str, layout: str) -> None:
    problem = laid_out(name)
    drop = 0.5 if LAYOUTS[layout].mask else 0.0
    _, epochs = run(problem, replace(QUICK, layout=layout, epochs=8, drop_effectors=drop))
    assert all(np.isfinite(e.validation) and np.isfinite(e.value) for e in epochs)
    assert epochs[-1].best_value < 0.9 * epochs[0].validation


@pytest.mark.slow
def test_one_seed_gives_the_same_bytes_and_another_gives_others(
    problem: tuple[Skeleton, Samples, np.ndarray],
) -> None:
    first, second = (run(problem, QUICK)[0].parameters.tobytes() for _ in range(2))
    assert first == second
    assert run(problem, replace(QUICK, seed=1))[0].parameters.tobytes() != first


@pytest.mark.parametrize(
    "config",
    [
        QUICK,
        *slow_except(
            [
                replace(QUICK, layout="free", drop_effectors=0.5, proportions=0.3),
                replace(QUICK, mix=0.0, fk_every=3, contact_every=2),
                replace(QUICK, fk_off_below=0.5),
                replace(QUICK, fk_off_below=0.05, fk_every=5),
            ]
        ),
    ],
    ids=["default", "free", "older schedule", "fk off", "fk off seldom"],
)
def test_a_stopped_training_goes_on_to_the_very_same_result(
    config: Training, problem: tuple[Skeleton, Samples, np.ndarray]
) -> None:
    whole, epochs = run(problem, replace(config, epochs=5))
    state = stopped_after(train(problem, replace(config, epochs=5)), 2)
    resumed, rest = run(problem, replace(config, epochs=5), state=through_a_file(state))
    assert [e.number for e in rest] == [3, 4, 5]
    assert resumed.parameters.tobytes() == whole.parameters.tobytes()
    assert rest[-1].state.history == epochs[-1].state.history
    assert rest[-1].state.parameters.tobytes() == epochs[-1].state.parameters.tobytes()


def test_a_state_comes_back_from_its_arrays(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    state = stopped_after(train(problem, QUICK), 2)
    found = through_a_file(state)
    for name, value in vars(state).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(found, name), value)
        else:
            assert getattr(found, name) == value, name


@pytest.mark.slow
def test_the_state_of_an_epoch_stays_what_it_was(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    epochs = train(problem, QUICK)
    state = next(epochs).state
    kept = state.parameters.copy(), state.best.copy()
    list(epochs)
    np.testing.assert_array_equal(state.parameters, kept[0])
    np.testing.assert_array_equal(state.best, kept[1])


def test_by_default_the_averaged_weights_are_validated_and_kept(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    _, samples, parts = problem
    learning = task.PoseTask(*problem, Training(hidden=(8,), epochs=1))
    (epoch,) = loop.train(learning, task.loop_settings(learning.config))
    state = epoch.state
    np.testing.assert_array_equal(state.best, state.average)
    assert not np.array_equal(state.average, state.parameters)
    held = np.flatnonzero(parts == VALIDATION)
    assert epoch.validation == batches.error_of(learning.network(state), samples, held)


def test_it_stops_when_patience_ends_and_keeps_the_best(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    """A step size that is far too large gets worse at once."""
    net, epochs = run(problem, replace(QUICK, lr=100.0, epochs=50, patience=3))
    last = epochs[-1]
    assert last.number < 50
    assert last.ended
    assert last.number - last.best_epoch >= 3  # and patience counts anew once the step size has fallen
    assert last.share == 1.0
    values = [e.validation for e in epochs]
    assert last.best_epoch == 1 + int(np.argmin(values))
    assert last.best_value == min(values)
    assert [e.best for e in epochs] == [v < min(values[:i], default=np.inf) for i, v in enumerate(values)]
    held = np.flatnonzero(problem[2] == VALIDATION)
    assert batches.error_of(net, problem[1], held) == pytest.approx(min(values), rel=1e-5)


@pytest.mark.slow
def test_a_time_limit_ends_it(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    _, epochs = run(problem, replace(QUICK, epochs=10_000, patience=10_000, time_limit=0.15))
    assert 1 <= len(epochs) < 10_000
    assert epochs[-1].share == 1.0
    assert epochs[-1].state.spent >= 0.15


@pytest.mark.slow
def test_progress_counts_up_to_one(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    _, epochs = run(problem, replace(QUICK, epochs=4, patience=99))
    np.testing.assert_allclose([e.share for e in epochs], [0.25, 0.5, 0.75, 1])
    assert [(e.number, e.of) for e in epochs] == [(i, 4) for i in (1, 2, 3, 4)]
    assert [len(e.state.history) for e in epochs] == [1, 2, 3, 4]


@pytest.mark.slow
def test_pose_mix_can_be_turned_off(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    on, off = (run(problem, replace(QUICK, mix=mix))[0] for mix in (0.5, 0.0))
    assert np.any(on.parameters != off.parameters)


@pytest.mark.slow
def test_the_losses_of_the_configuration_are_those_that_are_used(
    problem: tuple[Skeleton, Samples, np.ndarray],
) -> None:
    rig, samples, parts = problem
    standing = rig, replace(samples, grounded=np.ones_like(samples.grounded)), parts
    plain = run(standing, QUICK)[0].parameters
    for change in ({"pose": 0.0}, {"limits": 5.0}, {"contact": 0.0}, {"orientation": 1.0}, {"joints": 0.0}):
        other = run(standing, replace(QUICK, losses=replace(Losses(), **change)))[0].parameters
        assert np.any(other != plain), change


@pytest.mark.slow
def test_fine_tuning_starts_from_the_weights_given(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    start, _ = run(problem, replace(QUICK, epochs=20, lr=0.01))
    held = np.flatnonzero(problem[2] == VALIDATION)
    before = batches.error_of(start, problem[1], held)
    kept = start.parameters.copy()
    tuned, epochs = run(problem, replace(QUICK, epochs=2, lr=1e-4), start=start)
    assert epochs[0].validation == pytest.approx(before, rel=0.1)
    np.testing.assert_array_equal(start.parameters, kept)
    np.testing.assert_array_equal(tuned.mean, start.mean)  # inputs are read as those weights learned to read them
    assert 0 < np.abs(tuned.parameters - kept).max() < 0.1


def test_weights_of_another_shape_are_no_start(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    start, _ = run(problem, replace(QUICK, epochs=1))
    with pytest.raises(ValueError, match=r"expected layout reference with layers \(50, 12, 69\), got reference with"):
        next(train(problem, replace(QUICK, hidden=(12,)), start))
    with pytest.raises(ValueError, match=r"expected layout masked .*, got reference"):
        next(train(problem, replace(QUICK, layout="masked"), start))


def test_nothing_to_train_or_to_validate_on_is_said(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    rig, samples, parts = problem
    for without, words in ((VALIDATION, "got 74 and 0|got .* and 0"), (TRAIN, "got 0 and")):
        with pytest.raises(ValueError, match=f"expected frames to train and to validate on, .*{words}"):
            next(train((rig, samples, np.where(parts == without, 0, parts)), QUICK))


def test_training_changes_none_of_its_arguments(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    _, samples, parts = problem
    kept = {name: value.copy() for name, value in vars(samples).items()}, parts.copy()
    run(problem, replace(QUICK, epochs=1, layout="free", drop_effectors=0.5))
    for name, value in kept[0].items():
        np.testing.assert_array_equal(getattr(samples, name), value)
    np.testing.assert_array_equal(parts, kept[1])


def test_only_training_frames_teach(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    """What stands in the test part and in the gaps may be anything."""
    rig, samples, parts = problem
    other = (parts != TRAIN) & (parts != VALIDATION)
    rot = samples.rot.copy()
    rot[other] = 9.0
    changed = replace(samples, rot=rot, low=np.where(other, 9, samples.low).astype(np.float32))
    first, second = run(problem, QUICK)[0], run((rig, changed, parts), QUICK)[0]
    assert first.parameters.tobytes() == second.parameters.tobytes()
    assert first.mean.tobytes() == second.mean.tobytes()


# ---------------------------------------------------------------- augmentation


def test_the_limbs_of_pose_mix_are_legs_and_each_arm_and_the_neck() -> None:
    rig = make_rig("reference")
    named = [{rig.names[b] for b in group} for group in augmentation.limb_groups(rig)]
    legs = {f"{s}{b}" for s in ("Left", "Right") for b in ("Thigh", "Shin", "Foot", "ToeBase")}
    arms = [{f"{s}{b}" for b in ("Shoulder", "Arm", "ForeArm", "Hand")} for s in ("Left", "Right")]
    assert named == [legs, *arms, {"NeckLower", "NeckUpper", "Head"}]


def test_mixed_limbs_come_whole_from_training_poses_and_the_rest_stays(
    problem: tuple[Skeleton, Samples, np.ndarray],
) -> None:
    rig, samples, parts = problem
    rows = np.flatnonzero(parts == TRAIN)
    groups = augmentation.limb_groups(rig)
    config = replace(QUICK, mix=0.5, joint_noise=0.0)
    picked = rows[:64]
    _, truth = augmentation.draw(
        rig, LAYOUTS["reference"], samples, rows, picked, config, groups, np.random.default_rng(0)
    )
    rot = rotations.axis_angle_components(truth.turns).transpose(2, 1, 0)
    free = np.setdiff1d(np.arange(1, rig.count), np.concatenate(groups))
    np.testing.assert_allclose(rot[:, free], samples.rot[picked][:, free], atol=1e-5)
    for group in [np.array([0]), *groups]:  # the Hips' rotation is mixed as a limb is
        apart = np.abs(rot[:, None, group] - samples.rot[None, rows][:, :, group]).max(axis=(2, 3))
        assert np.all(apart.min(axis=1) < 1e-5)  # some training frame has this very limb
        own = np.abs(rot[:, group] - samples.rot[picked][:, group]).max(axis=(1, 2)) < 1e-5
        assert 0.3 < own.mean() < 0.7


@pytest.mark.parametrize("layout", ["reference", "free"])
@pytest.mark.parametrize("proportions", [0.0, 0.3])
def test_augmented_poses_meet_their_targets(
    layout: str, proportions: float, problem: tuple[Skeleton, Samples, np.ndarray]
) -> None:
    rig, samples, parts = problem
    rows = np.flatnonzero(parts == TRAIN)
    config = replace(QUICK, proportions=proportions, layout=layout)
    targets, truth = augmentation.draw(
        rig, LAYOUTS[layout], samples, rows, rows[:50], config, augmentation.limb_groups(rig), np.random.default_rng(0)
    )
    offsets = rig.offsets / rig.leg_length if truth.offsets is None else truth.offsets
    assert (truth.offsets is None) == (proportions == 0)
    turned, heads = fk.forward_matrices(rig, truth.turns, offsets)
    heads = heads if truth.shift is None else heads + truth.shift[:, None]
    bones = list(rig.effectors)
    np.testing.assert_allclose(heads, truth.heads, atol=FLOAT32)
    np.testing.assert_allclose(heads[:, bones], targets.positions, atol=FLOAT32)
    np.testing.assert_allclose(turned[:, :, bones], targets.turned, atol=FLOAT32)
    if layout == "reference":
        np.testing.assert_allclose(turned[:, :, 0], targets.root, atol=FLOAT32)


def test_without_mix_a_pose_is_presented_as_it_is(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    rig, samples, parts = problem
    rows = np.flatnonzero(parts == TRAIN)
    targets, _ = augmentation.draw(
        rig, LAYOUTS["reference"], samples, rows, rows[:50], replace(QUICK, mix=0.0), [], np.random.default_rng(0)
    )
    _, _, expected = batches.true_batch(rig, samples, rows[:50])
    for name, value in vars(expected).items():
        if value is not None:
            np.testing.assert_allclose(getattr(targets, name), value, atol=1e-6)


def test_dropped_effectors_leave_one_and_no_orientation_without_its_position(rng: np.random.Generator) -> None:
    given = augmentation.random_mask(5, 4000, 0.5, rng)
    assert set(np.unique(given)) == {0, 1}
    assert given[0].sum(axis=0).min() >= 1
    assert np.all(given[1] <= given[0])
    counts = np.bincount(given[0].sum(axis=0).astype(int), minlength=6)
    assert np.all(counts[1:] > 100)  # every number of targets is practised
    assert np.all(augmentation.random_mask(5, 100, 0.0, rng) == 1)


def test_random_bodies_are_alike_on_both_sides_and_have_legs_of_length_one(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    offsets = augmentation.random_proportions(rig, 0.3, 200, rng)
    lengths = np.linalg.norm(offsets, axis=0)
    for j, name in enumerate(rig.names):
        if name.startswith("Left"):
            np.testing.assert_allclose(lengths[j], lengths[rig.names.index("Right" + name[4:])], rtol=1e-5)
    legs = [lengths[b] + lengths[c] for _, b, c in rig.legs]
    np.testing.assert_allclose(np.mean(legs, axis=0), 1, rtol=1e-5)
    spread = lengths[rig.names.index("LeftHand")] / np.linalg.norm(rig.offsets[rig.names.index("LeftHand")])
    assert spread.min() * rig.leg_length < 0.9
    assert spread.max() * rig.leg_length > 1.1


def test_joints_of_random_bodies_move_alike_on_both_sides_and_some_meet(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    base = augmentation.random_proportions(rig, 0.0, 400, rng)
    offsets = augmentation.moved_joints(rig, base, augmentation.limb_groups(rig), rng)
    heads, before = (context.t_pose_heads(rig, each) for each in (offsets, base))
    for j, name in enumerate(rig.names):
        if name.startswith("Left"):
            other = heads[:, rig.names.index("Right" + name[4:])] * np.array([[-1], [1], [1]])
            np.testing.assert_allclose(heads[:, j], other, atol=2e-3)  # the rig itself is alike to a millimetre
    np.testing.assert_allclose(heads[0, rig.names.index("Spine2")], 0, atol=1e-3)
    lengths = np.linalg.norm(offsets, axis=0)
    for name in ("Spine", "NeckLower", "LeftShoulder"):
        assert 0.15 < np.mean(lengths[rig.names.index(name)] < 1e-6) < 0.35
    for name in ("LeftThigh", "LeftShin", "LeftHand"):
        assert lengths[rig.names.index(name)].min() > 1e-3
    moved = np.linalg.norm(heads - before, axis=0).mean(axis=1)
    assert moved[rig.names.index("LeftArm")] > 0.02
    legs = [lengths[b] + lengths[c] for _, b, c in rig.legs]
    np.testing.assert_allclose(np.mean(legs, axis=0), 1, rtol=1e-5)


def test_bones_know_their_partner_on_the_other_side() -> None:
    for name in ("reference", "a_pose", "turned"):
        rig = make_rig(name)
        partner = skeleton.mirrored_bones(rig)
        for j, bone in enumerate(rig.names):
            other = bone.replace("Left", "?").replace("Right", "Left").replace("?", "Right")
            assert rig.names[partner[j]] == other


def test_the_mean_pose_is_the_chordal_mean(rng: np.random.Generator) -> None:
    rig, samples, _ = laid_out("tentacle", 30)
    centre = random_turns(rng, rig.count)
    turn = random_turns(rng, 5, rig.count, below=0.5)
    both = np.concatenate([turn, -turn])  # a cloud that is even about its centre
    matrices = rotations.matrix_from_axis_angle(centre) @ rotations.matrix_from_axis_angle(both)
    cloud = replace(samples, rot=rotations.axis_angle_from_matrix(matrices))
    found = rotations.matrix_from_axis_angle(batches.mean_pose(cloud, np.arange(10)))
    np.testing.assert_allclose(found, rotations.matrix_from_axis_angle(centre), atol=ROUND_TRIP)


@pytest.mark.slow
def test_the_older_schedule_leaves_the_fk_gradient_out(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    """On every n-th batch only, and not at all once the mean square is under the bound."""
    _, epochs = run(problem, replace(QUICK, fk_off_below=1e9))
    assert epochs[0].value > 0
    assert [e.value for e in epochs[1:]] == [0, 0, 0]
    always, seldom = (run(problem, replace(QUICK, fk_every=n))[0].parameters for n in (1, 2))
    assert np.any(always != seldom)


def test_error_is_the_mean_distance_in_metres(problem: tuple[Skeleton, Samples, np.ndarray]) -> None:
    rig, samples, parts = problem
    net, _ = run(problem, replace(QUICK, epochs=1))
    rows = np.flatnonzero(parts == VALIDATION)
    found = []
    for row in rows:
        _, _, targets = batches.true_batch(rig, samples, np.array([row]))
        outputs = network.forward(net, context.features(net.layout, rig, targets))
        rot = outputs.reshape(-1, 3).copy()
        rot[0] = samples.rot[row, 0]
        _, heads = fk.forward(rig, rot.astype(np.float64))
        _, true_heads = fk.forward(rig, samples.rot[row].astype(np.float64))
        bones = list(rig.effectors)
        found.append(np.linalg.norm(heads[bones] - true_heads[bones], axis=1).mean())
    assert batches.error_of(net, samples, rows) == pytest.approx(np.mean(found), rel=1e-4)


def test_own_frames_are_half_of_what_is_presented() -> None:
    rows = np.array([0, 3, 4, *range(10, 70)])
    found = task.balanced(rows, 10)
    assert np.sum(found < 10) == np.sum(found >= 10) == 60
    np.testing.assert_array_equal(np.unique(found), rows)
    np.testing.assert_array_equal(task.balanced(rows, 1000), rows)  # nobody else's


def test_weights_on_another_body_see_inputs_of_the_usual_spread() -> None:
    poses = make_poses(make_rig("reference"))
    config = Training(hidden=(8,), mix=0, joint_noise=0)
    rows = np.arange(poses.frames)
    start = task.begin(poses.skeleton, context.prepare(poses), rows, config)
    rest = poses.skeleton.rest_arm.copy()
    rest[:, :3, 3] *= [3, 1, 1]
    wide = replace(poses, skeleton=replace(poses.skeleton, rest_arm=rest))
    samples = context.prepare(wide)
    found = task.adapted(start, wide.skeleton, samples, rows, config)
    targets, _ = batches.asked(start.layout, wide.skeleton, samples, rows)
    inputs = context.features(start.layout, wide.skeleton, targets)[:, start.layout.columns(wide.skeleton)["targets"]]
    columns = start.layout.columns(wide.skeleton)["targets"]
    before, after = (np.abs((inputs - n.mean[columns]) / n.deviation[columns]).max() for n in (start, found))
    assert after < 0.5 * before
    np.testing.assert_array_equal(found.parameters, start.parameters)


# ---------------------------------------------------------------- inputs that never varied


@pytest.mark.parametrize("name", ["task", "phase"])
def test_an_input_that_never_varied_in_training_does_not_move_the_pose(name: str) -> None:
    """All clips of one task, only the task renamed: the same poses are asked for, the same must come."""
    rig, samples, parts = laid_out()
    constant = replace(samples, **{name: np.full_like(getattr(samples, name), 0.5)})
    net = task.fit(rig, constant, parts, replace(QUICK, epochs=2))
    rows = np.flatnonzero(parts == VALIDATION)
    targets, _ = batches.asked(net.layout, rig, constant, rows)
    renamed, _ = batches.asked(net.layout, rig, replace(constant, **{name: getattr(constant, name) + 0.5}), rows)
    assert not np.array_equal(getattr(targets, name), getattr(renamed, name))
    np.testing.assert_array_equal(batches.predict(net, targets)[0], batches.predict(net, renamed)[0])
    learned = task.fit(rig, samples, parts, replace(QUICK, epochs=2))
    assert not np.array_equal(batches.predict(learned, targets)[0], batches.predict(learned, renamed)[0])
