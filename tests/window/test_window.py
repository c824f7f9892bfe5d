# SPDX-License-Identifier: GPL-3.0-or-later
"""The installed zip in a real Blender window, by mouse and keys."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import launch

pytestmark = [
    pytest.mark.window,
    pytest.mark.skipif(bool(launch.missing()), reason=launch.missing() or "-"),
]


@pytest.fixture(scope="session")
def zip_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return launch.build(tmp_path_factory.mktemp("window"))


def held(scenario: str, zip_path: Path, tmp_path: Path) -> None:
    done = launch.run(scenario, zip_path, tmp_path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_a_newcomer_gets_from_the_zip_to_passing_tests_by_clicks(zip_path: Path, tmp_path: Path) -> None:
    held("newcomer", zip_path, tmp_path)


def test_a_repository_installs_and_upgrades_and_keeps_what_was_learned(zip_path: Path, tmp_path: Path) -> None:
    if launch.script():
        launch.reset("neural-ik-installs")
    shelf, user = tmp_path / "shelf", tmp_path / "user"
    shelf.mkdir()
    user.mkdir()

    def blender(*words: str) -> str:
        done = launch.command(list(words), tmp_path, user)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def publish(path: Path) -> None:
        for old in shelf.glob("*.zip"):
            old.unlink()
        shutil.copy(path, shelf / path.name)
        blender("--command", "extension", "server-generate", "--repo-dir", str(shelf))

    keep = tmp_path / "keep.py"
    keep.write_text("import bpy\nbpy.ops.neural_ik.add_demo_character()\nbpy.ops.neural_ik.learn(epochs=1)\n")
    find = tmp_path / "find.py"
    find.write_text("import bpy\nbpy.ops.neural_ik.add_demo_character()\nbpy.ops.neural_ik.load_weights()\n")
    publish(zip_path)
    index = (shelf / "index.json").as_uri()
    blender("--command", "extension", "repo-add", "--name", "Neural IK", "--url", index, "neural_ik")
    blender("--online-mode", "--command", "extension", "install", "--sync", "--enable", "neural_ik.neural_ik")
    blender("--background", "--python-exit-code", "1", "--python", str(keep))
    publish(later(zip_path, tmp_path))
    blender("--online-mode", "--command", "extension", "update", "--sync")
    said = blender("--background", "--python-exit-code", "1", "--python", str(find))
    assert "Weights for 23 bones (Neural IK Demo)" in said
    assert "[installed]" in blender("--command", "extension", "list")
    blender("--command", "extension", "remove", "neural_ik.neural_ik")
    assert "[installed]" not in blender("--command", "extension", "list")


def later(zip_path: Path, folder: Path) -> Path:
    """The same zip as version 99.0.0."""
    made = folder / "neural_ik-99.0.0.zip"
    with zipfile.ZipFile(zip_path) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename.endswith("blender_manifest.toml"):
                content = re.sub(rb'(?m)^version = ".*"', b'version = "99.0.0"', content)
            new.writestr(entry, content)
    return made


def test_escape_undo_another_file_and_disabling_leave_nothing_behind(zip_path: Path, tmp_path: Path) -> None:
    held("interrupted", zip_path, tmp_path)


def test_closing_blender_ends_the_training(zip_path: Path, tmp_path: Path) -> None:
    held("closing", zip_path, tmp_path)
    assert "standalone_trainer.py" in (tmp_path / "trainers.txt").read_text()


def test_a_hand_is_dragged_and_every_way_back_works(zip_path: Path, tmp_path: Path) -> None:
    held("dragging", zip_path, tmp_path)


def test_roles_are_found_coloured_and_picked_by_the_mouse(zip_path: Path, tmp_path: Path) -> None:
    held("roles", zip_path, tmp_path)


def test_a_dog_is_learned_and_dragged(zip_path: Path, tmp_path: Path) -> None:
    held("quadruped", zip_path, tmp_path)


def test_legs_are_taught_sent_driven_and_recorded_by_clicks(zip_path: Path, tmp_path: Path) -> None:
    held("teaching", zip_path, tmp_path)


def test_a_preset_becomes_a_ghost_a_loop_and_a_walk_along_a_curve(zip_path: Path, tmp_path: Path) -> None:
    held("gait", zip_path, tmp_path)


def test_two_poses_are_filled_discarded_filled_again_and_accepted_byte_for_byte(zip_path: Path, tmp_path: Path) -> None:
    held("filling", zip_path, tmp_path)


def test_sliding_feet_are_marked_fixed_and_accepted(zip_path: Path, tmp_path: Path) -> None:
    held("feet", zip_path, tmp_path)


def test_a_walk_in_the_air_is_weighed_comes_down_and_is_undone(zip_path: Path, tmp_path: Path) -> None:
    held("physics", zip_path, tmp_path)


def test_a_file_that_blender_reads_is_carried_stopped_and_undone(zip_path: Path, tmp_path: Path) -> None:
    held("carried", zip_path, tmp_path)
