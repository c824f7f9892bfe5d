# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees of joints: everything that is passed down from parents to children.

A tree is an array ``parents`` (J) of indices, parents before children, -1 for a root. There may be several roots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import quick_rotations

SHORTEST = 1e-4  # of the body's extent: bones shorter than this have no direction of their own


def chain(parents: np.ndarray, bone: int) -> list[int]:
    """``bone`` and its ancestors up to the root, nearest first."""
    out = [bone]
    while parents[out[-1]] >= 0:
        out.append(int(parents[out[-1]]))
    return out


def limb(parents: np.ndarray, heads: np.ndarray, end: int) -> tuple[int, int, int]:
    """The bones (upper, lower, end) of the limb that ends in ``end``: its two nearest ancestors whose bones have length.

    ``heads`` (J, 3) are the rest heads. Near the root the last ancestor is repeated.
    """
    shortest = SHORTEST * np.ptp(heads, axis=0).max()
    found = [end]
    for bone in chain(parents, end)[1:]:
        if np.linalg.norm(heads[found[-1]] - heads[bone]) > shortest:
            found.append(bone)
        if len(found) == 3:
            break
    return (found[-1], found[min(1, len(found) - 1)], end)


def levels(parents: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Joints by depth below the roots, as (indices, parents' indices); the roots themselves are left out."""
    parents = np.asarray(parents, int)
    depth = np.zeros(len(parents), int)
    for j, parent in enumerate(parents.tolist()):
        depth[j] = depth[parent] + 1 if parent >= 0 else 0
    found = [np.flatnonzero(depth == d) for d in range(1, int(depth.max(initial=0)) + 1)]
    return tuple((index, parents[index]) for index in found)


def matrix_products(parents: Sequence[int] | np.ndarray, local: np.ndarray) -> np.ndarray:
    """Matrices (..., J, n, n) relative to each joint's parent, multiplied down from the roots to every joint."""
    out = np.array(local)
    for j, parent in enumerate(_indices(parents)):
        if parent >= 0:
            np.matmul(out[..., parent, :, :], local[..., j, :, :], out=out[..., j, :, :])
    return out


def quaternion_products(parents: Sequence[int] | np.ndarray, local: np.ndarray) -> np.ndarray:
    """Unit quaternions (..., J, 4) relative to each joint's parent, multiplied down from the roots to every joint."""
    out = np.array(local)
    for j, parent in enumerate(_indices(parents)):
        if parent >= 0:
            out[..., j, :] = quick_rotations.quaternion_multiply(out[..., parent, :], local[..., j, :])
    return out


def sums(parents: Sequence[int] | np.ndarray, values: np.ndarray) -> np.ndarray:
    """``values`` (J, ...) of each joint plus those of all its ancestors, such as rest heads (J, 3) from offsets."""
    out = np.array(values, np.float64)
    for j, parent in enumerate(_indices(parents)):
        if parent >= 0:
            out[j] += out[parent]
    return out


def _indices(parents: Sequence[int] | np.ndarray) -> list[int]:
    return np.asarray(parents, int).tolist()
