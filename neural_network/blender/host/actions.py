# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions in every supported Blender: before 4.4 the action itself holds its F-Curves, since then its slots do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any  # an Action's attributes differ between Blender versions, and no stub has them all

import bpy
import numpy as np

SLOTTED = bpy.app.version >= (4, 4, 0)
GROUPS_MUTE = not SLOTTED
"""Whether muting a channel group silences its curves: layered actions ignore it."""


def curves(action: Any, slot: Any) -> Iterator[bpy.types.FCurve]:
    """The F-Curves of a slot; before Blender 4.4 those of the action."""
    for bag in _bags(action, slot):
        yield from bag.fcurves


def every_strip(strips: Any) -> Iterator[Any]:
    """NLA strips and all those inside meta strips."""
    for strip in strips:
        yield strip
        yield from every_strip(strip.strips) if strip.type == "META" else ()


def heard_strips(strips: Any) -> Iterator[Any]:
    """The same without those that are muted and those inside muted meta strips."""
    for strip in strips:
        if not strip.mute:
            yield strip
            yield from heard_strips(strip.strips) if strip.type == "META" else ()


def playing(data: Any) -> Iterator[bpy.types.FCurve]:
    """The F-Curves of everything that animation data plays: its action and all strips; none where there is no animation data."""
    if data is None:
        return
    holders = [data, *(strip for track in data.nla_tracks for strip in every_strip(track.strips))]
    for holder in holders:
        if holder.action is not None:
            yield from curves(holder.action, holder.action_slot if SLOTTED else None)


def is_on(holder: Any, action: Any, slot: Any) -> bool:
    """Whether animation data, a strip or an Action constraint plays that slot of an action."""
    return holder.action == action and (not SLOTTED or holder.action_slot == slot)


def plays(curve: bpy.types.FCurve) -> bool:
    """Whether Blender plays a curve: neither it nor, where that counts, its group is muted, and it has keys or a modifier."""
    group: Any = curve.group
    return not (curve.mute or (GROUPS_MUTE and group is not None and group.mute) or curve.is_empty)


def handle_of(slot: Any) -> int:
    """A number by which :func:`slot_of` finds a slot again; 0 before Blender 4.4. A slot itself must not be kept."""
    return int(slot.handle) if slot is not None else 0


def slot_of(action: Any, handle: int) -> Any:
    """The slot with that handle. Raises ValueError where it was removed."""
    if not SLOTTED:
        return None
    for slot in action.slots:
        if slot.handle == handle:
            return slot
    raise ValueError(f"a slot of {action.name} was removed")


def slots_for(action: Any, ob: bpy.types.Object) -> list[Any]:
    """The slots that can animate ``ob``, most likely first: the one in use, the one with its name, the last one, the others.

    Empty if the action is not for objects. Before Blender 4.4 [None] stands for the action itself.
    """
    if not SLOTTED:
        return (
            [None] if action.id_root in ("OBJECT", "") else []
        )  # empty until it is first assigned, as after an import
    data = ob.animation_data
    used = data.action_slot if data is not None and data.action == action else None
    last = data.last_slot_identifier if data is not None else ""

    def rank(slot: Any) -> int:
        named = slot.name_display == ob.name
        return 0 if slot == used else 1 if named else 2 if slot.identifier == last else 3

    return sorted((s for s in action.slots if s.target_id_type in ("OBJECT", "UNSPECIFIED")), key=rank)


def new(name: str, slot_name: str) -> tuple[bpy.types.Action, Any]:
    """Add an action with an empty slot for an object; the slot is None before Blender 4.4."""
    action: Any = bpy.data.actions.new(name)
    if not SLOTTED:
        action.id_root = "OBJECT"
        return action, None
    slot = action.slots.new("OBJECT", slot_name)
    action.layers.new("Layer").strips.new(type="KEYFRAME").channelbag(slot, ensure=True)
    return action, slot


def new_curve(action: Any, slot: Any, path: str, index: int, group: str) -> bpy.types.FCurve:
    """Add an F-Curve to an action with one layer and one strip, such as one from :func:`new`, in the channel group ``group``."""
    if not SLOTTED:
        return action.fcurves.new(path, index=index, action_group=group)
    bag = action.layers[0].strips[0].channelbag(slot)
    curve = bag.fcurves.new(path, index=index)
    curve.group = bag.groups.get(group) or bag.groups.new(group)
    return curve


def content(action: Any, ob: Any) -> bytes:
    """What an action is made of, in a few bytes."""
    out = hashlib.sha1()
    for slot in slots_for(action, ob):
        for curve in curves(action, slot):
            points = curve.keyframe_points
            co, left, right = (np.empty(2 * len(points), np.float32) for _ in range(3))
            for field, values in (("co", co), ("handle_left", left), ("handle_right", right)):
                points.foreach_get(field, values)
            out.update(f"{curve.data_path} {curve.array_index} {curve.mute}".encode())
            out.update(co.tobytes() + left.tobytes() + right.tobytes())
    out.update(repr((action.use_frame_range, action.frame_start, action.frame_end)).encode())
    return out.digest()


def groups(action: Any, slot: Any) -> list[Any]:
    """The channel groups of a slot; before Blender 4.4 those of the action."""
    return [group for bag in _bags(action, slot) for group in bag.groups]


def remove_curve(action: Any, slot: Any, curve: Any) -> None:
    """Remove an F-Curve of :func:`curves`."""
    for bag in _bags(action, slot):
        if any(found == curve for found in bag.fcurves):
            bag.fcurves.remove(curve)
            return


def remove_groups(action: Any, slot: Any, keep: set[str]) -> None:
    """Remove the empty channel groups of a slot whose names are not in ``keep``."""
    for bag in _bags(action, slot):
        for group in list(bag.groups):
            if group.name not in keep and not len(group.channels):
                bag.groups.remove(group)


def _bags(action: Any, slot: Any) -> list[Any]:
    """What holds the F-Curves and channel groups of a slot: its channel bags, or before Blender 4.4 the action itself."""
    if not SLOTTED:
        return [action]
    if slot is None:
        return []
    bags = [strip.channelbag(slot) for layer in action.layers for strip in layer.strips]
    return [bag for bag in bags if bag is not None]


def keep(action: Any) -> None:
    """Give an action of this file a fake user where it has no user any more, so that saving does not lose it."""
    if action is not None and action.library is None and not action.users:
        action.use_fake_user = True


def assign(data: bpy.types.AnimData, action: bpy.types.Action | None, slot: Any) -> None:
    """Assign an action and its slot: without a slot, an action made for another object would animate nothing."""
    data.action = action
    if SLOTTED and action is not None:
        data.action_slot = slot
