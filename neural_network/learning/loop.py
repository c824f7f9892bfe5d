# SPDX-License-Identifier: GPL-3.0-or-later
"""The training loop: one generator for every network of the project, which knows a :class:`Task` and nothing else.

:func:`train` yields an :class:`Epoch` after each pass over the data; nothing here prints. :func:`run` drives it to its end,
watches for Ctrl-C, a cancel file and the time between saves, and says how it ended. A training that was stopped continues
from its :class:`State` to the very bytes of an uninterrupted one.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..core.files import json_of, read_archive, write_whole
from .optimizer import Adam, AdamSettings, cosine
from .stopping import Terminated

SETTLE = 0.75  # share of the schedule to which it jumps when patience runs out: stopping at a large step size wastes what was learned
SAVE_EVERY = 20.0  # [s] between saves of the state to resume from
ADAM_ARRAYS = ("first", "second", "average")


@dataclass(frozen=True)
class LoopSettings:
    """How long and how fast a network is trained, whatever it learns."""

    epochs: int = 300
    """Most epochs; early stopping usually ends the training before."""
    lr: float = 0.001
    """Step size at the start of the cosine schedule."""
    lr_end: float = 0.02
    """Share of ``lr`` that is left at the end."""
    patience: int = 40
    """Epochs without a better validation figure before the schedule jumps to its last quarter; as many again end training."""
    time_limit: float = 0.0
    """[CPU s] for the whole training; the schedule then follows the time. 0: no limit."""
    seed: int = 0
    """Of the order of the data and of everything that the task draws."""
    adam: AdamSettings = field(default_factory=lambda: AdamSettings(average=0.995))
    """The averaged weights are validated and kept where ``average`` is not 0, else the weights themselves."""


@dataclass(frozen=True)
class Position:
    """Where in a training a batch is drawn, for tasks whose loss follows a schedule of its own."""

    step: int
    """Batches seen before this one."""
    history: tuple[tuple[float, float], ...]
    """(training value, validation figure) of every epoch before this one."""


class Describable(Protocol):
    """What can say which task it is."""

    def describe(self) -> dict[str, Any]:
        """Plain JSON values that identify the task: a stopped training continues only where they are equal."""


class Task(Describable, Protocol):
    """What a wing says about its learning; the loop does the rest."""

    def initial(self) -> np.ndarray:
        """(P) float32 parameters to begin with."""

    def batches(self, rng: np.random.Generator) -> Sequence[np.ndarray]:
        """Rows of one epoch's batches, in order."""

    def gradient(
        self, parameters: np.ndarray, rows: np.ndarray, rng: np.random.Generator, position: Position, into: np.ndarray
    ) -> float | None:
        """Draw the batch ``rows``, write the gradient ``into`` (P), and return the value to show; None: not measured."""

    def validate(self, parameters: np.ndarray) -> float:
        """The figure that chooses the best weights, lower is better, on data that is neither trained nor tested on."""


@dataclass(frozen=True)
class State:
    """All that a training needs to continue."""

    parameters: np.ndarray
    average: np.ndarray
    first: np.ndarray
    second: np.ndarray
    best: np.ndarray
    step: int
    epoch: int
    best_epoch: int
    best_value: float
    spent: float
    """[CPU s]; of a training in PyTorch wall seconds"""
    rng: dict[str, Any]
    history: tuple[tuple[float, float], ...]
    """(training value, validation figure) of every epoch."""
    ahead: float = 0.0
    """Share of the schedule that was skipped when patience ran out."""
    since: int = 0
    """Epoch from which patience counts."""
    ended: bool = False
    """The training is over: there is nothing to continue."""


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to."""

    number: int
    """From 1."""
    of: int
    """Most epochs."""
    share: float
    """0 to 1, how much of the training is done: by epochs, or by time where a time limit is set."""
    value: float
    """Mean of the task's training values over the batches, augmentation included; 0 where none was measured."""
    validation: float
    """The task's validation figure."""
    best: bool
    """A new best validation figure."""
    best_value: float
    best_epoch: int
    ended: bool
    """Patience ran out for good."""
    state: State


def train(task: Task, settings: LoopSettings, state: State | None = None) -> Iterator[Epoch]:
    """Train until ``settings.epochs``, the time limit or the end of patience; ``state`` continues a stopped training.

    After ``patience`` epochs without a better validation figure the schedule jumps to its last quarter, where the step size
    falls and the average settles; the second time training ends. Raises ValueError where the task refuses its data.
    """
    start = task.initial()
    if state is not None and state.parameters.shape != start.shape:
        raise ValueError(
            f"the stopped training has {state.parameters.size:,} parameters, expected {start.size:,}; train without --resume"
        )
    if state is None:
        zeros = np.zeros_like(start)
        rng = np.random.default_rng([settings.seed, 1])
        state = State(start, start, zeros, zeros, start, 0, 0, 0, float("inf"), 0.0, dict(rng.bit_generator.state), ())
    if state.ended:
        return
    parameters, best = state.parameters.copy(), state.best.copy()
    adam = _adam_of(state, settings)
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng
    gradient = np.zeros_like(parameters)
    epoch, best_epoch, best_value = state.epoch, state.best_epoch, state.best_value
    history, ahead, since = state.history, state.ahead, state.since
    began = time.process_time() - state.spent

    while epoch < settings.epochs:
        value = _one_epoch(task, settings, adam, parameters, gradient, rng, epoch, ahead, began, history)
        kept = adam.average if settings.adam.average else parameters
        validation = task.validate(kept)
        epoch += 1
        better = validation < best_value
        if better:
            best_value, best_epoch = validation, epoch
            best[...] = kept
        spent = time.process_time() - began
        history = (*history, (value, validation))
        share = min(1.0, _share(settings, epoch, spent) + ahead)
        over = epoch - max(best_epoch, since) >= settings.patience
        if over and share < SETTLE:
            ahead, since, share, over = ahead + SETTLE - share, epoch, SETTLE, False
        state = State(
            parameters=parameters.copy(),
            average=adam.average.copy(),
            first=adam.first.copy(),
            second=adam.second.copy(),
            best=best.copy(),
            step=adam.step,
            epoch=epoch,
            best_epoch=best_epoch,
            best_value=best_value,
            spent=spent,
            rng=dict(rng.bit_generator.state),
            history=history,
            ahead=ahead,
            since=since,
            ended=over or share >= 1,
        )
        share = 1.0 if over else share
        yield Epoch(epoch, settings.epochs, share, value, validation, better, best_value, best_epoch, over, state)
        if share >= 1:
            return


def _one_epoch(
    task: Task,
    settings: LoopSettings,
    adam: Adam,
    parameters: np.ndarray,
    gradient: np.ndarray,
    rng: np.random.Generator,
    epoch: int,
    ahead: float,
    began: float,
    history: tuple[tuple[float, float], ...],
) -> float:
    """Step through the batches of one epoch; returns the mean training value, 0 where none was measured."""
    batches = task.batches(rng)
    count = sum(len(rows) for rows in batches)
    share = min(1.0, _share(settings, epoch, time.process_time() - began) + ahead)
    total, measured, seen = 0.0, 0, 0
    for rows in batches:
        within = seen / count / settings.epochs if not settings.time_limit else 0.0
        value = task.gradient(parameters, rows, rng, Position(adam.step, history), gradient)
        adam.update(parameters, gradient, settings.lr * cosine(share + within, settings.lr_end))
        seen += len(rows)
        if value is not None:
            total += value * len(rows)
            measured += len(rows)
        if settings.time_limit and time.process_time() - began > settings.time_limit:
            break
    return total / max(1, measured)


def _adam_of(state: State, settings: LoopSettings) -> Adam:
    adam = Adam(state.parameters, settings.adam)
    adam.step = state.step
    for name in ADAM_ARRAYS:
        setattr(adam, name, getattr(state, name).copy())
    return adam


def _share(settings: LoopSettings, epoch: int, spent: float) -> float:
    by_epoch = epoch / settings.epochs
    return min(1.0, max(by_epoch, spent / settings.time_limit) if settings.time_limit else by_epoch)


# ---- to the end, with interruptions


@dataclass(frozen=True)
class Result:
    """How a training ended."""

    state: State
    last: Epoch | None
    """The last epoch of this run; None where the training had already ended."""
    cancelled: bool
    """It was asked to stop before its end."""
    seconds: float
    """Wall time of this run."""
    cpu_seconds: float
    """CPU time of this run."""
    earlier: float
    """[CPU s] spent by the runs that this one continues."""
    steps: int
    """Steps of this run."""
    signal: int = 0
    """The signal that ended it at once, 0 where there was none."""

    def figures(self, batch_size: int) -> dict[str, Any]:
        """Plain figures for a card: seconds, CPU seconds, epochs, the best one, and samples a second of CPU time."""
        return {
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds + self.earlier,
            "epochs": self.state.epoch,
            "best_epoch": self.state.best_epoch,
            "samples_per_second": self.steps * batch_size / max(self.cpu_seconds, 1e-9),
        }


def run(
    task: Task,
    settings: LoopSettings,
    state: State | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    should_stop: Callable[[], bool] = lambda: False,
    save: Callable[[State], None] | None = None,
) -> Result:
    """Train to the end, or until ``should_stop()`` is true after an epoch, or until a signal ends the program: see :func:`drive`."""
    return drive(train(task, settings, state), state, on_epoch, should_stop, save)


def drive(
    epochs: Iterator[Epoch],
    state: State | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    should_stop: Callable[[], bool] = lambda: False,
    save: Callable[[State], None] | None = None,
) -> Result:
    """Run a training that is an iterator of ``epochs``, continued from ``state``, to its end or until it is stopped.

    A :class:`~neural_network.learning.stopping.Terminated` gives up the epoch that is running and counts as cancelled; it is
    passed on only where no epoch is complete. ``on_epoch`` sees every epoch; ``save`` is called with the state every
    :data:`SAVE_EVERY` seconds, when stopped and at the end.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    saved_at = wall
    earlier, first_step = (state.spent, state.step) if state is not None else (0.0, 0)
    epoch, cancelled, signal = None, False, 0
    try:
        for epoch in epochs:
            on_epoch(epoch)
            cancelled = should_stop()
            if save is not None and (cancelled or time.perf_counter() - saved_at > SAVE_EVERY):
                saved_at = time.perf_counter()
                save(epoch.state)
            if cancelled:
                break
    except Terminated as end:
        if epoch is None:
            raise
        cancelled, signal = True, end.number
        if save is not None:
            save(epoch.state)
    if save is not None and epoch is not None and not cancelled:
        save(epoch.state)  # whatever comes after the training may be interrupted too
    last = state if epoch is None else epoch.state
    if last is None:
        raise ValueError("epochs: expected at least one, got 0")
    spent = time.process_time() - cpu
    return Result(last, epoch, cancelled, time.perf_counter() - wall, spent, earlier, last.step - first_step, signal)


# ---- an epoch in words


def line(epoch: Epoch) -> str:
    """One line for a terminal: how far, the mean training value, the validation figure, and a star at a new best one."""
    star = " *" if epoch.best else ""
    return (
        f"{epoch.share * 100:5.1f} %  epoch {epoch.number:4d}  loss {epoch.value:.5f}  "
        f"validation {epoch.validation:.5f}{star}"
    )


def record(epoch: Epoch) -> dict[str, Any]:
    """Plain values for a line of the progress file."""
    return {
        "epoch": epoch.number,
        "of": epoch.of,
        "share": epoch.share,
        "loss": epoch.value,
        "validation": epoch.validation,
        "best": epoch.best,
        "best_value": epoch.best_value,
        "best_epoch": epoch.best_epoch,
    }


# ---- a stopped training on disk


def state_path(weights: Path) -> Path:
    """Where a stopped training of ``weights`` waits to be resumed."""
    return weights.with_name(weights.stem + ".resume.npz")


def identity(task: Describable, settings: Any) -> dict[str, Any]:
    """What a stopped training must have in common with the one that continues it: settings, a dataclass, and the task's words."""
    return {"settings": asdict(settings), "task": task.describe()}


def pack(state: State) -> dict[str, np.ndarray]:
    """A State as plain arrays, for an npz without pickle."""
    about = {f.name: getattr(state, f.name) for f in fields(State) if f.name not in _ARRAYS}
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return {**{name: getattr(state, name) for name in _ARRAYS}, "about": text}


def unpack(arrays: dict[str, np.ndarray]) -> State:
    """The State that :func:`pack` laid out."""
    about: dict[str, Any] = json_of(arrays["about"])
    about["history"] = tuple((float(a), float(b)) for a, b in about["history"])
    for name in _ARRAYS:
        if arrays[name].dtype.kind != "f":
            raise ValueError(f"{name}: expected real numbers, got {str(arrays[name].dtype)[:60]}")
        about[name] = np.array(arrays[name], np.float32)
        if about[name].ndim != 1 or about[name].shape != about["parameters"].shape:
            raise ValueError(f"{name}: expected {about['parameters'].shape} numbers, got {about[name].shape}")
        if not np.all(np.isfinite(about[name])):
            raise ValueError(f"{name}: expected finite numbers")
    state = State(**about)
    _require_possible(state)
    return state


def _require_possible(state: State) -> None:
    """ValueError for counters, figures or a random state that no training can have come to."""
    counters = (state.step, state.epoch, state.best_epoch, state.since)
    if not all(type(n) is int and 0 <= n < 2**53 for n in counters) or type(state.ended) is not bool:
        raise ValueError(f"expected whole counters from 0, got {counters}")
    if not 1 <= state.epoch == len(state.history) or max(state.best_epoch, state.since) > state.epoch:
        raise ValueError(f"expected {state.epoch} epochs of history, got {len(state.history)}")
    if np.isnan(np.array(state.history)).any():
        raise ValueError("expected numbers in the history")
    for name in ("best_value", "spent", "ahead"):
        value = getattr(state, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or np.isnan(value):
            raise ValueError(f"{name}: expected a number, got {value!r}")
    if not (0 <= state.spent < float("inf") and 0 <= state.ahead <= 1 and np.all(state.second >= 0)):
        raise ValueError("expected the time spent, the schedule and the mean squares to be possible ones")
    generator = np.random.default_rng().bit_generator
    generator.state = state.rng
    if generator.state != state.rng:
        raise ValueError("rng: expected the state of a random generator")


_ARRAYS = ("parameters", "average", "first", "second", "best")


def save_state(path: Path, state: State, belongs_to: dict[str, Any]) -> None:
    """Write a stopped training, whole or not at all, with the :func:`identity` it belongs to."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(belongs_to, sort_keys=True).encode(), np.uint8)
    np.savez(buffer, identity=text, **pack(state))  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def load_state(path: Path, belongs_to: dict[str, Any]) -> State:
    """Read a stopped training; ValueError where there is none, it is damaged, or it had other data or settings."""
    if not path.exists():
        raise ValueError(f"nothing to resume: no stopped training at {path}; train without --resume")
    try:
        arrays = read_archive(path, "a stopped training", ("identity", "about", *_ARRAYS))
        found = json_of(arrays.pop("identity"))
        state = unpack(arrays)
    except OSError:
        raise
    except Exception as error:  # a damaged file raises many kinds
        raise ValueError(f"{path.name}: not a stopped training ({error}); train without --resume") from None
    wanted = json.loads(json.dumps(belongs_to))
    if found != wanted:
        raise ValueError(
            f"{path.name}: the stopped training had other data or settings ({_first_difference(found, wanted)}); "
            "resume with the same ones, or train without --resume"
        )
    return state


def _first_difference(found: Any, wanted: Any) -> str:
    """The first setting that differs, in words."""
    for group in ("config", "settings", "task"):
        inner, other = (tree.get(group) if isinstance(tree, dict) else None for tree in (found, wanted))
        if isinstance(inner, dict) and isinstance(other, dict) and inner != other:
            deeper = _first_difference(inner, other)
            if deeper != _OTHER:
                return deeper
            for name, value in inner.items():
                if other.get(name) != value and name not in ("data", "adam", "losses"):
                    return f"{name} was {value}"
    return _OTHER


_OTHER = "other poses or another split"
