# SPDX-License-Identifier: GPL-3.0-or-later
"""Step sizes over a training that counts steps, and the flags for them."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from neural_network.learning import steps
from neural_network.learning.arguments import require_torch
from neural_network.learning.steps import StepSettings

SETTINGS = StepSettings(lr=0.1, lr_end=0.2, warm_up=0.25)


def test_a_cosine_rises_in_a_line_and_falls_to_its_end() -> None:
    sizes = [steps.rate(SETTINGS, done) for done in (0, 0.125, 0.25, 0.625, 1)]
    assert sizes == pytest.approx([0, 0.05, 0.1, 0.06, 0.02])


def test_one_cycle_begins_at_a_part_of_the_highest_and_rises_along_a_cosine() -> None:
    settings = replace(SETTINGS, schedule="onecycle")
    sizes = [steps.rate(settings, done) for done in (0, 0.125, 0.25, 0.625, 1)]
    assert sizes == pytest.approx([0.004, 0.052, 0.1, 0.06, 0.02])


def test_no_warm_up_begins_at_the_highest() -> None:
    assert steps.rate(replace(SETTINGS, warm_up=0), 0) == pytest.approx(0.1)
    assert steps.rate(replace(SETTINGS, warm_up=1), 1) == pytest.approx(0.1)


def test_flags_say_what_the_settings_are() -> None:
    parser = argparse.ArgumentParser()
    steps.add_steps(parser, SETTINGS)
    assert steps.steps_of(parser.parse_args([])) == SETTINGS
    found = steps.steps_of(
        parser.parse_args(["--steps", "7", "--schedule", "onecycle", "--clip", "0", "--average", "0.5", "--decay", "0"])
    )
    assert (found.steps, found.schedule, found.adam.clip, found.adam.average, found.adam.decay) == (
        7,
        "onecycle",
        0,
        0.5,
        0,
    )


def test_the_absence_of_pytorch_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"PyTorch, which is not installed: python -m pip install -r requirements/learning\.txt"
    ):
        require_torch()
