# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bake or a key must not touch: other characters, frames outside the range; and what changed meanwhile is told as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_live_bake import SEEN, action_keys, curves_of, drag_hand, seen, state, tweak
from .test_live_ik import channels, character, live, matrices, settings, target, update, weights

__all__ = ["character", "weights"]  # fixtures
pytestmark = pytest.mark.slow

PLAYS_THE_SAME = 1e-4
"""[m, or parts of a rotation matrix] what nobody sees."""


def slot_of(action: Any, ob: Any) -> Any:
    return wing("blender.host.actions").slots_for(action, ob)[0]


def add_strip(ob: Any, action: Any, start: int = 1) -> Any:
    """A strip of an action on a new track."""
    strip = ob.animation_data.nla_tracks.new().strips.new(action.name, start, action)
    if hasattr(strip, "action_slot"):
        strip.action_slot = slot_of(action, ob)
    return strip


def layer(ob: Any, blend: str, head: dict[int, tuple[float, ...]]) -> Any:
    """A walk as a strip, and an action with a few keys of the head above it."""
    import bpy

    actions, keyframes = wing("blender.host.actions"), wing("blender.host.keyframes")
    walk, data = ob.animation_data.action, ob.animation_data
    data.action = None
    add_strip(ob, walk)
    made, slot = actions.new("layer", ob.name)
    actions.assign(data, made, slot)
    frames = np.array(list(head), np.float32)
    keyframes.write_bones(made, slot, frames, {("Head", "rotation_quaternion"): np.array(list(head.values()))})
    data.action_blend_type = blend
    bpy.context.scene.frame_set(20)
    return made


def played(ob: Any, frames: Any) -> dict[float, np.ndarray]:
    """Frame -> pose matrices of all bones."""
    import bpy

    out = {}
    for frame in frames:
        whole = int(frame // 1)
        bpy.context.scene.frame_set(whole, subframe=frame - whole)
        update()
        out[float(frame)] = np.array([np.array(pb.matrix) for pb in ob.pose.bones])
    return out


def differ(ob: Any, before: dict[float, np.ndarray]) -> list[float]:
    now = played(ob, before)
    return [f for f, pose in before.items() if not np.abs(now[f] - pose).max() <= PLAYS_THE_SAME]


def outside(first: float, last: float) -> list[float]:
    """Every quarter of a frame from -3 to 60 that is not within a range."""
    return [f for f in np.arange(-3, 60, 0.25).tolist() if not first <= f <= last]


# ---- others


def another_character(ob: Any) -> str:
    import bpy

    other = ob.copy()
    bpy.context.scene.collection.objects.link(other)
    update()
    return str(other.name)


def a_strip_of_another(ob: Any) -> str:
    import bpy

    other = bpy.data.objects[another_character(ob)]
    walk = ob.animation_data.action
    other.animation_data.action = None
    strip = add_strip(other, walk)
    return f"{other.name}, in its NLA strip {strip.name}"


def an_action_constraint(ob: Any) -> str:
    import bpy

    other = bpy.data.objects[another_character(ob)]
    action = ob.animation_data.action
    other.animation_data.action = None
    made = other.pose.bones["LeftArm"].constraints.new("ACTION")
    made.action = action
    if hasattr(made, "action_slot"):
        made.action_slot = slot_of(action, ob)
    return f"LeftArm of {other.name}, through its constraint {made.name}"


@pytest.mark.parametrize("share", [another_character, a_strip_of_another, an_action_constraint])
def test_keys_in_an_action_that_also_moves_another_are_refused_by_its_name(
    character: Any, share: Callable[[Any], str]
) -> None:
    import bpy

    who = share(character)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = state(character)
    for operator in (lambda: bpy.ops.neural_ik.live_bake(first=10, last=15), bpy.ops.neural_ik.live_key):
        with pytest.raises(RuntimeError, match=rf"also plays on {who}, .* make it a single user first"):
            operator()
    assert state(character) == before
    shared = action_keys(character.animation_data.action)
    shown = seen(character, 12)
    bpy.context.scene.frame_set(20)
    assert bpy.ops.neural_ik.live_bake(first=10, last=15, into="NEW") == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    assert shared in [action_keys(action) for action in bpy.data.actions], "the shared action is as it was"


def test_a_keying_set_of_the_user_does_not_key_an_action_that_also_moves_another(character: Any) -> None:
    import bpy

    another_character(character)
    own = bpy.context.scene.keying_sets.new(idname="own", name="own")
    own.paths.add(character, 'pose.bones["Head"].rotation_quaternion')
    bpy.context.scene.keying_sets.active = own
    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = state(character)
    with pytest.raises(RuntimeError, match="also plays on"):
        bpy.ops.neural_ik.live_key()
    assert state(character) == before


def test_another_slot_of_the_same_action_is_nobody_elses_loss(character: Any) -> None:
    import bpy

    actions = wing("blender.host.actions")
    if not actions.SLOTTED:
        pytest.skip("this Blender has no slots")
    other = bpy.data.objects[another_character(character)]
    walk = character.animation_data.action
    actions.assign(other.animation_data, walk, walk.slots.new("OBJECT", "other"))
    other.pose.bones["Head"].keyframe_insert("rotation_quaternion", frame=1)
    before = played(other, (1, 12, 20))
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert bpy.ops.neural_ik.live_bake(first=10, last=15) == {"FINISHED"}
    assert not differ(other, before)


# ---- outside the range


def test_a_single_frame_baked_to_an_nla_track_shows_on_no_other(character: Any) -> None:
    import bpy

    before = played(character, outside(12, 12.12))
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    assert bpy.ops.neural_ik.live_bake(first=12, last=12, into="NLA") == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    assert differ(character, before) == []


def test_a_single_frame_baked_over_tracks_shows_on_no_other_whole_frame(character: Any) -> None:
    import bpy

    walk = character.animation_data.action
    character.animation_data.action = None
    add_strip(character, walk)
    before = played(character, [f for f in range(-3, 60) if f != 12])
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    assert bpy.ops.neural_ik.live_bake(first=12, last=12) == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    assert differ(character, before) == []


@pytest.mark.parametrize(("blend", "rest"), [("COMBINE", (1.0, 0, 0, 0)), ("ADD", (0.0, 0, 0, 0))])
@pytest.mark.parametrize("into", ["ACTION", "NEW"])
def test_a_layer_changes_nothing_before_and_after_the_range(
    character: Any, blend: str, rest: tuple[float, ...], into: str
) -> None:
    import bpy

    layer(character, blend, dict.fromkeys((1, 9, 16, 40), rest))
    before = played(character, outside(9, 16))
    bpy.context.scene.frame_set(12)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    assert bpy.ops.neural_ik.live_bake(first=10, last=15, into=into) == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    assert differ(character, before) == []


def test_a_layer_that_replaces_what_is_below_is_refused_where_it_would_hold_over_it(character: Any) -> None:
    import bpy

    layer(character, "REPLACE", {1: (1, 0, 0, 0), 40: (1, 0, 0, 0)})
    before, kept = played(character, (-2, 5, 30)), state(character)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    with pytest.raises(RuntimeError, match=r"outside the range, where they hold .* Bake to an NLA Track"):
        bpy.ops.neural_ik.live_bake(first=10, last=15)
    assert state(character) == kept
    assert bpy.ops.neural_ik.live_bake(first=10, last=15, into="NLA") == {"FINISHED"}
    assert differ(character, before) == []


def test_what_nothing_else_keys_keeps_its_pose_outside_a_baked_nla_track(character: Any) -> None:
    import bpy

    actions, data = wing("blender.host.actions"), character.animation_data
    slot = getattr(data, "action_slot", None)
    for curve in curves_of(character, "LeftArm") + curves_of(character, "location"):
        actions.remove_curve(data.action, slot, curve)
    character.pose.bones["LeftArm"].rotation_quaternion = (0.9, 0.1, 0.3, 0)
    character.pose.bones["Hips"].location = (0, 0.1, 0.1)
    update()
    before = played(character, outside(10, 15))
    bpy.context.scene.frame_set(12)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    assert bpy.ops.neural_ik.live_bake(first=10, last=15, into="NLA") == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    assert differ(character, before) == []


def test_an_action_of_half_influence_keeps_it_beside_a_baked_nla_track(character: Any) -> None:
    import bpy

    layer(character, "REPLACE", {1: (0.8, 0.6, 0, 0)})
    character.animation_data.action_influence = 0.5
    before = played(character, outside(10, 15))
    bpy.context.scene.frame_set(12)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert bpy.ops.neural_ik.live_bake(first=10, last=15, into="NLA") == {"FINISHED"}
    assert differ(character, before) == []


def test_a_layer_that_cannot_show_the_pose_says_so(character: Any) -> None:
    import bpy

    layer(character, "MULTIPLY", {1: (1, 1, 1, 1)})
    kept = state(character)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    with pytest.raises(RuntimeError, match=r"Bake to an NLA Track|bake to an NLA Track"):
        bpy.ops.neural_ik.live_bake(first=10, last=15)
    assert state(character) == kept


def test_keys_between_frames_stay_outside_the_range(character: Any) -> None:
    import bpy

    keyframes, data = wing("blender.host.keyframes"), character.animation_data
    times = np.arange(1, 39.1, 0.5)
    turns = np.stack([np.cos(times / 9), np.sin(times / 9), 0 * times, 0 * times], axis=1)
    slot = getattr(data, "action_slot", None)
    keyframes.write_bones(data.action, slot, times, {("Head", "rotation_quaternion"): turns})
    before = action_keys(data.action)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    bpy.context.scene.frame_set(12)
    assert bpy.ops.neural_ik.live_bake(first=10, last=15) == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    after = action_keys(data.action)
    for key in before:
        assert [k for k in after[key] if not 10 <= k[0][0] <= 15] == [k for k in before[key] if not 10 <= k[0][0] <= 15]


def test_key_beyond_a_cycle_is_refused_as_it_would_change_all_of_it(character: Any) -> None:
    import bpy

    for curve in curves_of(character, ""):
        curve.modifiers.new("CYCLES")
    bpy.context.scene.tool_settings.use_keyframe_cycle_aware = False
    bpy.context.scene.frame_set(50)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    kept = state(character)
    with pytest.raises(RuntimeError, match="would change every repetition: key within them"):
        bpy.ops.neural_ik.live_key()
    assert state(character) == kept


def test_key_beside_a_tweaked_strip_says_where_the_strip_plays(character: Any) -> None:
    import bpy

    tweak(character, 10)
    bpy.context.scene.frame_set(25)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    kept = state(character)
    with pytest.raises(
        RuntimeError, match="is being tweaked, plays frames 1 to 11: key within them, or leave Tweak Mode"
    ):
        bpy.ops.neural_ik.live_key()
    assert state(character) == kept


# ---- changed meanwhile


def a_bone(ob: Any) -> None:
    import bpy

    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    ob.data.edit_bones.remove(ob.data.edit_bones["RightHand"])
    bpy.ops.object.mode_set(mode="OBJECT")


def a_target(ob: Any) -> None:
    import bpy

    bpy.data.objects.remove(target("LeftFoot"))


def all_targets(ob: Any) -> None:
    import bpy

    bpy.data.collections.remove(settings().id_data)


def the_character(ob: Any) -> None:
    import bpy

    bpy.data.objects.remove(ob)


def the_armature(ob: Any) -> None:
    import bpy

    bpy.data.armatures.remove(ob.data)


def the_scene(ob: Any) -> None:
    import bpy

    scene = bpy.context.scene
    bpy.data.scenes.new("other")
    bpy.data.scenes.remove(scene)


def its_animation(ob: Any) -> None:
    ob.animation_data_clear()


def rest(ob: Any) -> None:
    ob.data.pose_position = "REST"


def mode(ob: Any) -> None:
    ob.pose.bones["LeftArm"].rotation_mode = "XYZ"


def strength(ob: Any) -> None:
    settings().strength = 0.3


def limits(ob: Any) -> None:
    settings().limits_from = "OWN"


def apply(ob: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_apply()


def edit(ob: Any) -> None:
    import bpy

    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")


def unlink(ob: Any) -> None:
    for collection in list(ob.users_collection):
        collection.objects.unlink(ob)


def hide(ob: Any) -> None:
    ob.hide_viewport = True


def constrain(ob: Any) -> None:
    ob.pose.bones["LeftArm"].constraints.new("LIMIT_ROTATION")


CHANGES: list[tuple[Callable[[Any], None], str]] = [
    (a_bone, "the bone RightHand was deleted"),
    (a_target, "targets were changed or deleted"),
    (all_targets, "the collection of the targets was deleted"),
    (the_character, "Neural IK Demo was deleted"),
    (the_armature, "Neural IK Demo was deleted"),
    (the_scene, "the scene was deleted"),
    (its_animation, "another action was assigned to|the NLA of Neural IK Demo was changed"),
    (rest, "put into Rest Position"),
    (mode, "the rotation mode of LeftArm was changed"),
    (strength, "Strength .* was changed"),
    (limits, "Limits .* was changed"),
    (apply, "the collection of the targets was deleted"),
    (edit, "put into Edit Mode"),
    (unlink, "removed from the scene"),
    (hide, "hidden or excluded"),
    (constrain, "constraints or drivers"),
]


@pytest.mark.parametrize(("into", "after"), [("ACTION", 3), ("NLA", 8 + 3)], ids=["solving", "checking"])
@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_what_changes_during_a_bake_is_told_as_it_was_and_nothing_is_baked(
    character: Any, change: Callable[[Any], None], words: str, into: str, after: int
) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = {action.name: action_keys(action) for action in bpy.data.actions}
    work = wing("blender.posing.baking").bake(bpy.context, settings().id_data, 5, 12, 1, into)
    for _ in range(after):
        next(work)
    change(character)
    with pytest.raises(ValueError, match=f"nothing was baked, because .*({words}).* meanwhile"):
        list(work)
    assert {action.name: action_keys(action) for action in bpy.data.actions} == before


@pytest.mark.parametrize(("into", "after"), [("ACTION", 3), ("ACTION", 8 + 3), ("NLA", 8 + 3)])
def test_a_file_saved_during_a_bake_holds_what_was_there_before_it(
    character: Any, into: str, after: int, tmp_path: Path
) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = {action.name: action_keys(action) for action in bpy.data.actions}
    shown = [(ob.name, m.name, m.show_viewport) for ob in bpy.data.objects for m in ob.modifiers]
    frame = bpy.context.scene.frame_current
    work = wing("blender.posing.baking").bake(bpy.context, settings().id_data, 5, 12, 1, into)
    for _ in range(after):
        next(work)
    assert bpy.context.scene.frame_current != frame
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "saved.blend"), copy=True)
    with pytest.raises(ValueError, match="nothing was baked, because the file was saved meanwhile"):
        list(work)
    for opened in (False, True):
        if opened:
            bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "saved.blend"))
        assert {action.name: action_keys(action) for action in bpy.data.actions} == before
        assert [(ob.name, m.name, m.show_viewport) for ob in bpy.data.objects for m in ob.modifiers] == shown
        assert bpy.context.scene.frame_current == frame


@pytest.mark.parametrize("who", ["target", "character"])
def test_what_is_moved_during_a_bake_makes_no_mixture(character: Any, who: str) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = state(character)
    work = wing("blender.posing.baking").bake(bpy.context, settings().id_data, 5, 12)
    for _ in range(3):
        next(work)
    (target("LeftHand") if who == "target" else character).location.x += 0.1
    update()
    with pytest.raises(ValueError, match="targets or the character were moved"):
        list(work)
    assert state(character) == before


def test_a_renamed_character_is_still_baked(character: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    work = wing("blender.posing.baking").bake(bpy.context, settings().id_data, 5, 12)
    for _ in range(3):
        next(work)
    character.name = "other name"
    list(work)
    assert any(
        k[0][0] == 7 for k in action_keys(character.animation_data.action)['pose.bones["Head"].rotation_quaternion', 0]
    )


# ---- numbers that are none


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e20])
@pytest.mark.parametrize("kind", ["EFFECTOR", "HINT"])
def test_a_target_that_is_nowhere_is_red_and_never_keyed(character: Any, number: float, kind: str) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    before, held = state(character), matrices(character)
    lost = target("LeftHand", kind)
    lost.neural_ik_target.use = True
    update()
    lost.location.x = number
    update()
    assert "is not at a place that can be reached" in live().problem
    scene_targets = wing("blender.posing.scene_targets")
    if kind == "EFFECTOR":
        assert tuple(lost.color) == pytest.approx(scene_targets.RED)
    assert np.isfinite(matrices(character)).all()
    with pytest.raises(RuntimeError, match=r"nothing was keyed: .* is not at a place"):
        bpy.ops.neural_ik.live_key()
    with pytest.raises(RuntimeError, match="is not at a place"):
        bpy.ops.neural_ik.live_bake(first=18, last=22)
    assert state(character) == before
    bpy.ops.neural_ik.live_cancel()
    assert np.isfinite(held).all()
    assert np.isfinite(channels(character)).all()


def test_no_key_is_written_that_is_not_a_number(character: Any) -> None:
    keyframes, data = wing("blender.host.keyframes"), character.animation_data
    before = action_keys(data.action)
    with pytest.raises(ValueError, match="expected finite numbers to key"):
        keyframes.write_curve(curves_of(character, "LeftArm")[0], np.array([5.0, 6.0]), np.array([0.1, np.nan]))
    assert action_keys(data.action) == before


def test_bones_that_are_shown_nowhere_are_not_green(character: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    found = live()
    solving = wing("blender.posing.solving")
    monkeypatch.setattr(solving, "shown_heads", lambda *_: np.full_like(found.written, np.nan))
    solving.compare_with_shown(found, character)
    assert found.overridden
    assert tuple(target("LeftHand").color) == pytest.approx(wing("blender.posing.scene_targets").RED)


# ---- what moves the bones through the armature itself


def drive_inheritance(ob: Any) -> None:
    ob.data.bones["LeftArm"].driver_add("use_inherit_rotation").driver.expression = "0"


def key_inheritance(ob: Any) -> None:
    ob.data.bones["LeftArm"].keyframe_insert("use_inherit_rotation", frame=1)


def key_rest(ob: Any) -> None:
    ob.data.keyframe_insert("pose_position", frame=1)


def strip_rest(ob: Any) -> None:
    key_rest(ob)
    data = ob.data.animation_data
    data.nla_tracks.new().strips.new("rest", 1, data.action)
    data.action = None


ARMATURE: list[tuple[Callable[[Any], None], str]] = [
    (drive_inheritance, "use_inherit_rotation of LeftArm is driven on the armature"),
    (key_inheritance, "use_inherit_rotation of LeftArm is animated on the armature"),
    (key_rest, "Rest Position is animated on the armature"),
    (strip_rest, "Rest Position is animated on the armature"),
]


@pytest.mark.parametrize("while_live", [False, True])
@pytest.mark.parametrize(("spoil", "words"), ARMATURE)
def test_what_the_armature_itself_animates_is_seen(
    character: Any, spoil: Callable[[Any], None], words: str, while_live: bool
) -> None:
    import bpy

    if not while_live:
        spoil(character)
        with pytest.raises(RuntimeError, match=words):
            bpy.ops.neural_ik.live_start()
        return
    bpy.ops.neural_ik.live_start()
    spoil(character)
    character.data.update_tag()
    update()
    assert words in live().suspended


def test_an_ik_chain_that_grows_while_it_is_live_is_noticed(character: Any) -> None:
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")
    bones = character.data.edit_bones
    prop, hand = bones.new("prop"), bones["LeftHand"]
    prop.head, prop.tail, prop.parent = hand.tail, hand.tail + hand.vector, hand
    bpy.ops.object.mode_set(mode="OBJECT")
    ik = character.pose.bones["prop"].constraints.new("IK")
    ik.target, ik.chain_count = bpy.data.objects.new("goal", None), 1
    update()
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert not live().suspended
    ik.chain_count = 3
    update()
    assert "has the constraint IK on prop" in live().suspended
    ik.chain_count = 1
    update()
    assert not live().suspended


def test_a_bone_with_quotes_in_its_name_is_named_whole_and_baked(character: Any) -> None:
    import bpy

    name = 'Left"Arm\\['
    character.data.bones["LeftArm"].name = name
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    bpy.context.scene.frame_set(20)
    assert bpy.ops.neural_ik.live_bake(first=10, last=15) == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    character.pose.bones[name].driver_add("rotation_quaternion", 1).driver.expression = "0.1"
    with pytest.raises(RuntimeError, match=r'Left"Arm.* has a driver'):
        bpy.ops.neural_ik.live_start()


@pytest.mark.parametrize("blend", ["", "COMBINE"])
def test_bones_of_all_rotation_modes_are_baked_as_they_were_seen(character: Any, blend: str) -> None:
    import bpy

    if blend:
        layer(character, blend, {1: (1, 0, 0, 0), 9: (1, 0, 0, 0), 16: (1, 0, 0, 0), 40: (1, 0, 0, 0)})
    for number, pb in enumerate(character.pose.bones):
        pb.rotation_mode = ("XYZ", "AXIS_ANGLE", "ZYX", "QUATERNION")[number % 4]
    before = played(character, outside(9, 16))
    bpy.context.scene.frame_set(20)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    bpy.context.scene.frame_set(20)
    assert bpy.ops.neural_ik.live_bake(first=10, last=15) == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    assert not blend or differ(character, before) == []


def test_a_handler_of_another_add_on_that_fails_does_not_spoil_a_bake(character: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    bpy.context.scene.frame_set(20)

    def fails(*_: object) -> None:
        raise RuntimeError("not ours")

    bpy.app.handlers.frame_change_post.insert(0, fails)
    try:
        assert bpy.ops.neural_ik.live_bake(first=10, last=15) == {"FINISHED"}
    finally:
        bpy.app.handlers.frame_change_post.remove(fails)
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
