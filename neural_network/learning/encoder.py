# SPDX-License-Identifier: GPL-3.0-or-later
"""Encoders: networks that read states one after another and say in one row of numbers what matters of them, in NumPy.

An encoder is the body of a network that predicts; whoever needs what it has learned, such as a policy, reads it as a model file
of its own (:func:`load`). ``torch_encoder`` trains it. Kinds: ``mlp`` sees the last state alone, ``gru`` has a memory, ``window`` is a
Transformer that looks at all of the last states, ``causal`` one in which each state sees those before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from . import model_file, sequence
from .sequence import Tensors

KIND = "encoder"
KINDS = ("mlp", "gru", "window", "causal")


@dataclass(frozen=True)
class Design:
    """The shape of an encoder."""

    kind: str
    states: int
    """Numbers in a state."""
    width: int = 512
    """Numbers out."""
    depth: int = 3
    """Hidden layers, layers of the memory, or blocks."""
    heads: int = 4
    """Of attention."""
    seen: int = 64
    """States that a Transformer looks at, at most."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"encoder: expected one of {', '.join(KINDS)}, got {self.kind!r}")


def shapes(design: Design, at: str = "") -> dict[str, tuple[int, ...]]:
    """Names and shapes of an encoder's tensors, each name after ``at``."""
    w, s = design.width, design.states
    out: dict[str, tuple[int, ...]] = {"mean": (s,), "spread": (s,)}
    if design.kind == "gru":
        for layer in range(design.depth):
            out[f"body.weight_ih_l{layer}"] = (3 * w, w if layer else s)
            out[f"body.weight_hh_l{layer}"] = (3 * w, w)
            out[f"body.bias_ih_l{layer}"] = out[f"body.bias_hh_l{layer}"] = (3 * w,)
    else:
        out |= {"into.weight": (w, s), "into.bias": (w,)}
    if design.kind == "mlp":
        for layer in range(design.depth):
            out |= {f"body.{layer}.weight": (w, w), f"body.{layer}.bias": (w,)}
    if design.kind in ("window", "causal"):
        for i in range(design.depth):
            block = f"body.blocks.{i}"
            sizes = {"attention.qkv": (3 * w, w), "attention.out": (w, w), "wide": (2 * w, w), "narrow": (w, 2 * w)}
            for name, size in sizes.items():
                out |= {f"{block}.{name}.weight": size, f"{block}.{name}.bias": size[:1]}
            for name in ("norm_1", "norm_2"):
                out[f"{block}.{name}.weight"] = out[f"{block}.{name}.bias"] = (w,)
        out["body.norm.weight"] = out["body.norm.bias"] = (w,)
    return {at + name: size for name, size in out.items()}


@dataclass(frozen=True)
class Encoder:
    """An encoder and its weights."""

    design: Design
    tensors: Tensors

    def encode(self, states: np.ndarray) -> np.ndarray:
        """(..., W) of states (..., T, S), one after another, the last one being now."""
        return self.start(states)[0]

    def start(self, states: np.ndarray) -> tuple[np.ndarray, Any]:
        """:meth:`encode`, and what :meth:`step` is to remember."""
        design, x = self.design, self._into(states)
        if design.kind == "mlp":
            return self._mlp(x[..., -1, :]), None
        if design.kind == "gru":
            y, memory = sequence.gru(self.tensors, "body", x)
            return y[..., -1, :], memory
        frames = x.shape[-2]
        if design.kind == "window":
            return self._window(x), x[..., -design.seen :, :]
        cache: sequence.Cache = ()
        y = x[..., 0, :]
        waves = sequence.sinusoids(frames, design.width).astype(x.dtype)
        for t in range(frames):
            y, cache = sequence.transformer_step(
                self.tensors, "body", x[..., t, :] + waves[t], design.heads, cache, design.seen
            )
        return y, (cache, frames)

    def step(self, state: np.ndarray, memory: Any) -> tuple[np.ndarray, Any]:
        """(..., W) of one more state (..., S), and what to remember."""
        design, x = self.design, self._into(state)
        if design.kind == "mlp":
            return self._mlp(x), None
        if design.kind == "gru":
            return sequence.gru_step(self.tensors, "body", x, memory)
        if design.kind == "window":
            x = np.concatenate([memory, x[..., None, :]], axis=-2)[..., -design.seen :, :]
            return self._window(x), x
        cache, at = memory
        wave = sequence.sinusoids(at + 1, design.width)[at].astype(x.dtype)
        y, cache = sequence.transformer_step(self.tensors, "body", x + wave, design.heads, cache, design.seen)
        return y, (cache, at + 1)

    def ahead(self, states: np.ndarray, frames: int) -> np.ndarray:
        """(..., frames, W) of the next states at once, from states (..., T, S): a Transformer of kind "window" alone."""
        x = self._into(states)
        x = np.concatenate([x, np.repeat(x[..., -1:, :], frames, axis=-2)], axis=-2)
        waves = sequence.sinusoids(x.shape[-2], self.design.width).astype(x.dtype)
        return sequence.transformer(self.tensors, "body", x + waves, self.design.heads)[..., -frames:, :]

    def _into(self, states: np.ndarray) -> np.ndarray:
        x = (states - self.tensors["mean"].astype(states.dtype)) / self.tensors["spread"].astype(states.dtype)
        return x if self.design.kind == "gru" else sequence.linear(self.tensors, "into", x)

    def _mlp(self, x: np.ndarray) -> np.ndarray:
        x = sequence.gelu(x)
        for layer in range(self.design.depth):
            x = x + sequence.gelu(sequence.linear(self.tensors, f"body.{layer}", x))
        return x

    def _window(self, x: np.ndarray) -> np.ndarray:
        x = x[..., -self.design.seen :, :]
        waves = sequence.sinusoids(x.shape[-2], self.design.width).astype(x.dtype)
        return sequence.transformer(self.tensors, "body", x + waves, self.design.heads)[..., -1, :]


def part(tensors: Tensors, at: str) -> dict[str, np.ndarray]:
    """The tensors whose names begin with ``at``, without it."""
    return {name[len(at) :]: array for name, array in tensors.items() if name.startswith(at)}


def require(tensors: Tensors, wanted: Mapping[str, tuple[int, ...]], name: str) -> dict[str, np.ndarray]:
    """The tensors of these shapes as float32; ValueError, which begins with ``name``, where one is missing or misshapen."""
    for key, size in wanted.items():
        got = tensors[key].shape if key in tensors else "nothing"
        if got != size:
            raise ValueError(f"{name}: {key}: expected {size}, got {got}")
    out = {key: np.asarray(tensors[key], np.float32) for key in wanted}
    model_file.require_learned(out)
    return out


def design_of(about: Mapping[str, Any], name: str) -> Design:
    """The design that a model file tells under "design"; ValueError, which begins with ``name``, where it tells none."""
    try:
        told = about["design"]
        return Design(str(told["kind"]), **{f.name: int(told[f.name]) for f in fields(Design) if f.name != "kind"})
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name}: expected the design of an encoder, got another file") from None


def load(path: str | os.PathLike[str]) -> tuple[Encoder, dict[str, Any]]:
    """An encoder from a file of its own, and what is known of it: ``layout`` names the states it reads.

    FileNotFoundError where there is none, ValueError with the reason for any other file.
    """
    model = model_file.read(path, KIND, "write one with python -m neural_network motion encoder")
    name = Path(path).name
    design = design_of(model.about, name)
    return Encoder(design, require(model.tensors, shapes(design), name)), model.about


def save(path: str | os.PathLike[str], encoder: Encoder, about: Mapping[str, Any]) -> None:
    """Write an encoder as a file of its own, in half precision but for what states are measured by; whole or not at all."""
    exact = ("mean", "spread")
    tensors = {n: a.astype(np.float32 if n in exact else np.float16) for n, a in encoder.tensors.items()}
    model_file.write(path, model_file.Model(KIND, {**about, "design": vars(encoder.design)}, tensors))
