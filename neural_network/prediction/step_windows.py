# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows: stretches of takes as states, which predictors learn from; how predictors learn, as settings; what a take is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core import forward_kinematics as fk
from ..core.skeleton import Skeleton
from ..motion import features, states
from . import library, streaming
from .gaps import HISTORY
from .library import FPS, Take

ACTIVITIES = ("walk", "run", "jump")
"""In the order of a curriculum; whatever else there is comes last."""
RUNS, WALKS = 2.2, 0.5  # [m/s] from which a body runs, walks
AIR, JUMP = (
    0.12,
    5,
)  # height [leg lengths] above its rest at which a foot is off the floor; frames of both in the air are a jump
EVERY = 3  # frames between the begins of windows whose states depend on where they are seen from
RATES = (0.87, 1.15)  # takes are played slower and faster, too

VELOCITY = "adaptive"


@dataclass(frozen=True)
class Learning:
    """What a predictor learns by."""

    horizons: tuple[int, ...] = (1, 8, 30, 60)
    """Frames ahead, one after another in equal parts of the training; 1 is the next frame alone."""
    rollouts: str = "through"
    """Whether gradients go through what was said before."""
    rollout_share: float = 1.0
    """Share of batches that roll out; the others learn the next frame alone."""
    position: float = 1.0
    """Weight of the mean square error of places."""
    velocity: float | None = 0.1
    """Of speeds, a second; None: adaptive, the variance of places over that of speeds."""
    smooth: float = 0.0
    """Of squared second differences of places."""
    joints: float = 1.0
    """Of the mean distance of joints from the true ones, Hips at the origin [leg lengths]."""
    path: float = 0.3
    """Of the mean distance of the Hips along the ground [leg lengths], in rollouts."""
    contact: float = 0.01
    """Of the cross entropy of contacts."""
    noise: float = 0.0
    """Size of noise on known states, in their spreads."""
    curriculum: bool = False
    """Walks first, then runs too, then jumps, then everything."""
    seen: int = 64
    """Frames in a window where the next frame alone is learned, and the most that a Transformer looks at."""
    batch: int = 512


SOURCE = Learning(horizons=(5,), rollouts="detached", rollout_share=0.2, joints=0.0, path=0.0, contact=0.0, batch=256)
"""As the source document says: one state to the next on mean square errors, 20 % of batches roll out 5 steps, detached."""


def activity(body: Skeleton, take: Take) -> str:
    """What a take is about: by its name where that says it, else by how the body moves."""
    kind = streaming.kind_of(take.name)
    if kind != "other":
        return kind
    heads = fk.walk(body.parents, take.turns, body.offsets, take.root)[1]
    ankles = heads[:, list(body.feet), 2] - (body.foot_rest[:, 0] + 0.0)
    toes = heads[:, list(body.toes), 2] - body.foot_rest[:, 1]
    flies = np.minimum(ankles, toes).min(axis=1) > AIR * body.leg_length
    speed = float(np.linalg.norm(np.diff(take.root[:, :2], axis=0), axis=1).mean()) * FPS
    if speed >= RUNS:
        return "run"
    if flies.sum() >= JUMP:
        return "jump"
    return "walk" if speed >= WALKS else "other"


@dataclass(frozen=True)
class Windows:
    """States, and where windows begin in them."""

    rows: np.ndarray
    """(N, S) float32"""
    begin: np.ndarray
    """(W)"""
    frames: np.ndarray
    """(W) how many frames there are from each begin on."""
    kind: np.ndarray
    """(W) what each is about, a number of ``ACTIVITIES`` or one more."""

    def at_least(self, frames: int, kind: int = len(ACTIVITIES)) -> np.ndarray:
        """The begins of windows that are so long, of kinds up to ``kind``."""
        return self.begin[(self.frames >= frames) & (self.kind <= kind)]


def windows(layout: str, body: Skeleton, takes: Sequence[Take], length: int, augmented: bool) -> Windows:
    """All windows of takes, of ``length`` frames at most; ``augmented``: mirror images too, and every take slower and faster.

    States of ``dof56`` are seen from the last known frame, so these windows are written out, every third begin.
    """
    rows: list[np.ndarray] = []
    begins: list[np.ndarray] = []
    frames: list[np.ndarray] = []
    kinds: list[int] = []
    at = 0
    for take in takes:
        about = activity(body, take)
        number = ACTIVITIES.index(about) if about in ACTIVITIES else len(ACTIVITIES)
        for turns, root in _versions(body, take, augmented):
            count = len(root) - HISTORY
            if count < 1:
                continue
            if states.layout(layout).follows:
                rows.append(states.of_motion(layout, body, turns, root))
                begins.append(at + np.arange(count))
                frames.append(len(root) - np.arange(count))
            else:
                places = states.dofs(turns, root)
                own = [slice(f, f + length) for f in range(0, count, EVERY)]
                seen = [_seen(places[w], turns[w], root[w]) for w in own]
                frames.append(np.array([len(one) for one in seen]))
                begins.append(at + np.concatenate([[0], np.cumsum(frames[-1])[:-1]]))
                rows += seen
            at += len(root) if states.layout(layout).follows else int(frames[-1].sum())
            kinds += [number] * len(begins[-1])
    if not rows:
        raise ValueError(f"expected a take of more than {HISTORY} frames, got {len(takes)} without; add motion")
    every = np.concatenate(rows).astype(np.float32)
    return Windows(every, np.concatenate(begins), np.concatenate(frames), np.array(kinds))


def _versions(body: Skeleton, take: Take, augmented: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    turns, root = library.at_rate(take)
    found = [(turns, root)]
    if augmented:
        for rate in RATES:
            found.append(features.resampled(turns, root, np.arange(0, len(root) - 1 + 1e-9, rate)))
        found += [features.mirrored(body, *one) for one in found]
    return found


def _seen(places: np.ndarray, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    """States of ``dof56`` of a window with degrees of freedom ``places`` (F, 56), seen from its last known frame."""
    place = features.place_at(turns, root, min(HISTORY, len(root)) - 1)
    hips, root = features.seen_from(place, turns[:, :1], root)
    own = places.copy()
    own[:, :6] = states.root_dofs(hips[:, 0], root)
    return states.of_dofs(own)


def measures(layout: str, found: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What states are measured by: mean and spread (S), and the size (outputs without contacts) of what a network says: changes of
    speeds, or of all numbers."""
    own = states.layout(layout)
    mean, spread = found.rows.mean(axis=0, dtype=np.float64), found.rows.std(axis=0, dtype=np.float64)
    pairs = found.rows[found.begin + 1] - found.rows[found.begin]
    change = pairs[:, own.places : own.places + own.speeds] if own.follows else pairs
    return mean, np.maximum(spread, _least(spread)), np.maximum(change.std(axis=0), _least(change.std(axis=0)))


def _least(spread: np.ndarray) -> float:
    return max(1e-4, 0.05 * float(np.median(spread)))
