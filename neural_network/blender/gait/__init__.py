# SPDX-License-Identifier: GPL-3.0-or-later
"""Gait: walks and runs from sliders, on the character or along a curve, and the sliders of a walk that exists."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panel and preview."""
    from . import operators, panel, preview, properties

    for module in (properties, operators, panel, preview):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import operators, panel, preview, properties

    for module in (preview, panel, operators, properties):
        module.unregister()
