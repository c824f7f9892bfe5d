# SPDX-License-Identifier: GPL-3.0-or-later
"""Find Contacts, Fix Feet and Clean: what a character shows, the wing's one call, and the result as a motion with figures."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import bpy
import numpy as np

from ...repair import fixing
from ...repair import network as networks
from ...repair.fixing import Fixed
from ...repair.network import Network
from ..host import contact_markers, current_action, ground, rig, shown_motion
from ..host.ghost import Made
from ..host.jobs import Progress
from ..host.shown_motion import Shown

KIND = "convolution"  # of the shipped networks
FIGURES = (
    ("slide_mm", "Standing feet slide {:.1f} mm a frame, before {:.1f}"),
    ("float_mm", "They float {:.1f} mm, before {:.1f}"),
    ("penetration_mm", "Feet are {:.1f} mm below the floor, before {:.1f}"),
    ("jerk", "Jerk {:.0f} m/s3, before {:.0f}"),
)


def read(context: bpy.types.Context, ob: Any) -> Generator[Progress, None, Shown]:
    """What the character shows on these frames."""
    shown_motion.character_of(ob)
    return (yield from shown_motion.read(context, ob, current_action.frames(context, ob, ob.neural_ik_feet.frames)))


def floor(context: bpy.types.Context, ob: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """Heights under points of the mesh that the settings name; None for a level floor."""
    return ground.under(context, ob, ob.neural_ik_feet.ground)


_networks: list[Network | None] = []


def network() -> Network | None:
    """The shipped network, read once; None where none came with this Neural IK."""
    if not _networks:
        _networks.append(networks.load()[KIND] if networks.SHIPPED.exists() else None)
    return _networks[0]


def find(context: bpy.types.Context) -> Generator[Progress, None, tuple[str, int, np.ndarray]]:
    """Contacts (F, 2) of the active character: its name, the first frame, and them."""
    ob = rig.find(context)
    shown = yield from read(context, ob)
    yield Progress(0, 1, "finding contacts")
    contact = fixing.find_contacts(shown.who, shown.rot, shown.root_pos, shown.fps, floor(context, ob), network())
    return ob.name, int(shown.frames[0]), contact


def fix(context: bpy.types.Context) -> Generator[Progress, None, Made]:
    """The active character's motion with feet that stand where its markers say, or where contacts are found."""
    ob = rig.find(context)
    shown = yield from read(context, ob)
    action, first, count = current_action.of(ob), int(shown.frames[0]), len(shown.frames)
    marked = contact_markers.read(action, first, count)
    hands = contact_markers.read(action, first, count, contact_markers.HANDS)
    yield Progress(0, 1, "fixing feet")
    under = floor(context, ob)
    done = fixing.fix(shown.who, shown.rot, shown.root_pos, shown.fps, marked, under, network(), hands)
    said = "Contacts as marked" if marked is not None else "Contacts found; Find Contacts shows them on the timeline"
    return _made(ob, shown, done, (said,))


def clean(context: bpy.types.Context) -> Generator[Progress, None, Made]:
    """The active character's motion without tremble, dropped frames and drift."""
    ob = rig.find(context)
    shown = yield from read(context, ob)
    yield Progress(0, 1, "cleaning")
    return _made(
        ob, shown, fixing.clean(shown.who, shown.rot, shown.root_pos, shown.fps, network(), floor(context, ob)), ()
    )


def _made(ob: Any, shown: Shown, done: Fixed, said: tuple[str, ...]) -> Made:
    if done.sound:
        where = f"frames {shown.frames[0]} to {shown.frames[-1]}"
        slide = f"standing feet slide {done.before.get('slide_mm', 0.0):.1f} mm a frame"
        return Made(ob.name, None, (f"{where} of {ob.name} are sound ({slide}): nothing to change", *done.notes))
    motion = shown_motion.own_motion(ob, shown, done.rot, done.root)
    if not motion.generated.any():
        return Made(ob.name, None, ("Nothing to change", *done.notes))
    return Made(ob.name, motion, (*figures(done), *said, *done.notes))


def figures(done: Fixed) -> tuple[str, ...]:
    """What was before and is now, a sentence each; without those that could not be measured."""
    out = []
    for key, words in FIGURES:
        now, was = (float(side.get(key, np.nan)) for side in (done.after, done.before))
        if np.isfinite(now) and np.isfinite(was):
            out.append(words.format(now, was))
    return tuple(out)
