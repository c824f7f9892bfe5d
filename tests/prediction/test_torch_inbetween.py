# SPDX-License-Identifier: GPL-3.0-or-later
"""The network that fills gaps in PyTorch: gaps drawn as NumPy makes them, the same numbers, right slopes, and the trainer as typed."""

import sys
from pathlib import Path

import numpy as np
import pytest

from neural_network.core import forward_kinematics as fk
from neural_network.core.reference_rig import reference
from neural_network.motion import features, pose_set
from neural_network.prediction import gaps, inbetween, library, network
from neural_network.prediction.gaps import Gaps
from neural_network.prediction.inbetween import Shape
from neural_network.rigs import on_body

pytestmark = pytest.mark.learning
torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -r requirements/learning.txt")

from neural_network.learning import torch_layers  # noqa: E402
from neural_network.prediction import torch_bodies, torch_inbetween, torch_windows  # noqa: E402
from neural_network.prediction.torch_windows import Variety  # noqa: E402

REPO = Path(__file__).parents[2]
DATA = REPO / "training_data" / "training_data.npz"
BODY = on_body.found(reference()).body
SMALL = Shape(told=gaps.told_count(141), rows=141, width=16, depth=2, heads=2, wide=32)
AS_CAPTURED = Variety(0, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def takes() -> torch_windows.Takes:
    return torch_windows.Takes(BODY, library.takes_of(pose_set.load(DATA), BODY), torch.device("cpu"))


@pytest.fixture(scope="module")
def asked(takes) -> torch_windows.Asked:
    return takes.gaps(30, 6, Variety(), torch.Generator().manual_seed(4))


def test_gaps_are_seen_as_in_numpy():
    take = max(library.takes_of(pose_set.load(DATA), BODY), key=lambda one: len(one.root))
    turns, root = library.at_rate(take)
    turns, root = (np.stack([part[i : i + 24] for i in (0, 7)]) for part in (turns, root))
    before, after = 4, 2
    own, _ = gaps.local(Gaps(turns, root, before, after))
    straight = gaps.interpolated(own, features.to_rows(own.turns, own.root, BODY.leg_length), BODY.leg_length)
    rows = torch.as_tensor(features.to_rows(turns, root, BODY.leg_length), dtype=torch.float32)
    found = torch_windows.seen(rows, torch.zeros(2, 24, 2), torch.tensor([before] * 2), torch.tensor([after] * 2))
    assert np.abs(found.straight.numpy() - straight).max() < 1e-5
    assert np.abs(found.told.numpy() - gaps.told(own, straight)).max() < 1e-4
    assert np.abs(found.room.numpy() - gaps.room(own)).max() < 1e-6
    assert np.array_equal(found.free.numpy()[0] == 0, own.known)


def test_windows_are_parts_of_takes_at_other_rates_and_of_other_people_only_where_asked_for(takes):
    steps = (takes.rows[1:, :3] - takes.rows[:-1, :3]).norm(dim=-1)[takes.left[:-1] > 0].max()
    rows, contact = takes.windows(200, 30, AS_CAPTURED, torch.Generator().manual_seed(1))
    assert rows.shape == (200, 30, 141)
    assert contact.shape == (200, 30, 2)
    assert float(rows[..., :3].diff(dim=1).norm(dim=-1).max()) <= 1.3 * float(steps)
    other = takes.windows(200, 30, Variety(off=5), torch.Generator().manual_seed(1))[0]
    turned = torch_bodies.matrices(rows[..., 3:].unflatten(-1, (-1, 6)))
    away = torch_bodies.matrices(other[..., 3:].unflatten(-1, (-1, 6)))
    assert 0.02 < float((turned - away).norm(dim=(-1, -2)).mean()) < 0.6
    known = takes.gaps(30, 500, Variety(), torch.Generator().manual_seed(2)).free
    assert int(known.sum(dim=1).min()) >= torch_windows.SHORTEST - 1
    assert len(set(known.sum(dim=1).tolist())) > 5


def test_numpy_and_pytorch_agree(asked):
    torch.manual_seed(0)
    module = torch_inbetween.Inbetween(SMALL).train(False)
    tensors = torch_layers.tensors_of(module)
    assert {name: array.shape for name, array in tensors.items()} == inbetween.tensor_shapes(SMALL)
    with torch.no_grad():
        added, contact = module(asked.told)
    straight = asked.straight.numpy()
    rows, likely = inbetween.answered(tensors, SMALL, asked.told.numpy(), straight, asked.room.numpy())
    assert np.abs(rows - (asked.straight + added * asked.room).numpy()).max() < 1e-5
    assert np.abs(likely - torch.sigmoid(contact).numpy()).max() < 1e-5


def test_bodies_are_posed_as_in_numpy(asked):
    rows = asked.rows.double().numpy()
    turns, root = features.from_rows(rows, 1.0)
    heads = fk.walk(BODY.parents, turns, BODY.offsets / BODY.leg_length, root)[1]
    found = torch_bodies.Body(BODY).double()(torch.as_tensor(rows))
    assert np.abs(found[0].numpy() - turns).max() < 1e-6
    assert np.abs(found[1].numpy() - heads).max() < 1e-6


def test_the_loss_has_the_slopes_of_finite_differences_and_nothing_in_known_frames(asked):
    body = torch_bodies.Body(BODY).double()
    exact = torch_windows.Asked(*(getattr(asked, name).double() for name in vars(asked)))
    true = body(exact.rows)
    rng = np.random.default_rng(2)
    for name in ("place", "turn", "speed"):
        rows = (exact.straight + 0.01 * torch.as_tensor(rng.standard_normal(exact.rows.shape))).requires_grad_()
        torch_inbetween.faults(body, exact, body(rows), true)[name].backward()
        way = torch.as_tensor(rng.standard_normal(rows.shape))
        with torch.no_grad():
            ends = [torch_inbetween.faults(body, exact, body(rows + sign * 1e-6 * way), true)[name] for sign in (1, -1)]
        assert float((rows.grad * way).sum()) == pytest.approx(float(ends[0] - ends[1]) / 2e-6, rel=1e-4)
        if name != "speed":
            assert not rows.grad[exact.free == 0].any()


def test_the_trainer_writes_weights_that_fill_gaps_and_more_beside_them(tmp_path, monkeypatch, capsys):
    import standalone_trainer

    monkeypatch.setattr(sys, "argv", ["standalone_trainer.py"])
    monkeypatch.setattr("neural_network.prediction.torch_task.MOST_JUDGED", 20)
    path, other = tmp_path / "motion.npz", tmp_path / "two.npz"
    words = f"motion --data {DATA} --steps 4 --round 2 --batch-size 8 --width 16 --depth 1 --heads 2 --wide 16".split()
    assert standalone_trainer.main([*words, "--weights", str(path)]) == 0
    found = network.load(path)
    assert found.about["steps"] == 4
    assert len(found.members) == 1
    assert "4 steps" in capsys.readouterr().out
    more = [*words, "--leave-out", "walk,run", "--train-on-all", "--seed", "1", "--weights", str(other)]
    assert standalone_trainer.main([*more, "--beside", str(path)]) == 0
    assert len(network.load(other).members) == 2
    assert standalone_trainer.main([*words, "--width", "8", "--weights", str(other), "--beside", str(path)]) == 2
    assert "same shape" in capsys.readouterr().err
    assert standalone_trainer.main(["motion", "--data", str(tmp_path / "none.npz")]) == 2
