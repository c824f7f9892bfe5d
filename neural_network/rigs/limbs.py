# SPDX-License-Identifier: GPL-3.0-or-later
"""Two pairs of mirrored limbs on a trunk make a body: finding them among all chains of a tree.

Every reading of a chain gets a log likelihood: how bones of people divide a limb, how straight a bone is, where a limb
bends in the motion, what never turns, and what the names say. The best reading of all pairs together is the body.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .bone_names import Said
from .bone_tree import Tree, ancestors, angle_between, descendants, lengths, never_turns, unlike

ARM = ("Shoulder", "Arm", "ForeArm", "Hand")
LEG = ("Thigh", "Shin", "Foot", "ToeBase")
_PAIR = 0.2  # mirrored limbs differ by less than this share in length
_UNLIKE = 0.1  # mirrored limbs have their joints in the same places, but for this share of their length
_SHORTEST_LIMB = 0.12  # of the body's reach
_HOPELESS = -12.0  # a reading this unlikely by lengths and names need not be looked at in the poses
_CHAIN = 12  # bones of a limb looked at
NAME_WEIGHT = 2.0
_ANKLE = np.radians(60)
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
    lines = [(_line(tree, *p.chains), _line(tree, *p.chains[::-1])) for p in pairs]
    as_legs = [limb for p, both in zip(pairs, lines, strict=True) if (limb := _limb(tree, p, both, arm=False))]
    as_arms = [limb for p, both in zip(pairs, lines, strict=True) if (limb := _limb(tree, p, both, arm=True))]
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


def _limb(tree: Tree, pair: Pair, lines: tuple[_Line, _Line], arm: bool) -> Limb | None:
    """The best reading of a pair of chains as arms or as legs; None where they have too few bones."""
    first, second = pair.chains
    both = len(first) == len(second)
    options = []
    for line in lines:
        scored = {three: _score_picks(tree, line, three, arm) for three in line.threes}
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


@dataclass(frozen=True)
class _Line:
    """What is measured along one chain for all its readings at once, as plain numbers; the other is its mirror image."""

    chain: tuple[int, ...]
    threes: tuple[tuple[int, int, int], ...]
    """The readings: places in the chain of, say, the upper arm, the forearm and the hand."""
    along: list[float]
    """Way from the first joint to each."""
    total: float
    """Way from the first joint to the farthest tip."""
    scores: tuple[dict[str, float], ...]
    """Per place, how well the bone's name fits each part."""
    still: list[bool]
    """Per place, whether the bone never turns."""
    splits: list[int]
    """Per place, how many bones hang there."""
    bends: dict[tuple[int, int, int], float]
    """Per reading, how much [rad] the angle in the middle varies over the poses; 0 where there are too few."""
    crooked: list[list[float]]
    """How much shorter (0 to 1) the straight way between two joints is than the way over the joints between them."""
    apart: list[float]
    """Distance from each joint to its image on the other side, the median over the frames."""
    angles: list[float]
    """Median angle [rad] between the bones that meet in each joint; of the inner ones."""


def _line(tree: Tree, chain: tuple[int, ...], other: tuple[int, ...]) -> _Line:
    index, count = list(chain), len(chain)
    posed = _typical(tree)
    places = tree.poses[:, index]
    threes = tuple(combinations([i for i, j in enumerate(chain) if tree.real[j]], 3))
    along = np.cumsum([0.0, *(tree.length[j] for j in chain[1:])])
    same = min(count, len(other))
    return _Line(
        chain=chain,
        threes=threes,
        along=along.tolist(),
        total=float(along[0] + tree.reach[chain[0]]),
        scores=tuple({part: name_score(tree.names[j], part) for part in (*ARM, *LEG[:3])} for j in chain),
        still=[never_turns(tree, j) for j in chain],
        splits=[sum(bool(tree.real[c]) for c in tree.children[j]) for j in chain],
        bends=dict(zip(threes, _bends(places[1:], threes), strict=True)),
        crooked=_crooked(places[posed]),
        apart=np.median(lengths(places[posed, :same] - tree.poses[posed][:, list(other[:same])]), axis=0).tolist(),
        angles=np.median(angle_between(*_steps(places[posed])), axis=0).tolist() if count > 2 else [],
    )


def _score_picks(tree: Tree, line: _Line, picks: tuple[int, int, int], arm: bool) -> float:
    u, v, w = picks
    chain, along = line.chain, line.along
    upper, lower, whole = along[v] - along[u], along[w] - along[v], along[w] - along[u]
    if upper <= 0 or lower <= 0 or line.total <= 0:
        return -50.0
    parts = ARM[1:] if arm else LEG[:3]
    score = log_miss(upper / lower, 1.0 if arm else 0.92, 0.3) + log_miss(whole / line.total, 0.75, 0.3)
    score += NAME_WEIGHT * (line.scores[u][parts[0]] + line.scores[v][parts[1]] + line.scores[w][parts[2]])
    score -= 2.0 * (line.still[u] + line.still[v])
    score -= 1.5 * line.still[w]
    if score < _HOPELESS:
        return score
    score += 4.0 * min(0.3, line.bends[picks])
    score -= 8.0 * (line.crooked[u][v] + line.crooked[v][w])
    score -= 0.05 * sum(picks)  # of several bones in one place, the first
    after = chain[u + 1] if u + 1 < len(chain) else chain[u]
    if arm:
        score += 0.5 * min(line.splits[w], 3) if line.splits[w] >= 2 else 0.0
        split = next((i for i in range(v + 1, w) if line.splits[i] >= 2), w)
        score -= 1.5 * max(0, w - split - 1)  # a hand lies no further out than one bone after the thumb
        score -= 3.0 * max(0.0, (line.total - along[w]) / whole - 0.6)  # fingers are shorter than that
        if u < len(line.apart):
            score += 0.5 * max(-4.0, log_miss(line.apart[u] / whole, 0.6, 0.5))
        if u > 0 and along[u] > 0.02 * whole:
            score += 0.5 * log_miss(along[u] / whole, 0.18, 0.6)
            score += NAME_WEIGHT * max(line.scores[i]["Shoulder"] for i in range(u))
        elif u == 0:
            score -= 0.3
    else:
        if u < len(line.apart):
            score -= 3.0 if line.apart[u] < 0.04 * whole else 0.0
        if tree.length[after] < 0.06 * whole and v > u + 1:
            score -= 1.5
        if u > 0:
            score -= 0.3 + (along[u] / whole) * 2
        if w + 1 < len(chain):
            ankle = line.angles[w - 1]  # the ankle is where a leg turns from down to forward
            score += 1.5 * min(1.0, ankle / _ANKLE) + (1.0 if ankle >= max(line.angles[v:]) else 0.0)
            score += 0.3 * log_miss(float(tree.length[chain[w + 1]]) / whole, 0.17, 0.5)
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
    return -0.5 * (math.log(max(value, 1e-6) / wanted) / sigma) ** 2


def _typical(tree: Tree) -> slice:
    """The poses that count for directions and distances: the frames, or the rest where there are none."""
    return slice(1, None) if len(tree.poses) > 4 else slice(0, 1)


def _steps(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bones (K, n - 2, 3) that end and that begin in each inner joint of a chain of ``places`` (K, n, 3)."""
    steps = np.diff(places, axis=1)
    return steps[:, :-1], steps[:, 1:]


def _bends(places: np.ndarray, threes: Sequence[tuple[int, int, int]]) -> list[float]:
    """How much [rad] the angle at the middle of each three joints varies over the frames ``places`` (K, n, 3)."""
    if len(places) < 7 or not threes:
        return [0.0] * len(threes)
    u, v, w = np.array(threes).T
    angles = angle_between(places[:, v] - places[:, u], places[:, w] - places[:, v])
    return np.std(angles, axis=0).tolist()


def _crooked(places: np.ndarray) -> list[list[float]]:
    """How much shorter (0 to 1) the straight way is than the way over the joints, (n, n), in the mean of poses (K, n, 3)."""
    steps = np.cumsum(lengths(np.diff(places, axis=1, prepend=places[:, :1])), axis=1)
    over = np.abs(steps[:, None, :] - steps[:, :, None])
    straight = lengths(places[:, None, :] - places[:, :, None])
    crooked = np.mean(1 - straight / np.maximum(over, 1e-12), axis=0)
    near = np.abs(np.subtract.outer(np.arange(len(crooked)), np.arange(len(crooked)))) < 2
    return np.where(near, 0.0, crooked).tolist()
