# SPDX-License-Identifier: GPL-3.0-or-later
"""Every figure of Make Physical and the balance score, on takes of subjects that no constant was chosen on, beside plain methods."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..core import metrics
from ..core.contacts import foot_points, truth_contacts
from ..core.skeleton import Skeleton
from ..ik import held_feet
from ..ik.foot_pins import forward
from ..learning import card
from ..learning.card import Figure
from ..motion.pose_set import PoseSet
from ..rigs import on_body
from . import balance, edits, physical
from .edits import EDITS, Edited
from .physical import Motion

HELD_OUT = ("07", "16", "49")
"""Subjects of the splits W and A."""
RATE = 30.0
ACTIONS, LONGEST = 20, 300
"""How many are judged, and [frames] of the longest; a longer one's beginning is."""
SCORE, SLIDE, LEGS, REST = 1.5, 1.2, 2.5, 3.0
"""Bars: times the clean action's score and slide; [deg] that legs and everything else turn."""
SUNK = 2.0  # [mm] below the floor
AUTOMATIC = 1.3  # times what known contacts reach
SECONDS = 2.0  # for 300 frames
NOTHING, REPAIR, PIN = "nothing", "repair alone", "pinning alone"
OWN, FOUND = "Make Physical", "with automatic contacts"
UNITS = {
    "balance score": "body weights",
    "slide": "mm a frame",
    "penetration": "mm",
    "legs turned": "deg",
    "all else turned": "deg",
}

Repaired = Callable[[Skeleton, np.ndarray, np.ndarray, float], Motion]
"""What repair makes of motion of a body: turns, root, frames a second."""
T = TypeVar("T")


@dataclass(frozen=True)
class Action:
    """One clean take on the reference rig."""

    name: str
    turns: np.ndarray
    root: np.ndarray
    contact: np.ndarray
    """(F, 2) bool, the truth."""


def actions_of(poses: PoseSet, count: int = ACTIONS) -> tuple[Skeleton, list[Action]]:
    """The body and ``count`` actions, evenly spread over all takes of the subjects that are held out.

    ValueError where there are none, or frame rates differ from 30.
    """
    if not np.allclose(poses.clip_fps, RATE):
        raise ValueError("expected clips of 30 frames a second; import with --fps 30")
    rows: dict[str, slice] = {}
    for clip, label in enumerate(poses.clip_names):
        name = re.sub("^scaled_|_metres$", "", label.split("/")[-1]).split("-")[0]
        if name.split("_")[0] in HELD_OUT and poses.rows(clip).stop - poses.rows(clip).start >= 20:
            rows.setdefault(name, poses.rows(clip))
    if not rows:
        raise ValueError(f"--data: expected takes of subjects {', '.join(HELD_OUT)}; clips are named SUBJECT_TAKE")
    names = sorted(rows)
    chosen = [names[i * len(names) // count] for i in range(count)] if len(names) > count else names
    who = on_body.found(poses.skeleton)
    out = []
    for name in chosen:
        part = slice(rows[name].start, min(rows[name].stop, rows[name].start + LONGEST))
        turns, root = on_body.to_body(who, poses.rot[part], poses.root_pos[part])
        heads = forward(who.body, turns, root)[1]
        feet, toes = heads[:, list(who.body.feet)], heads[:, list(who.body.toes)]
        out.append(Action(name, turns, root, truth_contacts(feet, toes, who.body.foot_rest)))
    return who.body, out


def finished(work: Generator[Any, None, T]) -> T:
    """What a generator returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def measures(body: Skeleton, motion: Motion, given: np.ndarray, contact: np.ndarray) -> dict[str, float]:
    """The measures by name, of motion made from turns ``given``; contacts are the truth's."""
    posed = forward(body, *motion)
    points = foot_points(body, *posed)
    slides = metrics.slides(points, contact)
    by = physical.turned(body, given, motion[0])
    return {
        "balance score": float(balance.balance(body, *motion, RATE).score.mean()),
        "slide": float(slides.mean()) if slides.size else float("nan"),
        "penetration": float(metrics.penetration(points).mean()),
        "legs turned": by["legs_deg"],
        "all else turned": by["rest_deg"],
    }


def measured(poses: PoseSet, seed: int, repaired: Repaired) -> Iterator[Figure]:
    """Every figure; ValueError where nobody held out is in ``poses``."""
    body, actions = actions_of(poses)
    frames = sum(len(a.root) for a in actions)
    clean = [measures(body, (a.turns, a.root), a.turns, a.contact) for a in actions]
    methods: dict[str, Callable[[Edited, np.ndarray], Motion]] = {
        NOTHING: lambda e, c: (e[1], e[2]),
        REPAIR: lambda e, c: repaired(*e, RATE),
        PIN: lambda e, c: _pinned(e, c),
        OWN: lambda e, c: finished(physical.on_a_body(*e, RATE, c)).motion,
        FOUND: lambda e, c: finished(physical.on_a_body(*e, RATE)).motion,
    }
    for name, edit in EDITS.items():
        found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
        for i, action in enumerate(actions):
            edited = edit(body, action.turns, action.root, np.random.default_rng([seed, i]))
            for method, make in methods.items():
                motion = make(edited, action.contact)
                found[method].append(measures(edited[0], motion, edited[1], action.contact))
        yield from _edit(name, clean, found, frames, seed)
    yield from _clean(body, actions, clean, frames)
    yield from _scores(body, actions, frames, seed)
    yield _time(body, actions)


def _pinned(edited: Edited, contact: np.ndarray) -> Motion:
    held = held_feet.hold(*edited, contact, RATE)
    return held.turns, held.root


def _mean(rows: Sequence[Mapping[str, float]], measure: str) -> float:
    return float(np.nanmean([row[measure] for row in rows]))


def _edit(
    name: str, clean: list[dict[str, float]], found: dict[str, list[dict[str, float]]], frames: int, seed: int
) -> Iterator[Figure]:
    bars = {
        "balance score": SCORE * _mean(clean, "balance score"),
        "slide": SLIDE * _mean(clean, "slide"),
        "penetration": SUNK,
        "legs turned": LEGS,
        "all else turned": REST,
    }
    for measure, bar in bars.items():
        values = np.array([row[measure] for row in found[OWN]])
        values = values[np.isfinite(values)]
        interval = card.ci95(values, np.arange(len(values)), np.random.default_rng(seed))
        rivals = {method: _mean(rows, measure) for method, rows in found.items() if method not in (OWN, FOUND)}
        rivals["clean"] = _mean(clean, measure)
        yield Figure(
            f"{name}: {measure}", _mean(found[OWN], measure), UNITS[measure], "lower", frames, bar, interval, rivals
        )
    for measure in ("balance score", "slide", "legs turned"):
        known = _mean(found[OWN], measure)
        bar_found = None if measure == "legs turned" else AUTOMATIC * known
        rivals = {"known contacts": known, "clean": _mean(clean, measure)}
        value = _mean(found[FOUND], measure)
        yield Figure(
            f"{name}, automatic contacts: {measure}", value, UNITS[measure], "lower", frames, bar_found, None, rivals
        )


def _clean(body: Skeleton, actions: Sequence[Action], clean: list[dict[str, float]], frames: int) -> Iterator[Figure]:
    done = [finished(physical.on_a_body(body, a.turns, a.root, RATE)) for a in actions]
    by = [measures(body, d.motion, a.turns, a.contact) for d, a in zip(done, actions, strict=True)]
    shares = {"actions that come back as they were": float(np.mean([d.sound for d in done]))}
    for measure in ("legs turned", "all else turned"):
        yield Figure(f"clean actions: {measure}", _mean(by, measure), "deg", "lower", frames, None, None, shares)
    rivals = {NOTHING: _mean(clean, "balance score")}
    value = _mean(by, "balance score")
    yield Figure("clean actions: balance score", value, "body weights", "lower", frames, None, None, rivals)


def _scores(body: Skeleton, actions: Sequence[Action], frames: int, seed: int) -> Iterator[Figure]:
    """The balance score of what is wrong in known ways: the mean over all actions, and the median action's."""
    made: dict[str, tuple[Callable[..., Edited], float]] = {
        "clean": (lambda body, turns, root, rng: (body, turns, root), RATE),
        "bent": (edits.bent, RATE),
        "shaken": (edits.shaken, RATE),
        "leaning by 10 degrees": (edits.leaning, RATE),
        "floating by 5 cm": (edits.floating, RATE),
        "at double speed": (lambda body, turns, root, rng: (body, turns, root), 2 * RATE),
    }
    for name, (edit, fps) in made.items():
        scores = []
        for i, a in enumerate(actions):
            edited = edit(body, a.turns, a.root, np.random.default_rng([seed, i]))
            scores.append(float(balance.balance(*edited, fps).score.mean()))
        rivals = {"median action": float(np.median(scores))}
        yield Figure(
            f"balance score, {name}", float(np.mean(scores)), "body weights", "lower", frames, None, None, rivals
        )


def _time(body: Skeleton, actions: Sequence[Action]) -> Figure:
    action = max(actions, key=lambda a: len(a.root))
    edited = edits.stretched(body, action.turns, action.root, np.random.default_rng(0))
    spent = []
    for _ in range(2):
        began = time.process_time()
        finished(physical.on_a_body(*edited, RATE))
        spent.append((time.process_time() - began) * LONGEST / len(action.root))
    return Figure("300 frames", min(spent), "s", "lower", len(action.root), SECONDS)


WHY: dict[str, tuple[str, str]] = {
    "automatic contacts": (
        "a rule above the floor that slow feet are on, twice: before and after feet are held; lines fitted to motion that shakes",
        "feet that are seen to stand a frame too late or too early slide there; give contacts, or edit the markers",
    ),
}
"""What was tried for a figure that misses its bar, and what holds it back, by words of its name."""
