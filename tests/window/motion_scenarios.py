# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion from a file that Blender reads, in a window: onto the character, stopped by Esc, undone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from drive import Steps, inside, key, picture, until

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import blender_rigs, gltf_writer, rigs


def everything() -> dict[str, list[str]]:
    """The names of all data-blocks of the file, but for those of the window's own drawing."""
    kinds = ("objects", "armatures", "actions", "scenes", "collections", "meshes", "materials")
    return {kind: sorted(thing.name for thing in getattr(bpy.data, kind)) for kind in kinds}


def carried(install: Callable[[], Steps], out: Path, running: Callable[[], Any]) -> Steps:
    """A VRM animation onto an Unreal character in Pose Mode: stopped half way, then done, then undone."""
    yield from install()
    clip = rigs.walk(rigs.all_rigs()["mixamo"])
    index = {n: j for j, n in enumerate(clip.names)}
    roles = {r: index[str(n[0])] for r, n in rigs.all_rigs()["mixamo"].roles.items() if n[0] is not None}
    longer = replace(clip, rotations=np.tile(clip.rotations, (20, 1, 1)), root_pos=np.tile(clip.root_pos, (20, 1)))
    gltf_writer.write(out / "walk.vrma", longer, roles, rename=True)
    with inside():
        bpy.data.objects.remove(bpy.data.objects["Cube"])
        ob = blender_rigs.build("unreal mannequin 5", rigs.all_rigs()["unreal mannequin 5"])
        bpy.ops.object.mode_set(mode="POSE")
        bpy.ops.ed.undo_push(message="The character")
    yield 0.5
    scene, before = bpy.context.window.scene, everything()
    words = json.dumps([str(out / "walk.vrma")])
    with inside("UI"):
        bpy.ops.neural_ik.carry_mocap("INVOKE_DEFAULT", paths=words, clean=False)
    yield from until(lambda: running() is not None and "frame" in running().progress.text, "the file to be sampled")
    yield from picture(out / "1_importing.png")
    yield from key("ESC")
    yield from until(lambda: running() is None, "Esc to stop it")
    assert everything() == before, "Esc leaves nothing"
    assert (bpy.context.window.scene, bpy.context.object.mode) == (scene, "POSE")
    with inside("UI"):
        bpy.ops.neural_ik.carry_mocap("INVOKE_DEFAULT", paths=words, clean=False)
    yield from until(lambda: running() is None, "the import")
    yield 0.5
    now = everything()
    assert set(now["actions"]) - set(before["actions"]) == {"walk"}
    assert {kind: names for kind, names in now.items() if kind != "actions"} == {
        kind: names for kind, names in before.items() if kind != "actions"
    }
    assert (bpy.context.window.scene, bpy.context.object.mode) == (scene, "POSE")
    assert bpy.context.object.animation_data.action.name == "walk"
    bpy.context.scene.frame_set(40)
    yield from picture(out / "2_imported.png")
    with inside():
        bpy.ops.ed.undo()
    yield 0.5
    assert everything() == before, "one undo takes it back"
    del ob
