# SPDX-License-Identifier: GPL-3.0-or-later
"""Neural IK for Blender. Blender calls register() and unregister(); nothing here imports bpy before that."""

from __future__ import annotations


def register() -> None:
    """Add panels, operators and settings to Blender."""
    from .neural_network import blender

    blender.register(__package__)


def unregister() -> None:
    """Remove them all, and end a running job."""
    from .neural_network import blender

    blender.unregister()
