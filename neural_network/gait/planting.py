# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact feet: a walk whose feet nearly stand becomes one whose feet stand, on any ground.

Every time a foot stands it gets a *stance*: a place where its flat sole belongs. While it stands, the foot rolls over its heel,
lies flat, and leaves over ball and tip, exactly (:func:`.foot_pins.rolled`); between two stances its way is the one it had, bent
so that it begins and ends there. The Hips give way where a leg would not reach. Core axes, metres; frames on the first axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core import rotations
from ..core.contacts import TRUTH
from ..core.skeleton import Skeleton
from ..ik import foot_pins
from ..ik.foot_pins import Ground, Soles, eased, flat_ground, sole_points

FLAT = np.radians(2.0)  # pitch of a standing foot that is taken as flat
ON_TOES = np.radians(15.0)  # how far the heels of somebody on tiptoe are up at least
SOFT = 0.1  # [rad] over which a heel that would be lower gets there
TOE_BENDS = np.radians(38.0)  # a toe bends so far before its foot rolls over the tip
CLEAR = 0.012  # [leg lengths] at least, of a swinging foot in the middle of its swing
HIP_SMOOTH = 1.2  # [frames] over which the Hips give way
FARTHEST = 0.2  # [leg lengths] from where the motion has a foot strike to where it is put
EASE = 0.35  # share of a swing over which its ends are bent to the stances


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


def plant(
    rig: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    stances: list[Stance],
    ground: Ground = flat_ground,
    clear: np.ndarray | float = CLEAR,
    lowered: np.ndarray | float = 0.0,
    on_toes: np.ndarray | None = None,
    flat: float = FLAT,
) -> Planted:
    """The motion with feet that stand.

    Args:
        rig: with legs of thigh, shin, foot and toe.
        turns: (F, J, 3, 3) local core rotations of a walk that nearly stands.
        root: (F, 3) [m] the Hips' head.
        stances: of both feet, in order of time; those that begin before the first frame or end after the last one count.
        ground: heights of the floor.
        clear: how far from the floor a foot is kept in mid-swing [leg lengths], of each foot or of both.
        lowered: share of the way by which a swing is lowered to ``clear``, of each foot or of both.
        on_toes: (F, feet) 0 to 1, see :func:`raised`; None: not at all.
        flat: [rad] pitch of a standing foot that is taken as flat.
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
    shares = np.broadcast_to(np.asarray(lowered, float), (2,))
    for k in (0, 1):
        own = [s for s in stances if s.foot == k]
        foot = _Foot(rig, shape, k, turned, heads, ground, None if on_toes is None else on_toes[:, k], flat)
        own = [foot.placed(s) for s in own]
        ankles[:, k], feet[:, k], toes[:, k], contact[:, k] = foot.way(own, float(clears[k]), float(shares[k]))
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


def raised(pitch: np.ndarray, on_toes: np.ndarray) -> np.ndarray:
    """Pitches (...) [rad] of feet on tiptoe: ``on_toes`` (...), 0 to 1, of the way to a heel that is at least 15 degrees up."""
    return np.asarray(pitch + on_toes * 0.5 * (ON_TOES - pitch + np.hypot(pitch - ON_TOES, SOFT)))


@dataclass(frozen=True)
class _Posed:
    """A foot at some times (n), whole frames or between two: as the motion has it, or as it stands."""

    ankle: np.ndarray  # (n, 3) [m]
    foot: np.ndarray  # (n, 3, 3) rotations from the T-pose
    toe: np.ndarray

    def at(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.ankle[i], self.foot[i], self.toe[i]


class _Foot:
    """The way of one foot."""

    def __init__(
        self,
        rig: Skeleton,
        shape: Soles,
        k: int,
        turned: np.ndarray,
        heads: np.ndarray,
        ground: Ground,
        on_toes: np.ndarray | None,
        flat: float,
    ) -> None:
        self.rig, self.shape, self.k, self.ground = rig, shape, k, ground
        self.on_toes, self.flat = on_toes, flat
        foot, toe = rig.feet[k], rig.toes[k]
        self.turned, self.toe_turned = turned[:, foot], turned[:, toe]
        self.ankle = heads[:, foot]
        self.heading = heading_of(self.turned)
        self.frames = np.arange(len(heads))

    def rows(self, stance: Stance) -> np.ndarray:
        """The frames in which it stands."""
        return self.frames[(self.frames >= stance.begin - 1e-9) & (self.frames <= stance.end + 1e-9)]

    def placed(self, stance: Stance) -> Stance:
        """The stance with its place: where the flat sole is on average while the motion has the foot stand, but no farther than
        a leg reaches from where it strikes."""
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
        pitch, toe_pitch = self.pitches(self.turned[rows], np.zeros(len(rows)))
        ankles, _, _ = self.rolled(np.zeros((len(rows), 3)), heading, pitch, toe_pitch, np.eye(3))
        ways = (self.ankle[rows] - ankles)[:, :2]
        heel = weight @ ways
        far = float(np.linalg.norm(heel - ways[0]))
        heel = ways[0] + min(1.0, FARTHEST * self.rig.leg_length / max(far, 1e-9)) * (heel - ways[0])
        return replace(stance, heel=heel, heading=heading)

    def pitches(
        self, turned: np.ndarray, slope: np.ndarray, on_toes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n) [rad] by how much heel and toe of a standing foot with rotations (n, 3, 3) are up; a toe is flat until its
        foot bends it enough."""
        ahead = -turned[:, :, 1]
        pitch = -np.arctan2(ahead[:, 2], np.hypot(ahead[:, 0], ahead[:, 1])) + slope
        if on_toes is not None:
            pitch = raised(pitch, on_toes)
        pitch = np.sign(pitch) * np.sqrt(np.maximum(pitch**2 - self.flat**2, 0))
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

    def own(self, times: np.ndarray) -> _Posed:
        """The foot as the motion has it at times (n), in frames with fractions."""
        low = np.clip(np.floor(times).astype(int), 0, max(len(self.frames) - 2, 0))
        high = np.minimum(low + 1, len(self.frames) - 1)
        share = (times - low)[:, None]
        rows = [
            self.ankle,
            *(rotations.sixd_from_matrix(turns).reshape(-1, 6) for turns in (self.turned, self.toe_turned)),
        ]
        ankle, foot, toe = ((1 - share) * values[low] + share * values[high] for values in rows)
        return _Posed(ankle, *(rotations.matrix_from_sixd(six) for six in (foot, toe)))

    def stand(self, stance: Stance, times: np.ndarray, turned: np.ndarray) -> _Posed:
        """The foot as it stands in a stance at times (n); ``turned`` (n, 3, 3) as the motion has it."""
        assert stance.heel is not None
        assert stance.heading is not None
        tilt, height = self.tilted(stance.heel, stance.heading)
        slope = np.full(len(times), np.arcsin(np.clip(-(tilt @ _ahead(stance.heading))[2], -1, 1)))
        on_toes = None if self.on_toes is None else np.interp(times, self.frames, self.on_toes)
        pitch, toe_pitch = self.pitches(turned, -slope, on_toes)
        heel = np.broadcast_to(np.array([*stance.heel, height]), (len(times), 3))
        return _Posed(*self.rolled(heel, stance.heading, pitch, toe_pitch, tilt))

    def tilted(self, heel: np.ndarray, heading: float) -> tuple[np.ndarray, float]:
        """The rotation (3, 3) from a level floor to the floor under the flat sole, and the height of the heel [m]."""
        ahead = _ahead(heading)[:2]
        far = np.array([self.shape.length[self.k], self.shape.length[self.k] + TRUTH.tip])  # of ball and tip
        low, *rest = self.ground(np.stack([heel, heel + far[0] * ahead, heel + far[1] * ahead]))
        pitch = float(np.arctan2(np.array(rest) - low, far).max())  # neither is below the floor
        side = np.array([np.cos(heading), np.sin(heading), 0.0])
        return rotations.matrix_from_axis_angle(-pitch * side), float(low)

    def way(
        self, stances: list[Stance], clear: float, lowered: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Ankles (F, 3), foot and toe rotations (F, 3, 3), and whether the foot stands (F)."""
        way = _Posed(self.ankle.copy(), self.turned.copy(), self.toe_turned.copy())
        stands = np.zeros(len(self.frames), bool)
        for stance in stances:
            rows = self.rows(stance)
            if len(rows):
                found = self.stand(stance, rows, self.turned[rows])
                way.ankle[rows], way.foot[rows], way.toe[rows] = found.ankle, found.foot, found.toe
                stands[rows] = True
        for before, after in zip([None, *stances], [*stances, None], strict=True):
            begin = -1.0 if before is None else before.end
            end = float(len(self.frames)) if after is None else after.begin
            rows = self.frames[(self.frames > begin + 1e-9) & (self.frames < end - 1e-9)]
            if len(rows):
                self.swing(rows, way, before, after, clear, lowered)
        return way.ankle, way.foot, way.toe, stands

    def away(self, stance: Stance | None, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """How far the standing foot is from where the motion has it at a time [frames]: ankle (3) [m], turns (3) [rad] of foot
        and toe; None where there is no stance or no motion."""
        if stance is None or not 0 <= time <= len(self.frames) - 1:
            return None
        own = self.own(np.array([time]))
        ankle, foot, toe = self.stand(stance, np.array([time]), own.foot).at(0)
        turns = np.stack([foot @ own.foot[0].T, toe @ own.toe[0].T])
        return ankle - own.ankle[0], *rotations.axis_angle_from_matrix(turns)

    def swing(
        self, rows: np.ndarray, way: _Posed, before: Stance | None, after: Stance | None, clear: float, lowered: float
    ) -> None:
        """Bend the frames ``rows`` between two stances, in place, so that they begin and end as these do, at the very moments
        at which the foot is lifted and strikes."""
        lifted = float(rows[0]) - 1e-6 if before is None else before.end
        strikes = float(rows[-1]) + 1e-6 if after is None else after.begin
        begin, end = self.away(before, lifted), self.away(after, strikes)
        if begin is None:
            lifted = float(rows[0]) - 1e-6
        if end is None:
            strikes = float(rows[-1]) + 1e-6
        share = (rows - lifted) / (strikes - lifted)
        nothing = np.zeros(3)
        first = begin[0] if begin is not None else end[0] if end is not None else nothing
        last = end[0] if end is not None else first
        blend = eased(share)[:, None]
        way.ankle[rows] += (1 - blend) * first + blend * last
        for more, ease in ((begin, 1 - eased(share / EASE)), (end, 1 - eased((1 - share) / EASE))):
            if more is not None:
                for now, turn in zip((way.foot, way.toe), more[1:], strict=True):
                    now[rows] = rotations.matrix_from_axis_angle(ease[:, None] * turn) @ now[rows]
        self.lift(rows, share, way, clear, lowered)

    def lift(self, rows: np.ndarray, share: np.ndarray, way: _Posed, clear: float, lowered: float) -> None:
        """Keep the sole of a swinging foot off the floor, in place; ``lowered`` of the way down to ``clear`` [m]."""
        room = np.sin(np.pi * share) ** 2
        low = self.lowest(way.ankle[rows], way.foot[rows], way.toe[rows])
        middle = (share > 0.25) & (share < 0.75)
        if lowered and middle.any():
            down = lowered * max(low[middle].min() - clear, 0.0) * np.minimum(1, 2 * room)
            way.ankle[rows, 2] -= down
            low = self.lowest(way.ankle[rows], way.foot[rows], way.toe[rows])
        way.ankle[rows, 2] += np.maximum(clear * room - low, 0)

    def lowest(self, ankles: np.ndarray, feet: np.ndarray, toes: np.ndarray) -> np.ndarray:
        """(n) [m] how far the lowest of heel, ball and tip is above the floor under it."""
        points = sole_points(self.shape, self.k, ankles, feet, toes)
        return np.asarray((points[..., 2] - self.ground(points[..., :2])).min(axis=1))


def heading_of(turned: np.ndarray) -> np.ndarray:
    """(...) [rad] where rotations (..., 3, 3) from the T-pose point on the floor: 0 along -Y, positive to the left."""
    return np.arctan2(-turned[..., 0, 1], turned[..., 1, 1])


def _ahead(heading: float) -> np.ndarray:
    return np.array([np.sin(heading), -np.cos(heading), 0.0])
