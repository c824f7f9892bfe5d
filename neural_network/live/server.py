# SPDX-License-Identifier: GPL-3.0-or-later
"""The live server: polled from one thread and never blocking, so that a terminal and a timer in Blender can both drive it.

``poll(now)`` does a bounded amount of work and returns what happened. A client that sends faster than it is served loses
old frames, never new ones; one that stops reading is closed (``connection.py``). Everything from the network is checked
before it is stored.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import select
import socket
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .body import ServedBody
from .channels import decode, encode_inputs
from .connection import PATIENCE, Connection, accept, limits_for, prepare
from .handshake import (
    pose_to_client,
    positions_from_client,
    positions_to_client,
    read_hello,
    rotations_from_client,
)
from .learner import observe
from .protocol import (
    ANSWER,
    AUTH,
    CONTROL,
    ERROR,
    EXACT,
    HANDSHAKE,
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
    Message,
    ProtocolError,
    mac,
    messages,
    numbers,
    pack,
    pack_json,
    pack_numbers,
    pack_status,
    read_json,
    state_flags,
)
from .rig_store import RigStore, TaughtRig
from .trainee import STATES, Settings

PORT = 47807
TRAIN_FRAMES = 16
"""Training frames of each client in one poll; of more, only the newest are learned."""
WORK = 128
"""Units of ``COSTS`` for each client in one poll; the rest waits for the next one."""
COSTS = {HANDSHAKE: 64, CONTROL: 32}
"""Messages that may write a file. Others cost 1, and 4 more where a waiting request is answered before them."""
STATUS_SECONDS = 0.1
"""[s] between two statuses to one client."""
MOST_CLIENTS = 16
MOST_MISTAKES = 100
"""Refused messages of one client before it is closed."""
LEAST_TOKEN = 16
"""Characters of a token, where other computers can connect."""


class Event(NamedTuple):
    """Something for a person to see."""

    kind: str
    """connected, refused, handshake, state, guard, saved, closed, error"""
    client: int
    """Number of the client, 0 for none."""
    text: str


class Server:
    """Listens at once. Port 0 takes any free port (see ``port``); ``folder`` keeps the weights, None keeps none.

    Raises ValueError for an address that other computers can reach without a token of 16 characters, OSError for a taken
    port.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = PORT,
        *,
        token: str | None = None,
        folder: Path | None = None,
        settings: Settings | None = None,
        body: ServedBody | None = None,
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
        self.token, self.body = token, body
        self.frames = self.predictions = self.solves = 0
        self._store = RigStore(folder, settings or Settings(), seed, lambda kind, text: self._tell(kind, None, text))
        self._clients: list[Connection] = []
        self._count = 0
        self._now = 0.0
        """Time of the last poll [s]."""
        self._events: list[Event] = []
        self._listener = _listen(host, port)
        self.port: int = self._listener.getsockname()[1]

    @property
    def rigs(self) -> dict[str, TaughtRig]:
        """The rigs in memory, by fingerprint."""
        return self._store.rigs

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
            client.write(now)
        self._store.learn(work_seconds)
        return self.poll_events()

    def poll_events(self) -> list[Event]:
        """Events since the last call, without doing anything; for after ``close``."""
        events, self._events = self._events, []
        return events

    def wait(self, seconds: float) -> None:
        """Sleep until a client sends something, at most ``seconds``; not at all where there is something to learn."""
        if self._store.hungry:
            seconds = 0.0
        reading = [self._listener, *(c.socket for c in self._clients)]
        writing = [c.socket for c in self._clients if c.outbox]
        with contextlib.suppress(OSError, ValueError):
            select.select(reading, writing, [], seconds)

    def publish(self, root_pos: np.ndarray, rotations: np.ndarray, moment: float = 0.0) -> None:
        """Send the body's pose to every client that watches: root head (3) [m], rotations (J, 4) relative to parents.

        Both are in core axes, relative to the T-pose. The pose goes out at once as far as the sockets take it; a client
        that is behind gets the newest pose only. Raises ValueError for another number of bones than the body's.
        """
        if self.body is None or np.shape(rotations) != (len(self.body.names), 4):
            count = None if self.body is None else len(self.body.names)
            raise ValueError(f"publish: expected rotations of the body's {count} bones, got {np.shape(rotations)}")
        for client in list(self._clients):
            hello = client.hello
            if hello is not None and hello.watch:
                data = pack_numbers(POSE, pose_to_client(hello, root_pos, rotations), time=moment)
                client.send_newest(POSE, data)
                client.write(self._now)

    def clients(self) -> int:
        """How many clients are connected."""
        return len(self._clients)

    def save(self) -> int:
        """Save every rig that has learned since it was saved last; returns how many. Nothing without a folder."""
        return self._store.save_changed()

    def close(self) -> None:
        """Save, close every connection and free the port."""
        try:
            self.save()
        finally:
            for client in list(self._clients):
                client.close("the server stops")
            self._listener.close()

    def attach(self, connection: socket.socket, now: float) -> int:
        """Serve a connected socket; returns the client's number, 0 where there are too many."""
        prepare(connection)
        if len(self._clients) >= MOST_CLIENTS:
            with contextlib.suppress(OSError):
                connection.send(pack_json(ERROR, {"code": "busy", "text": f"expected at most {MOST_CLIENTS} clients"}))
            connection.close()
            self._tell("refused", None, "too many clients")
            return 0
        self._count += 1
        client = accept(connection, self._count, now, self.token is not None, self._closed)
        self._set_limits(client)
        self._clients.append(client)
        self._tell("connected", client, "connected")
        client.send(pack(AUTH, client.nonce))
        return client.number

    # -- clients -----------------------------------------------------------------------------------------------------

    def _accept(self, now: float) -> None:
        for _ in range(4):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.attach(connection, now)

    def _read(self, client: Connection, now: float) -> None:
        if client.closing:
            return
        connected = client.receive()
        if client.closed:
            return
        if client.inbox:
            try:
                self._handle(client, now)
            except ProtocolError as error:
                self._dismiss(client, "protocol", str(error))
                return
        if not connected:
            client.close("left")
        elif not client.authorised and now - client.since > PATIENCE:
            self._dismiss(client, "token", f"expected the token within {PATIENCE:g} s")

    def _handle(self, client: Connection, now: float) -> None:
        """Act on everything that has come. Of waiting predictions, solves and many training frames the newest count."""
        newest: dict[int, Message] = {}
        frames: list[Message] = []
        work = 0
        while work < WORK and not client.closing:
            # limits are looked up for each message: a handshake changes what is allowed after it
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

    def _flush(self, client: Connection, frames: list[Message], newest: dict[int, Message], now: float) -> None:
        if newest:  # answers before learning: the client waits for them
            for message in newest.values():
                self._guarded(client, message, now)
            client.write(now)
        client.dropped += max(0, len(frames) - TRAIN_FRAMES)
        for message in frames[-TRAIN_FRAMES:]:
            self._guarded(client, message, now)
        frames.clear()
        newest.clear()

    def _guarded(self, client: Connection, message: Message, now: float) -> None:
        """Act on a message; a ValueError becomes an error message to the client."""
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
                client.send_newest(ERROR, pack_json(ERROR, text, sequence=message.sequence, time=message.time))
                if client.mistakes == 1:
                    self._tell("error", client, str(error)[:400])

    def _set_limits(self, client: Connection) -> None:
        solves = self.body is not None and self.body.solve is not None
        client.limits = limits_for(client, len(self.body.effectors) if self.body is not None and solves else None)

    def _dismiss(self, client: Connection, code: str, text: str) -> None:
        """Send an error and close once it is sent."""
        self._tell("refused", client, text)
        client.close_after(pack_json(ERROR, {"code": code, "text": text[:400]}))

    def _closed(self, client: Connection, reason: str) -> None:
        self._clients.remove(client)
        self._tell("closed", client, reason)

    def _tell(self, kind: str, client: Connection | None, text: str) -> None:
        if len(self._events) < 256:
            self._events.append(Event(kind, 0 if client is None else client.number, text))

    # -- requests ----------------------------------------------------------------------------------------------------

    def _act(self, client: Connection, message: Message, now: float) -> None:
        head = {"sequence": message.sequence, "time": message.time, "flags": ANSWER}
        if message.type == AUTH:
            self._authorise(client, message)
        elif message.type == PING:
            client.send_newest(PING, pack(PING, message.payload, **head))  # type: ignore[arg-type]
        elif message.type == HANDSHAKE:
            self._greet(client, message)
        elif message.type == SOLVE:
            self._solve(client, message)
        elif client.rig is not None:
            rig = client.rig
            if message.type == TRAIN:
                self._train(client, rig, message, now)
            elif message.type == PREDICT:
                x, scene = encode_inputs(rig.layout, numbers(message.payload))
                row = decode(rig.layout, rig.trainee.predict(x), scene, exact=bool(message.flags & EXACT))
                self.predictions += 1
                head["flags"] = ANSWER | state_flags(rig.trainee.status())
                client.send_newest(PREDICT, pack_numbers(PREDICT, row, **head))
            else:
                self._control(client, rig, message.payload[0])
                status = pack_status(rig.trainee.status(), client.dropped)
                client.send(pack(CONTROL, status, **head))  # type: ignore[arg-type]

    def _authorise(self, client: Connection, message: Message) -> None:
        theirs, proof = message.payload[:NONCE], message.payload[NONCE:]
        assert self.token is not None  # without a token, no client has to authorise
        if not hmac.compare_digest(proof, mac(self.token, "client", client.nonce, theirs)):
            self._dismiss(client, "token", "the token is not the right one")
            return
        client.authorised = True
        self._set_limits(client)
        client.send(pack(AUTH, mac(self.token, "server", theirs, client.nonce), flags=ANSWER))

    def _greet(self, client: Connection, message: Message) -> None:
        hello = read_hello(read_json(message.payload))
        found = False
        rig = None
        if hello.layout is not None:
            in_use = {c.rig.fingerprint for c in self._clients if c.rig is not None}
            rig, found = self._store.open(hello, in_use)
        client.hello, client.rig = hello, rig
        self._set_limits(client)
        answer: dict[str, object] = {
            "version": VERSION,
            "fingerprint": hello.fingerprint,
            "status_per_second": round(1 / STATUS_SECONDS),
        }
        if rig is not None:
            s, status = rig.trainee.settings, rig.trainee.status()
            answer |= {"input_size": rig.layout.input_size, "output_size": rig.layout.output_size, "found": found}
            answer |= {"threshold": s.threshold, "calm_frames": s.calm_frames, "alarm": s.alarm}
            answer |= {"state": STATES[status.state], "frames": status.frames}
        if self.body is not None:
            answer["body"] = {
                "bones": self.body.names,
                "parents": self.body.parents,
                "offsets": positions_to_client(hello, self.body.offsets).tolist(),
                "effectors": [self.body.names[e] for e in self.body.effectors],
                "solves": self.body.solve is not None,
            }
        client.send(pack_json(HANDSHAKE, answer, flags=ANSWER, sequence=message.sequence, time=message.time))
        self._tell("handshake", client, f"{hello.rig}: {'weights found' if found else 'new' if rig else 'watching'}")

    def _train(self, client: Connection, rig: TaughtRig, message: Message, now: float) -> None:
        row = numbers(message.payload)
        before = rig.trainee.state, rig.trainee.poisoned
        observe(rig.layout, rig.trainee, row[: rig.layout.input_size], row[rig.layout.input_size :], rig.rng)
        self.frames += 1
        status = rig.trainee.status()
        if status.state != before[0]:
            self._tell("state", client, f"{rig.name}: {STATES[status.state]}")
        if status.poisoned and not before[1]:
            self._tell("guard", client, f"{rig.name}: the error jumped to {status.error:.3g}; learning is paused")
        if now - client.status_at >= STATUS_SECONDS or status.poisoned != before[1]:
            client.status_at = now
            data = pack_status(status, client.dropped)
            client.send_newest(TRAIN, pack(TRAIN, data, flags=ANSWER, sequence=message.sequence, time=message.time))

    def _control(self, client: Connection, rig: TaughtRig, code: int) -> None:
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
            if not self._store.save(rig):
                raise ValueError("save: expected a folder for weights that is not full")
        else:
            raise ValueError(f"control: expected one of {(PAUSE, RESUME, SAVE, RESET, UNDO)}, got {code}")
        self._tell("state", client, f"{rig.name}: {STATES[rig.trainee.state]}{', paused' * rig.trainee.paused}")

    def _solve(self, client: Connection, message: Message) -> None:
        body, hello = self.body, client.hello
        assert body is not None
        assert body.solve is not None
        assert hello is not None
        row = numbers(message.payload)
        if not bool((np.abs(row) <= 1e7).all()):
            raise ValueError("solve: expected finite numbers, got NaN, infinity or more than 1e7")
        count = len(body.effectors)
        targets, root = row[:-7].reshape(count, 8), row[-7:]
        positions = positions_from_client(hello, targets[:, :3])
        weights = targets[:, 7]
        if weights.min(initial=0) < 0 or weights.max(initial=0) > 1:
            raise ValueError("solve: expected weights from 0 to 1")
        turns = rotations_from_client(hello, np.concatenate([targets[:, 3:7], root[None, 3:]]))
        root_pos = positions_from_client(hello, root[:3])
        if np.abs(positions - root_pos).max(initial=0) > 100:
            raise ValueError("solve: expected targets within 100 m of the root; check the units")
        root_pos, rotations, errors = body.solve(positions, turns[:-1], weights, root_pos, turns[-1])
        self.solves += 1
        out = np.concatenate([pose_to_client(hello, root_pos, rotations), np.asarray(errors) / hello.unit])
        head = {"flags": ANSWER, "sequence": message.sequence, "time": message.time}
        client.send_newest(SOLVE, pack_numbers(SOLVE, out, **head))


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach the address. Names other than ``localhost`` count as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    """A listening, non-blocking socket. Raises OSError where the port is taken."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere this option lets two programs share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_CLIENTS)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
