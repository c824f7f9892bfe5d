# SPDX-License-Identifier: GPL-3.0-or-later
"""Check: how far Fill and Continue can be trusted for one character, measured on its own actions, each left out in turn.

The calls are those in use, on a library without the action that is asked for, beside what a person would get without them:
interpolation between the keys, and the last pose gliding on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core import forward_kinematics as fk
from ..core import metrics
from ..core.skeleton import Skeleton
from ..motion import features
from . import continuing, filling
from .gaps import HISTORY
from .library import FPS, Library, Take, at_rate
from .network import Network
from .predictor import Predictor

LENGTHS = (8, 15, 30, 60)
"""Frames at 30 a second from key to key that are tried."""
AHEAD = 60
"""Frames to go on."""
TAKES = 12
"""Actions that are asked for, at most, spread over all."""
CUTS = 3  # places in an action at which each length is tried, at most
GOOD, FAIR = 0.5, 0.9  # of the plain answer's error, below which Fill counts as much better, or better
SECONDS = (0.33, 1.0, 2.0)  # after which the words say how far Continue is off


@dataclass(frozen=True)
class Checked:
    """What was measured. Errors are mean distances of all heads [mm]."""

    words: tuple[str, ...]
    """Plain sentences."""
    lengths: tuple[int, ...]
    """Frames from key to key that were tried."""
    fill: np.ndarray
    """(lengths) L2P of Fill [mm]."""
    straight: np.ndarray
    """(lengths) L2P of interpolation [mm]."""
    ahead: np.ndarray
    """(N) MPJPE of Continue with the Hips at the origin, after 1 to N frames [mm]; empty where no action is long enough."""
    hold: np.ndarray
    """(N) the same of the last pose."""
    counts: tuple[int, int]
    """Actions, and gaps and continuations tried."""

    @property
    def curve(self) -> list[tuple[float, float]]:
        """(share of the frames ahead, error [mm]) of Continue: how errors grow."""
        return [((i + 1) / len(self.ahead), float(value)) for i, value in enumerate(self.ahead)]


def check(
    library: Library, takes: Sequence[Take], network: Network | None = None, steps: Predictor | None = None
) -> Iterator[tuple[int, int] | Checked]:
    """Measure on a character's own ``takes``, which ``library`` holds under their names; yields (done, of), at the end Checked.

    Raises ValueError for fewer than two takes that are long enough: leaving out the only one leaves nothing to search.
    """
    own = [Take(take.name, *at_rate(take)) for take in takes]
    needed = HISTORY + min(LENGTHS) + 1
    long = [take for take in own if len(take.root) >= needed]
    long = [long[i] for i in np.unique(np.linspace(0, len(long) - 1, TAKES).astype(int)).tolist()] if long else []
    if len({take.name for take in long}) < 2:
        raise ValueError(
            f"Check needs two or more actions of {needed} frames or more at {FPS:.0f} a second, and leaves each out in turn;"
            f" there are {len(long)}"
        )
    body = library.body
    asked = [(take, n, at) for take in long for n in LENGTHS for at in _cuts(len(take.root), HISTORY + n + 1)]
    goes = [(take, at) for take in long for at in _cuts(len(take.root), HISTORY + AHEAD)]
    total = len(asked) + len(goes)
    without = {take.name: left_out(library, take.name) for take in long}
    found: dict[int, list[tuple[float, float]]] = {n: [] for n in LENGTHS}
    for done, (take, n, at) in enumerate(asked):
        yield done, total
        rows = slice(at, at + HISTORY + n + 1)
        found[n].append(_filled(body, take.turns[rows], take.root[rows], n, without[take.name], network))
    ahead = []
    for done, (take, at) in enumerate(goes):
        yield len(asked) + done, total
        rows = slice(at, at + HISTORY + AHEAD)
        ahead.append(_gone_on(body, take.turns[rows], take.root[rows], without[take.name], steps))
    lengths = tuple(n for n in LENGTHS if found[n])
    fill, straight = np.array([np.mean(found[n], axis=0) for n in lengths]).T
    went, held = np.mean(ahead, axis=0) if ahead else np.zeros((2, 0))
    words = (*_fill_words(lengths, fill, straight), *_ahead_words(went, held))
    yield Checked(words, lengths, fill, straight, went, held, (len(long), total))


def left_out(library: Library, name: str) -> Library:
    """A library without the clips of that name."""
    gone = np.array([other == name for other in library.names])
    rows = ~gone[library.clip]
    number = np.cumsum(~gone) - 1
    rows_of = {c: getattr(library, c)[rows] for c in ("turns", "root", "heading", "numbers", "contact", "left")}
    return replace(
        library,
        names=tuple(other for other in library.names if other != name),
        clip=number[library.clip[rows]],
        favour=None if library.favour is None else library.favour[~gone],
        **rows_of,
    )


def _cuts(frames: int, length: int) -> list[int]:
    """Where to cut ``length`` frames out of ``frames``: spread evenly, ``CUTS`` at most, none where they do not fit."""
    if frames < length:
        return []
    count = min(CUTS, 1 + (frames - length) // length)
    return sorted({int(at) for at in np.linspace(0, frames - length, count)})


def _filled(
    body: Skeleton, turns: np.ndarray, root: np.ndarray, n: int, own: Library, network: Network | None
) -> tuple[float, float]:
    """L2P [mm] of Fill and of interpolation over a gap of ``n`` frames whose frames before are known, and one after."""
    keys = [*range(HISTORY), HISTORY - 1 + n, HISTORY + n]
    inside = slice(HISTORY, HISTORY - 1 + n)
    true = _heads(body, turns, root)[inside]
    made = filling.fill(body, turns, root, keys, own, network=network)
    plain = features.between_keys(turns, root, [HISTORY - 1, HISTORY - 1 + n])
    return (
        metrics.l2p(_heads(body, made.turns, made.root)[inside], true),
        metrics.l2p(_heads(body, *plain)[inside], true),
    )


def _gone_on(
    body: Skeleton, turns: np.ndarray, root: np.ndarray, own: Library, steps: Predictor | None
) -> tuple[np.ndarray, np.ndarray]:
    """MPJPE (AHEAD) [mm] of Continue and of the last pose, with the Hips at the origin."""
    true = _heads(body, turns, root)[HISTORY:]
    made = continuing.continue_(body, turns[:HISTORY], root[:HISTORY], AHEAD, own, steps=steps)
    went = _heads(body, made.turns, made.root)
    held = np.repeat(_heads(body, turns, root)[HISTORY - 1 : HISTORY], AHEAD, axis=0)
    return tuple(  # type: ignore[return-value]
        np.array([metrics.mpjpe_local(a[None], b[None]) for a, b in zip(heads, true, strict=True)])
        for heads in (went, held)
    )


def _heads(body: Skeleton, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    return fk.walk(body.parents, turns, body.offsets, root)[1]


def _fill_words(lengths: tuple[int, ...], fill: np.ndarray, straight: np.ndarray) -> Iterator[str]:
    """What the figures of Fill mean."""
    if not lengths:
        return
    ratio = fill / np.maximum(straight, 1e-9)
    better, much = (lengths[: _leading(ratio < least)] for least in (FAIR, GOOD))
    if much:
        yield f"Fill: trust it with keys up to {max(much) / FPS:.1f} s apart"
    elif better:
        yield f"Fill: a little better than interpolation, with keys up to {max(better) / FPS:.1f} s apart"
    else:
        yield "Fill: no better than interpolation on these actions; they have too little in common"
    for n, mine, plain in zip(lengths, fill, straight, strict=True):
        yield f"Keys {n / FPS:.1f} s apart: {mine:.0f} mm off, interpolation {plain:.0f}"


def _leading(flags: np.ndarray) -> int:
    """How many are true from the first one on, without a break."""
    return int(np.argmin(np.append(flags, False)))


def _ahead_words(went: np.ndarray, held: np.ndarray) -> Iterator[str]:
    """What the figures of Continue mean."""
    if not len(went):
        return
    nearer = went < held
    soon = _leading(nearer)
    late = len(nearer) - _leading(nearer[::-1])
    if soon:
        yield f"Continue: nearer to the true pose than holding still up to {soon / FPS:.1f} s ahead"
    elif late < len(nearer):
        yield f"Continue: nearer to the true pose than holding still from {late / FPS:.1f} s ahead on, and farther before"
    else:
        yield "Continue: as far from the true pose as holding still, so its motion is one of many that may follow"
    for seconds in SECONDS:
        row = min(round(seconds * FPS), len(went)) - 1
        yield f"After {seconds:.1f} s: {went[row]:.0f} mm off, holding the pose {held[row]:.0f}"
