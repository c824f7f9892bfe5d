# SPDX-License-Identifier: GPL-3.0-or-later
"""The Blender wing: a folder for each thing an animator does. The only part of Neural IK that imports bpy."""

from __future__ import annotations


def register(package: str) -> None:
    """Register everything; ``package`` is the name by which Blender knows the extension, its preferences and folder."""
    from . import data, effectors, host, learn, posing, roles, teach

    host.register(package)
    for feature in (learn, data, posing, teach, roles, effectors):
        feature.register()


def unregister() -> None:
    """Stop what runs and leave no class, handler, timer or property behind."""
    from . import data, effectors, host, learn, posing, roles, teach

    host.stop()
    for feature in (effectors, roles, teach, posing, data, learn):
        feature.unregister()
    host.unregister()
