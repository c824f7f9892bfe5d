# SPDX-License-Identifier: GPL-3.0-or-later
"""Live IK in files with several scenes or with linked characters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import wing
from .test_live_ik import BACK, HIT, began, census, channels, character, live, missed, target, update, weights

__all__ = ["began", "character", "weights"]  # fixtures


@pytest.fixture
def other_scene(began: Any) -> Iterator[Any]:
    import bpy

    scene = bpy.data.scenes.new("Other")
    yield scene
    bpy.ops.wm.read_homefile(use_empty=True)


def show(scene: Any) -> None:
    import bpy

    bpy.context.window.scene = scene
    update()


def test_a_character_is_posed_while_another_scene_is_shown(began: Any, other_scene: Any) -> None:
    import bpy

    first = bpy.context.scene
    show(other_scene)
    target("LeftHand").location.z += 0.1
    first.view_layers[0].update()
    assert missed(began, "LeftHand") <= HIT
    solves = live().solves
    other_scene.frame_set(7)
    assert live().solves == solves, "another scene's frame change does not concern this character"
    assert missed(began, "LeftHand") <= HIT
    show(first)
    target("LeftHand").location.z += 0.05
    update()
    assert missed(began, "LeftHand") <= HIT


def test_a_character_in_two_scenes_is_posed_in_the_scene_of_its_targets(began: Any, other_scene: Any) -> None:
    import bpy

    first, before = bpy.context.scene, channels(began)
    other_scene.collection.objects.link(began)
    target("LeftHand").location.z += 0.1
    update()
    dragged = channels(began)
    show(other_scene)
    other_scene.frame_set(7)
    assert np.abs(channels(began) - dragged).max() > 0.01, "the other scene shows the action"
    show(first)
    first.frame_set(first.frame_current)
    assert missed(began, "LeftHand") <= HIT
    assert np.abs(channels(began) - dragged).max() <= 1e-4
    assert bpy.ops.neural_ik.live_cancel() == {"FINISHED"}
    assert np.abs(channels(began) - before).max() <= 1e-4


def test_after_deleting_the_scene_live_ik_can_be_cancelled(began: Any, other_scene: Any) -> None:
    import bpy

    first, before = bpy.context.scene, channels(began)
    other_scene.collection.objects.link(began)
    target("LeftHand").location.z += 0.1
    update()
    show(other_scene)
    bpy.data.scenes.remove(first)
    update()
    assert bpy.ops.neural_ik.live_cancel() == {"FINISHED"}
    assert np.abs(channels(began) - before).max() <= BACK
    assert not wing("blender.posing.live_ik").collections()
    assert not [o for o in bpy.data.objects if o.type == "EMPTY"]
    assert bpy.ops.neural_ik.live_start() == {"FINISHED"}


def test_targets_can_be_moved_to_another_collection(began: Any) -> None:
    import bpy

    scene = bpy.context.scene
    (collection,) = wing("blender.posing.live_ik").collections()
    inner = bpy.data.collections.new("Inner")
    scene.collection.children.link(inner)
    inner.children.link(collection)
    scene.collection.children.unlink(collection)
    update()
    target("LeftHand").location.z += 0.1
    update()
    assert missed(began, "LeftHand") <= HIT
    scene.frame_set(30)
    assert missed(began, "LeftHand") <= HIT


@pytest.fixture
def linked(character: Any, tmp_path: Path) -> Iterator[Any]:
    """A new file with the collection of a character linked from another file."""
    import bpy

    memory = wing("blender.host.memory").memory
    weights = memory.network
    own = bpy.data.collections.new("Character")
    bpy.context.scene.collection.children.link(own)
    for ob in bpy.data.objects:
        for collection in ob.users_collection:
            collection.objects.unlink(ob)
        own.objects.link(ob)
    path = str(tmp_path / "library.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_homefile(use_empty=True)
    memory.network = weights
    with bpy.data.libraries.load(path, link=True) as (_, chosen):
        chosen.collections = ["Character"]
    yield chosen.collections[0]
    bpy.ops.wm.read_homefile(use_empty=True)


def override(linked: Any, editable: bool) -> Any:
    import bpy

    bpy.context.scene.collection.children.link(linked)
    update()
    made = linked.override_hierarchy_create(bpy.context.scene, bpy.context.view_layer, do_fully_editable=editable)
    assert made is not None
    ob = next(o for o in bpy.data.objects if o.type == "ARMATURE" and o.override_library is not None)
    bpy.context.view_layer.objects.active = ob
    update()
    return ob


def test_a_linked_character_is_refused_with_the_remedy(linked: Any) -> None:
    import bpy

    bpy.context.scene.collection.children.link(linked)
    update()
    ob = next(o for o in linked.objects if o.type == "ARMATURE")
    bpy.context.view_layer.objects.active = ob
    held = census()
    with pytest.raises(RuntimeError, match="is linked from a library: make a library override first"):
        bpy.ops.neural_ik.live_start()
    assert census() == held


def test_an_override_that_is_not_editable_is_refused_with_the_remedy(linked: Any) -> None:
    import bpy

    override(linked, editable=False)
    with pytest.raises(RuntimeError, match="library override that is not editable: make it editable first"):
        bpy.ops.neural_ik.live_start()


def test_an_editable_override_is_posed_cancelled_and_baked(linked: Any) -> None:
    import bpy

    ob = override(linked, editable=True)
    bpy.context.scene.frame_set(20)
    before = channels(ob)
    bpy.ops.neural_ik.live_start()
    target("LeftHand").location.z += 0.1
    update()
    assert missed(ob, "LeftHand") <= HIT
    bpy.ops.neural_ik.live_cancel()
    assert np.abs(channels(ob) - before).max() <= BACK
    bpy.ops.neural_ik.live_start()
    target("LeftHand").location.z += 0.1
    update()
    held = channels(ob)
    assert bpy.ops.neural_ik.live_bake(first=15, last=25, into="NEW") == {"FINISHED"}
    bpy.context.scene.frame_set(15)
    bpy.context.scene.frame_set(20)
    assert np.abs(channels(ob) - held).max() <= 1e-4


@pytest.mark.parametrize("end", ["live_apply", "live_cancel"])
def test_what_the_user_put_beside_the_targets_stays_in_the_scene(began: Any, end: str, tmp_path: Path) -> None:
    import bpy

    (collection,) = wing("blender.posing.live_ik").collections()
    layer = next(c for c in bpy.context.view_layer.layer_collection.children if c.collection == collection)
    bpy.context.view_layer.active_layer_collection = layer
    bpy.ops.mesh.primitive_cube_add()
    bpy.context.active_object.name = "My prop"
    own = bpy.data.collections.new("My set")
    collection.children.link(own)
    own.objects.link(bpy.data.objects.new("In my set", None))
    held = bpy.data.objects.new("Held", None)
    collection.objects.link(held)
    held.parent, held.location = target("LeftHand"), (0, 0, 0.1)
    update()
    place = np.array(held.matrix_world)
    target("RightHand").keyframe_insert("location", frame=3)
    action = target("RightHand").animation_data.action.name
    bpy.context.view_layer.objects.active = began
    assert getattr(bpy.ops.neural_ik, end)() == {"FINISHED"}
    update()
    assert {"My prop", "In my set", "Held"} <= set(bpy.context.scene.objects.keys())
    assert np.abs(np.array(bpy.data.objects["Held"].matrix_world) - place).max() <= 1e-6
    path = str(tmp_path / "saved.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    assert {"My prop", "In my set", "Held"} <= set(bpy.context.scene.objects.keys())
    assert action in bpy.data.actions


def test_what_the_user_put_beside_the_targets_goes_where_the_targets_were(began: Any) -> None:
    import bpy

    scene = bpy.context.scene
    (collection,) = wing("blender.posing.live_ik").collections()
    outer = bpy.data.collections.new("Outer")
    scene.collection.children.link(outer)
    outer.children.link(collection)
    scene.collection.children.unlink(collection)
    prop = bpy.data.objects.new("My prop", None)
    collection.objects.link(prop)
    both = bpy.data.objects.new("In two", None)
    collection.objects.link(both)
    scene.collection.objects.link(both)
    bpy.ops.neural_ik.live_cancel()
    assert list(prop.users_collection) == [outer]
    assert list(both.users_collection) == [scene.collection]


@pytest.fixture
def linked_live(began: Any, tmp_path: Path) -> Iterator[Any]:
    """A new file with a character of its own, and one linked from a file in which it is live."""
    import bpy

    memory = wing("blender.host.memory").memory
    weights = memory.network
    target("LeftHand").location.z += 0.1
    update()
    path = str(tmp_path / "live.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_homefile(use_empty=True)
    bpy.ops.neural_ik.add_demo_character()
    memory.network = weights
    with bpy.data.libraries.load(path, link=True) as (found, chosen):
        chosen.collections = list(found.collections)
    for collection in chosen.collections:
        if collection is not None and collection.name not in bpy.context.scene.collection.children:
            bpy.context.scene.collection.children.link(collection)
    update()
    yield bpy.context.active_object
    bpy.ops.wm.read_homefile(use_empty=True)


def test_a_linked_live_character_belongs_to_its_own_file(linked_live: Any) -> None:
    import bpy

    engine = wing("blender.posing.live_ik")
    assert not engine.collections()
    bpy.context.scene.frame_set(9)
    assert not engine.characters
    held = census()
    assert "is linked from" in wing("blender.posing.state").linked_note()
    with pytest.raises(RuntimeError, match="open that file to Apply or Cancel"):
        bpy.ops.neural_ik.live_cancel()
    assert census() == held


def test_a_character_of_this_file_is_live_beside_a_linked_one_of_its_name(linked_live: Any) -> None:
    import bpy

    ob = linked_live
    assert ob.library is None
    theirs = [o for o in bpy.data.objects if o.library is not None and o.type == "EMPTY"]
    places = [np.array(o.matrix_world) for o in theirs]
    bpy.context.view_layer.objects.active = ob
    before = channels(ob)
    assert bpy.ops.neural_ik.live_start() == {"FINISHED"}
    target("LeftHand").location.z += 0.1
    update()
    assert missed(ob, "LeftHand") <= HIT
    bpy.context.scene.frame_set(12)
    assert missed(ob, "LeftHand") <= HIT
    bpy.context.scene.frame_set(1)
    assert bpy.ops.neural_ik.live_cancel() == {"FINISHED"}
    assert np.abs(channels(ob) - before).max() <= BACK
    assert theirs, "the linked targets are still there"
    for other, place in zip(theirs, places, strict=True):
        assert np.abs(np.array(other.matrix_world) - place).max() == 0
