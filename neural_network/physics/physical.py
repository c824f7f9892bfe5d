# SPDX-License-Identifier: GPL-3.0-or-later
"""Make Physical: the wing's call. An action of any character in; one whose feet stand and whose weight the ground carries out.

A sound action comes back as it was, byte for byte.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

import numpy as np

from ..core import metrics, rotations
from ..core.contacts import TRUTH, foot_points, runs
from ..core.messages import counted
from ..core.skeleton import Skeleton
from ..ik import held_bones, held_feet
from ..ik.foot_pins import Ground, flat_ground, forward
from ..rigs import on_body
from ..rigs.on_body import Character
from . import balance, mending, standing

FEW = "fewer have no accelerations"
MOST = 6000  # frames that are mended at once; their system takes 150 MB
SLIDES = (
    2.5,
    0.8,
)  # [mm a frame at 30 a second] standing feet of sound motion slide less on average, and for each m/s of the Hips
WORST = 8.0  # [mm a frame at 30 a second] and less than this in all but one of twenty
OFF = 0.012  # [m] and are no farther from the floor, in the median
SUNK = 3.5  # [mm] and the lowest point of both is no deeper below it on average
GAIN = 0.4  # [body weights] and no quarter of a second of it could have a score that is lower by more
AROUND = 0.25  # [s]
MEAN = 0.1  # [body weights] nor all of it
PLACE = (
    0.4,
    0.25,
)  # [m/s] standing feet of actions that walk in place go back faster, and the Hips slower than this share of it
LEGS = tuple(f"{side}{part}" for side in ("Left", "Right") for part in ("Thigh", "Shin", "Foot", "ToeBase"))
IN_PLACE = "The feet go as if this action walked in place, so nothing is changed; give it its way first, or make contacts by hand."
NO_FOOT = "No foot stands anywhere in this action; add contacts by hand if one should."

Motion = tuple[np.ndarray, np.ndarray]
"""Local core rotations (F, J, 3, 3) and the Hips' heads (F, 3) [m] of a body."""
Steps = tuple[int, int]
"""Steps done, of so many."""


@dataclass(frozen=True)
class OnBody:
    """Motion of a body with the reference rig's bones, made physical."""

    motion: Motion
    """The arrays given where it is sound."""
    contact: np.ndarray
    """(F, 2) bool when feet stand."""
    sound: bool
    before: np.ndarray
    """(F) balance score [body weights]."""
    after: np.ndarray
    """(F)."""
    missing: float = 0.0
    """[m] by how much a leg does not reach, at most."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Physical:
    """What Make Physical made of an action."""

    rot: np.ndarray
    """(F, J, 3) [rad] rot_local; the array given where the action is sound."""
    root: np.ndarray
    """(F, 3) [m, armature] the root's head; likewise."""
    contact: np.ndarray
    """(F, 2) bool when the left and the right foot stand."""
    sound: bool
    """There was nothing to mend: nothing is changed."""
    score: np.ndarray
    """(F) balance score [body weights] of what was made."""
    score_before: np.ndarray
    """(F) of what was given."""
    before: Mapping[str, float]
    """Figures of the action given: score [body weights], slide_mm a frame, float_mm, penetration_mm."""
    after: Mapping[str, float]
    """The same of what was made, and by how many degrees legs and all else turned: legs_deg, rest_deg."""
    notes: tuple[str, ...] = ()
    """Sentences for the person who pressed the button."""


def on_a_body(
    body: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray | None = None,
    ground: Ground = flat_ground,
    hands: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> Generator[Steps, None, OnBody]:
    """Motion of a body with the reference rig's bones, made physical; arguments as for :func:`make`, in core axes.

    ``places`` (F, 2, 3) [m] are those of the body's hands.
    """
    weights = mending.WEIGHTS
    steps = weights.steps + weights.pins * (1 if contact is not None else 2)
    done = 0

    def numbered(work: Generator[Steps, None, Motion]) -> Generator[Steps, None, Motion]:
        nonlocal done
        while True:
            try:
                next(work)
            except StopIteration as end:
                return end.value
            yield min(done, steps), steps
            done += 1

    given = contact is not None
    found = np.asarray(contact, bool) if contact is not None else standing.find(body, turns, root, fps, ground)
    if found.shape != (len(root), 2):
        raise ValueError(f"contacts: expected {len(root)} frames of 2 feet, got {found.shape}")
    before = balance.balance(body, turns, root, fps, ground, hands).score
    if not given and in_place(body, turns, root, fps, found):
        return OnBody((turns, root), found, True, before, before, notes=(IN_PLACE,))
    task = mending.task(body, turns, root, fps, found, ground, hands)
    if not given:  # feet that slid, or hung in the air, are seen to stand once others do
        posed = yield from numbered(mending.pinned(task))
        found = found | standing.find(body, *posed, fps, ground)
        task = mending.task(body, turns, root, fps, found, ground, hands)
    posed = yield from numbered(mending.mended(task))
    held = held_feet.hold(body, *posed, found, fps, ground)
    out = held.turns
    notes: tuple[str, ...] = ()
    if hands is not None and np.any(hands):
        out, far = held_bones.hold_hands(body, out, held.root, hands, fps, places)
        notes = held_bones.too_far(far)
    after = balance.balance(body, out, held.root, fps, ground, hands).score
    width = max(1, round(AROUND * fps))
    gain = np.convolve(before - after, np.ones(width) / width, "same") if len(before) >= width else before - after
    stands = found if given else standing.find(body, turns, root, fps, ground, TRUTH.slow)
    if (
        _quiet(body, turns, root, fps, stands, ground)
        and gain.max() < GAIN
        and gain.mean() < MEAN
        and (hands is None or not np.any(hands))
    ):
        return OnBody((turns, root), found, True, before, before)
    return OnBody((out, held.root), found, False, before, after, float(held.missing.max(initial=0)), notes)


def _quiet(
    body: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, contact: np.ndarray, ground: Ground
) -> bool:
    """Whether standing feet slide no more and are no farther from the floor than those of captured motion."""
    points = foot_points(body, *forward(body, turns, root))
    points[..., 2] -= ground(points[..., :2])
    slides = metrics.slides(points, contact) * fps / 30
    speed = float(np.median(np.linalg.norm(np.diff(root[:, :2], axis=0), axis=-1))) * fps
    low = points[..., 2].min(axis=-1)
    stands = bool(
        slides.size == 0 or (slides.mean() < SLIDES[0] + SLIDES[1] * speed and np.percentile(slides, 95) < WORST)
    )
    deep = float(metrics.penetration(points).mean())
    return stands and deep < SUNK and (not contact.any() or bool(abs(np.median(low[contact])) < OFF))


def in_place(body: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, contact: np.ndarray) -> bool:
    """Whether an action walks in place: its standing feet go back together while its root goes nowhere."""
    points = foot_points(body, *forward(body, turns, root))
    both = contact[1:] & contact[:-1]
    if both.sum() < 2:
        return False
    ways = np.median(np.diff(points[..., :2], axis=0), axis=2)[both] * fps
    speed = float(np.linalg.norm(np.median(ways, axis=0)))
    own = float(np.linalg.norm(root[-1, :2] - root[0, :2])) * fps / max(len(root) - 1, 1)
    return speed > PLACE[0] and own < PLACE[1] * speed


def make(
    who: Character,
    rot: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray | None = None,
    ground: Ground | None = None,
    hands: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> Generator[Steps, None, Physical]:
    """Make Physical: the nearest action whose feet stand and whose weight the ground carries; a sound one comes back as it was.

    Yields how many steps are done, of how many.

    Args:
        who: the character, :func:`.on_body.character`.
        rot: (F, J, 3) [rad] rot_local of its own bones.
        root: (F, 3) [m, armature] its root's head.
        fps: frames a second.
        contact: (F, 2) bool when feet stand; None: found.
        ground: heights [m] of the floor under points (..., 2) [m, armature]; None: level at 0.
        hands: (F, 2) bool when the left and the right hand hold something that stays, and may push and pull; None: never.
        places: (F, 2, 3) [m, armature] where they hold it; None, or NaN: where each is on average then.

    Raises:
        ValueError: in words, for fewer than three frames, numbers that are none, contacts of another length.
    """
    on_body.require_motion(who, rot, root, fps, balance.FEWEST, FEW)
    if len(rot) > MOST:
        raise ValueError(f"expected an action of {MOST} frames or fewer, got {len(rot)}: mend it in parts")
    under = ground or flat_ground
    given = on_body.to_body(who, rot, root)
    done = yield from on_a_body(who.body, *given, fps, contact, under, hands, places)
    before = figures(who.body, given, fps, done.contact, under) | {"score": float(done.before.mean())}
    notes = [*done.notes, *_words(done, fps)]
    if done.sound:
        return Physical(rot, root, done.contact, True, done.before, done.before, before, before, tuple(notes))
    after = figures(who.body, done.motion, fps, done.contact, under) | {"score": float(done.after.mean())}
    after |= turned(who.body, given[0], done.motion[0])
    out, place = on_body.carried_back(who, rot, root, given, done.motion)
    return Physical(out, place, done.contact, False, done.after, done.before, before, after, tuple(notes))


def _words(done: OnBody, fps: float) -> list[str]:
    out = []
    if not done.contact.any():
        out.append(NO_FOOT)
    if done.missing > 2 * held_feet.SHORT:
        out.append(f"Legs do not reach by up to {1000 * done.missing:.0f} mm; check the contacts of those frames.")
    hangs = [(a, b) for a, b in runs(done.after > mending.HANGS) if b - a >= mending.LONG * fps]
    if hangs:
        a, b = max(hangs, key=lambda run: run[1] - run[0])
        also = f", and in {counted(len(hangs) - 1, 'other place')}" if len(hangs) > 1 else ""
        out.append(
            f"Nothing carries the body from frame {a + 1} to {b} of the action{also}: it is not made to fall. "
            "Mark what it stands on or holds, or move it down there."
        )
    return out


def figures(
    body: Skeleton, motion: Motion, fps: float, contact: np.ndarray, ground: Ground = flat_ground
) -> dict[str, float]:
    """What a person sees of standing feet: slide_mm a frame, float_mm and penetration_mm, means; 0 where none stands."""
    points = foot_points(body, *forward(body, *motion))
    points[..., 2] -= ground(points[..., :2])
    slides, floats = metrics.slides(points, contact), metrics.floating(points, contact)
    return {
        "slide_mm": float(slides.mean()) if slides.size else 0.0,
        "float_mm": float(floats.mean()) if floats.size else 0.0,
        "penetration_mm": float(metrics.penetration(points).mean()),
    }


def turned(body: Skeleton, before: np.ndarray, after: np.ndarray) -> dict[str, float]:
    """By how many degrees the joints of legs, and all others, turned on average: legs_deg, rest_deg."""
    angle = np.degrees(rotations.geodesic_angle(before, after)).mean(axis=0)
    legs = np.array([name in LEGS for name in body.names])
    return {"legs_deg": float(angle[legs].mean()), "rest_deg": float(angle[~legs].mean())}
