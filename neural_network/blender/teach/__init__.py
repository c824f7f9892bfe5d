# SPDX-License-Identifier: GPL-3.0-or-later
"""Live learning: teach a rig while it moves, then let it drive."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panel and handlers."""
    from . import operators, panel, properties, ticks

    for module in (properties, operators, panel, ticks):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import operators, panel, properties, ticks

    for module in (ticks, panel, operators, properties):
        module.unregister()
