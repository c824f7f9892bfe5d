# SPDX-License-Identifier: GPL-3.0-or-later
"""Baking Live IK over a range of frames: every frame is solved first, then all keys are written (``baked_keys.py``)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import bpy
import numpy as np

from ..host import evaluating, nla, rig_checks, runtime
from ..host.jobs import Progress
from ..host.rig import metres
from . import changes, live_ik, planted_feet, scene_targets
from .baked_keys import Take, check, frames_outside, posed, write
from .planted_feet import Skate
from .state import LiveCharacter, settings_of, unsolvable

MOVED = 1e-3  # [leg lengths]: a target that is farther from where it was on the first frame was moved


def bake(
    context: bpy.types.Context,
    collection: bpy.types.Collection,
    first: int,
    last: int,
    step: int = 1,
    into: str = "ACTION",
    hold_feet: bool = False,
) -> Generator[Progress, None, Skate]:
    """Solve the frames of a range and write them as keys; yields Progress and returns how far planted feet slide.

    Whether keys can be written is checked first; nothing is written before all frames are solved; and what was written is
    played and compared with what was solved, and outside the range with what was there. Frame, pose and action are restored if
    it differs, if what it depends on was changed meanwhile, before the file is saved, or if the generator is closed.

    Args:
        context: Blender's context.
        collection: the targets of the character.
        first: first frame.
        last: last frame, included if ``step`` reaches it.
        step: frames from one key to the next.
        into: ACTION writes to the assigned action, or a new one if there is none; NEW to a copy of it, which is then
            assigned; NLA to a new action on a track above all others.
        hold_feet: keep planted feet from sliding if their targets are on; frames are then solved twice.

    Raises ValueError for an empty range, a step below 1, a character or frame that cannot be solved, an action whose keys would
    not be saved, not play or change more than the range, keys that do not show the solved poses, and data that was changed or
    deleted meanwhile.
    """
    if last < first:
        raise ValueError(f"range: the last frame, {last}, is before the first, {first}")
    if step < 1:
        raise ValueError(f"step: expected a whole number of frames of at least 1, got {step}")
    live = live_ik.live_of(collection)
    ob: Any = settings_of(collection).armature
    if live is None or ob is None:
        raise ValueError(unsolvable.get(collection.name, "nothing to bake: press Live IK first"))
    if live.suspended:
        raise ValueError(live.suspended)
    frames = list(range(first, last + 1, step))
    check(ob, live, into, frames)
    watch = changes.Watch(context.scene, live, collection)
    return (yield from _watched(_bake(context.scene, ob, live, frames, step, into, hold_feet, watch), watch))


def _watched(work: Generator[Progress, None, Skate], watch: changes.Watch) -> Generator[Progress, None, Skate]:
    """``work``, ended in words where something that it depends on was changed: whatever else goes wrong then follows from it.

    Saving, undo and another file end it too, before they happen, so that they find everything as it was.
    """
    evaluation = evaluating.begin(alone=False)
    evaluation.restore = work.close
    try:
        while True:
            try:
                progress = next(work)
            except StopIteration as end:
                skate: Skate = end.value
                return skate
            except (ReferenceError, AttributeError, LookupError, TypeError, RuntimeError) as error:  # by a handler, say
                what = watch.changed(animation=False)  # which has been put back
                if not what:
                    raise
                raise ValueError(f"nothing was baked, because {what} meanwhile: bake again") from error
            yield progress
            what = evaluation.ended or watch.changed()
            if what:
                raise ValueError(f"nothing was baked, because {what} meanwhile: bake again")
    finally:
        evaluating.end(evaluation)
        work.close()


def _bake(
    scene: Any,
    ob: Any,
    live: LiveCharacter,
    frames: list[int],
    step: int,
    into: str,
    hold_feet: bool,
    watch: changes.Watch,
) -> Generator[Progress, None, Skate]:
    """As :func:`bake`, after its checks."""
    total = (2 + hold_feet) * len(frames)
    seconds = step * scene.render.fps_base / scene.render.fps
    count, bones, feet = len(frames), len(live.rig.bones), len(live.rig.skeleton.feet)
    take = Take(
        frames,
        np.empty((count, bones, 4)),
        np.empty((count, bones, 3), np.float32),
        np.empty((count, len(live.rig.index), 4, 4), np.float32),
        np.empty((count, feet, 2, 3)),
        np.empty((count, feet, 2, 3)),
        {},
        {name: values.copy() for name, values in live.before.items()},
    )
    with _restored(scene, ob, live):
        for frame in frames_outside(scene, ob, into, frames):
            scene.frame_set(frame)
            take.outside[frame] = {name: values.copy() for name, values in live.before.items()}
        for i, frame in enumerate(frames):
            _solve(scene, ob, live, take, i)
            if not i:
                began = _places(live, ob)
            yield Progress(i + 1, total, f"frame {frame}")
        is_planted = planted_feet.planted(live.rig.skeleton, take.feet_before, seconds)
        if hold_feet:
            shifts = planted_feet.shifts(is_planted, take.feet_after, seconds)
            sliding = np.abs(shifts).max(axis=(1, 2), initial=0) > planted_feet.NEGLIGIBLE
            for i in np.flatnonzero(sliding).tolist():
                live.shift = _effector_shift(live, shifts[i])
                _solve(scene, ob, live, take, i)
                yield Progress(count + i + 1, total, f"frame {frames[i]}, planted feet")
        live.shift = None
        scene.frame_set(frames[0])
        if not np.abs(_places(live, ob) - began).max() <= MOVED * live.rig.skeleton.leg_length:
            raise ValueError("nothing was baked, because targets or the character were moved meanwhile: bake again")
    yield from write(scene, ob, live, take, into, total, watch)
    return planted_feet.skate(is_planted, take.feet_before, take.feet_after)


def _places(live: LiveCharacter, ob: Any) -> np.ndarray:
    """(P, 3) [m] where the character is, and the targets that Live IK itself moves along."""
    transforms, _ = scene_targets.read_transforms(live, ob)
    own = [row for row, target in enumerate(live.targets) if target.use and target.name and not target.driven]
    return np.concatenate([[np.array(ob.matrix_world.translation) * metres(ob)], transforms[own, :3]])


def _solve(scene: Any, ob: Any, live: LiveCharacter, take: Take, i: int) -> None:
    """Solve the frame ``take.frames[i]``: Live IK does so itself when the frame changes."""
    scene.frame_set(take.frames[i])
    if live.problem or live.suspended:
        raise ValueError(f"frame {take.frames[i]}: {live.problem or live.suspended}")
    channels = runtime.snapshot(ob)
    take.quaternions[i] = rig_checks.own_quaternions(live.rig, channels, list(range(len(live.rig.bones))))
    take.locations[i] = channels["location"].reshape(-1, 3)
    take.posed[i] = posed(ob, live)
    take.feet_before[i] = planted_feet.positions(live, ob, live.base)
    take.feet_after[i] = planted_feet.positions_in(live, take.posed[i])


@contextmanager
def _restored(scene: Any, ob: Any, live: LiveCharacter) -> Iterator[None]:
    """Restore the frame afterwards. Meanwhile meshes are not deformed: that takes most of a frame's time."""
    frame, subframe = scene.frame_current, scene.frame_subframe
    try:
        with evaluating.undeformed(scene, ob):
            yield
    finally:
        live.shift = None
        nla.take_back([lambda: scene.frame_set(frame, subframe=subframe)])


def _effector_shift(live: LiveCharacter, shifts: np.ndarray) -> np.ndarray:
    """Offsets (E, 3) [m, rig space] of the effectors from those of the feet (feet, 3) [m, core axes]."""
    skeleton = live.rig.skeleton
    out = np.zeros((len(skeleton.effectors), 3))
    for foot, shift in zip(skeleton.feet, shifts @ skeleton.axes, strict=True):
        out[skeleton.effectors.index(foot)] = shift
    return out
