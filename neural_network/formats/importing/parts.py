# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts: the report and the poses of one file, kept on disk beside the output until every file is converted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.contacts import GROUND
from ...core.files import json_of, open_archive, read_archive
from ...core.skeleton import Skeleton
from ...motion import pose_set
from ...motion.pose_set import PoseSet
from ...rigs.foot_placement import FileFloor
from .floors import NO_FLOOR, TakeFloor
from .options import ImportOptions
from .own_rig import OwnPoses, on_skeleton
from .reports import FileReport

PART_VERSION = 7  # increase it when the layout of parts changes, or when reading or cleaning gives other results


def part_name(path: Path, options: ImportOptions) -> str:
    """Name of a file's part; other content, another skeleton file and other options give another name."""
    about = path.stat()
    key: list[Any] = [PART_VERSION, str(path.resolve()), about.st_size, about.st_mtime_ns, asdict(options)]
    if path.suffix.lower() == ".amc":
        skeletons = sorted(other for other in path.parent.iterdir() if other.suffix.lower() == ".asf")
        key += [[other.name, other.stat().st_size, other.stat().st_mtime_ns] for other in skeletons]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]


def load_report(part: Path) -> FileReport | None:
    """The report in a part from an earlier run; None if there is no such part or it is damaged."""
    try:
        found = read_archive(part, "a converted file")  # every member, so that a damaged part cannot fail later
        fields: dict[str, Any] = json_of(found["report"])
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
        return FileReport(**values)
    except Exception:  # zipfile, zlib and NumPy raise many kinds for damaged files; in any case the file is read again
        return None


@dataclass(frozen=True)
class StoredClip:
    """One clip in a part on disk, without its motion."""

    part: Path
    number: int
    source: str
    name: str
    fps: float
    frames: int
    up_axis: str = "Z"
    unit: float = 1.0
    axis_known: bool = True
    """Whether the up axis was given or clear from the file."""
    outvoted: bool = False
    own: OwnPoses | None = None
    """None on the reference rig."""
    taken: TakeFloor = NO_FLOOR
    """Where the floor was taken to be."""
    lift: float = 0.0
    """[leg lengths] by which the clip is too low for the floor of its body's other clips."""

    def poses(self, rig: Skeleton) -> PoseSet:
        """The poses from disk, on ``rig``."""
        names = f"rot{self.number}", f"root_pos{self.number}"
        found = read_archive(self.part, "a converted file", names)
        rot, root_pos = (found[name] for name in names)
        if self.own is None:
            root_pos = root_pos + np.array([0, 0, self.lift * GROUND.reference_leg], root_pos.dtype)
            return pose_set.make(rig, rot, root_pos, np.zeros(len(rot), int), [self.name], clip_fps=self.fps)
        own = replace(self.own, rot=rot, root_pos=root_pos)
        return on_skeleton(own, rig, self.up_axis, self.unit, self.name, self.fps)


def stored_clips(part: Path, path: str, clips: int, known: dict[str, OwnPoses]) -> Iterator[StoredClip]:
    """The clips of a part. Equal skeletons are shared through ``known``, because there may be thousands of clips."""
    with open_archive(part, "a converted file") as found:
        for n in range(clips):
            about = json_of(found.read(f"about{n}"))
            frames = len(found.read(f"root_pos{n}"))
            clip = StoredClip(part, n, path, about["clip"], float(about["fps"]), frames)
            if about["floor"]:
                clip = replace(clip, taken=TakeFloor(FileFloor(**about["floor"]), about["body"]))
            if "names" in about:
                arrays: dict[str, Any] = {what: found.read(f"{what}{n}") for what in ("parents", "heads", "directions")}
                shape = [array.tobytes().hex() for array in arrays.values()]
                words = json.dumps([about["names"], about["effectors"], about["feet"], *shape])
                own = known.setdefault(
                    hashlib.sha256(words.encode()).hexdigest(),
                    OwnPoses(
                        names=tuple(about["names"]),
                        **arrays,
                        rot=np.zeros((0, len(about["names"]), 3)),
                        root_pos=np.zeros((0, 3)),
                        effectors=tuple(about["effectors"]),
                        feet=tuple(about["feet"]),
                    ),
                )
                unit, axis_known = float(about["unit"]), about["axis_known"]
                clip = replace(clip, own=own, up_axis=about["up_axis"], unit=unit, axis_known=axis_known)
            yield clip
