# SPDX-License-Identifier: GPL-3.0-or-later
"""The gait network: parameters and phase in, the 101 numbers of a pose out; and the file that holds it beside its teacher.

Inputs are the parameters as shares of their ranges and the sine and cosine of the phase, and of its multiples where
``harmonics`` is above 1. Layers are those of :mod:`..learning.layers`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..learning import layers, model_file
from ..learning.model_file import Model as ModelFile
from . import curves, parameters
from .representation import SIZE
from .teacher import Model

KIND = "gait"
SHIPPED = Path(__file__).resolve().parents[2] / "training_data" / "weights" / "gait.npz"
MISSING = "train them with standalone_trainer.py gait, or name a file with --weights"


@dataclass(frozen=True)
class Gait:
    """A trained network and the teacher's model it was distilled from."""

    trembles: ClassVar[bool] = True
    weights: np.ndarray
    """(W) float32 of all layers."""
    hidden: tuple[int, ...]
    harmonics: int
    activation: str
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
        return widths(self.hidden, self.harmonics)

    @cached_property
    def stack(self) -> layers.Stack:
        """The layers as matrices."""
        return layers.stack(self.weights, self.widths, self.activation)

    def numbers(self, values: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """The 101 numbers (N, 101) at phases (N) [cycles] with parameters (P) or (N, P)."""
        x = inputs(values, phase, self.harmonics)
        return np.asarray(layers.forward(self.stack, x)[-1] * self.spread + self.mean)


def widths(hidden: Sequence[int], harmonics: int) -> tuple[int, ...]:
    """Of all layers of a network."""
    return (len(parameters.NAMES) + 2 * harmonics, *hidden, SIZE)


def inputs(values: np.ndarray, phase: np.ndarray, harmonics: int) -> np.ndarray:
    """What the network sees (N, I), float32, of parameters (P) or (N, P) at phases (N) [cycles]."""
    out = np.empty((len(phase), len(parameters.NAMES) + 2 * harmonics), np.float32)
    out[:, : len(parameters.NAMES)] = parameters.normalised(np.asarray(values))
    angle = 2 * np.pi * np.outer(phase, np.arange(1, harmonics + 1))
    out[:, len(parameters.NAMES) :: 2] = np.sin(angle)
    out[:, len(parameters.NAMES) + 1 :: 2] = np.cos(angle)
    return out


def save(path: str | os.PathLike[str], gait: Gait) -> None:
    """Write the model file, whole or not at all."""
    tensors = {
        **layers.to_tensors(gait.stack),
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
        if not 1 <= harmonics <= 16 or not hidden or min(hidden) < 1 or max(hidden) > 8192:
            raise ValueError(f"expected a network of sensible size, got layers of {hidden} and {harmonics} harmonics")
        model_file.require_learned(tensors)
        weights = layers.from_tensors(tensors, widths(hidden, harmonics))
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
    return Gait(weights, hidden, harmonics, activation, mean, spread, model, about)


def with_weights(gait: Gait, weights: np.ndarray) -> Gait:
    """The same network with other weights (W)."""
    return replace(gait, weights=weights.astype(np.float32))
