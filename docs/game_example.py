# SPDX-License-Identifier: GPL-3.0-or-later
"""Three characters reach for a moving ball, sixty times a second.

Run ``blender --python docs/game_example.py`` with Neural IK enabled, or open this file in the Text Editor and press Run Script; run
it again to stop. In background mode (``blender -b --python ...``) it takes 300 steps and prints how long they took.
"""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

import bpy

RATE = 60
KEY = "neural_ik_game"  # entry of sys.modules that holds the running loop


def module(name: str) -> Any:
    """A module of neural_network.blender in the enabled extension, from whichever repository it was installed."""
    root = next(key for key in bpy.context.preferences.addons.keys() if key.rpartition(".")[2] == "neural_ik")  # noqa: SIM118
    return importlib.import_module(f"{root}.neural_network.blender.{name}")


def main() -> None:
    """Start the loop, or stop it if it is running."""
    running = sys.modules.pop(KEY, None)
    if running is not None:
        running.stop()  # type: ignore[attr-defined]
        return
    game = module("posing.game")
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
            x = body.object.location.x
            offset = max(-0.5, min(0.5, ball.location.x - x))
            body.aim("RightHand" if offset < 0 else "LeftHand", (x + offset, -0.45, ball.location.z))
            body.free("LeftHand" if offset < 0 else "RightHand")
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
    sys.stdout.write(f"{len(bodies)} bodies: median {took[len(took) // 2] * 1000:.2f} ms per step\n")
    for body in bodies:
        body.release()


main()
