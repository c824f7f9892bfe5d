# SPDX-License-Identifier: GPL-3.0-or-later
"""States: what a network that predicts motion step by step knows of a body at one frame.

A state is one row of numbers: *places*, which say how the body stands, *speeds*, which say how that changes a second, and, in one
layout, whether each foot stands. Two layouts:

``pose``: seen from where the body stands and looks, whatever way it goes. Places: the height of the Hips [leg lengths], their
rotation without its heading and the turns of all other bones, as 6D. Speeds: the way along the ground [leg lengths/s], the change
of heading [rad/s], then those of all places. Contacts, 0 to 1. A place follows from the place before and its speed.

``dof56``: a body of 56 degrees of freedom, its positions and their velocities, 112 numbers, as people simulate it: the root's
place [m] and turn, three axes each for spine, chest, neck, head, collars, arms, hands, thighs and feet, two for the toes, and hinges at
elbows and knees [rad]. What bones have beyond that goes into the next one (a forearm's twist into the hand) or is lost.

Motion is of a body with the reference rig's bones, as in :mod:`.features`, at 30 frames a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import contacts, rotations
from ..core import forward_kinematics as fk
from ..core.skeleton import Skeleton
from . import features

FPS = 30.0
GROUND = 3  # speeds along the ground and of the heading, ahead of those of places


@dataclass(frozen=True)
class Layout:
    """What stands where in a state."""

    name: str
    places: int
    speeds: int
    contacts: int

    @property
    def width(self) -> int:
        """Numbers in a state."""
        return self.places + self.speeds + self.contacts

    @property
    def follows(self) -> bool:
        """Whether places follow from speeds, so that a network need not say them."""
        return self.speeds != self.places

    @property
    def outputs(self) -> int:
        """Numbers that a network says of the next state."""
        return self.speeds + self.contacts if self.follows else self.width


LAYOUTS = {one.name: one for one in (Layout("pose", 1 + 23 * 6, GROUND + 1 + 23 * 6, 2), Layout("dof56", 56, 56, 0))}


def layout(name: str) -> Layout:
    """The layout of a name; ValueError, which lists the names, for any other."""
    if name not in LAYOUTS:
        raise ValueError(f"layout: expected one of {', '.join(LAYOUTS)}, got {name!r}")
    return LAYOUTS[name]


def of_motion(name: str, body: Skeleton, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(F, S) states of a motion: turns (F, J, 3, 3) and the Hips' heads (F, 3) [m].

    The first frame has the speeds of the second; where there is none, it stands still.
    """
    return _pose_states(body, turns, root) if layout(name).follows else _dof_states(turns, root)


def of_windows(name: str, body: Skeleton, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(G, F, S) states of motions (G, F, ...)."""
    return np.array([of_motion(name, body, t, r) for t, r in zip(turns, root, strict=True)])


def to_rows(name: str, body: Skeleton, states: np.ndarray, place: features.Place) -> np.ndarray:
    """Rows (G, F, 3 + 6 J) of :func:`.features.to_rows` of states (G, F, S) that follow a frame which stands at ``place`` (G)."""
    own, leg = layout(name), body.leg_length
    if not own.follows:
        turns, root = dof_motion(states[..., : own.places])
        return features.to_rows(turns, root, leg)
    speeds = states[..., own.places : own.places + GROUND] / FPS
    heading = place.heading[:, None] + np.cumsum(speeds[..., 2], axis=1)
    before = np.concatenate([np.broadcast_to(place.heading[:, None], heading[:, :1].shape), heading[:, :-1]], axis=1)
    way = np.einsum("gfab,gfb->gfa", features.yaw(before)[..., :2, :2], speeds[..., :2])
    ground = place.point[:, None] / leg + np.cumsum(way, axis=1)
    six = states[..., 1 : own.places].reshape(*states.shape[:2], -1, 6)
    turns = rotations.matrix_from_sixd(six)
    turns[:, :, 0] = features.yaw(heading) @ turns[:, :, 0]
    root = np.concatenate([ground, states[..., :1]], axis=-1)
    return features.to_rows(turns, root * leg, leg)


def _pose_states(body: Skeleton, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    heading = features.headings(turns[:, 0])
    seen = turns.copy()
    seen[:, 0] = features.yaw(-heading) @ turns[:, 0]
    six = rotations.sixd_from_matrix(seen).reshape(len(root), -1)
    places = np.concatenate([root[:, 2:] / body.leg_length, six], axis=1)
    speeds = np.zeros((len(root), GROUND + places.shape[1]))
    if len(root) > 1:
        steps = np.diff(root[:, :2], axis=0) / body.leg_length
        speeds[1:, :2] = np.einsum("fab,fb->fa", features.yaw(-heading[:-1])[:, :2, :2], steps)
        speeds[1:, 2] = np.diff(heading)
        speeds[1:, GROUND:] = np.diff(places, axis=0)
        speeds[0] = speeds[1]
    heads = fk.walk(body.parents, turns, body.offsets, root)[1]
    stands = contacts.truth_contacts(heads[:, list(body.feet)], heads[:, list(body.toes)], body.foot_rest - body.floor)
    return np.concatenate([places, speeds * FPS, stands], axis=1)


# ---- the body of 56 degrees of freedom: bones of the reference rig by number

MERGED = ((1, 2), (4, 5))  # a bone takes the turn of its child, which then stays straight
HINGES = ((9, 10, 2), (13, 14, 2), (16, 17, 0), (20, 21, 0))  # a bone, its child that takes what is left, the axis
FREE = (1, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 17, 19, 21)
TOES = (18, 22)
TOE_AXES = (0, 2)


def _dof_states(turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    return of_dofs(dofs(turns, root))


def of_dofs(places: np.ndarray) -> np.ndarray:
    """(F, 112) states of ``dof56`` of degrees of freedom (F, 56)."""
    speeds = np.zeros_like(places)
    if len(places) > 1:
        speeds[1:] = np.diff(places, axis=0) * FPS
        speeds[0] = speeds[1]
    return np.concatenate([places, speeds], axis=1)


def dofs(turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(F, 56) [m, rad] of a motion."""
    log = rotations.axis_angle_from_matrix
    own = np.array(turns, float)
    for bone, child in MERGED:
        own[:, bone] = own[:, bone] @ own[:, child]
    parts = [root_dofs(own[:, 0], root)]
    for bone, child, axis in HINGES:
        angle = _about(own[:, bone], axis)
        own[:, child] = np.swapaxes(_hinge(angle, axis), -1, -2) @ own[:, bone] @ own[:, child]
        parts.append(angle[:, None])
    parts.append(log(own[:, FREE]).reshape(len(root), -1))
    parts.append(log(own[:, TOES])[..., TOE_AXES].reshape(len(root), -1))
    return np.concatenate(parts, axis=1)


def root_dofs(hips: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(F, 6) [m, rad] the first degrees of freedom: those of the Hips, rotations (F, 3, 3) and heads (F, 3)."""
    return np.concatenate([root, _continuous(rotations.axis_angle_from_matrix(hips))], axis=1)


def dof_motion(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turns (..., F, 23, 3, 3) and root (..., F, 3) [m] of a body whose 56 degrees of freedom are ``places`` (..., F, 56)."""
    turn = rotations.matrix_from_axis_angle
    out = np.zeros((*places.shape[:-1], 23, 3, 3))
    out[...] = np.eye(3)
    out[..., 0, :, :] = turn(places[..., 3:6])
    at = 6
    for bone, _, axis in HINGES:
        out[..., bone, :, :] = _hinge(places[..., at], axis)
        at += 1
    out[..., FREE, :, :] = turn(places[..., at : at + 42].reshape(*places.shape[:-1], -1, 3))
    toes = np.zeros((*places.shape[:-1], 2, 3))
    toes[..., TOE_AXES] = places[..., at + 42 :].reshape(*places.shape[:-1], 2, 2)
    out[..., TOES, :, :] = turn(toes)
    return out, places[..., :3].copy()


def _about(matrix: np.ndarray, axis: int) -> np.ndarray:
    """The angle (F) about a coordinate axis that is nearest to rotations (F, 3, 3)."""
    a, b = (axis + 1) % 3, (axis + 2) % 3
    return np.arctan2(matrix[:, b, a] - matrix[:, a, b], matrix[:, a, a] + matrix[:, b, b])


def _hinge(angle: np.ndarray, axis: int) -> np.ndarray:
    return rotations.matrix_from_axis_angle(angle[..., None] * np.eye(3)[axis])


def _continuous(vectors: np.ndarray) -> np.ndarray:
    """Axis-angles (F, 3), each written as near to the one before as it can be."""
    out = vectors.copy()
    if len(out) < 2 or np.linalg.norm(np.diff(out, axis=0), axis=1).max() < np.pi:
        return out
    for f in range(1, len(out)):
        length = float(np.linalg.norm(out[f]))
        if length > 1e-6:
            others = out[f] * (1 + 2 * np.pi * np.arange(-2, 3)[:, None] / length)
            out[f] = others[np.linalg.norm(others - out[f - 1], axis=1).argmin()]
    return out
