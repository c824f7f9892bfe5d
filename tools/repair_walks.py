# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks and runs of the gait engine as clean motion to learn repairs from: ``python -m tools.repair_walks -o walks.npz --count 400``.

Each has parameters of its own, drawn at random, on a level floor and on the reference rig. Clips are named gait_NUMBER.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neural_network.core import reference_rig
from neural_network.gait import draws, network, parameters, walks
from neural_network.learning.arguments import positive
from neural_network.motion import pose_set

FPS = 30.0
FRAMES = (90, 180)


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, walk, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="WALKS.npz")
    parser.add_argument("--count", type=positive(int), default=400, help="walks (%(default)s)")
    parser.add_argument("--seed", type=positive(int, zero=True), default=0, help="of everything that is drawn (0)")
    args = parser.parse_args(argv)
    rig, gait, rng = reference_rig.reference(), network.load(), np.random.default_rng(args.seed)
    rot, root, clip = [], [], []
    for k in range(args.count):
        values = draws.draw(rng, 1)[0]
        for name in (*parameters.PROPORTIONS, "slope"):
            values[parameters.INDEX[name]] = parameters.DEFAULT[parameters.INDEX[name]]
        frames = int(rng.integers(*FRAMES))
        walk = walks.walk(gait, values, frames, FPS, phase=float(rng.random()))
        turned, moved = walks.to_local(rig, walk.turns, walk.root)
        rot.append(turned)
        root.append(moved)
        clip.append(np.full(frames, k))
    names = [f"gait_{k}" for k in range(args.count)]
    arrays = np.concatenate(rot).astype(np.float32), np.concatenate(root).astype(np.float32), np.concatenate(clip)
    poses = pose_set.make(rig, *arrays, names, ["locomotion"] * args.count, FPS, np.zeros(args.count))
    pose_set.save(args.output, poses)
    sys.stdout.write(f"{args.output}: {args.count} walks, {len(arrays[2])} frames\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
