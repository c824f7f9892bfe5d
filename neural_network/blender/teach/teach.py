# SPDX-License-Identifier: GPL-3.0-or-later
"""Live learning in Blender: legs taught from actions or by an engine that connects, which then drive a character.

Everything here happens on the main thread: a timer calls :func:`tick`, which serves sockets as far as they allow and never
waits for them. A session (driving, recording) is one undo step, made when it ends. Nothing of Blender's own is kept between
two ticks; objects are looked up by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent
from mathutils import Matrix

from ...core.rotations import axis_angle_from_quaternion, geodesic_angle, matrix_from_quaternion
from ...core.skeleton import SkeletonMismatch
from ...ik.solver import Solver
from ...live import legs, replay, vmc
from ...live.body import Body, body_of, shown, solving_body
from ...live.channels import SIDES, Layout, decode, encode_inputs
from ...live.protocol import read_hello
from ...live.server import PORT, Server, is_loopback
from ...live.trainee import LEARNING, NEW, SOLVING, Settings, Trainee
from ..data import extract
from ..host import actions as blender_actions
from ..host import jobs, keyframes, memory, rig, rig_checks, runtime
from ..host.jobs import Progress
from ..host.rig import Rig
from ..posing import live_ik

WORK = 0.003  # [s] of learning in a tick; reading and answering come on top
FRAME_STEPS = 24  # of learning for each frame of an action: so many on any machine, that all learn the same
BUSY, IDLE = 0.01, 0.1  # [s] between two ticks: with somebody to serve or drive, and without
SEND_EVERY = 0.5  # [s] a pose at rest is sent again
SAVE_EVERY = 60.0  # [s] what clients taught is saved
SLOW = 0.3  # [m/s] a foot slower than this stands, as in the rows that are taught
STILL = 1e-5  # [rad] legs that would turn less are left alone, so that a scene at rest stays at rest
CURVE = 400  # points at most; then every second one goes
EVERYWHERE, HERE = "0.0.0.0", "127.0.0.1"  # the first only with a token, and where Blender may go online
TARGET = "neural_ik_teach"  # marks the two foot targets


@dataclass
class Lesson:
    """A rig that is or was taught, and how well it goes."""

    name: str
    shape: Layout
    trainee: Trainee
    curve: list[tuple[float, float]] = field(default_factory=list)
    """(frames seen, running error [rad or m])."""
    solved: bool = False
    """It has been good enough before: falling back then means lost."""

    @property
    def lamp(self) -> str:
        """new, learning, solving or lost."""
        status = self.trainee.status()
        if status.state == NEW:
            return "new"
        if status.poisoned or (status.state == LEARNING and self.solved):
            return "lost"
        return "solving" if status.state == SOLVING else "learning"

    def watch(self) -> bool:
        """Note the error, where frames have come since it was noted last; whether there were any."""
        status = self.trainee.status()
        if self.curve and status.frames < self.curve[-1][0]:  # reset, or gone back to a snapshot
            self.curve = [point for point in self.curve if point[0] < status.frames]
            self.solved = status.state == SOLVING
        self.solved |= status.state == SOLVING
        if status.frames == 0 or (self.curve and self.curve[-1][0] == status.frames):
            return False
        self.curve.append((float(status.frames), status.usual))
        if len(self.curve) > CURVE:
            del self.curve[1:-1:2]
        return True


@dataclass
class Drive:
    """A character whose pose is written at every tick."""

    ob: str
    rig: Rig
    key: tuple[Any, ...]
    source: str
    """FEET: two targets here and a lesson's legs; CLIENT: whole bodies that a client has solved."""
    lesson: str = ""
    targets: tuple[str, str] = ("", "")
    previous: np.ndarray | None = None
    """(6, 4) legs as answered last."""
    places: np.ndarray | None = None
    """(2, 3) [m, core axes] the targets at the last step."""
    moment: float = 0.0
    driving: bool = False
    """The lesson is good enough at this moment, or a client has asked."""


@dataclass
class Send:
    """A character whose pose goes out as VMC whenever it changes, and now and then, for who came late or lost a packet."""

    ob: str
    rig: Rig
    key: tuple[Any, ...]
    to: vmc.Sender
    where: str
    """Host and port, for people."""
    pose: np.ndarray | None = None
    """As sent last."""
    moment: float = float("-inf")


@dataclass
class Record:
    """The channels of every pose bone, frame by frame."""

    ob: str
    start: int
    moment: float
    fps: float
    last: int
    frames: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)


@dataclass
class State:
    """What lives while Blender runs; the panel reads it."""

    lessons: dict[str, Lesson] = field(default_factory=dict)
    """By fingerprint."""
    latest: str = ""
    """Fingerprint of the lesson that was taught last."""
    server: Server | None = None
    everywhere: bool = False
    served: str = ""
    """Name of the character that clients see and solve; empty for none."""
    body_rig: Rig | None = None
    body_key: tuple[Any, ...] = ()
    published: np.ndarray | None = None
    asked: tuple[np.ndarray, np.ndarray] | None = None
    """Root head (3) and rotations (J, 4) that a client has solved last, core axes."""
    saved_at: float = 0.0
    drawn_at: float = 0.0
    drive: Drive | None = None
    record: Record | None = None
    send: Send | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=4))
    """The last things that happened, for people."""
    problem: str = ""
    token: str = ""
    """Kept here, and so in no file."""


state = State()


def folder() -> Path:
    """Where what was taught is kept, by fingerprint."""
    return memory.folder() / "live"


def online() -> bool:
    """Whether Blender may go beyond this computer."""
    return bool(bpy.app.online_access)


def new_token() -> str:
    """Draw a token that cannot be guessed."""
    state.token = secrets.token_urlsafe(18)
    return state.token


# ---- teaching from actions


def lesson_for(ob: bpy.types.Object, own: Rig | None = None) -> tuple[str, Lesson | None]:
    """Fingerprint of a character's legs, and what was taught for them: in memory, else on disk, else None."""
    own = own or rig.read(ob)
    hello = read_hello(legs.handshake(ob.name, own.skeleton))
    found = state.lessons.get(hello.fingerprint)
    path = folder() / f"{hello.fingerprint}.npz"
    if found is None and path.is_file():
        assert hello.layout is not None
        found = _fresh(ob.name, hello.layout, Settings())
        _load(path, found)
        found.watch()
        state.lessons[hello.fingerprint] = found
    return hello.fingerprint, found


def _fresh(name: str, shape: Layout, settings: Settings, seed: int = 0) -> Lesson:
    """A lesson that knows nothing."""
    return Lesson(name, shape, replay.fresh(shape, settings, seed))


def teach(
    scene: bpy.types.Scene,
    ob: bpy.types.Object,
    chosen: Iterable[bpy.types.Action],
    passes: int = 6,
    threshold: float = Settings().threshold,
    go_on: bool = True,
    seed: int = 0,
) -> Generator[Progress, None, tuple[str, Lesson, float]]:
    """Play ``chosen`` actions to the learner, frame by frame as an engine would; yields Progress.

    Ends after the pass in which its error [rad] has come below ``threshold``, at the latest after ``passes``. ``go_on``: begin
    with what was taught before. Returns the fingerprint, the lesson (which ``keep`` takes up), and the mean error at first
    sight [rad]. Nothing is changed before ``keep``. Raises ValueError in words.
    """
    if state.server is not None:
        raise ValueError("Neural IK is listening, and an engine may be teaching: Stop Listening first")
    own = rig.read(ob)
    name = ob.name
    hello = read_hello(legs.handshake(name, own.skeleton))
    shape = hello.layout
    assert shape is not None
    lesson = _fresh(name, shape, Settings(threshold=threshold), seed)
    path = folder() / f"{hello.fingerprint}.npz"
    if go_on and path.is_file():
        _load(path, lesson)
    extracted = yield from extract.extract(scene, ob, chosen, extract.Options())
    poses = extracted.poses
    rows = []
    for clip, title in enumerate(poses.clip_names):
        own_rows = poses.rows(clip)
        motion = legs.motion_of(
            title, poses.skeleton, poses.rot[own_rows], poses.root_pos[own_rows], poses.clip_fps[clip]
        )
        rows.append((title, *replay.task_rows("legs", motion)))
    count = sum(len(inputs) for _, inputs, _ in rows)
    if count == 0:
        raise ValueError("expected actions of at least two frames, got single poses")
    rng = np.random.default_rng(seed + 1)
    done, first = 0, []
    trainee = lesson.trainee
    for sweep in range(passes):
        for title, inputs, outputs in rows:
            for given, wanted in zip(inputs, outputs, strict=True):
                replay.observe(shape, trainee, given, wanted, rng)
                if sweep == 0:
                    first.append(trainee.error)
                trainee.train(FRAME_STEPS)
                lesson.watch()
                done += 1
                if done % 2 == 0:
                    yield Progress(done, passes * count, f"{title}: {describe(lesson)}")
        if trainee.state == SOLVING:
            break
    return hello.fingerprint, lesson, float(np.mean(first))


def keep(fingerprint: str, lesson: Lesson) -> None:
    """Take up what was taught, and save it. Raises OSError."""
    state.lessons[fingerprint] = lesson
    state.latest = fingerprint
    lesson.trainee.save(folder() / f"{fingerprint}.npz")


def forget(ob: bpy.types.Object) -> None:
    """Forget what was taught for a character, in memory and on disk. Raises OSError."""
    fingerprint = read_hello(legs.handshake(ob.name, rig.read(ob).skeleton)).fingerprint  # its file may be damaged
    (folder() / f"{fingerprint}.npz").unlink(missing_ok=True)
    state.lessons.pop(fingerprint, None)


def describe(lesson: Lesson) -> str:
    """How it goes, in a few words."""
    status = lesson.trainee.status()
    if status.frames == 0:
        return "nothing learned yet"
    if lesson.shape.name == "legs":
        return f"{np.degrees(status.usual):.2f}\N{DEGREE SIGN} off, {status.frames} frames"
    return f"{status.usual:.4f} off, {status.frames} frames"


# ---- listening


def listen(
    ob: bpy.types.Object | None,
    port: int = PORT,
    everywhere: bool = False,
    token: str = "",
    threshold: float = Settings().threshold,
) -> int:
    """Let engines connect: to teach their rigs, to ask for predictions, and to see and solve the character ``ob``.

    Without ``everywhere`` only this computer can; with it Blender's own permission and a token are asked for. Port 0 takes a
    free one. Returns the port. Raises ValueError, in words.
    """
    if state.server is not None:
        raise ValueError(f"already listening on port {state.server.port}: Stop Listening first")
    if everywhere and not online():
        raise ValueError(
            "Blender may not go online: tick Allow Online Access (Preferences > System), or This Computer Only here"
        )
    if everywhere and len(token) < 16:
        raise ValueError("beyond this computer a token of at least 16 characters is needed: press New Token")
    body, own, note = _body(ob)
    for fingerprint, lesson in state.lessons.items():  # the server finds what was taught here
        if lesson.trainee.frames:
            _save(folder() / f"{fingerprint}.npz", lesson)
    try:
        server = Server(
            EVERYWHERE if everywhere else HERE,
            port,
            token=token or None,
            folder=folder(),
            settings=Settings(threshold=threshold),
            body=body,
        )
    except OSError as error:
        raise ValueError(
            f"port {port}: {error.strerror or error}; another program may have it: choose another port"
        ) from error
    state.server, state.everywhere, state.problem = server, everywhere, ""
    state.served, state.body_rig = (ob.name, own) if ob is not None and own is not None else ("", None)
    state.body_key = _key(ob) if ob is not None and own is not None else ()
    state.published = state.asked = None
    state.saved_at = time.monotonic()
    state.lines.clear()
    if note:
        state.lines.append(note)
    _start_timer()
    return server.port


def _body(ob: bpy.types.Object | None) -> tuple[Body | None, Rig | None, str]:
    """The character as clients see it, its rig, and a note where it cannot be solved or shown."""
    if ob is None:
        return None, None, "no character is shown to clients"
    try:
        own = rig_checks.usable(ob, live_ik.weights())
        body = solving_body(Solver(live_ik.weights(), own.skeleton))
    except (SkeletonMismatch, ValueError, OSError) as error:
        try:
            own = rig.read(ob)
        except ValueError as worse:
            return None, None, f"{ob.name} is not shown to clients: {worse}"
        return body_of(own.skeleton), own, f"{ob.name} is shown, not solved: {error}"
    solve = body.solve
    assert solve is not None

    def watched(*goals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        root, turns, errors = solve(*goals)
        state.asked = root, turns
        return root, turns, errors

    return dataclasses.replace(body, solve=watched), own, ""


def hang_up() -> None:
    """Stop listening: save, say goodbye, free the port."""
    server, state.server = state.server, None
    if server is None:
        return
    try:
        server.close()
    except (OSError, ValueError) as error:
        state.problem = f"what clients taught could not be saved: {error}"
    finally:
        state.served, state.body_rig, state.asked = "", None, None
        _note(server.poll_events())
        if state.drive is not None and state.drive.source == "CLIENT":
            stop_driving()
        _stop_timer_if_idle()
        jobs.redraw()


def _serve(now: float) -> bool:
    """Serve everyone once; whether something happened that the panel shows."""
    server = state.server
    assert server is not None
    if state.everywhere and not online():
        hang_up()
        state.problem = "stopped listening: Blender may not go online any more"
        return True
    events = server.poll(now, WORK)
    _note(events)
    changed = bool(events)
    for fingerprint, taught in server.rigs.items():
        lesson = state.lessons.get(fingerprint)
        if lesson is None or lesson.trainee is not taught.trainee:
            lesson = Lesson(taught.name, taught.shape, taught.trainee)
            state.lessons[fingerprint] = lesson
        if lesson.watch():
            state.latest = fingerprint
            changed = True
    if now - state.saved_at > SAVE_EVERY:
        state.saved_at = now
        try:
            server.save()
        except OSError as error:
            state.problem = f"what clients taught could not be saved: {error.strerror or error}"
    if server.clients() and state.body_rig is not None:
        try:
            _publish(server, now, any(event.kind == "handshake" for event in events))
        except ValueError as error:  # teaching goes on without it
            state.body_rig, state.problem = None, f"clients see {state.served} no more: {error}"
    return changed


def _publish(server: Server, now: float, anyway: bool) -> None:
    """Send the shown pose to those who watch, when it has changed."""
    ob = _object(state.served)
    own = state.body_rig
    assert own is not None
    if ob.mode == "EDIT" or len(ob.pose.bones) != len(own.bones):
        return
    if state.body_key != _key(ob):
        fresh = _refit(ob, own)
        if fresh is None:
            raise ValueError("its bones have changed; Stop and Listen again")
        own = fresh
        state.body_rig, state.body_key = own, _key(ob)
    root, turns = shown(own.skeleton, *runtime.read_pose(ob, own))
    pose = np.concatenate([root, turns.ravel()])
    if anyway or state.published is None or np.abs(pose - state.published).max() > 1e-6:
        state.published = pose
        server.publish(root, turns, now)


def _note(events: Sequence[Any]) -> None:
    for event in events:
        state.lines.append(f"Client {event.client}: {event.text}" if event.client else event.text)


def _load(path: Path, lesson: Lesson) -> None:
    try:
        lesson.trainee.load(path)
    except ValueError as error:
        raise ValueError(f"{error}. Forget removes it") from error


def _save(path: Path, lesson: Lesson) -> None:
    try:
        lesson.trainee.save(path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error


# ---- driving


def drive(context: bpy.types.Context, ob: bpy.types.Object, source: str = "FEET") -> Drive:
    """Let a lesson (``FEET``: two targets appear) or a client's solves (``CLIENT``) move the character until it is stopped.

    Raises ValueError, in words, for what cannot work.
    """
    if state.drive is not None:
        raise ValueError(f"{state.drive.ob} is driven already: Stop Driving first")
    if live_ik.collection_of(ob) is not None:
        raise ValueError(f"Live IK moves {ob.name}: Apply or Cancel it first")
    if getattr(ob.data, "pose_position", "POSE") == "REST":
        raise ValueError(f"{ob.name} is shown in Rest Position: switch to Pose Position (Armature properties)")
    if ob.name not in context.view_layer.objects:
        raise ValueError(f"{ob.name} is not in this view layer")
    context.view_layer.update()
    if source == "CLIENT":
        if state.server is None or state.served != ob.name or state.body_rig is None:
            raise ValueError(f"no client can reach {ob.name}: press Listen with it selected first")
        if state.server.body is None or state.server.body.solve is None:
            raise ValueError(f"clients cannot solve {ob.name}: no weights fit it")
        state.drive = Drive(ob.name, state.body_rig, _key(ob), source)
    else:
        own = rig.read(ob)
        reason = rig_checks.control_rig(ob) or rig_checks.refusal(ob, own)
        if reason:
            raise ValueError(reason.replace("Live IK", "Drive"))
        fingerprint, lesson = lesson_for(ob, own)
        if lesson is None or lesson.trainee.frames == 0:
            raise ValueError(f"nothing was taught for {ob.name} yet: Teach from Action, or let an engine teach it")
        targets = _add_targets(context, ob, own)
        state.drive = Drive(ob.name, own, _key(ob), source, fingerprint, targets)
        state.latest = fingerprint
        context.view_layer.update()
    state.problem = ""
    _start_timer()
    return state.drive


def stop_driving(step: bool = True) -> None:
    """The character stays as it is; the targets go. ``step``: the session becomes an undo step."""
    driven, state.drive = state.drive, None
    if driven is not None:
        remove_targets()
        _end_of_session("Neural IK Drive" if step else "")


def _add_targets(context: bpy.types.Context, ob: bpy.types.Object, own: Rig) -> tuple[str, str]:
    """Two empties where the feet are, turned as they are."""
    remove_targets()
    skeleton = own.skeleton
    root, turns = shown(skeleton, *runtime.read_pose(ob, own))
    place, turn = legs.placed(skeleton, turns, root)
    bones = legs.leg_bones(skeleton)
    scale = 1 / rig.metres(ob)
    names = []
    for side, bone in zip(SIDES, (bones[2], bones[5]), strict=True):
        empty: Any = bpy.data.objects.new(f"{ob.name} {side} Foot", None)
        context.scene.collection.objects.link(empty)
        empty[TARGET] = ob.name
        empty.empty_display_type, empty.show_in_front = "CUBE", True
        empty.empty_display_size = 0.08 * skeleton.leg_length * scale
        matrix = np.eye(4)
        matrix[:3, :3] = skeleton.axes.T @ matrix_from_quaternion(turn[bone]) @ skeleton.axes
        matrix[:3, 3] = (skeleton.axes.T @ place[bone]) * scale + np.array(ob.matrix_world.translation)
        empty.matrix_world = Matrix(matrix.tolist())
        names.append(empty.name)
    return names[0], names[1]


def remove_targets() -> None:
    """Remove the foot targets, those that a saved file brought along included."""
    every: Any = getattr(bpy.data, "objects", ())  # there are none while Blender is still starting
    for ob in [ob for ob in every if TARGET in ob]:
        every.remove(ob)


def _step(now: float) -> None:
    """Write the driven character's pose, where it changes."""
    driven = state.drive
    assert driven is not None
    ob = _object(driven.ob)
    if ob.mode == "EDIT" or ob.pose is None:
        return
    if driven.key != _key(ob):
        fresh = rig.read(ob) if driven.source == "FEET" else _refit(ob, driven.rig)
        if fresh is None or fresh.skeleton.names != driven.rig.skeleton.names:
            raise ValueError(f"the bones of {ob.name} have changed: driving has stopped")
        driven.rig, driven.key = fresh, _key(ob)
    if driven.source == "CLIENT":
        if state.asked is not None:
            driven.driving = True
            root, turns = state.asked
            _show(ob, driven.rig, turns, root, range(driven.rig.skeleton.count))
        return
    lesson = state.lessons.get(driven.lesson)
    if lesson is None:
        raise ValueError(f"what was taught for {ob.name} was forgotten: driving has stopped")
    _step_legs(driven, ob, lesson, now)


def _step_legs(driven: Drive, ob: bpy.types.Object, lesson: Lesson, now: float) -> None:
    own = driven.rig
    skeleton = own.skeleton
    places, normals = _read_targets(driven, ob)
    since = now - driven.moment
    hits = np.ones(2)
    if driven.places is not None and since > 1e-4:
        hits = (np.linalg.norm(places - driven.places, axis=1) / since < SLOW).astype(np.float64)
    if driven.places is None or since > 1e-4:
        driven.places, driven.moment = places, now
    driven.driving = lesson.trainee.state == SOLVING
    if not driven.driving:  # it hands back: the legs stay with whoever moves them
        driven.previous = None
        return
    root, turns = shown(skeleton, *runtime.read_pose(ob, own))
    place, turn = legs.placed(skeleton, turns, root)
    if driven.previous is None:
        driven.previous = legs.leg_turns(skeleton, turn)
    row = legs.leg_row(skeleton, place, turn, driven.previous, places, normals, hits)
    x, scene = encode_inputs(lesson.shape, row)
    driven.previous = decode(lesson.shape, lesson.trainee.predict(x), scene, exact=True).reshape(6, 4)
    _show(ob, own, legs.with_legs(skeleton, turns, turn, driven.previous), root, legs.leg_bones(skeleton), turns)


def _read_targets(driven: Drive, ob: bpy.types.Object) -> tuple[np.ndarray, np.ndarray]:
    """Places (2, 3) [m] and normals (2, 3) of the foot targets in core axes. Raises ValueError where one was deleted."""
    axes, scale = driven.rig.skeleton.axes, rig.metres(ob)
    places, normals = np.empty((2, 3)), np.empty((2, 3))
    for i, name in enumerate(driven.targets):
        empty: Any = bpy.data.objects.get(name)
        if empty is None:
            raise ValueError(f"the target {name} is gone: driving has stopped")
        places[i] = axes @ ((np.array(empty.matrix_world.translation) - np.array(ob.matrix_world.translation)) * scale)
        turn = runtime.orthonormal(np.array(empty.matrix_world, np.float64)[:3, :3])
        normals[i] = axes @ turn @ axes.T @ np.array([0.0, 0, 1])
    return places, normals


def _show(
    ob: bpy.types.Object,
    own: Rig,
    turns: np.ndarray,
    root: np.ndarray,
    bones: Iterable[int],
    now: np.ndarray | None = None,
) -> None:
    """Pose ``bones`` of the skeleton as ``turns`` (J, 4) say; the others keep their channels. ``now``: what is shown already."""
    if now is None:
        at, now = shown(own.skeleton, *runtime.read_pose(ob, own))
        moved = float(np.abs(at - root).max())
    else:
        moved = 0.0
    written = list(bones)
    angle = geodesic_angle(matrix_from_quaternion(turns[written]), matrix_from_quaternion(now[written]))
    if max(moved, float(np.max(angle))) < STILL:
        return
    before = runtime.snapshot(ob)
    rot = own.skeleton.from_core(axis_angle_from_quaternion(turns))
    runtime.apply(ob, own, rot, root @ own.skeleton.axes)
    after = runtime.snapshot(ob)
    mask = np.zeros(len(own.bones), bool)
    mask[own.index[written]] = True
    for name, size in runtime.CHANNELS.items():
        mixed = np.where(mask[:, None], after[name].reshape(-1, size), before[name].reshape(-1, size))
        after[name] = mixed.ravel()
    runtime.restore(ob, after)


# ---- sending


def send(ob: bpy.types.Object, host: str = HERE, port: int = vmc.PORT_OUT) -> None:
    """Send the pose that ``ob`` shows to a program that understands VMC, whenever it changes, until it is stopped.

    Raises ValueError, in words: beyond this computer Blender's own permission is asked for.
    """
    if state.send is not None:
        raise ValueError(f"{state.send.ob} is sent already: Stop Sending first")
    if not is_loopback(host) and not online():
        raise ValueError(
            "Blender may not go online: tick Allow Online Access (Preferences > System), or send to 127.0.0.1"
        )
    own = rig.read(ob)
    if not _humanoid(own):
        raise ValueError(f"{ob.name} has no bones that VMC knows: it knows those of people")
    try:
        to = vmc.Sender(host, port)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{host}: no address that can be reached: {error}") from error
    state.send = Send(ob.name, own, _key(ob), to, f"{host}:{port}")
    state.problem = ""
    _start_timer()


def stop_sending() -> None:
    """Send no more."""
    sending, state.send = state.send, None
    if sending is not None:
        sending.to.close()
    _stop_timer_if_idle()


def _humanoid(own: Rig) -> dict[str, str]:
    """The rig's bones, by name, as VMC calls them."""
    pairs = zip(own.skeleton.names, own.roles, strict=True)
    return {name: vmc.HUMANOID[role] for name, role in pairs if role in vmc.HUMANOID}


def _send_pose(now: float) -> None:
    """Send the pose, where it is another one or the last was long ago."""
    sending = state.send
    assert sending is not None
    if not is_loopback(sending.where.rpartition(":")[0]) and not online():
        raise ValueError("stopped sending: Blender may not go online any more")
    ob = _object(sending.ob)
    if ob.mode == "EDIT":
        return
    if sending.key != _key(ob):
        sending.rig, sending.key = rig.read(ob), _key(ob)
    root, turns = shown(sending.rig.skeleton, *runtime.read_pose(ob, sending.rig))
    pose = np.concatenate([root, turns.ravel()])
    last = sending.pose
    same = last is not None and last.shape == pose.shape and bool(np.abs(pose - last).max() <= 1e-6)
    if same and 0 <= now - sending.moment < SEND_EVERY:
        return
    sending.pose, sending.moment = pose, now
    body = body_of(sending.rig.skeleton)
    humanoid = _humanoid(sending.rig)
    sending.to.send(vmc.vmc_messages(body.names, body.parents, body.offsets, root, turns, now, humanoid))


# ---- recording


def record(context: bpy.types.Context, ob: bpy.types.Object, now: float | None = None) -> None:
    """Note the character's pose from now on: at each frame of a playing timeline, else as time goes by."""
    if state.record is not None:
        raise ValueError(f"{state.record.ob} is being recorded already: Stop Recording first")
    if ob.pose is None:
        raise ValueError(f"{ob.name} has no bones")
    scene: Any = context.scene
    fps = scene.render.fps / scene.render.fps_base
    moment = time.monotonic() if now is None else now
    state.record = Record(ob.name, scene.frame_current, moment, fps, scene.frame_current)
    _sample(scene, moment)
    state.problem = ""
    _start_timer()


def stop_recording(play: bool = True) -> str:
    """Keys of all that was noted, in a new action; ``play`` it from then on. Returns its name, empty for nothing noted."""
    noted, state.record = state.record, None
    if noted is None or not noted.frames:
        _stop_timer_if_idle()
        return ""
    ob: Any = _object(noted.ob)
    frames = np.array(sorted(noted.frames))
    action, slot = blender_actions.new(f"{ob.name} Live", ob.name)
    action.use_fake_user = True
    action[extract.FPS_KEY] = float(noted.fps)
    channels = {}
    for i, pb in enumerate(ob.pose.bones):
        for channel in (runtime.rotation_channel(pb.rotation_mode), "location"):
            size = runtime.CHANNELS[channel]
            values = np.array([noted.frames[f][channel].reshape(-1, size)[i] for f in frames.tolist()])
            if channel != "location" or np.any(values):
                channels[pb.name, channel] = values
    keyframes.write_bones(action, slot, frames, channels)
    if play:
        moved = ob.animation_data or ob.animation_data_create()
        if moved.action is not None:
            moved.action.use_fake_user = True  # nobody else may hold it
        blender_actions.assign(moved, action, slot)
    _end_of_session("Neural IK Record")
    return str(action.name)


def _sample(scene: bpy.types.Scene, now: float, frame: int | None = None) -> None:
    """Note the pose at ``frame``, else at the frame that the time since the start stands for."""
    noted = state.record
    assert noted is not None
    ob = _object(noted.ob)
    if ob.mode == "EDIT" or ob.pose is None:
        return
    if frame is None:
        if scene.frame_current != noted.last:  # the timeline leads
            return
        frame = noted.start + int((now - noted.moment) * noted.fps)
    else:
        noted.last, noted.start, noted.moment = frame, frame, now
    found = runtime.snapshot(ob)
    first = next(iter(noted.frames.values()), found)
    if len(found["scale"]) != len(first["scale"]):
        raise ValueError(f"the bones of {ob.name} have changed: recording has stopped")
    noted.frames[frame] = found


# ---- the timer, and what ends everything


def tick(now: float) -> None:
    """One bounded piece of everything that is on: serve, drive, record. Words go to ``state.problem``."""
    changed = False
    # undo may be what took a target away: a step made then would take redo away
    ends = (hang_up, lambda: stop_driving(step=False), stop_recording, stop_sending)
    for part, end in zip((_tick_server, _tick_drive, _tick_record, _tick_send), ends, strict=True):
        try:
            changed |= part(now)
        except (ValueError, OSError) as error:
            _end_quietly(end)
            state.problem = str(error)
            changed = True
    if changed and (now - state.drawn_at > 0.2 or now < state.drawn_at):
        state.drawn_at = now
        jobs.redraw()


def _tick_server(now: float) -> bool:
    return state.server is not None and _serve(now)


def _tick_drive(now: float) -> bool:
    if state.drive is None:
        return False
    before = state.drive.driving
    _step(now)
    return state.drive is not None and state.drive.driving != before


def _tick_record(now: float) -> bool:
    if state.record is not None:
        scene: Any = bpy.context.scene
        _sample(scene, now)
    return state.record is not None


def _tick_send(now: float) -> bool:
    if state.send is not None:
        _send_pose(now)
    return False


def _end_quietly(end: Any) -> None:
    """End a part that has failed; what it needs for a proper end may be gone too."""
    with contextlib.suppress(ValueError, OSError):
        end()


def active() -> bool:
    """Whether anything is on."""
    return any(part is not None for part in (state.server, state.drive, state.record, state.send))


def _timer() -> float | None:
    if not active():
        return None
    try:
        tick(time.monotonic())
    except BaseException:  # a bug: be seen, but leave no socket open
        stop()
        raise
    moving = any(part is not None for part in (state.drive, state.record, state.send))
    waiting = not moving and state.server is not None and not state.server.clients()
    return (IDLE if waiting else BUSY) if active() else None


def _start_timer() -> None:
    if not bpy.app.timers.is_registered(_timer):
        bpy.app.timers.register(_timer, first_interval=BUSY)


def _stop_timer_if_idle() -> None:
    if not active() and bpy.app.timers.is_registered(_timer):
        bpy.app.timers.unregister(_timer)


def _end_of_session(words: str) -> None:
    """One undo step of that name (empty: none), once neither driving nor recording goes on."""
    _stop_timer_if_idle()
    push: Any = bpy.ops.ed.undo_push
    if words and state.drive is None and state.record is None and push.poll():
        push(message=words)
    jobs.redraw()


def stop() -> None:
    """End everything at once: socket, timer, driving, recording. What was taught is saved; what was recorded is dropped."""
    state.record = state.drive = None
    stop_sending()
    hang_up()
    _stop_timer_if_idle()


def _object(name: str) -> bpy.types.Object:
    found: Any = bpy.data.objects.get(name)
    if found is None or found.pose is None:
        raise ValueError(f"{name} is gone or has another name now")
    return found


def _key(ob: bpy.types.Object) -> tuple[Any, ...]:
    """What a Rig depends on and may change under way: names, placement, units."""
    turn = tuple(np.array(ob.matrix_world)[:3, :3].round(6).ravel().tolist())
    bones = ob.pose.bones if ob.pose is not None else ()
    return (tuple(pb.name for pb in bones), tuple(pb.rotation_mode for pb in bones), turn, rig.metres(ob))


def _refit(ob: bpy.types.Object, before: Rig) -> Rig | None:
    """The rig anew, its bones in the same order; None where they are others."""
    try:
        found = rig_checks.fit(ob, live_ik.weights())
    except (SkeletonMismatch, ValueError, OSError):
        found = rig.read(ob)
    return found if found.skeleton.names == before.skeleton.names else None


def _before_load(*_: object) -> None:
    stop()


def _after_frame(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    if not active() or (depsgraph is not None and depsgraph.mode != "VIEWPORT"):
        return
    now = time.monotonic()
    try:
        if state.drive is not None:
            _step(now)
        if state.record is not None:
            _sample(scene, now, scene.frame_current)
        if state.drive is None:  # what is driven is shown after Blender's update: the next tick sends it
            if state.server is not None and state.server.clients() and state.body_rig is not None:
                _publish(state.server, now, anyway=False)
            if state.send is not None:
                _send_pose(now)
    except (ValueError, OSError):
        pass  # the next tick meets it again, outside of Blender's update, and says so


_HANDLERS = (  # persistent: they stay when another file is loaded
    ("load_pre", persistent(_before_load)),
    ("frame_change_post", persistent(_after_frame)),
)


def register() -> None:
    """Watch for files and frames."""
    for name, handler in _HANDLERS:
        getattr(bpy.app.handlers, name).append(handler)


def unregister() -> None:
    """End everything, watch no more, remember nothing."""
    stop()
    remove_targets()
    for name, handler in _HANDLERS:
        found = getattr(bpy.app.handlers, name)
        if handler in found:
            found.remove(handler)
    fresh = State()
    for name in State.__dataclass_fields__:
        setattr(state, name, getattr(fresh, name))
