# SPDX-License-Identifier: GPL-3.0-or-later
"""Extract Data: a character's actions sampled into a PoseSet.

There are two ways, with the same result. The *fast* one reads the F-Curves and composes the rotations itself
(curve_sampling.py). The *evaluated* one lets Blender evaluate every frame (evaluated_sampling.py); it is used where
constraints, drivers, scale or unusual bone settings shape the pose. In both, bones that an action does not animate are at
rest, so no action affects the next.

An action may move the bones on the armature itself or on what they follow: controls, or another armature. Which it is, and
whether it moves them at all, is found by playing it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

import bpy
import numpy as np

from ...motion import pose_set
from ...motion.pose_set import PoseSet
from ..host import control_rigs, dependencies, evaluating, rig_checks
from ..host.jobs import Progress
from ..host.rig import Rig
from . import curve_sampling, evaluated_sampling
from .changes import Changes
from .doubts import left_behind, loss, mismatched, same_motion, still, why_no_effect
from .takes import (
    ACTION,
    FPS_KEY,
    PATHS,
    Movers,
    Options,
    Sampled,
    Take,
    find_takes,
    moving_actions,
    rate_of,
    take_frames,
    why_evaluated,
    why_take_evaluated,
)

__all__ = ["FPS_KEY", "Extraction", "Options", "extract", "moving_actions", "rate_of"]

NOTHING = "nothing to extract"  # how the error begins where no action moves the bones
DIGITS = 6  # decimals kept [rad, m]
SHARE = 0.25  # of the controlled bones: an action on another armature that moves fewer is about something else


@dataclass(frozen=True)
class Extraction:
    """The result of :func:`extract`."""

    poses: PoseSet
    notes: tuple[str, ...]
    """What was left out, lost or evaluated frame by frame, and why; one sentence each."""


def extract(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    chosen: Iterable[bpy.types.Action],
    options: Options | None = None,
    tasks: dict[str, str] | None = None,
) -> Generator[Progress, None, Extraction]:
    """Sample the ``chosen`` actions of the armature ``ob``; yields Progress, returns the Extraction.

    ``tasks`` maps names of actions to task types; others are guessed from the name. Frame, action, slot, NLA flags, pose and
    modifiers are restored when the generator ends, is closed, or fails. Raises ValueError, in words, also where something
    that the poses depend on was changed meanwhile.
    """
    options = options or Options()
    if options.path not in PATHS:
        raise ValueError(f"path: expected one of {', '.join(PATHS)}, got {options.path!r}")
    if not options.step > 0:
        raise ValueError(f"step: expected a positive number of frames, got {options.step}")
    rig = control_rigs.read_any(ob)
    notes = list(rig.notes)
    movers = {
        who: bones
        for who, bones in dependencies.movers(ob, [rig.bones[i] for i in rig.needed]).items()
        if who == ob or who.library is None
    }
    reason = rig_checks.reshaped(ob, set(), "Extract Data")
    if reason:
        raise ValueError(reason)
    takes = find_takes(scene, ob, movers, list(chosen), options, tasks or {}, notes)
    notes += left_behind(ob, movers, (way for ways in takes for way in ways))
    found = yield from _sample_all(scene, ob, rig, movers, takes, options, notes)
    found = _without_repeats(found, notes)
    if not found:
        raise ValueError(f"{NOTHING}: " + (" ".join(notes) or f"no action moves the bones of {ob.name}"))
    root = np.concatenate([sampled.root for _, sampled in found])
    if not options.root_motion:
        root = _without_travel(rig, root)
    poses = pose_set.make(
        rig.skeleton,
        # Float32 keys leave noise of a few 1e-7; without it, clips keep the content hash by which weights recognise them.
        np.round(np.concatenate([sampled.rot for _, sampled in found]).astype(np.float64), DIGITS),
        np.round(root.astype(np.float64), DIGITS),
        np.repeat(np.arange(len(found)), [len(sampled.rot) for _, sampled in found]),
        [take.name for take, _ in found],
        [take.task for take, _ in found],
        np.array([take.fps / options.step for take, _ in found]),
    )
    return Extraction(poses, tuple(notes))


def _sample_all(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    rig: Rig,
    movers: Movers,
    takes: list[list[Take]],
    options: Options,
    notes: list[str],
) -> Generator[Progress, None, list[tuple[Take, Sampled]]]:
    """The takes that show something, in the way to play each that moves the bones; adds to ``notes``."""
    total = sum(len(take_frames(ways[0], options)) for ways in takes)
    evaluation = evaluating.begin()
    out: list[tuple[Take, Sampled]] = []
    done = 0
    try:
        changes = Changes(scene, ob, movers, [take for ways in takes for take in ways], evaluation)
        slow = why_evaluated(ob, rig, movers)
        state: evaluated_sampling.SceneState | None = None
        for number, ways in enumerate(takes):
            take = ways[0]
            text = f"{take.name} ({number + 1} of {len(takes)})"
            changes.check()
            reason = slow or why_take_evaluated(ob, rig, take)
            if reason and options.path == "fast":
                raise ValueError(f"{take.name} cannot take the fast path: {reason}")
            if reason or options.path == "evaluated":
                if state is None:
                    every = [way for ways in takes for way in ways]
                    state = evaluated_sampling.SceneState(scene, ob, rig, movers, every, changes)
                    evaluation.restore = state.restore
                    state.prepare()
                if take.kind == ACTION and reason:
                    way = _effective(state, ways, options)
                    if isinstance(way, str):
                        notes.append(way)
                        done += len(take_frames(take, options))
                        continue
                    take = way
                if reason and options.path == "auto":
                    notes.append(f"{take.name} was evaluated frame by frame: {reason}.")
                sampler = evaluated_sampling.sample(state, take, take_frames(take, options))
            else:
                sampler = curve_sampling.sample(ob, rig, take, take_frames(take, options))
            sampled = yield from _with_progress(sampler, changes, done, total, text)
            done += len(sampled.rot)
            said, useless = still(ob, rig, take, sampled)
            notes += said
            if not useless:
                notes += mismatched(ob, rig, take) + loss(rig, take, sampled)
                out.append((take, sampled))
            yield Progress(min(done, total), total, text)
        changes.check()
        return out
    finally:
        evaluating.end(evaluation)


def _effective(state: evaluated_sampling.SceneState, ways: list[Take], options: Options) -> Take | str:
    """The first way to play an action that moves the controlled bones; if there is none, why it is left out."""
    few = 0
    for take in ways:
        moved = evaluated_sampling.effect(state, take, take_frames(take, options))
        foreign = all(who != state.ob for who, _ in take.plays)
        if moved >= (SHARE * state.rig.skeleton.count if foreign else 1):
            return take
        few = max(few, moved)
    reason = why_no_effect(state.ob, state.rig, ways[0])
    if few:
        return (
            f"{ways[0].name} was left out: on {ways[0].plays[0][0].name} it moves only {few} of the controlled bones."
        )
    return (
        ways[0]
        if not reason
        else f"{ways[0].name} was left out: playing it moves no controlled bone, because {reason}."
    )


def _with_progress(
    sampler: Generator[int, None, Sampled], changes: Changes, done: int, total: int, text: str
) -> Generator[Progress, None, Sampled]:
    """The frames done within one take as Progress of them all."""
    while True:
        try:
            part = next(sampler)
        except StopIteration as end:
            sampled: Sampled = end.value
            return sampled
        yield Progress(min(done + part, total), total, text)
        changes.quick()


def _without_repeats(found: list[tuple[Take, Sampled]], notes: list[str]) -> list[tuple[Take, Sampled]]:
    """The takes without actions that show the motion of another one, which ``notes`` name; one in use is kept rather."""
    out: list[tuple[Take, Sampled]] = []
    repeated: list[list[Take]] = []
    for take, sampled in found:
        same = [n for n, (t, s) in enumerate(out) if take.kind == t.kind == ACTION and same_motion(s, sampled)]
        if not same:
            out.append((take, sampled))
            repeated.append([])
        elif _in_use(take) and not _in_use(out[same[0]][0]):
            repeated[same[0]].append(out[same[0]][0])
            out[same[0]] = take, sampled
        else:
            repeated[same[0]].append(take)
    for (take, _), others in zip(out, repeated, strict=True):
        if others:
            listed = ", ".join(other.name for other in others[:5])
            listed += f" and {len(others) - 5} more" if len(others) > 5 else ""
            notes.append(f"{listed}: left out, because Blender shows the same motion for {take.name}.")
    return out


def _in_use(take: Take) -> bool:
    """Whether the action of a take is assigned to what it is played on."""
    return any(who.animation_data and who.animation_data.action == take.action for who, _ in take.plays)


def _without_travel(rig: Rig, root: np.ndarray) -> np.ndarray:
    """Root positions (F, 3) without the travel over the ground: only the height is kept."""
    axes = rig.skeleton.axes
    core = root @ axes.T
    core[:, :2] = rig.skeleton.rest_core[0, :2, 3]
    return core @ axes
