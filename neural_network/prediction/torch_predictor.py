# SPDX-License-Identifier: GPL-3.0-or-later
"""The predictors of :mod:`.predictor` in PyTorch, and the body whose states they say, with gradients."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ..core.skeleton import Skeleton
from ..learning.encoder import Design
from ..learning.torch_encoder import Encoder
from ..motion import states
from ..motion.states import FPS, GROUND, Layout
from .predictor import AHEAD, FADES
from .torch_bodies import Body, matrices

SMALL = 0.1  # of the first answers of the last layer


class Steps(nn.Module):
    """A network of one of the modes; ``rate`` is the size of each number that it says."""

    def __init__(
        self,
        mode: str,
        layout: Layout,
        design: Design,
        mean: np.ndarray,
        spread: np.ndarray,
        rate: np.ndarray,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.mode, self.layout = mode, layout
        self.encoder = Encoder(design, mean, spread, dropout)
        self.out = nn.Linear(design.width, layout.outputs)
        self.register_buffer("rate", torch.as_tensor(rate, dtype=torch.float32))
        with torch.no_grad():
            self.out.weight *= SMALL
            self.out.bias.zero_()

    def follow(self, known: Tensor) -> Tensor:
        """(N, T, S) the next state after each of (N, T, S), all of them true; of a window, after the last one alone, (N, 1, S)."""
        y = self.encoder.follow(known)
        now = known[:, -y.shape[1] :]
        return self.advance(now, self.out(y))

    def ahead(self, past: Tensor, frames: int, detached: bool = False) -> Tensor:
        """(N, frames, S) states that follow (N, T, S), each from those that were said before; ``detached``: no gradients go back
        through what was said before."""
        if self.mode == "direct":
            return self._all(past, frames)
        y, memory = self.encoder.start(past)
        now, made = past[:, -1], []
        for frame in range(frames):
            if frame:
                y, memory = self.encoder.step(now.detach() if detached else now, memory)
            now = self.advance(now.detach() if detached else now, self.out(y))
            made.append(now)
        return torch.stack(made, dim=1)

    def _all(self, past: Tensor, frames: int) -> Tensor:
        said = self.out(self.encoder.ahead(past, AHEAD))[:, :frames]
        own, last = self.layout, past[:, -1:]
        if not own.follows:
            return last + torch.cumsum(said * self.rate, dim=1)
        some = slice(own.places, own.places + own.speeds)
        middle, spread = self.encoder.mean[some], self.encoder.spread[some]
        fading = torch.exp(-torch.arange(frames, device=past.device) / FADES)[:, None]
        speeds = middle + fading * (last[..., some] - middle) + said[..., : own.speeds] * spread
        places = last[..., : own.places] + torch.cumsum(speeds[..., GROUND:], dim=1) / FPS
        return torch.cat([places, speeds, torch.sigmoid(said[..., own.speeds :])], dim=-1)

    def advance(self, now: Tensor, said: Tensor) -> Tensor:
        """As :func:`.predictor.advance`, (..., S)."""
        own = self.layout
        if not own.follows:
            return now + said * self.rate
        p, v = own.places, own.speeds
        speeds = now[..., p : p + v] + said[..., :v] * self.rate
        places = now[..., :p] + speeds[..., GROUND:] / FPS
        return torch.cat([places, speeds, torch.sigmoid(said[..., v:])], dim=-1)


class Posed(nn.Module):
    """States to places of joints, in leg lengths."""

    def __init__(self, layout: Layout, skeleton: Skeleton) -> None:
        super().__init__()
        self.layout, self.body, self.leg = layout, Body(skeleton), skeleton.leg_length

    def forward(self, found: Tensor, chained: bool) -> Tensor:
        """(N, T, J, 3) heads of states (N, T, S); ``chained``: they follow one another and a frame at the origin that looks along
        heading 0; else each is seen from where it stands and looks."""
        own = self.layout
        if not own.follows:
            turns, root = self._dofs(found[..., : own.places])
            return self.body.heads(turns, root / self.leg)
        turns = matrices(found[..., 1 : own.places].unflatten(-1, (-1, 6)))
        root = found[..., :1]
        ground = torch.zeros_like(found[..., :2])
        if chained:
            speeds = found[..., own.places : own.places + GROUND] / FPS
            heading = torch.cumsum(speeds[..., 2], dim=1)
            before = heading - speeds[..., 2]
            cosine, sine = torch.cos(before), torch.sin(before)
            x, y = speeds[..., 0], speeds[..., 1]
            ground = torch.cumsum(torch.stack([cosine * x - sine * y, sine * x + cosine * y], dim=-1), dim=1)
            hips = yaw(heading) @ turns[..., 0, :, :]
            turns = torch.cat([hips[..., None, :, :], turns[..., 1:, :, :]], dim=-3)
        return self.body.heads(turns, torch.cat([ground, root], dim=-1))

    def _dofs(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """As :func:`..motion.states.dof_motion`."""
        joints = len(self.body.offsets)
        vectors = places.new_zeros(*places.shape[:-1], joints, 3)
        vectors[..., 0, :] = places[..., 3:6]
        at = 6
        for bone, _, axis in states.HINGES:
            vectors[..., bone, axis] = places[..., at]
            at += 1
        free = len(states.FREE) * 3
        vectors[..., list(states.FREE), :] = places[..., at : at + free].unflatten(-1, (-1, 3))
        for i, bone in enumerate(states.TOES):
            for k, axis in enumerate(states.TOE_AXES):
                vectors[..., bone, axis] = places[..., at + free + 2 * i + k]
        return turned(vectors), places[..., :3]


def yaw(angle: Tensor) -> Tensor:
    """Rotations (..., 3, 3) about +Z."""
    c, s, o = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
    return torch.stack([c, -s, o, s, c, o, o, o, o + 1], dim=-1).unflatten(-1, (3, 3))


def turned(vectors: Tensor) -> Tensor:
    """Axis-angles (..., 3) to rotation matrices (..., 3, 3), by Rodrigues' formula."""
    square = (vectors * vectors).sum(dim=-1, keepdim=True).clamp_min(1e-12)
    angle = square.sqrt()
    s, c = (torch.sin(angle) / angle)[..., None], ((1 - torch.cos(angle)) / square)[..., None]
    x, y, z = vectors.unbind(dim=-1)
    o = torch.zeros_like(x)
    cross = torch.stack([o, -z, y, z, o, -x, -y, x, o], dim=-1).unflatten(-1, (3, 3))
    return torch.eye(3, dtype=vectors.dtype, device=vectors.device) + s * cross + c * (cross @ cross)
