# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingers: which bones they are, and their motion from one rig to another, whatever their rests, rolls and names.

A finger is called by its side, its name and the number of its bone from the hand on: LeftThumb1, RightLittle3. Every bone of it but the
thumb's is taken to be straight along the hand in the T-pose, as limbs are (:mod:`.t_pose`); the thumb keeps its rest. What it has
turned since, in world axes, is what the other rig's bone turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..core.rotations import rotation_between
from ..motion.clip import Clip
from .bone_names import words_of
from .bone_tree import ancestors
from .foot_placement import planted_frames
from .rig_body import clip_motion, with_tremble
from .roles import Roles
from .t_pose import t_pose_rotations

FINGERS = ("Thumb", "Index", "Middle", "Ring", "Little")
MOST = 3  # bones of a finger
_WORDS = {
    "thumb": "Thumb",
    "index": "Index",
    "pointer": "Index",
    "middle": "Middle",
    "mid": "Middle",
    "ring": "Ring",
    "pinky": "Little",
    "pinkie": "Little",
    "little": "Little",
}
_NO_PHALANX = {
    "metacarpal",
    "carpal",
    "palm",
    "base",
    "end",
    "tip",
    "nub",
    "leaf",
    "ik",
    "pole",
    "master",
    "tweak",
    "twist",
}


def find_fingers(
    names: Sequence[str], parents: np.ndarray, heads: np.ndarray, hands: Mapping[str, int]
) -> dict[str, int]:
    """Finger bone -> its index among ``names`` (J), by name or, where names do not tell, where five chains hang on a hand.

    ``parents`` (J), ``heads`` (J, 3) at rest; ``hands``: side (Left, Right) -> the hand. Empty where there are no fingers.
    """
    out: dict[str, int] = {}
    for side, hand in hands.items():
        below = [j for j in range(len(names)) if hand in ancestors(parents, j)]
        chains = _by_names(names, parents, below) or _by_places(parents, heads, below, hand)
        for finger, bones in chains.items():
            out.update({f"{side}{finger}{n + 1}": j for n, j in enumerate(bones[:MOST])})
    return out


def _by_names(names: Sequence[str], parents: np.ndarray, below: Sequence[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for j in sorted(below, key=lambda j: len(ancestors(parents, j))):
        words = words_of(names[j])
        finger = next((_WORDS[word] for word in words if word in _WORDS), "")
        out = _NO_PHALANX - ({"metacarpal"} if finger == "Thumb" else set())
        if not finger or out & set(words):
            continue
        line = found.setdefault(finger, [])
        if not line or line[-1] in ancestors(parents, j):
            line.append(j)
    return found


def _by_places(parents: np.ndarray, heads: np.ndarray, below: Sequence[int], hand: int) -> dict[str, list[int]]:
    """Five chains of two bones or more: the thumb's begins nearest to the wrist, the others follow it in their order."""
    chains = []
    for start in (j for j in below if parents[j] == hand):
        line = [start]
        while len(children := [j for j in below if parents[j] == line[-1]]) == 1:
            line.append(children[0])
        if len(line) > 1:
            chains.append(line)
    if len(chains) != len(FINGERS):
        return {}
    thumb = min(chains, key=lambda line: float(np.linalg.norm(heads[line[0]] - heads[hand])))
    others = sorted(
        (line for line in chains if line is not thumb),
        key=lambda line: float(np.linalg.norm(heads[line[0]] - heads[thumb[0]])),
    )
    return dict(zip(FINGERS, [thumb, *others], strict=True))


def neutral(
    fingers: Mapping[str, int],
    parents: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
    hands: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Per finger bone, its rotation (3, 3) since rest in the T-pose; ``hands`` are those of the hands by side."""
    out: dict[str, np.ndarray] = {}
    for side, hand in hands.items():
        along = np.array([1.0 if side == "Left" else -1.0, 0, 0])
        for finger in FINGERS:
            above = hand
            for n in range(1, MOST + 1):
                name = f"{side}{finger}{n}"
                if name not in fingers:
                    break
                j = fingers[name]
                following = fingers.get(f"{side}{finger}{n + 1}")
                way = above @ ((tails[j] if following is None else heads[following]) - heads[j])
                straight = finger != "Thumb" and np.linalg.norm(way) > 1e-9 and way @ along > 0
                above = out[name] = rotation_between(way, along) @ above if straight else above
    return out


def finger_turns(clip: Clip, roles: Roles) -> dict[str, np.ndarray]:
    """What each finger bone of a clip has turned since its T-pose, in world axes: name -> (F, 3, 3); empty without fingers."""
    own = {role: j for role, j in roles.bones.items() if j is not None}
    hands = {side: own[side + "Hand"] for side in ("Left", "Right") if side + "Hand" in own}
    body, motion = clip_motion(clip, roles)
    found = find_fingers(clip.names, body.parents, body.heads, hands)
    if not found or not {"Hips", "LeftThigh", "RightThigh", "LeftShin", "RightShin"} <= own.keys():
        return {}
    motion = with_tremble(body, motion)
    t_pose = t_pose_rotations(body, motion, planted_frames(body, motion))
    rest = neutral(found, body.parents, body.heads, body.tails, {side: t_pose[side + "Hand"] for side in hands})
    return {name: motion.turned[:, j] @ rest[name].T for name, j in found.items()}


def on_rig(
    turns: Mapping[str, np.ndarray],
    fingers: Mapping[str, int],
    parents: np.ndarray,
    rest: np.ndarray,
    tails: np.ndarray,
    hands: Mapping[str, int],
    hand_t_pose: Mapping[str, np.ndarray],
    hand_turned: Mapping[str, np.ndarray],
) -> dict[int, np.ndarray]:
    """Finger motion on a rig: bone -> (F, 3, 3) rotation in its own rest axes, relative to its parent's.

    Args:
        turns: from :func:`finger_turns`.
        fingers: the rig's, from :func:`find_fingers`.
        parents: (J) of all its bones.
        rest: (J, 4, 4) their rest matrices, T-posed body facing -Y, Z up.
        tails: (J, 3) their rest tails.
        hands: side -> the hand.
        hand_t_pose: side -> (3, 3) the hand's rotation since rest in the T-pose.
        hand_turned: side -> (F, 3, 3) its rotation since rest in the motion.
    """
    heads = rest[:, :3, 3]
    neutrals = neutral(fingers, parents, heads, tails, hand_t_pose)
    turned: dict[int, np.ndarray] = {hands[side]: value for side, value in hand_turned.items()}
    out: dict[int, np.ndarray] = {}
    for name, j in sorted(fingers.items(), key=lambda item: len(ancestors(parents, item[1]))):
        line = [a for a in ancestors(parents, j) if a in turned]
        if name not in turns or not line:
            continue
        turned[j] = turns[name] @ neutrals[name]
        axes = rest[j, :3, :3]
        out[j] = axes.T @ (np.swapaxes(turned[line[0]], -1, -2) @ turned[j]) @ axes
    return out
