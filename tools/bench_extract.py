# SPDX-License-Identifier: GPL-3.0-or-later
"""How long extracting takes, and how closely NumPy agrees with Blender: the demo rig, 1,000 frames, best of five.

``python -m tools.bench_extract``, from the root of the repository, where ``bpy`` can be imported.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from neural_network.core.messages import GET_NUMPY, require

if __name__ == "__main__":
    require("numpy", GET_NUMPY)
    require(
        "bpy",
        "this measures in Blender; in the project's folder, uv run --group test python -m tools.bench_extract installs it",
    )
import bpy
import numpy as np

from neural_network.blender.data import demo, extract
from neural_network.blender.host import actions
from neural_network.core import forward_kinematics
from neural_network.motion import pose_set

FRAMES, TIMES = 1000, 5


def extract_all(ob: Any, path: str) -> pose_set.PoseSet:
    """All actions, as the button extracts them without a window."""
    work = extract.extract(bpy.context.scene, ob, extract.moving_actions(ob), extract.Options(path=path))
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value.poses


def best(ob: Any, path: str) -> float:
    """[ms] the shortest of several times."""
    times = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        extract_all(ob, path)
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)


def farthest(ob: Any, poses: pose_set.PoseSet) -> float:
    """[m] largest distance between a bone's head in Blender and by NumPy, over every frame of every action."""
    buffer, worst = np.empty(len(ob.pose.bones) * 16, np.float32), 0.0
    for clip, name in enumerate(poses.clip_names):
        action = bpy.data.actions[name]
        actions.assign(ob.animation_data, action, actions.slots_for(action, ob)[0])
        rows = poses.rows(clip)
        own = forward_kinematics.armature_matrices(poses.skeleton, poses.rot[rows], poses.root_pos[rows])
        for i in range(rows.stop - rows.start):
            bpy.context.scene.frame_set(1 + i)
            ob.pose.bones.foreach_get("matrix", buffer)
            worst = max(worst, float(np.abs(buffer.reshape(-1, 4, 4)[:, 3, :3] - own[i, :, :3, 3]).max()))
    return worst


def main() -> None:
    """Measure and print."""
    shipped = pose_set.load(Path(__file__).resolve().parents[1] / "training_data" / "training_data.npz")
    bpy.ops.wm.read_factory_settings(use_empty=True)
    ob = demo.add(bpy.context, shipped)
    poses = extract_all(ob, "fast")
    figures = [f"NumPy against Blender over {poses.frames} frames: {farthest(ob, poses):.1e} m"]
    bpy.ops.wm.read_factory_settings(use_empty=True)
    one = np.zeros(FRAMES, int)
    ob = demo.add(
        bpy.context, pose_set.make(shipped.skeleton, shipped.rot[:FRAMES], shipped.root_pos[:FRAMES], one, ["long"])
    )
    figures.append(f"fast path: {best(ob, 'fast'):.0f} ms")
    figures.append(f"evaluated, with the skinned body: {best(ob, 'evaluated'):.0f} ms")
    bpy.data.objects.remove(bpy.data.objects[f"{demo.NAME} Body"])
    figures.append(f"evaluated, no mesh: {best(ob, 'evaluated'):.0f} ms")
    sys.stdout.write(f"Blender {bpy.app.version_string}, {FRAMES} frames: " + "; ".join(figures) + "\n")


main()
