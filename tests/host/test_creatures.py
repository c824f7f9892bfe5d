# SPDX-License-Identifier: GPL-3.0-or-later
"""Creatures in Blender: find and edit effectors, extract actions, train, test and drag."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import REPO
from creature_rigs import animate, put

from benchmarks.creatures import CREATURES, Creature, action, body_of
from neural_network.motion import pose_set

from .conftest import kept, wing
from .test_words import says

SHARE = 0.02  # of the body's length: the largest effector error allowed on held-out motion


def train(path: Path, weights: Path, epochs: int) -> str:
    """Train in a separate process; returns its output."""
    words = [sys.executable, str(REPO / "standalone_trainer.py"), "--data", str(path), "--weights", str(weights)]
    done = subprocess.run(
        [*words, "--epochs", str(epochs), "--no-beside"], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def journey(ob: Any, epochs: int) -> dict[str, Any]:
    """Extract, save, train, load and test; returns the card's figures."""
    import bpy

    memory = wing("blender.host.memory")
    assert bpy.ops.neural_ik.extract_data() == {"FINISHED"}
    assert bpy.ops.neural_ik.save_data() == {"FINISHED"}
    said = train(kept().poses, kept().weights("ik"), epochs)
    assert "% of body" in said
    assert bpy.ops.neural_ik.load_weights() == {"FINISHED"}
    suite = wing("ik.quality")
    net, poses = memory.memory.network, memory.memory.poses
    found: dict[str, Any] = suite.figures([suite.measure(net, poses, suite.parts_for(net, poses))], poses, "block")
    return found


def drag(ob: Any, effector: str, away: float) -> tuple[float, float]:
    """Start Live IK and move a target; returns its bone's distance from it and how far the bone moved [m]."""
    import bpy

    assert bpy.ops.neural_ik.live_start() == {"FINISHED"}
    live_ik = wing("blender.posing.live_ik")
    collection = live_ik.collection_of(ob)
    target = bpy.data.objects[f"{ob.name} {effector}"]
    assert target.neural_ik_target.kind == "EFFECTOR"
    before = ob.pose.bones[effector].head.copy()
    bpy.context.view_layer.update()
    target.location.z += away
    target.location.x += 0.5 * away
    bpy.context.view_layer.update()
    bpy.context.view_layer.update()
    after = ob.pose.bones[effector].head.copy()
    live = live_ik.live_of(collection)
    assert live.problem == ""
    missed = (ob.matrix_world @ after - target.matrix_world.translation).length
    return missed, (after - before).length


def held_out_error(card: dict[str, Any]) -> float:
    """Mean effector error of the network alone on held-out frames, as a share of the body's length."""
    return float(card["holdout"]["effector_mm"]["mean"] / card["body_length_mm"])


def test_a_dog_is_recognised_trained_and_dragged_by_a_paw(empty: ModuleType) -> None:
    dog = CREATURES["dog"]
    ob = put(dog, "Dog")
    animate(ob, dog, ("walk", "run", "look around"), wing("blender.host.actions"))
    assert empty.ops.neural_ik.effectors_find() == {"FINISHED"}
    own = ob.neural_ik_ends
    assert set(own.effectors.split("\n")) == set(dog.effectors)
    assert set(own.feet.split("\n")) == set(dog.feet)
    assert own.body == "pelvis"
    card = journey(ob, epochs=60)
    assert held_out_error(card) <= SHARE
    assert card["baselines"]["mean_pose"]["effector_mm"]["mean"] > card["holdout"]["effector_mm"]["mean"]
    missed, moved = drag(ob, "fore_paw_L", 0.1)
    assert missed <= 1e-3
    assert moved > 0.05
    assert empty.data.objects.get("Dog pelvis") is not None
    assert empty.ops.neural_ik.live_cancel() == {"FINISHED"}


def test_a_bird_is_extracted_trained_and_dragged(empty: ModuleType, mocap: Path) -> None:
    empty.ops.import_scene.gltf(filepath=str(mocap / "glb" / "mesh2motion_bird.glb"))
    ob = next(o for o in empty.data.objects if o.type == "ARMATURE")
    empty.context.view_layer.objects.active = ob
    empty.context.scene.neural_ik.step = 0.25
    card = journey(ob, epochs=60)
    skeleton = wing("blender.host.memory").memory.poses.skeleton
    assert {skeleton.names[e] for e in skeleton.effectors} >= {"wing_tip_L", "wing_tip_R", "head", "tail_tip"}
    assert len(skeleton.feet) == 2
    assert held_out_error(card) <= SHARE
    missed, moved = drag(ob, "wing_tip_L", 0.2)
    assert missed <= 1e-3
    assert moved > 0.1


@pytest.mark.parametrize("name", list(CREATURES))
def test_every_creature_is_extracted_without_any_settings(empty: ModuleType, name: str) -> None:
    creature = CREATURES[name]
    ob = put(creature)
    animate(ob, creature, ("walk",), wing("blender.host.actions"))
    assert empty.ops.neural_ik.extract_data() == {"FINISHED"}
    poses = wing("blender.host.memory").memory.poses
    assert {poses.skeleton.names[e] for e in poses.skeleton.effectors} == set(creature.effectors)
    assert {poses.skeleton.names[f] for f in poses.skeleton.feet} == set(creature.feet)
    rot, root = action(body_of(creature), "walk", 1)
    order = [poses.skeleton.names.index(n) for n in body_of(creature).names]
    assert np.abs(poses.rot[:, order] - rot).max() < 1e-3
    assert np.abs(poses.root_pos - root).max() < 1e-3
    assert any("read as a creature" in note for note in wing("blender.host.rig").read(ob).notes)


def test_effectors_are_picked_added_removed_and_cleared(empty: ModuleType, tmp_path: Path) -> None:
    dog = CREATURES["dog"]
    ob = put(dog)
    animate(ob, dog, ("walk",), wing("blender.host.actions"))
    own = ob.neural_ik_ends
    own.pick = "nose"
    own.pick = "tail3"
    own.pick = "nose"
    assert own.effectors == "nose\ntail3"
    assert own.pick == ""
    assert empty.ops.neural_ik.effectors_add(bones="hind_toe_L") == {"FINISHED"}
    assert empty.ops.neural_ik.effectors_toggle_foot(bone="hind_toe_L") == {"FINISHED"}
    assert empty.ops.neural_ik.effectors_remove(bone="tail3") == {"FINISHED"}
    rig = wing("blender.host.rig").read(ob)
    assert rig.skeleton.names[0] == "pelvis"  # their nearest common ancestor
    assert [rig.skeleton.names[e] for e in rig.skeleton.effectors] == ["nose", "hind_toe_L"]
    assert [rig.skeleton.names[f] for f in rig.skeleton.feet] == ["hind_toe_L"]
    assert "tail1" not in rig.skeleton.names
    assert empty.ops.neural_ik.extract_data() == {"FINISHED"}
    pose_set.save(tmp_path / "dog.npz", wing("blender.host.memory").memory.poses)
    assert pose_set.load(tmp_path / "dog.npz").skeleton.names == rig.skeleton.names
    empty.ops.wm.save_as_mainfile(filepath=str(tmp_path / "dog.blend"))
    empty.ops.wm.open_mainfile(filepath=str(tmp_path / "dog.blend"))
    assert empty.data.objects["Creature"].neural_ik_ends.effectors == "nose\nhind_toe_L"
    empty.context.view_layer.objects.active = empty.data.objects["Creature"]
    assert empty.ops.neural_ik.effectors_clear() == {"FINISHED"}
    assert len(wing("blender.host.rig").read(empty.data.objects["Creature"]).skeleton.effectors) == 7


def test_invalid_effectors_are_reported_by_name(empty: ModuleType) -> None:
    ob = put(CREATURES["dog"])
    animate(ob, CREATURES["dog"], ("walk",), wing("blender.host.actions"))
    own = ob.neural_ik_ends
    extract = empty.ops.neural_ik.extract_data
    own.effectors = "nose\nwing"
    says("no bone called wing", extract)
    own.effectors, own.body = "nose\ntail4", "neck1"
    says("tail4 of Creature are not below neck1", extract)
    own.effectors, own.body = "pelvis", "pelvis"
    says("pelvis of Creature are not below pelvis", extract)
    says("no bones selected", empty.ops.neural_ik.effectors_add)
    says("no bone called x", empty.ops.neural_ik.effectors_add, bones="x")
    two = grown_apart()
    two.neural_ik_ends.effectors = "a1\nb1"
    says("have no common ancestor", wing_read, ob=two)


def wing_read(ob: Any) -> None:
    """Read a rig; errors are raised as an operator raises them."""
    try:
        wing("blender.host.rig").read(ob)
    except ValueError as error:
        raise RuntimeError(str(error)) from None


def grown_apart() -> Any:
    """An armature of two trees."""
    creature = Creature(
        ("a", "a1", "b", "b1"),
        np.array([-1, 0, -1, 2]),
        np.array([[0, 0, 1], [0, 0, 2], [1, 0, 1], [1, 0, 2.0]]),
        frozenset(),
        frozenset(),
    )
    return put(creature, "Two")


def test_the_targets_of_constraints_are_not_effectors(empty: ModuleType) -> None:
    dog = CREATURES["dog"]
    random = tuple(f"q{(7 * i) % len(dog.names)}z" for i in range(len(dog.names)))
    called = dict(zip(dog.names, random, strict=True))
    ob = put(Creature(random, dog.parents, dog.heads, frozenset(), frozenset()))
    aim = ob.pose.bones[called["hind_paw_L"]].constraints.new("IK")
    aim.target, aim.subtarget = ob, called["IK_hind_L"]
    assert empty.ops.neural_ik.effectors_find() == {"FINISHED"}
    found = set(ob.neural_ik_ends.effectors.split("\n"))
    assert found == {called[n] for n in dog.effectors}


def test_humans_need_no_effectors_and_may_have_them(demo: Any) -> None:
    import bpy

    rig = wing("blender.host.rig")
    plain = rig.read(demo).skeleton
    assert [plain.names[e] for e in plain.effectors] == ["LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head"]
    assert bpy.ops.neural_ik.effectors_add(bones="LeftForeArm\nLeftHand") == {"FINISHED"}
    own = rig.read(demo).skeleton
    assert [own.names[e] for e in own.effectors] == ["LeftForeArm", "LeftHand"]
    assert bpy.ops.neural_ik.effectors_clear() == {"FINISHED"}
    assert rig.read(demo).skeleton.fingerprint == plain.fingerprint
