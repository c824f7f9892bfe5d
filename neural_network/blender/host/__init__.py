# SPDX-License-Identifier: GPL-3.0-or-later
"""What every feature in Blender builds on: rigs, actions, poses, jobs with progress, memory, characters, panel pieces."""

from __future__ import annotations


def register(package: str) -> None:
    """Remember ``package``, the extension's name in Blender, and register what all features share."""
    from . import curve, evaluating, ghost, jobs, main_panel, memory, properties

    memory.start(package)
    for module in (curve, jobs, evaluating, properties, ghost, main_panel):
        module.register()


def stop() -> None:
    """End the running job before the feature that it belongs to is unregistered."""
    from . import jobs

    jobs.stop()


def unregister() -> None:
    """Unregister what all features share, and drop everything held in memory."""
    from . import characters, curve, evaluating, ghost, jobs, main_panel, memory, properties

    for module in (main_panel, ghost, properties, evaluating, jobs, curve):
        module.unregister()
    characters.forget()
    memory.forget()
