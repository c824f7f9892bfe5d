# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of Live IK in the scene: adding, reading, moving, pinning and coloring them."""

from __future__ import annotations

from collections import deque
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion

from ...core import forward_kinematics as fk
from ...core import rotations
from ...core.skeleton import Skeleton
from ...core.tree import chain, limb
from ...ik.drag_session import DragSession
from ...ik.extra_targets import EYES
from ...ik.solver import REACHED
from ..host import actions, rig_checks
from ..host.control_rigs import ControlRig
from ..host.rig import Rig, metres
from .state import BESIDE, ROOT, LiveCharacter, Target, effector_roles, local, settings_of, target_objects

GIVEN = 4096  # rotations that Live IK gave a target, any of which may come back when a drag is cancelled
MOVED = (1e-4, 1e-6)  # [leg lengths], and 1 - |cos| of half the angle: beyond this somebody moved a target
SIZE = (0.08, 0.04)  # of a target, as a share of the leg and of the body, whichever is larger: some have short legs
SHAPES = {"Head": "SPHERE", ROOT: "CIRCLE"}  # all others are cubes
GREEN, YELLOW, RED, GREY = (0.2, 0.9, 0.3, 1), (1, 0.8, 0.1, 1), (1, 0.15, 0.1, 1), (0.6, 0.6, 0.6, 1)
NEAR = 1e-2  # [m]: a target missed by less is yellow, by more red
HINT_DISTANCE = 0.35  # [leg lengths] from an elbow or a knee to its hint
LOOK_DISTANCE = 0.8  # [leg lengths] from the eyes to what they look at, at first
RAY = 1.2  # [leg lengths] above a target, where the ray down to the ground starts
_IDENTITY = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


# ---- adding and removing


def add_targets(
    context: bpy.types.Context, collection: Any, live: LiveCharacter, ob: bpy.types.Object, all_on: bool = False
) -> None:
    """Add the targets that are missing, each where the body is; those of the feet are on, with ``all_on`` all but the hints."""
    there = target_objects(collection)
    skeleton = live.rig.skeleton
    size = max(SIZE[0] * skeleton.leg_length, SIZE[1] * skeleton.body_length) / metres(ob)
    roles = effector_roles(live)
    feet = {role for role, effector in zip(roles, skeleton.effectors, strict=True) if effector in skeleton.feet}
    transforms = live.base_transforms
    missing = [("EFFECTOR", role, transforms[row], SHAPES.get(role, "CUBE"), size) for row, role in enumerate(roles)]
    missing.append(("ROOT", ROOT, transforms[-1], SHAPES[ROOT], 2.5 * size))
    posed = fk.armature_matrices(skeleton, live.base_rot, live.base_root)
    for role, effector in zip(roles, skeleton.effectors, strict=True):
        if role in rig_checks.LIMBS:
            missing.append(("HINT", role, _hint_transform(skeleton, posed, effector), "PLAIN_AXES", 0.6 * size))
    if isinstance(live.session, DragSession):
        found = _chest_and_look(skeleton, posed, live.session.chest, roles)
        missing += [(kind, role, transform, "PLAIN_AXES", 0.6 * size) for kind, role, transform in found]
    to_world = rig_to_world(live, ob)
    for kind, role, transform, shape, extent in missing:
        if (kind, role) in there:
            continue
        label = live.rig.roles[0] if kind == "ROOT" and live.rig.roles else role
        joint = f" {rig_checks.LIMBS[role]}" if kind == "HINT" else " Look At" if kind == "LOOK" else ""
        target: Any = bpy.data.objects.new(f"{ob.name} {label}{joint}", None)
        target.empty_display_type, target.empty_display_size = shape, extent
        target.show_in_front = True
        target.rotation_mode = "QUATERNION"
        target.color = GREEN
        own = target.neural_ik_target
        own.kind, own.bone = kind, role
        own.use = kind not in BESIDE and (all_on or (kind == "EFFECTOR" and role in feet))
        collection.objects.link(target)
        place(target, transform, to_world)
        target.hide_viewport = kind in BESIDE


def _chest_and_look(
    skeleton: Skeleton, posed: np.ndarray, chest: int, roles: list[str]
) -> list[tuple[str, str, np.ndarray]]:
    """Kind, role and place (7) of the targets of the chest and of what the head looks at, in a pose (J, 4, 4): it does already."""
    made = []
    if chest >= 0:
        made.append(("CHEST", "Chest", np.array([*posed[chest, :3, 3], 1.0, 0, 0, 0])))
    if "Head" in roles:
        head = skeleton.effectors[roles.index("Head")]
        turn = posed[head, :3, :3] @ skeleton.rest_arm[head, :3, :3].T
        front, up = -turn @ skeleton.axes[1], turn @ skeleton.axes[2]
        at = posed[head, :3, 3] + skeleton.leg_length * (EYES * up + LOOK_DISTANCE * front)
        made.append(("LOOK", "Head", np.array([*at, 1.0, 0, 0, 0])))
    return made


def _hint_transform(skeleton: Skeleton, posed: np.ndarray, effector: int) -> np.ndarray:
    """(7) where a hint goes for a pose (J, 4, 4): away from the joint, in the plane in which the limb bends.

    A straight limb has no such plane: elbows then point backward and knees forward.
    """
    upper, lower, end = limb(skeleton.parents, skeleton.rest_arm[:, :3, 3], effector)
    top, joint, tip = posed[upper, :3, 3], posed[lower, :3, 3], posed[end, :3, 3]
    along = tip - top
    along /= max(float(np.linalg.norm(along)), 1e-9)
    out = joint - top
    out = out - along * (along @ out)
    if np.linalg.norm(out) < 1e-3 * skeleton.leg_length:
        out = skeleton.axes[1] * (-1 if abs(along @ skeleton.axes[2]) > 0.5 else 1)
        out = out - along * (along @ out)
    out /= max(float(np.linalg.norm(out)), 1e-9)
    return np.array([*(joint + out * HINT_DISTANCE * skeleton.leg_length), 1.0, 0, 0, 0])


def select_first(context: bpy.types.Context, collection: bpy.types.Collection, wanted: list[str] | None = None) -> None:
    """Select the targets of the roles ``wanted``, else the right hand's, or the first one there is, so that G moves it."""
    found = target_objects(collection)
    asked = [
        ob for role in wanted or () if (ob := found.get(("ROOT" if role == ROOT else "EFFECTOR", role))) is not None
    ]
    first = found.get(("EFFECTOR", "RightHand")) or next(iter(found.values()), None)
    asked = asked or ([first] if first is not None else [])
    if context.mode != "OBJECT":
        return
    for other in list(context.selected_objects):
        other.select_set(False)
    for target in asked:
        if target.name in context.view_layer.objects:
            target.select_set(True)
            context.view_layer.objects.active = target


def roles_of_selected(ob: bpy.types.Object, rig: Rig) -> list[str]:
    """Roles of the targets that move what is selected in Pose Mode, the active bone's last: a finger or forearm means its hand.

    A bone above several effectors means the root. Empty outside of Pose Mode.
    """
    if ob.mode != "POSE":
        return []
    every: Any = ob.pose.bones
    active = ob.data.bones.active
    selected = [pb.name for pb in every if (pb if hasattr(pb, "select") else pb.bone).select]
    selected.sort(key=lambda name: active is not None and name == active.name)
    controlled = {c.bone: int(rig.index[c.joint]) for c in rig.controls} if isinstance(rig, ControlRig) else {}
    skeleton = rig.skeleton
    ends = {int(rig.index[effector]): skeleton.names[effector] for effector in skeleton.effectors}
    if rig.roles:
        ends = {int(rig.index[effector]): rig.roles[effector] for effector in skeleton.effectors}
    out: list[str] = []
    for name in selected:
        if name not in rig.bones:
            continue
        bone = rig.bones.index(name)
        bone = controlled.get(bone, bone)
        above = [role for b in chain(rig.parents, bone) if (role := ends.get(b)) is not None]
        below = [role for b, role in ends.items() if bone in chain(rig.parents, b)]
        role = above[0] if above else below[0] if len(below) == 1 else ROOT
        out = [*(other for other in out if other != role), role]
    return out


def remove(collection: bpy.types.Collection) -> None:
    """Delete a collection and the targets in it; what else it holds goes to the collections that hold it.

    Objects parented to a target stay where they are, and actions and strips of targets stay in the file.
    """
    every: Any = bpy.data
    above = [c for c in [s.collection for s in every.scenes] + list(every.collections) if _holds(c, collection)]
    above = [c for c in above if c.library is None] or [bpy.context.scene.collection]
    targets = [ob for ob in collection.objects if _is_target(ob)]
    for ob in list(collection.objects):
        if not _is_target(ob) and len(ob.users_collection) < 2:
            for holder in above:
                holder.objects.link(ob)
    for child in list(collection.children):
        for holder in above:
            if not _holds(holder, child):
                holder.children.link(child)
    _release(targets)
    for target in targets:
        every.objects.remove(target)
    every.collections.remove(collection)


def _is_target(ob: Any) -> bool:
    return ob.neural_ik_target.kind != "NONE"


def _holds(collection: Any, child: Any) -> bool:
    return any(found == child for found in collection.children)


def _release(targets: list[Any]) -> None:
    """Let go of what the user attached to targets that are about to be deleted."""
    every: Any = bpy.data
    for ob in every.objects:
        if ob.parent in targets and ob not in targets:
            place = ob.matrix_world.copy()
            ob.parent = None
            ob.matrix_world = place
    for target in targets:
        data = target.animation_data
        if data is None:
            continue
        strips = (strip for track in data.nla_tracks for strip in actions.every_strip(track.strips))
        used = [data.action, *(strip.action for strip in strips)]
        for action in used:
            if action is not None:
                action.use_fake_user = True


# ---- reading


def read_settings(live: LiveCharacter, collection: bpy.types.Collection) -> None:
    """Read the settings of all targets."""
    found = target_objects(collection)
    body = settings_of(collection).armature
    order = [("EFFECTOR", role) for role in effector_roles(live)] + [("ROOT", ROOT)]
    order += [("HINT", role) for role in effector_roles(live) if role in rig_checks.LIMBS]
    order += [("CHEST", "Chest"), ("LOOK", "Head")]
    targets = []
    for kind, role in order:
        ob: Any = found.get((kind, role))
        if ob is None:
            targets.append(Target("", kind, role))
            continue
        own = ob.neural_ik_target
        driven = _is_driven(ob)
        turned = own.turned or driven
        carried = driven and _is_carried(ob, body)
        made = Target(ob.name, kind, role, own.use, own.weight, own.turn_weight, own.pin, turned, driven, carried)
        targets.append(made)
    live.targets = targets
    _update_weights(live)


def _is_driven(ob: Any) -> bool:
    """Whether something else moves an object: an action, a driver, a constraint or a parent."""
    data = ob.animation_data
    animated = data is not None and (data.action is not None or len(data.drivers) > 0)
    return animated or ob.parent is not None or len(ob.constraints) > 0


def note_driven(live: LiveCharacter, collection: Any) -> None:
    """Read the settings again if something else moves a target now, such as keys it was just given, or moves it no longer."""
    for target in live.targets:
        found = local(bpy.data.objects, target.name) if target.name else None
        if found is not None and _is_driven(found) != target.driven:
            read_settings(live, collection)
            return


def _is_carried(ob: Any, body: Any) -> bool:
    """Whether an object's parents or constraints, or theirs, lead to a bone of ``body``: then it moves as that is posed."""
    waiting, seen = [ob], set()
    while waiting:
        found = waiting.pop()
        if found is None or found.name in seen:
            continue
        seen.add(found.name)
        if found.parent == body and found.parent_type == "BONE":
            return True
        for constraint in found.constraints:
            several = [(t.target, t.subtarget) for t in getattr(constraint, "targets", ())]
            for aim, bone in [(getattr(constraint, "target", None), getattr(constraint, "subtarget", "")), *several]:
                if aim == body and bone:
                    return True
                waiting.append(aim if aim != body else None)
        waiting.append(found.parent if found.parent != body else None)
    return False


def _update_weights(live: LiveCharacter) -> None:
    """The effectors' weights for the solver."""
    effectors = live.targets[: len(live.rig.skeleton.effectors)]
    live.weights = np.array([t.weight if t.use and t.name else 0.0 for t in effectors])
    live.turn_weights = np.array([t.turn_weight if t.use and t.name else 0.0 for t in effectors])


def root_is_free(live: LiveCharacter) -> bool:
    """Whether the root moves with the body instead of being held at its target."""
    root = live.targets[len(live.rig.skeleton.effectors)]
    return not root.use or not root.name or root.weight == 0


def world_to_rig(live: LiveCharacter, ob: bpy.types.Object) -> Matrix:
    """From world to rig space, which moves with the object."""
    return live.into_rig @ ob.matrix_world.inverted_safe()


def rig_to_world(live: LiveCharacter, ob: bpy.types.Object) -> Matrix:
    """From rig to world space."""
    return ob.matrix_world @ live.out_of_rig


def read_transforms(live: LiveCharacter, ob: bpy.types.Object) -> tuple[np.ndarray, np.ndarray]:
    """Position and quaternion (w, x, y, z) of every target (T, 7): in rig space [m], and in world space [Blender units].

    A deleted target gives the identity.
    """
    objects: Any = bpy.data.objects
    into = world_to_rig(live, ob)
    both: list[tuple[float, ...]] = []
    for target in live.targets:
        found = local(objects, target.name) if target.name and (target.use or target.kind not in BESIDE) else None
        if found is None:
            live.dirty |= bool(target.name) and (target.use or target.kind not in BESIDE)
            both += (_IDENTITY, _IDENTITY)
            continue
        # a hint that was hidden until now has no evaluated matrix yet
        matrix = found.matrix_basis if target.kind in BESIDE and not target.driven else found.matrix_world
        position, turn, _ = (into @ matrix).decompose()
        world_position, world_turn, _ = matrix.decompose()
        both += ((*position, *turn), (*world_position, *world_turn))
    split = np.array(both).reshape(-1, 2, 7)
    return split[:, 0].copy(), split[:, 1].copy()


def in_world(live: LiveCharacter, ob: bpy.types.Object, transforms: np.ndarray) -> np.ndarray:
    """Transforms (T, 7) in rig space as :func:`read_transforms` gives them in world space."""
    to_world, out = rig_to_world(live, ob), []
    for values in transforms.tolist():
        position, turn, _ = (to_world @ Matrix.LocRotScale(values[:3], Quaternion(values[3:]), None)).decompose()
        out.append((*position, *turn))
    return np.array(out)


# ---- moving


def accept_current(live: LiveCharacter, ob: bpy.types.Object) -> None:
    """Take the targets' current transforms as solved: nothing is solved until one moves."""
    live.solved_for, live.placed = read_transforms(live, ob)
    live.touched.clear()
    live.dirty = live.restored = False


def place(target: Any, transform: np.ndarray, to_world: Matrix) -> None:
    """Move a target to a transform (7) in rig space."""
    values = transform.tolist()
    _move(target, values[:3], Quaternion(values[3:]), to_world)


def _move(target: Any, position: list[float], turn: Quaternion, to_world: Matrix) -> tuple[float, ...]:
    """Move a target to a position [m] and rotation in rig space; returns its transform (7) in world space."""
    matrix = to_world @ Matrix.LocRotScale(position, turn, None)
    target.location = matrix.translation
    return (*matrix.translation, *_turn(target, matrix))


def _turn(target: Any, matrix: Matrix) -> Quaternion:
    """Turn a target as a matrix in world space, whatever its rotation mode; returns the quaternion."""
    turn = matrix.to_quaternion()
    if target.rotation_mode == "QUATERNION":
        target.rotation_quaternion = turn
    elif target.rotation_mode == "AXIS_ANGLE":
        axis, angle = turn.to_axis_angle()
        target.rotation_axis_angle = (angle, *axis)
    else:
        target.rotation_euler = turn.to_euler(target.rotation_mode, target.rotation_euler)
    return turn


def moved_along(live: LiveCharacter, old: np.ndarray, transforms: np.ndarray) -> np.ndarray:
    """Targets (T, 7) after the base pose changed from ``old`` (E + 1, 7): their offsets from it turn with the body's heading."""
    turn = _heading_turn(live, old[-1], live.base_transforms[-1])
    after = transforms.copy()
    for row, target in enumerate(live.targets):
        is_hint = row >= len(old)
        if not target.name or target.driven or target.pin != "NONE" or not (target.use or is_hint):
            continue
        reference = -1 if is_hint else row
        new = live.base_transforms[reference]
        after[row, :3] = new[:3] + turn @ (transforms[row, :3] - old[reference, :3])
        if not is_hint:
            offset = rotations.quaternion_multiply(transforms[row, 3:], rotations.quaternion_conjugate(old[row, 3:]))
            after[row, 3:] = rotations.quaternion_multiply(offset, new[3:])
    return after


def _heading_turn(live: LiveCharacter, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """(3, 3) rotation about the up axis between two transforms (7) of the root, so that offsets keep to their side of the body."""
    axes = live.rig.skeleton.axes
    rest = rotations.matrix_from_quaternion(live.rest[-1])
    angles = []
    for transform in (old, new):
        root = axes @ rotations.matrix_from_quaternion(transform[3:]) @ rest.T @ axes.T
        angles.append(np.arctan2(root[1, 0], root[0, 0]))
    return axes.T @ rotations.matrix_from_axis_angle(np.array([0, 0, angles[1] - angles[0]])) @ axes


def reset(live: LiveCharacter, ob: bpy.types.Object) -> None:
    """Move all targets to where the base pose has them; what is on stays on, and what is off stays off."""
    to_world = rig_to_world(live, ob)
    for row, (target, transform) in enumerate(zip(live.targets, live.base_transforms, strict=False)):
        if not target.name or target.driven:
            continue
        found = local(bpy.data.objects, target.name)
        seen = _move(found, transform[:3].tolist(), Quaternion(transform[3:].tolist()), to_world)
        found.neural_ik_target.turned = target.turned = False
        if live.placed is not None and row < len(live.placed):
            live.placed[row] = seen
    live.touched.clear()


def move_free(live: LiveCharacter, ob: bpy.types.Object) -> None:
    """Move the targets that are off to where the body is now."""
    assert live.goals is not None
    assert live.solution is not None
    assert live.placed is not None
    count = len(live.rig.skeleton.effectors)
    off = [r for r, t in enumerate(live.targets[: count + 1]) if not t.use and t.name and not t.driven]
    on = [r for r, t in enumerate(live.targets[:count]) if t.use and t.name and follows(live, t)]
    if not off and not on:
        return
    to_world = rig_to_world(live, ob)
    positions, turns = live.ends if live.ends is not None else live.session.ends(live.goals)
    rest = live.rest_rotations
    for row in off:
        if row == count:
            if not root_is_free(live):
                continue
            position, turn = live.solution.root_pos, rest[row] @ Quaternion(live.solution.quaternions[0].tolist())
        else:
            position, turn = positions[row], Quaternion(turns[row].tolist()) @ rest[row]
        live.placed[row] = _move(local(bpy.data.objects, live.targets[row].name), position.tolist(), turn, to_world)
        _give(live, row)
    for row in on:
        found, turn = local(bpy.data.objects, live.targets[row].name), Quaternion(turns[row].tolist()) @ rest[row]
        matrix = to_world @ Matrix.LocRotScale(None, turn, None)
        now = [*live.placed[row, :3].tolist(), *matrix.to_quaternion()]
        if found is not None and differs(now, live.placed[row].tolist(), np.inf):
            _turn(found, matrix)
            live.placed[row] = now
            if live.solved_for is not None:
                live.solved_for[row, 3:] = turn
            _give(live, row)


def follows(live: LiveCharacter, target: Target) -> bool:
    """Whether the rotation of a target that is on follows its bone: in natural posing, as long as nobody turns it."""
    natural = isinstance(live.session, DragSession) and target.kind == "EFFECTOR"
    return natural and not target.turned and not target.driven


def _give(live: LiveCharacter, row: int) -> None:
    """Remember the rotation that Live IK gave a target."""
    assert live.placed is not None
    given = live.given.setdefault(live.targets[row].name, deque(maxlen=GIVEN))
    given.append(tuple(live.placed[row, 3:].tolist()))


def note_turned(live: LiveCharacter, world: np.ndarray) -> None:
    """Note which targets that are on the user has turned, by their transforms in ``world`` (T, 7).

    One that is turned back, as when a rotation or a drag is cancelled, is so no longer.
    """
    if live.placed is None or len(live.placed) != len(world):
        return
    for row, target in enumerate(live.targets[: len(live.rig.skeleton.effectors)]):
        if not target.name or target.driven:
            continue
        now, placed = world[row].tolist(), live.placed[row].tolist()
        given = live.given.setdefault(target.name, deque(maxlen=GIVEN))
        if not given:
            given.append(tuple(placed[3:]))
        turned = target.use and (target.turned or differs(now, placed, np.inf))
        if turned:
            turned = bool(1 - np.abs(np.array(given) @ now[3:]).max() > MOVED[1])
        if turned != target.turned:
            target.turned, live.dirty = turned, True
            ob: Any = local(bpy.data.objects, target.name)
            ob.neural_ik_target.turned = turned


def switch_on_moved(live: LiveCharacter, world: np.ndarray, unit: float) -> None:
    """Switch on targets that are off and were moved by the user; switch them off again when that drag is cancelled."""
    if live.placed is None or len(live.placed) != len(world):
        return
    limit, now, placed = MOVED[0] * live.rig.skeleton.leg_length / unit, world.tolist(), live.placed.tolist()
    for row, target in enumerate(live.targets):
        if target.kind in BESIDE or not target.name or (target.use and target.name not in live.touched):
            continue
        before = live.touched[target.name].tolist() if target.use else placed[row]
        turn = np.inf if target.use and follows(live, target) else MOVED[1]
        if differs(now[row], before, limit, turn) == target.use:
            continue
        if target.use:  # the drag was cancelled
            del live.touched[target.name]
        else:
            live.touched[target.name] = live.placed[row].copy()
        target.use = not target.use
        live.dirty = True
        ob: Any = local(bpy.data.objects, target.name)
        ob.neural_ik_target.use = target.use
        _update_weights(live)


def differs(a: list[float], b: list[float], distance: float, turn: float = MOVED[1]) -> bool:
    """Whether two transforms (7) differ by more than ``distance`` on an axis, or by ``turn``: 1 - |cos| of half the angle."""
    if abs(a[0] - b[0]) > distance or abs(a[1] - b[1]) > distance or abs(a[2] - b[2]) > distance:
        return True
    return a[3:] != b[3:] and 1 - abs(a[3] * b[3] + a[4] * b[4] + a[5] * b[5] + a[6] * b[6]) > turn


# ---- pinning and coloring


def pin(
    live: LiveCharacter, ob: Any, settings: Any, target: Target, row: int, out: np.ndarray, scene: Any, depsgraph: Any
) -> None:
    """Move row ``row`` of transforms ``out`` (E, 7) onto the ground; a foot's head keeps its height above the sole."""
    skeleton = live.rig.skeleton
    bone = skeleton.effectors[row]
    above = float(skeleton.foot_rest[skeleton.feet.index(bone), 0]) if bone in skeleton.feet else 0.0
    to_world = rig_to_world(live, ob)
    world = (to_world @ Matrix.Translation(out[row, :3].tolist())).translation
    scale = 1 / metres(ob)
    height = settings.ground
    if target.pin == "RAY":
        height = _ground_below(ob, world, skeleton.leg_length * scale * RAY, settings.ground, scene, depsgraph)
    world.z = height + above * scale
    out[row, :3] = (to_world.inverted_safe() @ Matrix.Translation(world)).translation


def _ground_below(ob: Any, world: Any, up: float, floor: float, scene: Any, depsgraph: Any) -> float:
    """Height of the first mesh below a point, not counting the character's own; ``floor`` if there is none."""
    origin = world.copy()
    origin.z += up
    for _ in range(16):
        hit, position, _normal, _index, other, _matrix = scene.ray_cast(depsgraph, origin, (0, 0, -1))
        if not hit:
            return floor
        if not _belongs(other, ob):
            return float(position.z)
        origin = position
        origin.z -= 1e-4 * up
    return floor


def _belongs(mesh: Any, ob: Any) -> bool:
    """Whether a mesh is part of the character: below it in the hierarchy, or deformed by it."""
    found = mesh.original if hasattr(mesh, "original") else mesh
    above = found
    while above is not None:
        if above == ob:
            return True
        above = above.parent
    return any(m.type == "ARMATURE" and m.object == ob for m in found.modifiers)


def update_colors(live: LiveCharacter) -> None:
    """Green: the bone is at the target; yellow: farther by less than ``NEAR``; red: by more; grey: off."""
    assert live.errors is not None
    for target, error in zip(live.targets, live.errors.tolist(), strict=False):
        if not target.name:
            continue
        color = GREY if not target.use else GREEN if error < REACHED else YELLOW if error < NEAR else RED  # NaN is red
        if live.colors.get(target.name) != color:
            ob = local(bpy.data.objects, target.name)
            if ob is not None:
                live.colors[target.name] = color
                ob.color = color
