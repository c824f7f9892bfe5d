# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m neural_network bench``: that it measures what it says. How fast things are is for the command, not for tests."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from conftest import make_poses, make_rig, relative_error, run_cli

from neural_network.__main__ import main
from neural_network.ik import batches, bench, network, task
from neural_network.ik.context import prepare
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.motion import pose_set

ROWS = (
    "gradient_speedup",
    "fk_forward_backward_ms_per_128",
    "epoch_seconds_per_50k",
    "network_us",
    "network_fk_us",
    "solve_us",
    "batched_poses_per_second",
    "solve_batch_poses_per_second",
    "solve_batch_orientations_poses_per_second",
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only as much work as shows that it is done."""
    monkeypatch.setattr(bench, "LEAST", 1)
    monkeypatch.setattr(bench, "MANY", 8)


def untrained(rig_name: str, layout: str = "reference") -> tuple[Network, pose_set.PoseSet]:
    poses = make_poses(make_rig(rig_name), clips=2, frames=20)
    config = Training(layout=layout, hidden=(8,))
    return task.begin(poses.skeleton, prepare(poses), np.arange(poses.frames), config), poses


def test_both_sides_of_the_speedup_compute_the_same_gradient(rng: np.random.Generator) -> None:
    poses = make_poses(make_rig("reference"), clips=1, frames=6)
    truth, _, targets = batches.true_batch(poses.skeleton, prepare(poses), np.arange(6))
    rot = truth.astype(np.float64) + rng.normal(0, 0.2, truth.shape)
    before = rot.copy()
    _, exact = bench.fk_gradient(poses.skeleton, rot, targets)
    numeric = bench.numeric_gradient(poses.skeleton, rot, targets, step=1e-5)
    assert relative_error(numeric, exact) < 1e-7
    np.testing.assert_array_equal(rot, before)


def test_the_numeric_side_is_right_enough_in_the_precision_that_is_timed(rng: np.random.Generator) -> None:
    poses = make_poses(make_rig("reference"), clips=1, frames=6)
    truth, _, targets = batches.true_batch(poses.skeleton, prepare(poses), np.arange(6))
    rot = truth + rng.normal(0, 0.2, truth.shape).astype(np.float32)
    _, exact = bench.fk_gradient(poses.skeleton, rot, targets)
    assert exact.dtype == np.float32
    assert relative_error(bench.numeric_gradient(poses.skeleton, rot, targets), exact) < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rig", "layout"),
    [("reference", "reference"), ("reference", "free"), ("reference", "positions"), ("creature", "masked")],
)
def test_every_row_comes_once_and_is_a_positive_number(rig: str, layout: str) -> None:
    rows = list(bench.run(*untrained(rig, layout), seconds=0.001, epoch=64))
    assert tuple(row.name for row in rows) == ROWS
    for row in rows:
        assert math.isfinite(row.value)
        assert row.value > 0
        assert row.repeats >= 1
        better = row.best >= row.value if row.unit.endswith("/s") else row.best <= row.value
        assert better or row.unit == "x"


@pytest.mark.slow
def test_it_runs_without_weights_and_without_poses() -> None:
    first = next(bench.run(seconds=0.001, epoch=64))
    assert first.name == "gradient_speedup"


@pytest.mark.slow
def test_poses_of_another_rig_are_refused() -> None:
    net, _ = untrained("reference")
    _, poses = untrained("creature")
    with pytest.raises(ValueError, match="another skeleton"):
        list(bench.run(net, poses, seconds=0.001, epoch=64))


@pytest.mark.slow
def test_json_goes_alone_to_standard_output_and_the_table_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, poses = untrained("reference")
    network.save(tmp_path / "best.npy", net)
    pose_set.save(tmp_path / "data.npz", poses)
    files = ["--weights", str(tmp_path / "best.npy"), "--data", str(tmp_path / "data.npz")]
    argv = ["bench", *files, "--seconds", "0.001", "--epoch", "64", "--json"]
    assert main(argv) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert set(found) == {*ROWS, "best", "machine"}
    assert {"cpu", "python", "numpy", "blas", "threads"} <= set(found["machine"])
    for name in ROWS:
        assert f"\n{name} " in said.err
    assert main([*argv, str(tmp_path / "new" / "bench.json")]) == 0
    assert set(json.loads((tmp_path / "new" / "bench.json").read_text())) == set(found)
    assert "gradient_speedup" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "used"), [(None, "1"), ("3", "3")])
def test_one_thread_is_used_unless_another_number_is_asked_for(asked: str | None, used: str) -> None:
    code = f"""
import os, runpy, sys
for name in [n for n in os.environ if n.endswith("_NUM_THREADS")]:
    del os.environ[name]
if {asked!r}:
    os.environ["OPENBLAS_NUM_THREADS"] = {asked!r}
sys.argv = ["neural_network", "bench", "--seconds", "0"]  # refused: nothing is measured
try:
    runpy.run_module("neural_network", run_name="__main__")
except SystemExit as end:
    print(end.code, os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"])
"""
    done = run_cli("-c", code)
    assert done.stdout.split() == ["2", used, "1"], done.stderr


def test_the_number_of_threads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert bench.machine()["threads"] == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--weights", "nowhere.npy"], "no weights at nowhere.npy"),
        (["--data", "nowhere.npz"], "no training data at nowhere.npz"),
    ],
)
def test_odd_arguments_are_refused_in_a_sentence(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *more]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--seconds", "0"], "seconds: expected a number above 0"),
        (["--seconds", "nan"], "seconds: expected a number above 0"),
        (["--epoch", "0"], "epoch: expected a number from 1 to"),
    ],
)
def test_odd_numbers_are_refused(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *more])
    assert said in capsys.readouterr().err


def test_the_machine_is_described_in_plain_values() -> None:
    about = bench.machine()
    assert json.loads(json.dumps(about)) == about
    assert about["numpy"] == np.__version__
    assert all(about[name] for name in ("cpu", "python", "blas", "threads", "cores"))
