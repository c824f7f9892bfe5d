# SPDX-License-Identifier: GPL-3.0-or-later
"""A prop that one hand carries and the other holds: the other hand's target moves with the body, and both agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .test_live_ik import began, character, matrices, missed, target, update, weights
from .test_live_natural import drag, head

__all__ = ["began", "character", "weights"]  # fixtures

HELD = 1e-3


def carried(ob: Any, how: str) -> Any:
    """A staff in the right hand, by a parent or a constraint, on which the left hand's target is where the left hand is."""
    import bpy
    from mathutils import Matrix

    staff = bpy.data.objects.new("Staff", None)
    bpy.context.scene.collection.objects.link(staff)
    hand = ob.matrix_world @ ob.pose.bones["RightHand"].matrix
    if how == "PARENT":
        staff.parent, staff.parent_type, staff.parent_bone = ob, "BONE", "RightHand"
        staff.matrix_world = hand
    else:
        constraint = staff.constraints.new(how)
        constraint.target, constraint.subtarget = ob, "RightHand"
        if how == "CHILD_OF":
            constraint.inverse_matrix = (ob.matrix_world @ ob.pose.bones["RightHand"].matrix).inverted()
            staff.matrix_basis = hand
    update()
    other = target("LeftHand")
    other.neural_ik_target.use = True
    place = other.matrix_world.copy()
    other.parent = staff
    other.matrix_parent_inverse = Matrix()
    other.matrix_basis = staff.matrix_world.inverted() @ place
    update()
    assert missed(ob, "LeftHand") < HELD
    return staff


def on_staff(ob: Any, staff: Any) -> np.ndarray:
    """Where the left hand is, seen from the staff."""
    return np.array(staff.matrix_world.inverted() @ ob.matrix_world @ ob.pose.bones["LeftHand"].head)


@pytest.mark.parametrize("how", ["PARENT", "CHILD_OF", "COPY_TRANSFORMS"])
def test_both_hands_stay_on_a_prop_while_one_of_them_is_dragged(began: Any, how: str) -> None:
    staff = carried(began, how)
    before, place = on_staff(began, staff), head(began, "LeftHand")
    goal = target("RightHand")
    for _ in range(8):
        goal.location.y -= 0.02
        goal.location.z += 0.02
        update()
        assert missed(began, "LeftHand") < HELD
        assert missed(began, "RightHand") < HELD
        assert np.linalg.norm(on_staff(began, staff) - before) < HELD
    assert np.linalg.norm(head(began, "LeftHand") - place) > 0.1, "it was carried along"


def test_a_prop_stays_in_both_hands_where_the_body_is_changed_at_once(began: Any) -> None:
    staff = carried(began, "PARENT")
    before = on_staff(began, staff)
    drag("RightHand", head(began, "RightHand") + [0, -0.2, 0.1], frames=1)
    assert np.linalg.norm(on_staff(began, staff) - before) < HELD


def test_a_baked_prop_stays_in_both_hands(began: Any) -> None:
    import bpy

    staff = carried(began, "CHILD_OF")
    before = on_staff(began, staff)
    drag("RightHand", head(began, "RightHand") + [0, -0.1, 0.15], frames=4)
    frames = list(range(16, 25))
    shown = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        assert np.linalg.norm(on_staff(began, staff) - before) < HELD
        shown.append(matrices(began))
    assert bpy.ops.neural_ik.live_bake(first=16, last=24, into="NEW") == {"FINISHED"}
    for frame, seen in zip(frames, shown, strict=True):
        bpy.context.scene.frame_set(frame)
        update()
        assert np.linalg.norm(on_staff(began, staff) - before) < HELD
        assert np.abs(matrices(began)[:, :3, 3] - seen[:, :3, 3]).max() < 2 * HELD
