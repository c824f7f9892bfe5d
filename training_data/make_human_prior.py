# SPDX-License-Identifier: GPL-3.0-or-later
"""Make ``weights/human.npy``: the covariance of people's pose changes on the reference rig, from imported motion capture.

Run from the root of this repository, with poses that ``python -m neural_network import --rig reference --fps 30`` wrote::

    python -m training_data.make_human_prior POSES.npz [-o human.npy]

The file holds second moments over all takes, never a pose of one. ``README.md`` says which motion the shipped file is from.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np

from neural_network.core.reference_rig import reference
from neural_network.ik import density
from neural_network.learning.arguments import positive
from neural_network.motion import pose_set

LEAST_TAKES = 10  # of fewer, statistics would come near to single takes
ACKNOWLEDGEMENT = (
    "Motion of the CMU Graphics Lab Motion Capture Database, mocap.cs.cmu.edu, created with funding from NSF EIA-0196217; "
    "KayKit Character Animations and MakeHuman BVH poses (CC0)."
)


def main(argv: list[str] | None = None) -> int:
    """Measure, write and report; returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="make_human_prior", description="Make the covariance of people's pose changes."
    )
    parser.add_argument("poses", type=Path, metavar="POSES.npz", help="poses of people on the reference rig")
    parser.add_argument("-o", "--output", type=Path, default=density.SHIPPED, metavar="FILE", help="(%(default)s)")
    parser.add_argument(
        "--seed", type=positive(int, zero=True), default=0, help="of the pairs of poses drawn (%(default)s)"
    )
    args = parser.parse_args(argv)
    try:
        poses = pose_set.load(args.poses)
        reference().require_same(poses.skeleton, args.poses.name)
        if len(poses.clip_names) < LEAST_TAKES:
            raise ValueError(f"{args.poses.name}: expected at least {LEAST_TAKES} takes, got {len(poses.clip_names)}")
        covariance = density.change_covariance(poses, np.random.default_rng(args.seed))
        about = {
            "takes": len(poses.clip_names),
            "frames": poses.frames,
            "seed": args.seed,
            "data_sha256": hashlib.sha256(args.poses.read_bytes()).hexdigest(),
            "acknowledgement": ACKNOWLEDGEMENT,
        }
        density.save(args.output, poses.skeleton, covariance, about)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(
        f"{args.output}: {about['takes']} takes, {about['frames']} frames, {args.output.stat().st_size / 1000:.0f} kB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
