# SPDX-License-Identifier: GPL-3.0-or-later
"""BVH files stand where Blender's own importer puts them, and Blender reads what is written here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neural_network.formats import bvh
from neural_network.motion.clip import Clip, body_height, global_pose

ODD = Path(__file__).resolve().parent.parent / "odd"
POSITIONS = 1e-4
"""[body heights] between joints here and bone heads there; Blender keeps its curves in float32."""
UNREADABLE = ("06", "11", "15", "16", "21", "26", "28")
"""Odd files that Blender 5.0's importer fails on."""


def blender_heads(path: Path, frames: int) -> tuple[list[str], np.ndarray]:
    """Bone names and heads (F, J, 3) in file units and axes, as Blender imports the file."""
    import bpy

    bpy.ops.wm.read_homefile(use_empty=True)  # factory settings would switch the extension off for the tests after this
    bpy.ops.import_anim.bvh(filepath=str(path), axis_forward="Y", axis_up="Z", frame_start=1, update_scene_fps=False)
    armature = bpy.context.object
    heads = np.empty((frames, len(armature.pose.bones), 3))
    for frame in range(frames):
        bpy.context.scene.frame_set(frame + 1)
        for i, bone in enumerate(armature.pose.bones):
            heads[frame, i] = (armature.matrix_world @ bone.matrix).translation
    return [bone.name for bone in armature.pose.bones], heads


def worst(clip: Clip, path: Path) -> float:
    """Largest distance between a joint and its bone's head [body heights]."""
    names, heads = blender_heads(path, clip.frames)
    _, placed = global_pose(clip)
    ours = [name.replace(" ", "_") for name in clip.names]  # Blender's importer does this to names
    index = [ours.index(name) for name in names]
    return float(np.abs(heads - placed[:, index]).max() / body_height(clip))


def few_frames(path: Path, to: Path, count: int = 4) -> Path:
    """The file with ``count`` of its rows, as Blender takes long to make curves of thousands."""
    head, rest = path.read_text().replace("\r", "").split("MOTION\n")
    lines = [line for line in rest.split("\n") if line.strip()]
    rows = lines[2:]
    chosen = [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, count).astype(int))]
    to.write_text("\n".join([head + "MOTION", f"Frames: {len(chosen)}", lines[1], *chosen, ""]))
    return to


@pytest.mark.host
def test_every_motion_capture_file_stands_where_blender_puts_it(mocap: Path, tmp_path: Path) -> None:
    files = sorted((mocap / "bvh").rglob("*.bvh"))
    assert len(files) >= 90
    for path in files:
        short = few_frames(path, tmp_path / "short.bvh")
        clip = bvh.read(short)
        if "differences from the OFFSETs" in " ".join(clip.warnings):  # Blender folds that figure into a point
            assert path.name == "tpose_singleframe.bvh"
            assert np.ptp(blender_heads(short, clip.frames)[1], axis=1).max() < 0.4 * body_height(clip)
            continue
        assert worst(clip, short) < POSITIONS, path.name


@pytest.mark.host
def test_odd_files_that_blender_reads_stand_where_it_puts_them() -> None:
    files = [path for path in sorted(ODD.glob("*.bvh")) if path.name[:2] not in UNREADABLE]
    assert len(files) >= 20
    for path in files:
        assert worst(bvh.read(path), path) < POSITIONS, path.name


@pytest.mark.host
@pytest.mark.parametrize("number", ["01", "04", "06", "10", "16", "32", "36"])
def test_blender_reads_what_is_written(number: str, tmp_path: Path) -> None:
    clip = bvh.read(next(ODD.glob(f"{number}_*.bvh")))
    bvh.write(tmp_path / "out.bvh", clip)
    assert worst(clip, tmp_path / "out.bvh") < POSITIONS
