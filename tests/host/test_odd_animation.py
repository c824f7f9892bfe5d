# SPDX-License-Identifier: GPL-3.0-or-later
"""What people seldom have: strips inside meta strips, library overrides, mirrored scales, and odd things in an FBX file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_batch import from_batch
from .test_live_bake import SEEN, action_keys, drag_hand, seen
from .test_live_ik import BACK, HIT, channels, character, missed, target, update, weights
from .test_live_scenes import linked, override
from .test_words import says

__all__ = ["character", "linked", "weights"]  # fixtures


def strip_of(ob: Any, name: str, start: int = 1) -> Any:
    """An action of the demo character as a strip on a track of its own; nothing is assigned."""
    import bpy

    actions, action = wing("blender.host.actions"), bpy.data.actions[name]
    data = ob.animation_data_create()
    data.action = None
    track = data.nla_tracks.new()
    track.name = f"track of {name}"
    strip = track.strips.new(name, start, action)
    if actions.SLOTTED:
        strip.action_slot = actions.slots_for(action, ob)[0]
    return strip


def meta(ob: Any, track: Any) -> Any:
    """Put all strips of a track into a meta strip, as Ctrl G does in the NLA editor; skips where no window is to do it in."""
    import bpy

    windows = bpy.context.window_manager.windows
    if not len(windows):
        pytest.skip("meta strips are made in a window, and this Blender has none")
    bpy.context.view_layer.objects.active = ob
    ob.select_set(True)
    area = windows[0].screen.areas[0]
    was, area.type = area.type, "NLA_EDITOR"
    try:
        region = next(region for region in area.regions if region.type == "WINDOW")
        with bpy.context.temp_override(window=windows[0], area=area, region=region):
            for other in ob.animation_data.nla_tracks:
                other.select = other == track
                for strip in other.strips:
                    strip.select = other == track
            assert bpy.ops.nla.meta_add() == {"FINISHED"}
    finally:
        area.type = was
    (strip,) = track.strips
    assert strip.type == "META"
    return strip


# ---- meta strips


@pytest.mark.slow
@pytest.mark.parametrize("into", ["ACTION", "NEW", "NLA"])
def test_what_was_seen_above_a_meta_strip_is_what_is_baked(character: Any, into: str) -> None:
    import bpy

    meta(character, [strip_of(character, "0walk_forward"), character.animation_data.nla_tracks[0]][1])
    walk = bpy.data.actions["0walk_forward"]
    bpy.context.scene.frame_set(5)
    before, outside = action_keys(walk), seen(character, 12)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    shown = {f: seen(character, f) for f in (2, 5, 8)}
    assert bpy.ops.neural_ik.live_bake(first=2, last=8, into=into) == {"FINISHED"}
    for frame, pose in shown.items():
        assert np.abs(seen(character, frame) - pose).max() <= SEEN
    assert np.abs(seen(character, 12) - outside).max() <= SEEN
    assert action_keys(walk) == before


def test_keys_are_refused_where_a_meta_strip_plays_the_action_too(character: Any) -> None:
    import bpy

    actions, walk = wing("blender.host.actions"), bpy.data.actions["0walk_forward"]
    strip = meta(character, [strip_of(character, "0walk_forward"), character.animation_data.nla_tracks[0]][1])
    actions.assign(character.animation_data, walk, actions.slots_for(walk, character)[0])
    character.animation_data.action_blend_type = "COMBINE"  # so that the strip below shows
    bpy.context.scene.frame_set(5)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    keys = action_keys(walk)
    says("in its NLA strip", bpy.ops.neural_ik.live_bake, first=2, last=8, into="ACTION")
    assert action_keys(walk) == keys
    strip.mute = True  # then nothing in it plays
    assert bpy.ops.neural_ik.live_bake(first=2, last=8, into="ACTION") == {"FINISHED"}


def test_a_meta_strip_is_extracted_as_it_plays_and_its_action_as_well(demo: Any) -> None:
    import bpy

    extract, takes = wing("blender.data.extract"), wing("blender.data.takes")
    strip = strip_of(demo, "walk")
    plain = list(extract.moving_actions(demo))
    meta(demo, demo.animation_data.nla_tracks[0])
    assert list(extract.moving_actions(demo)) == plain
    strips = takes._of_strips(bpy.context.scene, demo, {})
    assert [take.name for take in strips] == ["track of walk/Meta"]
    del strip


def test_actions_in_meta_strips_on_targets_outlive_the_targets(character: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    hand = target("LeftHand")
    hand.keyframe_insert("location", frame=1)
    name = hand.animation_data.action.name
    actions, action = wing("blender.host.actions"), hand.animation_data.action
    track = hand.animation_data.nla_tracks.new()
    strip = track.strips.new("moves", 1, action)
    if actions.SLOTTED:
        strip.action_slot = hand.animation_data.action_slot
    hand.animation_data.action = None
    meta(hand, track)
    bpy.context.view_layer.objects.active = character
    bpy.ops.neural_ik.live_cancel()
    assert bpy.data.actions[name].use_fake_user


# ---- mirrored scales


@pytest.mark.parametrize("scale", [(-1, 1, 1), (1, 1, -1), (-1, -1, -1)])
def test_a_character_that_is_mirrored_by_its_scale_is_refused_with_the_remedy(character: Any, scale: Any) -> None:
    import bpy

    character.scale = scale
    update()
    for button in (bpy.ops.neural_ik.live_start, bpy.ops.neural_ik.extract_data):
        says("negative scale, which mirrors it: apply it", button)


def test_a_scale_that_is_a_half_turn_is_posed_like_any_other(character: Any) -> None:
    import bpy

    character.scale = (-1, -1, 1)
    update()
    before = channels(character)
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert missed(character, "LeftHand") <= HIT
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(character) - before).max() <= BACK


def test_live_ik_waits_in_words_while_its_character_is_mirrored(character: Any) -> None:
    import bpy

    bpy.ops.neural_ik.live_start()
    character.scale = (-1, 1, 1)
    update()
    target("LeftHand").location.z += 0.1
    update()
    assert "negative scale, which mirrors it" in " ".join(wing("blender.posing.state").unsolvable.values())
    character.scale = (1, 1, 1)
    update()
    drag_hand()
    assert missed(character, "LeftHand") <= HIT


def test_a_bone_that_is_mirrored_by_its_scale_is_posed(character: Any) -> None:
    import bpy

    character.pose.bones["LeftArm"].scale = (-1, 1, 1)
    update()
    bpy.ops.neural_ik.live_start()
    drag_hand()
    assert missed(character, "LeftHand") <= HIT


# ---- library overrides


def test_poses_of_an_override_are_those_of_the_character_in_its_library(linked: Any) -> None:
    import bpy

    ob = override(linked, editable=True)
    before = channels(ob)
    assert bpy.ops.neural_ik.extract_data() == {"FINISHED"}
    poses = wing("blender.host.memory").memory.poses
    assert poses.clip_names == ("walk",)
    assert np.abs(channels(ob) - before).max() <= BACK


@pytest.mark.parametrize("editable", [True, False])
def test_mocap_imported_onto_an_override_is_there_after_reopening(linked: Any, editable: bool, tmp_path: Path) -> None:
    import bpy

    from benchmarks import rigs
    from neural_network.formats import bvh

    override(linked, editable)
    bvh.write(tmp_path / "walk of a biped.bvh", rigs.walk(rigs.all_rigs()["3ds max biped"], frames=20))
    path = str(tmp_path / "file.blend")
    assert bpy.ops.neural_ik.import_mocap(directory=str(tmp_path)) == {"FINISHED"}
    assert "walk of a biped" in bpy.data.actions
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    assert "walk of a biped" in bpy.data.actions, "it is there after reopening"


def test_a_recording_on_an_override_is_there_after_reopening(linked: Any, tmp_path: Path) -> None:
    import bpy

    override(linked, editable=True)
    bpy.context.scene.frame_set(1)
    known = {action.name for action in bpy.data.actions}
    assert bpy.ops.neural_ik.record() == {"FINISHED"}
    for frame in range(2, 12):
        bpy.context.scene.frame_set(frame)
    assert bpy.ops.neural_ik.record_stop() == {"FINISHED"}
    (made,) = (action for action in bpy.data.actions if action.name not in known)
    name, keys = made.name, action_keys(made)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "file.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "file.blend"))
    assert action_keys(bpy.data.actions[name]) == keys


# ---- what else may be in an FBX file


def _camera(demo: Any) -> None:
    import bpy

    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    bpy.context.scene.collection.objects.link(camera)
    camera.keyframe_insert("location", frame=1)
    camera.location.x = 1
    camera.keyframe_insert("location", frame=20)
    camera.animation_data.action.name = "shot"


def _above(demo: Any) -> None:
    import bpy

    above = bpy.data.objects.new("Root Null", None)
    bpy.context.scene.collection.objects.link(above)
    above.scale = (0.01,) * 3
    demo.parent = above
    demo.scale = (100,) * 3


def _prop(demo: Any) -> None:
    import bpy

    prop = bpy.data.objects.new("Sword", bpy.data.meshes.new("Sword"))
    prop.data.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
    bpy.context.scene.collection.objects.link(prop)
    prop.parent, prop.parent_type, prop.parent_bone = demo, "BONE", "LeftHand"


def _shapes(demo: Any) -> None:
    import bpy

    mesh = next(ob for ob in bpy.data.objects if ob.type == "MESH")
    mesh.shape_key_add(name="Basis")
    mesh.shape_key_add(name="Smile").value = 0.5
    mesh.data.shape_keys.key_blocks["Smile"].keyframe_insert("value", frame=1)


def _second(demo: Any) -> None:
    import bpy

    other = demo.copy()
    other.data = demo.data.copy()
    other.name, other.location.x = "Second", 2
    bpy.context.scene.collection.objects.link(other)
    for mesh in [ob for ob in bpy.data.objects if ob.type == "MESH"]:  # without a skin, a file holds no rest pose
        skin = mesh.copy()
        skin.parent, skin.modifiers[0].object = other, other
        bpy.context.scene.collection.objects.link(skin)


def _name(demo: Any) -> None:
    demo.name = "Figur \u00e4 \u4eba $(x)"


def test_an_action_that_was_never_assigned_is_extracted_too(demo: Any) -> None:
    """Importers leave all takes but one so; before Blender 4.4 such an action is for no kind of data yet."""
    import bpy

    actions, extract = wing("blender.host.actions"), wing("blender.data.extract")
    made = bpy.data.actions.new("never assigned")
    walk = bpy.data.actions["walk"]
    slot = made.slots.new("OBJECT", demo.name) if actions.SLOTTED else None
    if actions.SLOTTED:
        made.layers.new("Layer").strips.new(type="KEYFRAME").channelbag(slot, ensure=True)
    for curve in actions.curves(walk, actions.slots_for(walk, demo)[0]):
        new = actions.new_curve(made, slot, curve.data_path, curve.array_index, "all")
        wing("blender.host.keyframes").write_curve(
            new, np.array([1.0, 20.0]), np.array([curve.evaluate(f) for f in (1, 20)])
        )
    assert made in extract.moving_actions(demo)


@pytest.mark.slow
@pytest.mark.parametrize("change", [_camera, _above, _prop, _shapes, _second, _name])
def test_what_else_is_in_an_fbx_file_does_not_matter(demo: Any, change: Callable[[Any], None], tmp_path: Path) -> None:
    import bpy

    walk = bpy.data.actions["walk"]
    for other in list(bpy.data.actions):
        if other != walk:
            bpy.data.actions.remove(other)
    actions = wing("blender.host.actions")
    actions.assign(demo.animation_data, walk, actions.slots_for(walk, demo)[0])
    found = []
    for name in ("plain", "changed"):
        if name == "changed":
            change(demo)
        bpy.ops.export_scene.fbx(filepath=str(tmp_path / f"{name}.fbx"), add_leaf_bones=False)
    for name in ("plain", "changed"):
        rows = from_batch(tmp_path / f"{name}.fbx")
        found.append([(row, poses) for row, poses in rows if poses is not None])
        assert all("bug in this program" not in row.reason for row, _ in rows)
    ((_, before),), now = found
    assert len(now) == (2 if change is _second else 1)
    for row, poses in now:
        if (
            change is _camera
        ):  # Blender's exporter puts the camera's action on the armature as well, where it moves nothing
            assert "shot" in " ".join(row.warnings)
            assert sorted(name.split("|")[-1] for name in poses.clip_names) == ["shot", "walk"]
            continue
        assert poses.skeleton.count == before.skeleton.count
        assert poses.frames == before.frames
        assert np.abs(poses.rot - before.rot).max() < 0.02
        assert poses.skeleton.leg_length == pytest.approx(before.skeleton.leg_length, rel=1e-3)
