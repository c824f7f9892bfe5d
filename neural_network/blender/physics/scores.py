# SPDX-License-Identifier: GPL-3.0-or-later
"""Balance scores that were measured, by character, in memory alone; dropped when the action they belong to changes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent

from ..host import actions


@dataclass(frozen=True, eq=False)
class Scores:
    """The balance score of consecutive frames."""

    first: int
    """Frame of the scene."""
    score: np.ndarray
    """(F) [body weights] of what the character shows."""
    ghost: np.ndarray | None = None
    """(F) of the ghost that Make Physical made of it."""


@dataclass
class _Kept:
    """Scores, and what they belong to."""

    scores: Scores
    content: bytes
    looked: float
    """[s] when that was compared last."""


RECHECK = 0.3  # [s] after which an action is compared again with what was measured
_kept: dict[str, _Kept] = {}  # by armature object


def _content(ob: Any) -> bytes:
    action = None if ob.animation_data is None else ob.animation_data.action
    return b"" if action is None else action.name.encode() + actions.content(action, ob)


def keep(ob: Any, found: Scores) -> None:
    """Keep the scores of an armature object, in place of those there were."""
    _kept[ob.name] = _Kept(found, _content(ob), time.monotonic())
    redraw()


def of(ob: Any) -> Scores | None:
    """The scores of an armature object; None where none were measured, or its action has changed since."""
    found = _kept.get(ob.name)
    if found is None:
        return None
    now = time.monotonic()
    if now - found.looked > RECHECK:
        if _content(ob) != found.content:
            del _kept[ob.name]
            return None
        found.looked = now
    return found.scores


def forget() -> None:
    """Forget all scores."""
    if _kept:
        _kept.clear()
        redraw()


def redraw() -> None:
    """Draw the timelines and sidebars again."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type in ("VIEW_3D", "DOPESHEET_EDITOR", "GRAPH_EDITOR"):
                area.tag_redraw()


def _dropped(*_: object) -> None:
    forget()


HANDLERS = (  # persistent: kept when another file is loaded
    ("load_pre", persistent(_dropped)),
    ("undo_post", persistent(_dropped)),
    ("redo_post", persistent(_dropped)),
)
