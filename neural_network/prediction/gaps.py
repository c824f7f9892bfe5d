# SPDX-License-Identifier: GPL-3.0-or-later
"""Gaps: what is known around frames that are to be filled, and what a network is told about them.

Gaps of one shape stand together (G on the first axis): as many frames known before, missing and known after. Everything is seen
from the last frame known before. The same functions make what a network is trained on and what it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.skeleton import Skeleton
from ..motion import features
from . import nearest
from .library import Library, numbers_of

HISTORY = 10
"""Frames known before a gap that count, at most; of those after it as many."""
GUIDES = 12
"""Windows of the library that are averaged."""
TOGETHER = 48  # windows that are bent together: more do not fit the processor's cache
TRUST = (-3.0, 4.0, 0.5), (0.0, 1.0, 0.5)
TRUST_AHEAD = (-5.0, 3.5, -0.5), (0.0, 1.0, 1.0)
"""How much the library is worth beside a straight answer, by the cost of its best window and the length of the gap; fitted to gaps of
training takes, see :func:`trust`."""
WORTH = (1.25, -0.38, -0.75), (7.0, 4.25, -2.75)
"""How much the network is worth beside the answer without it, and how much both are beside interpolation, by the cost of the library's
best window and the length of the gap; fitted by ``benchmarks/motion_worth.py``, see :func:`worth`."""
UNLIKE = 10.0  # cost of a window that has little to do with a gap
SHARPNESS = 0.63  # a window that costs so much more than the best one, relative to it, counts 1/e of it
NEVER = 4.0  # [30 frames] told instead of how far known frames are, where none follow
SOON, FAR = 3.0, 15.0  # [frames] from known ones, at which turns and the root may be corrected by about 1
GLIDE = 4  # [frames] over which the speed is taken at which a held pose glides on
WAVES = 2.0 ** np.arange(4)  # [30 frames] of the sines that tell how far the next known frames are
QUICK = 3.0  # factor of the steps from frame to frame that the network is told


@dataclass(frozen=True)
class Gaps:
    """Gaps of one shape, each with its motion from the first frame known before to the last one known after."""

    turns: np.ndarray
    """(G, F, J, 3, 3) local core rotations; in frames that are missing, anything."""
    root: np.ndarray
    """(G, F, 3) [m]"""
    before: int
    """Frames known before."""
    after: int
    """Frames known after; 0: the motion is to go on."""

    @property
    def length(self) -> int:
        """From the last frame known before to the first one known after."""
        return self.root.shape[1] - self.before - self.after + 1

    @property
    def known(self) -> np.ndarray:
        """(F) bool."""
        out = np.ones(self.root.shape[1], bool)
        out[self.before : self.before + self.length - 1] = False
        return out


@dataclass(frozen=True)
class Guides:
    """First answers for gaps, seen from their last known frames before, as rows of :func:`..motion.features.to_rows`."""

    first: np.ndarray
    """(G, F, R) what is answered without a network: between ``mean`` and ``straight``; known rows are the known ones."""
    mean: np.ndarray
    """(G, F, R) average of the nearest windows, bent onto what is known."""
    best: np.ndarray
    """(G, F, R) the nearest window alone."""
    straight: np.ndarray
    """(G, F, R) spherical interpolation; where the motion is to go on, the last pose, gliding on."""
    windows: tuple[nearest.Window, ...]
    """The windows that were averaged, best first."""
    source: np.ndarray
    """(G, F) the library's frame that the best window shows, -1 in known frames and where there is none."""
    contact: np.ndarray
    """(G, F, feet) 0 to 1, in how much of the average each foot stands; 0 in known frames."""
    share: np.ndarray
    """(G) 0 to 1, how much of ``mean`` is in the root and the legs of ``first``."""
    spread: np.ndarray
    """(G, F) how much the windows differ: root mean square deviation of their turns, as 6D, from ``mean``; infinite without any."""


def local(gaps: Gaps) -> tuple[Gaps, features.Place]:
    """The gaps seen from their last frames known before, and where those are."""
    last = gaps.before - 1
    heading = np.array([features.headings(turns[: gaps.before, 0])[last] for turns in gaps.turns])
    place = features.Place(gaps.root[:, last, :2].copy(), heading)
    return Gaps(*features.seen_from(place, gaps.turns, gaps.root), gaps.before, gaps.after), place


def guides(
    library: Library,
    gaps: Gaps,
    barred: np.ndarray | None = None,
    choice: int = 0,
    most: int = GUIDES,
    stretches: tuple[float, ...] = nearest.STRETCHES,
) -> Guides:
    """First answers for gaps that are seen from their last frame known before (:func:`local`).

    ``barred`` (G, clips) bool are clips that may not be used; ``choice`` leaves out so many of the nearest windows, for
    variations; ``most`` are averaged, ``stretches`` say how much slower or faster they may be played.
    """
    n, a = gaps.length, gaps.before - 1
    b, leg = a + n, library.body.leg_length
    rows = features.to_rows(gaps.turns, gaps.root, leg)
    straight = interpolated(gaps, rows, leg)
    first = [numbers_of(library.body, t[: a + 1], r[: a + 1]) for t, r in zip(gaps.turns, gaps.root, strict=True)]
    heading, numbers = np.array([h[-1] for h, _ in first]), np.array([v[-1] for _, v in first])
    ends = nearest.Ends(n, numbers, moves=(gaps.before > 1, gaps.after > 1))
    pair = [a - 1, a] if gaps.before > 1 else [a, a]
    before = gaps.turns[:, pair], gaps.root[:, pair]
    after = None
    if gaps.after:
        second = [numbers_of(library.body, t[b:], r[b:]) for t, r in zip(gaps.turns, gaps.root, strict=True)]
        then = np.array([h[0] for h, _ in second]), np.array([v[0] for _, v in second])
        ends = nearest.with_end(library, ends, (gaps.root[:, a], gaps.root[:, b]), (heading, then[0]), then[1])
        pair = [b, b + 1] if gaps.after > 1 else [b, b]
        after = gaps.turns[:, pair], gaps.root[:, pair]
    else:
        ends = replace(ends, length=min(n - 1, nearest.AHEAD))
    found = nearest.varied(library, ends, choice, most, barred, stretches)
    some = max(1, TOGETHER // len(rows))  # windows at once
    parts = [
        _bridged(library, found[k : k + some], gaps, (before, after), barred, numbers)
        for k in range(0, len(found), some)
    ]
    bridged, frames = (np.concatenate(column) for column in zip(*parts, strict=True))
    inside = slice(a + 1, b)
    cost = np.array([window.cost for window in found])  # (K, G)
    usable = np.isfinite(cost)
    any_window = usable[0]
    excess = (np.where(usable, cost, 0) - np.where(usable, cost[0], 0)) / (
        SHARPNESS * np.where(any_window, cost[0], 1) + 1e-3
    )
    weight = np.where(usable, np.exp(-excess), 0)
    weight /= np.maximum(weight.sum(axis=0), 1e-9)
    mean, best, first_answer = rows.copy(), rows.copy(), rows.copy()
    mean[:, inside] = np.where(
        any_window[:, None, None], np.einsum("kg,kgfr->gfr", weight, bridged), straight[:, inside]
    )
    best[:, inside] = np.where(any_window[:, None, None], bridged[0], straight[:, inside])
    off = np.einsum("kgfr,kgfr->kgf", (d := (bridged - mean[:, inside])[..., 3:]), d) / d.shape[-1]
    spread = np.zeros(rows.shape[:2])
    spread[:, inside] = np.where(any_window[:, None], np.sqrt(np.einsum("kg,kgf->gf", weight, off)), np.inf)
    costs = nearest.parts(library, ends, found[0])
    share = np.stack([trust(part, n, bool(gaps.after), k) for k, part in enumerate(costs)])
    share[1] *= share[0]  # who does not walk as others do does not swing the arms as they do
    by_number = share[_parts(library.body)].T  # (G, R)
    first_answer[:, inside] = straight[:, inside] + by_number[:, None] * (mean - straight)[:, inside]
    source = np.full(rows.shape[:2], -1)
    source[:, inside] = np.where(any_window[:, None], frames[0], -1)
    contact = np.zeros((*source.shape, library.contact.shape[1]))
    contact[:, inside] = np.einsum("kg,kgfc->gfc", weight, library.contact[frames].astype(float))
    return Guides(first_answer, mean, best, straight, tuple(found), source, contact, share[0], spread)


def trust(cost: np.ndarray, length: int, ends: bool, part: int = 0) -> np.ndarray:
    """(G) 0 to 1, how much windows of these costs are worth beside a straight answer to gaps of a length; ``part`` 0: for root and
    legs, 1: for all above, by the part of the cost that is about it (:func:`.nearest.parts`)."""
    level, by_cost, by_length = (TRUST if ends else TRUST_AHEAD)[part]
    known = np.isfinite(cost)
    size = np.log(np.where(known, np.maximum(cost, 1e-6), 1))
    x = level - by_cost * size + by_length * np.log(length / 30)
    return np.where(known, 0.5 + 0.5 * np.tanh(0.5 * x), 0)


def worth(cost: np.ndarray, length: int, constants: np.ndarray | None = None) -> np.ndarray:
    """(2, G) 0 to 1: how much of the network's answer is taken beside the answer without it, and how much of that average beside
    interpolation, where the library's best window costs so much (infinite: there is none), for gaps of a length."""
    level, by_cost, by_length = np.array(WORTH if constants is None else constants).T[:, :, None]
    found = np.isfinite(cost)
    size = np.log(np.where(found, np.maximum(cost, 1e-6), UNLIKE))
    x = level - by_cost * size + by_length * np.log(length / 30)
    shares = 0.5 + 0.5 * np.tanh(0.5 * x)
    shares[0, ~found] = 1
    return np.asarray(shares)


def _parts(body: Skeleton) -> np.ndarray:
    """(R) the part that each number of a row belongs to."""
    legs = {0, *(bone for leg in body.legs for bone in leg), *body.toes}
    return np.array([0] * 3 + [0 if j in legs else 1 for j in range(body.count) for _ in range(6)])


def _bridged(
    library: Library,
    found: list[nearest.Window],
    gaps: Gaps,
    known: tuple[nearest.Known, nearest.Known | None],
    barred: np.ndarray | None,
    numbers: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (K, G, n - 1, R) of windows bent onto what is known, and the library's frames (K, G, n - 1) that they show."""
    n, many, count = gaps.length, len(found), len(gaps.root)
    every = nearest.Window(*(np.concatenate([getattr(w, name) for w in found]) for name in ("begin", "frames", "cost")))
    if gaps.after:
        played, frames = nearest.play(library, every, n), nearest.frames_of(library, every, n)
    else:
        steady = np.tile(numbers, (many, 1)) if gaps.before > 1 else None
        frames = nearest.go_on(
            library, every.begin, n - 1, None if barred is None else np.tile(barred, (many, 1)), steady
        )
        played = nearest.assembled(library, frames)
    ends = [None if k is None else tuple(np.tile(v, (many, *([1] * (v.ndim - 1)))) for v in k) for k in known]
    rows = features.to_rows(*nearest.bridge(*played, *ends), library.body.leg_length)[:, 1:n]  # type: ignore[arg-type]
    return rows.reshape(many, count, *rows.shape[1:]), frames[:, 1:n].reshape(many, count, n - 1)


def interpolated(gaps: Gaps, rows: np.ndarray, leg: float) -> np.ndarray:
    """Spherical interpolation (G, F, R) over gaps; where the motion is to go on, the last pose, gliding on."""
    a, n = gaps.before - 1, gaps.length
    out = rows.copy()
    if gaps.after:
        for g in range(len(rows)):
            out[g] = features.to_rows(*features.between_keys(gaps.turns[g], gaps.root[g], [a, a + n]), leg)
        return out
    out[:, a + 1 :] = rows[:, a : a + 1]
    if a:
        glide = (rows[:, a, :2] - rows[:, max(0, a - GLIDE), :2]) / min(a, GLIDE)
        out[:, a + 1 :, :2] += np.arange(1, n)[:, None] * glide[:, None]
    return out


def told_count(rows: int) -> int:
    """How many numbers :func:`told` has for rows of ``rows`` numbers."""
    return 2 * rows + 3 + 4 * len(WAVES)


def told(gaps: Gaps, straight: np.ndarray) -> np.ndarray:
    """(G, F, 2 R + 19) float32 what the network is told of each frame: interpolation (G, F, R), how it moves, and the clock."""
    steps = np.zeros_like(straight)
    steps[:, 1:] = QUICK * np.diff(straight, axis=1)
    clock = np.broadcast_to(_clock(gaps), (len(straight), *_clock(gaps).shape))
    return np.concatenate([straight, steps, clock], axis=-1).astype(np.float32)


def room(gaps: Gaps) -> np.ndarray:
    """(F, R) float32 how much each number may be corrected: nothing in known frames, little beside them."""
    since, until = _clock(gaps)[:, 1] * 30, _clock(gaps)[:, 2] * 30
    away = np.where(gaps.known, 0, np.minimum(since, until))
    out = np.repeat((1 - np.exp(-away / SOON))[:, None], 3 + 6 * gaps.turns.shape[2], axis=1)
    out[:, :3] = (away / FAR)[:, None]
    return out.astype(np.float32)


def _clock(gaps: Gaps) -> np.ndarray:
    """(F, 19) whether a frame is known, and how far known frames are before and after it."""
    known = gaps.known
    frames = np.arange(len(known))
    a, b = gaps.before - 1, gaps.before - 1 + gaps.length
    since = np.maximum(frames - a, 0) / 30
    until = np.maximum(b - frames, 0) / 30 if gaps.after else np.full(len(frames), NEVER)
    columns = [known.astype(float), since, until]
    for value in (since, until):
        for wave in WAVES:
            columns += [np.sin(wave * np.pi * value), np.cos(wave * np.pi * value)]
    return np.stack(columns, axis=1)
