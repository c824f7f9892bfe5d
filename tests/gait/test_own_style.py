# SPDX-License-Identifier: GPL-3.0-or-later
"""A character's own way to walk, learned from its walks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gait_data import RIG, small, stride

from neural_network.core.rotations import matrix_from_axis_angle
from neural_network.gait import figures, matching, own_style, parameters, walks
from neural_network.gait.own_style import Styled


def test_a_style_brings_walks_nearer_to_the_characters_own_at_its_pace_and_stands_at_others(tmp_path: Path) -> None:
    made = stride(0.75)
    odd = replace(made, turns=made.turns.copy())
    arm = RIG.names.index("LeftArm")
    odd.turns[:, arm] = odd.turns[:, arm] @ matrix_from_axis_angle(np.array([0.0, 0.6, 0.4]))  # no slider does this
    style = own_style.learn(small(), RIG, [odd])
    plain = matching.error_of(small(), RIG, odd, style.values)
    own = own_style.error_of(Styled(small(), style), RIG, odd)
    assert own < 0.6 * plain
    half = own_style.error_of(Styled(small(), style, 0.5), RIG, odd)
    assert own < half < plain
    own_style.save(tmp_path / "style.npz", style)
    back = own_style.load(tmp_path / "style.npz")
    np.testing.assert_allclose(back.coefficients, style.coefficients, atol=1e-5)
    walk = walks.walk(Styled(small(), back), parameters.vector({"speed": 1.7}), 60, 30.0)
    points = figures.look(RIG, walk.turns, walk.root).points
    assert points[..., 2].min() > -1e-6


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Learn from my Walks"):
        own_style.load(tmp_path / "none.npz")
    (tmp_path / "x.npz").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"x\.npz"):
        own_style.load(tmp_path / "x.npz")
