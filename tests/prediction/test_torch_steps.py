# SPDX-License-Identifier: GPL-3.0-or-later
"""Predictors in PyTorch: the same numbers as in NumPy, gradients through rollouts or not, and the trainer as a user types it."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neural_network.__main__ import main
from neural_network.core import forward_kinematics as fk
from neural_network.core.reference_rig import reference
from neural_network.learning import encoder
from neural_network.learning.encoder import Design
from neural_network.learning.steps import StepSettings
from neural_network.motion import features, pose_set, states
from neural_network.prediction import library, predictor, step_windows
from neural_network.prediction.step_windows import Learning
from neural_network.rigs import on_body

pytestmark = pytest.mark.learning
torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -r requirements/learning.txt")

from neural_network.learning import torch_layers  # noqa: E402
from neural_network.prediction import torch_predictor, torch_steps  # noqa: E402

REPO = Path(__file__).parents[2]
DATA = REPO / "training_data" / "training_data.npz"
BODY = on_body.found(reference()).body
TAKES = library.takes_of(pose_set.load(DATA))


def small(mode: str, layout: str) -> Design:
    return Design(predictor.KINDS[mode], states.layout(layout).width, 16, 2, 2, 14)


@pytest.fixture(scope="module")
def found() -> dict[str, step_windows.Windows]:
    return {name: step_windows.windows(name, BODY, TAKES[:6], 40, False) for name in states.LAYOUTS}


@pytest.mark.parametrize("layout", states.LAYOUTS)
@pytest.mark.parametrize("mode", predictor.KINDS)
def test_numpy_and_pytorch_say_the_same(found, mode, layout):
    torch.manual_seed(0)
    own, windows = small(mode, layout), found[layout]
    measured = step_windows.measures(layout, windows)
    module = torch_predictor.Steps(mode, states.layout(layout), own, *measured).train(False)
    tensors = torch_layers.tensors_of(module)
    assert {n: a.shape for n, a in tensors.items()} == predictor.shapes(states.layout(layout), own)
    past = windows.rows[windows.at_least(40)[::9][:4, None] + np.arange(10)]
    with torch.no_grad():
        said = module.ahead(torch.as_tensor(past), 12).numpy()
    run = predictor.make(mode, layout, own, tensors, {})
    scale = np.concatenate([measured[1]])
    assert np.abs((run.ahead(past, 12) - said) / scale).max() < 1e-5 * max(1, np.abs(said / scale).max())
    if mode in ("gru", "transformer"):  # every frame is read as when they come one after another
        with torch.no_grad():
            follows = module.encoder.follow(torch.as_tensor(past)).numpy()
        assert np.abs(follows[:, 4] - run.encoder.encode(past[:, :5])).max() < 1e-5


def test_bodies_of_states_are_posed_as_in_numpy(found):
    for layout, windows in found.items():
        some = windows.rows[windows.at_least(40)[:2, None] + np.arange(10, 40)].astype(float)
        nobody = features.Place(np.zeros((2, 2)), np.zeros(2))
        turns, root = features.from_rows(states.to_rows(layout, BODY, some, nobody), BODY.leg_length)
        heads = fk.walk(BODY.parents, turns, BODY.offsets, root)[1] / BODY.leg_length
        seen = torch_predictor.Posed(states.layout(layout), BODY).double()(torch.as_tensor(some), True)
        assert np.abs(seen.numpy() - heads).max() < 1e-6


def task(found, learning: Learning, mode: str = "mlp", layout: str = "pose") -> torch_steps.StepsTask:
    windows = found[layout]
    settings = StepSettings(steps=8)
    return torch_steps.StepsTask(
        mode, states.layout(layout), small(mode, layout), BODY, windows, windows, learning, settings, 0.0
    )


def test_gradients_go_through_rollouts_unless_they_are_detached(found):
    windows = found["pose"]
    past = torch.as_tensor(windows.rows[windows.at_least(40)[:3, None] + np.arange(10)])
    own = task(found, Learning(batch=4))
    module = own.module()
    for detached in (False, True):
        known = past.clone().requires_grad_()
        module.ahead(known, 6, detached)[:, -1].square().sum().backward()
        assert (known.grad is None or not known.grad.any()) == detached


def test_settings_say_what_is_learned(found):
    windows = found["pose"]
    true = torch.as_tensor(windows.rows[windows.at_least(40)[:5, None] + np.arange(10, 30)])
    said = true + 0.01 * torch.randn(true.shape, generator=torch.Generator().manual_seed(1))
    own = task(found, Learning(velocity=0.1, smooth=0.01))
    parts = own.parts(said, true, True)
    assert set(parts) == {"position", "velocity", "smooth", "joints", "path", "contact"}
    p = states.layout("pose").places
    places = said[..., :p].detach()
    assert float(parts["smooth"]) == pytest.approx(
        0.01 * float((places[:, 2:] - 2 * places[:, 1:-1] + places[:, :-2]).square().mean())
    )
    v = p + states.layout("pose").speeds
    weight = float(true[..., :p].var() / true[..., p:v].var())
    adaptive = task(found, Learning(velocity=None)).parts(said, true, True)["velocity"]
    assert float(adaptive) == pytest.approx(10 * weight * float(parts["velocity"]), rel=1e-5)
    source = replace(step_windows.SOURCE, batch=4)
    assert set(task(found, source, layout="dof56").parts(said[..., :112], true[..., :112], True)) == {
        "position",
        "velocity",
    }
    steps = [task(found, source).horizon(step) for step in range(400)]
    assert set(steps) == {1, 5}
    assert 0.1 < np.mean(np.array(steps) == 5) < 0.3
    stages = task(found, Learning(horizons=(1, 8)))
    assert [stages.horizon(step) for step in range(4)] == [1] * 4
    assert 8 in [stages.horizon(step) for step in range(4, 8)]


def test_a_predictor_learns_and_is_written_with_its_encoder(tmp_path, monkeypatch, capsys):
    import standalone_trainer

    monkeypatch.setattr(sys, "argv", ["standalone_trainer.py"])
    path, report, split = tmp_path / "steps.npz", tmp_path / "steps.json", tmp_path / "split.json"
    words = f"motion --mode mlp --data {DATA} --weights {path} --json {report} --split_file {split} --activity_split"
    words += " --epochs 1 --batch-size 64 --round 40 --width 32 --depth 1 --horizons 1,8 --as-captured --lr 0.003"
    assert standalone_trainer.main(words.split()) == 0
    found, about = predictor.load(path), json.loads(report.read_text())
    parts = json.loads(split.read_text())
    assert parts["test"]
    assert not set(parts["test"]) & {*parts["train"], *parts["validation"]}
    assert about["history"][-1][0] < about["history"][0][0] or len(about["history"]) == 1
    assert about["figures"]["mlp"]["MPJPE after 1 [mm]"] < about["figures"]["hold the pose"]["MPJPE after 1 [mm]"]
    exported = tmp_path / "encoder.npz"
    assert main(["motion", "encoder", str(path), "-o", str(exported)]) == 0
    own, told = encoder.load(exported)
    assert told["layout"] == "pose"
    known = states.of_motion("pose", BODY, TAKES[0].turns[:10], TAKES[0].root[:10]).astype(np.float32)
    assert np.array_equal(own.encode(known), found.encoder.encode(known))
    assert own.encode(known).shape == (32,)
    assert main(["motion", "encoder", str(DATA), "-o", str(exported)]) == 2
    assert standalone_trainer.main(f"motion --mode gru --bvh_dir {tmp_path / 'none'}".split()) == 2
    assert "--bvh_dir" in capsys.readouterr().err
