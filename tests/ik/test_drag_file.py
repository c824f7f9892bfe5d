# SPDX-License-Identifier: GPL-3.0-or-later
"""``solve --session``: files of drags in, files of poses out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPO

from neural_network.__main__ import main
from neural_network.core.reference_rig import EFFECTORS, FEET, reference
from neural_network.ik import density, drag_file, network
from neural_network.ik.drag import Drag

RIG = reference()
WEIGHTS = REPO / "training_data" / "weights" / "best.npy"


def drags(**change: Any) -> dict[str, Any]:
    """Two drags of three rows each from the rest pose: the left hand comes down, then the head, feet held."""
    rest = RIG.rest_arm[:, :3, 3]
    positions = np.repeat(rest[None, list(RIG.effectors)], 6, axis=0)
    positions[1:3, 0] += [[-0.05, -0.1, -0.1], [-0.1, -0.2, -0.2]]
    positions[4:6, 4] += [[0, -0.02, -0.05], [0, -0.04, -0.1]]
    weights = np.zeros((6, 5))
    weights[:, 2:4] = 1
    weights[:3, 0] = weights[3:, 4] = 1
    made = {
        "positions": positions,
        "weights": weights,
        "drag": np.repeat([0, 1], 3),
        "start_rot": np.zeros((2, RIG.count, 3)),
        "start_root_pos": np.tile(rest[0], (2, 1)),
    }
    return {name: value for name, value in (made | change).items() if value is not None}


def written(folder: Path, **change: Any) -> Path:
    path = folder / "drags.npz"
    np.savez(path, **drags(**change))
    return path


def test_the_command_answers_as_the_class_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path), tmp_path / "out.npz"
    assert main(["solve", "--session", "--targets", str(path), "-o", str(out)]) == 0
    assert "2 drags, 6 poses" in capsys.readouterr().out
    found, given = np.load(out), drags()
    assert found["effector_error"].max() < 1e-3
    drag = Drag(RIG, given["start_rot"][1], given["start_root_pos"][1])
    for row in range(3, 6):
        rot, root, _ = drag.solve(given["positions"][row], given["weights"][row])
        np.testing.assert_array_equal(found["rot"][row], rot)
        np.testing.assert_array_equal(found["root_pos"][row], root)


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    path = written(tmp_path)
    for name in ("a.npz", "b.npz"):
        assert main(["solve", "--session", "--targets", str(path), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_file_may_bring_its_rig_and_only_the_reference_rig_s_bones_take_the_shipped_statistics(
    tmp_path: Path,
) -> None:
    rig = {"bone_names": np.array(RIG.names), "parents": RIG.parents, "rest_arm": RIG.rest_arm}
    same, _ = drag_file.load(written(tmp_path, **rig))
    assert same.skeleton.fingerprint == RIG.fingerprint
    np.testing.assert_array_equal(same.skeleton.limits, RIG.limits)
    names = np.array([f"my {name}" for name in RIG.names])
    ends = {"effectors": np.array([f"my {n}" for n in EFFECTORS]), "feet": np.array([f"my {n}" for n in FEET])}
    other, _ = drag_file.load(written(tmp_path, **rig | {"bone_names": names} | ends))
    assert density.shipped(other.skeleton) is None
    with pytest.raises(ValueError, match="no bone named LeftHand"):
        drag_file.load(written(tmp_path, **rig | {"bone_names": names}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start_rot": None}, "missing start_rot"),
        ({"positions": np.zeros((6, 4, 3))}, "positions: expected numbers of shape"),
        ({"positions": np.full((6, 5, 3), np.nan)}, "positions: expected finite numbers"),
        ({"positions": np.full((6, 5, 3), 1e10)}, "from -1e+09 to 1e+09, got 1e+10 in row 0; are they metres?"),
        ({"positions": np.zeros((6, 5, 3), complex)}, "positions: expected real numbers, got complex128; save them as"),
        (
            {"weights": np.full((6, 5), 2.0)},
            "weights: expected numbers from 0 to 1, got 2 in row 0; 0 frees an effector, 1 holds it",
        ),
        ({"weights": np.full((6, 5), -0.5)}, "weights: expected numbers from 0 to 1, got -0.5"),
        ({"drag": np.array([0, 1, 0, 1, 1, 1])}, "stand together"),
        ({"drag": np.array([0, 0, 0, 2, 2, 2])}, "drag: expected numbers from 0 to 1"),
        ({"drag": np.zeros(6)}, "drag: expected integers"),
        ({"start_rot": np.zeros((0, 23, 3))}, "start_rot: expected"),
        ({"start_root_pos": np.zeros((3, 3))}, "start_root_pos: expected numbers of shape"),
        (
            {"start_rot": np.zeros((3, 23, 3)), "start_root_pos": np.zeros((3, 3))},
            "got 3 of which 1 are in no row of drag, the first is 2; leave them out, or add their rows",
        ),
        ({"start_rot": np.full((2, 23, 3), 1e9)}, "got 1e+09 in row 0; are they radians?"),
        (
            {"ground": np.zeros(3)},
            "ground: expected numbers of shape (6,) (one for all, or one for each entry of drag)",
        ),
        (
            {"ground": np.array([0, 0, np.nan, 0, 0, np.nan])},
            "got NaN or infinity in 2 rows, the first is 2; fill them in",
        ),
        ({"ground": np.array(np.nan)}, "ground: expected finite numbers, got NaN or infinity in 1 row"),
        ({"ground": np.zeros(6, complex)}, "ground: expected real numbers, got complex128"),
        ({"bone_names": np.array(RIG.names)}, "a rig needs bone_names, parents, rest_arm"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], words: str
) -> None:
    path = written(tmp_path, **change)
    assert main(["solve", "--session", "--targets", str(path), "-o", str(tmp_path / "out.npz")]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out.npz").exists()


def test_a_rig_without_feet_may_say_so_with_an_empty_list(tmp_path: Path) -> None:
    names = {"bone_names": np.array(RIG.names), "feet": np.array([])}  # of floating-point numbers, as NumPy makes it
    path = written(tmp_path, parents=RIG.parents, rest_arm=RIG.rest_arm, effectors=np.array(EFFECTORS), **names)
    assert drag_file.load(path)[0].skeleton.feet == ()


@pytest.mark.parametrize("flag", [["--steps", "2"], ["--limits"], ["--free-root"]])
def test_what_has_no_meaning_for_drags_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: list[str]
) -> None:
    path = written(tmp_path)
    assert main(["solve", "--session", *flag, "--targets", str(path), "-o", str(tmp_path / "out.npz")]) == 2
    assert "not with --session" in capsys.readouterr().err


def test_weights_of_another_rig_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [name.replace("Spine", "Back") for name in RIG.names]
    rig = {"bone_names": np.array(names), "parents": RIG.parents, "rest_arm": RIG.rest_arm}
    path = written(tmp_path, **rig, effectors=np.array(EFFECTORS), feet=np.array(EFFECTORS[2:4]))
    words = ["solve", "--session", "--weights", str(WEIGHTS), "--targets", str(path), "-o", str(tmp_path / "o.npz")]
    assert main(words) == 2
    assert "Back" in capsys.readouterr().err


def test_the_pose_changes_of_a_characters_own_weights_shape_its_drags(tmp_path: Path) -> None:
    path, out = written(tmp_path), tmp_path / "o.npz"
    net = network.load(WEIGHTS)
    assert net.density is not None
    stiff = tmp_path / "stiff.npy"
    changes = np.eye(3 * RIG.count + 3) * 1e-4
    network.save(stiff, replace(net, density=replace(net.density, changes=changes, takes=1000)))
    found = []
    for weights in (WEIGHTS, stiff):
        assert main(["solve", "--session", "--weights", str(weights), "--targets", str(path), "-o", str(out)]) == 0
        found.append(np.load(out)["rot"])
    assert np.abs(found[0] - found[1]).max() > 0.01


def extra(**change: Any) -> dict[str, Any]:
    """A chest that goes ahead in all rows, and a head that looks down in the second drag."""
    chest, head = RIG.rest_arm[[RIG.names.index("Spine2"), RIG.names.index("Head")], :3, 3]
    points = np.tile([chest + [0, -0.1, 0], head + [0, -1, -1]], (6, 1, 1))
    made = {
        "extra_kinds": np.array(["place", "aim"]),
        "extra_bones": np.array(["Spine2", "Head"]),
        "extra_points": points,
    }
    return {name: value for name, value in (made | change).items() if value is not None}


def test_targets_of_other_bones_are_followed_and_switched_off_by_weight(tmp_path: Path) -> None:
    found = []
    for number, change in enumerate(({}, extra(), extra(extra_weights=np.zeros((6, 2))))):
        folder = tmp_path / str(number)
        folder.mkdir()
        out = folder / "out.npz"
        assert main(["solve", "--session", "--targets", str(written(folder, **change)), "-o", str(out)]) == 0
        with np.load(out) as archive:
            found.append({name: archive[name] for name in archive})
    np.testing.assert_array_equal(found[0]["rot"], found[2]["rot"])
    assert np.abs(found[0]["rot"][2] - found[1]["rot"][2]).max() > 0.05
    assert found[1]["effector_error"][:, 2:4].max() < 1e-3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"extra_bones": None}, "expected extra_kinds, extra_bones, extra_points, got"),
        ({"extra_bones": np.array(["Spine2", "Tail"])}, "extra_bones: expected bones of the rig, got Tail"),
        ({"extra_kinds": np.array(["place"])}, "extra_kinds: expected one for each of the 2 extra_bones, got 1"),
        ({"extra_kinds": np.array([1, 2])}, "extra_kinds: expected a list of words"),
        ({"extra_kinds": np.array(["place", "throw"])}, "expected one of place, aim, pole"),
        ({"extra_points": np.zeros((6, 3))}, "extra_points: expected numbers of shape"),
        ({"extra_points": np.full((6, 2, 3), np.nan)}, "extra_points: expected finite numbers"),
        ({"extra_weights": np.full((6, 2), 3.0)}, "extra_weights: expected numbers from 0 to 1"),
    ],
)
def test_bad_targets_of_other_bones_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], words: str
) -> None:
    path = written(tmp_path, **extra(**change))
    assert main(["solve", "--session", "--targets", str(path), "-o", str(tmp_path / "out.npz")]) == 2
    assert words in capsys.readouterr().err
