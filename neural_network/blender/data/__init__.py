# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses in and out of Blender: extract actions, import motion capture, load and save, extract whole folders."""

from __future__ import annotations


def register() -> None:
    """Register this feature's operators and panels."""
    from . import mocap_operators, operators, panel

    for module in (operators, mocap_operators, panel):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import mocap_operators, operators, panel

    for module in (panel, mocap_operators, operators):
        module.unregister()
