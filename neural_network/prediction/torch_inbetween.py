# SPDX-License-Identifier: GPL-3.0-or-later
"""The network that fills gaps in PyTorch, and what it is told it does wrong."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..learning.torch_layers import Transformer
from .inbetween import CONTACTS, Shape
from .torch_bodies import Body
from .torch_windows import Asked

SMALL = 0.1  # of the first answers of the last layer

WEIGHTS = {"place": 1.0, "turn": 0.5, "speed": 0.5, "slide": 0.1, "contact": 0.1}
"""Of the parts of the loss. The first three are shares of what interpolation has, so that short gaps count as much as long ones: the
mean distance of heads, the mean Frobenius distance of rotation matrices, and the mean difference of the heads' steps from frame to
frame, ends included. "slide" is the mean step along the ground of ankle or toe, the one that moves less, of feet that truly stand,
also as a share; "contact" is the cross entropy of contacts."""
LEAST = 1e-3  # of what interpolation has


class Inbetween(nn.Module):
    """The network that :mod:`.inbetween` runs in NumPy."""

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
        """What frames (N, F, T) are told to what is added to interpolation (N, F, R), and contacts (N, F, feet) as logits."""
        added, contact = self.out(self.body(self.into(told))).split([self.shape.rows, CONTACTS], dim=-1)
        return added, contact


def _mean(values: Tensor, where: Tensor) -> Tensor:
    """Mean of values where ``where`` is 1, of one shape."""
    return (values * where).sum() / where.sum().clamp_min(1)


Posed = tuple[Tensor, Tensor]
"""Turns (N, F, J, 3, 3) and heads (N, F, J, 3) in leg lengths, see :class:`.torch_bodies.Body`."""


def faults(body: Body, asked: Asked, answer: Posed, true: Posed) -> dict[str, Tensor]:
    """What is wrong with an answer, by the names of :data:`WEIGHTS`."""
    turns, heads = answer
    step, true_step = heads.diff(dim=1), true[1].diff(dim=1)
    moving = torch.maximum(asked.free[:, 1:], asked.free[:, :-1])
    feet = step.index_select(2, body.feet)[..., :2].norm(dim=-1).unflatten(-1, (2, -1)).amin(dim=2)  # (N, F - 1, feet)
    stands = asked.contact[:, 1:] * asked.contact[:, :-1] * moving[..., None]
    return {
        "place": _mean((heads - true[1]).norm(dim=-1).mean(dim=-1), asked.free),
        "turn": _mean((turns - true[0]).flatten(-2).norm(dim=-1).mean(dim=-1), asked.free),
        "speed": _mean((step - true_step).norm(dim=-1).mean(dim=-1), moving),
        "slide": _mean(feet, stands),
    }


def loss(network: Inbetween, body: Body, asked: Asked) -> dict[str, Tensor]:
    """The parts of the loss, weighted; their sum is minimized."""
    with torch.no_grad():
        turns, heads = body(torch.stack([asked.rows, asked.straight]))
        true = turns[0], heads[0]
        before = faults(body, asked, (turns[1], heads[1]), true)
    added, contact = network(asked.told)
    now = faults(body, asked, body(asked.straight + added * asked.room), true)
    parts = {name: WEIGHTS[name] * value / (before[name] + LEAST) for name, value in now.items()}
    entropy = functional.binary_cross_entropy_with_logits(contact, asked.contact)
    return {**parts, "contact": WEIGHTS["contact"] * entropy}


def distances(network: Inbetween, body: Body, asked: Asked) -> Tensor:
    """(2, N) mean distance of all heads in the missing frames, in leg lengths: the network's, and interpolation's."""
    true = body(asked.rows)[1]
    added, _ = network(asked.told)
    every = [body(rows)[1] for rows in (asked.straight + added * asked.room, asked.straight)]
    off = torch.stack([(heads - true).norm(dim=-1).mean(dim=-1) for heads in every])
    return (off * asked.free).sum(dim=-1) / asked.free.sum(dim=-1)
