# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m neural_network test`` and ``solve``: what they answer, and that bad input is a sentence and exit code 2."""

from __future__ import annotations

import argparse
import ast
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FLOAT32, REPO, make_poses, make_rig, run_cli

from neural_network import __main__ as program
from neural_network.__main__ import main
from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.formats import batch_arguments
from neural_network.ik import arguments, batches, network, quality, targets_file
from neural_network.ik.context import prepare
from neural_network.ik.losses import limit_excess
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.ik.solver import Solver
from neural_network.ik.task import fit
from neural_network.motion import pose_set, splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST, TRAIN

COMMANDS = ("import", "test", "solve", "bench", "serve", "live")


@pytest.fixture(scope="module")
def poses() -> PoseSet:
    return make_poses(make_rig("reference"), clips=4, frames=60)


def trained(poses: PoseSet, epochs: int, kind: str = "block") -> Network:
    """A network as the trainer makes it: trained on its part, with its memory of the data."""
    parts = splits.split(poses, kind)
    samples = prepare(poses)
    config = Training(epochs=epochs, augment=8, lr=0.01, hidden=(64,), joint_noise=0.6)
    net = fit(poses.skeleton, samples, parts, config)
    meta = {
        "config": asdict(config),
        "data": quality.describe_split(poses, parts, kind),
        "epochs": epochs,
        "best_epoch": 1,
    }
    return replace(net, meta=meta)


@pytest.fixture(scope="module")
def net(poses: PoseSet) -> Network:
    """A network that has learned a little: enough where only what a command does with it matters."""
    return trained(poses, 4)


@pytest.fixture
def files(tmp_path: Path, net: Network, poses: PoseSet) -> dict[str, Path]:
    """Weights, data, and targets that the test frames of the data meet exactly."""
    found = {"weights": tmp_path / "best.npy", "data": tmp_path / "data.npz", "targets": tmp_path / "in.npz"}
    network.save(found["weights"], net)
    pose_set.save(found["data"], poses)
    write_targets(found["targets"], arrays_of(poses))
    return found


def arrays_of(poses: PoseSet, rows: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """IN.npz for frames of a PoseSet, made here from pose matrices alone."""
    rows = np.arange(0, poses.frames, 7) if rows is None else rows
    rig, bones = poses.skeleton, list(poses.skeleton.effectors)
    pose = fk.armature_matrices(rig, poses.rot[rows], poses.root_pos[rows])[:, bones]
    turned = pose[..., :3, :3] @ rig.rest_arm[bones, :3, :3].transpose(0, 2, 1)
    return {
        "positions": pose[..., :3, 3],
        "rotations": rotations.axis_angle_from_matrix(turned),
        "root_pos": poses.root_pos[rows].astype(float),
        "root_rot": poses.rot[rows, 0].astype(float),
    }


def write_targets(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def words(command: str, files: dict[str, Path], *more: str | Path) -> list[str]:
    second = ["--data", files["data"]] if command == "test" else ["--targets", files["targets"]]
    return [str(w) for w in (command, "--weights", files["weights"], *second, *more)]


def refused(capsys: pytest.CaptureFixture[str], argv: list[str], *parts: str) -> None:
    """The command ends with 2 and one line that holds all ``parts``."""
    assert main(argv) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said, said
    for part in parts:
        assert part in said


# ---- the commands there are


def options_with_numbers() -> dict[str, argparse.Action]:
    """Every option of every program that takes a number."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for room in program.COMMANDS:
        room.add_parsers(commands, lambda line, **_: None)
    parsers = {**commands.choices, "batch_extract.py": batch_arguments.parser()}
    parsers["standalone_trainer.py"] = arguments.parser(Path("data.npz"), Path("best.npy"))
    return {
        f"{name} {action.option_strings[0]}": action
        for name, each in parsers.items()
        for action in each._actions
        if getattr(action.type, "__name__", "") in ("int", "float", "_unit")
    }


@pytest.mark.parametrize("option", options_with_numbers())
def test_numbers_without_meaning_are_refused_by_every_option(option: str) -> None:
    convert: Any = options_with_numbers()[option].type
    for text in ("nan", "-nan", "inf", "-inf", "-1", "-1e999", "1e999", "two", ""):
        with pytest.raises((argparse.ArgumentTypeError, ValueError), match=r"expected|invalid|could not convert"):
            convert(text)


def test_no_program_takes_a_number_without_saying_which_have_a_meaning() -> None:
    bare = [
        f"{path.relative_to(REPO)}:{node.lineno}"
        for folder in ("neural_network", "benchmarks", "tools", "clients", "training_data", "tests")
        for path in (REPO / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"
        for word in node.keywords
        if word.arg == "type" and isinstance(word.value, ast.Name) and word.value.id in ("int", "float")
    ]
    assert bare == [], "use learning.arguments.number or positive"


def test_a_number_without_meaning_is_one_sentence_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["serve", "--seconds", "nan"], "argument --seconds: expected a number from 0 up, got nan"),
        (["serve", "--seconds", "-1"], "argument --seconds: expected a number from 0 up, got -1"),
        (["serve", "--port", "65536"], "argument --port: expected a number from 0 to 65,535, got 65536"),
        (["serve", "--threshold", "0"], "argument --threshold: expected a number above 0, got 0"),
        (["solve", "--steps", "1001"], "argument --steps: expected a number from 0 to 1,000, got 1001"),
        (["bench", "--seconds", "601"], "argument --seconds: expected a number above 0 and up to 600, got 601"),
        (["import", "x.bvh", "--fps", "1e999"], "argument --fps: expected a number above 0 and up to 1,000, got 1e999"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert capsys.readouterr().err.splitlines()[-1].endswith(said)


@pytest.mark.slow
def test_help_names_every_command() -> None:
    done = run_cli("-m", "neural_network", "--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n    {command} " in done.stdout


@pytest.mark.parametrize("words", [["-m", "neural_network"], ["standalone_trainer.py"], ["batch_extract.py"]])
def test_without_numpy_help_is_one_sentence(words: list[str]) -> None:
    code = "import importlib.util as u, runpy, sys; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'numpy' else f(n, *a)"
    run = (
        "run_module('neural_network', run_name='__main__')"
        if words[0] == "-m"
        else f"run_path({words[0]!r}, run_name='__main__')"
    )
    done = run_cli("-c", f"{code}; sys.argv = ['program', '--help']; runpy.{run}")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "this Python has no numpy: python -m pip install numpy" in done.stderr


def test_no_command_and_an_unknown_one_are_refused_with_the_usage() -> None:
    for argv in ([], ["teleport"]):
        with pytest.raises(SystemExit, match="2"):
            main(argv)


# ---- test


@pytest.mark.slow
def test_a_trained_network_passes_and_its_figures_are_written_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    poses = make_poses(make_rig("tentacle"))  # a body of three bones, which a small network learns in a second
    net, out = trained(poses, 60), tmp_path / "new" / "card.json"
    files = {"weights": tmp_path / "best.npy", "data": tmp_path / "data.npz"}
    network.save(files["weights"], net)
    pose_set.save(files["data"], poses)
    assert main(words("test", files, "--json", out)) == 0
    text = capsys.readouterr().out
    assert "6 of 6 tests passed" in text
    assert "split block" in text
    card = json.loads(out.read_text())
    parts = splits.split(poses, "block")
    assert card["samples"]["split"] == "block"
    assert card["samples"]["test"] == np.sum(parts == TEST)
    assert card["samples"]["train"] == np.sum(parts == TRAIN)
    rivals = {"rest", "mean_pose", "nearest", "ridge", "classical_rest", "classical_mean", "nearest_steps"}
    assert set(card["baselines"]) == rivals
    shape = {"effector_mm", "mpjpe_mm", "rotation_deg"}
    for row in (card["holdout"], *card["baselines"].values()):
        assert set(row) == shape
    assert {"seconds", "cpu_seconds", "epochs", "best_epoch", "samples_per_second"} <= set(card["train"])
    assert [set(t) >= {"name", "passed", "score", "threshold"} for t in card["tests"]] == [True] * 6
    # the figure, worked out here from the network's answer alone
    targets, _ = batches.asked(net.layout, net.skeleton, prepare(poses), np.flatnonzero(parts == TEST))
    error = batches.effector_distances(net.skeleton, batches.predict(net, targets)[0], targets).mean() * 1000
    assert card["holdout"]["effector_mm"]["mean"] == pytest.approx(error, rel=1e-4)


@pytest.mark.slow
def test_five_tests_are_not_enough_where_copying_the_nearest_frame_is_as_good(
    files: dict[str, Path], poses: PoseSet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """This network passes every fixed threshold; its exit code is 1 all the same. (With its density it would be better.)"""
    network.save(files["weights"], replace(trained(poses, 20), density=None))
    out = tmp_path / "card.json"
    assert main(words("test", files, "--json", out)) == 1
    text = capsys.readouterr().out
    assert "FAIL  Natural" in text
    assert "needs more motion" in text
    assert "5 of 6 tests passed" in text
    card = json.loads(out.read_text())
    assert card["baselines"]["nearest_steps"]["mpjpe_mm"] < card["refined"]["mpjpe_mm"]


@pytest.mark.slow
def test_a_network_with_zeroed_weights_fails_the_suite(
    files: dict[str, Path], net: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    network.save(files["weights"], replace(net, parameters=np.zeros_like(net.parameters)))
    assert main(words("test", files)) == 1
    assert "FAIL  Follow" in capsys.readouterr().out


def test_frames_that_were_trained_on_are_never_scored(
    files: dict[str, Path], net: Network, poses: PoseSet, capsys: pytest.CaptureFixture[str]
) -> None:
    data = quality.describe_split(poses, np.full(poses.frames, TRAIN, np.int8), "all")
    network.save(files["weights"], replace(net, meta={**net.meta, "data": data}))
    refused(capsys, words("test", files), "nothing unseen is left")


@pytest.mark.slow
def test_clips_that_the_weights_never_saw_count_as_test_and_are_named_so(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = make_poses(make_rig("reference"), clips=1, frames=30, seed=9)
    pose_set.save(files["data"], other)
    out = tmp_path / "card.json"
    assert main(words("test", files, "--json", out)) in (0, 1)
    card = json.loads(out.read_text())
    assert card["samples"]["split"] == "unseen clips"
    assert (card["samples"]["test"], card["samples"]["train"]) == (30, 0)
    assert card["baselines"]["nearest"] is None  # there is no training frame here to be near to
    text = capsys.readouterr().out
    assert "needs training frames" in text
    assert "tests passed; not measured: Natural" in text
    assert card["tests"][-1]["passed"] is None


@pytest.mark.slow
def test_a_split_by_random_frames_is_called_leaky(
    files: dict[str, Path], poses: PoseSet, capsys: pytest.CaptureFixture[str]
) -> None:
    network.save(files["weights"], trained(poses, 1, "frame"))
    main(words("test", files))
    assert "LEAKY" in capsys.readouterr().out


@pytest.mark.slow
def test_a_figure_that_is_no_number_is_null_in_json(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pose_set.save(files["data"], make_poses(make_rig("reference"), clips=1, frames=1, seed=9))
    out = tmp_path / "card.json"
    assert main(words("test", files, "--json", out)) == 1  # one frame: nothing to go halfway between
    card = json.loads(out.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert next(t for t in card["tests"] if t["name"].startswith("Interpolation"))["score"] is None


def test_weights_of_another_rig_are_refused_with_the_difference(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    pose_set.save(files["data"], make_poses(make_rig("creature")))
    refused(capsys, words("test", files), "another skeleton", "23 bones")


@pytest.mark.slow
def test_other_proportions_only_warn(files: dict[str, Path], net: Network, capsys: pytest.CaptureFixture[str]) -> None:
    rest = net.skeleton.rest_arm.copy()
    rest[net.skeleton.names.index("Head"), 2, 3] += 0.2  # a long neck
    pose_set.save(files["data"], make_poses(replace(net.skeleton, rest_arm=rest), clips=1, frames=30))
    assert main(words("test", files)) in (0, 1)
    assert "bones differ by up to 21 % of a leg" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["weights", "data"])
def test_a_missing_file_is_named_with_what_to_do(
    files: dict[str, Path], missing: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files[missing].unlink()
    refused(capsys, words("test", files, "--json", tmp_path / "card.json"), str(files[missing]))
    assert not (tmp_path / "card.json").exists()


def test_the_report_says_before_any_work_that_matplotlib_is_missing(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused(capsys, words("test", files, "--report", tmp_path / "r.html"), "the report needs matplotlib")
    assert not (tmp_path / "r.html").exists()


# ---- solve


def test_solve_writes_poses_whose_effectors_are_where_the_file_says(
    files: dict[str, Path], poses: PoseSet, tmp_path: Path
) -> None:
    asked = read(files["targets"])
    rig, errors = poses.skeleton, {}
    for steps in (0, 3, 10):
        out = tmp_path / f"out{steps}.npz"
        assert main(words("solve", files, "-o", out, "--steps", str(steps))) == 0
        found = read(out)
        count = len(asked["positions"])
        assert found["rot"].shape == (count, rig.count, 3)
        assert found["effector_error"].shape == (count, len(rig.effectors))
        np.testing.assert_allclose(found["root_pos"], asked["root_pos"], atol=FLOAT32)
        np.testing.assert_allclose(found["rot"][:, 0], asked["root_rot"], atol=FLOAT32)
        heads = fk.armature_matrices(rig, found["rot"], found["root_pos"])[:, list(rig.effectors)][..., :3, 3]
        error = np.linalg.norm(heads - asked["positions"], axis=-1)
        np.testing.assert_allclose(found["effector_error"], error, atol=10 * FLOAT32)
        errors[steps] = error.mean()
    assert errors[3] < 0.1 * errors[0]
    assert errors[10] < 1e-4  # [m]: poses of the rig itself can be reached


def test_no_steps_is_the_network_alone(files: dict[str, Path], net: Network, poses: PoseSet, tmp_path: Path) -> None:
    rows, samples = np.arange(0, poses.frames, 7), prepare(poses)
    arrays = arrays_of(poses, rows)
    arrays |= {name: getattr(samples, name)[rows] for name in ("phase", "task", "grounded", "desired", "ground")}
    write_targets(files["targets"], arrays)
    assert main(words("solve", files, "-o", tmp_path / "out.npz", "--steps", "0")) == 0
    targets, _ = batches.asked(net.layout, net.skeleton, samples, rows)
    rot = batches.predict(net, targets)[0].transpose(2, 1, 0)
    expected = net.skeleton.from_core(rot.astype(np.float64))[:, 1:]
    np.testing.assert_allclose(read(tmp_path / "out.npz")["rot"][:, 1:], expected, atol=1e-4)


def test_the_order_of_the_rows_is_kept_and_each_is_solved_for_itself(
    files: dict[str, Path], poses: PoseSet, tmp_path: Path
) -> None:
    rows = np.arange(0, poses.frames, 3)
    turned = rows[np.random.default_rng(0).permutation(len(rows))]
    found = []
    for part in (rows, turned):
        write_targets(files["targets"], arrays_of(poses, part))
        assert main(words("solve", files, "-o", tmp_path / "out.npz")) == 0
        found.append(read(tmp_path / "out.npz")["rot"])
    place = {row: i for i, row in enumerate(turned)}
    np.testing.assert_allclose(found[0], found[1][[place[r] for r in rows]], atol=1e-3)


def test_positions_alone_are_enough_and_a_free_hand_has_no_error(
    files: dict[str, Path], poses: PoseSet, tmp_path: Path
) -> None:
    arrays = arrays_of(poses)
    del arrays["rotations"]
    arrays["weights"] = np.ones(arrays["positions"].shape[:2])
    arrays["weights"][:, 0] = 0
    arrays["positions"][:, 0] += 10  # out of reach, but nobody asks for it
    write_targets(files["targets"], arrays)
    assert main(words("solve", files, "-o", tmp_path / "out.npz")) == 0
    error = read(tmp_path / "out.npz")["effector_error"]
    assert np.all(error[:, 0] == 0)
    assert np.median(error[:, 1:]) < 1e-3


@pytest.mark.slow
def test_limits_are_kept_where_they_are_asked_for(files: dict[str, Path], net: Network, tmp_path: Path) -> None:
    arrays = read(files["targets"])
    arrays["positions"][:, 0] += [0, 0.8, 0]  # the left hand far behind the back
    del arrays["rotations"]
    write_targets(files["targets"], arrays)
    limits = net.skeleton.limits
    assert limits is not None
    beyond = []
    for more in ([], ["--limits"]):
        assert main(words("solve", files, "-o", tmp_path / "out.npz", "--steps", "10", *more)) == 0
        rot = np.moveaxis(read(tmp_path / "out.npz")["rot"][:, 1:], (2, 1), (0, 1))
        swing, twist, _, _ = limit_excess(rot, limits[1:])
        beyond.append(max(swing.max(), twist.max()))
    assert beyond[0] > 0.1
    assert beyond[1] < 1e-3


@pytest.mark.slow
def test_a_free_root_comes_nearer_to_targets_that_are_far(files: dict[str, Path], tmp_path: Path) -> None:
    arrays = read(files["targets"])
    arrays["positions"] += [0, 0, -0.3]
    write_targets(files["targets"], arrays)
    errors = []
    for more in ([], ["--free-root"]):
        assert main(words("solve", files, "-o", tmp_path / "out.npz", "--steps", "20", *more)) == 0
        errors.append(read(tmp_path / "out.npz")["effector_error"].mean())
        moved = np.abs(read(tmp_path / "out.npz")["root_pos"] - arrays["root_pos"]).max()
        assert (moved > 0.01) == bool(more)
    assert errors[1] < 0.5 * errors[0]


def test_tasks_may_be_names_and_unknown_fields_are_told(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arrays = read(files["targets"])
    count = len(arrays["positions"])
    found = []
    for task in (np.full(count, "dance"), np.full(count, 7 / 8), np.array("dance"), np.array("idle")):
        write_targets(files["targets"], {**arrays, "task": task, "wieghts": np.ones(count)})
        assert main(words("solve", files, "-o", tmp_path / "out.npz", "--steps", "0")) == 0
        assert "not used: wieghts" in capsys.readouterr().err
        found.append(read(tmp_path / "out.npz")["rot"])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert np.abs(found[0] - found[3]).max() > 0


BAD: dict[str, tuple[dict[str, np.ndarray | None], str]] = {
    "no positions": ({"positions": None}, "missing positions"),
    "no hips": ({"root_pos": None, "root_rot": None}, "missing root_pos, root_rot"),
    "four effectors": ({"positions": np.zeros((35, 4, 3))}, "expected (N, 5, 3) for LeftHand"),
    "flat positions": ({"positions": np.zeros((35, 15))}, "expected (N, 5, 3)"),
    "fewer hips": ({"root_pos": np.zeros((34, 3))}, "root_pos: expected shape (35, 3), got (34, 3)"),
    "quaternions": ({"rotations": np.zeros((35, 5, 4))}, "rotations: expected shape (35, 5, 3)"),
    "NaN": ({"root_rot": np.full((35, 3), np.nan)}, "root_rot: expected finite numbers"),
    "infinity": ({"positions": np.full((35, 5, 3), np.inf)}, "positions: expected finite numbers"),
    "beyond all reach": ({"positions": np.full((35, 5, 3), 1e9)}, "leg lengths"),
    "words": ({"root_pos": np.full((35, 3), "here")}, "root_pos: expected numbers"),
    "complex": ({"root_pos": np.zeros((35, 3), complex)}, "root_pos: expected numbers"),
    "heavy weights": ({"weights": np.full((35, 5), 2.0)}, "weights: expected numbers from 0 to 1"),
    "a task that is none": ({"task": np.array("flying")}, "expected one of idle"),
    "phase of some": ({"phase": np.zeros(3)}, "phase: expected one number or (35,)"),
    "one foot": ({"grounded": np.zeros((35, 1))}, "grounded: expected shape (35, 2)"),
    "no rows": ({"positions": np.zeros((0, 5, 3))}, "at least one pose"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_targets_that_do_not_fit_are_refused_and_nothing_is_written(
    files: dict[str, Path], name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    changes, said = BAD[name]
    arrays: dict[str, np.ndarray | None] = {**read(files["targets"]), **changes}
    write_targets(files["targets"], {key: array for key, array in arrays.items() if array is not None})
    out = tmp_path / "out.npz"
    out.write_bytes(b"as it was")
    before = sorted(tmp_path.iterdir())
    refused(capsys, words("solve", files, "-o", out), "in.npz" if name != "beyond all reach" else "positions", said)
    assert out.read_bytes() == b"as it was"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("kind", ["empty", "text", "truncated", "single array", "pickled", "folder", "missing"])
def test_a_file_that_holds_no_targets_is_refused(
    files: dict[str, Path], kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = files["targets"]
    whole = path.read_bytes()
    path.unlink()
    if kind == "single array":
        with open(path, "wb") as file:
            np.save(file, np.zeros((3, 5, 3)))
    elif kind == "pickled":
        write_targets(path, {"positions": np.array([{"a": 1}], dtype=object)})
    elif kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes({"empty": b"", "text": b"positions\n", "truncated": whole[: len(whole) // 2]}[kind])
    refused(
        capsys, words("solve", files, "-o", tmp_path / "out.npz"), "in.npz", "refused unopened" * (kind == "pickled")
    )
    assert not (tmp_path / "out.npz").exists()


def test_output_over_the_targets_or_over_a_folder_is_refused(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = files["targets"].read_bytes()
    refused(capsys, words("solve", files, "-o", files["targets"]), "another file than for the targets")
    refused(capsys, words("solve", files, "-o", tmp_path), "got the folder")
    refused(capsys, words("solve", files, "-o", files["data"] / "o.npz"), "cannot make the folder")
    refused(capsys, words("solve", files, "-o", tmp_path / "o"), "expected a file name that ends in .npz")
    assert files["targets"].read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        ("solve", "--weights", "{weights}", "--targets", "{targets}", "-o", "{weights}"),
        ("test", "--weights", "{weights}", "--data", "{data}", "--json", "{data}"),
        ("test", "--weights", "{weights}", "--data", "{data}", "--report", "{weights}"),
        ("bench", "--weights", "{weights}", "--json", "{weights}"),
        ("import", "{targets}", "-o", "{new}", "--json", "{targets}"),
        ("import", "{targets}", "-o", "{new}", "--json", "{new}"),
    ],
)
def test_no_command_writes_over_what_it_reads(
    line: tuple[str, ...], files: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = {name: path.read_bytes() for name, path in files.items()}
    refused(capsys, [word.format(**files, new=tmp_path / "new.npz") for word in line], "expected another file than for")
    assert {name: path.read_bytes() for name, path in files.items()} == before
    assert not (tmp_path / "new.npz").exists()


def test_targets_of_poses_are_those_that_the_poses_meet(poses: PoseSet, net: Network, tmp_path: Path) -> None:
    rows = np.arange(0, poses.frames, 11)
    goals = targets_file.of_poses(poses, prepare(poses), rows)
    for name, array in arrays_of(poses, rows).items():
        np.testing.assert_allclose(getattr(goals, name), array, atol=1e-9)
    solution = Solver(net).solve_batch(goals, 20)
    assert solution.error.max() < 1e-3
    targets_file.save(tmp_path / "a.npz", solution, net.skeleton)
    targets_file.save(tmp_path / "b.npz", solution, net.skeleton)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
