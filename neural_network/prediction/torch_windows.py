# SPDX-License-Identifier: GPL-3.0-or-later
"""Gaps drawn from whole takes in PyTorch, on the device where the network learns, as many as wanted and never the same ones.

All gaps of a batch have as many frames, but each knows another number of them before and after what is missing. A window is played
a little slower or faster, mirrored or not, and done as somebody else might do it: every joint a little off and moving more or less,
steps longer or shorter, on a way that bends. :func:`seen` makes of it what ``gaps`` makes in NumPy: the same places to look from,
interpolation, clock and room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..core import contacts
from ..core import forward_kinematics as fk
from ..core.skeleton import Skeleton
from ..motion import features
from . import gaps, library
from .gaps import FAR, HISTORY, SOON, WAVES
from .library import Take
from .torch_bodies import matrices, product

SHORTEST = 4
LENGTHS = (5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 62, 78, 97)
"""Frames from key to key where ten are known before and one after; where fewer or more are known, gaps are up to nine longer or
shorter, from :data:`SHORTEST` on. Longer gaps are filled, but nobody has measured how well."""
ALL_BEFORE, ONE_BEFORE, ONE_AFTER = 0.5, 0.15, 0.6  # shares of gaps that know ten frames before, or one; one after
RATES = 0.8, 1.25  # takes are played slower or faster by a factor between these


@dataclass(frozen=True)
class Variety:
    """How much the people differ that windows are made of; 0 throughout: as they were captured."""

    off: float = 7.0
    """[degrees] by which every joint is turned, all frames alike; the standard deviation, as all of these."""
    wider: float = 0.2
    """By which share of its movement a joint moves more or less."""
    stride: float = 0.2
    """By which share legs move more or less, all alike, and the body travels."""
    bend: float = 30.0
    """[degrees a second] by which a way bends."""
    taller: float = 0.03
    """[leg lengths] by which the Hips are higher or lower."""


@dataclass(frozen=True)
class Asked:
    """Gaps of as many frames each, seen from their last frames known before; (N) gaps, (F) frames, (R) numbers of a row."""

    told: Tensor
    """(N, F, T) see :func:`.gaps.told`."""
    straight: Tensor
    """(N, F, R) interpolation; known rows are the known ones."""
    room: Tensor
    """(N, F, R) see :func:`.gaps.room`."""
    free: Tensor
    """(N, F) 1 for frames that are missing, else 0."""
    rows: Tensor
    """(N, F, R) the true motion."""
    contact: Tensor
    """(N, F, feet) 1 for feet that truly stand, else 0."""


class Takes:
    """Takes on a device, from which windows are drawn."""

    def __init__(self, body: Skeleton, takes: Sequence[Take], device: torch.device) -> None:
        parts, feet = [], []
        rest = body.foot_rest - body.floor
        for take in takes:
            turns, root = library.at_rate(take)
            for own in ((turns, root), features.mirrored(body, turns, root)):
                heads = fk.walk(body.parents, own[0], body.offsets, own[1])[1]
                parts.append(features.to_rows(*own, body.leg_length))
                feet.append(contacts.truth_contacts(heads[:, list(body.feet)], heads[:, list(body.toes)], rest))
        left = np.concatenate([np.arange(len(part))[::-1] for part in parts])
        order = np.argsort(-left, kind="stable")
        self.rows = torch.as_tensor(np.concatenate(parts), dtype=torch.float32, device=device)
        self.contact = torch.as_tensor(np.concatenate(feet), dtype=torch.float32, device=device)
        self.left = torch.as_tensor(left, device=device)
        self.order = torch.as_tensor(order, device=device)
        self.falling = left[order]  # on the processor: how many frames have so many after them is asked at every step
        legs = {*(bone for leg in body.legs for bone in leg), *body.toes}
        self.legs = torch.tensor([j in legs for j in range(body.count)], device=device)
        self.longest = int(left.max())

    def windows(self, count: int, frames: int, variety: Variety, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """``count`` windows of ``frames`` frames: rows (N, F, R) and contacts (N, F, feet)."""
        device = self.rows.device

        def even(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, device=device)

        slowest = min(RATES[0], (self.longest - 1) / (frames - 1))
        usable = int(np.searchsorted(-self.falling, -(slowest * (frames - 1) + 1), side="right"))
        begin = self.order[(even(count) * usable).long()]
        rate = slowest * (RATES[1] / slowest) ** even(count)
        rate = torch.minimum(rate, (self.left[begin] - 1).clamp_min(1) / (frames - 1))
        times = even(count, 1) + rate[:, None] * torch.arange(frames, device=device)
        low = begin[:, None] + times.long().clamp_max(self.longest)
        part = (times - times.floor())[..., None]
        rows = torch.lerp(self.rows[low], self.rows[low + 1], part)
        contact = self.contact[low + (part[..., 0] > 0.5)]
        return self.another_way(rows, variety, generator), contact

    def another_way(self, rows: Tensor, variety: Variety, generator: torch.Generator) -> Tensor:
        """Rows (N, F, R) as other people might do them."""
        count, frames, width = rows.shape
        joints = width // 6

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, device=rows.device)

        stride = 1 + variety.stride * normal(count, 1)
        six = rows[..., 3:].unflatten(-1, (joints, 6))
        wider = 1 + variety.wider * normal(count, joints)
        wider = torch.where(self.legs, (1 + 0.5 * (wider - 1)) * stride, wider)
        wider[:, 0] = 1
        mean = six.mean(dim=1, keepdim=True)
        turns = matrices(mean + wider[:, None, :, None] * (six - mean))
        off = rotations(np.radians(variety.off) * normal(count, 1, joints, 3))
        off[:, :, 0] = torch.eye(3, device=rows.device)
        turns = product(turns, off)
        bend = np.radians(variety.bend) / library.FPS * normal(count, 1)
        way = yaw(bend * torch.arange(frames, device=rows.device))  # (N, F, 3, 3)
        turns = torch.cat([product(way, turns[:, :, 0])[:, :, None], turns[:, :, 1:]], dim=2)
        steps = rows[:, 1:, :2] - rows[:, :-1, :2]
        steps = (way[:, :-1, :2, :2] * steps[..., None, :]).sum(dim=-1) * stride[..., None]
        place = torch.cat([torch.zeros_like(steps[:, :1]), steps.cumsum(dim=1)], dim=1)
        height = rows[..., 2:3] + variety.taller * normal(count, 1, 1)
        return torch.cat([place, height, _six(turns)], dim=-1)

    def frames(self, step: int) -> int:
        """How many frames each gap of a step has."""
        usable = [n for n in LENGTHS if RATES[0] * (HISTORY + n) < self.longest] or [SHORTEST]
        return HISTORY + usable[int(np.random.default_rng(step).integers(len(usable)))]

    def gaps(self, frames: int, count: int, variety: Variety, generator: torch.Generator) -> Asked:
        """``count`` gaps of ``frames`` frames, those known included."""
        device = self.rows.device

        def numbers(least: int, most: int) -> Tensor:
            return torch.randint(least, most + 1, (count,), generator=generator, device=device)

        kind = torch.rand(count, generator=generator, device=device)
        before = torch.where(kind < ALL_BEFORE, HISTORY, torch.where(kind < ALL_BEFORE + ONE_BEFORE, 1, numbers(2, 9)))
        alone = torch.rand(count, generator=generator, device=device) < ONE_AFTER
        after = torch.where(alone, 1, numbers(2, HISTORY)).clamp_max(frames - before - SHORTEST + 1)
        return seen(*self.windows(count, frames, variety, generator), before, after.clamp_min(1))


def seen(rows: Tensor, contact: Tensor, before: Tensor, after: Tensor) -> Asked:
    """Gaps in windows (N, F, R), with ``before`` and ``after`` (N) known frames around what is missing."""
    count, frames, width = rows.shape
    joints = width // 6
    turns = matrices(rows[..., 3:].unflatten(-1, (joints, 6)))
    every = torch.arange(count, device=rows.device)
    a, b = before - 1, frames - after
    left = turns[every, a, 0, :2, 0]
    back = yaw(-torch.atan2(left[:, 1], left[:, 0]))[:, None]
    root = rows[..., :3] - torch.nn.functional.pad(rows[every, a, :2], (0, 1))[:, None]
    root = (back * root[..., None, :]).sum(dim=-1)
    turns = torch.cat([product(back, turns[:, :, 0])[:, :, None], turns[:, :, 1:]], dim=2)
    true = torch.cat([root, _six(turns)], dim=-1)
    time = torch.arange(frames, device=rows.device)
    known = (time <= a[:, None]) | (time >= b[:, None])
    share = ((time - a[:, None]) / (b - a)[:, None]).clamp(0, 1)[..., None]
    first, last = turns[every, a], turns[every, b]
    way = axis_angles(product(first.transpose(-1, -2), last))
    between = product(first[:, None], rotations(share[..., None] * way[:, None]))
    straight = torch.cat(
        [torch.lerp(true[every, a][:, None, :3], true[every, b][:, None, :3], share), _six(between)], dim=-1
    )
    straight = torch.where(known[..., None], true, straight)
    since, until = (time - a[:, None]).clamp_min(0).float(), (b[:, None] - time).clamp_min(0).float()
    away = torch.where(known, 0, torch.minimum(since, until))[..., None]
    room = torch.cat([(away / FAR).expand(-1, -1, 3), (1 - torch.exp(-away / SOON)).expand(-1, -1, width - 3)], dim=-1)
    clock = torch.stack([known.float(), since / 30, until / 30], dim=-1)
    angle = torch.stack([clock[..., 1:] * (wave * np.pi) for wave in WAVES.tolist()], dim=-1)  # (N, F, 2, waves)
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-3)
    steps = torch.nn.functional.pad(straight.diff(dim=1), (0, 0, 1, 0)) * gaps.QUICK
    told = torch.cat([straight, steps, clock, waves], dim=-1)
    return Asked(told, straight, room, (~known).float(), true, contact)


# ---- rotations


def _six(turns: Tensor) -> Tensor:
    """Rotation matrices (..., J, 3, 3) to 6D numbers (..., 6 J)."""
    return torch.cat([turns[..., 0], turns[..., 1]], dim=-1).flatten(-2)


def yaw(angle: Tensor) -> Tensor:
    """Rotations (..., 3, 3) about +Z by ``angle`` (...) [rad]."""
    zero, one, c, s = torch.zeros_like(angle), torch.ones_like(angle), angle.cos(), angle.sin()
    return torch.stack([c, -s, zero, s, c, zero, zero, zero, one], dim=-1).unflatten(-1, (3, 3))


def rotations(vector: Tensor) -> Tensor:
    """Axis-angles (..., 3) to rotation matrices (..., 3, 3), by Rodrigues' formula."""
    angle = vector.norm(dim=-1, keepdim=True).clamp_min(1e-8)[..., None]
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1).unflatten(-1, (3, 3))
    eye = torch.eye(3, device=vector.device, dtype=vector.dtype)
    return eye + angle.sin() / angle * cross + (1 - angle.cos()) / angle**2 * product(cross, cross)


def axis_angles(turns: Tensor) -> Tensor:
    """Rotation matrices (..., 3, 3) to axis-angles (..., 3); within a thousandth of half a turn the axis is uncertain."""
    m = turns
    vector = torch.stack(
        [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]], dim=-1
    )
    sine = vector.norm(dim=-1, keepdim=True)
    angle = torch.atan2(sine, (m.diagonal(dim1=-2, dim2=-1).sum(dim=-1) - 1)[..., None])
    return torch.where(sine > 1e-6, angle / sine.clamp_min(1e-6), 0.5) * vector
