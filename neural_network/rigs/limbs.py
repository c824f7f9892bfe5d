# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a body among the chains of a bone tree: two pairs of mirrored limbs on a trunk.

Every way of reading a chain as a limb gets a log likelihood: from how human limbs are divided into bones, how straight the
bones are, where the limb bends in the motion, which bones never rotate, and the names. The best combination is the body.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .bone_names import BoneNameInfo
from .bone_tree import BoneTree, ancestors, angle_between, descendants, division_difference, lengths, never_turns

ARM = ("Shoulder", "Arm", "ForeArm", "Hand")
LEG = ("Thigh", "Shin", "Foot", "ToeBase")
_MAX_LENGTH_DIFFERENCE = 0.2  # mirrored limbs differ in length by less than this share
_MAX_DIFFERENCE = 0.1  # of mirrored limbs, in the positions of their joints, as a share of their length
_SHORTEST_LIMB = 0.12  # as a share of the body's reach
_HOPELESS = -12.0  # log likelihood by lengths and names below which the poses are not examined
_MAX_CHAIN = 12  # bones of a limb that are examined
_MOST_COMPARED = 1000  # pairs of bones at two joints: limbs with more are left as they are
NAME_WEIGHT = 2.0
_ANKLE = np.radians(60)
_HOCK_BEND = np.radians(20)  # at the knee and, the other way, at the hock of an animal's leg
_HOCK_LENGTH = 0.28  # of thigh and shin: the bone below the hock; a foot is shorter
_HOCK_DROP = 0.55  # cosine of its angle to the way from hip to foot; a foot lies flat
_ABREAST = 0.3  # cosine of the angle between shoulders and hips, in most poses, below which two arms are on one side
_ALIKE = 1.4  # times as long at most: arms and further limbs that are legs as well
_NO_LIMB = ("a tail or wing", "clothing", "a soft-body bone", "a finger", "a face bone", "a prop")  # by name
_UPRIGHT = np.radians(50)  # a trunk that leans further from the line of the legs, in most poses, is not human


@dataclass(frozen=True)
class ChainPair:
    """Two chains that mirror each other, and the bone that both start from (-1 for two roots)."""

    at: int
    chains: tuple[tuple[int, ...], tuple[int, ...]]
    tree: BoneTree
    """The tree without what hangs on one of the two alone."""


@dataclass(frozen=True)
class LimbPair:
    """Two mirrored chains read as arms or legs."""

    pair: ChainPair
    bones: tuple[dict[str, int], dict[str, int]]
    """Part ("Arm", "Thigh", ...) -> bone, for each of the two chains."""
    size: float
    """Mean length of the two limbs."""
    score: float
    """Log likelihood."""


def find_body(tree: BoneTree) -> tuple[LimbPair, LimbPair, bool] | None:
    """Legs, arms, and whether the trunk is upright on the legs; None if no two pairs of limbs make a body."""
    pairs = _pairs(tree)
    measures = [(_measure(p.tree, *p.chains), _measure(p.tree, *p.chains[::-1])) for p in pairs]
    as_legs = [limb for p, both in zip(pairs, measures, strict=True) if (limb := _limb(p, both, arm=False))]
    as_arms = [limb for p, both in zip(pairs, measures, strict=True) if (limb := _limb(p, both, arm=True))]
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


def unlike_a_person(tree: BoneTree, legs: LimbPair, arms: LimbPair) -> str:
    """Why two pairs of limbs are no legs and arms of a person, in words; empty if they may be."""
    posed = tree.poses[_useful_poses(tree)]
    across = [
        posed[:, limb.bones[0][part]] - posed[:, limb.bones[1][part]] for limb, part in ((legs, "Thigh"), (arms, "Arm"))
    ]
    sizes = [np.maximum(lengths(one), 1e-12) for one in across]
    if np.median(np.abs(np.sum(across[0] * across[1], axis=1)) / sizes[0] / sizes[1]) < _ABREAST:
        return "the limbs that could be arms are both on one side of the body: a creature, not a person"
    if not 1 / _ALIKE < arms.size / legs.size < _ALIKE:
        return ""
    used = {j for limb in (legs, arms) for chain in limb.pair.chains for j in chain}
    length = float(np.mean([tree.length[list(chain[1:])].sum() for chain in legs.pair.chains]))
    more = 0
    for pair in _pairs(tree):
        bones = {j for chain in pair.chains for j in chain if tree.real[j]}
        if bones & used or any(tree.names[j].excluded in _NO_LIMB for j in bones) or min(map(len, pair.chains)) < 3:
            continue
        if all(1 / _ALIKE < tree.length[list(chain[1:])].sum() / length < _ALIKE for chain in pair.chains):
            more += 1
            used |= bones
    return f"{2 * more + 4} limbs are alike: a creature, not a person" if more else ""


def _score_body(tree: BoneTree, legs: LimbPair, arms: LimbPair) -> float:
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
    score = (
        legs.score
        + arms.score
        + ratio_score(trunk / legs.size, 0.5, 0.5)
        + ratio_score(arms.size / legs.size, 0.6, 0.4)
    )
    score += 1.5 if meet == hip else -2.0 if meet == chest else 0.0
    score += 1.0 if any(c not in used and tree.real[c] for c in tree.children[chest]) else 0.0
    return score - min(4.0, 0.5 * float(_lean(tree, legs, arms) / np.radians(40)) ** 2)


def _lean(tree: BoneTree, legs: LimbPair, arms: LimbPair) -> float:
    """Median angle [rad] over the poses between the trunk and the line from the feet to the hips."""
    trunk = tree.poses[:, arms.pair.at] - tree.poses[:, legs.pair.at]
    feet = np.mean([tree.poses[:, b["Foot"]] for b in legs.bones], axis=0)
    thighs = np.mean([tree.poses[:, b["Thigh"]] for b in legs.bones], axis=0)
    shoulders = np.mean([tree.poses[:, b["Arm"]] for b in arms.bones], axis=0)
    trunk = np.where(np.linalg.norm(trunk, axis=1, keepdims=True) > 0.2 * legs.size, shoulders - thighs, trunk)
    angles = angle_between(trunk, thighs - feet)
    return float(np.median(angles[1:] if len(angles) > 4 else angles))


def _pairs(tree: BoneTree) -> list[ChainPair]:
    """All pairs of chains that start at the same bone, are about equally long, and long enough to be limbs."""
    roots = [int(j) for j in np.flatnonzero((tree.parents < 0) & tree.real)]
    body = max((tree.reach[j] for j in roots), default=0.0)
    out = []
    for at, group in [*enumerate(tree.children), *([(-1, tuple(roots))] if len(roots) > 1 else [])]:
        long = [c for c in group if tree.real[c] and tree.reach[c] > _SHORTEST_LIMB * body]
        for a, b in combinations(long, 2):
            if not _alike(tree, a, b, 0.02 * body):
                continue
            bare = _without_props(tree, a, b, 0.02 * body)
            reach = bare.reach[a], bare.reach[b]
            if min(reach) <= _SHORTEST_LIMB * body or abs(reach[0] - reach[1]) > _MAX_LENGTH_DIFFERENCE * max(reach):
                continue
            chains = main_chain(bare, a), main_chain(bare, b)
            if division_difference(tree, *chains) < _MAX_DIFFERENCE:
                out.append(ChainPair(at, chains, bare))
    return out


def _alike(tree: BoneTree, a: int, b: int, near: float) -> bool:
    """Whether two bones are about equally long."""
    longer = max(tree.length[a], tree.length[b])
    return bool(abs(tree.length[a] - tree.length[b]) <= _MAX_LENGTH_DIFFERENCE * longer + near)


def _without_props(tree: BoneTree, a: int, b: int, near: float) -> BoneTree:
    """The tree without what only one of the limbs from ``a`` and ``b`` carries, such as a sword, a bag or a shield.

    Each bone of one limb is matched to one as long of the other, those first that begin the longest chains that both have.
    """
    known: dict[tuple[int, int], float] = {}

    def shared(c: int, d: int, depth: int) -> float:
        """Length of the longest chain below ``c`` that is also below ``d``."""
        if (c, d) not in known:
            known[c, d] = max((longest for longest, _, _ in options(c, d, depth)), default=0.0)
        return known[c, d]

    def options(c: int, d: int, depth: int) -> list[tuple[float, int, int]]:
        return (
            [
                (min(tree.length[e], tree.length[f]) + shared(e, f, depth + 1), e, f)
                for e in tree.children[c]
                for f in tree.children[d]
                if _alike(tree, e, f, near)
            ]
            if depth < _MAX_CHAIN
            else []
        )

    children, reach = list(tree.children), tree.reach.copy()

    def trim(c: int, d: int, depth: int) -> None:
        if depth == _MAX_CHAIN or len(tree.children[c]) * len(tree.children[d]) > _MOST_COMPARED:
            return
        matched: dict[int, int] = {}
        for _, e, f in sorted(options(c, d, depth), key=lambda option: -option[0]):
            if e not in matched and f not in matched.values():
                matched[e] = f
                trim(e, f, depth + 1)
        for k, kept in ((c, set(matched)), (d, set(matched.values()))):
            children[k] = tuple(e for e in tree.children[k] if e in kept)
            reach[k] = max((tree.length[e] + reach[e] for e in children[k]), default=0.0)

    trim(a, b, 0)
    return replace(tree, children=tuple(children), reach=reach)


def main_chain(tree: BoneTree, start: int) -> tuple[int, ...]:
    """The chain from ``start`` outwards, always to the child that reaches farthest; names of limb parts add to the reach."""
    out = [start]
    while tree.children[out[-1]] and len(out) < _MAX_CHAIN:

        def weighted_reach(c: int) -> float:
            named = 0.0 if tree.names[c].excluded else max(tree.names[c].parts.values(), default=0.0)
            return float(tree.length[c] + tree.reach[c]) * (1 + 0.5 * named)

        out.append(max(tree.children[out[-1]], key=weighted_reach))
    return tuple(out)


def _limb(pair: ChainPair, both_measures: tuple[_ChainMeasures, _ChainMeasures], arm: bool) -> LimbPair | None:
    """The best reading of a pair of chains as arms or as legs; None if they have too few bones."""
    (first, second), tree = pair.chains, pair.tree
    equal = len(first) == len(second)
    options = []
    for measures in both_measures:
        scored = {triple: _score_reading(tree, measures, triple, arm) for triple in measures.triples}
        if not scored:
            return None
        options.append(scored)
    if equal:
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
        extra = _shoulder(tree, chain, pick, along) if arm else _toes(tree, chain, pick, along)
        if extra is not None:
            named[ARM[0] if arm else LEG[3]] = extra
        bones.append(named)
    for part in (ARM[0], LEG[3]):  # a shoulder or toe on only one side is a mistake, unless the chains differ
        if equal and (part in bones[0]) != (part in bones[1]):
            for named in bones:
                named.pop(part, None)
    return LimbPair(pair, (bones[0], bones[1]), float(np.mean(sizes)), score)


@dataclass(frozen=True)
class _ChainMeasures:
    """What is measured along one chain, once for all its readings, as plain numbers."""

    chain: tuple[int, ...]
    triples: tuple[tuple[int, int, int], ...]
    """The readings: indices in the chain of upper bone, lower bone and end."""
    along: list[float]
    """Distance along the chain from the first joint to each."""
    total: float
    """Distance along the chain from the first joint to the farthest tip."""
    scores: tuple[dict[str, float], ...]
    """Per joint, how well the bone's name fits each part."""
    still: list[bool]
    """Per joint, whether the bone never rotates."""
    child_counts: list[int]
    """Per joint, the number of its child bones."""
    bends: dict[tuple[int, int, int], float]
    """Per reading, how much [rad] the angle in the middle varies over the poses; 0 if there are too few poses."""
    crookedness: list[list[float]]
    """How much shorter (0 to 1) the straight line between two joints is than the chain between them."""
    separation: list[float]
    """Median distance over the frames from each joint to the same joint of the other chain."""
    angles: list[float]
    """Median angle [rad] between the bones that meet at each inner joint."""
    hocks: frozenset[int]
    """Joints that are the hock of an animal's leg: the second of three bends, where the leg points back."""


def _measure(tree: BoneTree, chain: tuple[int, ...], other: tuple[int, ...]) -> _ChainMeasures:
    index, count = list(chain), len(chain)
    posed = _useful_poses(tree)
    places = tree.poses[:, index]
    triples = tuple(combinations([i for i, j in enumerate(chain) if tree.real[j]], 3))
    along = np.cumsum([0.0, *(tree.length[j] for j in chain[1:])])
    same = min(count, len(other))
    return _ChainMeasures(
        chain=chain,
        triples=triples,
        along=along.tolist(),
        total=float(along[0] + tree.reach[chain[0]]),
        scores=tuple({part: name_score(tree.names[j], part) for part in (*ARM, *LEG[:3])} for j in chain),
        still=[never_turns(tree, j) for j in chain],
        child_counts=[sum(bool(tree.real[c]) for c in tree.children[j]) for j in chain],
        bends=dict(zip(triples, _bends(places[1:], triples), strict=True)),
        crookedness=_crookedness(places[posed]),
        separation=np.median(lengths(places[posed, :same] - tree.poses[posed][:, list(other[:same])]), axis=0).tolist(),
        angles=np.median(angle_between(*_steps(places[posed])), axis=0).tolist() if count > 2 else [],
        hocks=_hocks(places[posed], along, _hocks(places[:1], along, range(2, count - 1))),
    )


def _hocks(places: np.ndarray, along: np.ndarray, among: Iterable[int]) -> frozenset[int]:
    """Those joints h ``among`` a chain's, at ``places`` (K, n, 3), where a leg with thigh h - 2, shin h - 1, foot h + 1 bends back."""
    found = set()
    for h in among:
        if not along[h + 1] - along[h] > _HOCK_LENGTH * (along[h] - along[h - 2]):
            continue
        steps = np.diff(places[:, h - 2 : h + 2], axis=1)
        thigh, shin, below = (steps[:, k] for k in range(3))
        if not min(np.median(angle_between(thigh, shin)), np.median(angle_between(shin, below))) > _HOCK_BEND:
            continue
        zigzag = np.median(np.sum(np.cross(thigh, shin) * np.cross(shin, below), axis=1)) < 0
        way = places[:, h + 1] - places[:, h - 2]
        down = np.sum(way * below, axis=1) / np.maximum(lengths(way) * lengths(below), 1e-12)
        if zigzag and np.median(down) > _HOCK_DROP:
            found.add(h)
    return frozenset(found)


def _score_reading(tree: BoneTree, measures: _ChainMeasures, picks: tuple[int, int, int], arm: bool) -> float:
    """Log likelihood that the joints ``picks`` of a chain are the upper bone, the lower bone and the end of an arm or a leg."""
    u, v, w = picks
    along = measures.along
    hock = not arm and u == v - 1 and w == v + 2 and v + 1 in measures.hocks
    upper, lower, whole = along[v] - along[u], along[v + 1 if hock else w] - along[v], along[w] - along[u]
    if upper <= 0 or lower <= 0 or measures.total <= 0:
        return -50.0
    parts = ARM[1:] if arm else LEG[:3]
    score = ratio_score(upper / lower, 1.0 if arm else 0.92, 0.3) + ratio_score(whole / measures.total, 0.75, 0.3)
    score += NAME_WEIGHT * (measures.scores[u][parts[0]] + measures.scores[v][parts[1]] + measures.scores[w][parts[2]])
    score -= 2.0 * (measures.still[u] + measures.still[v])
    score -= 1.5 * measures.still[w]
    if score < _HOPELESS:
        return score
    score += 4.0 * min(0.3, measures.bends[picks])
    score -= 8.0 * (measures.crookedness[u][v] + (0.0 if hock else measures.crookedness[v][w]))
    if not arm and measures.hocks:
        score += 1.5 if hock else -3.0 * (v in measures.hocks or w in measures.hocks)  # no knee and no foot
    score -= 0.05 * sum(picks)  # of several bones at one point, the first
    if arm:
        return _score_arm(measures, picks, score)
    return _score_leg(tree, measures, picks, score)


def _score_arm(measures: _ChainMeasures, picks: tuple[int, int, int], score: float) -> float:
    u, v, w = picks
    along = measures.along
    whole = along[w] - along[u]
    score += 0.5 * min(measures.child_counts[w], 3) if measures.child_counts[w] >= 2 else 0.0
    split = next((i for i in range(v + 1, w) if measures.child_counts[i] >= 2), w)
    score -= 1.5 * max(0, w - split - 1)  # a hand is at most one bone further out than the thumb
    score -= 3.0 * max(0.0, (measures.total - along[w]) / whole - 0.6)  # fingers are shorter than that
    if u < len(measures.separation):
        score += 0.5 * max(-4.0, ratio_score(measures.separation[u] / whole, 0.6, 0.5))
    if u > 0 and along[u] > 0.02 * whole:
        score += 0.5 * ratio_score(along[u] / whole, 0.18, 0.6)
        score += NAME_WEIGHT * max(measures.scores[i]["Shoulder"] for i in range(u))
    elif u == 0:
        score -= 0.3
    return score


def _score_leg(tree: BoneTree, measures: _ChainMeasures, picks: tuple[int, int, int], score: float) -> float:
    u, v, w = picks
    chain, along = measures.chain, measures.along
    whole = along[w] - along[u]
    after = chain[u + 1] if u + 1 < len(chain) else chain[u]
    if u < len(measures.separation):
        score -= 3.0 if measures.separation[u] < 0.04 * whole else 0.0
    if tree.length[after] < 0.06 * whole and v > u + 1:
        score -= 1.5
    if u > 0:
        score -= 0.3 + (along[u] / whole) * 2
    if w + 1 < len(chain):
        ankle = measures.angles[w - 1]  # at the ankle a leg turns from down to forward
        score += 1.5 * min(1.0, ankle / _ANKLE) + (1.0 if ankle >= max(measures.angles[v:]) else 0.0)
        score += 0.3 * ratio_score(float(tree.length[chain[w + 1]]) / whole, 0.17, 0.5)
    return score


def _shoulder(tree: BoneTree, chain: Sequence[int], picks: Sequence[int], along: np.ndarray) -> int | None:
    """The bone above the upper arm that has length; of several the one whose name fits, else the nearest."""
    whole = along[picks[2]] - along[picks[0]]
    found = [
        i
        for i in range(picks[0])
        if along[picks[0]] - along[i] > 0.05 * whole and tree.real[chain[i]] and not tree.names[chain[i]].excluded
    ]
    if not found:
        return None
    return chain[max(found, key=lambda i: (name_score(tree.names[chain[i]], "Shoulder"), i))]


def _toes(tree: BoneTree, chain: Sequence[int], picks: Sequence[int], along: np.ndarray) -> int | None:
    """The toe: the next bone after the foot that is not a tip; None if the foot splits into single toes."""
    foot = chain[picks[2]]
    whole = along[picks[2]] - along[picks[0]]
    children = [c for c in tree.children[foot] if tree.real[c]]
    named = [c for c in descendants(tree, foot) if not tree.names[c].excluded and "ToeBase" in tree.names[c].parts]
    if sum(tree.reach[c] + tree.length[c] > 0.05 * whole for c in children) >= 3:
        return None
    if named:
        return min(named, key=lambda c: len(ancestors(tree.parents, c)))
    following = [i for i in range(picks[2] + 1, min(picks[2] + 3, len(chain))) if tree.real[chain[i]]]
    following = [
        i for i in following if not tree.names[chain[i]].excluded and 0.05 < (along[i] - along[picks[2]]) / whole < 0.45
    ]
    if not following:
        return None
    return chain[max(following, key=lambda i: ratio_score((along[i] - along[picks[2]]) / whole, 0.17, 1.0))]


def name_score(info: BoneNameInfo, part: str) -> float:
    """How well a name fits a part: up to 1; 0 if it tells nothing, negative if it tells something else."""
    if info.excluded:
        return -1.5
    if not info.parts:
        return 0.0
    return info.parts.get(part, -0.5)


def ratio_score(value: float, expected: float, sigma: float) -> float:
    """Log likelihood, without its constant, of a length ratio whose logarithm is normal around the expected one."""
    return -0.5 * (math.log(max(value, 1e-6) / expected) / sigma) ** 2


def _useful_poses(tree: BoneTree) -> slice:
    """The poses used for directions and distances: the frames, or the rest pose if there are too few."""
    return slice(1, None) if len(tree.poses) > 4 else slice(0, 1)


def _steps(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bones (K, n - 2, 3) that end and that begin at each inner joint of a chain with joints at ``places`` (K, n, 3)."""
    steps = np.diff(places, axis=1)
    return steps[:, :-1], steps[:, 1:]


def _bends(places: np.ndarray, triples: Sequence[tuple[int, int, int]]) -> list[float]:
    """Standard deviation [rad], over frames ``places`` (K, n, 3), of the angle at the middle joint of each triple."""
    if len(places) < 7 or not triples:
        return [0.0] * len(triples)
    u, v, w = np.array(triples).T
    angles = angle_between(places[:, v] - places[:, u], places[:, w] - places[:, v])
    return np.std(angles, axis=0).tolist()


def _crookedness(places: np.ndarray) -> list[list[float]]:
    """How much shorter (0 to 1) the straight line between joints (n, n) is than the chain; mean of poses (K, n, 3)."""
    steps = np.cumsum(lengths(np.diff(places, axis=1, prepend=places[:, :1])), axis=1)
    over = np.abs(steps[:, None, :] - steps[:, :, None])
    straight = lengths(places[:, None, :] - places[:, :, None])
    crooked = np.mean(1 - straight / np.maximum(over, 1e-12), axis=0)
    near = np.abs(np.subtract.outer(np.arange(len(crooked)), np.arange(len(crooked)))) < 2
    return np.where(near, 0.0, crooked).tolist()
