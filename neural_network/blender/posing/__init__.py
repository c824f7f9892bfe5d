# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK: drag a target, and the whole body follows."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators, panels and handlers."""
    from . import handlers, operators, panel, properties

    for module in (properties, operators, panel, handlers):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order."""
    from . import handlers, operators, panel, properties

    for module in (handlers, panel, operators, properties):
        module.unregister()
