# SPDX-License-Identifier: GPL-3.0-or-later
"""Predictors at work, in NumPy: networks that say the next state of a body, from which the one after that follows, and so on.

Modes: ``mlp`` knows the last state alone, ``gru`` has a memory, ``transformer_reg`` looks at the last states together and says the next
one, ``transformer`` is causal, and ``direct`` says all frames ahead at once. All but the last say how much the speeds change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.skeleton import Skeleton
from ..learning import encoder, model_file, sequence
from ..learning.encoder import Design, Encoder
from ..motion import features, states
from ..motion.states import FPS, GROUND, Layout

KIND = "motion predictor"
KINDS = {"mlp": "mlp", "gru": "gru", "transformer_reg": "window", "transformer": "causal", "direct": "window"}
"""Mode -> the kind of its encoder."""
SHIPPED = Path(__file__).resolve().parents[2] / "training_data" / "weights" / "motion_steps.npz"
AHEAD = 60
"""Frames that ``direct`` says at once."""
FADES = 5.0
"""Frames after which ``direct`` takes the speeds to be, but for what it says, 1/e as far from the mean as they were."""
ASTRAY = 1e3
"""A number of a state, in leg lengths, radians and seconds, that no body has."""
EXACT = ("encoder.mean", "encoder.spread", "rate")
"""Tensors that a file holds in full: what numbers are measured by."""


@dataclass(frozen=True)
class Predictor:
    """A network that predicts, and what is known of it."""

    mode: str
    layout: Layout
    encoder: Encoder
    out: Mapping[str, np.ndarray]
    """``out.weight``, ``out.bias`` and ``rate``, the size of what is said."""
    about: Mapping[str, Any]

    def ahead(self, past: np.ndarray, frames: int) -> np.ndarray:
        """(N, frames, S) states that follow the states (N, T, S)."""
        x = np.asarray(past, np.float32)
        made: list[np.ndarray] = []
        if self.mode == "direct":
            known = x.shape[1]
            while x.shape[1] < known + frames:
                x = np.concatenate([x, self._all(x[:, -known:])], axis=1)
            return x[:, known : known + frames]
        y, memory = self.encoder.start(x)
        now = x[:, -1]
        for frame in range(frames):
            if frame:
                y, memory = self.encoder.step(now, memory)
            now = advance(self.layout, now, sequence.linear(self.out, "out", y), self.out["rate"])
            made.append(now)
        return np.stack(made, axis=1)

    def _all(self, past: np.ndarray) -> np.ndarray:
        said = sequence.linear(self.out, "out", self.encoder.ahead(past, AHEAD))
        own, last, rate = self.layout, past[:, -1:], self.out["rate"]
        if not own.follows:
            return last + np.cumsum(said * rate, axis=1)
        middle, spread = (
            self.encoder.tensors[name][own.places : own.places + own.speeds] for name in ("mean", "spread")
        )
        fading = np.exp(-np.arange(AHEAD, dtype=np.float32) / np.float32(FADES))[:, None]
        speeds = middle + fading * (last[..., own.places : own.places + own.speeds] - middle)
        speeds = speeds + said[..., : own.speeds] * spread
        places = last[..., : own.places] + np.cumsum(speeds[..., GROUND:], axis=1) / np.float32(FPS)
        return np.concatenate([places, speeds, sequence.sigmoid(said[..., own.speeds :])], axis=-1)

    def rows(self, body: Skeleton, turns: np.ndarray, root: np.ndarray, frames: int) -> np.ndarray:
        """Rows (G, frames, R) that follow motions, turns (G, T, J, 3, 3) and root (G, T, 3), that are seen from their last frames.

        Where a network goes astray, to numbers that no body has, the last known pose stands from there on.
        """
        past = states.of_windows(self.layout.name, body, turns, root)
        nobody = features.Place(np.zeros((len(root), 2)), np.zeros(len(root)))
        with np.errstate(over="ignore", invalid="ignore"):
            said = self.ahead(past, frames).astype(float)
            astray = np.logical_or.accumulate(~(np.abs(said) < ASTRAY).all(axis=2), axis=1)
        still = past[:, -1:].copy()
        still[..., self.layout.places : self.layout.places + self.layout.speeds] = 0
        said = np.where(astray[..., None], still, said)
        return states.to_rows(self.layout.name, body, said, nobody)


def advance(layout: Layout, now: np.ndarray, said: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """The next states (N, S) after ``now``, of which a network has ``said`` (N, outputs); ``rate`` is the size of each number."""
    if not layout.follows:
        return now + said * rate
    p, v = layout.places, layout.speeds
    speeds = now[:, p : p + v] + said[:, :v] * rate
    places = now[:, :p] + speeds[:, GROUND:] / np.float32(FPS)
    return np.concatenate([places, speeds, sequence.sigmoid(said[:, v:])], axis=1)


def shapes(layout: Layout, design: Design) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors."""
    out: dict[str, tuple[int, ...]] = {"out.weight": (layout.outputs, design.width), "out.bias": (layout.outputs,)}
    out["rate"] = (layout.outputs - layout.contacts,)
    return {**out, **encoder.shapes(design, "encoder.")}


def make(
    mode: str, layout: str, design: Design, tensors: Mapping[str, np.ndarray], about: Mapping[str, Any]
) -> Predictor:
    """A predictor of tensors by name."""
    out = {name: tensors[name] for name in ("out.weight", "out.bias", "rate")}
    own = Encoder(design, encoder.part(tensors, "encoder."))
    return Predictor(mode, states.layout(layout), own, out, about)


def load(path: str | os.PathLike[str]) -> Predictor:
    """Read a predictor; FileNotFoundError where there is none, ValueError with the reason for any other file."""
    model = model_file.read(path, KIND, "train one with standalone_trainer.py motion --mode mlp")
    name, about = Path(path).name, model.about
    design = encoder.design_of(about, name)
    if about.get("mode") not in KINDS or about.get("layout") not in states.LAYOUTS:
        raise ValueError(f"{name}: expected a predictor of a known mode and layout, got another file")
    own = states.layout(about["layout"])
    if design.kind != KINDS[about["mode"]] or design.states != own.width:
        raise ValueError(f"{name}: the network does not fit its mode and layout")
    tensors = encoder.require(model.tensors, shapes(own, design), name)
    return make(about["mode"], about["layout"], design, tensors, about)


def shipped() -> Predictor | None:
    """The predictor that came with this Neural IK; None where none did."""
    return load(SHIPPED) if SHIPPED.exists() else None


def save(path: str | os.PathLike[str], found: Predictor) -> None:
    """Write a predictor in half precision, whole or not at all."""
    about = {**found.about, "mode": found.mode, "layout": found.layout.name, "design": vars(found.encoder.design)}
    tensors = {**found.out, **{f"encoder.{name}": array for name, array in found.encoder.tensors.items()}}
    model_file.write(path, model_file.Model(KIND, about, in_half(tensors)))


def in_half(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensors as a file holds them."""
    return {name: array.astype(np.float32 if name in EXACT else np.float16) for name, array in tensors.items()}
