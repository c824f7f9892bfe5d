# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a network on the character's poses, test it, and load or reset its weights."""

from __future__ import annotations


def register() -> None:
    """Register this feature's operators and panel."""
    from . import operators, panel

    for module in (operators, panel):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import operators, panel

    for module in (panel, operators):
        module.unregister()
