# SPDX-License-Identifier: GPL-3.0-or-later
"""How near the whole body is to the truth where only some targets are given, positions only, beside plain answers.

Rows of the card: each set of targets, with the Hips given and free, without any other hint (cold) and from the pose half a
second before. With the Hips given the network and its density answer, otherwise a drag with the pose changes of the training
takes. Plain answers take converged exact steps to the same targets: from the nearest training frame, from the mean pose and from
the pose before. Where the Hips are free and nothing is known of before, every pose to start from is turned about the
vertical and moved on the ground so that it fits the targets best.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core import forward_kinematics as fk
from ..core import rotations
from ..core.messages import counted
from ..core.skeleton import Skeleton
from ..motion.pose_set import PoseSet
from . import baselines, batches, density, refinement
from .context import LAYOUTS, Samples
from .drag import Drag, Hips
from .drag_conditions import DragSettings
from .errors import hands_of
from .goals import Goals
from .network import Network
from .solver import Solver

BEFORE = 0.5  # [s] of the pose before
FRAMES_MOST, FRAMES_SHARE = 40, 20  # frames judged: at most so many, and one of so many
FRAMES_LEAST = 2  # one frame alone says nothing
ANSWERS = 6  # answers to the same targets, until a drag has settled
MOVING = DragSettings(balance=None)  # walking is falling: who moves is not balanced over the feet


class Bodies(NamedTuple):
    """Poses (N) in core axes, where the character stands [leg lengths, rad]."""

    rot: np.ndarray  # (3, J, N) core rotations, the root's with its heading
    shift: np.ndarray  # (3, N) the root's head

    def heads(self, skeleton: Skeleton) -> np.ndarray:
        """(3, J, N) heads."""
        _, heads = fk.forward_components(skeleton, self.rot, skeleton.offsets / skeleton.leg_length)
        return heads + self.shift[:, None]


def measure(
    net: Network, poses: PoseSet, samples: Samples, train: np.ndarray, test: np.ndarray
) -> list[dict[str, Any]]:
    """The rows, as plain JSON values: given, hips, start, frames, and mpjpe_mm of ours, nearest, mean and previous.

    Previous is None where nothing is known of before. MPJPE is over all heads, in armature space. Empty where fewer than two
    frames are judged (test frames with a pose half a second before), without training frames, and for rigs without two feet, two
    hands and a head.
    """
    rig = net.skeleton
    frames, before = _judged(poses, test)
    sets = _sets(rig)
    if len(frames) < FRAMES_LEAST or not len(train) or not sets:
        return []
    mean = batches.mean_pose(samples, train)
    known = baselines.frames_of(LAYOUTS["positions"], rig, samples, train)
    changes = density.changes_of(poses, train)
    solver, truth, earlier = Solver(net, rig), _bodies(poses, frames), _bodies(poses, before)
    true_heads = truth.heads(rig)
    targets = true_heads[:, list(rig.effectors)]
    ground = samples.ground[frames] / rig.leg_length
    rows = []
    for name, given in sets.items():
        mask = np.zeros(len(rig.effectors), np.float32)
        mask[given] = 1
        for held in (True, False):
            for warm in (False, True):
                plain = _mean_bodies(rig, mean, truth, targets, mask, held, earlier if warm else None)
                starts = {"mean": plain, "nearest": _nearest(rig, known, plain, targets, mask)}
                if warm:
                    starts["previous"] = (
                        earlier if not held else Bodies(_with_root(earlier.rot, truth.rot), truth.shift)
                    )
                found = {key: _stepped(rig, start, targets, mask, held) for key, start in starts.items()}
                if held and not warm:
                    found["ours"] = _solved(solver, truth, targets, mask, ground)
                else:
                    begin = earlier if warm else plain
                    found["ours"] = _dragged(rig, changes, begin, truth, targets, mask, held, ground)
                errors = {key: _mpjpe(rig, heads, true_heads) for key, heads in found.items()}
                mpjpe = {key: errors.get(key) for key in ("ours", "nearest", "mean", "previous")}
                row = {"given": name, "hips": "given" if held else "free", "start": "previous" if warm else "cold"}
                rows.append({**row, "frames": len(frames), "mpjpe_mm": mpjpe})
    return rows


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as a table for a terminal."""
    if not rows:
        return []
    out = [f"Some targets given, without rotations: MPJPE mm over all joints ({counted(rows[0]['frames'], 'frame')})"]
    out.append(f"{'targets':<22}{'hips':<8}{'start':<10}{'ours':>8}{'nearest':>9}{'mean':>8}{'previous':>10}")
    for row in rows:
        numbers = [row["mpjpe_mm"][key] for key in ("ours", "nearest", "mean", "previous")]
        words = ["" if n is None else f"{n:.1f}" for n in numbers]
        out.append(
            f"{row['given']:<22}{row['hips']:<8}{row['start']:<10}{words[0]:>8}{words[1]:>9}{words[2]:>8}{words[3]:>10}"
        )
    out.append("Nearest, mean and previous: from such a pose with converged exact steps to the same targets.")
    return out


def _judged(poses: PoseSet, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some of the frames ``test``, and those half a second before."""
    back = np.round(poses.clip_fps[poses.clip[test]] * BEFORE).astype(int)
    earlier = test - back
    usable = (earlier >= 0) & (poses.clip[np.maximum(earlier, 0)] == poses.clip[test])
    index = np.flatnonzero(usable)
    count = min(FRAMES_MOST, -(-len(index) // FRAMES_SHARE))
    index = index[np.linspace(0, len(index) - 1, count).round().astype(int)] if count else index
    return test[index], earlier[index]


def _sets(rig: Skeleton) -> dict[str, list[int]]:
    """Sets of targets by name, as indices of effectors."""
    feet = [rig.effectors.index(f) for f in rig.feet]
    hands = hands_of(rig).tolist()
    others = [e for e in range(len(rig.effectors)) if e not in (*feet, *hands)]
    if len(feet) != 2 or len(hands) != 2 or len(others) != 1:
        return {}
    return {
        "one hand": hands[:1],
        "both hands": hands,
        "hands + head": hands + others,
        "feet + hand": feet + hands[:1],
        "feet + hands": feet + hands,
        "all five": list(range(5)),
    }


def _bodies(poses: PoseSet, rows: np.ndarray) -> Bodies:
    rig = poses.skeleton
    shift = poses.root_pos[rows].astype(np.float64) @ rig.axes.T / rig.leg_length
    return Bodies(batches.components(rig.to_core(poses.rot[rows])), np.ascontiguousarray(shift.T))


def _with_root(rot: np.ndarray, of: np.ndarray) -> np.ndarray:
    out = rot.copy()
    out[:, 0] = of[:, 0]
    return out


def _mean_bodies(
    rig: Skeleton,
    mean: np.ndarray,
    truth: Bodies,
    targets: np.ndarray,
    mask: np.ndarray,
    held: bool,
    earlier: Bodies | None,
) -> Bodies:
    """The mean pose where the Hips are given or were before; else turned about the vertical and moved to fit the targets."""
    count = truth.shift.shape[1]
    rot = np.broadcast_to(mean.T[:, :, None], (3, rig.count, count)).copy()
    at = truth if held else earlier
    if at is not None:
        return Bodies(_with_root(rot, at.rot), at.shift)
    _, heads = fk.forward_components(rig, rot, rig.offsets / rig.leg_length)
    ends, weight = heads[:, list(rig.effectors)], mask / mask.sum()
    here, there = (np.einsum("cen,e->cn", p, weight) for p in (ends, targets))
    a, b = ends[:2] - here[:2, None], targets[:2] - there[:2, None]
    turn = np.arctan2(
        np.einsum("en,e->n", a[0] * b[1] - a[1] * b[0], weight), np.einsum("en,e->n", a[0] * b[0] + a[1] * b[1], weight)
    )
    zero = np.zeros_like(turn)
    upright = rotations.matrix_components(np.stack([zero, zero, turn]))
    rot[:, 0] = rotations.axis_angle_components(fk.compose_components(upright, rotations.matrix_components(rot[:, 0])))
    shift = there - np.einsum("abn,bn->an", upright, here)
    return Bodies(rot, shift)


def _nearest(
    rig: Skeleton, known: baselines.KnownFrames, plain: Bodies, targets: np.ndarray, mask: np.ndarray
) -> Bodies:
    """The training frame whose effectors are nearest to the targets as seen from the Hips of ``plain``, put there."""
    root = rotations.matrix_components(plain.rot[:, 0])
    heading = np.arctan2(root[1, 0], root[0, 0])
    zero = np.zeros_like(heading)
    back = rotations.matrix_components(np.stack([zero, zero, -heading]))
    seen = np.einsum("abn,ben->aen", back, targets - plain.shift[:, None])
    wanted = seen.transpose(2, 1, 0).reshape(len(heading), -1)
    weight = np.repeat(mask, 3)
    table = known.table
    apart = (table * table) @ weight - 2 * (wanted * weight) @ table.T
    best = np.argmin(apart, axis=1)
    return Bodies(_with_root(known.rot[:, :, best].astype(np.float64), plain.rot), plain.shift)


def _stepped(rig: Skeleton, start: Bodies, targets: np.ndarray, mask: np.ndarray, held: bool) -> np.ndarray:
    """Heads (3, J, N) after converged exact steps from a pose."""
    weight = np.repeat(mask[:, None], targets.shape[-1], axis=1)
    asked = refinement.EffectorTargets(targets, position_weight=weight)
    done = refinement.refine(rig, start.rot, asked, baselines.CONVERGED_STEPS, shift=start.shift, free_root=not held)
    return done.heads


def _solved(solver: Solver, truth: Bodies, targets: np.ndarray, mask: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """Heads (3, J, N) of the solver's answers, Hips given."""
    rig = solver.skeleton
    rot, root_pos = _local(rig, truth)
    goals = Goals(
        np.ascontiguousarray((targets * rig.leg_length).transpose(2, 1, 0) @ rig.axes),
        root_pos,
        rot[:, 0],
        weights=np.repeat(mask[None], len(rot), axis=0),
        ground=ground * rig.leg_length,
    )
    found = solver.solve_batch(goals, steps=10)
    return _heads_of(rig, found.rotations, found.root_pos)


def _dragged(
    rig: Skeleton,
    changes: np.ndarray | None,
    start: Bodies,
    truth: Bodies,
    targets: np.ndarray,
    mask: np.ndarray,
    held: bool,
    ground: np.ndarray,
) -> np.ndarray:
    """Heads (3, J, N) after drags from the poses ``start``, the Hips held at their true place or free."""
    rot, root_pos = _local(rig, start)
    true_rot, true_root = _local(rig, truth)
    rest = rig.rest_arm[0, :3, :3]
    turns = rotations.axis_angle_from_matrix(rest @ rotations.matrix_from_axis_angle(true_rot[:, 0]) @ rest.T)
    places = (targets * rig.leg_length).transpose(2, 1, 0) @ rig.axes
    out, drag = [], None
    for i in range(len(rot)):
        floor = float(ground[i] * rig.leg_length)
        if drag is None:
            drag = Drag(rig, rot[i], root_pos[i], changes, floor, MOVING)
        else:
            drag.begin(rot[i], root_pos[i], floor)
        hips = Hips(true_root[i], turns[i]) if held else None
        for _ in range(ANSWERS):
            answer = drag.solve(places[i], mask, hips=hips)
            if drag.settled:
                break
        out.append(answer[:2])
    return _heads_of(rig, np.stack([rot for rot, _ in out]), np.stack([root for _, root in out]))


def _local(rig: Skeleton, bodies: Bodies) -> tuple[np.ndarray, np.ndarray]:
    """rot_local (N, J, 3) and the root's head (N, 3) [m, armature]."""
    return rig.from_core(bodies.rot.transpose(2, 1, 0)), bodies.shift.T * rig.leg_length @ rig.axes


def _heads_of(rig: Skeleton, rot: np.ndarray, root_pos: np.ndarray) -> np.ndarray:
    """(3, J, N) [leg lengths, core axes] of rot_local (N, J, 3) and the root's head (N, 3) [m, armature]."""
    heads = fk.armature_matrices(rig, rot, root_pos)[..., :3, 3]
    return np.ascontiguousarray((heads @ rig.axes.T / rig.leg_length).transpose(2, 1, 0))


def _mpjpe(rig: Skeleton, heads: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.sum((heads - truth) ** 2, axis=0)).mean() * rig.leg_length * 1000)
