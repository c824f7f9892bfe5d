# SPDX-License-Identifier: GPL-3.0-or-later
"""Keyframes of pose bones, written in bulk: the only code of the extension that fills F-Curves.

A single frame is keyed by Blender itself (``keyframe_insert``), which follows the user's keying preferences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bpy
import numpy as np

from . import actions

LINEAR = 1  # Keyframe.interpolation as a number, for foreach_set
SAME_FRAME = 1e-3  # [frames]: keys nearer than this are on the same frame


def bone_path(bone: str, channel: str) -> str:
    """Data path of a pose bone's channel: ``location``, or ``["name"]`` for a custom property."""
    dot = "" if channel.startswith("[") else "."
    return f'pose.bones["{bpy.utils.escape_identifier(bone)}"]{dot}{channel}'


def write_bones(action: Any, slot: Any, frames: np.ndarray, channels: Mapping[tuple[str, str], np.ndarray]) -> None:
    """Write linear keys for pose bones, in one channel group per bone.

    Keys between the first and the last frame are replaced; others stay.

    Args:
        action: the action to write to.
        slot: its slot for the armature object, from :func:`actions.new` or in use; None before Blender 4.4.
        frames: (F) ascending frames.
        channels: (bone name, channel) -> values (F, n), one column per array element. A constant channel may have one
            row: it gets one key, on the first frame.
    """
    existing = {(curve.data_path, curve.array_index): curve for curve in actions.curves(action, slot)}
    for (bone, channel), values in channels.items():
        path = bone_path(bone, channel)
        for index in range(values.shape[1]):
            curve = existing.get((path, index))
            if curve is None:
                curve = actions.new_curve(action, slot, path, index, bone)
            write_curve(curve, frames[: len(values)], values[:, index])


def write_curve(curve: bpy.types.FCurve, frames: np.ndarray, values: np.ndarray) -> None:
    """Write linear keys with ``values`` (F) on ``frames`` (F, ascending), replacing those from the first to the last frame."""
    keys = np.stack([frames, values], axis=1).astype(np.float32)
    modes = np.full(len(keys), LINEAR, np.uint8)
    points = curve.keyframe_points
    if len(points):
        old, old_modes = np.empty((len(points), 2), np.float32), np.empty(len(points), np.uint8)
        points.foreach_get("co", old.reshape(-1))
        points.foreach_get("interpolation", old_modes)
        outside = (old[:, 0] < frames[0] - SAME_FRAME) | (old[:, 0] > frames[-1] + SAME_FRAME)
        keys, modes = np.concatenate([old[outside], keys]), np.concatenate([old_modes[outside], modes])
        order = np.argsort(keys[:, 0], kind="stable")
        keys, modes = np.ascontiguousarray(keys[order]), np.ascontiguousarray(modes[order])
        points.clear()
    points.add(len(keys))
    points.foreach_set("co", keys.ravel())
    points.foreach_set("interpolation", modes)
    curve.update()
