# SPDX-License-Identifier: GPL-3.0-or-later
"""What is interrupted in Blender, how, and what must be true afterwards. Runs in Blender only, for ``interruptions.py``."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import rigs
from neural_network import blender
from neural_network.blender.data import extract, mocap
from neural_network.blender.host import characters, jobs, keyframes, memory, runtime
from neural_network.blender.learn import trainer
from neural_network.blender.posing import baking, live_ik, scene_targets
from neural_network.blender.teach import listening, ticks
from neural_network.blender.teach.session import state as live
from neural_network.formats import bvh, importing
from neural_network.ik import network
from neural_network.motion import pose_set

from .interruptions import KINDS, MARK, REPO, surroundings
from .scene_state import World, differences, empty_file, into_window, open_file, state

bpy: Any = importlib.import_module("bpy")
Vector: Any = importlib.import_module("mathutils").Vector


# ---- interruptions: each changes the file as a user in another window, or an event, might


def _ob(world: World) -> Any:
    return bpy.data.objects[world.name]


def _edit_mode(world: World) -> None:
    bpy.context.view_layer.objects.active = _ob(world)
    bpy.ops.object.mode_set(mode="EDIT")


def _rest_position(world: World) -> None:
    _ob(world).data.pose_position = "REST"


def _delete_bone(world: World) -> None:
    _edit_mode(world)
    bones = _ob(world).data.edit_bones
    bones.remove(bones["prop"])
    bpy.ops.object.mode_set(mode="OBJECT")


def _delete_character(world: World) -> None:
    bpy.data.objects.remove(_ob(world))


def _delete_action(world: World) -> None:
    bpy.data.actions.remove(bpy.data.actions["run"])


def _new_constraint(world: World) -> None:
    constraint = _ob(world).pose.bones["LeftShin"].constraints.new("COPY_ROTATION")
    constraint.target, constraint.subtarget = _ob(world), "RightShin"


def _other_action(world: World) -> None:
    world.play(_ob(world), "run")


def _other_scene(world: World) -> None:
    bpy.context.window.scene = bpy.data.scenes.new("Other")


def _other_file(world: World) -> None:
    empty_file()


def _undo(world: World) -> None:
    bpy.ops.ed.undo()


def _save(world: World) -> None:
    bpy.ops.wm.save_as_mainfile(filepath=str(world.folder / "saved.blend"), copy=True)


def _delete_targets(world: World) -> None:
    for ob in [ob for ob in bpy.data.objects if ob.neural_ik_target.kind != "NONE"]:
        bpy.data.objects.remove(ob)


def _delete_collection(world: World) -> None:
    for collection in live_ik.collections():
        bpy.data.collections.remove(collection)


def _delete_armature(world: World) -> None:
    bpy.data.armatures.remove(_ob(world).data)


def _delete_scene(world: World) -> None:
    scene = bpy.context.scene
    bpy.data.scenes.new("Other")
    bpy.data.scenes.remove(scene)


def _clear_animation(world: World) -> None:
    _ob(world).animation_data_clear()


def _rotation_mode(world: World) -> None:
    _ob(world).pose.bones["LeftArm"].rotation_mode = "XYZ"


def _strength(world: World) -> None:
    for collection in live_ik.collections():
        settings: Any = collection
        settings.neural_ik_live.strength = 0.5


def _hide(world: World) -> None:
    _ob(world).hide_viewport = True


def _cancel_live_ik(world: World) -> None:
    for collection in live_ik.collections():
        live_ik.end(bpy.context, collection, keep=False)


CHANGES = (
    _edit_mode,
    _rest_position,
    _delete_bone,
    _delete_character,
    _delete_action,
    _new_constraint,
    _other_action,
    _other_scene,
    _other_file,
    _undo,
    _save,
)


@contextlib.contextmanager
def failing(places: list[tuple[Any, str]], at: int, error: BaseException) -> Iterator[None]:
    """While it lasts, the ``at``-th call of any of the functions (owner, name) raises ``error``."""
    calls = 0
    originals = [(owner, name, getattr(owner, name)) for owner, name in places]

    def wrapped(function: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                raise error
            return function(*args, **named)

        return call

    for owner, name, function in originals:
        setattr(owner, name, wrapped(function))
    try:
        yield
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def pump(work: Any, steps: int, interrupt: Callable[[Any], None] | None) -> tuple[str, Any]:
    """Drive a generator as the modal operator does, and interrupt it after ``steps``: how it ended, and its result."""

    job = jobs.RunningJob("fuzz", work, False, False)
    jobs.running = job
    try:
        for number in range(10**6):
            if number == steps and interrupt is not None:
                interrupt(work)
            if jobs.running is not job:
                return "cancelled", None
            try:
                next(work)
            except StopIteration as end:
                return (
                    ("finished", end.value) if number < steps or interrupt is None else ("finished after it", end.value)
                )
        return "endless", None
    except (ValueError, OSError, ReferenceError) as error:
        return f"in words: {error}", None
    except (MemoryError, KeyboardInterrupt, RuntimeError) as error:
        if "injected" not in str(error):
            raise
        return "error passed on", None
    finally:
        jobs.running = None
        work.close()


def ended_by(rng: np.random.Generator) -> tuple[str, Callable[[Any], None] | None]:
    """One of the ways in which a job ends without a change of the file: Esc, or an error at this step."""

    ways: list[tuple[str, Callable[[Any], None] | None]] = [
        ("Esc", lambda work: jobs.stop()),
        ("MemoryError", lambda work: work.throw(MemoryError("injected"))),
        ("KeyboardInterrupt", lambda work: work.throw(KeyboardInterrupt("injected"))),
        ("RuntimeError", lambda work: work.throw(RuntimeError("injected"))),
        ("nothing", None),
    ]
    return ways[int(rng.integers(len(ways)))]


Case = tuple[str, str, list[str]]
"""What interrupted it, how it ended, and the failures."""


def job_case(
    world: World, rng: np.random.Generator, begin: Callable[[Any], Any], most: int, check: Callable[[Any], list[str]]
) -> Case:
    """A job and what interrupts it, compared with the interruption alone."""
    change = CHANGES[int(rng.integers(len(CHANGES)))] if rng.random() < 0.6 else None
    undoable = change is _undo
    if undoable and not bpy.ops.ed.undo_push.poll():
        change, undoable = None, False

    def ready() -> Any:
        ob = world.fresh()
        if undoable:
            bpy.ops.ed.undo_push(message="one")
            bpy.data.objects.new("later", None)
            bpy.ops.ed.undo_push(message="two")
            ob = _ob(world)
        return ob

    ready()
    if change is not None:
        change(world)
    expected = state()
    steps = int(rng.integers(1, most))
    what, interrupt = (change.__name__, lambda work: change(world)) if change is not None else ended_by(rng)
    how, result = pump(begin(ready()), steps, interrupt)
    if how.startswith("finished"):
        return f"{what} at step {steps}", "finished", check(result)
    failures = differences(expected, state(), ("texts",))
    if change is _save:
        open_file(str(world.folder / "saved.blend"))
        failures += [f"in the saved file {text}" for text in differences(expected, state(), ("texts", "scene"))]
    return f"{what} at step {steps}", how.split(":")[0], failures


def extract_case(world: World, rng: np.random.Generator) -> Case:
    """Extract Data, by either path."""

    path = str(rng.choice(["fast", "evaluated", "evaluated"]))
    options = extract.Options(path=path, timeline=path == "evaluated" and rng.random() < 0.2)

    def begin(ob: Any) -> Any:
        chosen = extract.moving_actions(ob)
        return extract.extract(bpy.context.scene, ob, chosen, options)

    _, plain = pump(begin(world.fresh()), 0, None)

    def check(result: Any) -> list[str]:
        same = result.poses.rot.tobytes() == plain.poses.rot.tobytes()
        return [] if same and result.poses.root_pos.tobytes() == plain.poses.root_pos.tobytes() else ["other poses"]

    what, how, failures = job_case(world, rng, begin, 10 if path == "fast" else 46, check)
    return f"{path}{' timeline' if options.timeline else ''}, {what}", how, failures


def import_case(world: World, rng: np.random.Generator) -> Case:
    """Import Mocap onto the character."""

    takes = world.folder / "takes"
    if not takes.exists():
        takes.mkdir()
        for name in ("mixamo", "3ds max biped"):
            bvh.write(takes / f"{name} run.bvh", rigs.walk(rigs.all_rigs()[name], frames=20))
    files = sorted(takes.glob("*.bvh"))

    def begin(ob: Any) -> Any:
        return mocap.import_files(bpy.context, ob, files, importing.ImportOptions(fps=30.0))

    return job_case(world, rng, begin, 6, lambda result: [] if len(result.actions) == 2 else ["actions are missing"])


BAKE_CHANGES = (
    *(change for change in CHANGES if change not in (_other_file, _undo)),
    _delete_targets,
    _delete_collection,
    _delete_armature,
    _delete_scene,
    _clear_animation,
    _rotation_mode,
    _strength,
    _hide,
    _cancel_live_ik,
)


_SHOWS_NO_FRAME = (
    _delete_character,
    _delete_scene,
    _delete_armature,
    _clear_animation,
    _rotation_mode,
    _edit_mode,
    _delete_bone,
    _other_scene,
)


def bake_case(world: World, rng: np.random.Generator) -> Case:
    """Bake, interrupted between frames or while it writes keys: the actions stay as they were, and Cancel restores the pose."""

    if rng.random() < 0.5:
        return changed_bake_case(world, rng)
    ob = world.fresh(weights=True)
    begun = state()
    bpy.ops.neural_ik.live_start()
    drag(rng)
    before = state()
    into = str(rng.choice(["ACTION", "NEW", "NLA"]))
    what, interrupt = ended_by(rng)
    steps, at = int(rng.integers(1, 9)), int(rng.integers(1, 40))
    places = [(keyframes, name) for name in ("write_curve", "write_bones") if hasattr(keyframes, name)]
    guard = failing(places, at, MemoryError("injected")) if interrupt is None else contextlib.nullcontext()
    collection = live_ik.collection_of(ob)
    assert collection is not None
    with guard:
        how, _ = pump(baking.bake(bpy.context, collection, 3, 8, 1, into), steps, interrupt)
    what = what if interrupt is not None else f"error at key write {at}"
    if how.startswith("finished"):
        return f"{into}, {what}", how, []
    apart = ("texts",)
    failures = differences(before, state(), apart)
    if not bpy.ops.neural_ik.live_cancel.poll():
        return f"{into}, {what} at step {steps}", how, [*failures, "Cancel is not possible"]
    bpy.ops.neural_ik.live_cancel()
    return f"{into}, {what} at step {steps}", how, failures + differences(begun, state(), apart)


def changed_bake_case(world: World, rng: np.random.Generator) -> Case:
    """What a bake depends on is changed or deleted while it solves or checks: it says so, and only the change is left."""
    change = BAKE_CHANGES[int(rng.integers(len(BAKE_CHANGES)))]
    into, steps, seed = str(rng.choice(["ACTION", "NEW", "NLA"])), int(rng.integers(1, 12)), int(rng.integers(2**31))

    def ready() -> Any:
        ob = world.fresh(weights=True)
        bpy.ops.neural_ik.live_start()
        drag(np.random.default_rng(seed))
        return live_ik.collection_of(ob)

    def settled() -> dict[str, Any]:
        if change is not _delete_scene:
            bpy.context.scene.frame_set(bpy.context.scene.frame_current)
        bpy.context.view_layer.update()
        return state()

    ready()
    change(world)
    expected = settled()
    how, _ = pump(baking.bake(bpy.context, ready(), 3, 8, 1, into), steps, lambda work: change(world))
    what = f"{into}, {change.__name__} at step {steps}"
    if how.startswith("finished"):
        return what, how, [] if change is _delete_action else ["baked in spite of it"]
    # without its scene, its keys or its animation nothing can show the frame again that was shown before
    apart = ("texts", "pose of", "object") if change in _SHOWS_NO_FRAME else ("texts",)
    if change is _delete_collection:  # nobody moves what were its targets any more
        apart = ("texts", "object")
    failures = differences(expected, settled(), apart)
    if change is _save:
        open_file(str(world.folder / "saved.blend"))
        failures += [f"in the saved file {text}" for text in differences(expected, settled(), ("texts",))]
    return what, how.split(":")[0], failures


def drag(rng: np.random.Generator) -> None:
    """Move a few targets."""
    targets: list[Any] = [ob for ob in bpy.data.objects if ob.neural_ik_target.kind == "EFFECTOR"]
    for _ in range(int(rng.integers(1, 4))):
        target = targets[int(rng.integers(len(targets)))]
        target.location = target.location + Vector(rng.normal(0, 0.1, 3).tolist())
        bpy.context.view_layer.update()


def live_case(world: World, rng: np.random.Generator) -> Case:
    """Live IK started, dragged and ended; or failing while it starts."""

    world.fresh(weights=True)
    before = state()
    what = str(rng.choice(["cancel", "apply", "saved and loaded", "frames", "error at start", "undo"]))
    if what == "error at start":
        at = int(rng.integers(1, 8))
        places = [(runtime, "snapshot"), (scene_targets, "add_targets"), (scene_targets, "read_settings")]
        with failing(places, at, MemoryError("injected")), contextlib.suppress(RuntimeError, MemoryError):
            bpy.ops.neural_ik.live_start()
        if bpy.ops.neural_ik.live_cancel.poll():
            bpy.ops.neural_ik.live_cancel()
        return f"{what}, call {at}", "cancelled", differences(before, state())
    if what == "undo" and bpy.ops.ed.undo_push.poll():
        bpy.ops.ed.undo_push(message="before")
        bpy.ops.neural_ik.live_start()
        bpy.ops.ed.undo_push(message="Live IK")
        drag(rng)
        bpy.ops.ed.undo_push(message="drag")
        for _ in range(2):
            bpy.ops.ed.undo()
        bpy.context.view_layer.update()
        return what, "undone", differences(before, state())
    bpy.ops.neural_ik.live_start()
    drag(rng)
    if what == "saved and loaded":
        path = str(world.folder / "live.blend")
        bpy.ops.wm.save_as_mainfile(filepath=path)
        open_file(path)
    if what == "frames":
        for frame in (*rng.integers(1, 30, 3).tolist(), 7):
            bpy.context.scene.frame_set(frame)
        drag(rng)
    if what == "apply":
        bpy.ops.neural_ik.live_apply()
        return what, "applied", differences(before, state(), ("pose of",))
    bpy.ops.neural_ik.live_cancel()
    return what, "cancelled", differences(before, state())


def record_case(world: World, rng: np.random.Generator) -> Case:
    """Record, ended from outside: every recorded frame is in an action, or waits to be written into one."""

    ob = world.fresh()
    ticks.stop()
    live.record = live.unwritten = None
    bpy.ops.neural_ik.record()
    frames = sorted({7, *rng.integers(1, 40, int(rng.integers(1, 20))).tolist()})
    for frame in frames:
        bpy.context.scene.frame_set(frame)
    ways = ["stop", "server", "delete character", "delete bone", "other file", "undo", "error at write"]
    what = str(rng.choice(ways))
    actions = {action.name for action in bpy.data.actions}
    if what == "server":
        listening.listen(ob, 0)
        assert live.server is not None
        with failing([(live.server, "poll")], 1, AttributeError("injected")), contextlib.redirect_stderr(None):
            ticks._timer()
    elif what in ("delete character", "delete bone"):
        (_delete_character if what == "delete character" else _delete_bone)(world)
        ticks._timer()
    elif what == "other file":
        _other_file(world)
        actions = set()
    elif what == "undo" and bpy.ops.ed.undo_push.poll():
        bpy.ops.ed.undo_push(message="one")
        bpy.ops.ed.undo_push(message="two")
        bpy.ops.ed.undo()
        ticks._timer()
    elif what == "error at write":
        with (
            failing([(keyframes, "write_curve")], int(rng.integers(1, 20)), MemoryError("injected")),
            contextlib.suppress(RuntimeError, MemoryError),
        ):
            bpy.ops.neural_ik.record_stop()
        left = {action.name for action in bpy.data.actions} - actions
        if left:
            return what, "failed", [f"{', '.join(left)} is half written"]
    if bpy.ops.neural_ik.record_stop.poll():
        bpy.ops.neural_ik.record_stop()
    made = [action for action in bpy.data.actions if action.name not in actions]
    if len(made) != 1:
        return what, "lost", [f"{len(made)} actions were made"]
    first, last = (int(f) for f in made[0].frame_range)
    whole = first == frames[0] and last >= frames[-1]  # in real time a frame more may pass
    return what, "written", [] if whole else [f"frames {frames} are {first} to {last}"]


def train_case(world: World, rng: np.random.Generator) -> Case:
    """Train from the panel, ended in any way: no process stays, and weights and poses on disk are whole."""
    from neural_network.motion import pose_set

    world.fresh()
    bpy.ops.neural_ik.extract_data()
    bpy.ops.neural_ik.save_data()
    files = characters.training(bpy.context)
    weights = files.character.weights(characters.IK)
    poses = files.poses.read_bytes()
    before = state()
    cancel = world.folder / f"cancel {rng.integers(1 << 30)}"
    words = trainer.command(files.poses, weights, ["--no-beside", "--epochs", "60"])
    work = trainer.train(words, cancel)
    what = str(rng.choice(["closed", "cancel file", "killed", "undo", "other file", "to the end"]))
    jobs.running = jobs.RunningJob("Train", work, True, True)  # type: ignore[arg-type]
    polls = int(rng.integers(1, 60))
    for _ in range(polls):
        with contextlib.suppress(StopIteration):
            next(work)
        time.sleep(0.03)
    process = work.gi_frame.f_locals.get("process") if work.gi_frame is not None else None
    if what == "closed":
        jobs.stop()
    elif what == "cancel file":
        cancel.touch()
    elif what == "killed" and process is not None:
        process.kill()
    elif what == "undo" and bpy.ops.ed.undo_push.poll():
        bpy.ops.ed.undo_push(message="one")
        bpy.ops.ed.undo_push(message="two")
        bpy.ops.ed.undo()
    elif what == "other file":
        _other_file(world)
    failures = []
    if what in ("closed", "other file"):
        if process is not None and process.poll() is None:
            failures.append("the trainer still runs")
    else:
        end = time.monotonic() + 120
        with contextlib.suppress(StopIteration):
            while time.monotonic() < end:
                next(work)
                time.sleep(0.03)
        work.close()
    jobs.running = None
    if weights.exists():
        network.load(weights)
    if files.poses.read_bytes() != poses:
        failures.append("the poses changed")
    pose_set.load(files.poses)
    cancel.unlink(missing_ok=True)
    weights.unlink(missing_ok=True)
    if what != "other file":
        failures += differences(before, state())
    return f"{what} after {polls} looks", "trained" if what == "to the end" else "ended", failures


def save_case(world: World, rng: np.random.Generator) -> Case:
    """Save to Disk on a disk that fails: the file is the old one or the new one, and nothing lies beside it."""

    world.fresh()
    target = world.folder / "saves" / "poses.npz"
    target.parent.mkdir(exist_ok=True)
    bpy.ops.neural_ik.extract_data(actions="walk")
    bpy.ops.neural_ik.save_data(filepath=str(target))
    old = target.read_bytes()
    bpy.ops.neural_ik.extract_data(actions="walk\nkick")
    before = state()
    errors = [OSError(errno.ENOSPC, "injected"), MemoryError("injected"), KeyboardInterrupt("injected")]
    error = errors[int(rng.integers(len(errors)))]
    name = str(rng.choice(["fsync", "replace"]))
    with failing([(os, name)], 1, error), contextlib.suppress(RuntimeError, KeyboardInterrupt, MemoryError):
        bpy.ops.neural_ik.save_data(filepath=str(target))
    failures = differences(before, state())
    if target.read_bytes() != old and len(pose_set.load(target).clip_names) != 2:
        failures.append("the file is neither the old nor the new one")
    beside = [path.name for path in target.parent.iterdir() if path != target]
    if beside:
        failures.append(f"left behind: {', '.join(beside)}")
    return f"{type(error).__name__} in {name}", "failed", failures


def kill_case(world: World, rng: np.random.Generator) -> Case:
    """Blender killed while it saves poses again and again: the file is whole."""

    target = world.folder / "killed" / "poses.npz"
    target.parent.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "tests.fuzz.interruptions", "saver", str(target), world.file]
    if not bpy.app.background:  # a Blender of its own, whose Python alone has no bpy
        script = str(Path(__file__).with_name("in_window.py"))
        words = [bpy.app.binary_path, "--background", "--python", script, "--", "saver", str(target), world.file]
    environment = surroundings()
    process = subprocess.Popen(words, cwd=REPO, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(b"saving"):
            break
    wait = float(rng.uniform(0, 0.3))
    time.sleep(wait)
    process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    process.wait()
    process.stdout.close()
    count = len(pose_set.load(target).clip_names)
    return f"killed after {wait:.3f} s", "killed", [] if count in (1, 2) else [f"{count} clips"]


CASES: dict[str, Callable[[World, np.random.Generator], Case]] = {
    "extract": extract_case,
    "import": import_case,
    "bake": bake_case,
    "live": live_case,
    "record": record_case,
    "train": train_case,
    "save": save_case,
    "kill": kill_case,
}


def cases(seed: int, first: int, stop: int) -> None:
    """Run cases in this process, and print a line for each."""
    for line in each_case(seed, first, stop):
        print(line, flush=True)  # noqa: T201


def each_case(seed: int, first: int, stop: int) -> Iterator[str]:
    """Run cases in this process; yields a line after each."""
    with tempfile.TemporaryDirectory(prefix="nik_case_") as folder:
        into_window()
        world = World(Path(folder))
        for case in range(first, stop):
            into_window()
            kind = KINDS[case % len(KINDS)]
            try:
                what, outcome, failures = CASES[kind](world, np.random.default_rng([seed, case]))
            except Exception:
                what, outcome, failures = "", "raised", [" / ".join(traceback.format_exc().splitlines()[-6:])]
            row = {"case": case, "kind": kind, "what": what, "outcome": outcome, "failures": failures}
            yield MARK + json.dumps(row)


def saver(target: Path, file: str) -> None:
    """Save one clip and two clips in turn to ``target`` for ever."""

    path_of: Any = lambda *_, **__: str(target.parent / "user")  # noqa: E731
    bpy.utils.extension_path_user = path_of
    blender.register("neural_ik_fuzz")
    open_file(file)
    found = []
    for names in ("walk", "walk\nkick"):
        bpy.ops.neural_ik.extract_data(actions=names)
        assert memory.memory.poses is not None
        found.append(memory.memory.poses)
    pose_set.save(target, found[0])
    print("saving", flush=True)  # noqa: T201
    while True:
        for poses in found:
            memory.memory.take_poses(poses, "fuzz", "")
            bpy.ops.neural_ik.save_data(filepath=str(target))
