# SPDX-License-Identifier: GPL-3.0-or-later
"""The distillation as a task of the training loop: draw samples of cycles, compare what the network says, return the gradient.

A network that says poses learns from single samples, one that says cycles from whole cycles: all samples of a cycle cost it one
pass through its layers.

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
from .network import Gait, in_file
from .parameters import mirrored, right_strike
from .representation import ARMS, CYCLE, LEGS, ROOT, SIZE
from .teacher import Model

VALIDATION = 0.06
"""Share of the cycles that choose the best weights."""


@dataclass(frozen=True)
class Training:
    """Settings of a training."""

    output: str = "cycle"
    """What the network says, one of :data:`.network.OUTPUTS`."""
    hidden: tuple[int, ...] = (384, 384, 160)
    activation: str = "tanh"
    harmonics: int = 12
    lr: float = 0.0015
    lr_end: float = 0.01
    batch_size: int = 128
    """Poses, or cycles."""
    epochs: int = 120
    patience: int = 20
    clamp: float = 0.0
    """Largest size of every entry of the gradient; 0: no limit."""
    average: float = 0.998
    standardise: bool = True
    root_weight: float = 2.0
    arm_weight: float = 0.7
    leg_weight: float = 1.4
    scale: float = 5.0
    mirror: bool = True
    """Learn from every cycle in a mirror, too."""
    cycles: int = 8000
    """Of the teacher, to learn from."""
    seed: int = 0
    time_limit: float = 0.0


SOURCE = Training(
    output="pose",
    hidden=(512, 512, 512),
    activation="relu",
    harmonics=1,
    lr=1e-5,
    lr_end=1.0,
    batch_size=128,
    epochs=5,
    clamp=0.1,
    average=0.0,
    arm_weight=0.5,
    leg_weight=1.0,
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
        if start is not None and start.widths != network.widths(training.hidden, training.harmonics, training.output):
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
        self.wanted = ((samples.motions - self.mean) / self.spread).astype(np.float32)
        self.phase = np.arange(CYCLE) / CYCLE
        self.widths = network.widths(training.hidden, training.harmonics, training.output)

    def initial(self) -> np.ndarray:
        """Glorot-uniform weights, zero biases; or those to go on from."""
        if self.start is not None:
            return self.start.weights.astype(np.float32)
        out = np.zeros(layers.parameter_count(self.widths), np.float32)
        rng = np.random.default_rng([self.training.seed, 2])
        last = 1.0 if self.training.output == "pose" else 0.3
        layers.glorot(layers.stack(out, self.widths, self.training.activation), rng, last)
        return out

    def batches(self, rng: np.random.Generator) -> Sequence[np.ndarray]:
        """Samples of all cycles in random order; whole cycles for a network that says them."""
        rows = self._rows(self.train)
        rng.shuffle(rows)
        size = self.training.batch_size
        return [rows[i : i + size] for i in range(0, len(rows), size)]

    def _rows(self, cycles: np.ndarray) -> np.ndarray:
        """What :meth:`gradient` calls rows, of cycles (C): all of their samples, or these themselves."""
        if self.training.output == "cycle":
            return cycles.copy()
        return np.asarray((cycles[:, None] * CYCLE + np.arange(CYCLE)).ravel())

    def _pass(self, stack: layers.Stack, rows: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """The activations of all layers, how far (..., 101) what is said is from what is wanted, and for a network that says
        cycles the waves its coefficients are of, see :func:`.network.waves`."""
        t, params = self.training, self.samples.params
        if t.output == "cycle":
            activations = layers.forward(stack, network.centred(params[rows]).astype(stack.layers[0][0].dtype))
            along = network.waves(params[rows], np.broadcast_to(self.phase, (len(rows), CYCLE)), t.harmonics)
            return activations, network.series(activations[-1], along, t.harmonics) - self.wanted[rows], along
        cycle, sample = np.divmod(rows, CYCLE)
        activations = layers.forward(stack, network.inputs(params[cycle], self.phase[sample], t.harmonics))
        return activations, activations[-1] - self.wanted[cycle, sample], np.zeros(0)

    def gradient(
        self, parameters: np.ndarray, rows: np.ndarray, rng: np.random.Generator, position: Position, into: np.ndarray
    ) -> float | None:
        """The loss of a batch, and its gradient ``into`` (W)."""
        t = self.training
        stack = layers.stack(parameters, self.widths, t.activation)
        activations, off, along = self._pass(stack, rows)
        weighted = off * self.weight
        count = off.size // SIZE
        value = float(np.vdot(off, weighted) / count)
        weighted *= 2 / count
        if t.output == "cycle":
            weighted = network.series_gradient(weighted, along, t.harmonics)
        layers.backward(stack, activations, weighted, layers.stack(into, self.widths, t.activation))
        if t.clamp:
            np.clip(into, -t.clamp, t.clamp, out=into)
        return value

    def validate(self, parameters: np.ndarray) -> float:
        """The same loss on cycles that are not trained on."""
        stack = layers.stack(parameters, self.widths, self.training.activation)
        total = 0.0
        for part in np.array_split(self.held, max(1, len(self.held) // 50)):
            _, off, _ = self._pass(stack, self._rows(part))
            total += float(np.vdot(off, off * self.weight))
        return total / (len(self.held) * CYCLE)

    def describe(self) -> dict[str, Any]:
        """What must be equal to continue a stopped training."""
        start = None if self.start is None else hashlib.sha256(self.start.weights.tobytes()).hexdigest()[:16]
        return {"samples": self.samples.digest(), "training": asdict(self.training), "start": start}

    def network(self, weights: np.ndarray) -> Gait:
        """The network with weights (W), as its file will hold them: what is judged is what is saved."""
        t = self.training
        return Gait(in_file(weights), t.hidden, t.harmonics, t.activation, t.output, self.mean, self.spread, self.model)
