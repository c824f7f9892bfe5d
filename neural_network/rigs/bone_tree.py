# SPDX-License-Identifier: GPL-3.0-or-later
"""A skeleton as a tree of bone lengths, which are the same in every pose and do not depend on names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .bone_names import BoneNameInfo

_LONGEST_LEAF = 1.5  # a leaf that is this many times longer than every inner bone is a distant helper
_ON_THE_WAY = -2  # a bone whose ancestors are being counted
STILL = np.radians(0.5)  # a bone that rotates less than this in a whole take counts as never rotating


@dataclass(frozen=True)
class BoneTree:
    """The bones (N) that may have a role, followed by the tips of bones as nodes of their own."""

    parents: np.ndarray
    """(N) int, -1 for roots."""
    heads: np.ndarray
    """(N, 3) at rest."""
    poses: np.ndarray
    """(1 + K, N, 3) heads at rest and in the frames of the take."""
    real: np.ndarray
    """(N) bool: a bone that may have a role, rather than a tip or a bone that was left out."""
    length: np.ndarray
    """(N) distance from the parent; 0 for roots."""
    reach: np.ndarray
    """(N) length of the longest chain below."""
    children: tuple[tuple[int, ...], ...]
    names: tuple[BoneNameInfo, ...]
    turning: np.ndarray | None
    """(N) [rad] how far each bone ever rotates relative to its parent; None if unknown."""


def require_tree(parents: np.ndarray) -> None:
    """Raise ValueError if parents (J) form a cycle."""
    depths(parents)


def depths(parents: np.ndarray) -> list[int]:
    """Number of ancestors of each bone, in a time that only grows with the number of bones; ValueError for a cycle."""
    above = parents.tolist()
    found = [-1] * len(above)
    for j in range(len(above)):
        way = []
        while j >= 0 and found[j] < 0:
            if found[j] == _ON_THE_WAY:
                raise ValueError(f"roles: the parents of bone {j} form a cycle; every bone must lead to a root")
            found[j] = _ON_THE_WAY
            way.append(j)
            j = above[j]
        depth = found[j] if j >= 0 else -1
        for k in reversed(way):
            depth += 1
            found[k] = depth
    return found


def _layer(names: Sequence[str], parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which bones to use (J) bool, and their parents among those: a generated Rigify rig has four skeletons in one."""
    index = {n: j for j, n in enumerate(names)}
    keep = np.ones(len(names), bool)
    for layer in ("DEF-", "ORG-"):
        if sum(n.startswith(layer) for n in names) >= 12:
            keep = np.array([n.startswith(layer) for n in names])
            break
    above = np.full(len(names), -1)
    for j in np.flatnonzero(keep):
        k = int(parents[j])
        while k >= 0 and not keep[k]:
            twin = index.get(layer + names[k].split("-", 1)[1]) if names[k].startswith(("ORG-", "MCH-")) else None
            if twin is not None and twin != j and keep[twin] and j not in ancestors(above, twin):
                k = twin
                break
            k = int(parents[k])
        above[j] = k
    return keep, above


def read_tree(
    names: Sequence[str],
    info: Sequence[BoneNameInfo],
    parents: np.ndarray,
    heads: np.ndarray,
    tips: Mapping[int, np.ndarray],
    motion: np.ndarray | None,
    motion_tips: Mapping[int, np.ndarray],
    turning: np.ndarray | None,
) -> BoneTree:
    """The tree of a skeleton; arguments as in :func:`~neural_network.rigs.roles.find_roles`, ``info`` as from ``read_names``.

    Tips become nodes after the bones. Other layers of a generated rig are left out, and so are leaves so far away that
    they can only be helpers. Frames with a number that is not finite are skipped.
    """
    keep, above = _layer(names, parents)
    count = len(names)
    ends = [j for j in tips if keep[j] and np.linalg.norm(np.asarray(tips[j]) - heads[j]) > 0]
    frames = np.zeros((0, count, 3)) if motion is None else np.asarray(motion, float)
    frames = frames[np.isfinite(frames).all(axis=(1, 2))]
    with_tips = bool(len(frames)) and all(j in motion_tips for j in ends)
    rest = np.concatenate([heads, np.array([tips[j] for j in ends], float).reshape(-1, 3)])
    tip_frames = [np.asarray(motion_tips[j], float) if with_tips else frames[:, j] for j in ends]
    moving = (
        np.concatenate([frames, *[t[:, None] for t in tip_frames]], axis=1)
        if len(frames)
        else np.zeros((0, len(rest), 3))
    )
    above = np.concatenate([above, np.array(ends, int)])
    total = len(rest)
    real = np.arange(total) < count
    real[:count] &= keep
    usable = np.concatenate([keep, np.ones(len(ends), bool)])
    length = np.where(above >= 0, np.linalg.norm(rest - rest[np.maximum(above, 0)], axis=1), 0.0)
    inner = np.zeros(total, bool)
    for j in np.flatnonzero(usable).tolist():
        if above[j] >= 0 and real[j]:
            inner[above[j]] = True
    long = length[inner & usable & (above >= 0)]
    limit = _LONGEST_LEAF * float(long.max(initial=0.0))
    if limit > 0:
        usable &= inner | (length <= limit)
    children = tuple(tuple(int(c) for c in np.flatnonzero((above == j) & usable)) for j in range(total))
    reach = np.zeros(total)
    for j in _leaves_first(above):
        if usable[j] and above[j] >= 0:
            reach[above[j]] = max(reach[above[j]], reach[j] + length[j])
    no_bone = BoneNameInfo("", {}, "the tip of a bone")
    turns = None if turning is None else np.concatenate([np.asarray(turning, float), np.zeros(len(ends))])
    return BoneTree(
        above,
        rest,
        np.concatenate([rest[None], moving]),
        real & usable,
        length,
        reach,
        children,
        (*info, *[no_bone] * len(ends)),
        turns,
    )


def _leaves_first(parents: np.ndarray) -> list[int]:
    return [int(j) for j in np.argsort(depths(parents), kind="stable")[::-1]]


def ancestors(parents: np.ndarray, j: int) -> list[int]:
    """The ancestors of bone ``j``, nearest first."""
    out: list[int] = []
    while parents[j] >= 0 and len(out) <= len(parents):
        j = int(parents[j])
        out.append(j)
    return out


def descendants(tree: BoneTree, j: int) -> list[int]:
    """All bones below bone ``j``, without tips."""
    out, todo = [], list(tree.children[j])
    while todo:
        k = todo.pop()
        if tree.real[k]:
            out.append(k)
            todo.extend(tree.children[k])
    return out


def never_turns(tree: BoneTree, j: int) -> bool:
    """Whether a bone never rotates in the whole take; False if unknown."""
    return tree.turning is not None and bool(tree.turning[j] < STILL)


def division_difference(tree: BoneTree, a: Sequence[int], b: Sequence[int]) -> float:
    """How differently two chains are divided into bones, 0 to 1: mean difference of their joints' positions along them."""
    along_a, along_b = (np.cumsum([tree.length[j] for j in chain[1:]]) for chain in (a, b))
    count = min(len(along_a), len(along_b))
    if count == 0:
        return 1.0
    return float(np.mean(np.abs(along_a[:count] - along_b[:count])) / max(along_a[-1], along_b[-1], 1e-12))


def angle_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angle (...) [rad] between vectors (..., 3); 0 for zero vectors."""
    x, y, z = (a[..., k] for k in range(3))
    u, v, w = (b[..., k] for k in range(3))
    across = np.sqrt((y * w - z * v) ** 2 + (z * u - x * w) ** 2 + (x * v - y * u) ** 2)
    return np.asarray(np.arctan2(across, x * u + y * v + z * w))


def lengths(vectors: np.ndarray) -> np.ndarray:
    """Length (...) of vectors (..., 3); faster than numpy.linalg for many small arrays."""
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", vectors, vectors)))
