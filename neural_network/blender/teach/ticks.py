# SPDX-License-Identifier: GPL-3.0-or-later
"""The timer and the handlers: they run whatever is on, and end it all for another file or when the extension is disabled.

A session of driving or recording becomes one undo step when it ends.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

import bpy
from bpy.app.handlers import persistent

from ..host import evaluating, jobs
from . import driving, listening, recording, sending, session
from .session import BUSY, IDLE, state

DRAW_EVERY = 0.2
"""[s] between two redraws of the panel."""


def tick(now: float) -> None:
    """Do one bounded piece of work of everything that is on. What fails is ended, and ``state.problem`` says why."""
    changed = False
    parts = (
        (_serve, listening.stop_listening),
        # without an undo step: undo may be what removed a target, and a new step would discard redo
        (_drive, lambda: driving.stop_driving(undo_step=False)),
        (_record, recording.stop_recording),
        (_send, sending.stop_sending),
    )
    for part, end in parts:
        try:
            changed |= part(now)
        except Exception as error:  # also a bug in one part must not end the others, least of all a recording
            if not isinstance(error, ValueError | OSError):
                traceback.print_exc()
            _end(end)
            state.problem = str(error) or type(error).__name__
            changed = True
    if changed and (now - state.drawn_at > DRAW_EVERY or now < state.drawn_at):
        state.drawn_at = now
        jobs.redraw()


def stop() -> None:
    """End everything at once. What was taught is saved; a recording is put aside, to be written later."""
    recording.put_aside()
    state.drive = None
    for end in (sending.stop_sending, listening.stop_listening):
        _end(end)
    session.stop_timer_if_idle()


def _end(end: Callable[[], Any]) -> None:
    """End one part; what a proper end needs may be gone too."""
    try:
        end()
    except (ValueError, OSError):
        pass
    except Exception:  # a bug: shown, but it must not keep the other parts from ending
        traceback.print_exc()


def _serve(now: float) -> bool:
    return state.server is not None and listening.serve(now)


def _drive(now: float) -> bool:
    if state.drive is None or evaluating.under_way():
        return False
    before = state.drive.in_control
    driving.step(now)
    return state.drive is not None and state.drive.in_control != before


def _record(now: float) -> bool:
    if state.record is not None:
        scene: Any = bpy.context.scene
        recording.step(scene, now)
    return state.record is not None


def _send(now: float) -> bool:
    if state.send is not None and not evaluating.under_way():
        sending.step(now)
    return False


def _timer() -> float | None:
    """Called by Blender; returns the seconds until the next call, None for no more."""
    if not session.active():
        return None
    try:
        tick(time.monotonic())
    except BaseException:  # a bug: report it, but leave no socket open
        stop()
        raise
    moving = any(part is not None for part in (state.drive, state.record, state.send))
    waiting = not moving and state.server is not None and not state.server.clients()
    return (IDLE if waiting else BUSY) if session.active() else None


def _before_load(*_: object) -> None:
    stop()


def _without_dead_targets(*_: object) -> None:
    """A file saved while driving, and undo or redo past it, bring foot targets back that nothing uses any more."""
    if state.drive is None:
        driving.remove_targets()


def _after_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    viewport = depsgraph is None or depsgraph.mode == "VIEWPORT"
    if not session.active() or not viewport or evaluating.under_way():
        return
    now = time.monotonic()
    try:
        if state.drive is not None:
            driving.step(now)
        if state.record is not None:
            recording.step(scene, now, scene.frame_current)
        if state.drive is None:  # a driven pose is complete after Blender's update only: the next tick sends it
            if state.server is not None and state.server.clients() and state.served_rig is not None:
                listening.publish(state.server, now)
            if state.send is not None:
                sending.step(now)
    except (ValueError, OSError):
        pass  # the next tick meets the error again, outside Blender's update, and reports it


_HANDLERS = (  # persistent: they stay when another file is loaded
    ("load_pre", persistent(_before_load)),
    ("load_post", persistent(_without_dead_targets)),
    ("undo_post", persistent(_without_dead_targets)),
    ("redo_post", persistent(_without_dead_targets)),
    ("frame_change_post", persistent(_after_frame)),
)


def register() -> None:
    """Add the handlers, and set the timer's function."""
    session.timer = _timer
    for name, handler in _HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)


def unregister() -> None:
    """End everything, remove the handlers and reset the state."""
    stop()
    _end(recording.stop_recording)
    driving.remove_targets()
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
    session.reset()
    session.timer = None
