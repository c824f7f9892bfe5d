# SPDX-License-Identifier: GPL-3.0-or-later
"""Motion on bones that no role controls: travel on a root bone, and turns of the trunk on the bones between."""

from __future__ import annotations

import numpy as np

from ...core import forward_kinematics as fk
from ...core import rotations, tree
from ...motion.pose_set import PoseSet
from ...rigs.bone_names import read_names
from ...rigs.roles import NECK, TRUNK
from ..host.control_rigs import ControlRig
from ..host.rig import Rig

SMOOTH = 1.0  # [s] over which the way and the heading of the root are averaged; hips keep the rest of both
LOW, NEAR = 0.25, 0.5  # [leg lengths] a root bone is no higher above the lowest foot, and no farther beside the hips


_TRUNK = (*TRUNK, *NECK, "Head")


def root_bone(rig: Rig) -> int | None:
    """The topmost bone above the hips, where it is on the floor and moves freely; None where there is none."""
    hips = int(rig.index[0])
    line = tree.chain(rig.parents, hips)
    top = line[-1]
    if isinstance(rig, ControlRig) or top == hips or top == rig.carrier or not rig.plain[top]:
        return None
    up, leg = rig.skeleton.axes[2], rig.skeleton.leg_length
    heads = rig.rest[:, :3, 3] @ rig.turn.T * rig.unit
    floor = min(float(heads[int(rig.index[f])] @ up) for f in (*rig.skeleton.feet, *rig.skeleton.toes))
    beside = heads[hips] - heads[top]
    beside = beside - (beside @ up) * up
    if heads[top] @ up > floor + LOW * leg or np.linalg.norm(beside) > NEAR * leg or up[2] < 0.99:
        return None
    return top


def root_motion(rig: Rig, poses: PoseSet) -> dict[int, np.ndarray]:
    """Basis matrices (F, 4, 4) of the root bone for a clip; empty where the rig has none."""
    top = root_bone(rig)
    if top is None or not poses.frames:
        return {}
    skeleton = rig.skeleton
    posed = fk.armature_matrices(skeleton, poses.rot.astype(np.float64), poses.root_pos.astype(np.float64))[:, 0]
    left = posed[:, :3, :3] @ skeleton.rest_arm[0, :3, :3].T @ skeleton.axes[0]
    began = np.arctan2(skeleton.axes[0][1], skeleton.axes[0][0])
    window = max(1, round(SMOOTH * float(poses.clip_fps[0])))
    heading = _averaged(np.unwrap(np.arctan2(left[:, 1], left[:, 0]))[:, None] - began, window)[:, 0]
    rest = skeleton.rest_arm[0, :3, 3] * [1, 1, 0]
    way = _averaged(posed[:, :3, 3] * [1, 1, 0], window)
    turn = rotations.matrix_from_axis_angle(heading[:, None] * np.array([0.0, 0, 1]))
    own = rig.rest[top]
    basis = np.tile(np.eye(4), (poses.frames, 1, 1))
    turned = rig.turn.T @ turn @ rig.turn  # object space
    head = rig.turn @ own[:3, 3] * rig.unit
    moved = (turn @ (head - rest) + way) @ rig.turn / rig.unit
    basis[:, :3, :3] = own[:3, :3].T @ turned @ own[:3, :3]
    basis[:, :3, 3] = (moved - own[:3, 3]) @ own[:3, :3]
    return {top: basis}


def trunk_shares(rig: Rig, poses: PoseSet) -> dict[int, np.ndarray]:
    """Basis matrices (F, 4, 4) of bones between two roles of trunk and neck: each takes as much of the turn between them as the others.

    Rigs with four spine bones or more then bend in all of them. The roles' own bones turn to where they should anyway.
    """
    if isinstance(rig, ControlRig) or not poses.frames:
        return {}
    info = read_names(rig.bones)
    rest = rig.rest[:, :3, :3]
    posed = fk.armature_matrices(rig.skeleton, poses.rot.astype(np.float64), poses.root_pos.astype(np.float64))
    turned = posed[..., :3, :3] @ rig.skeleton.rest_arm[:, :3, :3].transpose(0, 2, 1)
    out: dict[int, np.ndarray] = {}
    for j, role in enumerate(rig.roles):
        above = int(rig.skeleton.parents[j])
        if above < 0 or role not in _TRUNK or rig.roles[above] not in ("Hips", *_TRUNK):
            continue
        between = [b for b in rig.between(int(rig.index[j]))[:-1] if not info[b].excluded and rig.plain[b]]
        if not between:
            continue
        whole = rotations.axis_angle_from_matrix(turned[:, above].transpose(0, 2, 1) @ turned[:, j])
        share = rotations.matrix_from_axis_angle(whole / (len(between) + 1))
        share = rig.turn.T @ share @ rig.turn  # object space
        for bone in between:
            out[bone] = np.tile(np.eye(4), (poses.frames, 1, 1))
            out[bone][:, :3, :3] = rest[bone].T @ share @ rest[bone]
    return out


def _averaged(values: np.ndarray, window: int) -> np.ndarray:
    """Values (F, n) averaged over ``window`` frames around each, fewer at the ends."""
    half = window // 2
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    frames = np.arange(len(values))
    reach = np.minimum(half, np.minimum(frames, len(values) - 1 - frames))  # as far to both sides, so that nothing lags
    return np.asarray((sums[frames + reach + 1] - sums[frames - reach]) / (2 * reach + 1)[:, None])
