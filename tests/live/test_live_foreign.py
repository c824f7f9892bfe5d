# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients in other languages: Node and Godot receive poses and predictions in their own axes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import REPO
from test_live_channels import legs_rows

from neural_network.core.rotations import geodesic_angle, matrix_from_quaternion, quaternion_from_axis_angle
from neural_network.live.axes import GODOT, UNITY, axes_matrix, convert_quaternions, convert_vectors
from neural_network.live.body import ServedBody
from neural_network.live.channels import decode, encode_inputs
from neural_network.live.layouts import legs_layout
from neural_network.live.server import Server

TOKEN = "a token of many letters"
CLIENTS = {
    "node": (["node"], "clients/node/check.mjs", UNITY, "wxyz"),
    "godot": (["godot3-server", "-s"], "clients/godot/check.gd", GODOT, "xyzw"),
}


def served(which: str, folder: Path, server: Server, row: np.ndarray, token: str, publish: tuple) -> dict:
    """Run the client's check while polling the server; returns its line of JSON."""
    program, script, axes, order = CLIENTS[which]
    if shutil.which(program[0]) is None:
        pytest.skip(f"needs {program[0]}, which is not installed here")
    hello = {"rig": "hero", "axes": list(axes), "quaternion": order, "layout": "legs", "watch": True, "units": 0.01}
    (folder / "hello.json").write_text(json.dumps(hello))
    (folder / "row.json").write_text(json.dumps(row.tolist()))
    words = [str(server.port), token, str(folder / "hello.json"), str(folder / "row.json"), "1"]
    process = subprocess.Popen(
        [*program, str(REPO / script), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,  # Godot leaves its logs there
        env={**os.environ, "HOME": str(folder)},
    )
    end = time.monotonic() + 180
    while process.poll() is None and time.monotonic() < end:
        server.poll(
            0.0
        )  # for the server no time goes by: how long a busy machine takes to start a program is not its matter
        server.publish(*publish)
        server.wait(0.01)
    process.kill()
    text, _ = process.communicate()
    lines = [line for line in text.splitlines() if line.startswith("{")]
    assert lines, text
    return json.loads(lines[-1])


@pytest.mark.slow
@pytest.mark.parametrize("which", sorted(CLIENTS))
def test_a_foreign_client_receives_the_pose_and_the_prediction(which: str, tmp_path: Path, rng) -> None:
    turns = quaternion_from_axis_angle(rng.standard_normal((3, 3)))
    offsets, root = rng.standard_normal((3, 3)), rng.standard_normal(3)
    server = Server(port=0, token=TOKEN, body=ServedBody(("Hips", "Spine", "Head"), (-1, 0, 1), offsets))
    _, _, axes, order = CLIENTS[which]
    inputs, _ = legs_rows(rng, 1)
    row = inputs[0].copy()
    bones = row[7:49].reshape(6, 7)
    row[:3] *= 100
    bones[:, :3] *= 100
    row[49:52] *= 100
    row[56:59] *= 100
    if order == "xyzw":
        row[3:7] = row[[4, 5, 6, 3]]
        bones[:, 3:] = bones[:, [4, 5, 6, 3]]
    old = bones[:, 3:].copy()
    try:
        got = served(which, tmp_path, server, row, TOKEN, (root, turns, 1.0))
    finally:
        server.close()
    assert "error" not in got, got
    assert got["answer"]["input_size"] == 63
    assert got["answer"]["body"]["bones"] == ["Hips", "Spine", "Head"]
    matrix = axes_matrix(axes).T
    pose = np.array(got["poses"][0])
    assert np.abs(pose[:3] - 100 * convert_vectors(matrix, root)).max() < 1e-3
    quaternions = pose[3:].reshape(3, 4)
    if order == "xyzw":
        quaternions = quaternions[:, [3, 0, 1, 2]]
    shown = matrix_from_quaternion(convert_quaternions(matrix, turns))
    assert geodesic_angle(matrix_from_quaternion(quaternions), shown).max() < 1e-4
    # a trainee that has seen nothing puts the previous pose on the targets
    assert got["sequence"] == got["asked"]
    hello = legs_layout(unit=0.01, xyzw=order == "xyzw", up=tuple(matrix @ [0, 0, 1]))
    _, scene = encode_inputs(hello, row)
    expected = decode(hello, np.zeros(24), scene)
    assert np.abs(np.array(got["predict"]) - expected).max() < 1e-4
    assert np.abs(expected - old.ravel()).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("which", sorted(CLIENTS))
def test_a_foreign_client_with_a_wrong_token_receives_an_error(which: str, tmp_path: Path, rng) -> None:
    server = Server(port=0, token=TOKEN, body=ServedBody(("Hips",), (-1,), np.zeros((1, 3))))
    try:
        got = served(which, tmp_path, server, np.zeros(63), "wrong", (np.zeros(3), np.eye(4)[:1], 0.0))
    finally:
        server.close()
    assert "token" in got["error"]
