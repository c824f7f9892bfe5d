# SPDX-License-Identifier: GPL-3.0-or-later
"""The Blender wing: extract poses from actions, train, load, test and pose. The only part that imports bpy."""

from __future__ import annotations


def register(package: str) -> None:
    """Register everything; ``package`` is the name by which Blender knows the extension, its preferences and folder."""
    from . import (
        curve,
        ends,
        ends_panel,
        jobs,
        live_ik,
        live_operators,
        live_panel,
        live_properties,
        memory,
        mocap_operators,
        operators,
        panel,
        properties,
        role_operators,
        role_overlay,
        role_panel,
        role_properties,
        teach,
        teach_panel,
    )

    memory.start(package)
    for module in (
        properties,
        live_properties,
        curve,
        operators,
        mocap_operators,
        live_operators,
        panel,
        live_panel,
        teach_panel,
    ):
        module.register()
    for module in (role_properties, role_operators, role_panel, role_overlay, ends, ends_panel):
        module.register()
    jobs.register()
    live_ik.register()
    teach.register()


def unregister() -> None:
    """Stop what runs and leave no class, handler, timer or property behind."""
    from . import (
        curve,
        ends,
        ends_panel,
        jobs,
        live_ik,
        live_operators,
        live_panel,
        live_properties,
        memory,
        mocap_operators,
        operators,
        panel,
        properties,
        role_operators,
        role_overlay,
        role_panel,
        role_properties,
        teach,
        teach_panel,
    )

    teach.unregister()
    jobs.unregister()
    live_ik.unregister()
    for module in (ends_panel, ends, role_overlay, role_panel, role_operators, role_properties):
        module.unregister()
    for module in (
        teach_panel,
        live_panel,
        panel,
        live_operators,
        mocap_operators,
        operators,
        curve,
        live_properties,
        properties,
    ):
        module.unregister()
    memory.forget()
