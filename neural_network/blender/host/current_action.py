# SPDX-License-Identifier: GPL-3.0-or-later
"""The current action of a character: the one that repairs read, and whose frames they mend."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from . import actions, keyframes

LONGEST = 20_000  # [frames] that are mended at once


def of(ob: Any) -> Any:
    """The assigned action; ValueError, in words, where there is none whose time is the scene's."""
    data = ob.animation_data
    if data is None or data.action is None:
        raise ValueError(f"{ob.name} has no current action: choose the one to repair in the Action editor")
    if data.use_tweak_mode:
        raise ValueError(f"an NLA strip of {ob.name} is being tweaked: leave Tweak Mode first (Tab in the NLA editor)")
    return data.action


def to_mark(ob: Any) -> Any:
    """The assigned action, as :func:`of`; ValueError, in words, for one that cannot be marked."""
    action = of(ob)
    if action.library is not None:
        raise ValueError(f"{action.name} is linked from a library, and cannot be marked: make it local first")
    return action


def frames(context: bpy.types.Context, ob: Any, which: str) -> range:
    """The frames that are mended: of the whole action ("ACTION") or of the scene ("SCENE").

    Raises ValueError, in words, for too few or too many.
    """
    scene: Any = context.scene
    action = of(ob)
    if which == "SCENE":
        preview = scene.use_preview_range
        first = scene.frame_preview_start if preview else scene.frame_start
        last = scene.frame_preview_end if preview else scene.frame_end
    else:
        slot = ob.animation_data.action_slot if actions.SLOTTED else None
        times = [keyframes.read_keys(c)["co"][:, 0] for c in actions.curves(action, slot) if actions.plays(c)]
        every = np.concatenate(times) if times else np.zeros(0)
        if not len(every):
            raise ValueError(f"{action.name} has no keys that move {ob.name}: choose another action")
        first, last = int(np.floor(every.min())), int(np.ceil(every.max()))
    if not 2 <= last - first + 1 <= LONGEST:
        raise ValueError(
            f"frames {first} to {last}: expected 2 to {LONGEST} frames, got {last - first + 1}; use the scene's frame range"
        )
    return range(first, last + 1)
