# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks on any character whose bones have roles: made for its own proportions, then given to its bones, with nothing placed anew.

A character is seen as the reference rig in its lengths (:func:`.proportions.proportioned_reference`); on that body walks are
made, and from it walks of the character's own actions are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core import rotations
from ..core.skeleton import Skeleton
from ..ik import foot_pins
from ..rigs import retarget
from ..rigs.proportions import proportioned_reference
from ..rigs.rig_body import skeleton_body
from . import parameters
from .walks import Walk, proportions_of


@dataclass(frozen=True)
class Character:
    """A character as a walk sees it."""

    skeleton: Skeleton
    """Its own controlled bones."""
    roles: dict[str, int]
    """Role -> bone."""
    body: Skeleton
    """The reference rig in its lengths."""


def character(skeleton: Skeleton, roles: Sequence[str]) -> Character:
    """A character of bones (J) with ``roles`` (J); ValueError for one without hips, legs or feet."""
    table = {role: j for j, role in enumerate(roles)}
    missing = [r for r in ("Hips", "LeftFoot", "RightFoot", "LeftThigh", "RightThigh") if r not in table]
    if missing:
        raise ValueError(f"gait: expected a character with hips, legs and feet, found no bone for {', '.join(missing)}")
    body = proportioned_reference(skeleton_body(skeleton, table))
    foot_pins.soles(body)
    return Character(skeleton, table, body)


def own_values(who: Character, values: np.ndarray) -> np.ndarray:
    """Parameters (..., P) with the proportions of a character."""
    out = np.array(values, float)
    for name, value in proportions_of(who.body).items():
        out[..., parameters.INDEX[name]] = value
    return out


def onto(who: Character, walk: Walk) -> tuple[np.ndarray, np.ndarray]:
    """rot_local (F, J, 3) [rad] and the root's head (F, 3) [m, armature] of a walk that was made on the character's body."""
    turned, _ = foot_pins.forward(who.body, walk.turns, walk.root)
    return retarget.carry_exactly(who.body, turned, walk.root, who.skeleton, who.roles)


def from_character(who: Character, rot_local: np.ndarray, root_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Local core rotations (F, 23, 3, 3) and Hips' heads (F, 3) [m] on the character's body, from its own motion."""
    rig, body = who.skeleton, who.body
    local = rotations.matrix_from_axis_angle(rig.to_core(np.asarray(rot_local, np.float64)))
    turned, heads = foot_pins.forward(rig, local, np.asarray(root_pos, np.float64) @ rig.axes.T)
    world = np.empty((len(local), body.count, 3, 3))
    for j, name in enumerate(body.names):
        bone = who.roles.get(name)
        parent = int(body.parents[j])
        world[:, j] = turned[:, bone] if bone is not None else world[:, max(parent, 0)]
    out = world.copy()
    for j, parent in enumerate(body.parents.tolist()):
        if parent >= 0:
            out[:, j] = np.swapaxes(world[:, parent], -1, -2) @ world[:, j]
    thighs = [who.roles["LeftThigh"], who.roles["RightThigh"]]
    middle = 0.5 * (body.offsets[body.names.index("LeftThigh")] + body.offsets[body.names.index("RightThigh")])
    return out, heads[:, thighs].mean(axis=1) - world[:, 0] @ middle
