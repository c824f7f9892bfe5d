# SPDX-License-Identifier: GPL-3.0-or-later
"""Drags: targets are met, held effectors stay, and the pose is one that a person could take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neural_network.core import rotations
from neural_network.core.forward_kinematics import armature_matrices
from neural_network.core.reference_rig import reference
from neural_network.core.skeleton import Skeleton, make
from neural_network.ik.body_shape import make_shape
from neural_network.ik.drag import Drag
from neural_network.ik.drag_conditions import DragSettings

RIG = reference()
ENDS = list(RIG.effectors)
LEFT_HAND, RIGHT_HAND, LEFT_FOOT, RIGHT_FOOT, HEAD = range(5)
FEET = (LEFT_FOOT, RIGHT_FOOT)


def standing(rig: Skeleton = RIG, knee: float = 0.16) -> tuple[np.ndarray, np.ndarray]:
    """A person who stands with arms down, elbows and knees a little bent, knees ``knee`` [rad] more than in the T-pose.

    Returns rot_local (J, 3) and the Hips' head (3).
    """
    core = np.zeros((rig.count, 3))
    at = {name: j for j, name in enumerate(rig.names)}
    for side, x in (("Left", 1.0), ("Right", -1.0)):
        core[at[side + "Arm"]] = [0, 1.25 * x, 0]
        core[at[side + "ForeArm"]] = [0, 0, -0.25 * x]
        core[at[side + "Thigh"]] = [-0.5 * knee, 0, 0]
        core[at[side + "Shin"]] = [knee, 0, 0]
        core[at[side + "Foot"]] = [-0.5 * knee, 0, 0]
    rot = rig.from_core(core)
    root = rig.rest_arm[0, :3, 3].copy()
    feet = armature_matrices(rig, rot[None], root[None])[0, list(rig.feet), 2, 3]
    root[2] -= feet.mean() - rig.rest_arm[list(rig.feet), 2, 3].mean()
    return rot, root


def pose(rot: np.ndarray, root: np.ndarray, rig: Skeleton = RIG) -> np.ndarray:
    """(J, 4, 4) bone matrices, armature space."""
    return np.asarray(armature_matrices(rig, rot[None], root[None])[0])


def dragged(
    ways: dict[int, list[list[float]]],
    held: tuple[int, ...] = FEET,
    frames: int = 30,
    knee: float = 0.16,
    **settings: Any,
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Bone matrices of each frame, errors (F, E) [m] and targets (F, E, 3) of a drag from standing.

    ``ways`` lead each dragged effector from where it is through offsets [m, armature].
    """
    rot, root = standing(knee=knee)
    start = pose(rot, root)[ENDS, :3, 3]
    drag = Drag(RIG, rot, root, settings=DragSettings(**settings))
    weights = np.zeros(5)
    weights[[*held, *ways]] = 1
    targets = np.repeat(start[None], frames, axis=0)
    for effector, offsets in ways.items():
        corners = np.vstack([np.zeros(3), offsets])
        place = np.linspace(0, len(offsets), frames)
        targets[:, effector] += np.stack([np.interp(place, range(len(corners)), c) for c in corners.T], axis=1)
    answers = [drag.solve(row, weights) for row in targets]
    return [pose(a, b) for a, b, _ in answers], np.stack([e for _, _, e in answers]), targets


def turned(a: np.ndarray, b: np.ndarray) -> float:
    """Largest angle [deg] between the orientations of (J, 4, 4) matrices."""
    return float(np.degrees(rotations.geodesic_angle(a[:, :3, :3], b[:, :3, :3])).max())


def test_targets_at_the_start_change_nothing() -> None:
    poses, error, _ = dragged({}, held=(LEFT_HAND, RIGHT_HAND, *FEET, HEAD), frames=2)
    rot, root = standing()
    assert error.max() < 1e-4
    assert turned(poses[-1], pose(rot, root)) < 1.0


def test_a_hand_is_followed_exactly_and_feet_stay_in_place_and_direction() -> None:
    poses, error, _ = dragged({LEFT_HAND: [[-0.2, -0.5, 0.4]]})
    assert error.max() < 1e-3
    feet = list(RIG.feet)
    for matrix in poses:
        assert np.linalg.norm(matrix[feet, :3, 3] - poses[0][feet, :3, 3], axis=1).max() < 1e-3
        assert turned(matrix[feet], poses[0][feet]) < 2


def test_hands_to_the_floor_make_the_hips_go_down() -> None:
    rot, root = standing()
    hands = pose(rot, root)[ENDS, :3, 3][:2]
    down = [[0, -0.4, 0.05 - z] for z in hands[:, 2]]
    poses, error, _ = dragged({LEFT_HAND: [down[0]], RIGHT_HAND: [down[1]]}, frames=45)
    assert error[-1].max() < 1e-3
    assert root[2] - poses[-1][0, 2, 3] > 0.12


@pytest.mark.slow
def test_without_the_bent_slopes_straight_legs_cannot_squat(monkeypatch: pytest.MonkeyPatch) -> None:
    from neural_network.ik import hinges as module

    lowered, straight = {HEAD: [[0, -0.02, -0.15]]}, -0.16
    poses, error, _ = dragged(lowered, knee=straight)
    monkeypatch.setattr(module, "FLEXED", -np.inf)
    without, _, _ = dragged(lowered, knee=straight)
    ahead = [m[0, 1, 3] - m[RIG.names.index("NeckLower"), 1, 3] for m in (poses[-1], without[-1])]
    assert error[-1].max() < 1e-3
    assert ahead[0] > ahead[1] + 0.02  # [m] the hips go back; without, the body leans back and the hips go ahead


def test_small_moves_lead_nearly_where_looking_at_all_conditions_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    from neural_network.ik import drag as module

    looks: list[int] = []
    look = Drag._look

    def counted(drag: Drag, *args: Any) -> Any:
        looks.append(1)
        return look(drag, *args)

    monkeypatch.setattr(Drag, "_look", counted)
    ends, count = [], []
    for way in (module.SMALL_WAY, 0.0):
        monkeypatch.setattr(module, "SMALL_WAY", way)
        looks.clear()
        poses, error, _ = dragged({RIGHT_HAND: [[0.05, -0.15, 0.1]]}, frames=100)
        assert error.max() < 1e-4
        count.append(len(looks))
        ends.append(poses[-1])
    assert count[0] < 0.3 * count[1]
    assert turned(*ends) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "bone"), [("folded", 0), ("tilted", None)])
def test_a_trunk_folds_and_tilts_less_where_that_is_asked(kind: str, bone: int | None) -> None:
    angles = []
    off = {"folded": None, "tilted": None}
    for settings in ({**off, kind: 0.003, f"most_{kind}": 0.3}, off):
        ways = {HEAD: [[0, -0.2, -0.55]], LEFT_HAND: [[0, -0.4, -0.1]], RIGHT_HAND: [[0, -0.4, -0.1]]}
        poses, error, _ = dragged(ways, frames=40, **settings)
        assert error[-1].max() < 1e-3
        turns = poses[-1][:, :3, :3] @ RIG.rest_arm[:, :3, :3].transpose(0, 2, 1)
        chest = turns[RIG.names.index("Spine2")]
        turn = chest @ turns[bone].T if bone is not None else chest
        angles.append(float(np.degrees(np.arccos(turn[2, 2]))))
    assert angles[0] < angles[1] - 5


@pytest.mark.slow
def test_a_target_out_of_reach_is_leaned_towards_while_feet_hold() -> None:
    poses, error, targets = dragged({RIGHT_HAND: [[0, -2.0, 0.3]]}, frames=40)
    feet = list(RIG.feet)
    assert np.linalg.norm(poses[-1][feet, :3, 3] - poses[0][feet, :3, 3], axis=1).max() < 1e-3
    assert error[-1, RIGHT_HAND] < np.linalg.norm(targets[-1, RIGHT_HAND] - targets[0, RIGHT_HAND]) - 0.7
    steps = [turned(a, b) for a, b in zip(poses[1:], poses, strict=False)]
    assert max(steps) < 25


@pytest.mark.slow
def test_the_body_stays_above_the_floor_only_where_that_is_asked() -> None:
    rot, root = standing()
    height = pose(rot, root)[ENDS[LEFT_HAND], 2, 3]
    way = {LEFT_HAND: [[0.0, -0.35, 0.04 - height]]}
    lowest = []
    for floor in (1e-4, None):
        poses, _, _ = dragged(way, frames=40, floor=floor)
        shape = make_shape(RIG)
        turns = poses[-1][:, :3, :3] @ RIG.rest_arm[:, :3, :3].transpose(0, 2, 1)
        points, _ = shape.places(turns, poses[-1][:, :3, 3] / RIG.leg_length)
        lowest.append((points[:, 2] - shape.point_clearance).min() * RIG.leg_length)
    assert lowest[0] > -0.01
    assert lowest[1] < -0.03


@pytest.mark.slow
def test_hands_stay_out_of_the_trunk_only_where_that_is_asked() -> None:
    deepest = []
    rot, root = standing()
    start = pose(rot, root)
    inside = start[RIG.names.index("Spine1"), :3, 3] + [0, -0.02, 0] - start[ENDS[LEFT_HAND], :3, 3]
    for apart in (1e-3, None):
        poses, _, _ = dragged({LEFT_HAND: [[0.0, -0.4, 0.2], inside.tolist()]}, frames=40, apart=apart, force=20.0)
        turns = poses[-1][:, :3, :3] @ RIG.rest_arm[:, :3, :3].transpose(0, 2, 1)
        _, parts = make_shape(RIG).places(turns, poses[-1][:, :3, 3] / RIG.leg_length)
        deepest.append(make_shape(RIG).gaps(parts).gap.min() * RIG.leg_length)
    assert deepest[0] > deepest[1] + 0.02


@pytest.mark.slow
def test_the_centre_of_mass_stays_over_the_feet_only_where_that_is_asked() -> None:
    outside = []
    for balance in (2.5e-4, None):
        poses, _, _ = dragged({RIGHT_HAND: [[0, -0.9, 0.3]]}, frames=30, balance=balance)
        turns = poses[-1][:, :3, :3] @ RIG.rest_arm[:, :3, :3].transpose(0, 2, 1)
        heads = poses[-1][:, :3, 3] / RIG.leg_length
        points, _ = make_shape(RIG).places(turns, heads)
        outside.append(make_shape(RIG).balance(points, heads, 0.0)[0] * RIG.leg_length)
    assert outside[0] < 0.06
    assert outside[1] > outside[0] + 0.03


@pytest.mark.slow
def test_other_proportions_and_axes_are_dragged_as_well() -> None:
    turn = np.eye(4)
    turn[:3, :3] = rotations.matrix_from_axis_angle(np.array([0, 0, np.pi / 2]))
    rest = turn @ RIG.rest_arm
    rest[:, :3, 3] *= 2.5
    rig = make(RIG.names, RIG.parents, rest, [RIG.names[e] for e in RIG.effectors], [RIG.names[f] for f in RIG.feet])
    rot, root = standing(rig)
    start = pose(rot, root, rig)[list(rig.effectors), :3, 3]
    drag = Drag(rig, rot, root)
    for share in np.linspace(0, 1, 20):
        _, _, missed = drag.solve(start + share * np.array([[0.9, 0.2, 0.5], *np.zeros((4, 3))]), [1, 0, 1, 1, 0])
    assert missed.max() < 2.5e-3


def test_a_rig_without_data_limits_or_feet_is_dragged_by_its_joints_alone() -> None:
    names, heads = ["Root", "A", "B", "C"], np.array([[0, 0, 0.5], [0, 0, 0.6], [0, 0.1, 1.0], [0, 0, 1.4]])
    rest = np.tile(np.eye(4), (4, 1, 1))
    rest[:, :3, 3] = heads
    rig = make(names, np.array([-1, 0, 1, 2]), rest, ["C"], [])
    drag = Drag(replace(rig, limits=None), np.zeros((4, 3)), heads[0])
    for share in np.linspace(0, 1, 10):
        _, _, missed = drag.solve(heads[3:] + share * np.array([[0.3, 0.2, -0.2]]))
    assert missed.max() < 1e-3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rot_local": np.zeros((22, 3))}, "rot_local: expected finite numbers of shape"),
        ({"root_pos": np.full(3, np.nan)}, "root_pos: expected finite numbers"),
        ({"positions": np.zeros((4, 3))}, "positions: expected finite numbers of shape"),
        ({"positions": np.full((5, 3), np.inf)}, "positions: expected finite numbers"),
        ({"weights": np.ones(3)}, "weights: expected"),
    ],
)
def test_bad_arguments_say_what_was_expected(change: dict[str, np.ndarray], words: str) -> None:
    rot, root = standing()
    given: dict[str, Any] = {
        "rot_local": rot,
        "root_pos": root,
        "positions": np.zeros((5, 3)),
        "weights": None,
    } | change
    with pytest.raises(ValueError, match=words):
        Drag(RIG, given["rot_local"], given["root_pos"]).solve(given["positions"], given["weights"])
