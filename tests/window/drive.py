# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives a real Blender window from inside: a test is a generator that yields the seconds it leaves to Blender.

Blender must run with ``--enable-event-simulate``; mouse and keys are then those sent from here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import bpy

TAB = "Neural IK"
presses: list[str] = []
"""The buttons that were pressed with the mouse so far."""
Steps = Generator[float, None, Any]


def run(test: Steps) -> None:
    """Run a test to its end, then end Blender: exit code 0, or 1 with the reason printed."""

    def pump() -> float:
        try:
            return next(test) or 0.0
        except StopIteration:
            code = 0
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # quitting Blender's own way always gives 0
        return 0.0

    bpy.app.timers.register(pump, first_interval=0.5, persistent=True)


def window() -> bpy.types.Window:
    return bpy.context.window_manager.windows[0]


def area(kind: str = "VIEW_3D") -> bpy.types.Area:
    return next(a for a in window().screen.areas if a.type == kind)


def region(kind: str) -> bpy.types.Region:
    return next(r for r in area().regions if r.type == kind)


def inside(kind: str = "WINDOW") -> Any:
    """A context as if the pointer were in that part of the 3D view; a timer has none of its own."""
    return bpy.context.temp_override(window=window(), area=area(), region=region(kind))


def until(condition: Callable[[], Any], what: str, timeout: float = 60) -> Steps:
    """Leave the time to Blender until ``condition`` holds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout} s for {what}")
        area().tag_redraw()
        yield 0.05


def open_tab() -> Steps:
    """Show the sidebar of the 3D view on the extension's tab."""
    area().spaces[0].show_region_ui = True
    yield from until(lambda: region("UI").active_panel_category != "UNSUPPORTED", "the sidebar to be drawn")
    yield from until(_on_tab, f"the tab {TAB}")
    width = -1
    while width != region("UI").width:  # it slides in
        width = region("UI").width
        area().tag_redraw()
        yield 0.3


def _on_tab() -> bool:
    with contextlib.suppress(TypeError):  # tabs appear when the sidebar is next drawn
        region("UI").active_panel_category = TAB
    return region("UI").active_panel_category == TAB


def only_panels(*names: str) -> None:
    """Show no other panels of the extension than these, and those expanded."""
    package = "bl_ext.user_default.neural_ik.neural_network.blender"
    rooms = ("roles", "effectors", "learn", "data", "posing", "motion", "repair", "physics", "gait", "teach")
    places = ("host.main_panel", *(f"{room}.panel" for room in rooms))
    modules = [sys.modules[f"{package}.{place}"] for place in places]
    for module in reversed(modules):
        module.unregister()
    for module in modules:
        for name, cls in vars(module).items():
            if name in names:
                cls.bl_options = set()
            elif name.startswith("NEURAL_IK_PT"):
                cls.poll = classmethod(lambda cls, context: False)
        module.register()


def move(x: float, y: float) -> None:
    window().event_simulate(type="MOUSEMOVE", value="NOTHING", x=int(x), y=int(y))


def key(name: str) -> Steps:
    for value in ("PRESS", "RELEASE"):
        window().event_simulate(type=name, value=value)
        yield 0.05


def strike(name: str, at: tuple[float, float] | None = None, **held: bool) -> Steps:
    """Press a key with the pointer in the 3D Viewport or at a pixel of the window, optionally with Ctrl or Shift."""
    view = region("WINDOW")
    x, y = at or (view.x + 60, view.y + 60)
    move(x, y)
    yield 0.3
    for value in ("PRESS", "RELEASE"):
        window().event_simulate(type=name, value=value, x=int(x), y=int(y), **held)
        yield 0.1
    yield 0.3


def click(x: float, y: float) -> Steps:
    move(x, y)
    yield 0.3  # the button must have noticed the pointer
    for value in ("PRESS", "RELEASE"):
        window().event_simulate(type="LEFTMOUSE", value=value, x=int(x), y=int(y))
        yield 0.05


def press(operator: str) -> Steps:
    """Click the button of ``operator`` ("neural_ik.train") in the sidebar, wherever it stands.

    Blender tells no script where its buttons are, but the one under the pointer tells its own command.
    """
    ui = region("UI")
    x, y = ui.x + ui.width // 2 - 10, ui.y + ui.height - 8
    seen = []
    while y > ui.y + 5:
        move(x, y)
        yield 0.05
        with inside("UI"):
            manager = bpy.context.window_manager
            manager.clipboard = ""
            if bpy.ops.ui.copy_python_command_button.poll():
                bpy.ops.ui.copy_python_command_button()
            found = manager.clipboard
        if found.startswith(f"bpy.ops.{operator}("):
            presses.append(operator)
            yield from click(x, y)
            return
        seen.append(found)
        y -= 12
    raise AssertionError(f"no button {operator}; there are {sorted(set(seen) - {''})}")


def picture(path: Path, crop: str = "") -> Steps:
    """Save what the window shows as WebP, or PNG with few colours, cropped ("WxH+X+Y"), where ImageMagick is there to do it."""
    area().tag_redraw()
    yield 0.4
    # Blender's own bpy.ops.screen.screenshot is black with software rendering.
    if shutil.which("import") is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["import", "-window", "root", *(["-crop", crop, "+repage"] if crop else [])]
    kind = (
        ["-quality", "70", "-strip", f"WEBP:{path}"]
        if path.suffix == ".webp"
        else ["+dither", "-colors", "96", "-strip", f"PNG8:{path}"]
    )
    subprocess.run([*words, *kind], check=True)


class Gaps:
    """While open, measures the longest time between two turns of Blender's event loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.last = 0.0
        self.tick = self._tick  # one object: Blender knows a timer by identity

    def _tick(self) -> float | None:
        now = time.perf_counter()
        if self.last:
            self.longest = max(self.longest, now - self.last)
        self.last = now
        return 0.0

    def __enter__(self) -> Gaps:
        bpy.app.timers.register(self.tick, persistent=True)
        return self

    def __exit__(self, *_: object) -> None:
        bpy.app.timers.unregister(self.tick)
