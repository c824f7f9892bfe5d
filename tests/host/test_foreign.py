# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs receive the pose that Blender shows: Node and Godot as watching clients, python-osc as VMC."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPO

from neural_network.core.rotations import geodesic_angle, matrix_from_quaternion
from neural_network.live.axes import GODOT, UNITY, axes_matrix, convert_quaternions
from neural_network.live.vmc import HUMANOID

from .conftest import wing
from .test_teach import PATIENT, listen, parts, teach

__all__ = ["teach"]  # a fixture

SAME = 1e-4  # [rad]
TOLD = {"node": (["node"], "clients/node/check.mjs", UNITY, "wxyz", 100.0)}
TOLD["godot"] = (["godot3-server", "-s"], "clients/godot/check.gd", GODOT, "xyzw", 1.0)


@pytest.fixture
def dancer(teach: Any, demo: Any) -> Any:
    """The demo character, moved and turned, with keyed poses in which no bone is at rest."""
    import bpy

    rng = np.random.default_rng(5)
    demo.animation_data_clear()
    demo.location, demo.rotation_euler = (3, -2, 0.5), (0, 0, 0.7)
    for frame in (1, 4):
        for pb in demo.pose.bones:
            pb.rotation_mode = "QUATERNION"
            turn = np.append(1.0, 0.4 * rng.standard_normal(3))
            pb.rotation_quaternion = turn / np.linalg.norm(turn)
            pb.keyframe_insert("rotation_quaternion", frame=frame)
        hips = demo.pose.bones["Hips"]
        hips.location = 0.1 * rng.standard_normal(3)
        hips.keyframe_insert("location", frame=frame)
    bpy.context.scene.frame_set(1)
    bpy.context.view_layer.objects.active = demo
    return demo


def orientations(ob: Any) -> dict[str, np.ndarray]:
    """Every bone's orientation (3, 3) in the world, as Blender shows it."""
    turn = np.array(ob.matrix_world.to_3x3().normalized())
    return {pb.name: turn @ np.array(pb.matrix.to_3x3().normalized()) for pb in ob.pose.bones}


def in_t_pose(ob: Any) -> dict[str, np.ndarray]:
    """The same for the T-pose, which is shown for a moment."""
    import bpy

    rig, runtime = wing("blender.host.rig"), wing("blender.host.runtime")
    own = rig.read(ob)
    before = runtime.snapshot(ob)
    runtime.apply(ob, own, own.skeleton.t_pose, np.zeros(3))
    bpy.context.view_layer.update()
    out = orientations(ob)
    runtime.restore(ob, before)
    bpy.context.view_layer.update()
    return out


def said(
    process: subprocess.Popen[str], while_waiting: Callable[[], object], seconds: float = PATIENT
) -> Iterator[str]:
    """The lines that a program prints; ``while_waiting`` is called until each arrives."""
    lines: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
    reader.start()
    end, told = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        alive = reader.is_alive()
        while told < len(lines):
            told += 1
            yield lines[told - 1].strip()
        if not alive and told == len(lines):
            return
        while_waiting()
        time.sleep(0.001)
    raise TimeoutError(f"{process.args} said {lines}")


def run(words: list[str], folder: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,  # Godot writes its logs there
        env={**os.environ, "HOME": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **env},
    )


def off(
    chained: dict[str, np.ndarray], shown: dict[str, np.ndarray], rest: dict[str, np.ndarray], facing: np.ndarray
) -> float:
    """Largest angle [rad] between a bone of a received pose and Blender's.

    ``chained``: each bone's rotation since the T-pose in the character's own axes (docs/protocol.md); ``facing`` brings these
    axes into Blender's world.
    """
    return max(
        float(geodesic_angle(facing @ turn @ facing.T @ rest[name], shown[name])) for name, turn in chained.items()
    )


def chain(names: list[str], parents: list[int], turns: np.ndarray) -> dict[str, np.ndarray]:
    """Rotations (J, 3, 3) relative to the parents as rotations since the T-pose."""
    out = turns.copy()
    for j, parent in enumerate(parents):
        if parent >= 0:
            out[j] = out[parent] @ out[j]
    return dict(zip(names, out, strict=True))


@pytest.mark.parametrize("which", sorted(TOLD))
def test_a_watching_program_receives_every_pose_that_blender_shows(which: str, dancer: Any, tmp_path: Path) -> None:
    import bpy

    program, script, axes, order, units = TOLD[which]
    if shutil.which(program[0]) is None:
        pytest.skip(f"needs {program[0]}, which is not installed here")
    live = parts()
    rest = in_t_pose(dancer)
    port = listen()
    hello = {"rig": "viewer", "axes": list(axes), "quaternion": order, "watch": True, "units": 1 / units}
    (tmp_path / "hello.json").write_text(json.dumps(hello))
    (tmp_path / "row.json").write_text("[]")
    frames = [2, 3, 4]
    words = [str(REPO / script), str(port), "", str(tmp_path / "hello.json"), str(tmp_path / "row.json")]
    process = run([*program, *words, str(1 + len(frames))], tmp_path)
    moments = itertools.count(1e6, 1e-4)
    shown, heads = [orientations(dancer)], [np.array(dancer.pose.bones["Hips"].head)]
    got: dict[str, Any] = {}
    try:
        for line in said(process, lambda: live.ticks.tick(next(moments))):
            if line == "greeted":
                for frame in frames:  # a frame change is enough, without a tick
                    bpy.context.scene.frame_set(frame)
                    shown.append(orientations(dancer))
                    heads.append(np.array(dancer.pose.bones["Hips"].head))
            elif line.startswith("{"):
                got = json.loads(line)
                break
    finally:
        process.kill()
        process.wait()
    assert "error" not in got, got
    body, matrix = got["answer"]["body"], axes_matrix(axes)
    facing = wing("blender.host.rig").read(dancer).skeleton.axes.T
    assert len(got["poses"]) == 1 + len(frames)
    for row, now, head in zip(got["poses"], shown, heads, strict=True):
        turns = np.array(row[3:]).reshape(-1, 4)
        turns = turns[:, [3, 0, 1, 2]] if order == "xyzw" else turns
        ours = matrix_from_quaternion(convert_quaternions(matrix, turns))
        assert off(chain(body["bones"], body["parents"], ours), now, rest, facing) < SAME
        place = facing @ matrix @ (np.array(row[:3]) / units)
        assert np.allclose(place, np.array(dancer.matrix_world.to_3x3()) @ head, atol=1e-5)
    angles = [geodesic_angle(shown[0][name], shown[-1][name]) for name in shown[0]]
    assert min(angles) > 0.01  # every bone moved


def test_python_osc_receives_the_pose_that_blender_sends(dancer: Any, tmp_path: Path) -> None:
    import bpy

    if importlib.util.find_spec("pythonosc") is None:
        pytest.skip("needs python-osc, which cannot be imported here")
    live = parts()
    names = [name for name in HUMANOID if name in dancer.pose.bones]
    dancer.pose.bones["NeckUpper"].keyframe_delete("rotation_quaternion", frame=1)
    rest, shown = in_t_pose(dancer), orientations(dancer)
    process = run([sys.executable, str(REPO / "clients/python/check_vmc.py"), "0", str(len(names))], tmp_path)
    moments = itertools.count(1e6, 0.1)
    sent: dict[str, list[float]] = {}
    try:
        for line in said(process, lambda: live.ticks.tick(next(moments))):
            if line.isdigit():
                asked = bpy.context.window_manager.neural_ik_teach
                asked.vmc_port = int(line)
                assert bpy.ops.neural_ik.send_pose() == {"FINISHED"}
            elif line.startswith("{"):
                sent = json.loads(line)
                break
    finally:
        process.kill()
        process.wait()
    assert bpy.ops.neural_ik.send_pose_stop() == {"FINISHED"}
    assert not live.session.active()
    matrix = axes_matrix(UNITY)
    skeleton = wing("blender.host.rig").read(dancer).skeleton
    chained: dict[str, np.ndarray] = {}
    for j, name in enumerate(skeleton.names):
        if name in names:
            x, y, z, w = sent[HUMANOID[name]][3:]
            above = int(skeleton.parents[j])
            while above >= 0 and skeleton.names[above] not in names:
                above = int(skeleton.parents[above])
            turn = matrix_from_quaternion(convert_quaternions(matrix, np.array([w, x, y, z])))
            chained[name] = turn if above < 0 else chained[skeleton.names[above]] @ turn
    assert len(chained) == len(names) > 15
    assert off(chained, shown, rest, skeleton.axes.T) < SAME


def test_addresses_that_cannot_be_sent_to_are_reported(dancer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import bpy

    from .test_words import says

    live, asked = parts(), bpy.context.window_manager.neural_ik_teach
    monkeypatch.setattr(live.session, "online", lambda: False)
    try:
        asked.vmc_host = "192.0.2.7"
        says("not allowed to go online", bpy.ops.neural_ik.send_pose)
        monkeypatch.setattr(live.session, "online", lambda: True)
        asked.vmc_host = "no such host"
        says("not an address", bpy.ops.neural_ik.send_pose)
        asked.vmc_host = "192.0.2.7"
        assert bpy.ops.neural_ik.send_pose() == {"FINISHED"}
        monkeypatch.setattr(live.session, "online", lambda: False)  # withdrawn while sending
        live.ticks.tick(1e6)
        assert live.session.state.send is None
        assert "not allowed to go online" in live.session.state.problem
    finally:
        asked.vmc_host = "127.0.0.1"
