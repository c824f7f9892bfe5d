# SPDX-License-Identifier: GPL-3.0-or-later
"""A Skeleton as a new armature object."""

from __future__ import annotations

import bpy
import numpy as np

from ...core.skeleton import Skeleton

LONGEST_NAME = 63  # [bytes]: Blender's limit for bone names


def add(context: bpy.types.Context, name: str, skeleton: Skeleton, tails: np.ndarray | None = None) -> bpy.types.Object:
    """Add an armature with the rest pose of ``skeleton``; returns its object, which becomes the only selected and active one.

    ``tails`` (J, 3) [m, armature space] are the bones' tails; by default bones reach to their children (:func:`tails_of`).
    Raises ValueError for bone names that are too long for Blender.
    """
    long = [bone for bone in skeleton.names if len(bone.encode()) > LONGEST_NAME]
    if long:
        raise ValueError(
            f"the bone name {long[0]!r} is too long for Blender ({LONGEST_NAME} bytes): shorten it in the file"
        )
    tails = tails_of(skeleton) if tails is None else tails
    data = bpy.data.armatures.new(name)
    data.display_type = "STICK"
    rig = bpy.data.objects.new(name, data)
    context.collection.objects.link(rig)
    rig.show_in_front = True
    if context.mode != "OBJECT":
        bpy.ops.object.mode_set(mode="OBJECT")
    for other in context.selected_objects:
        other.select_set(False)
    context.view_layer.objects.active = rig
    rig.select_set(True)
    bpy.ops.object.mode_set(mode="EDIT")
    try:
        for bone_name, parent, rest, tail in zip(
            skeleton.names, skeleton.parents, skeleton.rest_arm, tails, strict=True
        ):
            bone = data.edit_bones.new(bone_name)
            bone.head = (rest[0, 3], rest[1, 3], rest[2, 3])
            bone.tail = (tail[0], tail[1], tail[2])
            bone.align_roll(rest[:3, 2].tolist())
            if parent >= 0:
                bone.parent = data.edit_bones[skeleton.names[parent]]
    finally:
        bpy.ops.object.mode_set(mode="OBJECT")
    return rig


def tails_of(skeleton: Skeleton) -> np.ndarray:
    """(J, 3) [m] tails along each bone's Y axis: as far as its farthest child, or else a third of its parent's length."""
    heads, along = skeleton.rest_arm[:, :3, 3], skeleton.rest_arm[:, :3, 1]
    lengths = np.zeros(skeleton.count)
    size = float(np.ptp(heads, axis=0).max()) or 1.0
    for j in range(skeleton.count):
        reach = [(heads[c] - heads[j]) @ along[j] for c in np.flatnonzero(skeleton.parents == j)]
        longest = max(reach, default=0.0)
        parent = int(skeleton.parents[j])
        lengths[j] = longest if longest > 0.01 * size else (lengths[parent] / 3 if parent >= 0 else 0.1 * size)
        lengths[j] = max(lengths[j], 0.01 * size)  # Blender drops bones without length
    return heads + along * lengths[:, None]
