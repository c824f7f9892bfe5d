# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples: gaps cut out of takes, with the first answers that a library without them gives, in groups of one shape.

A library at work may hold the character's own actions, or only other people's. So an example's own take is always barred from its
search, its subject's other takes mostly, and now and then most of the library.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core import contacts, rotations
from ..core import forward_kinematics as fk
from ..core.skeleton import Skeleton
from ..motion import features
from . import gaps, library
from .gaps import HISTORY, Gaps
from .library import Library, Take

LONGEST = 96
"""Frames from key to key that are trained on; longer gaps are filled, but nobody has measured how well."""
AHEAD = 60
"""Frames to go on that are trained on."""
SHORTEST = 4  # frames from key to key
GROUP = 256
FREE = 0.3  # share of groups in which the motion goes on and nothing is known after
ONE_BEFORE, ALL_BEFORE = (
    0.25,
    0.55,
)  # shares of groups that know one frame, or ten, before; the others something between
ONE_AFTER = 0.75  # share of groups that know one frame after
SUBJECT_BARRED = 0.7
THIN, KEPT = 0.25, 0.2  # share of groups with a small library, and the share of its clips that is left
RATES = (0.85, 1.2)  # takes are played slower or faster by a factor between these
OFF = np.radians(4.0)  # by which joints of an example are turned, all its frames alike
WIDER = 0.1  # by which share of its movement a joint of an example moves more or less


@dataclass(frozen=True)
class Group:
    """Examples of one shape."""

    told: np.ndarray
    """(G, F, T) float32, see :func:`.gaps.told`."""
    first: np.ndarray
    """(G, F, R) float32 the first answer that the network corrects."""
    truth: np.ndarray
    """(G, F, R) float32 rows of the true motion."""
    contact: np.ndarray
    """(G, F, feet) bool, feet that truly stand."""
    known: np.ndarray
    """(F) bool"""
    room: np.ndarray
    """(F, R) see :func:`.gaps.room`."""
    share: np.ndarray
    """(G) how much of the library is in the first answers."""
    ends: bool
    """Whether something is known after the gap."""


@dataclass(frozen=True)
class Source:
    """What examples are drawn from."""

    takes: tuple[Take, ...]
    subjects: tuple[str, ...]
    """Whose each take is."""
    library: Library
    """Of the same takes, each followed by its mirror image, or of others."""

    @property
    def apart(self) -> bool:
        """Whether the library has none of the takes."""
        return len(self.library.names) != 2 * len(self.takes) or self.library.names[::2] != tuple(
            t.name for t in self.takes
        )


def source(
    body: Skeleton, takes: Sequence[Take], subject_of: Callable[[str], str], others: Library | None = None
) -> Source:
    """Takes of one body as a source; those that are too short are left out.

    The library is made of them, or it is ``others``, which must hold none of their takes.
    """
    rated = [Take(t.name, *library.at_rate(t)) for t in takes]
    long = tuple(t for t in rated if len(t.root) >= library.SHORTEST)
    own = library.of_takes(body, long) if others is None else others
    return Source(long, tuple(subject_of(t.name) for t in long), own)


def draw(own: Source, rng: np.random.Generator, count: int = 0) -> Group:
    """A group of ``count`` examples of one random shape; :data:`GROUP` of them where that is 0."""
    count = count or GROUP
    before, missing, after = _shape(rng)
    frames = before + missing + after
    cut, barred = [], np.zeros((count, len(own.library.names)), bool)
    small = rng.random(len(own.takes)) < (1 - KEPT) if rng.random() < THIN else np.zeros(len(own.takes), bool)
    by_subject = rng.random() < SUBJECT_BARRED
    room = np.array([max(0, len(t.root) - RATES[0] * frames) for t in own.takes])
    if not room.any():
        raise ValueError(f"examples: expected a take of {frames} frames or more, the longest has fewer")
    for g in range(count):
        k = int(rng.choice(len(own.takes), p=room / room.sum()))
        cut.append(_cut(own, k, frames, rng))
        if own.apart:
            continue
        own_takes = np.array([s == own.subjects[k] for s in own.subjects]) if by_subject else np.arange(len(small)) == k
        barred[g] = np.repeat(own_takes | small, 2)
        if barred[g].all():
            barred[g] = np.repeat(np.arange(len(small)) == k, 2)
    turns, root = (np.array(part) for part in zip(*cut, strict=True))
    return prepared(own.library, Gaps(turns, root, before, after), None if own.apart else barred)


def prepared(own: Library, true: Gaps, barred: np.ndarray | None = None) -> Group:
    """The examples of gaps whose true motion is known."""
    true, _ = gaps.local(true)
    body, known = own.body, true.known
    guide = gaps.guides(own, true, barred)
    heads = fk.walk(body.parents, true.turns, body.offsets, true.root)[1]
    rest = body.foot_rest - body.floor
    feet = [contacts.truth_contacts(h[:, list(body.feet)], h[:, list(body.toes)], rest) for h in heads]
    rows = features.to_rows(true.turns, true.root, body.leg_length).astype(np.float32)
    return Group(
        gaps.told(true, guide),
        guide.first.astype(np.float32),
        rows,
        np.array(feet),
        known,
        gaps.room(true),
        guide.share,
        true.after > 0,
    )


def _shape(rng: np.random.Generator) -> tuple[int, int, int]:
    """Frames known before, missing, and known after."""
    which = rng.random()
    before = 1 if which < ONE_BEFORE else HISTORY if which < ONE_BEFORE + ALL_BEFORE else int(rng.integers(2, HISTORY))
    if rng.random() < FREE:
        return max(before, 2), AHEAD if rng.random() < 0.5 else int(rng.integers(10, AHEAD)), 0
    missing = round(float(np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST))))) - 1
    return before, missing, 1 if rng.random() < ONE_AFTER else int(rng.integers(2, HISTORY + 1))


def _cut(own: Source, k: int, frames: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Turns and root of ``frames`` frames of a take, at some rate and mirrored or not."""
    take = own.takes[k]
    most = (len(take.root) - 1) / (frames - 1)
    rate = min(float(rng.uniform(*RATES)), most)
    begin = float(rng.uniform(0, max(0.0, len(take.root) - 1 - rate * (frames - 1))))
    low = int(begin)
    high = min(len(take.root), int(np.ceil(begin + rate * (frames - 1))) + 2)
    times = begin - low + rate * np.arange(frames)
    turns, root = features.resampled(take.turns[low:high], take.root[low:high], times)
    turns = _in_another_way(turns, rng)
    if rng.random() < 0.5:
        return features.mirrored(own.library.body, turns, root)
    return turns, root


def _in_another_way(turns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Turns (F, J, 3, 3) as somebody else might do them: every joint a little off, and moving a little more or less."""
    joints = turns.shape[1]
    middle = rotations.matrix_from_sixd(rotations.sixd_from_matrix(turns).mean(axis=0) + 1e-9)
    away = rotations.axis_angle_from_matrix(np.swapaxes(middle, -1, -2) @ turns)
    away *= 1 + WIDER * rng.standard_normal((joints, 1))
    off = rotations.matrix_from_axis_angle(OFF * rng.standard_normal((joints, 3)))
    off[0] = np.eye(3)
    out = middle @ off @ rotations.matrix_from_axis_angle(away)
    out[:, 0] = turns[:, 0]
    return out


def many(own: Source, seed: int, groups: int, jobs: int = 1) -> Iterator[Group]:
    """``groups`` groups, whatever the number of processes that draw them; the same for the same seed."""
    if jobs <= 1:
        for number in range(groups):
            yield draw(own, np.random.default_rng([seed, number]))
        return
    with multiprocessing.get_context("spawn").Pool(jobs, _begin, (own, seed)) as pool:
        yield from pool.imap(_numbered, range(groups))


_working: list[tuple[Source, int]] = []


def _begin(own: Source, seed: int) -> None:
    _working.append((own, seed))


def _numbered(number: int) -> Group:
    own, seed = _working[0]
    return draw(own, np.random.default_rng([seed, number]))
