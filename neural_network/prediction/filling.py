# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill: the motion between keys, in the character's way, with feet that stand and keys that stay as they are.

Between each two keys the library's nearest windows give a first answer, bent onto the keys; where there is a network, its
answer is averaged with it; feet that stand are held. Nothing of this needs training but the network. Core axes, metres.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ..core.messages import counted
from ..core.skeleton import Skeleton
from ..ik import held_feet
from ..motion import features
from . import gaps
from .gaps import HISTORY, Gaps, Guides
from .library import FPS, Library
from .network import Network

MOST_SECONDS = 10.0
"""Between two keys."""
FEWEST = 3  # frames at 30 a second from key to key; nearer ones are interpolated
STANDS = 0.5  # how likely a foot must be to stand


@dataclass(frozen=True)
class Filled:
    """Motion between keys."""

    turns: np.ndarray
    """(F, J, 3, 3) local core rotations; those of keys are the ones given."""
    root: np.ndarray
    """(F, 3) [m]"""
    contact: np.ndarray
    """(F, feet) bool, feet that stand in generated frames."""
    generated: np.ndarray
    """(F) bool, frames that were made."""
    source: np.ndarray
    """(F) the library's frame that was nearest, -1 in keys and where there was none."""
    notes: tuple[str, ...] = field(default=())
    """Sentences on what could not be done as asked."""


def fill(
    body: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    keys: Sequence[int] | np.ndarray,
    library: Library,
    *,
    fps: float = FPS,
    seed: int = 0,
    detail: float = 0.0,
    network: Network | None = None,
    hold: bool = True,
    stands: np.ndarray | None = None,
) -> Filled:
    """The motion with all frames between its first and its last key filled; the result of :func:`steps`."""
    *_, found = steps(
        body, turns, root, keys, library, fps=fps, seed=seed, detail=detail, network=network, hold=hold, stands=stands
    )
    assert isinstance(found, Filled)
    return found


def steps(
    body: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    keys: Sequence[int] | np.ndarray,
    library: Library,
    *,
    fps: float = FPS,
    seed: int = 0,
    detail: float = 0.0,
    network: Network | None = None,
    hold: bool = True,
    stands: np.ndarray | None = None,
) -> Iterator[tuple[int, int] | Filled]:
    """Fill gap by gap: yields (gaps done, of), at the end a :class:`Filled`.

    Args:
        body: with the reference rig's bones; ``library`` is of the same body.
        turns: (F, J, 3, 3) local core rotations; only those of keys count.
        root: (F, 3) [m] the Hips' head, on a floor at height 0.
        keys: frames that are known and stay; two neighbours or more tell how fast the body moves there. Frames before the first
            and after the last key stay too, and are known.
        library: to search.
        fps: frames a second of the motion.
        seed: 0 is the likeliest motion, others are variations of it.
        detail: 0 to 1, how much of the nearest window's own movement is in it: 0 is nearest to the truth on average, and smoother.
        network: None: the library alone.
        hold: whether standing feet are held.
        stands: (F, feet) bool when feet are to stand; None: as the library's windows do.

    Raises ValueError for fewer than two keys, keys beyond the motion or too far apart, and keys with nothing between them.
    """
    features.require_rate(fps)
    frames = len(root)
    keys = checked_keys(keys, frames, fps)
    known = np.zeros(frames, bool)
    known[: keys[0] + 1], known[keys[-1] :] = True, True
    known[keys] = True
    generated = ~known
    turns, root = np.array(turns, float), np.array(root, float)
    out_turns, out_root = turns.copy(), root.copy()
    contact, source = np.zeros((frames, len(body.feet)), bool), np.full(frames, -1)
    wide = [(int(a), int(b)) for a, b in pairwise(keys) if b - a > 1]
    notes = []
    for done, (a, b) in enumerate(wide):
        yield done, len(wide)
        inside = slice(a + 1, b)
        gap = _cut(out_turns, out_root, known, a, b, fps)
        if gap.length < FEWEST:
            pair = features.between_keys(out_turns[a : b + 1], out_root[a : b + 1], [0, b - a])
            out_turns[inside], out_root[inside] = pair[0][1:-1], pair[1][1:-1]
            continue
        made, guide, likely = between(gap, library, seed, detail, network)
        if not np.isfinite(guide.windows[0].cost[0]):
            notes.append(
                f"frames {a} to {b}: nothing in the library is as long, so they are interpolated; pose a key between them"
            )
        times = gap.before - 1 + np.arange(1, b - a) * gap.length / (b - a)
        out_turns[inside], out_root[inside] = features.resampled(*made, times)
        contact[inside] = likely[np.rint(times).astype(int)]
        source[inside] = guide.source[0][np.rint(times).astype(int)]
    standing = contact if stands is None else np.asarray(stands, bool)
    if hold and standing.any():
        held = held_feet.hold(body, out_turns, out_root, standing, fps, fixed=known)
        out_turns, out_root = held.turns, held.root
        out_turns[known], out_root[known] = turns[known], root[known]
    yield Filled(out_turns, out_root, standing & generated[:, None], generated, source, tuple(notes))


def checked_keys(keys: Sequence[int] | np.ndarray, frames: int, fps: float) -> np.ndarray:
    """Sorted keys as integers; ValueError, in words, for what cannot be filled between."""
    given = np.asarray(keys)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        raise ValueError(f"keys: expected whole frame numbers, got {given.dtype} of shape {given.shape}")
    found = np.unique(given)
    if len(found) < 2:
        raise ValueError(f"keys: expected two or more at different frames, got {counted(len(found), 'frame')}")
    if found[0] < 0 or found[-1] >= frames:
        raise ValueError(f"keys: expected frames from 0 to {frames - 1}, got {found[0]} to {found[-1]}")
    ways = np.diff(found)
    if ways.max() == 1:
        raise ValueError("keys: expected a frame between two of them, got keys on every frame")
    most = round(MOST_SECONDS * fps)
    if ways.max() > most:
        at = int(ways.argmax())
        raise ValueError(
            f"keys: expected {most} frames between two of them at most, got {ways.max()} between {found[at]} and {found[at + 1]};"
            " pose a key between them"
        )
    return found


def _cut(turns: np.ndarray, root: np.ndarray, known: np.ndarray, a: int, b: int, fps: float) -> Gaps:
    """The gap from key ``a`` to key ``b`` at 30 frames a second, with what is known or made before and known after it."""
    step = fps / FPS
    before = min(HISTORY, int(a / step) + 1)
    until = b + int(np.argmin(np.append(known[b:], False)))
    after = min(HISTORY, int((until - 1 - b) / step) + 1)
    length = max(2, round((b - a) / step))
    times = np.concatenate(
        [
            a - step * np.arange(before)[::-1],
            a + (b - a) * np.arange(1, length) / length,
            b + step * np.arange(after),
        ]
    )
    cut = features.resampled(turns, root, times)
    return Gaps(cut[0][None], cut[1][None], before, after)


def between(
    gap: Gaps, library: Library, seed: int, detail: float, network: Network | None
) -> tuple[tuple[np.ndarray, np.ndarray], Guides, np.ndarray]:
    """Turns (F, J, 3, 3) and root (F, 3) of one gap, first answers, and feet that stand (F, feet) bool."""
    own, place = gaps.local(gap)
    guide = gaps.guides(library, own, choice=seed)
    if network is None:
        rows, stands = guide.first, guide.contact > STANDS
    else:
        rows, likely = network.mixed(library.body, own, guide)
        stands = likely > STANDS
    rows = rows + detail * (guide.best - rows)
    made = features.put_at(place, *features.from_rows(np.asarray(rows, float), library.body.leg_length))
    return (made[0][0], made[1][0]), guide, stands[0]
