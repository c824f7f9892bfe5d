# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics on cases worked out by hand, and against the independent scorer of the project's data where that is at hand."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import REPO, make_poses, make_rig, random_turns

from neural_network.core import contacts, metrics, rotations
from neural_network.core import forward_kinematics as fk
from neural_network.motion import pose_set
from neural_network.motion.pose_set import PoseSet

TRUTH = np.array([[[0.0, 0, 1], [0, 0, 2]], [[0, 0, 1], [0, 0, 2]]])
"""(2, 2, 3) two frames of a root and one bone [m]."""


def points_of(*heights: float) -> np.ndarray:
    """(F, 1, 3, 3) one foot whose heel, ball and tip are at these heights [m]."""
    out = np.zeros((len(heights), 1, 3, 3))
    out[..., 2] = np.array(heights)[:, None, None]
    return out


# ---------------------------------------------------------------- distances


def test_mpjpe_is_the_mean_distance_and_not_the_root_of_a_mean_square() -> None:
    heads = TRUTH + [[[0.003, 0.004, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0.015]]]
    assert metrics.mpjpe(heads, TRUTH) == pytest.approx((5 + 0 + 0 + 15) / 4)


def test_local_mpjpe_is_blind_to_where_the_body_is_and_leaves_the_root_out() -> None:
    heads = TRUTH + [[[1.0, 0, 0], [1.0, 0, 0]], [[0, 0, 0], [0, 0.02, 0]]]
    assert metrics.mpjpe_local(heads, TRUTH) == pytest.approx((0 + 20) / 2)


def test_global_mpjpe_takes_each_clips_mean_horizontal_shift_out_and_no_other() -> None:
    shifted = TRUTH + [[[1.0, 2, 0]], [[1.02, 2, 0]]]  # 1.01 m aside on average: 10 mm to each side are left
    assert metrics.mpjpe_global(shifted, TRUTH) == pytest.approx(10)
    assert metrics.mpjpe_global(shifted, TRUTH, np.array([0, 1])) == pytest.approx(0, abs=1e-9)
    assert metrics.mpjpe_global(TRUTH + [0, 0, 0.1], TRUTH) == pytest.approx(100)


def test_l2p_looks_at_generated_frames_only() -> None:
    heads = TRUTH + [[[0, 0, 0.01]], [[0, 0, 0.03]]]
    assert metrics.l2p(heads, TRUTH) == pytest.approx(20)
    assert metrics.l2p(heads, TRUTH, np.array([False, True])) == pytest.approx(30)
    assert np.isnan(metrics.l2p(heads, TRUTH, np.array([False, False])))


def test_the_rotation_error_is_the_mean_angle_between() -> None:
    about = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    turns = rotations.matrix_from_axis_angle(about * np.radians([[10.0], [180], [0]]))
    assert metrics.rotation_error(turns, np.broadcast_to(np.eye(3), turns.shape)) == pytest.approx(190 / 3)
    assert metrics.rotation_error(turns, turns) == pytest.approx(0, abs=1e-9)


# ---------------------------------------------------------------- feet


def test_a_standing_foot_slides_as_far_as_its_slowest_point() -> None:
    points = points_of(0, 0, 0, 0)
    points[1:, 0, 0, 0] += 0.050  # the heel moves 50 mm
    points[1:, 0, 1, 1] += 0.004  # the ball 4
    points[1:, 0, 2, 0] += 0.007  # the tip 7
    points[2:, 0, :, :2] += 0.3  # while it swings
    points[..., 2] += np.array([0, 0.5, 0, 0])[:, None, None]  # up and down do not count
    stands = np.array([[True], [True], [False], [True]])
    assert metrics.slides(points, stands).tolist() == pytest.approx([4])
    assert metrics.slide(points, np.ones((4, 1), bool)) == pytest.approx((4 + 300 * np.sqrt(2) + 0) / 3)
    assert metrics.slide(points, np.ones((4, 1), bool), np.array([0, 0, 1, 1])) == pytest.approx((4 + 0) / 2)
    assert np.isnan(metrics.slide(points, np.zeros((4, 1), bool)))


def test_floating_is_the_height_of_the_lowest_point_of_standing_feet() -> None:
    points = points_of(0.01, 0.02, -0.03)
    points[1, 0, 0, 2] = 0.5
    stands = np.array([[True], [True], [True]])
    assert metrics.floating(points, stands).tolist() == pytest.approx([10, 20, 0])
    assert metrics.floating(points, stands, np.array([0, 0.015, -0.04])).tolist() == pytest.approx([10, 5, 10])
    assert metrics.floating(points, ~stands).tolist() == []


def test_penetration_is_the_depth_of_the_deepest_foot_whether_it_stands_or_not() -> None:
    points = np.concatenate([points_of(0.01, -0.02, 0.0), points_of(-0.005, -0.01, 0.3)], axis=1)
    assert metrics.penetration(points).tolist() == pytest.approx([5, 20, 0])
    assert metrics.penetration(points, 0.005).tolist() == pytest.approx([10, 25, 5])


# ---------------------------------------------------------------- jerk


def test_the_jerk_of_a_cubic_is_its_third_derivative() -> None:
    time = np.arange(12) / 30
    heads = np.zeros((12, 2, 3))
    heads[:, 0, 0] = 2 * time**3  # third derivative 12 m/s^3
    assert metrics.jerk(heads) == pytest.approx((12 + 0) / 2)
    assert metrics.jerk(np.column_stack([time**2] * 3)[:, None]) == pytest.approx(0, abs=1e-8)
    assert metrics.jerk(heads, fps=60) == pytest.approx(8 * 6)


def test_jerk_is_not_measured_across_a_cut() -> None:
    heads = np.zeros((10, 1, 3))
    heads[5:] += 100.0
    assert metrics.jerk(heads, clip=np.repeat([0, 1], 5)) == 0
    assert metrics.jerk(heads) > 1000
    assert np.isnan(metrics.jerk(heads[:3]))
    assert metrics.jerk(heads[:8], clip=np.repeat([0, 1], [5, 3])) == 0  # the second is too short to have any


# ---------------------------------------------------------------- against an independent scorer


@pytest.fixture(scope="module")
def scorer() -> ModuleType:
    """The scorer that comes beside the checkout and has forward kinematics of its own."""
    folder = REPO.parent / "shared" / "tools"
    if not (folder / "score_motion.py").exists():
        pytest.skip("no score_motion.py in ../shared/tools beside the checkout")
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("score_motion")
    finally:
        sys.path.remove(str(folder))


def arrays(poses: PoseSet) -> dict[str, Any]:
    rig = poses.skeleton
    found = {name: getattr(poses, name) for name in ("rot", "root_pos", "clip")}
    found |= {"bone_names": np.array(rig.names), "parents": rig.parents, "rest_arm": rig.rest_arm}
    found |= {"feet": np.array([rig.names[f] for f in rig.feet])}
    return found | ({} if poses.ground is None else {"ground": poses.ground})


def placed(poses: PoseSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orientations since the rest, heads and points of the feet."""
    turned, heads = fk.forward(poses.skeleton, poses.skeleton.to_core(poses.rot))
    heads = heads + poses.root_pos[:, None].astype(float)
    return turned, heads, contacts.foot_points(poses.skeleton, turned, heads)


def slowed(poses: PoseSet) -> PoseSet:
    """The same poses with the root held still and a floor for each clip, so that feet stand now and then."""
    still = replace(poses, root_pos=np.broadcast_to(poses.root_pos[:1], poses.root_pos.shape), rot=0.3 * poses.rot)
    _, heads, _ = placed(still)
    rig = poses.skeleton
    heights = contacts.foot_heights(heads[:, list(rig.feet)], heads[:, list(rig.toes)], rig.foot_rest)
    rows = map(poses.rows, range(len(poses.clip_names)))
    return replace(still, ground=np.array([contacts.ground_height(heights[r]) for r in rows]))


@pytest.mark.slow
@pytest.mark.parametrize("source", ["shipped", "made up"])
def test_metrics_and_truth_contacts_are_those_of_the_independent_scorer(
    source: str, scorer: ModuleType, rng: np.random.Generator
) -> None:
    if source == "shipped":
        clean = pose_set.load(REPO / "training_data" / "training_data.npz")
    else:
        clean = slowed(make_poses(make_rig("reference")))
    rot = clean.rot + 0.02 * random_turns(rng, *clean.rot.shape[:2]).astype(np.float32)
    made = replace(
        clean, rot=rot, root_pos=clean.root_pos + 0.01 * rng.normal(size=(clean.frames, 3)).astype(np.float32)
    )
    generated = rng.random(clean.frames) < 0.5
    expected = scorer.judge({**arrays(made), "generated": generated}, arrays(clean))

    turned, heads, points = placed(made)
    true_turned, true_heads, _ = placed(clean)
    rig, feet, toes = clean.skeleton, list(clean.skeleton.feet), list(clean.skeleton.toes)
    ground = np.zeros(len(clean.clip_names)) if clean.ground is None else clean.ground
    stands = np.concatenate(
        [
            contacts.truth_contacts(true_heads[rows][:, feet], true_heads[rows][:, toes], rig.foot_rest, ground[c])
            for c, rows in enumerate(map(clean.rows, range(len(clean.clip_names))))
        ]
    )
    assert stands.mean() == pytest.approx(expected["contact_share"], abs=1e-12)
    floor = ground[clean.clip]
    slides, depths = metrics.slides(points, stands, clean.clip), metrics.penetration(points, floor)
    found = {
        "slide_mm": metrics.slide(points, stands, clean.clip),
        "slide_p95_mm": np.percentile(slides, 95),
        "float_mm": metrics.floating(points, stands, floor).mean(),
        "penetration_mm": depths.mean(),
        "penetration_max_mm": depths.max(),
        "jerk": metrics.jerk(heads, 30, clean.clip),
        "jerk_ratio": metrics.jerk(heads, 30, clean.clip) / metrics.jerk(true_heads, 30, clean.clip),
        "mpjpe_mm": metrics.mpjpe(heads, true_heads),
        "mpjpe_local_mm": metrics.mpjpe_local(heads, true_heads),
        "mpjpe_global_mm": metrics.mpjpe_global(heads, true_heads, clean.clip),
        "l2p_mm": metrics.l2p(heads, true_heads, generated),
    }
    assert 0.1 < stands.mean() < 0.95
    for name, value in found.items():
        assert value == pytest.approx(expected[name], rel=1e-6), name
    # the scorer's angle comes from an arc cosine and is coarser
    assert metrics.rotation_error(turned, true_turned) == pytest.approx(expected["rotation_deg"], rel=1e-4)
