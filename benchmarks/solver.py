# SPDX-License-Identifier: GPL-3.0-or-later
"""How exact and robust the solver is: error after each step, limits, other bodies, fewer targets, free hips, extreme targets.

``python -m benchmarks.solver --data DATA.npz [--time-limit 60]`` trains what it needs on one fold of whole takes (one network
for each question, on the fold's training part) and prints a table for each question. Nothing is written.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

import numpy as np

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.ik import augmentation, batches, context, errors, quality, refinement, task
from neural_network.ik.losses import Truth
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.ik.solver import Goals, Solver
from neural_network.learning.arguments import positive
from neural_network.motion import pose_set, splits
from neural_network.motion.splits import TEST

STEPS = (0, 1, 2, 3, 5, 10)
MILLIMETRE = 1e-3
BODIES = 20  # unseen bodies
SPREAD = 0.3  # the overall size cancels with the leg length; trunk, legs and arms +-15 %, single bones +-7.5 % more
SEED = 7


def main(argv: Sequence[str] | None = None) -> int:
    """Run every table; the exit code is 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.solver", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, required=True, help="poses, as python -m neural_network import writes them"
    )
    parser.add_argument(
        "--time-limit", type=positive(float), default=60.0, metavar="CPU_S", help="CPU seconds for each network"
    )
    parser.add_argument("--random", type=positive(int), default=10_000, help="number of extreme targets to try")
    args = parser.parse_args(argv)
    try:
        poses = pose_set.load(args.data)
        parts = splits.folds(poses, 5)[0]
    except (ValueError, OSError) as error:
        print(f"benchmarks.solver: {error}", file=sys.stderr)
        return 2
    samples = context.prepare(poses)
    rows = np.flatnonzero(parts == TEST)

    def trained(**settings: object) -> Network:
        config = replace(Training(epochs=1_000_000, time_limit=args.time_limit), **settings)  # type: ignore[arg-type]
        return task.fit(poses.skeleton, samples, parts, config)

    net = trained()
    exactness(net, samples, rows)
    tracking(net, poses, samples, rows)
    extreme(Solver(net), args.random)
    bodies(net, trained(layout="bodies", proportions=SPREAD), samples, rows)
    masked = trained(layout="masked", drop_effectors=0.7)
    card_rows(masked, poses, parts, samples, "Any of the targets may be absent (layout masked)")
    card_rows(trained(layout="free"), poses, parts, samples, "Hips not given (layout free)")
    return 0


def exactness(net: Network, samples: context.Samples, rows: np.ndarray) -> None:
    """Error after each number of steps, positions only and with orientations, limits off and on."""
    print(f"\nExactness on {len(rows)} frames of takes that were never trained on")
    print(f"{'':40}{'mean mm':>10}{'p95 mm':>10}{'all < 1 mm':>12}{'MPJPE mm':>10}{'outside limits':>16}")
    for label, orientations, limits in (
        ("positions only", False, False),
        ("with orientations", True, False),
        ("with orientations, limits on", True, True),
    ):
        for steps in STEPS:
            every, outside = [], []
            for part in errors.chunks(rows):
                targets, truth = batches.asked(net.layout, net.skeleton, samples, part)
                rot, _ = batches.predict(net, targets)
                goals = refinement.EffectorTargets(targets.positions, targets.turned if orientations else None)
                done = refinement.refine(net.skeleton, rot, goals, steps, limits=limits)
                every.append(errors.errors_of(net.skeleton, done.rot, targets, truth))
                moved = refinement.clamp(net.skeleton, done.rot) - done.rot
                outside.append(np.any(np.abs(moved) > 1e-3, axis=(0, 1)))
            found = errors.join(every)
            share = float((found.effector.max(axis=0) < MILLIMETRE).mean()) * 100
            numbers = found.figures()
            print(
                f"{label + f', {steps} steps':40}{numbers['effector_mm']['mean']:10.3f}{numbers['effector_mm']['p95']:10.3f}"
                f"{share:10.1f} %{numbers['mpjpe_mm']:10.2f}{np.concatenate(outside).mean() * 100:14.1f} %"
            )


def tracking(net: Network, poses: pose_set.PoseSet, samples: context.Samples, rows: np.ndarray) -> None:
    """Tracks of 120 frames: joint error early and late, and jitter against the capture's own."""
    frames, tracks, fps = 120, [], float(poses.clip_fps[0])
    for clip in np.unique(poses.clip[rows]):
        own = rows[poses.clip[rows] == clip]
        tracks += [own[at : at + frames] for at in range(0, len(own) - frames + 1, frames)]
    if not tracks:
        print("\nTracking: no test take has 120 frames")
        return
    early, late, ours, theirs, jerk, their_jerk = [], [], [], [], [], []
    for track in tracks:
        targets, truth = batches.asked(net.layout, net.skeleton, samples, track)
        rot, _ = batches.predict(net, targets)
        done = refinement.refine(net.skeleton, rot, refinement.EffectorTargets(targets.positions, targets.turned), 3)
        joints = errors.errors_of(net.skeleton, done.rot, targets, truth).joints
        early.append(joints[8:13].mean())
        late.append(joints[-5:].mean())
        length = net.skeleton.leg_length
        for heads, acceleration, third in ((done.heads, ours, jerk), (truth.heads, theirs, their_jerk)):
            path = heads[:, 1:] * length
            acceleration.append(np.sqrt((np.diff(path, 2, axis=-1) ** 2).sum(axis=0)).mean() * fps**2)
            third.append(np.sqrt((np.diff(path, 3, axis=-1) ** 2).sum(axis=0)).mean() * fps**3)
    print(f"\nTracking, {len(tracks)} tracks of 120 frames, network + 3 steps, each frame independently")
    growth = np.mean(late) / np.mean(early)
    print(
        f"MPJPE near frame 10: {np.mean(early) * 1000:.2f} mm, near frame 119: {np.mean(late) * 1000:.2f} mm (x{growth:.2f})"
    )
    print(
        f"acceleration {np.mean(ours):.2f} m/s^2 against the capture's {np.mean(theirs):.2f} (x{np.mean(ours) / np.mean(theirs):.3f})"
    )
    print(
        f"jerk {np.mean(jerk):.1f} m/s^3 against {np.mean(their_jerk):.1f} (x{np.mean(jerk) / np.mean(their_jerk):.3f})"
    )


def extreme(solver: Solver, count: int) -> None:
    """Random targets, most out of reach, some all at one point, some very far: never NaN, never worse than the network."""
    rng = np.random.default_rng(SEED)
    effectors = len(solver.effectors)
    spread = 10.0 ** rng.uniform(-3, 4, (count, 1, 1))
    positions = rng.standard_normal((count, effectors, 3)) * spread
    positions[::7] = positions[::7, :1]  # all at one point
    turn = rng.standard_normal((count, effectors, 3)) * 3
    goals = Goals(positions, rng.standard_normal((count, 3)), rng.standard_normal((count, 3)) * 2, turn)
    began = time.perf_counter()
    alone, done = solver.solve_batch(goals, 0), solver.solve_batch(goals, 10)
    seconds = time.perf_counter() - began
    finite = np.isfinite(done.quaternions).all() and np.isfinite(done.error).all()
    # refinement minimises position and orientation errors together, so only their sum never grows
    worse = int(
        np.sum(np.sqrt((done.error**2).mean(axis=1)) > np.sqrt((alone.error**2).mean(axis=1)) * (1 + 1e-4) + 1e-6)
    )
    plain = replace(goals, rotations=None)
    first, last = solver.solve_batch(plain, 0), solver.solve_batch(plain, 10)
    nearer = int(np.sum((last.error**2).sum(axis=1) > (first.error**2).sum(axis=1) * (1 + 1e-4) + 1e-9))
    print(
        f"\n{count} extreme targets in {seconds:.1f} s: all finite {finite}, reached in full {int(done.reached.all(axis=1).sum())}"
    )
    print(
        f"position error above the network's own: {nearer} with positions as targets, {worse} with orientations as well"
    )


def bodies(plain: Network, general: Network, samples: context.Samples, rows: np.ndarray) -> None:
    """Unseen proportions: a network that knows one body, and one trained on many with their lengths as inputs."""
    rig = plain.skeleton
    rng = np.random.default_rng(SEED)
    bodies_ = augmentation.random_proportions(rig, SPREAD, BODIES, rng)
    print(f"\nOther bodies: {BODIES} never seen, trunk, arms and legs +-15 %, single bones +-7.5 % more (mm)")
    print(f"{'':40}{'network alone':>15}{'+ 3 steps':>12}{'MPJPE then':>12}")
    picked = rows[:: max(1, len(rows) // 200)]
    for label, net in (("trained on one body", plain), ("trained on many (layout bodies)", general)):
        alone, after, joints = [], [], []
        for b in range(BODIES):
            offsets = np.repeat(bodies_[:, :, b : b + 1], len(picked), axis=2)
            posed, _, _ = batches.true_batch(rig, samples, picked)
            turns = rotations.matrix_components(posed)
            turned, heads = fk.forward_matrices(rig, turns, offsets)
            stands = (samples.low, samples.grounded, samples.desired, samples.phase, samples.task)
            targets = context.targets_of(rig, turned, heads, *(a[picked] for a in stands))
            targets = replace(targets, lengths=context.limb_lengths(rig, offsets))
            rot, _ = batches.predict(net, targets)
            bones = np.array(rig.effectors)
            for steps, into in ((0, alone), (3, after)):
                done = refinement.refine(
                    rig, rot, refinement.EffectorTargets(targets.positions, targets.turned), steps, offsets=offsets
                )
                into.append(np.sqrt(((done.heads[:, bones] - targets.positions) ** 2).sum(axis=0)).mean())
            truth = Truth(turns, heads)
            joints.append(np.sqrt(((done.heads - truth.heads) ** 2).sum(axis=0))[1:].mean())
        scale = rig.leg_length * 1000
        print(f"{label:40}{np.mean(alone) * scale:15.2f}{np.mean(after) * scale:12.3f}{np.mean(joints) * scale:12.2f}")


def card_rows(net: Network, poses: pose_set.PoseSet, parts: np.ndarray, samples: context.Samples, title: str) -> None:
    """Print the card of a network of another layout."""
    print(f"\n{title}")
    card = quality.figures([quality.measure(net, poses, parts, samples)], poses, "clip")
    print("\n".join(quality.table(card)))


if __name__ == "__main__":
    sys.exit(main())
