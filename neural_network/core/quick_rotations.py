# SPDX-License-Identifier: GPL-3.0-or-later
"""The rotations of one pose or a few, in as few NumPy calls as possible.

Functions that :mod:`.rotations` has too have the same names and meanings. For a handful of rotations a call costs more
than its arithmetic: here a conversion is one product of pairs of components with a constant matrix. Quaternions must be
of unit length.
"""

from __future__ import annotations

import math

import numpy as np

from . import rotations

CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])
"""A unit quaternion times this is its inverse."""


def _quadratic() -> np.ndarray:
    out = np.zeros((4, 4, 3, 3))
    for a in range(3):
        out[0, 0, a, a] = 1
        for b in range(3):
            out[1 + b, 1 + b, a, a] += 1 if a == b else -1
            if a != b:
                out[1 + a, 1 + b, a, b] += 2
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[0, 1 + k, j, i] += 2
        out[0, 1 + k, i, j] -= 2
    return out.reshape(16, 9)


def _linear() -> np.ndarray:
    out = np.zeros((3, 3, 4))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[i, i, 0] = 1
        out[k, j, 1 + i], out[j, k, 1 + i] = 1, -1
    return out.reshape(9, 4)


MATRIX = _quadratic()
"""(16, 9) rotation matrix of a unit quaternion as sums of products of two of its components."""
AXIS = _linear()
"""(9, 4) trace and axial vector of a matrix: 4 w times its quaternion, once 1 is added to the trace."""
FEW = 6
"""Rotations up to which plain arithmetic is faster than arrays."""
_PRODUCT = rotations.quaternion_multiply(np.eye(4)[:, None], np.eye(4)).reshape(16, 4)
_CROSS = np.cross(np.eye(3)[:, None], np.eye(3)).reshape(9, 3)


def quaternion_from_axis_angle(rot: np.ndarray) -> np.ndarray:
    """Axis-angle (N, 3) [rad] to unit quaternions (N, 4)."""
    out = np.empty((len(rot), 4), rot.dtype)
    half = np.sqrt(np.einsum("nc,nc->n", rot, rot) + 1e-30) * 0.5
    np.cos(half, out=out[:, 0])
    np.multiply(rot, (np.sin(half) / (2 * half))[:, None], out=out[:, 1:])
    return out


def matrix_from_axis_angle(rot: np.ndarray) -> np.ndarray:
    """Axis-angle (N, 3) [rad] to matrices (N, 3, 3)."""
    return matrix_from_quaternion(quaternion_from_axis_angle(rot))


def matrix_from_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """Unit quaternions (..., 4) to matrices (..., 3, 3)."""
    pairs = quaternion[..., :, None] * quaternion[..., None, :]
    out: np.ndarray = np.dot(pairs.reshape(-1, 16), MATRIX).reshape(*quaternion.shape[:-1], 3, 3)
    return out


def quaternion_from_matrix(matrix: np.ndarray) -> np.ndarray:
    """Matrices (N, 3, 3) to unit quaternions (N, 4), w >= 0."""
    out: np.ndarray = np.dot(matrix.reshape(-1, 9), AXIS)
    out[:, 0] += 1
    if out[:, 0].min() < 0.1:  # near half a turn this would lose digits
        near = np.flatnonzero(out[:, 0] < 0.1)
        if len(near) > FEW:
            out[near] = rotations.quaternion_from_matrix(matrix[near])
        else:
            for i in near.tolist():
                out[i] = _near_half_turn(*matrix[i].ravel().tolist())
    out /= np.sqrt(np.einsum("nc,nc->n", out, out))[:, None]
    return out


def _near_half_turn(
    a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float, i: float
) -> tuple[float, float, float, float]:
    """The matrix ((a, b, c), (d, e, f), (g, h, i)), near half a turn, to a quaternion of any length, w >= 0, in plain arithmetic.

    The largest component of the axis divides (Shepperd, "Quaternion from rotation matrix", 1978).
    """
    if a >= e and a >= i:
        w, x, y, z = h - f, 1 + a - e - i, b + d, c + g
    elif e >= i:
        w, x, y, z = c - g, b + d, 1 + e - a - i, f + h
    else:
        w, x, y, z = d - b, c + g, f + h, 1 + i - a - e
    return (w, x, y, z) if w >= 0 else (-w, -x, -y, -z)


def axis_angle_from_matrix(matrix: np.ndarray) -> np.ndarray:
    """Matrices (N, 3, 3) to the shortest axis-angle (N, 3) [rad]."""
    return axis_angle_from_quaternion(quaternion_from_matrix(matrix))


def axis_angle_from_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """Unit quaternions (N, 4) of either sign to the shortest axis-angle (N, 3) [rad]."""
    vector = quaternion[:, 1:]
    lean = np.sqrt(np.einsum("nc,nc->n", vector, vector) + 1e-30)
    w = quaternion[:, 0]
    out: np.ndarray = vector * (2 * np.arctan2(np.copysign(lean, w), np.abs(w)) / lean)[:, None]
    return out


def quaternion_multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product of (..., 4) and (..., 4): the rotation ``b`` first, then ``a``."""
    pairs = a[..., :, None] * b[..., None, :]
    out: np.ndarray = pairs.reshape(*pairs.shape[:-2], 16) @ _PRODUCT
    return out


def quaternion_rotate(quaternion: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Vectors (..., 3) rotated by unit quaternions (..., 4)."""
    out: np.ndarray = (matrix_from_quaternion(quaternion) @ np.asarray(vector)[..., None])[..., 0]
    return out


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product of (..., 3) and (..., 3)."""
    pairs = a[..., :, None] * b[..., None, :]
    out: np.ndarray = pairs.reshape(*pairs.shape[:-2], 9) @ _CROSS
    return out


def matrix_of_one(x: float, y: float, z: float) -> np.ndarray:
    """One axis-angle [rad] to a matrix (3, 3), in plain arithmetic."""
    square = x * x + y * y + z * z + 1e-30
    angle = math.sqrt(square)
    s, half = math.sin(angle) / angle, math.sin(0.5 * angle)
    c = 2 * half * half / square
    return np.array(
        [
            [1 - c * (y * y + z * z), c * x * y - s * z, c * x * z + s * y],
            [c * x * y + s * z, 1 - c * (x * x + z * z), c * y * z - s * x],
            [c * x * z - s * y, c * y * z + s * x, 1 - c * (x * x + y * y)],
        ]
    )


def quaternion_of_one(x: float, y: float, z: float) -> tuple[float, float, float, float]:
    """One axis-angle [rad] to a unit quaternion, in plain arithmetic."""
    half = 0.5 * math.sqrt(x * x + y * y + z * z + 1e-30)
    s = math.sin(half) / (2 * half)
    return math.cos(half), s * x, s * y, s * z


def axis_angle_of_one(w: float, x: float, y: float, z: float) -> list[float]:
    """One unit quaternion, of either sign, to the shortest axis-angle [rad], in plain arithmetic."""
    lean = math.sqrt(x * x + y * y + z * z) + 1e-30
    s = 2 * math.atan2(lean, w) / lean if w >= 0 else -2 * math.atan2(lean, -w) / lean
    return [s * x, s * y, s * z]


def left_product(q: np.ndarray) -> np.ndarray:
    """(4, 4) matrix that takes column quaternions p to q p."""
    w, x, y, z = q
    return np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])


def right_product(q: np.ndarray) -> np.ndarray:
    """(4, 4) matrix that takes row quaternions p to p q."""
    w, x, y, z = q
    return np.array([[w, x, y, z], [-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])
