# SPDX-License-Identifier: GPL-3.0-or-later
"""The Roles panel: roles are found, edited, mirrored, saved and shown, and used by everything that reads a rig."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import run_cli

from neural_network.motion import pose_set
from neural_network.rigs.roles import ROLE_NAMES, load_roles

from .conftest import EXTENSION, wing


def says(words: str, operator: Any, **given: Any) -> None:
    with pytest.raises(RuntimeError, match=words):
        operator(**given)


def roles(ob: Any) -> dict[str, str]:
    return {role: getattr(ob.neural_ik_roles, role) for role in ROLE_NAMES if getattr(ob.neural_ik_roles, role)}


def problems(ob: Any) -> dict[str, str]:
    return wing("blender.roles.editing").problems(ob)


def view() -> Any:
    import bpy

    return bpy.context.window_manager.neural_ik_roles_view


@pytest.fixture
def house(demo: Any) -> Any:
    """The demo character with unusual bone names: bone_00 and so on down the tree, with .L and .R for the sides."""
    import bpy

    renamed = {}
    for number, bone in enumerate(demo.data.bones):
        side = ".L" if bone.name.startswith("Left") else ".R" if bone.name.startswith("Right") else ""
        plain = bone.name.removeprefix("Left").removeprefix("Right")
        renamed.setdefault(plain, f"bone_{number:02}")
        bone.name = renamed[plain] + side
    bpy.ops.neural_ik.roles_find()
    return demo


NO_RIGIFY = 3
METARIGS = f"""
import os, sys
from pathlib import Path
import bpy
import addon_utils
if addon_utils.enable("rigify", default_set=True) is None:
    os._exit({NO_RIGIFY})
folder = Path(sys.argv[-1])
for name in [n for n in dir(bpy.ops.object) if n.endswith("_metarig_add")]:
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    getattr(bpy.ops.object, name)()
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / (name + ".blend")))
    if "human" in name:
        metarig = bpy.context.active_object
        bpy.ops.pose.rigify_generate()
        bpy.data.objects.remove(metarig)
        bpy.ops.wm.save_as_mainfile(filepath=str(folder / (name + " generated.blend")))
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture(scope="session")
def rigify_files(extension: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Rigify's metarigs, made in a separate process because the add-on makes Blender 4.2 crash when it quits."""
    import bpy

    folder = tmp_path_factory.mktemp("metarigs")
    env = {**os.environ, "BLENDER_USER_RESOURCES": str(folder / "user")}
    own = bpy.app.binary_path  # empty in the module
    start = [own, "-b", "--python-expr", METARIGS, "--"] if own else [sys.executable, "-c", METARIGS]
    done = subprocess.run([*start, str(folder)], env=env, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode == NO_RIGIFY:
        pytest.skip("this Blender comes without Rigify")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def open_rig(blender: ModuleType, path: Path) -> Any:
    """The armature in a file of :func:`rigify_files`."""
    blender.ops.wm.open_mainfile(filepath=str(path), load_ui=False)
    (ob,) = [ob for ob in blender.data.objects if ob.type == "ARMATURE"]
    blender.context.view_layer.objects.active = ob
    return ob


# ---- finding


def test_find_roles_finds_all_23_with_reasons(house: Any) -> None:
    editing = wing("blender.roles.editing")
    assert set(roles(house)) == set(ROLE_NAMES)
    assert problems(house) == {}
    for role in ROLE_NAMES:
        sure, why = editing.explain(house, role)
        assert 0 < sure <= 1
        assert "its place in the body" in why


def test_names_of_the_built_in_rig_are_certain(demo: Any) -> None:
    import bpy

    bpy.ops.neural_ik.roles_find()
    assert roles(demo) == {role: role for role in ROLE_NAMES}
    assert wing("blender.roles.editing").explain(demo, "Head") == (1.0, "named as on the built-in rig")


def test_a_rig_that_is_no_human_gets_a_note_and_can_be_assigned_by_hand(empty: Any) -> None:
    import bpy

    bpy.ops.object.armature_add()
    ob = bpy.context.active_object
    bpy.ops.neural_ik.roles_find()
    assert roles(ob) == {}
    (note,) = wing("blender.roles.editing").found(ob).notes
    assert "no two pairs of limbs" in note
    with pytest.raises(ValueError, match="no two pairs of limbs"):
        wing("blender.host.rig").read(ob)
    ob.neural_ik_roles.Hips = "Bone"
    with pytest.raises(ValueError, match=r"no bone for LeftFoot, RightFoot.*choose them in the panel Roles"):
        wing("blender.host.rig").read(ob)


def test_an_armature_in_edit_mode_is_refused(demo: Any) -> None:
    import bpy

    bpy.ops.object.mode_set(mode="EDIT")
    try:
        says("Edit Mode", bpy.ops.neural_ik.roles_find)
    finally:
        bpy.ops.object.mode_set(mode="OBJECT")


# ---- Rigify


HUMANS = {
    "armature_human_metarig_add": {
        "Hips": "spine",
        "Spine": "spine.001",
        "Spine1": "spine.002",
        "Spine2": "spine.003",
        "NeckLower": "spine.004",
        "NeckUpper": "spine.005",
        "Head": "spine.006",
    },
    "armature_basic_human_metarig_add": {
        "Hips": "spine",
        "Spine": "spine.001",
        "Spine1": "spine.002",
        "Spine2": "spine.003",
        "NeckLower": "spine.004",
        "NeckUpper": "spine.005",
        "Head": "spine.006",
    },
}
LIMBS = {
    "Shoulder": "shoulder",
    "Arm": "upper_arm",
    "ForeArm": "forearm",
    "Hand": "hand",
    "Thigh": "thigh",
    "Shin": "shin",
    "Foot": "foot",
    "ToeBase": "toe",
}


@pytest.mark.parametrize("metarig", sorted(HUMANS))
def test_every_role_of_rigifys_human_metarigs_is_right(empty: Any, rigify_files: Path, metarig: str) -> None:
    ob = open_rig(empty, rigify_files / f"{metarig}.blend")
    empty.ops.neural_ik.roles_find()
    truth = dict(HUMANS[metarig])
    for side in ("Left", "Right"):
        truth |= {side + part: f"{bone}.{side[0]}" for part, bone in LIMBS.items()}
    assert roles(ob) == truth
    assert problems(ob) == {}
    rig = wing("blender.host.rig").read(ob)
    assert {role: rig.skeleton.names[j] for j, role in enumerate(rig.roles)} == truth


@pytest.mark.parametrize("metarig", sorted(HUMANS))
def test_every_role_of_the_rigs_that_rigify_generates_is_right(empty: Any, rigify_files: Path, metarig: str) -> None:
    ob = open_rig(empty, rigify_files / f"{metarig}.blend")
    empty.ops.neural_ik.roles_find()
    truth = {role: f"DEF-{bone}" for role, bone in roles(ob).items()}
    ob = open_rig(empty, rigify_files / f"{metarig} generated.blend")
    empty.ops.neural_ik.roles_find()
    assert roles(ob) == truth


def test_rigifys_animals_are_recognised_as_creatures(empty: Any, rigify_files: Path) -> None:
    found = [path for path in sorted(rigify_files.glob("*_metarig_add.blend")) if "human" not in path.name]
    assert len(found) >= 6
    for path in found:
        ob = open_rig(empty, path)
        empty.ops.neural_ik.roles_find()
        assert roles(ob) == {}, path.stem
        (note,) = wing("blender.roles.editing").found(ob).notes
        assert "a creature" in note, path.stem
        rig = wing("blender.host.rig").read(ob)
        assert any("read as a creature" in words for words in rig.notes), path.stem
        assert len(rig.skeleton.effectors) >= 2, path.stem


# ---- editing


def test_an_edit_changes_what_extract_produces(house: Any) -> None:
    import bpy

    walk = {"actions": "walk"}
    bpy.ops.neural_ik.extract_data(**walk)
    before = wing("blender.host.memory").memory.poses
    assert before.skeleton.count == 23
    foot = roles(house)["LeftFoot"]
    house.neural_ik_roles.LeftToeBase = ""
    house.neural_ik_roles.Spine1 = ""
    bpy.ops.neural_ik.extract_data(**walk)
    after = wing("blender.host.memory").memory.poses
    assert after.skeleton.count == 20, "two toes, one of them by the mirror, and one spine bone"
    assert set(before.skeleton.names) - set(after.skeleton.names) == {
        wing("blender.roles.editing").found(house).roles[role][0] for role in ("LeftToeBase", "RightToeBase", "Spine1")
    }
    assert foot in after.skeleton.names
    own, was = (p.skeleton.names.index(roles(house)["Spine2"]) for p in (after, before))
    turned = np.abs(after.rot[:, own] - before.rot[:, was]).max()
    assert turned > 1e-3, "the chest now includes the rotation of the bone below it"
    bpy.ops.neural_ik.roles_clear()
    bpy.ops.neural_ik.extract_data(**walk)
    assert wing("blender.host.memory").memory.poses.skeleton.names == before.skeleton.names


def test_live_ik_uses_edited_roles(house: Any) -> None:
    import bpy

    bpy.ops.neural_ik.load_weights()
    live_rig, net = wing("blender.host.rig_checks"), wing("blender.host.memory").memory.network
    assert live_rig.fit(house, net).roles == net.skeleton.names
    house.neural_ik_roles.LeftToeBase = ""
    with pytest.raises(ValueError, match=r"."):
        live_rig.fit(house, net)
    bpy.ops.neural_ik.roles_find()
    assert live_rig.fit(house, net).roles == net.skeleton.names


def test_an_edit_on_one_side_is_mirrored_by_name_or_by_position(house: Any) -> None:
    own = house.neural_ik_roles
    hand, arm = roles(house)["LeftHand"], roles(house)["LeftForeArm"]
    own.LeftHand = arm
    assert own.RightHand == arm.replace(".L", ".R")
    own.RightHand = hand.replace(".L", ".R")
    assert own.LeftHand == hand
    house.data.bones[own.RightHand].name = own.RightHand = "thing"  # no name indicates a side any more
    own.LeftHand = ""
    assert own.RightHand == ""
    own.LeftHand = hand
    assert own.RightHand == "thing"


def test_without_mirror_the_other_side_does_not_change(house: Any) -> None:
    before = roles(house)["RightHand"]
    view().mirror = False
    try:
        house.neural_ik_roles.LeftHand = ""
    finally:
        view().mirror = True
    assert house.neural_ik_roles.RightHand == before


def test_a_whole_side_is_mirrored(house: Any) -> None:
    import bpy

    before = roles(house)
    view().mirror = False
    try:
        for role in ROLE_NAMES:
            if role.startswith("Right"):
                setattr(house.neural_ik_roles, role, "")
        bpy.ops.neural_ik.roles_mirror(side="Left")
    finally:
        view().mirror = True
    assert roles(house) == before


def test_a_bone_with_two_roles_is_a_warning_in_the_panel_and_an_error_when_used(house: Any) -> None:
    import bpy

    view().mirror = False
    try:
        house.neural_ik_roles.RightHand = roles(house)["LeftHand"]
    finally:
        view().mirror = True
    wrong = problems(house)
    assert set(wrong) >= {"LeftHand", "RightHand"}
    assert "also LeftHand" in wrong["RightHand"]
    says("given two roles", bpy.ops.neural_ik.extract_data)


def test_a_child_above_its_parent_is_a_warning(house: Any) -> None:
    own, before = house.neural_ik_roles, roles(house)
    view().mirror = False
    try:
        own.LeftArm, own.LeftForeArm = before["LeftForeArm"], before["LeftArm"]
    finally:
        view().mirror = True
    wrong = problems(house)
    assert set(wrong) == {"LeftForeArm"}
    assert "is above" in wrong["LeftForeArm"]
    notes = wing("blender.host.rig").read(house).notes
    assert any("LeftForeArm" in note for note in notes)


def test_a_missing_bone_is_a_warning_in_the_panel_and_an_error_when_used(house: Any) -> None:
    import bpy

    house.data.bones[roles(house)["Head"]].name = "Skull"
    assert "no bone" in problems(house)["Head"]
    says("has no such bone", bpy.ops.neural_ik.extract_data)
    house.neural_ik_roles.Head = "Skull"
    assert problems(house) == {}
    assert wing("blender.roles.editing").explain(house, "Head") == (None, "set by hand")


def test_a_role_is_assigned_to_the_active_bone(house: Any) -> None:
    import bpy

    house.data.bones.active = house.data.bones[roles(house)["Spine1"]]
    bpy.ops.neural_ik.roles_from_active(role="Spine2")
    assert house.neural_ik_roles.Spine2 == house.neural_ik_roles.Spine1
    assert "a bone can have only one role" in problems(house)["Spine2"]
    says("unknown role 'Tail'", bpy.ops.neural_ik.roles_from_active, role="Tail")
    says("has no bone 'nothing'", bpy.ops.neural_ik.roles_pick, role="Head", bone="nothing")
    bpy.ops.neural_ik.roles_pick(role="Spine2", bone=roles(house)["Head"])
    assert house.neural_ik_roles.Spine2 == house.neural_ik_roles.Head


def test_bones_without_a_role_have_reasons_that_follow_edits(house: Any) -> None:
    editing, own = wing("blender.roles.editing"), house.neural_ik_roles
    head = own.Head
    own.Head = ""
    assert editing.left_out(house) == {"its role was removed by hand": [head]}
    own.Head = head
    assert editing.left_out(house) == {}


def test_the_eyedropper_takes_the_nearest_visible_bone(house: Any) -> None:
    import bpy

    nearest = wing("blender.roles.operators").nearest_bone

    class Region:
        width, height = 400, 400

    half = 1.2  # [m] seen from the front, orthographic: x to the right, z up, y away
    perspective = np.array([[1 / half, 0, 0, 0], [0, 0, 1 / half, -1 / half], [0, 0.1, 0, 0], [0, 0, 0, 1]])

    def at(bone: str) -> tuple[float, float]:
        pb = house.pose.bones[bone]
        x, _, z = house.matrix_world @ (0.5 * (pb.head + pb.tail))
        return (x / half + 1) * 200, ((z - 1) / half + 1) * 200

    bpy.context.view_layer.update()
    for role in ("Head", "LeftForeArm", "RightShin"):
        bone = roles(house)[role]
        assert nearest(house, perspective, Region, *at(bone)) == bone
    assert nearest(house, perspective, Region, 5, 5) == ""
    bone = roles(house)["LeftForeArm"]
    house.data.bones[bone].hide = True
    if hasattr(house.pose.bones[bone], "hide"):
        house.pose.bones[bone].hide = True
    assert nearest(house, perspective, Region, *at(bone)) != bone


# ---- stored in the file


def test_roles_survive_saving_and_loading(house: Any, tmp_path: Path) -> None:
    import bpy

    house.neural_ik_roles.NeckUpper = ""
    before = roles(house)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "house.blend"))
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "house.blend"))
    ob = bpy.data.objects["Neural IK Demo"]
    assert roles(ob) == before
    assert wing("blender.roles.editing").explain(ob, "Head")[0] is not None


def test_undo_reverts_an_edit(house: Any) -> None:
    import bpy

    if not bpy.ops.ed.undo_push.poll():
        pytest.skip("this Blender has no undo in background mode")
    before = roles(house)
    bpy.ops.ed.undo_push(message="before")
    house.neural_ik_roles.LeftHand = ""
    bpy.ops.ed.undo_push(message="edited")
    bpy.ops.ed.undo()
    assert roles(bpy.data.objects["Neural IK Demo"]) == before


def test_a_library_override_has_its_own_roles(house: Any, tmp_path: Path) -> None:
    import bpy

    name, before = house.name, roles(house)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    with bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True) as (_, wanted):
        wanted.objects = [name]
    linked = wanted.objects[0]
    bpy.context.scene.collection.objects.link(linked)
    bpy.context.view_layer.objects.active = linked
    assert roles(linked) == before
    says("make a library override", bpy.ops.neural_ik.roles_clear)
    own = linked.override_create(remap_local_usages=True)
    bpy.context.view_layer.objects.active = own
    own.neural_ik_roles.NeckUpper = ""
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    own = next(ob for ob in bpy.data.objects if ob.override_library is not None and ob.type == "ARMATURE")
    assert roles(own) == {role: bone for role, bone in before.items() if role != "NeckUpper"}


def test_damaged_results_in_the_file_lose_only_the_reasons(house: Any) -> None:
    editing = wing("blender.roles.editing")
    for text in ("{", "[1]", '{"roles": {"Head": 3}}', '{"left_out": "x"}'):
        house.neural_ik_roles.found = text
        assert editing.explain(house, "Head") == (None, "set by hand")
        assert wing("blender.host.rig").read(house).skeleton.count == 23


# ---- presets and files


def test_presets_are_saved_listed_loaded_and_deleted(house: Any) -> None:
    import bpy

    editing, before = wing("blender.roles.editing"), roles(house)
    bpy.ops.neural_ik.roles_save_preset(preset="House rig")
    assert [p.stem for p in editing.presets()] == ["House rig"]
    assert editing.presets()[0].parent == wing("blender.host.memory").folder() / "roles"
    bpy.ops.neural_ik.roles_clear()
    bpy.ops.neural_ik.roles_load_preset(preset="House rig")
    assert roles(house) == before
    bpy.ops.neural_ik.roles_delete_preset(preset="House rig")
    assert editing.presets() == []
    says("existing presets: none", bpy.ops.neural_ik.roles_load_preset, preset="House rig")


@pytest.mark.parametrize("name", ["", "  ", "../up", "a/b", "a\\b", "what?", ".hidden"])
def test_invalid_preset_names_are_refused(house: Any, name: str) -> None:
    import bpy

    says("preset", bpy.ops.neural_ik.roles_save_preset, preset=name)
    assert wing("blender.roles.editing").presets() == []


def test_conflicting_or_missing_roles_are_not_saved(house: Any, tmp_path: Path) -> None:
    import bpy

    path = tmp_path / "roles.json"
    view().mirror = False
    try:
        house.neural_ik_roles.RightHand = roles(house)["LeftHand"]
    finally:
        view().mirror = True
    says("given two roles", bpy.ops.neural_ik.roles_export, filepath=str(path))
    bpy.ops.neural_ik.roles_clear()
    says("no roles yet", bpy.ops.neural_ik.roles_export, filepath=str(path))
    says("no file was given", bpy.ops.neural_ik.roles_export)
    assert list(tmp_path.glob("roles*")) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[1, 2]", "expected"),
        ('{"roles": {"Tail": "x"}}', "there is no role 'Tail'"),
        ('{"roles": {"Head": 3}}', "bone name or null"),
        ('{"roles": {"Head": "nobody"}}', "no such bone"),
        ('{"roles": {}}', "assigns no bone to any role"),
    ],
)
def test_a_bad_file_is_reported_and_changes_nothing(house: Any, tmp_path: Path, text: str, words: str) -> None:
    import bpy

    before = roles(house)
    path = tmp_path / "bad.json"
    path.write_text(text)
    says(words, bpy.ops.neural_ik.roles_import, filepath=str(path))
    says("cannot be read", bpy.ops.neural_ik.roles_import, filepath=str(tmp_path / "missing.json"))
    assert roles(house) == before


BVH = """HIERARCHY
ROOT A
{{
 OFFSET 0 100 0
 CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
{body}}}
MOTION
Frames: 30
Frame Time: 0.0333333
{frames}
"""


def bvh_of(ob: Any, path: Path) -> Path:
    """Write a BVH file of a slightly swaying body on the armature's bones, in centimetres with Y up."""
    bones = list(ob.data.bones)

    def place(bone: Any) -> np.ndarray:
        x, y, z = bone.head_local
        return 100 * np.array([x, z, -y])

    def joint(bone: Any, depth: int) -> str:
        pad, offset = " " * depth, place(bone) - place(bone.parent)
        inner = "".join(joint(child, depth + 1) for child in bone.children)
        if not inner:
            x, y, z = bone.tail_local - bone.head_local
            inner = f"{pad} End Site\n{pad} {{\n{pad}  OFFSET {100 * x:.4f} {100 * z:.4f} {-100 * y:.4f}\n{pad} }}\n"
        head = f"{pad} OFFSET {offset[0]:.4f} {offset[1]:.4f} {offset[2]:.4f}\n"
        return (
            f"{pad}JOINT {bone.name}\n{pad}{{\n{head}{pad} CHANNELS 3 Zrotation Xrotation Yrotation\n{inner}{pad}}}\n"
        )

    (root,) = [bone for bone in bones if bone.parent is None]
    body = "".join(joint(child, 1) for child in root.children)
    x, y, z = place(root)
    frames = "\n".join(
        f"{x:.3f} {y:.3f} {z:.3f} " + " ".join(f"{3 * np.sin(0.2 * t + k):.3f}" for k in range(3 * len(bones)))
        for t in range(30)
    )
    path.write_text(BVH.format(body=body, frames=frames).replace("ROOT A", f"ROOT {root.name}"))
    return path


def test_a_file_saved_in_blender_is_read_by_the_terminal(house: Any, tmp_path: Path) -> None:
    import bpy

    house.neural_ik_roles.NeckUpper = ""
    path = tmp_path / "house.json"
    bpy.ops.neural_ik.roles_export(filepath=str(path))
    assert json.loads(path.read_text())["roles"]["NeckUpper"] is None
    names = [pb.name for pb in house.pose.bones]
    assert {r: names[j] for r, j in load_roles(path, names).bones.items() if j is not None} == roles(house)
    take = bvh_of(house, tmp_path / "sway.bvh")
    out = tmp_path / "sway.npz"
    done = run_cli("-m", "neural_network", "import", str(take), "--roles", str(path), "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert pose_set.load(out).frames > 0
    table = json.loads(path.read_text())
    table["roles"]["Head"] = "nobody"
    path.write_text(json.dumps(table))
    done = run_cli("-m", "neural_network", "import", str(take), "--roles", str(path), "--out", str(tmp_path / "no.npz"))
    assert done.returncode != 0, "the terminal ignored the file"


def test_a_file_of_the_terminal_is_read_in_blender(house: Any, tmp_path: Path) -> None:
    import bpy

    from neural_network.rigs.roles import named_roles, save_roles

    names = [pb.name for pb in house.pose.bones]
    chosen = {role: bone for role, bone in roles(house).items() if not role.endswith("ToeBase")}
    save_roles(tmp_path / "terminal.json", named_roles(chosen, names), names)
    bpy.ops.neural_ik.roles_import(filepath=str(tmp_path / "terminal.json"))
    assert roles(house) == chosen
    (tmp_path / "bare.json").write_text(json.dumps({role: chosen[role] for role in ("Hips", "LeftFoot", "RightFoot")}))
    bpy.ops.neural_ik.roles_import(filepath=str(tmp_path / "bare.json"))
    assert set(roles(house)) == {"Hips", "LeftFoot", "RightFoot"}
    assert wing("blender.host.rig").read(house).skeleton.count == 3


# ---- the overlay


def test_the_overlay_has_a_color_for_every_group_and_grey_for_other_bones(house: Any) -> None:
    overlay = wing("blender.roles.overlay")
    assert {overlay.GROUPS[overlay.group(role)] for role in ROLE_NAMES} == set(overlay.GROUPS)
    assert len(overlay.geometry(house, np.eye(4))[0]) == 0, "it is off"
    view().overlay = True
    house.neural_ik_roles.Head = ""
    corners, tints = overlay.geometry(house, np.eye(4))
    assert corners.shape == (3 * 8 * 23, 3)
    assert tints.shape == (3 * 8 * 23, 4)
    assert np.isfinite(corners).all()
    opacity = sorted({round(float(a), 3) for a in tints[:, 3]})
    assert opacity[0] == overlay._GREY[3]
    assert (tints[:24, 3] == overlay._GREY[3]).all(), "bones without a role are drawn first, below the others"
    assert (tints[24:, 3] > 0.3).all()
    faces = corners.reshape(-1, 8, 3, 3)
    middle = faces.mean(axis=(1, 2))[:, None]
    outward = np.cross(faces[:, :, 1] - faces[:, :, 0], faces[:, :, 2] - faces[:, :, 0])
    assert (np.sum(outward * (faces.mean(axis=2) - middle), axis=-1) > 0).all(), "a triangle is seen from inside"


def test_the_bone_under_the_eyedropper_is_white_even_without_the_overlay(house: Any) -> None:
    overlay = wing("blender.roles.overlay")
    overlay.highlight(roles(house)["Head"])
    corners, tints = overlay.geometry(house, np.eye(4))
    assert len(corners) == 24
    assert (tints[:, 3] == overlay._WHITE[3]).all()
    overlay.highlight("nothing of this name")
    assert len(overlay.geometry(house, np.eye(4))[0]) == 0
    overlay.highlight("")


def test_the_overlay_draws_nothing_in_background_mode_and_is_off_after_loading_a_file(house: Any) -> None:
    import bpy

    overlay = wing("blender.roles.overlay")
    before = {pb.name: (pb.bone.hide, pb.color.palette) for pb in house.pose.bones}
    view().overlay = True
    assert view().overlay
    assert bpy.app.background
    assert overlay._handles == []
    assert {pb.name: (pb.bone.hide, pb.color.palette) for pb in house.pose.bones} == before
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=False)
    assert not view().overlay


def test_disabling_leaves_no_property_and_no_class(house: Any) -> None:
    import addon_utils
    import bpy

    def traces() -> set[str]:
        found = {name for name in dir(bpy.types) if name.startswith("NEURAL_IK") and "role" in name.lower()}
        found |= {name for name in ("neural_ik_roles",) if hasattr(bpy.types.Object, name)}
        found |= {name for name in ("neural_ik_roles_view",) if hasattr(bpy.types.WindowManager, name)}
        return found

    assert len(traces()) > 5
    addon_utils.disable(EXTENSION)
    try:
        assert traces() == set()
    finally:
        addon_utils.enable(EXTENSION, default_set=True)
