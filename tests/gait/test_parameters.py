# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters of a gait: ranges, what speed stands for, files, mirrors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from neural_network.gait import parameters
from neural_network.gait.parameters import get


def test_every_parameter_has_words_and_a_default_inside_its_range() -> None:
    assert len(set(parameters.NAMES)) == len(parameters.TABLE)
    for entry in parameters.TABLE:
        assert entry.least <= entry.default <= entry.most
        assert entry.words
        assert entry.unit
        assert not entry.words.endswith(".")  # as Blender's tooltips


def test_shares_of_ranges_go_there_and_back() -> None:
    rng = np.random.default_rng(1)
    values = parameters.LEAST + rng.random((5, len(parameters.NAMES))) * (parameters.MOST - parameters.LEAST)
    shares = parameters.normalised(values)
    assert shares.min() >= 0
    assert shares.max() <= 1
    np.testing.assert_allclose(parameters.from_normalised(shares), values)


@pytest.mark.parametrize("speed", [0.45, 0.88, 1.31, 2.1, 3.0, 4.0])
def test_a_speed_becomes_a_step_and_a_cadence(speed: float) -> None:
    values = parameters.vector({"speed": speed})
    assert parameters.speed(values) == pytest.approx(speed, rel=1e-9)
    assert get(values, "run") == (1.0 if speed > 2.2 else 0.0)


def test_steps_at_the_published_speeds_are_the_published_ones() -> None:
    """Schwartz 2008: 0.510 and 0.922 leg lengths at the very slow and very fast speed, which nothing here was fitted to."""
    leg = parameters.LEG
    for pace, step in ((0.172, 0.510), (0.429, 0.760), (0.694, 0.922)):
        found = parameters.usual_step(pace * np.sqrt(9.81 * leg)) / leg
        assert found == pytest.approx(step, abs=0.015)


def test_stance_is_as_long_as_published_and_shorter_the_faster() -> None:
    shares = []
    for pace in (0.172, 0.290, 0.429, 0.560, 0.694):
        values = parameters.vector({"speed": pace * np.sqrt(9.81 * parameters.LEG)})
        shares.append(parameters.stance_share(values)[0])
    np.testing.assert_allclose(shares, [0.68, 0.62, 0.59, 0.58, 0.56], atol=0.02)
    assert (np.diff(shares) < 0).all()
    assert parameters.stance_share(parameters.vector({"speed": 3.5})).max() < 0.4


def test_a_limp_leaves_its_foot_early_and_the_other_one_late() -> None:
    healthy = parameters.stance_share(parameters.vector({"speed": 1.2}))
    left, right = parameters.stance_share(parameters.vector({"speed": 1.2}, style={"limp_left": 1.0}))
    assert healthy[0] - left > 0.05
    assert right > healthy[1]
    other = parameters.stance_share(parameters.vector({"speed": 1.2}, style={"limp_right": 1.0}))
    np.testing.assert_allclose(other, [right, left])


def test_a_mirror_exchanges_sides_and_turns() -> None:
    values = parameters.vector({"turn": 0.3, "asymmetry": 0.05}, style={"limp_left": 0.7})
    mirrored = parameters.mirrored(values)
    assert get(mirrored, "turn") == -0.3
    assert get(mirrored, "limp_right") == 0.7
    np.testing.assert_allclose(parameters.mirrored(mirrored), values)


@pytest.mark.parametrize(("given", "words"), [
    ({"sped": 1.0}, "there are speed"),
    ({"speed": 9.0}, "speed: expected 0.45 to 4 m/s, got 9"),
    ({"bounce": float("nan")}, "bounce: expected a number"),
    ({"bounce": True}, "bounce: expected a number"),
    ({"speed": 1.0, "step_length": 0.5, "cadence": 2.0}, "leave one out"),
])  # fmt: skip
def test_parameters_that_mean_nothing_are_refused_in_words(given: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        parameters.vector(given)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    values = parameters.vector({"speed": 1.5, "toe_out": 12}, {"thigh": 1.1}, {"sneak": 0.5})
    path = tmp_path / "p.json"
    path.write_text(parameters.to_json(values))
    np.testing.assert_allclose(parameters.read(path), values)


@pytest.mark.parametrize(("text", "words"), [
    ("{", "expected JSON"),
    ("[]", "expected an object"),
    ('{"params": {}}', '"schema": 1'),
    ('{"schema": 1, "params": []}', "to be objects"),
    ('{"schema": 1, "styles": {}}', "expected an object with"),
    ('{"schema": 1, "params": {"speed": "fast"}}', "speed: expected a number"),
])  # fmt: skip
def test_a_file_of_something_else_is_refused_in_words(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        parameters.read(path)


def test_the_written_file_has_the_keys_of_the_contract() -> None:
    assert set(json.loads(parameters.to_json(parameters.DEFAULT))) == {"schema", "params", "proportions", "style"}
