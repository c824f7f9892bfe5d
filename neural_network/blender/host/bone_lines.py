# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones drawn as lines in the 3D Viewport, over everything else: left, right and middle ones in colors of their own."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

LINE = 3.0  # [pixels]
COLORS = ((0.30, 0.65, 1.0, 0.9), (1.0, 0.45, 0.25, 0.9), (0.85, 0.85, 0.85, 0.9))
"""Of left, right and middle bones."""
MIDDLE = 0.02  # share of the body's height within which a bone is a middle one


def lines(
    heads: np.ndarray, parents: np.ndarray, sides: np.ndarray, matrix: np.ndarray, fade: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of lines (2 N, 3) in world space and their colors (2 N, 4) of a pose.

    ``heads`` (J, 3) [object space], ``parents`` (J), ``sides`` (J) from :func:`sides_of`, ``matrix`` (4, 4) of the object;
    ``fade`` of 1 is as bright as it gets.
    """
    below = np.flatnonzero(parents >= 0)
    ends = np.stack([heads[parents[below]], heads[below]], axis=1).reshape(-1, 3)
    colors = np.repeat(np.array(COLORS)[sides[below]], 2, axis=0)
    colors[:, 3] *= fade
    return ends @ matrix[:3, :3].T + matrix[:3, 3], colors


def sides_of(across: np.ndarray) -> np.ndarray:
    """(J) 0 for left, 1 for right, 2 for middle bones, from how far (J) [m] they are to the character's left."""
    return np.where(across > MIDDLE, 0, np.where(across < -MIDDLE, 1, 2))


def draw(ends: np.ndarray, colors: np.ndarray) -> None:
    """Draw lines (2 N, 3) with colors (2 N, 4) in the view that is being drawn."""
    import gpu
    from gpu_extras.batch import batch_for_shader

    viewport: Any = gpu.state.viewport_get()
    shader = gpu.shader.from_builtin("POLYLINE_FLAT_COLOR")
    gpu.state.depth_test_set("NONE")
    gpu.state.blend_set("ALPHA")
    try:
        shader.bind()
        shader.uniform_float("viewportSize", viewport[2:])
        shader.uniform_float("lineWidth", LINE * bpy.context.preferences.system.ui_scale)
        content: Any = {"pos": [tuple(p) for p in ends.tolist()], "color": [tuple(c) for c in colors.tolist()]}
        batch_for_shader(shader, "LINES", content).draw(shader)
    finally:
        gpu.state.blend_set("NONE")
