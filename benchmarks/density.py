# SPDX-License-Identifier: GPL-3.0-or-later
"""What the statistics of poses bring where the network alone is lost: python -m benchmarks.density DATA.npz

A network is trained on one fold of whole takes. Printed is the joint error (MPJPE, five targets with rotations, Hips given) on
the held-out takes: on the character's own body, and with the same rotations on bodies whose arms and legs are longer or shorter
by a fifth, beside the network with exact steps alone and the nearest training frame with converged steps; then jerk and
acceleration on tracks of 120 frames, solved one after the other, divided by the capture's own.

``--actions`` leaves out each action in turn instead, as for a creature with a handful of them, and prints the classical solver
from the mean pose as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from neural_network.core import forward_kinematics as fk
from neural_network.core import metrics, skeleton
from neural_network.core.skeleton import Skeleton
from neural_network.core.tree import limb
from neural_network.ik import batches, context, errors, losses, targets_file, task
from neural_network.ik.context import LAYOUTS, Samples
from neural_network.ik.goals import alone
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.ik.solver import Solver
from neural_network.learning.arguments import number, positive
from neural_network.motion import pose_set, splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST, TRAIN, VALIDATION

FOLDS = 5
LONGER = 1.2
TRACK, TRACKS = 120, 10  # frames, and how many tracks at most
UNLIMITED = 1_000_000  # epochs, where CPU seconds end the training


def trained(poses: PoseSet, samples: Samples, parts: np.ndarray, cpu: float) -> Network:
    """A network trained on ``parts`` for so many CPU seconds."""
    return task.fit(poses.skeleton, samples, parts, Training(time_limit=cpu, epochs=UNLIMITED))


def with_limbs(rig: Skeleton, arms: float, legs: float) -> Skeleton:
    """The rig with arms and legs so many times as long."""
    heads, factor = rig.rest_arm[:, :3, 3], np.ones(rig.count)
    for effector in rig.effectors:
        _, lower, end = limb(rig.parents, heads, effector)
        away = abs(rig.rest_core[effector, 0, 3] - rig.rest_core[0, 0, 3]) > 0.05 * rig.leg_length
        if away:
            factor[[lower, end]] = legs if effector in rig.feet else arms
    rest = rig.rest_arm.copy()
    for j in range(1, rig.count):
        parent = rig.parents[j]
        rest[j, :3, 3] = rest[parent, :3, 3] + factor[j] * (heads[j] - heads[parent])
    names = [[rig.names[b] for b in bones] for bones in (rig.effectors, rig.feet)]
    return skeleton.make(rig.names, rig.parents, rest, *names, rig.t_pose, rig.limits)


def joint_error(
    net: Network, body: Skeleton, poses: PoseSet, samples: Samples, rows: np.ndarray, turns: bool = True
) -> float:
    """[mm] MPJPE of the solver's answers for the frames ``rows`` on ``body``; ``turns``: rotations of the targets are given."""
    goals = targets_file.of_poses(replace(poses, skeleton=body), samples, rows, turns)
    found = Solver(net, body).solve_batch(goals)
    heads = fk.armature_matrices(body, found.rotations, found.root_pos)[..., 1:, :3, 3]
    rot, root_pos = poses.rot[rows].astype(np.float64), poses.root_pos[rows].astype(np.float64)
    return metrics.mpjpe(heads, fk.armature_matrices(body, rot, root_pos)[..., 1:, :3, 3])


def rivals(
    body: Skeleton, samples: Samples, train: np.ndarray, rows: np.ndarray, turns: bool = True
) -> dict[str, float]:
    """[mm] MPJPE of the plain answers with steps; ``turns``: rotations of the targets are given."""
    found = errors.stepped_errors(LAYOUTS["hips" if turns else "positions"], body, samples, train, rows)
    return {name: float(e.joints.mean() * 1000) for name, e in found.items() if e is not None}


def bodies(net: Network, poses: PoseSet, samples: Samples, parts: np.ndarray) -> Iterator[str]:
    """Lines of the table of bodies."""
    train, test = (np.flatnonzero(parts == part) for part in (TRAIN, TEST))
    rows = test[errors.compared(test)]
    plain = replace(net, density=None)
    yield f"{'arms, legs':<14}{'ours mm':>10}{'of own':>8}{'network + exact steps':>24}{'nearest + steps':>18}"
    own = None
    for arms, legs in (
        (1.0, 1.0),
        (1 / LONGER, 1 / LONGER),
        (1 / LONGER, LONGER),
        (LONGER, 1 / LONGER),
        (LONGER, LONGER),
    ):
        body = with_limbs(poses.skeleton, arms, legs)
        ours, exact = (joint_error(n, body, poses, samples, rows) for n in (net, plain))
        own = own or ours
        near = rivals(body, samples, train, rows)["nearest_steps"]
        yield f"{f'{arms:.2f}, {legs:.2f}':<14}{ours:>10.1f}{ours / own:>8.2f}{exact:>24.1f}{near:>18.1f}"


def tracks(net: Network, poses: PoseSet, samples: Samples, parts: np.ndarray) -> Iterator[str]:
    """Lines on how smooth tracks are, solved one frame after the other."""
    test = np.flatnonzero(parts == TEST)
    starts = [t for t in test[::TRACK] if t + TRACK <= poses.frames and poses.clip[t] == poses.clip[t + TRACK - 1]]
    for words, orientations in (("with rotations", True), ("positions only", False)):
        ratios = []
        for start in starts[:TRACKS]:
            rows = np.arange(start, start + TRACK)
            goals = targets_file.of_poses(poses, samples, rows, orientations)
            session, heads = Solver(net).session(), []
            for i in range(TRACK):
                found = session.solve(alone(goals, i))
                heads.append(fk.armature_matrices(net.skeleton, found.rotations, found.root_pos)[:, :3, 3])
            rot, root_pos = poses.rot[rows].astype(np.float64), poses.root_pos[rows].astype(np.float64)
            true = fk.armature_matrices(poses.skeleton, rot, root_pos)[..., :3, 3]
            fps = float(poses.clip_fps[poses.clip[start]])
            ratios.append([metrics.jerk(np.stack(heads), fps) / metrics.jerk(true, fps)])
        mean = np.mean(ratios, axis=0)
        yield f"{len(ratios)} tracks of {TRACK} frames, {words}: jerk {mean[0]:.2f} times the capture's"


def actions(poses: PoseSet, samples: Samples, cpu: float) -> Iterator[str]:
    """Lines of the table of actions, each left out in turn."""
    yield f"{'left out':<24}{'ours mm':>10}{'classical':>11}{'nearest + steps':>17}{'within 1 mm':>13}"
    for c, name in enumerate(poses.clip_names):
        parts = np.full(poses.frames, TRAIN, np.int8)
        parts[poses.rows(c)] = TEST
        parts[poses.rows((c + 1) % len(poses.clip_names))] = VALIDATION
        net = trained(poses, samples, parts, cpu)
        train, test = (np.flatnonzero(parts == part) for part in (TRAIN, TEST))
        targets, truth = batches.asked(net.layout, net.skeleton, samples, test)
        ours, plain = errors.refined_errors(net, targets, truth), rivals(net.skeleton, samples, train, test)
        near = float((ours.effector.max(axis=0) < 1e-3).mean() * 100)
        yield (
            f"{name[:23]:<24}{ours.joints.mean() * 1000:>10.1f}{plain['classical_mean']:>11.1f}"
            f"{plain['nearest_steps']:>17.1f}{near:>11.0f} %"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density", description=str(__doc__).splitlines()[0])
    parser.add_argument("data", type=Path, metavar="DATA.npz", help="poses of one character")
    parser.add_argument("--cpu", type=positive(float), default=120, metavar="S", help="CPU s a training (%(default)s)")
    parser.add_argument("--fold", type=number(int, 1, FOLDS), default=1, metavar="N", help="(%(default)s of 5)")
    parser.add_argument("--actions", action="store_true", help="leave out each action in turn")
    given = parser.parse_args(argv)
    try:
        poses = pose_set.load(given.data)
        samples = context.prepare(poses)
        if poses.skeleton.limits is None:
            limits = losses.mine_limits(poses.skeleton, batches.components(samples.rot))
            poses = replace(poses, skeleton=replace(poses.skeleton, limits=limits))
        if given.actions:
            for line in actions(poses, samples, given.cpu):
                print(line, flush=True)
            return 0
        parts = splits.folds(poses, FOLDS)[given.fold - 1]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    net = trained(poses, samples, parts, given.cpu)
    for table in (bodies, tracks):
        for line in table(net, poses, samples, parts):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
