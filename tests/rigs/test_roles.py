# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bone is the left hand? By name, by structure and by motion, for any rest pose."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import slow_except

from benchmarks.creatures import CREATURES
from benchmarks.rigs import FamilyRig, a_pose, all_rigs, build, carrying, heaped, proportioned, turned, walk
from benchmarks.roles import right_roles, score_truth, swapped_names
from neural_network.rigs.creatures import find_effectors
from neural_network.rigs.rig_body import clip_evidence
from neural_network.rigs.roles import ROLE_NAMES, Roles, find_roles, load_roles, mirrored, save_roles

RIGS = all_rigs()


def wrong(rig: FamilyRig, roles: Roles) -> list[tuple[str, str | None]]:
    """Roles that went to another bone than they may."""
    found = {r: None if j is None else rig.names[j] for r, j in roles.bones.items()}
    return [(r, found[r]) for r, accepted in rig.roles.items() if found[r] not in accepted]


def meaningless(rig: FamilyRig) -> list[str]:
    return [f"q{chr(97 + j % 26)}{chr(97 + j // 26)}zz" for j in range(len(rig.names))]


def dog() -> tuple[list[str], np.ndarray, np.ndarray]:
    """A dog of invented lengths, facing -Y."""
    bones = [
        ("root", "", (0, 0, 0)),
        ("hips", "root", (0, 0.35, 0.55)),
        ("spine_a", "hips", (0, 0.15, 0.58)),
        ("spine_b", "spine_a", (0, -0.1, 0.58)),
        ("chest", "spine_b", (0, -0.3, 0.57)),
        ("neck", "chest", (0, -0.42, 0.62)),
        ("head", "neck", (0, -0.55, 0.75)),
        ("snout", "head", (0, -0.72, 0.72)),
        ("tail_1", "hips", (0, 0.42, 0.57)),
        ("tail_2", "tail_1", (0, 0.58, 0.6)),
        ("tail_3", "tail_2", (0, 0.74, 0.66)),
    ]
    for side, x in (("l", 1), ("r", -1)):
        bones += [
            (f"thigh_{side}", "hips", (0.08 * x, 0.36, 0.5)),
            (f"shin_{side}", f"thigh_{side}", (0.09 * x, 0.3, 0.3)),
            (f"hock_{side}", f"shin_{side}", (0.09 * x, 0.42, 0.14)),
            (f"paw_{side}", f"hock_{side}", (0.09 * x, 0.38, 0.03)),
            (f"toe_{side}", f"paw_{side}", (0.09 * x, 0.32, 0.02)),
            (f"shoulder_{side}", "chest", (0.06 * x, -0.32, 0.5)),
            (f"arm_{side}", f"shoulder_{side}", (0.08 * x, -0.38, 0.42)),
            (f"elbow_{side}", f"arm_{side}", (0.08 * x, -0.28, 0.25)),
            (f"frontpaw_{side}", f"elbow_{side}", (0.08 * x, -0.3, 0.04)),
            (f"fronttoe_{side}", f"frontpaw_{side}", (0.08 * x, -0.36, 0.02)),
        ]
    names = [n for n, _, _ in bones]
    parents = np.array([names.index(p) if p else -1 for _, p, _ in bones])
    return names, parents, np.array([h for _, _, h in bones], float)


@pytest.mark.parametrize("family", slow_except(RIGS, *list(RIGS)[::6]))
def test_every_family_is_recognised_in_any_rest_pose_facing_and_unit(family: str) -> None:
    rig = RIGS[family]
    poses = {
        "T-pose": rig,
        "A-pose, facing +X": turned(a_pose(rig, 50), 90),
        "facing +Y, inches": turned(a_pose(rig, 30), 180, unit=39.4),
        "Y up, centimetres": turned(rig, y_up=True, unit=100),
        "long legs": proportioned(rig, legs=1.2, arms=0.9),
    }
    found = {pose: wrong(rig, find_roles(r.names, r.parents, r.heads)) for pose, r in poses.items()}
    assert not any(found.values()), found


@pytest.mark.parametrize("family", slow_except(RIGS, *list(RIGS)[::6]))
def test_a_skeleton_with_a_meaningless_rest_pose_is_recognised_from_the_frames(family: str) -> None:
    rig = RIGS[family]
    names, parents, heads, evidence = clip_evidence(heaped(walk(rig)))
    assert not wrong(rig, find_roles(names, parents, heads, **evidence))


@pytest.mark.slow
def test_structure_alone_finds_nearly_all_roles_of_all_families() -> None:
    right = count = 0
    for rig in RIGS.values():
        for posed in (rig, a_pose(rig)):
            missed = wrong(rig, find_roles(meaningless(rig), posed.parents, posed.heads))
            right, count = right + len(ROLE_NAMES) - len(missed), count + len(ROLE_NAMES)
    assert right / count > 0.97, f"{right} of {count}"


@pytest.mark.parametrize(
    "family", ["mixamo", "3ds max biped", "reallusion cc", "unreal mannequin 5", "second life bento"]
)
def test_geometry_overrules_swapped_left_and_right_names_and_reports_them(family: str) -> None:
    rig = RIGS[family]
    names = swapped_names(rig.names)
    assert names != list(rig.names)
    roles = find_roles(names, rig.parents, rig.heads)
    assert not wrong(rig, roles)
    assert sum("left and right swapped" in n for n in roles.notes) == 2


def test_names_decide_the_side_if_geometry_cannot() -> None:
    rig = build(
        "no feet, straight limbs",
        """
Hips hips =Hips
 Spine spine =Spine
  Head neck =Head
  *Arm arm =Arm
   *ForeArm arm~wrist =ForeArm
    *Hand wrist =Hand
 *UpLeg thigh =Thigh
  *Leg thigh~ankle =Shin
   *Foot ankle =Foot
""",
        ("Right", "Left"),  # the truth is then mirrored: +X is "Right"
    )
    roles = find_roles(rig.names, rig.parents, rig.heads)
    assert roles.bones["LeftHand"] == rig.names.index("LeftHand")
    assert not any("left and right swapped" in n for n in roles.notes)


def test_parents_may_come_after_children() -> None:
    rig = RIGS["mixamo"]
    order = np.random.default_rng(3).permutation(len(rig.names))
    back = np.argsort(order)
    parents = np.array([-1 if rig.parents[j] < 0 else back[rig.parents[j]] for j in order])
    shuffled = replace(rig, names=tuple(rig.names[j] for j in order), parents=parents, heads=rig.heads[order])
    assert not wrong(shuffled, find_roles(shuffled.names, shuffled.parents, shuffled.heads))


@pytest.mark.slow
def test_a_bone_never_has_two_roles_and_chains_keep_their_order() -> None:
    for rig in RIGS.values():
        roles = find_roles(rig.names, rig.parents, rig.heads)
        played = [j for j in roles.bones.values() if j is not None]
        assert len(played) == len(set(played))
        for chain in (
            ("Spine", "Spine1", "Spine2", "NeckLower", "NeckUpper", "Head"),
            ("LeftThigh", "LeftShin", "LeftFoot"),
        ):
            bones = [roles.bones[r] for r in chain if roles.bones[r] is not None]
            for above, below in pairwise(bones):
                line, j = [], below
                while j >= 0:
                    line.append(j)
                    j = int(rig.parents[j])
                assert above in line


def test_what_is_skipped_has_a_reason() -> None:
    rig = RIGS["stylised, few bones"]
    roles = find_roles(rig.names, rig.parents, rig.heads)
    assert "control" in roles.skipped["kneeIK_l"]
    assert "prop" in roles.skipped["handslot_r"]
    assert "above the hips" in roles.skipped["root"]
    assert set(roles.skipped) | {rig.names[j] for j in roles.bones.values() if j is not None} == set(rig.names)


def test_confidence_is_lower_if_names_tell_nothing() -> None:
    rig = RIGS["unity humanoid"]
    sure = find_roles(rig.names, rig.parents, rig.heads).confidence
    unsure = find_roles(meaningless(rig), rig.parents, rig.heads).confidence
    assert all(0 <= v <= 1 for v in (*sure.values(), *unsure.values()))
    assert all(sure[r] > unsure[r] for r in ("LeftHand", "Hips", "RightShin"))


def test_a_distant_helper_changes_nothing() -> None:
    rig = RIGS["mixamo"]
    shin = rig.names.index("mixamorig:LeftLeg")
    far = replace(
        rig,
        names=(*rig.names, "L_Shin_MESH"),
        parents=np.append(rig.parents, shin),
        heads=np.vstack([rig.heads, [100.0, 3, 2]]),
    )
    roles = find_roles(far.names, far.parents, far.heads)
    assert not wrong(far, roles)
    assert "distant" in roles.skipped["L_Shin_MESH"]


def test_a_dog_is_not_human_even_with_human_names() -> None:
    names, parents, heads = dog()
    for called in (names, [f"b{j}x" for j in range(len(names))]):
        roles = find_roles(called, parents, heads)
        assert not roles.humanoid
        assert roles.notes


def test_effectors_of_a_dog_are_paws_tail_head_and_snout() -> None:
    names, parents, heads = dog()
    ends = find_effectors(names, parents, heads)
    assert names[ends.body] == "hips"
    found = {names[j] for j in ends.effectors}
    assert found == {"paw_l", "paw_r", "frontpaw_l", "frontpaw_r", "tail_3", "head", "snout"}
    assert {names[j] for j in ends.feet} == {"paw_l", "paw_r", "frontpaw_l", "frontpaw_r"}


def test_effectors_of_a_single_chain_are_its_tip() -> None:
    ends = find_effectors(["a", "b", "c"], np.array([-1, 0, 1]), np.array([[0, 0, 0], [0, 0, 1], [0, 0, 2.0]]))
    assert ends.effectors == (2,)


def test_no_bones_one_bone_and_props_are_not_human_and_do_not_crash() -> None:
    assert not find_roles([], np.zeros(0, int), np.zeros((0, 3))).humanoid
    assert not find_roles(["sword"], np.array([-1]), np.zeros((1, 3))).humanoid
    line = find_roles([f"rope{j}" for j in range(30)], np.arange(30) - 1, np.arange(90.0).reshape(30, 3))
    assert not line.humanoid
    assert not find_roles(["a", "b"], np.array([-1, 0]), np.zeros((2, 3))).humanoid


def test_bad_arrays_are_refused_with_a_message() -> None:
    with pytest.raises(ValueError, match="cycle"):
        find_roles(["a", "b"], np.array([1, 0]), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="expected 2 parents"):
        find_roles(["a", "b"], np.array([-1]), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="finite"):
        find_roles(["a"], np.array([-1]), np.full((1, 3), np.nan))
    with pytest.raises(ValueError, match="got none"):
        find_effectors([], np.zeros(0, int), np.zeros((0, 3)))


def test_roles_files_round_trip(tmp_path: Path) -> None:
    rig = RIGS["vroid"]
    roles = find_roles(rig.names, rig.parents, rig.heads)
    save_roles(tmp_path / "vroid.json", roles, rig.names)
    assert load_roles(tmp_path / "vroid.json", rig.names).bones == roles.bones
    assert [p.name for p in tmp_path.iterdir()] == ["vroid.json"]


def test_a_bare_table_of_some_roles_is_a_valid_roles_file(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps({"Hips": "b", "Head": None}), encoding="utf-8")
    roles = load_roles(tmp_path / "r.json", ["a", "b"])
    assert roles.bones["Hips"] == 1
    assert sum(j is not None for j in roles.bones.values()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[1, 2]", "expected"),
        ('{"roles": {"Hip": "a"}}', "there is no role 'Hip'"),
        ('{"roles": {"Hips": "c"}}', "no such bone; it has a, b"),
        ('{"roles": {"Hips": "a", "Head": "a"}}', "two roles"),
        ('{"roles": {"Hips": 7}}', "name or null, got 7"),
        ('{"roles": {"Hips": ["a"]}}', "name or null"),
    ],
)
def test_wrong_roles_files_say_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        load_roles(tmp_path / "r.json", ["a", "b"])


def test_a_missing_roles_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.json"):
        load_roles(tmp_path / "none.json", ["a"])


def test_mirroring_twice_gives_the_same_roles() -> None:
    rig = RIGS["mixamo"]
    roles = find_roles(rig.names, rig.parents, rig.heads)
    assert mirrored(roles).bones["LeftHand"] == roles.bones["RightHand"]
    assert mirrored(mirrored(roles)).bones == roles.bones


@pytest.mark.slow
@pytest.mark.parametrize(("names", "least"), [("true", 0.99), ("random", 0.95), ("swapped", 0.99)])
def test_motion_capture_files_are_recognised(mocap: Path, names: str, least: float) -> None:
    table = score_truth(mocap, names, files_each=2)
    assert table
    assert all(row.recognised == row.files for row in table)
    assert sum(row.right for row in table) >= least * sum(row.count for row in table)
    assert right_roles(table) >= least
    if names == "swapped":
        assert all(row.reported == row.files for row in table)


# ---------------------------------------------------------------- animals' legs, creatures, names that agree

TRUNK_BONES = (
    *(("Body", "", (0, 0, 2.7)), ("Torso", "Body", (0, 0, 2.9)), ("Chest", "Torso", (0, 0.1, 3.5))),
    *(("Neck", "Chest", (0, 0.1, 4.4)), ("Head", "Neck", (0, 0, 4.8))),
)
ARM_BONES = (
    *(("Shoulder", "Chest", (0.3, 0.1, 4.2)), ("UpperArm", "Shoulder", (0.7, 0.1, 4.2))),
    *(("LowerArm", "UpperArm", (1.7, 0.12, 4.2)), ("Hand", "LowerArm", (2.7, 0.08, 4.2))),
)
HOCKED_LEG = (
    *(("UpperLeg", "Body", (0.5, 0.1, 2.6)), ("MidLeg", "UpperLeg", (0.5, -0.9, 1.9))),
    *(("LowerLeg", "MidLeg", (0.5, 0.5, 1.1)), ("Foot", "LowerLeg", (0.5, -0.9, 0.1))),
)
HOCKED_TOE = ("Toe", "Foot", (0.5, -1.3, 0.0))
BACKWARD_LEG = (
    *(("UpperLeg", "Body", (0.5, 0.0, 2.6)), ("LowerLeg", "UpperLeg", (0.5, 0.3, 1.3))),
    ("Foot", "LowerLeg", (0.5, 0.0, 0.1)),
)

Bone = tuple[str, str, tuple[float, float, float]]


def two_sided(
    side: tuple[Bone, ...], letters: tuple[str, str] = ("L", "R")
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, parents and heads of a figure that faces -Y: the trunk, and ``side`` at +X with the first letter, mirrored."""
    bones = list(TRUNK_BONES)
    for letter, way in zip(letters, (1, -1), strict=True):
        bones += [
            (f"{n}.{letter}", p if p in ("Body", "Chest") else f"{p}.{letter}", (way * x, y, z))
            for n, p, (x, y, z) in side
        ]
    names = [n for n, _, _ in bones]
    parents = np.array([names.index(p) if p else -1 for _, p, _ in bones])
    return names, parents, np.array([h for *_, h in bones], float)


@pytest.mark.parametrize("toe", [(), (HOCKED_TOE,)], ids=["without toes", "with toes"])
@pytest.mark.parametrize("named", [True, False], ids=["with names", "without names"])
def test_four_leg_bones_with_a_hock_are_an_animal_s_leg(toe: tuple[Bone, ...], named: bool) -> None:
    names, parents, heads = two_sided((*ARM_BONES, *HOCKED_LEG, *toe))
    roles = find_roles(tuple(names) if named else tuple(f"b{j}" for j in range(len(names))), parents, heads)
    for role, bone in (("Hand", "Hand.L"), ("Thigh", "UpperLeg.L"), ("Shin", "MidLeg.L"), ("Foot", "Foot.L")):
        found = roles.bones[f"Left{role}"]
        assert found is not None
        assert names[found] == bone, (role, names[found], roles.notes)
    assert not roles.notes


def test_a_single_bend_does_not_overrule_names_that_all_agree() -> None:
    names, parents, heads = two_sided((*ARM_BONES, *BACKWARD_LEG))
    heads[[names.index("LowerArm.L"), names.index("LowerArm.R")], 1] = 0.09  # straight arms
    roles = find_roles(tuple(names), parents, heads)
    assert names[roles.bones["LeftThigh"] or 0] == "UpperLeg.L"
    assert names[roles.bones["LeftHand"] or 0] == "Hand.L"
    assert any("the knees bend as if left and right were swapped" in note for note in roles.notes)


def test_two_bends_overrule_names_even_if_all_agree() -> None:
    names, parents, heads = two_sided((*ARM_BONES, *BACKWARD_LEG), ("L", "R"))
    for side in "LR":
        heads[names.index(f"LowerArm.{side}"), 1] = -0.2  # elbows that point ahead, as knees point back
    roles = find_roles(tuple(names), parents, heads)
    assert names[roles.bones["LeftThigh"] or 0] == "UpperLeg.R"
    assert sum("left and right swapped" in note for note in roles.notes) == 2


def spider() -> tuple[list[str], np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    path = Path(__file__).resolve().parents[1] / "doubtful" / "03_spider_rest.json"
    data = json.loads(path.read_text())
    tips = {int(j): np.array(tip) for j, tip in data["tips"].items()}
    return data["names"], np.array(data["parents"]), np.array(data["heads"]), tips


@pytest.mark.parametrize("named", [True, False])
def test_a_spider_is_no_person_and_that_is_said(named: bool) -> None:
    names, parents, heads, tips = spider()
    roles = find_roles(names if named else [f"b{j}" for j in range(len(names))], parents, heads, tips=tips)
    assert not roles.humanoid
    assert "creature" in roles.notes[0]


@pytest.mark.parametrize("name", list(CREATURES))
def test_creatures_are_no_persons_whatever_their_bones_are_called(name: str) -> None:
    creature = CREATURES[name]
    roles = find_roles([f"b{j}" for j in range(len(creature.names))], creature.parents, creature.heads)
    assert not roles.humanoid


@pytest.mark.parametrize("word", ["Dummy", "Helper", "_adj", "Nub"])
def test_a_word_for_helpers_does_not_hide_the_only_neck_or_head(word: str) -> None:
    for hidden in ("Neck", "Head"):
        names, parents, heads = two_sided((*ARM_BONES, *HOCKED_LEG))
        names[names.index(hidden)] = hidden + word
        names, parents, heads = (
            [*names, "HeadTop"],
            np.append(parents, names.index(hidden + word) if hidden == "Head" else names.index("Head")),
            np.concatenate([heads, [[0, 0, 5.4]]]),
        )
        roles = find_roles(tuple(names), parents, heads)
        assert roles.bones["Head"] is not None
        assert names[roles.bones["Head"]].startswith("Head")


def test_a_helper_beside_the_real_bone_stays_a_helper() -> None:
    names, parents, heads = two_sided((*ARM_BONES, *HOCKED_LEG))
    names += ["HeadDummy", "HeadDummyEnd"]
    parents = np.append(parents, [names.index("Neck"), len(names) - 2])
    heads = np.concatenate([heads, [[0, 0.3, 4.6], [0, 0.4, 4.7]]])
    roles = find_roles(tuple(names), parents, heads)
    assert names[roles.bones["Head"] or 0] == "Head"
    assert roles.skipped["HeadDummy"] == "a helper bone"


def test_thousands_of_bones_in_one_chain_cost_no_quadratic_time() -> None:
    count = 4000
    heads = np.zeros((count, 3))
    heads[:, 2] = np.arange(count)
    begin = time.process_time()
    find_roles([f"b{j}" for j in range(count)], np.arange(count) - 1, heads)
    assert time.process_time() - begin < 2


# ---------------------------------------------------------------- what a person carries


PROPS = {
    "a sword": ("{}Hand", (0, -0.05, 0), (0, -1.1, 0), "Sword"),
    "a staff": ("{}Hand", (0, 0, -0.1), (0, -0.1, 1.5), "Staff"),
    "an umbrella named after the hand": ("{}Hand", (0, -0.03, 0), (0, -0.4, 0.3), "{}HandUmbrella"),
    "a lance": ("{}Hand", (0, -0.1, 0), (0, -2.8, 0.4), "Lance"),
    "a bag": ("{}ForeArm", (0, 0, -0.05), (0, 0, -0.5), "Bag"),
    "a shield": ("{}ForeArm", (0, -0.06, 0), (0, -0.4, 0.1), "Shield"),
    "a banner": ("{}Arm", (0, 0.05, 0.05), (0, 0.1, 0.9), "Banner"),
    "a scabbard": ("Hips", (0.1, 0.1, 0), (0, 0.6, -0.5), "Scabbard"),
    "a holster": ("{}Thigh", (0, 0.1, -0.05), (0, 0.3, -0.5), "Holster"),
    "a tail": ("Hips", (0, 0.1, 0), (0, 0.8, -0.3), "Behind"),
    "a cape": ("Spine", (0, 0.12, 0.2), (0, 0.2, -1.1), "Sheet"),
}


@pytest.mark.parametrize("family", slow_except(RIGS, "mixamo", "kinect"))
def test_what_a_person_carries_on_one_side_changes_no_role(family: str) -> None:
    rig = RIGS[family]
    bodies = {True: find_roles(rig.names, rig.parents, rig.heads).bones}
    bodies[False] = find_roles(meaningless(rig), rig.parents, rig.heads).bones
    for side in ("Left", "Right"):
        for prop, (role, start, way, word) in PROPS.items():
            for bones in (1, 3, 5):
                held = carrying(rig, role.format(side), start, way, bones, word.format(side))
                for named in (True, False):
                    names = held.names if named else meaningless(held)
                    found = find_roles(names, held.parents, held.heads).bones
                    assert found == bodies[named], (prop, side, bones, named)


def test_a_sword_held_through_a_take_changes_no_role_even_if_the_rest_pose_is_none() -> None:
    held = carrying(RIGS["mixamo"], *("RightHand", (0, -0.05, 0), (0, -1.1, 0)), 3, "Sword")
    names, parents, heads, evidence = clip_evidence(heaped(walk(held)))
    assert not wrong(held, find_roles(names, parents, heads, **evidence))


def test_wings_beside_the_arms_change_no_role() -> None:
    rig = RIGS["mixamo"]
    for word in ("Wing", "Flap"):
        winged = rig
        for side, way in (("Left", 1), ("Right", -1)):
            winged = carrying(winged, "Spine1", (0.1 * way, 0.1, 0.1), (0.9 * way, 0.3, 0.4), 3, side + word)
        assert not wrong(winged, find_roles(winged.names, winged.parents, winged.heads))
