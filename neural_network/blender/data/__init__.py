# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses in and out of Blender: extract actions, import motion capture, extract whole folders."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panels and handlers."""
    from . import mocap_operators

    for module in (mocap_operators,):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import mocap_operators

    for module in (mocap_operators,):
        module.unregister()
