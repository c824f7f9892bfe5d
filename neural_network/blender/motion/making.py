# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill, Continue and Check: what a character shows, the wing's one call, and the result as a motion of its bones with figures."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from typing import Any

import bpy
import numpy as np

from ...core import contacts, metrics
from ...core import forward_kinematics as fk
from ...core.messages import counted
from ...core.skeleton import Skeleton
from ...ik import held_bones
from ...motion import features
from ...prediction import checking, continuing, filling, predictor
from ...prediction import library as libraries
from ...prediction import network as networks
from ...prediction.checking import Checked
from ...prediction.filling import Filled
from ...prediction.library import Library, Take
from ...prediction.network import Network
from ...prediction.predictor import Predictor
from ...rigs import on_body
from ...rigs.on_body import Character
from ..host import contact_markers, motion_channels, rig, shown_motion
from ..host.ghost import Made
from ..host.jobs import Progress
from ..host.rig import metres
from ..host.shown_motion import Shown
from . import key_frames, own_clips

BESIDE = 10  # [frames] that are read before the first key and after the last one
HISTORY = 30  # [frames] before the playhead, with it, that Continue goes on from
NAMED = 3  # clips that the figures name


_libraries: list[tuple[bytes, Library]] = []
"""The library that was used last, and what it was made of."""


def library(
    context: bpy.types.Context, ob: Any, who: Character, left_out: tuple[int, int] | None
) -> Generator[Progress, None, Library]:
    """The motion that a character draws on, searched; kept until something of it changes. Yields Progress."""
    own = ob.neural_ik_motion
    clips = yield from own_clips.of_character(context, ob, who, own.shipped, left_out)
    key = hashlib.sha1(who.body.offsets.tobytes())
    for name, turns, root, fps in clips:
        key.update(f"{name} {fps}".encode() + turns.tobytes() + root.tobytes())
    if not _libraries or _libraries[0][0] != key.digest():
        yield Progress(0, 1, f"comparing {counted(len(clips), 'clip')}")
        _libraries[:] = [(key.digest(), libraries.of_takes(who.body, [Take(*clip) for clip in clips]))]
    found = _libraries[0][1]
    weights = {action.name: action.neural_ik.weight for action in own_clips.chosen(ob) if action.name in found.names}
    return libraries.favouring(found, weights)


_networks: list[Network | None] = []
_steps: list[Predictor | None] = []


def network() -> Network | None:
    """The shipped network, read once; None where none came with this Neural IK."""
    if not _networks:
        _networks.append(networks.load() if networks.SHIPPED.exists() else None)
    return _networks[0]


def steps() -> Predictor | None:
    """The shipped predictor of steps, read once; None where none came with this Neural IK."""
    if not _steps:
        _steps.append(predictor.shipped())
    return _steps[0]


def forget() -> None:
    """Forget library, networks and what was measured."""
    _libraries.clear()
    _checked.clear()
    _networks.clear()
    _steps.clear()


# ---- Fill


def fill(context: bpy.types.Context) -> Generator[Progress, None, Made]:
    """The frames between keys, as the settings of the active character say; yields Progress. Changes nothing.

    Raises ValueError, in words, where there is nothing to fill, or nothing to fill it from.
    """
    ob: Any = rig.find(context)
    own = ob.neural_ik_motion
    keys = key_frames.to_fill(context, ob, own.between)
    shown_motion.character_of(ob)
    frames = key_frames.around(ob, keys, BESIDE)
    holders = [own.left_hand, own.right_hand]
    for holder in filter(None, holders):
        require_free(holder, ob)
    shown = yield from shown_motion.read(context, ob, frames, [holder for holder in holders if holder is not None])
    searched = yield from library(context, ob, shown.who, (keys[0], keys[-1]))
    stands, hands = (
        contact_markers.read(ob.animation_data.action, frames[0], len(frames), limbs)
        for limbs in (contact_markers.FEET, contact_markers.HANDS)
    )
    known = [i for i, f in enumerate(frames) if f <= keys[0] or f >= keys[-1] or f in keys]
    up = np.array([0, 0, libraries.floor_under(shown.who.body, shown.turns[known], shown.root[known])])
    filled: Filled | None = None
    for step in filling.steps(
        shown.who.body,
        shown.turns,
        shown.root - up,
        known,
        searched,
        fps=shown.fps,
        seed=own.variation,
        detail=own.detail,
        network=network(),
        stands=stands,
    ):
        if isinstance(step, Filled):
            filled = step
        else:
            yield Progress(step[0], step[1], f"filling gap {step[0] + 1} of {step[1]}")
    assert filled is not None
    generated, turns, notes = filled.generated, filled.turns, filled.notes
    if hands is not None and hands[generated].any():
        on_body.require_hands(shown.who)
        yield Progress(0, 1, "holding hands")
        turns, missing = _holding(ob, shown, filled, hands, up, [holder is not None for holder in holders])
        notes = (*notes, *held_bones.too_far(missing))
    motion = shown_motion.motion(ob, shown, shown.frames, turns, filled.root + up, generated)
    said = (
        feet_figures(shown.who.body, (shown.turns, shown.root - up), (turns, filled.root), generated, shown.fps),
        "Feet stand as markers say" if stands is not None else "",
        floor_figure(up[2]),
        sources(searched, filled.source[generated]),
        *notes,
    )
    return Made(ob.name, motion, tuple(filter(None, said)))


def require_free(holder: Any, ob: Any) -> None:
    """Raise ValueError, in words, for an object that a hand cannot be held at: nowhere, or moved by the character itself."""
    if not np.isfinite(np.array(holder.matrix_world.translation)).all():
        raise ValueError(f"{holder.name} is at a place that is no number: check its location")
    above = holder
    while above is not None:
        targets = [getattr(constraint, "target", None) for constraint in above.constraints if not constraint.mute]
        if above.parent == ob or ob in targets:
            raise ValueError(
                f"{holder.name} {'is parented' if above.parent == ob else 'is constrained'} to {ob.name}, and moves with it:"
                " hold the hand at an object that moves by itself"
            )
        above = above.parent


def _holding(
    ob: Any, shown: Shown, filled: Filled, hands: np.ndarray, up: np.ndarray, asked: list[bool]
) -> tuple[np.ndarray, np.ndarray]:
    """Turns (F, J, 3, 3) with hands that hold when ``hands`` (F, 2) bool says so, and what is missing (F, 2) [m]; at the places of
    the objects of those sides that ``asked`` for one."""
    places = np.full((*hands.shape, 3), np.nan)
    places[:, asked] = shown.others - up

    def there(turns: np.ndarray, root: np.ndarray) -> np.ndarray:
        made = shown_motion.motion(ob, shown, shown.frames, turns, root + up, filled.generated)
        return on_body.hands_of(on_body.character(made.rig.skeleton, made.rig.roles), made.rot, made.root) - up

    body, fixed = shown.who.body, ~filled.generated
    return held_bones.hold_hands(body, filled.turns, filled.root, hands, shown.fps, places, fixed, there)


# ---- Continue


def go_on(context: bpy.types.Context) -> Generator[Progress, None, Made]:
    """Frames that go on from the playhead, as the settings of the active character say; yields Progress. Changes nothing."""
    ob: Any = rig.find(context)
    own = ob.neural_ik_motion
    scene: Any = context.scene
    shown_motion.character_of(ob)
    now = int(scene.frame_current)
    frames = key_frames.up_to(ob, now, HISTORY)
    shown = yield from shown_motion.read(context, ob, frames)
    searched = yield from library(context, ob, shown.who, None)
    yield Progress(0, 1, "going on")
    body = shown.who.body
    up = np.array([0, 0, libraries.floor_under(body, shown.turns, shown.root)])
    made = continuing.continue_(
        body,
        shown.turns,
        shown.root - up,
        own.frames,
        searched,
        fps=shown.fps,
        seed=own.variation,
        detail=own.detail,
        steps=steps(),
        goal=goal_of(ob, own.target) if own.target is not None else None,
        heading=_heading(shown, own.turn) if own.target is None and own.use_turn else None,
    )
    turns = np.concatenate([shown.turns, made.turns])
    root = np.concatenate([shown.root - up, made.root])
    generated = np.arange(len(turns)) >= len(shown.turns)
    reached = frames[0] + np.arange(len(turns))
    motion = shown_motion.motion(ob, shown, reached, turns, root + up, generated)
    said = [feet_figures(body, None, (turns, root), generated, shown.fps), floor_figure(up[2])]
    keyed = key_frames.of(ob, motion_channels.rig_of(ob))[0]
    gone = int(((keyed > now + key_frames.NEAR) & (keyed <= reached[-1])).sum())
    if gone:
        said.append(f"Accept as keys replaces the keys of {counted(gone, 'frame')} after the playhead")
    if own.target is not None:
        away = np.linalg.norm(root[generated][:, :2] - goal_of(ob, own.target), axis=1)
        near = int(away.argmin())
        said.append(f"Comes within {away[near]:.2f} m of {own.target.name}, on frame {reached[generated][near]}")
    said.append(sources(searched, made.source))
    if reached[-1] > scene.frame_end:
        said.append(f"The scene ends at frame {scene.frame_end}, before this motion does")
    return Made(ob.name, motion, tuple(filter(None, said)))


def goal_of(ob: Any, target: Any) -> np.ndarray:
    """(2) [m, rig space] where another object is on the ground, seen from the armature object's own place."""
    way = np.array(target.matrix_world.translation - ob.matrix_world.translation)
    return np.asarray(way[:2] * metres(ob))


def _heading(shown: Shown, turn: float) -> float:
    """[rad] where the body looks on the last frame that was read, and so much to its left."""
    return float(features.headings(shown.turns[:, 0])[-1]) + turn


# ---- Check


_checked: list[tuple[str, Checked]] = []
"""The armature object that was checked last, and what was measured."""


def check(context: bpy.types.Context) -> Generator[Progress, None, tuple[str, Checked]]:
    """How far Fill and Continue can be trusted for the active character, from its own actions; yields Progress."""
    ob: Any = rig.find(context)
    _, who = shown_motion.character_of(ob)
    clips = yield from own_clips.of_character(context, ob, who, False)
    searched = yield from library(context, ob, who, None)
    found: Checked | None = None
    for step in checking.check(searched, [Take(*clip) for clip in clips], network(), steps()):
        if isinstance(step, Checked):
            found = step
        else:
            yield Progress(step[0], step[1], f"trying {step[0] + 1} of {step[1]}")
    assert found is not None
    return ob.name, found


def keep(name: str, found: Checked) -> None:
    """Keep what was measured, for the panel."""
    _checked[:] = [(name, found)]


def checked(ob: Any) -> Checked | None:
    """What was measured for an armature object; None where it was not the last one to be checked."""
    return _checked[0][1] if _checked and _checked[0][0] == ob.name else None


# ---- figures


def floor_figure(height: float) -> str:
    """Where the floor is; empty where it is at the character's origin."""
    return f"Floor at {height:.2f} m, under its lowest foot" if height else ""


def feet_figures(
    body: Skeleton,
    before: tuple[np.ndarray, np.ndarray] | None,
    after: tuple[np.ndarray, np.ndarray],
    generated: np.ndarray,
    fps: float,
) -> str:
    """How far standing feet slide in generated frames, and did ``before`` in the same frames; empty where no foot stands."""
    rows = np.flatnonzero(generated)
    span = slice(max(int(rows[0]) - 1, 0), int(rows[-1]) + 2)
    rest = body.foot_rest - body.floor

    def points(motion: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        turned, heads = fk.walk(body.parents, motion[0][span], body.offsets, motion[1][span])
        feet = [heads[:, list(ends)] for ends in (body.feet, body.toes)]
        return contacts.foot_points(body, turned, heads), contacts.truth_contacts(
            feet[0], feet[1], rest, 0.0, fps, contacts.size_of(body.leg_length)
        )

    now, standing = points(after)
    slide = metrics.slide(now, standing)
    if not np.isfinite(slide):
        return ""
    if before is None:
        return f"Standing feet slide {slide:.1f} mm a frame"
    was = metrics.slide(points(before)[0], standing)
    return f"Standing feet slide {slide:.1f} mm a frame; the keys alone {was:.1f}"


def sources(searched: Library, source: np.ndarray) -> str:
    """Which clips frames come from, the most used first; ``source`` (F) are frames of the library, -1 for none."""
    rows = source[source >= 0]
    if not len(rows):
        return ""
    names, counts = np.unique([searched.names[clip] for clip in searched.clip[rows]], return_counts=True)
    best = [str(names[i]) for i in np.argsort(-counts, kind="stable")]
    more = f" and {len(best) - NAMED} more" if len(best) > NAMED else ""
    return f"From {', '.join(best[:NAMED])}{more}"
