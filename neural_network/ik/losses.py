# SPDX-License-Identifier: GPL-3.0-or-later
"""The losses: each a value and its exact gradient, components first, averaged over the poses of a batch.

Lengths are in leg lengths, angles in radians. Forces are gradients with respect to head positions, torques with respect to
left increments of a rotation (R -> exp(d) R); :mod:`..core.forward_kinematics` carries both back to the joints. J bones, E
effectors, N poses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton
from .context import Layout, Targets, decode
from .settings import Losses

MINED_MARGIN = np.radians(10)  # added to the range of motion seen in the data
_NEVER_ZERO = 1e-12  # its square is added under square roots, so that the gradient of a norm at zero is zero


def effector_distance(positions: np.ndarray, targets: np.ndarray, share: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean Euclidean distance of ``positions`` from ``targets``, both (3, E, N), and its forces (3, E, N).

    ``share`` (E, N) is the weight of each effector; 1 / E for a plain mean.
    """
    apart = positions - targets
    distance = np.sqrt(np.sum(apart * apart, axis=0) + _NEVER_ZERO**2)
    scale = share / positions.shape[-1]
    return float(np.sum(distance * scale)), apart * (scale / distance)


def effector_angle(turned: np.ndarray, targets: np.ndarray, share: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean geodesic angle between ``turned`` and ``targets``, both (3, 3, E, N), and its torques (3, E, N).

    ``share`` is as in :func:`effector_distance`.
    """
    # of R = turned targets^T: the axis times twice the sine of its angle; trace(R) - 1 is twice the cosine
    apart = fk.compose_components(turned, targets.swapaxes(0, 1))
    axis = np.stack([apart[2, 1] - apart[1, 2], apart[0, 2] - apart[2, 0], apart[1, 0] - apart[0, 1]])
    sine = np.sqrt(np.sum(axis * axis, axis=0) + _NEVER_ZERO**2)
    angle = np.arctan2(sine, apart[0, 0] + apart[1, 1] + apart[2, 2] - 1)
    scale = share / turned.shape[-1]
    return float(np.sum(angle * scale)), axis * (scale / sine)


def contact(positions: np.ndarray, targets: np.ndarray, grounded: np.ndarray) -> tuple[float, np.ndarray]:
    """Squared height error plus squared distance of grounded feet from their targets, and its forces (3, K, N).

    ``positions`` and ``targets`` (3, K, N) are those of K feet, ``grounded`` (K, N) is 0 or 1; the mean is over all feet and poses.
    """
    apart = positions - targets
    scale = grounded / max(1, grounded.size)
    value = float(np.sum(scale * (np.sum(apart * apart, axis=0) + apart[2] ** 2)))
    force = 2 * apart * scale
    force[2] *= 2
    return value, force


def pose(turns: np.ndarray, truth: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean over bones of 1 - cos t, t the angle between the rotations relative to the parent ``turns`` and ``truth`` (3, 3, J, N).

    Returns the value and its torques (3, J, N). 1 - cos t = (3 - trace(R Q^T)) / 2 is a squared chordal distance: unlike the
    angle it is smooth at zero and at half a turn.
    """
    apart = fk.compose_components(turns, truth.swapaxes(0, 1))
    count = turns[0, 0].size
    value = float(np.sum(3 - apart[0, 0] - apart[1, 1] - apart[2, 2])) / (2 * count)
    axis = np.stack([apart[2, 1] - apart[1, 2], apart[0, 2] - apart[2, 0], apart[1, 0] - apart[0, 1]])
    axis *= 0.5 / count
    return value, axis


def limit_excess(rot: np.ndarray, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """How far rotations ``rot`` (3, K, N) [rad, bone axes] exceed ``limits`` (K, 6) [rad]: swing and twist (K, N), both >= 0.

    The limits are low and high for swing about X, twist about Y, swing about Z. A rotation is split into a twist about the
    bone's Y and a swing, R = swing twist. Allowed swings form an elliptic cone with a half-width of its own in each direction
    (+X, -X, +Z, -Z); the excess is measured along the direction of the swing. The third and fourth results are the gradients
    (4, K, N) of the two with respect to the quaternion of ``rot``.
    """
    low, high = limits[:, ::2].T[:, :, None].astype(rot.dtype), limits[:, 1::2].T[:, :, None].astype(rot.dtype)
    half = 0.5 * np.sqrt(np.sum(rot * rot, axis=0) + 1e-30)
    sign = np.where(np.cos(half) < 0, -1, 1).astype(rot.dtype)
    w = np.cos(half) * sign
    x, y, z = rot * (0.5 * np.sin(half) / half * sign)
    upright = np.maximum(w * w + y * y, 1e-12)
    lean = np.sqrt(np.maximum(x * x + z * z, 1e-24))
    twist = 2 * np.arctan2(y, w)
    swing = 2 * np.arctan2(lean, np.sqrt(upright))
    toward = np.arctan2(z, x) - 0.5 * twist  # direction of the swing axis in X and Z, with the twist removed
    cosine, sine = np.cos(toward), np.sin(toward)
    wide_x = np.maximum(np.where(cosine > 0, high[0], -low[0]), 1e-3)
    wide_z = np.maximum(np.where(sine > 0, high[2], -low[2]), 1e-3)
    inverse = np.sqrt((cosine / wide_x) ** 2 + (sine / wide_z) ** 2)
    over_swing = np.maximum(swing - 1 / inverse, 0)
    over_high, over_low = twist - high[1], low[1] - twist
    over_twist = np.maximum(np.maximum(over_high, over_low), 0)

    zero = np.zeros_like(w)
    d_twist = np.stack([-2 * y / upright, zero, 2 * w / upright, zero])
    d_toward = np.stack([zero, -z / lean**2, zero, x / lean**2]) - 0.5 * d_twist
    root = np.sqrt(upright)
    d_swing = 2 * np.stack([-lean * w / root, root * x / lean, -lean * y / root, root * z / lean])
    slope = (
        sine * cosine * (1 / wide_z**2 - 1 / wide_x**2) / inverse**3
    )  # derivative of -1/inverse with respect to toward
    active = (over_swing > 0).astype(rot.dtype)
    side = np.where(over_high > 0, 1.0, np.where(over_low > 0, -1.0, 0.0)).astype(rot.dtype)
    return over_swing, over_twist, sign * active * (d_swing + slope * d_toward), sign * side * d_twist


def mine_limits(skeleton: Skeleton, rot: np.ndarray) -> np.ndarray:
    """Joint limits (J, 6) [rad] for a rig that has none: the range of core rotations ``rot`` (3, J, N) [rad], and a margin.

    The outermost 0.5 % of poses on each side are ignored as outliers; the root is not limited (NaN).
    """
    local = np.einsum("jba,bjn->ajn", skeleton.basis, rot.astype(np.float64))
    half = 0.5 * np.sqrt(np.sum(local * local, axis=0) + 1e-30)
    sign = np.where(np.cos(half) < 0, -1, 1)
    w = np.cos(half) * sign
    x, y, z = local * (0.5 * np.sin(half) / half * sign)
    twist = 2 * np.arctan2(y, w)
    swing = 2 * np.arctan2(np.sqrt(x * x + z * z), np.sqrt(w * w + y * y))
    toward = np.arctan2(z, x) - 0.5 * twist
    ranges = np.stack([swing * np.cos(toward), twist, swing * np.sin(toward)], axis=1)  # (J, 3, N)
    low, high = np.percentile(ranges, [0.5, 99.5], axis=2)
    out = np.empty((skeleton.count, 6))
    out[:, ::2] = np.minimum(low, 0) - MINED_MARGIN
    out[:, 1::2] = np.maximum(high, 0) + MINED_MARGIN
    out[0] = np.nan
    return out


def joint_limits(skeleton: Skeleton, rot: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean over limited bones of the squared excess of swing and twist, and its torques (3, J, N), for core ``rot`` (3, J, N) [rad].

    A skeleton without limits gives 0 and zeros.
    """
    out = np.zeros_like(rot)
    if skeleton.limits is None:
        return 0.0, out
    bones = np.flatnonzero(np.isfinite(skeleton.limits).all(axis=1))
    if not len(bones):
        return 0.0, out
    basis = skeleton.limit_axes[bones].astype(rot.dtype)
    local = np.einsum("jba,bjn->ajn", basis, rot[:, bones])
    over_swing, over_twist, d_swing, d_twist = limit_excess(local, skeleton.limits[bones])
    count = over_swing.size
    value = float(np.sum(over_swing * over_swing + over_twist * over_twist)) / count
    per_quaternion = (2 / count) * (over_swing * d_swing + over_twist * d_twist)
    angle = np.sqrt(np.sum(local * local, axis=0) + 1e-30)
    sine = np.sin(0.5 * angle) / angle
    w, vector = np.cos(0.5 * angle), local * sine
    # a left increment d changes a quaternion q by (0, d) q / 2
    torque = w * per_quaternion[1:] - per_quaternion[0] * vector
    torque += rotations.cross_components(vector, np.ascontiguousarray(per_quaternion[1:]))
    out[:, bones] = np.einsum("jab,bjn->ajn", basis, 0.5 * torque)
    return value, out


@dataclass(frozen=True)
class Truth:
    """The true poses of a batch, components first."""

    turns: np.ndarray
    """(3, 3, J, N) rotation of every bone relative to its parent; the root's in the root frame."""
    heads: np.ndarray
    """(3, J, N) heads in the root frame [leg lengths]."""
    shift: np.ndarray | None = None
    """(3, N) the root's head in that frame [leg lengths]; only needed with a free root."""
    offsets: np.ndarray | None = None
    """(J, 3) or (3, J, N) offsets [leg lengths] that replace the skeleton's own."""


def total(
    layout: Layout, skeleton: Skeleton, outputs: np.ndarray, targets: Targets, truth: Truth, weights: Losses
) -> tuple[dict[str, float], np.ndarray]:
    """All losses of ``outputs`` (N, O) for ``targets`` and the true pose, by name, and the gradient (N, O) of their weighted sum.

    A loss of weight 0 is not computed and has no value; ``fk`` and ``orientation`` are computed together. Forces and torques of
    all losses are summed first, so that there is one backward pass through the kinematics.
    """
    rot, shift = decode(layout, skeleton, outputs, targets.root)
    turns = rotations.matrix_components(rot)
    bones = np.array(skeleton.effectors)
    values: dict[str, float] = {}
    joint_torque = np.zeros_like(rot)
    out = np.zeros_like(outputs.T)
    if weights.fk > 0 or weights.contact > 0 or weights.joints > 0:
        own = skeleton.offsets / skeleton.leg_length if truth.offsets is None else truth.offsets
        turned, heads = fk.forward_matrices(skeleton, turns, own)
        placed = heads if shift is None else heads + shift[:, None]
        force, torque = np.zeros_like(heads), np.zeros_like(heads)
        reached = placed[:, bones]
        if weights.fk > 0:
            share = np.full(reached.shape[1:], 1 / len(bones), rot.dtype)
            values["fk"], push = effector_distance(reached, targets.positions, share)
            values["orientation"], turn = effector_angle(turned[:, :, bones], targets.turned, share)
            force[:, bones] += weights.fk * push
            torque[:, bones] += weights.fk * weights.orientation * turn
        if weights.contact > 0 and skeleton.feet:
            feet = [skeleton.effectors.index(f) for f in skeleton.feet]
            values["contact"], push = contact(reached[:, feet], targets.positions[:, feet], targets.grounded)
            force[:, bones[feet]] += weights.contact * push
        if weights.joints > 0:
            share = np.full(placed[0, 1:].shape, 1 / (skeleton.count - 1), rot.dtype)
            values["joints"], push = effector_distance(placed[:, 1:], truth.heads[:, 1:], share)
            force[:, 1:] += weights.joints * push
        joint_torque += fk.joint_torques(skeleton, turned, heads, np.arange(skeleton.count), force, torque)
        if shift is not None:
            out[3 * skeleton.count :] += np.sum(force, axis=1)
    if weights.pose > 0:
        first = 0 if layout.free_root else 1
        values["pose"], turn = pose(turns[:, :, first:], truth.turns[:, :, first:])
        joint_torque[:, first:] += weights.pose * turn
    if weights.limits > 0:
        values["limits"], turn = joint_limits(skeleton, rot)
        joint_torque[:, 1:] += weights.limits * turn[:, 1:]
    if shift is not None and truth.shift is not None and weights.pose > 0:
        values["root"], push = effector_distance(
            shift[:, None], truth.shift[:, None], np.ones((1, len(outputs)), rot.dtype)
        )
        out[3 * skeleton.count :] += weights.pose * push[:, 0]
    if layout.free_root:  # the root's rotation is that of the outputs times the given one: differentiate the former
        rot[:, 0] = outputs.T[:3]
    gradient = rotations.backward_components(rot, joint_torque)
    if not layout.free_root:
        gradient[:, 0] = 0
    out[: 3 * skeleton.count] += gradient.swapaxes(0, 1).reshape(3 * skeleton.count, -1)
    return values, out.T
