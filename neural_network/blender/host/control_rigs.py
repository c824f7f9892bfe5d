# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigs whose deforming bones follow controls: a generated Rigify human is posed through its FK controls.

A *handle* is a control that is to move as one bone of the body does. What lies above a handle (parents, constraints of a few
kinds) is worked out here as Blender does, so that the handle's own channels can be told without an evaluation; what cannot
be worked out so is refused in words. Whether it all holds is measured once, when Live IK begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion

from ...core import forward_kinematics as fk
from ...core import rotations
from ...core import skeleton as skeletons
from ...ik.network import Network
from . import rig as rigs
from . import runtime
from .rig import Rig

SWITCH = "IK_FK"  # Rigify's property on the parent of each limb: 0 IK, 1 FK
OFF = (1e-3, 1e-3)  # [m], [rad] the bones may be from where the controls were to bring them, when Live IK begins
_TRUNK = ("Hips", "Spine", "Spine1", "Spine2", "NeckLower", "NeckUpper", "Head")
_LIMBS = {
    "Shoulder": "shoulder",
    "Arm": "upper_arm",
    "ForeArm": "forearm",
    "Hand": "hand",
    "Thigh": "thigh",
    "Shin": "shin",
    "Foot": "foot",
    "ToeBase": "toe",
}
_SPINE_CONTROLS = (  # control, the body's bone that it moves as, the bone at whose head it is held
    ("torso", "Hips", "Spine1"),
    ("spine_fk.001", "Spine", "Spine"),
    ("spine_fk", "Hips", "Hips"),
    ("spine_fk.002", "Spine1", "Spine1"),
    ("spine_fk.003", "Spine2", "Spine2"),
    ("neck", "NeckLower", "NeckLower"),
    ("head", "Head", "Head"),
    ("tweak_spine", "Hips", "Hips"),
    ("tweak_spine.001", "Spine", "Spine"),
    ("tweak_spine.002", "Spine1", "Spine1"),
    ("tweak_spine.003", "Spine2", "Spine2"),
    ("tweak_spine.004", "NeckLower", "NeckLower"),
    ("tweak_spine.005", "NeckUpper", "NeckUpper"),
)


@dataclass(frozen=True)
class Handle:
    """A control and what it follows; numbers are indices."""

    bone: int
    """Among all pose bones."""
    joint: int
    """Among the controlled bones: it turns as this one."""
    held: int
    """It is where this one's head is."""


@dataclass(frozen=True)
class ControlRig(Rig):
    """A Rig that is written through its handles; ``index`` are the bones that are read."""

    handles: tuple[Handle, ...] = ()
    carried: tuple[tuple[int, int, int], ...] = ()
    """(bone, joint, handle's bone): bones that go with a joint, and the handle that moves them."""
    order: tuple[int, ...] = ()
    """The bones that handles depend on, and handles, each after what it depends on."""
    switches: tuple[str, ...] = ()
    """Bones with the property that leads a limb by FK instead of IK."""


def written(rig: Rig) -> list[int]:
    """The bones, among all, whose channels a pose is written to."""
    return [h.bone for h in rig.handles] if isinstance(rig, ControlRig) else rig.index.tolist()


def with_place(rig: Rig) -> list[int]:
    """Those among them whose location is written too."""
    bones = written(rig) if isinstance(rig, ControlRig) else rig.index.tolist()[:1]
    return [b for b in bones if not rig.connected[b]]


# ---- recognising


def _names() -> tuple[dict[str, str], dict[str, str], list[tuple[str, str, str]]]:
    """Role -> the bone that is read, role -> the bone that other controls hang on, and all controls."""
    read: dict[str, str] = {}
    hung: dict[str, str] = {}
    controls = list(_SPINE_CONTROLS)
    for n, role in enumerate(_TRUNK):
        end = f".{n:03d}" if n else ""
        read[role], hung[role] = f"DEF-spine{end}", f"ORG-spine{end}"
    for side, letter in (("Left", "L"), ("Right", "R")):
        for part, name in _LIMBS.items():
            role = side + part
            read[role] = hung[role] = f"ORG-{name}.{letter}"
            control = f"{name}.{letter}" if part == "Shoulder" else f"{name}_fk.{letter}"
            controls.append((control, role, role))
    return read, hung, controls


def is_rigify(ob: bpy.types.Object) -> bool:
    """Whether it is a generated Rigify rig of any kind."""
    names = [pb.name for pb in ob.pose.bones] if ob.pose is not None else []
    return any(name.startswith("ORG-") for name in names) and any(name.startswith("DEF-") for name in names)


def missing(ob: bpy.types.Object) -> list[str]:
    """The bones of a generated Rigify human that ``ob`` lacks."""
    there = {pb.name for pb in ob.pose.bones}
    read, hung, controls = _names()
    wanted = [*read.values(), *hung.values(), *(c for c, _, _ in controls)]
    return sorted({name for name in wanted if name not in there})


def read(ob: bpy.types.Object, net: Network) -> ControlRig:
    """The rig of a generated Rigify human, its bones in the network's order.

    Raises ValueError for controls that hang on what cannot be worked out, SkeletonMismatch for weights of other bones.
    """
    turn, unit = rigs.placement(ob)
    bones: Any = ob.pose.bones
    names = tuple(pb.name for pb in bones)
    place = {name: i for i, name in enumerate(names)}
    parents = np.array([place[pb.parent.name] if pb.parent else -1 for pb in bones])
    rest = np.array([pb.bone.matrix_local for pb in bones], np.float64)
    wanted, hung, controls = _names()
    theirs = net.skeleton
    order = list(theirs.names) if set(theirs.names) <= set(wanted) else list(wanted)
    index = np.array([place[wanted[role]] for role in order])
    own = rest[index].copy()
    own[:, :3, :3] = turn @ own[:, :3, :3]
    own[:, :3, 3] = own[:, :3, 3] @ turn.T * unit
    effectors, feet = ([theirs.names[e] for e in listed] for listed in (theirs.effectors, theirs.feet))
    if order != list(theirs.names):
        raise ValueError(
            f"{ob.name} is a Rigify human, which is moved by its {len(order)} main bones; these weights move others"
            f" ({', '.join(theirs.names[:3])}, ...): Load Weights that were trained on a body of those bones"
        )
    skeleton = skeletons.make(order, theirs.parents, own, effectors, feet)
    joint = {role: j for j, role in enumerate(order)}
    handles = tuple(Handle(place[c], joint[role], joint[held]) for c, role, held in controls)
    last = {h.joint: h.bone for h in handles}  # of a bone's handles the last one lies lowest
    carried = tuple((place[hung[role]], joint[role], last[joint[role]]) for role in order)
    return ControlRig(
        skeleton,
        names,
        parents,
        rest,
        tuple(pb.rotation_mode for pb in bones),
        tuple(pb.bone.use_connect for pb in bones),
        tuple(rigs._plain(pb.bone) for pb in bones),
        index,
        turn,
        unit,
        roles=tuple(order),
        handles=handles,
        carried=carried,
        order=_order(ob, names, parents, handles, {b: h for b, _, h in carried}),
        switches=tuple(pb.name for pb in bones if SWITCH in pb),
    )


def _order(
    ob: Any, names: tuple[str, ...], parents: np.ndarray, handles: tuple[Handle, ...], carried: dict[int, int]
) -> tuple[int, ...]:
    """Everything that the handles hang on, each after what it hangs on itself."""
    place = {name: i for i, name in enumerate(names)}
    done: dict[int, bool] = {}
    lead = {h.bone for h in handles}

    def visit(bone: int) -> None:
        if bone in done:
            if not done[bone]:
                raise ValueError(f"{ob.name}: {names[bone]} hangs on itself through constraints; Live IK cannot follow")
            return
        done[bone] = False
        if bone in carried:
            visit(carried[bone])
        else:
            if parents[bone] >= 0:
                visit(int(parents[bone]))
            for constraint in ob.pose.bones[bone].constraints:
                for target in _leaders(ob, names[bone], constraint, bone in lead):
                    visit(place[target])
        del done[bone]
        done[bone] = True  # at the end of the dictionary: everything it hangs on stands before it

    for handle in handles:
        visit(handle.bone)
    return tuple(done)


def _leaders(ob: Any, bone: str, constraint: Any, handle: bool) -> list[str]:
    """The bones that a constraint brings in. Raises ValueError for one that is not understood."""
    if constraint.mute or constraint.type == "COPY_SCALE":
        return []
    kind, influence = constraint.type, constraint.influence
    spaces = {constraint.owner_space, constraint.target_space}
    known = not handle and (spaces <= {"WORLD", "POSE"} or spaces == {"LOCAL"})
    if kind == "ARMATURE":
        targets = [t for t in constraint.targets if t.weight > 0]
        if known and len(targets) <= 1 and all(t.target == ob for t in targets):
            return [t.subtarget for t in targets]
    elif kind in ("COPY_TRANSFORMS", "COPY_ROTATION", "STRETCH_TO"):
        known = known and constraint.target == ob and getattr(constraint, "head_tail", 0.0) == 0
        if kind != "STRETCH_TO":
            known = known and constraint.mix_mode == "REPLACE"
        if kind == "COPY_ROTATION":
            axes = "xyz"
            known = known and all(getattr(constraint, f"use_{a}") for a in axes)
            known = known and not any(getattr(constraint, f"invert_{a}") for a in axes)
        if kind == "STRETCH_TO":
            known = known and constraint.keep_axis == "SWING_Y" and "LOCAL" not in spaces
        if known:
            return [constraint.subtarget]
    if influence == 0:
        return []
    raise ValueError(
        f"{bone} of {ob.name} is moved by the constraint {constraint.name}, which Live IK cannot work out: mute it, or bake"
        " the constraints first (Pose > Animation > Bake Action, with Visual Keying and Clear Constraints)"
    )


# ---- working out what Blender will


def _walk(
    ob: Any,
    rig: ControlRig,
    basis: Callable[[int], Matrix],
    moved: list[Matrix] | None,
    aims: dict[int, Matrix],
) -> tuple[dict[int, Matrix], dict[int, Matrix]]:
    """Pose matrices [object space] of all bones in ``order``, and the basis of each handle.

    ``moved`` is how far each joint moved from its rest, and ``aims`` where handles go; without, handles are where their
    own ``basis`` puts them.
    """
    bones = ob.pose.bones
    posed: dict[int, Matrix] = {}
    own: dict[int, Matrix] = {}
    rest = {b: Matrix(rig.rest[b].tolist()) for b in rig.order}
    carried = {b: (j, h) for b, j, h in rig.carried}

    def convert(bone: int, matrix: Matrix, invert: bool) -> Matrix:
        parent = int(rig.parents[bone])
        above = {"parent_matrix": posed[parent], "parent_matrix_local": rest[parent]} if parent >= 0 else {}
        return bones[bone].bone.convert_local_to_pose(matrix, rest[bone], invert=invert, **above)

    for bone in rig.order:
        if bone in carried:
            joint, handle = carried[bone]
            step = moved[joint] if moved is not None else posed[handle] @ rest[handle].inverted()
            posed[bone] = step @ rest[bone]
        elif bone in aims:
            own[bone], posed[bone] = convert(bone, aims[bone], True), aims[bone]
        else:
            own[bone] = basis(bone)
            posed[bone] = convert(bone, own[bone], False)
            for constraint in bones[bone].constraints:
                if not constraint.mute and constraint.influence > 0:
                    posed[bone] = _constrain(rig, bone, constraint, posed, rest, convert)
    return posed, own


def _constrain(
    rig: ControlRig,
    bone: int,
    constraint: Any,
    posed: dict[int, Matrix],
    rest: dict[int, Matrix],
    convert: Callable[[int, Matrix, bool], Matrix],
) -> Matrix:
    """One constraint, as Blender takes it."""
    now = posed[bone]
    kind = constraint.type
    if kind == "COPY_SCALE":
        return now
    if kind == "ARMATURE":
        for lead in constraint.targets:
            if lead.weight > 0:
                target = rig.bones.index(lead.subtarget)
                if target in posed:
                    now = posed[target] @ rest[target].inverted() @ now
        return posed[bone].lerp(now, constraint.influence)
    target = rig.bones.index(constraint.subtarget)
    if target not in posed:
        return now
    local = constraint.owner_space == "LOCAL"
    lead = convert(target, posed[target], True) if local else posed[target]
    if kind == "STRETCH_TO":
        then = _stretched(now, lead.translation, constraint)
    elif kind == "COPY_TRANSFORMS":
        then = lead
    else:
        place, _, size = (convert(bone, now, True) if local else now).decompose()
        then = Matrix.LocRotScale(place, lead.to_quaternion(), size)
    if local:
        then = convert(bone, then, False)
    return now.lerp(then, constraint.influence)


def _stretched(now: Matrix, to: Any, constraint: Any) -> Matrix:
    """Stretch To, by a swing from the bone's own direction."""
    place, turn, size = now.decompose()
    way = to - place
    if way.length < 1e-9 or constraint.rest_length < 1e-9:
        return now
    along = way.length / constraint.rest_length
    swing = (turn @ _Y).rotation_difference(way)
    across = along**-0.5 if constraint.volume == "VOLUME_XZX" else 1.0
    return Matrix.LocRotScale(place, swing @ turn, (size.x * across, size.y * along, size.z * across))


_Y = Matrix.Identity(3).col[1].copy()


# ---- poses


def _moved(rig: ControlRig, quaternions: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(J, 4, 4) how each joint moved from its rest [object space], and (J, 3) where its head is."""
    skeleton = rig.skeleton
    posed = fk.pose_matrices(skeleton, rotations.matrix_from_quaternion(quaternions), root)
    rest = rig.rest[rig.index]
    posed[:, :3, :3] = rig.turn.T @ posed[:, :3, :3]
    posed[:, :3, 3] = posed[:, :3, 3] @ rig.turn / rig.unit
    return posed @ np.linalg.inv(rest), posed[:, :3, 3]


def apply(ob: bpy.types.Object, rig: ControlRig, quaternions: np.ndarray, root: np.ndarray) -> None:
    """Pose the body through its handles: rot_local (J, 4), root's head (3) [m, rig space]; shown at Blender's update."""
    bones: Any = ob.pose.bones
    steps, heads = _moved(rig, quaternions, root)
    moved = [Matrix(m.tolist()) for m in steps]
    aims: dict[int, Matrix] = {}
    for handle in rig.handles:
        aim = moved[handle.joint].copy()
        if handle.held != handle.joint:
            still = rig.rest[rig.index[handle.held], :3, 3]
            aim.translation = heads[handle.held] - steps[handle.joint, :3, :3] @ still
        aims[handle.bone] = aim @ Matrix(rig.rest[handle.bone].tolist())
    _, own = _walk(ob, rig, lambda b: bones[b].matrix_basis, moved, aims)
    for handle in rig.handles:
        place, turn, _ = own[handle.bone].decompose()
        pb = bones[handle.bone]
        mode = pb.rotation_mode
        if mode == "QUATERNION":
            if turn.dot(pb.rotation_quaternion) < 0:
                turn.negate()
            pb.rotation_quaternion = turn
        elif mode == "AXIS_ANGLE":
            axis, angle = turn.to_axis_angle()
            pb.rotation_axis_angle = (angle, *axis)
        else:
            pb.rotation_euler = turn.to_euler(mode, pb.rotation_euler)
        if not rig.connected[handle.bone]:
            pb.location = place
    ob.update_tag(refresh={"OBJECT", "DATA"})


def pose_of(
    ob: bpy.types.Object, rig: ControlRig, channels: dict[str, np.ndarray], quaternions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As live_rig.pose_of; ``quaternions`` (N, 4) are the rotations that the channels hold."""
    place, size = (channels[name].reshape(-1, 3) for name in ("location", "scale"))

    def basis(bone: int) -> Matrix:
        at = (0, 0, 0) if rig.connected[bone] else place[bone].tolist()
        return Matrix.LocRotScale(at, Quaternion(quaternions[bone].tolist()), size[bone].tolist())

    posed, _ = _walk(ob, rig, basis, None, {})
    joints = {j: posed[h] @ Matrix(rig.rest[h].tolist()).inverted() for _, j, h in rig.carried}
    read = np.array([joints[j] @ Matrix(rig.rest[b].tolist()) for j, b in enumerate(rig.index.tolist())])
    turned = rig.turn @ runtime.orthonormal(read[:, :3, :3])
    rot = runtime.local_rotations(rig, turned[None])[0].astype(np.float64)
    return rot, rig.turn @ read[0, :3, 3] * rig.unit


# ---- beginning


def switch(ob: bpy.types.Object, rig: Rig) -> dict[str, float]:
    """Lead all limbs by FK; returns what there was before."""
    bones: Any = ob.pose.bones
    before = {}
    for name in rig.switches if isinstance(rig, ControlRig) else ():
        if name in bones and SWITCH in bones[name]:
            before[name] = float(bones[name][SWITCH])
            bones[name][SWITCH] = 1.0
    if before:
        ob.update_tag()  # a property that drivers read
    return before


def switch_back(ob: bpy.types.Object, before: dict[str, float]) -> None:
    """Lead limbs as before :func:`switch`."""
    bones: Any = ob.pose.bones
    for name, value in before.items():
        if name in bones:
            bones[name][SWITCH] = value
    if before:
        ob.update_tag()


def astray(ob: bpy.types.Object, rig: ControlRig, quaternions: np.ndarray, root: np.ndarray) -> str:
    """The bone that is not shown as the pose that was applied says; or nothing."""
    rot, _ = runtime.read_pose(ob, rig)
    off = np.linalg.norm(_heads(ob, rig) - _moved(rig, quaternions, root)[1], axis=1) * rig.unit
    step = rotations.quaternion_multiply(
        rotations.quaternion_conjugate(quaternions), rotations.quaternion_from_axis_angle(rot)
    )
    apart = np.linalg.norm(rotations.axis_angle_from_quaternion(step), axis=1)
    worst = int(np.argmax(np.maximum(off / OFF[0], apart / OFF[1])))
    if off[worst] <= OFF[0] and apart[worst] <= OFF[1]:
        return ""
    name = rig.bones[rig.index[worst]]
    return f"{name} is {off[worst] * 1000:.1f} mm and {np.degrees(apart[worst]):.1f} degrees off"


def _heads(ob: bpy.types.Object, rig: ControlRig) -> np.ndarray:
    """(J, 3) [object space] heads of the bones that are read, as Blender shows them."""
    bones: Any = ob.pose.bones
    return np.array([bones[b].head for b in rig.index.tolist()])
