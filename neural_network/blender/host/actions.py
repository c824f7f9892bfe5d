# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions in every supported Blender: before 4.4 they hold their curves themselves, since then slots do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any  # an Action has other attributes in other Blenders, and no stub knows them all

import bpy

SLOTTED = bpy.app.version >= (4, 4, 0)


def curves(action: Any, slot: Any) -> Iterator[bpy.types.FCurve]:
    """The F-Curves of a slot (of the action, before 4.4); none where it has none."""
    if not SLOTTED:
        yield from action.fcurves
        return
    for layer in action.layers:
        for strip in layer.strips:
            bag = strip.channelbag(slot) if slot is not None else None
            if bag is not None:
                yield from bag.fcurves


def slots_for(action: Any, ob: bpy.types.Object) -> list[Any]:
    """The slots that could move ``ob``, the likeliest first: the one in use, the one of its name, the others.

    Before 4.4 the action itself is the only one, as None; an empty list says that nothing in the action is for objects.
    """
    if not SLOTTED:
        return [None] if action.id_root in ("OBJECT", "UNSPECIFIED") else []
    data = ob.animation_data
    used = data.action_slot if data is not None and data.action == action else None
    last = data.last_slot_identifier if data is not None else ""

    def rank(slot: Any) -> int:
        named = slot.name_display == ob.name
        return 0 if slot == used else 1 if named else 2 if slot.identifier == last else 3

    return sorted((s for s in action.slots if s.target_id_type in ("OBJECT", "UNSPECIFIED")), key=rank)


def new(name: str, slot_name: str) -> tuple[bpy.types.Action, Any]:
    """A new action with an empty slot for an object (None before 4.4)."""
    action: Any = bpy.data.actions.new(name)
    if not SLOTTED:
        action.id_root = "OBJECT"
        return action, None
    slot = action.slots.new("OBJECT", slot_name)
    action.layers.new("Layer").strips.new(type="KEYFRAME").channelbag(slot, ensure=True)
    return action, slot


def new_curve(action: Any, slot: Any, path: str, index: int, group: str) -> bpy.types.FCurve:
    """A new F-Curve in an action made by :func:`new`, in the channel group of that name."""
    if not SLOTTED:
        return action.fcurves.new(path, index=index, action_group=group)
    bag = action.layers[0].strips[0].channelbag(slot)
    curve = bag.fcurves.new(path, index=index)
    curve.group = bag.groups.get(group) or bag.groups.new(group)
    return curve


def assign(data: bpy.types.AnimData, action: bpy.types.Action | None, slot: Any) -> None:
    """Let ``action`` play, with that very slot: without it another object's action would move nothing."""
    data.action = action
    if SLOTTED and action is not None:
        data.action_slot = slot
