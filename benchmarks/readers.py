# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast, how frugal and how stubborn reading is: ``python -m benchmarks.readers [FOLDER of motion capture]``.

Speed and memory of one core over the folder's BVH files and a large one; memory of a run over 100 and 1,000 files; a run
that is killed and taken up again; what a low-pass does to foot strikes. Without a folder the large file alone is used.
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


def large_file(path: Path, megabytes: float) -> None:
    """A take of the odd files' figure, long enough for ``megabytes``, with numbers as exporters print them."""
    head = (ODD / "01_mixed_rotation_orders.bvh").read_text().split("MOTION")[0]
    rng = np.random.default_rng(0)
    count = int(megabytes * 1e6 / (48 * 9.5))
    values = np.cumsum(rng.normal(0, 0.4, (count, 48)), axis=0) % 170
    with open(path, "w", encoding="ascii") as out:
        out.write(f"{head}MOTION\nFrames: {count}\nFrame Time: 0.0083333\n")
        np.savetxt(out, values, fmt="%.5f")


def speed(files: list[Path]) -> None:
    """MB a second of CPU time, best of three."""
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
    """Peak memory over the size of a file."""
    from neural_network.formats import bvh

    tracemalloc.start()
    bvh.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"  {path.name}, {path.stat().st_size / 1e6:.1f} MB: peak memory {peak / path.stat().st_size:.1f} times the file"
    )


def import_peak(folder: Path, output: Path, count: int) -> float:
    """Peak resident memory [MB] of an import of ``count`` files, the npz written included."""
    code = (
        "import sys, resource\nfrom pathlib import Path\nfrom neural_network.formats import importing\n"
        f"files = importing.find_files([Path({str(folder)!r})])[:{count}]\n"
        f"for _ in importing.run(files, Path({str(output)!r})): pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **ONE_THREAD}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def thousand(work: Path) -> None:
    """Memory of a run over 100 and over 1,000 files of 0.1 MB."""
    folder = work / "many"
    folder.mkdir()
    large_file(folder / "0000.bvh", 0.1)
    data = (folder / "0000.bvh").read_bytes()
    for n in range(1, 1000):
        (folder / f"{n:04}.bvh").write_bytes(data)
    for count in (100, 1000):
        begin = time.perf_counter()
        peak = import_peak(folder, work / f"{count}.npz", count)
        print(f"  {count} files: {peak:.0f} MB at most, {time.perf_counter() - begin:.0f} s")


def killed(work: Path) -> None:
    """An import killed after a third, taken up again, compared with one that was left alone."""
    folder = work / "many"
    env = {**os.environ, **ONE_THREAD}
    command = [sys.executable, "-m", "neural_network", "import", str(folder), "--jobs", "2", "-o"]
    with subprocess.Popen([*command, str(work / "k.npz")], env=env, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(330):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    time.sleep(0.5)
    done = subprocess.run(
        [*command, str(work / "k.npz")], env=env, cwd=ROOT, capture_output=True, text=True, check=True
    )
    again = next(line for line in done.stdout.splitlines() if "earlier run" in line)
    same = (work / "k.npz").read_bytes() == (work / "1000.npz").read_bytes()
    print(f"  killed after 330 lines; second run: {again.strip()}; same bytes as a run left alone: {same}")


def strikes(files: list[Path]) -> None:
    """What a low-pass changes about foot contacts: their share, their moment, and the toes' sharpest stop."""
    from neural_network import context, forward_kinematics
    from neural_network.formats import cleaning, importing

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
    parser.add_argument("--quick", action="store_true", help="leave out the thousand files")
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
            print("killed and taken up again")
            killed(work)
        walks = [path for path in files if path.stem in ("02_01", "35_01", "35_17", "16_15", "49_02", "05_10")]
        if walks:
            print("low-pass")
            strikes(walks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
