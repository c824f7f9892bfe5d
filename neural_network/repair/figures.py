# SPDX-License-Identifier: GPL-3.0-or-later
"""Every figure of the repairs, on takes of subjects that no training saw, beside the plain methods on the same corruptions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core import metrics, rotations
from ..core.contacts import foot_points
from ..core.skeleton import Skeleton
from ..ik.foot_pins import forward
from ..learning.card import Figure
from ..motion.pose_set import PoseSet
from . import contacts, corruption, draws, fixing, plain
from .correction import RATE, applied
from .corruption import KINDS, MIX
from .draws import Take
from .network import Network

WALKS, ACROBATICS = ("07", "16"), ("49",)
"""Subjects of the splits W and A."""
FIX, CLEAN = "Fix Feet", "Clean"
PIN, GAUSS, ORACLE = "pin only", "Gaussian + least squares + pin", "the same with true contacts"
ALONE, PINNED = "convolution alone", "convolution + pin"
PLAIN = (PIN, GAUSS)
"""What a sober person would try first; the true contacts are known to nobody."""
SMOOTH, ROOTED = "Gaussian", "Gaussian + least squares"
GATES = {"gate always 1": 1.0, "gate always 0": 0.0, "learned gate": None}

SAME = 0.1  # [mm] what differs by less is the same

Motion = tuple[np.ndarray, np.ndarray]
Method = Callable[[np.ndarray, np.ndarray, np.ndarray], Motion]
"""Repairs turns and root; the true contacts are for the oracle alone."""


@dataclass
class Scores:
    """What motions score beside the clean ones, over all takes and draws."""

    heads: list[np.ndarray] = field(default_factory=list)
    points: list[np.ndarray] = field(default_factory=list)

    def add(self, skeleton: Skeleton, motion: Motion) -> None:
        """One more clip."""
        turned, heads = forward(skeleton, *motion)
        self.heads.append(heads)
        self.points.append(foot_points(skeleton, turned, heads))


@dataclass(frozen=True)
class Truth:
    """The clean clips that corrupted ones came from."""

    scores: Scores
    contact: list[np.ndarray]

    def measured(self, of: Scores) -> dict[str, float]:
        """slide [mm a frame], float, penetration [mm], jerk [times the clean clip's], local and global [mm]."""
        clip = np.concatenate([np.full(len(heads), i) for i, heads in enumerate(of.heads)])
        heads, points = np.concatenate(of.heads), np.concatenate(of.points)
        clean, contact = np.concatenate(self.scores.heads), np.concatenate(self.contact)
        return {
            "slide": metrics.slide(points, contact, clip),
            "float": float(metrics.floating(points, contact).mean()),
            "penetration": float(metrics.penetration(points).mean()),
            "jerk": metrics.jerk(heads, RATE, clip) / metrics.jerk(clean, RATE, clip),
            "local": metrics.mpjpe_local(heads, clean),
            "global": metrics.mpjpe_global(heads, clean, clip),
        }


def compared(
    skeleton: Skeleton, takes: Sequence[Take], kind: str, methods: Mapping[str, Method], seed: int, count: int
) -> tuple[dict[str, dict[str, float]], int]:
    """Measures by method, with "input" and "clean", of every take corrupted ``count`` times; and how many frames."""
    truth = Truth(Scores(), [])
    scores = {name: Scores() for name in ("input", *methods)}
    still = [skeleton.names.index(name) for name in draws.COLLARS]
    for i, take in enumerate(takes):
        stands = draws.true_contacts(skeleton, take.turns, take.root)
        for k in range(count):
            rng = np.random.default_rng([seed, i, k])
            bad = corruption.corrupt(take.turns, take.root, corruption.drawn(kind, rng), rng, still)
            truth.scores.add(skeleton, (take.turns, take.root))
            truth.contact.append(stands)
            scores["input"].add(skeleton, bad)
            for name, method in methods.items():
                scores[name].add(skeleton, method(*bad, stands))
    found = {name: truth.measured(of) for name, of in scores.items()}
    return {**found, "clean": truth.measured(truth.scores)}, sum(len(c) for c in truth.contact)


def methods_of(skeleton: Skeleton, networks: Mapping[str, Network]) -> dict[str, Method]:
    """What is compared for Fix Feet."""
    net = networks["convolution"]

    def learned(turns: np.ndarray, root: np.ndarray, pins: bool) -> Motion:
        said = net.say(skeleton, turns, root)
        made = applied(said.correction, turns, root)
        return plain.pinned(skeleton, *made, RATE, contacts.decided(said.contact, RATE)) if pins else made

    def fixed(turns: np.ndarray, root: np.ndarray) -> Motion:
        done = fixing.repair(skeleton, turns, root, RATE, net)
        return done.turns, done.root

    return {
        PIN: lambda t, r, c: plain.pinned(skeleton, t, r, RATE),
        GAUSS: lambda t, r, c: plain.analytic(skeleton, t, r, RATE),
        ORACLE: lambda t, r, c: plain.analytic(skeleton, t, r, RATE, c),
        ALONE: lambda t, r, c: learned(t, r, False),
        PINNED: lambda t, r, c: learned(t, r, True),
        FIX: lambda t, r, c: fixed(t, r),
    }


def rivals_of(skeleton: Skeleton, networks: Mapping[str, Network]) -> dict[str, Method]:
    """The networks that the convolution is compared with: a GRU, and the gated state-space network with its gate set or not."""
    out: dict[str, Method] = {}

    def said(name: str, always: float | None) -> Method:
        def method(turns: np.ndarray, root: np.ndarray, contact: np.ndarray) -> Motion:
            return applied(networks[name].say(skeleton, turns, root, always).correction, turns, root)

        return method

    if "gru" in networks:
        out["GRU alone"] = said("gru", None)
    if "gated" in networks:
        out.update({name: said("gated", always) for name, always in GATES.items()})
    return out


def measured(networks: Mapping[str, Network], poses: PoseSet, seed: int, count: int) -> Iterator[Figure]:
    """Every figure; ValueError where nobody held out is in ``poses``."""
    skeleton, takes = draws.takes_of(poses)
    takes = [t for t in takes if len(t.root) >= draws.FEWEST]
    walks = [t for t in takes if t.subject in WALKS]
    others = [t for t in takes if t.subject in ACROBATICS]
    if not walks:
        raise ValueError(f"--data: expected takes of subjects {' and '.join(WALKS)}; clips are named SUBJECT_TAKE")
    methods = methods_of(skeleton, networks)
    more = rivals_of(skeleton, networks)
    found, frames = compared(skeleton, walks, MIX, {**methods, **more}, seed, count)
    yield from _mix(found, frames)
    yield from _gate(found, frames, more)
    if others:
        found, frames = compared(skeleton, others, MIX, methods, seed, 1)
        yield from _no_worse("A, mix", found, frames, FIX, PLAIN, ("slide", "local", "global"))
    for kind in KINDS:
        found, frames = compared(skeleton, walks, kind, methods, seed, count)
        yield from _no_worse(f"{kind} alone", found, frames, FIX, PLAIN, ("slide", "local", "global"))
    yield from _cleaning(skeleton, walks, networks["convolution"], seed, count)
    for name, group in (("W", walks), ("A", others)):
        if group:
            yield from _unchanged(name, skeleton, group, networks["convolution"])
            yield from _contacts(name, skeleton, group, networks["convolution"], seed, count)
    yield _time(skeleton, walks, networks["convolution"])


def _rivals(found: Mapping[str, Mapping[str, float]], measure: str, own: str) -> dict[str, float]:
    return {name: values[measure] for name, values in found.items() if name != own}


UNITS = {"slide": "mm a frame", "float": "mm", "penetration": "mm", "jerk": "times", "local": "mm", "global": "mm"}
WORDS = {"local": "MPJPE local", "global": "MPJPE global"}


def _mix(found: dict[str, dict[str, float]], frames: int) -> Iterator[Figure]:
    own, given, clean = found[FIX], found["input"], found["clean"]
    bars = {
        "slide": 1.2 * clean["slide"],
        "penetration": 0.01 * given["penetration"],
        "float": 2.0,
        "local": 0.55 * given["local"],
        "global": 0.5 * given["global"],
    }
    for measure, bar in bars.items():
        name = f"mix: {WORDS.get(measure, measure)}"
        yield Figure(name, own[measure], UNITS[measure], "lower", frames, bar, None, _rivals(found, measure, FIX))
    rivals = _rivals(found, "jerk", FIX)
    yield Figure("mix: jerk, not more", own["jerk"], "times", "lower", frames, 1.2, None, rivals)
    yield Figure("mix: jerk, not less", own["jerk"], "times", "higher", frames, 0.8, None, rivals)


def _gate(found: dict[str, dict[str, float]], frames: int, more: Mapping[str, Method]) -> Iterator[Figure]:
    if "learned gate" not in more:
        return
    rows = (*(name for name in GATES if name != "learned gate"), GAUSS, PINNED)
    for measure, unit in UNITS.items():
        rivals = {name: found[name][measure] for name in rows}
        yield Figure(
            f"learned gate: {WORDS.get(measure, measure)}", found["learned gate"][measure], unit, "lower", frames, None, None, rivals
        )  # fmt: skip


def _no_worse(
    what: str, found: dict[str, dict[str, float]], frames: int, own: str, plains: Sequence[str], of: Sequence[str]
) -> Iterator[Figure]:
    for measure in of:
        bar = max(min(found[name][measure] for name in plains), SAME)
        if measure == "slide":
            bar = max(bar, 1.2 * found["clean"]["slide"])  # feet that stand as those of clean motion are no worse
        name = f"{what}: {WORDS.get(measure, measure)}"
        yield Figure(
            name, found[own][measure], UNITS[measure], "lower", frames, bar, None, _rivals(found, measure, own)
        )


def _cleaning(skeleton: Skeleton, takes: Sequence[Take], net: Network, seed: int, count: int) -> Iterator[Figure]:
    def smooth(turns: np.ndarray, root: np.ndarray, contact: np.ndarray) -> Motion:
        return corruption.smoothed(turns, root, plain.WIDTH)

    def cleaned(turns: np.ndarray, root: np.ndarray, contact: np.ndarray) -> Motion:
        done = fixing.repair(skeleton, turns, root, RATE, net, pins=False)
        return done.turns, done.root

    methods: dict[str, Method] = {
        SMOOTH: smooth,
        ROOTED: lambda t, r, c: plain.analytic(skeleton, t, r, RATE, pins=False),
        CLEAN: cleaned,
    }
    for kind in ("noise", "drop", "drift"):
        found, frames = compared(skeleton, takes, kind, methods, seed, count)
        yield from _no_worse(
            f"Clean, {kind} alone", found, frames, CLEAN, ("input", SMOOTH, ROOTED), ("local", "global")
        )


def _unchanged(name: str, skeleton: Skeleton, takes: Sequence[Take], net: Network) -> Iterator[Figure]:
    away, turned, kept = [], [], 0
    for take in takes:
        done = fixing.repair(skeleton, take.turns, take.root, RATE, net)
        (a, heads), (b, truth) = (forward(skeleton, *m) for m in ((done.turns, done.root), (take.turns, take.root)))
        away.append(np.linalg.norm(heads - truth, axis=-1).ravel() * 1000)
        turned.append(np.degrees(rotations.geodesic_angle(a, b)).ravel())
        kept += done.judged.sound
    off = np.concatenate(away)
    n = len(off) // skeleton.count
    shares = {"takes that come back as they were": kept / len(takes)}
    yield Figure(f"{name}, clean input: moved by, mean", float(off.mean()), "mm", "lower", n, 2.0, None, shares)
    yield Figure(f"{name}, clean input: moved by, p99", float(np.percentile(off, 99)), "mm", "lower", n, 10.0)
    yield Figure(f"{name}, clean input: turned by, mean", float(np.concatenate(turned).mean()), "deg", "lower", n, 1.0)


def f1(truth: np.ndarray, found: np.ndarray) -> float:
    """F1 of flags: twice the hits over all flags of both."""
    return float(2 * (truth & found).sum() / max(truth.sum() + found.sum(), 1))


def _contacts(
    name: str, skeleton: Skeleton, takes: Sequence[Take], net: Network, seed: int, count: int
) -> Iterator[Figure]:
    truth: list[np.ndarray] = []
    found: dict[str, list[np.ndarray]] = {"learned": [], "rule": [], "Gaussian + rule": []}
    clean = []
    still = [skeleton.names.index(bone) for bone in draws.COLLARS]
    for i, take in enumerate(takes):
        stands = draws.true_contacts(skeleton, take.turns, take.root)
        clean.append(net.contacts(skeleton, take.turns, take.root))
        for k in range(count):
            rng = np.random.default_rng([seed, i, k])
            bad = corruption.corrupt(take.turns, take.root, corruption.drawn(MIX, rng), rng, still)
            truth.append(stands)
            found["learned"].append(net.contacts(skeleton, *bad))
            found["rule"].append(contacts.by_rule(skeleton, *bad, RATE))
            found["Gaussian + rule"].append(contacts.by_rule(skeleton, *corruption.smoothed(*bad, plain.WIDTH), RATE))
    scores = {key: f1(np.concatenate(truth), np.concatenate(values)) for key, values in found.items()}
    own, n = scores.pop("learned"), sum(len(t) for t in truth)
    scores["learned, clean input"] = f1(np.concatenate(truth[::count]), np.concatenate(clean))
    yield Figure(f"{name}, mix: contacts, F1", own, "share", "higher", n, 0.94 if name == "W" else None, None, scores)


def _time(skeleton: Skeleton, takes: Sequence[Take], net: Network) -> Figure:
    turns, root = (np.concatenate([getattr(t, key) for t in takes])[:300] for key in ("turns", "root"))
    spoilt = corruption.corrupt(turns, root, KINDS, np.random.default_rng(0))
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        fixing.repair(skeleton, *spoilt, RATE, net)
        spent.append(time.perf_counter() - began)
    return Figure("300 frames", min(spent), "s", "lower", 300, 0.5)


WHY: dict[str, tuple[str, str]] = {
    "mix": (
        "windows drawn on a GPU, other lengths and postures, walks of the gait engine, dropout; the root by standing feet",
        "slow noise looks like motion; on left-out subjects nothing gains after 700 steps: more subjects are missing",
    ),
    "A, mix": (
        "plain methods where motion is unlike what was learned from",
        "contacts found in acrobatics are wrong more often",
    ),
    "drift alone": (
        "the root is changed where the network believes in it, sooner where standing feet slide",
        "small drifts are judged sound",
    ),
    "speed alone": ("as for drift", "small changes of speed are judged sound"),
    "noise alone": ("a root is changed only where the network is surer", "trembling feet look as if they drifted"),
    "Clean, noise alone": ("as for noise", "trembling feet look as if they drifted"),
    "Clean, drift alone": ("as for drift", "drift is sometimes taken for noise, and poses are touched"),
    "W, clean input": ("a limit of slides that grows with speed", "one run is repaired"),
    "W, mix": (
        "a GRU of its own for contacts, other thresholds, means of networks, a second pass",
        "it learns the subjects it sees: its loss on others rises from the start",
    ),
}
"""What was tried for a figure that misses its bar, and what holds it back, by the word before the colon."""
