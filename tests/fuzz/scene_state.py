# SPDX-License-Identifier: GPL-3.0-or-later
"""The small scene that interruptions begin with, and everything in a file that a user could miss. Runs in Blender only."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from neural_network import blender
from neural_network.blender.host import actions, memory

bpy: Any = importlib.import_module("bpy")
SEEN = 1e-4
"""[m, or parts of a quaternion] what nobody sees."""


_context: list[Any] = []
"""The context that operators find in a window. It is kept: where a file is opened, its window is gone before it can be left."""


def into_window() -> None:
    """Make the 3D view the context of what follows, as if the pointer were in it; a timer has none, nor has a file just opened."""
    if bpy.app.background:
        return
    window = bpy.context.window_manager.windows[0]
    areas = sorted(window.screen.areas, key=lambda area: area.type != "VIEW_3D")
    region = next(region for region in areas[0].regions if region.type == "WINDOW")
    _context.append(bpy.context.temp_override(window=window, area=areas[0], region=region))
    _context[-1].__enter__()


def open_file(path: str) -> None:
    """Open a .blend."""
    bpy.ops.wm.open_mainfile(filepath=path)
    into_window()


def empty_file() -> None:
    """Open an empty file."""
    bpy.ops.wm.read_homefile(use_empty=True)
    into_window()


class World:
    """Blender with the extension, and the small scene that every case begins with."""

    def __init__(self, folder: Path) -> None:

        self.folder = folder
        path_of: Any = lambda *_, **__: str(folder / "user")  # noqa: E731
        bpy.utils.extension_path_user = path_of
        blender.register("neural_ik_fuzz")
        self.file = str(folder / "begin.blend")
        empty_file()
        bpy.ops.neural_ik.add_demo_character()
        ob = bpy.context.active_object
        for action in list(bpy.data.actions):
            if action.name not in ("walk", "kick", "run"):
                bpy.data.actions.remove(action)
            else:
                action.use_frame_range, action.frame_start, action.frame_end = True, 1, 14
        bpy.ops.object.mode_set(mode="EDIT")
        prop = ob.data.edit_bones.new("prop")
        hand = ob.data.edit_bones["LeftHand"]
        prop.head, prop.tail, prop.parent = hand.tail, hand.tail + hand.vector, hand
        bpy.ops.object.mode_set(mode="OBJECT")
        ob.pose.bones["prop"].rotation_quaternion = (0.8, 0.6, 0, 0)  # posed, and not keyed
        self.play(ob, "walk")
        track = ob.animation_data.nla_tracks.new()
        strip = track.strips.new("kick", 40, bpy.data.actions["kick"])
        if hasattr(strip, "action_slot"):
            strip.action_slot = bpy.data.actions["kick"].slots[0]
        bpy.context.scene.frame_set(7)
        bpy.ops.wm.save_as_mainfile(filepath=self.file)
        self.name = ob.name

    @staticmethod
    def play(ob: Any, name: str) -> None:

        action = bpy.data.actions[name]
        actions.assign(ob.animation_data, action, actions.slots_for(action, ob)[0])

    def fresh(self, weights: bool = False) -> Any:
        """Open the scene again; returns the character."""

        open_file(self.file)
        memory.start("neural_ik_fuzz")
        if weights:
            bpy.ops.neural_ik.load_weights()
        ob = bpy.data.objects[self.name]
        bpy.context.view_layer.objects.active = ob
        return ob


def state() -> dict[str, Any]:
    """Everything in the file that a user could miss, to be compared."""
    out: dict[str, Any] = {}
    scene = bpy.context.scene
    out["scene"] = (scene.name, scene.frame_current, scene.frame_subframe, scene.frame_start, scene.frame_end)
    active = bpy.context.view_layer.objects.active
    out["active"] = active.name if active is not None else None
    for kind in ("objects", "armatures", "meshes", "actions", "collections", "scenes", "texts"):
        out[kind] = sorted(thing.name for thing in getattr(bpy.data, kind))
    for ob in bpy.data.objects:
        there = ob.name in bpy.context.view_layer.objects
        out[f"object {ob.name}"] = (
            ob.mode,
            there and ob.select_get(),
            there and ob.hide_get(),
            ob.hide_viewport,
            np.array(ob.matrix_basis) if _is_users(ob) else None,
            ob.parent.name if ob.parent else "",
            [(m.name, m.show_viewport) for m in ob.modifiers],
            [(c.name, c.mute) for c in ob.constraints],
        )
        if ob.animation_data is not None:
            out[f"animation of {ob.name}"] = _animation(ob.animation_data)
        if ob.type == "ARMATURE" and ob.mode != "EDIT":
            out[f"pose of {ob.name}"] = _pose(ob)
    for action in bpy.data.actions:
        out[f"action {action.name}"] = (action.use_fake_user, action.users, _curves(action))
    return out


def _is_users(ob: Any) -> bool:
    """Whether an object stays where it is put: a hint that is off follows the body."""
    return ob.neural_ik_target.kind != "HINT" or ob.neural_ik_target.use


def _pose(ob: Any) -> tuple[Any, ...]:
    bones = [(pb.name, pb.rotation_mode, [(c.name, c.mute) for c in pb.constraints]) for pb in ob.pose.bones]
    channels = []
    for name, size in (("location", 3), ("rotation_quaternion", 4), ("rotation_euler", 3), ("scale", 3)):
        values = np.empty(size * len(bones), np.float32)
        ob.pose.bones.foreach_get(name, values)
        channels.append(values)
    rest = np.empty(16 * len(bones), np.float32)
    ob.data.bones.foreach_get("matrix_local", rest)
    return ob.data.pose_position, bones, rest.tobytes(), channels


def _animation(data: Any) -> tuple[Any, ...]:
    slot = getattr(data, "action_slot", None)
    tracks = [
        (
            t.name,
            t.mute,
            [(s.name, s.action.name if s.action else "", s.frame_start, s.frame_end, s.mute) for s in t.strips],
        )
        for t in data.nla_tracks
    ]
    used = (data.use_nla, data.action_influence, data.action_blend_type, data.action_extrapolation, data.use_tweak_mode)
    return data.action.name if data.action else "", slot.identifier if slot else "", used, tracks


def _curves(action: Any) -> dict[Any, bytes]:
    """Every key of an action with its handles, byte for byte."""

    out = {}
    for slot in action.slots if actions.SLOTTED else [None]:
        for curve in actions.curves(action, slot):
            count = len(curve.keyframe_points)
            parts = []
            for name in ("co", "handle_left", "handle_right"):
                values = np.empty(2 * count, np.float32)
                curve.keyframe_points.foreach_get(name, values)
                parts.append(values.tobytes())
            kinds = [
                (k.interpolation, k.easing, k.handle_left_type, k.handle_right_type) for k in curve.keyframe_points
            ]
            key = (slot.identifier if slot else "", curve.data_path, curve.array_index)
            out[key] = b"".join(parts) + repr((kinds, curve.mute, curve.extrapolation)).encode()
    return out


def differences(before: dict[str, Any], after: dict[str, Any], apart: tuple[str, ...] = ()) -> list[str]:
    """What differs between two states, in words; entries that begin with a word of ``apart`` do not count."""
    names = [name for name in {**before, **after} if not name.startswith(apart or ("\0",))]
    return [
        f"{name} {'vanished' if name not in after else 'appeared' if name not in before else 'changed'}"
        for name in names
        if not _equal(before.get(name), after.get(name))
    ]


def _equal(one: Any, other: Any) -> bool:
    """Whether two parts of states are equal; arrays are what Blender computes again, to a tenth of a millimetre."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and bool(np.allclose(one, other, atol=SEEN))
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
