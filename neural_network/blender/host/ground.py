# SPDX-License-Identifier: GPL-3.0-or-later
"""Meshes that a character stands on, as heights under points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
from mathutils import Vector

from . import rig

LIFT = 100.0  # [m] rays begin so far above


def under(
    context: bpy.types.Context, ob: Any, mesh: bpy.types.Object | None
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Heights under points of a mesh that the character ``ob`` stands on; None for a level floor, where there is no mesh."""
    return None if mesh is None else heights(context, mesh, np.array(ob.matrix_world.translation), rig.metres(ob))


def heights(
    context: bpy.types.Context, ground: bpy.types.Object, origin: np.ndarray, scale: float
) -> Callable[[np.ndarray], np.ndarray]:
    """A function of the heights (...) [m] of a mesh under points (..., 2) [m], in rig space; beside the mesh, that of the nearest
    point it has.

    ``origin`` (3) is the place of the armature object [Blender units], ``scale`` the metres in one.
    """
    shown: Any = ground.evaluated_get(context.evaluated_depsgraph_get())
    matrix = shown.matrix_world
    back = matrix.inverted()
    down = (back.to_3x3() @ Vector((0, 0, -1))).normalized()
    known: dict[tuple[float, float], float] = {}

    def one(x: float, y: float) -> float:
        key = (round(x, 4), round(y, 4))
        if key not in known:
            top = Vector((x / scale + origin[0], y / scale + origin[1], origin[2] + LIFT / scale))
            hit, place, _, _ = shown.ray_cast(back @ top, down)
            if not hit:
                _, place, _, _ = shown.closest_point_on_mesh(back @ Vector((top.x, top.y, origin[2])))
            known[key] = ((matrix @ place).z - origin[2]) * scale
        return known[key]

    def under(points: np.ndarray) -> np.ndarray:
        flat = points.reshape(-1, 2)
        return np.array([one(float(x), float(y)) for x, y in flat]).reshape(points.shape[:-1])

    return under
