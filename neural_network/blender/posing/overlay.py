# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK's targets in the 3D views: a dot in the colour of how well each is reached, and a line to what misses it.

It is drawn over the scene, whatever the view's wire colour; nothing in the file changes.
"""

from __future__ import annotations

from typing import Any

import bpy

from ...ik.solver import REACHED
from .state import lives, settings_of

DOT, LINE = 9.0, 2.0  # [pixels]
_handles: list[Any] = []

Spot = tuple[tuple[float, ...], tuple[float, ...]]
"""A place in the world and a colour."""


def marks(view_layer: bpy.types.ViewLayer) -> tuple[list[Spot], list[tuple[Spot, Spot]]]:
    """The dots of all targets that are on, and lines from those that are missed to the heads of their bones."""
    dots: list[Spot] = []
    lines: list[tuple[Spot, Spot]] = []
    for live in lives.values():
        collection = bpy.data.collections.get(live.collection)
        ob: Any = settings_of(collection).armature if collection is not None else None
        if ob is None or ob.pose is None:
            continue
        skeleton = live.rig.skeleton
        for row, target in enumerate(live.targets):
            found: Any = view_layer.objects.get(target.name) if target.name and target.use else None
            if found is None or not found.visible_get(view_layer=view_layer):
                continue
            colour = (*found.color[:3], 1.0)
            spot = (tuple(found.matrix_world.translation), colour)
            dots.append(spot)
            if live.solution is None or row >= len(skeleton.effectors) or live.solution.error[row] < REACHED:
                continue
            pb = ob.pose.bones.get(live.rig.bones[live.rig.index[skeleton.effectors[row]]])
            if pb is not None:
                lines.append((spot, (tuple(ob.matrix_world @ pb.head), colour)))
    return dots, lines


def _draw() -> None:
    context: Any = bpy.context
    if not lives or not context.space_data.overlay.show_overlays:
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
                places, colours = zip(*spots, strict=True)
                batch_for_shader(shader, kind, {"pos": places, "color": colours}).draw(shader)
    finally:
        gpu.state.point_size_set(1.0)
        gpu.state.line_width_set(1.0)


def register() -> None:
    """Draw from now on; without a window nothing is drawn."""
    if not bpy.app.background:
        _handles.append(bpy.types.SpaceView3D.draw_handler_add(_draw, (), "WINDOW", "POST_VIEW"))


def unregister() -> None:
    """Draw no more."""
    for handle in _handles:
        bpy.types.SpaceView3D.draw_handler_remove(handle, "WINDOW")
    _handles.clear()
