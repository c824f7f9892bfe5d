# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of an import."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...motion.clip import Clip, checked_up_axis
from ...rigs.roles import Roles, named_roles

RIGS = ("own", "reference")
MAX_FPS = 1000  # highest rate to resample to: above the fastest motion capture, and a typo cannot fill the memory


@dataclass(frozen=True)
class ImportOptions:
    """How every file of an import is read and converted."""

    rig: str = "own"
    """'own': the file's own skeleton; 'reference': retargeted onto the built-in rig."""
    fps: float | None = None
    """Frames per second to resample to; None keeps each clip's own."""
    skip: int = 0
    """Frames to drop at the start of every file, before cleaning."""
    source_fps: float | None = None
    """Frames per second to use instead of the rate in the files."""
    up_axis: str | None = None
    """One of ``motion.clip.UP_AXES``; None detects it."""
    unit: float | None = None
    """Length of one file unit [m]; None detects it."""
    low_pass: float | None = None
    """Cut-off [Hz] of a Butterworth low-pass; None leaves the motion as captured."""
    strip_prefix: bool = False
    """Drop everything up to the last colon of a bone name ("mixamorig:Hips"), if names stay unique."""
    mirror: bool = False
    """Add a mirrored copy of every clip."""
    clean: bool = True
    leave_out_faults: bool = False
    """Leave out frames with faults of the capture: feet that are turned around, bones that turn over between frames."""
    level: bool = False
    """Turn a tilted floor level and take out a drift of height, where standing feet show them."""
    plant_feet: bool = True
    """Where motion is carried onto another body: feet that stand stay in place. Else legs point exactly as in the file."""
    root_bone: bool = True
    """In Blender: a root bone on the floor, where the character has one, carries the body over the ground."""
    roles: tuple[tuple[str, str], ...] = ()
    """(role, bone name) pairs to use instead of detecting roles."""


DEFAULTS = ImportOptions()


def check(options: ImportOptions) -> None:
    """Raise ValueError for options out of range."""
    if options.rig not in RIGS:
        raise ValueError(f"rig: expected one of {', '.join(RIGS)}, got {options.rig!r}")
    for what, value in (("fps", options.fps), ("source fps", options.source_fps), ("unit", options.unit)):
        if value is not None and not (np.isfinite(value) and 0 < value < 1e6):
            raise ValueError(f"{what}: expected a positive number, got {value}")
    if options.fps is not None and options.fps > MAX_FPS:
        raise ValueError(f"fps: expected at most {MAX_FPS} frames per second, got {options.fps:g}")
    if options.skip < 0:
        raise ValueError(f"skip: expected 0 or more frames, got {options.skip}")
    checked_up_axis(options.up_axis)
    if options.low_pass is not None and not 0 < options.low_pass < 1000:
        raise ValueError(f"low-pass: expected a cut-off in Hz, got {options.low_pass}")


def given_roles(clip: Clip, options: ImportOptions) -> Roles | None:
    """The roles in ``options`` for the bones of ``clip``; None if roles are to be detected."""
    return named_roles(dict(options.roles), clip.names) if options.roles else None
