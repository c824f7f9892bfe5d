# SPDX-License-Identifier: GPL-3.0-or-later
"""The balance score over the timeline: a strip of bars along the lower edge of Timeline, Dope Sheet and Graph Editor.

Green where the ground carries the character, red where nothing does; as high as the score, up to one body weight. Behind it,
darker, what was before, while the ghost of Make Physical shows. Nothing is stored in the file.
"""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ..host import ghost, jobs, rig
from . import scores
from .scores import Scores

HEIGHT = 36.0  # [pixels at scale 1] of one body weight, but no more than
SHARE = 0.45  # of the editor's height
LEAST = 2.0  # [pixels at scale 1] of a score of 0
BARS = 2000  # at most
GOOD, BAD = (0.25, 0.75, 0.35), (0.95, 0.25, 0.2)
FULL = 0.5  # [body weights] a score that is drawn in the second color
BRIGHT, DIM = 0.75, 0.35
EDITORS = ("SpaceDopeSheetEditor", "SpaceGraphEditor")

_handles: list[tuple[Any, Any]] = []


def bars(found: Scores, score: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Left and right edges (N, 2) [frames], heights (N) of 0 to 1, and colors (N, 4) of the bars of a score (F)."""
    step = -(-len(score) // BARS)
    begins = np.arange(0, len(score), step)
    worst = np.maximum.reduceat(score, begins)  # of the frames that one bar stands for
    share = np.clip(worst / FULL, 0, 1)[:, None]
    colors = np.concatenate([(1 - share) * GOOD + share * BAD, np.full((len(worst), 1), alpha)], axis=1)
    edges = found.first - 0.5 + np.stack([begins, np.minimum(begins + step, len(score))], axis=1)
    return edges, np.clip(worst, 0, 1), colors


def shown(context: bpy.types.Context) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """What is drawn for the active character: the bars of what it shows, and of its ghost, if Make Physical's shows."""
    try:
        ob = rig.find(context)
    except ValueError:
        return []
    found = scores.of(ob)
    if found is None:
        return []
    made = ghost.current(jobs.PHYSICS)
    if found.ghost is None or made is None or made.name != ob.name:
        return [bars(found, found.score, BRIGHT)]
    return [bars(found, found.score, DIM), bars(found, found.ghost, BRIGHT)]


def _draw() -> None:
    context = bpy.context
    region: Any = context.region
    drawn = shown(context)
    if not drawn:
        return
    import gpu
    from gpu_extras.batch import batch_for_shader

    scale = context.preferences.system.ui_scale
    at, per = (region.view2d.view_to_region(frame, 0, clip=False)[0] for frame in (0, 1000))
    shader = gpu.shader.from_builtin("FLAT_COLOR")
    gpu.state.blend_set("ALPHA")
    try:
        for edges, heights, colors in drawn:
            x = at + edges * (per - at) / 1000
            top = scale * LEAST + min(scale * HEIGHT, SHARE * region.height) * heights
            none = np.zeros_like(top)
            corners = np.stack(
                [x[:, 0], none, x[:, 1], none, x[:, 1], top, x[:, 0], none, x[:, 1], top, x[:, 0], top], axis=1
            )
            content: Any = {"pos": corners.reshape(-1, 2).tolist(), "color": np.repeat(colors, 6, axis=0).tolist()}
            batch_for_shader(shader, "TRIS", content).draw(shader)
    finally:
        gpu.state.blend_set("NONE")


def register() -> None:
    """Draw, unless in background mode, and drop scores that are out of date."""
    for name, handler in scores.HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)
    if not bpy.app.background:
        for editor in EDITORS:
            space = getattr(bpy.types, editor)
            _handles.append((space, space.draw_handler_add(_draw, (), "WINDOW", "POST_PIXEL")))


def unregister() -> None:
    """Leave nothing behind."""
    scores.forget()
    for space, handle in _handles:
        space.draw_handler_remove(handle, "WINDOW")
    _handles.clear()
    for name, handler in scores.HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
