# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands: clips in, clips and scores out, words and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from physics_data import FPS, RIG, rows

from neural_network.__main__ import main
from neural_network.core.files import read_archive
from neural_network.motion import pose_set
from neural_network.physics import figures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound walk and one that floats, in one file."""
    rot, root = rows()
    clip = np.repeat([0, 1], len(rot))
    lifted = np.concatenate([root, root + np.array([0, 0, 0.05], np.float32)])
    poses = pose_set.make(RIG, np.tile(rot, (2, 1, 1)), lifted, clip, ("07_01", "16_01"), None, FPS, np.zeros(2))
    pose_set.save(tmp_path / "in.npz", poses)
    return tmp_path


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_sound_clips_come_back_byte_for_byte_and_others_are_mended(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("physics", "mend", folder / "in.npz", "-o", folder / "out.npz") == 0
    said = capsys.readouterr().out
    assert "07_01: sound, left as it is; balance score 0.0" in said
    assert "16_01: balance score 0." in said
    clips, given = (pose_set.load(folder / name) for name in ("out.npz", "in.npz"))
    half = len(rows()[0])
    np.testing.assert_array_equal(clips.rot[:half], given.rot[:half])
    np.testing.assert_array_equal(clips.root_pos[:half], given.root_pos[:half])
    assert np.abs(clips.root_pos[half:, 2] - given.root_pos[:half, 2]).mean() < 0.01
    made = read_archive(folder / "out.npz", "contacts")
    assert made["judged_sound"].tolist() == [True, False]
    assert made["contact"].shape == (2 * half, 2)
    assert made["score"].max() < 1
    assert run("physics", "mend", folder / "in.npz", "--contacts", folder / "out.npz", "-o", folder / "own.npz") == 0
    np.testing.assert_array_equal(read_archive(folder / "own.npz", "contacts")["contact"], made["contact"])


def test_balance_gives_every_frame_its_score_on_the_ground_of_its_clip(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "balance.json"
    assert run("physics", "balance", folder / "in.npz", "--json", out) == 0
    walk, lifted = json.loads(out.read_text())["clips"]
    assert len(walk["score"]) == len(rows()[0])
    assert walk["mean"] < 0.1 < 0.5 < lifted["mean"] <= lifted["worst"]
    assert "nothing carries" in capsys.readouterr().out
    poses = replace(pose_set.load(folder / "in.npz"), ground=np.array([0.0, 0.05]))
    pose_set.save(folder / "higher.npz", poses)
    assert run("physics", "balance", folder / "higher.npz", "--json", out) == 0
    walk, lifted = json.loads(out.read_text())["clips"]
    assert lifted["mean"] == pytest.approx(walk["mean"], abs=1e-3)


def test_bad_input_is_told_in_words_with_exit_code_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(folder / "short.npz", contact=np.ones((5, 2), bool))
    out = folder / "out.npz"
    pose_set.save(folder / "slow.npz", replace(pose_set.load(folder / "in.npz"), clip_fps=np.array([24.0, 30])))
    for words, expected in (
        (("mend", folder / "none.npz", "-o", out), "none.npz"),
        (("mend", folder / "in.npz", "-o", folder / "in.npz"), "in.npz"),
        (("mend", folder / "in.npz", "-o", out, "--contacts", folder / "short.npz"), "expected `contact` (120, 2)"),
        (("eval", "--data", folder / "in.npz", "--json", folder / "in.npz"), "in.npz"),
        (("eval", "--data", folder / "slow.npz"), "30 frames a second"),
        (("balance", folder / "in.npz", "--json", folder), "folder"),
    ):
        assert run("physics", *words) == 2
        assert expected in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
def test_eval_measures_every_row_and_writes_json_and_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "EDITS", {"float": figures.EDITS["float"]})
    out, page = folder / "figures.json", folder / "figures.html"
    code = run("physics", "eval", "--data", folder / "in.npz", "--json", out, "--report", page)
    found = json.loads(out.read_text())
    assert code == int(any(f["bar"] is not None and f["value"] > f["bar"] for f in found["figures"]))
    names = [figure["name"] for figure in found["figures"]]
    assert "float: balance score" in names
    assert "float, automatic contacts: slide" in names
    assert {"balance score, clean", "balance score, at double speed", "300 frames"} <= set(names)
    assert set(found["figures"][0]["rivals"]) == {"nothing", "repair alone", "pinning alone", "clean"}
    assert "float: legs turned" in page.read_text()
    assert found["wing"] == "physics"
