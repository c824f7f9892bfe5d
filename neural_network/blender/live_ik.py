# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK: targets in the scene, and the body solved in the same update that moves one of them.

What must survive undo, redo, saving and loading lies in the file, on the collection that holds the targets: the character,
the pose under Live IK, the pose to go back to. A :class:`Live` is only what is worked out from that, and can be made anew
at any time. Nothing of Blender's own is kept between two calls; objects are looked up by name.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent
from mathutils import Matrix, Quaternion

from .. import dataset, network, rotations
from ..network import Network
from ..novelty import Explanation
from ..realtime import right_product
from ..skeleton import limb
from ..solver import REACHED, Goals, Session, Solution, Solver
from . import live_rig, memory, runtime
from .rig import Rig, metres
from .runtime import CHANNELS

STEPS = 12  # exact steps at most; near targets need two or three, and the rest is then not taken
ROOT = "Hips"  # the role that the root's target has
MOVED = (1e-4, 1e-7)  # [leg lengths], 1 - |cos of half the angle|: a target that moved more was moved by somebody
UNMOVED = 1e-6  # [leg lengths], likewise: float32 places that went to the world and back
SIZE = 0.08  # [leg lengths] of a target
SHAPES = {"Head": "SPHERE", ROOT: "CIRCLE"}  # the others are cubes
GREEN, YELLOW, RED, GREY = (0.2, 0.9, 0.3, 1), (1, 0.8, 0.1, 1), (1, 0.15, 0.1, 1), (0.6, 0.6, 0.6, 1)
NEAR = 1e-2  # [m] a target missed by less is yellow, by more red
HINT_AWAY = 0.35  # [leg lengths] from elbow or knee to its hint
FAR_OFF = 1.5  # on the out-of-range meter: the warning
_NOWHERE = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
BASE, BEFORE, BONES = "neural_ik_base", "neural_ik_before", "neural_ik_bones"
FRAME = "neural_ik_frame"  # to which the base pose belongs
RAY = 1.2  # [leg lengths] above a target, where the ray down to the ground begins


@dataclass
class Target:
    """One target and its settings, read from the file when they change."""

    name: str
    kind: str
    bone: str
    use: bool = False
    weight: float = 1.0
    turn_weight: float = 1.0
    pin: str = "NONE"
    led: bool = False
    """It is animated, parented or constrained: it leads, and is never placed."""


@dataclass
class Live:
    """One character under Live IK, worked out from its collection."""

    collection: str
    rig: Rig
    solver: Solver
    session: Session
    base: dict[str, np.ndarray]
    """All channels of all bones as they would be without Live IK."""
    before: dict[str, np.ndarray]
    """What Cancel writes back."""
    targets: list[Target] = field(default_factory=list)
    """The effectors' in the solver's order, the root's, then the hints."""
    base_rot: np.ndarray = field(default_factory=lambda: np.zeros(0))
    base_root: np.ndarray = field(default_factory=lambda: np.zeros(0))
    base_rows: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E + 1, 7) places [m, rig space] and orientations of the effectors and the root in the base pose."""
    rest: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E + 1, 4) rest orientations of the same."""
    unrest: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(E, 4, 4) quaternions (w, x, y, z), as rows, to those relative to the rest."""
    plain: bool = False
    """All bones hang on each other and turn by quaternions: a pose is written in one go."""
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    turn_weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    rest_turns: list[Quaternion] = field(default_factory=list)
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(J, 4, 4) rest matrix of each bone relative to its parent's."""
    motion: tuple[float, float] = (0.0, 0.0)
    """Phase and task value of the base pose."""
    seen: np.ndarray | None = None
    """(T, 7) the targets at the last solve; None: take them as they are next time."""
    placed: np.ndarray | None = None
    """(T, 7) where Live IK itself put them, in the world."""
    touched: dict[str, np.ndarray] = field(default_factory=dict)
    """Where targets stood (7, in the world) that were switched on by being moved: back there, they are off again."""
    dirty: bool = True
    fresh: bool = False
    """It was just made from the file: nothing is solved before something moves."""
    written: dict[str, np.ndarray] | None = None
    """The channels before a frame change."""
    shown: np.ndarray | None = None
    """(J, 4) quaternions of the pose that was solved last."""
    shown_root: np.ndarray | None = None
    goals: Goals | None = None
    solution: Solution | None = None
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=200))
    """[s] reading, solving and writing, of the last updates."""
    solves: int = 0
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    why: Explanation | None = None
    why_for: Goals | None = None
    colors: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def latency(self) -> float:
        """[s] median of the last updates; 0 before the first."""
        return float(np.median(self.seconds)) if self.seconds else 0.0


lives: dict[str, Live] = {}
"""By the name of the collection."""
_paused = False


# ---- looking things up


def collections() -> list[bpy.types.Collection]:
    """The collections of all characters under Live IK in this file."""
    every: Any = bpy.data.collections
    return [c for c in every if c.neural_ik_live.live]


def collection_of(ob: bpy.types.Object) -> bpy.types.Collection | None:
    """The collection with the targets of ``ob``; None where it is not live."""
    return next((c for c in collections() if _settings(c).armature == ob), None)


def chosen(context: bpy.types.Context) -> bpy.types.Collection | None:
    """The collection that is meant: that of the active target or character, or the only one there is."""
    found = collections()
    active = context.active_object
    for collection in found:
        if active is not None and (active == _settings(collection).armature or active.name in collection.objects):
            return collection
    return found[0] if len(found) == 1 else None


def live_of(collection: bpy.types.Collection) -> Live | None:
    """What was worked out of it; None where that is not possible (no weights, deleted bones)."""
    if collection.name not in lives:
        sync()
    return lives.get(collection.name)


def _settings(collection: Any) -> Any:
    return collection.neural_ik_live


def target_objects(collection: bpy.types.Collection) -> dict[tuple[str, str], bpy.types.Object]:
    """(kind, role) -> object."""
    found: dict[tuple[str, str], bpy.types.Object] = {}
    for ob in collection.objects:
        own: Any = ob
        settings = own.neural_ik_target
        if settings.kind != "NONE":
            found.setdefault((settings.kind, settings.bone), ob)
    return found


def weights() -> Network:
    """The network in memory, loaded first where there is none yet. Raises ValueError or OSError."""
    keep = memory.memory
    if keep.network is None:
        path, shipped = memory.weights_to_load()
        if not path.exists():
            raise ValueError("no weights: press Train, or Load Weights, first")
        keep.network = network.load(path)
        keep.network_from = "came with Neural IK" if shipped else path.name
    return keep.network


def changed(owner: bpy.types.ID) -> None:
    """A setting changed on a target or a collection: solve at Blender's next update."""
    for live in lives.values():
        collection = bpy.data.collections.get(live.collection)
        if collection is None or not (owner == collection or owner.name in collection.objects):
            continue
        live.dirty = True
        ob = _settings(collection).armature
        if ob is not None:
            ob.update_tag(refresh={"OBJECT"})


# ---- starting and ending


def start(
    context: bpy.types.Context, ob: bpy.types.Object, all_on: bool = False, mode: str = "OFFSET"
) -> bpy.types.Collection:
    """Put targets where the body of ``ob`` is; from then on moving one moves the body.

    ``all_on`` switches every target on, else only the feet hold. Raises ValueError, in words, for what cannot work.
    """
    net = weights()
    if collection_of(ob) is not None:
        raise ValueError(f"{ob.name} is live already: Apply or Cancel first")
    if ob.name not in context.view_layer.objects:
        raise ValueError(f"{ob.name} is not in this view layer")
    if getattr(ob.data, "pose_position", "POSE") == "REST":
        raise ValueError(f"{ob.name} is shown in Rest Position: switch to Pose Position (Armature properties)")
    rig = live_rig.usable(ob, net)
    remove_dead()
    context.view_layer.update()
    mode_before = ob.mode
    if context.mode != "OBJECT" and _mode_can_change():
        bpy.ops.object.mode_set(mode="OBJECT")
    channels = runtime.snapshot(ob)
    collection: Any = bpy.data.collections.new(f"Neural IK {ob.name}")
    context.scene.collection.children.link(collection)
    settings = collection.neural_ik_live
    settings.armature, settings.mode_before, settings.mode = ob, mode_before, mode
    settings.ground = float(ob.matrix_world.translation.z)
    collection[BONES] = "\n".join(rig.bones)
    collection[FRAME] = context.scene.frame_current_final
    store(collection, BASE, channels)
    store(collection, BEFORE, channels)
    live = _make(collection, ob, rig, net)
    _add_targets(context, collection, live, ob, all_on)
    settings.live = True
    context.view_layer.update()
    refresh(live, collection)
    take_as_they_are(live, ob)
    live.notes = live_rig.notes(rig, channels) + ([live.solver.warning] if live.solver.warning else [])
    lives[collection.name] = live
    _select_lead(context, collection)
    return collection


def _make(collection: bpy.types.Collection, ob: bpy.types.Object, rig: Rig, net: Network) -> Live:
    """A Live from what lies in the collection."""
    return worked_out(collection.name, ob, rig, net, load(collection, BASE, rig), load(collection, BEFORE, rig))


def worked_out(
    name: str,
    ob: bpy.types.Object,
    rig: Rig,
    net: Network,
    base: dict[str, np.ndarray],
    before: dict[str, np.ndarray],
) -> Live:
    """Everything that solving needs, for a pose to build on and one to go back to."""
    solver = Solver(net, rig.skeleton)
    live = Live(name, rig, solver, solver.session(), base, before)
    skeleton = rig.skeleton
    ends = [*skeleton.effectors, 0]
    live.rest = rotations.quaternion_from_matrix(skeleton.rest_arm[ends, :3, :3])
    live.rest_turns = [Quaternion(q) for q in live.rest.tolist()]
    live.unrest = np.stack([right_product(q) for q in rotations.quaternion_conjugate(live.rest[:-1])])
    live.plain = rig.simple and all(rig.modes[b] == "QUATERNION" for b in rig.index.tolist())
    live.steps = skeleton.rest_arm.copy()
    live.steps[1:] = np.linalg.inv(skeleton.rest_arm[skeleton.parents[1:]]) @ skeleton.rest_arm[1:]
    anchor(live, ob)
    return live


def anchor(live: Live, ob: bpy.types.Object) -> None:
    """Build on the base pose: the network then only changes it."""
    live.base_rot, live.base_root = live_rig.pose_of(ob, live.rig, live.base)
    posed = pose_matrices(live, rotations.matrix_from_axis_angle(live.base_rot), live.base_root)
    ends = [*live.rig.skeleton.effectors, 0]
    live.base_rows = np.concatenate([posed[ends, :3, 3], rotations.quaternion_from_matrix(posed[ends, :3, :3])], axis=1)
    live.motion = phase, task = motion(ob)
    rows = live.base_rows
    goals = Goals(rows[:-1, :3], live.base_root, live.base_rot[0], turned(live, rows[:-1, 3:]), phase=phase, task=task)
    live.session.anchor(goals, live.base_rot)


def pose_matrices(live: Live, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(J, 4, 4) [m, rig space] of rot_local as matrices (J, 3, 3): forward_kinematics.armature_matrices for one pose, sooner."""
    own = np.zeros((len(turns), 4, 4))
    own[:, :3, :3], own[:, 3, 3] = turns, 1
    own = live.steps @ own
    own[0, :3, 3] = root
    for j, parent in enumerate(live.rig.skeleton.parents.tolist()):
        if parent >= 0:
            own[j] = own[parent] @ own[j]
    return own


def turned(live: Live, quaternions: np.ndarray) -> np.ndarray:
    """log(R R_rest^T) (E, 3) [rad] of the effectors' orientations (E, 4); as in rotations.py, in fewer steps."""
    q = np.matmul(quaternions[:, None, :], live.unrest)[:, 0]
    q *= np.where(q[:, :1] < 0, -1.0, 1.0)
    lean = np.sqrt(np.einsum("nc,nc->n", q[:, 1:], q[:, 1:])) + 1e-30
    return q[:, 1:] * (2 * np.arctan2(lean, q[:, 0]) / lean)[:, None]


def _add_targets(
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
        if role not in live_rig.LIMBS:
            continue
        upper, lower, end = limb(skeleton.parents, skeleton.rest_arm[:, :3, 3], effector)
        place = np.array([*_hint_place(posed, upper, lower, end, skeleton.leg_length, skeleton.axes), 1.0, 0, 0, 0])
        wanted.append(("HINT", role, place, "PLAIN_AXES", 0.6 * size))
    to_world = _from_rig(live, ob)
    for kind, role, seat, shape, extent in wanted:
        if (kind, role) in there:
            continue
        word = {"HINT": f" {live_rig.LIMBS.get(role, '')}"}.get(kind, "")
        target: Any = bpy.data.objects.new(f"{ob.name} {role}{word}", None)
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


def _mode_can_change() -> bool:
    operator: Any = bpy.ops.object.mode_set
    return bool(operator.poll())


def roles(live: Live) -> list[str]:
    """The effectors by their roles."""
    known = live.rig.roles
    return [known[e] if e < len(known) else live.rig.skeleton.names[e] for e in live.rig.skeleton.effectors]


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


def _select_lead(context: bpy.types.Context, collection: bpy.types.Collection) -> None:
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


def end(context: bpy.types.Context, collection: bpy.types.Collection, keep: bool) -> None:
    """Remove the targets; ``keep`` leaves the pose as it is shown, else every bone goes back."""
    settings = _settings(collection)
    ob, mode = settings.armature, settings.mode_before
    if ob is not None and not keep:
        restore(ob, collection)
    lives.pop(collection.name, None)
    remove(collection)
    if ob is None or ob.name not in context.view_layer.objects:
        return
    if context.mode == "OBJECT":
        for other in list(context.selected_objects):
            other.select_set(False)
        ob.select_set(True)
        context.view_layer.objects.active = ob
        if mode == "POSE" and _mode_can_change():
            bpy.ops.object.mode_set(mode="POSE")
    context.view_layer.update()


def restore(ob: bpy.types.Object, collection: bpy.types.Collection) -> None:
    """Every bone as it was before Live IK; bones that were renamed or deleted meanwhile are left out."""
    channels = _loaded(collection, BEFORE)
    names = str(collection.get(BONES, "")).split("\n")
    if names == [pb.name for pb in ob.pose.bones]:
        runtime.restore(ob, channels)
        return
    for row, name in enumerate(names):
        pb = ob.pose.bones.get(name)
        for channel, size in CHANNELS.items() if pb is not None else ():
            setattr(pb, channel, channels[channel].reshape(-1, size)[row].tolist())
    ob.update_tag(refresh={"OBJECT", "DATA"})


def remove(collection: bpy.types.Collection) -> None:
    """Delete a collection of targets and all targets in it."""
    for target in list(collection.objects):
        own: Any = target
        if own.neural_ik_target.kind != "NONE":
            bpy.data.objects.remove(target)
    bpy.data.collections.remove(collection)


def remove_dead() -> None:
    """Delete the targets of characters that are there no more."""
    scenes: Any = bpy.data.scenes
    for collection in collections():
        ob = _settings(collection).armature
        if ob is None or not any(ob.name in scene.objects for scene in scenes):
            lives.pop(collection.name, None)
            remove(collection)


def store(collection: Any, key: str, channels: dict[str, np.ndarray]) -> None:
    """Keep channels in the file."""
    collection[key] = np.concatenate([channels[name] for name in CHANNELS]).astype(np.float64).tolist()


def _loaded(collection: Any, key: str) -> dict[str, np.ndarray]:
    flat = np.array(collection[key], np.float32)
    count = len(flat) // sum(CHANNELS.values())
    out, at = {}, 0
    for name, size in CHANNELS.items():
        out[name] = flat[at : at + count * size].copy()
        at += count * size
    return out


def load(collection: Any, key: str, rig: Rig) -> dict[str, np.ndarray]:
    """Channels kept in the file. Raises ValueError where the rig has other bones now."""
    channels = _loaded(collection, key)
    if len(channels["scale"]) != 3 * len(rig.bones):
        raise ValueError("bones were added or deleted since Live IK began: Cancel, and start again")
    return channels


# ---- between Blender's world and the rig


def to_rig(live: Live, ob: bpy.types.Object) -> Matrix:
    """World to rig space. The object may move meanwhile: its bones then move with it, and so does rig space."""
    turn = Matrix((live.rig.turn * live.rig.unit).tolist()).to_4x4()
    return turn @ ob.matrix_world.inverted_safe()


def _from_rig(live: Live, ob: bpy.types.Object) -> Matrix:
    return to_rig(live, ob).inverted_safe()


def read_targets(live: Live, ob: bpy.types.Object) -> tuple[np.ndarray, np.ndarray]:
    """Place and orientation (w, x, y, z) of every target (T, 7): in rig space [m], and in the world [Blender units].

    A deleted target has no place: zeros.
    """
    objects: Any = bpy.data.objects
    into = to_rig(live, ob)
    rows, world = [], []
    for target in live.targets:
        if not target.use and target.kind == "HINT":
            rows.append(_NOWHERE)
            world.append(_NOWHERE)
            continue
        found = objects.get(target.name) if target.name else None
        if found is None:
            live.dirty |= bool(target.name)
            rows.append(_NOWHERE)
            world.append(_NOWHERE)
            continue
        matrix = found.matrix_world
        world.append((*matrix.translation, *matrix.to_quaternion()))
        matrix = into @ matrix
        rows.append((*matrix.translation, *matrix.to_quaternion()))
    return np.array(rows).reshape(-1, 7), np.array(world).reshape(-1, 7)


def take_as_they_are(live: Live, ob: bpy.types.Object) -> None:
    """The targets stand where they should: nothing is solved before one moves."""
    live.seen, live.placed = read_targets(live, ob)
    live.touched.clear()
    live.dirty = live.fresh = False


def place_at(target: Any, row: np.ndarray, to_world: Matrix) -> None:
    """Put a target at a row (7) of rig space."""
    values = row.tolist()
    _place(target, values[:3], Quaternion(values[3:]), to_world)


def _place(target: Any, place: list[float], turn: Quaternion, to_world: Matrix) -> tuple[float, ...]:
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


def refresh(live: Live, collection: bpy.types.Collection) -> None:
    """Read the settings of all targets."""
    found = target_objects(collection)
    order = [("EFFECTOR", role) for role in roles(live)] + [("ROOT", ROOT)]
    order += [("HINT", role) for role in roles(live) if role in live_rig.LIMBS]
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


# ---- solving


def motion(ob: bpy.types.Object) -> tuple[float, float]:
    """Phase and task value as timeline and action tell them; a character without an action stands still at phase 0."""
    data = ob.animation_data
    action: Any = data.action if data is not None else None
    if action is None:
        return 0.0, dataset_task("locomotion")
    start, end = action.frame_range
    scene = bpy.context.scene
    phase = (scene.frame_current_final - start) / max(end - start, 1e-6)
    task = action.neural_ik.task
    name = dataset.guess_task(action.name) if task == "GUESS" else task
    return float(min(max(phase, 0.0), 1.0)), dataset_task(name)


def dataset_task(name: str) -> float:
    """The task input for a task's name."""
    from ..context import task_value

    return task_value(name)


def update(
    live: Live, scene: bpy.types.Scene, depsgraph: Any, force: bool = False, placed: np.ndarray | None = None
) -> bool:
    """Solve and write one character if a target or a setting changed; True where it was solved.

    ``placed`` (T, 7) are targets that were just put there, and that Blender has not evaluated yet.
    """
    began = time.perf_counter()
    collection = bpy.data.collections.get(live.collection)
    if collection is None or collection.name not in scene.collection.children:
        return False
    settings = _settings(collection)
    ob = settings.armature
    if ob is None or ob.mode == "EDIT" or ob.name not in scene.objects:
        return False
    if live.dirty:
        refresh(live, collection)
    if live.fresh:
        take_as_they_are(live, ob)
        return False
    rows, world = read_targets(live, ob)
    if live.dirty:  # one of them was deleted
        refresh(live, collection)
    if placed is not None and len(placed) == len(rows):
        rows = np.where(np.array([[t.led] for t in live.targets]), rows, placed)
    if settings.touch and not force:
        _switch_on(live, world, metres(ob))
    if live.seen is not None and not live.dirty and not force:
        used = [r for r, t in enumerate(live.targets) if t.use]
        if np.array_equal(rows[used], live.seen[used]):
            return False
    live.dirty = False
    try:
        _solve(live, ob, settings, rows, world, scene, depsgraph)
    except ValueError as error:
        live.problem, live.seen = str(error), rows
        return False
    live.problem = ""
    live.seconds.append(time.perf_counter() - began)
    live.solves += 1
    return True


def _switch_on(live: Live, world: np.ndarray, unit: float) -> None:
    """Targets that are off and were moved by somebody are on from now on."""
    if live.placed is None or len(live.placed) != len(world):
        return
    for row, target in enumerate(live.targets):
        if target.kind == "HINT" or not target.name or (target.use and target.name not in live.touched):
            continue
        place = live.touched[target.name] if target.use else live.placed[row]
        if _differs(world[row], place, MOVED[0] * live.rig.skeleton.leg_length / unit) == target.use:
            continue
        if target.use:  # a drag that was taken back
            del live.touched[target.name]
        else:
            live.touched[target.name] = place.copy()
        target.use = not target.use
        live.dirty = True
        ob: Any = bpy.data.objects[target.name]
        ob.neural_ik_target.use = target.use
        _weigh(live)


def _differs(a: np.ndarray, b: np.ndarray, far: float, turned: float = MOVED[1]) -> bool:
    """Whether two places (7) are more than ``far`` or ``turned``, 1 - |cos of half the angle|, apart."""
    x, y, z, *turn = (a - b).tolist()
    if max(abs(x), abs(y), abs(z)) > far:
        return True
    return any(turn) and 1 - abs(float(a[3:] @ b[3:])) > turned


def _solve(live: Live, ob: Any, settings: Any, rows: np.ndarray, world: np.ndarray, scene: Any, depsgraph: Any) -> None:
    """Goals from the targets, the solver's answer, and the pose written."""
    count = len(live.rig.skeleton.effectors)
    effectors, root = live.targets[:count], live.targets[count]
    ends = rows[: count + 1].copy()
    for row, target in enumerate(effectors):
        if not target.use or not target.name:
            ends[row] = live.base_rows[row]
        elif target.pin != "NONE":
            _pin(live, ob, settings, target, row, ends, scene, depsgraph)
    free = not root.use or not root.name or root.weight == 0
    hips = live.base_rows[count] if free else ends[count]
    if not free and (root.weight < 1 or root.turn_weight < 1):
        hips = _between(live.base_rows[count], hips, root.weight, root.turn_weight)
    root_turn = live.rest_turns[count].conjugated() @ Quaternion(hips[3:].tolist())
    phase, task = live.motion
    if settings.motion == "MANUAL":
        phase, task = settings.phase, dataset_task(settings.task)
    live.goals = Goals(
        ends[:count, :3],
        hips[:3],
        np.array(root_turn.to_exponential_map()),
        turned(live, ends[:count, 3:]),
        weights=live.weights,
        orientation_weights=live.turn_weights,
        phase=phase,
        task=task,
        ground=(settings.ground - ob.matrix_world.translation.z) * metres(ob),
    )
    solution = live.session.solve(live.goals, STEPS, settings.limits, free)
    quaternions, place = solution.quaternions, solution.root_pos
    for row, target in enumerate(live.targets[count + 1 :], count + 1):
        if target.use and target.name:
            quaternions = _swivel(live, quaternions, place, target, rows[row, :3])
    if settings.strength < 1:
        base = rotations.quaternion_from_axis_angle(live.base_rot)
        step = rotations.quaternion_multiply(rotations.quaternion_conjugate(base), quaternions)
        step = rotations.axis_angle_from_quaternion(step) * settings.strength
        quaternions = rotations.quaternion_multiply(base, rotations.quaternion_from_axis_angle(step))
        place = live.base_root + settings.strength * (place - live.base_root)
    live.solution, live.shown, live.shown_root = solution, quaternions, place
    mask = selected(ob, live.rig) if settings.selected_only else None
    if _unmoved(live, ob, ends, settings):
        # what the solver says is the base pose too, but for roundings: those of undo and back must not show
        quaternions, place = rotations.quaternion_from_axis_angle(live.base_rot), live.base_root
        live.shown, live.shown_root = quaternions, place
        _write_base(ob, live)
    else:
        write(ob, live.rig, quaternions, place, mask, live.base, live.plain)
    live.seen = rows
    live.placed = world
    _follow(live, ob, free)
    _colour(live)


def _unmoved(live: Live, ob: bpy.types.Object, ends: np.ndarray, settings: Any) -> bool:
    """Whether all targets that are on stand where the base pose has them."""
    if settings.motion == "MANUAL" or settings.limits or any(t.use for t in live.targets[len(live.base_rows) :]):
        return False
    on = [row for row, target in enumerate(live.targets[: len(live.base_rows)]) if target.use and target.name]
    rounding = 4e-7 * ob.matrix_world.translation.length * metres(ob)  # of float32 places far from the world's origin
    far = UNMOVED * live.rig.skeleton.leg_length + rounding
    return all(not _differs(ends[row], live.base_rows[row], far, UNMOVED) for row in on)


def _write_base(ob: bpy.types.Object, live: Live) -> None:
    """The controlled bones as the base pose has them, to the last digit."""
    bones, rig = ob.pose.bones, live.rig
    for name in ("rotation_quaternion", "rotation_euler", "rotation_axis_angle"):
        size = CHANNELS[name]
        now = np.empty(len(rig.bones) * size, np.float32)
        bones.foreach_get(name, now)
        now.reshape(-1, size)[rig.index] = live.base[name].reshape(-1, size)[rig.index]
        bones.foreach_set(name, now)
    root = int(rig.index[0])
    bones[root].location = live.base["location"].reshape(-1, 3)[root].tolist()
    ob.update_tag(refresh={"OBJECT", "DATA"})


def _between(a: np.ndarray, b: np.ndarray, share: float, turn_share: float) -> np.ndarray:
    """A row (7) on the way from ``a`` to ``b``."""
    turn = Quaternion(a[3:].tolist()).slerp(Quaternion(b[3:].tolist()), turn_share)
    return np.array([*(a[:3] + share * (b[:3] - a[:3])), *turn])


def _pin(
    live: Live, ob: Any, settings: Any, target: Target, row: int, ends: np.ndarray, scene: Any, depsgraph: Any
) -> None:
    """Bring a target down, or up, to the ground: as high above it as the bone's head is in the rest pose of a foot."""
    skeleton = live.rig.skeleton
    bone = skeleton.effectors[row]
    above = float(skeleton.foot_rest[skeleton.feet.index(bone), 0]) if bone in skeleton.feet else 0.0
    to_world = _from_rig(live, ob)
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


def _swivel(live: Live, quaternions: np.ndarray, root: np.ndarray, target: Target, hint: np.ndarray) -> np.ndarray:
    """Turn a limb about the line from its first joint to its end, so that elbow or knee looks to the hint; the end stays exact."""
    skeleton = live.rig.skeleton
    effector = skeleton.effectors[roles(live).index(target.bone)]
    upper, lower, end = limb(skeleton.parents, skeleton.rest_arm[:, :3, 3], effector)
    turns = rotations.matrix_from_quaternion(quaternions)
    posed = pose_matrices(live, turns, root)
    top = posed[upper, :3, 3]
    axis = posed[end, :3, 3] - top
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        return quaternions
    axis = axis / length
    now, aim = (point - top - axis * (axis @ (point - top)) for point in (posed[lower, :3, 3], hint))
    angle = float(np.arctan2(axis @ np.cross(now, aim), now @ aim)) * target.weight
    turn = rotations.matrix_from_axis_angle(axis * angle)
    out = quaternions.copy()
    for bone, matrix in ((upper, turn @ posed[upper, :3, :3]), (end, turn.T @ posed[end, :3, :3])):
        frame = posed[bone, :3, :3] @ turns[bone].T  # what the bone's own rotation stands on
        out[bone] = rotations.quaternion_from_matrix(frame.T @ matrix)
    return out


def selected(ob: bpy.types.Object, rig: Rig) -> np.ndarray:
    """(J) bool: which controlled bones are selected."""
    bones: Any = ob.pose.bones
    old = not hasattr(bpy.types.PoseBone, "select") and "select" not in bpy.types.PoseBone.bl_rna.properties
    return np.array([(bones[i].bone if old else bones[i]).select for i in rig.index.tolist()], bool)


def write(
    ob: bpy.types.Object,
    rig: Rig,
    quaternions: np.ndarray,
    root_pos: np.ndarray,
    mask: np.ndarray | None = None,
    base: dict[str, np.ndarray] | None = None,
    plain: bool = False,
) -> None:
    """Pose the controlled bones: rot_local (J, 4), root's head (3) [m, rig space]; with ``mask`` (J) the others go to ``base``.

    As runtime.apply, in fewer steps for a ``plain`` rig: all bones hang on each other and turn by quaternions.
    """
    bones = ob.pose.bones
    if mask is not None and not mask.all():
        assert base is not None
        known, head = live_rig.pose_of(ob, rig, base)
        quaternions = np.where(mask[:, None], quaternions, rotations.quaternion_from_axis_angle(known))
        root_pos = root_pos if mask[0] else head
    if not plain:
        runtime.apply(ob, rig, rotations.axis_angle_from_quaternion(quaternions), root_pos)
        return
    written = np.empty(len(rig.bones) * 4, np.float32)
    bones.foreach_get("rotation_quaternion", written)
    rows = written.reshape(-1, 4)
    before = rows[rig.index]
    side = np.where(np.einsum("jc,jc->j", before, quaternions) < 0, -1.0, 1.0)
    rows[rig.index] = quaternions * side[:, None]
    bones.foreach_set("rotation_quaternion", written)
    root = int(rig.index[0])
    if not rig.connected[root]:
        rest = rig.rest[root]
        bones[root].location = rest[:3, :3].T @ (rig.turn.T @ root_pos / rig.unit - rest[:3, 3])
    ob.update_tag(refresh={"OBJECT", "DATA"})


def _follow(live: Live, ob: bpy.types.Object, free: bool) -> None:
    """Targets that are off go where the body went."""
    assert live.goals is not None
    assert live.solution is not None
    assert live.placed is not None
    count = len(live.rig.skeleton.effectors)
    off = [r for r, t in enumerate(live.targets[: count + 1]) if not t.use and t.name and not t.led]
    if not off:
        return
    to_world = _from_rig(live, ob)
    places, ends = live.session.ends(live.goals)
    rest = live.rest_turns
    for row in off:
        if row == count:
            if not free:
                continue
            place, turn = live.solution.root_pos, rest[row] @ Quaternion(live.solution.quaternions[0].tolist())
        else:
            place, turn = places[row], Quaternion(ends[row].tolist()) @ rest[row]
        live.placed[row] = _place(bpy.data.objects[live.targets[row].name], place.tolist(), turn, to_world)


def _colour(live: Live) -> None:
    """Green: reached; yellow: missed by less than a centimetre; red: by more; grey: off."""
    assert live.solution is not None
    for target, error in zip(live.targets, live.solution.error.tolist(), strict=False):
        if not target.name:
            continue
        colour = GREY if not target.use else GREEN if error < REACHED else YELLOW if error < NEAR else RED
        if live.colors.get(target.name) != colour:
            live.colors[target.name] = colour
            bpy.data.objects[target.name].color = colour


def explain(live: Live) -> Explanation | None:
    """Why this pose; worked out once for each solve, when somebody asks."""
    if live.goals is None:
        return None
    if live.why_for is not live.goals:
        live.why = live.solver.explain(live.goals)
        live.why_for = live.goals
    return live.why


# ---- new ground to stand on


def rebase(live: Live, collection: bpy.types.Collection, ob: bpy.types.Object, also_before: bool) -> None:
    """Take the pose that the bones hold now as the one that Live IK changes; targets that are on keep their places."""
    live.base = runtime.snapshot(ob)
    if also_before:
        live.before = {name: values.copy() for name, values in live.base.items()}
        store(collection, BEFORE, live.before)
    store(collection, BASE, live.base)
    anchor(live, ob)


def put_back_targets(live: Live, ob: bpy.types.Object) -> None:
    """All targets where the base pose has them."""
    to_world = _from_rig(live, ob)
    for target, row in zip(live.targets, live.base_rows, strict=False):
        if target.name and not target.led:
            place_at(bpy.data.objects[target.name], row, to_world)


def ride(live: Live, collection: bpy.types.Collection, ob: bpy.types.Object) -> np.ndarray | None:
    """The animation moved the bones to another frame: that is the new base, and targets go along with it.

    Returns where they are now (T, 7); None where they stay.
    """
    now = runtime.snapshot(ob)
    old = live.base_rows
    if live.written is not None:
        for name, values in now.items():
            other = values != live.written[name]
            live.base[name] = np.where(other, values, live.base[name])
            live.before[name] = np.where(other, values, live.before[name])
    store(collection, BASE, live.base)
    store(collection, BEFORE, live.before)
    keep: Any = collection
    keep[FRAME] = bpy.context.scene.frame_current_final
    if _settings(collection).mode == "INSTEAD":
        return None
    anchor(live, ob)
    rows = live.seen
    if rows is None or len(rows) < len(live.targets):
        return None
    turn = _heading_turn(live, old[-1], live.base_rows[-1])
    to_world = _from_rig(live, ob)
    after = rows.copy()
    for row, target in enumerate(live.targets):
        if not target.name or target.led or (row < len(old) and not target.use) or target.pin != "NONE":
            continue
        if row < len(old):
            after[row, :3] = live.base_rows[row, :3] + turn @ (rows[row, :3] - old[row, :3])
            off = rotations.quaternion_multiply(rows[row, 3:], rotations.quaternion_conjugate(old[row, 3:]))
            after[row, 3:] = rotations.quaternion_multiply(off, live.base_rows[row, 3:])
        else:
            after[row, :3] = live.base_rows[-1, :3] + turn @ (rows[row, :3] - old[-1, :3])
        if np.abs(after[row] - rows[row]).max() > 1e-9:
            place_at(bpy.data.objects[target.name], after[row], to_world)
    return after


def _heading_turn(live: Live, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """(3, 3) turn about up between two poses of the Hips (7): offsets stay on the same side of the body."""
    axes = live.rig.skeleton.axes
    rest = rotations.matrix_from_quaternion(live.rest[-1])
    angles = []
    for row in (old, new):
        root = axes @ rotations.matrix_from_quaternion(row[3:]) @ rest.T @ axes.T
        angles.append(np.arctan2(root[1, 0], root[0, 0]))
    return axes.T @ rotations.matrix_from_axis_angle(np.array([0, 0, angles[1] - angles[0]])) @ axes


# ---- Blender's calls


def sync(fresh: bool = False, solved: bool = True) -> None:
    """Make the Lives again from what lies in the file; ``fresh`` after undo or load, when nothing known holds any more.

    ``solved``: the bones hold the solved pose; else, as after loading a file, what the action says.
    """
    if fresh:
        lives.clear()
    found = collections()
    for name in set(lives) - {c.name for c in found}:
        del lives[name]
    for collection in found:
        ob = _settings(collection).armature
        if collection.name in lives or ob is None:
            continue
        try:
            net = weights()
            live = _make(collection, ob, live_rig.fit(ob, net), net)
        except (ValueError, OSError):
            continue  # Cancel works without
        refresh(live, collection)
        live.fresh = solved
        lives[collection.name] = live


def _depsgraph_is_for_the_window(depsgraph: Any) -> bool:
    return depsgraph is None or depsgraph.mode == "VIEWPORT"


def _after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if not lives or _paused or not _depsgraph_is_for_the_window(depsgraph):
        return
    for live in list(lives.values()):
        if live.collection not in bpy.data.collections:
            sync()
        elif depsgraph is not None and depsgraph.id_type_updated("ARMATURE"):
            _renamed(live)
        update(live, scene, depsgraph)


def _renamed(live: Live) -> None:
    """Bones may have other names now, or be others."""
    collection: Any = bpy.data.collections.get(live.collection)
    ob = _settings(collection).armature if collection is not None else None
    if ob is None or ob.mode == "EDIT" or ob.pose is None:
        return
    names = tuple(pb.name for pb in ob.pose.bones)
    if names == live.rig.bones:
        return
    if len(names) == len(live.rig.bones):
        from dataclasses import replace

        live.rig = replace(live.rig, bones=names)
        collection[BONES] = "\n".join(names)
    else:
        del lives[live.collection]
        sync()


def _before_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if not lives or _paused or not _depsgraph_is_for_the_window(depsgraph):
        return
    for live in lives.values():
        collection = bpy.data.collections.get(live.collection)
        ob = _settings(collection).armature if collection is not None else None
        if ob is not None and ob.name in scene.objects and ob.pose is not None:
            live.written = runtime.snapshot(ob)


def _after_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if not lives or _paused or not _depsgraph_is_for_the_window(depsgraph):
        return
    for live in list(lives.values()):
        collection = bpy.data.collections.get(live.collection)
        ob = _settings(collection).armature if collection is not None else None
        if ob is None or ob.name not in scene.objects or ob.mode == "EDIT":
            continue
        if len(runtime.snapshot(ob)["scale"]) != len(live.base["scale"]):
            continue
        placed = ride(live, collection, ob)
        update(live, scene, depsgraph, force=True, placed=placed)


def _before_undo(*_: object) -> None:
    global _paused
    _paused = True


def _after_undo(*_: object) -> None:
    global _paused
    _paused = False
    sync(fresh=True, solved=False)
    if _late() and not bpy.app.background:
        bpy.app.timers.register(_catch_up, first_interval=0.0)


def _late() -> bool:
    """Whether the bones hold the pose of another frame: Blender takes undo steps of a frame change before it evaluates it."""
    scene = bpy.context.scene
    every: Any = collections()
    return any(FRAME in c and c[FRAME] != scene.frame_current_final for c in every)


def _catch_up() -> None:
    scene = bpy.context.scene
    if _late():
        bpy.context.view_layer.update()  # targets have no places yet
        scene.frame_set(scene.frame_current, subframe=scene.frame_subframe)


def _before_load(*_: object) -> None:
    lives.clear()


def _after_load(*_: object) -> None:
    lives.clear()
    if not collections():
        return
    bpy.context.view_layer.update()  # a file's targets have no places before
    sync(fresh=True, solved=False)
    for live in list(lives.values()):
        scene: Any = bpy.context.scene
        update(live, scene, bpy.context.evaluated_depsgraph_get())


def _before_render(*_: object) -> None:
    if lives:
        print("Neural IK: rendering while Live IK is on shows the action without it: Apply and key, or Bake, first")
        for live in lives.values():
            live.notes = [n for n in live.notes if "Render" not in n] + ["Rendered without Live IK: Bake first"]


_HANDLERS = (
    ("depsgraph_update_post", persistent(_after_update)),
    ("frame_change_pre", persistent(_before_frame)),
    ("frame_change_post", persistent(_after_frame)),
    ("undo_pre", persistent(_before_undo)),
    ("redo_pre", persistent(_before_undo)),
    ("undo_post", persistent(_after_undo)),
    ("redo_post", persistent(_after_undo)),
    ("load_pre", persistent(_before_load)),
    ("load_post", persistent(_after_load)),
    ("render_init", persistent(_before_render)),
)


def register() -> None:
    """Watch for updates; pick up what a file holds."""
    for name, handler in _HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)
    if hasattr(bpy.data, "collections"):  # not while Blender is still starting
        sync(fresh=True)


def unregister() -> None:
    """Cancel what is live and watch no more."""
    for collection in collections():
        ob = _settings(collection).armature
        if ob is not None:
            restore(ob, collection)
        remove(collection)
    lives.clear()
    if bpy.app.timers.is_registered(_catch_up):
        bpy.app.timers.unregister(_catch_up)
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)


def collection_settings(live: Live) -> Any:
    """The settings of a live character."""
    return _settings(bpy.data.collections[live.collection])
