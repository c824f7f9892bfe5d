# SPDX-License-Identifier: GPL-3.0-or-later
"""The small curve of a training, a lesson or a check, drawn as an icon: Blender's panels cannot draw plots."""

from __future__ import annotations

from typing import Any

import bpy.utils.previews
import numpy as np

SIZE = 128  # [pixels]
LINE, FILL = (0.30, 0.62, 1.0, 1.0), (0.06, 0.12, 0.20, 0.20)  # RGBA, premultiplied

PLACES = ("training", "live", "motion", "physics")  # each shows one curve at a time

_icons: dict[str, Any] = {}  # place -> Blender's collection of icons, while registered


def icon(points: list[tuple[float, float]], place: str = "training") -> int:
    """The icon number of a curve of (share done, error) points; 0 if there are too few to draw."""
    icons = _icons.get(place)
    if icons is None or len(points) < 2:
        return 0
    name = f"{len(points)} {points[-1]}"
    if name not in icons:
        icons.clear()
        made = icons.new(name)
        made.image_size = (SIZE, SIZE)
        made.image_pixels_float.foreach_set(draw(points).ravel())
    return int(icons[name].icon_id)


def draw(points: list[tuple[float, float]]) -> np.ndarray:
    """RGBA (SIZE, SIZE, 4), lowest row first: error upwards from zero, the whole training from left to right."""
    shares, errors = np.array(points, float).T
    columns = np.arange(SIZE) / (SIZE - 1)
    heights = np.interp(columns, shares, errors) / max(float(errors.max()), 1e-9) * (SIZE - 3)
    steps = np.abs(np.diff(heights, prepend=heights[0]))  # fills the gaps of steep parts
    rows = np.arange(SIZE)[:, None]
    out = np.zeros((SIZE, SIZE, 4), np.float32)
    drawn = columns <= shares[-1]
    out[(rows <= heights) & drawn] = FILL
    out[(rows >= heights - 1) & (rows <= heights + np.maximum(1, steps)) & drawn] = LINE
    return out


def register() -> None:
    """Create the icon collections."""
    _icons.update({place: bpy.utils.previews.new() for place in PLACES})


def unregister() -> None:
    """Remove them."""
    for icons in _icons.values():
        bpy.utils.previews.remove(icons)
    _icons.clear()
