# SPDX-License-Identifier: GPL-3.0-or-later
"""The Roles panel in a window: find roles, draw the overlay, pick bones with the mouse, and every way to cancel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import addon_utils
import bpy
import drive
from bpy_extras.view3d_utils import location_3d_to_region_2d
from drive import Steps, click, inside, key, picture, press, until

EXTENSION = "bl_ext.user_default.neural_ik"
OPEN = ("NEURAL_IK_PT_main", "NEURAL_IK_PT_roles")


def wing(name: str) -> Any:
    return sys.modules[f"{EXTENSION}.neural_network.blender.{name}"]


def character() -> Any:
    return next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")


def role(name: str) -> str:
    return str(getattr(character().neural_ik_roles, name))


def on_screen(bone: str) -> tuple[int, int]:
    """Window pixels of a bone's midpoint."""
    ob, region = character(), drive.region("WINDOW")
    pb = ob.pose.bones[bone]
    place = location_3d_to_region_2d(
        region, drive.area().spaces[0].region_3d, ob.matrix_world @ (0.5 * (pb.head + pb.tail))
    )
    return int(region.x + place.x), int(region.y + place.y)


def pick(name: str) -> Steps:
    """Press the eyedropper of a role."""
    with inside("UI"):
        bpy.ops.neural_ik.roles_pick("INVOKE_DEFAULT", role=name)
    yield 0.3


def roles(install: Callable[[], Steps], out: Path) -> Steps:
    """Test on Rigify's human metarig if Rigify is available, otherwise on the demo character."""
    yield from install()
    drive.only_panels(*OPEN)
    with inside():
        bpy.ops.object.select_all(action="SELECT")
        bpy.ops.object.delete()
        if addon_utils.enable("rigify", default_set=True) is not None:
            bpy.ops.object.armature_human_metarig_add()
        else:
            bpy.ops.neural_ik.add_demo_character(motion=False)
        bpy.ops.view3d.view_axis(type="FRONT")
        bpy.ops.view3d.view_selected()
        bpy.ops.object.select_all(action="DESELECT")
    space: Any = drive.area().spaces[0]
    space.overlay.show_floor = False
    yield 1.0
    space.region_3d.view_location.x += 0.4  # clear of the sidebar
    yield from drive.open_tab()
    yield from press("neural_ik.roles_find")
    yield from until(lambda: role("LeftHand"), "the roles")
    view: Any = bpy.context.window_manager.neural_ik_roles_view
    view.overlay = True
    assert len(wing("roles.overlay")._handles) == 2
    view.index = list(type(character().neural_ik_roles).bl_rna.properties.keys()).index("RightHand")
    yield from picture(out / "roles.png", "820x692+0+28")
    hand, arm, other = role("RightHand"), role("RightForeArm"), role("LeftForeArm")

    yield from pick("RightHand")
    drive.move(*on_screen(arm))
    yield 0.5
    yield from picture(out / "roles_picking.png")
    yield from click(*on_screen(arm))
    yield from until(lambda: role("RightHand") == arm, "the click")
    assert role("LeftHand") == other, "the other side was not mirrored"
    yield from picture(out / "roles_warning.png")
    with inside():
        bpy.ops.ed.undo()
    yield 0.5
    assert role("RightHand") == hand, "undo did not restore the hand"

    for way_out in ("ESC", "RIGHTMOUSE"):
        yield from pick("Head")
        drive.move(*on_screen(arm))
        yield 0.3
        yield from key(way_out)
        yield 0.3
        before = role("Head")
        yield from click(*on_screen(arm))
        yield 0.3
        assert role("Head") == before, f"the eyedropper goes on after {way_out}"

    with inside("UI"):
        bpy.ops.neural_ik.roles_save_preset(preset="Metarig")
    for menu in ("roles", "role_presets", "role_presets_delete"):
        with inside():
            bpy.ops.wm.call_menu(name=f"NEURAL_IK_MT_{menu}")
        yield from picture(out / f"menu_{menu}.png")
        yield from key("ESC")
        yield 0.3
    with inside():
        bpy.ops.neural_ik.roles_save_preset("INVOKE_DEFAULT")
    yield from picture(out / "save_preset.png")
    yield from key("RET")
    yield from until(lambda: len(wing("roles.editing").presets()) == 2, "the second preset")

    yield from pick("Head")  # then disable the extension while the eyedropper is active
    addon_utils.disable(EXTENSION, default_set=True)
    yield 0.5
    drive.move(*on_screen(arm))
    yield 0.3
    assert not hasattr(bpy.types.Object, "neural_ik_roles")
    assert not [name for name in dir(bpy.types) if name.startswith("NEURAL_IK")]
