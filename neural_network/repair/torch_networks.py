# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks as PyTorch modules, and what they learn: the convolution that ships, and its rivals, on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..core.contacts import foot_points
from ..core.skeleton import Skeleton
from ..learning.torch_layers import Convolutions, StateSpaces
from . import draws
from .batches import Batches
from .correction import RATE
from .inputs import PART, PARTS, PHYSICS, SEEN, WIDTHS
from .network import CHOICES, DILATIONS, OUTPUTS, SCALES, TURNS, Sizes


class Learned(nn.Module):
    """``inputs``, a body of some kind, ``outputs``; see :mod:`.network` for the same in NumPy."""

    def __init__(self, kind: str, sizes: Sizes, mean: np.ndarray, spread: np.ndarray) -> None:
        super().__init__()
        self.kind, width = kind, sizes.width
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("spread", torch.as_tensor(spread, dtype=torch.float32))
        self.inputs = nn.Linear(SEEN, width)
        both = 2 * width
        if kind == "convolution":
            self.body = Convolutions(width, DILATIONS)
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
        self.register_buffer("scales", torch.as_tensor(SCALES, dtype=torch.float32))
        self.register_buffer("part", torch.as_tensor(PART))

    def forward(
        self, numbers: Tensor, smooth: Tensor, physics: Tensor | None = None, plain: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(N, T, SEEN), (N, T, widths, 72), and for the gate (N, T, 64) and (N, T, 72), to a correction with contacts and kinds
        (N, T, 80), and the gate (N, T, 72)."""
        x = self.inputs((numbers - self.mean) / self.spread)
        if self.kind == "convolution":
            x = self.body(x)
        else:
            ahead, back = self.ahead(x), self.back(x.flip(1))
            if self.kind == "gru":
                ahead, back = ahead[0], back[0]
            x = torch.cat([ahead, back.flip(1)], dim=-1)
        said = self.outputs(x) * self.scales
        choices = said[..., -CHOICES:].unflatten(-1, (len(WIDTHS), PARTS))[..., self.part]
        own, rest = said[..., : TURNS + 3] + (choices * smooth).sum(-2), said[..., TURNS + 3 : -CHOICES]
        if physics is None or plain is None or self.kind != "gated":
            return torch.cat([own, rest], dim=-1), None
        gate = torch.sigmoid(self.gate(torch.cat([x, physics], dim=-1)))
        return torch.cat([gate * own + (1 - gate) * plain, rest], dim=-1), gate


class Several(nn.Module):
    """Networks that learn side by side."""

    def __init__(self, networks: Mapping[str, Learned]) -> None:
        super().__init__()
        self.networks = nn.ModuleDict(networks)


def _matrices(vectors: Tensor) -> Tensor:
    """Axis-angles (..., 3) to matrices (..., 3, 3) by the quaternion."""
    angle = torch.sqrt((vectors * vectors).sum(-1, keepdim=True) + 1e-12)
    half = angle / 2
    x, y, z = (torch.sin(half) / angle * vectors).unbind(-1)
    w = torch.cos(half)[..., 0]
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


class Body(nn.Module):
    """Forward kinematics of one skeleton, with the points of its feet."""

    def __init__(self, skeleton: Skeleton) -> None:
        super().__init__()
        self.feet, self.toes = list(skeleton.feet), list(skeleton.toes)
        levels = [(np.flatnonzero(skeleton.parents < 0), np.zeros(0, int)), *skeleton.levels]
        order = np.concatenate([joints for joints, _ in levels])
        self.register_buffer("back", torch.as_tensor(np.argsort(order)))
        self.levels: list[tuple[Tensor, Tensor, Tensor]] = []
        for k, (joints, parents) in enumerate(levels[1:]):
            above = np.searchsorted(levels[k][0], parents)
            offsets = torch.as_tensor(skeleton.offsets[joints], dtype=torch.float32)
            self.levels.append((torch.as_tensor(joints), torch.as_tensor(above), offsets))
        self.root = torch.as_tensor(levels[0][0])
        rest = skeleton.rest_core[:, :3, 3]
        points = foot_points(skeleton, np.broadcast_to(np.eye(3), (skeleton.count, 3, 3)), rest)
        arms = points - np.stack([rest[[f, t, t]] for f, t in zip(skeleton.feet, skeleton.toes, strict=True)])
        self.register_buffer("arms", torch.as_tensor(arms, dtype=torch.float32))
        self.register_buffer("bones", torch.as_tensor([[f, t, t] for f, t in zip(self.feet, self.toes, strict=True)]))

    def moved(self, device: torch.device) -> None:
        """Go to a device."""
        self.to(device)
        self.root = self.root.to(device)
        self.levels = [(a.to(device), b.to(device), c.to(device)) for a, b, c in self.levels]

    def forward(self, turns: Tensor) -> tuple[Tensor, Tensor]:
        """Local rotations (..., J, 3, 3) to heads (..., J, 3) from the root's, and points of the feet (..., feet, 3, 3)."""
        turned = [turns[..., self.root, :, :]]
        heads = [torch.zeros_like(turned[0][..., 0])]
        for joints, above, offsets in self.levels:
            parents = turned[-1][..., above, :, :]
            heads.append(heads[-1][..., above, :] + (parents @ offsets[..., None])[..., 0])
            turned.append(parents @ turns[..., joints, :, :])
        placed, ways = torch.cat(heads, -2)[..., self.back, :], torch.cat(turned, -3)[..., self.back, :, :]
        points = placed[..., self.bones, :] + (ways[..., self.bones, :, :] @ self.arms[..., None])[..., 0]
        return placed, points


class RepairTask:
    """What the networks learn; a ``TorchTask``."""

    def __init__(
        self,
        skeleton: Skeleton,
        make: Callable[[], nn.Module],
        batches: Batches,
        judged: Sequence[draws.Batch],
        about: dict[str, Any],
        physics_weight: float = 0.1,
    ) -> None:
        self.make, self.batches, self.judged, self.about = make, batches, judged, about
        self.body, self.physics_weight = Body(skeleton), physics_weight

    def module(self) -> nn.Module:
        """See ``TorchTask``."""
        return self.make()

    def batch(self, step: int, generator: torch.Generator, device: torch.device) -> dict[str, Tensor]:
        """See ``TorchTask``; the chance is that of the processes, by the step."""
        return _on(self.batches.at(step), device)

    def loss(self, module: nn.Module, batch: dict[str, Tensor], step: int) -> Mapping[str, Tensor]:
        """See ``TorchTask``."""
        assert isinstance(module, Several)
        self.body.moved(batch["mask"].device)
        out: dict[str, Tensor] = {}
        truth = self.body(batch["turns"] @ _matrices(batch["by"]))
        for name, network in module.networks.items():
            parts = self._parts(network, batch, truth)
            out.update({f"{name} {part}": value for part, value in parts.items()})
        return out

    def _parts(self, network: nn.Module, batch: dict[str, Tensor], truth: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        mask = batch["mask"]
        said, _ = network(batch["numbers"], batch["smooth"], batch.get("physics"), batch.get("plain"))
        by = said[..., :TURNS].unflatten(-1, (-1, 3))
        velocity, height = said[..., TURNS : TURNS + 2], said[..., TURNS + 2]
        contact, kinds = said[..., TURNS + 3 : TURNS + 5], said[..., TURNS + 5 :]
        heads, points = self.body(batch["turns"] @ _matrices(by))
        off = heads - truth[0]
        turn = _mean((by - batch["by"]).abs().mean((-1, -2)), mask)
        place = _mean(off.norm(dim=-1).mean(-1), mask)
        bend = off[:, 2:] - 2 * off[:, 1:-1] + off[:, :-2]
        pair, triple = mask[:, 1:] * mask[:, :-1], mask[:, 2:] * mask[:, :-2]
        wrong = (velocity - batch["velocity"]) * mask[..., None]
        length = mask.sum(1, keepdim=True).clamp(min=2)
        way = torch.cumsum(wrong, 1) / RATE
        way = (way - (way * mask[..., None]).sum(1, keepdim=True) / length[..., None]) * mask[..., None]
        chance = (kinds * mask[..., None]).sum(1) / length
        told = functional.binary_cross_entropy_with_logits(contact, batch["contact"], reduction="none").mean(-1)
        feet = points + self._root(batch, velocity, height)[:, :, None, None]
        stands = batch["contact"][:, 1:] * batch["contact"][:, :-1] * pair[..., None]
        ways = (feet[:, 1:, ..., :2] - feet[:, :-1, ..., :2]).norm(dim=-1).amin(-1)
        slide = (ways * stands).sum() / stands.sum().clamp(min=1)
        under = _mean(functional.relu(-feet[..., 2]).mean((-1, -2)), mask)
        return {
            "turns": 2 * turn,
            "places": 10 * place,
            "bends": 10 * _mean(bend.norm(dim=-1).mean(-1), triple),
            "velocity": 2 * _mean(wrong.abs().mean(-1), mask),
            "way": 2 * _mean(way.abs().mean(-1), mask),
            "height": 10 * _mean((height - batch["height"]).abs(), mask),
            "contacts": 0.5 * _mean(told, mask),
            "kinds": 0.4 * functional.binary_cross_entropy_with_logits(chance, batch["kinds"]),
            "physics": self.physics_weight * (100 * slide + 100 * under),
        }

    def _root(self, batch: dict[str, Tensor], velocity: Tensor, height: Tensor) -> Tensor:
        """(N, T, 3) where the root is as the network has it."""
        left = batch["turns"][:, :, 0, :2, 0]
        left = functional.normalize(left, dim=-1)
        across = torch.stack([-left[..., 1], left[..., 0]], -1)
        level = velocity[..., :1] * left + velocity[..., 1:] * across
        way = functional.pad(torch.cumsum(level[:, :-1], 1), (0, 0, 1, 0)) / RATE
        return batch["root"] + torch.cat([way, height[..., None]], -1)

    def validate(self, module: nn.Module) -> float:
        """See ``TorchTask``: how far heads and the way are off on average, and contacts."""
        device = next(module.parameters()).device
        total = 0.0
        for batch in self.judged:
            parts = self.loss(module, _on(batch, device), 0)
            total += sum(float(value) for value in parts.values())
        return total / len(self.judged)

    def describe(self) -> dict[str, Any]:
        """See ``TorchTask``."""
        return self.about


def _on(batch: draws.Batch, device: torch.device) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value).to(device).float() for name, value in batch.items()}


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp(min=1)


def networks(sizes: Mapping[str, Sizes], mean: np.ndarray, spread: np.ndarray) -> Iterator[tuple[str, Learned]]:
    """One network of each kind."""
    for kind, size in sizes.items():
        yield kind, Learned(kind, size, mean, spread)
