# SPDX-License-Identifier: GPL-3.0-or-later
"""One network, many rigs: python -m benchmarks.many_rigs [--seconds 60] [--json FILE]

First question: if one network is trained on the motion of all human BVH files, retargeted to the reference rig, how does it
compare on each family's held-out takes with a network trained on that family alone?
Second: how does a network trained on the reference rig (by default the shipped one) perform on another body, as it is and
fine-tuned with a few of that body's own frames, alone or together with the general poses on this body? Networks trained
from scratch are the comparison.
Whole takes are held out. Needs the motion capture folder (NIK_MOCAP); every training gets the same CPU seconds.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from neural_network.core.files import write_whole
from neural_network.formats import bvh
from neural_network.ik import batches, context, density, network, quality, report, settings
from neural_network.ik.arguments import FINE_TUNING_LR
from neural_network.ik.errors import predicted
from neural_network.ik.network import Network
from neural_network.ik.task import adapted, balanced
from neural_network.ik.task import fit as fit_network
from neural_network.learning.arguments import positive
from neural_network.motion import cleaning, pose_set
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST, TRAIN, UNUSED, VALIDATION
from neural_network.motion.tasks import TASKS, guess_task
from neural_network.rigs import retarget

from .density import joint_error

JUDGED = 300  # frames that the solver's answers are measured on
FPS = 30.0  # neighbouring frames of 120 are near-copies
FAMILIES = ("cmu_mb", "cmu_daz", "cmu_max", "fair1_zup", "kaykit_cc0", "makehuman_cc0")


def read_family(folder: Path, own_lengths: bool) -> list[PoseSet]:
    """A PoseSet for every piece of every file in a folder: on the reference rig, or on its bones in the body's own lengths."""
    out = []
    listed = folder.parent.parent / "MANIFEST.csv"
    activities = {}
    if listed.is_file():
        with open(listed, encoding="utf-8", newline="") as file:
            activities = {Path(row["path"]).stem: row["activity"] for row in csv.DictReader(file)}
    carry = retarget.to_proportioned_reference if own_lengths else retarget.to_reference
    for path in sorted(folder.glob("*.bvh")):
        try:
            for piece in cleaning.clean(bvh.read(path))[0]:
                slow = cleaning.resample(piece, FPS) if piece.fps > FPS else piece
                if slow.frames < 5:
                    continue
                skeleton, rot, root_pos = carry(slow)
                name, task = f"{folder.name}/{path.stem}", guess_task(activities.get(path.stem, path.stem))
                out.append(pose_set.make(skeleton, rot, root_pos, np.zeros(len(rot), int), (name,), (task,), slow.fps))
        except ValueError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
    return out


def joined(pieces: Sequence[PoseSet]) -> PoseSet:
    """One PoseSet from several, with the skeleton of the first."""
    first = pieces[0].skeleton
    return pose_set.make(
        first,
        np.concatenate([p.rot for p in pieces]),
        np.concatenate([p.root_pos for p in pieces]),
        np.repeat(np.arange(len(pieces)), [len(p.rot) for p in pieces]),
        tuple(p.clip_names[0] for p in pieces),
        tuple(p.clip_tasks[0] for p in pieces),
        np.array([p.clip_fps[0] for p in pieces]),
    )


def take_of(name: str) -> str:
    """The performance, whichever file holds it: CMU's trial ("131_01" of "cmu_max/scaled_131_01_metres"), else the name."""
    trial = re.search(r"\d+_\d+", name)
    return trial.group(0) if trial else name


def whole_takes(poses: PoseSet, groups: np.ndarray, seed: int) -> np.ndarray:
    """Parts (F) with whole takes of every group (C) held out: a fifth for test, a tenth for validation, at least one each.

    Takes of one name (pieces of one file) stay together; a group of one take is used for training only, a group of two
    has no validation.
    """
    rng = np.random.default_rng(seed)
    part_of = np.full(len(poses.clip_names), TRAIN, np.int8)
    names = np.array([take_of(name) for name in poses.clip_names])
    for group in np.unique(groups):
        takes = rng.permutation(np.unique(names[groups == group]))
        test = max(1, round(0.2 * len(takes))) if len(takes) > 1 else 0
        held = max(1, round(0.1 * len(takes))) if len(takes) > 2 else 0
        part_of[np.isin(names, takes[:test])] = TEST
        part_of[np.isin(names, takes[test : test + held])] = VALIDATION
    return part_of[poses.clip]


def with_validation(parts: np.ndarray) -> np.ndarray:
    """The same parts; without a take for validation, the last tenth of the training frames is used."""
    train = np.flatnonzero(parts == TRAIN)
    if np.any(parts == VALIDATION) or not len(train):
        return parts
    out = parts.copy()
    out[train[-max(3, len(train) // 10) :]] = VALIDATION
    return out


def fit(
    poses: PoseSet, parts: np.ndarray, settings: settings.Training, start: Network | None = None, own: int | None = None
) -> tuple[Network, context.Samples]:
    """The best network of one training, and the samples it was trained on; ``own`` as :class:`PoseTask` takes it."""
    samples, parts = context.prepare(poses), with_validation(parts)
    if start is not None and own is not None:
        rows = balanced(np.flatnonzero(parts == TRAIN), own)
        start = adapted(start, poses.skeleton, samples, rows, settings)
    return fit_network(poses.skeleton, samples, parts, settings, start, own), samples


def error(net: Network, poses: PoseSet, samples: context.Samples, rows: np.ndarray) -> tuple[float, float]:
    """[mm] mean effector error of the network alone, and the joint error (MPJPE) of the solver's answers on some of the frames."""
    own = []
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), JUDGED)).round().astype(int)]
    joints = joint_error(net, poses.skeleton, poses, samples, some)
    net = replace(net, skeleton=poses.skeleton)
    for part in np.array_split(rows, max(1, len(rows) // batches.CHUNK)):
        targets, truth = batches.asked(net.layout, poses.skeleton, samples, part)
        own.append(predicted(net, targets, truth).effector)
    return float(np.concatenate(own, 1).mean() * 1e3), joints


def families_together(
    mocap: Path, settings: settings.Training, only: Sequence[str], page: Path | None = None
) -> list[dict[str, object]]:
    """Compare one network for all families with one for each, on held-out takes."""
    pieces: list[PoseSet] = []
    labels: list[str] = []
    for family in only:
        found = read_family(mocap / "bvh" / family, own_lengths=False)
        pieces += found
        labels += [family] * len(found)
    poses, groups = joined(pieces), np.array(labels)
    parts = whole_takes(poses, groups, settings.seed)
    print(
        f"{poses.frames} frames of {len(pieces)} pieces at up to {FPS:g} fps, {np.sum(parts == TEST)} of them held out"
    )
    general, samples = fit(poses, parts, settings)
    general = replace(general, meta={"data": quality.describe_split(poses, parts, "clip")})
    card = quality.figures([quality.measure(general, poses, parts, samples)], poses, "clip")
    families = card["groups"].get("family", {})
    rows: list[dict[str, object]] = []
    print(
        f"{'family':18s}{'train':>8s}{'test':>7s}{'together':>10s}{'alone':>8s}{'ratio':>7s}{'joints':>10s}{'alone':>8s}   mm"
    )
    for family in only:
        mine = (groups == family)[poses.clip]
        test, train = np.flatnonzero(mine & (parts == TEST)), np.flatnonzero(mine & (parts == TRAIN))
        if not len(test):
            print(f"{family:18s}{len(train):8d}{0:7d}   too few takes to hold one out")
            continue
        together = error(general, poses, samples, test)
        own_parts = np.where(mine, parts, UNUSED).astype(np.int8)
        alone, own_samples = fit(poses, own_parts, settings)
        by_itself = error(alone, poses, own_samples, test)
        if family in families:
            families[family] |= {"own": by_itself[0], "ratio": together[0] / by_itself[0]}
        rows.append(
            {"family": family, "train": len(train), "test": len(test), "together": together, "alone": by_itself}
        )
        print(
            f"{family:18s}{len(train):8d}{len(test):7d}{together[0]:10.1f}{by_itself[0]:8.1f}{together[0] / by_itself[0]:7.2f}"
            f"{together[1]:10.1f}{by_itself[1]:8.1f}"
        )
    tasks = np.array(poses.clip_tasks)[poses.clip]
    print(f"{'activity':18s}{'train':>8s}{'test':>7s}{'together':>10s}{'':15s}{'joints':>10s}")
    for task in TASKS:
        test = np.flatnonzero((tasks == task) & (parts == TEST))
        if len(test):
            together = error(general, poses, samples, test)
            count = int(np.sum((tasks == task) & (parts == TRAIN)))
            rows.append({"activity": task, "train": count, "test": len(test), "together": together})
            print(f"{task:18s}{count:8d}{len(test):7d}{together[0]:10.1f}{'':15s}{together[1]:10.1f}")
    for kind, found in card["groups"].items():
        for label, row in found.items():
            print(
                f"{kind} {label}: nearest training frame {row['nearest']:.1f} mm, mean pose {row['mean_pose']:.1f} mm"
            )
    if page is not None:
        write_whole(page, report.html(general, poses, samples, card, ()).encode())
    return rows


def another_body(
    mocap: Path, settings: settings.Training, body: str, init: Path, also: Path, turns: int = 2
) -> list[dict[str, object]]:
    """A general network on an unknown body: as it is, and with 100 and 500 own frames, compared with training from scratch.

    ``body`` is a family or a CMU subject such as cmu_mb/16; ``init`` and ``also`` are the general network and its poses, on
    the reference rig. Whole takes are divided into ``turns`` folds (at least two), each once the test part; 1 uses only the
    first. Every training gets the same CPU seconds.
    """
    settings = replace(
        settings, patience=settings.epochs
    )  # few frames make short epochs, so the time limit ends training, not patience
    family, _, subject = body.partition("/")
    pieces = [p for p in read_family(mocap / "bvh" / family, own_lengths=True) if f"/{subject}" in p.clip_names[0]]
    alike = pieces[0].skeleton
    pieces = [p for p in pieces if alike.proportion_difference(p.skeleton) < 0.02 and "scaled" not in p.clip_names[0]]
    own = joined(pieces)
    others = pose_set.on_body(pose_set.load(also), alike)
    general = replace(network.load(init), skeleton=alike)
    both = pose_set.join([own, others])
    samples = context.prepare(own)
    names = np.array(own.clip_names)
    takes = np.random.default_rng(settings.seed).permutation(np.unique(names))
    if len(takes) < 2:
        print(f"\n{body}: too few takes of one body to hold one out")
        return []
    rows: list[dict[str, object]] = []
    dealt = min(max(2, turns), len(takes))
    for fold in range(min(turns, dealt)):
        held = np.isin(names, takes[fold::dealt])[own.clip]
        test, train = np.flatnonzero(held), np.flatnonzero(~held)
        found = {"0 own, as it is": error(general, own, samples, test)}
        for count in (100, 500):
            few = np.full(own.frames, UNUSED, np.int8)
            picked = train[np.linspace(0, len(train) - 1, min(count, len(train))).astype(int)]
            few[picked] = TRAIN
            few[picked[5::10]] = VALIDATION
            with_others = np.concatenate([few, np.full(others.frames, TRAIN, np.int8)])
            label = f"{len(picked)} own"
            found[f"{label}, from scratch"] = error(fit(own, few, settings)[0], own, samples, test)
            if count == 100:
                tuning = replace(settings, layout=general.layout.name, hidden=general.hidden, lr=FINE_TUNING_LR)
                found[f"{label}, --init"] = error(fit(own, few, tuning, general)[0], own, samples, test)
                tuned = fit(both, with_others, tuning, general, own.frames)[0]
                found[f"{label}, --init --also"] = error(tuned, own, samples, test)
        print(
            f"\n{body}, fold {fold + 1}: leg {alike.leg_length:.2f} m, {len(train)} own frames, {len(test)} of other takes to test"
        )
        for label, (alone, joints) in found.items():
            print(f"  {label:34s}{alone:8.1f} mm{joints:9.1f} joints", flush=True)
        rows.append({"body": body, "fold": fold, "test": len(test), "errors": found})
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Print both tables; returns 2 without motion capture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parent.parent
    parser.add_argument(
        "--mocap", type=Path, default=Path(os.environ.get("NIK_MOCAP", here.parent / "shared" / "mocap"))
    )
    parser.add_argument("--seconds", type=positive(float), default=60.0, help="CPU seconds of every training (60)")
    parser.add_argument("--seed", type=positive(int, zero=True), default=0)
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument(
        "--body",
        nargs="*",
        default=["cmu_daz", "kaykit_cc0"],
        help="families or CMU subjects (cmu_mb/16) that the network does not know",
    )
    shipped = here / "training_data"
    parser.add_argument("--init", type=Path, default=density.SHIPPED, help="the general network")
    parser.add_argument("--also", type=Path, default=shipped / "training_data.npz", help="the general poses")
    parser.add_argument(
        "--folds", type=positive(int), default=2, help="folds of a body's takes, for the second question"
    )
    parser.add_argument("--report", type=Path, help="write the page of the first question to this file")
    parser.add_argument("--skip-families", action="store_true", help="answer only the second question")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(argv)
    if not options.mocap.is_dir():
        print(f"expected motion capture in {options.mocap}; set NIK_MOCAP or --mocap")
        return 2
    training_settings = settings.Training(seed=options.seed, time_limit=options.seconds, epochs=100_000)
    rows: list[dict[str, object]] = []
    if not options.skip_families:
        rows += families_together(options.mocap, training_settings, options.families, options.report)
    for body in options.body:
        rows += another_body(options.mocap, training_settings, body, options.init, options.also, options.folds)
    if options.json:
        options.json.write_text(
            json.dumps({"seconds": options.seconds, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
