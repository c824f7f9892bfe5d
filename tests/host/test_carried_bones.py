# SPDX-License-Identifier: GPL-3.0-or-later
"""Import Mocap carries fingers where source and character have them, and puts travel onto a root bone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import blender_rigs, rigs
from neural_network.core.rotations import matrix_from_axis_angle, matrix_from_quaternion, quaternion_from_matrix
from neural_network.formats import bvh
from neural_network.motion.clip import Clip, global_pose
from neural_network.rigs.fingers import find_fingers

from .conftest import wing

HAND = 5.0
"""[degrees] that a straight hand may turn against the forearm."""
BEND = 2.5
"""[degrees] between the bend or spread of a finger in the source and on the character, whose fingers lie differently at rest."""


def curling() -> Clip:
    """A walk whose left hand makes a fist, each finger more than the one before, while the right hand spreads its fingers."""
    clip = rigs.walk(rigs.all_rigs()["mixamo"], frames=24)
    turns = matrix_from_quaternion(clip.rotations)
    share = np.linspace(0, 1, clip.frames)[:, None]
    for k, finger in enumerate(("Index", "Middle", "Ring", "Pinky")):
        for n in (1, 2, 3):
            j = clip.names.index(f"mixamorig:LeftHand{finger}{n}")
            turns[:, j] = matrix_from_axis_angle(share * [0, 0, -0.3 * n - 0.1 * k]) @ turns[:, j]
        j = clip.names.index(f"mixamorig:RightHand{finger}1")
        turns[:, j] = matrix_from_axis_angle(share * [0, 0.1 * k - 0.2, 0]) @ turns[:, j]
    return replace(clip, rotations=quaternion_from_matrix(turns))


def bends(heads: np.ndarray, fingers: dict[str, int]) -> dict[str, np.ndarray]:
    """(F) [degrees] the bend at the second bone of each finger, and how far its first bone points away from the middle finger's."""
    out = {}
    way = {
        name: heads[:, fingers[f"{name[:-1]}{int(name[-1]) + 1}"]] - heads[:, j]
        for name, j in fingers.items()
        if f"{name[:-1]}{int(name[-1]) + 1}" in fingers
    }
    way = {name: vector / np.linalg.norm(vector, axis=1, keepdims=True) for name, vector in way.items()}
    for name in way:
        other = f"{name[:-1]}2" if name.endswith("1") else f"{name[:-1]}1"
        if name.endswith("1") and other in way and "Thumb" not in name:
            out[name] = np.degrees(np.arccos(np.clip(np.sum(way[name] * way[other], axis=1), -1, 1)))
            side = name[: -len("1")].split("Middle")[0][:5]
            middle = f"{'Left' if side.startswith('Left') else 'Right'}Middle1"
            out[f"{name} spread"] = np.degrees(np.arccos(np.clip(np.sum(way[name] * way[middle], axis=1), -1, 1)))
    return out


def played(family: str, clip: Any, folder: Path) -> tuple[Any, Any, dict[str, int]]:
    """A character that plays a clip which it imported: the object, its rig, and the pose bone of each role."""
    import bpy

    bvh.write(folder / "clip.bvh", clip)
    ob = blender_rigs.build(family, rigs.all_rigs()[family])
    bpy.context.scene.render.fps = 30
    assert bpy.ops.neural_ik.import_mocap(filepath=str(folder / "clip.bvh"), clean=False) == {"FINISHED"}
    rig = wing("blender.host.rig").read(ob)
    return ob, rig, {role: int(rig.index[j]) for j, role in enumerate(rig.roles)}


@pytest.mark.parametrize("family", ["unreal mannequin 5", "3ds max biped", "vroid", "rokoko"])
def test_hands_turn_against_the_forearm_as_in_the_source(empty: Any, tmp_path: Path, family: str) -> None:
    import bpy

    clip = rigs.walk(rigs.all_rigs()["mixamo"], frames=24)
    ob, rig, own = played(family, clip, tmp_path)
    for frame in (1, 8, 20):
        bpy.context.scene.frame_set(frame)
        shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
        for side in ("Left", "Right"):
            turned = [
                np.array(shown.pose.bones[own[side + part]].matrix)[:3, :3] @ rig.rest[own[side + part], :3, :3].T
                for part in ("ForeArm", "Hand")
            ]
            bend = np.degrees(np.arccos(np.clip((np.trace(turned[0].T @ turned[1]) - 1) / 2, -1, 1)))
            assert bend < HAND, "the hand of the source never turns"


@pytest.mark.parametrize("family", ["unreal mannequin 5", "daz genesis 8", "vroid", "rokoko"])
def test_fingers_bend_and_spread_as_in_the_source(empty: Any, tmp_path: Path, family: str) -> None:
    import bpy

    clip = curling()
    ob, rig, own = played(family, clip, tmp_path)
    found = find_fingers(rig.bones, rig.parents, rig.rest[:, :3, 3], {s: own[s + "Hand"] for s in ("Left", "Right")})
    heads = []
    for frame in range(clip.frames):
        bpy.context.scene.frame_set(frame + 1)
        shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
        heads.append([ob.matrix_world @ pb.head for pb in shown.pose.bones])
    names = list(clip.names)
    hands = {side: names.index(f"mixamorig:{side}Hand") for side in ("Left", "Right")}
    theirs = find_fingers(names, clip.parents, global_pose(clip)[1][0], hands)
    wanted, seen = bends(global_pose(clip)[1], theirs), bends(np.array(heads), found)
    rested = bends(np.array(heads)[:1], found)
    assert len(seen) == 16
    for name, degrees in wanted.items():
        offset = rested[name] - degrees[:1]  # fingers of some rigs are not straight at rest
        assert np.abs(seen[name] - degrees - offset).max() < BEND + 2 * abs(float(offset[0])), name
    assert max(degrees.max() for degrees in seen.values()) > 30


@pytest.mark.parametrize("family", ["unreal mannequin 5", "vroid", "reallusion cc"])
def test_a_root_bone_on_the_floor_carries_the_body_over_the_ground(empty: Any, tmp_path: Path, family: str) -> None:
    import bpy

    clip = rigs.walk(rigs.all_rigs()["mixamo"], frames=40)
    turns = matrix_from_quaternion(clip.rotations)
    yaw = np.linspace(0, 1.5, clip.frames)[:, None] * [0, 1.0, 0]
    turns[:, 0] = matrix_from_axis_angle(yaw) @ turns[:, 0]
    bvh.write(tmp_path / "turn.bvh", replace(clip, rotations=quaternion_from_matrix(turns)))
    ob = blender_rigs.build(family, rigs.all_rigs()[family])
    bpy.context.scene.render.fps = 30
    heads, roots = [], []
    for on in (False, True):
        before = set(bpy.data.actions)
        path = str(tmp_path / "turn.bvh")
        assert bpy.ops.neural_ik.import_mocap(filepath=path, clean=False, root_bone=on) == {"FINISHED"}
        (action,) = set(bpy.data.actions) - before
        actions = wing("blender.host.actions")
        actions.assign(ob.animation_data, action, actions.slots_for(action, ob)[0] if actions.SLOTTED else None)
        shown = []
        for frame in range(1, clip.frames + 1, 3):
            bpy.context.scene.frame_set(frame)
            seen = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
            shown.append([ob.matrix_world @ pb.head for pb in seen.pose.bones])
            if on:
                roots.append(np.array(ob.matrix_world @ seen.pose.bones[0].matrix))
        heads.append(np.array(shown))
    rig = wing("blender.host.rig").read(ob)
    assert np.abs(heads[0][:, rig.index] - heads[1][:, rig.index]).max() < 1e-3, "the body itself moves as before"
    hips = int(rig.index[0])
    assert np.ptp(heads[0][:, 0], axis=0).max() < 1e-6
    apart = np.linalg.norm((heads[1][:, 0] - heads[1][:, hips])[:, :2], axis=1)
    assert apart.max() < 0.1, "the root stays below the hips"
    assert np.abs(heads[1][:, 0, 2]).max() < 1e-3, "and on the floor"
    assert np.linalg.norm((heads[1][-1] - heads[1][0])[0, :2]) > 0.5
    first, last = (matrix[:3, :3] / np.linalg.norm(matrix[:3, 0]) for matrix in (roots[0], roots[-1]))
    turned = np.degrees(np.arccos(np.clip((np.trace(first.T @ last) - 1) / 2, -1, 1)))
    assert turned == pytest.approx(np.degrees(1.5), abs=12)


def test_a_trunk_of_many_bones_bends_in_all_of_them(empty: Any, tmp_path: Path) -> None:
    import bpy

    clip = rigs.walk(rigs.all_rigs()["mixamo"], frames=16)
    turns = matrix_from_quaternion(clip.rotations)
    for name in ("Spine", "Spine1", "Spine2"):
        j = clip.names.index(f"mixamorig:{name}")
        turns[:, j] = matrix_from_axis_angle(np.array([[0.3, 0, 0]])) @ turns[:, j]
    bvh.write(tmp_path / "bow.bvh", replace(clip, rotations=quaternion_from_matrix(turns)))
    ob = blender_rigs.build("makehuman default", rigs.all_rigs()["makehuman default"])
    bpy.context.scene.render.fps = 30
    assert bpy.ops.neural_ik.import_mocap(filepath=str(tmp_path / "bow.bvh"), clean=False) == {"FINISHED"}
    bpy.context.scene.frame_set(3)
    shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
    bent = {}
    for name in ("spine05", "spine04", "spine03", "spine02", "spine01"):
        pb = shown[name]
        own = np.array((pb.bone.matrix_local.inverted() @ pb.bone.parent.matrix_local).inverted())
        basis = np.linalg.inv(np.array(pb.parent.matrix) @ own) @ np.array(pb.matrix)
        bent[name] = np.degrees(np.arccos(np.clip((np.trace(basis[:3, :3]) - 1) / 2, -1, 1)))
    assert min(bent.values()) > 5, bent
    assert sum(bent.values()) == pytest.approx(np.degrees(0.9), abs=8)
