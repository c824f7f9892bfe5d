# SPDX-License-Identifier: GPL-3.0-or-later
"""Registering settings that stand on Blender's own types; for classes alone there is ``bpy.utils.register_classes_factory``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
from bpy.props import PointerProperty


def settings(*classes: Any, on: dict[str, Any]) -> tuple[Callable[[], None], Callable[[], None]]:
    """The functions ``register`` and ``unregister`` of a module with these classes and properties that point to them.

    ``on`` names the properties, as ``{"Object.neural_ik_motion": Settings}``; instead of a class there may be the arguments of
    PointerProperty. They are removed in reverse order.
    """
    register_classes: Any
    unregister_classes: Any
    register_classes, unregister_classes = bpy.utils.register_classes_factory(classes)
    pointers = [(*place.split("."), value) for place, value in on.items()]

    def register() -> None:
        register_classes()
        for owner, name, value in pointers:
            arguments = value if isinstance(value, dict) else {"type": value}
            setattr(getattr(bpy.types, owner), name, PointerProperty(**arguments))

    def unregister() -> None:
        for owner, name, _ in reversed(pointers):
            delattr(getattr(bpy.types, owner), name)
        unregister_classes()

    return register, unregister
