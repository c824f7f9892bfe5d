# SPDX-License-Identifier: GPL-3.0-or-later
"""The gait network: parameters in, the 101 numbers of a pose at any phase out; and the file that holds it beside its teacher.

There are two kinds of output. ``pose``, the source's: the phase is an input, as sine and cosine of it and of its multiples, and
the network says one pose. ``cycle``: only parameters are inputs, and the network says the Fourier coefficients of the whole
cycle. The coefficients of a leg are along that foot's own phase (:func:`foot_phases`), on which feet strike and leave at the
same place whatever the parameters are; so what a coefficient is differs little and smoothly from walk to walk. Layers are those
of :mod:`..learning.layers`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.messages import short
from ..learning import layers, model_file
from ..learning.model_file import Model as ModelFile
from . import curves, parameters
from .normals import STANDARD_OFF
from .parameters import get
from .representation import LEFT_LEG, RIGHT_LEG, SIZE
from .teacher import Model

KIND = "gait"
SHIPPED = Path(__file__).resolve().parents[2] / "training_data" / "weights" / "gait.npz"
MISSING = "train them with standalone_trainer.py gait, or name a file with --weights"
OUTPUTS = ("cycle", "pose")
RUN_OFF = 0.3  # share of the cycle that a foot stands in a run, on its own phase
BODY = tuple(i for i in range(SIZE) if i not in (*LEFT_LEG, *RIGHT_LEG))
"""The numbers of everything but the legs, along the phase as it is."""


@dataclass(frozen=True)
class Gait:
    """A trained network and the teacher's model it was distilled from."""

    weights: np.ndarray
    """(W) float32 of all layers."""
    hidden: tuple[int, ...]
    harmonics: int
    """Of the phase, among the inputs or said."""
    activation: str
    output: str
    """One of :data:`OUTPUTS`."""
    mean: np.ndarray
    """(101) of the outputs."""
    spread: np.ndarray
    """(101) by which outputs are divided in training."""
    model: Model
    """Of the teacher."""
    meta: dict[str, Any] = field(default_factory=dict)
    """What the file says: data, seed, settings, figures, licence."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Of all layers, inputs and outputs included."""
        return widths(self.hidden, self.harmonics, self.output)

    @cached_property
    def stack(self) -> layers.Stack:
        """The layers as matrices."""
        return layers.stack(self.weights, self.widths, self.activation)

    @property
    def trembles(self) -> bool:
        """Whether what it says of one phase and of the next differs by chance too."""
        return self.output == "pose"

    def numbers(self, values: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """The 101 numbers (N, 101) at phases (N) [cycles] with parameters (P) or (N, P)."""
        if self.output == "pose":
            x = inputs(values, phase, self.harmonics)
            return np.asarray(layers.forward(self.stack, x)[-1] * self.spread + self.mean)
        if values.ndim == 1:
            return self.cycles(values[None], phase)[0]
        return self._said(values, phase[:, None])[:, 0]

    def cycles(self, values: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """The 101 numbers (C, N, 101) at phases (N) [cycles] of walks with parameters (C, P)."""
        if self.output == "pose":
            rows = np.repeat(values, len(phase), axis=0)
            return self.numbers(rows, np.tile(phase, len(values))).reshape(len(values), len(phase), SIZE)
        return self._said(values, np.broadcast_to(phase, (len(values), len(phase))))

    def _said(self, values: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """The numbers (C, N, 101) of a network that says cycles, at phases (C, N) with parameters (C, P)."""
        outputs = layers.forward(self.stack, centred(values))[-1]
        said = series(outputs, waves(values, phase, self.harmonics), self.harmonics)
        return np.asarray(said * self.spread + self.mean)


def widths(hidden: Sequence[int], harmonics: int, output: str) -> tuple[int, ...]:
    """Of all layers of a network."""
    if output == "pose":
        return (len(parameters.NAMES) + 2 * harmonics, *hidden, SIZE)
    return (len(parameters.NAMES), *hidden, (2 * harmonics + 1) * SIZE)


def centred(values: np.ndarray) -> np.ndarray:
    """What a network that says cycles sees (C, P), float32: parameters (C, P) as -1 to 1 of their ranges."""
    return (2 * parameters.normalised(np.asarray(values, np.float64)) - 1).astype(np.float32)


def foot_phases(values: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """(2, C, N) phases of the left and of the right foot at phases (C, N) with parameters (C, P).

    Each begins at the foot's strike and has the foot leave at 0.6, for runs at 0.3, without a sharp bend in between.
    """
    values = np.asarray(values, np.float64)
    strike = np.stack([np.zeros(len(values)), parameters.right_strike(values)])[..., None]
    share = np.moveaxis(parameters.stance_share(values), -1, 0)[..., None]
    own = np.mod(phase - strike, 1)
    off = STANDARD_OFF + get(values, "run")[:, None] * (RUN_OFF - STANDARD_OFF)
    near = np.where(own < share, own / share, (1 - own) / (1 - share))
    return np.asarray(own + (off - share) * near * near * (3 - 2 * near))


def waves(values: np.ndarray, phase: np.ndarray, harmonics: int) -> np.ndarray:
    """(3, C, N, 2 harmonics + 1) float32: 1, cosines and sines along the phase of the left foot, of the right one, and along
    the phases (C, N) themselves, with parameters (C, P)."""
    own = np.concatenate([foot_phases(values, phase), np.broadcast_to(phase, (1, *phase.shape))])
    turn = np.exp(2j * np.pi * own).astype(np.complex64)
    out = np.empty((*own.shape, 2 * harmonics + 1), np.float32)
    out[..., 0] = 1
    power = turn
    for k in range(1, harmonics + 1):
        out[..., k], out[..., harmonics + k] = power.real, power.imag
        power = power * turn
    return out


def series(outputs: np.ndarray, along: np.ndarray, harmonics: int) -> np.ndarray:
    """The numbers (C, N, 101) of coefficients (C, O), a network's outputs, on ``along``, see :func:`waves`."""
    count = len(outputs)
    said = np.empty((count, along.shape[2], SIZE), outputs.dtype)
    for part, (columns, own) in enumerate(_parts(harmonics)):
        said[..., columns] = np.matmul(along[part], outputs[:, own].reshape(count, 2 * harmonics + 1, -1))
    return said


def series_gradient(gradient: np.ndarray, along: np.ndarray, harmonics: int) -> np.ndarray:
    """The gradient (C, O) with respect to coefficients of a value whose gradient with respect to the numbers is (C, N, 101)."""
    count = len(gradient)
    out = np.empty((count, (2 * harmonics + 1) * SIZE), gradient.dtype)
    for part, (columns, own) in enumerate(_parts(harmonics)):
        out[:, own] = np.matmul(np.swapaxes(along[part], -1, -2), gradient[..., columns]).reshape(count, -1)
    return out


def _parts(harmonics: int) -> list[tuple[list[int], slice]]:
    """The numbers of the left leg, the right leg and the body, and where among the outputs their coefficients are."""
    out, at = [], 0
    for columns in (LEFT_LEG, RIGHT_LEG, BODY):
        size = (2 * harmonics + 1) * len(columns)
        out.append((list(columns), slice(at, at + size)))
        at += size
    return out


def inputs(values: np.ndarray, phase: np.ndarray, harmonics: int) -> np.ndarray:
    """What a network that says poses sees (N, I), float32, of parameters (P) or (N, P) at phases (N) [cycles]."""
    out = np.empty((len(phase), len(parameters.NAMES) + 2 * harmonics), np.float32)
    out[:, : len(parameters.NAMES)] = parameters.normalised(np.asarray(values))
    angle = 2 * np.pi * np.outer(phase, np.arange(1, harmonics + 1))
    out[:, len(parameters.NAMES) :: 2] = np.sin(angle)
    out[:, len(parameters.NAMES) + 1 :: 2] = np.cos(angle)
    return out


def in_file(weights: np.ndarray) -> np.ndarray:
    """The weights (W) float32 as a file holds them: rounded to half precision, which turned the shipped network's legs by 0.005 degrees."""
    return weights.astype(np.float16).astype(np.float32)


def save(path: str | os.PathLike[str], gait: Gait) -> None:
    """Write the model file, whole or not at all; weights in half precision, see :func:`in_file`."""
    tensors = {
        **{name: array.astype(np.float16) for name, array in layers.to_tensors(gait.stack).items()},
        "output.mean": gait.mean.astype(np.float32),
        "output.spread": gait.spread.astype(np.float32),
        "teacher.offsets": np.r_[gait.model.offsets, gait.model.late, gait.model.run_off].astype(np.float32),
        **curves.to_tensors(gait.model.walk, "teacher.walk"),
        **curves.to_tensors(gait.model.run, "teacher.run"),
    }
    about = {
        "parameters": list(parameters.NAMES),
        "hidden": list(gait.hidden),
        "harmonics": gait.harmonics,
        "activation": gait.activation,
        "output": gait.output,
        **gait.meta,
    }
    model_file.write(path, ModelFile(KIND, about, tensors))


def load(path: str | os.PathLike[str] = SHIPPED) -> Gait:
    """Read a model file; FileNotFoundError where there is none, ValueError with the reason where it is none of a gait."""
    name = Path(path).name
    found = model_file.read(path, KIND, MISSING)
    about, tensors = dict(found.about), dict(found.tensors)
    try:
        if about.pop("parameters") != list(parameters.NAMES):
            raise ValueError("expected the parameters of this version, got others; train again")
        hidden = tuple(int(w) for w in about.pop("hidden"))
        harmonics, activation = int(about.pop("harmonics")), str(about.pop("activation"))
        output = str(about.pop("output", "pose"))
        if output not in OUTPUTS:
            raise ValueError(f"output: expected one of {', '.join(OUTPUTS)}, got {short(output)!r}")
        if not 1 <= harmonics <= 16 or not hidden or min(hidden) < 1 or max(hidden) > 8192:
            raise ValueError(f"expected a network of sensible size, got layers of {hidden} and {harmonics} harmonics")
        model_file.require_learned(tensors)
        weights = layers.from_tensors(tensors, widths(hidden, harmonics, output))
        offsets = np.asarray(tensors["teacher.offsets"], np.float64)
        mean, spread = (np.asarray(tensors[f"output.{key}"], np.float64) for key in ("mean", "spread"))
        if offsets.shape != (6,) or mean.shape != (SIZE,) or spread.shape != (SIZE,):
            raise ValueError("expected 101 outputs and six numbers of the teacher")
        walk, run = (curves.from_tensors(tensors, f"teacher.{key}") for key in ("walk", "run"))
    except KeyError as error:
        raise ValueError(f"{name}: expected gait weights, missing {error}") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
    for key in ("format", "version", "kind"):
        about.pop(key, None)
    model = Model(walk, run, offsets[:3], (float(offsets[3]), float(offsets[4])), float(offsets[5]))
    return Gait(weights, hidden, harmonics, activation, output, mean, spread, model, about)
