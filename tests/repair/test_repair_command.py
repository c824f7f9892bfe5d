# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands: clips in, clips out, words and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from repair_data import FPS, RIG, network, rows

from neural_network.__main__ import main
from neural_network.core.files import read_archive
from neural_network.motion import pose_set
from neural_network.motion.pose_set import PoseSet
from neural_network.repair import network as networks


def clips(names: tuple[str, ...] = ("walk", "again")) -> PoseSet:
    rot, root = rows()
    count = len(names)
    clip = np.repeat(np.arange(count), len(rot))
    tiled = np.tile(rot, (count, 1, 1)), np.tile(root, (count, 1))
    return pose_set.make(RIG, *tiled, clip, names, None, FPS, np.zeros(count))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    poses = clips()
    pose_set.save(tmp_path / "sound.npz", poses)
    root = poses.root_pos.copy()
    root[90:, 2] += 0.05
    pose_set.save(tmp_path / "half.npz", replace(poses, root_pos=root))
    networks.save(tmp_path / "weights.npz", {"convolution": network()}, {})
    return tmp_path


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_sound_clips_come_back_byte_for_byte_and_others_stand(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("neural_network.repair.command.SHIPPED", folder / "none.npz")
    out = folder / "out.npz"
    assert run("repair", "fix", folder / "half.npz", "-o", out, "--weights", folder / "none.npz") == 0
    made, given = (read_archive(path, "clips") for path in (out, folder / "half.npz"))
    assert made["judged_sound"].tolist() == [True, False]
    assert made["changed_mm"][0] == 0
    assert 40 < made["changed_mm"][1] < 60
    np.testing.assert_array_equal(made["rot"][:90], given["rot"][:90])
    np.testing.assert_array_equal(made["root_pos"][:90], given["root_pos"][:90])
    assert made["contact"].shape == (180, 2)
    said = capsys.readouterr()
    assert "walk: sound, left as it is" in said.out
    assert "plain methods are used" in said.err
    first = out.read_bytes()
    assert run("repair", "fix", folder / "half.npz", "-o", out, "--weights", folder / "none.npz") == 0
    assert out.read_bytes() == first


def test_contacts_found_edited_and_given_back_decide_what_is_held(folder: Path) -> None:
    found, out = folder / "contacts.npz", folder / "out.npz"
    weights = ("--weights", folder / "weights.npz")
    assert run("repair", "contacts", folder / "sound.npz", "-o", found, *weights) == 0
    contact = read_archive(found, "clips")["contact"]
    assert contact.shape == (180, 2)
    np.savez(folder / "edited.npz", contact=np.zeros_like(contact))
    assert run("repair", "fix", folder / "sound.npz", "--contacts", folder / "edited.npz", "-o", out, *weights) == 0
    assert not read_archive(out, "clips")["contact"].any()
    np.savez(folder / "short.npz", contact=contact[:9])
    assert run("repair", "fix", folder / "sound.npz", "--contacts", folder / "short.npz", "-o", out, *weights) == 2


def test_corrupt_is_seeded_and_clean_writes_its_keys(folder: Path) -> None:
    outs = [folder / f"{i}.npz" for i in range(3)]
    for out, seed in zip(outs, (1, 1, 2), strict=True):
        assert run("repair", "corrupt", folder / "sound.npz", "--kind", "mix", "-o", out, "--seed", seed) == 0
    assert outs[0].read_bytes() == outs[1].read_bytes() != outs[2].read_bytes()
    made = folder / "clean.npz"
    assert run("repair", "clean", outs[0], "-o", made, "--weights", folder / "weights.npz") == 0
    assert {"contact", "changed_mm", "judged_sound"} <= set(read_archive(made, "clips"))


def test_one_frame_and_missing_bones_are_refused_in_words_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rot, root = rows()
    one = pose_set.make(RIG, rot[:1], root[:1], np.zeros(1, int), ["pose"], None, FPS)
    pose_set.save(folder / "one.npz", one)
    out = folder / "never.npz"
    assert run("repair", "fix", folder / "one.npz", "-o", out, "--weights", folder / "weights.npz") == 2
    assert "expected an action of 2 frames or more, got 1" in capsys.readouterr().err
    assert run("repair", "fix", folder / "sound.npz", "-o", folder / "sound.npz") == 2
    assert not out.exists()


def test_a_raised_floor_changes_nothing_and_one_far_above_the_feet_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    poses, out = pose_set.load(folder / "half.npz"), folder / "out.npz"
    up = np.array([0, 0, 50.0]) @ RIG.axes
    high = replace(poses, root_pos=(poses.root_pos + up).astype(np.float32), ground=np.full(2, 50.0))
    pose_set.save(folder / "high.npz", high)
    moved = []
    for name in ("half", "high"):
        assert run("repair", "clean", folder / f"{name}.npz", "-o", out, "--weights", folder / "weights.npz") == 0
        moved.append(read_archive(out, "clips")["changed_mm"])
    np.testing.assert_allclose(moved[1], moved[0], atol=0.1)
    pose_set.save(folder / "low.npz", replace(poses, ground=np.full(2, 50.0)))
    out.unlink()
    capsys.readouterr()
    assert run("repair", "fix", folder / "low.npz", "-o", out, "--weights", folder / "weights.npz") == 2
    assert "below it; check where the floor is" in capsys.readouterr().err
    networks.save(folder / "others.npz", {"gru": network()}, {})
    assert run("repair", "fix", folder / "half.npz", "-o", out, "--weights", folder / "others.npz") == 2
    assert "expected weights of the convolution network, got gru" in capsys.readouterr().err
    assert not out.exists()


def test_eval_fills_the_card_and_says_1_where_a_bar_is_missed(folder: Path) -> None:
    pose_set.save(folder / "held.npz", clips(("07_01",)))
    words = ("--data", folder / "held.npz", "--weights", folder / "weights.npz", "--draws", 1)
    assert run("repair", "eval", *words, "--json", folder / "f.json", "--report", folder / "f.html") == 1
    found = json.loads((folder / "f.json").read_text())
    assert found["wing"] == "repair"
    names = {figure["name"]: figure for figure in found["figures"]}
    for name in ("mix: slide", "mix: MPJPE global", "drop alone: MPJPE local", "W, mix: contacts, F1", "300 frames"):
        assert name in names
    assert {"input", "pin only", "Gaussian + least squares + pin", "convolution + pin"} <= set(
        names["mix: slide"]["rivals"]
    )
    assert names["mix: penetration"]["rivals"]["convolution + pin"] < 1e-3
    pose_set.save(folder / "other.npz", clips(("1_1",)))
    assert run("repair", "eval", "--data", folder / "other.npz", "--weights", folder / "weights.npz") == 2
