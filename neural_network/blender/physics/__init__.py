# SPDX-License-Identifier: GPL-3.0-or-later
"""Make Physical: motion that the ground can carry, and the balance score over the timeline."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panel and drawing."""
    from . import operators, overlay, panel, properties

    for module in (properties, operators, panel, overlay):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import operators, overlay, panel, properties

    for module in (overlay, panel, operators, properties):
        module.unregister()
