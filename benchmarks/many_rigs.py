# SPDX-License-Identifier: GPL-3.0-or-later
"""One network, many rigs: python -m benchmarks.many_rigs [--seconds 60] [--json FILE]

First question: trained on the motion of all human BVH files together, carried onto the reference rig, how does one network
do on each family's held-out takes beside a network that learned from that family alone?
Second: a network that learned on the reference rig with random proportions is used on another body at once, and fine-tuned
with a few of that body's own frames; beside it, networks that learn from nothing.
Whole takes are held out. Needs the motion capture folder (NIK_MOCAP); every training gets the same CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from neural_network import config, context, dataset, training
from neural_network.dataset import TEST, TRAIN, UNUSED, VALIDATION, PoseSet
from neural_network.formats import bvh, cleaning, retarget
from neural_network.network import Network
from neural_network.tests import predicted, refined_errors

MOST_UNLIKE = 2.0  # standard deviations of the learned lengths
FPS = 30.0  # neighbouring frames of 120 are near-copies
FAMILIES = ("cmu_mb", "cmu_daz", "cmu_max", "fair1_zup", "kaykit_cc0", "makehuman_cc0")


def read_family(folder: Path, own_lengths: bool) -> list[PoseSet]:
    """A PoseSet for every piece of every file in a folder: on the reference rig, or on its bones in the body's own lengths."""
    out = []
    carry = retarget.to_proportioned_reference if own_lengths else retarget.to_reference
    for path in sorted(folder.glob("*.bvh")):
        try:
            for piece in cleaning.clean(bvh.read(path))[0]:
                slow = cleaning.resample(piece, FPS) if piece.fps > FPS else piece
                if slow.frames < 5:
                    continue
                skeleton, rot, root_pos = carry(slow)
                out.append(dataset.make(skeleton, rot, root_pos, np.zeros(len(rot), int), (path.stem,), None, slow.fps))
        except ValueError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
    return out


def joined(pieces: Sequence[PoseSet]) -> PoseSet:
    """One PoseSet of many, with the first one's skeleton."""
    first = pieces[0].skeleton
    return dataset.make(
        first,
        np.concatenate([p.rot for p in pieces]),
        np.concatenate([p.root_pos for p in pieces]),
        np.repeat(np.arange(len(pieces)), [len(p.rot) for p in pieces]),
        tuple(p.clip_names[0] for p in pieces),
        tuple(p.clip_tasks[0] for p in pieces),
        np.array([p.clip_fps[0] for p in pieces]),
    )


def whole_takes(poses: PoseSet, groups: np.ndarray, seed: int) -> np.ndarray:
    """Parts (F) with whole takes held out of every group (C): a fifth for test, a tenth for validation, one each at least.

    Takes of one name (pieces of one file) stay together; a group of one take trains only, one of two has no validation.
    """
    rng = np.random.default_rng(seed)
    part_of = np.full(len(poses.clip_names), TRAIN, np.int8)
    names = np.array(poses.clip_names)
    for group in np.unique(groups):
        takes = rng.permutation(np.unique(names[groups == group]))
        test = max(1, round(0.2 * len(takes))) if len(takes) > 1 else 0
        held = max(1, round(0.1 * len(takes))) if len(takes) > 2 else 0
        part_of[np.isin(names, takes[:test])] = TEST
        part_of[np.isin(names, takes[test : test + held])] = VALIDATION
    return part_of[poses.clip]


def fit(
    poses: PoseSet, parts: np.ndarray, settings: config.Training, start: Network | None = None
) -> tuple[Network, context.Samples]:
    """The best network of one training, and the samples it was trained on."""
    samples = context.prepare(poses)
    *_, last = training.train(poses.skeleton, samples, parts, settings, start=start)
    return training.finish(poses.skeleton, samples, parts, settings, last.state, start), samples


def error(net: Network, poses: PoseSet, samples: context.Samples, rows: np.ndarray) -> tuple[float, float]:
    """Mean effector error [mm] of the network alone and after three exact steps."""
    own, refined = [], []
    net = replace(net, skeleton=poses.skeleton)
    for part in np.array_split(rows, max(1, len(rows) // training.CHUNK)):
        targets, truth = training.asked(net.layout, poses.skeleton, samples, part)
        own.append(predicted(net, targets, truth).effector)
        refined.append(refined_errors(net, targets, truth).effector)
    return float(np.concatenate(own, 1).mean() * 1e3), float(np.concatenate(refined, 1).mean() * 1e3)


def on_body(net: Network, poses: PoseSet, samples: context.Samples) -> Network:
    """The network as it meets another body: lengths beyond the spread it learned count as the nearest length within it.

    Without this, a neck of twice the length drives the hidden units into saturation, and fine-tuning cannot leave it.
    """
    targets, _ = training.asked(net.layout, poses.skeleton, samples, np.arange(1))
    row = context.features(net.layout, poses.skeleton, targets)[0]
    lengths = np.arange(len(row)) >= len(row) - 2 * len(poses.skeleton.effectors)  # the last inputs of this layout
    inside = np.clip((row - net.mean) / net.deviation, -MOST_UNLIKE, MOST_UNLIKE)
    return replace(net, mean=np.where(lengths, row - inside * net.deviation, net.mean).astype(net.mean.dtype))


def families_together(mocap: Path, settings: config.Training, only: Sequence[str]) -> list[dict[str, object]]:
    """One network for all families beside one for each, on whole takes held out."""
    pieces: list[PoseSet] = []
    labels: list[str] = []
    for family in only:
        found = read_family(mocap / "bvh" / family, own_lengths=False)
        pieces += found
        labels += [family] * len(found)
    poses, groups = joined(pieces), np.array(labels)
    parts = whole_takes(poses, groups, settings.seed)
    print(
        f"{poses.frames} frames of {len(pieces)} pieces at up to {FPS:g} a second, {np.sum(parts == TEST)} of them held out"
    )
    general, samples = fit(poses, parts, settings)
    rows: list[dict[str, object]] = []
    print(
        f"{'family':18s}{'train':>8s}{'test':>7s}{'together':>10s}{'alone':>8s}{'ratio':>7s}{'refined':>10s}{'alone':>8s}   mm"
    )
    for family in only:
        mine = (groups == family)[poses.clip]
        test, train = np.flatnonzero(mine & (parts == TEST)), np.flatnonzero(mine & (parts == TRAIN))
        if not len(test):
            print(f"{family:18s}{len(train):8d}{0:7d}   too few takes to hold one out")
            continue
        together = error(general, poses, samples, test)
        own_parts = np.where(mine, parts, UNUSED).astype(np.int8)
        if not np.any(own_parts == VALIDATION):  # two takes: the last tenth of the training take chooses
            own_parts[train[-max(3, len(train) // 10) :]] = VALIDATION
        alone, own_samples = fit(poses, own_parts, settings)
        by_itself = error(alone, poses, own_samples, test)
        rows.append(
            {"family": family, "train": len(train), "test": len(test), "together": together, "alone": by_itself}
        )
        print(
            f"{family:18s}{len(train):8d}{len(test):7d}{together[0]:10.1f}{by_itself[0]:8.1f}{together[0] / by_itself[0]:7.2f}"
            f"{together[1]:10.2f}{by_itself[1]:8.2f}"
        )
    tasks = np.array(poses.clip_tasks)[poses.clip]
    print(f"{'activity':18s}{'train':>8s}{'test':>7s}{'together':>10s}{'':15s}{'refined':>10s}")
    for task in config.TASKS:
        test = np.flatnonzero((tasks == task) & (parts == TEST))
        if len(test):
            together = error(general, poses, samples, test)
            count = int(np.sum((tasks == task) & (parts == TRAIN)))
            rows.append({"activity": task, "train": count, "test": len(test), "together": together})
            print(f"{task:18s}{count:8d}{len(test):7d}{together[0]:10.1f}{'':15s}{together[1]:10.2f}")
    return rows


def another_body(
    mocap: Path, settings: config.Training, only: Sequence[str], body: str, spread: float
) -> list[dict[str, object]]:
    """The general network on a body it never saw: at once, fine-tuned, and beside networks that learn from nothing."""
    settings = replace(settings, layout="bodies", proportions=spread)
    pieces = [p for family in only if family != body for p in read_family(mocap / "bvh" / family, own_lengths=False)]
    poses = joined(pieces)
    parts = whole_takes(poses, np.zeros(len(pieces), int), settings.seed)
    parts[parts == TEST] = TRAIN  # the test is the other body
    general, _ = fit(poses, parts, settings)
    own_pieces = read_family(mocap / "bvh" / body, own_lengths=True)
    alike = own_pieces[0].skeleton
    own = joined([p for p in own_pieces if alike.proportion_difference(p.skeleton) < 0.02])
    own_parts = whole_takes(own, np.zeros(len(own.clip_names), int), settings.seed)
    samples = context.prepare(own)
    test = np.flatnonzero(own_parts == TEST)
    train = np.flatnonzero(own_parts != TEST)
    if not len(test):
        print(f"\n{body}: too few takes of one body to hold one out")
        return []
    start = on_body(general, own, samples)
    plain = error(general, own, samples, test)[0]
    print(
        f"\n{body}: a leg of {alike.leg_length:.2f} m, {len(train)} own frames to learn from, {len(test)} of other takes to test"
    )
    print(f"  at once without the clamp on lengths: {plain:.1f} mm")
    rows: list[dict[str, object]] = []
    settings = replace(settings, proportions=0.0)
    for count in (0, 100, 500):
        picked = train[np.linspace(0, len(train) - 1, min(count, len(train))).astype(int)] if count else train[:0]
        few = np.full(own.frames, UNUSED, np.int8)
        few[picked] = TRAIN
        few[picked[5::10]] = VALIDATION
        tuned = start if not count else fit(own, few, settings, start)[0]
        fine = error(tuned, own, samples, test)
        blank = error(fit(own, few, settings)[0], own, samples, test) if count else (float("nan"), float("nan"))
        rows.append({"body": body, "frames": count, "fine_tuned": fine, "from_nothing": blank})
        print(
            f"  {count:4d} own frames: from the general network {fine[0]:7.1f} mm ({fine[1]:.2f} refined)"
            f"   from nothing {blank[0]:7.1f} ({blank[1]:.2f})"
        )
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Print both tables; 2 where there is no motion capture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parent.parent
    parser.add_argument(
        "--mocap", type=Path, default=Path(os.environ.get("NIK_MOCAP", here.parent / "shared" / "mocap"))
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds of every training (60)")
    parser.add_argument("--proportions", type=float, default=0.5, help="spread of bodies in the second training (0.5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument(
        "--body", nargs="*", default=["cmu_daz", "kaykit_cc0"], help="families used as the body never seen"
    )
    parser.add_argument("--skip-families", action="store_true", help="only the second question")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args(argv)
    if not options.mocap.is_dir():
        print(f"expected motion capture in {options.mocap}; set NIK_MOCAP or --mocap")
        return 2
    settings = config.Training(seed=options.seed, time_limit=options.seconds, epochs=100_000)
    rows: list[dict[str, object]] = []
    if not options.skip_families:
        rows += families_together(options.mocap, settings, options.families)
    for body in options.body:
        rows += another_body(options.mocap, settings, options.families, body, options.proportions)
    if options.json:
        options.json.write_text(
            json.dumps({"seconds": options.seconds, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
