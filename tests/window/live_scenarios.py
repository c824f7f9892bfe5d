# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK in a window: drag a hand with the mouse, and undo it in every way."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import drive
import numpy as np
from bpy_extras.view3d_utils import location_3d_to_region_2d
from drive import Steps, click, inside, picture, press, strike, until, window
from mathutils import Vector

EXTENSION = "bl_ext.user_default.neural_ik"
SAME = 1e-6
HIT = 1e-3


def wing(name: str) -> Any:
    return sys.modules[f"{EXTENSION}.neural_network.blender.{name}"]


def character() -> Any:
    return next(o for o in bpy.data.objects if o.type == "ARMATURE")


def channels() -> np.ndarray:
    values = wing("host.runtime").snapshot(character())
    return np.concatenate([values[name] for name in sorted(values)])


def live() -> Any:
    (collection,) = wing("posing.live_ik").collections()
    return wing("posing.live_ik").live_of(collection)


def target(role: str, kind: str = "EFFECTOR") -> Any:
    return wing("posing.live_ik").target_objects(wing("posing.live_ik").collections()[0])[kind, role]


def missed(role: str) -> float:
    ob = character()
    return float((ob.matrix_world @ ob.pose.bones[role].head - target(role).matrix_world.translation).length)


def on_screen(place: Any) -> tuple[int, int]:
    """Window pixels of a position in world space."""
    region = drive.region("WINDOW")
    x, y = location_3d_to_region_2d(region, drive.area().spaces[0].region_3d, Vector(place))
    return int(region.x + x), int(region.y + y)


def look() -> None:
    """View the character from the front, slightly from the side."""
    area = drive.area()
    view = area.spaces[0].region_3d
    view.view_perspective = "PERSP"
    view.view_location, view.view_distance = (0, 0, 0.95), 4.2
    view.view_rotation = Vector((0.55, -1, 0.28)).to_track_quat("Z", "Y")
    space: Any = area.spaces[0]
    space.shading.type = "SOLID"
    space.overlay.show_floor = space.overlay.show_axis_x = space.overlay.show_axis_y = False


def select(ob: Any) -> Steps:
    """Select an object by clicking on it."""
    yield from click(*on_screen(ob.matrix_world.translation))
    yield 0.2
    if bpy.context.view_layer.objects.active != ob:  # another object was in front of it
        with inside():
            bpy.ops.object.select_all(action="DESELECT")
        ob.select_set(True)
        bpy.context.view_layer.objects.active = ob
        yield 0.2


def drag(ob: Any, way: tuple[float, float], moves: int, end: str) -> Steps:
    """Press G, move the mouse along ``way`` [pixels], and click or press Esc."""
    x, y = on_screen(ob.matrix_world.translation)
    yield from strike("G", (x, y))
    for i in range(1, moves + 1):
        drive.move(x + way[0] * i / moves, y + way[1] * i / moves)
        yield 0.03
    if end == "ESC":
        yield from strike("ESC", (x + way[0], y + way[1]))
    else:
        for value in ("PRESS", "RELEASE"):
            window().event_simulate(type="LEFTMOUSE", value=value, x=int(x + way[0]), y=int(y + way[1]))
            yield 0.1
    yield 0.3


def begin(install: Callable[[], Steps]) -> Steps:
    """The demo character alone, in the middle of a step, with weights in memory."""
    yield from install()
    with inside():
        bpy.ops.object.select_all(action="SELECT")
        bpy.ops.object.delete()
        bpy.ops.neural_ik.add_demo_character()
    bpy.context.scene.frame_set(20)
    look()
    with inside():
        bpy.ops.ed.undo_push(message="begun")
    yield 0.5


def dragging(install: Callable[[], Steps], out: Path) -> Steps:
    """Drag, undo, redo, Esc, scrub, key, cancel, undo of the cancel, bake and a bake ended by Esc."""
    yield from begin(install)
    before = channels()
    drive.presses.clear()
    yield from press("neural_ik.live_start")
    yield from until(lambda: wing("posing.live_ik").collections(), "the targets")
    assert np.abs(channels() - before).max() == 0, "starting moves nothing"
    yield from picture(out / "live_1_begun.png")

    hand = target("RightHand")
    assert bpy.context.active_object == hand, "G moves it without another click"
    assert len(drive.presses) <= 2, f"to a dragged hand: {drive.presses}"
    solves = live().solves
    yield from drag(hand, (-110, 90), 60, "CLICK")
    figures = {
        "updates": live().solves - solves,
        "solve and write, median [ms]": round(live().latency * 1000, 3),
        "hand from its target [mm]": round(missed("RightHand") * 1000, 4),
        "feet from theirs [mm]": [round(missed(f) * 1000, 4) for f in ("LeftFoot", "RightFoot")],
    }
    (out / "live_figures.json").write_text(json.dumps(figures) + "\n")
    assert figures["updates"] > 20
    assert max(missed(role) for role in ("RightHand", "LeftFoot", "RightFoot")) <= HIT
    yield from picture(out / "live_2_dragged.png")
    dragged = channels()

    hand.location.z += 1.0  # out of reach: red, and a line from the target to the hand
    yield 0.3
    assert missed("RightHand") > 0.1
    yield from picture(out / "live_2_out_of_reach.png")
    hand.location.z -= 1.0
    yield 0.3
    assert np.abs(channels() - dragged).max() <= 1e-4

    yield from strike("Z", ctrl=True)
    yield 0.5
    assert np.abs(channels() - before).max() <= SAME, "one undo reverts the whole drag"
    assert wing("posing.live_ik").collections(), "and Live IK is still on"
    yield from strike("Z", ctrl=True, shift=True)
    yield 0.5
    assert np.abs(channels() - dragged).max() <= SAME
    solves = live().solves
    target("RightHand").location.z += 0.01
    yield 0.3
    assert live().solves > solves, "it still works after undo and redo"
    assert missed("RightHand") <= HIT
    target("RightHand").location.z -= 0.01
    yield 0.3
    dragged = channels()

    left = target("LeftHand")
    yield from select(left)
    yield from drag(left, (60, 60), 20, "ESC")
    assert np.abs(channels() - dragged).max() <= 1e-4, "Esc during a drag cancels the drag only"
    assert wing("posing.live_ik").collections()

    for name, frame in (("RIGHT_ARROW", 21), ("RIGHT_ARROW", 22), ("LEFT_ARROW", 21), ("LEFT_ARROW", 20)):
        yield from strike(name)
        assert bpy.context.scene.frame_current == frame
        assert missed("RightHand") <= HIT
    assert np.abs(channels() - dragged).max() <= 1e-4

    yield from strike("ESC")
    yield from until(lambda: not wing("posing.live_ik").collections(), "Esc to cancel", 10)
    assert np.abs(channels() - before).max() <= SAME, "Esc restores every bone"
    assert not [o for o in bpy.data.objects if o.type == "EMPTY"]
    yield from strike("Z", ctrl=True)
    yield 0.5
    yield 0.5
    assert wing("posing.live_ik").collections(), "undo restores Live IK"
    assert np.abs(channels() - dragged).max() <= 1e-4

    with inside("UI"):  # the button is beside Bake, where press() does not look
        bpy.ops.neural_ik.live_key("INVOKE_DEFAULT")
    yield 0.5
    assert bpy.context.scene.frame_current == 20
    bpy.context.scene.frame_set(25)
    bpy.context.scene.frame_set(20)
    assert np.abs(channels() - dragged).max() <= 1e-4, "the keyed pose stays"

    with inside("UI"):
        bpy.ops.neural_ik.live_bake("INVOKE_DEFAULT", first=1, last=100000)
    yield from until(lambda: wing("host.jobs").running is not None, "the bake to start")
    yield 1.0
    yield from strike("ESC")
    yield from until(lambda: wing("host.jobs").running is None, "Esc to end the bake", 10)
    assert bpy.context.scene.frame_current == 20
    assert wing("posing.live_ik").collections()
    target("RightHand").location.z += 0.05
    yield 0.3
    assert missed("RightHand") <= HIT
    yield from press("neural_ik.live_bake")
    yield from until(
        lambda: not wing("posing.live_ik").collections() and wing("host.jobs").running is None, "the bake", 120
    )
    yield from picture(out / "live_3_baked.png")
    yield from strike("Z", ctrl=True)
    yield 0.5
    assert wing("posing.live_ik").collections(), "one undo reverts the bake"
