# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bone plays which role, kept on the armature object: saved with the file, undone with everything else.

One text for each role, and no list: items added to a list in a library override are empty when the file is opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
from bpy.props import BoolProperty, IntProperty, PointerProperty, StringProperty

from ...rigs.roles import ROLE_NAMES
from . import editing, overlay

_OVERRIDE: Any = {"LIBRARY_OVERRIDABLE"}


def _edited(role: str) -> Callable[[Any, Any], None]:
    def update(own: Any, context: Any) -> None:
        editing.settle(own.id_data, role)

    return update


def _shown_anew(own: Any, context: Any) -> None:
    editing.redraw()


class NEURAL_IK_Roles(bpy.types.PropertyGroup):
    """The roles of one armature object: for each of the 23 the name of its bone. All empty: they are left to be found."""

    found: StringProperty(
        description="What Find Roles made of the skeleton: bones, confidences, reasons, as JSON", override=_OVERRIDE
    )


NEURAL_IK_Roles.__annotations__.update(
    {
        role: StringProperty(
            name=role, description=f"The bone that is the {role}", override=_OVERRIDE, update=_edited(role)
        )
        for role in ROLE_NAMES
    }
)


class NEURAL_IK_RolesView(bpy.types.PropertyGroup):
    """How the roles are shown and edited, in this session of Blender."""

    index: IntProperty(name="Active Role", options={"SKIP_SAVE"})
    mirror: BoolProperty(
        name="Mirror",
        description="An edit on one side gives the other side the bone that mirrors it, by place or by name",
        default=True,
        options={"SKIP_SAVE"},
    )
    overlay: BoolProperty(
        name="Overlay",
        description="Colour the bones in the 3D views by what was understood. Nothing of the armature is changed",
        get=overlay.is_on,
        set=overlay.switch,
    )
    names: BoolProperty(
        name="Names",
        description="Write the roles beside the bones",
        default=True,
        options={"SKIP_SAVE"},
        update=_shown_anew,
    )


_classes = (NEURAL_IK_Roles, NEURAL_IK_RolesView)


def register() -> None:
    """Register the properties."""
    for cls in _classes:
        bpy.utils.register_class(cls)
    types: Any = bpy.types
    types.Object.neural_ik_roles = PointerProperty(type=NEURAL_IK_Roles, override=_OVERRIDE)
    types.WindowManager.neural_ik_roles_view = PointerProperty(type=NEURAL_IK_RolesView)


def unregister() -> None:
    """Take them out."""
    types: Any = bpy.types
    del types.WindowManager.neural_ik_roles_view
    del types.Object.neural_ik_roles
    for cls in reversed(_classes):
        bpy.utils.unregister_class(cls)
