# SPDX-License-Identifier: GPL-3.0-or-later
"""What the network that fills gaps learns in PyTorch: gaps drawn anew at every step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..core.skeleton import Skeleton
from . import torch_windows
from .gaps import HISTORY
from .inbetween import Shape
from .library import Take
from .torch_bodies import Body
from .torch_inbetween import Inbetween, distances, loss
from .torch_windows import Asked, Takes, Variety

JUDGED = (15, 30, 60)
"""Frames from key to key that the best weights are chosen by."""
MOST_JUDGED = 400  # gaps of each length


class FillTask:
    """See :class:`..learning.torch_training.TorchTask`."""

    def __init__(
        self,
        body: Skeleton,
        takes: Sequence[Take],
        held: Sequence[Take],
        shape: Shape,
        dropout: float,
        count: int,
        variety: Variety,
    ) -> None:
        self.skeleton, self.takes, self.held = body, takes, held
        self.shape, self.dropout, self.count, self.variety = shape, dropout, count, variety
        self.body = Body(body)
        self._moved: dict[str, tuple[Takes, list[Asked]]] = {}

    def module(self) -> nn.Module:
        """The network."""
        return Inbetween(self.shape, self.dropout)

    def _on(self, device: torch.device) -> tuple[Takes, list[Asked]]:
        """Takes to draw from and gaps to validate on, moved to a device once."""
        key = str(device)
        if key not in self._moved:
            self.body.to(device)
            held = Takes(self.skeleton, self.held, device)
            self._moved[key] = (
                Takes(self.skeleton, self.takes, device),
                [found for n in JUDGED if (found := cut(held, n)) is not None],
            )
        return self._moved[key]

    def batch(self, step: int, generator: torch.Generator, device: torch.device) -> Asked:
        """Gaps of one number of frames."""
        takes = self._on(device)[0]
        return takes.gaps(takes.frames(step), self.count, self.variety, generator)

    def alike(self, step: int, device: torch.device) -> int:
        """Steps with as many frames do the same."""
        return self._on(device)[0].frames(step)

    def loss(self, module: nn.Module, batch: Asked, step: int) -> Mapping[str, Tensor]:
        """See :func:`.torch_inbetween.loss`."""
        assert isinstance(module, Inbetween)
        return loss(module, self.body, batch)

    def validate(self, module: nn.Module) -> float:
        """Mean over gaps of each length of the distance of heads as a share of interpolation's."""
        return float(np.mean(self.shares(module)))

    def shares(self, module: nn.Module) -> list[float]:
        """For each length, the network's mean distance as a share of interpolation's."""
        assert isinstance(module, Inbetween)
        device = next(module.parameters()).device
        with torch.no_grad():
            means = [distances(module, self.body, asked).mean(dim=1) for asked in self._on(device)[1]]
        return [float(own / straight) for own, straight in means]

    def describe(self) -> dict[str, Any]:
        """The shape of the network and a hash of all takes."""
        digest = hashlib.sha256()
        for take in (*self.takes, *self.held):
            digest.update(np.ascontiguousarray(take.root).tobytes())
        return {
            "shape": vars(self.shape),
            "dropout": self.dropout,
            "count": self.count,
            "variety": vars(self.variety),
            "takes": digest.hexdigest()[:16],
        }


def cut(takes: Takes, length: int) -> Asked | None:
    """Gaps of one length cut out of takes, ten frames known before and one after; None where no take is as long."""
    frames = HISTORY + length
    begins = torch.nonzero(takes.left >= frames - 1)[:, 0]
    if not len(begins):
        return None
    begins = begins[:: max(1, -(-len(begins) // MOST_JUDGED))]
    at = begins[:, None] + torch.arange(frames, device=begins.device)
    known = torch.full((len(begins),), HISTORY, device=begins.device)
    return torch_windows.seen(takes.rows[at], takes.contact[at], known, torch.ones_like(known))
