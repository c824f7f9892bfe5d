# SPDX-License-Identifier: GPL-3.0-or-later
"""How well the weights for people pose bodies and subjects they never saw: python -m benchmarks.human_prior DATA.npz WEIGHTS...

WEIGHTS are files that ``training_data/make_human_prior.py --leave-out SUBJECTS`` wrote, all without the same subjects, whose takes in
DATA are what is measured on. Printed is the joint error (MPJPE [mm], five targets, Hips given) of ``Solver.solve_batch`` with rotations of
the targets and without, on the reference body and with the same rotations on bodies whose arms and legs are longer or shorter by a
fifth, beside the shipped ``best.npy`` (which learned from other motion) and the nearest frame of the other subjects' takes with
converged steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neural_network.ik import context, network
from neural_network.ik.command import WEIGHTS
from neural_network.learning.arguments import positive
from neural_network.motion import pose_set
from neural_network.motion.splits import TEST, TRAIN
from training_data.make_human_prior import take_of

from .density import LONGER, joint_error, rivals, with_limbs

BODIES = ((1.0, 1.0), (1 / LONGER, 1 / LONGER), (1 / LONGER, LONGER), (LONGER, 1 / LONGER), (LONGER, LONGER))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.human_prior", description=str(__doc__).splitlines()[0])
    parser.add_argument("data", type=Path, metavar="DATA.npz", help="poses of people on the reference rig")
    parser.add_argument("weights", type=Path, nargs="+", metavar="WEIGHTS", help="made without the same subjects")
    parser.add_argument(
        "--frames", type=positive(int), default=250, help="of the subjects' takes, evenly spaced (%(default)s)"
    )
    given = parser.parse_args(argv)
    try:
        poses = pose_set.load(given.data)
        nets = {path.stem: network.load(path) for path in given.weights}
        left_out = {net.meta.get("people", {}).get("left_out", "") for net in nets.values()}
        if len(left_out) != 1 or left_out == {""}:
            raise ValueError(f"expected weights made without the same subjects (--leave-out), got {sorted(left_out)}")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    subjects = left_out.pop().split(",")
    takes = np.array([take_of(name).split("_")[0] in subjects for name in poses.clip_names])
    parts = np.where(takes[poses.clip], TEST, TRAIN)
    samples = context.prepare(poses)
    train, test = (np.flatnonzero(parts == part) for part in (TRAIN, TEST))
    rows = test[np.linspace(0, len(test) - 1, min(given.frames, len(test))).round().astype(int)]
    nets["best.npy"] = network.load(WEIGHTS)
    print(f"{len(rows)} frames of subjects {', '.join(subjects)}; MPJPE mm with rotations of the targets / without")
    print(f"{'arms, legs':<14}" + "".join(f"{name[:18]:>20}" for name in nets) + f"{'nearest + steps':>20}")
    for arms, legs in BODIES:
        body = with_limbs(poses.skeleton, arms, legs)
        cells = [
            " / ".join(f"{joint_error(net, body, poses, samples, rows, turns):.1f}" for turns in (True, False))
            for net in nets.values()
        ]
        near = [rivals(body, samples, train, rows, turns)["nearest_steps"] for turns in (True, False)]
        cells.append(" / ".join(f"{error:.1f}" for error in near))
        print(f"{f'{arms:.2f}, {legs:.2f}':<14}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
