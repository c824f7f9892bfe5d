# SPDX-License-Identifier: GPL-3.0-or-later
"""Long work without a frozen window: one generator at a time, advanced by a modal operator's timer.

Whatever ends the job early (Esc, another file, undo, the extension being disabled, Blender closing) closes the
generator, whose own ``finally`` restores everything.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import bpy
from bpy.app.handlers import persistent

LEARN, POSE, TEACH, GAIT, MOTION, FEET, PHYSICS = "LEARN", "POSE", "TEACH", "GAIT", "MOTION", "FEET", "PHYSICS"
"""The panels that show the progress of jobs."""
BESIDE = 0.1  # [s] between ticks while another process works


@dataclass(frozen=True)
class Progress:
    """How far a long job is."""

    done: int
    total: int
    text: str


@dataclass
class RunningJob:
    """The job that is running."""

    label: str
    work: Generator[Progress, None, Any]
    passes_events: bool
    """The user keeps working meanwhile: the work is done in another process."""
    survives_undo: bool
    """It changes no Blender data, so undo need not end it."""
    panel: str = LEARN
    """The panel that shows its progress."""
    timer: bpy.types.Timer | None = None
    progress: Progress = field(default_factory=lambda: Progress(0, 1, ""))
    asked_to_stop: bool = False
    """The panel's Cancel was pressed; the next tick handles it."""
    cancelling: bool = False
    """It was asked to stop, and is finishing by itself."""
    ended: str = ""
    """What ended it from outside, in words; its operator reports that."""


running: RunningJob | None = None


def busy(beside: bool = False) -> str:
    """The label of the running job; empty if there is none, or with ``beside`` none that keeps the user from working."""
    return running.label if running is not None and not (beside and running.passes_events) else ""


def stop(why: str = "") -> None:
    """End the running job, if there is one, and let it restore everything; ``why`` is told to the user."""
    global running
    job, running = running, None
    if job is None:
        return
    job.ended = why
    try:
        if job.timer is not None:
            bpy.context.window_manager.event_timer_remove(job.timer)
    finally:
        job.work.close()
        redraw()


def redraw() -> None:
    """Redraw the sidebar only: redrawing the view beside it may be slow."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            for region in area.regions if area.type == "VIEW_3D" else ():
                if region.type == "UI":
                    region.tag_redraw()


class Pumped(bpy.types.Operator if TYPE_CHECKING else object):
    """Mixin for an operator whose work is a generator: modal from a button, blocking in scripts and in background mode.

    The operator implements ``work``, which yields Progress, and ``finish``, which takes the returned value and sums it up
    in a sentence. ValueError and OSError are reported; anything else is a bug and is raised.
    """

    share = 0.03  # [s] of work in one tick
    interval = 0.01  # [s] between ticks
    passes_events = False  # the user keeps working meanwhile
    survives_undo = False
    panel = LEARN  # which panel shows the progress

    def work(self, context: bpy.types.Context) -> Generator[Progress, None, Any]:
        """The job itself."""
        raise NotImplementedError

    def finish(self, context: bpy.types.Context, result: Any) -> str:
        """Store the result; returns the sentence to report."""
        raise NotImplementedError

    def ask_to_stop(self) -> bool:
        """Ask the work to finish by itself; False if it can only be closed."""
        return False

    def execute(self, context: bpy.types.Context) -> set[str]:
        """All at once."""
        try:
            work = self.work(context)
            while True:
                try:
                    next(work)
                except StopIteration as end:
                    self.report({"INFO"}, self.finish(context, end.value))
                    return {"FINISHED"}
                if self.passes_events:  # another process does the work
                    time.sleep(self.interval)
        except (ValueError, OSError, ReferenceError) as error:
            self.report({"ERROR"}, self._words(error))
            return {"CANCELLED"}

    def go_on_beside(self) -> None:
        """From now on another process does the work: the user keeps working, and undo need not end it. Call it from ``work``."""
        self.passes_events, self.survives_undo, self.interval = True, True, BESIDE
        job = running
        if job is None:  # all at once, in a script
            return
        job.passes_events = job.survives_undo = True
        manager = bpy.context.window_manager
        if job.timer is not None:
            manager.event_timer_remove(job.timer)
            job.timer = manager.event_timer_add(BESIDE, window=bpy.context.window)

    def _words(self, error: Exception) -> str:
        """An error as the user reads it."""
        if isinstance(error, ReferenceError):
            return f"{self.bl_label} was stopped: something that it worked on was deleted meanwhile"
        return str(error)

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> set[str]:
        """Tick by tick, in a window."""
        global running
        if bpy.app.background or context.window is None:
            return self.execute(context)
        stop()
        try:
            job = RunningJob(self.bl_label, self.work(context), self.passes_events, self.survives_undo, self.panel)
        except (ValueError, OSError) as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        job.timer = context.window_manager.event_timer_add(self.interval, window=context.window)
        context.window_manager.modal_handler_add(self)
        running = self.job = job
        return {"RUNNING_MODAL"}

    def modal(self, context: bpy.types.Context, event: bpy.types.Event) -> set[str]:
        """Handle one event: Esc asks to stop, the timer advances the work for ``share`` seconds."""
        if running is not self.job:
            if self.job.ended:
                self.report({"WARNING"}, f"{self.bl_label} was cancelled, because {self.job.ended}")
            return {"CANCELLED", "PASS_THROUGH"}
        if self.job.asked_to_stop or (event.type == "ESC" and event.value == "PRESS"):
            self.job.asked_to_stop = False
            if self.job.cancelling or not self.ask_to_stop():
                stop()
                self.report({"WARNING"}, f"{self.bl_label} was cancelled; everything is as it was before")
                return {"CANCELLED"}
            self.job.cancelling = True
            return {"RUNNING_MODAL"}  # this Esc ends nothing else
        if event.type != "TIMER":
            return {"PASS_THROUGH"} if self.passes_events else {"RUNNING_MODAL"}
        try:
            end = time.perf_counter() + self.share
            before = self.job.progress
            while True:
                self.job.progress = next(self.job.work)
                if self.passes_events or time.perf_counter() > end:
                    break
        except StopIteration as result:
            stop()
            try:
                self.report({"INFO"}, self.finish(context, result.value))
            except (ValueError, OSError, ReferenceError) as error:
                self.report({"ERROR"}, self._words(error))
                return {"CANCELLED"}
            return {"FINISHED"}
        except (ValueError, OSError, ReferenceError) as error:
            stop()
            self.report({"ERROR"}, self._words(error))
            return {"CANCELLED"}
        except BaseException:
            stop()
            raise
        if self.job.progress != before:
            redraw()
        return {"PASS_THROUGH"} if self.passes_events else {"RUNNING_MODAL"}

    def cancel(self, context: bpy.types.Context) -> None:
        """Called when Blender drops the operator."""
        if running is self.job:
            stop()


class NEURAL_IK_OT_stop(bpy.types.Operator):
    """Cancel the running job, as Esc does"""

    bl_idname = "neural_ik.stop"
    bl_label = "Cancel"
    bl_options = {"INTERNAL"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """A job is running."""
        return running is not None

    def execute(self, context: bpy.types.Context) -> set[str]:
        """Leave it to the job's next tick, which knows how to end itself."""
        if running is not None:
            running.asked_to_stop = True
        return {"FINISHED"}


def _before_load(*_: object) -> None:
    stop("another file was opened")


def _before_undo(*_: object) -> None:
    if running is not None and not running.survives_undo:
        stop("a step was undone or redone")


_HANDLERS = (  # persistent: kept when another file is loaded
    ("load_pre", persistent(_before_load)),
    ("undo_pre", persistent(_before_undo)),
    ("redo_pre", persistent(_before_undo)),
)


def register() -> None:
    """Register the Cancel button, and end jobs on load and undo."""
    bpy.utils.register_class(NEURAL_IK_OT_stop)
    for name, handler in _HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)


def unregister() -> None:
    """End the running job, and remove the button and the handlers."""
    stop()
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
    bpy.utils.unregister_class(NEURAL_IK_OT_stop)
