# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers over sequences, in NumPy: linear, normalisation, attention, Transformer, GRU, dilated convolution.

Every function reads named tensors as ``torch_layers`` makes and names them: ``linear(tensors, "decoder", x)`` reads
``decoder.weight`` and ``decoder.bias``. Sequences are (..., T, C) with free leading axes; what is computed has the kind of
real number that ``x`` has, float32 or float64. Functions ending in ``_step`` take one frame (..., C) and the state after the
frames before it, and return the new state; the state given is not changed. The state-space layer is in ``state_space``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Tensors = Mapping[str, np.ndarray]
Cache = tuple[tuple[np.ndarray, np.ndarray], ...]
"""Keys and values (..., S, C) of the frames seen, for each block of a Transformer; empty before the first frame."""

GELU_SCALE = float(np.sqrt(2 / np.pi))
EPSILON = 1e-5  # added to the variance by which a normalisation divides, as PyTorch does


def tensor(tensors: Tensors, name: str, x: np.ndarray) -> np.ndarray:
    """The tensor ``name`` in the kind of number of ``x``; ValueError where there is none."""
    if name not in tensors:
        raise ValueError(f"expected a tensor named {name}; it is missing")
    found = tensors[name]
    return found if found.dtype == x.dtype else found.astype(x.dtype)


def count(tensors: Tensors, prefix: str) -> int:
    """How many numbered parts ``prefix.0.``, ``prefix.1.``, ... there are."""
    found = 0
    while any(name.startswith(f"{prefix}.{found}.") for name in tensors):
        found += 1
    return found


def times(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """``x`` (..., I) times ``weight`` (O, I), giving (..., O).

    A single vector goes through einsum, which is fast in every build of NumPy, those without BLAS included.
    """
    if x.shape[-1] != weight.shape[1]:
        raise ValueError(f"expected {weight.shape[1]} channels, got {x.shape[-1]}")
    if x.size == x.shape[-1]:
        return np.einsum("oi,i->o", weight, x.ravel()).reshape(*x.shape[:-1], len(weight))
    return np.matmul(x.reshape(-1, x.shape[-1]), weight.T).reshape(*x.shape[:-1], len(weight))


def linear(tensors: Tensors, prefix: str, x: np.ndarray) -> np.ndarray:
    """(..., I) to (..., O) by ``weight`` (O, I) and ``bias`` (O), which may be absent."""
    y = times(x, tensor(tensors, f"{prefix}.weight", x))
    if f"{prefix}.bias" in tensors:
        y += tensor(tensors, f"{prefix}.bias", x)
    return y


def layer_norm(tensors: Tensors, prefix: str, x: np.ndarray) -> np.ndarray:
    """Each frame (..., C) with mean 0 and variance 1, scaled and moved (Ba, Kiros & Hinton 2016, arXiv 1607.06450)."""
    y = x - np.add.reduce(x, axis=-1, keepdims=True) / x.shape[-1]
    variance = np.einsum("...c,...c->...", y, y)[..., None] / x.shape[-1]
    y /= np.sqrt(variance + EPSILON)
    y *= tensor(tensors, f"{prefix}.weight", x)
    y += tensor(tensors, f"{prefix}.bias", x)
    return y


def relu(x: np.ndarray) -> np.ndarray:
    """Negative numbers become 0."""
    return np.maximum(x, 0)


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU by its tanh formula (Hendrycks & Gimpel 2016, arXiv 1606.08415)."""
    y = x * x
    y *= 0.044715
    y += 1
    y *= x
    y *= GELU_SCALE
    np.tanh(y, out=y)
    y += 1
    y *= x
    y *= 0.5
    return y


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), through tanh, which never overflows."""
    y = np.tanh(0.5 * x)
    y += 1
    y *= 0.5
    return y


def silu(x: np.ndarray) -> np.ndarray:
    """``x`` times its sigmoid."""
    y = sigmoid(x)
    y *= x
    return y


def sinusoids(frames: int, width: int) -> np.ndarray:
    """(T, C) sines and cosines that tell a Transformer which frame is which (Vaswani et al. 2017, arXiv 1706.03762)."""
    angle = np.arange(frames)[:, None] / 10_000.0 ** (np.arange(0, width, 2) / width)
    out = np.empty((frames, width))
    out[:, 0::2], out[:, 1::2] = np.sin(angle), np.cos(angle[:, : width // 2])
    return out


# ---- attention


def causal(frames: int, most: int | None = None) -> np.ndarray:
    """(T, T) bool: each frame sees itself and those before it, at most the last ``most`` of them, itself included."""
    back = np.arange(frames)[:, None] - np.arange(frames)
    return (back >= 0) & (back < (frames if most is None else most))


def attention(tensors: Tensors, prefix: str, x: np.ndarray, heads: int, mask: np.ndarray | None = None) -> np.ndarray:
    """Multi-head self-attention of (..., T, C), by ``qkv`` (3 C, C) and ``out`` (C, C) (Vaswani et al. 2017).

    ``mask`` broadcasts to (..., heads, T, T): bool, True where the frame of a row sees that of a column, or numbers that are
    added to the scores. A frame that sees nothing attends to zeros. Padding (N, S) is masked by ``mask[:, None, None, :]``.
    """
    queries, keys, values = _queries_keys_values(tensors, prefix, x)
    return linear(tensors, f"{prefix}.out", _attend(queries, keys, values, heads, mask))


def _queries_keys_values(tensors: Tensors, prefix: str, x: np.ndarray) -> list[np.ndarray]:
    return np.split(linear(tensors, f"{prefix}.qkv", x), 3, axis=-1)


def _attend(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, heads: int, mask: np.ndarray | None
) -> np.ndarray:
    """Queries (..., T, C) of keys and values (..., S, C), head by head, to (..., T, C)."""
    width = queries.shape[-1]
    if heads < 1 or width % heads:
        raise ValueError(f"heads: expected a divisor of the {width} channels, got {heads}")
    q, k, v = (a.reshape(*a.shape[:-1], heads, width // heads).swapaxes(-3, -2) for a in (queries, keys, values))
    scores = np.matmul(q * q.dtype.type((width // heads) ** -0.5), k.swapaxes(-1, -2))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(scores.dtype)
    highest = scores.max(axis=-1, keepdims=True)
    scores -= np.where(highest == -np.inf, 0, highest)
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    scores /= np.where(total == 0, 1, total)
    return np.matmul(scores, v).swapaxes(-3, -2).reshape(queries.shape)


def block(tensors: Tensors, prefix: str, x: np.ndarray, heads: int, mask: np.ndarray | None = None) -> np.ndarray:
    """A pre-norm Transformer block (Xiong et al. 2020, arXiv 2002.04745): ``norm_1``, ``attention``, ``norm_2``, ``wide``, ``narrow``."""
    x = x + attention(tensors, f"{prefix}.attention", layer_norm(tensors, f"{prefix}.norm_1", x), heads, mask)
    return x + _feed_forward(tensors, prefix, x)


def _feed_forward(tensors: Tensors, prefix: str, x: np.ndarray) -> np.ndarray:
    wide = linear(tensors, f"{prefix}.wide", layer_norm(tensors, f"{prefix}.norm_2", x))
    return linear(tensors, f"{prefix}.narrow", gelu(wide))


def transformer(tensors: Tensors, prefix: str, x: np.ndarray, heads: int, mask: np.ndarray | None = None) -> np.ndarray:
    """All blocks ``prefix.blocks.0`` and on over (..., T, C), then ``prefix.norm``; ``mask`` as for :func:`attention`."""
    for i in range(count(tensors, f"{prefix}.blocks")):
        x = block(tensors, f"{prefix}.blocks.{i}", x, heads, mask)
    return layer_norm(tensors, f"{prefix}.norm", x)


def transformer_step(
    tensors: Tensors, prefix: str, x: np.ndarray, heads: int, cache: Cache = (), most: int | None = None
) -> tuple[np.ndarray, Cache]:
    """The next frame (..., C) of a causal :func:`transformer`, given what the frames before left in ``cache``.

    ``most`` frames are remembered, this one included, as :func:`causal` has it; None: all.
    """
    grown = []
    for i in range(count(tensors, f"{prefix}.blocks")):
        at = f"{prefix}.blocks.{i}"
        normal = layer_norm(tensors, f"{at}.norm_1", x)
        query, *new = (a[..., None, :] for a in _queries_keys_values(tensors, f"{at}.attention", normal))
        if cache:
            first = 0 if most is None else max(0, cache[i][0].shape[-2] + 1 - most)
            new = [np.concatenate([old[..., first:, :], a], axis=-2) for old, a in zip(cache[i], new, strict=True)]
        grown.append((new[0], new[1]))
        seen = _attend(query, new[0], new[1], heads, None)[..., 0, :]
        x = x + linear(tensors, f"{at}.attention.out", seen)
        x = x + _feed_forward(tensors, at, x)
    return layer_norm(tensors, f"{prefix}.norm", x), tuple(grown)


# ---- gated recurrent units


def gru(tensors: Tensors, prefix: str, x: np.ndarray, state: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Stacked GRU layers (Cho et al. 2014, arXiv 1406.1078; gates r, z, n as in torch.nn.GRU) over (..., T, C).

    Returns the last layer's (..., T, H) and the state (layers, ..., H) after the last frame. No ``state``: zeros.
    """
    after = []
    for layer in range(_gru_layers(tensors, prefix)):
        inputs = _gru_linear(tensors, prefix, "ih", layer, x)
        hidden = np.zeros((*x.shape[:-2], inputs.shape[-1] // 3), x.dtype) if state is None else state[layer]
        out = np.empty((*x.shape[:-1], hidden.shape[-1]), x.dtype)
        for t in range(x.shape[-2]):
            hidden = _gru_cell(inputs[..., t, :], _gru_linear(tensors, prefix, "hh", layer, hidden), hidden)
            out[..., t, :] = hidden
        after.append(hidden)
        x = out
    return x, np.stack(after)


def gru_step(
    tensors: Tensors, prefix: str, x: np.ndarray, state: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """One frame (..., C) through :func:`gru`, to (..., H) and the state after it."""
    y, state = gru(tensors, prefix, x[..., None, :], state)
    return y[..., 0, :], state


def _gru_layers(tensors: Tensors, prefix: str) -> int:
    layers = 0
    while f"{prefix}.weight_ih_l{layers}" in tensors:
        layers += 1
    if not layers:
        raise ValueError(f"expected a tensor named {prefix}.weight_ih_l0; it is missing")
    return layers


def _gru_linear(tensors: Tensors, prefix: str, which: str, layer: int, x: np.ndarray) -> np.ndarray:
    y = times(x, tensor(tensors, f"{prefix}.weight_{which}_l{layer}", x))
    y += tensor(tensors, f"{prefix}.bias_{which}_l{layer}", x)
    return y


def _gru_cell(inputs: np.ndarray, own: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """``inputs`` and ``own`` (..., 3 H) are linear in the input and in the ``hidden`` (..., H) before it."""
    width = hidden.shape[-1]
    gates = sigmoid(inputs[..., : 2 * width] + own[..., : 2 * width])
    reset, keep = gates[..., :width], gates[..., width:]
    new = np.tanh(inputs[..., 2 * width :] + reset * own[..., 2 * width :])
    return new + keep * (hidden - new)


# ---- convolution over time


def convolution(tensors: Tensors, prefix: str, x: np.ndarray, dilation: int = 1) -> np.ndarray:
    """(..., T, I) to (..., T, O) by ``weight`` (O, I, K), K odd, and ``bias`` (O); zeros beyond both ends."""
    weight = tensor(tensors, f"{prefix}.weight", x)
    outputs, inputs, taps = weight.shape
    if taps % 2 == 0 or x.shape[-1] != inputs:
        raise ValueError(f"{prefix}: expected an odd kernel over {x.shape[-1]} channels, got {weight.shape}")
    reach, frames = taps // 2 * dilation, x.shape[-2]
    padded = np.zeros((*x.shape[:-2], frames + 2 * reach, inputs), x.dtype)
    padded[..., reach : reach + frames, :] = x
    near = [padded[..., k * dilation : k * dilation + frames, :] for k in range(taps)]
    y = times(np.concatenate(near, axis=-1), weight.transpose(0, 2, 1).reshape(outputs, taps * inputs))
    y += tensor(tensors, f"{prefix}.bias", x)
    return y


def convolutions(
    tensors: Tensors, prefix: str, x: np.ndarray, dilations: Sequence[int], mask: np.ndarray | None = None
) -> np.ndarray:
    """Residual blocks of dilated convolutions over (..., T, C), one for each of ``dilations``, then ``prefix.norm``.

    A block ``prefix.blocks.0`` is ``norm``, ``convolution``, GELU and ``out``, added to its input (after Bai, Kolter & Koltun
    2018, arXiv 1803.01271). ``mask`` (..., T) bool is False for frames of padding, which then change no other frame.
    """
    if count(tensors, f"{prefix}.blocks") != len(dilations):
        raise ValueError(f"dilations: expected {count(tensors, f'{prefix}.blocks')} of them, got {len(dilations)}")
    for i, dilation in enumerate(dilations):
        at = f"{prefix}.blocks.{i}"
        normal = layer_norm(tensors, f"{at}.norm", x)
        if mask is not None:
            normal *= mask[..., None]
        x = x + linear(tensors, f"{at}.out", gelu(convolution(tensors, f"{at}.convolution", normal, dilation)))
    return layer_norm(tensors, f"{prefix}.norm", x)
