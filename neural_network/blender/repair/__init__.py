# SPDX-License-Identifier: GPL-3.0-or-later
"""Fix Feet: feet that stand, by contacts that the user sees on the timeline, and motion without tremble, drops and drift."""

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
