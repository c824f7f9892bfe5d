# SPDX-License-Identifier: GPL-3.0-or-later
"""Rigs whose deforming bones follow controls: a generated Rigify human is posed through its FK controls.

A *control* moves as one joint of the body does. Everything it depends on (parents, and a few kinds of constraints) is
evaluated here with Blender's own rules, so that a control's channels are known without a Blender update. Controls that depend
on anything else are refused. Whether the result is right is measured once, when Live IK starts (:func:`deviation`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion

from ...core import forward_kinematics as fk
from ...core import reference_rig, rotations
from ...core import skeleton as skeletons
from ...core.skeleton import Skeleton
from . import rig as rigs
from . import runtime
from .rig import Rig

SWITCH = "IK_FK"  # Rigify's property on the parent of each limb: 0 IK, 1 FK
TOLERANCE = (1e-3, 1e-3)  # [m], [rad]: how far bones may be from the pose that was written to the controls
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
_SPINE_CONTROLS = (  # control, the role that it rotates as, the role at whose head it is placed
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
class Control:
    """A control and the joints that it follows, as indices."""

    bone: int
    """The control, among all pose bones."""
    joint: int
    """The joint, among the controlled bones, that it rotates as."""
    head: int
    """The joint at whose head it is placed."""


@dataclass(frozen=True)
class ControlRig(Rig):
    """A Rig that is posed through its controls; ``index`` are the bones that poses are read from."""

    controls: tuple[Control, ...] = ()
    followers: tuple[tuple[int, int, int], ...] = ()
    """(bone, joint, control's bone): bones that move with a joint, and the control that moves them."""
    order: tuple[int, ...] = ()
    """The controls and all bones they depend on, each after its dependencies."""
    switches: tuple[str, ...] = ()
    """The bones with the property that switches a limb from IK to FK."""


def written(rig: Rig) -> list[int]:
    """The bones, among all, that a pose is written to."""
    return [c.bone for c in rig.controls] if isinstance(rig, ControlRig) else rig.index.tolist()


def with_location(rig: Rig) -> list[int]:
    """The bones whose location is written too."""
    return located(rig, written(rig))


def located(rig: Rig, bones: list[int]) -> list[int]:
    """The bones whose location is written when ``bones``, some of those that a pose is written to, are posed."""
    if isinstance(rig, ControlRig):
        return [b for b in bones if not rig.connected[b]]
    return [rig.carrier] if int(rig.index[0]) in bones else []


# ---- recognising


def _names() -> tuple[dict[str, str], dict[str, str], list[tuple[str, str, str]]]:
    """Role -> the bone that is read, role -> the bone that other bones depend on, and all controls."""
    read: dict[str, str] = {}
    base: dict[str, str] = {}
    controls = list(_SPINE_CONTROLS)
    for n, role in enumerate(_TRUNK):
        end = f".{n:03d}" if n else ""
        read[role], base[role] = f"DEF-spine{end}", f"ORG-spine{end}"
    for side, letter in (("Left", "L"), ("Right", "R")):
        for part, name in _LIMBS.items():
            role = side + part
            read[role] = base[role] = f"ORG-{name}.{letter}"
            control = f"{name}.{letter}" if part == "Shoulder" else f"{name}_fk.{letter}"
            controls.append((control, role, role))
    return read, base, controls


def is_rigify(ob: bpy.types.Object) -> bool:
    """Whether ``ob`` is a generated Rigify rig of any kind."""
    names = [pb.name for pb in ob.pose.bones] if ob.pose is not None else []
    return any(name.startswith("ORG-") for name in names) and any(name.startswith("DEF-") for name in names)


def missing(ob: bpy.types.Object) -> list[str]:
    """The bones of a generated Rigify human that ``ob`` lacks."""
    there = {pb.name for pb in ob.pose.bones}
    read, base, controls = _names()
    wanted = [*read.values(), *base.values(), *(c for c, _, _ in controls)]
    return sorted({name for name in wanted if name not in there})


def read_any(ob: bpy.types.Object) -> Rig:
    """The rig of any character: a generated Rigify human as a ControlRig, others as :func:`.rig.read` does."""
    if ob.mode != "EDIT" and is_rigify(ob) and not missing(ob):
        return read(ob, reference_rig.reference())
    return rigs.read(ob)


def read(ob: bpy.types.Object, theirs: Skeleton) -> ControlRig:
    """The rig of a generated Rigify human, with its bones in the order of ``theirs``, the skeleton of weights.

    Raises ValueError for controls with unsupported dependencies and for weights of a body with other bones.
    """
    turn, unit = rigs.placement(ob)
    bones: Any = ob.pose.bones
    names = tuple(pb.name for pb in bones)
    place = {name: i for i, name in enumerate(names)}
    parents = np.array([place[pb.parent.name] if pb.parent else -1 for pb in bones])
    rest = np.array([pb.bone.matrix_local for pb in bones], np.float64)
    wanted, base, controls = _names()
    order = list(theirs.names) if set(theirs.names) <= set(wanted) else list(wanted)
    index = np.array([place[wanted[role]] for role in order])
    own = rest[index].copy()
    own[:, :3, :3] = turn @ own[:, :3, :3]
    own[:, :3, 3] = own[:, :3, 3] @ turn.T * unit
    effectors, feet = ([theirs.names[e] for e in listed] for listed in (theirs.effectors, theirs.feet))
    if order != list(theirs.names):
        raise ValueError(
            f"{ob.name} is a Rigify human with {len(order)} main bones, but these weights are for other bones"
            f" ({', '.join(theirs.names[:3])}, ...): load weights that were trained on a body with its bones"
        )
    skeleton = skeletons.make(order, theirs.parents, own, effectors, feet)
    joint = {role: j for j, role in enumerate(order)}
    made = tuple(Control(place[c], joint[role], joint[head]) for c, role, head in controls)
    last = {c.joint: c.bone for c in made}  # of several controls of a joint, the last in the list is the lowest
    followers = tuple((place[base[role]], joint[role], last[joint[role]]) for role in order)
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
        controls=made,
        followers=followers,
        order=_order(ob, names, parents, made, {b: c for b, _, c in followers}),
        switches=tuple(pb.name for pb in bones if SWITCH in pb),
    )


def _order(
    ob: Any, names: tuple[str, ...], parents: np.ndarray, controls: tuple[Control, ...], followers: dict[int, int]
) -> tuple[int, ...]:
    """The controls and everything they depend on, each bone after its own dependencies."""
    place = {name: i for i, name in enumerate(names)}
    done: dict[int, bool] = {}
    own = {c.bone for c in controls}

    def visit(bone: int) -> None:
        if bone in done:
            if not done[bone]:
                raise ValueError(f"{ob.name}: {names[bone]} depends on itself through constraints; mute one of them")
            return
        done[bone] = False
        if bone in followers:
            visit(followers[bone])
        else:
            if parents[bone] >= 0:
                visit(int(parents[bone]))
            for constraint in ob.pose.bones[bone].constraints:
                for target in _targets(ob, names[bone], constraint, bone in own):
                    visit(place[target])
        del done[bone]
        done[bone] = True  # moved to the end of the dictionary, after its dependencies

    for control in controls:
        visit(control.bone)
    return tuple(done)


def _targets(ob: Any, bone: str, constraint: Any, is_control: bool) -> list[str]:
    """The bones that a constraint depends on. Raises ValueError for one that is not supported."""
    if constraint.mute or constraint.type == "COPY_SCALE":
        return []
    kind, influence = constraint.type, constraint.influence
    spaces = {constraint.owner_space, constraint.target_space}
    known = not is_control and (spaces <= {"WORLD", "POSE"} or spaces == {"LOCAL"})
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
        f"{bone} of {ob.name} has the constraint {constraint.name}, which Live IK does not support: mute it, or bake the"
        " constraints first (Pose > Animation > Bake Action, with Visual Keying and Clear Constraints)"
    )


# ---- evaluating the controls as Blender does


def _evaluate(
    ob: Any,
    rig: ControlRig,
    basis: Callable[[int], Matrix],
    moved: list[Matrix] | None,
    wanted: dict[int, Matrix],
) -> tuple[dict[int, Matrix], dict[int, Matrix]]:
    """Pose matrices [object space] of all bones in ``order``, and the basis matrices of all but the followers.

    Args:
        ob: the armature object.
        rig: its rig.
        basis: bone -> its current basis matrix.
        moved: (J) transforms of the joints from rest to pose; None to follow the controls' own basis matrices.
        wanted: control -> the pose matrix it should have; empty to use its basis matrix.
    """
    bones = ob.pose.bones
    posed: dict[int, Matrix] = {}
    own: dict[int, Matrix] = {}
    rest = {b: Matrix(rig.rest[b].tolist()) for b in rig.order}
    followers = {b: (j, c) for b, j, c in rig.followers}

    def convert(bone: int, matrix: Matrix, invert: bool) -> Matrix:
        parent = int(rig.parents[bone])
        above = {"parent_matrix": posed[parent], "parent_matrix_local": rest[parent]} if parent >= 0 else {}
        return bones[bone].bone.convert_local_to_pose(matrix, rest[bone], invert=invert, **above)

    for bone in rig.order:
        if bone in followers:
            joint, control = followers[bone]
            step = moved[joint] if moved is not None else posed[control] @ rest[control].inverted()
            posed[bone] = step @ rest[bone]
        elif bone in wanted:
            own[bone], posed[bone] = convert(bone, wanted[bone], True), wanted[bone]
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
    """The pose matrix of a bone after one of its constraints."""
    now = posed[bone]
    kind = constraint.type
    if kind == "COPY_SCALE":
        return now
    if kind == "ARMATURE":
        for entry in constraint.targets:
            if entry.weight > 0:
                target = rig.bones.index(entry.subtarget)
                if target in posed:
                    now = posed[target] @ rest[target].inverted() @ now
        return posed[bone].lerp(now, constraint.influence)
    target = rig.bones.index(constraint.subtarget)
    if target not in posed:
        return now
    local = constraint.owner_space == "LOCAL"
    source = convert(target, posed[target], True) if local else posed[target]
    if kind == "STRETCH_TO":
        after = _stretched(now, source.translation, constraint)
    elif kind == "COPY_TRANSFORMS":
        after = source
    else:
        position, _, size = (convert(bone, now, True) if local else now).decompose()
        after = Matrix.LocRotScale(position, source.to_quaternion(), size)
    if local:
        after = convert(bone, after, False)
    return now.lerp(after, constraint.influence)


def _stretched(now: Matrix, to: Any, constraint: Any) -> Matrix:
    """A pose matrix after Stretch To with Swing Y: the bone points at ``to`` and reaches it."""
    position, turn, size = now.decompose()
    offset = to - position
    if offset.length < 1e-9 or constraint.rest_length < 1e-9:
        return now
    along = offset.length / constraint.rest_length
    swing = (turn @ _Y).rotation_difference(offset)
    across = along**-0.5 if constraint.volume == "VOLUME_XZX" else 1.0
    return Matrix.LocRotScale(position, swing @ turn, (size.x * across, size.y * along, size.z * across))


_Y = Matrix.Identity(3).col[1].copy()


# ---- poses


def _moved(rig: ControlRig, quaternions: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(J, 4, 4) transforms of the joints from rest to pose [object space], and (J, 3) their heads."""
    skeleton = rig.skeleton
    posed = fk.pose_matrices(skeleton, rotations.matrix_from_quaternion(quaternions), root)
    rest = rig.rest[rig.index]
    posed[:, :3, :3] = rig.turn.T @ posed[:, :3, :3]
    posed[:, :3, 3] = posed[:, :3, 3] @ rig.turn / rig.unit
    return posed @ np.linalg.inv(rest), posed[:, :3, 3]


def _own_matrices(
    ob: bpy.types.Object, rig: ControlRig, quaternions: np.ndarray, root: np.ndarray, basis: Callable[[int], Matrix]
) -> dict[int, Matrix]:
    """The basis matrices of the controls, and of what they depend on, in a pose.

    ``quaternions`` (J, 4) are rot_local, ``root`` (3) is the root's head [m, rig space], ``basis`` as of :func:`_evaluate`.
    """
    steps, heads = _moved(rig, quaternions, root)
    moved = [Matrix(m.tolist()) for m in steps]
    wanted: dict[int, Matrix] = {}
    for control in rig.controls:
        step = moved[control.joint].copy()
        if control.head != control.joint:
            rest_head = rig.rest[rig.index[control.head], :3, 3]
            step.translation = heads[control.head] - steps[control.joint, :3, :3] @ rest_head
        wanted[control.bone] = step @ Matrix(rig.rest[control.bone].tolist())
    return _evaluate(ob, rig, basis, moved, wanted)[1]


def apply(ob: bpy.types.Object, rig: ControlRig, quaternions: np.ndarray, root: np.ndarray) -> None:
    """Pose the body through its controls; Blender shows it at its next update.

    ``quaternions`` (J, 4) are rot_local, ``root`` (3) is the root's head [m, rig space].
    """
    bones: Any = ob.pose.bones
    own = _own_matrices(ob, rig, quaternions, root, lambda b: bones[b].matrix_basis)
    for control in rig.controls:
        location, turn, _ = own[control.bone].decompose()
        pb = bones[control.bone]
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
        if not rig.connected[control.bone]:
            pb.location = location
    ob.update_tag(refresh={"OBJECT", "DATA"})


def channels(
    ob: bpy.types.Object, rig: ControlRig, rot_local: np.ndarray, root_pos: np.ndarray
) -> Generator[int, None, dict[tuple[str, str], np.ndarray]]:
    """A motion as values to key: (bone name, channel) -> (F, n); yields the number of frames done.

    rot_local (F, J, 3) [rad], root_pos (F, 3) [m, rig space]. Limbs are switched to FK; controls that those of the body depend on are
    at rest. Channels that stay have one row.
    """
    quaternions = rotations.quaternion_from_axis_angle(np.asarray(rot_local, np.float64))
    controls = [c.bone for c in rig.controls]
    turns, places = np.empty((len(quaternions), len(controls), 4)), np.empty((len(quaternions), len(controls), 3))
    for f, (q, root) in enumerate(zip(quaternions, np.asarray(root_pos, np.float64), strict=True)):
        own = _own_matrices(ob, rig, q, root, lambda b: Matrix())
        for k, control in enumerate(controls):
            place, turn, _ = own[control].decompose()
            places[f, k], turns[f, k] = np.array(place), np.array(turn)
        yield f + 1
    turns = rotations.continuous_quaternions(turns)
    out = {(name, f'["{SWITCH}"]'): np.ones((1, 1)) for name in rig.switches}
    still = [b for b in rig.order if b not in controls and not rig.bones[b].startswith(("MCH-", "ORG-", "DEF-"))]
    for k, bone in enumerate([*controls, *still]):
        moves, mode = k < len(controls), rig.modes[bone]
        values = turns[:, k] if moves else np.array([[1.0, 0, 0, 0]])
        out[rig.bones[bone], runtime.rotation_channel(mode)] = runtime.in_mode(values, mode)
        if not rig.connected[bone]:
            out[rig.bones[bone], "location"] = places[:, k] if moves else np.zeros((1, 3))
    return out


def pose_of(
    ob: bpy.types.Object, rig: ControlRig, channels: dict[str, np.ndarray], quaternions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As rig_checks.pose_of; ``quaternions`` (N, 4) are the rotations in the channels."""
    location, size = (channels[name].reshape(-1, 3) for name in ("location", "scale"))

    def basis(bone: int) -> Matrix:
        at = (0, 0, 0) if rig.connected[bone] else location[bone].tolist()
        return Matrix.LocRotScale(at, Quaternion(quaternions[bone].tolist()), size[bone].tolist())

    posed, _ = _evaluate(ob, rig, basis, None, {})
    joints = {j: posed[c] @ Matrix(rig.rest[c].tolist()).inverted() for _, j, c in rig.followers}
    read = np.array([joints[j] @ Matrix(rig.rest[b].tolist()) for j, b in enumerate(rig.index.tolist())])
    turned = rig.turn @ runtime.orthonormal(read[:, :3, :3])
    rot = runtime.local_rotations(rig, turned[None])[0].astype(np.float64)
    return rot, rig.turn @ read[0, :3, 3] * rig.unit


# ---- taking over


def switch(ob: bpy.types.Object, rig: Rig) -> dict[str, float]:
    """Switch all limbs to FK; returns the switches' values before."""
    bones: Any = ob.pose.bones
    before = {}
    for name in rig.switches if isinstance(rig, ControlRig) else ():
        if name in bones and SWITCH in bones[name]:
            before[name] = float(bones[name][SWITCH])
            bones[name][SWITCH] = 1.0
    if before:
        ob.update_tag()  # drivers read this property
    return before


def switch_back(ob: bpy.types.Object, before: dict[str, float]) -> None:
    """Restore the values returned by :func:`switch`."""
    bones: Any = ob.pose.bones
    for name, value in before.items():
        if name in bones:
            bones[name][SWITCH] = value
    if before:
        ob.update_tag()


def deviation(ob: bpy.types.Object, rig: ControlRig, quaternions: np.ndarray, root: np.ndarray) -> str:
    """The bone that is farthest from the pose that was applied, and by how much; empty if all are within TOLERANCE."""
    rot, _ = runtime.read_pose(ob, rig)
    off = np.linalg.norm(_heads(ob, rig) - _moved(rig, quaternions, root)[1], axis=1) * rig.unit
    angles = rotations.geodesic_angle(
        rotations.matrix_from_quaternion(quaternions), rotations.matrix_from_axis_angle(np.asarray(rot, np.float64))
    )
    worst = int(np.argmax(np.maximum(off / TOLERANCE[0], angles / TOLERANCE[1])))
    if off[worst] <= TOLERANCE[0] and angles[worst] <= TOLERANCE[1]:
        return ""
    name = rig.bones[rig.index[worst]]
    return f"{name} is {off[worst] * 1000:.1f} mm and {np.degrees(angles[worst]):.1f} degrees off"


def _heads(ob: bpy.types.Object, rig: ControlRig) -> np.ndarray:
    """(J, 3) [object space] heads of the bones that poses are read from, as Blender shows them."""
    bones: Any = ob.pose.bones
    return np.array([bones[b].head for b in rig.index.tolist()])
