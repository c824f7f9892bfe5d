# SPDX-License-Identifier: GPL-3.0-or-later
"""Editing roles: problems, reasons, and mirrored bones, on every family of rigs."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import slow_except

from benchmarks.rigs import FamilyRig, a_pose, all_rigs, turned
from neural_network.rigs.role_edits import mirror, other_side, part_of, problems, reasons, side_of, swap_sides
from neural_network.rigs.roles import ROLE_NAMES, find_roles, named_roles

RIGS = all_rigs()
STAR = np.array([-1, 0, 0])


def truth(rig: FamilyRig) -> dict[str, str]:
    return {role: names[0] for role, names in rig.roles.items() if names[0] is not None}


def tails(rig: FamilyRig) -> np.ndarray:
    """Where every bone ends: at its first child, or a little further on."""
    out = rig.heads.copy()
    for j in range(len(rig.names)):
        children = np.flatnonzero(rig.parents == j)
        above = rig.heads[rig.parents[j]] if rig.parents[j] >= 0 else rig.heads[j] - [0, 0, 0.1]
        out[j] = rig.heads[children[0]] if len(children) else rig.heads[j] + 0.5 * (rig.heads[j] - above)
    return out


@pytest.mark.parametrize("family", slow_except(RIGS, *list(RIGS)[::6]))
@pytest.mark.parametrize("pose", ["T-pose", "A-pose, facing elsewhere, Y up, centimetres"])
def test_every_bone_of_a_limb_is_mirrored_by_name_or_without(family: str, pose: str) -> None:
    rig = RIGS[family] if pose == "T-pose" else turned(a_pose(RIGS[family]), 40, y_up=True, unit=100)
    table, ends = truth(rig), tails(rig)
    for names in (rig.names, tuple(f"b{j:03}" for j in range(len(rig.names)))):
        own = {role: names[rig.names.index(bone)] for role, bone in table.items()}
        for role, bone in own.items():
            if other_side(role) in own:
                assert mirror(bone, own, names, rig.parents, rig.heads, ends) == own[other_side(role)], role


def test_a_bone_in_the_middle_has_no_partner() -> None:
    rig = RIGS["rigify metarig"]
    table = truth(rig)
    assert mirror(table["Head"], table, rig.names, rig.parents, rig.heads, tails(rig)) is None


def test_a_bone_far_from_the_mirrored_place_is_found_by_its_name_alone() -> None:
    names = ["hips", "claw.L", "hook.R"]
    heads = np.array([[0.0, 0, 1], [0.4, 0, 1], [-0.1, 0.5, 1.6]])
    ends = heads + [0, 0, 0.1]
    assert mirror("claw.L", {"Hips": "hips"}, names, STAR, heads, ends) is None
    assert mirror("claw.L", {"Hips": "hips"}, ["hips", "claw.L", "claw.R"], STAR, heads, ends) == "claw.R"


def test_a_bone_of_the_mirrored_name_far_away_loses_to_one_in_the_mirrored_place() -> None:
    names = ["hips", "hand.L", "thing", "hand.R"]
    heads = np.array([[0.0, 0, 1], [0.7, 0, 1.4], [-0.7, 0, 1.4], [0.1, 0.9, 0.2]])
    ends = heads + [0.1, 0, 0] * np.sign(heads[:, :1])
    assert mirror("hand.L", {"Hips": "hips"}, names, np.array([-1, 0, 0, 0]), heads, ends) == "thing"


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("hand.L", "hand.R"),
        ("mixamorig:LeftHand", "mixamorig:RightHand"),
        ("Bip01 L Hand", "Bip01 R Hand"),
        ("lfemur", "rfemur"),
        ("左手", "右手"),
        ("J_Bip_L_Hand", "J_Bip_R_Hand"),
        ("HAND_LEFT", "HAND_RIGHT"),
        ("shoulder.L.001", "shoulder.R.001"),
    ],
)
def test_words_for_left_and_right_are_exchanged(name: str, twin: str) -> None:
    names = [name, twin, "Spine", "leg", "reg"]
    assert swap_sides(name, names) == twin
    assert swap_sides(twin, names) == name
    assert swap_sides("Spine", names) == ""


@pytest.mark.parametrize("family", RIGS)
def test_a_correct_table_has_no_problems(family: str) -> None:
    rig = RIGS[family]
    assert problems(truth(rig), rig.names, rig.parents) == {}


def test_problems_are_reported_by_role() -> None:
    names, parents = ["pelvis", "thigh_l", "calf_l", "thigh_r"], np.array([-1, 0, 1, 0])
    right = {"Hips": "pelvis", "LeftThigh": "thigh_l", "LeftShin": "calf_l", "RightThigh": "thigh_r", "Head": ""}
    assert problems(right, names, parents) == {}
    gone = problems({**right, "LeftShin": "shin"}, names, parents)
    assert gone == {"LeftShin": "the skeleton has no bone 'shin'"}
    twice = problems({**right, "RightThigh": "thigh_l"}, names, parents)
    assert set(twice) == {"LeftThigh", "RightThigh"}
    assert "'thigh_l' is also LeftThigh" in twice["RightThigh"]
    swapped = problems({**right, "LeftThigh": "calf_l", "LeftShin": "thigh_l"}, names, parents)
    assert swapped == {"LeftShin": "'thigh_l' is above 'calf_l' in the skeleton, but LeftShin belongs below LeftThigh"}
    astray = problems({**right, "LeftShin": "thigh_r", "RightThigh": ""}, names, parents)
    assert astray == {"LeftShin": "'thigh_r' is not below 'thigh_l', which is LeftThigh"}


def test_reasons_include_what_the_names_suggest() -> None:
    rig = RIGS["mixamo"]
    why = reasons(find_roles(rig.names, rig.parents, rig.heads), rig.names)
    assert "its place in the body and its name" in why["LeftThigh"]
    assert "its place in the body and its name" in why["LeftHand"], "forty fingers do not make its word a prefix"
    blank = tuple(f"b{j:03}" for j in range(len(rig.names)))
    found = find_roles(blank, rig.parents, rig.heads)
    assert set(reasons(found, blank)) == {role for role, bone in found.bones.items() if bone is not None}
    assert "its name tells nothing" in reasons(found, blank)["LeftHand"]
    lying = named_roles({"LeftHand": "hand.R", "Head": "foot"}, ["hand.R", "foot"])
    assert "Its name says right; geometry was used" in reasons(lying, ["hand.R", "foot"])["LeftHand"]
    assert "although its name suggests Foot" in reasons(lying, ["hand.R", "foot"])["Head"]


def test_sides_and_parts_of_roles() -> None:
    assert {other_side(other_side(role)) for role in ROLE_NAMES if side_of(role)} == {
        r for r in ROLE_NAMES if side_of(r)
    }
    assert other_side("Head") == ""
    assert (part_of("LeftHand"), part_of("Spine2"), part_of("NeckUpper")) == ("Hand", "Trunk", "Neck")
