# SPDX-License-Identifier: GPL-3.0-or-later
"""Clips of a file, each mended and written again: what the commands that do so have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from ..core.messages import Say
from ..motion import pose_set
from ..motion.pose_set import PoseSet
from .foot_pins import Ground, flat_ground

MEASURES = (("slide a frame", "slide_mm"), ("float", "float_mm"), ("below the floor", "penetration_mm"))


class Mended(Protocol):
    """One clip, mended."""

    @property
    def rot(self) -> np.ndarray:
        """(F, J, 3) [rad] rot_local."""

    @property
    def root(self) -> np.ndarray:
        """(F, 3) [m] the root's head."""

    @property
    def contact(self) -> np.ndarray:
        """(F, 2) bool"""

    @property
    def sound(self) -> bool:
        """Nothing was changed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user."""


_Made = TypeVar("_Made", bound=Mended)


def floor_of(poses: PoseSet, clip: int) -> Ground:
    """The level floor of a clip."""
    if poses.ground is None or not poses.ground[clip]:
        return flat_ground
    height = float(poses.ground[clip])
    return lambda points: np.full(points.shape[:-1], height)


def before_and_after(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Slide, float and penetration of a clip in words."""
    return [f"{words} {before[key]:.1f} to {after[key]:.1f} mm" for words, key in MEASURES]


def mend(
    poses: PoseSet,
    make: Callable[[int, slice, float], _Made],
    line: Callable[[str, _Made], str],
    say: Say,
    output: Path,
    columns: Callable[[list[_Made | None]], dict[str, np.ndarray]],
) -> None:
    """Mend every clip and write them all, whole or not at all.

    Args:
        poses: the clips.
        make: mends one, given its number, rows and frames a second; ValueError where it cannot: then the clip stays as it is.
        line: what is said of it, given its name.
        say: where lines go.
        output: the file; it has `contact` and `judged_sound` too.
        columns: what else it has, from all clips; None stands for one that could not be mended.

    Raises ValueError where no clip could be mended.
    """
    rot, root, contact = poses.rot.copy(), poses.root_pos.copy(), np.zeros((poses.frames, 2), bool)
    every: list[_Made | None] = []
    refused = []
    for clip, name in enumerate(poses.clip_names):
        rows = poses.rows(clip)
        try:
            done = make(clip, rows, float(poses.clip_fps[clip]))
        except ValueError as error:
            refused.append(f"{name}: {error}")
            every.append(None)
            continue
        every.append(done)
        rot[rows], root[rows], contact[rows] = done.rot, done.root, done.contact
        say(line(name, done))
        for note in done.notes:
            say(f"  {note}")
    if len(refused) == len(every):
        raise ValueError(refused[0])
    for words in refused:
        say(f"note: {words}; left as it is", error=True)
    sound = np.array([done is None or done.sound for done in every])
    same = poses if sound.all() else replace(poses, rot=rot.astype(np.float32), root_pos=root.astype(np.float32))
    pose_set.save(output, same, {"contact": contact, **columns(every), "judged_sound": sound})
