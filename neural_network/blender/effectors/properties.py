# SPDX-License-Identifier: GPL-3.0-or-later
"""The effectors that the user chose for a creature, stored on the armature object.

Names are stored in one string, one per line: in library overrides, collection properties are empty after reopening a file.
The property names are stored in .blend files, so they must not change.
"""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import StringProperty

from ..host import registering

_OVERRIDE: Any = {"LIBRARY_OVERRIDABLE"}


def lines(text: str) -> list[str]:
    """The names in a property."""
    return [line for line in text.split("\n") if line]


def add(own: Any, names: list[str]) -> None:
    """Add effectors that are not in the list yet."""
    own.effectors = "\n".join(dict.fromkeys([*lines(own.effectors), *names]))


def _picked(own: Any, context: Any) -> None:
    if own.pick:
        add(own, [own.pick])
        own["pick"] = ""
        own.pick = ""


class NEURAL_IK_EffectorSettings(bpy.types.PropertyGroup):
    """The user's choices for an armature object; without effectors they are found automatically."""

    effectors: StringProperty(
        name="Effectors", description="Names of the bones that can be dragged, one per line", override=_OVERRIDE
    )
    feet: StringProperty(
        name="Feet", description="Names of the effectors that stand on the ground, one per line", override=_OVERRIDE
    )
    body: StringProperty(
        name="Body",
        description="The bone above all effectors, moved like the hips of a human. If empty, their nearest common ancestor",
        override=_OVERRIDE,
    )
    pick: StringProperty(name="Add", description="Bone to add to the effectors", update=_picked, options={"SKIP_SAVE"})


register, unregister = registering.settings(
    NEURAL_IK_EffectorSettings,
    on={"Object.neural_ik_ends": {"type": NEURAL_IK_EffectorSettings, "override": _OVERRIDE}},
)
