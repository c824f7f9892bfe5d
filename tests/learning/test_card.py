# SPDX-License-Identifier: GPL-3.0-or-later
"""The card that every wing fills: its JSON, what it refuses, its lines, its exit code and its confidence intervals."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neural_network.learning import card as cards
from neural_network.learning.card import Card, Data, Figure, NotReached, Verdict

CARD = Card(
    wing="gait",
    version="1",
    data=Data(("07_01.bvh", "16_02.bvh"), 1200, "subjects 07 and 16", 30.0),
    seed=3,
    cpu_s=12.5,
    figures=(
        Figure("foot slide", 1.5, "mm a frame", "lower", 400, 2.0, (1.2, 1.9), {"clip played on": 3.5}),
        Figure("steps found", 0.9, "share", "higher", 40, 0.8),
    ),
    not_reached=(NotReached("stairs", "a height map as input", "too few takes on stairs"),),
    tests=(Verdict("Follow", True, 0.95, 0.8, "95 % are followed", ">="),),
)


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """The card's JSON with one value replaced."""
    out = copy.deepcopy(cards.to_json(CARD))
    at: Any = out
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return out


# ---------------------------------------------------------------- JSON


def test_a_card_comes_back_from_json_as_it_was() -> None:
    assert cards.from_json(json.loads(cards.dumps(CARD))) == CARD
    bare = replace(CARD, figures=(), not_reached=(), tests=(), data=replace(CARD.data, fps=None))
    assert cards.from_json(json.loads(cards.dumps(bare))) == bare
    unmeasured = replace(CARD, tests=(Verdict("Natural", None, math.nan, 1.0, "not measured"),))
    back = cards.from_json(json.loads(cards.dumps(unmeasured))).tests[0]
    assert back.passed is None
    assert math.isnan(back.score)


def test_the_document_has_the_keys_of_the_contract() -> None:
    found = cards.to_json(replace(CARD, tests=()))
    assert list(found) == ["wing", "version", "data", "seed", "cpu_s", "figures", "not_reached"]
    assert list(found["data"]) == ["files", "frames", "held_out", "fps"]
    for row in found["figures"]:
        assert list(row) == ["name", "value", "unit", "better", "bar", "n", "ci95", "rivals"]
    assert found["figures"][0]["ci95"] == [1.2, 1.9]
    assert list(found["not_reached"][0]) == ["name", "tried", "holds_back"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("figures", 0, "value"), math.nan, r"figures\[0\].value: expected a finite number, got nan"),
        (("figures", 0, "value"), None, r"figures\[0\].value: expected a finite number, got None"),
        (("figures", 1, "value"), True, r"figures\[1\].value: expected a finite number, got True"),
        (("figures", 0, "better"), "smaller", r'figures\[0\].better: expected "lower" or "higher", got \'smaller\''),
        (("figures", 0, "bar"), math.inf, r"figures\[0\].bar: expected a finite number"),
        (("figures", 0, "ci95"), [2.0, 1.0], r"figures\[0\].ci95: expected \[low, high\]"),
        (("figures", 0, "ci95"), [1.0], r"figures\[0\].ci95: expected \[low, high\]"),
        (("figures", 0, "rivals"), {"rest": "far"}, r"figures\[0\].rivals\['rest'\]: expected a finite number"),
        (("figures", 0, "rivals"), [1], r"figures\[0\].rivals: expected an object"),
        (("figures", 0, "n"), 1.5, r"figures\[0\].n: expected a whole number"),
        (("figures", 0, "name"), " ", r"figures\[0\].name: expected words"),
        (("figures", 0, "error"), 1, r"figures\[0\]: unknown error"),
        (("figures",), {}, "figures: expected a list"),
        (("data", "frames"), -1, "data.frames: expected a whole number"),
        (("data",), None, "data: expected an object"),
        (("seed",), 0.5, "seed: expected a whole number"),
        (("cpu_s",), math.nan, "cpu_s: expected a finite number"),
        (("quality",), 1, "card: unknown quality; expected the keys wing, version"),
        (("tests", 0, "passed"), 1, r"tests\[0\].passed: expected true, false or null"),
        (("tests", 0, "sign"), "~", r"tests\[0\].sign: expected one of <, <=, =, >="),
        (("not_reached", 0, "holds_back"), "", r"not_reached\[0\].holds_back: expected words"),
    ],
)
def test_what_is_not_a_card_is_refused_in_words(path: tuple[str | int, ...], value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cards.from_json(changed(path, value))


def test_a_missing_key_is_named() -> None:
    values = cards.to_json(CARD)
    del values["data"]["fps"]
    with pytest.raises(ValueError, match="data: missing fps"):
        cards.from_json(values)


def test_a_card_with_nan_is_not_written() -> None:
    wrong = replace(CARD, figures=(replace(CARD.figures[0], value=math.nan),))
    with pytest.raises(ValueError, match="expected a finite number, got nan"):
        cards.dumps(wrong)


# ---------------------------------------------------------------- bars and the exit code


@pytest.mark.parametrize(
    ("value", "better", "bar", "met"),
    [
        (1, "lower", 2, True),
        (3, "lower", 2, False),
        (3, "higher", 2, True),
        (1, "higher", 2, False),
        (9, "lower", None, True),
    ],
)
def test_a_bar_is_met_in_the_direction_that_is_better(value: float, better: Any, bar: float | None, met: bool) -> None:
    figure = Figure("f", value, "mm", better, 1, bar)
    assert figure.met == met
    card = replace(CARD, figures=(figure,), tests=())
    assert card.exit_code == (0 if met else 1)
    assert card.missed == (() if met else ("f",))


def test_a_failed_test_is_a_bar_missed_and_one_not_measured_is_not() -> None:
    test = CARD.tests[0]
    for passed, code in ((True, 0), (False, 1), (None, 0)):
        assert replace(CARD, tests=(replace(test, passed=passed),)).exit_code == code


# ---------------------------------------------------------------- lines


def test_the_lines_tell_everything() -> None:
    text = "\n".join(cards.lines(CARD))
    for words in (
        "PASS  Follow",
        "(>= 0.8)",
        "1 of 1 test passed",
        "met     foot slide: 1.5 mm a frame  bar <= 2  95 % 1.2 to 1.9  n 400",
        "clip played on: 3.5 mm a frame",
        "met     steps found: 0.9 share  bar >= 0.8  n 40",
        "NOT REACHED  stairs: tried a height map as input; held back by too few takes on stairs",
        "07_01.bvh, 16_02.bvh; 1,200 frames, 30 fps; held out: subjects 07 and 16",
        "gait 1, seed 3, 12.5 CPU s",
    ):
        assert words in text
    worse = replace(CARD, figures=(replace(CARD.figures[0], value=2.5),), data=replace(CARD.data, fps=None))
    text = "\n".join(cards.lines(worse))
    assert "MISSED  foot slide" in text
    assert "mixed frame rates" in text


def test_a_test_that_could_not_be_measured_is_named_and_not_counted() -> None:
    tests = (
        *CARD.tests,
        Verdict("Hold", False, 3.0, 2.0, "too far"),
        Verdict("Natural", None, math.nan, 1.0, "no data"),
    )
    lines = cards.verdict_lines(tests)
    assert lines[-1] == "1 of 2 tests passed; not measured: Natural"
    assert lines[1].startswith("FAIL  Hold")
    assert lines[2].split() == ["n/a", "Natural", "-", "(<", "1)", "no", "data"]


# ---------------------------------------------------------------- the interval


def test_the_interval_of_the_mean_is_as_wide_as_the_theory_says(rng: np.random.Generator) -> None:
    """One value a group: the usual standard error of the mean."""
    values = rng.normal(10, 2, 400)
    found = cards.ci95(values, np.arange(400), np.random.default_rng(0))
    assert found is not None
    half = 1.96 * values.std() / 20
    assert found[0] == pytest.approx(values.mean() - half, abs=0.2 * half)
    assert found[1] == pytest.approx(values.mean() + half, abs=0.2 * half)


def test_frames_of_one_take_count_as_one_draw(rng: np.random.Generator) -> None:
    """50 copies of each value say nothing more about other takes, so the interval stays as wide."""
    values = rng.normal(10, 2, 20)
    single = cards.ci95(values, np.arange(20), np.random.default_rng(0))
    repeated = cards.ci95(np.repeat(values, 50), np.repeat(np.arange(20), 50), np.random.default_rng(0))
    assert single is not None
    assert repeated == pytest.approx(single)
    frames = cards.ci95(np.repeat(values, 50), np.arange(1000), np.random.default_rng(0))
    assert frames is not None
    assert frames[1] - frames[0] < 0.3 * (single[1] - single[0])


def test_long_takes_weigh_as_many_frames_as_they_have() -> None:
    values, groups = np.array([0.0] * 90 + [1.0] * 10), np.array([0] * 90 + [1] * 10)
    found = cards.ci95(values, groups, np.random.default_rng(0))
    assert found == (0, 1)
    many = np.arange(1000) % 100
    found = cards.ci95((many < 10).astype(float), many, np.random.default_rng(0))
    assert found is not None
    assert found[0] < 0.1 < found[1]


def test_the_same_seed_gives_the_same_interval_and_one_take_gives_none() -> None:
    values, groups = np.arange(12.0), np.repeat([0, 1, 2], 4)
    first, second = (cards.ci95(values, groups, np.random.default_rng(5)) for _ in range(2))
    assert first == second
    assert cards.ci95(values, np.zeros(12), np.random.default_rng(5)) is None
    with pytest.raises(ValueError, match="groups: expected one for each of 12 values, got 3"):
        cards.ci95(values, groups[:3], np.random.default_rng(5))
