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
from neural_network.repair import corruption, draws, inputs, network, plain
from neural_network.repair.correction import between, numbers_of
from neural_network.repair.network import TURNS, Network, Sizes

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -r requirements/learning.txt")
from neural_network.learning.torch_layers import tensors_of  # noqa: E402 - there is none without PyTorch
from neural_network.repair import torch_body, torch_draws, torch_networks  # noqa: E402

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
        slow = corruption.gaussian(np.eye(len(root)), network.QUICK)
        parts = (sight.numbers, sight.smooth, sight.asked, slow, sight.physics, fixed)
        given = [torch.from_numpy(np.asarray(a, np.float32))[None] for a in parts]
        out, gate = (t if t is None else t[0].numpy() for t in module(*given))
    np.testing.assert_allclose(numbers_of(said.correction), out[:, : TURNS + 3], atol=1e-5)
    np.testing.assert_allclose(said.contact, 1 / (1 + np.exp(-out[:, TURNS + 3 : TURNS + 5])), atol=1e-5)
    if kind == "gated":
        assert said.gate is not None
        np.testing.assert_allclose(said.gate, gate, atol=1e-5)
        alone = Network(kind, tensors_of(module)).say(RIG, turns, root, always=0.0)
        np.testing.assert_allclose(numbers_of(alone.correction), fixed, atol=1e-9)


def windows(turns: np.ndarray, root: np.ndarray, frames: int) -> torch_draws.Motion:
    """One window of ``frames`` frames, of which the motion's are there."""
    quaternions = rotations.continuous_quaternions(rotations.quaternion_from_matrix(turns))
    pad = frames - len(root)
    both = (np.concatenate([a, np.repeat(a[-1:], pad, 0)]).astype(np.float32)[None] for a in (quaternions, root))
    return torch_draws.Motion(*(torch.from_numpy(a) for a in both), torch.tensor([len(root)]))


def test_its_forward_kinematics_is_the_projects_in_any_lengths() -> None:
    body = torch_body.Body(RIG)
    heads, points = body(torch.from_numpy(walk().turns.astype(np.float32))[None])
    turned, truth = forward(RIG, walk().turns, np.zeros((90, 3)))
    np.testing.assert_allclose(heads[0].numpy(), truth, atol=1e-5)
    np.testing.assert_allclose(points[0].numpy(), foot_points(RIG, turned, truth), atol=1e-5)
    longer, soles = body(torch.from_numpy(walk().turns.astype(np.float32))[None], torch.tensor([[1.2, 1.0, 0.8]]))
    foot, hand = RIG.names.index("LeftFoot"), RIG.names.index("LeftHand")
    np.testing.assert_allclose(longer[0, :, foot], 1.2 * truth[:, foot], atol=1e-5)
    arm = truth[:, hand] - truth[:, RIG.names.index("Spine2")]
    np.testing.assert_allclose(
        (longer[0, :, hand] - longer[0, :, RIG.names.index("Spine2")]).numpy(), 0.8 * arm, atol=1e-5
    )
    np.testing.assert_allclose(
        (soles[0] + 1.2 * torch.from_numpy(walk().root)[:, None, None])[..., 2].amin(), 0, atol=0.03
    )
    vectors = np.random.default_rng(0).normal(0, 1, (20, 3))
    found = torch_body.matrices(torch_body.turning(torch.from_numpy(vectors))).numpy()
    np.testing.assert_allclose(found, rotations.matrix_from_axis_angle(vectors), atol=1e-6)
    back = torch_body.vectors_of(torch_body.turning(torch.from_numpy(vectors))).numpy()
    np.testing.assert_allclose(rotations.matrix_from_axis_angle(back), found, atol=1e-6)


def test_what_is_seen_and_true_is_the_same_as_in_numpy_however_long_the_window_is() -> None:
    body, rng = torch_body.Body(RIG), np.random.default_rng(0)
    turns, root = corruption.corrupt(walk().turns, walk().root, ("drift", "noise", "floor"), rng)
    sight = inputs.seen(RIG, turns, root)
    numbers, smooth, asked = torch_draws.seen(body, windows(turns, root, 120), torch.ones(1, 3))
    np.testing.assert_allclose(numbers[0, :90].numpy(), sight.numbers, atol=2e-4)
    np.testing.assert_allclose(smooth[0, :90].numpy(), sight.smooth, atol=1e-4)
    np.testing.assert_allclose(asked[0, :90].numpy(), sight.asked, atol=1e-4)
    contact = torch_draws.true_contacts(body, windows(walk().turns, walk().root, 120), torch.ones(1, 3))
    np.testing.assert_array_equal(contact[0, :90].numpy(), draws.true_contacts(RIG, walk().turns, walk().root))
    assert not contact[0, 90:].any()


def test_windows_go_wrong_by_as_much_as_in_numpy_and_by_their_seed() -> None:
    store = torch_draws.Store(RIG, [draws.Take("gait_1", walk().turns, walk().root)])
    still = [RIG.names.index(name) for name in draws.COLLARS]
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    clean, lengths = torch_draws.windows(store, 48, generator, 90, varied=False)
    assert (lengths == 1).all()
    assert (clean.length == 90).all()
    for k, kind in enumerate(corruption.KINDS):
        which = torch.zeros(48, len(corruption.KINDS), dtype=torch.bool)
        which[:, k] = True
        bad = torch_draws.corrupted(store, clean, which, generator)
        by = torch_body.vectors_of(torch_body.product(torch_body.inverse(clean.turns), bad.turns)).norm(dim=-1)
        made = [corruption.corrupt(walk().turns, walk().root, (kind,), rng, still) for _ in range(48)]
        turned = np.mean([rotations.geodesic_angle(t, walk().turns) for t, _ in made])
        moved = np.mean([np.linalg.norm(r - walk().root, axis=-1) for _, r in made])
        np.testing.assert_allclose(by.mean(), turned, rtol=0.25, atol=1e-4)
        np.testing.assert_allclose((bad.root - clean.root).norm(dim=-1).mean(), moved, rtol=0.25, atol=1e-4)
        assert by[:, :, still].mean() < 1e-4 or kind != "noise"
    body = torch_body.Body(RIG)
    one, again = (torch_draws.batch(store, body, 3, torch.Generator().manual_seed(5), 64) for _ in range(2))
    for name, values in one.items():
        assert torch.isfinite(values).all(), name
        assert torch.equal(values, again[name]), name
    by, turns = torch_body.turning(one["by"]), one["turns"]
    heads, _ = body(torch_body.matrices(torch_body.product(turns, by)), one["lengths"])
    assert (heads[:, :, 0] == 0).all()
    assert np.allclose(one["contact"].mean(), 0.6, atol=0.2)


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
    words[words.index("--networks") + 1] = "gru"
    words += ["--begin", str(tmp_path / "r_rivals.npz"), "--feet"]
    done = subprocess.run(
        [*command, "--weights", str(tmp_path / "r_feet.npz"), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = network.load(tmp_path / "r.npz")["convolution"]
    assert told.feet is not None
    said = told.say(RIG, walk().turns, walk().root)
    np.testing.assert_array_equal(said.contact, told.feet.say(RIG, walk().turns, walk().root).contact)
    np.testing.assert_array_equal(said.correction.turns, own.say(RIG, walk().turns, walk().root).correction.turns)
    assert own.say(RIG, walk().turns, walk().root).contact.shape == (90, 2)
