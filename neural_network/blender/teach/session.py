# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared state of live learning while Blender runs: lessons, and what is listening, driving, recording or sending.

Everything runs on the main thread, called by a timer (``ticks.py``). No Blender data is kept between two ticks; objects are
looked up by name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...core.skeleton import SkeletonMismatch
from ...live import vmc
from ...live.kept_file import KeptFile
from ...live.layouts import ChannelLayout
from ...live.server import Server
from ...live.trainee import LEARNING, NEW, SOLVING, Trainee
from ..host import jobs, memory, rig, rig_checks
from ..host.characters import weights_for
from ..host.rig import Rig

BUSY, IDLE = 0.01, 0.1
"""[s] between two ticks: while something moves or a client is connected, and otherwise."""
CURVE = 400
"""Most points of a lesson's curve; with more, every second one is removed."""


@dataclass
class Lesson:
    """A taught rig, and its error over time."""

    name: str
    layout: ChannelLayout
    trainee: Trainee
    file: KeptFile
    """Where it is kept."""
    curve: list[tuple[float, float]] = field(default_factory=list)
    """(frames seen, running error [rad or m])."""
    solved: bool = False
    """It was good enough at some time, so falling back to learning means lost."""

    @property
    def status(self) -> str:
        """new, learning, solving or lost."""
        status = self.trainee.status()
        if status.state == NEW:
            return "new"
        if status.poisoned or (status.state == LEARNING and self.solved):
            return "lost"
        return "solving" if status.state == SOLVING else "learning"

    def add_to_curve(self) -> bool:
        """Add the present error to the curve; False where no frames have come since the last call."""
        status = self.trainee.status()
        if self.curve and status.frames < self.curve[-1][0]:  # reset, or back at a snapshot
            self.curve = [point for point in self.curve if point[0] < status.frames]
            self.solved = status.state == SOLVING
        self.solved |= status.state == SOLVING
        if status.frames == 0 or (self.curve and self.curve[-1][0] == status.frames):
            return False
        self.curve.append((float(status.frames), status.usual))
        if len(self.curve) > CURVE:
            del self.curve[1:-1:2]
        return True


@dataclass
class Driving:
    """A character whose pose is written at every tick."""

    ob: str
    rig: Rig
    key: tuple[Any, ...]
    """``rig_key`` of the object when ``rig`` was read."""
    source: str
    """FEET: two foot targets and a lesson move the legs. CLIENT: a client's solves move the whole body."""
    lesson: str = ""
    """Fingerprint."""
    targets: tuple[str, str] = ("", "")
    previous: np.ndarray | None = None
    """(6, 4) last answer for the legs."""
    target_positions: np.ndarray | None = None
    """(2, 3) [m, core axes] the targets at the last tick."""
    moment: float = 0.0
    """Time of ``target_positions`` [s]."""
    in_control: bool = False
    """The lesson is good enough now, or a client has solved a pose."""


@dataclass
class Sending:
    """A character whose pose is sent as VMC."""

    ob: str
    rig: Rig
    key: tuple[Any, ...]
    to: vmc.Sender
    address: str
    """Host and port."""
    pose: np.ndarray | None = None
    """The pose sent last."""
    moment: float = float("-inf")
    """When it was sent [s]."""


@dataclass
class Recording:
    """Channels of every pose bone, frame by frame."""

    ob: str
    start: int
    """Frame at ``moment``."""
    moment: float
    fps: float
    last: int
    """The timeline's frame when it was seen last."""
    bones: tuple[tuple[str, str], ...] = ()
    """(name, rotation mode) of every pose bone, so that the keys can be written even where the character is gone."""
    frames: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)


@dataclass
class LiveState:
    """State of the feature; the panel reads it."""

    lessons: dict[str, Lesson] = field(default_factory=dict)
    """By fingerprint."""
    latest: str = ""
    """Fingerprint of the lesson taught last."""
    server: Server | None = None
    everywhere: bool = False
    """Other computers can connect."""
    served: str = ""
    """Name of the character that clients see and solve; empty for none."""
    served_rig: Rig | None = None
    served_key: tuple[Any, ...] = ()
    published: np.ndarray | None = None
    """The pose published last."""
    solved: tuple[np.ndarray, np.ndarray] | None = None
    """Root head (3) [m] and rotations (J, 4) of a client's last solve, in core axes."""
    drawn_at: float = 0.0
    drive: Driving | None = None
    record: Recording | None = None
    unwritten: Recording | None = None
    """A recording that ended without being written, because another file was opened or writing failed."""
    send: Sending | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=4))
    """The last events, for the panel."""
    problem: str = ""
    """The last error, for the panel."""
    token: str = ""
    """Kept in memory only, never in a file."""


state = LiveState()
timer: Callable[[], float | None] | None = None
"""The function that Blender's timer calls while something is active; set by ``ticks.register``."""


def folder() -> Path:
    """The folder of saved lessons, named by fingerprint."""
    return memory.folder() / "live"


def online() -> bool:
    """Whether Blender allows online access."""
    return bool(bpy.app.online_access)


def active() -> bool:
    """Whether anything is on: listening, driving, recording or sending."""
    return any(part is not None for part in (state.server, state.drive, state.record, state.send))


def start_timer() -> None:
    """Run the timer, if it does not run yet."""
    if timer is not None and not bpy.app.timers.is_registered(timer):
        bpy.app.timers.register(timer, first_interval=BUSY)


def stop_timer_if_idle() -> None:
    """Stop the timer unless something is still active."""
    if timer is not None and not active() and bpy.app.timers.is_registered(timer):
        bpy.app.timers.unregister(timer)


def end_session(undo_message: str) -> None:
    """Push one undo step of that name (empty for none), once neither driving nor recording is on, and redraw."""
    stop_timer_if_idle()
    push: Any = bpy.ops.ed.undo_push
    if undo_message and state.drive is None and state.record is None and push.poll():
        push(message=undo_message)
    jobs.redraw()


def find_object(name: str) -> bpy.types.Object:
    """The armature of that name. Raises ValueError where there is none."""
    found: Any = bpy.data.objects.get(name)
    if found is None or found.pose is None:
        raise ValueError(f"{name} was deleted or renamed")
    return found


def rig_key(ob: bpy.types.Object) -> tuple[Any, ...]:
    """Everything a Rig depends on that may change meanwhile: bone names, rotation modes, orientation and units."""
    turn = tuple(np.array(ob.matrix_world)[:3, :3].round(6).ravel().tolist())
    bones = ob.pose.bones if ob.pose is not None else ()
    return (tuple(pb.name for pb in bones), tuple(pb.rotation_mode for pb in bones), turn, rig.metres(ob))


def refit(ob: bpy.types.Object, before: Rig) -> Rig | None:
    """The rig read again, with its bones in the same order; None where they are different bones."""
    try:
        found = rig_checks.fit(ob, weights_for(ob, show=False))
    except (SkeletonMismatch, ValueError, OSError):
        found = rig.read(ob)
    return found if found.skeleton.names == before.skeleton.names else None


def reset() -> None:
    """Set every field of the state to its default."""
    fresh = LiveState()
    for name in LiveState.__dataclass_fields__:
        setattr(state, name, getattr(fresh, name))
