# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens while Extract Data waits: it stops in words, and everything is put back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import HOST

from .conftest import wing
from .test_extract import BACK, difference, run, snapshot
from .test_words import edit, keep_actions

# ---- while other things go on


@pytest.mark.parametrize("path", ["fast", "evaluated"])
def test_live_ik_rests_while_an_action_is_extracted(demo: Any, path: str) -> None:
    import bpy
    from mathutils import Matrix

    actions = wing("blender.host.actions")
    (action,) = keep_actions("walk")
    actions.assign(demo.animation_data, action, actions.slots_for(action, demo)[0])
    bpy.ops.neural_ik.load_weights()
    before = run(demo, path=path).poses
    bpy.ops.neural_ik.live_start()
    hand = next(o for o in bpy.data.objects if o.neural_ik_target.bone == "LeftHand")
    hand.matrix_world = Matrix.Translation((0.1, -0.1, 0.3)) @ hand.matrix_world
    bpy.context.view_layer.update()
    bpy.context.view_layer.objects.active = demo
    solved = np.array([pb.matrix for pb in demo.pose.bones])
    assert max(difference(before, run(demo, path=path).poses)) < BACK
    bpy.context.view_layer.update()
    assert np.abs(np.array([pb.matrix for pb in demo.pose.bones]) - solved).max() < HOST
    hand.matrix_world = Matrix.Translation((0, 0, -0.1)) @ hand.matrix_world  # and it goes on afterwards
    bpy.context.view_layer.update()
    assert np.abs(np.array([pb.matrix for pb in demo.pose.bones]) - solved).max() > 0.01


def begun(demo: Any, path: str, steps: int = 12) -> Any:
    """An extraction that has made ``steps`` steps."""
    import bpy

    data = wing("blender.data.extract")
    work = data.extract(bpy.context.scene, demo, data.moving_actions(demo), data.Options(path=path))
    for _ in range(steps):
        next(work)
    return work


def finish(work: Any) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def _edit_mode(demo: Any) -> None:
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")


def _rest_position(demo: Any) -> None:
    demo.data.pose_position = "REST"


def _another_frame(demo: Any) -> None:
    import bpy

    bpy.context.scene.frame_set(33)


def _another_scene(demo: Any) -> None:
    import bpy

    bpy.context.window.scene = bpy.data.scenes.new("Other")


def _hidden(demo: Any) -> None:
    demo.hide_set(True)


def _new_constraint(demo: Any) -> None:
    constraint = demo.pose.bones["LeftShin"].constraints.new("COPY_ROTATION")
    constraint.target, constraint.subtarget = demo, "RightShin"


def _deleted_bone(demo: Any) -> None:
    edit(demo, lambda bones: bones.remove(bones["LeftToeBase"]))


def _another_action(demo: Any) -> None:
    import bpy

    demo.animation_data.action = bpy.data.actions["kick"]


def _deleted_action(demo: Any) -> None:
    import bpy

    for action in list(bpy.data.actions):
        if action.name != "walk":
            bpy.data.actions.remove(action)


def _rotation_mode(demo: Any) -> None:
    demo.pose.bones["LeftArm"].rotation_mode = "XYZ"


def _parent(demo: Any) -> None:
    import bpy

    demo.parent = bpy.data.objects.new("Parent", None)


def _saved(demo: Any) -> None:
    import bpy

    bpy.ops.wm.save_as_mainfile(filepath=tempfile.mkdtemp() + "/meanwhile.blend", copy=True)


def _undone(demo: Any) -> None:
    import bpy

    for handler in (*bpy.app.handlers.undo_pre, *bpy.app.handlers.undo_post):  # Blender calls both around a step
        handler(bpy.context.scene, None)


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        ("evaluated", _edit_mode, "into Edit Mode"),
        ("fast", _edit_mode, "into Edit Mode"),
        ("evaluated", _rest_position, "Rest Position"),
        ("evaluated", _another_frame, "another frame"),
        ("evaluated", _another_scene, "another scene"),
        ("evaluated", _hidden, "hidden"),
        ("evaluated", _new_constraint, "constraints of bones"),
        ("fast", _new_constraint, "constraints of bones"),
        ("evaluated", _deleted_bone, "bones of"),
        ("fast", _deleted_bone, "bones of"),
        ("evaluated", _another_action, "another action was assigned"),
        ("evaluated", _deleted_action, "deleted"),
        ("fast", _deleted_action, "deleted"),
        ("fast", _rotation_mode, "rotation modes"),
        ("evaluated", _parent, "parent of"),
        ("evaluated", _saved, "file was saved"),
        ("evaluated", _undone, "undone"),
        ("fast", _undone, "undone"),
    ],
)
def test_what_changes_meanwhile_stops_an_extraction_in_words(demo: Any, path: str, change: Any, words: str) -> None:
    import bpy

    scene, walk = bpy.context.scene, bpy.data.actions["walk"]
    actions = wing("blender.host.actions")
    actions.assign(demo.animation_data, walk, actions.slots_for(walk, demo)[0])
    scene.frame_set(7, subframe=0.25)
    demo.pose.bones["Head"].rotation_quaternion = (0.9, 0.1, 0.2, 0.3)
    bpy.context.view_layer.update()
    head = np.array(demo.pose.bones["Head"].matrix_basis)
    work = begun(demo, path)
    change(demo)
    with pytest.raises(ValueError, match=words):
        finish(work)
    if change is _edit_mode:
        bpy.ops.object.mode_set(mode="OBJECT")
    if change is not _another_scene:
        assert (scene.frame_current, scene.frame_subframe) == (7, 0.25)
    if path == "evaluated":  # else Blender itself has evaluated the frame again
        assert np.allclose(np.array(demo.pose.bones["Head"].matrix_basis), head, atol=1e-5)
    kept = bpy.data.actions["kick"] if change is _another_action else walk
    assert demo.animation_data.action == kept
    assert all(m.show_viewport for o in bpy.data.objects for m in o.modifiers)
    assert not wing("blender.host.evaluating").under_way()


def test_a_deleted_character_stops_an_extraction_in_words(demo: Any) -> None:
    import bpy

    work = begun(demo, "evaluated")
    bpy.context.scene.frame_current = 5
    name = demo.name
    bpy.data.objects.remove(demo)
    with pytest.raises(ValueError, match=f"{name} was deleted"):
        finish(work)
    assert not wing("blender.host.evaluating").under_way()


def test_a_file_saved_during_an_extraction_holds_the_scene_as_it_was(demo: Any, tmp_path: Path) -> None:
    import bpy

    bpy.context.scene.frame_set(7)
    before, name = snapshot(demo), demo.name
    before.pop("action"), before.pop("slot"), before.pop("active")
    work = begun(demo, "evaluated", 90)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "x.blend"), copy=True)
    work.close()
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "x.blend"))
    after = snapshot(bpy.data.objects[name])
    assert {key: after[key] for key in before} == before
