# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets of a drag beside its effectors: what they miss, their slopes, and what they do to the pose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_drag import ENDS, FEET, RIG, pose, standing

from neural_network.core import rotations
from neural_network.ik import hinges
from neural_network.ik.drag import Drag
from neural_network.ik.drag_conditions import Aims, DragSettings, skew_products
from neural_network.ik.extra_targets import ExtraTarget, missed, prepare

AT = {name: j for j, name in enumerate(RIG.names)}
WEIGHTS = np.array([1.0, 0, 1, 1, 0])
METRES = RIG.leg_length


def solved(extras: list[ExtraTarget], answers: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bone matrices at the start and after ``answers`` with the left hand and the feet held, and the errors (E)."""
    rot, root = standing()
    start = pose(rot, root)
    drag = Drag(RIG, rot, root)
    for _ in range(answers):
        rot, root, error = drag.solve(start[ENDS, :3, 3], WEIGHTS, extras=extras)
    return start, pose(rot, root), error


def test_a_chest_goes_to_its_place_while_hand_and_feet_stay() -> None:
    start = pose(*standing())
    chest, way = AT["Spine2"], np.array([0.08, -0.05, -0.06])
    before, after, error = solved([ExtraTarget("place", chest, start[chest, :3, 3] + way)])
    np.testing.assert_allclose(after[chest, :3, 3], before[chest, :3, 3] + way, atol=0.01)
    assert error.max() < 1e-3


def test_the_face_is_turned_to_what_it_looks_at() -> None:
    start = pose(*standing())
    head = AT["Head"]
    point = start[head, :3, 3] + [0.8, -1.0, -0.3]
    before, after, error = solved([ExtraTarget("aim", head, point)])

    def off(matrices: np.ndarray) -> float:
        turn = matrices[head, :3, :3] @ RIG.rest_arm[head, :3, :3].T
        to = point - matrices[head, :3, 3] - turn[:, 2] * 0.1
        return float(np.degrees(np.arccos(-turn[:, 1] @ to / np.linalg.norm(to))))

    assert off(before) > 30
    assert off(after) < 6
    assert error.max() < 1e-3


@pytest.mark.parametrize(("bone", "way"), [("LeftForeArm", [0.5, 0, 0]), ("LeftShin", [0.2, -0.6, 0])])
def test_a_joint_points_to_its_pole_while_the_end_of_the_limb_stays(bone: str, way: list[float]) -> None:
    rot, root = standing(knee=0.6)
    core = RIG.to_core(rot)
    core[AT["LeftForeArm"]] = [0, 0, -0.9]
    rot = RIG.from_core(core)
    start = pose(rot, root)
    joint = AT[bone]
    pole = ExtraTarget("pole", joint, start[joint, :3, 3] + way)
    drag = Drag(RIG, rot, root)
    angles = []
    for _ in range(30):
        out, there, error = drag.solve(start[ENDS, :3, 3], WEIGHTS, extras=[pole])
        heads = pose(out, there)[:, :3, 3] @ RIG.axes.T / METRES
        (extra,) = prepare([pole], RIG)
        angles.append(abs(float(missed(extra, np.zeros((0,)), heads)[0])))
    begun = abs(float(missed(extra, np.zeros((0,)), start[:, :3, 3] @ RIG.axes.T / METRES)[0]))
    assert angles[-1] < 0.3 * begun
    assert error.max() < 1e-3


def test_effectors_come_first() -> None:
    """A chest that is to be 2 m away moves neither hand nor feet."""
    start = pose(*standing())
    chest = AT["Spine2"]
    _, after, error = solved([ExtraTarget("place", chest, start[chest, :3, 3] + [0, -2.0, 0])], 15)
    assert error.max() < 1e-3
    np.testing.assert_allclose(after[list(RIG.feet), :3, 3], start[ENDS][list(FEET), :3, 3], atol=1e-3)


def test_a_target_of_no_weight_changes_nothing() -> None:
    chest = AT["Spine2"]
    with_it, without = (solved(e, 3)[1] for e in ([ExtraTarget("place", chest, np.ones(3), 0.0)], []))
    np.testing.assert_array_equal(with_it, without)


@pytest.mark.parametrize(
    ("kind", "bone"), [("place", "Spine2"), ("aim", "Head"), ("aim", "Spine2"), ("pole", "LeftForeArm")]
)
def test_slopes_agree_with_finite_differences_where_little_is_missed(
    kind: str, bone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hinges, "FLEXED", -np.inf)
    rng = np.random.default_rng(2)
    off: dict[str, Any] = dict.fromkeys(("limits", "floor", "apart", "balance", "upright", "tilted", "folded"))
    drag = Drag(RIG, rng.normal(0, 0.3, (RIG.count, 3)), RIG.rest_arm[0, :3, 3], settings=DragSettings(**off))
    change = rng.normal(0, 0.1, 3 * RIG.count + 3)
    there = drag._pose(change)
    (probe,) = prepare([ExtraTarget(kind, AT[bone], np.zeros(3))], RIG)
    if kind == "place":
        point = there.heads[probe.bone] + [0.01, 0, 0.02]
    elif kind == "aim":
        turn = there.orientations[probe.bone]
        point = there.heads[probe.bone] + turn[:, 2] * probe.eyes - 1.4 * turn[:, 1]
    else:
        top, end = there.heads[list(probe.ends)]
        line = (end - top) / np.linalg.norm(end - top)
        out = there.heads[probe.bone] - top
        point = top + out + 2 * (out - line * (line @ out))
    extras = prepare([ExtraTarget(kind, AT[bone], point * METRES @ RIG.axes, 0.7)], RIG)
    none = np.zeros(6)
    drag._conditions.begin(Aims(*drag._start, none, none, none > 0, none > 0, none > 0), drag._start, 0.0, extras)
    found = drag._conditions.measure(there)
    rows = drag._conditions.rows(there, there.heads, found)
    count = len(found.extras[0])
    slopes = skew_products(rows.arms[:count], rows.ways[:count], _carried(drag, there.orientations, change))
    way, step = rng.normal(0, 1, len(change)), 1e-6

    def at(sign: int) -> np.ndarray:
        moved = drag._pose(change + sign * step * way)
        return missed(extras[0], moved.orientations, moved.heads)

    np.testing.assert_allclose(slopes @ way, -(at(1) - at(-1)) / (2 * step), rtol=1e-3, atol=1e-4)
    far, more = drag._conditions.measure(drag._pose(np.zeros_like(change))), found
    assert far.cost != more.cost


def _carried(drag: Drag, orientations: np.ndarray, change: np.ndarray) -> np.ndarray:
    from neural_network.ik import drag as module

    return module._carried(orientations, change)


def test_what_is_missed_is_a_way_a_turn_or_an_arc() -> None:
    heads = RIG.rest_core[:, :3, 3] / METRES
    turns = np.tile(np.eye(3), (RIG.count, 1, 1))
    place, aim = prepare(
        [
            ExtraTarget("place", AT["Spine2"], (heads[AT["Spine2"]] + [0.1, 0, 0]) * METRES @ RIG.axes),
            ExtraTarget("aim", AT["Spine2"], (heads[AT["Spine2"]] + [1.0, 0, 0]) * METRES @ RIG.axes),
        ],
        RIG,
    )
    np.testing.assert_allclose(missed(place, turns, heads), [0.1, 0, 0], atol=1e-12)
    turn = missed(aim, turns, heads)
    np.testing.assert_allclose(rotations.matrix_from_axis_angle(turn) @ [0, -1, 0], [1, 0, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (ExtraTarget("throw", 3, np.zeros(3)), "expected one of place, aim, pole"),
        (ExtraTarget("place", 99, np.zeros(3)), "expected a bone from 0 to 22"),
        (ExtraTarget("place", 3, np.zeros(2)), "expected a point of 3 finite numbers"),
        (ExtraTarget("aim", 3, np.full(3, np.nan)), "expected a point of 3 finite numbers"),
        (ExtraTarget("aim", 3, np.zeros(3), 2.0), "expected a weight from 0 to 1"),
        (ExtraTarget("pole", 0, np.zeros(3)), "is no forearm or shin"),
    ],
)
def test_what_no_target_can_be_is_said(target: ExtraTarget, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        prepare([target], RIG)
