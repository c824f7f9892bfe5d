# SPDX-License-Identifier: GPL-3.0-or-later
"""The layers of ``sequence`` and ``state_space`` as PyTorch modules, to train them; NumPy runs what they learned.

The names and shapes of a module's ``state_dict`` are those that the NumPy functions read::

    tensors = tensors_of(network)  # network.body is a Transformer(256, heads=8, depth=4)
    y = sequence.transformer(tensors, "body", x, heads=8, mask=sequence.causal(len(x)))

A GRU is ``torch.nn.GRU(..., batch_first=True)``, read by ``sequence.gru``; a linear layer ``torch.nn.Linear``. Sequences are
(N, T, C). Modules named ``torch_...`` are the only ones that import PyTorch; whatever else needs it calls
``arguments.require_torch`` and then imports them inside a function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .sequence import EPSILON


def tensors_of(module: nn.Module) -> dict[str, np.ndarray]:
    """All weights of ``module`` by name, as NumPy arrays of their own, on whichever device it is."""
    return {name: weights.detach().cpu().numpy().copy() for name, weights in module.state_dict().items()}


def load_tensors(module: nn.Module, tensors: dict[str, np.ndarray]) -> None:
    """Give ``module`` the weights that :func:`tensors_of` read; ValueError names what is missing, unknown or misshapen."""
    for name, weights in module.state_dict().items():
        if name not in tensors:
            raise ValueError(f"expected a tensor named {name}; it is missing")
        if tensors[name].shape != tuple(weights.shape):
            raise ValueError(f"{name}: expected {tuple(weights.shape)}, got {tensors[name].shape}")
    unknown = sorted(set(tensors) - set(module.state_dict()))
    if unknown:
        raise ValueError(f"unknown tensors: {', '.join(unknown)}")
    module.load_state_dict({name: torch.as_tensor(np.array(array)) for name, array in tensors.items()})


def gelu(x: Tensor) -> Tensor:
    """GELU by its tanh formula, as ``sequence.gelu``."""
    return functional.gelu(x, approximate="tanh")


# ---- Transformer


class Attention(nn.Module):
    """Multi-head self-attention; see ``sequence.attention`` for the mask."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"heads: expected a divisor of the {width} channels, got {heads}")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(N, T, C) to (N, T, C)."""
        q, k, v = (a.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for a in self.qkv(x).chunk(3, dim=-1))
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(seen.transpose(-3, -2).flatten(-2))


class Block(nn.Module):
    """A pre-norm Transformer block, ``sequence.block``; ``dropout`` is a share of what is added, in training only."""

    def __init__(self, width: int, heads: int, wide: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width, EPSILON)
        self.attention = Attention(width, heads)
        self.norm_2 = nn.LayerNorm(width, EPSILON)
        self.wide = nn.Linear(width, wide)
        self.narrow = nn.Linear(wide, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(N, T, C) to (N, T, C)."""
        x = x + self.dropout(self.attention(self.norm_1(x), mask))
        return x + self.dropout(self.narrow(gelu(self.wide(self.norm_2(x)))))


class Transformer(nn.Module):
    """``depth`` blocks and a normalisation, ``sequence.transformer``; ``wide`` channels inside, four times ``width`` where 0."""

    def __init__(self, width: int, heads: int, depth: int, wide: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads, wide or 4 * width, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width, EPSILON)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(N, T, C) to (N, T, C); ``mask`` broadcasts to (N, heads, T, T), bool (True: sees) or added to the scores."""
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


# ---- convolution over time


class ConvolutionBlock(nn.Module):
    """One residual block of ``sequence.convolutions``; ``dropout`` is a share of what is added, in training only."""

    def __init__(self, width: int, taps: int, dilation: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, EPSILON)
        self.convolution = nn.Conv1d(width, width, taps, padding=taps // 2 * dilation, dilation=dilation)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(N, T, C) to (N, T, C); ``mask`` (N, T) bool, False for padding."""
        normal = self.norm(x)
        if mask is not None:
            normal = normal * mask[..., None]
        return x + self.dropout(self.out(gelu(self.convolution(normal.transpose(1, 2)).transpose(1, 2))))


class Convolutions(nn.Module):
    """Residual blocks of convolutions of ``taps`` (odd) frames, one for each of ``dilations``: ``sequence.convolutions``."""

    def __init__(self, width: int, dilations: Sequence[int], taps: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        if taps % 2 == 0:
            raise ValueError(f"taps: expected an odd number, got {taps}")
        self.blocks = nn.ModuleList(ConvolutionBlock(width, taps, dilation, dropout) for dilation in dilations)
        self.norm = nn.LayerNorm(width, EPSILON)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(N, T, C) to (N, T, C); ``mask`` (N, T) bool, False for padding."""
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


# ---- selective state space


class LinearScan(torch.autograd.Function):
    """h[t] = a[t] h[t-1] + b[t] over the first axis, from zeros: one fused operation for each frame, forward and back.

    The gradient runs the same recurrence from the end: g[t] = dh[t] + a[t+1] g[t+1], then da[t] = g[t] h[t-1], db[t] = g[t].
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """``a`` and ``b`` (T, ...) to h (T, ...)."""
        h = torch.empty_like(b)
        h[0] = b[0]
        for t in range(1, len(b)):
            torch.addcmul(b[t], a[t], h[t - 1], out=h[t])
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients with respect to ``a`` and ``b``."""
        a, h = ctx.saved_tensors
        g = torch.empty_like(h)
        g[-1] = dh[-1]
        for t in range(len(h) - 2, -1, -1):
            torch.addcmul(dh[t], a[t + 1], g[t + 1], out=g[t])
        da = torch.zeros_like(a)
        torch.mul(g[1:], h[:-1], out=da[1:])
        return da, g


class StateSpace(nn.Module):
    """A selective state-space layer, ``state_space.layer``: ``state`` numbers for each of ``widening`` x ``width`` channels.

    Begins as Gu & Dao 2023 do: decays 1 to ``state`` for each channel, step sizes spread over 0.001 to 0.1 frames.
    """

    def __init__(self, width: int, state: int = 32, widening: int = 1, taps: int = 4, rank: int = 0) -> None:
        super().__init__()
        inner, self.rank, self.state, self.taps = widening * width, rank or math.ceil(width / 16), state, taps
        self.in_projection = nn.Linear(width, 2 * inner, bias=False)
        self.convolution = nn.Conv1d(inner, inner, taps, groups=inner)
        self.selection = nn.Linear(inner, self.rank + 2 * state, bias=False)
        self.delta = nn.Linear(self.rank, inner)
        self.log_decay = nn.Parameter(torch.arange(1.0, state + 1).log()[:, None].repeat(1, inner))
        self.skip = nn.Parameter(torch.ones(inner))
        self.out_projection = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            sizes = torch.exp(torch.rand(inner) * math.log(100) + math.log(0.001))
            self.delta.bias.copy_(sizes + torch.log(-torch.expm1(-sizes)))  # the inverse of softplus
            nn.init.uniform_(self.delta.weight, -(self.rank**-0.5), self.rank**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, C) to (N, T, C), from a state of zeros."""
        u, gate = self.in_projection(x).chunk(2, dim=-1)
        u = functional.pad(u.transpose(1, 2), (self.taps - 1, 0))
        u = functional.silu(self.convolution(u)).permute(2, 0, 1)  # (T, N, E): the scan goes along the first axis
        chosen, into, out_of = self.selection(u).split([self.rank, self.state, self.state], dim=-1)
        size = functional.softplus(self.delta(chosen))
        kept = torch.exp(size[..., None, :] * -torch.exp(self.log_decay))
        hidden = LinearScan.apply(kept, into[..., None] * (size * u)[..., None, :])  # (T, N, state, E)
        y = torch.matmul(out_of[..., None, :], hidden)[..., 0, :] + self.skip * u
        return self.out_projection(y.transpose(0, 1) * functional.silu(gate))


class StateSpaceBlock(nn.Module):
    """A normalisation and a layer, added to its input."""

    def __init__(self, width: int, **layer: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, EPSILON)
        self.layer = StateSpace(width, **layer)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, C) to (N, T, C)."""
        return x + self.layer(self.norm(x))


class StateSpaces(nn.Module):
    """``depth`` blocks and a normalisation, ``state_space.state_spaces``; ``layer`` goes to :class:`StateSpace`."""

    def __init__(self, width: int, depth: int, **layer: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(StateSpaceBlock(width, **layer) for _ in range(depth))
        self.norm = nn.LayerNorm(width, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, C) to (N, T, C)."""
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
