# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers: exact gradients of every activation, views of one vector, one input at a time, and names in a file."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import EXACT, GRADIENT, numeric_gradient, relative_error

from neural_network.learning import layers

WIDTHS = [(4, 3), (4, 5, 3), (4, 6, 5, 3)]


def fresh(widths: tuple[int, ...], skip: bool, activation: str, rng: np.random.Generator) -> layers.Stack:
    parameters = 0.7 * rng.normal(size=layers.parameter_count(widths, skip))
    return layers.stack(parameters, widths, activation, skip)


@pytest.mark.parametrize("activation", layers.ACTIVATIONS)
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("widths", WIDTHS)
def test_the_backward_pass_agrees_with_central_differences(
    widths: tuple[int, ...], skip: bool, activation: str, rng: np.random.Generator
) -> None:
    parameters = 0.7 * rng.normal(size=layers.parameter_count(widths, skip))
    x, weight = rng.normal(size=(5, 4)), rng.normal(size=(5, 3))

    def value(at: np.ndarray) -> float:
        out = layers.forward(layers.stack(at, widths, activation, skip), x)[-1]
        return float(np.sum(weight * out + 0.5 * out**2))

    network = layers.stack(parameters, widths, activation, skip)
    activations = layers.forward(network, x)
    found = np.zeros_like(parameters)
    kept = parameters.copy(), x.copy(), weight.copy()
    layers.backward(network, activations, weight + activations[-1], layers.stack(found, widths, activation, skip))
    assert relative_error(found, numeric_gradient(value, parameters, step=1e-4)) <= GRADIENT
    for before, now in zip(kept, (parameters, x, weight), strict=True):
        np.testing.assert_array_equal(now, before)


def test_the_gradient_returned_leads_to_the_inputs(rng: np.random.Generator) -> None:
    network = fresh((4, 6, 3), False, "tanh", rng)
    x, weight = rng.normal(size=(5, 4)), rng.normal(size=(5, 3))

    def value(at: np.ndarray) -> float:
        return float(np.sum(weight * layers.forward(network, at)[-1]))

    scratch = layers.stack(np.zeros(layers.parameter_count((4, 6, 3))), (4, 6, 3))
    back = layers.backward(network, layers.forward(network, x), weight, scratch)
    assert relative_error(back @ network.layers[0][0].T, numeric_gradient(value, x)) <= GRADIENT


def test_the_hidden_layers_are_what_their_activation_says(rng: np.random.Generator) -> None:
    x = rng.normal(size=(6, 4))
    for name, function in (("tanh", np.tanh), ("relu", lambda y: np.maximum(y, 0))):
        network = fresh((4, 5, 3), True, name, rng)
        (w1, b1), (w2, b2) = network.layers
        expected = function(x @ w1 + b1) @ w2 + b2 + x @ network.skip
        np.testing.assert_allclose(layers.forward(network, x)[-1], expected, atol=EXACT)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("widths", WIDTHS)
def test_one_input_gives_what_a_batch_gives(widths: tuple[int, ...], skip: bool, rng: np.random.Generator) -> None:
    network = fresh(widths, skip, "tanh", rng)
    x = rng.normal(size=(6, 4))
    kept = x.copy()
    found = np.stack([layers.forward_one(network, row) for row in x])
    np.testing.assert_allclose(found, layers.forward(network, x)[-1], atol=EXACT)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("skip", [False, True])
def test_a_stack_is_views_of_all_the_parameters(skip: bool) -> None:
    parameters = np.arange(layers.parameter_count((4, 5, 3), skip), dtype=float)
    network = layers.stack(parameters, (4, 5, 3), skip=skip)
    parts = [a.ravel() for pair in network.layers for a in pair] + ([network.skip.ravel()] if skip else [])
    np.testing.assert_array_equal(np.concatenate(parts), parameters)
    network.layers[1][1][:] = -1
    assert np.sum(parameters == -1) == 3


def test_only_weights_are_marked_for_decay() -> None:
    mask = layers.weight_mask((4, 5, 3), skip=True)
    network = layers.stack(mask, (4, 5, 3), skip=True)
    assert all(np.all(weights == 1) and np.all(bias == 0) for weights, bias in network.layers)
    assert np.all(network.skip == 1)


@pytest.mark.parametrize("skip", [False, True])
def test_named_tensors_come_back_as_the_same_vector(skip: bool, rng: np.random.Generator) -> None:
    parameters = rng.normal(size=layers.parameter_count((4, 5, 3), skip)).astype(np.float32)
    tensors = layers.to_tensors(layers.stack(parameters, (4, 5, 3), skip=skip))
    assert {"layer_1.weights", "layer_2.bias"} <= set(tensors)
    np.testing.assert_array_equal(layers.from_tensors(tensors, (4, 5, 3), skip), parameters)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match=r"parameters: expected 43 for layers \(4, 5, 3\), got \(42,\)"):
        layers.stack(np.zeros(42), (4, 5, 3))
    with pytest.raises(ValueError, match="activation: expected one of tanh, relu, got 'sine'"):
        layers.stack(np.zeros(43), (4, 5, 3), "sine")
    tensors = layers.to_tensors(layers.stack(np.zeros(43), (4, 5, 3)))
    with pytest.raises(ValueError, match=r"expected skip.weights of shape \(4, 3\).* missing"):
        layers.from_tensors(tensors, (4, 5, 3), skip=True)
    with pytest.raises(ValueError, match=r"layer_1.weights: expected \(9, 5\) for layers .*, got \(4, 5\)"):
        layers.from_tensors(tensors, (9, 5, 3))
