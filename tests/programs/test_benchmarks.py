# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison with other solvers: they all see our skeleton, and the page says what was found. Peers that are missing skip."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import FLOAT32, GRADIENT, HOST, REPO, ROUND_TRIP, make_poses, make_rig, random_turns, run_cli

from benchmarks import peer_solvers, peers, peers_plots
from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.ik import context
from neural_network.motion import pose_set


def some_pose(seed: int = 4) -> np.ndarray:
    rig = make_rig("reference")
    pose = random_turns(np.random.default_rng(seed), rig.count, below=1.2)
    pose[0] = 0
    return pose


def test_hinge_angles_are_the_same_pose() -> None:
    rig, pose = make_rig("reference"), some_pose()
    angles = peer_solvers.hinge_angles(rig, pose)
    back = peer_solvers.hinge_rotations(rig, angles)
    apart = rotations.geodesic_angle(rotations.matrix_from_axis_angle(pose), rotations.matrix_from_axis_angle(back))
    assert np.abs(apart).max() < 1e-7


def test_the_derivative_of_the_logarithm_is_exact(rng: np.random.Generator) -> None:
    logs = random_turns(rng, 6, below=2.5)
    found = peer_solvers.left_jacobian_inverse(logs)
    turns, step = rotations.matrix_from_axis_angle(logs), 1e-4
    for k in range(3):
        nudge = np.zeros(3)
        nudge[k] = step
        up, down = (
            rotations.axis_angle_from_matrix(rotations.matrix_from_axis_angle(sign * nudge) @ turns) for sign in (1, -1)
        )
        assert np.abs((up - down) / (2 * step) - found[:, :, k]).max() < 10 * GRADIENT


@pytest.mark.parametrize("hinges", [False, True], ids=["balls", "hinges"])
def test_mujoco_has_our_skeleton(hinges: bool) -> None:
    mujoco = pytest.importorskip("mujoco", reason="needs mujoco (benchmarks/requirements.txt)")
    rig, pose = make_rig("reference"), some_pose()
    model = mujoco.MjModel.from_xml_string(peer_solvers.mjcf(rig, hinges))
    data = mujoco.MjData(model)
    data.qpos[:] = (
        peer_solvers.hinge_angles(rig, pose).ravel()
        if hinges
        else rotations.quaternion_from_axis_angle(pose[1:]).ravel()
    )
    mujoco.mj_kinematics(model, data)
    turned, heads = fk.forward(rig, pose)
    for j, name in enumerate(rig.names):
        assert np.abs(data.body(name).xpos - heads[j]).max() < 1e-7
        assert np.abs(data.body(name).xmat.reshape(3, 3) - turned[j]).max() < 1e-7


@pytest.mark.parametrize("hinges", [False, True], ids=["balls", "hinges"])
def test_pinocchio_has_our_skeleton(hinges: bool) -> None:
    pin = pytest.importorskip("pinocchio", reason="needs pin (benchmarks/requirements.txt)")
    rig, pose = make_rig("reference"), some_pose()
    model = peer_solvers.pinocchio_model(rig, hinges)
    data = model.createData()
    quaternions = rotations.quaternion_from_axis_angle(pose[1:])[:, [1, 2, 3, 0]]
    pin.framesForwardKinematics(model, data, (peer_solvers.hinge_angles(rig, pose) if hinges else quaternions).ravel())
    turned, heads = fk.forward(rig, pose)
    for j, name in enumerate(rig.names[1:], 1):
        placed = data.oMf[model.getFrameId(name)]
        assert np.abs(placed.translation - heads[j]).max() < ROUND_TRIP
        assert np.abs(placed.rotation - turned[j]).max() < ROUND_TRIP


BLENDER = """
import sys
import numpy as np
from benchmarks import peer_blender
from benchmarks.peer_solvers import Ask
from neural_network.core import forward_kinematics as fk
from neural_network.core.reference_rig import reference
import bpy
rig, pose, worst = reference(), np.load(sys.argv[1]), []
turned, heads = fk.forward(rig, pose)
bones = list(rig.effectors)
peer = peer_blender.blender(rig, pose)
ask = Ask(heads[bones], turned[bones])
for bone in bpy.data.objects["rig"].pose.bones:
    for constraint in bone.constraints:
        constraint.mute = True
answer = peer.solve(peer.load(pose), ask)
worst.append(np.abs(answer[:, :3, 3] - heads).max())
_, again = fk.forward(rig, peer.pose(answer))
worst.append(np.abs(again - heads).max())
print(*worst)
"""


@pytest.mark.host
def test_blender_has_our_skeleton(tmp_path: Path) -> None:
    np.save(tmp_path / "pose.npy", some_pose())
    done = run_cli("-c", BLENDER, tmp_path / "pose.npy")  # a process of its own: it empties the scene
    assert done.returncode == 0, done.stderr
    there, back = map(float, done.stdout.split()[-2:])
    assert there < 10 * HOST  # Blender's rest of a bone that points straight down is a rotation to 3e-5 only
    assert back < 10 * HOST


@pytest.mark.parametrize("name", ["mink", "pink", "jax", "scipy"])
@pytest.mark.parametrize("orientations", [False, True], ids=["positions", "orientations"])
def test_a_peer_reaches_what_it_is_asked_for(name: str, orientations: bool) -> None:
    package = {"jax": "optimistix"}.get(name, name)
    pytest.importorskip(package, reason=f"needs {package} (benchmarks/requirements.txt)")
    rig, pose = make_rig("reference"), 0.3 * some_pose()
    turned, heads = fk.forward(rig, pose)
    bones = list(rig.effectors)
    peer = getattr(peer_solvers, name)(rig, np.zeros((rig.count, 3)))
    ask = peer_solvers.Ask(heads[bones], turned[bones] if orientations else None)
    _, found = fk.forward(rig, peer.pose(peer.solve(peer.load(np.zeros((rig.count, 3))), ask)))
    assert np.linalg.norm(found[bones] - heads[bones], axis=1).max() < 1e-3


def test_frames_are_laid_out_in_the_axes_of_the_hips() -> None:
    rig = make_rig("reference")
    poses = make_poses(rig, clips=2, frames=30)
    samples = context.prepare(poses)
    part = peers.part_of(poses, samples, np.arange(0, 60, 7))
    turned, where = part.world
    world = np.einsum("nab,neb->nea", turned, part.positions) + where[:, None]
    matrices = fk.armature_matrices(rig, poses.rot[part.rows], poses.root_pos[part.rows])
    assert np.abs(world - matrices[:, list(rig.effectors)][..., :3, 3]).max() < FLOAT32


def test_the_true_pose_has_no_error_and_the_captures_own_jitter() -> None:
    rig = make_rig("reference")
    poses = make_poses(rig, clips=1, frames=40)
    part = peers.part_of(poses, context.prepare(poses), np.arange(40))
    assert max(np.abs(e).max() for e in peers.errors(rig, part.truth, part)) < 1e-3
    shaken = part.truth + 0.02 * np.random.default_rng(1).normal(size=part.truth.shape)
    shaken[:, 0] = 0
    assert peers.jitter(rig, shaken, part, 30.0)[1] > 2 * peers.jitter(rig, part.truth, part, 30.0)[1]


@pytest.mark.slow
def test_the_command_writes_the_page_and_says_who_was_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "made_up.npz"
    pose_set.save(data, make_poses(make_rig("reference"), clips=5, frames=121))
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)  # as where SciPy is not installed
    words = ["--frames", "4", "--tracks", "1", "--folds", "3", "--train-seconds", "0.05", "--only", "alone", "scipy"]
    assert peers.main(["--data", str(data), "--out", str(tmp_path / "page.md"), *words]) == 0
    page = (tmp_path / "page.md").read_text()
    assert page.count("| **network alone** |") == 2
    assert "SciPy least_squares was left out: it is not installed" in page
    assert str(tmp_path) not in page
    assert len(list((tmp_path / "made_up_networks").glob("*.npy"))) == 4


def test_the_command_refuses_takes_that_are_too_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "short.npz"
    pose_set.save(data, make_poses(make_rig("reference"), clips=6, frames=30))
    assert peers.main(["--data", str(data), "--out", str(tmp_path / "page.md")]) == 2
    assert "at least 120 frames" in capsys.readouterr().out
    assert not (tmp_path / "page.md").exists()


def test_the_plots_are_drawn_again_from_the_page_with_six_rivals_by_name() -> None:
    found = peers_plots.read((REPO / "docs" / "benchmarks.md").read_text("utf-8"))
    for given in (False, True):
        shown = [peers_plots.SHOWN[bar.label] for bar in found[given] if bar.label in peers_plots.SHOWN]
        assert [name for name, color in shown if color == peers_plots.OURS] == ["Neural IK"]
        assert len([name for name, color in shown if color == peers_plots.RIVAL]) == 6
        assert all(0 < bar.mpjpe_mm < 100 and bar.late_mm > 0 for bar in found[given])
