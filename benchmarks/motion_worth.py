# SPDX-License-Identifier: GPL-3.0-or-later
"""Fit how much the network that fills gaps is worth beside the library and beside interpolation (``prediction.gaps.WORTH``).

``python -m benchmarks.motion_worth --data CAPTURED.npz --weights FOLD.npz`` takes weights that were trained without some subjects
(``standalone_trainer.py motion --validate``), cuts gaps out of these subjects' takes, searches a library of the takes that the
network was trained on, and finds the constants for which the average of all three answers is nearest to the truth. Heads are averaged
instead of rotations, which is nearly the same and quick. Needs captured motion; nothing else in the project needs this.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from neural_network.core import forward_kinematics as fk
from neural_network.core import metrics
from neural_network.core.skeleton import Skeleton
from neural_network.motion import features
from neural_network.prediction import figures, gaps, library, material, network
from neural_network.prediction.gaps import Gaps
from neural_network.prediction.library import Library

LENGTHS = (8, 15, 30, 60)
MOST = 120  # gaps of one length and subject
WIDE = 0.5  # of a level of costs, in logarithms
FEWEST = 8  # gaps that a level must have to count

Case = tuple[int, np.ndarray, np.ndarray]
"""Frames from key to key, heads (:func:`answers`), and costs of the library's best windows."""


def answers(own: Library, learned: network.Network, true: Gaps) -> tuple[np.ndarray, np.ndarray]:
    """(4, G, F, J, 3) [mm] heads of interpolation, of the answer without a network, of the network's, and of the truth; and costs (G)."""
    guide = gaps.guides(own, true)
    leg, body = own.body.leg_length, own.body
    rows = (
        guide.straight,
        guide.first,
        learned.answered(body, true, guide.straight)[0],
        features.to_rows(true.turns, true.root, leg),
    )
    posed = [features.from_rows(np.asarray(r, float)[:, ~true.known], leg) for r in rows]
    heads = [fk.walk(body.parents, turns, body.offsets, root)[1] for turns, root in posed]
    return np.array(heads) * metrics.MM, guide.windows[0].cost


def cases(body: Skeleton, takes: list[library.Take], learned: network.Network) -> list[Case]:
    """(length, heads, costs) of gaps of each length cut out of the takes that the network was not trained on."""
    trained = set(learned.about["takes"])
    own = library.of_takes(body, [take for take in takes if take.name in trained])
    held = [take for take in takes if take.name in set(learned.about["validated_on"]) - trained]
    if not held:
        raise ValueError("expected weights that some subjects of the data were left out of (--validate)")
    out = []
    for length in LENGTHS:
        for subject in sorted({material.subject_of(take.name) for take in held}):
            found = figures.cut(figures.Split(subject, tuple(material.of(held, (subject,)))), length, every=2)
            if found is None:
                continue
            some = np.linspace(0, len(found.take) - 1, min(MOST, len(found.take))).astype(int)
            true, _ = gaps.local(
                Gaps(found.gaps.turns[some], found.gaps.root[some], found.gaps.before, found.gaps.after)
            )
            heads, cost = answers(own, learned, true)
            out.append((length, heads.astype(np.float32), cost))
    return out


def levels(every: list[Case]) -> list[np.ndarray]:
    """For each case, how much its gaps count: every length and level of the best window's cost alike, as a share of how far off the
    answer without a network is there."""
    groups: dict[tuple[int, float], list[tuple[int, np.ndarray]]] = {}
    counts = []
    for number, (length, _, cost) in enumerate(every):
        counts.append(np.zeros(len(cost)))
        level = np.floor(np.log(np.clip(cost, 1e-3, 1e3)) / WIDE)
        for one in np.unique(level).tolist():
            groups.setdefault((length, one), []).append((number, level == one))
    used = [group for group in groups.values() if sum(rows.sum() for _, rows in group) >= FEWEST]
    for group in used:
        off = sum(float(_off(every[k][1][1][rows], every[k][1][3][rows]).sum()) for k, rows in group)
        for k, rows in group:
            counts[k][rows] = 1 / (off * len(used))
    return counts


def _off(heads: np.ndarray, true: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(heads - true, axis=-1).mean(axis=(1, 2)))


def loss(constants: np.ndarray, every: list[Case], counts: list[np.ndarray]) -> float:
    """Mean over lengths and levels of cost of the error as a share of that of the answer without a network."""
    total = 0.0
    for (length, (straight, first, filled, true), cost), count in zip(every, counts, strict=True):
        by_network, by_any = gaps.worth(cost, length, constants.reshape(2, 3))[..., None, None, None]
        made = straight + by_any * (first + by_network * (filled - first) - straight)
        total += float(count @ _off(made, true))
    return total


def fitted(every: list[Case], counts: list[np.ndarray]) -> np.ndarray:
    """(2, 3) constants, by a pattern search."""
    best = np.array([0.0, 0.0, 0.0, 2.0, 0.0, 0.0])
    value, step = loss(best, every, counts), 1.0
    while step > 0.1:
        better = False
        for way in step * np.concatenate([np.eye(6), -np.eye(6)]):
            tried = loss(best + way, every, counts)
            if tried < value - 1e-5 * abs(value):
                best, value, better = best + way, tried, True
        step = step if better else step / 2
    return best.reshape(2, 3)


def main(argv: list[str] | None = None) -> int:
    """Fit and print."""
    parser = argparse.ArgumentParser(description="Fit how much the network that fills gaps is worth.")
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="POSES")
    parser.add_argument("--weights", type=Path, nargs="+", required=True, metavar="FOLD.npz")
    args = parser.parse_args(argv)
    try:
        body, takes = material.read(args.data, only_numbered=True)
        every = [case for path in args.weights for case in cases(body, takes, network.load(path))]
    except (ValueError, OSError) as error:
        parser.error(str(error))
    counts = levels(every)
    alone = {"interpolation": (0, -50), "library": (-50, 50), "network": (50, 50), "half and half": (0, 50)}
    for name, (by_network, by_any) in alone.items():
        print(f"{name}: {loss(np.array([by_network, 0, 0, by_any, 0, 0], float), every, counts):.4f}")
    found = fitted(every, counts)
    print(f"fitted: {loss(found.ravel(), every, counts):.4f}\nWORTH = {np.round(found, 2).tolist()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
