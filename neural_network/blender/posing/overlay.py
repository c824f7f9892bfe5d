# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets drawn over the 3D Viewport: a dot that shows how well each is reached, and a line to a bone that misses its target.

It does not depend on the viewport's wire color, and changes nothing in the file.
"""

from __future__ import annotations

from typing import Any

import bpy

from ...ik.solver import REACHED
from .state import characters, settings_of

DOT, LINE = 9.0, 2.0  # [pixels]
_handles: list[Any] = []

Spot = tuple[tuple[float, ...], tuple[float, ...]]
"""A position in world space and a color (red, green, blue, opacity)."""


def marks(view_layer: bpy.types.ViewLayer) -> tuple[list[Spot], list[tuple[Spot, Spot]]]:
    """Dots for all visible targets that are on, and lines from missed targets to the heads of their bones."""
    dots: list[Spot] = []
    lines: list[tuple[Spot, Spot]] = []
    for live in characters.values():
        collection = bpy.data.collections.get(live.collection)
        ob: Any = settings_of(collection).armature if collection is not None else None
        if ob is None or ob.pose is None:
            continue
        skeleton = live.rig.skeleton
        for row, target in enumerate(live.targets):
            found: Any = view_layer.objects.get(target.name) if target.name and target.use else None
            if found is None or not found.visible_get(view_layer=view_layer):
                continue
            color = (*found.color[:3], 1.0)
            spot = (tuple(found.matrix_world.translation), color)
            dots.append(spot)
            if live.errors is None or row >= len(skeleton.effectors) or live.errors[row] < REACHED:
                continue
            pb = ob.pose.bones.get(live.rig.bones[live.rig.index[skeleton.effectors[row]]])
            if pb is not None:
                lines.append((spot, (tuple(ob.matrix_world @ pb.head), color)))
    return dots, lines


def _draw() -> None:
    context: Any = bpy.context
    if not characters or not context.space_data.overlay.show_overlays:
        return
    import gpu
    from gpu_extras.batch import batch_for_shader

    dots, lines = marks(context.view_layer)
    if not dots:
        return
    shader = gpu.shader.from_builtin("FLAT_COLOR")
    gpu.state.depth_test_set("NONE")
    gpu.state.point_size_set(DOT)
    gpu.state.line_width_set(LINE)
    try:
        for kind, spots in (("LINES", [end for line in lines for end in line]), ("POINTS", dots)):
            if spots:
                positions, colors = zip(*spots, strict=True)
                batch_for_shader(shader, kind, {"pos": positions, "color": colors}).draw(shader)
    finally:
        gpu.state.point_size_set(1.0)
        gpu.state.line_width_set(1.0)


def register() -> None:
    """Start drawing; does nothing in background mode."""
    if not bpy.app.background:
        _handles.append(bpy.types.SpaceView3D.draw_handler_add(_draw, (), "WINDOW", "POST_VIEW"))


def unregister() -> None:
    """Stop drawing."""
    for handle in _handles:
        bpy.types.SpaceView3D.draw_handler_remove(handle, "WINDOW")
    _handles.clear()
