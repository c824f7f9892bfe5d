# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks as actions of a character: loops, walks along a curve over a mesh, and the character's own walks read back."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from mathutils import Vector

from ...gait import carrying, cycles, matching, own_style, parameters, walks
from ...gait.carrying import Character
from ...gait.cycles import Cycle
from ...motion import characters as motion_characters
from ..host import actions, characters, keyframes, memory, rig_checks, runtime
from ..host.rig import Rig, read
from .preview import gait, source

LIFT = 100.0  # [m] rays begin so far above


def character_of(ob: bpy.types.Object) -> tuple[Rig, Character]:
    """The rig of an armature and the character it is; ValueError, in words, for one that cannot walk."""
    body = read(ob)
    return body, carrying.character(body.skeleton, body.roles)


def fps_of(scene: Any) -> float:
    """Frames a second of a scene."""
    return float(scene.render.fps / scene.render.fps_base)


def bake_loop(
    context: bpy.types.Context, ob: bpy.types.Object, values: np.ndarray, count: int, in_place: bool
) -> tuple[Any, int]:
    """A loop as a new action of ``ob``, which plays it from frame 1 on for ever; returns the action and its frames.

    The last key repeats the first, one stride on unless ``in_place``. The rate of the cycle is made to fit whole frames.
    """
    body, who = character_of(ob)
    values = carrying.own_values(who, values)
    values[parameters.INDEX["turn"]] = 0.0
    fps = fps_of(context.scene)
    size = float(np.sqrt(who.body.leg_length / float(parameters.leg_of(values))))
    frames = max(4, round(count * float(parameters.cycle_seconds(values)) * size * fps))
    walk = walks.walk(source(ob), values, frames, fps, rig=who.body, loop=True)
    stride = 2 * float(parameters.step(values)) * size**2 * count
    rise = np.tan(np.radians(float(parameters.get(values, "slope")))) * stride
    rot, root = carrying.onto(who, walk)
    way = np.array([0.0, -stride, rise]) @ body.skeleton.axes
    rot, root = np.concatenate([rot, rot[:1]]), np.concatenate([root, root[:1] + way])
    if in_place:
        root = root - np.arange(frames + 1)[:, None] / frames * way
    action = _write(ob, body, f"Walk {float(parameters.speed(values)):.1f}", rot, root)
    for curve in actions.curves(action, _slot(ob)):
        modifier: Any = curve.modifiers.new("CYCLES")
        mode = "REPEAT_OFFSET" if curve.data_path.endswith("location") and not in_place else "REPEAT"
        modifier.mode_before, modifier.mode_after = mode, mode
    action.use_frame_range = True
    action.frame_start, action.frame_end = 1, frames + 1
    action.use_cyclic = True
    return action, frames


def walk_along(
    context: bpy.types.Context, ob: bpy.types.Object, values: np.ndarray, way: bpy.types.Object, ground: Any
) -> tuple[Any, int]:
    """A walk along a curve object, on a mesh where there is one, as a new action; returns it and its frames."""
    body, who = character_of(ob)
    values = carrying.own_values(who, values)
    values[parameters.INDEX["turn"]] = 0.0
    values[parameters.INDEX["slope"]] = 0.0
    path = _polyline(context, way)
    world = np.array(ob.matrix_world, np.float64)
    scale = float(body.unit / np.linalg.norm(world[:3, 0]))
    path = (path - world[:3, 3]) * scale
    lengths = np.r_[0.0, np.cumsum(np.linalg.norm(np.diff(path[:, :2], axis=0), axis=1))]
    if lengths[-1] < 0.5 * who.body.leg_length:
        raise ValueError(f"{way.name} is {lengths[-1]:.2f} m long: expected a curve of at least half a leg's length")
    fps = fps_of(context.scene)
    size = float(np.sqrt(who.body.leg_length / float(parameters.leg_of(values))))
    frames = walks.frames_for(values, float(lengths[-1]), fps, size**2)

    def along(far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = np.clip(far, 0, lengths[-1])
        points = np.stack([np.interp(inside, lengths, path[:, c]) for c in (0, 1)], axis=1)
        reach = 0.25 * who.body.leg_length
        ahead = [np.stack([np.interp(np.clip(far + d, 0, lengths[-1]), lengths, path[:, c]) for c in (0, 1)], axis=1)
                 for d in (-reach, reach)]  # fmt: skip
        step = ahead[1] - ahead[0]
        heading = np.unwrap(np.arctan2(step[:, 0], -step[:, 1]))
        beyond = (far - inside)[:, None]
        return points + beyond * np.stack([np.sin(heading), -np.cos(heading)], axis=1), heading

    height = None if ground is None else _floor(context, ground, world[:3, 3], scale)
    walk = walks.walk(
        source(ob), values, frames, fps, rig=who.body, way=along, ground=height, length=float(lengths[-1])
    )
    rot, root = carrying.onto(who, walk)
    return _write(ob, body, f"Walk along {way.name}", rot, root), frames


def _polyline(context: bpy.types.Context, way: bpy.types.Object) -> np.ndarray:
    """Points (N, 3) of a curve object in world space."""
    shown: Any = way.evaluated_get(context.evaluated_depsgraph_get())
    mesh = shown.to_mesh()
    try:
        points = np.empty(3 * len(mesh.vertices))
        mesh.vertices.foreach_get("co", points)
    finally:
        shown.to_mesh_clear()
    if len(points) < 6:
        raise ValueError(f"{way.name} has no points to walk along: expected a curve without bevel or fill")
    matrix = np.array(way.matrix_world)
    return points.reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3]


def _floor(context: bpy.types.Context, ground: bpy.types.Object, origin: np.ndarray, scale: float) -> Any:
    """A function of the heights of a mesh under points, in rig space; beside the mesh, that of the nearest point it has."""
    shown: Any = ground.evaluated_get(context.evaluated_depsgraph_get())
    matrix = shown.matrix_world
    back = matrix.inverted()
    down = (back.to_3x3() @ Vector((0, 0, -1))).normalized()
    known: dict[tuple[float, float], float] = {}

    def one(x: float, y: float) -> float:
        key = (round(x, 4), round(y, 4))
        if key not in known:
            top = Vector((x / scale + origin[0], y / scale + origin[1], origin[2] + LIFT / scale))
            hit, place, _, _ = shown.ray_cast(back @ top, down)
            if not hit:
                _, place, _, _ = shown.closest_point_on_mesh(back @ Vector((top.x, top.y, origin[2])))
            known[key] = ((matrix @ place).z - origin[2]) * scale
        return known[key]

    def heights(points: np.ndarray) -> np.ndarray:
        flat = points.reshape(-1, 2)
        return np.array([one(float(x), float(y)) for x, y in flat]).reshape(points.shape[:-1])

    return heights


def _slot(ob: Any) -> Any:
    return getattr(ob.animation_data, "action_slot", None)


def _write(ob: bpy.types.Object, body: Rig, name: str, rot: np.ndarray, root: np.ndarray) -> Any:
    """Key a motion from frame 1 on as a new action, which the character then plays."""
    reason = rig_checks.refusal(ob, body, "a walk")
    if reason:
        raise ValueError(reason)
    action, slot = actions.new(name, ob.name)
    action.use_fake_user = True
    channels = runtime.channels(ob, body, rot, root)
    named = {(body.bones[bone], channel): values for (bone, channel), values in channels.items()}
    keyframes.write_bones(action, slot, np.arange(1, len(rot) + 1), named)
    data = ob.animation_data or ob.animation_data_create()
    if data.action is not None:
        data.action.use_fake_user = True
    actions.assign(data, action, slot)
    return action


def own_cycles(context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Character, list[Cycle]]:
    """The cycles of the walk that the character shows in the scene's frame range; the frame is put back."""
    body, who = character_of(ob)
    scene = context.scene
    before = scene.frame_current
    rots, roots = [], []
    try:
        for frame in range(scene.frame_start, scene.frame_end + 1):
            scene.frame_set(frame)
            rot, root = runtime.read_pose(ob, body)
            rots.append(rot)
            roots.append(root)
    finally:
        scene.frame_set(before)
    turns, root = carrying.from_character(who, np.array(rots), np.array(roots))
    return who, cycles.cut_motion(who.body, turns, root, fps_of(scene))


def learn_style(context: bpy.types.Context, ob: bpy.types.Object) -> tuple[int, float, float]:
    """Learn the character's own way to walk from what it shows in the scene's frame range, and keep it with its files.

    Returns the cycles learned from, and how far [deg] the joints of the plain and of the styled walk are from them.
    """
    who, found = own_cycles(context, ob)
    if not found:
        raise ValueError(
            f"{ob.name} walks no whole cycle from frame {context.scene.frame_start} to {context.scene.frame_end}: "
            "set the frame range to its walk, then learn from it"
        )
    style = own_style.learn(gait(), who.body, found, ob.name)
    subject = characters.subject_of(ob)
    kept = motion_characters.keep(memory.folder(), subject.skeleton, subject.name)
    own_style.save(kept.weights("gait"), style)
    plain = float(np.mean([matching.error_of(gait(), who.body, cycle, style.values) for cycle in found]))
    styled = own_style.Styled(gait(), style)
    return len(found), plain, float(np.mean([own_style.error_of(styled, who.body, cycle) for cycle in found]))
