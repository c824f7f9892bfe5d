# SPDX-License-Identifier: GPL-3.0-or-later
"""A made motion as a ghost: it changes nothing until it is accepted, and then only the generated frames."""

from __future__ import annotations

from collections.abc import Generator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_extract import snapshot

KEYED = (1, 20, 37)
"""Frames of the walk that keep their keys."""


def drive(work: Generator[Any, None, Any]) -> Any:
    """What a job returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def curves(ob: Any) -> list[Any]:
    actions = wing("blender.host.actions")
    return list(actions.curves(ob.animation_data.action, getattr(ob.animation_data, "action_slot", None)))


def keys_of(ob: Any) -> dict[tuple[str, int], Any]:
    """Every key of the assigned action."""
    return {(c.data_path, c.array_index): wing("blender.host.keyframes").read_keys(c) for c in curves(ob)}


def keep_keys(ob: Any, frames: tuple[int, ...]) -> None:
    """Remove all other keys of the assigned action."""
    keyframes = wing("blender.host.keyframes")
    for curve in curves(ob):
        keys = keyframes.read_keys(curve)
        rows = np.isin(keys["co"][:, 0], frames)
        keyframes.write_keys(curve, {name: values[rows] for name, values in keys.items()})


def require_kept(ob: Any, before: dict[tuple[str, int], Any], frames: tuple[int, ...]) -> None:
    """Every key that was there on ``frames`` is there, byte for byte."""
    now = keys_of(ob)
    for path, old in before.items():
        kept = np.isin(old["co"][:, 0], frames)
        rows = np.isin(now[path]["co"][:, 0], old["co"][kept, 0]), kept
        assert all(np.array_equal(now[path][name][rows[0]], old[name][rows[1]]) for name in old), path


def heads(ob: Any, motion: Any, frames: Any) -> np.ndarray:
    """(F, J, 3) heads as Blender shows them."""
    import bpy

    out = []
    for frame in frames:
        bpy.context.scene.frame_set(int(frame))
        out.append(wing("blender.host.accepting")._heads(ob, motion.rig))
    return np.array(out)


@pytest.fixture
def hopping(demo: Any) -> Any:
    """The demo character with three keyed poses of its walk, and a ghost that hops between them."""
    import bpy

    keep_keys(demo, KEYED)
    shown_motion, ghost = wing("blender.host.shown_motion"), wing("blender.host.ghost")
    shown = drive(shown_motion.read(bpy.context, demo, range(1, 38)))
    generated = ~np.isin(shown.frames, KEYED)
    root = shown.root.copy()
    root[generated, 2] += 0.1 * np.abs(np.sin(np.arange(37) / 3))[generated]
    made = shown_motion.motion(demo, shown, shown.frames, shown.turns, root, generated)
    ghost.show("Fill", "MOTION", demo, made, ("before 1", "after 2"))
    yield demo, made
    ghost.drop()
    ghost.settings().into = "KEYS"


def test_a_ghost_follows_the_scene_and_changes_nothing_of_it(hopping: Any) -> None:
    import bpy

    ob, _ = hopping
    ghost = wing("blender.host.ghost")
    before = snapshot(ob), keys_of(ob)
    shown = ghost.current("MOTION")
    assert ghost.current("FEET") is None
    poses = [ghost.lines(shown, ob, frame)[0] for frame in (1, 10, 37, 90)]
    assert np.abs(poses[0] - poses[1]).max() > 0.05
    np.testing.assert_array_equal(poses[2], poses[3])  # beyond its frames the nearest pose stays, dimmed
    assert "frames 2 to 36" in ghost.words(shown)[0]
    ghost.settings().aside = 1.0
    moved, _ = ghost.lines(shown, ob, 10)
    np.testing.assert_allclose(moved - poses[1], np.tile([1.0, 0, 0], (len(moved), 1)), atol=1e-6)
    ghost.settings().aside = 0.0
    bpy.context.scene.frame_set(bpy.context.scene.frame_current)
    assert snapshot(ob) == before[0]
    require_kept(ob, before[1], tuple(range(100)))
    assert bpy.ops.neural_ik.ghost_discard() == {"FINISHED"}
    assert ghost.current() is None
    assert not bpy.ops.neural_ik.ghost_accept.poll()


def test_accepted_keys_show_the_ghost_and_leave_every_other_key_byte_for_byte(hopping: Any) -> None:
    import bpy

    ob, made = hopping
    before = keys_of(ob)
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    assert wing("blender.host.ghost").current() is None
    require_kept(ob, before, KEYED)
    assert np.abs(heads(ob, made, made.frames) - made.heads).max() < 1e-4
    assert all(len(keys["co"]) == 37 for keys in keys_of(ob).values())


def test_fewer_keys_stay_near_the_ghost_and_a_bone_without_keys_keeps_its_pose_outside(hopping: Any) -> None:
    import bpy

    ob, made = hopping
    actions = wing("blender.host.actions")
    action, slot = ob.animation_data.action, getattr(ob.animation_data, "action_slot", None)
    for curve in [c for c in curves(ob) if "Head" in c.data_path]:
        actions.remove_curve(action, slot, curve)
    ob.pose.bones["Head"].rotation_quaternion = (0.8, 0.6, 0, 0)
    wing("blender.host.ghost").settings().into = "THIN"
    outside = heads(ob, made, (1, 20, 37, 60))
    before = keys_of(ob)
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    require_kept(ob, before, KEYED)
    np.testing.assert_allclose(heads(ob, made, (1, 20, 37, 60)), outside, atol=1e-5)
    assert ob.pose.bones["Head"].rotation_quaternion[0] == pytest.approx(0.8, abs=1e-4)
    off = np.linalg.norm(heads(ob, made, made.frames) - made.heads, axis=-1)
    assert 0 < off.max() < 0.02
    counts = {len(keys["co"]) for keys in keys_of(ob).values()}
    assert max(counts) < 25


def test_an_nla_strip_shows_the_ghost_and_the_action_below_stays(hopping: Any) -> None:
    import bpy

    ob, made = hopping
    wing("blender.host.ghost").settings().into = "NLA"
    action, before = ob.animation_data.action, keys_of(ob)
    assert bpy.ops.neural_ik.ghost_accept() == {"FINISHED"}
    assert np.abs(heads(ob, made, made.frames) - made.heads).max() < 1e-4
    assert [track.strips[0].action == action for track in ob.animation_data.nla_tracks] == [True, False]
    wing("blender.host.actions").assign(
        ob.animation_data, action, action.slots[0] if hasattr(action, "slots") else None
    )
    require_kept(ob, before, tuple(range(100)))


@pytest.mark.parametrize("into", ["KEYS", "NLA"])
def test_ended_half_way_nothing_was_written(hopping: Any, into: str) -> None:
    import bpy

    ob, made = hopping
    before, scene, actions = keys_of(ob), snapshot(ob), set(bpy.data.actions)
    work = wing("blender.host.accepting").accept(bpy.context, ob, made, into, "Fill")
    said = [next(work).text for _ in range(20)]
    assert any(text.startswith("playing frame") for text in said), "the keys are there by now"
    work.close()
    assert set(bpy.data.actions) == actions
    assert not ob.animation_data.nla_tracks
    assert snapshot(ob) == scene
    require_kept(ob, before, tuple(range(100)))
    assert all(len(keys["co"]) == len(KEYED) for keys in keys_of(ob).values())


def test_keys_that_cannot_show_the_ghost_are_refused_or_taken_back(hopping: Any) -> None:
    import bpy

    ob, _ = hopping
    before = keys_of(ob)

    def moved(scene: Any, *_: object) -> None:
        ob.pose.bones["LeftArm"].rotation_quaternion = (0, 1, 0, 0)

    bpy.app.handlers.frame_change_post.append(moved)
    try:
        with pytest.raises(RuntimeError, match="something else moves these bones"):
            bpy.ops.neural_ik.ghost_accept()
    finally:
        bpy.app.handlers.frame_change_post.remove(moved)
    require_kept(ob, before, tuple(range(100)))
    curves(ob)[0].lock = True
    with pytest.raises(RuntimeError, match="locked"):
        bpy.ops.neural_ik.ghost_accept()
    assert wing("blender.host.ghost").current() is not None


def test_undo_another_file_and_another_rest_pose_drop_the_ghost(hopping: Any, extension: ModuleType) -> None:
    import bpy

    ob, made = hopping
    ghost = wing("blender.host.ghost")
    dropped = [handler for handler in bpy.app.handlers.undo_post if handler.__module__ == ghost.__name__]
    assert len(dropped) == 1
    dropped[0](bpy.context.scene)
    assert ghost.current() is None
    ghost.show("Fill", "MOTION", ob, made, ())
    ob.pose.bones["Head"].rotation_mode = "XYZ"
    assert ghost.current() is None
    ghost.show("Fill", "MOTION", ob, made, ())
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    assert ghost.current() is None


def test_a_character_is_read_only_as_far_as_its_bones_move_it(demo: Any) -> None:
    import bpy

    shown_motion = wing("blender.host.shown_motion")
    frame = bpy.context.scene.frame_current
    demo.keyframe_insert("location", frame=1)
    demo.location.x = 3
    demo.keyframe_insert("location", frame=9)
    with pytest.raises(ValueError, match="itself moves"):
        drive(shown_motion.read(bpy.context, demo, range(1, 9)))
    assert bpy.context.scene.frame_current == frame
    demo.data.pose_position = "REST"
    with pytest.raises(ValueError, match="Rest Position"):
        drive(shown_motion.read(bpy.context, demo, range(1, 9)))
