# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands ``motion fill|continue|check|eval`` as a user types them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neural_network.__main__ import main
from neural_network.core import skeleton
from neural_network.core.files import read_archive
from neural_network.motion import pose_set
from neural_network.prediction import gaps, inbetween, library, network
from neural_network.prediction.inbetween import Shape
from neural_network.prediction.network import Network
from neural_network.rigs import on_body

DATA = Path(__file__).parents[2] / "training_data" / "training_data.npz"


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    poses = pose_set.load(DATA)
    long = [c for c in range(len(poses.clip_names)) if poses.rows(c).stop - poses.rows(c).start > 60]
    path = tmp_path_factory.mktemp("clips") / "clips.npz"
    pose_set.save(path, pose_set.choose(poses, long[:2]))
    return path


def run(*words: object) -> int:
    return main(["motion", *(str(word) for word in words)])


def test_fill_keeps_keys_to_the_byte_and_says_what_it_made(clips, tmp_path, capsys):
    out = tmp_path / "out.npz"
    assert run("fill", clips, "--keys", "3,20,50", "-o", out) == 0
    made, given = read_archive(out, "clips"), read_archive(clips, "clips")
    kept = ~made["generated"]
    assert kept.sum() == len(kept) - 2 * 45
    for name in ("rot", "root_pos", "clip"):
        assert np.array_equal(made[name][kept], given[name][kept])
    assert made["contact"].shape == (len(kept), 2)
    assert (made["source_frame"][kept] == -1).all()
    assert "45 frames made" in capsys.readouterr().out
    first = out.read_bytes()
    assert run("fill", clips, "--keys", "3,20,50", "-o", out) == 0
    assert out.read_bytes() == first


def test_a_hand_holds_a_place_exactly_and_feet_stand_when_a_file_says_so(clips, tmp_path, capsys):
    poses, who = pose_set.load(clips), on_body.found(pose_set.load(clips).skeleton)
    hands = on_body.hands_of(who, poses.rot, poses.root_pos)
    places = hands + [0.0, -0.03, 0.05]
    holds = np.zeros((poses.frames, 2), bool)
    for clip in range(len(poses.clip_names)):
        holds[poses.rows(clip)][26:31, 0] = True
    path, out = tmp_path / "held.npz", tmp_path / "out.npz"
    np.savez(path, hands=holds, places=places)
    assert run("fill", clips, "--keys", "3,20,50", "--contacts", path, "-o", out) == 0
    made, given = pose_set.load(out), read_archive(clips, "clips")
    there = on_body.hands_of(who, made.rot, made.root_pos)
    assert np.abs(there - places)[holds].max() < 1e-4
    kept = ~read_archive(out, "clips")["generated"]
    assert np.array_equal(read_archive(out, "clips")["rot"][kept], given["rot"][kept])
    np.savez(path, hands=holds, places=places + 5.0, contact=np.zeros((poses.frames, 2), bool))
    assert run("fill", clips, "--keys", "3,20,50", "--contacts", path, "-o", out) == 0
    assert "left hand does not reach" in capsys.readouterr().err
    assert not read_archive(out, "clips")["contact"].any()
    np.savez(path, hands=holds[:-1])
    assert run("fill", clips, "--keys", "3,20,50", "--contacts", path, "-o", out) == 2
    assert "expected `hands`" in capsys.readouterr().err


def test_a_clip_of_weight_0_is_never_taken_and_other_names_and_numbers_are_refused(clips, tmp_path, capsys):
    out = tmp_path / "out.npz"
    poses = pose_set.load(clips)
    own = library.of_takes(on_body.found(poses.skeleton).body, library.takes_of(poses))

    def used(*words: str) -> set[str]:
        assert run("fill", clips, "--keys", "3,20", "--own", clips, "--only-own", *words, "-o", out) == 0
        source = read_archive(out, "clips")["source_frame"]
        return {own.names[clip] for clip in own.clip[source[source >= 0]]}

    first, second = poses.clip_names
    assert used() == {first, second}
    assert used("--clip-weights", f"{first}=0") == {second}
    capsys.readouterr()
    for words, said in (("nobody=1", "got nobody"), (f"{first}=0,{second}=0", "got none")):
        with pytest.raises(AssertionError):
            used("--clip-weights", words)
        assert said in capsys.readouterr().err
    for words in (f"{first}=2", first):
        with pytest.raises(SystemExit, match="2"):
            used("--clip-weights", words)


@pytest.mark.parametrize("scale", [0.02, 1.0, 20.0])
def test_a_character_of_any_size_is_filled_alike(clips, tmp_path, scale):
    poses, out = pose_set.load(clips), tmp_path / "out.npz"
    rig = poses.skeleton
    rest = rig.rest_arm.copy()
    rest[:, :3, 3] *= scale
    ends = ([rig.names[j] for j in bones] for bones in (rig.effectors, rig.feet))
    size = skeleton.make(rig.names, rig.parents, rest, *ends, t_pose=rig.t_pose)
    scaled = pose_set.make(
        size, poses.rot, poses.root_pos * scale, poses.clip, poses.clip_names, poses.clip_tasks, poses.clip_fps
    )
    pose_set.save(tmp_path / "scaled.npz", scaled)
    assert run("fill", tmp_path / "scaled.npz", "--keys", "3,20,50", "-o", out) == 0
    height = (pose_set.load(out).root_pos @ rig.axes.T)[:, 2] / scale
    was = (poses.root_pos @ rig.axes.T)[:, 2]
    assert np.ptp(height) < 1.5 * np.ptp(was) + 0.02


def test_feet_far_above_the_floor_stand_on_one_at_their_height(clips, tmp_path, capsys):
    poses, out = pose_set.load(clips), tmp_path / "out.npz"
    up = np.array([0, 0, 5.0]) @ poses.skeleton.axes
    pose_set.save(tmp_path / "high.npz", replace(poses, root_pos=(poses.root_pos + up).astype(np.float32)))
    assert run("fill", tmp_path / "high.npz", "--keys", "3,20,50", "-o", out) == 0
    assert "above the floor" in capsys.readouterr().err
    assert run("fill", clips, "--keys", "3,20,50", "-o", tmp_path / "low.npz") == 0
    low, high = pose_set.load(tmp_path / "low.npz").root_pos, pose_set.load(out).root_pos
    assert np.abs(high - up - low).max() < 0.03


def test_continue_keeps_what_was_and_adds_frames(clips, tmp_path):
    out = tmp_path / "out.npz"
    assert run("continue", clips, "--from", "30", "--frames", "20", "--goal", "2,-1", "-o", out) == 0
    made, given = read_archive(out, "clips"), read_archive(clips, "clips")
    assert np.bincount(made["clip"]).tolist() == [51, 51]
    assert made["generated"].sum() == 40
    assert np.array_equal(made["rot"][:31], given["rot"][given["clip"] == 0][:31])


def test_check_speaks_plainly_and_writes_its_curve(clips, tmp_path, capsys):
    path = tmp_path / "check.json"
    assert run("check", clips, "--json", path) == 0
    found = json.loads(path.read_text())
    assert len(found["continue_mm"]) == len(found["hold_mm"])
    assert found["words"][0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keys", "3"], "two or more"),
        (["--keys", "3,4"], "a frame between"),
        (["--keys", "3,9000"], "expected frames from 0 to"),
        (["--keys", "3,30", "--only-own"], "name them with --own"),
        (["--keys", "3,30", "--weights", "none.npz"], "no weights at"),
    ],
)
def test_bad_input_is_refused_in_words_and_nothing_is_written(clips, tmp_path, capsys, words, said):
    out = tmp_path / "out.npz"
    assert run("fill", clips, "-o", out, *words) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_eval_refuses_weights_that_have_seen_what_they_are_judged_on(tmp_path, capsys):
    shape = Shape(gaps.told_count(141), 141, 8, 1, 2, 8)
    tensors = {name: np.zeros((1, *size), np.float32) for name, size in inbetween.tensor_shapes(shape).items()}
    network.save(tmp_path / "motion.npz", Network(shape, tensors, {"takes": ["07_01", "35_01"]}))
    poses = pose_set.load(DATA)
    names = [f"35_{c:02d}" for c in range(len(poses.clip_names))]
    named = pose_set.make(
        poses.skeleton, poses.rot, poses.root_pos, poses.clip, names, poses.clip_tasks, poses.clip_fps
    )
    pose_set.save(tmp_path / "takes.npz", named)
    assert run("eval", "--data", tmp_path / "takes.npz", "--weights", tmp_path / "motion.npz") == 2
    assert "--leave-out 07,16,49" in capsys.readouterr().err
    assert run("eval", "--data", DATA) == 2
    assert "SUBJECT_TAKE" in capsys.readouterr().err


def test_eval_judges_a_split_on_what_the_library_has_not_seen(tmp_path, capsys):
    poses = pose_set.load(DATA)
    long = [c for c in range(len(poses.clip_names)) if poses.rows(c).stop - poses.rows(c).start > 30]
    poses = pose_set.choose(poses, long)
    names = [f"{'07' if c == 0 else '35'}_{c:02d}" for c in range(len(long))]
    named = pose_set.make(
        poses.skeleton, poses.rot, poses.root_pos, poses.clip, names, poses.clip_tasks, poses.clip_fps
    )
    pose_set.save(tmp_path / "takes.npz", named)
    path = tmp_path / "card.json"
    assert run("eval", "--data", tmp_path / "takes.npz", "--no-network", "--json", path) in (0, 1)
    figures = {f["name"]: f for f in json.loads(path.read_text())["figures"]}
    assert figures["W: fill 15 frames, keys the same to the byte"]["value"] == 1
    assert figures["W: fill 15 frames, L2P"]["rivals"].keys() >= {"slerp", "nearest window, ends blended"}
    capsys.readouterr()
