# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a network on the character's poses, test it, and load or reset its weights."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panels and handlers."""
    from . import operators, panel, properties

    for module in (properties, operators, panel):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import operators, panel, properties

    for module in (panel, operators, properties):
        module.unregister()
