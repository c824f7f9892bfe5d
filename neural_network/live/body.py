# SPDX-License-Identifier: GPL-3.0-or-later
"""The body that clients see and solve: one skeleton in core axes and, where weights fit it, its solver.

On the wire a rotation is relative to the parent and to the T-pose, in axes parallel to the world's. It does not depend on
how a rig rolls its bones, and 1, 0, 0, 0 everywhere is the T-pose.
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
class ServedBody:
    """The character that clients see, in core axes (left +X, facing -Y, up +Z), at rest in its T-pose."""

    names: tuple[str, ...]
    parents: tuple[int, ...]
    offsets: np.ndarray
    """(J, 3) head of each bone relative to its parent's [m]; the root's own position."""
    effectors: tuple[int, ...] = ()
    solve: Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None
    """``solve(positions (E, 3), rotations (E, 4), weights (E), root_pos (3), root_rot (4))`` -> root_pos (3), rotations
    (J, 4) relative to the parents, and errors (E) [m]. Rotations of effectors are relative to the T-pose."""


def served_body(skeleton: Skeleton) -> ServedBody:
    """A skeleton for clients to see, without a solver."""
    offsets = skeleton.offsets.copy()
    offsets[skeleton.parents < 0] = skeleton.rest_core[skeleton.parents < 0, :3, 3]
    return ServedBody(skeleton.names, tuple(int(p) for p in skeleton.parents), offsets, tuple(skeleton.effectors))


def solving_body(solver: Solver) -> ServedBody:
    """A skeleton for clients to see and solve."""
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
        return *wire_pose(rig, found.rotations, found.root_pos), found.error

    return replace(served_body(rig), solve=solve)


def wire_pose(skeleton: Skeleton, rot_local: np.ndarray, root_pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A pose (..., J, 3) [rad] with its root's head (..., 3) [m, armature] as the wire has it, in core axes.

    Returns the root's head (..., 3) [m] and rotations (..., J, 4) relative to the parents and the T-pose.
    """
    return np.asarray(root_pos) @ skeleton.axes.T, quaternion_from_axis_angle(skeleton.to_core(rot_local))
