# SPDX-License-Identifier: GPL-3.0-or-later
"""Lessons: teach a character's legs from actions; save, find, describe and forget what was taught."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path

import bpy
import numpy as np

from ...core.messages import counted
from ...live import legs, tasks
from ...live.handshake import Hello, read_hello
from ...live.kept_file import KeptFile
from ...live.layouts import ChannelLayout
from ...live.learner import new_trainee, observe
from ...live.trainee import SOLVING, Settings
from ..data import extract
from ..host import rig
from ..host.jobs import Progress
from ..host.rig import Rig
from . import session
from .session import Lesson, state

FRAME_STEPS = 24
"""Training steps after each frame of an action: a fixed number, so that the result does not depend on the computer."""


def lesson_for(ob: bpy.types.Object, own: Rig | None = None) -> tuple[str, Lesson | None]:
    """Fingerprint of a character's legs, and their lesson: from memory, else from disk, else None.

    From disk also where another program has saved more meanwhile, and memory holds nothing that is not on disk.
    """
    hello, layout = _hello(ob.name, own or rig.read(ob))
    found = state.lessons.get(hello.fingerprint)
    path = _path(hello.fingerprint)
    if found is not None and state.server is None and found.file.outdated(found.trainee):
        found = None
    if found is None and path.is_file():
        found = new_lesson(ob.name, layout, Settings(), path)
        _load(found)
        found.add_to_curve()
        state.lessons[hello.fingerprint] = found
    return hello.fingerprint, found


def new_lesson(name: str, layout: ChannelLayout, settings: Settings, path: Path | None = None, seed: int = 0) -> Lesson:
    """A lesson with an untrained trainee, to be kept in ``path``; None keeps it in memory only."""
    return Lesson(name, layout, new_trainee(layout, settings, seed), KeptFile(path))


def teach(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    chosen: Iterable[bpy.types.Action],
    passes: int = 6,
    threshold: float = Settings().threshold,
    go_on: bool = True,
    seed: int = 0,
) -> Generator[Progress, None, tuple[str, Lesson, float]]:
    """Teach ``chosen`` actions frame by frame, as an engine would; yields Progress.

    Ends after the pass in which the error [rad] falls below ``threshold``, and after ``passes`` at the latest. ``go_on``
    continues from the saved lesson. Returns the fingerprint, the lesson, and the mean error of the first pass before each
    frame was learned [rad]. Nothing is changed until ``keep`` is called. Raises ValueError.
    """
    if state.server is not None:
        raise ValueError("an engine may be teaching this character: press Stop Listening first")
    own = rig.read(ob)
    hello, layout = _hello(ob.name, own)
    path = _path(hello.fingerprint)
    lesson = new_lesson(ob.name, layout, Settings(threshold=threshold), path, seed)
    if go_on and path.is_file():
        _load(lesson)
    rows = yield from _rows(scene, ob, chosen)
    count = sum(len(inputs) for _, inputs, _ in rows)
    if count == 0:
        raise ValueError("expected actions of at least two frames, got single poses")
    rng = np.random.default_rng(seed + 1)
    done, first = 0, []
    trainee = lesson.trainee
    for sweep in range(passes):
        for title, inputs, outputs in rows:
            for given, expected in zip(inputs, outputs, strict=True):
                observe(layout, trainee, given, expected, rng)
                if sweep == 0:
                    first.append(trainee.error)
                trainee.train(FRAME_STEPS)
                lesson.add_to_curve()
                done += 1
                if done % 2 == 0:
                    yield Progress(done, passes * count, f"{title}: {describe(lesson)}")
        if trainee.state == SOLVING:
            break
    return hello.fingerprint, lesson, float(np.mean(first))


def keep(fingerprint: str, lesson: Lesson) -> str:
    """Use a lesson from now on, and save it; returns why it is saved beside another, empty where not. Raises OSError."""
    state.lessons[fingerprint] = lesson
    state.latest = fingerprint
    lesson.file.save(lesson.trainee)
    return lesson.file.note


def save_all() -> str:
    """Save what is only in memory, so that a server finds it; returns which are saved beside others and why, empty for none.

    Raises ValueError for a folder that cannot be written.
    """
    notes = []
    for lesson in state.lessons.values():
        if lesson.file.changed(lesson.trainee):
            try:
                lesson.file.save(lesson.trainee)
            except OSError as error:
                raise ValueError(f"{lesson.file.path}: {error.strerror or error}") from error
            notes += [f"{lesson.name}: {lesson.file.note}"] if lesson.file.note else []
    return "; ".join(notes)


def forget(ob: bpy.types.Object) -> str:
    """Delete a character's lesson, in memory and on disk; returns why its file is left, empty where it is not. Raises OSError.

    What another program has saved since the lesson was read or saved here is left.
    """
    hello, _ = _hello(ob.name, rig.read(ob))  # by its fingerprint alone: the file may be damaged
    lesson = state.lessons.get(hello.fingerprint)
    file = KeptFile(_path(hello.fingerprint)) if lesson is None else lesson.file
    left = file.remove()
    state.lessons.pop(hello.fingerprint, None)
    return left


def describe(lesson: Lesson) -> str:
    """A lesson's error and frames, in a few words."""
    status = lesson.trainee.status()
    if status.frames == 0:
        return "not taught yet"
    if lesson.layout.name == "legs":
        return f"error {np.degrees(status.usual):.2f}\N{DEGREE SIGN}, {counted(status.frames, 'frame')}"
    return f"error {status.usual:.4f}, {counted(status.frames, 'frame')}"


def _hello(name: str, own: Rig) -> tuple[Hello, ChannelLayout]:
    hello = read_hello(legs.handshake(name, own.skeleton))
    assert hello.layout is not None
    return hello, hello.layout


def _rows(
    scene: bpy.types.Scene, ob: bpy.types.Object, chosen: Iterable[bpy.types.Action]
) -> Generator[Progress, None, list[tuple[str, np.ndarray, np.ndarray]]]:
    """Each action's name and wire rows (F, 63) and (F, 24)."""
    extracted = yield from extract.extract(scene, ob, chosen, extract.Options())
    poses = extracted.poses
    rows = []
    for clip, title in enumerate(poses.clip_names):
        at = poses.rows(clip)
        motion = legs.leg_motion(title, poses.skeleton, poses.rot[at], poses.root_pos[at], poses.clip_fps[clip])
        rows.append((title, *tasks.task_rows("legs", motion)))
    return rows


def _path(fingerprint: str) -> Path:
    return session.folder() / f"{fingerprint}.npz"


def _load(lesson: Lesson) -> None:
    try:
        lesson.file.load(lesson.trainee)
    except ValueError as error:
        raise ValueError(f"{error}. Press Forget to remove it") from error
