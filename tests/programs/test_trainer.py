# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer as people type it: exit codes, what is printed and written, stopping and going on, and bad input."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_poses, make_rig, run_cli

import standalone_trainer
from neural_network.ik import batches, context, network, quality
from neural_network.ik import trainer as trainer_module
from neural_network.ik.arguments import FINE_TUNING_LR
from neural_network.ik.settings import Training
from neural_network.learning import loop
from neural_network.motion import pose_set, splits

QUICK = ("--epochs", "2", "--hidden", "8", "--augment", "2", "--no-beside")
Trainer = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four clips of 40 frames of the reference rig."""
    path = tmp_path_factory.mktemp("data") / "small.npz"
    pose_set.save(path, make_poses(make_rig("reference")))
    return path


@pytest.fixture(scope="module")
def easy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A body of three bones, which a small network learns in a second."""
    path = tmp_path_factory.mktemp("data") / "easy.npz"
    pose_set.save(path, make_poses(make_rig("tentacle")))
    return path


def run(*words: str | Path) -> tuple[int, str, str]:
    """Run the trainer in this process: exit code, output, errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = standalone_trainer.main([str(w) for w in words])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def trainer(tmp_path: Path, data: Path) -> Trainer:
    """:func:`run` on ``data``, writing to best.npy in tmp_path, unless told otherwise."""

    def call(*words: str | Path) -> tuple[int, str, str]:
        own = list(words)
        own += [] if "--data" in own else ["--data", data]
        own += [] if "--weights" in own else ["--weights", tmp_path / "best.npy"]
        return run(*own)

    return call


@dataclass(frozen=True)
class Usual:
    """One training with QUICK on ``data``, which many tests look at."""

    code: int
    out: str
    err: str
    folder: Path
    """Holds best.npy, figures.json and progress."""

    @property
    def card(self) -> dict[str, Any]:
        return json.loads((self.folder / "deep" / "figures.json").read_text())


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Usual:
    folder = tmp_path_factory.mktemp("usual")
    written = ("--weights", folder / "best.npy", "--json", folder / "deep" / "figures.json")
    return Usual(*run(*QUICK, "--data", data, *written, "--progress", folder / "progress"), folder)


def one_sentence(code: int, out: str, err: str) -> str:
    """The complaint of bad input: exit code 2, one line, no traceback."""
    assert code == 2, (code, out, err)
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("standalone_trainer.py: ")
    return lines[0]


# ---------------------------------------------------------------- the usual way


@pytest.mark.slow
def test_one_command_trains_tests_and_tells_what_to_press(data: Path, tmp_path: Path) -> None:
    weights = tmp_path / "new" / "folder" / "best.npy"
    done = run_cli("standalone_trainer.py", "--data", data, "--weights", weights, *QUICK[:-1])
    assert done.returncode == 1, done.stderr  # two epochs pass no suite
    assert done.stderr == ""
    out = done.stdout
    assert out.startswith("Neural IK trainer\nPython ")
    assert f"NumPy {np.__version__}, threads 1" in out
    assert f"Adam {Training().lr:g} (0.9, 0.999), batch 128" in out
    assert re.search(r"Samples: 104 train x2, 16 validation, 16 test \(10 % held out, split block\)", out)
    lines = re.findall(r"^ *[\d.]+ %  epoch +(\d)/2  FK +[\d.]+ mm  validation +[\d.]+ mm.* \*$", out, re.MULTILINE)
    assert lines == ["1", "2"]
    for name in ("Holdout (FK)", "Interpolation (FK)", "Consistency", "Noise robustness", "Follow", "Natural"):
        assert re.search(rf"^(PASS|FAIL)  {re.escape(name)}", out, re.MULTILINE)
    assert "of 6 tests passed" in out
    for row in ("network alone", "network + 3 exact steps", "nearest training frame", "ridge regression", "rest pose"):
        assert re.search(rf"^{re.escape(row)}.*\d", out, re.MULTILINE)
    assert "(split clip)" in out  # the harder figure stands beside it
    assert f"Weights: {weights}" in out
    assert "In Blender: 3D View, sidebar, tab Neural IK, Load Weights" in out
    net = network.load(weights)
    assert net.hidden == (8,)
    assert net.meta["data"]["split"] == "block"
    assert net.meta["config"]["epochs"] == 2
    assert sorted(p.name for p in weights.parent.iterdir()) == ["best.npy"]


@pytest.mark.slow
def test_help_names_every_flag_with_its_default() -> None:
    done = run_cli("standalone_trainer.py", "--help", env={"COLUMNS": "200"})
    assert done.returncode == 0
    for flag, default in {
        "--data": "training_data.npz",
        "--weights": "best.npy",
        "--epochs": "300",
        "--batch-size": "128",
        "--lr": f"{Training().lr}",
        "--hidden": "(128, 96)",
        "--patience": "40",
        "--seed": "0",
        "--split": "block",
        "--holdout": "0.11",
        "--augment": f"{Training().augment}",
        "--max-frames": "0",
        "--init": "WEIGHTS",
        "--also": "POSES",
        "--resume": "",
        "--time-limit": "0.0",
        "--threads": "1",
        "--folds": "",
        "--json": "FILE",
        "--report": "FILE",
        "--progress": "FILE",
        "--cancel-file": "FILE",
        "--quiet": "",
        "--fk-every": "1",
        "--contact-every": "1",
        "--fk-off-below": "0.0",
        "--older-ground": "",
    }.items():
        found = re.search(rf"^  {flag}\b(.*?)(?=^  -|\Z|^$)", done.stdout, re.MULTILINE | re.DOTALL)
        assert found, flag
        assert default in found[1], (flag, found[1])


@pytest.mark.slow
def test_trained_and_passed_is_exit_code_0(trainer: Trainer, easy: Path) -> None:
    words = ("--data", easy, "--epochs", "80", "--augment", "10", "--lr", "0.01", "--hidden", "64", "--no-beside")
    code, out, err = trainer(*words)
    assert (code, err) == (0, "")
    assert "6 of 6 tests passed" in out


@pytest.mark.slow
def test_the_figures_as_json(usual: Usual) -> None:
    assert usual.code == 1
    card = usual.card
    assert card["samples"] == {"train": 104, "validation": 16, "test": 16, "split": "block"}
    assert {"seconds", "cpu_seconds", "epochs", "best_epoch", "samples_per_second"} <= set(card["train"])
    assert card["train"]["epochs"] == 2
    rows = ("rest", "mean_pose", "nearest", "ridge", "classical_rest", "classical_mean")
    assert set(rows) <= set(card["baselines"])
    for figures in (card["holdout"], card["refined"], *(card["baselines"][r] for r in rows)):
        assert {"mean", "p95"} == set(figures["effector_mm"])
        assert figures["mpjpe_mm"] >= 0
        assert figures["rotation_deg"] >= 0
    assert 0 <= card["refined"]["share_below_1mm"] <= 1
    assert len(card["tests"]) == 6
    assert all({"name", "passed", "score", "threshold"} <= set(t) for t in card["tests"])


@pytest.mark.slow
def test_progress_is_one_object_an_epoch_and_a_last_word(usual: Usual) -> None:
    records = [json.loads(line) for line in (usual.folder / "progress").read_text().splitlines()]
    assert [r.get("epoch") for r in records] == [1, 2, None]
    assert {"epoch", "of", "share", "fk_mm", "validation_mm", "best", "best_mm", "best_epoch"} <= set(records[0])
    assert [r["share"] for r in records[:2]] == [0.5, 1.0]
    assert records[-1] == {"done": True, "exit": 1, "weights": str(usual.folder / "best.npy"), "saved": True}


@pytest.mark.slow
def test_one_seed_gives_the_same_bytes_and_quiet_prints_the_results_only(
    trainer: Trainer, usual: Usual, tmp_path: Path
) -> None:
    _, out, _ = trainer(*QUICK, "--seed", "0", "--quiet", "--weights", tmp_path / "again.npy")
    assert "epoch" in usual.out
    assert "epoch" not in out
    assert "of 6 tests passed" in out
    trainer(*QUICK, "--seed", "1", "--weights", tmp_path / "other.npy")
    first, second, other = (
        p / n for p, n in ((usual.folder, "best.npy"), (tmp_path, "again.npy"), (tmp_path, "other.npy"))
    )
    assert first.read_bytes() == second.read_bytes()
    assert other.read_bytes() != first.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("--split", "clip"),
        ("--split", "frame"),
        ("--mix", "0"),
        ("--max-frames", "20"),
        ("--layout", "masked", "--drop-effectors", "0.5"),
        ("--layout", "free"),
        ("--proportions", "0.3"),
        ("--preset", "older"),
        ("--fk-every", "16", "--contact-every", "8", "--fk-off-below", "0.02", "--older-ground"),
        ("--time-limit", "0.05"),
        ("--augment", "1", "--batch-size", "7"),
        ("--holdout", "0.3"),
    ],
    ids=lambda words: " ".join(words),
)
def test_every_setting_runs_to_the_end(words: tuple[str, ...], trainer: Trainer, tmp_path: Path) -> None:
    code, out, err = trainer(*QUICK, *words)
    assert (code, err) == (1, "")
    assert ("LEAKY" in out) == ("frame" in words)
    assert network.load(tmp_path / "best.npy").hidden == (8,)


@pytest.mark.slow
def test_folds_pool_all_clips_and_end_with_a_fit_on_all(trainer: Trainer, tmp_path: Path) -> None:
    code, out, _ = trainer(*QUICK, "--folds", "3", "--json", tmp_path / "f.json")
    assert code == 1
    assert [f"Fold {i} of 3" in out for i in (1, 2, 3)] == [True] * 3
    card = json.loads((tmp_path / "f.json").read_text())
    assert card["samples"]["test"] == 160  # every frame once
    assert card["samples"]["folds"] == 3
    assert set(card["clips"]) == {"walk", "reach_up", "jump", "kick"}
    net = network.load(tmp_path / "best.npy")
    parts = {part for clip in net.meta["data"]["clips"] for _, part in clip["parts"]}
    assert splits.TEST not in parts


@pytest.mark.slow
def test_folds_work_with_clips_too_short_for_blocks(trainer: Trainer, tmp_path: Path) -> None:
    pose_set.save(tmp_path / "short.npz", make_poses(make_rig("tentacle"), clips=5, frames=12))
    code, _, err = trainer("--data", tmp_path / "short.npz", *QUICK, "--folds", "2")
    assert code in (0, 1), err
    assert (tmp_path / "best.npy").exists()


@pytest.mark.slow
def test_fine_tuning_takes_the_shape_of_the_weights_it_starts_from(trainer: Trainer, tmp_path: Path) -> None:
    trainer(*QUICK, "--weights", tmp_path / "first.npy", "--hidden", "9,7")
    code, _, err = trainer("--init", tmp_path / "first.npy", *QUICK)
    assert (code, err) == (1, "")
    first, tuned = (network.load(tmp_path / n) for n in ("first.npy", "best.npy"))
    assert tuned.hidden == (9, 7)
    np.testing.assert_array_equal(tuned.mean, first.mean)
    assert np.any(tuned.parameters != first.parameters)
    assert tuned.meta["config"]["lr"] == FINE_TUNING_LR < first.meta["config"]["lr"]


@pytest.mark.slow
def test_others_poses_help_and_are_never_tested_on(trainer: Trainer, usual: Usual, tmp_path: Path) -> None:
    pose_set.save(tmp_path / "others.npz", make_poses(make_rig("reference"), clips=3, frames=50, seed=8))
    also = ("--also", tmp_path / "others.npz")
    code, _, err = trainer("--init", usual.folder / "best.npy", *also, "--json", tmp_path / "card.json", *QUICK)
    assert (code, err) == (1, "")
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["samples"]["test"] == usual.card["samples"]["test"]
    assert card["samples"]["train"] == usual.card["samples"]["train"] + 150
    first, tuned = (network.load(folder / "best.npy") for folder in (usual.folder, tmp_path))
    assert np.any(tuned.mean != first.mean)


@pytest.mark.slow
def test_a_copy_of_the_characters_own_poses_is_not_learned_as_others(
    trainer: Trainer, data: Path, tmp_path: Path
) -> None:
    own = pose_set.load(data)
    others = make_poses(own.skeleton, clips=1, frames=50, seed=8)
    pose_set.save(tmp_path / "copy.npz", own)
    pose_set.save(tmp_path / "merged.npz", pose_set.join([others, own]))
    code, _, err = trainer("--also", tmp_path / "copy.npz", *QUICK)
    assert code == 2
    assert "are this character's own" in err
    code, out, err = trainer("--also", tmp_path / "merged.npz", *QUICK)
    assert (code, err) == (1, "")
    assert f"left out {own.frames} frames of merged.npz" in out
    assert "Also 50 frames of others" in out


def test_others_poses_of_another_tree_are_refused_in_words(trainer: Trainer, tmp_path: Path) -> None:
    pose_set.save(tmp_path / "others.npz", make_poses(make_rig("tentacle")))
    code, _, err = trainer("--also", tmp_path / "others.npz", *QUICK)
    assert code == 2
    assert "belongs to another skeleton" in err


# ---------------------------------------------------------------- what is there already


@pytest.mark.slow
def test_better_weights_of_the_same_data_and_split_are_kept(trainer: Trainer, tmp_path: Path) -> None:
    trainer(*QUICK, "--epochs", "12", "--lr", "0.01")
    before = (tmp_path / "best.npy").read_bytes()
    code, out, _ = trainer(*QUICK, "--epochs", "1", "--lr", "1e-6")
    assert code == 1
    assert "already holds better ones for the same data and split, which were kept" in out
    assert (tmp_path / "best.npy").read_bytes() == before


@pytest.mark.slow
def test_a_failure_leaves_the_old_weights_byte_for_byte(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "best.npy").write_bytes(b"not even weights, but mine")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = trainer(*QUICK)
    state, last = err.strip().splitlines()  # the state to resume from is written first, and need not be
    assert "best.resume.npz: No space left on device; nothing was changed there; the training continues" in state
    words = one_sentence(code, out, last)
    assert "cannot write" in words
    assert "No space left on device; nothing was changed there" in words
    assert (tmp_path / "best.npy").read_bytes() == b"not even weights, but mine"
    assert [p.name for p in tmp_path.iterdir()] == ["best.npy"]


# ---------------------------------------------------------------- stopping and going on


INTERRUPTED = """
import os, signal, sys
import standalone_trainer as trainer
from neural_network.learning import stopping

marks = sys.argv.pop(1).split("|")  # Ctrl-C comes when a line with the next of these words is printed
tell, asked = trainer._print, stopping.Stopper._interrupt

def print_and_interrupt(line):
    tell(line)
    if marks and marks[0] in line:
        marks.pop(0)
        os.kill(os.getpid(), signal.SIGINT)

def asked_and_again(self, number, frame):
    asked(self, number, frame)
    if marks == ["twice"]:
        marks.clear()
        asked(self, number, frame)  # the same key press, passed on by the program that started us
        self._at -= stopping.SAME_PRESS  # time goes by
        os.kill(os.getpid(), signal.SIGINT)

trainer._print, stopping.Stopper._interrupt = print_and_interrupt, asked_and_again
sys.exit(trainer.main())
"""
"""A trainer that presses Ctrl-C itself, at a moment that no busy machine can miss."""


def interrupted(marks: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_cli("-c", INTERRUPTED, marks, *words)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT that can be sent to one process")
def test_after_ctrl_c_it_goes_on_to_the_very_same_result(data: Path, tmp_path: Path) -> None:
    words = ("--data", data, "--epochs", "12", "--patience", "99", "--hidden", "8", "--augment", "10", "--no-beside")
    whole = run_cli("standalone_trainer.py", *words, "--weights", tmp_path / "whole.npy")
    assert whole.returncode == 1, whole.stderr
    done = interrupted("epoch    1/", *words, "--weights", tmp_path / "best.npy")
    assert done.returncode == 130, (done.stdout, done.stderr)
    assert "Stopping after this epoch (press Ctrl-C again to stop at once)" in done.stdout
    found = re.search(
        r"Stopped after epoch (\d+). The best weights so far .* To continue, add --resume to the same command",
        done.stdout,
    )
    assert found, done.stdout
    assert int(found[1]) < 12
    assert "Traceback" not in done.stderr
    network.load(tmp_path / "best.npy")
    resumed = run_cli("standalone_trainer.py", *words, "--weights", tmp_path / "best.npy", "--resume")
    assert resumed.returncode == 1, resumed.stderr
    assert f"Resuming after epoch {found[1]}" in resumed.stdout
    assert (tmp_path / "best.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.npy", "whole.npy"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT that can be sent to one process")
def test_a_second_ctrl_c_stops_at_once(data: Path, tmp_path: Path) -> None:
    words = ("--data", data, "--epochs", "5000", "--patience", "9999", "--hidden", "8", "--no-beside")
    done = interrupted("epoch    1/|twice", *words, "--weights", tmp_path / "best.npy")
    assert done.returncode == 130, done.stderr
    assert done.stdout.count("Stopping after this epoch") == 1
    assert "Stopped at once; the weights on disk are unchanged." in done.stdout
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "best.npy").exists()


def stopping_after(epoch: int, cancel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancel file appears when the trainer prints this epoch."""
    tell = standalone_trainer._print

    def print_and_cancel(line: str) -> None:
        tell(line)
        if f"epoch {epoch:4d}/" in line:
            cancel.touch()

    monkeypatch.setattr(standalone_trainer, "_print", print_and_cancel)


@pytest.mark.slow
def test_a_cancel_file_stops_as_ctrl_c_does(trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*QUICK, "--epochs", "6")
    trainer(*words, "--weights", tmp_path / "whole.npy")
    cancel = tmp_path / "cancel"
    cancel.touch()  # one left over from an earlier run stops nothing
    with monkeypatch.context() as patch:
        stopping_after(3, cancel, patch)
        code, out, _ = trainer(*words, "--cancel-file", cancel, "--progress", tmp_path / "progress")
    assert code == 130
    assert "Stopped after epoch 3. The best weights so far" in out
    last = json.loads((tmp_path / "progress").read_text().splitlines()[-1])
    assert last == {"done": True, "exit": 130, "weights": str(tmp_path / "best.npy"), "saved": True}
    assert network.load(tmp_path / "best.npy").meta["epochs"] == 3
    code, out, _ = trainer(*words, "--resume")
    assert code == 1
    assert (tmp_path / "best.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_stopping_a_fold_leaves_the_weights_as_they_were(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "best.npy").write_bytes(b"mine")
    stopping_after(1, tmp_path / "cancel", monkeypatch)
    code, out, _ = trainer(
        *QUICK, "--folds", "2", "--cancel-file", tmp_path / "cancel", "--progress", tmp_path / "progress"
    )
    assert code == 130
    assert "The weights on disk are unchanged." in out
    assert (tmp_path / "best.npy").read_bytes() == b"mine"
    last = json.loads((tmp_path / "progress").read_text().splitlines()[-1])
    assert (last["done"], last["exit"], last["saved"]) == (True, 130, False)


@pytest.mark.slow
def test_stopping_beside_keeps_weights_and_figures(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second network only shows a figure: whoever stops it loses that figure and nothing else."""
    cancel, tell = tmp_path / "cancel", standalone_trainer._print

    def print_and_cancel(line: str) -> None:
        tell(line)
        if "Beside it" in line:
            cancel.touch()

    monkeypatch.setattr(standalone_trainer, "_print", print_and_cancel)
    more = ("--cancel-file", cancel, "--json", tmp_path / "f.json", "--progress", tmp_path / "progress")
    code, out, _ = trainer(*QUICK[:-1], *more)
    assert code == 130
    assert "the figures above and the weights are complete" in out
    assert network.load(tmp_path / "best.npy").meta["epochs"] == 2
    card = json.loads((tmp_path / "f.json").read_text())
    assert "holdout" in card
    assert "beside" not in card
    records = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    assert [r for r in records if r.get("done")] == [records[-1]]
    assert (records[-1]["exit"], records[-1]["saved"]) == (130, True)


@pytest.mark.slow
def test_ctrl_c_after_the_weights_were_saved_says_so(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer_module, "train_beside", interrupted)
    code, out, err = trainer(*QUICK[:-1], "--progress", tmp_path / "progress")
    assert (code, err) == (130, "")
    assert f"the weights in {tmp_path / 'best.npy'} are complete" in out
    assert json.loads((tmp_path / "progress").read_text().splitlines()[-1])["saved"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_progress_file_on_a_full_disk_does_not_end_the_training(trainer: Trainer, tmp_path: Path) -> None:
    _, out, err = trainer(*QUICK, "--progress", "/dev/full")
    assert err.count("No space left on device; the training continues") == 1
    assert "epoch    2/2" in out
    assert network.load(tmp_path / "best.npy").meta["epochs"] == 2


@pytest.mark.slow
def test_a_training_whose_weights_cannot_be_saved_can_be_resumed(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: Any) -> None:
        raise OSError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr(loop, "SAVE_EVERY", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(network, "save", full)
        assert "No space left" in one_sentence(*trainer(*QUICK))
    assert [p.name for p in tmp_path.iterdir()] == ["best.resume.npz"]
    code, _, err = trainer(*QUICK, "--resume")
    assert (code, err) == (1, "")
    assert [p.name for p in tmp_path.iterdir()] == ["best.npy"]


@pytest.mark.slow
def test_nothing_to_resume_and_other_settings_are_said(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "nothing to resume: no stopped training at" in one_sentence(*trainer(*QUICK, "--resume"))
    with monkeypatch.context() as patch:
        stopping_after(1, tmp_path / "cancel", patch)
        assert trainer(*QUICK, "--cancel-file", tmp_path / "cancel")[0] == 130
    assert "other data or settings (lr was 0.00" in one_sentence(*trainer(*QUICK, "--resume", "--lr", "0.5"))
    other = one_sentence(*trainer(*QUICK, "--resume", "--split", "clip"))
    assert "other poses or another split" in other
    state = tmp_path / "best.resume.npz"
    state.write_bytes(state.read_bytes()[:500])
    assert "best.resume.npz: not a stopped training" in one_sentence(*trainer(*QUICK, "--resume"))


def test_resume_does_not_go_with_folds(trainer: Trainer) -> None:
    assert "--folds" in one_sentence(*trainer(*QUICK, "--resume", "--folds", "2"))


@pytest.mark.slow
def test_the_state_is_saved_now_and_then_for_a_power_cut(
    trainer: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SAVE_EVERY", -1.0)
    begun = loop.train
    seen: list[bool] = []

    def watched(*args: Any, **kwargs: Any) -> Any:
        for epoch in begun(*args, **kwargs):
            seen.append((tmp_path / "best.resume.npz").exists())
            yield epoch

    monkeypatch.setattr(loop, "train", watched)
    trainer(*QUICK)
    assert seen == [False, True]
    assert not (tmp_path / "best.resume.npz").exists()


# ---------------------------------------------------------------- what is saved is what was measured


@pytest.fixture(scope="module")
def other_people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other motion of the same bones, several times as much."""
    path = tmp_path_factory.mktemp("data") / "others.npz"
    pose_set.save(path, make_poses(make_rig("reference"), clips=8, frames=90, seed=11))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--also", "OTHERS"),
        ("--init", "BEGUN"),
        ("--also", "OTHERS", "--init", "BEGUN"),
        ("--split", "clip"),
        ("--split", "frame"),
        ("--layout", "free"),
        ("--layout", "masked", "--drop-effectors", "0.3"),
        ("--layout", "positions"),
        ("--preset", "older"),
        ("--mix", "0"),
        ("--proportions", "0.3", "--layout", "bodies"),
        ("--max-frames", "50"),
        ("--augment", "1", "--batch-size", "7"),
        ("--time-limit", "0.2"),
    ],
    ids=lambda words: " ".join(words) or "default",
)
def test_the_file_read_back_gives_the_printed_figures(
    words: tuple[str, ...], trainer: Trainer, tmp_path: Path, data: Path, other_people: Path, usual: Usual
) -> None:
    files = {"OTHERS": other_people, "BEGUN": usual.folder / "best.npy"}
    code, _, err = trainer(*QUICK, *(files.get(w, w) for w in words), "--json", tmp_path / "card.json")
    assert (code, err) == (1, "")
    card = json.loads((tmp_path / "card.json").read_text())
    net, poses = network.load(tmp_path / "best.npy"), pose_set.load(data)
    parts = quality.parts_for(net, poses)
    assert int(np.sum(parts == splits.TEST)) >= card["samples"]["test"]
    kind = words[words.index("--split") + 1] if "--split" in words else "block"
    parts = splits.split(poses, kind)
    samples = context.prepare(poses, older_ground="older" in words)
    held = np.flatnonzero(parts == splits.VALIDATION)
    assert batches.error_of(net, samples, held) * 1000 == pytest.approx(net.meta["best_validation_mm"], rel=1e-6)
    measured = quality.measure(net, poses, parts, samples)
    for name in ("holdout", "refined"):
        errors = measured.errors[name]
        assert errors is not None
        found, printed = errors.figures(), card[name]
        assert found["effector_mm"]["mean"] == pytest.approx(printed["effector_mm"]["mean"], rel=1e-6)
        assert found["mpjpe_mm"] == pytest.approx(printed["mpjpe_mm"], rel=1e-6)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "got an empty file"),
        (b"hello", "got a file of another kind"),
        (b"\x80\x04K\x01.", "pickled content, which is refused unopened"),
    ],
)
def test_bad_data_is_refused_in_one_sentence(content: bytes, words: str, trainer: Trainer, tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(content)
    assert words in one_sentence(*trainer("--data", tmp_path / "bad.npz"))
    assert not (tmp_path / "best.npy").exists()


def test_a_file_cut_short_and_one_with_nan_are_refused(trainer: Trainer, tmp_path: Path, data: Path) -> None:
    (tmp_path / "cut.npz").write_bytes(data.read_bytes()[:5000])
    assert "cut.npz: expected training data" in one_sentence(*trainer("--data", tmp_path / "cut.npz"))
    with np.load(data) as archive:
        fields = {name: archive[name] for name in archive.files}
    fields["rot"][7, 3, 1] = np.nan
    np.savez(tmp_path / "nan.npz", **fields)
    assert "NaN or infinity in 1 frames, the first is row 7" in one_sentence(*trainer("--data", tmp_path / "nan.npz"))


@pytest.mark.parametrize("flag", ["--weights", "--json", "--report", "--progress", "--cancel-file"])
def test_no_flag_writes_over_the_poses(flag: str, trainer: Trainer, tmp_path: Path, data: Path) -> None:
    before = data.read_bytes()
    words = one_sentence(*trainer(*QUICK, flag, data))
    assert f"{flag}: expected another file than for --data" in words
    assert data.read_bytes() == before
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_no_disk_can_hold_is_refused(trainer: Trainer, tmp_path: Path) -> None:
    one_sentence(*trainer(*QUICK, "--weights", tmp_path / ("long" * 80 + ".npy")))


def test_only_an_empty_file_counts_as_an_old_cancel_file(trainer: Trainer, tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("mine")
    assert "an empty file" in one_sentence(*trainer(*QUICK, "--cancel-file", tmp_path / "diary"))
    assert (tmp_path / "diary").read_text() == "mine"


@pytest.mark.slow
def test_missing_data_says_what_to_do(tmp_path: Path) -> None:
    done = run_cli("standalone_trainer.py", "--data", tmp_path / "none.npz", "--weights", tmp_path / "best.npy")
    assert "no training data at" in one_sentence(done.returncode, done.stdout, done.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("clips", "frames", "words"),
    [(1, 1, "nothing left to hold out"), (4, 10, "nothing left to hold out"), (1, 60, "")],
)
def test_one_frame_and_one_clip(clips: int, frames: int, words: str, trainer: Trainer, tmp_path: Path) -> None:
    pose_set.save(tmp_path / "few.npz", make_poses(make_rig("tentacle"), clips=clips, frames=frames))
    result = trainer("--data", tmp_path / "few.npz", *QUICK[:-1])
    if words:
        assert words in one_sentence(*result)
    else:  # one long clip has a block to hold out, and no other clip to stand beside it
        assert result[0] in (0, 1), result[2]


def test_one_clip_cannot_be_held_out_whole(trainer: Trainer, tmp_path: Path) -> None:
    pose_set.save(tmp_path / "one.npz", make_poses(make_rig("tentacle"), clips=1, frames=60))
    said = one_sentence(*trainer("--data", tmp_path / "one.npz", *QUICK, "--split", "clip"))
    assert "needs at least 3 clips, got 1 clip with 60 frames" in said
    assert "folds: expected" in one_sentence(*trainer("--data", tmp_path / "one.npz", *QUICK, "--folds", "2"))


def test_weights_of_another_rig_are_no_start(trainer: Trainer, tmp_path: Path, easy: Path) -> None:
    trainer("--data", easy, *QUICK, "--weights", tmp_path / "tentacle.npy")
    said = one_sentence(*trainer(*QUICK, "--init", tmp_path / "tentacle.npy"))
    assert "belongs to another skeleton: expected 3 bones, got 23" in said
    assert "no weights at" in one_sentence(*trainer(*QUICK, "--init", tmp_path / "none.npy"))
    assert not (tmp_path / "best.npy").exists()


def test_weights_need_a_name_that_says_what_they_are(trainer: Trainer, tmp_path: Path) -> None:
    said = one_sentence(*trainer(*QUICK, "--weights", tmp_path / "mine"))
    assert f"expected a file name that ends in .npy or .npz, got {tmp_path / 'mine'}; add it" in said
    assert not list(tmp_path.glob("mine*"))


@pytest.mark.parametrize("flag", ["--weights", "--json", "--progress"])
def test_a_place_that_cannot_be_written_is_found_before_the_work(flag: str, trainer: Trainer, tmp_path: Path) -> None:
    """Tests may run as root, who may write anywhere: a file where a folder is needed stops him too."""
    (tmp_path / "file").touch()
    code, out, err = trainer(*QUICK, flag, tmp_path / "file" / "deeper" / "x.npy")
    assert "cannot write" in one_sentence(code, out, err)
    assert "epoch" not in out
    (tmp_path / "folder").mkdir()
    assert "expected a file name, got the folder" in one_sentence(*trainer(*QUICK, flag, tmp_path / "folder"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epochs", "0"), "expected a number above 0, got 0"),
        (("--epochs", "many"), "invalid int value: 'many'"),
        (("--lr", "-1"), "expected a number above 0, got -1"),
        (("--lr", "nan"), "expected a number above 0, got nan"),
        (("--lr", "inf"), "expected a number above 0, got inf"),
        (("--hidden", "0"), "expected widths such as 128,96, got 0"),
        (("--hidden", "a,b"), "expected widths such as 128,96, got a,b"),
        (("--mix", "2"), "expected a number from 0 to 1, got 2"),
        (("--split", "half"), "invalid choice: 'half'"),
        (("--layout", "spiral"), "invalid choice: 'spiral'"),
        (("--folds", "0"), "expected"),
        (("--folds", "-2"), "expected"),
        (("--holdout", "0"), "expected a number above 0 and up to 0.5, got 0"),
        (("--holdout", "nan"), "expected a number above 0 and up to 0.5, got nan"),
        (("--holdout", "0.5"), "share held out: expected a number between 0 and 0.5, got 0.5"),
        (("--layout", "reference", "--drop-effectors", "0.5"), "expected a layout with a mask, got --layout reference"),
        (("--unknown",), "unrecognized arguments: --unknown"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_flags_are_refused_with_exit_code_2(words: tuple[str, ...], said: str, trainer: Trainer) -> None:
    code, _, err = trainer("--epochs", "1", *words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
