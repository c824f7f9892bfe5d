# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m neural_network gait`` and ``standalone_trainer.py gait``: files in, files out, exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from gait_data import RIG, model, samples, small

import standalone_trainer
from neural_network import __main__ as program
from neural_network.gait import motion_files, network, parameters
from neural_network.gait.teacher import KinematicTeacher
from neural_network.motion import pose_set


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "gait.npz"
    network.save(path, small())
    return path


def test_parameters_are_listed_with_unit_range_and_default(tmp_path: Path) -> None:
    assert program.main(["gait", "params", "--json", str(tmp_path / "p.json")]) == 0
    rows = json.loads((tmp_path / "p.json").read_text())
    assert [row["name"] for row in rows] == ["speed", *parameters.NAMES]
    assert all({"unit", "min", "max", "default"} <= set(row) for row in rows)


def test_a_sample_is_a_clip_with_contacts_and_the_seconds_of_a_cycle(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "p.json").write_text(
        '{"schema": 1, "params": {"speed": 1.2}, "proportions": {"thigh": 1.1}, "style": {}}'
    )
    words = [
        "gait",
        "sample",
        "--params",
        str(tmp_path / "p.json"),
        "--frames",
        "60",
        "--fps",
        "30",
        "--weights",
        str(weights),
    ]
    assert program.main([*words, "-o", str(tmp_path / "a.npz")]) == 0
    assert program.main([*words, "-o", str(tmp_path / "b.npz")]) == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz") as found:
        assert found["contact"].shape == (60, 2)
        assert found["contact"].dtype == bool
        assert found["cycle_seconds"].shape == (1,)
    poses = pose_set.load(tmp_path / "a.npz")
    assert poses.frames == 60
    assert poses.skeleton.offsets[poses.skeleton.legs[0][1]][2] < RIG.offsets[RIG.legs[0][1]][2] * 1.09


@pytest.mark.parametrize(
    ("text", "words"), [('{"schema": 1, "params": {"speed": 99}}', "speed: expected"), ("{", "JSON")]
)
def test_parameters_that_mean_nothing_end_with_2(
    text: str, words: str, tmp_path: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.json").write_text(text)
    command = [
        "gait",
        "sample",
        "--params",
        str(tmp_path / "p.json"),
        "-o",
        str(tmp_path / "o.npz"),
        "--weights",
        str(weights),
    ]
    assert program.main(command) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "o.npz").exists()


def test_match_reads_what_sample_made(tmp_path: Path, weights: Path) -> None:
    out, found = tmp_path / "walk.npz", tmp_path / "m.json"
    assert program.main(["gait", "sample", "--frames", "150", "-o", str(out), "--weights", str(weights)]) == 0
    assert program.main(["gait", "match", str(out), "--json", str(found), "--weights", str(weights)]) == 0
    row = json.loads(found.read_text())["clips"][0]
    assert row["params"]["step_length"] == pytest.approx(parameters.DEFAULT[0], rel=0.03)
    again = {key: row[key] for key in ("schema", "params", "proportions", "style")}
    (tmp_path / "p.json").write_text(json.dumps(again))
    parameters.read(tmp_path / "p.json")  # what is found can be sampled again


def test_match_of_a_clip_without_a_walk_ends_with_2(
    tmp_path: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = np.zeros((40, RIG.count, 3))
    still = pose_set.make(RIG, rest, np.tile(RIG.rest_arm[0, :3, 3], (40, 1)), np.zeros(40, int), ["still"])
    pose_set.save(tmp_path / "still.npz", still)
    assert program.main(["gait", "match", str(tmp_path / "still.npz"), "--weights", str(weights)]) == 2
    assert "at least one cycle" in capsys.readouterr().err


def test_refine_keeps_whole_cycles_and_counts_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    motion = motion_files.smoothed(samples().motions[0], np.linspace(0, 2.2, 170))
    phases = np.tile(np.linspace(0, 2.2 * 2 * np.pi, 170), (3, 1))
    lengths = np.array([170, 100, 145])
    np.savez(
        tmp_path / "raw.npz",
        motions=np.stack([motion] * 3),
        lengths=lengths,
        phases=phases,
        params=samples().params[:3],
    )
    assert program.main(["gait", "refine", str(tmp_path / "raw.npz"), "-o", str(tmp_path / "out.npz")]) == 0
    assert "kept 1 motion; left out: 0 load failed, 1 too short, 1 not 60" in capsys.readouterr().out
    motions, params = motion_files.load(tmp_path / "out.npz")
    np.testing.assert_allclose(motions[0, :30], samples().motions[0], atol=0.02)
    np.testing.assert_allclose(params[0], samples().params[0])


def test_rollout_writes_the_teachers_cycles(tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion_files, "PER_FILE", 2)
    words = ["gait", "rollout", "-o", str(tmp_path / "m"), "--count", "2", "--weights", str(weights)]
    assert program.main(words) == 0
    motions, params = motion_files.load(next((tmp_path / "m").glob("*.npz")))
    who = KinematicTeacher(network.load(weights).model)
    np.testing.assert_allclose(motions[0], who.motion(params[0].astype(np.float64)), atol=1e-3)


# ---------------------------------------------------------------- the trainer


def _train(tmp_path: Path, weights: Path, *words: str) -> int:
    fixed = [
        "gait",
        "--teacher",
        str(weights),
        "--weights",
        str(tmp_path / "new.npz"),
        "--motions",
        str(tmp_path / "m"),
    ]
    return standalone_trainer.main([*fixed, "--cycles", "6", "--hidden", "8,8", "--quiet", *words])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    from neural_network.gait import trainer

    monkeypatch.setattr(motion_files, "PER_FILE", 6)
    monkeypatch.setattr(trainer, "HELD", 2)


@pytest.mark.usefixtures("few")
def test_training_writes_weights_with_a_card_the_same_for_the_same_seed(tmp_path: Path, weights: Path) -> None:
    assert _train(tmp_path, weights, "--epochs", "2", "--json", str(tmp_path / "j.json")) == 1  # no bar is met so soon
    first = (tmp_path / "new.npz").read_bytes()
    document = json.loads((tmp_path / "j.json").read_text())
    assert document["wing"] == "gait"
    assert {"ridge"} == set(document["figures"][0]["rivals"])
    meta = network.load(tmp_path / "new.npz").meta
    for key in ("captured", "licence", "acknowledgement", "seed", "command", "machine", "samples", "figures"):
        assert key in meta
    assert _train(tmp_path, weights, "--epochs", "2") == 1
    assert (tmp_path / "new.npz").read_bytes() == first


@pytest.mark.usefixtures("few")
def test_a_stopped_training_keeps_its_weights_and_goes_on(tmp_path: Path, weights: Path) -> None:
    _train(tmp_path, weights, "--epochs", "1")
    (tmp_path / "stop").touch()
    progress = tmp_path / "p.jsonl"

    def stop(words: list[str]) -> int:
        return _train(tmp_path, weights, "--epochs", "4", *words)

    from neural_network.learning import stopping

    asked = iter([False, True])
    original = stopping.Stopper.asked
    stopping.Stopper.asked = lambda self: next(asked, True)  # type: ignore[method-assign]
    try:
        assert stop(["--progress", str(progress)]) == 130
    finally:
        stopping.Stopper.asked = original  # type: ignore[method-assign]
    network.load(tmp_path / "new.npz")
    assert stop(["--resume"]) == 1
    resumed = (tmp_path / "new.npz").read_bytes()
    assert stop([]) == 1
    assert (tmp_path / "new.npz").read_bytes() == resumed


@pytest.mark.usefixtures("few")
def test_curves_are_written_for_tensorboard_where_it_is_installed(tmp_path: Path, weights: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert _train(tmp_path, weights, "--epochs", "3", "--tensorboard", str(tmp_path / "curves")) == 1
    found = EventAccumulator(str(tmp_path / "curves"), size_guidance={"tensors": 0}).Reload()
    assert set(found.Tags()["tensors"]) == {"loss", "validation"}
    assert [event.step for event in found.Tensors("validation")] == [1, 2, 3]


def test_without_tensorboard_its_files_are_refused_in_one_sentence(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary", None)
    assert _train(tmp_path, weights, "--tensorboard", str(tmp_path / "curves")) == 2
    assert "pip install tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "new.npz").exists()


def test_a_device_that_is_not_here_ends_with_2(
    tmp_path: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _train(tmp_path, weights, "--device", "cuda") == 2
    assert "expected cpu, got cuda" in capsys.readouterr().err


def test_the_teacher_of_the_tests_is_no_toy() -> None:
    assert model().walk.takes >= 10
    assert model().walk.subjects >= 3
