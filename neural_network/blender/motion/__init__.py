# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion: poses that are filled in between keys, motion that goes on from the playhead, and how far both can be trusted."""

from __future__ import annotations


def register() -> None:
    """Register this feature's properties, operators and panel."""
    from . import operators, panel, properties

    for module in (properties, operators, panel):
        module.register()


def unregister() -> None:
    """Unregister them in reverse order, and forget the sampled actions."""
    from . import making, operators, own_clips, panel, properties

    for module in (panel, operators, properties):
        module.unregister()
    making.forget()
    own_clips.forget()
