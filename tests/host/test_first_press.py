# SPDX-License-Identifier: GPL-3.0-or-later
"""The first press on people with other bones than the demo character: nothing was trained, nothing is chosen by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import blender_rigs, rigs

from .test_live_ik import HIT, update

from .conftest import wing  # isort: skip


def evaluated(ob: Any, bone: int) -> Any:
    import bpy

    shown = ob.evaluated_get(bpy.context.evaluated_depsgraph_get())
    return ob.matrix_world @ shown.pose.bones[bone].head


@pytest.mark.parametrize("family", ["mixamo", "unreal mannequin 5", "kinect", "stylised, few bones"])
def test_a_hand_is_dragged_with_the_shipped_weights(empty: Any, family: str) -> None:
    import bpy

    ob = blender_rigs.build(family, rigs.all_rigs()[family])
    assert bpy.ops.neural_ik.live_start() == {"FINISHED"}
    engine = wing("blender.posing.live_ik")
    (collection,) = engine.collections()
    live = engine.live_of(collection)
    assert type(live.session).__name__ == "DragSession"
    targets = engine.target_objects(collection)
    bones = {live.rig.roles[e]: int(live.rig.index[e]) for e in live.rig.skeleton.effectors}
    began = evaluated(ob, bones["RightHand"])
    for _ in range(8):
        targets["EFFECTOR", "RightHand"].location.y -= 0.04
        targets["EFFECTOR", "RightHand"].location.z -= 0.03
        update()
        for role in ("RightHand", "LeftFoot", "RightFoot"):
            wanted = targets["EFFECTOR", role].matrix_world.translation
            assert (evaluated(ob, bones[role]) - wanted).length <= HIT
    assert (evaluated(ob, bones["RightHand"]) - began).length > 0.3
    assert not wing("blender.posing.state").verdict(live)
    bpy.ops.neural_ik.live_cancel()
    assert max(np.abs(np.array(pb.matrix_basis) - np.eye(4)).max() for pb in ob.pose.bones) < 1e-5


def test_weights_of_another_character_do_not_keep_a_new_one_from_the_shipped_ones(demo: Any) -> None:
    import bpy

    memory, characters = wing("blender.host.memory").memory, wing("blender.host.characters")
    ob = blender_rigs.build("mixamo", rigs.all_rigs()["mixamo"])
    net = characters.weights_for(ob)
    fitted = net.skeleton.names
    assert fitted[0] == "mixamorig:Hips"
    memory.network, memory.network_file, memory.network_chosen = net, memory.network_file.with_name("other.npy"), False
    stylised = blender_rigs.build("stylised, few bones", rigs.all_rigs()["stylised, few bones"])
    bpy.context.view_layer.objects.active = stylised
    assert characters.weights_for(stylised).skeleton.names[0] == "body"


APART = """
root floor
 hips hips
  spine spine
   chest spine2
    neck neck
     head head
    upper_arm.* arm
     forearm.* elbow
  thigh.* thigh
   shin.* knee
 foot.* ankle
 hand.* wrist
"""
"""Hands and feet follow the root, as controls do."""


def test_hands_and_feet_apart_from_their_limbs_are_said_and_effectors_pose_the_rest(empty: Any) -> None:
    import bpy

    ob = blender_rigs.build("apart", rigs.build("apart", APART, ("L", "R")))
    with pytest.raises(RuntimeError, match=r"foot.L.*are not below hips.*Ctrl P.*Find Effectors"):
        bpy.ops.neural_ik.live_start()
    assert bpy.ops.neural_ik.effectors_find() == {"FINISHED"}
    ob.pose.bones["upper_arm.L"].keyframe_insert("rotation_quaternion", frame=1)
    ob.pose.bones["upper_arm.L"].rotation_quaternion = (0.9, 0.3, 0.1, 0.2)
    ob.pose.bones["upper_arm.L"].keyframe_insert("rotation_quaternion", frame=9)
    assert bpy.ops.neural_ik.extract_data() == {"FINISHED"}


def test_the_built_in_character_gets_its_own_weights_and_everybody_else_those_for_people(demo: Any) -> None:
    import bpy

    characters, memory = wing("blender.host.characters"), wing("blender.host.memory")
    ob = characters.active_object(bpy.context)
    characters.weights_for(ob)
    assert memory.memory.network_file == memory.SHIPPED_WEIGHTS
    bpy.ops.object.mode_set(mode="EDIT")
    for side in ("Left", "Right"):
        hand = ob.data.edit_bones[f"{side}Hand"]
        hand.head += hand.head - ob.data.edit_bones[f"{side}ForeArm"].head
    bpy.ops.object.mode_set(mode="OBJECT")
    characters.weights_for(ob)
    assert memory.memory.network_file == memory.PEOPLE_WEIGHTS
