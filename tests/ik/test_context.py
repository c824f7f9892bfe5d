# SPDX-License-Identifier: GPL-3.0-or-later
"""What the network sees, written a second time: slowly, frame by frame, from the words of the contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import EXACT, RIGS, local_of, make_poses, make_rig, random_turns, restyle, restyled, slow_except

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations, skeleton
from neural_network.ik import batches, context
from neural_network.ik.context import LAYOUTS
from neural_network.motion import pose_set
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.tasks import TASKS, task_value

ENCODED = 2e-5
"""Inputs are kept in float32, and a heading of up to pi is taken off before that: a few more roundings than a chain has."""


def encode(poses: PoseSet, layout: str = "reference", older_ground: bool = False) -> np.ndarray:
    """All frames through the very functions that training and solving use."""
    samples = context.prepare(poses, older_ground)
    _, _, targets = batches.true_batch(poses.skeleton, samples, np.arange(poses.frames))
    return context.features(LAYOUTS[layout], poses.skeleton, targets)


def log(matrix: np.ndarray) -> np.ndarray:
    """Axis-angle of one rotation by the formula of the textbooks (not near half a turn)."""
    angle = np.arccos(np.clip((np.trace(matrix) - 1) / 2, -1, 1))
    axis = np.array([matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0], matrix[1, 0] - matrix[0, 1]])
    return axis * (0.5 if angle < 1e-7 else angle / (2 * np.sin(angle)))


def slow_inputs(poses: PoseSet) -> np.ndarray:
    """The 50 inputs as the contract lists them, from armature matrices, one frame and one foot after the other."""
    rig = poses.skeleton
    straight = fk.armature_matrices(rig, rig.t_pose, rig.rest_arm[0, :3, 3])
    scale = rig.leg_length / 0.945
    rows = []
    for c in range(len(poses.clip_names)):
        frames = np.flatnonzero(poses.clip == c)
        world = []  # every bone's T-pose-relative rotation and head, in core axes
        for f in frames:
            matrices = fk.armature_matrices(rig, poses.rot[f], poses.root_pos[f])
            turned = [rig.axes @ m[:3, :3] @ s[:3, :3].T @ rig.axes.T for m, s in zip(matrices, straight, strict=True)]
            world.append((turned, [rig.axes @ m[:3, 3] for m in matrices]))
        heights = np.zeros((len(frames), len(rig.feet)))
        for k, (foot, toe) in enumerate(zip(rig.feet, rig.toes, strict=True)):
            rests = [(rig.axes @ straight[b, :3, 3])[2] - rig.floor for b in (foot, toe)]
            for n, (_, heads) in enumerate(world):
                heights[n, k] = min(heads[foot][2] - rests[0], heads[toe][2] - rests[1])
        ground = np.percentile(heights.min(axis=1), 2) if rig.feet else 0.0
        grounded = np.zeros_like(heights)
        for k, toe in enumerate(rig.toes):
            for n in range(len(frames)):
                a, b = (n - 1, n) if n else (0, min(1, len(frames) - 1))
                speed = np.linalg.norm(world[b][1][toe] - world[a][1][toe]) * poses.clip_fps[c]
                grounded[n, k] = heights[n, k] - ground < 0.03 * scale and speed < 0.3 * scale
        for n in range(len(frames)):
            turned, heads = world[n]
            left = turned[0] @ [1, 0, 0]
            assert np.hypot(left[0], left[1]) > 0.2  # this motion has no weak headings
            yaw = -np.arctan2(left[1], left[0])
            unturn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
            row: list[float] = []
            for e in rig.effectors:
                row += [*(unturn @ (heads[e] - heads[0]) / rig.leg_length), *log(unturn @ turned[e])]
            row += [*(unturn @ turned[0] @ [0, -1, 0]), *(unturn @ turned[0] @ [0, 0, 1])]
            soon = min(n + round(0.1 * poses.clip_fps[c]), len(frames) - 1)
            for k in range(len(rig.feet)):
                row += [(heights[n, k] - ground) / rig.leg_length, 0, 0, 1, grounded[n, k], grounded[soon, k]]
            row += [n / max(1, len(frames) - 1), TASKS.index(poses.clip_tasks[c]) / (len(TASKS) - 1)]
            rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("name", RIGS)
def test_the_inputs_are_those_of_the_contract(name: str) -> None:
    poses = standing(make_poses(make_rig(name), clips=2, frames=25))
    found, expected = encode(poses), slow_inputs(poses)
    assert found.shape == (50, 50 if name in ("reference", "a_pose", "turned") else expected.shape[1])
    np.testing.assert_allclose(found, expected, atol=ENCODED)
    flags = found[:, LAYOUTS["reference"].columns(poses.skeleton)["flags"]]
    assert len(poses.skeleton.feet) == 0 or 0 < flags.mean() < 1  # some feet stand, some do not


def standing(poses: PoseSet) -> PoseSet:
    """The first half of every clip slowed to a crawl and two metres lower: there feet may stand."""
    rot, root_pos = poses.rot.copy(), poses.root_pos.copy()
    for c in range(len(poses.clip_names)):
        rows = poses.rows(c)
        half = slice(rows.start, (rows.start + rows.stop) // 2)
        rot[half] = rot[half.start] + 0.01 * (rot[half] - rot[half.start])
        root_pos[half] = root_pos[half.start] - 2 * poses.skeleton.axes[2]
    return replace(poses, rot=rot, root_pos=root_pos)


@pytest.mark.parametrize("name", RIGS)
def test_a_whole_clip_may_be_moved_and_turned_about_up(name: str) -> None:
    rig = make_rig(name)
    poses = make_poses(rig)
    yaw = rig.axes.T @ rotations.matrix_from_axis_angle(np.array([0, 0, 2.1])) @ rig.axes
    matrices = fk.armature_matrices(rig, poses.rot, poses.root_pos)
    matrices[..., :3, :3] = yaw @ matrices[..., :3, :3]
    matrices[..., :3, 3] = matrices[..., :3, 3] @ yaw.T + rig.axes.T @ [3.0, -2, 0.7 if rig.feet else 0]
    moved = pose_set.make(rig, local_of(rig, matrices), matrices[:, 0, :3, 3], poses.clip, poses.clip_names)
    assert not np.allclose(moved.rot[:, 0], poses.rot[:, 0], atol=0.1)
    np.testing.assert_allclose(encode(moved), encode(poses), atol=ENCODED)


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_size_is_divided_out(factor: float) -> None:
    rig = make_rig("reference")
    poses = standing(make_poses(rig))
    rest = rig.rest_arm.copy()
    rest[:, :3, 3] *= factor
    names = ([rig.names[e] for e in rig.effectors], [rig.names[f] for f in rig.feet])

    other = skeleton.make(rig.names, rig.parents, rest, *names, t_pose=rig.t_pose)
    grown = pose_set.make(other, poses.rot, poses.root_pos * factor, poses.clip, poses.clip_names)
    np.testing.assert_allclose(encode(grown), encode(poses), atol=ENCODED)


def test_another_facing_other_rolls_and_another_rest_give_the_same_inputs(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    poses = standing(make_poses(rig))
    turn = rotations.matrix_from_axis_angle(np.array([0, 0, np.pi / 2]))  # faces +X
    rolls = rotations.matrix_from_axis_angle(random_turns(rng, rig.count))
    resting = random_turns(rng, rig.count, below=0.6)
    resting[0] = 0
    other = restyled(rig, turn, rolls, resting)
    matrices = restyle(fk.armature_matrices(rig, poses.rot, poses.root_pos), turn, rolls)
    same = pose_set.make(other, local_of(other, matrices), matrices[:, 0, :3, 3], poses.clip, poses.clip_names)
    np.testing.assert_allclose(encode(same), encode(poses), atol=ENCODED)


# ---------------------------------------------------------------- heading


def hips(*logs: tuple[float, float, float]) -> np.ndarray:
    return rotations.matrix_from_axis_angle(np.array(logs, float))


def test_the_heading_is_where_the_left_side_points() -> None:
    np.testing.assert_allclose(context.headings(hips((0, 0, 0.4), (0, 0, -3), (0.9, 0, 0))), [0.4, -3, 0], atol=EXACT)


def test_a_somersault_keeps_its_heading() -> None:
    """Rolling forward turns forward over and back; the left side stays where it is."""
    over = rotations.matrix_from_axis_angle(np.linspace(0, 2 * np.pi, 50)[:, None] * np.array([1.0, 0, 0]))
    found = context.headings(hips((0, 0, 0.7)) @ over)
    np.testing.assert_allclose(found, 0.7, atol=1e-9)


def test_a_weak_heading_keeps_the_one_of_the_frame_before() -> None:
    lying = rotations.matrix_from_axis_angle(np.array([0, np.pi / 2, 0]))  # on the right side: left points up
    tipped = rotations.matrix_from_axis_angle(np.array([0, np.pi / 2 - 0.1, 0]))
    roots = np.stack([hips((0, 0, 0.5))[0], lying, hips((0, 0, 2))[0] @ tipped, hips((0, 0, 2))[0]])
    np.testing.assert_allclose(context.headings(roots), [0.5, 0.5, 0.5, 2], atol=EXACT)


def test_just_above_the_threshold_the_heading_is_its_own() -> None:
    roots = np.stack([hips((0, 0, 0.5))[0], hips((0, 0, 2))[0] @ hips((0, np.arccos(0.21), 0))[0]])
    np.testing.assert_allclose(context.headings(roots), [0.5, 2], atol=EXACT)
    roots[1] = hips((0, 0, 2))[0] @ hips((0, np.arccos(0.19), 0))[0]
    np.testing.assert_allclose(context.headings(roots), [0.5, 0.5], atol=EXACT)


def test_a_single_lying_pose_and_the_first_of_a_clip_fall_back_to_the_twist_about_up() -> None:
    lying = hips((0, 0, 1.1))[0] @ hips((0, np.pi / 2, 0))[0]
    twist = rotations.twist_about(rotations.axis_angle_from_matrix(lying), np.array([0.0, 0, 1]))
    roots = np.stack([hips((0, 0, 0.5))[0], lying, lying])
    np.testing.assert_allclose(context.headings(lying[None]), [twist], atol=EXACT)
    np.testing.assert_allclose(context.headings(roots, np.array([1])), [0.5, twist, twist], atol=EXACT)


def test_headings_do_not_leak_from_clip_to_clip() -> None:
    rig = make_rig("reference")
    poses = make_poses(rig, clips=2, frames=10)
    rot = poses.rot.copy()
    lying = rotations.axis_angle_from_matrix(hips((0, 0, 1.1))[0] @ hips((0, np.pi / 2, 0))[0])
    rot[10] = rig.from_core(np.vstack([lying, np.zeros((rig.count - 1, 3))]))
    both = context.prepare(replace(poses, rot=rot))
    alone = context.prepare(pose_set.make(rig, rot[10:], poses.root_pos[10:], np.zeros(10, int), ["reach_up"]))
    np.testing.assert_allclose(both.heading[10:], alone.heading, atol=EXACT)
    assert abs(both.heading[10] - both.heading[9]) > 0.1


# ---------------------------------------------------------------- ground, time and task


def still(frames: int = 40, fps: float = 30.0, **changes: np.ndarray) -> PoseSet:
    """The reference rig standing in its T-pose."""
    rig = make_rig("reference")
    root = np.tile(rig.rest_arm[0, :3, 3], (frames, 1))
    fields = {"rot": np.zeros((frames, rig.count, 3)), "root_pos": root, **changes}
    return pose_set.make(rig, fields["rot"], fields["root_pos"], np.zeros(frames, int), ["stand"], clip_fps=fps)


def test_a_body_at_rest_stands_on_the_floor() -> None:
    samples = context.prepare(still())
    np.testing.assert_allclose(samples.ground, 0, atol=1e-6)
    np.testing.assert_array_equal(samples.grounded, 1)
    np.testing.assert_array_equal(samples.desired, 1)


def test_a_jump_leaves_the_ground_and_is_known_a_tenth_of_a_second_before() -> None:
    poses = still()
    root = poses.root_pos.copy()
    root[20:25, 2] += 0.2
    samples = context.prepare(replace(poses, root_pos=root))
    air = np.zeros(40)
    air[20:25] = 1
    assert np.all(samples.grounded[20:25] == 0)  # and 25, where the toes come down faster than 0.3 m/s
    assert np.all(samples.grounded[:20] == 1)
    assert np.all(samples.grounded[26:] == 1)
    np.testing.assert_array_equal(samples.desired[:-3], samples.grounded[3:])
    np.testing.assert_allclose(samples.low * poses.skeleton.leg_length, 0.2 * air, atol=1e-6)


def test_a_foot_that_slides_does_not_stand() -> None:
    poses = still()
    for speed, stands in ((0.25, 1), (0.35, 0)):
        root = poses.root_pos + np.arange(40)[:, None] / 30 * np.array([speed, 0, 0])
        np.testing.assert_array_equal(context.prepare(replace(poses, root_pos=root)).grounded, stands)


def test_one_frame_has_no_speed_and_stands_by_height() -> None:
    samples = context.prepare(still(frames=1))
    np.testing.assert_array_equal(samples.grounded, 1)
    np.testing.assert_array_equal(samples.desired, 1)
    np.testing.assert_array_equal(samples.phase, 0)


def test_the_lower_of_ankle_and_toe_is_what_stands() -> None:
    """On tiptoe the ankle is high, the toe at its rest height: the foot stands."""
    rig = make_rig("reference")
    rot = np.zeros((40, rig.count, 3))
    core = np.zeros((rig.count, 3))
    core[rig.names.index("LeftFoot"), 0] = -0.6
    moved = (
        fk.forward(rig, core)[1][rig.names.index("LeftToeBase"), 2]
        - fk.forward(rig, 0 * core)[1][rig.names.index("LeftToeBase"), 2]
    )
    core[rig.names.index("LeftFoot"), 0] *= np.sign(-moved)  # toes down
    rot[:] = rig.from_core(core)
    poses = still(rot=rot)
    drop = abs(moved)
    root = poses.root_pos + [0, 0, drop]
    samples = context.prepare(replace(poses, root_pos=root))
    np.testing.assert_array_equal(samples.grounded, [[1, 0]] * 40)


def test_the_older_rule_looks_at_the_foots_head_alone() -> None:
    poses = still()
    root = poses.root_pos + np.arange(40)[:, None] / 30 * np.array([2.0, 0, 0])  # slides, but is low
    root[30:, 2] += 0.05  # ankle at 0.13 m
    found = context.prepare(replace(poses, root_pos=root), older_ground=True)
    np.testing.assert_array_equal(found.grounded[:30], 1)
    np.testing.assert_array_equal(found.grounded[30:], 0)
    np.testing.assert_array_equal(context.prepare(replace(poses, root_pos=root)).grounded, 0)


def test_a_given_ground_is_believed() -> None:
    poses = replace(still(), ground=np.array([-0.5]))
    samples = context.prepare(poses)
    np.testing.assert_allclose(samples.ground, -0.5, atol=EXACT)
    np.testing.assert_array_equal(samples.grounded, 0)
    np.testing.assert_allclose(samples.low * poses.skeleton.leg_length, 0.5, atol=1e-6)


def test_the_ground_is_a_percentile_and_not_the_lowest_frame() -> None:
    poses = still(frames=100)
    root = poses.root_pos.copy()
    root[50, 2] -= 0.4
    np.testing.assert_allclose(context.prepare(replace(poses, root_pos=root)).ground, 0, atol=0.02)


def test_desired_contact_looks_as_far_ahead_as_a_tenth_of_a_second_is() -> None:
    root = still(120).root_pos.copy()
    root[60:70, 2] += 0.3
    for fps, frames in ((30.0, 3), (60.0, 6), (120.0, 12)):
        samples = context.prepare(still(120, fps, root_pos=root))
        np.testing.assert_array_equal(samples.desired[:-frames], samples.grounded[frames:])


def test_phase_runs_from_zero_to_one_in_every_clip() -> None:
    poses = make_poses(make_rig("reference"), clips=3, frames=11)
    np.testing.assert_allclose(context.prepare(poses).phase, np.tile(np.linspace(0, 1, 11), 3), atol=1e-7)


def test_tasks_have_their_place_in_the_table() -> None:
    assert TASKS == ("idle", "locomotion", "reach", "crouch", "jump", "combat", "acrobatics", "dance", "other")
    assert [task_value(t) for t in TASKS] == [i / 8 for i in range(9)]
    with pytest.raises(ValueError, match=r"expected one of idle, .*got 'flying'"):
        task_value("flying")


# ---------------------------------------------------------------- layouts


def test_the_reference_layout_has_50_inputs_and_69_outputs() -> None:
    rig, layout = make_rig("reference"), LAYOUTS["reference"]
    assert (layout.input_count(rig), layout.output_count(rig)) == (50, 69)
    columns = layout.columns(rig)
    assert [len(columns[k]) for k in ("targets", "root", "ground", "phase", "task", "mask")] == [30, 6, 12, 1, 1, 0]
    np.testing.assert_array_equal(columns["flags"], [40, 41, 46, 47])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", slow_except(RIGS, "creature"))
def test_columns_name_what_they_hold(name: str, layout: str) -> None:
    """Change one thing asked for, and only its own columns may change."""
    rig, shape = make_rig(name), LAYOUTS[layout]
    poses = make_poses(rig, clips=1, frames=6)
    _, _, targets = batches.true_batch(rig, context.prepare(poses), np.arange(6))
    targets = replace(targets, given=np.ones((2, len(rig.effectors), 6), np.float32))
    base = context.features(shape, rig, targets)
    assert base.shape == (6, shape.input_count(rig))
    columns = shape.columns(rig)
    together = np.sort(np.concatenate([c for k, c in columns.items() if k != "flags"]))
    np.testing.assert_array_equal(together, np.arange(base.shape[1]))
    for change, block in (
        ({"positions": targets.positions + 1}, "targets"),
        ({"root": targets.root + 1}, "root"),
        ({"heights": targets.heights + 1}, "ground"),
        ({"grounded": 1 - targets.grounded}, "flags"),
        ({"desired": 1 - targets.desired}, "flags"),
        ({"normals": np.full((3, len(rig.feet), 6), 0.5, np.float32)}, "ground"),
        ({"phase": targets.phase + 1}, "phase"),
        ({"task": targets.task + 1}, "task"),
    ):
        moved = np.flatnonzero(np.any(context.features(shape, rig, replace(targets, **change)) != base, axis=0))
        allowed = {*columns[block], *(columns["targets"] if block == "root" and shape.hips_frame else ())}
        assert set(moved) <= allowed, change.keys()
        assert len(moved) or not rig.feet


def test_seen_from_the_hips_a_body_may_lie_as_it_likes(rng: np.random.Generator) -> None:
    """In layouts with the Hips' own axes only root and ground tell how the body is turned in the world."""
    rig, layout = make_rig("reference"), LAYOUTS["hips"]
    rot = np.repeat(random_turns(rng, 1, rig.count, below=1.0), 20, axis=0)
    rot[:, 0] = random_turns(rng, 20)
    root_pos = rng.normal(size=(20, 3))
    poses = pose_set.make(rig, rig.from_core(rot), root_pos, np.zeros(20, int), ["tumble"])
    seen = encode(poses, "hips")[:, layout.columns(rig)["targets"]]
    np.testing.assert_allclose(seen, np.repeat(seen[:1], 20, axis=0), atol=ENCODED)
    turned, heads = fk.forward(rig, rot[0] * (np.arange(rig.count) > 0)[:, None])
    ends = list(rig.effectors)
    logs = rotations.axis_angle_from_matrix(turned[ends])
    expected = np.concatenate([heads[ends] / rig.leg_length, logs], axis=1)
    np.testing.assert_allclose(seen[0].reshape(5, 6), expected, atol=ENCODED)
    assert (layout.input_count(rig), layout.output_count(rig)) == (50, 69)


def test_the_layout_of_bodies_tells_the_lengths_of_both_bones_of_every_limb() -> None:
    poses = make_poses(make_rig("reference"), clips=1, frames=3)
    rig, layout = poses.skeleton, LAYOUTS["bodies"]
    seen = encode(poses, "bodies")[:, layout.columns(rig)["body"]]
    arm = [0.278, 0.286]  # upper and lower, out of the rig's table
    assert seen.shape == (3, 10)
    np.testing.assert_allclose(seen[0, :4] * rig.leg_length, arm * 2, atol=1e-3)


def test_the_layout_of_people_tells_where_limbs_begin_and_end_in_the_t_pose() -> None:
    poses = make_poses(make_rig("reference"), clips=1, frames=3)
    rig, layout = poses.skeleton, LAYOUTS["people"]
    places = encode(poses, "people")[0, layout.columns(rig)["body"]][10:].reshape(5, 2, 3) * rig.leg_length
    heads = rig.rest_core[:, :3, 3] - rig.rest_core[0, :3, 3]
    arm, hand, head = (heads[rig.names.index(name)] for name in ("LeftArm", "LeftHand", "Head"))
    np.testing.assert_allclose(places[0], [arm, hand], atol=1e-6)
    np.testing.assert_allclose(places[4, 1], head, atol=1e-6)


def test_what_is_not_given_does_not_show(rng: np.random.Generator) -> None:
    rig, layout = make_rig("reference"), LAYOUTS["masked"]
    poses = make_poses(rig, clips=1, frames=6)
    _, _, targets = batches.true_batch(rig, context.prepare(poses), np.arange(6))
    given = np.ones((2, 5, 6), np.float32)
    given[:, 2] = 0  # the left foot
    given[1, 0] = 0  # how the left hand is turned
    first = replace(targets, given=given)
    positions, turned, heights = targets.positions.copy(), targets.turned.copy(), targets.heights + 0
    positions[:, 2], heights[0] = 9, 9
    turned[:, :, [0, 2]] = rotations.matrix_components(rng.normal(size=(3, 2, 6))).astype(np.float32)
    flags = targets.grounded.copy()
    flags[0] = 1 - flags[0]
    second = replace(first, positions=positions, turned=turned, heights=heights, grounded=flags, desired=flags)
    second = replace(second, desired=np.stack([flags[0], targets.desired[1]]))
    seen, expected = context.features(layout, rig, second), context.features(layout, rig, first)
    np.testing.assert_allclose(seen, expected, atol=1e-6)
    np.testing.assert_array_equal(seen[:, -10:].reshape(6, 5, 2), given.transpose(2, 1, 0))


def test_decode_takes_the_hips_as_given(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    root = rotations.matrix_components(rng.normal(size=(3, 4)))
    outputs = rng.normal(size=(4, 69))
    rot, shift = context.decode(LAYOUTS["reference"], rig, outputs, root)
    assert shift is None
    np.testing.assert_allclose(rotations.matrix_components(rot[:, 0]), root, atol=EXACT)
    np.testing.assert_array_equal(rot[:, 1:].transpose(2, 1, 0), outputs.reshape(4, 23, 3)[:, 1:])


def test_decode_with_a_free_root_turns_the_given_one_on(rng: np.random.Generator) -> None:
    rig = make_rig("reference")
    root = rotations.matrix_components(rng.normal(size=(3, 4)))
    outputs = rng.normal(size=(4, 72))
    rot, shift = context.decode(LAYOUTS["free"], rig, outputs, root)
    turn = rotations.matrix_components(outputs[:, :3].T)
    expected = np.einsum("abn,bcn->acn", turn, root)
    np.testing.assert_allclose(rotations.matrix_components(rot[:, 0]), expected, atol=EXACT)
    np.testing.assert_array_equal(shift, outputs[:, 69:].T)


def test_preparing_changes_nothing_of_the_poses() -> None:
    poses = make_poses(make_rig("turned"))
    kept = poses.rot.copy(), poses.root_pos.copy()
    context.prepare(poses)
    np.testing.assert_array_equal(poses.rot, kept[0])
    np.testing.assert_array_equal(poses.root_pos, kept[1])
