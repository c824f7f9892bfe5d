# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies in PyTorch: rows of numbers to rotations and places of joints, with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..core.skeleton import Skeleton

LEAST = 1e-6  # length below which a column of 6D has no direction


class Body(nn.Module):
    """Forward kinematics of one skeleton, in leg lengths.

    A bone's turn in the world is the product of its own and all those above it: after k rounds, in each of which every bone takes over
    what the bone at the top of its product has, that of 2^k bones. So a few operations over all bones are enough.
    """

    def __init__(self, skeleton: Skeleton) -> None:
        super().__init__()
        count, parents = skeleton.count, skeleton.parents
        jump = np.where(parents < 0, count, parents)  # one bone more, which never turns, is above all
        jump = np.append(jump, count)
        self.rounds = 0
        above = np.eye(count)
        while (jump < count).any():
            self.register_buffer(f"jump_{self.rounds}", torch.as_tensor(jump), persistent=False)
            jump, self.rounds = jump[jump], self.rounds + 1
        for j in range(count):
            if parents[j] >= 0:
                above[j] += above[parents[j]]
        offsets = np.array(skeleton.offsets / skeleton.leg_length)
        offsets[0] = 0
        for name, value in (
            ("offsets", torch.as_tensor(offsets, dtype=torch.float32)),
            ("above", torch.as_tensor(above, dtype=torch.float32)),  # (J, J) 1 for bones above, and for itself
            ("parents", torch.as_tensor(np.maximum(parents, 0))),
            ("still", torch.eye(3)[None]),
            ("feet", torch.tensor([*skeleton.feet, *skeleton.toes])),
        ):
            self.register_buffer(name, value, persistent=False)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (..., 3 + 6 J) to turns (..., J, 3, 3), each relative to its parent, and heads (..., J, 3) in leg lengths."""
        root, six = rows.split([3, rows.shape[-1] - 3], dim=-1)
        turns = matrices(six.unflatten(-1, (-1, 6)))
        return turns, self.heads(turns, root)

    def heads(self, turns: Tensor, root: Tensor) -> Tensor:
        """Heads (..., J, 3) of turns (..., J, 3, 3) and the root's head (..., 3)."""
        joints = turns.shape[-3]
        turned = torch.cat([turns, self.still.expand(*turns.shape[:-3], 1, 3, 3)], dim=-3)
        for i in range(self.rounds):
            turned = product(turned.index_select(-3, getattr(self, f"jump_{i}")), turned)
        along = (turned.index_select(-3, self.parents) * self.offsets[:, None]).sum(
            dim=-1
        )  # (..., J, 3) from the parent's head
        return root[..., None, :] + torch.einsum("ij,...jc->...ic", self.above[:joints], along)


class _Product(torch.autograd.Function):
    """Products of 3 by 3 matrices in a few operations over all of them, forward and back."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return _times(a, b)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return _times(slope, b.transpose(-1, -2)), _times(a.transpose(-1, -2), slope)


def _times(a: Tensor, b: Tensor) -> Tensor:
    out = a[..., :, :1] * b[..., :1, :]
    for k in (1, 2):
        out = out.addcmul_(a[..., :, k : k + 1], b[..., k : k + 1, :])
    return out


def product(a: Tensor, b: Tensor) -> Tensor:
    """Products (..., 3, 3) of matrices of one shape; quicker than matmul, which is made for larger ones."""
    return _Product.apply(a, b)


def matrices(six: Tensor) -> Tensor:
    """6D (..., 6) to rotation matrices (..., 3, 3), as :func:`..core.rotations.matrix_from_sixd`."""
    first, second = six.unflatten(-1, (2, 3)).unbind(-2)
    first = first / first.norm(dim=-1, keepdim=True).clamp_min(LEAST)
    third = torch.linalg.cross(first, second)
    third = third / third.norm(dim=-1, keepdim=True).clamp_min(LEAST)
    return torch.stack([first, torch.linalg.cross(third, first), third], dim=-1)
