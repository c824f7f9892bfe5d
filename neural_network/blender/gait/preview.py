# SPDX-License-Identifier: GPL-3.0-or-later
"""The ghost: one cycle of the walk, drawn as lines at the character, which plays with the scene and changes nothing.

While a slider moves it is what the network says, at once; as soon as no slider has moved for a moment, its feet are exact.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...gait import network, own_style, parameters, walks
from ...gait.network import Gait
from ...gait.own_style import Styled
from ...ik import foot_pins
from ...rigs import on_body
from ..host import bone_lines, characters, jobs, rig
from .sliders import values_of

KEPT = 2.0  # [s] for which what was read of a rig is used again
STILL = 0.3  # [s] without a change after which feet are made exact
FRAMES = 40  # of a cycle whose feet are exact
_handles: list[Any] = []
_cycles: dict[str, tuple[Any, np.ndarray, np.ndarray, float]] = {}
_bodies: dict[str, tuple[float, rig.Rig, on_body.Character]] = {}
_gaits: list[Gait] = []
_changed = [0.0]  # [s] when a slider moved last; 0: feet are exact


def gait() -> Gait:
    """The shipped network, read once."""
    if not _gaits:
        _gaits.append(network.load())
    return _gaits[0]


def style_path(ob: Any) -> Path:
    """Where the character's own way to walk is kept."""
    return characters.kept(characters.subject_of(ob)).weights("gait")


def source(ob: Any) -> walks.Source:
    """The network, with as much of the character's own style as its slider says."""
    weight = float(ob.neural_ik_gait.own_style)
    path = style_path(ob) if weight else None
    if path is None or not path.exists():
        return gait()
    return Styled(gait(), own_style.load(path), weight)


def refresh(context: Any) -> None:
    """Forget the ghosts, which are made anew when they are drawn next, and draw."""
    _cycles.clear()
    _changed[0] = time.monotonic()
    if not bpy.app.background and not bpy.app.timers.is_registered(settle):
        bpy.app.timers.register(settle, first_interval=STILL)
    jobs.redraw()


def settle() -> float | None:
    """Make the feet of the ghosts exact once no slider moves; how long [s] to wait for that, as a timer returns it."""
    left = STILL - (time.monotonic() - _changed[0])
    if left > 0:
        return left
    _changed[0] = 0.0
    _cycles.clear()
    jobs.redraw()
    return None


def cycle_of(ob: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Heads (F, J, 3) [object space] of one cycle in place, parents (J) and its seconds."""
    own = ob.neural_ik_gait
    found = _cycles.get(ob.name)
    key = (*values_of(own).tolist(), own.own_style)
    if found is None or found[0] != key:
        body, who = _body(ob)
        values = walks.own_values(who.body, values_of(own))
        size = float(np.sqrt(who.body.leg_length / float(parameters.leg_of(values))))
        seconds = float(parameters.cycle_seconds(values)) * size
        if _changed[0]:
            turns, root = walks.sketch(source(ob), values, who.body)
        else:
            values[[parameters.INDEX["turn"], parameters.INDEX["slope"]]] = 0.0
            walk = walks.walk(source(ob), values, FRAMES, FRAMES / seconds, rig=who.body, loop=True)
            stride = 2 * float(parameters.step(values)) * size**2
            turns, root = walk.turns, walk.root + np.outer(np.arange(FRAMES) / FRAMES, [0.0, stride, 0.0])
        heads = foot_pins.forward(who.body, turns, root)[1] @ body.turn / body.unit
        found = (key, heads, who.body.parents, seconds)
        _cycles[ob.name] = found
    return found[1], found[2], found[3]


def _body(ob: Any) -> tuple[rig.Rig, on_body.Character]:
    """The rig of an armature, read again where it was read some seconds ago: a slider moves many times a second."""
    found = _bodies.get(ob.name)
    if found is None or time.monotonic() - found[0] > KEPT:
        body = rig.read(ob)
        found = (time.monotonic(), body, on_body.character(body.skeleton, body.roles))
        _bodies[ob.name] = found
    return found[1], found[2]


def lines(ob: Any, frame: float, fps: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of lines (2 N, 3) in world space and their colors (2 N, 4), at a frame of the scene."""
    heads, parents, seconds = cycle_of(ob)
    now = heads[round(frame / fps / seconds * len(heads)) % len(heads)]
    sides = bone_lines.sides_of(_body(ob)[1].body.rest_core[:, 0, 3])
    return bone_lines.lines(now, parents, sides, np.array(ob.matrix_world))


def _draw() -> None:
    context: Any = bpy.context
    if not context.space_data.overlay.show_overlays:
        return
    scene = context.scene
    shown: list[tuple[np.ndarray, np.ndarray]] = []
    for ob in context.visible_objects:
        if ob.type == "ARMATURE" and ob.neural_ik_gait.preview:
            with contextlib.suppress(ValueError, OSError):  # its panel says what is wrong
                shown.append(lines(ob, scene.frame_current, scene.render.fps / scene.render.fps_base))
    if not shown:
        return
    ends, colors = (np.concatenate(parts) for parts in zip(*shown, strict=True))
    bone_lines.draw(ends, colors)


def register() -> None:
    """Start drawing; does nothing in background mode."""
    if not bpy.app.background:
        _handles.append(bpy.types.SpaceView3D.draw_handler_add(_draw, (), "WINDOW", "POST_VIEW"))


def unregister() -> None:
    """Stop drawing."""
    for handle in _handles:
        bpy.types.SpaceView3D.draw_handler_remove(handle, "WINDOW")
    _handles.clear()
    if bpy.app.timers.is_registered(settle):
        bpy.app.timers.unregister(settle)
    _cycles.clear()
    _bodies.clear()
    _gaits.clear()
