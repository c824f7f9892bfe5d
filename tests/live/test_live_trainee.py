# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainee: it converges on a stream, knows when, can be poisoned and healed, and survives a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import slow_except

from neural_network.live.trainee import LEARNING, NEW, SOLVING, Settings, Trainee

SMALL = Settings(hidden=(32,), batch=32, snapshot_frames=60)


def stream(frames: int, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A smooth curved motion: neighbouring frames are near-copies, as in a real stream."""
    t = (np.arange(start, start + frames) / 40.0)[:, None]
    x = np.concatenate([np.sin(t), np.cos(0.7 * t), np.sin(0.31 * t)], axis=1)
    y = 0.3 * np.concatenate([x[:, :1] * x[:, 1:2], np.cos(2 * x[:, 2:]), x[:, 1:2] ** 2], axis=1)
    return x, y


def taught(frames: int = 500, steps: int = 12, settings: Settings = SMALL, seed: int = 0) -> Trainee:
    trainee = Trainee(3, (3,), settings, np.random.default_rng(seed))
    x, y = stream(min(frames, 300))
    for i in range(frames):  # the same 300 frames over and over
        trainee.observe(x[i % 300], y[i % 300])
        trainee.train(steps)
    return trainee


def mean_error(trainee: Trainee, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.linalg.norm(trainee.predict(x) - y, axis=1).mean())


@pytest.mark.slow
def test_it_learns_the_whole_path_and_not_only_the_newest_frames() -> None:
    trainee = taught()
    x, y = stream(300)
    constant = np.linalg.norm(y - y.mean(0), axis=1).mean()
    assert mean_error(trainee, x[:100], y[:100]) < 0.05 * constant
    assert mean_error(trainee, x, y) < 0.05 * constant


def test_a_step_in_parts_is_the_same_step() -> None:
    """The weights change in its last part only, so that predictions between the parts are those before it."""
    whole, parts = (Trainee(3, (3,), SMALL, np.random.default_rng(0)) for _ in range(2))
    x, y = stream(60)
    for trainee in (whole, parts):
        for row in zip(x, y, strict=True):
            trainee.observe(*row)
    for _ in range(5):
        assert whole.train(1) == 1
        before = parts.predict(x)
        while not parts.go_on():
            assert parts.begun
            assert np.array_equal(parts.predict(x), before)
        assert not parts.begun
        assert np.array_equal(parts.predict(x), whole.predict(x))


@pytest.mark.parametrize("change", [Trainee.pause, Trainee.reset])
def test_a_step_that_is_not_complete_is_dropped_where_learning_ends(change) -> None:
    trainee = Trainee(3, (3,), SMALL, np.random.default_rng(0))
    for row in zip(*stream(60), strict=True):
        trainee.observe(*row)
    assert not trainee.go_on()
    change(trainee)
    assert not trainee.begun
    assert trainee.go_on()
    assert trainee.steps == 0


@pytest.mark.slow
def test_the_states_go_from_new_over_learning_to_solving_and_back_when_the_rig_changes() -> None:
    trainee = Trainee(3, (3,), SMALL, np.random.default_rng(0))
    assert trainee.state == NEW
    x, y = stream(300)
    states = []
    for i in range(700):
        trainee.observe(x[i % 300], y[i % 300])
        trainee.train(12)
        states.append(trainee.state)
    assert states[0] == LEARNING
    assert states[-1] == SOLVING
    assert states.index(SOLVING) >= SMALL.calm_frames
    for a, b in zip(x[:40], y[:40], strict=True):
        trainee.observe(a, b + 0.3)
    assert trainee.state == LEARNING


def test_sixty_calm_frames_are_needed_and_one_bad_frame_starts_the_count_again() -> None:
    settings = Settings(hidden=(8,), calm_frames=60)
    trainee = Trainee(1, (1,), settings)
    for _ in range(40):
        trainee.observe(np.zeros(1), np.zeros(1))
    trainee.observe(np.zeros(1), np.full(1, 0.05))
    for _ in range(59):
        trainee.observe(np.zeros(1), np.zeros(1))
    assert trainee.state == LEARNING
    trainee.observe(np.zeros(1), np.zeros(1))
    assert trainee.state == SOLVING


@pytest.mark.slow
def test_a_jump_in_loss_pauses_learning_and_undo_forgets_the_poison() -> None:
    trainee = taught(700)
    x, y = stream(300)
    before = mean_error(trainee, x, y)
    for a, b in zip(x[:200], y[:200], strict=True):
        trainee.observe(a, 3.0 - 5 * b)
        trainee.train(12)
    status = trainee.status()
    assert status.paused
    assert status.poisoned
    steps = trainee.steps
    assert trainee.train(10) == 0
    assert trainee.steps == steps
    assert trainee.undo()
    assert not trainee.status().paused
    assert mean_error(trainee, x, y) < 3 * before
    assert np.abs(trainee.store.y[: trainee.store.stored]).max() < 1  # no poisoned row is left to replay
    trainee.train(300)
    assert mean_error(trainee, x, y) < 3 * before


@pytest.mark.slow
def test_a_cut_between_two_takes_is_not_taken_for_poison() -> None:
    trainee = taught(700)
    x, y = stream(300)
    trainee.observe(x[5], y[5] + 5.0)
    for a, b in zip(x[:50], y[:50], strict=True):
        trainee.observe(a, b)
    assert not trainee.paused


def test_undo_without_a_good_snapshot_changes_nothing() -> None:
    trainee = taught(20)
    before = trainee.predict(np.ones(3))
    assert not trainee.undo()
    assert np.array_equal(trainee.predict(np.ones(3)), before)


@pytest.mark.slow
def test_resume_after_the_guard_accepts_the_new_motion() -> None:
    trainee = taught(700)
    x, y = stream(200)
    before = mean_error(trainee, x, 1.5 - 2 * y)
    for _ in range(3):
        for a, b in zip(x, 1.5 - 2 * y, strict=True):
            trainee.observe(a, b)
            trainee.train(12)
            if trainee.poisoned:
                trainee.resume()
    assert not trainee.paused
    assert mean_error(trainee, x, 1.5 - 2 * y) < 0.5 * before  # the old motion is still replayed beside it


def test_a_constant_is_predicted_exactly() -> None:
    trainee = Trainee(3, (3,), SMALL)
    x, _ = stream(300)
    for a in x:
        trainee.observe(a, np.array([0.1, -0.2, 0.4]))
        trainee.train(4)
    assert np.abs(trainee.predict(x) - [0.1, -0.2, 0.4]).max() < 1e-6


@pytest.mark.slow
def test_saved_weights_predict_and_go_on_learning_as_before(tmp_path) -> None:
    trainee = taught(300)
    path = tmp_path / "rig" / "weights.npz"
    trainee.save(path)
    assert [p.name for p in path.parent.iterdir()] == ["weights.npz"]
    other = Trainee(3, (3,), SMALL, np.random.default_rng(5))
    other.load(path)
    x, y = stream(300)
    assert np.array_equal(other.predict(x), trainee.predict(x))
    assert other.status() == trainee.status()
    error = mean_error(other, x, y)
    other.train(200)
    assert mean_error(other, x, y) < 1.5 * error


@pytest.mark.parametrize("damage", slow_except(["cut", "text", "sizes", "pickle", "nan"], "cut", "pickle"))
def test_a_damaged_or_foreign_file_is_refused_and_changes_nothing(tmp_path, damage: str) -> None:
    trainee = taught(100)
    path = tmp_path / "weights.npz"
    trainee.save(path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:500])
    elif damage == "text":
        path.write_text("no weights")
    elif damage == "sizes":
        Trainee(4, (3,), SMALL).save(path)
    else:
        with np.load(path) as file:
            arrays = dict(file)
        arrays["layer_1.weights"] = (
            np.full_like(arrays["layer_1.weights"], np.nan) if damage == "nan" else np.array([{}], object)
        )
        np.savez(path, **arrays)
    before = trainee.predict(np.ones(3)), trainee.frames
    with pytest.raises(ValueError, match="expected"):
        trainee.load(path)
    assert np.array_equal(trainee.predict(np.ones(3)), before[0])
    assert trainee.frames == before[1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_frame_that_is_not_finite_is_refused_and_changes_nothing(value: float) -> None:
    trainee = taught(50)
    with pytest.raises(ValueError, match="finite"):
        trainee.observe(np.array([0, value, 0]), np.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        trainee.observe(np.zeros(3), np.array([0, value, 0]))
    with pytest.raises(ValueError, match="expected 3 inputs"):
        trainee.observe(np.zeros(4), np.zeros(3))
    assert trainee.frames == 50


@pytest.mark.slow
def test_learning_is_bounded_by_steps_by_time_and_by_the_frames_seen() -> None:
    trainee = taught(100, steps=0)
    assert trainee.train(5) == 5
    ticks = iter(range(1000))
    assert trainee.train(1000, seconds=10, clock=lambda: float(next(ticks))) <= 11
    trainee.train(1 << 20)
    assert trainee.steps == SMALL.steps_a_frame * 100
    assert not trainee.hungry


def test_the_replay_store_keeps_its_size_however_long_the_stream() -> None:
    settings = Settings(hidden=(4,), store_bytes=4 * 3 * 80)
    trainee = Trainee(3, (3,), settings, np.random.default_rng(0))
    for x, y in zip(*stream(500), strict=True):
        trainee.observe(x, y)
    assert trainee.store.capacity == trainee.store.stored == 80
    assert trainee.store.age.max() == 500
    assert trainee.store.age.min() < 400


@pytest.mark.slow
def test_the_same_stream_and_seed_give_the_same_network() -> None:
    x, _ = stream(30)
    assert np.array_equal(taught(80, seed=3).predict(x), taught(80, seed=3).predict(x))


def test_weights_decay_by_default_and_only_then() -> None:
    """The weights of an input that never moves get no gradient: decay alone shrinks them."""

    def norm_after(settings: Settings) -> tuple[float, float]:
        trainee = Trainee(4, (3,), settings, np.random.default_rng(2))
        trainee._make()
        before = np.linalg.norm(trainee._stack.layers[0][0][3])
        for x, y in zip(*stream(300), strict=True):
            trainee.observe(np.append(x, 1.0), y)
            trainee.train(4)
        assert trainee.steps > 500
        return float(before), float(np.linalg.norm(trainee._stack.layers[0][0][3]))

    before, after = norm_after(Settings(hidden=(12,)))
    assert after < 0.8 * before
    before, after = norm_after(replace(Settings(hidden=(12,)), decay=0.0))
    assert after == pytest.approx(before, rel=1e-5)


def test_files_from_before_model_files_had_kinds_still_load(tmp_path: Path) -> None:
    """They held all matrices, the linear path, then all biases in one vector, under one-letter names."""
    trainee = taught(100)
    order = [w for w, _ in trainee._stack.layers] + [trainee._stack.skip] + [b for _, b in trainee._stack.layers]
    head = {
        "format": 1,
        "inputs": trainee.inputs,
        "groups": trainee.groups,
        "hidden": trainee.settings.hidden,
        "frames": trainee.frames,
        "steps": trainee.steps,
        "state": trainee.state,
        "error": trainee.error,
        "usual": trainee.usual,
        "slow": trainee._slow,
        "armed": trainee._armed,
        "next_scale": trainee._next_scale,
        "rows": trainee._rows,
    }
    arrays = {"w": np.concatenate([a.ravel() for a in order])}
    arrays |= {"m": np.zeros_like(arrays["w"]), "v": np.zeros_like(arrays["w"])}
    arrays |= {f"s{i}": a for i, a in enumerate(trainee._scales)} | {f"n{i}": a for i, a in enumerate(trainee._moments)}
    n = trainee.store.stored
    arrays |= {"x": trainee.store.x[:n], "y": trainee.store.y[:n], "age": trainee.store.age[:n]}
    np.savez(tmp_path / "old.npz", head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    other = Trainee(trainee.inputs, trainee.groups, trainee.settings)
    other.load(tmp_path / "old.npz")
    x = np.linspace(-1, 1, trainee.inputs)
    assert np.array_equal(other.predict(x), trainee.predict(x))
    assert (other.frames, other.steps, other.store.stored) == (trainee.frames, trainee.steps, trainee.store.stored)
    arrays["w"] = arrays["w"][:-1]
    np.savez(tmp_path / "old.npz", head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    with pytest.raises(ValueError, match="the file is damaged"):
        other.load(tmp_path / "old.npz")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", 99),
        ("steps", -1),
        ("frames", 1e30),
        ("rows", -1),
        ("armed", None),
        ("scale_3", 0.0),
        ("adam.second", -1.0),
        ("moment_0", 1e300),
    ],
)
def test_a_file_that_no_trainee_wrote_is_refused_and_changes_nothing(name: str, value: float, tmp_path: Path) -> None:
    trainee = taught(100)
    path = tmp_path / "weights.npz"
    trainee.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(arrays["about"].tobytes())
    if value is None:
        del about[name]
    elif name in about:
        about[name] = value
    else:
        arrays[name] = np.full_like(arrays[name], value)
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **arrays)
    before = trainee.predict(np.ones(3)), trainee.frames
    with pytest.raises(ValueError, match="the file is damaged"):
        trainee.load(path)
    assert np.array_equal(trainee.predict(np.ones(3)), before[0])
    assert trainee.frames == before[1]
