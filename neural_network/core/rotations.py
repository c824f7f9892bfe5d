# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotations as axis-angle, matrix, quaternion and 6D, batched, with their backward passes.

Every public function takes free leading axes and keeps the floating type it is given.
Axis-angle vectors are in radians, quaternions are (w, x, y, z), matrices act on column vectors.
The kernels named ``*_components`` hold the component axes first, ``(3, ...)`` and ``(3, 3, ...)``:
NumPy is fastest on long contiguous rows, so the batched forward kinematics calls them directly.
"""

from __future__ import annotations

import numpy as np

_SERIES_BELOW = 0.05**2  # [rad^2] under this (t - sin t)/t^3 is summed as a series: above it float32 still has 4 digits
_TINY = 1e-30  # [rad^2]


def cross_components(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product of ``a`` and ``b``, both (3, ...) of one shape."""
    out = np.empty_like(b)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        np.multiply(a[j], b[k], out=out[i])
        out[i] -= a[k] * b[j]
    return out


def matrix_components(rot: np.ndarray) -> np.ndarray:
    """Rodrigues' formula, components first: axis-angle (3, ...) [rad] to matrices (3, 3, ...).

    Exact at zero rotation. Source: R = I + sin(t)/t [w] + (1 - cos t)/t^2 [w]^2.
    """
    sine, bend, _ = _coefficients(rot[0] * rot[0] + rot[1] * rot[1] + rot[2] * rot[2])
    return _turned_components(rot, sine, bend)


def cayley_components(rot: np.ndarray) -> np.ndarray:
    """Cayley's rotation, components first: about the axis of ``rot`` (3, ...), by 2 atan(t/2) instead of t.

    An exact rotation of any size without a sine, equal to :func:`matrix_components` to third order; solver steps use it.
    """
    shrink = 1 / (1 + 0.25 * (rot[0] * rot[0] + rot[1] * rot[1] + rot[2] * rot[2]))
    return _turned_components(rot, shrink, 0.5 * shrink)


def _turned_components(rot: np.ndarray, s: np.ndarray, c: np.ndarray) -> np.ndarray:
    """I + s [rot] + c [rot]^2."""
    x, y, z = rot
    cx, cy, cz = c * x, c * y, c * z
    xx, yy, zz = cx * x, cy * y, cz * z
    xy, xz, yz = cx * y, cx * z, cy * z
    sx, sy, sz = s * x, s * y, s * z
    out = np.empty((3, 3, *s.shape), s.dtype)
    out[0, 0] = 1 - (yy + zz)
    out[1, 1] = 1 - (xx + zz)
    out[2, 2] = 1 - (xx + yy)
    np.subtract(xy, sz, out=out[0, 1])
    np.add(xy, sz, out=out[1, 0])
    np.add(xz, sy, out=out[0, 2])
    np.subtract(xz, sy, out=out[2, 0])
    np.subtract(yz, sx, out=out[1, 2])
    np.add(yz, sx, out=out[2, 1])
    return out


def _coefficients(square: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """sin(t)/t, (1 - cos t)/t^2 and guarded t^2, from t^2 (...); half angles, so that float32 loses no digits."""
    square = square + _TINY  # zero becomes 1e-15 rad: the limits 1 and 1/2 are exact without a branch
    angle = np.sqrt(square)
    half = 0.5 * angle
    sine = np.sin(half) / angle
    return 2 * sine * np.cos(half), 2 * sine * sine, square


def backward_components(rot: np.ndarray, torque: np.ndarray) -> np.ndarray:
    """Gradient with respect to axis-angle ``rot`` (3, ...) of a value with left-increment gradient ``torque`` (3, ...).

    ``torque`` is dL/dd for R -> exp(d) R. The result is J_l(rot)^T torque with the left Jacobian of SO(3),
    J_l = I + (1 - cos t)/t^2 [w] + (t - sin t)/t^3 [w]^2 (Chirikjian, Stochastic Models vol. 2, eq. 10.86).
    """
    x, y, z = rot
    s, a, square = _coefficients(x * x + y * y + z * z)
    series = (1 - square / 20 * (1 - square / 42)) / 6
    b = np.where(square < _SERIES_BELOW, series, (1 - s) / square)
    once = cross_components(rot, torque)
    twice = cross_components(rot, once)
    once *= a
    twice *= b
    twice -= once
    twice += torque
    return twice


def matrix_from_axis_angle(rot: np.ndarray) -> np.ndarray:
    """Axis-angle (..., 3) [rad] to rotation matrices (..., 3, 3)."""
    components = matrix_components(_components_first(rot))[..., 0]
    return np.ascontiguousarray(np.moveaxis(components, (0, 1), (-2, -1)))


def axis_angle_backward(rot: np.ndarray, torque: np.ndarray) -> np.ndarray:
    """Gradient (..., 3) with respect to axis-angle ``rot`` (..., 3), see `backward_components`; ``torque`` (..., 3)."""
    components = backward_components(_components_first(rot), _components_first(torque))[..., 0]
    return np.moveaxis(components, 0, -1)


def axis_angle_from_matrix(matrix: np.ndarray) -> np.ndarray:
    """Rotation matrices (..., 3, 3) to axis-angle (..., 3) [rad], angle in [0, pi]; at pi either axis sign may come."""
    return np.moveaxis(axis_angle_components(_matrix_components_first(matrix))[..., 0], 0, -1)


def quaternion_from_axis_angle(rot: np.ndarray) -> np.ndarray:
    """Axis-angle (..., 3) [rad] to unit quaternions (..., 4)."""
    rot = _floating(rot)
    half = 0.5 * np.linalg.norm(rot, axis=-1, keepdims=True)
    return np.concatenate([np.cos(half), 0.5 * np.sinc(half / np.pi) * rot], axis=-1)


def axis_angle_from_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4), either sign, to the shortest axis-angle (..., 3) [rad]; need not be exactly unit."""
    quaternion = _floating(quaternion)
    quaternion = np.where(quaternion[..., :1] < 0, -quaternion, quaternion)
    vector = quaternion[..., 1:]
    sine = np.linalg.norm(vector, axis=-1, keepdims=True)
    half = np.arctan2(sine, quaternion[..., :1])
    # angle / sine, where sine -> 0 means angle -> 2 sine / w
    factor = np.where(sine > 1e-12, 2 * half / np.maximum(sine, 1e-30), 2 / np.maximum(quaternion[..., :1], 1e-30))
    return vector * factor


def matrix_from_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4) to rotation matrices (..., 3, 3); normalised here, a zero quaternion gives the identity."""
    quaternion = _floating(quaternion)
    length = np.linalg.norm(quaternion, axis=-1, keepdims=True)
    identity = np.zeros(4, quaternion.dtype)
    identity[0] = 1
    w, x, y, z = np.moveaxis(np.where(length > 1e-12, quaternion / np.maximum(length, 1e-30), identity), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2).astype(quaternion.dtype, copy=False)


def quaternion_from_matrix(matrix: np.ndarray) -> np.ndarray:
    """Rotation matrices (..., 3, 3) to unit quaternions (..., 4) with w >= 0, to full precision at every angle."""
    return np.moveaxis(_quaternion_components(_matrix_components_first(matrix))[..., 0], 0, -1)


def _quaternion_components(m: np.ndarray) -> np.ndarray:
    """Matrices (3, 3, ...) to quaternions (4, ...), w >= 0.

    Row i of the symmetric 4x4 matrix below is 4 q[i] q; the row of the largest component loses no digits
    (the choice of pivot that Shepperd described for the direction cosine matrix).
    """
    xx, yy, zz = m[0, 0], m[1, 1], m[2, 2]
    wx, wy, wz = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    xy, xz, yz = m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1]
    diagonal = np.stack([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz])
    if np.all(diagonal[0] > 1):  # no turn beyond 120 degrees: the first row serves everywhere
        rows = np.stack([diagonal[0], wx, wy, wz])
    else:
        every = np.stack(
            [
                np.stack([diagonal[0], wx, wy, wz]),
                np.stack([wx, diagonal[1], xy, xz]),
                np.stack([wy, xy, diagonal[2], yz]),
                np.stack([wz, xz, yz, diagonal[3]]),
            ]
        )
        best = np.argmax(diagonal, axis=0)
        rows = np.take_along_axis(every, np.broadcast_to(best, every.shape[1:])[None], axis=0)[0]
        rows = np.where(rows[0] < 0, -rows, rows)
    return rows / np.sqrt(np.sum(rows * rows, axis=0))


def axis_angle_components(m: np.ndarray) -> np.ndarray:
    """Matrices (3, 3, ...) to axis-angle (3, ...) [rad], components first; see :func:`axis_angle_from_matrix`."""
    q = _quaternion_components(m)
    sine = np.sqrt(q[1] * q[1] + q[2] * q[2] + q[3] * q[3]) + 1e-30
    return q[1:] * (2 * np.arctan2(sine, q[0]) / sine)


def quaternion_multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product of (..., 4) and (..., 4): the rotation ``b`` first, then ``a``."""
    aw, ax, ay, az = np.moveaxis(_floating(a), -1, 0)
    bw, bx, by, bz = np.moveaxis(_floating(b), -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def quaternion_conjugate(quaternion: np.ndarray) -> np.ndarray:
    """The inverse of unit quaternions (..., 4)."""
    quaternion = _floating(quaternion)
    return quaternion * np.array([1, -1, -1, -1], quaternion.dtype)


def continuous_quaternions(quaternion: np.ndarray) -> np.ndarray:
    """Signs chosen along the first axis (F, ..., 4) so that neighbouring frames never flip between q and -q."""
    quaternion = _floating(quaternion)
    flips = np.einsum("f...c,f...c->f...", quaternion[1:], quaternion[:-1]) < 0
    sign = np.cumprod(np.where(flips, -1.0, 1.0), axis=0)
    return np.concatenate([quaternion[:1], quaternion[1:] * sign[..., None]]).astype(quaternion.dtype)


def slerp(a: np.ndarray, b: np.ndarray, fraction: float | np.ndarray) -> np.ndarray:
    """Axis-angle (..., 3) [rad] at ``fraction`` (broadcast over (..., 1)) of the shortest arc from ``a`` to ``b``."""
    qa, qb = quaternion_from_axis_angle(a), quaternion_from_axis_angle(b)
    step = axis_angle_from_quaternion(quaternion_multiply(quaternion_conjugate(qa), qb))
    part = quaternion_from_axis_angle(step * np.asarray(fraction, step.dtype))
    return axis_angle_from_quaternion(quaternion_multiply(qa, part))


def quaternion_slerp(a: np.ndarray, b: np.ndarray, fraction: float | np.ndarray) -> np.ndarray:
    """Unit quaternions (..., 4) at ``fraction`` (broadcast over (..., 1)) of the shortest arc from ``a`` to ``b``.

    Exactly ``a`` at 0, and ``b`` or its negative, whichever is nearer to ``a``, at 1 (Shoemake, "Animating rotation with
    quaternion curves", 1985).
    """
    a, b = _floating(a), _floating(b)
    fraction = np.asarray(fraction, a.dtype)
    b = np.where(np.sum(a * b, axis=-1, keepdims=True) < 0, -b, b)
    angle = np.arccos(np.clip(np.sum(a * b, axis=-1, keepdims=True), 0, 1))
    sine = np.sin(angle)
    small = sine < 1e-4  # [rad] here a straight line is the arc to the last digit
    divisor = np.where(small, 1, sine)
    weight_a = np.where(small, 1 - fraction, np.sin((1 - fraction) * angle) / divisor)
    weight_b = np.where(small, fraction, np.sin(fraction * angle) / divisor)
    out = weight_a * a + weight_b * b
    out /= np.linalg.norm(out, axis=-1, keepdims=True)
    return np.where(fraction == 0, a, np.where(fraction == 1, b, out))


def sixd_from_matrix(matrix: np.ndarray) -> np.ndarray:
    """Rotation matrices (..., 3, 3) to their first two columns (..., 6) (Zhou et al. 2019, arXiv 1812.07035)."""
    return np.concatenate([matrix[..., :, 0], matrix[..., :, 1]], axis=-1)


def matrix_from_sixd(sixd: np.ndarray) -> np.ndarray:
    """6D (..., 6) to rotation matrices (..., 3, 3) by Gram-Schmidt; two parallel or zero columns give a ValueError."""
    sixd = _floating(sixd)
    first, second = sixd[..., :3], sixd[..., 3:]
    length = np.linalg.norm(first, axis=-1, keepdims=True)
    third = np.cross(first, second)
    area = np.linalg.norm(third, axis=-1, keepdims=True)
    noise = 4 * np.finfo(sixd.dtype).eps * length * np.linalg.norm(second, axis=-1, keepdims=True)
    if np.any(area <= noise):
        raise ValueError("6D rotation: expected two independent columns, got parallel or zero ones")
    first, third = first / length, third / area
    return np.stack([first, np.cross(third, first), third], axis=-1)


def rotation_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smallest rotation (..., 3, 3) that turns directions ``a`` (..., 3) into ``b`` (..., 3).

    Opposite directions turn half a circle about some axis at right angles; zero vectors give the identity.
    """
    a, b = np.broadcast_arrays(_unit(_floating(a)), _unit(_floating(b)))
    total, difference = (np.linalg.norm(v, axis=-1, keepdims=True) for v in (a + b, a - b))
    # Near half a turn the cross product is mostly rounding: only what is at right angles to a - b is kept of it.
    across = np.cross(a, b)
    along = _unit(a - b, 0)
    axis = across - along * np.sum(across * along, axis=-1, keepdims=True)
    away = np.eye(3, dtype=a.dtype)[np.argmin(np.abs(a), axis=-1)]
    opposite = (
        np.linalg.norm(axis, axis=-1, keepdims=True) < 4 * np.finfo(a.dtype).eps
    )  # or equal: then the axis does not matter
    axis = np.where(opposite, np.cross(a, away), axis)
    # cos and sin of half the angle are |a + b| / 2 and |a - b| / 2
    quaternion = np.concatenate([total, difference * _unit(axis, 0)], axis=-1)
    missing = ~(np.any(a, axis=-1, keepdims=True) & np.any(b, axis=-1, keepdims=True))
    return matrix_from_quaternion(np.where(missing, np.array([1, 0, 0, 0], a.dtype), quaternion))


def geodesic_angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angle (...) [rad] of the rotation between matrices ``a`` and ``b``, both (..., 3, 3); exact at small angles."""
    return np.linalg.norm(axis_angle_from_matrix(np.swapaxes(a, -1, -2) @ b), axis=-1)


def twist_about(rot: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Signed twist angle (...) [rad] in [-pi, pi] of axis-angle ``rot`` (..., 3) about the unit ``axis`` (..., 3).

    Swing-twist decomposition: the twist is the rotation about ``axis`` nearest to ``rot``; 0 at a half-turn swing.
    """
    quaternion = quaternion_from_axis_angle(rot)
    sine, cosine = np.sum(quaternion[..., 1:] * np.asarray(axis, quaternion.dtype), axis=-1), quaternion[..., 0]
    sine = np.where(cosine < 0, -sine, sine)
    half_turn_swing = np.hypot(sine, cosine) < 4 * np.finfo(quaternion.dtype).eps  # nothing but rounding is left
    twist = np.where(half_turn_swing, 0 * sine, 2 * np.arctan2(sine, np.abs(cosine)))
    return twist.astype(quaternion.dtype, copy=False)  # NumPy 1 widens a single float32


def matrix_from_euler(angles: np.ndarray, order: str) -> np.ndarray:
    """Euler ``angles`` (..., n) [rad] about the n axes named in ``order`` ("ZYX", "", ...) to matrices (..., 3, 3).

    Composed left to right as BVH lists its channels: R = R(order[0]) R(order[1]) ...; no angles give the identity.
    Letters other than X, Y, Z or another number of angles than letters give a ValueError.
    """
    angles = _floating(angles)
    if not set(order.upper()) <= set("XYZ"):
        raise ValueError(f"Euler order: expected letters of X, Y and Z, got {order!r}")
    if angles.shape[-1] != len(order):
        raise ValueError(f"Euler order {order!r}: expected {len(order)} angles, got {angles.shape[-1]}")
    out = np.broadcast_to(np.eye(3, dtype=angles.dtype), (*angles.shape[:-1], 3, 3)).copy()
    for i, letter in enumerate(order.upper()):
        axis = np.eye(3, dtype=angles.dtype)["XYZ".index(letter)]
        out = out @ matrix_from_axis_angle(angles[..., i : i + 1] * axis)
    return out


def _unit(vector: np.ndarray, longer_than: float = 1e-12) -> np.ndarray:
    length = np.linalg.norm(vector, axis=-1, keepdims=True)
    return np.where(length > longer_than, vector / np.where(length > longer_than, length, 1), 0 * vector)


def _components_first(rows: np.ndarray) -> np.ndarray:
    """(..., 3) as (3, ..., 1): the last axis keeps a single row an array, which NumPy 1 would widen to float64."""
    return np.moveaxis(_floating(rows), -1, 0)[..., None]


def _matrix_components_first(matrices: np.ndarray) -> np.ndarray:
    """(..., 3, 3) as (3, 3, ..., 1), for the same reason."""
    return np.moveaxis(_floating(matrices), (-2, -1), (0, 1))[..., None]


def _floating(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
