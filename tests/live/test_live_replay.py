# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded clips as a stream, the commands serve and live, and the protocol's page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import REPO, run_cli

from neural_network.formats import bvh
from neural_network.live import protocol as p
from neural_network.live import tasks
from neural_network.live.axes import ARMATURE
from neural_network.live.client import Client
from neural_network.live.replay import replay
from neural_network.live.trainee import Settings

QUICK = Settings(hidden=(32,), batch=32, steps_a_frame=10)
METRES = 0.05644  # of a unit in these files
WALKS = ("35_01", "35_12", "35_33")


@pytest.fixture(scope="module")
def walks(mocap: Path) -> list[tasks.LegMotion]:
    folder = mocap / "bvh" / "cmu_mb"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder.name} among the motion capture files")
    return [tasks.motion_from_clip(bvh.read(folder / f"{name}.bvh", unit=METRES), skip=1) for name in WALKS]


def last(task: str, walks: list[tasks.LegMotion], **options: object) -> tuple[dict, dict]:
    """Baselines and the last report of a quick replay."""
    frozen = iter(range(1 << 40))  # a slow clock: only frames bound the steps, so runs are repeatable
    reports = list(
        replay(task, walks[:2], walks[2:], settings=QUICK, clock=lambda: 1e-9 * next(frozen), **options)  # type: ignore[arg-type]
    )
    return reports[0], reports[-1]


@pytest.mark.slow
def test_knees_of_an_unseen_walk_are_better_than_a_forward_pole(walks) -> None:
    baselines, learned = last("knee", walks)
    assert learned["knee_mm"] < 4
    assert learned["knee_mm"] < 0.7 * baselines["two_bone_forward"]["knee_mm"]
    assert baselines["two_bone_forward"]["knee_mm"] < 0.3 * baselines["constant"]["knee_mm"]


@pytest.mark.slow
def test_the_calf_in_its_thighs_space_is_a_constant_and_learned_as_one(walks) -> None:
    baselines, learned = last("calf", walks)
    assert baselines["constant"]["calf_cm2"] < 1e-12
    assert learned["calf_cm2"] < 2.85e-7


@pytest.mark.slow
def test_legs_of_an_unseen_walk_also_follow_from_their_own_previous_pose(walks) -> None:
    baselines, learned = last("legs", walks)
    assert learned["foot_mm"] < 0.15 * baselines["previous_pose"]["foot_mm"]
    assert learned["exact_foot_deg"] < 0.5 * baselines["previous_pose"]["foot_deg"]
    assert learned["exact_foot_mm"] < 1e-6
    assert learned["driven_foot_mm"] < 1e-6
    assert learned["driven_knee_mm"] < 15  # without disturbed poses it drifts away by more than 100


def test_rest_lengths_are_those_of_the_moving_clip(walks) -> None:
    motion = walks[0]
    for limb, side in zip(tasks.limbs_of(motion), ("Left", "Right"), strict=True):
        hip, knee, foot = (motion.positions[side + bone] for bone in ("Thigh", "Calf", "Foot"))
        assert np.allclose(np.linalg.norm(knee - hip, axis=1), limb.upper)
        assert np.allclose(np.linalg.norm(foot - knee, axis=1), limb.lower)


def test_a_clip_without_legs_is_refused_by_naming_its_bones(tmp_path: Path) -> None:
    path = tmp_path / "stick.bvh"
    path.write_text(
        "HIERARCHY\nROOT Pole\n{\nOFFSET 0 0 0\nCHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation\n"
        "End Site\n{\nOFFSET 0 1 0\n}\n}\nMOTION\nFrames: 1\nFrame Time: 0.01\n0 0 0 0 0 0\n"
    )
    with pytest.raises(ValueError, match="got Pole"):
        tasks.motion_from_clip(bvh.read(path))


@pytest.mark.slow
def test_live_prints_json_and_says_that_the_calf_is_a_constant(mocap: Path) -> None:
    folder = mocap / "bvh" / "cmu_mb"
    files = [folder / f"{name}.bvh" for name in WALKS]
    if not all(f.is_file() for f in files):
        pytest.skip("the walks of subject 35 are not among the motion capture files")
    words = ["-m", "neural_network", "live", "--replay", *files, "--skip", "1", "--unit", str(METRES)]
    words += ["--holdout", files[2], "--task", "calf", "--frame-ms", "0.1", "--idle-ms", "0", "--live-frames", "100"]
    done = run_cli(*words, "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["stage"] for row in rows][:2] == ["baselines", "after 100 frames"]
    assert list(rows[1]["calf_mm_clips"]) == [WALKS[2]]
    text = run_cli(*words)
    assert "a constant predicts exactly" in text.stdout


@pytest.mark.slow
def test_live_refuses_a_single_clip_and_serve_an_open_address_without_a_token(mocap: Path) -> None:
    file = next((mocap / "bvh" / "cmu_mb").glob("*.bvh"), None)
    if file is None:
        pytest.skip("no BVH file at hand")
    done = run_cli("-m", "neural_network", "live", "--replay", file)
    assert (done.returncode, "at least two" in done.stderr) == (2, True)
    done = run_cli("-m", "neural_network", "serve", "--host", "0.0.0.0", "--port", "0", "--seconds", "0")
    assert (done.returncode, "token" in done.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT that can be sent to one process")
def test_serve_serves_and_saves_when_ctrl_c_ends_it(tmp_path: Path, rng) -> None:
    words = ["-m", "neural_network", "serve", "--port", "0", "--json", "--folder", str(tmp_path / "kept")]
    server = subprocess.Popen(
        [sys.executable, *words, "--seconds", "600"],
        cwd=REPO,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        hello = {"rig": "box", "axes": list(ARMATURE), "layout": "free"}
        hello["inputs"] = [
            {"name": "p", "kind": "position"},
            {"name": "r", "kind": "rotation"},
            {"name": "a", "kind": "number"},
        ]
        hello["outputs"] = [{"name": "b", "kind": "number"}]
        client = Client(hello, port=port)
        client.wait(p.HANDSHAKE, 120)
        for a in rng.standard_normal(100):
            client.train(np.array([0, 0, 0, 1, 0, 0, 0, a, 2 * a]))
        client.ping()  # answered after everything before it; statuses come ten times a second at most, so their number varies
        answers = [client.wait(p.PING, 120)]
        assert answers[0].flags & p.ANSWER
        server.send_signal(signal.SIGINT)
        text, _ = server.communicate(timeout=240)
        client.close()
    finally:
        server.kill()
    events = [json.loads(line)["event"] for line in text.splitlines()]
    assert "saved" in events
    assert server.returncode == 0
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 1


@pytest.mark.slow
def test_serve_exits_after_the_given_seconds(tmp_path: Path) -> None:
    done = run_cli("-m", "neural_network", "serve", "--port", "0", "--folder", tmp_path, "--seconds", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("listening at 127.0.0.1:")


def test_the_protocols_page_lists_the_types_and_sizes_and_has_a_correct_example() -> None:
    page = (REPO / "docs" / "protocol.md").read_text(encoding="utf-8")
    for name in ("HANDSHAKE", "TRAIN", "PREDICT", "SOLVE", "CONTROL", "PING", "AUTH", "POSE", "ERROR"):
        assert f"| 0x{getattr(p, name):02X} |" in page, name
    hexed = re.search(r"((?:[0-9A-F]{2} +){25}[0-9A-F]{2})", page)
    assert hexed is not None
    assert bytes.fromhex(hexed[1]) == p.pack(p.PING, b"hi", sequence=7, time=1.5)
    assert f"{p.MOST_HANDSHAKE:,} bytes" in page
