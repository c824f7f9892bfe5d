# SPDX-License-Identifier: GPL-3.0-or-later
"""Render the pictures of docs/ that show characters with a skin: six families in one pose, a drag step by step, a dog.

``python -m tools.scenes [families] [drag] [dog]``, from the root of the repository, with ``bpy`` installed. Blender's Workbench renders
without a window; every body is made here, by :mod:`tools.skin`.
"""

from __future__ import annotations

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
        "this renders in Blender; in the project's folder, uv run --group test python -m tools.scenes installs it",
    )
import bpy
import numpy as np
from mathutils import Vector

from benchmarks import blender_rigs, rigs
from benchmarks.creatures import CREATURES
from neural_network import blender
from neural_network.blender.host import actions, memory
from neural_network.blender.host import rig as host
from neural_network.blender.posing import live_ik
from tests import creature_rigs

from . import skin

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
FAMILIES = (
    ("mixamo", "Mixamo"),
    ("vroid", "VRoid"),
    ("unreal mannequin 5", "Unreal 5"),
    ("rigify generated", "Rigify"),
    ("auto-rig pro", "Auto-Rig Pro"),
    ("daz genesis 8", "Daz Genesis 8"),
)
APART = 1.15  # [m]
WAY = ((0.0, 0.0, 0.0), (-0.1, -0.3, 0.35), (0.0, -0.55, -0.3), (0.15, -0.5, -0.75))
"""Where the dragged hand is in each step [m]."""


def set_up(size: tuple[int, int], at: Vector, middle: Vector, lens: float) -> None:
    """An empty scene with a floor, a camera and the extension."""
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    if not hasattr(bpy.types, "NEURAL_IK_OT_live_start"):
        blender.register("neural_ik_scenes")
    memory.start("neural_ik_scenes")
    user = Path(tempfile.mkdtemp(prefix="neural_ik_"))
    memory.folder = lambda: user  # type: ignore[assignment]
    own: Any = bpy.context.scene
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    own.collection.objects.link(camera)
    own.camera = camera
    camera.location = at
    camera.rotation_euler = (middle - at).to_track_quat("-Z", "Y").to_euler()
    camera.data.lens = lens
    own.render.engine = "BLENDER_WORKBENCH"
    own.render.resolution_x, own.render.resolution_y = size
    own.display.shading.light, own.display.shading.color_type = "STUDIO", "MATERIAL"
    own.display.shading.show_cavity = own.display.shading.show_shadows = True
    own.view_settings.view_transform = "Standard"
    own.render.image_settings.file_format, own.render.image_settings.quality = "WEBP", 85
    world = bpy.data.worlds.new("World")
    world.color = (0.09, 0.10, 0.12)
    own.world = world
    bpy.ops.mesh.primitive_plane_add(size=40)
    skin.paint(bpy.context.active_object, (0.16, 0.17, 0.2, 1))


def caption(words: str, place: tuple[float, float, float], size: float = 0.13) -> None:
    """Words on the floor."""
    curve: Any = bpy.data.curves.new(words, "FONT")
    curve.body, curve.align_x, curve.size = words, "CENTER", size
    text = bpy.data.objects.new(words, curve)
    bpy.context.scene.collection.objects.link(text)
    text.location, text.rotation_euler.x = place, 1.2
    skin.paint(text, (0.9, 0.9, 0.9, 1))


def ball(place: Any, color: tuple[float, ...], size: float = 0.05) -> None:
    """A target as it is seen in a picture."""
    bpy.ops.mesh.primitive_uv_sphere_add(radius=size, location=place, segments=24, ring_count=12)
    skin.paint(bpy.context.active_object, color)


def render(name: str) -> None:
    """Save the picture."""
    bpy.context.scene.render.filepath = str(PICTURES / name)
    bpy.ops.render.render(write_still=True)
    sys.stdout.write(f"{PICTURES / name}\n")


def families() -> None:
    """One drag of both hands on six families, at the first press, with the weights that came with Neural IK."""
    set_up((1400, 520), Vector((0, -9.2, 1.7)), Vector((0, 0, 0.86)), 46)
    made = rigs.all_rigs()
    order = sorted(
        range(len(FAMILIES)), key=lambda n: FAMILIES[n][0] != "rigify generated"
    )  # it takes the only armature
    for number in order:
        family, label = FAMILIES[number]
        generated = family == "rigify generated"
        ob = blender_rigs.generated_rigify() if generated else blender_rigs.build(family, made[family])
        if ob is None:
            continue
        skin.add(ob, host.find_roles(ob).bones)
        x = (number - (len(FAMILIES) - 1) / 2) * APART
        ob.location.x += x
        caption(label, (x, -0.95, 0.01), 0.12)
        bpy.context.view_layer.objects.active = ob
        bpy.context.view_layer.update()
        collection = live_ik.start(bpy.context, ob)
        live = live_ik.live_of(collection)
        assert live is not None
        found = live_ik.target_objects(collection)
        leg = live.rig.skeleton.leg_length
        hips = found["ROOT", "Hips"].matrix_world.translation
        begin = {role: found["EFFECTOR", role].matrix_world.translation.copy() for role in ("LeftHand", "RightHand")}
        ends = {
            "RightHand": hips + Vector((-0.10, -0.62, 0.45)) * leg,
            "LeftHand": hips + Vector((0.42, -0.10, 0.10)) * leg,
        }
        for share in np.linspace(0, 1, 16):
            for role, end in ends.items():
                found["EFFECTOR", role].matrix_world.translation = begin[role].lerp(end, share)
            bpy.context.view_layer.update()
        live_ik.end(bpy.context, collection, keep=True)
        ball(ends["RightHand"], (1.0, 0.38, 0.55, 1))
        ball(ends["LeftHand"], (0.25, 0.62, 1.0, 1))
        ob.hide_render = True
    render("families.webp")


def drag() -> None:
    """A hand is dragged, and the body follows, step by step."""
    set_up((1400, 560), Vector((1.6, -8.6, 1.9)), Vector((0.1, -0.2, 0.86)), 50)
    for number, way in enumerate(WAY):
        bpy.ops.neural_ik.add_demo_character(motion=False)
        ob: Any = bpy.context.active_object
        ob.location.x = (number - (len(WAY) - 1) / 2) * 1.3
        bpy.data.objects.remove(next(o for o in bpy.data.objects if o.parent == ob))
        skin.add(ob, host.find_roles(ob).bones)
        for side in ("Left", "Right"):  # arms down
            pb = ob.pose.bones[f"{side}Arm"]
            down = Vector((0.25 if side == "Left" else -0.25, -0.05, -1)).normalized()
            now = (pb.tail - pb.head).normalized()
            pb.matrix = _turned(pb, now.rotation_difference(down))
            bpy.context.view_layer.update()
        collection = live_ik.start(bpy.context, ob)
        hand = live_ik.target_objects(collection)["EFFECTOR", "RightHand"]
        begin = hand.matrix_world.translation.copy()
        for share in np.linspace(0, 1, 24):
            hand.matrix_world.translation = begin + Vector(way) * float(share)
            bpy.context.view_layer.update()
        ball(hand.matrix_world.translation, (1.0, 0.35, 0.05, 1))
        live_ik.end(bpy.context, collection, keep=True)
    render("drags.webp")


def _turned(pb: Any, turn: Any) -> Any:
    """The matrix of a pose bone turned about its head."""
    matrix = pb.matrix.copy()
    place = matrix.translation.copy()
    matrix = turn.to_matrix().to_4x4() @ matrix
    matrix.translation = place
    return matrix


def dog() -> None:
    """A dog lifts a paw, and its body follows."""
    set_up((900, 560), Vector((2.3, -2.5, 1.25)), Vector((0, -0.05, 0.36)), 62)
    ob: Any = creature_rigs.put(CREATURES["dog"], "Dog")
    creature_rigs.animate(ob, CREATURES["dog"], ("walk", "run", "look around"), actions)
    skin.add(ob, None)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.neural_ik.effectors_find()
    bpy.ops.neural_ik.learn(epochs=60)
    ob.animation_data.action = None
    for pb in ob.pose.bones:
        pb.matrix_basis.identity()
    bpy.context.view_layer.update()
    collection = live_ik.start(bpy.context, ob)
    found = live_ik.target_objects(collection)
    for role, way in (("fore_paw_L", (0.0, -0.16, 0.2)), ("nose", (0.02, 0.0, 0.14))):
        target = found["EFFECTOR", role]
        begin = target.matrix_world.translation.copy()
        for share in np.linspace(0, 1, 12):
            target.matrix_world.translation = begin + Vector(way) * float(share)
            bpy.context.view_layer.update()
        ball(target.matrix_world.translation, (1.0, 0.35, 0.05, 1), 0.022)
    live_ik.end(bpy.context, collection, keep=True)
    render("creature_dog.webp")


def main() -> None:
    """Render what is asked for, or all."""
    scenes = {"families": families, "drag": drag, "dog": dog}
    for name in sys.argv[1:] or scenes:
        scenes[name]()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
