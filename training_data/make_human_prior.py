# SPDX-License-Identifier: GPL-3.0-or-later
"""Make ``weights/human.npy``: a network for people of all proportions, and how people change from pose to pose.

Run from the root of this repository, with poses that ``python -m neural_network import --rig reference --fps 30`` wrote::

    python -m training_data.make_human_prior POSES.npz [-o human.npy]

It learns from these poses and from the shipped clips, on bodies of random proportions. The file holds weights and moments over
all takes; poses are kept of the shipped clips alone. ``README.md`` says which motion the shipped file is from.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import re
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from neural_network.core.reference_rig import reference
from neural_network.ik import density, network, novelty, pose_statistics, quality
from neural_network.ik.arguments import UNLIMITED
from neural_network.ik.command import DATA
from neural_network.ik.context import Samples, prepare
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.ik.task import PoseTask, loop_settings
from neural_network.learning import loop
from neural_network.learning.arguments import positive, share, widths
from neural_network.motion import pose_set, splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST, TRAIN, VALIDATION

LEAST_TAKES = 10  # of fewer, statistics would come near to single takes
EVERY = 16  # of so many takes one chooses the best weights and tells the network's errors
TAKE = re.compile(r"\d+_\d+")  # subject and take, in the names of files
SAID_EVERY = 10  # epochs
DRAWS = 8  # times pose changes are drawn, so that chance hardly counts
ACKNOWLEDGEMENT = (
    "Motion of the CMU Graphics Lab Motion Capture Database, mocap.cs.cmu.edu, created with funding from NSF EIA-0196217; "
    "KayKit Character Animations and MakeHuman BVH poses (CC0)."
)


@dataclass(frozen=True)
class People:
    """The motion to learn from: the shipped clips, then the people's."""

    poses: PoseSet
    samples: Samples
    parts: np.ndarray
    """(F) of :mod:`neural_network.motion.splits`."""
    shipped: int
    """How many frames, the first ones, are of the shipped clips."""
    theirs: PoseSet
    """The people's poses alone."""


def people(path: Path, leave_out: tuple[str, ...] = (), seed: int = 0) -> People:
    """The poses of a file beside the shipped ones, without subjects whose take names begin with one of ``leave_out``.

    Of the shipped clips the usual blocks are held out, of the others whole takes, in whatever files they occur. Raises
    ValueError for another rig than the reference rig, and for too few takes.
    """
    ours, theirs = pose_set.load(DATA), pose_set.load(path)
    reference().require_same(theirs.skeleton, path.name)
    takes = [take_of(name) for name in theirs.clip_names]
    keep = [c for c, take in enumerate(takes) if take.split("_")[0] not in leave_out]
    if len(keep) < LEAST_TAKES:
        raise ValueError(f"{path.name}: expected at least {LEAST_TAKES} takes, got {len(keep)}")
    theirs = pose_set.choose(theirs, keep)
    takes = [takes[c] for c in keep]
    order = np.random.default_rng(seed).permutation(sorted(set(takes)))
    held = set(order[: max(1, len(order) // EVERY)].tolist())
    poses = pose_set.join([ours, theirs])
    own = splits.split(ours, "block", 0.11, 0)
    other = np.array([VALIDATION if take in held else TRAIN for take in takes], np.int8)[theirs.clip]
    return People(poses, prepare(poses), np.concatenate([own, other]), ours.frames, theirs)


def take_of(name: str) -> str:
    """Subject and take in a clip's name, such as 02_01 in cmu_mb/02_01; the name itself where it holds none."""
    found = TAKE.search(name)
    return found.group() if found else name


def train(known: People, config: Training, say: bool = True) -> tuple[Network, float]:
    """A network trained on the people, with its statistics, and the error on held-out takes by which it was chosen [m]."""
    task = PoseTask(known.poses.skeleton, known.samples, known.parts, config)

    def on_epoch(epoch: loop.Epoch) -> None:
        if say and epoch.number % SAID_EVERY == 0:
            print(f"{epoch.share * 100:3.0f} %, epoch {epoch.number}: {epoch.best_value * 1000:.2f} mm", flush=True)

    state = loop.run(task, loop_settings(config), None, on_epoch).state
    net = task.network(state)
    own = np.flatnonzero(known.parts[: known.shipped] == TRAIN)
    net = replace(net, density=pose_statistics.fit(net, known.samples, task.rows, task.held, task.takes, own))
    meta = {
        "config": asdict(config),
        "data": quality.describe_split(known.poses, known.parts, "block"),
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "best_validation_mm": state.best_value * 1000,
    }
    # The meter: the shipped clips' frames stand for all, and other people's held-out takes say how far from them is far.
    meter = np.full_like(known.parts, VALIDATION)
    meter[own] = TRAIN
    meter[known.shipped :][known.parts[known.shipped :] == VALIDATION] = TEST
    return novelty.with_centres(replace(net, meta=meta), known.poses, known.samples, meter), state.best_value


def main(argv: list[str] | None = None) -> int:
    """Train, measure, write and report; returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="make_human_prior", description="Train the network and the statistics for people of all proportions."
    )
    parser.add_argument("poses", type=Path, metavar="POSES.npz", help="poses of people on the reference rig")
    parser.add_argument("-o", "--output", type=Path, default=density.SHIPPED, metavar="FILE", help="(%(default)s)")
    parser.add_argument("--leave-out", default="", metavar="S,S", help="subjects that are left out, such as 07,16")
    parser.add_argument(
        "--hidden", type=widths, default=(384, 384, 384), metavar="N,N", help="widths of the hidden layers"
    )
    parser.add_argument("--proportions", type=share, default=0.4, help="spread of body proportions (%(default)s)")
    parser.add_argument("--lr", type=positive(float), default=0.0025, help="step size of Adam (%(default)s)")
    parser.add_argument(
        "--time-limit", type=positive(float), default=440, metavar="S", help="CPU seconds (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=positive(int, zero=True), default=0, help="of the training and of the poses drawn (%(default)s)"
    )
    args = parser.parse_args(argv)
    try:
        known = people(args.poses, tuple(s for s in args.leave_out.split(",") if s), args.seed)
        config = Training(
            layout="people",
            hidden=args.hidden,
            proportions=args.proportions,
            lr=args.lr,
            epochs=UNLIMITED,
            patience=UNLIMITED,
            time_limit=args.time_limit,
            seed=args.seed,
        )
        net, best = train(known, config)
        rng = np.random.default_rng(args.seed)
        changes = np.mean([density.change_covariance(known.theirs, rng) for _ in range(DRAWS)], axis=0)
        assert net.density is not None
        about = {
            "takes": len(known.poses.clip_names),
            "frames": known.poses.frames,
            "left_out": args.leave_out,
            "data_sha256": hashlib.sha256(args.poses.read_bytes()).hexdigest(),
            "machine": f"{platform.machine()}, one thread, NumPy {np.__version__}",
            "acknowledgement": ACKNOWLEDGEMENT,
        }
        net = replace(net, density=replace(net.density, changes=changes), meta={**net.meta, "people": about})
        network.save(args.output, net)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(
        f"{args.output}: {about['takes']} takes, {about['frames']} frames, {args.output.stat().st_size / 1e6:.1f} MB; "
        f"mean effector error on held-out takes, network alone: {best * 1000:.2f} mm"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
