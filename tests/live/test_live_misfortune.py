# SPDX-License-Identifier: GPL-3.0-or-later
"""The live server when something goes wrong: with one client, one file, the disk, too many of anything, or the time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPO, hear_hangups, run_cli
from test_live_channels import legs_rows

from neural_network.live import command as live_command
from neural_network.live import connection, requests, rig_store, server, vmc
from neural_network.live import protocol as p
from neural_network.live.axes import ARMATURE
from neural_network.live.body import ServedBody
from neural_network.live.handshake import read_hello
from neural_network.live.layouts import SIZES, Channel, legs_layout
from neural_network.live.learner import new_trainee, observe, weight_count
from neural_network.live.rig_store import MOST_FILES, MOST_RIGS, RigStore
from neural_network.live.server import Event, Server
from neural_network.live.trainee import Settings, Trainee
from tests.fuzz.messages import WIDE, wide_row

QUICK = Settings(hidden=(16,), batch=16, calm_frames=10)


def hello(name: str) -> dict[str, Any]:
    return {"rig": name, "axes": list(ARMATURE), "layout": "legs"}


class World:
    """A server, its clock and its clients, all in this process."""

    def __init__(self, folder: Path | None = None, settings: Settings | None = QUICK, **options: Any) -> None:
        self.server = Server(port=0, folder=folder, settings=settings, **options)
        self.now = 0.0
        self.events: list[Event] = []

    def connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.server.attach(theirs, self.now)
        return ours

    def poll(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 0.001
            self.events += self.server.poll(self.now)

    def ask(self, ours: socket.socket, data: bytes, kind: int) -> p.Message:
        """Send, and wait for an answer of that type or an error."""
        inbox = bytearray()
        ours.send(data)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.poll()
            try:
                inbox += ours.recv(1 << 16)
            except BlockingIOError:
                continue
            for message in p.messages(inbox, dict.fromkeys(range(256), (0, 1 << 20))):
                if message.type in (kind, p.ERROR):
                    return message
        raise AssertionError(f"no answer; events {self.events}")

    def meet(self, name: str, ours: socket.socket | None = None) -> tuple[socket.socket, dict[str, Any]]:
        """A client after its handshake, and the answer to it."""
        ours = ours or self.connect()
        answer = self.ask(ours, p.pack_json(p.HANDSHAKE, hello(name)), p.HANDSHAKE)
        return ours, p.read_json(answer.payload)

    def teach(self, ours: socket.socket, frames: int = 5) -> None:
        rows = np.concatenate(legs_rows(np.random.default_rng(0), frames), axis=1)
        for row in rows:
            seen = self.server.frames
            ours.send(p.pack_numbers(p.TRAIN, row))
            while self.server.frames == seen:
                self.poll()

    def save(self, ours: socket.socket) -> p.Message:
        return self.ask(ours, p.pack(p.CONTROL, bytes([p.SAVE])), p.CONTROL)

    def until(self, done: Callable[[], object], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, self.events
            self.poll()

    def rig(self, name: str, value: dict[str, Any] | None = None) -> rig_store.TaughtRig:
        return self.server.rigs[read_hello(value or hello(name)).fingerprint]


@pytest.fixture
def world() -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(*args: Any, **options: Any) -> World:
        made.append(World(*args, **options))
        return made[-1]

    yield make
    for one in made:
        with contextlib.suppress(OSError):  # a test's folder that cannot be written
            one.server.close()


def words(message: p.Message) -> str:
    assert message.type == p.ERROR
    return str(json.loads(message.payload)["text"])


def file_of(folder: Path, name: str) -> Path:
    return folder / f"{read_hello(hello(name)).fingerprint}.npz"


# ---- taught rigs


def test_handshakes_without_a_frame_are_never_saved_and_push_out_no_taught_rig(world, tmp_path: Path) -> None:
    here = world(tmp_path)
    good, _ = here.meet("precious")
    here.teach(good, 20)
    good.close()
    here.poll(2)
    bad = here.connect()
    for i in range(90):
        here.meet(f"junk {i}", bad)
    _, answer = here.meet("precious")
    assert answer["found"]
    assert answer["frames"] == 20
    assert len(here.server.rigs) == 2  # the taught one, and the last that is in use
    bad.close()
    here.poll(2)
    here.server.save()
    assert [f.name for f in tmp_path.iterdir()] == [file_of(tmp_path, "precious").name]


def test_a_folder_that_is_full_is_said_to_the_client_and_nothing_is_forgotten_or_deleted(world, tmp_path: Path) -> None:
    for i in range(MOST_FILES):
        (tmp_path / f"{i}.npz").write_bytes(b"somebody's")
    here = world(tmp_path)
    good, answer = here.meet("precious")
    assert "holds 64 rigs already" in answer["note"]
    here.teach(good)
    assert "holds 64 rigs already" in words(here.save(good))
    good.close()
    here.poll(2)
    for i in range(MOST_RIGS - 1):
        ours, _ = here.meet(f"other {i}")
        here.teach(ours, 1)
        ours.close()
    here.poll(2)
    late, _ = here.meet("late")
    row = np.concatenate(legs_rows(np.random.default_rng(0), 1), axis=1)[0]
    assert "at most 16 taught rigs" in words(here.ask(late, p.pack_numbers(p.TRAIN, row), p.TRAIN))
    assert here.meet("precious")[1]["frames"] == 5
    with pytest.raises(OSError, match="16 of the taught rigs could not be saved"):
        here.server.save()
    (tmp_path / "0.npz").unlink()
    assert "holds 64 rigs" not in str(here.save(late).payload)  # nothing of its own to save
    with pytest.raises(OSError, match="15 of the taught rigs"):
        here.server.save()
    assert len(list(tmp_path.glob("*.npz"))) == MOST_FILES


def test_a_rig_makes_way_once_it_is_saved_and_is_found_again(world, tmp_path: Path) -> None:
    here = world(tmp_path)
    for i in range(MOST_RIGS + 3):
        ours, _ = here.meet(f"rig {i}")
        here.teach(ours, 2)
        assert here.save(ours).type == p.CONTROL
        ours.close()
        here.poll(2)
    assert len(here.server.rigs) == MOST_RIGS
    for i in (0, 7, MOST_RIGS + 2):
        assert here.meet(f"rig {i}")[1]["frames"] == 2


def _list_for_a_head() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, head=np.frombuffer(b"[]", np.uint8), about=np.frombuffer(b"[]", np.uint8))
    return buffer.getvalue()


@pytest.mark.parametrize("damage", ["list", "cut", "empty", "folder", "pipe"])
def test_a_damaged_file_is_set_aside_and_said_and_others_notice_nothing(world, tmp_path: Path, damage: str) -> None:
    here = world(tmp_path)
    other, _ = here.meet("other")
    place = file_of(tmp_path, "hero")
    content = {"list": _list_for_a_head(), "cut": _list_for_a_head()[:99], "empty": b""}.get(damage)
    if content is not None:
        place.write_bytes(content)
    elif damage == "folder":
        place.mkdir()
    elif hasattr(os, "mkfifo"):
        os.mkfifo(place)
    else:
        pytest.skip("this system has no named pipes")
    ours, answer = here.meet("hero")
    assert not answer["found"]
    assert "could not be read" in answer["note"]
    aside = place.with_name(f"{place.stem}.damaged")
    assert aside.name in answer["note"]
    assert content is None or aside.read_bytes() == content
    here.teach(ours)
    assert here.save(ours).type == p.CONTROL
    here.teach(other)
    again = World(tmp_path)
    assert again.meet("hero")[1]["frames"] == 5
    again.server.close()


def test_a_damaged_file_that_cannot_be_set_aside_is_never_overwritten(world, tmp_path: Path, monkeypatch) -> None:
    place = file_of(tmp_path, "hero")
    place.write_bytes(b"perhaps somebody can repair it")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rig_store.os, "rename", refuse)
    here = world(tmp_path)
    ours, answer = here.meet("hero")
    assert "left untouched" in answer["note"]
    here.teach(ours)
    assert "left untouched" in words(here.save(ours))
    with pytest.raises(OSError, match="left untouched"):
        here.server.close()
    assert place.read_bytes() == b"perhaps somebody can repair it"


def test_a_place_that_is_not_a_file_any_more_blocks_nobody(world, tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    here = world(tmp_path)
    ours, _ = here.meet("hero")
    here.teach(ours)
    os.mkfifo(file_of(tmp_path, "hero"))
    assert "is not a file" in words(here.save(ours))


# ---- saving


def test_what_has_changed_is_saved_every_half_minute_and_only_that(world, tmp_path: Path) -> None:
    here = world(tmp_path)
    ours, _ = here.meet("hero")
    here.teach(ours)
    here.meet("nobody teaches me")
    assert not list(tmp_path.iterdir())
    here.now += rig_store.AUTOSAVE_SECONDS
    here.until(lambda: any(e.kind == "saved" for e in here.events))
    place = file_of(tmp_path, "hero")
    assert [f.name for f in tmp_path.iterdir()] == [place.name]
    before = place.stat().st_mtime_ns, place.stat().st_ino
    here.now += 3 * rig_store.AUTOSAVE_SECONDS
    here.poll(50)
    assert (place.stat().st_mtime_ns, place.stat().st_ino) == before
    again = World(tmp_path)
    assert again.meet("hero")[1]["frames"] == 5
    again.server.close()


def test_a_poll_writes_a_small_piece_and_a_file_appears_whole(world, tmp_path: Path, monkeypatch) -> None:
    """With no time for more, one piece a poll: others are served between any two."""
    monkeypatch.setattr(rig_store, "PIECES_SECONDS", 0.0)
    here = world(tmp_path, settings=Settings())
    ours, _ = here.meet("hero")
    here.teach(ours, 300)
    rig = here.rig("hero")
    rig.trainee.pause()
    here.now += rig_store.AUTOSAVE_SECONDS
    polls = 0
    while not file_of(tmp_path, "hero").exists():
        here.poll()
        polls += 1
        assert polls < 1000
    assert polls >= 6
    assert (new := new_trainee(legs_layout(), Settings())).load(file_of(tmp_path, "hero")) is None
    assert new.frames == rig.trainee.frames


def test_a_file_is_on_the_disk_before_it_replaces_the_one_before(world, tmp_path: Path, monkeypatch) -> None:
    """After a power cut a name whose bytes were still in memory can be an empty file, and the one before is gone."""
    done: list[tuple[str, int]] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append(("synced", os.fstat(descriptor).st_size))
        sync(descriptor)

    def replaced(source: Path, target: Path) -> None:
        done.append(("replaced", os.stat(source).st_size))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    here = world(tmp_path, settings=Settings())
    ours, _ = here.meet("hero")
    here.teach(ours, 40)
    here.now += rig_store.AUTOSAVE_SECONDS
    here.until(lambda: file_of(tmp_path, "hero").exists())
    size = file_of(tmp_path, "hero").stat().st_size
    assert done[-2:] == [("synced", size), ("replaced", size)]


def test_frames_that_come_while_a_rig_is_saved_are_not_in_its_file(tmp_path: Path, rng) -> None:
    """Not even where they replace rows of a store that is full."""
    settings = Settings(hidden=(8,), store_frames=64, store_bytes=1 << 20)
    layout = legs_layout()
    trainee = new_trainee(layout, settings)
    inputs, outputs = legs_rows(rng, 90)
    for a, b in zip(inputs[:60], outputs[:60], strict=True):
        observe(layout, trainee, a, b, rng)
        trainee.train(1)
    trainee.save(tmp_path / "before.npz")
    pieces = trainee.save_in_pieces(tmp_path / "pieces.npz")
    for a, b in zip(inputs[60:], outputs[60:], strict=True):
        next(pieces, None)
        observe(layout, trainee, a, b, rng)
    for _ in pieces:
        pass
    assert (tmp_path / "pieces.npz").read_bytes() == (tmp_path / "before.npz").read_bytes()


def test_a_disk_that_takes_nothing_is_said_once_and_tried_again(world, tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    folder.write_text("a file where the folder should be")
    here = world(folder)
    ours, _ = here.meet("hero")
    here.teach(ours)
    assert "cannot make the folder" in words(here.save(ours))
    for _ in range(3):
        here.now += rig_store.AUTOSAVE_SECONDS
        here.poll(20)
    assert sum(e.kind == "error" and "cannot make the folder" in e.text for e in here.events) == 1
    folder.unlink()
    here.now += rig_store.AUTOSAVE_SECONDS
    here.until(lambda: file_of(folder, "hero").exists())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("full", [False, True])
def test_a_signal_saves_and_ends_with_0_or_with_2_where_it_could_not(tmp_path: Path, name: str, full: bool) -> None:
    if not hasattr(signal, name) or sys.platform == "win32":
        pytest.skip("this system has no such signal")
    folder = tmp_path / "weights"
    if full:
        folder.write_text("in the way")
    command = [sys.executable, "-m", "neural_network", "serve", "--port", "0", "--json", "--folder", str(folder)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPO, preexec_fn=hear_hangups
    )
    assert process.stdout is not None
    port = json.loads(process.stdout.readline())["port"]
    with socket.create_connection(("127.0.0.1", port)) as ours:
        ours.sendall(p.pack_json(p.HANDSHAKE, hello("hero")))
        for row in np.concatenate(legs_rows(np.random.default_rng(0), 10), axis=1):
            ours.sendall(p.pack_numbers(p.TRAIN, row))
        while "hero: learning" not in process.stdout.readline():
            pass
        process.send_signal(getattr(signal, name))
        process.send_signal(getattr(signal, name))  # an impatient second one stops nothing
        _, error = process.communicate(timeout=60)
    assert process.returncode == (2 if full else 0), error
    assert "Traceback" not in error
    if full:
        assert "could not be saved: hero" in error
    else:
        assert file_of(folder, "hero").is_file()


def test_the_line_of_a_rig_that_nobody_has_taught_is_valid_json(world) -> None:
    here = world()
    here.meet("new")
    line = live_command._line(here.server, [0.0, 0.0, 0.0], as_json=True)
    rig = json.loads(line, parse_constant=pytest.fail)["rigs"][0]
    assert rig["frames"] == 0
    assert rig["error"] is None


def test_one_of_anything_is_said_in_the_singular(world) -> None:
    here = world()
    ours, _ = here.meet("hero")
    here.teach(ours, 1)
    line = live_command._line(here.server, [0.0, 0.0, 0.0], as_json=False)
    assert line.startswith("1 client, ")
    assert line.endswith(", 1 frame")


# ---- one client's fault


def test_a_fault_that_one_client_meets_ends_neither_the_server_nor_another_client(world, monkeypatch) -> None:
    here = world(body=ServedBody(("Hips",), (-1,), np.zeros((1, 3))))
    good, _ = here.meet("good")
    bad, _ = here.meet("bad")
    sound = requests.observe

    def faulty(layout: Any, trainee: Trainee, *rest: Any) -> None:
        if trainee is here.rig("bad").trainee:
            raise AttributeError("nobody has thought of this")
        sound(layout, trainee, *rest)

    monkeypatch.setattr(requests, "observe", faulty)
    row = np.concatenate(legs_rows(np.random.default_rng(0), 1), axis=1)[0]
    answer = here.ask(bad, p.pack_numbers(p.TRAIN, row), p.TRAIN)
    assert json.loads(answer.payload)["code"] == "server"
    assert "nobody has thought of this" in words(answer)
    here.teach(good)
    assert any(e.kind == "error" and "nobody has thought" in e.text for e in here.events)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("in the step")

    monkeypatch.setattr(here.rig("good").trainee, "go_on", broken)
    here.teach(good, 40)
    here.poll(3)
    assert here.rig("good").trainee.paused
    assert any("good stopped learning: ZeroDivisionError" in e.text for e in here.events)
    assert here.server.clients() == 2


def test_a_handshake_that_gives_a_field_twice_is_refused_in_words(world) -> None:
    here = world()
    ours = here.connect()
    text = json.dumps(hello("hero")).replace('"layout": "legs"', '"layout": "free", "layout": "legs"')
    answer = here.ask(ours, p.pack(p.HANDSHAKE, text.encode()), p.HANDSHAKE)
    assert "expected each name once in a JSON object, got 'layout' twice" in words(answer)


# ---- too many


@pytest.mark.parametrize("token", [None, "a token of many letters"])
def test_sockets_that_say_nothing_keep_nobody_out(world, token: str | None) -> None:
    here = world(token=token)
    silent = [here.connect() for _ in range(200)]
    here.poll(5)
    assert here.server.clients() <= server.MOST_STRANGERS
    good = here.connect()
    if token is None:
        assert here.meet("good", good)[1]["version"] == 1
    else:
        here.poll()
        nonce = next(p.messages(bytearray(good.recv(1 << 16)), dict.fromkeys(range(256), (0, 99)))).payload
        more = [here.connect() for _ in range(server.MOST_STRANGERS // 2)]
        proof = p.pack(p.AUTH, bytes(32) + p.mac(token, "client", nonce, bytes(32)))
        assert here.ask(good, proof, p.AUTH).type == p.AUTH
        more += [here.connect() for _ in range(200)]  # it has proved that it knows the token, so it stays
        assert here.meet("good", good)[1]["version"] == 1
        silent += more
    for ours in silent:
        ours.close()


def test_clients_that_have_gone_silent_make_way_for_a_new_one(world) -> None:
    here = world()
    idle = [here.meet(f"idle {i}")[0] for i in range(server.MOST_CLIENTS)]
    late = here.connect()
    assert "at most 16 clients" in words(here.ask(late, p.pack_json(p.HANDSHAKE, hello("late")), p.HANDSHAKE))
    here.now += server.SILENT + 1
    assert here.meet("later")[1]["version"] == 1
    assert sum(e.kind == "closed" and "silent" in e.text for e in here.events) == 1
    for ours in idle:
        ours.close()


# ---- time


def test_the_one_who_has_used_least_time_is_served_first(world, monkeypatch) -> None:
    """With a budget of a single message a poll, a request is answered in the next poll, whatever others have sent before."""
    here = world()
    greedy = [here.meet(f"greedy {i}")[0] for i in range(5)]
    good, _ = here.meet("good")
    inputs, outputs = legs_rows(np.random.default_rng(0), 10)
    flood = b"".join(p.pack_numbers(p.TRAIN, np.concatenate(r)) for r in zip(inputs, outputs, strict=True))
    for ours in greedy:
        ours.send(flood)
    monkeypatch.setattr(server, "POLL_SECONDS", 0.0)
    here.poll(20)
    assert here.server.frames == 20
    seen = [rig.trainee.frames for name, rig in sorted(here.server.rigs.items()) if rig.name != "good"]
    assert min(seen) >= 1, "the five share the time"
    good.send(p.pack_numbers(p.PREDICT, inputs[0]))
    here.poll()
    assert select.select([good], [], [], 1)[0], "answered in one poll"
    here.poll(40)
    assert here.server.frames == 50, "what did not fit into a poll was done later, and nothing was dropped"


def test_the_rest_of_those_who_send_too_much_counts_as_theirs(world, monkeypatch) -> None:
    """Otherwise a client that needs little has soon used more than each of them, and waits behind them all."""
    here = world()
    greedy = [here.meet(f"greedy {i}")[0] for i in range(2)]
    good, _ = here.meet("good")
    inputs, outputs = legs_rows(np.random.default_rng(0), 10)
    flood = b"".join(p.pack_numbers(p.TRAIN, np.concatenate(r)) for r in zip(inputs, outputs, strict=True))
    monkeypatch.setattr(server, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(server, "REST", 1e6)
    for ours in greedy:
        ours.send(flood)
    here.poll()
    before = [client.spent for client in here.server._clients]
    here.server.wait(0.02)
    rested = [client.spent - was for client, was in zip(here.server._clients, before, strict=True)]
    assert rested == pytest.approx([0.01, 0.01, 0.0], rel=0.5, abs=1e-4)
    good.close()


def test_a_wide_handshake_is_done_in_turns(world, monkeypatch) -> None:
    """With a budget of one turn a poll, others are answered before a handshake of many channels is."""
    here = world()
    good, _ = here.meet("good")
    here.teach(good)
    wide = here.connect()
    here.poll()
    wide.send(p.pack_json(p.HANDSHAKE, WIDE))
    monkeypatch.setattr(server, "POLL_SECONDS", 0.0)
    served_good, served_wide = here.server._clients
    here.poll()
    assert served_wide.greeting is not None
    good.recv(1 << 16)
    good.send(p.pack(p.PING, b"now"))
    served_good.spent = 0.0
    here.poll()
    assert b"now" in good.recv(1 << 16)
    assert served_wide.greeting is not None
    here.poll(2)
    assert served_wide.hello is not None
    assert b'"version":1' in wide.recv(1 << 16)


def test_a_wide_handshake_that_is_wrong_is_refused_in_its_last_turn_and_the_next_is_taken(world) -> None:
    here = world()
    ours = here.connect()
    wrong = WIDE | {"outputs": [{"name": "o", "kind": "nonsense"}]}
    assert "expected a kind" in words(here.ask(ours, p.pack_json(p.HANDSHAKE, wrong), p.HANDSHAKE))
    assert here.ask(ours, p.pack_json(p.HANDSHAKE, WIDE), p.HANDSHAKE).type == p.HANDSHAKE


def test_a_request_interrupts_a_learning_step(world) -> None:
    here = world(settings=Settings(steps_a_frame=1000))
    good, _ = here.meet("good")
    inputs, outputs = legs_rows(np.random.default_rng(0), 40)
    for row in np.concatenate([inputs, outputs], axis=1):
        good.send(p.pack_numbers(p.TRAIN, row))
        here.poll()
    trainee = here.rig("good").trainee
    here.until(lambda: trainee.steps > 2)
    steps = trainee.steps
    store = here.server._store
    store.learn(10.0, lambda: True)
    assert trainee.begun
    assert trainee.steps == steps
    good.send(p.pack_numbers(p.PREDICT, inputs[0]))
    here.until(lambda: here.server.predictions == 1)
    here.until(lambda: trainee.steps > steps)


def test_a_flood_of_any_kind_makes_no_poll_long(world) -> None:
    """Processor time of a poll with five clients that keep their sockets full: the budget, one message and one step."""
    for kind in ("legs", "wide", "handshakes"):
        here = world(settings=Settings())
        value = WIDE if kind != "legs" else hello("hero")
        row = wide_row() if kind == "wide" else np.concatenate(legs_rows(np.random.default_rng(0), 1), axis=1)[0]
        left: dict[socket.socket, bytes] = {}
        for i in range(5):
            ours = here.connect()
            left[ours] = p.pack_json(p.HANDSHAKE, value | {"rig": f"r{i}"})
        took = []
        for k in range(30):
            for i, ours in enumerate(left):
                data = p.pack_numbers(p.TRAIN, row) * 16
                if kind == "handshakes":
                    data = b"".join(p.pack_json(p.HANDSHAKE, value | {"rig": f"h{i} {k} {j}"}) for j in range(3))
                if len(left[ours]) < 1 << 20:
                    left[ours] += data
                with contextlib.suppress(BlockingIOError):
                    left[ours] = left[ours][ours.send(left[ours]) :]
                with contextlib.suppress(BlockingIOError):
                    ours.recv(1 << 20)
            begin = time.process_time()
            here.poll()
            took.append(time.process_time() - begin)
        assert np.median(took) < 0.015, (
            kind
        )  # three polls of a budget and one step each; unlimited ones took 10 times that


# ---- memory


def still_row(channels: Sequence[Channel]) -> np.ndarray:
    """Numbers of channels: positions at the origin, no rotation, zeros."""
    return np.concatenate([np.eye(1, SIZES[c.kind])[0] * (c.kind == "rotation") for c in channels])


@pytest.mark.slow
def test_a_message_allocates_at_most_two_mebibytes_at_default_settings(world, tmp_path: Path) -> None:
    widest = WIDE | {
        "rig": "widest",
        "inputs": [*WIDE["inputs"][:2], *({"name": f"r{k}", "kind": "rotation"} for k in range(120))],
    }
    large = WIDE | {
        "rig": "large",
        "inputs": [*widest["inputs"][:66], *({"name": f"n{k}", "kind": "number"} for k in range(10))],
    }
    layout = read_hello(large).layout
    assert layout is not None
    assert 0.99 < weight_count(layout, Settings()) / rig_store.MOST_WEIGHTS <= 1
    row_of_large = np.concatenate([still_row(layout.inputs), still_row(layout.outputs)])
    for value, row in ((hello("legs"), None), (WIDE, wide_row()), (large, row_of_large), (widest, None)):
        here = world(tmp_path, settings=Settings())
        ours = here.connect()
        tracemalloc.start()
        try:
            messages = [p.pack_json(p.HANDSHAKE, value)]
            if row is not None:
                inputs = read_hello(value).layout.input_size
                messages += [p.pack_numbers(p.TRAIN, row)] * 60 + [p.pack_numbers(p.PREDICT, row[:inputs])]
                messages += [p.pack(p.CONTROL, bytes([p.SAVE]))]
            elif value is not widest:
                rows = np.concatenate(legs_rows(np.random.default_rng(0), 700), axis=1)
                messages += [p.pack_numbers(p.TRAIN, r) for r in rows] + [p.pack(p.CONTROL, bytes([p.SAVE]))]
            for message in messages:
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                ours.send(message)
                here.poll(3 if message is messages[0] else 1)  # a wide handshake takes three turns
                assert tracemalloc.get_traced_memory()[1] - before < 2 << 20
                with contextlib.suppress(BlockingIOError):
                    last = ours.recv(1 << 20)
        finally:
            tracemalloc.stop()
        if value is widest:
            assert b"at most 393,216 weights" in last
        elif row is not None:  # it has begun to learn
            assert here.rig(value["rig"], value).trainee.steps > 0


def test_vmc_packets_are_read_for_a_bounded_time_only(monkeypatch) -> None:
    receiver = vmc.Receiver(port=0)
    packet = vmc.osc_bundle([vmc.osc_message("/VMC/Ext/Bone/Pos", "Hips", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        for _ in range(10):
            ours.sendto(packet, ("127.0.0.1", receiver.port))
        monkeypatch.setattr(vmc, "READ_SECONDS", -1.0)
        assert not receiver.poll()
        monkeypatch.setattr(vmc, "READ_SECONDS", 10.0)
        end = time.monotonic() + 10
        while not receiver.poll():
            assert time.monotonic() < end
    receiver.close()
    assert set(receiver.bones) == {"Hips"}
    long = vmc.osc_message("/VMC/Ext/Bone/Pos", "x" * 1000, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    assert vmc.read_bones(vmc.osc_read(long)) == {}


# ---- the terminal, and clients


@pytest.mark.slow
def test_a_clip_that_is_not_there_is_said_and_the_exit_code_is_2() -> None:
    done = run_cli("-m", "neural_network", "live", "--replay", "nowhere.bvh")
    assert done.returncode == 2
    assert done.stderr.strip() == "python -m neural_network: live: expected .bvh files, and there is no nowhere.bvh"
    for command in ("live", "serve"):
        text = " ".join(run_cli("-m", "neural_network", command, "--help").stdout.split())
        assert "Exit codes: 0" in text
        assert "['" not in text


@pytest.mark.slow
def test_the_python_check_without_its_module_says_so_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "pythonosc.py").write_text("raise ImportError('not here')")
    done = run_cli(str(REPO / "clients/python/check_vmc.py"), env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.startswith("check_vmc.py needs python-osc")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_node_check_without_its_client_or_arguments_says_so_in_one_sentence(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("needs node, which is not installed here")
    shutil.copy(REPO / "clients/node/check.mjs", tmp_path)
    for script, start in ((tmp_path / "check.mjs", "check.mjs needs nik_client.mjs"), (None, "usage: node check.mjs")):
        path = str(script or REPO / "clients/node/check.mjs")
        done = subprocess.run(["node", path], capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert done.stderr.startswith(start)
        assert len(done.stderr.splitlines()) == 1


def test_a_client_is_told_what_it_may_send_before_anything_is_stored(world) -> None:
    here = world()
    ours, _ = here.meet("hero")
    ours.send(p.HEADER.pack(b"NIK1", 1, p.TRAIN, 0, 1 << 31, 0, 0.0))
    here.poll()
    assert "expected a payload of 696 to 696 bytes, got 2147483648" in str(ours.recv(1 << 16))
    assert connection.READ_BYTES == 1 << 16


def test_a_rig_that_learns_is_fair_to_others(world) -> None:
    """A rig whose steps cost much gets no more time than one whose steps cost little."""
    store = RigStore(None, QUICK, 0, lambda kind, text: None)
    steps = {"slow": 0, "quick": 0}

    class Pupil:
        hungry, paused, begun = True, False, False
        prepare = staticmethod(lambda: False)

        def __init__(self, name: str, seconds: float) -> None:
            self.name, self.seconds = name, seconds

        def go_on(self) -> bool:
            steps[self.name] += 1
            time.sleep(self.seconds)
            return True

    for name, seconds in (("slow", 0.01), ("quick", 0.001)):
        pupil: Any = Pupil(name, seconds)
        store.rigs[name] = rig_store.TaughtRig(name, name, legs_layout(), pupil, np.random.default_rng(0))
    store.learn(0.2)
    assert steps["quick"] > 3 * steps["slow"] > 0
