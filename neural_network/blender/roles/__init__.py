# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles: which bone of a character is the left forearm, and so on."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panels and handlers."""
    from . import operators, overlay, panel, properties

    for module in (properties, operators, panel, overlay):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import operators, overlay, panel, properties

    for module in (overlay, panel, operators, properties):
        module.unregister()
