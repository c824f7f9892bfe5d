# SPDX-License-Identifier: GPL-3.0-or-later
"""Two pairs of mirrored limbs on a trunk make a body: finding them among all chains of a tree.

Every reading of a chain gets a log likelihood: how bones of people divide a limb, how straight a bone is, where a limb
bends in the motion, what never turns, and what the names say. The best reading of all pairs together is the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .bone_names import Said
from .bone_tree import Tree, ancestors, angle_between, descendants, never_turns, unlike

ARM = ("Shoulder", "Arm", "ForeArm", "Hand")
LEG = ("Thigh", "Shin", "Foot", "ToeBase")
_PAIR = 0.2  # mirrored limbs differ by less than this share in length
_UNLIKE = 0.1  # mirrored limbs have their joints in the same places, but for this share of their length
_SHORTEST_LIMB = 0.12  # of the body's reach
_HOPELESS = -12.0  # a reading this unlikely by lengths and names need not be looked at in the poses
_CHAIN = 12  # bones of a limb looked at
NAME_WEIGHT = 2.0
_UPRIGHT = np.radians(50)  # a trunk that leans more than this away from the legs' line, in most poses, is no human's


@dataclass(frozen=True)
class Pair:
    """Two chains that mirror each other, and the bone that both start from (-1: two roots)."""

    at: int
    chains: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Limb:
    """Two mirrored chains understood as arms or legs."""

    pair: Pair
    bones: tuple[dict[str, int], dict[str, int]]
    size: float
    score: float


def find_body(tree: Tree) -> tuple[Limb, Limb, bool] | None:
    """Legs, arms and whether the trunk stands on the legs; None where no two pairs of limbs make a body."""
    pairs = _pairs(tree)
    as_legs = [limb for limb in (_limb(tree, p, arm=False) for p in pairs) if limb is not None]
    as_arms = [limb for limb in (_limb(tree, p, arm=True) for p in pairs) if limb is not None]
    best, best_score = None, -np.inf
    for legs in as_legs:
        for arms in as_arms:
            score = _score_body(tree, legs, arms)
            if score > best_score:
                best, best_score = (legs, arms), score
    if best is None or best_score < -12:
        return None
    legs, arms = best
    return legs, arms, bool(_lean(tree, legs, arms) < _UPRIGHT)


def _score_body(tree: Tree, legs: Limb, arms: Limb) -> float:
    hip, chest = legs.pair.at, arms.pair.at
    used = {j for limb in (legs, arms) for chain in limb.pair.chains for j in chain}
    if (
        len(used) < sum(len(c) for limb in (legs, arms) for c in limb.pair.chains)
        or hip == chest
        or min(hip, chest) < 0
    ):
        return -np.inf
    if not 0.3 < arms.size / legs.size < 1.8:  # wings, faces, fingers
        return -np.inf
    if hip in used or chest in used or any(set(ancestors(tree.parents, p)) & used for p in (hip, chest)):
        return -np.inf
    above_hip, above_chest = [hip, *ancestors(tree.parents, hip)], [chest, *ancestors(tree.parents, chest)]
    meet = next((j for j in above_chest if j in above_hip), None)
    if meet is None:
        return -np.inf
    trunk = sum(tree.length[j] for j in above_chest[: above_chest.index(meet)])
    trunk += sum(tree.length[j] for j in above_hip[: above_hip.index(meet)])
    score = legs.score + arms.score + log_miss(trunk / legs.size, 0.5, 0.5) + log_miss(arms.size / legs.size, 0.6, 0.4)
    score += 1.5 if meet == hip else -2.0 if meet == chest else 0.0
    score += 1.0 if any(c not in used and tree.real[c] for c in tree.children[chest]) else 0.0
    return score - min(4.0, 0.5 * float(_lean(tree, legs, arms) / np.radians(40)) ** 2)


def _lean(tree: Tree, legs: Limb, arms: Limb) -> float:
    """Median angle [rad], over the poses, between the trunk and the line from the feet to the hips."""
    trunk = tree.poses[:, arms.pair.at] - tree.poses[:, legs.pair.at]
    feet = np.mean([tree.poses[:, b["Foot"]] for b in legs.bones], axis=0)
    thighs = np.mean([tree.poses[:, b["Thigh"]] for b in legs.bones], axis=0)
    shoulders = np.mean([tree.poses[:, b["Arm"]] for b in arms.bones], axis=0)
    trunk = np.where(np.linalg.norm(trunk, axis=1, keepdims=True) > 0.2 * legs.size, shoulders - thighs, trunk)
    angles = angle_between(trunk, thighs - feet)
    return float(np.median(angles[1:] if len(angles) > 4 else angles))


def _pairs(tree: Tree) -> list[Pair]:
    """Every two chains that start at one bone, are about equally long, and long enough to be limbs."""
    roots = [int(j) for j in np.flatnonzero((tree.parents < 0) & tree.real)]
    body = max((tree.reach[j] for j in roots), default=0.0)
    out = []
    for at, group in [*enumerate(tree.children), *([(-1, tuple(roots))] if len(roots) > 1 else [])]:
        long = [c for c in group if tree.real[c] and tree.reach[c] > _SHORTEST_LIMB * body]
        for a, b in combinations(long, 2):
            if abs(tree.reach[a] - tree.reach[b]) > _PAIR * max(tree.reach[a], tree.reach[b]):
                continue
            if abs(tree.length[a] - tree.length[b]) > _PAIR * max(tree.length[a], tree.length[b]) + 0.02 * body:
                continue
            chains = main_chain(tree, a), main_chain(tree, b)
            if unlike(tree, *chains) < _UNLIKE:
                out.append(Pair(at, chains))
    return out


def main_chain(tree: Tree, start: int) -> tuple[int, ...]:
    """From ``start`` outwards, always into the child that reaches farthest; a name that speaks of a limb weighs in."""
    out = [start]
    while tree.children[out[-1]] and len(out) < _CHAIN:

        def worth(c: int) -> float:
            named = 0.0 if tree.names[c].refused else max(tree.names[c].parts.values(), default=0.0)
            return float(tree.length[c] + tree.reach[c]) * (1 + 0.5 * named)

        out.append(max(tree.children[out[-1]], key=worth))
    return tuple(out)


def _limb(tree: Tree, pair: Pair, arm: bool) -> Limb | None:
    """The best reading of a pair of chains as arms or as legs; None where they have too few bones."""
    first, second = pair.chains
    both = len(first) == len(second)
    options = []
    for chain, other in ((first, second), (second, first)):
        scored = {}
        real = [i for i, j in enumerate(chain) if tree.real[j]]
        for three in combinations(real, 3):
            scored[three] = _score_picks(tree, chain, other, three, arm)
        if not scored:
            return None
        options.append(scored)
    if both:
        shared = [p for p in options[0] if p in options[1]]
        if not shared:
            return None
        best = max(shared, key=lambda p: options[0][p] + options[1][p])
        picks = (best, best)
    else:
        picks = (max(options[0], key=options[0].__getitem__), max(options[1], key=options[1].__getitem__))
    bones, sizes, score = [], [], 0.0
    for chain, pick, scored in zip((first, second), picks, options, strict=True):
        score += 0.5 * scored[pick]
        along = np.cumsum([0.0, *(tree.length[j] for j in chain[1:])])
        sizes.append(float(along[pick[2]] - along[pick[0]]))
        parts = ARM[1:] if arm else LEG[:3]
        named = {part: chain[i] for part, i in zip(parts, pick, strict=True)}
        extra = _collar(tree, chain, pick, along) if arm else _toes(tree, chain, pick, along)
        if extra is not None:
            named[ARM[0] if arm else LEG[3]] = extra
        bones.append(named)
    for part in (ARM[0], LEG[3]):  # a collar or toe on one side only is a mistake, unless the chains differ
        if both and (part in bones[0]) != (part in bones[1]):
            for named in bones:
                named.pop(part, None)
    return Limb(pair, (bones[0], bones[1]), float(np.mean(sizes)), score)


def _score_picks(tree: Tree, chain: Sequence[int], other: Sequence[int], picks: tuple[int, ...], arm: bool) -> float:
    u, v, w = picks
    along = np.cumsum([0.0, *(tree.length[j] for j in chain[1:])])
    upper, lower, whole = along[v] - along[u], along[w] - along[v], along[w] - along[u]
    total = along[0] + tree.reach[chain[0]]
    if upper <= 0 or lower <= 0 or total <= 0:
        return -50.0
    parts = ARM[1:] if arm else LEG[:3]
    score = log_miss(upper / lower, 1.0 if arm else 0.92, 0.3) + log_miss(whole / total, 0.75, 0.3)
    score += NAME_WEIGHT * sum(name_score(tree.names[chain[i]], part) for i, part in zip(picks, parts, strict=True))
    score -= 2.0 * sum(never_turns(tree, chain[i]) for i in (u, v))
    score -= 1.5 * never_turns(tree, chain[w])
    if score < _HOPELESS:
        return score
    score += 4.0 * min(0.3, _bends(tree, chain[u], chain[v], chain[w]))
    score -= 8.0 * (_crooked(tree, chain[u : v + 1]) + _crooked(tree, chain[v : w + 1]))
    score -= 0.05 * sum(picks)  # of several bones in one place, the first
    after = chain[u + 1] if u + 1 < len(chain) else chain[u]
    if arm:
        fingers = sum(tree.real[c] for c in tree.children[chain[w]])
        score += 0.5 * min(fingers, 3) if fingers >= 2 else 0.0
        split = next((i for i in range(v + 1, w) if sum(tree.real[c] for c in tree.children[chain[i]]) >= 2), w)
        score -= 1.5 * max(0, w - split - 1)  # a hand lies no further out than one bone after the thumb
        score -= 3.0 * max(0.0, (total - along[w]) / whole - 0.6)  # fingers are shorter than that
        if u < len(other):
            score += 0.5 * max(-4.0, log_miss(_apart(tree, chain[u], other[u]) / whole, 0.6, 0.5))
        if u > 0 and along[u] > 0.02 * whole:
            score += 0.5 * log_miss(along[u] / whole, 0.18, 0.6)
            score += NAME_WEIGHT * max(name_score(tree.names[j], "Shoulder") for j in chain[:u])
        elif u == 0:
            score -= 0.3
    else:
        if u < len(other):
            score -= 3.0 if _apart(tree, chain[u], other[u]) < 0.04 * whole else 0.0
        if tree.length[after] < 0.06 * whole and v > u + 1:
            score -= 1.5
        if u > 0:
            score -= 0.3 + (along[u] / whole) * 2
        if w + 1 < len(chain):
            turns = [_typical_angle(tree, *chain[i - 1 : i + 2]) for i in range(v + 1, len(chain) - 1)]
            ankle = turns[w - v - 1]  # the ankle is where a leg turns from down to forward
            score += 1.5 * min(1.0, ankle / np.radians(60)) + (1.0 if ankle >= max(turns) else 0.0)
            score += 0.3 * log_miss(tree.length[chain[w + 1]] / whole, 0.17, 0.5)
    return score


def _collar(tree: Tree, chain: Sequence[int], picks: Sequence[int], along: np.ndarray) -> int | None:
    """The bone before the upper arm that has a length of its own; of several the one whose name speaks, else the nearest."""
    whole = along[picks[2]] - along[picks[0]]
    found = [
        i
        for i in range(picks[0])
        if along[picks[0]] - along[i] > 0.05 * whole and tree.real[chain[i]] and not tree.names[chain[i]].refused
    ]
    if not found:
        return None
    return chain[max(found, key=lambda i: (name_score(tree.names[chain[i]], "Shoulder"), i))]


def _toes(tree: Tree, chain: Sequence[int], picks: Sequence[int], along: np.ndarray) -> int | None:
    """The toe: the next bone after the foot that is no tip; none where the foot splits into single toes."""
    foot = chain[picks[2]]
    whole = along[picks[2]] - along[picks[0]]
    children = [c for c in tree.children[foot] if tree.real[c]]
    named = [c for c in descendants(tree, foot) if not tree.names[c].refused and "ToeBase" in tree.names[c].parts]
    if sum(tree.reach[c] + tree.length[c] > 0.05 * whole for c in children) >= 3:
        return None
    if named:
        return min(named, key=lambda c: len(ancestors(tree.parents, c)))
    following = [i for i in range(picks[2] + 1, min(picks[2] + 3, len(chain))) if tree.real[chain[i]]]
    following = [
        i for i in following if not tree.names[chain[i]].refused and 0.05 < (along[i] - along[picks[2]]) / whole < 0.45
    ]
    if not following:
        return None
    return chain[max(following, key=lambda i: log_miss((along[i] - along[picks[2]]) / whole, 0.17, 1.0))]


def name_score(said: Said, part: str) -> float:
    """How well a name fits a part: up to 1; 0 where it says nothing, below 0 where it says something else."""
    if said.refused:
        return -1.5
    if not said.parts:
        return 0.0
    return said.parts.get(part, -0.5)


def log_miss(value: float, wanted: float, sigma: float) -> float:
    """Log likelihood, without its constant, of a length ratio whose logarithm scatters by sigma."""
    return -0.5 * float((np.log(max(value, 1e-6) / wanted) / sigma) ** 2)


def _bends(tree: Tree, above: int, at: int, below: int) -> float:
    """How much [rad] the angle at a joint varies over the poses; 0 where there are none."""
    if len(tree.poses) < 8:
        return 0.0
    a, b = tree.poses[1:, at] - tree.poses[1:, above], tree.poses[1:, below] - tree.poses[1:, at]
    across = np.linalg.norm(np.cross(a, b), axis=1)
    angle = np.arctan2(across, np.sum(a * b, axis=1))
    return float(np.std(angle))


def _apart(tree: Tree, a: int, b: int) -> float:
    """Distance of two bones' heads, the median over the frames, or at rest where there are none."""
    poses = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    return float(np.median(np.linalg.norm(poses[:, a] - poses[:, b], axis=1)))


def _crooked(tree: Tree, line: Sequence[int]) -> float:
    """How much shorter (0 to 1) the straight way along a chain is than the way over its joints, in the mean of the poses."""
    if len(line) < 3:
        return 0.0
    poses = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    steps = np.linalg.norm(np.diff(poses[:, list(line)], axis=1), axis=2).sum(axis=1)
    straight = np.linalg.norm(poses[:, line[-1]] - poses[:, line[0]], axis=1)
    return float(np.mean(1 - straight / np.maximum(steps, 1e-12)))


def _typical_angle(tree: Tree, above: int, at: int, below: int) -> float:
    """Median angle [rad] between two bones that follow each other, over the frames, or at rest where there are none."""
    poses = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    return float(np.median(angle_between(poses[:, at] - poses[:, above], poses[:, below] - poses[:, at])))
