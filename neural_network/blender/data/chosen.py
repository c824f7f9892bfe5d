# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a character's motion is extracted: the ticked actions, with the scene's settings."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import bpy

from ...core.messages import counted
from ..host import rig
from ..host.jobs import Progress
from . import extract

FRESH = 1.0  # [s]


def extraction(
    context: bpy.types.Context, names: str = "", path: str = "auto"
) -> Generator[Progress, None, extract.Extraction]:
    """The extraction of the character's ticked actions, or of ``names`` (one per line), ready to be run.

    What cannot work is reported at once: raises ValueError, in words.
    """
    ob = rig.find(context)
    scene: Any = context.scene
    settings = scene.neural_ik
    file: Any = bpy.data
    options = extract.Options(
        step=settings.step,
        start=settings.first if settings.use_range else None,
        end=settings.last if settings.use_range else None,
        root_motion=settings.root_motion,
        nla=settings.nla,
        timeline=settings.timeline and not names,
        path=path,
    )
    tasks = {a.name: a.neural_ik.task for a in file.actions if a.neural_ik.task != "GUESS"}
    return extract.extract(scene, ob, actions(ob, names, settings.nla or options.timeline), options, tasks)


def actions(ob: bpy.types.Object, names: str, more: bool) -> list[Any]:
    """The actions to extract. Raises ValueError, in words, where there is none and nothing ``more`` to extract."""
    file: Any = bpy.data
    named = [line for line in names.split("\n") if line]
    missing = [name for name in named if name not in file.actions]
    if missing:
        raise ValueError(f"no action called {', '.join(missing)}")
    if named:
        return [file.actions[name] for name in named]
    moving: list[Any] = extract.moving_actions(ob)
    ticked = [action for action in moving if action.neural_ik.use]
    if moving and not ticked and not more:
        raise ValueError(f"nothing is ticked: {ob.name} has {counted(len(moving), 'action')}; tick at least one")
    if not moving and not more:
        raise ValueError(f"no actions: nothing in this file moves the bones of {ob.name}")
    return ticked


def expected(context: bpy.types.Context) -> tuple[int, int]:
    """How many actions and about how many poses :func:`extraction` would take, without reading any; zeros where it cannot."""
    try:
        ob = rig.find(context)
    except ValueError:
        return 0, 0
    scene: Any = context.scene
    settings = scene.neural_ik
    if settings.timeline:
        return 1, int((scene.frame_end - scene.frame_start) / settings.step) + 1
    moving: list[Any] = extract.moving_actions(ob)
    ticked = [action for action in moving if action.neural_ik.use]
    spans: list[tuple[float, float]] = [(action.frame_range[0], action.frame_range[1]) for action in ticked]
    if settings.use_range:
        spans = [(max(a, settings.first), min(b, settings.last)) for a, b in spans]
    return len(ticked), sum(int(max(0.0, b - a) / settings.step) + 1 for a, b in spans)


_seen: tuple[str, float, tuple[int, int]] = ("", 0.0, (0, 0))


def expected_soon(context: bpy.types.Context) -> tuple[int, int]:
    """:func:`expected` for panels, which ask on every redraw: counted again after ``FRESH`` seconds at most."""
    global _seen
    try:
        name = rig.find(context).name
    except ValueError:
        return 0, 0
    now = time.monotonic()
    if bpy.app.background or _seen[0] != name or now - _seen[1] > FRESH:
        _seen = name, now, expected(context)
    return _seen[2]
