# SPDX-License-Identifier: GPL-3.0-or-later
"""The solver: one pose and many agree, errors are true, sizes and places do not matter, and nonsense is refused in words."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPO, RIGS, make_poses, make_rig, random_turns, run_cli, slow_except

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations, skeleton
from neural_network.core.skeleton import Skeleton
from neural_network.ik import batches, context, network, novelty, single_kinematics, solver, task
from neural_network.ik.context import LAYOUTS
from neural_network.ik.losses import limit_excess
from neural_network.ik.settings import Training
from neural_network.ik.solver import Goals, Solution, Solver
from neural_network.motion import splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST

ALIKE = 2e-4
"""[rad] one pose against many: the same steps in float32, in another order."""


@cache
def trained(name: str = "reference", layout: str = "reference") -> tuple[Solver, PoseSet]:
    """A solver after a few epochs on made-up motion: a pose that is somewhere near, which is what steps start from."""
    poses = make_poses(make_rig(name), frames=30)
    samples, parts = context.prepare(poses), splits.split(poses)
    drop = 0.5 if LAYOUTS[layout].mask else 0.0
    config = Training(hidden=(24,), epochs=6, batch_size=32, augment=4, lr=0.01, layout=layout, drop_effectors=drop)
    net = task.fit(poses.skeleton, samples, parts, config)
    return Solver(novelty.with_centres(net, poses, samples, parts)), poses


def goals_of(poses: PoseSet, rows: Any) -> Goals:
    """What the effectors and the Hips of these frames do, as a caller would say it: from armature matrices alone."""
    rig, ends = poses.skeleton, list(poses.skeleton.effectors)
    matrices = fk.armature_matrices(rig, poses.rot[rows], poses.root_pos[rows])
    turned = matrices[..., ends, :, :][..., :3, :3] @ rig.rest_arm[ends, :3, :3].transpose(0, 2, 1)
    return Goals(
        matrices[..., ends, :, :][..., :3, 3],
        matrices[..., 0, :3, 3],
        poses.rot[rows][..., 0, :].astype(np.float64),
        rotations.axis_angle_from_matrix(turned),
    )


def one(goals: Goals, index: int) -> Goals:
    """One row of goals for many poses."""
    cut = {n: v[index] if isinstance(v, np.ndarray) else v for n, v in vars(goals).items()}
    return Goals(**cut)


def angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[rad] between quaternions (..., 4)."""
    return rotations.geodesic_angle(rotations.matrix_from_quaternion(a), rotations.matrix_from_quaternion(b))


def ends_of(rig: Skeleton, found: Solution) -> np.ndarray:
    """(..., E, 3) [m] where the pose really puts the effectors."""
    return fk.armature_matrices(rig, found.rotations, found.root_pos)[..., list(rig.effectors), :, :][..., :3, 3]


def modes(effectors: int, feet: int, count: int) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """What may be asked for: changes of the goals, and words of the call."""
    some = np.ones(effectors)
    some[-1] = 0
    partly, turns = np.linspace(0.25, 1, effectors), np.linspace(1, 0, effectors)
    normals = np.zeros((effectors, 3))
    normals[0] = [0, 0.6, 0.8]
    wide = lambda row: np.tile(row, (count, *[1] * np.ndim(row)))  # noqa: E731
    return {
        "all": ({}, {}),
        "no steps": ({}, {"steps": 0}),
        "one free": ({"weights": wide(some)}, {}) if effectors > 1 else ({}, {}),
        "partly": ({"weights": wide(partly), "orientation_weights": wide(turns)}, {}),
        "positions": ({"rotations": None}, {}),
        "positions, one free": ({"rotations": None, "weights": wide(some)}, {}) if effectors > 1 else ({}, {}),
        "loose orientations": ({"orientation_weights": wide(0 * turns)}, {}),
        "limits": ({}, {"limits": True}),
        "free root": ({}, {"free_root": True}),
        "planes": ({"normals": wide(normals)}, {}),
        "context": ({"phase": 0.3, "task": "dance", "ground": -0.2, "grounded": wide(np.ones(feet))}, {}),
    }


@pytest.mark.parametrize("layout", slow_except(LAYOUTS, "hips"))
@pytest.mark.parametrize("name", slow_except(RIGS, "turned"))
def test_one_pose_is_solved_as_many_are(name: str, layout: str) -> None:
    single, poses = trained(name, layout)
    rig = single.skeleton
    rows = np.arange(0, poses.frames, 17)
    for mode, (change, words) in modes(len(rig.effectors), len(rig.feet), len(rows)).items():
        goals = replace(goals_of(poses, rows), **change)
        many = single.solve_batch(goals, **words)
        assert many.quaternions.shape == (len(rows), rig.count, 4)
        # what is reported is true, but for what a plane leaves free and for what is not asked for
        if mode != "planes":
            true = np.linalg.norm(ends_of(rig, many) - goals.positions, axis=-1)
            asked = np.ones_like(true) if goals.weights is None else goals.weights > 0
            np.testing.assert_allclose(many.error, true * asked, atol=1e-5 * rig.leg_length, err_msg=mode)
        np.testing.assert_array_equal(many.reached, many.error < 1e-3)
        for i in range(len(rows)):
            alone = single.solve(one(goals, i), **words)
            assert angles(alone.quaternions, many.quaternions[i]).max() < ALIKE, mode
            np.testing.assert_allclose(alone.error, many.error[i], atol=ALIKE, err_msg=mode)
            np.testing.assert_allclose(alone.root_pos, many.root_pos[i], atol=ALIKE, err_msg=mode)
            assert alone.quaternions.shape == (rig.count, 4)
            assert alone.error.shape == alone.reached.shape == (len(rig.effectors),)


@pytest.mark.parametrize("name", slow_except(RIGS, "turned"))
def test_without_steps_it_is_the_network_that_was_trained(name: str) -> None:
    """The inputs that a solve fills in are those of training, and so is the pose that comes out."""
    found, poses = trained(name)
    rig = found.skeleton
    samples = context.prepare(poses)
    rows = np.arange(0, poses.frames, 7)
    _, _, targets = batches.true_batch(rig, samples, rows)
    rot, _ = batches.predict(found.net, targets)
    goals = replace(
        goals_of(poses, rows),
        phase=samples.phase[rows],
        task=samples.task[rows],
        grounded=samples.grounded[rows],
        desired=samples.desired[rows],
        ground=samples.ground[rows],
    )
    for answer in (found.solve_batch(goals, steps=0).rotations,):
        core = rig.to_core(answer)
        expected = rotations.matrix_from_axis_angle(rot.transpose(2, 1, 0)[:, 1:].astype(np.float64))
        apart = rotations.geodesic_angle(rotations.matrix_from_axis_angle(core[:, 1:]), expected)
        assert apart.max() < ALIKE


@pytest.mark.parametrize("name", slow_except(RIGS, "turned"))
def test_motion_it_knows_is_met_after_a_few_steps(name: str) -> None:
    found, poses = trained(name)
    rows = np.arange(0, poses.frames, 3)
    goals = goals_of(poses, rows)
    errors = [found.solve_batch(goals, steps=s).error.mean() / found.skeleton.leg_length for s in (0, 3, 10)]
    assert errors[2] < errors[1] < errors[0]
    reached = found.solve_batch(goals, steps=20)
    assert np.median(reached.error) < 1e-5 * found.skeleton.leg_length
    assert reached.reached.mean() > 0.9


def test_the_hips_given_are_the_hips_returned() -> None:
    found, poses = trained("turned")
    goals = goals_of(poses, np.arange(5))
    quaternions = rotations.quaternion_from_axis_angle(goals.root_rot)
    many, alone = found.solve_batch(goals), found.solve(one(goals, 0))
    np.testing.assert_allclose(angles(many.quaternions[:, 0], quaternions), 0, atol=1e-6)
    np.testing.assert_allclose(angles(alone.quaternions[0], quaternions[0]), 0, atol=1e-6)
    np.testing.assert_array_equal(many.root_pos, goals.root_pos)
    np.testing.assert_array_equal(alone.root_pos, goals.root_pos[0])


@pytest.mark.slow
def test_quaternions_are_unit_and_of_one_sign() -> None:
    found, poses = trained()
    goals = goals_of(poses, np.arange(20))
    for quaternions in (found.solve_batch(goals).quaternions, found.solve(one(goals, 3)).quaternions):
        np.testing.assert_allclose(np.linalg.norm(quaternions, axis=-1), 1, atol=1e-6)
        assert np.all(quaternions[..., 0] >= 0)


def test_ten_lines_from_the_readme(tmp_path: Path) -> None:
    network.save(tmp_path / "best.npy", trained()[0].net)

    solver = Solver.load(tmp_path / "best.npy")
    hand = solver.effectors.index("LeftHand")
    rest = solver.skeleton.rest_arm
    positions = rest[list(solver.skeleton.effectors), :3, 3]
    positions[hand] = [0.3, -0.4, 1.2]  # in front of the chest, metres, armature space
    goals = Goals(positions, root_pos=rest[0, :3, 3], root_rot=np.zeros(3))
    found = solver.solve(goals, steps=10)
    assert found.reached.all(), found.error
    assert found.quaternions.shape == (23, 4)  # each bone's rotation, as pose bones hold it


# ---------------------------------------------------------------- what must not matter


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_huge_and_tiny_rigs_are_solved_as_any(factor: float) -> None:
    found, poses = trained()
    rig = found.skeleton
    rest = rig.rest_arm.copy()
    rest[:, :3, 3] *= factor
    names = ([rig.names[e] for e in rig.effectors], [rig.names[f] for f in rig.feet])
    other = Solver(found.net, skeleton.make(rig.names, rig.parents, rest, *names, t_pose=rig.t_pose, limits=rig.limits))
    goals = goals_of(poses, np.arange(0, 120, 9))
    scaled = replace(goals, positions=goals.positions * factor, root_pos=goals.root_pos * factor)
    many, expected = other.solve_batch(scaled), found.solve_batch(goals)
    assert angles(many.quaternions, expected.quaternions).max() < ALIKE
    np.testing.assert_allclose(many.error / factor, expected.error, atol=ALIKE)
    assert angles(other.solve(one(scaled, 2)).quaternions, expected.quaternions[2]).max() < ALIKE


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reference", "turned"])
def test_where_the_body_stands_and_faces_changes_no_bone_but_the_hips(name: str) -> None:
    found, poses = trained(name)
    rig = found.skeleton
    goals = goals_of(poses, np.arange(0, 120, 9))
    yaw = rig.axes.T @ rotations.matrix_from_axis_angle(np.array([0, 0, 2.0])) @ rig.axes
    move = rig.axes.T @ [30.0, -20, 0]
    rest = rig.rest_arm[0, :3, :3]
    hips = rest.T @ yaw @ rest @ rotations.matrix_from_axis_angle(goals.root_rot)
    moved = replace(
        goals,
        positions=goals.positions @ yaw.T + move,
        root_pos=goals.root_pos @ yaw.T + move,
        root_rot=rotations.axis_angle_from_matrix(hips),
        rotations=rotations.axis_angle_from_matrix(yaw @ rotations.matrix_from_axis_angle(goals.rotations)),
    )
    here, there = found.solve_batch(goals), found.solve_batch(moved)
    assert angles(here.quaternions[:, 1:], there.quaternions[:, 1:]).max() < 5 * ALIKE
    alone = found.solve(one(moved, 1))
    assert angles(alone.quaternions[1:], here.quaternions[1, 1:]).max() < 5 * ALIKE


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["reference", "free"])
def test_random_targets_never_give_nan(layout: str, rng: np.random.Generator) -> None:
    found, _ = trained("reference", layout)
    count = 300
    positions = rng.normal(size=(count, 5, 3)) * 10 ** rng.uniform(-2, 3, (count, 1, 1))
    positions[:20] = positions[:20, :1]  # all targets in one point
    positions[20:30] = 0
    goals = Goals(positions, rng.normal(size=(count, 3)), random_turns(rng, count), random_turns(rng, count, 5))
    for words in ({}, {"limits": True}, {"free_root": True}, {"steps": 30}):
        many = found.solve_batch(goals, **words)
        for array in (many.quaternions, many.root_pos, many.error):
            assert np.isfinite(array).all()
    for i in range(0, count, 5):
        alone = found.solve(one(goals, i))
        assert np.isfinite(alone.quaternions).all()
        assert np.isfinite(alone.error).all()


def test_steps_never_make_it_worse(rng: np.random.Generator) -> None:
    """Wherever the targets are: the sum of squared distances of positions alone only falls."""
    found, _ = trained()
    count = 300
    positions = rng.normal(size=(count, 5, 3)) * 10 ** rng.uniform(-1, 1, (count, 1, 1))
    goals = Goals(positions, rng.normal(size=(count, 3)), random_turns(rng, count))
    squares = [np.sum(found.solve_batch(goals, steps=s).error ** 2, axis=1) for s in (0, 1, 3, 10)]
    for before, after in pairwise(squares):
        assert np.all(after <= before * (1 + 1e-4) + 1e-8)


def test_targets_out_of_reach_say_so() -> None:
    found, poses = trained()
    goals = one(goals_of(poses, np.arange(3)), 0)
    positions = goals.positions.copy()
    positions[0] += [5.0, 0, 0]
    far = found.solve(replace(goals, positions=positions, rotations=None), steps=30)
    assert not far.reached[0]
    assert far.error[0] > 3
    reach = positions[0] - ends_of(found.skeleton, far)[0]
    assert np.linalg.norm(reach) == pytest.approx(far.error[0], rel=1e-4)


def test_a_small_move_of_a_target_is_a_small_move_of_the_body() -> None:
    found, poses = trained()
    goals = one(goals_of(poses, np.arange(60)), 50)
    before = found.solve(goals)
    for axis in np.eye(3):
        after = found.solve(replace(goals, positions=goals.positions + 1e-4 * axis))
        assert angles(before.quaternions, after.quaternions).max() < 5e-3


@pytest.mark.slow
def test_limits_are_kept() -> None:
    found, poses = trained()
    rig = found.skeleton
    assert rig.limits is not None
    bones = np.flatnonzero(np.isfinite(rig.limits).all(axis=1))
    goals = goals_of(poses, np.arange(0, 120, 5))
    over = {}
    for limits in (False, True):
        local = found.solve_batch(goals, steps=10, limits=limits).rotations[:, bones]
        core = rig.to_core(found.solve_batch(goals, steps=10, limits=limits).rotations)[:, bones]
        local = np.einsum("jba,njb->ajn", rig.basis[bones], core)
        over[limits] = np.max(limit_excess(local, rig.limits[bones])[:2])
    assert over[True] <= 1e-3
    assert over[False] > 0.05
    alone = found.solve(one(goals, 0), limits=True)
    local = np.einsum("jba,jb->aj", rig.basis[bones], rig.to_core(alone.rotations)[bones])[:, :, None]
    assert np.max(limit_excess(local, rig.limits[bones])[:2]) <= 1e-3


def test_a_free_root_reaches_what_a_fixed_one_cannot() -> None:
    found, poses = trained()
    goals = one(goals_of(poses, np.arange(60)), 50)
    away = replace(goals, positions=goals.positions + [0.5, 0.2, 0.3], rotations=None)
    fixed, free = (found.solve(away, steps=50, free_root=f) for f in (False, True))
    assert free.error.mean() < 0.2 * fixed.error.mean()
    assert np.linalg.norm(free.root_pos - goals.root_pos) > 0.1
    np.testing.assert_array_equal(fixed.root_pos, goals.root_pos)


def test_weights_leave_effectors_free_and_go_half_way() -> None:
    found, poses = trained()
    goals = one(goals_of(poses, np.arange(60)), 50)
    weights = np.array([0.0, 1, 1, 1, 1])
    wild = goals.positions.copy()
    wild[0] += 9
    free = found.solve(replace(goals, positions=wild, weights=weights), steps=20)
    assert free.error[0] == 0
    assert free.reached.all()
    other = found.solve(replace(goals, weights=weights), steps=20)
    assert angles(free.quaternions, other.quaternions).max() < ALIKE  # where a free one is asked to be does not matter
    natural = ends_of(found.skeleton, found.solve(replace(goals, rotations=None), steps=0))
    half = found.solve(replace(goals, rotations=None, weights=np.array([0.5, 1, 1, 1, 1])), steps=30)
    middle = 0.5 * (natural[0] + goals.positions[0])
    np.testing.assert_allclose(ends_of(found.skeleton, half)[0], middle, atol=1e-3)


def test_solving_changes_none_of_its_arguments() -> None:
    found, poses = trained("turned")
    goals = replace(goals_of(poses, np.arange(4)), weights=np.full((4, 5), 0.5), normals=np.zeros((4, 5, 3)))
    kept = {name: np.array(value) for name, value in vars(goals).items() if value is not None}
    found.solve_batch(goals, limits=True, free_root=True)
    found.solve(one(goals, 0), limits=True, free_root=True)
    for name, value in kept.items():
        np.testing.assert_array_equal(getattr(goals, name), value)


@pytest.mark.slow
def test_a_batch_may_be_a_list_and_is_cut_into_pieces_unseen() -> None:
    found, poses = trained("tentacle")
    rows = np.resize(np.arange(poses.frames), 2 * solver.BATCH + 100)  # more than one piece of work
    goals = goals_of(poses, rows)
    whole = found.solve_batch(goals)
    listed = found.solve_batch([one(goals, i) for i in range(len(rows))])
    np.testing.assert_array_equal(listed.quaternions, whole.quaternions)
    varied = replace(goals, phase=np.linspace(0, 1, len(rows)), ground=np.zeros(len(rows)))
    seam = slice(solver.BATCH - 5, solver.BATCH + 5)
    part = found.solve_batch(replace(one(varied, seam)))
    np.testing.assert_allclose(part.quaternions, found.solve_batch(varied).quaternions[seam], atol=1e-5)


# ---------------------------------------------------------------- sessions and the meter


def test_a_session_answers_as_the_solver_does() -> None:
    found, poses = trained()
    session = found.session()
    goals = goals_of(poses, np.arange(10))
    for i in range(10):
        expected = found.solve(one(goals, i))
        assert angles(session.solve(one(goals, i)).quaternions, expected.quaternions).max() < ALIKE


def test_in_a_session_the_heading_of_a_body_that_tips_over_is_kept() -> None:
    """The heading is what the network sees of the world: it must not jump while the left side points up."""
    found, _ = trained()
    rig = found.skeleton
    goals = Goals(rig.rest_arm[list(rig.effectors), :3, 3], rig.rest_arm[0, :3, 3], np.zeros(3))
    upright = rotations.matrix_from_axis_angle(np.array([0, 0, 1.0]))
    memory = None
    for angle in np.linspace(0, np.pi / 2, 30):
        tipped = upright @ rotations.matrix_from_axis_angle(np.array([0, angle, 0]))
        now = rotations.axis_angle_from_matrix(rig.rest_arm[0, :3, :3].T @ tipped @ rig.rest_arm[0, :3, :3])
        _, memory = found._solve_one(replace(goals, root_rot=now), 1, False, False, memory)
        assert memory.heading == pytest.approx(1.0, abs=1e-6)
    # and a single pose that lies is judged by its twist, in one call as in many
    lying = replace(goals, root_rot=now)
    many = found.solve_batch([lying])
    assert angles(found.solve(lying).quaternions, many.quaternions[0]).max() < ALIKE


def test_a_session_forgets_when_told() -> None:
    found, poses = trained()
    session = found.session()
    goals = goals_of(poses, np.arange(60))
    free = np.array([0.0, 1, 1, 1, 1])
    fresh = found.solve(replace(one(goals, 50), weights=free))
    session.solve(one(goals, 0))
    session.reset()
    assert angles(session.solve(replace(one(goals, 50), weights=free)).quaternions, fresh.quaternions).max() < ALIKE


def test_the_meter_reads_nothing_on_learned_frames_and_much_far_away() -> None:
    found, poses = trained()
    parts = splits.split(poses)
    row = int(np.flatnonzero(parts == splits.TRAIN)[40])
    goals = one(goals_of(poses, np.array([row])), 0)
    why = found.explain(goals)
    assert why.out_of_range < 0.05
    assert why.clip == poses.clip_names[poses.clip[row]]
    assert why.frame == row - poses.rows(poses.clip[row]).start
    far = found.explain(replace(goals, positions=goals.positions + 2))
    assert far.out_of_range > 2
    every = [found.explain(one(goals_of(poses, np.flatnonzero(parts == TEST)), i)).out_of_range for i in range(12)]
    assert np.mean(np.array(every) <= 1.001) >= 0.9  # 1.0 is the 99th percentile of the test part


def test_weights_without_centres_have_no_meter() -> None:
    found, poses = trained()
    bare = Solver(replace(found.net, centres=found.net.centres[:0]))
    assert np.isnan(bare.explain(one(goals_of(poses, np.arange(1)), 0)).out_of_range)


# ---------------------------------------------------------------- refused in words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"positions": np.zeros((4, 3))}, r"positions: expected shape \(5, 3\), got \(4, 3\)"),
        ({"positions": np.full((5, 3), np.nan)}, "positions: expected finite numbers, got NaN or infinity"),
        ({"positions": np.full((5, 3), np.inf)}, "positions: expected finite numbers"),
        ({"positions": np.full((5, 3), 1e9)}, "positions: expected metres within 1e\\+06 leg lengths"),
        ({"root_pos": np.full(3, np.nan)}, "root_pos: expected finite numbers"),
        ({"root_pos": np.full(3, 1e30)}, "root_pos: expected"),
        ({"root_pos": np.zeros(2)}, r"root_pos: expected shape \(3,\), got \(2,\)"),
        ({"root_rot": np.full(3, -np.inf)}, "root_rot: expected finite numbers"),
        ({"root_rot": np.zeros(4)}, r"root_rot: expected shape \(3,\), got \(4,\)"),
        ({"rotations": np.zeros((5, 4))}, r"rotations: expected shape \(5, 3\), got \(5, 4\)"),
        ({"rotations": np.full((5, 3), np.nan)}, "rotations: expected finite"),
        ({"weights": np.full(5, 1.5)}, "weights: expected numbers from 0 to 1, got 1.5 to 1.5"),
        ({"weights": np.full(5, -0.1)}, "weights: expected numbers from 0 to 1, got -0.1"),
        ({"weights": np.ones(4)}, r"weights: expected shape \(5,\)"),
        ({"weights": np.full(5, np.nan)}, "weights: expected finite"),
        ({"orientation_weights": np.full(5, 2.0)}, "orientation_weights: expected numbers from 0 to 1"),
        ({"normals": np.zeros((5, 2))}, "normals: expected shape"),
        ({"normals": np.full((5, 3), np.nan)}, "normals: expected finite"),
        ({"grounded": np.zeros(3)}, r"grounded: expected shape \(2,\)"),
        ({"desired": np.full(2, np.nan)}, "desired: expected finite"),
        ({"task": "flying"}, "task: expected one of idle, .*got 'flying'"),
        ({"phase": np.nan}, "phase: expected finite"),
        ({"task": np.inf}, "task: expected finite"),
        ({"ground": np.nan}, "ground: expected finite"),
    ],
)
def test_nonsense_is_refused_in_words(change: dict[str, Any], words: str) -> None:
    found, poses = trained()
    goals = replace(one(goals_of(poses, np.arange(1)), 0), **change)
    with pytest.raises(ValueError, match=f"^{words}"):
        found.solve(goals)
    with pytest.raises(ValueError, match=words.split(":")[0]):
        found.solve_batch([goals])


def test_a_batch_with_and_without_something_is_refused() -> None:
    found, poses = trained()
    goals = one(goals_of(poses, np.arange(1)), 0)
    with pytest.raises(ValueError, match="rotations: expected it in all goals of a batch or in none"):
        found.solve_batch([goals, replace(goals, rotations=None)])
    with pytest.raises(ValueError, match="expected at least one set of goals, got none"):
        found.solve_batch([])


def test_a_batch_of_nothing_is_answered_or_refused_in_words() -> None:
    found, poses = trained()
    with pytest.raises(ValueError, match="expected at least one"):
        found.solve_batch(goals_of(poses, np.arange(0)))


def test_rows_that_do_not_match_are_refused() -> None:
    found, poses = trained()
    goals = goals_of(poses, np.arange(4))
    with pytest.raises(ValueError, match=r"root_pos: expected shape \(4, 3\), got \(3, 3\)"):
        found.solve_batch(replace(goals, root_pos=goals.root_pos[:3]))
    with pytest.raises(ValueError, match="phase: expected"):
        found.solve_batch(replace(goals, phase=np.zeros(3)))


def test_a_rig_without_size_is_refused() -> None:
    rig = make_rig("reference")
    rest = rig.rest_arm.copy()
    rest[:, :3, 3] = 0
    names = ([rig.names[e] for e in rig.effectors], [rig.names[f] for f in rig.feet])
    with pytest.raises(ValueError, match="zero size"):
        skeleton.make(rig.names, rig.parents, rest, *names)


# ---------------------------------------------------------------- the parts that are fast


def test_the_quick_kinematics_is_the_other_one(rng: np.random.Generator) -> None:
    for rig in map(make_rig, RIGS):
        rot = random_turns(rng, rig.count)
        back, heads_one = single_kinematics.forward_one(
            single_kinematics.make_plan(rig), rotations.matrix_from_axis_angle(rot)
        )
        turned, heads = fk.forward(rig, rot)
        np.testing.assert_allclose(back.transpose(0, 2, 1), turned, atol=1e-5)
        np.testing.assert_allclose(heads_one.T, heads / rig.leg_length, atol=1e-5)


def test_solver_names_its_effectors_in_order() -> None:
    assert trained()[0].effectors == ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head")
    assert solver.STEPS == 3


@pytest.mark.slow
def test_the_example_of_the_readme_runs_as_it_stands() -> None:
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    done = run_cli("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(23, 4)")
    assert done.stdout.split()[-1] == "True"
