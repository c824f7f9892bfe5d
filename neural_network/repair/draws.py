# SPDX-License-Identifier: GPL-3.0-or-later
"""Batches to learn repairs from: windows of clean motion, corrupted by chance, and what would make them clean again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.contacts import truth_contacts
from ..core.skeleton import Skeleton
from ..ik.foot_pins import forward
from ..motion import features
from ..motion.pose_set import PoseSet
from ..rigs import on_body
from . import corruption, plain
from .correction import Correction, between, numbers_of
from .corruption import KINDS
from .inputs import BONES, Seen, seen

FRAMES = 128
"""Of a window."""
CLEAN, ONE = 0.15, 0.3
"""Shares of windows that stay as they are, and that have a single corruption; the others are mixed."""
RATES = (0.85, 1.2)
COLLARS = ("LeftShoulder", "RightShoulder")
FEWEST = 20
"""Frames of the shortest take that is learned from."""


@dataclass(frozen=True)
class Take:
    """One clean take on the reference rig."""

    name: str
    turns: np.ndarray
    """(F, J, 3, 3) local core rotations."""
    root: np.ndarray
    """(F, 3) [m]."""

    @property
    def subject(self) -> str:
        """Who moves: what stands before the underscore."""
        return self.name.split("_")[0]


def take_name(clip: str) -> str:
    """The take that a clip holds, whatever file it was read from: 07_05 of "asfamc/07_05-walk"."""
    name = re.sub("^scaled_|_metres$", "", clip.split("/")[-1])
    return name.split("-")[0] if name[:1].isdigit() else name


def takes_of(poses: PoseSet) -> tuple[Skeleton, list[Take]]:
    """The body that the takes in a file are on, as characters are seen in use, and the takes, each once.

    ValueError where frame rates differ from 30, or the bones are not those of the reference rig.
    """
    if not np.allclose(poses.clip_fps, 30):
        raise ValueError("expected clips of 30 frames a second; import with --fps 30")
    if poses.skeleton.count != BONES or not set(on_body.NEEDED) <= set(poses.skeleton.names):
        raise ValueError(
            f"expected the reference rig's {BONES} bones, got {poses.skeleton.count}; import with --rig reference"
        )
    who = on_body.character(poses.skeleton, poses.skeleton.names)
    out: dict[str, Take] = {}
    for clip, label in enumerate(poses.clip_names):
        name, rows = take_name(label), poses.rows(clip)
        if name not in out:
            out[name] = Take(name, *on_body.to_body(who, poses.rot[rows], poses.root_pos[rows]))
    return who.body, list(out.values())


def true_contacts(skeleton: Skeleton, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(F, 2) bool: the truth that everything is measured by, of clean motion."""
    heads = forward(skeleton, turns, root)[1]
    return truth_contacts(heads[:, list(skeleton.feet)], heads[:, list(skeleton.toes)], skeleton.foot_rest)


@dataclass(frozen=True)
class Example:
    """A window of motion that went wrong, and what makes it clean."""

    turns: np.ndarray
    root: np.ndarray
    sight: Seen
    target: Correction
    plain: Correction | None
    """What the plain method does, where it is asked for."""
    contact: np.ndarray
    """(F, 2) bool of the clean motion."""
    kinds: np.ndarray
    """(6) 1 for what went wrong."""


def example(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    kinds: Sequence[str],
    rng: np.random.Generator,
    gated: bool = False,
) -> Example:
    """Clean motion with corruptions, as an example to learn from; ``gated``: with what the plain method makes of it."""
    still = [skeleton.names.index(name) for name in COLLARS]
    bad = corruption.corrupt(turns, root, kinds, rng, still)
    fixed = between(*bad, *plain.analytic(skeleton, *bad, 30.0)) if gated else None
    return Example(
        *bad,
        seen(skeleton, *bad),
        between(*bad, turns, root),
        fixed,
        true_contacts(skeleton, turns, root),
        np.array([float(kind in kinds) for kind in KINDS]),
    )


def window(
    skeleton: Skeleton,
    takes: Sequence[Take],
    chances: np.ndarray,
    rng: np.random.Generator,
    frames: int = FRAMES,
    gated: bool = False,
) -> Example:
    """A random window: of a take by ``chances`` (N), mirrored or not, slower or faster, and corrupted by chance."""
    take = takes[rng.choice(len(takes), p=chances)]
    rate = rng.uniform(*RATES) if rng.random() < 0.5 else 1.0
    wide = min(int(np.ceil(frames * rate)) + 1, len(take.root))
    first = int(rng.integers(0, len(take.root) - wide + 1))
    turns, root = take.turns[first : first + wide], take.root[first : first + wide]
    if rate != 1:
        turns, root = features.resampled(turns, root, np.arange(0, wide - 1, rate))
    turns, root = turns[:frames], root[:frames]
    if rng.random() < 0.5:
        turns, root = features.mirrored(skeleton, turns, root)
    dice = rng.random()
    kind = corruption.MIX if dice > CLEAN + ONE else KINDS[int(rng.integers(len(KINDS)))]
    return example(skeleton, turns, root, () if dice < CLEAN else corruption.drawn(kind, rng), rng, gated)


Batch = dict[str, np.ndarray]


def batch(
    skeleton: Skeleton,
    takes: Sequence[Take],
    count: int,
    rng: np.random.Generator,
    frames: int = FRAMES,
    gated: bool = False,
) -> Batch:
    """``count`` windows as arrays (count, frames, ...), float32; shorter ones go back where they came from at their end, and
    ``mask`` (count, frames) is 0 there. What only the gate sees is there where it is asked for."""
    chances = np.array([np.sqrt(len(t.root)) for t in takes])
    rows: dict[str, list[np.ndarray]] = {}
    for _ in range(count):
        one = window(skeleton, takes, chances / chances.sum(), rng, frames, gated)
        there = len(one.root)
        again = there - 1 - np.abs(np.arange(frames) % max(2 * there - 2, 1) - (there - 1))
        values = {
            "numbers": one.sight.numbers,
            "smooth": one.sight.smooth,
            "turns": one.turns,
            "root": one.root,
            "by": one.target.turns,
            "velocity": one.target.velocity,
            "height": one.target.height,
            "contact": one.contact,
        }
        if one.plain is not None:
            values |= {"physics": one.sight.physics, "plain": numbers_of(one.plain)}
        for name, value in values.items():
            kind = np.float16 if name in ("numbers", "smooth") else np.float32  # half the bytes between processes
            rows.setdefault(name, []).append(value[again].astype(kind))
        rows.setdefault("mask", []).append((np.arange(frames) < there).astype(np.float32))
        rows.setdefault("kinds", []).append(one.kinds.astype(np.float32))
    return {name: np.stack(values) for name, values in rows.items()}
