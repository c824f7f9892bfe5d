# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel Live in a window: teach, listen, send, drive, record, undo in one step, and load another file."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import drive
import numpy as np
from drive import Steps, inside, picture, press, until

EXTENSION = "bl_ext.user_default.neural_ik"


def wing(name: str) -> Any:
    return sys.modules[f"{EXTENSION}.neural_network.blender.{name}"]


def only_panel(name: str) -> None:
    """Leave only one panel in the tab, so that all of its buttons are visible once it is open."""
    panels: Any = bpy.types.Panel
    for cls in list(panels.__subclasses__()):
        if cls.__module__.startswith(EXTENSION) and getattr(cls, "bl_rna", None) and cls.is_registered:
            bpy.utils.unregister_class(cls)
    panel = getattr(wing("teach.panel"), name)
    bpy.utils.register_class(panel)


def push(operator: str) -> Steps:
    """Press a button; the pointer leaves the sidebar first, so that the last button is not pressed again."""
    drive.move(300, 300)
    yield 0.6
    yield from press(operator)


def foot(ob: Any) -> np.ndarray:
    return np.array(ob.matrix_world @ ob.pose.bones["LeftFoot"].head)


def teach(install: Callable[[], Steps], out: Path) -> Steps:
    """Use clicks only, and take a picture of each step."""
    yield from install()
    with inside():
        bpy.ops.object.select_all(action="SELECT")
        bpy.ops.object.delete()
        bpy.ops.neural_ik.add_demo_character()
    ob = bpy.data.objects["Neural IK Demo"]
    action = bpy.data.actions["walk"]
    ob.animation_data.action = action
    if hasattr(action, "slots"):
        ob.animation_data.action_slot = action.slots[0]
    only_panel("NEURAL_IK_PT_teach")
    with inside():
        bpy.ops.view3d.view_selected()
        bpy.ops.ed.undo_push(message="the beginning")
    yield 0.5
    ui = drive.region("UI")
    yield from drive.click(ui.x + 100, ui.y + ui.height - 15)  # the header opens it
    yield 0.5
    state = wing("teach.session").state
    yield from picture(out / "1_before.png")
    yield from push("neural_ik.teach")
    yield from until(lambda: state.latest and wing("host.jobs").running is None, "the walk to be taught", 300)
    assert state.lessons[state.latest].status == "solving"
    yield from picture(out / "2_taught.png")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bpy.context.window_manager.neural_ik_teach.port = port = probe.getsockname()[1]
    yield from push("neural_ik.listen")
    yield from until(lambda: state.server is not None, "the port")
    yield from push("neural_ik.send_pose")
    yield from until(lambda: state.send is not None and state.send.pose is not None, "a pose to be sent")
    with socket.create_connection(("127.0.0.1", port), timeout=60):
        yield from until(lambda: state.server.clients() == 1, "the client")
        yield from picture(out / "3_listening.png")
    before = foot(ob)
    yield from push("neural_ik.drive")
    yield from until(lambda: state.drive is not None, "driving")
    yield from push("neural_ik.record")
    yield from until(lambda: state.record is not None, "recording")
    target = bpy.data.objects["Neural IK Demo Left Foot"]
    for _ in range(10):
        target.location.z += 0.015
        yield 0.1
    yield from until(lambda: np.linalg.norm(foot(ob) - np.array(target.location)) < 1e-3, "the foot on its target")
    yield from picture(out / "live_learning.png")
    yield from push("neural_ik.record_stop")
    yield from until(lambda: state.record is None, "the end of the recording")
    assert "Live" in ob.animation_data.action.name
    yield from push("neural_ik.drive_stop")
    yield from until(lambda: state.drive is None, "the end of driving")
    after = foot(ob)
    assert np.linalg.norm(after - before) > 0.1
    yield from picture(out / "5_recorded.png")
    with inside():
        bpy.ops.ed.undo()
    yield 0.5
    ob = bpy.data.objects["Neural IK Demo"]
    assert np.allclose(foot(ob), before, atol=1e-4), "one undo step takes the whole session back"
    assert state.server is not None
    with inside():
        bpy.ops.wm.read_homefile(use_empty=True)
    yield 0.5
    assert not wing("teach.session").active()
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        raise AssertionError("another file must free the port")
    except OSError:
        pass
    assert not bpy.app.timers.is_registered(wing("teach.ticks")._timer)
