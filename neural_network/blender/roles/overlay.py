# SPDX-License-Identifier: GPL-3.0-or-later
"""An overlay in the 3D Viewports that colors bones by their roles. Nothing in the file changes.

The colors are the theme's collection colors, so that they match the icons in the panel.
"""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent

from ...rigs.role_edits import part_of, side_of
from ..host import rig
from . import editing

GROUPS = ("Hands", "Trunk", "Right Arm", "Left Arm", "Right Leg", "Head", "Feet", "Left Leg")
"""In the order of the theme's collection colors 1 to 8, by default red, orange, yellow, green, blue, violet, pink, brown."""

_GREY = (0.5, 0.5, 0.5, 0.16)
_LIGHT = np.array([0.4, -0.5, 0.77])  # unit vector toward the light, world space
_WIDEST = 0.1  # half the thickness of a bone, in bone lengths
_RING = 0.12  # distance from the head to the thickest point, in bone lengths
_WHITE = (1.0, 1.0, 1.0, 0.9)
_handles: list[Any] = []
_on = False
_highlighted = ""  # the bone under the eyedropper


def group(role: str) -> int:
    """The index of a role's group in GROUPS."""
    part = part_of(role)
    if part in ("Hand",):
        return 0
    if part in ("Foot", "ToeBase"):
        return 6
    if part in ("Neck", "Head"):
        return 5
    if side_of(role):
        limb = "Arm" if part in ("Shoulder", "Arm", "ForeArm") else "Leg"
        return GROUPS.index(f"{side_of(role)} {limb}")
    return 1


def icon(role: str) -> Any:
    """The icon in the color of a role's group."""
    return f"COLLECTION_COLOR_{group(role) + 1:02}"


def is_on(_: Any = None) -> bool:
    """Whether the overlay is on."""
    return _on


def switch(_: Any, on: bool) -> None:
    """Switch the overlay on or off. Nothing is drawn in background mode."""
    global _on
    _on = bool(on)
    _set_drawing(_on or bool(_highlighted))


def highlight(bone: str) -> None:
    """Draw a bone in white, whether the overlay is on or not; an empty name removes the highlight."""
    global _highlighted
    if bone != _highlighted:
        _highlighted = bone
        _set_drawing(_on or bool(_highlighted))


def _set_drawing(drawing: bool) -> None:
    for handle in _handles:
        bpy.types.SpaceView3D.draw_handler_remove(handle, "WINDOW")
    _handles.clear()
    if drawing and not bpy.app.background:
        add = bpy.types.SpaceView3D.draw_handler_add
        _handles.append(add(_draw_bones, (), "WINDOW", "POST_VIEW"))
        _handles.append(add(_draw_names, (), "WINDOW", "POST_PIXEL"))
    editing.redraw()


def shapes(heads: np.ndarray, tails: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Corners (N, 8, 3, 3) of the eight triangles of every bone, counterclockwise seen from outside.

    Args:
        heads: (N, 3) in any space.
        tails: (N, 3) in the same space.
        sides: (N, 3, 3) the bones' axes as columns; Y is ignored.
    """
    length = np.linalg.norm(tails - heads, axis=1)[:, None]
    middle = heads + _RING * (tails - heads)
    x, z = (sides[:, :, k] * length * _WIDEST for k in (0, 2))
    ring = [middle + x, middle - z, middle - x, middle + z]
    faces = []
    for a, b in zip(ring, ring[1:] + ring[:1], strict=True):
        faces.append(np.stack([tails, a, b], axis=1))
        faces.append(np.stack([heads, b, a], axis=1))
    return np.stack(faces, axis=1)


def colors(ob: bpy.types.Object) -> dict[str, tuple[float, float, float, float]]:
    """Bone -> color (red, green, blue, opacity) of its role's group; the lower the confidence, the more transparent.

    The highlighted bone is white. Bones without a role are not included.
    """
    out = {}
    for role, bone in editing.table(ob).items():
        sure, _ = editing.explain(ob, role)
        red, green, blue = bpy.context.preferences.themes[0].collection_color[group(role)].color
        out[bone] = (red, green, blue, 0.3 + 0.6 * (1.0 if sure is None else sure))
    if not _on:
        out.clear()
    return {**out, **({_highlighted: _WHITE} if _highlighted else {})}


def _shown() -> bpy.types.Object | None:
    """The character to draw in this viewport; None if it has no roles or is not visible."""
    context = bpy.context
    try:
        ob = rig.find(context)
    except ValueError:
        return None
    if ob.mode == "EDIT" or ob.pose is None or not (_highlighted or rig.given_roles(ob)):
        return None
    space: Any = context.space_data
    if not space.overlay.show_overlays or not ob.visible_get(view_layer=context.view_layer):
        return None
    return ob


def _draw_bones() -> None:
    ob = _shown()
    if ob is None:
        return
    import gpu
    from gpu_extras.batch import batch_for_shader

    corners, tints = geometry(ob, np.array(bpy.context.region_data.view_matrix, float))
    content: Any = {"pos": corners.astype(np.float32), "color": tints.astype(np.float32)}
    shader = gpu.shader.from_builtin("FLAT_COLOR")
    batch = batch_for_shader(shader, "TRIS", content)
    gpu.state.blend_set("ALPHA")
    gpu.state.depth_test_set("NONE")
    gpu.state.face_culling_set("BACK")
    try:
        batch.draw(shader)
    finally:
        gpu.state.face_culling_set("NONE")
        gpu.state.blend_set("NONE")


def geometry(ob: bpy.types.Object, view: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners (3 T, 3) [world space] and colors (3 T, 4) of all triangles, farthest bones first.

    ``view`` (4, 4) is the view's matrix, from world to view space.
    """
    color = colors(ob)
    bones = [pb for pb in ob.pose.bones if pb.name in color or (_on and editing.is_visible(pb))]
    if not bones:
        return np.zeros((0, 3)), np.zeros((0, 4))
    world = np.array(ob.matrix_world, float)
    heads, tails = (
        np.array([getattr(pb, end) for pb in bones]) @ world[:3, :3].T + world[:3, 3] for end in ("head", "tail")
    )
    axes = world[:3, :3] @ np.array([pb.matrix for pb in bones], float)[:, :3, :3]
    axes = axes / np.maximum(np.linalg.norm(axes, axis=1, keepdims=True), 1e-12)
    tint = np.array([color.get(pb.name, _GREY) for pb in bones])
    depth = (0.5 * (heads + tails)) @ view[2, :3]
    has_role = np.array([pb.name in color for pb in bones])
    order = np.lexsort((depth, has_role))  # grey first, then from far to near: the view looks along its -Z
    faces = shapes(heads, tails, axes)[order]
    normals = np.cross(faces[:, :, 1] - faces[:, :, 0], faces[:, :, 2] - faces[:, :, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-12)
    shade = 0.7 + 0.3 * (normals @ _LIGHT)
    tints = np.repeat(tint[order][:, None], 8, axis=1)
    tints[..., :3] *= shade[..., None]
    return faces.reshape(-1, 3), np.repeat(tints.reshape(-1, 4), 3, axis=0)


def _draw_names() -> None:
    ob = _shown()
    view: Any = bpy.context.window_manager.neural_ik_roles_view
    if ob is None or not (_on and view.names):
        return
    import blf
    from bpy_extras.view3d_utils import location_3d_to_region_2d

    region: Any = bpy.context.region
    view_3d: Any = bpy.context.region_data
    scale = bpy.context.preferences.system.ui_scale
    blf.size(0, 11 * scale)
    blf.enable(0, blf.SHADOW)
    blf.shadow(0, 3, 0.0, 0.0, 0.0, 0.9)
    positions = {}
    for role, bone in rig.given_roles(ob).items():
        pb = ob.pose.bones.get(bone)
        position = pb and location_3d_to_region_2d(region, view_3d, ob.matrix_world @ (0.5 * (pb.head + pb.tail)))
        if position is not None:
            positions[role] = position
    middle = float(np.median([position.x for position in positions.values()])) if positions else 0.0
    for role, position in positions.items():
        outward = -blf.dimensions(0, role)[0] - 6 * scale if side_of(role) and position.x < middle else 6 * scale
        blf.color(0, 1.0, 1.0, 1.0, 1.0)
        blf.position(0, position.x + outward, position.y - 4 * scale, 0)
        blf.draw(0, role)
    blf.disable(0, blf.SHADOW)


def _before_load(*_: object) -> None:
    highlight("")
    switch(None, False)


_before_load = persistent(_before_load)


def register() -> None:
    """Add the handler that switches the overlay off when another file is loaded."""
    bpy.app.handlers.load_pre.append(_before_load)


def unregister() -> None:
    """Switch the overlay off and remove the handler."""
    _before_load()
    if _before_load in bpy.app.handlers.load_pre:
        bpy.app.handlers.load_pre.remove(_before_load)
