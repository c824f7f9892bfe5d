# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bone plays which of the 23 roles of the reference rig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

ROLE_NAMES = (
    *("Hips", "Spine", "Spine1", "Spine2", "NeckLower", "NeckUpper", "Head"),
    *("LeftShoulder", "LeftArm", "LeftForeArm", "LeftHand", "LeftThigh", "LeftShin", "LeftFoot", "LeftToeBase"),
    *("RightShoulder", "RightArm", "RightForeArm", "RightHand", "RightThigh", "RightShin", "RightFoot", "RightToeBase"),
)


@dataclass(frozen=True)
class Roles:
    """What was understood of a skeleton."""

    bones: dict[str, int | None]
    """Role -> bone index, None where the rig has no such bone."""
    confidence: dict[str, float] = field(default_factory=dict)
    """Role -> 0 to 1."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Bone name -> why it plays no role."""
    notes: tuple[str, ...] = ()
    """What a person should know, one sentence each."""


def find_roles(
    names: Sequence[str],
    parents: np.ndarray,
    heads: np.ndarray,
    tips: Mapping[int, np.ndarray] | None = None,
    motion: np.ndarray | None = None,
) -> Roles:
    """Interim: the names of the MotionBuilder-friendly CMU files only."""
    table = dict.fromkeys(ROLE_NAMES)
    want = {
        "Hips": "Hips",
        "Spine": "LowerBack",
        "Spine1": "Spine",
        "Spine2": "Spine1",
        "NeckLower": "Neck",
        "NeckUpper": "Neck1",
        "Head": "Head",
    }
    for s in ("Left", "Right"):
        for r, n in dict(
            Shoulder="Shoulder",
            Arm="Arm",
            ForeArm="ForeArm",
            Hand="Hand",
            Thigh="UpLeg",
            Shin="Leg",
            Foot="Foot",
            ToeBase="ToeBase",
        ).items():
            want[s + r] = s + n
    index = {n: i for i, n in enumerate(names)}
    return Roles({**table, **{r: index[n] for r, n in want.items() if n in index}})
