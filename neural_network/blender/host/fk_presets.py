# SPDX-License-Identifier: GPL-3.0-or-later
"""Control rigs with switches between IK and FK, known by the names of their controls: motion is written to the FK controls.

A preset says which control turns as which role, and which properties switch a limb to FK. Controls that hang on each other, or on bones
without constraints, are written by Blender's rules of inheritance; where bones between them follow constraints, Blender itself evaluates
them, control by control from the hips on (:func:`evaluated_channels`), and what it shows is compared with what was wanted.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix

from ...core import forward_kinematics as fk
from ...core import reference_rig, rotations, tree
from ...core import skeleton as skeletons
from . import rig as rigs
from . import runtime
from .rig import Rig

CLOSE = 2e-3  # [leg lengths] that a control may be from where it was put


@dataclass(frozen=True)
class Preset:
    """How one kind of control rig is controlled; ``{}`` in a name stands for the side."""

    name: str
    sides: tuple[str, str]
    trunk: Mapping[str, str]
    limbs: Mapping[str, str]
    """Role without its side -> control."""
    switches: tuple[str, ...]
    """Bones with the property."""
    switch: str
    fk: float
    """The value of the property at which the limb follows its FK controls."""

    def controls(self) -> dict[str, str]:
        """Role -> control."""
        out = dict(self.trunk)
        for side, word in zip(("Left", "Right"), self.sides, strict=True):
            out.update({side + part: name.format(word) for part, name in self.limbs.items()})
        return out


PRESETS = (
    Preset(
        "Auto-Rig Pro",
        ("l", "r"),
        {
            "Hips": "c_root_master.x",
            "Spine": "c_spine_01.x",
            "Spine1": "c_spine_02.x",
            "Spine2": "c_spine_03.x",
            "NeckLower": "c_neck.x",
            "Head": "c_head.x",
        },
        {
            "Shoulder": "c_shoulder.{}",
            "Arm": "c_arm_fk.{}",
            "ForeArm": "c_forearm_fk.{}",
            "Hand": "c_hand_fk.{}",
            "Thigh": "c_thigh_fk.{}",
            "Shin": "c_leg_fk.{}",
            "Foot": "c_foot_fk.{}",
            "ToeBase": "c_toes_fk.{}",
        },
        ("c_hand_ik.{}", "c_foot_ik.{}"),
        "ik_fk_switch",
        1.0,
    ),
    Preset(
        "Mixamo control rig",
        ("Left", "Right"),
        {
            "Hips": "Ctrl_Hips",
            "Spine": "Ctrl_Spine",
            "Spine1": "Ctrl_Spine1",
            "Spine2": "Ctrl_Spine2",
            "NeckLower": "Ctrl_Neck",
            "Head": "Ctrl_Head",
        },
        {
            "Shoulder": "Ctrl_Shoulder_{}",
            "Arm": "Ctrl_Arm_FK_{}",
            "ForeArm": "Ctrl_ForeArm_FK_{}",
            "Hand": "Ctrl_Hand_FK_{}",
            "Thigh": "Ctrl_UpLeg_FK_{}",
            "Shin": "Ctrl_Leg_FK_{}",
            "Foot": "Ctrl_Foot_FK_{}",
            "ToeBase": "Ctrl_Toe_FK_{}",
        },
        ("Ctrl_Hand_IK_{}", "Ctrl_Foot_IK_{}"),
        "ik_fk_switch",
        1.0,
    ),
)
_NEEDED = ("Arm", "ForeArm", "Hand", "Thigh", "Shin", "Foot")  # limbs by which a rig is known


@dataclass(frozen=True)
class FkRig(Rig):
    """The FK controls of a rig as if they were its skeleton."""

    preset: str = ""
    switches: tuple[tuple[str, str, float], ...] = ()
    """(bone, property, value for FK)."""


def preset_of(ob: bpy.types.Object) -> Preset | None:
    """The preset that an armature was built by; None for any other."""
    bones = {pb.name for pb in ob.pose.bones} if ob.pose is not None else set()
    for preset in PRESETS:
        known = preset.controls()
        needed = ["Hips", *(side + part for side in ("Left", "Right") for part in _NEEDED)]
        if all(known[role] in bones for role in needed):
            return preset
    return None


def read(ob: bpy.types.Object) -> FkRig | None:
    """The FK controls of a control rig; None for a rig of no known kind, or whose roles were chosen by hand.

    Raises ValueError, in words, where its controls are no body, as without size.
    """
    preset = preset_of(ob)
    if preset is None or rigs.given_roles(ob) or ob.mode == "EDIT":
        return None
    turn, unit = rigs.placement(ob)
    own: Any = ob.pose.bones
    names = tuple(pb.name for pb in own)
    place = {name: i for i, name in enumerate(names)}
    whole = reference_rig.reference()
    known = {role: name for role, name in preset.controls().items() if name in place}
    roles = [role for role in whole.names if role in known]
    parents = []
    for role in roles:
        above = [whole.names[a] for a in tree.chain(whole.parents, whole.names.index(role))[1:]]
        parents.append(next((roles.index(r) for r in above if r in roles), -1))
    rest = np.array([pb.bone.matrix_local for pb in own], np.float64)
    index = np.array([place[known[role]] for role in roles])
    rest_m = rest[index].copy()
    rest_m[:, :3, :3] = turn @ rest_m[:, :3, :3]
    rest_m[:, :3, 3] = rest_m[:, :3, 3] @ turn.T * unit
    effectors, feet = ([known[r] for r in ends if r in known] for ends in (reference_rig.EFFECTORS, reference_rig.FEET))
    skeleton = skeletons.make([known[role] for role in roles], np.array(parents), rest_m, effectors, feet)
    switching = [name.format(side) for name in preset.switches for side in preset.sides]
    return FkRig(
        skeleton,
        names,
        rigs.parents_of(ob),
        rest,
        tuple(pb.rotation_mode for pb in own),
        tuple(pb.bone.use_connect for pb in own),
        tuple(rigs._plain(pb.bone) for pb in own),
        index,
        turn,
        unit,
        roles=tuple(roles),
        preset=preset.name,
        switches=tuple((n, preset.switch, preset.fk) for n in switching if n in place and preset.switch in own[n]),
    )


def needs_blender(ob: bpy.types.Object, rig: FkRig) -> bool:
    """Whether a constraint moves a control or a bone above it, or a control does not hang on the one that carries it in the body."""
    own: Any = ob.pose.bones
    for j, above in enumerate(rig.skeleton.parents.tolist()):
        if above >= 0 and int(rig.index[above]) not in tree.chain(rig.parents, int(rig.index[j])):
            return True
    return any(not c.mute and c.influence > 0 for bone in rig.needed for c in own[bone].constraints)


def evaluated_channels(
    ob: bpy.types.Object, rig: FkRig, rot_local: np.ndarray, root_pos: np.ndarray
) -> Generator[int, None, dict[tuple[int, str], np.ndarray]]:
    """As :func:`.runtime.channels`, with bones between that Blender evaluates; yields the number of frames done.

    Pose and switches are put back. Raises ValueError, in words, where a control does not stay where it was put.
    """
    own: Any = ob.pose.bones
    layer: Any = bpy.context.view_layer
    before = runtime.snapshot(ob)
    switched = [(own[name], prop, own[name][prop]) for name, prop, _ in rig.switches]
    index, levels = rig.index.tolist(), rig.skeleton.levels
    turns = np.empty((len(rot_local), len(index), 4))
    places = np.empty((len(rot_local), 3))
    try:
        for name, prop, value in rig.switches:
            own[name][prop] = value
        for bone in rig.needed:
            own[bone].matrix_basis = Matrix()
        ob.update_tag()
        for f, (rot, root) in enumerate(zip(rot_local, root_pos, strict=True)):
            posed = fk.pose_matrices(rig.skeleton, rotations.matrix_from_axis_angle(rot.astype(np.float64)), root)
            posed[:, :3, :3] = rig.turn.T @ posed[:, :3, :3]
            posed[:, :3, 3] = posed[:, :3, 3] @ rig.turn / rig.unit
            for bones in [[0], *(level.tolist() for level, _ in levels)]:
                layer.update()
                for j in bones:
                    pb = own[index[j]]
                    at = pb.location.copy()
                    pb.matrix = Matrix(posed[j].tolist())
                    if j:
                        pb.location = at
            layer.update()
            off = [(own[b].head - Matrix(posed[j].tolist()).translation).length for j, b in enumerate(index)]
            worst = int(np.argmax(off))
            if off[worst] * rig.unit > CLOSE * rig.skeleton.leg_length:
                raise ValueError(
                    f"{rig.bones[index[worst]]} of {ob.name} is {off[worst] * rig.unit * 1000:.0f} mm from where its motion puts it: "
                    "something else moves it. Clear the pose of the other controls (Alt G, Alt R, Alt S) and mute their constraints"
                )
            for j, bone in enumerate(index):
                turns[f, j] = np.array(own[bone].matrix_basis.to_quaternion())
            places[f] = np.array(own[rig.carrier].location)
            yield f + 1
    finally:
        for pb, prop, value in switched:
            pb[prop] = value
        runtime.restore(ob, before)
        ob.update_tag()
    turns = rotations.continuous_quaternions(turns)
    out: dict[tuple[int, str], np.ndarray] = {}
    for j, bone in enumerate(index):
        out[bone, runtime.rotation_channel(rig.modes[bone])] = runtime.in_mode(turns[:, j], rig.modes[bone])
    out[rig.carrier, "location"] = places
    return out
