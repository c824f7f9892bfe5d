# SPDX-License-Identifier: GPL-3.0-or-later
"""What the live server does with each message of a client: the token, the handshake, frames, predictions, solves, control."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .body import ServedBody
from .channels import decode, encode_inputs
from .connection import Connection
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
    PREDICT,
    RESET,
    RESUME,
    SAVE,
    SOLVE,
    TRAIN,
    UNDO,
    VERSION,
    Message,
    mac,
    numbers,
    pack,
    pack_json,
    pack_numbers,
    pack_status,
    read_json,
    state_flags,
)
from .rig_store import RigStore, TaughtRig
from .trainee import STATES

STATUS_SECONDS = 0.1
"""[s] between two statuses to one client."""


class Event(NamedTuple):
    """Something for a person to see."""

    kind: str
    """connected, refused, handshake, state, guard, saved, closed, error"""
    client: int
    """Number of the client, 0 for none."""
    text: str


class Requests:
    """Acts on messages. ``tell(kind, client, text)`` receives events; ``clients`` is the server's own list."""

    def __init__(
        self,
        store: RigStore,
        clients: Sequence[Connection],
        body: ServedBody | None,
        token: str | None,
        tell: Callable[[str, Connection | None, str], None],
    ) -> None:
        self._store, self._clients, self._body, self._token, self._tell = store, clients, body, token, tell
        self.frames = self.predictions = self.solves = 0

    def in_use(self) -> set[str]:
        """Fingerprints of the rigs of all clients."""
        return {c.rig.fingerprint for c in self._clients if c.rig is not None}

    def needs_place(self, client: Connection, message: Message) -> bool:
        """Whether a message is a client's first handshake."""
        return message.type == HANDSHAKE and client.hello is None

    def act(self, client: Connection, message: Message, now: float) -> str:
        """Act on a message; returns why the client has to be closed, empty where it has not.

        Raises ValueError for a message that is refused.
        """
        head: dict[str, Any] = {"sequence": message.sequence, "time": message.time, "flags": ANSWER}
        if message.type == AUTH:
            return self._authorise(client, message)
        if message.type == PING:
            client.send_newest(PING, pack(PING, message.payload, **head))
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
            elif not self._control(client, rig, message):
                client.send(self._status(client, rig, message))
        return ""

    def answer_saved(self, client: Connection) -> None:
        """Answer a request to save once the rig is saved, or cannot be."""
        message, rig = client.saving, client.rig
        if message is None or rig is None or self._store.pending(rig):
            return
        client.saving = None
        if rig.not_saved:
            text = {"code": "value", "text": f"save: {rig.not_saved}"[:400], "type": CONTROL}
            client.send_newest(ERROR, pack_json(ERROR, text, sequence=message.sequence, time=message.time))
        else:
            client.send(self._status(client, rig, message))

    def _status(self, client: Connection, rig: TaughtRig, message: Message) -> bytes:
        """The answer to a control message."""
        self._tell("state", client, f"{rig.name}: {STATES[rig.trainee.state]}{', paused' * rig.trainee.paused}")
        status = pack_status(rig.trainee.status(), client.dropped)
        return pack(CONTROL, status, flags=ANSWER, sequence=message.sequence, time=message.time)

    def _authorise(self, client: Connection, message: Message) -> str:
        theirs, proof = message.payload[:NONCE], message.payload[NONCE:]
        assert self._token is not None  # without a token, no client has to authorise
        if not hmac.compare_digest(proof, mac(self._token, "client", client.nonce, theirs)):
            return "the token is not the right one"
        client.authorised = True
        client.send(pack(AUTH, mac(self._token, "server", theirs, client.nonce), flags=ANSWER))
        return ""

    def _greet(self, client: Connection, message: Message) -> None:
        """Do a part of what a handshake needs; with many channels it takes too long to do it in one turn."""
        greeting, client.greeting = client.greeting or self._greeting(client, message), None
        for _ in greeting:
            client.barrier, client.greeting = message, greeting  # goes on in the client's next turn
            return

    def _greeting(self, client: Connection, message: Message) -> Iterator[None]:
        value = read_json(message.payload)
        yield
        hello = read_hello(value)
        yield
        found, note = False, ""
        rig = None
        if hello.layout is not None:
            rig, found, note = self._store.open(hello, self.in_use())
        client.hello, client.rig = hello, rig
        self._store.forget_untaught(self.in_use())
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
        if note:
            answer["note"] = note[:1000]
        if self._body is not None:
            answer["body"] = {
                "bones": self._body.names,
                "parents": self._body.parents,
                "offsets": positions_to_client(hello, self._body.offsets).tolist(),
                "effectors": [self._body.names[e] for e in self._body.effectors],
                "solves": self._body.solve is not None,
            }
        client.send(pack_json(HANDSHAKE, answer, flags=ANSWER, sequence=message.sequence, time=message.time))
        self._tell("handshake", client, f"{hello.rig}: {'weights found' if found else 'new' if rig else 'watching'}")

    def _train(self, client: Connection, rig: TaughtRig, message: Message, now: float) -> None:
        row = numbers(message.payload)
        before = rig.trainee.state, rig.trainee.poisoned
        if rig.trainee.frames == 0:
            self._store.make_room(self.in_use())
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

    def _control(self, client: Connection, rig: TaughtRig, message: Message) -> bool:
        """Act on a control message; True where it is answered later."""
        code = message.payload[0]
        if code == PAUSE:
            rig.trainee.pause()
        elif code == RESUME:
            rig.trainee.resume()
        elif code == RESET:
            rig.trainee.reset()
            rig.file.saved_at = -1
        elif code == UNDO:
            if not rig.trainee.undo():
                raise ValueError("undo: expected a good snapshot, there is none yet")
            rig.file.saved_at = -1
        elif code == SAVE:
            if not self._store.request(rig):
                raise ValueError(f"save: {rig.not_saved}")
            if self._store.pending(rig):
                client.saving = message
                return True
        else:
            raise ValueError(f"control: expected one of {(PAUSE, RESUME, SAVE, RESET, UNDO)}, got {code}")
        return False

    def _solve(self, client: Connection, message: Message) -> None:
        body, hello = self._body, client.hello
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
