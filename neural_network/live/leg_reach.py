# SPDX-License-Identifier: GPL-3.0-or-later
"""The legs layout's geometry: the previous pose put onto the new foot targets, and what the trainee sees of it.

Legs are (..., 6, 4) quaternions: thigh, calf and foot of the left leg, then of the right one, relative to their parents.
Everything is in the pelvis' space. ``scene`` is what ``channels.encode_inputs`` keeps of a frame:
``legs.offsets`` (..., 6, 3) bone heads relative to their parents [m], ``legs.target`` (..., 2, 3) foot targets [m],
``legs.normal`` (..., 2, 3) normals under the soles, and ``legs.base`` (..., 6, 4) the reached pose.
"""

from __future__ import annotations

import numpy as np

from ..core import quick_rotations as quick
from .vectors import dot, into_frame, length, out_of_frame, smallest_turn

HINT = 0.1
"""Weight of the inputs that say where the legs are in the pelvis' space. They are only a hint, because unseen takes go to
other places with legs bent in the same ways."""


def legs_features(
    scene: dict[str, np.ndarray],
    up: np.ndarray,
    positions: np.ndarray,
    rotations: np.ndarray,
    normals: np.ndarray,
    hits: np.ndarray,
) -> np.ndarray:
    """The trainee's inputs: how the reached legs are bent, how far each foot moved, and, with ``HINT``, where they are.

    ``positions`` (..., 8, 3): six offsets, two targets; ``rotations`` (..., 6, 4) one frame ago. Fills ``scene``.
    """
    scene["legs.offsets"], scene["legs.target"] = positions[..., :6, :], positions[..., 6:, :]
    scene["legs.normal"] = normals
    scene["legs.base"], feet, before, foot = reached(scene, rotations)
    turns = quick.matrix_from_quaternion(np.concatenate([scene["legs.base"], feet], axis=-2))
    lead = up.shape[:-1]
    bent = [turns[..., :6, :, :2], scene["legs.target"] - before, into_frame(turns[..., 6:, :, :], normals), hits]
    where = [up, turns[..., 6:, :, :2], foot, normals]
    features = [part.reshape(*lead, -1) for part in bent]
    return np.concatenate(
        [*features, HINT * np.concatenate([part.reshape(*lead, -1) for part in where], axis=-1)], axis=-1
    )


def legs_forward(scene: dict[str, np.ndarray], rotations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Knees and feet (..., 2, 3) [m] and the feet's orientations (..., 2, 3, 3) of legs ``rotations`` (..., 6, 4)."""
    local = quick.matrix_from_quaternion(rotations)
    offsets = scene["legs.offsets"]
    hip, to_knee, to_foot = offsets[..., 0::3, :], offsets[..., 1::3, :], offsets[..., 2::3, :]
    thigh = local[..., 0::3, :, :]
    calf = thigh @ local[..., 1::3, :, :]
    knee = hip + out_of_frame(thigh, to_knee)
    return knee, knee + out_of_frame(calf, to_foot), calf @ local[..., 2::3, :, :]


def reached(
    scene: dict[str, np.ndarray], rotations: np.ndarray, soles: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Legs (..., 6, 4) with the feet on their targets, as far as the legs reach, and the feet's orientations kept.

    The knee bends about its own hinge (the axis across thigh and calf), then the whole leg swings from the hip by the
    smallest rotation: no bone twists, and the knee keeps pointing the same way. A straight leg has no hinge and bends about
    its thigh's X axis. ``soles`` (..., 2, 3) are the soles' normals in the feet's axes: each foot is first tilted until
    its sole's normal is the target's. Returns also the feet's orientations (..., 2, 4), and the feet's positions before and
    after (..., 2, 3). Raises ValueError, with ``soles`` only, where a leg has no length.
    """
    offsets = scene["legs.offsets"]
    hip = offsets[..., 0::3, :]
    thigh = rotations[..., 0::3, :]
    calf = quick.quaternion_multiply(thigh, rotations[..., 1::3, :])
    foot = quick.quaternion_multiply(calf, rotations[..., 2::3, :])
    turned = quick.matrix_from_quaternion(np.concatenate([thigh, calf], axis=-2))
    bones = out_of_frame(turned, np.concatenate([offsets[..., 1::3, :], offsets[..., 2::3, :]], axis=-2))
    a, b = bones[..., :2, :], bones[..., 2:, :]
    to = scene["legs.target"] - hip
    lengths = length(np.concatenate([bones, to], axis=-2))
    upper, lower, far = lengths[..., :2, :], lengths[..., 2:4, :], lengths[..., 4:, :]
    if soles is not None:
        if not bool((lengths[..., :4, :] > 1e-4).all()):
            raise ValueError(
                "legs: expected thighs and calves longer than 0.1 mm to put feet on their targets, got shorter"
            )
        foot = _tilted(foot, soles, scene["legs.normal"])
    ahead = to / np.maximum(far, 1e-12)
    far = np.minimum(np.maximum(far, np.abs(upper - lower) + 1e-6), upper + lower - 1e-6)
    product = np.maximum(upper * lower, 1e-12)
    hinge = quick.cross(a, b) / product
    sine = length(hinge)
    hinge = np.where(sine > 1e-6, hinge / np.maximum(sine, 1e-12), turned[..., :2, :, 0])
    bend = (far * far - upper * upper - lower * lower) / (2 * product)
    angle = np.arccos(np.minimum(np.maximum(bend, -1), 1)) - np.arctan2(sine, dot(a, b) / product)
    flex = np.concatenate([np.cos(0.5 * angle), np.sin(0.5 * angle) * hinge], axis=-1)
    reach = a + np.cos(angle) * b + np.sin(angle) * quick.cross(hinge, b)  # the hinge is perpendicular to the calf
    swing = smallest_turn(reach / np.maximum(length(reach), 1e-12), ahead)
    out = np.empty_like(rotations)
    out[..., 0::3, :] = thigh = quick.quaternion_multiply(swing, thigh)
    calf = quick.quaternion_multiply(swing, quick.quaternion_multiply(flex, calf))
    out[..., 1::3, :] = quick.quaternion_multiply(thigh * quick.CONJUGATE, calf)
    out[..., 2::3, :] = quick.quaternion_multiply(calf * quick.CONJUGATE, foot)
    return out, foot, hip + a + b, hip + ahead * far


def _tilted(feet: np.ndarray, soles: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Feet (..., 2, 4) after the smallest rotation that brings each sole's normal onto the target's.

    A sole shorter than 0.5 has not been learned yet; its foot stays.
    """
    size = length(soles)
    turn = smallest_turn(out_of_frame(quick.matrix_from_quaternion(feet), soles / np.maximum(size, 1e-12)), normals)
    out: np.ndarray = np.where(size > 0.5, quick.quaternion_multiply(turn, feet), feet)
    return out
