# SPDX-License-Identifier: GPL-3.0-or-later
"""Make Physical on a body: the motion nearest to one that is given whose feet stand and whose weight the ground carries.

Gauss-Newton over the whole clip on what :mod:`.unknowns` lists. What is minimised: how fast standing feet slide and how far they are
from the floor, what :mod:`.support` says that contacts do not give, and changes, their speed and their acceleration. Where a
motion cannot be given what it asks for by any small change, such as a body that hangs in the air, that part counts little.
Feet are held exactly afterwards (:mod:`..ik.held_feet`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from ..core.contacts import foot_points, runs
from ..core.skeleton import Skeleton
from ..ik import held_feet
from ..ik.foot_pins import Ground, flat_ground
from . import balance, dynamics, support
from .banded import Normal
from .masses import Masses, masses
from .support import Contacts, Nearest
from .unknowns import SIZE, Posed, by_part, pose

HANGS = 0.5  # [body weights] more than this for longer than
LONG = 0.2  # [s] this, and a body hangs in the air
RATE = 30.0  # [1/s] that weights of frames are counted at


@dataclass(frozen=True)
class Weights:
    """How large an error of each kind counts as 1."""

    slide: float = 0.0005  # [m a frame at 30 a second] of a standing foot, beyond what captured feet do
    height: float = 0.001  # [m] of a standing foot above or below the floor
    sunk: float = 0.004  # [m] of any other foot below it
    rest: float = 0.02  # [body weights] that contacts do not give
    far: float = 0.4  # [body weights] a rest this large counts half
    place: float = 0.5  # [m] of the root
    speed: float = 0.6  # [m/s]
    pace: float = 4.0  # [m/s^2]
    turn: float = 0.07  # [rad] of legs and trunk
    free: float = 0.14  # [rad] of arms and toes
    turn_speed: float = 0.6  # [rad/s]
    turn_pace: float = 15.0  # [rad/s^2]
    pins: int = 3  # steps for the feet alone
    steps: int = 6  # with weight


WEIGHTS = Weights()
ENOUGH = 1e-3  # share by which a step has to lower the value, or it is the last
TRIES, SHORTER = 4, 0.4  # of a step that makes things worse
USELESS = 1e3  # what a force costs at points that are left out


@dataclass(frozen=True)
class Task:
    """What is to be mended; it stays the same in all steps."""

    body: Masses
    turns: np.ndarray
    """(F, J, 3, 3) local core rotations; three frames or more."""
    root: np.ndarray
    """(F, 3) [m] the Hips' head."""
    fps: float
    contact: np.ndarray
    """(F, 2) bool when the left and the right foot stand."""
    ground: Ground
    hands: np.ndarray | None
    """(F, 2) bool when a hand holds something, and may push and pull."""
    weights: Weights


@dataclass(frozen=True, eq=False)
class _State:
    """Unknowns, the motion they make, and what depends on it."""

    posed: Posed
    points: np.ndarray
    """(F, feet, 3, 3) heel, ball, tip."""
    above: np.ndarray
    """(F, feet, 3) [m] of them above the ground."""
    about: np.ndarray | None = None
    contacts: Contacts | None = None
    nearest: Nearest | None = None
    robust: np.ndarray | None = None
    """(F - 2) how much each frame's rest counts."""


def _carried(state: _State, fps: float) -> np.ndarray:
    """(F - 2) bool: frames that contacts could carry; not those of a body that hangs in the air for longer than a moment."""
    out = np.ones(0, bool)
    if state.nearest is not None:
        size = np.linalg.norm(state.nearest.rest, axis=1)
        out = np.ones(len(size), bool)
        for first, last in runs(size > HANGS):
            out[first:last] = last - first < LONG * fps
    return out


def _state(task: Task, values: np.ndarray, weighed: bool, carried: np.ndarray | None = None) -> _State:
    posed = pose(task.body, task.turns, task.root, values)
    points = foot_points(task.body.skeleton, posed.turned, posed.heads)
    above = points[..., 2] - task.ground(points[..., :2])
    if not weighed:
        return _State(posed, points, above)
    length = task.body.skeleton.leg_length
    about = dynamics.centre_of_mass(task.body, posed.turned, posed.heads)
    wrench = dynamics.root_wrench(task.body, posed.turned, posed.heads, task.fps, about) / task.body.weight
    wrench[:, 3:] /= length
    every = balance.contacts_of(task.body.skeleton, posed.turned, posed.heads, task.ground, task.hands)
    contacts = _standing(every, task.contact)
    found = support.nearest(contacts, wrench, about[1:-1], length)
    robust = 1 / (1 + np.sum(found.rest**2, axis=1) / task.weights.far**2)
    if carried is not None:
        robust = robust * carried
    return _State(posed, points, above, about, contacts, found, robust)


def _standing(contacts: Contacts, contact: np.ndarray) -> Contacts:
    """The contacts of the inner frames; a foot that is to stand is on the ground with its lowest point, wherever it is now."""
    inner = contacts.some(slice(1, -1))
    cost = inner.cost.copy()
    for foot in range(contact.shape[1]):
        own = slice(balance.SOLE * foot, balance.SOLE * (foot + 1))
        stands = contact[1:-1, foot]
        height = inner.height[:, own]
        cost[stands, own] = support.cost_at(height - height.min(axis=1, keepdims=True))[stands]
    near = np.flatnonzero((cost < USELESS).any(axis=0))
    return replace(inner, cost=cost).some(slice(None), near)


@dataclass(frozen=True)
class _Pins:
    """Which points of standing feet are held in one step."""

    pairs: np.ndarray
    """(F - 1, feet) bool, a foot that stands before and after."""
    share: np.ndarray
    """(F - 1, feet, 3) how much heel, ball and tip count."""
    lowest: np.ndarray
    """(F, feet) int."""


def _pins(task: Task, state: _State, first: bool) -> _Pins:
    """Of each standing foot the point that moves least and is lowest is held; all of them in the first step."""
    ways = np.linalg.norm(np.diff(state.points[..., :2], axis=0), axis=-1)
    height = state.above - state.above.min(axis=-1, keepdims=True)
    cost = ways + held_feet.LOW * np.maximum(height[1:], height[:-1])
    share = np.full(cost.shape, 1 / 3) if first else np.eye(3)[cost.argmin(axis=-1)]
    return _Pins(task.contact[1:] & task.contact[:-1], share, state.above.argmin(axis=-1))


def _slides(task: Task, state: _State, pins: _Pins) -> np.ndarray:
    """(F - 1, feet, 2) [m] by which standing feet slide more than captured ones do; 0 for others."""
    ways = np.einsum("fki,fkia->fka", pins.share, np.diff(state.points[..., :2], axis=0))
    size = np.linalg.norm(ways, axis=-1, keepdims=True)
    slack = held_feet.SLACK / task.fps
    return np.asarray(ways * (1 - np.minimum(1, slack / np.maximum(size, 1e-12))) * pins.pairs[..., None])


def _heights(task: Task, state: _State, pins: _Pins) -> tuple[np.ndarray, np.ndarray]:
    """(F, feet) [m] by which feet are off the floor, or below it where they do not stand, and how much that counts."""
    low = np.take_along_axis(state.above, pins.lowest[..., None], axis=-1)[..., 0]
    w = task.weights
    off = np.where(task.contact, low, np.minimum(low, 0))
    return off, np.where(task.contact, w.height**-2, w.sunk**-2 * (low < 0))


def _scales(task: Task) -> tuple[tuple[np.ndarray, int], ...]:
    """Weights (31) of changes, of their speed and of their acceleration."""
    w, fps = task.weights, task.fps
    turn = dict.fromkeys(("Hips", "spine", "legs"), w.turn) | dict.fromkeys(("arms", "toes"), w.free)
    speed = dict.fromkeys(turn, w.turn_speed)
    pace = dict.fromkeys(turn, w.turn_pace)
    own = by_part(w.place, **turn), by_part(w.speed, **speed) / fps, by_part(w.pace, **pace) / fps**2
    return tuple((RATE / fps / scale**2, order) for order, scale in enumerate(own))


def _value(task: Task, state: _State, pins: _Pins, robust: np.ndarray | None) -> float:
    w = task.weights
    out = 0.5 * np.sum(_slides(task, state, pins) ** 2) / (w.slide * RATE / task.fps) ** 2
    off, weight = _heights(task, state, pins)
    out += 0.5 * np.sum(weight * off**2)
    for scale, order in _scales(task):
        out += 0.5 * np.sum(scale * np.diff(state.posed.values, order, axis=0) ** 2)
    if robust is not None and state.nearest is not None:
        out += np.sum(robust * state.nearest.cost) / w.rest**2
    return float(out)


def _system(task: Task, state: _State, pins: _Pins) -> Normal:
    skeleton, w, posed = task.body.skeleton, task.weights, state.posed
    frames = len(posed.root)
    out = Normal(frames, SIZE)
    for scale, order in _scales(task):
        out.add_differences(posed.values, scale, order)
    slides = _slides(task, state, pins)
    off, weight = _heights(task, state, pins)
    for k, (foot, toe) in enumerate(zip(skeleton.feet, skeleton.toes, strict=True)):
        slopes = np.concatenate(
            [posed.point_slopes(state.points[:, k, :1], foot), posed.point_slopes(state.points[:, k, 1:], toe)], axis=1
        )
        level = slopes[:, :, :2]
        share = pins.share[:, k, :, None, None]
        each = pins.pairs[:, k, None, None] * np.eye(2) / (w.slide * RATE / task.fps) ** 2
        before, after = -(share * level[:-1]).sum(axis=1), (share * level[1:]).sum(axis=1)
        out.add(slice(0, frames - 1), (before, after), each, (each @ slides[:, k, :, None])[..., 0])
        low = np.take_along_axis(slopes, pins.lowest[:, k, None, None, None], axis=1)[:, 0, 2:]
        out.add(slice(0, frames), (low,), weight[:, k, None, None], (weight * off)[:, k, None])
    if (
        state.nearest is not None
        and state.about is not None
        and state.robust is not None
        and state.contacts is not None
    ):
        length = skeleton.leg_length
        units = np.array([1.0] * 3 + [length] * 3)[:, None] * task.body.weight
        parts = tuple(
            s / units for s in posed.wrench_slopes(task.fps, state.about, _pushes(task, state.contacts, state.nearest))
        )
        each = state.robust[:, None, None] / w.rest**2
        pull = state.robust[:, None] / w.rest**2 * state.nearest.rest
        out.add(slice(0, frames - 2), parts, each * state.nearest.slope, pull)
    return out


def _pushes(task: Task, contacts: Contacts, found: Nearest) -> tuple[np.ndarray, np.ndarray]:
    """What the ground gives each bone: forces (F - 2, J, 3) [N], and the sums of place times force (F - 2, J, 3, 3)."""
    force = found.force * task.body.weight
    places = contacts.points[..., :, None] * force[..., None, :]
    share = (contacts.bones == np.arange(task.body.skeleton.count)[:, None]).astype(float)
    flat = share @ places.reshape(*places.shape[:2], 9)
    return share @ force, flat.reshape(*flat.shape[:2], 3, 3)


def task(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    contact: np.ndarray,
    ground: Ground = flat_ground,
    hands: np.ndarray | None = None,
    weights: Weights = WEIGHTS,
) -> Task:
    """What is to be mended, of a body with the reference rig's bones in any lengths; see :class:`Task`."""
    return Task(masses(skeleton), turns, root, fps, contact, ground, hands, weights)


Steps = Generator[tuple[int, int], None, tuple[np.ndarray, np.ndarray]]
"""Yields (done, of so many steps), returns local core rotations (F, J, 3, 3) and the Hips' heads (F, 3)."""


def pinned(of: Task) -> Steps:
    """The nearest motion whose feet stand, whatever its weight does."""
    return _minimised(of, 0)


def mended(of: Task) -> Steps:
    """The nearest motion whose feet stand and whose weight the ground carries."""
    return _minimised(of, of.weights.steps)


def _minimised(of: Task, weighed_steps: int) -> Steps:
    """Where there are more than about 30 frames a second, changes are sought on so many and interpolated."""
    frames = len(of.root)
    step = balance.every(frames, of.fps)
    rows = np.arange(0, frames, step)
    hands = None if of.hands is None else of.hands[rows]
    thin = replace(
        of, turns=of.turns[rows], root=of.root[rows], fps=of.fps / step, contact=of.contact[rows], hands=hands
    )
    values = yield from _values(thin, weighed_steps)
    if step == 1:
        between = values
    else:
        between = np.stack([np.interp(np.arange(frames), rows, column) for column in values.T], axis=1)
    posed = pose(of.body, of.turns, of.root, between)
    return posed.turns, posed.root


def _values(of: Task, weighed_steps: int) -> Generator[tuple[int, int], None, np.ndarray]:
    """(F, 31) the unknowns of the least value."""
    values = np.zeros((len(of.root), SIZE))
    pins, steps = of.weights.pins, of.weights.pins + weighed_steps
    state, carried = _state(of, values, False), None
    for step in range(steps):
        yield step, steps
        weighed = step >= pins
        if step == pins:
            carried = _carried(_state(of, values, True), of.fps)
            state = _state(of, values, True, carried)
        chosen = _pins(of, state, step == 0)
        change = _system(of, state, chosen).step()
        before, robust, size = _value(of, state, chosen, state.robust), state.robust, 1.0
        for _ in range(TRIES):
            new = _state(of, values + size * change, weighed, carried)
            after = _value(of, new, chosen, robust)
            if after < before:
                values, state = values + size * change, new
                break
            size *= SHORTER
        if step > pins and before - after < ENOUGH * before:
            break
    return values
