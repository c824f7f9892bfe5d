# SPDX-License-Identifier: GPL-3.0-or-later
"""Match This Walk: the parameters of a walk that exists.

What can be measured is measured: step and cadence, width, turn, lean, swing and sway beside those of the network's own walk.
Then damped Gauss-Newton steps on the other sliders and the styles bring the network's cycle as near to the captured one as they
go. Step, cadence, turn and slope stay as measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton
from . import curves, parameters, representation
from .cycles import Cycle
from .network import Gait
from .parameters import INDEX, LEAST, MOST
from .representation import CYCLE, ROOT, SIXES, Pose
from .trainer import RUNS_FROM
from .walks import proportions_of

STEPS = 30
DRAWN = 0.12  # weight of a parameter, as a share of its range, against a degree of all joints
LEAST_ANGLE = 2.0  # [deg] below which a difference counts by its square
FREE = (
    "step_width",
    "trunk_lean",
    "bounce",
    "arm_swing",
    "hip_sway",
    "knee_lift",
    "toe_out",
    "asymmetry",
    "elbow",
    "arm_out",
    "head",
    "pelvis_tilt",
    *parameters.STYLES,
)
"""Parameters that are sought."""


@dataclass(frozen=True)
class Match:
    """What was found."""

    values: np.ndarray
    """(P)"""
    error: float
    """[deg] mean angle of all joints but the Hips between the network's cycle and the captured one."""
    cycles: int
    """How many were matched."""


def match(gait: Gait, rig: Skeleton, found: list[Cycle]) -> Match:
    """The parameters of captured cycles on a rig with the reference rig's bones; ValueError where there are none."""
    if not found:
        raise ValueError("match: expected a walk of at least one cycle, left strike to left strike, got none")
    target = np.mean([numbers_of(gait, rig, cycle) for cycle in found], axis=0)
    start = _start(gait, rig, found)
    values = _sought(gait, start, target)
    error = float(np.mean([error_of(gait, rig, cycle, values) for cycle in found]))
    return Match(values, error, len(found))


def late_of(gait: Gait, cycle: Cycle) -> float:
    """Share of the cycle from a captured strike to the network's."""
    return gait.model.late[1 if cycle.measured.speed > RUNS_FROM else 0]


def numbers_of(gait: Gait, rig: Skeleton, cycle: Cycle) -> np.ndarray:
    """A captured cycle as the network would say it (CYCLE, 101): its phase begins with the foot on the floor."""
    phase = np.arange(CYCLE) / CYCLE + late_of(gait, cycle)
    turns, root = shifted(cycle, phase)
    velocity = np.zeros((CYCLE, 2))
    return representation.encode(rig, Pose(turns, velocity, root[:, 2] * parameters.LEG / rig.leg_length))


def shifted(cycle: Cycle, phase: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A cycle's local rotations (N, J, 3, 3) and the Hips' offset (N, 3) at phases (N)."""
    half = len(cycle.root) // 2 - 1
    six = curves.coefficients(rotations.sixd_from_matrix(cycle.turns).reshape(len(cycle.root), -1), half)
    root = curves.coefficients(cycle.root, half)
    waves = curves.basis(np.mod(phase, 1), half)
    return rotations.matrix_from_sixd((waves @ six).reshape(len(phase), -1, 6)), waves @ root


def seen(gait: Gait, rig: Skeleton, cycle: Cycle) -> np.ndarray:
    """Local rotations (CYCLE, J, 3, 3) of a captured cycle as the 101 numbers hold them: elbows and knees are hinges."""
    return representation.decode(rig, numbers_of(gait, rig, cycle)).turns


def error_of(gait: Gait, rig: Skeleton, cycle: Cycle, values: np.ndarray) -> float:
    """[deg] mean angle of all joints but the Hips between what the network says for values (P) and a captured cycle."""
    said = representation.decode(rig, gait.numbers(values, np.arange(CYCLE) / CYCLE)).turns
    return difference(said, seen(gait, rig, cycle))


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """[deg] mean angle of all joints but the Hips between local rotations (N, J, 3, 3)."""
    return float(np.degrees(rotations.geodesic_angle(a[:, 1:], b[:, 1:])).mean())


def _start(gait: Gait, rig: Skeleton, found: list[Cycle]) -> np.ndarray:
    """Parameters that are measured, the others at their defaults; step and cadence for a body with legs of 0.945 m."""
    mean = {
        name: float(np.mean([getattr(c.measured, name) for c in found]))
        for name in (
            "speed",
            "cadence",
            "step_length",
            "step_width",
            "turn",
            "asymmetry",
            "lean",
            "arm_swing",
            "toe_out",
        )
    }
    scale = rig.leg_length / parameters.LEG
    out = parameters.DEFAULT.copy()
    for name, value in proportions_of(rig).items():
        out[INDEX[name]] = value
    own = rig.leg_length / float(parameters.leg_of(out))
    out[INDEX["step_length"]] = mean["step_length"] / own
    out[INDEX["cadence"]] = mean["cadence"] * np.sqrt(own)
    out[INDEX["step_width"]] = mean["step_width"] / own
    out[INDEX["turn"]] = mean["turn"] * own
    out[INDEX["asymmetry"]] = mean["asymmetry"] / 2
    out[INDEX["run"]] = 1.0 if mean["speed"] > RUNS_FROM * np.sqrt(scale) else 0.0
    return np.clip(out, LEAST, MOST)


def _sought(gait: Gait, start: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The parameters (P) from ``start`` on whose cycle is nearest to the 101 numbers of another (CYCLE, 101).

    The sum of all angles is least, not that of their squares: what is far off at a time counts by its angle alone (least squares
    whose weights follow from the angles of the step before).
    """
    phase = np.arange(CYCLE) / CYCLE
    free = np.array([INDEX[name] for name in FREE])
    size = MOST - LEAST
    weight = np.zeros(representation.SIZE)
    for block in _BLOCKS:
        weight[block] = _plain(block)
    weight[ROOT] = [0.0, 3.0, 0.0]
    counts = np.ones((CYCLE, representation.SIZE))

    def away(shares: np.ndarray) -> np.ndarray:
        """(M, CYCLE, 101) [deg] of shares (M, P)."""
        return np.degrees((gait.cycles(LEAST + shares * size, phase) - target) * weight)

    def residual(shares: np.ndarray) -> np.ndarray:
        """(M, R) of shares (M, P)."""
        off = away(shares) * counts / np.sqrt(CYCLE * 40)
        drawn = DRAWN * 100 * (shares - first)[:, free] / np.sqrt(len(free))
        return np.concatenate([off.reshape(len(shares), -1), drawn], axis=1)

    first = parameters.normalised(start)
    x = first.copy()
    best = residual(x[None])[0]
    damping = 1e-2
    for _ in range(STEPS):
        step = 0.02
        toward = np.where(x[free] > 1 - step, -step, step)
        moved = np.repeat(x[None], len(free), axis=0)
        moved[np.arange(len(free)), free] += toward
        slopes = ((residual(moved) - best) / toward[:, None]).T
        system = slopes.T @ slopes
        system += damping * np.diag(np.diag(system) + 1e-6)
        new = x.copy()
        new[free] = np.clip(x[free] - np.linalg.solve(system, slopes.T @ best), 0, 1)
        now = residual(new[None])[0]
        if now @ now < best @ best:
            x, damping = new, damping * 0.3
            counts = _counts(away(x[None])[0])
            best = residual(x[None])[0]
        else:
            damping *= 8
    out = LEAST + x * size
    slower = 1 - 0.08 * out[INDEX["tired"]]  # what a tired walk does to its pace is in the measured pace already
    out[INDEX["step_length"]] *= slower
    out[INDEX["cadence"]] /= slower
    return np.clip(out, LEAST, MOST)


def _counts(off: np.ndarray) -> np.ndarray:
    """(CYCLE, 101) by which differences (CYCLE, 101) [deg] are multiplied, so that their squares grow as the angles do."""
    out = np.ones_like(off)
    angles = np.stack([np.linalg.norm(off[:, block], axis=1) for block in _BLOCKS], axis=1)
    own = np.sqrt(angles.mean() / np.maximum(angles, LEAST_ANGLE))
    for block, column in zip(_BLOCKS, own.T, strict=True):
        out[:, block] = column[:, None]
    return out


_ONES = (15, 30, 75, 94, 22, 23, 37, 38)
_BLOCKS = (*(slice(at, at + 6) for at in SIXES), *(slice(at, at + 1) for at in _ONES))


def _plain(block: slice) -> float:
    """Weight of a joint's numbers: six of them move by 0.7 of an angle each; the Hips count half."""
    return 0.35 if block.start == 0 else 0.7 if block.stop - block.start == 6 else 1.0
