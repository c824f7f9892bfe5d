# SPDX-License-Identifier: GPL-3.0-or-later
"""Driving: a lesson moves a character's legs towards two foot targets, or a client's solves move its whole body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bpy
import numpy as np
from mathutils import Matrix

from ...core.rotations import axis_angle_from_quaternion, geodesic_angle, matrix_from_quaternion
from ...live import legs
from ...live.body import wire_pose
from ...live.channels import decode, encode_inputs
from ...live.layouts import SIDES
from ...live.tasks import STANDING
from ...live.trainee import SOLVING
from ..host import rig, rig_checks, runtime
from ..host.rig import Rig
from ..posing import live_ik
from . import lessons, session
from .session import Driving, Lesson, state

STILL = 1e-5
"""[rad] a pose that would turn less is not written, so that a scene at rest stays at rest."""
TARGET = "neural_ik_teach"
"""Custom property that marks the foot targets."""


def drive(context: bpy.types.Context, ob: bpy.types.Object, source: str = "FEET") -> Driving:
    """Start driving ``ob`` by a lesson (``FEET``: adds two foot targets) or by a client's solves (``CLIENT``).

    Raises ValueError where that is not possible.
    """
    if state.drive is not None:
        raise ValueError(f"{state.drive.ob} is already driven: press Stop Driving first")
    if live_ik.collection_of(ob) is not None:
        raise ValueError(f"Live IK moves {ob.name}: Apply or Cancel it first")
    if getattr(ob.data, "pose_position", "POSE") == "REST":
        raise ValueError(f"{ob.name} is shown in Rest Position: switch to Pose Position (Armature properties)")
    if ob.name not in context.view_layer.objects:
        raise ValueError(f"{ob.name} is not in this view layer")
    context.view_layer.update()
    if source == "CLIENT":
        state.drive = _by_client(ob)
    else:
        state.drive = _by_lesson(context, ob)
        state.latest = state.drive.lesson
        context.view_layer.update()
    state.problem = ""
    session.start_timer()
    return state.drive


def stop_driving(undo_step: bool = True) -> None:
    """Leave the character as it is and remove the targets; ``undo_step`` makes the session an undo step."""
    driven, state.drive = state.drive, None
    if driven is not None:
        remove_targets()
        session.end_session("Neural IK Drive" if undo_step else "")


def remove_targets() -> None:
    """Remove all foot targets, including those from a saved file."""
    every: Any = getattr(bpy.data, "objects", ())  # missing while Blender is starting
    for ob in [ob for ob in every if TARGET in ob and ob.library is None]:
        every.remove(ob)


def step(now: float) -> None:
    """Write the driven character's pose if it changes. Raises ValueError where driving has to stop."""
    driven = state.drive
    assert driven is not None
    ob = session.find_object(driven.ob)
    if ob.mode == "EDIT" or ob.pose is None:
        return
    if driven.key != session.rig_key(ob):
        fresh = rig.read(ob) if driven.source == "FEET" else session.refit(ob, driven.rig)
        if fresh is None or fresh.skeleton.names != driven.rig.skeleton.names:
            raise ValueError(f"the bones of {ob.name} have changed: driving has stopped")
        driven.rig, driven.key = fresh, session.rig_key(ob)
    if driven.source == "CLIENT":
        if state.solved is not None:
            driven.in_control = True
            root, turns = state.solved
            _write_pose(ob, driven.rig, turns, root, range(driven.rig.skeleton.count))
        return
    lesson = state.lessons.get(driven.lesson)
    if lesson is None:
        raise ValueError(f"the lesson of {ob.name} was removed: driving has stopped")
    _step_legs(driven, ob, lesson, now)


def _by_client(ob: bpy.types.Object) -> Driving:
    if state.server is None or state.served != ob.name or state.served_rig is None:
        raise ValueError(f"no client can reach {ob.name}: select it and press Listen first")
    if state.server.body is None or state.server.body.solve is None:
        raise ValueError(f"clients cannot solve {ob.name}: no weights fit it")
    return Driving(ob.name, state.served_rig, session.rig_key(ob), "CLIENT")


def _by_lesson(context: bpy.types.Context, ob: bpy.types.Object) -> Driving:
    own = rig.read(ob)
    reason = rig_checks.control_rig(ob) or rig_checks.refusal(ob, own)
    if reason:
        raise ValueError(reason.replace("Live IK", "Drive"))
    fingerprint, lesson = lessons.lesson_for(ob, own)
    if lesson is None or lesson.trainee.frames == 0:
        raise ValueError(f"{ob.name} was not taught yet: press Teach from Action, or let an engine teach it")
    targets = _add_targets(context, ob, own)
    return Driving(ob.name, own, session.rig_key(ob), "FEET", fingerprint, targets)


def _add_targets(context: bpy.types.Context, ob: bpy.types.Object, own: Rig) -> tuple[str, str]:
    """Add two empties with the position and orientation of the feet; returns their names."""
    remove_targets()
    skeleton = own.skeleton
    root, turns = wire_pose(skeleton, *runtime.read_pose(ob, own))
    heads, turned = legs.skeleton_pose(skeleton, turns, root)
    bones = legs.leg_bones(skeleton)
    scale = 1 / rig.metres(ob)
    names = []
    for side, bone in zip(SIDES, (bones[2], bones[5]), strict=True):
        empty: Any = bpy.data.objects.new(f"{ob.name} {side} Foot", None)
        context.scene.collection.objects.link(empty)
        empty[TARGET] = ob.name
        empty.empty_display_type, empty.show_in_front = "CUBE", True
        empty.empty_display_size = 0.08 * skeleton.leg_length * scale
        matrix = np.eye(4)
        matrix[:3, :3] = skeleton.axes.T @ matrix_from_quaternion(turned[bone]) @ skeleton.axes
        matrix[:3, 3] = (skeleton.axes.T @ heads[bone]) * scale + np.array(ob.matrix_world.translation)
        empty.matrix_world = Matrix(matrix.tolist())
        names.append(empty.name)
    return names[0], names[1]


def _read_targets(driven: Driving, ob: bpy.types.Object) -> tuple[np.ndarray, np.ndarray]:
    """Positions (2, 3) [m] and normals (2, 3) of the foot targets in core axes. Raises ValueError for a deleted one."""
    axes, scale = driven.rig.skeleton.axes, rig.metres(ob)
    positions, normals = np.empty((2, 3)), np.empty((2, 3))
    for i, name in enumerate(driven.targets):
        empty: Any = bpy.data.objects.get(name)
        if empty is None:
            raise ValueError(f"the target {name} was deleted: driving has stopped")
        offset = np.array(empty.matrix_world.translation) - np.array(ob.matrix_world.translation)
        positions[i] = axes @ (offset * scale)
        turn = runtime.orthonormal(np.array(empty.matrix_world, np.float64)[:3, :3])
        normals[i] = axes @ turn @ axes.T @ np.array([0.0, 0, 1])
    return positions, normals


def _step_legs(driven: Driving, ob: bpy.types.Object, lesson: Lesson, now: float) -> None:
    own = driven.rig
    skeleton = own.skeleton
    positions, normals = _read_targets(driven, ob)
    since = now - driven.moment
    hits = np.ones(2)
    if driven.target_positions is not None and since > 1e-4:
        speed = np.linalg.norm(positions - driven.target_positions, axis=1) / since
        hits = (speed < STANDING).astype(np.float64)
    if driven.target_positions is None or since > 1e-4:
        driven.target_positions, driven.moment = positions, now
    driven.in_control = lesson.trainee.state == SOLVING
    if not driven.in_control:  # leave the legs to whatever else moves them
        driven.previous = None
        return
    root, turns = wire_pose(skeleton, *runtime.read_pose(ob, own))
    heads, turned = legs.skeleton_pose(skeleton, turns, root)
    if driven.previous is None:
        driven.previous = legs.leg_turns(skeleton, turned)
    row = legs.leg_row(skeleton, heads, turned, driven.previous, positions, normals, hits)
    x, scene = encode_inputs(lesson.layout, row)
    driven.previous = decode(lesson.layout, lesson.trainee.predict(x), scene, exact=True).reshape(6, 4)
    moved = legs.with_legs(skeleton, turns, turned, driven.previous)
    _write_pose(ob, own, moved, root, legs.leg_bones(skeleton), turns)


def _write_pose(
    ob: bpy.types.Object,
    own: Rig,
    turns: np.ndarray,
    root: np.ndarray,
    bones: Iterable[int],
    present: np.ndarray | None = None,
) -> None:
    """Pose ``bones`` as ``turns`` (J, 4) with the root's head at ``root`` (3) [m]; other bones keep their channels.

    Writes nothing where the pose would hardly change. ``present`` (J, 4) are the present rotations, where only rotations
    change.
    """
    moved = 0.0
    if present is None:
        at, present = wire_pose(own.skeleton, *runtime.read_pose(ob, own))
        moved = float(np.abs(at - root).max())
    written = list(bones)
    angle = geodesic_angle(matrix_from_quaternion(turns[written]), matrix_from_quaternion(present[written]))
    if max(moved, float(np.max(angle))) < STILL:
        return
    before = runtime.snapshot(ob)
    rot = own.skeleton.from_core(axis_angle_from_quaternion(turns))
    runtime.apply(ob, own, rot, root @ own.skeleton.axes)
    after = runtime.snapshot(ob)
    mask = np.zeros(len(own.bones), bool)
    mask[own.index[written]] = True
    for name, size in runtime.CHANNELS.items():
        mixed = np.where(mask[:, None], after[name].reshape(-1, size), before[name].reshape(-1, size))
        after[name] = mixed.ravel()
    runtime.restore(ob, after)
