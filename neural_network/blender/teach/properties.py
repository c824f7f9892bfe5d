# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the panel Live. They belong to the window and are not saved: no file can open a port or hold a token."""

from __future__ import annotations

from typing import Any

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, StringProperty

from ...live.server import PORT
from ...live.trainee import Settings
from ...live.vmc import PORT_OUT
from ..host import registering
from .session import state


def _get_token(self: bpy.types.PropertyGroup) -> str:
    return state.token


def _set_token(self: bpy.types.PropertyGroup, value: str) -> None:
    state.token = value


class NEURAL_IK_Teach(bpy.types.PropertyGroup):
    """Settings of the panel Live."""

    which: EnumProperty(
        name="Actions",
        items=[
            ("ACTIVE", "Active", "Teach the action assigned to the character"),
            ("TICKED", "All Ticked", "Teach every ticked action in the list of actions, one after the other"),
        ],
        options={"SKIP_SAVE"},
    )
    passes: IntProperty(
        name="Passes",
        description="Maximum number of passes over the actions; teaching ends earlier once the error is low enough",
        default=6,
        min=1,
        max=1000,
        options={"SKIP_SAVE"},
    )
    threshold: FloatProperty(
        name="Error Threshold",
        description="Error below which the lesson may drive: radians for legs; metres for engine-taught bones",
        default=Settings().threshold,
        min=1e-5,
        max=1,
        precision=4,
        options={"SKIP_SAVE"},
    )
    go_on: BoolProperty(
        name="Continue",
        description="Continue from the saved lesson. Off: start a new one",
        default=True,
        options={"SKIP_SAVE"},
    )
    port: IntProperty(
        name="Port", description="Port that engines connect to", default=PORT, min=1, max=65535, options={"SKIP_SAVE"}
    )
    local: BoolProperty(
        name="This Computer Only",
        description="Accept connections from this computer only. Off: requires a token and Online Access",
        default=True,
        options={"SKIP_SAVE"},
    )
    token: StringProperty(
        name="Token",
        description="Secret that clients must know; never saved to a file. May be empty for this computer only",
        subtype="PASSWORD",
        get=_get_token,
        set=_set_token,
        options={"SKIP_SAVE"},
    )
    vmc_host: StringProperty(
        name="To",
        description="Address to send the pose to. Another computer requires Online Access",
        default="127.0.0.1",
        options={"SKIP_SAVE"},
    )
    vmc_port: IntProperty(
        name="Port",
        description="Port to send the pose to; most programs that receive VMC use the default",
        default=PORT_OUT,
        min=1,
        max=65535,
        options={"SKIP_SAVE"},
    )
    source: EnumProperty(
        name="Drive By",
        items=[
            ("FEET", "Feet", "Two foot targets in the scene move the legs as taught"),
            ("CLIENT", "Client", "A connected engine moves the whole body, solved with the loaded weights"),
        ],
        options={"SKIP_SAVE"},
    )


def settings(context: bpy.types.Context) -> Any:
    """The panel's settings."""
    manager: Any = context.window_manager
    return manager.neural_ik_teach


register, unregister = registering.settings(NEURAL_IK_Teach, on={"WindowManager.neural_ik_teach": NEURAL_IK_Teach})
