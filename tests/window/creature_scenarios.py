# SPDX-License-Identifier: GPL-3.0-or-later
"""Creatures in a window: extract, train, and drag a paw, a nose and a wing with the mouse."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import drive
import live_scenarios
from drive import Steps, inside, picture, until
from live_scenarios import HIT, drag, missed, select, target, wing
from mathutils import Vector

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO), str(REPO / "tests")]  # Blender runs this as a script


def dog() -> Any:
    """Add a dog with actions."""
    from creature_rigs import animate, put

    from benchmarks.creatures import CREATURES

    ob = put(CREATURES["dog"], "Dog")
    animate(ob, CREATURES["dog"], ("walk", "run", "look around"), wing("host.actions"))
    ob.show_in_front = True
    return ob


def bird() -> Any:
    """Import the bird from the motion capture folder."""
    bpy.ops.import_scene.gltf(filepath=str(Path(os.environ["NIK_MOCAP"]) / "glb" / "mesh2motion_bird.glb"))
    ob = live_scenarios.character()
    bpy.context.view_layer.objects.active = ob
    bpy.context.scene.neural_ik.step = 0.25
    ob.show_in_front = True
    ob.name = "Bird"
    glide = bpy.data.actions["Glide"]
    actions = wing("host.actions")
    slots = actions.slots_for(glide, ob)
    actions.assign(ob.animation_data, glide, slots[0] if slots else None)
    ob.animation_data.use_nla = False
    ob.data.display_type = "STICK"
    ob.data.show_bone_custom_shapes = False
    return ob


def look(centre: tuple[float, float, float], distance: float, towards: tuple[float, float, float]) -> None:
    """View the creature from the direction ``towards``."""
    live_scenarios.look()
    view = drive.area().spaces[0].region_3d
    view.view_location, view.view_distance = centre, distance
    view.view_rotation = Vector(towards).to_track_quat("Z", "Y")


def creature(
    install: Callable[[], Steps],
    out: Path,
    make: Callable[[], Any],
    towards: tuple[float, float, float],
    pulls: dict[str, tuple[float, float]],
) -> Steps:
    """Find effectors, extract, save, train and load with the extension's operators, then drag every effector in ``pulls`` [pixels]."""
    yield from install()
    with inside():
        bpy.ops.object.select_all(action="SELECT")
        bpy.ops.object.delete()
        ob = make()
    name = ob.name.lower()
    size = max(ob.dimensions)
    look((0, 0, 0.3 * size), 1.5 * size, towards)
    yield 0.5
    with inside("UI"):
        bpy.ops.neural_ik.effectors_find()
        bpy.ops.neural_ik.extract_data()
        bpy.ops.neural_ik.save_data()
        bpy.ops.neural_ik.train(epochs=60)
        bpy.ops.neural_ik.load_weights()
    keep = wing("host.memory").memory
    assert keep.network.skeleton.fingerprint == keep.poses.skeleton.fingerprint
    bpy.context.scene.frame_set(8)
    yield 0.3
    with inside("UI"):
        bpy.ops.neural_ik.live_start()
    yield from until(lambda: wing("posing.live_ik").collections(), "the targets")
    yield from picture(out / f"{name}_1_begun.png")
    figures = {}
    for end, way in pulls.items():
        handle = target(end)
        yield from select(handle)
        yield from drag(handle, way, 30, "CLICK")
        figures[end] = round(missed(end) * 1000, 4)
    figures["update, median"] = round(live_scenarios.live().latency * 1000, 2)
    (out / f"{name}_figures.json").write_text(json.dumps(figures) + "\n")  # [mm] from the targets, [ms]
    yield from picture(out / f"{name}_2_dragged.png")
    assert all(missed(end) <= HIT for end in pulls), figures


def quadruped(install: Callable[[], Steps], out: Path) -> Steps:
    """A dog lifts a paw and looks up."""
    return creature(install, out, dog, (1, -0.7, 0.4), {"fore_paw_L": (-30, 60), "nose": (-20, 45), "tail4": (4, 18)})


def flying(install: Callable[[], Steps], out: Path) -> Steps:
    """A bird lifts a wing and turns its head."""
    return creature(install, out, bird, (0.6, -1, 0.5), {"wing_tip_R": (-15, 60), "head": (-5, 14)})
