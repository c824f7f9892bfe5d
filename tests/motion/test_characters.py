# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of several characters: each found again by its rig, none by another's, and any name makes a safe folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import RIGS, make_poses, make_rig, random_turns, restyled

from neural_network.core import rotations
from neural_network.core import skeleton as skeletons
from neural_network.core.skeleton import Skeleton
from neural_network.motion import characters, pose_set

ODD_NAMES = [
    "a/b\\c",
    "../../etc/passwd",
    "..",
    ".hidden",
    "dots. . .",
    "CON",
    "nul.txt",
    "COM1",
    "LPT9.",
    'what?<is>|"this":*',
    "line\nbreak\ttab\0zero",
    "尻尾のある猫",
    "Größe Ωμέγα",
    "हिन्दी",
    "🐕" * 70,
    "x" * 300,
    "猫" * 300,
    "\ud800 lone surrogate",
    "e\u0301 in two parts",
    "   ",
    "",
]


def moved(rig: Skeleton, scale: float = 1.0, turn: np.ndarray | None = None) -> Skeleton:
    """The same rig elsewhere, turned and scaled, its matrices rounded to float32 as Blender keeps them."""
    matrix = np.eye(4)
    matrix[:3, :3] = np.eye(3) if turn is None else turn
    matrix[:3, 3] = [3.0, -2.0, 0.5]
    rest = matrix @ rig.rest_arm
    rest[:, :3, 3] *= scale
    return rebuilt(rig, rest.astype(np.float32).astype(float))


def rebuilt(rig: Skeleton, rest: np.ndarray) -> Skeleton:
    """The same bones with another rest."""
    names = ([rig.names[e] for e in rig.effectors], [rig.names[f] for f in rig.feet])
    return skeletons.make(rig.names, rig.parents, rest, *names, t_pose=rig.t_pose)


def longer(rig: Skeleton, bone: int, share: float) -> Skeleton:
    """The same bones, one of them (with all below it) farther from its parent by a share of the rig's height."""
    rest = rig.rest_arm.copy()
    below = rig.subtree[bone] > 0
    rest[below, 2, 3] -= share * np.ptp(rest[:, :3, 3], axis=0).max()
    return rebuilt(rig, rest)


@pytest.mark.parametrize("name", RIGS)
def test_a_rig_is_found_again_wherever_it_stands_and_however_large_it_is(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rig = make_rig(name)
    kept = characters.keep(tmp_path, rig, "Boris")
    for scale in (0.01, 1.0, 30.0):
        other = moved(rig, scale, rotations.matrix_from_axis_angle(random_turns(rng)))
        found = characters.find(tmp_path, other)
        assert found is not None
        assert (found.name, found.folder) == ("Boris", kept.folder)
        assert characters.keep(tmp_path, other, "Renamed").folder == kept.folder
    assert len(list((tmp_path / "characters").iterdir())) == 1


def test_another_rig_never_matches_even_where_all_bones_have_the_same_names(tmp_path: Path) -> None:
    rig = make_rig("reference")
    characters.keep(tmp_path, rig, "Boris")
    rolls = rotations.matrix_from_axis_angle(np.tile([0, 0.3, 0], (rig.count, 1)))
    still = np.zeros((rig.count, 3))
    others = [make_rig(name) for name in RIGS if name != "reference"]
    others += [longer(rig, rig.names.index(bone), 0.002) for bone in ("LeftShin", "RightHand", "Head", "Spine1")]
    others.append(restyled(rig, np.eye(3), rolls, still))
    others.append(replace(rig, effectors=rig.effectors[:-1]))
    for other in others:
        assert characters.find(tmp_path, other) is None


def test_characters_of_one_name_and_the_same_bones_get_folders_of_their_own(tmp_path: Path) -> None:
    short = make_rig("reference")
    tall = longer(short, short.names.index("LeftShin"), 0.05)
    folders = [characters.keep(tmp_path, rig, "Boris").folder for rig in (short, tall)]
    assert folders[0] != folders[1]
    assert [characters.keep(tmp_path, rig, "Boris").folder for rig in (short, tall)] == folders
    assert characters.place(tmp_path, make_rig("creature"), "Boris").folder not in folders


def test_looking_for_a_character_makes_no_folder(tmp_path: Path) -> None:
    rig = make_rig("tentacle")
    assert characters.find(tmp_path, rig) is None
    planned = characters.place(tmp_path, rig, "Kraken")
    assert planned.poses.parent == planned.folder
    assert not list(tmp_path.iterdir())


def test_a_second_character_leaves_the_files_of_the_first_byte_for_byte(tmp_path: Path) -> None:
    first, second = make_rig("reference"), longer(make_rig("reference"), 5, 0.03)
    kept = {}
    for rig in (first, second, first):
        character = characters.keep(tmp_path, rig, "Boris")
        if character.folder not in {p.parent for p in kept}:
            pose_set.save(character.poses, make_poses(rig, clips=1, frames=5))
            character.weights("ik").write_bytes(os.urandom(9))
        now = {p: p.read_bytes() for p in (tmp_path / "characters").rglob("*") if p.is_file()}
        assert {path: now[path] for path in kept} == kept
        kept = now
    assert len(kept) == 6


def test_a_renamed_folder_is_still_the_character(tmp_path: Path) -> None:
    rig = make_rig("creature")
    before = characters.keep(tmp_path, rig, "Rex").folder
    before.rename(before.with_name("my dog"))
    found = characters.find(tmp_path, rig)
    assert found is not None
    assert found.folder.name == "my dog"
    assert found.name == "Rex"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_makes_a_safe_folder(name: str, tmp_path: Path) -> None:
    rig = make_rig("tentacle")
    folder = characters.folder_name(name, rig.fingerprint)
    assert folder.endswith(f"-{rig.fingerprint[:8]}")
    assert len(os.fsencode(folder)) <= 200
    assert not set(folder) & set('/\\:*?"<>|\0\n\t')
    assert "." not in folder
    assert folder == folder.strip()
    kept = characters.keep(tmp_path / "user", rig, name)
    assert kept.folder == tmp_path / "user" / "characters" / folder
    (found,), problems = characters.stored(tmp_path / "user")
    assert not problems
    assert found.folder == kept.folder
    assert found.name == name.encode("utf-8", "replace").decode()
    assert [p.name for p in tmp_path.iterdir()] == ["user"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (b"", "Expecting value"),
        (b"[]", "list indices"),
        (b"{}", "no field 'format'"),
        (b'{"format": "neural_ik character", "version": 2}', "expected version 1"),
        (b"\xff\xfe", "can't decode"),
        (b'{"format": "neural_ik character", "version": 1, "bone_names": ["\\ud800"]}', "surrogates not allowed"),
        (b'{"format": "neural_ik character", "version": 1, "bone_names": [null]}', "expected names of bones, got None"),
        (None, "expected 3 parents and rest matrices"),
    ],
)
def test_a_damaged_character_is_reported_and_hides_no_other(damage: bytes | None, words: str, tmp_path: Path) -> None:
    path = characters.keep(tmp_path, make_rig("tentacle"), "Kraken").folder / "character.json"
    characters.keep(tmp_path, make_rig("creature"), "Rex")
    path.write_bytes(path.read_bytes().replace(b'"parents": [', b'"parents": [-1, ') if damage is None else damage)
    found, (problem,) = characters.stored(tmp_path)
    assert [c.name for c in found] == ["Rex"]
    assert f"{path.parent.name}/character.json is damaged: " in problem
    assert words in problem
    assert characters.keep(tmp_path, make_rig("tentacle"), "Kraken").folder == path.parent.with_name(
        f"{path.parent.name}-2"
    )


def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "characters").write_text("in the way")
    found, (problem,) = characters.stored(tmp_path)
    assert not found
    assert str(tmp_path / "characters") in problem


@pytest.mark.parametrize("kind", ["", "../ik", "ik.npy", "a b", "Größe"])
def test_the_kind_of_weights_is_a_plain_word(kind: str, tmp_path: Path) -> None:
    character = characters.place(tmp_path, make_rig("tentacle"), "Kraken")
    assert character.weights("gait").name == "gait.npy"
    with pytest.raises(ValueError, match="expected a plain word"):
        character.weights(kind)
