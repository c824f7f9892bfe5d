# SPDX-License-Identifier: GPL-3.0-or-later
"""The optimiser against its published formulas, step by step, and each of its settings against the same without it."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import EXACT

from neural_network.learning.optimizer import Adam, AdamSettings, cosine, inverse_time


def test_steps_are_those_of_the_published_algorithm(rng: np.random.Generator) -> None:
    """Kingma & Ba 2015, algorithm 1, written out with its bias-corrected moments."""
    x = rng.normal(size=7)
    mine, first, second = x.copy(), np.zeros(7), np.zeros(7)
    adam = Adam(x, AdamSettings(0.9, 0.99, 1e-6))
    for t in range(1, 30):
        gradient = rng.normal(size=7)
        adam.update(x, gradient, 0.01 * t)
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        mine -= 0.01 * t * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.99**t)) + 1e-6)
        np.testing.assert_allclose(x, mine, atol=EXACT)
    assert adam.step == 29


def test_weight_decay_shrinks_what_is_marked_and_has_no_part_in_the_moments() -> None:
    x = np.full(4, 2.0)
    adam = Adam(x, AdamSettings(decay=0.5), decayed=np.array([1.0, 1, 0, 0]))
    adam.update(x, np.zeros(4), 0.1)
    np.testing.assert_allclose(x, [1.9, 1.9, 2, 2], atol=EXACT)
    assert not adam.first.any()


def test_a_long_gradient_is_clipped_to_its_bound_and_a_short_one_is_left() -> None:
    long, short = np.array([30.0, 40.0]), np.array([0.3, 0.4])
    for gradient, norm in ((long, 1.0), (short, 0.5)):
        x = np.zeros(2)
        adam = Adam(x, AdamSettings(clip=1.0))
        adam.update(x, gradient, 0.1)
        assert np.linalg.norm(adam.first) == pytest.approx(0.1 * norm)
    np.testing.assert_array_equal(long, [30, 40])


def test_the_average_follows_the_weights_fast_at_first_and_slowly_later(rng: np.random.Generator) -> None:
    x = np.zeros(3)
    adam = Adam(x, AdamSettings(average=0.9))
    expected = x.copy()
    for t in range(1, 40):
        adam.update(x, rng.normal(size=3), 0.1)
        decay = min(0.9, t / (t + 10))
        expected = decay * expected + (1 - decay) * x
        np.testing.assert_allclose(adam.average, expected, atol=EXACT)
    assert not np.allclose(adam.average, x, atol=1e-3)


def test_the_gradient_is_not_changed(rng: np.random.Generator) -> None:
    gradient = rng.normal(size=5)
    kept = gradient.copy()
    x = np.zeros(5)
    Adam(x, AdamSettings(decay=0.1, clip=0.01, average=0.9)).update(x, gradient, 0.1)
    np.testing.assert_array_equal(gradient, kept)


def test_schedules_begin_at_one_and_fall() -> None:
    assert cosine(0, 0.02) == 1
    assert cosine(0.5, 0.02) == pytest.approx(0.51)
    assert cosine(1, 0.02) == cosine(2, 0.02) == pytest.approx(0.02)
    assert inverse_time(0, 100) == 1
    assert inverse_time(100, 100) == 0.5
