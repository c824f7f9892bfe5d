# SPDX-License-Identifier: GPL-3.0-or-later
"""PyTorch and NumPy compute the same: every layer, with random weights, in both kinds of number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neural_network.learning import sequence, state_space

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -r requirements/learning.txt")
from neural_network.learning import torch_layers  # noqa: E402 - there is none without PyTorch

pytestmark = pytest.mark.learning

WIDTH, FRAMES = 24, 40
SAME = {np.float32: 1e-5, np.float64: 1e-10}
"""What NumPy and PyTorch may differ by."""

CAUSAL = sequence.causal(FRAMES)
THERE = np.arange(FRAMES) < np.array([[FRAMES], [25]])
BIAS = np.random.default_rng(4).normal(size=(4, FRAMES, FRAMES))

LAYERS: dict[str, tuple[Callable[[], Any], Callable[..., Any], np.ndarray | None]] = {
    "transformer": (
        lambda: torch_layers.Transformer(WIDTH, 4, 2, dropout=0.5),
        lambda t, x, mask: sequence.transformer(t, "body", x, 4, mask),
        None,
    ),
    "causal transformer": (
        lambda: torch_layers.Transformer(WIDTH, 4, 2, wide=30),
        lambda t, x, mask: sequence.transformer(t, "body", x, 4, mask),
        CAUSAL,
    ),
    "transformer of padded sequences": (
        lambda: torch_layers.Transformer(WIDTH, 4, 2),
        lambda t, x, mask: sequence.transformer(t, "body", x, 4, mask),
        THERE[:, None, None, :] & CAUSAL,
    ),
    "attention with a bias for each head": (
        lambda: torch_layers.Attention(WIDTH, 4),
        lambda t, x, mask: sequence.attention(t, "body", x, 4, mask),
        BIAS,
    ),
    "attention where a frame sees nothing": (
        lambda: torch_layers.Attention(WIDTH, 4),
        lambda t, x, mask: sequence.attention(t, "body", x, 4, mask),
        np.tri(FRAMES, k=-1, dtype=bool),
    ),
    "convolutions": (
        lambda: torch_layers.Convolutions(WIDTH, (1, 2, 4), taps=5),
        lambda t, x, mask: sequence.convolutions(t, "body", x, (1, 2, 4), mask),
        None,
    ),
    "convolutions over padded sequences": (
        lambda: torch_layers.Convolutions(WIDTH, (1, 2, 4)),
        lambda t, x, mask: sequence.convolutions(t, "body", x, (1, 2, 4), mask),
        THERE,
    ),
    "gru": (
        lambda: torch.nn.GRU(WIDTH, 16, 2, batch_first=True),
        lambda t, x, mask: sequence.gru(t, "body", x)[0],
        None,
    ),
    "state spaces": (
        lambda: torch_layers.StateSpaces(WIDTH, 2, state=8, widening=2),
        lambda t, x, mask: state_space.state_spaces(t, "body", x)[0],
        None,
    ),
    "linear": (lambda: torch.nn.Linear(WIDTH, 5), lambda t, x, mask: sequence.linear(t, "body", x), None),
    "relu": (torch.nn.ReLU, lambda t, x, mask: sequence.relu(x), None),
}


def random_module(make: Callable[[], Any], kind: type) -> Any:
    """A module with every weight drawn at random, so that none is the 0 or 1 it begins with."""
    torch.manual_seed(3)
    body = make().to(torch.float64 if kind is np.float64 else torch.float32).eval()
    with torch.no_grad():
        for weights in body.parameters():
            weights += 0.2 * torch.randn_like(weights)
    return torch.nn.ModuleDict({"body": body})


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", LAYERS)
def test_numpy_computes_what_pytorch_computes(name: str, kind: type, rng: np.random.Generator) -> None:
    make, run, mask = LAYERS[name]
    network = random_module(make, kind)
    x = rng.normal(size=(2, FRAMES, WIDTH)).astype(kind)
    given = None if mask is None else mask if mask.dtype == bool else mask.astype(kind)
    with torch.no_grad():
        extra = () if given is None else (torch.as_tensor(given),)
        expected = network["body"](torch.as_tensor(x), *extra)
    expected = (expected[0] if isinstance(expected, tuple) else expected).numpy()
    found = run(torch_layers.tensors_of(network), x, given)
    assert found.dtype == kind
    np.testing.assert_allclose(found, expected, rtol=0, atol=SAME[kind])


def test_the_scan_and_its_gradient_are_those_of_the_plain_loop(rng: np.random.Generator) -> None:
    a, b = (torch.tensor(rng.uniform(0.2, 1, (9, 2, 3)), requires_grad=True) for _ in range(2))
    h = [b[0]]
    for t in range(1, 9):
        h.append(a[t] * h[-1] + b[t])
    np.testing.assert_allclose(
        torch_layers.LinearScan.apply(a, b).detach(), torch.stack(h).detach(), rtol=0, atol=1e-14
    )
    assert torch.autograd.gradcheck(torch_layers.LinearScan.apply, (a, b))


def test_tensors_go_out_and_in_again() -> None:
    network, other = (random_module(lambda: torch_layers.StateSpaces(WIDTH, 1), np.float32) for _ in range(2))
    with torch.no_grad():
        for weights in other.parameters():
            weights.zero_()
    tensors = torch_layers.tensors_of(network)
    torch_layers.load_tensors(other, tensors)
    assert tensors
    for name, array in torch_layers.tensors_of(other).items():
        np.testing.assert_array_equal(array, tensors[name])


def test_tensors_of_another_network_are_refused() -> None:
    network = torch.nn.Linear(2, 3)
    tensors = torch_layers.tensors_of(network)
    with pytest.raises(ValueError, match=r"weight: expected \(3, 2\), got \(2, 2\)"):
        torch_layers.load_tensors(network, {**tensors, "weight": np.zeros((2, 2), np.float32)})
    with pytest.raises(ValueError, match="expected a tensor named bias; it is missing"):
        torch_layers.load_tensors(network, {"weight": tensors["weight"]})
    with pytest.raises(ValueError, match="unknown tensors: more"):
        torch_layers.load_tensors(network, {**tensors, "more": tensors["bias"]})
