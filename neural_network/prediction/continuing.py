# SPDX-License-Identifier: GPL-3.0-or-later
"""Continue: a motion goes on in the character's way, for as long as wanted, towards a place or a heading where one is given.

The first two seconds are the average of the library's nearest windows, played on; from then on the library is searched anew every
half second for what looks and moves alike, and played, so that nobody freezes or slows down. Towards a goal that is so from the
start. Feet that stand are held. Core axes, metres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.skeleton import Skeleton
from ..ik import held_feet
from ..motion import features
from . import blending, gaps, nearest
from .filling import STANDS
from .gaps import HISTORY, Gaps
from .library import FPS, PLACES, Library, numbers_of
from .nearest import Window
from .predictor import Predictor

PREDICTED = 60  # frames at 30 a second that are an average
AGAIN = 15  # frames at 30 a second after which the library is searched again
CHOICES = 8  # windows to choose from, where the nearest one comes to a halt
HALTS = 0.5  # share of the pace below which a window does
STAYS = 0.6  # of the cost of another frame that going on with the same clip may have
HISTORY_SPEED = 0.5  # how much of the speed at the beginning stays in mind
TURNS = np.radians(60.0)  # a second, at most, that a body turns towards its goal
HELD = np.radians(30.0)  # a second, at most, by which a clip is bent towards the goal beside its own turning
WALKS = 0.4  # [m/s] from which a body has a pace to keep
FASTER = 1.15  # factor by which clips are played faster or slower at most to keep it, and steps are longer or shorter
CYCLE = 30  # frames at 30 a second of two steps
CHANGES = 1.6  # factor of the pace from which a body that is predicted to go faster or slower does so from then on
ARRIVED = 0.4  # [m] from the goal at which the body no longer turns to it
MOST_SECONDS = 60.0


@dataclass(frozen=True)
class Continued:
    """What follows a motion."""

    turns: np.ndarray
    """(N, J, 3, 3) local core rotations of the new frames."""
    root: np.ndarray
    """(N, 3) [m]"""
    contact: np.ndarray
    """(N, feet) bool, feet that stand."""
    source: np.ndarray
    """(N) the library's frame that was nearest."""


def continue_(
    body: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    frames: int,
    library: Library,
    *,
    fps: float = FPS,
    seed: int = 0,
    detail: float = 0.0,
    steps: Predictor | None = None,
    goal: np.ndarray | None = None,
    heading: float | None = None,
    hold: bool = True,
) -> Continued:
    """``frames`` frames after a motion.

    Args:
        body: with the reference rig's bones; ``library`` is of the same body.
        turns: (H, J, 3, 3) local core rotations so far; the last third of a second counts. One frame is enough.
        root: (H, 3) [m] the Hips' head, on a floor at height 0.
        frames: how many to make.
        library: to search.
        fps: frames a second of both.
        seed: 0 is the likeliest motion, others are variations of it.
        detail: 0 to 1, see :func:`.filling.steps`.
        steps: what it says of the first two seconds goes into that average as far as :mod:`.blending` says; None: nothing does.
        goal: (2) [m] a place on the floor to go to.
        heading: [rad] about +Z, 0 along -Y, to go in; not with ``goal``.
        hold: whether standing feet are held.

    Raises ValueError for no frames, too many, or an empty motion.
    """
    features.require_rate(fps)
    if not len(root):
        raise ValueError("continue: expected at least one frame to go on from, got none")
    if not 1 <= frames <= MOST_SECONDS * fps:
        raise ValueError(f"continue: expected 1 to {MOST_SECONDS * fps:.0f} frames, got {frames}")
    if goal is not None and heading is not None:
        raise ValueError("continue: expected a goal or a heading, got both")
    step = fps / FPS
    count = int(np.ceil(frames / step))
    before = min(HISTORY, int((len(root) - 1) / step) + 1)
    past = features.resampled(turns, root, len(root) - 1 - step * np.arange(before)[::-1])
    way = None if goal is None and heading is None else (goal, heading)
    made, phase = _predicted(past, min(count, PREDICTED), library, seed, detail, steps, steered=way is not None)
    track = _Track(library, *made, before, seed, phase)
    while track.frames < before + count:
        track.play_on(way)
    known = int((before - 1) * step) + 1  # frames at the motion's own rate, for feet that go on standing
    times = before - 1 + np.arange(1 - known, frames + 1) / step
    out_turns, out_root = features.resampled(track.turns, track.root, times)
    near = np.minimum(np.rint(times).astype(int), track.frames - 1)
    contact, source = track.contact[near], track.source[near]
    if hold and contact.any():
        held = held_feet.hold(body, out_turns, out_root, contact, fps, fixed=np.arange(len(times)) < known)
        out_turns, out_root = held.turns, held.root
    return Continued(out_turns[known:], out_root[known:], contact[known:], source[known:])


Past = tuple[np.ndarray, np.ndarray]


def _predicted(
    past: Past,
    count: int,
    library: Library,
    seed: int,
    detail: float,
    steps: Predictor | None,
    steered: bool,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], float]:
    """Turns, root, contact and source of what is known and of the next ``count`` frames, where nobody says how the way goes and the
    library has something to go on with; and by what factor the pace of the frames known is to be taken (:func:`_phase`)."""
    before = len(past[1])
    known = (*past, np.zeros((before, len(library.body.feet)), bool), np.full(before, -1)), 1.0
    if steered:
        return known
    gap = Gaps(
        np.concatenate([past[0], np.repeat(past[0][-1:], count, axis=0)])[None],
        np.concatenate([past[1], np.repeat(past[1][-1:], count, axis=0)])[None],
        before,
        0,
    )
    own, place = gaps.local(gap)
    guide = gaps.guides(library, own, choice=seed)
    if not np.isfinite(guide.windows[0].cost[0]):
        return known
    # What is held still where little fits is right on average; whoever asks for motion wants some, so the average of windows is taken.
    rows, stands = guide.mean, guide.contact > STANDS
    sharing = None if steps is None or before < 2 else blending.sharing_of(steps)
    if steps is not None and sharing is not None:
        shares = blending.share(sharing, guide.spread[:, before:])[..., None]
        said = steps.rows(library.body, own.turns[:, :before], own.root[:, :before], count)
        rows = np.concatenate([rows[:, :before], rows[:, before:] + shares * (said - rows[:, before:])], axis=1)
    rows = rows + detail * (guide.best - rows)
    turns, root = features.put_at(place, *features.from_rows(np.asarray(rows, float), library.body.leg_length))
    turns[0, :before], root[0, :before] = past
    made = turns[0], root[0], stands[0] & ~own.known[:, None], guide.source[0]
    return made, _phase(library, guide.windows, before)


def _phase(library: Library, windows: Sequence[Window], before: int) -> float:
    """How fast somebody goes over whole steps who is as fast in ``before`` frames as the library's windows are in as many before they
    begin: within a step the Hips hurry and wait."""
    found = []
    for window in windows:
        at = int(window.begin[0])
        if not np.isfinite(window.cost[0]):
            continue
        clip = np.flatnonzero(library.clip == library.clip[at])
        first, last = max(int(clip[0]), at - CYCLE // 2), min(int(clip[-1]), at + CYCLE)
        way = np.linalg.norm(np.diff(library.root[first : last + 1, :2].astype(float), axis=0), axis=1)
        own = way[max(0, at - first - before + 1) : at - first]
        if len(own) < max(1, before // 2) or len(way) < CYCLE or min(own.mean(), way.mean()) * FPS < WALKS:
            continue
        found.append(np.log(way.mean() / own.mean()))
    return float(np.exp(np.clip(np.mean(found), -np.log(FASTER), np.log(FASTER)))) if found else 1.0


class _Track:
    """A motion that grows by what the library plays."""

    def __init__(
        self,
        library: Library,
        turns: np.ndarray,
        root: np.ndarray,
        contact: np.ndarray,
        source: np.ndarray,
        before: int,
        seed: int,
        phase: float = 1.0,
    ) -> None:
        self.library, self.turns, self.root, self.contact, self.source = library, turns, root, contact, source
        self.seed = seed
        self.steady = self.numbers(before - 1) if before > 1 else None
        self.before = before
        ways = np.linalg.norm(np.diff(root[:, :2], axis=0), axis=1)
        self.pace = phase * float(ways[: before - 1].mean()) if before > 1 else 0.0  # [m a frame] to be kept
        if len(root) >= before + CYCLE:  # what the body has come to, where it does not go on as it began
            later = float(ways[-CYCLE:].mean())
            if later * FPS > WALKS and not self.pace / CHANGES < later < self.pace * CHANGES:
                self.pace, self.steady = later, self.numbers(self.frames - 1)

    @property
    def frames(self) -> int:
        """Frames so far."""
        return len(self.root)

    def numbers(self, last: int) -> np.ndarray:
        """(41) of a frame and how it moves."""
        first = max(0, last - 3)
        return numbers_of(self.library.body, self.turns[first : last + 1], self.root[first : last + 1])[1][-1]

    def play_on(self, way: tuple[np.ndarray | None, float | None] | None) -> None:
        """Add the next ``AGAIN`` frames."""
        own, last = self.library, self.frames - 1
        wanted = self.numbers(last)
        moving = last > 0
        if self.steady is not None:
            wanted = wanted.copy()
            wanted[PLACES:] += HISTORY_SPEED * (self.steady[PLACES:] - wanted[PLACES:])
        turn = None if way is None else np.array([self.wish(way)])
        ends = nearest.Ends(AGAIN, wanted[None], turn=turn, moves=(moving, False))
        windows = nearest.varied(own, ends, self.seed if last < self.before else 0, CHOICES)
        windows = [window for window in windows if np.isfinite(window.cost[0])]
        begins = [int(window.begin[0]) for window in windows]
        here = int(self.source[last])
        if way is None and here >= 0 and own.left[here] >= AGAIN:
            cost = float(own.weighed(np.sum((own.numbers[[here]] - wanted) ** 2, axis=1), np.array([here]))[0])
            if not windows or STAYS * cost <= float(windows[0].cost[0]):
                begins.insert(0, here)
        begin = next((b for b in begins if self.goes(b)), begins[0] if begins else max(here, 0))
        played, frames = self.paced(begin)
        if way is not None:
            played = self.bent(*played, self.wish(way))
        placed = features.put_at(features.place_at(self.turns, self.root, last), *played)
        pair = [max(0, last - 1), last]
        turns, root = nearest.bridge(placed[0][None], placed[1][None], (self.turns[None, pair], self.root[None, pair]))
        self.turns = np.concatenate([self.turns, turns[0, 1:]])
        self.root = np.concatenate([self.root, root[0, 1:]])
        self.contact = np.concatenate([self.contact, own.contact[frames[1:]]])
        self.source = np.concatenate([self.source, frames[1:]])

    def goes(self, begin: int) -> bool:
        """Whether the library goes on from ``begin`` about as far as a walk at this pace does: nobody who walks comes to a halt."""
        own = self.library
        if self.pace * FPS < WALKS:
            return True
        some = min(AGAIN, int(own.left[begin]))
        return bool(np.linalg.norm(own.root[begin + some, :2] - own.root[begin, :2]) >= HALTS * self.pace * some)

    def paced(self, begin: int) -> tuple[Past, np.ndarray]:
        """``AGAIN`` frames of the library from ``begin``, or as many as its clip has, at the pace of the beginning: played a
        little slower or faster, with steps a little shorter or longer. Also the library's frames they are (rounded)."""
        own = self.library
        some = min(AGAIN, int(own.left[begin]))
        rows = slice(begin, begin + some + 1)
        turns, root = own.turns[rows].astype(float), own.root[rows].astype(float)
        place = features.Place(root[0, :2].copy(), own.heading[begin])
        turns, root = features.seen_from(place, turns, root)
        pace = float(np.linalg.norm(np.diff(root[:, :2], axis=0), axis=1).mean())
        ratio = self.pace / pace if self.pace * FPS > WALKS and pace * FPS > WALKS else 1.0
        rate = float(np.clip(np.sqrt(ratio), 1 / FASTER, FASTER))
        stride = float(np.clip(ratio / rate, 1 / FASTER, FASTER))
        times = np.arange(0, some + 1e-9, rate)
        root[:, :2] *= stride
        return features.resampled(turns, root, times), begin + np.rint(times).astype(int)

    def wish(self, way: tuple[np.ndarray | None, float | None]) -> float:
        """[rad] by how much the body is to turn in the next frames."""
        goal, heading = way
        now = float(features.headings(self.turns[:, 0])[-1])
        if goal is not None:
            ahead = np.asarray(goal, float) - self.root[-1, :2]
            if np.linalg.norm(ahead) < ARRIVED:
                return 0.0
            heading = float(np.arctan2(ahead[0], -ahead[1]))
        assert heading is not None
        turn = (heading - now + np.pi) % (2 * np.pi) - np.pi
        most = TURNS * AGAIN / FPS
        return float(np.clip(turn, -most, most))

    def bent(self, turns: np.ndarray, root: np.ndarray, wish: float) -> tuple[np.ndarray, np.ndarray]:
        """A clip seen from its first frame whose way turns more nearly as it is wished."""
        most = HELD * (len(root) - 1) / FPS
        own = features.headings(turns[:, 0])
        more = float(np.clip(wish - (own[-1] - own[0]), -most, most)) * np.linspace(0, 1, len(root))
        turn = features.yaw(more)
        out = turns.copy()
        out[:, 0] = turn @ turns[:, 0]
        steps = np.einsum("fab,fb->fa", turn[:-1], np.diff(root, axis=0))
        return out, root[0] + np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])
