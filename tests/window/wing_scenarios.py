# SPDX-License-Identifier: GPL-3.0-or-later
"""The panels Motion, Fix Feet and Physics in a window: two poses of one's own are filled, sliding feet are made to stand, a walk in the air
comes down to the floor, by clicks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import drive
import numpy as np
from drive import Steps, inside, picture, press, strike, until
from mathutils import Vector

EXTENSION = "bl_ext.user_default.neural_ik"
CROP = "1000x772+0+28"


def wing(name: str) -> Any:
    return sys.modules[f"{EXTENSION}.neural_network.blender.{name}"]


def character() -> Any:
    return next(ob for ob in bpy.data.objects if ob.type == "ARMATURE")


def stage(install: Callable[[], Steps], *panels: str) -> Steps:
    """The demo character with its actions, seen from its left, and some panels."""
    yield from install()
    drive.only_panels(*panels)
    with inside():
        bpy.ops.object.select_all(action="SELECT")
        bpy.ops.object.delete()
        bpy.ops.neural_ik.add_demo_character()
        bpy.ops.view3d.view_axis(type="RIGHT")
        bpy.ops.view3d.view_selected()
    space: Any = drive.area().spaces[0]
    yield 1.0
    space.region_3d.view_location.y += 0.5  # clear of the sidebar
    yield from drive.open_tab()


def curves() -> list[Any]:
    data: Any = character().animation_data
    return list(wing("host.actions").curves(data.action, getattr(data, "action_slot", None)))


def every_key() -> dict[tuple[str, int], Any]:
    return {(c.data_path, c.array_index): wing("host.keyframes").read_keys(c) for c in curves()}


def pose(frame: int, bends: dict[str, tuple[float, float, float]], place: tuple[float, float, float]) -> None:
    """Key a pose, as with I in Pose Mode."""
    ob = character()
    for pb in ob.pose.bones:
        pb.rotation_mode = "QUATERNION"
        pb.rotation_quaternion = (1, *bends.get(pb.name, (0, 0, 0)))
        pb.rotation_quaternion.normalize()
        pb.keyframe_insert("rotation_quaternion", frame=frame, group=pb.name)
    hips = ob.pose.bones["Hips"]
    hips.location = place
    hips.keyframe_insert("location", frame=frame, group="Hips")


def shown() -> Any:
    return wing("host.ghost").current()


def filling(install: Callable[[], Steps], out: Path) -> Steps:
    """Two poses of one's own: Fill, Esc, Fill, Accept, undo."""
    yield from stage(install, "NEURAL_IK_PT_motion", "NEURAL_IK_PT_motion_holds", "NEURAL_IK_PT_motion_weights")
    scene, ob = bpy.context.scene, character()
    with inside():
        wing("host.actions").assign(ob.animation_data, None, None)
        pose(1, {"LeftThigh": (0.2, 0, 0), "RightThigh": (-0.2, 0, 0)}, (0, 0, 0))
        hips = ob.data.bones["Hips"].matrix_local.to_3x3()
        way = tuple(hips.inverted() @ Vector((0, -0.9, 0)))
        pose(25, {"LeftThigh": (-0.2, 0, 0), "RightThigh": (0.2, 0, 0)}, way)
        scene.frame_start, scene.frame_end = 1, 40
        scene.frame_set(10)
        bpy.ops.ed.undo_push(message="Two poses")
    before = every_key()
    assert {len(keys["co"]) for keys in before.values()} == {2}
    yield 0.5
    yield from press("neural_ik.motion_fill")
    yield from until(lambda: shown() is not None, "the ghost")
    assert wing("host.ghost")._handles
    assert {len(keys["co"]) for keys in every_key().values()} == {2}
    yield from strike("ESC")
    yield from until(lambda: shown() is None, "Esc to discard the ghost")
    yield from press("neural_ik.motion_fill")
    yield from until(lambda: shown() is not None, "the ghost again")
    scene.frame_set(14)
    yield 0.5
    yield from picture(out / "motion_panel.webp", CROP)
    yield from press("neural_ik.ghost_accept")
    yield from until(lambda: shown() is None, "the keys")
    now = every_key()
    for path, old in before.items():
        assert len(now[path]["co"]) == 25, path
        rows = [np.isin(keys["co"][:, 0], (1, 25)) for keys in (now[path], old)]
        assert all(np.array_equal(now[path][name][rows[0]], old[name][rows[1]]) for name in old), path
    yield from picture(out / "motion_filled.png", CROP)
    with inside():
        bpy.ops.ed.undo()
    yield 0.5
    assert {len(keys["co"]) for keys in every_key().values()} == {2}, "one undo takes it back"
    yield from press("neural_ik.motion_check")
    yield from until(lambda: wing("motion.making").checked(character()) is not None, "the figures")
    yield from picture(out / "motion_check.png", CROP)


def feet(install: Callable[[], Steps], out: Path) -> Steps:
    """A walk that drifts: contacts are marked, feet fixed, keys accepted."""
    yield from stage(install, "NEURAL_IK_PT_feet")
    scene, ob = bpy.context.scene, character()
    before = every_key()
    frames = [int(f) for f in before['pose.bones["Hips"].location', 0]["co"][:, 0]]
    with inside():
        way = ob.data.bones["Hips"].matrix_local.to_3x3().inverted() @ Vector((0, 0.008, 0))
        for curve in curves():
            if curve.data_path.endswith("location"):
                for point in curve.keyframe_points:
                    point.co[1] += way[curve.array_index] * point.co[0]
                curve.update()
        scene.frame_set(frames[len(frames) // 2])
    slid = every_key()
    yield 0.5
    yield from press("neural_ik.feet_contacts")
    action = ob.animation_data.action
    yield from until(lambda: len(action.pose_markers) > 0, "the markers")
    yield from press("neural_ik.feet_fix")
    yield from until(lambda: shown() is not None, "the ghost")
    assert any(line.startswith("Standing feet slide") for line in shown().figures), shown().figures
    assert all(np.array_equal(keys["co"], every_key()[path]["co"]) for path, keys in slid.items())
    yield 0.5
    yield from picture(out / "feet_panel.webp", CROP)
    yield from press("neural_ik.ghost_accept")
    yield from until(lambda: shown() is None, "the keys")
    assert not all(np.array_equal(keys["co"], every_key()[path]["co"]) for path, keys in slid.items())
    yield from picture(out / "feet_fixed.png", CROP)


def physics(install: Callable[[], Steps], out: Path) -> Steps:
    """A walk that floats, slides and leans: its score over the timeline, Make Physical, Esc, again, Accept, undo."""
    yield from stage(install, "NEURAL_IK_PT_physics")
    scene, ob = bpy.context.scene, character()
    frames = [int(f) for f in every_key()['pose.bones["Hips"].location', 0]["co"][:, 0]]
    with inside():
        turn = ob.data.bones["Hips"].matrix_local.to_3x3().inverted()
        drift, lift = turn @ Vector((0, 0.008, 0)), turn @ Vector((0, 0, 0.08))
        for curve in curves():
            if curve.data_path == 'pose.bones["Hips"].location':
                for point in curve.keyframe_points:
                    high = 0.5 - 0.5 * np.cos(2 * np.pi * (point.co[0] - frames[0]) / len(frames))
                    point.co[1] += drift[curve.array_index] * point.co[0] + lift[curve.array_index] * high
                curve.update()
        scene.frame_start, scene.frame_end = frames[0], frames[-1]
        scene.frame_set(frames[len(frames) // 2])
        bpy.ops.ed.undo_push(message="A walk in the air")
    lifted = every_key()
    scores, overlay = wing("physics.scores"), wing("physics.overlay")
    yield 0.5
    yield from press("neural_ik.physics_balance")
    yield from until(lambda: scores.of(ob) is not None, "the score")
    assert scores.of(ob).score.max() > 0.8
    assert overlay._handles
    yield 0.5
    yield from picture(out / "physics_balance.png", CROP)
    yield from press("neural_ik.physics_mend")
    yield from until(lambda: shown() is not None, "the ghost")
    assert shown().figures[0].startswith("Balance score"), shown().figures
    assert all(np.array_equal(keys["co"], every_key()[path]["co"]) for path, keys in lifted.items())
    yield from strike("ESC")
    yield from until(lambda: shown() is None, "Esc to discard the ghost")
    yield from press("neural_ik.physics_mend")
    yield from until(lambda: shown() is not None, "the ghost again")
    found = scores.of(ob)
    assert found.ghost.mean() < 0.5 * found.score.mean(), (found.ghost.mean(), found.score.mean())
    yield 0.5
    yield from picture(out / "physics_panel.webp", CROP)
    yield from press("neural_ik.ghost_accept")
    yield from until(lambda: shown() is None, "the keys")
    assert not all(np.array_equal(keys["co"], every_key()[path]["co"]) for path, keys in lifted.items())
    yield 0.5
    yield from picture(out / "physics_accepted.png", CROP)
    with inside():
        bpy.ops.ed.undo()
    yield 0.5
    assert all(np.array_equal(keys["co"], every_key()[path]["co"]) for path, keys in lifted.items()), "one undo"
