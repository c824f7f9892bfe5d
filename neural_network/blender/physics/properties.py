# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Make Physical, stored on the armature object."""

from __future__ import annotations

import bpy

from ..host import registering
from ..host.mended_settings import MendedSettings


class NEURAL_IK_PhysicsSettings(MendedSettings, bpy.types.PropertyGroup):
    """What of one armature object's motion is weighed, and on which ground."""


register, unregister = registering.settings(
    NEURAL_IK_PhysicsSettings, on={"Object.neural_ik_physics": NEURAL_IK_PhysicsSettings}
)
