# SPDX-License-Identifier: GPL-3.0-or-later
"""The bone of each role, stored on the armature object.

One string per role, because items added to a collection property in a library override are empty after reopening the file.
The property names are stored in .blend files, so they must not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
from bpy.props import BoolProperty, IntProperty, StringProperty

from ...rigs.roles import ROLE_NAMES
from ..host import registering
from . import editing, overlay

_OVERRIDE: Any = {"LIBRARY_OVERRIDABLE"}


def _edited(role: str) -> Callable[[Any, Any], None]:
    def update(own: Any, context: Any) -> None:
        editing.after_edit(own.id_data, role)

    return update


def _redraw(own: Any, context: Any) -> None:
    editing.redraw()


class NEURAL_IK_Roles(bpy.types.PropertyGroup):
    """The roles of an armature object: the bone name of each of the 23. If all are empty, they are found automatically."""

    found: StringProperty(
        description="The last result of Find Roles as JSON: bones, confidences and reasons", override=_OVERRIDE
    )


NEURAL_IK_Roles.__annotations__.update(
    {
        role: StringProperty(
            name=role, description=f"Name of the bone for {role}", override=_OVERRIDE, update=_edited(role)
        )
        for role in ROLE_NAMES
    }
)


class NEURAL_IK_RolesView(bpy.types.PropertyGroup):
    """How roles are shown and edited; not saved."""

    index: IntProperty(name="Active Role", options={"SKIP_SAVE"})
    mirror: BoolProperty(
        name="Mirror",
        description="Edit both sides at once. The mirrored bone is found by name or by position",
        default=True,
        options={"SKIP_SAVE"},
    )
    overlay: BoolProperty(
        name="Overlay",
        description="Color the bones in the 3D Viewports by their roles. The armature is not changed",
        get=overlay.is_on,
        set=overlay.switch,
    )
    names: BoolProperty(
        name="Names",
        description="Show role names in the 3D Viewports",
        default=True,
        options={"SKIP_SAVE"},
        update=_redraw,
    )


register, unregister = registering.settings(
    NEURAL_IK_Roles,
    NEURAL_IK_RolesView,
    on={
        "Object.neural_ik_roles": {"type": NEURAL_IK_Roles, "override": _OVERRIDE},
        "WindowManager.neural_ik_roles_view": NEURAL_IK_RolesView,
    },
)
