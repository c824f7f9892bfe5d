# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks compute the same in PyTorch and in NumPy, and learn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repair_data import RIG, rows, walk

from neural_network.core import rotations
from neural_network.core.contacts import foot_points
from neural_network.ik.foot_pins import forward
from neural_network.motion import pose_set
from neural_network.repair import draws, inputs, network, plain
from neural_network.repair.batches import Batches
from neural_network.repair.correction import between, numbers_of
from neural_network.repair.network import TURNS, Network, Sizes

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -r requirements/learning.txt")
from neural_network.learning.torch_layers import tensors_of  # noqa: E402 - there is none without PyTorch
from neural_network.repair import torch_networks  # noqa: E402

pytestmark = pytest.mark.learning
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", network.SIZES)
def test_numpy_says_what_pytorch_says(kind: str) -> None:
    torch.manual_seed(0)
    spread = np.full(inputs.SEEN, 0.7, np.float32)
    module = torch_networks.Learned(kind, Sizes(24), np.full(inputs.SEEN, 0.1, np.float32), spread)
    with torch.no_grad():
        module.outputs.weight.normal_(0, 0.3)
    turns, root = walk().turns, walk().root
    said = Network(kind, tensors_of(module)).say(RIG, turns, root)
    sight = inputs.seen(RIG, turns, root)
    fixed = numbers_of(between(turns, root, *plain.analytic(RIG, turns, root, 30.0)))
    with torch.no_grad():
        parts = (sight.numbers, sight.smooth, sight.physics, fixed)
        given = [torch.from_numpy(np.asarray(a, np.float32))[None] for a in parts]
        out, gate = (t if t is None else t[0].numpy() for t in module(*given))
    np.testing.assert_allclose(numbers_of(said.correction), out[:, : TURNS + 3], atol=1e-5)
    np.testing.assert_allclose(said.contact, 1 / (1 + np.exp(-out[:, TURNS + 3 : TURNS + 5])), atol=1e-5)
    if kind == "gated":
        assert said.gate is not None
        np.testing.assert_allclose(said.gate, gate, atol=1e-5)
        alone = Network(kind, tensors_of(module)).say(RIG, turns, root, always=0.0)
        np.testing.assert_allclose(numbers_of(alone.correction), fixed, atol=1e-9)


def test_its_forward_kinematics_is_the_projects() -> None:
    body = torch_networks.Body(RIG)
    heads, points = body(torch.from_numpy(walk().turns.astype(np.float32)))
    turned, truth = forward(RIG, walk().turns, np.zeros((90, 3)))
    np.testing.assert_allclose(heads.numpy(), truth, atol=1e-5)
    np.testing.assert_allclose(points.numpy(), foot_points(RIG, turned, truth), atol=1e-5)
    vectors = np.random.default_rng(0).normal(0, 1, (20, 3))
    found = torch_networks._matrices(torch.from_numpy(vectors)).numpy()
    np.testing.assert_allclose(found, rotations.matrix_from_axis_angle(vectors), atol=1e-6)


def test_the_trainer_learns_writes_and_names_what_it_did(tmp_path: Path) -> None:
    rot, root = rows()
    clip = np.repeat(np.arange(3), 30)
    poses = pose_set.make(RIG, rot, root, clip, ["1_1", "2_1", "3_1"], None, 30.0, np.zeros(3))
    pose_set.save(tmp_path / "walk.npz", poses)
    words = [
        "--steps",
        "2",
        "--round",
        "1",
        "--networks",
        "convolution,gru",
        "--batch-size",
        "2",
        "--device",
        "cpu",
        "--leave-out",
        "3",
        "--quiet",
    ]
    command = [sys.executable, "standalone_trainer.py", "repair", "--data", str(tmp_path / "walk.npz")]
    done = subprocess.run(
        [*command, "--weights", str(tmp_path / "r.npz"), *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "expected three takes" in done.stderr
    words[words.index("--leave-out") + 1] = "9"
    done = subprocess.run(
        [*command, "--weights", str(tmp_path / "r.npz"), *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    own = network.load(tmp_path / "r.npz")["convolution"]
    assert own.meta["judged_on"] == ["1_1"]
    assert own.meta["takes"] == ["2_1", "3_1"]
    assert set(network.load(tmp_path / "r_rivals.npz")) == {"gru"}
    assert own.say(RIG, walk().turns, walk().root).contact.shape == (90, 2)


def test_batches_come_by_number_whoever_asks() -> None:
    take = draws.Take("gait_1", walk().turns, walk().root)
    one = draws.batch(RIG, [take], 1, np.random.default_rng((0, 5)))
    made = Batches(RIG, [take], 1, 0, 1, ahead=1)
    try:
        np.testing.assert_array_equal(made.at(5)["numbers"], one["numbers"])
    finally:
        made.close()
