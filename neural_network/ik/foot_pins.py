# SPDX-License-Identifier: GPL-3.0-or-later
"""Feet that stand: exact steps which put heel, ball and tip of a foot, or the whole foot, where they belong.

A standing foot rolls over its heel, lies flat, and leaves over its ball and its tip (:func:`.contacts.foot_points`).

- :func:`rolled` says where the ankle of a foot is that rolls about those points: geometry alone, no leg;
- :func:`legs_to` bends and swings legs so that ankles and feet are exactly there, in one step and never beyond straight;
- :func:`pin_feet` moves a pose as little as it must, so that any choice of the points is where it should be.

All three work on any proportions. Core axes, metres and radians; N poses on the first axis, two feet or more on the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.contacts import POINTS, TRUTH
from ..core.skeleton import Skeleton

STRETCH = 0.9999  # share of a leg's length that an ankle may be away from the hip
DAMPING = 1e-8  # [m^2] keeps the system of a straight leg, and of points that say the same, solvable
STEP_MOST = 0.4  # [rad] most that a joint turns in one step
CLOSE = 1e-7  # [m]

Ground = Callable[[np.ndarray], np.ndarray]
"""Heights (...) [m] of the floor under points (..., 2) [m]."""


def flat_ground(points: np.ndarray) -> np.ndarray:
    """A floor at height 0."""
    return np.zeros(points.shape[:-1])


@dataclass(frozen=True)
class Soles:
    """What a skeleton's feet are like; see :func:`soles`."""

    ankle: np.ndarray
    """(feet, 3) from the heel to the ankle, in the T-pose."""
    toe: np.ndarray
    """(feet, 3) from the ankle to the toe's head, in the T-pose."""
    tip: np.ndarray
    """(feet, 3) from the toe's head to the tip, in the T-pose."""
    length: np.ndarray
    """(feet) from heel to ball along the floor."""
    reach: np.ndarray
    """(feet) from hip to ankle with the knee straight."""
    height: np.ndarray
    """(feet, 2) of ankle and toe's head above the floor."""


def soles(skeleton: Skeleton) -> Soles:
    """The feet of a skeleton; ValueError where a leg is not thigh, shin, foot one below the other, or has no toe."""
    heads = skeleton.rest_core[:, :3, 3]
    rows: list[tuple[np.ndarray, ...]] = []
    for (thigh, shin, foot), toe in zip(skeleton.legs, skeleton.toes, strict=True):
        if skeleton.parents[foot] != shin or skeleton.parents[shin] != thigh or toe == foot:
            names = ", ".join(skeleton.names[b] for b in (thigh, shin, foot))
            raise ValueError(f"feet: expected thigh, shin, foot and toe one below the other, got {names}; assign roles")
        ahead = (heads[toe] - heads[foot]) * [1.0, 1, 0]
        length = float(np.linalg.norm(ahead))
        ahead = ahead / length if length > 1e-9 else np.array([0.0, -1, 0])
        heel = np.array([*heads[foot, :2], skeleton.floor]) - TRUTH.heel * ahead
        tip = np.array([*heads[toe, :2], skeleton.floor]) + TRUTH.tip * ahead
        reach = np.linalg.norm(skeleton.offsets[shin]) + np.linalg.norm(skeleton.offsets[foot])
        numbers = np.array(length + TRUTH.heel), np.asarray(reach)
        rows.append((heads[foot] - heel, heads[toe] - heads[foot], tip - heads[toe], *numbers))
    if not rows:
        raise ValueError("feet: expected a skeleton with feet, got none; assign roles")
    ankle, toe_way, tip_way, length_all, reach_all = (np.array(column) for column in zip(*rows, strict=True))
    return Soles(ankle, toe_way, tip_way, length_all, reach_all, skeleton.foot_rest)


def rolled(
    shape: Soles, foot: int, heel: np.ndarray, turned: np.ndarray, toe_turned: np.ndarray, on_heel: np.ndarray
) -> np.ndarray:
    """Ankles (N, 3) of a foot that rolls about its heel where ``on_heel`` (N), elsewhere over ball and tip.

    ``heel`` (N, 3) is where the heel is while the foot is flat, on the floor; ``turned`` and ``toe_turned`` (N, 3, 3) are
    the rotations of foot and toe from the T-pose, of which the heading is that of the flat foot. With the toe flat the foot
    rolls about its ball; a toe that is turned down rolls about its tip.
    """
    flat = _heading(turned)
    about_heel = heel + _apply(turned, shape.ankle[foot])
    tip = heel + _apply(flat, shape.ankle[foot] + shape.toe[foot] + shape.tip[foot])
    over_toe = tip - _apply(toe_turned, shape.tip[foot]) - _apply(turned, shape.toe[foot])
    return np.where(on_heel[:, None], about_heel, over_toe)


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


def eased(share: np.ndarray) -> np.ndarray:
    """From 0 to 1 without a jump of speed or of its change."""
    x = np.clip(share, 0, 1)
    return np.asarray(x**3 * (10 - 15 * x + 6 * x**2))


def _heading(turned: np.ndarray) -> np.ndarray:
    """The part (N, 3, 3) of rotations that turns about the vertical: the direction that the foot's length points in."""
    ahead = turned[..., :, 1]
    size = np.maximum(np.hypot(ahead[..., 0], ahead[..., 1]), 1e-12)
    cosine, sine = ahead[..., 1] / size, -ahead[..., 0] / size
    out = np.zeros_like(turned)
    out[..., 0, 0], out[..., 0, 1], out[..., 1, 0], out[..., 1, 1], out[..., 2, 2] = cosine, -sine, sine, cosine, 1
    return out


def legs_to(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    ankles: np.ndarray,
    feet: np.ndarray,
    toes: np.ndarray | None = None,
    own_knees: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Poses whose ankles and feet are where they are wanted: local rotations (N, J, 3, 3), and what is missing (N, feet) [m].

    The knee becomes a hinge about the thigh's left axis, at the angle that gives the distance and never beyond straight;
    the thigh swings the shortest way. An ankle out of reach is missed by what is returned, with the leg straight.

    Args:
        skeleton: with legs of thigh, shin, foot and toe.
        turns: (N, J, 3, 3) core rotations, each relative to the parent.
        root: (N, 3) the Hips' head.
        ankles: (N, feet, 3) where the ankles are wanted.
        feet: (N, feet, 3, 3) rotations of the feet from the T-pose.
        toes: (N, feet, 3, 3) the same for the toes; None keeps each toe's own rotation.
        own_knees: the knee keeps its own rotation and bends more or less about the same axis, so that a leg which is where
            it is wanted, and not beyond straight, stays as it is.
    """
    out = turns.copy()
    offsets = skeleton.offsets
    missing = np.empty(ankles.shape[:2])
    for k, ((thigh, shin, foot), toe) in enumerate(zip(skeleton.legs, skeleton.toes, strict=True)):
        above, hip = _down_to(skeleton, turns, root, thigh)
        u, o = offsets[shin], offsets[foot]
        kept = turns[:, shin] if own_knees else np.eye(3)
        x, y, z = np.moveaxis(kept @ o, -1, 0)
        way = ankles[:, k] - hip
        far = np.linalg.norm(way, axis=1)
        along, across = u[1] * y + u[2] * z, u[2] * y - u[1] * z
        size = np.hypot(along, across)
        side = u[0] * x
        longest = np.sqrt(u @ u + o @ o + 2 * (side + size)) * STRETCH
        reached = np.minimum(far, longest)
        missing[:, k] = far - reached
        share = ((reached**2 - u @ u - o @ o) / 2 - side) / size
        bend = np.arctan2(across, along) + np.arccos(np.clip(share, -1, 1))
        knee = _about_left(bend) @ kept
        own = above @ turns[:, thigh]
        now = _apply(own, u + _apply(knee, o))
        own = rotations.rotation_between(now, way) @ own
        out[:, thigh] = np.swapaxes(above, -1, -2) @ own
        out[:, shin] = knee
        out[:, foot] = np.swapaxes(own @ knee, -1, -2) @ feet[:, k]
        if toes is not None and toe != foot:
            out[:, toe] = np.swapaxes(feet[:, k], -1, -2) @ toes[:, k]
    return out, missing


def pin_feet(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    points: np.ndarray,
    pinned: np.ndarray,
    steps: int = 12,
) -> tuple[np.ndarray, np.ndarray]:
    """Poses whose ``pinned`` points are where ``points`` says: local rotations (N, J, 3, 3), and the largest miss (N, feet) [m].

    Damped minimum-norm steps on thigh, knee, foot and toe of each leg: the pose changes as little as the points ask for, so a
    foot whose heel alone is pinned goes on rolling about it. Knee and toe stay hinges, and the knee never goes beyond straight.
    Points that cannot all be met (a foot of another size, a leg that is too short) are missed by what is returned.

    Args:
        skeleton: with legs of thigh, shin, foot and toe.
        turns: (N, J, 3, 3) core rotations, each relative to the parent.
        root: (N, 3) the Hips' head.
        points: (N, feet, 3, 3) where heel, ball and tip of each foot are wanted.
        pinned: (N, feet, 3) bool, which of them are.
        steps: most steps.
    """
    out = turns.copy()
    shape = soles(skeleton)
    straight = _straight(skeleton)
    worst = np.zeros(points.shape[:2])
    for k, ((thigh, shin, foot), toe) in enumerate(zip(skeleton.legs, skeleton.toes, strict=True)):
        above, hip = _down_to(skeleton, turns, root, thigh)
        weight = np.repeat(pinned[:, k].astype(float), 3, axis=1)  # (N, 9)
        local = [out[:, b].copy() for b in (thigh, shin, foot, toe)]
        before = _leg(skeleton, k, shape, above, hip, local)
        error = _missing(before[1], points[:, k], weight)
        for _ in range(steps):
            if np.abs(error).max(initial=0) < CLOSE:
                break
            joints, at, axes = before
            slopes = _slopes(joints, at, axes) * weight[:, :, None]
            system = slopes @ np.swapaxes(slopes, 1, 2)
            system[:, range(9), range(9)] += DAMPING + 1e-3 * np.sum(error**2, axis=1)[:, None]
            change = np.einsum("nij,ni->nj", slopes, np.linalg.solve(system, error[..., None])[..., 0])
            change *= np.minimum(1, STEP_MOST / np.maximum(np.abs(change).max(axis=1), 1e-12))[:, None]
            new = _turned(local, change, above, straight[k])
            after = _leg(skeleton, k, shape, above, hip, new)
            new_error = _missing(after[1], points[:, k], weight)
            better = np.sum(new_error**2, axis=1) <= np.sum(error**2, axis=1)
            local = [np.where(better[:, None, None], b, a) for a, b in zip(local, new, strict=True)]
            before = _leg(skeleton, k, shape, above, hip, local)
            error = _missing(before[1], points[:, k], weight)
            if not better.any():
                break
        for bone, value in zip((thigh, shin, foot, toe), local, strict=True):
            out[:, bone] = value
        worst[:, k] = np.linalg.norm(error.reshape(-1, 3, 3), axis=-1).max(axis=1)
    return out, worst


# ---------------------------------------------------------------- one leg


def _straight(skeleton: Skeleton) -> np.ndarray:
    """(feet) angle [rad] of each knee's hinge at which the leg is straight; more is bent."""
    out = []
    for _, shin, foot in skeleton.legs:
        u, o = skeleton.offsets[shin], skeleton.offsets[foot]
        out.append(np.arctan2(u[2] * o[1] - u[1] * o[2], u[1] * o[1] + u[2] * o[2]))
    return np.array(out)


def knee_flexion(skeleton: Skeleton, turns: np.ndarray) -> np.ndarray:
    """(N, feet) [rad] by how much each knee is bent, 0 straight and negative beyond, from local rotations (N, J, 3, 3)."""
    shins = [leg[1] for leg in skeleton.legs]
    return rotations.twist_about(rotations.axis_angle_from_matrix(turns[:, shins]), _LEFT) - _straight(skeleton)


_LEFT = np.array([1.0, 0, 0])


def _down_to(skeleton: Skeleton, turns: np.ndarray, root: np.ndarray, bone: int) -> tuple[np.ndarray, np.ndarray]:
    """The rotation (N, 3, 3) of the bone's parent from the T-pose, and the bone's head (N, 3)."""
    bones = []
    at = bone
    while at >= 0:
        bones.append(at)
        at = int(skeleton.parents[at])
    turned, head = turns[:, bones[-1]], root
    for b in bones[-2::-1]:
        head = head + _apply(turned, skeleton.offsets[b])
        turned = turned if b == bone else turned @ turns[:, b]
    return turned, head


def _leg(
    skeleton: Skeleton, k: int, shape: Soles, above: np.ndarray, hip: np.ndarray, local: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Heads of thigh, shin, foot and toe (N, 4, 3), heel, ball and tip (N, 3, 3), and the axes (N, 8, 3) that may turn."""
    _, shin, foot = skeleton.legs[k]
    toe = skeleton.toes[k]
    a = above @ local[0]
    b = a @ local[1]
    c = b @ local[2]
    d = c @ local[3]
    knee = hip + _apply(a, skeleton.offsets[shin])
    ankle = knee + _apply(b, skeleton.offsets[foot])
    head = ankle + _apply(c, skeleton.offsets[toe])
    down = np.array([0.0, 0, -shape.height[k, 1]])
    points = np.stack([ankle - _apply(c, shape.ankle[k]), head + _apply(d, down), head + _apply(d, shape.tip[k])], 1)
    world = np.broadcast_to(np.eye(3), (len(hip), 3, 3))
    axes = np.concatenate([world, a[:, None, :, 0], world, c[:, None, :, 0]], axis=1)
    return np.stack([hip, knee, ankle, head], 1), points, axes


def _slopes(joints: np.ndarray, points: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """(N, 9, 8) how the three points move when the axes turn; the toe does not move the heel."""
    centre = joints[:, [0, 0, 0, 1, 2, 2, 2, 3]]  # (N, 8, 3)
    out = np.cross(axes[:, None], points[:, :, None] - centre[:, None])  # (N, point, axis, 3)
    out[:, 0, 7] = 0
    return out.transpose(0, 1, 3, 2).reshape(len(points), 9, 8)


def _turned(local: list[np.ndarray], change: np.ndarray, above: np.ndarray, straight: float) -> list[np.ndarray]:
    """Local rotations after small turns (N, 8); knee and toe stay hinges."""
    thigh, shin, foot, toe = local
    a = above @ thigh
    swung = rotations.matrix_from_axis_angle(change[:, :3]) @ a
    bend = rotations.twist_about(rotations.axis_angle_from_matrix(shin), _LEFT) + change[:, 3]
    knee = _about_left(np.maximum(bend, straight))
    b = swung @ knee
    turn = rotations.matrix_from_axis_angle(change[:, 4:7])
    before = a @ shin @ foot  # the foot keeps its direction in the world but for what it is turned by
    carried = swung @ np.swapaxes(a, -1, -2) @ before
    carried = b @ np.swapaxes(swung @ shin, -1, -2) @ carried
    flexed = rotations.twist_about(rotations.axis_angle_from_matrix(toe), _LEFT) + change[:, 7]
    return [
        np.swapaxes(above, -1, -2) @ swung,
        knee,
        np.swapaxes(b, -1, -2) @ (turn @ carried),
        _about_left(flexed),
    ]


def _missing(found: np.ndarray, wanted: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return (wanted - found).reshape(-1, 3 * len(POINTS)) * weight


def _about_left(angle: np.ndarray) -> np.ndarray:
    """Rotations (..., 3, 3) about the left axis by ``angle`` (...) [rad]."""
    out = np.zeros((*angle.shape, 3, 3))
    out[..., 0, 0] = 1
    out[..., 1, 1] = out[..., 2, 2] = np.cos(angle)
    out[..., 2, 1] = np.sin(angle)
    out[..., 1, 2] = -out[..., 2, 1]
    return out


def _apply(turned: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Vectors (..., 3) or one (3) turned by rotations (..., 3, 3)."""
    return np.einsum("...ab,...b->...a", turned, vector)


def forward(skeleton: Skeleton, turns: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotations from the T-pose (N, J, 3, 3) and heads (N, J, 3) of local core rotations (N, J, 3, 3) [core axes, m]."""
    return fk.walk(skeleton.parents, turns, skeleton.offsets, root)
