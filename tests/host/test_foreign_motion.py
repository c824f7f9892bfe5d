# SPDX-License-Identifier: GPL-3.0-or-later
"""Import Mocap from what Blender reads or holds: FBX, glTF, VRM animations, empties, other armatures. Nothing of a file stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import blender_rigs, gltf_writer, rigs
from neural_network.formats import bvh
from neural_network.motion.clip import Clip, global_pose

from .conftest import wing
from .test_words import says

NEAR = 0.2
"""[degrees] between the directions of a limb in the source and on the character."""
FLOOR = 2e-3
"""[m] that a foot may be below the floor."""


def walk(family: str = "mixamo") -> tuple[Clip, dict[str, int]]:
    """A walk, and its joints by role."""
    rig = rigs.all_rigs()[family]
    clip = rigs.walk(rig, frames=24)
    index = {n: j for j, n in enumerate(clip.names)}
    return clip, {role: index[str(names[0])] for role, names in rig.roles.items() if names[0] is not None}


def walking(folder: Path, family: str) -> Any:
    """An armature of a family that plays the walk, alone in the scene."""
    import bpy

    ob = blender_rigs.build(family, rigs.all_rigs()[family])
    bpy.context.scene.render.fps = 30
    bvh.write(folder / "walk.bvh", walk()[0])
    assert bpy.ops.neural_ik.import_mocap(filepath=str(folder / "walk.bvh"), clean=False) == {"FINISHED"}
    bpy.context.scene.frame_end = 24
    return ob


def vrma(folder: Path) -> Path:
    clip, roles = walk()
    gltf_writer.write(folder / "walk.vrma", clip, roles, rename=True)
    return folder / "walk.vrma"


def empties(folder: Path) -> Path:
    gltf_writer.write(folder / "empties.glb", walk()[0])
    return folder / "empties.glb"


def glb(folder: Path) -> Path:
    import bpy

    walking(folder, "3ds max biped")
    bpy.ops.export_scene.gltf(filepath=str(folder / "biped.glb"), export_frame_range=True)
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    return folder / "biped.glb"


def fbx(folder: Path) -> Path:
    import bpy

    walking(folder, "unreal mannequin 4")
    bpy.ops.export_scene.fbx(filepath=str(folder / "manny.fbx"), add_leaf_bones=False, bake_anim_simplify_factor=0)
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    return folder / "manny.fbx"


def everything() -> dict[str, set[str]]:
    import bpy

    names = [
        n for n in dir(bpy.data) if n != "all_ids" and isinstance(getattr(bpy.data, n), bpy.types.bpy_prop_collection)
    ]
    return {n: {thing.name for thing in getattr(bpy.data, n)} for n in names}


def directions(ob: Any) -> np.ndarray:
    """(F, limbs, 3) as Blender shows the action on frames 1 to 24, and no foot is below the floor."""
    import bpy

    rig = wing("blender.host.control_rigs").read_any(ob)
    heads = []
    for frame in range(24):
        bpy.context.scene.frame_set(1 + frame)
        shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
        heads.append([ob.matrix_world @ shown.pose.bones[int(b)].head for b in rig.index])
    own = {role: j for j, role in enumerate(rig.roles)}
    places = np.array(heads)
    feet = [own[r] for r in ("LeftFoot", "RightFoot", "LeftToeBase", "RightToeBase") if r in own]
    assert places[:, feet, 2].min() > -FLOOR
    return blender_rigs.limb_directions(places, own)


@pytest.mark.parametrize("source", [vrma, empties, glb, fbx])
def test_a_file_that_blender_reads_is_carried_and_nothing_else_stays(
    empty: Any, tmp_path: Path, source: Callable[[Path], Path]
) -> None:
    import bpy

    path = source(tmp_path)
    ob = blender_rigs.build("daz genesis 8", rigs.all_rigs()["daz genesis 8"])
    scene = bpy.context.scene
    scene.render.fps, scene.frame_start, scene.frame_end = 30, 5, 77
    scene.frame_set(9)
    bpy.ops.object.mode_set(mode="POSE")
    before = everything()
    assert bpy.ops.neural_ik.import_mocap(filepath=str(path), clean=False, plant_feet=False) == {"FINISHED"}
    after = everything()
    new = {kind: names - before[kind] for kind, names in after.items() if names != before[kind]}
    assert new.keys() == {"actions", "texts"}, new
    assert new["actions"] == {path.stem}
    assert (scene.render.fps, scene.frame_start, scene.frame_end, scene.frame_current) == (30, 5, 77, 9)
    assert (bpy.context.scene, bpy.context.active_object, ob.mode) == (scene, ob, "POSE")
    clip, roles = walk()
    wanted = global_pose(clip)[1] @ np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    angles = np.einsum("flc,flc->fl", directions(ob), blender_rigs.limb_directions(wanted, roles))
    assert np.degrees(np.arccos(np.clip(angles, -1, 1))).max() < NEAR


def test_another_armature_of_the_scene_is_carried_and_stays_as_it_is(empty: Any, tmp_path: Path) -> None:
    import bpy

    other = walking(tmp_path, "3ds max biped")
    action = other.animation_data.action
    ob = blender_rigs.build("vroid", rigs.all_rigs()["vroid"])
    bpy.context.scene.frame_set(7)
    assert bpy.ops.neural_ik.carry_armature(first=1, last=24, plant_feet=False) == {"FINISHED"}
    assert (bpy.context.scene.frame_current, other.animation_data.action) == (7, action)
    assert ob.animation_data.action.name == other.name
    angles = np.einsum("flc,flc->fl", directions(ob), directions(other))
    assert np.degrees(np.arccos(np.clip(angles, -1, 1))).max() < NEAR
    for two in (other, ob):
        two.select_set(True)
    blender_rigs.build("kinect", rigs.all_rigs()["kinect"])
    says("several armatures to copy from", bpy.ops.neural_ik.carry_armature)
    says("cannot be carried onto itself", bpy.ops.neural_ik.carry_armature, source="kinect")
    says("expected the last not before the first", bpy.ops.neural_ik.carry_armature, source="vroid", first=9, last=3)


def test_a_closed_import_leaves_nothing_of_the_file(empty: Any, tmp_path: Path) -> None:
    import bpy

    clip, roles = walk()
    longer = replace(clip, rotations=np.tile(clip.rotations, (4, 1, 1)), root_pos=np.tile(clip.root_pos, (4, 1)))
    gltf_writer.write(tmp_path / "walk.vrma", longer, roles)
    ob = blender_rigs.build("mixamo", rigs.all_rigs()["mixamo"])
    mocap, importing = wing("blender.data.mocap"), wing("formats.importing")
    before = everything()
    for ticks in (1, 2, 3, 4):
        work = mocap.import_files(bpy.context, ob, [tmp_path / "walk.vrma"], importing.ImportOptions(fps=30))
        said = [next(work).text for _ in range(ticks)]
        work.close()
        assert everything() == before
    assert "Blender reads it" in said[1]
    assert "frame" in said[3]


def test_what_a_file_lacks_is_said(empty: Any, tmp_path: Path) -> None:
    import bpy

    clip, _ = walk()
    gltf_writer.write(tmp_path / "few.glb", rigs_of_few(clip))
    gltf_writer.write(tmp_path / "prop.glb", replace(clip, names=tuple(f"n{j}" for j in range(len(clip.names)))))
    (tmp_path / "broken.glb").write_bytes(b"glTF")
    (tmp_path / "broken.fbx").write_bytes(b"nothing")
    blender_rigs.build("mixamo", rigs.all_rigs()["mixamo"])
    before = everything()
    run = bpy.ops.neural_ik.import_mocap
    says("no skeleton in it", run, filepath=str(tmp_path / "few.glb"))
    says("not a sound glTF file", run, filepath=str(tmp_path / "broken.glb"))
    says("Blender cannot read it", run, filepath=str(tmp_path / "broken.fbx"))
    assert everything() == before


def rigs_of_few(clip: Clip) -> Clip:
    """The first two joints of a clip."""
    return replace(
        clip, names=clip.names[:2], parents=clip.parents[:2], offsets=clip.offsets[:2], rotations=clip.rotations[:, :2]
    )
