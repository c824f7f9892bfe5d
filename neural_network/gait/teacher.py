# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinematic teacher: from parameters to a cycle whose feet stand.

1. Joint curves: the statistical model of captured cycles (:mod:`.curves`), of which hip, knee and ankle flexion are drawn
   towards the published curves of the step's length (:mod:`.normals`); running has a model of its own.
2. Sliders and styles bend joints (:mod:`.styles`).
3. The Hips' way: least squares. The legs' curves say where the Hips must be for the standing feet to stand; a few
   harmonics that agree with that best, for both feet at once and for the commanded step, are the way.
4. Exact feet (:mod:`.planting`) on the bend and the slope that are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..core import reference_rig, rotations
from ..core.contacts import foot_points, runs
from ..core.rotations import matrix_from_axis_angle, twist_about
from ..core.skeleton import Skeleton
from ..ik import foot_pins
from . import curves, normals, parameters, representation
from .curves import Curves
from .cycles import arc_points
from .parameters import get
from .planting import Planted, Stance, heading_of, plant
from .representation import CYCLE, ROWS, Pose
from .settling import HARMONICS, Legs, settle
from .styles import Changes, changes

TOWARDS_PUBLISHED = 0.8
"""Share of the way from the captured curves of hip, knee and ankle to the published ones."""
TILT = 3.0
"""How much more the pelvis tilts with the step than the published one, by which hip flexion fits at slow, free and fast."""
MARGIN = 20  # frames before and after a cycle that are planted with it
DENSE = 60  # phases of the least squares
LEFT = np.array([1.0, 0, 0])
MOST_FLEXION = np.array([115.0, 130.0, 30.0])  # [deg] of hip, knee and ankle


@dataclass(frozen=True)
class Model:
    """What the teacher knows of people."""

    walk: Curves
    run: Curves
    offsets: np.ndarray
    """(3) [deg] hip, knee and ankle: the rig's zero of flexion minus the clinic's."""
    late: tuple[float, float] = (0.0, 0.0)
    """Share of a cycle from a captured strike, an ankle farthest ahead, to a foot on the floor: of walks and of runs."""
    run_off: float = 0.27
    """Share of the cycle that a foot stands in the captured runs."""


class Teacher(Protocol):
    """Whoever can show a network how to walk: the kinematic teacher, or a policy that learned it with physics."""

    def normalised(self, values: np.ndarray) -> np.ndarray:
        """Values (..., P) as a network sees them."""

    def encoded(self, rig: Skeleton, pose: Pose) -> np.ndarray:
        """Poses as 101 numbers (N, 101)."""

    def known(self) -> int:
        """How many parameters it knows (P)."""

    def metadata(self) -> dict[str, Any]:
        """What it is, as plain JSON values: names, ranges and defaults of the parameters, and where its motion comes from."""


class KinematicTeacher:
    """The teacher of this module."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def normalised(self, values: np.ndarray) -> np.ndarray:
        """See :class:`Teacher`."""
        return parameters.normalised(values)

    def encoded(self, rig: Skeleton, pose: Pose) -> np.ndarray:
        """See :class:`Teacher`."""
        return representation.encode(rig, pose)

    def known(self) -> int:
        """See :class:`Teacher`."""
        return len(parameters.NAMES)

    def metadata(self) -> dict[str, Any]:
        """See :class:`Teacher`."""
        table = [
            {"name": p.name, "unit": p.unit, "min": p.least, "max": p.most, "default": p.default}
            for p in parameters.TABLE
        ]
        seen = {
            name: {"takes": c.takes, "subjects": c.subjects}
            for name, c in (("walk", self.model.walk), ("run", self.model.run))
        }
        return {"teacher": "kinematic", "parameters": table, "captured": seen, "towards_published": TOWARDS_PUBLISHED}

    def motion(self, values: np.ndarray) -> np.ndarray:
        """The 101 numbers (ROWS, 101) of two cycles with parameters (P)."""
        rig = body(values)
        found = self.cycle(rig, values)
        once = self.encoded(rig, pose_of(values, found))
        return np.concatenate([once] * (ROWS // CYCLE))

    def cycle(self, rig: Skeleton, values: np.ndarray) -> Planted:
        """One cycle of CYCLE frames on the values' own bend and slope, the Hips at the origin in frame 0."""
        phase = np.arange(DENSE) / DENSE
        turns, prior = curved(self.model, rig, values, phase)
        way, places, pitch = hips_way(rig, values, turns, prior, phase)
        turns = _pitched(rig, values, turns, pitch)
        frames = np.arange(-MARGIN, CYCLE + MARGIN)
        at = frames / CYCLE
        dense = curves.coefficients(rotations.sixd_from_matrix(turns).reshape(DENSE, -1), DENSE // 2 - 1)
        six = curves.basis(np.mod(at, 1), DENSE // 2 - 1) @ dense
        local = rotations.matrix_from_sixd(six.reshape(len(at), -1, 6))
        offsets = curves.basis(np.mod(at, 1), HARMONICS) @ way
        road = Road(values)
        far = road.stride * at
        centre, heading = road.at(far)
        local[:, 0] = _yaw(heading) @ local[:, 0]
        root = np.einsum("nab,nb->na", _yaw(heading), offsets)
        root[:, :2] += centre
        root[:, 2] += road.rise * far
        stances = [
            replace(s, begin=s.begin * CYCLE + MARGIN, end=s.end * CYCLE + MARGIN)
            for s in road.stances(values, places, -1.0, 2.0)
        ]
        own = _own_phases(values, np.mod(at, 1))
        change = changes(values, own, parameters.stance_share(values))
        planted = plant(rig, local, root, stances, road.height, change.clear, change.lowered, flat=0.0)
        rows = slice(MARGIN, MARGIN + CYCLE + 1)
        return replace(planted, turns=planted.turns[rows], root=planted.root[rows], contact=planted.contact[rows])


def pose_of(values: np.ndarray, planted: Planted) -> Pose:
    """The poses of a planted cycle of one frame more than it has samples, seen from its own heading."""
    road = Road(values)
    seconds = float(parameters.cycle_seconds(values))
    far = road.stride * np.arange(CYCLE) / CYCLE
    _, heading = road.at(far)
    back = _yaw(-heading)
    turns = planted.turns[:CYCLE].copy()
    turns[:, 0] = back @ turns[:, 0]
    way = np.gradient(np.concatenate([planted.root, planted.root[1:2] + planted.root[-1:] - planted.root[:1]]), axis=0)
    local = np.einsum("nab,nb->na", back, way[:CYCLE]) * (CYCLE / seconds)
    return Pose(turns, np.stack([-local[:, 1], local[:, 0]], axis=1), planted.root[:CYCLE, 2] - road.rise * far)


# ---------------------------------------------------------------- the way


class Road:
    """The way of a walk with parameters (P): an arc that begins at the origin along -Y, and rises or falls evenly."""

    def __init__(self, values: np.ndarray) -> None:
        self.turn = float(get(values, "turn"))
        self.rise = float(np.tan(np.radians(get(values, "slope"))))
        self.stride = 2 * float(parameters.step(values))

    def at(self, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points (N, 2) [m] and headings (N) [rad] at ways (N) [m] along it, negative ones included."""
        heading = self.turn * far
        return arc_points(np.zeros(2), 0.0, 1.0, 1.0, np.zeros(1)) + _arc(self.turn, far), heading

    def height(self, points: np.ndarray) -> np.ndarray:
        """Heights (...) [m] of the floor under points (..., 2) [m] near it; up to half a turn around the first cycle's middle."""
        if not self.rise:
            return np.zeros(points.shape[:-1])
        if abs(self.turn) < 1e-6:
            return np.asarray(-points[..., 1] * self.rise)
        radius = 1 / self.turn
        middle = 0.5 * self.stride * self.turn
        angle = np.arctan2(-points[..., 1] * np.sign(radius), (radius - points[..., 0]) * np.sign(radius))
        return np.asarray(((angle - middle + np.pi) % (2 * np.pi) - np.pi + middle) / self.turn * self.rise)

    def stances(self, values: np.ndarray, places: np.ndarray, begin: float, end: float) -> list[Stance]:
        """The stances that touch the cycles from ``begin`` to ``end``; ``places`` (2, 2) [m] where the left and the right
        heel come down in the first cycle, along the way and to the left of it."""
        shares = parameters.stance_share(values)
        strikes = np.array([0.0, float(parameters.right_strike(values))])
        out_by = np.radians(float(get(values, "toe_out"))) * np.array([1.0, -1.0])
        out = []
        for k in (0, 1):
            for cycle in range(int(np.floor(begin)) - 1, int(np.ceil(end)) + 1):
                first = cycle + strikes[k]
                if first + shares[k] < begin or first > end:
                    continue
                centre, heading = self.at(np.array([cycle * self.stride + places[k, 0]]))
                side = np.array([np.cos(heading[0]), np.sin(heading[0])])
                heel = centre[0] + places[k, 1] * side
                out.append(Stance(k, first, first + shares[k], heel, float(heading[0] + out_by[k])))
        return sorted(out, key=lambda s: s.begin)


def _arc(turn: float, far: np.ndarray) -> np.ndarray:
    half = turn * far / 2
    chord = far * np.sinc(half / np.pi)
    return np.stack([chord * np.sin(half), -chord * np.cos(half)], axis=-1)


def _yaw(angle: np.ndarray) -> np.ndarray:
    zero = 0 * angle
    return matrix_from_axis_angle(np.stack([zero, zero, angle], axis=-1))


def body(values: np.ndarray) -> Skeleton:
    """The reference rig in the proportions of the values (P), its soles on the floor."""
    rig = reference_rig.reference()
    scale = {name: float(get(values, name)) for name in parameters.PROPORTIONS}
    if all(s == 1 for s in scale.values()):
        return rig
    rest, old = rig.rest_arm.copy(), rig.rest_arm[:, :3, 3]
    heads = old.copy()
    parts = {"thigh": ("Shin",), "shank": ("Foot",), "arm": ("ForeArm", "Hand"), "torso": ("Spine", "Neck")}
    for j in range(1, rig.count):
        name, parent = rig.names[j], int(rig.parents[j])
        part = name.removeprefix("Left").removeprefix("Right")
        factor = next((scale[p] for p, ends in parts.items() if part.startswith(ends)), 1.0)
        heads[j] = heads[parent] + factor * (old[j] - old[parent])
    foot = rig.feet[0]
    rest[:, :3, 3] = heads + [0, 0, old[foot, 2] - heads[foot, 2]]
    return replace(rig, rest_arm=rest)


# ---------------------------------------------------------------- joint curves


def _own_phases(values: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """(2, N) phases since the strike of the left and of the right foot."""
    return np.stack([np.mod(phase, 1), np.mod(phase - float(parameters.right_strike(values)), 1)])


def curved(model: Model, rig: Skeleton, values: np.ndarray, phase: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Local core rotations (N, J, 3, 3) at phases (N), and the Hips' offset (N, 3) [m] as captured people have it.

    The feet nearly stand; :func:`hips_way` says where the Hips are.
    """
    leg = rig.leg_length
    step = float(parameters.step(values)) / leg
    cadence = float(2 / parameters.cycle_seconds(values)) * np.sqrt(leg / parameters.GRAVITY)
    run = float(get(values, "run"))
    shares = parameters.stance_share(values)
    own = _own_phases(values, phase)
    turns, offset = _mixed(model, phase, step, cadence, run)
    flexion = np.empty((2, 3, len(phase)))
    usual = normals.STANDARD_OFF + run * (model.run_off - normals.STANDARD_OFF)
    for k, (thigh, shin, foot) in enumerate(rig.legs):
        legs, _ = _mixed(model, _unwarped(own[k], shares[k], usual) + (0.5 if k else 0.0), step, cadence, run)
        chain = [thigh, shin, foot, rig.toes[k]]
        turns[:, chain] = legs[:, chain]
        seen = np.degrees(np.stack([-_twist(turns[:, thigh]), _twist(turns[:, shin]), -_twist(turns[:, foot])]))
        near = float(np.clip(step, model.walk.least[0], model.walk.most[0]))
        here, there = (normals.flexion(own[k], s, float(shares[k])) for s in (min(step, 1.05), near))
        walked = seen + (here - there) + TOWARDS_PUBLISHED * (there + model.offsets[:, None] - seen)
        flexion[k] = walked + run * (seen - walked)
    change = changes(values, own, shares)
    flexion += np.stack([change.hip, change.knee, change.ankle], axis=1)
    flexion = _capped(flexion)
    stretch = run + (1 - run) * min(1.0, step / (0.85 * float(model.walk.least[0])))
    tilt = (1 - run) * TILT * (normals.tilt(min(step, 1.05)) - normals.tilt(float(model.walk.centre[0])))
    _upper(rig, values, turns, offset, change, stretch, tilt + float(get(values, "pelvis_tilt")))
    for k, (thigh, shin, foot) in enumerate(rig.legs):
        turns[:, thigh] = _flexed(turns[:, thigh], -flexion[k, 0])
        turns[:, thigh] = turns[:, thigh] @ _outward(values, k, len(phase))
        turns[:, shin] = matrix_from_axis_angle(np.radians(flexion[k, 1])[:, None] * LEFT)
        turns[:, foot] = _flexed(turns[:, foot], -flexion[k, 2])
    return turns, offset * leg - [0, 0, change.lower * leg]


def _capped(flexion: np.ndarray) -> np.ndarray:
    """Flexion (2, 3, N) [deg] that people can have: near :data:`MOST_FLEXION` it grows ever less."""
    room = 25.0
    over = np.maximum(flexion - (MOST_FLEXION[:, None] - room), 0)
    return np.asarray(np.minimum(flexion, MOST_FLEXION[:, None] - room) + room * np.tanh(over / room))


def _pitched(rig: Skeleton, values: np.ndarray, turns: np.ndarray, pitch: np.ndarray) -> np.ndarray:
    """The poses with feet of this pitch (2, N) [rad] on the floor."""
    out = turns.copy()
    turned, _ = foot_pins.forward(rig, turns, np.zeros((len(turns), 3)))
    slope = np.radians(float(get(values, "slope")))
    for k, foot in enumerate(rig.feet):
        now = np.arctan2(turned[:, foot, 2, 1], np.hypot(turned[:, foot, 0, 1], turned[:, foot, 1, 1])) + slope
        heading = heading_of(turned[:, foot])
        left = np.stack([np.cos(heading), np.sin(heading), 0 * heading], axis=1)
        above = turned[:, rig.parents[foot]]
        out[:, foot] = (
            np.swapaxes(above, -1, -2) @ matrix_from_axis_angle((pitch[k] - now)[:, None] * left) @ turned[:, foot]
        )
    return out


def _mixed(model: Model, phase: np.ndarray, step: float, cadence: float, run: float) -> tuple[np.ndarray, np.ndarray]:
    turns, offset = curves.evaluate(model.walk, phase + model.late[0], step, cadence)
    if run:
        other, way = curves.evaluate(model.run, phase + model.late[1], step, cadence)
        six = (1 - run) * rotations.sixd_from_matrix(turns) + run * rotations.sixd_from_matrix(other)
        turns, offset = rotations.matrix_from_sixd(six), (1 - run) * offset + run * way
    return turns, offset


def _unwarped(own: np.ndarray, share: float, usual: float) -> np.ndarray:
    """Phases of a captured cycle whose foot leaves at ``usual``, for phases of one whose foot leaves at ``share``."""
    return np.where(own < share, own / share * usual, usual + (own - share) / (1 - share) * (1 - usual))


def _twist(turns: np.ndarray) -> np.ndarray:
    return twist_about(rotations.axis_angle_from_matrix(turns), LEFT)


def _flexed(turns: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Rotations (N, 3, 3) whose twist about the parent's left axis is ``degrees`` (N)."""
    return matrix_from_axis_angle((np.radians(degrees) - _twist(turns))[:, None] * LEFT) @ turns


def _outward(values: np.ndarray, k: int, count: int) -> np.ndarray:
    """The thigh turned about itself for feet that point outwards, by most of what they do."""
    angle = 0.7 * np.radians(float(get(values, "toe_out")) - parameters.DEFAULT[parameters.INDEX["toe_out"]])
    return matrix_from_axis_angle(np.array([0, 0, angle if k == 0 else -angle]))[None].repeat(count, 0)


def _upper(
    rig: Skeleton,
    values: np.ndarray,
    turns: np.ndarray,
    offset: np.ndarray,
    change: Changes,
    stretch: float,
    tilt: float,
) -> None:
    """Bend Hips, trunk, head and arms, in place; ``tilt`` [deg] of the Hips alone."""
    index = {name: j for j, name in enumerate(rig.names)}
    sway = float(get(values, "hip_sway"))
    offset[:, 0] = offset[:, 0].mean() + sway * (offset[:, 0] - offset[:, 0].mean())
    hips = rotations.axis_angle_from_matrix(turns[:, 0])
    mean = hips.mean(axis=0)
    more = (hips - mean) * np.array([stretch - 1, sway * stretch - 1, stretch - 1])
    before = turns[:, 0].copy()
    turns[:, 0] = matrix_from_axis_angle(hips + more + np.radians(tilt) * LEFT)
    spine = index["Spine"]
    turns[:, spine] = np.swapaxes(turns[:, 0], -1, -2) @ before @ turns[:, spine]
    uphill = 0.35 * float(get(values, "slope"))
    lean = np.radians(change.lean + uphill)
    roll = np.radians(change.roll)
    bend = matrix_from_axis_angle(np.stack([lean, roll, 0 * lean], axis=1) / 3)
    for name in ("Spine", "Spine1", "Spine2"):
        turns[:, index[name]] = bend @ turns[:, index[name]]
    nod = matrix_from_axis_angle(np.stack([np.radians(change.head) - 0.7 * lean, -0.7 * roll, 0 * lean], axis=1) / 2)
    for name in ("NeckUpper", "Head"):
        turns[:, index[name]] = nod @ turns[:, index[name]]
    out = np.radians(float(get(values, "arm_out")))
    for side, sign in (("Left", -1.0), ("Right", 1.0)):
        for part in ("Arm", "ForeArm"):
            j = index[side + part]
            middle = rotations.matrix_from_sixd(rotations.sixd_from_matrix(turns[:, j]).mean(axis=0))
            away = rotations.axis_angle_from_matrix(middle.T @ turns[:, j])
            turns[:, j] = middle @ matrix_from_axis_angle(away * change.arms * stretch)
        aside = matrix_from_axis_angle(np.array([0, sign * out, 0]))
        hang = aside @ matrix_from_axis_angle(-0.6 * lean[:, None] * LEFT)  # arms hang down from a trunk that leans
        turns[:, index[side + "Arm"]] = hang @ turns[:, index[side + "Arm"]]
        elbow = np.radians(change.elbows) * sign
        j = index[side + "ForeArm"]
        turns[:, j] = turns[:, j] @ matrix_from_axis_angle(np.array([0, 0, elbow]))


# ---------------------------------------------------------------- the Hips' way


def hips_way(
    rig: Skeleton, values: np.ndarray, turns: np.ndarray, prior: np.ndarray, phase: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the Hips are so that feet stand, forward and up by :func:`.settling.settle`, to the sides as captured.

    Returns the Fourier coefficients (2 HARMONICS + 1, 3) [m] of their offset from the point that moves evenly, where the
    heels come down in the first cycle (2, 2) [m], along the way and to its left, and the pitch (2, N) [rad] of the feet.
    """
    road = Road(values)
    shares = parameters.stance_share(values)
    own = _own_phases(values, phase)
    change = changes(values, own, shares)
    turned, heads = foot_pins.forward(rig, turns, np.zeros((len(phase), 3)))
    slope = float(np.arctan(road.rise))
    feet = turned[:, list(rig.feet)]
    pitch = np.arctan2(feet[..., 2, 1], np.hypot(feet[..., 0, 1], feet[..., 1, 1])) + slope
    own = np.where(own > 0.5 * (1 + shares[:, None]), own - 1, own)
    width = 0.5 * (float(get(values, "step_width")) + change.width * rig.leg_length)
    legs = Legs(
        hip=heads[:, [leg[0] for leg in rig.legs]].swapaxes(0, 1),
        ankle=heads[:, list(rig.feet)].swapaxes(0, 1),
        pitch=pitch.T,
        share=own / shares[:, None],
        stance=shares,
        along=road.stride * own + _early(values, road)[:, None],
        side=np.array([width, -width]),
    )
    run = float(get(values, "run"))
    found = settle(rig, phase, legs, prior, road.rise, run, change.on_toes)
    way = np.zeros((2 * HARMONICS + 1, 3))
    way[:, 1:] = found.way
    way[1:, 2] *= float(get(values, "bounce"))
    way[1:, 0] = curves.coefficients(prior[:, 0], HARMONICS)[1:]
    strikes = np.array([0.0, float(parameters.right_strike(values))])
    ahead = found.place + strikes * road.stride - _early(values, road)
    return way, np.stack([ahead, legs.side], axis=1), found.pitch


def _early(values: np.ndarray, road: Road) -> np.ndarray:
    """(2) [m] by how much a step falls short of where its time would put it: steps differ less than their times do."""
    late = float(parameters.right_strike(values)) - 0.5
    return np.array([0.0, 0.5 * late * road.stride])


# ---------------------------------------------------------------- fitting


def learned(rig: Skeleton, walk: Curves, run: Curves) -> Model:
    """The teacher's model of captured walks and runs: what relates their angles and strikes to the published ones.

    Walks: the shift of the phase at which the curves at their mean step are most like the published ones, and then the mean
    difference of each joint. Runs: when the slowest point of the sole comes to a stop, and for how long.
    """
    phase = np.arange(200) / 200
    thigh, shin, foot = rig.legs[0]
    clinic = normals.flexion(phase, float(walk.centre[0]), normals.STANDARD_OFF)
    best = (-np.inf, 0.0, np.zeros(3))
    for late in np.arange(-0.02, 0.061, 0.005):
        turns, _ = curves.evaluate(walk, phase + late, *walk.centre)
        seen = np.degrees(np.stack([-_twist(turns[:, thigh]), _twist(turns[:, shin]), -_twist(turns[:, foot])]))
        alike = sum(float(np.corrcoef(a, b)[0, 1]) for a, b in zip(seen, clinic, strict=True))
        best = max(best, (alike, float(late), (seen - clinic).mean(axis=1)), key=lambda entry: entry[0])
    late, share = _standing(rig, run)
    return Model(walk, run, best[2], (best[1], late), share)


STOPPED = 0.25  # of the body's speed: a sole slower than this stands


def _standing(rig: Skeleton, run: Curves) -> tuple[float, float]:
    """When the left sole of the mean run comes to a stop, as a share of the cycle, and for how long it stands."""
    count = 400
    phase = np.arange(count + 1) / count
    turns, offset = curves.evaluate(run, phase, *run.centre)
    stride = 2 * float(run.centre[0]) * rig.leg_length
    root = offset * rig.leg_length - np.outer(phase * stride, [0.0, 1, 0])
    points = foot_points(rig, *foot_pins.forward(rig, turns, root))[:, 0]
    slow = np.linalg.norm(np.diff(points, axis=0), axis=-1).min(axis=1) * count < STOPPED * stride
    longest = max(runs(slow), key=lambda pair: pair[1] - pair[0], default=(0, round(0.3 * count)))
    return longest[0] / count, (longest[1] - longest[0]) / count
