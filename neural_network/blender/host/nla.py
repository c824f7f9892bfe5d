# SPDX-License-Identifier: GPL-3.0-or-later
"""New actions as NLA strips above everything else that a character plays, with every step kept that undoes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import bpy
import numpy as np

from . import actions, keyframes
from .keyframes import Channels

ONE_FRAME = 0.1  # [frames] the length of an NLA strip that plays one frame; Blender's shortest
ENDLESS = 100_000  # [frames] as far from 0 as this the strip of an action plays that goes on beyond its keys


def refusal(ob: Any) -> str:
    """Why no strip can be added, and what to do; empty if one can."""
    data = ob.animation_data
    if data is not None and data.use_tweak_mode:
        return "an NLA strip is being tweaked: leave Tweak Mode first (Tab in the NLA editor)"
    if data is not None and not data.use_nla and len(data.nla_tracks):
        return f"the NLA of {ob.name} is switched off: switch it on in the NLA editor, or write into an action"
    return ""


def push(
    ob: Any,
    action: Any,
    slot: Any,
    assigned: tuple[Any, Any],
    frame: float,
    held: Channels,
    back: list[Callable[[], object]],
) -> None:
    """Turn the assigned action into an NLA strip, if there is one, and add ``action`` as a strip above it.

    The strip of the old action is blended as the action was. That of ``action`` lasts as long as its keys, if anything else is
    animated: outside of it everything stays as it was. Bones that nothing else animates would keep what the strip showed last;
    another strip, below it, holds the pose that they had.

    Args:
        ob: the armature object, whose animation data exists.
        action: the new action.
        slot: its slot.
        assigned: the action that is assigned and its slot, or None.
        frame: the first frame of ``action``.
        held: (bone, channel) that ``action`` keys -> (1, n) what it shows now.
        back: gets what undoes this, step by step.
    """
    data, (old, old_slot) = ob.animation_data, assigned
    alone = old is None and not len(data.nla_tracks)
    if old is not None:
        how = data.action_blend_type, data.action_extrapolation, data.action_influence
        used = data.use_nla
        back.append(lambda: assign_back(ob, None, old, old_slot))
        back.append(lambda: setattr(ob.animation_data, "use_nla", used))
        actions.assign(data, None, None)
        strip = _add_strip(ob, old, old_slot, back)
        strip.blend_type, strip.extrapolation = how[:2]
        if how[2] < 1:
            strip.use_animated_influence, strip.influence = True, how[2]
            for curve in strip.fcurves:  # made by the line above, with a key of 0 that overrides it
                for key in curve.keyframe_points if curve.data_path == "influence" else ():
                    key.co[1] = key.handle_left[1] = key.handle_right[1] = how[2]
    animated = {curve.data_path for curve in actions.playing(data) if actions.plays(curve)}
    still = {key: value for key, value in held.items() if keyframes.bone_path(*key) not in animated}
    if still and not alone:
        rest, rest_slot = actions.new(f"{action.name} Rest", ob.name)
        back.append(lambda: bpy.data.actions.remove(rest))
        keyframes.write_bones(rest, rest_slot, np.array([frame], np.float32), still)
        strip = _add_strip(ob, rest, rest_slot, back)
        strip.blend_type, strip.extrapolation = "REPLACE", "HOLD"
    strip = _add_strip(ob, action, slot, back)
    strip.blend_type, strip.extrapolation = "REPLACE", "HOLD" if alone else "NOTHING"
    data.use_nla = True


def _add_strip(ob: Any, action: Any, slot: Any, back: list[Callable[[], object]]) -> Any:
    """Add a track with a strip of an action at its own frames: all those in which it is not held, whatever its manual range."""
    track = ob.animation_data.nla_tracks.new()
    track.name = action.name
    name = track.name
    back.append(lambda: ob.animation_data.nla_tracks.remove(ob.animation_data.nla_tracks[name]))
    start, end = action.curve_frame_range
    if any(c.extrapolation == "LINEAR" or len(c.modifiers) for c in actions.curves(action, slot)):
        start, end = min(start, -ENDLESS), max(end, ENDLESS)
    end = max(end, start + ONE_FRAME)
    strip = track.strips.new(action.name, int(np.floor(start)), action)
    if actions.SLOTTED and slot is not None:
        strip.action_slot = slot
    if tuple(action.frame_range) != (start, end):
        strip.action_frame_start, strip.action_frame_end = start, end
    if (strip.frame_start, strip.frame_end) != (start, end):
        strip.frame_end_raw, strip.frame_start_raw = end, start
    return strip


def assign_back(ob: Any, made: Any, old: Any, slot: Any) -> None:
    """Assign ``old`` again, unless the user assigned another action than the one that was ``made`` here."""
    if ob.animation_data.action in (made, None):
        actions.assign(ob.animation_data, old, slot)


def take_back(steps: list[Callable[[], object]]) -> None:
    """Take steps; those about something that was deleted meanwhile are not needed."""
    for step in steps:
        with suppress(ReferenceError, AttributeError, LookupError, TypeError):
            step()
