# SPDX-License-Identifier: GPL-3.0-or-later
"""Fix Feet and Clean: the wing's calls. Motion of any character in, motion whose feet stand, or without tremble, drops and drift, out.

In this order: contacts; what is wrong; poses by the network, only where they are judged wrong; the root by least squares, only where
it is; standing feet held last. A sound action comes back as it was, byte for byte.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..core import metrics, rotations
from ..core.contacts import foot_points, runs
from ..core.skeleton import Skeleton
from ..ik import held_bones, held_feet
from ..ik.foot_pins import Ground, flat_ground, forward
from ..motion import features
from ..rigs import on_body
from ..rigs.on_body import Character
from . import contacts, judging, plain, rooting
from . import network as networks
from .correction import RATE, Correction, level_velocity, moves
from .corruption import gaussian, smoothed
from .network import QUICK, Network, Said

SAME_RATE = 0.01  # [1/s] frame rates that differ by less are the same
FEWEST = 2  # frames
FEW = "one pose cannot slide or tremble"
FAMILIAR = 3.0  # of :attr:`.network.Said.unlike`: the largest of any take that was learned from, spoilt or not
UNLIKE = "This body, or how it moves, is unlike what the network learned from; plain methods were used."


@dataclass(frozen=True)
class Repaired:
    """Motion of a body with the reference rig's bones, repaired."""

    turns: np.ndarray
    """(F, J, 3, 3) local core rotations."""
    root: np.ndarray
    """(F, 3) [m]."""
    contact: np.ndarray
    """(F, 2) bool."""
    judged: judging.Judgement
    missing: float = 0.0
    """[m] by how much a leg does not reach its foot, at most."""


@dataclass(frozen=True)
class Fixed:
    """What Fix Feet or Clean made of an action."""

    rot: np.ndarray
    """(F, J, 3) [rad] rot_local; the array given where the action is sound."""
    root: np.ndarray
    """(F, 3) [m, armature] the root's head; likewise."""
    contact: np.ndarray
    """(F, 2) bool, when the left and the right foot stand."""
    sound: bool
    """There was nothing to repair: nothing is changed."""
    changed_mm: float
    """[mm] by how much heads moved on average."""
    before: Mapping[str, float]
    """Figures of the action given, by name and unit: slide_mm, float_mm, penetration_mm, jerk; by the contacts found."""
    after: Mapping[str, float]
    """The same of what was made."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """How probable it is that something was wrong, by kind; empty without weights."""
    notes: tuple[str, ...] = ()
    """Sentences for the person who pressed the button."""


# ---------------------------------------------------------------- on a body


def said_at(
    network: Network, body: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, ground: Ground = flat_ground
) -> Said:
    """What a network says of motion at any frame rate; above uneven ground it sees the motion as if that were level."""
    level = root.copy()
    level[:, 2] -= ground(root[:, :2])
    if abs(fps - RATE) < SAME_RATE:
        return network.say(body, turns, level)
    times = np.arange(0, max((len(root) - 1) * RATE / fps, 1) + 1e-6) * fps / RATE
    said = network.say(body, *features.resampled(turns, level, times))
    own = np.arange(len(root)) * RATE / fps
    low = np.minimum(own.astype(int), len(times) - 1)
    high = np.minimum(low + 1, len(times) - 1)
    share = own - low

    def between(values: np.ndarray) -> np.ndarray:
        part = share.reshape(-1, *[1] * (values.ndim - 1))
        return np.asarray((1 - part) * values[low] + part * values[high])

    c = said.correction
    correction = Correction(between(c.turns), between(c.velocity), between(c.height))
    return replace(said, correction=correction, contact=between(said.contact), gate=None)


def repair(
    body: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    network: Network | None = None,
    contact: np.ndarray | None = None,
    ground: Ground = flat_ground,
    pins: bool = True,
) -> Repaired:
    """Motion of a body with the reference rig's bones, repaired; core axes.

    Args:
        body: its bones in any lengths.
        turns: (F, J, 3, 3) local core rotations.
        root: (F, 3) [m] the Hips' head.
        fps: frames a second.
        network: None: the rule's contacts, a Gaussian where it trembles, and least squares.
        contact: (F, 2) bool when feet are to stand; None: where they are found to. The root follows those found.
        ground: heights of the floor.
        pins: hold standing feet.
    """
    said = None if network is None else said_at(network, body, turns, root, fps, ground)
    if said is None or said.unlike > FAMILIAR:
        steady = smoothed(turns, root, plain.WIDTH)
        found = contacts.by_rule(body, *steady, fps, ground)
        judged = judging.by_rule(body, turns, root, fps, found, ground)
        fixed, way = (steady if judged.pose else (turns, root)) if not judged.sound else (turns, root)
        correction = None
        if said is not None:
            judged = replace(judged, notes=(*judged.notes, UNLIKE))
    else:
        found = contacts.decided(said.contact, fps)
        judged = judging.by_network(body, turns, root, fps, said, found, ground)
        correction = said.correction
        fixed, way = turns, root
        if judged.pose:
            fixed = turns @ rotations.matrix_from_axis_angle(correction.turns)
    given = found if contact is None else np.asarray(contact, bool)
    if given.shape != found.shape:
        raise ValueError(f"contacts: expected {found.shape[0]} frames of 2 feet, got {given.shape}")
    if judged.sound:
        edited = _edited(given, found)
        if not pins or not edited.any():
            return Repaired(turns, root, given, judged)
        held = held_feet.hold(body, turns, root, edited, fps, ground, lift=False)
        return Repaired(held.turns, held.root, given, judged, float(held.missing.max()))
    way = _rooted(body, turns, fixed, way, fps, found, judged, correction, ground)
    if not pins:
        return Repaired(fixed, way, given, judged)
    held = held_feet.hold(body, fixed, way, given, fps, ground)
    return Repaired(held.turns, held.root, given, judged, float(held.missing.max()))


def _edited(given: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The contacts of ``given`` (F, feet) whose runs are not runs of ``found``: those that a person made, moved or cut."""
    out = np.zeros_like(given)
    for k in range(given.shape[1]):
        known = set(runs(found[:, k]))
        for first, last in runs(given[:, k]):
            out[first:last, k] = (first, last) not in known
    return out


def _rooted(
    body: Skeleton,
    before: np.ndarray,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray,
    judged: judging.Judgement,
    correction: Correction | None,
    ground: Ground,
) -> np.ndarray:
    """The root (F, 3) of repaired ``turns``: where these were wrong too the network has it first, and standing feet add a little."""
    out, likely = root.copy(), rooting.LIKELY
    if correction is not None and (judged.jumps or (judged.root and judged.pose)):
        own, height = level_velocity(before, correction.velocity), correction.height
        if judged.root:
            likely = rooting.LEFT
        else:
            width = QUICK * fps / RATE
            own, height = own - gaussian(own, width), height - gaussian(height, width)
        out[:, :2] += moves(own, fps)
        out[:, 2] += height
    if judged.root:
        out[:, :2] += moves(rooting.asked(body, turns, out, contact, fps, likely), fps)
    if judged.floor:
        out[:, 2] -= rooting.floor_height(body, turns, out, contact, ground)
    return out


def by_shipped(body: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float) -> tuple[np.ndarray, np.ndarray]:
    """Turns and root of :func:`repair` with the shipped network, or plain methods where there is none: what others compare with."""
    done = repair(body, turns, root, fps, _shipped())
    return done.turns, done.root


@functools.cache
def _shipped() -> Network | None:
    return networks.load()["convolution"] if networks.SHIPPED.exists() else None


# ---------------------------------------------------------------- of any character


def find_contacts(
    who: Character,
    rot: np.ndarray,
    root: np.ndarray,
    fps: float,
    ground: Ground | None = None,
    network: Network | None = None,
) -> np.ndarray:
    """(F, 2) bool: when the left and the right foot of a character stand; arguments as for :func:`fix`."""
    on_body.require_motion(who, rot, root, fps, FEWEST, FEW)
    turns, way = on_body.to_body(who, rot, root)
    return repair(who.body, turns, way, fps, network, None, ground or flat_ground, pins=False).contact


def fix(
    who: Character,
    rot: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray | None = None,
    ground: Ground | None = None,
    network: Network | None = None,
    hands: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> Fixed:
    """Fix Feet: the action with feet that stand, on its own way, on the floor; a sound one comes back as it was.

    Args:
        who: the character, :func:`.on_body.character`.
        rot: (F, J, 3) [rad] rot_local of its own bones.
        root: (F, 3) [m, armature] its root's head.
        fps: frames a second.
        contact: (F, 2) bool when feet are to stand; None: found.
        ground: heights [m] of the floor under points (..., 2) [m, armature]; None: level at 0.
        network: what was trained, :func:`.network.load`; None: plain methods.
        hands: (F, 2) bool when the left and the right hand are to stay where they are; None: never.
        places: (F, 2, 3) [m, armature] where they are to be instead.

    Raises:
        ValueError: in words, for one frame, numbers that are none, contacts of another length.
    """
    return _made(who, rot, root, fps, contact, ground or flat_ground, network, True, hands, places)


def clean(
    who: Character,
    rot: np.ndarray,
    root: np.ndarray,
    fps: float,
    network: Network | None = None,
    ground: Ground | None = None,
) -> Fixed:
    """Clean: the action without tremble, drops and drift; feet are not held. As :func:`fix` otherwise."""
    return _made(who, rot, root, fps, None, ground or flat_ground, network, False, None, None)


def require_floor(body: Skeleton, turns: np.ndarray, root: np.ndarray, ground: Ground) -> None:
    """ValueError, in words, for a floor that is more than a leg's length above the feet for all of the time."""
    points = foot_points(body, *forward(body, turns, root))
    highest = float((points[..., 2] - ground(points[..., :2])).max())
    if highest < -body.leg_length:
        raise ValueError(
            f"expected feet near the floor, got them {-highest:.1f} m and more below it; check where the floor is"
        )


def _made(
    who: Character,
    rot: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray | None,
    ground: Ground,
    network: Network | None,
    pins: bool,
    hands: np.ndarray | None,
    places: np.ndarray | None,
) -> Fixed:
    on_body.require_motion(who, rot, root, fps, FEWEST, FEW)
    turns, way = on_body.to_body(who, rot, root)
    require_floor(who.body, turns, way, ground)
    done = repair(who.body, turns, way, fps, network, contact, ground, pins)
    unreached: tuple[str, ...] = ()
    if hands is not None and np.any(hands):
        on_body.require_hands(who)

        def own(bent: np.ndarray, there: np.ndarray) -> np.ndarray:
            return on_body.hands_of(who, *on_body.carried_back(who, rot, root, (turns, way), (bent, there)))

        held, far = held_bones.hold_hands(who.body, done.turns, done.root, hands, fps, places, None, own)
        done, unreached = replace(done, turns=held), held_bones.too_far(far)
    kinds = done.judged.kinds
    before = figures(who.body, turns, way, fps, done.contact, ground)
    notes = [*done.judged.notes, *unreached]
    if not done.contact.any():
        notes.append("No foot stands anywhere in this action; add contacts by hand if one should.")
    if done.turns is turns and done.root is way:
        return Fixed(rot, root, done.contact, True, 0.0, before, before, kinds, tuple(notes))
    after = figures(who.body, done.turns, done.root, fps, done.contact, ground)
    moved = forward(who.body, done.turns, done.root)[1] - forward(who.body, turns, way)[1]
    if done.missing > 2 * held_feet.SHORT:
        notes.append(f"Legs do not reach by up to {1000 * done.missing:.0f} mm; check the contacts of those frames.")
    out, place = on_body.carried_back(who, rot, root, (turns, way), (done.turns, done.root))
    changed = float(np.linalg.norm(moved, axis=-1).mean() * 1000)
    return Fixed(out, place, done.contact, False, changed, before, after, kinds, tuple(notes))


def figures(
    body: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, contact: np.ndarray, ground: Ground = flat_ground
) -> dict[str, float]:
    """What a person sees of standing feet: slide [mm a frame], float and penetration [mm], means; jerk [m/s^3]. 0 where none stands."""
    turned, heads = forward(body, turns, root)
    points = foot_points(body, turned, heads)
    points[..., 2] -= ground(points[..., :2])
    slides, floats = metrics.slides(points, contact), metrics.floating(points, contact)
    return {
        "slide_mm": float(slides.mean()) if slides.size else 0.0,
        "float_mm": float(floats.mean()) if floats.size else 0.0,
        "penetration_mm": float(metrics.penetration(points).mean()),
        "jerk": metrics.jerk(heads, fps) if len(heads) > 3 else 0.0,
    }
