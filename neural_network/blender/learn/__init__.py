# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a network on the character's poses, test it, and load or reset its weights."""

from __future__ import annotations


def register() -> None:
    """Register this feature's operators and panel."""
    from . import card, operators, panel, training

    for module in (operators, training, card, panel):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import card, operators, panel, training

    for module in (panel, card, training, operators):
        module.unregister()
