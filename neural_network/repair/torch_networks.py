# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks as PyTorch modules, and what they learn: the convolution that ships, and its rivals, on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..learning.torch_layers import Convolutions, StateSpaces
from .correction import RATE
from .inputs import PART, PARTS, PHYSICS, SEEN, WIDTHS
from .network import CHOICES, DILATIONS, OUTPUTS, SCALES, TRUSTED, TURNS, Sizes
from .torch_body import Body, matrices, product, times, turning
from .torch_draws import Batch

TOGETHER = 4
"""Batches that are drawn at once: a GPU draws many windows as quickly as few."""


class Learned(nn.Module):
    """``inputs``, a body of some kind, ``outputs``; see :mod:`.network` for the same in NumPy."""

    def __init__(self, kind: str, sizes: Sizes, mean: np.ndarray, spread: np.ndarray, dropout: float = 0.0) -> None:
        super().__init__()
        self.kind, width = kind, sizes.width
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("spread", torch.as_tensor(spread, dtype=torch.float32))
        self.inputs = nn.Linear(SEEN, width)
        both = 2 * width
        if kind == "convolution":
            self.body = Convolutions(width, DILATIONS, dropout=dropout)
            self.whole = nn.Linear(width, width)
            self.after = Convolutions(width, DILATIONS, dropout=dropout)
            both = width
        elif kind == "gru":
            self.ahead = nn.GRU(width, width, batch_first=True)
            self.back = nn.GRU(width, width, batch_first=True)
        else:
            self.ahead = StateSpaces(width, sizes.depth, state=sizes.state)
            self.back = StateSpaces(width, sizes.depth, state=sizes.state)
            self.gate = nn.Linear(both + PHYSICS, TURNS + 3)
        self.outputs = nn.Linear(both, OUTPUTS)
        with torch.no_grad():
            self.outputs.weight.mul_(0.1)
            self.outputs.bias.zero_()
            self.outputs.bias[-CHOICES - TRUSTED : -CHOICES] = 0.7  # what standing feet ask for is seldom far off
        self.register_buffer("scales", torch.as_tensor(SCALES, dtype=torch.float32))
        self.register_buffer("part", torch.as_tensor(PART))

    def forward(
        self,
        numbers: Tensor,
        smooth: Tensor,
        asked: Tensor,
        slow: Tensor,
        physics: Tensor | None = None,
        plain: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """(N, T, SEEN), (N, T, widths, 72), (N, T, ASKED), the Gaussian (N, T, T) of QUICK frames, and for the gate (N, T, 64) and
        (N, T, 72), to a correction with contacts and kinds (N, T, 80), and the gate (N, T, 72). ``mask`` (N, T) is 0 after the
        end of a window; None: all have T frames."""
        x = self.inputs((numbers - self.mean) / self.spread)
        if self.kind == "convolution":
            x = self.body(x, mask)
            there = torch.ones_like(x[..., :1]) if mask is None else mask[..., None]
            x = x + self.whole((x * there).sum(1, keepdim=True) / there.sum(1, keepdim=True))
            x = self.after(x, mask)
        else:
            back = _backwards(x, mask)
            ahead, behind = self.ahead(x), self.back(torch.take_along_dim(x, back, 1))
            if self.kind == "gru":
                ahead, behind = ahead[0], behind[0]
            x = torch.cat([ahead, torch.take_along_dim(behind, back, 1)], dim=-1)
        said = self.outputs(x) * self.scales
        choices = said[..., -CHOICES:].unflatten(-1, (len(WIDTHS), PARTS))[..., self.part]
        own, rest = said[..., : TURNS + 3], said[..., TURNS + 3 : -CHOICES - TRUSTED]
        model, more, high = said[..., -CHOICES - TRUSTED : -CHOICES].split(1, -1)
        quick = own[..., TURNS : TURNS + 2]
        quick = quick - slow @ quick + model * asked[..., :2] + more * asked[..., 2:4]
        own = torch.cat([own[..., :TURNS], quick, own[..., -1:] + high * asked[..., 4:]], -1) + (choices * smooth).sum(
            -2
        )
        if physics is None or plain is None or self.kind != "gated":
            return torch.cat([own, rest], dim=-1), None
        gate = torch.sigmoid(self.gate(torch.cat([x, physics], dim=-1)))
        return torch.cat([gate * own + (1 - gate) * plain, rest], dim=-1), gate


class Several(nn.Module):
    """Networks that learn side by side."""

    def __init__(self, networks: Mapping[str, Learned]) -> None:
        super().__init__()
        self.networks = nn.ModuleDict(networks)


def _backwards(x: Tensor, mask: Tensor | None) -> Tensor:
    """(N, T, 1) the frames of each window from its end to its beginning; what comes after the end stays after it."""
    time = torch.arange(x.shape[1], device=x.device)[None]
    length = torch.full_like(time[:, :1], x.shape[1]) if mask is None else mask.sum(1, keepdim=True).long()
    return torch.where(time < length, length - 1 - time, time)[..., None].expand(len(x), -1, -1)


class RepairTask:
    """What the networks learn; a ``TorchTask``."""

    def __init__(
        self,
        body: Body,
        make: Callable[[], nn.Module],
        draw: Callable[[torch.Generator], Batch],  # of TOGETHER batches
        judged: Sequence[Batch],
        about: dict[str, Any],
        physics_weight: float = 0.1,
        only: str = "",
    ) -> None:
        self.only = only
        self.make, self.draw, self.judged, self.about = make, draw, judged, about
        self.body, self.physics_weight = body, physics_weight
        self.ahead: tuple[int, Batch] | None = None

    def module(self) -> nn.Module:
        """See ``TorchTask``."""
        return self.make()

    def batch(self, step: int, generator: torch.Generator, device: torch.device) -> Batch:
        """See ``TorchTask``."""
        k = step % TOGETHER
        if self.ahead is None or self.ahead[0] != step - k:
            generator.manual_seed(
                generator.initial_seed() - k
            )  # that of the step which the windows are first drawn for
            with torch.no_grad():
                self.ahead = step - k, self.draw(generator)
        return {name: values[k::TOGETHER] for name, values in self.ahead[1].items()}

    def loss(self, module: nn.Module, batch: Batch, step: int) -> Mapping[str, Tensor]:
        """See ``TorchTask``."""
        assert isinstance(module, Several)
        out: dict[str, Tensor] = {}
        truth = self._posed(batch, batch["by"])
        for name, network in module.networks.items():
            parts = self._parts(network, batch, truth)
            out.update({f"{name} {part}": value for part, value in parts.items() if self.only in part})
        return out

    def _posed(self, batch: Batch, by: Tensor) -> tuple[Tensor, Tensor]:
        return self.body(matrices(product(batch["turns"], turning(by))), batch["lengths"])

    def _parts(self, network: nn.Module, batch: Batch, truth: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        mask = batch["mask"]
        given = (batch[key] for key in ("numbers", "smooth", "asked", "slow"))
        said, _ = network(*given, batch.get("physics"), batch.get("plain"), mask)
        by = said[..., :TURNS].unflatten(-1, (-1, 3))
        velocity, height = said[..., TURNS : TURNS + 2], said[..., TURNS + 2]
        contact, kinds = said[..., TURNS + 3 : TURNS + 5], said[..., TURNS + 5 :]
        heads, points = self._posed(batch, by)
        off = heads - truth[0]
        turn = _mean((by - batch["by"]).abs().mean((-1, -2)), mask)
        place = _mean(off.norm(dim=-1).mean(-1), mask)
        soles = _mean((points - truth[1]).norm(dim=-1).mean((-1, -2)), mask)
        bend = off[:, 2:] - 2 * off[:, 1:-1] + off[:, :-2]
        pair, triple = mask[:, 1:] * mask[:, :-1], mask[:, 2:] * mask[:, :-2]
        wrong = (velocity - batch["velocity"]) * mask[..., None]
        length = mask.sum(1, keepdim=True).clamp(min=2)
        way = torch.cumsum(wrong, 1) / RATE
        way = (way - (way * mask[..., None]).sum(1, keepdim=True) / length[..., None]) * mask[..., None] + 1e-9
        chance = (kinds * mask[..., None]).sum(1) / length
        told = functional.binary_cross_entropy_with_logits(contact, batch["contact"], reduction="none").mean(-1)
        feet = points + self._root(batch, velocity, height)[:, :, None, None]
        stands = batch["contact"][:, 1:] * batch["contact"][:, :-1] * pair[..., None]
        ways = (feet[:, 1:, ..., :2] - feet[:, :-1, ..., :2]).norm(dim=-1).amin(-1)
        slide = (ways * stands).sum() / stands.sum().clamp(min=1)
        under = _mean(functional.relu(-feet[..., 2]).mean((-1, -2)), mask)
        return {
            "turns": 2 * turn,
            "places": 20 * place,
            "soles": 5 * soles,
            "bends": 10 * _mean(bend.norm(dim=-1).mean(-1), triple),
            "velocity": 2 * _mean(wrong.abs().mean(-1), mask),
            "way": 6 * _mean(way.norm(dim=-1), mask),
            "height": 10 * _mean((height - batch["height"]).abs(), mask),
            "contacts": 1.0 * _mean(told, mask),
            "kinds": 0.4 * functional.binary_cross_entropy_with_logits(chance, batch["kinds"]),
            "physics": self.physics_weight * (100 * slide + 100 * under),
        }

    def _root(self, batch: Batch, velocity: Tensor, height: Tensor) -> Tensor:
        """(N, T, 3) where the root is as the network has it."""
        level = times(batch["level"], velocity[..., None])[..., 0]
        way = functional.pad(torch.cumsum(level[:, :-1], 1), (0, 0, 1, 0)) / RATE
        return batch["root"] + torch.cat([way, height[..., None]], -1)

    def validate(self, module: nn.Module) -> float:
        """See ``TorchTask``: the whole loss but the kinds'."""
        total = 0.0
        for batch in self.judged:
            parts = self.loss(module, batch, 0)
            total += sum(float(value) for name, value in parts.items() if not name.endswith("kinds"))
        return total / len(self.judged)

    def describe(self) -> dict[str, Any]:
        """See ``TorchTask``."""
        return self.about


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp(min=1)


def networks(
    sizes: Mapping[str, Sizes], mean: np.ndarray, spread: np.ndarray, dropout: float = 0.0
) -> Iterator[tuple[str, Learned]]:
    """One network of each kind."""
    for kind, size in sizes.items():
        yield kind, Learned(kind, size, mean, spread, dropout)
