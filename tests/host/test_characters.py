# SPDX-License-Identifier: GPL-3.0-or-later
"""Several characters: each keeps its own poses and weights, and files of earlier versions are read in place or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_rig

from neural_network.core.skeleton import Skeleton
from neural_network.ik import network
from neural_network.ik.context import LAYOUTS
from neural_network.motion import pose_set

from .conftest import EXTENSION, kept, wing
from .test_words import edit, keep_actions, says


def memory() -> Any:
    return wing("blender.host.memory").memory


def folder() -> Path:
    return Path(wing("blender.host.memory").folder())


def activate(ob: Any) -> None:
    import bpy

    bpy.context.view_layer.objects.active = ob


def files() -> dict[str, bytes]:
    """Everything in the user's folder."""
    return {p.relative_to(folder()).as_posix(): p.read_bytes() for p in folder().rglob("*") if p.is_file()}


def skeleton_of(ob: Any) -> Skeleton:
    """The rig as the extension reads it."""
    found: Skeleton = wing("blender.host.rig").read(ob).skeleton
    return found


def untrained(skeleton: Skeleton, seed: int) -> network.Network:
    """A network that fits this rig and knows nothing."""
    rng, layout = np.random.default_rng(seed), LAYOUTS["hips"]
    inputs = rng.normal(size=(20, layout.input_count(skeleton)))
    return network.init(skeleton, layout, (4,), inputs, np.zeros(layout.output_count(skeleton)), rng)


def give_weights(ob: Any, seed: int) -> network.Network:
    """Weights saved as this character's own."""
    activate(ob)
    net = untrained(skeleton_of(ob), seed)
    own = wing("blender.host.characters").active(_context())
    network.save(wing("motion.characters").keep(folder(), own.skeleton, own.name).weights("ik"), net)
    return net


def give_earlier_weights(ob: Any, seed: int = 9) -> Path:
    """Weights of this rig where earlier versions kept them."""
    path = folder() / "weights" / "best.npy"
    network.save(path, untrained(skeleton_of(ob), seed))
    return path


def _context() -> Any:
    import bpy

    return bpy.context


def add(change: Any = None) -> Any:
    """Another demo character, its bones changed."""
    import bpy

    assert bpy.ops.neural_ik.add_demo_character(motion=False) == {"FINISHED"}
    ob = bpy.context.active_object
    if change is not None:
        edit(ob, change)
    return ob


def longer_arm(bones: Any) -> None:
    bones["LeftHand"].head.x += 0.05
    bones["LeftHand"].tail.x += 0.05


def without_toes(bones: Any) -> None:
    for side in ("Left", "Right"):
        bones.remove(bones[f"{side}ToeBase"])


def same(a: Any, b: network.Network) -> bool:
    return bool(np.array_equal(a.parameters, b.parameters))


@pytest.fixture
def two(demo: Any) -> tuple[Any, Any]:
    """Two characters with bones of the same names and one action for both; the second has a longer arm."""
    import bpy

    bpy.context.view_layer.update()
    keep_actions("walk")
    second = add(longer_arm)
    second.name = "Lanky"
    activate(demo)
    return demo, second


def extract_and_save(ob: Any) -> pose_set.PoseSet:
    import bpy

    activate(ob)
    assert bpy.ops.neural_ik.extract_data() == {"FINISHED"}
    assert bpy.ops.neural_ik.save_data() == {"FINISHED"}
    found: pose_set.PoseSet = memory().poses
    return found


def restart() -> None:
    """Switch the extension off and on: nothing stays in memory."""
    import addon_utils
    import bpy

    where = bpy.context.preferences.addons[EXTENSION].preferences.folder
    addon_utils.disable(EXTENSION)
    addon_utils.enable(EXTENSION, default_set=True)
    bpy.context.preferences.addons[EXTENSION].preferences.folder = where
    assert memory().poses is None
    assert memory().network is None


# ---- side by side


def test_a_second_character_leaves_the_first_ones_files_byte_for_byte(two: tuple[Any, Any]) -> None:
    import bpy

    first, second = two
    extract_and_save(first)
    assert bpy.ops.neural_ik.train(epochs=2) == {"FINISHED"}
    before = files()
    assert {Path(name).name for name in before} == {"character.json", "poses.npz", "ik.npy"}
    extract_and_save(second)
    assert bpy.ops.neural_ik.train(epochs=2) == {"FINISHED"}
    after = files()
    assert len(after) == 6
    assert {name: after[name] for name in before} == before
    bpy.ops.neural_ik.reset_weights()
    left = files()
    assert len(left) == 5
    assert {name: left[name] for name in before} == before


def test_resetting_leaves_weights_that_another_program_has_saved_since(two: tuple[Any, Any]) -> None:
    import bpy

    first, _ = two
    extract_and_save(first)
    give_weights(first, 0)
    bpy.ops.neural_ik.load_weights()
    (path,) = wing("blender.host.memory").folder().rglob("ik.npy")
    give_weights(first, 1)
    theirs = path.read_bytes()
    bpy.ops.neural_ik.reset_weights()
    assert wing("blender.host.memory").memory.network is None
    assert path.read_bytes() == theirs
    bpy.ops.neural_ik.reset_weights()
    assert not path.exists()


def test_each_character_gets_its_own_back_after_a_restart(two: tuple[Any, Any], tmp_path: Path) -> None:
    import bpy

    poses, nets = {}, {}
    for seed, ob in enumerate(two):
        poses[ob.name] = extract_and_save(ob).content_hash()
        nets[ob.name] = give_weights(ob, seed)
    path = str(tmp_path / "two.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    restart()
    bpy.ops.wm.open_mainfile(filepath=path)
    for name in (*poses, *poses):
        activate(bpy.data.objects[name])
        assert bpy.ops.neural_ik.load_data() == {"FINISHED"}
        assert bpy.ops.neural_ik.load_weights() == {"FINISHED"}
        assert memory().poses.content_hash() == poses[name]
        assert same(memory().network, nets[name])
        assert memory().network_from == name
        assert memory().trained == wing("blender.host.memory").written(kept().weights("ik")) != ""
        assert memory().network_note == memory().poses_note == ""
        assert memory().poses_from.startswith(name)


def test_a_character_is_found_again_when_it_is_renamed_moved_turned_and_scaled(two: tuple[Any, Any]) -> None:
    import bpy

    net = give_weights(two[0], 1)
    two[0].name = "Renamed"
    two[0].location, two[0].rotation_euler, two[0].scale = (3, 1, 0), (0.1, 0.4, 2.0), (2, 2, 2)
    _context().view_layer.update()
    activate(two[0])
    bpy.ops.neural_ik.load_weights()
    assert same(memory().network, net)
    assert memory().network_from == "Neural IK Demo"


def test_poses_in_memory_are_saved_for_the_character_they_came_from(two: tuple[Any, Any]) -> None:
    import bpy

    activate(two[0])
    bpy.ops.neural_ik.extract_data()
    activate(two[1])
    bpy.ops.neural_ik.save_data()
    assert [name for name in files() if name.endswith("poses.npz")] == [
        f"characters/Neural IK Demo-{skeleton_of(two[0]).fingerprint[:8]}/poses.npz"
    ]


def test_saving_says_where_two_characters_share_a_rig(demo: Any, capfd: pytest.CaptureFixture[str]) -> None:
    import bpy

    keep_actions("walk")
    for name, words in (("Hero", ""), ("Villain", ", where Hero is kept, which has the same rig")):
        demo.name = name
        extract_and_save(demo)
        assert f"poses.npz{words}\n" in capfd.readouterr().out
    assert len(list((folder() / "characters").iterdir())) == 1
    assert bpy.context.active_object == demo


def test_train_and_show_full_path_take_the_active_characters_files(two: tuple[Any, Any]) -> None:
    import bpy

    operators, characters = wing("blender.learn.operators"), wing("blender.host.characters")
    for ob in two:
        extract_and_save(ob)
    for ob in two:
        activate(ob)
        told = characters.training(bpy.context)
        assert (told.poses, told.character.folder) == (kept().poses, kept().folder)
        line = operators.commands(told)[1]
        assert str(kept().poses) in line
        assert str(kept().weights("ik")) in line
        assert bpy.ops.neural_ik.show_path() == {"FINISHED"}
    assert characters.training(bpy.context).character.name == "Lanky"


def test_live_ik_takes_each_characters_own_weights(two: tuple[Any, Any], tmp_path: Path) -> None:
    import bpy

    nets = [give_weights(ob, seed) for seed, ob in enumerate(two)]
    weights_for = wing("blender.host.characters").weights_for
    for ob, net in zip(two, nets, strict=True):
        activate(ob)
        assert bpy.ops.neural_ik.live_start() == {"FINISHED"}
        assert same(memory().network, net)
        assert memory().network_from == ob.name
    assert same(weights_for(two[0], show=False), nets[0])
    assert memory().network_from == "Lanky"
    chosen = untrained(skeleton_of(two[0]), 5)
    network.save(tmp_path / "chosen.npy", chosen)
    bpy.ops.neural_ik.load_weights(filepath=str(tmp_path / "chosen.npy"))
    assert all(same(weights_for(ob), chosen) for ob in two)


def test_chosen_weights_that_do_not_fit_give_way_to_the_characters_own(demo: Any, tmp_path: Path) -> None:
    import bpy

    own = give_weights(demo, 1)
    other = add(without_toes)
    nets = {"fits.npy": untrained(skeleton_of(other), 5), "foreign.npy": untrained(make_rig("tentacle"), 6)}
    for name, expected in (("fits.npy", nets["fits.npy"]), ("foreign.npy", own)):
        network.save(tmp_path / name, nets[name])
        assert bpy.ops.neural_ik.load_weights(filepath=str(tmp_path / name)) == {"FINISHED"}
        assert same(wing("blender.host.characters").weights_for(demo), expected)


@pytest.mark.parametrize("name", ["a/b\\c: *?", "CON", "..", ".hidden.", "尻尾のある猫", "Größe " * 10])
def test_characters_of_odd_names_are_saved_and_found(demo: Any, name: str) -> None:
    import bpy

    keep_actions("walk")
    demo.name = name
    extract_and_save(demo)
    memory().poses = None
    bpy.ops.neural_ik.load_data()
    assert memory().poses_from.startswith(demo.name)
    assert len(list((folder() / "characters").iterdir())) == 1
    assert [p.name for p in folder().parent.iterdir()] == ["user"]


# ---- files of earlier versions


def test_files_of_an_earlier_version_are_read_in_place_for_their_rig(two: tuple[Any, Any]) -> None:
    import bpy

    activate(two[0])
    bpy.ops.neural_ik.extract_data()
    bpy.ops.neural_ik.save_data(filepath=str(folder() / "training_data.npz"))
    poses = memory().poses.content_hash()
    path = give_earlier_weights(two[0])
    before = files()
    wing("blender.host.memory").start(EXTENSION)
    assert bpy.ops.neural_ik.load_data() == {"FINISHED"}
    assert bpy.ops.neural_ik.load_weights() == {"FINISHED"}
    assert memory().poses.content_hash() == poses
    assert same(memory().network, network.load(path))
    assert memory().network_from == "Neural IK Demo (best.npy of an earlier version)"
    assert memory().trained == wing("blender.host.memory").written(path)
    assert memory().poses_from.startswith("Neural IK Demo (training_data.npz of an earlier version)")
    assert files() == before
    assert bpy.ops.neural_ik.train(epochs=2) == {"FINISHED"}  # on the poses of the earlier version
    assert {name: files()[name] for name in before} == before
    assert memory().network_from == "Neural IK Demo"
    wing("blender.host.memory").start(EXTENSION)
    bpy.ops.neural_ik.load_weights()
    assert memory().network_from == "Neural IK Demo"  # its own win over those of the earlier version
    assert not same(memory().network, network.load(path))
    bpy.ops.neural_ik.reset_weights()
    assert {name: files()[name] for name in before} == before


@pytest.mark.parametrize(("change", "words"), [(longer_arm, "other proportions"), (without_toes, "23 bones, here 21")])
def test_files_of_an_earlier_version_for_another_rig_are_refused_in_words(demo: Any, change: Any, words: str) -> None:
    import bpy

    keep_actions("walk")
    bpy.ops.neural_ik.extract_data()
    bpy.ops.neural_ik.save_data(filepath=str(folder() / "training_data.npz"))
    path = give_earlier_weights(demo)
    before = files()
    other = add(change)
    for button in (bpy.ops.neural_ik.load_data, bpy.ops.neural_ik.load_weights):
        assert button() == {"FINISHED"}
    for note, source in (
        (memory().poses_note, memory().poses_from),
        (memory().network_note, memory().network_from),
    ):
        assert f"{other.name} has no " in note
        assert words in note
        assert "came with Neural IK" in note
        assert source == "came with Neural IK"
    assert str(path) in memory().network_note
    assert not same(memory().network, network.load(path))
    assert bpy.ops.neural_ik.load_weights(filepath=str(path)) == {"FINISHED"}
    assert same(memory().network, network.load(path))
    assert files() == before


def test_damaged_files_of_an_earlier_version_are_named_with_what_to_do(demo: Any) -> None:
    import bpy

    characters = wing("blender.host.characters")
    for path, button in (
        (characters.earlier_poses(), bpy.ops.neural_ik.load_data),
        (characters.earlier_weights(), bpy.ops.neural_ik.load_weights),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"damaged")
        says(f"of an earlier version: {path.name}: .*delete or rename", button)
    says("poses of an earlier version", bpy.ops.neural_ik.train)
    give_weights(demo, 1)
    assert bpy.ops.neural_ik.load_weights() == {"FINISHED"}


def test_a_damaged_file_of_a_character_is_named_and_nothing_else_is_loaded(demo: Any) -> None:
    import bpy

    give_weights(demo, 1)
    path = kept().weights("ik")
    path.write_bytes(b"damaged")
    says("the weights of Neural IK Demo: ik.npy: ", bpy.ops.neural_ik.load_weights)
    assert memory().network is None
    path.with_name("character.json").write_text("{}")
    assert bpy.ops.neural_ik.load_weights() == {"FINISHED"}
    assert "character.json is damaged" in memory().network_note
    assert path.read_bytes() == b"damaged"


# ---- without files of its own


def test_without_own_files_it_is_reported_what_was_loaded(demo: Any) -> None:
    import bpy

    bpy.ops.neural_ik.load_data()
    bpy.ops.neural_ik.load_weights()
    assert memory().poses_from == memory().network_from == "came with Neural IK"
    assert memory().poses_note == memory().network_note == ""
    assert not files()


def test_poses_that_cannot_train_a_character_are_refused(demo: Any) -> None:
    import bpy

    other = add(without_toes)
    says(f"{other.name} has no saved poses: Extract Data", bpy.ops.neural_ik.train)
    characters = wing("blender.host.characters")
    with pytest.raises(ValueError, match=f"{other.name} has no poses of its own.*cannot train it"):
        characters.training(bpy.context)
    assert not files()
    activate(demo)
    assert characters.training(bpy.context).shipped


def test_unsaved_poses_of_one_character_do_not_stop_the_training_of_another(demo: Any) -> None:
    import bpy

    keep_actions("walk")
    extract_and_save(demo)
    bpy.ops.neural_ik.extract_data()
    says("Save to Disk first", bpy.ops.neural_ik.train)
    add(without_toes)
    bpy.ops.neural_ik.extract_data()
    assert memory().poses.skeleton.count == 21
    says("Save to Disk first", bpy.ops.neural_ik.train)
    activate(demo)
    assert wing("blender.host.characters").why_no_training(bpy.context) == ""


def test_the_panel_tells_what_is_saved_for_the_active_character(two: tuple[Any, Any]) -> None:
    on_disk = wing("blender.host.main_panel").on_disk
    assert on_disk(_context()) == ""
    give_weights(two[0], 1)
    assert on_disk(_context()).startswith("weights 20")
    activate(two[1])
    assert on_disk(_context()) == ""


def test_what_panels_remember_of_a_rig_follows_its_changes(demo: Any) -> None:
    characters = wing("blender.host.characters")

    def drawn() -> int:
        return int(characters.drawn(_context()).skeleton.count)

    assert drawn() == 23
    first = characters.drawn(_context())
    assert characters.drawn(_context()) is first
    edit(demo, longer_arm)
    assert not wing("motion.characters").same_rig(characters.drawn(_context()).skeleton, first.skeleton)
    edit(demo, without_toes)
    assert drawn() == 21
    add()
    assert drawn() == 23
    activate(None)
    assert characters.drawn(_context()) is None
