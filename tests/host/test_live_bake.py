# SPDX-License-Identifier: GPL-3.0-or-later
"""What is baked is what was seen, in every kind of animation data, or nothing is written and the reason is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_live_ik import BACK, channels, character, live, matrices, target, update, weights
from .test_live_scenes import linked, override

__all__ = ["character", "linked", "weights"]  # fixtures
pytestmark = pytest.mark.slow

SEEN = 5e-4
"""[m] how far a baked pose may be from the one that Live IK showed."""


def seen(ob: Any, frame: int) -> np.ndarray:
    import bpy

    bpy.context.scene.frame_set(frame)
    update()
    shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return np.array([np.array(shown.pose.bones[b].matrix)[:3, 3] for b in ("LeftHand", "LeftFoot", "Head")])


def drag_hand() -> None:
    from mathutils import Matrix

    hand = target("LeftHand")
    hand.neural_ik_target.use = True
    hand.matrix_world = Matrix.Translation((0.1, -0.1, 0.2)) @ hand.matrix_world
    update()


def state(ob: Any) -> Any:
    """Everything about the animation of an object and all actions, to compare."""
    import bpy

    data = ob.animation_data
    tracks = [(t.name, [(s.name, s.frame_start, s.frame_end) for s in t.strips]) for t in data.nla_tracks]
    keys = {action.name: action_keys(action) for action in bpy.data.actions}
    return (
        data.action.name if data.action else None,
        tracks,
        keys,
        [g for a in bpy.data.actions for g in group_names(a)],
    )


def every_curve(action: Any) -> Iterator[Any]:
    actions = wing("blender.host.actions")
    for slot in action.slots if actions.SLOTTED else [None]:
        yield from actions.curves(action, slot)


def group_names(action: Any) -> list[str]:
    return sorted({c.group.name for c in every_curve(action) if c.group is not None})


def action_keys(action: Any) -> dict[tuple[str, int], list[Any]]:
    return {(c.data_path, c.array_index): whole_keys(c) for c in every_curve(action)}


def whole_keys(curve: Any, outside: tuple[float, float] | None = None) -> list[Any]:
    """Every property of every key, of those ``outside`` a range only if one is given."""
    names = ("handle_left_type", "handle_right_type", "interpolation", "easing", "type", "back", "amplitude", "period")
    return [
        (tuple(k.co), tuple(k.handle_left), tuple(k.handle_right), *(getattr(k, name) for name in names))
        for k in curve.keyframe_points
        if outside is None or not outside[0] <= k.co[0] <= outside[1]
    ]


def curves_of(ob: Any, part: str) -> list[Any]:
    data = ob.animation_data
    slot = getattr(data, "action_slot", None)
    return [c for c in wing("blender.host.actions").curves(data.action, slot) if part in c.data_path]


@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
@pytest.mark.parametrize(
    ("blend", "influence"),
    [("REPLACE", 1.0), ("COMBINE", 1.0), ("ADD", 1.0), ("SUBTRACT", 1.0), ("REPLACE", 0.5), ("COMBINE", 0.7)],
)
def test_what_was_seen_on_a_layer_is_what_is_baked(character: Any, blend: str, influence: float, into: str) -> None:
    import bpy

    actions = wing("blender.host.actions")
    walk = bpy.data.actions["0walk_forward"]
    data = character.animation_data_create()
    data.action = None
    strip = data.nla_tracks.new().strips.new("walk", 1, walk)
    if hasattr(strip, "action_slot"):
        strip.action_slot = actions.slots_for(walk, character)[0]
    layer, slot = actions.new("layer", character.name)
    actions.assign(data, layer, slot)
    character.pose.bones["Head"].keyframe_insert("rotation_quaternion", frame=1)
    data.action_blend_type, data.action_influence = blend, influence
    bpy.context.scene.frame_set(5)
    below = action_keys(walk)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = {f: seen(character, f) for f in (5, 8, 2)}
    bpy.context.scene.frame_set(5)
    last = 10
    if blend == "REPLACE" and into != "NLA":  # nothing that such a layer holds leaves the strip below as it is
        with pytest.raises(RuntimeError, match=r"would also change Hips on frame \d+, outside the range"):
            bpy.ops.neural_ik.live_bake(first=1, last=10, into=into)
        last = bpy.context.scene.frame_end = 39
        bpy.context.scene.frame_set(5)
    assert bpy.ops.neural_ik.live_bake(first=1, last=last, into=into) == {"FINISHED"}
    assert max(float(np.abs(seen(character, f) - pose).max()) for f, pose in shown.items()) <= SEEN
    assert action_keys(walk) == below, "the strip below stays"
    assert layer.users


@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
@pytest.mark.parametrize("start", [1, 11])
def test_in_tweak_mode_keys_have_the_time_of_the_strip_or_nothing_is_written(
    character: Any, into: str, start: int
) -> None:
    import bpy

    actions = wing("blender.host.actions")
    walk = bpy.data.actions["0walk_forward"]
    slot = actions.slots_for(walk, character)[0]
    data = character.animation_data_create()
    data.action = None
    track = data.nla_tracks.new()
    strip = track.strips.new("walk", start, walk)
    if hasattr(strip, "action_slot"):
        strip.action_slot = slot
    track.select = strip.select = True
    data.nla_tracks.active = track
    data.use_tweak_mode = True
    assert data.use_tweak_mode
    bpy.context.scene.frame_set(15)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = {f: seen(character, f) for f in (15, 22)}
    bpy.context.scene.frame_set(15)
    before = state(character)
    if into != "ACTION":
        with pytest.raises(RuntimeError, match="leave Tweak Mode first"):
            bpy.ops.neural_ik.live_bake(first=12, last=25, into=into)
        assert state(character) == before
        return
    assert bpy.ops.neural_ik.live_bake(first=12, last=25, into=into) == {"FINISHED"}
    assert max(float(np.abs(seen(character, f) - pose).max()) for f, pose in shown.items()) <= SEEN
    arm = curves_of(character, "LeftArm")[0]
    outside = before[2]["0walk_forward"][arm.data_path, arm.array_index]
    first, last = 12 - start + 1, 25 - start + 1
    assert whole_keys(arm, (first, last)) == [k for k in outside if not first <= k[0][0] <= last]


def noise(ob: Any) -> None:
    for curve in curves_of(ob, "LeftArm"):
        curve.modifiers.new("NOISE").scale = 2


def mute(ob: Any) -> None:
    for curve in curves_of(ob, "LeftArm"):
        curve.mute = True


def mute_group(ob: Any) -> None:
    curves_of(ob, "LeftArm")[0].group.mute = True


def samples(ob: Any) -> None:
    for curve in curves_of(ob, "LeftArm"):
        curve.convert_to_samples(1, 30)


def lock(ob: Any) -> None:
    curves_of(ob, "LeftArm")[0].lock = True


def solo(ob: Any) -> None:
    import bpy

    track = ob.animation_data.nla_tracks.new()
    track.strips.new("s", 1, bpy.data.actions["run"])
    track.is_solo = True


REFUSED: list[tuple[Callable[[Any], None], str, str]] = [
    (noise, "ACTION", "has the modifier Noise"),
    (noise, "NEW", "has the modifier Noise"),
    (mute, "ACTION", "is muted, so that its keys do not play"),
    (mute, "NEW", "is muted, so that its keys do not play"),
    (mute_group, "ACTION", "in the channel group LeftArm, which is muted"),
    (lock, "ACTION", "is locked"),
    (samples, "ACTION", "has baked samples in place of keys"),
    (samples, "NEW", "has baked samples in place of keys"),
    (solo, "ACTION", "soloed"),
    (solo, "NLA", "soloed"),
]


@pytest.mark.parametrize(("spoil", "into", "words"), REFUSED)
def test_keys_that_would_not_play_are_refused_before_the_first(
    character: Any, spoil: Callable[[Any], None], into: str, words: str
) -> None:
    import bpy

    spoil(character)
    bpy.context.scene.frame_set(10)
    bpy.ops.neural_ik.live_start(all_on=True)
    drag_hand()
    before = state(character)
    with pytest.raises(RuntimeError, match=words):
        bpy.ops.neural_ik.live_bake(first=1, last=20, into=into)
    assert state(character) == before
    if into == "ACTION":
        with pytest.raises(RuntimeError, match=words):
            bpy.ops.neural_ik.live_key()
        assert state(character) == before


@pytest.mark.parametrize("spoil", [noise, mute, mute_group, lock])
def test_an_nla_track_shows_what_the_action_could_not(character: Any, spoil: Callable[[Any], None]) -> None:
    import bpy

    spoil(character)
    bpy.context.scene.frame_set(10)
    bpy.ops.neural_ik.live_start(all_on=True)
    drag_hand()
    shown = {f: seen(character, f) for f in (10, 12, 2)}
    if spoil is mute_group and not wing("blender.host.actions").GROUPS_MUTE:
        with pytest.raises(RuntimeError, match="ignores in an assigned action and heeds in an NLA strip: unmute it"):
            bpy.ops.neural_ik.live_bake(first=1, last=20, into="NLA")
        return
    assert bpy.ops.neural_ik.live_bake(first=1, last=20, into="NLA") == {"FINISHED"}
    assert max(float(np.abs(seen(character, f) - pose).max()) for f, pose in shown.items()) <= SEEN


def tweak(ob: Any, length: float, repeat: float = 1) -> Any:
    """A strip of the first frames of a walk that is being tweaked."""
    import bpy

    actions = wing("blender.host.actions")
    walk = bpy.data.actions["0walk_forward"]
    data = ob.animation_data_create()
    data.action = None
    track = data.nla_tracks.new()
    strip = track.strips.new("walk", 1, walk)
    if hasattr(strip, "action_slot"):
        strip.action_slot = actions.slots_for(walk, ob)[0]
    strip.action_frame_end = strip.action_frame_start + length
    strip.repeat = repeat
    track.select = strip.select = True
    data.nla_tracks.active = track
    data.use_tweak_mode = True


@pytest.mark.parametrize(("length", "repeat"), [(10, 3), (10, 1)])
def test_keys_that_the_strip_plays_several_times_or_never_are_refused(
    character: Any, length: float, repeat: float
) -> None:
    import bpy

    tweak(character, length, repeat)
    bpy.context.scene.frame_set(8)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = state(character)
    with pytest.raises(RuntimeError, match="bake within them"):
        bpy.ops.neural_ik.live_bake(first=5, last=25)
    assert state(character) == before


@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
def test_keys_that_show_another_pose_are_taken_back(character: Any, into: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import bpy

    keyframes = wing("blender.host.keyframes")
    write = keyframes.write_curve
    monkeypatch.setattr(keyframes, "write_curve", lambda curve, frames, values: write(curve, frames, values + 0.05))
    bpy.ops.neural_ik.live_start()
    drag_hand()
    before, shown, held = state(character), matrices(character), channels(character)
    with pytest.raises(RuntimeError, match="nothing was baked: on frame"):
        bpy.ops.neural_ik.live_bake(first=5, last=25, into=into)
    assert state(character) == before
    assert bpy.context.scene.frame_current == 20
    assert np.abs(channels(character) - held).max() <= BACK
    assert np.abs(matrices(character) - shown).max() <= 1e-5
    assert wing("blender.posing.live_ik").collections(), "Live IK stays on"


@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
def test_a_bake_that_is_stopped_while_it_is_checked_leaves_nothing(character: Any, into: str) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    before, held = state(character), channels(character)
    work = wing("blender.posing.baking").bake(
        bpy.context, wing("blender.posing.live_ik").collections()[0], 5, 12, 1, into
    )
    for _ in range(8 + 3):
        next(work)
    assert state(character) != before
    work.close()
    assert state(character) == before
    assert np.abs(channels(character) - held).max() <= BACK
    drag_hand()
    assert not live().overridden


def test_what_is_outside_the_range_stays_as_it_is(character: Any) -> None:
    import bpy

    data = character.animation_data
    kinds = ["KEYFRAME", "BREAKDOWN", "EXTREME", "JITTER"]
    for curve in curves_of(character, "pose.bones"):
        for n, key in enumerate(curve.keyframe_points):
            key.interpolation = ("BEZIER", "BACK", "ELASTIC", "CONSTANT")[n % 4]
            key.easing, key.type = ("EASE_IN", "EASE_OUT")[n % 2], kinds[n % 4]
            key.handle_left_type = ("AUTO_CLAMPED", "ALIGNED", "FREE", "AUTO")[n % 4]
            key.handle_right_type = key.handle_left_type
            key.back, key.amplitude, key.period = 2.0, 1.5, 3.5
        curve.update()
    bpy.context.scene.frame_set(12)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = {(c.data_path, c.array_index): whole_keys(c, (10, 15)) for c in curves_of(character, "pose.bones")}
    assert bpy.ops.neural_ik.live_bake(first=10, last=15) == {"FINISHED"}
    after = {(c.data_path, c.array_index): whole_keys(c, (10, 15)) for c in curves_of(character, "pose.bones")}
    assert after == before
    assert [k[0][0] for k in whole_keys(curves_of(character, "LeftArm")[0])].count(12) == 1
    assert data.action.users


def test_outside_a_baked_nla_strip_everything_plays_as_before(character: Any) -> None:
    import bpy

    frames = (1, 4, 9, 16, 25)
    before = {f: seen(character, f) for f in frames}
    bpy.context.scene.frame_set(12)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert bpy.ops.neural_ik.live_bake(first=10, last=15, into="NLA") == {"FINISHED"}
    for frame, pose in before.items():
        assert np.abs(seen(character, frame) - pose).max() <= 1e-5, frame


def saved(tmp_path: Path) -> Any:
    """The file saved and opened again; returns its armature."""
    import bpy

    path = str(tmp_path / "saved.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    return next(o for o in bpy.data.objects if o.type == "ARMATURE" and o.library is None)


@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
def test_the_users_own_action_is_still_there_after_saving(character: Any, into: str, tmp_path: Path) -> None:
    import bpy

    name = character.animation_data.action.name
    character.animation_data.action.use_fake_user = False
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert bpy.ops.neural_ik.live_bake(first=18, last=22, into=into) == {"FINISHED"}
    saved(tmp_path)
    assert name in bpy.data.actions


def test_the_action_that_show_nearest_frame_replaces_is_still_there_after_saving(
    character: Any, tmp_path: Path
) -> None:
    import bpy

    actions = wing("blender.host.actions")
    own, slot = actions.new("my own work", character.name)
    actions.assign(character.animation_data, own, slot)
    character.pose.bones["Head"].keyframe_insert("location", frame=1)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert bpy.ops.neural_ik.live_jump() == {"FINISHED"}
    assert character.animation_data.action != own
    saved(tmp_path)
    assert "my own work" in bpy.data.actions


def linked_action(ob: Any, tmp_path: Path) -> Any:
    """The assigned action, linked from another file."""
    import bpy

    name, path = ob.animation_data.action.name, str(tmp_path / "actions.blend")
    bpy.data.libraries.write(path, {ob.animation_data.action})
    with bpy.data.libraries.load(path, link=True) as (_, chosen):
        chosen.actions = [name]
    actions = wing("blender.host.actions")
    own = ob.animation_data.action
    (found,) = chosen.actions
    ob.animation_data.action = None
    own.use_fake_user = True
    actions.assign(ob.animation_data, found, actions.slots_for(found, ob)[0])
    return found


def test_a_linked_action_is_refused_and_a_copy_of_it_is_kept(character: Any, tmp_path: Path) -> None:
    import bpy

    action = linked_action(character, tmp_path)
    bpy.context.scene.frame_set(10)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    before = action_keys(action)
    with pytest.raises(
        RuntimeError, match=r"is linked from .*: assign an action of this file, or bake to a New Action"
    ):
        bpy.ops.neural_ik.live_bake(first=10, last=15)
    assert action_keys(action) == before
    assert bpy.ops.neural_ik.live_bake(first=10, last=15, into="NEW") == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    ob = saved(tmp_path)
    assert np.abs(seen(ob, 12) - shown).max() <= SEEN


def test_an_overridden_action_is_refused(character: Any, tmp_path: Path) -> None:
    import bpy

    made = linked_action(character, tmp_path).override_create(remap_local_usages=True)
    if made is None:
        pytest.skip("this Blender makes no overrides of actions")
    actions = wing("blender.host.actions")
    actions.assign(character.animation_data, made, actions.slots_for(made, character)[0])
    bpy.context.scene.frame_set(10)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    with pytest.raises(RuntimeError, match="is a library override, whose keys are not saved"):
        bpy.ops.neural_ik.live_bake(first=10, last=15)
    assert bpy.ops.neural_ik.live_bake(first=10, last=15, into="NEW") == {"FINISHED"}
    assert np.abs(seen(saved(tmp_path), 12) - shown).max() <= SEEN


@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
def test_what_is_baked_on_an_override_is_there_after_reopening(linked: Any, into: str, tmp_path: Path) -> None:
    import bpy

    ob = override(linked, editable=True)
    bpy.context.scene.frame_set(20)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(ob, 21)
    before = state(ob)
    if into == "ACTION":
        with pytest.raises(RuntimeError, match="linked from"):
            bpy.ops.neural_ik.live_bake(first=18, last=22, into=into)
        assert state(ob) == before
        return
    assert bpy.ops.neural_ik.live_bake(first=18, last=22, into=into) == {"FINISHED"}
    assert np.abs(seen(ob, 21) - shown).max() <= SEEN
    assert np.abs(seen(saved(tmp_path), 21) - shown).max() <= SEEN


def test_targets_kept_after_a_bake_are_where_the_bones_are(character: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = {f: seen(character, f) for f in (19, 22)}
    bpy.context.scene.frame_set(20)
    pose = matrices(character)
    assert bpy.ops.neural_ik.live_bake(first=18, last=22, keep_live=True) == {"FINISHED"}
    update()
    assert np.abs(matrices(character) - pose).max() <= 1e-4
    for frame, there in shown.items():
        assert np.abs(seen(character, frame) - there).max() <= SEEN, "Live IK adds nothing to what is baked"
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(seen(character, 19) - shown[19]).max() <= SEEN


def go_on(ob: Any) -> None:
    for curve in curves_of(ob, ""):
        curve.extrapolation = "LINEAR"


def manual_range(ob: Any) -> None:
    action = ob.animation_data.action
    action.use_frame_range, action.frame_start, action.frame_end = True, 8, 16


@pytest.mark.parametrize("prepare", [go_on, manual_range])
def test_beside_a_baked_nla_track_an_action_plays_as_it_did_when_it_was_assigned(
    character: Any, prepare: Callable[[Any], None]
) -> None:
    import bpy

    prepare(character)
    before = {f: seen(character, f) for f in (-5, 1, 5, 30, 60, 90)}
    bpy.context.scene.frame_set(12)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert bpy.ops.neural_ik.live_bake(first=10, last=14, into="NLA") == {"FINISHED"}
    assert max(float(np.abs(seen(character, f) - pose).max()) for f, pose in before.items()) <= SEEN


@pytest.mark.parametrize("last", [12, 14])
def test_over_nla_tracks_a_new_action_changes_nothing_outside_the_range(character: Any, last: int) -> None:
    import bpy

    actions = wing("blender.host.actions")
    walk, data = bpy.data.actions["0walk_forward"], character.animation_data
    data.action = None
    strip = data.nla_tracks.new().strips.new("walk", 1, walk)
    if hasattr(strip, "action_slot"):
        strip.action_slot = actions.slots_for(walk, character)[0]
    before = {f: seen(character, f) for f in (1, 5, 20, 30)}
    bpy.context.scene.frame_set(12)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = seen(character, 12)
    assert bpy.ops.neural_ik.live_bake(first=12, last=last) == {"FINISHED"}
    assert np.abs(seen(character, 12) - shown).max() <= SEEN
    assert max(float(np.abs(seen(character, f) - pose).max()) for f, pose in before.items()) <= SEEN


def test_an_action_that_is_assigned_during_a_bake_is_not_written_to(character: Any) -> None:
    import bpy

    actions = wing("blender.host.actions")
    run = bpy.data.actions["run"]
    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = action_keys(run)
    work = wing("blender.posing.baking").bake(bpy.context, wing("blender.posing.live_ik").collections()[0], 5, 12)
    next(work)
    actions.assign(character.animation_data, run, actions.slots_for(run, character)[0])
    with pytest.raises(ValueError, match="another action was assigned"):
        list(work)
    assert action_keys(run) == before


@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
def test_a_character_that_is_deleted_while_a_bake_is_checked_ends_the_bake_only(character: Any, into: str) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    drag_hand()
    before = sorted(action.name for action in bpy.data.actions)
    work = wing("blender.posing.baking").bake(
        bpy.context, wing("blender.posing.live_ik").collections()[0], 5, 12, 1, into
    )
    for _ in range(8 + 3):
        next(work)
    name = character.name
    bpy.data.objects.remove(character)
    with pytest.raises(ValueError, match=f"because {name} was deleted"):
        list(work)
    assert sorted(action.name for action in bpy.data.actions) == before


@pytest.mark.parametrize("into", ["ACTION", "NEW"])
def test_keys_beyond_a_cycle_are_refused_as_they_would_change_all_of_it(character: Any, into: str) -> None:
    import bpy

    for curve in curves_of(character, ""):
        curve.modifiers.new("CYCLES")
    character.animation_data.action.update_tag()
    before = {f: seen(character, f) for f in (-5, 40, 90)}
    bpy.context.scene.frame_set(50)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    kept = state(character)
    with pytest.raises(RuntimeError, match="would change every repetition"):
        bpy.ops.neural_ik.live_bake(first=50, last=55, into=into)
    assert state(character) == kept
    assert bpy.ops.neural_ik.live_bake(first=50, last=55, into="NLA") == {"FINISHED"}
    assert max(float(np.abs(seen(character, f) - pose).max()) for f, pose in before.items()) <= SEEN


@pytest.mark.parametrize("into", ["ACTION", "NLA"])
def test_bones_whose_rotation_mode_is_animated_are_not_baked_wrongly(character: Any, into: str) -> None:
    import bpy

    arm = character.pose.bones["LeftArm"]
    for frame, mode in ((1, "QUATERNION"), (15, "XYZ")):
        arm.rotation_mode = mode
        arm.keyframe_insert("rotation_mode", frame=frame)
    arm.keyframe_insert("rotation_euler", frame=15)
    bpy.context.scene.frame_set(20)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    kept = state(character)
    with pytest.raises(RuntimeError, match="animates the rotation mode of LeftArm"):
        bpy.ops.neural_ik.live_bake(first=10, last=24, into=into)
    assert state(character) == kept
