# SPDX-License-Identifier: GPL-3.0-or-later
"""This solver compared with others, in one run on one skeleton: python -m benchmarks.peers --data DATA.npz [--frames 500]

Every solver gets the same frames of motion capture, on which none was trained, once with positions alone and once with
orientations; the Hips are given. Writes docs/benchmarks.md with a table and two plots. DATA.npz comes from
``python -m neural_network import FOLDER -o DATA.npz --fps 30 --rig reference``; the peers from benchmarks/requirements.txt.
A peer that is not installed is left out, and the page says so. Everything runs in one thread on one core.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.core.files import write_whole
from neural_network.core.skeleton import Skeleton
from neural_network.ik import batches, context, network, refinement, single_kinematics, single_refinement, task
from neural_network.ik.arguments import PRESETS
from neural_network.ik.losses import limit_excess
from neural_network.ik.network import Network
from neural_network.ik.settings import Training
from neural_network.ik.solver import STEPS, Goals, Solver
from neural_network.learning.arguments import positive
from neural_network.motion import pose_set, splits

from . import peer_blender, peer_solvers, peers_plots
from .peer_solvers import Ask, Peer

SINGLE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
TRACK = 120  # [frames] of a track
EARLY, LATE = 10, TRACK - 1  # frames of a track whose errors are compared
LIMIT_SLACK = np.radians(1)  # a joint counts as outside its limits beyond this
COLD_STEPS = 20  # of our refinement without a network
NEAREST_STEPS = 10  # of our refinement from the nearest training frame
TURN_WEIGHT = 0.2  # [leg lengths / rad] of orientations where the nearest frame is looked for with them


@dataclass(frozen=True)
class Part:
    """Frames as every contestant gets them."""

    rows: np.ndarray
    """(N) rows of the pose set."""
    truth: np.ndarray
    """(N, J, 3) core rotations [rad], zeros for the Hips."""
    positions: np.ndarray
    """(N, E, 3) [m] effectors, Hips' axes."""
    turned: np.ndarray
    """(N, E, 3, 3) their rotations from the T-pose, Hips' axes."""
    world: tuple[np.ndarray, np.ndarray]
    """(N, 3, 3) and (N, 3) [m]: the Hips' own pose."""

    def ask(self, n: int, orientations: bool) -> Ask:
        """The targets of frame ``n``."""
        return Ask(self.positions[n], self.turned[n] if orientations else None)


@dataclass(frozen=True)
class Answer:
    """The answers of one contestant to a Part."""

    rot: np.ndarray
    """(N, J, 3) core rotations [rad], zeros for the Hips."""
    seconds: np.ndarray
    """(any) seconds of single solves."""


@dataclass(frozen=True)
class Contestant:
    """One row of the table."""

    label: str
    kind: str
    """ours, prior (ours without a network), or peer."""
    how: str
    kept: int
    """[bytes] besides the rig."""
    frames: Callable[[Part, bool], Answer]
    """Single frames, independently of each other; with the flag, orientations are targets too."""
    track: Callable[[Part, bool], Answer]
    """Consecutive frames."""
    warm: bool
    """On a track each solve starts from the previous answer, the first from the true pose."""


@dataclass(frozen=True)
class Row:
    """The figures of one contestant."""

    label: str
    kind: str
    effector_mm: float
    effector_p95_mm: float
    within: float
    mpjpe_mm: float
    rotation_deg: float
    outside: float
    cold_ms: float
    warm_ms: float
    early_mm: float
    late_mm: float
    acceleration: float
    jerk: float
    kept: int
    drift: np.ndarray
    """(TRACK) [mm] MPJPE at each frame of a track."""
    warm: bool


def part_of(poses: pose_set.PoseSet, samples: context.Samples, rows: np.ndarray) -> Part:
    """Lay the frames ``rows`` out in the Hips' axes."""
    rig = poses.skeleton
    core = rig.to_core(poses.rot[rows])
    hips = rotations.matrix_from_axis_angle(core[:, 0])
    truth = samples.rot[rows].astype(np.float64)
    truth[:, 0] = 0
    turned, heads = fk.forward(rig, truth)
    bones = list(rig.effectors)
    where = poses.root_pos[rows].astype(np.float64) @ rig.axes.T
    return Part(rows, truth, heads[:, bones], turned[:, bones], (hips, where))


def choose(poses: pose_set.PoseSet, parts: np.ndarray, frames: int, tracks: int) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spaced test frames (frames), and tracks (tracks, TRACK) of consecutive ones that do not overlap."""
    test = np.flatnonzero(parts == splits.TEST)
    spaced = test[np.linspace(0, len(test) - 1, min(frames, len(test))).round().astype(int)]
    found = []
    for c in range(len(poses.clip_names)):
        rows = poses.rows(c)
        if rows.stop > rows.start and parts[rows.start] == splits.TEST:
            found += [np.arange(at, at + TRACK) for at in range(rows.start, rows.stop - TRACK + 1, TRACK)]
    if not found:
        raise ValueError(f"expected a held-out take of at least {TRACK} frames, got none; give longer takes")
    picked = np.linspace(0, len(found) - 1, min(tracks, len(found))).round().astype(int)
    return spaced, np.stack([found[k] for k in picked])


# ---------------------------------------------------------------------- the networks


def trained(
    name: str, config: Training, poses: pose_set.PoseSet, samples: context.Samples, parts: np.ndarray, cache: Path
) -> Network:
    """The network of ``config`` trained on the training part, from the cache where it is there already."""
    told = hashlib.sha256(f"{config}{poses.content_hash()}".encode() + parts.tobytes()).hexdigest()[:12]
    path = cache / f"{name}-{told}.npy"
    if path.exists():
        return network.load(path)
    say(f"training {name}: {config.time_limit:g} CPU seconds")
    net = task.fit(poses.skeleton, samples, parts, config)
    cache.mkdir(parents=True, exist_ok=True)
    network.save(path, net)
    return net


def network_poses(net: Network, samples: context.Samples, part: Part, orientations: bool, steps: int) -> np.ndarray:
    """(N, J, 3) the network's poses after ``steps`` exact steps, with orientations as targets or without."""
    rig = net.skeleton
    out = []
    for at in range(0, len(part.rows), batches.CHUNK):
        _, _, targets = batches.true_batch(rig, samples, part.rows[at : at + batches.CHUNK])
        rot, _ = batches.predict(net, targets)
        if steps:
            goals = refinement.EffectorTargets(targets.positions, targets.turned if orientations else None)
            rot = refinement.refine(rig, rot, goals, steps).rot
        out.append(np.moveaxis(rot, (2, 1), (0, 1)))
    found = np.concatenate(out).astype(np.float64)
    found[:, 0] = 0
    return found


def goals_of(poses: pose_set.PoseSet, samples: context.Samples, row: int, orientations: bool) -> Goals:
    """A frame as Solver.solve takes it, in armature space."""
    rig = poses.skeleton
    bones = list(rig.effectors)
    matrices = fk.armature_matrices(rig, poses.rot[row], poses.root_pos[row].astype(np.float64))[bones]
    turned = rotations.axis_angle_from_matrix(matrices[:, :3, :3] @ rig.rest_arm[bones, :3, :3].transpose(0, 2, 1))
    return Goals(
        matrices[:, :3, 3],
        poses.root_pos[row].astype(np.float64),
        poses.rot[row, 0].astype(np.float64),
        turned if orientations else None,
        phase=float(samples.phase[row]),
        task=float(samples.task[row]),
        grounded=samples.grounded[row],
        desired=samples.desired[row],
        ground=float(samples.ground[row]),
    )


def ours(
    label: str, how: str, net: Network, poses: pose_set.PoseSet, samples: context.Samples, steps: int
) -> Contestant:
    """A network with exact steps; timed through Solver.solve, as it is called for one pose."""
    solver = Solver(net)

    def frames(part: Part, orientations: bool) -> Answer:
        asked = [goals_of(poses, samples, int(row), orientations) for row in part.rows[:300]]
        solver.solve(asked[0], steps)
        seconds = []
        for goals in asked:
            began = time.perf_counter()
            solver.solve(goals, steps)
            seconds.append(time.perf_counter() - began)
        return Answer(network_poses(net, samples, part, orientations, steps), np.array(seconds))

    def track(part: Part, orientations: bool) -> Answer:
        return Answer(network_poses(net, samples, part, orientations, steps), np.zeros(0))

    return Contestant(label, "ours", how, net.parameters.nbytes + net.mean.nbytes * 2, frames, track, False)


# ---------------------------------------------------------------------- without a network


def nearest(poses: pose_set.PoseSet, samples: context.Samples, rows: np.ndarray) -> Contestant:
    """The training frame nearest to the targets, then our steps."""
    rig = poses.skeleton
    known = part_of(poses, samples, rows)
    positions = known.positions.reshape(len(rows), -1) / rig.leg_length
    logs = rotations.axis_angle_from_matrix(known.turned).reshape(len(rows), -1) * TURN_WEIGHT
    tables = {False: positions.astype(np.float32), True: np.concatenate([positions, logs], axis=1).astype(np.float32)}
    squares = {o: np.sum(t * t, axis=1) for o, t in tables.items()}
    finish = refine_peer(rig, NEAREST_STEPS)

    def solve(ask: Ask) -> np.ndarray:
        wanted = (ask.positions / rig.leg_length).ravel()
        if ask.turned is not None:
            wanted = np.concatenate([wanted, rotations.axis_angle_from_matrix(ask.turned).ravel() * TURN_WEIGHT])
        orientations = ask.turned is not None
        best = int(np.argmin(squares[orientations] - 2 * (tables[orientations] @ wanted.astype(np.float32))))
        return finish.solve(finish.load(known.truth[best]), ask)

    def frames(part: Part, orientations: bool) -> Answer:
        found, seconds = [], []
        for n in range(len(part.rows)):
            began = time.perf_counter()
            answer = solve(part.ask(n, orientations))
            seconds.append(time.perf_counter() - began)
            found.append(finish.pose(answer))
        return Answer(np.stack(found), np.array(seconds))

    how = (
        f"the one of all {len(rows)} training frames whose effectors are nearest (with orientations, their logarithms count too, "
        f"1 rad as {TURN_WEIGHT:g} leg lengths), found by one matrix product, then {NEAREST_STEPS} of our steps"
    )
    kept = tables[True].nbytes + known.truth.astype(np.float32).nbytes
    return Contestant(f"nearest training frame + {NEAREST_STEPS} steps", "prior", how, kept, frames, frames, False)


def refine_peer(rig: Skeleton, steps: int) -> Peer:
    """Our refinement of a single pose as a peer."""
    plan = single_kinematics.make_plan(rig)

    def load(rot: np.ndarray) -> np.ndarray:
        return rotations.matrix_from_axis_angle(rot)

    def solve(turns: np.ndarray, ask: Ask) -> np.ndarray:
        goals = ask.positions.T / rig.leg_length
        start, _ = single_kinematics.forward_one(plan, turns)
        found, _, _ = single_refinement.refine_one(plan, start, goals, ask.turned, steps)
        return single_kinematics.relative_one(plan, found)

    return Peer("", 0, load, solve, rotations.axis_angle_from_matrix)


# ---------------------------------------------------------------------- running a peer


def from_pose(
    label: str,
    kind: str,
    peer: Peer,
    start: Callable[[Part], np.ndarray],
    warm: Peer | None,
) -> Contestant:
    """A solver that starts every frame from ``start`` (N, J, 3); on tracks from its last answer where ``warm`` is given."""

    def frames(part: Part, orientations: bool) -> Answer:
        starts, found, seconds = start(part), [], []
        peer.solve(peer.load(starts[0]), part.ask(0, orientations))  # compilers and caches get ready
        for n in range(len(part.rows)):
            begin = peer.load(starts[n])
            began = time.perf_counter()
            answer = peer.solve(begin, part.ask(n, orientations))
            seconds.append(time.perf_counter() - began)
            found.append(peer.pose(answer))
        return Answer(np.stack(found), np.array(seconds))

    def track(part: Part, orientations: bool) -> Answer:
        if warm is None:
            return frames(part, orientations)
        found, seconds = [part.truth[0]], []
        for n in range(1, len(part.rows)):
            begin = warm.load(found[-1])
            began = time.perf_counter()
            answer = warm.solve(begin, part.ask(n, orientations))
            seconds.append(time.perf_counter() - began)
            found.append(warm.pose(answer))
        return Answer(np.stack(found), np.array(seconds))

    return Contestant(label, kind, peer.how, peer.kept, frames, track, warm is not None)


# ---------------------------------------------------------------------- figures


def errors(rig: Skeleton, rot: np.ndarray, part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Effector distances (N, E) [mm], joint errors (N) [mm] and rotation errors (N) [degrees]."""
    _, heads = fk.forward(rig, rot)
    _, true_heads = fk.forward(rig, part.truth)
    effector = np.linalg.norm(heads[:, list(rig.effectors)] - part.positions, axis=-1) * 1000
    joints = np.linalg.norm(heads[:, 1:] - true_heads[:, 1:], axis=-1).mean(axis=1) * 1000
    own, true = rotations.matrix_from_axis_angle(rot[:, 1:]), rotations.matrix_from_axis_angle(part.truth[:, 1:])
    return effector, joints, np.degrees(rotations.geodesic_angle(own, true)).mean(axis=1)


def outside(rig: Skeleton, rot: np.ndarray) -> float:
    """Share of joints more than a degree outside their limits."""
    if rig.limits is None:
        return float("nan")
    local = np.einsum("jba,njb->ajn", rig.basis[1:], rot[:, 1:])
    swing, twist, _, _ = limit_excess(local, rig.limits[1:])
    return float(np.mean((swing > LIMIT_SLACK) | (twist > LIMIT_SLACK)))


def jitter(rig: Skeleton, rot: np.ndarray, part: Part, fps: float) -> tuple[float, float]:
    """Mean acceleration [m/s^2] and jerk [m/s^3] of the joints of one track, in the world."""
    _, heads = fk.forward(rig, rot)
    turned, where = part.world
    heads = np.einsum("nab,njb->nja", turned, heads[:, 1:]) + where[:, None]
    second, third = np.diff(heads, 2, axis=0) * fps**2, np.diff(heads, 3, axis=0) * fps**3
    return float(np.linalg.norm(second, axis=-1).mean()), float(np.linalg.norm(third, axis=-1).mean())


def row_of(
    rig: Skeleton, contestant: Contestant, single: Part, tracks: list[Part], orientations: bool, fps: float
) -> Row:
    """Run one contestant and measure it."""
    answer = contestant.frames(single, orientations)
    effector, joints, rotation = errors(rig, answer.rot, single)
    followed = [contestant.track(t, orientations) for t in tracks]
    drift = np.mean([errors(rig, f.rot, t)[1] for f, t in zip(followed, tracks, strict=True)], axis=0)
    shaken = np.mean([jitter(rig, f.rot, t, fps) for f, t in zip(followed, tracks, strict=True)], axis=0)
    seconds = np.concatenate([f.seconds for f in followed])
    return Row(
        contestant.label,
        contestant.kind,
        float(effector.mean()),
        float(np.percentile(effector, 95)),
        float((effector.max(axis=1) < 1).mean()),
        float(joints.mean()),
        float(rotation.mean()),
        outside(rig, answer.rot),
        float(np.median(answer.seconds) * 1000) if len(answer.seconds) else float("nan"),
        float(np.median(seconds) * 1000) if contestant.warm else float("nan"),
        float(drift[EARLY]),
        float(drift[LATE]),
        float(shaken[0]),
        float(shaken[1]),
        contestant.kept,
        drift,
        contestant.warm,
    )


# ---------------------------------------------------------------------- the contestants

Entry = tuple[str, Callable[[], Contestant]]
"""A row's name, and the function that sets it up just before it runs: Blender has one scene at a time."""


def entries(
    poses: pose_set.PoseSet, samples: context.Samples, parts: np.ndarray, nets: dict[str, Network]
) -> list[Entry]:
    """All contestants, in the order of the table."""
    rig = poses.skeleton
    rows = np.flatnonzero(parts == splits.TRAIN)
    mean = batches.mean_pose(samples, rows)
    mean[0] = 0
    rest = np.zeros_like(mean)
    seen = "gets all inputs of its layout (target orientations, ground, phase and task too); its steps use only the targets given"
    unseen = "trained without target orientations, so that it has no advantage where positions alone are given"

    def with_network(label: str, name: str, steps: int, words: str) -> Entry:
        net = nets[name]
        how = f"{'-'.join(map(str, net.hidden))}, {net.parameters.size:,} weights; {words}"
        return label, lambda: ours(label, how, net, poses, samples, steps)

    def always(pose: np.ndarray) -> Callable[[Part], np.ndarray]:
        return lambda part: np.broadcast_to(pose, part.truth.shape)

    def from_network(part: Part) -> np.ndarray:
        return network_poses(nets["reference"], samples, part, True, 0)

    def without(label: str, start: np.ndarray, warm: Peer | None) -> Entry:
        how = f"our damped least squares without a network, {COLD_STEPS} steps cold, {STEPS} from the last answer"
        cold = replace(refine_peer(rig, COLD_STEPS), how=how, kept=start.size * 4 if np.any(start) else 0)
        return label, lambda: from_pose(label, "prior", cold, always(start), warm)

    def other(label: str, setup: Callable[[], Peer]) -> Entry:
        def make() -> Contestant:
            peer = setup()
            return from_pose(label, "peer", peer, always(mean), peer)

        return label, make

    def blender_from_network() -> Contestant:
        peer = peer_blender.blender(rig, mean)
        how = "starts from the network's pose on every frame; otherwise like Blender IK"
        kept = nets["reference"].parameters.nbytes
        return from_pose(
            "Blender IK from the network's pose", "ours", replace(peer, how=how, kept=kept), from_network, None
        )

    return [
        with_network("network alone", "reference", 0, seen),
        with_network(f"network + {STEPS} steps", "reference", STEPS, seen),
        with_network(f"network of positions + {STEPS} steps", "positions", STEPS, unseen),
        with_network(f"quality network + {STEPS} steps", "quality", STEPS, seen),
        with_network(f"quality network of positions + {STEPS} steps", "quality positions", STEPS, unseen),
        (f"nearest training frame + {NEAREST_STEPS} steps", lambda: nearest(poses, samples, rows)),
        without("our steps from rest pose", rest, None),
        without("our steps from mean pose", mean, refine_peer(rig, STEPS)),
        other("mink", lambda: peer_solvers.mink(rig, mean)),
        other("mink, hinges within limits", lambda: peer_solvers.mink(rig, mean, True)),
        other("pink", lambda: peer_solvers.pink(rig, mean)),
        other("JAX (optimistix)", lambda: peer_solvers.jax(rig, mean)),
        other("SciPy least_squares", lambda: peer_solvers.scipy(rig, mean)),
        other("Blender IK", lambda: peer_blender.blender(rig, mean)),
        other("Blender IK, rotation in the chain", lambda: peer_blender.blender(rig, mean, whole=True)),
        other("Blender iTaSC", lambda: peer_blender.blender(rig, mean, True)),
        ("Blender IK from the network's pose", blender_from_network),
    ]


# ---------------------------------------------------------------------- the page


@dataclass(frozen=True)
class Found:
    """The results of one run."""

    rows: dict[bool, list[Row]]
    """With orientations or not."""
    how: list[tuple[str, str]]
    missing: list[str]
    capture: tuple[float, float, float]
    """Of the capture itself: share outside limits, acceleration, jerk."""
    about: str
    command: str


HEADS = (
    "method",
    "effectors mm",
    "p95 mm",
    "all within 1 mm",
    "joints (MPJPE) mm",
    "rotation deg",
    "outside limits",
    "ms cold",
    "ms warm",
    f"MPJPE at frame {EARLY} -> {LATE}, mm",
    "acceleration",
    "jerk",
    "kept kB",
)


def table(rows: list[Row], capture: tuple[float, float, float]) -> list[str]:
    """The figures as lines of a Markdown table."""
    out = ["| " + " | ".join(HEADS) + " |", "|---|" + "---:|" * (len(HEADS) - 1)]
    for r in rows:
        cells = (
            f"**{r.label}**" if r.kind == "ours" else r.label,
            f"{r.effector_mm:.2f}",
            f"{r.effector_p95_mm:.2f}",
            f"{r.within * 100:.1f} %",
            f"{r.mpjpe_mm:.1f}",
            f"{r.rotation_deg:.1f}",
            f"{r.outside * 100:.1f} %",
            f"{r.cold_ms:.2f}",
            f"{r.warm_ms:.2f}" if r.warm else "same",
            f"{r.early_mm:.1f} -> {r.late_mm:.1f}",
            f"{r.acceleration / capture[1]:.2f}x",
            f"{r.jerk / capture[2]:.2f}x",
            f"{r.kept / 1000:,.0f}" if r.kept >= 1000 else f"{r.kept / 1000:.1f}",
        )
        out.append("| " + " | ".join(cells) + " |")
    return out


def verdicts(rows: dict[bool, list[Row]]) -> list[str]:
    """The comparisons that matter, as sentences with their figures."""
    out = []
    for orientations, name in ((False, "positions alone"), (True, "with orientations")):
        found = {r.label: r for r in rows[orientations]}
        alone, full = found.get("network alone"), found.get(f"network + {STEPS} steps")
        labels = (
            ("network", "quality network") if orientations else ("network of positions", "quality network of positions")
        )
        best, near = (
            found.get(f"quality network + {STEPS} steps"),
            found.get(f"nearest training frame + {NEAREST_STEPS} steps"),
        )
        classical = [r for r in rows[orientations] if r.kind == "peer" or r.label == "our steps from mean pose"]
        if alone and full:
            ratio = full.mpjpe_mm / alone.mpjpe_mm
            out.append(
                f"- {name}: {STEPS} steps bring the effectors to {full.effector_mm:.3f} mm, {full.within * 100:.1f} % of poses "
                f"within 1 mm, and the joints' error to {ratio:.2f} of the network's alone."
            )
        for label in labels:
            alike = found.get(f"{label} + {STEPS} steps")
            if not (alike and classical):
                continue
            rival = min(classical, key=lambda r: r.mpjpe_mm)
            late = min((r for r in classical if r.warm), key=lambda r: r.late_mm)
            out.append(
                f"- {name}, like for like ({alike.label}): joints {alike.mpjpe_mm:.1f} mm, {alike.mpjpe_mm / rival.mpjpe_mm:.2f} of "
                f"the best classical solver's ({rival.label}, {rival.mpjpe_mm:.1f}); at frame {LATE} of a track {alike.late_mm:.1f} mm, "
                f"{alike.late_mm / late.late_mm:.2f} of the best warm-started one's ({late.label}, {late.late_mm:.1f}); "
                f"its own frame {LATE} is {alike.late_mm / alike.early_mm:.2f} of its frame {EARLY}."
            )
        if best and near:
            out.append(
                f"- {name}: nearest training frame + steps is {near.mpjpe_mm / best.mpjpe_mm:.2f} times as far off as the quality "
                f"network (jerk {near.jerk / best.jerk:.2f} times), which keeps {best.kept / near.kept * 100:.1f} % of its memory."
            )
        exact = [
            r for r in rows[orientations] if r.kind == "peer" and full and r.effector_mm <= max(full.effector_mm, 0.05)
        ]
        for words, among in (
            ("fastest other solver from Python", [r for r in exact if "Blender" not in r.label]),
            ("fastest of Blender's", [r for r in exact if "Blender" in r.label]),
        ):
            if full and among:
                rival = min(among, key=lambda r: r.cold_ms)
                out.append(
                    f"- {name}: cold {rival.cold_ms / full.cold_ms:.1f} times as fast as the {words} that is as exact "
                    f"({rival.label}: {rival.cold_ms:.2f} ms cold, {rival.warm_ms:.2f} warm, against {full.cold_ms:.2f})."
                )
    return out


def page(found: Found) -> str:
    """docs/benchmarks.md."""
    lines = [
        "# Comparison with other solvers",
        "",
        "![Joint error of the network and of other solvers](pictures/peers_error.png)",
        "",
        "One run on one skeleton, with the same frames for every solver. This page, its tables and its plots are written by",
        "",
        f"    {found.command}",
        "",
        "after `pip install -r benchmarks/requirements.txt` (Python 3.11). The data come from "
        "`python -m neural_network import FOLDER -o DATA.npz --fps 30 --rig reference`.",
        "",
        found.about,
        "",
        "Five targets (hands, feet, head); every solver is given the Hips. *Effectors* is the mean distance to the targets, *joints* "
        "the mean distance of all other heads from the captured pose (MPJPE), *rotation* the mean angle between each bone's own "
        "rotation and the captured one, *outside limits* the share of joints more than a degree beyond the rig's limits (the capture "
        f"itself: {found.capture[0] * 100:.1f} %). *Cold* starts from the mean pose (unless stated otherwise), *warm* from the previous "
        f"answer, on tracks of {TRACK} frames that begin with the captured pose; methods without memory solve every frame "
        "independently (*same*) and are not given that first pose. *Acceleration* and *jerk* are those of the joints on these tracks, "
        "divided by the capture's own. *Kept* is what must be in memory besides the rig. Times are medians of wall time on one thread "
        "of one core, with pose and targets set; those with a network include all of Solver.solve, which without orientations runs a "
        "network that needs them twice.",
        "",
    ]
    for orientations, title in ((False, "Positions alone"), (True, "With orientations")):
        lines += [f"## {title}", "", *table(found.rows[orientations], found.capture), ""]
    lines += [*found.missing, ""] if found.missing else []
    lines += ["## Summary", "", *verdicts(found.rows), ""]
    lines += [
        "![Drift over a track](pictures/peers_drift.png)",
        "",
    ]
    lines += ["## How each solver was set up", ""]
    lines += [
        "All solvers use one skeleton in the axes of the Hips, with the Hips fixed: for mink as MJCF, for Pinocchio as a model built "
        "joint by joint, for Blender as an armature, each compared with our forward kinematics by the tests. Joints are ball joints, "
        "so that no solver loses to gimbal lock, unless the row says hinges. Solvers that support a posture prior get the mean pose "
        "of the training frames as one, and start from it.",
        "",
    ]
    lines += [f"- **{label}**: {how}." for label, how in found.how]
    return "\n".join(lines) + "\n"


def plots(found: Found, folder: Path) -> list[str]:
    """The plots of :mod:`benchmarks.peers_plots`; the files written."""
    rows = {
        given: [peers_plots.Bar(r.label, r.mpjpe_mm, r.early_mm, r.late_mm) for r in found.rows[given]]
        for given in (False, True)
    }
    return peers_plots.draw(rows, folder)


# ---------------------------------------------------------------------- the command


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").splitlines()[0])
    out.add_argument("--data", type=Path, required=True, metavar="NPZ", help="poses, as the import command writes them")
    out.add_argument("--out", type=Path, default=Path("docs/benchmarks.md"), help="the page to write")
    out.add_argument("--frames", type=positive(int), default=500, help="test frames, evenly spaced")
    out.add_argument("--tracks", type=positive(int), default=20, help=f"tracks of {TRACK} frames")
    out.add_argument("--folds", type=positive(int), default=5, help="folds of whole takes; the first is held out")
    out.add_argument(
        "--train-seconds", type=positive(float), default=120, metavar="CPU_S", help="for each small network"
    )
    out.add_argument(
        "--quality-seconds", type=positive(float), default=None, metavar="CPU_S", help="for the large one; as the small"
    )
    out.add_argument("--networks", type=Path, help="folder of trained networks; by default beside the data")
    out.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help="only rows whose name has one of these words"
    )
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = parser().parse_args(words)
    try:
        poses = pose_set.load(args.data)
        parts = splits.folds(poses, args.folds)[0]
        chosen = choose(poses, parts, args.frames, args.tracks)
    except (ValueError, OSError) as error:
        say(f"error: {error}")
        return 2
    samples = context.prepare(poses)
    cache = args.networks or args.data.with_name(args.data.stem + "_networks")
    small = Training(time_limit=args.train_seconds, epochs=100_000)
    settings = {k: v for k, v in PRESETS["quality"].items() if k in Training.__dataclass_fields__}
    large = replace(small, **settings, time_limit=args.quality_seconds or args.train_seconds)
    plans = {"reference": small, "quality": large}
    plans |= {
        f"{name} positions".removeprefix("reference "): replace(plan, **PRESETS["positions"])
        for name, plan in plans.items()
    }
    nets = {name: trained(name, plan, poses, samples, parts, cache) for name, plan in plans.items()}

    rig = poses.skeleton
    single = part_of(poses, samples, chosen[0])
    tracks = [part_of(poses, samples, rows) for rows in chosen[1]]
    fps = float(poses.clip_fps[poses.clip[chosen[1][0][0]]])
    shaken = np.mean([jitter(rig, t.truth, t, fps) for t in tracks], axis=0)
    capture = (outside(rig, single.truth), float(shaken[0]), float(shaken[1]))
    rows: dict[bool, list[Row]] = {False: [], True: []}
    how, missing = [], []
    for label, make in entries(poses, samples, parts, nets):
        if args.only and not any(word.lower() in label.lower() for word in args.only):
            continue
        began = time.perf_counter()
        try:
            contestant = make()
        except ImportError as error:
            missing.append(f"{label} was left out: it is not installed ({error}).")
            say(missing[-1])
            continue
        how.append((label, contestant.how))
        for orientations, into in rows.items():
            into.append(row_of(rig, contestant, single, tracks, orientations, fps))
            say(_line(into[-1], orientations))
        say(f"{'':36}{time.perf_counter() - began:.0f} s")
    about = (
        f"{len(poses.clip_names)} takes, {poses.frames:,} frames at {fps:g} a second; trained on "
        f"{np.sum(parts == splits.TRAIN):,} of them; whole takes held out (the first of {args.folds} folds): {len(single.rows)} evenly "
        f"spaced frames and {len(tracks)} tracks of {TRACK}. Networks: {args.train_seconds:g} CPU seconds each, "
        f"{large.time_limit:g} for the quality network. {processor()}, Python {platform.python_version()}, NumPy {np.__version__}."
    )
    command = "python -m benchmarks.peers --data DATA.npz" + "".join(
        f" --{name} {value:g}"
        for name, value, usual in (
            ("frames", args.frames, 500),
            ("tracks", args.tracks, 20),
            ("folds", args.folds, 5),
            ("train-seconds", args.train_seconds, 120),
            ("quality-seconds", large.time_limit, args.train_seconds),
        )
        if value != usual
    )
    found = Found(rows, how, missing, capture, about, command)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(args.out, page(found).encode())
    say(f"wrote {args.out}")
    try:
        for path in plots(found, args.out.parent / "pictures"):
            say(f"wrote {path}")
    except ImportError as error:
        say(f"no plots: matplotlib is not installed ({error})")
    for line in verdicts(rows):
        say(line)
    return 0


def _line(r: Row, orientations: bool) -> str:
    return (
        f"{r.label:<36}{'turned' if orientations else 'placed'}  effectors {r.effector_mm:8.3f} mm, {r.within * 100:5.1f} % within 1 mm, "
        f"joints {r.mpjpe_mm:6.2f} mm, {r.early_mm:5.1f} -> {r.late_mm:5.1f}, cold {r.cold_ms:7.3f} ms, warm {r.warm_ms:7.3f} ms"
    )


def processor() -> str:
    """The processor's name, as well as it can be found."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def say(line: str) -> None:
    """One line to the terminal, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in SINGLE.items()):  # must stand before NumPy is loaded
        again = [sys.executable, "-m", "benchmarks.peers", *sys.argv[1:]]
        raise SystemExit(subprocess.run(again, env={**os.environ, **SINGLE}, check=False).returncode)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(
            0, {max(os.sched_getaffinity(0))}
        )  # solvers with threads of their own stay on one core too
    raise SystemExit(main())
