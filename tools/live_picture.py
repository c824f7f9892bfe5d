# SPDX-License-Identifier: GPL-3.0-or-later
"""Render docs/pictures/live_ik.webp: a hand is dragged in a circle, and the body follows.

``python -m tools.live_picture [WEIGHTS]``, from the root of the repository, with ``bpy`` and ImageMagick installed. Blender's
Workbench renders it without a window.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("BLENDER_USER_RESOURCES", tempfile.mkdtemp(prefix="neural_ik_"))
from neural_network.core.messages import GET_NUMPY, require

if __name__ == "__main__":
    require("numpy", GET_NUMPY)
    require(
        "bpy",
        "this renders in Blender; in the project's folder, uv run --group test python -m tools.live_picture installs it",
    )
import bpy
from mathutils import Vector

from neural_network import blender
from neural_network.blender.host import memory
from neural_network.blender.posing import live_ik
from neural_network.ik import network

SIZE = (320, 320)
FRAMES = 36
OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "live_ik.webp"


def add_ball(position: Any, color: tuple[float, ...], size: float) -> Any:
    """Add a small sphere."""
    bpy.ops.mesh.primitive_uv_sphere_add(radius=size, location=position, segments=24, ring_count=12)
    made = bpy.context.active_object
    made.color = color
    for polygon in made.data.polygons:
        polygon.use_smooth = True
    return made


def set_up_scene() -> None:
    """Add the camera and the floor, and choose the render settings."""
    own: Any = bpy.context.scene
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    own.collection.objects.link(camera)
    own.camera = camera
    camera.location = (1.9, -3.9, 1.75)
    camera.rotation_euler = (Vector((0, -0.1, 0.88)) - camera.location).to_track_quat("-Z", "Y").to_euler()
    camera.data.lens = 62
    own.render.engine = "BLENDER_WORKBENCH"
    own.render.resolution_x, own.render.resolution_y, own.render.resolution_percentage = *SIZE, 100
    shading = own.display.shading
    shading.light, shading.color_type = "STUDIO", "OBJECT"
    shading.show_cavity = True
    own.view_settings.view_transform = "Standard"
    world = bpy.data.worlds.new("World")
    world.color = (0.09, 0.10, 0.12)
    own.world = world
    bpy.ops.mesh.primitive_plane_add(size=8)
    bpy.context.active_object.color = (0.16, 0.17, 0.2, 1)


def main() -> None:
    """Render the frames and join them."""
    convert = shutil.which("magick") or shutil.which("convert")
    if convert is None:
        sys.stderr.write("live_picture.py: ImageMagick is needed to join the frames\n")
        os._exit(2)
    blender.register("neural_ik_picture")
    memory.start("neural_ik_picture")
    path = Path(sys.argv[-1]) if sys.argv[-1].endswith(".npy") else memory.SHIPPED_WEIGHTS
    memory.memory.network = network.load(path)
    for ob in list(bpy.data.objects):
        bpy.data.objects.remove(ob)
    set_up_scene()
    bpy.ops.neural_ik.add_demo_character()
    character = bpy.context.active_object
    for other in bpy.data.objects:
        if other.parent == character:
            other.color = (0.62, 0.66, 0.72, 1)
    bpy.context.scene.frame_set(1)
    character.animation_data.action = None  # renders show the action if there is one, instead of Live IK
    bpy.context.view_layer.update()
    collection = live_ik.start(bpy.context, character)
    targets = live_ik.target_objects(collection)
    hand = targets["EFFECTOR", "RightHand"]
    begin = hand.location.copy()
    shown = [(add_ball(begin, (1.0, 0.35, 0.05, 1), 0.055), hand)]
    shown += [
        (add_ball(targets["EFFECTOR", f].location, (0.1, 0.75, 0.3, 1), 0.03), targets["EFFECTOR", f])
        for f in ("LeftFoot", "RightFoot")
    ]
    with tempfile.TemporaryDirectory(prefix="neural_ik_") as name:
        for frame in range(FRAMES):
            at = 2 * math.pi * frame / FRAMES
            away = 0.5 - 0.5 * math.cos(at)
            hand.location = begin + Vector(
                (0.35 * math.sin(at), -0.5 * away, 0.5 * math.sin(2 * at) * away - 0.25 * away)
            )
            bpy.context.view_layer.update()
            for made, target in shown:
                made.location = target.matrix_world.translation
            bpy.context.scene.render.filepath = str(Path(name) / f"{frame:03d}.png")
            bpy.ops.render.render(write_still=True)
        live = live_ik.live_of(collection)
        OUT.parent.mkdir(parents=True, exist_ok=True)
        words = [convert, "-delay", "6", "-loop", "0", *sorted(map(str, Path(name).glob("*.png"))), "-quality", "72"]
        subprocess.run([*words, str(OUT)], check=True)
    sys.stdout.write(f"{OUT}: {OUT.stat().st_size / 1000:.0f} kB; {live.latency * 1000:.2f} ms per update\n")
    sys.stdout.flush()
    os._exit(0)


main()
