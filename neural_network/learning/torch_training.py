# SPDX-License-Identifier: GPL-3.0-or-later
"""Training in PyTorch: one loop for every network, the counterpart of ``loop`` for modules, on a processor or a GPU.

:func:`train` is the loop: draw a batch, take the gradient, make a step of AdamW, and after every round of steps validate the
running average of the weights and keep the best. All weights are views of one flat vector, so that a step is a few operations
over all of them, and so that a stopped training is the same :class:`~neural_network.learning.loop.State` as in NumPy, saved and
read by the same functions. :func:`fit` is everything around it that a training command needs.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from . import loop
from .arguments import append_record
from .loop import Epoch, State
from .optimizer import AdamSettings
from .steps import StepSettings, rate
from .stopping import Stopper
from .torch_layers import tensors_of

Say = Callable[[str], None]


class TorchTask(Protocol):
    """What a wing says about its learning.

    It may also have ``alike(step, device) -> int``: steps of one number do the same operations on tensors of the same shapes, none of
    which is made of numbers on the processor, so that a GPU can play them again as it recorded them.
    """

    def module(self) -> nn.Module:
        """The network with its first weights, float32, which are drawn from PyTorch's own seed. It may have no buffers that learn."""

    def batch(self, step: int, generator: torch.Generator, device: torch.device) -> Any:
        """The batch of step ``step``, on ``device``, drawn with ``generator`` (of the same device) alone."""

    def loss(self, module: nn.Module, batch: Any, step: int) -> Mapping[str, Tensor]:
        """The parts of the loss by name, weighted already: their sum is what falls."""

    def validate(self, module: nn.Module) -> float:
        """The figure that chooses the best weights, lower is better, on data that is neither trained nor tested on."""

    def describe(self) -> dict[str, Any]:
        """Plain JSON values that identify the task: a stopped training continues only where they are equal."""


@dataclass(frozen=True)
class Round(Epoch):
    """One round of steps: an epoch to whatever shows or saves it."""

    parts: Mapping[str, float]
    """Mean of each part of the loss over the round's steps; ``value`` is their sum."""
    rate: float
    """The step size at its end."""


def device_of(name: str) -> torch.device:
    """The device for "auto" (a GPU where there is one), "cpu" or "cuda"; ValueError where there is no such GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: PyTorch sees no GPU here; use --device cpu")
    return torch.device(name)


# ---- all weights as one vector


def flat_parameters(module: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """Move all weights of ``module`` into one vector (P), of which they become views, and their gradients into another.

    Returns both, and (P) 1 for weights that decay: matrices and more, not vectors such as biases.
    """
    parameters = list(module.parameters())
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    gradient = torch.zeros_like(flat)
    decayed = torch.cat([torch.full_like(p.detach(), float(p.ndim > 1)).reshape(-1) for p in parameters])
    at = 0
    for p in parameters:
        p.data = flat[at : at + p.numel()].view_as(p)
        p.grad = gradient[at : at + p.numel()].view_as(p)
        at += p.numel()
    return flat, gradient, decayed


def with_weights(module: nn.Module, flat: np.ndarray) -> nn.Module:
    """A copy of ``module`` on the processor with the weights ``flat`` (P), such as ``result.state.best``, ready to run."""
    other = copy.deepcopy(module).cpu().train(False)
    nn.utils.vector_to_parameters(torch.as_tensor(np.array(flat)), other.parameters())
    return other


def best_tensors(task: TorchTask, state: State) -> dict[str, np.ndarray]:
    """The best weights by name, for NumPy."""
    return tensors_of(with_weights(task.module(), state.best))


# ---- the loop


def train(
    task: TorchTask, settings: StepSettings, state: State | None = None, device: torch.device | None = None
) -> Iterator[Round]:
    """Train until ``settings.steps`` or the time limit; ``state`` continues a stopped training.

    Every step has a seed of its own, made of ``settings.seed`` and its number, for its batch and for PyTorch's own random
    numbers (dropout). So a training that was stopped continues to the same bytes, on one processor thread.
    Raises ValueError where the loss is no longer finite, or where ``state`` has other weights.
    """
    device = device or torch.device("cpu")
    torch.manual_seed(settings.seed)
    module = task.module().to(device)
    weights, gradient, decayed = flat_parameters(module)
    if state is None:
        start = _array(weights)
        zeros = np.zeros_like(start)
        random = dict(np.random.default_rng(settings.seed).bit_generator.state)  # unused: steps have seeds of their own
        state = State(start, start, zeros, zeros, start, 0, 0, 0, float("inf"), 0.0, random, ())
    elif state.parameters.size != len(weights):
        raise ValueError(
            f"the stopped training has {state.parameters.size:,} weights, expected {len(weights):,}; train without --resume"
        )
    if state.ended:
        return
    weights.copy_(torch.as_tensor(state.parameters))
    average, first, second = (torch.tensor(a, device=device) for a in (state.average, state.first, state.second))
    kept, step, best_value, best_epoch = state.best, state.step, state.best_value, state.best_epoch
    judged = copy.deepcopy(module)
    judged_weights = flat_parameters(judged)[0]
    generator = torch.Generator(device)
    slope = _Slope(task, module, gradient, generator, device)
    began = time.perf_counter() - state.spent

    def share() -> float:
        by_time = (time.perf_counter() - began) / settings.time_limit if settings.time_limit else 0.0
        return min(1.0, max(step / settings.steps, by_time))

    while True:
        sums: dict[str, Tensor] = {}
        before = step
        module.train()
        while step < settings.steps and (step == before or step % settings.round):
            seed = settings.seed * 1_000_003 + step
            generator.manual_seed(seed)
            torch.manual_seed(seed)
            parts = slope(step)
            size = rate(settings, share())
            step += 1
            adamw(weights, gradient, decayed, first, second, average, settings.adam, step, size)
            for name, part in parts.items():
                sums[name] = sums.get(name, 0) + part.detach()
            if settings.time_limit and share() >= 1:
                break
        means = {name: float(part) / (step - before) for name, part in sums.items()}
        if not np.isfinite(list(means.values())).all():
            raise ValueError(f"the loss is not finite after {step} steps ({means}); lower --lr, or --clip the gradient")
        judged_weights.copy_(average if settings.adam.average else weights)
        judged.train(False)
        with torch.no_grad():
            validation = float(task.validate(judged))
        epoch = state.epoch + 1
        better = validation < best_value
        if better:
            best_value, best_epoch, kept = validation, epoch, _array(judged_weights)
        done, value = share(), sum(means.values())
        state = State(
            parameters=_array(weights),
            average=_array(average),
            first=_array(first),
            second=_array(second),
            best=kept,
            step=step,
            epoch=epoch,
            best_epoch=best_epoch,
            best_value=best_value,
            spent=time.perf_counter() - began,
            rng=state.rng,
            history=(*state.history, (value, validation)),
            ended=done >= 1,
        )
        of = -(-settings.steps // settings.round)
        yield Round(epoch, of, done, value, validation, better, best_value, best_epoch, done >= 1, state, means, size)
        if done >= 1:
            return


class _Slope:
    """Loss and gradient of a step.

    On a GPU, thousands of small operations cost more to start than to do. So where the task says which steps do the same
    (``alike``), their operations are recorded once, as a CUDA graph, and played again with other random numbers.
    """

    def __init__(
        self, task: TorchTask, module: nn.Module, gradient: Tensor, generator: torch.Generator, device: torch.device
    ) -> None:
        self.task, self.module, self.gradient, self.generator, self.device = task, module, gradient, generator, device
        self.alike: Callable[[int, torch.device], int] | None = getattr(task, "alike", None)
        self.recorded: dict[int, tuple[Any, Mapping[str, Tensor]]] = {}

    def __call__(self, step: int) -> Mapping[str, Tensor]:
        """The parts of the loss at ``step``; the gradient is left where the weights have it."""
        if self.device.type != "cuda" or self.alike is None:
            return self.directly(step)
        kind = self.alike(step, self.device)
        if kind not in self.recorded:
            self.recorded[kind] = self.record(step)
        graph, parts = self.recorded[kind]
        graph.replay()
        return parts

    def directly(self, step: int) -> Mapping[str, Tensor]:
        """Operation by operation."""
        self.gradient.zero_()
        parts = self.task.loss(self.module, self.task.batch(step, self.generator, self.device), step)
        torch.stack(list(parts.values())).sum().backward()
        return {name: part.detach() for name, part in parts.items()}

    def record(self, step: int) -> tuple[Any, Mapping[str, Tensor]]:
        """A graph of a step, and where it leaves the parts of the loss."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            self.directly(step)  # what is made at the first use must not be made while recording
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        pool = next(iter(self.recorded.values()))[0].pool() if self.recorded else None
        with torch.cuda.graph(graph, pool=pool):
            parts = self.directly(step)
        return graph, parts


def _array(vector: Tensor) -> np.ndarray:
    return vector.cpu().numpy().copy()


def adamw(
    weights: Tensor,
    gradient: Tensor,
    decayed: Tensor,
    first: Tensor,
    second: Tensor,
    average: Tensor,
    settings: AdamSettings,
    step: int,
    size: float,
) -> None:
    """Step number ``step``, from 1, of ``optimizer.Adam`` with size ``size``; all vectors (P) but ``decayed`` change in place."""
    if settings.clip:
        gradient *= torch.clamp(settings.clip / (gradient.norm() + 1e-12), max=1.0)
    first.lerp_(gradient, 1 - settings.beta1)
    second.mul_(settings.beta2).addcmul_(gradient, gradient, value=1 - settings.beta2)
    spread = (second / (1 - settings.beta2**step)).sqrt_().add_(settings.epsilon)
    if settings.decay:
        weights.addcmul_(weights, decayed, value=-size * settings.decay)
    weights.addcdiv_(first, spread, value=-size / (1 - settings.beta1**step))
    if settings.average:
        average.lerp_(weights, 1 - min(settings.average, step / (step + 10)))


# ---- what every training command does around it


def fit(
    task: TorchTask,
    settings: StepSettings,
    args: argparse.Namespace,
    say: Say,
    complain: Say,
    show: Callable[[Mapping[str, float], int], None] = lambda values, step: None,
) -> loop.Result:
    """Train as ``args`` ask, with the flags of ``arguments.add_files`` and ``steps.add_steps``; the best is ``result.state.best``.

    Prints a line for each round through ``say``, appends to the progress file, gives curves to ``show`` (``events.writer``),
    saves the state to resume from beside ``args.weights``, and stops at Ctrl-C, the cancel file or a signal; then
    ``result.cancelled`` is true, and the caller saves the best so far. Raises ValueError where ``--resume`` has nothing to
    continue, or no GPU is there, before anything is trained.
    """
    torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("high")
    device = device_of(args.device)
    at, belongs_to = loop.state_path(args.weights), loop.identity(task, settings)
    state = loop.load_state(at, belongs_to) if args.resume else None
    if state is not None:
        say(f"Resuming after step {state.step}; best so far {state.best_value:.5f}.")
    say(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name() if device.type == 'cuda' else 'the processor'}")

    def attempt(write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:  # hours of training do not end because a file beside it cannot be written now
            complain(f"{error}; the training continues")

    def on_round(found: Epoch) -> None:
        parts: Mapping[str, float] = getattr(found, "parts", {})
        say(loop.line(found) + "".join(f"  {name} {value:.4g}" for name, value in parts.items() if len(parts) > 1))
        attempt(partial(append_record, args.progress, {**loop.record(found), "step": found.state.step, "parts": parts}))
        curves = {"loss": found.value, "validation": found.validation, **parts}
        attempt(partial(show, curves, found.state.step))

    def save(found: State) -> None:
        attempt(partial(loop.save_state, at, found, belongs_to))

    with Stopper(say, args.cancel_file, args.end_with_input) as stopper:
        return loop.drive(train(task, settings, state, device), state, on_round, stopper.asked, save)
