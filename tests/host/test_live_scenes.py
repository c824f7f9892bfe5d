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
