# SPDX-License-Identifier: GPL-3.0-or-later
"""Group the clips of an import by skeleton, with one up axis and one unit for each group."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...motion.clip import to_z_up
from .floors import NO_FLOOR
from .parts import StoredClip

SAME_SHAPE = 0.002  # of the skeleton's size: joints of one skeleton differ by less than this between files


def group_by_skeleton(clips: Sequence[StoredClip]) -> list[list[StoredClip]]:
    """Clips with the same bones and proportions together, with one up axis and one size for each group.

    A single clip of someone lying down must not turn the whole figure over, and a wrongly guessed unit must not make a
    second skeleton. So clips of the same file skeleton vote on the up axis, and clips of the same upright skeleton on its
    size. Votes count by frames; clips whose up axis is in doubt vote on it only if all are.
    """
    agreed: list[StoredClip] = []
    for group in _grouped(clips, lambda clip: _shape(clip, np.eye(3))):
        voters = [clip for clip in group if clip.axis_known] or group
        up_axis = _majority([(clip.up_axis, clip.frames) for clip in voters])
        agreed += [
            clip if clip.up_axis == up_axis else replace(clip, up_axis=up_axis, outvoted=True, taken=NO_FLOOR)
            for clip in group
        ]
    agreed.sort(key=lambda clip: (clip.source, clip.number))
    groups = []
    for group in _grouped(agreed, lambda clip: _shape(clip, to_z_up(clip.up_axis))):
        size = _majority([(round(_size(clip) * clip.unit, 4), clip.frames) for clip in group])
        groups.append([replace(clip, unit=size / _size(clip)) for clip in group])
    return groups


def _grouped(
    clips: Sequence[StoredClip], shape_of: Callable[[StoredClip], tuple[str, np.ndarray]]
) -> list[list[StoredClip]]:
    """Clips with equal names and the same shape together, in order."""
    groups: list[tuple[str, np.ndarray, list[StoredClip]]] = []
    for clip in clips:
        names, shape = shape_of(clip)
        for group_names, group_shape, group in groups:
            if group_names == names and np.abs(shape - group_shape).max() < SAME_SHAPE:
                group.append(clip)
                break
        else:
            groups.append((names, shape, [clip]))
    return [group for _, _, group in groups]


def _shape(clip: StoredClip, axes: np.ndarray) -> tuple[str, np.ndarray]:
    """Names and tree in one string, and rest heads (J, 3) relative to the root, in skeleton sizes, turned by ``axes``."""
    assert clip.own is not None
    heads = (clip.own.heads - clip.own.heads[0]) @ axes.T
    return json.dumps([clip.own.names, clip.own.parents.tolist()]), heads / _size(clip)


def _size(clip: StoredClip) -> float:
    """Largest distance of a rest head from the root [file units]; 1 if there is none."""
    assert clip.own is not None
    return float(np.linalg.norm(clip.own.heads - clip.own.heads[0], axis=1).max()) or 1.0


def _majority(votes: Sequence[tuple[Any, int]]) -> Any:
    """The value with the largest total weight; the first of several."""
    weight: dict[Any, int] = {}
    for value, frames in votes:
        weight[value] = weight.get(value, 0) + frames
    return max(weight, key=lambda value: weight[value])
