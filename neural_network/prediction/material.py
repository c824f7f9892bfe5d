# SPDX-License-Identifier: GPL-3.0-or-later
"""Material: takes of pose files, one of each name, whose subjects and activities are known from their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..core.skeleton import Skeleton
from ..motion import pose_set
from ..rigs import on_body
from . import library
from .library import Take

NAMED = re.compile(r"^(\d+)_\d+$")  # subject and take, as the CMU database names them


def take_name(clip: str) -> str:
    """The take of a clip: its name without folder and without what follows a hyphen."""
    return clip.rsplit("/", 1)[-1].split("-")[0]


def subject_of(clip: str) -> str:
    """Whose a clip is: the part of its name before the underscore where it is SUBJECT_TAKE in numbers, else all of it."""
    name = take_name(clip)
    found = NAMED.match(name)
    return found.group(1) if found else name


def read(paths: Sequence[Path], *, only_numbered: bool = False) -> tuple[Skeleton, list[Take]]:
    """The body of pose files on one skeleton and its takes, of each name the longest.

    ``only_numbered`` leaves out clips that are not named SUBJECT_TAKE. Raises ValueError for files of different skeletons, and for
    none with a take.
    """
    rig: Skeleton | None = None
    takes: dict[str, Take] = {}
    for path in paths:
        poses = pose_set.load(path)
        rig = poses.skeleton if rig is None else rig
        rig.require_same(poses.skeleton, f"the motion in {path.name}")
        for take in library.takes_of(poses):
            name = take_name(take.name)
            if only_numbered and not NAMED.match(name):
                continue
            if name not in takes or len(take.root) > len(takes[name].root):
                takes[name] = Take(name, take.turns, take.root, take.fps)
    if rig is None or not takes:
        raise ValueError(f"expected takes named SUBJECT_TAKE in {', '.join(p.name for p in paths)}, got none")
    return on_body.found(rig).body, list(takes.values())


def without(takes: Sequence[Take], subjects: Sequence[str]) -> list[Take]:
    """Takes of other subjects."""
    return [take for take in takes if subject_of(take.name) not in subjects]


def of(takes: Sequence[Take], subjects: Sequence[str]) -> list[Take]:
    """Takes of these subjects."""
    return [take for take in takes if subject_of(take.name) in subjects]
