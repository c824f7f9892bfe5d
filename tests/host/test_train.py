# SPDX-License-Identifier: GPL-3.0-or-later
"""Train: a process of its own that is watched, asked to stop, ended, and understood when it fails."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import REPO

from neural_network.ik import network

from .conftest import kept, wing
from .test_words import says


def test_training_in_background_ends_with_weights_in_memory(demo: Any) -> None:
    import bpy

    bpy.ops.neural_ik.extract_data()
    says("Save to Disk first", bpy.ops.neural_ik.train)
    bpy.ops.neural_ik.save_data()
    assert bpy.ops.neural_ik.train(epochs=12) == {"FINISHED"}
    memory = wing("blender.host.memory")
    assert memory.memory.network is not None
    assert len(memory.memory.curve) == 12
    assert memory.memory.training.startswith("Trained")
    assert memory.memory.trained
    assert bpy.ops.neural_ik.run_tests() == {"FINISHED"}
    assert [line.passed for line in memory.memory.results[:6]] == [True] * 6
    assert "6 of 6 tests passed" in bpy.data.texts["Neural IK Tests"].as_string()
    files = ["character.json", "ik.npy", "poses.npz"]
    assert sorted(p.name for p in memory.folder().rglob("*") if p.is_file()) == files
    weights = kept().weights("ik")
    assert weights.exists()
    bpy.ops.neural_ik.reset_weights()
    assert memory.memory.network is None
    assert not weights.exists()


def test_weights_of_another_rig_are_refused_with_the_differences(demo: Any) -> None:
    import bpy

    memory = wing("blender.host.memory")
    bpy.ops.neural_ik.extract_data()
    bpy.ops.neural_ik.save_data()
    bpy.ops.neural_ik.train(epochs=2)
    bpy.context.view_layer.objects.active = demo
    bpy.ops.object.mode_set(mode="EDIT")
    for side in ("Left", "Right"):
        demo.data.edit_bones.remove(demo.data.edit_bones[f"{side}ToeBase"])
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.ops.neural_ik.extract_data()
    assert memory.memory.poses.skeleton.count == 21
    says("another skeleton", bpy.ops.neural_ik.run_tests)


def test_a_trainer_that_fails_is_quoted_and_the_weights_survive(demo: Any) -> None:
    import bpy

    memory = wing("blender.host.memory")
    own = wing("blender.host.characters").active(bpy.context)
    own = wing("motion.characters").keep(memory.folder(), own.skeleton, own.name)
    own.poses.write_bytes(b"nothing of use")
    own.weights("ik").write_bytes(b"as they were")
    says("expected training data", bpy.ops.neural_ik.train)
    assert own.weights("ik").read_bytes() == b"as they were"
    assert "Failed" in memory.memory.training


def start(tmp_path: Path) -> tuple[Any, Path]:
    """A training that would take for ever, under way."""
    trainer, memory = wing("blender.learn.trainer"), wing("blender.host.memory")
    cancel = tmp_path / "cancel"
    words = trainer.command(memory.SHIPPED_DATA, tmp_path / "best.npy", ["--epochs", "100000", "--no-beside"])
    training = trainer.train(words, cancel)
    end = time.monotonic() + 60
    while not isinstance(next(training), trainer.EpochMessage):
        assert time.monotonic() < end
        time.sleep(0.02)
    return training, cancel


def to_the_end(training: Any) -> Any:
    while True:
        try:
            next(training)
        except StopIteration as end:
            return end.value
        time.sleep(0.02)


def test_the_cancel_file_ends_a_training_with_its_best_weights(extension: ModuleType, tmp_path: Path) -> None:
    training, cancel = start(tmp_path)
    cancel.touch()
    ended = to_the_end(training)
    assert ended.code == 130
    assert "Stopped after epoch" in ended.said
    assert ended.card is None, "nothing was measured"
    assert network.load(tmp_path / "best.npy").skeleton.count == 23
    assert not cancel.exists()


KILLED = """
import os, signal, sys
repo, data, weights = sys.argv[-3:]
sys.path.insert(0, repo)
from pathlib import Path
from neural_network.blender.learn import trainer
words = trainer.command(Path(data), Path(weights), ["--epochs", "100000", "--no-beside", "--hidden", "8"])
for message in trainer.train(words, trainer.cancel_path()):
    if message is not None:
        print("an epoch", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""A Blender that is killed while it trains."""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_trainer_ends_and_saves_when_blender_is_killed_and_the_next_one_cleans_up(
    extension: ModuleType, tmp_path: Path
) -> None:
    trainer, memory = wing("blender.learn.trainer"), wing("blender.host.memory")
    temporary, weights = tmp_path / "tmp", tmp_path / "weights" / "best.npy"
    temporary.mkdir()
    import bpy

    own = bpy.app.binary_path  # empty in the module
    begin = [own, "-b", "--factory-startup", "--python-expr", KILLED, "--"] if own else [sys.executable, "-c", KILLED]
    words = [*begin, str(REPO), str(memory.SHIPPED_DATA), str(weights)]
    killed = subprocess.run(
        words, env={**os.environ, "TMPDIR": str(temporary)}, capture_output=True, text=True, timeout=120, check=False
    )
    assert killed.returncode == -9, killed.stderr
    (folder,) = temporary.glob("neural_ik_*")
    end, last = time.monotonic() + 60, {}
    while not last.get("done"):
        assert time.monotonic() < end, "the trainer has outlived its Blender"
        time.sleep(0.05)
        last = json.loads((folder / "progress.jsonl").read_bytes().splitlines()[-1])
    assert last["saved"]
    assert network.load(weights).skeleton.count == 23
    assert (weights.parent / "best.resume.npz").exists()
    mine = [
        temporary / name for name in ("neural_ik_user_abcdefgh", f"neural_ik_{os.getpid()}_abcdefgh", "neural_ik_1")
    ]
    left = temporary / f"{folder.name[:-8]}cancel_123"
    for path in (*mine, left):
        path.touch()
    before = tempfile.tempdir
    tempfile.tempdir = str(temporary)
    try:
        trainer.clear_leftovers()
    finally:
        tempfile.tempdir = before
    assert sorted(temporary.glob("neural_ik_*")) == sorted(mine)


def test_a_cancelled_training_is_resumed_from_the_panel(demo: Any) -> None:
    import bpy

    memory = wing("blender.host.memory")
    bpy.ops.neural_ik.extract_data()
    bpy.ops.neural_ik.save_data()
    own = kept()
    weights = own.weights("ik")
    waiting = weights.with_name("ik.resume.npz")
    says("nothing to resume", bpy.ops.neural_ik.train, resume=True)
    words, begun = ["--no-beside", "--epochs", "6"], wing("blender.learn.trainer")
    cancel = weights.with_name("cancel")
    files = wing("blender.host.characters").training(bpy.context)
    training = begun.train(begun.command(own.poses, weights, words, files.init), cancel)
    while next(training) is None:
        pass
    cancel.touch()
    assert to_the_end(training).code == 130
    assert waiting.exists()
    assert bpy.ops.neural_ik.train(epochs=6, resume=True) == {"FINISHED"}
    assert memory.memory.training.startswith("Trained")
    assert not waiting.exists()
    resumed = weights.read_bytes()
    assert bpy.ops.neural_ik.train(epochs=6) == {"FINISHED"}
    assert weights.read_bytes() == resumed


def test_closing_the_generator_ends_the_process(extension: ModuleType, tmp_path: Path) -> None:
    training, cancel = start(tmp_path)
    process = training.gi_frame.f_locals["process"]
    folder = Path(training.gi_frame.f_locals["name"])
    assert process.poll() is None
    training.close()
    assert process.poll() is not None
    assert not folder.exists()
    assert not cancel.exists()


def test_the_commands_are_quoted_for_each_system(empty: ModuleType) -> None:
    trainer, operators = wing("blender.learn.trainer"), wing("blender.learn.operators")
    words = ["/opt/my python", "a'b", "--data", "/tmp/ä ö.npz"]
    assert shlex.split(trainer.quoted(words, "posix")) == words
    assert trainer.quoted([r"C:\Program Files\python.exe", "-s", r"D:\x y.npz"], "nt") == (
        r'"C:\Program Files\python.exe" -s "D:\x y.npz"'
    )
    lines = operators.commands(wing("blender.host.characters").training(empty.context))
    assert "--data" in lines[1]
    assert "--weights" in lines[1]
    assert Path(shlex.split(lines[1])[3]).exists()


def test_a_persons_own_poses_are_learned_from_what_people_do_and_the_shipped_ones_from_nothing(demo: Any) -> None:
    import bpy

    characters = wing("blender.host.characters")
    assert characters.training(bpy.context).init is None
    bpy.ops.neural_ik.extract_data()
    bpy.ops.neural_ik.save_data()
    files = characters.training(bpy.context)
    assert files.init == wing("ik.density").SHIPPED
    assert "--init" in wing("blender.learn.operators").commands(files)[1]


def test_the_curve_is_drawn_from_left_to_right_as_far_as_the_training_is(extension: ModuleType) -> None:
    picture = wing("blender.host.curve").draw([(0.0, 200.0), (0.25, 100.0), (0.5, 50.0)])
    seen = picture[..., 3] > 0
    assert seen[:, :60].any(axis=0).all()
    assert not seen[:, 70:].any()
    heights = seen.sum(axis=0)
    assert np.all(np.diff(heights[:60]) <= 0)
    assert heights[0] > 3 * heights[60]
