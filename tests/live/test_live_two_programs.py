# SPDX-License-Identifier: GPL-3.0-or-later
"""Two programs that teach the same rig in one folder: nothing that was taught is lost, and it is said where it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import REPO
from test_live_channels import legs_rows
from test_live_misfortune import QUICK, World, file_of, hello, words

from neural_network.live import kept_file, rig_store
from neural_network.live import protocol as p
from neural_network.live.client import Client
from neural_network.live.kept_file import KeptFile, alone_in, contents
from neural_network.live.layouts import legs_layout
from neural_network.live.learner import new_trainee, observe
from neural_network.live.trainee import Trainee


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[World, World]]:
    """Two servers with one folder."""
    one, other = World(tmp_path), World(tmp_path)
    yield one, other
    for each in (one, other):
        each.server.close()


def frames_in(path: Path) -> int:
    trainee = new_trainee(legs_layout(), QUICK)
    trainee.load(path)
    return trainee.frames


def taught(frames: int) -> Trainee:
    trainee, rng = new_trainee(legs_layout(), QUICK), np.random.default_rng(0)
    for inputs, outputs in zip(*legs_rows(rng, frames), strict=True):
        observe(legs_layout(), trainee, inputs, outputs, rng)
    return trainee


def test_what_another_server_has_saved_meanwhile_is_never_overwritten(both, tmp_path: Path) -> None:
    one, other = both
    first, _ = one.meet("hero")
    one.teach(first, 5)
    assert one.save(first).type == p.CONTROL
    second, answer = other.meet("hero")
    assert answer["frames"] == 5
    other.teach(second, 7)
    assert other.save(second).type == p.CONTROL
    place = file_of(tmp_path, "hero")
    beside = place.with_name(f"{place.stem}.beside")
    for frames in (8, 11):  # the second time it replaces its own
        one.teach(first, 3)
        assert one.save(first).type == p.CONTROL
        assert (frames_in(place), frames_in(beside)) == (12, frames)
    told = [e.text for e in one.events if e.kind == "error"]
    assert len(told) == 1
    assert f"another program has saved {place.name}" in told[0]
    assert beside.name in told[0]
    assert not [e for e in other.events if e.kind == "error"]
    assert sorted(tmp_path.iterdir()) == [beside, place]


def test_two_that_both_begin_a_rig_keep_both_and_the_end_counts_as_saving(both, tmp_path: Path) -> None:
    one, other = both
    for world, frames in ((one, 4), (other, 6)):
        world.teach(world.meet("hero")[0], frames)
    one.server.close()
    other.server.close()
    place = file_of(tmp_path, "hero")
    assert (frames_in(place), frames_in(place.with_name(f"{place.stem}.beside"))) == (4, 6)


def test_a_rig_that_nobody_uses_here_goes_on_from_what_another_program_has_saved(both) -> None:
    one, other = both
    first, _ = one.meet("hero")
    one.teach(first, 5)
    one.save(first)
    first.close()
    one.poll(2)
    second, _ = other.meet("hero")
    other.teach(second, 7)
    other.save(second)
    first, answer = one.meet("hero")
    assert answer["frames"] == 12
    one.teach(first, 1)
    one.save(first)
    assert not [e for e in one.events if e.kind == "error"]


def test_a_file_that_somebody_damages_meanwhile_costs_nothing_that_is_in_memory(both, tmp_path: Path) -> None:
    one, _ = both
    first, _ = one.meet("hero")
    one.teach(first, 5)
    one.save(first)
    first.close()
    one.poll(2)
    place = file_of(tmp_path, "hero")
    place.write_bytes(b"not any more")
    first, answer = one.meet("hero")
    assert answer["frames"] == 5
    assert "going on with what is in memory" in answer["note"]
    one.save(first)
    assert frames_in(place) == 5
    assert place.with_name(f"{place.stem}.damaged").read_bytes() == b"not any more"


def test_a_lesson_that_replaces_the_one_it_found_needs_no_other_name(tmp_path: Path) -> None:
    place = tmp_path / "rig.npz"
    KeptFile(place).save(taught(9))
    again = KeptFile(place)
    again.save(taught(2))
    assert (frames_in(place), again.note) == (2, "")
    assert list(tmp_path.iterdir()) == [place]


def test_what_is_in_a_file_is_told_by_its_content_alone(tmp_path: Path) -> None:
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    taught(3).save(one)
    other.write_bytes(one.read_bytes())
    os.utime(other, (0, 0))
    assert contents(one) == contents(other) != ""
    taught(4).save(other)
    assert contents(one) != contents(other)
    assert contents(tmp_path / "none.npz") == contents(None) == ""


def test_a_disk_that_fails_at_the_last_moment_leaves_both_as_they_were(tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "rig.npz"
    mine = KeptFile(place)
    KeptFile(place).save(taught(9))

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept_file.os, "replace", refuse)
        with pytest.raises(OSError, match="No space left"):
            mine.save(taught(4))
    assert (frames_in(place), list(tmp_path.iterdir())) == (9, [place])
    mine.save(taught(4))
    assert mine.path is not None
    assert (frames_in(place), frames_in(mine.path)) == (9, 4)


def test_while_another_program_replaces_a_file_saving_is_tried_again(both, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(kept_file, "LOCKED_SECONDS", 0.0)
    one, _ = both
    first, _ = one.meet("hero")
    one.teach(first, 5)
    with alone_in(tmp_path):
        assert "another program is saving there" in words(one.save(first))
    one.now += rig_store.AUTOSAVE_SECONDS
    one.until(lambda: file_of(tmp_path, "hero").exists())


@pytest.mark.slow
def test_a_program_that_is_killed_while_it_replaces_a_file_locks_nobody_out(tmp_path: Path, monkeypatch) -> None:
    script = (
        "import sys, time; from pathlib import Path; from neural_network.live.kept_file import alone_in\n"
        "with alone_in(Path(sys.argv[1])): print('inside', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, cwd=REPO)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == b"inside"
    monkeypatch.setattr(kept_file, "LOCKED_SECONDS", 0.0)
    with pytest.raises(BlockingIOError), alone_in(tmp_path):
        pass
    process.kill()
    process.wait()
    monkeypatch.setattr(kept_file, "LOCKED_SECONDS", 60.0)
    with alone_in(tmp_path):
        assert list(tmp_path.iterdir()) == [] or sys.platform == "win32"


class Serving:
    """A server in a process of its own, and a client of it that teaches a rig called hero."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "neural_network", "serve", "--port", "0", "--json", "--folder", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPO)
        assert self.process.stdout is not None
        self.client = Client(hello("hero"), port=json.loads(self.process.stdout.readline())["port"])
        self.client.ping()
        self.client.wait(p.PING, 60)

    def teach(self, frames: int) -> None:
        rows = np.concatenate(legs_rows(np.random.default_rng(0), frames), axis=1)
        for row in rows:
            self.client.train(row)
            self.client.ping()
            self.client.wait(p.PING, 60)  # so that none is dropped

    def save(self) -> None:
        self.client.control(p.SAVE)
        self.client.wait(p.CONTROL, 60)

    def end(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=60)
        self.client.close()
        assert self.process.returncode == 0
        return out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM kills at once there")
def test_a_second_process_that_teaches_the_same_rig_and_ends_loses_nothing_of_either(tmp_path: Path) -> None:
    one = Serving(tmp_path)
    one.teach(10)
    one.save()
    other = Serving(tmp_path)
    assert other.client.answer is not None
    assert other.client.answer["frames"] == 10
    other.teach(5)
    assert "another program" not in other.end()
    one.teach(3)
    told = one.end()
    place = file_of(tmp_path, "hero")
    beside = place.with_name(f"{place.stem}.beside")
    for path, frames in ((place, 15), (beside, 13)):
        trainee = new_trainee(legs_layout())
        trainee.load(path)
        assert trainee.frames == frames
    assert f"another program has saved {place.name}" in told
    assert beside.name in told
