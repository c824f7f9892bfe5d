# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel Fix Feet: contacts as markers that may be moved, sliding feet that stand, and sound motion that stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_ghost import curves, heads, keys_of, require_kept

DRIFT = 0.008
"""[m] a frame by which the drifting walk slides ahead."""


def ghost() -> Any:
    return wing("blender.host.ghost").current("FEET")


@pytest.fixture
def drifting(demo: Any) -> Any:
    """The demo character, whose walk slides to its left."""
    way = np.array(demo.data.bones["Hips"].matrix_local)[:3, :3].T @ [DRIFT, 0, 0]
    for curve in curves(demo):
        if curve.data_path.endswith("location"):
            for point in curve.keyframe_points:
                point.co[1] += way[curve.array_index] * point.co[0]
            curve.update()
    yield demo
    wing("blender.host.ghost").drop()


def test_contacts_become_markers_and_markers_contacts(demo: Any) -> None:
    import bpy

    markers = wing("blender.host.contact_markers")
    action = demo.animation_data.action
    contact = np.zeros((30, 2), bool)
    contact[:6, 0] = contact[12:20, 0] = contact[4:, 1] = True
    assert markers.write(action, 1, contact) == 3
    np.testing.assert_array_equal(markers.read(action, 1, 30), contact)
    np.testing.assert_array_equal(markers.read(action, 11, 15), contact[10:25])
    next(m for m in action.pose_markers if m.name == "Left Foot up" and m.frame == 21).frame = 25
    assert markers.read(action, 1, 30)[:, 0].sum() == 6 + 12
    action.pose_markers.new("hit").frame = 9
    bpy.context.scene.frame_set(7)
    assert bpy.ops.neural_ik.feet_mark(what="Left Hand up") == {"FINISHED"}
    assert markers.write(action, 1, np.ones((30, 2), bool)) == 2
    assert markers.read(action, 1, 30).all()
    assert markers.read(action, 1, 30, markers.HANDS).sum(axis=0).tolist() == [6, 0]
    assert bpy.ops.neural_ik.feet_forget() == {"FINISHED"}
    assert [marker.name for marker in action.pose_markers] == ["hit"]
    assert markers.read(action, 1, 30) is None


def test_sliding_feet_are_fixed_as_a_ghost_and_as_keys(drifting: Any) -> None:
    import bpy

    before = keys_of(drifting)
    assert bpy.ops.neural_ik.feet_contacts() == {"FINISHED"}
    action = drifting.animation_data.action
    assert wing("blender.host.contact_markers").own(action)
    assert bpy.ops.neural_ik.feet_fix() == {"FINISHED"}
    made = ghost()
    slides = [float(word) for word in made.figures[0].replace(",", "").split() if word.replace(".", "").isdigit()]
    assert slides[0] < 0.5 * slides[1]
    assert "Contacts as marked" in made.figures
    require_kept(drifting, before, tuple(range(200)))
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    first = next(iter(before))
    assert len(keys_of(drifting)[first]["co"]) == len(before[first]["co"])
    assert bpy.ops.neural_ik.feet_fix() == {"FINISHED"}
    again = ghost()
    if again is not None:  # what was fixed hardly moves again
        assert np.abs(again.heads - made.heads).max() < 0.03


def test_feet_stand_where_markers_say_so(drifting: Any) -> None:
    import bpy

    contacts, markers = wing("core.contacts"), wing("blender.host.contact_markers")
    assert bpy.ops.neural_ik.feet_contacts() == {"FINISHED"}
    action = drifting.animation_data.action
    frames = len(keys_of(drifting)['pose.bones["Hips"].location', 0]["co"])
    found = markers.read(action, 1, frames)
    longest = max((last - first, first, foot) for foot in (0, 1) for first, last in contacts.runs(found[:, foot]))
    count, first, foot = longest
    kept = np.zeros_like(found)
    kept[first + 2 : first + count, foot] = True
    markers.write(action, 1, kept)
    markers.add(action, "Right Hand down", 12)
    markers.add(action, "Right Hand up", 17)
    assert bpy.ops.neural_ik.feet_fix() == {"FINISHED"}
    motion = ghost().motion
    hand = motion.rig.skeleton.names.index("RightHand")
    shown = heads(drifting, motion, range(12, 17))[:, hand]
    ways = [np.linalg.norm(np.diff(places, axis=0), axis=1).sum() for places in (motion.heads[11:16, hand], shown)]
    assert ways[0] < 0.6 * ways[1]  # as far as the arm reaches
    toe = motion.rig.skeleton.names.index(("LeftToeBase", "RightToeBase")[foot])
    middle = slice(first + count // 2, first + count // 2 + 3)
    assert np.linalg.norm(np.diff(motion.heads[middle, toe, :2], axis=0), axis=1).max() < 0.5 * DRIFT


def test_sound_motion_and_motion_that_cannot_be_read_change_nothing(demo: Any) -> None:
    import bpy

    before = keys_of(demo)
    for _ in range(2):
        bpy.ops.neural_ik.feet_clean()
        if ghost() is None:
            break
        bpy.ops.neural_ik.ghost_discard()
    require_kept(demo, before, tuple(range(200)))
    action = demo.animation_data.action
    demo.neural_ik_feet.frames = "SCENE"
    bpy.context.scene.frame_start = bpy.context.scene.frame_end = 5
    with pytest.raises(RuntimeError, match="expected 2 to 20000 frames, got 1"):
        bpy.ops.neural_ik.feet_fix()
    demo.animation_data.action = None
    with pytest.raises(RuntimeError, match="has no current action"):
        bpy.ops.neural_ik.feet_contacts()
    assert not action.pose_markers
