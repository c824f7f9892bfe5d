# SPDX-License-Identifier: GPL-3.0-or-later
"""Selective state-space layers in NumPy: whole sequences, and one frame at a time (Gu & Dao 2023, arXiv 2312.00752).

A layer widens its input to E channels and a gate, looks a few frames back by a causal convolution, and runs a linear state of N
numbers for each channel, whose step size and whose ways in and out depend on the input::

    u, gate = in_projection(x);  u = silu(convolution(u));  s, B, C = selection(u);  step = softplus(delta(s))
    state = exp(step A) state + step B u;  y = C . state + skip u;  out = out_projection(y silu(gate))

with A = -exp(``log_decay``) (N, E). Tensors are named as ``torch_layers.StateSpace`` names them; see ``sequence``. For many
single frames, call :func:`prepared` once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .sequence import Tensors, count, layer_norm, linear, silu, tensor


@dataclass(frozen=True)
class State:
    """What one layer remembers of the frames before."""

    recent: np.ndarray
    """(..., K - 1, E) the last inputs of the convolution of K taps."""
    hidden: np.ndarray
    """(..., N, E)"""


States = tuple[State, ...]
"""One for each block of a stack."""


def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + exp(x)), without overflow."""
    y = np.log1p(np.exp(-np.abs(x)))
    y += np.maximum(x, 0)
    return y


def prepared(tensors: Tensors) -> dict[str, np.ndarray]:
    """The same tensors and ``decay`` (N, E) beside each ``log_decay``, so that no frame has to compute it again."""
    ends = ".log_decay"
    extra = {name[: -len(ends)] + ".decay": -np.exp(array) for name, array in tensors.items() if name.endswith(ends)}
    return {**tensors, **extra}


def initial(tensors: Tensors, prefix: str, leading: tuple[int, ...] = (), dtype: type = np.float32) -> State:
    """The state of one layer before its first frame, zeros, for frames (*leading, C)."""
    zero: np.ndarray = np.zeros(0, dtype)
    channels, _, taps = tensor(tensors, f"{prefix}.convolution.weight", zero).shape
    numbers = len(tensor(tensors, f"{prefix}.log_decay", zero))
    return State(np.zeros((*leading, taps - 1, channels), dtype), np.zeros((*leading, numbers, channels), dtype))


def layer(tensors: Tensors, prefix: str, x: np.ndarray, state: State | None = None) -> tuple[np.ndarray, State]:
    """(..., T, C) to (..., T, C), and the state after the last frame; no ``state``: zeros."""
    if state is None:
        state = initial(tensors, prefix, x.shape[:-2], x.dtype.type)
    frames, numbers = x.shape[-2], state.hidden.shape[-2]
    both = linear(tensors, f"{prefix}.in_projection", x)
    width = both.shape[-1] // 2
    before = np.concatenate([state.recent, both[..., :width]], axis=-2)
    u = _convolved(tensors, prefix, before, frames)
    chosen = linear(tensors, f"{prefix}.selection", u)
    into, out_of = chosen[..., -2 * numbers : -numbers], chosen[..., -numbers:]
    size = softplus(linear(tensors, f"{prefix}.delta", chosen[..., : -2 * numbers]))
    y, hidden = _scan(_decay(tensors, prefix, x), size, size * u, into, out_of, state.hidden)
    u *= tensor(tensors, f"{prefix}.skip", x)
    y += u
    y *= silu(both[..., width:])
    return linear(tensors, f"{prefix}.out_projection", y), State(before[..., frames:, :], hidden)


def step(tensors: Tensors, prefix: str, x: np.ndarray, state: State | None = None) -> tuple[np.ndarray, State]:
    """One frame (..., C) to (..., C), and the state after it."""
    y, state = layer(tensors, prefix, x[..., None, :], state)
    return y[..., 0, :], state


def _decay(tensors: Tensors, prefix: str, x: np.ndarray) -> np.ndarray:
    if f"{prefix}.decay" in tensors:
        return tensor(tensors, f"{prefix}.decay", x)
    return -np.exp(tensor(tensors, f"{prefix}.log_decay", x))


def _convolved(tensors: Tensors, prefix: str, before: np.ndarray, frames: int) -> np.ndarray:
    """SiLU of the convolution, channel by channel, of (..., K - 1 + T, E), to (..., T, E)."""
    weight = tensor(tensors, f"{prefix}.convolution.weight", before)[:, 0, :].T
    if frames == 1:
        y = np.einsum("...ke,ke->...e", before, weight)[..., None, :]
    else:
        y = before[..., :frames, :] * weight[0]
        for k in range(1, len(weight)):
            y += before[..., k : k + frames, :] * weight[k]
    y += tensor(tensors, f"{prefix}.convolution.bias", before)
    return silu(y)


def _scan(
    decay: np.ndarray, size: np.ndarray, inputs: np.ndarray, into: np.ndarray, out_of: np.ndarray, hidden: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Run the state ``hidden`` (..., N, E) over steps of ``size`` and ``inputs`` (..., T, E), by ways (..., T, N) in and out.

    Returns what comes out (..., T, E) and the last state.
    """
    y = np.empty_like(inputs)
    for t in range(size.shape[-2]):
        kept = size[..., t, None, :] * decay
        np.exp(kept, out=kept)
        kept *= hidden
        kept += into[..., t, :, None] * inputs[..., t, None, :]
        hidden = kept
        np.einsum("...n,...ne->...e", out_of[..., t, :], hidden, out=y[..., t, :])
    return y, hidden


# ---- a stack of layers, each added to its input


def state_spaces(
    tensors: Tensors, prefix: str, x: np.ndarray, states: States | None = None
) -> tuple[np.ndarray, States]:
    """All blocks ``prefix.blocks.0`` (``norm`` and ``layer``) and on over (..., T, C), then ``prefix.norm``, and their states."""
    after = []
    for i in range(len(states) if states else count(tensors, f"{prefix}.blocks")):
        at = f"{prefix}.blocks.{i}"
        y, state = layer(tensors, f"{at}.layer", layer_norm(tensors, f"{at}.norm", x), states[i] if states else None)
        x = x + y
        after.append(state)
    return layer_norm(tensors, f"{prefix}.norm", x), tuple(after)


def state_spaces_step(
    tensors: Tensors, prefix: str, x: np.ndarray, states: States | None = None
) -> tuple[np.ndarray, States]:
    """One frame (..., C) through :func:`state_spaces`."""
    y, states = state_spaces(tensors, prefix, x[..., None, :], states)
    return y[..., 0, :], states
