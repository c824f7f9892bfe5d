# SPDX-License-Identifier: GPL-3.0-or-later
"""From a Gait slider to what is drawn of five characters, in Blender as a module: ``python -m benchmarks.gait``.

One slider of every character moves, as when an animator drags it with all of them chosen, and the lines of all ghosts are made
anew, as they are while a slider moves: what a redraw of the view costs Blender afterwards is not in it. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

from neural_network.learning.arguments import number

CHARACTERS = 5
BAR = 16.0  # [ms]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print; 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=number(int, 2, 10_000), default=60, help="moves of the slider (%(default)s)")
    args = parser.parse_args(argv)
    import bpy

    from neural_network import blender

    blender.register("neural_ik_bench")
    try:
        from neural_network.blender.gait import preview

        people: list[Any] = []
        for i in range(CHARACTERS):
            bpy.ops.neural_ik.add_demo_character(motion=False)
            people.append(bpy.context.object)
            people[-1].location.x = float(i)
            people[-1].neural_ik_gait.preview = True
        bpy.context.view_layer.update()
        spent, used = zip(*(_move(preview, people, 0.6 + 1.2 * i / args.moves) for i in range(args.moves)), strict=True)
    finally:
        blender.unregister()
    median = statistics.median(spent)
    found = {
        "median": median,
        "p95": statistics.quantiles(spent, n=20)[-1],
        "worst": max(spent),
        "median CPU": statistics.median(used),
    }
    print(json.dumps({"characters": CHARACTERS, "ms": found, "bar_ms": BAR, "moves": args.moves}))
    return int(median > BAR)


def _move(preview: Any, people: Sequence[Any], speed: float) -> tuple[float, float]:
    """[ms] and [CPU ms] in which the sliders of all say another speed and their lines are there."""
    began, cpu = time.perf_counter(), time.process_time()
    for ob in people:
        ob.neural_ik_gait.speed = speed
    for ob in people:
        preview.lines(ob, 10.0, 30.0)
    return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - cpu)


if __name__ == "__main__":
    raise SystemExit(main())
