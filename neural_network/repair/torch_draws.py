# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples to learn repairs from, drawn where the network learns: windows of clean motion, varied, corrupted by chance, and seen.

The corruptions are those of :mod:`.corruption`, and what networks see is that of :mod:`.inputs`, both for N windows at once.
Windows are at most T frames long; a shorter one ends after ``length`` (N) frames, and what comes after it does not count.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..core import rotations
from ..core.contacts import GROUND, TRUTH
from ..core.skeleton import Skeleton, mirrored_bones
from . import correction, corruption, inputs, rooting
from .corruption import KEPT, KINDS, SHARES, SLOW, WIDTH
from .draws import COLLARS, Take
from .inputs import MOST, PART, PARTS, PHYSICS, SIZES, STARTS, WIDTHS
from .network import QUICK
from .plain import analytic
from .torch_body import LOWER, Body, inverse, matrices, product, times, turning, unit, vectors_of

RATE = 30.0
FRAMES = 160
"""Of a window."""
CLEAN, ONE = 0.15, 0.3
"""Shares of windows that stay as they are, and that have a single corruption; the others are mixed."""
RATES = (0.8, 1.25)
"""Half of the windows go slower or faster."""
OTHER_BODIES = 0.5
"""Share of windows on a body of other lengths."""
LENGTHS = (0.8, 1.2)
"""Factors of those lengths."""
OTHER_POSTURES = 0.5
"""Share of windows in which each bone of the upper body is held a little otherwise, and moves more or less."""
POSTURE, PELVIS = 3.0, 4.0  # [deg] standard deviations
MOVES = (0.75, 1.3)

Batch = dict[str, Tensor]


class Store(torch.nn.Module):
    """Clean takes on one body, one after the other."""

    def __init__(self, skeleton: Skeleton, takes: Sequence[Take], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        quaternions = [rotations.continuous_quaternions(rotations.quaternion_from_matrix(t.turns)) for t in takes]
        length = np.array([len(t.root) for t in takes])
        chance = np.sqrt(length) * (1.0 if weights is None else np.asarray(weights))
        flat = {
            "turns": np.concatenate(quaternions).astype(np.float32),
            "root": np.concatenate([t.root - t.root[0] * [1, 1, 0] for t in takes]).astype(np.float32),
            "first": np.cumsum(np.r_[0, length[:-1]]),
            "length": length,
            "chance": (chance / chance.sum()).astype(np.float32),
            "partner": mirrored_bones(skeleton),
            "still": np.array([skeleton.names.index(name) for name in COLLARS]),
            "upper": np.array(
                [
                    j for j, name in enumerate(skeleton.names)
                    if j and not any(part in name for part in ("Thigh", "Shin", "Foot", "Toe", "Shoulder"))
                ]
            ),
            "hung": np.flatnonzero(skeleton.parents == 0),
        }  # fmt: skip
        for name, values in flat.items():
            self.register_buffer(name, torch.as_tensor(values))


@dataclass(frozen=True)
class Motion:
    """N windows."""

    turns: Tensor
    """(N, T, J, 4) local core rotations, quaternions."""
    root: Tensor
    """(N, T, 3) [m]."""
    length: Tensor
    """(N) frames that there are."""


def uniform(least: float, most: float, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Chance between two numbers."""
    return least + (most - least) * torch.rand(*shape, generator=generator, device=generator.device)


def normal(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Normal numbers."""
    return torch.randn(*shape, generator=generator, device=generator.device)


# ---------------------------------------------------------------- along time


def rows(motion: Motion, at: Tensor) -> Motion:
    """The frames ``at`` (N, T) of each window."""
    there = at[..., None]
    turns = torch.gather(motion.turns, 1, there[..., None].expand(-1, -1, *motion.turns.shape[2:]))
    return Motion(turns, torch.gather(motion.root, 1, there.expand(-1, -1, 3)), motion.length)


def neighbours(values: Tensor, length: Tensor, by: int) -> Tensor:
    """Values (N, T, ...) ``by`` frames later, held at both ends."""
    time = torch.arange(values.shape[1], device=values.device)
    at = torch.minimum((time + by).clamp(min=0)[None], (length - 1)[:, None])
    return torch.gather(values, 1, at.reshape(*at.shape, *[1] * (values.ndim - 2)).expand_as(values))


def rates(values: Tensor, length: Tensor) -> Tensor:
    """Central differences (N, T, ...) a second, one-sided at the ends."""
    time = torch.arange(values.shape[1], device=values.device)[None]
    last = (length - 1)[:, None]
    steps = (torch.minimum(time + 1, last) - (time - 1).clamp(min=0)).clamp(min=1)
    steps = steps.reshape(*steps.shape, *[1] * (values.ndim - 2))
    return (neighbours(values, length, 1) - neighbours(values, length, -1)) / steps * RATE


def blurs(widths: Tensor, length: Tensor, frames: int, most: float) -> Tensor:
    """(N, T, T) what smooths windows by Gaussians of ``widths`` (N), at most ``most`` [frames], ends held: :func:`.corruption.gaussian`."""
    reach = math.ceil(4 * most)
    time = torch.arange(frames, device=widths.device)
    wide = torch.arange(-reach, frames + reach, device=widths.device)
    away = (wide[None] - time[:, None]).float()
    width = widths[:, None, None]
    kernel = torch.exp(-0.5 * (away / width) ** 2) * (away.abs() <= torch.ceil(4 * width))
    kernel = kernel / kernel.sum(-1, keepdim=True)
    at = torch.minimum(wide.clamp(min=0)[None], (length - 1)[:, None])[:, None].expand_as(kernel)
    return torch.zeros(len(widths), frames, frames, device=widths.device).scatter_add_(2, at, kernel)


def blur(width: float, length: Tensor, frames: int) -> Tensor:
    """(N, T, T) of one width for all windows."""
    return blurs(torch.full((len(length),), width, device=length.device), length, frames, width)


def blurred(motion: Motion, by: Tensor) -> tuple[Tensor, Tensor]:
    """Turns and root of the motion smoothed by (N, T, T)."""
    turns = unit((by @ motion.turns.flatten(2)).unflatten(2, motion.turns.shape[2:]))
    return turns, by @ motion.root


def slow(count: int, frames: int, wide: int, generator: torch.Generator) -> Tensor:
    """(N, T, wide) chance that changes slowly, of deviation 1."""
    reach = int(4 * SLOW)
    away = torch.arange(-reach, reach + 1, device=generator.device) / SLOW
    kernel = torch.exp(-0.5 * away**2)
    kernel = kernel / kernel.sum() * math.sqrt(2 * math.sqrt(math.pi) * SLOW)
    noise = normal((count * wide, 1, frames + 2 * reach), generator)
    return torch.nn.functional.conv1d(noise, kernel[None, None]).reshape(count, wide, frames).transpose(1, 2)


def between(low: Tensor, high: Tensor, share: Tensor) -> Tensor:
    """Quaternions (..., 4) a share (..., 1) of the shortest way from one to another."""
    return product(low, turning(vectors_of(product(inverse(low), high)) * share))


# ---------------------------------------------------------------- clean motion


def windows(
    store: Store,
    count: int,
    generator: torch.Generator,
    frames: int = FRAMES,
    varied: bool = True,
    bodies: float = OTHER_BODIES,
) -> tuple[Motion, Tensor]:
    """Windows of takes, mirrored or not, and lengths (N, 3) of the bodies; ``varied``: slower or faster, in other postures, and
    a share ``bodies`` in other lengths."""
    take = torch.multinomial(store.chance, count, True, generator=generator)
    other = uniform(0, 1, (count,), generator) < (0.5 if varied else 0)
    rate = torch.where(other, uniform(*RATES, (count,), generator), 1.0)
    there = store.length[take]
    whole = torch.floor((there - 1) / rate).long() + 1
    length = whole.clamp(max=frames)
    spare = (there - 1 - (length - 1) * rate).clamp(min=0)
    begin = torch.floor(uniform(0, 1, (count,), generator) * (spare + 1)).clamp(max=spare.floor())
    time = torch.arange(frames, device=rate.device)[None].clamp(max=frames)
    time = begin[:, None] + torch.minimum(time, (length - 1)[:, None]) * rate[:, None]
    low = torch.minimum(time.floor().long(), (there - 1)[:, None])
    high = torch.minimum(low + 1, (there - 1)[:, None])
    share = (time - low)[..., None]
    at, then = store.first[take][:, None] + low, store.first[take][:, None] + high
    turns = between(store.turns[at], store.turns[then], share[..., None])
    root = store.root[at] + share * (store.root[then] - store.root[at])
    root = root - torch.cat([root[:, :1, :2], torch.zeros_like(root[:, :1, 2:])], -1)
    flip = (uniform(0, 1, (count,), generator) < 0.5)[:, None, None]
    other = turns[:, :, store.partner] * torch.tensor([1.0, 1, -1, -1], device=rate.device)
    turns = torch.where(flip[..., None], other, turns)
    root = torch.where(flip, root * torch.tensor([-1.0, 1, 1], device=rate.device), root)
    if varied:
        turns = postures(store, turns, length, generator)
    scaled = (uniform(0, 1, (count, 1), generator) < (bodies if varied else 0)).float()
    lengths = 1 + scaled * (uniform(*LENGTHS, (count, 3), generator) - 1)
    return Motion(turns, root * lengths[:, None, LOWER, None], length), lengths


def postures(store: Store, turns: Tensor, length: Tensor, generator: torch.Generator) -> Tensor:
    """Turns whose upper body is held otherwise and moves more or less, and whose Hips tilt otherwise above legs that do as before."""
    count, frames = turns.shape[:2]
    there = (torch.arange(frames, device=turns.device)[None] < length[:, None]).float()[..., None, None]
    wanted = (uniform(0, 1, (count, 1, 1, 1), generator) < OTHER_POSTURES).float()
    upper = turns[:, :, store.upper]
    mean = unit((upper * there).sum(1, keepdim=True))
    more = 1 + wanted * (uniform(*MOVES, (count, 1, len(store.upper), 1), generator) - 1)
    upper = product(mean, turning(vectors_of(product(inverse(mean), upper)) * more))
    held = math.radians(POSTURE) * normal((count, 1, len(store.upper), 3), generator)
    upper = product(upper, turning(wanted * held))
    tilt = turning(wanted * math.radians(PELVIS) * normal((count, 1, 1, 3), generator))
    out = turns.clone()
    out[:, :, store.upper] = upper
    out[:, :, store.hung] = product(inverse(tilt), out[:, :, store.hung])
    out[:, :, :1] = product(out[:, :, :1], tilt)
    return out


# ---------------------------------------------------------------- corrupt motion


def kinds(count: int, generator: torch.Generator) -> Tensor:
    """(N, 6) bool what goes wrong with each window."""
    mixed = uniform(0, 1, (count, len(KINDS)), generator) < torch.tensor(SHARES, device=generator.device)
    single = torch.randint(len(KINDS), (count,), generator=generator, device=generator.device)
    alone = torch.nn.functional.one_hot(single, len(KINDS)).bool()
    dice = uniform(0, 1, (count, 1), generator)
    return torch.where(dice > CLEAN + ONE, mixed, alone & (dice > CLEAN))


def corrupted(store: Store, motion: Motion, which: Tensor, generator: torch.Generator) -> Motion:
    """The motion with the corruptions ``which`` (N, 6), one after the other."""
    turns, root = motion.turns, motion.root
    count, frames, bones = turns.shape[:3]
    time = torch.arange(frames, device=root.device)
    drift, speed, floor, noise, smooth, _ = which.float()[..., None, None].unbind(1)
    way = time[None, :, None] / RATE * uniform(-corruption.DRIFT, corruption.DRIFT, (count, 1, 2), generator)
    way = drift * (way + corruption.WANDER * slow(count, frames, 2, generator))
    lift = floor * uniform(-corruption.FLOOR, corruption.FLOOR, (count, 1, 1), generator)
    level = root[..., :2] + way
    level = level + speed * (uniform(*corruption.SPEED, (count, 1, 1), generator) - 1) * (level - level[:, :1])
    root = torch.cat([level, root[..., 2:] + lift], -1)
    white = uniform(0, corruption.WHITE, (count, 1, 1), generator) * normal((count, frames, 3 * bones), generator)
    trend = uniform(0, corruption.TREND, (count, 1, 1), generator) * slow(count, frames, 3 * bones, generator)
    by = (noise * (white + trend) * (math.pi / 180)).unflatten(-1, (bones, 3))
    by[:, :, store.still] = 0
    turns = product(turns, turning(by))
    width = uniform(*WIDTH, (count,), generator)
    steady = blurred(Motion(turns, root, motion.length), blurs(width, motion.length, frames, WIDTH[1]))
    turns = torch.where(smooth[..., None] > 0, steady[0], turns)
    root = torch.where(smooth > 0, steady[1], root)
    step = torch.randint(KEPT[0], KEPT[1] + 1, (count, 1), generator=generator, device=root.device)
    step = torch.where(which[:, -1:], step, 1)
    kept = time[None] // step * step
    last = (motion.length[:, None] - 1) // step * step
    following = torch.minimum(kept + step, last)
    kept = torch.minimum(kept, torch.maximum(last, torch.zeros_like(last)))
    share = ((time[None] - kept) / step * (following > kept))[..., None]
    share = share * (uniform(0, 1, (count, 1, 1), generator) < 0.5)
    here, there = (rows(Motion(turns, root, motion.length), at) for at in (kept, following))
    root = here.root + share * (there.root - here.root)
    return Motion(between(here.turns, there.turns, share[..., None]), root, motion.length)


# ---------------------------------------------------------------- what is seen, and what is right


def headings(turns: Tensor) -> Tensor:
    """(N, T, 2, 2) level axes of the heading, as columns; of a body on its side those of the little that is level."""
    left = matrices(turns[:, :, 0])[..., :2, 0]
    left = unit(left + 1e-6)
    return torch.stack([left, torch.stack([-left[..., 1], left[..., 0]], -1)], -1)


def into(level: Tensor, vectors: Tensor) -> Tensor:
    """Vectors (N, T, ..., 2 or 3) in level axes (N, T, 2, 2)."""
    axes = level.reshape(*level.shape[:2], *[1] * (vectors.ndim - 3), 2, 2)
    flat = times(axes.transpose(-1, -2), vectors[..., :2, None])[..., 0]
    return torch.cat([flat, vectors[..., 2:]], -1)


def moving(level: Tensor, move: Tensor, length: Tensor) -> Tensor:
    """(N, T, 2) [m/s] at which moves (N, T, 2 or 3) change: :func:`.correction.velocity_of`."""
    return into(level, (neighbours(move, length, 1) - move)[..., :2] * RATE)


def seen(body: Body, motion: Motion, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, T, SEEN), (N, T, widths, 72) and (N, T, ASKED) of :class:`.inputs.Seen`."""
    turns, root, length = motion.turns, motion.root, motion.length
    count, frames = turns.shape[:2]
    leg = (body.leg * lengths[:, LOWER])[:, None, None]
    turned = matrices(turns)
    heads, points = body(turned, lengths)
    flat = points.flatten(2, 3) + root[:, :, None]
    level = headings(turns)
    local = turned.clone()
    hips = turned[:, :, 0]
    local[:, :, 0] = torch.cat([times(level.transpose(-1, -2), hips[..., :2, :]), hips[..., 2:, :]], -2)
    lowest = foot_heights(body, heads, root, lengths)[0].amin(-1)
    floor = percentile(lowest, length, GROUND.percentile)
    spin = rotation_rate(hips, turns[:, :, 0], length)
    smooth, steady = smoothings(motion, level)
    model, rest, height, alike = standing(body, steady, lengths)
    asked = torch.cat([into(level, model), into(level, rest), -height[:, None, None].expand(-1, frames, 1)], -1)
    each = torch.zeros(count, frames, len(WIDTHS), PARTS, device=root.device)
    part = torch.as_tensor(np.repeat(np.arange(PARTS), np.diff([*STARTS, smooth.shape[-1]])), device=root.device)
    each.index_add_(-1, part, smooth**2)
    sizes = torch.sqrt(each) / torch.as_tensor(SIZES, dtype=torch.float32, device=root.device)
    numbers = torch.cat(
        [
            torch.log1p(sizes).clamp(max=3).flatten(2),
            torch.cat([local[..., 0], local[..., 1]], -1).flatten(2),
            into(level, heads[:, :, 1:]).flatten(2) / leg,
            5 * flat[..., 2] / leg,
            into(level, rates(flat, length)).flatten(2) / leg,
            5 * (flat[..., 2] - floor[:, None, None]) / leg,
            root[..., 2:] / leg,
            into(level, rates(root, length)) / leg,
            spin[..., 2:],
            asked * torch.tensor([2.0, 2, 2, 2, 10], device=root.device),
            alike[:, None].expand(-1, frames, 3),
        ],
        -1,
    )
    return numbers.clamp(-MOST, MOST), smooth, asked


def smoothings(motion: Motion, level: Tensor) -> tuple[Tensor, Motion]:
    """(N, T, widths, 72) what leads to the motion smoothed by each width, and the least smoothed motion."""
    frames = motion.root.shape[1]
    out, steady = [], motion
    for width in WIDTHS:
        turns, root = blurred(motion, blur(width, motion.length, frames))
        if width == WIDTHS[0]:
            steady = Motion(turns, root, motion.length)
        by = vectors_of(product(inverse(motion.turns), turns))
        move = root - motion.root
        out.append(torch.cat([by.flatten(2), moving(level, move, motion.length), move[..., 2:]], -1))
    return torch.stack(out, 2), steady


def standing(body: Body, motion: Motion, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What :func:`.rooting.standing` says: velocities (N, T, 2) [m/s] of the model and of the rest, heights (N) [m], and (N, 3) 5
    times the factor, 10 times the noise, and how many feet seem to stand."""
    root, length, frames = motion.root, motion.length, motion.root.shape[1]
    heads, points = body(matrices(motion.turns), lengths)
    points = points + root[:, :, None, None]
    height = foot_heights(body, heads, root, lengths)[0]
    ground = percentile(height.amin(-1), length, GROUND.percentile)[:, None, None]
    speed = rates(points, length).norm(dim=-1).amin(-1)
    there = (torch.arange(frames, device=root.device)[None] < length[:, None]).float()
    weight = torch.exp(-(((height - ground).clamp(min=0) / rooting.SEEMS[0]) ** 2) - (speed / rooting.SEEMS[1]) ** 2)
    weight = weight * there[..., None]
    ways = (neighbours(points[..., 1, :2], length, 1) - points[..., 1, :2]) * RATE
    pair = torch.nn.functional.pad(there[:, 1:], (0, 1))[..., None]
    both = torch.sqrt(weight * neighbours(weight, length, 1)) * pair
    count = both.sum(-1)
    wanted = -(ways * both[..., None]).sum(2) / count.clamp(min=1e-6)[..., None]
    model, rest, factor, noise = fitted(root, wanted, count, length)
    low = (points[..., 2].amin(-1) * weight).sum((1, 2)) / weight.sum((1, 2)).clamp(min=1e-6)
    mean = weight.sum((1, 2)) / length
    return model, rest, low, torch.stack([5 * factor, 10 * noise, mean], -1)


def fitted(root: Tensor, wanted: Tensor, weight: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`.rooting.fitted` of N windows: model and rest (N, T, 2) [m/s], factors (N), noise (N) [m/s]."""
    frames = root.shape[1]
    enough = (weight.sum(1) >= rooting.FEWEST).float()
    own = (neighbours(root[..., :2], length, 1) - root[..., :2]) * RATE
    own = blur(2.0, length, frames) @ own
    one, none = torch.ones_like(own[..., :1]), torch.zeros_like(own[..., :1])
    rows_ = torch.stack([torch.cat([one, none, own[..., :1]], -1), torch.cat([none, one, own[..., 1:]], -1)], 2)
    likely = torch.tensor([rooting.LIKELY[0], rooting.LIKELY[0], rooting.LIKELY[1]], device=root.device) ** -2.0
    robust, noise = torch.ones_like(weight), torch.full_like(enough, rooting.TYPICAL**2)
    found = torch.zeros(len(root), 3, device=root.device)
    total = weight.sum(1).clamp(min=1e-6)
    for _ in range(rooting.ROUNDS):
        w = (weight * robust)[..., None, None]
        keep = torch.diag_embed(likely * noise[:, None] * rooting.ALIKE + rooting.LEAST)
        left = (rows_ * w).flatten(1, 2).transpose(1, 2) @ rows_.flatten(1, 2) + keep
        right = ((rows_ * w) * wanted[..., None]).sum((1, 2))
        found = torch.linalg.solve(left, right)
        off = (wanted - (rows_ * found[:, None, None]).sum(-1)).norm(dim=-1)
        robust = rooting.TYPICAL / off.clamp(min=rooting.TYPICAL)
        noise = (weight * robust * off**2).sum(1) / (2 * total)
    model = (rows_ * found[:, None, None]).sum(-1)
    slowly = blur(rooting.SLOW, length, frames)
    w = (weight * robust)[..., None]
    rest = slowly @ ((wanted - model) * w)
    rest = rest / (slowly @ w + rooting.TRUST / (math.sqrt(2 * math.pi) * rooting.SLOW))
    model, rest = model * enough[:, None, None], rest * enough[:, None, None]
    return model, rest, found[:, 2] * enough, torch.sqrt(noise) * enough


def rotation_rate(hips: Tensor, turns: Tensor, length: Tensor) -> Tensor:
    """(N, T, 3) [rad/s] angular velocity of the Hips, in core axes, of the way to the next frame; the last has the one before it."""
    after = neighbours(turns, length, 1)
    out = vectors_of(product(after, inverse(turns))) * RATE
    before = neighbours(out, length, -1)
    last = torch.arange(turns.shape[1], device=turns.device)[None] >= (length - 1)[:, None]
    return torch.where(last[..., None], before, out)


def percentile(values: Tensor, length: Tensor, percent: float) -> Tensor:
    """(N) of the values (N, T) that there are."""
    there = torch.arange(values.shape[1], device=values.device)[None] < length[:, None]
    ordered = torch.where(there, values, torch.inf).sort(dim=1).values
    at = (length - 1) * (percent / 100)
    low = at.floor().long()[:, None]
    pair = [ordered.gather(1, torch.minimum(i, (length - 1)[:, None]))[:, 0] for i in (low, low + 1)]
    return pair[0] + (at - at.floor()) * (pair[1] - pair[0])


def foot_heights(body: Body, heads: Tensor, root: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, T, feet) [m] heights above rest of the lower of ankle and toe, whether that is the toe, and its place (N, T, feet, 3)."""
    place = heads + root[:, :, None]
    ankles, toes = place[:, :, body.bones[:, 0]], place[:, :, body.bones[:, 1]]
    rest = body.foot_rest * lengths[:, None, LOWER, None, None]
    high, higher = ankles[..., 2] - rest[..., 0], toes[..., 2] - rest[..., 1]
    toe = higher < high
    return torch.minimum(high, higher), toe, torch.where(toe[..., None], toes, ankles)


def true_contacts(body: Body, motion: Motion, lengths: Tensor) -> Tensor:
    """(N, T, feet) bool: the truth of :func:`.contacts.truth_contacts`, of clean motion."""
    heads, _ = body(matrices(motion.turns), lengths)
    heights, _, lower = foot_heights(body, heads, motion.root, lengths)
    ways = (neighbours(lower, motion.length, 1) - lower).norm(dim=-1) * RATE
    time = torch.arange(ways.shape[1], device=ways.device)[None, :, None]
    last = (motion.length - 1)[:, None, None]
    before = torch.where(time > 0, neighbours(ways, motion.length, -1), ways)
    after = torch.where(time < last, ways, neighbours(ways, motion.length, -1))
    inside = time <= last
    touching = (heights <= TRUTH.near) & (torch.minimum(before, after) <= TRUTH.slow) & inside

    def shifted(flags: Tensor, by: int) -> Tensor:
        out = torch.roll(flags, -by, 1)
        return out & (time + by >= 0) & (time + by < flags.shape[1])

    touching = touching | (shifted(touching, -1) & shifted(touching, 1))
    whole = touching.clone()
    for by in range(1, TRUTH.shortest):
        whole &= shifted(touching, by)
    out = whole.clone()
    for by in range(1, TRUTH.shortest):
        out |= shifted(whole, -by)
    return out


def batch(
    store: Store,
    body: Body,
    count: int,
    generator: torch.Generator,
    frames: int = FRAMES,
    varied: bool = True,
    bodies: float = OTHER_BODIES,
) -> Batch:
    """``count`` windows as tensors (count, frames, ...); ``mask`` (count, frames) is 0 after the end of one. See :func:`windows`."""
    clean, lengths = windows(store, count, generator, frames, varied, bodies)
    which = kinds(count, generator)
    bad = corrupted(store, clean, which, generator)
    numbers, smooth, asked = seen(body, bad, lengths)
    level, move = headings(bad.turns), clean.root - bad.root
    there = torch.arange(frames, device=numbers.device)[None] < clean.length[:, None]
    return {
        "numbers": numbers,
        "smooth": smooth,
        "asked": asked,
        "slow": blur(QUICK, clean.length, frames),
        "turns": bad.turns,
        "root": bad.root,
        "by": vectors_of(product(inverse(bad.turns), clean.turns)),
        "velocity": moving(level, move, clean.length),
        "height": move[..., 2],
        "contact": true_contacts(body, clean, lengths).float(),
        "kinds": which.float(),
        "mask": there.float(),
        "lengths": lengths,
        "level": level,
    }


# ---------------------------------------------------------------- what the gate sees beside it


def joined(batches: Sequence[Batch]) -> Batch:
    """One batch of several."""
    return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}


def with_plain(skeleton: Skeleton, batch: Batch, jobs: int) -> Batch:
    """The batch with ``physics`` (N, T, 64) and ``plain`` (N, T, 72): what the plain method makes of each window, by processes.

    They are of the skeleton's own lengths, whatever the windows' are: relative to them the motion is almost the same.
    """
    lengths, scaled = batch["mask"].sum(1).long().tolist(), batch["lengths"][:, None, LOWER, None]
    turns, root = (values.cpu().numpy() for values in (matrices(batch["turns"]), batch["root"] / scaled))
    work = [(skeleton, t[:n], r[:n]) for t, r, n in zip(turns, root, lengths, strict=True)]
    with multiprocessing.get_context("spawn").Pool(jobs) as processes:
        made = processes.map(_plain, work, chunksize=16)
    physics, plain = (torch.zeros(*batch["mask"].shape, wide) for wide in (PHYSICS, len(PART)))
    for k, (state, numbers) in enumerate(made):
        physics[k, : len(state)], plain[k, : len(state)] = torch.from_numpy(state), torch.from_numpy(numbers)
    plain = plain.to(scaled.device)
    plain[..., -3:] *= scaled
    return {**batch, "physics": physics.to(scaled.device), "plain": plain}


def _plain(given: tuple[Skeleton, np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    skeleton, turns, root = given
    turns, root = turns.astype(np.float64), root.astype(np.float64)
    fixed = correction.between(turns, root, *analytic(skeleton, turns, root, RATE))
    return inputs.seen(skeleton, turns, root).physics, correction.numbers_of(fixed).astype(np.float32)
