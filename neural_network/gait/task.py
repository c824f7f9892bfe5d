# SPDX-License-Identifier: GPL-3.0-or-later
"""The distillation as a task of the training loop: draw samples of cycles, compare what the network says, return the gradient.

The loss is the mean of 5 difference^2, differences of the Hips' way weighing double and those of head and arms half. The source
takes differences as they are; here (``standardise``) those of the Hips' way are divided by their deviation, and those of all
rotations by one number, so that a degree counts alike in every joint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..learning import layers
from ..learning.loop import LoopSettings, Position
from ..learning.optimizer import AdamSettings
from . import curves, network, representation
from .network import Gait
from .parameters import mirrored, right_strike
from .representation import ARMS, CYCLE, LEGS, ROOT, SIZE
from .teacher import Model

VALIDATION = 0.06
"""Share of the cycles that choose the best weights."""


@dataclass(frozen=True)
class Training:
    """Settings of a training."""

    hidden: tuple[int, ...] = (384, 384)
    activation: str = "relu"
    harmonics: int = 4
    lr: float = 0.002
    lr_end: float = 0.01
    batch_size: int = 512
    epochs: int = 60
    patience: int = 12
    clamp: float = 0.0
    """Largest size of every entry of the gradient; 0: no limit."""
    average: float = 0.998
    standardise: bool = True
    root_weight: float = 2.0
    arm_weight: float = 0.5
    leg_weight: float = 1.0
    scale: float = 5.0
    mirror: bool = True
    """Learn from every cycle in a mirror, too."""
    cycles: int = 8000
    """Of the teacher, to learn from."""
    seed: int = 0
    time_limit: float = 0.0


SOURCE = Training(
    hidden=(512, 512, 512),
    activation="relu",
    harmonics=1,
    lr=1e-5,
    lr_end=1.0,
    batch_size=128,
    epochs=5,
    clamp=0.1,
    average=0.0,
    standardise=False,
    mirror=False,
)
"""As Forward GaitNet's documentation has it: 512-512-512 ReLU, Adam 1e-5, batch 128, 5 epochs a round, clamped gradients."""
PRESETS = {"source": SOURCE, "ours": Training()}


def loop_settings(t: Training) -> LoopSettings:
    """What the loop needs to know."""
    return LoopSettings(t.epochs, t.lr, t.lr_end, t.patience, t.time_limit, t.seed, AdamSettings(average=t.average))


@dataclass(frozen=True)
class Samples:
    """Cycles in memory."""

    motions: np.ndarray
    """(C, CYCLE, 101) float32, one cycle of each."""
    params: np.ndarray
    """(C, P) float32."""

    def digest(self) -> str:
        """Content hash."""
        found = hashlib.sha256(np.ascontiguousarray(self.motions).tobytes())
        found.update(np.ascontiguousarray(self.params).tobytes())
        return found.hexdigest()[:16]


def _spread(flat: np.ndarray) -> np.ndarray:
    """(101) what outputs (N, 101) are divided by: one number for all rotations, so that a degree counts alike everywhere."""
    own = flat.std(axis=0)
    turns = np.ones(SIZE, bool)
    turns[ROOT] = False
    return np.where(turns, np.sqrt(np.mean(own[turns] ** 2)), np.maximum(own, 1e-3))


def with_mirrors(samples: Samples) -> Samples:
    """The cycles and the same cycles in a mirror, begun where it is the left foot again that strikes."""
    values = samples.params.astype(np.float64)
    shift = right_strike(values)
    seen = representation.mirrored(samples.motions)
    phase = np.arange(CYCLE) / CYCLE
    half = CYCLE // 2 - 1
    waves = curves.coefficients(seen.transpose(1, 0, 2), half)  # (K, C, 101)
    moved = np.stack([curves.basis(np.mod(phase + s, 1), half) @ waves[:, i] for i, s in enumerate(shift)])
    return Samples(
        np.concatenate([samples.motions, moved.astype(np.float32)]),
        np.concatenate([samples.params, mirrored(values).astype(np.float32)]),
    )


class GaitTask:
    """See :class:`..learning.loop.Task`."""

    def __init__(self, samples: Samples, training: Training, model: Model, start: Gait | None = None) -> None:
        """``start``: a network of the same layers to go on from."""
        self.samples, self.training, self.model, self.start = samples, training, model, start
        if start is not None and start.widths != network.widths(training.hidden, training.harmonics):
            raise ValueError(f"--init: expected layers of {training.hidden}, got {start.hidden}")
        rng = np.random.default_rng([training.seed, 3])
        order = rng.permutation(len(samples.params))
        held = max(1, round(VALIDATION * len(order)))
        self.held, self.train = np.sort(order[:held]), np.sort(order[held:])
        flat = samples.motions[self.train].reshape(-1, SIZE).astype(np.float64)
        self.mean = flat.mean(axis=0) if training.standardise else np.zeros(SIZE)
        self.spread = _spread(flat) if training.standardise else np.ones(SIZE)
        if start is not None:
            self.mean, self.spread = start.mean, start.spread
        weight = np.ones(SIZE, np.float32)
        weight[ROOT] = training.root_weight
        weight[ARMS] = training.arm_weight
        weight[list(LEGS)] *= training.leg_weight
        self.weight = weight**2 * np.float32(training.scale / SIZE)
        phase = np.arange(CYCLE) / CYCLE
        self.inputs = network.inputs(np.zeros(len(samples.params[0])), phase, training.harmonics)
        self.wanted = ((samples.motions - self.mean) / self.spread).astype(np.float32)
        self.shares = network.inputs(samples.params, np.zeros(len(samples.params)), training.harmonics)
        self.widths = network.widths(training.hidden, training.harmonics)

    def initial(self) -> np.ndarray:
        """Glorot-uniform weights, zero biases; or those to go on from."""
        if self.start is not None:
            return self.start.weights.astype(np.float32)
        out = np.zeros(layers.parameter_count(self.widths), np.float32)
        rng = np.random.default_rng([self.training.seed, 2])
        layers.glorot(layers.stack(out, self.widths, self.training.activation), rng)
        return out

    def batches(self, rng: np.random.Generator) -> Sequence[np.ndarray]:
        """Samples of all cycles in random order."""
        rows = (self.train[:, None] * CYCLE + np.arange(CYCLE)).ravel()
        rng.shuffle(rows)
        size = self.training.batch_size
        return [rows[i : i + size] for i in range(0, len(rows), size)]

    def _batch(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cycle, sample = np.divmod(rows, CYCLE)
        x = self.shares[cycle]
        phases = 2 * self.training.harmonics
        x[:, -phases:] = self.inputs[sample, -phases:]
        return x, self.wanted[cycle, sample]

    def gradient(
        self, parameters: np.ndarray, rows: np.ndarray, rng: np.random.Generator, position: Position, into: np.ndarray
    ) -> float | None:
        """The loss of a batch, and its gradient ``into`` (W)."""
        t = self.training
        x, wanted = self._batch(rows)
        stack = layers.stack(parameters, self.widths, t.activation)
        activations = layers.forward(stack, x)
        off = activations[-1] - wanted
        weighted = off * self.weight
        value = float(np.einsum("no,no->", off, weighted) / len(rows))
        weighted *= 2 / len(rows)
        layers.backward(stack, activations, weighted, layers.stack(into, self.widths, t.activation))
        if t.clamp:
            np.clip(into, -t.clamp, t.clamp, out=into)
        return value

    def validate(self, parameters: np.ndarray) -> float:
        """The same loss on cycles that are not trained on."""
        stack = layers.stack(parameters, self.widths, self.training.activation)
        total = 0.0
        for part in np.array_split(self.held, max(1, len(self.held) // 50)):
            rows = (part[:, None] * CYCLE + np.arange(CYCLE)).ravel()
            x, wanted = self._batch(rows)
            off = layers.forward(stack, x)[-1] - wanted
            total += float(np.einsum("no,no,o->", off, off, self.weight))
        return total / (len(self.held) * CYCLE)

    def describe(self) -> dict[str, Any]:
        """What must be equal to continue a stopped training."""
        start = None if self.start is None else hashlib.sha256(self.start.weights.tobytes()).hexdigest()[:16]
        return {"samples": self.samples.digest(), "training": asdict(self.training), "start": start}

    def network(self, weights: np.ndarray) -> Gait:
        """The network with weights (W)."""
        t = self.training
        return Gait(weights.copy(), t.hidden, t.harmonics, t.activation, self.mean, self.spread, self.model)
