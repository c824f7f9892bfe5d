# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmark of Live IK in Blender: one update, five characters, a bake, and a thousand starts.

``python -m tools.bench_live [WEIGHTS]``, from the root of the repository, with ``bpy`` installed. Times are measured inside the
update handler. The minimum is printed beside the median, because other processes on the machine increase the times.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("BLENDER_USER_RESOURCES", tempfile.mkdtemp(prefix="neural_ik_"))
from neural_network.core.messages import GET_NUMPY, require

if __name__ == "__main__":
    require("numpy", GET_NUMPY)
    require(
        "bpy",
        "this measures in Blender; in the project's folder, uv run --group test python -m tools.bench_live installs it",
    )
import bpy
import numpy as np

from neural_network import blender
from neural_network.blender.host import memory, runtime
from neural_network.blender.posing import live_ik
from neural_network.ik import network


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def begin(count: int, posing: str = "NATURAL") -> list[Any]:
    """Add ``count`` demo characters side by side and start Live IK on them; returns their collections."""
    for collection in live_ik.collections():
        live_ik.end(bpy.context, collection, keep=False)
    for ob in list(bpy.data.objects):
        bpy.data.objects.remove(ob)
    for number in range(count):
        bpy.ops.neural_ik.add_demo_character()
        bpy.context.active_object.location.x = 1.5 * number
        bpy.context.scene.frame_set(20)
        live_ik.start(bpy.context, bpy.context.active_object).neural_ik_live.posing = posing
    bpy.context.view_layer.update()
    return live_ik.collections()


def drag(collections: list[Any], updates: int = 200) -> tuple[np.ndarray, float]:
    """Move a hand of every character in each update; returns the time of all characters per update [s] and the largest miss [m]."""
    hands = [live_ik.target_objects(c)["EFFECTOR", "RightHand"] for c in collections]
    starts = [h.location.copy() for h in hands]
    missed = 0.0
    for i in range(1, updates + 1):
        for hand, place in zip(hands, starts, strict=True):
            hand.location = (place.x, place.y - 0.2 * i / updates, place.z + 0.15 * i / updates)
        bpy.context.view_layer.update()
        missed = max(
            missed, *(float(live.solution.error.max()) for live in live_ik.characters.values() if live.solution)
        )
    return np.sum([list(live.seconds)[-updates:] for live in live_ik.characters.values()], axis=0), missed


def main() -> None:
    """Run all benchmarks."""
    blender.register("neural_ik_bench")
    try:
        memory.start("neural_ik_bench")
        path = Path(sys.argv[-1]) if sys.argv[-1].endswith(".npy") else memory.SHIPPED_WEIGHTS
        memory.memory.network = network.load(path)
        say(f"Blender {bpy.app.version_string}, Python {sys.version.split()[0]}, NumPy {np.__version__}")
        for posing in ("LEARNED", "NATURAL"):
            for count in (1, 5):
                seconds, missed = drag(begin(count, posing))
                middle, least = np.median(seconds) * 1000, seconds.min() * 1000
                say(
                    f"{posing.lower()} posing, {count} character{'s' * (count > 1)}: solve and write {middle:.3f} ms per update "
                    f"(median of {len(seconds)}), minimum {least:.3f} ms; largest miss {missed * 1000:.4f} mm"
                )
            (collection,) = begin(1, posing)
            live_ik.target_objects(collection)["EFFECTOR", "RightHand"].location.z += 0.1
            bpy.context.view_layer.update()
            began, spent = time.perf_counter(), time.process_time()
            bpy.ops.neural_ik.live_bake(first=1, last=240)
            took, used = time.perf_counter() - began, time.process_time() - spent
            say(f"{posing.lower()} posing, bake of 240 frames: {took:.2f} s, {used:.2f} s of CPU time")
        (collection,) = begin(1)
        ob = live_ik.live_of(collection) and collection.neural_ik_live.armature
        live_ik.end(bpy.context, collection, keep=False)
        before = runtime.snapshot(ob)
        held = len(bpy.data.objects), len(bpy.data.collections)
        began = time.perf_counter()
        memory_before = resident()
        for turn in range(1000):
            made = live_ik.start(bpy.context, ob)
            if turn % 10 == 0:
                live_ik.target_objects(made)["EFFECTOR", "Head"].location.z -= 0.01
                bpy.context.view_layer.update()
            live_ik.end(bpy.context, made, keep=False)
            if turn == 99:
                memory_before = resident()
        now = runtime.snapshot(ob)
        off = max(float(np.abs(now[k] - before[k]).max()) for k in now)
        grown = (len(bpy.data.objects), len(bpy.data.collections)) != held
        say(
            f"1000 starts and cancels: {time.perf_counter() - began:.1f} s, channels differ by {off:.1e}, "
            f"data-blocks {'left over' if grown else 'all removed'}, memory over the last 900: {resident() - memory_before:+.1f} MB"
        )
    finally:
        blender.unregister()


def resident() -> float:
    """[MB] memory in use; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
    except OSError:
        return 0.0


main()
os._exit(0)
