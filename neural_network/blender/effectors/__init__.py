# SPDX-License-Identifier: GPL-3.0-or-later
"""Effectors: where a creature can be taken hold of."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panels and handlers."""
    from . import ends, panel

    for module in (ends, panel):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import ends, panel

    for module in (panel, ends):
        module.unregister()
