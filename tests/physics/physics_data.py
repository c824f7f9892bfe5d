# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of physics share: a walk of the gait engine, a still stance, a jump, and a body with masses."""

from __future__ import annotations

import functools

import numpy as np

from neural_network.core import reference_rig
from neural_network.gait import network as gait
from neural_network.gait import parameters, walks
from neural_network.physics.figures import finished
from neural_network.physics.masses import Masses, masses
from neural_network.rigs import on_body

RIG = reference_rig.reference()
BODY = on_body.found(RIG).body
FPS = 30.0


@functools.cache
def body() -> Masses:
    """The reference rig with its masses."""
    return masses(BODY)


@functools.cache
def walk() -> tuple[np.ndarray, np.ndarray]:
    """Turns and root of 60 frames of a walk."""
    made = walks.walk(gait.load(), parameters.DEFAULT, 60, FPS)
    return made.turns, made.root


def still(frames: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """The T-pose on the floor."""
    root = BODY.rest_core[0, :3, 3] - [0, 0, BODY.floor]
    return np.tile(np.eye(3), (frames, BODY.count, 1, 1)), np.tile(root, (frames, 1))


@functools.cache
def rows() -> tuple[np.ndarray, np.ndarray]:
    """The walk as rot_local (F, J, 3) float32 and the root's head (F, 3) float32."""
    rot, root = walks.to_local(RIG, *walk())
    return rot.astype(np.float32), root.astype(np.float32)


__all__ = ["BODY", "FPS", "RIG", "body", "finished", "rows", "still", "walk"]
