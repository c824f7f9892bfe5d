# SPDX-License-Identifier: GPL-3.0-or-later
"""What every feature in Blender stands on: rigs, actions, poses, jobs with progress, memory, panel pieces."""

from __future__ import annotations


def register(package: str) -> None:
    """Remember ``package``, the extension's name in Blender, and register what all features share."""
    from . import curve, jobs, memory

    memory.start(package)
    curve.register()
    jobs.register()


def stop() -> None:
    """End the job that runs, before any feature it belongs to is unregistered."""
    from . import jobs

    jobs.unregister()


def unregister() -> None:
    """Forget everything that is held in memory."""
    from . import curve, memory

    curve.unregister()
    memory.forget()
