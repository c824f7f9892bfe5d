# SPDX-License-Identifier: GPL-3.0-or-later
"""Three characters whose hands follow a moving ball, thirty times a second and more.

``blender --python docs/game_example.py`` with Neural IK enabled, or open it in the Text Editor and press Run; run it again
to stop. In the background (``blender -b --python ...``) it takes 300 steps and tells how long they took.
"""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

import bpy

RATE = 60
KEY = "neural_ik_game"  # where the running loop is found again


def wing(name: str) -> Any:
    """A module of the enabled extension, whatever repository it was installed from."""
    root = next(key for key in bpy.context.preferences.addons.keys() if key.rpartition(".")[2] == "neural_ik")  # noqa: SIM118
    return importlib.import_module(f"{root}.neural_network.blender.{name}")


def main() -> None:
    """Start, or stop what runs."""
    running = sys.modules.pop(KEY, None)
    if running is not None:
        running.stop()  # type: ignore[attr-defined]
        return
    game = wing("posing.game")
    bodies = []
    for place in (-1.2, 0.0, 1.2):
        bpy.ops.neural_ik.add_demo_character(motion=False)
        ob = bpy.context.active_object
        ob.location.x = place
        bpy.context.view_layer.update()
        bodies.append(game.Body(ob))
    ball = bpy.data.objects.new("Ball", None)
    ball.empty_display_type, ball.empty_display_size = "SPHERE", 0.1
    bpy.context.scene.collection.objects.link(ball)
    clock = [0.0]

    def step(seconds: float) -> None:
        clock[0] += seconds
        ball.location = (1.5 * math.sin(0.7 * clock[0]), -0.6, 1.2 + 0.4 * math.sin(1.9 * clock[0]))
        for body in bodies:
            ours = body.object.location.x
            near = max(-0.5, min(0.5, ball.location.x - ours))
            body.aim("RightHand" if near < 0 else "LeftHand", (ours + near, -0.45, ball.location.z))
            body.free("LeftHand" if near < 0 else "RightHand")
            body.step()

    loop = game.Loop(step, RATE)
    if not bpy.app.background:
        loop.start()
        sys.modules[KEY] = loop  # type: ignore[assignment]
        return
    for _ in range(300):
        loop.tick()
        bpy.context.view_layer.update()
    took = sorted(loop.seconds)
    sys.stdout.write(f"{len(bodies)} bodies: median {took[len(took) // 2] * 1000:.2f} ms a step\n")
    for body in bodies:
        body.release()


main()
