# SPDX-License-Identifier: GPL-3.0-or-later
"""Clean takes: what repairs are learned from and measured on."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..core.contacts import truth_contacts
from ..core.skeleton import Skeleton
from ..ik.foot_pins import forward
from ..motion.pose_set import PoseSet
from ..rigs import on_body
from .inputs import BONES

COLLARS = ("LeftShoulder", "RightShoulder")
FEWEST = 20
"""Frames of the shortest take that is learned from."""


@dataclass(frozen=True)
class Take:
    """One clean take on the reference rig."""

    name: str
    turns: np.ndarray
    """(F, J, 3, 3) local core rotations."""
    root: np.ndarray
    """(F, 3) [m]."""

    @property
    def subject(self) -> str:
        """Who moves: what stands before the underscore."""
        return self.name.split("_")[0]


def take_name(clip: str) -> str:
    """The take that a clip holds, whatever file it was read from: 07_05 of "asfamc/07_05-walk"."""
    name = re.sub("^scaled_|_metres$", "", clip.split("/")[-1])
    return name.split("-")[0] if name[:1].isdigit() else name


def takes_of(poses: PoseSet) -> tuple[Skeleton, list[Take]]:
    """The body that the takes in a file are on, as characters are seen in use, and the takes, each once.

    ValueError where frame rates differ from 30, or the bones are not those of the reference rig.
    """
    if not np.allclose(poses.clip_fps, 30):
        raise ValueError("expected clips of 30 frames a second; import with --fps 30")
    if poses.skeleton.count != BONES or not set(on_body.NEEDED) <= set(poses.skeleton.names):
        raise ValueError(
            f"expected the reference rig's {BONES} bones, got {poses.skeleton.count}; import with --rig reference"
        )
    who = on_body.character(poses.skeleton, poses.skeleton.names)
    out: dict[str, Take] = {}
    for clip, label in enumerate(poses.clip_names):
        name, rows = take_name(label), poses.rows(clip)
        if name not in out:
            out[name] = Take(name, *on_body.to_body(who, poses.rot[rows], poses.root_pos[rows]))
    return who.body, list(out.values())


def true_contacts(skeleton: Skeleton, turns: np.ndarray, root: np.ndarray) -> np.ndarray:
    """(F, 2) bool: the truth that everything is measured by, of clean motion."""
    heads = forward(skeleton, turns, root)[1]
    return truth_contacts(heads[:, list(skeleton.feet)], heads[:, list(skeleton.toes)], skeleton.foot_rest)
