# SPDX-License-Identifier: GPL-3.0-or-later
"""Live learning in Blender: teaching from actions and over loopback, driving, recording, and a clean end."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import HOST, REPO

from neural_network.core import rotations
from neural_network.live import legs, tasks
from neural_network.live.client import Client
from neural_network.live.protocol import PING, POSE, PREDICT, SOLVE, TRAIN, Message, numbers

from .conftest import EXTENSION, wing
from .test_words import keep_actions, says

PATIENT = 120.0  # [s] for a busy computer; only a failing test waits that long
CLOSE = 1e-3  # [m] feet on their targets: through float32 channels, and targets within reach


@pytest.fixture
def teach(empty: ModuleType) -> Iterator[Any]:
    """The modules of the feature, with nothing active before and after."""
    module = parts()
    module.ticks.stop()
    for name, value in vars(module.session.LiveState()).items():
        setattr(module.session.state, name, value)
    yield module
    module.ticks.stop()


@pytest.fixture
def walker(teach: Any, demo: Any) -> Any:
    """The demo character with its walk alone."""
    keep_actions("walk")
    demo.animation_data.action = __import__("bpy").data.actions["walk"]
    slots = getattr(demo.animation_data.action, "slots", None)
    if slots:
        demo.animation_data.action_slot = slots[0]
    return demo


@pytest.fixture
def pupil(walker: Any) -> Any:
    """The character after its legs were taught from its walk by the button."""
    import bpy

    assert bpy.ops.neural_ik.teach() == {"FINISHED"}
    return walker


@pytest.fixture(scope="session")
def known() -> dict[str, bytes]:
    """Lesson files of the first test that taught one, for the other tests."""
    return {}


@pytest.fixture
def taught(walker: Any, known: dict[str, bytes]) -> Any:
    """The same character, taught once for all tests: the lesson is read from disk."""
    import bpy

    teach = parts()
    if not known:
        assert bpy.ops.neural_ik.teach() == {"FINISHED"}
        known.update({path.name: path.read_bytes() for path in teach.session.folder().glob("*.npz")})
        teach.session.state.lessons.clear()
    teach.session.folder().mkdir(parents=True, exist_ok=True)
    for name, content in known.items():
        (teach.session.folder() / name).write_bytes(content)
    return walker


def parts() -> Any:
    """The modules of the feature."""
    names = ("session", "lessons", "listening", "driving", "recording", "sending", "ticks")
    return SimpleNamespace(**{name: wing(f"blender.teach.{name}") for name in names})


def settings() -> Any:
    import bpy

    return bpy.context.window_manager.neural_ik_teach


def listen() -> int:
    """Press Listen on a free port; retries, because another program may take the port first."""
    import bpy

    for _ in range(50):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            settings().port = int(probe.getsockname()[1])
        try:
            assert bpy.ops.neural_ik.listen() == {"FINISHED"}
            return int(settings().port)
        except RuntimeError as error:
            if "another port" not in str(error):
                raise
    raise AssertionError("no port was free")


def traces() -> set[str]:
    """What would remain after the end: timer, targets, open port."""
    import bpy

    teach = parts()
    found = {"timer"} if bpy.app.timers.is_registered(teach.ticks._timer) else set()
    found |= {ob.name for ob in bpy.data.objects if teach.driving.TARGET in ob}
    return found | ({"server"} if teach.session.state.server is not None else set())


def world(ob: Any, bone: str) -> np.ndarray:
    return np.array(ob.matrix_world @ ob.pose.bones[bone].head)


def ticks(teach: Any, count: int, start: float = 1e6) -> None:
    import bpy

    for i in range(count):
        teach.ticks.tick(start + 0.01 * i)
        bpy.context.view_layer.update()


def meet(teach: Any, hello: dict[str, Any], port: int, **more: Any) -> Client:
    """A client in this process: both sides are polled in turn."""
    client = Client(hello, port=port, **more)
    await_message(teach, client, None)
    return client


def await_message(teach: Any, client: Client, kind: int | None) -> Any:
    """The next message of a type (None: until the handshake is answered); later ones are left for the next call.

    The handshake's answer and the first pose may arrive together, so nothing may be discarded.
    """
    got = come(teach, client, lambda got: client.answer if kind is None else kind in [m.type for m in got])
    if kind is None:
        client._unread = got
        return None
    at = [m.type for m in got].index(kind)
    client._unread = got[at + 1 :]
    return got[at]


def come(teach: Any, client: Client, enough: Callable[[list[Message]], object]) -> list[Message]:
    """Tick until ``enough`` of the received messages returns true, however long a busy computer takes."""
    got: list[Message] = []
    end = time.monotonic() + PATIENT
    while time.monotonic() < end:
        teach.ticks.tick(next(MOMENTS))
        got += client.poll()
        if enough(got):
            return got
        time.sleep(0.0005)
    raise TimeoutError(f"not enough arrived within {PATIENT:g} s: {[m.type for m in got]}")


MOMENTS = itertools.count(2e6, 1e-4)
"""Times for ticks: time passes slowly, so that no client is disconnected because the computer is busy."""


# ---- teach from action


def test_a_walk_teaches_the_legs_without_a_network(pupil: Any) -> None:
    teach = parts()
    lesson = teach.session.state.lessons[teach.session.state.latest]
    assert lesson.status == "solving"
    assert lesson.trainee.usual < lesson.trainee.settings.threshold
    assert len(lesson.curve) > 60
    assert lesson.curve[-1][1] < 0.5 * max(error for _, error in lesson.curve)
    assert not teach.session.active()
    assert traces() == set()


def test_what_was_taught_is_found_again_after_a_restart(pupil: Any) -> None:
    teach = parts()
    fingerprint, before = teach.lessons.lesson_for(pupil)
    teach.session.state.lessons.clear()
    again, lesson = teach.lessons.lesson_for(pupil)
    assert again == fingerprint
    assert lesson is not before
    assert (lesson.status, lesson.trainee.frames) == ("solving", before.trainee.frames)


def test_forgetting_removes_it_from_memory_and_disk(pupil: Any) -> None:
    import bpy

    teach = parts()
    assert len(list(teach.session.folder().glob("*.npz"))) == 1
    assert bpy.ops.neural_ik.teach_forget() == {"FINISHED"}
    assert list(teach.session.folder().glob("*.npz")) == []
    assert teach.lessons.lesson_for(pupil)[1] is None


def test_forgetting_leaves_what_another_program_has_saved_since(pupil: Any) -> None:
    import bpy

    teach = parts()
    (path,) = teach.session.folder().glob("*.npz")
    _, lesson = teach.lessons.lesson_for(pupil)
    other = teach.lessons.new_lesson("other", lesson.layout, lesson.trainee.settings, path)
    other.file.load(other.trainee)
    other.trainee.frames += 1
    other.file.save(other.trainee)
    theirs = path.read_bytes()
    assert bpy.ops.neural_ik.teach_forget() == {"FINISHED"}
    assert path.read_bytes() == theirs
    _, found = teach.lessons.lesson_for(pupil)
    assert found.trainee.frames == lesson.trainee.frames + 1
    assert bpy.ops.neural_ik.teach_forget() == {"FINISHED"}
    assert not path.exists()


def test_forgetting_what_is_kept_beside_leaves_the_file_of_the_other_program(pupil: Any) -> None:
    import bpy

    teach = parts()
    (path,) = teach.session.folder().glob("*.npz")
    _, lesson = teach.lessons.lesson_for(pupil)
    path.write_bytes(b"of another program")
    lesson.trainee.frames += 1
    lesson.file.save(lesson.trainee)
    assert lesson.file.path != path
    assert bpy.ops.neural_ik.teach_forget() == {"FINISHED"}
    assert not lesson.file.path.exists()
    assert path.read_bytes() == b"of another program"


def test_teaching_that_is_cancelled_changes_nothing(walker: Any) -> None:
    import bpy

    teach = parts()
    work = teach.lessons.teach(bpy.context.scene, walker, [walker.animation_data.action])
    for _ in range(60):
        next(work)
    work.close()
    assert teach.session.state.lessons == {}
    assert not teach.session.folder().exists()


def test_actions_that_cannot_be_taught_are_reported(walker: Any) -> None:
    import bpy

    says("no action called nothing", bpy.ops.neural_ik.teach, actions="nothing")
    walker.animation_data.action = None
    says("no action to teach", bpy.ops.neural_ik.teach)


def test_a_damaged_lesson_is_reported_and_can_be_forgotten(taught: Any) -> None:
    import bpy

    teach = parts()
    (path,) = teach.session.folder().glob("*.npz")
    path.write_bytes(path.read_bytes()[:1000])
    says("Press Forget to remove it", bpy.ops.neural_ik.drive)
    says("Press Forget to remove it", bpy.ops.neural_ik.teach)
    assert bpy.ops.neural_ik.teach_forget() == {"FINISHED"}
    says("was not taught yet", bpy.ops.neural_ik.drive)


# ---- drive


def test_the_feet_go_to_their_targets_and_bones_keep_their_lengths(taught: Any) -> None:
    import bpy

    teach = parts()
    knee = np.linalg.norm(world(taught, "LeftShin") - world(taught, "LeftThigh"))
    arm = np.array(taught.pose.bones["LeftArm"].matrix)
    assert bpy.ops.neural_ik.drive() == {"FINISHED"}
    target = bpy.data.objects[f"{taught.name} Left Foot"]
    assert np.allclose(world(taught, "LeftFoot"), target.matrix_world.translation, atol=1e-5)
    target.location.z += 0.12
    target.location.y -= 0.05
    bpy.context.view_layer.update()
    ticks(teach, 20)
    assert teach.session.state.drive.in_control
    assert np.linalg.norm(world(taught, "LeftFoot") - np.array(target.location)) < CLOSE
    assert abs(np.linalg.norm(world(taught, "LeftShin") - world(taught, "LeftThigh")) - knee) < HOST
    assert np.allclose(np.array(taught.pose.bones["LeftArm"].matrix), arm, atol=HOST)
    shown = world(taught, "LeftFoot")
    assert bpy.ops.neural_ik.drive_stop() == {"FINISHED"}
    bpy.context.view_layer.update()
    assert np.array_equal(world(taught, "LeftFoot"), shown)
    assert traces() == set()


@pytest.mark.parametrize("turn", [0.0, 2.0])
def test_a_turned_and_scaled_character_is_driven_where_it_stands(taught: Any, turn: float) -> None:
    import bpy

    teach = parts()
    taught.location, taught.rotation_euler.z, taught.scale = (30.0, -4.0, 2.0), turn, (2.0, 2.0, 2.0)
    bpy.context.view_layer.update()
    bpy.ops.neural_ik.drive()
    target = bpy.data.objects[f"{taught.name} Right Foot"]
    target.location.z += 0.2
    bpy.context.view_layer.update()
    ticks(teach, 20)
    assert np.linalg.norm(world(taught, "RightFoot") - np.array(target.location)) < 4 * CLOSE
    taught.rotation_euler.z += 0.3  # while driving, too
    bpy.context.view_layer.update()
    ticks(teach, 20)
    assert np.linalg.norm(world(taught, "RightFoot") - np.array(target.location)) < 4 * CLOSE


def test_a_lost_lesson_hands_the_legs_back(taught: Any) -> None:
    import bpy

    teach = parts()
    bpy.ops.neural_ik.drive()
    lesson = teach.session.state.lessons[teach.session.state.latest]
    lesson.trainee.state = 1
    target = bpy.data.objects[f"{taught.name} Left Foot"]
    target.location.z += 0.2
    bpy.context.view_layer.update()
    before = world(taught, "LeftFoot")
    ticks(teach, 5)
    assert lesson.status == "lost"
    assert not teach.session.state.drive.in_control
    assert np.array_equal(world(taught, "LeftFoot"), before)


def test_a_scene_at_rest_stays_at_rest(taught: Any) -> None:
    import bpy

    teach = parts()
    bpy.ops.neural_ik.drive()
    ticks(teach, 60)
    before = wing("blender.host.runtime").snapshot(taught)
    ticks(teach, 20)
    after = wing("blender.host.runtime").snapshot(taught)
    assert all(np.allclose(before[name], after[name], atol=1e-4) for name in before)


def test_the_legs_are_driven_while_the_timeline_plays(taught: Any) -> None:
    import bpy

    parts()
    bpy.ops.neural_ik.drive()
    scene = bpy.context.scene
    for frame in range(scene.frame_start, scene.frame_start + 6):
        scene.frame_set(frame)
        for side in ("Left", "Right"):
            target = bpy.data.objects[f"{taught.name} {side} Foot"]
            reach = np.linalg.norm(world(taught, f"{side}Thigh") - np.array(target.location))
            if reach < 0.9:
                assert np.linalg.norm(world(taught, f"{side}Foot") - np.array(target.location)) < CLOSE


def test_a_deleted_target_ends_driving_and_is_reported(taught: Any) -> None:
    import bpy

    teach = parts()
    bpy.ops.neural_ik.drive()
    bpy.data.objects.remove(bpy.data.objects[f"{taught.name} Left Foot"])
    ticks(teach, 1)
    assert teach.session.state.drive is None
    assert "was deleted" in teach.session.state.problem
    assert traces() == set()


def test_characters_that_cannot_be_driven_are_reported(walker: Any) -> None:
    import bpy

    says("was not taught yet", bpy.ops.neural_ik.drive)
    settings().source = "CLIENT"
    says("press Listen", bpy.ops.neural_ik.drive)
    settings().source = "FEET"


# ---- record


def test_a_driven_pose_is_recorded_to_an_action_that_plays_it_again(taught: Any) -> None:
    import bpy

    teach = parts()
    old = taught.animation_data.action
    bpy.ops.neural_ik.drive()
    teach.recording.record(bpy.context, taught, 1e6)
    target = bpy.data.objects[f"{taught.name} Left Foot"]
    seen = {}
    start, fps = bpy.context.scene.frame_current, bpy.context.scene.render.fps
    for i in range(30):
        target.location.z += 0.004
        bpy.context.view_layer.update()
        teach.ticks.tick(1e6 + (i + 0.5) / fps)
        bpy.context.view_layer.update()
        seen[start + i] = world(taught, "LeftFoot")
    assert bpy.ops.neural_ik.drive_stop() == {"FINISHED"}
    assert bpy.ops.neural_ik.record_stop() == {"FINISHED"}
    action = taught.animation_data.action
    assert action != old
    assert old.use_fake_user
    assert tuple(action.frame_range) == (start, start + 29)
    for frame, place in seen.items():
        bpy.context.scene.frame_set(frame)
        assert np.allclose(world(taught, "LeftFoot"), place, atol=1e-5)


def test_frames_of_the_timeline_are_recorded_where_it_plays(walker: Any) -> None:
    import bpy

    scene = bpy.context.scene
    scene.frame_set(3)
    bpy.ops.neural_ik.record()
    seen = {}
    for frame in range(3, 12):
        scene.frame_set(frame)
        seen[frame] = world(walker, "RightHand")
    bpy.ops.neural_ik.record_stop()
    assert tuple(walker.animation_data.action.frame_range) == (3, 11)
    for frame, place in seen.items():
        scene.frame_set(frame)
        assert np.allclose(world(walker, "RightHand"), place, atol=1e-5)


def test_a_session_is_one_undo_step(taught: Any) -> None:
    import bpy

    teach = parts()
    if not bpy.ops.ed.undo_push.poll():
        pytest.skip("this Blender has no undo in background mode")
    name = taught.name
    bpy.ops.ed.undo_push(message="before")
    before = world(taught, "LeftFoot")
    bpy.ops.neural_ik.drive()
    bpy.data.objects[f"{name} Left Foot"].location.z += 0.15
    bpy.context.view_layer.update()
    ticks(teach, 10)
    bpy.ops.neural_ik.drive_stop()
    moved = world(taught, "LeftFoot")
    assert np.linalg.norm(moved - before) > 0.1
    bpy.ops.ed.undo()
    ob = bpy.data.objects[name]
    bpy.context.view_layer.update()
    assert np.allclose(world(ob, "LeftFoot"), before, atol=1e-5)
    bpy.ops.ed.redo()
    ob = bpy.data.objects[name]
    bpy.context.view_layer.update()
    assert np.allclose(world(ob, "LeftFoot"), moved, atol=1e-5)


def recorded(ob: Any, frames: int = 6) -> None:
    """Record ``frames`` frames of the timeline."""
    import bpy

    bpy.context.scene.frame_set(3)
    assert bpy.ops.neural_ik.record() == {"FINISHED"}
    for frame in range(3, 3 + frames):
        bpy.context.scene.frame_set(frame)


def live_actions() -> list[Any]:
    import bpy

    return [action for action in bpy.data.actions if " Live" in action.name]


@pytest.mark.parametrize("damage", [AttributeError("a bug"), OSError("no space"), ValueError("a client")])
def test_a_failing_server_ends_neither_a_recording_nor_driving(taught: Any, damage: Exception) -> None:
    import bpy

    teach = parts()
    listen()
    assert bpy.ops.neural_ik.drive() == {"FINISHED"}
    recorded(taught)

    def fail(*_: Any) -> Any:
        raise damage

    teach.session.state.server.poll = fail
    teach.ticks._timer()
    assert teach.session.state.server is None
    assert str(damage) in teach.session.state.problem
    assert teach.session.state.drive is not None
    assert len(teach.session.state.record.frames) >= 6
    assert bpy.ops.neural_ik.record_stop() == {"FINISHED"}
    assert len(live_actions()) == 1


def test_a_recording_is_written_although_its_character_is_gone(walker: Any) -> None:
    import bpy

    teach = parts()
    recorded(walker)
    bpy.data.objects.remove(walker)
    teach.ticks.tick(1e6)
    assert teach.session.state.record is None
    assert "deleted" in teach.session.state.problem
    (action,) = live_actions()
    assert tuple(action.frame_range) == (3, 8)
    assert action.use_fake_user


def test_a_recording_is_written_when_bones_change(walker: Any) -> None:
    import bpy

    teach = parts()
    recorded(walker)
    bpy.ops.object.mode_set(mode="EDIT")
    walker.data.edit_bones.remove(walker.data.edit_bones["LeftToeBase"])
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.context.scene.frame_set(20)
    teach.ticks.tick(1e6)
    assert "have changed" in teach.session.state.problem
    (action,) = live_actions()
    assert tuple(action.frame_range) == (3, 8)


def test_a_recording_survives_another_file_and_a_failure_to_write_it(
    walker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bpy

    teach = parts()
    recorded(walker)
    bpy.ops.wm.read_homefile(use_empty=True)
    assert live_actions() == []
    assert len(teach.session.state.unwritten.frames) == 6
    bpy.ops.neural_ik.add_demo_character()
    says("Write Recording first", bpy.ops.neural_ik.record)
    keyframes = wing("blender.host.keyframes")

    def full(*_: Any) -> None:
        raise MemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(keyframes, "write_bones", full)
        with pytest.raises(RuntimeError, match="no memory"):
            bpy.ops.neural_ik.record_stop()
    assert live_actions() == []
    assert bpy.ops.neural_ik.record_stop() == {"FINISHED"}
    (action,) = live_actions()
    assert tuple(action.frame_range) == (3, 8)
    assert not bpy.ops.neural_ik.record_stop.poll()


def test_a_recording_is_written_when_the_extension_is_disabled(walker: Any) -> None:
    import addon_utils

    recorded(walker)
    addon_utils.disable(EXTENSION)
    try:
        assert len(live_actions()) == 1
    finally:
        addon_utils.enable(EXTENSION, default_set=True)


def test_poses_of_an_extraction_are_neither_recorded_nor_driven(taught: Any) -> None:
    import bpy

    teach, extract = parts(), wing("blender.data.extract")
    assert bpy.ops.neural_ik.drive() == {"FINISHED"}
    ticks(teach, 3)
    recorded(taught, 2)
    before = dict(teach.session.state.record.frames)
    action = taught.animation_data.action
    poses = []

    def extracted(path: str) -> Iterator[Any]:
        found = yield from extract.extract(bpy.context.scene, taught, [action], extract.Options(path=path))
        poses.append(found.poses)

    for moment, _ in enumerate(extracted("evaluated")):
        teach.ticks.tick(1e6 + moment)
    assert set(teach.session.state.record.frames) == set(before)
    bpy.ops.neural_ik.record_stop()
    bpy.ops.neural_ik.drive_stop()
    list(extracted("fast"))
    assert np.abs(poses[1].rot - poses[0].rot).max() < 1e-3


def test_foot_targets_do_not_come_back_with_a_file_or_with_redo(taught: Any, tmp_path: Path) -> None:
    import bpy

    teach = parts()
    if not bpy.ops.ed.undo_push.poll():
        pytest.skip("this Blender has no undo in background mode")
    bpy.ops.ed.undo_push(message="taught")
    bpy.ops.neural_ik.drive()
    bpy.ops.ed.undo_push(message="Drive")
    teach.ticks._timer()
    path = str(tmp_path / "driving.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path, copy=True)
    bpy.ops.ed.undo()
    teach.ticks._timer()
    assert traces() == set()
    bpy.ops.ed.redo()
    teach.ticks._timer()
    assert traces() == set()
    assert teach.session.state.drive is None
    bpy.ops.wm.open_mainfile(filepath=path)
    assert traces() == set()


def walk_rows(walker: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rows that an engine would send for the character's action."""
    import bpy

    data = wing("blender.data.extract")
    work = data.extract(bpy.context.scene, walker, [walker.animation_data.action])
    poses = returned(work).poses
    return tasks.task_rows("legs", legs.leg_motion("walk", poses.skeleton, poses.rot, poses.root_pos, 30))


def returned(work: Any) -> Any:
    """What a generator returns in the end."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


# ---- listen


def test_a_client_teaches_asks_and_is_found_again(walker: Any) -> None:
    import bpy

    teach = parts()
    listen()
    rig = wing("blender.host.rig").read(walker)
    hello = legs.handshake(walker.name, rig.skeleton)
    client = meet(teach, hello, settings().port)
    assert (client.answer["input_size"], client.answer["output_size"], client.answer["found"]) == (63, 24, False)
    inputs, outputs = walk_rows(walker)
    server, answers = teach.session.state.server, []
    for _ in range(6):
        for given, wanted in zip(inputs, outputs, strict=True):
            seen = server.frames
            client.train(np.concatenate([given, wanted]))
            # each frame is seen and learned before the next is sent, so that the result does not depend on the computer
            answers += come(
                teach,
                client,
                lambda _, seen=seen: server.frames > seen and not any(r.trainee.hungry for r in server.rigs.values()),
            )
    client.ping()
    answers += come(teach, client, lambda got: PING in [m.type for m in got])
    assert TRAIN in [m.type for m in answers]
    lesson = teach.session.state.lessons[teach.session.state.latest]
    assert lesson.name == walker.name
    assert lesson.trainee.frames == 6 * len(inputs)
    assert lesson.status == "solving"
    client.predict(inputs[10], exact=True)
    answer = numbers(await_message(teach, client, PREDICT).payload).reshape(6, 4)
    assert (
        np.degrees(
            rotations.geodesic_angle(*map(rotations.matrix_from_quaternion, (answer, outputs[10].reshape(6, 4))))
        ).max()
        < 10
    )
    bpy.ops.neural_ik.drive()  # what the client taught drives at once
    target = bpy.data.objects[f"{walker.name} Left Foot"]
    target.location.z += 0.1
    bpy.context.view_layer.update()
    ticks(teach, 10, next(MOMENTS))
    assert np.linalg.norm(world(walker, "LeftFoot") - np.array(target.location)) < CLOSE
    bpy.ops.neural_ik.drive_stop()
    assert bpy.ops.neural_ik.listen_stop() == {"FINISHED"}
    with pytest.raises(OSError, match=r"closed|reset"):
        await_message(teach, client, PREDICT)
    with pytest.raises(OSError):
        Client(hello, port=settings().port)
    assert traces() == set()
    assert (teach.session.folder() / f"{teach.session.state.latest}.npz").is_file()
    bpy.ops.neural_ik.listen()
    client = meet(teach, hello, settings().port)
    assert client.answer["found"]
    client.close()


def test_what_was_taught_here_answers_a_client(taught: Any) -> None:

    teach = parts()
    listen()
    client = meet(teach, legs.handshake(taught.name, wing("blender.host.rig").read(taught).skeleton), settings().port)
    assert client.answer["found"]
    assert client.answer["state"] == "solving"
    client.close()


def test_a_client_solves_the_body_and_blender_shows_and_publishes_it(walker: Any) -> None:
    import bpy

    teach = parts()
    listen()
    settings().source = "CLIENT"
    try:
        assert bpy.ops.neural_ik.drive() == {"FINISHED"}
    finally:
        settings().source = "FEET"
    client = meet(teach, {"rig": "engine", "axes": list(legs.AXES), "watch": True}, settings().port)
    pose = numbers(await_message(teach, client, POSE).payload)
    body = client.answer["body"]
    assert body["solves"]
    skeleton = wing("blender.host.rig").read(walker).skeleton
    place, turn = legs.skeleton_pose(skeleton, pose[3:].reshape(-1, 4), pose[:3])
    row = []
    for name in body["effectors"]:
        j = body["bones"].index(name)
        row += [*place[j], *turn[j], 1.0]
        if name == "LeftHand":
            row[-8] += 0.05
            row[-6] += 0.15
            wanted = np.array(row[-8:-5])
    client.solve(np.array([*row, *place[0], *turn[0]]))
    await_message(teach, client, SOLVE)
    bpy.context.view_layer.update()
    teach.ticks.tick(next(MOMENTS))
    bpy.context.view_layer.update()
    assert np.linalg.norm(world(walker, "LeftHand") - skeleton.axes.T @ wanted) < CLOSE
    shown = numbers(await_message(teach, client, POSE).payload)
    heads, _ = legs.skeleton_pose(skeleton, shown[3:].reshape(-1, 4), shown[:3])
    for j, name in enumerate(skeleton.names):
        assert np.allclose(skeleton.axes.T @ heads[j], world(walker, name), atol=HOST)
    client.close()


def test_listening_continues_when_the_character_is_deleted(walker: Any) -> None:
    import bpy

    teach = parts()
    listen()
    client = meet(teach, {"rig": "engine", "axes": list(legs.AXES), "watch": True}, settings().port)
    await_message(teach, client, POSE)
    bpy.data.objects.remove(walker)
    teach.ticks.tick(next(MOMENTS))
    assert teach.session.state.server is not None
    assert "clients no longer see Neural IK Demo" in teach.session.state.problem
    client.ping()
    await_message(teach, client, PING)
    client.close()


def test_other_computers_require_permission_and_a_token(
    walker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import bpy

    teach = parts()
    settings().local = False
    try:
        monkeypatch.setattr(teach.session, "online", lambda: False)
        says("online", bpy.ops.neural_ik.listen)
        monkeypatch.setattr(teach.session, "online", lambda: True)
        says("token of at least 16", bpy.ops.neural_ik.listen)
        bpy.ops.neural_ik.new_token()
        token = settings().token
        assert len(token) >= 16
        listen()
        client = meet(teach, {"rig": "engine", "axes": list(legs.AXES)}, settings().port, token=token)
        client.close()
        stranger = Client({"rig": "stranger", "axes": list(legs.AXES)}, port=settings().port, token="x" * 24)
        with pytest.raises((OSError, ValueError)):
            await_message(teach, stranger, None)
        path = tmp_path / "scene.blend"
        bpy.ops.wm.save_as_mainfile(filepath=str(path), compress=False)
        assert token.encode() not in path.read_bytes()
        monkeypatch.setattr(teach.session, "online", lambda: False)  # withdrawn while listening
        teach.ticks.tick(next(MOMENTS))
        assert teach.session.state.server is None
        assert "online" in teach.session.state.problem
    finally:
        settings().local = True


def test_permission_is_blenders_own_setting(teach: Any) -> None:
    import bpy

    assert teach.session.online() == bpy.app.online_access


def test_only_loopback_is_bound_by_default(walker: Any) -> None:
    import bpy

    teach = parts()
    listen()
    assert teach.session.state.server._listener.getsockname()[0] == "127.0.0.1"
    assert bpy.app.timers.is_registered(teach.ticks._timer)


def test_a_taken_port_is_reported(walker: Any) -> None:
    import bpy

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings().port = other.getsockname()[1]
        says("another port", bpy.ops.neural_ik.listen)
    assert traces() == set()


def test_another_file_ends_everything(taught: Any) -> None:
    import bpy

    teach = parts()
    port = listen()
    bpy.ops.neural_ik.send_pose()
    bpy.ops.neural_ik.drive()
    bpy.ops.neural_ik.record()
    assert teach.session.active()
    bpy.ops.wm.read_homefile(use_empty=True)
    assert not teach.session.active()
    assert traces() == set()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_disabling_the_extension_leaves_no_trace(taught: Any) -> None:
    import addon_utils
    import bpy

    teach = parts()
    port = listen()
    bpy.ops.neural_ik.send_pose()
    bpy.ops.neural_ik.drive()
    bpy.ops.neural_ik.record()
    addon_utils.disable(EXTENSION)
    try:
        assert not bpy.app.timers.is_registered(teach.ticks._timer)
        assert not teach.session.active()
        assert [ob.name for ob in bpy.data.objects if teach.driving.TARGET in ob] == []
        assert not hasattr(bpy.types.WindowManager, "neural_ik_teach")
        for handlers in (bpy.app.handlers.load_pre, bpy.app.handlers.frame_change_post):
            assert [h for h in handlers if h.__module__ == teach.ticks.__name__] == []
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
    finally:
        addon_utils.enable(EXTENSION, default_set=True)


# ---- another program


def another_program_teaches(place: Path, frames: int) -> None:
    """Run a program that goes on teaching the legs kept in ``place``, saves, and ends."""
    script = (
        "import sys; sys.path[:0] = ['tests', 'tests/live']\n"
        "import numpy as np\n"
        "from pathlib import Path\n"
        "from test_live_channels import legs_rows\n"
        "from neural_network.live.kept_file import KeptFile\n"
        "from neural_network.live.layouts import legs_layout\n"
        "from neural_network.live.learner import new_trainee, observe\n"
        "trainee, rng, file = new_trainee(legs_layout()), np.random.default_rng(0), KeptFile(Path(sys.argv[1]))\n"
        "file.load(trainee)\n"
        "for row in zip(*legs_rows(rng, int(sys.argv[2]))):\n"
        "    observe(legs_layout(), trainee, *row, rng)\n"
        "file.save(trainee)\n"
    )
    subprocess.run([sys.executable, "-c", script, place, str(frames)], cwd=REPO, check=True, timeout=120)


def frames_in(place: Path) -> int:
    trainee = wing("live.learner").new_trainee(wing("live.layouts").legs_layout())
    trainee.load(place)
    return int(trainee.frames)


def test_what_another_program_taught_meanwhile_stays_and_the_lesson_is_kept_beside_it(taught: Any) -> None:
    import bpy

    teach = parts()
    (place,) = teach.session.folder().glob("*.npz")
    before = frames_in(place)
    work = teach.lessons.teach(bpy.context.scene, taught, [taught.animation_data.action], passes=1)
    for _ in range(5):
        next(work)
    another_program_teaches(place, 3)
    fingerprint, lesson, _ = returned(work)
    note = teach.lessons.keep(fingerprint, lesson)
    beside = place.with_name(f"{place.stem}.beside")
    assert f"another program has saved {place.name}" in note
    assert beside.name in note
    assert frames_in(place) == before + 3
    assert frames_in(beside) == lesson.trainee.frames > before
    assert teach.lessons.save_all() == ""  # nothing more to save, and nothing more to say


def test_a_lesson_that_another_program_went_on_teaching_is_read_again(taught: Any) -> None:
    teach = parts()
    _, lesson = teach.lessons.lesson_for(taught)
    before = lesson.trainee.frames
    another_program_teaches(lesson.file.path, 3)
    assert teach.lessons.lesson_for(taught)[1].trainee.frames == before + 3
    listen()
    teach.listening.stop_listening()
    assert frames_in(lesson.file.path) == before + 3
    assert teach.session.state.problem == ""


def test_the_panel_says_where_a_rig_is_kept_that_another_program_taught_while_listening(taught: Any) -> None:
    teach = parts()
    hello = legs.handshake(taught.name, wing("blender.host.rig").read(taught).skeleton)
    client = meet(teach, hello, listen())
    (place,) = teach.session.folder().glob("*.npz")
    before = frames_in(place)
    client.train(np.concatenate(walk_rows(taught), axis=1)[0])
    await_message(teach, client, TRAIN)
    another_program_teaches(place, 3)
    teach.listening.stop_listening()
    client.close()
    beside = place.with_name(f"{place.stem}.beside")
    assert beside.name in teach.session.state.problem
    assert (frames_in(place), frames_in(beside)) == (before + 3, before + 1)


# ---- the panel


def test_every_icon_exists_and_every_status_has_an_icon_and_a_text(extension: ModuleType) -> None:
    import bpy

    panel = wing("blender.teach.panel")
    icons = {i.identifier for i in bpy.types.UILayout.bl_rna.functions["label"].parameters["icon"].enum_items}
    source = Path(panel.__file__).read_text(encoding="utf-8")
    used = {part.split('"')[0] for part in source.split('icon="')[1:]} | set(panel.STATUS_ICONS.values())
    assert used <= icons
    assert set(panel.STATUS_ICONS) == set(panel.STATUS_TEXTS) == {"new", "learning", "solving", "lost"}


def test_the_curve_keeps_its_ends_and_stays_small(teach: Any) -> None:
    lesson = teach.lessons.new_lesson("rig", wing("live.layouts").legs_layout(), teach.lessons.Settings())
    for frames in range(1, 3000):
        lesson.trainee.frames, lesson.trainee.usual = frames, 1 / frames
        assert lesson.add_to_curve()
    assert not lesson.add_to_curve()
    assert len(lesson.curve) <= teach.session.CURVE
    assert (lesson.curve[0][0], lesson.curve[-1][0]) == (1.0, 2999.0)
