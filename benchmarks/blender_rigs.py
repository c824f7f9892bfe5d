# SPDX-License-Identifier: GPL-3.0-or-later
"""The characters of :mod:`benchmarks.rigs` as armatures in Blender, as the importers of their families leave them.

Bones lie as the family's do (along Y, along X, all with the world's axes, rolled anyhow), objects are scaled and turned as FBX files
come in, and arms hang as far as the family's rest pose has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neural_network.core.reference_rig import rest_orientation
from neural_network.core.rotations import matrix_from_axis_angle

from . import rigs

AXES = {
    "unreal": "x",
    "3ds max": "x",
    "source": "x",
    "vroid": "world",
    "unity": "world",
    "smpl": "world",
    "kinect": "world",
    "daz": "rolled",
    "auto-rig": "rolled",
    "reallusion": "x",
}
"""Beginning of a family's name -> how its bones lie: along X, with the world's axes, or along Y and rolled anyhow."""
PLACED = {"mixamo": (0.01, True), "unreal": (0.01, False), "reallusion": (0.01, True), "human ik": (0.01, True)}
"""-> the scale of the object, and whether it is turned up by 90 degrees, as FBX files of these families come in."""
LOWERED = {"unreal": 45.0, "daz": 20.0, "mpfb": 40.0, "rigify metarig": 40.0, "reallusion": 45.0, "makehuman": 40.0}
"""-> by how many degrees the arms hang at rest."""


def _of(table: dict[str, Any], family: str, otherwise: Any) -> Any:
    return next((value for start, value in table.items() if family.startswith(start)), otherwise)


def build(family: str, rig: rigs.FamilyRig) -> Any:
    """The armature object of a family in the scene, active, with the update done."""
    import bpy
    from mathutils import Matrix

    scale, turned = _of(PLACED, family, (1.0, False))
    lowered = _of(LOWERED, family, 0.0)
    rig = rigs.a_pose(rig, lowered) if lowered else rig
    to_object = Matrix.Rotation(-np.pi / 2, 4, "X") if turned else Matrix.Identity(4)
    data = bpy.data.armatures.new(family)
    ob = bpy.data.objects.new(family, data)
    bpy.context.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    ob.select_set(True)
    bpy.ops.object.mode_set(mode="EDIT")
    heads = (rig.heads @ np.array(to_object.to_3x3()).T) / scale
    rng = np.random.default_rng(7)
    axes = _of(AXES, family, "y")
    for j, name in enumerate(rig.names):
        below = np.flatnonzero(rig.parents == j)
        above = heads[j] - heads[rig.parents[j]] if rig.parents[j] >= 0 else np.array([0, 0.1, 0.1]) / scale
        along = heads[below[-1]] - heads[j] if len(below) else 0.5 * above
        if name in rig.roles["Head"] and not len(below):
            along = np.array(to_object.to_3x3()) @ np.array([0, 0, 0.19]) / scale
        if np.linalg.norm(along) < 1e-4 / scale:
            along = np.array([0, 0, 0.05]) / scale
        length = max(float(np.linalg.norm(along)), 0.02 / scale)
        turn = rest_orientation(along)
        if axes == "x":
            turn = turn[:, [1, 2, 0]]  # X along the bone
        elif axes == "world":
            turn = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
        elif axes == "rolled":
            turn = turn @ matrix_from_axis_angle(np.array([0, rng.uniform(-3, 3), 0]))
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = heads[j], heads[j] + turn[:, 1] * length
        bone.align_roll(turn[:, 2])
        if rig.parents[j] >= 0:
            bone.parent = data.edit_bones[rig.names[rig.parents[j]]]
    bpy.ops.object.mode_set(mode="OBJECT")
    ob.scale = (scale,) * 3
    if turned:
        ob.rotation_euler.x = np.pi / 2
    for pb in ob.pose.bones:
        pb.rotation_mode = "QUATERNION"
    bpy.context.view_layer.update()
    return ob


def generated_rigify() -> Any | None:
    """Rigify's generated human, active; None where this Blender has no Rigify."""
    import addon_utils
    import bpy

    if addon_utils.enable("rigify", default_set=True) is None:
        return None
    before = set(bpy.data.objects)
    bpy.ops.object.armature_human_metarig_add()
    metarig = bpy.context.active_object
    bpy.ops.pose.rigify_generate()
    bpy.data.objects.remove(metarig)
    ob = next(o for o in bpy.data.objects if o.type == "ARMATURE" and o not in before)
    bpy.context.view_layer.objects.active = ob
    ob.select_set(True)
    bpy.context.view_layer.update()
    return ob


LIMBS = [
    (side + a, side + b)
    for side in ("Left", "Right")
    for a, b in (("Arm", "ForeArm"), ("ForeArm", "Hand"), ("Thigh", "Shin"), ("Shin", "Foot"))
]


def limb_directions(heads: np.ndarray, bones: dict[str, int]) -> np.ndarray:
    """(F, limbs, 3) unit directions of arms and legs from heads (F, J, 3); NaN where a role is missing."""
    out = np.full((len(heads), len(LIMBS), 3), np.nan)
    for k, (a, b) in enumerate(LIMBS):
        if a in bones and b in bones:
            way = heads[:, bones[b]] - heads[:, bones[a]]
            out[:, k] = way / np.linalg.norm(way, axis=1, keepdims=True)
    return out


def controlled(kind: str) -> Any:
    """A control rig with switches between IK and FK, named as those of ``kind`` (mixamo or arp), active, with its limbs on IK.

    The bones that deform copy an IK chain or the FK controls, whichever a property on the control of hand or foot says, through
    drivers. In the second kind collar bones and neck hang on a deforming bone of the spine, which copies its control.
    """
    import bpy

    family = "mixamo" if kind == "mixamo" else "auto-rig pro"
    rig = rigs.all_rigs()[family]
    ob = build(kind, rig)
    roles = {str(names[0]): role for role, names in rig.roles.items() if names[0] is not None}
    sides = ("Left", "Right") if kind == "mixamo" else ("l", "r")
    words = _MIXAMO if kind == "mixamo" else _ARP

    def control(role: str) -> str:
        side = next((s for s in ("Left", "Right") if role.startswith(s)), "")
        return words[role.removeprefix(side)].format(sides[side == "Right"]) if side else words[role]

    bpy.ops.object.mode_set(mode="EDIT")
    bones = ob.data.edit_bones
    made: dict[str, str] = {}
    for bone in list(bones):
        role = roles.get(bone.name)
        if role is None:
            continue
        for word in ("", "IK "):
            if word and not role.endswith(("Arm", "ForeArm", "Hand", "Thigh", "Shin", "Foot")):
                continue
            new = bones.new(word + control(role))
            new.head, new.tail, new.roll, new.use_deform = bone.head, bone.tail, bone.roll, False
            above = bone.parent
            while above is not None and above.name not in roles:
                above = above.parent
            if above is not None:
                hangs = kind == "arp" and role.endswith(("Shoulder", "NeckLower"))
                named = above.name if hangs else control(roles[above.name])
                inside = word and word + control(roles[above.name]) in bones
                new.parent = bones[word + named if inside else named]
            made[bone.name] = control(role)
    switches = []
    for side in sides:
        for end in ("Hand", "Foot"):
            new = bones.new(words["IK" + end].format(side))
            of = bones["IK " + control(("Left", "Right")[sides.index(side)] + end)]
            new.head, new.tail, new.roll, new.use_deform = of.head, of.tail, of.roll, False
            switches.append((new.name, of.name))
    bpy.ops.object.mode_set(mode="OBJECT")
    for switch, end in switches:
        ob.pose.bones[switch]["ik_fk_switch"] = 0.0
        chain = ob.pose.bones[end].parent
        reach = chain.constraints.new("IK")
        reach.target, reach.subtarget, reach.chain_count = ob, switch, 2
        turn = ob.pose.bones[end].constraints.new("COPY_ROTATION")
        turn.target, turn.subtarget = ob, switch
    for bone, fk_control in made.items():
        pb = ob.pose.bones[bone]
        copy = pb.constraints.new("COPY_TRANSFORMS")
        copy.target, copy.subtarget = ob, fk_control
        if "IK " + fk_control in ob.pose.bones:
            copy = pb.constraints.new("COPY_TRANSFORMS")
            copy.target, copy.subtarget = ob, "IK " + fk_control
            leg = roles[bone].endswith(("Thigh", "Shin", "Foot"))
            left = roles[bone].startswith("Left")
            holder = words["IKFoot" if leg else "IKHand"].format(sides[0 if left else 1])
            driver = copy.driver_add("influence").driver
            driver.type = "SUM"
            variable = driver.variables.new()
            variable.targets[0].id = ob
            variable.targets[0].data_path = f'pose.bones["{holder}"]["ik_fk_switch"]'
            curve = copy.id_data.animation_data.drivers[-1]
            for modifier in list(curve.modifiers):
                curve.modifiers.remove(modifier)
            turned = curve.modifiers.new("GENERATOR")
            turned.coefficients = (1.0, -1.0)
    for pb in ob.pose.bones:
        pb.rotation_mode = "QUATERNION"
    bpy.context.view_layer.update()
    return ob


_MIXAMO = {
    "Hips": "Ctrl_Hips",
    "Spine": "Ctrl_Spine",
    "Spine1": "Ctrl_Spine1",
    "Spine2": "Ctrl_Spine2",
    "NeckLower": "Ctrl_Neck",
    "Head": "Ctrl_Head",
    "Shoulder": "Ctrl_Shoulder_{}",
    "Arm": "Ctrl_Arm_FK_{}",
    "ForeArm": "Ctrl_ForeArm_FK_{}",
    "Hand": "Ctrl_Hand_FK_{}",
    "Thigh": "Ctrl_UpLeg_FK_{}",
    "Shin": "Ctrl_Leg_FK_{}",
    "Foot": "Ctrl_Foot_FK_{}",
    "ToeBase": "Ctrl_Toe_FK_{}",
    "IKHand": "Ctrl_Hand_IK_{}",
    "IKFoot": "Ctrl_Foot_IK_{}",
}
_ARP = {
    "Hips": "c_root_master.x",
    "Spine": "c_spine_01.x",
    "Spine1": "c_spine_02.x",
    "Spine2": "c_spine_03.x",
    "NeckLower": "c_neck.x",
    "Head": "c_head.x",
    "Shoulder": "c_shoulder.{}",
    "Arm": "c_arm_fk.{}",
    "ForeArm": "c_forearm_fk.{}",
    "Hand": "c_hand_fk.{}",
    "Thigh": "c_thigh_fk.{}",
    "Shin": "c_leg_fk.{}",
    "Foot": "c_foot_fk.{}",
    "ToeBase": "c_toes_fk.{}",
    "IKHand": "c_hand_ik.{}",
    "IKFoot": "c_foot_ik.{}",
}
