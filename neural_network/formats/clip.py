# SPDX-License-Identifier: GPL-3.0-or-later
"""Clip: one take of motion as a file holds it, in one convention for every format."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Clip:
    """One take. Rest axes are aligned with the file's world axes in every joint, as in BVH.

    Global rotations are ``G[j] = G[parent] @ R[j]`` and joint positions ``p[j] = p[parent] + G[parent] @ offset[j]``;
    a joint in ``translations`` uses that row in place of its offset. Formats with rest axes of their own (ASF) are
    converted on reading, so that nobody below needs to know the format.
    """

    name: str
    """File name without its suffix."""
    names: tuple[str, ...]
    """(J) joint names as written in the file, parents before children."""
    parents: np.ndarray
    """(J) int, -1 for a root."""
    offsets: np.ndarray
    """(J, 3) rest position relative to the parent [file units, file axes]; a root's is its rest position."""
    tips: dict[int, np.ndarray]
    """Joint index -> (3) offset of its End Site, where the file has one [file units, file axes]."""
    rotations: np.ndarray
    """(F, J, 4) unit quaternions (w, x, y, z), relative to the parent."""
    root_pos: np.ndarray
    """(F, 3) position of the first root's head [file units, file axes]."""
    fps: float
    """Frames a second, as trusted after reading."""
    up_axis: str = "Y"
    """'Y' or 'Z': which file axis points up, as found or asked for."""
    unit: float = 1.0
    """Metres in one file unit, as found or asked for."""
    translations: dict[int, np.ndarray] = field(default_factory=dict)
    """Joint index -> (F, 3) moving offset in place of the rest offset, for joints that really move (not the root)."""
    warnings: tuple[str, ...] = ()
    """What a person should know: one sentence each, naming file, line and joint where there is one."""

    @property
    def frames(self) -> int:
        """Number of frames, 0 for a skeleton without motion."""
        return len(self.rotations)
