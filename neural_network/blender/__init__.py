# SPDX-License-Identifier: GPL-3.0-or-later
"""The Blender wing: extract poses from actions, train, load, test and pose. The only part that imports bpy."""

from __future__ import annotations


def register(package: str) -> None:
    """Register everything; ``package`` is the name by which Blender knows the extension, its preferences and folder."""
    from . import curve, jobs, memory, operators, panel, properties

    memory.start(package)
    for module in (properties, curve, operators, panel):
        module.register()
    jobs.register()


def unregister() -> None:
    """Stop what runs and leave no class, handler, timer or property behind."""
    from . import curve, jobs, memory, operators, panel, properties

    jobs.unregister()
    for module in (panel, operators, curve, properties):
        module.unregister()
    memory.forget()
