# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the root belongs, by standing feet."""

from __future__ import annotations

import numpy as np
from repair_data import FPS, RIG, walk

from neural_network.core import metrics
from neural_network.ik.foot_pins import forward
from neural_network.repair import draws, plain, rooting
from neural_network.repair.correction import moves


def off(root: np.ndarray) -> float:
    heads, truth = (forward(RIG, walk().turns, r)[1] for r in (root, walk().root))
    return metrics.mpjpe_global(heads, truth)


def test_drift_speed_and_floor_are_undone_by_standing_feet() -> None:
    contact = draws.true_contacts(RIG, walk().turns, walk().root)
    drifting = walk().root + np.arange(90)[:, None] / FPS * [0.1, -0.08, 0]
    slow = walk().root * [0.8, 0.8, 1]
    for wrong in (drifting, slow, walk().root + [0, 0, 0.04]):
        found = plain.rooted(RIG, walk().turns, wrong, FPS, contact)
        assert off(found) < 0.35 * off(wrong)


def test_a_slow_rest_is_found_and_single_wild_feet_are_not_believed() -> None:
    rng = np.random.default_rng(0)
    time = np.arange(200) / FPS
    root = np.stack([np.zeros(200), -time, np.ones(200)], axis=1)
    wander = 0.05 * np.stack([np.sin(1.2 * time), np.cos(0.9 * time)], axis=1)
    wanted = -np.gradient(wander, axis=0) * FPS + [0.1, 0]
    wanted[rng.random(200) < 0.1] += 3.0
    found = rooting.fitted(root, wanted, np.ones(200), FPS)
    change = found.model + found.rest
    way = moves(change, FPS) - moves(np.tile([0.1, 0], (200, 1)) - np.gradient(wander, axis=0) * FPS, FPS)
    assert np.linalg.norm(way, axis=1).mean() < 0.03
    still = rooting.fitted(0 * root, 0 * wanted, np.ones(200), FPS)
    assert not still.model.any()
    nothing = rooting.fitted(root, wanted, np.zeros(200), FPS)
    assert not nothing.model.any()
    assert not nothing.rest.any()
