# SPDX-License-Identifier: GPL-3.0-or-later
"""Sequence layers in NumPy: one frame at a time gives what the whole sequence gives, and masks hide what they should."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import EXACT, FLOAT32

from neural_network.learning import sequence, state_space

WIDTH, HEADS, FRAMES = 8, 2, 12
Tensors = dict[str, np.ndarray]


def tensors(rng: np.random.Generator, kind: type = np.float64) -> Tensors:
    """Random weights of a Transformer, convolutions, a GRU and state spaces, two blocks each."""
    c, n = WIDTH, 3
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(2):
        for name, outputs, inputs in (
            ("attention.qkv", 3, 1),
            ("attention.out", 1, 1),
            ("wide", 4, 1),
            ("narrow", 1, 4),
        ):
            shapes[f"t.blocks.{i}.{name}.weight"] = (outputs * c, inputs * c)
            shapes[f"t.blocks.{i}.{name}.bias"] = (outputs * c,)
        shapes[f"c.blocks.{i}.convolution.weight"], shapes[f"c.blocks.{i}.convolution.bias"] = (c, c, 3), (c,)
        shapes[f"c.blocks.{i}.out.weight"], shapes[f"c.blocks.{i}.out.bias"] = (c, c), (c,)
        for end in ("ih", "hh"):
            shapes[f"g.weight_{end}_l{i}"], shapes[f"g.bias_{end}_l{i}"] = (3 * c, c), (3 * c,)
        at = f"s.blocks.{i}.layer"
        shapes[f"{at}.in_projection.weight"], shapes[f"{at}.out_projection.weight"] = (4 * c, c), (c, 2 * c)
        shapes[f"{at}.convolution.weight"], shapes[f"{at}.convolution.bias"] = (2 * c, 1, 4), (2 * c,)
        shapes[f"{at}.selection.weight"] = (2 + 2 * n, 2 * c)
        shapes[f"{at}.delta.weight"], shapes[f"{at}.delta.bias"] = (2 * c, 2), (2 * c,)
        shapes[f"{at}.log_decay"], shapes[f"{at}.skip"] = (n, 2 * c), (2 * c,)
    norms = ["t.norm", "c.norm", "s.norm"]
    norms += [
        f"{part}.blocks.{i}.{name}"
        for i in range(2)
        for part, name in zip("ttcs", ("norm_1", "norm_2", "norm", "norm"), strict=True)
    ]
    for name in norms:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (c,)
    return {name: (0.4 * rng.normal(size=shape)).astype(kind) for name, shape in shapes.items()}


@pytest.fixture(params=[np.float32, np.float64])
def kind(request: pytest.FixtureRequest) -> type:
    return request.param


def tolerance(kind: type) -> float:
    return EXACT if kind is np.float64 else FLOAT32


@pytest.mark.parametrize("most", [None, 4])
def test_attention_frame_by_frame_is_causal_attention(kind: type, most: int | None, rng: np.random.Generator) -> None:
    weights, x = tensors(rng, kind), rng.normal(size=(3, FRAMES, WIDTH)).astype(kind)
    whole = sequence.transformer(weights, "t", x, HEADS, sequence.causal(FRAMES, most))
    cache: sequence.Cache = ()
    for t in range(FRAMES):
        y, cache = sequence.transformer_step(weights, "t", x[:, t], HEADS, cache, most)
        assert y.dtype == kind
        assert cache[0][0].shape[-2] == min(t + 1, most or FRAMES)
        np.testing.assert_allclose(y, whole[:, t], rtol=0, atol=tolerance(kind))


def test_a_gru_frame_by_frame_is_the_gru(kind: type, rng: np.random.Generator) -> None:
    weights, x = tensors(rng, kind), rng.normal(size=(3, FRAMES, WIDTH)).astype(kind)
    whole, last = sequence.gru(weights, "g", x)
    state = None
    for t in range(FRAMES):
        y, state = sequence.gru_step(weights, "g", x[:, t], state)
        np.testing.assert_allclose(y, whole[:, t], rtol=0, atol=tolerance(kind))
    assert whole.dtype == kind
    np.testing.assert_allclose(state, last, rtol=0, atol=tolerance(kind))


@pytest.mark.parametrize("leading", [(), (3,)])
def test_state_spaces_frame_by_frame_are_those_of_the_whole(
    kind: type, leading: tuple[int, ...], rng: np.random.Generator
) -> None:
    weights, x = tensors(rng, kind), rng.normal(size=(*leading, FRAMES, WIDTH)).astype(kind)
    whole, last = state_space.state_spaces(weights, "s", x)
    states, ready = None, state_space.prepared(weights)
    for t in range(FRAMES):
        before = None if states is None else [state.hidden.copy() for state in states]
        y, after = state_space.state_spaces_step(ready, "s", x[..., t, :], states)
        if before is not None:
            assert all(np.array_equal(a, state.hidden) for a, state in zip(before, states, strict=True))
        states = after
        np.testing.assert_allclose(y, whole[..., t, :], rtol=0, atol=tolerance(kind))
    assert whole.dtype == kind
    for found, expected in zip(states, last, strict=True):
        np.testing.assert_allclose(found.hidden, expected.hidden, rtol=0, atol=tolerance(kind))


def test_a_state_carries_over_from_one_part_of_a_sequence_to_the_next(rng: np.random.Generator) -> None:
    weights, x = tensors(rng), rng.normal(size=(FRAMES, WIDTH))
    for whole in (
        lambda part, state: sequence.gru(weights, "g", part, state),
        lambda part, state: state_space.state_spaces(weights, "s", part, state),
    ):
        first, state = whole(x[:5], None)
        second, _ = whole(x[5:], state)
        np.testing.assert_allclose(np.concatenate([first, second]), whole(x, None)[0], rtol=0, atol=EXACT)


def test_one_layer_of_state_space_can_be_stepped(rng: np.random.Generator) -> None:
    weights, x = tensors(rng), rng.normal(size=(FRAMES, WIDTH))
    whole, _ = state_space.layer(weights, "s.blocks.0.layer", x)
    state = None
    for frame, expected in zip(x, whole, strict=True):
        y, state = state_space.step(weights, "s.blocks.0.layer", frame, state)
        np.testing.assert_allclose(y, expected, rtol=0, atol=EXACT)


def test_the_past_is_blind_to_the_future(rng: np.random.Generator) -> None:
    weights, x = tensors(rng), rng.normal(size=(FRAMES, WIDTH))
    other = x.copy()
    other[7:] *= -1
    for run in (
        lambda a: sequence.transformer(weights, "t", a, HEADS, sequence.causal(FRAMES)),
        lambda a: sequence.gru(weights, "g", a)[0],
        lambda a: state_space.state_spaces(weights, "s", a)[0],
    ):
        np.testing.assert_allclose(run(x)[:7], run(other)[:7], rtol=0, atol=EXACT)
        assert np.abs(run(x)[7] - run(other)[7]).max() > 1e-3


def test_padding_that_is_masked_changes_no_other_frame(rng: np.random.Generator) -> None:
    weights, x = tensors(rng), rng.normal(size=(2, FRAMES, WIDTH))
    there = np.arange(FRAMES) < np.array([[FRAMES], [7]])
    for run in (
        lambda a, m: sequence.convolutions(weights, "c", a, (1, 2), m),
        lambda a, m: sequence.transformer(weights, "t", a, HEADS, None if m is None else m[:, None, None, :]),
    ):
        np.testing.assert_allclose(run(x, there)[1, :7], run(x[1:, :7], None)[0], rtol=0, atol=EXACT)


def test_a_mask_of_numbers_is_added_to_the_scores(rng: np.random.Generator) -> None:
    weights, x = tensors(rng), rng.normal(size=(FRAMES, WIDTH))
    seen = sequence.causal(FRAMES, 3)
    hidden = np.where(seen, 0.0, -np.inf)
    boolean, added = (sequence.attention(weights, "t.blocks.0.attention", x, HEADS, mask) for mask in (seen, hidden))
    np.testing.assert_allclose(added, boolean, rtol=0, atol=EXACT)


def test_a_frame_that_sees_nothing_attends_to_zeros(rng: np.random.Generator) -> None:
    weights, x = tensors(rng), rng.normal(size=(FRAMES, WIDTH))
    seen = sequence.causal(FRAMES)
    seen[0] = False
    y = sequence.attention(weights, "t.blocks.0.attention", x, HEADS, seen)
    np.testing.assert_allclose(y[0], weights["t.blocks.0.attention.out.bias"], rtol=0, atol=EXACT)


def test_a_convolution_is_a_sum_over_frames_nearby(rng: np.random.Generator) -> None:
    weights, x = tensors(rng), rng.normal(size=(FRAMES, WIDTH))
    weight, bias = weights["c.blocks.0.convolution.weight"], weights["c.blocks.0.convolution.bias"]
    y = sequence.convolution(weights, "c.blocks.0.convolution", x, dilation=3)
    for t in range(FRAMES):
        near = [(k, t + 3 * (k - 1)) for k in range(3) if 0 <= t + 3 * (k - 1) < FRAMES]
        np.testing.assert_allclose(y[t], bias + sum(weight[:, :, k] @ x[f] for k, f in near), rtol=0, atol=EXACT)


def test_sinusoids_tell_all_frames_apart() -> None:
    place = sequence.sinusoids(130, 15)
    gap = np.linalg.norm(place[:, None] - place, axis=-1) + 9 * np.eye(130)
    assert place.shape == (130, 15)
    assert gap.min() > 0.5


def test_wrong_tensors_and_shapes_are_named(rng: np.random.Generator) -> None:
    weights, x = tensors(rng), rng.normal(size=(FRAMES, WIDTH))
    with pytest.raises(ValueError, match=r"expected a tensor named t\.norm\.weight; it is missing"):
        sequence.transformer({k: v for k, v in weights.items() if k != "t.norm.weight"}, "t", x, HEADS)
    with pytest.raises(ValueError, match=r"expected a tensor named h\.weight_ih_l0"):
        sequence.gru(weights, "h", x)
    with pytest.raises(ValueError, match="expected 8 channels, got 7"):
        sequence.linear(weights, "t.blocks.0.wide", x[:, :7])
    with pytest.raises(ValueError, match="heads: expected a divisor of the 8 channels, got 3"):
        sequence.transformer(weights, "t", x, 3)
    with pytest.raises(ValueError, match="dilations: expected 2 of them, got 1"):
        sequence.convolutions(weights, "c", x, (1,))
