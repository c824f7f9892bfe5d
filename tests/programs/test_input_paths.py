# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that a person can name: what is no plain file is refused in one sentence, and no reader waits for it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO, make_poses, make_rig

import standalone_trainer
from neural_network import __main__ as program
from neural_network.formats import asf_amc, bvh
from neural_network.ik import network, targets_file
from neural_network.learning import loop, model_file
from neural_network.live.trainee import Trainee
from neural_network.motion import characters, pose_set
from neural_network.rigs import roles

if os.name == "nt":
    pytest.skip("Windows has no such files", allow_module_level=True)

ODD = REPO / "tests" / "odd"
SHIPPED = REPO / "training_data"

READERS: dict[str, Callable[[Path], object]] = {
    "poses": pose_set.load,
    "targets": lambda path: targets_file.load(path, make_rig("reference")),
    "weights": network.load,
    "model file": lambda path: model_file.read(path, "gait"),
    "stopped training": lambda path: loop.load_state(path, {}),
    "trainee": lambda path: Trainee(3, [3]).load(path),
    "roles": roles.read_table,
    "character": lambda path: characters._read(path, 0, 0),
    "BVH": bvh.read,
    "AMC": lambda path: asf_amc.read(ODD / "mini.asf", path),
    "ASF": asf_amc.read_skeleton,
}


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """A reader that waits for a pipe would wait for ever."""

    def ring(*_: Any) -> None:
        raise AssertionError("still waiting")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 20)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def odd_path(kind: str, folder: Path) -> Path:
    path = folder / "given"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to("given")
    elif kind == "system":
        path.symlink_to("/proc/self/environ")
    return path


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "loop", "system"])
@pytest.mark.parametrize("reader", READERS)
def test_no_reader_waits_for_a_pipe_or_reads_a_device(reader: str, kind: str, tmp_path: Path) -> None:
    path = odd_path(kind, tmp_path)
    if kind == "system" and not path.exists():
        pytest.skip("needs /proc")
    with pytest.raises((ValueError, OSError)) as caught:
        READERS[reader](path)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, TimeoutError)
    if kind in ("pipe", "folder", "device"):
        assert f"got a {kind}" in str(caught.value)


WORDS: dict[str, tuple[str, ...]] = {
    "--data": ("train", "--data", "{}"),
    "--init": ("train", "--init", "{}"),
    "--also": ("train", "--also", "{}"),
    "--resume": ("train", "--resume", "--weights", "{folder}/w.npy"),
    "--cancel-file": ("train", "--cancel-file", "{}"),
    "test --weights": ("test", "--weights", "{}"),
    "test --data": ("test", "--data", "{}"),
    "solve --targets": ("solve", "--targets", "{}", "-o", "{folder}/out.npz"),
    "import": ("import", "{}", "-o", "{folder}/out.npz"),
    "import --roles": ("import", str(ODD / "01_mixed_rotation_orders.bvh"), "--roles", "{}", "-o", "{folder}/out.npz"),
    "live --replay": ("live", "--replay", "{}", str(ODD / "01_mixed_rotation_orders.bvh")),
    "serve --weights": ("serve", "--port", "0", "--weights", "{}", "--seconds", "0.1", "--folder", "{folder}/live"),
}


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("line", WORDS)
def test_every_program_says_so_with_exit_code_2(line: str, kind: str, tmp_path: Path) -> None:
    path = odd_path(kind, tmp_path)
    if line == "--resume":
        os.rename(path, tmp_path / "w.resume.npz")
        pose_set.save(tmp_path / "data.npz", make_poses(make_rig("tentacle")))
    first, *words = (word.format(path, folder=tmp_path) for word in WORDS[line])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if first == "train":
            words += [] if "--weights" in words else ["--weights", str(tmp_path / "new.npy")]
            words += ["--data", str(tmp_path / "data.npz"), "--hidden", "8"] if line == "--resume" else []
            code = standalone_trainer.main(words)
        else:
            code = program.main([first, *words])
    assert code == 2, (out.getvalue(), err.getvalue())
    assert "Traceback" not in err.getvalue()
    assert f"a {kind}" in err.getvalue() or "an empty file" in err.getvalue()
    assert not (tmp_path / "new.npy").exists()
    assert not (tmp_path / "out.npz").exists()


def test_a_folder_with_pipes_and_loops_in_it_is_searched_without_them(tmp_path: Path) -> None:
    shutil.copy(ODD / "01_mixed_rotation_orders.bvh", tmp_path / "walk.bvh")
    os.mkfifo(tmp_path / "pipe.bvh")
    (tmp_path / "loop.bvh").symlink_to("loop.bvh")
    (tmp_path / "up").symlink_to(".")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert program.main(["import", str(tmp_path), "-o", str(tmp_path / "out" / "d.npz")]) == 0
    assert "read 1 of 1 file, " in out.getvalue()


@pytest.mark.slow
def test_a_pipe_for_the_progress_that_nobody_reads_does_not_stop_a_training(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "progress")
    pose_set.save(tmp_path / "data.npz", make_poses(make_rig("tentacle")))
    words = ["--data", tmp_path / "data.npz", "--weights", tmp_path / "w.npy", "--progress", tmp_path / "progress"]
    words += ["--epochs", "2", "--hidden", "8", "--no-beside", "--quiet"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        assert standalone_trainer.main([str(word) for word in words]) in (0, 1)
    assert err.getvalue().count("cannot write") == 1
    assert "the training continues" in err.getvalue()
    network.load(tmp_path / "w.npy")
