# SPDX-License-Identifier: GPL-3.0-or-later
"""Render docs/pictures/same_drag.mp4: the same drag with Blender's own IK constraint and with Live IK, side by side, and a still of it.

``python -m tools.film [OUT.mp4]``, from the root of the repository, with ``bpy`` installed; two minutes. Blender's Workbench
renders it without a window, and Blender itself makes the film of the frames (H.264, 1280 x 720, 24 frames a second).

Both characters begin in the same pose, both have their feet held, and both right hands are drawn to the same places. On the
left an IK constraint draws each foot (chain of two bones) and the hand (chain up to the Hips); on the right Live IK has its
defaults.
"""

from __future__ import annotations

import itertools
import math
import os
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
        "this renders in Blender; in the project's folder, uv run --group test python -m tools.film installs it",
    )
import bpy
from mathutils import Vector

from neural_network import blender
from neural_network.blender.host import memory
from neural_network.blender.posing import live_ik
from neural_network.ik import network
from neural_network.rigs.roles import ROLE_NAMES

from . import skin

SIZE, FPS, SECONDS = (1280, 720), 24, 10
OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "same_drag.mp4"
STILL = 115  # the frame that is also saved as a picture
APART = 0.85  # [m] each character from the middle
HAND, FEET = "RightHand", ("LeftFoot", "RightFoot")
WAY = [
    (0.0, None),
    (1.8, (-0.25, 0.05, 2.0)),
    (2.6, (-0.25, 0.05, 2.0)),
    (4.6, (-0.3, -0.55, 0.08)),
    (5.4, (-0.3, -0.55, 0.08)),
    (7.2, (-0.95, -0.15, 0.7)),
    (7.8, (-0.95, -0.15, 0.7)),
    (9.6, None),
]
"""Seconds, and the place of the hand [m] from below the Hips; None is where it begins."""


def add_character(at: float, name: str) -> Any:
    """The demo character, standing ``at`` metres to the side, without an action, with a caption."""
    bpy.ops.neural_ik.add_demo_character()
    made = bpy.context.active_object
    made.location.x = at
    made.animation_data.action = next(a for a in bpy.data.actions if "walk" in a.name.lower())
    bpy.context.scene.frame_set(4)
    bpy.context.view_layer.update()
    pose = {pb.name: pb.matrix_basis.copy() for pb in made.pose.bones}
    made.animation_data.action = None  # renders show an action, where there is one, instead of Live IK
    for pb in made.pose.bones:
        pb.matrix_basis = pose[pb.name]
    bpy.context.view_layer.update()
    mannequin = next(other for other in bpy.data.objects if other.parent == made)
    bpy.data.objects.remove(mannequin)
    skin.add(made, {role: made.pose.bones.find(role) for role in ROLE_NAMES})
    curve: Any = bpy.data.curves.new(name, "FONT")
    curve.body, curve.align_x, curve.size = name, "CENTER", 0.13
    text = bpy.data.objects.new(name, curve)
    bpy.context.scene.collection.objects.link(text)
    text.location, text.rotation_euler.x = (at, -0.75, 0.01), math.radians(70)
    skin.paint(text, (0.9, 0.9, 0.9, 1))
    return made


def add_ball(color: tuple[float, ...], size: float) -> Any:
    """A small sphere."""
    bpy.ops.mesh.primitive_uv_sphere_add(radius=size, segments=24, ring_count=12)
    made = bpy.context.active_object
    skin.paint(made, color)
    return made


def constrain(character: Any) -> Any:
    """Hold the feet and draw the hand with Blender's IK constraints; returns the hand's target."""
    target = None
    for bone, chain in ((HAND, chain_to_hips(character)), *((foot, 2) for foot in FEET)):
        pb = character.pose.bones[bone]
        empty = bpy.data.objects.new(f"IK {bone}", None)
        bpy.context.scene.collection.objects.link(empty)
        empty.location = character.matrix_world @ pb.head
        empty.empty_display_size = 0.01
        made: Any = pb.parent.constraints.new("IK")
        made.target, made.chain_count = empty, chain
        target = target or empty
    return target


def chain_to_hips(character: Any) -> int:
    """The number of bones from the forearm up to, and without, the Hips."""
    pb, count = character.pose.bones[HAND].parent, 0
    while pb.parent is not None:
        pb, count = pb.parent, count + 1
    return count


def place(seconds: float, begin: Any, middle: Any) -> Any:
    """Where the hand is drawn to at a time."""
    for (since, here), (until, there) in itertools.pairwise(WAY):
        if seconds <= until:
            share = (seconds - since) / (until - since)
            share = share * share * (3 - 2 * share)
            a, b = (begin if p is None else middle + Vector(p) for p in (here, there))
            return a.lerp(b, share)
    return begin


def set_up_scene() -> None:
    """The camera, the floor and the render settings."""
    own: Any = bpy.context.scene
    for ob in list(bpy.data.objects):
        bpy.data.objects.remove(ob)
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    own.collection.objects.link(camera)
    own.camera = camera
    camera.location = (1.1, -6.6, 1.9)
    camera.rotation_euler = (Vector((-0.15, -0.2, 1.0)) - camera.location).to_track_quat("-Z", "Y").to_euler()
    camera.data.lens = 52
    own.render.engine = "BLENDER_WORKBENCH"
    own.render.resolution_x, own.render.resolution_y, own.render.resolution_percentage = *SIZE, 100
    own.display.shading.light, own.display.shading.color_type = "STUDIO", "MATERIAL"
    own.display.shading.show_cavity = True
    own.view_settings.view_transform = "Standard"
    bpy.ops.mesh.primitive_plane_add(size=14)
    skin.paint(bpy.context.active_object, (0.16, 0.17, 0.2, 1))


def join(frames: list[Path], out: Path) -> None:
    """Make a film of pictures, in a scene of its own."""
    scene: Any = bpy.data.scenes.new("Film")
    scene.render.fps, scene.frame_start, scene.frame_end = FPS, 1, len(frames)
    scene.render.resolution_x, scene.render.resolution_y, scene.render.resolution_percentage = *SIZE, 100
    scene.view_settings.view_transform = "Standard"
    editor = scene.sequence_editor_create()
    strips = editor.strips if hasattr(editor, "strips") else editor.sequences
    strip = strips.new_image("frames", str(frames[0]), 1, 1)
    for path in frames[1:]:
        strip.elements.append(path.name)
    if hasattr(scene.render.image_settings, "media_type"):
        scene.render.image_settings.media_type = "VIDEO"
    scene.render.image_settings.file_format = "FFMPEG"
    scene.render.ffmpeg.format, scene.render.ffmpeg.codec = "MPEG4", "H264"
    scene.render.ffmpeg.constant_rate_factor = "MEDIUM"
    scene.render.use_file_extension = False
    scene.render.filepath = str(out)
    bpy.ops.render.render(animation=True, scene=scene.name)


def main() -> None:
    """Pose and render the frames, and join them."""
    out = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else OUT
    blender.register("neural_ik_film")
    memory.start("neural_ik_film")
    memory.memory.network = network.load(memory.SHIPPED_WEIGHTS)
    set_up_scene()
    plain, ours = add_character(-APART, "Blender's IK constraint"), add_character(APART, "Neural IK")
    middles = [Vector((c.matrix_world @ c.pose.bones["Hips"].head)[:2] + (0.0,)) for c in (plain, ours)]
    begins = [c.matrix_world @ c.pose.bones[HAND].head for c in (plain, ours)]
    bpy.context.view_layer.objects.active = ours
    collection = live_ik.start(bpy.context, ours)
    goals = [constrain(plain), live_ik.target_objects(collection)["EFFECTOR", HAND]]
    balls = [add_ball((1.0, 0.35, 0.05, 1), 0.05) for _ in goals]
    with tempfile.TemporaryDirectory(prefix="neural_ik_") as name:
        frames = []
        for frame in range(FPS * SECONDS):
            for goal, ball, begin, middle in zip(goals, balls, begins, middles, strict=True):
                goal.location = ball.location = place(frame / FPS, begin, middle)
            bpy.context.view_layer.update()
            frames.append(Path(name) / f"{frame:03d}.png")
            bpy.context.scene.render.filepath = str(frames[-1])
            bpy.ops.render.render(write_still=True)
        still = bpy.data.images.load(str(frames[STILL]))
        still.scale(SIZE[0] // 2, SIZE[1] // 2)
        still.filepath_raw, still.file_format = str(out.with_suffix(".png")), "PNG"
        still.save()
        join(frames, out)
    live = live_ik.live_of(collection)
    latency = 0.0 if live is None else live.latency
    sys.stdout.write(f"{out}: {out.stat().st_size / 1000:.0f} kB; {latency * 1000:.2f} ms per update\n")
    sys.stdout.flush()
    os._exit(0)


main()
