# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed of training and solving: a generator of measurements, each the median of many repetitions on one machine.

With one thread, times are CPU time of this process, so that other load on the machine does not count (it would disturb long
calls more than short ones); with several threads, wall time. On an idle machine the two are the same. Everything measured is
the function that the product itself calls; nothing is rewritten for the benchmark.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core import forward_kinematics as fk
from ..core import quick_rotations as quick
from ..core import reference_rig
from ..core.skeleton import Skeleton
from ..learning import loop
from ..motion import pose_set, splits
from ..motion.pose_set import PoseSet
from . import batches, losses, network, single_kinematics, single_pose, targets_file, task
from .context import Samples, Targets, decode, features, prepare
from .goals import alone
from .network import Network
from .settings import Losses, Training
from .solver import Solver

BATCH = 128  # poses in the gradient rows, as in a training step
EPOCH = 50_000  # poses presented in the epoch that is timed
MANY = 4096  # poses in one call of solve_batch
SECONDS = 1.0  # minimum time spent on each row
LEAST = 7  # minimum repetitions, however slow
SHORT = 5e-4  # [s] calls shorter than this are timed several at once: reading the clock costs a microsecond
STEP = 1e-3  # [rad] of the central differences; smaller steps lose digits in float32


@dataclass(frozen=True)
class Measurement:
    """One row of the benchmark."""

    name: str
    value: float
    """The median."""
    best: float
    """The best repetition: on a busy machine it is nearer to what the machine can do."""
    unit: str
    repeats: int
    sentence: str


def run(
    net: Network | None = None, poses: PoseSet | None = None, seconds: float = SECONDS, epoch: int = EPOCH
) -> Iterator[Measurement]:
    """Yield every row, for ``net`` on ``poses`` of its rig; by default for an untrained network of the reference sizes.

    At least ``seconds`` [s] are spent on each row; ``epoch`` is how many poses the timed epoch presents (the row is scaled to
    50,000). Raises SkeletonMismatch if ``net`` and ``poses`` belong to different rigs, and ValueError for fewer than 2 poses.
    """
    if poses is None:
        poses = random_poses(reference_rig.reference() if net is None else net.skeleton, 512, np.random.default_rng(0))
    rig = poses.skeleton
    samples = prepare(poses)
    if len(samples.rot) < 2:
        raise ValueError(f"expected at least 2 poses to measure with, got {len(samples.rot)}")
    every = np.arange(len(samples.rot))
    if net is None:
        net = task.begin(rig, samples, every, Training())
    solver = Solver(net, rig)
    net = solver.net
    rng = np.random.default_rng(1)

    picked = every[rng.integers(0, len(every), BATCH)]
    truth, _, targets = batches.true_batch(rig, samples, picked)
    rot = truth + rng.normal(0, 0.1, truth.shape).astype(truth.dtype)
    yield from _gradient_rows(rig, rot, targets, seconds)
    yield _epoch_row(rig, samples, net, seconds, epoch)
    yield from _single_rows(solver, features(net.layout, rig, targets), seconds)
    yield from _batched_rows(solver, poses, samples, seconds)


def machine() -> dict[str, Any]:
    """What the times depend on: processor, Python, NumPy, its BLAS and its number of threads, as plain JSON values."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count() or 1,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": _blas(),
        "threads": _threads(),
        "clock": "CPU time" if _clock() is time.process_time else "wall time",
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def fk_gradient(rig: Skeleton, rot: np.ndarray, targets: Targets) -> tuple[float, np.ndarray]:
    """The FK loss (distance plus weighted angle) of core rotations ``rot`` (3, J, N) [rad] and its exact gradient (3, J, N)."""
    bones = np.array(rig.effectors)
    turned, heads = fk.forward_components(rig, rot, rig.offsets / rig.leg_length)
    share = np.full((len(bones), rot.shape[-1]), 1 / len(bones), rot.dtype)
    value, force = losses.effector_distance(heads[:, bones], targets.positions, share)
    angle, torque = losses.effector_angle(turned[:, :, bones], targets.turned, share)
    weight = Losses().orientation
    return value + weight * angle, fk.backward_components(rig, rot, turned, heads, bones, force, weight * torque)


def numeric_gradient(rig: Skeleton, rot: np.ndarray, targets: Targets, step: float = STEP) -> np.ndarray:
    """The same gradient by central differences: for each of the 3 J numbers of a pose, the whole batch runs through forward
    kinematics once, moved up and moved down together.
    """
    count = rot.shape[-1]
    both = np.concatenate([rot, rot], axis=-1)
    twice = (np.concatenate([targets.positions] * 2, axis=-1), np.concatenate([targets.turned] * 2, axis=-1))
    out = np.empty_like(rot)
    for component in range(3):
        for bone in range(rig.count):
            kept = both[component, bone].copy()
            both[component, bone, :count] += step
            both[component, bone, count:] -= step
            values = _fk_values(rig, both, *twice)
            out[component, bone] = (values[:count] - values[count:]) / (2 * step * count)
            both[component, bone] = kept
    return out


def random_poses(rig: Skeleton, count: int, rng: np.random.Generator) -> PoseSet:
    """Poses of ``rig`` within about 20 degrees of its T-pose, for measuring without training data."""
    rot = rig.from_core(rng.normal(0, 0.2, (count, rig.count, 3)))
    root_pos = np.broadcast_to(rig.rest_arm[0, :3, 3], (count, 3))
    return pose_set.make(rig, rot, root_pos, np.zeros(count, int), ("random",))


def _fk_values(rig: Skeleton, rot: np.ndarray, positions: np.ndarray, orientations: np.ndarray) -> np.ndarray:
    """(N) the FK loss of each pose, in the formulas of losses.py."""
    bones = np.array(rig.effectors)
    turned, heads = fk.forward_components(rig, rot, rig.offsets / rig.leg_length)
    away = heads[:, bones] - positions
    distance = np.sqrt(np.sum(away * away, axis=0))
    apart = fk.compose_components(turned[:, :, bones], orientations.swapaxes(0, 1))
    axis = np.stack([apart[2, 1] - apart[1, 2], apart[0, 2] - apart[2, 0], apart[1, 0] - apart[0, 1]])
    angle = np.arctan2(np.sqrt(np.sum(axis * axis, axis=0)), apart[0, 0] + apart[1, 1] + apart[2, 2] - 1)
    return (distance + Losses().orientation * angle).mean(axis=0)


def _gradient_rows(rig: Skeleton, rot: np.ndarray, targets: Targets, seconds: float) -> Iterator[Measurement]:
    exact: list[float] = []
    numeric: list[float] = []
    fk_gradient(rig, rot, targets)
    began = time.perf_counter()
    while len(numeric) < LEAST or time.perf_counter() - began < 2 * seconds:
        # alternating, so that other load on the processor disturbs both alike
        numeric.append(_time(lambda: numeric_gradient(rig, rot, targets), 1))
        exact += [_time(lambda: fk_gradient(rig, rot, targets), 2) for _ in range(10)]
    ratio = float(np.median(numeric) / np.median(exact))
    yield Measurement(
        "gradient_speedup",
        ratio,
        float(min(numeric) / min(exact)),
        "x",
        len(numeric),
        f"exact gradient {np.median(exact) * 1e3:.3f} ms, central differences {np.median(numeric) * 1e3:.1f} ms, "
        f"batch of {rot.shape[-1]}, forward included in both",
    )
    yield _row("fk_forward_backward_ms_per_128", exact, 1e3 * BATCH / rot.shape[-1], "ms", "FK loss and its gradient")


def _epoch_row(rig: Skeleton, samples: Samples, net: Network, seconds: float, epoch: int) -> Measurement:
    """Whole epochs of training: augmentation, features, losses, Adam and the validation at the end."""
    count = len(samples.rot)
    held = max(1, count // 10)
    parts = np.full(count, splits.TRAIN, np.int8)
    parts[-held:] = splits.VALIDATION
    config = Training(
        layout=net.layout.name, hidden=net.hidden, epochs=10_000, augment=max(1, round(epoch / (count - held)))
    )
    presented = config.augment * (count - held)
    times: list[float] = []
    clock, began = _clock(), time.perf_counter()
    before = clock()
    patient = task.PoseTask(rig, samples, parts, config)
    for _ in loop.train(patient, replace(task.loop_settings(config), patience=10_000)):
        now = clock()
        times.append(now - before)
        before = now
        if len(times) > 2 and time.perf_counter() - began > seconds:
            break
    sizes = " ".join(map(str, network.sizes(rig, net.layout, net.hidden)))
    how = f"layers {sizes}, pose-mix, all losses, validation"
    return _row("epoch_seconds_per_50k", times, EPOCH / presented, "s", how)


def _single_rows(solver: Solver, inputs: np.ndarray, seconds: float) -> Iterator[Measurement]:
    single = single_pose.SinglePoseSolver(solver.net)
    row = np.ascontiguousarray(inputs[0])
    plan, count = single.plans[False], solver.skeleton.count

    def network_fk() -> tuple[np.ndarray, np.ndarray]:
        rot = single.network(row)[: 3 * count].reshape(-1, 3)
        return single_kinematics.forward_one(plan, quick.matrix_from_axis_angle(rot))

    yield _row("network_us", _times(lambda: single.network(row), seconds), 1e6, "us", "one pose: inputs to outputs")
    yield _row(
        "network_fk_us", _times(network_fk, seconds), 1e6, "us", "one pose: inputs to the position of every bone"
    )


def _batched_rows(solver: Solver, poses: PoseSet, samples: Samples, seconds: float) -> Iterator[Measurement]:
    rig, net = solver.skeleton, solver.net
    rng = np.random.default_rng(2)
    rows = rng.integers(0, poses.frames, MANY)
    goals = targets_file.of_poses(poses, samples, rows)
    singles = [alone(goals, i) for i in range(min(MANY, 256))]

    at = [0]

    def solve() -> None:
        solver.solve(singles[at[0] % len(singles)], tolerance=0.0)  # all steps, even where two would do
        at[0] += 1

    yield _row(
        "solve_us",
        _times(solve, seconds),
        1e6,
        "us",
        "one pose: context, network and exactly 3 steps, with orientations",
    )
    _, _, targets = batches.true_batch(rig, samples, rows[: batches.CHUNK])
    inputs, offsets = features(net.layout, rig, targets), rig.offsets / rig.leg_length

    def network_fk() -> None:
        rot, _ = decode(net.layout, rig, network.forward(net, inputs), targets.root)
        fk.forward_components(rig, rot, offsets)

    found = 1 / np.array(_times(network_fk, seconds))
    yield _row("batched_poses_per_second", found, batches.CHUNK, "poses/s", f"network and FK, {batches.CHUNK} at once")
    for name, asked, what in (
        ("solve_batch_poses_per_second", replace(goals, rotations=None), "3 steps, positions only"),
        ("solve_batch_orientations_poses_per_second", goals, "3 steps, with orientations"),
    ):
        yield _row(
            name,
            _per_second(partial(solver.solve_batch, asked), seconds),
            MANY,
            "poses/s",
            f"solve_batch of {MANY}, {what}",
        )


def _per_second(call: Callable[[], Any], seconds: float) -> np.ndarray:
    return 1 / np.array(_times(call, seconds))


def _row(name: str, times: Any, scale: float, unit: str, sentence: str) -> Measurement:
    values = np.asarray(times) * scale
    best = values.max() if unit.endswith("/s") else values.min()
    return Measurement(name, float(np.median(values)), float(best), unit, len(values), sentence)


def _times(call: Callable[[], Any], seconds: float) -> list[float]:
    """Times [s] of one call each, after a few warm-up calls."""
    for _ in range(3):
        call()
    together = max(1, round(SHORT / max(_time(call, 3), 1e-7)))
    out: list[float] = []
    began = time.perf_counter()
    while len(out) < LEAST or time.perf_counter() - began < seconds:
        out.append(_time(call, together))
    return out


def _time(call: Callable[[], Any], together: int) -> float:
    clock = _clock()
    began = clock()
    for _ in range(together):
        call()
    return (clock() - began) / together


def _clock() -> Callable[[], float]:
    fine = time.get_clock_info("process_time").resolution < 1e-5  # not on Windows
    return time.process_time if fine and _threads() == 1 else time.perf_counter


def _threads() -> int:
    words = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    asked = next((os.environ[w] for w in words if os.environ.get(w, "").isdigit()), None)
    return int(asked) if asked else os.cpu_count() or 1


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.lower().startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _blas() -> str:
    try:
        told = np.show_config(mode="dicts")  # type: ignore[call-arg,func-returns-value,unused-ignore]
        blas = told["Build Dependencies"]["blas"]  # type: ignore[index,unused-ignore]
        return f"{blas['name']} {blas.get('version', '')}".strip()
    except (TypeError, KeyError):
        pass  # NumPy before 1.25 only prints
    config = getattr(np, "__config__", None)
    found = getattr(config, "blas_opt_info", None) or getattr(config, "blas_ilp64_opt_info", None) or {}
    return " ".join(found.get("libraries", ())) or "unknown"
