# SPDX-License-Identifier: GPL-3.0-or-later
"""A body with masses: how heavy each bone's part is, where its centre lies and how its mass is spread, in the body's own lengths.

Source of all numbers: P. de Leva, "Adjustments to Zatsiorsky-Seluyanov's segment inertia parameters", Journal of
Biomechanics 29 (1996), table 4, males: mass as a share of the body's, centre of mass and radii of gyration as shares of a
segment's length. The trunk's three segments are cut where the bones of the spine begin, each slice as wide and deep as its segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from ..core.skeleton import Skeleton

MASS = 75.0  # [kg] of a body with the reference rig's legs; others weigh as their legs' length cubed
LEG = 0.945  # [m] length of these legs
GRAVITY = np.array([0.0, 0.0, -9.81])
"""[m/s^2]."""


@dataclass(frozen=True)
class Segment:
    """A row of the table: shares of the body's mass, and of the segment's length."""

    mass: float
    centre: float
    """From the proximal end."""
    sagittal: float
    """Radius of gyration about the axis from back to front."""
    transverse: float
    """About the axis from left to right."""
    longitudinal: float
    """About the segment's length."""


UPPER_ARM = Segment(0.0271, 0.5772, 0.285, 0.269, 0.158)
FOREARM = Segment(0.0162, 0.4574, 0.276, 0.265, 0.121)
HAND = Segment(0.0061, 0.3624, 0.288, 0.235, 0.184)  # to the tip of the third finger
THIGH = Segment(0.1416, 0.4095, 0.329, 0.329, 0.149)
SHANK = Segment(0.0433, 0.4395, 0.251, 0.246, 0.102)  # to the ankle's centre
FOOT = Segment(0.0137, 0.4415, 0.257, 0.245, 0.124)  # from heel to toe
HEAD = Segment(0.0694, 0.5002, 0.303, 0.315, 0.261)  # from vertex to cervicale
UPPER, MIDDLE, LOWER = (
    Segment(0.1596, 0.5066, 0.505, 0.320, 0.465),  # from cervicale to xiphion
    Segment(0.1633, 0.4502, 0.482, 0.383, 0.468),  # to the navel
    Segment(0.1117, 0.6115, 0.615, 0.551, 0.587),  # to the middle of the hips
)
TRUNK = (0.2421, 0.2155, 0.1457)  # [m] lengths of these three
HAND_LENGTH, HEAD_LENGTH = 0.1879, 0.2429  # [m] of the people measured, whose thigh and shank are
PEOPLE_LEG = 0.8625  # [m] long
SPINE = ("Hips", "Spine", "Spine1", "Spine2")
"""Bones that carry slices of the trunk, from below."""


@dataclass(frozen=True)
class Masses:
    """Masses of the bones (J) of a body with the reference rig's bones; see :func:`masses`."""

    skeleton: Skeleton
    mass: np.ndarray
    """(J) [kg]; 0 for bones whose part is another bone's."""
    centre: np.ndarray
    """(J, 3) [m] centre of mass relative to the bone's head, in the T-pose's core axes."""
    spread: np.ndarray
    """(J, 3, 3) [kg m^2] second moments of mass about the centre, the sum of mass r r^T, in the same axes."""

    @cached_property
    def total(self) -> float:
        """[kg]."""
        return float(self.mass.sum())

    @cached_property
    def inertia(self) -> np.ndarray:
        """(J, 3, 3) [kg m^2] inertia tensors about the centres: the trace of the spread less the spread."""
        trace = np.trace(self.spread, axis1=1, axis2=2)
        return np.asarray(trace[:, None, None] * np.eye(3) - self.spread)

    @property
    def weight(self) -> float:
        """[N]."""
        return float(self.total * np.linalg.norm(GRAVITY))


def masses(skeleton: Skeleton) -> Masses:
    """The masses of a body with the reference rig's bones in any lengths; ValueError, with its name, where one is missing."""
    names = {name: j for j, name in enumerate(skeleton.names)}
    sides = [
        f"{side}{part}" for side in ("Left", "Right") for part in ("Arm", "ForeArm", "Hand", "Thigh", "Shin", "Foot")
    ]
    missing = [name for name in (*SPINE, "NeckLower", "Head", *sides) if name not in names]
    if missing:
        raise ValueError(f"masses: expected the reference rig's bones, found no {', '.join(missing)}")
    heads = skeleton.rest_core[:, :3, 3]
    scale = skeleton.leg_length / PEOPLE_LEG
    mass, centre = np.zeros(skeleton.count), np.zeros((skeleton.count, 3))
    spread = np.zeros((skeleton.count, 3, 3))

    def put(bone: int, segment: Segment, near: np.ndarray, far: np.ndarray) -> None:
        mass[bone] = segment.mass
        centre[bone] = near + segment.centre * (far - near) - heads[bone]
        spread[bone] = segment.mass * _rod(segment, far - near)

    for side in ("Left", "Right"):
        for part, segment, end in (
            ("Arm", UPPER_ARM, "ForeArm"),
            ("ForeArm", FOREARM, "Hand"),
            ("Thigh", THIGH, "Shin"),
            ("Shin", SHANK, "Foot"),
        ):
            bone = names[side + part]
            put(bone, segment, heads[bone], heads[names[side + end]])
        hand = names[f"{side}Hand"]
        along = heads[hand] - heads[skeleton.parents[hand]]
        along = along / max(float(np.linalg.norm(along)), 1e-9)
        put(hand, HAND, heads[hand], heads[hand] + HAND_LENGTH * scale * along)
    for foot, toe in zip(skeleton.feet, skeleton.toes, strict=True):
        middle = 0.5 * (heads[foot] + np.array([*heads[foot, :2], skeleton.floor]))
        ahead = (heads[toe] - heads[foot]) * [1.0, 1, 0]
        length = float(np.linalg.norm(ahead))
        ahead = ahead / length if length > 1e-9 else np.array([0.0, -1, 0])
        put(foot, FOOT, middle - 0.04 * scale * ahead, middle + (length + 0.07 * scale) * ahead)
    head = names["Head"]
    top = heads[names["NeckLower"]] + [0, 0, HEAD_LENGTH * scale]
    put(head, HEAD, top, heads[names["NeckLower"]])
    _trunk(skeleton, names, mass, centre, spread)
    whole = MASS * (skeleton.leg_length / LEG) ** 3 / mass.sum()
    return Masses(skeleton, mass * whole, centre, spread * whole)


def _rod(segment: Segment, along: np.ndarray) -> np.ndarray:
    """Second moments (3, 3) [m^2] of a segment of mass 1, round about its length ``along`` (3) [m]."""
    length = float(np.linalg.norm(along))
    y = along / max(length, 1e-9)
    across = 0.5 * segment.longitudinal**2
    lengthwise = max(0.5 * (segment.sagittal**2 + segment.transverse**2) - across, 0.0)
    return np.asarray(length**2 * (across * np.eye(3) + (lengthwise - across) * np.outer(y, y)))


def _trunk(skeleton: Skeleton, names: dict[str, int], mass: np.ndarray, centre: np.ndarray, spread: np.ndarray) -> None:
    """Put the trunk's slices into ``mass``, ``centre`` and ``spread``: each bone of the spine carries what lies beside it."""
    heads = skeleton.rest_core[:, :3, 3]
    low = 0.5 * (heads[names["LeftThigh"]] + heads[names["RightThigh"]])
    high = heads[names["NeckLower"]]
    length = float(np.linalg.norm(high - low))
    up = (high - low) / max(length, 1e-9)
    bones = [names[name] for name in SPINE]
    begins = [(heads[b] - low) @ up for b in bones[1:]]
    edges = np.clip(np.maximum.accumulate([0.0, *begins, length]), 0, length)
    tops = np.cumsum((0.0, *TRUNK[::-1])) * length / sum(TRUNK)
    for i, bone in enumerate(bones):
        parts = []
        for (bottom, top), segment, own in zip(pairwise(tops), (LOWER, MIDDLE, UPPER), TRUNK[::-1], strict=True):
            a, b = max(bottom, edges[i]), min(top, edges[i + 1])
            if b <= a:
                continue
            size = own * length / sum(TRUNK)
            shift = (0.5 - segment.centre) * size  # the segment's centre is not its middle
            x, y, z = segment.sagittal**2, segment.transverse**2, segment.longitudinal**2
            wide, deep = 0.5 * (x + z - y) * size**2, 0.5 * (y + z - x) * size**2
            at = low + (0.5 * (a + b) + shift) * up
            parts.append((segment.mass * (b - a) / (top - bottom), at, np.diag([wide, deep, (b - a) ** 2 / 12])))
        if not parts:
            continue
        mass[bone] = sum(part[0] for part in parts)
        mean = sum(share * at for share, at, _ in parts) / mass[bone]
        centre[bone] = mean - heads[bone]
        spread[bone] = sum(share * (own + np.outer(at - mean, at - mean)) for share, at, own in parts)
