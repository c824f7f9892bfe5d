# SPDX-License-Identifier: GPL-3.0-or-later
"""What the text of glTF files tells: nodes at rest, and which of them are a person's bones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gltf_writer, rigs
from neural_network.formats import gltf_bones
from neural_network.motion.clip import global_pose, rest_positions, to_z_up
from neural_network.motion.posed_clip import posed_clip


def test_a_vrm_animation_names_its_bones(tmp_path: Path) -> None:
    rig = rigs.all_rigs()["mixamo"]
    clip = rigs.walk(rig)
    index = {n: j for j, n in enumerate(clip.names)}
    roles = {role: index[str(names[0])] for role, names in rig.roles.items() if names[0] is not None}
    gltf_writer.write(tmp_path / "a.vrma", clip, roles, rename=True)
    found = gltf_bones.read(tmp_path / "a.vrma")
    assert found.roles == {role: f"n{j}" for role, j in roles.items()}
    assert np.abs(found.rest[:, :3, 3] - rest_positions(clip) @ to_z_up("Y").T).max() < 1e-6
    assert np.allclose(found.rest[:, :3, :3], np.eye(3))
    assert found.parents.tolist() == clip.parents.tolist()


def test_older_vrm_characters_name_their_bones_too(tmp_path: Path) -> None:
    bones = [{"bone": "hips", "node": 0}, {"bone": "leftUpperLeg", "node": 1}, {"bone": "leftThumbProximal", "node": 1}]
    nodes = [{"name": "a", "children": [1], "rotation": [0, 0, 0, 1], "scale": [2, 2, 2]}, {"translation": [0, 1, 0]}]
    text = {"nodes": nodes, "extensions": {"VRM": {"humanoid": {"humanBones": bones}}}}
    (tmp_path / "a.gltf").write_text(json.dumps(text))
    found = gltf_bones.read(tmp_path / "a.gltf")
    assert found.roles == {"Hips": "a", "LeftThigh": "Node_1"}
    assert found.rest[1, :3, 3].tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    "data",
    [
        b"glTF",
        b"nonsense",
        b'{"nodes": [{"children": [7]}]}',
        b'{"nodes": [{"children": [1]}, {"children": [0]}]}',
        b'{"nodes": 3}',
    ],
)
def test_a_damaged_file_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.glb").write_bytes(data)
    with pytest.raises(ValueError, match=r"a.glb: not a sound glTF file"):
        gltf_bones.read(tmp_path / "a.glb")


def test_bones_that_were_watched_make_the_clip_that_they_showed() -> None:
    clip = rigs.walk(rigs.all_rigs()["unreal mannequin 5"])
    axes = to_z_up("Y")
    turned, heads = global_pose(clip)
    rest = np.tile(np.eye(4), (len(clip.names), 1, 1))
    rng = np.random.default_rng(0)
    rolls = np.linalg.qr(rng.normal(size=(len(clip.names), 3, 3)))[0]
    rolls *= np.sign(np.linalg.det(rolls))[:, None, None]
    rest[:, :3, :3], rest[:, :3, 3] = rolls, rest_positions(clip) @ axes.T
    posed = np.tile(np.eye(4), (clip.frames, len(clip.names), 1, 1))
    posed[..., :3, :3], posed[..., :3, 3] = (axes @ turned @ axes.T) @ rolls, heads @ axes.T
    posed[3, 7, :3, 3] += [0, 0, 0.2]  # a bone that moves in its parent
    found = posed_clip("watched", clip.names, clip.parents, rest, posed, clip.fps)
    assert 7 in found.translations
    again = global_pose(found)[1]
    others = np.arange(len(clip.names)) != 7
    assert np.abs(again - posed[..., :3, 3])[:, others].max() < 1e-9
    assert np.abs(again[3, 7] - posed[3, 7, :3, 3]).max() < 1e-9


def test_watched_numbers_that_are_none_are_refused() -> None:
    posed = np.full((2, 3, 4, 4), np.nan)
    with pytest.raises(ValueError, match="no number"):
        posed_clip("a", ("a", "b", "c"), np.array([-1, 0, 1]), np.tile(np.eye(4), (3, 1, 1)), posed, 30)
