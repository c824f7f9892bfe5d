# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotations and bodies in PyTorch: quaternions (..., 4), and forward kinematics of the reference rig's bones in any lengths."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ..core.contacts import foot_points
from ..core.skeleton import Skeleton

# ---------------------------------------------------------------- rotations


def product(a: Tensor, b: Tensor) -> Tensor:
    """Quaternions (..., 4) that turn by b, then by a."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        -1,
    )


def inverse(q: Tensor) -> Tensor:
    """Unit quaternions (..., 4) that turn back."""
    return torch.cat([q[..., :1], -q[..., 1:]], -1)


def turning(vectors: Tensor) -> Tensor:
    """Axis-angles (..., 3) [rad] to unit quaternions (..., 4)."""
    angle = torch.sqrt((vectors * vectors).sum(-1, keepdim=True) + 1e-12)
    return torch.cat([torch.cos(angle / 2), torch.sin(angle / 2) / angle * vectors], -1)


def vectors_of(q: Tensor) -> Tensor:
    """Quaternions (..., 4) to the shortest axis-angles (..., 3) [rad]."""
    q = torch.where(q[..., :1] < 0, -q, q)
    sine = q[..., 1:].norm(dim=-1, keepdim=True)
    half = torch.atan2(sine, q[..., :1])
    return q[..., 1:] * torch.where(sine > 1e-6, 2 * half / sine.clamp(min=1e-6), 2 / q[..., :1].clamp(min=1e-6))


def matrices(q: Tensor) -> Tensor:
    """Unit quaternions (..., 4) to matrices (..., 3, 3)."""
    w, x, y, z = q.unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def unit(q: Tensor) -> Tensor:
    """Vectors (..., n) of length 1."""
    return q / q.norm(dim=-1, keepdim=True).clamp(min=1e-9)


def times(a: Tensor, b: Tensor) -> Tensor:
    """Products (..., 3, n) of many small matrices (..., 3, 3) and (..., 3, n): a sum is quicker than as many calls."""
    return (a[..., None] * b[..., None, :, :]).sum(-2)


# ---------------------------------------------------------------- bodies

LOWER, TRUNK, ARMS = range(3)
"""Groups of bones that have one length factor each: from the hips down, spine and head, arms."""


class Body(nn.Module):
    """Forward kinematics of one skeleton, with the points of its feet, in its own lengths or in others."""

    def __init__(self, skeleton: Skeleton) -> None:
        super().__init__()
        levels = [(np.flatnonzero(skeleton.parents < 0), np.zeros(0, int)), *skeleton.levels]
        order = np.concatenate([joints for joints, _ in levels])
        groups = np.full(skeleton.count, TRUNK)
        for j, name in enumerate(skeleton.names):
            below = any(part in name for part in ("Thigh", "Shin", "Foot", "Toe"))
            groups[j] = LOWER if below else ARMS if name.startswith(("Left", "Right")) else TRUNK
        above = [np.searchsorted(levels[k][0], parents) for k, (_, parents) in enumerate(levels[1:])]
        self.depth = len(levels)
        for k, (joints, _) in enumerate(levels):
            self.register_buffer(f"joints_{k}", torch.as_tensor(joints))
            if k:
                self.register_buffer(f"above_{k}", torch.as_tensor(above[k - 1]))
        self.register_buffer("back", torch.as_tensor(np.argsort(order)))
        self.register_buffer("offsets", torch.as_tensor(skeleton.offsets, dtype=torch.float32))
        self.register_buffer("groups", torch.as_tensor(groups))
        rest = skeleton.rest_core[:, :3, 3]
        points = foot_points(skeleton, np.broadcast_to(np.eye(3), (skeleton.count, 3, 3)), rest)
        bones = np.array([[f, t, t] for f, t in zip(skeleton.feet, skeleton.toes, strict=True)])
        self.register_buffer("arms", torch.as_tensor(points - rest[bones], dtype=torch.float32))
        self.register_buffer("bones", torch.as_tensor(bones))
        self.register_buffer("foot_rest", torch.as_tensor(skeleton.foot_rest, dtype=torch.float32))
        self.leg = skeleton.leg_length

    def forward(self, turns: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Local rotations (N, T, J, 3, 3) to heads (N, T, J, 3) from the root's, and points of the feet (N, T, feet, 3, 3).

        ``lengths`` (N, 3) are factors of the groups' lengths; soles are as far below the ankle as legs are long, and as long as ever.
        """
        offsets, arms = self.offsets, self.arms
        if lengths is not None:
            offsets = (offsets * lengths[:, self.groups, None])[:, None]
            arms = torch.cat(
                [
                    arms[..., :2].expand(len(lengths), -1, -1, -1),
                    arms[..., 2:] * lengths[:, None, None, LOWER, None],
                ],
                -1,
            )[:, None]
        turned = [turns[..., self.joints_0, :, :]]
        heads = [torch.zeros_like(turned[0][..., 0])]
        for k in range(1, self.depth):
            joints, above = getattr(self, f"joints_{k}"), getattr(self, f"above_{k}")
            parents = turned[-1][..., above, :, :]
            heads.append(heads[-1][..., above, :] + times(parents, offsets[..., joints, :, None])[..., 0])
            turned.append(times(parents, turns[..., joints, :, :]))
        placed, ways = torch.cat(heads, -2)[..., self.back, :], torch.cat(turned, -3)[..., self.back, :, :]
        points = placed[..., self.bones, :] + times(ways[..., self.bones, :, :], arms[..., None])[..., 0]
        return placed, points
