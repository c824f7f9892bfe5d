# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of gaits: what the network's walks are measured by, from outside, beside plain rivals.

Everything is measured on motion that :mod:`.walks` made of the network's poses, by forward kinematics and the contacts of the
truth rule. :func:`measured` yields one figure after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import contacts, metrics, rotations
from ..core.skeleton import Skeleton
from ..ik import foot_pins
from ..learning.card import Figure
from . import cycles, draws, judging, normals, parameters, styles, teacher, walks
from .judging import Held
from .network import Gait
from .parameters import get
from .representation import CYCLE
from .task import Samples
from .teacher import KinematicTeacher
from .walks import Walk

FPS = 30.0
SPEEDS = (0.8, 1.2, 1.6)  # [m/s] at which styles are judged
GRID = ((0.45, 0.6, 0.75, 0.9, 1.0), (1.1, 1.5, 1.9, 2.2))  # [m], [steps/s]
RUN_GRID = (2.0, 2.5, 3.0, 3.5, 4.0)  # [m/s]
RIGS = tuple((t, s) for t in (0.8, 0.93, 1.07, 1.2) for s in (0.8, 1.0, 1.2))
CLEAN_SLIDE = 1.9
"""[mm a frame] of 22 captured walks of subjects 16 and 35, to compare with where no captured motion is at hand."""


@dataclass(frozen=True)
class Seen:
    """What is seen of a walk from outside."""

    points: np.ndarray
    """(F, 2, 3, 3) heel, ball and tip of each foot."""
    contact: np.ndarray
    """(F, 2) feet that stand."""
    heads: np.ndarray
    """(F, J, 3)"""


def look(rig: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float = FPS) -> Seen:
    """Look at motion in local core rotations (F, J, 3, 3) and the Hips' heads (F, 3) [m]."""
    turned, heads = foot_pins.forward(rig, turns, root)
    feet, toes = list(rig.feet), list(rig.toes)
    contact = contacts.truth_contacts(heads[:, feet], heads[:, toes], rig.foot_rest, fps=fps)
    return Seen(contacts.foot_points(rig, turned, heads), contact, heads)


def walked(gait: walks.Source, values: np.ndarray, count: float = 4, fps: float = FPS) -> tuple[Skeleton, Walk]:
    """``count`` cycles of a walk on the parameters' body."""
    frames = max(4, round(count * float(parameters.cycle_seconds(values)) * fps))
    return teacher.body(values), walks.walk(gait, values, frames, fps)


def measured(gait: Gait, cycles_held: int, seed: int) -> Iterator[Figure]:
    """Every figure that needs no captured motion, one after the other."""
    who = KinematicTeacher(gait.model)
    held = judging.held_out(who, cycles_held)
    values = draws.draw(np.random.default_rng([seed, 17]), 250)
    samples = Samples(np.stack([who.motion(v)[:CYCLE] for v in values]).astype(np.float32), values.astype(np.float32))
    yield from judging.distilled(gait, held, samples, seed)
    yield from style_figures(gait, who)
    yield from speed_figures(gait)
    yield from normal_figures(gait)
    yield from feet_figures(gait)
    yield from bumpy_figures(gait)
    yield from proportion_figures(gait)
    yield from time_figures(gait, who, held)
    yield monotone(gait)


# ---------------------------------------------------------------- styles


def style_figures(gait: Gait, who: KinematicTeacher) -> Iterator[Figure]:
    """How far styles are from the teacher's, and how many have their sign."""
    errors, reached, missed = [], 0, []
    for speed in SPEEDS:
        for name in parameters.STYLES:
            pace = 1.7 * speed if name == "run" else speed
            values = parameters.vector({"speed": pace}, style={name: 1.0})
            healthy = parameters.vector({"speed": pace, "run": 0.0})
            truth = Held(values[None], who.motion(values)[None, :CYCLE])
            errors.append(judging.leg_errors(truth.motions, judging.predicted(gait, truth.values))[0])
            found, usual = (_signs_of(gait, v) for v in (values, healthy))
            rig = teacher.body(values)
            seconds = [float(parameters.cycle_seconds(v)) for v in (values, healthy)]
            value, bar, _ = styles.signs(rig, found, usual, seconds[0], seconds[1])[name]
            if value >= bar:
                reached += 1
            else:
                missed.append(f"{name} at {speed:g}")
    count = len(SPEEDS) * len(parameters.STYLES)
    yield Figure("styles: leg joints from the teacher", float(np.mean(errors)), "deg", "lower", count, 2.5)
    yield Figure("styles: worst from the teacher", float(np.max(errors)), "deg", "lower", count, 2.5)
    name = "styles: signs seen from outside" + (f" (missed: {', '.join(missed)})" if missed else "")
    yield Figure(name, float(reached), f"of {count}", "higher", count, float(count))


def _signs_of(gait: Gait, values: np.ndarray) -> dict[str, np.ndarray]:
    rig, walk = walked(gait, values, 10)
    return styles.look(rig, walk.turns, walk.root, FPS)


# ---------------------------------------------------------------- speed


def speed_figures(gait: Gait) -> Iterator[Figure]:
    """Commanded against measured speed, over the whole grid of step length and cadence, and for runs."""
    off, feet = [], []
    cases = [
        parameters.vector({"step_length": s, "cadence": c}) for s in GRID[0] for c in GRID[1] if 0.45 <= s * c <= 2.21
    ]
    cases += [parameters.vector({"speed": v}) for v in (0.45, 0.52, 0.88, 1.31, 1.71, 2.11, 2.2)]
    cases += [parameters.vector({"speed": v, "run": 1.0}) for v in RUN_GRID]
    worst_step = 0.0
    for values in cases:
        _, walk = walked(gait, values, 4, 60.0)
        commanded = float(parameters.speed(values))
        rig = teacher.body(values)
        found = cycles.cut_motion(rig, walk.turns, walk.root, 60.0)
        speeds = [c.measured.speed for c in found] or [0.0]
        off.append(abs(np.mean(speeds) / commanded - 1))
        feet.append(abs(_speed_of_feet(rig, walk, 60.0) - commanded))
        if found:
            steps = np.mean([c.measured.step_length for c in found]) / get(values, "step_length") - 1
            cadence = np.mean([c.measured.cadence for c in found]) / get(values, "cadence") - 1
            worst_step = max(worst_step, abs(float(steps)), abs(float(cadence)))
    count = len(cases)
    yield Figure("commanded speed: worst error", 100 * float(max(off)), "%", "lower", count, 3.0)
    yield Figure("commanded step length and cadence: worst error", 100 * worst_step, "%", "lower", count, 3.0)
    yield Figure("speed error from the standing feet", float(np.mean(feet)), "m/s", "lower", count, 0.02)


def _speed_of_feet(rig: Skeleton, walk: Walk, fps: float) -> float:
    """[m/s] by how far apart the places are where one foot stands, and by when it stands there."""
    points, found = look(rig, walk.turns, walk.root, fps).points, []
    for k in (0, 1):
        spans = contacts.runs(walk.contact[:, k])
        whole = [s for s in spans if s[0] > 0 and s[1] < len(walk.root)]
        if len(whole) < 2:
            continue
        heels = [points[(a + b) // 2, k, 1, :2] for a, b in whole]
        times = [(a + b) / 2 / fps for a, b in whole]
        found.append(float(np.linalg.norm(heels[-1] - heels[0])) / (times[-1] - times[0]))
    return float(np.mean(found)) if found else 0.0


# ---------------------------------------------------------------- published angles


def published(gait: walks.Source) -> tuple[np.ndarray, np.ndarray]:
    """(5, 3, 51) [deg] hip, knee and ankle flexion of walks at the five published speeds, and foot-offs (5)."""
    out, offs = [], []
    for pace in normals.SPEEDS:
        values = parameters.vector({"speed": float(pace * np.sqrt(parameters.GRAVITY * parameters.LEG))})
        rig, walk = walked(gait, values, 3, 100.0)
        left = np.diff(walk.contact[:, 0].astype(int))
        strikes = np.flatnonzero(left > 0) + 1
        lifts = np.flatnonzero(left < 0) + 1
        first, last = strikes[0], strikes[1]
        offs.append((lifts[lifts > first][0] - first) / (last - first))
        frames = first + (last - first) * normals.PHASES
        thigh, shin, foot = rig.legs[0]
        turned = [_left(walk.turns[:, bone]) for bone in (thigh, shin, foot)]
        flexion = np.degrees([-turned[0], turned[1], -turned[2]])
        out.append([np.interp(frames, np.arange(len(walk.root)), curve) for curve in flexion])
    return np.array(out), np.array(offs)


def _left(turns: np.ndarray) -> np.ndarray:
    return rotations.twist_about(rotations.axis_angle_from_matrix(turns), np.array([1.0, 0, 0]))


def normal_figures(gait: walks.Source) -> Iterator[Figure]:
    """Hip, knee and ankle against the published curves; one constant for each joint is removed over all speeds."""
    truth = normals.published()
    found, offs = published(gait)
    found = found - (found - truth.mean).mean(axis=(0, 2), keepdims=True)
    within = (np.abs(found - truth.mean) <= truth.deviation).mean(axis=-1)
    alike = np.array(
        [[np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)] for x, y in zip(found, truth.mean, strict=True)]
    )
    ranges = np.abs(np.ptp(found, axis=-1) - np.ptp(truth.mean, axis=-1))
    spread = np.take_along_axis(truth.deviation, truth.mean.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    for name, rows in (
        ("very slow and very fast", list(normals.JUDGED)),
        ("slow, free and fast", list(normals.FITTED)),
    ):
        bar = name.startswith("very")
        count = len(rows) * len(normals.JOINTS)
        least = 100 * float(within[rows].min())
        yield Figure(
            f"published angles, {name}: least share within 1 sd", least, "%", "higher", count, 85.0 if bar else None
        )
        least = float(alike[rows].min())
        yield Figure(f"published angles, {name}: least correlation", least, "1", "higher", count, 0.95 if bar else None)
        off = 100 * float(np.abs(offs - normals.FOOT_OFF)[rows].max())
        yield Figure(f"foot-off, {name}: worst", off, "% of the cycle", "lower", len(rows), 2.0 if bar else None)
        worst = float((ranges / spread)[rows].max())
        yield Figure(f"range of joints, {name}: worst", worst, "sd", "lower", count, 1.0 if bar else None)


# ---------------------------------------------------------------- feet and loops


def feet_figures(gait: walks.Source, clean: float = CLEAN_SLIDE) -> Iterator[Figure]:
    """Slide, penetration and float of walks and runs, and the seam of a loop."""
    slides, floats, depths, seam = [], [], [], 0.0
    cases = [parameters.vector({"speed": v}) for v in (0.6, 0.9, 1.3, 1.7, 2.1, 2.6, 3.2, 4.0)]
    cases += [parameters.vector({"speed": 1.2, "turn": 0.6}), parameters.vector({"speed": 1.2}, style={"sneak": 1.0})]
    for values in cases:
        rig, walk = walked(gait, values, 6)
        seen = look(rig, walk.turns, walk.root)
        slides.append(metrics.slides(seen.points, seen.contact))
        floats.append(metrics.floating(seen.points, seen.contact))
        depths.append(metrics.penetration(seen.points))
        frames = round(10 * float(parameters.cycle_seconds(values)) * FPS)
        loop = walks.walk(gait, values, frames, FPS, loop=True)
        steps = np.degrees(rotations.geodesic_angle(loop.turns[1:, 1:], loop.turns[:-1, 1:])).max(axis=1)
        seam = max(
            seam, float(np.degrees(rotations.geodesic_angle(loop.turns[0, 1:], loop.turns[-1, 1:])).max()) / steps.max()
        )
    slide = float(np.concatenate(slides).mean())
    count = sum(len(s) for s in slides)
    yield Figure("feet: slide beside clean capture's", slide / clean, "times", "lower", count, 1.2)
    yield Figure("feet: slide", slide, "mm a frame", "lower", count, None, None, {"clean capture": clean})
    yield Figure("feet: float", float(np.concatenate(floats).mean()), "mm", "lower", count, 2.0)
    yield Figure("feet: penetration, deepest", float(np.concatenate(depths).max()), "mm", "lower", count, 2.0)
    yield Figure(
        "loop of 10 cycles: step at the seam beside the largest elsewhere", seam, "times", "lower", len(cases), 1.0
    )


def bumpy_figures(gait: walks.Source, clean: float = CLEAN_SLIDE) -> Iterator[Figure]:
    """A walk of 300 frames along a winding way over bumps, from standing to standing."""

    def way(far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([1.5 * np.sin(far / 3), -far], axis=1), 0.5 * np.cos(far / 3)

    def ground(points: np.ndarray) -> np.ndarray:
        return 0.06 * np.sin(1.7 * points[..., 0] + 0.5) * np.cos(1.3 * points[..., 1])

    values = parameters.vector({"speed": 1.2})
    far = walks.ways_for(values, 11.0, FPS)
    far = np.interp(np.linspace(0, len(far) - 1, 300), np.arange(len(far)), far)
    walk = walks.walk(gait, values, 300, FPS, way=way, ground=ground, far=far)
    rig = teacher.body(values)
    turned, heads = foot_pins.forward(rig, walk.turns, walk.root)
    points = contacts.foot_points(rig, turned, heads)
    level = heads.copy()  # the rule of truth contacts is about a floor at height 0
    level[..., 2] -= ground(heads[..., :2])
    stands = contacts.truth_contacts(level[:, list(rig.feet)], level[:, list(rig.toes)], rig.foot_rest, fps=FPS)
    slides = metrics.slides(points, stands)
    above = points[..., 2] - ground(points[..., :2])
    yield Figure(
        "bumps: slide beside clean capture's", float(slides.mean()) / clean, "times", "lower", len(slides), 1.2
    )
    yield Figure("bumps: deepest foot below the surface", 1000 * float(max(0.0, -above.min())), "mm", "lower", 300, 2.0)


def proportion_figures(gait: walks.Source) -> Iterator[Figure]:
    """Walks of bodies with other legs: knees, and feet on the floor."""
    knees, depths, gaps = [], [], []
    for thigh, shank in RIGS:
        values = parameters.vector({"speed": 1.2}, {"thigh": thigh, "shank": shank, "arm": 1.1, "torso": 0.95})
        rig, walk = walked(gait, values, 3)
        seen = look(rig, walk.turns, walk.root)
        knees.append(np.degrees(foot_pins.knee_flexion(rig, walk.turns)).min())
        depths.append(metrics.penetration(seen.points).max())
        gaps.append(np.abs(seen.points[..., 2].min(axis=-1)[walk.contact]).max() * 1000)
    yield Figure("proportions: least knee flexion", float(min(knees)), "deg", "higher", len(RIGS), 0.0)
    yield Figure("proportions: feet below the floor", float(max(depths)), "mm", "lower", len(RIGS), 2.0)
    yield Figure("proportions: standing feet off the floor", float(max(gaps)), "mm", "lower", len(RIGS), 2.0)


# ---------------------------------------------------------------- time


def time_figures(gait: Gait, who: KinematicTeacher, held: Held) -> Iterator[Figure]:
    """Milliseconds of the network, of a bake, and of the teacher."""
    phase = np.arange(2 * CYCLE) / CYCLE
    values = held.values[0]
    gait.numbers(values, phase)
    network_ms = _best(lambda: gait.numbers(values, phase), 50)
    teacher_ms = _best(lambda: who.motion(values), 5)
    yield Figure("time: 60 frames of the network", network_ms, "ms", "lower", 50, 1.0, None, {"teacher": teacher_ms})
    plain = parameters.vector({"speed": 1.3})
    bake = _best(lambda: walks.walk(gait, plain, 240, FPS), 3)
    yield Figure("time: bake of 240 frames with exact feet", bake / 1000, "s", "lower", 3, 0.5)


def _best(call: Callable[[], object], times: int) -> float:
    """[ms] of the quickest of some calls."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return 1000 * min(found)


# ---------------------------------------------------------------- sliders


def monotone(gait: Gait) -> Figure:
    """How many sliders do more of what they are called, at five levels."""
    good, bad = 0, []
    names = [n for n in parameters.NAMES if n not in parameters.PROPORTIONS and n not in ("step_length", "cadence")]
    for name in names:
        entry = parameters.TABLE[parameters.INDEX[name]]
        found = []
        for level in np.linspace(entry.least, entry.most, 5):
            values = parameters.vector({"speed": 2.4 if name == "run" else 1.2, name: float(level)})
            found.append(slider_measure(gait, name, values))
        if (np.diff(found) > -0.02 * abs(found[-1] - found[0])).all() and found[-1] > found[0]:
            good += 1
        else:
            bad.append(name)
    name = "monotone sliders" + (f" (not: {', '.join(bad)})" if bad else "")
    return Figure(name, float(good), f"of {len(names)}", "higher", len(names), float(len(names)))


def slider_measure(gait: walks.Source, name: str, values: np.ndarray) -> float:
    """A number that grows with what the slider ``name`` is called, seen from outside."""
    rig, walk = walked(gait, values, 6 if name in ("asymmetry", "limp_left", "limp_right", "run") else 2)
    seen = styles.look(rig, walk.turns, walk.root, FPS)
    turned, heads = foot_pins.forward(rig, walk.turns, walk.root)
    stands = walk.contact
    if name == "turn":
        headings = np.unwrap(np.arctan2(*np.gradient(walk.root[:, :2], axis=0).T * np.array([[1], [-1]])))
        return float(headings[-1] - headings[0])
    if name == "slope":
        return float(walk.root[-1, 2] - walk.root[0, 2])
    if name == "toe_out":
        ahead = turned[:, list(rig.feet)][..., :2, 1]
        out = np.degrees(np.arctan2(-ahead[..., 0], ahead[..., 1])) * [1, -1]
        return float(np.mean([out[stands[:, k], k].mean() for k in (0, 1)]))
    if name == "step_width":
        ankles = heads[:, list(rig.feet), 0]
        return float(ankles[stands[:, 0], 0].mean() - ankles[stands[:, 1], 1].mean())
    measures: dict[str, Callable[[], Any]] = {
        "trunk_lean": lambda: seen["lean"].mean(),
        "bounce": lambda: np.ptp(walk.root[:, 2]),
        "arm_swing": lambda: np.ptp(seen["arm"], axis=0).mean(),
        "hip_sway": lambda: np.ptp(walk.root[:, 0]),
        "knee_lift": lambda: seen["thigh"].max(axis=0).min(),
        "asymmetry": lambda: stands[:, 1].mean() - stands[:, 0].mean(),
        "elbow": lambda: _bend(rig, turned),
        "arm_out": lambda: (
            heads[:, rig.names.index("LeftHand"), 0].mean() - heads[:, rig.names.index("RightHand"), 0].mean()
        ),
        "head": lambda: turned[:, rig.names.index("Head"), 2, 1].mean(),
        "pelvis_tilt": lambda: turned[:, 0, 2, 1].mean(),
        "crouch": lambda: seen["knee"].min(),
        "waddle": lambda: np.ptp(seen["roll"]),
        "limp_left": lambda: -stands[:, 0].mean(),
        "limp_right": lambda: -stands[:, 1].mean(),
        "foot_drop_left": lambda: seen["hip"][:, 0].mean(),
        "foot_drop_right": lambda: seen["hip"][:, 1].mean(),
        "tiptoe": lambda: seen["heel"].min(),
        "tired": lambda: seen["lean"].mean(),
        "proud": lambda: np.ptp(seen["arm"], axis=0).mean(),
        "sneak": lambda: -seen["pelvis"].mean(),
        "march": lambda: seen["thigh"].max(axis=0).min(),
        "run": lambda: -stands.any(axis=1).mean(),
    }
    return float(measures[name]())


def _bend(rig: Skeleton, turned: np.ndarray) -> float:
    """[deg] mean flexion of the left elbow, from rotations from the T-pose (F, J, 3, 3)."""
    arm, forearm = (turned[:, rig.names.index(name)][..., 0] for name in ("LeftArm", "LeftForeArm"))
    return float(np.degrees(np.arccos(np.clip(np.sum(arm * forearm, axis=-1), -1, 1))).mean())
