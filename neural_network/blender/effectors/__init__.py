# SPDX-License-Identifier: GPL-3.0-or-later
"""Effectors of creatures: the bones that can be dragged."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators and panel."""
    from . import operators, panel, properties

    for module in (properties, operators, panel):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import operators, panel, properties

    for module in (panel, operators, properties):
        module.unregister()
