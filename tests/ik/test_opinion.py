# SPDX-License-Identifier: GPL-3.0-or-later
"""The card in an animator's words: good, usable or needs more motion, with the reason and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from neural_network.ik import opinion


def card(natural: float | None, failed: str = "", off: float = 7.0) -> dict[str, Any]:
    tests = [
        {"name": n, "passed": n != failed, "score": 0.4, "threshold": 0.5, "sentence": f"{n} in words", "sign": "<"}
        for n in ("Holdout (FK)", "Interpolation (FK)", "Consistency", "Noise robustness", "Follow")
    ]
    passed = None if natural is None else natural < 1
    row = {"name": "Natural", "passed": passed, "score": natural, "threshold": 1.0, "sentence": "joints", "sign": "<"}
    return {"tests": [*tests, row], "refined": {"mpjpe_mm": off}}


@pytest.mark.parametrize(
    ("given", "level", "todo"),
    [
        (card(0.6), opinion.GOOD, False),
        (card(0.95), opinion.USABLE, True),
        (card(1.2), opinion.USABLE, True),
        (card(None), opinion.USABLE, False),
        (card(0.6, "Follow"), opinion.POOR, True),
        (card(0.6, "Holdout (FK)"), opinion.POOR, True),
        (card(0.6, "Consistency"), opinion.POOR, True),
    ],
)
def test_a_card_is_good_usable_or_needs_more_motion_and_says_why_and_what_to_do(
    given: dict[str, Any], level: str, todo: bool
) -> None:
    found = opinion.of(given)
    assert found.level == level
    assert found.reason
    assert bool(found.advice) == todo
    assert len(found.line) <= 32, "it fits the sidebar"


def test_the_reason_names_what_failed_in_plain_words() -> None:
    assert "40 cm off" in opinion.of(card(0.6, "Holdout (FK)")).reason
    assert "jumps" in opinion.of(card(0.6, "Noise robustness")).reason
    assert "Consistency in words" in opinion.of(card(0.6, "Consistency")).reason
    assert "40 % less" in opinion.of(card(0.6)).reason
