# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact feet: a walk whose feet nearly stand becomes one whose feet stand, on any ground.

Every time a foot stands it gets a *stance*: a place where its flat sole belongs. While it stands, the foot rolls over its heel,
lies flat, and leaves over ball and tip, exactly (:func:`.foot_pins.rolled`); between two stances its way is the one it had, bent
so that it begins and ends there. The Hips give way where a leg would not reach. Core axes, metres; frames on the first axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core import rotations
from ..core.contacts import TRUTH
from ..core.skeleton import Skeleton
from ..ik import foot_pins
from ..ik.foot_pins import Soles

FLAT = np.radians(2.0)  # pitch of a standing foot that is taken as flat
TOE_BENDS = np.radians(38.0)  # a toe bends so far before its foot rolls over the tip
CLEAR = 0.012  # [leg lengths] at least, of a swinging foot in the middle of its swing
HIP_SMOOTH = 1.2  # [frames] over which the Hips give way
EASE = 0.35  # share of a swing over which its ends are bent to the stances

Ground = Callable[[np.ndarray], np.ndarray]
"""Heights (...) [m] of the floor under points (..., 2) [m]."""


@dataclass(frozen=True)
class Stance:
    """One time that a foot stands."""

    foot: int
    begin: float
    """Frame of the strike, with fractions."""
    end: float
    """Frame at which the foot is lifted."""
    heel: np.ndarray | None = None
    """(2) [m] where the flat foot's heel is; None: where the motion has it."""
    heading: float | None = None
    """[rad] where the flat foot points, 0 along -Y and positive to the left; None: where the motion has it."""


@dataclass(frozen=True)
class Planted:
    """Motion whose feet stand."""

    turns: np.ndarray
    """(F, J, 3, 3) local core rotations."""
    root: np.ndarray
    """(F, 3) the Hips' head [m]."""
    contact: np.ndarray
    """(F, feet) bool, frames in which a foot stands."""
    stances: tuple[Stance, ...]
    """With their places filled in."""
    missing: float
    """[m] the most by which a leg does not reach, after the Hips gave way."""


def flat_ground(points: np.ndarray) -> np.ndarray:
    """A floor at height 0."""
    return np.zeros(points.shape[:-1])


def plant(
    rig: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    stances: list[Stance],
    ground: Ground = flat_ground,
    clear: np.ndarray | float = CLEAR,
    least_pitch: np.ndarray | None = None,
) -> Planted:
    """The motion with feet that stand.

    Args:
        rig: with legs of thigh, shin, foot and toe.
        turns: (F, J, 3, 3) local core rotations of a walk that nearly stands.
        root: (F, 3) [m] the Hips' head.
        stances: of both feet, in order of time; those that begin before the first frame or end after the last one count.
        ground: heights of the floor.
        clear: how far from the floor a foot is kept in mid-swing [leg lengths], of each foot or of both. Below 0 its
            swing is lowered until it passes at so much above the floor.
        least_pitch: (F, feet) [rad] heels are at least so far up while they stand; None: not at all.
    """
    shape = foot_pins.soles(rig)
    turned, heads = foot_pins.forward(rig, turns, root)
    frames = len(root)
    ankles = np.empty((frames, 2, 3))
    feet = np.empty((frames, 2, 3, 3))
    toes = np.empty((frames, 2, 3, 3))
    contact = np.zeros((frames, 2), bool)
    placed: list[Stance] = []
    clears = np.broadcast_to(np.asarray(clear, float), (2,)) * rig.leg_length
    for k in (0, 1):
        own = [s for s in stances if s.foot == k]
        foot = _Foot(rig, shape, k, turned, heads, ground)
        own = [foot.placed(s) for s in own]
        least = None if least_pitch is None else least_pitch[:, k]
        ankles[:, k], feet[:, k], toes[:, k], contact[:, k] = foot.way(own, float(clears[k]), least)
        placed += own
    out_root = _reachable(rig, turns, root, ankles)
    out, missing = foot_pins.legs_to(rig, turns, out_root, ankles, feet, toes)
    order = tuple(sorted(placed, key=lambda s: s.begin))
    return Planted(out, out_root, contact, order, float(missing.max(initial=0)))


def _reachable(rig: Skeleton, turns: np.ndarray, root: np.ndarray, ankles: np.ndarray) -> np.ndarray:
    """The Hips' heads (F, 3), lower where a leg would not reach, smoothly."""
    reach = foot_pins.soles(rig).reach * foot_pins.STRETCH * 0.9996
    hips = foot_pins.forward(rig, turns, root)[1][:, [leg[0] for leg in rig.legs]]
    out = root.copy()
    for _ in range(6):
        way = hips + (out - root)[:, None] - ankles
        level = np.hypot(way[..., 0], way[..., 1])
        highest = np.sqrt(np.maximum(reach**2 - level**2, 0.05 * reach**2))
        over = np.maximum(way[..., 2] - highest, 0).max(axis=1)
        if over.max(initial=0) < 1e-6:
            break
        out[:, 2] -= _bump(over)
    return out


def _bump(values: np.ndarray, width: float = HIP_SMOOTH) -> np.ndarray:
    """A smooth curve (F) as high as ``values`` (F) where these are highest."""
    reach = int(np.ceil(3 * width))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    smooth = np.convolve(np.pad(values, reach, mode="edge"), kernel / kernel.sum(), "valid")
    return np.asarray(smooth * (values.max() / max(smooth.max(), 1e-12)))


class _Foot:
    """The way of one foot."""

    def __init__(
        self, rig: Skeleton, shape: Soles, k: int, turned: np.ndarray, heads: np.ndarray, ground: Ground
    ) -> None:
        self.rig, self.shape, self.k, self.ground = rig, shape, k, ground
        foot, toe = rig.feet[k], rig.toes[k]
        self.turned, self.toe_turned = turned[:, foot], turned[:, toe]
        self.ankle = heads[:, foot]
        self.heading = heading_of(self.turned)
        self.frames = np.arange(len(heads))

    def rows(self, stance: Stance) -> np.ndarray:
        """The frames in which it stands."""
        return self.frames[(self.frames >= stance.begin - 1e-9) & (self.frames <= stance.end + 1e-9)]

    def placed(self, stance: Stance) -> Stance:
        """The stance with its place: where the flat sole is on average while the motion has the foot stand."""
        if stance.heel is not None and stance.heading is not None:
            return stance
        rows = self.rows(stance)
        if not len(rows):
            return replace(stance, heel=np.zeros(2), heading=0.0)
        share = np.clip((rows - stance.begin) / max(stance.end - stance.begin, 1e-6), 0, 1)
        weight = np.exp(-0.5 * ((share - 0.4) / 0.18) ** 2)
        weight /= weight.sum()
        headings = self.heading[rows]
        middle = float(np.arctan2(weight @ np.sin(headings), weight @ np.cos(headings)))
        heading = middle if stance.heading is None else stance.heading
        if stance.heel is not None:
            return replace(stance, heading=heading)
        pitch, toe_pitch = self.pitches(rows, heading, np.zeros(len(rows)))
        ankles, _, _ = self.rolled(np.zeros((len(rows), 3)), heading, pitch, toe_pitch, np.eye(3))
        heel = weight @ (self.ankle[rows] - ankles)[:, :2]
        return replace(stance, heel=heel, heading=heading)

    def pitches(
        self, rows: np.ndarray, heading: float, slope: np.ndarray, least: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n) [rad] by how much heel and toe of the standing foot are up; a toe is flat until its foot bends it enough."""
        ahead = -self.turned[rows, :, 1]
        level = np.hypot(ahead[:, 0], ahead[:, 1])
        pitch = -np.arctan2(ahead[:, 2], level) + slope
        if least is not None:
            pitch = np.where(least > 0, 0.5 * (pitch + least + np.hypot(pitch - least, 0.1)), pitch)
        pitch = np.sign(pitch) * np.sqrt(np.maximum(pitch**2 - FLAT**2, 0))
        return pitch, np.where(pitch < 0, pitch, np.maximum(pitch - TOE_BENDS, 0))

    def rolled(
        self, heel: np.ndarray, heading: float, pitch: np.ndarray, toe_pitch: np.ndarray, tilt: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ankles (n, 3), foot and toe rotations (n, 3, 3) of the foot that stands with its flat heel at ``heel`` (n, 3)."""
        yaw = tilt @ rotations.matrix_from_axis_angle(np.array([0, 0, heading]))
        zero = 0 * pitch
        turned = rotations.matrix_from_axis_angle(np.stack([pitch, zero, zero], axis=1))
        toe = rotations.matrix_from_axis_angle(np.stack([toe_pitch, zero, zero], axis=1))
        local = foot_pins.rolled(self.shape, self.k, np.zeros((len(pitch), 3)), turned, toe, pitch <= 0)
        return heel + np.einsum("ab,nb->na", yaw, local), yaw @ turned, yaw @ toe

    def stand(self, stance: Stance, rows: np.ndarray, least: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Ankles, foot and toe rotations of the foot in frames (n) as it stands in a stance."""
        assert stance.heel is not None
        assert stance.heading is not None
        tilt, height = self.tilted(stance.heel, stance.heading)
        slope = np.full(len(rows), np.arcsin(np.clip(-(tilt @ _ahead(stance.heading))[2], -1, 1)))
        pitch, toe_pitch = self.pitches(rows, stance.heading, -slope, None if least is None else least[rows])
        heel = np.broadcast_to(np.array([*stance.heel, height]), (len(rows), 3))
        return self.rolled(heel, stance.heading, pitch, toe_pitch, tilt)

    def tilted(self, heel: np.ndarray, heading: float) -> tuple[np.ndarray, float]:
        """The rotation (3, 3) from a level floor to the floor under the flat sole, and the height of the heel [m]."""
        ahead = _ahead(heading)[:2]
        far = np.array([self.shape.length[self.k], self.shape.length[self.k] + TRUTH.tip])  # of ball and tip
        low, *rest = self.ground(np.stack([heel, heel + far[0] * ahead, heel + far[1] * ahead]))
        pitch = float(np.arctan2(np.array(rest) - low, far).max())  # neither is below the floor
        side = np.array([np.cos(heading), np.sin(heading), 0.0])
        return rotations.matrix_from_axis_angle(-pitch * side), float(low)

    def way(
        self, stances: list[Stance], clear: float, least: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Ankles (F, 3), foot and toe rotations (F, 3, 3), and whether the foot stands (F)."""
        ankles, feet, toes = self.ankle.copy(), self.turned.copy(), self.toe_turned.copy()
        stands = np.zeros(len(self.frames), bool)
        for stance in stances:
            rows = self.rows(stance)
            if len(rows):
                ankles[rows], feet[rows], toes[rows] = self.stand(stance, rows, least)
                stands[rows] = True
        for before, after in zip([None, *stances], [*stances, None], strict=True):
            begin = -1.0 if before is None else before.end
            end = float(len(self.frames)) if after is None else after.begin
            rows = self.frames[(self.frames > begin + 1e-9) & (self.frames < end - 1e-9)]
            if len(rows):
                self.swing(rows, stands, ankles, feet, toes, before, after, clear)
        return ankles, feet, toes, stands

    def swing(
        self,
        rows: np.ndarray,
        stands: np.ndarray,
        ankles: np.ndarray,
        feet: np.ndarray,
        toes: np.ndarray,
        before: Stance | None,
        after: Stance | None,
        clear: float,
    ) -> None:
        """Bend the frames ``rows`` between two stances, in place, so that they begin and end as these do."""
        ends = [r if 0 <= r < len(self.frames) and stands[r] else None for r in (int(rows[0]) - 1, int(rows[-1]) + 1)]
        first = rows[0] - 1 if ends[0] is not None else rows[0] - 1e-6
        last = rows[-1] + 1 if ends[1] is not None else rows[-1] + 1e-6
        share = (rows - first) / (last - first)
        away = [np.zeros(3) if r is None else ankles[r] - self.ankle[r] for r in ends]
        if ends[0] is None:
            away[0] = away[1]
        if ends[1] is None:
            away[1] = away[0]
        blend = _eased(share)[:, None]
        ankles[rows] = self.ankle[rows] + (1 - blend) * away[0] + blend * away[1]
        for now, own in ((feet, self.turned), (toes, self.toe_turned)):
            for r, ease in ((ends[0], 1 - _eased(share / EASE)), (ends[1], 1 - _eased((1 - share) / EASE))):
                if r is not None:
                    more = rotations.axis_angle_from_matrix(now[r] @ own[r].T)
                    now[rows] = rotations.matrix_from_axis_angle(ease[:, None] * more) @ now[rows]
        self.lift(rows, share, ankles, feet, toes, clear)

    def lift(
        self, rows: np.ndarray, share: np.ndarray, ankles: np.ndarray, feet: np.ndarray, toes: np.ndarray, clear: float
    ) -> None:
        """Keep the sole of a swinging foot off the floor, in place; ``clear`` below 0 lowers it to that."""
        room = np.sin(np.pi * share) ** 2
        low = self.lowest(ankles[rows], feet[rows], toes[rows])
        if clear < 0:
            middle = (share > 0.25) & (share < 0.75)
            over = low[middle].min() + clear if middle.any() else 0.0
            ankles[rows, 2] -= max(over, 0.0) * np.minimum(1, 2 * room)
            low = self.lowest(ankles[rows], feet[rows], toes[rows])
        least = abs(clear) * room
        ankles[rows, 2] += np.maximum(least - low, 0)

    def lowest(self, ankles: np.ndarray, feet: np.ndarray, toes: np.ndarray) -> np.ndarray:
        """(n) [m] how far the lowest of heel, ball and tip is above the floor under it."""
        points = sole_points(self.shape, self.k, ankles, feet, toes)
        return np.asarray((points[..., 2] - self.ground(points[..., :2])).min(axis=1))


def sole_points(shape: Soles, k: int, ankles: np.ndarray, feet: np.ndarray, toes: np.ndarray) -> np.ndarray:
    """Heel, ball and tip (n, 3, 3) of a foot with its ankle (n, 3) and rotations (n, 3, 3) of foot and toe."""
    head = ankles + np.einsum("nab,b->na", feet, shape.toe[k])
    down = np.array([0.0, 0, -shape.height[k, 1]])
    return np.stack(
        [
            ankles - np.einsum("nab,b->na", feet, shape.ankle[k]),
            head + np.einsum("nab,b->na", toes, down),
            head + np.einsum("nab,b->na", toes, shape.tip[k]),
        ],
        axis=1,
    )


def heading_of(turned: np.ndarray) -> np.ndarray:
    """(...) [rad] where rotations (..., 3, 3) from the T-pose point on the floor: 0 along -Y, positive to the left."""
    return np.arctan2(-turned[..., 0, 1], turned[..., 1, 1])


def _ahead(heading: float) -> np.ndarray:
    return np.array([np.sin(heading), -np.cos(heading), 0.0])


def _eased(share: np.ndarray) -> np.ndarray:
    """From 0 to 1 without a jump of speed or of its change."""
    x = np.clip(share, 0, 1)
    return np.asarray(x**3 * (10 - 15 * x + 6 * x**2))
