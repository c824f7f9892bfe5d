# SPDX-License-Identifier: GPL-3.0-or-later
"""Forward kinematics, its exact backward pass and the effector Jacobian.

Three walks serve the whole project:

- :func:`forward_components` and :func:`forward_matrices`: many poses of a Skeleton, for training and refinement;
- :func:`walk` and :func:`walk_quaternions`: any tree of joints with any offsets, such as a motion file's;
- :func:`pose_matrices` and :func:`armature_matrices`: Blender's pose matrices on the rig's real rest.

(:mod:`..ik.single_kinematics` has a fourth for one pose at a time, where all heads are one matrix product.)

``D[j]`` is the rotation that carries bone j from the T-posed rest to the pose, in the axes of the rotations given:
``D[j] = D[parent] exp(rot[j])`` and ``p[j] = p[parent] + D[parent] offset[j]``. Because the rotations are written in core
axes, no rest matrix stands in the chain; a bone's orientation is ``D[j]`` times its rest orientation.

The ``*_components`` functions keep poses on the last axis, ``(3, J, N)``, where NumPy is fastest; the others take the
usual free leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import quick_rotations, rotations, tree
from .skeleton import Skeleton


def forward_components(
    skeleton: Skeleton, rot: np.ndarray, offsets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Core rotations (3, J, N) [rad] to ``D`` (3, 3, J, N) and head positions (3, J, N), the root's head at the origin.

    ``offsets`` (J, 3) or (3, J, N) replace the skeleton's own [m, or any other unit, in which the positions then are].
    """
    return forward_matrices(skeleton, rotations.matrix_components(rot), offsets)


def forward_matrices(
    skeleton: Skeleton, turns: np.ndarray, offsets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`forward_components`, from each joint's own rotation as a matrix (3, 3, J, N)."""
    if offsets is None:
        offsets = skeleton.offsets
    if offsets.ndim == 2:
        offsets = offsets.T[:, :, None]
    local = np.empty(
        (3, 4, *turns.shape[2:]), turns.dtype
    )  # rotation and offset side by side: one product carries both
    local[:, :3] = turns
    local[:, 3] = offsets
    out = np.empty_like(local)
    out[:, :3, 0] = local[:, :3, 0]
    out[:, 3, 0] = 0
    for index, parent in skeleton.levels:
        above, own = out.take(parent, axis=2), local.take(index, axis=2)
        product = compose_components(above, own)
        product[:, 3] += above[:, 3]
        out[:, :, index] = product
    return out[:, :3], out[:, 3]


def compose_components(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Matrix product of (3, 3, ...) and (3, C, ...), component axes first."""
    out = a[:, 0, None] * b[0]
    term = a[:, 1, None] * b[1]
    out += term
    np.multiply(a[:, 2, None], b[2], out=term)
    out += term
    return out


def joint_torques(
    skeleton: Skeleton,
    turned: np.ndarray,
    heads: np.ndarray,
    bones: np.ndarray,
    force: np.ndarray,
    torque: np.ndarray | None = None,
) -> np.ndarray:
    """The torque (3, J, N) on every joint of a value that depends on the heads and orientations of ``bones`` (K).

    ``force`` (3, K, N) is the value's gradient with respect to the heads, ``torque`` (3, K, N) with respect to left
    increments of ``D``. As in statics, the torque on a joint is the sum over the bones below it of torque + (p_bone - p_joint) x force.
    It is returned in the parent's axes, as the gradient with respect to a left increment of the joint's own rotation.
    """
    share = skeleton.subtree[:, bones].astype(force.dtype)
    moment = rotations.cross_components(heads[:, bones], force)
    if torque is not None:
        moment += torque
    felt = share @ moment
    felt -= rotations.cross_components(heads, share @ force)
    above = turned.take(np.maximum(skeleton.parents, 0), axis=2)
    out = above[0] * felt[0]
    out += above[1] * felt[1]
    out += above[2] * felt[2]
    out[:, 0] = felt[:, 0]  # the root's parent is the world
    return out


def backward_components(
    skeleton: Skeleton,
    rot: np.ndarray,
    turned: np.ndarray,
    heads: np.ndarray,
    bones: np.ndarray,
    force: np.ndarray,
    torque: np.ndarray | None = None,
) -> np.ndarray:
    """Gradient (3, J, N) with respect to the core rotations ``rot`` (3, J, N); the rest as in :func:`joint_torques`."""
    return rotations.backward_components(rot, joint_torques(skeleton, turned, heads, bones, force, torque))


def forward(skeleton: Skeleton, rot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Core rotations (..., J, 3) [rad] to ``D`` (..., J, 3, 3) and heads (..., J, 3) [m], the root's head at the origin."""
    shape = rot.shape[:-2]
    flat = np.ascontiguousarray(np.moveaxis(rot.reshape(-1, *rot.shape[-2:]), 0, -1).swapaxes(0, 1))
    turned, heads = forward_components(skeleton, flat)
    return (
        np.moveaxis(turned, (3, 2), (0, 1)).reshape(*shape, skeleton.count, 3, 3),
        np.moveaxis(heads, (2, 1), (0, 1)).reshape(*shape, skeleton.count, 3),
    )


def walk(
    parents: Sequence[int] | np.ndarray, turns: np.ndarray, offsets: np.ndarray, root_pos: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Orientations (..., J, 3, 3) and heads (..., J, 3) of a tree of joints, in the axes and unit of ``offsets``.

    ``turns`` (..., J, 3, 3) are each joint's rotation relative to its parent, ``offsets`` (J, 3) or (..., J, 3) its head
    relative to the parent's in the parent's axes. A root stands at its offset, the first root at ``root_pos`` (..., 3)
    where that is given.
    """
    turned = tree.matrix_products(parents, turns)
    return turned, heads_of(parents, turned, offsets, root_pos)


def walk_quaternions(
    parents: Sequence[int] | np.ndarray, turns: np.ndarray, offsets: np.ndarray, root_pos: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`walk` with unit quaternions: orientations (..., J, 4) and heads (..., J, 3)."""
    turned = tree.quaternion_products(parents, turns)
    return turned, heads_of(parents, quick_rotations.matrix_from_quaternion(turned), offsets, root_pos)


def heads_of(
    parents: Sequence[int] | np.ndarray, turned: np.ndarray, offsets: np.ndarray, root_pos: np.ndarray | None = None
) -> np.ndarray:
    """Heads (..., J, 3) of joints whose orientations ``turned`` (..., J, 3, 3) are known; the rest as in :func:`walk`."""
    above = np.asarray(parents, int).tolist()
    out = np.empty(turned.shape[:-1], np.result_type(turned, offsets))
    for j, parent in enumerate(above):
        offset = offsets[..., j, :]
        if parent >= 0:
            out[..., j, :] = out[..., parent, :] + (turned[..., parent, :, :] @ offset[..., None])[..., 0]
        elif j == 0 and root_pos is not None:
            out[..., j, :] = root_pos
        else:
            out[..., j, :] = offset
    return out


def pose_matrices(skeleton: Skeleton, turns: np.ndarray, root_pos: np.ndarray) -> np.ndarray:
    """Pose matrices (..., J, 4, 4) [m, armature space] of rot_local as matrices (..., J, 3, 3) and the root's head (..., 3) [m].

    The definition itself, on the rig's real rest, as Blender does it: M(root) = rest_arm basis with its head at root_pos,
    M(bone) = M(parent) rest_arm(parent)^-1 rest_arm(bone) basis.
    """
    local = np.empty((*turns.shape[:-2], 4, 4), turns.dtype)
    local[...] = skeleton.steps
    local[..., :3, :3] = skeleton.steps[:, :3, :3] @ turns
    local[..., 0, :3, 3] = root_pos
    return tree.matrix_products(skeleton.parents, local)


def armature_matrices(skeleton: Skeleton, rot_local: np.ndarray, root_pos: np.ndarray) -> np.ndarray:
    """As :func:`pose_matrices`, from rot_local (..., J, 3) as axis-angle [rad]."""
    return pose_matrices(skeleton, rotations.matrix_from_axis_angle(np.asarray(rot_local, np.float64)), root_pos)


def effector_jacobian(skeleton: Skeleton, heads: np.ndarray, bones: np.ndarray) -> np.ndarray:
    """Jacobian (..., K, 6, J, 3) of the heads and orientations of ``bones`` (K) with respect to turning each joint.

    Rows: velocity of the head [m], then angular velocity of the bone [rad]. Columns: a small turn [rad] of each joint
    about the core axes at its head ``heads`` (..., J, 3), which carries everything below it. The root's columns are included.
    """
    arm = heads[..., bones, None, :] - heads[..., None, :, :]  # (..., K, J, 3)
    out = np.zeros((*arm.shape[:-3], len(bones), 6, skeleton.count, 3), heads.dtype)
    x, y, z = arm[..., 0], arm[..., 1], arm[..., 2]
    # axis x arm, for the axes X, Y, Z in turn
    out[..., 1, :, 0], out[..., 2, :, 0] = -z, y
    out[..., 0, :, 1], out[..., 2, :, 1] = z, -x
    out[..., 0, :, 2], out[..., 1, :, 2] = -y, x
    for i in range(3):
        out[..., 3 + i, :, i] = 1
    share = skeleton.subtree[:, bones].T.astype(heads.dtype)  # (K, J)
    return out * share[:, None, :, None]
