# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender: a folder for each thing an animator does. The only part of Neural IK that imports bpy."""

from __future__ import annotations


def register(package: str) -> None:
    """Register everything; ``package`` is the extension's name in Blender, which names its preferences and its folder."""
    from . import data, effectors, gait, host, learn, motion, physics, posing, repair, roles, teach

    host.register(package)
    for feature in (roles, effectors, learn, data, posing, motion, repair, physics, gait, teach):
        feature.register()


def unregister() -> None:
    """End the running job, and leave no class, handler, timer or property behind."""
    from . import data, effectors, gait, host, learn, motion, physics, posing, repair, roles, teach

    host.stop()
    for feature in (teach, gait, physics, repair, motion, posing, data, learn, effectors, roles):
        feature.unregister()
    host.unregister()
