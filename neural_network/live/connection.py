# SPDX-License-Identifier: GPL-3.0-or-later
"""One client's connection: its socket, what waits to be answered and to be sent, and what it may send.

Nothing here waits. A client that does not read gets the newest answer of each kind once it reads again, and is closed
after ``PATIENCE`` seconds or when ``WAITING_BYTES`` have piled up.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from .handshake import Hello
from .protocol import (
    AUTH,
    CONTROL,
    HANDSHAKE,
    MAC,
    MOST_HANDSHAKE,
    MOST_PING,
    NONCE,
    PING,
    PREDICT,
    SOLVE,
    TRAIN,
    Message,
    messages,
)
from .rig_store import TaughtRig

READ_BYTES = 65536
"""Most bytes read from a client at once; no more are read while as many wait."""
FIRST_BYTES = 4096
"""The same, until it has proved that it knows the token."""
TRAIN_FRAMES = 16
"""Training frames of a client that may wait; of more, only the newest are learned."""
WAITING_BYTES = 65536
"""Most bytes of answers that wait for one client; with more it is closed."""
SORTED = 128
"""Most messages taken from the inbox at once."""
PATIENCE = 5.0
"""[s] for a client to give the token, and to read answers."""
GREETING = 60.0
"""[s] for a client to send its handshake."""


@dataclass
class Connection:
    """A connected client. ``on_close(connection, reason)`` is called once, when its socket is closed."""

    number: int
    socket: socket.socket
    since: float
    """When it connected [s]."""
    authorised: bool
    """It has proved that it knows the token, or none is needed."""
    on_close: Callable[[Connection, str], None]
    nonce: bytes = b""
    inbox: bytearray = field(default_factory=bytearray)
    outbox: bytearray = field(default_factory=bytearray)
    newest: dict[int, bytes] = field(default_factory=dict)
    """Message type -> the newest answer, which waits until the outbox is empty."""
    limits: dict[int, tuple[int, int]] = field(default_factory=dict)
    """What it may send now: message type -> least and most bytes of the payload."""
    hello: Hello | None = None
    rig: TaughtRig | None = None
    status_at: float = float("-inf")
    """When it was sent a status last [s]."""
    progress_at: float = 0.0
    """When it read something last, or had nothing to read [s]."""
    dropped: int = 0
    """Frames and answers that were dropped because newer ones waited."""
    mistakes: int = 0
    frames: deque[Message] = field(default_factory=deque)
    """Training frames that wait to be learned."""
    requests: dict[int, Message] = field(default_factory=dict)
    """Message type -> the newest prediction or solve that waits to be answered."""
    barrier: Message | None = None
    """A message that changes what others mean: it waits until all before it are done, and nothing after it is looked at."""
    greeting: Iterator[None] | None = None
    """What is left to do for the handshake that is the barrier."""
    saving: Message | None = None
    """A request to save that is answered once the rig is saved; until then nothing else is."""
    spent: float = 0.0
    """Time used [s], as far as it counts against the client (``Server.poll``)."""
    heard_at: float = 0.0
    """When it sent something last [s]."""
    ended: bool = False
    """It has closed its end; what it has sent before is still looked at."""
    closing: bool = False
    """It is closed, or will be once its outbox is empty."""
    closed: bool = False

    def receive(self) -> bool:
        """Read what has come into the inbox; False once the client has closed its end. Closes a broken connection."""
        most = READ_BYTES if self.authorised else FIRST_BYTES
        try:
            if len(self.inbox) < most:
                data = self.socket.recv(most)
                self.inbox += data
                return bool(data)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close("connection lost")
        return True

    def sort(self) -> None:
        """Take complete messages from the inbox: of requests the newest is kept, and of training frames the newest few.

        Raises ProtocolError for bytes that are no message which the client may send now.
        """
        if self.barrier is not None or self.saving is not None or not self.inbox:
            return
        for message in islice(messages(self.inbox, self.limits), SORTED):
            if message.type in (PREDICT, SOLVE):
                self.dropped += message.type in self.requests
                self.requests[message.type] = message
            elif message.type == TRAIN:
                if len(self.frames) >= TRAIN_FRAMES:
                    self.frames.popleft()
                    self.dropped += 1
                self.frames.append(message)
            else:
                self.barrier = message
                return

    def take(self) -> Message | None:
        """The message to act on now: answers come before learning, because the client waits for them."""
        if self.closing or self.saving is not None:
            return None
        if self.requests:
            return self.requests.pop(next(iter(self.requests)))
        if self.frames:
            return self.frames.popleft()
        found, self.barrier = self.barrier, None
        return found

    @property
    def watches(self) -> bool:
        """Whether it asked for poses in its handshake."""
        return self.hello is not None and self.hello.watch

    @property
    def token_given(self) -> bool:
        """Whether it has proved that it knows the token, where one is needed."""
        return bool(self.nonce) and self.authorised

    @property
    def waits(self) -> bool:
        """Whether ``take`` has something to give, or would after ``sort``."""
        if self.closing or self.saving is not None:
            return False
        return bool(self.requests or self.frames or self.barrier is not None)

    def send(self, data: bytes) -> None:
        """Queue a message; ``write`` sends it. Closes the connection where too much waits already."""
        if self.closing:
            return
        if len(self.outbox) + len(data) > WAITING_BYTES:
            self.close("does not read its answers")
            return
        self.outbox += data

    def send_newest(self, kind: int, data: bytes) -> None:
        """Queue a message of a type of which only the newest counts: it replaces one that still waits."""
        if self.outbox:
            self.dropped += kind in self.newest
            self.newest[kind] = data
        else:
            self.send(data)

    def write(self, now: float) -> None:
        """Send as much as the socket takes. Closes a connection that is broken, or has taken nothing for ``PATIENCE``."""
        if not self.outbox:
            self.progress_at = now
        while self.outbox:
            try:
                sent = self.socket.send(self.outbox)
            except (BlockingIOError, InterruptedError):
                if now - self.progress_at > PATIENCE:
                    self.close("does not read its answers")
                return
            except OSError:
                self.close("connection lost")
                return
            del self.outbox[:sent]
            self.progress_at = now
            if not self.outbox:
                for data in self.newest.values():
                    self.outbox += data
                self.newest.clear()
        if self.closing:
            self.close("closed by the server")

    def close_after(self, data: bytes) -> None:
        """Send one last message, and close once it is sent; what waits to be read or replaced is discarded."""
        self.newest.clear()
        self.inbox.clear()
        self.requests.clear()
        self.frames.clear()
        self.barrier = self.greeting = self.saving = None
        self.send(data)
        self.closing = True

    def close(self, reason: str) -> None:
        """Close the socket now."""
        if self.closed:
            return
        self.closing = self.closed = True
        self.socket.close()
        self.on_close(self, reason)


def accept(
    connected: socket.socket, number: int, now: float, with_token: bool, on_close: Callable[[Connection, str], None]
) -> Connection:
    """A connection of a connected socket. ``with_token``: the client has to prove that it knows the token."""
    nonce = secrets.token_bytes(NONCE) if with_token else b""
    return Connection(number, connected, now, not with_token, on_close, nonce, progress_at=now, heard_at=now)


def prepare(connected: socket.socket) -> None:
    """Make a socket non-blocking, and keep what waits inside it short: what waits there is out of date."""
    connected.setblocking(False)
    with contextlib.suppress(OSError):  # not every kind of socket has these options
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WAITING_BYTES)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def limits_for(connection: Connection, effectors: int | None) -> dict[int, tuple[int, int]]:
    """What a client may send: message type -> least and most bytes. ``effectors`` of the solved body, None for none."""
    if not connection.authorised:
        return {AUTH: (NONCE + MAC, NONCE + MAC)}
    limits = {HANDSHAKE: (2, MOST_HANDSHAKE), PING: (0, MOST_PING)}
    if connection.hello is None:
        return limits
    if connection.rig is not None:
        layout = connection.rig.layout
        both = 8 * (layout.input_size + layout.output_size)
        limits |= {TRAIN: (both, both), PREDICT: (8 * layout.input_size,) * 2, CONTROL: (1, 1)}
    if effectors is not None:
        limits[SOLVE] = (8 * (8 * effectors + 7),) * 2
    return limits
