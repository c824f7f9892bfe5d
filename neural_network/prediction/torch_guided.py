# SPDX-License-Identifier: GPL-3.0-or-later
"""The guided network in PyTorch: a Transformer that corrects the library's first answer, all missing frames at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..learning.torch_layers import Transformer
from .examples import Group
from .guided import CONTACTS, Shape
from .torch_bodies import Body

SMALL = 0.1  # of the first answers of the last layer


WEIGHTS = {"place": 1.0, "turn": 0.5, "speed": 0.5, "slide": 0.1, "contact": 0.1}
"""Of the parts of the loss. All but the last are shares of what the first answer has, so that short gaps count as much as long ones:
the mean distance of heads, the mean Frobenius distance of rotation matrices, the mean difference of the heads' steps from frame to
frame, ends included, and the mean step along the ground of ankle or toe, the one that moves less, of feet that truly stand. The
last is the cross entropy of contacts."""
LEAST = 1e-3  # of what a first answer has


class Guided(nn.Module):
    """The network that :mod:`.guided` runs in NumPy."""

    def __init__(self, shape: Shape, dropout: float = 0.1) -> None:
        super().__init__()
        self.shape = shape
        self.into = nn.Linear(shape.told, shape.width)
        self.body = Transformer(shape.width, shape.heads, shape.depth, shape.wide, dropout)
        self.out = nn.Linear(shape.width, shape.rows + CONTACTS)
        with torch.no_grad():
            self.out.weight *= SMALL
            self.out.bias.zero_()

    def forward(self, told: Tensor) -> tuple[Tensor, Tensor]:
        """What frames (N, F, T) are told to corrections (N, F, R) of the first answer and contacts (N, F, feet), as logits."""
        out = self.out(self.body(self.into(told)))
        return out[..., : self.shape.rows], out[..., self.shape.rows :]


@dataclass(frozen=True)
class Batch:
    """Tensors of a group of examples, with what does not change while the network learns."""

    told: Tensor
    first: Tensor
    """(N, F, R) the answer that is corrected."""
    turns: Tensor
    """(N, F, J, 3, 3) true turns."""
    heads: Tensor
    """(N, F, J, 3) true heads, in leg lengths."""
    contact: Tensor
    room: Tensor
    free: Tensor
    """(F) bool, frames that are missing."""
    before: dict[str, Tensor]
    """What is wrong with the first answers; see :func:`faults`."""

    @classmethod
    def of(cls, group: Group, body: Body, device: str) -> Batch:
        """The examples of a group on a device, where ``body`` is too."""
        values = (group.told, group.first, group.truth, group.contact, group.room)
        told, first, truth, contact, room = (torch.as_tensor(v).to(device).float() for v in values)
        with torch.no_grad():
            turns, heads = body(truth)
            out = cls(told, first, turns, heads, contact, room, torch.as_tensor(~group.known).to(device), {})
            return replace(out, before=faults(body, out, first))

    def some(self, rows: Tensor) -> Batch:
        """The examples ``rows``."""
        parts = {name: getattr(self, name)[rows] for name in ("told", "first", "turns", "heads", "contact")}
        return replace(self, **parts)


def faults(body: Body, batch: Batch, rows: Tensor) -> dict[str, Tensor]:
    """What is wrong with answers (N, F, R), by the names of :data:`WEIGHTS`; lengths in leg lengths."""
    free = batch.free
    turns, heads = body(rows)
    step, true_step = heads.diff(dim=1), batch.heads.diff(dim=1)
    moving = free[1:] | free[:-1]
    feet = step[:, :, body.feet, :2].norm(dim=-1).unflatten(-1, (2, -1)).amin(dim=2)  # (N, F - 1, feet)
    stands = batch.contact[:, 1:] * batch.contact[:, :-1] * moving[:, None]
    return {
        "place": (heads - batch.heads)[:, free].norm(dim=-1).mean(),
        "turn": (turns - batch.turns)[:, free].flatten(-2).norm(dim=-1).mean(),
        "speed": (step - true_step)[:, moving].norm(dim=-1).mean(),
        "slide": (feet * stands).sum() / stands.sum().clamp_min(1),
    }


def loss(network: Guided, body: Body, batch: Batch) -> dict[str, Tensor]:
    """The parts of the loss, weighted; their sum is minimized."""
    correction, contact = network(batch.told)
    now = faults(body, batch, batch.first + correction * batch.room)
    parts = {name: WEIGHTS[name] * value / (batch.before[name] + LEAST) for name, value in now.items()}
    entropy = functional.binary_cross_entropy_with_logits(contact, batch.contact)
    return {**parts, "contact": WEIGHTS["contact"] * entropy}


def distances(network: Guided, body: Body, batch: Batch, shares: Sequence[float] = (1.0,)) -> Tensor:
    """(S, N) mean distance of all heads in the frames that were missing, in leg lengths, with ``shares`` of the correction."""
    correction, _ = network(batch.told)
    every = [body(batch.first + share * correction * batch.room)[1] for share in shares]
    return torch.stack([(heads - batch.heads)[:, batch.free].norm(dim=-1).mean(dim=(1, 2)) for heads in every])
