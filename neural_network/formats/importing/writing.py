# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the clips of an import, one npz for each skeleton."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...core.reference_rig import reference
from ...core.skeleton import Skeleton, mirrored_bones
from ...ik import context
from ...motion import cleaning, pose_set
from . import floors
from .grouping import group_by_skeleton
from .options import ImportOptions
from .own_rig import OwnPoses, own_skeleton
from .parts import StoredClip, stored_clips
from .reports import WrittenFile


def write_all(
    parts: Sequence[tuple[Path, str, int]], output: Path, folder: Path, options: ImportOptions
) -> Iterator[WrittenFile]:
    """Write all clips in ``parts``, given as part, its source file and its number of clips; yields each file written.

    Files that are not complete yet stay in ``folder``. Raises OSError if a file cannot be written.
    """
    known: dict[str, OwnPoses] = {}
    clips = [clip for part, source, count in parts for clip in stored_clips(part, source, count, known)]
    groups = [clips] if options.rig == "reference" else group_by_skeleton(clips)
    groups = [_on_shared_floors(group) for group in groups]
    paths = outputs(output, [group[0].name for group in groups])
    for path, group in zip(paths, groups, strict=True):
        own = group[0].own
        rig = reference() if own is None else own_skeleton(own, group[0].up_axis, group[0].unit)
        frames, count = _write(path, folder, group, rig, options)
        outvoted, lifted = sum(clip.outvoted for clip in group), tuple(clip.name for clip in group if clip.lift)
        yield WrittenFile(str(path), rig.count, count, frames, group[0].name, outvoted, lifted)


def _on_shared_floors(clips: Sequence[StoredClip]) -> list[StoredClip]:
    """The clips, those in which nobody stands on the floor of the other clips of the same body, where these agree on one."""
    lifts = floors.lifts([clip.taken for clip in clips])
    return [replace(clip, lift=lift) if lift else clip for clip, lift in zip(clips, lifts, strict=True)]


def _grounds(clips: Sequence[StoredClip], rig: Skeleton) -> np.ndarray | None:
    """Heights (C) [m] of the floor under clips on their own rig; None where their feet show all of them.

    A clip on its own rig keeps its heights, and where nobody stands in it the floor is said instead.
    """
    below = [clip.lift + (clip.taken.floor.drop / clip.taken.floor.leg if clip.taken.floor else 0.0) for clip in clips]
    if not any(below):
        return None
    shown = [float(context.prepare(clip.poses(rig)).ground[:1].sum()) for clip in clips]
    return np.array(shown) - rig.leg_length * np.array(below)


def outputs(output: Path, names: Sequence[str]) -> list[Path]:
    """A path for each skeleton: ``output`` for a single one, else files beside it named after ``names``, the first clips."""
    if len(names) == 1:
        return [output]
    out: list[Path] = []
    taken: set[str] = set()
    for name in names:
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
        number, label = 1, safe
        while label.lower() in taken:
            number += 1
            label = f"{safe}-{number}"
        taken.add(label.lower())
        out.append(output.with_name(f"{output.stem}-{label}{output.suffix}"))
    return out


def _write(
    path: Path, folder: Path, clips: Sequence[StoredClip], rig: Skeleton, options: ImportOptions
) -> tuple[int, int]:
    """Write the clips of one skeleton, one in memory at a time; returns the numbers of frames and clips."""
    partners = mirrored_bones(rig) if options.mirror else None
    names = unique_names([(clip.name, clip.source) for clip in clips])
    lengths = [clip.frames for clip in clips]
    fps = [clip.fps for clip in clips]
    ground = None if clips[0].own is None else _grounds(clips, rig)
    if partners is not None:
        names = [name for name in names for name in (name, f"{name} mirrored")]
        lengths = [length for length in lengths for _ in range(2)]
        fps = [rate for rate in fps for _ in range(2)]
        ground = None if ground is None else np.repeat(ground, 2)

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for clip in clips:
            poses = clip.poses(rig)
            yield poses.rot, poses.root_pos
            if partners is not None:
                yield cleaning.mirror(rig, poses.rot, poses.root_pos, partners)

    pose_set.save_blocks(path, rig, blocks, lengths, names, None, np.array(fps), ground, folder)
    return sum(lengths), len(lengths)


def unique_names(named: Sequence[tuple[str, str]]) -> list[str]:
    """Unique clip names from (name, source file): with the folder in front of equal ones, and a number if still equal."""
    names = [name for name, _ in named]
    repeated = {name for name in names if names.count(name) > 1}
    out: list[str] = []
    taken: set[str] = set()
    for name, source in named:
        wanted = f"{Path(source).parent.name}/{name}" if name in repeated else name
        number, chosen = 1, wanted
        while chosen in taken:
            number += 1
            chosen = f"{wanted} ({number})"
        taken.add(chosen)
        out.append(chosen)
    return out
