# SPDX-License-Identifier: GPL-3.0-or-later
"""What an import reports: one file read or refused, one npz written."""

from __future__ import annotations

from dataclasses import dataclass


def why_nothing(frames: int) -> str:
    """Why a file of so many frames gave no clip, in words."""
    if frames:
        return "no frames are left; the warnings say why"
    return "no frames: only a rest pose, nothing to learn from"


@dataclass(frozen=True)
class FileReport:
    """The result of one motion file."""

    path: str
    read: bool
    reason: str = ""
    """Why the file was refused or gave no clip."""
    clips: tuple[str, ...] = ()
    joints: int = 0
    frames: int = 0
    """Frames in the file."""
    fps: float = 0.0
    kept: int = 0
    """Frames that went into the data, after cleaning and resampling."""
    seconds: float = 0.0
    height: float = 0.0
    """[m]"""
    speed: float = 0.0
    """[m/s] median along the ground."""
    up_axis: str = ""
    unit: float = 0.0
    """Length of one file unit [m]."""
    t_poses: int = 0
    teleports: int = 0
    glitches: int = 0
    frozen: int = 0
    held: int = 0
    repaired: int = 0
    contact: tuple[float, ...] = ()
    """Share of frames in which each foot is on the ground."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class WrittenFile:
    """One npz file that was written."""

    path: str
    joints: int
    clips: int
    frames: int
    skeleton: str
    """Name of the first clip with this skeleton."""
    outvoted: int = 0
    """Clips that use the up axis of most files with this skeleton instead of the one detected in their own file."""
    lifted: tuple[str, ...] = ()
    """Clips in which nobody stands, whose floor is that of the other files of the same body."""


@dataclass(frozen=True)
class ImportProgress:
    """One more file is done."""

    done: int
    total: int
    report: FileReport
    cached: bool = False
    """Whether the result comes from an earlier, interrupted run."""
