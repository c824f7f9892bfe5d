# SPDX-License-Identifier: GPL-3.0-or-later
"""Corruptions do what they say, by their seed."""

from __future__ import annotations

import numpy as np
import pytest
from repair_data import RIG, walk

from neural_network.core import rotations
from neural_network.repair import corruption
from neural_network.repair.correction import applied, between
from neural_network.repair.corruption import KINDS

COLLARS = [RIG.names.index(f"{side}Shoulder") for side in ("Left", "Right")]


def spoilt(*kinds: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return corruption.corrupt(walk().turns, walk().root, kinds, np.random.default_rng(seed), COLLARS)


def test_each_kind_changes_what_it_should_and_one_seed_gives_the_same() -> None:
    for kind in KINDS:
        turns, root = spoilt(kind)
        again = spoilt(kind)
        np.testing.assert_array_equal(turns, again[0])
        np.testing.assert_array_equal(root, again[1])
        posed = not np.array_equal(turns, walk().turns)
        moved = not np.array_equal(root, walk().root)
        assert posed == (kind in corruption.POSE), kind
        assert moved == (kind != "noise"), kind
        assert not np.array_equal(spoilt(kind, seed=1)[0 if posed else 1], (turns, root)[0 if posed else 1])


def test_noise_leaves_collars_and_stays_within_a_few_degrees() -> None:
    turns, _ = spoilt("noise")
    angles = np.degrees(rotations.geodesic_angle(turns, walk().turns))
    assert angles[:, COLLARS].max() < 1e-4
    others = np.delete(angles, COLLARS, axis=1)
    assert 0.5 < others.mean() < 12


def test_speed_keeps_the_start_and_scales_the_way_floor_the_height_alone() -> None:
    way = spoilt("speed")[1] - walk().root[0]
    share = way[1:, 1] / (walk().root - walk().root[0])[1:, 1]
    np.testing.assert_allclose(share, share[0], atol=1e-9)
    assert 0.75 <= share[0] <= 1.3
    lift = spoilt("floor")[1] - walk().root
    np.testing.assert_allclose(lift, [[0, 0, lift[0, 2]]] * len(lift), atol=1e-12)
    assert 0 < abs(lift[0, 2]) <= 0.05


def test_a_mix_draws_kinds_with_their_shares() -> None:
    rng = np.random.default_rng(0)
    drawn = [corruption.drawn("mix", rng) for _ in range(2000)]
    for kind, share in zip(KINDS, corruption.SHARES, strict=True):
        assert abs(np.mean([kind in one for one in drawn]) - share) < 0.05
    with pytest.raises(ValueError, match="expected one of drift, speed"):
        corruption.drawn("wrong", rng)


def test_a_correction_leads_back_but_for_where_it_began() -> None:
    turns, root = spoilt("drift", "floor", "noise", "drop")
    back = applied(between(turns, root, walk().turns, walk().root), turns, root)
    np.testing.assert_allclose(back[0], walk().turns, atol=1e-6)
    off = back[1] - walk().root
    np.testing.assert_allclose(off - off[0], 0, atol=1e-9)
    np.testing.assert_allclose(off[:, 2], 0, atol=1e-12)
