# SPDX-License-Identifier: GPL-3.0-or-later
"""The card in an animator's words: good, usable or needs more motion, why, and what to do. The figures stay in the card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..learning import card as cards

GOOD, USABLE, POOR = "good", "usable", "needs more motion"
GOOD_MOST = 0.9
"""Joint error after the exact steps, as a share of the best plain answer's: below this it is worth being called good.
Chosen by judgement: a tenth nearer than a copy of the nearest known pose is what one sees in the viewport."""

_MORE = "Give it more actions that move the whole body (steps, reaches, crouches), tick them, and Learn again."


@dataclass(frozen=True)
class Opinion:
    """What is thought of a network."""

    level: str
    """GOOD, USABLE or POOR."""
    line: str
    """In at most 32 characters, which fit the sidebar."""
    reason: str
    advice: str
    """What to do; empty where nothing need be done."""


def of(card: Mapping[str, Any]) -> Opinion:
    """The opinion of a card, as :func:`.quality.figures` makes it: a failed floor test, then Natural."""
    tests = {test.name: test for test in cards.tests_from_json(card["tests"])}
    failed = next((test for name, test in tests.items() if test.passed is False and name != "Natural"), None)
    if failed is not None:
        return Opinion(POOR, "Needs more motion", _FAILED.get(failed.name, _other)(failed), _MORE)
    off = float(card["refined"]["mpjpe_mm"])
    natural = tests.get("Natural")
    if natural is None or natural.passed is None:
        reason = f"Joints are {off:.0f} mm off in poses it never saw. There was nothing to compare that with."
        return Opinion(USABLE, f"Usable: {off:.0f} mm off in new poses", reason, "")
    if natural.passed is False:
        reason = (
            f"Targets are met, but the rest of the body is no nearer to this character's own poses ({off:.0f} mm off) than a "
            "plain copy of the nearest pose, or a solver that learned nothing."
        )
        return Opinion(USABLE, f"Usable: {off:.0f} mm off in new poses", reason, _MORE)
    nearer = (1 - natural.score) * 100
    reason = f"In poses it never saw, joints are {off:.0f} mm off, {nearer:.0f} % less than the best plain answer to the same targets."
    if natural.score > GOOD_MOST:
        return Opinion(USABLE, f"Usable: {off:.0f} mm off in new poses", reason, _MORE)
    return Opinion(GOOD, f"Good: {off:.0f} mm off in new poses", reason, "")


def _other(test: cards.Verdict) -> str:
    return f"{test.name}: {test.sentence}."


def _holdout(test: cards.Verdict) -> str:
    return f"Before the exact steps, hands, feet and head are {test.score * 100:.0f} cm off in poses it never saw."


def _interpolation(test: cards.Verdict) -> str:
    return f"Between two poses that it could know, hands, feet and head are {test.score * 100:.0f} cm off."


def _noise(test: cards.Verdict) -> str:
    return "The body jumps when a target moves a little."


def _follow(test: cards.Verdict) -> str:
    return f"A limb does not come along when its target moves: {test.sentence}."


_FAILED = {
    "Holdout (FK)": _holdout,
    "Interpolation (FK)": _interpolation,
    "Noise robustness": _noise,
    "Follow": _follow,
}
