# SPDX-License-Identifier: GPL-3.0-or-later
"""The Gait panel in a window: a preset, the ghost beside the character, sliders, Bake Loop and Walk Along Curve by clicks."""

from __future__ import annotations

import math
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


def character() -> Any:
    return next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")


def gait(install: Callable[[], Steps], out: Path) -> Steps:
    """From a preset to a loop that plays."""
    yield from install()
    drive.only_panels(*OPEN)
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
    with inside():
        own.way, own.ground = winding_way(), bumps()
        bpy.context.view_layer.objects.active = character()
        for frame, speed in ((1, 0.8), (60, 1.8)):
            own.speed = speed
            own.keyframe_insert("speed", frame=frame)
    before = character().animation_data.action
    yield 0.5
    yield from press("neural_ik.gait_along")
    yield from until(lambda: character().animation_data.action != before, "the walk along the curve")
    walk = character().animation_data.action
    assert any(
        curve.data_path == "neural_ik_gait.speed" for curve in wing("host.actions").playing(character().animation_data)
    )
    bpy.context.scene.frame_set(round(walk.frame_range[1] * 0.6))
    with inside():
        bpy.ops.view3d.view_axis(type="RIGHT")
        bpy.ops.view3d.view_all()
    yield 1.0
    yield from picture(out / "gait_along.png", "1000x772+0+28")


def winding_way() -> Any:
    """A curve object that winds ahead of the character."""
    data = bpy.data.curves.new("Way", "CURVE")
    data.dimensions = "3D"
    spline = data.splines.new("BEZIER")
    spline.bezier_points.add(2)
    for point, place in zip(spline.bezier_points, ((0, 0, 0), (0.8, -2.5, 0), (0, -5, 0)), strict=True):
        point.co = place
        point.handle_left_type = point.handle_right_type = "AUTO"
    way = bpy.data.objects.new("Way", data)
    bpy.context.collection.objects.link(way)
    return way


def bumps() -> Any:
    """A mesh object of low hills."""
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=60, y_subdivisions=60, size=14)
    ground = bpy.context.object
    for vertex in ground.data.vertices:
        vertex.co.z = 0.06 * math.sin(2.3 * vertex.co.x) * math.cos(1.9 * vertex.co.y)
    return ground
