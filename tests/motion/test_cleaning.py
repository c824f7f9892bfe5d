# SPDX-License-Identifier: GPL-3.0-or-later
"""Cleaning: what was put into a clip is found and counted, sound motion is left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import EXACT, ROUND_TRIP, mocap_clip

from neural_network.core import forward_kinematics, rotations
from neural_network.core.skeleton import mirrored_bones
from neural_network.formats import bvh, importing
from neural_network.motion import cleaning
from neural_network.motion.clip import Clip, body_height, global_pose

ODD = Path(__file__).resolve().parents[1] / "odd"


@pytest.fixture(scope="module")
def walk() -> Clip:
    """Three seconds at 60 frames a second of the odd files' figure, swinging arms and legs and going forward."""
    still = bvh.read(ODD / "13_crlf_tabs_trailing_blanks.bvh")
    seconds = np.arange(180) / 60
    rot = np.zeros((180, len(still.names), 3))
    swing = 0.6 * np.sin(2 * np.pi * seconds)
    for name, sign in (("LLeg", 1), ("RLeg", -1), ("LShin", 0.5), ("RShin", 0.5)):
        rot[:, still.names.index(name), 0] = sign * swing
    for name, sign in (("LArm", -1), ("RArm", 1)):
        rot[:, still.names.index(name), 2] = sign * (1.2 + 0.3 * swing)
    root_pos = np.stack([3 * swing, 89 + np.cos(4 * np.pi * seconds), 120 * seconds], axis=-1)
    return replace(still, rotations=rotations.quaternion_from_axis_angle(rot), root_pos=root_pos, fps=60.0, warnings=())


def with_frames(clip: Clip, order: np.ndarray) -> Clip:
    return replace(clip, rotations=clip.rotations[order], root_pos=clip.root_pos[order])


def same(a: Clip, b: Clip) -> bool:
    return np.array_equal(a.rotations, b.rotations) and np.array_equal(a.root_pos, b.root_pos)


def test_sound_motion_is_left_alone(walk: Clip) -> None:
    parts, found = cleaning.clean(walk)
    assert len(parts) == 1
    assert same(parts[0], walk)
    assert (found.t_poses, found.teleports, found.glitches, found.frozen, found.left_out) == (0, 0, 0, 0, 0)
    assert found.frames == 180
    assert found.seconds == pytest.approx(179 / 60)
    assert found.height == pytest.approx(1.4)
    assert found.speed == pytest.approx(1.2, rel=0.05)
    assert found.doubts == ()


@pytest.mark.slow
def test_motion_capture_keeps_every_real_frame(mocap: Path) -> None:
    clip = mocap_clip(mocap / "bvh" / "cmu_mb" / "02_01.bvh")
    parts, found = cleaning.clean(clip)
    assert found.t_poses == 1
    assert same(parts[0], cleaning.cut(clip, 1, clip.frames))
    for name in ("fair1_zup/dab", "kaykit_cc0/kaykit_Throw", "kaykit_cc0/kaykit_Jump_Full_Long", "cmu_max/131_01"):
        clip = mocap_clip(mocap / "bvh" / f"{name}.bvh")
        parts, found = cleaning.clean(clip)
        assert found.left_out == found.teleports == found.glitches == 0
        assert same(parts[0], clip)


@pytest.mark.slow
def test_every_inserted_t_pose_of_the_cmu_files_is_found(mocap: Path) -> None:
    for path in sorted((mocap / "bvh" / "cmu_mb").glob("*.bvh"))[::4]:
        assert 1 <= cleaning.clean(mocap_clip(path))[1].t_poses <= 3, path.name
    assert cleaning.clean(mocap_clip(mocap / "bvh" / "cmu_mb" / "07_12.bvh"))[1].t_poses == 2
    assert cleaning.clean(mocap_clip(mocap / "bvh" / "cmu_daz" / "135_04.bvh"))[1].t_poses == 8


@pytest.mark.slow
def test_the_blend_out_of_a_t_pose_is_found_whole_also_before_a_run(mocap: Path) -> None:
    files = sorted((mocap / "bvh" / "cmu_daz").glob("*.bvh"))  # all blend over 8 frames, 16_36 into a run
    assert [cleaning.clean(bvh.read(path))[1].t_poses for path in files] == [8] * len(files)


def test_a_t_pose_and_a_glitch_frame_at_the_start_are_left_out() -> None:
    parts, found = cleaning.clean(bvh.read(ODD / "39_tpose_then_zero_glitch_frame.bvh"))
    assert found.t_poses == 2
    assert [part.frames for part in parts] == [5]


@pytest.mark.parametrize("held", [1, 5, 20])
def test_an_inserted_t_pose_is_left_out_at_either_end(walk: Clip, held: int) -> None:
    rest = np.zeros((held, len(walk.names), 4))
    rest[..., 0] = 1
    for front in (True, False):
        stacks = [rest, walk.rotations] if front else [walk.rotations, rest]
        roots = [walk.root_pos[:1].repeat(held, 0), walk.root_pos]
        roots = roots if front else [walk.root_pos, walk.root_pos[-1:].repeat(held, 0)]
        made = replace(walk, rotations=np.concatenate(stacks), root_pos=np.concatenate(roots))
        parts, found = cleaning.clean(made)
        assert found.t_poses == held
        assert len(parts) == 1
        assert same(parts[0], walk)


def test_a_glitch_of_a_few_frames_is_blended_over(walk: Clip) -> None:
    root_pos = walk.root_pos.copy()
    root_pos[70:73] = 0
    parts, found = cleaning.clean(replace(walk, root_pos=root_pos))
    assert (found.teleports, found.glitches) == (2, 3)
    assert len(parts) == 1
    assert parts[0].frames == 180
    assert np.abs(parts[0].root_pos - walk.root_pos).max() < 1
    assert np.array_equal(parts[0].root_pos[:70], walk.root_pos[:70])


def test_a_clip_is_cut_where_the_body_jumps_for_good(walk: Clip) -> None:
    root_pos = walk.root_pos + np.where(np.arange(180)[:, None] >= 100, [0.0, 0, 500.0], 0.0)
    parts, found = cleaning.clean(replace(walk, root_pos=root_pos, name="take"))
    assert found.teleports == 1
    assert [part.frames for part in parts] == [100, 80]
    assert [part.name for part in parts] == ["take.1", "take.2"]
    assert found.frames == 180


def test_a_frozen_start_and_end_are_left_out_but_for_one_frame(walk: Clip) -> None:
    order = np.concatenate([np.zeros(30, int), np.arange(180), np.full(12, 179)])
    parts, found = cleaning.clean(with_frames(walk, order))
    assert found.frozen == 42
    assert same(parts[0], walk)


def test_two_or_three_equal_frames_are_no_freeze(walk: Clip) -> None:
    parts, found = cleaning.clean(with_frames(walk, np.concatenate([[0, 0], np.arange(180)])))
    assert found.frozen == 0
    assert parts[0].frames == 182


def test_a_clip_in_which_nothing_moves_is_said_to_be_one(walk: Clip) -> None:
    parts, found = cleaning.clean(with_frames(walk, np.zeros(50, int)))
    assert sum(part.frames for part in parts) >= 1
    assert any("nothing moves" in doubt for doubt in found.doubts)


def test_missing_values_are_counted_and_a_long_gap_cuts_the_clip(walk: Clip) -> None:
    parts, found = cleaning.clean(replace(walk, repaired=(3, 4, 90)))
    assert found.repaired == 3
    assert [part.frames for part in parts] == [180]
    parts, found = cleaning.clean(replace(walk, repaired=tuple(range(60, 100))))
    assert found.repaired == 40
    assert [part.frames for part in parts] == [60, 80]


def test_a_rate_that_makes_people_fly_is_doubted(walk: Clip) -> None:
    assert any("rate" in doubt for doubt in cleaning.clean(replace(walk, fps=900.0))[1].doubts)


def test_a_jump_does_not_depend_on_unit_or_rate(walk: Clip) -> None:
    root_pos = walk.root_pos + np.where(np.arange(180)[:, None] >= 100, [0.0, 0, 500.0], 0.0)
    made = replace(walk, root_pos=root_pos)
    for scale in (0.01, 10.0):
        tips = {i: tip * scale for i, tip in made.tips.items()}
        scaled = replace(made, root_pos=root_pos * scale, offsets=made.offsets * scale, tips=tips, unit=0.01 / scale)
        assert cleaning.clean(scaled)[1].teleports == 1
    assert cleaning.clean(cleaning.resample(made, 30))[1].teleports == 1


@pytest.mark.parametrize("frames", [0, 1, 2, 3, 4])
def test_very_short_clips_come_through(walk: Clip, frames: int) -> None:
    parts, found = cleaning.clean(cleaning.cut(walk, 0, frames))
    assert sum(part.frames for part in parts) == frames == found.frames


# ---------------------------------------------------------------- resampling


def test_a_rate_that_divides_picks_frames(walk: Clip) -> None:
    slower = cleaning.resample(walk, 20)
    assert same(slower, with_frames(walk, np.arange(0, 180, 3)))
    assert slower.fps == 20


def test_other_rates_blend_along_the_shortest_arc(walk: Clip) -> None:
    faster = cleaning.resample(walk, 90)
    assert faster.frames == int(179 / 60 * 90) + 1
    joint = walk.names.index("LLeg")
    angle = 2 * np.arctan2(faster.rotations[:, joint, 1], faster.rotations[:, joint, 0])
    assert np.abs(angle - 0.6 * np.sin(2 * np.pi * np.arange(faster.frames) / 90)).max() < 2e-3
    flipped = replace(walk, rotations=walk.rotations * np.where(np.arange(180) % 2, -1, 1)[:, None, None])
    again = cleaning.resample(flipped, 90).rotations
    assert np.abs(np.abs(np.sum(again * faster.rotations, axis=-1)) - 1).max() < EXACT


def test_a_clip_is_not_resampled_to_fill_the_memory(walk: Clip) -> None:
    slow = replace(walk, fps=1e-4)
    with pytest.raises(
        ValueError, match=r"from 0.0001 to 1000 frames a second: .* frames would become .*check the frame rates"
    ):
        cleaning.resample(slow, 1000)


@pytest.mark.parametrize("fps", [0, -1, np.nan, np.inf])
def test_a_rate_that_is_none_is_refused(walk: Clip, fps: float) -> None:
    with pytest.raises(ValueError, match="frame rate"):
        cleaning.resample(walk, fps)


# ---------------------------------------------------------------- low-pass


def test_the_low_pass_is_3_db_down_at_its_cutoff_and_keeps_the_phase() -> None:
    time = np.arange(2400) / 240
    for frequency, gain in ((1.0, 1.0), (8.0, np.sqrt(0.5)), (40.0, 0.0)):
        passed = cleaning.butterworth(np.sin(2 * np.pi * frequency * time), 240, 8.0)[600:1800]
        wave = np.exp(-2j * np.pi * frequency * time[600:1800])
        response = 2 * np.mean(passed * wave) * 1j
        assert abs(response) == pytest.approx(gain, abs=0.01)
        if gain:
            assert abs(np.angle(response)) < 1e-3


def test_the_low_pass_keeps_constants_and_straight_lines() -> None:
    line = np.stack([np.full(100, 3.0), np.arange(100) * 0.5], axis=-1)
    assert np.abs(cleaning.butterworth(line, 60, 6) - line).max() < ROUND_TRIP


def test_the_low_pass_agrees_with_scipy(rng: np.random.Generator) -> None:
    signal = pytest.importorskip("scipy.signal", reason="SciPy is no part of the project, only compared with")
    values = np.cumsum(rng.normal(size=(500, 3)), axis=0)
    cutoff = 8 / (np.sqrt(2) - 1) ** 0.25
    b, a = signal.butter(2, cutoff, fs=120)
    wanted = signal.filtfilt(b, a, values, axis=0, padtype="odd", padlen=75)
    assert np.abs(cleaning.butterworth(values, 120, 8) - wanted).max() < ROUND_TRIP * np.abs(values).max()


@pytest.mark.parametrize("cutoff", [0, -1, 60, 100, np.nan])
def test_a_cutoff_beyond_half_the_rate_is_refused(cutoff: float) -> None:
    with pytest.raises(ValueError, match="cutoff"):
        cleaning.butterworth(np.zeros(50), 120, cutoff)


def test_a_low_passed_clip_has_unit_quaternions_and_less_noise(walk: Clip, rng: np.random.Generator) -> None:
    noisy = rotations.quaternion_multiply(
        walk.rotations, rotations.quaternion_from_axis_angle(0.02 * rng.normal(size=(*walk.rotations.shape[:2], 3)))
    )
    passed = cleaning.low_pass(replace(walk, rotations=noisy), 6)
    assert np.abs(np.linalg.norm(passed.rotations, axis=-1) - 1).max() < EXACT
    error = [
        np.abs(global_pose(replace(walk, rotations=q))[1] - global_pose(walk)[1]).mean()
        for q in (noisy, passed.rotations)
    ]
    assert error[1] < 0.6 * error[0]


# ---------------------------------------------------------------- mirrored copies


def test_a_mirrored_copy_is_the_motion_in_a_mirror(walk: Clip) -> None:
    poses = importing.clip_to_poses(walk)
    rig = poses.skeleton
    partners = mirrored_bones(rig)
    left, right = rig.names.index("LHand"), rig.names.index("RHand")
    assert partners[left] == right
    both = cleaning.with_mirrored(poses, partners)
    assert both.clip_names == (walk.name, f"{walk.name} mirrored")
    heads = forward_kinematics.armature_matrices(rig, both.rot, both.root_pos)[:, :, :3, 3]
    seen, mirrored = heads[: walk.frames], heads[walk.frames :]
    assert np.abs(mirrored - seen[:, partners] * [-1, 1, 1]).max() < 1e-5 * body_height(walk)
    again, _ = cleaning.mirror(rig, *cleaning.mirror(rig, poses.rot, poses.root_pos, partners), partners)
    assert np.abs(again - poses.rot).max() < 1e-6
