# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks as actions of a character: loops, walks along a curve over a mesh, and the character's own walks read back."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any

import bpy
import numpy as np

from ...gait import cycles, matching, own_style, parameters, walks
from ...gait.cycles import Cycle
from ...ik import foot_pins
from ...motion import characters as motion_characters
from ...rigs import on_body
from ...rigs.on_body import Character
from ..host import actions, characters, ground, keyframes, memory, rig_checks, runtime, shown_motion
from ..host.jobs import Progress
from ..host.rig import Rig, read
from ..host.shown_motion import fps_of
from .preview import gait, source
from .sliders import SLIDERS, values_of

STEADY = 0.5  # [s] over which the speed of a path's animation is averaged


def character_of(ob: bpy.types.Object) -> tuple[Rig, Character]:
    """The rig of an armature and the character it is; ValueError, in words, for one that cannot walk."""
    body = read(ob)
    who = on_body.character(body.skeleton, body.roles)
    foot_pins.soles(who.body)  # ValueError for feet that cannot be planted
    return body, who


def bake_loop(
    context: bpy.types.Context, ob: bpy.types.Object, values: np.ndarray, count: int, in_place: bool
) -> tuple[Any, int]:
    """A loop as a new action of ``ob``, which plays it from frame 1 on for ever; returns the action and its frames.

    The last key repeats the first, one stride on unless ``in_place``. The rate of the cycle is made to fit whole frames.
    """
    body, who = character_of(ob)
    values = walks.own_values(who.body, values)
    values[parameters.INDEX["turn"]] = 0.0
    fps = fps_of(context.scene)
    size = float(np.sqrt(who.body.leg_length / float(parameters.leg_of(values))))
    frames = max(4, round(count * float(parameters.cycle_seconds(values)) * size * fps))
    walk = walks.walk(source(ob), values, frames, fps, rig=who.body, loop=True)
    stride = 2 * float(parameters.step(values)) * size**2 * count
    rise = np.tan(np.radians(float(parameters.get(values, "slope")))) * stride
    rot, root = on_body.from_body(who, walk.turns, walk.root)
    way = np.array([0.0, -stride, rise])
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


def walk_along(context: bpy.types.Context, ob: bpy.types.Object) -> tuple[Any, int, int]:
    """A walk along the curve object of the sliders, on their mesh where there is one, as a new action; returns it and its first
    and last frame. Its speed is that of the sliders and their keys, or of the curve's own animation."""
    own: Any = ob.neural_ik_gait  # type: ignore[attr-defined]
    body, who = character_of(ob)
    path = _polyline(context, own.way)
    world = np.array(ob.matrix_world, np.float64)
    scale = float(body.unit / np.linalg.norm(world[:3, 0]))
    path = (path - world[:3, 3]) * scale
    lengths = np.r_[0.0, np.cumsum(np.linalg.norm(np.diff(path[:, :2], axis=0), axis=1))]
    if lengths[-1] < 0.5 * who.body.leg_length:
        raise ValueError(
            f"{own.way.name} is {lengths[-1]:.2f} m long: expected a curve of at least half a leg's length"
        )
    fps = fps_of(context.scene)
    keys = slider_keys(ob)
    values = walks.own_values(who.body, slider_rows(own, keys))
    values[:, [parameters.INDEX["turn"], parameters.INDEX["slope"]]] = 0.0
    size = float(np.sqrt(who.body.leg_length / float(parameters.leg_of(values[0]))))
    first = 1
    if own.pace == "PATH":
        first, shares = path_keys(own.way)
        far = shares * lengths[-1]
        speeds = _steady(np.gradient(far), round(STEADY * fps)) * fps / size
        values = _held(values, first - 1, len(far))
        values = parameters.at_speeds(values, np.clip(speeds, parameters.SPEED.least, parameters.SPEED.most))
    else:
        far = walks.ways_for(values, float(lengths[-1]), fps, size**2)
        values = _held(values, 0, len(far))

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

    height = None if own.ground is None else ground.heights(context, own.ground, world[:3, 3], scale)
    walk = walks.walk(source(ob), values, len(far), fps, rig=who.body, way=along, ground=height, far=far)
    rot, root = on_body.from_body(who, walk.turns, walk.root)
    return _write(ob, body, f"Walk along {own.way.name}", rot, root, first, keys), first, first + len(far) - 1


def slider_keys(ob: bpy.types.Object) -> dict[str, bpy.types.FCurve]:
    """The F-Curves of the character's action that move its sliders, by slider."""
    data = ob.animation_data
    if data is None or data.action is None:
        return {}
    names = {f"neural_ik_gait.{entry.name}": entry.name for entry in (parameters.SPEED, *SLIDERS)}
    found = actions.curves(data.action, _slot(ob))
    return {names[c.data_path]: c for c in found if c.data_path in names and actions.plays(c)}


def slider_rows(own: Any, keys: dict[str, bpy.types.FCurve]) -> np.ndarray:
    """Parameters (N, P) at frames 1 to the last key of the sliders; one row where they have none."""
    last = max([1.0, *(curve.range()[1] for curve in keys.values())])
    frames = range(1, int(np.ceil(last)) + 1)
    out = np.repeat(values_of(own)[None], len(frames), axis=0)
    said = {name: np.array([curve.evaluate(f) for f in frames]) for name, curve in keys.items()}
    for name in set(said) - {parameters.SPEED.name}:
        out[:, parameters.INDEX[name]] = said[name]
    out = np.clip(out, parameters.LEAST, parameters.MOST)
    if parameters.SPEED.name in said:
        speeds = np.clip(said[parameters.SPEED.name], parameters.SPEED.least, parameters.SPEED.most)
        out = parameters.at_speeds(out, speeds)
    return out


def path_keys(way: Any) -> tuple[int, np.ndarray]:
    """The first frame of a curve object's path animation, and the share of the curve (F) at that frame and all to its last key.

    Raises ValueError where its Evaluation Time has no keys, goes back, or never grows.
    """
    data = way.data.animation_data
    slot = getattr(data, "action_slot", None)
    found = [] if data is None or data.action is None else list(actions.curves(data.action, slot))
    curve = next((c for c in found if c.data_path == "eval_time" and actions.plays(c)), None)
    if curve is None:
        raise ValueError(
            f"{way.name} has no keys on its Evaluation Time: animate it under Path Animation in the curve's data, or set "
            "Pace to Sliders"
        )
    keyed: Any = curve.range()
    first, last = round(keyed[0]), round(keyed[1])
    shares = np.array([curve.evaluate(f) for f in range(first, last + 1)]) / way.data.path_duration
    shares = np.clip(shares, 0, 1)
    back = np.flatnonzero(np.diff(shares) < -1e-6)
    if len(back):
        raise ValueError(
            f"{way.name}: Evaluation Time goes back at frame {first + int(back[0]) + 1}: expected it to grow"
        )
    if len(shares) < 2 or np.ptp(shares) < 1e-3:
        raise ValueError(f"{way.name}: expected Evaluation Time to grow, got {shares[0]:.3g} of the path throughout")
    return first, np.maximum.accumulate(shares)


def _held(rows: np.ndarray, first: int, count: int) -> np.ndarray:
    """``count`` rows from ``first`` on; before the first and beyond the last one these hold."""
    return np.asarray(rows[np.clip(np.arange(first, first + count), 0, len(rows) - 1)])


def _steady(values: np.ndarray, width: int) -> np.ndarray:
    """Values (F) averaged over ``width`` frames around each."""
    reach = max(width // 2, 1)
    return np.convolve(np.pad(values, reach, mode="edge"), np.ones(2 * reach + 1) / (2 * reach + 1), "valid")


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


def _slot(ob: Any) -> Any:
    return getattr(ob.animation_data, "action_slot", None)


def _write(
    ob: bpy.types.Object,
    body: Rig,
    name: str,
    rot: np.ndarray,
    root: np.ndarray,
    first: int = 1,
    keep: Mapping[str, bpy.types.FCurve] = MappingProxyType({}),
) -> Any:
    """Key a motion from a frame on as a new action, which the character then plays, and F-Curves to ``keep`` with it."""
    reason = rig_checks.refusal(ob, body, "a walk")
    if reason:
        raise ValueError(reason)
    action, slot = actions.new(name, ob.name)
    action.use_fake_user = True
    channels = runtime.channels(ob, body, rot, root)
    named = {(body.bones[bone], channel): values for (bone, channel), values in channels.items()}
    keyframes.write_bones(action, slot, np.arange(first, first + len(rot)), named)
    for curve in keep.values():
        copy = actions.new_curve(action, slot, curve.data_path, curve.array_index, "Gait")
        keyframes.write_keys(copy, keyframes.read_keys(curve))
        copy.extrapolation = curve.extrapolation
    data = ob.animation_data or ob.animation_data_create()
    if data.action is not None:
        data.action.use_fake_user = True
    actions.assign(data, action, slot)
    return action


def own_cycles(
    context: bpy.types.Context, ob: bpy.types.Object
) -> Generator[Progress, None, tuple[Character, list[Cycle]]]:
    """The cycles of the walk that the character shows in the scene's frame range; yields Progress. Frame and pose are put back."""
    _, who = character_of(ob)
    scene: Any = context.scene
    shown = yield from shown_motion.read(context, ob, range(scene.frame_start, scene.frame_end + 1))
    return who, cycles.cut_motion(who.body, shown.turns, shown.root, shown.fps)


def learn_style(
    context: bpy.types.Context, ob: bpy.types.Object
) -> Generator[Progress, None, tuple[int, float, float]]:
    """Learn the character's own way to walk from what it shows in the scene's frame range, and keep it with its files.

    Yields Progress; returns the cycles learned from, and how far [deg] the joints of the plain and of the styled walk are from them.
    """
    who, found = yield from own_cycles(context, ob)
    if not found:
        raise ValueError(f"{no_cycle(context, ob)}: set the frame range to its walk, then learn from it")
    style = own_style.learn(gait(), who.body, found, ob.name)
    subject = characters.subject_of(ob)
    kept = motion_characters.keep(memory.folder(), subject.skeleton, subject.name)
    own_style.save(kept.weights("gait"), style)
    plain = float(np.mean([matching.error_of(gait(), who.body, cycle, style.values) for cycle in found]))
    styled = own_style.Styled(gait(), style)
    return len(found), plain, float(np.mean([own_style.error_of(styled, who.body, cycle) for cycle in found]))


def no_cycle(context: bpy.types.Context, ob: bpy.types.Object) -> str:
    """That there is no walk, as the beginning of a sentence."""
    scene: Any = context.scene
    return f"{ob.name} walks no whole cycle from frame {scene.frame_start} to {scene.frame_end}"
