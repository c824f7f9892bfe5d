# SPDX-License-Identifier: GPL-3.0-or-later
"""Vectors of one frame at a time, in as few NumPy calls as possible; all functions take free leading axes.

``core.quick_rotations`` has the same for rotations.
"""

from __future__ import annotations

import numpy as np

from ..core import quick_rotations as quick


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Scalar products (..., 1) of (..., n) and (..., n), as a matrix product: it has less overhead than a sum."""
    out: np.ndarray = (a[..., None, :] @ b[..., None])[..., 0]
    return out


def length(vectors: np.ndarray) -> np.ndarray:
    """Lengths (..., 1) of vectors (..., n)."""
    out: np.ndarray = np.sqrt(dot(vectors, vectors))
    return out


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors (..., n) divided by their length, which must not be zero."""
    out: np.ndarray = vectors / length(vectors)
    return out


def smallest_turn(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smallest rotation, as a quaternion (..., 4), from unit vectors ``a`` to ``b``; opposite ones give the identity."""
    return unit(np.concatenate([1 + np.maximum(dot(a, b), 1e-9 - 1), quick.cross(a, b)], axis=-1))


def into_frame(frame: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Vectors (..., 3) in the axes of ``frame`` (..., 3, n), whose columns are those axes: (..., n)."""
    out: np.ndarray = (vectors[..., None, :] @ frame)[..., 0, :]
    return out


def out_of_frame(frame: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The inverse of ``into_frame``: vectors (..., n) in the axes of ``frame`` (..., 3, n) as (..., 3)."""
    out: np.ndarray = (frame @ vectors[..., None])[..., 0]
    return out


def orthonormal(sixd: np.ndarray) -> np.ndarray:
    """6D (..., 6) to matrices (..., 3, 3) as ``matrix_from_sixd``, but degenerate input gives some rotation, not an error."""
    first = sixd[..., :3] + 1e-9 * np.array([1.0, 0, 0])
    first = first / np.linalg.norm(first, axis=-1, keepdims=True)
    third = np.cross(first, sixd[..., 3:]) + 1e-9 * np.cross(first, np.roll(first, 1, axis=-1))
    third = third / np.maximum(np.linalg.norm(third, axis=-1, keepdims=True), 1e-30)
    return np.stack([first, np.cross(third, first), third], axis=-1)
