# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK's targets in the scene: made, read, placed, taken along, held on the ground and coloured."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from mathutils import Matrix, Quaternion

from ...core import rotations
from ...core.skeleton import limb
from ...ik.solver import REACHED
from ..host import rig_checks
from ..host.rig import metres
from .state import ROOT, Live, Target, pose_matrices, roles, target_objects

MOVED = (1e-4, 1e-7)  # [leg lengths], 1 - |cos of half the angle|: a target that moved more was moved by somebody
SIZE = 0.08  # [leg lengths] of a target
SHAPES = {"Head": "SPHERE", ROOT: "CIRCLE"}  # the others are cubes
GREEN, YELLOW, RED, GREY = (0.2, 0.9, 0.3, 1), (1, 0.8, 0.1, 1), (1, 0.15, 0.1, 1), (0.6, 0.6, 0.6, 1)
NEAR = 1e-2  # [m] a target missed by less is yellow, by more red
HINT_AWAY = 0.35  # [leg lengths] from elbow or knee to its hint
RAY = 1.2  # [leg lengths] above a target, where the ray down to the ground begins
_NOWHERE = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


def add_targets(
    context: bpy.types.Context, collection: Any, live: Live, ob: bpy.types.Object, all_on: bool = False
) -> None:
    """Make the targets that are not there, each where the body is."""
    there = target_objects(collection)
    skeleton = live.rig.skeleton
    size = SIZE * skeleton.leg_length / metres(ob)
    feet = {skeleton.names[f] for f in skeleton.feet}
    names = [skeleton.names[e] for e in skeleton.effectors]
    posed = pose_matrices(live, rotations.matrix_from_axis_angle(live.base_rot), live.base_root)
    wanted: list[tuple[str, str, np.ndarray, str, float]] = []
    for row, (role, bone) in enumerate(zip([*roles(live), ROOT], [*names, names[0]], strict=True)):
        kind = "ROOT" if row == len(names) else "EFFECTOR"
        shape = SHAPES.get(role, "CUBE")
        wanted.append((kind, role, live.base_rows[row], shape, size * (2.5 if kind == "ROOT" else 1)))
        del bone
    for role, effector in zip(roles(live), skeleton.effectors, strict=True):
        if role not in rig_checks.LIMBS:
            continue
        upper, lower, end = limb(skeleton.parents, skeleton.rest_arm[:, :3, 3], effector)
        place = np.array([*_hint_place(posed, upper, lower, end, skeleton.leg_length, skeleton.axes), 1.0, 0, 0, 0])
        wanted.append(("HINT", role, place, "PLAIN_AXES", 0.6 * size))
    to_world = from_rig(live, ob)
    for kind, role, seat, shape, extent in wanted:
        if (kind, role) in there:
            continue
        word = {"HINT": f" {rig_checks.LIMBS.get(role, '')}"}.get(kind, "")
        called = live.rig.roles[0] if kind == "ROOT" and live.rig.roles else role
        target: Any = bpy.data.objects.new(f"{ob.name} {called}{word}", None)
        target.empty_display_type, target.empty_display_size = shape, extent
        target.show_in_front = True
        target.rotation_mode = "QUATERNION"
        target.color = GREEN
        own = target.neural_ik_target
        own.kind, own.bone = kind, role
        is_foot = kind == "EFFECTOR" and names[roles(live).index(role)] in feet
        own.use = kind != "HINT" and (all_on or is_foot)
        collection.objects.link(target)
        place_at(target, seat, to_world)
        target.hide_viewport = kind == "HINT"


def _hint_place(posed: np.ndarray, upper: int, lower: int, end: int, leg: float, axes: np.ndarray) -> np.ndarray:
    """Where a hint stands: out from the joint, in the plane in which the limb is bent now; a straight limb's, behind or before it."""
    top, joint, tip = posed[upper, :3, 3], posed[lower, :3, 3], posed[end, :3, 3]
    along = tip - top
    along /= max(float(np.linalg.norm(along)), 1e-9)
    out = joint - top
    out = out - along * (along @ out)
    if np.linalg.norm(out) < 1e-3 * leg:
        out = axes[1] * (-1 if abs(along @ axes[2]) > 0.5 else 1)  # knees bend to the front, elbows to the back
        out = out - along * (along @ out)
    return joint + out / max(float(np.linalg.norm(out)), 1e-9) * HINT_AWAY * leg


def select_lead(context: bpy.types.Context, collection: bpy.types.Collection) -> None:
    """Have a hand selected, so that G moves it."""
    found = target_objects(collection)
    lead = found.get(("EFFECTOR", "RightHand")) or next(iter(found.values()), None)
    if lead is None or context.mode != "OBJECT":
        return
    for other in list(context.selected_objects):
        other.select_set(False)
    if lead.name in context.view_layer.objects:
        lead.select_set(True)
        context.view_layer.objects.active = lead


def remove(collection: bpy.types.Collection) -> None:
    """Delete a collection of targets and all targets in it."""
    for target in list(collection.objects):
        own: Any = target
        if own.neural_ik_target.kind != "NONE":
            bpy.data.objects.remove(target)
    bpy.data.collections.remove(collection)


def refresh(live: Live, collection: bpy.types.Collection) -> None:
    """Read the settings of all targets."""
    found = target_objects(collection)
    order = [("EFFECTOR", role) for role in roles(live)] + [("ROOT", ROOT)]
    order += [("HINT", role) for role in roles(live) if role in rig_checks.LIMBS]
    targets = []
    for kind, role in order:
        ob: Any = found.get((kind, role))
        if ob is None:
            targets.append(Target("", kind, role))
            continue
        own = ob.neural_ik_target
        data = ob.animation_data
        led = ob.parent is not None or len(ob.constraints) > 0
        led = led or (data is not None and (data.action is not None or len(data.drivers) > 0))
        hidden = kind == "HINT" and not own.use
        if ob.hide_viewport != hidden and kind == "HINT":
            ob.hide_viewport = hidden
        targets.append(Target(ob.name, kind, role, own.use, own.weight, own.turn_weight, own.pin, led))
    live.targets = targets
    _weigh(live)


def _weigh(live: Live) -> None:
    """The weights as the solver takes them."""
    effectors = live.targets[: len(live.rig.skeleton.effectors)]
    live.weights = np.array([t.weight if t.use and t.name else 0.0 for t in effectors])
    live.turn_weights = np.array([t.turn_weight if t.use and t.name else 0.0 for t in effectors])


# ---- where they are


def to_rig(live: Live, ob: bpy.types.Object) -> Matrix:
    """World to rig space. The object may move meanwhile: its bones then move with it, and so does rig space."""
    return live.into_rig @ ob.matrix_world.inverted_safe()


def from_rig(live: Live, ob: bpy.types.Object) -> Matrix:
    """Rig space to the world."""
    return ob.matrix_world @ live.out_of_rig


def read_targets(live: Live, ob: bpy.types.Object) -> tuple[np.ndarray, np.ndarray]:
    """Place and orientation (w, x, y, z) of every target (T, 7): in rig space [m], and in the world [Blender units].

    A deleted target has no place: zeros.
    """
    objects: Any = bpy.data.objects
    into = to_rig(live, ob)
    both: list[tuple[float, ...]] = []
    for target in live.targets:
        found = objects.get(target.name) if target.name and (target.use or target.kind != "HINT") else None
        if found is None:
            live.dirty |= bool(target.name) and (target.use or target.kind != "HINT")
            both += (_NOWHERE, _NOWHERE)
            continue
        matrix = found.matrix_world
        place, turn, _ = (into @ matrix).decompose()
        seat, stance, _ = matrix.decompose()
        both += ((*place, *turn), (*seat, *stance))
    apart = np.array(both).reshape(-1, 2, 7)
    return apart[:, 0].copy(), apart[:, 1].copy()


def take_as_they_are(live: Live, ob: bpy.types.Object) -> None:
    """The targets stand where they should: nothing is solved before one moves."""
    live.seen, live.placed = read_targets(live, ob)
    live.touched.clear()
    live.dirty = live.fresh = False


def place_at(target: Any, row: np.ndarray, to_world: Matrix) -> None:
    """Put a target at a row (7) of rig space."""
    values = row.tolist()
    put(target, values[:3], Quaternion(values[3:]), to_world)


def put(target: Any, place: list[float], turn: Quaternion, to_world: Matrix) -> tuple[float, ...]:
    """Put a target at a place [m, rig space], turned so; returns its place and orientation in the world."""
    matrix = to_world @ Matrix.LocRotScale(place, turn, None)
    target.location = matrix.translation
    turn = matrix.to_quaternion()
    if target.rotation_mode == "QUATERNION":
        target.rotation_quaternion = turn
    elif target.rotation_mode == "AXIS_ANGLE":
        axis, angle = turn.to_axis_angle()
        target.rotation_axis_angle = (angle, *axis)
    else:
        target.rotation_euler = turn.to_euler(target.rotation_mode, target.rotation_euler)
    return (*matrix.translation, *turn)


def put_back_targets(live: Live, ob: bpy.types.Object) -> None:
    """All targets where the base pose has them."""
    to_world = from_rig(live, ob)
    for target, row in zip(live.targets, live.base_rows, strict=False):
        if target.name and not target.led:
            place_at(bpy.data.objects[target.name], row, to_world)


def follow(live: Live, ob: bpy.types.Object, free: bool) -> None:
    """Targets that are off go where the body went."""
    assert live.goals is not None
    assert live.solution is not None
    assert live.placed is not None
    count = len(live.rig.skeleton.effectors)
    off = [r for r, t in enumerate(live.targets[: count + 1]) if not t.use and t.name and not t.led]
    if not off:
        return
    to_world = from_rig(live, ob)
    places, ends = live.session.ends(live.goals)
    rest = live.rest_turns
    for row in off:
        if row == count:
            if not free:
                continue
            place, turn = live.solution.root_pos, rest[row] @ Quaternion(live.solution.quaternions[0].tolist())
        else:
            place, turn = places[row], Quaternion(ends[row].tolist()) @ rest[row]
        live.placed[row] = put(bpy.data.objects[live.targets[row].name], place.tolist(), turn, to_world)


def switch_on(live: Live, world: np.ndarray, unit: float) -> None:
    """Targets that are off and were moved by somebody are on from now on."""
    if live.placed is None or len(live.placed) != len(world):
        return
    far, now, placed = MOVED[0] * live.rig.skeleton.leg_length / unit, world.tolist(), live.placed.tolist()
    for row, target in enumerate(live.targets):
        if target.kind == "HINT" or not target.name or (target.use and target.name not in live.touched):
            continue
        place = live.touched[target.name].tolist() if target.use else placed[row]
        if differs(now[row], place, far) == target.use:
            continue
        if target.use:  # a drag that was taken back
            del live.touched[target.name]
        else:
            live.touched[target.name] = live.placed[row].copy()
        target.use = not target.use
        live.dirty = True
        ob: Any = bpy.data.objects[target.name]
        ob.neural_ik_target.use = target.use
        _weigh(live)


def differs(a: list[float], b: list[float], far: float, turned: float = MOVED[1]) -> bool:
    """Whether two places (7) are more than ``far`` or ``turned``, 1 - |cos of half the angle|, apart."""
    if abs(a[0] - b[0]) > far or abs(a[1] - b[1]) > far or abs(a[2] - b[2]) > far:
        return True
    return a[3:] != b[3:] and 1 - abs(a[3] * b[3] + a[4] * b[4] + a[5] * b[5] + a[6] * b[6]) > turned


# ---- what they stand on, and how they look


def pin(
    live: Live, ob: Any, settings: Any, target: Target, row: int, ends: np.ndarray, scene: Any, depsgraph: Any
) -> None:
    """Bring a target down, or up, to the ground: as high above it as the bone's head is in the rest pose of a foot."""
    skeleton = live.rig.skeleton
    bone = skeleton.effectors[row]
    above = float(skeleton.foot_rest[skeleton.feet.index(bone), 0]) if bone in skeleton.feet else 0.0
    to_world = from_rig(live, ob)
    place = to_world @ Matrix.Translation(ends[row, :3].tolist())
    world = place.translation
    scale = 1 / metres(ob)
    height = settings.ground
    if target.pin == "RAY":
        height = _ground_below(ob, world, skeleton.leg_length * scale * RAY, settings.ground, scene, depsgraph)
    world.z = height + above * scale
    ends[row, :3] = (to_world.inverted_safe() @ Matrix.Translation(world)).translation


def _ground_below(ob: Any, world: Any, up: float, floor: float, scene: Any, depsgraph: Any) -> float:
    """Height of the highest mesh below a point, the character's own left out; ``floor`` where there is none."""
    origin = world.copy()
    origin.z += up
    for _ in range(16):
        hit, place, _normal, _index, other, _matrix = scene.ray_cast(depsgraph, origin, (0, 0, -1))
        if not hit:
            return floor
        if not _belongs(other, ob):
            return float(place.z)
        origin = place
        origin.z -= 1e-4 * up
    return floor


def _belongs(mesh: Any, ob: Any) -> bool:
    """Whether a mesh is a part of the character."""
    found = mesh.original if hasattr(mesh, "original") else mesh
    above = found
    while above is not None:
        if above == ob:
            return True
        above = above.parent
    return any(m.type == "ARMATURE" and m.object == ob for m in found.modifiers)


def colour(live: Live) -> None:
    """Green: reached; yellow: missed by less than a centimetre; red: by more; grey: off."""
    assert live.solution is not None
    for target, error in zip(live.targets, live.solution.error.tolist(), strict=False):
        if not target.name:
            continue
        colour = GREY if not target.use else GREEN if error < REACHED else YELLOW if error < NEAR else RED
        if live.colors.get(target.name) != colour:
            live.colors[target.name] = colour
            bpy.data.objects[target.name].color = colour
