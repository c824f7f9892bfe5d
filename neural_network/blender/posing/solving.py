# SPDX-License-Identifier: GPL-3.0-or-later
"""The solve: from the targets in the scene to the pose of the bones.

A *transform* is a row of 7: a position [m, rig space] and a quaternion (w, x, y, z).
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from typing import Any

import bpy
import numpy as np
from mathutils import Quaternion

from ...core import rotations
from ...ik.drag_conditions import DragSettings
from ...ik.drag_session import DragSession
from ...ik.extra_targets import ExtraTarget
from ...ik.solver import REACHED, Goals
from ...motion.tasks import task_value
from ..host import runtime
from ..host.control_rigs import ControlRig
from ..host.rig import metres
from . import keyed_frames, pose_writing, scene_targets, takeover
from .state import (
    ANSWER,
    BASE,
    BEFORE,
    FRAME,
    MAX_STEPS,
    SWITCHES,
    Fit,
    LiveCharacter,
    anchor,
    effector_roles,
    effector_rotations,
    is_in,
    local,
    paused,
    settings_of,
    start_over,
    store_channels,
)

AGREES, AGREED = (
    12,
    2e-5,
)  # solves until the body and targets that it moves agree; [leg lengths, 1 - |cos| of half the angle]
FARTHEST = 1e9  # [m]: beyond this no target is
UNMOVED = (
    1e-6  # [leg lengths], and 1 - |cos| of half the angle: float32 rounding of a transform to world space and back
)


@lru_cache
def _conditions(balance: bool, solid: bool) -> DragSettings:
    """The settings of natural posing; ``solid``: out of the floor and of the body."""
    own = DragSettings()
    return replace(
        own,
        balance=own.balance if balance else None,
        floor=own.floor if solid else None,
        apart=own.apart if solid else None,
    )


def update(
    live: LiveCharacter,
    scene: bpy.types.Scene,
    depsgraph: Any,
    force: bool = False,
    placed: np.ndarray | None = None,
    goes_on: bool = True,
    still: bool = False,
) -> bool:
    """Solve one character and write its pose if a target or a setting changed; True if it was solved.

    ``goes_on`` is false for another frame, whose pose must not depend on the frames shown before.
    ``still``: hands and feet that are on keep the rotation of the answer before, so that what they carry does not turn with this one.
    ``placed`` (T, 7) are the transforms of targets that were just moved and that Blender has not evaluated yet.
    """
    began = time.perf_counter()
    collection = local(bpy.data.collections, live.collection)
    if collection is None or live.suspended or not in_scene(collection, scene):
        return False
    settings = settings_of(collection)
    ob = settings.armature
    if ob is None or ob.mode == "EDIT" or not is_in(ob, scene.objects):
        return False
    if not force and not live.pending:
        compare_with_shown(live, ob)
    live.pending = False
    if live.dirty:
        scene_targets.read_settings(live, collection)
    if live.restored:
        scene_targets.accept_current(live, ob)
        return False
    transforms, world = scene_targets.read_transforms(live, ob)
    if live.dirty:  # a target was deleted
        scene_targets.read_settings(live, collection)
    if placed is not None and len(placed) == len(transforms):
        driven = np.array([[t.driven] for t in live.targets])
        transforms = np.where(driven, transforms, placed)
        world = np.where(driven, world, scene_targets.in_world(live, ob, placed))
    unit = metres(ob)
    if settings.touch and not force:
        scene_targets.switch_on_moved(live, world, unit)
    if goes_on:
        scene_targets.note_turned(live, world)
    if live.solved_for is not None and not live.dirty and not force:
        now, then = transforms.tolist(), live.solved_for.tolist()
        parts = [slice(3) if scene_targets.follows(live, t) else slice(7) for t in live.targets]
        if all(now[r][parts[r]] == then[r][parts[r]] for r, target in enumerate(live.targets) if target.use):
            return False
    live.dirty = False
    goes_on = goes_on and live.solved_for is not None  # what was rebuilt is shown again, which changes nothing
    try:
        _solve(live, ob, settings, transforms, scene, depsgraph, unit, goes_on, still)
    except ValueError as error:
        live.problem, live.solved_for = str(error), transforms
        color_by_what_is_shown(live, ob, transforms)
        return False
    live.solved_for, live.placed = transforms, world
    scene_targets.move_free(live, ob)
    scene_targets.update_colors(live)
    live.problem = ""
    live.seconds.append(time.perf_counter() - began)
    live.solves += 1
    return True


def agree(live: LiveCharacter, scene: bpy.types.Scene, goes_on: bool = True) -> None:
    """Solve again while targets that are on move with the body, such as on a prop in the other hand, until both agree."""
    if not any(target.carried and target.use and target.name for target in live.targets):
        return
    collection = local(bpy.data.collections, live.collection)
    ob = settings_of(collection).armature
    limit = AGREED * live.rig.skeleton.leg_length
    for _ in range(AGREES):
        if live.solved_for is None or live.problem or live.suspended:
            return
        with paused():
            bpy.context.view_layer.update()
        now, _ = scene_targets.read_transforms(live, ob)
        moved = [
            target.carried and target.use and scene_targets.differs(a, b, limit, AGREED)
            for target, a, b in zip(live.targets, now.tolist(), live.solved_for.tolist(), strict=True)
        ]
        if not any(moved):
            return
        update(live, scene, bpy.context.evaluated_depsgraph_get(), force=True, goes_on=goes_on, still=True)


def color_by_what_is_shown(live: LiveCharacter, ob: Any, transforms: np.ndarray) -> None:
    """Color the targets, which are at ``transforms`` (T, 7), by where the bones are shown: what was solved is something else."""
    count = len(live.rig.skeleton.effectors)
    if len(live.targets) <= count:
        return
    with np.errstate(all="ignore"):
        errors = np.linalg.norm(shown_heads(live, ob) - transforms[: count + 1, :3], axis=1)
    live.errors = np.where(np.isfinite(errors), errors, np.inf)
    scene_targets.update_colors(live)


def in_scene(collection: Any, scene: bpy.types.Scene) -> bool:
    """Whether the targets are in a scene. A character of several scenes is solved in the scene of its targets."""
    return is_in(collection, scene.collection.children) or collection in scene.collection.children_recursive


def _solve(
    live: LiveCharacter,
    ob: Any,
    settings: Any,
    transforms: np.ndarray,
    scene: Any,
    depsgraph: Any,
    unit: float,
    goes_on: bool,
    still: bool,
) -> None:
    """Solve for targets (T, 7) and write the pose; ``unit`` is the metres in a Blender unit, ``goes_on`` as of DragSession.solve.

    ``still`` as of :func:`update`.

    Raises ValueError for targets or a pose that are not finite numbers.
    """
    if not np.isfinite(ob.matrix_world).all():
        raise ValueError(f"the location, rotation or scale of {ob.name} is not a finite number")
    for target, row in zip(live.targets, transforms, strict=False):
        if target.use and target.name and not (np.abs(row) < FARTHEST).all():
            raise ValueError(
                f"{target.name} is not at a place that can be reached: its position or rotation is {_bad(row)}"
            )
    wanted = _wanted(live, ob, settings, transforms, scene, depsgraph)
    live.wanted = wanted[:, :3]
    live.goals = _goals(live, ob, settings, wanted, unit)
    mask = pose_writing.selected(ob, live.rig) if settings.selected_only else None
    fit = Fit()
    while True:
        quaternions, root = _pose(live, settings, wanted, transforms, goes_on, still)
        if not (np.isfinite(quaternions).all() and np.isfinite(root).all()):
            raise ValueError(
                "the solved pose has numbers that are not finite: move the targets nearer to the character"
            )
        if _unmoved(live, ob, wanted, settings, unit):
            # The solution is the base pose but for rounding, which would show after undo or moving a target back.
            pose_writing.write_base(ob, live)
            live.shown, live.shown_root = rotations.quaternion_from_axis_angle(live.base_rot), live.base_root
            live.written = live.base_transforms[:, :3]
            break
        posed = pose_writing.write(ob, live.rig, quaternions, root, mask, live.base, live.direct)
        live.shown, live.shown_root = quaternions, root
        live.written = _heads(live, posed, quaternions, root)
        if not fit.again(live, posed):
            break
    live.errors = np.linalg.norm(live.written - live.wanted, axis=1)
    if goes_on and isinstance(live.session, DragSession):
        own: Any = local(bpy.data.collections, live.collection)
        answer = live.session.state()
        if ANSWER in own and len(own[ANSWER]) != len(answer):
            del own[ANSWER]  # Blender 5.0 writes a longer array into the memory of the shorter one
        own[ANSWER] = answer
    if live.times_off < 2:
        live.overridden = ""
    elif live.off is not None:  # whatever moves the bones will do so again
        live.errors = np.maximum(live.errors, live.off)


def _bad(row: np.ndarray) -> str:
    """What is wrong with a transform (7), in a word."""
    worst = float(row[int(np.argmin(np.abs(row) < FARTHEST))])
    return "not a number" if np.isnan(worst) else f"{worst:.3g}"


def _pose(
    live: LiveCharacter, settings: Any, wanted: np.ndarray, transforms: np.ndarray, goes_on: bool, still: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The solved pose with hints and strength: rot_local (J, 4) and the root's head (3) [m, rig space]."""
    assert live.goals is not None
    free_root = scene_targets.root_is_free(live)
    if isinstance(live.session, DragSession):
        effectors = live.targets[: len(wanted) - 1]
        firm = np.array([t.pin != "NONE" for t in effectors])
        if live.shift is not None:
            firm |= np.any(live.shift, axis=1)
        turned = np.array([t.turned or (still and t.use) for t in effectors]) | firm
        live.session.settings = _conditions(settings.balance, settings.solid)
        extras = _extras(live, transforms)
        solution = live.session.solve(live.goals, MAX_STEPS, settings.limits, free_root, turned, firm, goes_on, extras)
    else:
        solution = live.session.solve(live.goals, MAX_STEPS, settings.limits, free_root)
    live.solution, live.ends = solution, None
    quaternions, root = solution.quaternions, solution.root_pos
    for row, target in enumerate(live.targets[len(wanted) :], len(wanted)):
        if target.kind == "HINT" and target.use and target.name:
            quaternions = pose_writing.swivel(live, quaternions, root, target, transforms[row, :3])
    if settings.strength < 1:
        turns = rotations.axis_angle_from_quaternion(quaternions)
        turns = rotations.slerp(live.base_rot, turns, settings.strength)
        quaternions = rotations.quaternion_from_axis_angle(turns)
        root = live.base_root + settings.strength * (root - live.base_root)
    return quaternions, root


def _extras(live: LiveCharacter, transforms: np.ndarray) -> list[ExtraTarget]:
    """The targets of the chest and of what the head looks at that are on, at ``transforms`` (T, 7)."""
    session, skeleton, made = live.session, live.rig.skeleton, []
    assert isinstance(session, DragSession)
    for target, row in zip(live.targets, transforms, strict=False):
        if target.kind == "CHEST" and target.use and target.name and session.chest >= 0:
            made.append(ExtraTarget("place", session.chest, row[:3], target.weight))
        elif target.kind == "LOOK" and target.use and target.name:
            head = skeleton.effectors[effector_roles(live).index(target.bone)]
            made.append(ExtraTarget("aim", head, row[:3], target.weight))
    return made


def _heads(live: LiveCharacter, posed: np.ndarray | None, quaternions: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(E + 1, 3) [m, rig space] heads of the effectors and the root in a pose that was written (J, 4, 4) [object space]."""
    assert live.solution is not None
    assert live.goals is not None
    rig = live.rig
    if posed is None and quaternions is live.solution.quaternions:
        live.ends = live.session.ends(live.goals)
        return np.concatenate([live.ends[0], root[None]])
    if posed is None:
        posed = pose_writing.posed_matrices(rig, quaternions, root)
    return posed[[*rig.skeleton.effectors, 0], :3, 3] @ rig.turn.T * rig.unit


def compare_with_shown(live: LiveCharacter, ob: Any) -> None:
    """Compare the bones as Blender shows them now with what was written: where they differ, color the targets by what is shown."""
    if live.written is None or live.wanted is None or len(live.targets) < len(live.wanted):
        return
    shown = shown_heads(live, ob)
    live.off = np.linalg.norm(shown - live.written, axis=1)
    was = live.overridden
    live.overridden = ""
    live.off = np.where(np.isfinite(live.off), live.off, np.inf)
    if not live.off.max() <= 2e-6 * float(np.abs(live.written).max()) + REACHED:
        worst = int(live.off.argmax())
        name = live.rig.bones[bones_of(live)[worst]]
        millimetres = live.off[worst] * 1000
        live.overridden = f"{name} is {millimetres:.0f} mm from where Live IK put it: something else moved the bones"
    if live.solves != live.compared:
        live.times_off, live.compared = live.times_off + 1 if live.overridden else 0, live.solves
    if live.overridden or was:
        errors = np.linalg.norm((shown if live.overridden else live.written) - live.wanted, axis=1)
        live.errors = np.where(np.isfinite(errors), errors, np.inf)
        scene_targets.update_colors(live)


def bones_of(live: LiveCharacter) -> list[int]:
    """The bones of the effectors and the root, among all."""
    return live.rig.index[[*live.rig.skeleton.effectors, 0]].tolist()


def shown_heads(live: LiveCharacter, ob: Any) -> np.ndarray:
    """(E + 1, 3) [m, rig space] heads of the effectors and the root as Blender shows them now."""
    bones = ob.pose.bones
    return np.array([bones[b].head for b in bones_of(live)]) @ live.rig.turn.T * live.rig.unit


def _wanted(
    live: LiveCharacter, ob: Any, settings: Any, transforms: np.ndarray, scene: Any, depsgraph: Any
) -> np.ndarray:
    """(E + 1, 7) where the effectors and the root should be: at their targets, pinned or shifted, else as in the base pose."""
    count = len(live.rig.skeleton.effectors)
    out = transforms[: count + 1].copy()
    for row, target in enumerate(live.targets[:count]):
        if not target.use or not target.name:
            out[row] = live.base_transforms[row]
        elif target.pin != "NONE":
            scene_targets.pin(live, ob, settings, target, row, out, scene, depsgraph)
    if live.shift is not None:
        out[:count, :3] += live.shift
    return out


def _goals(live: LiveCharacter, ob: Any, settings: Any, wanted: np.ndarray, unit: float) -> Goals:
    """The solver's goals for effectors and root (E + 1, 7)."""
    base, target = live.base_transforms[-1], live.targets[len(wanted) - 1]
    root = base if scene_targets.root_is_free(live) else wanted[-1]
    if root is not base and (target.weight < 1 or target.turn_weight < 1):
        root = _between(base, root, target.weight, target.turn_weight)
    turn = live.rest_rotations[-1].conjugated() @ Quaternion(root[3:].tolist())
    phase, task = live.motion
    if settings.motion == "MANUAL":
        phase, task = settings.phase, task_value(settings.task)
    return Goals(
        wanted[:-1, :3],
        root[:3],
        np.array(turn.to_exponential_map()),
        effector_rotations(live, wanted[:-1, 3:]),
        weights=live.weights,
        orientation_weights=live.turn_weights,
        phase=phase,
        task=task,
        ground=(settings.ground - ob.matrix_world.translation.z) * unit,
    )


def _unmoved(live: LiveCharacter, ob: bpy.types.Object, wanted: np.ndarray, settings: Any, unit: float) -> bool:
    """Whether every target that is on is where the base pose has it, and nothing else changes the pose."""
    rounding = 4e-7 * ob.matrix_world.translation.length * unit  # float32 positions far from the world origin
    limit = UNMOVED * live.rig.skeleton.leg_length + rounding
    for target, now, base in zip(live.targets, wanted.tolist(), live.base_transforms.tolist(), strict=False):
        turn = np.inf if scene_targets.follows(live, target) else UNMOVED
        if target.use and target.name and scene_targets.differs(now, base, limit, turn):
            return False
    hinted = any(target.use for target in live.targets[len(live.base_transforms) :])
    return not (hinted or settings.limits or settings.motion == "MANUAL")


def _between(a: np.ndarray, b: np.ndarray, share: float, turn_share: float) -> np.ndarray:
    """The transform (7) at ``share`` of the way and ``turn_share`` of the rotation from ``a`` to ``b``."""
    turn = Quaternion(a[3:].tolist()).slerp(Quaternion(b[3:].tolist()), turn_share)
    return np.array([*(a[:3] + share * (b[:3] - a[:3])), *turn])


# ---- a new base pose


def rebase(live: LiveCharacter, collection: bpy.types.Collection, ob: bpy.types.Object, also_before: bool) -> None:
    """Make the current pose the base pose; with ``also_before`` Cancel restores it too. Targets that are on stay where they are."""
    live.base = runtime.snapshot(ob)
    if also_before:
        live.before = {name: values.copy() for name, values in live.base.items()}
        store_channels(collection, BEFORE, live.before)
        own: Any = collection
        own[SWITCHES] = dict.fromkeys(pose_writing.switches(collection), 1.0)
    store_channels(collection, BASE, live.base)
    start_over(live, collection)
    anchor(live, ob)


def key_frame(live: LiveCharacter, collection: Any, ob: bpy.types.Object) -> None:
    """Make the pose that was just keyed the base pose of this frame; on the others the targets go on changing the animation."""
    base, targets = live.base_transforms, live.solved_for
    if settings_of(collection).mode == "INSTEAD" or targets is None or len(targets) < len(live.targets):
        rebase(live, collection, ob, also_before=True)
        return
    if keyed_frames.shown(live, collection):
        base, targets = keyed_frames.whole(live, collection, base, targets)
    rebase(live, collection, ob, also_before=True)
    keyed_frames.keep(collection, base, targets)
    keyed_frames.add(live, collection)


def take_keyed(live: LiveCharacter, ob: bpy.types.Object) -> None:
    """Make the pose that new keys show the base pose, and the pose to restore: targets that are on are where it has them."""
    collection = local(bpy.data.collections, live.collection)
    keyed_frames.forget(collection)
    live.base = runtime.snapshot(ob)
    live.before = {name: values.copy() for name, values in live.base.items()}
    store_channels(collection, BASE, live.base)
    store_channels(collection, BEFORE, live.before)
    start_over(live, collection)
    anchor(live, ob)
    bpy.context.view_layer.update()
    scene_targets.accept_current(live, ob)


def follow_animation(live: LiveCharacter, collection: Any, ob: bpy.types.Object) -> np.ndarray | None:
    """After a frame change: the animated pose becomes the base pose, and the targets move along with it.

    Returns the targets' new transforms (T, 7), which Blender has not evaluated yet; None if they stay where they are.
    """
    scene_targets.note_driven(live, collection)
    now = runtime.snapshot(ob)
    old = live.base_transforms
    if isinstance(live.rig, ControlRig):
        live.before = now
        collection[SWITCHES] = takeover.take(live, ob, live.rig).switches
        live.base = runtime.snapshot(ob)
    elif live.before_frame is not None:
        for name, values in now.items():
            animated = values != live.before_frame[name]
            live.base[name] = np.where(animated, values, live.base[name])
            live.before[name] = np.where(animated, values, live.before[name])
    targets = live.solved_for
    if targets is not None and len(targets) >= len(live.targets) and keyed_frames.shown(live, collection):
        old, targets = keyed_frames.whole(live, collection, old, targets)
    store_channels(collection, BASE, live.base)
    store_channels(collection, BEFORE, live.before)
    collection[FRAME] = bpy.context.scene.frame_current_final
    if settings_of(collection).mode == "INSTEAD":
        return None
    anchor(live, ob)
    if live.solved_for is None or targets is None or len(targets) < len(live.targets):
        return None
    after = scene_targets.moved_along(live, old, targets)
    if keyed_frames.shown(live, collection):
        keyed_frames.keep(collection, old, targets)
        after = keyed_frames.at_base(live, after)
    to_world = scene_targets.rig_to_world(live, ob)
    for row in np.flatnonzero(np.abs(after - live.solved_for).max(axis=1) > 1e-9).tolist():
        target = local(bpy.data.objects, live.targets[row].name)
        if target is not None:  # else it was deleted, which reading the targets notices
            scene_targets.place(target, after[row], to_world)
    return after
