# SPDX-License-Identifier: GPL-3.0-or-later
"""The server: polled from one thread, never blocking, so that a terminal and a timer in Blender can both drive it.

``poll(now)`` does a bounded piece of work and tells what happened. Sockets are read and written as far as they allow.
A client that stops reading gets the newest answer once it reads again, and is sent away after a while; a client that sends
faster than it is served loses old frames, never new ones. What comes from the network is checked before it is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import ipaddress
import os
import secrets
import select
import socket
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .axes import convert_quaternions, convert_vectors
from .body import Body
from .channels import Layout, decode, encode_inputs
from .protocol import (
    ANSWER,
    AUTH,
    CONTROL,
    ERROR,
    EXACT,
    HANDSHAKE,
    MAC,
    MOST_HANDSHAKE,
    MOST_PING,
    NONCE,
    PAUSE,
    PING,
    POSE,
    PREDICT,
    RESET,
    RESUME,
    SAVE,
    SOLVE,
    TRAIN,
    UNDO,
    VERSION,
    Hello,
    Message,
    ProtocolError,
    mac,
    messages,
    numbers,
    pack,
    pack_json,
    pack_numbers,
    pack_status,
    read_hello,
    read_json,
    state_flags,
)
from .replay import fresh, observe
from .trainee import STATES, Settings, Trainee

PORT = 47807
READ_BYTES = 65536  # a poll, of each client
WAITING_BYTES = 65536  # of answers to one client; above it the client is sent away
TRAIN_FRAMES = 16  # a poll, of each client: of more only the newest are learned
PATIENCE = 5.0  # [s] to give the token and to read answers
WORK = 128  # a poll, of each client, in the units of COSTS; the rest waits for the next poll
COSTS = {HANDSHAKE: 64, CONTROL: 32}  # these may write a file; others cost 1, and 4 with a request answered before them
MOST_CLIENTS = 16
MOST_RIGS = 8  # in memory
MOST_FILES = 64
MOST_MISTAKES = 100  # of one client, then it is sent away
LEAST_TOKEN = 16  # characters, where the network can reach the server


class Event(NamedTuple):
    """Something that a person may want to see."""

    kind: str
    """connected, refused, handshake, state, guard, saved, closed, error"""
    client: int
    """Number of the client, 0 for none."""
    text: str


@dataclasses.dataclass
class _Rig:
    """A trainee and what it learns."""

    name: str
    shape: Layout
    trainee: Trainee
    rng: np.random.Generator
    saved_at: int = 0
    """Frames seen when it was saved."""


@dataclasses.dataclass
class _Client:
    number: int
    socket: socket.socket
    since: float
    authorised: bool
    nonce: bytes
    inbox: bytearray = dataclasses.field(default_factory=bytearray)
    outbox: bytearray = dataclasses.field(default_factory=bytearray)
    newest: dict[int, bytes] = dataclasses.field(default_factory=dict)
    """Type -> the newest answer that waits until the outbox is empty."""
    limits: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """What it may send now: message type -> least and most bytes."""
    hello: Hello | None = None
    rig: _Rig | None = None
    status_at: float = float("-inf")
    progress_at: float = 0.0
    dropped: int = 0
    mistakes: int = 0
    closing: bool = False


class Server:
    """Listens at once. Port 0 takes any free port (see ``port``); ``folder`` keeps the weights, None for nowhere.

    Raises ValueError for an address beyond this computer without a token of 16 characters, OSError for a taken port.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = PORT,
        *,
        token: str | None = None,
        folder: Path | None = None,
        settings: Settings | None = None,
        body: Body | None = None,
        seed: int = 0,
    ) -> None:
        if not is_loopback(host) and len(token or "") < LEAST_TOKEN:
            raise ValueError(
                f"{host}: expected a token of at least {LEAST_TOKEN} characters for an address beyond this computer"
            )
        if not 0 <= port <= 65535:
            raise ValueError(f"port: expected 0 to 65535, got {port}")
        if token is not None and not token:
            raise ValueError("token: expected at least one character, got an empty one; leave it out for none")
        self.token, self.folder, self.body = token, folder, body
        self.settings = settings or Settings()
        self.frames = self.predictions = self.solves = 0
        self.rigs: dict[str, _Rig] = {}
        self._clients: list[_Client] = []
        self._count = 0
        self._now = 0.0
        """When it was polled last."""
        self._seed = seed
        self._events: list[Event] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":  # elsewhere it would let two programs share the port
                self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host, port))
            self._listener.listen(MOST_CLIENTS)
            self._listener.setblocking(False)
        except OSError:
            self._listener.close()
            raise
        self.port: int = self._listener.getsockname()[1]

    # -- driving -----------------------------------------------------------------------------------------------------

    def poll(self, now: float, work_seconds: float = 0.0) -> list[Event]:
        """Serve everyone once without waiting, then learn for ``work_seconds`` (at least one step where one is due).

        ``now`` [s] on any clock that only goes forward. Returns what happened.
        """
        self._now = now
        self._accept(now)
        for client in list(self._clients):
            self._read(client, now)
        for client in list(self._clients):
            self._write(client, now)
        self._learn(work_seconds)
        return self.poll_events()

    def poll_events(self) -> list[Event]:
        """What happened since it was asked last, without doing anything; for after ``close``."""
        events, self._events = self._events, []
        return events

    def wait(self, seconds: float) -> None:
        """Sleep until a client sends something, at most ``seconds``; not at all where there is something to learn."""
        if any(rig.trainee.hungry for rig in self.rigs.values()):
            seconds = 0.0
        reading = [self._listener, *(c.socket for c in self._clients)]
        writing = [c.socket for c in self._clients if c.outbox]
        with contextlib.suppress(OSError, ValueError):
            select.select(reading, writing, [], seconds)

    def publish(self, root_pos: np.ndarray, rotations: np.ndarray, moment: float = 0.0) -> None:
        """Send the body's pose to every client that watches: root head (3) [m], rotations (J, 4) relative to parents.

        Both in core axes, relative to the T-pose. It goes out at once as far as the sockets take it; a client that is
        behind gets the newest pose only.
        """
        if self.body is None or np.shape(rotations) != (len(self.body.names), 4):
            count = None if self.body is None else len(self.body.names)
            raise ValueError(f"publish: expected rotations of the body's {count} bones, got {np.shape(rotations)}")
        for client in list(self._clients):
            hello = client.hello
            if hello is not None and hello.watch:
                data = pack_numbers(POSE, _pose_out(hello, root_pos, rotations), time=moment)
                self._send_newest(client, POSE, data)
                self._write(client, self._now)

    def clients(self) -> int:
        """How many are connected."""
        return len(self._clients)

    def save(self) -> int:
        """Save every rig that has learned since it was saved last; returns how many. Nothing without a folder."""
        return sum(self._save(key, rig) for key, rig in self.rigs.items() if rig.trainee.frames != rig.saved_at)

    def close(self) -> None:
        """Save, say goodbye and free the port."""
        try:
            self.save()
        finally:
            for client in list(self._clients):
                self._close(client, "the server stops")
            self._listener.close()

    # -- sockets -----------------------------------------------------------------------------------------------------

    def _accept(self, now: float) -> None:
        for _ in range(4):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.attach(connection, now)

    def attach(self, connection: socket.socket, now: float) -> int:
        """Serve a connected socket; returns the client's number, 0 where there are too many."""
        connection.setblocking(False)
        with contextlib.suppress(OSError):  # not every kind of socket has it
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WAITING_BYTES)  # what waits there is late
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self._clients) >= MOST_CLIENTS:
            with contextlib.suppress(OSError):
                connection.send(pack_json(ERROR, {"code": "busy", "text": f"expected at most {MOST_CLIENTS} clients"}))
            connection.close()
            self._tell("refused", None, "too many clients")
            return 0
        self._count += 1
        nonce = secrets.token_bytes(NONCE) if self.token is not None else b""
        client = _Client(self._count, connection, now, self.token is None, nonce, progress_at=now)
        client.limits = self._limits(client)
        self._clients.append(client)
        self._tell("connected", client, "connected")
        self._send(client, pack(AUTH, nonce))
        return client.number

    def _read(self, client: _Client, now: float) -> None:
        if client.closing:
            return
        ended = False
        try:
            if len(client.inbox) < READ_BYTES:
                data = client.socket.recv(READ_BYTES)
                ended = not data
                client.inbox += data
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._close(client, "connection lost")
            return
        if client.inbox:
            try:
                self._handle(client, now)
            except ProtocolError as error:
                self._dismiss(client, "protocol", str(error))
                return
        if ended:
            self._close(client, "left")
        elif not client.authorised and now - client.since > PATIENCE:
            self._dismiss(client, "token", f"expected the token within {PATIENCE:g} s")

    def _handle(self, client: _Client, now: float) -> None:
        """Act on everything that has come. Of waiting predictions, solves and many training frames the newest count."""
        newest: dict[int, Message] = {}
        frames: list[Message] = []
        work = 0
        while work < WORK and client in self._clients and not client.closing:
            # asked anew for each message: a handshake changes what is allowed after it
            message = next(messages(client.inbox, client.limits), None)
            if message is None:
                break
            if message.type in (PREDICT, SOLVE):
                client.dropped += message.type in newest
                newest[message.type] = message
            elif message.type == TRAIN:
                frames.append(message)
            else:  # these change what the others mean: keep the order
                work += COSTS.get(message.type, 1) + 4 * bool(newest or frames)
                self._flush(client, frames, newest, now)
                self._guarded(client, message, now)
        self._flush(client, frames, newest, now)

    def _flush(self, client: _Client, frames: list[Message], newest: dict[int, Message], now: float) -> None:
        if newest:  # somebody waits for these; nobody waits for learning
            for message in newest.values():
                self._guarded(client, message, now)
            self._write(client, now)
        client.dropped += max(0, len(frames) - TRAIN_FRAMES)
        for message in frames[-TRAIN_FRAMES:]:
            self._guarded(client, message, now)
        frames.clear()
        newest.clear()

    def _guarded(self, client: _Client, message: Message, now: float) -> None:
        if client.closing:
            return
        try:
            self._act(client, message, now)
        except ValueError as error:
            client.mistakes += 1
            if client.mistakes > MOST_MISTAKES:
                self._dismiss(client, "mistakes", f"expected at most {MOST_MISTAKES} mistakes; the last: {error}")
            else:
                text = {"code": "value", "text": str(error)[:400], "type": message.type}
                self._send_newest(client, ERROR, pack_json(ERROR, text, sequence=message.sequence, time=message.time))
                if client.mistakes == 1:
                    self._tell("error", client, str(error)[:400])

    def _limits(self, client: _Client) -> dict[int, tuple[int, int]]:
        if not client.authorised:
            return {AUTH: (NONCE + MAC, NONCE + MAC)}
        limits = {HANDSHAKE: (2, MOST_HANDSHAKE), PING: (0, MOST_PING)}
        if client.hello is None:
            return limits
        if client.rig is not None:
            shape = client.rig.shape
            both = 8 * (shape.input_size + shape.output_size)
            limits |= {TRAIN: (both, both), PREDICT: (8 * shape.input_size,) * 2, CONTROL: (1, 1)}
        if self.body is not None and self.body.solve is not None:
            limits[SOLVE] = (8 * (8 * len(self.body.effectors) + 7),) * 2
        return limits

    def _send(self, client: _Client, data: bytes) -> None:
        if client.closing:
            return
        if len(client.outbox) + len(data) > WAITING_BYTES:
            self._close(client, "does not read its answers")
            return
        client.outbox += data

    def _send_newest(self, client: _Client, kind: int, data: bytes) -> None:
        """Send now, or, where older answers still wait, instead of the last one of its kind."""
        if client.outbox:
            client.dropped += kind in client.newest
            client.newest[kind] = data
        else:
            self._send(client, data)

    def _write(self, client: _Client, now: float) -> None:
        if not client.outbox:
            client.progress_at = now
        while client.outbox:
            try:
                sent = client.socket.send(client.outbox)
            except (BlockingIOError, InterruptedError):
                if now - client.progress_at > PATIENCE:
                    self._close(client, "does not read its answers")
                return
            except OSError:
                self._close(client, "connection lost")
                return
            del client.outbox[:sent]
            client.progress_at = now
            if not client.outbox:
                for data in client.newest.values():
                    client.outbox += data
                client.newest.clear()
        if client.closing and client in self._clients:
            self._close(client, "sent away")

    def _dismiss(self, client: _Client, code: str, text: str) -> None:
        """Say why and close once that is written."""
        self._tell("refused", client, text)
        client.newest.clear()
        client.inbox.clear()
        self._send(client, pack_json(ERROR, {"code": code, "text": text[:400]}))
        client.closing = True

    def _close(self, client: _Client, why: str) -> None:
        if client not in self._clients:
            return
        self._clients.remove(client)
        client.closing = True
        client.socket.close()
        self._tell("closed", client, why)

    def _tell(self, kind: str, client: _Client | None, text: str) -> None:
        if len(self._events) < 256:
            self._events.append(Event(kind, 0 if client is None else client.number, text))

    # -- what is asked -----------------------------------------------------------------------------------------------

    def _act(self, client: _Client, message: Message, now: float) -> None:
        head = {"sequence": message.sequence, "time": message.time, "flags": ANSWER}
        if message.type == AUTH:
            self._authorise(client, message)
        elif message.type == PING:
            self._send_newest(client, PING, pack(PING, message.payload, **head))  # type: ignore[arg-type]
        elif message.type == HANDSHAKE:
            self._greet(client, message)
        elif message.type == SOLVE:
            self._solve(client, message)
        elif client.rig is not None:
            rig = client.rig
            if message.type == TRAIN:
                self._train(client, rig, message, now)
            elif message.type == PREDICT:
                x, scene = encode_inputs(rig.shape, numbers(message.payload))
                row = decode(rig.shape, rig.trainee.predict(x), scene, exact=bool(message.flags & EXACT))
                self.predictions += 1
                head["flags"] = ANSWER | state_flags(rig.trainee.status())
                self._send_newest(client, PREDICT, pack_numbers(PREDICT, row, **head))
            else:
                self._control(client, rig, message.payload[0])
                status = pack_status(rig.trainee.status(), client.dropped)
                self._send(client, pack(CONTROL, status, **head))  # type: ignore[arg-type]

    def _authorise(self, client: _Client, message: Message) -> None:
        theirs, proof = message.payload[:NONCE], message.payload[NONCE:]
        assert self.token is not None  # without a token nobody is asked for one
        if not hmac.compare_digest(proof, mac(self.token, "client", client.nonce, theirs)):
            self._dismiss(client, "token", "the token is not the right one")
            return
        client.authorised = True
        client.limits = self._limits(client)
        self._send(client, pack(AUTH, mac(self.token, "server", theirs, client.nonce), flags=ANSWER))

    def _greet(self, client: _Client, message: Message) -> None:
        hello = read_hello(read_json(message.payload))
        found = False
        rig = None
        if hello.layout is not None:
            rig, found = self._rig(hello)
        client.hello, client.rig = hello, rig
        client.limits = self._limits(client)
        answer: dict[str, object] = {"version": VERSION, "fingerprint": hello.fingerprint, "status_per_second": 10}
        if rig is not None:
            s, status = rig.trainee.settings, rig.trainee.status()
            answer |= {"input_size": rig.shape.input_size, "output_size": rig.shape.output_size, "found": found}
            answer |= {"threshold": s.threshold, "calm_frames": s.calm_frames, "alarm": s.alarm}
            answer |= {"state": STATES[status.state], "frames": status.frames}
        if self.body is not None:
            answer["body"] = {
                "bones": self.body.names,
                "parents": self.body.parents,
                "offsets": _place_out(hello, self.body.offsets).tolist(),
                "effectors": [self.body.names[e] for e in self.body.effectors],
                "solves": self.body.solve is not None,
            }
        self._send(client, pack_json(HANDSHAKE, answer, flags=ANSWER, sequence=message.sequence, time=message.time))
        self._tell("handshake", client, f"{hello.rig}: {'weights found' if found else 'new' if rig else 'watching'}")

    def _rig(self, hello: Hello) -> tuple[_Rig, bool]:
        if hello.fingerprint in self.rigs:
            return self.rigs[hello.fingerprint], True
        if len(self.rigs) >= MOST_RIGS:
            used = {id(c.rig) for c in self._clients}
            idle = next((key for key, rig in self.rigs.items() if id(rig) not in used), None)
            if idle is None:
                raise ValueError(f"expected at most {MOST_RIGS} rigs at a time; close one first")
            self._save(idle, self.rigs[idle])
            del self.rigs[idle]
        settings = self.settings
        if hello.threshold is not None:
            settings = dataclasses.replace(settings, threshold=hello.threshold)
        shape = hello.layout
        assert shape is not None
        trainee = fresh(shape, settings, self._seed)
        rig = _Rig(hello.rig, shape, trainee, np.random.default_rng(self._seed + 1))
        found = False
        path = self._path(hello.fingerprint)
        if path is not None and path.is_file():
            try:
                trainee.load(path)
                rig.saved_at = trainee.frames
                found = True
            except ValueError as error:
                self._tell("error", None, f"{error}; starting anew")
        self.rigs[hello.fingerprint] = rig
        return rig, found

    def _train(self, client: _Client, rig: _Rig, message: Message, now: float) -> None:
        row = numbers(message.payload)
        before = rig.trainee.state, rig.trainee.poisoned
        observe(rig.shape, rig.trainee, row[: rig.shape.input_size], row[rig.shape.input_size :], rig.rng)
        self.frames += 1
        status = rig.trainee.status()
        if status.state != before[0]:
            self._tell("state", client, f"{rig.name}: {STATES[status.state]}")
        if status.poisoned and not before[1]:
            self._tell("guard", client, f"{rig.name}: the error jumped to {status.error:.3g}; learning is paused")
        if now - client.status_at >= 0.1 or status.poisoned != before[1]:
            client.status_at = now
            data = pack_status(status, client.dropped)
            self._send_newest(
                client, TRAIN, pack(TRAIN, data, flags=ANSWER, sequence=message.sequence, time=message.time)
            )

    def _control(self, client: _Client, rig: _Rig, code: int) -> None:
        if code == PAUSE:
            rig.trainee.pause()
        elif code == RESUME:
            rig.trainee.resume()
        elif code == RESET:
            rig.trainee.reset()
        elif code == UNDO:
            if not rig.trainee.undo():
                raise ValueError("undo: expected a good snapshot, there is none yet")
        elif code == SAVE:
            key = next(key for key, known in self.rigs.items() if known is rig)
            if not self._save(key, rig):
                raise ValueError("save: expected a folder for weights; the server was started without one")
        else:
            raise ValueError(f"control: expected one of {(PAUSE, RESUME, SAVE, RESET, UNDO)}, got {code}")
        self._tell("state", client, f"{rig.name}: {STATES[rig.trainee.state]}{', paused' * rig.trainee.paused}")

    def _solve(self, client: _Client, message: Message) -> None:
        body, hello = self.body, client.hello
        assert body is not None
        assert body.solve is not None
        assert hello is not None
        row = numbers(message.payload)
        if not bool((np.abs(row) <= 1e7).all()):
            raise ValueError("solve: expected finite numbers, got NaN, infinity or more than 1e7")
        count = len(body.effectors)
        targets, root = row[:-7].reshape(count, 8), row[-7:]
        place = convert_vectors(hello.matrix, targets[:, :3] * hello.unit)
        weights = targets[:, 7]
        if weights.min(initial=0) < 0 or weights.max(initial=0) > 1:
            raise ValueError("solve: expected weights from 0 to 1")
        turns = _turns_in(hello, np.concatenate([targets[:, 3:7], root[None, 3:]]))
        root_pos = convert_vectors(hello.matrix, root[:3] * hello.unit)
        if np.abs(place - root_pos).max(initial=0) > 100:
            raise ValueError("solve: expected targets within 100 m of the root; check the units")
        root_pos, rotations, errors = body.solve(place, turns[:-1], weights, root_pos, turns[-1])
        self.solves += 1
        out = np.concatenate([_pose_out(hello, root_pos, rotations), np.asarray(errors) / hello.unit])
        head = {"flags": ANSWER, "sequence": message.sequence, "time": message.time}
        self._send_newest(client, SOLVE, pack_numbers(SOLVE, out, **head))

    # -- learning and keeping ----------------------------------------------------------------------------------------

    def _learn(self, seconds: float) -> None:
        hungry = [rig.trainee for rig in self.rigs.values() if rig.trainee.hungry]
        end = time.perf_counter() + seconds
        while hungry:
            for trainee in hungry:
                trainee.train(1)
            if time.perf_counter() >= end:
                return
            hungry = [trainee for trainee in hungry if trainee.hungry]

    def _path(self, fingerprint: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{fingerprint}.npz"

    def _save(self, key: str, rig: _Rig) -> bool:
        path = self._path(key)
        if path is None:
            return False
        if not path.exists() and len(list(path.parent.glob("*.npz"))) >= MOST_FILES:
            self._tell("error", None, f"{path.parent}: expected at most {MOST_FILES} rigs; delete some to save more")
            return False
        rig.trainee.save(path)
        rig.saved_at = rig.trainee.frames
        self._tell("saved", None, f"{rig.name}: saved after {rig.trainee.frames} frames")
        return True


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach the address. Names other than ``localhost`` count as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _place_out(hello: Hello, vectors: np.ndarray) -> np.ndarray:
    return convert_vectors(hello.matrix.T, np.asarray(vectors, np.float64)) / hello.unit


def _pose_out(hello: Hello, root_pos: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    turns = convert_quaternions(hello.matrix.T, np.asarray(rotations, np.float64))
    if hello.xyzw:
        turns = turns[..., [1, 2, 3, 0]]
    return np.concatenate([_place_out(hello, root_pos), turns.ravel()])


def _turns_in(hello: Hello, rotations: np.ndarray) -> np.ndarray:
    if hello.xyzw:
        rotations = rotations[..., [3, 0, 1, 2]]
    length = np.linalg.norm(rotations, axis=-1, keepdims=True)
    if not bool(((length > 0.5) & (length < 2)).all()):
        raise ValueError("solve: expected unit quaternions")
    return convert_quaternions(hello.matrix, rotations / length)
