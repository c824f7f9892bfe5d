# SPDX-License-Identifier: GPL-3.0-or-later
"""Creatures: the effectors proposed for any tree, the bones that move them, and the length of a body."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import run_cli

from benchmarks.creatures import CREATURES, body_of, poses_of
from neural_network.core import skeleton
from neural_network.core.reference_rig import reference
from neural_network.ik import errors
from neural_network.motion import pose_set
from neural_network.rigs.creatures import controlled_bones, find_effectors


@pytest.mark.parametrize("name", list(CREATURES))
def test_the_proposed_effectors_are_those_that_a_person_would_choose(name: str) -> None:
    creature = CREATURES[name]
    found = find_effectors(creature.names, creature.parents, creature.heads)
    assert {creature.names[e] for e in found.effectors} == set(creature.effectors)
    assert {creature.names[f] for f in found.feet} == set(creature.feet)


@pytest.mark.parametrize("name", ["dog", "spider", "snake", "dragon"])
def test_names_do_not_matter_if_the_tree_is_clear(name: str) -> None:
    creature = CREATURES[name]
    order = np.random.default_rng(0).permutation(len(creature.names))
    found = find_effectors([f"b{i}x" for i in order], creature.parents, creature.heads)
    assert {creature.names[e] for e in found.effectors} == set(creature.effectors)
    assert {creature.names[f] for f in found.feet} == set(creature.feet)


@pytest.mark.parametrize("turn", [0, 90, 200])
def test_a_creature_may_face_anywhere_and_have_any_size(turn: int) -> None:
    dog = CREATURES["dog"]
    angle = np.radians(turn)
    about = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    found = find_effectors(dog.names, dog.parents, 37 * dog.heads @ about.T + [5, 5, 0])
    assert {dog.names[e] for e in found.effectors} == set(dog.effectors)


def test_excluded_bones_are_not_effectors() -> None:
    dog = CREATURES["dog"]
    tail = dog.names.index("tail4")
    found = find_effectors(dog.names, dog.parents, dog.heads, excluded=[tail])
    names = {dog.names[e] for e in found.effectors}
    assert "tail4" not in names
    assert "tail3" in names


def test_hundreds_of_feathers_do_not_change_the_effectors() -> None:
    dragon = CREATURES["dragon"]
    rng = np.random.default_rng(1)
    wings = [dragon.names.index(n) for n in ("W3.L", "W3.R")]
    more = [wings[i % 2] for i in range(600)]
    heads = np.concatenate([dragon.heads, dragon.heads[more] + 0.05 * rng.standard_normal((600, 3))])
    names = (*dragon.names, *(f"plume{i}" for i in range(600)))
    found = find_effectors(names, np.concatenate([dragon.parents, more]), heads)
    assert {names[e] for e in found.effectors} == set(dragon.effectors)


def test_controlled_bones_lead_to_the_effectors_and_have_length() -> None:
    #   0 root - 1 hips - 2 spine - 3 (no length) - 4 head; 1 - 5 tail
    parents = np.array([-1, 0, 1, 2, 3, 1])
    heads = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 0, 3], [0, 1, 1.0]])
    assert controlled_bones(parents, heads, 1, [4]) == [1, 2, 4]
    assert controlled_bones(parents, heads, 1, [4, 5]) == [1, 2, 5, 4]
    assert controlled_bones(parents, heads, 0, [5]) == [0, 1, 5]
    assert controlled_bones(parents, heads, 1, [3, 5]) == [1, 2, 5, 3]  # an effector stays, also without length
    with pytest.raises(ValueError, match="below bone 2, got 5"):
        controlled_bones(parents, heads, 2, [4, 5])


def test_a_bone_of_zero_length_with_two_children_stays() -> None:
    parents = np.array([-1, 0, 1, 1])
    heads = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 1.0]])
    assert controlled_bones(parents, heads, 0, [2, 3]) == [0, 1, 2, 3]


def test_body_length_is_height_for_a_person_and_nose_to_tail_for_an_animal() -> None:
    rig = reference()
    assert rig.body_length == pytest.approx(np.ptp(rig.rest_arm[:, 2, 3]))
    dog = body_of(CREATURES["dog"])
    heads = dog.rest_arm[:, :3, 3]
    found = [heads[dog.names.index(n)] for n in ("nose", "tail4")]
    assert dog.body_length == pytest.approx(np.linalg.norm(found[0] - found[1]))
    dragon = body_of(CREATURES["dragon"])
    assert dragon.body_length < 4.8  # the wings, 4.8 m from tip to tip, do not count


def test_up_is_found_if_two_feet_are_far_behind_their_ankles() -> None:
    names = ["body", "thigh_l", "shin_l", "long_l", "toe_l", "thigh_r", "shin_r", "long_r", "toe_r", "head"]
    parents = np.array([-1, 0, 1, 2, 3, 0, 5, 6, 7, 0])
    side = np.array([[0.1, 0.1, 0.4], [0.1, 0.0, 0.3], [0.1, 0.3, 0.1], [0.1, -0.1, 0.0]])
    heads = np.concatenate([[[0, 0, 0.5]], side, side * [-1, 1, 1], [[0, -0.4, 0.7]]])
    rest = np.tile(np.eye(4), (10, 1, 1))
    rest[:, :3, 3] = heads
    bird = skeleton.make(names, parents, rest, ["toe_l", "toe_r", "head"], ["toe_l", "toe_r"], t_pose=np.zeros((10, 3)))
    assert np.allclose(bird.axes, np.eye(3))


def test_with_one_target_a_hand_reaches_if_there_are_hands() -> None:
    assert errors.hands_of(reference()).tolist() == [0, 1]
    dragon = body_of(CREATURES["dragon"])
    assert {dragon.names[dragon.effectors[e]] for e in errors.hands_of(dragon)} == {"W5.L", "W5.R"}
    snake = body_of(CREATURES["snake"])
    assert len(errors.hands_of(snake)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dog", "snake"])
def test_the_trainer_accepts_a_creature_and_gives_errors_in_body_lengths(tmp_path: Path, name: str) -> None:
    poses = poses_of(CREATURES[name])
    pose_set.save(tmp_path / "poses.npz", poses)
    words = ["--data", str(tmp_path / "poses.npz"), "--weights", str(tmp_path / "best.npy"), "--epochs", "2"]
    done = run_cli("standalone_trainer.py", *words, "--no-beside", "--layout", "masked", "--drop-effectors", "0.3")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "% of body" in done.stdout
    assert f"The body is {poses.skeleton.body_length:.2f} m long" in done.stdout
    assert f"{len(poses.skeleton.effectors)} of the targets, network" in done.stdout
