# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of prediction: Fill and Continue on takes of subjects that nothing was learned from, beside plain rivals.

Made motion is judged from outside, by forward kinematics and the contacts of the true takes (:func:`.contacts.truth_contacts`).
The library holds other subjects' takes alone. :func:`measured` yields one figure after the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core import contacts, metrics
from ..core import forward_kinematics as fk
from ..core.skeleton import Skeleton
from ..learning.card import Figure, ci95
from ..motion import features
from . import continuing, filling, gaps, library, material, nearest
from .gaps import HISTORY, Gaps
from .library import FPS, Library, Take
from .network import Network
from .predictor import Predictor

GAPS = (15, 30, 60)
"""Frames from the last known frame to the key."""
OVER_SLERP = {15: 0.29, 30: 0.26}
OVER_NEAREST = {15: 0.75, 30: 0.68, 60: 0.75}
AHEAD = (1, 10, 30, 60)
LONG = 500
EVERY = 5  # frames between the starts of gaps in a take
LONG_EVERY = 30  # of long runs
ALIVE = 0.5  # share of the true spread of poses above which somebody who walks is alive
AT_ONCE = 128
PARTS = ("library or straight", "network alone")  # of our answer: shown beside it, no rivals


@dataclass(frozen=True)
class Split:
    """Subjects whose takes are judged on, and what they are called."""

    name: str
    takes: tuple[Take, ...]


@dataclass(frozen=True)
class Seen:
    """A motion from outside."""

    heads: np.ndarray
    """(F, J, 3)"""
    points: np.ndarray
    """(F, feet, 3, 3) heel, ball and tip."""
    contact: np.ndarray
    """(F, feet) by the truth rule."""


def look(body: Skeleton, turns: np.ndarray, root: np.ndarray) -> Seen:
    """Look at a motion in core axes."""
    turned, heads = fk.walk(body.parents, turns, body.offsets, root)
    feet, toes = list(body.feet), list(body.toes)
    contact = contacts.truth_contacts(heads[:, feet], heads[:, toes], body.foot_rest - body.floor)
    return Seen(heads, contacts.foot_points(body, turned, heads), contact)


def measured(
    body: Skeleton,
    takes: Sequence[Take],
    network: Network | None,
    splits: dict[str, tuple[str, ...]],
    seed: int = 0,
    steps: Predictor | None = None,
) -> Iterator[Figure]:
    """Every figure; ``splits`` names the subjects of each split, the first of which has bars."""
    held = [subject for subjects in splits.values() for subject in subjects]
    own = library.of_takes(body, material.without(takes, held))
    for number, (name, subjects) in enumerate(splits.items()):
        split = Split(name, tuple(material.of(takes, subjects)))
        if not split.takes:
            continue
        yield from fill_figures(own, split, network, number == 0, seed)
        yield from ahead_figures(own, split, steps, number == 0, seed)
        if number == 0:
            yield from long_figures(own, split, steps)
            yield from cycle_figures(own, split, steps)
            yield from own_figures(body, split)
            yield time_figure(own, split, network)


# ---------------------------------------------------------------- fill


@dataclass(frozen=True)
class Cut:
    """Gaps of one shape cut out of takes."""

    gaps: Gaps
    take: np.ndarray
    """(G) number of the take."""


def cut(split: Split, length: int, after: int = 1, every: int = EVERY) -> Cut | None:
    """Gaps of ``length`` from every so many frames of the takes, with ten frames known before; None where no take is as long."""
    missing = length - 1 if after else length
    frames = HISTORY + missing + after
    turns, root, of = [], [], []
    for number, take in enumerate(split.takes):
        for first in range(0, len(take.root) - frames + 1, every):
            rows = slice(first, first + frames)
            turns.append(take.turns[rows])
            root.append(take.root[rows])
            of.append(number)
    return Cut(Gaps(np.array(turns), np.array(root), HISTORY, after), np.array(of)) if turns else None


def answers(own: Library, true: Gaps, network: Network | None) -> dict[str, np.ndarray]:
    """Rows (G, F, R) of our answer ("ours", feet not held) and of the plain rivals, for gaps seen from their last known frame."""
    out: dict[str, list[np.ndarray]] = {}
    for first in range(0, len(true.root), AT_ONCE):
        some = Gaps(true.turns[first : first + AT_ONCE], true.root[first : first + AT_ONCE], true.before, true.after)
        guide = gaps.guides(own, some)
        found = {
            "slerp" if true.after else "hold the pose": guide.straight,
            "nearest window, ends blended": plain_nearest(own, some),
            "nearest window, bent": guide.best,
            f"{gaps.GUIDES} nearest, averaged": guide.mean,
            "library or straight": guide.first,
        }
        found["ours"] = guide.first
        if network is not None and true.after:
            found["network alone"] = network.answered(own.body, some, guide.straight)[0]
            found["ours"] = network.mixed(own.body, some, guide)[0]
        for name, rows in found.items():
            out.setdefault(name, []).append(rows)
    return {name: np.concatenate(parts) for name, parts in out.items()}


def plain_nearest(own: Library, some: Gaps) -> np.ndarray:
    """Rows (G, F, R) of the rival that needs little thought: the one window that is nearest, at its own rate, its ends blended
    linearly onto what is known."""
    a, n, leg = some.before - 1, some.length, own.body.leg_length
    out = features.to_rows(some.turns, some.root, leg)
    guide = gaps.guides(own, some, stretches=(1.0,), most=1)
    window = guide.windows[0]
    frames = n if some.after else n - 1
    if some.after:
        turns, root = nearest.play(own, window, n)
    else:
        turns, root = nearest.assembled(own, nearest.go_on(own, window.begin, frames))
    rows = features.to_rows(turns, root, leg)
    share = np.arange(frames + 1)[:, None] / frames
    if some.after:
        rows += (1 - share) * (out[:, a] - rows[:, 0])[:, None] + share * (out[:, a + n] - rows[:, -1])[:, None]
    else:
        fading = np.maximum(0, 1 - np.arange(frames + 1) / 10)[:, None]
        rows += fading * (out[:, a] - rows[:, 0])[:, None]
    usable = np.isfinite(window.cost)[:, None, None]
    out[:, a + 1 : a + n] = np.where(usable, rows[:, 1 : a + n - a], guide.straight[:, a + 1 : a + n])
    return out


def fill_figures(own: Library, split: Split, network: Network | None, barred: bool, seed: int) -> Iterator[Figure]:
    """L2P of gaps of each length, skate and whether keys stay."""
    body = own.body
    rng = np.random.default_rng([seed, 3])
    for length in GAPS:
        found = cut(split, length)
        if found is None:
            continue
        true, _ = gaps.local(found.gaps)
        rows = answers(own, true, network)
        errors = {name: off(body, values, true)[:, ~true.known].mean(axis=1) for name, values in rows.items()}
        means = {name: float(values.mean()) for name, values in errors.items()}
        ours, count = means.pop("ours"), len(found.take)
        label = f"{split.name}: fill {length} frames"
        bar = None if barred else min(value for name, value in means.items() if name not in PARTS)
        yield Figure(f"{label}, L2P", ours, "mm", "lower", count, bar, ci95(errors["ours"], found.take, rng), means)
        if barred:
            for rival, bars in (("slerp", OVER_SLERP), ("nearest window, ends blended", OVER_NEAREST)):
                if length in bars:
                    word = rival.split(",")[0]
                    yield Figure(f"{label}, L2P over {word}", ours / means[rival], "1", "lower", count, bars[length])
        yield from _held_figures(own, split, network, length, label, barred)


def off(body: Skeleton, rows: np.ndarray, true: Gaps) -> np.ndarray:
    """(G, F) [mm] mean distance of all heads of rows (G, F, R) from the true ones."""
    turns, root = features.from_rows(np.asarray(rows, float), body.leg_length)
    found = fk.walk(body.parents, turns, body.offsets, root)[1]
    heads = fk.walk(body.parents, true.turns, body.offsets, true.root)[1]
    return np.asarray(np.linalg.norm(found - heads, axis=-1).mean(axis=-1) * metrics.MM)


def _held_figures(
    own: Library, split: Split, network: Network | None, length: int, label: str, barred: bool
) -> Iterator[Figure]:
    """What Fill itself gives, feet held: skate over the clean take's, and keys."""
    slides: list[np.ndarray] = []
    clean: list[np.ndarray] = []
    off, same, count = 0.0, 0, 0
    for take in split.takes:
        for first in range(0, len(take.root) - HISTORY - length + 1, 3 * EVERY):
            rows = slice(first, first + HISTORY + length)
            turns, root = take.turns[rows], take.root[rows]
            keys = [*range(HISTORY), HISTORY + length - 1]
            made = filling.fill(own.body, turns, root, keys, own, network=network)
            before, after = look(own.body, turns, root), look(own.body, made.turns, made.root)
            slides.append(metrics.slides(after.points, before.contact))
            clean.append(metrics.slides(before.points, before.contact))
            off = max(off, float(np.linalg.norm((after.heads - before.heads)[keys], axis=-1).max()) * metrics.MM)
            same += int(np.array_equal(made.turns[keys], turns[keys]) and np.array_equal(made.root[keys], root[keys]))
            count += 1
    if not count:
        return
    ratio = float(np.concatenate(slides).mean() / np.concatenate(clean).mean())
    yield Figure(
        f"{label}, skate over the clean take's, feet held", ratio, "1", "lower", count, 1.5 if barred else None
    )
    yield Figure(f"{label}, farthest head at keys", off, "mm", "lower", count, 0.1)
    yield Figure(f"{label}, keys the same to the byte", same / count, "share", "higher", count, 1.0)


# ---------------------------------------------------------------- continue


def ahead_figures(own: Library, split: Split, steps: Predictor | None, barred: bool, seed: int) -> Iterator[Figure]:
    """MPJPE (Hips' head at the origin) and global error after each number of frames."""
    found = cut(split, max(AHEAD), 0)
    if found is None:
        return
    curves = growth(own, found, steps)
    del curves["captured"]
    count, label = len(found.take), f"{split.name}: continue"
    rng = np.random.default_rng([seed, 5])
    for frame in AHEAD:
        means = {name: float(values[0][:, frame - 1].mean()) for name, values in curves.items()}
        own_values = curves["ours"][0][:, frame - 1]
        value = means.pop("ours")
        bar = None if barred else min(means.values())
        interval = ci95(own_values, found.take, rng)
        yield Figure(f"{label}, MPJPE after {frame}", value, "mm", "lower", count, bar, interval, means)
    far = {name: float(values[1][:, -1].mean()) for name, values in curves.items()}
    yield Figure(f"{label}, global error after 60", far.pop("ours"), "mm", "lower", count, None, None, far)
    whole = {name: float(values[0].mean()) for name, values in curves.items()}
    last = {name: float(values[0][:, -1].mean()) for name, values in curves.items()}
    first = {name: float(np.sqrt((values[0][:, 0] ** 2).mean())) for name, values in curves.items()}
    rmse = {name: float(np.sqrt((values[0][:, -1] ** 2).mean())) / first[name] for name, values in curves.items()}
    if barred:
        held, near = "hold the pose", "nearest window, ends blended"
        yield Figure(f"{label}, MPJPE after 60 over hold", last["ours"] / last[held], "1", "lower", count, 0.64)
        name = f"{label}, mean MPJPE of 1 to 60 over nearest"
        yield Figure(name, whole["ours"] / whole[near], "1", "lower", count, 0.9)
    name = f"{label}, RMSE after 60 over RMSE after 1 (holding still passes it)"
    yield Figure(name, rmse.pop("ours"), "1", "lower", count, None, None, rmse)


def growth(
    own: Library, found: Cut, steps: Predictor | None = None
) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """By method, and for the true takes ("captured"): local and global errors (G, frames) [mm] of every frame that was made, and the
    speed (G, frames) [m/s] of the Hips along the ground."""
    true, _ = gaps.local(found.gaps)
    body = own.body
    heads = fk.walk(body.parents, true.turns, body.offsets, true.root)[1][:, ~true.known]
    last = true.root[:, true.before - 1]
    rows = answers(own, true, None)
    frames, known = heads.shape[1], slice(0, true.before)
    gone_on = [
        continuing.continue_(body, turns[known], root[known], frames, own, steps=steps)
        for turns, root in zip(true.turns, true.root, strict=True)
    ]
    rows["ours"] = rows["ours"].copy()
    new = np.array([one.turns for one in gone_on]), np.array([one.root for one in gone_on])
    rows["ours"][:, ~true.known] = features.to_rows(*new, body.leg_length)
    poses = features.to_rows(own.turns[::10].astype(float), own.root[::10].astype(float), body.leg_length)
    rows["mean pose"] = rows["hold the pose"].copy()
    rows["mean pose"][..., 3:] = poses[:, 3:].mean(axis=0)
    out = {}
    for name, values in rows.items():
        turns, root = features.from_rows(np.asarray(values[:, ~true.known], float), body.leg_length)
        made = fk.walk(body.parents, turns, body.offsets, root)[1]
        local = (made - made[:, :, :1]) - (heads - heads[:, :, :1])
        out[name] = (
            np.linalg.norm(local[:, :, 1:], axis=-1).mean(axis=-1) * metrics.MM,
            np.linalg.norm(made - heads, axis=-1).mean(axis=-1) * metrics.MM,
            _speeds(made[:, :, 0], last),
        )
    nothing = np.zeros(heads.shape[:2])
    return {**out, "captured": (nothing, nothing, _speeds(heads[:, :, 0], last))}


def _speeds(root: np.ndarray, last: np.ndarray) -> np.ndarray:
    """(G, F) [m/s] along the ground of Hips' heads (G, F, 3) that come after ``last`` (G, 3)."""
    steps = np.diff(np.concatenate([last[:, None], root], axis=1)[..., :2], axis=1)
    return np.asarray(np.linalg.norm(steps, axis=-1) * FPS)


def long_figures(own: Library, split: Split, steps: Predictor | None) -> Iterator[Figure]:
    """500 frames from every start: alive, at the take's own speed, with feet that stand."""
    alive, ratios, slides, clean, count = [], [], [], [], 0
    for take in split.takes:
        whole = look(own.body, take.turns, take.root)
        spread, speed = _spread(whole.heads), _speed(take.root)
        clean.append(metrics.slides(whole.points, whole.contact))
        for last in range(HISTORY, len(take.root), LONG_EVERY):
            rows = slice(last - HISTORY, last)
            made = continuing.continue_(own.body, take.turns[rows], take.root[rows], LONG, own, steps=steps)
            seen = look(own.body, made.turns, made.root)
            alive.append(min(_spread(seen.heads), _spread(seen.heads[-100:])) > ALIVE * spread)
            ratios.append(_speed(made.root) / speed)
            slides.append(metrics.slides(seen.points, seen.contact))
            count += 1
    label = f"{split.name}: {LONG} frames from every start"
    yield Figure(f"{label}, alive", float(np.mean(alive)), "share", "higher", count, 1.0)
    off = abs(float(np.mean(ratios)) - 1)
    yield Figure(f"{label}, mean speed off the takes' own", off, "1", "lower", count, 0.1)
    within = float(np.mean(np.abs(np.array(ratios) - 1) <= 0.1))
    yield Figure(f"{label}, starts within 10 % of their take's speed", within, "share", "higher", count, 1.0)
    ratio = float(np.concatenate(slides).mean() / np.concatenate(clean).mean())
    yield Figure(f"{label}, skate over clean", ratio, "1", "lower", count, 1.2)


def cycle_figures(own: Library, split: Split, steps: Predictor | None) -> Iterator[Figure]:
    """Free cycles: ten seconds of walking from one, without any input."""
    alive, speeds, paces = [], [], []
    for take in split.takes:
        if len(take.root) < FPS + 2:
            continue
        second = slice(0, int(FPS))
        made = continuing.continue_(own.body, take.turns[second], take.root[second], int(10 * FPS), own, steps=steps)
        seen, whole = look(own.body, made.turns, made.root), look(own.body, take.turns, take.root)
        alive.append(_spread(seen.heads[-60:]) > ALIVE * _spread(whole.heads))
        speeds.append(_speed(made.root) / _speed(take.root))
        paces.append(strides(own.body, seen.heads) / 10)
    label = f"{split.name}: free cycles, ten seconds from one"
    yield Figure(f"{label}, still walking in the last two", float(np.mean(alive)), "share", "higher", len(alive), 1.0)
    yield Figure(
        f"{label}, mean speed off the takes' own", abs(float(np.mean(speeds)) - 1), "1", "lower", len(alive), 0.1
    )
    yield Figure(f"{label}, strides a second", float(np.mean(paces)), "1/s", "higher", len(alive))


def strides(body: Skeleton, heads: np.ndarray) -> int:
    """How often the left foot comes to the front of the right one."""
    left, right = body.feet[0], body.feet[1]
    ahead = np.zeros((len(heads), 3))
    ahead[:-1] = np.diff(heads[:, 0], axis=0)
    ahead[-1] = ahead[-2]
    between = np.einsum("fc,fc->f", (heads[:, left] - heads[:, right])[:, :2], ahead[:, :2])
    return int(np.sum((between[1:] > 0) & (between[:-1] <= 0)))


def own_figures(body: Skeleton, split: Split) -> Iterator[Figure]:
    """Ten takes of one subject as the whole library, nothing trained: Fill on the others."""
    for subject in sorted({material.subject_of(take.name) for take in split.takes}):
        takes = material.of(split.takes, (subject,))
        if len(takes) < 11:
            continue
        few = library.of_takes(body, takes[:10])
        found = cut(Split(subject, tuple(takes[10:])), 30)
        if found is None:
            continue
        true, _ = gaps.local(found.gaps)
        rows = answers(few, true, None)
        means = {name: float(off(body, values, true)[:, ~true.known].mean()) for name, values in rows.items()}
        name = f"own character: fill 30 frames of other takes of {subject} from ten, L2P over slerp"
        yield Figure(name, means["ours"] / means["slerp"], "1", "lower", len(found.take), 0.5)


def time_figure(own: Library, split: Split, network: Network | None) -> Figure:
    """Seconds that 300 frames take, filled between eleven keys."""
    take = max(split.takes, key=lambda one: len(one.root))
    rows = np.resize(np.r_[np.arange(len(take.root)), np.arange(len(take.root))[::-1]], 301)
    turns, root = take.turns[rows], take.root[rows]
    keys = np.arange(0, 301, 30)
    filling.fill(own.body, turns[:31], root[:31], [0, 30], own, network=network)
    spent = []
    for _ in range(3):  # the quickest counts: other programs only make it slower
        began = time.perf_counter()
        filling.fill(own.body, turns, root, keys, own, network=network)
        spent.append(time.perf_counter() - began)
    return Figure("300 frames filled between eleven keys", min(spent), "s", "lower", 3, 0.5)


def _spread(heads: np.ndarray) -> float:
    """How much poses differ [m]: mean deviation of all heads, the Hips' head at the origin."""
    return float((heads - heads[:, :1]).std(axis=0).mean())


def _speed(root: np.ndarray) -> float:
    """Mean speed along the ground [m/s]."""
    return float(np.linalg.norm(np.diff(root[:, :2], axis=0), axis=1).mean() * FPS)
