# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guided network learns in PyTorch: to correct the first answers of examples drawn once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..core.skeleton import Skeleton
from . import guided
from .examples import Group
from .guided import Shape
from .torch_bodies import Body
from .torch_guided import Batch, Guided, distances, loss


class GuidedTask:
    """See :class:`..learning.torch_training.TorchTask`."""

    def __init__(
        self, body: Skeleton, groups: Sequence[Group], held: Sequence[Group], shape: Shape, dropout: float, rows: int
    ) -> None:
        self.shape, self.dropout, self.rows = shape, dropout, rows
        self.groups, self.held = groups, held
        self.body = Body(body)
        self._moved: dict[str, tuple[list[Batch], list[Batch]]] = {}

    def module(self) -> nn.Module:
        """The network."""
        return Guided(self.shape, self.dropout)

    def _on(self, device: torch.device) -> tuple[list[Batch], list[Batch]]:
        """All examples on a device, moved once."""
        key = str(device)
        if key not in self._moved:
            self.body.to(device)
            self._moved[key] = (
                [Batch.of(group, self.body, key) for group in self.groups],
                [Batch.of(group, self.body, key) for group in self.held],
            )
        return self._moved[key]

    def batch(self, step: int, generator: torch.Generator, device: torch.device) -> Batch:
        """Some examples of one group."""
        groups = self._on(device)[0]
        which = int(torch.randint(len(groups), (1,), generator=generator, device=device))
        group = groups[which]
        if len(group.told) <= self.rows:
            return group
        return group.some(torch.randperm(len(group.told), generator=generator, device=device)[: self.rows])

    def loss(self, module: nn.Module, batch: Batch, step: int) -> Mapping[str, Tensor]:
        """See :func:`.torch_guided.loss`."""
        assert isinstance(module, Guided)
        return loss(module, self.body, batch)

    def validate(self, module: nn.Module) -> float:
        """Mean distance of heads as a share of that of the first answers."""
        assert isinstance(module, Guided)
        device = next(module.parameters()).device
        shares = [
            distances(module, self.body, batch)[0].mean() / batch.before["place"] for batch in self._on(device)[1]
        ]
        return float(torch.stack(shares).mean())

    def worth(self, module: nn.Module) -> dict[str, float]:
        """By kind of gap (:func:`.guided.kind_of`), the share of the correction that is best on the held examples."""
        assert isinstance(module, Guided)
        shares = np.linspace(0, 1, 11)
        by_kind: dict[str, list[np.ndarray]] = {}
        with torch.no_grad():
            for group, batch in zip(self.held, self._on(torch.device("cpu"))[1], strict=True):
                found = distances(module, self.body, batch, shares.tolist()).numpy().T  # (N, S)
                missing = int((~group.known).sum())
                for row, share in zip(found / np.maximum(found[:, :1], 1e-3), group.share.tolist(), strict=True):
                    by_kind.setdefault(guided.kind_of(missing + 1, share, group.ends), []).append(row)
        return {kind: float(shares[np.mean(rows, axis=0).argmin()]) for kind, rows in sorted(by_kind.items())}

    def describe(self) -> dict[str, Any]:
        """The shape of the network and a hash of all examples."""
        digest = hashlib.sha256()
        for group in (*self.groups, *self.held):
            digest.update(np.ascontiguousarray(group.truth).tobytes())
        return {
            "shape": vars(self.shape),
            "dropout": self.dropout,
            "rows": self.rows,
            "examples": digest.hexdigest()[:16],
        }
