# SPDX-License-Identifier: GPL-3.0-or-later
"""Neural IK for Blender: the door. Blender calls register() and unregister(); nothing here imports bpy before that."""

from __future__ import annotations


def register() -> None:
    """Put panel, operators and settings into Blender."""
    from .neural_network import blender

    blender.register(__package__)


def unregister() -> None:
    """Take everything out again, a running job included."""
    from .neural_network import blender

    blender.unregister()
