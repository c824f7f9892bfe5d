# SPDX-License-Identifier: GPL-3.0-or-later
"""One floor for all takes of one body: a take in which nobody stands shows none, and gets that on which the others stand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...motion.clip import Clip
from ...rigs import foot_placement, rig_body
from ...rigs.foot_placement import FileFloor
from ...rigs.roles import Roles

SAID = "nobody stands in {}: the floor is that of the other files of the same body"


@dataclass(frozen=True)
class TakeFloor:
    """Where the floor of a clip is in its file, and what is the same in all clips of one body."""

    floor: FileFloor | None
    """None without legs or frames."""
    body: str


NO_FLOOR = TakeFloor(None, "")


def floor_of(clip: Clip, roles: Roles) -> TakeFloor:
    """The floor of a clip alone."""
    floor = foot_placement.file_floor(*rig_body.clip_motion(clip, roles))
    bones = np.round(clip.offsets[1:] * clip.unit, 3).tolist()
    body = hashlib.sha256(json.dumps([clip.names, clip.up_axis, bones]).encode()).hexdigest()
    return TakeFloor(floor, body)


def lifts(takes: Sequence[TakeFloor]) -> list[float]:
    """How far [leg lengths] to lift each take so that nobody sits or lies below the floor on which its body stands elsewhere."""
    bodies: dict[str, list[FileFloor]] = {}
    for take in takes:
        if take.floor is not None:
            bodies.setdefault(take.body, []).append(take.floor)
    return [
        0.0 if take.floor is None else foot_placement.lift_onto(take.floor, bodies[take.body]) / take.floor.leg
        for take in takes
    ]
