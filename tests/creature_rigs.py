# SPDX-License-Identifier: GPL-3.0-or-later
"""Creatures as armatures with actions, for tests in Blender."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.creatures import Creature, action, body_of, rest


def put(creature: Creature, name: str = "Creature") -> Any:
    """Create an armature object with all bones of a creature and make it active."""
    import bpy

    armature = bpy.data.armatures.new(name)
    ob = bpy.data.objects.new(name, armature)
    bpy.context.collection.objects.link(ob)
    bpy.context.view_layer.objects.active = ob
    bpy.ops.object.mode_set(mode="EDIT")
    for j, (bone, parent, seat) in enumerate(zip(creature.names, creature.parents, rest(creature), strict=True)):
        below = creature.heads[creature.parents == j]
        length = float(np.linalg.norm(below[0] - creature.heads[j])) if len(below) else 0.0
        made = armature.edit_bones.new(bone)
        made.head, made.tail = seat[:3, 3].tolist(), (seat[:3, 3] + (length or 0.05) * seat[:3, 1]).tolist()
        made.align_roll(seat[:3, 2].tolist())
        if parent >= 0:
            made.parent = armature.edit_bones[creature.names[parent]]
    bpy.ops.object.mode_set(mode="OBJECT")
    return ob


def animate(ob: Any, creature: Creature, clips: tuple[str, ...], actions: Any) -> None:
    """Key the creature's actions on the bones of its body; ``actions`` is the extension's module of that name."""
    import bpy

    from neural_network.core.rotations import quaternion_from_axis_angle

    rig = body_of(creature)
    ob.animation_data_create()
    for clip in clips:
        rot, root = action(rig, clip, 1)
        made, slot = actions.new(clip, ob.name)
        made.use_fake_user = True
        frames = np.arange(1, len(rot) + 1, dtype=np.float32)
        turns = quaternion_from_axis_angle(rot)
        places = (root - rig.rest_arm[0, :3, 3]) @ rig.rest_arm[0, :3, :3]
        for j, bone in enumerate(rig.names):
            path = f'pose.bones["{bpy.utils.escape_identifier(bone)}"].'
            values = [(path + "rotation_quaternion", c, turns[:, j, c]) for c in range(4)]
            values += [(path + "location", c, places[:, c]) for c in range(3)] if j == 0 else []
            for data_path, component, keys in values:
                curve = actions.new_curve(made, slot, data_path, component, bone)
                curve.keyframe_points.add(len(frames))
                curve.keyframe_points.foreach_set("co", np.stack([frames, keys], axis=1).astype(np.float32).ravel())
                curve.update()
        actions.assign(ob.animation_data, made, slot)
    bpy.context.scene.render.fps = 24
