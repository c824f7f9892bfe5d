# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client: what an engine needs to talk to the server, and an example for clients in other languages.

Only ``wait`` blocks: call ``poll`` once a frame. ``docs/protocol.md`` describes the messages.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from .protocol import (
    ANSWER,
    AUTH,
    CONTROL,
    ERROR,
    EXACT,
    HANDSHAKE,
    NONCE,
    PING,
    POSE,
    PREDICT,
    SOLVE,
    TRAIN,
    Message,
    mac,
    messages,
    pack,
    pack_json,
    pack_numbers,
    read_json,
)

_LIMITS = dict.fromkeys((HANDSHAKE, TRAIN, PREDICT, SOLVE, CONTROL, PING, AUTH, POSE, ERROR), (0, 1 << 20))


class Client:
    """Connects at once and sends the handshake ``hello``; ``answer`` holds the server's reply once it has arrived.

    Raises OSError where no server listens; ``poll`` raises ValueError where the server does not know the token.
    """

    def __init__(
        self, hello: Mapping[str, Any], *, host: str = "127.0.0.1", port: int = 47807, token: str | None = None
    ) -> None:
        self._hello, self._token, self._nonce = hello, token, secrets.token_bytes(NONCE)
        self._inbox, self._outbox, self._later, self._sequence = bytearray(), bytearray(), bytearray(), 0
        self._theirs = b""
        self._unread: list[Message] = []
        self.answer: dict[str, Any] | None = None
        self.socket = socket.create_connection((host, port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def train(self, row: np.ndarray) -> int:
        """Send a training frame (inputs, then outputs); returns its sequence number."""
        return self._numbers(TRAIN, row)

    def predict(self, row: np.ndarray, *, exact: bool = False) -> int:
        """Request the outputs for the inputs ``row``; the answer carries the returned sequence number."""
        return self._numbers(PREDICT, row, EXACT if exact else 0)

    def solve(self, row: np.ndarray) -> int:
        """Request a full-body pose: position, quaternion, weight of each effector; position, quaternion of the root."""
        return self._numbers(SOLVE, row)

    def control(self, code: int) -> None:
        """Pause, resume, save, reset or undo (``protocol.PAUSE`` ...)."""
        self._later += pack(CONTROL, bytes([code]))

    def ping(self) -> None:
        """Request an echo."""
        self._later += pack(PING, time=time.perf_counter())

    def poll(self) -> list[Message]:
        """Send queued messages and return those received, in order. Raises OSError once the connection is lost."""
        ended = False
        with contextlib.suppress(BlockingIOError):
            data = self.socket.recv(65536)
            ended = not data
            self._inbox += data
        out = self._unread + [m for m in messages(self._inbox, _LIMITS) if not self._open(m)]
        self._unread = []
        if ended and not out:
            raise ConnectionResetError("the server closed the connection")
        if self.answer is not None:  # before the handshake is answered, nothing else may be sent
            self._outbox += self._later
            self._later.clear()
        with contextlib.suppress(BlockingIOError):
            if self._outbox and not ended:
                del self._outbox[: self.socket.send(self._outbox)]
        return out

    def wait(self, kind: int, seconds: float = 5.0) -> Message:
        """Poll until a message of this type arrives; later ones are left for the next ``poll``.

        Raises TimeoutError after ``seconds``, ValueError for an error message.
        """
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for i, message in enumerate(received := self.poll()):
                if message.type in (kind, ERROR):
                    self._unread = received[i + 1 :]
                if message.type == kind:
                    return message
                if message.type == ERROR:
                    raise ValueError(read_json(message.payload).get("text", "the server refused"))
            time.sleep(0.0005)
        raise TimeoutError(f"expected a message of type {kind} within {seconds:g} s")

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _numbers(self, kind: int, row: np.ndarray, flags: int = 0) -> int:
        self._sequence += 1
        self._later += pack_numbers(kind, row, flags=flags, sequence=self._sequence, time=time.perf_counter())
        return self._sequence

    def _open(self, message: Message) -> bool:
        """The opening: the token where the server requires one, then the handshake. True where the message was part of it."""
        if message.type == HANDSHAKE:
            self.answer = read_json(message.payload)
            return False
        if message.type != AUTH:
            return False
        if message.flags & ANSWER:
            if not hmac.compare_digest(message.payload, mac(self._token or "", "server", self._nonce, self._theirs)):
                raise ValueError("the server does not know the token")
        elif message.payload:
            self._theirs = message.payload
            proof = mac(self._token or "", "client", self._theirs, self._nonce)
            self._outbox += pack(AUTH, self._nonce + proof)
            return True
        self._outbox += pack_json(HANDSHAKE, self._hello)
        return True
