# SPDX-License-Identifier: GPL-3.0-or-later
"""The encoders of :mod:`.encoder` in PyTorch, to train them; names and shapes of their tensors are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import sequence
from .encoder import Design
from .torch_layers import Transformer, gelu


class Encoder(nn.Module):
    """Reads states (N, T, S). ``mean`` and ``spread`` (S) are what states are measured by."""

    def __init__(self, design: Design, mean: np.ndarray, spread: np.ndarray, dropout: float = 0.0) -> None:
        super().__init__()
        self.design = design
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("spread", torch.as_tensor(spread, dtype=torch.float32))
        w = design.width
        self.dropout = nn.Dropout(dropout)
        self.waves: dict[str, Tensor] = {}
        self.body: Any
        if design.kind == "gru":
            self.body = nn.GRU(design.states, w, design.depth, batch_first=True)
            return
        self.into = nn.Linear(design.states, w)
        if design.kind == "mlp":
            self.body = nn.ModuleList(nn.Linear(w, w) for _ in range(design.depth))
        else:
            self.body = Transformer(w, design.heads, design.depth, 2 * w, dropout)

    def follow(self, states: Tensor) -> Tensor:
        """(N, T, W) of every state (N, T, S), each of which sees those before it; of a window only the last one, (N, 1, W)."""
        kind, x = self.design.kind, self._into(states)
        if kind == "mlp":
            return self._mlp(x)
        if kind == "gru":
            return self.body(x)[0]
        frames = x.shape[1]
        if kind == "window":
            return self._window(x)[:, None]
        return self.body(x + self._waves(frames, x), self._mask(frames, x))

    def start(self, states: Tensor) -> tuple[Tensor, Any]:
        """(N, W) after states (N, T, S), and what :meth:`step` is to remember."""
        kind = self.design.kind
        if kind == "mlp":
            return self._mlp(self._into(states[:, -1])), None
        if kind == "gru":
            y, memory = self.body(self._into(states))
            return y[:, -1], memory
        return self.follow(states)[:, -1], self._into(states)

    def step(self, state: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """(N, W) of one more state (N, S), and what to remember."""
        kind, x = self.design.kind, self._into(state)
        if kind == "mlp":
            return self._mlp(x), None
        if kind == "gru":
            y, memory = self.body(x[:, None], memory)
            return y[:, -1], memory
        x = torch.cat([memory, x[:, None]], dim=1)
        if kind == "window":
            return self._window(x), x
        return self.body(x + self._waves(x.shape[1], x), self._mask(x.shape[1], x))[:, -1], x

    def ahead(self, states: Tensor, frames: int) -> Tensor:
        """(N, frames, W) of the next states at once, from states (N, T, S): a Transformer of kind "window" alone."""
        x = self._into(states)
        x = torch.cat([x, x[:, -1:].expand(-1, frames, -1)], dim=1)
        return self.body(x + self._waves(x.shape[1], x))[:, -frames:]

    def _into(self, states: Tensor) -> Tensor:
        x = (states - self.mean) / self.spread
        return x if self.design.kind == "gru" else self.into(x)

    def _mlp(self, x: Tensor) -> Tensor:
        x = gelu(x)
        for layer in self.body:
            x = x + self.dropout(gelu(layer(x)))
        return x

    def _window(self, x: Tensor) -> Tensor:
        x = x[:, -self.design.seen :]
        return self.body(x + self._waves(x.shape[1], x))[:, -1]

    def _mask(self, frames: int, like: Tensor) -> Tensor:
        key = f"mask {like.device}"
        if key not in self.waves or len(self.waves[key]) < frames:
            most = max(frames, 2 * self.design.seen)
            self.waves[key] = torch.as_tensor(sequence.causal(most, self.design.seen), device=like.device)
        return self.waves[key][:frames, :frames]

    def _waves(self, frames: int, like: Tensor) -> Tensor:
        key = f"{like.device} {like.dtype}"
        if key not in self.waves or len(self.waves[key]) < frames:
            waves = sequence.sinusoids(max(frames, 2 * self.design.seen), self.design.width)
            self.waves[key] = torch.as_tensor(waves, dtype=like.dtype, device=like.device)
        return self.waves[key][:frames]
