# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop on tasks so small that every step can be told in advance: schedule, averaging, patience, stopping, resuming."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neural_network.learning import loop
from neural_network.learning.loop import LoopSettings, Position, State
from neural_network.learning.optimizer import AdamSettings, cosine
from neural_network.learning.stopping import Terminated

SETTINGS = LoopSettings(epochs=6, lr=0.01)


class Slope:
    """A value that falls as steeply everywhere: each step moves every parameter by exactly the step size."""

    def __init__(self, values: Sequence[float] = ()) -> None:
        self.seen: list[float] = []
        self.values = list(values)

    def initial(self) -> np.ndarray:
        return np.zeros(3)

    def batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        return [np.arange(4)] * 5

    def gradient(
        self, parameters: np.ndarray, rows: np.ndarray, rng: np.random.Generator, position: Position, into: np.ndarray
    ) -> float | None:
        self.seen.append(float(parameters[0]))
        into[...] = -1
        return float(position.step)

    def validate(self, parameters: np.ndarray) -> float:
        return self.values.pop(0) if self.values else -float(parameters[0])

    def describe(self) -> dict[str, Any]:
        return {"name": "slope"}


class Noisy(Slope):
    """A parabola seen through noise: the weights wander about the minimum, their average stands near it."""

    def gradient(
        self, parameters: np.ndarray, rows: np.ndarray, rng: np.random.Generator, position: Position, into: np.ndarray
    ) -> float | None:
        into[...] = parameters - 1 + 4 * rng.normal(size=3)
        return float(np.sum((parameters - 1) ** 2))

    def validate(self, parameters: np.ndarray) -> float:
        return float(np.sum((parameters - 1) ** 2))


def final(task: loop.Task, settings: LoopSettings, state: State | None = None) -> State:
    *_, last = loop.train(task, settings, state)
    return last.state


def test_the_step_size_follows_half_a_cosine() -> None:
    task = Slope()
    final(task, SETTINGS)
    rates = np.diff(task.seen)
    steps = np.arange(len(rates))
    expected = [SETTINGS.lr * cosine(step / 30, SETTINGS.lr_end) for step in steps]
    np.testing.assert_allclose(rates, expected, rtol=1e-5)
    assert rates[-1] < 0.05 * rates[0]


def test_the_averaged_weights_are_validated_and_kept_and_are_better_than_the_last_ones() -> None:
    settings = replace(SETTINGS, epochs=60, lr=0.1, lr_end=1.0)
    states = [e.state for e in loop.train(Noisy(), replace(settings, epochs=600, patience=600))][300:]
    last, averaged = (np.mean([(getattr(s, n) - 1) ** 2 for s in states]) for n in ("parameters", "average"))
    assert averaged < last / 3
    first = next(loop.train(Noisy(), settings))
    np.testing.assert_array_equal(first.state.best, first.state.average)
    assert first.validation == Noisy().validate(first.state.average)


def test_without_averaging_the_weights_themselves_are_kept() -> None:
    first = next(loop.train(Noisy(), replace(SETTINGS, adam=AdamSettings())))
    np.testing.assert_array_equal(first.state.best, first.state.parameters)


def test_the_value_of_an_epoch_is_the_mean_over_its_batches() -> None:
    epochs = list(loop.train(Slope(), SETTINGS))
    assert [e.value for e in epochs[:2]] == [2.0, 7.0]
    assert epochs[-1].state.history == tuple((e.value, e.validation) for e in epochs)


def test_the_best_weights_are_those_of_the_lowest_figure() -> None:
    epochs = list(loop.train(Slope([3, 1, 2, 5, 4, 6]), SETTINGS))
    assert [e.best for e in epochs] == [True, True, False, False, False, False]
    assert (epochs[-1].best_epoch, epochs[-1].best_value) == (2, 1)
    np.testing.assert_array_equal(epochs[-1].state.best, epochs[1].state.average)


def test_patience_jumps_to_the_last_quarter_of_the_schedule_once_and_then_ends() -> None:
    task = Slope([1] + [2] * 99)
    epochs = list(loop.train(task, replace(SETTINGS, epochs=100, patience=4)))
    assert [round(e.share, 2) for e in epochs[:5]] == [0.01, 0.02, 0.03, 0.04, 0.75]
    assert len(epochs) == 9
    assert epochs[-1].ended
    assert epochs[-1].share == 1
    rates = np.diff(task.seen)
    assert rates[25] < 0.2 * rates[24]


def test_a_time_limit_ends_the_training_and_drives_the_schedule() -> None:
    epochs = list(loop.train(Noisy(), replace(SETTINGS, epochs=10**9, patience=10**9, time_limit=0.05)))
    assert epochs[-1].share == 1
    assert not epochs[-1].ended
    assert epochs[-1].state.spent >= 0.05


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_a_stopped_training_continues_to_the_same_bytes(stop: int, tmp_path: Path) -> None:
    whole = final(Noisy(), SETTINGS)
    halfway = next(e for e in loop.train(Noisy(), SETTINGS) if e.number == stop).state
    belongs_to = loop.identity(Noisy(), SETTINGS)
    loop.save_state(tmp_path / "a.resume.npz", halfway, belongs_to)
    found = loop.load_state(tmp_path / "a.resume.npz", belongs_to)
    resumed = final(Noisy(), SETTINGS, replace(found, **{n: getattr(halfway, n) for n in ("parameters", "average")}))
    assert resumed.step == whole.step
    assert resumed.history[:stop] == whole.history[:stop]
    np.testing.assert_allclose(resumed.parameters, whole.parameters, atol=1e-6)  # the file holds float32
    again = final(Noisy(), SETTINGS, halfway)
    assert again.parameters.tobytes() == whole.parameters.tobytes()
    assert again.best.tobytes() == whole.best.tobytes()


def test_run_stops_when_asked_and_saves_first() -> None:
    saved: list[int] = []
    seen: list[int] = []
    result = loop.run(
        Noisy(),
        SETTINGS,
        on_epoch=lambda e: seen.append(e.number),
        should_stop=lambda: len(seen) == 2,
        save=lambda state: saved.append(state.epoch),
    )
    assert result.cancelled
    assert (seen, saved) == ([1, 2], [2])
    assert result.figures(4)["epochs"] == 2
    assert result.figures(4)["samples_per_second"] > 0


def test_run_goes_to_the_end_otherwise() -> None:
    result = loop.run(Noisy(), SETTINGS)
    assert not result.cancelled
    assert result.last is not None
    assert result.last.number == 6
    assert result.steps == 30
    finished = loop.run(Noisy(), SETTINGS, result.state)
    assert finished.last is None
    assert finished.state is result.state


def test_other_settings_or_another_task_are_not_resumed(tmp_path: Path) -> None:
    state = final(Noisy(), SETTINGS)
    path = loop.state_path(tmp_path / "best.npy")
    assert path.name == "best.resume.npz"
    with pytest.raises(ValueError, match=r"nothing to resume: .*train without --resume"):
        loop.load_state(path, {})
    loop.save_state(path, state, loop.identity(Noisy(), SETTINGS))
    with pytest.raises(ValueError, match=r"had other data or settings \(lr was 0.01\)"):
        loop.load_state(path, loop.identity(Noisy(), replace(SETTINGS, lr=0.02)))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"best.resume.npz: not a stopped training"):
        loop.load_state(path, loop.identity(Noisy(), SETTINGS))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", -1),
        ("epoch", 99),
        ("epoch", "x"),
        ("step", -5),
        ("step", 1.5),
        ("best_epoch", 99),
        ("best_value", float("nan")),
        ("best_value", None),
        ("spent", -1e9),
        ("spent", float("nan")),
        ("ahead", -5),
        ("since", "x"),
        ("rng", {}),
        ("rng", None),
        ("parameters", np.full(3, np.nan)),
        ("second", -np.ones(3)),
        ("best", np.zeros(4)),
        ("best", np.zeros(3, complex)),
        ("first", np.array(1.0)),
        ("average", np.array(["a", "b", "c"])),
        ("step", None),
        ("step", 2**70),
        ("step", True),
        ("epoch", 0),
        ("best_value", []),
        ("best_value", 10**400),
        ("history", None),
        ("history", ((1.0, float("nan")),)),
        ("history", ((1.0,),)),
        ("ended", 1),
        ("rng", {"bit_generator": "PCG64", "state": {"state": 1.5, "inc": 1}, "has_uint32": 0, "uinteger": 0}),
        ("rng", {"bit_generator": "PCG64", "state": {"state": 2**200, "inc": 1}, "has_uint32": 0, "uinteger": 0}),
        ("rng", {"bit_generator": "MT19937"}),
    ],
)
def test_a_stopped_training_that_cannot_be_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    state = next(loop.train(Noisy(), SETTINGS)).state
    belongs_to = loop.identity(Noisy(), SETTINGS)
    loop.save_state(tmp_path / "a.resume.npz", replace(state, **{name: value}), belongs_to)
    with pytest.raises(ValueError, match=r"a.resume.npz: not a stopped training .*; train without --resume"):
        loop.load_state(tmp_path / "a.resume.npz", belongs_to)


def test_a_stopped_training_of_another_network_is_refused() -> None:
    state = next(loop.train(Noisy(), SETTINGS)).state
    shorter = replace(state, **{name: getattr(state, name)[:-1] for name in loop._ARRAYS})
    size = state.parameters.size
    with pytest.raises(ValueError, match=rf"has {size - 1} parameters, expected {size}; train without --resume"):
        next(loop.train(Noisy(), SETTINGS, shorter))


@pytest.mark.parametrize("name", ["about", "identity"])
def test_a_text_of_a_stopped_training_that_is_a_number_takes_no_memory(name: str, tmp_path: Path) -> None:
    """bytes() of a NumPy integer makes that many zero bytes."""
    path, belongs_to = tmp_path / "a.resume.npz", loop.identity(Noisy(), SETTINGS)
    loop.save_state(path, next(loop.train(Noisy(), SETTINGS)).state, belongs_to)
    with np.load(path) as found:
        arrays = {key: found[key] for key in found.files}
    np.savez(path, **{**arrays, name: np.array(1 << 40)})
    with pytest.raises(ValueError, match="expected the bytes of a JSON text, got int64"):
        loop.load_state(path, belongs_to)


def test_a_training_that_is_terminated_saves_its_last_epoch_and_says_by_what() -> None:
    saved: list[State] = []

    class Ended(Noisy):
        def validate(self, parameters: np.ndarray) -> float:
            if self.seen_epochs == 3:
                raise Terminated(signal.SIGTERM)
            self.seen_epochs += 1
            return super().validate(parameters)

        seen_epochs = 0

    result = loop.run(Ended(), SETTINGS, save=saved.append)
    assert (result.cancelled, result.signal, result.state.epoch) == (True, signal.SIGTERM, 3)
    assert [state.epoch for state in saved] == [3]
    np.testing.assert_array_equal(final(Noisy(), SETTINGS, saved[0]).best, final(Noisy(), SETTINGS).best)
    none = Ended()
    none.seen_epochs = 3
    with pytest.raises(Terminated):
        loop.run(none, SETTINGS, save=saved.append)


def test_a_training_that_has_ended_is_not_continued() -> None:
    settings = replace(SETTINGS, epochs=100, patience=4)
    state = final(Slope([1] + [2] * 99), settings)
    assert state.ended
    assert list(loop.train(Slope(), settings, state)) == []


def test_the_state_is_saved_at_the_end_as_well() -> None:
    saved: list[State] = []
    loop.run(Noisy(), SETTINGS, save=saved.append)
    assert [state.ended for state in saved] == [True]
