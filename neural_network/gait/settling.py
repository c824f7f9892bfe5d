# SPDX-License-Identifier: GPL-3.0-or-later
"""Settling: the way of the Hips and the roll of the feet that let the legs keep their curves while the feet stand.

Near a straight knee a centimetre of the Hips' height is ten degrees of the knee, so the Hips may not be put just anywhere.
What is free is sought by damped Gauss-Newton steps: a few harmonics of the Hips' way forward and up, where the heels come down,
and by how much each foot's pitch differs from its curve while it stands. What is least are the changes of hip, knee and ankle,
seen from the side, that exact feet then ask for; an ankle out of reach costs more than anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.skeleton import Skeleton
from ..ik import foot_pins
from .curves import basis, coefficients
from .planting import TOE_BENDS, raised

HARMONICS = 5
ANGLES = np.array([4.0, 4.0, 4.0])  # [deg] changes of hip, knee and ankle that cost alike
PITCH = 5.0  # [deg] of a standing foot's pitch
BUMPS = 7  # of a standing foot's pitch, evenly over its stance
WAY = np.array([0.03, 0.06])  # [leg lengths] of the Hips, forward and up, from where captured people have them
FLIGHT = 0.004  # the same up, for who runs: in flight nothing else says where the Hips are
REACH = 0.004  # [leg lengths] by which an ankle may be out of reach
STEPS = 25


@dataclass(frozen=True)
class Legs:
    """The legs at N phases while their feet stand, seen from the side; back and up, heel up and bent are positive [m, rad]."""

    hip: np.ndarray
    """(2, N, 3) heads of the thighs, relative to the Hips' head."""
    ankle: np.ndarray
    """(2, N, 3) ankles of the curves, relative to the Hips' head."""
    pitch: np.ndarray
    """(2, N) pitch of the feet on the floor, by the curves."""
    share: np.ndarray
    """(2, N) of the stance that is over; above 1 after it, below 0 before it, whichever is nearer."""
    stance: np.ndarray
    """(2) share of the cycle that each foot stands."""
    along: np.ndarray
    """(2, N) [m] how far the moving point is ahead of where it was when the foot struck."""
    side: np.ndarray
    """(2) [m] where the heels come down to the left of the way."""


@dataclass(frozen=True)
class Settled:
    """What was found."""

    way: np.ndarray
    """(2 HARMONICS + 1, 2) Fourier coefficients [m] of the Hips' offset from the moving point, back and up."""
    place: float
    """[m] how far ahead of the moving point a heel comes down."""
    pitch: np.ndarray
    """(2, N) [rad] of the feet on the floor, and on the way to and from it; elsewhere that of the curves."""
    cost: float


def settle(
    rig: Skeleton, phase: np.ndarray, legs: Legs, prior: np.ndarray, rise: float, run: float, on_toes: float
) -> Settled:
    """Find where the Hips go.

    Args:
        rig: the body.
        phase: (N) evenly spaced.
        legs: their curves.
        prior: (N, 3) [m] the captured way of the Hips, to the left, back and up.
        rise: of the floor, per way.
        run: 0 walks, 1 runs.
        on_toes: 0 to 1, see :func:`.planting.raised`.
    """
    problem = _Problem(rig, phase, legs, prior, rise, run, on_toes)
    x = problem.start()
    residual = problem.residual(x[None])[0]
    damping = 1e-3
    for _ in range(STEPS):
        step = 1e-4
        moved = problem.residual(x + step * np.eye(len(x)))
        slopes = (moved - residual).T / step
        system, right = slopes.T @ slopes, slopes.T @ residual
        for _ in range(4):
            change = np.linalg.solve(system + damping * np.diag(np.diag(system) + 1e-9), -right)
            new = problem.residual((x + change)[None])[0]
            if new @ new < residual @ residual:
                break
            damping *= 10
        else:
            break
        done = residual @ residual - new @ new < 1e-5 * (residual @ residual)
        x, residual, damping = x + change, new, damping * 0.2
        if done:
            break
    way, place, pitch = problem.unpacked(x[None])
    return Settled(way[0], float(place[0]), pitch[0], float(residual @ residual))


class _Problem:
    """The residuals; M candidates at once."""

    def __init__(
        self,
        rig: Skeleton,
        phase: np.ndarray,
        legs: Legs,
        prior: np.ndarray,
        rise: float,
        run: float,
        on_toes: float,
    ) -> None:
        self.legs, self.rise, self.leg = legs, rise, rig.leg_length
        self.on_toes = on_toes
        self.slope = float(np.arctan(rise))
        shape = foot_pins.soles(rig)
        self.u = np.array([rig.offsets[leg[1]] for leg in rig.legs])
        self.o = np.array([rig.offsets[leg[2]] for leg in rig.legs])
        self.to_ankle, self.to_toe, self.to_tip = shape.ankle[:, 1:], shape.toe[:, 1:], shape.tip[:, 1:]
        self.basis = basis(phase, HARMONICS)
        size = self.basis.shape[1]
        self.captured = coefficients(prior, HARMONICS)[:, 1:]
        # a phase counts by how much of its neighbourhood the foot stands, so that nothing jumps when a strike passes it
        stance = legs.stance[:, None]
        room = np.minimum(legs.share, 1 - legs.share) * stance
        self.stands = np.clip(0.5 + room * len(phase), 0, 1)
        self.weight = self.stands * np.sin(np.pi * np.clip(0.12 + 0.76 * legs.share, 0.12, 0.88)) ** 0.5
        centres = np.linspace(0, 1, BUMPS)
        near = [(legs.share + cycle / stance)[..., None] - centres for cycle in (-1, 0, 1)]
        self.bumps = sum(np.exp(-0.5 * (away * (BUMPS - 1) / 0.75) ** 2) for away in near)
        self.sizes = (size - 1, size, 1, BUMPS, BUMPS)
        up = WAY[1] + run * (FLIGHT - WAY[1])
        harmonic = np.r_[0.3, np.tile(np.arange(1, HARMONICS + 1), 2)]
        self.way_weight = np.stack([harmonic / WAY[0], harmonic / up], axis=1) / self.leg
        self.way_weight[0, 1] /= 3 - 2 * run
        self.lateral = (prior[:, 0] - prior[:, 0].mean())[None] + 0 * legs.share
        self.before = self.seen(legs.ankle - legs.hip)

    def start(self) -> np.ndarray:
        x = np.zeros(sum(self.sizes))
        size = self.sizes[1]
        x[: size - 1] = self.captured[1:, 0] / self.leg
        x[size - 1 : 2 * size - 1] = self.captured[:, 1] / self.leg
        back = (self.legs.ankle[..., 1] - self.rolled(self.legs.pitch)[..., 0] + self.legs.along) * self.weight
        x[2 * size - 1] = -back.sum() / self.weight.sum() / self.leg
        return x

    def unpacked(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients (M, K, 2) [m], places (M) [m] and pitches (M, 2, N) of candidates (M, X)."""
        size = self.sizes[1]
        way = np.zeros((len(x), size, 2))
        way[:, 1:, 0] = x[:, : size - 1] * self.leg
        way[:, :, 1] = x[:, size - 1 : 2 * size - 1] * self.leg
        bent = x[:, 2 * size :].reshape(len(x), 2, BUMPS)
        pitch = self.legs.pitch + np.einsum("mkb,knb->mkn", bent, self.bumps)
        return way, x[:, 2 * size - 1] * self.leg, raised(pitch, np.asarray(self.on_toes))

    def residual(self, x: np.ndarray) -> np.ndarray:
        """(M, R) what is to be least."""
        way, place, pitch = self.unpacked(x)
        hips = np.einsum("nk,mkc->mnc", self.basis, way)
        rolled = self.rolled(pitch)
        far = place[:, None, None] - self.legs.along  # of the heel, ahead of the moving point
        ankle = np.empty((*pitch.shape, 3))
        ankle[..., 0] = self.legs.side[:, None] - self.lateral
        ankle[..., 1] = rolled[..., 0] - far - hips[:, None, :, 0]
        ankle[..., 2] = rolled[..., 1] + self.rise * far - hips[:, None, :, 1]
        thigh, knee, over = self.seen(ankle - self.legs.hip)
        was_thigh, was_knee, _ = self.before
        hip = was_thigh - thigh
        bent = knee - was_knee
        turned = pitch - self.legs.pitch
        dorsal = -turned - hip + bent
        angles = np.degrees(np.stack([hip, bent, dorsal], axis=-1)) / ANGLES * self.weight[..., None]
        reach = over / (REACH * self.leg) * self.stands
        pitches = np.degrees(turned) / PITCH * self.weight
        drawn = (way - self.captured) * self.way_weight
        drawn[:, 0, 0] = 0
        count = np.sqrt(self.weight.sum() / 12)
        return np.concatenate(
            [v.reshape(len(x), -1) for v in (angles, reach, 0.7 * pitches, drawn * count, 0.2 * x[:, -2 * BUMPS :])],
            axis=1,
        )

    def seen(self, way: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Thigh's turn and knee's bend (..., 2, N) [rad] about the left axis for ankles (..., 2, N, 3) seen from the hips,
        and by how much they are out of reach [m]."""
        u, o = self.u, self.o
        along, across = u[:, 1] * o[:, 1] + u[:, 2] * o[:, 2], u[:, 2] * o[:, 1] - u[:, 1] * o[:, 2]
        size = np.hypot(along, across)
        fixed = np.sum(u * u, axis=1) + np.sum(o * o, axis=1) + 2 * u[:, 0] * o[:, 0]
        straight = np.arctan2(across, along)
        longest = np.sqrt(fixed + 2 * size) * foot_pins.STRETCH
        far = np.linalg.norm(way, axis=-1)
        over = np.maximum(far - 0.998 * longest[:, None], 0)
        share = (np.minimum(far, longest[:, None] * 0.9999) ** 2 - fixed[:, None]) / (2 * size[:, None])
        knee = straight[:, None] + np.arccos(np.clip(share, -1, 1 - 1e-6))
        y = u[:, 1, None] + o[:, 1, None] * np.cos(knee) - o[:, 2, None] * np.sin(knee)
        z = u[:, 2, None] + o[:, 1, None] * np.sin(knee) + o[:, 2, None] * np.cos(knee)
        thigh = np.arctan2(way[..., 1], -way[..., 2]) - np.arctan2(y, -z)
        return thigh, knee, over

    def rolled(self, pitch: np.ndarray) -> np.ndarray:
        """Ankles (..., 2, N, 2) [m] back of and above the flat heel, for pitches (..., 2, N) on the floor."""
        heel = _turned(self.to_ankle[:, None], pitch)
        toe = np.maximum(pitch - TOE_BENDS, 0)
        flat = (self.to_ankle + self.to_toe + self.to_tip)[:, None]
        over = flat - _turned(self.to_tip[:, None], toe) - _turned(self.to_toe[:, None], pitch)
        return _turned(np.where((pitch <= 0)[..., None], heel, over), np.full_like(pitch, -self.slope))


def _turned(vector: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """(back, up) vectors (..., 2) turned about the left axis by ``angle`` (...)."""
    y, z = vector[..., 0], vector[..., 1]
    return np.stack([y * np.cos(angle) - z * np.sin(angle), y * np.sin(angle) + z * np.cos(angle)], axis=-1)
