# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol and the server: round trips, the token, the newest frame, hostile bytes, and misbehaving clients."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from test_live_channels import knee_layout, knee_rows, legs_rows

from neural_network.core.rotations import quaternion_from_axis_angle
from neural_network.live import protocol as p
from neural_network.live.axes import ARMATURE, GODOT, UNITY, axes_matrix, convert_quaternions, convert_vectors
from neural_network.live.body import ServedBody
from neural_network.live.client import Client
from neural_network.live.handshake import layout_fields
from neural_network.live.server import Event, Server
from neural_network.live.trainee import Settings
from tests.fuzz import messages as fuzz_messages

QUICK = Settings(hidden=(16,), batch=16, calm_frames=10)
LEGS = {"rig": "hero", "bones": ["Pelvis"], "axes": list(ARMATURE), "layout": "legs"}
KNEES = {"rig": "hero", "axes": list(ARMATURE), **layout_fields(knee_layout())}
WATCH = {"rig": "viewer", "axes": list(ARMATURE), "watch": True}
TOKEN = "a token of many letters"


PATIENT = 120.0
"""[s] for a busy computer to carry bytes from one socket to another; only a failing test waits that long."""


class Clock:
    """Time that a test sets."""

    now = 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(**options: object) -> Server:
        servers.append(Server(port=0, settings=QUICK, **options))  # type: ignore[arg-type]
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def meet(server: Server, clock: Clock, hello: dict, token: str | None = None) -> Client:
    client = Client(hello, port=server.port, token=token)
    pump(server, clock, lambda: client.poll() and client.answer)
    assert client.answer is not None
    return client


def pump(server: Server, clock: Clock, done: Callable[[], object]) -> list[Event]:
    """Poll the server until ``done`` returns something true, however long a busy computer takes to carry the bytes.

    The server's clock moves a millisecond a poll, and two seconds in all: patience is for the machine, not for the server.
    """
    events: list[Event] = []
    end, polls = time.monotonic() + PATIENT, 0
    while time.monotonic() < end:
        polls += 1
        clock.now += 0.001 if polls <= 2000 else 0.0
        events += server.poll(clock.now)
        if done():
            return events
        if polls > 200:
            time.sleep(0.001)
    raise AssertionError(f"expected an answer within {PATIENT:g} s; events: {events}")


def arrived(server: Server, count: int, of: int = -1) -> None:
    """Wait until ``count`` bytes of one client have arrived, so that the server reads them in one poll."""
    connection, end = server._clients[of].socket, time.monotonic() + PATIENT
    while time.monotonic() < end:
        try:
            if len(connection.recv(count, socket.MSG_PEEK)) == count:
                return
        except BlockingIOError:
            pass
        time.sleep(0.0005)
    raise AssertionError(f"expected {count} bytes within {PATIENT:g} s")


def send(client: Client) -> int:
    """Send everything that the client has queued; returns the bytes. What it receives is left for its next ``poll``."""
    size = len(client._later) + len(client._outbox)
    client._unread = client.poll()
    assert not client._outbox
    return size


def taught(server: Server, clock: Clock, client: Client, inputs: np.ndarray, outputs: np.ndarray) -> None:
    """Train frame by frame, waiting for each, so that none is dropped."""
    for a, b in zip(inputs, outputs, strict=True):
        seen = server.frames
        client.train(np.concatenate([a, b]))
        client.poll()
        pump(server, clock, lambda seen=seen: server.frames > seen)  # type: ignore[misc]


def ask(server: Server, clock: Clock, client: Client, kind: int) -> p.Message:
    found: list[p.Message] = []
    pump(server, clock, lambda: found.extend(m for m in client.poll() if m.type in (kind, p.ERROR)) or found)
    assert found[0].type == kind, found[0].payload
    return found[0]


def raw(server: Server) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.setblocking(False)
    return connection


def received(
    server: Server, clock: Clock, connection: socket.socket, done: Callable[[list], object]
) -> list[p.Message]:
    """All messages received by a raw socket, once ``done`` returns true for them."""
    data = bytearray()
    got: list[p.Message] = []

    def enough() -> object:
        try:
            while part := connection.recv(65536):
                data.extend(part)
        except (BlockingIOError, ConnectionResetError):
            pass
        got.extend(p.messages(data, dict.fromkeys(range(256), (0, 1 << 20))))
        return done(got)

    pump(server, clock, enough)
    return got


def refused(messages: list[p.Message]) -> bool:
    return bool(messages) and messages[-1].type == p.ERROR


def test_the_header_is_24_bytes_little_endian() -> None:
    data = p.pack(p.PING, b"abc", flags=0x0102, sequence=7, time=1.5)
    assert data[:24] == b"NIK1" + struct.pack("<BBHIId", 1, 6, 0x0102, 3, 7, 1.5)
    assert data[24:] == b"abc"
    assert p.STATUS.size == 28


def test_a_stream_cut_anywhere_gives_the_same_messages() -> None:
    data = p.pack(p.PING, b"abc", sequence=1) + p.pack(p.PING, sequence=2) + p.pack(p.CONTROL, b"\1", sequence=3)
    limits = {p.PING: (0, 10), p.CONTROL: (1, 1)}
    whole = list(p.messages(bytearray(data), limits))
    assert [m.sequence for m in whole] == [1, 2, 3]
    for cut in range(len(data)):
        buffer = bytearray(data[:cut])
        got = list(p.messages(buffer, limits))
        buffer += data[cut:]
        assert got + list(p.messages(buffer, limits)) == whole
        assert not buffer


def test_limits_are_checked_on_the_header_alone() -> None:
    header = p.HEADER.pack(b"NIK1", 1, p.PING, 0, 0xFFFFFFFF, 0, 0.0)
    with pytest.raises(p.ProtocolError, match="0 to 64 bytes, got 4294967295"):
        list(p.messages(bytearray(header), {p.PING: (0, 64)}))
    for bad in (b"HTTP", b"N1", b"\0"):
        with pytest.raises(p.ProtocolError, match="begins with"):
            list(p.messages(bytearray(bad), {}))
    with pytest.raises(p.ProtocolError, match="finite time"):
        list(p.messages(bytearray(p.pack(p.PING, time=float("nan"))), {p.PING: (0, 64)}))
    with pytest.raises(p.ProtocolError, match="version 1, got 2"):
        list(p.messages(bytearray(header[:4] + b"\2" + header[5:]), {p.PING: (0, 64)}))


def test_a_handshake_is_answered_with_version_sizes_and_thresholds(start, clock) -> None:
    client = meet(start(), clock, LEGS)
    assert client.answer is not None
    expected = {"version": 1, "input_size": 63, "output_size": 24, "threshold": 0.02, "state": "new", "found": False}
    assert {k: client.answer[k] for k in expected} == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rig": ""}, "rig"),
        ({"axes": ["+X", "+X", "+Z"]}, "axes"),
        ({"units": 0}, "units"),
        ({"quaternion": "zyxw"}, "quaternion"),
        ({"layout": "arms"}, "layout"),
        ({"file": "/etc/passwd"}, "fields"),
        ({"layout": "free", "inputs": [], "outputs": []}, "first two inputs"),
        ({"bones": ["a"] * 300}, "at most 256"),
        ({"threshold": True}, "threshold"),
        ({"inputs": [{"name": "x"}]}, "exactly those"),
    ],
)
def test_an_invalid_handshake_is_refused_with_a_reason(start, clock, change: dict, words: str) -> None:
    server = start()
    client = Client(LEGS | change, port=server.port)
    assert words in json.loads(ask(server, clock, client, p.ERROR).payload)["text"]


@pytest.mark.slow
def test_it_learns_from_training_frames_and_sends_a_status_ten_times_a_second(start, clock, rng) -> None:
    server = start()
    client = meet(server, clock, KNEES)
    inputs, outputs = knee_rows(rng, 50)
    answers: list[p.Message] = []
    began = clock.now
    for i in range(200):
        client.train(np.concatenate([inputs[i % 50], outputs[i % 50]]))
        pump(server, clock, lambda i=i: answers.extend(client.poll()) or server.frames > i)  # type: ignore[misc]
        clock.now += 0.004
    client.ping()
    pump(server, clock, lambda: answers.extend(client.poll()) or answers[-1].type == p.PING)
    assert 1 < len(answers) - 1 <= (clock.now - began) * 10 + 1
    answers.pop()
    status, dropped = p.read_status(answers[-1].payload)
    assert status.frames > 150
    assert status.steps > 100
    assert status.error < 0.2
    assert dropped == 0


def test_a_prediction_is_answered_under_its_sequence_number_with_the_state_in_its_flags(start, clock, rng) -> None:
    server = start()
    client = meet(server, clock, LEGS)
    inputs, outputs = legs_rows(rng, 60)
    taught(server, clock, client, inputs, outputs)
    sequence = client.predict(inputs[3], exact=True)
    message = ask(server, clock, client, p.PREDICT)
    assert message.sequence == sequence
    assert message.flags == p.ANSWER | p.IS_LEARNING
    row = p.numbers(message.payload)
    assert row.shape == (24,)
    assert np.abs(np.linalg.norm(row.reshape(6, 4), axis=1) - 1).max() < 1e-12


def test_of_waiting_requests_only_the_newest_is_answered(start, clock, rng) -> None:
    server = start()
    client = meet(server, clock, LEGS)
    inputs, _ = legs_rows(rng, 30)
    sequences = [client.predict(row) for row in inputs]
    arrived(server, send(client))
    assert ask(server, clock, client, p.PREDICT).sequence == sequences[-1]
    client.ping()
    answers: list[p.Message] = []
    pump(server, clock, lambda: answers.extend(client.poll()) or answers)
    assert [m.type for m in answers] == [p.PING]


def test_of_too_many_training_frames_the_oldest_are_dropped(start, clock, rng) -> None:
    server = start()
    client = meet(server, clock, LEGS)
    inputs, outputs = legs_rows(rng, 1)
    for _ in range(60):
        client.train(np.concatenate([inputs[0], outputs[0]]))
    arrived(server, send(client))
    ask(server, clock, client, p.TRAIN)
    client.control(p.PAUSE)
    status, dropped = p.read_status(ask(server, clock, client, p.CONTROL).payload)
    assert status.paused
    assert status.frames + dropped == 60
    assert dropped > 0


def test_nan_and_absurd_frames_are_refused_and_not_learned(start, clock, rng) -> None:
    server = start()
    client = meet(server, clock, LEGS)
    inputs, outputs = legs_rows(rng, 1)
    for at, value in ((0, np.nan), (30, np.inf), (5, 1e30), (0, 1e6)):
        row = np.concatenate([inputs[0], outputs[0]])
        row[at] = value
        client.train(row)
        assert "expected" in json.loads(ask(server, clock, client, p.ERROR).payload)["text"]
    assert server.frames == 0


def test_a_client_that_keeps_making_mistakes_is_disconnected(start, clock) -> None:
    server = start()
    client = meet(server, clock, LEGS)
    row = np.full(87, np.nan)

    def lost() -> bool:
        client.train(row)
        try:
            client.poll()
        except OSError:
            return True
        return False

    pump(server, clock, lost)
    assert server.clients() == 0


def test_counts_must_match_the_handshake(start, clock) -> None:
    server = start()
    client = meet(server, clock, LEGS)
    client.predict(np.zeros(62))
    assert "504 to 504" in json.loads(ask(server, clock, client, p.ERROR).payload)["text"]


def test_pause_undo_save_and_reset_are_answered_with_the_state(start, clock, rng, tmp_path: Path) -> None:
    server = start(folder=tmp_path)
    client = meet(server, clock, LEGS)
    inputs, outputs = legs_rows(rng, 40)
    taught(server, clock, client, inputs, outputs)
    client.control(p.SAVE)
    ask(server, clock, client, p.CONTROL)
    assert client.answer is not None
    assert [f.name for f in tmp_path.iterdir()] == [f"{client.answer['fingerprint']}.npz"]
    client.control(p.UNDO)
    assert "snapshot" in json.loads(ask(server, clock, client, p.ERROR).payload)["text"]
    client.control(99)
    assert "control" in json.loads(ask(server, clock, client, p.ERROR).payload)["text"]
    client.control(p.RESET)
    status, _ = p.read_status(ask(server, clock, client, p.CONTROL).payload)
    assert status.frames == 0


def test_weights_are_found_again_by_rig_and_not_by_another_rig(start, clock, rng, tmp_path: Path) -> None:
    server = start(folder=tmp_path)
    client = meet(server, clock, LEGS)
    inputs, outputs = legs_rows(rng, 40)
    taught(server, clock, client, inputs, outputs)
    server.close()
    again = start(folder=tmp_path)
    answer = meet(again, clock, LEGS).answer
    assert answer is not None
    assert answer["found"]
    assert answer["frames"] == 40
    other = meet(again, clock, LEGS | {"bones": ["Hips"]}).answer
    assert other is not None
    assert not other["found"]


def test_a_damaged_file_is_reported_and_learning_starts_untrained(start, clock, tmp_path: Path) -> None:
    answer = meet(start(folder=tmp_path), clock, LEGS).answer
    assert answer is not None
    (tmp_path / f"{answer['fingerprint']}.npz").write_bytes(b"PK\3\4 no archive")
    server = start(folder=tmp_path)
    client = Client(LEGS, port=server.port)
    events = pump(server, clock, lambda: client.poll() and client.answer)
    assert any(e.kind == "error" and "starting untrained" in e.text for e in events)
    assert client.answer is not None
    assert not client.answer["found"]


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match="port: expected 0 to 65535"):
        Server(port=port)


def test_beyond_this_computer_a_long_token_is_needed() -> None:
    for token in (None, "short"):
        with pytest.raises(ValueError, match="token of at least 16"):
            Server("0.0.0.0", 0, token=token)
    with pytest.raises(ValueError, match="empty"):
        Server(port=0, token="")


def test_with_the_token_both_sides_prove_that_they_know_it(start, clock) -> None:
    server = start(token=TOKEN)
    assert meet(server, clock, LEGS, TOKEN).answer is not None
    pretender = start()  # it requires no token, and learns nothing about it
    assert meet(pretender, clock, LEGS, TOKEN).answer is not None


@pytest.mark.parametrize("token", [None, "", "a token of many letterz", TOKEN[:-1]])
def test_with_a_wrong_token_nothing_is_served(start, clock, token: str | None) -> None:
    server = start(token=TOKEN, body=ServedBody(("Hips",), (-1,), np.zeros((1, 3))))
    client = Client(WATCH, port=server.port, token=token)
    message = ask(server, clock, client, p.ERROR)
    assert json.loads(message.payload)["code"] == "token"
    assert client.answer is None
    with pytest.raises(OSError, match="closed"):
        pump(server, clock, lambda: client.poll())


def test_without_the_token_every_other_message_is_refused(start, clock) -> None:
    server = start(token=TOKEN, body=ServedBody(("Hips",), (-1,), np.zeros((1, 3))))
    hello = json.dumps(LEGS).encode()
    for kind, payload in ((p.HANDSHAKE, hello), (p.PING, b""), (p.CONTROL, b"\3"), (p.TRAIN, bytes(8 * 87)), (0, b"")):
        connection = raw(server)
        connection.send(p.pack(kind, payload))
        got = received(
            server, clock, connection, lambda got: server.publish(np.zeros(3), np.eye(4)[:1]) or refused(got)
        )
        assert [m.type for m in got] == [p.AUTH, p.ERROR]
        assert len(got[0].payload) == p.NONCE
        pump(server, clock, lambda: server.clients() == 0)
        connection.close()
    assert server.rigs == {}


def test_a_proof_is_not_accepted_on_another_connection(start, clock) -> None:
    server = start(token=TOKEN)
    first = raw(server)
    nonce = received(server, clock, first, lambda got: got)[0].payload
    proof = p.pack(p.AUTH, bytes(32) + p.mac(TOKEN, "client", nonce, bytes(32)))
    second = raw(server)
    second.send(proof)
    assert [m.type for m in received(server, clock, second, refused)] == [p.AUTH, p.ERROR]
    first.send(proof)
    answer = received(server, clock, first, lambda got: got)[0]
    assert answer.payload == p.mac(TOKEN, "server", bytes(32), nonce)
    first.close()
    second.close()


def test_a_client_without_the_token_is_disconnected_after_a_while(start, clock) -> None:
    server = start(token=TOKEN)
    connection = raw(server)
    pump(server, clock, lambda: server.clients())
    clock.now += 6
    pump(server, clock, lambda: server.clients() == 0)
    connection.close()


@pytest.mark.slow
def test_five_clients_are_served_side_by_side(start, clock, rng) -> None:
    server = start()
    inputs, _ = legs_rows(rng, 5)
    clients = [meet(server, clock, LEGS | {"rig": f"rig {i}"}) for i in range(5)]
    for round_ in range(20):
        sequences = [c.predict(inputs[(i + round_) % 5]) for i, c in enumerate(clients)]
        for client, sequence in zip(clients, sequences, strict=True):
            client.poll()
            assert ask(server, clock, client, p.PREDICT).sequence == sequence
    assert server.clients() == 5
    assert len(server.rigs) == 5


def test_a_seventeenth_client_is_refused(start, clock) -> None:
    server = start()
    clients = [meet(server, clock, WATCH) for _ in range(16)]
    late = Client(WATCH, port=server.port)
    assert json.loads(ask(server, clock, late, p.ERROR).payload)["code"] == "busy"
    clients[3].ping()
    ask(server, clock, clients[3], p.PING)
    pump(server, clock, lambda: server.clients() == 16)
    for client in clients:
        client.close()
    pump(server, clock, lambda: server.clients() == 0)


@pytest.mark.slow
def test_a_client_that_stops_reading_costs_bounded_memory_and_others_are_still_served(start, clock, rng) -> None:
    server = start()
    body_client = meet(server, clock, LEGS)
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, buffer, 8192)
    server.attach(theirs, clock.now)
    ours.send(p.pack_json(p.HANDSHAKE, LEGS | {"rig": "lazy"}))
    inputs, _ = legs_rows(rng, 1)
    for _ in range(1000):
        clock.now += 0.01
        try:
            ours.send(p.pack_numbers(p.PREDICT, inputs[0]))
        except BlockingIOError:
            pass
        except OSError:
            break
        server.poll(clock.now)
        waiting = sum(len(c.outbox) + sum(map(len, c.newest.values())) for c in server._clients)
        assert waiting < 70_000
    ours.close()
    assert server.clients() == 1
    sequence = body_client.predict(inputs[0])
    body_client.poll()
    assert ask(server, clock, body_client, p.PREDICT).sequence == sequence


@pytest.mark.slow
def test_after_a_pause_a_slow_reader_gets_the_newest_pose_last(start, clock) -> None:
    server = start(body=ServedBody(("Hips",), (-1,), np.zeros((1, 3))))
    client = meet(server, clock, WATCH)
    for i in range(4000):
        server.publish(np.array([float(i), 0, 0]), np.eye(4)[:1], i)
        server.poll(clock.now)
    got: list[p.Message] = []
    pump(server, clock, lambda: got.extend(client.poll()) or (got and got[-1].time == 3999))
    times = [m.time for m in got if m.type == p.POSE]
    assert times == sorted(times)
    assert times[-1] == 3999


@pytest.mark.parametrize("axes", [ARMATURE, UNITY, GODOT])
@pytest.mark.parametrize("order", ["wxyz", "xyzw"])
def test_poses_and_solves_come_in_the_clients_own_axes_units_and_order(start, clock, rng, axes, order) -> None:
    asked: list[tuple] = []
    turns = quaternion_from_axis_angle(rng.standard_normal((3, 3)))

    def solve(*arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        asked.append(arguments)
        return arguments[3], turns, np.array([0.01, 0.02])

    offsets = rng.standard_normal((3, 3))
    server = start(body=ServedBody(("Hips", "Hand", "Foot"), (-1, 0, 0), offsets, (1, 2), solve))
    hello = {"rig": "engine", "axes": list(axes), "units": 0.01, "quaternion": order, "watch": True}
    client = meet(server, clock, hello)
    matrix = axes_matrix(axes).T
    send = [1, 2, 3, 0] if order == "xyzw" else [0, 1, 2, 3]
    answer = client.answer
    assert answer is not None
    assert answer["body"]["effectors"] == ["Hand", "Foot"]
    assert np.allclose(answer["body"]["offsets"], 100 * convert_vectors(matrix, offsets))

    server.publish(np.array([1.0, 2, 3]), turns, 4.0)
    row = p.numbers(ask(server, clock, client, p.POSE).payload)
    assert np.allclose(row[:3], 100 * convert_vectors(matrix, np.array([1.0, 2, 3])))
    assert np.allclose(row[3:].reshape(3, 4), convert_quaternions(matrix, turns)[:, send])

    place, root = rng.standard_normal((2, 3)), rng.standard_normal(3)
    request = [
        np.concatenate([100 * convert_vectors(matrix, place[i]), convert_quaternions(matrix, turns[i])[send], [1.0]])
        for i in range(2)
    ]
    tail = np.concatenate([100 * convert_vectors(matrix, root), convert_quaternions(matrix, turns[2])[send]])
    client.solve(np.concatenate([*request, tail]))
    row = p.numbers(ask(server, clock, client, p.SOLVE).payload)
    positions, rotations, weights, root_pos, root_rot = asked[0]
    assert np.allclose(positions, place)
    assert np.allclose(rotations, turns[:2])
    assert np.allclose(weights, 1)
    assert np.allclose(root_pos, root)
    assert np.allclose(root_rot, turns[2])
    assert np.allclose(row[:3], 100 * convert_vectors(matrix, root))
    assert np.allclose(row[3:15].reshape(3, 4), convert_quaternions(matrix, turns)[:, send])
    assert np.allclose(row[15:], [1.0, 2.0])


@pytest.mark.slow
def test_hostile_clients_and_files_crash_nothing_allocate_little_and_change_no_taught_rig() -> None:
    outcome = fuzz_messages.attempt(600, seed=1)
    assert outcome.failures == []
    assert outcome.most_mib < 2
    assert len(outcome.tried) == len(fuzz_messages.ATTACKS)


@pytest.mark.slow
def test_a_flood_of_costly_messages_is_processed_in_small_pieces(start, clock, rng, tmp_path: Path) -> None:
    server = start(folder=tmp_path)
    client = meet(server, clock, LEGS)
    inputs, outputs = legs_rows(rng, 1)
    client.train(np.concatenate([inputs[0], outputs[0]]))
    for i in range(200):
        client.control(p.SAVE if i % 2 else p.PAUSE)
        client.predict(inputs[0])
    answers: list[p.Message] = []
    most = 0

    def all_answered() -> bool:
        nonlocal most
        most = max(most, sum(e.kind == "saved" for e in server.poll(clock.now)))
        answers.extend(client.poll())
        return sum(m.type == p.CONTROL for m in answers) == 200 and answers[-1].type == p.PREDICT

    events = pump(server, clock, all_answered)
    assert sum(e.kind == "saved" for e in events) <= 100
    assert most <= 4


def test_endless_json_is_refused(start, clock) -> None:
    server = start()
    for text in (b"[" * 30000, b'{"rig":' * 4000, b'{"rig": NaN}', b"\xff\xfe", b'{"rig":1e999}', b"7" * 30000):
        connection = raw(server)
        connection.send(p.pack(p.HANDSHAKE, text))
        assert received(server, clock, connection, refused)[-1].type == p.ERROR
        connection.close()


def test_a_prediction_does_not_wait_for_learning(start, clock, rng) -> None:
    """One poll answers before it learns, and takes only one step unless it is given more time."""
    server = start()
    client = meet(server, clock, LEGS)
    inputs, outputs = legs_rows(rng, 40)
    taught(server, clock, client, inputs, outputs)
    rig = next(iter(server.rigs.values()))
    steps = rig.trainee.steps
    client.predict(inputs[0])
    arrived(server, send(client))
    server.poll(clock.now)
    assert rig.trainee.steps <= steps + 1
    answers: list[p.Message] = []
    end = time.monotonic() + PATIENT
    while p.PREDICT not in [m.type for m in answers] and time.monotonic() < end:
        answers += client.poll()
    assert p.PREDICT in [m.type for m in answers]
