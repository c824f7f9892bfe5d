# SPDX-License-Identifier: GPL-3.0-or-later
"""When feet stand and hands hold, as pose markers of an action: one where a foot comes down, one where it leaves the floor.

They are ordinary pose markers (Action editor, Marker > Show Pose Markers): the user moves, deletes and adds them. Contacts of feet
are found; hands hold where the user marks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.contacts import runs

FEET = ("Left Foot", "Right Foot")
HANDS = ("Left Hand", "Right Hand")
"""In the order of the columns of contacts."""
DOWN, UP = "down", "up"
NAMES = tuple(f"{limb} {what}" for limb in (*FEET, *HANDS) for what in (DOWN, UP))
"""Of markers, such as "Left Foot down"."""


def own(action: Any, limbs: tuple[str, ...] = FEET + HANDS) -> list[Any]:
    """The markers of an action that say when ``limbs`` stand or hold. Blender adds a number to names that are there already."""
    return [m for m in action.pose_markers if m.name.split(".")[0] in NAMES and m.name.startswith(limbs)]


def forget(action: Any) -> int:
    """Remove these markers; returns how many there were."""
    found = own(action)
    for marker in found:
        action.pose_markers.remove(marker)
    return len(found)


def write(action: Any, first: int, contact: np.ndarray) -> int:
    """Mark contacts of feet (F, 2) bool on the frames from ``first`` on, in place of those there; returns how many contacts.

    A contact that begins or ends with the frames has no marker there.
    """
    for marker in own(action, FEET):
        if first <= marker.frame <= first + len(contact):
            action.pose_markers.remove(marker)
    count = 0
    for foot in range(contact.shape[1]):
        for begin, end in runs(contact[:, foot]):
            count += 1
            if begin > 0 or end == len(contact):
                add(action, f"{FEET[foot]} {DOWN}", first + begin)
            if end < len(contact):
                add(action, f"{FEET[foot]} {UP}", first + end)
    return count


def add(action: Any, what: str, frame: int) -> None:
    """Add a marker, one of ``NAMES``, on a frame."""
    marker = action.pose_markers.new(what)
    marker.frame = frame


def read(action: Any, first: int, frames: int, limbs: tuple[str, ...] = FEET) -> np.ndarray | None:
    """(F, limbs) bool contacts of ``frames`` frames from ``first`` on as the markers say; None where there are none.

    A foot stands from a marker "down" to the next "up", or to the end; before a first "up" it stands from the beginning.
    """
    if not own(action, limbs):
        return None
    out = np.zeros((frames, len(limbs)), bool)
    for column, limb in enumerate(limbs):
        marks = sorted((marker.frame, marker.name.split(".")[0].endswith(DOWN)) for marker in own(action, (limb,)))
        stands = bool(marks) and not marks[0][1]
        at = first
        for frame, down in [*marks, (first + frames, False)]:
            begin, end = (int(np.clip(f - first, 0, frames)) for f in (at, frame))
            out[begin:end, column] = stands
            stands, at = down, frame
    return out
