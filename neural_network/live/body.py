# SPDX-License-Identifier: GPL-3.0-or-later
"""The body on the wire: one skeleton in core axes and its solver, as the server and VMC show it to others.

On the wire a rotation is relative to the parent and to the T-pose, in axes that all look along the world's: it says
nothing of how a rig rolls its bones, and 1, 0, 0, 0 everywhere is the T-pose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core.rotations import (
    axis_angle_from_matrix,
    axis_angle_from_quaternion,
    matrix_from_quaternion,
    quaternion_from_axis_angle,
)
from ..core.skeleton import Skeleton
from ..ik.goals import Goals
from ..ik.solver import Solver


@dataclass(frozen=True)
class Body:
    """The character that is solved and shown, in core axes (left +X, facing -Y, up +Z), at rest in its T-pose."""

    names: tuple[str, ...]
    parents: tuple[int, ...]
    offsets: np.ndarray
    """(J, 3) head of each bone relative to its parent's [m]; the root's is its place."""
    effectors: tuple[int, ...] = ()
    solve: Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None
    """``solve(positions (E, 3), rotations (E, 4), weights (E), root_pos (3), root_rot (4))`` -> root_pos (3), rotations
    (J, 4), each relative to the parent, and errors (E) [m]. Rotations of effectors are relative to the T-pose."""


def body_of(skeleton: Skeleton) -> Body:
    """A skeleton as it is shown, without a solver."""
    offsets = skeleton.offsets.copy()
    offsets[skeleton.parents < 0] = skeleton.rest_core[skeleton.parents < 0, :3, 3]
    return Body(skeleton.names, tuple(int(p) for p in skeleton.parents), offsets, tuple(skeleton.effectors))


def solving_body(solver: Solver) -> Body:
    """A skeleton that is shown and solved."""
    rig = solver.skeleton
    bones = list(rig.effectors)
    rest = rig.rest_arm[bones, :3, :3]

    def solve(
        positions: np.ndarray, rotations: np.ndarray, weights: np.ndarray, root_pos: np.ndarray, root_rot: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        turned = rig.axes.T @ matrix_from_quaternion(rotations) @ rig.basis[bones]  # armature orientations
        core = np.zeros((len(rig.names), 3))
        core[0] = axis_angle_from_quaternion(root_rot)
        goals = Goals(
            positions=positions @ rig.axes,
            root_pos=root_pos @ rig.axes,
            root_rot=rig.from_core(core)[0],
            rotations=axis_angle_from_matrix(turned @ np.swapaxes(rest, -1, -2)),
            weights=weights,
        )
        found = solver.solve(goals)
        return *shown(rig, found.rotations, found.root_pos), found.error

    return replace(body_of(rig), solve=solve)


def shown(skeleton: Skeleton, rot_local: np.ndarray, root_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A pose (J, 3) [rad] with its root head (3) [m, armature] as ``Server.publish`` and VMC take it, in core axes."""
    return np.asarray(root_pos) @ skeleton.axes.T, quaternion_from_axis_angle(skeleton.to_core(rot_local))
