# SPDX-License-Identifier: GPL-3.0-or-later
"""The library: motion of one body that is searched and played, its own actions first, with what every frame looks like.

Frames are compared by *numbers*: where hands, feet and head are relative to the Hips, how the Hips stand, and how all that moves,
seen from where the body looks, in leg lengths and seconds. Core axes, metres inside; 30 frames a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core import contacts, rotations
from ..core import forward_kinematics as fk
from ..core.skeleton import Skeleton
from ..motion import features
from ..motion.pose_set import PoseSet
from ..rigs import on_body

FPS = 30.0
"""Frames a second of everything in this wing."""
HANDS, FEET, HEAD, HEIGHT, HIPS, TURNING = 0.63, 1.6, 1.6, 1.6, 0.8, 0.12
MOVES, TRAVELS = 0.12, 0.49
"""What counts how much: places of hands, feet and head and the height of the Hips (by leg length), their rotation (6D), the change of
heading [s], velocities of hands, feet and head, and of the Hips [s]. Found by a search over gaps of training takes without their
own take, half of them without their subject's; no take that figures are measured on was looked at."""
PLACES = 22
"""Numbers that say how a body stands; those behind them say how it moves."""
BELOW, ABOVE = 0.05, 0.25  # [leg lengths] a lowest foot that is farther from the floor stands on another one
NO_FAVOUR = 1e-6  # less is none
SHORTEST = 8
"""Frames that a clip must have."""


@dataclass(frozen=True)
class Take:
    """One clip on the library's body."""

    name: str
    turns: np.ndarray
    """(F, J, 3, 3) local core rotations."""
    root: np.ndarray
    """(F, 3) [m] the Hips' head."""
    fps: float = FPS
    """Frames a second."""


@dataclass(frozen=True)
class Library:
    """All frames of all clips, one after another."""

    body: Skeleton
    names: tuple[str, ...]
    """Of the clips."""
    clip: np.ndarray
    """(N) the clip of every frame."""
    turns: np.ndarray
    """(N, J, 3, 3) float32 local core rotations."""
    root: np.ndarray
    """(N, 3) float32 [m] the Hips' head."""
    heading: np.ndarray
    """(N) [rad], continuous in each clip."""
    numbers: np.ndarray
    """(N, 41) float32: how each frame looks and moves."""
    contact: np.ndarray
    """(N, feet) bool, feet that stand."""
    left: np.ndarray
    """(N) how many frames of the clip follow."""
    favour: np.ndarray | None = None
    """(clips) 0 to 1, how much each clip is to be taken after; None: every one alike. See :func:`favouring`."""

    @cached_property
    def back(self) -> np.ndarray:
        """(N, 3, 3) float32 rotations about +Z that undo each frame's heading."""
        return features.yaw(-self.heading).astype(np.float32)

    @cached_property
    def upper(self) -> np.ndarray:
        """(41) bool: numbers about hands and head."""
        feet = np.repeat([bone in self.body.feet for bone in self.body.effectors], 3)
        still = np.ones(PLACES - len(feet), bool)
        return ~np.concatenate([feet, still, np.ones(3, bool), feet, [True]])

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.root)

    def weighed(self, cost: np.ndarray, frames: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Costs (..., F) of taking ``frames`` (F): that of a clip with half the favour is twice as high, with none infinite."""
        if self.favour is None:
            return cost
        favour = self.favour.astype(np.float32)[self.clip[frames]]
        none = favour < NO_FAVOUR
        return np.where(none, np.inf, np.maximum(cost, 1e-6) / np.where(none, 1, favour))


def of_takes(body: Skeleton, takes: Sequence[Take], mirror: bool = True) -> Library:
    """A library of clips; ``mirror`` adds every clip with left and right exchanged.

    Clips are brought to 30 frames a second; those of fewer than eight frames are left out. Raises ValueError where none is left.
    """
    parts: list[tuple[str, np.ndarray, np.ndarray]] = []
    for take in takes:
        turns, root = at_rate(take)
        if len(root) < SHORTEST:
            continue
        parts.append((take.name, turns, root))
        if mirror:
            parts.append((take.name, *features.mirrored(body, turns, root)))
    if not parts:
        raise ValueError(
            f"expected at least one clip of {SHORTEST} frames or more, got {len(takes)} without; add actions"
        )
    rows = [_described(body, turns, root) for _, turns, root in parts]
    heading, numbers, contact = (np.concatenate(column) for column in zip(*rows, strict=True))
    counts = [len(root) for *_, root in parts]
    return Library(
        body,
        tuple(name for name, *_ in parts),
        np.repeat(np.arange(len(parts)), counts),
        np.concatenate([turns for _, turns, _ in parts]).astype(np.float32),
        np.concatenate([root for *_, root in parts]).astype(np.float32),
        heading,
        numbers,
        contact,
        np.concatenate([np.arange(count)[::-1] for count in counts]),
    )


def joined(libraries: Sequence[Library]) -> Library:
    """Several libraries of one body as one, the first one's clips first."""
    counts = np.cumsum([0, *(len(own.names) for own in libraries)])
    columns = ("turns", "root", "heading", "numbers", "contact", "left")
    return Library(
        libraries[0].body,
        tuple(name for own in libraries for name in own.names),
        np.concatenate([own.clip + at for own, at in zip(libraries, counts, strict=False)]),
        *(np.concatenate([getattr(own, column) for own in libraries]) for column in columns),
    )


def favouring(own: Library, weights: Mapping[str, float]) -> Library:
    """The library with clips, by their names, that are to be taken after less than others: 1 as all others, 0 never.

    Raises ValueError for a clip that is not there, a number below 0 or above 1, and where nothing is left.
    """
    for name, weight in weights.items():
        if name not in own.names:
            some = ", ".join(sorted(set(own.names))[:5])
            raise ValueError(f"weights of clips: expected names of clips, such as {some}; got {name}")
        if not 0 <= weight <= 1:
            raise ValueError(f"weights of clips: expected numbers from 0 to 1, got {weight} for {name}")
    favour = np.array([weights.get(name, 1.0) for name in own.names])
    if not favour.any():
        raise ValueError("weights of clips: expected one above 0, got none; there would be nothing to take motion from")
    return replace(own, favour=None if np.all(favour == 1) else favour)


def takes_of(poses: PoseSet, body: Skeleton | None = None) -> list[Take]:
    """The clips of a pose set on the body of its own character, or on ``body``: then with the travel of its legs, and its feet on the
    same floor. The floor is at height 0 where the pose set says where it is.

    Raises ValueError for a character without hips, legs or feet.
    """
    whose = on_body.found(poses.skeleton)
    for fps in poses.clip_fps.tolist():
        features.require_rate(fps)
    out = []
    for c, name in enumerate(poses.clip_names):
        rows = poses.rows(c)
        turns, root = on_body.to_body(whose, poses.rot[rows], poses.root_pos[rows])
        if poses.ground is not None:
            root[:, 2] -= poses.ground[c]
        if body is not None and body is not whose.body:
            scale = body.leg_length / whose.body.leg_length
            height = scale * _floor(whose.body, turns, root)
            root = scale * root
            root[:, 2] += height - _floor(body, turns, root)
        out.append(Take(name, turns, root, float(poses.clip_fps[c])))
    return out


def _floor(body: Skeleton, turns: np.ndarray, root: np.ndarray) -> float:
    """[m] the height of the floor under a motion."""
    heads = fk.walk(body.parents, turns, body.offsets, root)[1]
    ankles, toes = (heads[:, list(ends)] for ends in (body.feet, body.toes))
    return contacts.ground_height(contacts.foot_heights(ankles, toes, body.foot_rest - body.floor))


def floor_under(body: Skeleton, turns: np.ndarray, root: np.ndarray, above: float = ABOVE) -> float:
    """[m] the height of the floor under known frames: 0, unless their lowest foot is far below it, or ``above`` leg lengths above."""
    heads = fk.walk(body.parents, turns, body.offsets, root)[1]
    feet = [heads[:, list(ends)] for ends in (body.feet, body.toes)]
    lowest = float(contacts.foot_heights(feet[0], feet[1], body.foot_rest - body.floor).min())
    leg = body.leg_length
    return lowest if not -BELOW * leg < lowest < above * leg else 0.0


def at_rate(take: Take) -> tuple[np.ndarray, np.ndarray]:
    """Turns and root of a clip at 30 frames a second."""
    if abs(take.fps - FPS) < 0.01 or len(take.root) < 2:
        return take.turns, take.root
    count = int(np.floor((len(take.root) - 1) * FPS / take.fps + 1e-6)) + 1
    return features.resampled(take.turns, take.root, np.arange(count) * take.fps / FPS)


def numbers_of(body: Skeleton, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Headings (F) [rad] and numbers (F, 41) of a motion at 30 frames a second; of a single frame, it stands still."""
    turned, heads = fk.walk(body.parents, turns, body.offsets, root)
    return _numbers(body, turned, heads)


def _described(body: Skeleton, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    turned, heads = fk.walk(body.parents, turns, body.offsets, root)
    heading, numbers = _numbers(body, turned, heads)
    feet = [heads[:, list(ends)] for ends in (body.feet, body.toes)]
    rest, scale = body.foot_rest - body.floor, contacts.size_of(body.leg_length)
    return heading, numbers, contacts.truth_contacts(feet[0], feet[1], rest, scale=scale)


def _numbers(body: Skeleton, turned: np.ndarray, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    heading = features.headings(turned[:, 0])
    back = features.yaw(-heading)
    leg = body.leg_length
    ends = np.einsum("fab,fjb->fja", back, heads[:, list(body.effectors)] - heads[:, :1]) / leg
    hips = rotations.sixd_from_matrix(back @ turned[:, 0])
    kinds = np.array([HEAD if "Head" in body.names[b] else FEET if b in body.feet else HANDS for b in body.effectors])
    ends *= kinds[:, None]
    if len(heads) > 1:
        step = np.diff(heads, axis=0)
        step = np.concatenate([step[:1], 0.5 * (step[1:] + step[:-1]), step[-1:]])
        turn = np.gradient(heading)
    else:
        step, turn = np.zeros_like(heads), np.zeros(1)
    moving = [0, *body.effectors]
    speed = (
        np.einsum("fab,fjb->fja", back, step[:, moving])
        * (FPS / leg)
        * np.array([TRAVELS, *(MOVES for _ in body.effectors)])[:, None]
    )
    parts = [ends.reshape(len(ends), -1), heads[:, 0, 2:] * (HEIGHT / leg), HIPS * hips, speed.reshape(len(ends), -1)]
    parts.append((turn * FPS * TURNING)[:, None])
    return heading, np.concatenate(parts, axis=1).astype(np.float32)
