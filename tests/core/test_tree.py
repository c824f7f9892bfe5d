# SPDX-License-Identifier: GPL-3.0-or-later
"""What is passed down a tree of joints, against the definition joint by joint."""

from __future__ import annotations

import numpy as np
from conftest import EXACT, random_turns

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations, tree

PARENTS = np.array([-1, 0, 1, 1, 0, -1, 5])
"""Two trees, the first with three branches."""


def ancestry(joint: int) -> list[int]:
    """A joint and its ancestors, the root first."""
    return tree.chain(PARENTS, joint)[::-1]


def test_a_chain_leads_to_its_own_root() -> None:
    assert [tree.chain(PARENTS, j) for j in (0, 3, 6)] == [[0], [3, 1, 0], [6, 5]]


def test_levels_hold_every_joint_but_the_roots_below_its_parent() -> None:
    found = [(index.tolist(), above.tolist()) for index, above in tree.levels(PARENTS)]
    assert found == [([1, 4, 6], [0, 0, 5]), ([2, 3], [1, 1])]
    assert tree.levels(np.array([-1])) == ()


def test_products_and_sums_gather_all_ancestors(rng: np.random.Generator) -> None:
    turns = random_turns(rng, 4, len(PARENTS))
    local, quaternions = rotations.matrix_from_axis_angle(turns), rotations.quaternion_from_axis_angle(turns)
    kept = local.copy(), quaternions.copy()
    found, found_quaternions = tree.matrix_products(PARENTS, local), tree.quaternion_products(PARENTS, quaternions)
    values = rng.normal(size=(len(PARENTS), 2))
    for j in range(len(PARENTS)):
        product = np.eye(3)
        for k in ancestry(j):
            product = product @ local[:, k]
        np.testing.assert_allclose(found[:, j], product, atol=EXACT)
        np.testing.assert_allclose(rotations.matrix_from_quaternion(found_quaternions[:, j]), product, atol=EXACT)
        np.testing.assert_allclose(tree.sums(PARENTS, values)[j], values[ancestry(j)].sum(axis=0), atol=EXACT)
    np.testing.assert_array_equal(local, kept[0])
    np.testing.assert_array_equal(quaternions, kept[1])


def test_a_walk_places_every_head_where_its_ancestors_carry_it(rng: np.random.Generator) -> None:
    turns = random_turns(rng, 4, len(PARENTS))
    local, quaternions = rotations.matrix_from_axis_angle(turns), rotations.quaternion_from_axis_angle(turns)
    still, root_pos = rng.normal(size=(len(PARENTS), 3)), rng.normal(size=(4, 3))
    for offsets in (still, rng.normal(size=(4, len(PARENTS), 3))):
        turned, heads = fk.walk(PARENTS, local, offsets, root_pos)
        as_quaternions, same_heads = fk.walk_quaternions(PARENTS, quaternions, offsets, root_pos)
        every = np.broadcast_to(offsets, (4, len(PARENTS), 3))
        np.testing.assert_allclose(heads[:, 0], root_pos, atol=0)
        np.testing.assert_allclose(heads[:, 5], every[:, 5], atol=0)
        for j in (1, 2, 3, 4, 6):
            carried = np.einsum("fab,fb->fa", turned[:, PARENTS[j]], every[:, j])
            np.testing.assert_allclose(heads[:, j], heads[:, PARENTS[j]] + carried, atol=EXACT)
        np.testing.assert_allclose(same_heads, heads, atol=10 * EXACT)
        np.testing.assert_allclose(rotations.matrix_from_quaternion(as_quaternions), turned, atol=10 * EXACT)
    assert np.array_equal(fk.walk(PARENTS, local[0], still)[1][0], still[0])


def test_a_walk_of_one_pose_and_of_none_keep_their_shapes(rng: np.random.Generator) -> None:
    local, offsets = rotations.matrix_from_axis_angle(random_turns(rng, 3, len(PARENTS))), np.ones((len(PARENTS), 3))
    together = fk.walk(PARENTS, local, offsets)[1]
    np.testing.assert_allclose(fk.walk(PARENTS, local[1], offsets)[1], together[1], atol=EXACT)
    assert fk.walk(PARENTS, local[:0], offsets)[1].shape == (0, len(PARENTS), 3)
