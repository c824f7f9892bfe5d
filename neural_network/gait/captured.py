# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures on captured walks of performers that no training saw: Match beside the nearest captured cycles, and clean feet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core import metrics, rotations
from ..learning.card import Figure, ci95
from ..motion import pose_set
from ..motion.pose_set import PoseSet
from . import cycles, figures, matching, parameters
from .cycles import Cycle
from .network import Gait
from .parameters import get

HELD_OUT = ("07", "16")
"""Subjects of split W; 49, of split A, is left out of the training side too."""
NEVER = (*HELD_OUT, "49")


@dataclass(frozen=True)
class Take:
    """The cycles of one take."""

    poses: PoseSet
    clip: int
    name: str
    performer: str
    cycles: list[Cycle]


def takes_of(files: Sequence[Path]) -> list[Take]:
    """The takes in which somebody walks or runs, each name once; clips are named PERFORMER_TAKE."""
    out, seen = [], set()
    for path in files:
        poses = pose_set.load(path)
        for clip, name in enumerate(poses.clip_names):
            take = name.split("-")[0]
            found = [] if take in seen else cycles.cut(poses, clip)
            if found:
                seen.add(take)
                out.append(Take(poses, clip, take, take.split("_")[0], found))
    return out


def captured_figures(gait: Gait, files: Sequence[Path], seed: int) -> Iterator[Figure]:
    """Every figure that needs captured motion; ValueError where nobody held out walks in it."""
    takes = takes_of(files)
    held = [t for t in takes if t.performer in HELD_OUT]
    train = [c for t in takes if t.performer not in NEVER for c in t.cycles]
    if not held or not train:
        raise ValueError(
            f"--data: expected captured walks of subjects {' and '.join(HELD_OUT)} and of others, got "
            f"{len(held)} and {len(train)}; clips are named SUBJECT_TAKE"
        )
    rig = held[0].poses.skeleton
    errors, by_speed, by_pose, groups, paces = [], [], [], [], []
    library = [matching.seen(gait, rig, c) for c in train]
    speeds = np.array([c.measured.speed for c in train])
    for take in held:
        for cycle in take.cycles:
            found = matching.match(gait, rig, [cycle])
            errors.append(found.error)
            near = int(np.argmin(np.abs(speeds - cycle.measured.speed)))
            truth = matching.seen(gait, rig, cycle)
            by_speed.append(matching.difference(library[near], truth))
            by_pose.append(min(matching.difference(other, truth) for other in library))
            groups.append(take.name)
            paces.append(_pace_error(gait, found.values, cycle))
    ratio = np.mean(by_speed) / np.mean(errors)
    rng = np.random.default_rng([seed, 19])
    count = len(errors)
    rivals = {
        "training cycle of nearest speed": float(np.mean(by_speed)),
        "training cycle of nearest pose": float(np.mean(by_pose)),
    }
    own = float(np.mean(errors))
    yield Figure("captured walks held out: joint error after Match", own, "deg", "lower", count, None,
                 ci95(np.array(errors), np.array(groups), rng), rivals)  # fmt: skip
    yield Figure(
        "captured walks held out: nearest speed's error beside Match's", float(ratio), "times", "higher", count, 1.3
    )
    yield Figure(
        "Match: step length and cadence of captured walks, worst", 100 * float(np.max(paces)), "%", "lower", count, 8.0
    )
    yield from _jerk(gait, [t for t in takes if t.performer != "49"])
    clean = clean_slide(held + [t for t in takes if t.performer not in NEVER])
    yield from figures.feet_figures(gait, clean)


def _pace_error(gait: Gait, values: np.ndarray, cycle: Cycle) -> float:
    """How far step length and cadence of the walk with these values are from a captured cycle's, the worse of both."""
    plain = np.array(values)
    for name in parameters.PROPORTIONS:
        plain[parameters.INDEX[name]] = 1.0
    rig, walk = figures.walked(gait, plain, 4, 60.0)
    found = cycles.cut_motion(rig, walk.turns, walk.root, 60.0)
    if not found:
        return 1.0
    step = np.mean([c.measured.step_length for c in found]) / cycle.measured.step_length
    cadence = np.mean([c.measured.cadence for c in found]) / cycle.measured.cadence
    return float(max(abs(step - 1), abs(cadence - 1)))


def _jerk(gait: Gait, takes: Sequence[Take]) -> Iterator[Figure]:
    """Jerk of the network's walks beside that of captured takes of the same speeds; as much is wanted, not less: 0.8 to 1.2."""
    ratios = []
    for take in takes:
        speed = float(np.mean([c.measured.speed for c in take.cycles]))
        if not 0.5 <= speed <= 4.0:
            continue
        rig, walk = figures.walked(gait, parameters.vector({"speed": speed}), 4)
        ratios.append(metrics.jerk(figures.look(rig, walk.turns, walk.root).heads) / metrics.jerk(_heads(take)))
    name, found = "jerk beside captured takes of the same speed", float(np.median(ratios))
    yield Figure(f"{name}: not more", found, "times", "lower", len(ratios), 1.2)
    yield Figure(f"{name}: not less", found, "times", "higher", len(ratios), 0.8)


def _heads(take: Take) -> np.ndarray:
    """(F, J, 3) [m] of a captured take."""
    poses, rows = take.poses, take.poses.rows(take.clip)
    rig = poses.skeleton
    turns = rotations.matrix_from_axis_angle(rig.to_core(poses.rot[rows].astype(np.float64)))
    return figures.look(rig, turns, poses.root_pos[rows].astype(np.float64) @ rig.axes.T).heads


def clean_slide(takes: Sequence[Take]) -> float:
    """[mm a frame] by how much the standing feet of captured takes slide."""
    found = []
    for take in takes:
        poses, rows = take.poses, take.poses.rows(take.clip)
        rig = poses.skeleton
        turns = rotations.matrix_from_axis_angle(rig.to_core(poses.rot[rows].astype(np.float64)))
        seen = figures.look(rig, turns, poses.root_pos[rows].astype(np.float64) @ rig.axes.T)
        found.append(metrics.slides(seen.points, seen.contact))
    return float(np.concatenate(found).mean())


def synthetic(gait: Gait, count: int, seed: int) -> Figure:
    """Match on walks that the network made: step length and cadence."""
    rng = np.random.default_rng([seed, 23])
    off = []
    for _ in range(count):
        values = parameters.vector({"speed": float(rng.uniform(0.6, 2.1))})
        values[parameters.INDEX["step_length"]] *= np.exp(rng.normal(0, 0.1))
        values[parameters.INDEX["trunk_lean"]] = rng.uniform(-5, 12)
        values[parameters.INDEX["arm_swing"]] = rng.uniform(0.5, 1.8)
        rig, walk = figures.walked(gait, values, 4)
        found = cycles.cut_motion(rig, walk.turns, walk.root, figures.FPS)
        if not found:
            off.append(1.0)
            continue
        got = matching.match(gait, rig, found).values
        off += [abs(float(get(got, name) / get(values, name)) - 1) for name in ("step_length", "cadence")]
    return Figure("Match: step length and cadence of made walks, worst", 100 * max(off), "%", "lower", count, 3.0)
