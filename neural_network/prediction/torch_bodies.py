# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies in PyTorch: rows of numbers to rotations and places of joints, with gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..core.skeleton import Skeleton

LEAST = 1e-6  # length below which a column of 6D has no direction


class Body(nn.Module):
    """Forward kinematics of one skeleton, in leg lengths."""

    def __init__(self, skeleton: Skeleton) -> None:
        super().__init__()
        self.levels = [(own.tolist(), above.tolist()) for own, above in skeleton.levels]
        offsets = torch.as_tensor(skeleton.offsets / skeleton.leg_length, dtype=torch.float32)
        self.register_buffer("offsets", offsets, persistent=False)
        self.feet = [*skeleton.feet, *skeleton.toes]

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (..., 3 + 6 J) to turns (..., J, 3, 3), each relative to its parent, and heads (..., J, 3) in leg lengths."""
        turns = matrices(rows[..., 3:].unflatten(-1, (-1, 6)))
        return turns, self.heads(turns, rows[..., :3])

    def heads(self, turns: Tensor, root: Tensor) -> Tensor:
        """Heads (..., J, 3) of turns (..., J, 3, 3) and the root's head (..., 3)."""
        joints = turns.shape[-3]
        turned: list[Tensor] = [turns[..., 0, :, :]] * joints
        heads: list[Tensor] = [root] * joints
        for own, above in self.levels:
            frames = torch.stack([turned[p] for p in above], dim=-3)
            placed = torch.stack([heads[p] for p in above], dim=-2) + (frames @ self.offsets[own][..., None])[..., 0]
            rotated = frames @ turns[..., own, :, :]
            for i, j in enumerate(own):
                turned[j], heads[j] = rotated[..., i, :, :], placed[..., i, :]
        return torch.stack(heads, dim=-2)


def matrices(six: Tensor) -> Tensor:
    """6D (..., 6) to rotation matrices (..., 3, 3), as :func:`..core.rotations.matrix_from_sixd`."""
    first, second = six[..., :3], six[..., 3:]
    first = first / first.norm(dim=-1, keepdim=True).clamp_min(LEAST)
    third = torch.linalg.cross(first, second)
    third = third / third.norm(dim=-1, keepdim=True).clamp_min(LEAST)
    return torch.stack([first, torch.linalg.cross(third, first), third], dim=-1)
