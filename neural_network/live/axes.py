# SPDX-License-Identifier: GPL-3.0-or-later
"""Axes and handedness: an engine's right, up and forward axes, and conversion to core axes and back.

Core axes are the project's own: right-handed, Z up, the character facing -Y, so its right is -X.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ARMATURE = ("-X", "+Z", "-Y")
"""(right, up, forward) of the character in core axes, which a character facing -Y in Blender has."""
UNITY = ("+X", "+Y", "+Z")
"""Unity, VRM and the VMC protocol: left-handed, Y up, the character facing +Z."""
GODOT = ("-X", "+Y", "+Z")
"""Godot and glTF: right-handed, Y up, models facing +Z."""


def axes_matrix(axes: Sequence[str]) -> np.ndarray:
    """Matrix (3, 3) that converts vectors of a space with these ``axes`` = (right, up, forward) to core axes.

    Each axis is a sign and a letter, as in ``("+X", "+Y", "+Z")``. The determinant is -1 for left-handed spaces.
    Raises ValueError unless they are three different axes.
    """
    if len(axes) != 3 or any(len(a) != 2 or a[0] not in "+-" or a[1] not in "XYZ" for a in axes):
        raise ValueError(f"axes: expected right, up and forward like '+X', '+Y', '-Z', got {list(axes)!r}")
    if len({a[1] for a in axes}) != 3:
        raise ValueError(f"axes: expected three different letters, got {list(axes)!r}")
    out: np.ndarray = _columns(ARMATURE) @ _columns(axes).T
    return out


def convert_vectors(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Positions or directions (..., 3) converted by a signed permutation ``matrix`` (3, 3); its transpose converts back."""
    out: np.ndarray = vectors @ matrix.T
    return out


def convert_quaternions(matrix: np.ndarray, quaternions: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4) (w, x, y, z) converted by a signed permutation ``matrix`` (3, 3); its transpose converts back.

    R becomes M R M^T. A rotation axis is an axial vector: where M mirrors (determinant -1), it changes sign once more.
    """
    handedness = float(np.round(np.linalg.det(matrix)))
    vector = handedness * (quaternions[..., 1:] @ matrix.T)
    return np.concatenate([quaternions[..., :1], vector], axis=-1)


def _columns(axes: Sequence[str]) -> np.ndarray:
    out = np.zeros((3, 3))
    for column, axis in enumerate(axes):
        out["XYZ".index(axis[1]), column] = -1.0 if axis[0] == "-" else 1.0
    return out
