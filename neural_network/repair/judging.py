# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether motion is sound, and what is wrong with it where it is not: poses, root, floor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..core import metrics, rotations
from ..core.contacts import foot_points, tremble, trembles
from ..core.skeleton import Skeleton
from ..ik.foot_pins import Ground, flat_ground, forward
from . import rooting
from .corruption import KINDS
from .network import Said

PLACE = 0.4  # [m/s] standing feet of actions that walk in place go back faster than anything drifts
AT_REST = 0.25  # share of that speed: the root of such an action moves less
IN_PLACE = "The feet go as if this action walked in place, so nothing is changed; give it its way first, or make contacts by hand."
WALKS_ON = "Feet that seem to stand go on as if they did not, so nothing is changed; make contacts by hand where feet should stand."
SURE = 0.6  # chance from which something counts as wrong
SLIDES = (
    3.0,
    1.0,
)  # [mm a frame at 30 a second] standing feet of captured motion slide less on average, and for each m/s of the Hips
EITHER = 0.65  # chance that it drifts or has another speed, from which the root is wrong
WILD = 6.0  # times as fast as sound feet slide: feet that go on like that do not stand, whatever a network says
PERHAPS = 0.2  # the same where standing feet slide
STILL = 0.7  # share of those slides below which motion is not taken as smoothed: a hand-keyed action is as smooth, and its feet are right
CLOSE = 0.03  # share of a large change that counts as none
HELD = 0.4  # share of frames without a change, or without one of speed, from which frames may have been dropped
NEAR = 0.006  # [m] a floor that is off by less is not moved
SHORTEST = 8  # [frames] in which held ones are looked for
STANDS = 0.03  # [m] the standing feet of sound motion are no farther from the floor


@dataclass(frozen=True)
class Judgement:
    """What is wrong with motion."""

    pose: bool
    """Poses tremble, are smoothed or dropped."""
    jumps: bool
    """The root has lost or gained quick changes, as poses that are smoothed or dropped have."""
    root: bool
    """It drifts, or goes too fast or too slow."""
    floor: bool
    """It stands above or below the floor."""
    feet: bool = False
    """Standing feet slide, whatever else is wrong or not."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """Chances by kind, where a network gave them."""
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Nothing is wrong."""
        return not (self.pose or self.jumps or self.root or self.floor or self.feet)


def standing(
    body: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, contact: np.ndarray, ground: Ground
) -> tuple[float, float]:
    """How fast standing feet slide, in shares of the most that is sound, and how far they are from the floor [m], the median; 0
    where none stands."""
    points = foot_points(body, *forward(body, turns, root))
    points[..., 2] -= ground(points[..., :2])
    slides = metrics.slides(points, contact)
    low = points[..., 2].min(axis=-1)[contact]
    speed = float(np.median(np.linalg.norm(np.diff(root[:, :2], axis=0), axis=-1))) * fps
    most = (SLIDES[0] + SLIDES[1] * speed) * 30 / fps
    return (
        float(slides.mean()) / most if slides.size else 0.0,
        float(abs(np.median(low))) if low.size else 0.0,
    )


def held(turns: np.ndarray, root: np.ndarray) -> float:
    """Share of frames in which the body (F frames) does not move, or goes on as before, while it otherwise moves: what dropped
    frames leave, whether held or interpolated, and nobody's own motion."""
    if len(root) < SHORTEST:
        return 0.0
    by = rotations.axis_angle_from_matrix(np.swapaxes(turns[:-1], -1, -2) @ turns[1:])
    step = np.concatenate([by.reshape(len(by), -1), np.diff(root, axis=0)], axis=1)
    first, second = np.linalg.norm(step, axis=1)[1:], np.linalg.norm(np.diff(step, axis=0), axis=1)
    none = (first < CLOSE * np.percentile(first, 90)) | (second < CLOSE * np.percentile(second, 90))
    return float(none.mean())


def in_place(body: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, contact: np.ndarray) -> bool:
    """Whether an action walks in place: its standing feet go back together while its root goes nowhere."""
    wanted, weight = rooting.standing_velocity(body, turns, root, contact, fps)
    if weight.sum() < 2:
        return False
    speed = float(np.linalg.norm(np.median(wanted[weight > 0], axis=0)))
    own = float(np.linalg.norm(root[-1, :2] - root[0, :2])) * fps / max(len(root) - 1, 1)
    return speed > PLACE and own < AT_REST * speed


def by_rule(
    body: Skeleton, turns: np.ndarray, root: np.ndarray, fps: float, contact: np.ndarray, ground: Ground = flat_ground
) -> Judgement:
    """The judgement without weights: by tremble, by how fast standing feet slide, and by how far they are from the floor."""
    slides, away = standing(body, turns, root, fps, contact, ground)
    if in_place(body, turns, root, fps, contact):
        return Judgement(False, False, False, False, notes=(IN_PLACE,))
    pose = trembles(tremble(rotations.quaternion_from_matrix(turns)), fps)
    return Judgement(bool(pose), bool(pose), slides > 1, away > STANDS, slides > 1)


def by_network(
    body: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    said: Said,
    contact: np.ndarray,
    ground: Ground = flat_ground,
) -> Judgement:
    """The judgement of a network, and of the standing feet that it found; feet that tremble say nothing of the root."""
    slides, away = standing(body, turns, root, fps, contact, ground)
    if in_place(body, turns, root, fps, contact):
        return Judgement(False, False, False, False, notes=(IN_PLACE,))
    chance = dict(zip(KINDS, said.kinds.tolist(), strict=True))
    wrong = {kind: value > SURE for kind, value in chance.items()}
    quick = (wrong["smooth"] and slides > STILL) or (wrong["drop"] and held(turns, root) > HELD)
    pose = wrong["noise"] or quick
    either = 1 - (1 - chance["drift"]) * (1 - chance["speed"])
    way = either > (PERHAPS if slides > 1 and not pose else EITHER)
    floor = away > NEAR and (wrong["floor"] or (away > STANDS and not pose))
    if slides > WILD and not pose and either <= EITHER:
        return Judgement(False, False, False, False, False, chance, (WALKS_ON,))
    return Judgement(pose, quick, way, floor, slides > 1, chance)
