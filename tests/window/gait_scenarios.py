# SPDX-License-Identifier: GPL-3.0-or-later
"""The Gait panel in a window: a preset, the ghost beside the character, sliders, and Bake Loop by clicks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import drive
from drive import Steps, inside, picture, press, until

EXTENSION = "bl_ext.user_default.neural_ik"
OPEN = ("NEURAL_IK_PT_gait", "NEURAL_IK_PT_gait_body", "NEURAL_IK_PT_gait_style")


def wing(name: str) -> Any:
    return sys.modules[f"{EXTENSION}.neural_network.blender.{name}"]


def only_gait() -> None:
    """Show only the Gait panel and its parts, expanded."""
    rooms = ("roles", "effectors", "learn", "data", "posing", "gait", "teach")
    modules = [wing(name) for name in ("host.main_panel", *(f"{room}.panel" for room in rooms))]
    for module in reversed(modules):
        module.unregister()
    for module in modules:
        for name, cls in vars(module).items():
            if name in OPEN:
                cls.bl_options = set()
            elif name.startswith("NEURAL_IK_PT"):
                cls.poll = classmethod(lambda cls, context: False)
        module.register()


def character() -> Any:
    return next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")


def gait(install: Callable[[], Steps], out: Path) -> Steps:
    """From a preset to a loop that plays."""
    yield from install()
    only_gait()
    with inside():
        bpy.ops.object.select_all(action="SELECT")
        bpy.ops.object.delete()
        bpy.ops.neural_ik.add_demo_character(motion=False)
        bpy.ops.view3d.view_axis(type="RIGHT")
        bpy.ops.view3d.view_selected()
    space: Any = drive.area().spaces[0]
    yield 1.0
    space.region_3d.view_location.y += 0.5  # clear of the sidebar
    yield from drive.open_tab()
    own = character().neural_ik_gait
    with inside():
        bpy.ops.neural_ik.gait_preset(preset="SNEAK")
    own.preview = True
    bpy.context.scene.frame_set(10)
    yield 1.0
    assert wing("gait.preview")._handles
    assert wing("gait.preview")._cycles, "the ghost was not drawn"
    yield from picture(out / "gait_panel.png", "1000x772+0+28")
    own.crouch = 1.0
    yield 0.5
    yield from press("neural_ik.gait_bake")
    yield from until(lambda: character().animation_data and character().animation_data.action, "the loop")
    action = character().animation_data.action
    assert not own.preview
    bpy.context.scene.frame_set(round(action.frame_end) + 5)
    yield 0.5
    yield from picture(out / "gait_baked.png")
