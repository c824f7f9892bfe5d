# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets drawn over the 3D Viewport: their shapes in the color of their side, a dot that shows how well each is reached, and a
line to a bone that misses its target.

Shapes are as large as the targets, which are as large as the character needs. The active character's are brighter than those of
others, whose names stand beside them. All of it is hidden with the viewport's overlays, and changes nothing in the file.
"""

from __future__ import annotations

import itertools
from typing import Any

import bpy
import numpy as np

from ...ik.solver import REACHED
from .state import active_collection, characters, collections, settings_of, target_objects

DOT, LINE, EDGE = 9.0, 2.0, 2.5  # [pixels]
LEFT, RIGHT, MIDDLE = (0.25, 0.62, 1.0), (1.0, 0.38, 0.55), (0.35, 0.95, 0.85)
"""Colors of targets; none is a color that Blender has for what is selected, or that a dot has."""
OFF, OTHER = 0.35, 0.3  # opacity of targets that are off, and of other characters than the active one
NAME = 12.0  # [points] of a character's name
SIDES = 32  # of a circle
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


def shape(kind: str) -> np.ndarray:
    """Ends of the lines (2 N, 3) of an empty of that display type and size 1."""
    if kind == "CUBE":
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
        pairs = [(a, b) for a, b in itertools.combinations(range(8), 2) if np.abs(corners[a] - corners[b]).sum() == 2]
        return corners[np.array(pairs).ravel()]
    if kind == "PLAIN_AXES":
        return np.concatenate([(-axis, axis) for axis in np.eye(3)])
    angles = 2 * np.pi * np.arange(SIDES + 1) / SIDES
    ring = np.repeat(np.stack([np.cos(angles), 0 * angles, np.sin(angles)], axis=1), 2, axis=0)[1:-1]
    return ring if kind == "CIRCLE" else np.concatenate([np.roll(ring, turn, axis=1) for turn in range(3)])


def handles(context: Any) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    """Ends of the lines [world space] of all visible targets that are not selected, which Blender marks itself, and their colors."""
    active = active_collection(context)
    points: list[tuple[float, ...]] = []
    colors: list[tuple[float, ...]] = []
    for collection in collections():
        dim = 1.0 if active is None or collection == active else OTHER
        for (kind, role), ob in target_objects(collection).items():
            found: Any = ob
            if found.select_get() or not found.visible_get(view_layer=context.view_layer):
                continue
            matrix = np.array(found.matrix_world)
            ends = shape(found.empty_display_type) * found.empty_display_size @ matrix[:3, :3].T + matrix[:3, 3]
            side = LEFT if role.startswith("Left") else RIGHT if role.startswith("Right") else MIDDLE
            color = (*side, dim * (1.0 if found.neural_ik_target.use else OFF if kind == "EFFECTOR" else 0.7 * OFF))
            points += map(tuple, ends.tolist())
            colors += [color] * len(ends)
    return points, colors


def names(view_layer: bpy.types.ViewLayer) -> list[tuple[str, tuple[float, ...]]]:
    """Each character under Live IK and its highest target [world space], where there are several; else none."""
    found = collections()
    out: list[tuple[str, tuple[float, ...]]] = []
    for collection in found if len(found) > 1 else ():
        ob, targets = settings_of(collection).armature, target_objects(collection)
        seen = [t for t in targets.values() if t.visible_get(view_layer=view_layer)]
        if ob is not None and seen:
            highest = max(seen, key=lambda t: t.matrix_world.translation.z)
            out.append((ob.name, tuple(highest.matrix_world.translation[:])))
    return out


def _draw() -> None:
    context: Any = bpy.context
    overlay = context.space_data.overlay
    if not collections() or not overlay.show_overlays or not overlay.show_extras:
        return
    import gpu
    from gpu_extras.batch import batch_for_shader

    dots, lines = marks(context.view_layer)
    points, tints = handles(context)
    ends = [end for line in lines for end in line]
    viewport: Any = gpu.state.viewport_get()
    edges, flat = (gpu.shader.from_builtin(name) for name in ("POLYLINE_FLAT_COLOR", "FLAT_COLOR"))
    gpu.state.depth_test_set("NONE")
    gpu.state.blend_set("ALPHA")
    gpu.state.point_size_set(DOT)
    try:
        for width, at, color in ((EDGE, points, tints), (LINE, [p for p, _ in ends], [c for _, c in ends])):
            if at:
                edges.bind()
                edges.uniform_float("viewportSize", viewport[2:])
                edges.uniform_float("lineWidth", width)
                content: Any = {"pos": at, "color": color}
                batch_for_shader(edges, "LINES", content).draw(edges)
        if dots:
            content = {"pos": [p for p, _ in dots], "color": [c for _, c in dots]}
            batch_for_shader(flat, "POINTS", content).draw(flat)
    finally:
        gpu.state.point_size_set(1.0)
        gpu.state.blend_set("NONE")


def _draw_names() -> None:
    context: Any = bpy.context
    overlay = context.space_data.overlay
    if not overlay.show_overlays or not overlay.show_extras:
        return
    found = names(context.view_layer)
    if not found:
        return
    import blf
    from bpy_extras.view3d_utils import location_3d_to_region_2d

    blf.size(0, NAME * context.preferences.system.ui_scale)
    blf.color(0, *MIDDLE, 1.0)
    for name, place in found:
        at = location_3d_to_region_2d(context.region, context.region_data, place)
        if at is not None:
            blf.position(0, at[0] + 2.5 * NAME, at[1] + NAME, 0)
            blf.draw(0, name)


def register() -> None:
    """Start drawing; does nothing in background mode."""
    if not bpy.app.background:
        for draw, when in ((_draw, "POST_VIEW"), (_draw_names, "POST_PIXEL")):
            _handles.append(bpy.types.SpaceView3D.draw_handler_add(draw, (), "WINDOW", when))


def unregister() -> None:
    """Stop drawing."""
    for handle in _handles:
        bpy.types.SpaceView3D.draw_handler_remove(handle, "WINDOW")
    _handles.clear()
