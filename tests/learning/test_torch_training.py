# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop in PyTorch: steps like NumPy's, the best average kept, a stopped training goes on to the same bytes."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neural_network.learning import loop
from neural_network.learning.optimizer import Adam, AdamSettings
from neural_network.learning.steps import StepSettings, add_steps, steps_of

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -r requirements/learning.txt")
from neural_network.learning import torch_training  # noqa: E402 - there is none without PyTorch

pytestmark = pytest.mark.learning

SETTINGS = StepSettings(steps=40, round=10, lr=0.01)


class Line:
    """Learns y = 2 x + 1 from noisy samples, with dropout, so that every random number counts."""

    def __init__(self, validations: list[float] | None = None, factor: float = 1.0) -> None:
        self.validations, self.factor = validations, factor

    def module(self) -> Any:
        return torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))

    def batch(self, step: int, generator: Any, device: Any) -> Any:
        x = torch.randn(16, 1, generator=generator, device=device)
        return x, 2 * x + 1 + 0.1 * torch.randn(16, 1, generator=generator, device=device)

    def loss(self, module: Any, batch: Any, step: int) -> dict[str, Any]:
        x, y = batch
        error = module(x) - y
        return {"square": self.factor * error.square().mean(), "absolute": 0.1 * error.abs().mean()}

    def validate(self, module: Any) -> float:
        if self.validations is not None:
            return self.validations.pop(0)
        x = torch.linspace(-1, 1, 9)[:, None]
        return float((module(x) - 2 * x - 1).square().mean())

    def describe(self) -> dict[str, Any]:
        return {"name": "line"}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def equal(a: loop.State, b: loop.State) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("parameters", "average", "first", "second", "best")
    )


def test_it_learns_and_says_what_each_part_of_the_loss_is() -> None:
    rounds = list(torch_training.train(Line(), replace(SETTINGS, steps=300, round=100, lr=0.03)))
    assert [found.number for found in rounds] == [1, 2, 3]
    assert [found.state.step for found in rounds] == [100, 200, 300]
    assert rounds[-1].validation < 0.05 < rounds[0].parts["square"]
    assert rounds[0].value == pytest.approx(sum(rounds[0].parts.values()))
    assert rounds[-1].ended
    assert not rounds[0].ended


def test_a_step_is_that_of_numpy(rng: np.random.Generator) -> None:
    settings = AdamSettings(beta2=0.99, decay=0.1, clip=1.0, average=0.9)
    weights = rng.normal(size=6)
    decayed = np.array([1.0, 1, 1, 0, 0, 0])
    plain = Adam(weights, settings, decayed)
    theirs, first, second, average = (torch.tensor(a) for a in (weights, 0 * weights, 0 * weights, weights))
    for step in range(1, 6):
        gradient = rng.normal(size=6)
        plain.update(weights, gradient, 0.01 * step)
        torch_training.adamw(
            theirs, torch.tensor(gradient), torch.tensor(decayed), first, second, average, settings, step, 0.01 * step
        )
    np.testing.assert_allclose(theirs, weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(average, plain.average, rtol=0, atol=1e-9)


def test_matrices_decay_and_vectors_do_not() -> None:
    flat, gradient, decayed = torch_training.flat_parameters(module := torch.nn.Linear(3, 2))
    np.testing.assert_array_equal(decayed, [1] * 6 + [0] * 2)
    module(torch.ones(1, 3)).sum().backward()
    np.testing.assert_array_equal(gradient, np.ones(8))
    flat.zero_()
    assert not module.weight.any()


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    ends = [list(torch_training.train(Line(), replace(SETTINGS, seed=seed)))[-1].state for seed in (1, 1, 2)]
    assert equal(ends[0], ends[1])
    assert not equal(ends[0], ends[2])


def test_the_best_average_is_kept() -> None:
    rounds = list(torch_training.train(Line([3.0, 1.0, 2.0, 4.0]), SETTINGS))
    assert [found.best for found in rounds] == [True, True, False, False]
    np.testing.assert_array_equal(rounds[-1].state.best, rounds[1].state.average)
    assert (rounds[-1].best_epoch, rounds[-1].best_value) == (2, 1.0)
    tensors = torch_training.best_tensors(Line(), rounds[-1].state)
    np.testing.assert_array_equal(np.concatenate([a.ravel() for a in tensors.values()]), rounds[1].state.average)


def test_a_time_limit_ends_the_training() -> None:
    rounds = list(torch_training.train(Line(), replace(SETTINGS, steps=10**9, round=10**9, time_limit=1e-9)))
    assert [found.state.step for found in rounds] == [1]
    assert rounds[0].ended


def test_a_loss_that_is_not_finite_is_reported() -> None:
    with pytest.raises(ValueError, match="the loss is not finite after 10 steps"):
        list(torch_training.train(Line(factor=float("inf")), SETTINGS))


def arguments(folder: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_steps(parser, SETTINGS)
    for name in ("weights", "progress", "cancel-file"):
        parser.add_argument(f"--{name}", type=Path)
    for name in ("resume", "end-with-input"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args(["--device", "cpu", "--weights", str(folder / "w.npz"), *more])


def test_a_training_that_was_stopped_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    lines: list[str] = []
    cancel = tmp_path / "cancel"
    whole = list(torch_training.train(Line(), SETTINGS))[-1].state

    def say(line: str) -> None:
        lines.append(line)
        if "epoch    2" in line:
            cancel.touch()

    args = arguments(tmp_path, "--cancel-file", str(cancel), "--progress", str(tmp_path / "p.jsonl"))
    result = torch_training.fit(Line(), steps_of(args), args, say, lines.append)
    assert result.cancelled
    assert result.state.step == 20
    cancel.unlink()
    args.resume = True
    result = torch_training.fit(Line(), steps_of(args), args, say=lines.append, complain=lines.append)
    assert not result.cancelled
    assert equal(result.state, whole)
    records = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [10, 20, 30, 40]
    assert set(records[0]["parts"]) == {"square", "absolute"}
    assert any(line.startswith("Resuming after step 20") for line in lines)


def test_a_training_with_other_settings_is_not_resumed(tmp_path: Path) -> None:
    args = arguments(tmp_path)
    torch_training.fit(Line(), steps_of(args), args, lambda line: None, lambda line: None)
    other = arguments(tmp_path, "--resume", "--lr", "0.5")
    with pytest.raises(ValueError, match=r"other data or settings \(lr was 0\.01\)"):
        torch_training.fit(Line(), steps_of(other), other, lambda line: None, lambda line: None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_said_in_words() -> None:
    with pytest.raises(ValueError, match="--device cuda: PyTorch sees no GPU here; use --device cpu"):
        torch_training.device_of("cuda")
    assert torch_training.device_of("auto").type == "cpu"
