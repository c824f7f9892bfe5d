# SPDX-License-Identifier: GPL-3.0-or-later
"""Balance and Make Physical: what a character shows, the wing's one call, and the result as scores or as a motion with figures."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import bpy
import numpy as np

from ...core.contacts import runs
from ...core.messages import counted
from ...ik.foot_pins import flat_ground
from ...physics import balance, mending, physical
from ...physics.physical import Physical
from ..host import contact_markers, current_action, ground, rig, shown_motion
from ..host.ghost import Made
from ..host.jobs import Progress
from ..host.shown_motion import Shown
from . import scores

FIGURES = (
    ("score", "Balance score {:.2f} body weights, before {:.2f}"),
    ("slide_mm", "Standing feet slide {:.1f} mm a frame, before {:.1f}"),
    ("float_mm", "They float {:.1f} mm, before {:.1f}"),
    ("penetration_mm", "Feet are {:.1f} mm below the floor, before {:.1f}"),
)


def _read(context: bpy.types.Context, ob: Any) -> Generator[Progress, None, Shown]:
    """What the character shows on the frames that its settings name."""
    shown_motion.character_of(ob)
    return (yield from shown_motion.read(context, ob, current_action.frames(context, ob, ob.neural_ik_physics.frames)))


def weigh(context: bpy.types.Context) -> Generator[Progress, None, tuple[str, scores.Scores]]:
    """The balance score of the active character on each frame: its name, and the scores."""
    ob: Any = rig.find(context)
    shown = yield from _read(context, ob)
    yield Progress(0, 1, "weighing")
    hands = contact_markers.read(current_action.of(ob), int(shown.frames[0]), len(shown.frames), contact_markers.HANDS)
    under = ground.under(context, ob, ob.neural_ik_physics.ground) or flat_ground
    found = balance.balance(shown.who.body, shown.turns, shown.root, shown.fps, under, hands)
    return ob.name, scores.Scores(int(shown.frames[0]), found.score)


def mend(context: bpy.types.Context) -> Generator[Progress, None, Made]:
    """The active character's motion with feet that stand and weight that the ground carries; keeps both motions' scores."""
    ob: Any = rig.find(context)
    shown = yield from _read(context, ob)
    action, first, count = current_action.of(ob), int(shown.frames[0]), len(shown.frames)
    marked = contact_markers.read(action, first, count)
    hands = contact_markers.read(action, first, count, contact_markers.HANDS)
    under = ground.under(context, ob, ob.neural_ik_physics.ground)
    work = physical.make(shown.who, shown.rot, shown.root_pos, shown.fps, marked, under, hands)
    while True:
        try:
            done, steps = next(work)
        except StopIteration as end:
            made: Physical = end.value
            break
        yield Progress(done, steps, "finding the nearest motion that the ground carries")
    scores.keep(ob, scores.Scores(first, made.score_before, None if made.sound else made.score))
    if made.sound:
        score = f"balance score {made.before['score']:.2f}"
        what = "no small change helps" if made.notes else "sound, nothing to change"
        return Made(
            ob.name, None, (f"Frames {first} to {first + count - 1} of {ob.name}: {what} ({score})", *made.notes)
        )
    motion = shown_motion.own_motion(ob, shown, made.rot, made.root)
    if not motion.generated.any():
        return Made(ob.name, None, ("Nothing to change", *made.notes))
    said = "Contacts as marked" if marked is not None else "Contacts found; mark them with Fix Feet where that is wrong"
    told = [words.format(made.after[key], made.before[key]) for key, words in FIGURES]
    turned = f"Legs turned {made.after['legs_deg']:.1f} degrees on average, the rest {made.after['rest_deg']:.1f}"
    return Made(ob.name, motion, (*told, turned, said, *made.notes))


def words(found: scores.Scores) -> tuple[str, ...]:
    """What scores say, as sentences."""
    score = found.score
    worst = int(score.argmax())
    out = [
        f"Balance score {score.mean():.2f} body weights, {score[worst]:.2f} at worst, on frame {found.first + worst}"
    ]
    hangs = runs(np.asarray(score > mending.HANGS))
    if hangs:
        a, b = max(hangs, key=lambda run: run[1] - run[0])
        more = f", and in {counted(len(hangs) - 1, 'other place')}" if len(hangs) > 1 else ""
        out.append(f"Nothing carries it from frame {found.first + a} to {found.first + b - 1}{more}")
    return tuple(out)
