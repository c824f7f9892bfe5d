# SPDX-License-Identifier: GPL-3.0-or-later
"""Find which bone has which of the 23 roles of the reference rig, by structure, motion and names.

Structure comes first, because names can be wrong: two pairs of mirrored limbs on a trunk make a body, whatever they are
called. Names decide only what the structure leaves open. Lengths are used rather than positions wherever possible,
because they are the same in every pose, even if the rest pose of a file is meaningless. Directions come from poses: the
rest pose, if it is a pose, and the frames. Left and right are decided by geometry alone if toes, knees or elbows show
where the body faces; names that contradict it are reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..core.files import parse_json, read_text, write_whole
from .bone_names import BoneNameInfo, has_animal_words, read_names, unhidden
from .bone_tree import BoneTree, ancestors, angle_between, descendants, never_turns, read_tree, require_tree
from .limbs import ARM, LEG, NAME_WEIGHT, LimbPair, find_body, main_chain, name_score, ratio_score, unlike_a_person

ROLE_NAMES = (
    *("Hips", "Spine", "Spine1", "Spine2", "NeckLower", "NeckUpper", "Head"),
    *("LeftShoulder", "LeftArm", "LeftForeArm", "LeftHand", "LeftThigh", "LeftShin", "LeftFoot", "LeftToeBase"),
    *("RightShoulder", "RightArm", "RightForeArm", "RightHand", "RightThigh", "RightShin", "RightFoot", "RightToeBase"),
)
_SIGNS = ("toes", "knees", "elbows")
"""What shows where a body faces."""
_CLEAR_VOTE = 0.02  # a bend of one degree decides the side only if no name contradicts it
TRUNK = ("Spine", "Spine1", "Spine2")
NECK = ("NeckLower", "NeckUpper")


@dataclass(frozen=True)
class Roles:
    """The roles of a skeleton's bones."""

    bones: dict[str, int | None]
    """Role -> bone index, None if the rig has no such bone; all 23 roles are keys."""
    confidence: dict[str, float] = field(default_factory=dict)
    """Role -> 0 (a guess) to 1 (structure and name agree), for the roles that have a bone."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Bone name -> why it has no role."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: wrong names, sides that could not be determined."""

    @property
    def humanoid(self) -> bool:
        """Whether hips and two legs were found, which retargeting needs."""
        return all(self.bones.get(r) is not None for r in ("Hips", "LeftThigh", "RightThigh", "LeftShin", "RightShin"))


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
    """Find the roles of a skeleton's bones.

    Args:
        names: (J) bone names; they need not mean anything.
        parents: (J) int, -1 for roots, in any order.
        heads: (J, 3) rest heads in any unit, with any axis up and forward.
        tips: bone index -> (3) position of the bone's end at rest, if known (End Sites, Blender tails of leaves).
        motion: (K, J, 3) heads in some frames of a take; needed if the rest pose is meaningless.
        motion_tips: bone index -> (K, 3) the tips in those frames.
        turning: (J) [rad] how far each bone ever rotates relative to its parent in the take.

    A skeleton that is not human (a creature, a prop, one leg) gives Roles without bones and a note that says why.
    Raises ValueError for arrays of the wrong shape and for parents that form a cycle.
    """
    names, parents, heads = tuple(map(str, names)), np.asarray(parents, int), np.asarray(heads, float)
    count = len(names)
    if parents.shape != (count,) or heads.shape != (count, 3):
        raise ValueError(
            f"roles: expected {count} parents and heads ({count}, 3), got {parents.shape} and {heads.shape}"
        )
    if not np.isfinite(heads).all():
        raise ValueError("roles: rest heads must be finite")
    require_tree(parents)
    empty: dict[str, int | None] = dict.fromkeys(ROLE_NAMES)
    if count == 0:
        return Roles(empty, notes=("a skeleton without bones",))
    has_child = np.isin(np.arange(count), parents)
    info = unhidden(read_names(names), names, has_child.tolist())
    tree = read_tree(names, info, parents, heads, tips or {}, motion, motion_tips or {}, turning)
    found = find_body(tree)
    if found is None:
        return _by_names_alone(names, parents, info)
    legs, arms, upright = found
    bones, notes = _assign(tree, names, legs, arms)
    named = [r for r, j in bones.items() if j is not None and _names_role(info[j], r)]
    human = len(named) >= 0.6 * sum(j is not None for j in bones.values())
    animal = has_animal_words(names)
    if not upright and (not human or animal):
        return Roles(
            empty, skipped={}, notes=("two pairs of limbs, but the trunk is not upright on the legs: a creature",)
        )
    unlike = "" if human and not animal else unlike_a_person(tree, legs, arms)
    if unlike:
        return Roles(empty, notes=(unlike,))
    confidence = {r: _confidence(info[j], r, legs.score + arms.score) for r, j in bones.items() if j is not None}
    skipped = _skipped(tree, names, info, bones)
    return Roles({**empty, **bones}, confidence, skipped, tuple(notes))


def _names_role(info: BoneNameInfo, role: str) -> bool:
    return _part(role) in info.parts


def _part(role: str) -> str:
    for side in ("Left", "Right"):
        if role.startswith(side):
            return role[len(side) :]
    return "Trunk" if role in TRUNK else "Neck" if role in NECK else role


# ---- from limbs to roles --------------------------------------------------------------------------------------------


def _assign(
    tree: BoneTree, names: Sequence[str], legs: LimbPair, arms: LimbPair
) -> tuple[dict[str, int | None], list[str]]:
    notes: list[str] = []
    bones: dict[str, int | None] = {}
    hips = _hips(tree, legs, arms)
    bones["Hips"] = hips
    path = _path(tree, hips, arms.pair.at)
    neck, head = _neck_and_head(tree, legs, arms, path)
    trunk = [j for j in path if not tree.names[j].excluded and j not in neck]
    trunk = _unfolded(tree, hips, trunk, 0.02 * legs.size)
    trunk = [j for i, j in enumerate(trunk) if i + 1 == len(trunk) or tree.length[trunk[i + 1]] > 1e-3 * legs.size]
    bones.update(zip(TRUNK, _at_most_three(trunk), strict=False))
    bones.update(zip(NECK, neck if len(neck) < 3 else [neck[0], neck[-1]], strict=False))
    if head is not None:
        bones["Head"] = head
    leftwards, stands = _leftwards(tree, legs, arms, _SIGNS)
    named = _named_sides(tree, legs, arms)
    for limb, parts in ((arms, ARM), (legs, LEG)):
        vote = _side_vote(tree, leftwards, stands, limb)
        agreed = named[0 if limb is arms else 1]
        against = []
        if agreed * vote < 0:
            single = {sign: _leftwards(tree, legs, arms, (sign,))[0] for sign in _SIGNS}
            against = [sign for sign in _SIGNS if _side_vote(tree, single[sign], stands, limb) * agreed < -_CLEAR_VOTE]
        if len(against) == 1 and against != ["toes"]:
            words = f"the {against[0]} bend as if left and right were swapped; all names of arms and legs agree and were used"
            notes.extend([words] if words not in notes else [])
            vote = 0.0
        left = _which_is_left(tree, names, vote, limb, "arms" if limb is arms else "legs", notes)
        for side, of in (("Left", limb.bones[left]), ("Right", limb.bones[1 - left])):
            bones.update({side + part: of[part] for part in parts if part in of})
    return bones, notes


def _unfolded(tree: BoneTree, hips: int, trunk: list[int], near: float) -> list[int]:
    """The trunk without bones that go up and back down (Second Life has four such bones, folded away)."""
    kept = [hips]
    for j in trunk:
        kept.append(j)
        if len(kept) > 2 and np.linalg.norm(tree.heads[j] - tree.heads[kept[-3]]) < near < tree.length[j]:
            del kept[-2:]
    return kept[1:]


def _at_most_three(trunk: list[int]) -> list[int]:
    """At most three bones of the trunk, from its base; of more, the first, one in the middle and the last."""
    return trunk if len(trunk) <= 3 else [trunk[0], trunk[(len(trunk) - 1) // 2], trunk[-1]]


def _hips(tree: BoneTree, legs: LimbPair, arms: LimbPair) -> int:
    """The bone that carries legs and trunk; the bone above it if that one is named pelvis (old Biped rigs)."""
    above_hip = [legs.pair.at, *ancestors(tree.parents, legs.pair.at)]
    above_chest = [arms.pair.at, *ancestors(tree.parents, arms.pair.at)]
    meet = next(j for j in above_chest if j in above_hip)
    if "Trunk" in tree.names[meet].parts:
        for j in ancestors(tree.parents, meet)[:1]:
            if tree.names[j].parts.get("Hips", 0) >= 1 and tree.real[j]:
                return j
    return meet


def _path(tree: BoneTree, top: int, below: int) -> list[int]:
    """Bones from just below ``top`` to ``below``; empty if ``below`` is not below ``top``."""
    line = [below, *ancestors(tree.parents, below)]
    return line[: line.index(top)][::-1] if top in line else []


def _neck_and_head(tree: BoneTree, legs: LimbPair, arms: LimbPair, path: Sequence[int]) -> tuple[list[int], int | None]:
    limbs = {c[0] for limb in (legs, arms) for c in limb.pair.chains}
    for at in reversed(path):
        starts = [c for c in tree.children[at] if tree.real[c] and c not in limbs and c not in path]
        starts = [c for c in starts if _may_be_neck(tree, c) and not _has_twin(tree, c, starts)]
        if not starts:
            continue

        readings = [_read_neck(tree, legs, arms, start) for start in starts]
        _, chain, best = max(readings, key=lambda reading: reading[0])
        neck = [j for j in chain[:best] if not tree.names[j].excluded]
        named = [j for j in path if "Neck" in tree.names[j].parts and "Trunk" not in tree.names[j].parts]
        if not neck and not named and len(path) > 2 and _above_shoulders(tree, legs, arms, at) > -0.1:
            named = [at]  # 3ds Max's Biped parents the clavicles to the neck
        return named + neck, chain[best]
    return [], None


def _read_neck(tree: BoneTree, legs: LimbPair, arms: LimbPair, start: int) -> tuple[float, list[int], int]:
    """The chain from ``start`` as neck and head: how likely that is, its bones, and the place of the head among them."""
    chain = [c for c in main_chain(tree, start) if tree.real[c]]
    chain = [c for i, c in enumerate(chain) if i == 0 or tree.length[c] > 0.02 * legs.size]
    scores = [_score_head(tree, legs, arms, chain, i) for i in range(len(chain))]
    best = int(np.argmax(scores))
    parts = tree.names[start].parts
    named = 2 * max(parts.get("Neck", 0), parts.get("Head", 0))
    return scores[best] + named, chain, best


def _may_be_neck(tree: BoneTree, start: int) -> bool:
    """Whether a bone may begin the neck: its name does not exclude it, or a head hangs below it."""
    if not tree.names[start].excluded:
        return True
    return any(not tree.names[j].excluded and "Head" in tree.names[j].parts for j in descendants(tree, start))


def _above_shoulders(tree: BoneTree, legs: LimbPair, arms: LimbPair, j: int) -> float:
    """Height of a bone's head above the shoulder joints, along the trunk, in trunk lengths; the median over the poses."""
    poses = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    shoulders, up = _trunk(poses, legs, arms)
    square = np.maximum(np.sum(up * up, axis=1), 1e-24)  # the trunk, from the thighs to the shoulders, squared
    return float(np.median(np.sum((poses[:, j] - shoulders) * up, axis=1) / square))


def _trunk(poses: np.ndarray, legs: LimbPair, arms: LimbPair) -> tuple[np.ndarray, np.ndarray]:
    """The middle of the shoulders (K, 3), and the vector to it from the middle of the thighs (K, 3), which is never zero."""
    shoulders = np.mean([poses[:, b["Arm"]] for b in arms.bones], axis=0)
    up = shoulders - np.mean([poses[:, b["Thigh"]] for b in legs.bones], axis=0)
    return shoulders, np.where(
        np.linalg.norm(up, axis=1, keepdims=True) > 1e-3 * legs.size, up, [0, 0, 0.5 * legs.size]
    )


def _score_head(tree: BoneTree, legs: LimbPair, arms: LimbPair, chain: Sequence[int], i: int) -> float:
    """Score of the i-th bone above the chest as the head: at the height of the base of the skull, long, with a face."""
    j = chain[i]
    height = _above_shoulders(tree, legs, arms, j)
    inner = sum(tree.real[c] for c in tree.children[j])
    near = [c for c in tree.children[j] if tree.length[c] < 0.02 * legs.size]  # a face bone at the same point
    onward = [*tree.children[j], *(k for c in near for k in tree.children[c])]
    following = max((float(np.linalg.norm(tree.heads[c] - tree.heads[j])) for c in onward), default=0.0)
    poses = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    following /= float(np.median(np.linalg.norm(_trunk(poses, legs, arms)[1], axis=1)))
    score = NAME_WEIGHT * 1.5 * name_score(tree.names[j], "Head")
    score += max(-6.0, -0.5 * ((height - 0.31) / 0.14) ** 2)
    score += 0.5 * max(-4.0, ratio_score(following, 0.27, 0.6)) if following > 0 else -0.3
    score -= 0.5 if i == 0 else 0.18 * (i - 1)  # one neck bone is usual
    return score + (1.5 if inner >= 2 else 0.0)


def _has_twin(tree: BoneTree, c: int, group: Iterable[int]) -> bool:
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


def _which_is_left(
    tree: BoneTree, names: Sequence[str], vote: float, limb: LimbPair, what: str, notes: list[str]
) -> int:
    """Index of the left chain: by where toes, knees and elbows point, else by names, else by +X at rest."""
    start = _first_part(limb)
    named = 0.0
    for k, sign in ((0, 1.0), (1, -1.0)):
        for j in limb.bones[k].values():
            named += {"Left": sign, "Right": -sign}.get(tree.names[j].side, 0.0)
    if abs(vote) > (_CLEAR_VOTE if named else 0.004):
        if named and (vote > 0) != (named > 0):
            k = 0 if named > 0 else 1
            example = names[limb.bones[k][start]]
            notes.append(
                f"the names of the {what} have left and right swapped: {example!r} is on the right; geometry was used"
            )
        return 0 if vote > 0 else 1
    if named:
        return 0 if named > 0 else 1
    notes.append(f"neither geometry nor names tell which of the {what} is the left one; the one at larger x was used")
    return 0 if tree.heads[limb.bones[0][start], 0] >= tree.heads[limb.bones[1][start], 0] else 1


def _named_sides(tree: BoneTree, legs: LimbPair, arms: LimbPair) -> tuple[float, float]:
    """For arms and legs 1 if the names say that the first chain is the left one, -1 if the right; zeros unless all agree."""
    sides = []
    for limb in (arms, legs):
        first, second = ({tree.names[j].side for j in chain.values()} - {""} for chain in limb.bones)
        if len(first) != 1 or len(second) != 1 or first == second:
            return 0.0, 0.0
        sides.append(1.0 if first == {"Left"} else -1.0)
    posed = tree.poses[1:] if len(tree.poses) > 4 else tree.poses[:1]
    ways = [
        side * (posed[:, limb.bones[0][_first_part(limb)]] - posed[:, limb.bones[1][_first_part(limb)]])
        for side, limb in zip(sides, (arms, legs), strict=True)
    ]
    return (sides[0], sides[1]) if np.median(np.sum(ways[0] * ways[1], axis=1)) > 0 else (0.0, 0.0)


def _leftwards(tree: BoneTree, legs: LimbPair, arms: LimbPair, signs: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Vector to the left in each pose (K, 3), longer where the pose shows it better, and the mask (K) of standing poses.

    ``signs`` are those of ``_SIGNS`` that count.
    """
    poses = tree.poses
    hips, chest = poses[:, legs.pair.at], poses[:, arms.pair.at]
    feet = np.mean([poses[:, b["Foot"]] for b in legs.bones], axis=0)
    up = (chest - hips) + (hips - feet)
    size = np.linalg.norm(up, axis=1, keepdims=True)
    up = up / np.maximum(size, 1e-12)
    forward = np.zeros_like(up)
    for bones, chain in zip(legs.bones, legs.pair.chains, strict=True):
        end = _toe_point(tree, bones, chain) if "toes" in signs else None
        if end is not None:
            step = poses[:, end] - poses[:, bones["Foot"]]
            step = step - np.sum(step * up, axis=1, keepdims=True) * up
            forward += step / legs.size
        if "knees" in signs:
            forward += 0.3 * _hinge_direction(poses, bones["Thigh"], bones["Shin"], bones["Foot"]) / legs.size
    for bones in arms.bones if "elbows" in signs else ():
        forward -= 0.3 * _hinge_direction(poses, bones["Arm"], bones["ForeArm"], bones["Hand"]) / legs.size
    stands = angle_between(chest - hips, hips - feet) < np.radians(60)
    return np.cross(up, forward), stands


def _first_part(limb: LimbPair) -> str:
    return "Arm" if "Arm" in limb.bones[0] else "Thigh"


def _side_vote(tree: BoneTree, leftwards: np.ndarray, stands: np.ndarray, limb: LimbPair) -> float:
    """Positive if the first chain is on the left; near zero if the poses do not show it."""
    poses = tree.poses
    start = _first_part(limb)
    across = poses[:, limb.bones[0][start]] - poses[:, limb.bones[1][start]]
    across = across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-12)
    votes = np.sum(leftwards * across, axis=1)
    if stands[0] and abs(votes[0]) > 0.05:
        return float(votes[0] + (np.mean(votes[1:]) if len(votes) > 1 else 0.0))
    return float(np.mean(votes[stands])) if stands.any() else (float(np.mean(votes[1:])) if len(votes) > 1 else 0.0)


def _toe_point(tree: BoneTree, bones: Mapping[str, int], chain: Sequence[int]) -> int | None:
    if "ToeBase" in bones:
        return bones["ToeBase"]
    place = chain.index(bones["Foot"])
    return chain[place + 1] if place + 1 < len(chain) else None


def _hinge_direction(poses: np.ndarray, upper: int, middle: int, end: int) -> np.ndarray:
    """Where a hinge points (K, 3): from the line between its ends to the joint, at right angles."""
    a, b = poses[:, upper], poses[:, end]
    line = b - a
    share = np.sum((poses[:, middle] - a) * line, axis=1, keepdims=True) / np.maximum(
        np.sum(line * line, axis=1, keepdims=True), 1e-12
    )
    return np.asarray(poses[:, middle] - a - share * line)


# ---- what is left over ----------------------------------------------------------------------------------------------


def _confidence(info: BoneNameInfo, role: str, score: float) -> float:
    base = 0.6 + 0.2 * float(np.clip((score + 4) / 8, 0, 1))
    if not info.parts:
        return round(base, 2)
    return (
        round(min(1.0, base + 0.2 * info.parts[_part(role)]), 2) if _part(role) in info.parts else round(base - 0.3, 2)
    )


def _skipped(
    tree: BoneTree, names: Sequence[str], info: Sequence[BoneNameInfo], bones: Mapping[str, int | None]
) -> dict[str, str]:
    used = {j for j in bones.values() if j is not None}
    hips = bones.get("Hips")
    above = set(ancestors(tree.parents, hips)) if hips is not None else set()
    out = {}
    for j, name in enumerate(names):
        if j in used:
            continue
        if not tree.real[j]:
            out[name] = "a distant helper, or in another layer of the rig"
        elif info[j].excluded:
            out[name] = info[j].excluded
        elif j in above:
            out[name] = "a bone above the hips"
        elif never_turns(tree, j):
            out[name] = "never rotates"
        elif tree.parents[j] >= 0 and tree.length[j] < 1e-6 * max(tree.reach.max(), 1e-12):
            out[name] = "zero length"
        else:
            out[name] = "not needed for any role"
    return out


def _by_names_alone(names: Sequence[str], parents: np.ndarray, info: Sequence[BoneNameInfo]) -> Roles:
    """Roles by clear names alone, if the structure shows no body (half a rig, loose bones)."""
    bones: dict[str, int | None] = dict.fromkeys(ROLE_NAMES)
    used: set[int] = set()
    for role in ROLE_NAMES:
        side = "Left" if role.startswith("Left") else "Right" if role.startswith("Right") else ""
        part = _part(role)
        options = [
            j for j in range(len(names)) if j not in used and info[j].side == side and info[j].parts.get(part, 0) >= 0.8
        ]
        if not options:
            continue
        best = min(options, key=lambda j: (-info[j].parts[part], len(ancestors(parents, j))))
        bones[role] = best
        used.add(best)
    limbs = [side + part for side in ("Left", "Right") for part in ("Arm", "ForeArm", "Thigh", "Shin")]
    if bones["Hips"] is None or sum(bones[r] is not None for r in limbs) < 6:
        return Roles(
            dict.fromkeys(ROLE_NAMES), notes=("no two pairs of limbs were found: a creature, a prop, or half a body",)
        )
    confidence = {r: 0.4 for r, j in bones.items() if j is not None}
    return Roles(bones, confidence, notes=("the structure shows no body; these roles were found from the names alone",))


# ---- files ----------------------------------------------------------------------------------------------------------


def load_roles(path: str | Path, names: Sequence[str]) -> Roles:
    """Roles from a JSON file (:func:`read_table`) for a skeleton with these bone names (:func:`named_roles`)."""
    return named_roles(read_table(path), names, Path(path).name)


def read_table(path: str | Path) -> dict[str, str]:
    """The bone names that a JSON file gives to roles.

    The file holds ``{"roles": {"Hips": "pelvis", ...}}``, or only the inner table: role -> bone name or null. Raises
    ValueError for any other content and for unknown roles, with a list of those that exist.
    """
    path = Path(path)
    try:
        data = parse_json(read_text(path, "roles"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path.name}: expected a JSON table of roles, but it cannot be read: {error}") from error
    table = data.get("roles", data) if isinstance(data, dict) else None
    if not isinstance(table, dict):
        raise ValueError(
            f'{path.name}: expected {{"roles": {{"Hips": "bone name", ...}}}}, got a {type(data).__name__}'
        )
    for role, name in table.items():
        if role not in ROLE_NAMES:
            raise ValueError(f"{path.name}: there is no role {role!r}; the roles are {', '.join(ROLE_NAMES)}")
        if name is not None and not isinstance(name, str):
            raise ValueError(f"{path.name}: {role}: expected a bone name or null, got {json.dumps(name)}")
    return {role: name for role, name in table.items() if name is not None}


def named_roles(table: Mapping[str, str], names: Sequence[str], source: str = "roles") -> Roles:
    """Roles from a table role -> bone name for a skeleton with these bone names; other roles stay empty.

    Raises ValueError for a bone that the skeleton does not have (with those it has) and for a bone with two roles.
    """
    index = {n: j for j, n in enumerate(names)}
    bones: dict[str, int | None] = dict.fromkeys(ROLE_NAMES)
    for role, name in table.items():
        if name not in index:
            raise ValueError(
                f"{source}: {role} is assigned to {name!r}, but the skeleton has no such bone; it has {', '.join(names[:40])}"
            )
        if index[name] in bones.values():
            raise ValueError(f"{source}: the bone {name!r} is given two roles; a bone can have only one")
        bones[role] = index[name]
    return Roles(bones, {r: 1.0 for r, j in bones.items() if j is not None})


def save_roles(path: str | Path, roles: Roles, names: Sequence[str]) -> None:
    """Write roles as the JSON that ``load_roles`` reads; whole or not at all."""
    table = {r: None if j is None else names[j] for r, j in roles.bones.items()}
    write_whole(path, (json.dumps({"roles": table}, indent=1, ensure_ascii=False) + "\n").encode())


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
