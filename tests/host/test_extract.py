# SPDX-License-Identifier: GPL-3.0-or-later
"""Extracting poses in Blender: exact, by either path, and nothing left changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import HOST, REPO

from neural_network.core import forward_kinematics, rotations
from neural_network.motion import pose_set

from .conftest import wing

BACK = 1e-4  # [rad, m] what goes into an action comes out again, through Blender's float32 keys


def run(ob: Any, actions: list[Any] | None = None, **options: Any) -> Any:
    """The Extraction, as the button does it."""
    import bpy

    data = wing("blender.data.extract")
    chosen = data.moving_actions(ob) if actions is None else actions
    work = data.extract(bpy.context.scene, ob, chosen, data.Options(**options))
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def difference(a: Any, b: Any) -> tuple[float, float]:
    """Largest angle [rad] between rotations and largest distance [m] between root positions, clip by clip."""
    angle = distance = 0.0
    assert set(a.clip_names) == set(b.clip_names)
    for i, name in enumerate(a.clip_names):
        own, other = a.rows(i), b.rows(b.clip_names.index(name))
        matrices = [rotations.matrix_from_axis_angle(p.rot[r].astype(float)) for p, r in ((a, own), (b, other))]
        angle = max(angle, float(rotations.geodesic_angle(*matrices).max()))
        distance = max(distance, float(np.abs(a.root_pos[own] - b.root_pos[other]).max()))
    return angle, distance


def snapshot(ob: Any) -> dict[str, Any]:
    """What extraction may change meanwhile and must put back."""
    import bpy

    scene, data = bpy.context.scene, ob.animation_data
    state: dict[str, Any] = {
        "frame": (scene.frame_current, scene.frame_subframe),
        "selected": {o.name for o in bpy.context.selected_objects},
        "active": bpy.context.view_layer.objects.active,
        "pose": np.array([pb.matrix_basis for pb in ob.pose.bones]).round(5).tolist(),
        "matrix": np.array(ob.matrix_world).round(5).tolist(),
        "modifiers": [(o.name, m.name, m.show_viewport) for o in bpy.data.objects for m in o.modifiers],
        "actions": sorted(a.name for a in bpy.data.actions),
        "data": data is not None,
    }
    if data is not None:
        state["nla"] = (data.use_nla, data.action_influence, data.action_blend_type)
        state["action"] = data.action
        state["slot"] = getattr(data, "action_slot", None)
    return state


def test_the_demo_actions_give_the_shipped_poses_back(demo: Any) -> None:
    shipped = pose_set.load(REPO / "training_data" / "training_data.npz")
    found = run(demo).poses
    angle, distance = difference(shipped, found)
    assert angle <= BACK
    assert distance <= BACK
    for i, name in enumerate(shipped.clip_names):
        j = found.clip_names.index(name)
        assert shipped.clip_hash(i) == found.clip_hash(j)  # weights know the clip again
        assert (shipped.clip_fps[i], shipped.clip_tasks[i]) == (found.clip_fps[j], found.clip_tasks[j])
    shipped.skeleton.require_same(found.skeleton, "the demo character")


def test_both_paths_agree(demo: Any) -> None:
    angle, distance = difference(run(demo, path="fast").poses, run(demo, path="evaluated").poses)
    assert angle <= BACK
    assert distance <= BACK


def test_numpy_forward_kinematics_is_blenders_on_every_demo_frame(demo: Any, record_property: Any) -> None:
    import bpy

    poses = run(demo).poses
    actions = wing("blender.host.actions")
    buffer = np.empty(len(demo.pose.bones) * 16, np.float32)
    worst = 0.0
    for clip, name in enumerate(poses.clip_names):
        action = bpy.data.actions[name]
        actions.assign(demo.animation_data, action, actions.slots_for(action, demo)[0])
        rows = poses.rows(clip)
        own = forward_kinematics.armature_matrices(poses.skeleton, poses.rot[rows], poses.root_pos[rows])
        for i in range(rows.stop - rows.start):
            bpy.context.scene.frame_set(1 + i)
            demo.pose.bones.foreach_get("matrix", buffer)
            heads = buffer.reshape(-1, 4, 4)[:, 3, :3]
            worst = max(worst, float(np.abs(heads - own[i, :, :3, 3]).max()))
    record_property("largest distance [m]", worst)
    assert worst <= HOST


@pytest.mark.parametrize("stop_at", [1, 40, None])
def test_everything_is_put_back_however_extraction_ends(demo: Any, stop_at: int | None) -> None:
    import bpy

    data = wing("blender.data.extract")
    scene = bpy.context.scene
    scene.frame_set(7, subframe=0.25)
    demo.animation_data.use_nla = False
    demo.animation_data.action_influence = 0.5
    demo.pose.bones["Head"].rotation_quaternion = (0.9, 0.1, 0.2, 0.3)  # a pose that is not keyed
    demo.pose.bones["Head"].scale = (1.5, 1.5, 1.5)
    bpy.context.view_layer.update()
    before = snapshot(demo)
    work = data.extract(scene, demo, data.moving_actions(demo), data.Options(path="evaluated"))
    for i, _ in enumerate(work):
        if stop_at is not None and i >= stop_at:
            work.close()
            break
    assert snapshot(demo) == before


def test_a_failure_in_the_middle_puts_everything_back_too(demo: Any) -> None:
    import bpy

    data = wing("blender.data.extract")
    before = snapshot(demo)
    work = data.extract(bpy.context.scene, demo, data.moving_actions(demo), data.Options(path="evaluated"))
    for _ in range(30):
        next(work)
    with pytest.raises(RuntimeError, match="from outside"):
        work.throw(RuntimeError("from outside"))
    assert snapshot(demo) == before


def test_scale_keys_of_one_do_not_slow_an_action_down(demo: Any) -> None:
    import bpy

    data, actions = wing("blender.data.extract"), wing("blender.host.actions")
    action = data.moving_actions(demo)[0]
    slot = action.slots[0] if actions.SLOTTED else None
    curve = actions.new_curve(action, slot, 'pose.bones["Head"].scale', 1, "Head")
    for value, words in ((1.0, ()), (1.5, ("it scales bones",))):
        curve.keyframe_points.clear()
        wing("blender.host.keyframes").write_curve(curve, np.array([1.0]), np.array([value]))
        work = data.extract(bpy.context.scene, demo, [action])
        while True:
            try:
                next(work)
            except StopIteration as end:
                notes = end.value.notes
                break
        assert all(any(word in note for note in notes) for word in words)
        assert words or not notes
