# SPDX-License-Identifier: GPL-3.0-or-later
"""The balance score: for each frame, what moving like this would need beyond what gravity and the contacts give, in body weights.

0 where the ground can give it; 1 where a body floats at rest. It depends on the ground that is given, and is blind to sliding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.contacts import foot_points
from ..core.skeleton import Skeleton
from ..ik.foot_pins import Ground, flat_ground, forward
from . import dynamics, support
from .masses import LEG, Masses, masses
from .support import Contacts, Nearest

HALF_WIDTH = (0.03, 0.045)  # [m at a leg of 0.945 m] of a foot at heel and ball
HANDS = ("LeftHand", "RightHand")
FINGERS = 0.16  # [m] from wrist to the tips of fingers that lean on something
BODY = (
    ("LeftHand", 0.03), ("RightHand", 0.03), ("LeftForeArm", 0.05), ("RightForeArm", 0.05), ("LeftArm", 0.07), ("RightArm", 0.07),
    ("LeftShin", 0.06), ("RightShin", 0.06), ("Hips", 0.11), ("Spine1", 0.11), ("Spine2", 0.11), ("Head", 0.1),
)  # fmt: skip
"""Bones that a body may lean on beside its feet, and how far [m] their heads then are from the ground."""
SOLE = 5
"""Points under each foot; they come first."""
FEWEST = 3  # frames
RATE = 30.0  # [1/s] about which accelerations are taken: over shorter times they are those of noise


@dataclass(frozen=True)
class Balance:
    """How well contacts explain a motion."""

    score: np.ndarray
    """(F) [body weights]; the first and the last frame have their neighbour's."""
    nearest: Nearest
    """Of all frames but the first and the last."""
    wrench: np.ndarray
    """(F - 2, 6) that is asked for, about the centre of mass; as :class:`.support.Nearest` counts."""
    centre: np.ndarray
    """(F, 3) [m] the centre of mass."""


def contacts_of(
    skeleton: Skeleton,
    turned: np.ndarray,
    heads: np.ndarray,
    ground: Ground = flat_ground,
    held: np.ndarray | None = None,
) -> Contacts:
    """The points that a body may be supported at: five under each foot, hands, and whatever else of it comes near the ground.

    ``turned`` (F, J, 3, 3) and ``heads`` (F, J, 3) [m]; ``held`` (F, 2) bool says when a hand holds something, which may push and
    pull.
    """
    scale = skeleton.leg_length / LEG
    soles = foot_points(skeleton, turned, heads)
    feet = list(skeleton.feet)
    side = turned[:, feet][..., 0] * scale
    heel, ball, tip = (soles[:, :, i] for i in range(3))
    wide = [heel - HALF_WIDTH[0] * side, heel + HALF_WIDTH[0] * side]
    wide += [ball - HALF_WIDTH[1] * side, ball + HALF_WIDTH[1] * side, tip]
    points = [np.stack(wide, axis=2).reshape(len(heads), -1, 3)]
    bones = [(skeleton.names.index(name), radius) for name, radius in BODY if name in skeleton.names]
    points.append(heads[:, [b for b, _ in bones]])
    hands = [skeleton.names.index(name) for name in HANDS]
    along = heads[:, hands] - heads[:, [int(skeleton.parents[h]) for h in hands]]
    rest = skeleton.offsets[hands] / np.linalg.norm(skeleton.offsets[hands], axis=-1, keepdims=True)
    along = np.einsum("fkab,kb->fka", turned[:, hands], rest)
    points.append(heads[:, hands] + FINGERS * scale * along)
    every = np.concatenate(points, axis=1)
    radii = np.zeros(every.shape[1])
    radii[points[0].shape[1] :] = [scale * r for _, r in bones] + [0.02 * scale] * len(hands)
    height = every[..., 2] - ground(every[..., :2]) - radii
    cost = support.cost_at(height)
    pull = np.zeros(cost.shape, bool)
    if held is not None:
        names = [name for name, _ in BODY if name in skeleton.names]
        rows = [points[0].shape[1] + names.index(name) for name in HANDS]
        pull[:, rows] = held
        cost[pull] = support.HELD
    soles_of = [b for foot, toe in zip(skeleton.feet, skeleton.toes, strict=True) for b in (foot, foot, toe, toe, toe)]
    moved = np.array([*soles_of, *(b for b, _ in bones), *hands])
    return Contacts(every, normals(every, ground), cost, pull, height, moved)


def normals(points: np.ndarray, ground: Ground, step: float = 0.01) -> np.ndarray:
    """Upward normals (..., 3) of the ground under points (..., 3)."""
    at = points[..., :2]
    if ground is flat_ground:
        return np.broadcast_to(np.array([0.0, 0, 1]), points.shape)
    rise = [(ground(at + d) - ground(at - d)) / (2 * step) for d in np.eye(2) * step]
    out = np.stack([-rise[0], -rise[1], np.ones(at.shape[:-1])], axis=-1)
    return np.asarray(out / np.linalg.norm(out, axis=-1, keepdims=True))


def of_body(
    body: Masses,
    turned: np.ndarray,
    heads: np.ndarray,
    fps: float,
    ground: Ground = flat_ground,
    held: np.ndarray | None = None,
) -> Balance:
    """The balance of a motion whose rotations since the T-pose (F, J, 3, 3) and heads (F, J, 3) are known."""
    skeleton = body.skeleton
    centre = dynamics.centre_of_mass(body, turned, heads)
    wrench = dynamics.root_wrench(body, turned, heads, fps, centre) / body.weight
    wrench[:, 3:] /= skeleton.leg_length
    inner = contacts_of(skeleton, turned, heads, ground, held).some(slice(1, -1))
    found = support.nearest(inner, wrench, centre[1:-1], skeleton.leg_length)
    score = np.linalg.norm(found.rest, axis=1)
    return Balance(np.concatenate([score[:1], score, score[-1:]]), found, wrench, centre)


def every(frames: int, fps: float) -> int:
    """Every so many frames of a motion make one of about 30 a second, or of three frames."""
    return max(1, min(round(fps / RATE), (frames - 1) // 2))


def balance(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    fps: float,
    ground: Ground = flat_ground,
    held: np.ndarray | None = None,
) -> Balance:
    """The balance of motion of a body with the reference rig's bones; at more than 45 frames a second, of frames of about 30.

    Args:
        skeleton: its bones in any lengths.
        turns: (F, J, 3, 3) local core rotations.
        root: (F, 3) [m] the Hips' head.
        fps: frames a second.
        ground: heights of the floor.
        held: (F, 2) bool when the left and the right hand hold something that may push and pull.

    Raises:
        ValueError: for fewer than three frames, which have no accelerations.
    """
    if len(root) < FEWEST:
        raise ValueError(f"expected an action of {FEWEST} frames or more, got {len(root)}: fewer have no accelerations")
    step = every(len(root), fps)
    rows = np.arange(0, len(root), step)
    some = None if held is None else held[rows]
    found = of_body(masses(skeleton), *forward(skeleton, turns[rows], root[rows]), fps / step, ground, some)
    return replace(found, score=np.interp(np.arange(len(root)), rows, found.score))
