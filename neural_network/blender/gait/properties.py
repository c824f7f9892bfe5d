# SPDX-License-Identifier: GPL-3.0-or-later
"""The sliders of a walk, stored on the armature object. Their names are those of the parameters and must not change."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from bpy.props import BoolProperty, EnumProperty, FloatProperty, PointerProperty

from ...gait import parameters
from ...gait.parameters import INDEX, SPEED
from ..host import registering
from . import preview
from .sliders import SLIDERS

_UNITS = {"m": "LENGTH", "m/s": "VELOCITY", "deg": "NONE"}
_busy = [False]


def _speed_changed(own: Any, context: Any) -> None:
    """The speed sets step length and cadence as people do."""
    if _busy[0]:
        return
    _busy[0] = True
    try:
        run = float(own.speed > parameters.RUN_FROM)
        own.run = run
        own.step_length = float(parameters.usual_step(own.speed, parameters.LEG, run))
        own.cadence = own.speed / own.step_length
    finally:
        _busy[0] = False
    preview.refresh(context)


def _changed(own: Any, context: Any) -> None:
    if _busy[0]:
        return
    _busy[0] = True
    try:
        own.speed = own.step_length * own.cadence
    finally:
        _busy[0] = False
    preview.refresh(context)


def _shown(own: Any, context: Any) -> None:
    preview.refresh(context)


def _slider(entry: parameters.Parameter, update: Any) -> Any:
    unit = f" [{entry.unit}]" if entry.unit not in ("1", "m", "m/s") else ""
    return FloatProperty(
        name=entry.label,
        description=entry.words + unit,
        default=entry.default,
        min=entry.least,
        max=entry.most,
        precision=3 if entry.unit == "m" else 2,
        subtype="FACTOR" if entry.group == "style" else "NONE",
        update=update,
    )


class NEURAL_IK_GaitSettings(bpy.types.PropertyGroup):
    """The sliders of one armature object."""

    speed: _slider(SPEED, _speed_changed)
    in_place: BoolProperty(
        name="In Place", description="Keep the character where it is; without, it moves on and on", default=True
    )
    cycles: bpy.props.IntProperty(name="Cycles", description="How many cycles are baked", default=1, min=1, max=100)
    way: PointerProperty(
        name="Curve",
        description="Curve object to walk along",
        type=bpy.types.Object,
        poll=lambda self, ob: ob.type == "CURVE",
    )
    ground: PointerProperty(
        name="Ground",
        description="Mesh to walk on. Without one the floor is at the height of the character's origin",
        type=bpy.types.Object,
        poll=lambda self, ob: ob.type == "MESH",
    )
    pace: EnumProperty(
        name="Pace",
        description="What says how fast the character walks along the curve",
        items=(
            (
                "SLIDERS",
                "Sliders",
                "The sliders, and their keys on the character where they have some: key Speed to change it",
            ),
            (
                "PATH",
                "Path Animation",
                "The keys of the curve's Evaluation Time, which say where the character is at each frame",
            ),
        ),
    )
    own_style: FloatProperty(
        name="Own Style",
        description="How much of the character's own way to walk there is, once it was learned from its walks",
        default=0.0,
        min=0.0,
        max=1.5,
        subtype="FACTOR",
        update=_shown,
    )
    preview: BoolProperty(
        name="Preview",
        description="Show the walk as a ghost beside the character",
        update=_shown,
    )


for _entry in SLIDERS:
    NEURAL_IK_GaitSettings.__annotations__[_entry.name] = _slider(_entry, _changed)


def set_values(own: Any, values: np.ndarray) -> None:
    """Move the sliders to parameters (P)."""
    _busy[0] = True
    try:
        for entry in SLIDERS:
            setattr(own, entry.name, float(values[INDEX[entry.name]]))
        own.speed = float(parameters.speed(values))
    finally:
        _busy[0] = False


register, unregister = registering.settings(
    NEURAL_IK_GaitSettings, on={"Object.neural_ik_gait": NEURAL_IK_GaitSettings}
)
