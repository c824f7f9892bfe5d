# SPDX-License-Identifier: GPL-3.0-or-later
"""Where any creature can be taken hold of: paws, wing tips, head, beak, tail."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .bone_names import read_names
from .bone_tree import STILL, Tree, ancestors, angle_between, descendants, read_tree, require_tree, unlike

_LIMB_SHARE = 0.18  # of the body's reach: what is shorter is no limb of its own
_FORK_WITHIN = 4  # bones below the root: a body that branches further down is a line with something at its end
_SAME_PLACE = 0.01  # of the body's reach: a bone this near to the end of a limb is a control of it
_STEEP = 0.15  # of its length, which a limb at least leads down to a foot; fins and folded wings lie flatter
_NO_LEGS = ("a tail, wing or the like", "a soft-body bone")  # what names say of wings, and of a fish's pectoral fins
_POINTS_OF_A_LINE = 8  # bones from which on a body without limbs is held in its middle too


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
    aside: Collection[int] = (),
) -> Ends:
    """Suggest the effectors of any tree of bones; the user may pick others.

    Args:
        names: (J) bone names, used only to leave controls and props aside.
        parents: (J) int, -1 for roots.
        heads: (J, 3) rest heads, Z up, any unit.
        motion: (K, J, 3) heads in some frames, optional: limbs that never move against the body are left out.
        turning: (J) [rad] how far each bone ever turns, optional: the same.
        aside: bones that are known to be controls or helpers, optional: nothing ends in them.

    Mirrored limbs give one effector each, at their end: the last bone that still carries one where they stand on the
    ground, the tip elsewhere. Along the middle, every chain gives its tip, and a bone with a face on it the head.
    A body without limbs (a snake, a rope) gives its tip, a long one its middle too; no bones, a ValueError.
    """
    names, parents, heads = tuple(map(str, names)), np.asarray(parents, int), np.asarray(heads, float)
    if not len(names):
        raise ValueError("effectors: expected a skeleton with bones, got none")
    require_tree(parents)
    said = read_names(names)
    tree = read_tree(names, said, parents, heads, {}, motion, {}, turning)
    body = max((int(j) for j in np.flatnonzero(tree.parents < 0)), key=lambda j: tree.reach[j])
    size = float(tree.reach[body])
    left_out = set(aside) | {j for j in range(len(names)) if _aside(tree, j)}
    left_out |= _shadows(tree, body, size)
    usable = [tuple(c for c in kids if c not in left_out) for kids in tree.children]
    tree = replace(tree, children=tuple(usable))
    body = _trunk_start(tree, body, size)
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
    if len(found) < 2:
        line = _chain_of(tree, body)
        found = [line[len(line) // 2], line[-1]] if len(line) >= _POINTS_OF_A_LINE else [line[-1]]
    moving = [j for j in dict.fromkeys(found) if _moves(tree, body, j, size)]
    feet = [j for j in moving if height[j] - ground < 0.1 * size and _stands(tree, j, body)]
    return Ends(body, tuple(moving), tuple(feet))


def controlled_bones(parents: np.ndarray, heads: np.ndarray, body: int, effectors: Sequence[int]) -> list[int]:
    """The bones that carry the effectors (indices, parents first): all on the way from ``body`` to them, both ends included.

    ``parents`` (J) and rest ``heads`` (J, 3) are those of all bones. A bone without length that carries one other alone is
    left out: what it turns counts as turned by the one it carries. Raises ValueError for effectors that do not hang below.
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


def _trunk_start(tree: Tree, top: int, size: float) -> int:
    """The bone from which the body branches, a few bones below the root; the root itself where none does."""
    body = top
    for _ in range(_FORK_WITHIN + 1):
        long = [c for c in tree.children[body] if tree.length[c] + tree.reach[c] > 0.1 * size]
        if len(long) != 1:
            return body if long else top
        body = long[0]
    return top


def _shadows(tree: Tree, top: int, size: float) -> set[int]:
    """Bones that carry nothing and stand where a limb of the body ends, on no way to it: an animator's targets."""
    leaves = [j for j in range(len(tree.children)) if tree.real[j] and tree.reach[j] < 0.15 * size]
    depth = [len(ancestors(tree.parents, j)) for j in range(len(tree.children))]
    deep = [j for j in range(len(tree.children)) if tree.real[j] and depth[j] >= 3]
    out = set()
    for j in leaves:
        if depth[j] > 1:
            continue  # controls hang on the root, or on nothing
        away = np.linalg.norm(tree.heads[deep] - tree.heads[j], axis=1) if deep else np.zeros(0)
        for at in np.flatnonzero(away < _SAME_PLACE * size).tolist():
            if j not in ancestors(tree.parents, deep[at]) and top in ancestors(tree.parents, deep[at]):
                out.add(j)
    return out


def _stands(tree: Tree, j: int, body: int) -> bool:
    """Whether the limb that ends in ``j`` is one of a pair, leads down, and is no wing or fin by its name."""
    line = [j, *ancestors(tree.parents, j)]
    line = line[: line.index(body)] if body in line else line
    if not _is_sided(tree, j, body) or any(tree.names[k].refused in _NO_LEGS for k in line):
        return False
    drop = float(tree.heads[line[-1], 2] - tree.heads[j, 2])
    return drop > _STEEP * float(sum(tree.length[k] for k in line[:-1]))


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
    head = named[0] if named else min(forks, key=lambda j: len(ancestors(tree.parents, j)), default=at)
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
    if any(tree.names[j].refused in _NO_LEGS for j in chain):
        return chain[-1]
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
