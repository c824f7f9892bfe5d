# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK: targets in the scene, and the body solved in the same update that moves one of them.

This is its door: starting and ending, the solve, and Blender's calls. What is known of a character stands in live_state.py,
the targets in live_targets.py, the bones in live_pose.py.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent
from mathutils import Quaternion

from ...core import rotations
from ...ik.network import Network
from ...ik.solver import Goals
from ...motion.tasks import task_value
from ..host import rig_checks, runtime
from ..host.control_rigs import ControlRig
from ..host.rig import Rig, metres
from . import overlay, pose_writing, scene_targets, takeover
from .state import (
    BASE,
    BEFORE,
    BONES,
    FRAME,
    STEPS,
    SWITCHES,
    Live,
    anchor,
    chosen,
    collection_of,
    collections,
    explain,
    lives,
    load,
    settings_of,
    store,
    target_objects,
    turned,
    weights,
    worked_out,
)

__all__ = [
    "Live",
    "chosen",
    "collection_of",
    "collections",
    "end",
    "explain",
    "live_of",
    "lives",
    "start",
    "target_objects",
    "weights",
]

UNMOVED = 1e-6  # [leg lengths], 1 - |cos of half the angle|: float32 places that went to the world and back
RENDERED = "A render shows the action without Live IK"
_paused = False


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
    rig = rig_checks.usable(ob, net, controls=True)
    remove_dead()
    context.view_layer.update()
    mode_before = ob.mode
    if context.mode != "OBJECT" and _mode_can_change():
        bpy.ops.object.mode_set(mode="OBJECT")
    channels = runtime.snapshot(ob)
    taken = takeover.begin(ob, rig, net) if isinstance(rig, ControlRig) else None
    collection: Any = bpy.data.collections.new(f"Neural IK {ob.name}")
    context.scene.collection.children.link(collection)
    settings = collection.neural_ik_live
    settings.armature, settings.mode_before, settings.mode = ob, mode_before, mode
    settings.ground = float(ob.matrix_world.translation.z)
    collection[BONES] = "\n".join(rig.bones)
    collection[FRAME] = context.scene.frame_current_final
    collection[SWITCHES] = taken.switches if taken is not None else {}
    store(collection, BASE, runtime.snapshot(ob))
    store(collection, BEFORE, channels)
    live = _make(collection, ob, rig, net)
    scene_targets.add_targets(context, collection, live, ob, all_on)
    settings.live = True
    context.view_layer.update()
    scene_targets.refresh(live, collection)
    scene_targets.take_as_they_are(live, ob)
    live.notes = rig_checks.notes(rig, channels) + ([live.solver.warning] if live.solver.warning else [])
    if taken is not None:
        live.notes += [taken.note] if taken.note else []
        live.notes.append("The limbs are led by FK while Live IK is on, and after Apply (IK_FK is 1)")
    lives[collection.name] = live
    scene_targets.select_lead(context, collection)
    return collection


def live_of(collection: bpy.types.Collection) -> Live | None:
    """What was worked out of it; None where that is not possible (no weights, deleted bones)."""
    if collection.name not in lives:
        sync()
    return lives.get(collection.name)


def _make(collection: bpy.types.Collection, ob: bpy.types.Object, rig: Rig, net: Network) -> Live:
    """A Live from what lies in the collection."""
    own = settings_of(collection).limits_from == "OWN"
    return worked_out(collection.name, ob, rig, net, load(collection, BASE, rig), load(collection, BEFORE, rig), own)


def remake(collection: Any) -> None:
    """What is worked out of a character holds no more: make it anew, and solve at Blender's next update."""
    if lives.pop(collection.name, None) is None:
        return
    sync(solved=False)
    ob = settings_of(collection).armature
    if ob is not None:
        ob.update_tag(refresh={"OBJECT"})


def end(context: bpy.types.Context, collection: bpy.types.Collection, keep: bool) -> None:
    """Remove the targets; ``keep`` leaves the pose as it is shown, else every bone goes back."""
    settings = settings_of(collection)
    ob, mode = settings.armature, settings.mode_before
    if ob is not None and not keep:
        pose_writing.restore(ob, collection)
    lives.pop(collection.name, None)
    scene_targets.remove(collection)
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


def remove_dead() -> None:
    """Delete the targets of characters that are there no more."""
    scenes: Any = bpy.data.scenes
    for collection in collections():
        ob = settings_of(collection).armature
        if ob is None or not any(ob.name in scene.objects for scene in scenes):
            lives.pop(collection.name, None)
            scene_targets.remove(collection)


def _mode_can_change() -> bool:
    operator: Any = bpy.ops.object.mode_set
    return bool(operator.poll())


# ---- solving


def update(
    live: Live, scene: bpy.types.Scene, depsgraph: Any, force: bool = False, placed: np.ndarray | None = None
) -> bool:
    """Solve and write one character if a target or a setting changed; True where it was solved.

    ``placed`` (T, 7) are targets that were just put there, and that Blender has not evaluated yet.
    """
    began = time.perf_counter()
    collection = bpy.data.collections.get(live.collection)
    if collection is None or not _in_scene(collection, scene):
        return False
    settings = settings_of(collection)
    ob = settings.armature
    if ob is None or ob.mode == "EDIT" or ob.name not in scene.objects:
        return False
    if live.dirty:
        scene_targets.refresh(live, collection)
    if live.fresh:
        scene_targets.take_as_they_are(live, ob)
        return False
    rows, world = scene_targets.read_targets(live, ob)
    if live.dirty:  # one of them was deleted
        scene_targets.refresh(live, collection)
    if placed is not None and len(placed) == len(rows):
        rows = np.where(np.array([[t.led] for t in live.targets]), rows, placed)
    unit = metres(ob)
    if settings.touch and not force:
        scene_targets.switch_on(live, world, unit)
    if live.seen is not None and not live.dirty and not force:
        now, then = rows.tolist(), live.seen.tolist()
        if all(now[r] == then[r] for r, target in enumerate(live.targets) if target.use):
            return False
    live.dirty = False
    try:
        _solve(live, ob, settings, rows, world, scene, depsgraph, unit)
    except ValueError as error:
        live.problem, live.seen = str(error), rows
        return False
    live.problem = ""
    live.seconds.append(time.perf_counter() - began)
    live.solves += 1
    return True


def _in_scene(collection: Any, scene: bpy.types.Scene) -> bool:
    """Whether the targets are in a scene; a character of several scenes is moved in the one that its targets are in."""
    return collection.name in scene.collection.children or collection in scene.collection.children_recursive


def _solve(
    live: Live,
    ob: Any,
    settings: Any,
    rows: np.ndarray,
    world: np.ndarray,
    scene: Any,
    depsgraph: Any,
    unit: float,
) -> None:
    """Goals from the targets, the solver's answer, and the pose written; ``unit``: metres in a Blender unit."""
    count = len(live.rig.skeleton.effectors)
    effectors, root = live.targets[:count], live.targets[count]
    ends = rows[: count + 1].copy()
    for row, target in enumerate(effectors):
        if not target.use or not target.name:
            ends[row] = live.base_rows[row]
        elif target.pin != "NONE":
            scene_targets.pin(live, ob, settings, target, row, ends, scene, depsgraph)
    if live.shift is not None:
        ends[:count, :3] += live.shift
    free = not root.use or not root.name or root.weight == 0
    hips = live.base_rows[count] if free else ends[count]
    if not free and (root.weight < 1 or root.turn_weight < 1):
        hips = _between(live.base_rows[count], hips, root.weight, root.turn_weight)
    root_turn = live.rest_turns[count].conjugated() @ Quaternion(hips[3:].tolist())
    phase, task = live.motion
    if settings.motion == "MANUAL":
        phase, task = settings.phase, task_value(settings.task)
    live.goals = Goals(
        ends[:count, :3],
        hips[:3],
        np.array(root_turn.to_exponential_map()),
        turned(live, ends[:count, 3:]),
        weights=live.weights,
        orientation_weights=live.turn_weights,
        phase=phase,
        task=task,
        ground=(settings.ground - ob.matrix_world.translation.z) * unit,
    )
    solution = live.session.solve(live.goals, STEPS, settings.limits, free)
    quaternions, place = solution.quaternions, solution.root_pos
    for row, target in enumerate(live.targets[count + 1 :], count + 1):
        if target.use and target.name:
            quaternions = pose_writing.swivel(live, quaternions, place, target, rows[row, :3])
    if settings.strength < 1:
        base = rotations.quaternion_from_axis_angle(live.base_rot)
        step = rotations.quaternion_multiply(rotations.quaternion_conjugate(base), quaternions)
        step = rotations.axis_angle_from_quaternion(step) * settings.strength
        quaternions = rotations.quaternion_multiply(base, rotations.quaternion_from_axis_angle(step))
        place = live.base_root + settings.strength * (place - live.base_root)
    live.solution, live.shown, live.shown_root = solution, quaternions, place
    mask = pose_writing.selected(ob, live.rig) if settings.selected_only else None
    if _unmoved(live, ob, ends, settings, unit):
        # what the solver says is the base pose too, but for roundings: those of undo and back must not show
        quaternions, place = rotations.quaternion_from_axis_angle(live.base_rot), live.base_root
        live.shown, live.shown_root = quaternions, place
        pose_writing.write_base(ob, live)
    else:
        pose_writing.write(ob, live.rig, quaternions, place, mask, live.base, live.plain)
    live.seen = rows
    live.placed = world
    scene_targets.follow(live, ob, free)
    scene_targets.colour(live)


def _unmoved(live: Live, ob: bpy.types.Object, ends: np.ndarray, settings: Any, unit: float) -> bool:
    """Whether all targets that are on stand where the base pose has them."""
    rounding = 4e-7 * ob.matrix_world.translation.length * unit  # of float32 places far from the world's origin
    far = UNMOVED * live.rig.skeleton.leg_length + rounding
    for target, now, base in zip(live.targets, ends.tolist(), live.base_rows.tolist(), strict=False):
        if target.use and target.name and scene_targets.differs(now, base, far, UNMOVED):
            return False
    hinted = any(target.use for target in live.targets[len(live.base_rows) :])
    return not (hinted or settings.limits or settings.motion == "MANUAL")


def _between(a: np.ndarray, b: np.ndarray, share: float, turn_share: float) -> np.ndarray:
    """A row (7) on the way from ``a`` to ``b``."""
    turn = Quaternion(a[3:].tolist()).slerp(Quaternion(b[3:].tolist()), turn_share)
    return np.array([*(a[:3] + share * (b[:3] - a[:3])), *turn])


# ---- new ground to stand on


def rebase(live: Live, collection: bpy.types.Collection, ob: bpy.types.Object, also_before: bool) -> None:
    """Take the pose that the bones hold now as the one that Live IK changes; targets that are on keep their places."""
    live.base = runtime.snapshot(ob)
    if also_before:
        live.before = {name: values.copy() for name, values in live.base.items()}
        store(collection, BEFORE, live.before)
        own: Any = collection
        own[SWITCHES] = dict.fromkeys(pose_writing.switches(collection), 1.0)
    store(collection, BASE, live.base)
    anchor(live, ob)


def ride(live: Live, collection: Any, ob: bpy.types.Object) -> np.ndarray | None:
    """The animation moved the bones to another frame: that is the new base, and targets go along with it.

    Returns where they are now (T, 7); None where they stay.
    """
    now = runtime.snapshot(ob)
    old = live.base_rows
    if isinstance(live.rig, ControlRig):
        live.before = now
        collection[SWITCHES] = takeover.take(live, ob, live.rig).switches
        live.base = runtime.snapshot(ob)
    elif live.written is not None:
        for name, values in now.items():
            other = values != live.written[name]
            live.base[name] = np.where(other, values, live.base[name])
            live.before[name] = np.where(other, values, live.before[name])
    store(collection, BASE, live.base)
    store(collection, BEFORE, live.before)
    keep: Any = collection
    keep[FRAME] = bpy.context.scene.frame_current_final
    if settings_of(collection).mode == "INSTEAD":
        return None
    anchor(live, ob)
    rows = live.seen
    if rows is None or len(rows) < len(live.targets):
        return None
    turn = _heading_turn(live, old[-1], live.base_rows[-1])
    to_world = scene_targets.from_rig(live, ob)
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
            scene_targets.place_at(bpy.data.objects[target.name], after[row], to_world)
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
        ob = settings_of(collection).armature
        if collection.name in lives or ob is None:
            continue
        try:
            net = weights()
            live = _make(collection, ob, rig_checks.known(ob, net), net)
        except (ValueError, OSError):
            continue  # Cancel works without
        scene_targets.refresh(live, collection)
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
    ob = settings_of(collection).armature if collection is not None else None
    if ob is None or ob.mode == "EDIT" or ob.pose is None:
        return
    names = tuple(pb.name for pb in ob.pose.bones)
    if names == live.rig.bones:
        return
    if len(names) == len(live.rig.bones):
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
        ob = settings_of(collection).armature if collection is not None else None
        if ob is None or ob.name not in scene.objects or ob.pose is None:
            continue
        if _in_scene(collection, scene):
            live.written = runtime.snapshot(ob)
            if isinstance(live.rig, ControlRig):  # what the animation does not say is as it was without Live IK
                pose_writing.restore(ob, collection)


def _after_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if not lives or _paused or not _depsgraph_is_for_the_window(depsgraph):
        return
    for live in list(lives.values()):
        collection = bpy.data.collections.get(live.collection)
        ob = settings_of(collection).armature if collection is not None else None
        if ob is None or ob.name not in scene.objects or ob.mode == "EDIT":
            continue
        if len(runtime.snapshot(ob)["scale"]) != len(live.base["scale"]):
            continue
        if not _in_scene(collection, scene):
            live.dirty = True  # its bones hold another scene's frame now
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
        print(f"Neural IK: {RENDERED}: Apply and key, or Bake, first")
        for live in lives.values():
            live.notes = [n for n in live.notes if n != RENDERED] + [RENDERED]
        if not bpy.app.background and not bpy.app.timers.is_registered(_warn):
            bpy.app.timers.register(_warn, first_interval=0.0)


def _warn() -> None:
    """Say it where it is seen: a handler has no window of its own."""
    manager = bpy.context.window_manager
    if not manager.windows:
        return

    def draw(menu: Any, _: Any) -> None:
        menu.layout.label(text=RENDERED)
        menu.layout.label(text="Apply and key, or Bake, then render again")

    with bpy.context.temp_override(window=manager.windows[0]):
        manager.popup_menu(draw, title="Live IK", icon="ERROR")


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
    overlay.register()
    if hasattr(bpy.data, "collections"):  # not while Blender is still starting
        sync(fresh=True)


def unregister() -> None:
    """Cancel what is live and watch no more."""
    for collection in collections():
        ob = settings_of(collection).armature
        if ob is not None:
            pose_writing.restore(ob, collection)
        scene_targets.remove(collection)
    lives.clear()
    overlay.unregister()
    for timer in (_catch_up, _warn):
        if bpy.app.timers.is_registered(timer):
            bpy.app.timers.unregister(timer)
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
