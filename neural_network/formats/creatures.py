# SPDX-License-Identifier: GPL-3.0-or-later
"""Where any creature can be taken hold of: paws, wing tips, head, beak, tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .bone_names import read_names
from .bone_tree import STILL, Tree, ancestors, angle_between, descendants, read_tree, require_tree, unlike

_LIMB_SHARE = 0.18  # of the body's reach: what is shorter is no limb of its own


@dataclass(frozen=True)
class Ends:
    """Where a creature can be taken hold of."""

    body: int
    """Top of the moving chain: the bone that legs, tail and trunk part from."""
    effectors: tuple[int, ...]
    """The ends of the limbs, the head, and the tips of beak and tail."""
    feet: tuple[int, ...]
    """Those of the effectors that stand on the ground."""


def find_effectors(
    names: Sequence[str],
    parents: np.ndarray,
    heads: np.ndarray,
    *,
    motion: np.ndarray | None = None,
    turning: np.ndarray | None = None,
) -> Ends:
    """Suggest the effectors of any tree of bones; the user may pick others.

    Args:
        names: (J) bone names, used only to leave controls and props aside.
        parents: (J) int, -1 for roots.
        heads: (J, 3) rest heads, Z up, any unit.
        motion: (K, J, 3) heads in some frames, optional: limbs that never move against the body are left out.
        turning: (J) [rad] how far each bone ever turns, optional: the same.

    Mirrored limbs give one effector each, at their end: the last bone that still carries one where they stand on the
    ground, the tip elsewhere. Along the middle, every chain gives its tip, and a bone with a face on it the head.
    A chain without branches gives its tip alone; no bones, a ValueError.
    """
    names, parents, heads = tuple(map(str, names)), np.asarray(parents, int), np.asarray(heads, float)
    if not len(names):
        raise ValueError("effectors: expected a skeleton with bones, got none")
    require_tree(parents)
    said = read_names(names)
    tree = read_tree(names, said, parents, heads, {}, motion, {}, turning)
    usable = [tuple(c for c in kids if not _aside(tree, c)) for kids in tree.children]
    tree = replace(tree, children=tuple(usable))
    body = max((int(j) for j in np.flatnonzero(tree.parents < 0)), key=lambda j: tree.reach[j])
    size = float(tree.reach[body])
    while len([c for c in tree.children[body] if tree.length[c] + tree.reach[c] > 0.1 * size]) == 1:
        body = max(tree.children[body], key=lambda c: tree.length[c] + tree.reach[c])
    height = tree.heads[:, 2]
    ground = float(min(height[j] for j in [body, *descendants(tree, body)]))
    found: list[int] = []
    todo = [body]
    while todo:
        at = todo.pop(0)
        long = [c for c in tree.children[at] if tree.real[c] and tree.length[c] + tree.reach[c] > _LIMB_SHARE * size]
        sided = [c for c in long if _mirrored(tree, c, long)]
        found.extend(_end_of_limb(tree, c, ground, size) for c in sided)
        middle = [c for c in long if c not in sided]
        todo.extend(middle)
        if not middle and at != body:
            found.extend(_end_of_middle(tree, at, body, size))
    if not found:
        found = [_chain_of(tree, body)[-1]]
    moving = [j for j in dict.fromkeys(found) if _moves(tree, body, j, size)]
    feet = [j for j in moving if height[j] - ground < 0.1 * size and _is_sided(tree, j, body)]
    return Ends(body, tuple(moving), tuple(feet))


def _aside(tree: Tree, j: int) -> bool:
    """Whether a bone is nothing to take hold of, by its name: controls, props, cloth, the small bones beside a face."""
    said = tree.names[j]
    if said.refused in ("a soft-body bone", "a hip helper"):
        return not tree.children[j]
    if said.refused == "a face bone":
        return bool(said.side)
    return said.refused in ("an animator's control", "a prop", "clothing", "a connector")


def _end_of_middle(tree: Tree, at: int, body: int, size: float) -> list[int]:
    """Effectors where a chain along the middle ends: the tip of a tail; of a head the head itself and its beak or snout."""
    under = descendants(tree, at)
    forks = [j for j in [at, *under] if sum(tree.real[c] for c in tree.children[j]) > 1]
    chain = _chain_of(tree, at)
    line = [at, *ancestors(tree.parents, at)]
    line = line[: line.index(body)] if body in line else line
    named = [j for j in [*line, *under] if "Head" in tree.names[j].parts]
    if not forks and not named:
        return [chain[-1]]
    head = named[0] if named else at
    tips = [j for j in descendants(tree, head) if not tree.children[j] and not _is_sided(tree, j, head)]
    if not tips:
        return [head]
    away = [float(np.linalg.norm(tree.heads[j] - tree.heads[head])) for j in tips]
    far = tips[int(np.argmax(np.round(np.array(away) / size, 2)))]
    return [head, far] if max(away) > 0.04 * size else [head]


def _mirrored(tree: Tree, c: int, group: Sequence[int]) -> bool:
    chain = _chain_of(tree, c)
    for other in group:
        if other == c or abs(tree.length[c] + tree.reach[c] - tree.length[other] - tree.reach[other]) > 0.1 * (
            tree.length[c] + tree.reach[c]
        ):
            continue
        if unlike(tree, chain, _chain_of(tree, other)) < 0.05 or (not tree.children[c] and not tree.children[other]):
            apart = np.linalg.norm(tree.heads[chain[-1]] - tree.heads[_chain_of(tree, other)[-1]])
            if apart > 0.1 * (tree.length[c] + tree.reach[c]):
                return True
    return False


def _chain_of(tree: Tree, start: int) -> tuple[int, ...]:
    """The line of a limb to its tip: at every fork into the child that goes farthest and straightest on."""
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


def _end_of_limb(tree: Tree, start: int, ground: float, size: float) -> int:
    chain = _chain_of(tree, start)
    low = [j for j in chain[-2:] if tree.heads[j, 2] - ground < 0.06 * size]
    return low[0] if low else chain[-1]  # what stands is the bone that carries the last toe


def _moves(tree: Tree, body: int, j: int, size: float) -> bool:
    """Whether the bone ever moves against the body; unknown counts as moving."""
    if len(tree.poses) < 3:
        return True
    away = np.linalg.norm(tree.poses[1:, j] - tree.poses[1:, body], axis=1)
    turns = [k for k in [j, *ancestors(tree.parents, j)] if tree.turning is not None and tree.turning[k] > STILL]
    return bool(np.ptp(away) > 1e-4 * size) or bool(turns)


def _is_sided(tree: Tree, j: int, body: int) -> bool:
    line = [j, *ancestors(tree.parents, j)]
    for k in line[: line.index(body)] if body in line else line:
        if tree.parents[k] >= 0 and _mirrored(tree, k, tree.children[tree.parents[k]]):
            return True
    return False
