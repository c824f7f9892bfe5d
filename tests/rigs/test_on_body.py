# SPDX-License-Identifier: GPL-3.0-or-later
"""A character as the reference rig in its own lengths: where its bones are, and back, whatever its rest pose and facing."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ROUND_TRIP

from benchmarks.rigs import a_pose, all_rigs, skeleton, turned
from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.core.reference_rig import reference
from neural_network.core.skeleton import Skeleton
from neural_network.rigs import on_body

PLAYED = ("Hips", "LeftHand", "RightHand", "LeftFoot", "RightFoot", "LeftToeBase", "Head")


def of_family(family: str, degrees: float) -> tuple[Skeleton, tuple[str, ...]]:
    """A family's rig in A-pose that faces ``degrees`` from -Y, and the role of each of its bones."""
    rig = a_pose(turned(all_rigs()[family], degrees))
    own = skeleton(rig)
    role_of = {str(names[0]): role for role, names in rig.roles.items() if names[0] is not None}
    return own, tuple(role_of.get(name, name) for name in own.names)


@pytest.mark.parametrize(("family", "degrees"), [("reference", 0), ("mixamo", 90), ("smpl", 200)])
def test_the_body_is_where_the_character_is_and_the_way_back_is_exact(family: str, degrees: float) -> None:
    own, roles = (reference(), reference().names) if family == "reference" else of_family(family, degrees)
    who = on_body.character(own, roles)
    rng = np.random.default_rng(3)
    rot = rng.normal(0, 0.3, (5, own.count, 3)) * np.isin(roles, reference().names)[:, None]
    root_pos = rng.normal(0, 1, (5, 3))
    turns, root = on_body.to_body(who, rot, root_pos)
    heads = fk.armature_matrices(own, rot, root_pos)[..., :3, 3]
    _, on = fk.walk(who.body.parents, turns, who.body.offsets, root)
    for role in PLAYED:
        off = on[:, who.body.names.index(role)] - heads[:, who.roles[role]]
        assert np.abs(off).max() < 1e-6, role
    again, place = on_body.from_body(who, turns, root)
    moved = rotations.geodesic_angle(*(rotations.matrix_from_axis_angle(np.asarray(r, float)) for r in (again, rot)))
    assert moved.max() < 1e-6
    np.testing.assert_allclose(place, root_pos, atol=ROUND_TRIP)
