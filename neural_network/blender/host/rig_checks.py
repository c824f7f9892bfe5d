# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a rig before bones are written: the weights must fit it, and nothing else may move its bones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bpy
import numpy as np

from ...core import rotations, tree
from ...core import skeleton as skeletons
from ...core.skeleton import SkeletonMismatch
from ...ik import other_bones
from ...ik.network import Network
from . import actions, control_rigs, dependencies, runtime
from . import rig as rigs
from .control_rigs import ControlRig
from .rig import Rig

LIMBS = {  # effector -> the joint that its hint turns
    "LeftHand": "elbow",
    "RightHand": "elbow",
    "LeftFoot": "knee",
    "RightFoot": "knee",
}


def fit(ob: bpy.types.Object, net: Network) -> Rig:
    """The rig of ``ob`` with its bones in the network's order; bones with other names are matched by their roles.

    Raises SkeletonMismatch or ValueError for a rig that these weights do not fit.
    """
    rig = rigs.read(ob)
    ours, theirs = rig.skeleton, net.skeleton
    if ours.fingerprint == theirs.fingerprint:
        return rig
    known = rigs.read(ob, theirs)  # creatures are matched by bone name
    if known.skeleton.fingerprint == theirs.fingerprint:
        return known
    if other_bones.is_human(theirs.names) and not other_bones.is_human(rig.roles):
        ends = ", ".join(ours.names[e] for e in ours.effectors)
        raise SkeletonMismatch(
            f"{ob.name} belongs to another skeleton: it is posed by {ends} as a creature is, and these weights move people. Train for "
            "this rig (Extract Data, Save to Disk, Train); if it is a person, choose its bones in the panel Roles"
        )
    if not set(theirs.names) <= set(rig.roles):
        theirs.require_same(ours, ob.name)
    row = {role: r for r, role in enumerate(rig.roles)}
    order = [row[name] for name in theirs.names]
    for j, r in enumerate(order):
        above = [a for a in tree.chain(ours.parents, r)[1:] if a in order]
        if (order.index(above[0]) if above else -1) != int(theirs.parents[j]):
            theirs.require_same(ours, ob.name)
    effectors, feet = ([theirs.names[e] for e in listed] for listed in (theirs.effectors, theirs.feet))
    limits = None if ours.limits is None else ours.limits[order]
    skeleton = skeletons.make(theirs.names, theirs.parents, ours.rest_arm[order], effectors, feet, limits=limits)
    return replace(rig, skeleton=skeleton, index=rig.index[order], roles=theirs.names)


def suited(ob: bpy.types.Object, net: Network) -> Network:
    """``net`` for the bones of ``ob``: what people's weights say of bones that this person lacks is said of those that there are.

    Itself where it fits as it is, or where it is not about people's bones by their roles: then :func:`fit` says what differs.
    """
    theirs = net.skeleton
    if not other_bones.is_human(theirs.names):
        return net
    try:
        rig = rigs.read(ob)
    except ValueError:  # a control rig, say, which has the bones of a whole human
        return net
    if not other_bones.is_human(rig.roles):
        return net
    try:
        fit(ob, net)
        return net
    except ValueError:
        return _onto(net, rig)


_fitted: dict[tuple[int, bytes, tuple[str, ...]], tuple[Network, Network]] = {}
"""Weights, the rig and its roles -> the weights, kept so that their number stays theirs, and those for the rig."""


def _onto(net: Network, rig: Rig) -> Network:
    key = id(net), rig.skeleton.rest_arm.tobytes(), rig.skeleton.names + rig.roles
    if key not in _fitted:
        while len(_fitted) > 7:
            del _fitted[next(iter(_fitted))]
        _fitted[key] = net, other_bones.onto(net, rig.skeleton, rig.roles)
    return _fitted[key][1]


def with_limits(ob: bpy.types.Object, rig: Rig, net: Network, own: bool) -> Rig:
    """``rig`` with joint limits: those of the weights (anatomical, or learned from the training poses), or the rig's ``own`` IK limits."""
    limits, about = net.skeleton.limits, np.asarray(net.skeleton.limit_axes)
    if own:
        about = rig.skeleton.basis
        limits = np.array([_own_limits(ob.pose.bones[i]) for i in rig.index.tolist()])
        limits -= np.repeat(
            rig.skeleton.t_pose, 2, axis=1
        )  # Blender measures from the rest pose, a Skeleton from the T-pose
    return replace(rig, skeleton=replace(rig.skeleton, limits=limits, limits_about=about))


def _own_limits(pb: Any) -> list[float]:
    """Lower and upper bounds about X, Y, Z [rad] from the bone's IK settings; half a turn if it has none."""
    out: list[float] = []
    for axis in "xyz":
        if getattr(pb, f"lock_ik_{axis}"):
            out += [0.0, 0.0]
        elif getattr(pb, f"use_ik_limit_{axis}"):
            out += [getattr(pb, f"ik_min_{axis}"), getattr(pb, f"ik_max_{axis}")]
        else:
            out += [-np.pi, np.pi]
    return out


def usable(ob: bpy.types.Object, net: Network, controls: bool = False) -> Rig:
    """As :func:`fit`, for bones that can be written. Raises ValueError with the reason and the remedy if they cannot.

    With ``controls`` a generated Rigify human is accepted too, as a ControlRig.
    """
    reason = linked(ob)
    if reason:
        raise ValueError(reason)
    if controls and control_rigs.is_rigify(ob) and not control_rigs.missing(ob):
        return control_rigs.read(ob, net.skeleton)
    reason = control_rig(ob)
    if reason:
        raise ValueError(reason)
    rig = fit(ob, net)
    reason = refusal(ob, rig)
    if reason:
        raise ValueError(reason)
    return rig


def fit_live(ob: bpy.types.Object, net: Network) -> Rig:
    """The rig of a character that is live already. Raises ValueError if bones are missing."""
    if control_rigs.is_rigify(ob) and not control_rigs.missing(ob):
        return control_rigs.read(ob, net.skeleton)
    return fit(ob, net)


def linked(ob: bpy.types.Object) -> str:
    """Why a character linked from another file cannot be posed, and what to do; empty if it can."""
    override: Any = ob.override_library
    if ob.library is not None:
        return f"{ob.name} is linked from a library: make a library override first (Object > Library Override > Make)"
    if override is not None and override.is_system_override:
        return (
            f"{ob.name} is a library override that is not editable: make it editable first (in the Outliner, right-click it and"
            " choose Library Override > Make > Selected, or Shift-click its override icon)"
        )
    return ""


def control_rig(ob: bpy.types.Object) -> str:
    """Why the bones of a control rig cannot be written, and what to do; empty for any other rig."""
    if not control_rigs.is_rigify(ob):
        return ""
    missing = control_rigs.missing(ob)
    which = f", and not a complete human (it lacks {', '.join(missing[:3])})" if missing else ""
    return (
        f"{ob.name} is a Rigify control rig{which}: its controls would overwrite the pose of its bones. Use the metarig or a"
        " game rig, whose bones have no constraints, and constrain the controls to it"
    )


def refusal(ob: bpy.types.Object, rig: Rig, who: str = "Live IK") -> str:
    """Why ``who`` cannot pose these bones, and what to do; empty if it can."""
    needed = {rig.bones[i] for i in rig.needed}
    moved = _constrained(ob, needed)
    if moved:
        bone, constraint = moved
        return (
            f"{bone} of {ob.name} has the constraint {constraint}, which would override {who}: mute it, or bake the"
            " constraints first (Pose > Animation > Bake Action, with Visual Keying and Clear Constraints)"
        )
    driven = _driven(ob, needed)
    if driven:
        return f"{driven} of {ob.name} has a driver, which would override {who}: mute it in the Drivers editor"
    return reshaped(ob, needed, who)


_SHAPING = ("use_inherit_rotation", "use_local_location", "inherit_scale", "use_relative_parent")
"""Properties of a bone of the armature that change how its pose is read."""


def reshaped(ob: bpy.types.Object, needed: set[str], who: str) -> str:
    """What of the armature itself is driven or animated and changes how ``needed`` bones are posed, in words; or empty."""
    data = ob.data.animation_data
    drivers = [curve for curve in data.drivers if not curve.mute] if data is not None else []
    for how, curves in (("driven", drivers), ("animated", [c for c in actions.playing(data) if actions.plays(c)])):
        for curve in curves:
            bone, channel = dependencies.bone_of("pose." + curve.data_path), curve.data_path.rpartition(".")[2]
            if curve.data_path == "pose_position":
                what = "Rest Position"
            elif bone in needed and channel in _SHAPING:
                what = f"{channel} of {bone}"
            else:
                continue
            return (
                f"{what} is {how} on the armature {ob.data.name}, which would override {who}: mute that channel"
                f" ({'Drivers editor' if how == 'driven' else 'Action Editor of the armature'})"
            )
    return ""


def _constrained(ob: bpy.types.Object, needed: set[str]) -> tuple[str, str] | None:
    for pb in ob.pose.bones:
        for constraint in pb.constraints:
            if constraint.mute or constraint.influence == 0:
                continue
            if pb.name in needed:
                return pb.name, constraint.name
            if constraint.type in ("IK", "SPLINE_IK"):
                for name in dependencies.ik_chain(ob, pb, constraint):
                    if name in needed:
                        return name, f"{constraint.name} on {pb.name}"
    return None


def _driven(ob: bpy.types.Object, needed: set[str]) -> str:
    """The first bone of ``needed`` with a driver of its transform; empty if there is none."""
    data = ob.animation_data
    for curve in data.drivers if data is not None else ():
        bone, channel = dependencies.bone_of(curve.data_path), curve.data_path.rpartition(".")[2]
        if not curve.mute and bone in needed and channel in (*runtime.CHANNELS, "rotation_mode"):
            return str(bone)
    return ""


def pose_of(ob: bpy.types.Object, rig: Rig, channels: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """rot_local (J, 3) [rad] and the root's head (3) [m, rig space] of the pose in transform channels of all bones.

    Computed without a Blender update; constraints are ignored.
    """
    if isinstance(rig, ControlRig):
        return control_rigs.pose_of(ob, rig, channels, own_quaternions(rig, channels, list(range(len(rig.bones)))))
    location = channels["location"].reshape(-1, 3).astype(np.float64)
    if rig.simple:
        turns = own_quaternions(rig, channels, rig.index.tolist())
        rest = rig.rest[rig.index[0]]
        head = rest[:3, 3]
        if not rig.connected[rig.index[0]]:
            head = head + rest[:3, :3] @ location[rig.index[0]]
        return rotations.axis_angle_from_quaternion(turns), rig.turn @ head * rig.unit
    posed = posed_of(ob, rig, channels)
    turned = rig.turn @ runtime.orthonormal(posed[:, :3, :3])
    rot = runtime.local_rotations(rig, turned[None])[0].astype(np.float64)
    return rot, rig.turn @ posed[0, :3, 3] * rig.unit


def posed_of(ob: bpy.types.Object, rig: Rig, channels: dict[str, np.ndarray]) -> np.ndarray:
    """(J, 4, 4) pose matrices [object space] of the controlled bones for transform channels of all bones; constraints are ignored."""
    needed = rig.needed
    location, scale = (channels[name].reshape(-1, 3).astype(np.float64) for name in ("location", "scale"))
    matrices = rotations.matrix_from_quaternion(own_quaternions(rig, channels, needed))
    posed: dict[int, np.ndarray] = {}
    for matrix, bone in zip(matrices, needed, strict=True):
        basis = np.eye(4)
        basis[:3, :3] = matrix * scale[bone]
        if not rig.connected[bone]:
            basis[:3, 3] = location[bone]
        parent = int(rig.parents[bone])
        posed[bone] = runtime._local_to_pose(ob.pose.bones[bone], rig, bone, parent, posed, basis, False)
    return np.array([posed[b] for b in rig.index.tolist()])


def own_quaternions(rig: Rig, channels: dict[str, np.ndarray], bones: list[int]) -> np.ndarray:
    """(N, 4) unit quaternions from the rotation channels of ``bones``, each in its own rotation mode."""
    from mathutils import Euler, Quaternion

    out = channels["rotation_quaternion"].reshape(-1, 4)[bones].astype(np.float64)
    length = np.linalg.norm(out, axis=1, keepdims=True)
    out = np.where(length > 1e-12, out / np.maximum(length, 1e-12), [1.0, 0, 0, 0])
    for row, bone in enumerate(bones):
        mode: Any = rig.modes[bone]
        if mode == "AXIS_ANGLE":
            angle, *axis = channels["rotation_axis_angle"].reshape(-1, 4)[bone].tolist()
            out[row] = np.array(Quaternion(axis, angle) if any(axis) else (1, 0, 0, 0))
        elif mode != "QUATERNION":
            out[row] = np.array(Euler(channels["rotation_euler"].reshape(-1, 3)[bone].tolist(), mode).to_quaternion())
    return out
