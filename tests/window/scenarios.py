# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done in the window, run inside Blender: ``--python scenarios.py -- NAME ZIP OUT``."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import addon_utils
import bpy

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Blender runs this file as a script

import creature_scenarios
import drive
import gait_scenarios
import live_scenarios
import motion_scenarios
import role_scenarios
import teach_scenarios
import wing_scenarios
from drive import Gaps, Steps, inside, key, open_tab, picture, press, until, window

EXTENSION = "bl_ext.user_default.neural_ik"
NAME, ZIP, OUT = sys.argv[sys.argv.index("--") + 1 :][:3]


def wing(name: str) -> Any:
    """A module of the installed extension."""
    return sys.modules[f"{EXTENSION}.neural_network.blender.{name}"]


def keep() -> Any:
    return wing("host.memory").memory


def kept() -> Any:
    """The active character's folder and files."""
    characters = wing("host.characters")
    return characters.kept(characters.active(bpy.context))


def install() -> Steps:
    """Install the zip as a user does, with a folder of its own, and open the tab."""
    bpy.context.preferences.view.show_splash = False
    bpy.context.preferences.view.show_developer_ui = True  # buttons tell their commands
    bpy.ops.extensions.package_install_files(filepath=ZIP, repo="user_default", enable_on_install=False, overwrite=True)
    importlib.invalidate_caches()  # Python may have looked into the folder a moment before
    addon_utils.enable(EXTENSION, default_set=True)
    bpy.context.preferences.addons[EXTENSION].preferences.folder = tempfile.mkdtemp(prefix="neural_ik_")
    yield 0.3
    yield from open_tab()


def idle() -> bool:
    return wing("host.jobs").running is None


def state(ob: Any) -> dict[str, Any]:
    """What extraction changes meanwhile."""
    data = ob.animation_data
    return {
        "frame": bpy.context.scene.frame_current,
        "action": data.action.name,
        "slot": getattr(getattr(data, "action_slot", None), "identifier", ""),
        "nla": data.use_nla,
        "pose": [[round(v, 4) for row in pb.matrix_basis for v in row] for pb in ob.pose.bones],
        "modifiers": [(o.name, m.name, m.show_viewport) for o in bpy.data.objects for m in o.modifiers],
        "selected": sorted(o.name for o in bpy.context.view_layer.objects if o.select_get()),
    }


def newcomer() -> Steps:
    """From the zip to weights of one's own, the card and every step alone, by clicks; a picture of each and the longest gaps."""
    out = Path(OUT)
    yield from install()
    yield from picture(out / "1_installed.png")
    yield from press("neural_ik.add_demo_character")
    yield from until(lambda: bpy.data.objects.get("Neural IK Demo"), "the demo character")
    ob = bpy.data.objects["Neural IK Demo"]
    assert ob.location.x > 1, "it stands beside the cube, not in it"
    bpy.context.scene.frame_set(8)
    yield 0.8
    seen = live_scenarios.on_screen(ob.matrix_world @ ob.pose.bones["Head"].head)
    view = drive.region("WINDOW")
    assert view.x < seen[0] < view.x + view.width, "it is framed"
    assert view.y < seen[1] < view.y + view.height, "it is framed"
    yield from picture(out / "2_demo_character.png")

    figures = {}
    with Gaps() as plain:  # the window's own frame time: it is drawn all the while, as it is during training
        for _ in range(30):
            drive.area().tag_redraw()
            yield 0.1
    figures["longest gap, only drawing [ms]"] = round(plain.longest * 1000, 1)
    bpy.context.scene.neural_ik.epochs = 60  # enough for a curve, and quick with software rendering
    drive.presses.clear()
    yield from press("neural_ik.learn")
    yield from until(lambda: len(keep().curve) >= 30 or idle(), "half of the training", 200)
    assert not keep().unsaved
    assert kept().poses.exists()
    with inside():
        assert bpy.ops.neural_ik.live_start.poll(), "one can pose meanwhile"
    yield from picture(out / "3_learning.png")
    with Gaps() as training:
        while not idle():
            yield 0.05
    figures["longest gap, training [ms]"] = round(training.longest * 1000, 1)
    figures["epochs"] = len(keep().curve)
    assert keep().training.startswith("Trained Neural IK Demo, and all tests pass"), keep().training
    assert keep().network is not None
    assert keep().network_file == kept().weights("ik")
    assert len(drive.presses) <= 2, f"to weights of one's own: {drive.presses}"
    figures["presses to weights of one's own"] = len(drive.presses)
    yield from picture(out / "4_learned.png")
    with inside("UI"):
        bpy.ops.neural_ik.show_card("INVOKE_DEFAULT")
    yield from picture(out / "5_card.png")
    yield from key("ESC")

    yield from press("neural_ik.extract_data")
    yield from until(lambda: keep().unsaved and idle(), "the poses")
    yield from press("neural_ik.save_data")
    yield from until(lambda: not keep().unsaved, "the file")
    yield 0.6  # the panel has another line
    yield from press("neural_ik.show_path")
    yield from picture(out / "6_show_path.png")
    assert "standalone_trainer.py --data" in bpy.context.window_manager.clipboard
    yield from key("ESC")
    yield from press("neural_ik.load_weights")
    yield from press("neural_ik.run_tests")
    yield from until(lambda: keep().results and idle(), "the results")
    assert [line.passed for line in keep().results[:6]] == [True] * 6, keep().results
    assert "Neural IK Tests" in bpy.data.texts
    (out / "figures.json").write_text(json.dumps(figures) + "\n")


def begin(operator: str) -> Steps:
    """Start the slow way of a job, modal, and let it run a little."""
    with inside("UI"):
        if operator == "extract_data":
            bpy.ops.neural_ik.extract_data("INVOKE_DEFAULT", path="evaluated")
        else:
            bpy.ops.neural_ik.train("INVOKE_DEFAULT", epochs=100000)
    yield from until(lambda: idle() or wing("host.jobs").running.progress.done > 2, f"{operator} to be under way")
    assert not idle(), f"{operator} was over too soon"


def processes() -> list[str]:
    """The trainers that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(w.endswith(b"standalone_trainer.py") for w in words):
            found.append(" ".join(w.decode() for w in words))
    return found


def interrupted() -> Steps:
    """Esc, undo, another file and disabling the extension in the middle of each job."""
    yield from install()
    with inside():
        bpy.ops.neural_ik.add_demo_character()
    ob = bpy.data.objects["Neural IK Demo"]
    bpy.context.scene.frame_set(5)
    yield 0.3
    before = state(ob)

    yield from begin("extract_data")
    assert bpy.context.scene.frame_current != 5 or state(ob) != before
    yield from key("ESC")
    yield from until(idle, "Esc to end the extraction", 10)
    assert state(ob) == before
    assert keep().poses is None

    with inside():
        bpy.ops.ed.undo_push(message="a step to go back to")
        bpy.ops.ed.undo_push(message="a step to go back from")
    yield from begin("extract_data")
    with inside():
        bpy.ops.ed.undo()
    yield 0.5
    assert idle()
    ob = bpy.data.objects["Neural IK Demo"]
    bpy.context.scene.frame_set(5)
    yield 0.3
    assert state(ob) == before

    with inside():
        bpy.ops.neural_ik.extract_data()
        bpy.ops.neural_ik.save_data()
    assert keep().poses is not None

    yield from begin("train")
    assert processes()
    with inside():
        bpy.ops.ed.undo_push(message="work goes on")
        bpy.ops.ed.undo()
    yield 0.5
    assert not idle(), "undo must not end a training"
    yield from key("ESC")
    yield from until(idle, "Esc to end the training", 20)
    assert not processes()
    assert kept().weights("ik").exists(), "the best so far is kept"

    path = str(Path(tempfile.mkdtemp()) / "saved.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    for job in ("extract_data", "train"):
        yield from begin(job)
        bpy.ops.wm.open_mainfile(filepath=path, load_ui=False)
        yield from until(idle, f"the file to end {job}", 10)
        assert not processes()
        assert state(bpy.data.objects["Neural IK Demo"]) == before
        yield 0.3

    for job in ("extract_data", "train"):
        yield from begin(job)
        folder = wing("host.memory").folder()
        addon_utils.disable(EXTENSION)
        yield 0.5
        assert not processes()
        assert state(bpy.data.objects["Neural IK Demo"]) == before
        assert not [name for name in dir(bpy.types) if name.startswith("NEURAL_IK")]
        assert not hasattr(bpy.types.Scene, "neural_ik")
        addon_utils.enable(EXTENSION, default_set=True)
        bpy.context.preferences.addons[EXTENSION].preferences.folder = str(folder)
        yield from open_tab()
    assert window() is not None


def closing() -> Steps:
    """Blender is closed while it trains: the test outside sees that no process is left."""
    yield from install()
    with inside():
        bpy.ops.neural_ik.add_demo_character()
        bpy.ops.neural_ik.extract_data()
        bpy.ops.neural_ik.save_data()
    yield from begin("train")
    (Path(OUT) / "trainers.txt").write_text("\n".join(processes()))
    bpy.ops.wm.quit_blender()
    yield 60


def dragging() -> Steps:
    """Live IK by mouse and keys."""
    return live_scenarios.dragging(install, Path(OUT))


def roles() -> Steps:
    """The panel Roles by mouse."""
    return role_scenarios.roles(install, Path(OUT))


def quadruped() -> Steps:
    """A dog from its actions to a paw in the hand."""
    return creature_scenarios.quadruped(install, Path(OUT))


def flying() -> Steps:
    """The bird likewise."""
    return creature_scenarios.flying(install, Path(OUT))


def filling() -> Steps:
    """Two poses, Fill, Esc, Fill, Accept; see wing_scenarios."""
    return wing_scenarios.filling(install, Path(OUT))


def feet() -> Steps:
    """Sliding feet, contacts, Fix Feet, Accept; see wing_scenarios."""
    return wing_scenarios.feet(install, Path(OUT))


def physics() -> Steps:
    """A walk in the air, its score, Make Physical, Esc, Accept, undo; see wing_scenarios."""
    return wing_scenarios.physics(install, Path(OUT))


def gait() -> Steps:
    """From a preset to a loop that plays; see gait_scenarios."""
    return gait_scenarios.gait(install, Path(OUT))


def teaching() -> Steps:
    """The panel Live by clicks."""
    return teach_scenarios.teach(install, Path(OUT))


def carried() -> Steps:
    """A file that Blender reads, onto the character."""
    return motion_scenarios.carried(install, Path(OUT), lambda: wing("host.jobs").running)


SCENARIOS = {
    f.__name__: f
    for f in (
        carried,
        newcomer,
        interrupted,
        closing,
        dragging,
        roles,
        quadruped,
        flying,
        teaching,
        gait,
        filling,
        feet,
        physics,
    )
}
drive.run(SCENARIOS[NAME]())
