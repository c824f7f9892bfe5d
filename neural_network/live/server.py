# SPDX-License-Identifier: GPL-3.0-or-later
"""The live server: polled from one thread and never blocking, so that a terminal and a timer in Blender can both drive it.

``poll(now)`` works for a bounded time and returns what happened. Clients share that time fairly: it is always the turn of
the one that has used least, and what does not fit is done in the next poll. A client that sends faster than it is served
loses old frames, never new ones; one that stops reading is closed (``connection.py``). Everything from the network is
checked before it is stored, and whatever goes wrong with one client or one file ends neither the server nor another client.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import socket
import sys
import time
from pathlib import Path

import numpy as np

from .body import ServedBody
from .connection import GREETING, PATIENCE, Connection, accept, limits_for, prepare
from .handshake import pose_to_client
from .protocol import AUTH, ERROR, POSE, PREDICT, SOLVE, Message, ProtocolError, pack, pack_json, pack_numbers
from .requests import Event as Event
from .requests import Requests
from .rig_store import RigStore, TaughtRig
from .trainee import Settings

PORT = 47807
CLOCK = time.perf_counter if sys.platform == "win32" else time.thread_time
"""Time [s] that counts against a client: the processor's where that is known exactly."""
POLL_SECONDS = 0.002
"""[s] of answering and observing in one poll, for all clients together; it may last one message longer."""
REST = 2.0
"""Times what a poll has taken, in which only those are served who have not had their share (``wait``)."""
HEAD_START = 0.005
"""[s] that a client which was silent may use before those that never are get another turn."""
LEARNING = 0.4
"""Part of the usual time between two requests that is used for learning (``wait``)."""
RESTING = 0.05
"""[s] the longest usual time between two requests for which learning is interrupted (``wait``)."""
MOST_CLIENTS = 16
"""That have sent their handshake."""
MOST_STRANGERS = 64
"""Connections without a handshake yet. They take no place from clients, and the silent ones make way for new ones."""
ACCEPTED = 8
"""Connections accepted in one poll."""
SILENT = 60.0
"""[s] of silence after which a client that watches nothing makes way for another."""
MOST_MISTAKES = 100
"""Refused messages of one client before it is closed."""
LEAST_TOKEN = 16
"""Characters of a token, where other computers can connect."""


class Server:
    """Listens at once. Port 0 takes any free port (see ``port``); ``folder`` keeps the weights, None keeps none.

    What was taught is saved every half minute (``rig_store.py``), on request, and by ``close``. Raises ValueError for an
    address that other computers can reach without a token of 16 characters, OSError for a taken port.
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
        self._store = RigStore(folder, settings or Settings(), seed, lambda kind, text: self._tell(kind, None, text))
        self._clients: list[Connection] = []
        self._requests = Requests(self._store, self._clients, body, token, self._tell)
        self._count = 0
        self._now = 0.0
        """Time of the last poll [s]."""
        self._rest_until = 0.0
        """Until when those who have had their share wait, on ``time.perf_counter``."""
        self._resting: set[int] = set()
        """Numbers of those who have had their share, while they wait."""
        self._turn = 0.0
        """Time used [s] by the client that was served last: nobody who comes later begins far below it."""
        self._asked_at, self._usual_gap = 0.0, 1.0
        """When something was requested last, and the usual time between two requests [s]."""
        self._deaf_until = 0.0
        """Until when nobody is accepted, on ``time.perf_counter``."""
        self._events: list[Event] = []
        self._listener = _listen(host, port)
        self.port: int = self._listener.getsockname()[1]

    @property
    def rigs(self) -> dict[str, TaughtRig]:
        """The rigs in memory, by fingerprint."""
        return self._store.rigs

    @property
    def frames(self) -> int:
        """Training frames taken."""
        return self._requests.frames

    @property
    def predictions(self) -> int:
        """Predictions answered."""
        return self._requests.predictions

    @property
    def solves(self) -> int:
        """Solves answered."""
        return self._requests.solves

    # -- driving -----------------------------------------------------------------------------------------------------

    def poll(self, now: float, work_seconds: float = 0.0) -> list[Event]:
        """Serve everyone without waiting, and learn until ``work_seconds`` are over (at least one step where one is due).

        ``now`` [s] on any clock that only goes forward. Returns what happened.
        """
        begin, used = time.perf_counter(), CLOCK()
        self._now = now
        self._accept(now)
        self._serve(now, used + POLL_SECONDS)
        for client in list(self._clients):
            client.write(now)
            self._dismiss_silent(client, now)
        self._store.tend(now)
        savers = [c for c in self._clients if c.saving is not None]
        while (
            savers and self._store.writing and CLOCK() < used + POLL_SECONDS and not (self._waiting() or self._asked())
        ):
            self._store.tend(now)
        for client in savers:
            self._requests.answer_saved(client)
            client.write(now)
            self._sort(client)
        if self._resting:
            self._resting = set()
        else:
            seconds = 0.0 if self._waiting() else begin + work_seconds - time.perf_counter()
            self._store.learn(seconds, self._asked)
            self._rest_until = time.perf_counter() + REST * (CLOCK() - used)
        return self.poll_events()

    def poll_events(self) -> list[Event]:
        """Events since the last call, without doing anything; for after ``close``."""
        events, self._events = self._events, []
        return events

    def wait(self, seconds: float) -> None:
        """Sleep until a client sends something, at most ``seconds``; not where there is something to do.

        Learning fills ``LEARNING`` of the usual time between two requests. Then nothing is done until the next one, so that it is
        answered at once and not after a learning step; where none comes, learning goes on. While some clients send more
        than can be served, there is a rest after each poll, in which only the others are heard: a server that never rests
        is put behind other programs by the system just when such a client asks. The rest counts as time of those who have to
        wait for it: otherwise each of them would soon have used less than a client that needs little, and come first.
        """
        busy = {c.number for c in self._clients if c.waits}
        if any(c.waits and c.spent < self._turn for c in self._clients):  # one that has not had its share
            return
        others = [c for c in self._clients if c.number not in busy]
        if busy and any(c.hello is not None for c in others):
            seconds = min(seconds, self._rest_until - time.perf_counter())
        elif busy:
            return
        elif self._store.hungry:
            since = time.perf_counter() - self._asked_at
            resting = self._usual_gap < RESTING and LEARNING * self._usual_gap < since < 1.5 * self._usual_gap
            seconds = min(seconds, 1.5 * self._usual_gap - since) if resting else 0.0
        if self._store.writing:
            seconds = 0.0
        reading = [c.socket for c in others]
        if time.perf_counter() >= self._deaf_until:
            reading.append(self._listener)
        writing = [c.socket for c in others if c.outbox]
        began = time.perf_counter()
        with contextlib.suppress(OSError, ValueError):
            select.select(reading, writing, [], max(0.0, seconds))
        rested = time.perf_counter() - began
        for client in self._clients:
            if client.number in busy:
                client.spent += rested / len(busy)
        if busy and others and time.perf_counter() < self._rest_until:
            self._resting = busy

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
            if hello is None or not hello.watch:
                continue
            try:
                data = pack_numbers(POSE, pose_to_client(hello, root_pos, rotations), time=moment)
                client.send_newest(POSE, data)
                client.write(self._now)
            except Exception as error:  # of this client alone
                self._fail(client, error)

    def clients(self) -> int:
        """How many clients are connected."""
        return len(self._clients)

    def save(self) -> int:
        """Save every rig that has learned since it was saved last; returns how many. Nothing without a folder.

        Waits for the disk. Raises OSError where some could not be saved, once the others are.
        """
        return self._store.save_changed()

    def close(self) -> None:
        """Save, close every connection and free the port. Raises OSError, in the end, where some rigs could not be saved."""
        try:
            self.save()
        finally:
            for client in list(self._clients):
                client.close("the server stops")
            self._listener.close()

    def attach(self, connection: socket.socket, now: float) -> int:
        """Serve a connected socket; returns the client's number. A silent one makes way where too many are connected."""
        prepare(connection)
        strangers = [c for c in self._clients if c.hello is None and not c.closing]
        if len(strangers) >= MOST_STRANGERS:
            quiet = min(strangers, key=lambda c: (c.token_given, bool(c.inbox), c.number))
            self._dismiss(quiet, "busy", "expected a handshake; others have come meanwhile")
            quiet.write(now)
            quiet.close("made way for another")
        self._count += 1
        client = accept(connection, self._count, now, self.token is not None, self._closed)
        client.spent = self._turn
        self._set_limits(client)
        self._clients.append(client)
        self._tell("connected", client, "connected")
        client.send(pack(AUTH, client.nonce))
        return client.number

    # -- clients -----------------------------------------------------------------------------------------------------

    def _accept(self, now: float) -> None:
        for _ in range(ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # too many open files: hear nobody for a while, instead of trying without end
                self._deaf_until = time.perf_counter() + 0.2
                return
            try:
                self.attach(connection, now)
            except OSError:  # gone already
                connection.close()

    def _serve(self, now: float, end: float) -> None:
        """Act on messages until ``end``, one after the other, always of the client that has used least time."""
        everyone = True
        while True:
            self._receive(now, everyone)
            everyone = False
            waiting = self._waiting()
            if not waiting:
                if not self._resting:  # nobody is owed anything, so all begin again as equals
                    self._turn = max([self._turn, *(c.spent for c in self._clients)])
                    for client in self._clients:
                        client.spent = self._turn
                return
            client = min(waiting, key=lambda c: c.spent)
            self._turn = max(self._turn, client.spent)
            begin = CLOCK()
            self._act(client, now)
            over = CLOCK()
            client.spent += over - begin
            if over >= end:
                return

    def _receive(self, now: float, everyone: bool) -> None:
        """Read what has come, and sort it; unless from ``everyone``, from those of whom nothing waits."""
        for client in self._readable(everyone):
            began = CLOCK()
            before = len(client.inbox)
            if not client.receive():
                client.ended = True
            if len(client.inbox) > before:
                client.heard_at = now
                if not client.waits:  # time that it did not use is not saved up
                    client.spent = max(client.spent, self._turn - HEAD_START)
            self._sort(client)
            client.spent += CLOCK() - began
        for client in [c for c in self._clients if c.ended and not c.waits and c.saving is None]:
            client.close("left")

    def _readable(self, everyone: bool = True) -> list[Connection]:
        """Clients that have sent something, or have closed their end; unless ``everyone``, those of whom nothing waits."""
        open_ = [c for c in self._clients if not c.ended and not c.closing and (everyone or not c.waits)]
        try:
            ready = set(select.select([c.socket for c in open_], [], [], 0)[0])
        except (OSError, ValueError):  # a socket that broke just now, or more files than select can handle: try all
            return open_
        return [c for c in open_ if c.socket in ready]

    def _waiting(self) -> list[Connection]:
        """Clients whose messages wait for their turn."""
        return [c for c in self._clients if c.waits and c.number not in self._resting]

    def _asked(self) -> bool:
        """Whether a client of which nothing waits has sent something."""
        return bool(self._readable(everyone=False))

    def _sort(self, client: Connection) -> None:
        try:
            client.sort()
        except ProtocolError as error:
            self._dismiss(client, "protocol", str(error))

    def _act(self, client: Connection, now: float) -> None:
        """Act on one message of a client. What goes wrong becomes an error message to it, and nothing else."""
        message = client.take()
        if message is None:
            return
        if message.type in (PREDICT, SOLVE):
            moment = time.perf_counter()
            self._usual_gap += 0.2 * (min(moment - self._asked_at, 1.0) - self._usual_gap)
            self._asked_at = moment
        try:
            if self._requests.needs_place(client, message) and not self._place(now):
                self._dismiss(client, "busy", f"expected at most {MOST_CLIENTS} clients")
                return
            refusal = self._requests.act(client, message, now)
            if refusal:
                self._dismiss(client, "token", refusal)
                return
            self._set_limits(client)
        except ValueError as error:
            self._mistake(client, message, "value", str(error), 1)
        except (
            Exception
        ) as error:  # a fault of ours that this client has met: it ends neither the server nor other clients
            self._mistake(client, message, "server", f"the server failed: {type(error).__name__}: {error}", 10)
        client.write(now)
        self._sort(client)

    def _place(self, now: float) -> bool:
        """Whether one more client may send its handshake; the one that has been silent longest makes way where it may."""
        known = [c for c in self._clients if c.hello is not None and not c.closing]
        if len(known) < MOST_CLIENTS:
            return True
        silent = [c for c in known if now - c.heard_at > SILENT and not (self.body is not None and c.watches)]
        if not silent:
            return False
        silent[0].close("silent, and made way for another")
        return True

    def _mistake(self, client: Connection, message: Message, code: str, text: str, weight: int) -> None:
        client.mistakes += weight
        if client.mistakes > MOST_MISTAKES:
            self._dismiss(client, "mistakes", f"expected at most {MOST_MISTAKES} mistakes; the last: {text}")
            return
        told = {"code": code, "text": text[:400], "type": message.type}
        client.send_newest(ERROR, pack_json(ERROR, told, sequence=message.sequence, time=message.time))
        if client.mistakes == weight or code != "value":
            self._tell("error", client, text[:400])

    def _fail(self, client: Connection, error: Exception) -> None:
        """Close a client that the server failed to serve."""
        self._dismiss(client, "server", f"the server failed: {type(error).__name__}: {error}")

    def _set_limits(self, client: Connection) -> None:
        solves = self.body is not None and self.body.solve is not None
        client.limits = limits_for(client, len(self.body.effectors) if self.body is not None and solves else None)

    def _dismiss_silent(self, client: Connection, now: float) -> None:
        if client.closing or client.hello is not None:
            return
        if not client.authorised and now - client.since > PATIENCE:
            self._dismiss(client, "token", f"expected the token within {PATIENCE:g} s")
        elif now - client.heard_at > GREETING:
            self._dismiss(client, "silent", f"expected a handshake within {GREETING:g} s")

    def _dismiss(self, client: Connection, code: str, text: str) -> None:
        """Send an error and close once it is sent."""
        self._tell("refused", client, text)
        client.close_after(pack_json(ERROR, {"code": code, "text": text[:400]}))

    def _closed(self, client: Connection, reason: str) -> None:
        self._clients.remove(client)
        in_use = self._requests.in_use()
        self._store.forget_untaught(in_use)
        if client.rig is not None and client.rig.changed and client.rig.fingerprint not in in_use:
            self._store.request(client.rig)
        self._tell("closed", client, reason)

    def _tell(self, kind: str, client: Connection | None, text: str) -> None:
        if len(self._events) < 256:
            self._events.append(Event(kind, 0 if client is None else client.number, text))


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
