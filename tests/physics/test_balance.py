# SPDX-License-Identifier: GPL-3.0-or-later
"""What contacts can give, and the balance score."""

from __future__ import annotations

import numpy as np
import pytest
from physics_data import BODY, FPS, still, walk

from neural_network.motion import features
from neural_network.physics import balance, edits, support
from neural_network.physics.support import Contacts


def contacts(rng: np.random.Generator, frames: int = 40, points: int = 5) -> Contacts:
    """Points around the origin, some of them above the ground, one of them held."""
    at = rng.normal(size=(frames, points, 3)) * [0.2, 0.2, 0]
    height = rng.uniform(0, 0.06, (frames, points))
    held = np.zeros((frames, points), bool)
    held[::2, 0] = True
    return Contacts(
        at, np.broadcast_to([0.0, 0, 1], at.shape), support.cost_at(height), held, height, np.zeros(points, int)
    )


def test_the_nearest_wrench_meets_the_conditions_of_a_least_value(rng: np.random.Generator) -> None:
    """The conditions of Karush, Kuhn and Tucker: no edge could still push towards the rest, and those that push pay for it."""
    given, about = contacts(rng), np.tile([0.0, 0, 0.9], (40, 1))
    wrench = rng.normal(size=(40, 6)) + [0, 0, 1, 0, 0, 0]
    found = support.nearest(given, wrench, about, 0.9)
    ways, edges, cost = support.edges_of(given, about, 0.9)
    share = np.maximum(np.einsum("fec,fc->fe", edges, found.rest), 0) / cost
    np.testing.assert_allclose(found.rest + np.einsum("fec,fe->fc", edges, share), wrench, atol=1e-7)
    force = (ways * share[..., None]).reshape(40, 5, -1, 3).sum(axis=2)
    np.testing.assert_allclose(found.force, force, atol=1e-9)
    free = ~given.held
    assert (force[..., 2][free] >= 0).all()  # the floor does not pull
    assert (np.abs(force[..., :2][free]).sum(axis=-1) <= support.FRICTION * force[..., 2][free] + 1e-9).all()
    assert force[..., 2][given.held].min() < 0  # but a hand at a rail does
    step = 1e-5 * rng.normal(size=wrench.shape)
    more = support.nearest(given, wrench + step, about, 0.9)
    np.testing.assert_allclose(more.cost - found.cost, np.sum(found.rest * step, axis=1), rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(more.rest - found.rest, (found.slope @ step[..., None])[..., 0], atol=1e-7)


def test_standing_is_balanced_and_what_hangs_or_leans_far_is_not() -> None:
    turns, root = still()
    score = balance.balance(BODY, turns, root, FPS).score
    assert len(score) == len(root)
    assert score.max() < 1e-3
    hangs = balance.balance(BODY, turns, root + [0, 0, 0.5], FPS).score
    np.testing.assert_allclose(hangs, 1, atol=1e-6)
    leaning = edits.leaning(
        BODY, *edits.leaning(BODY, turns, root, np.random.default_rng(0))[1:], np.random.default_rng(0)
    )
    assert 0.1 < balance.balance(*leaning, FPS).score.mean() < 0.5  # by 20 degrees: at 10 its toes still carry it


def test_the_ground_counts_as_it_is_given_and_a_held_hand_carries() -> None:
    turns, root = still()

    def slope(points: np.ndarray) -> np.ndarray:
        return points[..., 1] * 0.1 + 0.3

    lifted = root + [0, 0, 0.3]
    flat, uneven = (
        balance.balance(BODY, turns, lifted, FPS, ground).score.mean() for ground in (balance.flat_ground, slope)
    )
    assert flat > 0.99
    assert uneven < 0.1
    held = np.ones((len(root), 2), bool)
    assert balance.balance(BODY, turns, lifted, FPS, held=held).score.max() < 0.05  # it hangs by its hands
    rise = balance.normals(np.zeros((1, 3)), slope)[0]
    np.testing.assert_allclose(rise, np.array([0, -0.1, 1]) / np.hypot(0.1, 1), atol=1e-9)


def test_a_jump_needs_nothing_while_it_flies_and_one_that_hovers_does() -> None:
    turns, root = still(20)
    t = (np.arange(20) - 9.5) / FPS
    flies = root + np.stack([0 * t, 0 * t, 0.8 - 0.5 * 9.81 * t**2], axis=1)
    score = balance.balance(BODY, turns, flies, FPS).score
    assert score[3:-3].max() < 1e-6
    hovers = root + np.stack([0 * t, 0 * t, 0.5 + 0 * t], axis=1)
    assert balance.balance(BODY, turns, hovers, FPS).score[3:-3].min() > 0.99


def test_a_walk_is_balanced_better_than_any_edit_of_it() -> None:
    turns, root = walk()
    own = balance.balance(BODY, turns, root, FPS).score.mean()
    assert own < 0.1
    made = {"leaning": edits.leaning, **{name: edits.EDITS[name] for name in ("float", "bent", "shake")}}
    for name, edit in made.items():
        worse = balance.balance(*edit(BODY, turns, root, np.random.default_rng(0)), FPS).score.mean()
        assert worse > 1.2 * own, name
    assert balance.balance(BODY, turns, root, 2 * FPS).score.mean() > 1.5 * own


def test_a_motion_at_four_times_the_rate_has_the_same_score_and_its_noise_counts_no_more() -> None:
    turns, root = walk()
    often = features.resampled(turns, root, np.arange(0, len(root) - 1 + 1e-9, 0.25))
    own = balance.balance(BODY, turns, root, FPS).score
    score = balance.balance(BODY, *often, 4 * FPS).score
    assert len(score) == len(often[1])
    np.testing.assert_allclose(score[::4], own, atol=1e-9)


def test_two_frames_are_too_few() -> None:
    turns, root = still(2)
    with pytest.raises(ValueError, match="3 frames or more, got 2"):
        balance.balance(BODY, turns, root, FPS)
