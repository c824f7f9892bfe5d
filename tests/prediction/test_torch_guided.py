# SPDX-License-Identifier: GPL-3.0-or-later
"""The guided network in PyTorch: the same numbers as in NumPy, gradients that fall, and the trainer as a user types it."""

import sys
from pathlib import Path

import numpy as np
import pytest

from neural_network.core import forward_kinematics as fk
from neural_network.core.reference_rig import reference
from neural_network.motion import features, pose_set
from neural_network.prediction import examples, guided, library, network
from neural_network.prediction.guided import Shape
from neural_network.rigs import on_body

pytestmark = pytest.mark.learning
torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -r requirements/learning.txt")

from neural_network.learning import torch_layers  # noqa: E402
from neural_network.prediction import torch_bodies, torch_guided  # noqa: E402

REPO = Path(__file__).parents[2]
DATA = REPO / "training_data" / "training_data.npz"
BODY = on_body.found(reference()).body
SMALL = Shape(told=3 * 141 + 19, rows=141, width=16, depth=2, heads=2, wide=32)


@pytest.fixture(scope="module")
def group() -> examples.Group:
    own = examples.source(BODY, library.takes_of(pose_set.load(DATA)), lambda name: name)
    return examples.draw(own, np.random.default_rng(4), 6)


def test_numpy_and_pytorch_agree(group):
    torch.manual_seed(0)
    module = torch_guided.Guided(SMALL).train(False)
    tensors = torch_layers.tensors_of(module)
    assert {name: array.shape for name, array in tensors.items()} == guided.tensor_shapes(SMALL)
    with torch.no_grad():
        correction, contact = module(torch.as_tensor(group.told))
    rows, likely = guided.corrected(tensors, SMALL, group.told, group.first, group.room)
    assert np.abs(rows - (group.first + correction.numpy() * group.room)).max() < 1e-5
    assert np.abs(likely - torch.sigmoid(contact).numpy()).max() < 1e-5


def test_bodies_are_posed_as_in_numpy(group):
    rows = group.truth.astype(np.float64)
    turns, root = features.from_rows(rows, 1.0)
    heads = fk.walk(BODY.parents, turns, BODY.offsets / BODY.leg_length, root)[1]
    found = torch_bodies.Body(BODY).double()(torch.as_tensor(rows))
    assert np.abs(found[0].numpy() - turns).max() < 1e-6
    assert np.abs(found[1].numpy() - heads).max() < 1e-6


def test_the_loss_has_the_slopes_of_finite_differences_and_nothing_in_known_frames(group):
    body = torch_bodies.Body(BODY).double()
    batch = torch_guided.Batch.of(group, torch_bodies.Body(BODY), "cpu")
    exact = {name: getattr(batch, name).double() for name in ("first", "turns", "heads", "contact", "room")}
    batch = torch_guided.replace(batch, **exact)
    rng = np.random.default_rng(2)
    for name in ("place", "turn", "speed"):
        rows = (batch.first + 0.01 * torch.as_tensor(rng.standard_normal(batch.first.shape))).requires_grad_()
        torch_guided.faults(body, batch, rows)[name].backward()
        way = torch.as_tensor(rng.standard_normal(rows.shape))
        with torch.no_grad():
            ends = [torch_guided.faults(body, batch, rows + sign * 1e-6 * way)[name] for sign in (1, -1)]
        assert float((rows.grad * way).sum()) == pytest.approx(float(ends[0] - ends[1]) / 2e-6, rel=1e-4)
        if name != "speed":
            assert not rows.grad[:, ~batch.free].any()


def test_the_trainer_writes_weights_that_correct_gaps(tmp_path, monkeypatch, capsys):
    import standalone_trainer

    monkeypatch.setattr(sys, "argv", ["standalone_trainer.py"])
    path = tmp_path / "motion.npz"
    words = f"motion --data {DATA} --weights {path} --groups 2 --steps 4 --round 2 --batch-size 8"
    words += " --width 16 --depth 1 --heads 2 --wide 16"
    monkeypatch.setattr(examples, "GROUP", 8)
    monkeypatch.setattr("neural_network.prediction.trainer.HELD_GROUPS", 1)
    assert standalone_trainer.main(words.split()) == 0
    found = network.load(path)
    assert found.about["steps"] == 4
    assert set(found.worth.values()) <= {round(0.1 * i, 1) for i in range(11)} | set(np.linspace(0, 1, 11).tolist())
    assert "4 steps" in capsys.readouterr().out
    assert standalone_trainer.main([*words.split(), "--leave-out", "walk,run"]) == 0
    assert standalone_trainer.main(["motion", "--data", str(tmp_path / "none.npz")]) == 2
