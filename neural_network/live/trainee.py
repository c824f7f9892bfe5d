# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainee: a small perceptron that learns from a stream, one frame at a time, in bounded time.

A frame is a row of inputs and a row of outputs, both plain numbers (``channels.py`` makes them from a rig's channels).
Learning from the newest frame alone does not converge: neighbouring frames are near-copies, so the network forgets
what it does not see. So every frame goes into a replay store, and each step learns from a random batch of the past.

One mutable object is wanted here: a stream has a state. Everything that is decided about it is in ``Settings``.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import json_of, read_archive
from ..learning import layers, model_file
from ..learning.optimizer import Adam, AdamSettings, inverse_time
from . import frame_store
from .frame_store import FrameStore

NEW, LEARNING, SOLVING = 0, 1, 2
STATES = ("new", "learning", "solving")
KIND = "live"  # of the model file
_ARRAYS = 10  # as large as the weights, which learning needs besides them
_SMALLEST = 1e-30  # a deviation below this was damaged, not measured; in float32 it would be zero
_OLDER_FORMAT = 1  # of saved files before model files had kinds


@dataclass(frozen=True)
class Settings:
    """Every number of the trainee that one may change."""

    hidden: tuple[int, ...] = (96, 64)
    """Widths of the tanh layers; a linear path runs beside them, so that simple maps are learned at once."""
    batch: int = 64
    """Frames a step: a step of the default size costs about a fifth of a millisecond in NumPy."""
    first_frames: int = 32
    """Frames before the first step: from fewer, the standardisation says nothing."""
    steps_a_frame: int = 24
    """Most steps for each frame seen, in sum: a stream that stands still costs nothing."""
    recent: int = 8
    """How many of a batch are the newest frames, so that a change is seen at once."""
    rate: float = 4e-3
    """Learning rate (Adam) at the start."""
    half_steps: float = 1500.0
    """Steps after which the rate is half of what it was at the start; it falls as 1 / (1 + steps / half_steps)."""
    least_rate: float = 2e-4
    """The rate never falls below this, so that a rig that changes can still be learned."""
    decay: float = 0.2
    """Weight decay for each unit of learning rate: on takes never seen it halves the error, and more."""
    least_deviation: float = 0.05
    """Inputs that vary less than this [m, or parts of a unit vector] are not blown up to vary as much as the others: what
    hardly moved in the frames seen says little of the frames to come."""
    farthest: float = 4.0
    """Inputs count as at most this many deviations from their mean: what was never seen must not be made up."""
    store_bytes: int = (2 << 20) - 4096
    """Most bytes of the inputs' and of the outputs' replay store, each; they grow with the frames that come."""
    store_frames: int = 16384
    """Most frames kept for replay; when the store is full, each new one replaces a random one."""
    threshold: float = 0.02
    """Error [m or rad] below which the trainee may drive."""
    calm_frames: int = 60
    """Frames in a row below the threshold before LEARNING becomes SOLVING."""
    alarm: float = 5.0
    """SOLVING falls back to LEARNING when the error is above this many thresholds."""
    guard: float = 12.0
    """Once SOLVING: a median of ``guard_frames`` errors above this many usual ones, and above the alarm, pauses."""
    guard_frames: int = 8
    """Newest frames that the guard looks at."""
    snapshot_frames: int = 240
    """Calm frames between two good snapshots."""


@dataclass(frozen=True)
class Status:
    """What a trainee says of itself."""

    state: int
    """NEW, LEARNING or SOLVING."""
    paused: bool
    """True when learning was paused, by the user or by the guard."""
    poisoned: bool
    """True when the guard paused it."""
    frames: int
    """Frames seen."""
    steps: int
    """Learning steps made."""
    error: float
    """Error of the newest frame before it was learned [m or rad, mean over the outputs]."""
    usual: float
    """The same, running mean over about the last 30 frames."""


@dataclass(frozen=True)
class _Snapshot:
    weights: tuple[np.ndarray, np.ndarray, np.ndarray]
    scales: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    moments: tuple[np.ndarray, np.ndarray]
    frames: int
    steps: int
    next_scale: int
    rows: int
    usual: float
    slow: float


class Trainee:
    """Learns ``inputs`` -> ``outputs`` from a stream of frames.

    ``groups`` are the sizes of the outputs' channels in order (3 for a position, 3 for a rotation vector, ...): the
    error of a frame is the mean over the first ``judged`` groups (all of them) of the Euclidean norm of the difference.
    Raises ValueError for empty sizes.
    """

    def __init__(
        self,
        inputs: int,
        groups: Sequence[int],
        settings: Settings | None = None,
        rng: np.random.Generator | None = None,
        judged: int | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.groups = tuple(int(g) for g in groups)
        self.inputs, self.outputs = int(inputs), sum(self.groups)
        if self.inputs < 1 or not self.groups or min(self.groups) < 1:
            raise ValueError(f"trainee: expected at least one input and one output, got {inputs} and {self.groups}")
        counted = self.groups[:judged]
        self._starts, self._judged = np.cumsum((0, *counted[:-1])), sum(counted)
        s, row = self.settings, 4 * max(self.inputs, self.outputs)
        capacity = int(max(64, min(s.store_frames, s.store_bytes // row)))
        self.store = FrameStore(self.inputs, self.outputs, capacity, s.recent)
        self._rng = rng or np.random.default_rng(0)
        self.reset()

    def reset(self) -> None:
        """Forget everything: weights, replay, statistics, snapshots."""
        s = self.settings
        self._widths = (self.inputs, *s.hidden, self.outputs)
        self._made = False
        self._memory: list[np.ndarray] = []
        self._begun: Iterator[None] | None = None
        """A learning step that is not complete."""
        self.store.clear()
        self._moments = np.zeros((2, self.inputs)), np.zeros((2, self.outputs))
        self._scales = (np.zeros(self.inputs), np.ones(self.inputs), np.zeros(self.outputs), np.ones(self.outputs))
        self._scales32 = tuple(v.astype(np.float32) for v in self._scales)
        self._next_scale = 1
        self.frames, self._rows = 0, 0
        self.state, self.paused, self.poisoned = NEW, False, False
        self.error, self.usual = float("nan"), float("nan")
        self._slow, self._calm, self._armed, self._since_snapshot = float("nan"), 0, False, 0
        self._recent_errors: list[float] = []
        self._good: _Snapshot | None = None

    def _make(self) -> None:
        """Make the network with the first frame: a rig that nobody teaches takes no memory."""
        if self._made:
            return
        self._flat = np.zeros(layers.parameter_count(self._widths, skip=True), np.float32)
        self._stack = layers.stack(self._flat, self._widths, skip=True)
        # the last layer starts at zero: an untrained network answers the mean of what it has seen
        for weight, _ in self._stack.layers[:-1]:
            self._rng.standard_normal(out=weight.reshape(-1), dtype=np.float32)
            weight /= np.sqrt(len(weight))
        self.store.make_room()
        self._made = True

    def prepare(self) -> bool:
        """Make one array of what learning needs besides; False, and nothing is made, where it has them all.

        These are the optimiser's state and room for a snapshot, ten times the weights in all. The first step makes what is
        missing; who must not take so much at once calls this before, again and again.
        """
        if self._learns:
            return False
        self._make()
        if len(self._memory) < _ARRAYS - 1:
            self._memory.append(np.full_like(self._flat, 0))  # written to, so that the system gives the memory now
            return True
        self._slope, *good = self._memory[:4]
        self._good_weights = (good[0], good[1], good[2])
        self._gradients = layers.stack(self._slope, self._widths, skip=True)
        mask = layers.weight_mask(self._widths, skip=True)
        settings = AdamSettings(0.9, 0.99, 1e-6, self.settings.decay)
        self._adam = Adam(self._flat, settings, mask, self._memory[4:])
        self._memory.append(mask)
        return True

    def _prepare(self) -> None:
        while self.prepare():
            pass

    @property
    def _learns(self) -> bool:
        """Whether it has what learning needs."""
        return len(self._memory) == _ARRAYS

    # -- the stream --------------------------------------------------------------------------------------------------

    def observe(self, x: np.ndarray, y: np.ndarray, also: tuple[np.ndarray, np.ndarray] | None = None) -> float:
        """Take one frame: judge it with what is known so far, then keep it for replay. Returns the error.

        ``x`` (inputs) and ``y`` (outputs). Nothing is learned here: that is ``train``. While paused, the frame is
        judged only. ``also`` is a second row to replay but not to judge (``channels.stray``). Raises ValueError for
        wrong sizes or values that are not finite; nothing has changed then.
        """
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        if x.shape != (self.inputs,) or y.shape != (self.outputs,):
            raise ValueError(
                f"frame: expected {self.inputs} inputs and {self.outputs} outputs, got {x.shape} and {y.shape}"
            )
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
            raise ValueError("frame: expected finite numbers, got NaN or infinity")
        first = self.frames == 0
        self._make()
        self.error = self._distance(self.predict(x), y)
        self.frames += 1
        if first:
            self.usual = self._slow = self.error
        self._judge()
        if not self.paused:
            self._keep(x, y)
            if also is not None:
                self._keep(np.asarray(also[0], np.float64), np.asarray(also[1], np.float64))
            if self.frames >= self._next_scale:
                self._rescale()
                self._next_scale = self.frames + max(1, self.frames // 8)
        return self.error

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Outputs (outputs) for ``x`` (inputs), or (N, outputs) for (N, inputs); before the first frame zeros."""
        if not self._made:
            return np.zeros((*np.shape(x)[:-1], self.outputs))
        mean, deviation, out_mean, out_deviation = self._scales
        unit = self._near((np.asarray(x, np.float64) - mean) / deviation).astype(np.float32)
        return layers.forward(self._stack, unit)[-1] * out_deviation + out_mean

    def train(self, steps: int, seconds: float = np.inf, clock: Callable[[], float] = time.perf_counter) -> int:
        """Learn from random batches of the past: at most ``steps`` of them, ending once ``seconds`` are over.

        Returns the number of steps made; 0 when there is nothing to do (see ``hungry``).
        """
        end = clock() + seconds
        done = 0
        while done < steps and self.hungry and (done == 0 or clock() < end):
            while not self.go_on():
                pass
            done += 1
        return done

    def go_on(self) -> bool:
        """Do a part of a learning step, about a third; True where that has completed it, or there is nothing to do.

        Between the parts frames may be observed, predictions made, and the trainee saved: the weights change in the last.
        """
        if self._begun is None:
            if not self.hungry:
                return True
            self._begun = self._step()
        try:
            next(self._begun)
        except StopIteration:
            self._begun = None
            return True
        return False

    @property
    def begun(self) -> bool:
        """Whether a learning step is not complete."""
        return self._begun is not None

    @property
    def hungry(self) -> bool:
        """True where a step would be made: not paused, enough frames seen, not more steps made than they are worth."""
        s = self.settings
        return not self.paused and self.store.stored >= s.first_frames and self.steps < s.steps_a_frame * self.frames

    def status(self) -> Status:
        """What to show: state, frames, error."""
        return Status(self.state, self.paused, self.poisoned, self.frames, self.steps, self.error, self.usual)

    # -- control -----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop learning; predicting goes on."""
        self.paused, self._begun = True, None

    def resume(self) -> None:
        """Learn again; the guard takes the present error as the usual one."""
        self.paused = self.poisoned = False
        self._slow = self.usual
        self._armed = False

    def undo(self) -> bool:
        """Go back to the last good snapshot and learn on: weights, statistics, and replay without what came since.

        Returns False, and changes nothing, where there is no snapshot yet.
        """
        if self._good is None:
            return False
        self._restore(self._good)
        self.paused = self.poisoned = False
        return True

    # -- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, statistics and replay to ``path`` (npz), whole or not at all: by renaming a temporary file."""
        for _ in self.save_in_pieces(path):
            pass

    def save_in_pieces(
        self, path: str | os.PathLike[str], *, put: Callable[[Path, Path], object] = os.replace
    ) -> Iterator[bool]:
        """The same, a small piece each time the next value is asked for, and without a copy of the replay store.

        Yields whether the weights are still being written: meanwhile ``train`` must not be called. Frames may be observed
        all the time. ``put`` as in :func:`~neural_network.core.files.whole_file`. Raises OSError, and Changed where the
        trainee was reset, undone or loaded meanwhile.
        """
        self._make()
        about = {
            "inputs": self.inputs,
            "groups": list(self.groups),
            "hidden": list(self.settings.hidden),
            "frames": self.frames,
            "steps": self.steps,
            "state": self.state,
            "error": self.error,
            "usual": self.usual,
            "slow": self._slow,
            "armed": self._armed,
            "next_scale": self._next_scale,
            "rows": self._rows,
        }
        tensors = layers.to_tensors(self._stack)
        rows = {}
        for name in ("first", "second"):
            if self._learns:
                tensors[f"adam.{name}"] = getattr(self._adam, name)
            else:
                rows[f"adam.{name}"] = model_file.Rows(self._flat.shape, self._flat.dtype, _zeros)
        weights = {"about", *tensors}
        tensors |= {f"scale_{i}": a for i, a in enumerate(self._scales)}
        tensors |= {f"moment_{i}": a.copy() for i, a in enumerate(self._moments)}
        with self.store.saving() as frames:
            model = model_file.Model(KIND, about, tensors)
            for name in model_file.write_in_pieces(path, model, {**rows, **frames}, put=put):
                yield name in weights

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take up what ``save`` wrote. Raises ValueError, and changes nothing, where the file is of other sizes."""
        about, tensors = _read(path)
        want = (self.inputs, list(self.groups), list(self.settings.hidden))
        got = tuple(about.get(k) for k in ("inputs", "groups", "hidden"))
        if want != got:
            raise ValueError(f"{path}: expected inputs, groups, hidden {want}, got {got}; reset to learn anew")
        self._make()
        self._prepare()
        try:
            if about.get("format") == _OLDER_FORMAT:
                tensors = _from_older(tensors, self._widths)
            flat = layers.from_tensors(tensors, self._widths, skip=True)
            model_file.require_learned({"the layers": flat})
            self._check(tensors)
            numbers = {k: int(about[k]) for k in ("frames", "steps", "state", "next_scale", "rows")}
            errors = {k: float(about[k]) for k in ("error", "usual", "slow")}
            armed = bool(about["armed"])
            _require_possible(numbers, tensors)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path}: the file is damaged: {error}") from None
        self.reset()
        self._make()
        self._prepare()
        self._flat[:], self._adam.step = flat, numbers["steps"]
        self._adam.first[:], self._adam.second[:] = tensors["adam.first"], tensors["adam.second"]
        scale_0, scale_1, scale_2, scale_3 = (np.array(tensors[f"scale_{i}"], np.float64) for i in range(4))
        self._scales = (scale_0, scale_1, scale_2, scale_3)
        self._scales32 = tuple(v.astype(np.float32) for v in self._scales)
        self._moments = (np.array(tensors["moment_0"], np.float64), np.array(tensors["moment_1"], np.float64))
        self.store.fill(*(tensors[name] for name in frame_store.NAMES))
        self.frames, self.state = numbers["frames"], numbers["state"]
        self.usual, self._slow, self._armed = errors["usual"], errors["slow"], armed
        self.error, self._next_scale = errors["error"], numbers["next_scale"]
        self._rows = numbers["rows"]

    def _check(self, tensors: Mapping[str, np.ndarray]) -> None:
        """ValueError unless the state beside the layers has this trainee's shapes and finite numbers."""
        expected: dict[str, tuple[int, ...]] = dict.fromkeys(("adam.first", "adam.second"), self._flat.shape)
        expected |= {f"scale_{i}": w.shape for i, w in enumerate(self._scales)}
        expected |= {f"moment_{i}": w.shape for i, w in enumerate(self._moments)}
        rows = len(tensors["replay.inputs"])
        expected |= {
            "replay.inputs": (rows, self.inputs),
            "replay.outputs": (rows, self.outputs),
            "replay.frame": (rows,),
        }
        for name, shape in expected.items():
            if tensors[name].shape != shape or not np.all(np.isfinite(tensors[name])):
                raise ValueError(f"expected finite numbers of shape {shape} under {name!r}")

    # -- inside ------------------------------------------------------------------------------------------------------

    def _near(self, unit: np.ndarray) -> np.ndarray:
        far = np.asarray(self.settings.farthest, unit.dtype)
        out: np.ndarray = np.minimum(np.maximum(unit, -far), far)
        return out

    def _distance(self, a: np.ndarray, b: np.ndarray) -> float:
        return float(np.sqrt(np.add.reduceat((a - b)[: self._judged] ** 2, self._starts)).mean())

    def _judge(self) -> None:
        s = self.settings
        self.usual += (self.error - self.usual) / 30
        self._recent_errors = [*self._recent_errors, self.error][-s.guard_frames :]
        if self.state == NEW:
            self.state = LEARNING
        self._calm = self._calm + 1 if self.usual < s.threshold and self.error < 2 * s.threshold else 0
        if self.state == LEARNING and self._calm >= s.calm_frames:
            self.state, self._armed = SOLVING, True
        elif self.state == SOLVING and self.usual > s.alarm * s.threshold:
            self.state = LEARNING
        sudden = statistics.median(self._recent_errors)  # the cut between two takes is one bad frame, not a jump
        full = len(self._recent_errors) == s.guard_frames
        if self._armed and full and not self.paused and sudden > max(s.guard * self._slow, s.alarm * s.threshold):
            self.pause()
            self.poisoned, self.state = True, LEARNING
        if not self.paused:
            self._slow += (min(self.error, 4 * self._slow + 1e-12) - self._slow) / 300
        self._since_snapshot += 1
        due = self.state == SOLVING and self._calm >= s.calm_frames and self._since_snapshot >= s.snapshot_frames
        if due and self._learns:
            self._good, self._since_snapshot = self._remember(), 0

    def _keep(self, x: np.ndarray, y: np.ndarray) -> None:
        self._rows += 1
        self.store.keep(x, y, self.frames, self._rng)
        for moments, value in zip(self._moments, (x, y), strict=True):
            delta = value - moments[0]
            moments[0] += delta / self._rows
            moments[1] += delta * (value - moments[0])

    def _rescale(self) -> None:
        """Bring the standardisation up to date; the weights stay, and learn the difference (see ``observe`` for when)."""
        (mean, spread), (out_mean, out_spread) = self._moments
        deviation = np.maximum(np.sqrt(spread / self._rows), self.settings.least_deviation)
        # an output that never moves keeps a small deviation: its mean is its prediction
        out_deviation = np.maximum(np.sqrt(out_spread / self._rows), 1e-6)
        self._scales = (mean.copy(), deviation, out_mean.copy(), out_deviation)
        self._scales32 = tuple(v.astype(np.float32) for v in self._scales)

    def _step(self) -> Iterator[None]:
        s = self.settings
        self._prepare()
        rows = self.store.batch(s.batch, self._rng)
        mean, deviation, out_mean, out_deviation = self._scales32
        x = self._near((self.store.x[rows] - mean) / deviation)
        y = (self.store.y[rows] - out_mean) / out_deviation
        activations = layers.forward(self._stack, x)
        yield
        # the gradient of half the mean squared residual: mean over the batch, sum over the outputs
        layers.backward(self._stack, activations, (activations[-1] - y) / np.float32(len(x)), self._gradients)
        yield
        rate = max(s.least_rate, s.rate * inverse_time(self.steps + 1, s.half_steps))
        self._adam.update(self._flat, self._slope, rate)

    @property
    def steps(self) -> int:
        """Learning steps made."""
        return self._adam.step if self._learns else 0

    def _remember(self) -> _Snapshot:
        self._prepare()
        for kept, now in zip(self._good_weights, (self._flat, self._adam.first, self._adam.second), strict=True):
            kept[:] = now
        return _Snapshot(
            self._good_weights,
            self._scales,
            (self._moments[0].copy(), self._moments[1].copy()),
            self.frames,
            self.steps,
            self._next_scale,
            self._rows,
            self.usual,
            self._slow,
        )

    def _restore(self, good: _Snapshot) -> None:
        self._flat[:], self._adam.first[:], self._adam.second[:] = good.weights
        self._scales = good.scales
        self._scales32 = tuple(v.astype(np.float32) for v in self._scales)
        self._moments = (good.moments[0].copy(), good.moments[1].copy())
        self.frames, self._adam.step, self._next_scale = good.frames, good.steps, good.next_scale
        self._rows = good.rows
        self.usual = self.error = good.usual
        self._slow, self._calm, self._armed, self._since_snapshot = good.slow, 0, True, 0
        self.state, self._recent_errors = SOLVING, []
        self._begun = None
        self.store.forget_after(good.frames)


def _zeros(begin: int, end: int) -> np.ndarray:
    return np.zeros(end - begin, np.float32)


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    """The JSON values and the arrays of a saved trainee, of this format or the older one; ValueError in words."""
    try:
        model = model_file.read(path, KIND)
        return model.about, model.tensors
    except (OSError, ValueError) as error:
        reason = error
    try:  # before model files had kinds
        arrays = read_archive(Path(path), "a trainee")
        about: dict[str, Any] = json_of(arrays.pop("head"))
        if about["format"] == _OLDER_FORMAT:
            return about, arrays
    except Exception:  # a damaged file raises many kinds; the first reason says it best
        pass
    raise ValueError(f"{path}: expected weights saved by the trainee, could not read them: {reason}") from reason


def _require_possible(numbers: Mapping[str, int], tensors: Mapping[str, np.ndarray]) -> None:
    """ValueError for counters and statistics that no trainee can have come to."""
    if not all(0 <= n < 2**53 for n in numbers.values()) or numbers["state"] >= len(STATES):
        raise ValueError(f"expected counters from 0 and a state below {len(STATES)}, got {dict(numbers)}")
    model_file.require_learned({n: a for n, a in tensors.items() if n.startswith(("scale_", "moment_"))})
    model_file.require_learned({n: tensors[n] for n in ("adam.first", "adam.second")})
    positive = all(np.all(tensors[name] > _SMALLEST) for name in ("scale_1", "scale_3"))
    if (
        not positive
        or np.any(tensors["adam.second"] < 0)
        or any(np.any(tensors[f"moment_{i}"][1] < 0) for i in range(2))
    ):
        raise ValueError("expected deviations above 0 and mean squares from 0")


def _from_older(tensors: Mapping[str, np.ndarray], widths: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The arrays of the older format under today's names: it held all matrices, the linear path, then all biases."""
    shapes = [*itertools.pairwise(widths), (widths[0], widths[-1]), *((w,) for w in widths[1:])]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    flat: dict[str, np.ndarray] = {}
    for name in ("w", "m", "v"):
        if tensors[name].shape != (ends[-1],):
            raise ValueError(f"expected {ends[-1]} numbers under {name!r}, got {tensors[name].shape}")
        parts = [a.reshape(s) for a, s in zip(np.split(tensors[name], ends[:-1]), shapes, strict=True)]
        depth = len(widths) - 1
        named = {f"layer_{i + 1}.weights": parts[i] for i in range(depth)} | {"skip.weights": parts[depth]}
        named |= {f"layer_{i + 1}.bias": parts[depth + 1 + i] for i in range(depth)}
        flat[name] = layers.from_tensors(named, widths, skip=True)
        if name == "w":
            out = named
    out |= {"adam.first": flat["m"], "adam.second": flat["v"]}
    out |= {f"scale_{i}": tensors[f"s{i}"] for i in range(4)} | {f"moment_{i}": tensors[f"n{i}"] for i in range(2)}
    return out | {"replay.inputs": tensors["x"], "replay.outputs": tensors["y"], "replay.frame": tensors["age"]}
