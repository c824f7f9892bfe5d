# SPDX-License-Identifier: GPL-3.0-or-later
"""Nearest motion: windows of the library that fit what is wanted, played with their ends bent onto it. Needs no training.

Many gaps of one length are searched and bridged at once (G on the first axis), which is how the network's training data is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..core import rotations
from ..motion import features
from .library import PLACES, Library

STRETCHES = (0.8, 0.9, 1.0, 1.12, 1.25)
"""A window of the library may be played so much slower or faster."""
WAY = 0.59  # weight of the way from the first key to the last one, in leg lengths
TURN = 1.1  # weight of the change of heading [rad]
HURRY = 0.02  # cost of a window that is played at e times its rate or 1/e of it
BEND, PART = 12.0, 0.8  # [frames] at most, and share of a gap, over which the turns of an end are bent
AHEAD = 15  # [frames] that a clip must go on where another one ends
APART = 5  # [frames] at least, between the beginnings of two windows that are found for one gap
VARIATIONS = 64  # windows at most from which a variation begins
AT_ONCE = 64  # gaps whose distances are in memory together


Known = tuple[np.ndarray, np.ndarray]
"""Turns (G, 2, J, 3, 3) and root (G, 2, 3) of two frames that are known."""


@dataclass(frozen=True)
class Ends:
    """What is known at the two ends of gaps of ``length`` frames."""

    length: int
    """Frames from the last one known before to the first one known after: ``length`` - 1 are wanted."""
    before: np.ndarray
    """(G, 41) numbers at the first end."""
    after: np.ndarray | None = None
    """(G, 41) at the second; None where nothing is known of it."""
    way: np.ndarray | None = None
    """(G, 3) in leg lengths from the Hips at the first end to those at the second, seen from the first; None: anywhere."""
    turn: np.ndarray | None = None
    """(G) [rad] change of heading; None: any."""
    moves: tuple[bool, bool] = (True, False)
    """Whether velocities are known at each end."""


@dataclass(frozen=True)
class Window:
    """Frames of a library, one for each gap."""

    begin: np.ndarray
    """(G) first frame."""
    frames: np.ndarray
    """(G) its length, as :attr:`Ends.length`."""
    cost: np.ndarray
    """(G)"""


def search(
    library: Library,
    ends: Ends,
    most: int = 1,
    barred: np.ndarray | None = None,
    stretches: tuple[float, ...] = STRETCHES,
) -> list[Window]:
    """The ``most`` windows of least cost for each gap, best first, no two of them beginning within five frames of each other.

    ``barred`` (G, clips) bool: clips that may not be used for a gap; ``stretches``: factors of a window's length. Costs are infinite
    where the library has nothing as long.
    """
    gaps = len(ends.before)
    found = [Window(np.zeros(gaps, int), np.full(gaps, ends.length), np.full(gaps, np.inf)) for _ in range(most)]
    stretches = stretches if ends.after is not None else (1.0,)
    lengths = np.unique(np.maximum(1, np.rint(ends.length * np.array(stretches)).astype(int)))
    ways = [_way(library, int(n), ends) for n in lengths]
    for first in range(0, gaps, AT_ONCE):
        rows = slice(first, min(first + AT_ONCE, gaps))
        best = np.full((rows.stop - first, library.frames), np.inf, np.float32)
        which = np.zeros(best.shape, np.int8)
        start = _apart(library, ends.before[rows], ends.moves[0])
        end = None if ends.after is None else _apart(library, ends.after[rows], ends.moves[1])
        for i, length in enumerate(lengths.tolist()):
            cost = start[:, : library.frames - length] + np.float32(HURRY * np.log(length / ends.length) ** 2)
            if end is not None:
                cost += end[:, length:]
            for offered, wanted in ways[i]:
                cost += (
                    np.sum(offered**2, axis=1)
                    - 2 * (wanted[rows] @ offered.T)
                    + np.sum(wanted[rows] ** 2, axis=1)[:, None]
                )
            cost[:, library.left[: cost.shape[1]] < length] = np.inf
            better = cost < best[:, : cost.shape[1]]
            np.copyto(best[:, : cost.shape[1]], cost, where=better)
            which[:, : cost.shape[1]][better] = i
        if barred is not None:
            best[barred[rows][:, library.clip]] = np.inf
        best = library.weighed(best)
        g = np.arange(len(best))
        for window in found:
            at = best.argmin(axis=1)
            window.begin[rows], window.cost[rows] = at, np.maximum(best[g, at], 0)
            window.frames[rows] = lengths[which[g, at]]
            for row, middle in enumerate(at.tolist()):
                best[row, max(0, middle - APART + 1) : middle + APART] = np.inf
    return found


def varied(
    library: Library,
    ends: Ends,
    variation: int,
    most: int = 1,
    barred: np.ndarray | None = None,
    stretches: tuple[float, ...] = STRETCHES,
) -> list[Window]:
    """:func:`search` without the ``variation`` nearest windows, for another motion between the same keys.

    Where the library has fewer windows, or the variation is ``VARIATIONS`` or more, they are counted from the beginning again.
    """
    skipped = variation % VARIATIONS
    found = search(library, ends, most + skipped, barred, stretches)
    usable = sum(bool(np.isfinite(window.cost).all()) for window in found)
    return found[skipped % max(1, usable) :][:most]


def parts(library: Library, ends: Ends, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """Costs (G) of windows: what is about root and legs, and what is about all above; infinite where nothing was found."""
    upper = library.upper
    costs = [np.zeros(len(window.cost)), np.zeros(len(window.cost))]
    last = np.minimum(window.begin + window.frames, library.frames - 1)
    for wanted, at, moves in ((ends.before, window.begin, ends.moves[0]), (ends.after, last, ends.moves[1])):
        if wanted is not None:
            squares = (library.numbers[at] - wanted) ** 2
            squares[:, PLACES:] *= moves
            costs[0] += squares[:, ~upper].sum(axis=1)
            costs[1] += squares[:, upper].sum(axis=1)
    for g, (begin, end) in enumerate(zip(window.begin.tolist(), last.tolist(), strict=True)):
        if ends.way is not None:
            way = library.back[begin] @ (library.root[end] - library.root[begin]) / library.body.leg_length
            costs[0][g] += WAY**2 * np.sum((way - ends.way[g]) ** 2)
        if ends.turn is not None:
            off = library.heading[end] - library.heading[begin] - ends.turn[g]
            costs[0][g] += 2 * TURN**2 * (1 - np.cos(off))
    found = np.isfinite(window.cost)
    return np.where(found, costs[0], np.inf), np.where(found, costs[1], np.inf)


def _apart(library: Library, numbers: np.ndarray, moves: bool) -> np.ndarray:
    """(g, N) float32 squared distances of numbers (g, 41) from those of every frame, velocities counted only where they are known."""
    some = slice(None) if moves else slice(PLACES)
    own, wanted = library.numbers[:, some], numbers[:, some].astype(np.float32)
    return np.asarray(wanted @ (-2 * own.T) + np.sum(own**2, axis=1) + np.sum(wanted**2, axis=1)[:, None])


def _way(library: Library, length: int, ends: Ends) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the windows of ``length`` offer (N - length, ...) and what is wanted (G, ...) of way and turn, weighted."""
    out = []
    now, then = slice(0, library.frames - length), slice(length, None)
    if ends.way is not None:
        way = np.einsum("nab,nb->na", library.back[now], library.root[then] - library.root[now])
        out.append((way * np.float32(WAY / library.body.leg_length), (WAY * ends.way).astype(np.float32)))
    if ends.turn is not None:
        offered, wanted = (library.heading[then] - library.heading[now]), ends.turn
        sides = [TURN * np.stack([np.cos(a), np.sin(a)], axis=1).astype(np.float32) for a in (offered, wanted)]
        out.append((sides[0], sides[1]))
    return out


def frames_of(library: Library, window: Window, length: int) -> np.ndarray:
    """(G, length + 1) the library's frames, rounded, that windows show when they are brought to ``length``; of a window that was not
    found, some frames all the same."""
    frames = np.rint(window.begin[:, None] + np.arange(length + 1) / length * window.frames[:, None]).astype(int)
    return np.minimum(frames, library.frames - 1)


def play(library: Library, window: Window, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Turns (G, length + 1, J, 3, 3) and root (G, length + 1, 3) of windows, brought to ``length``, seen from their first frame."""
    share = np.arange(length + 1) / length
    times = window.begin[:, None] + share * window.frames[:, None]
    low = np.minimum(times.astype(int), library.frames - 1)
    high = np.minimum(low + 1, library.frames - 1)
    part = (times - low).astype(np.float32)
    turns, root = library.turns[low], library.root[low]
    between = part > 1e-5
    if between.any():
        a, b = turns[between], library.turns[high[between]]
        step = rotations.axis_angle_from_matrix(np.swapaxes(a, -1, -2) @ b) * part[between][:, None, None]
        turns[between] = a @ rotations.matrix_from_axis_angle(step)
        root[between] += part[between][:, None] * (library.root[high[between]] - root[between])
    place = features.Place(library.root[window.begin, :2], library.heading[window.begin])
    return features.seen_from(place, turns, root)


def bridge(
    turns: np.ndarray,
    root: np.ndarray,
    before: Known,
    after: Known | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The motion bent so that it leaves what comes before it and arrives at what comes after.

    Args:
        turns: (G, n + 1, J, 3, 3), from the last frame known before to the first known after.
        root: (G, n + 1, 3).
        before: turns (G, 2, J, 3, 3) and root (G, 2, 3) of the last two frames before, the last one being row 0 of the motion;
            twice the same frame where only one is known: then it is left as fast as the motion does.
        after: the same of the first two frames after, the first one being row n; None: its end is free.

    Rows 0 and n become exactly what is known. Seen from one place, all of them. Offsets die out along cubic curves
    (Hermite), so that velocities at both ends are met too.
    """
    n = root.shape[1] - 1
    reach = min(PART * n, BEND)
    far = float(n) if after is not None else reach
    vector = _bent(_turn_offsets(turns, before[0], 0), n, reach)
    out_root = root + _bent(_offsets_of(root, before[1], 0), n, far)
    if after is not None:
        vector += _bent(_turn_offsets(turns, after[0], -1), n, reach)[:, ::-1]
        out_root += _bent(_offsets_of(root, after[1], -1), n, far)[:, ::-1]
    out = turns @ rotations.matrix_from_axis_angle(vector)
    out[:, 0], out_root[:, 0] = before[0][:, 1], before[1][:, 1]
    if after is not None:
        out[:, n], out_root[:, n] = after[0][:, 0], after[1][:, 0]
    return out, out_root


def _offsets_of(values: np.ndarray, known: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Offset and its change a frame (G, ...) at an end of ``values`` (G, n + 1, ...) from two known frames (G, 2, ...), seen in
    the direction away from that end."""
    if end == 0:
        own, there = values[:, 1] - values[:, 0], known[:, 1] - known[:, 0]
        offset = known[:, 1] - values[:, 0]
    else:
        own, there = values[:, -2] - values[:, -1], known[:, 0] - known[:, 1]
        offset = known[:, 0] - values[:, -1]
    same = ~np.any(there.reshape(len(there), -1), axis=1)
    return offset, np.where(same.reshape(-1, *([1] * (there.ndim - 1))), 0, there - own)


def _turn_offsets(turns: np.ndarray, known: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`_offsets_of` for rotations: axis-angles (G, J, 3) that follow each turn of the motion."""
    log = rotations.axis_angle_from_matrix
    rows = (0, 1) if end == 0 else (-1, -2)
    first, second = (1, 0) if end == 0 else (0, 1)
    offset = log(np.swapaxes(turns[:, rows[0]], -1, -2) @ known[:, first])
    own = log(np.swapaxes(turns[:, rows[0]], -1, -2) @ turns[:, rows[1]])
    there = log(np.swapaxes(known[:, second], -1, -2) @ known[:, first])
    still = np.abs(there).max(axis=(1, 2), keepdims=True) < 1e-7
    return offset, np.where(still, 0, there - own)


def _bent(offset: tuple[np.ndarray, np.ndarray], n: int, reach: float) -> np.ndarray:
    """(G, n + 1, ...) an offset that dies out over ``reach`` frames; its speed at the beginning does over ``BEND`` at most."""
    x = np.clip(np.arange(n + 1) / reach, 0, 1)
    stays = (1 + 2 * x) * (1 - x) ** 2
    soon = min(reach, BEND)
    x = np.clip(np.arange(n + 1) / soon, 0, 1)
    goes = soon * x * (1 - x) ** 2
    shape = (1, n + 1, *([1] * (offset[0].ndim - 1)))
    return np.asarray(stays.reshape(shape) * offset[0][:, None] + goes.reshape(shape) * offset[1][:, None])


def go_on(
    library: Library, begin: np.ndarray, frames: int, barred: np.ndarray | None = None, steady: np.ndarray | None = None
) -> np.ndarray:
    """(G, frames + 1) frames of the library that play on from ``begin`` (G), each taking over where the one before ends.

    A clip is played to its end; then follows the frame that looks and moves most like its last one and has at least
    ``AHEAD`` frames, or as many as are wanted, before it. ``barred`` as for :func:`search`; ``steady`` (G, 41) numbers whose
    velocities are kept in mind at every change, so that nobody slows down by and by.
    """
    out = np.empty((len(begin), frames + 1), int)
    for g, first in enumerate(begin.tolist()):
        at, filled = int(first), 0
        while True:
            some = min(int(library.left[at]), frames - filled)
            out[g, filled : filled + some + 1] = np.arange(at, at + some + 1)
            filled += some
            if filled >= frames:
                break
            wanted = library.numbers[at + some]
            if steady is not None:
                wanted = wanted.copy()
                wanted[PLACES:] = 0.5 * (wanted[PLACES:] + steady[g, PLACES:])
            need = min(AHEAD, frames - filled)
            cost = library.weighed(np.sum((library.numbers - wanted) ** 2, axis=1))
            usable = library.left >= need
            if barred is not None:
                usable &= ~barred[g][library.clip]
            at = int(np.where(usable, cost, np.inf).argmin())
    return out


def assembled(library: Library, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """:func:`assemble` for rows of frames (G, F): turns (G, F, J, 3, 3) and root (G, F, 3)."""
    turns, root = zip(*(assemble(library, own) for own in frames), strict=True)
    return np.array(turns), np.array(root)


def assemble(library: Library, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turns (F, J, 3, 3) and root (F, 3) of library frames (F) played one after another, seen from the first one: where they
    jump, the motion goes on from where it is, and what differs dies out over ``BEND`` frames."""
    cuts = [0, *(np.flatnonzero(np.diff(frames) != 1) + 1).tolist(), len(frames)]
    turns, root = np.empty((len(frames), *library.turns.shape[1:])), np.empty((len(frames), 3))
    for first, last in pairwise(cuts):
        rows = frames[first:last]
        if last < len(frames):
            rows = np.append(rows, rows[-1] + 1)  # the last frame, from which the next one takes over
        place = features.Place(library.root[rows[0], :2].astype(float), library.heading[rows[0]])
        own = features.seen_from(place, library.turns[rows].astype(float), library.root[rows].astype(float))
        if first:
            before = [max(first - 1, 0), first]
            own = features.put_at(features.place_at(turns[: first + 1], root, first), *own)
            if len(rows) > 1:
                bent = bridge(own[0][None], own[1][None], (turns[None, before], root[None, before]))
                own = bent[0][0], bent[1][0]
            else:
                own = turns[first : first + 1], root[first : first + 1]
        turns[first : first + len(rows)], root[first : first + len(rows)] = own
    return turns, root


def with_end(
    library: Library,
    ends: Ends,
    root: tuple[np.ndarray, np.ndarray],
    heading: tuple[np.ndarray, np.ndarray],
    after: np.ndarray,
) -> Ends:
    """``ends`` whose second end is known too: Hips' heads (G, 3) [m] and headings (G) [rad] at both, numbers (G, 41) after."""
    way = np.einsum("gab,gb->ga", features.yaw(-heading[0]), root[1] - root[0]) / library.body.leg_length
    return replace(ends, after=after, way=way, turn=heading[1] - heading[0])
