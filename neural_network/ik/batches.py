# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses in batches: what a network is asked on given frames, the truth, its answers, and how far they are off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.skeleton import Skeleton
from . import network
from .context import Layout, Samples, Targets, decode, features, guess_root, targets_of
from .losses import Truth
from .network import Network

CHUNK = 256  # poses at once in evaluation: NumPy's fast range


def mean_pose(samples: Samples, rows: np.ndarray) -> np.ndarray:
    """(J, 3) the chordal mean of the core rotations of the frames ``rows``: mean matrix, projected on the rotations by SVD."""
    mean = rotations.matrix_from_axis_angle(samples.rot[rows].astype(np.float64)).mean(axis=0)
    u, _, v = np.linalg.svd(mean)
    u[..., -1] *= np.sign(np.linalg.det(u @ v))[..., None]
    return rotations.axis_angle_from_matrix(u @ v)


def components(rot: np.ndarray) -> np.ndarray:
    """(N, J, 3) to (3, J, N), contiguous."""
    return np.ascontiguousarray(rot.transpose(2, 1, 0))


def with_hint(
    targets: Targets, truth: Truth, head: np.ndarray, heading: np.ndarray, root: np.ndarray
) -> tuple[Targets, Truth]:
    """Targets and truth seen from a hint of the Hips: its head (3, N), heading (N) and rotation without heading (3, 3, N)."""
    zero = np.zeros_like(heading)
    back = rotations.matrix_components(np.stack([zero, zero, -heading]))
    positions = np.einsum("abn,ben->aen", back, targets.positions - head[:, None])
    heads = np.einsum("abn,bjn->ajn", back, truth.heads - head[:, None])
    turned = np.einsum("abn,bcen->acen", back, targets.turned)
    turns = truth.turns.copy()
    turns[:, :, 0] = fk.compose_components(back, truth.turns[:, :, 0])
    return (
        replace(targets, positions=positions, turned=turned, root=root),
        replace(truth, turns=turns, heads=heads, shift=heads[:, 0]),
    )


def asked(layout: Layout, skeleton: Skeleton, samples: Samples, rows: np.ndarray) -> tuple[Targets, Truth]:
    """What a network of this layout is asked on the frames ``rows``, and the truth: with a free root, Hips guessed from the targets."""
    posed, heads, targets = true_batch(skeleton, samples, rows)
    truth = Truth(rotations.matrix_components(posed), heads)
    if not layout.free_root:
        return targets, truth
    head, heading = guess_root(skeleton, targets.positions, targets.turned)
    upright = np.repeat(np.eye(3, dtype=np.float32)[:, :, None], len(rows), axis=2)
    return with_hint(targets, truth, head, heading, upright)


def predict(net: Network, targets: Targets, rotations_given: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
    """The network's pose for ``targets``: core rotations (3, J, N), and the root's shift (3, N) [leg lengths] if it is free.

    Without ``rotations_given`` the inputs that hold the targets' rotations are at their mean, as in training.
    """
    inputs = features(net.layout, net.skeleton, targets)
    if not rotations_given:
        unknown = net.layout.rotation_columns(net.skeleton)
        inputs[:, unknown] = net.mean[unknown]
    return decode(net.layout, net.skeleton, network.forward(net, inputs), targets.root)


def without_rotations(skeleton: Skeleton, targets: Targets) -> Targets:
    """``targets`` (N) whose rotations are not known: feet count as flat where their heights are taken."""
    effectors = list(skeleton.effectors)
    feet = [effectors.index(f) for f in skeleton.feet]
    arm, rest = toe_arms(skeleton)
    ankle = targets.positions[2, feet]
    turned = np.einsum("cfn,fc->fn", targets.turned[2][:, feet], arm)
    posed, flat = (np.minimum(ankle - rest[:, :1], ankle + toe - rest[:, 1:]) for toe in (turned, arm[:, 2:]))
    given = None if targets.given is None else np.stack([targets.given[0], np.zeros_like(targets.given[1])])
    level = np.broadcast_to(np.eye(3, dtype=targets.turned.dtype)[:, :, None, None], targets.turned.shape)
    heights = (targets.heights - posed + flat).astype(targets.heights.dtype)
    return replace(targets, heights=heights, turned=level, given=given)


def toe_arms(skeleton: Skeleton) -> tuple[np.ndarray, np.ndarray]:
    """For each foot the vector (feet, 3) from its head to its toe's in the T-pose, and both rest heights (feet, 2) [leg lengths]."""
    feet, toes = np.array(skeleton.feet, int), np.array(skeleton.toes, int)
    arm = np.where((feet == toes)[:, None], 0, skeleton.offsets[toes]) / skeleton.leg_length
    return arm.reshape(-1, 3), skeleton.foot_rest / skeleton.leg_length


def true_batch(skeleton: Skeleton, samples: Samples, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, Targets]:
    """The frames ``rows`` as they are: core rotations (3, J, N), heads (3, J, N) [leg lengths] and their targets."""
    truth = components(samples.rot[rows])
    turned, heads = fk.forward_components(skeleton, truth, skeleton.offsets / skeleton.leg_length)
    return (
        truth,
        heads,
        targets_of(
            skeleton,
            turned,
            heads,
            samples.low[rows],
            samples.grounded[rows],
            samples.desired[rows],
            samples.phase[rows],
            samples.task[rows],
        ),
    )


def effector_distances(
    skeleton: Skeleton, rot: np.ndarray, targets: Targets, shift: np.ndarray | None = None
) -> np.ndarray:
    """(E, N) [m] how far the effectors of core rotations ``rot`` (3, J, N) are from their targets."""
    _, heads = fk.forward_components(skeleton, rot, skeleton.offsets / skeleton.leg_length)
    reached = heads[:, np.array(skeleton.effectors)]
    if shift is not None:
        reached = reached + shift[:, None]
    return np.sqrt(np.sum((reached - targets.positions) ** 2, axis=0)) * skeleton.leg_length


def error_of(net: Network, samples: Samples, rows: np.ndarray) -> float:
    """[m] mean effector distance of the network's poses on the frames ``rows``, without refinement."""
    total = 0.0
    for at in range(0, len(rows), CHUNK):
        targets, _ = asked(net.layout, net.skeleton, samples, rows[at : at + CHUNK])
        rot, shift = predict(net, targets)
        total += float(effector_distances(net.skeleton, rot, targets, shift).mean(axis=0).sum())
    return total / len(rows)
