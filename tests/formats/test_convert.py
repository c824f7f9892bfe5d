# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion files as BVH: every joint stays where it was, and the filter is the one that cleaning has."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import REPO

from neural_network.core import forward_kinematics as fk
from neural_network.formats import asf_amc, bvh, convert
from neural_network.motion import cleaning, pose_set
from neural_network.motion.clip import global_pose, to_z_up

ODD = REPO / "tests" / "odd"
AMC = ODD / "mini_radians.amc"

WRITTEN = 1e-5
"""Six decimals of degrees and lengths, over a chain of four joints [file units]."""


def run(*words: str | Path) -> tuple[int, list[str]]:
    lines: list[str] = []
    parser = argparse.ArgumentParser()
    convert.add_parser(parser.add_subparsers(), lambda line, error=False: lines.append(line))
    args = parser.parse_args(["convert", *map(str, words)])
    return args.run(args), lines


def test_an_amc_becomes_a_bvh_with_every_joint_in_its_place(tmp_path: Path) -> None:
    code, lines = run(AMC, "--asf", ODD / "mini.asf", "-o", tmp_path / "out.bvh", "--source-fps", "60")
    found, wanted = bvh.read(tmp_path / "out.bvh"), asf_amc.read(ODD / "mini.asf", AMC, fps=60)
    assert code == 0
    assert lines[-1].endswith(f"out.bvh: {wanted.frames} frames, 60 frames per second")
    assert found.names == wanted.names
    assert found.fps == pytest.approx(60, abs=1e-6)
    np.testing.assert_allclose(global_pose(found)[1], global_pose(wanted)[1], rtol=0, atol=WRITTEN)
    np.testing.assert_allclose(global_pose(found)[0], global_pose(wanted)[0], rtol=0, atol=WRITTEN)


def test_a_converted_file_converts_to_itself(tmp_path: Path) -> None:
    convert.convert(AMC, tmp_path / "a.bvh", skeleton=ODD / "mini.asf")
    convert.convert(tmp_path / "a.bvh", tmp_path / "b.bvh")
    assert (tmp_path / "a.bvh").read_bytes() == (tmp_path / "b.bvh").read_bytes()


def test_what_is_low_passed_is_written_as_cleaning_has_it(tmp_path: Path) -> None:
    out = tmp_path / "out.bvh"
    convert.convert(AMC, out, skeleton=ODD / "mini.asf", low_pass=8)
    plain = asf_amc.read(ODD / "mini.asf", AMC)
    wanted = cleaning.low_pass(plain, 8)
    np.testing.assert_allclose(global_pose(bvh.read(out))[1], global_pose(wanted)[1], rtol=0, atol=WRITTEN)
    assert np.abs(global_pose(wanted)[1] - global_pose(plain)[1]).max() > 10 * WRITTEN


def test_a_clip_of_poses_becomes_a_bvh_in_metres_with_y_up(tmp_path: Path) -> None:
    data = REPO / "training_data" / "training_data.npz"
    poses = pose_set.load(data)
    name = poses.clip_names[2]
    rows = poses.rows(2)
    code, _ = run(data, "--clip", name, "-o", tmp_path / "out.bvh")
    assert code == 0
    heads = global_pose(bvh.read(tmp_path / "out.bvh"))[1] @ to_z_up("Y").T
    wanted = fk.armature_matrices(poses.skeleton, poses.rot[rows].astype(float), poses.root_pos[rows].astype(float))
    np.testing.assert_allclose(heads, wanted[..., :3, 3], rtol=0, atol=WRITTEN)
    with pytest.raises(ValueError, match=r"expected --clip with one of .* got nobody"):
        run(data, "--clip", "nobody", "-o", tmp_path / "other.bvh")
    assert not (tmp_path / "other.bvh").exists()


def test_bad_input_is_said_in_words_and_nothing_is_written(tmp_path: Path) -> None:
    amc = tmp_path / "walk.amc"
    shutil.copy(AMC, amc)
    with pytest.raises(ValueError, match="no skeleton file belongs to it"):
        run(amc, "-o", tmp_path / "out.bvh")
    shutil.copy(ODD / "mini.asf", tmp_path / "walk.asf")
    with pytest.raises(ValueError, match=r"half the frame rate \(60 Hz\), got 70"):
        run(amc, "-o", tmp_path / "out.bvh", "--low-pass", "70")
    with pytest.raises(ValueError, match=r"ends in \.bvh"):
        run(amc, "-o", tmp_path / "out.npz")
    with pytest.raises(ValueError, match="another file than for the motion"):
        run(amc, "-o", amc)
    bvh.write(tmp_path / "in.bvh", asf_amc.read(None, amc))
    with pytest.raises(ValueError, match=r"expected an \.amc file with the skeleton walk\.asf"):
        run(tmp_path / "in.bvh", "--asf", tmp_path / "walk.asf", "-o", tmp_path / "out.bvh")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.bvh", "walk.amc", "walk.asf"]
