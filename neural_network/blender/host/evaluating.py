# SPDX-License-Identifier: GPL-3.0-or-later
"""While an extraction plays actions on a character, everything that poses it or records it waits (Live IK, Drive, Record).

Undo, another file and saving end it, wherever they come from, and put the character back first: a file must not be saved
with the pose of a sample, and after undo no reference to the character is valid. They end a bake too: a file must not be
saved with keys that are not checked yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import bpy
from bpy.app.handlers import persistent


@dataclass(eq=False)
class Evaluation:
    """One extraction or bake, which may change the scene for as long as it lasts."""

    alone: bool = True
    """Whether everything else that poses characters waits meanwhile."""
    restore: Callable[[], None] | None = None
    """Puts everything back; None while nothing in the scene has been changed."""
    ended: str = ""
    """What ended it from outside, such as "a step was undone"; empty while it may go on."""


_open: list[Evaluation] = []


def under_way() -> bool:
    """Whether the pose of some character is that of a sample, so that nothing else may write or record it."""
    return any(evaluation.alone and evaluation.restore is not None for evaluation in _open)


def begin(alone: bool = True) -> Evaluation:
    """An evaluation that lasts until :func:`end`; if ``alone``, all that poses characters waits once it has a ``restore``."""
    evaluation = Evaluation(alone)
    _open.append(evaluation)
    return evaluation


def end(evaluation: Evaluation) -> None:
    """Put everything back, unless that has happened already."""
    if evaluation not in _open:
        return
    try:
        if evaluation.restore is not None:
            evaluation.restore()
    finally:
        _open.remove(evaluation)


@contextmanager
def undeformed(scene: Any, ob: Any) -> Iterator[None]:
    """Meanwhile no mesh is deformed by ``ob``: that takes most of a frame's time."""
    hidden = _hide_deformation(scene, ob)
    try:
        yield
    finally:
        for name, modifier in hidden:
            other: Any = bpy.data.objects.get((name, None))  # of this file, not of a linked one
            if other is not None and modifier in other.modifiers:
                other.modifiers[modifier].show_viewport = True


def _hide_deformation(scene: Any, ob: bpy.types.Object) -> list[tuple[str, str]]:
    """Hide the armature modifiers of ``ob`` that are shown; returns them as (object, modifier)."""
    hidden = []
    for other in scene.objects:
        if other.library is not None:
            continue
        for modifier in other.modifiers:
            if modifier.type == "ARMATURE" and modifier.object == ob and modifier.show_viewport:
                modifier.show_viewport = False
                hidden.append((other.name, modifier.name))
    return hidden


def _interrupt(what: str, only_changed: bool = False) -> None:
    for evaluation in list(_open):
        if evaluation.restore is not None or not only_changed:
            evaluation.ended = what
            end(evaluation)


def _before_undo(*_: object) -> None:
    _interrupt("a step was undone or redone")


def _before_load(*_: object) -> None:
    _interrupt("another file was opened")


def _before_save(*_: object) -> None:
    _interrupt("the file was saved", only_changed=True)


_HANDLERS = (  # persistent: kept when another file is loaded
    ("undo_pre", persistent(_before_undo)),
    ("redo_pre", persistent(_before_undo)),
    ("load_pre", persistent(_before_load)),
    ("save_pre", persistent(_before_save)),
)


def register() -> None:
    """Add the handlers."""
    for name, handler in _HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)


def unregister() -> None:
    """Put back what is still changed, and remove the handlers."""
    _interrupt("the extension was disabled")
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
