# SPDX-License-Identifier: GPL-3.0-or-later
"""When feet stand, as pose markers of an action: one where a foot comes down, one where it leaves the floor.

They are ordinary pose markers (Action editor, Marker > Show Pose Markers): the user moves, deletes and adds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.contacts import runs

FEET = ("Left Foot", "Right Foot")
"""In the order of the columns of contacts."""
DOWN, UP = "down", "up"


def name(foot: int, what: str) -> str:
    """The name of a marker, such as "Left Foot down"."""
    return f"{FEET[foot]} {what}"


NAMES = tuple(name(foot, what) for foot in range(len(FEET)) for what in (DOWN, UP))


def own(action: Any) -> list[Any]:
    """The markers of an action that say when feet stand. Blender adds a number to names that are there already."""
    return [marker for marker in action.pose_markers if marker.name.split(".")[0] in NAMES]


def forget(action: Any) -> int:
    """Remove these markers; returns how many there were."""
    found = own(action)
    for marker in found:
        action.pose_markers.remove(marker)
    return len(found)


def write(action: Any, first: int, contact: np.ndarray) -> int:
    """Mark contacts (F, 2) bool of the frames from ``first`` on, in place of all markers there; returns how many contacts.

    A contact that begins or ends with the frames has no marker there.
    """
    for marker in own(action):
        if first <= marker.frame <= first + len(contact):
            action.pose_markers.remove(marker)
    count = 0
    for foot in range(contact.shape[1]):
        for begin, end in runs(contact[:, foot]):
            count += 1
            if begin > 0 or end == len(contact):
                _add(action, name(foot, DOWN), first + begin)
            if end < len(contact):
                _add(action, name(foot, UP), first + end)
    return count


def _add(action: Any, what: str, frame: int) -> None:
    marker = action.pose_markers.new(what)
    marker.frame = frame


def read(action: Any, first: int, frames: int) -> np.ndarray | None:
    """(F, 2) bool contacts of ``frames`` frames from ``first`` on as the markers say; None where there are none.

    A foot stands from a marker "down" to the next "up", or to the end; before a first "up" it stands from the beginning.
    """
    found = own(action)
    if not found:
        return None
    out = np.zeros((frames, len(FEET)), bool)
    for foot, called in enumerate(FEET):
        marks = sorted(
            (marker.frame, marker.name.split(".")[0] == name(foot, DOWN))
            for marker in found
            if marker.name.startswith(called)
        )
        stands = bool(marks) and not marks[0][1]
        at = first
        for frame, down in [*marks, (first + frames, False)]:
            begin, end = (int(np.clip(f - first, 0, frames)) for f in (at, frame))
            out[begin:end, foot] = stands
            stands, at = down, frame
    return out
