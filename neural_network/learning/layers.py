# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers: the perceptron that every network of the project is made of, forward, backward and one input at a time.

A network's parameters are one flat vector (P), so that the optimiser takes one pass over all of them; a :class:`Stack`
holds views of that vector, one matrix and one bias for each layer, and where wanted a linear path from inputs to outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Activation = Callable[[np.ndarray], np.ndarray]


def _tanh(x: np.ndarray) -> np.ndarray:
    out: np.ndarray = np.tanh(x, out=x)
    return out


def _relu(x: np.ndarray) -> np.ndarray:
    out: np.ndarray = np.maximum(x, 0, out=x)
    return out


ACTIVATIONS: Mapping[str, tuple[Activation, Activation]] = {
    "tanh": (_tanh, lambda y: 1 - y * y),
    "relu": (_relu, lambda y: (y > 0).astype(y.dtype)),
}
"""Name -> (the function, in place; its derivative, written in the function's value)."""


@dataclass(frozen=True)
class Stack:
    """Views of a flat parameter vector, layer by layer."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    """(weights (in, out), bias (out)) of each layer, from inputs to outputs; the last one is linear."""
    skip: np.ndarray | None
    """(inputs, outputs) a linear path beside the layers, or None."""
    activation: str
    """Of the hidden layers, one of :data:`ACTIVATIONS`."""


def parameter_count(widths: Sequence[int], skip: bool = False) -> int:
    """Number of weights and biases of a perceptron with these layer widths, inputs and outputs included."""
    return sum((a + 1) * b for a, b in pairwise(widths)) + (widths[0] * widths[-1] if skip else 0)


def stack(parameters: np.ndarray, widths: Sequence[int], activation: str = "tanh", skip: bool = False) -> Stack:
    """Views of the flat vector ``parameters`` (P); ValueError for a wrong size or an unknown activation."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    if parameters.shape != (parameter_count(widths, skip),):
        raise ValueError(
            f"parameters: expected {parameter_count(widths, skip)} for layers {tuple(widths)}, got {parameters.shape}"
        )
    out, at = [], 0
    for a, b in pairwise(widths):
        out.append((parameters[at : at + a * b].reshape(a, b), parameters[at + a * b : at + (a + 1) * b]))
        at += (a + 1) * b
    return Stack(tuple(out), parameters[at:].reshape(widths[0], widths[-1]) if skip else None, activation)


def glorot(network: Stack, rng: np.random.Generator, last: float = 1.0) -> None:
    """Fill the layers with Glorot-uniform weights (Glorot & Bengio 2010) in place, the last layer's scaled by ``last``.

    Biases and the linear path are left as they are.
    """
    for weights, _ in network.layers:
        weights[...] = rng.uniform(-1, 1, weights.shape) * np.sqrt(6 / sum(weights.shape))
    network.layers[-1][0][...] *= last


def forward(network: Stack, x: np.ndarray) -> list[np.ndarray]:
    """Inputs (N, I) to the activations of every layer, [x, hidden, ..., outputs], kept for :func:`backward`.

    A single input (I) gives activations without the leading axis.
    """
    function = ACTIVATIONS[network.activation][0]
    out = [x]
    for weights, bias in network.layers[:-1]:
        y = out[-1] @ weights
        y += bias
        out.append(function(y))
    weights, bias = network.layers[-1]
    y = out[-1] @ weights + bias
    if network.skip is not None:
        y += x @ network.skip
    out.append(y)
    return out


def backward(network: Stack, activations: list[np.ndarray], gradient: np.ndarray, into: Stack) -> np.ndarray:
    """Gradient of a value with respect to all parameters, written ``into`` views shaped like ``network``.

    ``activations`` come from :func:`forward`; ``gradient`` (N, O) is the value's gradient with respect to the outputs.
    Returns the gradient with respect to the first layer's pre-activation (N, H) (the outputs where there is one layer):
    multiplied by the first weights it is the gradient with respect to the inputs.
    """
    derivative = ACTIVATIONS[network.activation][1]
    if network.skip is not None and into.skip is not None:
        np.matmul(activations[0].T, gradient, out=into.skip)
    for i in range(len(network.layers) - 1, -1, -1):
        np.matmul(activations[i].T, gradient, out=into.layers[i][0])
        np.sum(gradient, axis=0, out=into.layers[i][1])
        if i:
            gradient = gradient @ network.layers[i][0].T
            gradient *= derivative(activations[i])
    return gradient


def forward_one(network: Stack, x: np.ndarray) -> np.ndarray:
    """One input (I) to its output (O).

    Vector times matrix goes through einsum, which is fast in every build of NumPy, those without BLAS included.
    """
    function = ACTIVATIONS[network.activation][0]
    y = x
    for i, (weights, bias) in enumerate(network.layers):
        y = np.einsum("i,ij->j", y, weights) + bias
        if i < len(network.layers) - 1:
            y = function(y)
    if network.skip is not None:
        y = y + np.einsum("i,ij->j", x, network.skip)
    return y


def to_tensors(network: Stack) -> dict[str, np.ndarray]:
    """The layers by name, as a model file holds them: layer_1.weights, layer_1.bias, ..., skip.weights."""
    out: dict[str, np.ndarray] = {}
    for i, (weights, bias) in enumerate(network.layers, 1):
        out[f"layer_{i}.weights"], out[f"layer_{i}.bias"] = weights, bias
    if network.skip is not None:
        out["skip.weights"] = network.skip
    return out


def from_tensors(tensors: Mapping[str, np.ndarray], widths: Sequence[int], skip: bool = False) -> np.ndarray:
    """The flat float32 vector (P) of layers that :func:`to_tensors` named; ValueError names what is missing or misshapen."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (a, b) in enumerate(pairwise(widths), 1):
        shapes[f"layer_{i}.weights"], shapes[f"layer_{i}.bias"] = (a, b), (b,)
    if skip:
        shapes["skip.weights"] = (widths[0], widths[-1])
    for name, shape in shapes.items():  # before anything of the claimed size is allocated
        if name not in tensors:
            raise ValueError(f"expected {name} of shape {shape} for layers {tuple(widths)}; it is missing")
        if tensors[name].shape != shape:
            raise ValueError(f"{name}: expected {shape} for layers {tuple(widths)}, got {tensors[name].shape}")
    return np.concatenate([tensors[name].ravel() for name in shapes]).astype(np.float32)


def weight_mask(widths: Sequence[int], skip: bool = False) -> np.ndarray:
    """(P) float32: 1 for every weight, 0 for every bias. Weight decay is for weights alone."""
    mask = np.zeros(parameter_count(widths, skip), np.float32)
    views = stack(mask, widths, skip=skip)
    for weights, _ in views.layers:
        weights[...] = 1
    if views.skip is not None:
        views.skip[...] = 1
    return mask
