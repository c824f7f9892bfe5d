# SPDX-License-Identifier: GPL-3.0-or-later
"""The distilled network: its gradient, its file, the motion files it learns from, and what it is judged by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import GRADIENT
from gait_data import model, samples, small

from neural_network.core.rotations import geodesic_angle
from neural_network.gait import draws, judging, motion_files, network, parameters, representation
from neural_network.gait.task import PRESETS, SOURCE, GaitTask, Samples, Training, with_mirrors
from neural_network.gait.teacher import KinematicTeacher
from neural_network.learning.loop import Position


@pytest.mark.parametrize("output", network.OUTPUTS)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_gradient_is_that_of_the_loss(activation: str, output: str) -> None:
    training = Training(output=output, hidden=(7, 5), harmonics=4, activation=activation, seed=3)
    task = GaitTask(samples(), training, model())
    task.wanted, task.weight = task.wanted.astype(np.float64), task.weight.astype(np.float64)
    rng = np.random.default_rng(0)
    weights = task.initial().astype(np.float64) + rng.normal(0, 0.01, task.initial().shape)
    rows = np.arange(40, 90) if output == "pose" else np.arange(3, 12)
    into, spare = np.zeros_like(weights), np.zeros_like(weights)
    task.gradient(weights, rows, rng, Position(0, ()), into)
    for _ in range(4):
        way = rng.normal(0, 1, weights.shape) / np.sqrt(len(weights))
        size = 1e-4
        values = [task.gradient(weights + k * size * way, rows, rng, Position(0, ()), spare) for k in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * size)
        # a bend of ReLU between two points is no error of the gradient
        assert into @ way == pytest.approx(slope, rel=GRADIENT if activation == "tanh" else 1e-3, abs=1e-9)


def test_the_source_weighs_the_hips_way_double_and_the_arms_half() -> None:
    task = GaitTask(samples(), replace(SOURCE, hidden=(8,)), model())
    weight = task.weight * representation.SIZE / 5
    np.testing.assert_allclose(weight[6:9], 4)
    np.testing.assert_allclose(weight[57:], 0.25)
    np.testing.assert_allclose(weight[9:57], 1)
    assert (task.spread == 1).all()
    assert PRESETS["source"].hidden == (512, 512, 512)
    clamped = np.zeros_like(task.initial())
    task.gradient(task.initial(), np.arange(30), np.random.default_rng(0), Position(0, ()), clamped)
    assert np.abs(clamped).max() <= np.float32(0.1)


def test_feet_strike_and_leave_at_the_same_place_of_their_own_phase() -> None:
    values = np.stack([
        parameters.vector({"speed": 1.3}),
        parameters.vector({"speed": 0.8, "asymmetry": 0.08}, style={"limp_right": 1.0}),
        parameters.vector({"speed": 3.4}),
    ])  # fmt: skip
    share, late = parameters.stance_share(values), parameters.right_strike(values)
    for k, strike in ((0, np.zeros(3)), (1, late)):
        at = np.stack([strike, strike + share[:, k], strike + 0.999], axis=1)
        own = network.foot_phases(values, at)[k]
        np.testing.assert_allclose(own[:, 0], 0, atol=1e-9)
        np.testing.assert_allclose(own[:, 1], [0.6, 0.6, 0.3], atol=1e-9)
        np.testing.assert_allclose(own[:, 2], 0.999, atol=1e-3)
        assert (np.diff(network.foot_phases(values, strike[:, None] + np.linspace(0, 0.999, 200))[k]) > 0).all()


def test_a_network_that_says_cycles_says_the_same_for_one_walk_and_for_many() -> None:
    gait, phase = small(), np.linspace(0, 1, 7, endpoint=False)
    values = np.stack([parameters.vector({"speed": s}) for s in (0.9, 1.6)])
    both = gait.cycles(values, phase)
    assert both.shape == (2, 7, 101)
    np.testing.assert_allclose(gait.numbers(values[1], phase), both[1], atol=1e-6)
    rows = gait.numbers(np.repeat(values, 7, axis=0), np.tile(phase, 2))
    np.testing.assert_allclose(rows.reshape(both.shape), both, atol=1e-5)
    np.testing.assert_allclose(gait.numbers(values[0], phase + 3), both[0], atol=1e-5)


def test_inputs_are_shares_sines_and_cosines() -> None:
    x = network.inputs(parameters.MOST, np.array([0.0, 0.25]), 2)
    np.testing.assert_allclose(x[:, : len(parameters.NAMES)], 1)
    np.testing.assert_allclose(x[:, len(parameters.NAMES) :], [[0, 1, 0, 1], [1, 0, 0, -1]], atol=1e-6)


def test_a_cycle_in_a_mirror_is_the_teachers_cycle_of_mirrored_parameters() -> None:
    who = KinematicTeacher(model())
    values = parameters.vector({"speed": 1.3, "turn": 0.4, "toe_out": 12}, style={"limp_left": 0.6})
    one = Samples(who.motion(values)[None, :30].astype(np.float32), values[None].astype(np.float32))
    both = with_mirrors(one)
    other = who.motion(parameters.mirrored(values))[:30]
    rig = judging.body(parameters.DEFAULT)
    made, truth = (representation.decode(rig, n).turns for n in (both.motions[1], other))
    off = np.degrees(geodesic_angle(made, truth))
    assert off.mean() < 0.6
    assert np.percentile(off, 95) < 3
    np.testing.assert_allclose(both.params[1], parameters.mirrored(values), atol=1e-6)


def test_a_network_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    gait = replace(small(), meta={"seed": 0, "licence": "none"})
    network.save(tmp_path / "gait.npz", gait)
    back = network.load(tmp_path / "gait.npz")
    np.testing.assert_array_equal(back.weights, gait.weights)
    phase = np.linspace(0, 1, 7)
    np.testing.assert_allclose(
        back.numbers(parameters.DEFAULT, phase), gait.numbers(parameters.DEFAULT, phase), atol=1e-5
    )
    assert back.meta["licence"] == "none"
    np.testing.assert_allclose(back.model.walk.mean, gait.model.walk.mean, atol=1e-5)
    assert back.model.late == pytest.approx(gait.model.late)
    first = (tmp_path / "gait.npz").read_bytes()
    network.save(tmp_path / "gait.npz", gait)
    assert (tmp_path / "gait.npz").read_bytes() == first


def test_a_file_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"standalone_trainer\.py gait"):
        network.load(tmp_path / "none.npz")
    (tmp_path / "x.npz").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"x\.npz"):
        network.load(tmp_path / "x.npz")


def test_a_small_network_has_learned_walks_and_beats_ridge() -> None:
    who = KinematicTeacher(model())
    values = np.stack([parameters.vector({"speed": s}) for s in (0.75, 1.15, 1.45, 1.95)])
    held = judging.Held(values, np.stack([who.motion(v)[:30] for v in values]))
    figures = {f.name.split(": ")[1]: f for f in judging.distilled(small(), held, samples())}
    legs = figures["leg joints"]
    assert legs.value < 3
    assert legs.value < legs.rivals["ridge"]
    assert figures["R2 of the network against the teacher"].value > 0.9


# ---------------------------------------------------------------- motion files


def test_motion_files_are_made_once_and_read_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion_files, "PER_FILE", 2)
    made = list(motion_files.generate(tmp_path, model(), 4, seed=1))
    assert made[-1] == (2, 2)
    files = motion_files.paths(tmp_path, model(), 4, 1)
    before = [f.read_bytes() for f in files]
    files[1].unlink()
    assert list(motion_files.generate(tmp_path, model(), 4, seed=1)) == [(1, 2), (2, 2)]
    assert [f.read_bytes() for f in files] == before  # the same seed, the same bytes
    for motions, params in motion_files.stream(files):
        assert motions.shape == (2, 60, 101)
        assert params.shape == (2, len(parameters.NAMES))
        np.testing.assert_array_equal(motions[:, :30], motions[:, 30:])
    assert motion_files.paths(tmp_path, model(), 4, 2) != files


def test_processes_that_cannot_write_motion_files_are_an_error_and_are_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "motions"
    folder.write_text("a file where the folder should be")
    with pytest.raises(OSError, match="ended with code 1"):
        list(motion_files.generate(folder, model(), 2 * motion_files.PER_FILE, seed=1, jobs=2))


def test_a_motion_file_of_something_else_is_refused_in_words(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", motions=np.zeros((2, 60, 101)))
    with pytest.raises(ValueError, match="expected motions and params"):
        motion_files.load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", motions=np.zeros((2, 50, 101)), params=np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"\(2, 50, 101\)"):
        motion_files.load(tmp_path / "b.npz")


def test_raw_motions_are_put_on_sixty_samples_and_the_others_are_counted() -> None:
    frames = 200
    phase = np.linspace(-0.4, 4 * np.pi + 0.6, frames)
    wave = np.stack([np.sin(phase), np.cos(phase)], axis=1)
    motions = np.tile(wave, (5, 1, 1))
    lengths = np.array([frames, frames, 120, frames, frames])
    phases = np.tile(np.mod(phase, 2 * np.pi), (5, 1))
    motions[1, 10] = np.nan
    phases[3] = phases[3][::-1]
    lengths[4] = 145  # long enough in samples, but not two cycles
    kept, rows, counts = motion_files.refined(motions, lengths, phases)
    assert rows.tolist() == [0]
    assert counts == {"load failed": 1, "too short": 1, "not 60": 2}
    wanted = 2 * np.pi * np.arange(60) / 30
    np.testing.assert_allclose(kept[0, :, 0], np.sin(wanted), atol=1e-3)


def test_draws_are_inside_their_ranges_and_repeat() -> None:
    values = draws.draw(np.random.default_rng(5), 200)
    assert (values >= parameters.LEAST).all()
    assert (values <= parameters.MOST).all()
    np.testing.assert_array_equal(values, draws.draw(np.random.default_rng(5), 200))
    runs = values[:, parameters.INDEX["run"]] > 0
    assert 0.1 < runs.mean() < 0.35
    pace = parameters.speed(values)
    assert pace[~runs].max() < 2.6
    assert pace[runs].max() > 3.5
