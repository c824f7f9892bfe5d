# SPDX-License-Identifier: GPL-3.0-or-later
"""Extract Data: a character's actions sampled into a PoseSet.

There are two ways, with the same result. The *fast* one reads the F-Curves and composes the rotations itself
(curve_sampling.py). The *evaluated* one lets Blender evaluate every frame (evaluated_sampling.py); it is used where
constraints, drivers, scale or unusual bone settings shape the pose. In both, bones that an action does not animate are at
rest, so no action affects the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from dataclasses import dataclass

import bpy
import numpy as np

from ...motion import pose_set
from ...motion.pose_set import PoseSet
from ..host.jobs import Progress
from ..host.rig import Rig, read
from . import curve_sampling, evaluated_sampling
from .takes import (
    FPS_KEY,
    PATHS,
    Options,
    Sampled,
    Take,
    find_takes,
    moving_actions,
    rate_of,
    take_frames,
    why_evaluated,
    why_take_evaluated,
)

__all__ = ["FPS_KEY", "Extraction", "Options", "extract", "moving_actions", "rate_of"]

LOOSE = 0.002  # of the body's size: a bone that moves from its place by more is reported
DIGITS = 6  # decimals kept [rad, m]


@dataclass(frozen=True)
class Extraction:
    """The result of :func:`extract`."""

    poses: PoseSet
    notes: tuple[str, ...]
    """What was left out or evaluated frame by frame, and why; one sentence each."""


def extract(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    chosen: Iterable[bpy.types.Action],
    options: Options | None = None,
    tasks: dict[str, str] | None = None,
) -> Generator[Progress, None, Extraction]:
    """Sample the ``chosen`` actions of the armature ``ob``; yields Progress, returns the Extraction.

    ``tasks`` maps names of actions to task types; others are guessed from the name. Frame, action, slot, NLA flags, pose and
    modifiers are restored when the generator ends, is closed, or fails. Raises ValueError, in words.
    """
    options = options or Options()
    if options.path not in PATHS:
        raise ValueError(f"path: expected one of {', '.join(PATHS)}, got {options.path!r}")
    if not options.step > 0:
        raise ValueError(f"step: expected a positive number of frames, got {options.step}")
    rig = read(ob)
    notes = list(rig.notes)
    takes = find_takes(scene, ob, rig, list(chosen), options, tasks or {}, notes)
    if not takes:
        raise ValueError("nothing to extract: " + (" ".join(notes) or f"no action moves the bones of {ob.name}"))
    frames = [take_frames(take, options) for take in takes]
    lengths = list(map(len, frames))
    rot, root = yield from _sample_all(scene, ob, rig, takes, frames, options, notes)
    if not options.root_motion:
        root = _without_travel(rig, root)
    poses = pose_set.make(
        rig.skeleton,
        # Float32 keys leave noise of a few 1e-7; without it, clips keep the content hash by which weights recognise them.
        np.round(rot.astype(np.float64), DIGITS),
        np.round(root.astype(np.float64), DIGITS),
        np.repeat(np.arange(len(takes)), lengths),
        [take.name for take in takes],
        [take.task for take in takes],
        np.array([take.fps / options.step for take in takes]),
    )
    return Extraction(poses, tuple(notes))


def _sample_all(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    rig: Rig,
    takes: list[Take],
    frames: list[np.ndarray],
    options: Options,
    notes: list[str],
) -> Generator[Progress, None, tuple[np.ndarray, np.ndarray]]:
    """rot_local (F, J, 3) [rad] and root_pos (F, 3) [m] of all takes one after the other, float32; adds to ``notes``."""
    total = sum(map(len, frames))
    rot = np.empty((total, rig.skeleton.count, 3), np.float32)
    root = np.empty((total, 3), np.float32)
    slow, done = why_evaluated(ob, rig), 0
    with contextlib.ExitStack() as stack:
        state: evaluated_sampling.SceneState | None = None
        for number, (take, own) in enumerate(zip(takes, frames, strict=True)):
            reason = slow or why_take_evaluated(ob, rig, take)
            if reason and options.path == "fast":
                raise ValueError(f"{take.name} cannot take the fast path: {reason}")
            if reason or options.path == "evaluated":
                if state is None:
                    state = evaluated_sampling.SceneState(scene, ob, rig, takes)
                    stack.callback(state.restore)
                    state.prepare()
                if reason and options.path == "auto":
                    notes.append(f"{take.name} was evaluated frame by frame: {reason}.")
                sampler = evaluated_sampling.sample(scene, ob, rig, take, own, state)
            else:
                sampler = curve_sampling.sample(rig, take, own)
            text = f"{take.name} ({number + 1} of {len(takes)})"
            rows = slice(done, done + len(own))
            rot[rows], root[rows], apart = yield from _with_progress(sampler, done, total, text)
            notes += _loose(rig, take, apart)
            done += len(own)
            yield Progress(done, total, text)
    return rot, root


def _with_progress(
    sampler: Generator[int, None, Sampled], done: int, total: int, text: str
) -> Generator[Progress, None, Sampled]:
    """The frames done within one take as Progress of them all."""
    while True:
        try:
            part = next(sampler)
        except StopIteration as end:
            sampled: Sampled = end.value
            return sampled
        yield Progress(done + part, total, text)


def _loose(rig: Rig, take: Take, apart: np.ndarray) -> list[str]:
    """A note where bones move from their places on their parents, which is lost: in poses every bone keeps its length."""
    limit = LOOSE * float(np.ptp(rig.skeleton.rest_arm[:, :3, 3], axis=0).max())
    moved = np.flatnonzero(apart > limit)
    if not len(moved):
        return []
    worst = int(np.argmax(apart))
    return [
        f"{take.name} moves {len(moved)} bones from their places on their parents, {rig.skeleton.names[worst]} most, by "
        f"{apart[worst] * 1000:.0f} mm; that was left out, because bones keep their length."
    ]


def _without_travel(rig: Rig, root: np.ndarray) -> np.ndarray:
    """Root positions (F, 3) without the travel over the ground: only the height is kept."""
    axes = rig.skeleton.axes
    core = root @ axes.T
    core[:, :2] = rig.skeleton.rest_core[0, :2, 3]
    return core @ axes
