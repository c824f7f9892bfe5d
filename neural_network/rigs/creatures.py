# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the effectors of any creature: paws, wing tips, head, beak, tail."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .bone_names import read_names
from .bone_tree import (
    STILL,
    BoneTree,
    ancestors,
    angle_between,
    descendants,
    division_difference,
    read_tree,
    require_tree,
)

_MIN_LIMB = 0.18  # of the body's reach: a shorter chain is not a limb
_FORK_WITHIN = 4  # bones below the root: a body that branches further down is a single chain
_SAME_PLACE = 0.01  # of the body's reach: a bone this close to the end of a limb is a control for it
_MIN_DROP = 0.15  # of its length: a leg goes down at least this far; fins and folded wings are flatter
_NOT_LEGS = ("a tail or wing", "a soft-body bone")  # by name; the latter for the pectoral fins of a fish
_MIN_CHAIN_WITH_MIDDLE = 8  # bones of a body without limbs that gets an effector in its middle as well


@dataclass(frozen=True)
class Effectors:
    """The bones of a creature that can be dragged."""

    body: int
    """Top of the moving chain: the bone from which legs, tail and trunk branch."""
    effectors: tuple[int, ...]
    """The ends of the limbs, the head, and the tips of beak and tail."""
    feet: tuple[int, ...]
    """The effectors that stand on the ground."""


def find_effectors(
    names: Sequence[str],
    parents: np.ndarray,
    heads: np.ndarray,
    *,
    motion: np.ndarray | None = None,
    turning: np.ndarray | None = None,
    excluded: Collection[int] = (),
) -> Effectors:
    """Propose the effectors of any tree of bones; the user may choose others.

    Args:
        names: (J) bone names, used only to leave out controls and props.
        parents: (J) int, -1 for roots.
        heads: (J, 3) rest heads, Z up, any unit.
        motion: (K, J, 3) heads in some frames, optional: limbs that never move relative to the body are left out.
        turning: (J) [rad] how far each bone ever rotates, optional, for the same purpose.
        excluded: bones that are known to be controls or helpers, optional.

    Each mirrored limb gives one effector at its end: its tip, or, if it stands on the ground, the last bone that has a
    child. Each chain along the middle gives its tip, and a bone with a face on it gives the head. A body without limbs
    (a snake, a rope) gives its tip, and also its middle if it is long. Raises ValueError for a skeleton without bones.
    """
    names, parents, heads = tuple(map(str, names)), np.asarray(parents, int), np.asarray(heads, float)
    if not len(names):
        raise ValueError("effectors: expected a skeleton with bones, got none")
    require_tree(parents)
    tree = read_tree(names, read_names(names), parents, heads, {}, motion, {}, turning)
    body = max((int(j) for j in np.flatnonzero(tree.parents < 0)), key=lambda j: tree.reach[j])
    size = float(tree.reach[body])
    left_out = set(excluded) | {j for j in range(len(names)) if _excluded_by_name(tree, j)}
    left_out |= _target_bones(tree, body, size)
    usable = [tuple(c for c in kids if c not in left_out) for kids in tree.children]
    tree = replace(tree, children=tuple(usable))
    body = _trunk_start(tree, body, size)
    height = tree.heads[:, 2]
    ground = float(min(height[j] for j in [body, *descendants(tree, body)]))
    found: list[int] = []
    todo = [body]
    while todo:
        at = todo.pop(0)
        long = [c for c in tree.children[at] if tree.real[c] and tree.length[c] + tree.reach[c] > _MIN_LIMB * size]
        sided = [c for c in long if _mirrored(tree, c, long)]
        found.extend(_end_of_limb(tree, c, ground, size) for c in sided)
        middle = [c for c in long if c not in sided]
        todo.extend(middle)
        if not middle and at != body:
            found.extend(_end_of_middle(tree, at, body, size))
    if len(found) < 2:
        line = _chain_of(tree, body)
        found = [line[len(line) // 2], line[-1]] if len(line) >= _MIN_CHAIN_WITH_MIDDLE else [line[-1]]
    moving = [j for j in dict.fromkeys(found) if _moves(tree, body, j, size)]
    feet = [j for j in moving if height[j] - ground < 0.1 * size and _is_leg(tree, j, body)]
    return Effectors(body, tuple(moving), tuple(feet))


def controlled_bones(parents: np.ndarray, heads: np.ndarray, body: int, effectors: Sequence[int]) -> list[int]:
    """The bones that move the effectors (indices, parents first): all from ``body`` to them, including both ends.

    ``parents`` (J) and rest ``heads`` (J, 3) are those of all bones. A bone of zero length with a single child is left
    out; its rotation counts as its child's. Raises ValueError for effectors that are not below ``body``.
    """
    parents = np.asarray(parents, int)
    line: set[int] = {body}
    loose = []
    for end in effectors:
        above = [end, *ancestors(parents, end)]
        if body in above:
            line.update(above[: above.index(body)])
        else:
            loose.append(end)
    if loose:
        raise ValueError(f"effectors: expected bones below bone {body}, got {', '.join(map(str, loose))}")
    nearest = 1e-6 * float(np.ptp(np.asarray(heads)[sorted(line)], axis=0).max())
    carried: dict[int, list[int]] = {}
    for j in line - {body}:
        carried.setdefault(int(parents[j]), []).append(j)
    for j in line - {body, *effectors}:
        if len(carried[j]) == 1 and np.linalg.norm(heads[carried[j][0]] - heads[j]) <= nearest:
            line.discard(j)
    depth = {j: len(ancestors(parents, j)) for j in line}
    return sorted(line, key=lambda j: (depth[j], j))


def _trunk_start(tree: BoneTree, top: int, size: float) -> int:
    """The bone from which the body branches, a few bones below the root; the root itself if there is none."""
    body = top
    for _ in range(_FORK_WITHIN + 1):
        long = [c for c in tree.children[body] if tree.length[c] + tree.reach[c] > 0.1 * size]
        if len(long) != 1:
            return body if long else top
        body = long[0]
    return top


def _target_bones(tree: BoneTree, top: int, size: float) -> set[int]:
    """Bones without children at the end of a limb that they do not belong to: the targets of a control rig."""
    leaves = [j for j in range(len(tree.children)) if tree.real[j] and tree.reach[j] < 0.15 * size]
    depth = [len(ancestors(tree.parents, j)) for j in range(len(tree.children))]
    deep = [j for j in range(len(tree.children)) if tree.real[j] and depth[j] >= 3]
    out = set()
    for j in leaves:
        if depth[j] > 1:
            continue  # controls are children of the root, or have no parent
        away = np.linalg.norm(tree.heads[deep] - tree.heads[j], axis=1) if deep else np.zeros(0)
        for at in np.flatnonzero(away < _SAME_PLACE * size).tolist():
            if j not in ancestors(tree.parents, deep[at]) and top in ancestors(tree.parents, deep[at]):
                out.add(j)
    return out


def _is_leg(tree: BoneTree, j: int, body: int) -> bool:
    """Whether the limb that ends in ``j`` is one of a pair, goes down, and is not a wing or fin by its name."""
    line = [j, *ancestors(tree.parents, j)]
    line = line[: line.index(body)] if body in line else line
    if not _is_sided(tree, j, body) or any(tree.names[k].excluded in _NOT_LEGS for k in line):
        return False
    drop = float(tree.heads[line[-1], 2] - tree.heads[j, 2])
    return drop > _MIN_DROP * float(sum(tree.length[k] for k in line[:-1]))


def _excluded_by_name(tree: BoneTree, j: int) -> bool:
    """Whether a bone's name shows that it is not an effector: controls, props, clothes, the small bones of a face."""
    info = tree.names[j]
    if info.excluded in ("a soft-body bone", "a hip helper"):
        return not tree.children[j]
    if info.excluded == "a face bone":
        return bool(info.side)
    return info.excluded in ("a control bone", "a prop", "clothing", "a connector")


def _end_of_middle(tree: BoneTree, at: int, body: int, size: float) -> list[int]:
    """Effectors at the end of a chain along the middle: the tip of a tail, or the head and its beak or snout."""
    under = descendants(tree, at)
    forks = [j for j in [at, *under] if sum(tree.real[c] for c in tree.children[j]) > 1]
    chain = _chain_of(tree, at)
    line = [at, *ancestors(tree.parents, at)]
    line = line[: line.index(body)] if body in line else line
    named = [j for j in [*line, *under] if "Head" in tree.names[j].parts]
    if not forks and not named:
        return [chain[-1]]
    head = named[0] if named else min(forks, key=lambda j: len(ancestors(tree.parents, j)), default=at)
    tips = [j for j in descendants(tree, head) if not tree.children[j] and not _is_sided(tree, j, head)]
    if not tips:
        return [head]
    away = [float(np.linalg.norm(tree.heads[j] - tree.heads[head])) for j in tips]
    far = tips[int(np.argmax(np.round(np.array(away) / size, 2)))]
    return [head, far] if max(away) > 0.04 * size else [head]


def _mirrored(tree: BoneTree, c: int, group: Sequence[int]) -> bool:
    chain = _chain_of(tree, c)
    for other in group:
        if other == c or abs(tree.length[c] + tree.reach[c] - tree.length[other] - tree.reach[other]) > 0.1 * (
            tree.length[c] + tree.reach[c]
        ):
            continue
        if division_difference(tree, chain, _chain_of(tree, other)) < 0.05 or (
            not tree.children[c] and not tree.children[other]
        ):
            apart = np.linalg.norm(tree.heads[chain[-1]] - tree.heads[_chain_of(tree, other)[-1]])
            if apart > 0.1 * (tree.length[c] + tree.reach[c]):
                return True
    return False


def _chain_of(tree: BoneTree, start: int) -> tuple[int, ...]:
    """The chain of a limb to its tip: at every fork the child that continues farthest and straightest."""
    out = [start]
    while True:
        kids = [c for c in tree.children[out[-1]] if tree.real[c]]
        if not kids:
            return tuple(out)
        above = tree.parents[out[-1]]
        onward = tree.heads[out[-1]] - tree.heads[above] if above >= 0 else np.zeros(3)

        steps = tree.heads[kids] - tree.heads[out[-1]]
        straight = np.cos(angle_between(steps, np.broadcast_to(onward, steps.shape)))
        out.append(kids[int(np.argmax((tree.length[kids] + tree.reach[kids]) * (1.2 + straight)))])


def _end_of_limb(tree: BoneTree, start: int, ground: float, size: float) -> int:
    chain = _chain_of(tree, start)
    if any(tree.names[j].excluded in _NOT_LEGS for j in chain):
        return chain[-1]
    low = [j for j in chain[-2:] if tree.heads[j, 2] - ground < 0.06 * size]
    return low[0] if low else chain[-1]  # the foot is the parent of the last toe


def _moves(tree: BoneTree, body: int, j: int, size: float) -> bool:
    """Whether the bone ever moves relative to the body; unknown counts as moving."""
    if len(tree.poses) < 3:
        return True
    away = np.linalg.norm(tree.poses[1:, j] - tree.poses[1:, body], axis=1)
    turns = [k for k in [j, *ancestors(tree.parents, j)] if tree.turning is not None and tree.turning[k] > STILL]
    return bool(np.ptp(away) > 1e-4 * size) or bool(turns)


def _is_sided(tree: BoneTree, j: int, body: int) -> bool:
    line = [j, *ancestors(tree.parents, j)]
    for k in line[: line.index(body)] if body in line else line:
        if tree.parents[k] >= 0 and _mirrored(tree, k, tree.children[tree.parents[k]]):
            return True
    return False
