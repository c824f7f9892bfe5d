# SPDX-License-Identifier: GPL-3.0-or-later
"""Forward kinematics of one pose in few NumPy calls, in float64 [leg lengths, root frame].

A pose is kept as ``inverse`` (J, 3, 3): the inverse (transpose) of each bone's orientation ``D`` in the root frame (see
:mod:`..core.forward_kinematics`). Multiplying along every chain takes log2(depth) products, and all heads are one product of
all orientations. A test holds it to ``core.forward_kinematics``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import quick_rotations as quick
from ..core import rotations
from ..core.skeleton import Skeleton
from .refinement import TRUNK_FIRST

IDENTITY = np.eye(3)


@dataclass(frozen=True)
class KinematicPlan:
    """What solving one rig needs and no pose changes, and arrays that every solve works in; made by :func:`make_plan`.

    The working arrays are overwritten by every step, so a plan serves one solve at a time.
    """

    count: int
    effectors: np.ndarray  # (E) bones
    ancestors: tuple[np.ndarray, ...]  # (J + 1) each: the bone 1, 2, 4, ... above, J where there is none
    parents: np.ndarray  # (J) the bone above; the root is its own
    offsets: np.ndarray  # (3 J, J) orientations (3, 3 J) times this are the heads [leg lengths]
    signs: (
        np.ndarray
    )  # (2, 1, E, J) 1 where the joint moves the effector (its root of TRUNK_FIRST for the Hips), and the negative
    # working arrays
    signed: np.ndarray  # (7 E, J) zeros, lever arms, negative lever arms
    pick: np.ndarray  # (9 E) which of those rows stand where in the Jacobian
    jacobian: (
        np.ndarray
    )  # (6 E, 3 J) rows of positions, then those of orientations, which are constant in the root frame
    step: np.ndarray  # (4, J) a row of 2 above a step's rotation vectors [rad, root frame]: unnormalised quaternions
    products: np.ndarray  # (4, 4, J) products of the components of those quaternions
    turn: (
        np.ndarray
    )  # (J + 1, 3, 3) the inverse of each joint's rotation in a step; the last, above the root, is the identity


def make_plan(skeleton: Skeleton, free_root: bool = False) -> KinematicPlan:
    """The plan of a rig; with ``free_root`` its Hips may turn and move too."""
    count, effectors = skeleton.count, len(skeleton.effectors)
    up = np.append(np.where(skeleton.parents < 0, count, skeleton.parents), count)
    ancestors, reach = [], up
    while np.any(reach < count):
        ancestors.append(reach)
        reach = reach[reach]
    share = skeleton.subtree[:, list(skeleton.effectors)].T.copy()  # (E, J)
    share[:, 0] = np.sqrt(TRUNK_FIRST) if free_root else 0
    parents = np.maximum(skeleton.parents, 0)
    offsets = np.zeros((count, 3, count))
    for j in range(1, count):  # everything below a joint is carried by the joint's offset, turned by its parent
        offsets[parents[j]] += np.outer(skeleton.offsets[j] / skeleton.leg_length, skeleton.subtree[j])
    block = np.array(
        [[0, 3, 5], [6, 0, 1], [2, 4, 0]]
    )  # turning by d moves the head by d x arm: rows of the cross product
    pick = block[:, None, :] * effectors + np.arange(effectors)[:, None]
    jacobian = np.zeros((2, 3, effectors, 3, count))
    for c in range(3):
        jacobian[1, c, :, c] = share
    return KinematicPlan(
        count,
        np.array(skeleton.effectors),
        tuple(ancestors),
        parents,
        offsets.reshape(3 * count, count),
        np.stack([share, -share])[:, None],
        np.zeros((7 * effectors, count)),
        pick.ravel(),
        jacobian.reshape(6 * effectors, 3 * count),
        np.full((4, count), 2.0),
        np.zeros((4, 4, count)),
        np.tile(IDENTITY, (count + 1, 1, 1)),
    )


def forward_one(plan: KinematicPlan, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotations relative to the parent (J, 3, 3) to the pose ``inverse`` (J, 3, 3) and its heads (3, J) [leg lengths]."""
    inverse = np.empty((plan.count + 1, 3, 3))
    inverse[:-1] = turns.transpose(0, 2, 1)
    inverse[-1] = IDENTITY
    for ancestor in plan.ancestors:
        inverse = np.matmul(inverse, inverse.take(ancestor, axis=0))
    return inverse[:-1], heads_one(plan, inverse[:-1])


def heads_one(plan: KinematicPlan, inverse: np.ndarray) -> np.ndarray:
    """Heads (3, J) [leg lengths, root frame] of a pose ``inverse`` (J, 3, 3), the root's at zero."""
    return np.dot(inverse.reshape(-1, 3).T, plan.offsets)


def relative_one(plan: KinematicPlan, inverse: np.ndarray) -> np.ndarray:
    """A pose ``inverse`` (J, 3, 3) to rotations relative to the parent (J, 3, 3), the root's to the root frame."""
    out = np.matmul(inverse.take(plan.parents, axis=0), inverse.transpose(0, 2, 1))
    out[0] = inverse[0].T
    return out


def local_products(skeleton: Skeleton) -> np.ndarray:
    """(J, 4, 4) that take core quaternions of the bones, as columns, to rot_local: into bone axes, then the T-pose in front."""
    into_bone = np.tile(np.eye(4), (skeleton.count, 1, 1))
    into_bone[:, 1:, 1:] = skeleton.basis.transpose(0, 2, 1)
    t_pose = rotations.quaternion_from_axis_angle(skeleton.t_pose)
    return np.asarray(np.stack([quick.left_product(q) for q in t_pose]) @ into_bone)


def rest_to_t(skeleton: Skeleton, bones: list[int]) -> np.ndarray:
    """(K, 3, 3) that, multiplied on the right, make rotations of ``bones`` (K) from the real rest ones from the T-posed rest."""
    rest, basis = skeleton.rest_arm[bones, :3, :3], skeleton.basis[bones]
    return np.asarray(rest @ (skeleton.axes.T @ basis).transpose(0, 2, 1))
