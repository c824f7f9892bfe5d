# SPDX-License-Identifier: GPL-3.0-or-later
"""Live learning: teach a rig while it moves, then let it drive."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panels and handlers."""
    from . import panel, teach

    for module in (panel, teach):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import panel, teach

    for module in (teach, panel):
        module.unregister()
