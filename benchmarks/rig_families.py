# SPDX-License-Identifier: GPL-3.0-or-later
"""The skeletons of ``rigs``, as texts: one bone a line, with its place and its role.

The format is that of :func:`benchmarks.rigs.build`. Names and trees are those of the real rigs.
"""

from __future__ import annotations

Families = dict[str, tuple[str, tuple[str, str]]]
"""Family -> its text, and the words for left and right."""

WORDS = ("Left", "Right")


def families() -> Families:
    """All families."""
    return {
        **_mixamo_and_rigify(),
        **_game_characters(),
        **_character_tools(),
        **_capture_and_worlds(),
        **_small_rigs(),
        **_other_software(),
    }


def _mixamo_and_rigify() -> Families:
    """Mixamo and Rigify."""
    out: Families = {}
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
        WORDS,
    )
    out["mixamo, numbered prefix"] = (out["mixamo"][0].replace("mixamorig:", "mixamorig7:"), WORDS)
    out["mixamo, no prefix"] = (out["mixamo"][0].replace("mixamorig:", ""), WORDS)
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
    return out


def _game_characters() -> Families:
    """Characters for games: VRoid, Unreal, Unity, MPFB."""
    out: Families = {}
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
        WORDS,
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
    return out


def _character_tools() -> Families:
    """Character tools: Daz, 3ds Max, Reallusion, Auto-Rig Pro."""
    out: Families = {}
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
    return out


def _capture_and_worlds() -> Families:
    """Motion capture suits, virtual worlds and older engines."""
    out: Families = {}
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
        WORDS,
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
        WORDS,
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
        WORDS,
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
    return out


def _small_rigs() -> Families:
    """Small rigs, and names that exist nowhere else."""
    out: Families = {}
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
        WORDS,
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
        WORDS,
    )
    return out


def _other_software() -> Families:
    """Rigs of other animation software, and of data sets."""
    out: Families = {}
    out["human ik"] = (_mixamo_and_rigify()["mixamo"][0].replace("mixamorig:", "Character1_"), WORDS)
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
    out["makehuman default"] = (
        """
root hips =Hips
 pelvis.* hips~thigh
  upperleg01.* thigh =Thigh
   upperleg02.* thigh~knee
    lowerleg01.* knee =Shin
     lowerleg02.* knee~ankle
      foot.* ankle =Foot
       toe1-1.* toe =ToeBase
        toe1-2.* toetip
       toe2-1.* toe =ToeBase
        toe2-2.* toetip
 spine05 spine =Spine
  spine04 spine~spine1 =Spine1
   spine03 spine1 =Spine1
    spine02 spine1~spine2 =Spine1
     spine01 spine2 =Spine2
      breast.* breast
      clavicle.* collar =Shoulder
       shoulder01.* collar~arm~0.5
        upperarm01.* arm =Arm
         upperarm02.* arm~elbow
          lowerarm01.* elbow =ForeArm
           lowerarm02.* elbow~wrist
            wrist.* wrist =Hand
             finger1-1.* thumb
              finger1-2.* thumb~thumbtip
             metacarpal1.* wrist~index
              finger2-1.* index
               finger2-2.* index~fingertip
             metacarpal2.* wrist~middle
              finger3-1.* middle
      neck01 neck =NeckLower
       neck02 neck1
        neck03 neck1~head =NeckUpper
         head head =Head
          jaw jaw
          eye.* eye
""",
        ("L", "R"),
    )
    out["animal's legs"] = (
        """
hips hips =Hips
 spine spine =Spine
  chest spine2 =Spine1
   neck neck =NeckLower
    head head =Head
   shoulder.* collar =Shoulder
    upper_arm.* arm =Arm
     forearm.* elbow =ForeArm
      hand.* wrist =Hand
 thigh.* thigh =Thigh
  shin.* knee =Shin
   metatarsal.* hock
    foot.* paw =Foot
     toe.* pawtip =ToeBase
""",
        ("L", "R"),
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
        WORDS,
    )
    return out


def _fingers(indent: int, pattern: str, fingers: str, count: int, first: int = 1) -> str:
    """Lines for five fingers; ``pattern`` holds {finger} and {n}."""
    out = []
    for word, at in zip(fingers.split(), ("thumb", "index", "middle", "ring", "little"), strict=True):
        tip = "thumbtip" if at == "thumb" else "fingertip"
        for n in range(count):
            name = pattern.replace("{finger}", word).replace("{n}", str(n + first))
            out.append(" " * (indent + n) + f"{name} {at}~{tip}~{n / (count + 1):.2f}")
    return "\n".join(out)


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
