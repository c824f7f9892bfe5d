# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bone's name tells: a side, a part of the body, or why the bone has no role.

Known conventions: Mixamo, Rigify, VRM/VRoid, Unreal, Unity, MakeHuman/MPFB, Daz, 3ds Max Biped, Reallusion, Auto-Rig
Pro, CMU in all its variants, Rokoko, Xsens, Second Life, SMPL, Source, MMD, and words of a few languages. A name is evidence,
never proof: "shoulder" is a collar bone in one rig and an upper arm in another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class BoneNameInfo:
    """What one bone name tells."""

    side: str
    """"Left", "Right" or empty."""
    parts: dict[str, float]
    """Part -> 0 to 1. A part is a role without its side; "Trunk" and "Neck" stand for any bone of that chain."""
    excluded: str
    """Why a bone with this name has no role; empty if it may have one."""


def _table(text: str) -> dict[str, str]:
    """Lines of "meaning: word word ..." to word -> meaning."""
    lines = (line.split(":") for line in text.strip().splitlines())
    return {word: meaning.strip() for meaning, words in lines for word in words.split()}


_SIDES = _table("""
    Left: left l lft lt lf izq izquierda gauche links 左
    Right: right r rgt rt der derecha droite droit rechts 右
""")
# The longest word found in a name wins.
_PARTS = {
    word: {part: float(weight) for part, weight in (pair.split("=") for pair in meaning.split())}
    for word, meaning in _table("""
    Hips=1 Thigh=0.7: hips hip pelvis hüfte cadera 下半身
    Hips=0.3: root bip cog センター
    Trunk=1: spine chest abdomen torso thorax upperchest upperback lowerback
    Trunk=0.8: back ribcage waist belly 上半身 wirbel columna
    Neck=1: neck necktwist hals cuello cou 首
    Head=1: head skull kopf cabeza tête tete testa 頭
    Shoulder=1: clavicle collar collarbone scapula clav schlüsselbein
    Shoulder=0.8 Arm=0.6: shoulder schulter hombro 肩
    Arm=0.9 Shoulder=0.5: shldr
    Arm=1: upperarm uparm humerus armupper bicep oberarm
    Arm=0.8 ForeArm=0.2: arm brazo bras 腕
    ForeArm=1: forearm lowerarm loarm lowarm radius armlower fore unterarm
    ForeArm=0.9: elbow ひじ 肘 codo
    Hand=1.2: wrist 手首
    Hand=1: hand mano main
    Hand=0.6: palm
    Thigh=1: thigh upleg upperleg femur legupper oberschenkel muslo
    Shin=0.7 Thigh=0.5: leg bein pierna 足
    Shin=1: shin calf lowerleg loleg lowleg tibia leglower unterschenkel
    Shin=0.9: knee ひざ knie rodilla
    Foot=1 ToeBase=0.3: foot fuss pie pied
    Foot=1: ankle 足首 tobillo
    ToeBase=1: toe toes toebase ball つま先
""").items()
}
_PARTS_BY_LENGTH = [
    (n, [word for word in _PARTS if len(word) == n]) for n in sorted({len(word) for word in _PARTS}, reverse=True)
]
_EXCLUDED = _table("""
    a finger: finger thumb index middle ring pinky pinkie little metacarpal carpal mid digit 指
    a face bone: eye jaw tongue lip brow cheek nose ear teeth lid mouth face chin temple forehead hair beard facial bang
    a soft-body bone: breast bust boob pec pectoral buttock glute genital nipple
    clothing: skirt cape cloth sleeve belt strap ribbon coat hood
    a prop: weapon prop slot handslot holder attach socket item sword shield
    a tail or wing: tail wing feather fin horn antenna
    a control bone: ik fk pole target ctrl control goal mch effector tweak vis
    the tip of a bone: end leaf tip nub site
    a twist or helper bone: twist roll share sharebone bendy metatarsal metatarsals volume
    a helper bone: hipjoint helper dummy adj corrective rigmesh mesh heel bank connector jiggle physics sec ribstwist pivot
""")
_HIDING = ("a helper bone", "the tip of a bone")
_ANIMAL = frozenset(
    ["tail", "wing", "paw", "hoof", "fin", "beak", "claw", "hind", "front", "rear", "feather", "antenna"]
)
_MIN_INSIDE = (
    5  # letters of a word that excludes inside a longer word: "handslot" does, the "ear" of "forearm" does not
)
_EXCLUDED_INSIDE = [word for word in _EXCLUDED if len(word) >= _MIN_INSIDE]


def read_names(names: Sequence[str]) -> list[BoneNameInfo]:
    """What each name tells; words that most of the names share (a rig's prefix) are ignored."""
    split = [_tokens(re.split(r"[:|]", n)[-1]) for n in names]
    count = Counter(word for words in split for word in set(words))
    plain = [words for words in split if not any(word in _EXCLUDED for word in words)]
    plain = plain if len(plain) >= 8 else split  # forty fingers such as LeftHandIndex1 do not make "hand" a prefix
    often = Counter(word for words in plain for word in set(words))
    shared = {w for w, n in often.items() if len(names) >= 8 and n > 0.6 * len(plain) and w not in _SIDES}
    return [_read(name, words, shared, count) for name, words in zip(names, split, strict=True)]


def unhidden(info: Sequence[BoneNameInfo], names: Sequence[str], inner: Sequence[bool]) -> list[BoneNameInfo]:
    """``info`` in which words such as dummy, helper or end do not hide the only bone of its part of the body.

    A bone called neckDummy is the neck if it has children (mask ``inner`` (J)) and nothing else is called a neck; beside
    another neck it is a helper, as its name says.
    """
    shown = {(one.side, part) for one in info if not one.excluded for part in one.parts}
    out = list(info)
    for j, (one, name) in enumerate(zip(info, names, strict=True)):
        if not inner[j] or one.excluded not in _HIDING:
            continue
        words = [word for word in _tokens(re.split(r"[:|]", name)[-1]) if _EXCLUDED.get(word) not in _HIDING]
        plain = _read(name, words, set(), Counter(words)) if words else one
        parts = {part: weight for part, weight in plain.parts.items() if (plain.side, part) not in shown}
        if parts and not plain.excluded and len(parts) == len(plain.parts):
            out[j] = BoneNameInfo(plain.side, parts, "")
    return out


def has_animal_words(names: Sequence[str]) -> bool:
    """Whether a name mentions a body part that only animals have."""
    return any(word in _ANIMAL for name in names for word in _tokens(name))


def words_of(name: str) -> list[str]:
    """The words and numbers of a bone's name, in small letters, without a prefix that ends in a colon."""
    return _tokens(re.split(r"[:|]", name)[-1])


def _tokens(name: str) -> list[str]:
    words = re.findall(r"[A-Z]+(?![a-zà-ÿ])|[A-Z]?[a-zà-ÿ]+|\d+|[左右]|[^\W\d_A-Za-zà-ÿ左右]+", name)
    return [w.lower() for w in words]


def _read(name: str, tokens: list[str], shared: set[str], count: Counter[str]) -> BoneNameInfo:
    words = [t for t in tokens if t not in shared] or tokens
    if " ".join(tokens) in ("bip", "bip 01", "bip 001"):
        words = ["bip"]
    elif words[0:1] == ["bip"] and len(words) > 1:  # VRoid's J_Bip_L_Hand
        words = words[1:]
    if re.fullmatch(r"[lt]\d{1,2}", "".join(words)):  # Xsens names vertebrae: L5, L3, T12, T8
        return BoneNameInfo("", {"Trunk": 1.0}, "")
    if re.fullmatch(r"mSpine[1-4]", name):
        return BoneNameInfo("", {}, "a folded helper bone of Second Life's Bento skeleton")
    sides = {_SIDES[t] for t in words if t in _SIDES}
    rest = [t for t in words if t not in _SIDES and not t.isdigit()]
    if not sides and rest and rest[0][0] in "lr" and len(rest[0]) > 3:
        twin = "rl"["lr".index(rest[0][0])] + rest[0][1:]
        if twin in count:  # lfemur, if there is an rfemur
            sides = {"Left" if rest[0][0] == "l" else "Right"}
            rest = [rest[0][1:], *rest[1:]]
    joined = "".join(rest)
    side = sides.pop() if len(sides) == 1 else ""
    excluded = (
        "a connector" if name.startswith("__") else _exclusion(tuple(rest), joined, any(t.isdigit() for t in words))
    )
    if side and "pelvis" in joined:
        excluded = "a hip helper"
    parts = {} if excluded else dict(_part_of(joined))
    if side:
        parts.pop("Hips", None)
    elif "Hips" in parts:
        parts = {"Hips": parts["Hips"]}
    return BoneNameInfo(side, parts, excluded)


@lru_cache(4096)
def _part_of(joined: str) -> Mapping[str, float]:
    """The meaning of the longest known word in a name, the last of several; short Latin words count only at its ends."""

    def holds(word: str) -> bool:
        return (
            word in joined if len(word) > 3 or not word.isascii() else joined.startswith(word) or joined.endswith(word)
        )

    for _, words in _PARTS_BY_LENGTH:
        found = [word for word in words if holds(word)]
        if found:
            return _PARTS[max(found, key=joined.rfind)]
    return {}


@lru_cache(4096)
def _exclusion(words: tuple[str, ...], joined: str, numbered: bool) -> str:
    found = [w for w in words if w in _EXCLUDED] or [w for w in _EXCLUDED_INSIDE if w in joined]
    if joined.startswith("neck"):  # Reallusion calls its neck bones NeckTwist
        found = [w for w in found if "twist" not in w]
    if any(w in joined for w in ("spine", "neck", "leg", "foot", "toe")):  # SpineMid, LegDigit
        found = [w for w in found if _EXCLUDED[w] != "a finger"]
    if "palm" in words and numbered:  # Rigify's palm.01 belongs to a finger, 3ds Max CAT's ArmPalm is the hand
        return "a finger"
    return _EXCLUDED[found[0]] if found else ""
