# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Fix Feet, stored on the armature object."""

from __future__ import annotations

import bpy

from ..host import registering
from ..host.mended_settings import MendedSettings


class NEURAL_IK_FeetSettings(MendedSettings, bpy.types.PropertyGroup):
    """What of one armature object's motion is repaired, and on which ground."""


register, unregister = registering.settings(
    NEURAL_IK_FeetSettings, on={"Object.neural_ik_feet": NEURAL_IK_FeetSettings}
)
