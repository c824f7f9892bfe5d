# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed, memory and robustness of the readers: ``python -m benchmarks.readers [FOLDER of motion capture]``.

Speed and memory on one core for the BVH files in the folder and a large one; memory of an import of 1,000 files (Linux);
the same import killed and resumed many times; the effect of a low-pass on foot strikes. Without a folder only the large
file is used.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
ODD = ROOT / "tests" / "odd"
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


COMMAND = [sys.executable, "-m", "neural_network", "import"]


def large_file(path: Path, megabytes: float) -> None:
    """Write a take of the figure in the odd files that is ``megabytes`` large, with numbers as exporters print them."""
    head = (ODD / "01_mixed_rotation_orders.bvh").read_text().split("MOTION")[0]
    rng = np.random.default_rng(0)
    count = int(megabytes * 1e6 / (48 * 9.5))
    values = np.cumsum(rng.normal(0, 0.4, (count, 48)), axis=0) % 170
    with open(path, "w", encoding="ascii") as out:
        out.write(f"{head}MOTION\nFrames: {count}\nFrame Time: 0.0083333\n")
        np.savetxt(out, values, fmt="%.5f")


def speed(files: list[Path]) -> None:
    """Print the speed [MB per second of CPU time], best of three."""
    from neural_network.formats import bvh

    size = sum(path.stat().st_size for path in files)
    best = np.inf
    for _ in range(3):
        begin = time.process_time()
        for path in files:
            bvh.read(path)
        best = min(best, time.process_time() - begin)
    print(f"  {len(files)} files, {size / 1e6:.1f} MB: {size / 1e6 / best:.1f} MB/s on one core")


def memory(path: Path) -> None:
    """Print the peak memory relative to the size of a file."""
    from neural_network.formats import bvh

    tracemalloc.start()
    bvh.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"  {path.name}, {path.stat().st_size / 1e6:.1f} MB: peak memory {peak / path.stat().st_size:.1f} times the file"
    )


def small_files(folder: Path, count: int) -> None:
    """Write ``count`` different walks of two seconds."""
    from dataclasses import replace

    from neural_network.formats import bvh

    figure, rng = bvh.read(ODD / "01_mixed_rotation_orders.bvh"), np.random.default_rng(0)
    seconds = np.arange(60) / 30
    for n in range(count):
        joints = len(figure.names)
        half = 0.2 * np.sin(seconds[:, None] * rng.uniform(2, 6, joints) + rng.uniform(0, 6, joints))
        turns = np.stack([np.cos(half), np.sin(half), 0 * half, 0 * half], axis=-1)
        root = np.stack([0 * seconds, 89 + 3 * np.sin(4 * seconds), 100 * seconds], axis=-1)
        bvh.write(folder / f"{n:04}.bvh", replace(figure, rotations=turns, root_pos=root))


def peak(process: int) -> float:
    """Peak memory [MB] of a process so far."""
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def readers_of(process: int) -> list[int]:
    """The child processes of a process."""
    with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def thousand(work: Path) -> None:
    """Print the peak memory of an import of 1,000 files after 100, 500 and 1,000 of them, with one reader and with two."""
    folder = work / "many"
    folder.mkdir()
    small_files(folder, 1000)
    for jobs in (1, 2):
        begin, seen = time.perf_counter(), []
        with subprocess.Popen(
            [*COMMAND, str(folder), "--jobs", str(jobs), "-o", str(work / f"{jobs}.npz")],
            env={**os.environ, **ONE_THREAD},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip().startswith(("100/", "500/", "990/")):
                    most = max((peak(child) for child in readers_of(process.pid)), default=0.0)
                    seen.append(f"{line.split('/')[0].strip()} files {peak(process.pid):.1f} + {most:.1f} MB")
                elif line.startswith("read "):
                    seen.append(f"all written {peak(process.pid):.1f} MB")
        print(f"  --jobs {jobs}, itself + the largest reader: {', '.join(seen)}; {time.perf_counter() - begin:.0f} s")
    print(f"  the same bytes with one reader and two: {(work / '1.npz').read_bytes() == (work / '2.npz').read_bytes()}")


def killed(work: Path, kills: int = 20) -> None:
    """Kill an import of 1,000 files many times, every other time with its readers; compare with an uninterrupted one."""
    rng, output = np.random.default_rng(0), work / "killed" / "k.npz"
    command = [*COMMAND, str(work / "many"), "--jobs", "2", "-o", str(output)]
    env = {**os.environ, **ONE_THREAD, "PYTHONUNBUFFERED": "1"}
    moments = [*np.sort(rng.integers(1, 1000, kills - 2)).tolist(), 1001, 1001]
    with open(os.devnull, "w") as nowhere:
        for turn, lines in enumerate(moments):
            with subprocess.Popen(
                command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=nowhere, start_new_session=True
            ) as process:
                assert process.stdout is not None
                for _ in range(lines):
                    process.stdout.readline()
                time.sleep(float(rng.uniform(0, 0.3)))
                os.killpg(process.pid, signal.SIGKILL) if turn % 2 else process.kill()
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    again = next(
        (line.strip() for line in done.stdout.splitlines() if "earlier run" in line), "everything was read again"
    )
    same = output.read_bytes() == (work / "1.npz").read_bytes()
    left = sorted(path.name for path in output.parent.iterdir())
    print(
        f"  killed {kills} times; last run: {again}; same bytes as an uninterrupted run: {same}; files beside it: {left}"
    )


def strikes(files: list[Path]) -> None:
    """Print what a low-pass changes about foot contacts: their share, their time, and the sharpest stops of the toes."""
    from neural_network.core import forward_kinematics
    from neural_network.formats import importing
    from neural_network.ik import context
    from neural_network.motion import cleaning

    table: dict[float, list[tuple[float, float, float, float]]] = {}
    for path in files:
        (part, *_), _ = cleaning.clean(importing.read_clip(path))
        plain = importing.clip_to_poses(part)
        toes = list(plain.skeleton.toes)
        for cutoff in (6.0, 8.0, 10.0):
            poses = importing.clip_to_poses(cleaning.low_pass(part, cutoff))
            both = [(p, context.prepare(p).grounded) for p in (plain, poses)]
            stops = []
            for p, _ in both:
                heads = forward_kinematics.armature_matrices(p.skeleton, p.rot, p.root_pos)[:, :, :3, 3][:, toes]
                acceleration = np.diff(heads, 2, axis=0) * part.fps**2
                stops.append(float(np.percentile(np.linalg.norm(acceleration, axis=-1), 99)))
            first, second = (grounded for _, grounded in both)
            apart = []
            for foot in range(first.shape[1]):
                before, after = (np.flatnonzero(np.diff(g[:, foot]) > 0) for g in (first, second))
                if len(after):
                    apart += [(after[np.argmin(np.abs(after - f))] - f) / part.fps * 1000 for f in before]
            near = [shift for shift in apart if abs(shift) < 200]
            moment = float(np.median(np.abs(near))) if near else 0.0
            entry = (
                float(np.mean(first != second)),
                moment,
                float(np.mean(near)) if near else 0.0,
                1 - stops[1] / stops[0],
            )
            table.setdefault(cutoff, []).append(entry)
    for cutoff, rows in table.items():
        changed, moment, bias, softer = np.mean(rows, axis=0)
        print(
            f"  {cutoff:g} Hz: {changed * 100:.1f} % of contacts differ, foot strikes move by {moment:.0f} ms (median; "
            f"{bias:+.0f} ms on average), the toes' sharpest stops are {softer * 100:.0f} % softer"
        )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=os.environ.get("NIK_MOCAP"), help="motion capture")
    parser.add_argument("--quick", action="store_true", help="skip the import of 1,000 files")
    args = parser.parse_args()
    print(json.dumps({"python": sys.version.split()[0], "numpy": np.__version__, "cpus": os.cpu_count()}))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        large_file(work / "large.bvh", 30)
        print("speed (CPU time)")
        files = sorted(Path(args.folder).rglob("*.bvh")) if args.folder else []
        if files:
            speed(files)
        speed([work / "large.bvh"])
        print("memory")
        for path in [*sorted(files, key=lambda path: -path.stat().st_size)[:2], work / "large.bvh"]:
            memory(path)
        if not args.quick:
            print("a thousand files")
            thousand(work)
            print("killed and resumed")
            killed(work)
        walks = [path for path in files if path.stem in ("02_01", "35_01", "35_17", "16_15", "49_02", "05_10")]
        if walks:
            print("low-pass")
            strikes(walks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
