# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bone plays which of the 23 roles of the reference rig: by structure, by motion, and by names where they speak.

Structure comes first, because names lie: two pairs of mirrored limbs on a trunk make a body, whatever they are called.
Names then choose among what the structure leaves open. Lengths are used rather than positions wherever possible, since
lengths hold in every pose, also where a file's rest pose is a heap. Directions are taken from poses: the rest, where it
is a pose, and the motion's frames. Which side is left is decided by geometry alone where toes, knees or elbows tell
where the body faces; a name that says otherwise is reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from .bone_names import Said, read_names, speaks_of_animal

ROLE_NAMES = (
    *("Hips", "Spine", "Spine1", "Spine2", "NeckLower", "NeckUpper", "Head"),
    *("LeftShoulder", "LeftArm", "LeftForeArm", "LeftHand", "LeftThigh", "LeftShin", "LeftFoot", "LeftToeBase"),
    *("RightShoulder", "RightArm", "RightForeArm", "RightHand", "RightThigh", "RightShin", "RightFoot", "RightToeBase"),
)
TRUNK = ("Spine", "Spine1", "Spine2")
NECK = ("NeckLower", "NeckUpper")
ARM = ("Shoulder", "Arm", "ForeArm", "Hand")
LEG = ("Thigh", "Shin", "Foot", "ToeBase")


@dataclass(frozen=True)
class Roles:
    """What was understood of a skeleton."""

    bones: dict[str, int | None]
    """Role -> bone index, None where the rig has no such bone; all 23 roles are keys."""
    confidence: dict[str, float] = field(default_factory=dict)
    """Role -> 0 (a guess) to 1 (structure and name agree), for the roles that are played."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Bone name -> why it plays no role."""
    notes: tuple[str, ...] = ()
    """What a person should know, one sentence each: names that lie, a side that could not be told."""

    @property
    def humanoid(self) -> bool:
        """Whether hips and two legs were found: what retargeting needs."""
        return all(self.bones.get(r) is not None for r in ("Hips", "LeftThigh", "RightThigh", "LeftShin", "RightShin"))


# ---- structure ------------------------------------------------------------------------------------------------------

_LONGEST_LEAF = 1.5  # a leaf this many times longer than every inner bone is a helper somewhere far away
_PAIR = 0.2  # mirrored limbs differ by less than this share in length
_UNLIKE = 0.1  # mirrored limbs have their joints in the same places, but for this share of their length
_SHORTEST_LIMB = 0.12  # of the body's reach
_CHAIN = 12  # bones of a limb looked at
_NAME_WEIGHT = 2.0
_UPRIGHT = np.radians(50)  # a trunk that leans more than this away from the legs' line, in most poses, is no human's
_STILL = np.radians(0.5)  # a bone that turns less than this in a whole take never turns


@dataclass(frozen=True)
class _Tree:
    """Bones that may play a role, with the tips as nodes of their own at the end."""

    parents: np.ndarray
    heads: np.ndarray
    poses: np.ndarray
    real: np.ndarray
    length: np.ndarray
    reach: np.ndarray
    children: tuple[tuple[int, ...], ...]
    names: tuple[Said, ...]
    turning: np.ndarray | None


@dataclass(frozen=True)
class _Pair:
    at: int
    chains: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class _Limb:
    """Two mirrored chains understood as arms or legs."""

    pair: _Pair
    bones: tuple[dict[str, int], dict[str, int]]
    size: float
    score: float


def find_roles(
    names: Sequence[str],
    parents: np.ndarray,
    heads: np.ndarray,
    *,
    tips: Mapping[int, np.ndarray] | None = None,
    motion: np.ndarray | None = None,
    motion_tips: Mapping[int, np.ndarray] | None = None,
    turning: np.ndarray | None = None,
) -> Roles:
    """Understand a skeleton.

    Args:
        names: (J) bone names; ignored as far as they say nothing.
        parents: (J) int, -1 for roots, in any order.
        heads: (J, 3) rest heads, any unit, any axes up and forward.
        tips: bone index -> (3) position of the bone's end at rest, where one is known (End Sites, Blender tails of leaves).
        motion: (K, J, 3) heads in some frames of a take; helps greatly where the rest pose is no pose.
        motion_tips: bone index -> (K, 3) the tips in those frames.
        turning: (J) [rad] how far each bone ever turns against its parent in the take.

    A skeleton that is no human (a creature, a prop, one leg) gives Roles without bones and a note that says why.
    Raises ValueError for arrays of the wrong shape and for parents that form a circle.
    """
    names, parents, heads = tuple(map(str, names)), np.asarray(parents, int), np.asarray(heads, float)
    count = len(names)
    if parents.shape != (count,) or heads.shape != (count, 3):
        raise ValueError(
            f"roles: expected {count} parents and heads ({count}, 3), got {parents.shape} and {heads.shape}"
        )
    if not np.isfinite(heads).all():
        raise ValueError("roles: rest heads must be finite")
    _require_tree(parents)
    empty: dict[str, int | None] = dict.fromkeys(ROLE_NAMES)
    if count == 0:
        return Roles(empty, notes=("a skeleton without bones",))
    said = read_names(names)
    tree = _tree(names, said, parents, heads, tips or {}, motion, motion_tips or {}, turning)
    found = _body(tree)
    if found is None:
        return _by_names_alone(names, parents, said)
    legs, arms, upright = found
    bones, notes = _assign(tree, names, legs, arms)
    named = [r for r, j in bones.items() if j is not None and _names_role(said[j], r)]
    human = len(named) >= 0.6 * sum(j is not None for j in bones.values())
    animal = speaks_of_animal(names)
    if not upright and (not human or animal):
        return Roles(
            empty, skipped={}, notes=("two pairs of limbs, but the trunk does not stand on the legs: a creature",)
        )
    confidence = {r: _confidence(said[j], r, legs.score + arms.score) for r, j in bones.items() if j is not None}
    skipped = _skipped(tree, names, said, bones)
    return Roles({**empty, **bones}, confidence, skipped, tuple(notes))


def _require_tree(parents: np.ndarray) -> None:
    for j in range(len(parents)):
        k, steps = j, 0
        while k >= 0:
            k, steps = int(parents[k]), steps + 1
            if steps > len(parents):
                raise ValueError(f"roles: the parents of bone {j} form a circle; every bone needs a way to a root")


def _layer(names: Sequence[str], parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which bones count (J) bool, and their parents among those that count: a generated Rigify rig has four skeletons in one."""
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
            if twin is not None and twin != j and keep[twin] and j not in _ancestors(above, twin):
                k = twin
                break
            k = int(parents[k])
        above[j] = k
    return keep, above


def _tree(
    names: Sequence[str],
    said: Sequence[Said],
    parents: np.ndarray,
    heads: np.ndarray,
    tips: Mapping[int, np.ndarray],
    motion: np.ndarray | None,
    motion_tips: Mapping[int, np.ndarray],
    turning: np.ndarray | None,
) -> _Tree:
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
    for j in np.flatnonzero(usable):
        if above[j] >= 0 and real[j]:
            inner[above[j]] = True
    limit = _LONGEST_LEAF * max(
        (float(length[j]) for j in np.flatnonzero(inner & usable) if above[j] >= 0), default=np.inf
    )
    if limit > 0:
        usable &= inner | (length <= limit)
    children = tuple(tuple(int(c) for c in np.flatnonzero((above == j) & usable)) for j in range(total))
    reach = np.zeros(total)
    for j in _leaves_first(above):
        if usable[j] and above[j] >= 0:
            reach[above[j]] = max(reach[above[j]], reach[j] + length[j])
    nothing = Said("", {}, "the tip of a bone")
    turns = None if turning is None else np.concatenate([np.asarray(turning, float), np.zeros(len(ends))])
    return _Tree(
        above,
        rest,
        np.concatenate([rest[None], moving]),
        real & usable,
        length,
        reach,
        children,
        (*said, *[nothing] * len(ends)),
        turns,
    )


def _leaves_first(parents: np.ndarray) -> list[int]:
    depth = [len(_ancestors(parents, j)) for j in range(len(parents))]
    return [int(j) for j in np.argsort(depth, kind="stable")[::-1]]


def _ancestors(parents: np.ndarray, j: int) -> list[int]:
    out: list[int] = []
    while parents[j] >= 0 and len(out) <= len(parents):
        j = int(parents[j])
        out.append(j)
    return out


def _main_chain(tree: _Tree, start: int) -> tuple[int, ...]:
    """From ``start`` outwards, always into the child that reaches farthest; a name that speaks of a limb weighs in."""
    out = [start]
    while tree.children[out[-1]] and len(out) < _CHAIN:

        def worth(c: int) -> float:
            named = 0.0 if tree.names[c].refused else max(tree.names[c].parts.values(), default=0.0)
            return float(tree.length[c] + tree.reach[c]) * (1 + 0.5 * named)

        out.append(max(tree.children[out[-1]], key=worth))
    return tuple(out)


def _pairs(tree: _Tree) -> list[_Pair]:
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
            chains = _main_chain(tree, a), _main_chain(tree, b)
            if _unlike(tree, *chains) < _UNLIKE:
                out.append(_Pair(at, chains))
    return out


def _unlike(tree: _Tree, a: Sequence[int], b: Sequence[int]) -> float:
    """How differently two chains are divided into bones: mean difference of their joints' places along them, 0 to 1."""
    along_a, along_b = (np.cumsum([tree.length[j] for j in chain[1:]]) for chain in (a, b))
    count = min(len(along_a), len(along_b))
    if count == 0:
        return 1.0
    return float(np.mean(np.abs(along_a[:count] - along_b[:count])) / max(along_a[-1], along_b[-1], 1e-12))


def _name_score(said: Said, part: str) -> float:
    if said.refused:
        return -1.5
    if not said.parts:
        return 0.0
    return said.parts.get(part, -0.5)


def _names_role(said: Said, role: str) -> bool:
    return _part(role) in said.parts


def _part(role: str) -> str:
    for side in ("Left", "Right"):
        if role.startswith(side):
            return role[len(side) :]
    return "Trunk" if role in TRUNK else "Neck" if role in NECK else role


def _log_miss(value: float, wanted: float, sigma: float) -> float:
    """Log likelihood, without its constant, of a length ratio whose logarithm scatters by sigma."""
    return -0.5 * float((np.log(max(value, 1e-6) / wanted) / sigma) ** 2)


def _bends(tree: _Tree, above: int, at: int, below: int) -> float:
    """How much [rad] the angle at a joint varies over the poses; 0 where there are none."""
    if len(tree.poses) < 8:
        return 0.0
    a, b = tree.poses[1:, at] - tree.poses[1:, above], tree.poses[1:, below] - tree.poses[1:, at]
    across = np.linalg.norm(np.cross(a, b), axis=1)
    angle = np.arctan2(across, np.sum(a * b, axis=1))
    return float(np.std(angle))


def _crooked(tree: _Tree, line: Sequence[int]) -> float:
    """How much shorter (0 to 1) the straight way along a chain is than the way over its joints, in the mean of the poses."""
    if len(line) < 3:
        return 0.0
    poses = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    steps = np.linalg.norm(np.diff(poses[:, list(line)], axis=1), axis=2).sum(axis=1)
    straight = np.linalg.norm(poses[:, line[-1]] - poses[:, line[0]], axis=1)
    return float(np.mean(1 - straight / np.maximum(steps, 1e-12)))


def _typical_angle(tree: _Tree, above: int, at: int, below: int) -> float:
    """Median angle [rad] between two bones that follow each other, over the frames, or at rest where there are none."""
    poses = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    return float(np.median(_angle(poses[:, at] - poses[:, above], poses[:, below] - poses[:, at])))


def _never_turns(tree: _Tree, j: int) -> bool:
    return tree.turning is not None and bool(tree.turning[j] < _STILL)


def _limb(tree: _Tree, pair: _Pair, arm: bool) -> _Limb | None:
    """The best reading of a pair of chains as arms or as legs; None where they have too few bones."""
    first, second = pair.chains
    both = len(first) == len(second)
    options = []
    for chain, other in ((first, second), (second, first)):
        scored = {}
        real = [i for i, j in enumerate(chain) if tree.real[j]]
        for picks in combinations(real, 3):
            scored[picks] = _score_picks(tree, chain, other, picks, arm)
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
    return _Limb(pair, (bones[0], bones[1]), float(np.mean(sizes)), score)


def _score_picks(tree: _Tree, chain: Sequence[int], other: Sequence[int], picks: tuple[int, ...], arm: bool) -> float:
    u, v, w = picks
    along = np.cumsum([0.0, *(tree.length[j] for j in chain[1:])])
    upper, lower, whole = along[v] - along[u], along[w] - along[v], along[w] - along[u]
    total = along[0] + tree.reach[chain[0]]
    if upper <= 0 or lower <= 0 or total <= 0:
        return -50.0
    parts = ARM[1:] if arm else LEG[:3]
    score = _log_miss(upper / lower, 1.0 if arm else 0.92, 0.3) + _log_miss(whole / total, 0.75, 0.3)
    score += _NAME_WEIGHT * sum(_name_score(tree.names[chain[i]], part) for i, part in zip(picks, parts, strict=True))
    score -= 2.0 * sum(_never_turns(tree, chain[i]) for i in (u, v))
    score += 4.0 * min(0.3, _bends(tree, chain[u], chain[v], chain[w]))
    score -= 8.0 * (_crooked(tree, chain[u : v + 1]) + _crooked(tree, chain[v : w + 1]))
    score -= 0.02 * sum(picks)  # of several bones in one place, the first
    after = chain[u + 1] if u + 1 < len(chain) else chain[u]
    if arm:
        fingers = sum(tree.real[c] for c in tree.children[chain[w]])
        score += 0.5 * min(fingers, 3) if fingers >= 2 else 0.0
        split = next((i for i in range(v + 1, w) if sum(tree.real[c] for c in tree.children[chain[i]]) >= 2), w)
        score -= 1.5 * max(0, w - split - 1)  # a hand lies no further out than one bone after the thumb
        if u > 0 and along[u] > 0.02 * whole:
            score += 0.5 * _log_miss(along[u] / whole, 0.18, 0.6)
            score += _NAME_WEIGHT * max(_name_score(tree.names[j], "Shoulder") for j in chain[:u])
        elif u == 0:
            score -= 0.3
    else:
        if u < len(other):
            apart = np.linalg.norm(tree.heads[chain[u]] - tree.heads[other[u]])
            score -= 3.0 if apart < 0.04 * whole else 0.0
        if tree.length[after] < 0.06 * whole and v > u + 1:
            score -= 1.5
        if u > 0:
            score -= 0.3 + (along[u] / whole) * 2
        if w + 1 < len(chain):
            turns = [_typical_angle(tree, *chain[i - 1 : i + 2]) for i in range(v + 1, len(chain) - 1)]
            ankle = turns[w - v - 1]  # the ankle is where a leg turns from down to forward
            score += 1.5 * min(1.0, ankle / np.radians(60)) + (1.0 if ankle >= max(turns) else 0.0)
            score += 0.3 * _log_miss(tree.length[chain[w + 1]] / whole, 0.17, 0.5)
    return score


def _collar(tree: _Tree, chain: Sequence[int], picks: Sequence[int], along: np.ndarray) -> int | None:
    """The bone before the upper arm that has a length of its own; of several the one whose name speaks, else the nearest."""
    whole = along[picks[2]] - along[picks[0]]
    found = [
        i
        for i in range(picks[0])
        if along[picks[0]] - along[i] > 0.05 * whole and tree.real[chain[i]] and not tree.names[chain[i]].refused
    ]
    if not found:
        return None
    return chain[max(found, key=lambda i: (_name_score(tree.names[chain[i]], "Shoulder"), i))]


def _toes(tree: _Tree, chain: Sequence[int], picks: Sequence[int], along: np.ndarray) -> int | None:
    """The toe: the next bone after the foot that is no tip; none where the foot splits into single toes."""
    foot = chain[picks[2]]
    whole = along[picks[2]] - along[picks[0]]
    children = [c for c in tree.children[foot] if tree.real[c]]
    named = [c for c in _below(tree, foot) if not tree.names[c].refused and "ToeBase" in tree.names[c].parts]
    if sum(tree.reach[c] + tree.length[c] > 0.05 * whole for c in children) >= 3:
        return None
    if named:
        return min(named, key=lambda c: len(_ancestors(tree.parents, c)))
    following = [i for i in range(picks[2] + 1, min(picks[2] + 3, len(chain))) if tree.real[chain[i]]]
    following = [
        i for i in following if not tree.names[chain[i]].refused and 0.05 < (along[i] - along[picks[2]]) / whole < 0.45
    ]
    if not following:
        return None
    return chain[max(following, key=lambda i: _log_miss((along[i] - along[picks[2]]) / whole, 0.17, 1.0))]


def _below(tree: _Tree, j: int) -> list[int]:
    out, todo = [], list(tree.children[j])
    while todo:
        k = todo.pop()
        if tree.real[k]:
            out.append(k)
            todo.extend(tree.children[k])
    return out


def _body(tree: _Tree) -> tuple[_Limb, _Limb, bool] | None:
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


def _score_body(tree: _Tree, legs: _Limb, arms: _Limb) -> float:
    hip, chest = legs.pair.at, arms.pair.at
    used = {j for limb in (legs, arms) for chain in limb.pair.chains for j in chain}
    if (
        len(used) < sum(len(c) for limb in (legs, arms) for c in limb.pair.chains)
        or hip == chest
        or min(hip, chest) < 0
    ):
        return -np.inf
    if not 0.3 < arms.size / legs.size < 1.5:  # wings, faces, fingers
        return -np.inf
    if hip in used or chest in used or any(set(_ancestors(tree.parents, p)) & used for p in (hip, chest)):
        return -np.inf
    above_hip, above_chest = [hip, *_ancestors(tree.parents, hip)], [chest, *_ancestors(tree.parents, chest)]
    meet = next((j for j in above_chest if j in above_hip), None)
    if meet is None:
        return -np.inf
    trunk = sum(tree.length[j] for j in above_chest[: above_chest.index(meet)])
    trunk += sum(tree.length[j] for j in above_hip[: above_hip.index(meet)])
    score = (
        legs.score + arms.score + _log_miss(trunk / legs.size, 0.5, 0.5) + _log_miss(arms.size / legs.size, 0.6, 0.4)
    )
    score += 1.5 if meet == hip else -2.0 if meet == chest else 0.0
    score += 1.0 if any(c not in used and tree.real[c] for c in tree.children[chest]) else 0.0
    return score - min(4.0, 0.5 * float(_lean(tree, legs, arms) / np.radians(40)) ** 2)


def _lean(tree: _Tree, legs: _Limb, arms: _Limb) -> float:
    """Median angle [rad], over the poses, between the trunk and the line from the feet to the hips."""
    trunk = tree.poses[:, arms.pair.at] - tree.poses[:, legs.pair.at]
    feet = np.mean([tree.poses[:, b["Foot"]] for b in legs.bones], axis=0)
    thighs = np.mean([tree.poses[:, b["Thigh"]] for b in legs.bones], axis=0)
    shoulders = np.mean([tree.poses[:, b["Arm"]] for b in arms.bones], axis=0)
    trunk = np.where(np.linalg.norm(trunk, axis=1, keepdims=True) > 0.2 * legs.size, shoulders - thighs, trunk)
    angles = _angle(trunk, thighs - feet)
    return float(np.median(angles[1:] if len(angles) > 4 else angles))


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1)))


# ---- from limbs to roles --------------------------------------------------------------------------------------------


def _assign(tree: _Tree, names: Sequence[str], legs: _Limb, arms: _Limb) -> tuple[dict[str, int | None], list[str]]:
    notes: list[str] = []
    bones: dict[str, int | None] = {}
    hips = _hips(tree, legs, arms)
    bones["Hips"] = hips
    path = _path(tree, hips, arms.pair.at)
    neck, head = _neck_and_head(tree, legs, arms, path)
    trunk = [j for j in path if not tree.names[j].refused and j not in neck]
    trunk = _unfolded(tree, hips, trunk, 0.02 * legs.size)
    trunk = [j for i, j in enumerate(trunk) if i + 1 == len(trunk) or tree.length[trunk[i + 1]] > 1e-3 * legs.size]
    bones.update(zip(TRUNK, _three(trunk), strict=False))
    bones.update(zip(NECK, neck if len(neck) < 3 else [neck[0], neck[-1]], strict=False))
    if head is not None:
        bones["Head"] = head
    for limb, parts in ((arms, ARM), (legs, LEG)):
        left = _which_is_left(tree, names, legs, arms, limb, notes)
        for side, of in (("Left", limb.bones[left]), ("Right", limb.bones[1 - left])):
            bones.update({side + part: of[part] for part in parts if part in of})
    return bones, notes


def _unfolded(tree: _Tree, hips: int, trunk: list[int], near: float) -> list[int]:
    """The trunk without bones that go up and come back again (Second Life keeps four such, folded away)."""
    kept = [hips]
    for j in trunk:
        kept.append(j)
        if len(kept) > 2 and np.linalg.norm(tree.heads[j] - tree.heads[kept[-3]]) < near < tree.length[j]:
            del kept[-2:]
    return kept[1:]


def _three(trunk: list[int]) -> list[int]:
    """Fill from the base; of more than three bones the first, one in the middle and the last."""
    return trunk if len(trunk) <= 3 else [trunk[0], trunk[(len(trunk) - 1) // 2], trunk[-1]]


def _hips(tree: _Tree, legs: _Limb, arms: _Limb) -> int:
    """The bone that carries legs and trunk; a bone above it where the names call that one the pelvis (old Biped rigs)."""
    above_hip = [legs.pair.at, *_ancestors(tree.parents, legs.pair.at)]
    above_chest = [arms.pair.at, *_ancestors(tree.parents, arms.pair.at)]
    meet = next(j for j in above_chest if j in above_hip)
    if "Trunk" in tree.names[meet].parts:
        for j in _ancestors(tree.parents, meet)[:1]:
            if tree.names[j].parts.get("Hips", 0) >= 1 and tree.real[j]:
                return j
    return meet


def _path(tree: _Tree, top: int, below: int) -> list[int]:
    """Bones from just below ``top`` down to ``below``, both in one line."""
    line = [below, *_ancestors(tree.parents, below)]
    return line[: line.index(top)][::-1] if top in line else []


def _neck_and_head(tree: _Tree, legs: _Limb, arms: _Limb, path: Sequence[int]) -> tuple[list[int], int | None]:
    limbs = {c[0] for limb in (legs, arms) for c in limb.pair.chains}
    for at in reversed(path):
        starts = [c for c in tree.children[at] if tree.real[c] and c not in limbs and c not in path]
        starts = [c for c in starts if not tree.names[c].refused and not _has_twin(tree, c, starts)]
        if not starts:
            continue

        def worth(c: int) -> float:
            said = tree.names[c].parts
            return float(tree.length[c] + tree.reach[c]) / legs.size + 2 * max(said.get("Neck", 0), said.get("Head", 0))

        chain = [c for c in _main_chain(tree, max(starts, key=worth)) if tree.real[c]]
        chain = [c for i, c in enumerate(chain) if i == 0 or tree.length[c] > 1e-3 * legs.size]
        scores = [_score_head(tree, legs, arms, chain, i) for i in range(len(chain))]
        best = int(np.argmax(scores))
        neck = [j for j in chain[:best] if not tree.names[j].refused]
        named = [j for j in path if "Neck" in tree.names[j].parts and "Trunk" not in tree.names[j].parts]
        if not neck and not named and len(path) > 2 and _above_shoulders(tree, legs, arms, at) > -0.05:
            named = [at]  # 3ds Max's Biped hangs the collar bones on the neck
        return named + neck, chain[best]
    return [], None


def _above_shoulders(tree: _Tree, legs: _Limb, arms: _Limb, j: int) -> float:
    """Height of a bone's head above the shoulder joints, along the trunk, in leg lengths; the median of the poses."""
    poses = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    shoulders = np.mean([poses[:, b["Arm"]] for b in arms.bones], axis=0)
    up = shoulders - np.mean([poses[:, b["Thigh"]] for b in legs.bones], axis=0)
    up = up / np.maximum(np.linalg.norm(up, axis=1, keepdims=True), 1e-12)
    return float(np.median(np.sum((poses[:, j] - shoulders) * up, axis=1))) / legs.size


def _score_head(tree: _Tree, legs: _Limb, arms: _Limb, chain: Sequence[int], i: int) -> float:
    """How well the i-th bone above the chest would be the head: at the height of the skull's base, long, with a face on it."""
    j = chain[i]
    height = _above_shoulders(tree, legs, arms, j)
    inner = sum(tree.real[c] for c in tree.children[j])
    following = max((tree.length[c] for c in tree.children[j]), default=0.0) / legs.size
    score = _NAME_WEIGHT * 1.5 * _name_score(tree.names[j], "Head")
    if len(chain) > 1:
        score += max(-6.0, -0.5 * ((height - 0.155) / 0.08) ** 2)
        score += 0.5 * max(-4.0, _log_miss(following, 0.17, 0.6)) if following > 0 else -0.3
        score -= 0.5 if i == 0 else 0.15 * (i - 1)  # one neck bone is the rule
    return score + (1.5 if inner >= 2 else 0.0)


def _has_twin(tree: _Tree, c: int, group: Iterable[int]) -> bool:
    """Whether another bone of the group mirrors this one (breasts, eyes, wings)."""
    for other in group:
        if other == c:
            continue
        same = abs(tree.length[c] - tree.length[other]) <= 0.03 * max(tree.length[c], tree.length[other])
        reach = abs(tree.reach[c] - tree.reach[other]) <= 0.03 * max(tree.reach[c], tree.reach[other], 1e-12)
        if (
            same
            and reach
            and tree.length[c] > 0
            and np.linalg.norm(tree.heads[c] - tree.heads[other]) > 0.05 * tree.length[c]
        ):
            return True
    return False


# ---- left and right -------------------------------------------------------------------------------------------------


def _which_is_left(tree: _Tree, names: Sequence[str], legs: _Limb, arms: _Limb, limb: _Limb, notes: list[str]) -> int:
    """Index of the chain on the left: by where toes, knees and elbows point, else by the names, else by the rest's +X."""
    start = "Arm" if limb is arms else "Thigh"
    vote = _side_vote(tree, legs, arms, start, limb)
    said = 0.0
    for k, sign in ((0, 1.0), (1, -1.0)):
        for j in limb.bones[k].values():
            said += {"Left": sign, "Right": -sign}.get(tree.names[j].side, 0.0)
    what = "arms" if limb is arms else "legs"
    if abs(vote) > 0.02:
        if said and (vote > 0) != (said > 0):
            k = 0 if said > 0 else 1
            example = names[limb.bones[k][start]]
            notes.append(
                f"the names of the {what} say left and right the other way round: {example!r} is on the right; geometry was believed"
            )
        return 0 if vote > 0 else 1
    if said:
        return 0 if said > 0 else 1
    notes.append(f"nothing tells which of the {what} is the left one; the one at larger x was taken")
    return 0 if tree.heads[limb.bones[0][start], 0] >= tree.heads[limb.bones[1][start], 0] else 1


def _side_vote(tree: _Tree, legs: _Limb, arms: _Limb, start: str, limb: _Limb) -> float:
    """Positive where the first chain is on the left; near zero where the poses do not tell."""
    poses = tree.poses
    hips, chest = poses[:, legs.pair.at], poses[:, arms.pair.at]
    feet = np.mean([poses[:, b["Foot"]] for b in legs.bones], axis=0)
    up = (chest - hips) + (hips - feet)
    size = np.linalg.norm(up, axis=1, keepdims=True)
    up = up / np.maximum(size, 1e-12)
    forward = np.zeros_like(up)
    for bones, chain in zip(legs.bones, legs.pair.chains, strict=True):
        end = _toe_point(tree, bones, chain)
        if end is not None:
            step = poses[:, end] - poses[:, bones["Foot"]]
            step = step - np.sum(step * up, axis=1, keepdims=True) * up
            forward += step / legs.size
        forward += 0.3 * _poke(poses, bones["Thigh"], bones["Shin"], bones["Foot"]) / legs.size
    for bones in arms.bones:
        forward -= 0.3 * _poke(poses, bones["Arm"], bones["ForeArm"], bones["Hand"]) / legs.size
    across = poses[:, limb.bones[0][start]] - poses[:, limb.bones[1][start]]
    across = across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-12)
    votes = np.sum(np.cross(up, forward) * across, axis=1)
    stands = _angle(chest - hips, hips - feet) < np.radians(60)
    if stands[0] and abs(votes[0]) > 0.05:
        return float(votes[0] + (np.mean(votes[1:]) if len(votes) > 1 else 0.0))
    return float(np.mean(votes[stands])) if stands.any() else (float(np.mean(votes[1:])) if len(votes) > 1 else 0.0)


def _toe_point(tree: _Tree, bones: Mapping[str, int], chain: Sequence[int]) -> int | None:
    if "ToeBase" in bones:
        return bones["ToeBase"]
    place = chain.index(bones["Foot"])
    return chain[place + 1] if place + 1 < len(chain) else None


def _poke(poses: np.ndarray, upper: int, middle: int, end: int) -> np.ndarray:
    """Where a hinge points (K, 3): from the middle of its ends' line to the joint."""
    a, b = poses[:, upper], poses[:, end]
    line = b - a
    share = np.sum((poses[:, middle] - a) * line, axis=1, keepdims=True) / np.maximum(
        np.sum(line * line, axis=1, keepdims=True), 1e-12
    )
    return np.asarray(poses[:, middle] - a - share * line)


# ---- what is left over ----------------------------------------------------------------------------------------------


def _confidence(said: Said, role: str, score: float) -> float:
    base = 0.6 + 0.2 * float(np.clip((score + 4) / 8, 0, 1))
    if not said.parts:
        return round(base, 2)
    return (
        round(min(1.0, base + 0.2 * said.parts[_part(role)]), 2) if _part(role) in said.parts else round(base - 0.3, 2)
    )


def _skipped(
    tree: _Tree, names: Sequence[str], said: Sequence[Said], bones: Mapping[str, int | None]
) -> dict[str, str]:
    used = {j for j in bones.values() if j is not None}
    hips = bones.get("Hips")
    above = set(_ancestors(tree.parents, hips)) if hips is not None else set()
    out = {}
    for j, name in enumerate(names):
        if j in used:
            continue
        if not tree.real[j]:
            out[name] = "a helper far away or of another layer of the rig"
        elif said[j].refused:
            out[name] = said[j].refused
        elif j in above:
            out[name] = "a bone above the hips"
        elif _never_turns(tree, j):
            out[name] = "never turns"
        elif tree.parents[j] >= 0 and tree.length[j] < 1e-6 * max(tree.reach.max(), 1e-12):
            out[name] = "no length"
        else:
            out[name] = "no role needs it"
    return out


def _by_names_alone(names: Sequence[str], parents: np.ndarray, said: Sequence[Said]) -> Roles:
    """Roles where the structure shows no body (half a rig, loose bones): what the names plainly say."""
    bones: dict[str, int | None] = dict.fromkeys(ROLE_NAMES)
    used: set[int] = set()
    for role in ROLE_NAMES:
        side = "Left" if role.startswith("Left") else "Right" if role.startswith("Right") else ""
        part = _part(role)
        options = [
            j for j in range(len(names)) if j not in used and said[j].side == side and said[j].parts.get(part, 0) >= 0.8
        ]
        if not options:
            continue
        best = min(options, key=lambda j: (-said[j].parts[part], len(_ancestors(parents, j))))
        bones[role] = best
        used.add(best)
    limbs = [side + part for side in ("Left", "Right") for part in ("Arm", "ForeArm", "Thigh", "Shin")]
    if bones["Hips"] is None or sum(bones[r] is not None for r in limbs) < 6:
        return Roles(
            dict.fromkeys(ROLE_NAMES), notes=("no two pairs of limbs were found: a creature, a prop, or half a body",)
        )
    confidence = {r: 0.4 for r, j in bones.items() if j is not None}
    return Roles(bones, confidence, notes=("the structure shows no body; these roles come from the names alone",))


# ---- files ----------------------------------------------------------------------------------------------------------


def load_roles(path: str | Path, names: Sequence[str]) -> Roles:
    """Roles from a JSON file for a skeleton with these bone names.

    The file holds ``{"roles": {"Hips": "pelvis", ...}}``, or that inner table alone: role -> bone name or null. Roles it
    leaves out stay empty. Raises ValueError for text that is no such table, for unknown roles and bones (with what exists),
    and for one bone in two roles.
    """
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name}: expected a JSON table of roles, but it cannot be read: {error}") from error
    table = data.get("roles", data) if isinstance(data, dict) else None
    if not isinstance(table, dict):
        raise ValueError(
            f'{path.name}: expected {{"roles": {{"Hips": "bone name", ...}}}}, got a {type(data).__name__}'
        )
    index = {n: j for j, n in enumerate(names)}
    bones: dict[str, int | None] = dict.fromkeys(ROLE_NAMES)
    for role, name in table.items():
        if role not in bones:
            raise ValueError(f"{path.name}: no role is called {role!r}; there are {', '.join(ROLE_NAMES)}")
        if name is None:
            continue
        if not isinstance(name, str):
            raise ValueError(f"{path.name}: {role} should be a bone's name or null, got {json.dumps(name)}")
        if name not in index:
            raise ValueError(
                f"{path.name}: {role} should be {name!r}, but the skeleton has no such bone; it has {', '.join(names[:40])}"
            )
        if index[name] in bones.values():
            raise ValueError(f"{path.name}: the bone {name!r} is given two roles; every bone plays one at most")
        bones[role] = index[name]
    return Roles(bones, {r: 1.0 for r, j in bones.items() if j is not None})


def save_roles(path: str | Path, roles: Roles, names: Sequence[str]) -> None:
    """Write roles as the JSON that ``load_roles`` reads; whole or not at all."""
    path = Path(path)
    table = {r: None if j is None else names[j] for r, j in roles.bones.items()}
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps({"roles": table}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)


def mirrored(roles: Roles) -> Roles:
    """The same bones with left and right exchanged."""
    swap = {
        r: ("Right" + r[4:] if r.startswith("Left") else "Left" + r[5:] if r.startswith("Right") else r)
        for r in roles.bones
    }
    return replace(
        roles,
        bones={r: roles.bones[swap[r]] for r in roles.bones},
        confidence={r: roles.confidence[swap[r]] for r in roles.bones if swap[r] in roles.confidence},
    )


# ---- creatures ------------------------------------------------------------------------------------------------------


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
    _require_tree(parents)
    said = read_names(names)
    tree = _tree(names, said, parents, heads, {}, motion, {}, turning)
    usable = [tuple(c for c in kids if not _aside(tree, c)) for kids in tree.children]
    tree = replace(tree, children=tuple(usable))
    body = max((int(j) for j in np.flatnonzero(tree.parents < 0)), key=lambda j: tree.reach[j])
    size = float(tree.reach[body])
    while len([c for c in tree.children[body] if tree.length[c] + tree.reach[c] > 0.1 * size]) == 1:
        body = max(tree.children[body], key=lambda c: tree.length[c] + tree.reach[c])
    height = tree.heads[:, 2]
    ground = float(min(height[j] for j in [body, *_below(tree, body)]))
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


_LIMB_SHARE = 0.18  # of the body's reach: what is shorter is no limb of its own


def _aside(tree: _Tree, j: int) -> bool:
    """Whether a bone is nothing to take hold of, by its name: controls, props, cloth, the small bones beside a face."""
    said = tree.names[j]
    if said.refused in ("a soft-body bone", "a hip helper"):
        return not tree.children[j]
    if said.refused == "a face bone":
        return bool(said.side)
    return said.refused in ("an animator's control", "a prop", "clothing", "a connector")


def _end_of_middle(tree: _Tree, at: int, body: int, size: float) -> list[int]:
    """Effectors where a chain along the middle ends: the tip of a tail; of a head the head itself and its beak or snout."""
    below = _below(tree, at)
    forks = [j for j in [at, *below] if sum(tree.real[c] for c in tree.children[j]) > 1]
    chain = _chain_of(tree, at)
    line = [at, *_ancestors(tree.parents, at)]
    line = line[: line.index(body)] if body in line else line
    named = [j for j in [*line, *below] if "Head" in tree.names[j].parts]
    if not forks and not named:
        return [chain[-1]]
    head = named[0] if named else at
    tips = [j for j in _below(tree, head) if not tree.children[j] and not _is_sided(tree, j, head)]
    if not tips:
        return [head]
    away = [float(np.linalg.norm(tree.heads[j] - tree.heads[head])) for j in tips]
    far = tips[int(np.argmax(np.round(np.array(away) / size, 2)))]
    return [head, far] if max(away) > 0.04 * size else [head]


def _mirrored(tree: _Tree, c: int, group: Sequence[int]) -> bool:
    chain = _chain_of(tree, c)
    for other in group:
        if other == c or abs(tree.length[c] + tree.reach[c] - tree.length[other] - tree.reach[other]) > 0.1 * (
            tree.length[c] + tree.reach[c]
        ):
            continue
        if _unlike(tree, chain, _chain_of(tree, other)) < 0.05 or (not tree.children[c] and not tree.children[other]):
            apart = np.linalg.norm(tree.heads[chain[-1]] - tree.heads[_chain_of(tree, other)[-1]])
            if apart > 0.1 * (tree.length[c] + tree.reach[c]):
                return True
    return False


def _chain_of(tree: _Tree, start: int) -> tuple[int, ...]:
    """The line of a limb to its tip: at every fork into the child that goes farthest and straightest on."""
    out = [start]
    while True:
        kids = [c for c in tree.children[out[-1]] if tree.real[c]]
        if not kids:
            return tuple(out)
        above = tree.parents[out[-1]]
        onward = tree.heads[out[-1]] - tree.heads[above] if above >= 0 else np.zeros(3)

        def worth(c: int) -> float:
            step = tree.heads[c] - tree.heads[out[-1]]
            straight = float(step @ onward) / max(float(np.linalg.norm(step) * np.linalg.norm(onward)), 1e-12)
            return float(tree.length[c] + tree.reach[c]) * (1.2 + straight)

        out.append(max(kids, key=worth))


def _end_of_limb(tree: _Tree, start: int, ground: float, size: float) -> int:
    chain = _chain_of(tree, start)
    low = [j for j in chain[-2:] if tree.heads[j, 2] - ground < 0.06 * size]
    return low[0] if low else chain[-1]  # what stands is the bone that carries the last toe


def _moves(tree: _Tree, body: int, j: int, size: float) -> bool:
    """Whether the bone ever moves against the body; unknown counts as moving."""
    if len(tree.poses) < 3:
        return True
    away = np.linalg.norm(tree.poses[1:, j] - tree.poses[1:, body], axis=1)
    turns = [k for k in [j, *_ancestors(tree.parents, j)] if tree.turning is not None and tree.turning[k] > _STILL]
    return bool(np.ptp(away) > 1e-4 * size) or bool(turns)


def _is_sided(tree: _Tree, j: int, body: int) -> bool:
    line = [j, *_ancestors(tree.parents, j)]
    for k in line[: line.index(body)] if body in line else line:
        if tree.parents[k] >= 0 and _mirrored(tree, k, tree.children[tree.parents[k]]):
            return True
    return False
