# SPDX-License-Identifier: GPL-3.0-or-later
"""What networks see and say, their files, and what is judged by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from repair_data import RIG, network, walk

from neural_network.core import rotations
from neural_network.learning import model_file
from neural_network.repair import contacts, draws, inputs
from neural_network.repair import network as networks


def test_where_a_body_stands_and_looks_does_not_matter_to_what_is_seen() -> None:
    turns, root = walk().turns, walk().root
    about = rotations.matrix_from_axis_angle(np.array([0, 0, 1.1]))
    other = turns.copy()
    other[:, 0] = about @ turns[:, 0]
    here = inputs.seen(RIG, turns, root)
    there = inputs.seen(RIG, other, root @ about.T + [3.0, -2, 0])
    assert here.numbers.shape == (90, inputs.SEEN)
    np.testing.assert_allclose(here.numbers, there.numbers, atol=1e-4)
    np.testing.assert_array_equal(here.contact, there.contact)


def test_the_physics_state_is_what_it_is_said_to_be() -> None:
    frames = 30
    turns = np.broadcast_to(np.eye(3), (frames, RIG.count, 3, 3)).copy()
    root = np.stack([0.5 * np.arange(frames) / 30, np.zeros(frames), 1 + 0.3 * np.arange(frames) / 30], axis=1)
    state = inputs.seen(RIG, turns, root).physics
    np.testing.assert_allclose(state[:, 0], -9.81)
    np.testing.assert_allclose(state[:, 1], root[:, 2], rtol=1e-5)
    np.testing.assert_allclose(state[:, [2, 4, 6]], [[0.3, 0.5, 0.3]] * frames, atol=1e-5)
    np.testing.assert_allclose(state[:, 12:15], [[0.5, 0, 0.3]] * frames, atol=1e-5)
    assert np.abs(state[:, [3, 5, 7, 8, 9, 15, 16, 17, 21, 22, 23]]).max() < 1e-4
    assert not state[:, 24:].any()


def test_a_file_holds_the_networks_in_half_precision_and_gives_them_back(tmp_path: Path) -> None:
    path = tmp_path / "repair.npz"
    networks.save(path, {"convolution": network()}, {"seed": 3})
    back = networks.load(path)["convolution"]
    assert back.meta["seed"] == 3
    said, before = back.say(RIG, walk().turns, walk().root), network().say(RIG, walk().turns, walk().root)
    np.testing.assert_allclose(said.contact, before.contact, atol=0.02)
    kept = model_file.read(path, "repair", "").tensors
    assert {value.dtype for value in kept.values() if value.ndim > 1} == {np.dtype(np.float16)}
    first = path.read_bytes()
    networks.save(path, networks.load(path), {"seed": 3})
    assert path.read_bytes() == first


def test_files_of_other_things_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    with pytest.raises(FileNotFoundError, match=r"standalone_trainer\.py repair"):
        networks.load(path)
    model_file.write(path, model_file.Model("repair", {"networks": ["oracle"]}, {"a": np.zeros(3, np.float32)}))
    with pytest.raises(ValueError, match="expected networks of convolution, gru, gated"):
        networks.load(path)
    model_file.write(path, model_file.Model("repair", {"networks": ["gru"]}, {"gru/mean": np.ones(3, np.float32)}))
    with pytest.raises(ValueError, match="gru: expected mean"):
        networks.load(path)


def test_short_contacts_and_gaps_are_taken_out() -> None:
    chances = np.zeros((30, 2))
    chances[5:15, 0], chances[8:10, 0], chances[20:22, 0] = 1, 0.2, 1
    found = contacts.decided(chances, 30.0)
    np.testing.assert_array_equal(np.flatnonzero(found[:, 0]), np.arange(5, 15))
    assert not found[:, 1].any()


def test_a_take_has_the_same_name_whatever_file_it_comes_from() -> None:
    assert draws.take_name("cmu_max/scaled_131_01_metres") == "131_01"
    assert draws.take_name("asfamc/07_05-walk") == "07_05"
