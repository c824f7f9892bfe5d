# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of the chest and of what the head looks at, in natural posing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .test_live_ik import apart, began, character, live, matrices, target, update, weights
from .test_live_natural import HIT, head

__all__ = ["began", "character", "weights"]  # fixtures


def switched_on(kind: str, bone: str) -> Any:
    goal = target(bone, kind)
    assert goal.hide_viewport
    assert not goal.neural_ik_target.use
    goal.neural_ik_target.use = True
    update()
    assert not goal.hide_viewport
    return goal


def moved(goal: Any, way: list[float], frames: int = 12) -> None:
    for _ in range(frames):
        goal.location = np.array(goal.location) + np.array(way) / frames
        update()


def face(ob: Any) -> np.ndarray:
    """Where the head faces, world space."""
    from mathutils import Vector

    bone = ob.pose.bones["Head"]
    rest = ob.data.bones["Head"].matrix_local.to_3x3()
    turn = (ob.matrix_world.to_3x3() @ bone.matrix.to_3x3() @ rest.inverted()).normalized()
    return np.array(turn @ Vector((0, -1, 0)))


def test_switching_them_on_changes_little(began: Any) -> None:
    before = matrices(began)
    switched_on("CHEST", "Chest")
    switched_on("LOOK", "Head")
    assert apart(matrices(began), before) < np.radians(3)


def test_the_chest_follows_its_target_while_the_feet_stay(began: Any) -> None:
    feet = {foot: head(began, foot) for foot in ("LeftFoot", "RightFoot")}
    chest = head(began, "Spine2")
    moved(switched_on("CHEST", "Chest"), [0.1, -0.05, -0.1])
    assert np.linalg.norm(head(began, "Spine2") - chest - [0.1, -0.05, -0.1]) < 0.02
    for foot, place in feet.items():
        assert np.linalg.norm(head(began, foot) - place) < HIT


def test_the_face_turns_to_what_it_looks_at_and_back(began: Any) -> None:
    before = matrices(began)
    goal = switched_on("LOOK", "Head")
    place = np.array(goal.location)
    moved(goal, [0.8, 0.1, -0.3])
    to = np.array(goal.location) - head(began, "Head")
    assert np.degrees(np.arccos(face(began) @ to / np.linalg.norm(to))) < 12  # its eyes are above the bone
    goal.location = place  # as when the drag is cancelled
    update()
    assert apart(matrices(began), before) < np.radians(3)
    goal.neural_ik_target.use = False
    update()
    assert goal.hide_viewport
    assert apart(matrices(began), before) < np.radians(3)


def test_they_come_back_by_undo_and_from_a_file(began: Any, tmp_path: Path) -> None:
    import bpy

    name = began.name
    goal = switched_on("CHEST", "Chest")
    bpy.ops.ed.undo_push(message="on")
    before = matrices(began)
    moved(goal, [0.0, -0.1, -0.1])
    bpy.ops.ed.undo_push(message="moved")
    after = matrices(began)
    assert apart(after, before) > np.radians(3)
    bpy.ops.ed.undo()
    update()
    assert apart(matrices(bpy.data.objects[name]), before) < 1e-3
    bpy.ops.ed.redo()
    update()
    assert apart(matrices(bpy.data.objects[name]), after) < 1e-3
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "live.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "live.blend"))
    assert apart(matrices(bpy.data.objects[name]), after) < 1e-3
    assert target("Chest", "CHEST").neural_ik_target.use


def test_learned_posing_leaves_them_alone(began: Any) -> None:
    import bpy

    goal = switched_on("CHEST", "Chest")
    bpy.data.collections[live().collection].neural_ik_live.posing = "LEARNED"
    update()
    before = matrices(began)
    moved(goal, [0.0, -0.2, 0.0], 3)
    assert apart(matrices(began), before) < 1e-3
