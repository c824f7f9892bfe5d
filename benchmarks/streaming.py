# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows from 2,548 files with few in memory: memory, speed, and whether a network learns as well as with all in memory.

``python -m benchmarks.streaming [MOTION.npz ...]`` writes that many files of rows, made from the takes given (poses on one rig,
as ``python -m neural_network import`` writes them; default: the shipped ones) into a temporary folder, each take anew with other
speeds, leans and headings, and serves windows from them. Every measurement is a process of its own. Prints one JSON document;
exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from neural_network.core import rotations
from neural_network.learning import layers
from neural_network.learning.arguments import number, positive
from neural_network.learning.optimizer import Adam, AdamSettings, cosine
from neural_network.motion import pose_set
from neural_network.motion.pose_set import PoseSet
from neural_network.prediction import streaming
from neural_network.prediction.streaming import Source, Streaming

SETTINGS = {"ours": (Streaming().files, Streaming().refresh), "10 files, 10,000 windows": (10, 10_000)}
"""Files in memory, and after how many windows they have given way; the first are judged."""
SHIPPED = Path(__file__).resolve().parents[1] / "training_data" / "training_data.npz"
BARS = {"MB": 400.0, "windows_per_second": 20_000.0, "loss_ratio": 1.02}
HELD = 11  # one file in so many is held out of the training


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "motion", nargs="*", type=Path, default=[SHIPPED], metavar="MOTION.npz", help="poses on one rig"
    )
    parser.add_argument("--files", type=positive(int), default=2548, help="files to make (%(default)s)")
    parser.add_argument("--window", type=positive(int), default=64, help="frames in a window (%(default)s)")
    parser.add_argument(
        "--seconds", type=number(float, 0.1, 600), default=5.0, help="of every measurement (%(default)s)"
    )
    parser.add_argument("--steps", type=positive(int), default=4000, help="steps of the training (%(default)s)")
    parser.add_argument("--workers", type=number(int, 0, 64), default=2, help="also measured with these processes")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--settings", choices=SETTINGS, help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=("index", "speed", "learn"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.part:
        print(json.dumps({"index": indexed, "speed": speed, "learn": learn}[args.part](args)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        rows = make_files(args.motion, Path(folder), args.files)
        found: dict[str, Any] = {"files": args.files, "rows": rows, "seconds_to_write": time.perf_counter() - began}
        flags = ["--in", folder, "--window", args.window, "--seconds", args.seconds, "--steps", args.steps]
        found["index"] = in_process("index", *flags)
        for name in SETTINGS:
            found[name] = in_process("speed", *flags, "--settings", name, "--workers", 0)
        if args.workers:
            found[f"ours, {args.workers} workers"] = in_process("speed", *flags, "--workers", args.workers)
        whole = in_process("learn", *flags)["loss"]
        found["loss with all in memory"] = whole
        for name in SETTINGS:
            loss = in_process("learn", *flags, "--settings", name)["loss"]
            found[name] |= {"loss": loss, "loss_ratio": loss / whole}
    ours = found["ours"]
    reached = {
        "MB": ours["MB"] <= BARS["MB"],
        "windows_per_second": ours["windows_per_second"] >= BARS["windows_per_second"],
        "loss_ratio": 1 / BARS["loss_ratio"] <= ours["loss_ratio"] <= BARS["loss_ratio"],
    }
    print(json.dumps({**found, "bars": BARS, "reached": reached}, indent=1))
    return int(not all(reached.values()))


def in_process(part: str, *flags: object) -> dict[str, Any]:
    """What a measurement prints in a process of its own, whose memory holds nothing else."""
    command = [sys.executable, "-m", "benchmarks.streaming", "--part", part, *map(str, flags)]
    done: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return done


# ---- the files


def rows_of(poses: PoseSet, clip: int, rng: np.random.Generator) -> np.ndarray:
    """One take as rows (F, 6 J + 4): turns of the bones by two columns each, and how the Hips move and stand.

    A take is played 0.8 to 1.25 times as fast, faces anywhere, and leans 0.1 rad at most, so that no two files are equal.
    """
    rig, mine = poses.skeleton, poses.clip == clip
    frames = int(mine.sum())
    at = np.arange(0, frames - 1, rng.uniform(0.8, 1.25))
    low = at.astype(int)
    part = (at - low)[:, None, None]
    core = rig.to_core(poses.rot[mine])
    turns = rotations.slerp(core[low], core[low + 1], part)
    lean = rotations.matrix_from_axis_angle(np.append(0.1 * rng.uniform(-1, 1, 2), rng.uniform(-np.pi, np.pi)))
    matrices = rotations.matrix_from_axis_angle(turns)
    matrices[:, 0] = lean @ matrices[:, 0]
    place = poses.root_pos[mine] @ rig.axes.T
    place = (1 - part[:, 0]) * place[low] + part[:, 0] * place[low + 1]
    moved = np.diff(place, axis=0, append=place[-1:]) @ lean.T
    return np.column_stack([rotations.sixd_from_matrix(matrices).reshape(len(at), -1), 30 * moved, place[:, 2]])


def make_files(motion: Sequence[Path], folder: Path, count: int) -> int:
    """Write ``count`` files; returns how many rows they have."""
    sets = [pose_set.load(path) for path in motion]
    takes = [(poses, clip) for poses in sets for clip in range(len(poses.clip_names)) if (poses.clip == clip).sum() > 1]
    rng = np.random.default_rng(0)
    total = 0
    for i in range(count):
        poses, clip = takes[i % len(takes)]
        rows = rows_of(poses, clip, rng)
        streaming.write(folder / f"{i:05d}.npz", rows, streaming.kind_of(poses.clip_names[clip]))
        total += len(rows)
    return total


# ---- measurements


def memory() -> float:
    """[MB] of this process and those it started."""
    import psutil

    own = psutil.Process()
    return sum(process.memory_info().rss for process in (own, *own.children(recursive=True))) / 1e6


def sources_in(folder: Path) -> tuple[Source, ...]:
    """All files there, in order."""
    return tuple(streaming.source(path) for path in sorted(folder.glob("*.npz")))


def indexed(args: argparse.Namespace) -> dict[str, float]:
    """How long it takes to know all files."""
    began = time.perf_counter()
    sources = sources_in(args.folder)
    kinds = {s.kind for s in sources}
    return {"seconds": time.perf_counter() - began, "files": len(sources), "kinds": len(kinds), "MB": memory()}


def speed(args: argparse.Namespace) -> dict[str, float]:
    """Windows a second, with what reading costs, and the most memory seen."""
    sources = sources_in(args.folder)
    files, refresh = SETTINGS[args.settings or "ours"]
    settings = Streaming(args.window, files=files, refresh=refresh)
    made = streaming.windows_of_workers(sources, settings, args.workers)
    next(made)
    began, served, most = time.perf_counter(), 0, 0.0
    while time.perf_counter() - began < args.seconds:
        for batch in islice(made, 50):
            served += len(batch)
        most = max(most, memory())
    return {"windows_per_second": served / (time.perf_counter() - began), "MB": most, "width": sources[0].width}


def learn(args: argparse.Namespace) -> dict[str, float]:
    """What a small network comes to that learned from windows streamed as ``args`` say, or from all in memory."""
    sources = sources_in(args.folder)
    settings = Streaming(window=3)
    everything = 10**12  # windows: no file gives way
    trained = streaming.usable([s for i, s in enumerate(sources) if i % HELD], settings)
    held = streaming.usable([s for i, s in enumerate(sources) if i % HELD == 0], settings)
    judging = streaming.windows(held, replace(settings, files=len(held), refresh=everything, seed=9))
    judged = np.concatenate(list(islice(judging, 150)))
    files, refresh = SETTINGS[args.settings] if args.settings else (len(trained), everything)
    batches = streaming.windows(trained, replace(settings, files=files, refresh=refresh))
    return {"loss": trained_loss(batches, judged, args.steps)}


def trained_loss(batches: Iterator[np.ndarray], judged: np.ndarray, steps: int) -> float:
    """Error of a small network after ``steps`` batches, on windows ``judged`` (N, 3, D); 1: that of expecting no change.

    From a frame and the change before it, it predicts the change after it, each number in units of its own spread.
    """
    change = np.diff(judged, axis=1)
    spread = judged[:, 1].std(axis=0) + 1e-3
    size = np.sqrt((change**2).mean(axis=(0, 1))) + 1e-4
    middle = judged[:, 1].mean(axis=0)

    def inputs(windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        change = np.diff(windows, axis=1) / size
        now = (windows[:, 1] - middle) / spread
        return np.concatenate([now, change[:, 0]], axis=1), change[:, 1]

    width = judged.shape[-1]
    widths = (2 * width, 128, width)
    parameters = np.zeros(layers.parameter_count(widths), np.float32)
    network = layers.stack(parameters, widths)
    layers.glorot(network, np.random.default_rng(1), last=0.1)
    gradient = np.zeros_like(parameters)
    into = layers.stack(gradient, widths)
    adam = Adam(parameters, AdamSettings(average=0.995))
    for step, batch in enumerate(islice(batches, steps)):
        x, wanted = inputs(batch)
        activations = layers.forward(network, x)
        layers.backward(network, activations, 2 * (activations[-1] - wanted) / wanted.size, into)
        adam.update(parameters, gradient, 0.002 * cosine(step / steps, 0.01))
    x, wanted = inputs(judged)
    found = layers.forward(layers.stack(adam.average, widths), x)[-1]
    return float(np.mean((found - wanted) ** 2) / np.mean(wanted**2))


if __name__ == "__main__":
    sys.exit(main())
