# SPDX-License-Identifier: GPL-3.0-or-later
"""The installed zip in a real Blender window, by mouse and keys."""

from __future__ import annotations

import sys
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


def test_a_preset_becomes_a_ghost_and_a_loop(zip_path: Path, tmp_path: Path) -> None:
    held("gait", zip_path, tmp_path)
