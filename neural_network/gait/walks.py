# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks: a network or a teacher, parameters that may change, a way and a floor become motion whose feet stand.

The network says what each pose is like; where the body is follows from the parameters (its speed is what was asked for), and
exact feet (:mod:`.planting`) make it stand. Core axes: the walk begins at the origin along -Y unless a way says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..core import reference_rig, rotations
from ..core.contacts import runs
from ..core.rotations import matrix_from_axis_angle
from ..core.skeleton import Skeleton
from ..ik.foot_pins import Ground, flat_ground
from . import curves, parameters, representation
from .motion_files import smoothed
from .parameters import get
from .planting import Stance, plant
from .representation import CYCLE
from .styles import changes
from .teacher import KinematicTeacher, Road, body

Way = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Points (N, 2) [m] and headings (N) [rad] at ways (N) [m] along a path."""

PADDING = 1.4  # cycles before and after what is asked for, so that every stance is whole
HARMONICS = 13  # of a cycle that are kept of what a source says


class Source(Protocol):
    """Who knows what poses are like: the network (:class:`.network.Gait`), or the teacher."""

    @property
    def trembles(self) -> bool:
        """Whether what it says of one phase and of the next differs by chance too, and is smoothed."""

    def numbers(self, values: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """The 101 numbers (N, 101) at phases (N) [cycles] with parameters (P) or (N, P)."""


@dataclass(frozen=True)
class Taught:
    """A teacher as a source; parameters may not change along the way."""

    teacher: KinematicTeacher

    @property
    def trembles(self) -> bool:
        """See :class:`Source`."""
        return False

    def numbers(self, values: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """See :class:`Source`."""
        one = values if values.ndim == 1 else values[0]
        return smoothed(self.teacher.motion(one), phase)


@dataclass(frozen=True)
class Walk:
    """A walk that was made."""

    turns: np.ndarray
    """(F, J, 3, 3) local core rotations."""
    root: np.ndarray
    """(F, 3) [m] the Hips' head."""
    contact: np.ndarray
    """(F, 2) bool, feet that stand."""
    cycle_seconds: float
    """Of the first frame."""
    missing: float
    """[m] the most by which a leg does not reach."""


def walk(
    source: Source,
    values: np.ndarray,
    frames: int,
    fps: float,
    rig: Skeleton | None = None,
    way: Way | None = None,
    ground: Ground | None = None,
    phase: float = 0.0,
    loop: bool = False,
    far: np.ndarray | None = None,
) -> Walk:
    """``frames`` frames of a walk at ``fps``.

    Args:
        source: the network.
        values: (P) parameters, or (frames, P) where they change.
        frames: at least 1.
        fps: frames a second.
        rig: the body, with the reference rig's bones; None: the reference rig in the parameters' proportions. The parameters'
            proportions should be the body's, see :func:`proportions_of`; lengths scale with its legs.
        way: along which to go; None: the arc of the parameters' turn (those of the first frame).
        ground: heights of the floor; None: a floor at 0, or the slope of the first frame's parameters.
        phase: at which the first frame is [cycles].
        loop: ``frames`` frames are a whole number of cycles, of which the rates are made to fit.
        far: (frames) [m] how far along the way the body is at each frame, see :func:`ways_for`. It never goes back, begins and
            ends standing, and stands wherever this does not grow; where it would start or stop at once, a step's time is taken
            for that. ``phase`` does not count then.
    """
    if frames < 1 or not fps > 0:
        raise ValueError(f"expected at least one frame and a rate above 0, got {frames} frames at {fps:g} a second")
    first = values if values.ndim == 1 else values[0]
    rig = body(first) if rig is None else rig
    scale = rig.leg_length / float(parameters.leg_of(first))
    clock = _clock(values, frames, fps, phase, scale, loop)
    going = np.ones(len(clock.phase))
    if far is not None:
        clock, going = _from_rest_to_rest(clock, np.asarray(far, float), fps)
    numbers, off = _said(source, clock)
    if far is not None:
        numbers = going[:, None] * numbers + (1 - going[:, None]) * _standing(source, first)
    pose = representation.decode(rig, numbers)
    road = Road(_sized(first, scale))
    way = road.at if way is None else way
    ground = (road.height if road.rise else flat_ground) if ground is None else ground
    offset = np.zeros((len(clock.phase), 3))
    offset[:, :2] = off * going[:, None] * scale
    centre, heading = way(clock.far)
    turn = _yaw(heading)
    turns = pose.turns.copy()
    turns[:, 0] = turn @ turns[:, 0]
    root = np.einsum("nab,nb->na", turn, offset)
    root[:, :2] += centre
    root[:, 2] = pose.height * scale + _smooth_floor(ground, centre, rig.leg_length, clock)
    change = changes(first, np.zeros((2, 1)), parameters.stance_share(first))
    tiptoe = get(clock.values, "tiptoe")
    on_toes = np.stack([tiptoe, tiptoe], axis=1) if tiptoe.any() else None
    planted = plant(rig, turns, root, _stances(clock), ground, change.clear, change.lowered, on_toes)
    rows = slice(clock.before, clock.before + frames)
    seconds = float(1 / (clock.rate[clock.before] * fps))
    return Walk(planted.turns[rows], planted.root[rows], planted.contact[rows], seconds, planted.missing)


def sketch(source: Source, values: np.ndarray, rig: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    """One cycle in place on level ground as a source says it, at once: local core rotations (2 CYCLE, J, 3, 3) and the Hips'
    heads (2 CYCLE, 3) [m]. Feet stand as well as the source has learned it, not exactly."""
    said, offset = _cycle(source, values)
    pose = representation.decode(rig, said)
    scale = rig.leg_length / float(parameters.leg_of(values))
    off = curves.basis(_GRID, HARMONICS) @ offset
    return pose.turns, scale * np.column_stack([off, pose.height])


@dataclass(frozen=True)
class _Clock:
    """Phase and way of every frame, with frames before and after those asked for."""

    values: np.ndarray  # (F, P)
    phase: np.ndarray  # (F) cycles, never wrapped
    far: np.ndarray  # (F) m
    rate: np.ndarray  # (F) cycles a frame
    stride: np.ndarray  # (F) m a cycle
    before: int
    rests: tuple[tuple[int, int], ...] = ()  # frames (first, beyond the last) in which both feet stand


def _clock(values: np.ndarray, frames: int, fps: float, phase: float, scale: float, loop: bool) -> _Clock:
    many = np.broadcast_to(values, (frames, values.shape[-1])) if values.ndim == 1 else values
    if len(many) != frames:
        raise ValueError(f"parameters: expected {frames} rows, one a frame, got {len(many)}")
    rate = 1 / (parameters.cycle_seconds(many) * fps) / np.sqrt(scale)
    if loop:
        whole = max(1.0, round(float(rate.sum())))
        rate = rate * (whole / rate.sum())
    stride = 2 * parameters.step(many) * scale
    before, after = (int(np.ceil(PADDING / r)) + 2 for r in (rate[0], rate[-1]))
    index = np.clip(np.arange(-before, frames + after), 0, frames - 1)
    many, rate, stride = many[index], rate[index], stride[index]
    travelled = np.concatenate([[0.0], np.cumsum(rate[:-1])])
    far = np.concatenate([[0.0], np.cumsum(rate[:-1] * stride[:-1])])
    return _Clock(many, phase + travelled - travelled[before], far - far[before], rate, stride, before)


HOLD, RAMP = 0.3, 0.6
"""[s] that the body stands before it begins and after it has ended, and cycles over which it gets to its pace, see :func:`_ramp`."""
AT_EASE = 1.5  # [m/s at a leg of 0.945 m] up to which RAMP is enough
BESIDE = 0.28  # phase since a foot's strike at which the body is above it
STANDS = 0.03  # share of the usual pace below which the body stands


def ways_for(values: np.ndarray, length: float, fps: float, scale: float = 1.0) -> np.ndarray:
    """How far (F) [m] a body ``scale`` times the reference's has come at each frame when it goes ``length`` [m], standing at both
    ends, with parameters (P), or (N, P) of the first frames, of which the last hold on."""
    many = np.atleast_2d(values)
    stride = 2 * parameters.step(many) * scale
    cycle = parameters.cycle_seconds(many) * np.sqrt(scale) * fps  # frames
    ramp = _ramp(many)
    hold, need = HOLD * fps, length + 0.5 * float(ramp[0] * stride[0] + ramp[-1] * stride[-1])
    come = np.cumsum(stride / cycle)
    if come[-1] < need:
        going = len(many) + (need - come[-1]) * cycle[-1] / stride[-1]
    else:
        going = float(np.searchsorted(come, need)) + 1
    frames = max(4, round(going + 2 * hold))
    index = np.arange(frames)
    now = np.minimum(index, len(many) - 1)
    ramps = (ramp * cycle)[now]
    eased = _ramped((index - hold) / ramps[0]) * _ramped((frames - 1 - hold - index) / ramps[-1])
    way = eased * (stride / cycle)[now]
    return np.concatenate([[0.0], np.cumsum(way[:-1])]) * (length / max(float(way.sum()), 1e-9))


def _ramp(values: np.ndarray) -> np.ndarray:
    """(F) cycles over which a walk with parameters (F, P) gets to its pace, or to rest."""
    return np.asarray(RAMP * np.maximum(1, parameters.speed(values) / AT_EASE))


def _from_rest_to_rest(clock: _Clock, far: np.ndarray, fps: float) -> tuple[_Clock, np.ndarray]:
    """The clock of a walk that is so ``far`` (frames) [m] at each frame, and how much (F) of it is walking: where the way does
    not grow, the phase waits where one foot has come down and the other is about to leave."""
    count = len(clock.phase)
    frames = np.clip(np.arange(count) - clock.before, 0, len(far) - 1)
    moved = np.diff(far[frames], append=far[-1])
    if not np.isfinite(far).all() or moved.min() < -1e-6:
        back = int(np.argmin(moved)) - clock.before
        raise ValueError(f"the way goes back at frame {back}: expected one that only goes on or stands")
    pace, ramp = clock.rate * clock.stride, _ramp(clock.values)
    going, steps, values = np.zeros(count), np.zeros(count), clock.values.copy()
    begun = np.sqrt(STANDS / 3)  # share of a ramp in which a body counts as standing
    spans = _spans(moved > STANDS * pace, round(HOLD * fps))
    for begin, end in spans:
        index = np.arange(count)
        from_begin = begun + (index - begin) * clock.rate[begin] / ramp[begin]
        from_end = begun + (end - 1 - index) * clock.rate[end - 1] / ramp[end - 1]
        walks = _ramped(from_begin) * _ramped(from_end)
        going += walks
        own = np.minimum(moved, pace * walks)[begin:end]  # who is to start or stop at once takes a step for it
        moved[begin:end] = own * (moved[begin:end].sum() / max(float(own.sum()), 1e-9))
        slower = np.clip(moved / pace / np.maximum(walks, 0.05), 0, 1.2)
        steps[begin:end] = (clock.rate * _ramped(3 * from_begin) * _ramped(3 * from_end) * slower)[begin:end]
    values[:, parameters.INDEX["run"]] *= going  # nobody stands running
    lift = parameters.right_strike(values) + parameters.stance_share(values)[:, 1] - 1 - 2e-3
    phase, at = np.full(count, lift[0]), float(lift[0])
    for i, (begin, end) in enumerate(spans):  # whole cycles, so that it ends as it began
        rest = float(lift[end if i + 1 < len(spans) else -1])
        whole = (
            max(1.0, round(float(steps[begin:end].sum()) + lift[begin] - rest)) + rest - float(lift[max(begin - 1, 0)])
        )
        steps[begin:end] *= whole / max(float(steps[begin:end].sum()), 1e-9)
        phase[begin : end + 1] = at + np.concatenate([[0.0], np.cumsum(steps[begin:end])])
        at += whole
        phase[end:] = at
    rests = tuple(zip([0, *(end for _, end in spans)], [*(begin for begin, _ in spans), count], strict=True))
    rate = np.maximum(steps, 1e-9)
    come = float(far[0]) + np.concatenate([[0.0], np.cumsum(moved[:-1])])
    return replace(clock, values=values, phase=phase, far=come, rate=rate, rests=rests), going


def _spans(moves: np.ndarray, shortest: int) -> list[tuple[int, int]]:
    """Spans (first, beyond the last) of frames that move (F), rests of fewer than ``shortest`` frames among them."""
    out: list[tuple[int, int]] = []
    for begin, end in runs(moves):
        if out and begin - out[-1][1] < shortest:
            out[-1] = (out[-1][0], end)
        else:
            out.append((begin, end))
    return out


def _ramped(share: np.ndarray) -> np.ndarray:
    x = np.clip(share, 0, 1)
    return np.asarray(x * x * (3 - 2 * x))


def _standing(source: Source, values: np.ndarray) -> np.ndarray:
    """The 101 numbers of somebody who stands: each leg as when the body is above its foot, the rest as it is on average."""
    grid = np.arange(CYCLE) / CYCLE
    out = source.numbers(values, grid).mean(axis=0)
    above = source.numbers(values, np.array([BESIDE, float(parameters.right_strike(values)) + BESIDE]))
    out[24:39], out[9:24] = above[0, 24:39], above[1, 9:24]
    out[7] = above[:, 7].mean()
    return np.asarray(out)


def _sized(values: np.ndarray, scale: float) -> np.ndarray:
    """Parameters whose lengths are those of a body ``scale`` times as large."""
    out = np.array(values, float)
    out[parameters.INDEX["step_length"]] *= scale
    out[parameters.INDEX["turn"]] /= scale
    return out


def _yaw(angle: np.ndarray) -> np.ndarray:
    zero = 0 * angle
    return matrix_from_axis_angle(np.stack([zero, zero, angle], axis=-1))


_GRID = np.arange(2 * CYCLE) / (2 * CYCLE)


def _cycle(source: Source, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 101 numbers (2 CYCLE, 101) of a cycle with parameters (P), and the Fourier coefficients (2 HARMONICS + 1, 2) [m] of
    how far the Hips are off the point that moves evenly, to the left and back: their velocity, integrated."""
    said = source.numbers(values, _GRID)
    velocity = curves.coefficients(said[:, [8, 6]], HARMONICS) * representation.CONTROL_RATE * [1, -1]
    angular = 2 * np.pi * np.arange(1, HARMONICS + 1)[:, None] / float(parameters.cycle_seconds(values))
    cosine, sine = velocity[1 : HARMONICS + 1], velocity[HARMONICS + 1 :]
    return said, np.concatenate([np.zeros((1, 2)), -sine / angular, cosine / angular])


def _said(source: Source, clock: _Clock) -> tuple[np.ndarray, np.ndarray]:
    """The 101 numbers (F, 101) of every frame, and how far (F, 2) [m] the Hips are off the point that moves evenly, to the
    left and back: their velocity, integrated over the cycle.

    The source is asked for whole cycles, for the parameters of a few frames between which the answers are blended; of each
    cycle :data:`HARMONICS` are kept, of the Hips' way and of the poses of a source that trembles. A network alone trembles from
    phase to phase, at 1.3 m/s by twice the jerk of that.
    """
    count = len(clock.phase)
    same = bool((clock.values == clock.values[0]).all())
    knots = np.array([0]) if same else np.unique(np.linspace(0, count - 1, 2 + count // 8).astype(int))
    found = []
    for knot in knots:
        said, offset = _cycle(source, clock.values[knot])
        poses = curves.coefficients(said, HARMONICS) if source.trembles else np.zeros((len(offset), 0))
        found.append(np.concatenate([poses, offset], axis=1))
    basis = curves.basis(np.mod(clock.phase, 1), HARMONICS)
    if same:
        out = basis @ found[0]
    else:
        after = np.clip(np.searchsorted(knots, np.arange(count), "right"), 1, len(knots) - 1)
        share = (np.arange(count) - knots[after - 1]) / (knots[after] - knots[after - 1])
        each = np.array(found)
        both = [np.einsum("nk,nkc->nc", basis, each[at]) for at in (after - 1, after)]
        out = (1 - share)[:, None] * both[0] + share[:, None] * both[1]
    if source.trembles:
        return out[:, :-2], out[:, -2:]
    return source.numbers(clock.values[0] if same else clock.values, clock.phase), out


def _stances(clock: _Clock) -> list[Stance]:
    """The stances of both feet over all frames, by the parameters at the frame of each strike."""
    frames = np.arange(len(clock.phase), dtype=float)
    out = []
    for k in (0, 1):
        late = 0.0 if k == 0 else parameters.right_strike(clock.values)
        own = np.maximum.accumulate(clock.phase - late)
        first, last = int(np.floor(own[0])), int(np.floor(own[-1]))
        for cycle in range(first, last + 1):
            begin = float(np.interp(cycle, own, frames)) if cycle >= own[0] else (cycle - own[0]) / clock.rate[0]
            at = int(np.clip(round(begin), 0, len(frames) - 1))
            share = float(parameters.stance_share(clock.values[at])[k])
            over = cycle + share
            end = (
                float(np.interp(over, own, frames))
                if over <= own[-1]
                else frames[-1] + (over - own[-1]) / clock.rate[-1]
            )
            end = max([end, *(float(b) for a, b in clock.rests if np.floor(own[(a + b) // 2]) == cycle)])
            if end >= 0:
                out.append(Stance(k, begin, end))
    return sorted(out, key=lambda s: s.begin)


def _smooth_floor(ground: Ground, centre: np.ndarray, leg: float, clock: _Clock) -> np.ndarray:
    """(F) [m] height of the floor under the Hips, averaged over a step before and after."""
    heights = ground(centre)
    if not np.ptp(heights):
        return heights
    width = max(1.0, 0.22 / float(clock.rate.mean()))
    reach = int(np.ceil(2.5 * width))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.convolve(_extended(heights, reach), kernel / kernel.sum(), "valid")


def _extended(values: np.ndarray, reach: int) -> np.ndarray:
    """Values (F) continued evenly by ``reach`` at both ends."""
    steps = np.arange(1, reach + 1)
    before = values[0] - steps[::-1] * (values[1] - values[0])
    return np.concatenate([before, values, values[-1] + steps * (values[-1] - values[-2])])


def proportions_of(rig: Skeleton) -> dict[str, float]:
    """The proportions (parameters by name) of a body with the reference rig's bones, its legs scaled to the reference's."""
    own = reference_rig.reference()
    representation.require_rig(rig)
    scale = rig.leg_length / own.leg_length
    parts = {
        "thigh": ("LeftShin", "RightShin"),
        "shank": ("LeftFoot", "RightFoot"),
        "arm": ("LeftForeArm", "LeftHand", "RightForeArm", "RightHand"),
        "torso": ("Spine", "Spine1", "Spine2", "NeckLower"),
    }
    out = {}
    for name, bones in parts.items():
        lengths = [sum(float(np.linalg.norm(r.offsets[r.names.index(bone)])) for bone in bones) for r in (rig, own)]
        entry = parameters.TABLE[parameters.INDEX[name]]
        out[name] = float(np.clip(lengths[0] / lengths[1] / scale, entry.least, entry.most))
    return out


def own_values(rig: Skeleton, values: np.ndarray) -> np.ndarray:
    """Parameters (..., P) with the proportions of a body."""
    out = np.array(values, float)
    for name, value in proportions_of(rig).items():
        out[..., parameters.INDEX[name]] = value
    return out


def to_local(rig: Skeleton, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """rot_local (F, J, 3) [rad] and the Hips' head (F, 3) [m, armature] of core rotations and heads."""
    rot = rig.from_core(rotations.axis_angle_from_matrix(turns))
    return rot, root @ rig.axes
