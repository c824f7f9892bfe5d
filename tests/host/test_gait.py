# SPDX-License-Identifier: GPL-3.0-or-later
"""Gait in Blender: loops that play without a seam, walks along a curve over bumps, the ghost, presets and Match."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import wing

SOLE = 0.002
"""[m] how far a standing foot may be off the floor as Blender shows it."""
SLIDE = 1.2 * 0.0017
"""[m] a frame, at most, of standing feet: 1.2 times those of captured walks."""


def bones(ob: Any, body: Any, frames: Any) -> tuple[np.ndarray, np.ndarray]:
    """Orientations since the T-pose (F, J, 3, 3) and heads (F, J, 3) [m, core axes] as Blender shows them."""
    import bpy

    runtime, foot_pins = wing("blender.host.runtime"), wing("ik.foot_pins")
    rotations = wing("core.rotations")
    rots, roots = [], []
    for frame in frames:
        bpy.context.scene.frame_set(int(frame))
        rot, root = runtime.read_pose(ob, body)
        rots.append(rot)
        roots.append(root)
    rig = body.skeleton
    local = rotations.matrix_from_axis_angle(rig.to_core(np.array(rots, float)))
    return foot_pins.forward(rig, local, np.array(roots) @ rig.axes.T)


@pytest.fixture
def walker(demo: Any) -> tuple[Any, Any]:
    """The demo character and its rig."""
    import bpy

    ob = wing("blender.host.rig").find(bpy.context)
    return ob, wing("blender.host.rig").read(ob)


def test_a_preset_sets_the_sliders_and_speed_sets_step_and_cadence(walker: Any) -> None:
    import bpy

    own = walker[0].neural_ik_gait
    assert bpy.ops.neural_ik.gait_preset(preset="SNEAK") == {"FINISHED"}
    assert own.sneak == 1
    own.speed = 1.5
    assert own.step_length * own.cadence == pytest.approx(1.5, rel=1e-4)
    own.cadence = 2.0
    assert own.speed == pytest.approx(own.step_length * 2, rel=1e-4)
    own.speed = 3.0
    assert own.run == 1


def test_a_baked_loop_plays_ten_cycles_without_a_seam_and_stands_on_the_floor(walker: Any) -> None:
    import bpy

    ob, body = walker
    own = ob.neural_ik_gait
    own.speed, own.in_place, own.cycles = 1.3, False, 1
    assert bpy.ops.neural_ik.gait_bake() == {"FINISHED"}
    action = ob.animation_data.action
    frames = round(action.frame_end - action.frame_start)
    turned, heads = bones(ob, body, range(1, 10 * frames + 2))
    rig = body.skeleton
    local = np.swapaxes(turned[:, rig.parents[1:]], -1, -2) @ turned[:, 1:]
    steps = np.degrees(wing("core.rotations").geodesic_angle(local[1:], local[:-1])).max(axis=1)
    seams = steps[frames - 1 :: frames]
    assert len(seams) >= 9
    assert seams.max() <= np.delete(steps, np.arange(frames - 1, len(steps), frames)).max() + 0.01
    way = heads[-1, 0] - heads[0, 0]
    seconds = 10 * frames / bpy.context.scene.render.fps
    scale = rig.leg_length / 0.945
    assert np.linalg.norm(way[:2]) / seconds == pytest.approx(1.3 * np.sqrt(scale), rel=0.03)
    points = wing("core.contacts").foot_points(rig, turned, heads)
    assert points[..., 2].min() > -SOLE
    contact = wing("core.contacts").truth_contacts(heads[:, list(rig.feet)], heads[:, list(rig.toes)], rig.foot_rest)
    assert wing("core.metrics").slide(points, contact) < 2.0


def test_a_loop_in_place_stays_in_place(walker: Any) -> None:
    import bpy

    ob, body = walker
    ob.neural_ik_gait.in_place = True
    assert bpy.ops.neural_ik.gait_bake() == {"FINISHED"}
    frames = round(ob.animation_data.action.frame_end) - 1
    _, heads = bones(ob, body, range(1, 4 * frames))
    assert np.ptp(heads[:, 0, :2], axis=0).max() < 0.12 * body.skeleton.leg_length


def path(*places: tuple[float, float, float]) -> Any:
    """A curve object through ``places``."""
    import bpy

    data = bpy.data.curves.new("Way", "CURVE")
    data.dimensions = "3D"
    spline = data.splines.new("BEZIER")
    spline.bezier_points.add(len(places) - 1)
    for point, place in zip(spline.bezier_points, places, strict=True):
        point.co = place
        point.handle_left_type = point.handle_right_type = "AUTO"
    way = bpy.data.objects.new("Way", data)
    bpy.context.collection.objects.link(way)
    bpy.context.view_layer.update()
    return way


def test_a_walk_along_a_curve_keeps_its_feet_on_a_bumpy_mesh(walker: Any) -> None:
    import bpy

    ob, body = walker
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=60, y_subdivisions=60, size=24)
    ground = bpy.context.object
    for vertex in ground.data.vertices:
        x, y = vertex.co.x, vertex.co.y
        vertex.co.z = 0.05 * np.sin(1.3 * x) * np.cos(1.1 * y)
    bpy.context.view_layer.objects.active = ob
    own = ob.neural_ik_gait
    own.way, own.ground = path((0, 0, 0), (1.5, -5, 0), (0, -11, 0)), ground
    own.speed = 1.0
    bpy.context.view_layer.update()
    assert bpy.ops.neural_ik.gait_along() == {"FINISHED"}
    frames = int(ob.animation_data.action.frame_range[1])
    assert frames >= 300
    turned, heads = bones(ob, body, range(1, frames + 1))
    rig = body.skeleton
    points = wing("core.contacts").foot_points(rig, turned, heads)
    floor = wing("blender.host.ground").heights(bpy.context, ground, np.array(ob.location), 1.0)
    above = points[..., 2] - floor(points[..., :2])
    assert above.min() > -SOLE
    stands = (above.min(axis=-1)[1:] < SOLE) & (above.min(axis=-1)[:-1] < SOLE)
    slides = np.linalg.norm(np.diff(points[..., :2], axis=0), axis=-1).min(axis=-1)[stands]
    assert slides.mean() < SLIDE
    low = above.min(axis=-1)
    assert np.percentile(low, 40) < 0.004  # most of the time a foot stands
    assert np.abs(heads[-1, 0, :2] - [0, -11]).max() < 0.3
    assert np.linalg.norm(np.diff(heads[:5, 0], axis=0), axis=-1).max() < 0.004  # it begins standing
    assert np.linalg.norm(np.diff(heads[-5:, 0], axis=0), axis=-1).max() < 0.004


def test_keys_on_the_speed_change_the_walk_along_a_curve_and_stay_for_the_next_one(walker: Any) -> None:
    import bpy

    ob, body = walker
    own = ob.neural_ik_gait
    own.way = path((0, 0, 0), (0, -5, 0), (0, -10, 0))
    bpy.context.view_layer.objects.active = ob
    for frame, speed in ((1, 0.7), (60, 0.7), (120, 1.8)):
        own.speed = speed
        own.keyframe_insert("speed", frame=frame)
    size = np.sqrt(body.skeleton.leg_length / 0.945)
    lengths = []
    for _ in range(2):
        assert bpy.ops.neural_ik.gait_along() == {"FINISHED"}
        lengths.append(int(ob.animation_data.action.frame_range[1]))
        _, heads = bones(ob, body, range(1, lengths[-1] + 1))
        fps = bpy.context.scene.render.fps
        steps = np.linalg.norm(np.diff(heads[:, 0, :2], axis=0), axis=1)
        second = np.convolve(steps, np.ones(fps), "same")  # m/s, averaged over a second
        assert second[45] == pytest.approx(0.7 * size, rel=0.2)
        assert second[130] == pytest.approx(1.8 * size, rel=0.2)
        assert np.abs(heads[-1, 0, :2] - [0, -10]).max() < 0.3
    assert lengths[0] == lengths[1]
    curves = {c.data_path: c for c in wing("blender.host.actions").playing(ob.animation_data)}
    assert len(curves["neural_ik_gait.speed"].keyframe_points) == 3


def test_a_path_animation_says_where_the_character_is_and_where_it_stands(walker: Any) -> None:
    import bpy

    ob, body = walker
    own = ob.neural_ik_gait
    own.way, own.pace = path((0, 0, 0), (0, -3, 0), (0, -6, 0)), "PATH"
    bpy.context.view_layer.objects.active = ob
    with pytest.raises(RuntimeError, match="no keys on its Evaluation Time"):
        bpy.ops.neural_ik.gait_along()
    data = own.way.data
    data.path_duration = 200
    for frame, share in ((11, 0), (81, 0.5), (111, 0.5), (181, 1)):
        data.eval_time = 200 * share
        data.keyframe_insert("eval_time", frame=frame)
    assert bpy.ops.neural_ik.gait_along() == {"FINISHED"}
    assert tuple(ob.animation_data.action.frame_range) == (11, 181)
    _, heads = bones(ob, body, range(11, 182))
    away = heads[:, 0, 1]
    np.testing.assert_allclose(away[[0, 80, 95, 170]], [0, -3, -3, -6], atol=0.12)
    assert np.abs(np.diff(away[74:98])).max() < 0.006  # it stands
    data.eval_time = 0
    data.keyframe_insert("eval_time", frame=221)
    with pytest.raises(RuntimeError, match="goes back at frame"):
        bpy.ops.neural_ik.gait_along()


def test_match_finds_the_speed_of_a_walk_that_was_baked(walker: Any) -> None:
    import bpy

    ob, _ = walker
    own = ob.neural_ik_gait
    own.speed, own.in_place = 1.6, False
    assert bpy.ops.neural_ik.gait_bake() == {"FINISHED"}
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, 120
    own.speed = 0.8
    assert bpy.ops.neural_ik.gait_match() == {"FINISHED"}
    assert own.speed == pytest.approx(1.6, rel=0.05)


def test_who_walks_nowhere_is_told_so(walker: Any) -> None:
    import bpy

    walker[0].animation_data_clear()
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, 40
    with pytest.raises(RuntimeError, match="walks no whole cycle"):
        bpy.ops.neural_ik.gait_match()
    with pytest.raises(RuntimeError, match=r"(?i)choose a curve"):
        bpy.ops.neural_ik.gait_along()


def test_the_ghost_follows_the_sliders_and_changes_nothing(walker: Any) -> None:
    ob, _ = walker
    preview = wing("blender.gait.preview")
    before = [tuple(pb.rotation_quaternion) for pb in ob.pose.bones]
    first, colors = preview.lines(ob, 10, 24.0)
    assert len(first) == len(colors) == 2 * (len(ob.pose.bones) - 1)
    again, _ = preview.lines(ob, 10, 24.0)
    np.testing.assert_array_equal(first, again)
    ob.neural_ik_gait.crouch = 1.0
    low, _ = preview.lines(ob, 10, 24.0)
    assert low[:, 2].max() < first[:, 2].max() - 0.02
    assert preview.settle() > 0  # the slider has just moved
    preview._changed[0] -= 1.0
    assert preview.settle() is None
    exact, _ = preview.lines(ob, 10, 24.0)
    assert 0 < np.abs(exact - low).max() < 0.06
    assert np.abs(exact - low).mean() < 0.01
    assert [tuple(pb.rotation_quaternion) for pb in ob.pose.bones] == before


def test_a_character_learns_its_own_way_to_walk_and_keeps_it(walker: Any) -> None:
    import bpy

    ob, _ = walker
    own = ob.neural_ik_gait
    own.speed, own.in_place = 1.3, False
    assert bpy.ops.neural_ik.gait_bake() == {"FINISHED"}
    arm = next(c for c in wing("blender.host.actions").playing(ob.animation_data) if "LeftArm" in c.data_path)
    for point in arm.keyframe_points:  # one axis of the arm is turned by hand
        point.co[1] += 0.15
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = 1, 120
    assert bpy.ops.neural_ik.gait_learn() == {"FINISHED"}
    assert own.own_style == 1
    preview = wing("blender.gait.preview")
    assert preview.style_path(ob).exists()
    with_style, _ = preview.lines(ob, 5, 24.0)
    own.own_style = 0
    without, _ = preview.lines(ob, 5, 24.0)
    assert np.abs(with_style - without).max() > 0.01
