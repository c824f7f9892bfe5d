# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeletons of the families people meet, for tests and benchmarks: true bone names and trees, invented proportions.

A family is a text: one bone a line, indented below its parent, with the place of its head and the role it plays. ``*``
in a name stands for the side and makes two bones of one line. Places are points of one invented body (T-pose, Z up,
facing -Y, left at +X, metres); ``a~b`` is the point halfway, ``a~b~0.3`` the point at that share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neural_network.core.reference_rig import rest_orientation
from neural_network.core.rotations import (
    matrix_from_axis_angle,
    matrix_from_quaternion,
    quaternion_from_matrix,
    rotation_between,
)
from neural_network.core.skeleton import Skeleton, make
from neural_network.motion.clip import Clip
from neural_network.rigs.roles import ROLE_NAMES

PLACES = {
    "floor": (0, 0, 0),
    "hips": (0, 0.01, 0.98),
    "pelvis": (0, 0.01, 0.95),
    "spine": (0, 0.01, 1.07),
    "spine1": (0, 0.02, 1.18),
    "spine2": (0, 0.02, 1.30),
    "neck": (0, 0.01, 1.50),
    "neck1": (0, 0.0, 1.555),
    "head": (0, -0.01, 1.61),
    "crown": (0, -0.01, 1.80),
    "jaw": (0, -0.06, 1.60),
    "eye": (0.03, -0.09, 1.68),
    "brow": (0.03, -0.10, 1.71),
    "breast": (0.09, -0.11, 1.33),
    "collar": (0.03, 0.0, 1.45),
    "arm": (0.17, 0.01, 1.44),
    "elbow": (0.44, 0.015, 1.44),
    "wrist": (0.69, 0.01, 1.44),
    "thumb": (0.72, -0.03, 1.43),
    "thumbtip": (0.78, -0.09, 1.43),
    "index": (0.78, -0.03, 1.44),
    "middle": (0.785, 0.0, 1.44),
    "ring": (0.78, 0.025, 1.44),
    "little": (0.77, 0.045, 1.44),
    "fingertip": (0.87, 0.0, 1.44),
    "thigh": (0.09, 0.01, 0.93),
    "knee": (0.095, 0.0, 0.50),
    "ankle": (0.10, 0.03, 0.09),
    "heel": (0.10, 0.08, 0.0),
    "toe": (0.105, -0.10, 0.02),
    "toetip": (0.11, -0.18, 0.02),
    "kneepole": (0.095, -0.6, 0.50),
    "elbowpole": (0.44, 0.6, 1.44),
    "prop": (0.76, -0.02, 1.40),
    "skirt": (0.14, 0.02, 0.9),
    "skirttip": (0.2, 0.03, 0.6),
    "hair": (0.0, 0.10, 1.75),
    "hairtip": (0.0, 0.16, 1.35),
}


@dataclass(frozen=True)
class Rig:
    """One skeleton with what is true about it."""

    family: str
    names: tuple[str, ...]
    parents: np.ndarray
    heads: np.ndarray
    roles: dict[str, tuple[str | None, ...]]
    """Role -> acceptable bone names, the preferred first."""


def build(family: str, text: str, sides: tuple[str, str]) -> Rig:
    """The rig that a family's text describes; ``sides`` are the words for left and right."""
    names: list[str] = []
    parents: list[int] = []
    heads: list[np.ndarray] = []
    roles: dict[str, list[str]] = {}
    open_bones: list[tuple[int, dict[int, int]]] = []
    for line in text.strip("\n").splitlines():
        depth = len(line) - len(line.lstrip())
        name, place, *role = line.split("|")[0].split() if "|" not in line else [w.strip() for w in line.split("|")]
        open_bones = [(d, made) for d, made in open_bones if d < depth]
        made: dict[int, int] = {}
        for k in (0, 1) if "*" in name else (-1,):
            above = open_bones[-1][1] if open_bones else {}
            parents.append(above.get(k, above.get(-1, -1)))
            made[k] = len(names)
            names.append(name.replace("*", sides[k]) if k >= 0 else name)
            heads.append(_place(place) * ([-1, 1, 1] if k == 1 else [1, 1, 1]))
            for r in role:
                key = r.lstrip("?=")
                key = key if k < 0 else ("Left", "Right")[k] + key
                roles.setdefault(key, []).append(names[-1])
        open_bones.append((depth, made))
    truth = {r: tuple(roles.get(r, [None])) for r in ROLE_NAMES}
    order = _parents_first(parents)
    back = {old: new for new, old in enumerate(order)}
    return Rig(
        family,
        tuple(names[j] for j in order),
        np.array([-1 if parents[j] < 0 else back[parents[j]] for j in order]),
        np.array([heads[j] for j in order]),
        truth,
    )


def _place(text: str) -> np.ndarray:
    words = text.split("~")
    a = np.array(PLACES[words[0]], float)
    if len(words) == 1:
        return a
    return a + (np.array(PLACES[words[1]], float) - a) * (float(words[2]) if len(words) > 2 else 0.5)


def _parents_first(parents: list[int]) -> list[int]:
    depth = [0] * len(parents)
    for j, p in enumerate(parents):
        depth[j] = 0 if p < 0 else depth[p] + 1
    return sorted(range(len(parents)), key=lambda j: depth[j])


def _fingers(indent: int, pattern: str, fingers: str, count: int, first: int = 1) -> str:
    """Lines for five fingers; ``pattern`` holds {finger} and {n}."""
    out = []
    for word, at in zip(fingers.split(), ("thumb", "index", "middle", "ring", "little"), strict=True):
        tip = "thumbtip" if at == "thumb" else "fingertip"
        for n in range(count):
            name = pattern.replace("{finger}", word).replace("{n}", str(n + first))
            out.append(" " * (indent + n) + f"{name} {at}~{tip}~{n / (count + 1):.2f}")
    return "\n".join(out)


def _families() -> dict[str, tuple[str, tuple[str, str]]]:
    out: dict[str, tuple[str, tuple[str, str]]] = {}
    words = ("Left", "Right")
    out["mixamo"] = (
        f"""
mixamorig:Hips hips =Hips
 mixamorig:Spine spine =Spine
  mixamorig:Spine1 spine1 =Spine1
   mixamorig:Spine2 spine2 =Spine2
    mixamorig:Neck neck =NeckLower
     mixamorig:Head head =Head
      mixamorig:HeadTop_End crown
      mixamorig:*Eye eye
    mixamorig:*Shoulder collar =Shoulder
     mixamorig:*Arm arm =Arm
      mixamorig:*ForeArm elbow =ForeArm
       mixamorig:*Hand wrist =Hand
{_fingers(8, "mixamorig:*Hand{finger}{n}", "Thumb Index Middle Ring Pinky", 4)}
 mixamorig:*UpLeg thigh =Thigh
  mixamorig:*Leg knee =Shin
   mixamorig:*Foot ankle =Foot
    mixamorig:*ToeBase toe =ToeBase
     mixamorig:*Toe_End toetip
""",
        words,
    )
    out["mixamo, numbered prefix"] = (out["mixamo"][0].replace("mixamorig:", "mixamorig7:"), words)
    out["mixamo, no prefix"] = (out["mixamo"][0].replace("mixamorig:", ""), words)
    metarig = """
spine hips =Hips
 spine.001 spine =Spine
  spine.002 spine1 =Spine1
   spine.003 spine2 =Spine2
    spine.004 neck =NeckLower
     spine.005 neck1 =NeckUpper
      spine.006 head =Head
       face head
        jaw jaw
        eye.* eye
        brow.T.* brow
    shoulder.* collar =Shoulder
     upper_arm.* arm =Arm
      forearm.* elbow =ForeArm
       hand.* wrist =Hand
        palm.01.* wrist~index~0.4
         f_index.01.* index
          f_index.02.* index~fingertip
        palm.02.* wrist~middle~0.4
         f_middle.01.* middle
          f_middle.02.* middle~fingertip
        thumb.01.* thumb
         thumb.02.* thumb~thumbtip
    breast.* breast
 pelvis.* hips
 thigh.* thigh =Thigh
  shin.* knee =Shin
   foot.* ankle =Foot
    toe.* toe =ToeBase
    heel.02.* heel
"""
    out["rigify metarig"] = (metarig, ("L", "R"))
    out["rigify ORG-"] = ("\n".join(_prefixed(line, "ORG-") for line in metarig.strip("\n").splitlines()), ("L", "R"))
    out["rigify DEF- game export"] = (
        """
root floor
 DEF-spine hips =Hips
  DEF-spine.001 spine =Spine
   DEF-spine.002 spine1 =Spine1
    DEF-spine.003 spine2 =Spine2
     DEF-spine.004 neck =NeckLower
      DEF-spine.005 neck1 =NeckUpper
       DEF-spine.006 head =Head
     DEF-shoulder.* collar =Shoulder
      DEF-upper_arm.* arm =Arm
       DEF-upper_arm.*.001 arm~elbow
        DEF-forearm.* elbow =ForeArm
         DEF-forearm.*.001 elbow~wrist
          DEF-hand.* wrist =Hand
           DEF-f_index.01.* index
           DEF-thumb.01.* thumb
     DEF-breast.* breast
  DEF-pelvis.* hips
  DEF-thigh.* thigh =Thigh
   DEF-thigh.*.001 thigh~knee
    DEF-shin.* knee =Shin
     DEF-shin.*.001 knee~ankle
      DEF-foot.* ankle =Foot
       DEF-toe.* toe =ToeBase
""",
        ("L", "R"),
    )
    out["vroid"] = (
        f"""
Root floor
 J_Bip_C_Hips hips =Hips
  J_Bip_C_Spine spine =Spine
   J_Bip_C_Chest spine1 =Spine1
    J_Bip_C_UpperChest spine2 =Spine2
     J_Bip_C_Neck neck =NeckLower
      J_Bip_C_Head head =Head
       J_Adj_*_FaceEye eye
       J_Sec_Hair1_01 hair
        J_Sec_Hair2_01 hair~hairtip
         J_Sec_Hair3_01 hairtip
     J_Sec_*_Bust1 breast
     J_Bip_*_Shoulder collar =Shoulder
      J_Bip_*_UpperArm arm =Arm
       J_Bip_*_LowerArm elbow =ForeArm
        J_Bip_*_Hand wrist =Hand
{_fingers(9, "J_Bip_*_{finger}{n}", "Thumb Index Middle Ring Little", 3)}
  J_Bip_*_UpperLeg thigh =Thigh
   J_Sec_*_SkirtBack0_01 skirt
    J_Sec_*_SkirtBack1_01 skirttip
   J_Bip_*_LowerLeg knee =Shin
    J_Bip_*_Foot ankle =Foot
     J_Bip_*_ToeBase toe =ToeBase
""",
        ("L", "R"),
    )
    for version, trunk in (("4", 3), ("5", 5)):
        spots = [f"spine~spine2~{i / (trunk - 1):.2f}" for i in range(trunk)]
        lines = "\n".join(" " * (i + 2) + f"spine_0{i + 1} {spot}" for i, spot in enumerate(spots))
        roles = (
            ["=Spine", "=Spine1", "=Spine2"]
            if trunk == 3
            else ["=Spine", "=Spine =Spine1", "=Spine =Spine1 =Spine2", "=Spine1 =Spine2", "=Spine2"]
        )
        lines = "\n".join(line + " " + role for line, role in zip(lines.splitlines(), roles, strict=True))
        d = " " * (trunk + 2)
        neck = (
            f"{d}neck_01 neck =NeckLower\n{d} head head =Head"
            if trunk == 3
            else f"{d}neck_01 neck =NeckLower\n{d} neck_02 neck1 =NeckUpper\n{d}  head head =Head"
        )
        out[f"unreal mannequin {version}"] = (
            f"""
root floor
 pelvis hips =Hips
{lines}
{neck}
{d}clavicle_* collar =Shoulder
{d} upperarm_* arm =Arm
{d}  upperarm_twist_01_* arm~elbow
{d}  lowerarm_* elbow =ForeArm
{d}   lowerarm_twist_01_* elbow~wrist
{d}   hand_* wrist =Hand
{_fingers(trunk + 6, "{finger}_0{n}_*", "thumb index middle ring pinky", 3)}
  thigh_* thigh =Thigh
   thigh_twist_01_* thigh~knee
   calf_* knee =Shin
    calf_twist_01_* knee~ankle
    foot_* ankle =Foot
     ball_* toe =ToeBase
 ik_foot_root floor
  ik_foot_* ankle
 ik_hand_root floor
  ik_hand_gun wrist
   ik_hand_* wrist
""",
            ("l", "r"),
        )
    out["unity humanoid"] = (
        f"""
Hips hips =Hips
 Spine spine =Spine
  Chest spine1 =Spine1
   UpperChest spine2 =Spine2
    Neck neck =NeckLower
     Head head =Head
      *Eye eye
      Jaw jaw
    *Shoulder collar =Shoulder
     *UpperArm arm =Arm
      *LowerArm elbow =ForeArm
       *Hand wrist =Hand
{_fingers(8, "*{finger}{n}", "Thumb Index Middle Ring Little", 3)}
 *UpperLeg thigh =Thigh
  *LowerLeg knee =Shin
   *Foot ankle =Foot
    *Toes toe =ToeBase
""",
        words,
    )
    out["mpfb game engine"] = (
        f"""
Root floor
 pelvis hips =Hips
  spine_01 spine =Spine
   spine_02 spine1 =Spine1
    spine_03 spine2 =Spine2
     neck_01 neck =NeckLower
      head head =Head
     breast_* breast
     clavicle_* collar =Shoulder
      upperarm_* arm =Arm
       lowerarm_* elbow =ForeArm
        hand_* wrist =Hand
{_fingers(9, "{finger}_0{n}_*", "thumb index middle ring pinky", 3)}
  thigh_* thigh =Thigh
   calf_* knee =Shin
    foot_* ankle =Foot
     ball_* toe =ToeBase
""",
        ("l", "r"),
    )
    out["daz genesis 8"] = (
        f"""
hip hips =Hips
 pelvis hips~pelvis
  *ThighBend thigh =Thigh
   *ThighTwist thigh~knee~0.45
    *Shin knee =Shin
     *Foot ankle =Foot
      *Metatarsals ankle~toe~0.3
       *Toe toe =ToeBase
        *SmallToe1 toetip
        *BigToe toetip
      *Heel heel
 abdomenLower spine =Spine
  abdomenUpper spine~spine1 =Spine =Spine1
   chestLower spine1 =Spine1 =Spine2
    chestUpper spine2 =Spine2
     neckLower neck =NeckLower
      neckUpper neck1 =NeckUpper
       head head =Head
        *Eye eye
        upperTeeth jaw
        lowerJaw jaw
     *Collar collar =Shoulder
      *ShldrBend arm =Arm
       *ShldrTwist arm~elbow~0.45
        *ForearmBend elbow =ForeArm
         *ForearmTwist elbow~wrist
          *Hand wrist =Hand
{_fingers(11, "*{finger}{n}", "Thumb Index Mid Ring Pinky", 3)}
     *Pectoral breast
""",
        ("l", "r"),
    )
    out["daz genesis 9"] = (
        f"""
hip hips =Hips
 pelvis hips~pelvis
  *_thigh thigh =Thigh
   *_thightwist1 thigh~knee~0.3
   *_shin knee =Shin
    *_foot ankle =Foot
     *_metatarsals ankle~toe~0.3
      *_toes toe =ToeBase
       *_bigtoe1 toetip
 spine1 spine =Spine
  spine2 spine~spine1 =Spine =Spine1
   spine3 spine1 =Spine1 =Spine2
    spine4 spine2 =Spine2
     neck1 neck =NeckLower
      neck2 neck1 =NeckUpper
       head head =Head
     *_shoulder collar =Shoulder
      *_upperarm arm =Arm
       *_upperarmtwist1 arm~elbow~0.3
       *_forearm elbow =ForeArm
        *_hand wrist =Hand
{_fingers(9, "*_{finger}{n}", "thumb index mid ring pinky", 3)}
""",
        ("l", "r"),
    )
    biped = f"""
Bip01 | hips
 Bip01 Pelvis | hips | =Hips
  Bip01 Spine | spine | =Spine
   Bip01 Spine1 | spine1 | =Spine1
    Bip01 Spine2 | spine2 | =Spine2
     Bip01 Neck | neck | =NeckLower
      Bip01 Head | head | =Head
       Bip01 HeadNub | crown
      Bip01 * Clavicle | collar | =Shoulder
       Bip01 * UpperArm | arm | =Arm
        Bip01 * Forearm | elbow | =ForeArm
         Bip01 * Hand | wrist | =Hand
{_bars(_fingers(10, "Bip01_*_Finger{finger}{n}", "0 1 2 3 4", 2, 0), "Bip01_*_", "Bip01 * ")}
THIGHS
"""
    legs = """
D Bip01 * Thigh | thigh | =Thigh
D  Bip01 * Calf | knee | =Shin
D   Bip01 * Foot | ankle | =Foot
D    Bip01 * Toe0 | toe | =ToeBase
D     Bip01 * Toe0Nub | toetip
""".strip("\n")
    out["3ds max biped"] = (biped.replace("THIGHS", legs.replace("D ", "  ")), ("L", "R"))
    out["3ds max biped, thighs on the spine"] = (
        biped.replace("THIGHS", legs.replace("D ", "   ")).replace("Bip01", "Bip001"),
        ("L", "R"),
    )
    out["reallusion cc"] = (
        f"""
CC_Base_BoneRoot floor
 CC_Base_Hip hips =Hips
  CC_Base_Pelvis hips~pelvis
   CC_Base_*_Thigh thigh =Thigh
    CC_Base_*_ThighTwist01 thigh~knee~0.3
     CC_Base_*_ThighTwist02 thigh~knee~0.6
    CC_Base_*_Calf knee =Shin
     CC_Base_*_KneeShareBone knee
     CC_Base_*_CalfTwist01 knee~ankle~0.3
     CC_Base_*_Foot ankle =Foot
      CC_Base_*_ToeBaseShareBone toe
      CC_Base_*_ToeBase toe =ToeBase
       CC_Base_*_BigToe1 toetip
  CC_Base_Waist spine =Spine
   CC_Base_Spine01 spine1 =Spine1
    CC_Base_Spine02 spine2 =Spine2
     CC_Base_*_RibsTwist spine2
      CC_Base_*_Breast breast
     CC_Base_NeckTwist01 neck =NeckLower
      CC_Base_NeckTwist02 neck1 =NeckUpper
       CC_Base_Head head =Head
        CC_Base_FacialBone head
         CC_Base_JawRoot jaw
         CC_Base_*_Eye eye
     CC_Base_*_Clavicle collar =Shoulder
      CC_Base_*_Upperarm arm =Arm
       CC_Base_*_UpperarmTwist01 arm~elbow~0.3
        CC_Base_*_UpperarmTwist02 arm~elbow~0.6
       CC_Base_*_Forearm elbow =ForeArm
        CC_Base_*_ElbowShareBone elbow
        CC_Base_*_ForearmTwist01 elbow~wrist~0.4
        CC_Base_*_Hand wrist =Hand
{_fingers(9, "CC_Base_*_{finger}{n}", "Thumb Index Mid Ring Pinky", 3)}
""",
        ("L", "R"),
    )
    out["auto-rig pro"] = (
        """
root.x hips =Hips
 spine_01.x spine =Spine
  spine_02.x spine1 =Spine1
   spine_03.x spine2 =Spine2
    neck.x neck =NeckLower
     head.x head =Head
      jawbone.x jaw
      c_eye.* eye
    breast.* breast
    shoulder.* collar =Shoulder
     arm_stretch.* arm =Arm
      arm_twist.* arm~elbow~0.1
      forearm_stretch.* elbow =ForeArm
       forearm_twist.* elbow~wrist~0.7
       hand.* wrist =Hand
        c_index1_base.* wrist~index
         index1.* index
        middle1.* middle
        thumb1.* thumb
 thigh_stretch.* thigh =Thigh
  thigh_twist.* thigh~knee~0.1
  leg_stretch.* knee =Shin
   leg_twist.* knee~ankle~0.7
   foot.* ankle =Foot
    toes_01.* toe =ToeBase
""",
        ("l", "r"),
    )
    out["rokoko"] = (
        f"""
Root floor
 Hips hips =Hips
  Spine1 spine =Spine
   Spine2 spine~spine1 =Spine =Spine1
    Spine3 spine1 =Spine1 =Spine2
     Spine4 spine2 =Spine2
      Neck neck =NeckLower
       Head head =Head
      *Shoulder collar =Shoulder
       *Arm arm =Arm
        *ForeArm elbow =ForeArm
         *Hand wrist =Hand
{_fingers(10, "*Finger{finger}Phalanx{n}", "1 2 3 4 5", 3)}
  *Thigh thigh =Thigh
   *Shin knee =Shin
    *Foot ankle =Foot
     *Toe toe =ToeBase
      *ToeTip toetip
""",
        words,
    )
    out["xsens mvn"] = (
        """
Pelvis hips =Hips
 L5 spine =Spine
  L3 spine~spine1 =Spine =Spine1
   T12 spine1 =Spine1 =Spine2
    T8 spine2 =Spine2
     Neck neck =NeckLower
      Head head =Head
     *Shoulder collar =Shoulder
      *UpperArm arm =Arm
       *ForeArm elbow =ForeArm
        *Hand wrist =Hand
 *UpperLeg thigh =Thigh
  *LowerLeg knee =Shin
   *Foot ankle =Foot
    *Toe toe =ToeBase
""",
        words,
    )
    out["second life bento"] = (
        """
mPelvis hips =Hips
 mSpine1 spine
  mSpine2 hips
   mTorso spine =Spine
    mSpine3 spine2
     mSpine4 spine
      mChest spine2 =Spine1
       mNeck neck =NeckLower
        mHead head =Head
         mSkull crown
         mEye* eye
         mFaceRoot head
          mFaceJaw jaw
       mCollar* collar =Shoulder
        mShoulder* arm =Arm
         mElbow* elbow =ForeArm
          mWrist* wrist =Hand
           mHandMiddle1* middle
           mHandIndex1* index
           mHandThumb1* thumb
       mWingsRoot spine2
        mWing1* breast
 mHip* thigh =Thigh
  mKnee* knee =Shin
   mAnkle* ankle =Foot
    mFoot* toe =ToeBase
     mToe* toetip =ToeBase
 mTail1 hips
 mGroin pelvis
""",
        words,
    )
    out["smpl"] = (
        """
Pelvis hips =Hips
 *_Hip thigh =Thigh
  *_Knee knee =Shin
   *_Ankle ankle =Foot
    *_Foot toe =ToeBase
 Spine1 spine =Spine
  Spine2 spine1 =Spine1
   Spine3 spine2 =Spine2
    Neck neck =NeckLower
     Head head =Head
    *_Collar collar =Shoulder
     *_Shoulder arm =Arm
      *_Elbow elbow =ForeArm
       *_Wrist wrist =Hand
        *_Hand middle
""",
        ("L", "R"),
    )
    out["source engine"] = (
        """
ValveBiped.Bip01_Pelvis hips =Hips
 ValveBiped.Bip01_Spine spine =Spine
  ValveBiped.Bip01_Spine1 spine1 =Spine =Spine1
   ValveBiped.Bip01_Spine2 spine1~spine2 =Spine1 =Spine2
    ValveBiped.Bip01_Spine4 spine2 =Spine2
     ValveBiped.Bip01_Neck1 neck =NeckLower
      ValveBiped.Bip01_Head1 head =Head
     ValveBiped.Bip01_*_Clavicle collar =Shoulder
      ValveBiped.Bip01_*_UpperArm arm =Arm
       ValveBiped.Bip01_*_Forearm elbow =ForeArm
        ValveBiped.Bip01_*_Hand wrist =Hand
         ValveBiped.Bip01_*_Finger0 thumb
         ValveBiped.Bip01_*_Finger1 index
         ValveBiped.Bip01_*_Finger2 middle
         ValveBiped.weapon_bone_* prop
 ValveBiped.Bip01_*_Thigh thigh =Thigh
  ValveBiped.Bip01_*_Calf knee =Shin
   ValveBiped.Bip01_*_Foot ankle =Foot
    ValveBiped.Bip01_*_Toe0 toe =ToeBase
""",
        ("L", "R"),
    )
    out["mmd"] = (
        """
全ての親 floor
 センター hips
  下半身 hips
   *足 thigh =Thigh
    *ひざ knee =Shin
     *足首 ankle =Foot
      *つま先 toe =ToeBase
  上半身 spine =Spine
   上半身2 spine2 =Spine1
    首 neck =NeckLower
     頭 head =Head
    *肩 collar =Shoulder
     *腕 arm =Arm
      *ひじ elbow =ForeArm
       *手首 wrist =Hand
        *人指１ index
        *中指１ middle
        *親指１ thumb
""".replace(" センター hips\n", " センター hips =Hips\n"),
        ("左", "右"),
    )
    out["house rig, invented names"] = (
        """
grund floor
 mitte hips =Hips
  bauch spine =Spine
   brustkorb spine2 =Spine1
    kragen neck =NeckLower
     birne head =Head
      guckloch_* eye
    schwinge_* collar =Shoulder
     oben_* arm =Arm
      unten_* elbow =ForeArm
       greifer_* wrist =Hand
        kralle_* middle
  stelze_* thigh =Thigh
   stab_* knee =Shin
    sohle_* ankle =Foot
     kappe_* toe =ToeBase
  knie_pol_* kneepole
""",
        ("a", "b"),
    )
    out["synty"] = (
        """
Root floor
 Hips hips =Hips
  Spine_01 spine =Spine
   Spine_02 spine1 =Spine1
    Spine_03 spine2 =Spine2
     Neck neck =NeckLower
      Head head =Head
       Eyebrows eye
     Clavicle_* collar =Shoulder
      Shoulder_* arm =Arm
       Elbow_* elbow =ForeArm
        Hand_* wrist =Hand
         Thumb_01_* thumb
         IndexFinger_01_* index
         Finger_01_* middle
  UpperLeg_* thigh =Thigh
   LowerLeg_* knee =Shin
    Ankle_* ankle =Foot
     Ball_* toe =ToeBase
      Toes_* toetip
""",
        ("L", "R"),
    )
    out["advanced skeleton"] = (
        """
Root_M hips =Hips
 Hip_* thigh =Thigh
  Knee_* knee =Shin
   Ankle_* ankle =Foot
    Toes_* toe =ToeBase
     ToesEnd_* toetip
 Spine1_M spine =Spine
  Chest_M spine2 =Spine1
   Neck_M neck =NeckLower
    Head_M head =Head
     Jaw_M jaw
     Eye_* eye
   Scapula_* collar =Shoulder
    Shoulder_* arm =Arm
     Elbow_* elbow =ForeArm
      Wrist_* wrist =Hand
       IndexFinger1_* index
       MiddleFinger1_* middle
       ThumbFinger1_* thumb
""",
        ("L", "R"),
    )
    out["kinect"] = (
        """
SpineBase hips =Hips
 SpineMid spine1 =Spine
  SpineShoulder spine2~neck~0.7 =Spine1
   Neck neck =NeckLower
    Head head =Head
   Shoulder* arm =Arm
    Elbow* elbow =ForeArm
     Wrist* wrist =Hand
      Hand* middle
 Hip* thigh =Thigh
  Knee* knee =Shin
   Ankle* ankle =Foot
    Foot* toe =ToeBase
""",
        words,
    )
    out["optitrack"] = (
        """
Hip hips =Hips
 Ab spine =Spine
  Chest spine1 =Spine1
   Neck neck =NeckLower
    Head head =Head
   *Shoulder collar =Shoulder
    *UArm arm =Arm
     *FArm elbow =ForeArm
      *Hand wrist =Hand
 *Thigh thigh =Thigh
  *Shin knee =Shin
   *Foot ankle =Foot
    *Toe toe =ToeBase
""",
        ("L", "R"),
    )
    out["roblox r15"] = (
        """
HumanoidRootPart hips
 LowerTorso hips =Hips
  UpperTorso spine =Spine
   Head neck1 =Head
   *UpperArm arm =Arm
    *LowerArm elbow =ForeArm
     *Hand wrist =Hand
  *UpperLeg thigh =Thigh
   *LowerLeg knee =Shin
    *Foot ankle =Foot
""",
        words,
    )
    out["human ik"] = (out["mixamo"][0].replace("mixamorig:", "Character1_"), words)
    out["3ds max cat"] = (
        """
CATRigPelvis hips =Hips
 CATRigSpine1 spine =Spine
  CATRigSpine2 spine1 =Spine1
   CATRigRibcage spine2 =Spine2
    CATRigNeck neck =NeckLower
     CATRigHead head =Head
    CATRig*ArmCollarbone collar =Shoulder
     CATRig*Arm1 arm =Arm
      CATRig*Arm2 elbow =ForeArm
       CATRig*ArmPalm wrist =Hand
        CATRig*ArmDigit11 thumb
        CATRig*ArmDigit21 index
        CATRig*ArmDigit31 middle
 CATRig*Leg1 thigh =Thigh
  CATRig*Leg2 knee =Shin
   CATRig*LegAnkle ankle =Foot
    CATRig*LegDigit11 toe =ToeBase
""",
        ("L", "R"),
    )
    out["stylised, few bones"] = (
        """
root floor
 body hips =Hips
  torso spine =Spine
   head neck =Head
   upperarm_* arm =Arm
    lowerarm_* elbow =ForeArm
     hand_* wrist =Hand
      handslot_* prop
  upperleg_* thigh =Thigh
   lowerleg_* knee =Shin
    foot_* ankle =Foot
 kneeIK_* kneepole
 handIK_* wrist
 elbowIK_* elbowpole
""",
        ("l", "r"),
    )
    out["lafan1"] = (
        """
Hips hips =Hips
 *UpLeg thigh =Thigh
  *Leg knee =Shin
   *Foot ankle =Foot
    *Toe toe =ToeBase
 Spine spine =Spine
  Spine1 spine1 =Spine1
   Spine2 spine2 =Spine2
    Neck neck =NeckLower
     Head head =Head
    *Shoulder collar =Shoulder
     *Arm arm =Arm
      *ForeArm elbow =ForeArm
       *Hand wrist =Hand
""",
        words,
    )
    return out


def _prefixed(line: str, prefix: str) -> str:
    bare = line.lstrip()
    return line[: len(line) - len(bare)] + prefix + bare


def _bars(lines: str, old: str, new: str) -> str:
    """The same lines with names that hold spaces, so that bars part the columns."""
    out = []
    for line in lines.splitlines():
        bare = line.lstrip()
        name, place = bare.split()
        out.append(line[: len(line) - len(bare)] + name.replace(old, new) + " | " + place)
    return "\n".join(out)


def all_rigs() -> dict[str, Rig]:
    """Family -> rig, all in T-pose, Z up, facing -Y, metres."""
    return {family: build(family, text, sides) for family, (text, sides) in _families().items()}


def skeleton(rig: Rig) -> Skeleton:
    """The rig as a Blender-like skeleton: bone Y along the bone, effectors and feet by the truth; bones above the hips are left out."""
    index = {n: j for j, n in enumerate(rig.names)}
    hips = index[str(rig.roles["Hips"][0])]
    keep = [j for j in range(len(rig.names)) if hips in _line(rig.parents, j)]
    back = {j: i for i, j in enumerate(keep)}
    roles = {r: index[str(n[0])] for r, n in rig.roles.items() if n[0] is not None}
    rest = np.tile(np.eye(4), (len(keep), 1, 1))
    for i, j in enumerate(keep):
        children = [k for k in range(len(rig.names)) if rig.parents[k] == j]
        playing = [k for k in children if k in roles.values()] or children
        above = rig.heads[j] - rig.heads[rig.parents[j]] if rig.parents[j] >= 0 else np.array([0, 0, 0.1])
        along = np.mean([rig.heads[k] for k in playing], axis=0) - rig.heads[j] if playing else above
        rest[i, :3, :3] = rest_orientation(along)
        rest[i, :3, 3] = rig.heads[j]
    effectors = [rig.names[roles[r]] for r in ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head") if r in roles]
    feet = [rig.names[roles[r]] for r in ("LeftFoot", "RightFoot")]
    parents = np.array([back.get(int(rig.parents[j]), -1) for j in keep])
    return make([rig.names[j] for j in keep], parents, rest, effectors, feet)


def _line(parents: np.ndarray, j: int) -> list[int]:
    out = [j]
    while parents[out[-1]] >= 0:
        out.append(int(parents[out[-1]]))
    return out


def true_bones(rig: Rig) -> dict[str, int]:
    """Role -> index in ``skeleton(rig)``."""
    names = skeleton(rig).names
    return {r: names.index(str(n[0])) for r, n in rig.roles.items() if n[0] is not None}


def proportioned(rig: Rig, legs: float = 1.0, arms: float = 1.0, trunk: float = 1.0, width: float = 1.0) -> Rig:
    """The same rig with other lengths; feet stay on the floor."""
    offsets = np.where(rig.parents[:, None] >= 0, rig.heads - rig.heads[np.maximum(rig.parents, 0)], 0.0)
    index = {n: j for j, n in enumerate(rig.names)}
    roles = {r: index[str(n[0])] for r, n in rig.roles.items() if n[0] is not None}
    heads = rig.heads.copy()
    for j, p in enumerate(rig.parents):
        if p < 0:
            continue
        above = set(_line(rig.parents, int(p)))
        factor = np.array([width, 1.0, trunk])
        if above & {roles["LeftArm"], roles["RightArm"]}:
            factor = np.full(3, arms)
        elif above & {roles["LeftThigh"], roles["RightThigh"]}:
            factor = np.full(3, legs)
        elif roles["Hips"] not in above:
            factor = np.ones(3)
        heads[j] = heads[p] + offsets[j] * factor
    lift = rig.heads[roles["LeftFoot"], 2] * legs - heads[roles["LeftFoot"], 2]
    below = np.array([roles["Hips"] in _line(rig.parents, j) for j in range(len(rig.names))])
    heads[below, 2] += lift
    return replace(rig, heads=heads)


def a_pose(rig: Rig, degrees: float = 45.0) -> Rig:
    """The same rig with its arms lowered at rest."""
    index = {n: j for j, n in enumerate(rig.names)}
    heads = rig.heads.copy()
    for side, sign in (("Left", 1), ("Right", -1)):
        arm = index[str(rig.roles[side + "Arm"][0])]
        turn = matrix_from_axis_angle(np.array([0, sign * np.radians(degrees), 0]))
        for j in range(len(rig.names)):
            if arm in _line(rig.parents, j):
                heads[j] = rig.heads[arm] + turn @ (rig.heads[j] - rig.heads[arm])
    return replace(rig, heads=heads)


def turned(rig: Rig, degrees: float = 0.0, y_up: bool = False, unit: float = 1.0) -> Rig:
    """The same rig facing elsewhere, with Y up, or in another unit (a metre is ``unit`` long)."""
    heads = rig.heads @ matrix_from_axis_angle(np.array([0, 0, np.radians(degrees)])).T
    if y_up:
        heads = heads @ np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]).T
    return replace(rig, heads=heads * unit)


def walk(rig: Rig, frames: int = 48, fps: float = 30.0) -> Clip:
    """A made-up walk of a T-posed rig as a Y-up clip: legs and arms swing, knees and elbows bend, the body moves forward."""
    index = {n: j for j, n in enumerate(rig.names)}
    bone = {r: index[str(n[0])] for r, n in rig.roles.items() if n[0] is not None}
    phase = np.linspace(0, 4 * np.pi, frames, endpoint=False)
    angles = np.zeros((frames, len(rig.names), 3))  # armature axes, relative to the parent
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        swing = sign * np.sin(phase)
        angles[:, bone[side + "Thigh"], 0] = -0.45 * swing
        angles[:, bone[side + "Shin"], 0] = 0.2 + 0.5 * np.maximum(0, sign * np.cos(phase))
        if side + "ToeBase" in bone:
            angles[:, bone[side + "ToeBase"], 0] = -0.2 * np.maximum(0, -swing)
        angles[:, bone[side + "Arm"]] = np.array([0, sign * 1.2, 0]) + np.stack([0.3 * swing, 0 * swing, 0 * swing], 1)
        angles[:, bone[side + "ForeArm"], 2] = -sign * (0.4 + 0.2 * np.cos(phase))
        angles[:, bone[side + "Foot"], 0] = 0.15 * swing
    angles[:, bone["Spine"], 2] = 0.1 * np.sin(phase)
    angles[:, bone["Head"], 2] = -0.1 * np.sin(phase)
    if "NeckLower" in bone:
        angles[:, bone["NeckLower"], 0] = 0.05 * np.cos(phase)
    angles[:, bone["Hips"], 2] = 0.08 * np.sin(phase)
    axes = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # armature to Y up
    local = axes @ matrix_from_axis_angle(angles) @ axes.T
    offsets = np.where(rig.parents[:, None] >= 0, rig.heads - rig.heads[np.maximum(rig.parents, 0)], rig.heads)
    root = rig.heads[rig.parents < 0][:1] + np.stack([0 * phase, -0.1 * phase, 0.01 * np.cos(2 * phase)], 1)
    return Clip(
        "walk",
        rig.names,
        rig.parents,
        offsets @ axes.T,
        {},
        quaternion_from_matrix(local),
        root @ axes.T,
        fps,
        "Y",
        1.0,
    )


def heaped(clip: Clip) -> Clip:
    """The same motion in a file whose rest pose is a heap: every bone points along +X, only the frames show a body."""
    count = len(clip.names)
    turn = np.tile(np.eye(3), (count, 1, 1))
    for j in range(count):
        children = np.flatnonzero(clip.parents == j)
        if len(children):
            far = children[np.argmax(np.linalg.norm(clip.offsets[children], axis=1))]
            turn[j] = rotation_between(np.array([1.0, 0, 0]), clip.offsets[far])
    local = matrix_from_quaternion(clip.rotations)
    above = np.where((clip.parents >= 0)[:, None, None], turn[clip.parents], np.eye(3))
    local = np.swapaxes(above, -1, -2) @ local @ turn
    offsets = np.einsum("jba,jb->ja", above, clip.offsets)
    tips = {j: turn[j].T @ tip for j, tip in clip.tips.items()}
    return replace(clip, offsets=offsets, rotations=quaternion_from_matrix(local), tips=tips)
